# shellcheck shell=bash
# For tests that speak to weir's default addresses, as the documents do: namespaces of their own keep
# them from meeting anything else.

# enter_namespaces TEST "$@": runs the calling script again inside network and process namespaces, with
# the word `inside`; there it goes on.  Where there are none to be had, TEST is skipped.
enter_namespaces()
{
        local test=$1 spaces=(--net --pid --fork --kill-child --mount-proc)
        if [[ ${2:-} == inside ]]; then
                ip link set lo up
                return
        fi
        [[ $(id -u) == 0 ]] || spaces=(--user --map-root-user "${spaces[@]}")
        if ! unshare "${spaces[@]}" true 2>/dev/null; then
                echo "ok - $test # SKIP no namespaces here"
                exit 0
        fi
        exec unshare "${spaces[@]}" bash "$0" inside
}
