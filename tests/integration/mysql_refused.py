#!/usr/bin/python3
# weir-test: timeout=120
"""After a refusal of the MySQL door the session is as after an error of the server: what the client
sends next has the same effect as if the refused command had never been sent, and no command is a way
around the gate."""
import os
import struct
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from lib_mysql_door import Bed  # noqa: E402
from lib_mysql_wire import IN_TRANS, Gone  # noqa: E402
from harness import equal, expect, main, test  # noqa: E402

QUERY, EXECUTE, LONG_DATA = 3, 0x17, 0x18
REFRESH, DEBUG, BINLOG_DUMP, UNKNOWN = 7, 0x0D, 0x12, 0x60
STRING = 0xFD
CLASSES = {"etl": 'user = "etl" tier = "deferrable" wait = "10ms"',
           "report": 'user = "report" tier = "deferrable" wait = "10ms" error = 1205'}


def bed(folder):
    b = Bed(folder, classes=CLASSES)
    b.database.ask("CREATE OR REPLACE TABLE shop.words (v VARCHAR(100)) ENGINE=InnoDB")
    return b


def words(b):
    return [r[0] for r in b.database.ask("SELECT v FROM shop.words ORDER BY v")]


def execute(statement, value=None, has_types=True):
    """One string parameter; None: it was sent as long data."""
    out = struct.pack("<BIBI", EXECUTE, statement, 0, 1) + b"\0" + bytes([has_types])
    if has_types:
        out += bytes([STRING, 0])
    return out if value is None else out + bytes([len(value)]) + value


def send(c, payload):
    c.send(payload)
    return c.reply(EXECUTE, is_binary=True)


def refused(answer, number=1213):
    expect(answer.error and answer.error.is_weir(), "not refused: %r" % answer.error)
    equal(answer.error.number, number, "error")


def fine(answer):
    expect(answer.error is None, "%r" % answer.error)


@test("types of parameters that were refused with their statement are there for the next")
def _(folder):
    with bed(folder) as b, b.raw("etl") as c:
        statement = c.prepare("INSERT INTO words VALUES (?)").statement
        b.hold()
        refused(send(c, execute(statement, b"first")))
        b.free()
        fine(send(c, execute(statement, b"second", has_types=False)))
        fine(send(c, execute(statement, b"third", has_types=False)))
        equal(words(b), ["second", "third"], "rows")


@test("long data of a refused statement is gone")
def _(folder):
    with bed(folder) as b, b.raw("etl") as c:
        statement = c.prepare("INSERT INTO words VALUES (?)").statement
        data = struct.pack("<BIH", LONG_DATA, statement, 0) + b"abc"
        b.hold()
        c.send(data)
        refused(send(c, execute(statement)))
        b.free()
        c.send(data)
        fine(send(c, execute(statement)))
        equal(words(b), ["abc"], "rows")


@test("error 1213 ends the transaction that was begun, another error leaves it open")
def _(folder):
    with bed(folder) as b, b.raw("etl") as ends, b.raw("report") as stays:
        for c in (ends, stays):
            c.good("BEGIN")
        b.hold()
        refused(ends.query("INSERT INTO words VALUES ('ends')"))
        refused(stays.query("INSERT INTO words VALUES ('stays')"), 1205)
        b.free()
        equal([bool(c.ping().status & IN_TRANS) for c in (ends, stays)], [False, True], "open")
        stays.good("INSERT INTO words VALUES ('stays')")
        stays.good("ROLLBACK")
        equal(words(b), [], "rows")


@test("no command makes a connection that is passed unread, unless the server begins a stream")
def _(folder):
    with bed(folder) as b, b.raw("etl") as c:
        c.good("SET @a = 1")
        b.database.ask("REVOKE ALL PRIVILEGES, GRANT OPTION FROM etl@'127.0.0.1'",
                       "GRANT INSERT, SELECT ON shop.* TO etl@'127.0.0.1'")
        try:
            b.hold()
            for command in (bytes([REFRESH, 1]), bytes([DEBUG]), bytes([UNKNOWN])):
                c.send(command)
                c.payload()  # an error: privileges, or no such command
                refused(c.query("INSERT INTO words VALUES ('passed')"))
            c.send(bytes([BINLOG_DUMP]) + struct.pack("<IHI", 4, 0, 7))
            equal(c.payload()[0], 0xFF, "first byte of the answer to a dump")
            try:
                refused(c.query("INSERT INTO words VALUES ('passed')"))
            except (Gone, OSError):
                pass  # the server hung up after its error
            equal(words(b), [], "rows")
        finally:
            b.database.ask("GRANT ALL ON *.* TO etl@'127.0.0.1'")


main()
