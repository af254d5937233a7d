"""What TLS costs: weir and Redis, each plain and over TLS 1.3 with the same certificate, under the
same load of redis-benchmark at 64 connections, in turns.

What counts is the ratio of TLS to plain of each, in one run: the generator encrypts on the same
cores, and costs both the same.  The processor time of the server for a request is measured too: it
tells more on a machine that others use.  PING is protocol and TLS alone; put is a durable write.
"""

import os
import re
import shutil
import statistics
import subprocess

import peers

SHAPES = ((64, 1), (64, 32))
PAYLOAD = "x" * 200
PUTS = {"weir": ("ENQUEUE", "bench", PAYLOAD), "redis": ("LPUSH", "bench", PAYLOAD)}
CONTENDERS = ("weir", "weir-tls", "redis", "redis-tls")
# Requests for a second: enough that connecting and shaking hands do not count.
REQUESTS = {("ping", 1): 40000, ("ping", 32): 300000, ("put", 1): 10000, ("put", 32): 60000}


class Pair:
    """weir and Redis, each with a plain port and one with TLS."""

    def __init__(self, bench):
        self.folder = os.path.join(bench.data, "tls")
        self.servers, self.ports = [], {}
        shutil.rmtree(self.folder, ignore_errors=True)
        for name in ("weir", "redis"):
            os.makedirs(os.path.join(self.folder, name))
        subprocess.run([bench.weir, "tls", "self-signed", "--dir", self.path("tls")], check=True,
                       stdout=subprocess.DEVNULL)
        self.start_weir(bench)
        self.start_redis()

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def spawn(self, args, pattern):
        with open(self.path("log"), "ab") as log:
            p = subprocess.Popen(args, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log)
        self.servers.append(p)
        return peers.wait_for_line(p, pattern, peers.time.monotonic() + 60)

    def start_weir(self, bench):
        with open(self.path("weir.conf"), "w", encoding="ascii") as f:
            f.write('tls { cert = "%s" key = "%s" }\n' % (self.path("tls", "server.crt"),
                                                          self.path("tls", "server.key")))
        line = self.spawn([bench.weir, "serve", "-c", self.path("weir.conf"), "--data",
                           self.path("weir"), "--resp", "127.0.0.1:0", "--http", "127.0.0.1:0",
                           "--resp-tls", "127.0.0.1:0"], r"(?m)^ready .*resp_tls=\S+")
        self.ports["weir"] = int(re.search(r"resp=\S*:(\d+)", line).group(1))
        self.ports["weir-tls"] = int(re.search(r"resp_tls=\S*:(\d+)", line).group(1))

    def start_redis(self):
        if not shutil.which("redis-server"):
            raise peers.Missing("redis-server is not installed: tools/deps bench installs it")
        self.ports["redis"], self.ports["redis-tls"] = peers.free_port(), peers.free_port()
        self.spawn(["redis-server", "--port", str(self.ports["redis"]), "--tls-port",
                    str(self.ports["redis-tls"]), "--tls-auth-clients", "no",
                    "--tls-cert-file", self.path("tls", "server.crt"),
                    "--tls-key-file", self.path("tls", "server.key"),
                    "--tls-ca-cert-file", self.path("tls", "ca.crt"), "--bind", "127.0.0.1",
                    "--save", "", "--dir", self.path("redis"), *peers.ALWAYS],
                   "Ready to accept connections")

    def close(self):
        for p in self.servers:
            p.terminate()
            p.wait(30)
            p.stdout.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def cpu_s(self, key):
        with open("/proc/%d/stat" % self.servers["redis" in key].pid, encoding="ascii") as f:
            fields = f.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def run(self, key, work, shape, seconds):
        """Requests a second, and processor time of the server for each in us."""
        command = ("PING",) if work == "ping" else PUTS[key.split("-")[0]]
        more = ("--tls", "--cacert", self.path("tls", "ca.crt")) if key.endswith("-tls") else ()
        n = max(int(REQUESTS[work, shape[1]] * seconds), 20 * shape[0] * shape[1])
        before = self.cpu_s(key)
        done = subprocess.run(["redis-benchmark", "-h", "127.0.0.1", "-p", str(self.ports[key]),
                               "-c", str(shape[0]), "-P", str(shape[1]), "-n", str(n), "--csv",
                               *more, *command],
                              capture_output=True, text=True, timeout=300, check=False)
        found = re.findall(r'^".*?","([\d.]+)"', done.stdout, re.M)
        if done.returncode != 0 or not found:
            raise peers.Broken(f"tls: redis-benchmark on {key}: {done.stderr[-300:]}")
        return {"rate": float(found[-1]), "cpu_us": (self.cpu_s(key) - before) * 1e6 / n}


def round_of_tls(bench, o, round_no, wanted):
    cells = [(work, shape, key) for work in ("ping", "put") for shape in SHAPES
             for key in (CONTENDERS if round_no % 2 == 0 else CONTENDERS[::-1])
             if wanted("tls-" + work, shape, key)]
    if not cells:
        return
    pair = None
    try:
        pair = Pair(bench)
        for work, shape, key in cells:
            bench.samples.append({"contender": key, "work": "tls-" + work, "shape": list(shape),
                                  "round": round_no,
                                  **pair.run(key, work, shape, max(o.seconds, 0.5))})
    finally:
        if pair:
            pair.close()


def print_table(samples, field, digits):
    def median(work, shape, key):
        found = [s[field] for s in samples
                 if (s["work"], tuple(s["shape"]), s["contender"]) == (work, shape, key)]
        return statistics.median(found) if found else 0

    print(f"{'':14}{'weir':>9}{'TLS':>9}{'ratio':>7}   {'Redis':>9}{'TLS':>9}{'ratio':>7}")
    for work in ("tls-ping", "tls-put"):
        for shape in SHAPES:
            line = f"{work[4:] + ' %dx%d' % shape:14}"
            for name in ("weir", "redis"):
                plain, tls = (median(work, shape, name + end) for end in ("", "-tls"))
                ratio = f"{tls / plain:7.2f}" if plain and tls else f"{'-':>7}"
                line += f"{plain:9.{digits}f}{tls:9.{digits}f}{ratio}   "
            print(line.rstrip())


def print_tls(samples):
    samples = [s for s in samples if s["work"].startswith("tls-")]
    if not samples:
        return
    print("\nTLS 1.3 next to plain, requests a second (redis-benchmark, 64 connections)")
    print_table(samples, "rate", 0)
    print("\nprocessor time of the server for each of them, in us")
    print_table(samples, "cpu_us", 2)
