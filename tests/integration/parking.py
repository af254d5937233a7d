#!/usr/bin/python3
# weir-test: timeout=180 long
"""Jobs that a real MariaDB under load makes wait: a change of tier reaches them while they are parked,
only time that really passed counts as waiting, EXPIRES is no way around the gate."""
import os
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from lib_databases import probed_maria as database, write_config  # noqa: E402
from harness import (  # noqa: E402
    Server, claim, equal, expect, main, mapping, test, text, until, weir)


def serve(folder):
    os.makedirs(folder, exist_ok=True)
    return Server(folder, "-c", write_config(folder, """
throttle {
        mode = "enforce"
        ramp_cycles = 1
        ramp_cycle = "100ms"
        max_deferral = "100s"
        level "critical" { delays = {"0s", "60s", "60s", "60s"} }
}
target "shop" {
        kind = "mysql" host = "127.0.0.1" port = %d user = "weir" password_file = "SECRET"
        interval = "100ms" timeout = "1s" dwell = "300ms"
        metric "threads_running" { elevated = {15, 10} critical = {15, 10} }
}""" % database().port))


def status(server):
    with server.web() as w:
        return w.good("GET", "/v1/throttle")


def reaches(server, level):
    until(lambda: status(server)["level"] == level, what="level " + level)


def storm():
    return database().load(30, "SELECT SLEEP(120)")


def parked(server, tier):
    return {t["tier"]: t["parked"] for t in status(server)["tiers"]}[tier]


def job(server, number):
    with server.web() as w:
        return w.good("GET", "/v1/jobs/%d" % number)


def events(c, number):
    return [mapping(e) for e in c("EVENTS", number)]


def told(c, number):
    return " | ".join("%s: %s" % (text(e["event"]), text(e["message"])) for e in events(c, number))


def url(server):
    return "redis://%s:%d" % server.resp


@test("a hook that becomes critical in a storm runs at once, parked or not")
def raised(folder):
    server = serve(folder)
    reaches(server, "normal")
    with server.client() as c, storm():
        reaches(server, "critical")
        pay = c("ENQUEUE", "acme_pay", "1")
        sync = c("ENQUEUE", "other_sync", "1")
        equal(claim(c, count=5), [], "what may run in a storm")
        equal(parked(server, "normal"), 2, "parked jobs")
        done = weir("registry", "set", "acme_*", "critical", "--url", url(server))
        equal(done.returncode, 0, text(done.stderr))
        equal([g.id for g in claim(c, count=5)], [pay], "what may run now")
        expect("tier critical need not wait" in told(c, pay), told(c, pay))
        equal(parked(server, "normal"), 1, "parked jobs")
        c("RETIER", sync, "critical")
        equal([g.id for g in claim(c, count=5)], [sync], "what may run now")
        equal(status(server)["level"], "critical", "the level all the while")
    server.stop()


@test("a delay that is set to nothing in a storm lets go of what waits")
def matrix(folder):
    server = serve(folder)
    reaches(server, "normal")
    with server.client() as c, storm():
        reaches(server, "critical")
        number = c("ENQUEUE", "anything", "1")
        equal(claim(c), [], "what may run in a storm")
        c("SETTINGSET", "throttle.delay.critical.normal", "0s")
        equal([g.id for g in claim(c)], [number], "what may run now")
    server.stop()


@test("storm after storm a job waits for as long as it really waits")
def real_time(folder):
    server = serve(folder)
    reaches(server, "normal")
    with server.client() as c:
        number = c("ENQUEUE", "anything", "1")
        began = time.monotonic()
        for _ in range(4):  # planned were 60 s and 40 s: the third storm would hand it out
            with storm():
                reaches(server, "critical")
                equal(claim(c), [], "what may run in a storm")
            reaches(server, "normal")
            until(lambda: mapping(c("JOBCOUNTS"))["ready"] == 1, what="the ramp to bring it back")
        passed_ms = (time.monotonic() - began) * 1000
        server.stop()
    server = serve(folder)  # the log says the same
    with server.client() as c:
        reaches(server, "normal")
        equal([g.id for g in claim(c)], [number], "the job after all storms")
        waited_ms = job(server, number)["options"]["deferred_ms"]
        expect(0 < waited_ms <= passed_ms, "%d ms of %d" % (waited_ms, passed_ms))
        equal(told(c, number).count("deferred: critical load on shop"), 4, told(c, number))
        equal(told(c, number).count("returning: let go by the ramp"), 4, told(c, number))
    server.stop()


@test("a job that expires waits in a storm and starts just before its end")
def expires(folder):
    server = serve(folder)
    reaches(server, "normal")
    with server.client() as c, storm():
        reaches(server, "critical")
        number = c("ENQUEUE", "klaviyo_sync", "1", "EXPIRES", 20000)
        equal(claim(c), [], "what may run at once")
        until(lambda: claim(c, wait=2000), what="the job to start")
        expect(" and then starts, " in told(c, number), told(c, number))
        created, deferred, started = (e["at_ms"] for e in events(c, number))
        expect(started - deferred >= 0.9 * (created + 20000 - deferred) - 50, told(c, number))
        equal(status(server)["level"], "critical", "the level all the while")
    server.stop()


if __name__ == "__main__":
    main()
