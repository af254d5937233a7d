#!/usr/bin/env bats
# weir-test: timeout=120 bin=release long
# weir lock run and weir mutex: a lock around a command, as in a crontab.

bats_require_minimum_version 1.5.0
load lib_pipes.bash

setup() {
        start_with_pipes
        HOLDER=
}

teardown() {
        if [ -n "$HOLDER" ]; then
                kill -TERM "$HOLDER" 2>/dev/null || true
        fi
        stop_with_pipes
}

# under_lock ARG...: weir lock run in the background, its pid in HOLDER
under_lock() {
        "$WEIR_BIN" lock run "$@" >said <go 2>errors 3>&- 8>&- 9>&- &
        HOLDER=$!
}

# ends_with CODE: the exit code of the one in the background
ends_with() {
        local status=0
        wait "$HOLDER" || status=$?
        HOLDER=
        [ "$status" -eq "$1" ] || { echo "it ended with $status"; return 1; }
}

# held NAME [options]: a command that runs under the lock, in the background, its pid in COMMAND_PID,
# until let_go CODE tells it how to end.
held() {
        under_lock "$@" -- sh -c 'echo "$$"; read -r code; exit "$code"'
        hear
        COMMAND_PID=$REPLY
}

let_go() {
        echo "$1" >&8
        ends_with "$1"
}

is_gone() {
        ! kill -0 "$1" 2>/dev/null
}

is_free() {
        tell LOCKED "$1"
        [[ ${ANSWERS[*]} == "name $1 state free "* ]]
}

has_waiting() {
        tell LOCKED "$1"
        [[ ${ANSWERS[*]} == *" waiting $2 holders"* ]]
}

# has_held NAME AGE REMAINING: its first holder has it longer than AGE, and that for REMAINING, in ms
has_held() {
        local form=' age_ms ([0-9]+) ttl_ms [0-9]+ remaining_ms ([0-9]+)'
        tell LOCKED "$1"
        [[ ${ANSWERS[*]} =~ $form ]] && [ "${BASH_REMATCH[1]}" -gt "$2" ] &&
                [ "${BASH_REMATCH[2]}" -gt "$3" ]
}

@test "the exit code is the command's" {
        run weir lock run a -- true
        [ "$status" -eq 0 ]
        run weir lock run a -- sh -c 'exit 42'
        [ "$status" -eq 42 ]
        run weir lock run a -- sh -c 'kill -9 $$'
        [ "$status" -eq 137 ]
        run -127 weir lock run a -- no-such-program
        [[ $output == *"cannot run no-such-program"* ]]
        run weir lock run a -- /
        [ "$status" -eq 126 ]
        is_free a
}

@test "the command gets its words and its standard input as they are" {
        run bash -c 'printf in | "$1" lock run a -- sh -c "cat; printf %s, \"\$@\"" x "a b" -n -- ""' \
                - "$WEIR_BIN"
        [ "$status" -eq 0 ]
        [ "$output" = "ina b,-n,--,," ]
}

