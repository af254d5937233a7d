"""What the MySQL door costs a database that is well: sysbench's read-write load through the mode
enforce, next to the mode off.

All with default settings and no thresholds.  `fresh` has learned nothing yet, so nothing waits for
load.  `learned` was taught by the same load from one connection: to it 16 and 64 are a surge, the
hardest that a calm database can show it.
"""

import json
import os
import time

import mysql
from peers import free_port
from report import Targets, with_range

KINDS = (("off", "weir, off"), ("fresh", "weir, enforce, nothing learned"),
         ("learned", "weir, enforce, learned from 1"))
WORK, SCRIPT = "mysql-calm", "read_write"
THREADS = (16, 64)
ROUNDS, QUICK_ROUNDS = 3, 1
PLAY_S, QUICK_PLAY_S = 8, 4
LEARN_S = 10
GOAL = 0.97     # of the throughput in the mode off: what two runs of the same differ by
CONFIG = """target "shop" { kind = "mysql" host = "127.0.0.1" port = %(server)d user = "probe" }
mysql "shop" {
        listen = {"127.0.0.1:%(port)d"} server = "127.0.0.1:%(server)d" target = "shop"
        mode = "%(mode)s"
}
class "load" { user = "bench" }
"""


class Calm(mysql.Ways):
    """A MariaDB with sysbench's tables, and a weir of each kind before it."""

    def __enter__(self):
        super().__enter__()
        try:
            self._serve("off", "off")
            self._serve("fresh", "enforce")
            self._teach()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _serve(self, key, mode):
        folder = os.path.join(self.folder, key)
        os.makedirs(folder, exist_ok=True)
        self.ports[key] = free_port()
        self.procs[key] = mysql.start_weir(self.bench, folder, CONFIG % {
            "port": self.ports[key], "server": self.database.port, "mode": mode})
        return folder

    def _teach(self):
        folder = self._serve("learned", "enforce")
        self.sysbench_run("learned", SCRIPT, 1, LEARN_S)
        self.procs["learned"].terminate()
        self.procs["learned"].wait(timeout=60)
        mysql.end(self.procs.pop("learned"))
        path = os.path.join(folder, "weir", "learned.shop")
        with open(path, encoding="ascii") as f:
            learned = json.load(f)
        mysql.pretend(learned, 1)
        with open(path, "w", encoding="ascii") as f:
            json.dump(learned, f)
        self._serve("learned", "enforce")


def measure(bench, o, wanted, note):
    keys = [key for key, _ in KINDS if any(wanted(WORK, (n, 1), key) for n in THREADS)]
    if not keys or o.rounds == 0:
        return
    began = time.monotonic()
    with Calm(bench, []) as calm:
        for round_no in range(QUICK_ROUNDS if o.quick else ROUNDS):
            for threads in THREADS:
                for key in keys if round_no % 2 == 0 else reversed(keys):
                    seconds = QUICK_PLAY_S if o.quick else PLAY_S
                    mysql.keep(bench, WORK, threads, key, round_no,
                               calm.sysbench_run(key, SCRIPT, threads, seconds))
    note(f"mysql calm: {time.monotonic() - began:.0f} s")


def print_calm(results):
    rows = [(n, key, title) for n in THREADS for key, title in KINDS
            if results.of(key, WORK, (n, 1))]
    if not rows:
        return
    print("\na calm database: sysbench read-write, medians (ranges) of "
          f"{len(results.of(rows[0][1], WORK, (rows[0][0], 1)))} rounds\n")
    print("| connections | | queries/s | p95 ms | to off |")
    print("|---:|---|---:|---:|---:|")
    for n, key, title in rows:
        p95 = [s["p95_us"] / 1000 for s in results.of(key, WORK, (n, 1))]
        ratio = results.ratio(key, "off", WORK, (n, 1))
        print(f"| {n} | {title} | {with_range(results.rates(key, WORK, (n, 1)), 0)} | "
              f"{with_range(p95)} | {f'{ratio:.2f}' if ratio else '-'} |")
    print("\ntargets of the calm")
    targets = Targets(results)
    for n in THREADS:
        for key, title in KINDS[1:]:
            ratio = results.ratio(key, "off", WORK, (n, 1))
            spread = results.ratio_spread(key, "off", WORK, (n, 1))
            targets.line(f"{title}, {n} connections: at least {GOAL}x the mode off", ratio, GOAL,
                         ratio and f"{ratio:.2f}x (rounds {spread[0]:.2f} - {spread[1]:.2f})")
