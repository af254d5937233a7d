#!/usr/bin/python3
# weir-test: timeout=120
"""The law of load with a real server: what is usual goes at once, what is not shares the window; a
pile-up makes the database over, and its end ends it; what was learned is kept in a file."""
import json
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from lib_mysql_door import PASSWORD, Bed, maria, memory  # noqa: E402
from harness import equal, expect, main, test, until  # noqa: E402

CLASSES = {"shop": 'user = "shop"', "etl": 'user = "etl" tier = "deferrable"'}
TARGET = """target "shop" {
        kind = "mysql" host = "127.0.0.1" port = %d user = "probe" password_file = "%s" interval = "100ms"
}"""


def bed(folder, learned, **options):
    password = os.path.join(folder, "password")
    with open(password, "w", encoding="ascii") as f:
        f.write(PASSWORD)
    os.chmod(password, 0o600)
    os.makedirs(os.path.join(folder, "data"), exist_ok=True)
    if learned:
        with open(os.path.join(folder, "data", "learned.shop"), "w", encoding="utf-8") as f:
            f.write(learned)
    b = Bed(folder, classes=CLASSES, target=TARGET % (maria().port, password),
            options='target = "shop"', **options)
    b.database.ask("CREATE OR REPLACE TABLE shop.n (id INT PRIMARY KEY) ENGINE=InnoDB")
    return b


def ask(c, sql):
    c.send(b"\x03" + sql.encode())


def etl(b):
    return b.classes()["etl"]


@test("the usual goes while deferrable work fills the window, and that grows while the database is well")
def _(folder):
    with bed(folder, json.dumps(memory(4, 1000, running=15)), wait="60s") as b, b.raw("shop") as shop:
        until(lambda: b.door()["learned"], what="a door that knows what is usual")
        some = [b.raw("etl") for _ in range(12)]
        for c in some:
            ask(c, "SELECT SLEEP(3) FROM DUAL WHERE 1")
        until(lambda: etl(b)["waiting"], what="one that waits")
        shop.good("SELECT id FROM n")
        equal(b.classes()["shop"]["held"], 0, "held of the usual")
        equal(b.classes()["shop"]["usual"], "4", "usual")
        for c in some:
            expect(not c.reply().error, "refused")
            c.close()
        expect(b.door()["window"] > 4, "the window did not grow: %r" % b.door()["window"])
        held = etl(b)["held"]
        expect(0 < held <= 8, "held: %r" % held)


@test("an open transaction that waits for its client takes no place")
def _(folder):
    with bed(folder, json.dumps(memory(4, 1000)), wait="60s") as b:
        until(lambda: b.door()["learned"], what="a door that knows what is usual")
        idle = [b.raw("etl") for _ in range(8)]
        for c in idle:
            c.good("BEGIN")
            c.good("SELECT id FROM n")
        equal((etl(b)["running"], etl(b)["executing"], etl(b)["held"]), (8, 0, 0), "open, executing, held")
        ask(idle[0], "SELECT SLEEP(60)")
        until(lambda: etl(b)["executing"] == 1, what="one that goes on")
        b.database.ask("KILL QUERY %d" % idle[0].thread)
        idle[0].reply()
        for c in idle:
            c.close()


@test("a pile-up behind a lock makes the database over, with the reason, until it goes")
def _(folder):
    with bed(folder, json.dumps(memory(30, ms=1, running=15)), wait="60s") as b:
        until(lambda: b.door()["learned"], what="a door that knows what is usual")
        some, late = [b.raw("shop") for _ in range(40)], b.raw("etl")
        with b.raw("probe", is_direct=True) as locker:
            locker.good("LOCK TABLES n WRITE")
            for c in some:
                ask(c, "SELECT id FROM n")
            until(lambda: "times as slow as usual" in b.door()["why"], what="over")
            first = b.raw("etl")
            ask(first, "SELECT id FROM n")  # none of its tier executes
            until(lambda: etl(b)["executing"] == 1, what="the first of its tier")
            ask(late, "SELECT id FROM n")
            until(lambda: etl(b)["waiting"] == 1, what="the second, which waits")
            why = [c["why"] for c in b.clients("held") if c["class"] == "etl"]
            expect(why and "the window of" in why[0] and "is full" in why[0], why)
            locker.good("UNLOCK TABLES")
        for c in [*some, first, late]:
            expect(not c.reply().error, "refused")
            c.close()
        until(lambda: not b.door()["over"], what="the end of it")


@test("what was learned is kept over a restart, and a file that makes no sense is passed over")
def _(folder):
    path = os.path.join(folder, "data", "learned.shop")
    with bed(folder, json.dumps(memory(4, 20))) as b, b.raw("shop") as shop:
        until(lambda: b.door()["learned"], what="a door that knows what is usual")
        for _ in range(3):
            shop.good("SELECT id FROM n")
    with open(path, encoding="utf-8") as f:
        kept = json.load(f)
    equal([(c["identity"], c["executing"], c["ends"] >= 5000, c["hours"]) for c in kept["classes"]],
          [("shop", 4000, True, [4, 4, 4])], "classes in the file")
    equal([row[1] for row in kept["classes"][0]["statements"]], [3], "statements that are known")
    statements = [{**kept["classes"][0], "statements": [row]}
                  for row in (["0", 3, 1], ["x" * 16, 3, 1], ["0" * 16, 3, 1], ["1" * 16, 3], 7)]
    for broken in ('{"version": 2}', "what",
                   *(json.dumps({**kept, "classes": [c]}) for c in ({"identity": "shop"}, *statements))):
        with bed(folder, broken) as b:
            expect(not b.door()["learned"], "learned from %r" % broken)
            expect("makes no sense" in b.weir.log(), b.weir.log())


if __name__ == "__main__":
    main()