@test "the command finds name, token and fence in its environment" {
        run weir lock run 'a b' -- sh -c 'echo "$WEIR_LOCK_NAME/$WEIR_LOCK_TOKEN/$WEIR_FENCE"'
        [[ $output =~ ^a\ b/[0-9a-f]{32}/[0-9]+$ ]]
        first=${output##*/}
        run weir lock run 'a b' -- sh -c 'echo "$WEIR_FENCE"'
        [ "$output" -gt "$first" ]
}

@test "like flock -n it is silent and exits 1 when another holds the lock" {
        held a
        run weir lock run a -- echo never
        [ "$status" -eq 1 ]
        [ -z "$output" ]
        run weir lock run a --conflict-exit-code 75 -- echo never
        [ "$status" -eq 75 ]
        run weir lock run a --verbose -- echo never
        [ "$status" -eq 1 ]
        [[ $output == *"held by"* ]]
        run weir lock run b -- echo other
        [ "$output" = other ]
        let_go 3
        is_free a
}

@test "with --wait it gets the lock as soon as it is free" {
        held a
        "$WEIR_BIN" lock run a --wait 60 -- sh -c 'exit 9' 3>&- 8>&- 9>&- &
        waiter=$!
        eventually has_waiting a 1
        let_go 0
        status=0
        wait "$waiter" || status=$?
        [ "$status" -eq 9 ]
        held2=$(weir mutex list --json | jq '.locks | length')
        [ "$held2" -eq 0 ]
}

@test "a wait that is over exits like a conflict" {
        held a
        run weir lock run a --wait 200ms -- echo never
        [ "$status" -eq 1 ]
        [ -z "$output" ]
        let_go 0
}

@test "a semaphore lets as many run as it has places" {
        held a --count 2
        run weir lock run a --count 2 -- echo second
        [ "$output" = second ]
        run weir lock run a --count 2 -- "$WEIR_BIN" lock run a --count 2 -- true
        [ "$status" -eq 1 ]
        run weir lock run a -- true
        [ "$status" -eq 5 ]
        [[ $output == *"2 places"* ]]
        let_go 0
}

@test "the lock is renewed while the command runs" {
        held a --ttl 3
        eventually has_held a 6500 0
        run weir lock run a -- true
        [ "$status" -eq 1 ]
        let_go 4
}

@test "the command is stopped when the lock is taken away" {
        held a --ttl 2
        run weir mutex release a --yes --reason 'test'
        [ "$status" -eq 0 ]
        ends_with 5
        is_gone "$COMMAND_PID"
        grep -q 'another may hold it' errors
        grep -q 'reason=test' "$DATA/server.log"
}

@test "a command that ignores TERM is killed, and with it what it started" {
        under_lock a --ttl 1 -- sh -c 'trap "" TERM; sleep 1000 & echo "$$ $!"; wait; wait'
        hear
        read -r leader child <<<"$REPLY"
        weir mutex release a --yes
        ends_with 5
        is_gone "$leader"
        eventually is_gone "$child"
}

@test "with the server away the command is stopped before the lock can run out" {
        held a --ttl 9
        kill -9 "$WEIR_PID"
        wait "$WEIR_PID" || true
        begin=$(date +%s%N)
        wait_status=0
        ends_with 5 || wait_status=$?
        took_ms=$((($(date +%s%N) - begin) / 1000000))
        [ "$wait_status" -eq 0 ]
        is_gone "$COMMAND_PID"
        # The last renewal was at most 3 s before; two thirds of the time are given, and the last
        # third is for a machine that is late.
        [ "$took_ms" -lt 9000 ]
        [ "$took_ms" -gt 2700 ]
        start_weir
        weir mutex show a
}

@test "a restart of the server goes unnoticed" {
        # The socket is the same again; a port might meanwhile be another program's.
        export WEIR_URL=$RESP_SOCK
        held a --ttl 9
        kill -9 "$WEIR_PID"
        wait "$WEIR_PID" || true
        start_weir
        fence=$(weir mutex show a --json | jq '.holders[0].fence')
        eventually has_held a 4000 5500
        [ "$(weir mutex show a --json | jq '.holders[0].fence')" = "$fence" ]
        let_go 0
}

@test "signals go to the command, and the lock is given back" {
        under_lock a -- sh -c 'trap "exit 33" USR1; echo up; while :; do sleep 0.05; done'
        hear
        kill -USR1 "$HOLDER"
        ends_with 33
        is_free a
        held b
        kill -TERM "$HOLDER"
        ends_with 143
        is_gone "$COMMAND_PID"
        is_free b
}

@test "a waiter that gets TERM leaves the queue" {
        held a
        "$WEIR_BIN" lock run a --wait 60 -- true 3>&- 8>&- 9>&- &
        waiter=$!
        eventually has_waiting a 1
        kill -TERM "$waiter"
        status=0
        wait "$waiter" || status=$?
        [ "$status" -eq 143 ]
        eventually has_waiting a 0
        let_go 0
}

@test "when lock run itself is killed, the command gets TERM" {
        held a --ttl 1
        kill -9 "$HOLDER"
        ends_with 137
        eventually is_gone "$COMMAND_PID"
        eventually is_free a
}

@test "a wait goes on over restarts of the server" {
        local way first
        for way in TERM KILL; do
                first=$(redis-cli -p "$RESP_PORT" LOCK "$way" EX 3600 | head -n 1)
                WEIR_URL=$RESP_SOCK under_lock "$way" --wait 600 -- sh -c 'echo "$$"; read -r code; exit "$code"'
                eventually has_waiting "$way" 1
                kill -"$way" "$WEIR_PID"
                wait "$WEIR_PID" || true
                start_weir
                eventually has_waiting "$way" 1
                redis-cli -p "$RESP_PORT" UNLOCK "$way" "$first"
                hear
                let_go 0
                grep -q 'the server is away; waiting' errors
        done
}

@test "a wait that ends while the server is away exits with 7" {
        redis-cli -p "$RESP_PORT" LOCK a EX 3600
        under_lock a --wait 5 -- echo never
        eventually has_waiting a 1
        stop_weir
        ends_with 7
        grep -q 'nothing answers' errors
        [ ! -s said ] || ! grep -q never said
        start_weir
}

@test "a server that dies while the lock is given back is asked again when it is back" {
        export WEIR_URL=$RESP_SOCK
        held a --ttl 600
        kill -STOP "$WEIR_PID"
        echo 0 >&8
        eventually is_gone "$COMMAND_PID"
        kill -9 "$WEIR_PID"
        wait "$WEIR_PID" || true
        start_weir
        ends_with 0
        # On a busy machine it may have given up, and says so.
        is_free a || grep -q 'not given back' errors
}

@test "without a server nothing is run" {
        stop_weir
        run weir lock run a -- echo never
        [ "$status" -eq 7 ]
        [[ $output == *"nothing answers"* ]]
        [[ $output != *never* ]]
        start_weir
}

# with_hosts LINES COMMAND...: it finds these names and no others
with_hosts() {
        local spaces=(--mount)
        [ "$(id -u)" -eq 0 ] || spaces+=(--user --map-root-user)
        printf %s "$1" >hosts
        shift
        unshare "${spaces[@]}" sh -c 'mount --bind hosts /etc/hosts && exec "$@"' - "$@"
}

@test "all addresses of a name are tried before it gives up" {
        # Addresses of its own: another program may be given a port of 127.0.0.1 that became free.
        local port=$RESP_PORT net=127.$((BASHPID / 250 % 250 + 1)).$((BASHPID % 250 + 1)) names
        names="$net.1 weirs"$'\n'"$net.2 weirs"$'\n'"$net.3 weirs"$'\n'
        with_hosts '' true || skip "no namespaces here"
        stop_weir
        run with_hosts "$names" "$WEIR_BIN" --url "weirs:$port" lock run a -- echo never
        [ "$status" -eq 7 ] || { echo "$status: $output"; return 1; }
        [[ $output == *"nothing answers"* ]]
        start_weir --resp "$net.2:$port"
        run with_hosts "$names" "$WEIR_BIN" --url "weirs:$port" lock run a -- echo found
        [ "$output" = found ] || { echo "$output"; return 1; }
}

# locks on|off: the setting of the server
locks() {
        curl -sf --json "{\"value\":\"$1\"}" "$HTTP_URL/v1/settings/locks.enabled" >/dev/null
}

@test "with locks switched off nothing is run, it says why, and exits with 7, not like a conflict" {
        locks off
        run --separate-stderr weir lock run a --conflict-exit-code 0 -- echo never
        [ "$status" -eq 7 ]
        [ -z "$output" ]
        # shellcheck disable=SC2154 # bats sets it
        [ "$stderr" = "weir: locks are switched off; the setting locks.enabled says so" ]
        run --separate-stderr weir mutex list
        [ -z "$output" ]
        [ "$stderr" = "no locks are held
locks are switched off (setting locks.enabled): nobody is given one, holders keep theirs; \
'weir setting set locks.enabled true' switches them on" ]
        [ "$(weir mutex list --json)" = '{"locks":[],"cursor":"","enabled":false}' ]
        locks on
        run weir lock run a -- echo now
        [ "$output" = now ]
        [ "$(weir mutex list --json)" = '{"locks":[],"cursor":"","enabled":true}' ]
}

@test "switched off while it waits, it ends at once, and the one that runs keeps its lock" {
        held a --ttl 5
        "$WEIR_BIN" lock run a --wait 600 -- true 2>waited 3>&- 8>&- 9>&- &
        waiter=$!
        eventually has_waiting a 1
        locks off
        status=0
        wait "$waiter" || status=$?
        [ "$status" -eq 7 ]
        grep -q 'locks are switched off' waited
        eventually has_held a 6000 0
        let_go 4
        is_free a
}

@test "wrong words are explained and nothing is run" {
        for words in '--ttl 0' '--ttl 86401' '--ttl x' '--wait -1' '--wait 2d' '--count 0' \
                '--count 1001' '--conflict-exit-code 256' '--nonsense'; do
                # shellcheck disable=SC2086
                run weir lock run a $words -- echo never
                [ "$status" -eq 2 ]
                [[ $output != *never* ]]
        done
        run weir lock run a
        [ "$status" -eq 2 ]
        [[ $output == *"-- CMD"* ]]
        run weir lock run -- echo never
        [ "$status" -eq 2 ]
        run weir lock run a --
        [ "$status" -eq 2 ]
        is_free a
}

@test "mutex list, show and release" {
        run weir mutex list
        [[ $output == *"no locks are held"* ]]
        held 'a b' --owner tester
        run weir mutex list
        [[ $output == *"a b"*tester* ]]
        run weir mutex list --match zzz --json
        [ "$output" = '{"locks":[],"cursor":"","enabled":true}' ]
        run weir mutex show 'a b'
        [[ $output == *"1 of 1 held, 0 waiting"*tester* ]]
        [ "$(weir mutex show nobody)" = "lock nobody: free" ]
        run weir mutex release 'a b' </dev/null
        [ "$status" -eq 3 ]
        [[ $output == *"--yes"* ]]
        run weir mutex release nobody --yes
        [ "$status" -eq 4 ]
        weir mutex show 'a b'
        let_go 0
}
