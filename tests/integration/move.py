#!/usr/bin/python3
# weir-test: timeout=300 long outer=part full
"""weir move: the data of a lone weir into a cluster and back, and backups of a cluster.

What a weir has is taken down as a picture: everything that it lists.  The picture must be the same
before and after each move.

The outer ring has more jobs, Galera, a backup of MariaDB, and moves that are killed."""
import contextlib
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "fault"))

from harness import (FULL, WEIR, Closed, Resp, Server, WeirError, claim, equal, expect,  # noqa: E402
                     history, job_list, main, mapping, pack, test, text, until, verify_history, weir)
from lib_cluster import PASSWORD, Cluster  # noqa: E402
from lib_clusters import Galera, PostgresPair  # noqa: E402
from lib_databases import Maria  # noqa: E402
from lib_everything import fill  # noqa: E402

TABLES = ("weir_log", "weir_lease", "weir_member", "weir_history", "weir_fence")
SENT_MAX = 100  # commands at once: small enough that all of them fit into the buffers of the kernel
SOME = 530  # finished jobs: more than one block of the history has, see src/history/block.h
MANY = 1200  # more than two
TARGET = """
target "shop" { kind = "command" command = {"echo", "1"} metric "threads" { threshold = 5 } }
"""


class PostgresSite:
    kind, durability, admin = "postgres", "replicated", "postgres"
    pair = None

    @classmethod
    def port(cls):
        if not cls.pair:
            cls.pair = PostgresPair()
            cls.pair.primary.ask("CREATE ROLE weir LOGIN PASSWORD '%s'" % PASSWORD,
                                 "ALTER ROLE postgres PASSWORD '%s'" % PASSWORD,
                                 "CREATE DATABASE weir")
        return cls.pair.primary.port

    @classmethod
    def ask(cls, *sql):
        return cls.pair.primary.ask(*sql, database="weir")

    @classmethod
    def sessions(cls):
        return int(cls.ask("SELECT count(*) FROM pg_stat_activity WHERE usename = 'weir'")[0][0])

    @staticmethod
    def table(name):
        return "weir." + name


class MariaSite:
    kind, durability, admin = "mysql", "single", "boss"
    server = None

    @classmethod
    def start(cls):
        return Maria("single", "--innodb-flush-log-at-trx-commit=1")

    @classmethod
    def port(cls):
        if "server" not in cls.__dict__ or not cls.server:
            cls.server = cls.start()
            cls.server.ask("CREATE USER weir@'%%' IDENTIFIED BY '%s'" % PASSWORD,
                           "CREATE USER boss@'%%' IDENTIFIED BY '%s'" % PASSWORD,
                           "GRANT ALL ON *.* TO boss@'%' WITH GRANT OPTION")
        return cls.server.port

    @classmethod
    def ask(cls, *sql):
        return cls.server.ask(*sql)

    @classmethod
    def sessions(cls):
        return int(cls.ask("SELECT count(*) FROM information_schema.processlist "
                           "WHERE user = 'weir'")[0][0])

    @staticmethod
    def table(name):
        return "weir." + name


class GaleraSite(MariaSite):
    durability = "replicated"

    @classmethod
    def start(cls):
        return Galera().nodes[0]


