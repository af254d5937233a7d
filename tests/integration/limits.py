#!/usr/bin/python3
# weir-test: timeout=300
"""Every limit of src/api/limits.h that a client can reach, at n-1, n and n+1.

The values are read from the header itself, and the last test checks that each row of the table is
either walked here or listed with the reason why not."""
import os
import re
import resource
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "fault"))

from harness import (  # noqa: E402
    FULL, ROOT, Server, Skip, Watch, WeirError, check_error, check_problem, claim, equal,
    expect, grants, job, main, mapping, pack, test, text, until)

with open(os.path.join(ROOT, "src", "api", "limits.h")) as f:
    LIMIT = {name: int(value) for name, value in re.findall(r"X\((\w+),\s*(\d+),", f.read())}

walked = set()


def around(name):
    """n-1, n and n+1 with whether it is allowed."""
    walked.add(name)
    n = LIMIT[name]
    return [(n - 1, True), (n, True), (n + 1, False)]


def judge(reply, is_allowed, name, mention, what):
    if is_allowed:
        expect(not isinstance(reply, WeirError), "%s: %s" % (what, reply))
    else:
        check_error(reply, name, mention, what)


@test("args and results up to the limit are kept whole, one byte more is refused")
def _(folder):
    server = Server(folder)
    with server.client() as c, server.web() as web:
        for n, is_allowed in around("PAYLOAD_BYTES"):
            data = bytes(i * 7 % 251 for i in range(1000)) * (n // 1000 + 1)
            reply = c.ask("ENQUEUE", "h", data[:n])
            judge(reply, is_allowed, "TOOBIG", "args", "args of %d" % n)
            judge(c.ask("ENQUEUEMANY", "QUEUE", "m", "JOBS", "h", "x", "h", data[:n]), is_allowed,
                  "TOOBIG", "args", "one of many of %d" % n)
            answer = web.ask("POST", "/v1/jobs",
                             b'{"hook":"h","queue":"w","args":"' + b"x" * (n - 2) + b'"}')
            if is_allowed:
                got = claim(c)[0]
                expect(got.args == data[:n], "args of %d changed" % n)
                equal(c("COMPLETE", got.id, got.token, data[:n]), "OK")
                expect(job(c, got.id)["result"] == data[:n], "result of %d changed" % n)
                expect(answer.status in (200, 201), repr(answer))
            else:
                check_problem(answer, 413, "TOOBIG", "args", "over HTTP")
        c("ENQUEUE", "h", "x")
        got = claim(c)[0]
        c.refused("COMPLETE", got.id, got.token, b"x" * (LIMIT["PAYLOAD_BYTES"] + 1),
                  name="TOOBIG", mentions="result")
        equal(c("COMPLETE", got.id, got.token), "OK")


@test("names up to the limit are taken, one byte more is refused")
def _(folder):
    server = Server(folder)
    with server.client() as c:
        for n, is_allowed in around("NAME_BYTES"):
            name = ("é" * 127 + "abc")[:n - 127] if n > 200 else "x" * n
            name = name.encode()
            name = name + b"x" * (n - len(name))
            equal(len(name), n)
            for what, words in (("hook", ("ENQUEUE", name, "a")),
                                ("queue", ("ENQUEUE", "h", "a", "QUEUE", name)),
                                ("group", ("ENQUEUE", "h", "a", "GROUP", name)),
                                ("hook", ("ENQUEUEMANY", "JOBS", "h", "a", name, "a")),
                                ("worker", ("CLAIM", name, "QUEUES", "q")),
                                ("queues", ("CLAIM", "w", "QUEUES", "q", name)),
                                ("queue", ("PAUSE", name)),
                                ("hook", ("JOBS", "HOOK", name)),
                                ("match", ("JOBS", "MATCH", name))):
                judge(c.ask(*words), is_allowed, "TOOBIG", what, "%s of %d bytes" % (what, n))


@test("error and progress texts up to their limits are kept, one byte more is refused")
def _(folder):
    server = Server(folder)
    with server.client() as c:
        for n, is_allowed in around("ERROR_BYTES"):
            c("ENQUEUE", "h", "a", "ATTEMPTS", 1, "QUEUE", "e%d" % n)
            got = claim(c, "e%d" % n)[0]
            judge(c.ask("FAIL", got.id, got.token, "e" * n), is_allowed, "TOOBIG", "error",
                  "error of %d" % n)
            if is_allowed:
                equal(job(c, got.id)["error"], b"e" * n, "the error")
            else:
                equal(text(job(c, got.id)["status"]), "in-progress")
        for n, is_allowed in around("PROGRESS_BYTES"):
            judge(c.ask("PROGRESS", got.id, got.token, "p" * n), is_allowed, "TOOBIG", "text",
                  "progress of %d" % n)
        equal(len(job(c, got.id)["progress"]), LIMIT["PROGRESS_BYTES"], "length of the progress")


@test("as many jobs as the limit go into one request, one more is refused and none is added")
def _(folder):
    server = Server(folder)
    with server.client() as c, server.web() as web:
        total = 0
        for n, is_allowed in around("BULK_JOBS"):
            reply = c.ask("ENQUEUEMANY", "QUEUE", "bulk", "JOBS", *["h", "x"] * n)
            judge(reply, is_allowed, "TOOBIG", "jobs", "ENQUEUEMANY of %d" % n)
            body = b"[" + b",".join([b'{"hook":"h","args":1,"queue":"web"}'] * n) + b"]"
            answer = web.ask("POST", "/v1/jobs", body)
            if is_allowed:
                equal(len(set(reply)), n, "ids")
                equal(len(answer.json["ids"]), n, "ids over HTTP")
                total += n
            else:
                check_problem(answer, 413, "TOOBIG", str(LIMIT["BULK_JOBS"]), "POST of %d" % n)
        counts = {text(mapping(q)["name"]): mapping(q)["ready"] for q in c("QUEUES")}
        equal(counts, {"bulk": total, "web": total}, "jobs that are there")


@test("a request as large as the limit is read, a larger one is refused before it is sent")
def _(folder):
    server = Server(folder)
    walked.add("COMMAND_BYTES")
    limit = LIMIT["COMMAND_BYTES"]
    payload = LIMIT["PAYLOAD_BYTES"]
    with server.client(seconds=60) as c:
        # Filled up to exactly n bytes with many payloads below their own limit.
        for n, is_allowed in ((limit - 1, True), (limit, True)):
            count = 40
            head = len(pack("ENQUEUEMANY", "JOBS", *["h", ""] * count))
            each = (n - head) // count - 8
            words = ["h", b"x" * each] * count
            data = pack("ENQUEUEMANY", "JOBS", *words)
            words[-1] = b"x" * (each + n - len(data))
            data = pack("ENQUEUEMANY", "JOBS", *words)
            equal(len(data), n)
            expect(len(words[-1]) <= payload, "the payload")
            c.send(data)
            reply = c.read()
            judge(reply, is_allowed, "TOOBIG", "", "a request of %d bytes" % n)
            equal(len(reply), count)
        c.send(b"*4\r\n$11\r\nENQUEUEMANY\r\n$4\r\nJOBS\r\n$1\r\nh\r\n$%d\r\n" % limit)
        check_error(c.read(), ("SYNTAX", "TOOBIG"), "large", "a request past the limit")
        expect(c.is_closed(5), "still open")


@test("as many words as the limit make a command, one more is refused")
def _(folder):
    server = Server(folder)
    for n, is_allowed in around("COMMAND_ARGS"):
        with server.client() as c:
            c.send(b"*%d\r\n" % n + pack(*["COMMAND", "INFO"] + ["x"] * (n - 2)).split(
                b"\r\n", 1)[1] if is_allowed else b"*%d\r\n" % n)
            reply = c.read()
            if is_allowed:
                equal(len(reply), n - 2, "answers")
            else:
                check_error(reply, ("SYNTAX", "TOOBIG"), "argument", "%d words" % n)
                expect(c.is_closed(5), "still open")


@test("numbers are taken up to their limits and refused one beyond")
def _(folder):
    server = Server(folder)
    with server.client() as c:
        c("ENQUEUE", "h", "x", "QUEUE", "held")
        held = claim(c, "held", lease=600000)[0]
        c("PAUSE", "paused")
        rows = []
        for n, ok in around("CLAIM_JOBS"):
            rows.append((("CLAIM", "w", "MAX", n, "QUEUES", "none"), ok, "max"))
        rows.append((("CLAIM", "w", "MAX", 0, "QUEUES", "none"), False, "max"))
        rows.append((("CLAIM", "w", "MAX", 1, "QUEUES", "none"), True, "max"))
        for n, ok in around("CLAIM_QUEUES"):
            rows.append((("CLAIM", "w", "QUEUES", *["q%d" % i for i in range(n)]), ok, "queues"))
        n = LIMIT["LEASE_MIN_MS"]
        walked.add("LEASE_MIN_MS")
        for value, ok in ((n - 1, False), (n, True), (n + 1, True)) + tuple(
                around("LEASE_MAX_MS")):
            rows.append((("CLAIM", "w", "LEASE", value, "QUEUES", "none"), ok, "lease"))
            rows.append((("ENQUEUE", "h", "x", "QUEUE", "paused", "TIMEOUT", value), ok, "timeout"))
            rows.append((("EXTEND", held.id, held.token, value), ok, "ms"))
        rows.append((("EXTEND", held.id, held.token, 600000), True, "ms"))
        for n, ok in around("DELAY_MS"):
            rows.append((("ENQUEUE", "h", "x", "QUEUE", "paused", "IN", n), ok, "in"))
        for n, ok in around("ATTEMPTS"):
            rows.append((("ENQUEUE", "h", "x", "QUEUE", "paused", "ATTEMPTS", n), ok, "attempts"))
        rows.append((("ENQUEUE", "h", "x", "QUEUE", "paused", "ATTEMPTS", 0), False, "attempts"))
        for n, ok in ((-1, False), (0, True), (255, True), (256, False)):
            rows.append((("ENQUEUE", "h", "x", "QUEUE", "paused", "PRIORITY", n), ok, "priority"))
        for n, ok in around("LIST_JOBS") + [(0, False), (1, True)]:
            rows.append((("JOBS", "LIMIT", n), ok, "limit"))
        for words, ok, mention in rows:
            name = "TOOBIG" if mention == "queues" else "BADARG"
            judge(c.ask(*words), ok, name, mention, " ".join(map(str, words))[:80])
        over = LIMIT["DELAY_MS"] + 1
        c.refused("RELEASE", held.id, held.token, "IN", over, name="BADARG", mentions="in")
        c.refused("FAIL", held.id, held.token, "e", "RETRYIN", over, name="BADARG",
                  mentions="retryin")
        equal(c("RELEASE", held.id, held.token, "IN", LIMIT["DELAY_MS"]), "OK")
        expect(job(c, held.id)["due_ms"] > (time.time() + 3600 * 24 * 3600) * 1000, "due in years")


@test("WAIT is taken up to its limit and refused one beyond")
def _(folder):
    server = Server(folder)
    for n, is_allowed in around("WAIT_MS"):
        with server.client() as c:
            if not is_allowed:
                c.refused("CLAIM", "w", "WAIT", n, "QUEUES", "q", name="BADARG", mentions="wait")
                continue
            c.send(pack("CLAIM", "w", "WAIT", n, "QUEUES", "q"))
            with server.client() as other:
                other("PING")
                job_id = other("ENQUEUE", "h", "x", "QUEUE", "q")
            equal(grants(c.read())[0].id, job_id)


@test("a claim hands out up to the limit in one go")
def _(folder):
    server = Server(folder)
    n = LIMIT["CLAIM_JOBS"]
    with server.client() as c:
        ids = c("ENQUEUEMANY", "JOBS", *["h", "x"] * (n + 1))
        got = claim(c, count=n)
        equal([g.id for g in got], ids[:n], "ids")
        equal(len(claim(c, count=n)), 1, "the rest")
        equal(len({g.token for g in got}), n, "tokens")


@test("the story of a job keeps as many events as the limit and counts those it dropped")
def _(folder):
    server = Server(folder)
    walked.add("EVENTS_KEPT")
    limit = LIMIT["EVENTS_KEPT"]
    with server.client() as c:
        job_id = c("ENQUEUE", "h", "x")
        for _ in range(limit):
            got = claim(c)[0]
            c("RELEASE", got.id, got.token)
        events = [mapping(e) for e in c("EVENTS", job_id)]
        expect(len(events) <= limit + 2, "%d events are told" % len(events))
        equal(text(events[0]["event"]), "created", "the first")
        equal(text(events[-1]["event"]), "released", "the last")
        dropped = [e for e in events if text(e["event"]) == "dropped"]
        equal(len(dropped), 1, "events that count the others")
        number = int(re.search(r"\d+", text(dropped[0]["message"])).group())
        kept = len(events) - 2
        equal(number + kept, 2 * limit, "dropped and kept together")
    server.kill()
    with Server(folder).client() as c:
        equal([mapping(e) for e in c("EVENTS", job_id)], events, "the story after a restart")


@test("as many queues as the limit can exist, and idle ones make room")
def _(folder):
    server = Server(folder)
    walked.add("QUEUES")
    limit = LIMIT["QUEUES"]
    with server.client(seconds=60) as c:
        done = 0
        while done < limit:
            batch = min(500, limit - done)
            c.send(b"".join(pack("ENQUEUE", "h", "x", "QUEUE", "q%d" % (done + i))
                            for i in range(batch)))
            for i in range(batch):
                reply = c.read()
                expect(isinstance(reply, int), "queue %d: %s" % (done + i, reply))
            done += batch
        c.refused("ENQUEUE", "h", "x", "QUEUE", "one-more", name="LIMIT", mentions="queues")
        c.refused("ENQUEUEMANY", "QUEUE", "one-more", "JOBS", "h", "x", name="LIMIT")
        c.refused("PAUSE", "one-more", name="LIMIT")
        c.refused("CLAIM", "w", "WAIT", "10", "QUEUES", "one-more", name="LIMIT")
        c("ENQUEUE", "h", "x", "QUEUE", "q7")
        for got in claim(c, "q0"):
            c("COMPLETE", got.id, got.token)
        until(lambda: not isinstance(c.ask("ENQUEUE", "h", "x", "QUEUE", "one-more"), WeirError),
              what="an idle queue made room")


@test("JSON may be nested up to the limit")
def _(folder):
    server = Server(folder)
    with server.web() as web:
        for n, is_allowed in around("JSON_DEPTH"):
            # The object of the body is the first level.
            args = b"[" * (n - 1) + b"]" * (n - 1)
            answer = web.ask("POST", "/v1/jobs", b'{"hook":"h","args":' + args + b"}")
            if is_allowed:
                expect(answer.status in (200, 201), "%d levels: %r" % (n, answer))
            else:
                check_problem(answer, (400, 413), ("SYNTAX", "BADARG", "TOOBIG"), "",
                              "%d levels" % n)
        answer = web.ask("POST", "/v1/jobs", b"[" * 500000)
        check_problem(answer, (400, 413), ("SYNTAX", "BADARG", "TOOBIG"), "", "a very deep body")
        equal(web.ask("GET", "/healthz").status, 200)


@test("a check takes metrics, cost and wait up to their limits")
def _(folder):
    config = """
target "shop" {
        kind = "command"
        command = {"echo", "1"}
        metric "load" { critical = {9, 8} threshold = 5 }
}
"""
    server = Server(folder, config=config)
    with server.client() as c:
        until(lambda: text(c("CHECK", "a", "METRICS", "load")[0]) == "granted", what="a sample")
        for n, is_allowed in around("CHECK_METRICS"):
            judge(c.ask("CHECK", "a", "METRICS", *["load"] * n), is_allowed, "TOOBIG", "metrics",
                  "%d metrics" % n)
        for n, is_allowed in around("CHECK_COST"):
            judge(c.ask("CHECK", "a", "COST", n), is_allowed, "BADARG", "cost", "cost %d" % n)
        for n, is_allowed in around("CHECK_WAIT_MS"):
            # A name of its own each: who asks again and waits is paced.
            judge(c.ask("CHECK", "w%d" % n, "WAIT", n), is_allowed, "BADARG", "wait",
                  "wait %d" % n)
        for n, is_allowed in around("LIST_CLIENTS"):
            judge(c.ask("CLIENTS", "LIMIT", n), is_allowed, "BADARG", "limit", "limit %d" % n)


@test("pages of actions and locks of a WordPress site are as large as their limits")
def _(folder):
    with Server(folder).client() as c:
        for name, words in (("SITE_ACTIONS", ("SITEACTIONS", "none", "LIMIT")),
                            ("SITE_LOCK_S", ("SITELOCK", "none", "key", "TTL"))):
            for n, is_allowed in around(name):
                reply = c.ask(*words, n)  # a value that is allowed gets as far as the missing site
                check_error(reply, "NOTFOUND" if is_allowed else "BADARG",
                            "none" if is_allowed else words[-1].lower(), "%s %d" % (name, n))


@test("pages and statements of a MySQL door are as large as their limits")
def _(folder):
    with Server(folder).client() as c:
        for name, words in (("PROXY_CLIENTS", ("PROXYCLIENTS", "none", "LIMIT")),
                            ("PROXY_STATEMENTS", ("PROXYTOP", "none", "LIMIT"))):
            for n, is_allowed in around(name):
                reply = c.ask(*words, n)  # a value that is allowed gets as far as the missing door
                check_error(reply, "NOTFOUND" if is_allowed else "BADARG",
                            "none" if is_allowed else "limit", "%s %d" % (name, n))
        for n, is_allowed in around("PROXY_SQL_BYTES"):
            check_error(c.ask("PROXYEXPLAIN", "none", "x" * n),
                        "NOTFOUND" if is_allowed else "TOOBIG",
                        "none" if is_allowed else "sql", "a statement of %d bytes" % n)


@test("the head of an HTTP request may be as long as the limit")
def _(folder):
    server = Server(folder)
    for n, is_allowed in around("HTTP_HEADER_BYTES"):
        with server.web() as web:
            head = web.head("GET", "/healthz", ["X-Fill: "])
            fill = b"f" * (n - len(head))
            web.send(head.replace(b"X-Fill: ", b"X-Fill: " + fill))
            answer = web.read()
            equal(answer.status, 200 if is_allowed else 431, "a head of %d bytes" % n)


@test("as many connections as the limit are served, and the next is told why not")
def _(folder):
    walked.add("CONNECTIONS")
    limit = LIMIT["CONNECTIONS"]
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    need = limit + 200
    if hard != resource.RLIM_INFINITY and hard < need:
        raise Skip("this machine allows %d open files" % hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, need), hard))
    server = Server(folder)
    clients = []
    try:
        for i in range(limit):
            c = server.client()
            if i % 500 == 0 or i > limit - 3:
                equal(c("PING"), "PONG", "connection %d" % i)
            clients.append(c)
        extra = server.client()
        check_error(extra.read(), "LIMIT", "connection", "one connection too many")
        expect(extra.is_closed(5), "it stays open")
        with server.web() as web:
            check_problem(web.read(), 503, "LIMIT", "connection", "over HTTP")
        equal(clients[0]("PING"), "PONG", "the first")
        clients.pop().close()

        def is_welcome():
            with server.client() as c:
                c.send(pack("PING"))
                return c.read() == "PONG"
        until(is_welcome, what="room for another")
    finally:
        for c in clients:
            c.close()


