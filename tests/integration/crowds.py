#!/usr/bin/python3
# weir-test: timeout=300
"""Crowds of connections: readers that do not read, requests that do not end, floods of commands,
strangers, and wrong tokens.  The others must go on being served, and memory must stay within its
bounds.

Nothing here measures time: memory is what /proc and the counters say, and fairness is counted in
commands (tests/unit/test_turns.c)."""
import contextlib
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "fault"))

from harness import (  # noqa: E402
    Closed, Server, check_error, equal, expect, main, mapping, pack, test, text, until)

MIB = 1 << 20
BUDGET = 64 * MIB  # the least that client_memory can be
# The program itself, the jobs of the test, a turn's work, and what malloc keeps: far less than
# what the crowd asks for.
ROOM = 120 * MIB
CONFIG = 'client_memory = "64m"\n'


def info(client):
    rows = (line.split(":", 1) for line in text(client("INFO")).splitlines() if ":" in line)
    return dict(rows)


def peak_bytes(server):
    with open("/proc/%d/status" % server.process.pid) as f:
        for line in f:
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    raise AssertionError("there is no VmHWM")


def is_sanitized():
    """Address sanitizer keeps freed memory, so the size of the process says nothing."""
    path = os.environ.get("WEIR", "")
    return "asan" in path or "tsan" in path


@contextlib.contextmanager
def crowd(server, n, **options):
    clients = []
    try:
        for _ in range(n):
            clients.append(server.client(**options))
        yield clients
    finally:
        for c in clients:
            c.close()


def check_memory(server, client, before):
    held = int(info(client)["client_memory_bytes"])
    expect(held <= BUDGET, "%d bytes are held" % held)
    if not is_sanitized():
        grown = peak_bytes(server) - before
        expect(grown < BUDGET + ROOM, "memory grew by %d MiB" % (grown // MIB))


@test("readers that do not read are slowed down, and together hold no more than client_memory")
def _(folder):
    server = Server(folder, config=CONFIG)
    with server.client() as c, crowd(server, 200, receive_bytes=4096) as lazy:
        job_id = c("ENQUEUE", "h", b"x" * 1000000)
        before = peak_bytes(server)
        for one in lazy:
            one.send(pack("JOB", job_id) * 100)
        # Nobody has commands left that would be run at once.
        until(lambda: is_settled(c), 60, "the crowd is at rest")
        check_memory(server, c, before)
        # What they asked for comes when they read.
        for one in lazy[:5] + lazy[-5:]:
            one.socket.settimeout(60)
            for _ in range(10):
                equal(len(mapping(one.read())["args"]), 1000000, "the args")
        equal(c("PING"), "PONG")
    server.stop()


@test("when answers that are not read fill client_memory, the heaviest connections are cut")
def _(folder):
    server = Server(folder, config=CONFIG)
    each, n = 20, 6
    with server.client(seconds=60) as c, crowd(server, n, receive_bytes=4096) as lazy:
        for _ in range(n):
            c("ENQUEUEMANY", "JOBS", *["h", b"x" * 1000000] * each)
        before = peak_bytes(server)
        for one in lazy:
            one.send(pack("CLAIM", "w", "MAX", each, "QUEUES", "default"))
        until(lambda: int(info(c)["connections_cut_memory"]) > 0, 60, "one was cut")
        until(lambda: is_settled(c), 60, "all have claimed")
        cut = int(info(c)["connections_cut_memory"])
        expect(0 < cut < n, "%d of %d were cut" % (cut, n))
        check_memory(server, c, before)
        equal(int(info(c)["connections"]), 1 + n - cut, "connections")
        expect("clients hold too much memory, cutting the heaviest" in server.log(), "no line")
        equal(server.log().count("cutting the heaviest"), 1, "lines within a minute")
        equal(c("PING"), "PONG")
    server.stop()


def is_settled(client):
    """Whether no command but ours was run between two looks."""
    first, second = info(client), info(client)
    return int(second["resp_commands"]) - int(first["resp_commands"]) == 1


@test("requests that do not end hold no more than client_memory, and the largest is told why")
def _(folder):
    server = Server(folder, config=CONFIG)
    with server.client() as c, crowd(server, 20) as slow:
        before = peak_bytes(server)
        body = b"x" * MIB
        refused = []
        for one in slow:
            one.send(b"*64\r\n$11\r\nENQUEUEMANY\r\n$4\r\nJOBS\r\n")
        for _ in range(30):
            for one in slow:
                with contextlib.suppress(ConnectionError):
                    one.send(b"$1\r\nh\r\n$%d\r\n%s\r\n" % (len(body), body))
        until(lambda: int(info(c)["connections_cut_memory"]) > 0, 30, "a request was cut")
        now = info(c)
        expect(int(now["client_memory_bytes"]) <= BUDGET, now["client_memory_bytes"])
        if not is_sanitized():
            grown = peak_bytes(server) - before
            expect(grown < BUDGET + ROOM, "memory grew by %d MiB" % (grown // MIB))
        for one in slow:
            one.socket.settimeout(0.05)
            with contextlib.suppress(Closed, TimeoutError):
                refused.append(one.read())
        expect(refused, "nobody was told why")
        check_error(refused[0], "LIMIT", "client_memory", "the largest request")
        equal(c("PING"), "PONG")
    with server.web() as web:
        equal(web.ask("GET", "/v1/queues").json["queues"], [], "jobs of unfinished requests")
    server.stop()


@test("a client that sends and reads as it should is not cut, whatever others hold")
def _(folder):
    server = Server(folder, config=CONFIG)
    with server.client() as c, crowd(server, 100, receive_bytes=4096) as lazy:
        job_id = c("ENQUEUE", "h", b"x" * 500000)
        for one in lazy:
            one.send(pack("JOB", job_id) * 50)
        with server.client(seconds=60) as good:
            for _ in range(20):
                good.send(pack("JOB", job_id) * 10)
                for _ in range(10):
                    expect(len(good.read()) > 0, "an answer")
        equal(c("PING"), "PONG")
    server.stop()


if __name__ == "__main__":
    main()
