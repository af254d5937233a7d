#!/usr/bin/env bats
# weir-test: bin=release
# The gate by the command line: status, pause, resume, history, mode, the registry, tiers of jobs.
# What needs a database to get into is played by a stand-in that answers THROTTLESTATUS.

bats_require_minimum_version 1.5.0

load lib.bash

setup() {
        start_weir
        cd "$DATA" || return 1
}

teardown() {
        [ -z "${STANDIN_PID:-}" ] || kill "$STANDIN_PID"
        stop_weir
}

# claim [N]: the ids of the jobs a claim gets, in order.
claim() {
        claim_of default "${1:-1}"
}

status() {
        weir throttle status --json | jq -c "$1"
}

# tier NAME FIELD: of the status.
tier() {
        local form=" tier $1 ([a-z_]+ -?[0-9]+ )*$2 (-?[0-9]+)"
        tell THROTTLE STATUS
        [[ ${ANSWERS[*]} =~ $form ]] && echo "${BASH_REMATCH[2]}"
}

add_all_tiers() {
        local hook
        for hook in klaviyo_sync anything wcs_renew woocommerce_payment_webhook; do
                enqueue "$hook" ''
        done
}

# standin JSON: WEIR_URL is a server whose gate is in that state.
standin() {
        cat >standin.py <<'PYTHON'
import json, socket, sys

def pack(v):
    if v is None:
        return b"_\r\n"
    if isinstance(v, bool):
        return b"#t\r\n" if v else b"#f\r\n"
    if isinstance(v, int):
        return b":%d\r\n" % v
    if isinstance(v, str):
        return b"$%d\r\n%s\r\n" % (len(v.encode()), v.encode())
    if isinstance(v, list):
        return b"*%d\r\n" % len(v) + b"".join(map(pack, v))
    return b"%%%d\r\n" % len(v) + b"".join(pack(k) + pack(x) for k, x in v.items())

answer = json.loads(sys.argv[1])
listener = socket.create_server(("127.0.0.1", 0))
print(listener.getsockname()[1], flush=True)
while True:
    peer, _ = listener.accept()
    with peer, peer.makefile("rb") as lines:
        while head := lines.readline():
            words = []
            for _ in range(int(head[1:])):
                size = int(lines.readline()[1:])
                words.append(lines.read(size + 2)[:-2].decode())
            peer.sendall(pack({"server": "weir", "proto": 3} if words[0] == "HELLO" else answer))
PYTHON
        local port
        mkfifo port
        python3 standin.py "$1" >port 3>&- &
        STANDIN_PID=$!
        read -r -t 120 port <port
        WEIR_URL=redis://127.0.0.1:$port
}

# measure MODE [SETTINGS OF THE TARGET]: a server with a target whose load is the number in the file load.
measure() {
        echo 2 >load
        cat >weir.conf <<CONF
throttle { mode = "$1" adaptive = "observe" }
target "shop" {
        ${2:-}
        kind = "command"
        command = {"cat", "$PWD/load"}
        interval = "100ms"
        dwell = "500ms"
        metric "threads" { elevated = {5, 3} critical = {15, 10} }
}
CONF
        stop_weir
        start_weir --config weir.conf
        eventually has_value 2
}

set_load() {
        echo "$1" >load.new
        mv load.new load
}

has_value() {
        tell THROTTLE STATUS
        [[ ${ANSWERS[*]} == *" metrics name "+([!\ ])" value $1 age_ms "* ]]
}

is_observed() {
        tell THROTTLE STATUS
        [[ ${ANSWERS[*]} == *" observed_level $1 "* ]]
}

has_level() {
        tell THROTTLE STATUS
        [[ ${ANSWERS[*]:4:2} == "level $1" ]]
}

