#!/usr/bin/python3
# weir-test: timeout=300 outer=part
"""The repairs, the lists and the locks of a WordPress site (guard/), on a real MariaDB.

guard_store.c calls the functions; the tables are those of lib_actionscheduler.py.  Each repair is
tried in observe, where a checksum of all tables must stay the same, and in enforce, next to
everything that looks like the fault and must not be touched."""
import hashlib
import json
import os
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "fault"))

from harness import HANG_S, Watch, equal, expect, main, test, until  # noqa: E402
from lib_actionscheduler import (Runner, Site, counted, guard_program, quote,  # noqa: E402
                                 user_counters, utc)
from lib_databases import Maria  # noqa: E402

REPAIRS = ("lost", "claims", "claim_rows", "retention", "retries", "restored", "past_due", "duplicates")
TURNS = 5           # cycles until each of the dearer looks had its turn
DAY = 86400
TIMEOUT = 300       # of a claim
KEPT = 31 * DAY
SHARED = {}
LOST = "action failed via WP Cron: Unable to update the status of action %d to in-progress."
# A second deadlock: it could not be set to failed, either.
FATAL = ("unexpected shutdown: PHP Fatal error Uncaught InvalidArgumentException: Unidentified action %d: we were"
         " unable to mark this action as having failed. It may may have been deleted by another process. in"
         " /var/www/html/wp-content/plugins/woocommerce/packages/action-scheduler/classes/data-stores/"
         "ActionScheduler_DBStore.php:1091")


def maria():
    """One server for all tests; each test has a database of its own."""
    if "maria" not in SHARED:
        SHARED["maria"] = Maria("guard", "--userstat=1", "--innodb-buffer-pool-size=256M",
                                "--innodb-log-file-size=64M", "--max-connections=100")
        SHARED["maria"].ask("CREATE USER weir@'127.0.0.1'", "GRANT ALL ON *.* TO weir@'127.0.0.1'")
    return SHARED["maria"]


def site(**more):
    SHARED["n"] = SHARED.get("n", 0) + 1
    return Site(maria(), database="shop%d" % SHARED["n"], **more)


