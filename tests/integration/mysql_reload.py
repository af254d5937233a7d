#!/usr/bin/python3
# weir-test: timeout=240 tsan
"""Doors of the MySQL proxy while the configuration is read again and while weir stops: connections
stay and go on, the next transaction follows the new settings, nothing is cut within a transaction.

    tests/integration/mysql_reload.py [word...]
"""
import os
import signal
import socket
import ssl
import struct
import sys
import threading

HERE = os.path.dirname(os.path.abspath(__file__))
sys.dont_write_bytecode = True
sys.path.insert(0, HERE)
sys.path.insert(0, os.path.join(HERE, "..", "fault"))

from lib_databases import Maria, MariaConnection, free_port  # noqa: E402
from lib_tls import Authority  # noqa: E402
from harness import (  # noqa: E402
    Server, equal, expect, main, mapping, test, text, until, weir)

USERS = ("etl", "web")
_maria = []


def database():
    """One server for all tests; what they write is in tables of their own."""
    if not _maria:
        db = Maria("db")
        db.ask("CREATE DATABASE shop", *("CREATE USER '%s'@'%%' IDENTIFIED BY ''" % u for u in USERS),
               *("GRANT ALL ON *.* TO '%s'@'%%'" % u for u in USERS),
               "CREATE TABLE shop.t (id INT PRIMARY KEY AUTO_INCREMENT, who VARCHAR(40))")
        _maria.append(db)
    return _maria[0]


class Bench:
    """weir with one door in front of MariaDB, and a configuration to write anew."""

    def __init__(self, folder, *doors, classes=""):
        self.db, self.folder = database(), folder
        self.path = os.path.join(folder, "weir.conf")
        self.write(*doors, classes=classes)
        self.server = Server(folder, "-c", self.path)
        self.control = self.server.client()
        equal(len(self.server.mysql) > 0, len(doors) > 0, "doors in the ready line")
        self.open = []

    def write(self, *doors, classes=""):
        with open(self.path, "w") as f:
            f.write("\n".join(doors) + "\n" + classes)

    def reload(self):
        return {k: [text(x) for x in v] for k, v in mapping(self.control("CONFIGRELOAD")).items()}

    def change(self, *doors, classes=""):
        self.write(*doors, classes=classes)
        return self.reload()

    def connect(self, user="web", at=None):
        host, port = at or self.server.mysql[0]
        c = MariaConnection(port, user, "", host=host, database="shop")
        self.open.append(c)
        return c

    def hold(self, name):
        self.control("RULESET", name, "hold", "FOR", "600000")

    def stop(self):
        for c in self.open:
            c.close()
        self.control.close()
        equal(self.server.stop(20), 0, "exit code")


def door(port, name="shop", listen='"127.0.0.1:0"', **settings):
    settings = {"server": '"127.0.0.1:%d"' % port, **settings}
    return 'mysql "%s" {\n listen = {%s}\n%s}\n' % (
        name, listen, "".join(" %s = %s\n" % x for x in settings.items()))


def status(c):
    return {name: value for name, value in c("SHOW WEIR STATUS")}


def classes_of(c):
    names = ("class", "row", "tier", "mode", "running", "executing", "usual", "in_window", "waiting",
             "transactions", "held", "refused", "would_hold", "time", "why")
    return {row[0]: dict(zip(names, row)) for row in c("SHOW WEIR CLASSES")}


class Statement(threading.Thread):
    """A statement that may be held; its rows or its error once it is done."""

    def __init__(self, connection, sql):
        super().__init__(daemon=True)
        self.connection, self.sql, self.rows, self.error = connection, sql, None, None
        self.start()

    def run(self):
        try:
            self.rows = self.connection(self.sql)
        except RuntimeError as error:
            self.error = str(error)

    def result(self):
        self.join(60)
        expect(not self.is_alive(), "the statement is still held: %s" % self.sql)
        return self.error if self.error else self.rows


def refused(connection, sql, part):
    try:
        connection(sql)
    except RuntimeError as error:
        expect(part in str(error), "%r is not in %r" % (part, str(error)))
        return str(error)
    raise AssertionError("it was not refused: %s" % sql)


def is_refused(connection, sql):
    try:
        connection(sql)
        return False
    except RuntimeError as error:
        expect("weir: class=" in str(error), str(error))
        return True


