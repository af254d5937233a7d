#!/bin/bash
# The whole life of jobs through redis-cli: one call per command, and a typed session.
set -u
host=${WEIR_RESP%:*} port=${WEIR_RESP##*:}
failed=0
tls=() # WEIR_TLS: the folder of `weir tls self-signed`
[ -n "${WEIR_TLS:-}" ] &&
        tls=(--tls --cacert "$WEIR_TLS/ca.crt" --cert "$WEIR_TLS/client.crt" --key "$WEIR_TLS/client.key")

cli() {
        redis-cli -h "$host" -p "$port" "${tls[@]}" ${WEIR_TOKEN:+--no-auth-warning -a "$WEIR_TOKEN"} "$@"
}

# field JOB-ID NAME: a value of the map that JOB answers.
field() {
        cli JOB "$1" | awk -v name="$2" 'found { print; exit } NR % 2 == 1 && $0 == name { found = 1 }'
}

step() {
        sentence=$1
        why=
}

same() {
        [ "$1" = "$2" ] || why="$why [$3 is '$1', wanted '$2']"
}

starts() {
        case $1 in
        "$2"*) ;;
        *) why="$why ['$1' does not start with '$2']" ;;
        esac
}

end() {
        if [ -z "$why" ]; then
                echo "ok - redis-cli: $sentence"
        else
                echo "not ok - redis-cli: $sentence: $why"
                failed=1
        fi
}

step "PING is answered"
same "$(cli PING)" PONG PING
end

step "a job is added, found, claimed and finished with a result"
id=$(cli ENQUEUE mail '{"to":"x"}' QUEUE one GROUP g PRIORITY 7 ATTEMPTS 2)
same "$(field "$id" status)" pending status
same "$(field "$id" args)" '{"to":"x"}' args
mapfile -t row < <(cli CLAIM w1 MAX 1 QUEUES one)
same "${row[0]:-}" "$id" id
same "${row[2]:-}" mail hook
same "$(field "$id" status)" in-progress status
same "$(cli EXTEND "$id" "${row[1]}" 60000)" OK EXTEND
same "$(cli PROGRESS "$id" "${row[1]}" 'half way')" OK PROGRESS
same "$(field "$id" progress)" 'half way' progress
same "$(cli COMPLETE "$id" "${row[1]}" '{"done":true}')" OK COMPLETE
same "$(field "$id" status)" complete status
same "$(field "$id" result)" '{"done":true}' result
end

step "many jobs are added in one command"
mapfile -t ids < <(cli ENQUEUEMANY QUEUE many JOBS a 1 b 2 c 3)
same "${#ids[@]}" 3 "count of ids"
mapfile -t rows < <(cli CLAIM w MAX 10 QUEUES many)
same "${#rows[@]}" 36 "lines of three jobs"
same "${rows[0]:-}" "${ids[0]:-}" "first id"
end

step "a delayed job comes when it is due"
id=$(cli ENQUEUE later x QUEUE delayed IN 5000)
same "$(cli CLAIM w QUEUES delayed)" "" early
mapfile -t row < <(cli CLAIM w WAIT 60000 QUEUES delayed)
same "${row[0]:-}" "$id" id
end

step "completing one job and claiming the next is one round trip"
mapfile -t ids < <(cli ENQUEUEMANY QUEUE chain JOBS h 1 h 2)
mapfile -t row < <(cli CLAIM w QUEUES chain)
mapfile -t next < <(cli COMPLETE "${ids[0]}" "${row[1]}" r CLAIM w MAX 1 QUEUES chain)
same "${next[0]:-}" "${ids[1]}" "next id"
same "$(cli COMPLETE "${ids[1]}" "${next[1]}" CLAIM w QUEUES chain)" "" rest
end

step "a failing job is tried again until its attempts are used up"
id=$(cli ENQUEUE bad x QUEUE fail ATTEMPTS 2)
mapfile -t row < <(cli CLAIM w QUEUES fail)
same "$(cli FAIL "$id" "${row[1]}" boom RETRYIN 1)" pending "first FAIL"
mapfile -t row < <(cli CLAIM w WAIT 5000 QUEUES fail)
same "${row[4]:-}" 2 attempt
same "$(cli FAIL "$id" "${row[1]}" 'boom again')" failed "second FAIL"
same "$(field "$id" error)" 'boom again' error
end

