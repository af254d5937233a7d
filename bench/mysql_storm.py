"""Storms on one MariaDB: a checkout, and what troubles it, without weir and with its door between.

The checkout sends short transactions at a fixed rate.  In each scenario something comes beside it for
a while: heavy reports of a rogue, bulk writers, connections that sleep.  weir runs with default
settings and at most one `class` line, in mode enforce, after ten minutes of learning from the
checkout alone (--quick: from a short calm, as if it had been ten minutes).

A round plays every scenario once: calm, trouble, calm.  Printed is the median over the rounds, with
the range.
"""

import json
import os
import re
import shutil
import signal
import statistics
import subprocess
import threading
import time
import urllib.request
from dataclasses import dataclass

import mysql
from peers import Broken, Missing, Server, free_port
from report import Targets, with_range

ROUNDS, QUICK_ROUNDS, FULL_ROUNDS = 3, 1, 5
LEARN_S, QUICK_LEARN_S = 640, 30
LEAD_S, TROUBLE_S, AFTER_S = 4, 12, 6
ONSET_S = 2             # two samples of the target
SLICE_S = 0.25
RATE, CONNS = 200, 16
CUSTOMERS, PRODUCTS, ORDERS = 20000, 2000, 400000   # as bench/mysql_load.c has them
HEAVY_ROWS, LIGHT_ROWS = 250000, 30000  # orders in a report: about 1 s and 0.1 s of a core
CLIENT_NICE = -15
GOAL = 3                # the checkout's p99, times the quiet one
SLACK = 1.3             # how far two p99 of the same thing lie apart
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
CREATE USER probe@'%'; GRANT REPLICATION CLIENT, SLAVE MONITOR ON *.* TO probe@'%';
CREATE USER checkout@'%' IDENTIFIED BY 'bench'; GRANT ALL ON shop.* TO checkout@'%';
CREATE USER rogue@'%' IDENTIFIED BY 'bench'; GRANT ALL ON shop.* TO rogue@'%';
CREATE USER bulk@'%' IDENTIFIED BY 'bench'; GRANT ALL ON shop.* TO bulk@'%';
ANALYZE TABLE customers, products, orders;
"""
STOCKS = """CREATE DATABASE IF NOT EXISTS shop; USE shop;
CREATE TABLE stocks (shelf INT NOT NULL, n INT NOT NULL);
INSERT INTO stocks SELECT seq % 40, 0 FROM seq_1_to_4000;
"""
# A replica that writes what the checkout writes would take the processors that all share.
BINLOG = ("--server-id=1", "--log-bin=bin", "--gtid-domain-id=1", "--binlog-format=ROW")
REPLICA = ("--server-id=2", "--gtid-domain-id=1", "--replicate-do-table=shop.stocks")
WEIR = """target "shop" {
        kind = "mysql" host = "127.0.0.1" port = %(server)d user = "probe"
        %(target)s
}
mysql "shop" {
        listen = {"127.0.0.1:%(port)d"} server = "127.0.0.1:%(server)d" target = "shop"
        mode = "enforce"
        %(door)s
}
%(classes)s
"""
DEFERRABLE = 'class "reports" { %s tier = "deferrable" }'
BY_USER = DEFERRABLE % 'user = "rogue"'


@dataclass(frozen=True)
class Crowd:
    """What comes beside the checkout; tuples of options of bench/mysql_load."""
    options: tuple
    conns: int = 48
    user: str = "rogue"
    is_direct: bool = False     # around the door


HEAVY, LIGHT = ("--reports", str(HEAVY_ROWS)), ("--reports", str(LIGHT_ROWS))
ROGUE = Crowd(HEAVY)


@dataclass(frozen=True)
class Scenario:
    key: str
    title: str
    crowds: tuple = (ROGUE,)
    classes: str = BY_USER
    target: str = ""
    door: str = ""
    beside: str = ""        # key of the scenario that it is compared with; "": its own, without weir
    has_replica: bool = False
    sees_crowd: bool = True     # the crowd is the door's, and waits


NO_WEIR = " without"
SCENARIOS = (
    Scenario("quiet", "quiet", (), ""),
    Scenario("user", "rogue, by user"),
    Scenario("light", "32 lighter ones, by user", (Crowd(LIGHT, 32),)),
    Scenario("comment", "rogue, by comment", (Crowd((*HEAVY, "--prefix", "/* weir: id=reports tier=deferrable */ ")),),
             "", beside="user"),
    Scenario("digest", "rogue, checkout's user, by digest", (Crowd(HEAVY, user="checkout"),),
             DEFERRABLE % 'digest = "%(digest)s"', beside="user"),
    Scenario("none", "rogue, no class line", classes="", beside="user"),
    Scenario("own", "rogue, checkout's user, no class", (Crowd(HEAVY, user="checkout"),), "",
             beside="user"),
    Scenario("low", "threshold 3x too low", target='metric "threads_running" { %(low)s }',
             beside="user"),
    Scenario("high", "threshold 3x too high", target='metric "threads_running" { %(high)s }',
             beside="user"),
    Scenario("idle", "40 idle transactions", (Crowd(("--idle", "SELECT stock FROM products WHERE id=1"), 40),)),
    Scenario("idle-rogue", "8 idle transactions and the rogue",
             (Crowd(("--idle", "SELECT stock FROM products WHERE id=1"), 8), ROGUE)),
    Scenario("spike", "40 sleep for 1.5 s outside", (Crowd(("--once", "SELECT SLEEP(1.5)"), 40, is_direct=True),),
             sees_crowd=False),
    Scenario("outside", "8 lighter ones outside", (Crowd(LIGHT, 8, is_direct=True),), sees_crowd=False),
    Scenario("direct", "rogue outside", (Crowd(HEAVY, is_direct=True),), beside="user",
             sees_crowd=False),
    Scenario("lag", "16 bulk writers, a replica", (Crowd(("--bulk",), 16, "bulk"),),
             'class "bulk" { user = "bulk" tier = "deferrable" }',
             target='metric "threads_running" {} metric "replication_lag" {}\n'
                    '        replica "copy" { host = "127.0.0.1" port = %(replica)d }',
             door="deferrable_floor = 0", has_replica=True),
)
BY_KEY = {s.key: s for s in SCENARIOS}


# ---- servers


class Storm:
    """The MariaDB of the storm, its replica, and weirs before it; `with` ends all."""

    def __init__(self, bench):
        self.bench, self.folder = bench, bench.folder()
        settings = mysql.MARIADB.settings
        self.database = Server(with_settings((*settings, *BINLOG)), bench.folder(), bench.weir)
        self.replica = Server(with_settings((*settings, *REPLICA)), bench.folder(), bench.weir)
        self.weir = self.api = self.port = None
        self.learned = None     # what weir has learned, as text
        self.facts = {}         # for the texts of scenarios

    def __enter__(self):
        os.makedirs(self.folder)
        try:
            self.database.__enter__()
            mysql.run_sql(self.database.port, TABLES)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        self.end_weir()
        self.replica.__exit__()
        self.database.__exit__()
        shutil.rmtree(self.folder, ignore_errors=True)

    def start_weir(self, scenario):
        self.port = free_port()
        data = os.path.join(self.folder, "weir")
        shutil.rmtree(data, ignore_errors=True)
        os.makedirs(data)
        if self.learned:
            with open(os.path.join(data, "learned.shop"), "w", encoding="ascii") as f:
                f.write(self.learned)
        text = {part: getattr(scenario, part) % self.facts if self.facts else ""
                for part in ("target", "door", "classes")}
        self.weir = mysql.start_weir(self.bench, self.folder, WEIR % {
            **text, "port": self.port, "server": self.database.port})
        stand_apart(self.weir.pid)
        self.api = "http://" + re.search(r"http=(\S+)", self.weir.ready_line).group(1)

    def end_weir(self, gently=False):
        if self.weir and gently:
            self.weir.terminate()
            self.weir.wait(timeout=60)
        if self.weir:
            mysql.end(self.weir)
        self.weir = None

    def ask(self, path, **body):
        data = json.dumps(body).encode() if body else None
        with urllib.request.urlopen(urllib.request.Request(
                self.api + path, data, {"Content-Type": "application/json"}), timeout=10) as r:
            return json.load(r)

    def follow(self):
        """The replica begins where the server is now."""
        if not self.replica.proc:
            self.replica.__enter__()
            for server in (self.database, self.replica):
                mysql.run_sql(server.port, STOCKS)
            mysql.run_sql(self.replica.port, "CREATE USER probe@'%'; "
                          "GRANT REPLICATION CLIENT, SLAVE MONITOR ON *.* TO probe@'%'; ")
        at = mysql.run_sql(self.database.port, "SELECT @@gtid_current_pos").strip()
        mysql.run_sql(self.replica.port, f"""STOP SLAVE; SET GLOBAL gtid_slave_pos='{at}';
                CHANGE MASTER TO MASTER_HOST='127.0.0.1', MASTER_PORT={self.database.port},
                MASTER_USER='root', MASTER_USE_GTID=slave_pos; START SLAVE;""")

    # ---- learning

    def learn(self, seconds):
        """The checkout alone, through a door that knows nothing yet."""
        self.start_weir(SCENARIOS[0])
        seen = Watch(self, 0.05)
        load = self.load(Crowd(("--checkout", str(RATE), "--seconds", str(seconds)), CONNS, "checkout"),
                         self.port)
        result_of(load, seconds + 60)
        seen.end()
        self.facts = {"digest": self.digest()}
        self.end_weir(gently=True)
        with open(os.path.join(self.folder, "weir", "learned.shop"), encoding="ascii") as f:
            learned = json.load(f)
        if seconds < LEARN_S:
            mysql.pretend(learned, seen.p99("executing"))
        elif not learned["classes"][0]["executing"]:
            raise Broken(f"nothing was learned in {seconds} s: {learned}")
        self.learned = json.dumps(learned)
        most = usual_running(learned)
        self.facts.update({
            "low": thresholds(most / 3), "high": thresholds(most * 3), "replica": 1, "most": most})

    def digest(self):
        sql = ("SELECT c.country, p.kind, COUNT(*), SUM(o.amount*p.price) FROM orders o JOIN customers c"
               " ON c.id=o.customer JOIN products p ON p.id=o.product WHERE o.id BETWEEN 1 AND 2"
               " GROUP BY c.country, p.kind")
        return self.ask("/v1/proxies/shop/explain", sql=sql, user="checkout")["digest"]

    # ---- playing

    def load(self, crowd, port):
        args = [self.bench.mysql_load, "--port", str(port), "--user", crowd.user, "--password", "bench",
                "--database", "shop", "--conns", str(crowd.conns), *crowd.options]
        proc = subprocess.Popen(args, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True)
        stand_apart(proc.pid)
        return proc

    def kill_statements(self, crowds):
        """Those of a crowd that shares the checkout's user are told from it by their length."""
        for user in {c.user for c in crowds}:
            ids = mysql.run_sql(self.database.port, f"""SELECT id FROM information_schema.processlist
                    WHERE user='{user}' AND info LIKE '%COUNT(*)%'""").split()
            for number in ids:
                try:
                    mysql.run_sql(self.database.port, f"KILL QUERY {number}")
                except Broken:
                    pass    # it has ended

    def play(self, scenario, with_weir):
        """Returns what was seen: a dict for Played."""
        if scenario.has_replica:
            self.follow()
            self.facts["replica"] = self.replica.port
        if with_weir:
            self.start_weir(scenario)
        port = self.port if with_weir else self.database.port
        watch = Watch(self, SLICE_S) if with_weir else None
        checkout, crowds = None, []
        try:
            began = time.monotonic()
            checkout = self.load(Crowd(("--checkout", str(RATE), "--seconds",
                                        str(LEAD_S + TROUBLE_S + AFTER_S)), CONNS, "checkout"), port)
            time.sleep(LEAD_S)
            trouble = time.monotonic()
            crowds = [self.load(c, self.database.port if c.is_direct else port)
                      for c in scenario.crowds]
            time.sleep(TROUBLE_S)
            relief = time.monotonic()
            for load in crowds:
                load.send_signal(signal.SIGTERM)
            time.sleep(0.1)
            self.kill_statements(scenario.crowds)
            told = result_of(checkout, 300)
            others = [result_of(load, 120) for load in crowds]
        finally:
            for load in (checkout, *crowds):
                if load:
                    mysql.end(load)
                    load.stderr.close()
            if watch:
                watch.end()
            self.end_weir()
            if scenario.has_replica:
                mysql.run_sql(self.replica.port, "STOP SLAVE")
        return {"began": began, "trouble": trouble, "relief": relief, "checkout": told,
                "crowds": others, "trace": watch.seen if watch else []}


