#!/usr/bin/python3
# weir-test: timeout=300 long outer=part
"""The tables of a cluster (cluster/ledger.h) on real databases: PostgreSQL with a synchronous standby,
one MariaDB, a semi-synchronous pair of them, and a Galera cluster of three.

ledger_store.c is the program that calls it, built here with the sanitizers; it does what it is told
line by line.  What all databases must do is checked on each of them by the same steps; what only one
can do wrong stands below that.
"""
import functools
import os
import re
import shutil
import socket
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "fault"))

from harness import FULL, ROOT, equal, expect, main, test, until  # noqa: E402
from lib_clusters import Galera, PostgresPair, SemiSync  # noqa: E402
from lib_databases import Maria, die_with_parent  # noqa: E402
from lib_tls import Authority  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
PASSWORD = "s3cret"
MIB = 1 << 20


@functools.lru_cache(None)
def program():
    """ledger_store.c with weir's objects, under the sanitizers."""
    out = os.path.join(os.environ.get("TMPDIR", "/tmp"), "ledger_store.%d" % os.getpid())
    build = os.environ.get("WEIR_BUILD", os.path.join(ROOT, "build", "asan"))
    libs = subprocess.run(["pkg-config", "--libs", "libmariadb", "libpq", "openssl"], text=True,
                          check=True, stdout=subprocess.PIPE).stdout.split()
    done = subprocess.run(
        ["cc", "-std=gnu17", "-D_GNU_SOURCE", "-O1", "-g", "-fsanitize=address,undefined",
         "-fno-sanitize-recover=all", "-pthread", "-I", os.path.join(ROOT, "src"),
         os.path.join(HERE, "ledger_store.c"), os.path.join(build, "libweir.a"), *libs, "-lm", "-o", out],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    expect(done.returncode == 0, done.stdout[-1500:])
    return out


class Refused(Exception):
    pass


class Ledger:
    """The program, with one connection."""
    alive = []

    def __init__(self, kind, servers, durability="replicated", user="weir", password=PASSWORD,
                 database="weir", connect=True, tls=0, ca=""):
        self.process = subprocess.Popen(
            [program(), kind, durability, user, password, database,
             *[str(s.port if hasattr(s, "port") else s) for s in servers]],
            text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, preexec_fn=die_with_parent,
            env=dict(os.environ, LEDGER_TLS=str(tls), LEDGER_CA=ca))
        self.is_closed = True
        Ledger.alive.append(self)
        if connect:
            self("connect")

    def send(self, *words):
        self.process.stdin.write(" ".join(str(w) if w != "" else "-" for w in words) + "\n")
        self.process.stdin.flush()

    def answer(self):
        lines = []
        while True:
            line = self.process.stdout.readline()
            expect(line, "the program ended with %s" % self.process.poll())
            line = line.rstrip("\n")
            if not line.startswith("= "):
                lines.append(line)
                continue
            self.is_closed = line.endswith(" closed")
            if not line.startswith("= OK"):
                raise Refused(line[2:])
            return lines

    def __call__(self, *words):
        self.send(*words)
        return self.answer()

    def refusal(self, *words):
        try:
            got = self(*words)
        except Refused as why:
            return str(why)
        raise AssertionError("%s was not refused: %s" % (words[0], got))

    def one(self, *words):
        lines = self(*words)
        equal(len(lines), 1, words[0])
        return lines[0]

    def append(self, row, before=(0, 0, "")):
        """The outcome.  A row is (seq, epoch, node, kind, seed, bytes)."""
        return self("append", *row, *before[:3])[0]

    def has(self, row):
        return self.one("has", *row).split()[0] == "1"

    def read(self, at, size=1):
        return [line.split() for line in self("read", at, size)]

    def tail(self):
        """(last seq, its epoch, its node, its kind, first seq)"""
        seq, epoch, node, kind, first = self.one("tail").split()
        return int(seq), int(epoch), node, int(kind), int(first)

    def trim(self, before, at=0):
        """All steps; how many there were."""
        steps = 0
        while True:
            now = int(self.one("trim", at, before))
            if now == at:
                return steps
            at, steps = now, steps + 1

    def end(self):
        """Also what the sanitizers think of it."""
        Ledger.alive.remove(self)
        self.process.stdin.close()
        equal(self.process.wait(60), 0, "exit code")

    @staticmethod
    def end_all():
        for ledger in list(Ledger.alive):
            ledger.end()


def ending(fn):
    """Programs of a test end with it, well when it went well."""
    @functools.wraps(fn)
    def run(folder):
        try:
            fn(folder)
            Ledger.end_all()
        finally:
            for ledger in list(Ledger.alive):
                ledger.process.kill()
                ledger.process.wait()
            Ledger.alive.clear()
    return run


# ---------------------------------------------------------------- the databases


class Site:
    """A database, and how it is spoken to as a user with the least privileges."""

    def __init__(self, kind, servers, durability="replicated", user="root"):
        self.kind, self.servers, self.durability = kind, servers, durability
        self.admin, self.admin_user = servers[0], user
        self.database = "weir"

    def new(self, **options):
        options.setdefault("servers", self.servers)
        options.setdefault("durability", self.durability)
        return Ledger(self.kind, **options)

    def ask(self, *statements):
        return self.admin.ask(*statements, database=self.database)

    def init(self):
        """As an administrator; runs the grants it prints, and returns what it says."""
        init = self.new(user=self.admin_user, password=PASSWORD, connect=False)
        lines = init("init", "weir")
        init.end()
        self.ask(*[line for line in lines if line.startswith("  grant ")])
        return lines[0]

    def log(self):
        """An empty log, and a connection to it."""
        self.ask("DELETE FROM %sweir_log" % self.prefix, "DELETE FROM %sweir_member" % self.prefix)
        return self.new()


class PostgresSite(Site):
    prefix = "weir."

    def __init__(self):
        self.pair = PostgresPair()
        super().__init__("postgres", [self.pair.primary], user="postgres")
        self.admin.ask("CREATE DATABASE weir", "ALTER ROLE postgres PASSWORD '%s'" % PASSWORD,
                       "CREATE ROLE weir LOGIN PASSWORD '%s'" % PASSWORD)

    def is_silent(self, session):
        """It wrote something, and waits for what comes after it."""
        return self.ask("SELECT 1 FROM pg_stat_activity WHERE wait_event = 'ClientRead' AND "
                        "backend_xid IS NOT NULL AND pid = %d" % session.id())

    def waiting(self, pattern="insert into weir_log%"):
        """The session that waits for the standby."""
        return self.ask("SELECT pid FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND "
                        "query LIKE '%s'" % pattern)


class MariaSite(Site):
    prefix = ""

    def __init__(self, servers, durability="replicated"):
        super().__init__("mariadb", servers, durability)
        servers[0].ask("CREATE USER weir@'%%' IDENTIFIED BY '%s'" % PASSWORD,
                       "CREATE USER boss@'%%' IDENTIFIED BY '%s'" % PASSWORD,
                       "GRANT ALL ON *.* TO boss@'%' WITH GRANT OPTION")
        self.admin_user = "boss"


def made(site):
    equal(re.sub(r".*: ", "", site.init()), "made the tables, version 1")
    equal(re.sub(r".*: ", "", site.init()), "the tables are there, version 1")
    return site


@functools.lru_cache(None)
def postgres():
    return made(PostgresSite())


@functools.lru_cache(None)
def maria():
    return made(MariaSite([Maria("single", "--innodb-flush-log-at-trx-commit=1")], "single"))


@functools.lru_cache(None)
def pair():
    both = SemiSync()
    site = made(MariaSite([both.master]))
    site.pair = both
    return site


@functools.lru_cache(None)
def galera():
    return made(MariaSite(Galera().nodes))


# ---------------------------------------------------------------- what each of them does


def row(seq, epoch=1, node="a.1", kind=0, seed=None, size=40):
    return (seq, epoch, node, kind, seq if seed is None else seed, 0 if kind else size)


def fill(ledger, first, last, before, epoch=1, node="a.1"):
    """Rows of an epoch, of which the first has kind 1; returns the last."""
    for seq in range(first, last + 1):
        now = row(seq, epoch, node, kind=int(seq == first))
        equal(ledger.append(now, before), "durable", "append of %d" % seq)
        before = now
    return before


def check_append(site):
    a = site.log()
    equal(a.tail(), (0, 0, "-", 0, 1))
    equal(a.read(1), [])
    equal(a.append(row(2), row(1)), "refused", "append after a row that is not there")
    first = row(1, kind=1)
    equal(a.append(first), "durable")
    equal(a.tail(), (1, 1, "a.1", 1, 2))
    equal(a.append(row(2)), "refused", "append of a first row when there is one")
    equal(a.append(row(1, node="b.1", kind=1)), "refused", "another first row")
    second = row(2)
    for wrong in ((1, 2, "a.1"), (1, 1, "b.1")):
        equal(a.append(second, wrong), "refused", "append after %s" % (wrong,))
    expect(not a.is_closed, "a refusal has closed the connection")
    equal(a.append(second, first), "durable")
    equal(a.append(second, first), "taken", "the same again")
    equal(a.append(row(4), row(3)), "refused", "append after a gap")
    expect(a.has(second) and a.has(first), "a row is not there")
    for other in (row(2, epoch=2), row(2, node="b.1"), row(2, kind=1), row(2, seed=9), row(2, size=39),
                  row(2, size=41), row(2, size=0)):
        equal(a.one("has", *other), "0 2 1 a.1 0")
    equal(a.one("has", *row(3)), "0 0 0 - 0")
    a("barrier")
    a("verify")
    equal(a.tail(), (2, 1, "a.1", 0, 2))


def check_pieces(site):
    """Bodies of one piece and of several, and those at the edge between the two."""
    a = site.log()
    before = row(1, kind=1)
    equal(a.append(before), "durable")
    sizes = [0, 1, MIB - 1, MIB, MIB + 1, 2 * MIB, 5 * MIB // 2] + ([56 * MIB] if FULL else [])
    for seq, size in enumerate(sizes, 2):
        now = row(seq, size=size)
        equal(a.append(now, row(seq - 1, epoch=7)), "refused", "%d bytes" % size)
        equal(a.append(now, before), "durable", "%d bytes" % size)
        equal(a.append(now, before), "taken", "%d bytes again" % size)
        expect(a.has(now), "%d bytes are not there" % size)
        before = now
    pieces = site.ask("SELECT count(*) FROM %sweir_log" % site.prefix)
    equal(int(pieces[0][0]), 1 + sum(max(1, -(-s // MIB)) for s in sizes), "pieces")
    got = a.read(2, 1 << 40)
    equal([(int(g[0]), int(g[4])) for g in got], list(enumerate(sizes, 2)))
    for g, size in zip(got, sizes):
        equal(g[5], a.one("sum", g[0], size), "checksum of %d bytes" % size)
    site.ask("DELETE FROM %sweir_log WHERE seq = 7 AND piece = 0" % site.prefix)
    expect("a piece of batch 7 is missing" in a.refusal("read", 7, 1), "half a batch was read")


def check_read(site):
    a = site.log()
    fill(a, 1, 20, (0, 0, ""))

    def seqs(*words):
        return [int(g[0]) for g in a.read(*words)]
    equal(a.read(2), [["2", "1", "a.1", "0", "40", a.one("sum", 2, 40)]])
    equal(seqs(2, 40), [2])
    equal(seqs(2, 41), [2, 3])
    equal(seqs(2, 80), [2, 3])
    equal(seqs(1, 1 << 40), list(range(1, 21)))
    equal(seqs(20, 1 << 40), [20])
    equal(seqs(21, 1 << 40), [])


def check_trim(site):
    """A leader that slept since before the others took over and trimmed is refused."""
    a = site.log()
    last_of_a = fill(a, 1, 10, (0, 0, ""))
    b = site.new()
    last = fill(b, 11, 30, last_of_a, epoch=2, node="b.2")
    equal(a.append(row(11), last_of_a), "refused", "what the sleeper writes")
    expect(b.trim(20) <= 2, "trimming takes too many steps")
    equal(b.tail(), (30, 2, "b.2", 0, 20))
    equal([int(g[0]) for g in b.read(11, 999)], [11])
    expect("NOTFOUND" in b.refusal("read", 12, 999), "trimmed rows are read")
    equal(a.append(row(11), last_of_a), "refused", "what it writes after the trim")
    late = row(12, epoch=2, node="b.2")
    equal(b.append(late, (11, 2, "b.2")), "refused", "a statement that runs after its batch was trimmed")
    site.ask("INSERT INTO %sweir_log VALUES('default',10,0,1,'a.1',0,'x')" % site.prefix)
    equal(a.append(row(11), last_of_a), "refused", "what it writes where the row before is still there")
    site.ask("DELETE FROM %sweir_log WHERE seq = 10" % site.prefix)
    expect(b.trim(10 ** 9, 20) <= 2, "trimming takes too many steps")
    equal(b.tail(), (30, 2, "b.2", 0, 30))
    last = fill(b, 31, 32, last, epoch=3, node="c.3")
    equal(b.trim(10 ** 9, 30), 1)
    equal(b.tail(), (32, 3, "c.3", 0, 32))
    fill(b, 33, 33, last, epoch=4, node="d.4")
    b.trim(10 ** 9)
    equal(b.tail(), (33, 4, "d.4", 1, 34))
    equal(site.ask("SELECT seq FROM %sweir_log ORDER BY seq" % site.prefix), [["1"], ["11"], ["31"], ["33"]])


def check_far_trim(site):
    """Steps are bounded, and rows that begin far away are found."""
    a = site.log()
    far = 10 ** 12
    site.ask("INSERT INTO %sweir_log VALUES %s" % (site.prefix, ",".join(
        "('default',%d,0,1,'a.1',0,'x')" % (far + i) for i in range(1200))))
    equal(int(a.one("trim", 0, far + 1100)), far)
    equal(int(a.one("trim", far, far + 1100)), far + 500)
    equal(a.trim(far + 1100), 3)
    equal(a.tail()[4], far + 1100)


def check_lease(site):
    a, b = site.log(), site.new()

    def look():
        node, left = b.one("look").split()
        return node, int(left)
    a("give", look()[0], "", 0)
    equal(a.one("take", "a.1", 60000), "1")
    equal(b.one("take", "b.1", 60000), "0")
    node, left = look()
    expect(node == "a.1" and 0 < left <= 60000, "%s %s" % (node, left))
    equal(a.one("take", "a.1", 90000), "1")
    expect(look()[1] > 50000, "it was not renewed")
    equal(b.one("give", "b.1", "c", 0), "0")
    equal(a.one("give", "a.1", "b", 0), "1")
    node, left = look()
    expect(node == "b" and left <= 0, "%s %s" % (node, left))
    equal(b.one("take", "b.1", 1), "1")
    until(lambda: a.one("take", "c.1", 60000) == "1", 60, "a lease that is over")
    equal(look()[0], "c.1")
    expect(int(a.one("lease_ms")) >= 5000, "a short lease")


def check_members(site):
    a, b = site.log(), site.new()
    a("give", a.one("look").split()[0], "a.1", 60000)
    digest = 2 ** 64 - 3
    a("meet", "a", "a.1", "weir1:7379", -5, 1, 2, 3, digest)
    got = [line.split() for line in b("meet", "b", "b.1", "[::1]:7379", 10, 4, 5, 0, 0)]
    equal([g[:9] for g in got], [["a", "weir1:7379", "0", "1", "-5", "1", "2", "3", str(digest)],
                                 ["b", "[::1]:7379", "1", "0", "10", "4", "5", "0", "0"]])
    expect(all(0 <= int(g[9]) < 60000 for g in got), "seen: %s" % got)
    got = [line.split() for line in a("meet", "a", "a.2", "weir9:7379", 1, 1, 2, 3, digest)]
    equal([g[:4] for g in got], [["a", "weir9:7379", "1", "0"], ["b", "[::1]:7379", "0", "0"]])
    day = "interval '1 day 1 second'" if site.kind == "postgres" else "interval 86401 second"
    site.ask("UPDATE %sweir_member SET seen = seen - %s WHERE name = 'b'" % (site.prefix, day))
    equal([line.split()[0] for line in a("meet", "a", "a.2", "weir9:7379", 1, 1, 2, 3, digest)], ["a"])


def check_busy(site):
    """A row that another transaction has written and not committed: whether it comes is open."""
    a = site.log()
    first = row(1, kind=1)
    equal(a.append(first), "durable")
    for size in (40, MIB + 1):
        with site.admin.connect(database=site.database) as c:
            c("BEGIN")
            c("INSERT INTO %sweir_log VALUES('default',2,0,1,'b.1',0,'x')" % site.prefix)
            equal(a.append(row(2, size=size), first), "busy")
            expect(not a.is_closed, "that closed the connection")
            equal(a.tail()[0], 1)
            c("ROLLBACK")
    equal(a.append(row(2), first), "durable")


def check_refused_tables(site):
    """What is not as `weir cluster init` made it."""
    a = site.new(connect=False)
    p = site.prefix
    site.ask("UPDATE %sweir_version SET version = 99" % p)
    expect("of version 99, and this weir knows 1; install a newer weir" in a.refusal("connect"), "version")
    expect("install a newer weir" in site.new(user=site.admin_user, connect=False).refusal("init", "weir"),
           "init")
    site.ask("DELETE FROM %sweir_version" % p)
    expect("run `weir cluster init`" in a.refusal("connect"), "no version")
    equal(re.sub(r".*: ", "", site.init()), "made the tables, version 1")
    a("connect")
    wrong = site.new(password="wrong", connect=False).refusal("connect")
    expect(wrong.startswith("FORBIDDEN") and "wrong" not in wrong, wrong)


CHECKS = [check_append, check_pieces, check_read, check_trim, check_far_trim, check_lease, check_members,
          check_busy]


def check_all(site, checks):
    for check in checks:
        try:
            check(site)
            Ledger.end_all()
        except (AssertionError, Refused) as why:
            raise AssertionError("%s: %s" % (check.__name__, why)) from why


@test("PostgreSQL with a synchronous standby keeps a ledger")
@ending
def _(folder):
    check_all(postgres(), CHECKS + [check_refused_tables])


@test("one MariaDB keeps a ledger when one is meant")
@ending
def _(folder):
    check_all(maria(), CHECKS + [check_refused_tables])


@test("a semi-synchronous pair keeps a ledger")
@ending
def _(folder):
    check_all(pair(), CHECKS if FULL else [check_append, check_pieces])


@test("a Galera cluster keeps a ledger")
@ending
def _(folder):
    check_all(galera(), CHECKS)


# ---------------------------------------------------------------- servers that are not there


class Mute:
    """A host that takes connections and says nothing."""

    def __enter__(self):
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]
        return self

    def __exit__(self, *_):
        self.socket.close()


def nobody():
    """A port at which nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as s:
        return s.getsockname()[1]


def check_hosts(site, standby):
    """The server that takes writes is found behind ones that refuse, are mute, or are standbys."""
    with Mute() as mute:
        a = site.new(servers=[nobody(), mute, standby, site.admin], connect=False)
        a("within", 8000)
        a("connect")
        expect(a.one("where").endswith(":%d" % site.admin.port), "connected to " + a.one("where"))
        a("disconnect")
        a("connect")  # beginning with the one that did
        gone = site.new(servers=[nobody(), standby], connect=False).refusal("connect")
        expect(gone.startswith("UNAVAIL") and "refused" in gone, gone)
        only = site.new(servers=[standby], connect=False).refusal("connect")
        expect(only.startswith("UNAVAIL") and "read-only" in only, only)


@test("PostgreSQL: the primary is found among the hosts")
@ending
def _(folder):
    check_hosts(postgres(), postgres().pair.standby)


@test("a semi-synchronous pair: the master is found among the hosts")
@ending
def _(folder):
    check_hosts(pair(), pair().pair.replica)


# ---------------------------------------------------------------- PostgreSQL


def unsafe(site, ledger, words):
    """It is refused, by what is connected already and by what would connect, with these words."""
    for call in (ledger, site.new(connect=False)):
        got = call.refusal("verify" if call is ledger else "connect")
        expect(got.startswith("STATE") and words in got, "%s does not say %s" % (got, words))
    Ledger.alive[-1].end()


@test("PostgreSQL: a setting that loses commits is refused by name")
@ending
def _(folder):
    site = postgres()
    a, single = site.log(), site.new(durability="single")
    primary = site.pair.primary
    for name, bad in (("full_page_writes", "off"), ("fsync", "off"), ("zero_damaged_pages", "on"),
                      ("ignore_checksum_failure", "on")):
        primary.set(**{name: bad})
        until(lambda: a_refusal(single), 60, name)
        unsafe(site, a, "%s is %s; set %s = " % (name, bad, name))
        primary.set(**{name: None})
        until(lambda: not a_refusal(single), 60, name)
    site.ask("REVOKE pg_read_all_stats FROM weir")
    unsafe(site, a, "grant pg_read_all_stats")
    site.ask("GRANT pg_read_all_stats TO weir")
    site.ask("CREATE FUNCTION weir.f() RETURNS trigger LANGUAGE plpgsql AS 'begin return null; end'",
             "CREATE TRIGGER t BEFORE INSERT ON weir.weir_log EXECUTE FUNCTION weir.f()")
    unsafe(site, a, "number of triggers on weir_log is 1; drop them")
    site.ask("DROP FUNCTION weir.f() CASCADE", "ALTER TABLE weir.weir_log SET UNLOGGED")
    unsafe(site, a, "set logged")
    site.ask("ALTER TABLE weir.weir_log SET LOGGED")
    a("verify")


def a_refusal(ledger):
    try:
        ledger("verify")
    except Refused:
        return True
    return False


@test("PostgreSQL: nothing is appended after the standby names were emptied")
@ending
def _(folder):
    site = postgres()
    a, single = site.log(), site.new(durability="single")
    first = row(1, kind=1)
    equal(a.append(first), "durable")
    site.pair.primary.set(synchronous_standby_names="")
    until(lambda: a_refusal(a), 60, "the session sees the setting")
    equal(a.append(row(2), first), "refused")
    equal(a.append(row(2, size=MIB + 1), first), "refused")
    expect(a.refusal("barrier").startswith("STATE"), "a barrier")
    unsafe(site, a, "synchronous_standby_names is empty; set it")
    equal(a.tail()[0], 1)
    equal(single.append(row(2), first), "durable", "append where one server is meant")
    single("barrier")
    single("verify")
    site.pair.primary.set(synchronous_standby_names="ANY 1 (*)")
    until(site.pair.is_in_step, 60, "the standby")
    until(lambda: not a_refusal(a), 60, "the session sees the setting")
    equal(a.append(row(3), row(2)), "durable")


@test("PostgreSQL: a commit that was canceled, cut off or given up on is of unknown outcome")
@ending
def _(folder):
    site = postgres()
    a = site.log()
    before = fill(a, 1, 2, (0, 0, ""))
    for how in ("cancel", "terminate", "deadline", "pieces"):
        now = row(before[0] + 1, size=MIB + 1 if how == "pieces" else 40)
        site.pair.standby.pause()
        try:
            if how == "deadline":
                a("within", 700)
            a.send("append", *now, *before[:3])
            waiting = until(lambda h=how: site.waiting("commit" if h == "pieces" else "insert%"), 60,
                            "waiting for the standby")
            if how != "deadline":
                site.ask("SELECT pg_%s_backend(%s)" % ("terminate" if how == "terminate" else "cancel",
                                                       waiting[0][0]))
            got = a.answer()
            equal(got[0], "unknown", how + ": " + got[1])
            expect(a.is_closed, "%s: the connection is open" % how)
            a("within", 20000)
            a("connect")
            if how == "deadline":  # the backend goes on waiting, and holds the key
                expect(not a.has(now), "it is visible")
                equal(a.append(now, before), "busy", how)
            else:
                expect(a.has(now), "%s: it is not visible" % how)
                equal(a.append(now, before), "taken", how)
                a("within", 700)
                expect(a.refusal("barrier").startswith("TIMEOUT"), "the barrier did not wait")
                a("within", 20000)
                a("connect")
        finally:
            site.pair.standby.go_on()
        until(lambda n=now, b=before: a.append(n, b) == "taken", 60, "the row")
        expect(a.has(now), how)
        a("barrier")
        before = now


@test("PostgreSQL: who stops in the middle of a pipeline does not keep its locks")
@ending
def _(folder):
    site = postgres()
    a = site.log()
    first = row(1, kind=1)
    equal(a.append(first), "durable")
    a("give", a.one("look").split()[0], "", 0)
    equal(a.one("take", "a.1", 60000), "1")
    update = "UPDATE weir.weir_lease SET until = until"
    for application, role in (("psql", "weir"), ("weir", "postgres")):
        with site.admin.connect(role, PASSWORD, site.database, application_name=application) as other:
            other.stop_after("BEGIN", update)
            until(lambda o=other: site.is_silent(o), 60, "a lock")
            equal(a.one("take", "a.1", 60000), "0", "a session of somebody else was ended")
            expect(site.is_silent(other), "a session of somebody else was ended")
    for size in (40, MIB + 1):
        insert = "INSERT INTO weir.weir_log VALUES('default',2,0,1,'b.1',0,'x')"
        with site.admin.connect("weir", PASSWORD, site.database, application_name="weir") as stopped:
            stopped.stop_after("BEGIN", insert)
            until(lambda c=stopped: site.is_silent(c), 60, "a lock")
            equal(a.append(row(2, size=size), first), "busy")
            until(lambda n=size: a.append(row(2, size=n), first) == "durable", 60, "a row of that number")
        site.ask("DELETE FROM weir.weir_log WHERE seq = 2")
    with site.admin.connect("weir", PASSWORD, site.database, application_name="weir") as stopped:
        stopped.stop_after("BEGIN", update)
        until(lambda: site.is_silent(stopped), 60, "a lock")
        until(lambda: a.one("take", "a.1", 60000) == "1", 60, "the lease")


OFF, PREFER, REQUIRE, VERIFY = range(4)


@test("PostgreSQL: TLS is as asked for, and no password goes in clear text without it")
@ending
def _(folder):
    site, data = postgres(), postgres().admin.data
    ours, theirs = Authority(folder, "ours"), Authority(folder, "theirs")

    def is_encrypted(ledger):
        ledger("verify")
        got = site.ask("SELECT ssl FROM pg_stat_ssl JOIN pg_stat_activity USING(pid) WHERE usename = 'weir'")
        ledger.end()
        until(lambda: not site.ask("SELECT pid FROM pg_stat_activity WHERE usename = 'weir'"), 60, "its end")
        return got == [["t"]]
    until(lambda: not site.ask("SELECT pid FROM pg_stat_activity WHERE usename = 'weir'"), 60, "the others")
    expect(not is_encrypted(site.new(tls=PREFER)), "a server without TLS speaks it")
    expect("the server has no TLS" in site.new(tls=REQUIRE, connect=False).refusal("connect"), "require")
    for source, to in zip(ours.sign("server", "IP:127.0.0.1"), ("server.crt", "server.key")):
        shutil.copy(source, os.path.join(data, to))
        os.chmod(os.path.join(data, to), 0o600)
        if os.getuid() == 0:
            shutil.chown(os.path.join(data, to), "postgres", "postgres")
    site.admin.set(ssl="on")
    for mode, wanted in ((OFF, False), (PREFER, True), (REQUIRE, True), (VERIFY, True)):
        equal(is_encrypted(site.new(tls=mode, ca=ours.cert)), wanted, "TLS in mode %d" % mode)
    got = site.new(tls=VERIFY, ca=theirs.cert, connect=False).refusal("connect")
    expect("its certificate is not trusted" in got, got)
    site.admin.set(ssl="off")
    with socket.create_server(("127.0.0.1", 0)) as impostor:
        a = site.new(servers=[impostor.getsockname()[1]], connect=False)
        a.send("connect")
        with impostor.accept()[0] as peer:
            peer.recv(4096)  # who it is
            peer.sendall(b"R\0\0\0\x08\0\0\0\x03")
            equal(peer.recv(4096), b"", "what it is given")
        try:
            a.answer()
            raise AssertionError("it connected")
        except Refused as why:
            expect("clear text" in str(why), why)


@test("PostgreSQL: without a standby all waits, and that is said")
@ending
def _(folder):
    site = postgres()
    a = site.log()
    site.pair.standby.halt()
    until(lambda: a_refusal(a), 60, "the standby is away")
    expect("no synchronous standby is connected" in a.refusal("verify"), "verify")
    expect(not a.is_closed, "that closed the connection")
    b = site.new()  # it is safe to connect
    b("give", b.one("look").split()[0], "", 0)
    equal(b.one("take", "b.1", 1), "1", "a lease that waits for no standby")
    b("meet", "b", "b.1", "weir1:7379", 1, 1, 1, 0, 0)
    site.pair.standby.start()
    until(site.pair.is_in_step, 60, "the standby")
    equal(a.append(row(1, kind=1)), "durable")


@test("PostgreSQL: a failover is followed, and what was not replicated is gone", outer=True)
@ending
def _(folder):
    site = postgres()
    primary, standby = site.pair.primary, site.pair.standby
    a = site.log()
    before = fill(a, 1, 3, (0, 0, ""))
    b = site.new(servers=[primary, standby])
    standby.halt()
    b.send("append", *row(4), *before[:3])
    until(site.waiting, 60, "waiting for the standby")
    primary.process.kill()
    equal(b.answer()[0], "unknown", "append while the primary died")
    standby.start()
    standby.ask("SELECT pg_promote()")
    until(lambda: standby.ask("SELECT pg_is_in_recovery()") == [["f"]], 60, "the promotion")
    expect("synchronous_standby_names is empty" in b.refusal("connect"), "one server is not two")
    b = site.new(servers=[primary, standby], durability="single")
    expect(b.one("where").endswith(":%d" % standby.port), "connected to " + b.one("where"))
    equal(b.tail(), (3, 1, "a.1", 0, 2))
    equal(b.append(row(4, epoch=2, node="b.2", kind=1), before), "durable")


# ---------------------------------------------------------------- MariaDB


def set_global(site, **settings):
    for name, value in settings.items():
        site.ask("SET GLOBAL %s = %s" % (name, value))


@test("one MariaDB: a setting that loses commits is refused by name")
@ending
def _(folder):
    site = maria()
    a = site.log()
    got = site.new(durability="replicated", connect=False).refusal("connect")
    expect(got.startswith("STATE") and "it is one server; set wsrep_on" in got, got)
    set_global(site, innodb_flush_log_at_trx_commit=2)
    unsafe(site, a, "innodb_flush_log_at_trx_commit is 2; set innodb_flush_log_at_trx_commit = 1")
    set_global(site, innodb_flush_log_at_trx_commit=1)
    a("verify")
    site.ask("ALTER TABLE weir_log ENGINE=Aria")
    got = site.new(connect=False).refusal("connect")
    expect("engine of weir_log is Aria; run: alter table" in got, got)
    site.ask("ALTER TABLE weir_log ENGINE=InnoDB")
    first = row(1, kind=1)
    equal(a.append(first), "durable")
    set_global(site, read_only="ON")
    try:
        equal(a.append(row(2), first), "full", "append to a server that is read-only")
        expect(a.is_closed, "the connection is open")
        expect("read-only" in a.refusal("connect"), "connect")
    finally:
        set_global(site, read_only="OFF")
    a("connect")
    equal(a.append(row(2), first), "durable")


@test("one MariaDB: a connection that is killed leaves the outcome unknown")
@ending
def _(folder):
    site = maria()
    a = site.log()
    first = row(1, kind=1)
    equal(a.append(first), "durable")
    with site.admin.connect(database="weir") as c:
        c("BEGIN")
        c("INSERT INTO weir_log VALUES('default',2,0,1,'b.1',0,'x')")
        a.send("append", *row(2), *first[:3])
        who = until(lambda: site.ask("SELECT id FROM information_schema.processlist WHERE user = 'weir' "
                                     "AND info LIKE 'insert%'"), 60, "the insert")
        site.ask("KILL %s" % who[0][0])
        equal(a.answer()[0], "unknown")
        expect(a.is_closed, "the connection is open")
        c("ROLLBACK")
    a("connect")
    equal(a.append(row(2), first), "durable")
    site.admin.process.kill()
    site.admin.process.wait()
    equal(a.append(row(3), row(2)), "unknown", "append after kill -9")
    site.admin.start()
    a("connect")
    equal(a.tail(), (2, 1, "a.1", 0, 2))


@test("a semi-synchronous pair: a setting that loses commits is refused by name")
@ending
def _(folder):
    site = pair()
    a = site.log()
    for name, bad, good in (("rpl_semi_sync_master_wait_point", "AFTER_COMMIT", "AFTER_SYNC"),
                            ("rpl_semi_sync_master_timeout", 10000, 18446744073709551615),
                            ("rpl_semi_sync_master_wait_no_slave", "OFF", "ON"),
                            ("sync_binlog", 0, 1)):
        set_global(site, **{name: bad})
        unsafe(site, a, "%s is %s; set %s" % (name, bad, name))
        set_global(site, **{name: good})
        a("verify")
    set_global(site, rpl_semi_sync_master_enabled="OFF")
    unsafe(site, a, "rpl_semi_sync_master_enabled")
    set_global(site, rpl_semi_sync_master_enabled="ON")
    until(site.pair.is_in_step, 60, "the replica")
    until(lambda: not a_refusal(a), 60, "the pair is in step")


@test("a semi-synchronous pair: a commit that did not wait is of unknown outcome")
@ending
def _(folder):
    site = pair()
    a = site.log()
    before = fill(a, 1, 2, (0, 0, ""))
    site.pair.replica.pause()
    try:
        a.send("append", *row(3), *before[:3])
        who = until(lambda: site.ask("SELECT id FROM information_schema.processlist WHERE user = 'weir' "
                                     "AND state LIKE 'Waiting for semi-sync ACK%'"), 60, "the wait")
        site.ask("KILL QUERY %s" % who[0][0])
        got = a.answer()
        equal(got[0], "unknown", got)
        expect(a.is_closed, "the connection is open")
    finally:
        site.pair.replica.go_on()
    a("connect")
    equal(a.append(row(3), before), "taken")
    expect(a.has(row(3)), "it is not there")
    until(lambda: site.pair.status("Rpl_semi_sync_master_status") == "ON", 60, "the pair")
    a("barrier")
    equal(a.append(row(4), row(3)), "durable")


def two_of_galera():
    """The site, a ledger at the first node and one at the others, and the last row that both see."""
    site = galera()
    a, b = site.log(), site.new(servers=site.servers[1:])
    before = fill(a, 1, 2, (0, 0, ""))
    equal(b.tail()[0], 2)
    return site, a, b, before


@test("Galera: two nodes never both append a number")
@ending
def _(folder):
    _, a, b, before = two_of_galera()
    equal(int(a.one("lease_ms")), 10000)  # twice evs.suspect_timeout
    for seq in range(3, 23):
        mine, its = row(seq), row(seq, node="b.1")
        a.send("append", *mine, *before[:3])
        b.send("append", *its, *before[:3])
        got = [a.answer()[0], b.answer()[0]]
        expect(got.count("durable") == 1 and set(got) <= {"durable", "taken", "busy", "refused"}, got)
        before = mine if got[0] == "durable" else its
        expect(a.has(before) and b.has(before), "the row that won is not seen by both")
        b("barrier")


@test("Galera: the others go on when one dies, and one that is alone does not", outer=True)
@ending
def _(folder):
    site, a, b, before = two_of_galera()
    nodes = site.servers
    nodes[0].halt()
    until(lambda: nodes[1].status("wsrep_cluster_size") == "2", 60, "the others notice")
    equal(a.append(row(3), before), "unknown", "append to a node that is dead")
    until(lambda: connected(a), 60, "a connection to another node")
    expect(not a.one("where").endswith(":%d" % nodes[0].port), "connected to the dead")
    equal(a.append(row(3), before), "durable")
    b("verify")
    nodes[2].halt()
    until(lambda: nodes[1].status("wsrep_cluster_status") != "Primary", 60, "the last one notices")
    got = site.new(servers=nodes[1:2], connect=False).refusal("connect")
    expect(got.startswith("UNAVAIL") and "not in step with its cluster" in got, got)
    expect(b.refusal("verify").startswith("IO") and b.is_closed, "a node alone is verified")


def connected(ledger):
    try:
        ledger("connect")
    except Refused:
        return False
    return True


if __name__ == "__main__":
    main()
