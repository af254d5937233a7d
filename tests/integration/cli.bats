#!/usr/bin/env bats
# weir-test: bin=release
# The command line against a real server.

load lib.bash

setup() {
        start_weir
        cd "$DATA" || return 1
}

teardown() {
        stop_weir
}

@test "ping says that weir answers, and where" {
        run weir ping
        [ "$status" -eq 0 ]
        [[ $output == "weir answers on 127.0.0.1:$RESP_PORT in "*" ms" ]]
        run weir ping --url "unix:$RESP_SOCK"
        [ "$status" -eq 0 ]
        run weir --url "$RESP_SOCK" ping
        [ "$status" -eq 0 ]
        [ "$(weir ping --json)" = '"PONG"' ]
}

@test "a job is added and shown with its whole story" {
        run weir job add resize '{"image": 17}' --queue media --group shop --priority 7 --attempts 5
        [ "$status" -eq 0 ]
        [ "$output" = "added job 1" ]
        run weir job show 1
        [ "$status" -eq 0 ]
        [[ ${lines[0]} == "job 1  pending" ]]
        [[ $output == *"hook       resize"* ]]
        [[ $output == *"queue      media"* ]]
        [[ $output == *"group      shop"* ]]
        [[ $output == *"priority   7"* ]]
        [[ $output == *"attempt    0 of 5"* ]]
        [[ $output == *'args       {"image": 17}'* ]]
        [[ $output == *"events"*"created"* ]]
        [ "$(field 1 args.image)" = 17 ]
        [ "$(field 1 'events[0].event')" = created ]
}

@test "the id alone, JSON, standard input and files" {
        [ "$(weir job add a x --id-only)" = 1 ]
        [ "$(weir job add a x --json)" = 2 ]
        printf 'from\nstdin' | weir job add a -
        [ "$(field 3 args)" = $'from\nstdin' ]
        printf '{"from":"file"}' >"$DATA/args"
        weir job add a "@$DATA/args"
        [ "$(field 4 args.from)" = file ]
        weir job add a
        run weir job add a "@$DATA/none"
        [ "$status" -eq 1 ]
        [[ $output == *"cannot read"* ]]
        weir job add -- --a-hook-with-dashes
        [ "$(field 6 hook)" = --a-hook-with-dashes ]
}

@test "a megabyte of arguments is taken, one byte more is not" {
        head -c 1048576 /dev/zero | tr '\0' x | weir job add big -
        [ "$(weir job show 1 --json | jq '.args | length')" = 1048576 ]
        run weir job add big - < <(head -c 1048577 /dev/zero | tr '\0' x)
        [ "$status" -eq 2 ]
        [[ $output == *"larger than 1048576 bytes"* ]]
}

@test "many jobs from a file, one a line" {
        seq 25000 >"$DATA/lines"
        run weir job add count --many "$DATA/lines" --queue many
        [ "$status" -eq 0 ]
        [ "$output" = "added 25000 jobs" ]
        [ "$(weir queue list --json | jq '.queues[0].ready')" = 25000 ]
        [ "$(field 25000 args)" = 25000 ]
        [ "$(printf 'a\n\nb\r\n' | weir job add x --many - --id-only | tr '\n' ' ')" = "25001 25002 " ]
        [ "$(field 25002 args)" = b ]
        [ "$(printf 'a\nb\n' | weir job add x --many - --json)" = '{"ids":[25003,25004]}' ]
        [ "$(weir job add x --many /dev/null --json)" = '{"ids":[]}' ]
}

@test "later means later: --in and --at" {
        local began_ms
        began_ms=$(date +%s%3N)
        weir job add a --in 1h30m
        weir job add a --at 2050-01-02T03:04:05Z
        weir job add a --timeout 90s
        run weir job list
        [ "$status" -eq 0 ]
        [[ $output =~ "in 1 h "[0-9]+" min" ]]
        [ "$(field 1 due_ms)" -ge $((began_ms + 5400000)) ]
        [ "$(field 1 due_ms)" -le $(($(date +%s%3N) + 5400000)) ]
        [ "$(field 2 due_ms)" = 2524705445000 ]
        [ "$(field 3 timeout)" = 90000 ]
        run weir job add a --in 1h --at 10:00
        [ "$status" -eq 2 ]
        run weir job add a --in 5
        [ "$status" -eq 2 ]
        [[ $output == *"5 of what? Write 5ms, 5s or 5m"* ]]
        run weir job add a --in 5parsecs
        [ "$status" -eq 2 ]
        [[ $output == *"500ms, 30s, 5m, 2h, 1d"* ]]
        run weir job add a --at yesterday
        [ "$status" -eq 2 ]
        run weir job add a --priority 256
        [ "$status" -eq 2 ]
        [[ $output == *"priority"*"255"* ]]
}