def with_settings(settings):
    return mysql.Contender("mysql-server", "MariaDB", "mariadb", "mysql", False, settings)


class Watch(threading.Thread):
    """Looks at the door every so often, until end()."""

    KEYS = ("executing", "excess", "window", "waiting", "over", "slowdown", "slow_percent",
            "server_running", "server_usual")

    def __init__(self, storm, every_s):
        super().__init__(daemon=True)
        self.storm, self.every_s, self.seen, self.over = storm, every_s, [], threading.Event()
        self.start()

    def run(self):
        while not self.over.wait(self.every_s):
            door = self.storm.ask("/v1/proxies")["proxies"][0]
            self.seen.append([round(time.monotonic(), 3), *(door.get(k) for k in self.KEYS)])

    def end(self):
        self.over.set()
        self.join()

    def p99(self, key):
        at = 1 + self.KEYS.index(key)
        return quantile([float(row[at] or 0) for row in self.seen], 99)


def most_of(bucket):
    octave, quarter = divmod(bucket - 16, 4)
    return bucket if bucket < 16 else ((5 + quarter) << (octave + 2)) - 1


def usual_running(learned):
    """The 99th percentile of the learned metric."""
    values = sorted(learned["metric"]["values"])
    beyond = sum(weight for _, weight in values)
    for bucket, weight in values:
        beyond -= weight
        if beyond <= 0.01 * sum(w for _, w in values):
            return most_of(bucket)
    raise Broken("no values of the metric were learned")


