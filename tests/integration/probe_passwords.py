#!/usr/bin/python3
# weir-test: timeout=300
"""A probe keeps its password from whoever answers: servers that are none ask for it in every way
there is, and must not get it where a listener or they themselves could read it.

What a login by itself tells (a proof over a nonce) is no such thing; see docs/probes.md."""
import fcntl
import functools
import os
import socket
import struct
import subprocess
import sys
import tempfile
import termios

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import lib_hostile  # noqa: E402
from lib_databases import PASSWORD, probe_once, write_config  # noqa: E402
from lib_hostile import Fake, MysqlTalk, PostgresTalk, sha2_proof  # noqa: E402
from lib_tls import Authority  # noqa: E402
from harness import WEIR, equal, expect, main, test, until  # noqa: E402

MODES = ("off", "prefer", "require")
SECRET = PASSWORD.encode()


@functools.lru_cache(None)
def certificate():
    """Of nobody in particular: whoever answers can have one."""
    folder = tempfile.mkdtemp(prefix="cert.", dir=os.environ.get("TMPDIR"))
    return Authority(folder, "stranger").sign("server", "IP:127.0.0.1")


def target(kind, where, tls=None, timeout="20s"):
    return """target "shop" { kind = "%s" %s user = "weir" password_file = "SECRET"
        interval = "100ms" timeout = "%s" %s }""" % (kind, where, timeout,
                                                     'tls = "%s"' % tls if tls else "")


def error_of(folder, kind, fake, tls=None, path=None, timeout="20s"):
    """Asks once, and returns the sentence; all talks are over then.  A fake that falls silent needs
    a short timeout."""
    where = 'socket = "%s"' % path if path else 'host = "127.0.0.1" port = %d' % fake.port
    code, got = probe_once(folder, target(kind, where, tls, timeout))
    sample = list(got.values())[0]
    equal((code, sample["value"]), (7, None), "what comes of a server that is none: %s" % sample)
    for talk in list(fake.talks):
        expect(talk.is_over.wait(30), "a connection stays open")
    return sample["error"]


def gives_nothing(folder, kind, play, words, modes=MODES):
    """In no mode the fake gets the password, nor any answer to what it asked for."""
    for mode in modes:
        with Fake(MysqlTalk if kind == "mysql" else PostgresTalk, play) as fake:
            error = error_of(folder, kind, fake, mode)
            expect(SECRET not in fake.heard(), "%s: it was given the password" % mode)
            expect(fake.talks, "%s: nobody came" % mode)
            for talk in fake.talks:
                equal(talk.after, b"", "%s: what it was sent when it had asked" % mode)
            wanted = "the server has no TLS" if mode == "require" else words
            expect(wanted in error, "%s: '%s' is not in '%s'" % (mode, wanted, error))


# ---------------------------------------------------------------- MySQL


@test("mysql: a switch to any other way to log in is refused, and nothing is sent for it")
def _(folder):
    for plugin in ("mysql_clear_password", "dialog", "mysql_old_password", "sha256_password",
                   "auth_gssapi_client", "no_such_plugin"):
        def play(talk, plugin=plugin):
            talk.login()
            talk.switch(plugin)
        gives_nothing(folder, "mysql", play, "may not be used", ("off", "prefer"))


@test("mysql: a name that is part of one that is allowed gets empty answers at most")
def _(folder):
    for plugin in ("password", "sha2", "mysql_", ""):
        def play(talk, plugin=plugin):
            talk.login()
            talk.switch(plugin)
        with Fake(MysqlTalk, play) as fake:
            error_of(folder, "mysql", fake, "off", timeout="1s")
            for talk in fake.talks:
                expect(SECRET not in talk.heard, "it was given the password")
                expect(talk.after[:3] in (b"", bytes(3)) and len(talk.after) <= 4, talk.after)


@test("mysql: a greeting that begins with such a way gets no login at all")
def _(folder):
    for plugin in ("mysql_clear_password", "dialog", "mysql_old_password"):
        gives_nothing(folder, "mysql", lambda talk, p=plugin: talk.greet(p), "may not be used",
                      ("off", "prefer"))


@test("mysql: a server of before 4.1, whose scramble is soon guessed, gets none either")
def _(folder):
    def short(talk):  # "use the short scramble"
        talk.login()
        talk.packet(b"\xfe")
    gives_nothing(folder, "mysql", short, "may not be used", ("off", "prefer"))
    gives_nothing(folder, "mysql", lambda talk: talk.greet(flags=lib_hostile.LONG_PASSWORD),
                  "may not be used", ("off", "prefer"))


@test("mysql: caching_sha2_password proves itself in the open, and gives more over TLS only")
def _(folder):
    def full(talk):
        login = talk.login(plugin="caching_sha2_password")
        expect(sha2_proof(PASSWORD) in login, "no proof in the login")
        talk.packet(b"\1\4")  # "I need all of it"

    def by_switch(talk):
        talk.login()
        talk.switch("caching_sha2_password")
        equal(talk.read(), sha2_proof(PASSWORD), "the proof")
        talk.packet(b"\1\4")
    for play in (full, by_switch):
        gives_nothing(folder, "mysql", play, "without TLS", ("off", "prefer"))


