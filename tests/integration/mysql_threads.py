#!/usr/bin/python3
# weir-test: timeout=120 tsan
"""The threads of the MySQL proxy and the loop, together: for ThreadSanitizer.

Clients of several classes write and read through a door with three threads, by TLS, in plain text and
on a unix socket.  Meanwhile the operator holds them and sets them free, kills, lists, drains, changes
the load and reads the settings again.  The load is measured over a connection, for the reason that
wordpress_threads.py gives."""
import os
import random
import ssl
import sys
import threading

HERE = os.path.dirname(os.path.abspath(__file__))
sys.dont_write_bytecode = True
sys.path.insert(0, HERE)
sys.path.insert(0, os.path.join(HERE, "..", "fault"))

from lib_databases import Maria  # noqa: E402
from lib_mysql_wire import CAPS, SSL, WITH_DB, Gone, Raw  # noqa: E402
from lib_tls import Authority  # noqa: E402
from harness import Server, equal, expect, main, test, until  # noqa: E402

CLIENTS = ("web", "web", "etl", "etl", "etl", "report")
ROUNDS = 12  # of what the operator does
CALM, STORM = 1, 30
# Errors that clients meet here: refused, killed while held, killed, draining or stopping.
FINE = {1213, 1317, 1053, 1927}

CONFIG = """
mysql_threads = 3
throttle { mode = "off" }
target "db" {
        kind = "mysql" socket = "%(socket)s" user = "root" interval = "100ms" dwell = "0s"
        metric "load" { source = "sql:SELECT n FROM shop.now" elevated = {5, 3} critical = {15, 10} }
}
mysql "shop" {
        listen = {"127.0.0.1:0", "%(path)s"} server = "127.0.0.1:%(port)d" target = "db"
        mode = "enforce" wait = "%(wait)s" concurrency = %(concurrency)d
        tls = "terminate" tls_cert = "%(cert)s" tls_key = "%(key)s"
}
class "etl" { user = "etl" tier = "deferrable" concurrency = %(concurrency)d wait = "30s" }
class "report" { user = "report" statements = "read" time_budget = "500ms" }
"""
SECOND = """
mysql "second" {
        listen = {"127.0.0.1:0"} server = "%(socket)s" mode = "observe" proxy_protocol_from = {"127.0.0.1"}
}
"""


class Bed:
    def __init__(self, folder):
        authority = Authority(os.path.join(folder, "ca"), "one")
        cert, key = authority.sign("door", "DNS:door")
        self.db, self.conf = Maria("db", "--ssl-cert=" + cert, "--ssl-key=" + key), folder + "/weir.conf"
        self.db.ask("CREATE DATABASE shop",
                    "CREATE TABLE shop.t (id INT PRIMARY KEY AUTO_INCREMENT, who VARCHAR(40))",
                    *("CREATE USER %s IDENTIFIED BY ''" % u for u in set(CLIENTS)),
                    *("GRANT ALL ON *.* TO %s" % u for u in set(CLIENTS)))
        self.set_load(CALM)
        self.facts = {"port": self.db.port, "socket": self.db.socket, "cert": cert, "key": key,
                      "path": os.path.join(folder, "door")}
        self.tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self.tls.load_verify_locations(authority.cert)
        self.write(2, SECOND)
        self.server = Server(folder, "-c", self.conf)
        self.address = self.server.mysql[0]

    def write(self, n, more=""):
        with open(self.conf, "w", encoding="ascii") as f:
            f.write((CONFIG + more) % {"wait": "%dms" % (200 * n), "concurrency": n, **self.facts})

    def set_load(self, value):
        self.db.ask("CREATE OR REPLACE VIEW shop.now AS SELECT %d AS n" % value)

    def level(self):
        with self.server.web() as w:
            return w.good("GET", "/v1/throttle")["targets"][0]["level"]

    def connect(self, user):
        """web by TLS, etl in plain text, report on the unix socket."""
        if user == "report":
            return Raw(self.facts["path"]).login(user, database="shop")
        c = Raw(self.address)
        if user != "web":
            return c.login(user, database="shop")
        return c.start_tls(self.tls, CAPS | WITH_DB, "door").login(user, database="shop", caps=CAPS | SSL)

    def held(self):
        with self.server.web() as w:
            return w.good("GET", "/v1/proxies/shop/clients?state=held")["clients"]


