#!/usr/bin/env bats
# weir-test: timeout=180 bin=release outer=part
# The operator's side of the command line: files of jobs, export and import, backup, doctor, --watch,
# --filter and completion, against a real server.

load lib.bash

setup() {
        start_weir
        cd "$DATA" || return 1
}

teardown() {
        for pid in ${WATCH_PID:-} ${WORK_PID:-} ${ADD_PID:-}; do
                kill -KILL "$pid" 2>/dev/null || true
        done
        stop_second
        stop_weir
        [ -z "${ON_DISK:-}" ] || rm -r "$ON_DISK"
}

# disk_folder: one that is no memory
disk_folder() {
        local folder
        for folder in "$BATS_TEST_TMPDIR" /var/tmp "$BATS_TEST_DIRNAME/../../build"; do
                [[ $(stat -f -c %T "$folder") == @(tmpfs|ramfs) ]] || break
        done
        echo "$folder"
}

# A second server, on a folder that is given: SECOND_URL.
start_second() {
        local line
        rm -f "$DATA/second"
        mkfifo "$DATA/second"
        "$WEIR_BIN" serve --data "$1" --resp "$DATA/second.sock" --http 127.0.0.1:0 >"$DATA/second" \
                2>>"$DATA/server.log" 3>&- &
        SECOND_PID=$!
        read -r -t 120 line <"$DATA/second"
        [[ $line == ready* ]]
        SECOND_URL=$DATA/second.sock
}

stop_second() {
        [ -n "${SECOND_PID:-}" ] || return 0
        kill -TERM "$SECOND_PID"
        wait "$SECOND_PID" || true
        SECOND_PID=
}

ready_in() {
        weir queue show "$1" --json | jq .ready
}

# --- job add --file ---

@test "a file of jobs is added with the options of each line and those of the command" {
        cat >jobs.ndjson <<'END'
{"hook":"mail.send","args":{"to":1},"queue":"mail","priority":7}

{"hook":"mail.send","args":"text","queue":"mail","group":"g","attempts":9,"timeout":5000}
{"args":[1,2]}
{"hook":"raw","args_base64":"AP8=","key":"k","keymax":2,"unique":"u"}
END
        run weir job add other --file jobs.ndjson --queue rest --tier high
        [ "$status" -eq 0 ]
        [ "$output" = "added 4 jobs" ]
        [ "$(field 1 priority)/$(field 1 queue)/$(field 1 'options.tier')" = 7/mail/high ]
        [ "$(field 2 group)/$(field 2 attempts)/$(field 2 timeout)" = g/9/5000 ]
        [ "$(field 3 hook)/$(field 3 queue)/$(weir job show 3 --json | jq -c .args)" = 'other/rest/[1,2]' ]
        [ "$(field 4 'options.key')/$(field 4 'options.unique')" = k/u ]
        [ "$(weir job show 2 --json | jq -c .args)" = '"text"' ]
}

@test "jobs come from a pipe, and their ids can be had" {
        run bash -c "printf '{\"hook\":\"a\"}\n{\"hook\":\"b\"}' | '$WEIR_BIN' job add --file - --id-only"
        [ "$status" -eq 0 ]
        [ "$output" = "$(printf '1\n2')" ]
        run bash -c "printf '{\"hook\":\"c\"}\n' | '$WEIR_BIN' job add --file - --json"
        [ "$output" = '{"ids":[3]}' ]
        run bash -c "'$WEIR_BIN' job add --file - </dev/null"
        [ "$output" = "added 0 jobs" ]
}

@test "thirty thousand jobs, more than one request takes, are all there and in order" {
        seq 30000 | sed 's/.*/{"hook":"h","args":&,"queue":"new"}/' >jobs.ndjson
        run weir job add --file jobs.ndjson
        [ "$status" -eq 0 ]
        [ "$output" = "added 30000 jobs" ]
        [ "$(ready_in new)" = 30000 ]
        [ "$(field 1 args)/$(field 10001 args)/$(field 30000 args)" = 1/10001/30000 ]
}

