"""The MySQL door under load: what a proxy costs, next to a bare relay, HAProxy and ProxySQL.

One MariaDB with sysbench's tables is the server of all ways.  bench/mysql_slices.c visits the ways
in turns, many times, in slices of 200 ms; what is compared is each way with the direct one in the
same round.  A pass of sysbench follows, one run a cell, for orders of magnitude.  Client, proxy and
server share the cores, so a ratio below 1 is mostly CPU that the proxy takes from the server.

Where the time of a query goes, while a cell runs:

    perf record -F 999 -g -p $(pidof weir) -- sleep 2 && perf report --no-children -g none
"""

import os
import re
import shutil
import subprocess
import time

from check import cpu_ns, find
from peers import READY_S, Broken, Contender, Missing, Server, free_port, wait_for_line, wait_for_port

WORKS = ("point_select", "read_only", "read_write")
THREADS, QUICK_THREADS = (1, 8, 64), (1, 64)
TABLES, ROWS = 4, 100000
SLICE_MS, FULL_SLICE_MS = 200, 250
ROUNDS_EACH = 6     # slices of each way in a cell, for each round of the other measurements
SYSBENCH_S, FULL_SYSBENCH_S = 3, 15
PROXY_THREADS = 2   # of every proxy: as many as HAProxy and weir take on two cores
USER = PASSWORD = DATABASE = "bench"

MARIADB = Contender("mysql-server", "MariaDB", "mariadb", "mysql", False, (
    "--max-connections=1000", "--max-prepared-stmt-count=1000000", "--back-log=1000",
    "--innodb-flush-log-at-trx-commit=2", "--innodb-buffer-pool-size=1G",
    "--innodb-log-file-size=512M"))

# Key, for people.  The second direct way is a control: its ratio to the first is the method's error.
WAYS = (
    ("direct", "direct"),
    ("control", "direct again"),
    ("relay", "byte-copying relay"),
    ("haproxy", "HAProxy, mode tcp"),
    ("proxysql", "ProxySQL"),
    ("weir", "weir, enforce"),
)
TITLE = dict(WAYS)

HAPROXY = """global
        nbthread %(threads)d
        maxconn 4000
defaults
        mode tcp
        timeout connect 5s
        timeout client 1h
        timeout server 1h
listen mysql
        bind 127.0.0.1:%(port)d
        server database 127.0.0.1:%(server)d
"""
PROXYSQL = """datadir="%(folder)s"
admin_variables={ admin_credentials="admin:admin" mysql_ifaces="127.0.0.1:%(admin)d" }
mysql_variables={
        threads=%(threads)d
        max_connections=4000
        interfaces="127.0.0.1:%(port)d"
        monitor_enabled=false
}
mysql_servers=( { address="127.0.0.1" port=%(server)d hostgroup=0 max_connections=1000 } )
mysql_users=( { username="%(user)s" password="%(user)s" default_hostgroup=0 } )
"""
# The thresholds are out of reach: what is measured is the gate at normal level.
WEIR = """target "shop" {
        kind = "mysql"
        host = "127.0.0.1"
        port = %(server)d
        user = "probe"
        mode = "enforce"
        metric "threads_running" { elevated = {100000, 90000} critical = {200000, 190000} }
}
mysql "shop" {
        listen = {"127.0.0.1:%(port)d"}
        server = "127.0.0.1:%(server)d"
        target = "shop"
        mode = "enforce"
        wait = 2s
}
class "load" { user = "bench" tier = "normal" }
"""


def run_sql(port, sql):
    """As root; what the server says about a mistake is the error."""
    done = subprocess.run(["mariadb", "--no-defaults", "-h127.0.0.1", f"-P{port}", "-uroot", "-N"],
                          input=sql, capture_output=True, text=True, timeout=120, check=False)
    if done.returncode:
        raise Broken(f"mariadb: {done.stderr.strip()}")
    return done.stdout


def start_weir(bench, folder, config):
    """A weir with a MySQL door; returns the process.  An older weir without doors is missing."""
    path = os.path.join(folder, "weir.conf")
    with open(path, "w", encoding="ascii") as f:
        f.write(config)
    done = subprocess.run([bench.weir, "serve", "--check", "-c", path], capture_output=True,
                          text=True, timeout=60, check=False)
    if done.returncode and "no such option 'mysql'" in done.stderr:
        raise Missing("weir: this one has no MySQL door")
    with open(os.path.join(folder, "weir.log"), "ab") as log:
        proc = subprocess.Popen([bench.weir, "serve", "--data", os.path.join(folder, "weir"), "-c",
                                 path, "--resp", "127.0.0.1:0", "--http", "127.0.0.1:0"],
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log)
    try:
        line = wait_for_line(proc, r"(?m)^ready ", time.monotonic() + READY_S)
    except Broken as e:
        end(proc)
        with open(os.path.join(folder, "weir.log"), encoding="utf-8", errors="replace") as f:
            raise Broken(f"{e}; {f.read()[-500:]}") from None
    if "mysql=" not in line:
        end(proc)
        raise Missing("weir: this one has no MySQL door")
    proc.ready_line = line
    return proc


