#!/usr/bin/python3
# weir-test: timeout=120
"""History that cannot be written: work goes on, INFO, NOW and /metrics say since when and why, and
stop saying so when it can be written again."""
import os
import sqlite3
import time

from harness import (Server, claim, equal, expect, main, mapping, pack, status, test, text, until,
                     weir)

JOBS = 100


def info(c):
    lines = text(c("INFO", "history")).split("\r\n")
    return dict(line.split(":", 1) for line in lines if ":" in line)


def told(c):
    return mapping(mapping(c("NOW"))["history"])


def work(c, n=JOBS):
    """Adds, claims and completes so many jobs; the ids."""
    ids = [c("ENQUEUE", "h", "") for _ in range(n)]
    rows = claim(c, count=n, lease=600000)
    equal([r.id for r in rows], ids, "jobs handed out")
    c.send(b"".join(pack("COMPLETE", r.id, r.token) for r in rows))
    for _ in rows:
        equal(c.read(), "OK")
    return ids


def is_well(c):
    return info(c)["history_failing"] == "0" and info(c)["history_waiting_jobs"] == "0"


def check_trouble(server, c, before_ms, words):
    """All three say it, and jobs start and end all the same."""
    ids = work(c)
    until(lambda: info(c)["history_failing"] == "1", what="history_failing")
    got, now = info(c), told(c)
    expect(before_ms <= int(got["history_failing_since_ms"]) <= time.time() * 1000, "since: %s" % got)
    expect(words in got["history_problem"], got["history_problem"])
    equal(got["history_waiting_jobs"], str(JOBS), "history_waiting_jobs")
    equal(now["failing_since_ms"], int(got["history_failing_since_ms"]), "NOW's since")
    expect(words in text(now["problem"]), now)
    equal(now["waiting"], JOBS, "NOW's waiting")
    with server.web() as web:
        metrics = web.ask("GET", "/metrics").body
    expect(b"\nweir_history_failing 1\n" in metrics, "weir_history_failing")
    done = weir("doctor", "--url", "%s:%s" % server.resp, "--data", server.data)
    equal(done.returncode, 1, "doctor's exit code")
    expect("the server cannot write it, and %d finished jobs wait" % JOBS in done.stdout, done.stdout)
    more = work(c, 5)
    equal({status(c, i) for i in ids + more}, {"complete"}, "statuses")
    equal(info(c)["history_failing_since_ms"], got["history_failing_since_ms"], "since, later")


def check_end(c, n):
    until(lambda: is_well(c), what="history is written again")
    got = info(c)
    expect("history_problem" not in got and "history_failing_since_ms" not in got, got)
    equal(told(c), {"failing_since_ms": None, "problem": None, "waiting": 0}, "NOW's history")
    equal(int(got["history_row_jobs"]) + int(got["history_block_jobs"]), n, "jobs in history")
    equal(got["history_jobs"], str(n), "history_jobs")


@test("a history that another program holds locked is told of until it is let go")
def _(folder):
    server = Server(folder)
    with server.client() as c:
        before = int(time.time() * 1000)
        other = sqlite3.connect(os.path.join(server.data, "history.db"), isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        check_trouble(server, c, before, "locked")
        other.execute("ROLLBACK")
        other.close()
        check_end(c, JOBS + 5)
    equal(server.stop(), 0, "exit code")


@test("a history that is gone is told of until it is back")
def _(folder):
    server = Server(folder)
    path = os.path.join(server.data, "history.db")
    with server.client() as c:
        before = int(time.time() * 1000)
        os.rename(path, path + "-away")
        check_trouble(server, c, before, "history.db")
        os.rename(path + "-away", path)
        check_end(c, JOBS + 5)
    equal(server.stop(), 0, "exit code")


if __name__ == "__main__":
    main()