@test "listing: newest first, filtered, page by page" {
        seq 120 | weir job add n --many - --queue numbers
        weir job add other '{"needle": 1}' --group g
        weir job cancel 7
        run weir job list
        [ "$status" -eq 0 ]
        [[ ${lines[0]} == *ID*STATUS*HOOK*QUEUE*GROUP*ATTEMPT*WHEN*DETAIL* ]]
        [[ ${lines[1]} == *121*pending*other*default*g*0/3*needle* ]]
        [[ $output == *"there are more: --all"* ]]
        [ "$(weir job list --all --json | jq '.jobs | length')" = 121 ]
        [ "$(weir job list --all 2>"$DATA/err" | wc -l)" = 122 ]
        [ ! -s "$DATA/err" ]
        [ "$(weir job list --hook other --json | jq -c '[.jobs[].id]')" = '[121]' ]
        [ "$(weir job list --match needle --json | jq -c '[.jobs[].id]')" = '[121]' ]
        [ "$(weir job list --group g --json | jq -c '[.jobs[].id]')" = '[121]' ]
        [ "$(weir job list --queue default --json | jq -c '[.jobs[].id]')" = '[121]' ]
        [ "$(weir job list --status canceled --json | jq -c '[.jobs[].id]')" = '[7]' ]
        local page cursor
        page=$(weir job list --limit 2 --json)
        [ "$(jq -c '[.jobs[].id]' <<<"$page")" = '[121,120]' ]
        cursor=$(jq -r .cursor <<<"$page")
        [ "$(weir job list --limit 2 --cursor "$cursor" --json | jq -c '[.jobs[].id]')" = '[119,118]' ]
        run weir job list --hook nobody
        [ "$status" -eq 0 ]
        [ "$output" = "no jobs" ]
        run weir job list --status 'done'
        [ "$status" -eq 2 ]
        [[ $output == *pending*in-progress* ]]
}

@test "canceling twice, and what is not there: the exit codes say which" {
        weir job add a
        run weir job cancel 1
        [ "$status" -eq 0 ]
        [ "$output" = "canceled job 1" ]
        has_status 1 canceled
        run weir job cancel 1
        [ "$status" -eq 5 ]
        run weir job show 99
        [ "$status" -eq 4 ]
        [ "$output" = "weir: there is no job 99" ]
        run weir job events 99
        [ "$status" -eq 4 ]
        run weir job cancel 99
        [ "$status" -eq 4 ]
        run weir job show seventeen
        [ "$status" -eq 2 ]
}

@test "events are a timeline" {
        weir job add a
        weir job cancel 1
        run weir job events 1
        [ "$status" -eq 0 ]
        [ "${#lines[@]}" -eq 2 ]
        [[ ${lines[0]} == *created* ]]
        [[ ${lines[1]} =~ \ \+[0-9.]+\ m?s\ +canceled ]]
        [ "$(weir job events 1 --json | jq -r '[.events[].event] | join(" ")')" = "created canceled" ]
}

@test "queues are listed, paused, resumed and removed" {
        run weir queue list
        [ "$status" -eq 0 ]
        [[ $output == "no queues yet"* ]]
        weir job add a --queue mail
        weir job add a --queue mail --in 1h
        [ "$(weir queue pause mail)" = "paused queue mail" ]
        run weir queue list
        [[ ${lines[0]} == QUEUE*STATE*READY*SCHEDULED*RUNNING*COMPLETED*FAILED*CANCELED*OLDEST* ]]
        [[ ${lines[1]} =~ ^mail\ +paused\ +1\ +1\ +0\ +0\ +0\ +0\  ]]
        [ "$(weir queue resume mail)" = "resumed queue mail" ]
        [ "$(weir queue list --json | jq '.queues[0].paused')" = false ]
        weir queue pause mial --create
        [ "$(weir queue remove mial)" = "removed queue mial" ]
        [ "$(weir queue list --json | jq -r '.queues[].name')" = mail ]
        run weir queue remove mail
        [ "$status" -eq 5 ]
        [[ $output == *"queue 'mail' has 2 jobs that have not ended"* ]]
}

@test "mistakes are answered with what was meant" {
        run weir jobb list
        [ "$status" -eq 2 ]
        [[ $output == *"did you mean 'job'?"* ]]
        run weir job lits
        [ "$status" -eq 2 ]
        [[ $output == *"did you mean 'list'?"* ]]
        run weir job list --qeue x
        [ "$status" -eq 2 ]
        [[ $output == *"did you mean --queue?"* ]]
        run weir job add
        [ "$status" -eq 2 ]
        [[ $output == *"HOOK"*"weir job add --help"* ]]
        run weir job show 1 2
        [ "$status" -eq 2 ]
        run weir job add x --queue
        [ "$status" -eq 2 ]
        run weir xyzzy
        [ "$status" -eq 2 ]
        [[ $output != *"did you mean"* ]]
}

