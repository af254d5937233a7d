"""What history costs: the CPU time and the bytes of its own threads for each job that ended.

The full cycle runs as everywhere else, with the constant payload and with JSON that does not
compress to nothing (bench/payload.h).  Afterwards weir is left alone until all jobs are in history
and history's threads have not written for QUIET_S: what is put off until an idle moment is paid for
as well.  Then the difference is divided by the number of jobs:

  CPU        of all threads called history-*, from /proc/PID/task/*/schedstat
  written    the bytes of their write calls, from `wchar` of /proc/PID/task/*/io: what SQLite writes
             to the -wal file, what it moves to the main file, and all other files of history
  in pages   `write_bytes` of the same file: the same in whole pages of the page cache, also what is
             written through a mapping.  The target judges the larger of the two
  at rest    the parts of history's files that hold data (lseek SEEK_DATA), without the -wal file,
             whose pages are in the main file by then
  on disk    the disk blocks of all these files, with the room that is kept for what is to come
"""

import errno
import glob
import os
import re
import statistics
import time

from peers import Broken
from report import Targets, number, print_block, shape_name

CELLS = (("history", (64, 32)), ("json", (64, 32)), ("json", (64, 1)))
QUICK_CELLS = (("json", (64, 32)),)
PAYLOAD = {"history": "constant payload", "json": "JSON payload"}
QUIET_S = 6         # the writer moves its -wal file after 5 s without a job
STORED_S = 120      # silence beyond it is a failure
CPU_GOAL_US, WRITTEN_GOAL = 0.9, 150
KEEPS = ((64, 32, 0.9), (64, 1, 0.97))      # of the rate without history
REDIS_GOAL = 1.8


def thread_folders(pid):
    for folder in glob.glob(f"/proc/{pid}/task/*"):
        with open(f"{folder}/comm", encoding="ascii") as f:
            if f.read().startswith("history-"):
                yield folder


def used(pid):
    """What history's threads have used since they began."""
    total = {"cpu_ns": 0, "wchar": 0, "write_bytes": 0}
    for folder in thread_folders(pid):
        with open(f"{folder}/schedstat", encoding="ascii") as f:
            total["cpu_ns"] += int(f.read().split()[0])
        with open(f"{folder}/io", encoding="ascii") as f:
            io = dict(re.findall(r"(\w+): (\d+)", f.read()))
        for key in ("wchar", "write_bytes"):
            total[key] += int(io[key])
    return total


def wait_until_quiet(server, seconds=STORED_S):
    """What was used when the last job was stored, and when nothing more was written."""
    pid, deadline = server.proc.pid, time.monotonic() + seconds
    while not re.search(r"jobs_finished:0\r", server.call("INFO")):
        if time.monotonic() > deadline:
            raise Broken(f"history: not all jobs are stored after {seconds} s")
        time.sleep(0.05)
    stored = last = used(pid)
    quiet_since = time.monotonic()
    while time.monotonic() < quiet_since + QUIET_S:
        if time.monotonic() > deadline:
            raise Broken(f"history: still writes after {seconds} s")
        time.sleep(0.1)
        now = used(pid)
        if now["wchar"] != last["wchar"] or now["write_bytes"] != last["write_bytes"]:
            quiet_since = time.monotonic()
        last = now
    return stored, last


def data_bytes(path):
    """Without holes, and without room that was reserved and not yet written."""
    total = at = 0
    with open(path, "rb") as f:
        while True:
            try:
                begin = os.lseek(f.fileno(), at, os.SEEK_DATA)
            except OSError as e:
                if e.errno != errno.ENXIO:
                    raise
                return total
            at = os.lseek(f.fileno(), begin, os.SEEK_HOLE)
            total += at - begin


def at_rest(folder):
    """Right behind a wait_until_quiet(): the -wal file has been moved."""
    paths = glob.glob(f"{folder}/history.db*")
    kept = [p for p in paths if not p.endswith(("-wal", "-shm"))]
    return {"data_bytes": sum(map(data_bytes, kept)),
            "disk_bytes": sum(os.stat(p).st_blocks * 512 for p in paths)}


