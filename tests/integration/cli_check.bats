#!/usr/bin/env bats
# weir-test: bin=release
# The check door by the command line: check, rule, client, host, throttle starved.  The database is a
# file with a number in it.

bats_require_minimum_version 1.5.0

load lib.bash

setup() {
        export USER=anna
        DATA=$(mktemp -d "$BATS_TEST_TMPDIR/weir.XXXXXX")
        RESP_SOCK=$DATA/resp.sock
        cd "$DATA" || return 1
        echo 2 >load
        cat >weir.conf <<CONF
throttle { mode = "enforce" check_mode = "enforce" starved_after = "1s" }
target "shop" {
        kind = "command"
        command = {"cat", "$PWD/load"}
        interval = "100ms"
        dwell = "200ms"
        metric "threads" { elevated = {5, 3} critical = {15, 10} }
}
CONF
        start_weir --config weir.conf
        eventually has_value 2
}

teardown() {
        [ -z "${STANDIN_PID:-}" ] || kill "$STANDIN_PID"
        stop_weir
}

has_value() {
        tell THROTTLE STATUS
        [[ ${ANSWERS[*]} == *" metrics name "+([!\ ])" value $1 age_ms "* ]]
}

set_load() {
        echo "$1" >load.new
        mv load.new load
        eventually has_value "$1"
}

holds() {
        grep -qF -- "$1" "$2"
}

# ends PID CODE: waits for it.
ends() {
        local status=0
        wait "$1" || status=$?
        [ "$status" -eq "$2" ]
}

# ---- check ----

@test "a check exits with 0 and says granted, or with 1 and says why not" {
        run -0 weir check purge:shop --target shop
        [[ $output == granted* ]]
        set_load 30
        run -1 weir check purge:shop --target shop
        [ "$output" = "refused: threads 30 is above 5 on shop; ask again in 1 s" ]
        run -1 weir check purge:shop
        [ "$output" = "refused: threads 30 is above 5 on shop; ask again in 1 s" ]
        run -1 weir check purge:shop --quiet
        [ -z "$output" ]
        weir rule set purge threshold threads=50
        run -0 weir check purge:shop --target shop --metric threads --priority high --cost 3 --quiet
        [ -z "$output" ]
}

@test "a check without any target is granted, and says that nothing is measured" {
        stop_weir
        start_weir
        run -0 weir check purge:shop
        [ "$output" = "granted: no target is configured, so nothing is measured" ]
        run -0 weir check purge:shop -- echo gone
        [ "${lines[0]}" = "weir: no target is configured, so nothing is measured" ]
        [ "${lines[1]}" = gone ]
        run -0 weir check purge:shop --quiet -- echo gone
        [ "$output" = gone ]
        weir rule set purge hold
        run -1 weir check purge
        [[ $output == "refused: the rule for purge holds it; ask again in "* ]]
}

@test "JSON of a check is what the HTTP door answers" {
        set_load 30
        run -1 weir check purge:shop --json
        [ "$(jq -c 'del(.age_ms)' <<<"$output")" = "$(curl -s --json \
                '{"identity":"purge:shop"}' "$HTTP_URL/v1/check" | jq -c 'del(.age_ms)')" ]
        [ "$(jq -r '.verdict + " " + .reason + " " + .value' <<<"$output")" = \
                "refused threshold 30" ]
}

@test "what is wrong with a check is said at once, whatever was chosen for weir being away" {
        local fail
        for fail in open closed; do
                run -4 weir check purge --target nix --fail "$fail" --wait forever
                [[ $output == *"there is no target 'nix'; there are shop"* ]]
                run -4 weir check purge --metric nix --fail "$fail"
                run -2 weir check all --fail "$fail"
                run -2 weir check purge --priority urgent --fail "$fail"
                run -2 weir check purge --cost 0 --fail "$fail"
        done
        run -2 weir check
        run -2 weir check a b
        run -2 weir check purge --wait 30
        [[ $output == *"30 of what?"* ]]
        run -2 weir check purge --wiat 30s
        [[ $output == *"did you mean --wait?"* ]]
        run -2 weir check purge --fail maybe
        run -2 weir check purge --fail closed --fail-after 1s
        [[ $output == *"excludes --fail closed"* ]]
        run -2 weir check purge --
        [[ $output == *"what to run?"* ]]
        # shellcheck disable=SC2046 # many words
        run -2 weir check purge $(printf -- '--metric m%d ' {1..33})
        [[ $output == *"at most 32"* ]]
}

