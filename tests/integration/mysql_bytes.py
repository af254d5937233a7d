#!/usr/bin/python3
# weir-test: timeout=300 long outer=part
"""Byte transparency of the MySQL door: a conversation through it has the bytes that it has with the
server itself, apart from the thread id, the salt and the capabilities that the door takes out.  That
holds wherever a packet is cut, for packets around 16 MB, for pipelined commands, and for many
connections at once: each answer belongs to its question."""
import contextlib
import functools
import os
import random
import re
import socket
import struct
import sys
import threading

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import lib_mysql_wire as wire  # noqa: E402
from lib_databases import PASSWORD  # noqa: E402
from lib_mysql_door import DATABASE, Bed, SharedBed, maria  # noqa: E402
from lib_mysql_wire import (  # noqa: E402
    CACHE_METADATA, CAPS, DEPRECATE_EOF, LAST_PREPARED, MAX, PROGRESS, SESSION_TRACK, Gone, Raw,
    execute_payload, string, wait_read)
from harness import dice_seed, equal, expect, main, test  # noqa: E402

door = SharedBed()
ROWS = b"1\ta\n2\tb\n3\t\\N\n"
MODES = {  # capabilities, MariaDB's extended ones
    "EOF packets": (CAPS, 0),
    "no EOF packets": (CAPS | DEPRECATE_EOF, 0),
    "cached metadata": (CAPS, CACHE_METADATA),
    "cached metadata, no EOF packets": (CAPS | DEPRECATE_EOF | SESSION_TRACK, CACHE_METADATA | wire.BULK),
    "progress reports and session tracking": (CAPS | SESSION_TRACK, PROGRESS | CACHE_METADATA),
}


@functools.lru_cache(None)
def fill():
    maria().ask(
        "CREATE TABLE shop.item (id INT PRIMARY KEY, name VARCHAR(40), INDEX (name))",
        "INSERT INTO shop.item VALUES (1, 'one'), (2, NULL), (3, 'thr\u00e9e'), (4, '')",
        "CREATE TABLE shop.up (id INT, name VARCHAR(40))",
        "CREATE PROCEDURE shop.two() BEGIN SELECT 1 AS a; SELECT id, name FROM item ORDER BY id; END",
        "CREATE PROCEDURE shop.fails() BEGIN SELECT 1 AS a; SELECT * FROM nothing; END")


# ---------------------------------------------------------------- the conversation

STEPS = []


def step(fn):
    STEPS.append((fn.__name__, fn))
    return fn


def queries(name, *statements):
    def run(c):
        for sql in statements:
            c.query(sql)
    STEPS.append((name, run))


queries("rows", "SELECT 1", "SELECT id, name FROM item ORDER BY id", "SELECT * FROM item WHERE 0",
        "SELECT NULL", "SELECT ''", "SELECT REPEAT('x', 250), REPEAT('y', 251), REPEAT('z', 70000)")
queries("changes", "BEGIN", "INSERT INTO up VALUES (1, 'x'), (2, 'y')", "UPDATE up SET name = 'z'",
        "SAVEPOINT s", "DELETE FROM up", "ROLLBACK TO s", "ROLLBACK", "SET autocommit = 0",
        "SELECT COUNT(*) FROM up", "COMMIT", "SET autocommit = 1", "USE shop", "SET @a = 1")
queries("errors", "SELEKT 1", "SELECT * FROM nothing", "SELECT nothing", "", " ",
        "INSERT INTO item VALUES (1, '')", "SELECT (SELECT id FROM item)", "KILL 4294967")
queries("several statements", "SELECT 1; SELECT 2, 3; SET @a = 4; SELECT @a", "SELECT 1;SELEKT 2",
        "SET @b = 1; SET @b = 2", "SELECT 1; SELECT * FROM nothing; SELECT 3", "CALL two()",
        "CALL fails()", "CALL two(); SELECT 9", "SELECT 1;")
queries("locks", "LOCK TABLES item READ", "SELECT COUNT(*) FROM item", "UNLOCK TABLES",
        "SELECT GET_LOCK('l', 1)", "SELECT RELEASE_LOCK('l')", "HANDLER item OPEN",
        "HANDLER item READ FIRST", "HANDLER item CLOSE", "XA START 'x'", "XA END 'x'",
        "XA ROLLBACK 'x'")