def check_counts(server, result):
    """Every job that ended must be in history, and as it ended."""
    wanted = {"failed": result["fails_total"],
              "complete": result["acks_total"] - result["fails_total"]}
    for status, n in wanted.items():
        said = server.call(f"DELETEMANY STATUS {status} DRYRUN")
        matched = re.search(r"matched\r\n:(\d+)", said)
        if not matched or int(matched.group(1)) != n:
            raise Broken(f"history: {n} {status} jobs should be in it; it says {said!r}")


def slot(bench, contender, cell, round_no, seconds):
    work, shape = cell
    with bench.server(contender) as server:
        before = used(server.proc.pid)
        (result,) = bench.generate(server, shape, [f"cycle:{seconds}"],
                                   ("--json",) if work == "json" else ())
        bench.jobs_checked += result["puts_total"]
        bench.check_left(server, shape, result)
        result["work"] = work
        if not contender.config:    # it keeps history
            stored, end = wait_until_quiet(server)
            jobs = result["acks_total"]
            result["history"] = {
                **{k: (end[k] - before[k]) / jobs for k in end},
                **{f"{k}_stored": (stored[k] - before[k]) / jobs for k in stored},
                **{k: v / jobs for k, v in at_rest(server.folder).items()}}
            check_counts(server, result)
        bench.keep(contender, shape, round_no, result)


def median(results, work, shape, field):
    values = [s["history"][field] for s in results.of("weir", work, shape) if "history" in s]
    return statistics.median(values) if values else None


def print_cost(results):
    cells = [c for c in CELLS if median(results, *c, "cpu_ns") is not None]
    if not cells:
        return
    print("\nwhat history costs a job: its own threads, until it is at rest")
    print(f"  {'':38} {'CPU us':>7}  {'when stored':>11}  {'written B':>9}  {'in pages':>8}  "
          f"{'at rest B':>9}  {'on disk':>8}")
    for work, shape in cells:
        cpu, stored = (median(results, work, shape, f) for f in ("cpu_ns", "cpu_ns_stored"))
        sizes = [median(results, work, shape, f) for f in ("wchar", "write_bytes", "data_bytes",
                                                           "disk_bytes")]
        print(f"  {f'{PAYLOAD[work]}, {shape_name(shape)}':38} {number(cpu / 1000):>7}  "
              f"{number(stored / 1000):>11}  {sizes[0]:9,.0f}  {sizes[1]:8,.0f}  {sizes[2]:9,.0f}  "
              f"{sizes[3]:8,.0f}")


class HistoryTargets(Targets):
    def cycles(self):
        for conns, depth, goal in KEEPS:
            shape = (conns, depth)
            self.compared(f"full cycle with history, {shape_name(shape)}, at least {goal}x of the "
                          "same without", goal, ("weir", "weir-nohistory", "cycle", shape),
                          [("JSON payload", "weir", "weir-nohistory", "json", shape)])
        shape = (64, 32)
        peer = self.results.best(("list", "stream"), "cycle", shape) or "list"
        self.compared(f"full cycle with history, {shape_name(shape)}, at least {REDIS_GOAL}x Redis "
                      "always", REDIS_GOAL, ("weir", peer, "cycle", shape), [])

    def cost(self):
        cell = ("json", (64, 32))
        cpu = median(self.results, *cell, "cpu_ns")
        self.line(f"history's CPU, JSON payload, at most {CPU_GOAL_US} us a job",
                  cpu and cpu / 1000, CPU_GOAL_US, cpu and f"{cpu / 1000:.2f} us", at_least=False)
        written = [median(self.results, *cell, f) for f in ("wchar", "write_bytes")]
        written = None if None in written else max(written)
        self.line(f"history writes, JSON payload, at most {WRITTEN_GOAL} bytes a job", written,
                  WRITTEN_GOAL, written and f"{written:,.0f} bytes", at_least=False)


def print_history(results):
    if not any(s["work"] in ("cycle", *PAYLOAD) for s in results.samples):
        return
    for shape in dict.fromkeys(shape for work, shape in CELLS if work == "json"):
        print_block(results, "json", "full cycle, JSON payload", shape_name(shape), shape)
    print_cost(results)
    print("\ntargets of history")
    targets = HistoryTargets(results)
    targets.cycles()
    targets.cost()
