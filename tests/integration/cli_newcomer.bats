#!/usr/bin/env bats
# weir-test: timeout=120 bin=release
# The first steps of somebody new: wrong words, files that are not there, a server that is away or
# wants a token, a reader that has gone, Ctrl-C in the middle.  Each ends with a sentence that says
# what to do, and leaves nothing half done behind.

load lib.bash

setup() {
        start_weir
        cd "$DATA" || return 1
}

teardown() {
        for pid in ${ADD_PID:-}; do
                kill -KILL "$pid" 2>/dev/null || true
        done
        stop_weir
}

ready_in() {
        weir queue show "$1" --json | jq .ready
}

# --- a file of jobs ---

@test "a file that is no job at all says so once, and that nothing was added" {
        echo '{"hook":"h"' >bad
        run weir job add --file bad
        [ "$status" -eq 2 ]
        [ "${lines[0]}" = "weir: line 1: JSON: expected ',' or '}' after the value, found the end at offset 11 (column 12)" ]
        [ "${lines[1]}" = "weir: line 1 is no job (nothing was added)" ]
        printf '{"hook":"h"}\n\n{"hook":7}\n' >bad
        run weir job add --file bad
        [ "${lines[0]}" = "weir: line 3: hook must be a string, not a number" ]
        [ "${lines[1]}" = "weir: line 3 is no job (nothing was added)" ]
        [ "$(weir queue list --json)" = '{"queues":[]}' ]
}

@test "a file that an editor began with a mark of its encoding is read" {
        printf '\xef\xbb\xbf{"hook":"h"}\r\n{"hook":"i"}\r\n' >marked
        run weir job add --file marked
        [ "$output" = "added 2 jobs" ]
        printf '{"hook":"h"}\n\xef\xbb\xbf{"hook":"i"}\n' >late
        run weir job add --file late
        [ "$status" -eq 2 ]
        [[ $output == *"line 2: JSON: expected a value, found byte 0xef"* ]]
}

# Sends SIGINT to a job that reads a pipe; its output is in `out`, its status in STATUS.
interrupt() {
        kill -INT "$ADD_PID"
        STATUS=0
        wait "$ADD_PID" || STATUS=$?
        ADD_PID=
        exec 8>&-
        cat out
}

@test "Ctrl-C in the middle of a file of jobs tells what was added, to the job" {
        mkfifo pipe
        # A shell without job control starts it with SIGINT ignored; env gives it back.
        env --default-signal=INT "$WEIR_BIN" job add --file pipe >out 2>&1 3>&- &
        ADD_PID=$!
        exec 8>pipe
        seq 10001 | sed 's/.*/{"hook":"h","args":&,"queue":"q"}/' >&8
        has_some() { [ "$(weir queue list --json | jq '.queues | map(.ready) | add // 0')" -ge 10000 ]; }
        eventually has_some
        interrupt
        [ "$STATUS" -eq 130 ]
        [ "$(cat out)" = "weir: interrupted (added: 10000 jobs, nothing after line 10000)" ]
        [ "$(ready_in q)" = 10000 ]
}

@test "Ctrl-C in the middle of an import tells what was imported, and closes no batch" {
        mkfifo pipe
        env --default-signal=INT "$WEIR_BIN" import pipe --again >out 2>&1 3>&- &
        ADD_PID=$!
        exec 8>pipe
        {
                echo '{"type":"weir","version":1,"at_ms":1}'
                echo '{"type":"batch","name":"b","ondone":"over","total":1,"status":"closed"}'
                echo '{"type":"job","id":1,"hook":"h","batch":"b"}'
                echo '{"type":"limit","name":"l","amount":1,"period_ms":1000}'
        } >&8
        has_limit() { weir limit show l >/dev/null 2>&1; }
        eventually has_limit
        interrupt
        [ "$STATUS" -eq 130 ]
        grep -q '^imported 1 job and 2 things$' out
        grep -q '^weir: interrupted$' out
        [ "$(weir batch show b --json | jq -r .status)" = open ]
}

# --- backup ---

@test "a backup says why it cannot be made" {
        mkdir there
        run weir backup there --data "$DATA/data"
        [ "$status" -eq 1 ]
        [ "$output" = "weir backup: there is there already: name a new folder" ]
        run weir backup no/where --data "$DATA/data"
        [ "$status" -eq 1 ]
        [ "$output" = "weir backup: cannot make no/where.part: No such file or directory" ]
        run weir backup copy --data "$DATA/nothing"
        [ "$status" -eq 4 ]
        [ "$output" = "weir backup: $DATA/nothing is no data folder of weir: name it with --data or -c" ]
        run weir backup copy --data "$DATA/server.log"
        [ "$status" -eq 4 ]
        run weir backup copy more --data "$DATA/data"
        [ "$status" -eq 2 ]
        [ "$output" = "weir backup: unexpected argument 'more'" ]
        run weir backup copy -c nowhere.conf
        [ "$status" -eq 1 ]
        [[ $output == *"nowhere.conf: No such file"* ]]
        [ ! -e copy ]
}

