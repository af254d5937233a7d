#!/usr/bin/python3
# weir-test: timeout=300 long outer=part
"""The guard of a WordPress site on a real MariaDB: actions of tiers that must wait are moved and given
back to the second, nothing else is touched, and whatever is killed, nothing is lost."""
import functools
import os
import shutil
import sys
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import lib_actionscheduler as bed  # noqa: E402
from lib_databases import Wire  # noqa: E402
from lib_guard import (  # noqa: E402
    CALM, NORMAL, PAYMENT, RENEWAL, STORM, SYNC, Bed, fill, maria)
from harness import equal, expect, main, test, until  # noqa: E402


@test("in a storm actions of waiting tiers move, and every date returns to the second")
def moves_and_returns(folder):
    b = Bed(folder)
    made = fill(b.site)
    before = b.dates()
    b.set_load(STORM)
    b.start()
    state = b.wait(lambda s: s["moved"] == 120, "all that must wait are moved")
    equal(state["level"], "critical", "level")
    moved = {a for a, dates in b.dates().items() if dates != before[a]}
    equal({made[a] for a in moved}, {RENEWAL, NORMAL, SYNC}, "hooks that moved")
    equal(len(moved), 120, "actions that moved")
    for action in moved:
        expect(any("weir: deferred" in line and "critical" in line for line in b.site.logs(action)),
               b.site.logs(action))
    tiers = {t["tier"]: t for t in state["tiers"]}
    equal(tiers["deferrable"]["moved"], 40, "moved syncs")
    bare = set(sorted(moved)[:60])  # as if their lines could not be written
    b.site.sql("DELETE FROM %s WHERE action_id <= %d AND message LIKE 'weir: deferred%%'" % (
        b.site.table("logs"), max(bare)))
    b.set_load(CALM)
    b.wait_all_back()
    equal(b.dates(), before, "dates")

    def returned():
        return {a: sum("weir: returned" in line for line in b.site.logs(a)) for a in moved}
    until(lambda: sum(returned().values()) >= len(moved - bare), what="the lines of returns")
    b.server.stop()
    equal(returned(), {a: int(a not in bare) for a in moved}, "lines of returns")


@test("in observe mode nothing of the database changes, and what would be moved is counted")
def observes(folder):
    b = Bed(folder, mode="observe")
    fill(b.site)
    before = b.site.checksum()
    b.set_load(STORM)
    b.start()
    state = b.wait(lambda s: s["would_move"] == 120 and s["level"] == "critical", "what would be moved")
    equal(state["moved"], 0, "moved")
    b.set_load(CALM)
    b.wait(lambda s: s["level"] == "normal" and s["would_move"] == 0, "calm")
    b.server.stop()
    equal(b.site.checksum(), before, "checksum of all tables")


@test("a person who cancels or edits a moved action wins, and claimed actions are left alone")
def people_win(folder):
    b = Bed(folder)
    made = fill(b.site, 4)
    syncs = [a for a, hook in made.items() if hook == SYNC]
    claimed, canceled, edited, other = syncs[:4]
    b.site.sql("UPDATE %s SET claim_id = 7 WHERE action_id = %d" % (b.site.table("actions"), claimed))
    before = b.dates()
    b.set_load(STORM)
    b.start()
    b.wait(lambda s: s["moved"] == 11, "all but the claimed one are moved")
    equal(b.dates()[claimed], before[claimed], "the claimed one")
    b.site.sql("UPDATE %s SET status = 'canceled' WHERE action_id = %d" % (b.site.table("actions"), canceled))
    b.site.sql("UPDATE %s SET scheduled_date_gmt = '2030-01-01 00:00:00' WHERE action_id = %d"
               % (b.site.table("actions"), edited))
    mine = b.dates()
    b.set_load(CALM)
    b.wait(lambda s: s["moved"] == 0, "the others have come back")
    after = b.dates()
    equal(after[canceled], mine[canceled], "the canceled one")
    equal(after[edited], mine[edited], "the edited one")
    equal(after[other], before[other], "the other one")
    b.server.stop()


def survive(folder, kills):
    b = Bed(folder)
    fill(b.site, 60)
    before = b.dates()
    for i in range(kills):
        b.set_load(STORM if i % 2 == 0 else CALM)
        b.start()
        b.wait(lambda s: s["surveyed_ms"] > 0, "a survey")
        work = "total_moved" if i % 2 == 0 else "total_returned"
        b.wait(lambda s, work=work: s[work] > 0, work)
        b.server.kill()
    b.set_load(CALM)
    b.start()
    b.wait_all_back()
    equal(b.dates(), before, "dates")
    b.server.stop()


@test("after kill -9 at any moment the ledger knows every date")
def survives_kills(folder):
    survive(folder, 4)


@test("after kill -9 at sixteen moments the ledger knows every date", outer=True)
def survives_many_kills(folder):
    survive(folder, 16)


