"""What is printed: a block per workload and shape, the matrix of ratios, and the targets."""

import statistics

from peers import BACKLOG, CONTENDERS, ECHO_SHAPE, LOCK_SHAPES, PATTERNS, TABLE_SHAPES

WORKS = (("put", "enqueue"), ("drain", "claim + complete"), ("cycle", "full cycle"))
# Measured in shapes of their own, and next to a row of weir's own.
TABLE_WORKS = (("table", "full cycle, 25 jobs in a claim"),
               ("backlog", f"the same behind a backlog of {BACKLOG:,} jobs"))
BASE = {"lock": "weir-lock", "table": "weir-single", "backlog": "weir-single"}
BY_KEY = {c.key: c for c in CONTENDERS}
SYNCED_PEERS = ("list", "stream", "beanstalkd")
LOSSY_PEERS = ("list-lossy", "stream-lossy", "beanstalkd-lossy")
LOCK_PEERS = ("redis-lock", "redis-lock-lossy")


def shape_name(shape):
    conns, depth = shape
    return f"{conns} connection{'s' if conns > 1 else ''}" + (f" x {depth}" if depth > 1 else "")


def number(v):
    if v is None:
        return "-"
    if v >= 100:
        return f"{v:,.0f}"
    return f"{v:.1f}" if v >= 10 else f"{v:.2f}"


class Results:
    """The samples, asked by contender, workload and shape."""

    def __init__(self, samples):
        self.samples = samples

    def of(self, contender, work, shape=None):
        return [s for s in self.samples if s["contender"] == contender and s["work"] == work
                and (shape is None or tuple(s["shape"]) == tuple(shape))]

    def rates(self, contender, work, shape):
        return [s["ops"] / s["seconds"] for s in self.of(contender, work, shape) if s["seconds"]]

    def rate(self, contender, work, shape):
        rates = self.rates(contender, work, shape)
        return statistics.median(rates) if rates else None

    def per_job(self, contender, work, shape, field):
        values = [s[field] / s["ops"] for s in self.of(contender, work, shape)
                  if s["ops"] and field in s]
        return statistics.median(values) if values else None

    def ratio(self, a, b, work, shape):
        """Ratio of the medians."""
        x, y = self.rate(a, work, shape), self.rate(b, work, shape)
        return x / y if x and y else None

    def ratio_spread(self, a, b, work, shape):
        """The ratio in each round: neighbours in time, so a slow disk slowed both."""
        by_round = {s["round"]: s["ops"] / s["seconds"] for s in self.of(b, work, shape)}
        ratios = [s["ops"] / s["seconds"] / by_round[s["round"]] for s in self.of(a, work, shape)
                  if by_round.get(s["round"])]
        return (min(ratios), max(ratios)) if ratios else None

    def best(self, peers, work, shape):
        known = [(self.rate(p, work, shape), p) for p in peers if self.rate(p, work, shape)]
        return max(known)[1] if known else None

    def pooled(self, contender, work):
        """All latencies of all rounds, sorted."""
        return sorted(v for s in self.of(contender, work) for v in s["all_us"])


def percentile(values, p):
    return values[min(len(values) - 1, int(len(values) * p / 100))]


def worker_name(shape):
    return f"{shape[0]} worker{'s' if shape[0] > 1 else ''}"


def print_block(results, work, title, name, shape):
    """The rates of everyone in one shape, best read from the top: weir, synced peers, lossy."""
    rows = [c for c in CONTENDERS if results.rates(c.key, work, shape)]
    if not rows:
        return
    unit = "locks/s" if work == "lock" else "jobs/s"
    print(f"\n{title}, {name}")
    print(f"  {'':25} {unit:>9}  {'min - max':>19}  {'CPU us':>7}  {'syncs':>7}  "
          f"{'disk B':>6}  {'gen us':>6}  weir is")
    for c in rows:
        rates = results.rates(c.key, work, shape)
        cpu = results.per_job(c.key, work, shape, "server_us")
        syncs = results.per_job(c.key, work, shape, "flushes")
        disk = results.per_job(c.key, work, shape, "written_bytes")
        gen = results.per_job(c.key, work, shape, "generator_us")
        base = BASE.get(work, "weir") + ("-unix" if c.is_unix else "")
        ratio = None if c.server == "weir" else results.ratio(base, c.key, work, shape)
        note = "" if c.synced else "  (lossy)"
        print(f"  {c.title:25} {statistics.median(rates):9,.0f}  "
              f"{min(rates):8,.0f} - {max(rates):8,.0f}  {number(cpu):>7}  {'-' if syncs is None else f'{syncs:.3f}':>7}  "
              f"{'-' if disk is None else f'{disk:,.0f}':>6}  {number(gen):>6}  {f'{ratio:.2f}x' if ratio else '':7}{note}")


