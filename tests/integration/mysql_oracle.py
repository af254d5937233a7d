#!/usr/bin/python3
# weir-test: timeout=300 outer=part
"""An independent oracle of the MySQL door: random clients run transactions of all kinds while the
level goes up and down.  The oracle reads the server's own status flags, knows what each session locked,
and so knows where a statement may wait: before a transaction, and nowhere else.

In a pause every session soon waits at such a place; one that waits elsewhere never comes there
and is found.  Some sessions leave or are killed while they wait: what they asked for must not run.  At
the end the ledger of the database holds what was committed, each once, and nothing else.

    tests/integration/mysql_oracle.py                           hundreds of transactions
    tests/integration/mysql_oracle.py --outer                   10,000
    tests/integration/mysql_oracle.py --transactions=100000     as many as you like
"""
import os
import random
import socket
import sys
import threading

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import lib_mysql_wire as wire  # noqa: E402
from lib_databases import PASSWORD  # noqa: E402
from lib_mysql_door import DATABASE, Bed, maria  # noqa: E402
from lib_mysql_wire import IN_TRANS, Gone  # noqa: E402
from harness import dice_seed, equal, expect, main, test, until  # noqa: E402

ASKED = next((int(a.split("=")[1]) for a in sys.argv if a.startswith("--transactions=")), None)
SOME, MANY = 500, ASKED or 10000  # transactions
PATIENT, HASTY = 6, 2  # sessions that wait as long as it takes, and that are soon refused
CLASSES = {"etl": 'user = "etl" tier = "deferrable" wait = "60s"',
           "report": 'user = "report" tier = "deferrable" wait = "20ms"',
           "probe": 'user = "probe" tier = "critical"'}
DEADLOCK, LOCK_TIMEOUT, INTERRUPTED = 1213, 1205, 1317


def fill():
    with maria().connect(database=DATABASE) as c:
        for sql in ("CREATE OR REPLACE TABLE ledger (nonce BIGINT, INDEX (nonce)) ENGINE=InnoDB",
                    "CREATE OR REPLACE TABLE hot (id INT PRIMARY KEY, n INT) ENGINE=InnoDB",
                    "INSERT INTO hot SELECT seq, 0 FROM seq_1_to_5",
                    "CREATE OR REPLACE PROCEDURE opens(x BIGINT) BEGIN START TRANSACTION;"
                    " INSERT INTO ledger VALUES (x); END"):
            c(sql)


class Aborted(Exception):
    """A statement was refused or failed: the rest of its transaction is left out."""


