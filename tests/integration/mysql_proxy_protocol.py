#!/usr/bin/python3
# weir-test: timeout=120
"""The PROXY protocol at the MySQL door: headers of HAProxy and of a client that sees every byte come
in, and a header goes out to MariaDB.

    tests/integration/mysql_proxy_protocol.py [word...]
"""
import functools
import os
import select
import shutil
import socket
import struct
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.dont_write_bytecode = True
sys.path.insert(0, HERE)
sys.path.insert(0, os.path.join(HERE, "..", "fault"))

from lib_databases import PASSWORD, Maria, die_with_parent, free_port  # noqa: E402
from lib_mysql_wire import Gone, Raw  # noqa: E402
from lib_tls import Authority  # noqa: E402
from harness import Server, Skip, equal, expect, main, test, until  # noqa: E402

SIGNATURE = b"\r\n\r\n\0\r\nQUIT\n"
LOCAL = SIGNATURE + b"\x20\0\0\0"
# What is bound as a source: each is an address of this machine.
NEAR, FAR, OTHER = "127.0.0.1", "127.0.0.7", "127.0.0.9"
WHO = "SELECT CURRENT_USER(), (SELECT host FROM information_schema.processlist WHERE id = CONNECTION_ID())"


def header(address, port=40000):
    """Of version 2."""
    if ":" in address:
        ips = socket.inet_pton(socket.AF_INET6, address) * 2
        return SIGNATURE + b"\x21\x21" + struct.pack(">H", 36) + ips + struct.pack(">HH", port, 3306)
    ips = socket.inet_aton(address) * 2
    return SIGNATURE + b"\x21\x11" + struct.pack(">H", 12) + ips + struct.pack(">HH", port, 3306)


@functools.lru_cache(None)
def maria():
    """One for the whole script: it takes headers from this machine, and has an account for each
    address."""
    folder = tempfile.mkdtemp(prefix="ca.", dir=os.environ.get("TMPDIR"))
    cert, key = Authority(folder, "one").sign("db")
    m = Maria("db", "--proxy-protocol-networks=127.0.0.1,localhost", "--ssl-cert=" + cert,
              "--ssl-key=" + key)
    for host in (NEAR, FAR, OTHER, "::1", "2001:db8::7", "localhost"):
        m.ask("CREATE USER shop@'%s' IDENTIFIED BY '%s'" % (host, PASSWORD),
              "GRANT ALL ON *.* TO shop@'%s'" % host)
    return m


class Door:
    """weir with one door that listens by IPv4, IPv6 and a unix socket."""

    def __init__(self, folder, *settings, server=None):
        self.path = os.path.join(folder, "door")
        config = 'mysql "shop" { mode = "enforce" listen = {"127.0.0.1:0", "[::1]:0", "%s"}\n' % self.path
        config += '        server = "%s"\n' % (server or "127.0.0.1:%d" % maria().port)
        config += "".join("        %s\n" % s for s in settings) + "}\n"
        config += 'class "far" { address = "127.0.0.7/32" }\nclass "v6" { address = "2001:db8::/32" }\n'
        self.server = Server(folder, config=config)
        self.v4, self.v6 = self.server.mysql[0], self.server.mysql[1]

    def row(self):
        with self.server.web() as w:
            return w.good("GET", "/v1/proxies/shop")

    def clients(self):
        with self.server.web() as w:
            return w.good("GET", "/v1/proxies/shop/clients")["clients"]

    def is_known_as(self, c, address, name="shop"):
        """The gate knows the client of this connection by its address."""
        c.good("SELECT 1 FROM mysql.user LIMIT 1")
        found = [x for x in self.clients() if x["id"] == c.thread]
        equal([(x["address"], x["class"]) for x in found], [(address, name)], "address and class")

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        if kind is None:
            equal(self.server.stop(20), 0, "exit code")


def log_in(address, **options):
    return Raw(address, **options).login("shop", PASSWORD)


class Balancer:
    """HAProxy in TCP mode: a port of its own for each server line."""

    def __init__(self, folder, *servers):
        program = shutil.which("haproxy") or "/usr/sbin/haproxy"
        if not os.path.exists(program):
            raise Skip("haproxy is not installed")
        self.addresses = [(NEAR, free_port()) for _ in servers]
        path = os.path.join(folder, "haproxy.cfg")
        with open(path, "w", encoding="ascii") as f:
            f.write("defaults\n  mode tcp\n  timeout connect 10s\n  timeout client 60s\n  timeout server 60s\n")
            for i, (address, server) in enumerate(zip(self.addresses, servers)):
                f.write("listen l%d\n  bind %s:%d\n  server s %s\n" % (i, *address, server))
        self.process = subprocess.Popen([program, "-db", "-f", path], stderr=subprocess.PIPE,
                                        preexec_fn=die_with_parent)
        for address in self.addresses:
            until(lambda: self._listens(address), 20, "haproxy")

    def _listens(self, address):
        expect(self.process.poll() is None, "haproxy ended: %s" % self.process.stderr)
        try:
            socket.create_connection(address, 5).close()
        except OSError:
            return False
        return True

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait(10)
        self.process.stderr.close()