@test "help is everywhere and goes to standard output" {
        local words
        for words in "help" "--help" "help job" "job --help" "help job add" "job add --help" \
                "job list -h" "work --help" "queue --help" "queue pause --help" "ping --help" \
                "help serve" "help log" "help log verify" "help version" "help help"; do
                run bash -c "'$WEIR_BIN' $words 2>/dev/null"
                [ "$status" -eq 0 ]
                [[ $output == "usage: weir "* ]]
        done
        run weir
        [ "$status" -eq 2 ]
        run weir job
        [ "$status" -eq 2 ]
        run weir help nothing
        [ "$status" -eq 2 ]
}

@test "without a server: what is wrong and what to do" {
        local port=1 # which nobody listens on
        stop_weir
        run weir ping --url "127.0.0.1:$port"
        [ "$status" -eq 7 ]
        [ "$output" = "weir: nothing answers on 127.0.0.1:$port: is it running? start it with 'weir serve', or name another with --url" ]
        run weir ping --url "$DATA/none.sock"
        [ "$status" -eq 7 ]
        [[ $output == *"there is no socket"* ]]
        run weir ping --url redis://no-such-host.invalid
        [ "$status" -eq 7 ]
        [[ $output == *"cannot find the host"* ]]
}

@test "the other door's address is told apart" {
        run weir ping --url "$HTTP_URL"
        [ "$status" -eq 2 ]
        [[ $output == *"is the HTTP address"*"redis://"* ]]
        run weir ping --url "127.0.0.1:$HTTP_PORT"
        [ "$status" -ne 0 ]
        [[ $output == *"127.0.0.1:$HTTP_PORT"* ]]
        run weir ping --url "ftp://x"
        [ "$status" -eq 2 ]
}

@test "what a job says never reaches the terminal as an order" {
        printf '\033]0;owned\007\xff\342\200\256' | weir job add evil - --group $'g\u0085'  || true
        printf '\033]0;owned\007\xff\342\200\256' | weir job add evil -
        weir job list >"$DATA/out"
        weir job show 1 >>"$DATA/out"
        LC_ALL=C not grep -q $'\033' "$DATA/out"
        LC_ALL=C not grep -q $'\377' "$DATA/out"
        grep -qF '\x1b]0;owned' "$DATA/out"
        weir job show 1 --json | jq . >/dev/null
}

@test "colours on a terminal only, and not with NO_COLOR" {
        command -v script >/dev/null || skip "script(1) is not here"
        weir job add a
        weir job list >"$DATA/piped"
        not grep -q $'\033' "$DATA/piped"
        TERM=xterm script -qec "'$WEIR_BIN' job list" /dev/null </dev/null >"$DATA/tty"
        grep -q $'\033\[' "$DATA/tty"
        NO_COLOR=1 TERM=xterm script -qec "'$WEIR_BIN' job list" /dev/null </dev/null >"$DATA/plain"
        not grep -q $'\033' "$DATA/plain"
}

@test "a table is cut to the terminal's width" {
        command -v script >/dev/null || skip "script(1) is not here"
        weir job add a "$(printf 'x%.0s' {1..300})"
        TERM=xterm script -qec "stty cols 80; '$WEIR_BIN' job list" /dev/null </dev/null >"$DATA/tty"
        [ "$(sed 's/\x1b\[[0-9;]*m//g; s/\r//' "$DATA/tty" | wc -L)" -le 80 ]
}

@test "a reader that leaves early is no error worth a word, a full disk is" {
        seq 3000 | weir job add n --many -
        run bash -c "'$WEIR_BIN' job list --all 2>&1 | head -n 1"
        [ "$status" -eq 0 ]
        [ "${#lines[@]}" -eq 1 ]
        run bash -c "'$WEIR_BIN' job list --all >/dev/full"
        [ "$status" -eq 1 ]
        [[ $output == *"cannot write the output"* ]]
}

@test "every option of every command is in the manual" {
        local man=$BATS_TEST_DIRNAME/../../docs/man words page option
        for words in "job add" "job list" "job show" "queue list" "work" "serve" "ping"; do
                page=$man/weir.1.scd
                [ "$words" = work ] && page=$man/weir-work.1.scd
                # shellcheck disable=SC2086
                for option in $(weir help $words | grep -oE '^  --[a-z-]+'); do
                        grep -qF -- "*$option*" "$page" || {
                                echo "weir $words: $option is not in $page"
                                return 1
                        }
                done
        done
}

@test "the example configuration is valid, and the manual names every setting of it" {
        local root=$BATS_TEST_DIRNAME/../.. name
        run weir serve --check --config "$root/packaging/weir.conf"
        [ "$status" -eq 0 ]
        # Also with everything uncommented but the token.
        sed -E 's/^# ((log_|history|queue|        hist|\}).*)/\1/' "$root/packaging/weir.conf" >all.conf
        run weir serve --check --config all.conf
        [ "$status" -eq 0 ]
        tr -d '\\' <"$root/docs/man/weir.conf.5.scd" >manual # scdoc's escapes
        for name in $(grep -oE '^(# )?[a-z_]+ =' "$root/packaging/weir.conf" | tr -d '#='); do
                grep -q "^\*$name\* =" manual
        done
}