class Session(threading.Thread):
    """outstanding: (number, statement, may it wait), while the answer is not there."""

    def __init__(self, bed, number, user, seed):
        super().__init__(daemon=True)
        self.bed, self.number, self.user = bed, number, user
        self.random = random.Random(seed + number)
        self.nonce = number * 10**9
        self.committed, self.open, self.saved, self.never = [], [], None, []
        self.asked = self.done = self.refused = self.deadlocks = 0
        self.outstanding = self.leaving = None
        self.is_over, self.trouble, self.killed = False, None, False
        self.kinds = {}

    # --- one statement

    def may_wait(self, kind):
        """kind: data, lock (takes one), free (never waits)."""
        is_inside = self.c.status & IN_TRANS and not self.is_empty
        return kind != "free" and not self.locks and not is_inside

    def ask(self, sql, kind="data", nonces=(), send=None):
        self.asked += 1
        may = self.may_wait(kind)
        self.outstanding = (self.asked, sql, may)
        self.never += nonces  # until the answer says otherwise
        if send:
            reply = send()
        else:
            reply = self.c.query(sql)
        self.outstanding = None
        if reply.error:
            self.failed(sql, reply.error, may)
        if nonces:
            del self.never[-len(nonces):]
            self.open += nonces
        if kind == "data":
            self.is_empty = False
        if not self.c.status & IN_TRANS:
            self.settle(self.open)
        return reply

    def failed(self, sql, error, may):
        """What the error did to the transaction is asked of the server."""
        before, was_empty = self.c.status & IN_TRANS, self.is_empty
        self.outstanding = (self.asked, "PING", False)
        self.c.ping()
        self.outstanding = None
        is_gone = not self.c.status & IN_TRANS
        if error.is_weir() and error.number == INTERRUPTED:
            expect(self.killed and may, "%s: %s" % (sql, error))
            self.killed = False
        elif error.is_weir():
            expect(may, "refused inside a transaction or under locks: %s: %s" % (sql, error))
            expect((error.number, error.state) == (DEADLOCK, "40001"), error)
            expect(is_gone, "after the refusal of %s the transaction is still open" % sql)
            self.refused += 1
        else:
            expect(error.number in (DEADLOCK, LOCK_TIMEOUT, INTERRUPTED, 1064, 1146, 1062, 1317),
                   "%s: %s" % (sql, error))
            self.deadlocks += error.number == DEADLOCK
        if before and is_gone:
            self.never += self.open
            self.open = []
            self.is_empty = False
        elif error.is_weir():
            self.is_empty = was_empty
        raise Aborted(error.number)

    def settle(self, nonces):
        """The server says that no transaction is open: what was open is committed."""
        self.committed += nonces
        self.open = []
        self.is_empty = False

    # --- statements

    def begin(self, sql="BEGIN"):
        self.ask(sql, "free")
        self.is_empty = True

    def insert(self):
        self.nonce += 1
        n = self.nonce
        if self.random.random() < 0.3:
            self.ask("EXECUTE insert %d" % n, nonces=[n], send=lambda: self.c.execute(self.stmt, n))
        else:
            self.ask("INSERT INTO ledger VALUES (%d)" % n, nonces=[n])

    def data(self):
        """Some statement that touches a table."""
        k = self.random.randrange(4)
        if k < 2:
            self.insert()
        elif k == 2:
            self.ask("SELECT COUNT(*) FROM hot")
        else:
            self.ask("UPDATE hot SET n = n + 1 WHERE id = %d" % self.random.randrange(1, 6))

    def commit(self):
        self.ask("COMMIT", "free")

    def roll_back(self):
        self.never, self.open = self.never + self.open, []
        self.ask("ROLLBACK", "free")

    def end(self):
        (self.commit if self.random.random() < 0.7 else self.roll_back)()

    def some(self, most=3):
        for _ in range(self.random.randint(1, most)):
            self.data()

    # --- transactions

    def t_auto(self):
        self.data()

    def t_begin(self):
        self.begin(self.random.choice(("BEGIN", "START TRANSACTION", "/* x */ begin work",
                                       "START TRANSACTION READ WRITE")))
        if self.random.random() < 0.3:
            self.ask(self.random.choice(("SET @a = 1", "SHOW TABLES", "SAVEPOINT s")), "free")
        self.some()
        self.end()

    def t_autocommit_off(self):
        self.ask("SET autocommit = 0", "free")
        self.ask("SELECT 1", "free")
        for _ in range(self.random.randint(1, 2)):
            self.some()
            self.end()
        self.ask("SET autocommit = 1", "free")

    def t_savepoints(self):
        self.begin()
        self.insert()
        self.ask("SAVEPOINT a", "free")
        kept = list(self.open)
        self.insert()
        self.never += self.open[len(kept):]
        self.open = kept
        self.ask("ROLLBACK TO SAVEPOINT a", "free")
        self.data()
        self.end()

    def t_lock_tables(self):
        self.ask("LOCK TABLES ledger WRITE, hot WRITE", "lock")
        self.locks.add("tables")
        self.some()
        self.ask("UNLOCK TABLES", "free")
        self.locks.discard("tables")

    def t_user_lock(self):
        name = "lock%d" % self.random.randrange(4)
        if self.ask("SELECT GET_LOCK('%s', 10)" % name, "lock").rows != [[b"1"]]:
            return
        self.locks.add("user")
        self.some()
        if self.random.random() < 0.3:
            self.begin()
            self.some()
            self.end()
        self.ask("SELECT RELEASE_LOCK('%s')" % name, "free")
        self.locks.discard("user")

    def t_xa(self):
        name = "'x%d'" % self.nonce
        self.ask("XA START " + name, "free")
        self.insert()
        self.insert()
        kept, self.open = self.open, []
        self.ask("XA END " + name, "free")
        if self.random.random() < 0.5:
            self.ask("XA COMMIT %s ONE PHASE" % name, "free")
            self.committed += kept
            return
        self.ask("XA PREPARE " + name, "free")
        if self.random.random() < 0.7:
            self.ask("XA COMMIT " + name, "free")
            self.committed += kept
        else:
            self.ask("XA ROLLBACK " + name, "free")
            self.never += kept

    def t_handler(self):
        self.ask("HANDLER hot OPEN", "lock")
        self.locks.add("handler")
        self.ask("HANDLER hot READ FIRST")
        self.insert()
        self.ask("HANDLER hot CLOSE", "free")
        self.locks.discard("handler")

    def t_ddl(self):
        """An implicit commit in the middle of a transaction."""
        self.begin()
        self.insert()
        self.ask("CREATE TABLE IF NOT EXISTS own%d (id INT)" % self.number)
        self.data()
        self.ask("DROP TABLE IF EXISTS own%d" % self.number)

    def t_errors(self):
        self.begin()
        self.insert()
        for sql in ("SELEKT", "SELECT * FROM nothing", "INSERT INTO hot VALUES (1, 1)"):
            try:
                self.ask(sql)
                expect(False, sql + " gave no error")
            except Aborted:
                pass
        self.data()
        self.end()

    def t_deadlock(self):
        self.begin()
        for i in self.random.sample(range(1, 6), 3):
            self.ask("UPDATE hot SET n = n + 1 WHERE id = %d" % i)
        self.insert()
        self.end()

    def t_snapshot(self):
        self.ask("START TRANSACTION WITH CONSISTENT SNAPSHOT", "data")
        self.some()
        self.end()

    def t_procedure(self):
        self.nonce += 1
        self.ask("CALL opens(%d)" % self.nonce, nonces=[self.nonce])
        self.some()
        self.end()

    def t_several(self):
        self.nonce += 2
        a, b = self.nonce - 1, self.nonce
        self.ask("BEGIN; INSERT INTO ledger VALUES (%d)" % a, nonces=[a])
        self.ask("INSERT INTO ledger VALUES (%d); COMMIT" % b, nonces=[b])

    def t_reset(self):
        self.begin()
        self.insert()
        self.never, self.open = self.never + self.open, []
        if self.random.random() < 0.5:
            self.ask("RESET", "free", send=lambda: self.c.command(wire.RESET))
        else:
            expect(self.c.change_user(self.user, PASSWORD, DATABASE) is None, "change of the user")
        self.stmt = self.c.prepare("INSERT INTO ledger VALUES (?)").statement
        self.data()

    def t_prepared_text(self):
        self.nonce += 1
        self.ask("PREPARE s FROM 'INSERT INTO ledger VALUES (%d)'" % self.nonce, "free")
        self.ask("SET autocommit = 0", "free")
        self.ask("EXECUTE s", nonces=[self.nonce])
        self.data()
        self.end()
        self.ask("SET autocommit = 1", "free")

    def t_prepares_begin(self):
        """Preparing a BEGIN does not begin anything, and preparing a write does not write."""
        self.begin()
        self.c.prepare("INSERT INTO ledger VALUES (1)")
        self.insert()
        self.c.prepare("BEGIN")
        self.some()
        self.end()

    def t_read_lock(self):
        """All tables of the server, for a moment."""
        if self.random.random() < 0.1:
            self.ask("FLUSH TABLES WITH READ LOCK", "lock")
            self.locks.add("all")
            self.ask("SELECT COUNT(*) FROM hot")
            self.ask("UNLOCK TABLES", "free")
            self.locks.discard("all")

    # --- life

    def connect(self):
        self.c = self.bed.raw(self.user)
        self.c.heard = None
        self.c.socket.settimeout(300)
        self.locks, self.is_empty, self.open = set(), False, []
        self.stmt = self.c.prepare("INSERT INTO ledger VALUES (?)").statement

    def clean_up(self):
        """After a refusal or an error: as an application does, to a state without transaction."""
        self.never, self.open = self.never + self.open, []
        for sql in ("ROLLBACK", "SET autocommit = 1"):
            self.ask(sql, "free")
        for sql in {"UNLOCK TABLES" if x in ("tables", "all") else
                    "SELECT RELEASE_ALL_LOCKS()" if x == "user" else "HANDLER hot CLOSE" for x in self.locks}:
            self.ask(sql, "free")
        self.locks = set()

    def go_away(self):
        """While its statement waits: it is never answered, and must never run."""
        self.never += self.open
        self.open, self.outstanding = [], None
        self.c.close(reset=self.leaving == "reset")
        self.leaving = None
        self.connect()

    def run(self):
        scripts = [getattr(self, n) for n in sorted(dir(self)) if n.startswith("t_")]
        try:
            self.connect()
            while not self.is_over:
                script = self.random.choice(scripts)
                try:
                    script()
                    self.kinds[script.__name__] = self.kinds.get(script.__name__, 0) + 1
                except Aborted:
                    self.clean_up()
                except Gone:
                    if not self.leaving:
                        raise
                    self.go_away()
                self.done += 1
            self.c.close()
        except Exception as error:  # a thread's failure is the test's
            self.trouble = "session %d: %s: %s" % (self.number, type(error).__name__, error)
        finally:
            self.outstanding = None


