#!/usr/bin/python3
# weir-test: timeout=120
"""Actions of the critical tier go in front of all others on a real MariaDB: weir sets their priority,
or their date before Action Scheduler 3.6, and gives the priorities back."""
import os
import sys
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import lib_actionscheduler as bed  # noqa: E402
from lib_guard import (  # noqa: E402
    CALM, NORMAL, PAYMENT, RENEWAL, STORM, SYNC, Bed, maria)
from lib_databases import PASSWORD  # noqa: E402
from harness import equal, expect, main, test, until  # noqa: E402

HOUR = 3600


def column(site, name, which="1"):
    """{action: value}"""
    return {int(a): value for a, value in site.sql(
        "SELECT action_id, `%s` FROM %s WHERE %s" % (name, site.table("actions"), which))}


def priorities(site):
    return {a: int(p) for a, p in column(site, "priority").items()}


def wait_priorities(b, wanted, what):
    until(lambda: {a: p for a, p in priorities(b.site).items() if a in wanted} == wanted,
          what=lambda: "%s: wanted %s, found %s" % (what, wanted, priorities(b.site)))


def set_tier(b, hook, tier):
    with b.server.web() as w:
        w.good("POST", "/v1/registry/" + hook, {"tier": tier})


def rest_of(site):
    """Everything but the priorities."""
    names = [row[0] for row in site.sql("SHOW COLUMNS FROM " + site.table("actions")) if row[0] != "priority"]
    return site.sql("SELECT %s FROM %s ORDER BY action_id" % (
        ", ".join("HEX(`%s`)" % n for n in names), site.table("actions")))


def shop(folder, **options):
    """A site with a payment of each kind; (Bed, {payment: its own priority}, [other actions])"""
    b = Bed(folder, **options)
    now, site = int(time.time()), b.site
    own = {site.add_async(PAYMENT): 10,
           site.add_simple(PAYMENT, now - 5, priority=3): 3,
           site.add_simple(PAYMENT, now + 30, priority=20): 20,
           site.add_interval(PAYMENT, now - 5, HOUR, args=["daily"], priority=7): 7,
           site.add_cron(PAYMENT, now - now % 300, "*/5 * * * *", args=["cron"]): 10}
    others = [site.add_simple(hook, now - 100) for hook in (RENEWAL, NORMAL, SYNC) for _ in range(5)]
    others.append(site.add_simple(PAYMENT, now + 2 * HOUR))
    others.append(site.add_simple(PAYMENT, now - 5, claim_id=77))
    others.append(site.add_simple(PAYMENT, now - 5, status="complete"))
    return b, own, others


@test("payments get priority 0 at every level, and their own again when their hook leaves the tier")
def there_and_back(folder):
    b, own, others = shop(folder)
    before, kept = rest_of(b.site), priorities(b.site)
    b.start()
    wait_priorities(b, dict.fromkeys(own, 0), "in front")
    equal({a: p for a, p in priorities(b.site).items() if a in others},
          {a: p for a, p in kept.items() if a in others}, "priorities of the others")
    equal(rest_of(b.site), before, "everything else, at level normal")
    set_tier(b, PAYMENT, "high")
    wait_priorities(b, own, "given back")
    set_tier(b, PAYMENT, "critical")
    b.set_load(STORM)
    wait_priorities(b, dict.fromkeys(own, 0), "in front in the storm")
    b.server.stop()


@test("the next action of a series inherits the 0, and gets the priority of the series")
def series(folder):
    b, own, _ = shop(folder)
    site, now = b.site, int(time.time())
    b.start()
    wait_priorities(b, dict.fromkeys(own, 0), "in front")
    ran = [a for a, p in own.items() if p == 7][0]
    site.sql("UPDATE %s SET status = 'complete' WHERE action_id = %d" % (site.table("actions"), ran))
    foreign = site.add_interval(PAYMENT, now + HOUR, HOUR, args=["of its plugin"], priority=0)
    following = site.add_interval(PAYMENT, now + HOUR, HOUR, args=["daily"], priority=0)
    set_tier(b, PAYMENT, "high")
    own.pop(ran)
    wait_priorities(b, own, "given back")
    wait_priorities(b, {following: 7, foreign: 0}, "the next of the series, and one that had 0")
    b.server.stop()