def print_disk(results):
    print("\nthe disk itself: 300 bytes and fdatasync, one at a time")
    for mode in ("append", "overwrite"):
        rates = results.rates(mode, "raw", (1, 1))
        if not rates:
            continue
        idle = results.pooled(mode, "raw-idle")
        line = (f"  {mode:10} {statistics.median(rates):8,.0f}/s  "
                f"({min(rates):,.0f} - {max(rates):,.0f})")
        if idle:
            line += (f"   idle, one every 5 ms: p50 {percentile(idle, 50):,.0f} us, "
                     f"p99 {percentile(idle, 99):,.0f} us, max {idle[-1]:,.0f} us")
        print(line)


def print_tcp(results):
    """What the kernel alone takes of each command at 64 connections."""
    rates = results.rates("echo", "echo", ECHO_SHAPE)
    if not rates:
        return
    rate = statistics.median(rates)
    print("\nTCP itself: 64 connections, a server that only echoes")
    print(f"  requests   {rate:8,.0f}/s  ({min(rates):,.0f} - {max(rates):,.0f})   CPU us of the server "
          f"{number(results.per_job('echo', 'echo', ECHO_SHAPE, 'server_us'))}, of the client "
          f"{number(results.per_job('echo', 'echo', ECHO_SHAPE, 'generator_us'))}")
    for key, work, title in (("weir", "cycle", "full cycle"), ("weir-lock", "lock", "lock + unlock")):
        of_weir = results.rate(key, work, ECHO_SHAPE)
        if of_weir:  # both are two requests with their answers
            print(f"  {title}: weir has {2 * of_weir / rate:.0%} of that")


def print_latency(results):
    keys = [c.key for c in CONTENDERS if results.of(c.key, "latency")]
    if not keys:
        return
    print("\nfrom enqueue to start on an idle system, us (a worker waits, one job every 5 ms)")
    for key in keys:
        v = results.pooled(key, "latency")
        print(f"  {BY_KEY[key].title:25} p50 {percentile(v, 50):8,.0f}  "
              f"p99 {percentile(v, 99):8,.0f}  max {v[-1]:8,.0f}  ({len(v)} jobs)")


def print_memory(results):
    rows = [s for c in CONTENDERS for s in results.of(c.key, "memory")]
    if not rows:
        return
    print("\nmemory per pending job beside its 200-byte payload, and recovery after kill -9")
    print(f"  {'':25} {'jobs':>9}  {'bytes/job':>9}  {'after recovery':>14}  {'recovery':>9}  "
          f"{'disk':>9}")
    for s in rows:
        print(f"  {BY_KEY[s['contender']].title:25} {s['jobs']:9,}  {s['bytes_per_job']:9.0f}  "
              f"{s['recovered_bytes_per_job']:14.0f}  {s['recovery_s']:7.2f} s  "
              f"{s['disk_bytes'] / 1e6:6,.0f} MB")
        if s["replay_said"] and s["contender"].startswith("weir"):
            print(f"    it says: {s['replay_said']}")


def print_matrix(results, shapes):
    print("\nweir to each peer, ratio of medians")
    print(f"  {'':42}" + "".join(f"{f'{c}x{d}':>8}" for c, d in shapes))
    for work, title, keys in (*((w, t, SYNCED_PEERS + LOSSY_PEERS) for w, t in WORKS),
                              ("lock", "lock + unlock", LOCK_PEERS)):
        for key in keys:
            ratios = [results.ratio(BASE.get(work, "weir"), key, work, s) for s in shapes]
            if not any(ratios):
                continue
            peer = BY_KEY[key]
            name = f"{title} / {peer.title}" + ("" if peer.synced else " *")
            print(f"  {name:42}" + "".join(f"{f'{r:.2f}' if r else '-':>8}" for r in ratios))
    print("  * lossy: answered before it is on disk; weir is synced in every row")


