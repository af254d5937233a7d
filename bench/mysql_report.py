"""What is printed of the MySQL door: each way next to the direct one of the same round."""

import statistics

from mysql import SLICE_MS, THREADS, TITLE, WAYS, WORKS
from report import Targets, number

RELAY_GOAL = 1.1        # CPU per query, times the byte-copying relay's
USER_GOAL_US = 2        # user time per query
ADDED_GOAL_US = 20      # median latency at one connection, more than direct
# ProxySQL's ratios to direct as they were measured with the same method on two cores (2.7.2, two
# threads): Debian has no package of it, so most runs cannot measure it.
PROXYSQL_RATIO = {
    ("point_select", 1): 0.44, ("point_select", 8): 0.40, ("point_select", 64): 0.38,
    ("read_only", 1): 0.35, ("read_only", 8): 0.44, ("read_only", 64): 0.46,
    ("read_write", 1): 0.28, ("read_write", 8): 0.43, ("read_write", 64): 0.49,
}
PROXYSQL_GOAL = 1.3
ENOUGH_USER_US = 50000   # five ticks: less says nothing about the user time


def quartiles(values):
    if len(values) < 2:
        return values[0], values[0], values[0]
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return low, middle, high


class Cell:
    """The slices of one workload at one number of threads."""

    def __init__(self, results, work, threads):
        self.work, self.threads = work, threads
        self.slices = {key: {s["round"]: s for s in results.of(key, "mysql-" + work, (threads, 1))}
                       for key, _ in WAYS}
        self.pooled = {key: s for key, _ in WAYS
                       for s in results.of(key, "mysql-latency-" + work, (threads, 1))}

    def keys(self):
        return [key for key, _ in WAYS if self.slices[key]]

    def ratios(self, key, other="direct"):
        """Of the rates in the same round."""
        others = self.slices[other]
        return [s["ops"] / others[r]["ops"] for r, s in self.slices[key].items()
                if r in others and others[r]["ops"]]

    def ratio(self, key, other="direct"):
        """The quartiles over the rounds, or None."""
        ratios = self.ratios(key, other)
        return quartiles(ratios) if ratios else None

    def added_us(self, key):
        """How much later the median transaction of a slice ends than in the direct one's."""
        direct = self.slices["direct"]
        added = [s["p50_us"] - direct[r]["p50_us"] for r, s in self.slices[key].items()
                 if r in direct]
        return quartiles(added) if added else None

    def rate(self, key):
        return statistics.median(s["ops"] / s["seconds"] for s in self.slices[key].values())

    def cpu_us(self, key):
        """Of a way's process, per query: the quartiles over the slices."""
        values = [s["way_us"] / s["queries"] for s in self.slices[key].values()
                  if "way_us" in s and s["queries"]]
        return quartiles(values) if values else None

    def of_relay(self, key):
        """CPU per query next to the relay's in the same round."""
        relay = self.slices["relay"]
        values = [s["way_us"] / s["queries"] / (relay[r]["way_us"] / relay[r]["queries"])
                  for r, s in self.slices[key].items()
                  if "way_us" in s and s["queries"] and r in relay and relay[r]["queries"]
                  and relay[r]["way_us"]]
        return quartiles(values) if values else None

    def user_us(self, key):
        """Per query, over all slices, as the kernel counts it in ticks; None when too few."""
        slices = [s for s in self.slices[key].values() if "way_user_us" in s]
        used = sum(s["way_user_us"] for s in slices)
        return used / sum(s["queries"] for s in slices) if used >= ENOUGH_USER_US else None

    def of_database(self, key):
        slices = [s for s in self.slices[key].values() if "way_us" in s and s.get("database_us")]
        values = [s["way_us"] / s["database_us"] for s in slices]
        return statistics.median(values) if values else None

    def errors(self, key):
        return sum(s["errors"] for s in self.slices[key].values())


def latency(us):
    return f"{us:,.0f} us" if us < 1000 else f"{us / 1000:.1f} ms"


def connections(n):
    return f"{n} connection{'s' if n > 1 else ''}"


def print_cell(cell):
    keys = cell.keys()
    rounds = len(cell.slices["direct"])
    print(f"\n{cell.work}, {connections(cell.threads)}, {rounds} rounds")
    print(f"  {'':20} {'to direct':>9}  {'quartiles':>11}  {'queries/s':>9}  {'p50':>8} {'p95':>8}  "
          f"{'CPU us':>6}  {'quartiles':>11}  {'user us':>7}  {'to relay':>8}  {'to database':>11}")
    for key in keys:
        low, middle, high = quartiles(cell.ratios(key))
        cpu, of_relay = cell.cpu_us(key), cell.of_relay(key)
        pooled = cell.pooled[key]
        line = (f"  {TITLE[key]:20} {middle:9.2f}  {low:5.2f}-{high:5.2f}  {cell.rate(key):9,.0f}  "
                f"{latency(pooled['all_p50_us']):>8} {latency(pooled['all_p95_us']):>8}")
        if cpu:
            line += (f"  {cpu[1]:6.1f}  {cpu[0]:5.1f}-{cpu[2]:5.1f}  "
                     f"{number(cell.user_us(key)):>7}  "
                     f"{f'{of_relay[1]:.2f}x' if of_relay else '-':>8}  "
                     f"{number(cell.of_database(key)):>11}")
        if cell.errors(key):
            line += f"  ({cell.errors(key)} transactions retried)"
        print(line)