class Place:
    """A lone weir's folder and a cluster whose tables are empty; nothing runs."""

    def __init__(self, folder, site, has_tables=True):
        self.folder, self.site = folder, site
        self.cluster = Cluster(folder, site.kind, [site.port()], durability=site.durability,
                               more=TARGET)
        for name in "ab":
            node = self.cluster.add(name)
            with open(os.path.join(node.folder, "weir.conf"), "w") as f:
                f.write(node.config)
        self.config = os.path.join(self.cluster.nodes[0].folder, "weir.conf")
        self.lone = os.path.join(folder, "lone")
        self.data = os.path.join(self.lone, "data")
        os.mkdir(self.lone)
        if has_tables:
            self.empty()

    def empty(self):
        secret = os.path.join(self.cluster.nodes[0].folder, "password")
        told = self.cluster.init("--user", self.site.admin, "--password-file", secret)
        self.site.ask(*[line.strip() for line in told.splitlines()
                        if line.strip().startswith("grant ")],
                      *["DELETE FROM " + self.site.table(t) for t in TABLES])
        self.cluster.init("--user", self.site.admin, "--password-file", secret)

    def start_lone(self, data=None):
        return Server(self.lone, config=TARGET, data=data or self.data)

    def start_cluster(self):
        for node in self.cluster.nodes:
            node.start()
        return self.cluster.leader()

    def stop_cluster(self):
        for node in self.cluster.nodes:
            code = node.server.stop(30)
            equal(code, 0, "exit code of %s, which said: %s" % (
                node.name, node.server.log()[-1500:]))
            node.server = None
        # When the leader stops the other node begins to lead.  If it stops before its row is
        # confirmed, its session still commits that row, later.
        until(lambda: self.site.sessions() == 0, 60, "the end of weir's sessions")
        self.age()

    def age(self):
        """A minute goes by for the database: no machine was seen lately.  weir move waits for that; in
        the long form it waits."""
        if FULL:
            return
        self.site.ask("UPDATE %s SET seen = seen - interval '1' minute" %
                      self.site.table("weir_member"))

    def move(self, *words, code=0, mentions=()):
        done = weir("move", "-c", self.config, *words, seconds=300)
        expect(done.returncode == code, "weir move %s: exit code %d, wanted %d\n%s%s" % (
            " ".join(words), done.returncode, code, done.stdout, done.stderr))
        for word in mentions:
            expect(word in done.stderr, "'%s' is not in: %s" % (word, done.stderr))
        return done

    def move_in(self, data=None, **wanted):
        return self.move("--to-cluster", "--data", data or self.data, **wanted)

    def move_out(self, data, **wanted):
        return self.move("--from-cluster", "--data", data, **wanted)

    def rows(self):
        """What the database has of log and history."""
        return [self.site.ask("SELECT count(*), coalesce(max(%s), 0) FROM %s" % (
            number, self.site.table(name)))
            for name, number in (("weir_log", "seq"), ("weir_history", "kind"))]


# ---------------------------------------------------------------- pictures

VOLATILE = ("left_ms", "remaining_ms", "since_ms", "age_ms", "lease_until_ms", "until_ms")


def plain(value):
    """As JSON, without what only tells how late it is."""
    if isinstance(value, dict):
        return {text(k): plain(v) for k, v in value.items() if text(k) not in VOLATILE}
    if isinstance(value, (list, tuple)):
        pairs = list(zip(value[::2], value[1::2]))
        if value and len(value) % 2 == 0 and all(isinstance(k, bytes) and k.islower() or
                                                 isinstance(k, str) for k, _ in pairs):
            return plain(dict((text(k), v) for k, v in pairs))
        rows = [plain(v) for v in value]
        named = rows and all(isinstance(v, dict) and "name" in v for v in rows)
        return sorted(rows, key=lambda v: v["name"]) if named else rows
    return value.decode("latin-1") if isinstance(value, bytes) else value


class Stream(Resp):
    """A client for many answers: it reads them in C."""

    def __init__(self, address):
        super().__init__(address)
        self.file = self.socket.makefile("rb")

    def _line(self):
        line = self.file.readline()
        if not line.endswith(b"\r\n"):
            raise Closed("end of stream")
        return line[:-2]

    def _exactly(self, n):
        data = self.file.read(n + 2)
        if len(data) < n + 2:
            raise Closed("end of stream")
        equal(data[-2:], b"\r\n", "the end of a string")
        return data[:-2]

    def close(self):
        self.file.close()
        super().close()


def ask_all(c, commands):
    """The answers to commands that are sent together."""
    got = []
    for at in range(0, len(commands), SENT_MAX):
        part = commands[at:at + SENT_MAX]
        c.send(b"".join(pack(*words) for words in part))
        got += [c.read() for _ in part]
    for words, reply in zip(commands, got):
        expect(not isinstance(reply, WeirError), "%s: %s" % (words, reply))
    return got


def jobs(c):
    """All there are, live and finished, with all that is told of each."""
    ids = [j["id"] for j in job_list(c)]
    told = ask_all(c, [("JOB", i) for i in ids])
    return {i: plain(mapping(j)) for i, j in zip(ids, told)}


def picture(address):
    with Stream(address) as c:
        seen = {"jobs": jobs(c)}
        for name in ("QUEUES", "LOCKS", "LIMITS", "BREAKERS", "CAPS", "RULES", "SCHEDULES", "BATCHES",
                     "SETTINGS", "SKIPPEDHOSTS", "THROTTLEHISTORY", "RULEHISTORY",
                     "JOBCOUNTS"):
            seen[name] = plain(c(name))
        # What probes find on a busy machine is another matter.
        seen["THROTTLEHISTORY"]["events"] = [e for e in seen["THROTTLEHISTORY"]["events"]
                                             if e["event"] != "load_level_transition"]
        seen["AUDIT"] = plain(c("AUDIT", "LIMIT", 500))
    done = weir("--url", "%s:%d" % address, "export")
    equal(done.returncode, 0, done.stderr)
    seen["export"] = sorted(json.dumps(plain(json.loads(line)), sort_keys=True)
                            for line in done.stdout.splitlines()[1:])  # when it was made
    return seen


