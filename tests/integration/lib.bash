# What the integration tests share: a server of one's own in a folder of one's own.
#
#   start_weir [serve options...]   a server on a free port and a unix socket; sets
#                                   WEIR_URL HTTP_URL RESP_PORT HTTP_PORT RESP_SOCK DATA WEIR_PID
#   stop_weir                       SIGTERM; fails unless it exits 0
#   weir ...                        the binary under test
#   eventually COMMAND...           repeats until it succeeds, for 90 s at most
#   ends_after SECONDS BEGAN TEXT   TEXT has "until <moment> (<time> left)", and the moment is SECONDS
#                                   after a time between BEGAN (date +%s) and now
#   is_left MS BEGAN_MS LEFT_MS     LEFT_MS is what may be left of MS that began at BEGAN_MS or later
#
# After stop_weir (or a kill and a `wait`), start_weir starts again on the same DATA and RESP_SOCK.
# Set DATA= first for a fresh one.  Nobody sleeps to get ready: the ready line comes through a pipe.

: "${WEIR_BIN:=build/weir}"
case $WEIR_BIN in /*) ;; *) WEIR_BIN=$PWD/$WEIR_BIN ;; esac
export WEIR_BIN
unset WEIR_TOKEN NO_COLOR

weir() {
        "$WEIR_BIN" "$@"
}

start_weir() {
        local line form='^ready http=[^ ,]+:([0-9]+) resp=[^ ,]+:([0-9]+),'
        if [ -z "${DATA:-}" ]; then
                DATA=$(mktemp -d "${BATS_TEST_TMPDIR:-${TMPDIR:-/tmp}}/weir.XXXXXX")
                RESP_SOCK=$DATA/resp.sock
        fi
        rm -f "$DATA/ready"
        mkfifo "$DATA/ready"
        # bats waits for whoever holds its descriptor 3.
        "$WEIR_BIN" serve --data "$DATA/data" --resp 127.0.0.1:0 --resp "$RESP_SOCK" \
                --http 127.0.0.1:0 "$@" >"$DATA/ready" 2>>"$DATA/server.log" 3>&- &
        WEIR_PID=$!
        IFS= read -r -t 30 line <"$DATA/ready" || line=
        if [[ ! $line =~ $form ]]; then
                echo "weir did not get ready: '$line'" >&2
                cat "$DATA/server.log" >&2
                return 1
        fi
        HTTP_PORT=${BASH_REMATCH[1]}
        RESP_PORT=${BASH_REMATCH[2]}
        HTTP_URL=http://127.0.0.1:$HTTP_PORT
        WEIR_URL=redis://127.0.0.1:$RESP_PORT
        export WEIR_URL HTTP_URL RESP_PORT HTTP_PORT RESP_SOCK DATA WEIR_PID
}

stop_weir() {
        local status=0
        [ -n "${WEIR_PID:-}" ] || return 0
        kill -TERM "$WEIR_PID" 2>/dev/null || true
        wait "$WEIR_PID" || status=$?
        WEIR_PID=
        if [ "$status" -ne 0 ]; then
                echo "weir ended with $status" >&2
                cat "$DATA/server.log" >&2
        fi
        return "$status"
}

# How long a machine took to come here is not known, so a time that is left is never compared as text.
ends_after() {
        local form='until ([0-9-]+ [0-9:]+ [+-][0-9]+) \(([0-9]+ (h|min|s)( [0-9]+ (min|s))?) left\)$' at
        [[ $3 =~ $form ]] || return 1
        at=$(date -d "${BASH_REMATCH[1]}" +%s)
        [ "$at" -ge $(($2 + $1 - 1)) ] && [ "$at" -le $(($(date +%s) + $1 + 1)) ]
}

is_left() {
        [ "$3" -le "$1" ] && [ "$3" -ge $(($1 - ($(date +%s%3N) - $2) - 1)) ]
}

eventually() {
        # Long enough for a machine that is busy with something else: it ends a test that hangs.
        local until=$((SECONDS + 90))
        until "$@"; do
                if [ "$SECONDS" -ge "$until" ]; then
                        echo "never came true: $*" >&2
                        return 1
                fi
                sleep 0.02 # leaves the processor to whoever is waited for
        done
}

# In the middle of a test "! command" would not fail it.
not() {
        ! "$@"
}

# field ID NAME: one field of a job, as JSON without quotes.
field() {
        weir job show "$1" --json | jq -r ".$2"
}

has_status() {
        [ "$(field "$1" status)" = "$2" ]
}
