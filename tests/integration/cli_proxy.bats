#!/usr/bin/env bats
# weir-test: timeout=120 bin=release
# weir proxy: what is said when there is no door, of mistyped words, and of a door without a server.

bats_require_minimum_version 1.5.0
load lib.bash

setup() {
        DATA=
}

teardown() {
        stop_weir
}

# refuses CODE TEXT ARG...: weir ARG... exits with CODE and says TEXT on standard error alone
refuses() {
        local code=$1 text=$2
        shift 2
        run --separate-stderr weir "$@"
        # shellcheck disable=SC2154 # bats sets stderr
        if [ "$status" -ne "$code" ] || [ -n "$output" ] || [[ $stderr != *"$text"* ]]; then
                echo "weir $*: $status, out '$output', err '$stderr'"
                return 1
        fi
}

# start_doors NAME...: doors in front of a port that nobody listens on
start_doors() {
        local name
        for name in "$@"; do
                echo "mysql \"$name\" { listen = {\"127.0.0.1:0\"} server = \"127.0.0.1:1\" target = \"\" }"
        done >"$BATS_TEST_TMPDIR/weir.conf"
        echo "${CLASSES:-}" >>"$BATS_TEST_TMPDIR/weir.conf"
        start_weir --config "$BATS_TEST_TMPDIR/weir.conf"
}

@test "without a door the list is empty and says how to add one" {
        start_weir
        refuses 0 'a section mysql "NAME"' proxy
        [ "$(weir proxy --json)" = '{"proxies":[]}' ]
        [ "$(weir proxy list --json)" = '{"proxies":[]}' ]
        refuses 4 'no MySQL door is configured' proxy classes
        refuses 4 "unknown MySQL door 'shop'; none is configured" proxy show shop
}

@test "the only door need not be named, and of several one must be" {
        start_doors front
        [ "$(weir proxy classes --json)" = '{"classes":[]}' ]
        [ "$(weir proxy clients --json)" = '{"clients":[],"more":false}' ]
        [ "$(weir proxy top --json)" = '{"statements":[]}' ]
        run weir proxy show
        [[ $output == "door front: mode observe"*"learning: nothing waits for load yet"* ]]
        [ "$(weir throttle status | head -n 1)" = "mode     off for jobs, observe at the MySQL doors" ]
        refuses 0 'no transaction has passed yet' proxy classes front
        refuses 4 "unknown MySQL door 'shop'; there is front" proxy top shop
        stop_weir
        start_doors front back
        refuses 2 'there are several doors; name one of them: front, back' proxy classes
        [ "$(weir proxy classes back --json)" = '{"classes":[]}' ]
}

@test "a statement is explained by the rows of the file" {
        CLASSES='class "etl" { user = "etl*" tier = "deferrable" concurrency = 3 rate = 2.5 time_budget = "300ms" }'
        start_doors front
        [ "$(weir proxy classes --json | jq -r '.classes[] | .class, .tier, .rate')" = $'etl\ndeferrable\n2.5' ]
        run weir proxy explain 'DELETE FROM t WHERE id IN (1, 2)' --user etl7 --db shop
        [[ $output == "it runs"* ]]
        [[ $output == *"class      etl"* ]]
        [[ $output == *"tier       deferrable"* ]]
        [[ $output == *"3 at once, 2.5 starts a second, 300 ms of database time a second"* ]]
        weir rule set etl hold
        [ "$(weir proxy explain 'DELETE FROM t' --user etl7 --json | jq -r '.verdict, .reason, .can_wait')" = \
                $'observe\nhold\ntrue' ]
        [ "$(weir proxy explain 'COMMIT' --user etl7 --json | jq -r '.verdict, .can_wait')" = $'run\nfalse' ]
        refuses 4 "unknown MySQL door 'x'; there is front" proxy explain 'SELECT 1' --proxy x
}

@test "a door drains, says so, and takes connections again" {
        start_doors front
        [ "$(weir proxy drain)" = 'drains front' ]
        [ "$(weir proxy --json | jq -c '.proxies[0].draining')" = true ]
        run weir proxy
        [[ $output == *draining* ]]
        [ "$(weir proxy undrain front)" = 'accepts connections again: front' ]
        [ "$(weir proxy --json | jq -c '.proxies[0].draining')" = false ]
}

@test "mistyped words and values are named" {
        start_doors front
        refuses 2 "there is no 'proxy' command 'claases'; did you mean 'classes'?" proxy claases
        refuses 2 'limit' proxy top --limit 1001
        refuses 2 'state' proxy clients --state asleep
        refuses 2 'missing argument: SQL' proxy explain
}