def print_added(cells):
    cells = [c for c in cells if c.threads == 1]
    if not cells:
        return
    print("\nadded median latency per transaction at 1 connection, us (quartiles over the rounds)")
    for c in cells:
        for key in c.keys():
            if key != "direct":
                low, middle, high = c.added_us(key)
                print(f"  {c.work:14} {TITLE[key]:20} {middle:8.1f}  ({low:.1f} - {high:.1f})")


def print_sysbench(results):
    rows = [(work, n, key) for work in WORKS for n in THREADS for key, _ in WAYS
            if results.of(key, "mysql-sysbench-" + work, (n, 1))]
    if not rows:
        return
    print("\nsysbench, one run a cell: orders of magnitude only")
    print(f"  {'':35} {'queries/s':>9}  {'to direct':>9}  {'p95':>8}  {'CPU us':>6}  "
          f"{'to database':>11}")
    for work, n, key in rows:
        (s,) = results.of(key, "mysql-sysbench-" + work, (n, 1))
        ratio = results.ratio(key, "direct", "mysql-sysbench-" + work, (n, 1))
        cpu = s["way_us"] / s["ops"] if "way_us" in s else None
        share = s["way_us"] / s["database_us"] if "way_us" in s else None
        print(f"  {work:12} {n:2}  {TITLE[key]:18} {s['ops'] / s['seconds']:9,.0f}  {ratio:9.2f}  "
              f"{latency(s['p95_us']):>8}  {number(cpu):>6}  {number(share):>11}")


def print_ratios(cells):
    """Every cell at a glance, in markdown."""
    print("\nthroughput, ratio to direct (quartiles)\n")
    print("| | " + " | ".join(f"{c.work} {c.threads}" for c in cells) + " |")
    print("|---" * (len(cells) + 1) + "|")
    for key in cells[0].keys():
        texts = ["{1:.2f} ({0:.2f}-{2:.2f})".format(*quartiles(c.ratios(key))) if c.ratios(key)
                 else "-" for c in cells]
        print(f"| {TITLE[key]} | " + " | ".join(texts) + " |")


class MysqlTargets(Targets):
    """The worst cell decides each line; the other cells that fall short are named below it."""

    def __init__(self, results, cells):
        super().__init__(results)
        self.cells = cells

    def worst(self, title, goal, value_of, at_least=True, unit=""):
        """value_of(cell) is the quartiles of the rounds, or None; the median is judged."""
        def told(value, cell):
            spread = f" (quartiles {value[0]:.2f} - {value[2]:.2f})" if value[0] < value[2] else ""
            return f"{value[1]:.2f}{unit}{spread} in {cell.work}, {connections(cell.threads)}"

        known = [(value_of(cell), cell) for cell in self.cells]
        known = sorted(((v, c) for v, c in known if v), key=lambda pair: pair[0][1])
        if not known:
            self.line(title, None, goal, "")
            return
        if not at_least:
            known.reverse()
        self.line(title, known[0][0][1], goal, "worst " + told(*known[0]), at_least)
        for value, cell in known[1:]:
            if value[1] < goal if at_least else value[1] > goal:
                print(f"  {'':14}   also {told(value, cell)}")

    def throughput(self):
        def to_proxysql(cell):
            measured, mine = cell.ratio("weir", "proxysql"), cell.ratio("weir")
            known = PROXYSQL_RATIO[cell.work, cell.threads]
            return measured or (mine and [v / known for v in mine])

        self.worst("throughput, in every cell at least HAProxy's", 1,
                   lambda cell: cell.ratio("weir", "haproxy"))
        self.worst(f"throughput to direct, in every cell at least {PROXYSQL_GOAL}x ProxySQL's",
                   PROXYSQL_GOAL, to_proxysql)

    def cpu(self):
        def user(cell):
            """One number: there is too little of it in a round."""
            us = cell.user_us("weir")
            return us and (us, us, us)

        self.worst(f"CPU per query, in every cell at most {RELAY_GOAL}x the relay's", RELAY_GOAL,
                   lambda cell: cell.of_relay("weir"), at_least=False)
        self.worst(f"user time per query, in every cell at most {USER_GOAL_US} us", USER_GOAL_US,
                   user, at_least=False, unit=" us")

    def added(self):
        """Of a point select: a transaction of many queries adds as many times as much.  The relay's
        own figure stands beside it: it is what the kernel takes for the way through a proxy."""
        cells = [c for c in self.cells if c.threads == 1 and c.work == "point_select"]
        value = cells and cells[0].added_us("weir")
        relay = cells and cells[0].added_us("relay")
        self.line(f"added median latency of a point select at 1 connection, at most {ADDED_GOAL_US} "
                  "us", value[1] if value else None, ADDED_GOAL_US,
                  value and f"{value[1]:.1f} us (quartiles {value[0]:.1f} - {value[2]:.1f})"
                  + (f"; the relay {relay[1]:.1f} us" if relay else ""), at_least=False)


def print_mysql(results):
    if not any(s["work"].startswith("mysql-") for s in results.samples):
        return
    cells = [Cell(results, work, n) for work in WORKS for n in THREADS]
    cells = [c for c in cells if c.slices["direct"]]
    if cells:
        print(f"\nways to a MySQL server: each in slices of about {SLICE_MS} ms, in random order, "
              "next to the direct one of its round")
    for cell in cells:
        print_cell(cell)
    print_added(cells)
    print_sysbench(results)
    if cells:
        print_ratios(cells)
        print("\ntargets of the MySQL door")
        targets = MysqlTargets(results, cells)
        targets.throughput()
        targets.cpu()
        targets.added()
