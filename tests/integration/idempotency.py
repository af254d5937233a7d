#!/usr/bin/python3
# weir-test: timeout=300 tsan
"""Idempotency keys through both doors: a request under a key is carried out once, and its first
answer comes again, over either door, after a restart and after kill -9 at any moment."""
import os
import random
import re
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "fault"))

from harness import (  # noqa: E402
    FULL, ROOT, Closed, Server, WeirError, check_error, check_problem, claim, dice_seed, equal, expect,
    grants, job_list, main, mapping, pack, short, test, text)

with open(os.path.join(ROOT, "src", "api", "limits.h")) as f:
    LIMIT = {name: int(value) for name, value in re.findall(r"X\((\w+),\s*(\d+),", f.read())}

JOB = {"hook": "mail", "args": {"to": 1}}
WORDS = ("ENQUEUE", "mail", '{"to": 1}')


def key(name):
    return ["Idempotency-Key: " + name]


def n_jobs(client):
    return len(job_list(client, "LIMIT", 1000))


@test("a POST with a key is carried out once, and repeated answers say that they are")
def _(folder):
    server = Server(folder)
    with server.web() as web, server.client() as c:
        first = web.ask("POST", "/v1/jobs", JOB, key("k1"))
        equal((first.status, first.json, first.header("location")),
              (201, {"id": 1}, "/v1/jobs/1"), "the first answer")
        equal(first.header("idempotent-replay"), None, "the first answer's header")
        for _ in range(3):
            again = web.ask("POST", "/v1/jobs", JOB, key("k1"))
            equal((again.status, again.body, again.header("location")),
                  (201, first.body, "/v1/jobs/1"), "the answer again")
            equal(again.header("idempotent-replay"), "true", "the header")
        many = web.ask("POST", "/v1/jobs", [JOB, dict(JOB, priority=3)], key("k2"))
        again = web.ask("POST", "/v1/jobs", [JOB, dict(JOB, priority=3)], key("k2"))
        equal((many.status, many.json), (201, {"ids": [2, 3]}), "many")
        equal((again.status, again.body), (201, many.body), "many again")
        check_problem(web.ask("POST", "/v1/jobs", [JOB, dict(JOB, priority=4)], key("k2")),
                      409, "STATE", "another request", "other options")
        equal(n_jobs(c), 3, "jobs")
        gone = web.ask("DELETE", "/v1/jobs/1", None, key("k3"))
        again = web.ask("DELETE", "/v1/jobs/1", None, key("k3"))
        equal((again.status, again.body), (gone.status, gone.body), "DELETE again")
        equal((gone.status, gone.json), (200, {"ok": True}), "DELETE")
        check_problem(web.ask("DELETE", "/v1/jobs/1"), 409, "STATE", "job 1", "without a key")
        equal(web.ask("POST", "/v1/jobs", JOB).json, {"id": 4}, "without a key")


@test("a key used for another request is refused, and nothing changes")
def _(folder):
    server = Server(folder)
    with server.web() as web, server.client() as c:
        equal(c("IDEMPOTENT", "k", *WORDS), 1)
        c.refused("IDEMPOTENT", "k", "ENQUEUE", "mail", "{}", name="STATE",
                  mentions="another request")
        c.refused("IDEMPOTENT", "k", *WORDS, "PRIORITY", 1, name="STATE")
        c.refused("IDEMPOTENT", "k", "PAUSE", "default", name="STATE")
        check_problem(web.ask("POST", "/v1/queues/default/pause", None, key("k")), 409, "STATE",
                      "another request", "over HTTP")
        equal(n_jobs(c), 1, "jobs")
        equal(c("IDEMPOTENT", "k", *WORDS), 1)


@test("an answer given over one door can be given again over the other, and in RESP2 and RESP3")
def _(folder):
    server = Server(folder)
    with server.web() as web, server.client() as c, server.client() as three:
        three("HELLO", 3)
        equal(c("IDEMPOTENT", "a", *WORDS), 1)
        again = web.ask("POST", "/v1/jobs", JOB, key("a"))
        equal((again.status, again.json, again.header("idempotent-replay")),
              (201, {"id": 1}, "true"), "RESP first")
        equal(web.ask("POST", "/v1/jobs", dict(JOB, queue="q"), key("b")).json, {"id": 2})
        equal(c("IDEMPOTENT", "b", *WORDS, "QUEUE", "q"), 2, "HTTP first")
        body = {"worker": "w", "queues": ["default", "q"], "max": 2}
        first = web.ask("POST", "/v1/claims", body, key("c"))
        rows = grants(c("IDEMPOTENT", "c", "CLAIM", "w", "MAX", 2, "QUEUES", "default", "q"))
        equal([(g.id, text(g.token), text(g.args)) for g in rows],
              [(j["id"], j["token"], '{"to": 1}') for j in first.json["jobs"]], "the claim")
        equal(three("IDEMPOTENT", "c", "CLAIM", "w", "MAX", 2, "QUEUES", "default", "q"),
              [list(row.values()) for row in rows], "the claim in RESP3")
        # A map: a flat list in RESP2, a map in RESP3, an object in JSON.
        two = c("IDEMPOTENT", "m", "RETRYMANY")
        equal(two, [b"retried", 0, b"skipped", 0, b"cursor", b"", b"matched", 0, b"changed", 0],
              "RESP2")
        equal(three("IDEMPOTENT", "m", "RETRYMANY"), mapping(two), "RESP3")
        equal(web.ask("POST", "/v1/jobs/retry", None, key("m")).json,
              {"retried": 0, "skipped": 0, "cursor": "", "matched": 0, "changed": 0}, "JSON")


