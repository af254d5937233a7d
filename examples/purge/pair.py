"""A MariaDB primary and its replica, each in a folder of its own, and the lag between them.

The table is `shop.events`, filled on both sides without going through the binary log.  The primary
deletes; the replica keeps an archive of what was deleted, by a trigger, so a row costs it several
times as much as the primary.  It applies on one thread, as replicas do unless told otherwise.  That
is how replicas fall behind; here it depends on the processor and not on the disk, which is never
waited for.
"""
import os
import shutil
import socket
import subprocess
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "demo"))

from shop import (  # noqa: E402
    SCRIPTS, START_S, TABLES, USER, Connection, DatabaseError, die_with_parent)

BEAT_S = 0.05       # between two heartbeats, and between two looks at the lag
CAUGHT_UP_S = 0.3   # a lag below this is none
USERS = (
    "FLUSH PRIVILEGES;",
    "CREATE USER %s@localhost;" % USER,
    "CREATE USER %s@'127.0.0.1';" % USER,
    "GRANT ALL ON *.* TO %s@localhost;" % USER,
    "GRANT ALL ON *.* TO %s@'127.0.0.1';" % USER,
    "CREATE DATABASE shop;",
)
EVENTS = ("CREATE OR REPLACE TABLE events (id BIGINT PRIMARY KEY, customer INT NOT NULL,"
          " at DATETIME NOT NULL, note CHAR(120) NOT NULL, KEY (customer)) ENGINE=InnoDB")
FILL = ("INSERT INTO events SELECT seq, seq * 7919 %% 100003,"
        " '2020-01-01' + INTERVAL seq SECOND, CONCAT(MD5(seq), SHA2(seq, 256))"
        " FROM seq_1_to_%d")
HEARTBEAT = "CREATE TABLE heartbeat (id INT PRIMARY KEY, ts DATETIME(6) NOT NULL) ENGINE=InnoDB"
BEAT = "REPLACE INTO heartbeat VALUES (1, NOW(6))"
LAG = "SELECT TIMESTAMPDIFF(MICROSECOND, ts, NOW(6)) / 1000000 FROM heartbeat"
ARCHIVE = (
    "CREATE OR REPLACE TABLE archive (id BIGINT PRIMARY KEY, customer INT NOT NULL,"
    " at DATETIME NOT NULL, note CHAR(120) NOT NULL, purged DATETIME(6) NOT NULL, KEY (customer),"
    " KEY (at), KEY (note), KEY (purged), KEY (note, customer)) ENGINE=InnoDB",
    "CREATE OR REPLACE TRIGGER keep AFTER DELETE ON events FOR EACH ROW INSERT INTO archive"
    " VALUES (OLD.id, OLD.customer, OLD.at, OLD.note, NOW(6))",
)


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Server:
    """One MariaDB: clients come through its socket, the replica and weir through its port."""

    def __init__(self, folder, name, *options):
        self.folder = os.path.join(folder, name)
        self.socket = os.path.join(self.folder, "sock")
        self.port, self.process = free_port(), None
        program = shutil.which("mariadbd", path=os.environ.get("PATH", "") + ":/usr/sbin")
        if not program:
            raise DatabaseError("mariadbd is missing; tools/deps demo installs it")
        data = os.path.join(self.folder, "data")
        os.makedirs(os.path.join(data, "mysql"))
        self.args = [program, "--no-defaults", "--datadir=" + data, "--skip-name-resolve",
                     "--innodb-buffer-pool-size=512M", "--innodb-log-file-size=256M"]
        if os.geteuid() == 0:
            self.args.append("--user=root")
        self.log = open(os.path.join(self.folder, "log"), "ab")
        self._fill()
        self.args += ["--socket=" + self.socket, "--bind-address=127.0.0.1",
                      "--port=%d" % self.port, "--pid-file=" + os.path.join(self.folder, "pid"),
                      # Nobody wants the data afterwards, and the disk is not what this is about.
                      "--innodb-flush-log-at-trx-commit=0", "--innodb-doublewrite=0",
                      "--innodb-flush-method=nosync", "--performance-schema=off",
                      "--binlog-format=ROW", "--max-allowed-packet=64M", *options]

    def _fill(self):
        """The system tables, as mariadb-install-db makes them."""
        sql = b"USE mysql;\n"
        for name in TABLES:
            with open(SCRIPTS % name, "rb") as f:
                sql += f.read()
        sql += "\n".join(USERS).encode() + b"\n"
        done = subprocess.run(self.args + ["--bootstrap"], input=sql, stdout=self.log,
                              stderr=self.log, timeout=START_S, check=False)
        if done.returncode != 0:
            raise DatabaseError("MariaDB did not make its tables: " + self.last_words())

    def start(self):
        self.process = subprocess.Popen(
            self.args, stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log,
            preexec_fn=die_with_parent, start_new_session=True)
        deadline = time.monotonic() + START_S
        while True:
            try:
                self.connect().close()
                return
            except DatabaseError:
                if self.process.poll() is not None or time.monotonic() > deadline:
                    raise DatabaseError("MariaDB did not start: " + self.last_words()) from None
                time.sleep(0.01)

    def connect(self):
        return Connection(self.socket)

    def ask(self, *statements):
        c = self.connect()
        try:
            for statement in statements:
                value = c.query(statement)
            return value
        finally:
            c.close()

    def last_words(self):
        with open(os.path.join(self.folder, "log"), errors="replace") as f:
            return f.read()[-500:]

    def stop(self):
        if self.process and self.process.poll() is None:
            self.process.kill()     # nobody wants its data any more
            self.process.wait()
        self.log.close()


