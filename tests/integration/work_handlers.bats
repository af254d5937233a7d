#!/usr/bin/env bats
# weir-test: long bin=release
# The worker with a file of handlers: which command runs for which hook, in what surroundings, with
# what limits; jobs taken ahead; health.

load lib_handlers.bash

@test "two hooks go to two handlers" {
        handlers <<'EOF'
                handler "mail" { exec = {"echo", "mail", "{id}"} }
                handler "report_*" { exec = {"echo", "report", "hook={hook}"} }
EOF
        add report_daily
        add mail
        once
        [ "$(field 1 result)" = "report hook=report_daily" ]
        [ "$(field 2 result)" = "mail 2" ]
}

@test "the most specific pattern wins, wherever it stands in the file" {
        handlers <<'EOF'
                handler "*" { exec = {"echo", "any"} }
                handler "shop_*_mail" { exec = {"echo", "shop mail"} }
                handler "shop_*" { exec = {"echo", "shop"} }
                handler "shop_order_*" { exec = {"echo", "order"} }
                handler "shop_order_paid" { exec = {"echo", "paid"} }
                handler "x?z" { exec = {"echo", "one"} }
EOF
        add shop_order_paid
        add shop_order_sent
        add shop_stock
        add shop_a_mail
        add x
        add xyz
        add xüz
        add xyyz
        once
        [ "$(for i in {1..8}; do field "$i" result; done | tr '\n' ,)" = "paid,order,shop,shop mail,any,one,one,any," ]
}

@test "a hook without a handler fails with a clear error, and uses up an attempt" {
        handlers <<'EOF'
                handler "known" { exec = {"true"} }
EOF
        add stranger --attempts 2 --backoff none
        once --max 1
        has_status 1 pending
        [ "$(field 1 attempt)" = 1 ]
        [ "$(field 1 'events[-2].message, .events[-1].message' | grep -c 'no handler for hook stranger in handlers.conf')" -ge 1 ]
        once
        has_status 1 failed
        [ "$(field 1 error)" = "no handler for hook stranger in handlers.conf" ]
}

@test "a command's environment is clean" {
        handlers <<'EOF'
                handler "*" {
                  exec = {"env"}
                  env = {"APP_ENV=prod", "PASSED", "NOT_SET_ANYWHERE"}
                }
EOF
        add a payload --group g
        export SECRET=1 WEIR_TOKEN=t PASSED=yes
        once
        [ "$(field 1 result | cut -d= -f1 | grep -v '^LANG$' | sort | tr '\n' ' ')" = "APP_ENV HOME PASSED PATH WEIR_ATTEMPT WEIR_ATTEMPTS WEIR_FENCE WEIR_GROUP WEIR_HOOK WEIR_JOB_ID WEIR_LEASE_MS WEIR_PRIORITY WEIR_QUEUE WEIR_URL " ]
        field 1 result | grep -qx APP_ENV=prod
        field 1 result | grep -qx PASSED=yes
        field 1 result | grep -qx "WEIR_URL=127.0.0.1:$RESP_PORT"
        # --exec is no different.
        add b
        weir work --once --queue q --exec env --env A=b
        field 2 result | grep -qx A=b
        not grep -q SECRET <(field 2 result)
}

@test "placeholders are filled in as they are, and never seen by a shell" {
        handlers <<'EOF'
                handler "*" { exec = {"printf", "%s|", "{hook}", "{queue}-{group}", "{attempt}/{fence}", "{print $1}"} unsafe_placeholders = true }
EOF
        add 'a b;$(touch pwned)' --group 'g*'
        once
        [ "$(field 1 result)" = 'a b;$(touch pwned)|q-g*|1/1|{print $1}|' ]
        [ ! -e pwned ]
}

