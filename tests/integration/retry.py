#!/usr/bin/python3
# weir-test: timeout=300 long tsan outer=part
"""Jobs run again: over RESP, HTTP and the command line, out of a real history file, also when the
server is killed in the middle of it."""
import json
import os
import random
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "fault"))

from harness import (  # noqa: E402
    FULL, Closed, Server, WeirError, claim, equal, expect, history, job, job_list, main, mapping, pack,
    test, text, until, verify_history, weir)

SEED = int(os.environ.get("SEED", "5"))
QUEUES = 6  # side by side: a turn of a mill waits for history, which commits once a second


def fail_some(c, count, hook="h", queue="default"):
    """Makes jobs and fails them for good; returns their ids."""
    ids = []
    for begin in range(0, count, 500):
        n = min(500, count - begin)
        c("ENQUEUEMANY", "ATTEMPTS", 1, "QUEUE", queue, "JOBS", *[hook, "x"] * n)
        rows = claim(c, queue, count=n)
        c.send(b"".join(pack("FAIL", g.id, g.token, b"no route") for g in rows))
        for g in rows:
            equal(text(c.read()), "failed")
            ids.append(g.id)
    return sorted(ids)


def retry_many(c, *words):
    """All pages; the numbers of each."""
    pages, cursor = [], ""
    while True:
        page = mapping(c("RETRYMANY", *words, *(["CURSOR", cursor] if cursor else [])))
        pages.append(page["retried"])
        equal(page["skipped"], 0, "skipped")
        cursor = text(page["cursor"])
        if not cursor:
            return pages


def jobs_in(data, sql="SELECT id, run, status FROM jobs ORDER BY id"):
    verify_history(data)
    return history(data, sql)


def is_written(c):
    """Whether history has all that ended; it commits every three seconds."""
    return b"\r\nhistory_waiting_jobs:0\r\n" in c("INFO", "history")


@test("a failed job comes back from history, runs, and its row is that of the last run")
def _(folder):
    server = Server(folder)
    with server.client() as c:
        job_id = fail_some(c, 1)[0]
        equal(text(c("RETRY", job_id)), "pending")  # at once: it waits for history itself
        view = job(c, job_id)
        equal((text(view["status"]), view["attempt"], text(view["error"])),
              ("pending", 0, "no route"))
        got = claim(c)[0]
        equal((got.id, got.attempt), (job_id, 1))
        c.refused("RETRY", job_id, name="STATE", mentions=["in-progress"])
        c("COMPLETE", got.id, got.token, "well")
        until(lambda: is_written(c) and jobs_in(server.data) == [[str(job_id), "1", "complete"]],
              what="the row of the second run")
        c.refused("RETRY", job_id, name="STATE", mentions=["only with force"])
        equal(text(c("RETRY", job_id, "FORCE")), "pending")
        story = [text(mapping(e)["event"]) for e in c("EVENTS", job_id)]
        equal(story, ["created", "started", "failed", "retried", "started", "completed", "retried"])
        c.refused("RETRY", 999, name="NOTFOUND")
        c.refused("RETRY", "x", name="BADARG")


@test("HTTP does the same")
def _(folder):
    server = Server(folder)
    with server.client() as c, server.web() as web:
        a, b = fail_some(c, 2)

        def post(path, body=None):
            answer = web.ask("POST", path, body)
            return answer.status, answer.json

        equal(post("/v1/jobs/%d/retry" % a), (200, {"status": "pending"}))
        equal(post("/v1/jobs/retry", {"status": "failed"}),
              (200, {"retried": 1, "skipped": 0, "cursor": "", "matched": 1, "changed": 1}))
        equal(text(job(c, b)["status"]), "pending")
        late = c("ENQUEUE", "late", "x", "IN", 3600000, "QUEUE", "late")
        equal(post("/v1/jobs/%d/run" % late), (200, {"status": "pending"}))
        got = claim(c, "late")[0]
        c("COMPLETE", got.id, got.token, '"r"')
        until(lambda: is_written(c) and len(jobs_in(server.data)) == 3,
              what="the row of the job that ran now")
        equal(post("/v1/jobs/%d/retry" % late, {"force": False})[0], 409)
        equal(post("/v1/jobs/%d/run" % late)[0], 409)
        equal(post("/v1/jobs/%d/retry" % late, {"force": True})[0], 200)
        status, body = post("/v1/jobs/retry", {"status": "complete"})
        equal(status, 400)
        expect("failed" in str(body) and "canceled" in str(body), "what is allowed")
        equal(post("/v1/jobs/999/retry")[0], 404)