@test("a key is known after a stop, after kill -9, and over the other door then")
def _(folder):
    server = Server(folder)
    with server.client() as c, server.web() as web:
        equal(c("IDEMPOTENT", "a", *WORDS), 1)
        taken = c("IDEMPOTENT", "b", "CLAIM", "w", "QUEUES", "default")
        posted = web.ask("POST", "/v1/jobs", JOB, key("c"))
    for end in (server.kill, None, None):
        if end:
            end()
        else:
            equal(server.stop(), 0, "exit code")
        server = Server(folder)
        with server.client() as c, server.web() as web:
            equal(c("IDEMPOTENT", "a", *WORDS), 1)
            equal(web.ask("POST", "/v1/jobs", JOB, key("a")).json, {"id": 1})
            equal(c("IDEMPOTENT", "b", "CLAIM", "w", "QUEUES", "default"), taken, "the claim")
            equal(web.ask("POST", "/v1/jobs", JOB, key("c")).body, posted.body, "the POST")
            c.refused("IDEMPOTENT", "a", "PAUSE", "q", name="STATE")
            equal(n_jobs(c), 2, "jobs")


@test("requests with one key in one write are one")
def _(folder):
    server = Server(folder)
    with server.client() as c, server.web() as web:
        c.send(pack("IDEMPOTENT", "k", *WORDS) * 50 + pack("PING"))
        equal([c.read() for _ in range(51)], [1] * 50 + ["PONG"], "answers")
        body = b'{"hook":"mail","args":{"to": 1}}'
        request = web.head("POST", "/v1/jobs", key("k2") + [
            "Content-Type: application/json", "Content-Length: %d" % len(body)]) + body
        web.send(request * 20)
        equal([web.read("POST").json["id"] for _ in range(20)], [2] * 20, "over HTTP")
        equal(n_jobs(c), 2, "jobs")


# What is wrong is said, nothing changes, the connection goes on.
WRONG = [
    (("IDEMPOTENT",), "SYNTAX", "IDEMPOTENT key COMMAND"),
    (("IDEMPOTENT", "k"), "SYNTAX", "IDEMPOTENT key COMMAND"),
    (("IDEMPOTENT", "k", "NOSUCH"), "UNKNOWN", "NOSUCH"),
    (("IDEMPOTENT", "k", "ENQUEU", "a", "b"), "UNKNOWN", "ENQUEUE"),
    (("IDEMPOTENT", "k", "IDEMPOTENT", "j", *WORDS), "BADARG", "IDEMPOTENT takes no"),
    (("IDEMPOTENT", "k", "PING"), "BADARG", "PING takes no"),
    (("IDEMPOTENT", "k", "HELLO", "3"), "BADARG", "HELLO takes no"),
    (("IDEMPOTENT", "k", "JOB", "1"), "BADARG", "JOB changes nothing"),
    (("IDEMPOTENT", "k", "JOBS"), "BADARG", "JOBS changes nothing"),
    (("IDEMPOTENT", "k", "QUEUES"), "BADARG", "QUEUES changes nothing"),
    (("IDEMPOTENT", "k", "ENQUEUE"), "SYNTAX", "ENQUEUE"),
    (("IDEMPOTENT", "k", "ENQUEUE", "h", "a", "PRIORITY", "x"), "BADARG", "priority"),
    (("IDEMPOTENT", "", *WORDS), "BADARG", "1 to 255 bytes"),
    (("IDEMPOTENT", "x" * 256, *WORDS), "TOOBIG", "1 to 255 bytes"),
    (("IDEMPOTENT", "k", "CANCEL", 99), "NOTFOUND", "99"),
    (("IDEMPOTENT", "k", "CLAIM", "w", "WAIT", 1000, "QUEUES", "q"), "BADARG", "cannot wait"),
    (("IDEMPOTENT", "k", "LOCK", "n", 1000, "WAIT", 1000), "BADARG", "cannot wait"),
]


