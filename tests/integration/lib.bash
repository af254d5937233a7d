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
#   ask WORD...                     a request that is no subject of the test, without a process: the
#                                   answer is in ANSWER; an error is told, and fails
#   tell WORD...                    the same for an answer with parts: all names and values, in a
#                                   row, in ANSWERS
#   enqueue HOOK ARGS OPTION...     the same for a job: its options as ENQUEUE knows them
#   field ID NAME                   one field of a job
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
        IFS= read -r -t 120 line <"$DATA/ready" || line=
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

# untraced COMMAND...: bats looks at every command that a test executes, which takes longer than most
# of them; here it does not.
untraced() {
        local -
        set +T
        "$@"
}

eventually() {
        untraced eventually_it "$@"
}

eventually_it() {
        # Long enough for a machine that is busy with something else: it ends a test that hangs.
        local until=$((SECONDS + 90)) pause=0.02 times=0
        until "$@"; do
                if [ "$SECONDS" -ge "$until" ]; then
                        echo "never came true: $*" >&2
                        return 1
                fi
                # Leaves the processor to whoever is waited for, more of it when that takes long.
                [ $((times += 1)) -lt 20 ] || pause=0.1
                sleep "$pause"
        done
}

# In the middle of a test "! command" would not fail it.
not() {
        ! "$@"
}

# reply FD: one value of a RESP reply into ANSWER; of a list (KIND *) how many follow.  It fails at what bash
# cannot hold, or reads too slowly.
reply() {
        local line LC_ALL=C
        IFS= read -r -t 60 -u "$1" line || return 1
        line=${line%$'\r'}
        ANSWER=${line:1} KIND=${line:0:1}
        case $line in
        -*) echo "$ANSWER" >&2 && return 1 ;;
        '$-1' | _) ANSWER=null ;;
        '$'*)
                local length=$ANSWER
                [ "$length" -le 16384 ] || return 1
                ANSWER=
                [ "$length" -eq 0 ] || IFS= read -r -t 60 -u "$1" -N "$length" ANSWER || return 1
                IFS= read -r -t 60 -u "$1" line
                ;;
        esac
}

# request FD WORD...
request() {
        local fd=$1 word all LC_ALL=C
        shift
        printf -v all '*%d\r\n' $#
        for word; do
                printf -v word '$%d\r\n%s\r\n' "${#word}" "$word"
                all+=$word
        done
        printf %s "$all" >&"$fd"
}

ask() {
        untraced ask_it "$@"
}

ask_it() {
        local fd status=0
        exec {fd}<>"/dev/tcp/127.0.0.1/$RESP_PORT" || return 1
        { request "$fd" "$@" && reply "$fd"; } || status=$?
        exec {fd}>&-
        return "$status"
}

tell() {
        untraced tell_it "$@"
}

tell_it() {
        local fd left=1 status=0
        ANSWERS=()
        exec {fd}<>"/dev/tcp/127.0.0.1/$RESP_PORT" || return 1
        request "$fd" "$@"
        while [ "$left" -gt 0 ]; do
                reply "$fd" || { status=1 && break; }
                left=$((left - 1))
                if [ "$KIND" = '*' ]; then
                        left=$((left + ANSWER))
                else
                        ANSWERS+=("$ANSWER")
                fi
        done
        exec {fd}>&-
        return "$status"
}

enqueue() {
        ask ENQUEUE "$@"
}

# claim_of QUEUE N: the ids of the jobs that worker w gets, as a list in JSON
claim_of() {
        untraced claim_it "$@"
}

claim_it() {
        local i ids=
        tell_it CLAIM w MAX "$2" QUEUES "$1" || return 1
        for ((i = 0; i + 1 < ${#ANSWERS[@]}; i++)); do # a job begins with its id and its token
                [[ ! ${ANSWERS[i + 1]} =~ ^[0-9a-f]{32}$ ]] || ids+=",${ANSWERS[i]}"
        done
        echo "[${ids#,}]"
}

# quick_field ID NAME: a field that is the same over RESP as in JSON, into ANSWER
quick_field() {
        local fd n name='' status=1
        exec {fd}<>"/dev/tcp/127.0.0.1/$RESP_PORT" || return 1
        request "$fd" JOB "$1"
        if reply "$fd" 2>/dev/null; then
                n=$ANSWER
                while [ $((n -= 2)) -ge 0 ] && reply "$fd" && name=$ANSWER && reply "$fd"; do
                        [ "$name" = "$2" ] || continue
                        status=0
                        break
                done
        fi
        exec {fd}>&-
        # What is JSON itself, or no text, is shown in another form.
        [ "$status" -eq 0 ] && [[ $ANSWER != [\[\{\"]* && ! ${ANSWER//$'\n'/} =~ [^[:print:]] ]]
}

# field ID NAME: one field of a job, as JSON without quotes.
field() {
        case $2 in
        args | attempt | attempts | created_ms | due_ms | error | fence | group | hook | lease_until_ms | \
                priority | queue | result | status | timeout | worker)
                if [ -z "${WEIR_TOKEN:-}" ] && untraced quick_field "$1" "$2"; then
                        printf '%s\n' "$ANSWER"
                        return
                fi
                ;;
        esac
        weir job show "$1" --json | jq -r ".$2"
}

has_status() {
        if [ -z "${WEIR_TOKEN:-}" ] && untraced quick_field "$1" status; then
                [ "$ANSWER" = "$2" ]
        else
                [ "$(weir job show "$1" --json | jq -r .status)" = "$2" ]
        fi
}
