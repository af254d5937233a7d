"""The check door under load: HTTP checks next to nginx, RESP CHECK pipelined, and the disk.

The servers have one core and the generators the other, so that neither takes time from the other:
what is compared is what one core of a server answers.  nginx says `return 200` and nothing else,
with one worker and without a log; it reads no clock for a metric and counts nobody, so it is what
HTTP itself costs.  weir answers freno's check of a target that it measures, and counts who asked.

Both servers run all the time and are measured in turns.

Where the time of a check goes:

    taskset -c 0 build/weir serve --data /tmp/d -c weir.conf &
    taskset -c 1 build/bench/check_load --port 7379 --conns 4 --depth 128 --seconds 3 &
    perf record -F 999 -g -p $(pidof weir) -- sleep 2 && perf report --no-children -g none
"""

import json
import os
import re
import shutil
import signal
import subprocess
import time

from peers import READY_S, Broken, Missing, free_port, wait_for_line, wait_for_port

HTTP_SHAPES = ((16, 1), (64, 1))
RESP_SHAPES = ((1, 32), (4, 32), (1, 128), (4, 128))
HALF_SHAPE = (64, 1)
WRITERS = 4
SERVER_CORE, LOAD_CORE = "0", "1"
WARM_S = 0.1
ASK = "CHECK bench:check:load"
CONFIG = """target "machine" {
        kind = "host"
        check = {"load_per_core"}
        metric "load_per_core" { threshold = 1000000 }
}
"""
NGINX = """daemon off;
master_process off;
worker_processes 1;
pid %(folder)s/nginx.pid;
error_log %(folder)s/error.log;
events { worker_connections 1024; multi_accept on; }
http {
        access_log off;
        client_body_temp_path %(folder)s/body;
        proxy_temp_path %(folder)s/proxy;
        fastcgi_temp_path %(folder)s/fastcgi;
        uwsgi_temp_path %(folder)s/uwsgi;
        scgi_temp_path %(folder)s/scgi;
        keepalive_requests 1000000000;
        server {
                listen 127.0.0.1:%(port)d;
                location / { return 200; }
        }
}
"""
POST = """wrk.method = "POST"
wrk.headers["Content-Type"] = "application/json"
wrk.body = '{"identity":"bench:check:load"}'
"""
# Key, for people, path.
HTTP = (
    ("nginx", "nginx, return 200", "/"),
    ("weir-freno", "weir, /check/app/..", "/check/bench:check:load/host/machine"),
    ("weir-post", "weir, POST /v1/check", "/v1/check"),
    ("weir-health", "weir, /healthz", "/healthz"),
)
PATH = {key: path for key, _, path in HTTP}
TITLE = {key: title for key, title, _ in HTTP}


def pinned(core, args):
    return ["taskset", "-c", core, *args] if os.cpu_count() > 1 else args


def cpu_ns(pid):
    """What all threads of a process have used."""
    total = 0
    for thread in os.listdir(f"/proc/{pid}/task"):
        try:
            with open(f"/proc/{pid}/task/{thread}/schedstat", encoding="ascii") as f:
                total += int(f.read().split()[0])
        except OSError:
            pass  # it has ended
    return total


class Process:
    """A server on the servers' core."""

    def __init__(self, args, folder, stdout=subprocess.DEVNULL):
        with open(os.path.join(folder, "log"), "ab") as log:
            self.proc = subprocess.Popen(pinned(SERVER_CORE, args), stdin=subprocess.DEVNULL,
                                         stdout=stdout, stderr=log)
        self.pid = self.proc.pid  # taskset becomes the server

    def stop(self):
        self.proc.send_signal(signal.SIGKILL)
        self.proc.wait()
        if self.proc.stdout:
            self.proc.stdout.close()