def end(proc):
    proc.kill()
    proc.wait()
    if proc.stdout:
        proc.stdout.close()


def bucket_of(n):
    """As src/gate/usual.h has them: one for each count below 16, then four for each octave."""
    octave = max(0, n.bit_length() - 5)
    return n if n < 16 else 16 + 4 * octave + (n >> (octave + 2)) - 4


def pretend(learned, usual):
    """What a door has learned, as if its short calm had been ten minutes, and as many as `usual` had
    usually executed at once."""
    usual = max(1, round(usual))
    for c in learned["classes"]:
        c.update(ends=max(c["ends"], 5000), seconds=3600, executing=1000 * usual,
                 hours=[bucket_of(usual)] * 3)
    learned["metric"]["seconds"] = 3600
    for value in learned["metric"]["values"]:
        value[1] *= 60


class Ways:
    """MariaDB with its tables and every way to it; `with` ends them and removes their folders."""

    def __init__(self, bench, keys):
        self.bench, self.keys = bench, keys
        self.folder = bench.folder()
        self.database = Server(MARIADB, bench.folder(), bench.weir)
        self.procs, self.ports = {}, {}

    def __enter__(self):
        os.makedirs(self.folder)
        try:
            self.database.__enter__()
            self._fill()
            for key in self.keys:
                self._start(key)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for proc in self.procs.values():
            end(proc)
        self.database.__exit__()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _fill(self):
        run_sql(self.database.port, f"""CREATE DATABASE {DATABASE};
                CREATE USER {USER}@'%' IDENTIFIED BY '{PASSWORD}'; CREATE USER probe@'%';
                GRANT ALL ON {DATABASE}.* TO {USER}@'%';""")
        self.sysbench("oltp_read_write", self.database.port, ["prepare"])

    def _start(self, key):
        if key in ("direct", "control"):
            self.ports[key] = self.database.port
            return
        try:
            getattr(self, "_start_" + key)()
        except Missing as e:
            self.bench.missing[str(e)] = True

    def _spawn(self, key, args, stdout=subprocess.DEVNULL):
        with open(os.path.join(self.folder, key + ".log"), "ab") as log:
            self.procs[key] = subprocess.Popen(args, stdin=subprocess.DEVNULL, stdout=stdout,
                                               stderr=log)
        return self.procs[key]

    def _with_config(self, key, text, **more):
        """Writes a configuration file with a free port of its own; returns the file and port."""
        port, path = free_port(), os.path.join(self.folder, key + ".conf")
        with open(path, "w", encoding="ascii") as f:
            f.write(text % {"port": port, "server": self.database.port, "folder": self.folder,
                            "threads": PROXY_THREADS, "user": USER, **more})
        return path, port

    def _wait(self, key, port):
        wait_for_port(self.procs[key], port, time.monotonic() + READY_S)
        self.ports[key] = port

    def _start_relay(self):
        proc = self._spawn("relay", [self.bench.mysql_relay, "--server", str(self.database.port),
                                     "--threads", str(PROXY_THREADS)], subprocess.PIPE)
        line = wait_for_line(proc, "ready", time.monotonic() + READY_S)
        self.ports["relay"] = int(line.split()[1])

    def _start_haproxy(self):
        program = find("haproxy")
        if not program:
            raise Missing("haproxy is not installed: tools/deps bench installs it")
        path, port = self._with_config("haproxy", HAPROXY)
        self._spawn("haproxy", [program, "-db", "-f", path])
        self._wait("haproxy", port)

    def _start_proxysql(self):
        program = find("proxysql")
        if not program:
            raise Missing("proxysql is not on the PATH; Debian has no package of it")
        path, port = self._with_config("proxysql", PROXYSQL, admin=free_port())
        self._spawn("proxysql", [program, "-f", "-c", path, "-D", self.folder,
                                 "--no-version-check"])
        self._wait("proxysql", port)

    def _start_weir(self):
        port = free_port()
        config = WEIR % {"port": port, "server": self.database.port}
        self.procs["weir"] = start_weir(self.bench, self.folder, config)
        self.ports["weir"] = port

    # ---- measurements

    def pid(self, key):
        """0 for a way without a process of its own."""
        return self.procs[key].pid if key in self.procs else 0

    def slices(self, work, threads, rounds, slice_ms):
        """The lines of a cell: one for each slice, then one for each way."""
        args = [self.bench.mysql_slices, "--work", work, "--threads", str(threads), "--rounds",
                str(rounds), "--slice-ms", str(slice_ms), "--database-pid",
                str(self.database.proc.pid), "--tables", str(TABLES), "--rows", str(ROWS),
                "--user", USER, "--password", PASSWORD, "--database", DATABASE]
        for key, port in self.ports.items():
            args += ["--way", f"{key}:{port}:{self.pid(key)}"]
        # A slice lasts longer than it should while its last transactions end.
        limit = 60 + 5 * rounds * len(self.ports) * slice_ms / 1000
        return self.bench.run_generator(args, f"mysql {work} {threads}", limit)

    def sysbench(self, script, port, command, threads=1):
        args = ["sysbench", script, "--db-driver=mysql", "--mysql-host=127.0.0.1",
                f"--mysql-port={port}", f"--mysql-user={USER}", f"--mysql-password={PASSWORD}",
                f"--mysql-db={DATABASE}", f"--tables={TABLES}", f"--table-size={ROWS}",
                f"--threads={threads}", *command]
        try:
            done = subprocess.run(args, capture_output=True, text=True, timeout=300, check=False)
        except FileNotFoundError:
            raise Missing("sysbench is not installed: tools/deps bench installs it") from None
        if done.returncode:
            raise Broken(f"sysbench {script} {command}: {(done.stderr + done.stdout)[-500:]}")
        return done.stdout

    def sysbench_run(self, key, work, threads, seconds):
        pid, database = self.pid(key), self.database.proc.pid
        used, database_used = pid and cpu_ns(pid), cpu_ns(database)
        text = self.sysbench("oltp_" + work, self.ports[key], [f"--time={seconds}", "run"], threads)
        result = {
            "ops": int(re.search(r"queries:\s+(\d+)", text).group(1)),
            "seconds": float(re.search(r"total time:\s+([\d.]+)s", text).group(1)),
            "p95_us": 1000 * float(re.search(r"95th percentile:\s+([\d.]+)", text).group(1)),
            "database_us": (cpu_ns(database) - database_used) / 1000,
        }
        if pid:
            result["way_us"] = (cpu_ns(pid) - used) / 1000
        return result


