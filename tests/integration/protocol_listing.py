#!/usr/bin/python3
# weir-test: timeout=200 tsan outer=part
"""Live and archived jobs are one list: nothing missing, nothing twice, newest first, while jobs
move from one to the other under the reader's eyes."""
import os
import random
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "fault"))

from harness import (  # noqa: E402
    Server, claim, equal, expect, job_list, main, mapping, pack, test)

SEED = int(os.environ.get("SEED", "3"))


class Workers(threading.Thread):
    """Completes, fails, cancels and adds jobs, some thousand of them."""

    def __init__(self, server):
        super().__init__(daemon=True)
        self.client, self.error = server.client(), None

    def run(self):
        c = self.client
        try:
            for _ in range(80):
                c.send(b"".join(pack("ENQUEUE", "new", b"x" * 100, "ATTEMPTS", 1)
                                for _ in range(20)))
                ids = [c.read() for _ in range(20)]
                rows = claim(c, count=20)
                c.send(pack("CANCEL", ids[-1]) + b"".join(
                    pack("COMPLETE", g.id, g.token, b"r") if g.id % 3 else
                    pack("FAIL", g.id, g.token, b"no") for g in rows))
                for _ in range(len(rows) + 1):
                    c.read()
        except Exception as error:
            self.error = error


@test("paging while jobs end shows every job that was there, once, newest first")
def _(folder):
    server = Server(folder)
    dice = random.Random(SEED)
    with server.client() as c:
        first = c("ENQUEUEMANY", "JOBS", *["old", "x" * 50] * 2000)
        workers = [Workers(server) for _ in range(2)]
        for w in workers:
            w.start()
        rounds = 0
        while any(w.is_alive() for w in workers) or rounds < 3:
            rounds += 1
            top = c("ENQUEUE", "top", "y")
            rows = job_list(c, "LIMIT", dice.choice((60, 333, 1000)))
            ids = [row["id"] for row in rows]
            equal(ids, sorted(set(ids), reverse=True), "ids, newest first")
            missing = set(range(first[0], top + 1)) - set(ids)
            expect(not missing, "%d jobs are not listed, e.g. %s" % (
                len(missing), sorted(missing)[:5]))
        for w in workers:
            w.join(120)
            expect(w.error is None, "a worker: %r" % w.error)


@test("pages of large jobs end early, and the cursor leads to the rest")
def _(folder):
    server = Server(folder)
    with server.client(seconds=60) as c:
        ids = [c("ENQUEUE", "big", b"%d" % i + b"x" * 200000) for i in range(100)]
        for g in claim(c, count=40):
            c("COMPLETE", g.id, g.token, b"r" * 100000)
        equal([row["id"] for row in job_list(c, "LIMIT", 1000)], ids[::-1], "ids")
        equal([row["id"] for row in job_list(c, "LIMIT", 1000, "STATUS", "complete")],
              ids[39::-1], "complete ones")


def search(folder, n):
    server = Server(folder)
    with server.client(seconds=60) as c:
        needles = {}
        for queue in ("done", "live"):
            needles[queue] = c("ENQUEUE", "rare", "needle in " + queue, "QUEUE", queue,
                               "PRIORITY", 0)
            for _ in range(n // 1000):
                c("ENQUEUEMANY", "QUEUE", queue, "JOBS", *["hay", "straw"] * 1000)
        left = n + 1
        while left:
            rows = claim(c, "done", count=1000)
            c.send(b"".join(pack("COMPLETE", g.id, g.token) for g in rows))
            for _ in rows:
                equal(c.read(), "OK")
            left -= len(rows)
        for words, wanted in ((("MATCH", "needle"), ["live", "done"]), (("HOOK", "rare"),
                                                                         ["live", "done"]),
                              (("MATCH", "needle in done"), ["done"]),
                              (("MATCH", "needle", "STATUS", "pending"), ["live"]),
                              (("MATCH", "needle", "STATUS", "complete", "QUEUE", "done"),
                               ["done"]), (("MATCH", "NEEDLE that is not there"), [])):
            equal([row["id"] for row in job_list(c, "LIMIT", 10, *words)],
                  [needles[w] for w in wanted], " ".join(words))
        page = mapping(c("JOBS", "LIMIT", 1, "CURSOR", str(needles["done"])))
        equal((page["jobs"], page["cursor"]), ([], b""), "below the first job")


@test("a search finds the one job among many, live and archived")
def _(folder):
    search(folder, 9000)  # two windows of history and a bit


@test("a search finds the one job among very many, live and archived", outer=True)
def _(folder):
    search(folder, 30000)


if __name__ == "__main__":
    main()