@test "a check that waits is parked on the server until its time is over" {
        set_load 30
        run -1 weir check etl --wait 700ms
        [[ $output == "refused: threads 30 is above 5"* ]]
        [ "$(weir client show etl --json | jq '.refused == 1 and .waited_ms >= 700')" = true ]
}

@test "a check that waits goes when the load has fallen" {
        set_load 30
        weir check etl --wait forever >said 3>&- &
        set_load 2
        ends $! 0
        holds granted said
}

@test "a loop around check goes on while it may and ends when it may not" {
        local n=0
        while weir check purge:shop --wait 300ms --quiet; do
                n=$((n + 1))
                [ "$n" -ne 3 ] || set_load 30
        done
        [ "$n" -eq 3 ]
}

# ---- check with a command ----

@test "a command runs in place of the check when it may go, with its own exit code" {
        run -0 weir check etl -- echo a 'b  c'
        [ "$output" = "a b  c" ]
        run -42 weir check etl --json -- sh -c 'exit 42'
        [ -z "$output" ]
        run -0 bash -c 'echo $$; exec "$WEIR_BIN" check etl -- sh -c "echo \$\$"'
        [ "${lines[0]}" = "${lines[1]}" ]
        run -127 weir check etl -- no-such-command
        [[ $output == *"cannot run no-such-command"* ]]
        run -126 weir check etl -- "$DATA"
}

@test "a command does not run when it may not go, and the code is 75" {
        set_load 30
        run -75 weir check etl -- touch ran
        [[ $output == "refused: threads 30 is above 5"* ]]
        run -75 weir check etl --wait 200ms --quiet -- touch ran
        [ -z "$output" ]
        [ ! -e ran ]
}

# ---- when weir is away ----

@test "when weir is away a check fails as it was told to" {
        stop_weir
        export WEIR_URL=redis://127.0.0.1:1 # a port that was given back may be another program's
        run -7 --separate-stderr weir check etl
        [ -z "$output" ]
        [[ $stderr == *"nothing answers on"* ]]
        run -7 weir check etl --fail closed -- touch ran
        [ ! -e ran ]
        run -0 --separate-stderr weir check etl --fail open --quiet
        [ -z "$output" ]
        [[ $stderr == *"nothing answers on"*"going on without asking" ]]
        run -0 --separate-stderr weir check etl --fail open -- echo went
        [ "$output" = went ]
        [[ $stderr == *"going on without asking" ]]
        run -0 --separate-stderr weir check etl --fail open --json
        [ "$(jq -r .reason <<<"$output")" = away ]
        run -0 --separate-stderr weir check etl --fail-after 300ms
        [[ $stderr == *"trying again"*"going on without asking" ]]
        run -7 --separate-stderr weir check etl --wait 300ms
        [[ $stderr == *"trying again"* ]]
        run -7 --separate-stderr weir check etl --wait 300ms --quiet
        [[ $stderr != *"trying again"* ]]
}

@test "who waits for weir itself gets its answer when it is back" {
        local pids=()
        export WEIR_URL=$RESP_SOCK
        stop_weir
        weir check a --wait forever 2>a.notes 3>&- &
        pids+=($!)
        # Critical: what weir just started has read nothing yet, which only this tier may ignore.
        weir check b --priority critical --fail-after 10m 2>b.notes 3>&- &
        pids+=($!)
        eventually holds "trying again" a.notes
        eventually holds "trying again" b.notes
        start_weir --config weir.conf
        ends "${pids[0]}" 0
        ends "${pids[1]}" 0
        not holds "without asking" b.notes
}

@test "a parked check outlives a restart of weir" {
        local pid
        set_load 30
        WEIR_URL=$RESP_SOCK weir check a --wait forever >said 2>notes 3>&- &
        pid=$!
        stop_weir
        eventually holds "trying again" notes
        echo 2 >load
        start_weir --config weir.conf
        ends "$pid" 0
        holds granted said
}