class Client(threading.Thread):
    """Transactions, connection after connection, until it is over."""

    def __init__(self, bed, user, seed):
        super().__init__(daemon=True)
        self.bed, self.user, self.dice = bed, user, random.Random(seed)
        self.is_over, self.done, self.problem = False, 0, None

    def transact(self, c):
        kind = self.dice.randrange(4)
        if kind == 0:
            replies = [c.query(q) for q in ("BEGIN", "INSERT INTO t (who) VALUES ('%s')" % self.user,
                                            "COMMIT")]
        elif kind == 1:
            replies = [c.query("SELECT /* weir: id=job:%d */ COUNT(*) FROM t" % self.dice.randrange(9))]
        elif kind == 2:
            replies = [c.query("UPDATE t SET who = 'x' WHERE id = %d" % self.dice.randrange(99))]
        else:
            made = c.prepare("SELECT who FROM t WHERE id = ?")
            expect(not made.error, made.error)
            replies = [c.execute(made.statement, 1)]
        for r in replies:
            expect(not r.error or r.error.number in FINE, r.error)
        self.done += 1

    def session(self):
        with self.bed.connect(self.user) as c:
            for _ in range(self.dice.randrange(1, 40)):
                if self.is_over:
                    return
                self.transact(c)

    def run(self):
        while not self.is_over:
            try:
                self.session()
            except (Gone, OSError):  # it was killed, or drained
                pass
            except Exception as error:  # pylint: disable=broad-except
                self.problem = error
                return


def kill_held(bed, dice):
    """By a client of the same door, which names the server's number of the thread."""
    found = bed.held()
    if found:
        with bed.connect("report") as c:
            how = dice.choice(("QUERY", "CONNECTION"))
            r = c.query("KILL %s %d" % (how, dice.choice(found)["id"]))
            expect(not r.error or r.error.number == 1094, r.error)  # it has gone by itself


def look(bed):
    with bed.server.web() as w:
        for path in ("", "/shop", "/shop/classes", "/shop/clients?limit=10", "/shop/statements"):
            w.good("GET", "/v1/proxies" + path)
        w.good("POST", "/v1/proxies/shop/explain", {"sql": "SELECT 1 FROM t", "user": "etl"})
        w.ask("GET", "/metrics")
    with bed.connect("report") as c:
        for what in ("STATUS", "CLASSES"):
            expect(c.good("SHOW WEIR " + what).rows, "nothing to show")


@test("held, killed, listed and reloaded clients of a door with three threads meet the loop")
def together(folder):
    bed = Bed(folder)
    dice = random.Random(int(os.environ.get("SEED", "16")))
    clients = [Client(bed, user, dice.random()) for user in CLIENTS]
    for c in clients:
        c.start()
    with bed.server.client() as control:
        for i in range(ROUNDS):
            before = [c.done for c in clients]
            control("RULESET", "etl", "hold", "FOR", "600000")
            until(bed.held, 30, "clients that are held")
            kill_held(bed, dice)
            look(bed)
            if i % 3 == 2:
                bed.set_load(STORM)
                until(lambda: bed.level() == "critical", 30, "a storm")
            bed.write(1 + i % 3, SECOND if i % 2 else "")
            control("CONFIGRELOAD")
            if i % 2:
                control("PROXYDRAIN", "second", "ON")
            control("RULEUNSET", "etl")
            bed.set_load(CALM)
            until(lambda: all(c.problem or c.done > n for c, n in zip(clients, before)), 60,
                  "a transaction of each client")
            look(bed)
    for c in clients:
        c.is_over = True
    for c in clients:
        c.join(60)
        expect(not c.is_alive() and not c.problem, "%s: %s" % (c.user, c.problem))
    idle = [bed.connect(user) for user in CLIENTS]  # closed by weir
    equal(bed.server.stop(30), 0, "exit code")
    for c in idle:
        c.close()


if __name__ == "__main__":
    main()