@test("mysql: caching_sha2_password: the proof alone logs in without TLS")
def _(folder):
    asked = []

    def fast(talk):
        expect(sha2_proof(PASSWORD) in talk.login(plugin="caching_sha2_password"), "no proof")
        talk.packet(b"\1\3")  # "that is enough"
        talk.ok()
        asked.append(talk.read())
        talk.leave()
    with Fake(MysqlTalk, fast) as fake:
        error_of(folder, "mysql", fake, "off")
        expect(asked and asked[0][:1] == b"\3", "no query came after the login: %s" % asked)
        expect(SECRET not in fake.heard(), "it was given the password")


@test("mysql: caching_sha2_password gives all over TLS and over a socket, where nobody listens")
def _(folder):
    got = []

    def full(talk, cert):
        talk.login(certificate=cert, plugin="caching_sha2_password")
        talk.packet(b"\1\4")
        got.append(talk.read())
        talk.leave()
    for mode in ("prefer", "require"):
        with Fake(MysqlTalk, lambda talk: full(talk, certificate())) as fake:
            error_of(folder, "mysql", fake, mode)
    path = os.path.join(folder, "s")
    with Fake(MysqlTalk, lambda talk: full(talk, None), path) as fake:
        error_of(folder, "mysql", fake, path=path)
    equal(got, [SECRET + b"\0"] * 3, "what was sent")


@test("mysql: over TLS to whomever, other ways to log in are refused as well")
def _(folder):
    for plugin in ("mysql_clear_password", "dialog", "mysql_old_password", "sha256_password"):
        def play(talk, plugin=plugin):
            talk.login(certificate=certificate())
            talk.switch(plugin)
        with Fake(MysqlTalk, play) as fake:
            error = error_of(folder, "mysql", fake, "require")
            expect("may not be used" in error, error)
            expect(SECRET not in fake.heard(), "it was given the password")
            for talk in fake.talks:
                equal(talk.after, b"", "what it was sent when it had asked")


@test("mysql: native and ed25519 are answered with a proof")
def _(folder):
    for plugin, size in (("mysql_native_password", 20), ("client_ed25519", 64)):
        proofs = []

        def play(talk, plugin=plugin, proofs=proofs):
            talk.login(plugin="caching_sha2_password")
            nonce = lib_hostile.NONCE + (b"\0" if plugin[0] == "m" else bytes(range(1, 13)))
            talk.switch(plugin, nonce)
            proofs.append(talk.read())
            talk.leave()
        with Fake(MysqlTalk, play) as fake:
            error_of(folder, "mysql", fake, "off")
            equal([len(p) for p in proofs], [size], "the proof of " + plugin)
            expect(SECRET not in fake.heard(), "it was given the password")


@test("mysql: require and verify without TLS end before the login, not after it")
def _(folder):
    ca = 'verify" tls_ca = "%s' % certificate()[0]
    for mode in ("require", ca):
        for plugin in ("mysql_native_password", "caching_sha2_password"):
            with Fake(MysqlTalk, lambda talk, p=plugin: talk.greet(p)) as fake:
                error = error_of(folder, "mysql", fake, mode)
                expect("the server has no TLS" in error, error)
                equal(fake.heard(), b"", "what was sent")


@test("mysql: a greeting in pieces is read, and what is none is neither believed nor crashes anybody")
def _(folder):
    def pieces(talk):
        whole = []
        talk.send = whole.append
        talk.greet()
        for byte in b"".join(whole):
            talk.socket.sendall(bytes([byte]))

    def progress(talk):  # looks like an error and is none
        talk.packet(b"\xff\xff\xff\1\1\1\0\0\0\0")
        talk.greet()

    def progress_in_pieces(talk, cut=6):
        report = b"\x0a\0\0\0\xff\xff\xff\1\1\1\0\0\0\0"
        talk.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        talk.socket.sendall(report[:cut])
        # The rest when that has been taken in: there is no other way to see it from here.
        until(lambda: struct.unpack("i", fcntl.ioctl(
            talk.socket, termios.TIOCOUTQ, bytes(4)))[0] == 0, 10, "the first piece")
        talk.socket.sendall(report[cut:])
    none = "does not speak as MySQL does"
    for mode in ("off", "require"):
        for play, words in ((pieces, "the server has no TLS" if mode == "require" else "no answer"),
                            (progress, none),
                            *((lambda talk, n=n: progress_in_pieces(talk, n), none)
                              for n in range(1, 14)),
                            (lambda talk: talk.packet(b""), none),
                            (lambda talk: talk.packet(b"\x098.0.99\0" + bytes(40)), none),
                            (lambda talk: talk.packet(b"\x0a8.0.99"), none),
                            (lambda talk: talk.socket.sendall(b"\xff\xff\xff\0\x0a8\0"), none)):
            with Fake(MysqlTalk, play) as fake:
                silent = words == "no answer"
                error = error_of(folder, "mysql", fake, mode, timeout="1s" if silent else "20s")
                expect(words in error, error)
                if mode == "require" or words == none:
                    equal(fake.heard(), b"", "what was sent")


