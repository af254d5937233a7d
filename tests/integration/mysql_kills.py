#!/usr/bin/python3
# weir-test: timeout=180 outer=part
"""The MySQL door, its server and its clients are killed again and again under load.

    mysql_kills.py                         a kill of each kind, for the suite; --outer: 60 of them
    mysql_kills.py --kills N [--seed N]    as many as you like: make crash

Writers insert numbered rows through the door, in transactions and without, and remember what was
acknowledged.  Beside them others stand held at the door with a statement each, when a kill takes the
door (SIGKILL), the server (SIGKILL), or them (a closed or reset connection).  Then the hold is
lifted.  At the end and now and then:

    every row that was acknowledged is in the table;
    no row of a statement that was held when a kill came is there.
"""
import argparse
import os
import random
import shutil
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from lib_mysql_door import Bed, maria  # noqa: E402
from lib_mysql_wire import Gone  # noqa: E402
from harness import expect, main, test, until  # noqa: E402

WRITERS = 4
HELD = 3  # at each kill
LOOK_EVERY = 25  # kills
SUITE_KILLS, OUTER_KILLS = 4, 60
DYING = (1053, 1927)  # what a server or a door says that is about to end
SERVER_SHARE = 0.05  # of the kills; its recovery takes seconds


class Numbers:
    """Of rows: each is given out once."""

    def __init__(self):
        self.lock, self.last = threading.Lock(), 0
        self.acknowledged, self.held = set(), set()

    def take(self):
        with self.lock:
            self.last += 1
            return self.last


class Writer(threading.Thread):
    def __init__(self, bed, numbers, seed):
        super().__init__(daemon=True)
        self.bed, self.numbers, self.dice = bed, numbers, random.Random(seed)
        self.is_over, self.problem = False, None

    def write(self, c):
        n = self.numbers.take()
        sql = "INSERT INTO written VALUES (%d)" % n
        statements = [sql] if self.dice.random() < 0.5 else ["BEGIN", sql, "COMMIT"]
        for statement in statements:
            error = c.query(statement).error
            if error:
                expect(error.number in DYING, "%s: %r" % (statement, error))
                return
        self.numbers.acknowledged.add(n)

    def run(self):
        try:
            while not self.is_over:
                try:
                    with self.bed.raw("shop") as c:
                        while not self.is_over:
                            self.write(c)
                except (Gone, OSError):
                    time.sleep(0.01)  # the door or the server is away
        except AssertionError as error:
            self.problem = error


def hold(bed, is_on):
    with bed.weir.web() as w:
        if is_on:
            w.good("POST", "/v1/rules/etl", {"kind": "hold"})
        else:
            w.good("DELETE", "/v1/rules/etl")


def stand_at_the_door(bed, numbers):
    """Clients with a statement each that the door holds."""
    clients = []
    before = bed.classes().get("etl", {"waiting": 0})["waiting"]
    for _ in range(HELD):
        c = bed.raw("etl")
        n = numbers.take()
        numbers.held.add(n)
        c.send(b"\x03INSERT INTO written VALUES (%d)" % n)
        clients.append(c)
    until(lambda: bed.classes()["etl"]["waiting"] == before + HELD, 30, "held statements")
    return clients


def kill_clients(bed, clients, dice):
    left = bed.classes()["etl"]["left"]
    for c in clients:
        c.close(reset=dice.random() < 0.5)
    until(lambda: bed.classes()["etl"]["left"] == left + HELD, 30, "clients that left")


def kill_door(bed):
    """A child that the door was about to start may have its lock for a moment longer."""
    bed.weir.kill()
    deadline = time.monotonic() + 10
    while True:
        try:
            bed.start()
            return
        except AssertionError as error:
            if "is in use by process" not in str(error) or time.monotonic() > deadline:
                raise


def kill_server(bed):
    bed.database.halt()
    bed.database.start()
    until(lambda: bed.classes()["etl"]["waiting"] == 0, 30, "the end of held statements")


def look(bed, numbers):
    acknowledged = set(numbers.acknowledged)
    rows = {int(r[0]) for r in bed.database.ask("SELECT id FROM shop.written")}
    lost, ran = acknowledged - rows, numbers.held & rows
    expect(not lost, "acknowledged and lost: %s" % sorted(lost)[:10])
    expect(not ran, "held when a kill came, and run: %s" % sorted(ran)[:10])
    return len(acknowledged)


def run(bed, kills, seed, first=()):
    """first: what the first kills take; what the others take is chance."""
    dice, numbers = random.Random(seed), Numbers()
    counts = {"door": 0, "server": 0, "clients": 0}
    bed.database.ask("CREATE TABLE shop.written (id BIGINT PRIMARY KEY) ENGINE=InnoDB")
    writers = [Writer(bed, numbers, seed + i) for i in range(WRITERS)]
    for w in writers:
        w.start()
    for i in range(kills):
        hold(bed, True)
        clients = stand_at_the_door(bed, numbers)
        time.sleep(dice.random() * 0.02)  # so that kills come at any moment of the writers' work
        roll = dice.random()
        what = "server" if roll < SERVER_SHARE else "door" if roll < 0.5 else "clients"
        what = first[i] if i < len(first) else what
        counts[what] += 1
        if what == "clients":
            kill_clients(bed, clients, dice)
        elif what == "door":
            kill_door(bed)
        else:
            kill_server(bed)
        hold(bed, False)
        for c in clients:
            c.close()
        for w in writers:
            if w.problem:
                raise w.problem
        if i % LOOK_EVERY == LOOK_EVERY - 1:
            look(bed, numbers)
    for w in writers:
        w.is_over = True
    for w in writers:
        w.join(60)
    return look(bed, numbers), len(numbers.held), counts


def bed_for_kills(folder):
    """What it acknowledged outlives its server, too."""
    option = "--innodb-flush-log-at-trx-commit=2"
    if option not in maria().options:
        maria().options += (option,)
        maria().halt()
        maria().start()
    return Bed(folder, wait="60s", classes={"etl": 'user = "etl" identity = "etl"'})


@test("kills of the door, the server and clients lose no acknowledged row and run no abandoned statement")
def some(folder):
    bed = bed_for_kills(folder)
    run(bed, SUITE_KILLS, random.randrange(1 << 31), ["clients", "door", "server", "clients"])
    bed.stop()


@test("many kills lose no acknowledged row and run no abandoned statement", outer=True)
def many(folder):
    bed = bed_for_kills(folder)
    run(bed, OUTER_KILLS, random.randrange(1 << 31))
    bed.stop()


def crash():
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, required=True)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 31))
    args = parser.parse_args()
    folder = tempfile.mkdtemp(prefix="door-crash.", dir=os.environ.get("TMPDIR"))
    try:
        bed = bed_for_kills(folder)
        n, n_held, counts = run(bed, args.kills, args.seed)
        bed.stop()
    except AssertionError as error:
        print("not ok - the MySQL door under kills, seed %d: %s" % (args.seed, error))
        sys.exit(1)
    shutil.rmtree(folder)
    print("ok - the MySQL door under %d kills (%s), seed %d: %d acknowledged, none lost; %d held, none run"
          % (args.kills, ", ".join("%s %d" % x for x in counts.items()), args.seed, n, n_held))


if "--kills" in sys.argv:
    crash()
else:
    main()