@test "folder, limits and niceness hold for the command" {
        mkdir app
        printf '#!/bin/sh\npwd; ulimit -v; ulimit -t; nice\n' >app/run
        chmod +x app/run
        handlers <<'EOF'
                handler "*" {
                  exec = {"./run"}
                  dir = "app"     # counts from where the worker was started
                  memory = "512m"
                  cpu = 7s
                  nice = 5
                }
EOF
        add a
        once
        [ "$(field 1 result)" = "$PWD/app"$'\n524288\n7\n'"$(($(nice) + 5))" ]
}

@test "a command that wants more memory than its limit does not get it" {
        handlers <<'EOF'
                handler "*" { exec = {"python3", "-c", "b = bytearray(1 << 30); print('got it')"} memory = "256m" }
EOF
        add a --attempts 1
        once
        has_status 1 failed
        [[ $(field 1 error) == *MemoryError* ]]
}

@test "a command that burns more cpu than its limit is killed and told why" {
        handlers <<'EOF'
                handler "spin" { exec = {"sh", "-c", "while :; do :; done"} cpu = 1s }
EOF
        add spin --attempts 1
        once
        [ "$(field 1 error)" = 'killed after 1 s of cpu (handler "spin" in handlers.conf)' ]
}

@test "a command asks for its own delay with the last line of its errors or output" {
        handlers <<'EOF'
                handler "errors" { exec = {"sh", "-c", "echo busy >&2; echo weir-retry-in: 2h >&2; exit 75"} }
                handler "output" { exec = {"sh", "-c", "echo weir-retry-in: 90m; exit 1"} }
                handler "fixed" { exec = {"sh", "-c", "exit 1"} retry_in = 30m }
                handler "wrong" { exec = {"sh", "-c", "echo weir-retry-in: soon >&2; exit 1"} retry_in = 10m }
EOF
        add errors
        add output
        add fixed
        add wrong
        once
        waits() {
                local ms
                ms=$(field "$1" 'due_ms - .created_ms')
                [ "$ms" -ge "$2" ] && [ "$ms" -lt $(($2 + 60000)) ]
        }
        waits 1 7200000
        waits 2 5400000
        waits 3 1800000
        waits 4 600000
        [ "$(field 1 status)" = pending ]
        weir job show 1 --json | jq -e '[.events[].message] | any(. == "exit 75: busy")'
}

@test "a timeout ends the command and its grandchildren" {
        handlers <<'EOF'
                handler "*" {
                  exec = {"sh", "-c", "sh -c 'trap \"\" TERM; echo $$ >said; while :; do read x <go; done' & wait"}
                  timeout = 4s # a busy machine must have told its pid by then
                  grace = 100ms
                }
EOF
        add a --attempts 1
        once
        hear
        gone() {
                ! kill -0 "$REPLY" 2>/dev/null
        }
        eventually gone
        [ "$(field 1 error)" = 'killed after 4 s (handler "*" in handlers.conf)' ]
}

@test "a job's MAXRUN ends the command, which extends its lease as long as it runs" {
        handlers <<'EOF'
                handler "*" {
                  exec = {"sh", "-c", "trap '' TERM; echo $$ >said; while :; do read x <go; done"}
                  grace = 100ms
                }
EOF
        enqueue a '' QUEUE q ATTEMPTS 1 MAXRUN 1000 TIMEOUT 400
        once
        hear
        gone() {
                ! kill -0 "$REPLY" 2>/dev/null
        }
        eventually gone
        has_status 1 failed
        [ "$(field 1 error)" = "timed out: it ran as long as its MAXRUN allows" ]
}

@test "output is bytes: what is no UTF-8 arrives as it was" {
        handlers <<'EOF'
                handler "out" { exec = {"printf", "\\377\\000\\376x"} }
                handler "err" { exec = {"sh", "-c", "printf 'bad \\377\\033[31m byte' >&2; exit 1"} }
EOF
        add out
        add err --attempts 1
        once
        has_status 1 complete
        redis-cli -p "$RESP_PORT" --no-raw JOB 1 | grep -qF '"\xff\x00\xfex"'
        [ "$(field 2 error)" = 'exit 1: bad ??[31m byte' ]
}