calm='{"mode":"enforce","level":"normal","since_ms":5000,"target":"","paused":false,"pause_left_ms":0,
"targets":[{"name":"shop","mode":"enforce","level":"normal","since_ms":5000,"metric":"","value":null,
"threshold":null,"age_ms":-1,"error":"","metrics":[{"name":"threads_running","value":"2","age_ms":400,
"error":"","elevated":"5","critical":"15","level":"normal"}]}],
"tiers":[{"tier":"critical","parked":0,"deferred":0,"would_defer":0,"released":0,"delay_ms":0},
{"tier":"high","parked":0,"deferred":0,"would_defer":0,"released":0,"delay_ms":0},
{"tier":"normal","parked":0,"deferred":0,"would_defer":0,"released":0,"delay_ms":0},
{"tier":"deferrable","parked":0,"deferred":0,"would_defer":0,"released":0,"delay_ms":0}],
"caps":{"claim_size":0,"claims":0},
"ramp":{"running":false,"cycle":0,"cycles":3,"next_in_ms":-1}}'

@test "status names the replicas that were left out of a value" {
        standin "$(jq -c '.targets[0].metrics[0].note = "left out: db3: skipped"' <<<"$calm")"
        run weir throttle status
        [ "$status" -eq 0 ]
        [[ $output =~ AGE\ +NOTE ]]
        [[ $output =~ shop\ +threads_running\ +normal\ .*"left out: db3: skipped" ]]
}

@test "status of a server without targets says so" {
        run weir throttle status
        [ "$status" -eq 0 ]
        [[ $output == *"mode     off"* ]]
        [[ $output == *"level    normal (no target is watched)"* ]]
        [[ $output == *"pause    none"* ]]
        [[ $output == *"caps     none"* ]]
        [[ $output == *"ramp     not running"* ]]
        [[ $output =~ deferrable\ +runs\ +0\ +0\ +0\ +0 ]]
        [ "$(status '[.mode, .level, .paused, (.targets | length), (.tiers | length)]')" = \
                '["off","normal",false,0,4]' ]
}

@test "status names the target, the metric, its value, threshold and age" {
        standin "$(jq -c '.level = "critical" | .since_ms = 120000 | .target = "shop" |
                .targets[0] += {level: "critical", metric: "threads_running", value: "150",
                        threshold: "15", age_ms: 400} |
                .targets[0].metrics[0] += {value: "12", level: "critical"} |
                .caps = {claim_size: 5, claims: 1} |
                .tiers[2] += {parked: 7, deferred: 9, delay_ms: 900000}' <<<"$calm")"
        run weir throttle status
        [ "$status" -eq 0 ]
        [[ $output == *"level    critical for 2 min"* ]]
        [[ $output == *"because  shop: threads_running was 150 against 15, is 12 (400 ms old)"* ]]
        [[ $output == *"caps     5 jobs a claim, 1 claim of a queue at once"* ]]
        [[ $output =~ normal\ +"waits 15 min"\ +7\ +0\ +9\ +0\ +0 ]]
        [[ $output == *"target   shop: critical for 5 s"* ]]
        [[ $output =~ shop\ +threads_running\ +critical\ +12\ +5\ +15\ +"400 ms" ]]
        [ "$(status .targets[0].metrics[0].value)" = '"12"' ]
}

@test "status of an unknown load gives the age of the last value and the error" {
        standin "$(jq -c '.level = "unknown" | .target = "shop" |
                .targets[0] += {level: "unknown", metric: "threads_running", value: "6",
                        threshold: "5", age_ms: 6100, error: "connection refused"} |
                .targets[0].metrics[0] += {age_ms: 6100, error: "connection refused"}' <<<"$calm")"
        run weir throttle status
        [[ $output == *"level    unknown for 5 s"* ]]
        [[ $output == *"because  shop: threads_running was last read 6.1 s ago; connection refused"* ]]
        [[ $output =~ "6.1 s"\ +"connection refused" ]]
}

@test "a metric that was never read is told as that" {
        standin "$(jq -c '.level = "unknown" | .target = "shop" |
                .targets[0] += {level: "unknown", metric: "threads_running", error: "no password"} |
                .targets[0].metrics[0] += {value: null, critical: null, age_ms: -1,
                        error: "no password"}' <<<"$calm")"
        run weir throttle status
        [[ $output == *"because  shop: threads_running was never read; no password"* ]]
        [[ $output =~ threads_running\ +normal\ +-\ +5\ +-\ +never\ +"no password" ]]
}