@test("a database that is killed or cut off is known, and the guard goes on where it was")
def database_gone(folder):
    b = Bed(folder)
    fill(b.site, 20)
    before = b.dates()
    b.set_load(STORM)
    b.start()
    b.wait(lambda s: s["moved"] == 60, "moved")
    maria().halt()
    state = b.wait(lambda s: s["error"], "the error is told")
    expect("connect" in state["error"] or "lost" in state["error"] or "gone" in state["error"], state["error"])
    maria().start()
    b.site.reconnect()
    b.set_load(CALM)
    b.wait_all_back()
    equal(b.dates(), before, "dates")
    b.server.stop()


@test("a network that is cut in the middle of moves is known, and every date still returns")
def network_cut(folder):
    wire = Wire(maria().port)
    b = Bed(folder, timeout='"500ms"')
    b.where = 'host = "127.0.0.1" port = %d' % wire.port
    fill(b.site, 60)
    before = b.dates()
    b.set_load(STORM)
    b.start()
    b.wait(lambda s: s["total_moved"] > 0, "some are moved")
    wire.cut()
    b.wait(lambda s: s["error"], "the cut is told")
    wire.mend()
    b.set_load(CALM)
    b.wait_all_back()
    equal(b.dates(), before, "dates")
    b.server.stop()
    wire.close()


@test("what runners left behind is found and mended by the guard's own cycles")
def repairs(folder):
    b = Bed(folder, repair_claims='"enforce"', repair_claim_rows='"enforce"', repair_retention='"enforce"',
            retry='{"shop_re?ort 2 1h"}')
    now, site = int(time.time()), b.site
    for i in range(3):
        site.add_simple(SYNC, now - 900, args=[i], claim_id=7, last_attempt_gmt=bed.utc(now - 600))
    site.sql("INSERT INTO %s (claim_id, date_created_gmt) VALUES (5, %s)" % (
        site.table("claims"), bed.quote(bed.utc(now - 600))))
    site.add_simple(NORMAL, now - 40 * 86400, status="complete", last_attempt_gmt=bed.utc(now - 40 * 86400))
    site.add_simple(PAYMENT, now - 2 * 86400)
    site.add_simple(NORMAL, now - 60, status="failed", attempts=1, last_attempt_gmt=bed.utc(now - 60))
    for _ in range(3):
        site.add_simple(NORMAL, now + 3600, args=["twice"])
    b.start()

    def told(state, field):
        return {r["repair"]: r[field] for r in state["repairs"]}
    b.wait(lambda s: told(s, "found") == {"lost": 0, "claims": 0, "claim_rows": 0, "retention": 0, "retries": 0,
                                          "restored": 0, "past_due": 1, "duplicates": 2}
           and told(s, "mended") == {"lost": 0, "claims": 3, "claim_rows": 1, "retention": 1, "retries": 1,
                                     "restored": 0, "past_due": 0, "duplicates": 0}, "each repair")
    equal(site.claimed("pending"), 0, "actions of the dead runner")
    b.server.stop()


def backed_up(site):
    """A backup of the site's actions and their log; calling it restores them."""
    names = ("actions", "logs")
    for name in names:
        site.sql("CREATE TABLE copy_%s LIKE %s" % (name, site.table(name)))
        site.sql("INSERT INTO copy_%s SELECT * FROM %s" % (name, site.table(name)))

    def restore(*more):
        site.sql("BEGIN")
        for name in names:
            site.sql("DELETE FROM %s" % site.table(name))
            site.sql("INSERT INTO %s SELECT * FROM copy_%s" % (site.table(name), name))
        for statement in more:
            site.sql(statement)
        site.sql("COMMIT")
    return restore


def move_all(b, n):
    b.set_load(STORM)
    b.start()
    b.wait(lambda s: s["moved"] == n, "all that must wait are moved")
    until(lambda: int(b.site.sql("SELECT COUNT(DISTINCT action_id) FROM %s WHERE message LIKE 'weir: deferred%%'"
                                 % b.site.table("logs"))[0][0]) == n, what="their lines")


def given_back(b, made, before, kept=()):
    """Every date of before but those of `kept`; async actions have that of the line of their move."""
    wanted = {a: date for a, date in before.items() if a not in kept}
    for action, line_gmt in b.site.sql(
            "SELECT action_id, MAX(log_date_gmt) FROM %s WHERE message LIKE 'weir: deferred%%' AND action_id IN "
            "(SELECT action_id FROM %s WHERE schedule LIKE '%%NullSchedule%%') GROUP BY action_id" % (
                b.site.table("logs"), b.site.table("actions"))):
        if int(action) in wanted:
            wanted[int(action)] = (line_gmt, line_gmt)
    until(lambda: {a: d for a, d in b.dates().items() if a not in kept} == wanted, what="the dates are back")
    b.wait(lambda s: s["moved"] == 0, "the ledger is empty again")
    for action in wanted:
        if made[action] == PAYMENT:
            continue
        lines = until(lambda a=action: (lambda all_: all_[-1].startswith("weir: returned") and all_)(b.site.logs(a)),
                      what="the line of the return of %d" % action)
        expect(lines[-2].startswith("weir: known again as moved"), lines)


