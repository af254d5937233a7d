#!/usr/bin/python3
# weir-test: timeout=300
"""Batches of a real server over RESP, HTTP and the command line.

What a batch tells is compared with what became of its jobs, one by one, after kill -9 at moments
of no particular choosing; callbacks are counted in the listing of all jobs.

    tests/integration/batch.py [--full] [word]
"""
import collections
import json
import os
import random
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "fault"))

from harness import (  # noqa: E402
    FULL, Closed, Resp, Server, Watch, WeirError, check_problem, claim, equal, expect, job_list,
    main, mapping, pack, test, text, until, weir)


def state(client, name):
    return mapping(client("BATCHSTATE", name))


def counts(client, name):
    s = state(client, name)
    return {key: s[key] for key in ("total", "left", "complete", "failed", "canceled")}


def status(client, name):
    return text(state(client, name)["status"])


@test("a batch lives through both doors")
def _(folder):
    server = Server(folder)
    with server.client() as c, server.web() as web:
        path = "/v1/batches/caf%C3%A9%20%2F7"
        made = web.ask("POST", path, {
            "title": "Import", "onsuccess": "good", "successargs": {"n": [1, 2]},
            "ondone": "over", "doneargs": "text", "queue": "calls", "priority": 3})
        equal((made.status, made.json), (200, {"ok": True}))
        check_problem(web.ask("POST", path, {}), 409, "CONFLICT", "café /7", "again")
        ids = web.ask("POST", "/v1/jobs", [{"hook": "h", "args": i, "batch": "café /7"}
                                           for i in range(3)]).json["ids"]
        equal(c("ENQUEUE", "h", "", "BATCH", "café /7"), ids[-1] + 1)
        got = web.ask("GET", path).json
        equal((got["name"], got["title"], got["status"], got["total"], got["left"]),
              ("café /7", "Import", "open", 4, 4))
        equal(got["onsuccess"], {"hook": "good", "args": {"n": [1, 2]}, "job": None})
        equal(web.ask("POST", path + "/close", {}).json, {"status": "closed"})
        check_problem(web.ask("POST", "/v1/jobs", {"hook": "h", "args": 1, "batch": "café /7"}),
                      409, "STATE", "closed", "a job too late")
        for grant in claim(c, count=4):
            equal(c("COMPLETE", grant.id, grant.token), "OK")
        got = web.ask("GET", path).json
        equal((got["status"], got["complete"], got["left"]), ("finished", 4, 0))
        expect(abs(got["finished_ms"] - time.time() * 1000) < 60000, "finished_ms is no time")
        calls = {g.hook: g for g in claim(c, "calls", count=5)}
        equal(sorted(calls), [b"good", b"over"])
        equal(json.loads(calls[b"good"].args), {"n": [1, 2]})
        equal((calls[b"good"].id, calls[b"good"].priority), (got["onsuccess"]["job"], 3))
        equal(web.ask("DELETE", path).json, {"ok": True})
        check_problem(web.ask("GET", path), 404, "NOTFOUND", "café /7", "removed")


@test("a failed or canceled job leaves only the callback for done")
def _(folder):
    server = Server(folder)
    with server.client() as c:
        for how in ("fail", "cancel", "expire"):
            c("BATCH", how, "ONSUCCESS", "good", "ONDONE", "over", "QUEUE", how)
            words = ["EXPIRES", 1, "IN", 60000] if how == "expire" else []
            first = c("ENQUEUE", "h", "", "BATCH", how, "ATTEMPTS", 1, *words)
            c("ENQUEUE", "h", "", "BATCH", how)
            equal(c("CLOSEBATCH", how), b"closed")
            if how == "cancel":
                c("CANCEL", first)
            for grant in claim(c, count=2):
                if how == "fail" and grant.id == first:
                    c("FAIL", grant.id, grant.token, "no")
                else:
                    c("COMPLETE", grant.id, grant.token)
            until(lambda h=how: status(c, h) == "finished", what=how)
            equal([g.hook for g in claim(c, how, count=5)], [b"over"], how)


