#!/usr/bin/python3
# weir-test: timeout=300 long
"""A real MariaDB that hangs while weir restarts: what was last known of it holds, by tier, until
a first sample comes.  Nothing deferrable starts before."""
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from lib_databases import probed_maria as database, write_config  # noqa: E402
from harness import Server, claim, equal, expect, main, mapping, test, text, until, weir  # noqa: E402

SYNC, PAYMENT = "klaviyo_sync", "woocommerce_payment_webhook"
JOBS = 340

CONFIG = """
throttle {
        mode = "enforce"
        ramp_cycles = 1
        ramp_cycle = "1s"
}
target "shop" {
        kind = "mysql" host = "127.0.0.1" port = %d user = "weir" password_file = "SECRET"
        interval = "200ms" dwell = "1s"
        metric "threads_running" { elevated = {5, 3} critical = {15, 10} }
}"""


def serve(folder, more=""):
    return Server(folder, "-c", write_config(folder, CONFIG % database().port + more))


def status(server):
    with server.web() as w:
        return w.good("GET", "/v1/throttle")


def target(server, name="shop"):
    return next(t for t in status(server)["targets"] if t["name"] == name)


def reaches(server, level):
    until(lambda: target(server)["level"] == level, 20, "level " + level)


def started(client, count=JOBS):
    """Jobs that a worker with an open hand gets until nothing comes any more."""
    ids = []
    while True:
        got = claim(client, count=100)
        if not got:
            return ids
        for grant in got:
            client("COMPLETE", grant.id, grant.token)
            ids.append(grant.id)
        expect(len(ids) <= count + 100, "more than there are")


def add(client, hook, n):
    return [client("ENQUEUE", hook, "{}") for _ in range(n)]


def fails_to_measure(server):
    """The probe has tried and given up: from here on everything was decided without a sample."""
    until(lambda: target(server)["error"], 30, "a try that failed")
    equal(target(server)["measured"], False, "measured")


@test("a database that hangs through a restart lets no deferrable job start before a sample comes")
def hangs_when_calm(folder):
    server = serve(folder)
    reaches(server, "normal")
    server.stop()
    database().pause()
    try:
        server = serve(folder)
        with server.client() as c:
            add(c, SYNC, JOBS)
            payments = add(c, PAYMENT, 3)
            equal(started(c), payments, "what starts before anything is measured")
            fails_to_measure(server)
            equal(started(c), [], "what starts when the first try failed")
            t = target(server)
            expect(t["last_known"].startswith("last known: normal, "), t["last_known"])
            expect(t["last_known"].endswith(" before the restart, not measured yet"), t["last_known"])
            equal(status(server)["tiers"][3]["parked"], JOBS, "parked syncs")
            database().go_on()
            reaches(server, "normal")
            equal(target(server)["last_known"], "", "what is said once it is measured")
            got = []
            until(lambda: got.extend(started(c)) or len(got) == JOBS, 60, "the ramp to bring all back")
    finally:
        database().go_on()
    server.stop()


@test("a critical level is known after a restart, and holds until the database is measured calm")
def critical_before(folder):
    server = serve(folder)
    reaches(server, "normal")
    with database().load(30, "SELECT SLEEP(120)"):
        reaches(server, "critical")
        server.stop()
    database().pause()
    try:
        server = serve(folder)
        equal(status(server)["level"], "critical", "the level at once after the start")
        with server.client() as c:
            sync = add(c, SYNC, 1)[0]
            high = add(c, "wcs_renew", 1)[0]
            pay = add(c, PAYMENT, 1)
            equal(started(c), pay, "what starts at the last known level")
            fails_to_measure(server)
            why = text(mapping(mapping(c("WHY", high))["blockers"][0])["message"])
            for part in ("load of shop last known: critical by threads_running, ",
                         " before the restart, not measured yet; tier high waits "):
                expect(part in why, "'%s' is not in: %s" % (part, why))
            shown = text(weir("throttle", "status", "--url", "redis://%s:%d" % server.resp).stdout)
            expect("last known: critical by threads_running, " in shown, shown)
            expect(" before the restart, not measured yet" in shown, shown)
            database().go_on()
            reaches(server, "normal")
            got = []
            until(lambda: got.extend(started(c)) or sorted(got) == [sync, high], 60,
                  "the ramp to bring both back")
    finally:
        database().go_on()
    server.stop()


@test("a target that a reload adds is unknown until it is measured, and holds nothing after that")
def added_by_reload(folder):
    server = serve(folder)
    reaches(server, "normal")
    other = database("db2")
    more = (CONFIG % other.port).split("}\n", 1)[1].replace('"shop"', '"stock"')
    other.pause()
    try:
        write_config(folder, CONFIG % database().port + more)
        with server.client() as c:
            c("CONFIGRELOAD")
            equal(target(server)["level"], "normal", "the target that stays")
            equal(target(server, "stock")["level"], "unknown", "the one that was added")
            equal(target(server, "stock")["last_known"], "not measured yet", "what is said of it")
            sync = add(c, SYNC, 1)
            equal(started(c), [], "what starts")
            other.go_on()
            until(lambda: started(c) == sync, 30, "the sync to come back")
    finally:
        other.go_on()
        other.kill()
    server.stop()


if __name__ == "__main__":
    main()