@test "what cannot be run fails the job and says so" {
        mkdir bin
        echo 'echo not a program' >bin/text
        chmod +x bin/text
        handlers <<'EOF'
                handler "*" { exec = {"./bin/{hook}"} }
EOF
        add missing --attempts 1
        add text --attempts 1
        once
        [ "$(field 1 error)" = "cannot run ./bin/missing: No such file or directory" ]
        # execvp() would have given it to a shell.
        [ "$(field 2 error)" = "cannot run ./bin/text: Exec format error" ]
}

@test "a script without the program of its #! line says so" {
        printf '#!/bin/no-such-shell\n' >orphan
        printf '#!/bin/sh\r\necho\r\n' >windows
        chmod +x orphan windows
        handlers <<'EOF'
                handler "*" { exec = {"./{hook}"} }
EOF
        add orphan --attempts 1
        add windows --attempts 1
        once
        [ "$(field 1 error)" = "cannot run ./orphan: No such file or directory (the program of its #! line)" ]
        [ "$(field 2 error)" = "cannot run ./windows: No such file or directory (the program of its #! line)" ]
}

@test "variables in the file belong to the command's shell, not to the worker" {
        cat >handlers.conf <<'EOF'
                handler "*" {
                  exec = {"sh", "-c", "echo ${WEIR_HOOK} $WEIR_HOOK \\${WEIR_HOOK} {id} \"${WEIR_JOB_ID}\"", 'x'}
                }
                handler "plain" { exec = {"echo", "${SECRET}", '${SECRET}', "\${SECRET}", "$SECRET", "${"} }
EOF
        add hook
        add plain
        export SECRET=1 WEIR_HOOK=worker
        once
        [ "$(field 1 result)" = 'hook hook ${WEIR_HOOK} 1 1' ]
        [ "$(field 2 result)" = '${SECRET} ${SECRET} ${SECRET} $SECRET ${' ]
}

@test "a variable of the command's shell may have the name of a placeholder" {
        cat >handlers.conf <<'EOF'
                handler "*" { exec = {"sh", "-c", "id=mine; echo ${id} \"${hook:-none}\" {id}"} }
EOF
        add a
        once
        [ "$(field 1 result)" = 'mine none 1' ]
        add b
        weir work --once --queue q --unsafe-placeholders \
                --exec "sh -c 'hook=mine; echo \${hook} {hook}'"
        [ "$(field 2 result)" = 'mine b' ]
}

@test "a placeholder that is mistyped is told at the start, and other braces are left alone" {
        local word
        add a
        for word in hok HOOK hooks Id ID job_id jobId WEIR_JOB_ID job job_hook attempts args payload \
                priority quue; do
                printf 'handler "x" {\n exec = {"echo",\n "{id}", "a-{%s}"}\n}\n' "$word" >handlers.conf
                refused "handlers.conf:3: exec: '{$word}' is none of {id} {hook} {queue} {group} {attempt} {fence}" \
                        "{ $word }"
                run_fails_with weir work --once --queue q --exec "echo a{$word}" -- \
                        "--exec: '{$word}' is none of {id} {hook}"
        done
        has_status 1 pending
        cat >handlers.conf <<'EOF'
                handler "*" {
                  exec = {"echo", "{print}", "{name}", "{d}", "{}", "{ hok }", "{\"hok\"}", "${hok}", "{{.ID}}", "%{hok}"}
                }
EOF
        once
        [ "$(field 1 result)" = '{print} {name} {d} {} { hok } {"hok"} ${hok} {{.ID}} %{hok}' ]
}

@test "a file of an editor that marks UTF-8 is read like any other" {
        printf '\xef\xbb\xbfhandler "*" { exec = {"echo", "marked"} }\n' >handlers.conf
        add a
        once
        [ "$(field 1 result)" = marked ]
}