@test "a bad line is told by its number, its chunk is not added, and what was is told" {
        seq 15000 | sed 's/.*/{"hook":"h","args":&}/' >jobs.ndjson
        sed -i '12000s/.*/{"hook":"h","prioriy":1}/' jobs.ndjson
        run weir job add --file jobs.ndjson
        [ "$status" -eq 2 ]
        [[ $output == *"line 12000: 'prioriy' is not known in a job"* ]]
        [[ $output == *"added: 10000 jobs, nothing after line 10000"* ]]
        [ "$(ready_in default)" = 10000 ]
}

@test "bad lines are left out with --skip-bad, also those that only the server refuses" {
        seq 2000 | sed 's/.*/{"hook":"h","args":&}/' >jobs.ndjson
        sed -i -e '7s/.*/nonsense/' -e "1000s/.*/{\"hook\":\"$(printf 'x%.0s' {1..300})\"}/" jobs.ndjson
        sed -i '1500s/.*/{"hook":"h","queue":"q","priority":999}/' jobs.ndjson
        run weir job add --file jobs.ndjson --skip-bad
        [ "$status" -eq 1 ]
        [[ $output == *"line 7: JSON"* && $output == *"line 1000: hook must be"* ]]
        [[ $output == *"line 1500: "*"priority"* && $output == *"3 bad lines were left out"* ]]
        [[ $output == *"added 1997 jobs"* ]]
        [ "$(ready_in default)" = 1997 ]
}

@test "the same file with the same key adds nothing twice" {
        seq 25000 | sed 's/.*/{"hook":"h","args":&}/' >jobs.ndjson
        weir job add --file jobs.ndjson --once import-7
        run weir job add --file jobs.ndjson --once import-7
        [ "$output" = "added 25000 jobs" ]
        [ "$(ready_in default)" = 25000 ]
}

@test "wrong words for a file are told" {
        run weir job add
        [ "$status" -eq 2 ]
        [[ $output == *"HOOK, or --file FILE"* ]]
        run weir job add h args --file x
        [ "$status" -eq 2 ]
        run weir job add h --skip-bad
        [ "$status" -eq 2 ]
        run weir job add --file /nowhere
        [ "$status" -eq 1 ]
        [[ $output == *"/nowhere: No such file"* ]]
        run weir job add --file .
        [[ $output == *"is a folder"* ]]
        run weir job add --file x --once "$(printf 'x%.0s' {1..201})"
        [ "$status" -eq 2 ]
}

@test "a server that goes away in the middle leaves an exact account" {
        mkfifo pipe
        "$WEIR_BIN" job add --file pipe >out 2>&1 3>&- &
        ADD_PID=$!
        exec 8>pipe
        seq 10001 | sed 's/.*/{"hook":"h","args":&,"queue":"q"}/' >&8
        has_some() { [ "$(weir queue list --json | jq '.queues | map(.ready) | add // 0')" -ge 10000 ]; }
        eventually has_some
        kill -KILL "$WEIR_PID"
        wait "$WEIR_PID" || true
        echo '{"hook":"h","queue":"other"}' >&8
        exec 8>&-
        wait "$ADD_PID" || true
        cat out
        grep -Eq 'added(:| for sure:) [0-9]+ jobs' out
        WEIR_PID=
        start_weir
        local sure there
        sure=$(grep -oE 'added(:| for sure:) [0-9]+' out | grep -oE '[0-9]+$')
        there=$(weir queue list --json | jq '.queues | map(.ready) | add // 0')
        [ "$there" -ge "$sure" ]
}

# --- export and import ---