@test("every parameter that is wrong gets a clear error and changes nothing")
def _(folder):
    server = Server(folder)
    with server.client() as c, server.web() as web:
        c("BATCH", "kept")
        c("ENQUEUE", "h", "", "BATCH", "kept")
        for body, mention in (
                ({"title": 5}, "title"), ({"onsuccess": ""}, "onsuccess"),
                ({"successargs": 1}, "successargs"), ({"ondone": "a\nb"}, "ondone"),
                ({"ondone": "h", "priority": 256}, "priority"), ({"priority": -1}, "priority"),
                ({"doneargs": {}}, "doneargs"), ({"donesignature": "k:1"}, "donesignature"),
                ({"no": 1}, "no")):
            check_problem(web.ask("POST", "/v1/batches/new", body), 400, ("BADARG", "SYNTAX"),
                          mention, repr(body))
        for n, fine in ((16383, True), (16384, True), (16385, False)):
            reply = c.ask("BATCH", "args%d" % n, "ONDONE", "h", "DONEARGS", "x" * n)
            equal(isinstance(reply, WeirError), not fine, "args of %d bytes" % n)
        for method, path, code, name in (
                ("POST", "/v1/batches/none/close", 404, "NOTFOUND"),
                ("POST", "/v1/batches/none/cancel", 404, "NOTFOUND"),
                ("DELETE", "/v1/batches/none", 404, "NOTFOUND"),
                ("GET", "/v1/batches/none", 404, "NOTFOUND"),
                ("DELETE", "/v1/batches/kept", 409, "STATE"),
                ("GET", "/v1/batches?limit=0", 400, "BADARG"),
                ("GET", "/v1/batches?limit=1001", 400, "BADARG")):
            body = {} if method == "POST" else None
            check_problem(web.ask(method, path, body), code, name, "", path)
        c.refused("ENQUEUE", "h", "", "BATCH", "none", name="NOTFOUND", mentions="none")
        # A request with one bad job counts nowhere.
        bad = [{"hook": "h", "args": 1, "batch": "kept"},
               {"hook": "h", "args": 1, "batch": "kept", "after": [10 ** 6]}]
        check_problem(web.ask("POST", "/v1/jobs", bad), 404, "NOTFOUND", "1000000", "bad after")
        equal(counts(c, "kept"), {"total": 1, "left": 1, "complete": 0, "failed": 0,
                                  "canceled": 0})
        names = [row["name"] for row in web.ask("GET", "/v1/batches").json["batches"]]
        equal(names, ["args16383", "args16384", "kept"])


# ---------------------------------------------------------------- kill -9


class Load(threading.Thread):
    """Adds jobs to batches and ends them; an answer that is lost is not asked for again."""

    def __init__(self, address, names, seed):
        super().__init__(daemon=True)
        self.address, self.names, self.dice = address, names, random.Random(seed)
        self.client, self.error = None, None
        self.is_over = threading.Event()

    def run(self):
        try:
            while not self.is_over.is_set():
                self.turn()
        except Exception as error:  # pylint: disable=broad-except
            self.error = error

    def ask(self, *words):
        try:
            if self.client is None:
                self.client = Resp(self.address())
            return self.client.ask(*words)
        except (Closed, OSError):
            self.client = None
            time.sleep(0.01)  # the server is away
            return None

    def turn(self):
        name = self.dice.choice(self.names)
        if self.dice.random() < 0.5:
            self.ask("ENQUEUEMANY", "BATCH", name, "ATTEMPTS", 1, "JOBS", *["h", "x"] * 3)
        for row in self.ask("CLAIM", "w", "MAX", 5, "QUEUES", "default") or []:
            if self.dice.random() < 0.9:
                self.ask("COMPLETE", row[0], row[1])
            else:
                self.ask("FAIL", row[0], row[1], "no")


def drain(client, names):
    """Ends all that is left; jobs whose claim was lost with its answer are canceled."""
    for name in names:
        client("CLOSEBATCH", name)
    while True:
        grants = claim(client, count=100)
        for grant in grants:
            client("COMPLETE", grant.id, grant.token)
        if not grants:
            break
    for row in job_list(client, "STATUS", "in-progress"):
        client("CANCEL", row.id)


def outcomes(jobs):
    """What became of the jobs of each batch."""
    found = collections.defaultdict(collections.Counter)
    for row in jobs:
        options = mapping(row.options)
        if "batch" in options:
            found[text(options["batch"])][text(row.status)] += 1
    return found


def check_batches(client, names):
    jobs = job_list(client)
    found = outcomes(jobs)
    calls = collections.Counter((row.hook, text(row.args)) for row in jobs if row.hook != b"h")
    for name in names:
        c, jobs_of = counts(client, name), found[name]
        equal(status(client, name), "finished", name)
        equal((c["complete"], c["failed"], c["canceled"]),
              (jobs_of["complete"], jobs_of["failed"], jobs_of["canceled"]), name)
        equal((c["total"], c["left"]), (sum(jobs_of.values()), 0), name)
        is_good = not c["failed"] and not c["canceled"]
        equal((calls[b"over", name], calls[b"good", name]), (1, int(is_good)), name)
    return sum(sum(jobs_of.values()) for jobs_of in found.values())


