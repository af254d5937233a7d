#!/usr/bin/env bats
# weir-test: bin=release
# Pausing from the command line: one queue, all queues, everything; and names that do not exist.

load lib.bash

setup() {
        cd "$BATS_TEST_TMPDIR"
        start_weir
}

teardown() {
        stop_weir
}

# claimed QUEUE...: how many jobs a claim gets at once
claimed() {
        redis-cli -p "$RESP_PORT" --json CLAIM w MAX 100 QUEUES "$@" | jq length
}

@test "a queue that does not exist is not paused, resumed, set or shown, and the nearest is named" {
        local verb
        weir job add h --queue mail >/dev/null
        for verb in "pause mial" "resume mial" "set mial --cap 3" "show mial" "remove mial"; do
                run weir queue $verb
                [ "$status" -eq 4 ] || { echo "$verb: $status $output"; return 1; }
                [[ ${lines[0]} == "weir: there is no queue 'mial'; did you mean 'mail'?"* ]] || {
                        echo "$verb: $output"; return 1; }
        done
        run weir queue pause nothing-like-it
        [ "$status" -eq 4 ]
        [[ $output == *"there is no queue 'nothing-like-it'"*"--create"* ]]
        [[ $output != *"did you mean"* ]]
        [ "$(weir queue list --json | jq -r '.queues[].name')" = mail ]
}

@test "with --create a queue is paused or set before its first job" {
        weir queue pause night --create
        weir queue set small --cap 1 --create
        weir job add h --queue night >/dev/null
        [ "$(claimed night)" = 0 ]
        [ "$(weir queue show small --json | jq .cap)" = 1 ]
}

@test "queue pause --all pauses every queue there is, and resume --all lets them go" {
        local q
        for q in a b c; do
                weir job add h --queue "$q" >/dev/null
        done
        [ "$(weir queue pause --all)" = "paused 3 queues" ]
        [ "$(claimed a b c)" = 0 ]
        [ "$(weir queue list --json | jq '[.queues[].paused] | all')" = true ]
        weir queue resume a
        [ "$(weir queue resume --all)" = "resumed 2 queues" ]
        [ "$(claimed a b c)" = 3 ]
        run weir queue pause --all a
        [ "$status" -eq 2 ]
        run weir queue pause
        [ "$status" -eq 2 ]
        [[ $output == *QUEUE*--all* ]]
}

@test "weir pause stops everything, critical jobs and new queues too, over a restart" {
        weir registry set pay critical
        weir job add pay --queue payments >/dev/null
        weir job add mail --queue mail >/dev/null
        run weir pause
        [ "$status" -eq 0 ]
        [[ $output == *"no job of any queue starts"*"weir resume"* ]]
        weir job add pay --queue new >/dev/null
        [ "$(claimed payments mail new)" = 0 ]
        [ "$(weir job why 1 --json | jq -r '.blockers[0].code')" = pause ]
        [[ "$(weir job why 1)" == *"everything is paused"*"weir resume"* ]]
        [[ "$(weir queue list 2>&1)" == *"everything is paused"* ]]
        [ "$(curl -sf "$HTTP_URL/v1/now" | jq .everything_paused)" = true ]
        [[ "$(weir top --once)" == *"EVERYTHING PAUSED: weir resume"* ]]
        curl -sf "$HTTP_URL/metrics" | grep -qx 'weir_everything_paused 1'
        kill -9 "$WEIR_PID"
        wait "$WEIR_PID" || true
        start_weir
        [ "$(claimed payments mail new)" = 0 ]
        run weir resume
        [ "$status" -eq 0 ]
        [[ $output == *"jobs start again"* ]]
        curl -sf "$HTTP_URL/metrics" | grep -qx 'weir_everything_paused 0'
        [ "$(claimed payments mail new)" = 3 ]
}

@test "a worker that waits gets its job when everything goes on, and a paused queue stays paused" {
        weir pause
        weir queue pause night --create
        weir job add h --queue q >/dev/null
        weir job add h --queue night >/dev/null
        redis-cli -p "$RESP_PORT" --json CLAIM w WAIT 60000 QUEUES q night >got 3>&- &
        local claim=$!
        waits() {
                [ "$(redis-cli -p "$RESP_PORT" INFO | tr -d '\r' | sed -n 's/^waiting_claims://p')" = 1 ]
        }
        eventually waits
        weir resume
        wait "$claim"
        [ "$(jq length got)" = 1 ]
        [ "$(claimed night)" = 0 ]
}

@test "weir pause with a name says how one queue is paused, and changes nothing" {
        weir job add h --queue mail >/dev/null
        run weir pause mail
        [ "$status" -eq 2 ]
        [[ $output == *"'weir pause' stops every queue; for one say 'weir queue pause mail'"* ]]
        run weir resume mail
        [ "$status" -eq 2 ]
        [[ $output == *"weir queue resume mail"* ]]
        [ "$(claimed mail)" = 1 ]
        [[ "$(weir resume)" == *"nothing was paused"* ]]
}

@test "a command that finds no job in a queue that does not exist says so" {
        local words
        weir job add h --queue mail >/dev/null
        weir queue pause empty --create
        for words in "job list" "job cancel" "job retry --failed"; do
                run weir $words --queue mial
                [ "$status" -eq 0 ]
                [[ $output == *"there is no queue 'mial'; did you mean 'mail'?"* ]] || {
                        echo "$words: $output"; return 1; }
                [[ "$(weir $words --queue empty 2>&1)" != *"there is no queue"* ]]
                [[ "$(weir $words --queue mial --json 2>&1)" != *"there is no queue"* ]]
        done
        [[ "$(weir job list --queue mail 2>&1)" != *"there is no queue"* ]]
}

@test "a worker says when no job has named its queue yet" {
        weir job add h --queue mail >/dev/null
        "$WEIR_BIN" work --queue mail --queue mial --exec true 2>work.log 3>&- &
        local worker=$!
        eventually grep -q 'msg="no job has named this queue yet" queue=mial' work.log
        kill -TERM "$worker"
        wait "$worker"
        [ "$(grep -c 'has named this queue' work.log)" = 1 ]
}
