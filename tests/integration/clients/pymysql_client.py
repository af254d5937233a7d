"""PyMySQL: what it sees of the server at DB_HOST:DB_PORT.  See mysql_clients.py."""
import hashlib
import os
import sys
import threading

import pymysql
from pymysql import cursors
from pymysql.constants import CLIENT

FILES = os.environ["DB_FILES"]


def connect(**options):
    return pymysql.connect(
        host=os.environ["DB_HOST"], port=int(os.environ["DB_PORT"]), user=os.environ["DB_USER"],
        password=os.environ["DB_PASSWORD"], database=os.environ["DB_NAME"], charset="utf8mb4",
        local_infile=True, autocommit=True, max_allowed_packet=64 << 20,
        client_flag=CLIENT.MULTI_STATEMENTS, program_name="pymysql-test", **options)


def rows(db, sql, *values):
    with db.cursor() as c:
        c.execute(sql, values or None)
        return c.fetchall()


def line(row):
    return "|".join("NULL" if v is None else str(v) for v in row)


def say(fact, value):
    print("%s: %s" % (fact, value), flush=True)


def fails(db, sql):
    try:
        rows(db, sql)
    except pymysql.MySQLError as error:
        return error.args[0]
    return 0


def all_sets(db, sql):
    out = []
    with db.cursor() as c:
        try:
            c.execute(sql)
            out.append("\n".join(line(r) for r in c.fetchall()))
            while c.nextset():
                if c.description:
                    out.append("\n".join(line(r) for r in c.fetchall()))
        except pymysql.MySQLError as error:
            out.append(str(error.args[0]))
    return "/".join(out)


def statements(db):
    say("text", line(rows(db, "SELECT 1+1, 'h\u00e9llo', NULL, ''")[0]))
    say("prepared", line(rows(db, "SELECT %s + 1, %s, %s", 41, "it's", None)[0]))  # client side
    say("kinds", repr(rows(db, "SELECT * FROM kinds")))
    with db.cursor() as c:
        n = c.execute("INSERT INTO notes (body) VALUES (%s)", ("first",))
        say("new_row", "%d %d" % (n, c.lastrowid))
    got = [r[0] for r in rows(db, "SELECT seq FROM seq_1_to_1000")]
    say("many_rows", "%d %d" % (len(got), sum(got)))
    with db.cursor(cursors.SSCursor) as c:
        c.execute("SELECT seq FROM seq_1_to_1000")
        got = [r[0] for r in c.fetchall_unbuffered()]
        say("cursor", "%d %d" % (len(got), sum(got)))
    rows(db, "SELECT 1 + 'x'")
    say("warnings", db.show_warnings())
    db.ping(reconnect=False)
    say("ping", "alive")


def transactions(db):
    counts = []
    for end in (db.rollback, db.commit):
        db.begin()
        rows(db, "INSERT INTO up VALUES (1)")
        end()
        counts.append(str(rows(db, "SELECT COUNT(*) FROM up")[0][0]))
    say("transaction", " ".join(counts))
    for sql in ("BEGIN", "SAVEPOINT a", "INSERT INTO up VALUES (2)", "ROLLBACK TO a", "COMMIT"):
        rows(db, sql)
    say("savepoint", rows(db, "SELECT COUNT(*) FROM up")[0][0])
    rows(db, "DELETE FROM up")


def sizes(db):
    for fact, n in (("big", 1 << 20), ("huge", 17 << 20)):
        rows(db, "INSERT INTO notes (body) VALUES (%s)", "x" * n)
        text = rows(db, "SELECT body FROM notes ORDER BY id DESC LIMIT 1")[0][0]
        say(fact, "%d %s" % (len(text), hashlib.md5(text.encode()).hexdigest()))


def uploads(db):
    load = "LOAD DATA LOCAL INFILE '%s/%s' INTO TABLE up"
    rows(db, load % (FILES, "rows.tsv"))
    say("infile", "%d %d" % rows(db, "SELECT COUNT(*), SUM(n) FROM up")[0])
    rows(db, "DELETE FROM up")
    rows(db, load % (FILES, "empty.tsv"))
    say("infile_empty", rows(db, "SELECT COUNT(*) FROM up")[0][0])


def several(db):
    say("multi", all_sets(db, "SELECT 1; SELECT 2, 3; SET @a = 4; SELECT @a"))
    say("multi_error", all_sets(db, "SELECT 1; SELECT * FROM nothing; SELECT 3"))
    say("call", all_sets(db, "CALL two()"))
    # PyMySQL does not tell the SQLSTATE; each class of its errors stands for some.
    known = {1062: "23000", 1064: "42000", 1146: "42S02"}
    numbers = [fails(db, sql) for sql in ("INSERT INTO counter VALUES (1, 1)", "SELEKT",
                                          "SELECT * FROM nothing")]
    say("errors", ", ".join("%d %s" % (n, known.get(n)) for n in numbers))


def kills(db):
    with connect() as victim:
        got = []
        t = threading.Thread(target=lambda: got.append(fails(victim, "SELECT SLEEP(600)")))
        t.start()
        me = victim.thread_id()
        while not rows(db, "SELECT 1 FROM information_schema.PROCESSLIST WHERE ID = %s AND INFO LIKE "
                       "'SELECT SLEEP%%'", me):
            pass
        rows(db, "KILL QUERY %d" % me)
        t.join()
        say("kill_query", "%d %s, then %s" % (got[0], "70100" if got[0] == 1317 else "?",
                                              rows(victim, "SELECT 1")[0][0]))
        db.kill(me)
        say("kill_connection", "gone" if fails(victim, "SELECT 1") in (2006, 2013) else "alive")


def busy():
    """A transaction that is repeated until it is let through."""
    with connect() as db:
        db.autocommit(False)
        while True:
            try:
                db.begin()
                rows(db, "UPDATE counter SET n = n + 1")
                db.commit()
                break
            except pymysql.err.OperationalError as error:
                number, text = error.args
                print("refused: %d %s %s" % (number, "40001" if number == 1213 else "?", text), flush=True)
                db.rollback()
    print("done")


if sys.argv[1] == "busy":
    busy()
else:
    with connect() as connection:
        for part in (statements, transactions, sizes, uploads, several, kills):
            part(connection)
