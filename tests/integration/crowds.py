#!/usr/bin/python3
# weir-test: timeout=300 bin=release
"""Crowds of connections: readers that do not read, requests that do not end, floods of commands,
strangers, and wrong tokens.  The others must go on being served, and memory must stay within its
bounds.

Nothing here measures time: memory is what /proc and the counters say, and fairness is counted in
commands (tests/unit/test_turns.c).  The release build runs here: a sanitizer keeps what is freed."""
import contextlib
import os
import re
import resource
import socket
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "fault"))

import harness  # noqa: E402
from harness import (  # noqa: E402
    ROOT, Closed, Http, Resp, Server, Skip, WeirError, check_error, equal, expect, main, mapping,
    pack, test, text, until, weir)

with open(os.path.join(ROOT, "src", "api", "limits.h")) as f:
    LIMIT = {name: int(value) for name, value in re.findall(r"X\((\w+),\s*(\d+),", f.read())}
TOKEN = "correct horse battery staple"

MIB = 1 << 20
BUDGET = 64 * MIB  # the least that client_memory can be
# The program itself, the jobs of the test, a turn's work, and what malloc keeps: far less than
# what the crowd asks for.
ROOM = 120 * MIB
CONFIG = 'client_memory = "64m"\n'


def info(client):
    rows = (line.split(":", 1) for line in text(client("INFO")).splitlines() if ":" in line)
    return dict(rows)


def status_bytes(server, name):
    with open("/proc/%d/status" % server.process.pid) as f:
        for line in f:
            if line.startswith(name + ":"):
                return int(line.split()[1]) * 1024
    raise AssertionError("there is no " + name)


def peak_bytes(server):
    return status_bytes(server, "VmHWM")


def size_bytes(server):
    return status_bytes(server, "VmRSS")


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
    # So many that each may have one answer even if the system's buffers take none of it: they take
    # more or less, by what it remembers of earlier connections.
    with server.client() as c, crowd(server, 20, receive_bytes=4096) as lazy:
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
        until(lambda: int(info(c)["connections_cut_memory"]) > 0, what="a request was cut")
        # Within a turn more may be held than after it: the heaviest are cut when a turn ends.
        until(lambda: int(info(c)["client_memory_bytes"]) <= BUDGET,
              what="the rest is within bounds")
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
        job_id, small = c("ENQUEUE", "h", b"x" * 500000), c("ENQUEUE", "h", b"x" * 40000)
        for one in lazy:
            one.send(pack("JOB", job_id) * 50)
        with server.client(seconds=60) as good:
            for _ in range(50):
                # However late it reads: all that it asked for is less than what others hold.
                good.send(pack("JOB", small) * 10)
                for _ in range(10):
                    equal(len(mapping(good.read())["args"]), 40000, "the args")
        equal(c("PING"), "PONG")
    server.stop()


# --------------------------------------------------------------------------- wrong tokens


def lines_about(server, words):
    return [line for line in server.log().splitlines() if words in line]


@test("thousands of wrong tokens on one connection are cut short, and the log says who")
def _(folder):
    limit = LIMIT["TOKEN_FAILURES"]
    server = Server(folder, token=TOKEN)
    wrong = b"GET /v1/queues HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer wrong\r\n\r\n"
    with Http(server.http, seconds=30) as web:
        with contextlib.suppress(ConnectionError):
            web.send(wrong * 2000)
        answers = []
        with contextlib.suppress(Closed):
            while True:
                answers.append(web.read())
        equal([a.status for a in answers], [401] * (limit + 1), "statuses")
        equal(answers[-1].header("connection"), "close", "the last answer")
    with server.client(seconds=30) as c:
        check_error(c.ask("AUTH", "wrong"), "BADTOKEN", "", "over RESP")
        expect(c.is_closed(10), "still open")
    lines = lines_about(server, 'msg="wrong access token"')
    equal(len(lines), 1, "lines within a minute")
    expect("address=127.0.0.1" in lines[0], lines[0])
    with server.client() as c, server.web() as web:
        equal(c("AUTH", TOKEN), "OK", "the right one")
        equal(web.ask("GET", "/v1/queues").status, 200, "over HTTP")
        equal(int(info(c)["auth_failures"]), limit + 2, "counted")
    server.stop()


@test("a token that could be guessed is refused where other machines can connect")
def _(folder):
    def write(token):
        path = os.path.join(folder, "token")
        with open(path, "w") as f:
            f.write(token + "\n")
        os.chmod(path, 0o600)
        return path

    conf = os.path.join(folder, "weir.conf")
    rows = (("0123456789abcdef01234", "22 characters or more, not 21"),
            ("ab" * 16, "8 different characters or more, not 2"))
    for token, why in rows:
        path = write(token)
        for address in ("0.0.0.0:0", "[::]:0"):
            with open(conf, "w") as f:
                f.write('token_file = "%s"\nresp = {"%s"}\n' % (path, address))
            os.chmod(conf, 0o600)
            for words in (("serve", "-t", "-c", conf), ("config", "check", conf),
                          ("serve", "-c", conf, "--data", os.path.join(folder, "none"))):
                found = weir(*words)
                expect(found.returncode != 0, "%s took %r" % (words, token))
                expect(why in found.stderr, "%s: %s" % (words, found.stderr))
                expect(address in found.stderr, found.stderr)
        expect(not os.path.exists(os.path.join(folder, "none")), "a folder was made")
        # Nobody else can connect there.
        found = weir("serve", "-t", "--resp", "127.0.0.1:0", "--token-file", path)
        equal(found.returncode, 0, found.stderr)
    path = write("0123456789abcdef012345")
    found = weir("serve", "-t", "--resp", "0.0.0.0:0", "--token-file", path)
    expect(found.returncode != 0 and "set insecure = true" in found.stderr, found.stderr)
    found = weir("serve", "-t", "--resp", "0.0.0.0:0", "--token-file", path, "--insecure")
    equal(found.returncode, 0, found.stderr)
    found = weir("serve", "-t", "--resp", "0.0.0.0:0")
    expect(found.returncode != 0 and "set a token" in found.stderr, "no token: " + found.stderr)