@test "what a command leaves behind is told in the log" {
        handlers <<'EOF'
                handler "*" { exec = {"sh", "-c", "tail -f /dev/null & echo done"} }
EOF
        add a
        once
        [ "$(field 1 result)" = done ]
        grep -q 'msg="the command left processes behind, those of its group were killed" job=1 hook=a' work.log
}

@test "a command that ignores TERM is killed after its grace when its time is up" {
        handlers <<'EOF'
                handler "*" {
                  exec = {"bash", "-c", "trap '' TERM; while :; do read -r line <go; done"}
                  timeout = 100ms
                  grace = 100ms
                }
EOF
        add a --attempts 1
        once
        [ "$(field 1 error)" = 'killed after 100 ms (handler "*" in handlers.conf)' ]
}

@test "a mistake in the file names its line and what is allowed, and nothing starts" {
        add a
        handlers <<'EOF'
                # one
                # two
                handler "x" {
                  exec = {"true"}  // three
                  /* four
                     five */
                  timeout = 30
                }
EOF
        refused 'handlers.conf:7: timeout: 30 of what? Write 30ms'
        echo 'handler "x" { exec = {"true"} timeuot = 3s }' >handlers.conf
        refused "handlers.conf:1: no such option 'timeuot'" 'there are: exec, http, timeout'
        echo 'queue "x" { }' >handlers.conf
        refused "handlers.conf:1:" 'handler "pattern"'
        echo 'handler report_* { exec = "true" }' >handlers.conf
        refused "handlers.conf:1: a '*' outside of quotes"
        printf '\nhandler "x" {\n timeout = 1s\n}\n' >handlers.conf
        refused 'handlers.conf:4: handler "x" needs exec or http'
        printf 'handler "x" {\n exec = "true"\n http = "http://a.example/"\n}\n' >handlers.conf
        refused 'not both'
        printf 'handler "x" { exec = "true" }\nhandler "x" { exec = "false" }\n' >handlers.conf
        refused 'handlers.conf:2:' "duplicate title 'x'" 'a pattern has one handler'
        echo 'handler { exec = "true" }' >handlers.conf
        refused 'handlers.conf:1: missing title' 'write handler "pattern" { ... }'
        echo 'handler "x" exec = "true"' >handlers.conf
        refused 'handlers.conf:1: missing opening brace' 'write handler "pattern" { ... }'
        echo 'handler "x" { exec = {"echo" "y"} }' >handlers.conf
        refused 'handlers.conf:1: ' 'a list is {"one", "two"}'
        printf 'handler "x" {\n exec = "true";\n}\n' >handlers.conf
        refused "handlers.conf:2: a ';' outside of quotes"
        echo 'handler "x" { exec = "true" dir = ${HOME} }' >handlers.conf
        refused "handlers.conf:1: a '\$' outside of quotes"
        printf 'handler "x" {\n exec = {"true", "a"}\n exec = {"false", "b"}\n}\n' >handlers.conf
        refused 'handlers.conf:3: exec is set a second time'
        printf 'handler "x" {\n exec = "true"\n timeout = 1s\n timeout = 2s\n}\n' >handlers.conf
        refused 'handlers.conf:4: timeout is set a second time'
        echo 'handler "x" { exec = "true" secret_file = "none" }' >handlers.conf
        refused 'secret_file none: No such file'
        echo 0123456789abcdef >key
        chmod 644 key
        echo 'handler "x" { http = "http://a.example/" secret_file = "key" }' >handlers.conf
        refused 'chmod 600'
        chmod 600 key
        echo 'handler "x" { exec = "true" secret_file = "key" }' >handlers.conf
        refused 'secret_file is only for http handlers'
        for url in ftp://a.example/ a.example/x http:///x 'http://u:p@a.example/' 'http://a.example:99999/'; do
                echo "handler \"x\" { http = \"$url\" }" >handlers.conf
                refused 'handlers.conf:1: '
        done
        echo 'handler "x" { http = "http://a.example/{hok}" }' >handlers.conf
        refused "'{hok}' is none of {id} {hook}"
        echo 'handler "x" { http = "http://{group}.example/" }' >handlers.conf
        refused 'needs the hosts it may be in `allow`'
        echo 'handler "x" { http = "http://a.example/" allow = {"b.example"} }' >handlers.conf
        refused 'a.example is not in the list'
        echo 'handler "x" { http = "http://a.example/" allow = {"10.0.0.0/40"} }' >handlers.conf
        refused "allow: '10.0.0.0/40' is no host"
        printf 'handler "x" {\n http = "http://a.example/"\n allow = { }\n}\n' >handlers.conf
        refused 'handlers.conf:3: an empty list'
        echo 'handler "x" { exec = "true" memory = 1m }' >handlers.conf
        refused 'memory: at least 16m'
        echo 'handler "x" { exec = "no-such-program-anywhere" }' >handlers.conf
        refused 'handler "x" in handlers.conf: there is no program'
        echo 'handler "x" { exec = "echo hello" }' >handlers.conf
        refused "there is no program 'echo hello'" 'each word is one of its own'
        echo 'echo' >text
        echo 'handler "x" { exec = "./text" }' >handlers.conf
        refused "'./text' is no program that this worker may run" 'chmod +x'
        echo 'handler "x" { exec = "/usr/bin" }' >handlers.conf
        refused "'/usr/bin' is no program"
        printf 'handler "x" { exec = "true" }\nhandler "y" {\n exec = "true"\n' >handlers.conf
        refused "handlers.conf:2: a '{' is never closed"
        printf 'handler "x" {\n exec = "true\n}\n' >handlers.conf
        refused 'handlers.conf:'
        : >handlers.conf
        refused 'no handler'
        rm handlers.conf
        refused 'No such file'
        has_status 1 pending
        [ "$(field 1 attempt)" = 0 ]
}

