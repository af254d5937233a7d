"""A MariaDB with weir's MySQL door in front of it, for tests.

    with Bed(folder, classes={"etl": 'user = "etl" tier = "deferrable"'}) as bed:
        bed.address                 of the door
        bed.direct                  of the MariaDB behind it
        bed.hold(), bed.free()      the operator pauses; the door knows it when they return
        bed.classes()               {class: its counters}

    shared = SharedBed(classes=...)     one for all tests of a script: shared() is the bed,
    shared.end()                        for the script's last test, says whether it ended well

A pause holds all classes but critical ones and those of the tier high.  Accounts are those of
ACCOUNTS, each with the password PASSWORD and all privileges.  What the door has learned can be given as
its file (learned).
"""
import atexit
import functools
import math
import os
import shutil
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from lib_databases import PASSWORD, Maria  # noqa: E402
from lib_mysql_wire import CAPS, Raw  # noqa: E402
from harness import Server, expect  # noqa: E402

# One account for each thing a test tells apart by its user.
ACCOUNTS = ("shop", "etl", "report", "probe", "other")
DATABASE = "shop"


@functools.lru_cache(None)
def maria():
    """One for the whole script."""
    m = Maria("door", "--max-connections=400", "--max-allowed-packet=128M", "--local-infile=1",
              "--innodb-lock-wait-timeout=5", "--progress-report-time=1", "--plugin-maturity=unknown")
    m.ask("CREATE DATABASE %s CHARACTER SET utf8mb4" % DATABASE)
    for name in ACCOUNTS:
        m.ask("CREATE USER %s@'127.0.0.1' IDENTIFIED BY '%s'" % (name, PASSWORD),
              "GRANT ALL ON *.* TO %s@'127.0.0.1'" % name)
    return m


def usual_bucket(n):
    """As gate/usual.h has them: one for each count below 16, then four for each octave."""
    octave = max(0, n.bit_length() - 5)
    return n if n < 16 else 16 + 4 * octave + (n >> (octave + 2)) - 4


def memory(executing, ms, running=2, name="shop"):
    """Of the class and section of that name, and of the server: what ten minutes of calm would have
    taught.  For the file learned.DOOR, as JSON."""
    return {"version": 1, "metric": {"seconds": 3600, "values": [[running, 3600000]]},
            "classes": [{"identity": name, "row": name, "comment_tier": -1, "ends": 5000,
                         "seconds": 3600, "executing": 1000 * executing,
                         "time": round(1000 * math.log(ms * 1e6)), "slow": round(1000 * math.log(4)),
                         "hours": [usual_bucket(executing)] * 3, "statements": []}]}


class Bed:
    """mode, wait: of the door.  classes: {name: settings}.  server: the port it sends to.  target: a
    section of the configuration."""

    def __init__(self, folder, mode="enforce", wait="2s", classes=None, server=None, options="",
                 target=""):
        self.folder, self.database = folder, maria()
        self.direct = ("127.0.0.1", self.database.port)
        rows = "\n".join('class "%s" { %s }' % row for row in (classes or {}).items())
        self.config = """
%s
mysql "shop" {
        listen = {"127.0.0.1:0"} server = "127.0.0.1:%d" mode = "%s" wait = "%s" %s
        connect_timeout = "60s" # a machine that stands still is no server that is away
}
%s
""" % (target, server or self.database.port, mode, wait, options, rows)
        self.start()

    def start(self):
        self.weir = Server(self.folder, config=self.config)
        self.address = self.weir.mysql[0]

    def door(self):
        """The numbers of the door."""
        with self.weir.web() as w:
            return w.good("GET", "/v1/proxies/shop")

    def clients(self, state):
        with self.weir.web() as w:
            return w.good("GET", "/v1/proxies/shop/clients?state=" + state)["clients"]

    def hold(self):
        with self.weir.web() as w:
            w.good("POST", "/v1/throttle", {"action": "pause"})

    def free(self):
        with self.weir.web() as w:
            w.good("POST", "/v1/throttle", {"action": "resume"})

    def classes(self):
        """{class: counters} of the door."""
        with self.weir.web() as w:
            answer = w.good("GET", "/v1/proxies/shop/classes")
        return {c["class"]: c for c in answer["classes"]}

    def raw(self, user="shop", is_direct=False, caps=CAPS, **options):
        """A connection of the test's own client, logged in."""
        return Raw(self.direct if is_direct else self.address).login(
            user, PASSWORD, database=DATABASE, caps=caps, **options)

    def stop(self):
        code = self.weir.stop(20)
        expect(code == 0, "weir ended with %s: %s" % (code, self.weir.log()[-400:]))

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        if kind is None:
            self.stop()


class SharedBed:
    """Started by the first test that needs it, and kept when that test is over."""

    def __init__(self, **options):
        self.options, self.bed = options, None

    def __call__(self):
        if not self.bed:
            folder = tempfile.mkdtemp(prefix="bed.", dir=os.environ.get("TMPDIR"))
            atexit.register(shutil.rmtree, folder, ignore_errors=True)
            self.bed = Bed(folder, **self.options)
            Server.alive.remove(self.bed.weir)  # what is in there is killed after each test
            atexit.register(self.bed.weir.process.kill)
        return self.bed

    def end(self):
        if self.bed:
            self.bed.stop()