step "a released job comes back, a canceled one does not, and the story is told"
id=$(cli ENQUEUE r x QUEUE rel ATTEMPTS 1)
mapfile -t row < <(cli CLAIM w QUEUES rel)
same "$(cli RELEASE "$id" "${row[1]}")" OK RELEASE
mapfile -t row < <(cli CLAIM w QUEUES rel)
same "${row[0]:-}" "$id" id
same "$(cli CANCEL "$id")" OK CANCEL
same "$(cli CLAIM w QUEUES rel)" "" "after cancel"
same "$(cli EVENTS "$id" | grep -xE 'created|started|released|canceled' | paste -sd' ')" \
        "created started released started canceled" events
end

step "jobs are listed by filter and page by page"
words=()
for i in $(seq 25); do words+=(lister "needle$i"); done
mapfile -t ids < <(cli ENQUEUEMANY QUEUE list GROUP lg JOBS "${words[@]}")
seen=() cursor=
while :; do
        page=$(cli JOBS QUEUE list LIMIT 10 ${cursor:+CURSOR "$cursor"})
        mapfile -t found < <(awk 'was == "id" { print } { was = $0 }' <<<"$page")
        seen+=("${found[@]}")
        cursor=$(awk 'was == "cursor" { print } { was = $0 }' <<<"$page")
        [ -n "$cursor" ] || break
        [ "${#seen[@]}" -le 100 ] || break
done
same "${seen[*]}" "$(printf '%s\n' "${ids[@]}" | sort -rn | paste -sd' ')" "ids listed"
same "$(cli JOBS QUEUE list MATCH needle7 | grep -cx lister)" 1 "jobs that match"
same "$(cli JOBS GROUP lg STATUS complete | grep -cx lister)" 0 "complete jobs"
end

step "a paused queue hands out nothing until it is resumed"
id=$(cli ENQUEUE h x QUEUE stopgo)
same "$(cli PAUSE stopgo)" OK PAUSE
same "$(cli CLAIM w QUEUES stopgo)" "" paused
same "$(cli QUEUES | grep -cx stopgo)" 1 "queue listed"
same "$(cli RESUME stopgo)" OK RESUME
mapfile -t row < <(cli CLAIM w QUEUES stopgo)
same "${row[0]:-}" "$id" id
end

step "wrong requests are refused with a name and a reason"
starts "$(cli COMPLETE "$id" 00000000000000000000000000000000 2>&1)" "NOTOWNER "
starts "$(cli COMPLETE "$id" zz 2>&1)" "BADARG "
starts "$(cli JOB 999999999 2>&1)" "NOTFOUND "
starts "$(cli NOSUCH 2>&1)" "UNKNOWN "
starts "$(cli ENQUEUE h 2>&1)" "SYNTAX "
cli -e JOB 999999999 >/dev/null 2>&1 && why="$why [redis-cli -e saw no error]"
end

step "a session of many commands over one connection is answered line by line"
out=$(printf 'ENQUEUE h "a b" QUEUE typed\nNOSUCH\nPING\n' | cli | grep .)
same "$(wc -l <<<"$out" | tr -d ' ')" 3 lines
starts "$(sed -n 2p <<<"$out")" "UNKNOWN"
same "$(sed -n 3p <<<"$out")" PONG "third line"
end

step "COMMAND and INFO are answered"
cli COMMAND DOCS ENQUEUE | grep -q PRIORITY || why="$why [no PRIORITY in COMMAND DOCS]"
[ "$(cli COMMAND COUNT)" -gt 15 ] || why="$why [COMMAND COUNT]"
cli INFO | grep -qi '^# ' || why="$why [INFO has no sections]"
end

step "redis-cli -3 speaks RESP3"
same "$(cli -3 PING)" PONG PING
id=$(cli -3 ENQUEUE h x QUEUE three)
cli -3 JOB "$id" | grep -q pending || why="$why [JOB in RESP3]"
end

exit $failed