@test "a backup that fails or is interrupted leaves no folder that looks like one" {
        weir job add h
        stop_weir
        cp -r "$DATA/data" broken
        head -c 8192 /dev/zero >broken/history.db
        rm -f broken/history.db-*
        run weir backup copy --data broken
        [ "$status" -ne 0 ]
        [ ! -e copy ]
        [ ! -e copy.part ]
        # The folder is synced last of all.
        run strace -f -qq -o /dev/null -e trace=fsync -e inject=fsync:signal=KILL:when=1+ \
                "$WEIR_BIN" backup copy --data "$DATA/data"
        [ "$status" -ne 0 ]
        [ ! -e copy ]
        [ -d copy.part ]
        run weir backup copy --data "$DATA/data"
        [ "$status" -eq 1 ]
        [ "$output" = "weir backup: copy.part is left of a backup that did not end, or of one that goes on: remove it first" ]
        rm -r copy.part
        weir backup copy --data "$DATA/data"
        [ "$(ls -d copy*)" = copy ]
        weir log verify copy
        start_weir
}

@test "a backup whose words cannot be written is made, and says so" {
        run bash -c "'$WEIR_BIN' backup copy --data '$DATA/data' 2>&1 >/dev/full"
        [ "$status" -eq 1 ]
        [ "$output" = "weir backup: cannot write the output: No space left on device" ]
        weir log verify copy
}

# --- doctor ---

# The finding of that name: verdict, text, fix.
finding() {
        jq -r --arg name "$1" '.checks[] | select(.name == $name) | [.verdict, .text, .fix] | join("; ")' <<<"$output"
}

@test "the doctor's advice fits what it found" {
        run weir doctor -c nowhere.conf --json
        [ "$(finding configuration)" = "bad; nowhere.conf: No such file or directory; name the server's file with -c FILE" ]
        run weir doctor -c . --json
        [ "$(finding configuration)" = "bad; .: Is a directory; name the server's file with -c FILE" ]
        echo 'nonsense = 1' >worse.conf
        run weir doctor -c worse.conf --json
        [[ $(finding configuration) == "bad; worse.conf"*"'weir config check FILE' says in which line" ]]
        run weir doctor --data worse.conf --json
        [ "$(finding 'data folder')" = "bad; worse.conf is no folder; name a folder with --data" ]
        [ "$(finding 'disk sync')" = "" ]
        run weir doctor --data none --json
        [ "$(finding 'data folder')" = "warn; none is not there yet; . can be written; the first start makes it; or name the one that is used, with --data or -c" ]
}

@test "the doctor tells a missing token from a server that is not weir" {
        stop_weir
        (umask 077 && echo a-token-of-some-length >token)
        start_weir --token-file token
        run weir doctor --data "$DATA/data" --json
        [[ $(finding server) == "bad; "*"wants a token"*"; --token @FILE, or -c with the configuration that names its token file" ]]
        run weir doctor --data "$DATA/data" --token wrong --json
        [[ $(finding server) == "bad; the access token is wrong; --token @FILE, or -c "* ]]
        run weir doctor --data "$DATA/data" --token @token --json
        [[ $(finding server) == "ok; "* ]]
}

@test "what cannot be written is told, whatever the command" {
        for words in "doctor --data $DATA/data" "completion bash" "queue list --json" "export"; do
                # shellcheck disable=SC2086
                run bash -c "'$WEIR_BIN' $words 2>&1 >/dev/full"
                [ "$status" -eq 1 ]
                [[ $output == *"cannot write the output: No space left on device"* ]]
        done
}

# --- completion ---