def until_waiting(eye, n, what="statements"):
    until(lambda: status(eye)["Waiting"] == str(n), what="%d %s to wait" % (n, what))


ETL = 'class "etl" {\n user = "etl"\n%s}\n'
READ = "SELECT COUNT(*) FROM t WHERE who = 'nobody'"


@test("mode and wait of a door change for connections that are open, and what is held is let go")
def mode_and_wait(folder):
    port = database().port
    b = Bench(folder, door(port, mode='"observe"'), classes=ETL % "")
    etl, eye = b.connect("etl"), b.connect()
    first = etl.id()
    b.hold("etl")
    equal(etl(READ), [["0"]], "in mode observe")
    equal(b.change(door(port, mode='"enforce"', wait='"0s"'), classes=ETL % "")["changed"],
          ['mysql.shop.mode: "observe" -> "enforce"', 'mysql.shop.wait: "2s" -> "0s"'], "reload")
    until(lambda: is_refused(etl, READ), what="the gate to know the class")
    told = refused(etl, READ, "weir: class=etl reason=hold")
    expect("try restarting transaction" in told, told)
    b.change(door(port, mode='"enforce"', wait='"1m"'), classes=ETL % "")
    held = Statement(etl, "INSERT INTO t (who) VALUES ('held')")
    until_waiting(eye, 1)
    b.change(door(port, mode='"off"', wait='"1m"'), classes=ETL % "")
    equal(held.result(), [], "the held statement in mode off")
    equal(etl("SELECT COUNT(*) FROM t WHERE who = 'held'"), [["1"]], "rows")
    equal(etl.id(), first, "the connection")
    equal([row[0] for row in b.db.ask("SELECT CONNECTION_ID() IS NOT NULL")], ["1"], "the server")
    b.stop()


@test("classes appear, change their limits and go, for connections that are open")
def classes(folder):
    port = database().port
    mine = door(port, mode='"enforce"', wait='"1m"')
    b = Bench(folder, mine)
    a, c, eye = b.connect("etl"), b.connect("etl"), b.connect()
    a(READ)
    expect(not classes_of(eye)["etl"]["row"], "a class of the file before there is one")
    b.change(mine, classes=ETL % ' identity = "nightly:batch"\n tier = "deferrable"\n concurrency = 1\n')
    a("BEGIN")
    a("INSERT INTO t (who) VALUES ('first')")
    second = Statement(c, READ)
    until_waiting(eye, 1)
    found = until(lambda: (f := classes_of(eye).get("nightly:batch")) and f["tier"] and f, what="its tier")
    equal((found["row"], found["tier"], found["running"], found["waiting"]),
          ("etl", "deferrable", "1", "1"), "class")
    b.change(mine, classes=ETL % ' identity = "nightly:batch"\n concurrency = 2\n')
    equal(second.result(), [["0"]], "the second, when two may run")
    b.change(mine, classes=ETL % ' mode = "off"\n concurrency = 1\n')
    equal(c(READ), [["0"]], "in a class that is off")
    a("COMMIT")
    b.change(mine, classes=ETL % ' wait = "0s"\n error = 1205\n')
    b.hold("etl")
    until(lambda: is_refused(c, READ), what="the gate to know the class")
    refused(c, READ, "weir: class=etl reason=hold")
    equal(c.lib.mysql_errno(c.db), 1205, "error")
    equal(b.change(mine)["changed"], ["class.etl: removed"], "reload")
    b.control("RULEUNSET", "etl")
    equal(c(READ), [["0"]], "without a class and a rule")
    b.stop()


