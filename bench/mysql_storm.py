"""The storm: reports without end and a checkout on one MariaDB, without and with weir between.

The checkout sends short transactions at a fixed rate.  The rogue has many connections that run heavy
joins and never pause.  With weir the checkout is of the tier critical; the rogue is deferrable, with one
report at once and 300 ms of database time a second.  weir tells them by their users, reads
threads_running ten times a second and enforces.

The phases follow each other, and all of them are repeated: a p99 of one short phase says little on a
machine that does other things as well.  Printed is the median over the rounds, with the range.
"""

import json
import os
import shutil
import signal
import statistics
import subprocess
import time

import mysql
from peers import Broken, Missing, Server, free_port
from report import Targets

SECONDS, FULL_SECONDS = 10, 30
ROUNDS, QUICK_ROUNDS, FULL_ROUNDS = 3, 1, 5
LEAD_S = 3              # of each phase, counted apart: the onset
CHECKOUT_CONNS, CHECKOUT_RATE = 16, 200
ROGUE_CONNS = 32
REPORT_ROWS = 30000     # orders in a report: about 0.1 s of one core
CUSTOMERS, PRODUCTS, ORDERS = 20000, 2000, 200000   # as bench/mysql_load.c has them
GOAL = 3                # the checkout's p99, times the quiet one
ROGUE_GOAL = 0.1        # reports a second
# Key, for people, through weir, with the rogue.
PHASES = (
    ("quiet", "quiet", False, False),
    ("storm", "stormed, without weir", False, True),
    ("quiet-weir", "quiet, through weir", True, False),
    ("storm-weir", "stormed, with weir", True, True),
)
TABLES = f"""
CREATE DATABASE shop; USE shop;
CREATE TABLE customers (id INT PRIMARY KEY, name VARCHAR(40) NOT NULL, country CHAR(2) NOT NULL);
CREATE TABLE products (id INT PRIMARY KEY, kind INT NOT NULL, price DECIMAL(8,2) NOT NULL,
        stock INT NOT NULL);
CREATE TABLE orders (id INT PRIMARY KEY AUTO_INCREMENT, customer INT NOT NULL,
        product INT NOT NULL, amount INT NOT NULL, KEY (customer), KEY (product));
INSERT INTO customers SELECT seq, CONCAT('customer ', seq),
        ELT(1 + seq % 5, 'de', 'fr', 'nl', 'us', 'jp') FROM seq_1_to_{CUSTOMERS};
INSERT INTO products SELECT seq, seq % 20, 1 + seq % 97, 1000000 FROM seq_1_to_{PRODUCTS};
INSERT INTO orders SELECT seq, 1 + seq * 7919 % {CUSTOMERS}, 1 + seq * 104729 % {PRODUCTS},
        1 + seq % 5 FROM seq_1_to_{ORDERS};
CREATE USER probe@'%';
CREATE USER checkout@'%' IDENTIFIED BY 'bench'; GRANT ALL ON shop.* TO checkout@'%';
CREATE USER rogue@'%' IDENTIFIED BY 'bench'; GRANT SELECT ON shop.* TO rogue@'%';
ANALYZE TABLE customers, products, orders;
"""
# One report at once is what two cores can carry beside the checkout: the class says so, because the
# first of a storm come before any sample can tell of them.
WEIR = """target "shop" {
        kind = "mysql"
        host = "127.0.0.1"
        port = %(server)d
        user = "probe"
        mode = "enforce"
        interval = "100ms"
        dwell = "1s"
        metric "threads_running" { elevated = {1, 0.5} critical = {16, 8} }
}
mysql "shop" {
        listen = {"127.0.0.1:%(port)d"}
        server = "127.0.0.1:%(server)d"
        target = "shop"
        mode = "enforce"
        wait = 2s
}
class "checkout" { user = "checkout" tier = "critical" }
class "rogue" { user = "rogue" tier = "deferrable" concurrency = 1 time_budget = "300ms" }
"""