class Storm:
    """The sessions, and what is done to them during a pause."""

    def __init__(self, bed, seed):
        self.bed, self.random = bed, random.Random(seed)
        users = ["etl"] * PATIENT + ["report"] * HASTY
        self.sessions = [Session(bed, i + 1, user, seed) for i, user in enumerate(users)]
        self.patient = self.sessions[:PATIENT]
        self.left = self.killed = self.waits = 0

    def check(self):
        expect(not any(s.trouble for s in self.sessions), [s.trouble for s in self.sessions if s.trouble])

    def done(self):
        self.check()
        return sum(s.done for s in self.sessions)

    def all_wait(self):
        """Each patient session waits where it may, and the door holds them all."""
        self.check()
        looks = [s.outstanding for s in self.patient]
        if not all(look and look[2] for look in looks):
            return False
        return self.bed.classes().get("etl", {}).get("waiting") == len(self.patient) and \
            looks == [s.outstanding for s in self.patient]

    def where(self):
        return ["%d: %s" % (s.number, s.outstanding) for s in self.patient]

    def strike(self):
        """A pause, until all wait; some of them leave, one is killed; then calm."""
        self.bed.hold()
        try:
            until(self.all_wait, 40, "waiting at the right places")
        except AssertionError as error:
            raise AssertionError("%s: %s" % (error, self.where())) from None
        self.waits += len(self.patient)
        some = self.random.sample(self.patient, 3)
        for s in some[:2]:
            s.leaving = self.random.choice(("end", "reset"))
            s.c.socket.shutdown(socket.SHUT_RD)  # wakes its thread, and sends nothing
            self.left += 1
        victim = some[2]
        victim.killed = True
        with self.bed.raw("probe") as c:
            c.good("KILL QUERY %d" % victim.c.thread)
        until(lambda: not victim.killed or victim.trouble, 30, "the end of the killed statement")
        self.killed += 1
        until(lambda: not any(s.leaving for s in self.sessions) or any(s.trouble for s in self.sessions), 30,
              "the new connections of those that left")
        self.bed.free()

    def finish(self):
        for s in self.sessions:
            s.is_over = True
        for s in self.sessions:
            s.join(120)
            expect(not s.is_alive(), "session %d does not end: %s" % (s.number, s.outstanding))
        self.check()