def with_range(values, digits=1):
    """The median, and the range when there is one; "" of nothing."""
    if not values:
        return ""
    text = f"{statistics.median(values):,.{digits}f}"
    if len(values) > 1:
        text += f" ({min(values):,.{digits}f} - {max(values):,.{digits}f})"
    return text


class Targets:
    """The promises, one line each: PASS, or by how much it falls short."""

    def __init__(self, results):
        self.results = results

    def line(self, title, value, goal, text, at_least=True):
        if value is None:
            print(f"  {'not run':14} {title}")
            return
        met = value >= goal if at_least else value <= goal
        short = (goal - value) / goal if at_least else (value - goal) / goal
        verdict = "PASS" if met else f"short by {short * 100:.0f} %"
        print(f"  {verdict:14} {title}: {text}")

    def cycle(self, shape, goal):
        r = self.results
        peer = r.best(SYNCED_PEERS, "cycle", shape)
        ratio = peer and r.ratio("weir", peer, "cycle", shape)
        text = ""
        if ratio:
            low, high = r.ratio_spread("weir", peer, "cycle", shape)
            text = (f"{r.rate('weir', 'cycle', shape):,.0f} to {r.rate(peer, 'cycle', shape):,.0f} "
                    f"a second ({BY_KEY[peer].title}) = {ratio:.2f}x "
                    f"(rounds {low:.2f} - {high:.2f})")
        self.line(f"full synced cycle, {shape_name(shape)}, at least {goal}x the best synced peer",
                  ratio, goal, text)
        self.cycle_notes(shape, peer)

    def cycle_notes(self, shape, peer):
        r = self.results
        for a, b, what in (("weir-3", peer, "with three commands"),
                           ("weir-claim32", peer, "with CLAIM MAX 32"),
                           ("weir-nohistory", peer, "without history"),
                           ("weir-many", "list-many", "batch verbs on both sides"),
                           ("weir-unix", "list-unix", "over Unix sockets"),
                           ("weir", r.best(LOSSY_PEERS, "cycle", shape), "against the best lossy")):
            ratio = b and r.ratio(a, b, "cycle", shape)
            if ratio:
                print(f"  {'':14}   {what}: {r.rate(a, 'cycle', shape):,.0f} to "
                      f"{r.rate(b, 'cycle', shape):,.0f} ({BY_KEY[b].title}) = {ratio:.2f}x")

    def one_connection(self):
        r = self.results
        weir = r.rate("weir", "put", (1, 1))
        raw, over = r.rate("append", "raw", (1, 1)), r.rate("overwrite", "raw", (1, 1))
        ratio = weir / raw if weir and raw else None
        text = ""
        if ratio:
            text = f"{weir:,.0f} to {raw:,.0f} a second = {ratio:.2f}x"
            if over:
                text += f"; of overwriting a preallocated file ({over:,.0f}): {weir / over:.2f}x"
        self.line("enqueue on 1 connection, at least 0.9x of raw append + fdatasync", ratio, 0.9,
                  text)

    def latency(self):
        v = self.results.pooled("weir", "latency")
        raw = self.results.pooled("overwrite", "raw-idle")
        title = "enqueue to start, idle, p99 within 2 syncs of the disk"
        if not v or not raw:
            self.line(title, None, 0, "")
            return
        syncs = percentile(v, 99) / percentile(raw, 99)
        self.line(title, syncs, 2, f"p99 {percentile(v, 99):,.0f} us = {syncs:.2f} syncs of p99 "
                  f"{percentile(raw, 99):,.0f} us; p50 {percentile(v, 50):,.0f} us = "
                  f"{percentile(v, 50) / percentile(raw, 50):.2f} syncs of p50 "
                  f"{percentile(raw, 50):,.0f} us", at_least=False)

    def compare(self, a, b, work, shape):
        """'47,004 to 26,499', and the ratio; None where one of them was not measured."""
        r = self.results
        ratio = r.ratio(a, b, work, shape)
        text = ratio and f"{r.rate(a, work, shape):,.0f} to {r.rate(b, work, shape):,.0f}"
        return ratio, text

    def compared(self, title, goal, cell, notes):
        a, b, work, shape = cell
        ratio, text = self.compare(a, b, work, shape)
        if ratio:
            low, high = self.results.ratio_spread(a, b, work, shape)
            text += f" a second = {ratio:.2f}x (rounds {low:.2f} - {high:.2f})"
        self.line(title, ratio, goal, text)
        for what, *other in notes:
            ratio, text = self.compare(*other)
            if ratio:
                print(f"  {'':14}   {what}: {text} = {ratio:.2f}x")

    def lock(self):
        self.compared(
            "lock + unlock, synced, 64 connections, at least 2x Redis always", 2,
            ("weir-lock", "redis-lock", "lock", (64, 1)),
            [(shape_name(s), "weir-lock", "redis-lock", "lock", s) for s in LOCK_SHAPES[:-1]] +
            [("over Unix sockets", "weir-lock-unix", "redis-lock-unix", "lock", (64, 1)),
             ("against Redis everysec", "weir-lock", "redis-lock-lossy", "lock", (64, 1))])

    def table(self):
        """A round trip for each job on both sides; what weir can do beside it."""
        notes = [(f"{worker_name(s)}, one by one", "weir-single", "mariadb", "table", s)
                 for s in TABLE_SHAPES[:-1]]
        notes += [(f"{worker_name(s)}, 25 jobs in one write", "weir-25", "mariadb", "table", s)
                  for s in TABLE_SHAPES]
        notes += [(f"{worker_name(s)}, one by one, behind {BACKLOG:,} jobs", "weir-single",
                   "mariadb", "backlog", s) for s in TABLE_SHAPES]
        self.compared("the queue, 64 workers, one by one, at least 20x the MariaDB table queue", 20,
                      ("weir-single", "mariadb", "table", (64, 25)), notes)

    def memory(self):
        rows = self.results.of("weir", "memory")
        if not rows:
            self.line("memory and recovery", None, 0, "")
        for s in rows:
            self.line(f"at most 160 bytes per pending job, {s['jobs']:,} jobs", s["bytes_per_job"],
                      160, f"{s['bytes_per_job']:.0f} bytes", at_least=False)
            if s["jobs"] == 1000000:
                self.line("1,000,000 pending jobs recovered in under 2 s", s["recovery_s"], 2,
                          f"{s['recovery_s']:.2f} s", at_least=False)