@test "what is exported and imported is the same, with new ids and times that still hold" {
        weir schedule add nightly report '{"a":1}' --cron '0 5 * * *' --zone Europe/Berlin
        weir schedule add pull sync 'plain' --every 5m --overlap allow --queue s
        weir schedule pause pull
        weir limit set api 5 10s --kind tokens --burst 3
        weir breaker set shop --threshold 7 --rate 50
        weir cap set group:acme 5 --weight 2
        weir registry set 'erp*' deferrable
        weir rule set etl ratio 0.5 --for 1h --reason "two words"
        weir queue set mail --cap 3 --fair on --create
        weir queue pause mail
        weir job add first
        weir job add a '{"n":1}' --queue mail --priority 5 --attempts 9 --timeout 90s --key erp --tier high
        weir job add b $'\xff\x00raw' --after 2 --otherwise fail --expires 2h
        weir job add c --in 1h --unique k1
        weir job cancel 1
        weir export >out.ndjson
        [ "$(tail -n 1 out.ndjson | jq -r .type)" = end ]
        start_second "$DATA/second-data"
        run weir --url "$SECOND_URL" import out.ndjson
        echo "$output"
        [ "$status" -eq 0 ]
        [[ $output == *"imported 3 jobs and 9 things"* ]]
        weir --url "$SECOND_URL" export >again.ndjson
        local same='select(.type != "weir" and .type != "end")
                | del(.id, .created_ms, .left_ms, .first_ms, .after, .expires_ms)
                | if .hook == "c" then . else del(.due_ms) end'
        diff <(jq -cS "$same" out.ndjson | sort) <(jq -cS "$same" again.ndjson | sort)
        [ "$(jq -c 'select(.hook == "b") | .after' again.ndjson)" = "[1]" ]
        jq -se '[.[] | select(.hook == "b") | .expires_ms / 1000 - 7200 - now | . < 1 and . > -60][0]' again.ndjson
        [ "$(weir --url "$SECOND_URL" schedule show pull --json | jq -r .state)" = paused ]
        [ "$(weir --url "$SECOND_URL" queue show mail --json | jq -r .paused)" = true ]
}

@test "an export can be narrowed, and finished jobs are not imported" {
        weir job add keep --queue a
        weir job add gone --queue b
        weir job cancel 2
        [ "$(weir export --only jobs | jq -r 'select(.type == "job").hook')" = keep ]
        [ "$(weir export --only jobs --status canceled | jq -r 'select(.type == "job").hook')" = gone ]
        [ "$(weir export --only schedules | jq -r .type | paste -sd,)" = weir,end ]
        run weir export --only nonsense
        [ "$status" -eq 2 ]
        weir export --status canceled >out.ndjson
        run weir import out.ndjson
        [[ $output == *"1 finished job was left out"* ]]
}

@test "an import tells bad lines and a file that broke off" {
        printf '{"type":"weir","version":1}\n{"type":"limit","name":"x"}\n{"type":"what"}\nno\n{"type":"job","hook":"h"}\n' >in
        run weir import in
        [ "$status" -eq 1 ]
        [[ $output == *"line 2: it has no amount"* && $output == *"line 3: it is of no type"* ]]
        [[ $output == *"line 4: JSON"* && $output == *"imported 1 job and 0 things"* && $output == *"broke off"* ]]
        printf '{"type":"schedule","name":"s","hook":"h","every_ms":1000,"prioriy":1}\n{"type":"schedule","name":"s","hook":"h","every_ms":1000,"args_base64":"AP9="}\n' >wrong
        run weir import wrong
        [ "$status" -eq 1 ]
        [[ $output == *"line 1: 'prioriy' is not known in a schedule"*"line 2: args_base64 is not padded base64"* ]]
        [ "$(weir schedule list --json | jq '.schedules | length')" = 0 ]
        run weir import in --json
        [ "${lines[-1]}" = '{"jobs":1,"things":0,"finished":0,"bad":3,"ran":0,"untied":0,"unbatched":0,"open_batches":0,"unknown":0}' ]
}

# --- backup ---