@test("mysql: an error instead of a greeting is told, with require too")
def _(folder):
    for mode in MODES:
        with Fake(MysqlTalk, lambda talk: talk.packet(b"\xff\x10\x04Too many connections")) as fake:
            error = error_of(folder, "mysql", fake, mode)
            expect("Too many connections" in error, error)


@test("mysql: no file of this machine is sent to a server that asks for one")
def _(folder):
    path = os.path.join(folder, "private")
    with open(path, "w") as f:
        f.write("a line that nobody may have\n")

    def play(talk):
        talk.login()
        talk.ok()
        while True:
            talk.read()
            talk.packet(b"\xfb" + path.encode())
    with Fake(MysqlTalk, play) as fake:
        error_of(folder, "mysql", fake, "off")
        expect(b"nobody may have" not in fake.heard(), "the file was sent")


@test("mysql: nothing is read from standard input, whatever a server asks to be typed")
def _(folder):
    def play(talk):
        talk.login()
        talk.switch("dialog", b"\2Type it in: ")
    with Fake(MysqlTalk, play) as fake:
        path = write_config(folder, target(
            "mysql", 'host = "127.0.0.1" port = %d' % fake.port, "off"))
        there, here = os.pipe()
        os.write(here, b"typed by a person\n")
        process = subprocess.Popen([WEIR, "probe", "-c", path, "--once"], stdin=there,
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        out = process.communicate(timeout=30)[0]
        equal(process.returncode, 7, "exit code of %s" % out)
        os.close(here)
        equal(os.read(there, 100), b"typed by a person\n", "what is left of the input")
        os.close(there)
        expect(b"typed" not in fake.heard() and b"Type it in" not in out, out)


# ---------------------------------------------------------------- PostgreSQL

CLEAR, MD5, SASL = 3, 5, 10
SCRAM = b"SCRAM-SHA-256\0\0"


@test("postgres: no password in clear text without TLS, however it is asked for")
def _(folder):
    def plainly(talk):
        talk.start()
        talk.ask(CLEAR)

    def early(talk):  # before the client has said who it is
        talk.start(b"N" + talk.pack(b"R", b"\0\0\0\3"))
        talk.ask(CLEAR)

    def after_scram(talk):
        talk.start()
        talk.ask(SASL, SCRAM)
        talk.read()
        talk.ask(CLEAR)

    def at_once(talk):  # both in one piece
        talk.start()
        talk.send(talk.pack(b"R", b"\0\0\0\x0a" + SCRAM) + talk.pack(b"R", b"\0\0\0\3"))

    def after_md5(talk):
        talk.start()
        talk.ask(MD5, b"salt")
        talk.read()
        talk.ask(CLEAR)

    def in_pieces(talk):
        talk.start()
        for byte in talk.pack(b"R", b"\0\0\0\3"):
            talk.send(bytes([byte]))
    for play in (plainly, early, after_scram, at_once, after_md5, in_pieces):
        for mode in MODES:
            with Fake(PostgresTalk, play) as fake:
                error = error_of(folder, "postgres", fake, mode)
                expect(SECRET not in fake.heard(), "%s, %s: it was given the password" % (
                    play.__name__, mode))
                wanted = "the server has no TLS" if mode == "require" else "in clear text, without TLS"
                expect(wanted in error, "%s, %s: %s" % (play.__name__, mode, error))


@test("postgres: with require nobody is told who comes before there is TLS")
def _(folder):
    with Fake(PostgresTalk, lambda talk: talk.start()) as fake:
        error = error_of(folder, "postgres", fake, "require")
        expect("the server has no TLS" in error, error)
        expect(b"weir" not in fake.heard(), fake.heard())


@test("postgres: clear text goes over TLS and over a socket, where nobody listens")
def _(folder):
    got = []

    def play(talk, cert):
        talk.start(certificate=cert)
        talk.ask(CLEAR)
        got.append(talk.read())
        talk.ready()
        talk.leave()
    for mode in ("prefer", "require"):
        with Fake(PostgresTalk, lambda talk: play(talk, certificate())) as fake:
            error_of(folder, "postgres", fake, mode)
    path = os.path.join(folder, ".s.PGSQL.5432")
    with Fake(PostgresTalk, lambda talk: play(talk, None), path) as fake:
        error_of(folder, "postgres", fake, path=folder)
    equal(set(got), {(b"p", SECRET + b"\0")}, "what was sent")


@test("postgres: scram and md5 are answered with a proof")
def _(folder):
    for kind, data in ((SASL, SCRAM), (MD5, b"salt")):
        proofs = []

        def play(talk, kind=kind, data=data, proofs=proofs):
            talk.start()
            talk.ask(kind, data)
            proofs.append(talk.read())
            talk.leave()
        with Fake(PostgresTalk, play) as fake:
            error_of(folder, "postgres", fake, "off")
            equal([p[0] for p in proofs], [b"p"], "answers")
            expect(SECRET not in fake.heard(), "it was given the password")


main()