@test("a backup of moved actions is restored after they came back, or weir's data are lost: dates return exactly")
def restored(folder):
    b = Bed(folder)
    made = fill(b.site, 8)
    before = b.dates()
    move_all(b, 24)
    moved, restore = b.dates(), backed_up(b.site)
    b.set_load(CALM)
    b.wait_all_back()
    equal(b.dates(), before, "dates")
    edited = next(a for a, hook in made.items() if hook == SYNC)
    restore("UPDATE %s SET scheduled_date_gmt = scheduled_date_gmt + INTERVAL 1 SECOND WHERE action_id = %d" % (
        b.site.table("actions"), edited))
    given_back(b, made, before, [edited])
    expect(b.dates()[edited][0] > moved[edited][0], "the edited one: %s" % (b.dates()[edited],))
    equal({r["repair"]: r["mended"] for r in b.state()["repairs"]}["restored"], 23, "mended")
    b.server.stop()
    restore()
    shutil.rmtree(os.path.join(folder, "data"))
    b.set_load(STORM)       # it must not run yet: weir knows the actions again, and leaves them there
    b.start()
    b.wait(lambda s: s["moved"] == 24, "known again")
    equal({a: d for a, d in b.dates().items() if made[a] != PAYMENT},
          {a: d for a, d in moved.items() if made[a] != PAYMENT}, "dates in the storm")
    b.set_load(CALM)
    given_back(b, made, before)
    b.server.stop()


@test("at max_connections the guard still gets in")
def connections_used_up(folder):
    b = Bed(folder)
    fill(b.site, 4)
    b.start()
    b.wait(lambda s: s["surveyed_ms"] > 0, "a survey")
    maria().ask("CREATE OR REPLACE USER shop@'127.0.0.1'")
    limit = int(b.site.sql("SELECT @@max_connections")[0][0])
    b.site.sql("SET GLOBAL max_connections = 20")
    shops = []
    try:
        while True:
            shops.append(maria().connect(user="shop"))
    except RuntimeError as error:
        expect("Too many connections" in str(error), error)
    mine = b.site.sql("SELECT id FROM information_schema.PROCESSLIST WHERE user = 'weir'")[0][0]
    before = b.state()["surveyed_ms"]
    b.site.sql("KILL %s" % mine)
    b.set_load(STORM)
    b.wait(lambda s: s["surveyed_ms"] > before and s["moved"] == 12 and not s["error"], "it is in again")
    b.site.sql("SET GLOBAL max_connections = %d" % limit)
    for shop in shops:
        shop.close()
    b.server.stop()


def race(folder, per_hook, turns, killed_at, runner_killed_at=None):
    """killed_at, runner_killed_at: the turns after which weir and a runner are killed."""
    b = Bed(folder, throttle='level "critical" { delays = {"0s", "2s", "2s", "2s"} }',
            repair_lost='"enforce"', repair_claims='"enforce"', claim_timeout='"3s"')
    now = int(time.time())
    for hook in (PAYMENT, RENEWAL, NORMAL, SYNC):
        b.site.add_many(per_hook, [hook], now - 60, 60)
    b.set_load(STORM)
    b.start()
    b.wait(lambda s: s["total_moved"] > 0, "something is moved")
    seen = len(maria().log())
    # What a killed runner had in progress is failed by the cleaner after ten times this limit.
    runner = functools.partial(bed.Runner, b.site, concurrent=4, time_limit=2)
    runners = [runner() for _ in range(3)]
    for i in range(turns):
        b.set_load(STORM if i % 2 == 0 else CALM)
        turn = b.state()["surveyed_ms"]
        b.wait(lambda s: s["surveyed_ms"] > turn + 600, "some cycles")
        if i == killed_at:
            b.server.kill()
            b.start()
        if i == runner_killed_at:
            runners.pop().kill()
            runners.append(runner())
    b.set_load(CALM)

    def is_over():
        return not b.site.sql("SELECT 1 FROM %s WHERE status IN ('pending', 'in-progress') LIMIT 1"
                              % b.site.table("actions"))
    until(is_over, what="all have run")
    for one in runners:
        one.stop()
    b.wait(lambda s: s["moved"] == 0, "the ledger is empty")
    b.server.stop()
    equal(b.site.run_twice(), [], "actions that ran twice")
    left = [row for row in b.site.never_run() if row[1] != "failed"]
    equal(left, [], "actions that never ran and did not fail")
    found = bed.deadlocks(maria().log()[seen:])
    expect(not any("weir" in users for users in found), found)


@test("runners, storms and a kill together: every action runs once, and the guard is in no deadlock")
def races(folder):
    race(folder, 100, 4, 1)


@test("the same with two thousand actions, ten storms and calms, and a runner that is killed", outer=True)
def long_races(folder):
    race(folder, 500, 10, 4, 6)


if __name__ == "__main__":
    main()
