#!/usr/bin/python3
# weir-test: timeout=400
"""docs/from-freno.md does what it says: its configuration is one that weir takes, and its lines for
gh-ost, pt-online-schema-change and pt-archiver run on a real MariaDB pair, wait while the replica is
behind, and go on when it is back.  A tool that is not installed is skipped.

    tests/integration/from_freno.py [word...]
"""
import contextlib
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
EXAMPLE = os.path.join(ROOT, "examples", "purge")
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(HERE, "..", "fault"))
sys.path.insert(0, EXAMPLE)

from harness import (  # noqa: E402
    WEIR, Server, Skip, equal, expect, main, mapping, test, text, until)
from lib_pages import blocks, line_of, read_page  # noqa: E402
from lib_pair import shared_pair  # noqa: E402
from pair import USER  # noqa: E402
from play import config  # noqa: E402

ROWS = 3000
THRESHOLD = 1.0


PAGE = read_page("from-freno.md")


class Scene:
    """The pair, a table with rows, and weir, which knows the lag."""

    def __init__(self, folder, program):
        for name in ("mariadbd", program):
            if not shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin"):
                raise Skip(name + " is not installed")
        self.pair, self.tool = shared_pair(), None
        self.output = os.path.join(folder, "output")
        self.pair.fill(ROWS)
        self.pair.settle()
        self.server = Server(folder, config=config(self.pair, THRESHOLD).replace(
            'target "shop"', 'target "main1"'))
        self.client = self.server.client()
        until(lambda: self.verdict() == "granted", 30, "a first sample of the lag")

    def verdict(self):
        return text(self.client("CHECK", "test:start")[0])

    def count(self, identity, field):
        for entry in mapping(self.client("CLIENTS"))["clients"]:
            entry = mapping(entry)
            if text(entry["name"]) == identity:
                return entry[field]
        return 0

    def fall_behind(self):
        self.pair.replica.ask("STOP SLAVE SQL_THREAD")
        until(lambda: self.verdict() == "refused", 30, "a refusal")

    def start(self, line, *changes, more=()):
        """The line of the page, with the addresses of this scene in place of its own."""
        for old, new in (("http://127.0.0.1:7380", "http://%s:%d" % self.server.http),
                         ("127.0.0.1:7379", "%s:%d" % self.server.resp), *changes):
            expect(old in line or old.startswith(("http", "127")), "%s in %s" % (old, line))
            line = line.replace(old, new)
        words = shlex.split(line)
        env = dict(os.environ, WEIR=WEIR)
        while re.match(r"^[A-Z_]+=", words[0]):
            name, value = words.pop(0).split("=", 1)
            env[name] = value
        with open(self.output, "wb") as output:
            self.tool = subprocess.Popen([*words, *more], env=env, cwd=ROOT, stdout=output,
                                         stdin=subprocess.DEVNULL, stderr=subprocess.STDOUT,
                                         start_new_session=True)

    def said(self):
        with open(self.output, errors="replace") as f:
            return f.read()[-1500:]

    def end(self):
        self.tool.wait(timeout=180)
        equal(self.tool.returncode, 0, "exit code of the tool, which said %s" % self.said())

    def is_waiting(self, identity):
        """It asked more than once, was refused, and is still there."""
        if self.tool.poll() is not None and "Unknown system variable" in self.said():
            raise Skip("this version of the tool needs a newer database: " + self.said())
        expect(self.tool.poll() is None, "the tool ended: " + self.said())
        return self.count(identity, "refused") >= 3

    def has_column(self):
        return self.pair.primary.ask(
            "SELECT COUNT(*) FROM information_schema.columns WHERE table_schema = 'shop'"
            " AND table_name = 'events' AND column_name = 'extra'") == "1"

    def stop(self):
        if self.tool and self.tool.poll() is None:
            os.killpg(self.tool.pid, signal.SIGKILL)
            self.tool.wait()
        self.pair.replica.ask("START SLAVE SQL_THREAD")  # for the next test, when one ends early


@contextlib.contextmanager
def scene(folder, program):
    s = Scene(folder, program)
    try:
        yield s
    finally:
        s.stop()


@test("the configuration of the page is one that weir takes")
def configuration(folder):
    ((_, conf),) = blocks(PAGE, "conf")
    for name in ("token", "main1.password"):
        with open(os.path.join(folder, name), "w") as f:
            f.write("k3Xv9QmT2bLw7RzH5nYc8Pd4\n")
        os.chmod(f.name, 0o600)
    path = os.path.join(folder, "weir.conf")
    with open(path, "w") as f:
        f.write(conf.replace("/etc/weir/", folder + "/").replace("/var/lib/weir", folder))
    done = subprocess.run([WEIR, "config", "check", path], capture_output=True, text=True,
                          check=False, timeout=30)
    equal(done.returncode, 0, "exit code of weir config check: %s" % (done.stdout + done.stderr))