@test("counts and callbacks are exact over kill -9 of the server")
def _(folder):
    servers = [Server(folder)]
    names = ["b%d" % i for i in range(8)]
    seed = random.randrange(1 << 30)
    print("# seed %d" % seed)
    with servers[0].client() as c:
        for name in names:
            c("BATCH", name, "ONSUCCESS", "good", "SUCCESSARGS", name, "ONDONE", "over",
              "DONEARGS", name, "QUEUE", "calls")
    loads = [Load(lambda: servers[-1].resp, names, seed + i) for i in range(4)]
    for load in loads:
        load.start()
    for i in range(8 if FULL else 4):
        with servers[-1].client() as c:
            before = sum(counts(c, name)["total"] for name in names)
            until(lambda c=c, b=before: sum(counts(c, n)["total"] for n in names) > b + 150,
                  what="some jobs")
            if i == 2:  # some of them finish under load, some are canceled under load
                c("CLOSEBATCH", "b0")
                c.send(pack("CANCELBATCH", "b1"))
        servers[-1].kill()
        servers.append(Server(folder))
    for load in loads:
        load.is_over.set()
    for load in loads:
        load.join(30)
        expect(load.error is None, repr(load.error))
    with servers[-1].client() as c:
        drain(c, names)
        n = check_batches(c, names)
        print("# %d jobs" % n)
    servers[-1].kill()
    with Server(folder).client() as c:
        equal(check_batches(c, names), n)


@test("canceling 100,000 jobs lets others through and goes on after kill -9")
def _(folder):
    server = Server(folder)
    with server.client(seconds=120) as c:
        c("BATCH", "large", "ONDONE", "over", "QUEUE", "calls")
        for _ in range(10):
            c("ENQUEUEMANY", "BATCH", "large", "JOBS", *["h", ""] * 10000)
        running = claim(c, count=1)[0]
        with server.client() as other:
            watch = Watch()
            # How many answers come between two steps is a matter of the machine; that it is done in
            # steps is seen by one that tells of a part: it is asked for right behind the first step.
            c.send(pack("CANCELBATCH", "large") + pack("BATCHSTATE", "large"))
            equal(c.read(), 100000)
            watch.within(2, "the first step")
            seen, worst = [mapping(c.read())["left"]], 0.0
            while seen[-1] > 50000:
                watch = Watch()
                other("PING")
                watch.within(2, "PING")
                worst = max(worst, watch.wall)
                seen.append(counts(other, "large")["left"])
            print("# %d answers meanwhile, the slowest took %.0f ms" % (len(seen), worst * 1000))
            expect(any(0 < left < 100000 for left in seen), "left: %s" % seen)
            # Its worker is told; once the job is history there is no lease to speak of.
            other.refused("EXTEND", running.id, running.token, 60000, name=("CANCELED", "STATE"))
    server.kill()
    server = Server(folder)
    with server.client(seconds=60) as c:
        until(lambda: status(c, "large") == "finished", 60, "all canceled")
        equal(counts(c, "large"), {"total": 100000, "left": 0, "complete": 0, "failed": 0,
                                   "canceled": 100000})
        equal([g.hook for g in claim(c, "calls", count=5)], [b"over"])
        equal(claim(c), [])


# ---------------------------------------------------------------- the command line


@test("weir batch makes, lists, shows, closes, cancels and removes")
def _(folder):
    server = Server(folder)

    def run(*words, code=0):
        done = weir("batch", *words, "--url", "weir://%s:%d" % server.resp)
        equal(done.returncode, code, "exit code of %s (%s)" % (" ".join(words), done.stderr))
        return done.stdout if not code else done.stderr
    equal(run("add", "nightly", "--title", "All of it", "--on-success", "report",
              "--success-args", '{"x":1}', "--on-done", "tidy"), "made batch nightly\n")
    expect("already" in run("add", "nightly", code=5), "the name is taken")
    with server.client() as c:
        first = c("ENQUEUE", "h", "", "BATCH", "nightly")
        c("ENQUEUE", "h", "", "BATCH", "nightly", "IN", 60000)
        grant = claim(c)[0]
        equal(c("COMPLETE", first, grant.token), "OK")
    listed = run("list").splitlines()
    expect(listed[0].split()[:3] == ["BATCH", "STATUS", "TOTAL"], listed[0])
    equal(listed[1].split()[:7], ["nightly", "open", "2", "1", "1", "0", "0"])
    shown = run("show", "nightly")
    for part in ("All of it", "2: 1 left, 1 complete, 0 failed, 0 canceled", 'report {"x":1}'):
        expect(part in shown, "%r does not hold %r" % (shown, part))
    equal(run("close", "nightly"), "closed batch nightly\n")
    expect("not ended" in run("remove", "nightly", code=5), "it has a job")
    equal(run("cancel", "nightly"), "canceled batch nightly: 1 job\n")
    got = json.loads(run("show", "nightly", "--json"))
    equal((got["status"], got["complete"], got["canceled"]), ("finished", 1, 1))
    expect(got["onsuccess"]["job"] is None and got["ondone"]["job"], "callbacks: %r" % got)
    equal(json.loads(run("list", "--json"))["batches"][0]["name"], "nightly")
    equal(run("remove", "nightly"), "removed batch nightly\n")
    run("show", "nightly", code=4)
    equal(run("add", "empty", "--json"), '"OK"\n')
    equal(json.loads(run("close", "empty", "--json")), {"status": "finished"})


if __name__ == "__main__":
    main()