@test "a throttle that is switched off is told as a sentence, with what switches it on" {
        off="the throttle is switched off (setting throttle.enabled): no job waits for the load, checks"
        off+=" follow check.mode, a pause still holds; 'weir setting set throttle.enabled true' switches it on"
        weir throttle mode enforce
        [[ $(weir throttle status) != *"switched off"* ]]
        weir setting set throttle.enabled false
        run -0 weir throttle status
        [ "${lines[0]}" = "mode     enforce" ]
        [ "${lines[1]}" = "off      $off" ]
        [ "$(status .enabled)" = false ]
        run -0 --separate-stderr weir throttle mode
        [ "$output" = enforce ]
        # shellcheck disable=SC2154 # bats sets it
        [ "$stderr" = "$off" ]
        run -0 --separate-stderr weir throttle mode observe
        [ "$stderr" = "$off" ]
        run -0 --separate-stderr weir throttle resume
        [ "$stderr" = "$off" ]
        weir throttle pause
        [[ $(weir throttle status) =~ high\ +waits ]]
        weir throttle resume
        weir setting set throttle.enabled true
        [[ $(weir throttle status) != *"switched off"* ]]
}

@test "status shows the ramp, and a target with a mode of its own" {
        standin "$(jq -c '.ramp = {running: true, cycle: 2, cycles: 3, next_in_ms: 41000} |
                .targets[0].mode = "observe"' <<<"$calm")"
        run weir throttle status
        [[ $output == *"ramp     cycle 2 of 3, the next in 41 s"* ]]
        [[ $output == *"target   shop: normal for 5 s, mode observe"* ]]
        kill "$STANDIN_PID"
        rm port
        standin "$(jq -c '.ramp = {running: true, cycle: 3, cycles: 3, next_in_ms: 900}' <<<"$calm")"
        [[ $(weir throttle status) == *"ramp     cycle 3 of 3, over in 900 ms"* ]]
}

@test "a load that is measured is told with metric, value, threshold and age, and falls again" {
        measure enforce
        add_all_tiers
        set_load 150
        eventually has_level critical
        run weir throttle status
        [[ $output =~ "because  shop: threads was 150 against 15, is 150 ("[0-9.]+\ m?s\ old\) ]]
        [[ $output =~ "limit    10 jobs at once, 0 run, pressure "[0-9.]+\ \(observe\) ||
                $output == *"limit    10 jobs at once, 0 run, pressure not known (observe)"* ]]
        [ "$(claim 4)" = "[4]" ]
        [[ $(weir job show 2) == *"critical load on shop: threads 150 against 15; tier normal waits 15 min"* ]]
        set_load 1
        eventually has_level normal
        run weir throttle status
        [[ $output == *"ramp     cycle "* ]]
        [[ $output != *because* ]]
        run weir throttle history
        [[ $output == *"shop: normal -> critical by threads 150 against 15"* ]]
        [[ $output == *"shop: critical -> normal"* ]]
        [[ $output =~ as_action_deferred\ +1\ +klaviyo_sync\ +deferrable\ +"critical load on shop" ]]
        [[ $output == *ramp_started* ]]
}

@test "what cannot be read is unknown with its reason" {
        measure enforce
        eventually has_level normal
        rm load
        eventually has_level unknown
        run weir throttle status
        [[ $output =~ "because  shop: threads was last read "[0-9.]+" "(ms|s)" ago; ".*load ]]
        set_load 2
        eventually has_level normal
}

@test "observe runs everything and counts it, and enforcing says so" {
        measure observe
        add_all_tiers
        set_load 6
        eventually is_observed elevated
        [ "$(status .level)" = '"normal"' ] # nothing waits
        [ "$(claim 4)" = "[1,2,3,4]" ]
        [ "$(tier normal would_defer),$(tier deferrable would_defer),$(tier normal deferred)" = 1,1,0 ]
        [[ $(weir throttle status) =~ deferrable\ +runs\ +0\ +0\ +0\ +1\ +0 ]]
        [ "$(weir throttle history --json | jq -c '[.deferrals[] | [.event, .hook, .tier, .count]]')" = \
                '[["would_defer","anything","normal",1],["would_defer","klaviyo_sync","deferrable",1]]' ]
        run weir throttle history
        [[ $output =~ would_defer\ +1\ +klaviyo_sync\ +deferrable\ +"elevated load on shop" ]]
        run weir throttle mode enforce
        [ "${lines[0]}" = "mode enforce, was observe" ]
        [ "${lines[1]}" = "since the server started, enforce would have deferred: critical 0, high 0, normal 1, deferrable 1" ]
        [ "${lines[2]}" = "now normal waits 5 min, deferrable waits 15 min; critical runs, high runs" ]
}