@step
def local_files(c):
    c.infile = {"rows": ROWS, "parts": [ROWS[:3], ROWS[3:7], ROWS[7:]], "none": b""}
    for name in c.infile:
        for tail in ("", "; SELECT 1"):
            c.query("LOAD DATA LOCAL INFILE '%s' INTO TABLE up%s" % (name, tail))
    c.query("LOAD DATA LOCAL INFILE 'rows' INTO TABLE nothing")
    c.query("SELECT * FROM up ORDER BY id, name")
    c.query("DELETE FROM up")


@step
def prepared(c):
    one = c.prepare("SELECT ? + 1, ?, ?").statement
    c.execute(one, 41, b"it's", None)
    c.execute(one, -1, b"", b"x")
    two = c.prepare("INSERT INTO up VALUES (?, ?)").statement
    c.execute(two, 7, b"seven")
    c.send(struct.pack("<BIH", wire.LONG_DATA, two, 1) + b"long ")
    c.send(struct.pack("<BIH", wire.LONG_DATA, two, 1) + b"data")
    c.execute(two, 8, b"")
    c.send(struct.pack("<BI", wire.CLOSE, two))
    c.execute(two, 9, b"nine")
    c.prepare("SELEKT ?")
    c.prepare("DO 1")
    c.execute(LAST_PREPARED)
    three = c.prepare("SELECT id, name FROM up ORDER BY id").statement
    c.execute(three)
    c.execute(three)  # its metadata may be left out now
    c.command(wire.RESET_STMT, struct.pack("<I", one))
    c.command(wire.RESET_STMT, struct.pack("<I", 999))
    call = c.prepare("CALL two()").statement
    c.execute(call)
    c.query("DELETE FROM up")


@step
def long_value(c):
    c.execute(c.prepare("SELECT ?, ?, ?").statement, -1, b"", b"x" * 300)


@step
def cursors(c):
    s = c.prepare("SELECT id FROM item ORDER BY id").statement
    c.execute(s, flags=1)
    for _ in range(3):
        c.send(struct.pack("<BII", wire.FETCH, s, 2))
        c.list_reply()
    c.execute(s, flags=1)
    c.command(wire.RESET_STMT, struct.pack("<I", s))
    c.send(struct.pack("<BII", wire.FETCH, s, 2))  # no cursor is open any more
    c.list_reply()


@step
def bulk(c):
    s = c.prepare("INSERT INTO up VALUES (?, ?)").statement
    rows = b"".join(b"\0" + struct.pack("<q", i) + b"\0" + string(b"bulk") for i in range(20))
    c.send(struct.pack("<BIH", wire.BULK_EXECUTE, s, 128) + b"\x08\0\xfd\0" + rows)
    c.reply()
    c.query("SELECT COUNT(*), SUM(id) FROM up")
    c.query("DELETE FROM up")


@step
def small_commands(c):
    for command, body in ((wire.PING, b""), (wire.INIT_DB, DATABASE.encode()), (wire.INIT_DB, b"no"),
                          (wire.SET_OPTION, b"\1\0"), (wire.SET_OPTION, b"\0\0"),
                          (wire.SET_OPTION, b"\x09\0"), (wire.PROCESS_KILL, b"\xff\xff\xff\0")):
        c.command(command, body)
    c.send(bytes([wire.FIELD_LIST]) + b"item\0%")
    c.list_reply()
    c.send(bytes([wire.FIELD_LIST]) + b"nothing\0")
    c.list_reply()


@step
def statistics(c):
    c.send(bytes([wire.STATISTICS]))
    c.payload()


@step
def another_user(c):
    expect(c.change_user("other", PASSWORD, DATABASE) is None, "change of the user")
    c.query("SELECT CURRENT_USER()")
    c.command(wire.RESET)
    c.query("SELECT @a, DATABASE()")


@step
def rare_commands(c):
    """The last step: the door may read no more of a connection with a command that it does not know."""
    for command, body in ((wire.REFRESH, b"\x40"), (wire.DEBUG, b""), (0x66, b"what"), (0, b"")):
        c.command(command, body)
    c.query("SELECT 'after'")