def differences(got, wanted, path=""):
    """Where two pictures differ."""
    if isinstance(wanted, dict) and isinstance(got, dict):
        for k in sorted(set(got) | set(wanted), key=str):
            yield from differences(got.get(k), wanted.get(k), "%s/%s" % (path, k))
    elif isinstance(wanted, list) and isinstance(got, list) and len(got) == len(wanted):
        for i, pair in enumerate(zip(got, wanted)):
            yield from differences(*pair, "%s/%d" % (path, i))
    elif got != wanted:
        yield "%s: %s, wanted %s" % (path, str(got)[:200], str(wanted)[:200])


def same(got, wanted, what):
    found = list(differences(got, wanted))
    expect(not found, "%s: %d differences: %s" % (what, len(found), "; ".join(found[:8])))


def finish(c, n, hook="old"):
    """Jobs that end, all of them, some badly."""
    c("ENQUEUEMANY", "QUEUE", "past", "ATTEMPTS", 1, "JOBS", *[hook, '{"a":1}'] * n)
    left = n
    while left > 0:
        got = claim(c, "past", count=100)
        ask_all(c, [("COMPLETE", g["id"], g["token"], "done %d" % g["id"]) if i % 10 else
                    ("FAIL", g["id"], g["token"], "no") for i, g in enumerate(got)])
        left -= len(got)


def take_lock(c, name):
    token, fence = c("LOCK", name, 3600000)[:2]
    return {"token": token, "fence": fence}


def live_long(c, taken_back=-1):
    """What fill() does not have: locks, leases, answers, and a job that was taken back: the first
    that failed is in a block; the last, 0, is not written yet, and weir waits until it is."""
    lock = take_lock(c, "deploy")
    running = claim(c, "default", count=1, lease=3600000)[0]
    answer = c("IDEMPOTENT", "order-1", "ENQUEUE", "mail", "{}")
    finish(c, 5, "again")
    c("RETRY", job_list(c, "STATUS", "failed")[taken_back]["id"])
    return lock, running, answer