@test("what cannot be is refused, changes nothing and leaves the key free")
def _(folder):
    server = Server(folder)
    with server.client() as c, server.web() as web:
        for words, name, mention in WRONG:
            check_error(c.ask(*words), name, mention, short(words))
        for what, method, path, body, headers, status, mention in (
                ("an empty key", "POST", "/v1/jobs", JOB, key(""), 400, "1 to 255"),
                ("a key too long", "POST", "/v1/jobs", JOB, key("x" * 256), 413, "1 to 255"),
                ("a GET", "GET", "/v1/queues", None, key("k"), 400, "changes nothing"),
                ("a wrong body", "POST", "/v1/jobs", {"args": 1}, key("k"), 400, "hook"),
                ("no such job", "DELETE", "/v1/jobs/99", None, key("k"), 404, "99"),
                ("WAIT", "POST", "/v1/claims", {"worker": "w", "queues": ["q"], "wait": 5},
                 key("k"), 400, "cannot wait")):
            check_problem(web.ask(method, path, body, headers), status, None, mention, what)
        equal(n_jobs(c), 0, "jobs")
        equal(c("IDEMPOTENT", "k", *WORDS), 1, "the key is free")
        equal(web.ask("GET", "/healthz", None, key("k")).status, 200, "a page")
    with server.web() as web:
        check_problem(web.ask("POST", "/v1/jobs", JOB, key("a") + key("b")), 400, "SYNTAX",
                      "twice", "two keys")


@test("a key is 1 to 255 bytes of any kind")
def _(folder):
    server = Server(folder)
    n = LIMIT["ANSWER_KEY_BYTES"]
    with server.client() as c, server.web() as web:
        for size in (n - 1, n):
            name = bytes(i % 256 for i in range(size))
            expected = c("IDEMPOTENT", name, *WORDS)
            equal(c("IDEMPOTENT", name, *WORDS), expected, "%d bytes" % size)
            name = "y" * size
            first = web.ask("POST", "/v1/jobs", JOB, key(name))
            equal(first.status, 201)
            equal(c("IDEMPOTENT", name, *WORDS), first.json["id"], "%d bytes over HTTP" % size)
        c.refused("IDEMPOTENT", b"\0" * (n + 1), *WORDS, name="TOOBIG", mentions="255")
        equal(n_jobs(c), 4, "jobs")