class Guard:
    """The program on a site; one line in flight at most."""

    def __init__(self, shop, retention=KEPT, retention_failed=0, retries=()):
        self.process = subprocess.Popen(
            [guard_program(), str(shop.maria.port), "weir", "", shop.database, shop.prefix, str(TIMEOUT),
             str(retention), str(retention_failed), *(str(word) for rule in retries for word in rule)],
            text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def __call__(self, *words):
        self.process.stdin.write(" ".join(map(str, words)) + "\n")
        self.process.stdin.flush()
        answer, end = self.process.stdout.readline(), self.process.stdout.readline()
        equal(end, "= OK\n", "the end of the answer to %s" % " ".join(map(str, words)))
        return json.loads(answer)

    def cycle(self, mode="enforce", is_calm=True, critical=(), **repairs):
        return self("repair", mode, int(is_calm), *(repairs.get(r, mode) for r in REPAIRS), *critical)

    def cycles(self, n=TURNS, **more):
        """Several; found as of the last, mended of all."""
        total = {}
        for _ in range(n):
            said = self.cycle(**more)
            for name in REPAIRS:
                said[name][1] += total.get(name, [0, 0])[1]
            total = said
        return total

    def purge(self, mode="enforce", is_calm=True, retention="enforce"):
        """A slice of retention: what was deleted since the start."""
        return self("purge", mode, int(is_calm), retention)

    def purge_pass(self):
        """Slices until a pass has ended; the last answer."""
        for _ in range(1000):
            said = self.purge()
            if said["is_over"] and said["rest_ms"] > 1000:
                return said
        raise AssertionError("the pass did not end: %s" % said)

    def lock(self, key, token, ttl=60):
        return self("lock", key.encode().hex() or "-", token, ttl)

    def unlock(self, key, token="force"):
        return self("unlock", key.encode().hex(), token)

    def actions(self, status="-", hook="-", below=0, limit=10, ids=()):
        return self("actions", status, hook, below, limit, *ids)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        equal(self.process.wait(HANG_S), 0, "exit code")


def unchanged(shop, action, before):
    equal(shop.action(action), before, "action %d" % action)


def watch(shop, actions):
    return {a: shop.action(a) for a in actions}


# ---------------------------------------------------------------- lost actions


def add_failed(shop, add, *words, line=LOST, **columns):
    now = int(time.time())
    columns = dict({"status": "failed", "last_attempt_gmt": utc(now - 60),
                    "last_attempt_local": utc(now - 60)}, **columns)
    action = add(*words, **columns)
    shop.log(action, line % action if "%d" in line else line)
    return action


@test("a lost action is found in observe and set pending in enforce, with a line in its log")
def lost(_):
    shop, now = site(), int(time.time())
    once = [add_failed(shop, shop.add_simple, "pay", now - 90),
            add_failed(shop, shop.add_async, "mail"),
            add_failed(shop, shop.add_simple, "long", now - 90, args=["x" * 300]),
            add_failed(shop, shop.add_simple, "keyed", now - 90, args={"a": 1}),
            add_failed(shop, shop.add_simple, "fatal", now - 90, line=FATAL)]
    with Guard(shop) as guard:
        before = shop.checksum()
        equal(guard.cycles(mode="observe")["lost"], [5, 0], "in observe")
        equal(guard.cycles(mode="test_observe")["lost"], [5, 0], "in test_observe")
        equal(guard.cycles(mode="enforce", lost="observe")["lost"], [5, 0], "this repair in observe")
        equal(guard.cycles(mode="observe", lost="enforce")["lost"], [5, 0], "the site in observe")
        equal(guard.cycle(mode="enforce", lost="off")["lost"], [0, 0], "off")
        equal(shop.checksum(), before, "tables")
        equal(guard.cycle()["lost"], [5, 5], "in enforce")
        for action in once:
            row = shop.action(action)
            equal((row["status"], row["attempts"], row["claim_id"]), ("pending", "0", "0"), "action")
            lines = shop.logs(action)
            expect(lines[-1].startswith("weir: set to pending again"), lines)
            equal(len(lines), 3, "lines")
        equal(guard.cycle()["lost"], [0, 0], "afterwards")


@test("a payment that a deadlock ended lately runs again although the others are only counted")
def lost_payments(_):
    shop, now = site(), int(time.time())
    fresh = add_failed(shop, shop.add_simple, "pay", now - 90)
    rest = [add_failed(shop, shop.add_simple, "pay", now - 90, last_attempt_gmt=utc(now - 2 * 86400)),
            add_failed(shop, shop.add_simple, "PAY", now - 90), add_failed(shop, shop.add_simple, "mail", now - 90),
            add_failed(shop, shop.add_simple, "pay", now - 90, attempts=1)]
    with Guard(shop) as guard:
        before = watch(shop, rest)
        equal(guard.cycle(mode="observe", critical=["pay"])["lost"], [4, 0], "the site in observe")
        equal(guard.cycle(lost="observe", critical=["other"])["lost"], [4, 0], "another hook")
        equal(guard.cycle(lost="observe", critical=["pay", "other"])["lost"], [4, 1], "in enforce")
        equal(shop.action(fresh)["status"], "pending", "the payment")
        for action in rest:
            unchanged(shop, action, before[action])


@test("what only looks like a lost action stays failed")
def not_lost(_):
    shop, now = site(), int(time.time())
    at = now - 90
    kept = [
        add_failed(shop, shop.add_interval, "daily", at, 3600),
        add_failed(shop, shop.add_cron, "nightly", at, "0 3 * * *"),
        add_failed(shop, shop.add_simple, "ran", at, attempts=1),
        add_failed(shop, shop.add_simple, "claimed", at, claim_id=7),
        add_failed(shop, shop.add_simple, "threw", at, line="action failed via WP Cron: no"),
        # Invalid actions fail each time; a message may quote anything.
        add_failed(shop, shop.add_simple, "args", at, args="in-progress",
                   line="Action [1] has invalid arguments: in-progress"),
        add_failed(shop, shop._add, "schedule", at, at, "O:8:\"stdClass\":0:{}",
                   line="Action [1] has an invalid schedule: in-progress"),
        add_failed(shop, shop._add, "text", at, at, "none", line="invalid: in-progress"),
        shop.add_simple("running", at, status="in-progress", attempts=1),
        shop.add_simple("done", at, status="complete", attempts=1),
    ]
    before = watch(shop, kept)
    with Guard(shop) as guard:
        equal(guard.cycles()["lost"], [0, 0], "lost")
    for action in kept:
        unchanged(shop, action, before[action])


@test("an action that was set pending three times is left alone and reported")
def given_up(_):
    shop, now = site(), int(time.time())
    action = add_failed(shop, shop.add_simple, "pay", now - 90)
    with Guard(shop) as guard:
        for _ in range(3):
            equal(guard.cycle()["lost"], [1, 1], "lost")
            shop.sql("UPDATE %s SET status='failed' WHERE action_id=%d" % (shop.table("actions"), action))
            # Failed again, and not by a deadlock: there is no new line about the status.
            equal(guard.cycle()["lost"], [0, 0], "failed by something else")
            shop.log(action, LOST % action)
        said = guard.cycle()
        equal(said["lost"], [0, 0], "after three times")
        expect("action %d" % action in said["advice"], said["advice"])
        equal(shop.action(action)["status"], "failed", "status")


@test("a repair never waits for a row lock, mends what is free and the rest in the next cycle")
def locked(_):
    shop, now = site(), int(time.time())
    held = add_failed(shop, shop.add_simple, "pay", now - 60)
    free = add_failed(shop, shop.add_simple, "pay", now - 90)
    claimed = add_claim(shop, 3, 1000)
    with Guard(shop) as guard, shop.maria.connect(database=shop.database) as other:
        other("BEGIN")
        for action in (held, claimed[1]):
            other("SELECT 1 FROM %s WHERE action_id = %d FOR UPDATE" % (shop.table("actions"), action))
        clock = Watch()
        said = guard.cycle()
        clock.within(5, "a cycle beside row locks")
        equal((said["lost"], said["claims"]), ([2, 1], [3, 0]), "beside the locks")
        equal(shop.action(free)["status"], "pending", "the free one")
        other("ROLLBACK")
        said = guard.cycle()
        equal((said["lost"], said["claims"]), ([1, 1], [3, 3]), "after the locks")


def find_lost(n_failed):
    shop, now = site(), int(time.time())
    shop.add_many(n_failed, ["a", "b"], now - 90 * DAY, 80 * DAY, status="failed")
    old = add_failed(shop, shop.add_simple, "pay", now - 70 * DAY)
    new = add_failed(shop, shop.add_simple, "pay", now - 60)
    with Guard(shop) as guard:
        guard.cycle(mode="observe")
        equal(guard.cycle()["lost"][1], 1, "the newest is found at once")
        equal(shop.action(new)["status"], "pending", "status")
        with counted(user_counters, maria(), "weir") as used:
            for _ in range(TURNS):
                guard.cycle(mode="observe")
        # Pages of 200 and 500 failed ones a cycle, by index and by key; once 500 of each status.
        expect(used["ROWS_READ"] < TURNS * 4000, "%d rows read" % used["ROWS_READ"])
        n = 0
        while shop.action(old)["status"] == "failed":
            guard.cycle()
            n += 1
            expect(n < n_failed // 400, "the walk did not come by")


@test("lost actions are found among 20,000 failed ones, and a cycle reads few rows")
def lost_among_many(_):
    find_lost(20000)


@test("lost actions are found among 100,000 failed ones, and a cycle reads few rows", outer=True)
def lost_among_more(_):
    find_lost(100000)


# ---------------------------------------------------------------- claims


def add_claim(shop, n, age, status="pending", attempt_age=None):
    """A claim with n actions; returns (claim, first action...)."""
    now = int(time.time())
    shop.sql("INSERT INTO %s (date_created_gmt) VALUES (%s)" % (
        shop.table("claims"), quote(utc(now - age))))
    claim = int(shop.sql("SELECT LAST_INSERT_ID()")[0][0])
    return [claim] + [add_claimed(shop, claim, status, attempt_age or age) for _ in range(n)]


def add_claimed(shop, claim, status, age):
    at = int(time.time()) - age
    return shop.add_simple("pay", at - 5, status=status, claim_id=claim, last_attempt_gmt=utc(at),
                           last_attempt_local=utc(at), attempts=0 if status == "pending" else 1)


@test("claims of dead runners are released as a whole; live ones and other states are not touched")
def claims(_):
    shop = site()
    dead = add_claim(shop, 120, TIMEOUT + 60)
    mixed = add_claim(shop, 3, TIMEOUT + 60)
    kept = [add_claimed(shop, mixed[0], "complete", TIMEOUT + 90),
            add_claimed(shop, mixed[0], "in-progress", TIMEOUT + 80)]
    kept += add_claim(shop, 5, TIMEOUT - 60)[1:]
    slow = add_claim(shop, 5, TIMEOUT + 600)    # its runner began another action just now
    kept += slow[1:] + [add_claimed(shop, slow[0], "in-progress", 20)]
    worked = add_claim(shop, 5, TIMEOUT + 600)
    kept += worked[1:] + [add_claimed(shop, worked[0], "complete", 20)]
    kept += add_claim(shop, 2, TIMEOUT + 60, "in-progress")[1:]
    kept += add_claim(shop, 2, TIMEOUT + 60, "complete")[1:]
    kept += add_claim(shop, 2, TIMEOUT + 60, "failed")[1:]
    before = watch(shop, kept)
    with Guard(shop) as guard:
        sums = shop.checksum()
        equal(guard.cycle(mode="observe")["claims"], [123, 0], "in observe")
        equal(shop.checksum(), sums, "tables")
        equal(guard.cycle()["claims"], [123, 123], "in enforce")
        equal(guard.cycle()["claims"], [0, 0], "afterwards")
    for action in dead[1:] + mixed[1:]:
        row = shop.action(action)
        equal((row["claim_id"], row["status"]), ("0", "pending"), "action %d" % action)
        equal(shop.logs(action)[1:], ["weir: released from claim %s, whose runner is gone" % (
            dead[0] if action in dead else mixed[0])], "log")
    for action in kept:
        unchanged(shop, action, before[action])


@test("more claimed actions than one page are looked at and released over several cycles")
def many_claims(_):
    shop = site()
    at = int(time.time()) - 1000
    shop.add_many(4500, ["pay"], at, 10)
    shop.sql("UPDATE %s SET claim_id = 1 + action_id DIV 50, last_attempt_gmt = %s" % (
        shop.table("actions"), quote(utc(at))))
    with Guard(shop) as guard:
        for _ in range(4):
            said = guard.cycle(mode="observe")
        equal(said["claims"], [4500, 0], "over all pages")
        mended = n = 0
        while mended < 4500:
            did = guard.cycle()["claims"][1]
            expect(did <= 1500, "%d at once" % did)
            mended += did
            n += 1
            expect(n < 20, "%d released" % mended)
        equal(shop.claimed(), 0, "claimed")


@test("old rows of the claims table without actions are deleted; the others stay")
def claim_rows(_):
    shop = site()
    for _ in range(230):
        add_claim(shop, 0, TIMEOUT + 60)
    young = [add_claim(shop, 0, TIMEOUT - 60)[0] for _ in range(3)]
    used = [add_claim(shop, 1, TIMEOUT + 60, s)[0] for s in ("in-progress", "complete", "failed")]
    with Guard(shop) as guard:
        sums = shop.checksum()
        equal(guard.cycles(mode="observe")["claim_rows"], [230, 0], "in observe")
        equal(shop.checksum(), sums, "tables")
        equal(guard.cycles()["claim_rows"], [230, 230], "in enforce")
        equal(guard.cycles()["claim_rows"], [0, 0], "afterwards")
    rows = [int(r[0]) for r in shop.sql("SELECT claim_id FROM %s ORDER BY 1" % shop.table("claims"))]
    equal(rows, sorted(young + used), "claims left")


# ---------------------------------------------------------------- retention


def add_ended(shop, status, age, scheduled_age=None, is_attempted=True):
    now = int(time.time())
    more = {"last_attempt_gmt": utc(now - age), "last_attempt_local": utc(now - age)}
    return shop.add_simple("old", now - (scheduled_age or age), status=status,
                           **(more if is_attempted else {}))


@test("finished actions past their time are deleted with their log, only at level normal")
def retention(_):
    shop = site()
    old, young = KEPT + DAY, KEPT - DAY
    gone = [add_ended(shop, "complete", old), add_ended(shop, "canceled", old),
            add_ended(shop, "canceled", old, is_attempted=False)]
    kept = [add_ended(shop, "complete", young), add_ended(shop, "canceled", young),
            add_ended(shop, "canceled", young, is_attempted=False),
            add_ended(shop, "complete", young, scheduled_age=old),
            add_ended(shop, "canceled", -DAY, is_attempted=False),
            add_ended(shop, "failed", old), add_ended(shop, "pending", old),
            add_ended(shop, "in-progress", old),
            shop.add_simple("none", 0, status="canceled", scheduled_date_gmt="0000-00-00 00:00:00")]
    before = watch(shop, kept)
    with Guard(shop) as guard:
        sums = shop.checksum()
        equal(guard.cycles(mode="observe")["retention"], [3, 0], "in observe")
        for wrong in ({"is_calm": False}, {"mode": "observe"}, {"retention": "observe"}, {"retention": "off"}):
            said = guard.purge(**wrong)
            equal((said["actions"], said["rest_ms"], said["statements"]), (0, -1, 0), wrong)
        equal(shop.checksum(), sums, "tables")
        equal(guard.purge_pass()["actions"], 3, "in enforce")
        equal(guard.cycles()["retention"], [0, 3], "told by the next cycle")
        equal(guard.cycles()["retention"], [0, 0], "told once")
    for action in kept:
        unchanged(shop, action, before[action])
        equal(len(shop.logs(action)), 1, "log lines")
    for action in gone:
        equal(shop.logs(action), [], "log lines of a deleted action")
    equal(sum(shop.counts().values()), len(kept), "actions left")


@test("failed actions are deleted when their retention is set, in slices behind those that stay")
def retention_failed(_):
    shop = site()
    now = int(time.time())
    shop.add_many(1450, ["a"], now - KEPT - 2 * DAY, DAY, status="failed", is_logged=True)
    # Of the oldest dates, and ended lately: more of them than a slice has rows.
    shop.sql("UPDATE %s SET last_attempt_gmt = IF(action_id MOD 2, scheduled_date_gmt, %s)" % (
        shop.table("actions"), quote(utc(now - DAY))))
    with Guard(shop, retention=0, retention_failed=KEPT) as guard:
        equal(guard.purge()["rows"] > 0, True, "rows of the next slice")
        expect(guard.purge()["actions"] < 725, "it is not all done at once")
        equal(guard.purge_pass()["actions"], 725, "deleted")
        equal(shop.counts()["failed"], 725, "failed")
        equal(shop.sql("SELECT COUNT(*) FROM %s l LEFT JOIN %s a ON a.action_id = l.action_id WHERE "
                       "a.action_id IS NULL" % (shop.table("logs"), shop.table("actions"))), [["0"]],
              "lines without an action")
        equal(shop.sql("SELECT COUNT(*) FROM %s" % shop.table("logs")), [["725"]], "log lines in all")
    with Guard(shop, retention=0, retention_failed=0) as guard:
        equal(guard.cycles()["retention"], [0, 0], "for ever")
        equal(guard.purge()["rest_ms"], -1, "for ever")


def old_finished(n, lines=1):
    shop, now = site(), int(time.time())
    shop.add_many(n, ["a", "b"], now - KEPT - 20 * DAY, 10 * DAY, status="complete")
    shop.sql("UPDATE %s SET last_attempt_gmt = scheduled_date_gmt" % shop.table("actions"))
    shop.sql("INSERT INTO %s (action_id, message, log_date_gmt, log_date_local) SELECT action_id, 'l', "
             "scheduled_date_gmt, scheduled_date_gmt FROM %s, seq_1_to_%d" % (
                 shop.table("logs"), shop.table("actions"), lines))
    return shop


def purge_many(n):
    """Reads a few rows for each that it deletes, however many were deleted before."""
    shop = old_finished(n, 3)
    with Guard(shop) as guard:
        with counted(user_counters, maria(), "weir") as used:
            equal(guard.purge_pass()["actions"], n, "actions")
        # The page, the row, and each line twice: once for its id; and once each for the last page.
        expect(used["ROWS_READ"] < n * 16, "%d rows read for %d actions" % (used["ROWS_READ"], n))
        expect(used["ROWS_DELETED"] >= n * 4, "%d rows deleted" % used["ROWS_DELETED"])
        said = guard.purge()
        equal((said["actions"], said["lines"]), (n, 3 * n), "in all")
    equal([shop.sql("SELECT COUNT(*) FROM %s" % shop.table(t)) for t in ("actions", "logs")],
          [[["0"]], [["0"]]], "rows left")


@test("4,000 finished actions go with their log lines, and few rows are read for each")
def purge_some(_):
    purge_many(4000)


@test("100,000 finished actions go with their log lines, and few rows are read for each", outer=True)
def purge_more(_):
    purge_many(100000)


@test("an action with more log lines than a slice reads goes with all of them")
def purge_long_log(_):
    shop = old_finished(2, 4500)
    with Guard(shop) as guard:
        said = guard.purge_pass()
        equal((said["actions"], said["lines"]), (2, 9000), "deleted")


@test("a finished action that another session holds is left for a later pass; all others go")
def purge_locked(_):
    shop = old_finished(60)
    with Guard(shop) as guard, shop.maria.connect(database=shop.database) as other:
        other("BEGIN")
        other("SELECT 1 FROM %s WHERE action_id = 30 FOR UPDATE" % shop.table("actions"))
        clock = Watch()
        equal(guard.purge_pass()["actions"], 59, "beside the lock")
        clock.within(20, "a pass beside a row lock")
        other("ROLLBACK")
        equal(guard.purge_pass()["actions"], 60, "afterwards")


@test("old log lines without an action are deleted once the actions are, and lines of today stay")
def purge_orphans(_):
    shop, now = site(), int(time.time())
    kept = shop.add_simple("mine", now)
    for at in (now - 2 * DAY, now - 3600):
        shop.sql("INSERT INTO %s (action_id, message, log_date_gmt, log_date_local) SELECT 900000 + seq, "
                 "'orphan', %s, %s FROM seq_1_to_300" % (shop.table("logs"), quote(utc(at)), quote(utc(at))))
    with Guard(shop) as guard:
        sums = shop.checksum()
        guard.purge(retention="observe")
        equal(shop.checksum(), sums, "in observe")
        equal(guard.purge_pass()["lines"], 300, "orphans")
        left = shop.sql("SELECT COUNT(*) FROM %s" % shop.table("logs"))
        equal(left, [["301"]], "lines of an action, and lines of today")
        equal(len(shop.logs(kept)), 1, "lines of an action")
    shop = site(is_migrated=False)
    shop.sql("INSERT INTO %s (action_id, message, log_date_gmt, log_date_local) VALUES (7, 'of a post', "
             "'2020-01-01', '2020-01-01')" % shop.table("logs"))
    with Guard(shop) as guard:
        equal(guard.purge_pass()["lines"], 0, "actions may still be posts")


@test("observe tells how much there is to delete, how long that takes and what finishes each day")
def forecast(_):
    shop, now = old_finished(12000, 3), int(time.time())
    shop.sql("ANALYZE TABLE %s, %s" % (shop.table("actions"), shop.table("logs")))
    for _ in range(7):
        add_ended(shop, "complete", 3600)
    with Guard(shop) as guard:
        sums = shop.checksum()
        said = guard.cycles(mode="observe")
        equal(shop.checksum(), sums, "tables")
        equal(said["retention"], [1001, 0], "found, capped")
        line = next(x for x in said["advice"].splitlines() if "past their time" in x)
        expect(line.startswith("About 1"), line)        # of an index: an estimate
        n, lines = [int(w) for w in line.replace(",", "").split() if w.isdigit()][:2]
        expect(6000 <= n <= 24000 and lines == 3 * n, line)
        for words in (" MB in all (estimates)", "repair_retention = \"enforce\" deletes them: less than a minute "
                      "at 1000 a second; its pace here is not known yet", " 7 finished in the last day."):
            expect(words in line, "%s is not in: %s" % (words, line))
        with counted(user_counters, maria(), "weir") as used:
            guard.cycles(mode="observe")
        expect(used["ROWS_READ"] < 20000 + TURNS * 4000, "%d rows read" % used["ROWS_READ"])
    shop.sql("DELETE FROM %s WHERE action_id > 500" % shop.table("actions"))
    with Guard(shop) as guard:
        said = guard.cycles(mode="observe")
        equal(said["retention"], [500, 0], "counted")
        expect("past their time" not in said["advice"], said["advice"])
    for version in ("3.5 altered", "4.1", "4.2"):
        shop = site(version=version)
        add_ended(shop, "complete", KEPT + DAY)
        with Guard(shop) as guard:
            equal(guard.purge_pass()["actions"], 1, version)


@test("beside four runners each action runs once, also lost ones and those of a runner that was killed")
def runners(_):
    shop, now = site(), int(time.time())
    shop.add_many(2500, ["pay", "mail", "sync"], now - 3000, 6000)
    shop.sql("UPDATE %s SET scheduled_date_gmt = %s WHERE scheduled_date_gmt > %s" % (
        shop.table("actions"), quote(utc(now + 9 * DAY)), quote(utc(now))))
    mended = {"lost": 0, "claims": 0}

    def count(where):
        return int(shop.sql("SELECT COUNT(*) FROM %s WHERE %s" % (shop.table("actions"), where))[0][0])

    def left():
        """Due, and not begun."""
        return count("attempts = 0 AND scheduled_date_gmt <= %s" % quote(utc(now)))

    def cycle_and_left():
        said = guard.cycle()
        for name in mended:
            mended[name] += said[name][1]
        return left()

    def age_claims():
        """Those of runners that are gone, as if the time of a claim had passed."""
        shop.sql("UPDATE %s SET last_attempt_gmt = %s WHERE claim_id != 0" % (
            shop.table("actions"), quote(utc(now - 2 * TIMEOUT))))

    dead = Runner(shop, work={"*": {"sql": "SELECT SLEEP(600)"}})
    until(lambda: len(shop.runs()) == 1, 30, "the first action")
    dead.kill()
    age_claims()
    with Guard(shop) as guard:
        workers = [Runner(shop, concurrent=5, pause_ms=20, cleaner=False) for _ in range(4)]
        until(lambda: cycle_and_left() < 100, 120, "most of the due actions")
        for w in workers:
            w.stop()
        # A deadlock may have ended a batch of theirs, too, which then stays claimed.
        age_claims()
        last = Runner(shop, concurrent=99, pause_ms=20, cleaner=False)
        until(lambda: cycle_and_left() == 0, 120, "the end of all due actions")
        last.stop()
    expect(mended["claims"] >= 24, "actions of the killed runner: %s" % mended)
    equal(shop.run_twice(), [], "actions that ran twice")
    equal(len(shop.runs()), count("attempts = 1"), "callbacks")


# ---------------------------------------------------------------- retries

RULES = (("hook_never", 9, 1), ("webhook_?_*", 3, 300), ("webhook_*", 1, 7), ("Pay", 20, 40000))


def fail(shop, action, age=60):
    at = utc(int(time.time()) - age)
    shop.sql("UPDATE %s SET status='failed', attempts=attempts + 1, claim_id=0, last_attempt_gmt=%s WHERE "
             "action_id=%d" % (shop.table("actions"), quote(at), action))
    shop.log(action, "action failed via WP Cron: no")


def add_tried(shop, add, *words, age=60, **columns):
    action = add(*words)
    fail(shop, action, age)
    if columns:
        shop.sql("UPDATE %s SET %s WHERE action_id=%d" % (shop.table("actions"), ", ".join(
            "%s=%s" % (name, quote(value)) for name, value in columns.items()), action))
    return action


def due_in(shop, action, column="gmt"):
    return int(shop.sql("SELECT TIMESTAMPDIFF(SECOND, UTC_TIMESTAMP(), scheduled_date_%s) FROM %s WHERE "
                        "action_id=%d" % (column, shop.table("actions"), action))[0][0])


@test("a failed action that a rule names runs again as often as it says, each time after twice as long")
def retries(_):
    shop, now = site(local_s=7200), int(time.time())
    action = add_tried(shop, shop.add_simple, "webhook_1_sent", now - 90)
    with Guard(shop, retries=RULES) as guard:
        before = shop.checksum()
        for how in ({"mode": "observe"}, {"retries": "observe"}, {"mode": "test_observe"}):
            equal(guard.cycle(**how)["retries"], [1, 0], how)
        equal(guard.cycle(retries="off")["retries"], [0, 0], "off")
        equal(shop.checksum(), before, "tables")
        for n, wait in ((1, 300), (2, 600), (3, 1200)):
            equal(guard.cycle()["retries"], [1, 1], "retry %d" % n)
            row = shop.action(action)
            equal((row["status"], row["claim_id"], row["attempts"]), ("pending", "0", str(n)), "action")
            expect(wait - 60 <= due_in(shop, action) <= wait, "due in %d s" % due_in(shop, action))
            equal(due_in(shop, action, "local") - due_in(shop, action), 7200, "the local date")
            equal(shop.logs(action)[-1], "weir: retry %d of 3: pending again, due in %d s" % (n, wait), "log")
            said = guard.cycle()
            equal(said["retries"], [0, 0], "while it is pending")
            expect("for good" not in said["advice"], said["advice"])
            fail(shop, action)
    with Guard(shop, retries=RULES) as guard:       # another weir counts on
        said = guard.cycle()
        equal((said["retries"], shop.action(action)["status"]), ([0, 0], "failed"), "after three")
        expect("last one found is action %d" % action in said["advice"], said["advice"])
        shop.sql("DELETE FROM %s WHERE action_id=%d" % (shop.table("actions"), action))
        equal(guard.cycle()["advice"], "", "without it")


@test("the first rule that matches holds, a wait is at most a day, and claims of the dead are taken off")
def retry_rules(_):
    shop, now = site(), int(time.time())
    waits = {add_tried(shop, shop.add_simple, "webhook_1_x", now - 90): 300,
             add_tried(shop, shop.add_async, "webhook_12x"): 7,
             add_tried(shop, shop.add_simple, "Pay", now - 90): 40000,
             add_tried(shop, shop.add_simple, "webhook_2_x", now - 90, age=TIMEOUT + 60, claim_id=77): 300}
    many = add_tried(shop, shop.add_simple, "Pay", now - 90)
    for _ in range(5):
        shop.log(many, "weir: retry 1 of 20: pending again, due in 40000 s")
    with Guard(shop, retries=RULES) as guard:
        equal(guard.cycle()["retries"], [5, 5], "retries")
    for action, wait in {**waits, many: DAY}.items():
        row = shop.action(action)
        equal((row["status"], row["claim_id"]), ("pending", "0"), "action %d" % action)
        expect(wait - 60 <= due_in(shop, action) <= wait, "due in %d s" % due_in(shop, action))


@test("what no rule names, what recurs, what failed long ago and what a runner still has stay failed")
def not_retried(_):
    shop, now = site(), int(time.time())
    at = now - 90
    kept = [add_tried(shop, shop.add_simple, "webhook", at),
            add_tried(shop, shop.add_simple, "Webhook_1_x", at),        # other case
            add_tried(shop, shop.add_simple, "pay", at),
            add_tried(shop, shop.add_interval, "webhook_1_x", at, 3600),
            add_tried(shop, shop.add_cron, "webhook_1_x", at, "0 3 * * *"),
            add_tried(shop, shop.add_simple, "webhook_1_x", at, age=DAY + 60),
            add_tried(shop, shop.add_simple, "webhook_1_x", at, claim_id=7),
            add_tried(shop, shop.add_simple, "webhook_1_x", at, status="complete"),
            add_tried(shop, shop.add_simple, "webhook_1_x", at, status="canceled"),
            add_tried(shop, shop.add_simple, "webhook_1_x", at, status="in-progress")]
    before = watch(shop, kept)
    with Guard(shop, retries=RULES) as guard:
        equal(guard.cycles()["retries"], [0, 0], "retries")
    for action in kept:
        unchanged(shop, action, before[action])
    with Guard(shop) as guard:
        shop.sql("UPDATE %s SET status='failed'" % shop.table("actions"))
        equal(guard.cycle()["retries"], [0, 0], "without rules")


@test("a retry whose action is locked leaves no line behind; it comes in the next cycle")
def retry_locked(_):
    shop, now = site(), int(time.time())
    held, free = (add_tried(shop, shop.add_simple, "webhook_1_x", now - 90) for _ in range(2))
    with Guard(shop, retries=RULES) as guard, shop.maria.connect(database=shop.database) as other:
        lines = len(shop.logs(held))
        other("BEGIN")
        other("SELECT 1 FROM %s WHERE action_id = %d FOR UPDATE" % (shop.table("actions"), held))
        equal(guard.cycle()["retries"], [2, 1], "beside the lock")
        equal((len(shop.logs(held)), shop.action(free)["status"]), (lines, "pending"), "the held one")
        other("ROLLBACK")
        # The line cannot be written: then the action stays as it is.
        shop.sql("ALTER TABLE %s ADD CONSTRAINT no_line CHECK (action_id <> %d OR message NOT LIKE 'weir:%%')" % (
            shop.table("logs"), held))
        said = guard.cycle()
        equal((said["retries"][1], shop.action(held)["status"]), (0, "failed"), "without its line")
        expect("Repair retries failed" in said["advice"], said["advice"])
        shop.sql("ALTER TABLE %s DROP CONSTRAINT no_line" % shop.table("logs"))
        equal(guard.cycle()["retries"], [1, 1], "after the lock")


@test("failed actions to retry are found among 20,000 others, and a cycle reads few rows")
def retry_among_many(_):
    shop, now = site(), int(time.time())
    shop.add_many(20000, ["a", "b"], now - 3 * DAY, 2 * DAY, status="failed")
    shop.add_many(3000, ["a", "b"], now - 300, 200, status="failed")
    old = add_tried(shop, shop.add_simple, "webhook_1_old", now - 3600)
    add_tried(shop, shop.add_simple, "webhook_1_new", now - 60)
    with Guard(shop, retries=RULES) as guard:
        equal(guard.cycle()["retries"][1], 1, "the newest is found at once")
        with counted(user_counters, maria(), "weir") as used:
            for _ in range(TURNS):
                guard.cycle(mode="observe")
        expect(used["ROWS_READ"] < TURNS * 6000, "%d rows read" % used["ROWS_READ"])
        n = 0
        while shop.action(old)["status"] == "failed":
            guard.cycle()
            n += 1
            expect(n < 60, "the walk did not come by")


# ---------------------------------------------------------------- moves that weir does not know


AHEAD = 3000        # seconds to the date of a move; a look reaches further (REACH_S of guard_store.c)
ASYNC_S = 400       # since the line of a move was written


def left(shop, action, to=None, line=None):
    """As a backup has it that was taken after the action was moved: its later date, and the line of that."""
    at = int(time.time())
    to = at + AHEAD if to is None else to
    shop.sql("UPDATE %s SET scheduled_date_gmt = %s, scheduled_date_local = %s WHERE action_id = %d" % (
        shop.table("actions"), quote(utc(to)), quote(utc(to + shop.local_s)), action))
    shop.log(action, line or "weir: deferred to %s UTC, tier normal: the database is under load" % utc(to))
    shop.sql("UPDATE %s SET log_date_gmt = %s WHERE action_id = %d" % (
        shop.table("logs"), quote(utc(at - ASYNC_S)), action))
    return to


@test("actions at the date of a forgotten move are counted in observe, and taken with their dates in enforce")
def restored(_):
    shop, now = site(), int(time.time())
    made = [(shop.add_simple("sync", now - 100), now - 100), (shop.add_interval("Sync", now - 90, 3600), now - 90),
            (shop.add_cron("sync", now - now % 300, "*/5 * * * *"), now - now % 300),
            (shop.add_simple("sync", now + 60), now + 60), (shop.add_async("mail"), now - ASYNC_S)]
    hooks = ["sync", "Sync", "sync", "sync", "mail"]
    to = [left(shop, action) for action, _ in made]
    with Guard(shop) as guard:
        before = shop.checksum()
        equal(guard.cycles(mode="observe")["restored"], [5, 0], "in observe")
        equal(guard.cycles(mode="enforce", restored="observe")["restored"], [5, 0], "this repair in observe")
        equal(guard.cycles(mode="enforce", restored="off")["restored"], [0, 0], "off")
        guard("ledger", *(action for action, _ in made))
        equal(guard.cycles()["restored"], [0, 0], "known")
        guard("ledger")
        equal(shop.checksum(), before, "tables")
        taken = []
        for _ in range(TURNS):
            said = guard.cycle()
            taken += said["taken"]
            expect(said["restored"] in ([5, said["restored"][1]], [0, 0]), said)
        for row in taken:
            expect(row[0] != made[4][0] or abs(row[2] - made[4][1]) <= 2, "the date of the line: %s" % row)
        equal(sorted(row[:2] + ([row[2]] if row[0] != made[4][0] else []) + [row[3]] for row in taken),
              sorted([action, hook] + ([back] if action != made[4][0] else []) + [at]
                     for (action, back), hook, at in zip(made, hooks, to)), "taken")
        for action, _ in made:
            expect(shop.logs(action)[-1].startswith("weir: known again as moved"), shop.logs(action))
        equal(guard.cycles()["restored"], [0, 0], "afterwards")


@test("an action that only looks like a forgotten move stays")
def not_restored(_):
    shop, now = site(), int(time.time())
    ahead, kept = now + AHEAD, []

    def keep(add, *words, to=None, line=None, **columns):
        kept.append(add(*words, **columns))
        left(shop, kept[-1], to, line)
        return kept[-1]
    simple = shop.add_simple
    edited = keep(simple, "edited", now - 9)
    shop.sql("UPDATE %s SET scheduled_date_gmt = scheduled_date_gmt + INTERVAL 1 SECOND WHERE action_id = %d" % (
        shop.table("actions"), edited))
    shop.log(keep(simple, "returned", now - 9), "weir: returned to its date; the database is calm again")
    shop.log(keep(simple, "moved on", now - 9), "weir: deferred to %s UTC, tier high: x" % utc(ahead + 60))
    for _ in range(3):
        shop.log(kept[-1], "action changed")
    many = keep(simple, "too often", now - 9)
    for _ in range(3):
        shop.log(many, "weir: known again as moved")
    for word, status in (("a", "in-progress"), ("b", "complete"), ("c", "failed"), ("d", "canceled")):
        keep(simple, word, now - 9, status=status)
    keep(simple, "claimed", now - 9, claim_id=7, last_attempt_gmt=utc(now))
    keep(simple, "foreign", now - 9, line="somebody: weir: deferred to %s UTC" % utc(ahead))
    keep(simple, "cut", now - 9, line="weir: deferred to %s" % utc(ahead)[:-3])
    keep(simple, "earlier than its schedule", ahead + 60)
    keep(simple, "at its schedule", ahead, to=ahead)
    keep(shop._add, "odd", now - 9, now - 9, 'O:8:"stdClass":0:{}')
    keep(simple, "due", now - 900, to=now - 60)
    keep(simple, "far", now - 900, to=now + 2 * 3600)
    kept.append(simple("never moved", ahead))
    before = watch(shop, kept)
    with Guard(shop) as guard:
        for _ in range(TURNS):
            said = guard.cycle()
            equal((said["restored"], said["taken"]), ([0, 0], []), "restored")
    for action in kept:
        unchanged(shop, action, before[action])


@test("nothing is taken while another weir is connected, and its connection is named")
def restored_beside_another(_):
    shop, now = site(), int(time.time())
    action = shop.add_simple("sync", now - 100)
    left(shop, action)
    with Guard(shop) as guard:
        with Guard(shop) as other:
            equal(other.cycle()["restored"][1], 0, "the other is there")  # it has its place
            said = guard.cycles()
            equal(said["restored"], [1, 0], "beside it")
            expect("another weir guards the site (connection " in said["advice"], said["advice"])
            with Guard(shop) as third:      # there is no place for it
                said = third.cycles()
                equal(said["restored"], [1, 0], "without a place")
                expect("another weir" in said["advice"], said["advice"])
            sums = shop.checksum()
            equal(guard.cycles(mode="observe")["restored"], [1, 0], "in observe")
            equal(shop.checksum(), sums, "tables")
        until(lambda: not shop.sql("SELECT 1 FROM information_schema.PROCESSLIST WHERE user = 'weir' LIMIT 1, 1"),
              what="the other is gone")
        said = guard.cycles()
        equal((said["restored"][1], said["advice"]), (1, ""), "alone")
    blog = site(prefix="wp_2_")     # another site, with a place of its own
    left(blog, blog.add_simple("sync", now - 100))
    with Guard(shop) as one, Guard(blog) as two:
        one.cycle()
        equal(two.cycles()["restored"], [1, 1], "a site beside another")


@test("forgotten moves are found among many pending actions, page by page, and a look reads few rows")
def restored_among_many(_):
    shop, now = site(), int(time.time())
    shop.add_many(3000, ["a", "b"], now + 60, AHEAD, is_logged=True)
    shop.add_many(3000, ["a", "b"], now + 2 * DAY, DAY)      # beyond the reach of a move
    wanted = []
    for i in range(1200):
        wanted.append(shop.add_simple("sync", now - 100 + i // 20))
    shop.sql("UPDATE %s SET scheduled_date_gmt = %s WHERE hook = 'sync'" % (
        shop.table("actions"), quote(utc(now + 900))))
    shop.sql("INSERT INTO %s (action_id, message, log_date_gmt, log_date_local) SELECT action_id, %s, %s, %s FROM %s"
             " WHERE hook = 'sync'" % (shop.table("logs"), quote("weir: deferred to %s UTC, x" % utc(now + 900)),
                                       quote(utc(now)), quote(utc(now)), shop.table("actions")))
    with Guard(shop) as guard:
        taken = []
        for _ in range(9 * TURNS):      # 4,200 actions, 500 at a look
            taken += [row[0] for row in guard.cycle()["taken"]]
        equal(sorted(taken), wanted, "taken")
        with counted(user_counters, maria(), "weir") as used:
            for _ in range(TURNS):
                guard.cycle(mode="observe", duplicates="off")
        expect(used["ROWS_READ"] < 12000, "%d rows read" % used["ROWS_READ"])


# ---------------------------------------------------------------- reports and advice


@test("past due and duplicate actions are counted and never changed")
def reports(_):
    shop, now = site(), int(time.time())
    for i in range(5):
        shop.add_simple("late", now - 2 * DAY, args=[i])
    shop.add_simple("today", now - 3600)
    for _ in range(4):
        shop.add_simple("same", now + 3600, args=[1])
    for group in ("a", "b"):
        shop.add_simple("groups", now + 3600, args=[1], group=group)
    for text in ("A", "a"):
        shop.add_simple("case", now + 3600, args=[text])
    for _ in range(2):
        shop.add_interval("series", now + 3600, 60)
        shop.add_simple("ended", now, status="complete", last_attempt_gmt=utc(now))
    with Guard(shop) as guard:
        sums = shop.checksum()
        said = guard.cycles(3 * TURNS, mode="enforce")
        equal(said["past_due"], [5, 0], "past due")
        equal(said["duplicates"], [3, 0], "duplicates")
        expect("Hook same has 3 " in said["advice"], said["advice"])
        equal(shop.checksum(), sums, "tables")
    shop.add_many(3000, ["late"], now - 5 * DAY, DAY)
    with Guard(shop) as guard:
        equal(guard.cycle()["past_due"], [1001, 0], "capped")


@test("a report counts by status, day and hook, tells what is late and slow, and changes nothing")
def report(_):
    shop, now = site(), int(time.time())
    noon = now - now % DAY - DAY // 2
    for i in range(6):
        shop.add_simple("late" if i < 4 else "Late", now - 3600 + i)
    shop.add_simple("next", now + 900)
    for i in range(3):
        shop.add_simple("bad", now - 60, status="failed")
        slow = shop.add_simple("slow", noon, status="complete", last_attempt_gmt=utc(now - 40 + 10 * i))
        shop.log(slow, "fini")
    old = add_ended(shop, "complete", KEPT + DAY)
    shop.sql("UPDATE %s SET log_date_gmt = %s WHERE action_id = %d" % (
        shop.table("logs"), quote(utc(now - KEPT - DAY)), old))
    shop.sql("UPDATE %s SET log_date_gmt = %s WHERE log_id = 1" % (
        shop.table("logs"), quote(utc(now - DAY // 2))))
    with Guard(shop) as guard:
        sums = shop.checksum()
        said = guard("report")
        equal(shop.checksum(), sums, "tables")
        equal(said["err"], "OK", said["problem"])
        equal(said["statuses"], [["pending", 7, 0, 0], ["in-progress", 0, 0, 0], ["complete", 4, 0, 0],
                                 ["failed", 3, 0, 0], ["canceled", 0, 0, 0]], "by status")
        equal([len(said["days"]), said["days"][1]], [7, [time.strftime("%Y-%m-%d", time.gmtime(noon)), 3, 0, 0]],
              "by day")
        equal(said["pending"], [["late", 4, 0, 0], ["Late", 2, 0, 0], ["next", 1, 0, 0]], "pending")
        equal(said["failed"], [["bad", 3, 0, 0]], "failed")
        equal([row[:3] for row in said["past_due"]], [["late", 4, 0], ["Late", 2, 0]], "past due")
        expect(3600 <= said["past_due"][0][3] < 3700, said["past_due"])
        slow = said["slowest"][0]
        expect(slow[:2] == ["slow", 3] and 40 <= slow[3] < 140, slow)
        equal([row[:3] for row in said["created"]][:1], [["late", 8, 1]], "created in a day")
        equal(said["past"][:3], [1, 1, 0], "past its time")
        expect(said["tables"]["actionscheduler_logs"][1] > 0, said["tables"])
    with Guard(site(version="3.5 altered")) as guard:
        equal([guard("report")[k] for k in ("err", "created", "pending")], ["OK", [], []], "an empty site")


@test("a report of 60,000 actions reads a bounded number of rows and says what is an estimate")
def report_cost(_):
    shop, now = site(), int(time.time())
    shop.add_many(60000, ["h%d" % i for i in range(15)], now - 5 * DAY, 4 * DAY, status="complete",
                  is_logged=True)
    shop.sql("UPDATE %s SET status = 'pending' WHERE action_id MOD 4 = 0" % shop.table("actions"))
    with Guard(shop) as guard:
        guard("report")
        with counted(user_counters, maria(), "weir") as used:
            said = guard("report")
        # Twelve counts of at most 10,001, four samples of 2,000 with their rows, and one of 6,000.
        expect(used["ROWS_READ"] < 170000, "%d rows read" % used["ROWS_READ"])
        statuses = {row[0]: row[1:3] for row in said["statuses"]}
        expect(10001 <= statuses["complete"][0] < 120000 and statuses["complete"][1] == 1, statuses)
        equal((len(said["pending"]), said["pending"][0][2]), (10, 1), "a sample of ten hooks")


@test("advice names what a person should look at, and goes when it is done")
def advice(_):
    shop, now = site(version="4.1 upgraded", is_migrated=False), int(time.time())
    shop.add_many(1100, ["a"], now - 10 * DAY, DAY, status="failed")
    for i in range(60):
        shop.log(900000 + i, "of nobody")
    shop.set_option("weir_lock_%s" % ("0" * 32), "1|0||x", autoload="yes")
    with Guard(shop) as guard:
        said = guard.cycles(mode="observe")["advice"]
        for words in ("not moved all actions", "More than 1000 actions have failed",
                      "60 of the 500 oldest lines", "1 locks in table wp_options",
                      "Index claim_id_status_scheduled_date_gmt"):
            expect(words in said, "%s is not in: %s" % (words, said))
        shop.sql("DELETE FROM %s" % shop.table("logs"))
        shop.sql("DELETE FROM %s" % shop.table("actions"))
        shop.sql("UPDATE `wp_options` SET autoload='no'")
        shop.sql("ALTER TABLE %s DROP KEY claim_id_status_scheduled_date_gmt" % shop.table("actions"))
        said = guard.cycles(mode="observe")["advice"]
        equal(len(said.splitlines()), 1, said)
    with Guard(site(version="3.8")) as guard:
        equal(guard.cycles()["advice"], "", "advice of a healthy site")


@test("a repair that lacks its privilege says so, and the others go on")
def privilege(_):
    shop, now = site(), int(time.time())
    action = add_failed(shop, shop.add_simple, "pay", now - 90)
    add_claim(shop, 0, TIMEOUT + 60)
    shop.maria.ask("REVOKE ALL PRIVILEGES, GRANT OPTION FROM weir@'127.0.0.1'",
                   "GRANT SELECT, INSERT, UPDATE ON *.* TO weir@'127.0.0.1'")
    try:
        with Guard(shop) as guard:
            said = guard.cycles()
        equal(said["claim_rows"][1], 0, "deleted")
        expect("Repair claim_rows failed" in said["advice"] and "DELETE" in said["advice"], said["advice"])
        equal(shop.action(action)["status"], "pending", "the lost one")
    finally:
        shop.maria.ask("GRANT ALL ON *.* TO weir@'127.0.0.1'")


# ---------------------------------------------------------------- lists


def walk(guard, limit, **more):
    """All pages: ids in the order in which they came."""
    ids, below = [], 0
    while True:
        said = guard.actions(below=below, limit=limit, **more)
        equal(said["err"], "OK", said["problem"])
        page = [a["id"] for a in said["actions"]]
        ids += page
        if not said["has_more"]:
            return ids
        equal(len(page), limit, "a page that is not the last")
        below = page[-1]


@test("a list has every action once, in pages, by status, hook, both, due or id")
def lists(_):
    shop, now = site(), int(time.time())
    rows = []
    for i, status in enumerate(("pending", "complete", "failed", "pending", "canceled", "in-progress") * 7):
        hook = ("pay", "mail", "Pay")[i % 3]
        at = now - 100 + (i // 4) * 10     # several have the same date, some are not due
        rows.append((shop.add_simple(hook, at, status=status), hook, status, at))

    def wanted(keep, is_dated=True):
        kept = [r for r in rows if keep(r)]
        return [r[0] for r in sorted(kept, key=lambda r: (r[3] if is_dated else 0, r[0]), reverse=True)]

    with Guard(shop) as guard:
        for limit in (1, 4, 100):
            equal(walk(guard, limit), wanted(lambda r: True, False), "all")
            for status in ("pending", "complete", "failed", "canceled", "in-progress"):
                equal(walk(guard, limit, status=status), wanted(lambda r: r[2] == status), status)
                equal(walk(guard, limit, status=status, hook="pay"),
                      wanted(lambda r: r[2] == status and r[1] == "pay"), "pay, " + status)
            equal(walk(guard, limit, hook="Pay"), wanted(lambda r: r[1] == "Pay"), "Pay")
            equal(walk(guard, limit, hook="none"), [], "no such hook")
            equal(walk(guard, limit, status="due"),
                  wanted(lambda r: r[2] == "pending" and r[3] <= now), "due")
            few = [rows[3][0], rows[5][0], rows[30][0], 999999]
            equal(walk(guard, limit, ids=few), sorted(few[:3], reverse=True), "by ids")
            equal(walk(guard, limit, ids=few, status="pending"),
                  wanted(lambda r: r[0] in few and r[2] == "pending", False), "by ids and status")
        said = guard.actions(status="lost")
        equal(said["err"], "BADARG", "an unknown status")
        expect("canceled" in said["problem"], said["problem"])
        equal(guard.actions(status="failed", below=999999)["err"], "NOTFOUND", "a page after nothing")


def read_pages(n):
    shop, now = site(), int(time.time())
    shop.add_many(n, ["a", "b", "c"], now - 1000, 2000)
    shop.sql("UPDATE %s SET status='complete' WHERE action_id > %d" % (shop.table("actions"), n // 2))
    shop.add_simple("rare", now - 50, status="failed")
    with Guard(shop) as guard:
        guard.actions()
        for more in ({}, {"status": "pending"}, {"status": "due"}, {"status": "failed"}, {"hook": "b"},
                     {"hook": "b", "status": "pending"}, {"hook": "rare"}, {"status": "canceled"},
                     {"ids": [5, 9, n * 3 // 4]}):
            first = guard.actions(limit=20, **more)
            for below in [0] + [a["id"] for a in first["actions"][-1:]]:
                with counted(user_counters, maria(), "weir") as used:
                    guard.actions(limit=20, below=below, **more)
                expect(used["ROWS_READ"] < 400, "%s: %d rows read" % (more, used["ROWS_READ"]))


@test("a page of a list reads few rows of 10,000")
def list_cost(_):
    read_pages(10000)


@test("a page of a list reads few rows of 200,000", outer=True)
def long_list_cost(_):
    read_pages(200000)


@test("one action is told with its group, arguments, schedule, original date and newest log lines")
def one(_):
    shop, now = site(), int(time.time())
    args = [{"order": i, "text": "ä\"\\"} for i in range(40)]
    single = shop.add_simple("pay", now - 500, args=args, group="shop", priority=3)
    shop.sql("UPDATE %s SET scheduled_date_gmt=%s WHERE action_id=%d" % (
        shop.table("actions"), quote(utc(now + 600)), single))
    for i in range(70):
        shop.log(single, "line %d" % i)
    kinds = {shop.add_async("a"): "async", shop.add_interval("b", now, 3600): "every 3600 s",
             shop.add_cron("c", now, "0 3 * * *"): "cron", single: "single",
             shop._add("d", now, now, "O:8:\"stdClass\":0:{}"): "unknown"}
    with Guard(shop) as guard:
        said = guard("action", single)
        got = said["actions"][0]
        equal(json.loads(got["args"]), args, "args")
        equal((got["group"], got["priority"], got["original"], got["scheduled"], got["last"]),
              ("shop", 3, now - 500, now + 600, 0), "action")
        equal(said["lines"], ["line %d" % i for i in range(69, 19, -1)], "lines")
        for action, words in kinds.items():
            equal(guard("action", action)["actions"][0]["schedule"], words, "schedule")
        equal(guard("action", next(iter(kinds)))["actions"][0]["original"], 0, "of an async one")
        said = guard("action", 999999)
        equal((said["err"], said["problem"]), ("NOTFOUND", "site shop has no action 999999"), "missing")
    with Guard(site(version="3.5 altered")) as guard:
        equal(guard("action", 1)["err"], "NOTFOUND", "without a priority column")


# ---------------------------------------------------------------- locks

A, B = "a" * 32, "b" * 32


def option(key):
    return "weir_lock_" + hashlib.md5(key.encode()).hexdigest()


def now_of(shop):
    return int(shop.sql("SELECT UNIX_TIMESTAMP()")[0][0])


@test("of two competitors one gets the lock; only its token releases it; the fence grows")
def competitors(_):
    shop = site()
    key = "order|7|é"
    with Guard(shop) as one_, Guard(shop) as two:
        first = one_.lock(key, A)
        expect(first["is_granted"], first)
        lock = first["locks"][0]
        equal((lock["key"], lock["token"]), (key, A), "lock")
        expect(now_of(shop) <= lock["expires"] <= now_of(shop) + 60, lock)
        row = shop.sql("SELECT option_value, autoload FROM `wp_options` WHERE option_name=%s" %
                       quote(option(key)))
        equal(row, [["%d|%d|%s|%s" % (lock["fence"], lock["expires"], A, key), "no"]], "row")
        said = two.lock(key, B)
        equal((said["err"], said["is_granted"]), ("OK", False), "the second")
        equal(said["locks"][0], dict(lock, token=""), "the holder, without its token")
        said = two.unlock(key, B)
        equal((said["is_granted"], said["locks"][0]["expires"]), (False, lock["expires"]), "wrong token")
        expect(one_.unlock(key, A)["is_granted"], "its own token")
        equal(shop.option(option(key)), "%d|0||%s" % (lock["fence"], key), "row of a free lock")
        equal(one_.unlock(key, A)["is_granted"], False, "released twice")
        said = two.lock(key, B)
        expect(said["is_granted"] and said["locks"][0]["fence"] > lock["fence"], said)


@test("a lock expires by the clock of the database, and its old holder cannot release or renew it")
def expiry(_):
    shop = site()
    with Guard(shop) as one_, Guard(shop) as two:
        first = one_.lock("job", A, 1)["locks"][0]
        until(lambda: now_of(shop) > first["expires"], 10, "the end of the lock")
        equal(one_("locks", 10)["locks"][0]["expires"], 0, "free in the list")
        equal(one_.unlock("job", A)["is_granted"], False, "it was not held any more")
        second = two.lock("job", B, 100)
        expect(second["is_granted"] and second["locks"][0]["fence"] > first["fence"], second)
        equal(one_.lock("job", A, 100)["is_granted"], False, "the old holder")
        equal(one_.unlock("job", A)["is_granted"], False, "the old holder releases")
        for left, is_granted in ((100, False), (-1, True)):
            shop.sql("UPDATE `wp_options` SET option_value = CONCAT('5|', UNIX_TIMESTAMP() + %d, '|%s|job')"
                     " WHERE option_name = %s" % (left, A, quote(option("job"))))
            equal(two.lock("job", B)["is_granted"], is_granted, "%d s left" % left)


@test("the holder renews its lock with its token and keeps the fence")
def renew(_):
    shop = site()
    with Guard(shop) as guard:
        first = guard.lock("job", A, 10)["locks"][0]
        longer = guard.lock("job", A, 1000)
        expect(longer["is_granted"], longer)
        equal(longer["locks"][0]["fence"], first["fence"], "fence")
        expect(longer["locks"][0]["expires"] > first["expires"] + 900, longer)
        shorter = guard.lock("job", A.upper(), 20)
        expect(shorter["is_granted"] and shorter["locks"][0]["expires"] < now_of(shop) + 30, shorter)


@test("a forced release frees a lock of any holder")
def forced(_):
    shop = site()
    with Guard(shop) as guard:
        fence = guard.lock("job", A)["locks"][0]["fence"]
        said = guard.unlock("job")
        equal((said["is_granted"], said["locks"][0]["expires"]), (True, 0), "forced")
        equal(shop.option(option("job")), "%d|0||job" % fence, "row")
        equal(guard.unlock("job")["is_granted"], False, "nothing held")
        equal(guard.unlock("never")["is_granted"], False, "no such lock")
        equal(shop.option(option("never")), None, "a release makes no row")


@test("the fence grows after the row was deleted, emptied or damaged; such values are free locks")
def damaged(_):
    shop = site()
    far = now_of(shop) + 9999
    values = ["", "garbage", "|||", "1|2", str(far), "%d|%d" % (far, far), "x|%d|%s|job" % (far, A),
              "-5|%d|%s|job" % (far, A), "1|%d|short|job" % far, "1|%d|%s" % (far, A), "a:0:{}",
              "1" * 25 + "|%d|%s|job" % (far, A), "5|%s|%s|job" % ("9" * 30, A), "1|%d|%s |job" % (far, A)]
    with Guard(shop) as guard:
        last = guard.lock("job", A)["locks"][0]["fence"]
        name = quote(option("job"))
        changes = ["DELETE FROM `wp_options` WHERE option_name = " + name] + [
            "UPDATE `wp_options` SET option_value = %s WHERE option_name = %s" % (quote(v), name)
            for v in values]
        for change in changes:
            shop.sql(change)
            equal(guard("locks", 10)["locks"], [], "in the list after " + change)
            equal(guard.unlock("job")["is_granted"], False, "released after " + change)
            shop.sql(change)
            said = guard.lock("job", B)
            expect(said["is_granted"] and said["locks"][0]["fence"] > last, "%s: %s" % (change, said))
            last = said["locks"][0]["fence"]
        # A clock that was set back: the old fence is ahead of it.
        ahead = last + 10 ** 12
        shop.set_option(option("job"), "%d|0||job" % ahead)
        equal(guard.lock("job", A)["locks"][0]["fence"], ahead + 1, "fence ahead of the clock")


@test("keys, tokens and times that are wrong are refused with what is allowed")
def wrong(_):
    shop = site()
    before = shop.checksum()
    with Guard(shop) as guard:
        for words, mentions in ((("lock", "-", A, 5), "1 to 255 bytes"),
                                (("lock", "61" * 256, A, 5), "1 to 255 bytes"),
                                (("lock", "ff", A, 5), "UTF-8"),
                                (("lock", "61", "xyz", 5), "32 hex digits"),
                                (("lock", "61", "-", 5), "32 hex digits"),
                                (("unlock", "61", "xyz"), "32 hex digits"),
                                (("lock", "61", A, 0), "1 to 86400 seconds"),
                                (("lock", "61", A, 86401), "1 to 86400 seconds")):
            said = guard(*words)
            equal((said["err"], said["is_granted"]), ("BADARG", False), words)
            expect(mentions in said["problem"], said["problem"])
        equal(shop.checksum(), before, "tables")
        expect(guard("lock", "61" * 255, A, 86400)["is_granted"], "the longest key")


@test("a list of locks has held ones first, hides tokens and says when there are more")
def lock_list(_):
    shop = site()
    shop.set_option("weirXlock_" + "0" * 32, "1|99999999999|%s|no" % A)
    with Guard(shop) as guard:
        for i in range(6):
            guard.lock("k%d" % i, A)
        for i in range(3):
            guard.unlock("k%d" % i, A)
        said = guard("locks", 100)
        equal([(x["key"], x["expires"] > 0, x["token"]) for x in said["locks"]],
              [("k%d" % i, i >= 3, "") for i in (3, 4, 5, 0, 1, 2)], "list")
        equal((len(guard("locks", 4)["locks"]), guard("locks", 4)["has_more"]), (4, True), "a short list")


@test("a lock whose row another transaction holds is refused soon and not waited for")
def busy(_):
    shop = site()
    with Guard(shop) as guard, shop.maria.connect(database=shop.database) as other:
        guard.lock("job", A)
        other("BEGIN")
        other("SELECT 1 FROM `wp_options` WHERE option_name = %s FOR UPDATE" % quote(option("job")))
        clock = Watch()
        said = guard.lock("job", B)
        clock.within(5, "the answer")
        equal((said["err"], said["is_granted"]), ("LOCKED", False), "while it is busy")
        other("ROLLBACK")
        equal(guard.lock("job", B)["err"], "OK", "afterwards")


@test("never two holders: eight competitors take and release one lock")
def crowd(_):
    shop, guards = site(), []
    state = {"holders": 0, "worst": 0, "fences": []}
    mutex = threading.Lock()

    def compete(i):
        token = "%032x" % (i + 1)
        with Guard(shop) as guard:
            for _ in range(150):
                said = guard.lock("one", token)
                if not said["is_granted"]:
                    continue
                with mutex:
                    state["holders"] += 1
                    state["worst"] = max(state["worst"], state["holders"])
                    state["fences"].append(said["locks"][0]["fence"])
                with mutex:
                    state["holders"] -= 1
                while guard.unlock("one", token)["err"] == "LOCKED":
                    pass

    guard_program()
    guards = [threading.Thread(target=compete, args=(i,)) for i in range(8)]
    for g in guards:
        g.start()
    for g in guards:
        g.join()
    equal(state["worst"], 1, "holders at once")
    expect(len(state["fences"]) >= 8, "%d grants" % len(state["fences"]))
    equal(state["fences"], sorted(set(state["fences"])), "fences")


if __name__ == "__main__":
    main()