def build(bench):
    """mysql_slices and mysql_load need libmariadb, so they are built only when they are used."""
    for name in ("mysql_slices", "mysql_relay"):
        setattr(bench, name, os.path.join(bench.out, name))
    bench.compile(("mysql_slices", "sample"), bench.mysql_slices, ("-pthread", "-lmariadb"))
    bench.compile(("mysql_relay", "sample"), bench.mysql_relay, ("-pthread",))


def cells(o, kind, wanted):
    """The cells of `mysql-` or `mysql-sysbench-` of which a way other than direct is wanted."""
    threads = QUICK_THREADS if o.quick else THREADS
    return [(work, n) for work in WORKS for n in threads
            if any(wanted(kind + work, (n, 1), key) for key, _ in WAYS)]


def keep(bench, work, threads, key, round_no, result):
    bench.samples.append({**result, "contender": key, "work": work, "shape": [threads, 1],
                          "round": round_no})


def measure_slices(bench, o, ways, wanted, note):
    slice_ms = FULL_SLICE_MS if o.full else SLICE_MS
    for work, threads in cells(o, "mysql-", wanted):
        began = time.monotonic()
        for line in ways.slices(work, threads, o.rounds * ROUNDS_EACH, slice_ms):
            kind = "mysql-" if "round" in line else "mysql-latency-"
            keep(bench, kind + work, threads, line.pop("way"), line.pop("round", 0), line)
        note(f"mysql {work}, {threads} threads: {time.monotonic() - began:.0f} s")


def measure_sysbench(bench, o, ways, wanted, note):
    if o.quick:
        return
    seconds = FULL_SYSBENCH_S if o.full else SYSBENCH_S
    began = time.monotonic()
    for i, (work, threads) in enumerate(cells(o, "mysql-sysbench-", wanted)):
        order = list(ways.ports)
        for key in order if i % 2 == 0 else reversed(order):
            if key != "control":
                keep(bench, "mysql-sysbench-" + work, threads, key, 0,
                     ways.sysbench_run(key, work, threads, seconds))
    note(f"mysql sysbench: {time.monotonic() - began:.0f} s")


def measure(bench, o, wanted, note):
    """wanted(work, shape, key) says what to measure; the direct way is always there."""
    is_wanted = {key: any(wanted(kind + work, (n, 1), key) for kind in ("mysql-", "mysql-sysbench-")
                          for work in WORKS for n in THREADS) for key, _ in WAYS}
    if not any(is_wanted.values()) or o.rounds == 0:
        return
    build(bench)
    with Ways(bench, [key for key, _ in WAYS if is_wanted[key] or key == "direct"]) as ways:
        measure_slices(bench, o, ways, wanted, note)
        measure_sysbench(bench, o, ways, wanted, note)
