#!/usr/bin/env bats
# weir-test: timeout=120
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
        [ "$(weir queue list --json)" = '[]' ]
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
        has_some() { [ "$(weir queue list --json | jq 'map(.ready) | add // 0')" -ge 10000 ]; }
        eventually has_some
        interrupt
        [ "$STATUS" -eq 130 ]
        [ "$(cat out)" = "weir: interrupted (added: 10000 jobs, nothing after line 10000)" ]
        [ "$(ready_in q)" = 10000 ]
}

@test "Ctrl-C in the middle of an import tells what was imported, and closes no batch" {
        mkfifo pipe
        env --default-signal=INT "$WEIR_BIN" import pipe >out 2>&1 3>&- &
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
        [ "$output" = "weir backup: 'more' is one word too many" ]
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
