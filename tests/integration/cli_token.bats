#!/usr/bin/env bats
# weir-test: bin=release
# The command line and the worker against a server that wants a token.

load lib.bash

setup() {
        TOKEN=a-long-enough-token-0123456789
        TOKEN_FILE=$BATS_TEST_TMPDIR/token
        (umask 077 && printf '%s\n' "$TOKEN" >"$TOKEN_FILE")
        start_weir --token-file "$TOKEN_FILE"
}

teardown() {
        stop_weir
}

@test "without a token: refused, and told how to give one" {
        run weir job add a
        [ "$status" -eq 3 ]
        [[ $output == *"WEIR_TOKEN"* ]]
        run weir job add a --token wrong-token-0123456789
        [ "$status" -eq 3 ]
}

@test "the token is taken from the option, a file, the environment or the url" {
        weir ping --token "$TOKEN"
        weir queue list --token "@$TOKEN_FILE"
        WEIR_TOKEN=$TOKEN weir queue list
        WEIR_TOKEN=@$TOKEN_FILE weir queue list
        WEIR_URL=redis://:$TOKEN@127.0.0.1:$RESP_PORT weir queue list
        run weir queue list --token "@$DATA/none"
        [ "$status" -eq 1 ]
        [[ $output == *"cannot read the token"* ]]
}

@test "a token more than needed does no harm" {
        stop_weir
        DATA=
        start_weir
        weir job add a --token "$TOKEN"
        run weir work --exec cat --queue default --once --token "$TOKEN"
        [ "$status" -eq 0 ]
        has_status 1 complete
}

@test "a worker with the wrong token gives up at once" {
        run weir work --exec cat --queue q --token wrong-token-0123456789
        [ "$status" -eq 3 ]
        run weir work --exec cat --queue q
        [ "$status" -eq 3 ]
        WEIR_TOKEN=$TOKEN weir job add a x --queue q
        WEIR_TOKEN=$TOKEN weir work --exec cat --queue q --once
        [ "$(WEIR_TOKEN=$TOKEN weir job show 1 --json | jq -r .status)" = complete ]
}
