"""A MariaDB with weir's MySQL door in front of it, for tests.

    with Bed(folder, classes={"etl": 'user = "etl" tier = "deferrable"'}) as bed:
        bed.address                 of the door
        bed.direct                  of the MariaDB behind it
        bed.set_level("critical")   returns when the gate knows it
        bed.classes()               {class: its counters}

    shared = SharedBed(classes=...)     one for all tests of a script: shared() is the bed,
    shared.end()                        for the script's last test, says whether it ended well

The level comes from a file that a target of kind "command" prints.  Accounts are those of ACCOUNTS,
each with the password PASSWORD and all privileges.
"""
import atexit
import functools
import os
import shutil
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from lib_databases import PASSWORD, Maria  # noqa: E402
from lib_mysql_wire import CAPS, Raw  # noqa: E402
from harness import Server, expect, until  # noqa: E402

LOADS = {"normal": 1, "elevated": 7, "critical": 30}
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


class Bed:
    """mode, wait: of the door.  classes: {name: settings}.  server: the port it sends to."""

    def __init__(self, folder, mode="enforce", wait="2s", classes=None, server=None, options=""):
        self.folder, self.database = folder, maria()
        self.direct = ("127.0.0.1", self.database.port)
        self.file = os.path.join(folder, "load")
        self._write("normal")
        rows = "\n".join('class "%s" { %s }' % row for row in (classes or {}).items())
        self.config = """
target "shop" {
        kind = "command" command = {"cat", "%s"} interval = "100ms" dwell = "0s"
        metric "load" { source = "value" elevated = {5, 3} critical = {15, 10} }
}
mysql "shop" {
        listen = {"127.0.0.1:0"} server = "127.0.0.1:%d" target = "shop" mode = "%s" wait = "%s" %s
        connect_timeout = "60s" # a machine that stands still is no server that is away
}
%s
""" % (self.file, server or self.database.port, mode, wait, options, rows)
        self.start()

    def start(self):
        self.weir = Server(self.folder, config=self.config)
        self.address = self.weir.mysql[0]
        self.set_level("normal")

    def _write(self, level):
        with open(self.file + ".new", "w", encoding="ascii") as out:
            out.write("%d\n" % LOADS[level])
        os.rename(self.file + ".new", self.file)

    def level(self):
        with self.weir.web() as w:
            return w.good("GET", "/v1/throttle")["targets"][0]["level"]

    def door(self):
        """The numbers of the door."""
        with self.weir.web() as w:
            return w.good("GET", "/v1/proxies/shop")

    def set_level(self, level):
        """Returns when the door acts on it: at critical level its window closes in some samples."""
        self._write(level)
        until(lambda: self.level() == level, 30, "level " + level)
        wanted = {"normal": -1, "critical": 0}.get(level)  # -1: no limit
        if wanted is not None:
            until(lambda: self.door()["window"] == wanted, 30, "the window of level " + level)

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