@test("what is claimed meanwhile gets its priority back when it is released")
def claimed(folder):
    b, own, _ = shop(folder)
    site = b.site
    b.start()
    wait_priorities(b, dict.fromkeys(own, 0), "in front")
    one, two = list(own)[:2]
    site.sql("UPDATE %s SET claim_id = 78 WHERE action_id = %d" % (site.table("actions"), one))
    site.sql("UPDATE %s SET claim_id = 78, status = 'in-progress' WHERE action_id = %d" % (
        site.table("actions"), two))
    set_tier(b, PAYMENT, "high")
    rest = {a: p for a, p in own.items() if a not in (one, two)}
    wait_priorities(b, rest, "the others")
    equal([priorities(site)[a] for a in (one, two)], [0, 0], "claimed ones")
    site.sql("UPDATE %s SET claim_id = 0, status = 'pending' WHERE claim_id = 78" % site.table("actions"))
    wait_priorities(b, own, "all")
    b.server.stop()


@test("after kill -9 and with the mode off the priorities still come back")
def killed_and_switched_off(folder):
    b, own, _ = shop(folder)
    b.start()
    wait_priorities(b, dict.fromkeys(own, 0), "in front")
    b.server.kill()
    b.mode = "off"
    b.start()
    wait_priorities(b, own, "given back")
    b.wait(lambda s: s["mode"] == "off", "the mode")
    b.server.stop()


@test("front = false and the modes that observe change no priority")
def not_wanted(folder):
    for options in ({"front": "false"}, {"mode": "observe"}):
        b, own, _ = shop(os.path.join(folder, next(iter(options))), **options)
        before = priorities(b.site)
        b.start()
        b.wait(lambda s: s["surveyed_ms"], "a survey")
        seen = b.state()["surveyed_ms"]
        b.wait(lambda s: s["surveyed_ms"] > seen + 1500, "the work of some seconds")
        equal(priorities(b.site), before, "priorities with %s" % options)
        b.server.stop()


@test("between two surveys, an interval apart, payments go in front each second")
def between_surveys(folder):
    b, own, _ = shop(folder)
    b.interval = "1h"
    b.start()
    b.wait(lambda s: s["surveyed_ms"] and s["level"] == "normal", "the level, which leads to a survey")
    wait_priorities(b, dict.fromkeys(own, 0), "in front")
    for _ in range(2):
        surveyed = b.state()["surveyed_ms"]
        for _ in range(2):
            wait_priorities(b, {b.site.add_async(PAYMENT): 0}, "a new one in front")
        if b.state()["surveyed_ms"] == surveyed:
            break
    equal(b.state()["surveyed_ms"], surveyed, "time of the survey, seconds later")
    b.server.stop()


@test("a runner that puts them first by itself keeps weir from writing")
def ordered(folder):
    b, own, _ = shop(folder)
    before = priorities(b.site)
    b.throttle = 'registry = {"%s=high"}' % PAYMENT
    b.start()
    with b.server.web() as w:
        w.good("GET", "/v1/sites/shop/first?ordered=true")
        set_tier(b, PAYMENT, "critical")
        b.wait(lambda s: s["surveyed_ms"], "a survey")
        seen = b.state()["surveyed_ms"]
        b.wait(lambda s: s["surveyed_ms"] > seen + 1500, "the work of some seconds")
        equal(w.good("GET", "/v1/sites/shop/first")["hooks"], [PAYMENT], "the hooks")
    equal(priorities(b.site), before, "priorities")
    b.server.stop()


@test("a runner takes a payment before older work, and what it did not take keeps its order")
def claims(folder):
    b = Bed(folder)
    now, site = int(time.time()), b.site
    for i in range(60):
        site.add_simple(NORMAL, now - 1000 + i)
    b.start()
    b.wait(lambda s: s["surveyed_ms"], "a survey")
    pays = [site.add_simple(PAYMENT, now) for _ in range(3)]
    wait_priorities(b, dict.fromkeys(pays, 0), "in front")
    runner = bed.Runner(site, until="empty", concurrent=100)
    runner.wait()
    order = [action for action, _, _, _ in site.runs()]
    equal(order[:3], pays, "what ran first")
    equal(len(order), 63, "what ran")
    equal(site.run_twice(), [], "run twice")
    b.server.stop()