@test "a server that takes connections and says nothing is away" {
        python3 -c '
import socket, time
s = socket.create_server(("127.0.0.1", 0))
print(s.getsockname()[1], flush=True)
while True:
    peers = [s.accept() for _ in range(100)]
' >port 3>&- &
        STANDIN_PID=$!
        eventually test -s port
        run -0 weir check etl --fail open --url "127.0.0.1:$(cat port)"
        [[ $output == *"gives no answer; going on without asking" ]]
}

@test "a server without a check door is no reason to go on" {
        cat >standin.py <<'PYTHON'
import socket

listener = socket.create_server(("127.0.0.1", 0))
print(listener.getsockname()[1], flush=True)
while True:
    peer, _ = listener.accept()
    with peer:
        while peer.recv(4096):
            peer.sendall(b"+OK\r\n")
PYTHON
        python3 standin.py >port 3>&- &
        STANDIN_PID=$!
        eventually test -s port
        run -2 weir check etl --fail open --url "127.0.0.1:$(cat port)"
        [[ $output == *"has no check door"* ]]
}

# ---- rule ----

@test "rules are set, listed with the time left, and unset" {
        run -0 weir rule list
        [ "$output" = "no rules: 'weir rule set' makes one" ]
        local began began_ms
        began=$(date +%s) began_ms=$(date +%s%3N)
        run -0 weir rule set daily-etl ratio 0.5 --for 30m --reason nightly --target shop --author me
        [[ $output == "set rule daily-etl ratio 0.5 on shop until "* ]]
        ends_after 1800 "$began" "$output"
        run -0 weir rule set purge hold --for 1h
        [[ $output == "set rule purge hold until "* ]]
        ends_after 3600 "$began" "$output"
        run -0 weir rule set backup exempt --self-ending
        run -0 weir rule set etl metrics threads
        [[ $output == "set rule etl metrics threads until "* ]]
        ends_after 3600 "$began" "$output"
        run -0 weir rule set etl threshold threads=10
        run -0 weir rule list
        [ "${#lines[@]}" -eq 6 ]
        [[ ${lines[0]} =~ ^NAME\ +KIND\ +VALUE\ +TARGET\ +MODE\ +LEFT\ +AUTHOR\ +REASON ]]
        grep -Eq '^daily-etl +ratio +0\.5 +shop +enforce +[0-9]+ (min|s)( [0-9]+ s)? +me +nightly' <<<"$output"
        grep -Eq '^purge +hold +every +enforce +([0-9]+ h|[0-9]+ min( [0-9]+ s)?) +anna' <<<"$output"
        is_left 1800000 "$began_ms" "$(weir rule list --json | jq '.. | objects | select(.name? == "daily-etl") | .left_ms')"
        is_left 3600000 "$began_ms" "$(weir rule list --json | jq '.. | objects | select(.name? == "purge") | .left_ms')"
        grep -Eq '^etl +threshold +threads=10 +every' <<<"$output"
        run -0 weir rule list --match etl --limit 1 --all --json
        [ "$(jq -c '[.rules[].name] | sort' <<<"$output")" = '["daily-etl","etl","etl"]' ]
        [ "$(jq -r .cursor <<<"$output")" = "" ]
        run -0 weir rule unset etl --kind threshold
        [ "$output" = "unset rule etl" ]
        run -0 weir rule unset daily-etl --target shop --json
        [ "$output" = '"OK"' ]
        run -4 weir rule unset daily-etl
        run -0 weir rule list
        [ "${#lines[@]}" -eq 4 ]
}

@test "rules decide checks" {
        run -0 weir rule set purge hold
        run -1 weir check a:purge
        [[ $output == "refused: the rule for purge holds it; ask again in "* ]]
        run -0 weir rule set a:purge exempt
        set_load 30
        run -1 weir check a:purge
        [[ $output == "refused: the rule for purge holds it; ask again in "* ]]
        run -0 weir rule set purge ratio 1
        run -0 weir check a:purge
        [[ $output == "granted: the rule for a:purge exempts it"* ]]
        run -1 weir check b:purge
        run -0 weir rule unset purge
        set_load 2
        run -0 weir rule set purge hold --observe --target shop
        [[ $output == *", only observed" ]]
        run -0 weir check b:purge
        [[ $output == *"enforce would refuse it: the rule for purge on shop holds it"* ]]
        run -0 weir rule prioritize checkout-fix --ratio 1 --for 1h --reason urgent
        [[ ${lines[0]} == "set rule checkout-fix ratio 0 until "* ]]
        [[ ${lines[1]} == "set rule all ratio 1 until "* ]]
        run -1 weir check other
        [[ $output == "refused: the rule for all refuses a share of its asks"* ]]
        run -0 weir check 7:checkout-fix
        run -0 weir rule unprioritize checkout-fix
        [ "$output" = "checkout-fix does not come first any more" ]
        run -0 weir check other
        run -4 weir rule unprioritize checkout-fix
        [[ $output == *"'checkout-fix' does not come first"* ]]
        run -0 weir rule list --match share: --json
        [ "$(jq '[.rules[] | select(.name == "all" or .name == "checkout-fix")] | length' \
                <<<"$output")" = 0 ]
}

