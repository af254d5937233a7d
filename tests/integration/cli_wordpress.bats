#!/usr/bin/env bats
# weir-test: timeout=120 bin=release
# weir wordpress and weir mutex --wordpress: what is said when there is no site, and of mistyped words.

bats_require_minimum_version 1.5.0
load lib.bash

setup() {
        DATA=
        start_weir
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

@test "without a site the list is empty and says how to add one" {
        refuses 0 'a section wordpress "NAME"' wordpress status
        [ "$(weir wordpress status --json)" = '{"sites":[]}' ]
        [ "$(weir top --json | jq -c .sites)" = '[]' ]
        run weir top --once
        [[ $output != *SITE* ]]
}

@test "a site that is not there is named" {
        refuses 4 'unknown WordPress site shop' wordpress status shop
        refuses 4 'unknown WordPress site shop' wordpress actions shop
        refuses 4 'unknown WordPress site shop' wordpress why shop 3
        refuses 4 'unknown WordPress site shop' mutex list --wordpress shop
        refuses 4 'unknown WordPress site shop' mutex --wordpress shop acquire k --ttl 5m
        refuses 4 'unknown WordPress site shop' mutex --wordpress=shop release k --force
}

@test "wrong words are told with what is allowed" {
        refuses 2 "did you mean 'why'?" wordpress wy shop 3
        refuses 2 'missing argument: NAME' wordpress actions
        refuses 2 'pending|due|in-progress|complete|failed|canceled|moved' \
                wordpress actions shop --status late
        refuses 2 '1 to 500' wordpress actions shop --limit 501
        refuses 2 'a whole number' wordpress why shop first
        refuses 2 'which site? --wordpress NAME' mutex acquire k
        refuses 2 'from 1s to 1d' mutex --wordpress shop acquire k --ttl 0
        refuses 2 'from 1s to 1d' mutex --wordpress shop acquire k --ttl 2d
        refuses 2 'whole seconds' mutex --wordpress shop acquire k --ttl 1500ms
        refuses 2 'is no token' mutex --wordpress shop acquire k --lock-token abc
        refuses 2 'say --lock-token TOKEN' mutex --wordpress shop release k
        refuses 2 'not both' mutex --wordpress shop release k --force --lock-token abc
        refuses 2 'go with --wordpress NAME' mutex release k --force
        refuses 2 '--reason does not go with --wordpress' \
                mutex --wordpress shop release k --force --reason gone
        refuses 2 '--match does not go with --wordpress' mutex --wordpress shop list --match a
}

@test "an option before the command of a group is that of the command" {
        refuses 2 'usage: weir mutex COMMAND' mutex --wordpress shop
        refuses 2 'usage: weir mutex COMMAND' mutex --wordpress
        refuses 2 "there is no 'mutex' command '--nonsense'" mutex --nonsense shop list
        run weir mutex list
        [ "$status" -eq 0 ]
}