@test "a script that nobody reads to its end is no error" {
        for shell in bash zsh fish; do
                run bash -c "set -o pipefail; '$WEIR_BIN' completion $shell | head -1"
                [[ $status -eq 0 || $status -eq 141 ]]
                [[ ${#lines[@]} -eq 1 ]]
        done
        run weir completion
        [ "$status" -eq 2 ]
        [[ $output == *"bash|zsh|fish"* ]]
        run weir completion ksh
        [ "$status" -eq 2 ]
        [[ $output == *"bash, zsh and fish"* ]]
}

# --- words in the wrong order, or of another program ---

@test "words in the wrong order are answered with the right one" {
        run weir add job hello
        [ "$status" -eq 2 ]
        [ "${lines[0]}" = "weir: there is no command 'add'; did you mean 'job add'?" ]
        run weir list queues
        [ "${lines[0]}" = "weir: there is no command 'list'; did you mean 'job list'?" ]
        run weir pause queue mail
        [ "${lines[0]}" = "weir: 'weir pause' stops every queue; for one say 'weir queue pause mail'" ]
        run weir lock list
        [ "$status" -eq 2 ]
        [ "${lines[0]}" = "weir: there is no 'lock' command 'list'; did you mean 'mutex list'?" ]
        run weir lock sync -- true
        [ "${lines[0]}" = "weir: there is no 'lock' command 'sync'; there is: run" ]
}

@test "a subcommand that is not there is answered with those that are" {
        run weir queue rm mail
        [ "$status" -eq 2 ]
        [ "${lines[0]}" = "weir: there is no 'queue' command 'rm'; there are: list, show, set, pause, resume, remove" ]
        [ "${lines[1]}" = "try 'weir queue --help'" ]
        [ "$(weir queue list --json)" = '{"queues":[]}' ]
}

@test "'help' after a command explains it too" {
        [ "$(weir job help)" = "$(weir job --help)" ]
        [ "$(weir job help add)" = "$(weir job add --help)" ]
        run weir job help nothing
        [ "$status" -eq 2 ]
}

@test "a command without its two dashes is told where they go" {
        run weir lock run sync sh -c 'exit 0'
        [ "$status" -eq 2 ]
        [ "${lines[1]}" = "try 'weir lock run NAME [options] -- COMMAND [ARG...]'" ]
        run weir breaker run smtp rsync -a x y
        [ "$status" -eq 2 ]
        [[ ${lines[1]} == "try 'weir breaker run "*"-- COMMAND"* ]]
        run weir lock run sync --nonsense -- true
        [ "${lines[1]}" = "try 'weir lock run --help'" ]
}

# --- times ---

@test "a time that is out of bounds says in which unit" {
        run weir schedule add fast h --every 10ms
        [ "$status" -eq 2 ]
        [ "$output" = "weir: every must be 100 to 315360000000 ms, not 10" ]
        run redis-cli -p "$RESP_PORT" LOCK l 60
        [[ $output == "BADARG ttl is in milliseconds and at least 1000, not 60; for seconds say EX 60, for milliseconds PX 60"* ]]
        run redis-cli -p "$RESP_PORT" ENQUEUE h '' IN 5s
        [[ $output == "BADARG in must be a whole number from 0 to 315360000000 ms, not '5s'"* ]]
        run redis-cli -p "$RESP_PORT" ENQUEUE h '' PRIORITY 256
        [[ $output == "BADARG priority must be 0 to 255, not 256"* ]]
        [ "$(curl -s --json '{"ttl":"60s"}' "$HTTP_URL/v1/locks/l" | jq -r .detail)" = \
                "ttl must be a whole number of milliseconds, not a string" ]
        [ "$(curl -s --json '{"ttl":1.5}' "$HTTP_URL/v1/locks/l" | jq -r .detail)" = \
                "ttl must be a whole number from 1000 to 86400000 ms, not 1.5" ]
        [ "$(weir mutex list --json | jq '.locks | length')" = 0 ]
}

@test "since when: how long ago is among what is allowed" {
        run weir job list --since yesterday
        [ "$status" -eq 2 ]
        [[ $output == "weir: --since: 'yesterday' is no time: 2h (so long ago), 2026-11-15T10:00,"* ]]
        run weir job add h --at yesterday
        [[ $output == "weir: --at: 'yesterday' is no time: 2026-11-15T10:00,"* ]]
}

@test "a backoff without a unit is asked for it, and nothing is set" {
        for rule in fixed:5 exp:5 exp:5,2 exp:5s,2,5 list:1s,5; do
                run weir queue set q --backoff "$rule"
                [ "$status" -eq 2 ]
                [ "$output" = "weir: --backoff: 5 of what? Write 5ms, 5s or 5m" ]
        done
        run weir job add h --backoff fixed:5
        [ "$status" -eq 2 ]
        run weir schedule add s h --every 1h --backoff list:5
        [ "$status" -eq 2 ]
        [ "$(weir queue list --json)" = '{"queues":[]}' ]
        for rule in none exp exp:5s,2 exp:5s,2,5m,15% list:1s,30s fixed:1h30m; do
                weir queue set q --backoff "$rule" --create
        done
        run weir queue set q --backoff exponential
        [[ $output == "weir: backoff is none, fixed:5s, exp:5s,2,5m,15% or list:1s,30s,5m"* ]]
}

# --- what the server says names what every door has ---

@test "advice of the server can be followed on the command line" {
        weir job add h
        weir work --queue default --exec cat --once --quiet
        eventually has_status 1 complete
        run weir job retry 1
        [ "$status" -eq 5 ]
        [ "$output" = "weir: job 1 is complete: it runs again only with force" ]
        run weir job run 1
        [ "$output" = "weir: job 1 has ended: retry it to run it again" ]
        weir job retry 1 --force
        run weir limit take none
        [ "$output" = "weir: there is no rate limit 'none'; an amount and its period would make one" ]
        weir limit take none --amount 5 --per 1m
        run weir registry unset none
        [ "$output" = "weir: 'none' was not set; the registry lists what was" ]
        run weir client show none
        [ "$output" = "weir: no client has asked as 'none' since weir started, and no earlier minute in history names it; the list of clients shows who has asked" ]
        run weir host recover none
        [ "$output" = "weir: 'none' is not skipped; the list of skipped hosts has those that are" ]
        run weir setting set none 1
        [ "$output" = "weir: there is no setting 'none'; the list of settings has all" ]
}

@test "the usage of a command with many options is told whole" {
        run redis-cli -p "$RESP_PORT" ENQUEUEMANY mail 1 mail 2
        [[ $output == "SYNTAX not understood: 'mail'; usage: ENQUEUEMANY [options] JOBS hook args [hook args ...]; options: QUEUE GROUP PRIORITY "*" TIER"* ]]
        run redis-cli -p "$RESP_PORT" ENQUEUE mail 1 DELAY 5
        [[ $output == "SYNTAX not understood: 'DELAY'; usage: ENQUEUE hook args [options]; options: QUEUE "*" IN AT "*" TIER"* ]]
        run redis-cli -p "$RESP_PORT" UNLOCK l
        [[ $output == "SYNTAX too few words; usage: UNLOCK name token"* ]]
        [ "$(weir queue list --json)" = '{"queues":[]}' ]
}

# --- a unique key ---

@test "a job that was there already is not called added" {
        [ "$(weir job add h --unique k)" = "job 1 holds the unique key: added now, or there before" ]
        [ "$(weir job add h --unique k)" = "job 1 holds the unique key: added now, or there before" ]
        [ "$(weir job add h --unique k --id-only)" = 1 ]
        [ "$(weir job add h --unique other --conflict reject)" = "added job 2" ]
        [ "$(weir job add h)" = "added job 3" ]
}

# --- a server that does not start ---

@test "a server that cannot start says what to do" {
        run weir serve --data other --resp "127.0.0.1:$RESP_PORT" --http 127.0.0.1:0
        [ "$status" -eq 1 ]
        [[ $output == *"weir serve: cannot listen on 127.0.0.1:$RESP_PORT: address already in use; if that is no weir, name another with --resp and --http" ]]
        run weir serve --data "$DATA/data" --resp 127.0.0.1:0 --http 127.0.0.1:0
        [ "$status" -eq 5 ]
        [ "$output" = "weir serve: $DATA/data/log is in use by process $WEIR_PID: stop that one, or name another folder with --data" ]
        stop_weir
        cp -r "$DATA/data" broken
        truncate -s 100 broken/log/0000000000000001.seg
        run weir serve --data broken --resp 127.0.0.1:0 --http 127.0.0.1:0
        [ "$status" -eq 9 ]
        [ "$output" = "weir serve: 0000000000000001.seg at byte 100: the file is cut short; 'weir log verify broken' shows all damage, 'weir log salvage broken NEWDIR' saves what is sound" ]
        start_weir
}

@test "an option of the configuration that is not there is answered with one that is" {
        printf 'target "shop" {\n kind = "mysql"\n password = "x"\n}\n' >c
        run weir config check c
        [ "$status" -eq 2 ]
        [ "$output" = "weir: c:3: no such option 'password'; did you mean 'password_file'?" ]
        printf 'bogus\n' >c
        run weir config check c
        [ "$output" = "weir: c:1: no such option 'bogus'; weir.conf(5) lists them" ]
}

@test "without a configuration file, show says so" {
        run weir config show
        [ "$status" -eq 0 ]
        [[ $output == *"no configuration file was given; --defaults shows what holds"* ]]
}

# --- the worker ---

@test "several queues in one word are told to be one" {
        weir job add h --queue 'a,b'
        run weir work --queue a,b --exec cat --once
        [ "$status" -eq 0 ]
        [[ $output == *"one queue, with a comma in its name; several are --queue A --queue B\" queue=a,b"* ]]
        [ "$(field 1 status)" = complete ]
        run weir work --queue a --exec cat --once
        [[ $output != *"one queue"* ]]
}
