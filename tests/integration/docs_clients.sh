#!/bin/bash
# weir-test: timeout=120 bin=release
# What docs/clients.md shows works as it is printed: its programs, and the commands of its tables.
#
# They speak to the default address, so they get a network namespace of their own.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)

# shellcheck source=tests/integration/lib_namespaces.bash
source "$root/tests/integration/lib_namespaces.bash"
enter_namespaces "the clients of the documents work" "$@"

cd "$(mktemp -d)"
weir=${WEIR_BIN:-$root/build/weir}
page=$root/docs/clients.md
export NODE_PATH=$root/tests/integration/node/node_modules

fail()
{
        echo "not ok - $*"
        cat serve.err
        exit 1
}

exec {ready}< <(exec "$weir" serve --data ./data 2>serve.err)
server=$!
read -r -t 60 -u "$ready" line || fail "the server did not get ready"
[[ $line == ready\ * ]] || fail "the server did not get ready: $line"

# LANGUAGE PROGRAM ADDRESS: the one block in that language, run; it adds a job, does it, and says to whom.
program()
{
        awk -v mark="\`\`\`$1" '$0 == mark { on = 1; next } /^```$/ { on = 0 } on' "$page" >"program.$1"
        [[ -s program.$1 ]] || fail "there is no program in $1"
        "$2" "program.$1" >out 2>&1 || { cat out; fail "the program in $1 fails"; }
        [[ $(cat out) == "mail.send $3" ]] || { cat out; fail "the program in $1 says something else"; }
        [[ $("$weir" job list --json --match "$3" | jq -r '.jobs[] | .status + " " + .result') == "complete sent" ]] ||
                fail "the job of the program in $1 is not complete"
        echo "ok - the program in $1 adds a job and does it"
}

program python /usr/bin/python3 ada@example.org
program php php bob@example.org
program js node cleo@example.org

"$weir" job add h --many <(seq 18) >/dev/null
# The right side of the tables: each text in backquotes that begins with a command and its words.
commands='ENQUEUE|ENQUEUEMANY|QUEUESET|JOBS|BATCH|LIMIT|SCHEDULE|PAUSE|RESUME|CLOSEBATCH'
n=0
while IFS= read -r words; do
        answer=$(xargs redis-cli -p 7379 <<<"$words")
        [[ ! $answer =~ ^(SYNTAX|BADARG|UNKNOWN|NOTFOUND|STATE)\  ]] || fail "'$words' is refused: $answer"
        n=$((n + 1))
done < <(awk -F'|' '/^[|] /{ print $3 }' "$page" | tr '`' '\n' | grep -E "^($commands) " |
        grep -vE '^(BATCH|LIMIT) [a-z]+$') # options of a job, not commands
((n >= 15)) || fail "only $n commands were found in the tables"
echo "ok - the commands of the tables are taken"

kill "$server"
wait "$server" || fail "SIGTERM did not end the server with 0"
