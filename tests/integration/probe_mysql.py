#!/usr/bin/python3
# weir-test: timeout=300
"""Probes of a real MariaDB: each metric under real load, each failure with its sentence, in
time."""
import functools
import os
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from lib_databases import (  # noqa: E402
    PASSWORD, Maria, Probe, probe_once, write_config)
from lib_probes import Kind, metric  # noqa: E402
from harness import Server, Watch, equal, expect, main, test, until, weir  # noqa: E402

GRANTS = ("CREATE USER weir@'127.0.0.1' IDENTIFIED BY '%s'" % PASSWORD,
          "GRANT PROCESS, REPLICATION CLIENT, SLAVE MONITOR ON *.* TO weir@'127.0.0.1'",
          "CREATE USER poor@'127.0.0.1' IDENTIFIED BY '%s'" % PASSWORD,
          "CREATE DATABASE shop",
          "CREATE TABLE shop.orders (id INT PRIMARY KEY, state VARCHAR(20), ts DATETIME(6)) "
          "ENGINE=InnoDB",
          "INSERT INTO shop.orders VALUES (1, 'new', NOW(6)), (2, 'new', NOW(6)), "
          "(3, 'done', NOW(6))",
          "CREATE TABLE shop.heartbeat (server_id INT PRIMARY KEY, ts DATETIME(6))",
          "GRANT SELECT ON shop.* TO weir@'127.0.0.1'")


@functools.lru_cache(None)
def primary():
    m = Maria("db1", "--server-id=1", "--log-bin=bin", "--gtid-domain-id=1")
    m.ask(*GRANTS)
    return m


@functools.lru_cache(None)
def replica():
    m = Maria("db2", "--server-id=2", "--gtid-domain-id=1")
    m.follow(primary())
    until(lambda: m.ask("SELECT 1 FROM mysql.user WHERE user = 'weir'") and
          m.ask("SELECT 1 FROM information_schema.tables WHERE table_name = 'heartbeat'"),
          30, "replication")
    return m


KIND = Kind("mysql", "threads_running", "db", primary, replica, "SLEEP(%s)")
KIND.add_tests()
target, replicas = KIND.target, KIND.replicas


@test("every metric of a healthy server has a value")
def _(folder):
    names = ["threads_running", "threads_connected_percent", "history_list_length",
             "row_lock_waits", "buffer_pool_wait_free", "buffer_pool_dirty_percent", "redo_percent",
             "status:Uptime", "rate:Questions"]
    config = target("".join(metric(n) for n in names)
                    + metric("waiting", "sql:SELECT COUNT(*) FROM shop.orders WHERE state='new'"))
    # The server may still be ending the sessions that made its tables.
    until(lambda: probe_once(folder, config)[1]["threads_running"]["value"] == 0, 60,
          "threads_running without load is 0")
    code, got = probe_once(folder, config)
    equal(code, 0, "exit code of %s" % got)
    equal(got["waiting"]["value"], 2, "the query")
    expect(0 < got["threads_connected_percent"]["value"] < 10, got["threads_connected_percent"])
    expect(got["status:Uptime"]["value"] >= 0, got["status:Uptime"])
    expect(got["rate:Questions"]["value"] > 1, got["rate:Questions"])
    for name in names:
        expect(got[name]["error"] is None and got[name]["value"] >= 0, got[name])


@test("a target without metrics gets threads_running")
def _(folder):
    code, got = probe_once(folder, target())
    equal((code, list(got)), (0, ["threads_running"]), "metrics")


@test("the default thresholds of threads_running follow the processors that the server tells")
def _(folder):
    m = Maria("large", "--thread-pool-size=16")
    config = """target "shop" { kind = "mysql" socket = "%s" user = "root" interval = "100ms"
        metric "threads_running" { %%s } }""" % m.socket
    def seen(words, elevated):
        path = os.path.join(folder, words[:8] or "default")
        os.mkdir(path)
        server = Server(path, config=config % words)
        def metric_now():
            with server.web() as w:
                return w.good("GET", "/v1/throttle")["targets"][0]["metrics"][0]
        until(lambda: metric_now()["value"], what="a value")
        got = metric_now()
        equal(got["elevated"], elevated, "elevated")
        server.stop()
        return got["critical"], got["thresholds_from"]
    equal(seen("", "16"), ("48", "default for 16 cores"), "the others of 16")
    equal(seen("elevated = {7, 4}", "7"), ("15", "file"), "the others of a file")
    done = weir("probe", "-c", write_config(folder, config % ""), "--once")
    expect(" 16/10 " in done.stdout and " 48/32 " in done.stdout, done.stdout)
    m.halt()