@test("addresses are opened and closed while connections stay, and one that is taken changes nothing")
def listeners(folder):
    port = database().port
    b = Bench(folder, door(port, mode='"enforce"'))
    old, path = b.connect(), os.path.join(folder, "m")
    fresh = free_port()
    b.change(door(port, listen='"127.0.0.1:%d", "%s"' % (fresh, path), mode='"enforce"'))
    equal(old(READ), [["0"]], "over the address that is gone")
    with socket.socket() as s:
        expect(s.connect_ex(b.server.mysql[0]) != 0, "the old address is still open")
    new = b.connect(at=("127.0.0.1", fresh))
    equal(new(READ), [["0"]], "over the new address")
    expect(os.path.exists(path), "there is no unix socket")
    taken = socket.create_server(("127.0.0.1", 0))
    b.write(door(port, listen='"127.0.0.1:%d", "127.0.0.1:%d"' % (fresh, taken.getsockname()[1]),
                 mode='"off"'))
    b.control.refused("CONFIGRELOAD", mentions=["cannot listen on 127.0.0.1:%d" % taken.getsockname()[1]])
    equal(status(new)["Mode"], "enforce", "mode after a reload that failed")
    expect(os.path.exists(path), "the unix socket was closed by a reload that failed")
    equal(b.connect(at=("127.0.0.1", fresh))(READ), [["0"]], "over the address that stays")
    taken.close()
    b.change(door(port, listen='"127.0.0.1:%d"' % fresh, mode='"off"'))
    expect(not os.path.exists(path), "the unix socket is still there")
    equal((old(READ), status(new)["Mode"]), ([["0"]], "off"), "at the end")
    b.stop()


@test("an address goes to another door, two change places, and a door gets another name")
def moving(folder):
    port, one, two = database().port, free_port(), free_port()
    path = os.path.join(folder, "m")

    def put(a, b, names=("a", "b")):
        return [door(port, name=names[0], listen=a), door(port, name=names[1], listen=b)]

    at = ['"127.0.0.1:%d"' % one, '"127.0.0.1:%d", "%s"' % (two, path)]
    b = Bench(folder, *put(*at))
    old = b.connect(at=("127.0.0.1", one))

    def names():
        return [status(b.connect(at=("127.0.0.1", p)))["Door"] for p in (one, two)]

    equal(names(), ["a", "b"], "doors at first")
    b.change(*put(*reversed(at)))
    equal(names(), ["b", "a"], "doors that changed places")
    equal(status(old)["Door"], "a", "the door of a connection that was there")
    expect(os.path.exists(path), "the unix socket is gone")
    b.change(*put(*at, names=("c", "d")))
    equal(names(), ["c", "d"], "doors with other names")
    until(lambda: is_gone(old), what="a connection of a door that is gone to end")
    b.change(door(port, name="c", listen="%s, %s" % tuple(at)))
    equal(names(), ["c", "c"], "one door with the addresses of both")
    b.stop()


@test("a door with two free ports keeps both through reloads")
def free_ports(folder):
    port = database().port
    b = Bench(folder, door(port, listen='"127.0.0.1:0", "127.0.0.1:0"'))
    equal(len(set(b.server.mysql)), 2, "addresses")
    for wait in ("1s", "3s"):
        b.change(door(port, listen='"127.0.0.1:0", "127.0.0.1:0"', wait='"%s"' % wait))
        for at in b.server.mysql:
            equal(b.connect(at=at)(READ), [["0"]], "at %s:%d" % at)
    b.stop()


@test("another server is for new connections; those that are open keep theirs")
def servers(folder):
    port, other = database().port, Maria("other")
    other.ask("CREATE DATABASE shop", "CREATE USER 'web'@'%' IDENTIFIED BY ''",
              "GRANT ALL ON *.* TO 'web'@'%'")
    b = Bench(folder, door(port))
    old = b.connect()
    equal(old("SELECT @@port"), [[str(port)]], "the server at first")
    b.change(door(other.port))
    equal(b.connect()("SELECT @@port"), [[str(other.port)]], "the server of a new connection")
    equal(old("SELECT @@port"), [[str(port)]], "the server of the old one")
    b.stop()
    other.kill()


