#!/usr/bin/python3
# weir-test: timeout=120
"""Limits of the MySQL door with a real server: concurrency, rate and database time of a class, numbers
of connections, a server that goes away and comes back, and what SHOW WEIR says."""
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from lib_mysql_door import Bed, maria  # noqa: E402
from lib_mysql_wire import Gone, Raw  # noqa: E402
from harness import equal, expect, main, test, until  # noqa: E402


def ask(c, sql):
    c.send(b"\x03" + sql.encode())


def waiting(b, name):
    return b.classes()[name]["waiting"]


def refused(number, connect):
    """Whatever the raw client makes of an error in the place of a greeting or of an answer."""
    try:
        connect()
        told = "connected"
    except (AssertionError, Gone) as problem:
        told = str(problem)
    expect(str(number) in told and "weir:" in told, told)


def table(b):
    b.database.ask("CREATE OR REPLACE TABLE shop.n (id INT PRIMARY KEY) ENGINE=InnoDB")


@test("concurrency: a transaction of a class waits until the one before it has ended")
def _(folder):
    with Bed(folder, wait="60s", classes={"etl": 'user = "etl" concurrency = 1'}) as b:
        table(b)
        with b.raw("etl") as first, b.raw("etl") as second, b.raw("shop") as other:
            first.good("BEGIN")
            first.good("INSERT INTO n VALUES (1)")
            ask(second, "INSERT INTO n VALUES (2)")
            until(lambda: waiting(b, "etl") == 1, what="one that waits")
            other.good("INSERT INTO n VALUES (3)")  # another class is not in the way
            first.good("INSERT INTO n VALUES (4)")  # nor is the transaction that runs
            first.good("COMMIT")
            expect(second.reply().error is None, "the second")
            equal((b.classes()["etl"]["held"], waiting(b, "etl")), (1, 0), "held, waiting")


@test("rate: more starts than a class may have are refused after the wait, with the reason")
def _(folder):
    with Bed(folder, wait="0s", classes={"etl": 'user = "etl" rate = 0.001'}) as b, b.raw("etl") as c:
        c.good("SELECT id FROM n")
        error = c.query("SELECT id FROM n").error
        expect(error and error.is_weir(), error)
        equal(error.number, 1213, "error")
        expect("class=etl reason=rate" in error.text and "retry in" in error.text, error.text)
        c.good("SELECT 1")  # never waits


@test("time_budget: a class that used up its database time waits, others do not")
def _(folder):
    classes = {"etl": 'user = "etl" time_budget = "1ms" wait = "0s"'}
    with Bed(folder, classes=classes) as b, b.raw("etl") as c, b.raw("shop") as other:
        c.good("SELECT SLEEP(0.1) FROM DUAL")
        error = c.query("SELECT id FROM n").error
        expect(error and "reason=time_budget" in error.text, error)
        other.good("SELECT id FROM n")
        used = b.classes()["etl"]
        expect(used["busy_ms"] >= 100, used)


@test("numbers of connections: of the door, and of each user")
def _(folder):
    with Bed(folder, options="max_connections = 3 max_user_connections = 2") as b:
        def left(n):  # the door sees the end of a connection after the client that ended it
            until(lambda: b.door()["connections"] == n, what="%d connections" % n)

        with b.raw("etl"), b.raw("etl"):
            refused(1203, lambda: b.raw("etl"))
            left(2)
            with b.raw("shop"):
                refused(1040, lambda: b.raw("shop"))
        left(0)
        b.raw("etl").close()


@test("a server that goes away is told at once, and clients work again when it is back")
def _(folder):
    with Bed(folder) as b:
        with b.raw("shop") as c:
            c.good("SELECT 1")
        maria().halt()
        refused(2003, lambda: Raw(b.address))
        with b.weir.web() as w:
            until(lambda: w.good("GET", "/v1/proxies/shop")["problem"] != "", what="the problem")
            maria().start()
            until(lambda: w.good("GET", "/v1/proxies/shop")["problem"] == "", 30, "its end")
        with b.raw("shop") as c:
            c.good("SELECT 1")


@test("SHOW WEIR is answered by the door itself")
def _(folder):
    with Bed(folder, classes={"etl": 'user = "etl" tier = "deferrable"'}) as b, b.raw("etl") as c:
        c.good("SELECT id FROM n")
        status = dict(c.good("SHOW WEIR STATUS").rows)
        equal((status[b"Door"], status[b"Mode"], status[b"Connections"]), (b"shop", b"enforce", b"1"),
              "status")
        rows = [r for r in c.good("show weir classes").rows if r[0] == b"etl"]
        equal(rows[0][2:4], [b"deferrable", b"enforce"], "tier and mode")
        error = c.query("SHOW WEIR NOTHING").error
        equal((error.number, error.is_weir()), (1064, True), "a word that there is not")


main()