# backup_of BASE LOAD: while a worker takes BASE jobs and another client adds LOAD
backup_of() {
        seq "$1" | sed 's/.*/{"hook":"h","args":&,"queue":"base"}/' | weir job add --file -
        weir limit set api 5 10s
        "$WEIR_BIN" work --exec true --queue base --slots 4 >/dev/null 2>&1 3>&- &
        WORK_PID=$!
        seq "$2" | sed 's/.*/{"hook":"h","args":&,"queue":"load"}/' >load.ndjson
        "$WEIR_BIN" job add --file load.ndjson >/dev/null 2>&1 3>&- &
        local load=$!
        some_are_complete() { [ "$(weir queue show base --json | jq .completed)" -gt 5 ]; }
        eventually some_are_complete
        run weir backup copy --data "$DATA/data" --json
        echo "$output"
        [ "$status" -eq 0 ]
        kill "$WORK_PID"
        wait "$WORK_PID" "$load" || true
        WORK_PID=
        weir log verify copy
        weir history verify copy
        start_second copy
        export WEIR_URL=$SECOND_URL
        # Each job of the base is in one place: waiting, or finished once and in history.
        local q
        q=$(weir queue show base --json)
        [ "$(jq '.ready + .scheduled + .waiting + .running + .completed + .failed' <<<"$q")" = "$1" ]
        [ "$(weir job list --queue base --all --json | jq '[.jobs[].id] | length, (unique | length)' | paste -sd,)" = "$1,$1" ]
        [ "$(weir job list --queue base --status complete --all --json | jq '.jobs | length')" = "$(jq .completed <<<"$q")" ]
        [ "$(weir limit show api --json | jq .amount)" = 5 ]
        [ "$(weir job add new --id-only)" -gt "$1" ]
}

@test "a backup under load starts, and holds all that was acknowledged before it" {
        backup_of 3000 100000
}

# bats test_tags=outer
@test "a large backup under load starts, and holds all that was acknowledged before it" {
        backup_of 20000 300000
}

@test "a backup of a stopped server is as good, and a folder that is there is left alone" {
        weir job add one
        stop_weir
        run weir backup copy --data "$DATA/data"
        [ "$status" -eq 0 ]
        [[ $output == *"copied 1 live and 0 finished jobs"*"weir serve --data copy"* ]]
        run weir backup copy --data "$DATA/data"
        [ "$status" -eq 1 ]
        [[ $output == *"copy is there already: name a new folder"* ]]
        run weir backup other --data "$DATA/nothing"
        [ "$status" -eq 4 ]
        [ ! -e other ]
        run weir backup
        [ "$status" -eq 2 ]
        start_second copy
        [ "$(weir --url "$SECOND_URL" job show 1 --json | jq -r .hook)" = one ]
        start_weir
}

# --- doctor ---

@test "the doctor finds a sound set-up sound, and tells the speed of the disk" {
        # The folder of the tests may be memory, which is not sound.
        stop_weir
        ON_DISK=$(mktemp -d "$(disk_folder)/weir-test.XXXXXX")
        DATA=$ON_DISK RESP_SOCK=$ON_DISK/resp.sock
        start_weir
        run weir doctor --data "$DATA/data" --json
        [ "$(jq .ok <<<"$output")" = true ]
        [ "$(jq -r '.checks[] | select(.name == "server").verdict' <<<"$output")" = ok ]
        [ "$(jq -r '.checks[] | select(.name == "log").text' <<<"$output")" = "in use by a weir that has read it" ]
        jq -r '.checks[] | select(.name == "disk sync").text' <<<"$output" | grep -Eq 'p50 [0-9.]+ ms, p99 [0-9.]+ ms'
        [ "$(ls "$DATA/data")" = "$(printf 'history.db\nhistory.db-shm\nhistory.db-wal\nlog')" ]
        run weir doctor --data "$DATA/data"
        [ "$status" -eq 0 ]
        [[ $output == *"time zones"* && $output == *"open files"* && $output == *clock* ]]
}

@test "the doctor says what is wrong and what to do" {
        cat >bad.conf <<END
data = "$DATA/data"
resp = { "0.0.0.0:7379" }
target "gone" {
        kind = "command"
        metric "x" { source = "false" elevated = 1 critical = 2 }
}
END
        run weir doctor -c bad.conf --json
        echo "$output"
        if [ "$(jq -r '.checks[0].name' <<<"$output")" = configuration ] &&
                [ "$(jq -r '.checks[0].verdict' <<<"$output")" = ok ]; then
                [ "$(jq -r '.checks[] | select(.name == "access").verdict' <<<"$output")" = bad ]
                [ "$(jq -r '[.checks[] | select(.name == "target").verdict] | first' <<<"$output")" = bad ]
        fi
        [ "$status" -eq 1 ]
        echo 'nonsense = 1' >worse.conf
        run weir doctor -c worse.conf
        [ "$status" -eq 1 ]
        [[ $output == *"bad   configuration"* && $output == *"-> "* ]]
        stop_weir
        run weir doctor --data "$DATA/data"
        [[ $output == *"warn  server"*"nothing answers"* ]]
        [[ $output == *"ok    log"*"sound"* && $output == *"ok    history"*"can be read"* ]]
        start_weir
}

