# What the tests of the worker share: a server, a worker in the background, and two pipes by which a
# command says something (`said`) and is told to go on (`go`).

load lib.bash

setup() {
        start_weir
        cd "$DATA" || return 1
        mkfifo go said
        # Both ends stay open here, so that neither side ever waits for the other to open.
        exec 8<>go 9<>said
        WORKER=
}

teardown() {
        if [ -n "$WORKER" ]; then
                kill -KILL "$WORKER" 2>/dev/null || true
                wait "$WORKER" || true
        fi
        exec 8>&- 9>&-
        stop_weir
}

# start_worker OPTIONS...: in the background, its pid in WORKER, what it says in work.log
start_worker() {
        "$WEIR_BIN" work "$@" 2>>work.log 3>&- 8>&- 9>&- &
        WORKER=$!
}

end_worker() {
        local status=0
        wait "$WORKER" || status=$?
        WORKER=
        return "$status"
}

# hear: the next line a command wrote to `said`
hear() {
        IFS= read -r -t 20 REPLY <&9
}

let_go() {
        echo go >&8
}
