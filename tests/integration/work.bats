#!/usr/bin/env bats
# weir-test: long tsan bin=release outer=part
# The worker against a real server: commands run, ends reported, leases kept, nothing lost.

load lib_work.bash

# Says its pid, waits until it may go on.
WAITER="sh -c 'echo \$\$ >said; read x <go; echo done'"

once() {
        weir work --once "$@" 2>>work.log
}

@test "standard input is the payload, standard output the result" {
        printf '{"n": 1}' | weir job add upper - --queue q
        once --exec 'tr a-z A-Z' --queue q
        has_status 1 complete
        [ "$(field 1 result.N)" = 1 ]
        [ "$(field 1 'events | map(.event) | join(" ")')" = "created started completed" ]
        [[ $(field 1 worker) == *-* ]]
}

@test "the job is in the environment and in the placeholders" {
        weir job add my-hook payload --queue q --group g --priority 9 --attempts 4 --timeout 77s
        once --name tester --queue q --exec \
                "sh -c 'echo \$WEIR_JOB_ID \$WEIR_HOOK \$WEIR_QUEUE \$WEIR_GROUP \$WEIR_ATTEMPT \$WEIR_ATTEMPTS \$WEIR_PRIORITY \$WEIR_FENCE \$WEIR_LEASE_MS \$1 \$2' x {id} a-{hook}-{queue}"
        [ "$(field 1 result)" = "1 my-hook q g 1 4 9 1 77000 1 a-my-hook-q" ]
        [ "$(field 1 worker)" = tester ]
}

@test "a failing command fails its job with the end of its standard error" {
        add a --attempts 2 --backoff none
        once --queue q --exec "sh -c 'echo first >&2; echo the reason >&2; exit 3'"
        has_status 1 failed
        [ "$(field 1 error)" = $'exit 3: first\nthe reason' ]
        [ "$(field 1 attempt)" = 2 ]
        add a --attempts 1
        once --queue q --exec "sh -c 'exit 75'"
        [ "$(field 2 error)" = "exit 75" ]
        add a --attempts 1
        once --queue q --exec "sh -c 'kill -9 \$\$'"
        [ "$(field 3 error)" = "killed by signal 9" ]
}

@test "only the last lines of a long standard error are kept" {
        add a --attempts 1
        once --queue q --exec "sh -c 'seq 100000 >&2; exit 1'"
        [[ $(field 1 error) == "exit 1: "*$'\n100000' ]]
        [ "$(weir job show 1 --json | jq '.error | length')" -le 5000 ]
        [ "$(weir job show 1 --json | jq '.error | length')" -ge 4000 ]
}

@test "a failed job waits --retry-in before the next attempt" {
        add a
        once --queue q --retry-in 1h --exec false
        has_status 1 pending
        [ "$(field 1 attempt)" = 1 ]
        [ "$(field 1 'due_ms - .created_ms >= 3600000')" = true ]
}

@test "output beyond --output is dropped, and the command does not hang on it" {
        add a
        add b
        once --queue q --max 1 --exec "head -c 3000000 /dev/zero"
        [ "$(weir job show 1 --json | jq '.result | length')" = 65536 ]
        grep -q 'longer than allowed' work.log
        once --queue q --output 1m --exec "sh -c 'head -c 1048576 /dev/zero | tr \"\\0\" x'"
        [ "$(weir job show 2 --json | jq '.result | length')" = 1048576 ]
}

@test "a command that does not read its input is no trouble" {
        head -c 1000000 /dev/zero | tr '\0' x | weir job add big - --queue q
        once --queue q --exec true
        has_status 1 complete
}

@test "a result that reads like a keyword is still a result" {
        add a
        add b
        once --queue q --exec 'echo claim'
        [ "$(field 1 result)" = claim ]
        [ "$(field 2 result)" = claim ]
}

@test "commands have clean surroundings: three open files, pipes, default signals" {
        add a
        once --queue q --exec "sh -c 'ls /proc/self/fd | tr \"\\n\" \" \"; echo x >/dev/stderr; echo y >/dev/stdout; grep -E \"Sig(Ign|Blk)\" /proc/self/status | cut -f 2 | sort -u'"
        has_status 1 complete
        # 3 is the folder that ls itself reads.
        [ "$(field 1 result)" = $'0 1 2 3 y\n0000000000000000' ]
}

@test "what needs a shell, or is not there, is told at the start" {
        run weir work --queue q --exec 'cat | wc'
        [ "$status" -eq 2 ]
        [[ $output == *"would need a shell"* ]]
        run weir work --queue q --exec 'no-such-program-anywhere'
        [ "$status" -eq 2 ]
        [[ $output == *"there is no program"* ]]
        run weir work --queue q --exec './no-such-program'
        [ "$status" -eq 2 ]
        run weir work --exec cat
        [ "$status" -eq 2 ]
        [[ $output == *"--queue is missing"* ]]
        run weir work --queue q
        [ "$status" -eq 2 ]
        run weir work --queue q --exec cat --slots 0
        [ "$status" -eq 2 ]
}

