#!/usr/bin/python3
# weir-test: timeout=300 outer=part
"""pt-archiver of the Percona Toolkit on a real MariaDB pair, a second at a time, with `weir check`
before each: examples/purge/pt-archiver.sh.

    tests/integration/ptarchiver.py [word...]
"""
import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import urllib.request

HERE = os.path.dirname(os.path.abspath(__file__))
EXAMPLE = os.path.join(HERE, "..", "..", "examples", "purge")
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(HERE, "..", "fault"))
sys.path.insert(0, EXAMPLE)

from harness import (  # noqa: E402
    BOTH, OUTER, WEIR, Server, Skip, equal, expect, main, mapping, test, text, until)
from lib_pair import shared_pair  # noqa: E402
from play import config  # noqa: E402

ROWS = 20000 if OUTER else 2000
IDENTITY = "nightly:pt-archiver"
THRESHOLD = 1.0


class Scene:
    """The pair, a table with rows, and weir, which knows the lag."""

    def __init__(self, folder):
        for program in ("mariadbd", "pt-archiver"):
            if not shutil.which(program, path=os.environ.get("PATH", "") + ":/usr/sbin"):
                raise Skip(program + " is not installed")
        self.pair, self.folder, self.purge = shared_pair(), folder, None
        self.pair.fill(ROWS)
        self.pair.settle()
        self.server = Server(folder, config=config(self.pair, THRESHOLD))
        self.client = self.server.client()
        until(lambda: self.verdict() == "granted", 30, "a first sample of the lag")

    def verdict(self):
        return text(self.client("CHECK", "test:start")[0])

    def rows(self):
        return int(self.pair.primary.ask("SELECT COUNT(*) FROM events"))

    def asks(self):
        """How often the purge was granted, as weir has counted."""
        for entry in mapping(self.client("CLIENTS"))["clients"]:
            entry = mapping(entry)
            if text(entry["name"]) == IDENTITY:
                return entry["granted"]
        return 0

    def env(self):
        return dict(os.environ, WEIR=WEIR, WEIR_URL="%s:%d" % self.server.resp)

    def start(self):
        source = "S=%s,u=shop,D=shop,t=events" % self.pair.primary.socket
        self.purge = subprocess.Popen(
            [os.path.join(EXAMPLE, "pt-archiver.sh"), IDENTITY, source, "1=1"], env=self.env(),
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            start_new_session=True)

    def end(self):
        out, _ = self.purge.communicate(timeout=120)
        equal(self.purge.returncode, 0, "exit code of the purge, which said %r" % out[-400:])

    def stop(self):
        if self.purge and self.purge.poll() is None:
            os.killpg(self.purge.pid, signal.SIGKILL)
            self.purge.wait()
        self.pair.replica.ask("START SLAVE SQL_THREAD")  # for the next test, when one ends early


@contextlib.contextmanager
def scene(folder):
    s = Scene(folder)
    try:
        yield s
    finally:
        s.stop()


@test("pt-archiver asks weir, and purges every row while the replica keeps up", outer=BOTH)
def purges_all(folder):
    with scene(folder) as s:
        s.start()
        s.end()
        equal(s.rows(), 0, "rows that are left")
        s.pair.settle()
        equal(s.pair.archived(), ROWS, "rows that the replica has archived")
        expect(s.asks() >= 1, "it did not ask")


@test("pt-archiver deletes nothing while the replica is behind, and goes on when it is back",
      outer=BOTH)
def waits_for_the_replica(folder):
    with scene(folder) as s:
        s.pair.replica.ask("STOP SLAVE SQL_THREAD")
        until(lambda: s.verdict() == "refused", 30, "a refusal")
        s.start()
        until(lambda: parked(s) == 1, 30, "an ask that waits")
        equal(s.rows(), ROWS, "rows while the replica is behind")
        equal(s.purge.poll(), None, "exit code while the replica is behind")
        s.pair.replica.ask("START SLAVE SQL_THREAD")
        s.end()
        equal(s.rows(), 0, "rows that are left")
        s.pair.settle()
        equal(s.pair.archived(), ROWS, "rows that the replica has archived")


def parked(s):
    with urllib.request.urlopen("http://%s:%d/metrics" % s.server.http, timeout=10) as answer:
        return int(re.search(rb"(?m)^weir_checks_waiting (\d+)", answer.read()).group(1))


if __name__ == "__main__":
    main()
