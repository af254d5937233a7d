"""client_library.c: a program that uses libweir, built here with the sanitizers, which does what it is
told line by line."""
import atexit
import glob
import os
import subprocess

from harness import ROOT, equal, expect

BUILT = {}
SETTINGS = ("connect_ms", "reply_ms", "step_ms", "wait_ms", "hold_ms", "backoff_ms",
            "backoff_max_ms", "k_percent", "probe_ms", "interruptible")
COUNTS = ("steps", "asks", "granted", "refused", "credited", "throttled", "connects", "failures")
NO, GO = 0, 1
SERVER, CREDIT, CLIENT, POLICY = range(4)
EAWAY, ETIMEDOUT, EASK, EDENIED, ETLS = 1, 2, 5, 4, 11


def run(*command, **options):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          timeout=240, **options)
    expect(done.returncode == 0, "%s: %s" % (" ".join(command[:6]), done.stdout[-1500:]))
    return done.stdout


def program():
    """client_library.c with the library compiled in, under the sanitizers; what that shares with
    weir comes out of the build of weir."""
    if "program" not in BUILT:
        out = os.path.join(os.environ.get("TMPDIR", "/tmp"), "client_library.%d" % os.getpid())
        build = os.environ.get("WEIR_BUILD", os.path.join(ROOT, "build", "asan"))
        run("cc", "-std=gnu17", "-D_GNU_SOURCE", "-O1", "-g", "-fsanitize=address,undefined",
            "-fno-sanitize-recover=all", "-pthread", "-I", os.path.join(ROOT, "lib"),
            "-I", os.path.join(ROOT, "src"),
            os.path.join(ROOT, "tests/integration/client_library.c"),
            *sorted(glob.glob(os.path.join(ROOT, "lib", "*.c"))),
            os.path.join(build, "libweir.a"), "-lssl", "-lcrypto", "-o", out)
        BUILT["program"] = out
        atexit.register(os.unlink, out)
    return BUILT["program"]


class Said:
    def __init__(self, line):
        words = line.rstrip("\n").split(" ", 6)
        self.verdict, self.source, self.error = map(int, words[:3])
        self.reason, self.value, self.seconds = words[3], words[4], int(words[5]) / 1e6
        self.message = words[6]

    def __repr__(self):
        return str(vars(self))


class Client:
    """The program, with one line in flight at most; `within`: the command that runs it."""

    def __init__(self, url, policy, env=None, within=(), **settings):
        # A machine that stands still is no outage, unless a test says so.
        settings = {"connect_ms": 60000, "reply_ms": 60000, **settings}
        words = ["%d=%d" % (SETTINGS.index(k), v) for k, v in settings.items()]
        self.process = subprocess.Popen([*within, program(), url, policy, *words], text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        env={**os.environ, **(env or {})})

    def send(self, *words):
        self.process.stdin.write(" ".join(map(str, words)) + "\n")
        self.process.stdin.flush()

    def read(self):
        line = self.process.stdout.readline()
        expect(line, "the program ended: %s" % self.process.poll())
        return line

    def step(self, identity="etl:nightly", cost=1, ms=0):
        self.send("step", identity, cost, ms)
        return Said(self.read())

    def check(self, identity="etl:nightly", ms=0):
        self.send("check", identity, ms)
        return Said(self.read())

    def counts(self, *words):
        self.send(*(words or ("counts",)))
        return dict(zip(COUNTS, map(int, self.read().split())))

    def end(self):
        self.process.stdin.close()
        equal(self.process.wait(30), 0, "exit code of the client")
        self.process.stdout.close()