class Pair:
    """Primary and replica, a heartbeat that is written on the one and read on the other."""

    def __init__(self, folder):
        self.is_over = threading.Event()
        self.lags = []          # (monotonic, seconds), as the replica shows it
        self.error = None       # the first that a thread met
        self.threads = []
        self.primary = Server(folder, "primary", "--server-id=1", "--log-bin=bin")
        self.replica = Server(folder, "replica", "--server-id=2", "--read-only=1",
                              "--slave-run-triggers-for-rbr=YES")
        try:
            self.primary.start()
            self.replica.start()
            self._tie()
        except BaseException:
            self.stop()
            raise

    def _tie(self):
        self.replica.ask("CHANGE MASTER TO MASTER_HOST='127.0.0.1', MASTER_PORT=%d,"
                         " MASTER_USER='%s', MASTER_CONNECT_RETRY=1, MASTER_USE_GTID=slave_pos"
                         % (self.primary.port, USER), "START SLAVE")
        self.primary.ask(HEARTBEAT, BEAT)
        for function in (self._beat, self._watch):
            thread = threading.Thread(target=self._guard, args=(function,), daemon=True)
            thread.start()
            self.threads.append(thread)

    def _guard(self, function):
        try:
            function()
        except Exception as error:  # told by check(), in the main thread
            self.error = self.error or error

    def _beat(self):
        c = self.primary.connect()
        while not self.is_over.wait(BEAT_S):
            c.query(BEAT)
        c.close()

    def _watch(self):
        c = self.replica.connect()
        deadline = time.monotonic() + START_S
        while c.query("SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = 'shop'"
                      " AND table_name = 'heartbeat'") == "0" or c.query(LAG) is None:
            if time.monotonic() > deadline:
                raise DatabaseError("the replica does not replicate")
            time.sleep(0.01)
        while not self.is_over.wait(BEAT_S):
            value = c.query(LAG)
            self.lags.append((time.monotonic(), max(0.0, float(value))))
        c.close()

    def check(self):
        if self.error:
            raise self.error

    def lag(self):
        self.check()
        return self.lags[-1][1] if self.lags else 0.0

    def fill(self, rows):
        """The same rows on both sides, at the same time, and an empty archive."""
        self.settle()  # else what was done to the old table is still to come on the replica
        statements = ["SET sql_log_bin = 0", EVENTS, FILL % rows]
        other = threading.Thread(target=self._guard, args=(
            lambda: self.replica.ask(*statements, *ARCHIVE),))
        other.start()
        self.primary.ask(*statements)
        other.join()
        self.check()

    def settle(self, seconds=600):
        """Waits until the replica has caught up."""
        deadline = time.monotonic() + seconds
        position = self.primary.ask("SELECT @@gtid_binlog_pos")
        if self.replica.ask("SELECT MASTER_GTID_WAIT('%s', %d)" % (position, seconds)) != "0":
            raise DatabaseError("the replica did not catch up in %d s" % seconds)
        seen = len(self.lags)  # an older look says nothing of now
        while len(self.lags) == seen or self.lag() > CAUGHT_UP_S:
            if time.monotonic() > deadline:
                raise DatabaseError("the replica did not catch up in %d s" % seconds)
            time.sleep(BEAT_S)

    def archived(self):
        return int(self.replica.ask("SELECT COUNT(*) FROM archive"))

    def stop(self):
        self.is_over.set()
        for thread in self.threads:
            thread.join(5)
        self.primary.stop()
        self.replica.stop()
