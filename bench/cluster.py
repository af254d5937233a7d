"""weir in a cluster next to a SKIP LOCKED queue in the same database, under the same load, in turns:
PostgreSQL with a synchronous standby, and MariaDB Galera of three.

All servers, both weirs and the load share the cores of this machine.  So a ratio says what the same
machines do with either queue; how long a commit takes on a network of yours is not in it.

Where the time of the leader goes, while a cell runs:

    perf record -F 999 -g -p PID -- sleep 2 && perf report --no-children -g none --sort comm,sym
"""

import contextlib
import os
import re
import shutil
import subprocess

from listing_world import harness  # it knows the way to the tests, whose servers these are
from measure import PAYLOAD
from peers import READY_S, Broken, Missing

import lib_cluster   # noqa: E402
import lib_clusters  # noqa: E402

SHAPES = ((1, 1), (8, 1), (64, 1), (64, 32))
QUICK_SHAPES = ((64, 1), (64, 32))
WARM_S = 0.5        # of both: until the workers are out of step
SECONDS_EACH = 4    # times those of the other measurements: a commit takes long
PASSWORD = lib_cluster.PASSWORD
QUIET = "SET client_min_messages = warning"     # what was dropped along is no news

# Key, for people, options of bench/gen (None: the SKIP LOCKED queue).
CONTENDERS = (
    ("weir", "weir", ("--next", "--batch")),
    ("weir-3", "weir, three commands", ("--batch",)),
    ("queue", "SKIP LOCKED", None),
)


class Postgres(lib_clusters.SafePostgres):
    """With memory, and with a log that does not force checkpoints."""
    SETTINGS = ("shared_buffers=256MB", "max_connections=200", "max_wal_size=8GB",
                "checkpoint_timeout=30min", "autovacuum_naptime=1s", "log_min_messages=error")

    def argv(self):
        return super().argv() + [x for s in self.SETTINGS for x in ("-c", s)]


class Galera(lib_clusters.GaleraNode):
    """With memory, and a pool of threads: 64 connections at once on few cores hinder each other."""
    SETTINGS = ("--innodb-buffer-pool-size=512M", "--innodb-log-file-size=512M",
                "--max-connections=300", "--wsrep-slave-threads=4",
                "--thread-handling=pool-of-threads", "--thread-pool-size=4")

    def argv(self):
        return super().argv() + list(self.SETTINGS)


class PostgresBed:
    """A primary and a synchronous standby."""
    key, title, kind, dialect, user = ("postgres", "PostgreSQL, a synchronous standby", "postgres",
                                       "postgres", "postgres")

    def __init__(self):
        class Pair(lib_clusters.PostgresPair):
            Server = Postgres
        pair = Pair()
        self.server, self.servers = pair.primary, [pair.primary, pair.standby]
        self.ports = [pair.primary.port]
        self.server.ask("CREATE ROLE weir LOGIN PASSWORD '%s'" % PASSWORD,
                        "ALTER ROLE postgres PASSWORD '%s'" % PASSWORD, "CREATE DATABASE weir")

    def forget(self):
        self.server.ask(QUIET, "DROP SCHEMA IF EXISTS weir CASCADE", database="weir")

    def grant(self, grants):
        self.server.ask(QUIET, *grants, database="weir")

    def settle(self):
        self.server.ask("CHECKPOINT")


class GaleraBed:
    """Three servers; everyone writes to the first, where nobody's commit can clash."""
    key, title, kind, dialect, user = ("galera", "MariaDB Galera, three servers", "mysql", "mariadb",
                                       "boss")

    def __init__(self):
        class Three(lib_clusters.Galera):
            Node = Galera
        three = Three()
        self.server, self.servers = three.nodes[0], three.nodes
        self.ports = [n.port for n in three.nodes]
        self.server.ask("CREATE USER weir@'%%' IDENTIFIED BY '%s'" % PASSWORD,
                        "CREATE USER boss@'%%' IDENTIFIED BY '%s'" % PASSWORD,
                        "GRANT ALL ON *.* TO boss@'%' WITH GRANT OPTION")

    def forget(self):
        self.server.ask("DROP DATABASE IF EXISTS weir")

    def grant(self, grants):
        self.server.ask(*grants)

    def settle(self):
        pass


BEDS = (PostgresBed, GaleraBed)