@test("every setting of freno's that the page has an answer to is in its table once")
def settings(_):
    rows = re.findall(r"^\| (`[^|]*) \|", PAGE, re.M)
    for name in ("ListenPort", "Clusters.main1", "StaticHostsSettings.Hosts", "HAProxySettings",
                 "ProxySQLSettings", "VitessSettings", "ThrottleThreshold", "IgnoreHostsCount",
                 "IgnoreHostsThreshold", "IgnoreDialTcpErrors", "IgnoreHosts", "HttpCheckPort",
                 "CacheMillis", "RaftDataDir", "ShareDomain", "MemcacheServers"):
        equal(sum("`%s`" % name in row for row in rows), 1, "rows for " + name)


@test("gh-ost waits for weir and alters the table when the replica has caught up")
def gh_ost(folder):
    with scene(folder, "gh-ost") as s:
        s.fall_behind()
        s.start(line_of(PAGE, "gh-ost"), ("--host=db1", "--host=127.0.0.1"), more=(
            "--port=%d" % s.pair.primary.port, "--user=" + USER, "--assume-rbr",
            "--serve-socket-file=" + os.path.join(folder, "gh-ost.sock")))
        until(lambda: s.is_waiting("gh-ost"), 60, "gh-ost to be refused")
        equal(s.has_column(), False, "altered while the replica is behind")
        s.pair.replica.ask("START SLAVE SQL_THREAD")
        s.end()
        equal(s.has_column(), True, "altered in the end")
        equal(int(s.pair.primary.ask("SELECT COUNT(*) FROM events")), ROWS, "rows")
        expect(s.count("gh-ost", "granted") >= 1, "it was never granted")


@test("pt-online-schema-change waits for weir and alters the table when the replica is back")
def pt_osc(folder):
    with scene(folder, "pt-online-schema-change") as s:
        s.fall_behind()
        s.start(line_of(PAGE, "pt-online-schema-change"),
                ("h=db2", "h=127.0.0.1,P=%d,u=%s" % (s.pair.replica.port, USER)),
                ("h=db1,", "h=127.0.0.1,P=%d,u=%s," % (s.pair.primary.port, USER)),
                more=("--no-check-replication-filters", "--recursion-method=none"))
        until(lambda: s.is_waiting("pt-osc"), 60, "pt-osc to be refused")
        equal(s.has_column(), False, "altered while the replica is behind")
        s.pair.replica.ask("START SLAVE SQL_THREAD")
        s.end()
        equal(s.has_column(), True, "altered in the end")
        equal(int(s.pair.primary.ask("SELECT COUNT(*) FROM events")), ROWS, "rows")
        expect("weir refuses the next chunk (429). Waiting." in s.said(), s.said())


@test("pt-online-schema-change does not begin where weir has no such target")
def pt_osc_lost(folder):
    with scene(folder, "pt-online-schema-change") as s:
        s.start(line_of(PAGE, "pt-online-schema-change"), ("/mysql/main1", "/mysql/nowhere"),
                ("h=db2", "h=127.0.0.1,P=%d,u=%s" % (s.pair.replica.port, USER)),
                ("h=db1,", "h=127.0.0.1,P=%d,u=%s," % (s.pair.primary.port, USER)))
        s.tool.wait(timeout=60)
        expect(s.tool.returncode != 0 and "answers 404" in s.said(), s.said())
        equal(s.has_column(), False, "altered")


@test("pt-archiver deletes nothing while the replica is behind, and then what it was asked to")
def pt_archiver(folder):
    with scene(folder, "pt-archiver") as s:
        s.fall_behind()
        s.start(line_of(PAGE, "examples/purge/pt-archiver.sh"),
                ("h=db1,", "S=%s,u=%s," % (s.pair.primary.socket, USER)))
        until(lambda: parked(s) == 1, 60, "an ask that waits")
        equal(int(s.pair.primary.ask("SELECT COUNT(*) FROM events")), ROWS, "rows")
        s.pair.replica.ask("START SLAVE SQL_THREAD")
        s.end()
        equal(int(s.pair.primary.ask("SELECT COUNT(*) FROM events")), ROWS - 1000, "rows left")


def parked(s):
    with s.server.web() as w:
        return int(re.search(rb"(?m)^weir_checks_waiting (\d+)",
                             w.ask("GET", "/metrics").body).group(1))


@test("what the page says of spirit is a line that weir reads as far as spirit itself")
def spirit(folder):
    """spirit needs MySQL 8: here a program of that name shows with what it was called."""
    stand_in = os.path.join(folder, "bin")
    os.makedirs(stand_in)
    with open(os.path.join(stand_in, "spirit"), "w") as f:
        f.write('#!/bin/sh\necho "spirit $*"\n')
    os.chmod(f.name, 0o755)
    os.symlink(WEIR, os.path.join(stand_in, "weir"))
    server = Server(folder, config='target "main1" { kind = "host" }\n')
    line = line_of(PAGE, "spirit migrate")
    env = dict(os.environ, PATH=stand_in + ":" + os.environ["PATH"],
               WEIR_URL="%s:%d" % server.resp)
    done = subprocess.run(shlex.split(line), env=env, capture_output=True, text=True, check=False,
                          timeout=60)
    equal(done.returncode, 0, "exit code: " + done.stderr)
    expect(done.stdout.startswith("spirit migrate --host=db1:3306"), done.stdout)
    server.stop()


if __name__ == "__main__":
    main()