@test "a hook may choose a program of a folder, and none outside of it" {
        mkdir handlers
        printf '#!/bin/sh\nexec basename "%s"\n' "\$0" >handlers/mail
        chmod +x handlers/mail
        add mail --attempts 1
        add ../../bin/sh --attempts 1
        add unknown --attempts 1
        once --queue q --exec './handlers/{hook}'
        [ "$(field 1 result)" = mail ]
        has_status 2 failed
        [[ $(field 2 error) == *"cannot be part of a program's name"* ]]
        has_status 3 failed
        [[ $(field 3 error) == *"cannot run ./handlers/unknown"* ]]
}

@test "--once ends when nothing is ready, --max after so many" {
        run weir work --once --queue q --exec cat
        [ "$status" -eq 0 ]
        seq 5 | weir job add n --many - --queue q
        weir work --max 2 --queue q --exec cat
        [ "$(weir queue list --json | jq '.queues[0].completed')" = 2 ]
        once --queue q --slots 2 --exec cat
        [ "$(weir queue list --json | jq '.queues[0].completed')" = 5 ]
}

# exactly_once N: so many jobs through four slots
exactly_once() {
        seq "$1" | weir job add n --many - --queue q --id-only >ids
        once --quiet --queue q --slots 4 --exec "sh -c 'read n; echo \$n >>ran; echo \$n'"
        [ "$(weir queue list --json | jq -c '.queues[0] | [.completed, .ready, .running]')" = "[$1,0,0]" ]
        [ "$(sort -n ran | uniq | wc -l)" = "$1" ]
        [ "$(wc -l <ran)" = "$1" ]
        weir job list --all --json | jq -e 'all(.jobs[]; .result == .args)'
}

@test "a hundred jobs through four slots, each exactly once" {
        exactly_once 100
}

# bats test_tags=outer
@test "a thousand jobs through four slots, each exactly once" {
        exactly_once 1000
}

@test "several queues, the most important job first" {
        add a --queue q1 --priority 50
        add b --queue q2 --priority 10
        add c --queue q1 --priority 30
        once --queue q1 --queue q2 --exec "sh -c 'echo \$WEIR_HOOK >>order'"
        [ "$(tr '\n' ' ' <order)" = "b c a " ]
}

@test "slots run side by side" {
        mkfifo left right
        add left
        add right
        # Each waits for the other: one after the other they would never end.
        once --queue q --slots 2 --exec "sh -c 'if [ \$WEIR_HOOK = left ]; then echo x >left; read y <right; else read y <left; echo x >right; fi'"
        has_status 1 complete
        has_status 2 complete
}

@test "a waiting worker gets a job the moment it is there" {
        start_worker --queue q --exec "$WAITER"
        eventually grep -q ready work.log
        add a
        hear
        has_status 1 in-progress
        let_go
        eventually has_status 1 complete
        kill -TERM "$WORKER"
        end_worker
}

@test "the lease is renewed while the command runs" {
        add a
        start_worker --queue q --lease 3s --exec "$WAITER"
        hear
        local first
        first=$(field 1 lease_until_ms)
        # Two whole leases later it is still the first attempt.
        renewed() {
                [ "$(field 1 lease_until_ms)" -gt $((first + 6000)) ]
        }
        eventually renewed
        [ "$(field 1 attempt)" = 1 ]
        let_go
        eventually has_status 1 complete
        [ "$(field 1 'events | map(.event) | join(" ")')" = "created started completed" ]
        kill -TERM "$WORKER"
        end_worker
}

@test "a job that is not ours any more takes its whole process group with it" {
        add a
        start_worker --queue q --lease 1s --exec "sh -c 'cat go & echo \$! >said; wait'"
        hear
        local child=$REPLY
        kill -0 "$child"
        ask CANCEL 1
        gone() {
                ! kill -0 "$child" 2>/dev/null
        }
        eventually gone
        eventually grep -q 'not ours any more' work.log
        has_status 1 canceled
        kill -TERM "$WORKER"
        end_worker
        grep -q 'lost=1' work.log
}

@test "what a command leaves behind in its group is killed" {
        add a
        once --queue q --exec "sh -c 'cat go >/dev/null 2>&1 & echo \$! >said; echo fine'"
        hear
        gone() {
                ! kill -0 "$REPLY" 2>/dev/null
        }
        eventually gone
        [ "$(field 1 result)" = fine ]
}

@test "a child that keeps the output open does not keep the job" {
        add a
        once --queue q --exec "sh -c 'cat go & echo fine'"
        [ "$(field 1 result)" = fine ]
}

@test "--timeout kills what runs too long" {
        add a --attempts 1
        # Time enough for a busy machine to start the shell.
        once --queue q --timeout 4s --exec "sh -c 'echo slow >&2; exec cat go'"
        has_status 1 failed
        [ "$(field 1 error)" = "killed after 4 s (--timeout): slow" ]
}

@test "SIGTERM lets running commands finish and takes no more" {
        add a
        add b
        start_worker --queue q --exec "$WAITER"
        hear
        kill -TERM "$WORKER"
        eventually grep -q stopping work.log
        let_go
        end_worker
        has_status 1 complete
        [ "$(field 1 result)" = 'done' ]
        has_status 2 pending
        [ "$(field 2 attempt)" = 0 ]
}

