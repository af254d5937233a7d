#!/usr/bin/python3
# weir-test: timeout=300
"""Probes of a real PostgreSQL: each metric under real load, each failure with its sentence, in
time."""
import functools
import os
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from lib_databases import (  # noqa: E402
    PASSWORD, Postgres, Probe, probe_once, write_config)
from lib_probes import Kind, metric  # noqa: E402
from harness import Watch, equal, expect, main, test, until, weir  # noqa: E402

SETUP = ("CREATE ROLE weir LOGIN PASSWORD '%s'" % PASSWORD, "GRANT pg_monitor TO weir",
         "CREATE ROLE poor LOGIN PASSWORD '%s'" % PASSWORD)


@functools.lru_cache(None)
def primary():
    p = Postgres("pg1")
    p.ask(*SETUP, "CREATE TABLE orders (id int PRIMARY KEY, state text)",
          "INSERT INTO orders VALUES (1, 'new'), (2, 'new'), (3, 'done')",
          "GRANT SELECT ON orders TO weir")
    return p


@functools.lru_cache(None)
def replica():
    return Postgres("pg2", copy_of=primary())


KIND = Kind("postgres", "active_backends", "pg", primary, replica,
            "(SELECT count(pg_sleep(%s)) - 1)")
KIND.add_tests()
target, replicas = KIND.target, KIND.replicas


@test("every metric of a healthy server has a value")
def _(folder):
    names = ["active_backends", "connections_percent", "lock_waits", "oldest_xmin_age_s"]
    code, got = probe_once(folder, target(
        "".join(metric(n) for n in names)
        + metric("waiting", "sql:SELECT count(*) FROM orders WHERE state = 'new'")))
    equal(code, 0, "exit code of %s" % got)
    equal(got["active_backends"]["value"], 0, "active_backends without load")
    equal(got["waiting"]["value"], 2, "the query")
    expect(0 < got["connections_percent"]["value"] < 20, got["connections_percent"])


@test("a target without metrics gets active_backends, which follow real queries up and down")
def _(folder):
    with Probe(folder, target()) as p:
        p.value("active_backends", lambda v: v == 0)
        with primary().load(20, "SELECT pg_sleep(600)"):
            p.value("active_backends", lambda v: v == 20)
        p.value("active_backends", lambda v: v == 0)


@test("lock_waits counts sessions that wait, and oldest_xmin_age_s an open transaction")
def _(folder):
    with Probe(folder, target(metric("lock_waits") + metric("oldest_xmin_age_s"))) as p, \
            primary().connect() as holder:
        p.value("lock_waits", lambda v: v == 0)
        holder("BEGIN ISOLATION LEVEL REPEATABLE READ")
        holder("UPDATE orders SET state = 'held' WHERE id = 1")
        with primary().load(1, "UPDATE orders SET state = 'x' WHERE id = 1"):
            p.value("lock_waits", lambda v: v == 1)
            p.value("oldest_xmin_age_s", lambda v: v > 0.3)
        p.value("lock_waits", lambda v: v == 0)
        holder("ROLLBACK")
        p.value("oldest_xmin_age_s", lambda v: v == 0)


@test("a stopped server is named within 3 s, and its return is seen")
def _(folder):
    lonely = Postgres("lonely")
    lonely.ask(*SETUP)
    with Probe(folder, target(port=lonely.port, interval="1s", timeout="1500ms")) as p:
        p.value("active_backends", lambda v: v == 0)
        lonely.halt()
        p.error("active_backends", "Connection refused")
        lonely.start()
        p.value("active_backends", lambda v: True, 15)
        lonely.pause()
        p.error("active_backends", "no answer within")
        lonely.go_on()
        p.value("active_backends", lambda v: True, 15)
    lonely.kill()


@test("a connection that the server closed is opened again without an error")
def _(folder):
    with Probe(folder, target()) as p, primary().connect() as c:
        for _ in range(3):
            p.value("active_backends", lambda v: True)
            c("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'weir'")
            for _ in range(2):
                s = p.wait("active_backends", lambda s: True)
                expect(s["error"] is None, s)


@test("a missing privilege, table or value costs that metric only and says what is missing")
def _(folder):
    body = (metric("active_backends") + metric("lock_waits") + metric("replication_lag")
            + metric("orders", "sql:SELECT count(*) FROM orders")
            + metric("gone", "sql:SELECT count(*) FROM nosuch")
            + metric("word", "sql:SELECT 'many'") + metric("null", "sql:SELECT NULL::int")
            + metric("rows", "sql:SELECT generate_series(1, 1000000)")
            + metric("none", "sql:SELECT 1 WHERE false") + metric("columns", "sql:SELECT 1, 2")
            + metric("nan", "sql:SELECT 'NaN'::float8"))
    code, got = probe_once(folder, target(body, user="poor"))
    equal(code, 7, "exit code")
    equal(got["lock_waits"]["value"], 0, "lock_waits")
    for name, words in (("active_backends", "a privilege is missing: GRANT pg_monitor TO poor"),
                        ("replication_lag", "a privilege is missing: GRANT pg_monitor TO poor"),
                        ("orders", "a privilege is missing"), ("gone", "nosuch"),
                        ("word", "no number: 'many'"), ("null", "NULL, not a number"),
                        ("rows", "more than one row"), ("none", "no row"),
                        ("columns", "not exactly one column"), ("nan", "no number: 'NaN'")):
        expect(words in (got[name]["error"] or ""), "%s: %s" % (name, got[name]))