def thresholds(enter):
    return f"elevated = {{{max(1, enter):.4g}, {max(1, enter) * 0.9:.4g}}}"


def stand_apart(pid):
    """Clients and weir have machines of their own.  Here they share the processors, so they come
    first: else a latency would tell how long the client itself waited for one."""
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):
            os.setpriority(os.PRIO_PROCESS, int(thread), CLIENT_NICE)
    except PermissionError:
        pass    # not root: latencies are longer


def result_of(proc, timeout):
    try:
        out, err = proc.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        raise Broken(f"a load of the storm does not end after {timeout} s: {proc.args}") from None
    if proc.returncode:
        raise Broken(f"a load of the storm: {err.strip() or proc.returncode}")
    return json.loads(out)


# ---- what was seen


def quantile(values, percent):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, len(ordered) * percent // 100)] if ordered else 0.0


def longest_gap(ends, since, until):
    """The longest time without an end."""
    times = [since, *sorted(t for t in ends if since < t < until), until]
    return max(b - a for a, b in zip(times, times[1:]))


class Played:
    """Figures of one play; times in s, latencies in ms."""

    def __init__(self, sample):
        self.trouble, self.relief = sample["trouble"], sample["relief"]
        self.took = [(due / 1e6, took / 1e3) for due, took in sample["checkout"]["took"]]
        self.refused = len(sample["checkout"]["refused"])
        self.crowds = sample["crowds"]
        self.trace = sample["trace"]

    def latencies(self, since, until):
        return [ms for due, ms in self.took if since <= due < until]

    def p50(self):
        return quantile(self.latencies(self.trouble, self.relief), 50)

    def p99(self):
        return quantile(self.latencies(self.trouble + ONSET_S, self.relief), 99)

    def onset_p99(self):
        return quantile(self.latencies(self.trouble, self.trouble + ONSET_S), 99)

    def rate(self):
        done = [due for due, ms in self.took if self.trouble <= due + ms / 1e3 < self.relief]
        return len(done) / (self.relief - self.trouble)

    def recover_s(self, limit_ms):
        """From the relief to the end of the last slice in which a tenth took longer."""
        last, at, end = 0.0, self.relief, self.took and max(due for due, _ in self.took)
        while at < end:
            if quantile(self.latencies(at, at + SLICE_S), 90) > limit_ms:
                last = at + SLICE_S - self.relief
            at += SLICE_S
        return last

    def stop_s(self):
        return longest_gap([due + ms / 1e3 for due, ms in self.took], self.trouble, self.relief)

    def crowd_stop_s(self):
        ends = [(due + us) / 1e6 for c in self.crowds for due, us in c["took"]]
        return longest_gap(ends, self.trouble, self.relief)

    def crowd_rate(self):
        ends = [(due + us) / 1e6 for c in self.crowds for due, us in c["took"]]
        return len([t for t in ends if self.trouble <= t < self.relief]) / (self.relief - self.trouble)

    def crowd_refused(self):
        return sum(len(c["refused"]) for c in self.crowds) / (self.relief - self.trouble)


