#!/usr/bin/env bats
# weir-test: long
# The worker when something around it goes wrong: the server refuses or is silent, signals come at
# bad moments, the machine has little room.

load lib_work.bash

# Says its job, waits until it may go on.
TELLER="sh -c 'echo {id} >said; read x <go; echo done'"

ended() { # PID: and not yet waited for, since the worker stands still
        grep -q '^State:.*Z' "/proc/$1/status"
}

stopping() {
        kill -"${1:-TERM}" "$WORKER"
        eventually grep -q 'stopping after' work.log
}

@test "a job taken ahead begins when its slot is free, also while the server is silent" {
        for i in 1 2; do add a; done
        start_worker --queue q --prefetch 1 --exec "$TELLER"
        hear
        eventually has_status 2 in-progress
        kill -STOP "$WEIR_PID"
        let_go
        hear || REPLY='nothing'
        kill -CONT "$WEIR_PID"
        [ "$REPLY" = 2 ]
        let_go
        eventually has_status 2 complete
        has_status 1 complete
        kill -TERM "$WORKER"
        end_worker
}

@test "a job taken ahead does not begin under a lease that has run out" {
        for i in 1 2; do add a; done
        start_worker --url "$RESP_SOCK" --queue q --prefetch 1 --lease 1s --exec "$TELLER"
        hear
        eventually has_status 2 in-progress
        kill -STOP "$WORKER"
        eventually has_status 2 pending
        eventually has_status 1 pending
        weir work --once --queue q --exec 'echo another'
        [ "$(field 2 result)" = another ]
        stop_weir
        kill -CONT "$WORKER"
        let_go
        eventually grep -q 'no connection' work.log
        start_weir
        eventually grep -q 'not ours any more.*job=2' work.log
        kill -TERM "$WORKER"
        end_worker
        not grep -q 'started job=2' work.log
        [ "$(field 2 result)" = another ]
}

@test "a token that is refused after a restart of the server is told" {
        start_worker --url "$RESP_SOCK" --queue q --exec cat
        eventually grep -q ready work.log
        stop_weir
        eventually grep -q 'no connection' work.log
        (umask 077 && echo 0123456789abcdef0123456789abcdef >token)
        start_weir --token-file token
        eventually grep -q 'no connection, retrying.*AUTH' work.log
        kill -TERM "$WORKER"
        end_worker
}

@test "a command that has ended by itself is complete, also when the second SIGTERM comes then" {
        add a
        start_worker --queue q --exec \
                "sh -c 'tail -f /dev/null & echo \$\$ >said; read x <go; echo done'"
        hear
        stopping
        kill -STOP "$WORKER"
        let_go
        eventually ended "$REPLY"
        kill -TERM "$WORKER"
        kill -CONT "$WORKER"
        end_worker
        has_status 1 complete
        [ "$(field 1 result)" = 'done' ]
}

@test "a command that has ended by itself is not one that ran too long" {
        add a
        start_worker --queue q --timeout 8s --lease 10s --exec \
                "sh -c 'tail -f /dev/null & echo \$\$ >said; read x <go; echo done'"
        hear
        ask PAUSE q
        kill -STOP "$WORKER"
        let_go
        eventually ended "$REPLY"
        eventually has_status 1 pending # so long that the timeout is over as well
        kill -CONT "$WORKER"
        eventually has_status 1 complete
        [ "$(field 1 result)" = 'done' ]
        kill -TERM "$WORKER"
        end_worker
}

@test "SIGHUP is a reason to stop like SIGTERM" {
        for i in 1 2; do add a; done
        start_worker --queue q --prefetch 1 --exec "$TELLER"
        hear
        eventually has_status 2 in-progress
        stopping HUP
        eventually has_status 2 pending
        let_go
        end_worker
        has_status 1 complete
        [ "$(field 2 attempt)" = 0 ]
}

@test "a worker that was started to outlive its terminal does" {
        add a
        HUP=ignore start_worker --queue q --exec "$TELLER"
        hear
        kill -HUP "$WORKER"
        let_go
        eventually has_status 1 complete
        add b
        hear
        [ "$REPLY" = 2 ]
        let_go
        eventually has_status 2 complete
        kill -TERM "$WORKER"
        end_worker
}

@test "slots have their files, and commands the limit that the worker was started with" {
        seq 40 | weir job add a --many - --queue q
        ulimit -Sn 64
        start_worker --queue q --slots 40 --exec \
                "sh -c 'echo \$(ulimit -n) >said; read x <go'"
        for i in {1..40}; do
                hear
                [ "$REPLY" = 64 ]
        done
        for i in {1..40}; do let_go; done
        all_done() {
                tell QUEUES
                [[ ${ANSWERS[*]} == *" completed 40 "* ]]
        }
        eventually all_done
        kill -TERM "$WORKER"
        end_worker
        grep -q 'completed=40 failed=0 released=0 lost=0' work.log
}

@test "a worker without jobs that is told twice to stop has nothing to be sorry for" {
        start_worker --queue q --exec cat
        eventually grep -q ready work.log
        kill -STOP "$WEIR_PID"
        stopping
        kill -TERM "$WORKER"
        local status=0
        end_worker || status=$?
        kill -CONT "$WEIR_PID"
        [ "$status" -eq 0 ]
        not grep -q 'could not be reported' work.log
}

@test "a worker is ready before it asks for its first job" {
        cat >standin.py <<'PYTHON'
import select, socket, subprocess, sys

listener = socket.create_server(("127.0.0.1", 0))
listener.settimeout(120)
url = "127.0.0.1:%d" % listener.getsockname()[1]


def said(peer, *words):
    """The first of the words that comes."""
    text = b""
    while True:
        got = peer.recv(4096)
        assert got, text
        text += got
        for word in words:
            if word in text:
                return word


def is_early():
    """Greets one connection, and the other one when that said nothing.  None: the first one to be
    greeted was not the one that asks for jobs."""
    worker = subprocess.Popen([sys.argv[1], "work", "--queue", "q", "--exec", "cat", "--url", url])
    try:
        other, first = peers = [listener.accept()[0] for _ in range(2)]
        for peer in peers:
            peer.settimeout(120)
            said(peer, b"HELLO")
        first.sendall(b"+OK\r\n" * 2)
        # Only how surely a mistake is seen depends on the time.
        is_heard = bool(select.select([first], [], [], 0.3)[0])
        other.sendall(b"+OK\r\n" * 2)
        return is_heard if said(first, b"CLAIM", b"QUEUE") == b"CLAIM" else None
    finally:
        worker.kill()
        worker.wait()


print(next(x for x in (is_early() for _ in range(20)) if x is not None))
PYTHON
        python3 standin.py "$WEIR_BIN" >verdict 2>work.log
        [ "$(cat verdict)" = False ]
}