def print_stalls(results):
    """A measurement in which nothing was answered has no ratio: it is missing in the rounds'
    spread, though not in the medians, so it is named."""
    for s in results.samples:
        if s.get("ops") == 0:
            conns, depth = s["shape"]
            print(f"stalled {s['contender']}, {s['work']} {conns}x{depth}, round "
                  f"{s['round'] + 1}: no answer in {s['seconds']:.2f} s")


def print_all(results, shapes, bench):
    print("\nWhat each contender does for a job:\n")
    print("\n".join("  " + line for line in PATTERNS.splitlines()))
    for work, title in WORKS:
        for shape in shapes:
            print_block(results, work, title, shape_name(shape), shape)
    for shape in LOCK_SHAPES:
        print_block(results, "lock", "lock + unlock", shape_name(shape), shape)
    for work, title in TABLE_WORKS:
        for shape in TABLE_SHAPES:
            print_block(results, work, title, worker_name(shape), shape)
    print_disk(results)
    print_tcp(results)
    print_latency(results)
    print_memory(results)
    print_matrix(results, shapes)
    print("\ntargets")
    targets = Targets(results)
    targets.cycle((64, 1), 2)
    targets.cycle((64, 32), 1.2)
    targets.one_connection()
    targets.latency()
    targets.memory()
    targets.lock()
    targets.table()
    print(f"\n{bench.jobs_checked:,} jobs checked by number, {bench.locks_checked:,} locks: "
          + ("none lost, none doubled, no wrong reply" if not bench.broken else "see below"))
    print_stalls(results)
    for sentence in bench.missing:
        print(f"missing {sentence}")
    for sentence in bench.broken:
        print(f"BROKEN  {sentence}")
