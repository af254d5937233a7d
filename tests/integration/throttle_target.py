#!/usr/bin/python3
# weir-test: timeout=300 long
"""weir pointed at a real MariaDB: its load becomes a level that decides what may run, and whatever
goes wrong with it shows as unknown, with the reason, within three seconds."""
import functools
import json
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from lib_databases import PASSWORD, Maria, Postgres, Wire, free_port, write_config  # noqa: E402
from harness import (  # noqa: E402
    Server, Watch, claim, equal, expect, main, mapping, test, text, until, weir)

IN_TIME = 3.0


@functools.lru_cache(None)
def database():
    m = Maria("db1")
    m.ask("CREATE USER weir@'127.0.0.1' IDENTIFIED BY '%s'" % PASSWORD,
          "GRANT PROCESS ON *.* TO weir@'127.0.0.1'",
          "CREATE DATABASE shop", "CREATE TABLE shop.orders (id INT PRIMARY KEY)")
    return m


def config(port, body="", mode="enforce", user="weir"):
    return """
throttle {
        mode = "%s"
        ramp_cycles = 2
        ramp_cycle = "1s"
        level "critical" { delays = {"0s", "30s", "60s", "60s"} }
}
target "shop" {
        kind = "mysql" host = "127.0.0.1" port = %d user = "%s" password_file = "SECRET"
        interval = "200ms" timeout = "1s" dwell = "1s"
        metric "threads_running" { elevated = {5, 3} critical = {15, 10} }
        %s
}""" % (mode, port, user, body)


def serve(folder, *words, **options):
    os.makedirs(folder, exist_ok=True)
    return Server(folder, "-c", write_config(folder, config(*words, **options)))


def gate(server):
    with server.web() as w:
        return w.good("GET", "/v1/throttle")


def shows(server, level, why="", seconds=IN_TIME):
    """The status once the target has that level and tells that reason."""
    found = {}

    def is_there():
        t = gate(server)["targets"][0]
        found.update(t)
        return t["level"] == level and why in t["error"]
    watch = Watch()
    until(is_there, seconds + 5, "level %s with reason %s" % (level, why))
    watch.within(seconds, level)
    return found


@test("load makes the level rise and fall, payments run, the rest waits and comes back")
def load_decides(folder):
    server = serve(folder, database().port)
    shows(server, "normal", seconds=10)
    with server.client() as c:
        with database().load(30, "SELECT SLEEP(60)"):
            t = shows(server, "critical")
            equal(t["metric"], "threads_running", "the metric that decides")
            expect(float(t["value"]) >= 15, t)
            until(lambda: gate(server)["targets"][0]["age_ms"] < 2000, what="a fresh sample")
            c("ENQUEUE", "klaviyo_sync", "{}")
            pay = c("ENQUEUE", "woocommerce_payment_webhook", "{}")
            got = claim(c, count=5)
            equal([g.id for g in got], [pay], "what may run")
            c("COMPLETE", pay, got[0].token)
            equal(gate(server)["tiers"][3]["parked"], 1, "parked syncs")
            why = text(mapping(mapping(c("WHY", 1))["blockers"][0])["message"])
            for part in ("parked for ", "critical load on shop: threads_running ", " against 15"):
                expect(part in why, "'%s' is not in: %s" % (part, why))
            status = weir("throttle", "status", "--url", "redis://%s:%d" % server.resp).stdout
            for word in ("critical", "threads_running", "shop"):
                expect(word in text(status), "'%s' is not in: %s" % (word, status))
        shows(server, "normal", seconds=10)
        until(lambda: claim(c), 20, "the ramp to bring the sync back")
    expect("load_level_transition" in json.dumps(gate_history(server)), "the transition is told")
    server.stop()


def gate_history(server):
    with server.web() as w:
        return w.good("GET", "/v1/throttle/history?count=50")


@test("row locks make the level rise, and their end lets it fall")
def row_locks(folder):
    body = 'metric "row_lock_waits" { elevated = {2, 1} critical = {4, 2} }'
    server = serve(folder, database().port, body)
    shows(server, "normal", seconds=10)
    with database().connect() as holder:
        holder("REPLACE INTO shop.orders VALUES (1)")
        holder("BEGIN")
        holder("DELETE FROM shop.orders WHERE id = 1")
        with database().load(4, "DELETE FROM shop.orders WHERE id = 1"):
            equal(shows(server, "critical")["metric"], "row_lock_waits", "what decides")
        holder("ROLLBACK")
    shows(server, "normal", seconds=10)
    server.stop()


def pair():
    """A primary and its replica, which weir may look at."""
    primary = Maria("db3", "--server-id=1", "--log-bin=bin", "--gtid-domain-id=1")
    primary.ask("CREATE USER weir@'127.0.0.1' IDENTIFIED BY '%s'" % PASSWORD,
                "GRANT PROCESS, REPLICATION CLIENT, SLAVE MONITOR ON *.* TO weir@'127.0.0.1'")
    replica = Maria("db4", "--server-id=2", "--gtid-domain-id=1")
    replica.follow(primary)
    until(lambda: replica.ask("SELECT 1 FROM mysql.user WHERE user = 'weir'"), 30, "replication")
    body = """replica "db4" { host = "127.0.0.1" port = %d }
        metric "replication_lag" { elevated = {2, 1} critical = {10, 5} required = true }""" % (
            replica.port)
    return primary, replica, body