@test("2,500 failed jobs come back in pages, each once, and leave the dead-letter list")
def _(folder):
    server = Server(folder)
    with server.client() as c:
        ids = fail_some(c, 2500)
        equal(len(job_list(c, "STATUS", "failed", "LIMIT", 1000)), 2500)
        pages = retry_many(c, "LIMIT", 1000)
        equal(sum(pages), 2500)
        expect(max(pages) <= 1000 and len(pages) >= 3, "pages: %s" % pages)
        equal(job_list(c, "STATUS", "failed", "LIMIT", 1000), [])
        equal(sorted(row["id"] for row in job_list(c, "STATUS", "pending", "LIMIT", 1000)), ids)
        rows = [g for _ in range(3) for g in claim(c, count=1000)]
        equal(sorted(g.id for g in rows), ids)
        c.send(b"".join(pack("COMPLETE", g.id, g.token) for g in rows))
        for _ in rows:
            equal(c.read(), "OK")
        sql = "SELECT count(*), min(run), max(run), max(status) FROM jobs"
        until(lambda: is_written(c) and
              jobs_in(server.data, sql) == [["2500", "1", "1", "complete"]],
              what="a row for each, of the second run")


@test("long jobs that are named by their ids come back, however much they hold together")
def _(folder):
    server = Server(folder)
    args = b"a" * (1000 * 1000)
    with server.client() as c:
        ids = [c("ENQUEUE", "h", args, "ATTEMPTS", 1) for _ in range(70)]
        for _ in ids:
            g = claim(c)[0]
            equal(text(c("FAIL", g.id, g.token, "no")), "failed")
        page = mapping(c("RETRYMANY", "IDS", ",".join(str(i) for i in ids + [9999])))
        equal((page["retried"], page["skipped"], text(page["cursor"])), (70, 0, ""), "the answer")
        equal([claim(c)[0].args == args for _ in ids], [True] * 70, "what they hold")


@test("the command line retries by id and by filter, and says what it did")
def _(folder):
    server = Server(folder)
    url = ["--url", "weir://%s:%d" % server.resp]

    def cli(*words, code=0):
        done = weir("job", *words, *url)
        equal(done.returncode, code, "exit code of %s: %s%s" % (words, done.stdout, done.stderr))
        return done

    with server.client() as c:
        mail = fail_some(c, 3, "mail")
        other = fail_some(c, 2, "other")
        done = c("ENQUEUE", "late", "x", "IN", 3600000, "QUEUE", "late")
        equal(cli("retry", str(mail[0])).stdout, "job %d is pending\n" % mail[0])
        equal(json.loads(cli("retry", str(mail[1]), str(other[0]), "--json").stdout),
              {"jobs": [{"id": mail[1], "status": "pending"},
                        {"id": other[0], "status": "pending"}]})
        both = weir("job", "retry", "999", str(other[1]), *url)
        expect(both.returncode != 0 and "1 of 2" in both.stderr, both.stderr)
        equal(both.stdout, "job %d is pending\n" % other[1])
        equal(cli("retry", "--failed", "--hook", "none").stdout, "retried 0 jobs\n")
        equal(cli("retry", "--hook", "mail", "--match", "no route").stdout, "retried 1 job\n")
        equal(json.loads(cli("retry", "--all", "--json").stdout), {"retried": 0, "skipped": 0})
        equal(cli("run", str(done)).stdout, "job %d is pending\n" % done)
        equal(claim(c, "late")[0].id, done)
        for words in (["retry"], ["retry", "1", "--all"], ["retry", "--force"],
                      ["retry", "--all", "--canceled"], ["run"]):
            bad = weir("job", *words, *url)
            expect(bad.returncode != 0 and bad.stderr, "%s was taken" % words)


