#!/usr/bin/python3
# weir-test: timeout=300 tsan
"""A replica that is being repaired is skipped: on a real MariaDB with two replicas it no longer
decides, is named, comes back by itself or by a word, and a restart forgets nothing."""
import functools
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from lib_databases import PASSWORD, Maria, write_config  # noqa: E402
from harness import Server, Watch, equal, expect, main, test, text, until, weir  # noqa: E402

LATE_S = 3  # a lag from here on is too much


@functools.lru_cache(None)
def primary():
    """It writes the time into a table twice a second: replicas are as late as what they see there
    is old."""
    m = Maria("db1", "--server-id=1", "--log-bin=bin", "--gtid-domain-id=1",
              "--event-scheduler=ON")
    m.ask("CREATE USER weir@'127.0.0.1' IDENTIFIED BY '%s'" % PASSWORD,
          "GRANT PROCESS, REPLICATION CLIENT, SLAVE MONITOR ON *.* TO weir@'127.0.0.1'",
          "CREATE DATABASE meta",
          "GRANT SELECT ON meta.* TO weir@'127.0.0.1'",
          "CREATE TABLE meta.heartbeat (id INT PRIMARY KEY, ts DATETIME(6))",
          "CREATE EVENT meta.beat ON SCHEDULE EVERY 1 SECOND DO "
          "REPLACE INTO meta.heartbeat VALUES (1, NOW(6))")
    return m


def replica(name, number, *options):
    m = Maria(name, "--server-id=%d" % number, "--gtid-domain-id=1", *options)
    m.follow(primary())
    until(lambda: m.ask("SELECT 1 FROM information_schema.tables WHERE table_name = 'heartbeat'")
          and m.ask("SELECT 1 FROM meta.heartbeat"), 60, "replication to " + name)
    return m


@functools.lru_cache(None)
def healthy():
    return replica("db2", 2)


@functools.lru_cache(None)
def late():
    """It replays nothing any more, so that its lag is the time since."""
    m = replica("db3", 3, "--skip-slave-start")
    m.ask("STOP SLAVE SQL_THREAD")
    return m


def serve(folder, options=""):
    os.makedirs(folder, exist_ok=True)
    return Server(folder, "-c", write_config(folder, """
throttle { mode = "enforce" rule_max = "2h" }
target "shop" {
        kind = "mysql" host = "127.0.0.1" port = %d user = "weir" password_file = "SECRET"
        heartbeat_table = "meta.heartbeat" interval = "200ms" timeout = "1s" dwell = "0s"
        replica "db2" { host = "127.0.0.1" port = %d }
        replica "db3" { host = "localhost" port = %d }
        metric "threads_running" { elevated = {500, 400} critical = {900, 800} }
        metric "replication_lag" { elevated = {%d, %d} critical = {9999, 9999} required = true }
        %s
}""" % (primary().port, healthy().port, late().port, LATE_S, LATE_S, options)))


def lag(server):
    with server.web() as w:
        target = w.good("GET", "/v1/throttle")["targets"][0]
    metric = next(m for m in target["metrics"] if m["name"] == "replication_lag")
    return {"value": metric["value"] and float(metric["value"]), "note": metric["error"] or metric["note"],
            "age_ms": metric["age_ms"], "level": target["level"]}


def shows(server, condition, what, seconds=10):
    last = {}

    def is_there():
        last.update(lag(server))
        return condition(last)
    try:
        until(is_there, seconds, what)
    except AssertionError as error:
        raise AssertionError("%s; last: %s" % (error, last)) from None
    return last


def is_late(m):
    return m["level"] == "elevated" and m["value"] is not None and m["value"] >= LATE_S


def is_fine(m):
    return m["level"] == "normal" and m["value"] is not None and m["value"] < LATE_S


def skipped(server):
    with server.client() as c:
        return [text(dict(zip(h[::2], h[1::2]))[b"host"]) for h in c("SKIPPEDHOSTS")]


def verdict(client, *words):
    """By replication_lag, since the target has it, against its elevated threshold."""
    return text(client("CHECK", "nightly:etl", "TARGET", "shop", *words)[0])