class Checks:
    """nginx and weir, both running; `with` ends them and removes their folders."""

    def __init__(self, bench):
        self.bench, self.folder = bench, bench.folder()
        self.nginx = self.weir = None
        self.ports = {}

    def __enter__(self):
        for program in ("wrk", "nginx", "taskset"):
            if not find(program):
                raise Missing(f"{program} is not installed: tools/deps bench installs it")
        os.makedirs(os.path.join(self.folder, "weir"))
        try:
            self._start_nginx()
            self._start_weir()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for server in (self.nginx, self.weir):
            if server:
                server.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _start_nginx(self):
        port = free_port()
        path = os.path.join(self.folder, "nginx.conf")
        with open(path, "w", encoding="ascii") as f:
            f.write(NGINX % {"folder": self.folder, "port": port})
        self.nginx = Process([find("nginx"), "-p", self.folder, "-e",
                              os.path.join(self.folder, "error.log"), "-c", path], self.folder)
        wait_for_port(self.nginx.proc, port, time.monotonic() + READY_S)
        self.ports["nginx"] = port

    def _start_weir(self):
        config = os.path.join(self.folder, "weir.conf")
        with open(config, "w", encoding="ascii") as f:
            f.write(CONFIG)
        with open(os.path.join(self.folder, "post.lua"), "w", encoding="ascii") as f:
            f.write(POST)
        self.weir = Process([self.bench.weir, "serve", "--data", os.path.join(self.folder, "weir"),
                             "-c", config, "--resp", "127.0.0.1:0", "--http", "127.0.0.1:0"],
                            self.folder, subprocess.PIPE)
        line = wait_for_line(self.weir.proc, r"(?m)^ready .*resp=", time.monotonic() + READY_S)
        found = re.search(r"http=\S*:(\d+) resp=\S*:(\d+)", line)
        self.ports["http"], self.ports["resp"] = int(found.group(1)), int(found.group(2))
        self._wait_for_a_sample()

    def _wait_for_a_sample(self):
        """An ask before the first sample is not granted."""
        deadline = time.monotonic() + READY_S
        while self._run_load(["--get", PATH["weir-freno"]], (1, 1), 0.01).returncode != 0:
            if time.monotonic() > deadline:
                raise Broken("weir has no sample of the machine's load")
            time.sleep(0.05)

    def server(self, key):
        return self.nginx if key == "nginx" else self.weir

    def port(self, key):
        return self.ports["nginx" if key == "nginx" else "http"]

    # ---- measurements

    def wrk(self, key, shape, seconds):
        """As many as the server can; wrk waits for each answer."""
        server = self.server(key)
        args = ["wrk", "-t1", f"-c{shape[0]}", f"-d{max(seconds, 1):.0f}s"]
        if key == "weir-post":
            args += ["-s", os.path.join(self.folder, "post.lua")]
        args.append(f"http://127.0.0.1:{self.port(key)}{PATH[key]}")
        used = cpu_ns(server.pid)
        done = subprocess.run(pinned(LOAD_CORE, args), capture_output=True, text=True, timeout=60,
                              check=False)
        used = cpu_ns(server.pid) - used
        found = re.search(r"(\d+) requests in ([\d.]+)(m?s)", done.stdout)
        if done.returncode or not found or re.search("Non-2xx|Socket errors", done.stdout):
            raise Broken(f"wrk, {TITLE[key]}: {done.stdout} {done.stderr}")
        took = float(found.group(2)) / (1000 if found.group(3) == "ms" else 1)
        return {"ops": int(found.group(1)), "seconds": took, "server_us": used / 1000}

    def half(self, key, rate, seconds, writers=0):
        """An open loop at a rate, with or without connections that write beside it."""
        options = ["--get", PATH[key], "--rate", f"{rate:.0f}", "--writers", str(writers),
                   "--write-port", str(self.ports["resp"])]
        return self.load(options, HALF_SHAPE, seconds, key)

    def resp(self, shape, seconds):
        return self.load(["--resp", ASK], shape, seconds, "weir-resp")

    def load(self, options, shape, seconds, key):
        done = self._run_load(options, shape, seconds, key)
        if done.returncode != 0:
            raise Broken(f"{key} {shape}: {done.stderr.strip()}")
        return json.loads(done.stdout)

    def _run_load(self, options, shape, seconds, key="weir-freno"):
        port = self.ports["resp"] if "--resp" in options else self.port(key)
        return subprocess.run(
            pinned(LOAD_CORE, [self.bench.check_load, "--port", str(port), "--conns",
                               str(shape[0]), "--depth", str(shape[1]), "--seconds", str(seconds),
                               "--warm", str(WARM_S), "--pid", str(self.server(key).pid),
                               *options]),
            capture_output=True, text=True, timeout=60, check=False)


def find(program):
    return shutil.which(program, path=os.environ.get("PATH", "") + ":/usr/sbin")


def build(bench):
    bench.check_load = os.path.join(bench.out, "check_load")
    bench.compile(("check_load", "sample"), bench.check_load)


def round_of_checks(bench, o, round_no, wanted):
    """wanted(work, shape, key) says what to measure."""
    def keep(key, work, shape, result):
        bench.samples.append({"contender": key, "shape": list(shape), "round": round_no, **result,
                              "work": work})

    http_shapes = HTTP_SHAPES[-1:] if o.quick else HTTP_SHAPES
    resp_shapes = RESP_SHAPES[-1:] if o.quick else RESP_SHAPES
    order = HTTP if round_no % 2 == 0 else HTTP[::-1]
    cells = [(key, shape) for shape in http_shapes for key, _, _ in order
             if wanted("check-http", shape, key)]
    halves = [key for key in ("nginx", "weir-freno") if wanted("check-half", HALF_SHAPE, key)]
    pipes = [shape for shape in resp_shapes if wanted("check-resp", shape, "weir-resp")]
    if not cells and not halves and not pipes:
        return
    seconds, most = max(o.seconds, 1.0), {}
    with Checks(bench) as checks:
        for key, shape in cells:
            result = checks.wrk(key, shape, seconds)
            keep(key, "check-http", shape, result)
            if shape == HALF_SHAPE:
                most[key] = result["ops"] / result["seconds"]
        for key in halves:
            if key not in most:
                result = checks.wrk(key, HALF_SHAPE, seconds)
                most[key] = result["ops"] / result["seconds"]
            keep(key, "check-half", HALF_SHAPE, checks.half(key, most[key] / 2, seconds))
        if "weir-freno" in halves:
            keep("weir-freno", "check-disk", HALF_SHAPE,
                 checks.half("weir-freno", most["weir-freno"] / 2, seconds, WRITERS))
        for shape in pipes:
            keep("weir-resp", "check-resp", shape, checks.resp(shape, o.seconds))
