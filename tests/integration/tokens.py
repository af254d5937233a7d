#!/usr/bin/python3
# weir-test: timeout=240
"""Tokens with roles, over both doors: who may do what, what ends when a token ends, and rotation
under load.  tests/unit/test_token.c walks every command with every role."""
import base64
import contextlib
import os
import signal
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "fault"))

from harness import (  # noqa: E402
    Closed, Http, Server, WeirError, check_problem, claim, equal, expect, main,
    mapping, test, text, until, weir)

JOB = {"hook": "h", "args": {}}


def secret(answer):
    return text(mapping(answer)["secret"])


def names(client):
    return [text(mapping(row)["name"]) for row in client("TOKENS")]


@contextlib.contextmanager
def as_token(server, *words):
    with server.client() as c:
        equal(c("AUTH", *words), "OK")
        yield c


def start(folder, **options):
    """A server with an admin's token; and that token."""
    server = Server(folder, **options)
    with server.client() as c:
        boss = secret(c("TOKENADD", "boss", "admin"))
    return server, boss


@test("the first admin's token closes the server to everybody else at once")
def _(folder):
    server = Server(folder)
    with server.client() as c, server.client() as other, server.client() as waiting:
        waiting.send(b"*4\r\n$5\r\nCLAIM\r\n$1\r\nw\r\n$6\r\nQUEUES\r\n$7\r\ndefault\r\n")
        equal(other("PING"), "PONG")
        c.refused("TOKENADD", "ci", "producer", name="STATE", mentions="admin")
        boss = secret(c("TOKENADD", "boss", "admin"))
        for one in (c, other, waiting):
            expect(one.is_closed(60), "a connection from before")
    with server.client() as c:
        c.refused("QUEUES", name="NOAUTH")
    with as_token(server, boss) as c:
        equal(text(c("ACL", "WHOAMI")), "boss")
        equal(names(c), ["boss"])
    with Http(server.http) as web:
        check_problem(web.ask("GET", "/v1/queues"), 401, "NOAUTH", (), "no token")
    equal(server.stop(), 0)
    # It is in the log, without its secret.
    server = Server(folder)
    with as_token(server, "boss", boss) as c:
        c("TOKENREMOVE", "boss")
    with server.client() as c:
        equal(c("QUEUES"), [], "open again")
    server.stop()
    found = os.popen("grep -rlaF %s %s" % (boss, server.data)).read()
    equal(found, "", "files with the secret")


@test("each door names the role or the name that is missing")
def _(folder):
    server, boss = start(folder)
    with as_token(server, boss) as c:
        ci = secret(c("TOKENADD", "ci", "producer,worker", "QUEUES", "build-*"))
        look = secret(c("TOKENADD", "look", "reader"))
        etl = secret(c("TOKENADD", "etl", "checker", "IDENTITIES", "etl:*"))
    with as_token(server, "ci", ci) as c:
        equal(c("ENQUEUE", "h", "{}", "QUEUE", "build-1"), 1)
        c.refused("ENQUEUE", "h", "{}", name="FORBIDDEN", mentions="build-*")
        c.refused("JOBS", name="FORBIDDEN", mentions="reader")
        c.refused("IDEMPOTENT", "k", "ENQUEUE", "h", "{}", name="FORBIDDEN")
        c.refused("CLIENT", "LIST", name="FORBIDDEN", mentions="reader")
        got = claim(c, "build-1")[0]
        equal(c("COMPLETE", got.id, got.token), "OK")
        c.refused("CLAIM", "w", "QUEUES", "build-1", "mail", name="FORBIDDEN", mentions="mail")
        expect("resp_commands" in text(c("INFO")), "clients ask for INFO when they connect")
    with as_token(server, look) as c:
        equal(len(c("QUEUES")), 1)
        c.refused("PAUSE", "build-1", name="FORBIDDEN", mentions="operator")
    with server.client() as c:
        c.refused("AUTH", "look", ci, name="BADTOKEN")
        c.refused("HELLO", 3, "AUTH", "ci", look, name="BADTOKEN")
        equal(mapping(c("HELLO", 3, "AUTH", "look", look))["proto"], 3)
    with Http(server.http, token=ci) as web:
        equal(web.ask("POST", "/v1/jobs", {**JOB, "queue": "build-1"}).status, 201)
        for method, path, body, why in (
                ("POST", "/v1/jobs", JOB, "build-*"), ("GET", "/v1/jobs", None, "reader"),
                ("GET", "/metrics", None, "reader"), ("GET", "/v1/live", None, "reader"),
                ("DELETE", "/v1/jobs/2", None, "operator"),
                ("POST", "/v1/tokens/x", {"role": "reader"}, "admin"),
                ("GET", "/check/x/mysql/y", None, "checker"),
                ("GET", "/throttle-app/x", None, "operator")):
            check_problem(web.ask(method, path, body), 403, "FORBIDDEN", why, path)
        told = web.good("GET", "/v1/session")
        equal((told["name"], told["roles"]), ("ci", ["producer", "worker"]))
    with Http(server.http) as web:
        for user, token, status in (("ci", ci, 403), ("look", look, 200), ("look", ci, 401),
                                    ("", look, 200)):
            pair = base64.b64encode(("%s:%s" % (user, token)).encode()).decode()
            answer = web.ask("GET", "/v1/jobs", headers=["Authorization: Basic " + pair])
            equal(answer.status, status, user)
        answer = web.ask("GET", "/v1/jobs", headers=["Authorization: Basic %%%"])
        check_problem(answer, 401, "BADTOKEN", "base64", "no base64")
    with Http(server.http, token=etl) as web:
        expect(web.ask("GET", "/check/etl:night/mysql/y").status != 403, "its own identity")
        answer = web.ask("GET", "/check/shop/mysql/y")
        equal(answer.status, 403, "another's identity")
    server.stop()


