#!/bin/bash
# The whole life of jobs through HTTP with curl and jq.
set -u
base=http${WEIR_TLS:+s}://${WEIR_HTTP}
tls=() # WEIR_TLS: the folder of `weir tls self-signed`
[ -n "${WEIR_TLS:-}" ] && tls=(--cacert "$WEIR_TLS/ca.crt" --cert "$WEIR_TLS/client.crt" --key "$WEIR_TLS/client.key")
failed=0
auth=()
[ -n "${WEIR_TOKEN:-}" ] && auth=(-H "Authorization: Bearer $WEIR_TOKEN")

# ask METHOD PATH [BODY]: the body goes to $body, the status to $status.
ask() {
        local args=(-s -S --max-time 120 -X "$1" "${auth[@]}" -w '\n%{http_code}' "$base$2")
        [ $# -gt 2 ] && args+=(-H 'Content-Type: application/json' --data-binary "$3")
        local out
        out=$(curl "${tls[@]}" "${args[@]}")
        status=${out##*$'\n'}
        body=${out%$'\n'*}
}

# One jq answers for all plain paths, since it takes 25 ms to start: a request is [path, value].
coproc JQ { exec jq --unbuffered -r '.[0] as $path | .[1] | getpath($path) | tostring + "\u0001"'; }
exec {to_jq}>&"${JQ[1]}" {from_jq}<&"${JQ[0]}" # those of JQ are closed in subshells

get() {
        local at=$1 path= name='^\.([a-z_]+)' index='^\[(-?[0-9]+)\]' REPLY
        while [ -n "$at" ] && { [[ $at =~ $name ]] || [[ $at =~ $index ]]; }; do
                at=${at#"${BASH_REMATCH[0]}"}
                case ${BASH_REMATCH[0]} in
                .*) path+="${path:+,}\"${BASH_REMATCH[1]}\"" ;;
                *) path+="${path:+,}${BASH_REMATCH[1]}" ;;
                esac
        done
        if [ -n "$at" ] || [ "${#body}" -gt 4096 ]; then
                jq -r "$1" <<<"$body"
                return
        fi
        printf '[[%s],%s]\n' "$path" "$body" >&"$to_jq"
        IFS= read -r -t 60 -d $'\001' -u "$from_jq"
        printf '%s\n' "${REPLY#$'\n'}"
}

step() { sentence=$1 why=; }

same() { [ "$1" = "$2" ] || why="$why [$3 is '$1', wanted '$2']"; }

problem() {
        same "$status" "$1" status
        same "$(get .code)" "$2" code
        [ -n "$(get .detail)" ] || why="$why [no detail]"
}

end() {
        if [ -z "$why" ]; then
                echo "ok - curl: $sentence"
        else
                echo "not ok - curl: $sentence: $why"
                failed=1
        fi
}

step "a job is added, found, claimed and finished with a result"
ask POST /v1/jobs '{"hook":"mail","args":{"to":"ü","n":12345678901234567},"queue":"one","group":"g","priority":7,"attempts":5,"timeout":60000}'
same "${status:0:2}" 20 "status of POST"
id=$(get .id)
ask GET "/v1/jobs/$id"
same "$status" 200 status
same "$(get .status)" pending status
same "$(grep -o '"args":{"to":"ü","n":12345678901234567}' <<<"$body")" '"args":{"to":"ü","n":12345678901234567}' "exact args"
same "$(get .priority)" 7 priority
ask POST /v1/claims '{"worker":"w1","max":1,"queues":["one"]}'
same "$(get '.jobs[0].id')" "$id" id
same "$(get '.jobs[0].attempt')" 1 attempt
token=$(get '.jobs[0].token')
ask POST "/v1/jobs/$id/extend" "{\"token\":\"$token\",\"ms\":60000}"
same "$status" 200 extend
ask POST "/v1/jobs/$id/progress" "{\"token\":\"$token\",\"text\":\"half\"}"
same "$status" 200 progress
ask GET "/v1/jobs/$id"
same "$(get .progress)" half progress
same "$(get .status)" in-progress status
same "$(get .worker)" w1 worker
ask POST "/v1/jobs/$id/complete" "{\"token\":\"$token\",\"result\":{\"sum\":3}}"
same "$status" 200 complete
ask GET "/v1/jobs/$id"
same "$(get .status)" complete status
same "$(get .result.sum)" 3 result
end

step "an array adds many jobs, each with its own options"
ask POST /v1/jobs '[{"hook":"a","args":1,"queue":"many"},{"hook":"b","args":[2],"queue":"many","priority":1},{"hook":"c","args":"3","queue":"many"}]'
same "$(get '.ids|length')" 3 "count of ids"
ids=$(get '.ids|join(" ")')
ask POST /v1/claims '{"worker":"w","max":10,"queues":["many"]}'
same "$(get '[.jobs[].hook]|join(" ")')" "b a c" "order by priority"
same "$(get '[.jobs[].id]|sort|join(" ")')" "$ids" ids
end

step "a delayed job comes when it is due"
ask POST /v1/jobs '{"hook":"later","args":null,"queue":"delayed","in":5000}'
id=$(get .id)
ask POST /v1/claims '{"worker":"w","queues":["delayed"]}'
same "$(get '.jobs|length')" 0 early
ask POST /v1/claims '{"worker":"w","wait":60000,"queues":["delayed"]}'
same "$(get '.jobs[0].id')" "$id" id
end

step "completing one job and claiming the next is one round trip"
ask POST /v1/jobs '[{"hook":"h","args":1,"queue":"chain"},{"hook":"h","args":2,"queue":"chain"}]'
a=$(get '.ids[0]') b=$(get '.ids[1]')
ask POST /v1/claims '{"worker":"w","queues":["chain"]}'
token=$(get '.jobs[0].token')
ask POST "/v1/jobs/$a/complete" "{\"token\":\"$token\",\"claim\":{\"worker\":\"w\",\"max\":1,\"queues\":[\"chain\"]}}"
same "$(get '.jobs[0].id')" "$b" "next id"
end

step "a failing job is tried again until its attempts are used up"
ask POST /v1/jobs '{"hook":"bad","args":"x","queue":"fail","attempts":2}'
id=$(get .id)
ask POST /v1/claims '{"worker":"w","queues":["fail"]}'
ask POST "/v1/jobs/$id/fail" "{\"token\":\"$(get '.jobs[0].token')\",\"error\":\"boom\",\"retryin\":1}"
same "$(get .status)" pending status
ask POST /v1/claims '{"worker":"w","wait":5000,"queues":["fail"]}'
same "$(get '.jobs[0].attempt')" 2 attempt
ask POST "/v1/jobs/$id/fail" "{\"token\":\"$(get '.jobs[0].token')\",\"error\":\"boom again\"}"
same "$(get .status)" failed status
ask GET "/v1/jobs/$id"
same "$(get .error)" "boom again" error
end

step "a job that is given up is failed at once, and can be retried"
ask POST /v1/jobs '{"hook":"unfit","args":"x","queue":"unfit"}'
id=$(get .id)
ask POST /v1/claims '{"worker":"w","queues":["unfit"]}'
ask POST "/v1/jobs/$id/fail" "{\"token\":\"$(get '.jobs[0].token')\",\"error\":\"boom\",\"noretry\":true}"
same "$(get .status)" failed status
ask GET "/v1/jobs/$id/events"
same "$(get '.events[-1].event')" "given up" event
ask POST "/v1/jobs/$id/retry"
same "$(get .status)" pending status
ask DELETE "/v1/jobs/$id"
end

step "a released job comes back, a canceled one does not, and the story is told"
ask POST /v1/jobs '{"hook":"r","args":"x","queue":"rel","attempts":1}'
id=$(get .id)
ask POST /v1/claims '{"worker":"w","queues":["rel"]}'
ask POST "/v1/jobs/$id/release" "{\"token\":\"$(get '.jobs[0].token')\"}"
same "$status" 200 release
ask POST /v1/claims '{"worker":"w","queues":["rel"]}'
same "$(get '.jobs[0].id')" "$id" id
ask DELETE "/v1/jobs/$id"
same "${status:0:2}" 20 cancel
ask GET "/v1/jobs/$id/events"
same "$(get '[.events[].event]|join(" ")')" "created started released started canceled" events
end

step "jobs are listed by filter and page by page"
ask POST /v1/jobs "$(jq -nc '[range(25)|{hook:"lister",args:"needle\(.)",queue:"list",group:"lg"}]')"
ids=$(get '.ids|reverse|join(" ")')
seen= cursor=
while :; do
        ask GET "/v1/jobs?queue=list&limit=10${cursor:+&cursor=$cursor}"
        seen="$seen $(get '[.jobs[].id]|join(" ")')"
        cursor=$(get '.cursor // ""')
        [ -n "$cursor" ] || break
        [ ${#seen} -lt 5000 ] || break
done
same "$(echo $seen)" "$ids" "ids listed"
ask GET "/v1/jobs?group=lg&status=pending&limit=1000"
same "$(get '.jobs|length')" 25 "by group and status"
ask GET "/v1/jobs?queue=list&match=needle7"
same "$(get '.jobs|length')" 1 "by text"
end

step "a paused queue hands out nothing until it is resumed"
ask POST /v1/jobs '{"hook":"h","args":"x","queue":"stop go"}'
id=$(get .id)
ask POST "/v1/queues/stop%20go/pause"
same "$status" 200 pause
ask POST /v1/claims '{"worker":"w","queues":["stop go"]}'
same "$(get '.jobs|length')" 0 paused
ask GET /v1/queues
same "$(get '.queues[]|select(.name=="stop go")|.paused')" true paused
ask POST "/v1/queues/stop%20go/resume"
ask POST /v1/claims '{"worker":"w","queues":["stop go"]}'
same "$(get '.jobs[0].id')" "$id" id
end

step "wrong requests are refused with a code and a reason"
ask POST "/v1/jobs/$id/complete" '{"token":"00000000000000000000000000000000"}'
problem 409 NOTOWNER
ask POST "/v1/jobs/$id/complete" '{"token":"zz"}'
problem 400 BADARG
ask GET /v1/jobs/999999999
problem 404 NOTFOUND
ask GET /v1/nosuch
problem 404 UNKNOWN
ask PUT /v1/jobs '{}'
problem 405 METHOD
ask POST /v1/jobs '{"hook":'
problem 400 SYNTAX
end

step "health, readiness, metrics and the OpenAPI text are served"
for path in /healthz /readyz; do
        ask GET $path
        same "$status" 200 "$path"
done
ask GET /metrics
same "$status" 200 /metrics
grep -q '^# TYPE weir_' <<<"$body" || why="$why [no weir_ metrics]"
ask GET /openapi.json
same "$(get '.paths|has("/v1/jobs")')" true "openapi paths"
end

exit $failed
