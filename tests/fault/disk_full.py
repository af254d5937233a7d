#!/usr/bin/python3
# weir-test: timeout=300
"""No space left: new work is refused with its own error, accepted work can be finished, the server
can be killed and started, and takes new work again by itself when there is space."""
import os
import time

from harness import (FULL, Server, Watch, WeirError, check_error, claim, equal, expect, job_list,
                     main, status, test, text, until)
from lib_disk import Ballast, free_bytes, small_disk

BIG = 256 * 1024


def payload(number):
    return (b"%08d" % number) * (BIG // 8)


def fill_up(c, first=0):
    """Enqueues until refused; what was accepted as {id: number}."""
    accepted = {}
    number, deadline = first, None
    while True:
        reply = c.ask("ENQUEUE", "big", payload(number))
        if isinstance(reply, WeirError) and reply.name == "UNAVAIL":
            # More room is being made; that must end soon, one way or the other.
            deadline = deadline or time.monotonic() + 10
            expect(time.monotonic() < deadline, "for 10 s: %s" % reply)
            continue
        deadline = None
        if isinstance(reply, WeirError):
            check_error(reply, "NOSPACE", ("space",), "ENQUEUE on a full disk")
            return accepted
        accepted[reply] = number
        number += 1
        expect(number < 20000, "the disk never gets full")


def check_all(c, accepted):
    rows = {row["id"]: row for row in job_list(c, "LIMIT", 50)}
    for job_id, number in accepted.items():
        expect(job_id in rows, "job %d was accepted and is gone" % job_id)
        expect(rows[job_id]["args"] == payload(number), "job %d changed its payload" % job_id)


@test("a full disk refuses new work clearly, and accepted work can all be finished")
def _(folder):
    with small_disk(folder, 260) as place:
        server = Server(folder, data=os.path.join(place, "data"))
        with server.client() as c:
            accepted = fill_up(c)
            expect(len(accepted) > 20, "only %d jobs were accepted" % len(accepted))
            check_all(c, accepted)
            Ballast(place).fill()
            for job_id in accepted:
                rows = claim(c, lease=60000)
                equal(len(rows), 1, "jobs claimed")
                expect(rows[0].args == payload(accepted[rows[0].id]), "a payload changed")
                equal(c("COMPLETE", rows[0].id, rows[0].token, "done"), "OK")
            equal({status(c, i) for i in accepted}, {"complete"}, "statuses")
        equal(server.stop(), 0, "exit code")


@test("a server killed on a full disk starts again there, with everything it had accepted")
def _(folder):
    with small_disk(folder, 260) as place:
        data = os.path.join(place, "data")
        server = Server(folder, data=data)
        with server.client() as c:
            accepted = fill_up(c)
            held = claim(c, lease=600000)[0]
        ballast = Ballast(place)
        for how in ("kill", "stop", "kill", "kill") + (("kill", "stop") * 5 if FULL else ()):
            ballast.fill()
            equal(free_bytes(place) < 4096, True, "the disk is full")
            getattr(server, how)()
            server = Server(folder, data=data)
            with server.client() as c:
                check_all(c, accepted)
                c.refused("ENQUEUE", "big", payload(1), name="NOSPACE")
        with server.client() as c:
            equal(c("EXTEND", held.id, held.token, 600000), "OK")
            equal(c("PROGRESS", held.id, held.token, "half"), "OK")
            equal(text(c("FAIL", held.id, held.token, "no luck")), "pending")
            equal(c("CANCEL", held.id), "OK")
            equal(status(c, held.id), "canceled")


@test("whatever little space is left, a start works and nothing accepted is lost")
def _(folder):
    with small_disk(folder, 200) as place:
        data = os.path.join(place, "data")
        server = Server(folder, data=data)
        ballast = Ballast(place)
        with server.client() as c:
            small = [c("ENQUEUE", "small", b"%d" % i) for i in range(20)]
        for left in (0, 4096, 65536, 1 << 20) if not FULL else (
                0, 4096, 8192, 65536, 1 << 20, 5 << 20, 30 << 20, 60 << 20, 64 << 20, 70 << 20):
            ballast.fill()
            ballast.leave(left)
            server.kill()
            server = Server(folder, data=data)
            with server.client() as c:
                c.refused("JOB", 999999, name="NOTFOUND")
                row = claim(c, lease=60000)[0]
                # A large result may be refused for lack of space; a small one never is.
                reply = c.ask("COMPLETE", row.id, row.token, b"r" * 1000000)
                if isinstance(reply, WeirError):
                    check_error(reply, "NOSPACE", ("space",), "a large result")
                    equal(c("COMPLETE", row.id, row.token, "r"), "OK")
                equal(status(c, row.id), "complete")
                rows = {r["id"] for r in job_list(c, "LIMIT", 1000)}
                expect(set(small) <= rows, "lost %s" % sorted(set(small) - rows))


@test("when space returns, new work is taken again without a restart")
def _(folder):
    with small_disk(folder, 300) as place:
        server = Server(folder, data=os.path.join(place, "data"))
        ballast = Ballast(place)
        ballast.fill()
        with server.client() as c:
            accepted = fill_up(c)
            ballast.drop()
            watch = Watch()
            until(lambda: not isinstance(c.ask("ENQUEUE", "again", "x"), WeirError),
                  what="ENQUEUE after space returned")
            watch.within(5)
            check_all(c, accepted)


@test("work finished on a full disk makes room for new work")
def _(folder):
    with small_disk(folder, 300) as place:
        server = Server(folder, data=os.path.join(place, "data"))
        with server.client() as c:
            accepted = fill_up(c)
            for _ in accepted:
                row = claim(c, lease=60000)[0]
                c("COMPLETE", row.id, row.token)
            # History keeps the payloads too, so the place may stay full; cancel nothing, lose
            # nothing: either there is room now, or the refusal is still clear.
            reply = c.ask("ENQUEUE", "small", "x")
            if isinstance(reply, WeirError):
                check_error(reply, "NOSPACE", ("space",), "ENQUEUE")
            equal({status(c, i) for i in accepted}, {"complete"}, "statuses")
        equal(server.stop(), 0, "exit code")


if __name__ == "__main__":
    main()