@test("a token that is removed or over closes its connections, a waiting claim too")
def _(folder):
    server, boss = start(folder)
    with as_token(server, boss) as c:
        gone = secret(c("TOKENADD", "gone", "worker"))
        brief = secret(c("TOKENADD", "brief", "worker", "FOR", 5000))
        with as_token(server, gone) as a, as_token(server, brief) as b, \
                Http(server.http, token=gone) as web:
            for one in (a, b):
                one.send(b"*6\r\n$5\r\nCLAIM\r\n$1\r\nw\r\n$4\r\nWAIT\r\n$6\r\n600000\r\n"
                         b"$6\r\nQUEUES\r\n$7\r\ndefault\r\n")
            equal(web.ask("GET", "/v1/now").status, 403)
            equal(c("TOKENREMOVE", "gone"), "OK")
            expect(a.is_closed(60), "removed")
            expect(web.is_closed(60), "removed, over HTTP")
            expect(b.is_closed(60), "its time is over")
        until(lambda: names(c) == ["boss"], 60, "the brief one is gone")
        c("ENQUEUE", "h", "{}")
        equal(mapping(c("JOB", 1))["status"], b"pending", "nobody took it")
    server.stop()


@test("a rotation under load fails no command")
def _(folder):
    server, boss = start(folder)
    with as_token(server, boss) as c:
        valid = [secret(c("TOKENADD", "app", "producer"))]
        failures, done, stop = [], [0], threading.Event()

        def work():
            while not stop.is_set():
                try:
                    with as_token(server, "app", valid[-1]) as one:
                        for _ in range(5):
                            one("ENQUEUE", "h", "{}")
                            done[0] += 1
                except (WeirError, Closed, OSError, AssertionError) as e:
                    failures.append(repr(e))

        threads = [threading.Thread(target=work) for _ in range(4)]
        for t in threads:
            t.start()
        for _ in range(10):
            was = done[0]
            valid.append(secret(c("TOKENROTATE", "app", "KEEP", 60000)))
            until(lambda: done[0] > was + 40, 60, "jobs with the new secret")
        stop.set()
        for t in threads:
            t.join()
        equal(failures[:3], [], "failures")
        # Two are valid: this one and the one before.
        with server.client() as other:
            other.refused("AUTH", valid[-3], name="BADTOKEN")
            equal(other("AUTH", valid[-2]), "OK")
    server.stop()


@test("a token has no more connections, commands and memory than it may")
def _(folder):
    server, boss = start(folder)
    with as_token(server, boss) as c:
        few = secret(c("TOKENADD", "few", "producer", "CONNECTIONS", 2))
        slow = secret(c("TOKENADD", "slow", "producer,reader", "COMMANDS", 100))
        thin = secret(c("TOKENADD", "thin", "producer", "MEMORY", 1 << 20))
        with as_token(server, few), as_token(server, few):
            with server.client() as third:
                third.refused("AUTH", few, name="LIMIT", mentions="2 connections")
                expect(third.is_closed(60), "turned away")
            with Http(server.http, token=few) as web:
                check_problem(web.ask("POST", "/v1/jobs", JOB), 429, "LIMIT", "few", "over HTTP")
        # More commands have to wait, and none is refused: 100 a second, of which a tenth at once.
        began = time.monotonic()
        with as_token(server, slow) as one:
            one.send(b"*1\r\n$6\r\nQUEUES\r\n" * 250)
            for _ in range(250):
                equal(one.read(), [])
        expect(time.monotonic() - began > 2, "250 commands took less than 2 s")
        # Its own request that never ends is cut, and nobody else's.
        with as_token(server, thin) as one, as_token(server, boss) as other:
            with contextlib.suppress(ConnectionError):
                one.send(b"*3\r\n$7\r\nENQUEUE\r\n$1\r\nh\r\n$1000000\r\n" + b"x" * 900000)
                one.send(b"*3\r\n$7\r\nENQUEUE\r\n$1\r\nh\r\n$1000000\r\n" + b"x" * 900000)
            other.send(b"*3\r\n$7\r\nENQUEUE\r\n$1\r\nh\r\n$1000000\r\n" + b"x" * 900000)
            until(lambda: "connections_cut_use:1" in text(c("INFO")), 60, "one was cut")
            other.send(b"x" * 100000 + b"\r\n")
            equal(other.read(), 1, "the other's job")
        with Http(server.http, token=boss) as web:
            told = web.ask("GET", "/metrics").body.decode()
        for line in ('weir_token_commands_total{token="slow"} 25', "weir_door_connections_slowed",
                     'weir_token_connections{token="boss"} '):
            expect(line in told, line)
    server.stop()