@test("HAProxy tells the client's address in both versions, by TCP and by a unix socket")
def balancer(folder):
    with Door(folder, 'proxy_protocol_from = {"127.0.0.1", "unix"}') as d:
        at = "%s:%d" % d.v4
        with Balancer(folder, at + " send-proxy", at + " send-proxy-v2",
                      "unix@%s send-proxy-v2" % d.path,
                      at + " send-proxy-v2 check check-send-proxy inter 50ms") as b:
            before = d.row()["refused_connections"]
            for address in b.addresses:
                with log_in(address, source=FAR) as c:
                    d.is_known_as(c, FAR, "far")
                    equal(c.good("SELECT CURRENT_USER()").rows, [[b"shop@127.0.0.1"]], "who the server sees")
                with log_in(address, source=OTHER) as c:
                    d.is_known_as(c, OTHER)
            equal(d.row()["refused_connections"], before, "refused connections")
        with log_in(d.v4, source=FAR) as c:  # an address that is not trusted sends none
            d.is_known_as(c, FAR, "far")


@test("headers are read whatever their cut, and tell addresses of both kinds or nothing")
def headers(folder):
    with Door(folder, 'proxy_protocol_from = {"127.0.0.0/29", "::1", "unix"}') as d:
        rows = ((b"PROXY TCP4 127.0.0.7 127.0.0.1 1 2\r\n", FAR, "far"),
                (header(FAR), FAR, "far"),
                (b"PROXY TCP6 ::ffff:127.0.0.7 ::1 1 2\r\n", FAR, "far"),
                (b"PROXY TCP6 2001:db8::7 ::1 1 2\r\n", "2001:db8::7", "v6"),
                (header("2001:db8::7"), "2001:db8::7", "v6"),
                (header(OTHER)[:14] + b"\0\x14" + header(OTHER)[16:] + b"\x02\0\5shop1", OTHER, "shop"),
                (LOCAL, None, "shop"),
                (b"PROXY UNKNOWN\r\n", None, "shop"))
        for first, address, name in rows:
            for at, own in ((d.v4, NEAR), (d.v6, "::1"), (d.path, "local")):
                with log_in(at, first=first) as c:
                    d.is_known_as(c, address or own, name)
            with log_in(d.v4, first=[first[i:i + 1] for i in range(len(first))]) as c:
                d.is_known_as(c, address or NEAR, name)
        equal(d.row()["refused_connections"], 0, "refused connections")


@test("what makes no sense in the place of a header is refused and counted; others never send one")
def wrong(folder):
    with Door(folder, 'proxy_protocol_from = {"127.0.0.1"}') as d:
        rows = (b"GET / HTTP/1.1\r\n\r\n", b"PROXY TCP4 127.0.0.7\r\n", b"PROXY " + b"x" * 200,
                SIGNATURE + b"\x31\x11\0\0", SIGNATURE + b"\x21\x11\0\4abcd", SIGNATURE + b"\x21\0\xff\xff",
                header(FAR) + b"x", b"PROXY UNKNOWN\r\n\1\0\0\1x")
        for first in rows:
            try:
                Raw(d.v4, first=first)
            except Gone as error:
                expect("reset" in str(error) or "1043" in str(error) and "PROXY" in str(error), error)
            else:
                raise AssertionError("%r was taken for a header" % first)
        until(lambda: d.row()["refused_connections"] == len(rows), 10, "refused connections")
        silent = socket.create_connection(d.v4)
        until(lambda: [c["state"] for c in d.clients()] == ["login"], 10, "one that waits")
        with log_in(d.v4, source=OTHER) as c:
            d.is_known_as(c, OTHER)
        with log_in(d.path) as c:  # "unix" is not in the list
            d.is_known_as(c, "local")
        equal(select.select([silent], [], [], 0)[0], [], "a greeting before the header")
        silent.sendall(header(FAR))
        expect(silent.recv(5)[4:] == b"\n", "no greeting after the header")
        silent.close()
        socket.create_connection(d.v4).close()
        until(lambda: not d.clients(), 10, "no clients")
        equal(d.row()["refused_connections"], len(rows), "refused connections")


def assert_who(c, host, port=None, account=None):
    user, shown = c.good(WHO).rows[0]
    equal(user.decode(), "shop@" + (account or host), "CURRENT_USER")
    wanted = "%s:%d" % (host, port or c.socket.getsockname()[1])
    equal(shown.decode(), wanted, "host in the process list")


@test("with proxy_protocol the server sees the client: its grants, its process list")
def out(folder):
    for i, (settings, server) in enumerate(((("proxy_protocol = true",), None),
                                            (("proxy_protocol = true", 'server_tls = "require"'), None),
                                            (("proxy_protocol = true",), maria().socket))):
        path = os.path.join(folder, str(i))
        os.mkdir(path)
        with Door(path, *settings, server=server) as d:
            # On its unix socket MariaDB goes on to take accounts of localhost, if there are any.
            account = "localhost" if server else None
            for source in (NEAR, FAR, OTHER):
                with log_in(d.v4, source=source) as c:
                    assert_who(c, source, account=account)
            with log_in(d.v6) as c:
                assert_who(c, "::1", account=account)
            with log_in(d.path) as c:  # of which there is no address to tell
                equal(c.good("SELECT CURRENT_USER()").rows,
                      [[b"shop@localhost" if server else b"shop@127.0.0.1"]], "CURRENT_USER")


@test("what a header tells is told to the server")
def through(folder):
    with Door(folder, "proxy_protocol = true", 'proxy_protocol_from = {"127.0.0.1", "unix"}') as d:
        for at in (d.v4, d.path):
            with log_in(at, first=header(FAR, 51111)) as c:
                assert_who(c, FAR, 51111)
            with log_in(at, first=header("2001:db8::7", 51112)) as c:
                assert_who(c, "2001:db8::7", 51112)
        with Balancer(folder, "%s:%d send-proxy-v2" % d.v4) as b:
            with log_in(b.addresses[0], source=FAR) as c:
                assert_who(c, FAR)


if __name__ == "__main__":
    main()