# ---- the run


def build(bench):
    bench.mysql_load = os.path.join(bench.out, "mysql_load")
    bench.compile(("mysql_load", "sample"), bench.mysql_load, ("-pthread", "-lmariadb"))


def plays_of(wanted):
    """(scenario, with weir) in order; what is only compared with another is not played without."""
    asked = [s.key for s in SCENARIOS if wanted("mysql-storm", (s.key, 1), "weir")]
    needed = {BY_KEY[key].beside or key for key in asked} | {"quiet"}
    for s in SCENARIOS:
        if s.key in needed:
            yield s, False
        if s.key in asked:
            yield s, True


def measure(bench, o, wanted, note):
    plays = list(plays_of(wanted))
    if len(plays) <= 1 or o.rounds == 0:
        return
    build(bench)
    rounds = QUICK_ROUNDS if o.quick else FULL_ROUNDS if o.full else ROUNDS
    with Storm(bench) as storm:
        seconds = QUICK_LEARN_S if o.quick else LEARN_S
        try:
            storm.learn(seconds)
        except Missing as e:
            bench.missing[str(e)] = True
            return
        note(f"storm: {seconds} s of learning, usually up to {storm.facts['most']} run")
        for round_no in range(rounds):
            began = time.monotonic()
            for scenario, with_weir in plays:
                bench.samples.append({**storm.play(scenario, with_weir), "work": "mysql-storm",
                                      "contender": scenario.key + ("" if with_weir else NO_WEIR),
                                      "shape": [CONNS, 1], "round": round_no})
            note(f"storm {round_no + 1} of {rounds}: {len(plays)} plays, "
                 f"{time.monotonic() - began:.0f} s")


