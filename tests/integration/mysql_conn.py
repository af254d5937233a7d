#!/usr/bin/python3
# weir-test: timeout=120
"""Connections of sql/mysql.h to a real MariaDB: sessions, results, and each error with its kind."""
import collections
import functools
import os
import subprocess
import sys
import threading

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from lib_databases import PASSWORD, Maria  # noqa: E402
from harness import equal, expect, main, test, until  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
LONG = 60000  # ms; far more than any statement here needs
Answer = collections.namedtuple("Answer", "error number is_open affected insert_id problem rows")


@functools.lru_cache(None)
def program():
    out = os.path.join(os.environ.get("TMPDIR", "/tmp"), "mysql_shell.%d" % os.getpid())
    build = os.environ.get("WEIR_BUILD", os.path.join(ROOT, "build", "asan"))
    done = subprocess.run(
        ["cc", "-std=gnu17", "-D_GNU_SOURCE", "-O1", "-g", "-fsanitize=address,undefined",
         "-fno-sanitize-recover=all", "-pthread", "-I", os.path.join(ROOT, "src"),
         "-include", os.path.join(ROOT, "src/base/banned.h"),
         os.path.join(HERE, "mysql_shell.c"), os.path.join(build, "libweir.a"),
         "-lmariadb", "-lssl", "-lcrypto", "-o", out],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    equal(done.returncode, 0, done.stdout[-1500:])
    return out


@functools.lru_cache(None)
def maria():
    """A server whose own settings differ from all that a session of weir has."""
    m = Maria("db", "--default-time-zone=+09:00", "--sql-mode=ANSI_QUOTES,NO_BACKSLASH_ESCAPES",
              "--autocommit=0", "--character-set-server=latin1",
              "--skip-character-set-client-handshake", "--innodb-lock-wait-timeout=1")
    m.ask("SET autocommit = 1",
          "CREATE USER weir@'127.0.0.1' IDENTIFIED BY '%s'" % PASSWORD,
          "CREATE DATABASE shop CHARACTER SET utf8mb4",
          "CREATE TABLE shop.t (id INT PRIMARY KEY AUTO_INCREMENT, v INT) ENGINE=InnoDB",
          "INSERT INTO shop.t (v) VALUES (10), (20), (NULL)",
          "CREATE TABLE shop.`a``b` (x INT)",
          "CREATE DATABASE secret", "CREATE TABLE secret.t (id INT)",
          "GRANT SELECT, INSERT, UPDATE, PROCESS ON *.* TO weir@'127.0.0.1'",
          "REVOKE SELECT, INSERT, UPDATE ON *.* FROM weir@'127.0.0.1'",
          "GRANT SELECT, INSERT, UPDATE ON shop.* TO weir@'127.0.0.1'")
    return m


class Shell:
    def __init__(self, m=None, password=PASSWORD, database="shop"):
        m = m or maria()
        self.process = subprocess.Popen(
            [program(), "127.0.0.1", str(m.port), "weir", password, database],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def send(self, *words):
        self.process.stdin.write(" ".join(map(str, words)) + "\n")
        self.process.stdin.flush()

    def take(self):
        error, number, is_open, affected, insert_id, problem, rows = \
            self.process.stdout.readline().rstrip("\n").split("\t")
        return Answer(error, int(number), is_open == "1", int(affected), int(insert_id), problem,
                      [row.split(",") for row in rows.split(";")] if rows else [])

    def __call__(self, *words):
        self.send(*words)
        return self.take()

    def run(self, sql, ms=LONG):
        return self("run", ms, sql)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.stdout.close()
        code = self.process.wait()
        if not sys.exc_info()[0]:
            equal(code, 0, "exit code of the program")


def connected(**options):
    shell = Shell(**options)
    answer = shell("connect", LONG)
    equal((answer.error, answer.is_open), ("OK", True), answer.problem)
    return shell


@test("a session has its own settings, whatever those of the server are")
def _(_folder):
    with connected() as db:
        got = db.run("SELECT @@time_zone, @@sql_mode = '', @@autocommit, @@character_set_client, "
                     "@@character_set_connection, @@character_set_results, "
                     "TIMESTAMPDIFF(SECOND, UTC_TIMESTAMP(), NOW())").rows
        equal(got, [["+00:00", "1", "1", "utf8mb4", "utf8mb4", "utf8mb4", "0"]], "settings")


@test("a statement gives its rows, changed rows and new numbers")
def _(_folder):
    with connected() as db:
        equal(db.run("SELECT id, v FROM t WHERE id < 4 ORDER BY id").rows,
              [["1", "10"], ["2", "20"], ["3", "NULL"]], "rows")
        equal(db.run("SELECT id FROM t WHERE id < 0").rows, [], "no row")
        for sql in ("SELECT 1", "SELECT 1, NULL, 3"):
            equal(db("pair", LONG, sql).rows, [["1", "NULL"]], "two cells of " + sql)
        equal(db.run("UPDATE t SET v = 10 WHERE id = 1").affected, 0, "a row that stays as it is")
        equal(db.run("UPDATE t SET v = 21 WHERE id = 2").affected, 1, "a row that changes")
        got = db.run("INSERT INTO t (v) VALUES (40)")
        equal((got.affected, got.insert_id), (1, 4), "a new row")


@test("text and names reach the server as they are")
def _(_folder):
    with connected() as db:
        for text in (b"", b"it's", b'"`\\', b"\\'; DROP TABLE t; -- ", bytes(range(128)),
                     "Zürich € 😀".encode(), b"O:8:\"\0*\0items\";"):
            got = db("text", LONG, text.hex())
            equal((got.error, got.rows), ("OK", [[text.hex().upper()]] if text else []),
                  "%r: %s" % (text, got.problem))
        equal(db("name", LONG, b"a`b".hex()).error, "OK", "a name with a backquote")
        equal(db("name", LONG, b"t` WHERE 1 -- x".hex()).error, "NOTFOUND", "no name at all")
        equal(db("name", LONG, b"t\0".hex()).error, "BADARG", "a name with a NUL")


@test("a refusal has its kind, and the connection stays")
def _(_folder):
    with connected() as db:
        for sql, error, number, words in (
                ("SELECT * FROM secret.t", "FORBIDDEN", 1142, "a privilege is missing"),
                ("DELETE FROM t", "FORBIDDEN", 1142, "a privilege is missing"),
                ("SELECT * FROM nothing", "NOTFOUND", 1146, "shop.nothing"),
                ("SELECT nothing FROM t", "NOTFOUND", 1054, "nothing"),
                ("SELEKT 1", "BADARG", 1064, "syntax"),
                ("INSERT INTO t (id) VALUES (1)", "BADARG", 1062, "Duplicate"),
                ("SET STATEMENT max_statement_time=0.05 FOR SELECT SLEEP(60)", "UNAVAIL", 1969,
                 "no answer within")):
            got = db.run(sql)
            equal((got.error, got.number, got.is_open), (error, number, True),
                  sql + ": " + got.problem)
            expect(words in got.problem, got.problem)
            got = db.run("SELECT 1")
            equal((got.error, got.number, got.rows), ("OK", 0, [["1"]]), "after " + sql)


@test("a row that another session holds is told apart from other refusals")
def _(_folder):
    with connected() as db, maria().connect(database="shop") as holder:
        holder("BEGIN")
        holder("UPDATE t SET v = 11 WHERE id = 1")
        got = db.run("UPDATE t SET v = 12 WHERE id = 1")
        equal((got.error, got.number, got.is_open), ("LOCKED", 1205, True), got.problem)
        holder("ROLLBACK")


@test("so is the lock on the next number of a table, which the server reports by another error")
def _(_folder):
    with connected() as db, maria().connect(database="shop") as gate, \
            maria().connect(database="shop") as holder:
        gate("SELECT GET_LOCK('gate', 0)")
        # Holds the table's AUTO-INC lock from its first row until its second may come.
        filling = threading.Thread(target=holder, args=(
            "INSERT INTO t (v) SELECT IF(seq = 1, 1, GET_LOCK('gate', 60)) FROM seq_1_to_2",))
        filling.start()
        until(lambda: gate("SELECT COUNT(*) FROM information_schema.PROCESSLIST"
                              " WHERE STATE = 'User lock'") == [["1"]], what="the first row")
        got = db.run("INSERT INTO t (v) VALUES (50)")
        gate("SELECT RELEASE_LOCK('gate')")
        filling.join()
        equal((got.error, got.number, got.is_open), ("LOCKED", 1467, True), got.problem)


@test("an answer that is too long, and one that does not come, close the connection")
def _(_folder):
    with connected() as db:
        got = db.run("SELECT REPEAT('x', 600000) UNION ALL SELECT REPEAT('y', 600000)")
        equal((got.error, got.is_open), ("TOOBIG", False), got.problem)
        equal(db.run("SELECT 1").error, "IO", "a statement without a connection")
        equal(db("connect", LONG).error, "OK", "another connection")
        got = db.run("SELECT SLEEP(600)", 50)
        equal((got.error, got.is_open), ("TIMEOUT", False), got.problem)
        equal(db("connect", LONG).error, "OK", "another connection")
        me = db.run("SELECT CONNECTION_ID()").rows[0][0]
        maria().ask("KILL %s" % me)
        got = db.run("SELECT 1")
        equal((got.error, got.is_open), ("IO", False), got.problem)


@test("a thread that is told to stop waits for no answer")
def _(_folder):
    with connected() as db:
        equal(db("stop").error, "OK", "stop")
        got = db.run("SELECT SLEEP(600)")
        equal((got.error, got.is_open), ("STOPPING", False), got.problem)
        equal(db("connect", LONG).error, "STOPPING", "connecting")


@test("a login that fails says why")
def _(_folder):
    with Shell(password="wrong") as db:
        got = db("connect", LONG)
        equal((got.error, got.is_open), ("FORBIDDEN", False), got.problem)
        expect("refuses this user or password" in got.problem, got.problem)
    with Shell(database="nowhere") as db:
        got = db("connect", LONG)
        equal(got.is_open, False, got.problem)
        expect("nowhere" in got.problem, got.problem)


main()
