#!/bin/bash
# weir-test: bin=release
# The tour in docs/tutorials/five-minutes.md does what it says.
#
# Its fenced commands are run as they stand, in order, in one shell, against the default addresses:
# network and process namespaces of their own keep those and `pkill` from meeting anything else.
# The `make run` of the text is a server started here.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)

# shellcheck source=tests/integration/lib_namespaces.bash
source "$root/tests/integration/lib_namespaces.bash"
enter_namespaces "the tour works" "$@"

cd "$(mktemp -d)"
mkdir build
ln -s "${WEIR_BIN:-$root/build/weir}" build/weir

# Every ```sh block becomes a file block.1, block.2, ...
awk '/^```sh$/ { n++; on = 1; next } /^```$/ { on = 0 } on { print > ("block." n) }' "$root/docs/tutorials/five-minutes.md"

fail()
{
        echo "not ok - $*"
        exit 1
}

start()
{
        exec {ready}< <(exec build/weir serve --data ./data --greet 2>>serve.err)
        server=$!
        local line
        while read -r -t 60 -u "$ready" line; do
                [[ $line != *ready\ http=* ]] || return 0
        done
        cat serve.err
        fail "the server did not get ready"
}

# shows the block, then runs it in this shell: later blocks use the variables of earlier ones
run_block()
{
        sed "s/^/# $1> /" "block.$1"
        trap 'fail "block $block of the tour fails"' ERR
        block=$1
        # shellcheck disable=SC1090
        source "./block.$1" >"out.$1"
        trap - ERR
        sed "s/^/# $1: /" "out.$1"
}

count()
{
        build/weir job list --json --status "$1" | jq -s 'map(if type == "object" and has("jobs")
                then .jobs[] elif type == "array" then .[] else . end) | length'
}

# asks until the answer is there or a minute has passed
until_count()
{
        local end=$((SECONDS + 60))
        until [[ $(count "$1") == "$2" ]]; do
                ((SECONDS < end)) || fail "there are $(count "$1") jobs in $1, not $2"
        done
}

[[ $(find . -name 'block.*' | wc -l) == 6 ]] || fail "this test knows six blocks"
start
run_block 1
[[ $(count pending) == 3 ]] || fail "three jobs were added, $(count pending) are there"
echo "ok - jobs are added by redis-cli, curl and weir job add"

run_block 2
grep -q cleo out.2 || fail "the job of the best priority was not the one claimed"
grep -q complete out.2 || fail "weir job show does not say complete"
echo "ok - a job claimed over HTTP is completed over RESP"

run_block 3
until_count complete 3
echo "ok - a worker does the rest"

run_block 4
grep -q paused out.4 || fail "weir queue list does not show the pause"
[[ $(count pending) == 1 ]] || fail "the job of the paused queue does not wait"
echo "ok - a paused queue accepts jobs and holds them"

run_block 5
wait "$server" && fail "the server was not killed"
start
run_block 6
grep -q paused out.6 || fail "the pause is gone after a kill"
grep -q mail.send out.6 || fail "the job is gone after a kill"
[[ $(count complete) == 3 ]] || fail "the finished jobs are gone after a kill"
echo "ok - after kill -9 the job and the pause are still there"

kill "$server"
wait "$server" || fail "SIGTERM did not end the server with 0"
echo "ok - SIGTERM ends the server with 0"