@contextlib.contextmanager
def started(bed_class, bench):
    """Its servers, in the folder of the data."""
    os.makedirs(bench.data, exist_ok=True)
    before = os.environ.get("TMPDIR")
    os.environ["TMPDIR"] = bench.data
    try:
        bed = bed_class()
    except harness.Skip as e:
        raise Missing(f"{bed_class.title}: {e}") from None
    except AssertionError as e:
        raise Broken(f"{bed_class.title}: {e}") from None
    finally:
        if before is None:
            del os.environ["TMPDIR"]
        else:
            os.environ["TMPDIR"] = before
    try:
        yield bed
    finally:
        for server in bed.servers:
            server.kill()


class Weirs:
    """A leader and a follower with nothing in their tables; `with` ends them."""

    def __init__(self, bench, bed):
        harness.WEIR = bench.weir
        self.folder = bench.folder()
        self.bed, self.cluster = bed, lib_cluster.Cluster(self.folder, bed.kind, bed.ports)

    def __enter__(self):
        shutil.rmtree(self.folder, ignore_errors=True)
        os.makedirs(self.folder)
        self.bed.forget()
        self.cluster.add("a")
        self.cluster.add("b", priority=10)
        told = self.cluster.init("--user", self.bed.user, "--password-file",
                                 os.path.join(self.cluster.nodes[0].folder, "password"))
        self.bed.grant([line.strip() for line in told.splitlines()
                        if line.strip().startswith("grant ")])
        for node in self.cluster.nodes:
            node.start()
        return self.cluster.leader()

    def __exit__(self, *_):
        for node in self.cluster.nodes:
            if node.server:
                node.server.kill()
        shutil.rmtree(self.folder, ignore_errors=True)


def run_weir(bench, bed, shape, seconds, options):
    try:
        with Weirs(bench, bed) as leader:
            args = [bench.gen, "--proto", "weir", "--port", str(leader.port), "--conns",
                    str(shape[0]), "--depth", str(shape[1]), "--payload", str(PAYLOAD), "--pid",
                    str(leader.server.process.pid), "--warm", str(WARM_S), *options,
                    f"cycle:{seconds}"]
            result = bench.run_generator(args, f"weir over {bed.title} {shape}", READY_S)[0]
            with leader.client() as c:
                left = int(re.search(r"jobs_ready:(\d+)", harness.text(c("INFO"))).group(1))
            if left:
                raise Broken(f"weir over {bed.title} {shape}: {left} jobs are left")
            return result
    except AssertionError as e:
        raise Broken(f"weir over {bed.title}: {e}") from None


def run_queue(bench, bed, shape, seconds):
    args = [os.path.join(bench.out, "sql_queue"), "--dialect", bed.dialect, "--host", "127.0.0.1",
            "--port", str(bed.server.port), "--user", bed.user, "--password", PASSWORD, "--conns",
            str(shape[0]), "--batch", str(shape[1]), "--payload", str(PAYLOAD), "--warm",
            str(WARM_S), "--seconds", str(seconds)]
    return bench.run_generator(args, f"the queue in {bed.title} {shape}", READY_S)[0]


def build(bench):
    flags = subprocess.run(["pkg-config", "--cflags", "--libs", "libpq", "libmariadb"],
                           capture_output=True, text=True, check=True).stdout.split()
    bench.compile(("sql_queue", "sql_queue_postgres", "sql_queue_mariadb", "sample"),
                  os.path.join(bench.out, "sql_queue"), ("-pthread", *flags))


def round_on(bench, bed, cells, round_no, seconds, note):
    """One after the other, the other way round in every second round."""
    for shape, key, options in cells if round_no % 2 == 0 else cells[::-1]:
        bench.settle()
        bed.settle()
        try:
            result = (run_queue(bench, bed, shape, seconds) if options is None else
                      run_weir(bench, bed, shape, seconds, options))
        except Broken as e:
            bench.broken.append(str(e))
            note(f"BROKEN  {e}")
            continue
        result["work"] = "cluster-" + bed.key
        bench.samples.append({"contender": "cluster-" + key, "shape": list(shape),
                              "round": round_no, **result})
        bench.jobs_checked += result["puts_total"]


def measure(bench, o, wanted, note):
    """All rounds of one database, then those of the other: starting one takes its time."""
    for bed_class in BEDS:
        cells = [(shape, key, options) for shape in (QUICK_SHAPES if o.quick else SHAPES)
                 for key, _, options in CONTENDERS
                 if wanted("cluster-" + bed_class.key, shape, key)]
        if not cells or not o.rounds:
            continue
        build(bench)
        with started(bed_class, bench) as bed:
            for round_no in range(o.rounds):
                round_on(bench, bed, cells, round_no, o.seconds * SECONDS_EACH, note)
                note(f"{bed.title}: round {round_no + 1} of {o.rounds}")