@test("a query that writes is refused by the session")
def _(folder):
    primary().ask("CREATE FUNCTION touch() RETURNS int LANGUAGE sql AS "
                  "$$ INSERT INTO orders VALUES (99, 'x') RETURNING 1 $$",
                  "ALTER FUNCTION touch() SECURITY DEFINER")
    code, got = probe_once(folder, target(metric("writes", "sql:SELECT touch()")))
    expect("read-only transaction" in got["writes"]["error"], got)
    equal(primary().ask("SELECT count(*) FROM orders WHERE id = 99"), [["0"]], "rows written")


@test("a table that is made anew under a query is read again")
def _(folder):
    primary().ask("CREATE TABLE stock (n int)", "INSERT INTO stock VALUES (5)",
                  "GRANT SELECT ON stock TO weir")
    with Probe(folder, target(metric("stock", "sql:SELECT n FROM stock"))) as p:
        p.value("stock", lambda v: v == 5)
        primary().ask("ALTER TABLE stock ALTER n TYPE numeric", "UPDATE stock SET n = 6.5")
        p.value("stock", lambda v: v == 6.5)
        primary().ask("DROP TABLE stock")
        p.error("stock", "does not exist")
        primary().ask("CREATE TABLE stock (n int)", "INSERT INTO stock VALUES (7)",
                      "GRANT SELECT ON stock TO weir")
        p.value("stock", lambda v: v == 7)


@test("a query that the server cannot do leaves nothing behind on it, however often it is asked")
def _(folder):
    body = (metric("odd", "sql:SELECT EXTRACT(timezone FROM now()::timestamp)")
            + metric("kept", "sql:SELECT count(*) FROM pg_prepared_statements"))
    with Probe(folder, target(body)) as p:
        for _ in range(8):
            p.error("odd", "timezone")
            p.value("kept", lambda v: True)
        kept = p.value("kept", lambda v: True)
        expect(kept <= 2, "%d statements are prepared for 2 metrics" % kept)


@test("a query that hangs costs its own metric only, and is not left running on the server")
def _(folder):
    body = metric("slow", "sql:SELECT 1 FROM pg_sleep(600)") + metric("active_backends")
    with Probe(folder, target(body, interval="500ms", timeout="1s")) as p:
        p.error("slow", "no answer within 1s")
        p.value("active_backends", lambda v: True, 2)
        p.error("slow", "no answer within 1s")
        with primary().connect() as c:
            def running():
                return c("SELECT count(*) FROM pg_stat_activity WHERE usename = 'weir' AND "
                         "state = 'active' AND query LIKE '%pg_sleep(600)%'")[0][0]
            until(lambda: running() == "0", 5, "the end of the query")
    watch = Watch()
    done = weir("probe", "-c", write_config(folder, target(body, timeout="2s")), seconds=60)
    watch.within(4, "stopping, which must not wait for the query,")
    equal(done.returncode, 7, "exit code")


@test("the lag is that of the worst replica; a stopped one is named and is not a lag of 0")
def _(folder):
    body = metric("replication_lag") + replicas(replica().port)
    with Probe(folder, target(body)) as p, replica().connect() as r:
        p.value("replication_lag", lambda v: v == 0)
        r("SELECT pg_wal_replay_pause()")
        primary().ask("INSERT INTO orders VALUES (10, 'lag')")
        p.value("replication_lag", lambda v: v >= 0.5)
        r("SELECT pg_wal_replay_resume()")
        p.value("replication_lag", lambda v: v == 0)
        port = primary().port
        r("ALTER SYSTEM SET primary_conninfo = 'host=127.0.0.1 port=1'")
        r("SELECT pg_reload_conf()")
        error = p.error("replication_lag", "replication is stopped", 5)
        expect("pg2 (127.0.0.1:%d)" % replica().port in error, error)
        r("ALTER SYSTEM SET primary_conninfo = 'host=%s port=%d user=postgres'" % (
            primary().folder, port))
        r("SELECT pg_reload_conf()")
        p.value("replication_lag", lambda v: v == 0, 20)


@test("a primary tells the lag of those connected to it, and says when there is none")
def _(folder):
    replica()
    with Probe(folder, target(metric("replication_lag"))) as p, replica().connect() as r:
        p.value("replication_lag", lambda v: v == 0)
        r("SELECT pg_wal_replay_pause()")
        primary().ask("INSERT INTO orders VALUES (11, 'lag')")
        p.value("replication_lag", lambda v: v > 0.5)
        r("SELECT pg_wal_replay_resume()")
        p.value("replication_lag", lambda v: v == 0)
        replica().halt()
        p.error("replication_lag", "no replica is connected")
        replica().start()
        p.value("replication_lag", lambda v: v == 0)


@test("a target that is a replica itself tells its own lag")
def _(folder):
    with Probe(folder, target(metric("replication_lag"), port=replica().port)) as p, \
            replica().connect() as r:
        p.value("replication_lag", lambda v: v == 0)
        r("SELECT pg_wal_replay_pause()")
        primary().ask("INSERT INTO orders VALUES (12, 'lag')")
        p.value("replication_lag", lambda v: v > 0.5)
        r("SELECT pg_wal_replay_resume()")
        p.value("replication_lag", lambda v: v == 0)


KIND.add_replica_tests()
main()
