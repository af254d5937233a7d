#!/usr/bin/python3
# weir-test: timeout=180
"""The lag by a heartbeat table, in time zones west and east of UTC: rows in the time of the server
and rows in UTC, as the real pt-heartbeat and as any event writes them.  A row of the other kind is
never a lag of 0."""
import contextlib
import functools
import os
import shutil
import signal
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from lib_databases import PASSWORD, Maria, Probe, probe_once  # noqa: E402
from lib_probes import metric  # noqa: E402
from harness import Skip, equal, expect, main, test, until, weir  # noqa: E402

# Zone, what it is ahead of UTC in seconds, and its name for TZ, which counts the other way.
WEST = ("-05:00", -5 * 3600, "WEST5")
EAST = ("+05:30", 5 * 3600 + 1800, "EAST-5:30")
SOON = 600  # seconds: more than any machine needs, less than any zone differs by


@functools.lru_cache(None)
def server(zone):
    m = Maria("zone" + zone[2][:4].lower(), "--default-time-zone=" + zone[0])
    m.ask("CREATE USER weir@'127.0.0.1' IDENTIFIED BY '%s'" % PASSWORD, "CREATE DATABASE meta",
          "GRANT SELECT ON meta.* TO weir@'127.0.0.1'",
          "CREATE TABLE meta.own (id INT PRIMARY KEY, ts DATETIME(6))")
    return m


def target(zone, table, utc):
    setting = {None: "", True: "heartbeat_utc = true", False: "heartbeat_utc = false"}[utc]
    return """target "shop" {
        kind = "mysql" host = "127.0.0.1" port = %d user = "weir" password_file = "SECRET"
        interval = "100ms" timeout = "20s" heartbeat_table = "%s" %s %s
    }""" % (server(zone).port, table, setting, metric("replication_lag"))


def lag(folder, zone, table, utc):
    return probe_once(folder, target(zone, table, utc))[1]["replication_lag"]


def is_lag(folder, zone, table, utc, seconds, note=None):
    got = lag(folder, zone, table, utc)
    expect(got["value"] is not None and seconds <= got["value"] < seconds + SOON,
           "%s, heartbeat_utc %s: %s" % (zone[0], utc, got))
    expect((note in got["note"]) if note else got["note"] is None, got)


def is_error(folder, zone, table, utc, words):
    got = lag(folder, zone, table, utc)
    expect(got["value"] is None and got["error"] and words in got["error"],
           "%s, heartbeat_utc %s: %s" % (zone[0], utc, got))


def has_both_kinds(folder, zone, table, local_rows, utc_rows):
    """Each of the last two is a context in which rows of that kind are there; they are `late`
    seconds old."""
    ahead = zone[1]
    with local_rows as late:
        is_lag(folder, zone, table, None, late)
        is_lag(folder, zone, table, False, late)
        if ahead < 0:
            is_lag(folder, zone, table, True, late - ahead, "heartbeat_utc = false")
        else:
            is_error(folder, zone, table, True, "heartbeat_utc = false")
    with utc_rows as late:
        is_lag(folder, zone, table, True, late)
        if ahead < 0:
            is_error(folder, zone, table, None, "heartbeat_utc = true")
        else:
            is_lag(folder, zone, table, None, late + ahead, "heartbeat_utc = true")


@contextlib.contextmanager
def row(zone, now, late):
    server(zone).ask("REPLACE INTO meta.own VALUES (1, %s - INTERVAL %d SECOND)" % (now, late))
    yield late


@contextlib.contextmanager
def pt_heartbeat(zone, *options):
    m = server(zone)
    m.ask("DROP TABLE IF EXISTS meta.heartbeat")
    process = subprocess.Popen(
        ["pt-heartbeat", "-D", "meta", "--create-table", "--update", "--interval=0.2", *options,
         "h=127.0.0.1,P=%d,u=root" % m.port], env=dict(os.environ, TZ=zone[2], HOME=m.folder),
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    try:
        def has_row():
            expect(process.poll() is None, "pt-heartbeat ended")
            return m.ask("SELECT 1 FROM information_schema.tables WHERE table_name = 'heartbeat'") \
                and m.ask("SELECT ts FROM meta.heartbeat")
        until(has_row, 60, "a heartbeat")
        yield 0
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(30)
        process.stdout.close()


for _zone, _name in ((WEST, "west"), (EAST, "east")):
    @test("%s of UTC: rows of an event, in the time of the server and in UTC" % _name)
    def _(folder, zone=_zone):
        has_both_kinds(folder, zone, "meta.own", row(zone, "NOW(6)", 90),
                       row(zone, "UTC_TIMESTAMP(6)", 90))

    @test("%s of UTC: rows of the real pt-heartbeat, with and without --utc" % _name)
    def _(folder, zone=_zone):
        if not shutil.which("pt-heartbeat"):
            raise Skip("pt-heartbeat is not installed")
        has_both_kinds(folder, zone, "meta.heartbeat", pt_heartbeat(zone), pt_heartbeat(zone, "--utc"))


@test("a row from the future is an error that says by how much, whatever is set")
def _(folder):
    for zone in (WEST, EAST):
        for now, utc in (("NOW(6)", None), ("UTC_TIMESTAMP(6)", True)):
            with row(zone, now, -40000):
                is_error(folder, zone, "meta.own", utc, " s ahead of the clock of this server")


@test("the error ends with the first good row")
def _(folder):
    m = server(WEST)
    with row(WEST, "UTC_TIMESTAMP(6)", 0), Probe(folder, target(WEST, "meta.own", None)) as p:
        p.error("replication_lag", "ahead of the clock", 30)
        m.ask("REPLACE INTO meta.own VALUES (1, NOW(6))")
        p.value("replication_lag", lambda v: 0 <= v < SOON, 30)


@test("heartbeat_utc without a table is refused")
def _(folder):
    path = os.path.join(folder, "weir.conf")
    with open(path, "w") as f:
        f.write('target "shop" { kind = "mysql" heartbeat_utc = true }\n')
    done = weir("config", "check", path)
    expect(done.returncode != 0 and "heartbeat_utc needs heartbeat_table" in done.stderr, done)
    equal(done.stdout, "", "what is printed")


main()