def masked(name, c):
    """What the client heard, without what differs between two connections to one server."""
    packets = []
    for p in c.heard:
        if name == "statistics":
            p = re.sub(rb"\d+(\.\d+)?", b"#", p[4:])
        elif name == "another_user" and p[4] == 0xfe:  # a switch of the plugin carries a new salt
            p = p[:27]
        for n, statement in enumerate(c.statements):  # the server counts them over all connections
            if p[:9] == b"\x0c\0\0\1\0" + struct.pack("<I", statement):
                p = b"statement %d" % n + p[9:]
            elif p[4:5] == b"\xff" and b"(%d)" % statement in p:
                p = p[4:].replace(b"(%d)" % statement, b"(%d)" % n)
        packets.append(p)
    return packets


class Cut(Raw):
    """Cuts what it sends: each send at one offset, or after each byte."""
    at, is_each = None, False

    def send(self, payload, seq=0):
        data = b"".join(wire.frames(payload, seq))
        places = range(1, len(data)) if self.is_each else [self.at] if self.at < len(data) else []
        begin = 0
        for place in places:
            self.socket.sendall(data[begin:place])
            wait_read(self.socket)
            begin = place
        self.socket.sendall(data[begin:])


def converse(address, mode, steps=None, kind=Raw):
    """{step: packets of the server}"""
    caps, ext = MODES[mode]
    heard = {}
    with kind(address) as c:
        heard["greeting"] = [c.plain_greeting]
        c.heard = []
        c.login("shop", PASSWORD, database=DATABASE, caps=caps, ext=ext, attrs={"program_name": "bytes"})
        heard["login"] = c.heard
        for name, fn in steps or STEPS:
            c.heard = []
            try:
                fn(c)
            except Gone:
                c.heard.append(b"gone")
            heard[name] = masked(name, c)
    return heard


def same(got, wanted, what):
    equal(list(got), list(wanted), what + ": steps")
    for name in wanted:
        for i, (a, b) in enumerate(zip(got[name], wanted[name])):
            equal(a, b, "%s: packet %d of %s" % (what, i, name))
        equal(len(got[name]), len(wanted[name]), "%s: number of packets of %s" % (what, name))
        expect(wanted[name], "no packet in " + name)


# ---------------------------------------------------------------- the tests


@test("a conversation has the same bytes through the door, whatever the client can do")
def transparent(_):
    fill()
    bed = door()
    for mode in MODES:
        same(converse(bed.address, mode), converse(bed.direct, mode), mode)


@test("a wrong sequence number and a wrong password are answered by the server itself")
def mistakes(_):
    def wrong_sequence(c):
        c.send(b"\x03SELECT 1", 5)
        c.payload()
        c.payload()

    def another_user(c):
        expect(c.change_user("other", "wrong", DATABASE) is not None, "a wrong password is taken")
        c.query("SELECT 1")

    fill()
    bed = door()
    for fn in (wrong_sequence, another_user):
        same(*(converse(a, "EOF packets", [(fn.__name__, fn)]) for a in (bed.address, bed.direct)),
             fn.__name__)
    heard = []
    for address in (bed.address, bed.direct):
        with Raw(address) as c:
            c.send(c.login_payload("shop", "wrong"), 1)
            heard.append((repr(c.finish_login("wrong")), c.heard[1:]))
            with contextlib.suppress(Gone):
                c.payload()
                expect(False, "the connection stays open")
    equal(heard[0], heard[1], "a wrong password")
    expect("1045" in heard[0][0], heard[0][0])


def connect_quickly(n):
    fill()
    bed = door()  # its target is measured by a program ten times a second
    for _ in range(n):
        with Raw(bed.address) as c:
            c.login("shop", PASSWORD)


@test("a new connection never gets the events of one that was closed, while weir starts programs")
def quick_connections(_):
    connect_quickly(300)


@test("nor does one of thousands of new connections", outer=True)
def many_quick_connections(_):
    connect_quickly(3000)