@test "the doctor looks at every token file, at the folder's mode, and at insecure = true" {
        (umask 077 && echo a-token-that-is-quite-long-7261 >all && echo a-token-that-is-also-long-8812 >ci)
        cat >own.conf <<END
data = "$DATA/data"
resp = { "$RESP_SOCK" }
http = { "0.0.0.0:$HTTP_PORT" }
insecure = true
token_file = "$DATA/all"
token "ci" { role = {"producer"} secret_file = "$DATA/ci" }
END
        chmod 640 ci
        chmod 750 data
        run weir doctor -c own.conf --json
        [ "$(jq -r '.checks[] | select(.name == "token file") | .verdict + " " + .text' <<<"$output")" = \
                "$(printf '%s\n' "ok $DATA/all is for its owner alone" "warn $DATA/ci has mode 640")" ]
        [[ $(jq -r '.checks[] | select(.name == "access") | .verdict + " " + .text' <<<"$output") == "warn insecure = true: "* ]]
        [[ $(jq -r '[.checks[] | select(.name == "data folder")][0] | .verdict + " " + .text' <<<"$output") == "warn "*"(mode 750)" ]]
        sed -i 's/^token.*//; s/^insecure.*//' own.conf
        run weir doctor -c own.conf --json
        [[ $(jq -r '.checks[] | select(.name == "access") | .verdict + " " + .text' <<<"$output") == "bad 0.0.0.0:"*"no token is asked for" ]]
}

# --- watch and filter ---

@test "--watch prints one JSON document a tick and follows a restart" {
        weir job add one --queue q
        # The socket is the same again; a port might meanwhile be another program's.
        "$WEIR_BIN" queue list --url "$RESP_SOCK" --watch=0.1 --json >ticks 2>watch.err 3>&- &
        WATCH_PID=$!
        eventually grep -q '"ready":1' ticks
        weir job add two --queue q
        eventually grep -q '"ready":2' ticks
        stop_weir
        eventually grep -q 'trying again' watch.err
        start_weir
        weir job add three --queue q
        eventually grep -q '"ready":3' ticks
        kill "$WATCH_PID"
        wait "$WATCH_PID" || true
        jq -e '.queues | length == 1' ticks >/dev/null
}

@test "--watch without a terminal prints the time and the table, and an error that stays ends it" {
        weir job add one
        "$WEIR_BIN" job show 1 --watch=0.1 >ticks 2>watch.err 3>&- &
        WATCH_PID=$!
        eventually grep -q 'job 1' ticks
        eventually grep -q 'every 100 ms' ticks
        kill "$WATCH_PID"
        run weir job show 99 --watch
        [ "$status" -eq 4 ]
        run weir queue list --watch=0
        [ "$status" -eq 2 ]
        run weir job add x --watch
        [ "$status" -eq 2 ]
}

@test "--filter narrows every listing, tables and JSON alike" {
        weir job add mail.send --queue mail
        weir job add sync --queue media
        [ "$(weir queue list --filter media | tail -n +2 | awk '{print $1}')" = media ]
        [ "$(weir queue list --filter queue=MEDIA | wc -l)" = 2 ]
        [ "$(weir job list --filter hook=mail --json | jq -c '[.jobs[].hook]')" = '["mail.send"]' ]
        [ "$(weir queue list --filter nothing --json)" = '{"queues":[]}' ]
        [ "$(weir job list --filter hook=nothing | wc -l)" = 1 ]
}

@test "jobs are listed by tier, time and worker, newest or oldest first" {
        weir job add a --tier high --queue q
        weir job add b --tier deferrable --queue q
        weir job add c --queue other
        hooks() { weir job list "$@" --json | jq -r '[.jobs[].hook] | join(",")'; }
        [ "$(hooks --tier high)" = a ]
        [ "$(hooks --order oldest)" = a,b,c ]
        [ "$(hooks --since 1h)" = c,b,a ]
        [ "$(hooks --until 1h)" = "" ]
        [ "$(hooks --since 2020-01-01T00:00Z --until 2021-01-01T00:00Z)" = "" ]
        curl -sf --json '{"worker":"w7","queues":["q"],"max":1}' "$HTTP_URL/v1/claims" >/dev/null
        [ "$(hooks --worker w7)" = a ]
        run weir job list --order sideways
        [ "$status" -eq 2 ]
}

