#!/usr/bin/python3
# weir-test: timeout=300
"""Time: leases and delays run on a clock that nobody can set, also over restarts."""
import glob
import os
import time

from harness import (FULL, Server, Skip, Watch, claim, equal, expect, job, main, pack, test, text,
                     until)


class FakeClock:
    """A wall clock that jumps while the server runs; the steady clocks stay real."""

    def __init__(self, folder):
        libs = glob.glob("/usr/lib/*/faketime/libfaketimeMT.so.1")
        if not libs:
            raise Skip("libfaketime is not installed (package faketime)")
        self.path = os.path.join(folder, "faketime")
        self.jump("+0")
        self.env = {"LD_PRELOAD": libs[0], "FAKETIME_TIMESTAMP_FILE": self.path,
                    "FAKETIME_NO_CACHE": "1", "FAKETIME_DONT_FAKE_MONOTONIC": "1",
                    "DONT_FAKE_MONOTONIC": "1"}

    def jump(self, offset):
        with open(self.path + ".new", "w") as f:
            f.write(offset + "\n")
        os.rename(self.path + ".new", self.path)


def wall_of(c):
    """The server's wall clock, through the creation time of a job."""
    job_id = c("ENQUEUE", "clock", "", "QUEUE", "clock")
    at = job(c, job_id)["created_ms"]
    c("CANCEL", job_id)
    return at / 1000.0


@test("a jump of the wall clock ends no lease early and keeps none longer")
def _(folder):
    clock = FakeClock(folder)
    server = Server(folder, env=clock.env)
    with server.client() as c:
        real = time.time()
        expect(abs(wall_of(c) - real) < 60, "the clocks differ before any jump")
        for offset in ("+3650d", "-3650d", "+1d", "-1d") if FULL else ("+3650d", "-3650d"):
            job_id = c("ENQUEUE", "hook", "args", "ATTEMPTS", 5)
            watch = Watch()
            held = claim(c, lease=1500)[0]
            clock.jump(offset)
            days = int(offset[:-1])
            expect(abs(wall_of(c) - (time.time() + days * 86400)) < 60, "the jump was not seen")
            mine = c.ask("PROGRESS", held.id, held.token, "still mine")
            expect(mine == "OK" or watch.wall >= 1.5, "%r after %.3f s" % (mine, watch.wall))
            # The next holder is served when the lease ends: not before, and soon after.
            again = claim(c, wait=100000, lease=600000)
            expect(watch.wall >= 1.5, "the lease ended after %.3f s of 1.5" % watch.wall)
            watch.within(2.5, "the lease of 1.5 s")
            equal([g.id for g in again], [job_id], "claimed after the lease ended")
            c("COMPLETE", again[0].id, again[0].token)


@test("a delay in milliseconds is the same whatever the wall clock does")
def _(folder):
    clock = FakeClock(folder)
    server = Server(folder, env=clock.env)
    with server.client() as c:
        for offset in ("+365d", "-365d", "+0"):
            watch = Watch()
            c("ENQUEUE", "hook", "args", "IN", 800)
            clock.jump(offset)
            wall_of(c)
            got = claim(c, wait=100000)
            expect(watch.wall >= 0.8, "due after %.3f s of 0.8, jump %s" % (watch.wall, offset))
            watch.within(1.8, "a delay of 0.8 s with a jump of %s" % offset)
            equal(len(got), 1, "jobs")
            c("COMPLETE", got[0].id, got[0].token)


@test("a time of day follows the wall clock")
def _(folder):
    clock = FakeClock(folder)
    server = Server(folder, env=clock.env)
    with server.client() as c:
        job_id = c("ENQUEUE", "hook", "args", "AT", int((time.time() + 3600) * 1000))
        equal(claim(c), [], "claimed an hour early")
        clock.jump("+2h")
        until(lambda: [g.id for g in claim(c)] == [job_id], what="due after the jump")


def restart_twice(folder, lease_ms):
    """Holds a lease over two restarts.  None when they took longer than the lease: then nothing can
    be said about it."""
    server = Server(folder)
    with server.client() as c:
        job_id = c("ENQUEUE", "hook", "args", "ATTEMPTS", 9)
        watch = Watch()
        held = claim(c, lease=lease_ms)[0]
    for _ in range(2):
        server.kill()
        server = Server(folder)
        with server.client() as c:
            others, mine = claim(c), c.ask("PROGRESS", held.id, held.token, "mine")
            if watch.wall >= lease_ms / 1000:
                return None
            equal(others, [], "a second holder during the lease")
            equal(mine, "OK", "the progress of the holder")
    return server, watch, job_id, held


@test("a lease lasts at least its full time over a restart")
def _(folder):
    for lease_ms in (1200, 4800, 19200, 76800):
        place = os.path.join(folder, str(lease_ms))
        os.mkdir(place)
        found = restart_twice(place, lease_ms)
        if found:
            break
    expect(found, "two restarts take more than %d ms" % lease_ms)
    server, watch, job_id, held = found
    lease_s = lease_ms / 1000
    with server.client() as c:
        again = claim(c, wait=100000)
        expect(watch.wall >= lease_s, "the lease ended after %.3f s of %s" % (watch.wall, lease_s))
        watch.within(lease_s + 2.8, "the lease of %s s" % lease_s)
        equal([g.id for g in again], [job_id], "claimed after the lease")
        expect(again[0].fence > held.fence, "the fence did not grow")
        c.refused("COMPLETE", held.id, held.token, name="NOTOWNER")
        equal(again[0].attempt, 2, "attempt")


@test("the last holder may complete late, after a restart as well, while nobody was granted it")
def _(folder):
    server = Server(folder)
    with server.client() as c:
        job_id = c("ENQUEUE", "hook", "args", "ATTEMPTS", 3)
        held = claim(c, lease=150)[0]
        until(lambda: text(job(c, job_id)["status"]) == "pending", what="the lease ended")
    server.kill()
    server = Server(folder)
    with server.client() as c:
        equal(c("COMPLETE", held.id, held.token, "late but done"), "OK")
        equal(text(job(c, job_id)["status"]), "complete")
        equal(claim(c), [], "jobs")


@test("a delayed job falls due over a restart")
def _(folder):
    server = Server(folder)
    with server.client() as c:
        job_id = c("ENQUEUE", "hook", "args", "IN", 600)
    server.kill()
    server = Server(folder)
    with server.client() as c:
        equal([g.id for g in claim(c, wait=100000)], [job_id], "jobs")


@test("a frozen server gives no job to two holders when it goes on")
def _(folder):
    import signal
    server = Server(folder)
    with server.client() as a, server.client() as b:
        a("ENQUEUE", "hook", "args", "ATTEMPTS", 9)
        held = claim(a, lease=300)[0]
        server.process.send_signal(signal.SIGSTOP)
        # Both want it, and both are heard in the same turn after the freeze.
        a.send(pack("COMPLETE", held.id, held.token))
        b.send(pack("CLAIM", "other", "QUEUES", "default"))
        deadline = time.monotonic() + 0.5
        until(lambda: time.monotonic() > deadline)
        server.process.send_signal(signal.SIGCONT)
        done, got = a.read(), b.read()
        if done == "OK":
            equal(got, [], "granted although it was completed")
        else:
            equal(len(got), 1, "neither completed nor granted")


if __name__ == "__main__":
    main()