@test "a target that is only observed defers nothing in a gate that enforces" {
        measure enforce 'mode = "observe"'
        set_load 150
        eventually has_value 150
        weir job add klaviyo_sync
        [ "$(claim)" = "[1]" ]
        [ "$(tier deferrable would_defer),$(tier deferrable deferred)" = 1,0 ]
        [[ $(weir throttle status) == *"target   shop: critical for "*", mode observe"* ]]
        # The level is that of what enforces, which is nothing.
        [ "$(status '[.level, .target, .observed_level, .observed_target]')" = '["normal","","critical","shop"]' ]
        [[ $(weir throttle status) == *"level    normal for "*"observed critical, which makes nothing wait: shop: threads was 150 against 15, is 150 ("* ]]
}

@test "a mode that is set while there is load holds at once" {
        measure off
        set_load 150
        eventually has_value 150
        weir job add klaviyo_sync
        weir throttle mode enforce
        [ "$(status .level)" = '"critical"' ]
        [ "$(claim)" = "[]" ]
}

@test "what a target is called cannot steer a terminal" {
        standin "$(jq -c '.level = "elevated" | .target = "\u001b[2J" | .targets[0].name = "\u001b[2J"' \
                <<<"$calm")"
        run weir throttle status
        [[ $output != *$'\e'* ]]
        [[ $output == *'\x1b[2J'* ]]
}

@test "a pause lets critical jobs run and parks the others, with the reason" {
        local began
        add_all_tiers
        began=$(date +%s)
        run weir throttle pause --for 30m
        [ "$status" -eq 0 ]
        [[ ${lines[0]} == "paused until "* ]]
        ends_after 1800 "$began" "${lines[0]}"
        [ "${lines[1]}" = "high waits 5 min, normal waits 15 min, deferrable waits 1 h; critical runs" ]
        [ "$(claim 4)" = "[4]" ]
        [ "$(tier critical parked),$(tier high parked),$(tier normal parked)" = 0,1,1 ]
        [ "$(tier deferrable parked)" = 1 ]
        run weir throttle status
        [[ $output == *"; the pause makes it critical"* ]]
        [[ $output == *"caps     1 job a claim"* ]]
        [[ $output =~ deferrable\ +"waits 1 h"\ +1\ +0\ +1\ +0\ +0 ]]
        [[ $(weir job why 1) == *"gate"* ]]
        [ "$(weir job why 2 --json | jq -c '[.blockers[].code] | index("gate") != null')" = true ]
        [[ $(weir job show 1) == *"paused by the operator; tier deferrable waits 1 h"* ]]
        [ "$(field 1 attempt)" = 0 ]
}

@test "a critical job runs though a capped one stands before it" {
        weir job add anything
        [ "$(claim)" = "[1]" ]
        weir throttle pause
        weir job add anything
        weir job add woocommerce_payment_webhook
        [ "$(claim 4)" = "[3]" ]
        [ "$(tier normal parked)" = 1 ]
}

@test "a pause leaves the mode as it is" {
        weir throttle mode observe
        weir throttle pause
        [ "$(weir throttle mode)" = observe ]
        [ "$(status .mode)" = '"observe"' ]
        run weir throttle mode test_observe
        [ "$output" = "mode test_observe, was observe" ]
        weir throttle resume
        [ "$(weir throttle mode)" = test_observe ]
}

@test "after a pause the ramp brings the parked jobs back" {
        weir throttle pause
        add_all_tiers
        [ "$(claim 4)" = "[4]" ]
        run weir throttle resume
        [ "$output" = "resumed: the level is normal, 3 parked jobs return by the ramp" ]
        [ "$(status '[.ramp.running, .ramp.cycle, .ramp.cycles]')" = '[true,1,3]' ]
        [[ $(weir throttle status) == *"ramp     cycle 1 of 3, the next in "* ]]
        [ "$(weir throttle history --json | jq '[.events[].event] | index("ramp_started") != null')" = true ]
}

@test "a pause is an hour unless it is said otherwise" {
        local began began_ms
        began=$(date +%s) began_ms=$(date +%s%3N)
        run weir throttle pause
        ends_after 3600 "$began" "${lines[0]}"
        is_left 3600000 "$began_ms" "$(status .pause_left_ms)"
        run weir throttle pause --until-resumed
        [ "${lines[0]}" = "paused until it is resumed" ]
        [ "$(status .pause_left_ms)" = -1 ]
        [[ $(weir throttle status) == *"pause    until it is resumed"* ]]
        [ "$(weir throttle pause --until-resumed --json)" = '{"paused":true,"pause_left_ms":-1}' ]
        [ "$(weir throttle pause --for 1h --json | jq '.pause_left_ms > 3590000')" = true ]
}

@test "a pause ends by itself" {
        weir throttle pause --for 1s
        is_over() { [ "$(status .paused)" = false ]; }
        eventually is_over
        weir job add anything
        [ "$(claim)" = "[1]" ]
}

@test "a pause outlives the server, and resume ends it" {
        weir throttle pause --until-resumed
        add_all_tiers
        [ "$(claim 4)" = "[4]" ]
        stop_weir
        start_weir
        [ "$(status .paused)" = true ]
        [ "$(tier normal parked)" = 1 ]
        run weir throttle resume
        [ "$status" -eq 0 ]
        [[ $output == "resumed: the level is normal, 3 parked jobs return "* ]]
        [ "$(status .paused)" = false ]
        run weir throttle resume
        [ "$status" -eq 0 ]
        [[ $output == "not paused: the level is normal"* ]]
        [ "$(weir throttle resume --json | jq -c '[.paused, .was_paused, .parked <= 3]')" = \
                '[false,false,true]' ]
}

# LIMIT_PAUSE_MS, at n-1, n and n+1, and the least, through every door.
@test "a pause may be a second to a week long" {
        local n began_ms
        for n in 1000 1001 604799999 604800000; do
                began_ms=$(date +%s%3N)
                weir throttle pause --for "${n}ms"
                is_left "$n" "$began_ms" "$(status .pause_left_ms)"
                curl -sf --json "{\"action\":\"pause\",\"for\":$n}" "$HTTP_URL/v1/throttle"
                [ "$(redis-cli -p "$RESP_PORT" THROTTLE PAUSE FOR "$n")" = OK ]
        done
        weir throttle resume
        for n in 0 999 604800001 99999999999999999; do
                run weir throttle pause --for "${n}ms"
                [ "$status" -eq 2 ]
                [[ $output == *"--for"* ]]
                [ "$(curl -s -o /dev/null -w '%{http_code}' --json \
                        "{\"action\":\"pause\",\"for\":$n}" "$HTTP_URL/v1/throttle")" = 400 ]
                [[ $(redis-cli -p "$RESP_PORT" THROTTLE PAUSE FOR "$n") == *"1000 to 604800000"* ]]
        done
        [ "$(status .paused)" = false ]
        run weir throttle pause --for 8d
        [ "$output" = "weir: --for: 1s to 7d, not 8d" ]
}

@test "a pause that is asked for wrongly is refused and nothing is paused" {
        run weir throttle pause --for 1h --until-resumed
        [ "$status" -eq 2 ]
        [[ $output == *"exclude each other"* ]]
        run weir throttle pause --for soon
        [ "$status" -eq 2 ]
        [[ $output == *"'soon' is no duration"* ]]
        run weir throttle pause 1h
        [ "$status" -eq 2 ]
        [[ $output == *"unexpected argument"* ]]
        run weir throttle puase
        [ "$status" -eq 2 ]
        [[ $output == *"did you mean 'pause'"* ]]
        [ "$(status .paused)" = false ]
}

@test "history is newest first and as long as asked for" {
        run --separate-stderr weir throttle history
        [ "$status" -eq 0 ]
        [ -z "$output" ]
        [[ $stderr == *"the gate has done nothing yet"* ]]
        [ "$(weir throttle history --json)" = '{"events":[],"deferrals":[],"older":0,"problem":""}' ]
        weir throttle pause --for 1h
        weir throttle resume
        weir throttle mode observe
        [ "$(weir throttle history --json | jq -c '[.events[] | [.event, .message]]')" = \
                '[["throttle_mode","observe"],["throttle_resumed","by the operator"],["throttle_paused","for 1 h"]]' ]
        run --separate-stderr weir throttle history 2
        [ "${#lines[@]}" -eq 3 ]
        [[ ${lines[1]} =~ ^[0-9-]+\ [0-9:]+\ [+-][0-9]+\ +"throttle_mode     observe"$ ]]
        for n in 0 501 -1 many; do
                run weir throttle history -- "$n"
                [ "$status" -eq 2 ]
                [[ $output == *"1 to 500"* ]]
        done
        weir throttle history 500
        run --separate-stderr weir throttle history 2
        [ "$stderr" = "there are more: --before 2 shows them" ]
        [ "$(weir throttle history --before 2 --json | jq -c '[.events[].event]')" = '["throttle_paused"]' ]
        run weir throttle history --before none
        [ "$status" -eq 2 ]
}

@test "the mode is shown, set, and kept over a restart" {
        [ "$(weir throttle mode)" = off ]
        [ "$(weir throttle mode --json)" = '{"mode":"off"}' ]
        for mode in test_observe observe enforce; do
                run --separate-stderr weir throttle mode "$mode"
                [ "$status" -eq 0 ]
                [[ ${lines[0]} == "mode $mode, was "* ]]
                [ "$(weir throttle mode)" = "$mode" ]
        done
        stop_weir
        start_weir
        [ "$(weir throttle mode)" = enforce ]
        [ "$(weir throttle mode off --json | jq -c '[.mode, .was, .would_defer.normal]')" = \
                '["off","enforce",0]' ]
        run weir throttle mode loud
        [ "$status" -eq 2 ]
        [ "$output" = "weir: there is no mode 'loud': off, test_observe, observe or enforce" ]
        run weir throttle mode observe enforce
        [ "$status" -eq 2 ]
        [ "$(weir throttle mode)" = off ]
}

@test "enforcing says what was observed, and warns when nothing was" {
        run --separate-stderr weir throttle mode enforce
        [ "${lines[0]}" = "mode enforce, was off" ]
        [ "${lines[1]}" = "nothing would have been deferred since the server started" ]
        [ "${lines[2]}" = "now every tier runs at this level" ]
        [[ $stderr == *"nothing was observed before"* ]]
        weir throttle mode observe
        run --separate-stderr weir throttle mode enforce
        [ -z "$stderr" ]
        standin "$(jq -c '.level = "elevated" | .tiers[2] += {would_defer: 12, delay_ms: 300000} |
                .tiers[3] += {would_defer: 40, delay_ms: 900000}' <<<"$calm")"
        run --separate-stderr weir throttle mode enforce
        [ "${lines[1]}" = "since the server started, enforce would have deferred: critical 0, high 0, normal 12, deferrable 40" ]
        [ "${lines[2]}" = "now normal waits 5 min, deferrable waits 15 min; critical runs, high runs" ]
}

@test "the registry has the defaults, most important first" {
        [ "$(weir registry list | sed 1d | tr -s ' ')" = "$(cat <<'LIST'
nofraud_* critical default
wc_payment_* critical default
woocommerce_payment_* critical default
wcs_* high default
woocommerce_deliver_webhook_* high default
woocommerce_scheduled_subscription_* high default
action_scheduler_* normal default
woocommerce_run_* normal default
facebook_for_woocommerce_* deferrable default
klaviyo_* deferrable default
shipstation_* deferrable default
wc_facebook_* deferrable default
woocommerce_flush_* deferrable default
LIST
)" ]
        [ "$(weir registry list --json | jq -c '.patterns | length, (map(.default) | unique)')" = $'13\n[true]' ]
}

@test "a pattern that is set decides before the default and is taken back" {
        run weir registry set 'klaviyo_*' critical
        [ "$status" -eq 0 ]
        [ "$output" = "set klaviyo_* to critical" ]
        [ "$(weir registry test klaviyo_sync)" = "critical  by klaviyo_*" ]
        [[ $(weir registry list | tr -s ' ') == *$'\nklaviyo_* critical set\n'*$'\nklaviyo_* deferrable default, replaced\n'* ]]
        [ "$(weir registry set 'klaviyo_urgent_?' high --json)" = '"OK"' ]
        [ "$(weir registry test klaviyo_urgent_1)" = "high  by klaviyo_urgent_?" ]
        stop_weir
        start_weir
        [ "$(weir registry test klaviyo_urgent_1)" = "high  by klaviyo_urgent_?" ]
        run weir registry unset 'klaviyo_*'
        [ "$output" = "unset klaviyo_*" ]
        [ "$(weir registry test klaviyo_sync)" = "deferrable  by klaviyo_*" ]
}

@test "a hook that no pattern matches is normal" {
        [ "$(weir registry test my_own_hook)" = "normal  no pattern matches" ]
        [ "$(weir registry test my_own_hook --json)" = '{"hook":"my_own_hook","tier":"normal","pattern":""}' ]
}

@test "wrong words for the registry are refused" {
        run weir registry set 'x_*' vip
        [ "$status" -eq 2 ]
        [[ $output == *"tier must be one of critical|high|normal|deferrable, not 'vip'"* ]]
        run weir registry set 'x_*'
        [ "$status" -eq 2 ]
        [[ $output == *"missing argument: PATTERN TIER"* ]]
        run weir registry unset 'nofraud_*'
        [ "$status" -eq 4 ]
        [[ $output == *"was not set"* ]]
        run weir registry set "$(printf 'x%.0s' {1..256})" high
        [ "$status" -eq 2 ]
        run weir registry set '' high
        [ "$status" -eq 2 ]
        run weir registry tset hook
        [ "$status" -eq 2 ]
        [[ $output == *"did you mean 'test'"* || $output == *"did you mean 'set'"* ]]
        [ "$(weir registry list --json | jq '.patterns | length')" = 13 ]
}

@test "a job's own tier comes before that of its hook" {
        weir throttle pause
        weir job add klaviyo_sync --tier critical
        weir job add nofraud_check --tier deferrable
        printf '1\n2\n' >lines
        weir job add klaviyo_sync --tier critical --many lines
        [ "$(claim 4)" = "[1,3,4]" ]
        weir throttle resume
        run weir job add h --tier vip
        [ "$status" -eq 2 ]
        [[ $output == *"tier must be one of"* ]]
        [ "$(weir job list --json | jq '.jobs | length')" = 4 ]
}

@test "a setting is listed, changed for good, refused when it is wrong, and taken back" {
        run -0 weir setting set throttle.delay.elevated.normal 7m
        [ "$output" = "set throttle.delay.elevated.normal" ]
        run -0 weir setting list --filter name=elevated.normal
        grep -Eq '^throttle.delay.elevated.normal +7m +5m ' <<<"$output"
        run -2 weir setting set throttle.delay.elevated.normal soon
        [[ $output == *"the value must be a duration of 0s to "* ]]
        run -4 weir setting set throttle.delay.elevated.nobody 7m
        [[ $output == *"there is no setting 'throttle.delay.elevated.nobody'"* ]]
        run -2 weir setting set throttle.delay.elevated.normal
        [ "$(weir setting list --json | jq -c '[.settings[] | select(.is_changed) | .value]')" = '["7m"]' ]
        run -0 weir setting unset throttle.delay.elevated.normal
        [ "$output" = "as configured again: throttle.delay.elevated.normal" ]
        [ "$(weir setting list --json | jq 'any(.settings[]; .is_changed)')" = false ]
}

@test "every command explains itself with an example" {
        local c
        for c in "throttle status" "throttle pause" "throttle resume" "throttle history" \
                "throttle mode" "registry list" "registry set" "registry unset" "registry test" \
                "setting list" "setting set" "setting unset"; do
                run weir $c --help
                [ "$status" -eq 0 ]
                [[ $output == *$'\n'"  weir $c"* ]]
        done
        [[ $(weir job add --help) == *"--tier TIER"* ]]
        [[ $(weir help) == *"throttle"*"registry"* ]]
}