def print_storm(results):
    plays = {key: [Played(s) for s in results.of(key, "mysql-storm")]
             for s in SCENARIOS for key in (s.key, s.key + NO_WEIR)}
    if not plays["quiet" + NO_WEIR]:
        return
    quiet = statistics.median(p.p99() for p in plays["quiet" + NO_WEIR])
    print(f"\nstorms of {TROUBLE_S} s beside a checkout of {RATE} transactions a second; medians (ranges) of "
          f"{len(plays['quiet' + NO_WEIR])} rounds; latencies in ms, onset: the first {ONSET_S} s")
    print("\n| | weir | checkout p50 | onset p99 | p99 | checkout/s | recovers in s | longest stop s "
          "| refused | crowd/s | crowd's stop s | crowd refused/s |")
    print("|---|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|")
    for s in SCENARIOS:
        for key, weir in ((s.key + NO_WEIR, "no"), (s.key, "yes")):
            if plays[key]:
                print(f"| {s.title} | {weir} | " + " | ".join(cells_of(plays[key], quiet, s)) + " |")
    print("\ntargets of the storms")
    StormTargets(results).print_lines(plays, quiet)


def cells_of(plays, quiet, scenario):
    def each(f, digits=1):
        return with_range([f(p) for p in plays], digits)
    has_crowd = bool(scenario.crowds)
    return (each(Played.p50), each(Played.onset_p99), each(Played.p99), each(Played.rate, 0),
            each(lambda p: p.recover_s(GOAL * quiet), 2), each(Played.stop_s, 2),
            each(lambda p: p.refused, 0), each(Played.crowd_rate) if has_crowd else "",
            each(Played.crowd_stop_s, 2) if has_crowd else "",
            each(Played.crowd_refused) if has_crowd else "")


class StormTargets(Targets):
    def print_lines(self, plays, quiet):
        for key in ("user", "light"):
            p99 = plays[key] and statistics.median(p.p99() for p in plays[key])
            self.line(f"{BY_KEY[key].title}: the checkout's p99 after two samples, at most {GOAL}x the quiet one",
                      p99 / quiet if p99 else None, GOAL,
                      p99 and f"{p99:.1f} ms to {quiet:.1f} ms = {p99 / quiet:.1f}x", at_least=False)
        for s in SCENARIOS:
            without = plays[(s.beside or s.key) + NO_WEIR]
            if plays[s.key] and without:
                self.no_worse(s, plays[s.key], without, quiet)
        for key in ("spike", "idle"):
            if plays[key]:
                worst = max(p.recover_s(GOAL * quiet) + bad_s(p, GOAL * quiet) for p in plays[key])
                self.line(f"{BY_KEY[key].title}: at most a second of worse service", worst, 1,
                          f"{worst:.2f} s in the worst round", at_least=False)

    def no_worse(self, scenario, played, without, quiet):
        """Where both are as on a quiet day, their noise says nothing."""
        p99, other = (statistics.median(p.p99() for p in plays) for plays in (played, without))
        allowed = max(other, quiet) * SLACK
        rate, other_rate = (statistics.median(p.rate() for p in plays) for plays in (played, without))
        self.line(f"{scenario.title}: no worse than without weir", max(p99 / allowed, 0.97 * other_rate / rate), 1,
                  f"p99 {p99:.1f} ms to {other:.1f} ms, {rate:.0f}/s to {other_rate:.0f}/s", at_least=False)


def bad_s(played, limit_ms):
    """Slices of the trouble in which a tenth took longer."""
    at, bad = played.trouble, 0.0
    while at < played.relief:
        bad += SLICE_S * (quantile(played.latencies(at, at + SLICE_S), 90) > limit_ms)
        at += SLICE_S
    return bad
