#!/usr/bin/env bats
# weir-test: bin=release
# The options of a job, why it does not run, settings of queues, and caps: by the command line,
# against a real server.

load lib.bash

setup() {
        start_weir
        cd "$DATA" || return 1
}

teardown() {
        stop_weir
}

# claim QUEUE [N]: the ids of the jobs a claim gets, in order.
claim() {
        claim_of "$1" "${2:-1}"
}

codes() {
        weir job why "$1" --json | jq -c '[.blockers[].code]'
}

@test "every option of a job reaches the server and is shown" {
        weir job add first
        run weir job add h '{"n":1}' --queue q --group g --priority 9 --attempts 7 --timeout 90s \
                --backoff exp:5s,2,5m,15% --expires 2h --unique nightly --scope after --unique-for 1d \
                --conflict reject --key erp --key-max 2 --limit api --target shop --after 1 \
                --when ended --otherwise fail --result-for 1h30m
        [ "$status" -eq 0 ]
        [ "$output" = "added job 2" ]
        [ "$(weir job show 2 --json | jq -cS '.options | del(.expires_ms)')" = '{"after":[1],"backoff":"exp:5s,2,5m,15%","key":"erp","keymax":2,"limit":"api","otherwise":"fail","resultfor":5400000,"scope":"after","target":"shop","unique":"nightly","uniquefor":86400000,"when":"ended"}' ]
        [ "$(weir job show 2 --json | jq '.options.expires_ms - .created_ms | . > 7199000 and . < 7201000')" = true ]
        [ "$(field 2 timeout)" = 90000 ]
        run weir job show 2
        [ "$status" -eq 0 ]
        [[ $output == *"unique     nightly"* ]]
        [[ $output == *"scope      after"* ]]
        [[ $output == *"unique for 1 d"* ]]
        [[ $output == *"key        erp"* ]]
        [[ $output == *"key max    2"* ]]
        [[ $output == *"limit      api"* ]]
        [[ $output == *"target     shop"* ]]
        [[ $output == *"after      1"* ]]
        [[ $output == *"when       ended"* ]]
        [[ $output == *"otherwise  fail"* ]]
        [[ $output == *"backoff    exp:5s,2,5m,15%"* ]]
        [[ $output =~ "expires    "[0-9-]+\ [0-9:]+\ [+-][0-9]+\ \(in\ [12]\ h ]]
        [[ $output == *"result for 1 h 30 min"* ]]
}

@test "a job without options shows none" {
        weir job add plain
        [ "$(weir job show 1 --json | jq -c .options)" = '{}' ]
        run weir job show 1
        [[ $output != *unique* && $output != *expires* && $output != *after* ]]
}

@test "--after may be given several times, and names jobs that exist" {
        weir job add a
        weir job add a
        weir job add b --after 1 --after 2
        weir job add b --after 1,2,3
        [ "$(field 3 options.after)" = "$(printf '[\n  1,\n  2\n]')" ]
        [ "$(weir job show 4 --json | jq -c .options.after)" = '[1,2,3]' ]
        [[ $(weir job show 4) == *"after      1, 2, 3"* ]]
        run weir job add b --after 17
        [ "$status" -eq 4 ]
        [[ $output == *"there is no job 17"* ]]
        run weir job add b --after one
        [ "$status" -eq 2 ]
        [ "$(weir job list --json | jq '.jobs | length')" = 4 ]
}

@test "a unique key is answered with its holder, replaces, or is refused with exit 5" {
        [ "$(weir job add h old --unique k --id-only)" = 1 ]
        [ "$(weir job add h new --unique k --id-only)" = 1 ]
        [ "$(field 1 args)" = old ]
        [ "$(weir job add h new --unique k --conflict replace --id-only)" = 1 ]
        [ "$(field 1 args)" = new ]
        run weir job add h newer --unique k --conflict reject
        [ "$status" -eq 5 ]
        [[ $output == "weir: job 1 holds that unique key" ]]
        [ "$(weir job add h x --unique '*' --id-only)" = 2 ]
        [ "$(weir job add h x --unique '*' --id-only)" = 2 ]
        [ "$(weir job add h y --unique '*' --id-only)" = 3 ]
        run weir job add h --scope running
        [ "$status" -eq 2 ]
        run weir job add h --unique k --scope for-ever
        [ "$status" -eq 2 ]
        [[ $output == *"pending"*"running"*"after"* ]]
}

@test "options hold for many jobs at once" {
        [ "$(seq 3 | weir job add n --many - --key one --expires 1h --id-only | tr '\n' ' ')" = "1 2 3 " ]
        [ "$(weir job show 3 --json | jq -r '.options.key')" = one ]
        [ "$(claim default 3)" = '[1]' ]
        [ "$(seq 3 | weir job add n --many - --unique k --json)" = '{"ids":[4,4,4]}' ]
        run weir job add n --many /dev/null --backoff soon
        [ "$status" -eq 0 ] # no jobs, nothing to refuse
        run bash -c "echo x | '$WEIR_BIN' job add n --many - --backoff soon"
        [ "$status" -eq 2 ]
}

@test "wrong values are refused and nothing is added" {
        local words
        for words in "--expires 5" "--expires soon" "--unique-for 1h" "--result-for -1s" \
                "--backoff soon" "--key-max 0" "--key-max 2" "--when ended" "--otherwise fail" \
                "--conflict reject" "--priority 300" "--attempts 0" "--sign-key k"; do
                # shellcheck disable=SC2086
                run weir job add h x $words
                [ "$status" -eq 2 ] || {
                        echo "weir job add h x $words: $status $output"
                        return 1
                }
                [[ $output == "weir: "* ]]
        done
        run weir job add h --batch none
        [ "$status" -eq 4 ]
        [ "$(weir job list --json | jq '.jobs | length')" = 0 ]
}

@test "jobs are canceled by id or by filter, and a filter takes pending ones only" {
        seq 2500 | weir job add bulk --many - --queue q --group g
        weir job add other x --queue q
        weir job add bulk x --queue r
        [ "$(claim q)" = '[1]' ]
        [ "$(weir job cancel 2 3)" = $'canceled job 2\ncanceled job 3' ]
        [ "$(weir job cancel 4 5 --json)" = '{"jobs":[{"id":4,"status":"canceled"},{"id":5,"status":"canceled"}]}' ]
        [ "$(weir job cancel 6 --json)" = '"OK"' ]
        run weir job cancel 6 7 99999
        [ "$status" -eq 5 ]
        [[ $output == *"canceled job 7"* && $output == *"2 of 3 jobs were not canceled"* ]]
        [ "$(weir job cancel --hook bulk --queue q --json)" = '{"canceled":2493,"skipped":0}' ]
        [ "$(weir job cancel --group g)" = "canceled 0 jobs" ]
        has_status 1 in-progress
        has_status 2501 pending
        has_status 2502 pending
        [ "$(weir job cancel --all)" = "canceled 2 jobs" ]
        run weir job cancel
        [ "$status" -eq 2 ]
        run weir job cancel 1 --all
        [ "$status" -eq 2 ]
        weir job cancel 1
        has_status 1 canceled
}

@test "why: a job that waits for its time, and before when it cannot start" {
        weir job add later --in 1h
        run weir job why 1
        [ "$status" -eq 0 ]
        [ "${lines[0]}" = "job 1  pending" ]
        [[ ${lines[1]} =~ ^"  schedule         is due in "(1\ h|[0-9]+\ min(\ [0-9]+\ s)?)$ ]]
        [[ ${lines[-1]} =~ ^"not before "[0-9-]+\ [0-9:]+\ [+-][0-9]+\ \(in\ (1\ h|[0-9]+\ min) ]]
        [ "$(weir job why 1 --json | jq -r '.status')" = pending ]
        due=$(weir job show 1 --json | jq .due_ms)
        [ "$(weir job why 1 --json | jq ".not_before_ms - $due | . > -1000 and . < 1000")" = true ]
}

@test "why names every blocker in order, one a line" {
        weir job add first --key k
        weir job add first --key k --queue other
        weir job add h --after 1,2 --key k
        weir queue pause default
        [ "$(codes 3)" = '["dependency","dependency","pause"]' ]
        weir queue resume default
        [ "$(claim default)" = '[1]' ]
        [ "$(codes 2)" = '["single_instance"]' ]
        run weir job why 2
        [[ ${lines[1]} == *"single_instance  1 running job holds 'key:k', which allows 1"* ]]
        [ "${lines[2]}" = "when it starts is not known" ]
        [ "$(codes 1)" = '["running"]' ]
        [[ $(weir job why 1) == *"it runs: worker 'w' has it for "* ]]
        weir job add alone --queue nobody
        [ "$(codes 4)" = '["worker"]' ]
}

@test "why: limits, breakers, caps and jobs that are not there" {
        weir limit set queue:slow 1 1h
        weir job add h --queue slow
        weir job add h --queue slow
        [ "$(claim slow 2)" = '[1]' ]
        [ "$(codes 2)" = '["limit"]' ]
        weir job add h --queue slow
        [[ $(weir job why 3) == *"limit            rate limit 'queue:slow' is used up: no job starts for "*"; 1 job is ahead of it"* ]]
        [ "$(weir limit show queue:slow | grep -c '^waiting  2 jobs, 0 clients$')" -eq 1 ]
        [ "$(weir limit show queue:slow --json | jq .waiting_jobs)" -eq 2 ]
        weir queue set full --cap 1 --create
        weir job add h --queue full
        weir job add h --queue full
        [ "$(claim full 2)" = '[4]' ]
        [ "$(codes 5)" = '["queue_cap"]' ]
        [[ $(weir job why 5) == *"queue 'full' runs 1 job and its cap is 1"* ]]
        run weir job why 99
        [ "$status" -eq 4 ]
        [ "$output" = "weir: there is no job 99" ]
        run weir job why x
        [ "$status" -eq 2 ]
        run weir job why
        [ "$status" -eq 2 ]
}

@test "a queue is shown with its counts and settings, and set while it runs" {
        run weir queue show mail
        [ "$status" -eq 4 ]
        [[ $output == "weir: there is no queue 'mail'" ]]
        weir job add a --queue mail
        run weir queue show mail
        [ "$status" -eq 0 ]
        [ "${lines[0]}" = "queue mail  open" ]
        [[ $output == *"  ready       1"* ]]
        [[ $output == *"  claim size  as many as a claim asks for"* ]]
        [[ $output == *"  lease       5 min (the default)"* ]]
        [ "$(weir queue set mail --cap 3 --claim-size 25 --claims 1 --lease 2m --fair on --backoff fixed:7s --history failures)" = "set queue mail" ]
        [ "$(weir queue show mail --json | jq -c '[.cap, .claimsize, .claims, .lease, .fair, .backoff, .history]')" = '[3,25,1,120000,"on","fixed:7s","failures"]' ]
        run weir queue show mail
        [[ $output == *"  cap         3"*"  claim size  25"*"  claims      1"*"  lease       2 min"* ]]
        [[ $output == *"  fair        on"*"  backoff     fixed:7s"*"  history     failures"* ]]
        # What is not named stays, 0 takes back.
        [ "$(weir queue set mail --cap 0 --lease 0s --json)" = '"OK"' ]
        [ "$(weir queue show mail --json | jq -c '[.cap, .claimsize, .lease]')" = '[0,25,0]' ]
        weir queue pause mail
        [[ $(weir queue show mail) == "queue mail  paused"* ]]
        [ "$(weir queue show mail --json | jq -c '[.paused, .claimsize]')" = '[true,25]' ]
}

@test "settings of a queue survive a restart and wrong ones change nothing" {
        local words
        weir queue set night --cap 2 --fair on --create
        for words in "" "--cap -1" "--cap many" "--claim-size 1001" "--lease 1ms" "--lease 5" \
                "--fair maybe" "--backoff soon" "--history some" "--cap 7 --backoff soon"; do
                # shellcheck disable=SC2086
                run weir queue set night $words
                [ "$status" -eq 2 ] || {
                        echo "weir queue set night $words: $status $output"
                        return 1
                }
        done
        stop_weir
        start_weir
        [ "$(weir queue show night --json | jq -c '[.cap, .fair, .lease]')" = '[2,"on",0]' ]
}

@test "claim size and concurrent claims hold for every claim" {
        weir queue set as --claim-size 2 --claims 1 --create
        seq 5 | weir job add n --many - --queue as
        [ "$(claim as 10)" = '[1,2]' ]
        [ "$(claim as 10)" = '[]' ]
        [ "$(codes 3)" = '["claims"]' ]
        weir job cancel 1
        weir job cancel 2
        [ "$(claim as 10)" = '[3,4]' ]
}

@test "caps are set, listed and removed" {
        run weir cap list
        [ "$status" -eq 0 ]
        [[ $output == "no caps are set"* ]]
        [ "$(weir cap list --json)" = '{"caps":[]}' ]
        [ "$(weir cap set group:acme 2 --weight 3)" = "set cap group:acme" ]
        seq 4 | weir job add n --many - --group acme
        [ "$(claim default 10)" = '[1,2]' ]
        run weir cap list
        [[ ${lines[0]} == CAP*MAX*WEIGHT*RUNNING*WAITING* ]]
        [[ ${lines[1]} =~ ^group:acme\ +2\ +3\ +2\ +2$ ]]
        [ "$(weir cap list --json | jq -c '.caps[0] | [.name, .max, .weight, .running, .waiting]')" = '["group:acme",2,3,2,2]' ]
        [ "$(codes 3)" = '["single_instance"]' ]
        [ "$(weir cap remove group:acme --json)" = '"OK"' ]
        [ "$(claim default 10)" = '[3,4]' ]
        run weir cap remove group:acme
        [ "$status" -eq 4 ]
        run weir cap set acme 2
        [ "$status" -eq 2 ]
        [[ $output == *"key:NAME or group:NAME"* ]]
        run weir cap set group:acme
        [ "$status" -eq 2 ]
        [[ $output == *"missing argument: NAME MAX"* ]]
}

@test "a fair queue takes turns by weight" {
        weir queue set fair --fair on --create
        weir cap set group:big 0 --weight 2
        seq 8 | weir job add n --many - --queue fair --group big
        seq 4 | weir job add n --many - --queue fair --group small
        claim fair 6 >ids
        [ "$(jq -c '[([.[] | select(. <= 8)] | length), ([.[] | select(. > 8)] | length)]' ids)" = '[4,2]' ]
}

@test "a signed job is taken by a server with the key, and only with what was signed" {
        local keys=$DATA/signing.keys
        (umask 077 && printf 'k2 hex:%064d\nk1 hex:%064d\n' 2 1 >"$keys")
        stop_weir
        printf 'signing_keys_file = "%s"\n' "$keys" >"$DATA/weir.conf"
        start_weir -c "$DATA/weir.conf"
        weir job add ok '{"a":1}' --sign "$keys"
        weir job add ok x --sign "$keys" --sign-key k1 --queue default --group g --priority 7 \
                --attempts 2 --timeout 90s --key one
        printf 'a\nb\n' | weir job add ok --many - --sign "$keys" --priority 200
        weir job add bad x
        [[ $(field 1 options.signature) == k2:* ]]
        [[ $(field 2 options.signature) == k1:* ]]
        [ "$(weir job show 1 --json | jq -c '[.priority, .attempts, .timeout]')" = '[100,3,300000]' ]
        [ "$(claim default 10)" = '[2,1,3,4]' ]
        has_status 5 failed
        [ "$(field 5 error)" = "the job has no signature" ]
        run weir job add h x --sign "$keys" --sign-key k9
        [ "$status" -eq 4 ]
        [ "$output" = "weir: there is no key k9 to sign with" ]
        run weir job add h x --sign "$keys" --unique k --conflict replace
        [ "$status" -eq 2 ]
        run weir job add h x --sign none
        [ "$status" -eq 1 ]
        chmod 644 "$keys"
        run weir job add h x --sign "$keys"
        [ "$status" -eq 3 ]
        [[ $output == *"chmod 600"* ]]
        (umask 077 && printf '# one\n\nk1 tooshort\n' >"$keys.bad")
        run weir job add h x --sign "$keys.bad"
        [ "$status" -eq 2 ]
        [[ $output == *"signing.keys.bad: keys, line 3:"* && $output != *tooshort* ]]
        (umask 077 && : >"$keys.none")
        run weir job add h x --sign "$keys.none"
        [ "$status" -eq 2 ]
        [[ $output == *"holds no key"* ]]
}

@test "help has an example for each of these commands, and the manual has their options" {
        local man=$BATS_TEST_DIRNAME/../../docs/man/weir.1.scd words option
        for words in "job add" "job show" "job why" "job cancel" "queue list" "queue show" "queue set" "cap list" \
                "cap set" "cap remove"; do
                # shellcheck disable=SC2086
                run weir help $words
                [ "$status" -eq 0 ]
                [[ $output == *"  weir $words"* ]] || {
                        echo "weir $words has no example"
                        return 1
                }
                grep -qF "*weir $words*" "$man"
                # shellcheck disable=SC2086
                for option in $(weir help $words | grep -oE '^  --[a-z-]+'); do
                        grep -qF -- "*$option*" "$man" || {
                                echo "weir $words: $option is not in $man"
                                return 1
                        }
                done
        done
}