@test("batches that were begun end while payments wait, and what was left in them comes back")
def cut_batches(folder):
    b = Bed(folder)
    now, site = int(time.time()), b.site
    date = {}

    def claim(number, hook, statuses):
        new = [site.add_simple(hook, now - 100 + i, claim_id=number, status=status)
               for i, status in enumerate(statuses)]
        date.update((a, bed.utc(now - 100 + i)) for i, a in enumerate(new))
        return [a for a, status in zip(new, statuses) if status == "pending"]

    def dates(ids):
        return [column(site, "scheduled_date_gmt")[a] for a in ids]

    left = claim(81, SYNC, ["complete", "in-progress", "pending", "pending", "pending"])
    others = claim(82, SYNC, ["pending"] * 3) + claim(83, PAYMENT, ["in-progress", "pending"])
    before = rest_of(site)
    b.set_load(STORM)
    b.start()
    b.wait(lambda s: s["level"] == "critical" and s["surveyed_ms"], "the storm")
    seen = b.state()["surveyed_ms"]
    b.wait(lambda s: s["surveyed_ms"] > seen + 1500, "the work of some seconds")
    equal(rest_of(site), before, "everything, while no payment waits")
    site.add_simple(PAYMENT, now - 5)
    b.wait(lambda s: s["moved"] == 3, "the move")
    expect(all(d > bed.utc(now + 30) for d in dates(left)), dates(left))
    equal(dates(others), [date[a] for a in others], "not begun, and important")
    equal([int(column(site, "claim_id")[a]) for a in left], [81] * 3, "claims")
    site.sql("UPDATE %s SET claim_id = 0 WHERE action_id = %d" % (site.table("actions"), left[0]))
    b.set_load(CALM)
    b.wait(lambda s: s["moved"] == 0, "the way back")
    equal(dates(left), [date[a] for a in left], "dates, released and still claimed")
    equal([int(column(site, "claim_id")[a]) for a in left], [0, 81, 81], "claims")
    b.server.stop()


@test("a user that may not change priorities is told the GRANT, and the rest goes on")
def no_privilege(folder):
    b, own, _ = shop(folder)
    before = priorities(b.site)
    maria().ask("CREATE OR REPLACE USER poor@localhost IDENTIFIED BY '%s'" % PASSWORD)
    for name, rights in (("actions", "SELECT, UPDATE (scheduled_date_gmt, scheduled_date_local, claim_id, status)"),
                         ("claims", "SELECT"), ("groups", "SELECT"), ("logs", "SELECT, INSERT")):
        maria().ask("GRANT %s ON %s.%s TO poor@localhost" % (rights, b.site.database, b.site.table(name)))
    maria().ask("GRANT SELECT ON %s.%soptions TO poor@localhost" % (b.site.database, b.site.prefix))
    b.user = "poor"
    b.set_load(STORM)
    b.start()
    state = b.wait(lambda s: s["moved"] == 15 and any("priority" in line for line in s["advice"]),
                   "moves and the advice")
    expect("run: GRANT UPDATE (priority) ON" in state["advice"][0], state["advice"])
    equal(state["error"], "", "error")
    equal(priorities(b.site), before, "priorities")
    maria().ask("GRANT UPDATE (priority) ON %s.%s TO poor@localhost" % (b.site.database, b.site.table("actions")))
    wait_priorities(b, dict.fromkeys(own, 0), "in front once it is granted")
    b.wait(lambda s: not any("priority" in line for line in s["advice"]), "the advice goes")
    b.server.stop()


@test("before 3.6 what is due goes before the oldest of the others, when a batch stands before it")
def by_date(folder):
    for n in (30, 20):
        b = Bed(os.path.join(folder, str(n)), site=bed.Site(maria(), version="3.5 altered", database="old%d" % n))
        now, site = int(time.time()), b.site
        others = [site.add_simple(NORMAL, now - 500 + i) for i in range(n)]
        due = [site.add_simple(PAYMENT, now - 10), site.add_interval(PAYMENT, now - 10, HOUR)]
        later = site.add_interval(PAYMENT, now + 30, HOUR, args=["not due"])
        before = column(site, "scheduled_date_gmt")
        b.start()
        b.wait(lambda s: s["surveyed_ms"], "a survey")
        if n > 25:
            first = bed.utc(now - 501)
            until(lambda: [column(site, "scheduled_date_gmt")[a] for a in due] == [first, first], what="in front")
        else:
            seen = b.state()["surveyed_ms"]
            b.wait(lambda s: s["surveyed_ms"] > seen + 1500, "the work of some seconds")
        after = column(site, "scheduled_date_gmt")
        unmoved = others + [later] + ([] if n > 25 else due)
        equal([after[a] for a in unmoved], [before[a] for a in unmoved], "dates of the others")
        b.server.stop()


if __name__ == "__main__":
    main()
