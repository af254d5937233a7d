# What the tests of the worker share: a server, a worker in the background, and the pipes of its
# commands.

load lib_pipes.bash

setup() {
        start_with_pipes
        WORKER=
}

teardown() {
        if [ -n "$WORKER" ]; then
                kill -KILL "$WORKER" 2>/dev/null || true
                wait "$WORKER" || true
        fi
        stop_with_pipes
}

# start_worker OPTIONS...: in the background, its pid in WORKER, what it says in work.log
# HUP=ignore: as nohup would; else as from a terminal, whatever started the tests.
start_worker() {
        env "--${HUP:-default}-signal=HUP" "$WEIR_BIN" work "$@" 2>>work.log 3>&- 8>&- 9>&- &
        WORKER=$!
}

end_worker() {
        local status=0
        wait "$WORKER" || status=$?
        WORKER=
        return "$status"
}

let_go() {
        echo go >&8
}
