#!/usr/bin/python3
# weir-test: timeout=300 bin=release norepeat
"""Servers that never stop talking: what a probe reads and keeps of them is bounded, and the metric
says what was wrong."""
import functools
import json
import os
import struct
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from lib_databases import write_config  # noqa: E402
from lib_hostile import Fake, MysqlTalk, PostgresTalk, Talk, text_column  # noqa: E402
from lib_tls import Authority  # noqa: E402
from harness import WEIR, equal, expect, main, test  # noqa: E402

MOST_KIB = 100 * 1024  # of memory; a probe without trouble has a fifth of that
TOO_LONG = "the answer is longer than 1 MiB"


@functools.lru_cache(None)
def certificate():
    folder = tempfile.mkdtemp(prefix="cert.", dir=os.environ.get("TMPDIR"))
    return Authority(folder, "stranger").sign("server", "IP:127.0.0.1")


def endless(talk, data):
    """Until the client has had enough."""
    block = data * (1 + 65536 // len(data))
    while True:
        talk.socket.sendall(block)


def error_of(folder, kind, fake, body=""):
    """One look by `weir probe`; fails when it needed too much memory."""
    where = 'url = "http://127.0.0.1:%d/"' if kind == "http" else 'host = "127.0.0.1" port = %d'
    path = write_config(folder, """target "shop" { kind = "%s" %s user = "weir" timeout = "20s"
        password_file = "SECRET" %s }""" % (kind, where % fake.port, body))
    with tempfile.TemporaryFile(dir=folder) as out:
        process = subprocess.Popen([WEIR, "probe", "-c", path, "--once", "--json"], stdout=out,
                                   stdin=subprocess.DEVNULL, stderr=subprocess.PIPE)
        told = process.stderr.read().decode()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = status
        process.stderr.close()
        out.seek(0)
        shown = out.read()
    equal(os.waitstatus_to_exitcode(status), 7, "how it ended: " + told)
    expect(usage.ru_maxrss < MOST_KIB, "it took %d MiB" % (usage.ru_maxrss // 1024))
    return json.loads(shown)["metrics"][0]["error"]


def is_bounded(folder, kind, plays, words=TOO_LONG, body=""):
    for play in plays:
        talk = {"mysql": MysqlTalk, "postgres": PostgresTalk}.get(kind, Talk)
        with Fake(talk, play) as fake:
            error = error_of(folder, kind, fake, body)
            expect(words in error, "%s: %s" % (play.__name__, error))


# ---------------------------------------------------------------- MySQL


def row(number, text=b"1"):
    data = bytes([len(text)]) + text
    return struct.pack("<I", len(data))[:3] + bytes([number % 256]) + data


def rows_from(number):
    return b"".join(row(number + i) for i in range(256))


def answering(talk, certificate=None):
    """Logs everybody in, says yes to the settings of the session, and waits for a question."""
    talk.login(certificate=certificate)
    talk.ok()
    while True:
        query = talk.read()
        if query[1:4] != b"SET":
            return query
        talk.ok()


def head(talk, columns=1):
    talk.packet(bytes([columns]))
    for _ in range(columns):
        talk.packet(text_column(b"a"))
    talk.packet(b"\xfe\0\0\2\0")


@test("mysql: rows, columns, results and packets of a login without end")
def _(folder):
    def rows(talk):
        answering(talk)
        head(talk)
        endless(talk, rows_from(talk.number))

    def rows_over_tls(talk):
        answering(talk, certificate())
        head(talk)
        endless(talk, rows_from(talk.number))

    def columns(talk):
        answering(talk)
        talk.packet(b"\1")
        column = text_column(b"a")
        endless(talk, b"".join(struct.pack("<I", len(column))[:3] + bytes([(talk.number + i) % 256])
                               + column for i in range(256)))

    def one_row(talk):
        answering(talk)
        head(talk)
        while True:
            talk.socket.sendall(b"\xff\xff\xff" + bytes([talk.number]) + bytes(0xffffff))
            talk.number = (talk.number + 1) % 256

    def more_proof(talk):  # each packet of a login is answered, so there are few
        talk.login()
        talk.switch("client_ed25519", bytes(32))
        talk.read()
        endless(talk, b"".join(row(talk.number + i, b"\1") for i in range(256)))
    is_bounded(folder, "mysql", (rows, rows_over_tls, columns))
    is_bounded(folder, "mysql", (one_row, more_proof), "127.0.0.1")


@test("mysql: a number of columns that nobody has is not made room for")
def _(folder):
    def many(talk):
        answering(talk)
        talk.packet(b"\xfe" + struct.pack("<Q", 1 << 24))
        for _ in range(1000):
            talk.packet(text_column(b"a"))
        talk.packet(b"\xfe\0\0\2\0")
        endless(talk, b"".join(row(talk.number + i) for i in range(256)))

    def few(talk):  # as many as it says, and more than anybody asked for
        answering(talk)
        talk.packet(b"\xfc" + struct.pack("<H", 1000))
        for _ in range(1000):
            talk.packet(text_column(b"a"))
        talk.packet(b"\xfe\0\0\2\0")
        talk.packet(b"\xfb" * 1000)
        talk.packet(b"\xfe\0\0\2\0")
    is_bounded(folder, "mysql", (many, few), "127.0.0.1")


# ---------------------------------------------------------------- PostgreSQL


def logged_in(talk, certificate=None):
    """Up to the first question, which it has read."""
    talk.start(certificate=certificate)
    talk.ready()
    talk.read()


def prepared(talk, certificate=None):
    """Up to the first question that wants rows."""
    logged_in(talk, certificate)
    while talk.read()[0] != b"S":  # of the preparation
        pass
    talk.send(talk.pack(b"1", b"") + talk.pack(b"Z", b"I"))
    while talk.read()[0] != b"S":
        pass
    talk.send(talk.pack(b"2", b"") + talk.pack(
        b"T", struct.pack(">H", 1) + b"a\0" + struct.pack(">IHIHIH", 0, 0, 25, 65535, 0, 0)))


@test("postgres: rows, remarks, settings and messages of a login without end")
def _(folder):
    data = PostgresTalk.pack(b"D", struct.pack(">HI", 1, 1) + b"1")

    def rows(talk):
        prepared(talk)
        endless(talk, data)

    def rows_over_tls(talk):
        prepared(talk, certificate())
        endless(talk, data)

    def one_row(talk):
        prepared(talk)
        talk.socket.sendall(b"D" + struct.pack(">I", 1 << 30))
        endless(talk, bytes(1024))

    def remarks(talk):
        logged_in(talk)
        endless(talk, PostgresTalk.pack(b"N", b"SNOTICE\0C00000\0Mhow are you\0\0"))

    def settings(talk):
        logged_in(talk)
        for i in range(1 << 30):
            talk.socket.sendall(b"".join(PostgresTalk.pack(
                b"S", b"setting_%d_%d\0%s\0" % (i, k, b"x" * 99)) for k in range(200)))

    def login(talk):
        talk.start()
        talk.socket.sendall(PostgresTalk.pack(b"R", bytes(4)))
        endless(talk, PostgresTalk.pack(b"S", b"a\0b\0"))
    is_bounded(folder, "postgres", (rows, rows_over_tls, one_row, remarks, settings, login))


@test("postgres: what is no login is told so")
def _(folder):
    is_bounded(folder, "postgres", (lambda talk: endless(talk, b"HTTP/1.1 400 Bad Request\r\n"),),
               "does not speak as PostgreSQL does", 'tls = "off"')


# ---------------------------------------------------------------- HTTP


@test("http: a body and headers without end")
def _(folder):
    def asked(talk, answer):
        while b"\r\n\r\n" not in talk.heard:
            talk.exactly(1)
        talk.socket.sendall(answer)

    def body(talk):
        asked(talk, b"HTTP/1.1 200 OK\r\n\r\n")
        endless(talk, b"1" * 1024)

    def headers(talk):
        asked(talk, b"HTTP/1.1 200 OK\r\n")
        endless(talk, b"X-More: %s\r\n" % (b"x" * 1000))

    def interim(talk):
        asked(talk, b"")
        endless(talk, b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n")
    is_bounded(folder, "http", (body,), TOO_LONG, 'metric "json:a" { }')
    is_bounded(folder, "http", (headers, interim), "headers", 'metric "json:a" { }')


main()