@test "an idle worker stops at once" {
        start_worker --queue q --slots 3 --exec cat
        eventually grep -q ready work.log
        local began=$SECONDS
        kill -INT "$WORKER"
        end_worker
        # A claim waits for 30 s: it was not waited for.
        [ $((SECONDS - began)) -lt 28 ]
}

@test "a second SIGTERM kills the commands and gives the jobs back" {
        add a --attempts 1
        start_worker --queue q --exec "sh -c 'trap \"\" TERM; echo \$\$ >said; cat go'"
        hear
        kill -TERM "$WORKER"
        eventually grep -q stopping work.log
        kill -TERM "$WORKER"
        end_worker
        not kill -0 "$REPLY" 2>/dev/null
        has_status 1 pending
        [ "$(field 1 'events | map(.event) | join(" ")')" = "created started released" ]
        once --queue q --exec cat
        has_status 1 complete
}

@test "a result outlives a server that was away" {
        add a
        start_worker --url "$RESP_SOCK" --queue q --exec "$WAITER"
        hear
        stop_weir
        eventually grep -q 'no connection' work.log
        let_go
        start_weir
        eventually has_status 1 complete
        [ "$(field 1 result)" = 'done' ]
        [ "$(field 1 attempt)" = 1 ]
        add b
        hear
        let_go
        eventually has_status 2 complete
        kill -TERM "$WORKER"
        end_worker
        grep -q 'connected again' work.log
}

@test "a result outlives a server that was killed" {
        add a
        start_worker --url "$RESP_SOCK" --queue q --exec "$WAITER"
        hear
        kill -KILL "$WEIR_PID"
        wait "$WEIR_PID" || true
        let_go
        start_weir
        eventually has_status 1 complete
        [ "$(field 1 'events | map(.event) | join(" ")')" = "created started completed" ]
        kill -TERM "$WORKER"
        end_worker
}

@test "a worker frozen beyond its lease loses the job to another, and its command" {
        add a
        start_worker --queue q --lease 1s --name frozen --exec "$WAITER"
        hear
        kill -STOP "$WORKER"
        eventually has_status 1 pending
        once --queue q --name second --exec 'echo second'
        has_status 1 complete
        kill -0 "$REPLY"
        kill -CONT "$WORKER"
        gone() {
                ! kill -0 "$REPLY" 2>/dev/null
        }
        eventually gone
        kill -TERM "$WORKER"
        end_worker
        [ "$(field 1 result)" = second ]
        [ "$(field 1 worker)" = second ]
        grep -q 'lost=1' work.log
}

@test "a completion after the lease ran out counts when nobody else had the job" {
        add a
        start_worker --queue q --lease 1s --exec "$WAITER"
        hear
        ask PAUSE q
        kill -STOP "$WORKER"
        let_go
        ended() { # and not yet waited for, since the worker stands still
                grep -q '^State:.*Z' "/proc/$REPLY/status"
        }
        eventually ended
        eventually has_status 1 pending
        kill -CONT "$WORKER"
        eventually has_status 1 complete
        [ "$(field 1 result)" = 'done' ]
        [ "$(field 1 'events | map(.event) | join(", ")')" = "created, started, timed out, retried, completed" ]
        kill -TERM "$WORKER"
        end_worker
        grep -q 'completed=1 failed=0 released=0 lost=0' work.log
}

@test "told twice to stop with the server away, a worker ends and says what it could not report" {
        add a
        start_worker --url "$RESP_SOCK" --queue q --exec "$WAITER"
        hear
        stop_weir
        eventually grep -q 'no connection' work.log
        kill -TERM "$WORKER"
        eventually grep -q 'stopping after' work.log
        kill -TERM "$WORKER"
        local status=0
        end_worker || status=$?
        [ "$status" -eq 7 ]
        grep -q 'the end of 1 job could not be reported: it is handed out again' work.log
        not kill -0 "$REPLY" 2>/dev/null
}

@test "a worker that starts before the server waits for it, with --once it does not" {
        stop_weir
        run weir work --url "$RESP_SOCK" --once --queue q --exec cat
        [ "$status" -eq 7 ]
        [[ $output == *"nothing answers on"* ]]
        start_worker --url "$RESP_SOCK" --queue q --exec cat
        eventually grep -q 'no connection' work.log
        start_weir
        add a hello
        eventually has_status 1 complete
        kill -TERM "$WORKER"
        end_worker
}

@test "a paused queue hands out nothing until it is resumed" {
        add a
        ask PAUSE q
        run weir work --once --queue q --exec cat
        [ "$status" -eq 0 ]
        has_status 1 pending
        start_worker --queue q --exec cat
        eventually grep -q ready work.log
        ask RESUME q
        eventually has_status 1 complete
        kill -TERM "$WORKER"
        end_worker
}

@test "a server's refusal of the claim ends the worker with the reason" {
        run weir work --queue "$(printf 'x%.0s' {1..300})" --exec cat
        [ "$status" -eq 2 ]
        [[ $output == *"255"* ]]
}