def there_and_back(folder, site, n=SOME, more=SOME):
    """n jobs end before the move, more of them in the cluster."""
    place = Place(folder, site)
    server = place.start_lone()
    with server.client() as c:
        fill(c)
        finish(c, n)
        lock, running, answer = live_long(c, taken_back=-1 if n == SOME else 0)
        until(lambda: mapping(c("JOBCOUNTS"))["complete"] >= n * 9 // 10, 60, "history")
    equal(server.stop(30), 0, "exit code")
    server = place.start_lone()  # what ends at a start is over
    wanted = picture(server.resp)
    equal(server.stop(30), 0, "exit code")
    verify_history(place.data)
    minutes = history(place.data, "SELECT count(*) FROM minutes")

    told = place.move_in()
    expect("live and %d" % (n // 10) in told.stdout, told.stdout)  # and a few
    # The old folder does not start, alone or in the cluster.
    for config in (TARGET, place.cluster.nodes[0].config):
        refused = weir("serve", "--data", place.data, "-c", write(folder, config),
                       "--resp", "127.0.0.1:0", "--http", "127.0.0.1:0")
        equal(refused.returncode, 5, refused.stderr)
        expect("were moved into a cluster" in refused.stderr and
               place.data + "/moved" in refused.stderr, refused.stderr)
    place.move_in(code=5, mentions=("were moved into a cluster",))

    leader = place.start_cluster()
    same(picture(leader.server.resp), wanted, "in the cluster")
    until(lambda: history(leader.server.data, "SELECT count(*) FROM minutes") >= minutes, 60,
          "minutes")
    with leader.client() as c:
        equal(c("IDEMPOTENT", "order-1", "ENQUEUE", "mail", "{}"), answer, "the kept answer")
        c("RENEW", "deploy", lock["token"], 3600000)
        equal(text(c("COMPLETE", running["id"], running["token"])), "OK", "a lease of before")
        again = take_lock(c, "other")
        expect(again["fence"] > lock["fence"], "fences grow")
        finish(c, more, "new")
    place.stop_cluster()
    leader = place.start_cluster()
    wanted = picture(leader.server.resp)
    place.stop_cluster()

    back = os.path.join(folder, "back")
    told = place.move_out(back)
    expect("live and %d" % ((n + more) // 10) in told.stdout, told.stdout)
    verify_history(back)
    equal(sorted(os.listdir(back))[:1], ["history.db"], "files")
    server = place.start_lone(back)
    same(picture(server.resp), wanted, "back in a folder")
    with server.client() as c:
        third = take_lock(c, "third")
        expect(third["fence"] > again["fence"], "fences grow")
        equal(c("IDEMPOTENT", "order-1", "ENQUEUE", "mail", "{}"), answer, "the kept answer")
        finish(c, 10)
    equal(server.stop(30), 0, "exit code")

    # The cluster is closed; it can be opened again, or filled again, but not with less.
    node = place.cluster.nodes[0].start()
    until(lambda: "the log is closed" in node.server.log() and back in node.server.log(), 60,
          "a closed log")
    expect(not node.leads(), "nobody leads a closed log")
    place.move("--reopen", code=5, mentions=("is running",))
    equal(node.server.stop(30), 0, "exit code")
    place.age()
    os.remove(os.path.join(place.data, "moved"))
    place.move_in(code=5, mentions=("must not go back",))
    place.move_out(os.path.join(folder, "more"), code=5, mentions=("closed", back))
    server = place.start_lone(back)
    wanted = picture(server.resp)
    equal(server.stop(30), 0, "exit code")
    place.move_in(back)
    leader = place.start_cluster()
    same(picture(leader.server.resp), wanted, "in the cluster again")
    place.stop_cluster()


def write(folder, config):
    path = os.path.join(folder, "some.conf")
    with open(path, "w") as f:
        f.write(config)
    return path


@test("one of everything goes into PostgreSQL and back, and nothing is another")
def _(folder):
    there_and_back(folder, PostgresSite)


@test("one of everything goes into MariaDB and back, and nothing is another")
def _(folder):
    there_and_back(folder, MariaSite)


@test("one of everything and many jobs go into PostgreSQL and back, and nothing is another", outer=True)
def _(folder):
    there_and_back(folder, PostgresSite, MANY, 700)


@test("one of everything goes into Galera and back, and nothing is another", outer=True)
def _(folder):
    there_and_back(folder, GaleraSite, MANY, 700)


# ---------------------------------------------------------------- tokens


@test("tokens and their rights move")
def _(folder):
    place = Place(folder, PostgresSite)
    server = place.start_lone()
    with server.client() as c:
        boss = c("TOKENADD", "boss", "admin")
        boss = text(mapping(boss)["secret"])
    with server.client() as c:
        c("AUTH", boss)
        c("TOKENADD", "site", "worker", "QUEUES", "mail")
        wanted = plain(c("TOKENS"))
    equal(server.stop(30), 0, "exit code")
    place.move_in()
    node = place.cluster.nodes[0].start()

    def ask():
        try:
            with node.client() as c:
                c("AUTH", boss)
                tokens = plain(c("TOKENS"))
        except (OSError, Closed, WeirError):
            return None
        tokens[0]["used_ms"] = wanted[0]["used_ms"]  # by this question
        return tokens
    until(lambda: ask() is not None, 90, "a leader that knows the token")
    same(ask(), wanted, "tokens")
    with node.client() as c:
        c.refused("TOKENS", name="NOAUTH")


# ---------------------------------------------------------------- refusals


def files(folder):
    """What is there, to the byte, but for who holds it."""
    found = {}
    for path, _, names in os.walk(folder):
        for name in names:
            if name != "lock" and not name.endswith(("-shm", "-wal")):
                with open(os.path.join(path, name), "rb") as f:
                    found[os.path.relpath(os.path.join(path, name), folder)] = hash(f.read())
    return found


def flip(path, at):
    with open(path, "r+b") as f:
        f.seek(at)
        byte = f.read(1)
        f.seek(at)
        f.write(bytes([byte[0] ^ 1]))


@test("what cannot be moved is refused with a sentence, and nothing is changed")
def _(folder):
    place = Place(folder, PostgresSite)
    server = place.start_lone()
    with server.client() as c:
        finish(c, 300)
        c("ENQUEUE", "mail", "{}")
    place.move_in(code=5, mentions=("stop it first", place.data))
    equal(server.stop(30), 0, "exit code")
    before, rows = files(place.data), place.rows()

    def unchanged(what):
        equal(files(place.data), before, "the folder after: " + what)
        equal(place.rows(), rows, "the database after: " + what)

    place.move_in(os.path.join(folder, "nowhere"), code=4, mentions=("no data folder",))
    place.move("--to-cluster", "--from-cluster", code=2, mentions=("only one of",))
    place.move("--to-cluster", "more", code=2, mentions=("unexpected argument",))
    plainly = weir("move", "--to-cluster", "-c", write(folder, TARGET))
    equal(plainly.returncode, 2, plainly.stderr)
    expect("has no cluster section" in plainly.stderr, plainly.stderr)
    place.move_out(place.data, code=5, mentions=("is not empty",))
    place.move_out(os.path.join(folder, "new"), code=4, mentions=("nothing to move",))
    expect(not os.path.exists(os.path.join(folder, "new.part")), "nothing was made")
    place.move("--reopen", code=5, mentions=("is not closed",))
    unchanged("words")

    damaged = os.path.join(folder, "damaged")
    shutil.copytree(place.data, damaged)
    segment = sorted(n for n in os.listdir(os.path.join(damaged, "log")) if n.endswith(".seg"))[0]
    flip(os.path.join(damaged, "log", segment), 4096 + 40)
    place.move_in(damaged, code=9, mentions=("the log is damaged", "weir log salvage"))
    shutil.rmtree(damaged)
    shutil.copytree(place.data, damaged)
    block = next(n for n in sorted(os.listdir(damaged)) if n.startswith("history.db-") and
                 not n.endswith(("-shm", "-wal")))
    with contextlib.closing(sqlite3.connect(os.path.join(damaged, "history.db"))) as db:
        [at] = db.execute("SELECT offset FROM block LIMIT 1").fetchone()
    flip(os.path.join(damaged, block), at + 40)
    place.move_in(damaged, code=9, mentions=("history is damaged", "weir history verify"))
    unchanged("damage")

    leader = place.start_cluster()
    with leader.client() as c:
        c("ENQUEUE", "mail", "{}")
    place.move_in(code=5, mentions=("stop all of",))
    place.move_out(os.path.join(folder, "new"), code=5, mentions=("stop all of",))
    place.stop_cluster()
    rows = place.rows()
    place.move_in(code=5, mentions=("the cluster has data already",))
    unchanged("a cluster with data")

    PostgresSite.ask("DROP SCHEMA weir CASCADE")
    place.move_in(code=5, mentions=("weir cluster init",))
    place.empty()
    rows = place.rows()
    equal(files(place.data), before, "the folder")


@test("a folder of a lone weir is not started in a cluster, and weir move is named")
def _(folder):
    place = Place(folder, PostgresSite)
    server = place.start_lone()
    equal(server.stop(30), 0, "exit code")
    done = weir("serve", "--data", place.data, "-c", place.config, "--resp", "127.0.0.1:0",
                "--http", "127.0.0.1:0")
    equal(done.returncode, 5, done.stderr)
    expect("weir move --to-cluster" in done.stderr, done.stderr)


# ---------------------------------------------------------------- interruptions


def begin(place, *words):
    return subprocess.Popen([WEIR, "move", "-c", place.config, *words], stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE)


def kill_when(process, condition):
    """True when it was killed then, false when it ended before."""
    while process.poll() is None:
        if condition():
            process.kill()
            process.communicate()
            return True
        time.sleep(0.001)
    process.communicate()
    return False


@test("a move that is killed at any moment can be done again, and nothing is lost or doubled",
      outer=True)
def _(folder):
    place = Place(folder, PostgresSite)
    server = place.start_lone()
    with server.client() as c:
        finish(c, 2500)
        for _ in range(40):
            c("ENQUEUEMANY", "JOBS", *["mail", "x" * 100000] * 5)
        take_lock(c, "deploy")
    equal(server.stop(30), 0, "exit code")
    server = place.start_lone()
    wanted = picture(server.resp)
    equal(server.stop(30), 0, "exit code")
    log, kept = (place.site.table(n) for n in ("weir_log", "weir_history"))

    def count(table, where):
        return int(place.site.ask("SELECT count(*) FROM %s WHERE %s" % (table, where))[0][0])

    killed = 0
    for moment in (lambda: count(log, "kind = 1") > 0, lambda: count(log, "kind = 2") > 0,
                   lambda: count(kept, "kind = 0") > 2, lambda: count(log, "kind = 0") > 0,
                   lambda: count(log, "kind = 0") > 5):
        if os.path.exists(os.path.join(place.data, "moved")):
            break
        killed += kill_when(begin(place, "--to-cluster", "--data", place.data), moment)
        # The folder is as it was, and the cluster is led by nobody.
        expect(not os.path.exists(os.path.join(place.data, "moved")), "not marked")
    expect(killed >= 3, "killed %d times" % killed)
    node = place.cluster.nodes[0].start()
    until(lambda: "the log is closed" in node.server.log(), 60, "a closed log")
    node.server.kill()
    node.server = None
    place.move_in()

    # All but the last step was done: the folder is marked, the log is not open yet.
    place.site.ask("DELETE FROM %s WHERE kind = 3" % log)
    done = place.move_in()
    expect("the move is ended now" in done.stdout, done.stdout)
    leader = place.start_cluster()
    same(picture(leader.server.resp), wanted, "in the cluster")
    place.stop_cluster()

    back = os.path.join(folder, "back")
    expect(kill_when(begin(place, "--from-cluster", "--data", back),
                     lambda: os.path.exists(back + ".part/history.db")), "killed")
    place.move_out(back, code=5, mentions=("remove it first",))
    shutil.rmtree(back + ".part")
    leader = place.start_cluster()  # as before
    place.stop_cluster()
    # The name is taken meanwhile: the data are in the folder, and it has no name yet.
    process = begin(place, "--from-cluster", "--data", back)
    until(lambda: os.path.exists(back + ".part"), 90, "a folder that is made")
    os.makedirs(os.path.join(back, "in the way"))
    _, said = process.communicate()
    equal(process.returncode, 1, said)
    expect(b"cannot rename" in said, said)
    shutil.rmtree(back)
    done = place.move_out(back)
    expect("the move is ended now" in done.stdout, done.stdout)
    server = place.start_lone(back)
    same(picture(server.resp), wanted, "back in a folder")
    equal(server.stop(30), 0, "exit code")
    place.move("--reopen")
    leader = place.start_cluster()
    same(picture(leader.server.resp), wanted, "in the cluster that was opened again")
    place.stop_cluster()


# ---------------------------------------------------------------- backups


def back_up(folder, site, n=SOME):
    place = Place(folder, site)
    leader = place.start_cluster()
    with leader.client() as c:
        fill(c)
        finish(c, n)
        live_long(c, taken_back=-1 if n == SOME else 0)
    wanted = picture(leader.server.resp)
    to = os.path.join(folder, "copy")
    adding = Adding(leader)
    try:
        until(lambda: adding.n > 20, 60, "work")
        sure = adding.n
        done = weir("backup", to, "-c", place.config, "--json", seconds=300)
        equal(done.returncode, 0, done.stderr)
    finally:
        adding.stop()
    verify_history(to)
    place.stop_cluster()
    server = place.start_lone(to)
    got = picture(server.resp)
    for i in wanted["jobs"]:
        expect(i in got["jobs"], "job %d is not in the copy" % i)
    equal([n for n in got if n not in ("jobs", "QUEUES", "JOBCOUNTS", "export", "BATCHES")
           and list(differences(got[n], wanted[n]))], [], "what differs")
    seen = [j["hook"] for j in got["jobs"].values() if j["hook"] == "during"]
    expect(len(seen) >= sure, "%d of %d" % (len(seen), sure))
    equal(server.stop(30), 0, "exit code")
    place.move_in(to, code=5, mentions=("the cluster has data already",))
    server = place.start_lone(to)
    wanted = picture(server.resp)
    equal(server.stop(30), 0, "exit code")
    place.empty()
    place.move_in(to)
    leader = place.start_cluster()
    same(picture(leader.server.resp), wanted, "restored")
    place.stop_cluster()


class Adding(threading.Thread):
    """Jobs that come and end all the time."""

    def __init__(self, node):
        super().__init__()
        self.node, self.n, self.is_over = node, 0, False
        self.start()

    def run(self):
        with self.node.client() as c:
            while not self.is_over:
                c("ENQUEUE", "during", "{}", "QUEUE", "during")
                self.n += 1
                for g in claim(c, "during", count=10):
                    if g["id"] % 3:
                        c("COMPLETE", g["id"], g["token"], "done")

    def stop(self):
        self.is_over = True
        self.join()


@test("a cluster on PostgreSQL is backed up while it works, and restored by a move")
def _(folder):
    back_up(folder, PostgresSite)


@test("a cluster on MariaDB is backed up while it works, and restored by a move", outer=True)
def _(folder):
    back_up(folder, MariaSite, 1000)


main()