@test("a door is added and removed; its connections end when they have no transaction")
def doors(folder):
    port = database().port
    b = Bench(folder)
    equal(b.server.mysql, [], "addresses in the ready line")
    mine = free_port()
    b.change(door(port, listen='":%d"' % mine, mode='"enforce"', wait='"1m"'))
    at = ("127.0.0.1", mine)
    idle, busy, etl = b.connect(at=at), b.connect(at=at), b.connect("etl", at=at)
    busy("BEGIN")
    busy("INSERT INTO t (who) VALUES ('last')")
    b.hold("etl")
    etl("BEGIN")
    held = Statement(etl, "INSERT INTO t (who) VALUES ('last')")
    until_waiting(idle, 1)
    equal(b.change()["changed"], ["mysql.shop: removed"], "reload")
    until(lambda: is_gone(idle), what="the idle connection to end")
    expect("the statement has not run" in str(held.result()), "held: %s" % held.result())
    with socket.socket() as s:
        expect(s.connect_ex(at) != 0, "the address is still open")
    busy("INSERT INTO t (who) VALUES ('last')")
    busy("COMMIT")
    until(lambda: is_gone(busy), what="the other one to end")
    equal(b.db.ask("SELECT COUNT(*) FROM shop.t WHERE who = 'last'"), [["2"]], "rows")
    b.change(door(port, listen='":%d"' % mine))
    equal(b.connect(at=at)(READ), [["0"]], "the door that came back")
    b.stop()


def is_gone(connection):
    """Asks as fast as a busy client does: weir must end it between two statements."""
    try:
        connection("SELECT 1")
        return False
    except RuntimeError:
        return True


@test("a door drains: nobody comes in, transactions are finished, and it opens again")
def draining(folder):
    port = database().port
    b = Bench(folder, door(port, mode='"enforce"', wait='"1m"'), classes=ETL % " concurrency = 1\n")
    first, second, eye = b.connect("etl"), b.connect("etl"), b.connect()
    first("BEGIN")
    first("INSERT INTO t (who) VALUES ('drained')")
    held = Statement(second, "INSERT INTO t (who) VALUES ('drained')")
    until_waiting(eye, 1)
    url = "weir://%s:%d" % b.server.resp
    found = weir("proxy", "drain", "shop", "--url", url)
    equal((found.returncode, found.stderr), (0, ""), "weir proxy drain")
    until(lambda: is_gone(eye), what="the idle connection to end")
    try:
        b.connect()
        raise AssertionError("a door that drains took a connection")
    except RuntimeError as error:
        expect("draining" in str(error), str(error))
    first("COMMIT")
    equal(held.result(), [], "the one that was held")
    until(lambda: is_gone(first) and is_gone(second), what="both to end")
    equal(b.db.ask("SELECT COUNT(*) FROM shop.t WHERE who = 'drained'"), [["2"]], "rows")
    equal(weir("proxy", "undrain", "shop", "--url", url).returncode, 0, "weir proxy undrain")
    equal(b.connect()(READ), [["0"]], "afterwards")
    b.stop()


def certificate_of(address, authority):
    """The common name in the certificate that a door shows: TLS begins after the greeting."""
    context = ssl.create_default_context(cafile=authority.cert)
    with socket.create_connection(address, 20) as s:
        head = s.recv(4, socket.MSG_WAITALL)
        s.recv(int.from_bytes(head[:3], "little"), socket.MSG_WAITALL)
        caps = 0x00000200 | 0x00000800 | 0x00008000 | 0x00080000  # 4.1, SSL, secure, plugins
        s.sendall(b"\x20\0\0\x01" + struct.pack("<IIB23x", caps, 1 << 24, 45))
        with context.wrap_socket(s, server_hostname="127.0.0.1") as tls:
            return dict(x[0] for x in tls.getpeercert()["subject"])["commonName"]


@test("a reload reads the certificate again, also one under the same name")
def certificates(folder):
    port, files = database().port, Authority(os.path.join(folder, "tls"), "ca")
    cert, key = os.path.join(folder, "cert"), os.path.join(folder, "key")

    def use(name):
        for source, to in zip(files.sign(name, "IP:127.0.0.1"), (cert, key)):
            with open(source, "rb") as f, open(to, "wb") as g:
                g.write(f.read())
            os.chmod(to, 0o600)

    use("first")
    mine = door(port, tls='"terminate"', tls_cert='"%s"' % cert, tls_key='"%s"' % key,
                server='"%s"' % database().socket)
    b = Bench(folder, mine)
    old = b.connect()
    equal(certificate_of(b.server.mysql[0], files), "first", "certificate")
    use("second")
    b.reload()
    equal(certificate_of(b.server.mysql[0], files), "second", "certificate after the reload")
    with open(cert, "w") as f:
        f.write("nonsense\n")
    b.control.refused("CONFIGRELOAD", mentions=["tls_cert"])
    equal(certificate_of(b.server.mysql[0], files), "second", "certificate after one that failed")
    equal(old(READ), [["0"]], "the connection that was there")
    b.stop()


