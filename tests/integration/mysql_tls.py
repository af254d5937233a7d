#!/usr/bin/python3
# weir-test: timeout=240
"""TLS through the MySQL door: off, terminated with each way to the server, and passed on unread.

    tests/integration/mysql_tls.py [word...]
"""
import functools
import os
import re
import shutil
import ssl
import struct
import subprocess
import sys
import tempfile
import threading

HERE = os.path.dirname(os.path.abspath(__file__))
sys.dont_write_bytecode = True
sys.path.insert(0, HERE)
sys.path.insert(0, os.path.join(HERE, "..", "fault"))

from lib_databases import PASSWORD, Maria  # noqa: E402
from lib_mysql_wire import CAPS, QUERY, SSL, WITH_DB, Gone, Raw, frames  # noqa: E402
from lib_tls import Authority  # noqa: E402
from harness import Server, equal, expect, main, test, until  # noqa: E402

CIPHER = "SHOW SESSION STATUS LIKE 'Ssl_cipher'"
MIB = 1 << 20


@functools.lru_cache(None)
def authority(name="one"):
    return Authority(tempfile.mkdtemp(prefix="ca.", dir=os.environ.get("TMPDIR")), name)


@functools.lru_cache(None)
def door_pair():
    return authority().sign("door", "DNS:door.example")


@functools.lru_cache(None)
def maria(has_tls=True):
    """One of each kind for the whole script."""
    options = ["--local-infile=1", "--max-allowed-packet=128M"]
    if has_tls:
        cert, key = authority().sign("db", "DNS:db.example")
        options += ["--ssl-cert=" + cert, "--ssl-key=" + key]
    m = Maria("tls" if has_tls else "plain", *options)
    m.ask("CREATE DATABASE shop",
          "CREATE TABLE shop.t (id INT PRIMARY KEY AUTO_INCREMENT, who VARCHAR(40), data LONGBLOB)")
    for host in ("127.0.0.1", "localhost"):
        m.ask("CREATE USER shop@'%s' IDENTIFIED BY '%s'" % (host, PASSWORD),
              "GRANT ALL ON *.* TO shop@'%s'" % host)
    if has_tls:
        m.ask("CREATE USER secure@'127.0.0.1' IDENTIFIED BY '%s' REQUIRE SSL" % PASSWORD,
              "GRANT ALL ON *.* TO secure@'127.0.0.1'")
    return m


class Door:
    """weir with one door; settings: of the mysql section."""

    def __init__(self, folder, *settings, server=None, wait="30s"):
        config = 'mysql "shop" { listen = {"127.0.0.1:0"} mode = "enforce" wait = "%s"\n' % wait
        config += '        server = "%s"\n' % (server or "127.0.0.1:%d" % maria().port)
        config += "".join("        %s\n" % s for s in settings) + "}\n"
        self.server = Server(folder, config=config)
        self.address = self.server.mysql[0]

    def plain(self, user="shop"):
        return Raw(self.address).login(user, PASSWORD, database="shop")

    def secret(self, user="shop", name="door.example", caps=CAPS, **options):
        """A client that wants TLS, and checks the certificate for this name."""
        c = Raw(self.address).start_tls(context(**options), caps | WITH_DB, name)
        return c.login(user, PASSWORD, database="shop", caps=caps | SSL)

    def rule(self, *words):
        with self.server.client() as c:
            c(*words)

    def hold(self, name):
        self.rule("RULESET", name, "hold", "FOR", "600000")

    def free(self, name):
        self.rule("RULEUNSET", name)

    def clients(self):
        with self.server.web() as w:
            return w.good("GET", "/v1/proxies/shop/clients")["clients"]

    def wait_for(self, state, n=1):
        until(lambda: sum(c["state"] == state for c in self.clients()) == n, 20,
              "%d clients %s" % (n, state))

    def row(self):
        with self.server.web() as w:
            return w.good("GET", "/v1/proxies/shop")

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        if kind is None:
            equal(self.server.stop(20), 0, "exit code")


def terminate(*settings):
    return ('tls = "terminate"', 'tls_cert = "%s"' % door_pair()[0],
            'tls_key = "%s"' % door_pair()[1]) + settings


def context(ca=None, version=None):
    c = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    c.load_verify_locations(ca or authority().cert)
    if version:
        c.maximum_version = version
    return c


def cipher(c):
    """Of the connection that the server sees."""
    return c.good(CIPHER).rows[0][1]


