#!/usr/bin/env bats
# weir-test: bin=release
# A command says that its job is of no use: by its exit code, or by its last line.

load lib_handlers.bash

# add_ending CODE [LINE]: a job whose command writes LINE and exits with CODE
add_ending() {
        add h "${2:-it is broken} $1"
}

# ends JOB STATUS ATTEMPT
ends() {
        has_status "$1" "$2"
        [ "$(field "$1" attempt)" = "$3" ]
}

commands() {
        handlers <<EOF
                handler "*" {
                  exec = {"bash", "say.sh"}
                  retry_in = 1h
                  $1
                }
EOF
        echo 'read -r line; echo "${line% *}" >&2; exit "${line##* }"' >say.sh
}

@test "exit 65 is a job that is failed at once, with its error and its story" {
        commands ''
        add_ending 65
        once
        ends 1 failed 1
        [ "$(field 1 error)" = "exit 65: it is broken" ]
        [ "$(field 1 'events[-2].event')" = failed ]
        [ "$(field 1 'events[-1].event')" = "given up" ]
        [ "$(field 1 'events[-1].message')" = "at attempt 1 of 3: its worker said not to try again" ]
        grep -q 'failed, not to be tried again' work.log
        [ "$(weir job list --status failed --queue q --json | jq -r '.jobs[].id')" = 1 ]
}

@test "a job that was given up can be retried by hand, with all its attempts" {
        commands ''
        add_ending 65
        once
        weir job retry 1
        ends 1 pending 0
        once
        ends 1 failed 1
}

@test "other exit codes are tried again" {
        commands ''
        for code in 1 64 66 75 77 78 127 255; do
                add_ending "$code"
        done
        once
        for i in {1..8}; do
                ends "$i" pending 1
        done
}

@test "no_retry says which exit codes are final" {
        commands 'no_retry = {3, 78}'
        add_ending 3
        add_ending 78
        add_ending 65
        once
        ends 1 failed 1
        ends 2 failed 1
        ends 3 pending 1
        commands 'no_retry = none'
        add_ending 65
        once
        ends 4 pending 1
}

@test "a last line may ask for no other attempt, whatever the exit code, and for one after a final code" {
        commands ''
        add_ending 1 'weir-retry-in: never'
        add_ending 65 'weir-retry-in: 2h'
        once
        ends 1 failed 1
        [ "$(field 1 error)" = "exit 1" ]
        ends 2 pending 1
        [ $(($(field 2 due_ms) - $(field 2 created_ms))) -ge 7200000 ]
}

@test "a signal or a timeout is never final by its code" {
        handlers <<'EOF'
                handler "killed" { exec = {"bash", "-c", "kill -9 $$"} no_retry = {9, 137} retry_in = 1h }
                handler "late" {
                  exec = {"bash", "-c", "trap 'exit 65' TERM; echo up >said; read -r line <go"}
                  timeout = 4s # a busy machine must have said "up" by then
                  retry_in = 1h
                }
EOF
        add killed
        add late
        once
        ends 1 pending 1
        ends 2 pending 1
        hear
}

@test "a slot that gave up a job does not give up the next" {
        handlers <<'EOF'
                handler "*" { exec = {"bash", "-c", "exit $WEIR_HOOK"} }
EOF
        add 65
        add 1 --attempts 3 --backoff none
        once --max 4
        ends 1 failed 1
        ends 2 failed 3
}

@test "--no-retry is the same for --exec" {
        add h
        add h
        weir work --once --max 1 --queue q --exec "bash -c 'exit 4'" --no-retry 3 --no-retry 4
        ends 1 failed 1
        weir work --once --max 1 --queue q --exec "bash -c 'exit 65'" --no-retry none --retry-in 1h
        ends 2 pending 1
}

@test "what is no code is refused, and says what is one" {
        local codes
        add h
        commands 'no_retry = {}'
        refused 'handlers.conf:4: an empty list' 'no_retry = none'
        for codes in 0 256 -1 x '""'; do
                commands "no_retry = $codes"
                refused 'handlers.conf:' 'no_retry: ' 'exit codes from 1 to 255, or none'
        done
        commands 'no_retry = {65, none}'
        refused 'no_retry: none stands alone'
        for codes in 200 299 600 65; do
                echo "handler \"*\" { http = \"http://a.example/\" no_retry = {$codes} }" >handlers.conf
                refused 'no_retry: ' 'statuses from 300 to 599, or none'
        done
        commands "no_retry = {$(seq -s, 1 33)}"
        refused 'no_retry: at most 32'
        run weir work --once --queue q --exec cat --no-retry 256
        [ "$status" -eq 2 ]
        [[ $output == *"--no-retry: exit codes from 1 to 255, or none, not '256'"* ]]
        run weir work --once --queue q --handlers handlers.conf --no-retry 3
        [ "$status" -eq 2 ]
        ends 1 pending 0
}