@test("answers past the output limit wait until the peer reads, and all of them come")
def _(folder):
    walked.add("OUTPUT_BYTES")
    server = Server(folder)
    with server.client(seconds=60) as c:
        job_id = c("ENQUEUE", "h", b"x" * 500000)
        n = 3 * LIMIT["OUTPUT_BYTES"] // 500000 + 20
        c.send(pack("JOB", job_id) * n)
        with server.client() as other:
            equal(other("PING"), "PONG")
        for _ in range(n):
            equal(len(mapping(c.read())["args"]), 500000, "args")


@test("a request begun and not finished, and output not taken, are cut after their time")
def _(folder):
    if not FULL:
        raise Skip("half a minute of waiting: --full")
    server = Server(folder)
    seconds = LIMIT["STALL_MS"] / 1000
    with server.client() as c, server.client() as idle, server.client() as lazy:
        c("ENQUEUE", "h", b"x" * 1000000)
        watch = Watch()
        c.send(b"*3\r\n$7\r\nENQ")
        lazy.send(pack("JOB", 1) * 40)
        expect(c.is_closed(seconds + 60), "half a request stays open")
        expect(watch.wall > seconds - 1, "cut after %.1f s" % watch.wall)
        watch.within(seconds + 5, "cutting half a request")

        def is_cut():
            return b"door=resp" not in idle("CLIENT", "LIST").replace(b"door=resp", b"", 1)
        until(is_cut, what="the peer that reads nothing is cut")
        equal(idle("PING"), "PONG", "a connection that asks for nothing")