def longest_sends(address, mode):
    """{step: bytes of the longest packet that its client sends}, and of the login's."""
    longest = {}

    class Measure(Raw):
        step = "login"

        def send(self, payload, seq=0):
            longest[self.step] = max(longest.get(self.step, 0), 4 + len(payload))
            super().send(payload, seq)

    def measured(name, fn):
        def run(c):
            c.step = name
            fn(c)
        return name, run
    converse(address, mode, [measured(*one) for one in STEPS], kind=Measure)
    return longest


@test("client packets cut at each offset change no byte of the answers")
def cut_client(_):
    fill()
    bed = door()
    for mode in ("EOF packets", "cached metadata, no EOF packets"):
        longest = longest_sends(bed.direct, mode)
        wanted = {}
        for at in range(1, max(longest.values()) if mode == "EOF packets" else 6):
            Cut.at, Cut.is_each = at, False
            steps = [one for one in STEPS if longest[one[0]] > at]  # the others are never cut there
            names = tuple(name for name, _ in steps)
            if names not in wanted:
                wanted[names] = converse(bed.direct, mode, steps)
            same(converse(bed.address, mode, steps, kind=Cut), wanted[names], "cut at %d" % at)
        Cut.is_each = True
        same(converse(bed.address, mode, kind=Cut), converse(bed.direct, mode), "cut after each byte")


class Chopper:
    """Stands between the door and the server: what the server says comes a byte at a time, each
    after the door has read the one before.  `most`: from then on the rest of a read in one piece."""

    def __init__(self, to, most=400):
        self.to, self.most = to, most
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                near, _ = self.listener.accept()
            except OSError:
                return
            far = socket.create_connection(self.to)
            for s in (near, far):
                s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for a, b, chop in ((near, far, False), (far, near, True)):
                threading.Thread(target=self._copy, args=(a, b, chop), daemon=True).start()

    def _copy(self, a, b, chop):
        with contextlib.suppress(OSError):
            while True:
                data = a.recv(1 << 16)
                if not data:
                    b.shutdown(socket.SHUT_WR)
                    return
                for i in range(min(len(data), self.most) if chop else 0):
                    b.sendall(data[i:i + 1])
                    wait_read(b)
                b.sendall(data[self.most:] if chop else data)

    def close(self):
        self.listener.close()


@test("server packets that come a byte at a time change no byte of the answers")
def cut_server(folder):
    fill()
    chopper = Chopper(("127.0.0.1", maria().port))
    with Bed(folder, server=chopper.port) as bed:
        for mode in ("EOF packets", "cached metadata, no EOF packets"):
            same(converse(bed.address, mode), converse(bed.direct, mode), mode)
    chopper.close()


@test("pipelined commands are answered in their order")
def pipelined(_):
    def three(c):
        c.socket.sendall(b"".join(b"".join(wire.frames(b"\x03SELECT %d" % i)) for i in range(3)))
        equal([c.reply().rows for _ in range(3)], [[[b"%d" % i]] for i in range(3)], "answers")

    def prepare_and_execute(c):
        c.socket.sendall(b"".join(
            wire.frames(b"\x16SELECT ? + 1") + wire.frames(execute_payload(LAST_PREPARED, 41))))
        c.prepare_reply()
        expect(c.reply(is_binary=True).error is None, "EXECUTE of what was prepared last")

    def mixed(c):
        """A transaction, an error, commands without an answer, and a file in between."""
        c.infile = {"rows": ROWS}
        c.socket.sendall(b"".join(f for p in (
            b"\x03BEGIN", b"\x03INSERT INTO up VALUES (1, 'p')", b"\x03SELEKT", b"\x0e",
            struct.pack("<BI", wire.CLOSE, 1), b"\x03SELECT 1; SELECT 2", b"\x03ROLLBACK",
            b"\x03LOAD DATA LOCAL INFILE 'rows' INTO TABLE up") for f in wire.frames(p)))
        for _ in range(7):
            c.reply()
        c.query("DELETE FROM up")

    def many(c):
        n = 500
        c.socket.sendall(b"".join(b"".join(wire.frames(b"\x03SELECT %d" % i)) for i in range(n)))
        for i in range(n):
            equal(c.reply().rows, [[b"%d" % i]], "answer")

    steps = [(fn.__name__, fn) for fn in (three, prepare_and_execute, mixed, many)]
    fill()
    bed = door()
    for mode in MODES:
        same(converse(bed.address, mode, steps), converse(bed.direct, mode, steps), mode)


