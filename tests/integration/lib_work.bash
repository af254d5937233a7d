# What the tests of the worker share: a server, a worker in the background, and the pipes of its
# commands.

load lib_pipes.bash

setup() {
        start_with_pipes
        WORKER=
}

teardown() {
        if [ -n "$WORKER" ]; then
                kill -KILL "$WORKER" 2>/dev/null || true
                wait "$WORKER" || true
        fi
        stop_with_pipes
}

# start_worker OPTIONS...: in the background, its pid in WORKER, what it says in work.log
# HUP=ignore: as nohup would; else as from a terminal, whatever started the tests.
start_worker() {
        env "--${HUP:-default}-signal=HUP" "$WEIR_BIN" work "$@" 2>>work.log 3>&- 8>&- 9>&- &
        WORKER=$!
}

end_worker() {
        local status=0
        wait "$WORKER" || status=$?
        WORKER=
        return "$status"
}

let_go() {
        echo go >&8
}

# add HOOK [ARGS] OPTION...: a job, in queue q unless --queue is given
add() {
        untraced add_it "$@"
}

add_it() {
        local words=("$1") queue=q name
        shift
        if [[ ${1---} == --* ]]; then
                words+=('')
        else
                words+=("$1")
                shift
        fi
        while [ $# -gt 0 ]; do
                name=${1#--}
                case $name in
                queue) queue=$2 ;;
                attempts | backoff | group | priority) words+=("${name^^}" "$2") ;;
                *) echo "add: '$1' is not known" >&2 && return 1 ;;
                esac
                shift 2
        done
        enqueue "${words[@]}" QUEUE "$queue"
}