@test "a rule for a name that no client has used says so, once clients have asked" {
        run -0 --separate-stderr weir rule set nightly-prge hold
        [ -z "$stderr" ] # nobody has asked yet
        weir rule unset nightly-prge
        weir check 7:nightly-purge --quiet
        run -0 --separate-stderr weir rule set nightly-purge hold
        [ -z "$stderr" ]
        run -0 --separate-stderr weir rule set 7:nightly-purge hold
        [ -z "$stderr" ]
        run -0 --separate-stderr weir rule set all ratio 0
        [ -z "$stderr" ]
        run -0 --separate-stderr weir rule set nightly-prge hold
        [[ $output == "set rule nightly-prge hold until "* ]]
        [ "$stderr" = "weir: no client has asked as 'nightly-prge' since weir started" ]
        run -0 --separate-stderr weir rule prioritize nightly-prge
        [ "$stderr" = "weir: no client has asked as 'nightly-prge' since weir started" ]
        run -0 --separate-stderr weir rule set 8:nightly-purge hold --json
        [ -z "$stderr" ]
        [ "$(jq -c . <<<"$output")" = \
                '{"ok":true,"warning":"no client has asked as '"'8:nightly-purge'"' since weir started"}' ]
}

@test "a rule is tried out beside the one that holds, and each is taken back alone" {
        run -0 weir rule set etl threshold threads=40 --target shop
        run -0 weir rule set etl threshold threads=10 --target shop --observe
        [[ $output == "set rule etl threshold threads=10 on shop until "*", only observed" ]]
        run -0 weir rule list
        [ "${#lines[@]}" -eq 3 ]
        set_load 30
        run -0 weir check etl
        [[ $output == *"; the rule for etl on shop, which is tried out, would refuse it"* ]]
        set_load 50
        run -1 weir check etl
        set_load 30
        run -0 weir rule unset etl --target shop --observe
        run -0 weir rule list
        [ "${#lines[@]}" -eq 2 ]
        [[ ${lines[1]} == *threads=40*enforce* ]]
        run -0 weir check etl
        [[ $output != *"would refuse"* ]]
        run -4 weir rule unset etl --target shop --observe
        [[ $output == *"'etl' has no observed rule for the target shop"* ]]
        run -2 weir rule unset etl --target shop --observe --enforce
        [[ $output == *"--observe and --enforce exclude each other"* ]]
        run -0 weir rule unset etl --target shop --enforce
        run -1 weir check etl
}

@test "the history tells who set what, and how it ended" {
        run -0 weir rule history
        [ "$output" = "no rule was ever set" ]
        weir rule set purge hold --for 1h --reason "the replica is behind"
        weir rule unset purge --author bob
        weir rule set etl ratio 0.5 --for 1s
        has_expired() { weir rule history | grep -q expired; }
        eventually has_expired
        run -0 weir rule history
        [ "${#lines[@]}" -eq 5 ]
        grep -Eq 'set +share:purge +anna .*hold for 1h: the replica is behind' <<<"$output"
        grep -Eq 'unset +share:purge +bob' <<<"$output"
        [[ ${lines[1]} == *expired*share:etl* ]]
        run -0 weir rule history 1 --json
        [ "$(jq -r '.entries[0].action' <<<"$output")" = expired ]
}

