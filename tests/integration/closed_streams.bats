#!/usr/bin/env bats
# weir-test: bin=release
# Programs that were started with their standard streams closed, as some service managers do it: the
# next files they open must not take the places of those.

load lib.bash

setup() {
        OTHER=
        start_weir
        cd "$DATA" || return 1
}

teardown() {
        if [ -n "$OTHER" ]; then
                kill -KILL "$OTHER" 2>/dev/null || true
        fi
        stop_weir
}

@test "a server without standard streams writes no messages into its log" {
        local stream
        "$WEIR_BIN" serve --data other --resp "$DATA/other.sock" --http 127.0.0.1:0 <&- >&- 2>&- 3>&- &
        OTHER=$!
        eventually weir ping --url "$DATA/other.sock"
        weir job add a --queue q --url "$DATA/other.sock"
        for stream in 0 1 2; do
                [[ $(readlink "/proc/$OTHER/fd/$stream") == /dev/null ]]
        done
        kill -TERM "$OTHER"
        wait "$OTHER"
        weir log verify other
}

@test "a worker without standard streams runs its commands like any other" {
        weir job add a hello --queue q --attempts 1
        weir job add b --queue q --attempts 1
        printf 'handler "a" { exec = {"sh", "-c", "cat; echo trouble >&2; readlink /proc/$$/fd/0 /proc/$$/fd/1 /proc/$$/fd/2"} }
                handler "b" { exec = {"./{hook}"} }' >handlers.conf
        weir work --once --queue q --handlers handlers.conf --stderr <&- >&- 2>&-
        has_status 1 complete
        [[ $(field 1 result) =~ ^hellopipe:[^$'\n']*$'\n'pipe:[^$'\n']*$'\n'pipe:[^$'\n']*$ ]]
        [ "$(field 2 error)" = 'cannot run ./b: No such file or directory' ]
}

@test "what cannot be written is still told by the exit code" {
        weir job add a --queue q
        local status=0
        weir job show 1 >&- || status=$?
        [ "$status" -ne 0 ]
}