@test("what a replica says of itself counts from its first sample on: stopped, skipped, not there")
def told_at_once(folder):
    primary, replica, body = pair()
    server = serve(folder, primary.port, body)

    def lag():
        metrics = gate(server)["targets"][0]["metrics"]
        return next(m for m in metrics if m["name"] == "replication_lag")

    def skip(words):
        with server.web() as w:
            equal(w.ask("GET", words).status, 200, words)

    def verdict():
        with server.client() as c:
            return text(c("CHECK", "nightly:etl", "TARGET", "shop")[0])
    for end, begin, why in (
            (lambda: replica.ask("STOP SLAVE"), lambda: replica.ask("START SLAVE"),
             "replication is stopped"),
            (lambda: skip("/skip-host/db4"), lambda: skip("/recover-host/db4"),
             "all replicas are skipped"),
            (replica.halt, lambda: None, "Connection refused")):
        until(lambda: verdict() == "granted", 20, "a replica that keeps up")
        end()
        until(lambda: why in lag()["error"], 10, why)
        equal(verdict(), "refused", "a check once the probe has been told: " + why)
        begin()
    server.stop()
    replica.kill()
    primary.kill()


@test("a replica whose replication is stopped is unknown, and named")
def replica_stopped(folder):
    primary, replica, body = pair()
    server = serve(folder, primary.port, body)
    shows(server, "normal", seconds=20)
    replica.ask("STOP SLAVE")
    shows(server, "unknown", "db4", seconds=IN_TIME + 1)
    replica.ask("START SLAVE")
    shows(server, "normal", seconds=20)
    server.stop()
    replica.kill()
    primary.kill()


@test("a real PostgreSQL drives the level as well")
def postgres(folder):
    p = Postgres("pg1")
    p.ask("CREATE ROLE weir LOGIN PASSWORD '%s'" % PASSWORD, "GRANT pg_monitor TO weir")
    os.makedirs(folder, exist_ok=True)
    server = Server(folder, "-c", write_config(folder, """
throttle { mode = "enforce" }
target "shop" {
        kind = "postgres" host = "127.0.0.1" port = %d user = "weir" password_file = "SECRET"
        interval = "200ms" timeout = "1s" dwell = "1s"
        metric "active_backends" { elevated = {5, 3} critical = {15, 10} }
}""" % p.port))
    shows(server, "normal", seconds=10)
    with server.client() as c, p.load(20, "SELECT pg_sleep(60)"):
        equal(shows(server, "critical")["metric"], "active_backends", "what decides")
        c("ENQUEUE", "klaviyo_sync", "{}")
        pay = c("ENQUEUE", "nofraud_check", "{}")
        equal([g.id for g in claim(c, count=5)], [pay], "what may run")
    shows(server, "normal", seconds=10)
    p.halt()
    shows(server, "unknown", "refused")
    server.stop()
    p.kill()


@test("in observe mode everything is told and nothing waits")
def observe(folder):
    server = serve(folder, database().port, mode="observe")
    shows(server, "normal", seconds=10)
    with server.client() as c, database().load(30, "SELECT SLEEP(60)"):
        shows(server, "critical")
        job = c("ENQUEUE", "klaviyo_sync", "{}")
        equal([g.id for g in claim(c)], [job], "what runs")
        tier = gate(server)["tiers"][3]
        equal((tier["would_defer"], tier["deferred"], tier["parked"]), (1, 0, 0), "what is told")
    server.stop()


@test("a database that stops, and one that comes back")
def stopped(folder):
    m = Maria("db2")
    m.ask("CREATE USER weir@'127.0.0.1' IDENTIFIED BY '%s'" % PASSWORD)
    server = serve(folder, m.port)
    shows(server, "normal", seconds=10)
    m.halt()
    shows(server, "unknown", "refused")
    with server.client() as c:  # as configured: critical and high run, normal waits
        c("ENQUEUE", "anything", "{}")
        high = c("ENQUEUE", "wcs_renewal", "{}")
        equal([g.id for g in claim(c, count=5)], [high], "what may run")
    m.start()
    shows(server, "normal", seconds=20)
    server.stop()
    m.kill()


@test("a network that swallows everything")
def cut(folder):
    wire = Wire(database().port)
    server = serve(folder, wire.port)
    shows(server, "normal", seconds=10)
    wire.cut()
    shows(server, "unknown", "no answer")
    server.stop()


@test("a wrong password, a missing privilege, nobody there, a query that hangs")
def refused(folder):
    cases = (
        ("password", dict(user="nobody"), "", "denied"),
        ("privilege", {}, 'metric "rows" { source = "sql:SELECT COUNT(*) FROM shop.orders" '
         'elevated = {5, 3} critical = {9, 8} required = true }', "denied"),
        ("hangs", {}, 'metric "slow" { source = "sql:SELECT SLEEP(30)" '
         'elevated = {5, 3} critical = {9, 8} required = true }', "no answer"),
    )
    for name, options, body, why in cases:
        server = serve(os.path.join(folder, name), database().port, body, **options)
        t = shows(server, "unknown", why, seconds=IN_TIME + 1)
        expect(t["error"] and PASSWORD not in t["error"], t["error"])
        expect(PASSWORD not in server.log(), "the password was logged")
        server.stop()
    server = serve(os.path.join(folder, "nobody"), free_port())
    shows(server, "unknown", "refused")
    server.stop()


if __name__ == "__main__":
    main()
