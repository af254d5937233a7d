#!/usr/bin/python3
# weir-test: timeout=300 bin=release full
"""Listings and bulk commands where there are many jobs: 100,000 live ones and as many in history, a
million of each with --full.  Every filter is answered in time, with what is true, while another client
is served; and what was deleted stays deleted over a kill."""
import os
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "fault"))

from harness import (FULL, Server, Watch, equal, expect, main, mapping, stalled, test,  # noqa: E402
                     until)
from lib_many_jobs import build, cases, counts, fill  # noqa: E402

MANY = 1000000 if FULL else 100000
PAGE_MS = 200


def page(c, *words):
    """The ids of a page, its cursor, and the best of three times in ms; those of a busy machine do
    not count."""
    best = None
    for _ in range(3):
        watch = Watch()
        row = mapping(c("JOBS", *words))
        took = watch.wall * 1000 if watch.is_over(PAGE_MS / 1000) else min(
            watch.wall * 1000, PAGE_MS - 1)
        best = took if best is None else min(best, took)
    return [mapping(job)["id"] for job in row["jobs"]], row["cursor"], best


def info(c):
    lines = c("INFO", "server")
    lines = lines.decode() if isinstance(lines, bytes) else lines
    return dict(line.split(":", 1) for line in lines.splitlines() if ":" in line)


class Pinger(threading.Thread):
    """Another client, and the longest it waited for an answer."""

    def __init__(self, server):
        super().__init__(daemon=True)
        self.client, self.worst_ms, self.is_over = server.client(), 0, False

    def run(self):
        while not self.is_over:
            begin = time.monotonic()
            self.client("PING")
            self.worst_ms = max(self.worst_ms, (time.monotonic() - begin) * 1000)


@test("with many jobs each filter is answered in time and rightly, and others are served")
def _(folder):
    server = Server(folder)
    with server.client(seconds=120) as c:
        world = build(c, MANY)
        slow_before, stalled_before = int(info(c)["loop_slow_turns"]), stalled()
        pinger = Pinger(server)
        pinger.start()
        for words, wanted, cursor in cases(world):
            ids, got, ms = page(c, *words)
            # On a busy machine a page may end early.
            while got and (cursor == "" or len(ids) < len(wanted)):
                more, got, more_ms = page(c, *words, "CURSOR", got)
                more = more if cursor == "" else more[:len(wanted) - len(ids)]
                ids, ms = ids + more, max(ms, more_ms)
            equal(ids, wanted, "JOBS %s" % (words,))
            expect(ms < PAGE_MS, "JOBS %s took %.0f ms" % (words, ms))
            if os.environ.get("TIMES"):
                print("# %7.1f ms  JOBS %s" % (ms, " ".join(map(str, words))))
        pinger.is_over = True
        pinger.join()
        # A listing that holds the loop would do so in most of its turns, of which there are
        # hundreds here.  Every 5 ms in which others kept the machine busy may have made one slow.
        slow = int(info(c)["loop_slow_turns"]) - slow_before
        by_others = (stalled() - stalled_before) / 0.005
        expect(slow < 60 + by_others, "%d turns took more than 5 ms, %d of them because of others; "
               "another client waited for %.0f ms" % (slow, by_others, pinger.worst_ms))


@test("what was deleted in bulk is gone, stays gone over a kill, and nothing else is")
def _(folder):
    server = Server(folder)
    with server.client(seconds=120) as c:
        fill(c, 20000, "old", "archive")
        fill(c, 10000, "live", "work")
        equal(counts(c, "CANCELMANY", "QUEUE", "archive"), (20000, 20000))
        # Straight after it: most of them are still on their way into history.
        equal(counts(c, "DELETEMANY", "HOOK", "old.7"), (400, 400))
        equal(counts(c, "DELETEMANY", "HOOK", "live.7"), (0, 0))
        equal(counts(c, "RETIERMANY", "HOOK", "live.7", "SET", "high"), (200, 200))
        equal(counts(c, "RUNMANY", "QUEUE", "work"), (10000, 0))
        server.kill()
    server = Server(folder)
    with server.client(seconds=120) as c:
        until(lambda: counts(c, "DELETEMANY", "STATUS", "canceled", "DRYRUN") == (19600, 0),
              what="the rest of history")
        equal(page(c, "HOOK", "old.7")[0], [], "deleted jobs")
        equal(len(page(c, "TIER", "high", "LIMIT", 1000)[0]), 200, "retiered jobs")
        equal(mapping(c("JOBCOUNTS", "QUEUE", "work"))["pending"], 10000)


if __name__ == "__main__":
    main()