@test("a mode that was set by hand stays through a reload, and comes out as configuration")
def by_hand(folder):
    port = database().port
    b = Bench(folder, door(port, mode='"enforce"', wait='"0s"'), classes=ETL % "")
    etl = b.connect("etl")
    b.hold("etl")
    until(lambda: is_refused(etl, READ), what="the gate to know the class")
    b.control("SETTINGSET", "mysql.shop.mode", "observe")
    until(lambda: status(etl)["Mode"] == "observe", what="mode observe")
    equal(etl(READ), [["0"]], "in mode observe")
    shown = b.control("SETTINGSTEXT")
    expect('mysql "shop" {' in str(shown), shown)
    b.change(door(port, mode='"enforce"', wait='"0s"', max_connections=9), classes=ETL % "")
    equal((status(etl)["Mode"], etl(READ)), ("observe", [["0"]]), "after a reload")
    b.control("SETTINGUNSET", "mysql.shop.mode")
    until(lambda: status(etl)["Mode"] == "enforce", what="mode enforce")
    refused(etl, READ, "reason=hold")
    b.stop()


@test("SIGHUP under load: no statement fails and no connection ends")
def under_load(folder):
    port = database().port
    modes = [door(port, mode='"%s"' % m, wait='"%s"' % w, concurrency=c)
             for m, w, c in (("enforce", "1m", 1), ("observe", "2s", 0), ("enforce", "30s", 3),
                             ("off", "0s", 0))]
    b = Bench(folder, modes[0])
    stop, errors, counts = threading.Event(), [], [0] * 4

    def work(i):
        try:
            c = MariaConnection(b.server.mysql[0][1], USERS[i % 2], "", database="shop")
            first = c.id()
            while not stop.is_set():
                c("BEGIN")
                c("INSERT INTO t (who) VALUES ('load')")
                c("SELECT COUNT(*) FROM t WHERE id < 5")
                c("ROLLBACK")
                counts[i] += 1
            equal(c("SELECT CONNECTION_ID()"), [[str(first)]], "connection")
            c.close()
        except (RuntimeError, AssertionError) as error:
            errors.append(str(error))

    threads = [threading.Thread(target=work, args=(i,)) for i in range(len(counts))]
    for t in threads:
        t.start()
    eye = b.connect()
    for i in range(1, 13):
        before = list(counts)
        mode = ("enforce", "observe", "enforce", "off")[i % 4]
        b.write(modes[i % 4], classes=ETL % (" concurrency = %d\n" % (i % 3)))
        b.server.process.send_signal(signal.SIGHUP)
        until(lambda m=mode: status(eye)["Mode"] == m, what="mode " + mode)
        until(lambda: errors or all(n > m for n, m in zip(counts, before)), 60, "all to go on")
    stop.set()
    for t in threads:
        t.join()
    equal(errors, [], "errors")
    b.stop()


@test("weir stops: an open transaction is finished, a held statement is not run, then all ends")
def stopping(folder):
    port = database().port
    b = Bench(folder, door(port, mode='"enforce"', wait='"1m"'), classes=ETL % "")
    busy, etl, eye, idle = b.connect(), b.connect("etl"), b.connect(), b.connect()
    b.hold("etl")
    busy("BEGIN")
    busy("INSERT INTO t (who) VALUES ('stopping')")
    held = Statement(etl, "INSERT INTO t (who) VALUES ('never')")
    until_waiting(eye, 1)
    b.server.process.send_signal(signal.SIGTERM)
    until(lambda: is_gone(idle), what="the idle connection to end")
    busy("INSERT INTO t (who) VALUES ('stopping')")
    busy("COMMIT")
    error = held.result()
    expect(isinstance(error, str), "the held statement was run: %s" % error)
    equal(b.server.wait(20), 0, "exit code")
    for c in b.open:
        c.close()
    equal(b.db.ask("SELECT who, COUNT(*) FROM shop.t WHERE who IN ('stopping', 'never') GROUP BY who"),
          [["stopping", "2"]], "rows")


if __name__ == "__main__":
    main()
