#!/usr/bin/python3
# weir-test: timeout=300
"""A disk filled by jobs that were accepted: once they are complete there is room again, because what
history needs for them was kept free; and where another program took that room, an operator can
choose to let go of them."""
import os

from harness import (FULL, Server, WeirError, check_error, claim, equal, expect, main, mapping, pack,
                     status, test, text, until)
from lib_disk import Ballast, ext4_disk, small_disk

ARGS = b"x" * 4096
MANY = 200


def fill_up(c, queue="default"):
    """Jobs until one is refused for lack of space; how many."""
    n = 0
    words = [w for _ in range(MANY) for w in ("h", ARGS)]
    while True:
        reply = c.ask("ENQUEUEMANY", "QUEUE", queue, "JOBS", *words)
        if isinstance(reply, WeirError) and reply.name == "UNAVAIL":
            continue
        if isinstance(reply, WeirError):
            check_error(reply, "NOSPACE", ("space",), "ENQUEUE on a full disk")
            return n
        n += MANY
        expect(n < 1000000, "the disk never gets full")


def complete_all(c, n, queue="default"):
    while n:
        rows = claim(c, queue, count=1000, lease=600000)
        expect(rows, "%d jobs were accepted and are not handed out" % n)
        c.send(b"".join(pack("COMPLETE", r.id, r.token) for r in rows))
        for _ in rows:
            equal(c.read(), "OK")
        n -= len(rows)


def unstored(c):
    """Ended jobs that the log still holds."""
    return mapping(mapping(c("NOW"))["jobs"])["finished"]


def wait_until_taken(c, *words):
    until(lambda: not isinstance(c.ask("ENQUEUE", "again", ARGS, *words), WeirError), 60,
          "ENQUEUE after the jobs are complete")


@test("a disk filled by accepted jobs takes new ones when they are complete, all of them in history")
def _(folder):
    with ext4_disk(folder, 700 if FULL else 450) as place:
        server = Server(folder, data=os.path.join(place, "data"))
        with server.client(seconds=60) as c:
            for _ in range(2):
                before = c("ENQUEUE", "first", "")
                equal(c("CANCEL", before), "OK")
                n = fill_up(c)
                expect(n > 2000, "only %d jobs were accepted" % n)
                complete_all(c, n)
                until(lambda: unstored(c) == 0, 120, "all jobs are history")
                equal({status(c, before + 1), status(c, before + n)}, {"complete"}, "status")
                wait_until_taken(c, "QUEUE", "again")
        equal(server.stop(30), 0, "exit code")


def history(c):
    """INFO's section of that name."""
    lines = text(c("INFO", "history")).split("\r\n")
    return dict(line.split(":", 1) for line in lines if ":" in line)


def run_jobs(c, n, size):
    """Jobs that no compression makes smaller, from the first step to history."""
    words = [w for _ in range(n) for w in ("h", os.urandom(size))]
    c("ENQUEUEMANY", "QUEUE", "default", "JOBS", *words)
    complete_all(c, n)
    until(lambda: unstored(c) == 0, what="all jobs are history")


@test("what blocks reserve does not take the space of jobs that end one by one")
def _(folder):
    with small_disk(folder, 450) as place:
        server = Server(folder, data=os.path.join(place, "data"))
        with server.client(seconds=60) as c:
            run_jobs(c, 1, 10)
            ballast = Ballast(place)
            ballast.fill()
            ballast.leave((64 << 20) + 65536)  # a whole segment, and next to nothing
            run_jobs(c, 800, 2000)  # into blocks
            for _ in range(4):
                run_jobs(c, 20, 50000)  # too few for a block
            expect(int(history(c)["history_row_jobs"]) > 60, history(c))
            equal(history(c)["history_errors"], "0", "history_errors")
        equal(server.stop(30), 0, "exit code")


@test("history goes on in the space it has reserved when another program takes the rest")
def _(folder):
    with small_disk(folder, 450) as place:
        server = Server(folder, data=os.path.join(place, "data"))
        with server.client(seconds=60) as c:
            run_jobs(c, 800, 2000)
            words = [w for _ in range(30) for w in ("h", os.urandom(2000))]
            c("ENQUEUEMANY", "QUEUE", "default", "JOBS", *words)
            Ballast(place).fill()
            until(lambda: isinstance(c.ask("ENQUEUE", "h", ARGS), WeirError), what="NOSPACE")
            complete_all(c, 30)  # too few for a block where there is room
            until(lambda: unstored(c) == 0, 60, "all jobs are history")
            equal(history(c)["history_row_jobs"], "0", "history_row_jobs")
        equal(server.stop(30), 0, "exit code")


def fill_with_stuck_history(server, place, c):
    """All jobs complete, and another program has taken the room that history wants."""
    n = fill_up(c)
    ballast = Ballast(place)
    ballast.fill()
    complete_all(c, n)
    until(lambda: "cannot write" in server.log(), what="history is refused")
    return n, ballast


@test("HISTORY none lets go of finished jobs that history has no room for")
def _(folder):
    with small_disk(folder, 400) as place:
        server = Server(folder, data=os.path.join(place, "data"))
        with server.client(seconds=60) as c:
            fill_with_stuck_history(server, place, c)
            expect(unstored(c) > 0, "nothing waits for history")
            equal(c("QUEUESET", "default", "HISTORY", "none"), "OK")
            until(lambda: unstored(c) == 0, 60, "the finished jobs are let go of")
            wait_until_taken(c)
        server.kill()
        server = Server(folder, data=os.path.join(place, "data"))
        with server.client() as c:
            equal(unstored(c), 0, "jobs that were let go of and are back")


@test("a configuration that keeps nothing does the same after a restart")
def _(folder):
    with small_disk(folder, 400) as place:
        data = os.path.join(place, "data")
        server = Server(folder, data=data)
        with server.client(seconds=60) as c:
            fill_with_stuck_history(server, place, c)
        server.kill()
        server = Server(folder, data=data, config='history = "none"\n')
        with server.client(seconds=60) as c:
            until(lambda: unstored(c) == 0, 60, "the finished jobs are let go of")
            wait_until_taken(c)


@test("DELETEMANY deletes finished jobs that history has no room for, RETRY is refused at once")
def _(folder):
    with small_disk(folder, 400) as place:
        server = Server(folder, data=os.path.join(place, "data"))
        with server.client(seconds=60) as c:
            bad = c("ENQUEUE", "bad", "", "QUEUE", "bad", "ATTEMPTS", 1)
            n, ballast = fill_with_stuck_history(server, place, c)
            row = claim(c, "bad")[0]
            equal(text(c("FAIL", row.id, row.token, "no")), "failed")
            c.refused("RETRY", bad, name="NOSPACE")
            reply = c.ask("DELETEMANY", "STATUS", "complete", "QUEUE", "default")
            if isinstance(reply, WeirError):  # rows of history need room to be deleted
                check_error(reply, "NOSPACE", ("space",), "DELETEMANY")
            else:
                equal(mapping(reply)["changed"], n, "deleted")
            until(lambda: unstored(c) <= 1, 60, "the finished jobs are deleted")
            equal(status(c, bad), "failed")
            ballast.drop()
            wait_until_taken(c)
            until(lambda: not isinstance(c.ask("RETRY", bad), WeirError), what="RETRY")
            equal(status(c, bad), "pending")


if __name__ == "__main__":
    main()