class Storm:
    """The MariaDB of the storm, and weir before it; `with` ends both."""

    def __init__(self, bench):
        self.bench, self.folder = bench, bench.folder()
        self.database = Server(mysql.MARIADB, bench.folder(), bench.weir)
        self.weir = self.weir_port = None

    def __enter__(self):
        os.makedirs(self.folder)
        try:
            self.database.__enter__()
            mysql.run_sql(self.database.port, TABLES)
            self._start_weir()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        if self.weir:
            mysql.end(self.weir)
        self.database.__exit__()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _start_weir(self):
        port = free_port()
        config = WEIR % {"port": port, "server": self.database.port}
        try:
            self.weir = mysql.start_weir(self.bench, self.folder, config)
            self.weir_port = port
        except Missing as e:
            self.bench.missing[str(e)] = True

    def _client(self, user, port, conns, options):
        args = [self.bench.mysql_load, "--port", str(port), "--user", user, "--password", "bench",
                "--database", "shop", "--conns", str(conns), "--lead", str(LEAD_S), *options]
        return subprocess.Popen(args, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True)

    def phase(self, through_weir, with_rogue, seconds):
        """Returns the results of the checkout and of the rogue (None)."""
        port = self.weir_port if through_weir else self.database.port
        rogue = with_rogue and self._client("rogue", port, ROGUE_CONNS,
                                            ["--reports", str(REPORT_ROWS)])
        checkout = self._client("checkout", port, CHECKOUT_CONNS, [
            "--checkout", str(CHECKOUT_RATE), "--seconds", str(seconds)])
        try:
            # A checkout that is behind works off what was due, while the storm goes on.
            told = result_of(checkout, "checkout", 10 * (LEAD_S + seconds))
            if rogue:
                rogue.send_signal(signal.SIGTERM)
            return told, rogue and result_of(rogue, "rogue", 60)
        finally:
            for proc in (checkout, rogue):
                if proc:
                    mysql.end(proc)
                    proc.stderr.close()

    def wait_until_quiet(self):
        """The server has ended what the last phase left."""
        deadline = time.monotonic() + 60
        sql = "SHOW STATUS LIKE 'Threads_running'"
        while int(mysql.run_sql(self.database.port, sql).split()[1]) > 1:
            if time.monotonic() > deadline:
                raise Broken("the storm does not end")
            time.sleep(0.1)


def result_of(proc, name, timeout):
    try:
        out, err = proc.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        raise Broken(f"the storm's {name} does not end after {timeout} s") from None
    if proc.returncode:
        raise Broken(f"the storm's {name}: {err.strip() or proc.returncode}")
    return json.loads(out)


def build(bench):
    bench.mysql_load = os.path.join(bench.out, "mysql_load")
    bench.compile(("mysql_load", "sample"), bench.mysql_load, ("-pthread", "-lmariadb"))


def measure(bench, o, wanted, note):
    if not wanted("mysql-storm", (ROGUE_CONNS, 1), "weir") or o.rounds == 0:
        return
    build(bench)
    seconds = FULL_SECONDS if o.full else SECONDS
    rounds = QUICK_ROUNDS if o.quick else FULL_ROUNDS if o.full else ROUNDS
    with Storm(bench) as storm:
        phases = [p for p in PHASES if storm.weir or not p[2]]
        for round_no in range(rounds):
            for key, _, through_weir, with_rogue in phases:
                checkout, rogue = storm.phase(through_weir, with_rogue, seconds)
                bench.samples.append({**checkout, "contender": key, "work": "mysql-storm",
                                      "shape": [ROGUE_CONNS, 1], "round": round_no,
                                      "rogue": rogue or None})
                storm.wait_until_quiet()
            note(f"storm {round_no + 1} of {rounds}: {len(phases)} phases of {LEAD_S} + {seconds} s")


class Phase:
    """The rounds of one phase."""

    def __init__(self, title, samples):
        self.title, self.samples = title, samples

    def checkout(self, field):
        return [s[field] / 1000 for s in self.samples]

    def rogue(self, field):
        return [s["rogue"][field] / s["rogue"]["seconds"] for s in self.samples if s["rogue"]]


def phases_of(results):
    phases = {key: Phase(title, results.of(key, "mysql-storm")) for key, title, _, _ in PHASES}
    return {key: phase for key, phase in phases.items() if phase.samples}


def with_range(values, unit=""):
    """The median, and the range when there is one."""
    if not values:
        return ""
    text = f"{statistics.median(values):.1f}{unit}"
    return text if len(values) == 1 else f"{text} ({min(values):.1f} - {max(values):.1f})"


def print_storm(results):
    phases = phases_of(results)
    if not phases:
        return
    print(f"\na storm of {ROGUE_CONNS} connections with reports, and a checkout of {CHECKOUT_RATE} "
          f"transactions a second; rounds: {len(phases['quiet'].samples)}, medians (ranges)")
    print(f"\n| | checkout p50 | checkout p99 | p99 of the first {LEAD_S} s | rogue's reports/s | "
          "refused/s |")
    print("|---|---:|---:|---:|---:|---:|")
    for phase in phases.values():
        cells = [phase.title, *(with_range(phase.checkout(field), " ms") for field in
                                ("p50_us", "p99_us", "lead_p99_us")),
                 with_range(phase.rogue("ops")), with_range(phase.rogue("refused"))]
        print("| " + " | ".join(cells) + " |")
    print("\ntargets of the storm")
    StormTargets(results).print_lines(phases)


class StormTargets(Targets):
    def print_lines(self, phases):
        quiet, storm = phases["quiet"], phases.get("storm-weir")
        calm = statistics.median(quiet.checkout("p99_us"))
        p99 = statistics.median(storm.checkout("p99_us")) if storm else None
        self.line(f"the checkout's p99 in the storm with weir, at most {GOAL}x the quiet one",
                  p99 and p99 / calm, GOAL, p99 and f"{p99:.1f} ms to {calm:.1f} ms = "
                  f"{p99 / calm:.1f}x", at_least=False)
        moved = min(storm.rogue("ops")) if storm else None
        self.line("the rogue still moves: reports/s in every round above 0", moved, ROGUE_GOAL,
                  moved is not None and f"{moved:.1f} in the slowest round")