@test("a skipped replica does not count, is listed, and counts again at once when recovered")
def skip_and_recover(folder):
    server = serve(folder)
    shows(server, is_late, "the lag of db3", 30)
    with server.client() as c:
        for name in ("db3", "DB3", "localhost", "localhost:%d" % late().port):
            equal(c("SKIPHOST", name), "OK", "skipping " + name)
            equal(skipped(server), [name], "what is skipped")
            m = shows(server, is_fine, "the lag of db2 alone")
            equal(m["note"], "left out: db3: skipped", "what the operator is told")
            told = weir("throttle", "status", "--url", "weir://%s:%d" % server.resp).stdout
            expect("left out: db3: skipped" in told, told)
            equal(verdict(c), "granted", "a check by the lag of db2")
            equal(c("RECOVERHOST", name), "OK", "recovering " + name)
            equal(skipped(server), [], "what is skipped")
            m = shows(server, is_late, "the lag of db3 again")
            equal(m["note"], "", "what the operator is told")
            equal(verdict(c), "refused", "a check by the lag of db3")
    server.stop()


@test("when all replicas are skipped nobody knows the lag, and it never reads as none")
def all_skipped(folder):
    server = serve(folder)
    shows(server, is_late, "the lag of db3", 30)
    with server.client() as c:
        c("SKIPHOST", "db3")
        c("SKIPHOST", "db2")
        m = shows(server, lambda m: m["level"] == "unknown", "an unknown level")
        equal(m["note"], "all replicas are skipped", "why")
        equal(verdict(c), "refused", "a check that nobody can answer")
        equal(verdict(c, "PRIORITY", "high"), "granted", "the same for what is important")
        c("RECOVERHOST", "db2")
        shows(server, is_fine, "the lag of db2 alone")
    server.stop()


@test("skipping ends by itself")
def ends(folder):
    server = serve(folder)
    shows(server, is_late, "the lag of db3", 30)
    with server.client() as c:
        watch = Watch()
        c("SKIPHOST", "db3", "FOR", 2000)
        shows(server, is_fine, "the lag of db2 alone")
        shows(server, is_late, "the lag of db3 again")
        expect(watch.wall >= 2, "it took %.1f s" % watch.wall)
        watch.within(4)
        equal(c("SKIPPEDHOSTS"), [], "what is skipped")
    server.stop()


@test("a restart forgets no skipped host, not even for its first sample")
def restart(folder):
    server = serve(folder)
    with server.web() as w:
        equal(w.good("POST", "/v1/hosts/db3/skip", {"for": 3600000}), {"ok": True}, "skipping")
        equal(w.good("POST", "/v1/hosts/no.such.host/skip", {}), {"ok": True}, "a host nobody has")
    shows(server, is_fine, "the lag of db2 alone", 30)
    with server.web() as w:  # the first sample may have come before the host was skipped
        before = w.good("GET", "/v1/throttle/history?count=1")["events"][0]["number"]
    server.stop()
    server = serve(folder)
    with server.web() as w:
        hosts = w.good("GET", "/v1/hosts/skipped")["hosts"]
        equal([h["host"] for h in hosts], ["db3", "no.such.host"], "what is skipped")
        expect(3500000 < hosts[0]["left_ms"] < 3600000, hosts)
        first = shows(server, lambda m: m["value"] is not None, "a lag", 30)
        expect(first["value"] < LATE_S, first)
        shows(server, is_fine, "the level, once every metric is measured", 30)
        events = [e for e in w.good("GET", "/v1/throttle/history?count=100")["events"]
                  if e["number"] > before]
        expect("elevated" not in str(events), events)
    server.stop()


@test("of the replicas that are not skipped one counts, however many are to be ignored")
def ignored(folder):
    server = serve(folder, "ignore_replicas = 1")
    with server.client() as c:
        shows(server, is_fine, "the lag without the worst", 30)
        c("SKIPHOST", "db2")
        shows(server, is_late, "the lag of db3, which is all there is")
    server.stop()


@test("a replica that is missing, and need not be there, is named all the same")
def missing(folder):
    server = serve(folder, 'missing_replica = "ignore"')
    shows(server, is_late, "the lag of db3", 30)
    late().pause()
    try:
        m = shows(server, is_fine, "the lag of db2 alone", 30)
        expect(m["note"].startswith("left out: db3 "), m)
    finally:
        late().go_on()
    shows(server, is_late, "the lag of db3 again", 30)
    server.stop()


@test("a skipped replica may go away altogether, and without being skipped it is missed")
def gone(folder):
    server = serve(folder)
    with server.client() as c:
        c("SKIPHOST", "db3")
        shows(server, is_fine, "the lag of db2 alone", 30)
        late().halt()
        c("SKIPHOST", "db2", "FOR", 1000)
        shows(server, lambda m: m["note"] == "all replicas are skipped", "nobody left")
        shows(server, is_fine, "the lag of db2 alone")
        c("RECOVERHOST", "db3")
        m = shows(server, lambda m: m["level"] == "unknown", "an unknown level")
        expect("db3" in m["note"] and "skipped" not in m["note"], m)
    server.stop()
    late().start()


if __name__ == "__main__":
    main()