# --------------------------------------------------------------------------- strangers


def own_address():
    """An address of this machine that is no loopback; None when it has none."""
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.connect(("198.51.100.1", 9))  # sends nothing
        found = s.getsockname()[0]
        return None if found.startswith("127.") else found
    return None


def strangers_from(server, address):
    limit = LIMIT["PREAUTH_ADDRESS"]
    strangers = []
    try:
        known = Resp(address, seconds=30)
        equal(known("AUTH", TOKEN), "OK")
        before = int(info(known)["connections"])
        for _ in range(3 * limit):
            strangers.append(Resp(address, seconds=30))
        until(lambda: int(info(known)["connections_cut_strangers"]) >= 2 * limit, what="cuts")
        now = info(known)
        expect(int(now["connections"]) <= before + limit, "%s are open" % now["connections"])
        # The oldest was told why, the newest can still show the token.
        check_error(strangers[0].read(), "LIMIT", "token", "the oldest")
        expect(strangers[0].is_closed(10), "still open")
        with Resp(address, seconds=30) as late:
            equal(late("AUTH", TOKEN), "OK", "one that comes later")
            equal(late("PING"), "PONG")
        equal(known("PING"), "PONG")
        known.close()
    finally:
        for c in strangers:
            c.close()


@test("connections without the token do not keep out those that have it")
def _(folder):
    server = Server(folder, token=TOKEN)
    strangers_from(server, server.resp)
    expect(lines_about(server, "connections without the token"), "no line in the log")
    server.stop()


@test("from another address as well")
def _(folder):
    address = own_address()
    if not address:
        raise Skip("this machine has no other address")
    server = Server(folder, "--insecure", token=TOKEN, resp="0.0.0.0:0")
    strangers_from(server, (address, server.resp[1]))
    # This machine has places of its own.
    with Resp(("127.0.0.1", server.resp[1])) as c:
        equal(c("AUTH", TOKEN), "OK")
    server.stop()


# --------------------------------------------------------------------------- a drain


@test("memory is given back within a minute after a drain")
def _(folder):
    if is_sanitized():
        raise Skip("the sanitizer keeps freed memory")
    server = Server(folder, config='history = "none"\n')
    with server.client(seconds=60) as c:
        begin = size_bytes(server)
        n, size = 10000, 7000
        for _ in range(n // 500):
            c("ENQUEUEMANY", "JOBS", *["h", b"x" * size] * 500)
        full = size_bytes(server)
        expect(full - begin > n * size, "the jobs are in memory: %d" % full)
        while True:
            got = harness.claim(c, count=200)
            if not got:
                break
            c.send(b"".join(pack("COMPLETE", g.id, g.token) for g in got))
            for _ in got:
                equal(c.read(), "OK")
        until(lambda: size_bytes(server) < begin + (full - begin) // 4, 60,
              "the process became smaller (%d MiB, %d when full)" % (begin // MIB, full // MIB))
    server.stop()


# --------------------------------------------------------------------------- descriptors


@test("when descriptors are out the next client is told so, and work goes on")
def _(folder):
    wrapper = os.path.join(folder, "few")
    with open(wrapper, "w") as f:
        f.write('#!/bin/sh\nulimit -n 100\nexec "%s" "$@"\n' % harness.WEIR)
    os.chmod(wrapper, 0o755)
    real, harness.WEIR = harness.WEIR, wrapper
    try:
        server = Server(folder)
    finally:
        harness.WEIR = real
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(1024, hard), hard))
    with server.client() as c, crowd(server, 150) as clients:
        served = refused = 0
        for one in clients:
            with contextlib.suppress(ConnectionError):
                one.send(pack("PING"))
            reply = one.read()
            served += reply == "PONG"
            if isinstance(reply, WeirError):
                check_error(reply, "LIMIT", "files", "a surplus connection")
                expect(one.is_closed(10), "it stays open")
                refused += 1
        equal(served + refused, len(clients), "all were answered")
        expect(served > 20 and refused > 20, "%d served, %d refused" % (served, refused))
        with server.web() as web:
            equal(web.read().status, 503, "over HTTP")
        equal(len(lines_about(server, 'msg="connection refused"')), 1, "lines within a minute")
        # The log and history still open what they need.
        job_id = c("ENQUEUE", "h", "x")
        equal([g[0] for g in c("CLAIM", "w", "QUEUES", "default")], [job_id])

    def is_welcome():
        with server.client() as one:
            return one.ask("PING") == "PONG"
    until(is_welcome, what="room again")
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    server.stop()


if __name__ == "__main__":
    main()