@test "options of --exec and a file of handlers exclude each other" {
        echo 'handler "x" { exec = "true" }' >handlers.conf
        refused_with() {
                run weir work --once --queue q "$@"
                [ "$status" -eq 2 ]
        }
        refused_with --handlers handlers.conf --exec cat
        refused_with --handlers handlers.conf --timeout 3s
        [[ $output == *"--timeout goes with --exec"* ]]
        refused_with --handlers handlers.conf --prefetch -1
        refused_with --exec cat --env 'A B=c'
        refused_with --exec cat --env WEIR_JOB_ID=3
}

@test "a canceled job stops its command at the next renewal" {
        handlers <<'EOF'
                handler "*" { exec = {"sh", "-c", "trap 'echo ended >said' TERM; echo $$ >said; while :; do read x <go; done"} grace = 200ms }
EOF
        add a
        start_worker --queue q --lease 1s --handlers handlers.conf
        hear
        local pid=$REPLY
        ask CANCEL 1
        hear
        [ "$REPLY" = ended ]
        gone() {
                ! kill -0 "$pid" 2>/dev/null
        }
        eventually gone
        eventually grep -q 'not ours any more' work.log
        has_status 1 canceled
        kill -TERM "$WORKER"
        end_worker
}

@test "a command that ignores TERM is killed after its grace when its job is lost" {
        handlers <<'EOF'
                handler "*" { exec = {"sh", "-c", "trap '' TERM; echo $$ >said; while :; do read x <go; done"} grace = 200ms }
EOF
        add a
        start_worker --queue q --lease 1s --handlers handlers.conf
        hear
        ask CANCEL 1
        gone() {
                ! kill -0 "$REPLY" 2>/dev/null
        }
        eventually gone
        kill -TERM "$WORKER"
        end_worker
}