@test "rules that make no sense are explained" {
        run -2 weir rule set purge ratoi 0.5
        [[ $output == *"did you mean 'ratio'?"* ]]
        run -2 weir rule set purge moon
        [[ $output == *"hold, ratio, exempt, metrics or threshold"* ]]
        run -2 weir rule set purge ratio
        [[ $output == *"ratio of what? weir rule set purge ratio 0.5"* ]]
        run -2 weir rule set purge hold 1
        [[ $output == *"hold takes no value"* ]]
        run -2 weir rule set purge ratio 2
        run -2 weir rule set purge hold --for 1h --endless
        run -3 weir rule set purge hold --endless
        run -2 weir rule set purge hold --for 30
        run -4 weir rule set etl metrics nix
        run -2 weir rule unset purge --kind hodl
        [[ $output == *"did you mean 'hold'?"* ]]
        run -2 weir rule prioritize all
        run -2 weir rule sett purge hold
        [[ $output == *"did you mean 'set'?"* ]]
        run -0 weir rule list
        [ "$output" = "no rules: 'weir rule set' makes one" ]
}

# ---- client, starved ----

@test "a client that was refused has a story, in local time" {
        local from
        export TZ=Asia/Kathmandu
        set_load 30
        for _ in {1..10}; do
                run -1 weir check nightly:etl --quiet
        done
        run -0 weir client show nightly:etl
        # It may have taken two minutes of the wall clock.
        from=$(weir client show nightly:etl --json | jq '.story[0].from_ms / 1000')
        [[ ${lines[0]} == "nightly:etl was mostly refused between "*"$(date -d "@$from" +%H:%M) and "* ]]
        [[ ${lines[0]} == *" because of threads on shop" ]]
        [[ ${lines[1]} == *"asks "*"10: 0 granted, 10 refused (100 %)" ]]
        [[ $output == *"reasons "*"threshold 10"* ]]
        [[ $output == *"last grant "*"never"* ]]
        [[ $output == *"parts "*"nightly, etl"* ]]
        grep -Eq '^[0-9 :-]+ [0-9]+ +0 +[0-9]+ +#+ +threshold: threads on shop' <<<"$output"
        run -0 weir client show etl --minutes 0
        [[ $output == *"part of "*"1 identity"* ]]
        [[ $output != *MINUTE* ]]
        run -4 weir client show nobody
}

# Totals begin with the start, minutes do not: each answer says since when.
@test "after a restart what is told of clients and jobs says since when" {
        local before
        weir check nightly:etl --quiet
        weir job add h --attempts 1
        before=$(date +%s%3N)
        id_token=$(curl -sS -H 'Content-Type: application/json' -d '{"worker":"w","queues":["default"]}' \
                "$HTTP_URL/v1/claims" | jq -r '.jobs[0].token')
        curl -sS -H 'Content-Type: application/json' -d "{\"token\":\"$id_token\",\"error\":\"no\"}" \
                "$HTTP_URL/v1/jobs/1/fail" >/dev/null
        stop_weir
        start_weir --config weir.conf
        eventually has_value 2
        run -4 weir client show nightly:elt
        [ "$output" = "weir: no client has asked as 'nightly:elt' since weir started, and no earlier minute in history names it; the list of clients shows who has asked" ]
        # The minute of the stop is in history, also when that of the start is the same.
        run -0 weir client show nightly:etl
        [[ ${lines[0]} =~ ^"nightly:etl was at no time mostly refused since "[0-9\ :-]+$ ]]
        [[ $output == *"asks "*"1: 1 granted, 0 refused (0 %)"* ]]
        weir check nightly:etl --quiet
        run -0 weir client show nightly:etl
        [[ $output == *"counted since"* ]]
        [[ $output == *"asks "*"1: 1 granted, 0 refused (0 %)"* ]]
        asks_in() { weir client show nightly:etl --json | jq "$1"; }
        [ "$(asks_in ".from_ms >= $before and .minutes_from_ms <= .from_ms")" = true ]
        [ "$(asks_in '[.minutes[].asks] | add')" = 2 ]
        [[ $(weir throttle status) == *"counted  since "*", when the server started"* ]]
        # Before the first whole second nothing is known, and no point of a chart is 0.
        [ "$(curl -sS "$HTTP_URL/v1/series?step=300" | jq -c '[.jobs.enqueued[:6][] // "gap"] | unique')" = '["gap"]' ]
        # What failed is history's to tell.
        has_failed() {
                [ "$(curl -sS "$HTTP_URL/v1/now" | jq '.jobs.failed_hour == 1 and .jobs.failed_from_ms == .at_ms - 3600000')" = true ]
        }
        eventually has_failed
}