@test("tokens of the file are read again by a reload; two lines are valid at once")
def _(folder):
    path = os.path.join(folder, "ci.token")

    def write(*lines):
        with open(path, "w") as f:
            f.write("".join(line + "\n" for line in lines))
        os.chmod(path, 0o600)

    old, new = "the-old-secret-0123456789", "the-new-secret-0123456789"
    write(old)
    config = 'token "ci" {\n role = {"producer", "reader"}\n queues = {"build-*"}\n' \
             ' secret_file = "%s"\n}\n' % path
    server = Server(folder, config=config, token="the-token-of-all-0123456789")

    def reload():
        n = server.log().count("msg=\"read again")
        server.process.send_signal(signal.SIGHUP)
        until(lambda: server.log().count("msg=\"read again") > n, 60, "reloaded")

    with as_token(server, old) as kept:
        kept.refused("ENQUEUE", "h", "{}", name="FORBIDDEN", mentions="build-*")
        write(old, new)
        reload()
        with as_token(server, "ci", new), as_token(server, old):
            pass
        write(new)
        reload()
        # The connection stays: what the token allows has not changed.
        equal(kept("QUEUES"), [])
        with server.client() as c:
            c.refused("AUTH", old, name="BADTOKEN")
        with open(os.path.join(folder, "weir.conf"), "w") as f:
            f.write(config.replace('"producer", ', "").replace(' queues = {"build-*"}\n', ""))
        reload()
        expect(kept.is_closed(60), "the role is another one")
    with as_token(server, new) as c:
        c.refused("ENQUEUE", "h", "{}", name="FORBIDDEN", mentions="producer")
    with as_token(server, "the-token-of-all-0123456789") as c:
        equal(names(c), ["ci", "default"])
        c.refused("TOKENADD", "ci", "reader", name="CONFLICT", mentions="configuration")
        c.refused("TOKENREMOVE", "ci", name="NOTFOUND")
    server.stop()


@test("a section that makes no sense is refused with what is allowed")
def _(folder):
    path = os.path.join(folder, "t")
    with open(path, "w") as f:
        f.write("a-secret-0123456789abc\n")
    os.chmod(path, 0o600)
    rows = (('token "ci" { secret_file = "%s" }' % path, "needs a role"),
            ('token "ci" { role = {"king"}\n secret_file = "%s" }' % path, "'king'"),
            ('token "ci" { role = {"reader"} }', "secret_file is missing"),
            ('token "default" { role = {"reader"}\n secret_file = "%s" }' % path, "token_file"),
            ('token "a b" { role = {"reader"}\n secret_file = "%s" }' % path, "letters"),
            ('token "ci" { role = {"reader"}\n queues = {"x"}\n secret_file = "%s" }' % path,
             "narrow"),
            ('token "ci" { role = {"reader"}\n secret_file = "/nowhere" }', "/nowhere"))
    for config, why in rows:
        name = os.path.join(folder, "weir.conf")
        with open(name, "w") as f:
            f.write(config + "\n")
        found = weir("config", "check", name)
        expect(found.returncode != 0 and why in found.stderr, found.stderr or config)


@test("the command line adds, lists, rotates and removes; the secret is alone on its output")
def _(folder):
    server, boss = start(folder)
    url = "redis://boss:%s@%s:%d" % (boss, *server.resp)
    added = weir("token", "add", "ci", "producer", "--queues", "a,b", "--for", "2h", "--url", url)
    equal(added.returncode, 0, added.stderr)
    expect(added.stdout.startswith("weir_") and added.stdout.count("\n") == 1, added.stdout)
    expect("cannot show it again" in added.stderr, added.stderr)
    listed = weir("token", "list", "--url", url).stdout
    expect("producer" in listed and "queues a,b" in listed, listed)
    turned = weir("token", "rotate", "ci", "--keep", "1h", "--url", url)
    expect(turned.stdout.startswith("weir_") and turned.stdout != added.stdout, turned.stderr)
    equal(weir("token", "remove", "ci", "--url", url).stdout, "removed token ci\n")
    found = weir("token", "add", "x", "emperor", "--url", url)
    expect(found.returncode == 2 and "reader, producer" in found.stderr, found.stderr)
    found = weir("token", "remove", "nobody", "--url", url)
    expect(found.returncode == 4, found.stderr)
    server.stop()


if __name__ == "__main__":
    main()