@test "a command ends with its worker, also when that is killed" {
        handlers <<'EOF'
                handler "*" { exec = {"sh", "-c", "echo $$ >said; read x <go"} }
EOF
        add a
        start_worker --queue q --handlers handlers.conf
        hear
        kill -KILL "$WORKER"
        end_worker || true
        gone() {
                ! kill -0 "$REPLY" 2>/dev/null
        }
        eventually gone
}

WAITER='handler "*" { exec = {"sh", "-c", "echo {id} >said; read x <go"} }'

@test "jobs taken ahead run in their order, and their leases are renewed" {
        echo "$WAITER" | handlers
        for i in 1 2 3 4; do add a; done
        start_worker --queue q --lease 9s --prefetch 2 --handlers handlers.conf
        hear
        [ "$REPLY" = 1 ]
        held() {
                tell QUEUES
                [[ ${ANSWERS[*]} == *" running 3 "* ]]
        }
        eventually held
        has_status 3 in-progress
        has_status 4 pending
        local first
        first=$(field 3 lease_until_ms)
        renewed() {
                [ "$(field 3 lease_until_ms)" -gt $((first + 2000)) ]
        }
        eventually renewed
        for i in 2 3 4; do
                let_go
                hear
                [ "$REPLY" = "$i" ]
        done
        let_go
        eventually has_status 4 complete
        [ "$(field 3 attempt)" = 1 ]
        kill -TERM "$WORKER"
        end_worker
}

@test "as many jobs may run and wait as the options allow" {
        echo 'handler "*" { exec = {"true"} }' | handlers
        seq 30 | weir job add n --many - --queue q
        once --slots 1000 --prefetch 1000
        [ "$(weir queue list --json | jq '.queues[0].completed')" = 30 ]
}

@test "SIGTERM finishes what runs and gives back what was taken ahead" {
        echo "$WAITER" | handlers
        for i in 1 2 3; do add a; done
        start_worker --queue q --prefetch 2 --handlers handlers.conf
        hear
        eventually has_status 3 in-progress
        kill -TERM "$WORKER"
        eventually has_status 3 pending
        eventually has_status 2 pending
        has_status 1 in-progress
        let_go
        end_worker
        has_status 1 complete
        [ "$(field 2 attempt)" = 0 ]
        grep -q 'completed=1 failed=0 released=2 lost=0' work.log
}

@test "a job that was taken ahead and canceled is never run" {
        echo "$WAITER" | handlers
        for i in 1 2 3; do add a; done
        start_worker --queue q --lease 1s --prefetch 1 --handlers handlers.conf
        hear
        eventually has_status 2 in-progress
        ask CANCEL 2
        eventually grep -q 'not ours any more' work.log
        let_go
        hear
        [ "$REPLY" = 3 ]
        let_go
        eventually has_status 3 complete
        kill -TERM "$WORKER"
        end_worker
}

@test "the health file follows the worker and goes with it" {
        echo "$WAITER" | handlers
        state_is() {
                grep -qs "\"state\":\"$1\"" health
        }
        start_worker --url "$RESP_SOCK" --queue q --health-file health --handlers handlers.conf
        eventually state_is idle
        [ "$(jq .pid health)" = "$WORKER" ]
        add a
        hear
        eventually state_is working
        [ "$(jq .running health)" = 1 ]
        let_go
        eventually grep -q '"completed":1[,}]' health
        stop_weir
        eventually state_is disconnected
        start_weir
        eventually state_is idle
        add b
        hear
        kill -TERM "$WORKER"
        eventually state_is draining
        let_go
        end_worker
        [ ! -e health ]
}

@test "a worker that has grown too large ends after its jobs, for its manager to start it anew" {
        echo "$WAITER" | handlers
        add a
        start_worker --queue q --max-memory 4k --handlers handlers.conf
        hear
        eventually grep -q 'max_memory=4096' work.log
        let_go
        end_worker
        has_status 1 complete
}