@test("every row of the table of limits is walked")
def _(folder):
    elsewhere = {
        "PREAUTH_BYTES": "protocol_malformed.py",
        "PREAUTH_MS": "protocol_malformed.py",
        "TLS_HANDSHAKE_BYTES": "tls.py",
        "PREAUTH_CONNECTIONS": "tests/unit/test_strangers.c",
        "PREAUTH_ADDRESS": "crowds.py, tests/unit/test_strangers.c",
        "RESERVED_CONNECTIONS": "tests/unit/test_strangers.c",
        "ADDRESS_CONNECTIONS": "tests/unit/test_strangers.c",
        "TOKEN_FAILURES": "crowds.py, tests/unit/test_peer.c",
        "TOKEN_WAIT_MS": "tests/unit/test_strangers.c",
        "STALL_MS": "above, with --full",
        "RATE_LIMITS": "tests/unit/test_limit.c",
        "BREAKERS": "tests/unit/test_breaker.c",
        "LOCK_TTL_MIN_MS": "lock.py",
        "LOCK_TTL_MS": "lock.py",
        "LOCK_WAIT_MS": "lock.py",
        "LOCK_PLACES": "lock.py",
        "LOCKS": "lock.py",
        "LIST_LOCKS": "lock.py",
        "SCHEDULES": "tests/unit/test_schedule.c",
        "LIST_SCHEDULES": "schedule.py",
        "EVERY_MIN_MS": "schedule.py",
        "JITTER_MS": "schedule.py",
        "STOPAFTER": "schedule.py",
        "NEXT_RUNS": "schedule.py",
        "PAUSE_MS": "cli_throttle.bats",
        "SETTINGS": "tests/unit/test_throttle.c",
        "KEYMAX": "tests/unit/test_job_options.c",
        "AFTER": "tests/unit/test_job_options.c",
        "CAPS": "tests/unit/test_job_options.c",
        "BATCHES": "tests/unit/test_batch.c",
        "BATCH_JOBS": "tests/unit/test_batch.c",
        "BATCH_ARGS_BYTES": "tests/unit/test_batch.c",
        "LIST_BATCHES": "tests/unit/test_batch.c",
        "IDENTITY_PARTS": "tests/unit/test_identity.c",
        "IDENTITY_PART_BYTES": "tests/unit/test_identity.c",
        "RULES": "tests/unit/test_rule.c",
        "RULE_MS": "tests/unit/test_rule.c",
        "CLIENTS": "tests/unit/test_client.c",
        "LIVE": "tests/unit/test_stream.c",
        "TOKENS": "tests/unit/test_token.c",
        "OPERATOR_CONNECTIONS": "tests/unit/test_use.c",
        "ADDRESS_COMMANDS": "tests/unit/test_use.c",
        "ADDRESS_BYTES": "tests/unit/test_use.c",
        "TOKEN_CONNECTIONS": "tests/unit/test_use.c",
        "TOKEN_COMMANDS": "tests/unit/test_use.c",
        "TOKEN_BYTES": "tests/unit/test_use.c",
        "AUDIT_WAITING": "tests/unit/test_audit.c",
        "LIST_AUDIT": "tests/unit/test_audit.c",
        "LOGINS": "tests/unit/test_login.c",
        "LOGIN_FAILURES": "page_door.py",
        "SKIPPED_HOSTS": "tests/unit/test_host.c",
        "SITE_TIERS": "tests/unit/test_sites.c",
        "ANSWER_KEY_BYTES": "idempotency.py",
        "ANSWER_BYTES": "tests/unit/test_answer.c",
        "ANSWER_MS": "tests/unit/test_answer.c",
        "ANSWERS": "tests/unit/test_answer.c",
        "ANSWERS_BYTES": "tests/unit/test_answer.c",
    }
    missing = sorted(set(LIMIT) - walked - set(elsewhere))
    if any(not a.startswith("--") for a in sys.argv[1:]):
        return  # only some tests were asked for
    equal(missing, [], "limits that no test walks")


if __name__ == "__main__":
    main()