def why_not(connect):
    """The error that a client gets for its login."""
    try:
        connect().close()
    except (AssertionError, Gone) as error:
        return str(error)
    raise AssertionError("the login was taken")


def is_in_order(c):
    """Greeting 0; the OK of the login follows the login; replies begin at 1."""
    equal([p[3] for p in c.heard[:2]], [0, c.first_seq + 1], "numbers of packets")


@test("without TLS a door offers none: clients that prefer it fall back, and a request for it is an error")
def off(folder):
    with Door(folder) as d:
        c = Raw(d.address)
        equal(c.server_caps & SSL, 0, "SSL in the greeting")
        c.send(struct.pack("<I28x", CAPS | SSL), 1)
        error = c.finish_login()
        expect(error.number == 1043 and "has no TLS" in error.text, error)
        said = subprocess.run(
            ["mariadb", "--no-defaults", "--ssl", "-h127.0.0.1", "-P%d" % d.address[1], "-ushop",
             "-p" + PASSWORD, "-Ne", CIPHER], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        equal(said.stdout.decode().split(), ["Ssl_cipher"], "what the CLI says")
        with d.plain() as p:
            equal(cipher(p), b"", "cipher")


@test("terminated: the server's side is encrypted exactly when the client's is")
def as_client(folder):
    with Door(folder, *terminate()) as d:
        for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
            with d.secret(version=version) as c:
                equal(c.socket.getpeercert()["subject"], ((("commonName", "door"),),), "certificate")
                expect(cipher(c), "the server sees no TLS")
                is_in_order(c)
        with d.secret("secure"):
            pass
        with d.plain() as c:
            equal(cipher(c), b"", "cipher")
        expect("Access denied" in why_not(lambda: d.plain("secure")), "who needs TLS came without")
        said = subprocess.run(
            ["mariadb", "--no-defaults", "--ssl-ca=" + authority().cert, "-h127.0.0.1",
             "-P%d" % d.address[1], "-usecure", "-p" + PASSWORD, "-Ne", CIPHER],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        expect(said.returncode == 0 and said.stdout.split()[1:], said.stdout)


@test("a client that does not trust the door's certificate goes, and the door stays")
def distrust(folder):
    with Door(folder, *terminate()) as d:
        for options in ({"ca": authority("two").cert}, {"name": "other.example"}):
            try:
                d.secret(**options)
            except ssl.SSLError as error:
                expect("certificate verify failed" in str(error), error)
            else:
                raise AssertionError("a wrong certificate was taken")
        until(lambda: not d.clients(), 10, "no clients")
        with d.secret() as c:
            c.good("SELECT 1")


@test("require: the server's side is encrypted for each client, and a server without TLS is an error")
def require(folder):
    with Door(folder, *terminate('server_tls = "require"')) as d:
        for c in (d.plain(), d.secret(), d.plain("secure")):
            with c:
                expect(cipher(c), "the server sees no TLS")
                is_in_order(c)
    with Door(folder, 'server_tls = "require"') as d:  # for clients there is none
        with d.plain() as c:
            expect(cipher(c), "the server sees no TLS")
        c = Raw(d.address)  # one that cannot be read would pass as it is, in plain text
        c.send(c.login_payload("shop", PASSWORD, attrs={"long": "x" * 70000}), 1)
        error = c.finish_login()
        expect(error.number == 1043 and "weir: this login is longer" in error.text, error)
    with Door(folder, 'server_tls = "require"', server="127.0.0.1:%d" % maria(False).port) as d:
        said = why_not(d.plain)
        expect("2026" in said and "has no TLS" in said, said)


@test("a login that switches to another method keeps its numbers where one side has TLS")
def switch(folder):
    path = os.path.join(folder, "s")
    os.mkdir(path)
    unix = Door(path, *terminate(), server=maria().socket)
    path = os.path.join(folder, "t")
    os.mkdir(path)
    with unix, Door(path, 'server_tls = "require"') as tls:
        for c in (Raw(unix.address).start_tls(context(), CAPS | WITH_DB, "door.example"), Raw(tls.address)):
            payload = c.login_payload("shop", PASSWORD, database="shop", caps=CAPS)
            payload = payload.replace(b"mysql_native_password", b"no_such_method")
            c.send(payload, c.first_seq)
            equal(c.finish_login(PASSWORD), None, "login")
            equal([p[3] for p in c.heard], [0, c.first_seq + 1, c.first_seq + 3], "numbers")
            c.good("SELECT 1")
            equal(c.change_user("shop", PASSWORD, "shop"), None, "change of user")
            c.good("SELECT 2")
            said = c.change_user("shop", "wrong", "shop")
            expect(said.number == 1045, said)
            c.close()


@test("verify: a certificate of another authority, or for another name, is told")
def verify(folder):
    ca, other = authority().cert, authority("two").cert

    def door(ca, name):
        named = ('server_name = "%s"' % name,) if name else ()
        return Door(folder, *terminate('server_tls = "verify"', 'server_ca = "%s"' % ca, *named))
    with door(ca, "db.example") as d:
        for c in (d.plain(), d.secret(), d.secret("secure")):
            with c:
                expect(cipher(c), "the server sees no TLS")
    for ca_used, name, told in ((other, "db.example", r"(self-signed|issuer)"),
                                (ca, "other.example", "hostname mismatch"),
                                (ca, "", "IP address mismatch")):  # the host of `server`
        with door(ca_used, name) as d:
            for connect in (d.plain, d.secret):
                said = why_not(connect)
                expect("2026" in said and "weir: TLS with the server 127.0.0.1:" in said
                       and re.search(told, said, re.I), said)


def subject(d, ca):
    with d.secret(ca=ca) as c:
        c.good("SELECT 1")
        return c.socket.getpeercert()["serialNumber"]


@test("a renewed certificate is shown after a reload, and a broken one is refused before and after")
def renewed(folder):
    paths = [os.path.join(folder, name) for name in ("cert.pem", "key.pem")]
    other = authority("two")

    def put(pair):
        for source, path in zip(pair, paths):
            shutil.copy(source, path)
    put(door_pair())
    with Door(folder, 'tls = "terminate"', 'tls_cert = "%s"' % paths[0], 'tls_key = "%s"' % paths[1]) as d:
        first = subject(d, None)
        kept = d.secret()
        put(other.sign("door", "DNS:door.example"))
        with d.server.client() as control:
            control("CONFIGRELOAD")
            second = subject(d, other.cert)
            expect(first != second, "the same certificate")
            kept.good("SELECT 1")
            kept.close()
            shutil.copy(door_pair()[0], paths[0])  # the key is that of another
            control.refused("CONFIGRELOAD", mentions=["key.pem is not the key of"])
            with open(paths[0], "w", encoding="ascii") as f:
                f.write("nonsense")
            control.refused("CONFIGRELOAD", mentions=["tls_cert", "cert.pem"])
        equal(subject(d, other.cert), second, "certificate after a refused reload")
    for path in paths:
        os.remove(path)
        try:
            Door(folder, 'tls = "terminate"', 'tls_cert = "%s"' % paths[0], 'tls_key = "%s"' % paths[1])
        except AssertionError as error:
            expect("tls_cert" in str(error) and "cert.pem" in str(error), error)
        else:
            raise AssertionError("weir started without a certificate")


@test("clients that go in the middle of a large result with TLS leave nothing behind")
def gone(folder):
    with Door(folder, *terminate()) as d:
        for reset in (False, True) * 3:
            c = d.secret()
            c.send(bytes([QUERY]) + b"SELECT seq, REPEAT('z', 10000) FROM seq_1_to_3000")
            c.socket.recv(100)
            c.close(reset)
        until(lambda: not d.clients(), 20, "no clients")
        with d.secret() as c:
            c.good("SELECT 1")


@test("a server on a unix socket needs no TLS: clients with and without it log in")
def unix(folder):
    with Door(folder, *terminate(), server=maria().socket) as d:
        for c in (d.secret(), d.plain()):
            with c:
                equal(cipher(c), b"", "cipher")
                equal(c.good("SELECT CURRENT_USER()").rows, [[b"shop@localhost"]], "who")
                is_in_order(c)


@test("blind: TLS reaches the server itself, and is gated once, as the class blind")
def blind(folder):
    with Door(folder, 'tls = "blind"') as d:
        with d.secret("secure", name="db.example") as c:
            equal(c.socket.getpeercert()["subject"], ((("commonName", "db"),),), "certificate")
            expect(cipher(c), "the server sees no TLS")
            equal([x["state"] for x in d.clients()], ["blind"], "states")
            equal(d.row()["blind"], 1, "blind connections")
            d.hold("blind")
            c.good("SELECT 1")  # at its beginning only
            later = []
            t = threading.Thread(target=lambda: later.append(d.secret(name="db.example")), daemon=True)
            t.start()
            d.wait_for("held")
            held = [x for x in d.clients() if x["state"] == "held"][0]
            equal(held["class"], "blind", "class")
            with d.plain() as p:  # one that can be read is not held
                p.good("INSERT INTO t (who) VALUES ('plain')")
            d.free("blind")
            t.join(20)
            expect(later and cipher(later[0]), "the connection did not go on")
            later[0].close()
        d.hold("blind")
        gone = Raw(d.address)
        gone.send(struct.pack("<I28x", CAPS | SSL), 1)
        d.wait_for("held")
        gone.close()
        until(lambda: not d.clients(), 10, "no clients")
    with Door(folder, 'tls = "blind"', wait="0s") as d:
        d.free("blind")
        d.secret(name="db.example").close()  # now the gate knows the class
        d.hold("blind")
        until(lambda: [c["verdict"] for c in d.row()["classes"]] == ["wait"], 10, "a policy that holds")
        c = Raw(d.address)
        c.send(struct.pack("<I28x", CAPS | SSL), 1)
        error = c.finish_login()
        expect(error.number == 1213 and "class=blind" in error.text, error)


def check_big(c):
    data = b"0123456789abcdef" * (17 * MIB // 16)  # more than one packet
    r = c.good("SELECT REPEAT('0123456789abcdef', %d)" % (17 * MIB // 16))
    expect(r.rows == [[data]], "the big row differs")
    c.good("DELETE FROM t")
    c.good(b"INSERT INTO t (who, data) VALUES ('big', '" + data + b"')")
    r = c.good("SELECT LENGTH(data), MD5(data) = MD5(REPEAT('0123456789abcdef', %d)) FROM t"
               % (17 * MIB // 16))
    equal(r.rows, [[b"%d" % len(data), b"1"]], "what was stored")
    c.good("SELECT seq, REPEAT('y', 1000) FROM seq_1_to_5000")


@test("large results and large commands pass with TLS on either side or both")
def big(folder):
    for settings, secret in ((terminate(), True), (('server_tls = "require"',), False)):
        with Door(folder, *settings) as d:
            with (d.secret() if secret else d.plain()) as c:
                c.heard = None
                check_big(c)
    with Door(folder, *terminate(), server=maria().socket) as d:
        with d.secret() as c:
            c.heard = None
            check_big(c)


@test("a client that reads nothing for long gets all of a large result with TLS")
def slow(folder):
    with Door(folder, *terminate()) as d:
        with d.secret() as c:
            c.heard = None
            c.send(bytes([QUERY]) + b"SELECT seq, REPEAT('z', 10000) FROM seq_1_to_3000")
            state = "SELECT state FROM information_schema.processlist WHERE id = %d" % c.thread
            until(lambda: maria().ask(state) == [["Writing to net"]], 20, "full pipes")
            rows = c.reply().rows
            equal((len(rows), rows[2999]), (3000, [b"3000", b"z" * 10000]), "rows")


@test("LOAD DATA LOCAL sends its file with TLS")
def infile(folder):
    with Door(folder, *terminate()) as d:
        with d.secret() as c:
            c.good("DELETE FROM t")
            lines = [b"".join(b"row %d\n" % i for i in range(k * 5000, k * 5000 + 5000)) for k in range(8)]
            c.infile["f"] = lines
            r = c.good("LOAD DATA LOCAL INFILE 'f' INTO TABLE t LINES TERMINATED BY '\\n' (who)")
            equal(r.affected, 40000, "rows")
            equal(c.good("SELECT COUNT(DISTINCT who) FROM t").rows, [[b"40000"]], "rows")


@test("commands in one record behind a held one go on with it, in order")
def pipelined(folder):
    with Door(folder, *terminate()) as d:
        with d.secret() as c:
            c.good("DELETE FROM t")
            d.hold("shop")
            sqls = [b"INSERT INTO t (who) VALUES ('first')", b"SELECT who FROM t", b"SELECT 'last'"]
            c.socket.sendall(b"".join(b"".join(frames(bytes([QUERY]) + s)) for s in sqls))
            d.wait_for("held")
            equal(maria().ask("SELECT COUNT(*) FROM shop.t"), [["0"]], "rows while it is held")
            d.free("shop")
            equal([c.reply().rows for _ in sqls], [[], [[b"first"]], [[b"last"]]], "replies")
            d.hold("shop")
            c.send(bytes([QUERY]) + b"INSERT INTO t (who) VALUES ('never')")
            d.wait_for("held")
        until(lambda: not d.clients(), 10, "no clients")
        d.free("shop")
        with d.secret() as c:
            equal(c.good("SELECT who FROM t").rows, [[b"first"]], "rows")


if __name__ == "__main__":
    main()