@test("a claim too large to be kept is made once, and who asks again is told so")
def _(folder):
    server = Server(folder)
    ask = ("CLAIM", "w", "MAX", 4, "QUEUES", "default")
    with server.client() as c:
        for _ in range(3):
            c("ENQUEUE", "h", b"x" * (LIMIT["ANSWER_BYTES"] // 3))
        equal(len(c("IDEMPOTENT", "k", *ask)), 3, "jobs in the first answer")
        c.refused("IDEMPOTENT", "k", *ask, name="STATE", mentions=("carried out", "not kept"))
        equal(claim(c), [], "jobs left")
        for _ in range(2):
            c("ENQUEUE", "h", b"x" * (LIMIT["ANSWER_BYTES"] // 3))
        kept = c("IDEMPOTENT", "j", *ask)
        equal(c("IDEMPOTENT", "j", *ask) == kept, True, "a smaller one")
    server.kill()
    server = Server(folder)
    with server.client() as c:
        c.refused("IDEMPOTENT", "k", *ask, name="STATE", mentions="carried out")
        equal(c("IDEMPOTENT", "j", *ask) == kept, True, "a smaller one")


@test("only who may ask is told anything about a key")
def _(folder):
    server = Server(folder, token="a-token-of-16-bytes-or-more")
    with server.client() as c, server.client() as stranger, server.web() as web:
        c("AUTH", "a-token-of-16-bytes-or-more")
        equal(c("IDEMPOTENT", "k", *WORDS), 1)
        stranger.refused("IDEMPOTENT", "k", *WORDS, name="NOAUTH")
        stranger.refused("IDEMPOTENT", "k", "PING", name="NOAUTH")
        web.token = None
        check_problem(web.ask("POST", "/v1/jobs", JOB, key("k")), 401, "NOAUTH", (), "no token")


@test("a lock, a take and a completion under a key are made once")
def _(folder):
    server = Server(folder)
    with server.client() as c:
        first = c("IDEMPOTENT", "lock", "LOCK", "name", 60000)
        equal(len(first), len(c("LOCK", "other", 60000)), "fields of a lock with and without a key")
        equal(c("IDEMPOTENT", "held", "LOCK", "name", 60000), None, "a lock that is held")
        equal(c("IDEMPOTENT", "lock", "LOCK", "name", 60000), first, "the lock")
        c("LIMIT", "lim", 10, 60000)
        taken = c("IDEMPOTENT", "take", "TAKE", "lim")
        equal(c("IDEMPOTENT", "take", "TAKE", "lim"), taken, "the take")
        expect(c("TAKE", "lim") != taken, "a take without a key counts")
        c("ENQUEUE", "h", "1")
        c("ENQUEUE", "h", "2")
        got = claim(c)[0]
        ask = ("COMPLETE", got.id, got.token, "r", "CLAIM", "w", "QUEUES", "default")
        jobs = c("IDEMPOTENT", "done", *ask)
        equal(grants(jobs)[0].args, b"2")
        equal(c("IDEMPOTENT", "done", *ask), jobs, "the completion")


@test("a job of history that is retried under a key is retried once")
def _(folder):
    server = Server(folder)
    with server.client() as c:
        job_id = c("ENQUEUE", "h", "1", "ATTEMPTS", 1)

        def fail():
            got = claim(c)
            equal([g.id for g in got], [job_id], "claimed")
            equal(c("FAIL", got[0].id, got[0].token, "bad"), b"failed")
        fail()
        equal(c("IDEMPOTENT", "again", "RETRY", job_id), b"pending")
        equal(c("IDEMPOTENT", "again", "RETRY", job_id), b"pending")
        fail()
        equal(c("IDEMPOTENT", "again", "RETRY", job_id), b"pending", "after it failed again")
        equal(claim(c), [], "jobs to run")
        equal(c("IDEMPOTENT", "other", "RETRY", job_id), b"pending")
        fail()


class Holder:
    """The server of the moment, which dies and comes back."""

    def __init__(self, folder):
        self.folder = folder
        self.lock = threading.Condition()
        self.server = Server(folder)
        self.is_over = False

    def crash(self):
        with self.lock:
            self.server.kill()
            self.server = Server(self.folder)
            self.lock.notify_all()

    def addresses(self):
        with self.lock:
            return self.server


def stubborn(holder, number, keys, seed, answers, wrong):
    """Asks for each key until it has an answer, and now and then again although it has one;
    drops its connection at random before reading."""
    dice = random.Random(seed)
    for name in keys:
        wanted = dice.choice((1, 1, 2, 3))
        while wanted:
            try:
                server = holder.addresses()
                if dice.random() < 0.5:
                    with server.client() as c:
                        c.send(pack("IDEMPOTENT", name, "ENQUEUE", "h", name))
                        if dice.random() < 0.3:
                            continue  # never reads what it is told
                        reply = c.read()
                        if isinstance(reply, WeirError):
                            wrong.append((number, name, str(reply)))
                            return
                else:
                    with server.web() as web:
                        reply = web.ask("POST", "/v1/jobs", b'{"hook":"h","args":%s}' %
                                        name.encode(), key(name))
                        if reply.status != 201:
                            wrong.append((number, name, repr(reply)))
                            return
                        reply = reply.json["id"]
                answers.setdefault(name, set()).add(reply)
                wanted -= 1
            except (Closed, OSError):
                pass  # it died under our hands: once more


@test("clients that ask again whenever a crash takes their answer make as many jobs as keys")
def _(folder):
    holder = Holder(folder)
    dice = random.Random(dice_seed())
    n_clients, n_keys, n_crashes = (8, 300, 60) if FULL else (6, 60, 12)
    answers, wrong, threads = {}, [], []
    for i in range(n_clients):
        # Neighbours share half of their keys: two clients may ask for one thing at once.
        keys = [str(1000000 + i * n_keys // 2 + k) for k in range(n_keys)]
        threads.append(threading.Thread(target=stubborn, daemon=True, args=(
            holder, i, keys, dice.random(), answers, wrong)))
    for t in threads:
        t.start()
    for _ in range(n_crashes):
        threads[dice.randrange(n_clients)].join(dice.random() * 0.15)
        holder.crash()
    for t in threads:
        t.join(120)
        expect(not t.is_alive(), "a client did not come to an end")
    equal(wrong, [], "refused")
    several = {name: ids for name, ids in answers.items() if len(ids) != 1}
    equal(several, {}, "keys with more than one answer")
    names = {str(1000000 + i * n_keys // 2 + k) for i in range(n_clients) for k in range(n_keys)}
    equal(set(answers), names, "keys answered")
    holder.crash()
    with holder.server.client() as c:
        jobs = {row["id"]: text(row["args"]) for row in job_list(c, "LIMIT", 1000)}
    equal(sorted(jobs.values()), sorted(names), "jobs made")
    equal({name: jobs[next(iter(ids))] for name, ids in answers.items()},
          {name: name for name in answers}, "what each answer names")


if __name__ == "__main__":
    main()
