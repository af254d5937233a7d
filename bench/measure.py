"""The measurements: one slot (a fresh server, one shape), memory and recovery, latency, the disk and
TCP themselves."""

import json
import os
import re
import shutil
import signal
import subprocess

from peers import BACKLOG, ECHO_SHAPE, Broken, Missing, Server

SHAPES = ((1, 1), (8, 1), (64, 1), (1, 32), (8, 32), (64, 32))
QUICK_SHAPES = ((1, 1), (64, 1), (64, 32))
SLOT_WORKS = ("cycle", "put", "drain", "lock")     # in this order, on one server
PAYLOAD = 200
GAP_US = 5000       # between two jobs on the idle system
WARM_S = 0.05
TABLE_WARM_S = 0.25     # the table queue is slow: its workers are out of step only after a while


class Bench:
    """Where things lie, how long they take, and what was measured so far."""

    def __init__(self, options):
        self.options = options
        self.out = os.path.abspath(options.out)
        self.data = os.path.abspath(options.dir or os.path.join(self.out, "data"))
        self.weir = os.path.abspath(options.weir)
        self.gen = os.path.join(self.out, "gen")
        self.raw = os.path.join(self.out, "raw")
        self.echo = os.path.join(self.out, "echo")
        self.table = os.path.join(self.out, "table_queue")
        self.source = None
        self.has_table = False
        self.samples = []  # dicts: contender, work, shape, round, ...
        self.broken = []   # sentences
        self.missing = {}  # sentences, each once
        self.count = 0
        self.jobs_checked = self.locks_checked = 0

    def build(self, source):
        """The generators, all but the one that needs libmariadb; cc is the only tool needed."""
        os.makedirs(self.out, exist_ok=True)
        self.source = source
        parts = ("gen", "engine", "latency", "conn", "sample", "proto_weir", "proto_redis",
                 "proto_beanstalk", "proto_lock", "payload",
                 "record")
        self.compile(parts, self.gen)
        self.compile(("raw",), self.raw)
        self.compile(("echo",), self.echo, ("-pthread",))

    def compile(self, names, target, libraries=()):
        flags = ["-std=gnu17", "-D_GNU_SOURCE", "-O2", "-g", "-Wall", "-Wextra"]
        files = [os.path.join(self.source, n + ".c") for n in names]
        subprocess.run([os.environ.get("CC", "cc"), *flags, *files, "-o", target, *libraries],
                       check=True)

    def folder(self):
        self.count += 1
        return os.path.join(self.data, f"{self.count:05d}")

    def settle(self):
        """What others wrote is on disk before the next one is measured."""
        os.sync()

    def server(self, contender):
        self.settle()
        os.makedirs(self.data, exist_ok=True)
        return Server(contender, self.folder(), self.weir)

    def generate(self, server, shape, phases, options=(), timeout=300):
        conns, depth = shape
        where = (("--unix", server.socket_path) if server.socket_path
                 else ("--port", str(server.port)))
        args = [self.gen, "--proto", server.contender.proto, *where,
                "--conns", str(conns), "--depth", str(depth), "--payload", str(PAYLOAD),
                "--pid", str(server.proc.pid), "--dir", self.data, "--warm", str(WARM_S),
                *server.contender.gen, *options, *phases]
        what = f"{server.contender.title} {conns}x{depth} {' '.join(phases)}"
        return self.run_generator(args, what, timeout)

    def run_generator(self, args, what, timeout):
        try:
            done = subprocess.run(args, capture_output=True, text=True, timeout=timeout, check=False)
        except subprocess.TimeoutExpired as late:
            said = (late.stderr or b"").decode(errors="replace").strip()
            raise Broken(f"{what}: no end after {timeout} s; it said: {said or 'nothing'}") from late
        if done.returncode != 0:
            raise Broken(f"{what}: {done.stderr.strip() or done.returncode}")
        return [json.loads(line) for line in done.stdout.splitlines()]

    def keep(self, contender, shape, round_no, result):
        self.samples.append({"contender": contender.key, "shape": list(shape), "round": round_no,
                             **result})

    def slot(self, contender, shape, round_no, works, seconds):
        """Cycle first, as it leaves the queue empty; then put, then drain what was put."""
        with self.server(contender) as server:
            self.check_needs(server)
            phases = [f"{w}:{seconds(w, shape)}" for w in SLOT_WORKS if w in works]
            results = self.generate(server, shape, phases)
            for result in results:
                if result["work"] in contender.works:
                    self.keep(contender, shape, round_no, result)
            if "lock" in works:
                self.locks_checked += results[-1]["puts_total"]
            else:
                self.jobs_checked += results[-1]["puts_total"]
            self.check_left(server, shape, results[-1])

    def check_needs(self, server):
        needs = server.contender.needs
        if needs and not server.knows(needs):
            raise Missing(f"{server.contender.title}: this one has no {needs}")

    def check_left(self, server, shape, result):
        left = result["puts_total"] - result["acks_total"]
        pending = server.pending()
        if pending != left:
            raise Broken(f"{server.contender.title} {shape}: {left} should be left, "
                         f"the server has {pending}")

    def table_slot(self, contender, work, shape, round_no, seconds):
        """Workers that claim a batch and finish it: with nothing else in the queue, or behind a
        backlog, which stays as long as it is, as everyone claims as many jobs as it enqueues."""
        backlog = BACKLOG if work == "backlog" else 0
        with self.server(contender) as server:
            if contender.server == "mariadb":
                result = self.generate_table(server, shape, backlog, seconds)
            else:
                phases = [f"put#{backlog}"] * bool(backlog) + [f"cycle:{seconds}"]
                result = self.generate(server, shape, phases)[-1]
                self.check_left(server, shape, result)
            result["work"] = work
            self.keep(contender, shape, round_no, result)
            self.jobs_checked += result["puts_total"]

    def generate_table(self, server, shape, backlog, seconds):
        """It counts its tables itself at the end."""
        if not self.has_table:
            self.compile(("table_queue", "sample"), self.table, ("-pthread", "-lmariadb"))
            self.has_table = True
        workers, batch = shape
        args = [self.table, "--port", str(server.port), "--workers", str(workers), "--batch",
                str(batch), "--payload", str(PAYLOAD), "--backlog", str(backlog), "--pid",
                str(server.proc.pid), "--dir", self.data, "--warm", str(TABLE_WARM_S),
                "--seconds", str(seconds)]
        return self.run_generator(args, f"{server.contender.title} {workers}x{batch}", 120)[0]

    def raw_disk(self, mode, round_no, seconds, gap_us=0):
        self.settle()
        os.makedirs(self.data, exist_ok=True)
        done = subprocess.run([self.raw, "--dir", self.data, "--mode", mode, "--seconds",
                               str(seconds), "--gap-us", str(gap_us)],
                              capture_output=True, text=True, timeout=60, check=True)
        result = json.loads(done.stdout)
        result["work"] = "raw-idle" if gap_us else "raw"
        self.samples.append({"contender": mode, "shape": [1, 1], "round": round_no, **result})

    def raw_tcp(self, round_no, seconds):
        done = subprocess.run([self.echo, "--seconds", str(seconds)], capture_output=True, text=True,
                              timeout=60, check=True)
        self.samples.append({"contender": "echo", "shape": list(ECHO_SHAPE), "round": round_no,
                             **json.loads(done.stdout)})

    def latency(self, contender, round_no, samples):
        with self.server(contender) as server:
            (result,) = self.generate(server, (2, 1), [f"latency#{samples}@{GAP_US}"])
            self.keep(contender, (2, 1), round_no, result)
            self.jobs_checked += samples

    def memory(self, contender, jobs):
        """Fills a queue, weighs the server, kills it, and times the recovery."""
        with self.server(contender) as server:
            before = server.rss_bytes()
            (filled,) = self.generate(server, (64, 32), [f"put#{jobs}"], timeout=900)
            after = server.rss_bytes()
            server.proc.send_signal(signal.SIGKILL)
            server.proc.wait()
            log_before = len(server.log_text())
            server.start()
            result = {
                "work": "memory", "jobs": jobs, "rss_bytes": after - before,
                "bytes_per_job": (after - before) / jobs - PAYLOAD,
                "fill_seconds": filled["seconds"], "recovery_s": server.ready_s,
                "recovered_bytes_per_job": server.rss_bytes() / jobs - PAYLOAD,
                "disk_bytes": folder_bytes(server.folder),
                "replay_said": replay_line(server.log_text()[log_before:]),
            }
            self.keep(contender, (64, 32), 0, result)
            pending = server.pending()
            self.jobs_checked += jobs
            if pending != jobs:
                raise Broken(f"{contender.title}: {jobs} jobs were accepted, "
                             f"{pending} are there after kill -9")

    def clean(self):
        shutil.rmtree(self.data, ignore_errors=True)


def replay_line(log):
    """What the server itself said of its recovery, if it did."""
    for line in log.splitlines():
        if re.search(r"replay|recover|loaded from", line, re.IGNORECASE):
            return line.strip()
    return ""


def folder_bytes(folder):
    total = 0
    for where, _, names in os.walk(folder):
        for name in names:
            total += os.lstat(os.path.join(where, name)).st_blocks * 512
    return total