@test("a result goes when its time is over, the job stays")
def _(folder):
    server = Server(folder)
    with server.client() as c:
        c("ENQUEUE", "h", "x", "RESULTFOR", 1)
        got = claim(c)[0]
        c("COMPLETE", got.id, got.token, "short-lived")
        until(lambda: is_written(c) and len(jobs_in(server.data)) == 1, what="the row")
    equal(server.stop(), 0, "exit code")
    server = Server(folder)  # the first thing it does is to look for what is over
    with server.client() as c:
        until(lambda: job(c, got.id)["result"] is None, what="the end of the result")
        equal(text(job(c, got.id)["status"]), "complete")


def cancel_all(c, queue):
    """Ends what a dead worker holds and what waits, so that the next retry makes a new run."""
    for status in ("in-progress", "pending"):
        for row in job_list(c, "QUEUE", queue, "STATUS", status):
            c("CANCEL", row["id"])


class Mill(threading.Thread):
    """Ends all jobs of its queue, then retries each, until the server dies.  Of each job it knows
    the number of retries that were answered; the one under way when the server died may have
    happened too."""

    def __init__(self, server, queue, dice, retried):
        super().__init__(daemon=True)
        self.client, self.queue, self.dice = server.client(), queue, dice
        self.retried, self.asked, self.steps = retried, None, 0

    def run(self):
        c = self.client
        try:
            while True:
                for g in claim(c, self.queue, count=8, lease=86400000):
                    if self.dice.randrange(4):
                        c("FAIL", g.id, g.token, "no")
                    else:
                        c("COMPLETE", g.id, g.token)
                for job_id in list(self.retried):
                    self.asked = job_id
                    if not isinstance(c.ask("RETRY", job_id, "FORCE"), WeirError):
                        self.retried[job_id] += 1
                    self.asked = None
                self.steps += 1
        except (Closed, OSError, WeirError):
            pass


def kill_often(folder, cycles, steps_max):
    dice = random.Random(SEED)
    retried, maybe = {}, {}
    for cycle in range(cycles):
        server = Server(folder)
        with server.client() as c:
            if not cycle:
                for q in range(QUEUES):
                    ids = c("ENQUEUEMANY", "ATTEMPTS", 1, "QUEUE", "q%d" % q, "JOBS",
                            *["h", "x"] * 8)
                    retried[q] = {i: 0 for i in ids}
                    maybe[q] = {i: 0 for i in ids}
            for q in range(QUEUES):
                cancel_all(c, "q%d" % q)
        mills = [Mill(server, "q%d" % q, random.Random(dice.random()), retried[q])
                 for q in range(QUEUES)]
        goal = dice.randint(1, steps_max)
        for m in mills:
            m.start()
        until(lambda: all(m.steps >= goal for m in mills), 60, "some work")
        server.kill()
        for q, m in enumerate(mills):
            m.join(60)
            if m.asked:
                maybe[q][m.asked] += 1
    server = Server(folder)
    with server.client() as c:
        listed = [row["id"] for row in job_list(c, "LIMIT", 7)]
        equal(sorted(listed), sorted(i for q in retried for i in retried[q]), "jobs listed")
        for q in retried:
            cancel_all(c, "q%d" % q)
        until(lambda: not job_list(c, "STATUS", "pending") and not job_list(
            c, "STATUS", "in-progress"), what="the end of all jobs")
    equal(server.stop(), 0, "exit code")
    ends = {int(row[0]): int(row[1]) for row in jobs_in(server.data)}
    for q in retried:
        for job_id, n in retried[q].items():
            expect(n <= ends[job_id] <= n + maybe[q][job_id], "job %d has run %d: %d retries were "
                   "answered, %d were not" % (job_id, ends[job_id], n, maybe[q][job_id]))
            expect(n > 0, "job %d was never retried" % job_id)


@test("whenever the server is killed, every retry that was answered has happened, and once")
def _(folder):
    kill_often(folder, 2, 1)


@test("whenever the server is killed: kill after kill", outer=True)
def _(folder):
    kill_often(folder, 40 if FULL else 6, 4)


if __name__ == "__main__":
    main()