def big_statement(size):
    def run(c):
        head, tail = b"SELECT LENGTH(_binary'", b"')"
        n = size - 1 - len(head) - len(tail)
        equal(c.query(head + b"x" * n + tail).rows, [[b"%d" % n]], "length")
    return "statement of %d bytes" % size, run


def big_row(size):  # fd and three bytes, or fe and eight, stand before the value
    n = size - 4 if size - 4 < 1 << 24 else size - 9
    return "row of %d bytes" % size, lambda c: c.query("SELECT SPACE(%d)" % n)


def big_file(c):
    c.infile = {"big": [b"1\t" + b"x" * (MAX - 2), b"\n", b"2\ty\n"]}
    c.query("LOAD DATA LOCAL INFILE 'big' INTO TABLE wide")
    c.query("SELECT id, LENGTH(name) FROM wide ORDER BY id")
    c.query("DELETE FROM wide")


def big_execute(c):
    s = c.prepare("SELECT LENGTH(?)").statement
    for size in (MAX, MAX + 1):
        c.execute(s, b"x" * (size - len(execute_payload(s, b"")) - 8))


BIG_SIZES = (MAX - 1, MAX, MAX + 1)
BIGGER_SIZES = (2 * MAX, 2 * MAX + 1)
BIG_OTHERS = [("file", big_file), ("execute", big_execute)]
AFTER_BIG_ROW = ("row that begins with fe", lambda c: c.query(
    "SELECT SPACE(%d) UNION ALL SELECT 'end'" % (MAX + 1)))


def pass_big(mode, steps):
    fill()
    maria().ask("CREATE TABLE IF NOT EXISTS shop.wide (id INT, name LONGTEXT)")
    bed = door()
    for one in steps:  # one at a time: two of them need not be in memory at once
        same(converse(bed.address, mode, [one]), converse(bed.direct, mode, [one]), mode)


@test("statements, rows and files around 16 MB pass with the same bytes")
def big(_):
    pass_big("EOF packets", [f(n) for f in (big_statement, big_row) for n in BIG_SIZES]
             + [AFTER_BIG_ROW] + BIG_OTHERS)


@test("a row of 16 MB is not taken for an end, where no EOF packet marks one")
def big_without_eof(_):
    pass_big("no EOF packets", [big_row(MAX), AFTER_BIG_ROW])


@test("statements, rows and files of 16 and 32 MB pass with the same bytes in each mode", outer=True)
def bigger(_):
    sizes = BIG_SIZES + BIGGER_SIZES
    pass_big("no EOF packets", [f(n) for f in (big_statement, big_row) for n in sizes]
             + [AFTER_BIG_ROW] + BIG_OTHERS)
    pass_big("EOF packets", [f(n) for f in (big_statement, big_row) for n in BIGGER_SIZES])


@test("reports of progress pass, before the answer of an ALTER and between the rows of a CHECK")
def progress(_):
    def reported(c, sql):
        before = c.reports
        r = c.query(sql)
        expect(r.error is None and c.reports > before, "%s: no report came; %s" % (sql, r.error))

    def alter(c):
        reported(c, "ALTER TABLE slow ENGINE = InnoDB, ALGORITHM = COPY")
        c.query("SELECT 'after'")

    def check(c):
        """Its columns are sent before its work begins."""
        reported(c, "ALTER TABLE slow ENGINE = Aria")
        reported(c, "CHECK TABLE slow EXTENDED")
        c.query("SELECT 'after'")

    fill()
    maria().ask("USE shop", "CREATE OR REPLACE TABLE slow (id INT PRIMARY KEY)",
                "INSERT INTO slow SELECT seq FROM seq_1_to_100")
    bed = door()
    for caps in (CAPS, CAPS | DEPRECATE_EOF):
        with bed.raw(caps=caps, ext=PROGRESS) as c, \
                bed.raw(caps=caps, ext=PROGRESS, is_direct=True) as d:
            for fn in (alter, check):
                c.heard, d.heard = [], []
                fn(d)
                fn(c)
                equal(*([p[4:] for p in x.heard if p[4:7] != b"\xff\xff\xff"] for x in (c, d)),
                      "answers around the reports")