# --- completion ---

# complete WORDS...: what bash would offer for the last word.
complete_words() {
        COMP_WORDS=("$@")
        COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
        _weir
        printf '%s\n' "${COMPREPLY[@]}"
}

@test "bash completes commands, options and their values" {
        # compopt speaks only inside a completion
        compopt() { :; }
        source <(weir completion bash)
        complete -p weir | grep -q -- '-F _weir weir'
        [ "$(complete_words weir thr)" = throttle ]
        [ "$(complete_words weir --url x throttle st | sort | paste -sd,)" = starved,status ]
        [ "$(complete_words weir job add --pri)" = --priority ]
        [ "$(complete_words weir job add --tier cr)" = critical ]
        [ "$(complete_words weir job list --status = com)" = complete ]
        [ "$(complete_words weir job list --wat)" = --watch ]
        [ "$(complete_words weir throttle mode ob)" = observe ]
        [ "$(complete_words weir completion z)" = zsh ]
        [ "$(complete_words weir queue set q --fair o | paste -sd,)" = on,off ]
        touch some.ndjson
        [ "$(complete_words weir job add --file some)" = some.ndjson ]
        [ "$(complete_words weir work --exec x -- som)" = "" ]
}

# all_in_scripts: what the help names is in c.bash, c.zsh and c.fish
all_in_scripts() {
        local group command option in_bash in_fish
        for group in $(weir help | sed -n 's/^  \([a-z]*\)  .*/\1/p'); do
                grep -q "'$group/" c.bash && grep -q "'$group/" c.zsh && grep -q " -a $group " c.fish || {
                        echo "$group"
                        return 1
                }
                for command in $(weir help "$group" | sed -n '/^commands:/,$s/^  \([a-z]*\)  .*/\1/p'); do
                        in_bash=$(grep -o "'$group/$command'.*" c.bash)
                        in_fish=$(grep -o "__weir_at $group $command' -l .*" c.fish || true)
                        for option in $(weir help "$group" "$command" | grep -oE '^  --[a-z-]+'); do
                                [[ $in_bash == *" $option"[\ \']* ]] || {
                                        echo "bash: $group $command $option"
                                        return 1
                                }
                                [[ $in_fish == *"__weir_at $group $command' -l ${option#--} "* ]] || {
                                        echo "fish: $group $command $option"
                                        return 1
                                }
                        done
                done
        done
}

@test "every command and option of the help is in all three scripts" {
        weir completion bash >c.bash
        weir completion zsh >c.zsh
        weir completion fish >c.fish
        untraced all_in_scripts
        bash -n c.bash
        ! command -v zsh || zsh -n c.zsh
        ! command -v fish || fish --no-execute c.fish
}

@test "fish and zsh offer what bash does, where they are installed" {
        command -v fish || skip "fish is not installed"
        weir completion fish >c.fish
        [ "$(fish -c 'source c.fish; complete -C "weir throttle sta"' | cut -f1 | sort | paste -sd,)" = starved,status ]
        [ "$(fish -c 'source c.fish; complete -C "weir job add --tier cr"' | cut -f1)" = critical ]
        fish -c 'source c.fish; complete -C "weir job add --"' | grep -q '^--priority'
        fish -c 'source c.fish; complete -C "weir "' | grep -q '^queue'
}

@test "every new command has an example in its help and a place in the manual" {
        local man=$BATS_TEST_DIRNAME/../../docs/man/weir.1.scd words option
        for words in top export import backup doctor completion; do
                [[ $(weir help "$words") == *"  weir $words"* ]]
                grep -qF "*weir $words*" "$man"
                for option in $(weir help "$words" | grep -oE '^  --[a-z-]+'); do
                        grep -qF -- "*$option*" "$man" || {
                                echo "weir $words: $option is not in $man"
                                return 1
                        }
                done
        done
}