@test("threads_running follows real queries up and down and leaves out the probe itself")
def _(folder):
    with Probe(folder, target()) as p:
        p.value("threads_running", lambda v: v == 0)
        with primary().load(20, "SELECT SLEEP(600)"):
            p.value("threads_running", lambda v: v == 20)
        p.value("threads_running", lambda v: v == 0)


@test("row_lock_waits counts sessions that wait for a row, and history_list_length grows")
def _(folder):
    with Probe(folder, target(metric("row_lock_waits") + metric("history_list_length"))) as p, \
            primary().connect() as holder, primary().connect() as old:
        p.value("row_lock_waits", lambda v: v == 0)
        holder("BEGIN")
        holder("UPDATE shop.orders SET state = 'held' WHERE id = 1")
        with primary().load(4, "UPDATE shop.orders SET state = 'x' WHERE id = 1"):
            p.value("row_lock_waits", lambda v: v == 4)
        p.value("row_lock_waits", lambda v: v == 0)
        holder("ROLLBACK")
        before = p.value("history_list_length", lambda v: True)
        old("START TRANSACTION WITH CONSISTENT SNAPSHOT")
        for i in range(200):
            holder("UPDATE shop.orders SET state = 'v%d' WHERE id = 3" % i)
        p.value("history_list_length", lambda v: v >= before + 100)


@test("a stopped server is named within 3 s, and its return is seen")
def _(folder):
    m = Maria("lonely")
    m.ask(GRANTS[0])
    with Probe(folder, target(port=m.port, interval="1s", timeout="1500ms")) as p:
        p.value("threads_running", lambda v: v == 0)
        m.halt()
        p.error("threads_running", "Connection refused")
        m.start()
        p.value("threads_running", lambda v: True, 15)
    m.kill()


@test("a server that hangs is an error within 3 s, and the probe can still be stopped at once")
def _(folder):
    m = Maria("sleepy")
    m.ask(GRANTS[0])
    with Probe(folder, target(port=m.port, interval="1s", timeout="1500ms")) as p:
        p.value("threads_running", lambda v: v == 0)
        m.pause()
        p.error("threads_running", "no answer within")
        first = p.wait("threads_running", lambda s: s["error"], 3)
        expect(first["age_ms"] < 500, first)
        m.go_on()
        p.value("threads_running", lambda v: True, 15)
    m.kill()


@test("a connection that the server closed is opened again without an error")
def _(folder):
    with Probe(folder, target()) as p, primary().connect() as c:
        for _ in range(3):
            p.value("threads_running", lambda v: True)
            for row in c("SELECT id FROM information_schema.processlist WHERE user = 'weir'"):
                c("KILL %s" % row[0])
            s = p.wait("threads_running", lambda s: True)
            s = p.wait("threads_running", lambda s: True)
            expect(s["error"] is None, s)


@test("a missing privilege, table or value costs that metric only and says what is missing")
def _(folder):
    body = (metric("threads_running") + metric("replication_lag")
            + metric("orders", "sql:SELECT COUNT(*) FROM shop.orders")
            + metric("gone", "sql:SELECT COUNT(*) FROM information_schema.nosuch")
            + metric("word", "sql:SELECT 'many'") + metric("null", "sql:SELECT NULL")
            + metric("rows", "sql:SELECT 1 UNION SELECT 2 UNION SELECT 3")
            + metric("none", "sql:SELECT 1 FROM information_schema.tables WHERE 1 = 0")
            + metric("columns", "sql:SELECT 1, 2") + metric("status:No_such_status"))
    code, got = probe_once(folder, target(body, user="poor"))
    equal(code, 7, "exit code")
    equal(got["threads_running"]["value"], 0, "threads_running")
    for name, words in (("replication_lag", "a privilege is missing"),
                        ("orders", "a privilege is missing"), ("gone", "nosuch"),
                        ("word", "no number: 'many'"), ("null", "NULL, not a number"),
                        ("rows", "more than one row"), ("none", "no row"),
                        ("columns", "more than one column"),
                        ("status:No_such_status", "has no status 'No_such_status'")):
        expect(words in got[name]["error"], "%s: %s" % (name, got[name]))