# ---------------------------------------------------------------- nonces


class Asker:
    """A connection that asks in random ways, and knows what each answer must hold."""

    def __init__(self, bed, seed):
        self.random = random.Random(seed)
        mode = self.random.choice(list(MODES))
        self.c = bed.raw(caps=MODES[mode][0], ext=MODES[mode][1])
        self.c.heard = None
        self.echo = self.c.prepare("SELECT ?").statement
        self.asked = []

    def question(self):
        """(frames, how to read the answer and what it must hold)"""
        nonce = b"%016x" % self.random.getrandbits(64)
        kind = self.random.randrange(7)
        c, random_ = self.c, self.random

        def holds(read, times):
            def check():
                r = read()
                found = [cell for row in r.rows for cell in (row if isinstance(row, list) else [row])]
                expect(r.error is None, r.error)
                equal([nonce in f for f in found], [True] * times, "%s: %s" % (nonce, found[:3]))
            return check

        def fails():
            r = c.reply()
            expect(r.error and nonce.decode() in r.error.text, "%s: %s" % (nonce, r.error))

        if kind == 0:
            return b"\x03SELECT '%s'" % nonce, holds(c.reply, 1)
        if kind == 1:
            n = random_.choice((1, 3, 100, 1000))
            return (b"\x03SELECT '%s' FROM seq_1_to_%d" % (nonce, n)), holds(c.reply, n)
        if kind == 2:
            return b"\x03SELECT * FROM `%s`" % nonce, fails
        if kind == 3:
            sql = b"SET @a = 1; SELECT '%s'; SELECT '%s', '%s'" % (nonce, nonce, nonce)
            return b"\x03" + sql, holds(c.reply, 3)
        if kind == 4:
            return execute_payload(self.echo, nonce), holds(lambda: c.reply(is_binary=True), 1)
        if kind == 5:
            size = random_.choice((0, 200, 5000, 70000))
            return b"\x03SELECT '%s%s'" % (nonce, b"x" * size), holds(c.reply, 1)
        c.infile[nonce.decode()] = nonce * random_.choice((0, 1, 999))
        sql = b"LOAD DATA LOCAL INFILE '%s' INTO TABLE hole; SELECT '%s'" % (nonce, nonce)
        return b"\x03" + sql, holds(c.reply, 1)

    def run(self, n):
        while n > 0:
            batch = [self.question() for _ in range(self.random.choice((1, 1, 1, 2, 5)))]
            if any(b"LOCAL" in payload for payload, _ in batch):
                batch = batch[:1] if b"LOCAL" in batch[0][0] else [q for q in batch if b"LOCAL" not in q[0]]
            self.c.socket.sendall(b"".join(f for payload, _ in batch for f in wire.frames(payload)))
            for _, check in batch:
                check()
            n -= len(batch)
        self.c.close()


def ask_randomly(n):
    """n questions on each of eight connections."""
    fill()
    maria().ask("CREATE TABLE IF NOT EXISTS shop.hole (name LONGTEXT) ENGINE=MyISAM")
    seed = dice_seed()
    bed = door()
    troubles = []

    def run(i):
        try:
            Asker(bed, seed + i).run(n)
        except Exception as error:  # a thread's failure is the test's
            troubles.append("connection %d: %s: %s" % (i, type(error).__name__, error))
    threads = [threading.Thread(target=run, args=(i,)) for i in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    equal(troubles, [], "with seed %d" % seed)


@test("each of hundreds of random questions on many connections gets its own answer")
def nonces(_):
    ask_randomly(100)


@test("each of thousands of random questions on many connections gets its own answer", outer=True)
def many_nonces(_):
    ask_randomly(2000)


def ends(_):
    door.end()


test("weir ends well after all of them")(ends)
test("weir ends well after all of them", outer=True)(ends)

if __name__ == "__main__":
    main()