@test "clients are listed by name or those with most first" {
        run -0 --separate-stderr weir client list
        [ "${stderr_lines[0]}" = "nobody has asked since the server started" ]
        [[ ${stderr_lines[1]} =~ ^"counted since "[0-9:+\ -]+", when the server started"$ ]]
        weir check a:x --quiet
        set_load 30
        run -1 weir check b:x --quiet
        run -1 weir check b:x --quiet
        run -0 --separate-stderr weir client list
        [ "${#lines[@]}" -eq 6 ]
        grep -Eq '^a:x +identity +1 +1 +0 +0 ' <<<"$output"
        grep -Eq '^x +part +3 +1 +2 +0 ' <<<"$output"
        run -0 weir client list --order refused --kind identity --limit 1 --json
        [ "$(jq -c '[.clients[].name]' <<<"$output")" = '["b:x"]' ]
        run -0 --separate-stderr weir client list --limit 2
        [[ ${stderr_lines[*]} == *"there are more: --all shows them"* ]]
        run -0 weir client list --limit 2 --all --json
        [ "$(jq -c '[.clients[].name]' <<<"$output")" = '["a","a:x","b","b:x","x"]' ]
        run -2 weir client list --order size
        run -2 weir client shwo x
        [[ $output == *"did you mean 'show'?"* ]]
}

@test "who is starved is told, and who is granted meanwhile" {
        run -0 weir throttle starved
        [ "$output" = "nobody is starved" ]
        weir check a:slow --quiet
        set_load 30
        weir rule set backup exempt
        is_starved() {
                weir check a:slow --quiet || true
                weir check b:backup --quiet
                weir throttle starved --json | jq -e '.starved[0].name == "a:slow"' >/dev/null
        }
        eventually is_starved
        run -0 weir throttle starved
        grep -Eq '^a:slow +[0-9.]+ s +[0-9]+ +threshold: threads +shop +b:backup +[0-9]+' <<<"$output"
        run -0 weir client list --match slow --kind identity
        [[ $output == *"(starved)"* ]]
        run -0 weir throttle history
        [[ $output == *starved* ]]
}

# ---- host ----

@test "a host is skipped for a while and recovered" {
        run -0 weir host skipped
        [ "$output" = "no host is skipped" ]
        run -0 weir host skip replica2 --for 2h
        [ "$output" = "skipped host replica2" ]
        run -0 weir host skipped
        grep -Eq '^replica2 +(2 h|1 h 59 min) +[0-9]{4}-' <<<"$output"
        [ "$(weir host skipped --json | jq -r '.hosts[0].host')" = replica2 ]
        run -0 weir host recover replica2
        run -4 weir host recover replica2
        run -2 weir host skip replica2 --for soon
        run -2 weir host skpi replica2
        [[ $output == *"did you mean 'skip'?"* ]]
}

@test "every new command has a help with an example" {
        local words
        for words in check 'rule list' 'rule set' 'rule unset' 'rule history' 'rule prioritize' \
                'rule unprioritize' 'client list' 'client show' 'throttle starved' 'host skip' 'host recover' \
                'host skipped'; do
                # shellcheck disable=SC2086 # two words
                run -0 weir $words --help
                [[ $output == *"usage: weir $words"* ]]
                grep -Eq "^  .*weir ${words% *}" <<<"$output"
        done
        run -0 weir help
        [[ $output == *"check "*"rule "*"client "*"host "* ]]
}

@test "the examples of the document run" {
        local doc=$BATS_TEST_DIRNAME/../../docs/checks.md line n=0
        sed -i 's/metric "threads"/metric "replication_lag"/' weir.conf
        stop_weir
        start_weir --config weir.conf
        eventually has_value 2
        while IFS= read -r line; do
                n=$((n + 1))
                run -0 bash -c "weir() { \"\$WEIR_BIN\" \"\$@\"; }; $line"
        done < <(grep -E '^    weir [a-z]+ [a-z][a-z:-]' "$doc")
        [ "$n" -ge 18 ]
}