class Coverage:
    """What the sessions have met so far."""

    def __init__(self, storm):
        self.kinds = {}
        for s in storm.sessions:
            for name, n in dict(s.kinds).items():
                self.kinds[name] = self.kinds.get(name, 0) + n
        self.refused = sum(s.refused for s in storm.sessions)
        self.deadlocks = sum(s.deadlocks for s in storm.sessions)
        self.storm = storm

    def is_enough(self, least, refused, left, killed):
        """least: of each kind of transaction."""
        return len(self.kinds) == 18 and min(self.kinds.values()) > least and \
            self.refused > refused and self.storm.left > left and self.storm.killed > killed and \
            self.deadlocks > 0

    def __str__(self):
        return "%d transactions, %d refused, %d waited in storms, %d left, %d killed, %d deadlocks; %s" % (
            self.storm.done(), self.refused, self.storm.waits, self.storm.left, self.storm.killed,
            self.deadlocks, self.kinds)


def check_ledger(storm, counted, seed):
    rows = sorted(int(r[0]) for r in maria().ask("SELECT nonce FROM shop.ledger"))
    committed = sorted(n for s in storm.sessions for n in s.committed)
    never = {n for s in storm.sessions for n in s.never}
    equal([n for n in rows if n in never][:5], [], "rows that must not be there, seed %d" % seed)
    expect(rows == committed, "the ledger has %d rows, committed were %d; seed %d: %s" % (
        len(rows), len(committed), seed, sorted(set(rows) ^ set(committed))[:5]))
    told = Coverage(storm)
    print("# note: %s" % told)
    expect(counted["report"]["refused"] == told.refused,
           "weir counts %s refusals: %s" % (counted["report"]["refused"], told))


def run(folder, transactions, cycle, **enough):
    """At least so many transactions, a storm after each cycle of them, until they have met enough."""
    fill()
    seed = dice_seed()
    with Bed(folder, classes=CLASSES) as bed:
        storm = Storm(bed, seed)
        for s in storm.sessions:
            s.start()
        while storm.done() < transactions or not Coverage(storm).is_enough(**enough):
            expect(storm.killed < 10 * (transactions // cycle), "not enough: %s" % Coverage(storm))
            goal = storm.done() + cycle
            until(lambda: storm.done() >= goal, 120, "transactions at normal level")
            storm.strike()
        storm.finish()
        counted = bed.classes()
    check_ledger(storm, counted, seed)


@test("no transaction of a random client is held or refused inside, and what is abandoned never runs")
def oracle(folder):
    run(folder, SOME, SOME // 5, least=3, refused=2, left=4, killed=2)


@test("so it is with thousands of them", outer=not ASKED)
def long_oracle(folder):
    run(folder, MANY, max(250, MANY // 100), least=10, refused=20, left=20, killed=10)


if __name__ == "__main__":
    main()