@test("a query that hangs costs its own metric only, and is not left running on the server")
def _(folder):
    body = metric("threads_running") + metric("slow", "sql:SELECT COUNT(*) + SLEEP(600)")
    with Probe(folder, target(body, interval="500ms", timeout="1s")) as p:
        p.error("slow", "no answer within 1s")
        p.value("threads_running", lambda v: True, 2)
        p.error("slow", "no answer within 1s")
        with primary().connect() as c:
            def running():
                return c("SELECT COUNT(*) FROM information_schema.processlist "
                         "WHERE info LIKE '%SLEEP(600)%' AND user = 'weir'")[0][0]
            until(lambda: running() == "0", 5, "the end of the query")
            expect(int(running()) <= 1, "queries pile up")


@test("stopping takes no longer than a timeout while a query hangs")
def _(folder):
    body = metric("slow", "sql:SELECT SLEEP(600)")
    with primary().connect() as c:
        done = None
        watch = Watch()
        done = weir("probe", "-c", write_config(folder, target(body, timeout="2s")), seconds=60)
        watch.within(4)
        equal(done.returncode, 7, "exit code")
        c("SELECT 1")


@test("the lag of the worst replica counts, a stopped one is named and is not a lag of 0")
def _(folder):
    body = metric("replication_lag") + replicas(replica().port)
    with Probe(folder, target(body)) as p, replica().connect() as r:
        p.value("replication_lag", lambda v: v == 0)
        r("FLUSH TABLES WITH READ LOCK")
        primary().ask("INSERT INTO shop.orders VALUES (%d, 'lag', NOW(6))" % (time.time() % 1e9))
        p.value("replication_lag", lambda v: v >= 2, 15)
        r("UNLOCK TABLES")
        p.value("replication_lag", lambda v: v == 0, 15)
        r("STOP SLAVE")
        error = p.error("replication_lag", "replication is stopped")
        expect("db2 (127.0.0.1:%d)" % replica().port in error, error)
        r("START SLAVE")
        p.value("replication_lag", lambda v: v == 0, 15)


@test("a heartbeat table tells the lag to the fraction of a second")
def _(folder):
    body = 'heartbeat_table = "shop.heartbeat"\n' + metric("replication_lag") \
        + replicas(replica().port)
    primary().ask("DELETE FROM shop.heartbeat")
    with Probe(folder, target(body)) as p, primary().connect() as c, replica().connect() as r:
        p.error("replication_lag", "is empty")
        c("REPLACE INTO shop.heartbeat VALUES (1, NOW(6))")
        p.value("replication_lag", lambda v: v < 2)
        r("STOP SLAVE SQL_THREAD")
        p.value("replication_lag", lambda v: v > 1.2)
        c("REPLACE INTO shop.heartbeat VALUES (1, NOW(6))")
        r("START SLAVE SQL_THREAD")
        p.value("replication_lag", lambda v: v < 1)


@test("a heartbeat table that is locked rests, and leaves a slower query its time")
def _(folder):
    body = 'heartbeat_table = "shop.heartbeat"\n' + metric("replication_lag") \
        + metric("slower", "sql:SELECT 7 + SLEEP(0.3)")
    primary().ask("REPLACE INTO shop.heartbeat VALUES (1, NOW(6))")
    with Probe(folder, target(body)) as p, primary().connect() as c:
        p.value("replication_lag", lambda v: True)
        c("LOCK TABLES shop.heartbeat WRITE")
        p.error("replication_lag", "no answer within 1s")
        p.value("slower", lambda v: v == 7, 15)
        p.error("replication_lag", "no answer within 1s")
        c("UNLOCK TABLES")
        p.value("replication_lag", lambda v: True, 15)


@test("a unix socket works as well as an address and a name")
def _(folder):
    primary().ask("CREATE USER weir@localhost IDENTIFIED BY '%s'" % PASSWORD)
    config = target().replace('host = "127.0.0.1"', 'socket = "%s"' % primary().socket)
    code, got = probe_once(folder, config)
    equal(code, 0, "exit code over the socket: %s" % got)
    code, got = probe_once(folder, target().replace("127.0.0.1", "localhost"))
    equal(code, 0, "exit code by name: %s" % got)


KIND.add_replica_tests()
main()
