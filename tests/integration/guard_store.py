#!/usr/bin/python3
# weir-test: timeout=300 outer=part
"""The SQL of the WordPress guard on a real MariaDB: recognising a site, surveying it, moving actions
and giving them back.

guard_store.c is the program that calls it; it is built here with the sanitizers, and does what it is
told line by line.  What it did is read from the tables and from the server's counters.
"""
import os
import re
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "fault"))

from harness import HANG_S, equal, expect, main, test, until  # noqa: E402
from lib_actionscheduler import (COLLATION, VERSIONS, Site, counted, guard_program,  # noqa: E402
                                 server, user_counters, utc)

PASSWORD = "s3cret"
CAP = 1000          # due actions of a hook that are counted
SURVEY_ROWS = 5000  # of all hooks together
BUILT = {}
NOW = int(time.time())
DAY = 86400
LATER = NOW + DAY


def database():
    if "maria" not in BUILT:
        BUILT["maria"] = server("guard")
    return BUILT["maria"]


def fresh(name, maria=None, **options):
    """A site in a database of its own, and a user `weir` that may do all there."""
    maria = maria or database()
    maria.ask("DROP DATABASE IF EXISTS `%s`" % name)
    site = Site(maria, database=name, **options)
    maria.ask("CREATE OR REPLACE USER weir@'127.0.0.1' IDENTIFIED BY '%s'" % PASSWORD,
              "GRANT ALL ON `%s`.* TO weir@'127.0.0.1'" % name)
    return site


class Refused(Exception):
    pass


class Store:
    """The program on a site."""

    def __init__(self, site, user="weir", prefix=None, mode="enforce", more=()):
        self.process = subprocess.Popen(
            [guard_program(), str(site.maria.port), user, PASSWORD, site.database, prefix or site.prefix,
             *map(str, more)],
            text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        if mode:
            self.facts = self("open", mode)[0].split("|")

    def __call__(self, *words):
        self.process.stdin.write(" ".join(map(str, words)) + "\n")
        self.process.stdin.flush()
        lines = []
        while True:
            line = self.process.stdout.readline().rstrip("\n")
            expect(line or self.process.poll() is None, "the program ended")
            if line == "= OK":
                return lines
            if line.startswith("= "):
                raise Refused(line[2:])
            lines.append(line)

    def number(self, *words):
        return int(self(*words)[0])

    def survey(self, horizon=0):
        lines = self("survey", horizon)
        names = ("now", "took_us", "claimed", "running", "failed", "next_due", "is_cut", "cap")
        found = dict(zip(names, map(int, lines[0].split())))
        found["hooks"] = {}
        for line in lines[1:]:
            hook, due, running, oldest = line.split("\t")
            expect(hook not in found["hooks"], "%s is there twice" % hook)
            found["hooks"][hook] = (int(due), int(running), int(oldest))
        return found

    def due(self, hook, limit=500, by=None, not_before=0):
        """[(id, original, current, is async)]"""
        return [tuple(map(int, line.split()))
                for line in self("due", hook, by or NOW + 3600, limit, not_before)]

    def end(self):
        self.process.stdin.close()
        equal(self.process.wait(HANG_S), 0, "exit code of the program")
        self.process.stdout.close()


def refusal(call, *words):
    try:
        call(*words)
    except Refused as error:
        return str(error)
    raise AssertionError("%s was not refused" % (words,))


def dates(site, which="1"):
    """{id: (UTC, local)}"""
    return {int(a): (g, loc) for a, g, loc in site.sql(
        "SELECT action_id, scheduled_date_gmt, scheduled_date_local FROM %s WHERE %s" % (
            site.table("actions"), which))}


def rest_of(site):
    """A checksum of everything but the two dates."""
    return site.sql("SELECT SUM(CRC32(CONCAT_WS('|', action_id, hook, status, args, HEX(schedule), group_id,"
                    " attempts, last_attempt_gmt, last_attempt_local, claim_id, extended_args)))"
                    " FROM %s" % site.table("actions"))


# ---------------------------------------------------------------- recognising


def alter(site):
    """Runs the one statement that weir asks for."""
    store = Store(site, mode=None)
    said = refusal(store, "open", "observe")
    expect(said.startswith("NOTFOUND an index is missing; run: "), said)
    site.sql(said.split("run: ")[1])
    store("open", "observe")
    store.end()


@test("every store version is recognised, migrated or not")
def _(folder):
    for version in VERSIONS:
        site = fresh("versions", version=version, is_migrated=version != "3.5")
        if not site.has_due_index():
            alter(site)
        store = Store(site)
        name, schema, url, priority, unique, migrated, index, lowest = store.facts
        expect(name.startswith("MariaDB 1"), name)
        equal((schema, url), ("%d.0" % site.schema, "http://shop.example/wp-admin/"), version)
        equal((priority, unique, migrated), ("01"[site.has_priority], "01"[site.has_unique],
                                             "01"[version != "3.5"]), version)
        equal(index, "hook_status_scheduled_date_gmt", version)
        equal(lowest, "`", "the lowest character of " + COLLATION)
        equal(store.survey()["hooks"], {}, "hooks of an empty site")
        store.end()


@test("missing tables are named with the prefixes that exist, a missing index with how to add it")
def _(folder):
    site = fresh("missing", prefix="wp_2_")
    store = Store(site, prefix="wp_", mode=None)
    said = refusal(store, "open", "observe")
    equal(said, "NOTFOUND there is no wp_actionscheduler_actions in database missing; tables of Action"
          " Scheduler exist with the prefix 'wp_2_'", "sentence")
    store.end()
    site.sql("RENAME TABLE %s TO gone" % site.table("logs"))
    store = Store(site, mode=None)
    expect("there is no wp_2_actionscheduler_logs" in refusal(store, "open", "observe"), "the logs")
    site.sql("RENAME TABLE gone TO %s" % site.table("logs"))
    site.sql("ALTER TABLE %s DROP KEY hook_status_scheduled_date_gmt" % site.table("actions"))
    alter(site)
    site.sql("ALTER TABLE %s RENAME KEY hook_status_scheduled_date_gmt TO other" % site.table("actions"))
    store.end()
    store = Store(site)
    equal(store.facts[6], "other", "the index")
    store.survey()
    store.end()


@test("all indexes that are missing are named in one statement, which fits into the sentence")
def _(folder):
    site = fresh("no_index", version="3.6", prefix="wp_2_")
    site.sql("ALTER TABLE %s DROP KEY claim_id_status_scheduled_date_gmt" % site.table("actions"))
    alter(site)
    store = Store(site)
    equal(store.facts[6], "hook_status_scheduled_date_gmt", "the index")
    store.end()


@test("each missing privilege is named with the GRANT to run, and observe needs no more than SELECT")
def _(folder):
    site = fresh("grants")
    maria = database()
    maria.ask("CREATE OR REPLACE USER poor@'127.0.0.1' IDENTIFIED BY '%s'" % PASSWORD)
    for mode in ("observe", "enforce"):
        given = []
        for _ in range(9):
            store = Store(site, user="poor", mode=None)
            try:
                store("open", mode)
                break
            except Refused as error:
                expect(str(error).startswith("FORBIDDEN "), error)
                grant = str(error)[str(error).index("GRANT "):]
                expect(grant.endswith("TO 'poor'@'127.0.0.1'"), grant)
                given.append(grant.split(" ON ")[0])
                maria.ask(grant)
            finally:
                store.end()
        if mode == "observe":
            equal(given, ["GRANT SELECT"] * 5, "what observe asks for")
        else:
            equal(given, ["GRANT UPDATE (scheduled_date_gmt, scheduled_date_local, claim_id, status)",
                          "GRANT INSERT"], "what enforce asks for")
    store = Store(site, user="poor")
    site.add_async("a")
    equal(len(store.due("a")), 1, "actions")
    equal(store.number("move", LATER), 1, "moved with these privileges")
    store("log", "moved")
    equal(len(store("missing", "enforce")), 6, "what the front, repairs and locks need")
    for line in store("grants", "enforce"):
        maria.ask(line.rstrip(";"))
    equal(store("missing", "enforce"), [], "after all grants")
    store.end()


# ---------------------------------------------------------------- surveying


@test("a survey counts due, running, claimed, failed and the next, by hook as PHP compares hooks")
def _(folder):
    site = fresh("survey")
    plan = {"sync": 3, "Sync": 2, "sync a": 1, "sync_a": 4, "sync/a": 1, "syncs": 1, "s\u00ffnc": 1,
            "zeta": 1, "it's \\odd": 2, "x" * 191: 1}
    for hook, n in plan.items():
        for i in range(n):
            site.add_simple(hook, NOW - 100 - i)
    site.add_simple("future", NOW + 500)
    site.add_simple("future", NOW + 700)
    site.add_simple("sync", NOW - 50, status="in-progress", claim_id=9)
    site.add_simple("sync", NOW - 50, claim_id=9)
    site.add_simple("failing", NOW - 50, status="failed")
    site.add_simple("done", NOW - 50, status="complete", claim_id=3)
    store = Store(site)
    before = site.checksum()
    found = store.survey()
    equal(site.checksum(), before, "the tables after a survey")
    expect(abs(found["now"] - NOW) < 600, found["now"])
    for hook, n in plan.items():
        equal(found["hooks"][hook], (n, 1 if hook == "sync" else 0, NOW - 100 - n + 1), hook)
    for hook in ("future", "failing", "done"):
        equal(found["hooks"][hook], (0, 0, 0), hook)
    equal(len(found["hooks"]), len(plan) + 3, "hooks")
    equal((found["claimed"], found["running"], found["failed"], found["next_due"], found["cap"]),
          (1, 1, 1, NOW + 500, SURVEY_ROWS // 11), "totals")  # three spellings are one to the index
    equal(store.survey(86400)["hooks"]["future"][0], 2, "due within a day")
    store.end()


@test("a hook is counted up to the cap")
def _(folder):
    site = fresh("capped")
    site.add_many(1200, ["sync"], NOW - 9000, 1000)
    store = Store(site)
    found = store.survey()
    equal((found["cap"], found["hooks"]), (CAP, {"sync": (CAP + 1, 0, NOW - 9000)}), "hooks")
    store.end()


@test("hooks are found whatever the collation of the table")
def _(folder):
    hooks = ["import", "imports", "import_x", "import/y", "import-z", "import1", "Import", "a b", "a"]
    for charset, collation in (("utf8mb4", "general_ci"), ("utf8mb4", "bin"), ("latin1", "swedish_ci"),
                               ("utf8mb3", "unicode_ci")):
        site = fresh("collations")
        site.sql("ALTER TABLE %s CONVERT TO CHARACTER SET %s COLLATE %s_%s" % (
            site.table("actions"), charset, charset, collation))
        for hook in hooks:
            site.add_simple(hook, NOW - 9)
        store = Store(site)
        equal({h: n[0] for h, n in store.survey()["hooks"].items()}, dict.fromkeys(hooks, 1), collation)
        equal(len(store.due("Import")), 1, "actions of one spelling")
        store.end()


def end_session(store):
    """The server adds up the counters of a session at its end, which may come after its answers."""
    store.end()
    until(lambda: not database().ask("SELECT 1 FROM information_schema.PROCESSLIST"
                                     " WHERE USER = 'weir'"), what="the end of the session")


def survey_many(n):
    """With n due actions a survey reads a bounded number of rows, and a move at most 3x its own."""
    site = fresh("many")
    hooks = ["sync_stock", "Sync_stock", "payment", "renewal", "import", "mail", "zeta"]
    site.add_many(n, hooks, NOW - 90000, 86400)
    store = Store(site)
    store.survey()
    with counted(user_counters, database(), "weir") as used:
        found = store.survey()
        end_session(store)
    equal(set(found["hooks"]), set(hooks), "hooks")
    equal(found["cap"], SURVEY_ROWS // 6, "cap")
    for hook in hooks[2:]:
        equal(found["hooks"][hook][0], found["cap"] + 1, hook)
    equal(sum(found["hooks"][h][0] for h in hooks[:2]), found["cap"] + 1, "both spellings")
    print("# survey of %d: %d rows read, %.1f ms of the server's processor, %.1f ms in all" % (
        n, used["ROWS_READ"], used["CPU_TIME"] * 1e3, found["took_us"] / 1e3))
    expect(used["ROWS_READ"] <= 2 * SURVEY_ROWS, used)
    store = Store(site)
    with counted(user_counters, database(), "weir") as used:
        moved = 0
        for _ in range(4):
            equal(len(store.due("mail")), 500, "read")
            moved += store.number("move", LATER)
        end_session(store)
    equal(moved, 2000, "moved")
    print("# 2000 moved: %d rows read" % used["ROWS_READ"])
    expect(used["ROWS_READ"] <= 3 * moved, used)
    equal(used["ROWS_UPDATED"], moved, "rows written")


@test("at many due actions a survey reads a bounded number of rows, and a move at most 3x its own")
def _(folder):
    survey_many(8 * SURVEY_ROWS)


@test("at a million due actions a survey reads a bounded number of rows, and a move at most 3x its own",
      outer=True)
def _(folder):
    survey_many(1000000)


@test("many hooks have a smaller cap each, so that a survey stays bounded")
def _(folder):
    site = fresh("hooks")
    hooks = ["hook_%d" % i for i in range(400)]
    site.add_many(8000, hooks, NOW - 90000, 86400)
    store = Store(site)
    found = store.survey()
    equal((len(found["hooks"]), found["cap"], found["is_cut"]), (400, 12, 0), "hooks and their cap")
    equal({n[0] for n in found["hooks"].values()}, {13}, "counts")
    site.add_many(2000, ["more_%d" % i for i in range(2000)], NOW - 90000, 86400)
    found = store.survey()
    equal((len(found["hooks"]), found["is_cut"]), (2000, 1), "hooks")
    store.end()


# ---------------------------------------------------------------- moving


@test("a move and a return restore both columns, and nothing else is ever changed")
def _(folder):
    site = fresh("moves", local_s=7200)
    for i in range(300):
        at = NOW - 5000 + i * 7
        [lambda: site.add_simple("sync", at), lambda: site.add_interval("sync", at, 3600),
         lambda: site.add_cron("sync", at - at % 60, "* * * * *"),
         lambda: site.add_async("sync")][i % 4]()
    site.add_simple("Sync", NOW - 5000)
    site.add_simple("other", NOW - 5000)
    odd = site.add_simple("sync", NOW - 10, scheduled_date_local="0000-00-00 00:00:00")
    site.add_simple("sync", NOW - 10, scheduled_date_gmt="0000-00-00 00:00:00")
    broken = site.add_simple("sync", NOW - 11)
    site.sql("UPDATE %s SET schedule = '12345' WHERE action_id = %d" % (site.table("actions"), broken))
    before, rest = site.checksum(), rest_of(site)
    store = Store(site)
    rows = store.due("sync")
    equal(len(rows), 302, "rows")
    equal([r[2] for r in rows], sorted(r[2] for r in rows), "their order")
    expect(all(r[1] == r[2] for r in rows), "originals")
    equal(sum(r[3] for r in rows), 76, "without a date in the schedule")
    expect([r for r in rows if r[0] == broken][0][3], "a schedule that cannot be read")
    equal(store.number("move", LATER), 302, "moved")
    moved = dates(site, "scheduled_date_gmt = '%s'" % utc(LATER))
    equal(set(moved), {r[0] for r in rows}, "those that were moved")
    for action, _, _, is_async in rows:
        if action != odd and not is_async:
            equal(moved[action][1], utc(LATER + 7200), "local date of %d" % action)
    equal(moved[odd][1], "0000-00-00 00:00:00", "a local date of zero")
    equal(rest_of(site), rest, "the other columns")
    other = Store(site)
    equal(other.due("sync"), [], "due")
    again = {r[0]: r for r in other.due("sync", by=LATER)}
    equal({r[0]: r[1] for r in rows if not r[3]}, {a: r[1] for a, r in again.items() if not r[3]},
          "originals of actions that have them in their schedule")
    equal({r[2] for r in again.values()}, {LATER}, "current dates")
    other.end()
    equal(store.number("return", LATER, 0), 302, "returned")
    equal(site.checksum(), before, "the tables")
    store.end()


@test("shift and return take the rows of a step, at either date")
def _(folder):
    site = fresh("steps", local_s=-3600)
    for i in range(120):
        site.add_simple("sync", NOW - 5000 + i) if i % 2 else site.add_async("sync")
    before, mine = site.checksum(), dates(site)
    store = Store(site)
    equal(len(store.due("sync")), 120, "rows")
    equal(store.number("move", LATER), 120, "moved")
    equal(store.number("shift", LATER + 60, LATER, 0), 120, "shifted")
    equal({d[0] for d in dates(site).values()}, {utc(LATER + 60)}, "dates")
    equal(store.number("shift", LATER + 90, LATER, 0), 0, "shifted from a date that none has")
    equal(store.number("return", LATER, LATER + 60), 120, "returned")
    equal(dates(site), mine, "dates")
    equal(site.checksum(), before, "the tables")
    equal(store.number("return", LATER, LATER + 60), 0, "returned again")
    store.end()


@test("claimed, running, finished and edited actions are left alone; a claim does not keep a date from coming back")
def _(folder):
    site = fresh("edited")
    ids = [site.add_simple("sync", NOW - 1000 + i) for i in range(10)]
    store = Store(site)
    equal([r[0] for r in store.due("sync")], ids, "read")
    table = site.table("actions")
    site.sql("UPDATE %s SET claim_id = 7 WHERE action_id = %d" % (table, ids[0]))
    site.sql("UPDATE %s SET status = 'in-progress' WHERE action_id = %d" % (table, ids[1]))
    site.sql("UPDATE %s SET status = 'canceled' WHERE action_id = %d" % (table, ids[2]))
    site.sql("UPDATE %s SET scheduled_date_gmt = '%s' WHERE action_id = %d" % (table, utc(NOW + 5), ids[3]))
    site.sql("DELETE FROM %s WHERE action_id = %d" % (table, ids[4]))
    before = dates(site)
    equal(store.number("move", LATER), 5, "moved")
    after = dates(site)
    equal({a for a in after if after[a] != before[a]}, set(ids[5:]), "those that were moved")
    equal([int(i) for i in store("keep", LATER)], ids[5:], "those that have the date")
    site.sql("UPDATE %s SET claim_id = 7 WHERE action_id = %d" % (table, ids[5]))
    site.sql("UPDATE %s SET scheduled_date_gmt = '%s' WHERE action_id = %d" % (table, utc(NOW + 5), ids[6]))
    equal(store.number("return", LATER, 0), 4, "returned")
    back = "action_id IN (%s)" % ", ".join(str(i) for i in [ids[5]] + ids[7:])
    equal(dates(site, back), {a: d for a, d in before.items() if a == ids[5] or a > ids[6]}, "dates")
    store.end()


@test("async actions are moved where they have a date; before Action Scheduler 3.5.4 they have none and stay")
def _(folder):
    for version, n in (("3.1", 0), ("3.5", 3)):
        site = fresh("async", version=version)
        alter(site)
        for _ in range(3):
            site.add_async("sync")
        before = site.checksum()
        store = Store(site)
        equal(len(store.due("sync")), n, "read in " + version)
        equal(store.number("move", LATER), n, "moved in " + version)
        equal(store.number("return", LATER, 0), n, "returned in " + version)
        equal(site.checksum(), before, "the tables of " + version)
        store.end()


@test("a date that a person brought forward is the one that comes back")
def _(folder):
    site = fresh("forward")
    early = site.add_simple("sync", NOW - 100)
    site.sql("UPDATE %s SET schedule = REPLACE(schedule, '%d', '%d')" % (
        site.table("actions"), NOW - 100, NOW + 9000))
    late = site.add_simple("sync", NOW - 4000)
    site.sql("UPDATE %s SET scheduled_date_gmt = '%s' WHERE action_id = %d" % (
        site.table("actions"), utc(NOW - 90), late))
    store = Store(site)
    equal(store.due("sync"), [(early, NOW - 100, NOW - 100, 0), (late, NOW - 4000, NOW - 90, 0)], "rows")
    equal([r[0] for r in store.due("sync", not_before=NOW - 95)], [late], "not before")
    store.end()


@test("locked rows are not waited for: the rest moves, in smaller batches that grow again")
def _(folder):
    site = fresh("locked")
    ids = [site.add_simple("sync", NOW - 1000 + i) for i in range(200)]
    store = Store(site)
    equal(len(store.due("sync")), 200, "read")
    holder = database().connect(database=site.database)
    holder("BEGIN")
    holder("SELECT * FROM %s WHERE action_id = %d FOR UPDATE" % (site.table("actions"), ids[77]))
    lines = store("move", LATER)
    moved = int(lines[0])
    expect(190 <= moved < 200, moved)
    equal(lines[1], "refused", "what became of the others")
    at_once = int(store("reached")[0].split()[0])
    expect(at_once < 500, at_once)
    equal(len(store("keep", LATER)), moved, "those that have the date")
    holder("UPDATE %s SET claim_id = 5" % site.table("actions"))
    equal(store("return", LATER, 0), ["0", "refused"], "returned while every row is locked")
    holder("ROLLBACK")
    equal(store("return", LATER, 0), [str(moved), "all"], "returned")
    equal({d[0] for d in dates(site).values()}, {utc(NOW - 1000 + i) for i in range(200)}, "dates")
    for _ in range(20):
        store.number("move", LATER)
        store.number("return", LATER, 0)
    equal(int(store("reached")[0].split()[0]), 500, "rows at once")
    waits = database().ask("SHOW GLOBAL STATUS LIKE 'Innodb_row_lock_time'")
    equal(int(waits[0][1]), 0, "milliseconds of waiting for row locks")
    holder.close()
    store.end()


@test("a server that logs statements takes moves, too")
def _(folder):
    maria = server("statements", "--log-bin=log", "--binlog-format=STATEMENT", "--server-id=1")
    site = fresh("statements", maria=maria)
    site.add_simple("sync", NOW - 10)
    store = Store(site)
    equal(len(store.due("sync")), 1, "read")
    equal(store.number("move", LATER), 1, "moved")
    store("log", "moved")
    equal(store.number("return", LATER, 0), 1, "returned")
    store.end()
    site.close()
    maria.kill()


@test("other spellings of a hook are never moved, however many come first")
def _(folder):
    site = fresh("spellings")
    site.add_many(600, ["Sync"], NOW - 9000, 1000)
    mine = [site.add_simple("sync", NOW - 10) for _ in range(3)]
    store = Store(site)
    equal([r[0] for r in store.due("sync", limit=100)], mine, "rows")
    equal(store.number("move", LATER), 3, "moved")
    equal(store.due("sync", limit=100), [], "rows")
    equal(set(dates(site, "scheduled_date_gmt = '%s'" % utc(LATER))), set(mine), "moved")
    store.end()


@test("the log of Action Scheduler gets a line for each action, in the site's own time")
def _(folder):
    site = fresh("logs", local_s=-12600)
    ids = [site.add_async("sync") for _ in range(30)]
    store = Store(site)
    store.due("sync")
    store.number("move", LATER)
    store("log", "weir: it's 50% \\late")
    rows = site.sql("SELECT action_id, TIMESTAMPDIFF(SECOND, log_date_gmt, log_date_local),"
                    " ABS(TIMESTAMPDIFF(SECOND, UTC_TIMESTAMP(), log_date_gmt)) < 600 FROM %s"
                    " WHERE message = 'weir: it\\'s 50%% \\\\late' ORDER BY action_id" % site.table("logs"))
    equal(rows, [[str(i), "-12600", "1"] for i in ids], "lines")
    store.end()


@test("a return has a line in the log only where the move has one")
def _(folder):
    site = fresh("pairs")
    now, moved = "weir: deferred to 2026-01-01 00:00:00 UTC, tier normal: x", {}
    back = "weir: returned to its date; the database is calm again"
    for lines, wanted in (((), 0), ((now,), 1), ((now, back), 0), ((now, back, now), 1), ((now, now), 1),
                          (("action created", "it was weir: deferred to it"), 0), ((now, "action started"), 1)):
        action = site.add_simple("sync", NOW - 100)
        for line in lines:
            site.log(action, line)
        moved[action] = lines.count(back) + wanted
    site.add_many(3000, ["other"], NOW - 900, 100, is_logged=True)
    store = Store(site)
    equal(len(store.due("sync")), len(moved), "read")
    with counted(user_counters, database(), "weir") as used:
        store("log_returned", back)
        end_session(store)
    equal({a: site.logs(a).count(back) for a in moved}, moved, "lines of returns")
    expect(used["ROWS_READ"] < 100, used)


# ---------------------------------------------------------------- temporary tables


def on_disk(log):
    """The statements that made a temporary table on disk, from the slow log."""
    found = []
    for part in log.split("# User@Host: ")[1:]:
        made = re.search(r"Tmp_disk_tables: (\d+)", part)
        if part.startswith("weir[") and made and int(made[1]):
            text = part.split("SET timestamp=")[1].split("\n", 1)[1]
            found.append(text.strip())
    return found


@test("no survey, move, repair, slice or report makes a temporary table on disk")
def _(folder):
    maria, slow = database(), os.path.join(folder, "slow")
    site = fresh("temporary")
    for i in range(60):
        for hook in ("sync", "Sync", "payment"):
            site.add_simple(hook, NOW - 900 - i, args=[i % 7])
            site.add_interval(hook, NOW - 800 - i, 3600)
            done = site.add_simple(hook, NOW - 9 * DAY - i, status="complete", last_attempt_gmt=utc(NOW - 9 * DAY))
            lost = site.add_async(hook, status="failed", last_attempt_gmt=utc(NOW - 60))
            site.log(done, "action complete")
            site.log(lost, "Unable to update the status of action %d to in-progress." % lost)
        site.add_simple("running", NOW, status="in-progress", claim_id=9)
        site.add_simple("Running", NOW - 900, claim_id=7, last_attempt_gmt=utc(NOW - 900))
        site.add_simple("retried", NOW - 900, status="failed", last_attempt_gmt=utc(NOW - 60))
    site.sql("INSERT INTO %s (claim_id, date_created_gmt) VALUES (7, '%s'), (8, '%s')" % (
        site.table("claims"), utc(NOW - 900), utc(NOW - 900)))
    site.set_option("weir_lock_%s" % ("0" * 32), "1|0||x")
    maria.ask("SET GLOBAL slow_query_log_file = '%s'" % slow, "SET GLOBAL long_query_time = 0",
              "SET GLOBAL log_slow_verbosity = 'query_plan'", "SET GLOBAL slow_query_log = 1")
    try:
        store = Store(site, more=(300, DAY, DAY, "retried", 3, 60))
        store.survey(60)
        for hook in ("sync", "Sync"):
            store.due(hook)
            store.number("move", LATER)
            store("keep", LATER)
            store("log", "weir: deferred to then")
            store("log_returned", "weir: returned to its date")
            store.number("shift", LATER + 60, LATER, 0)
            store.number("return", LATER, LATER + 60)
        store("find", "payment", "sync")
        store("pace", "payment", "sync")
        for mode in ("observe", "enforce"):
            for _ in range(5):
                store("repair", mode, 1, *[mode] * 7, "payment")
        for _ in range(5):
            store("purge", "enforce", 1, "enforce")
        store("report")
        end_session(store)
    finally:
        maria.ask("SET GLOBAL slow_query_log = 0", "SET GLOBAL long_query_time = 10")
    log = open(slow, errors="replace").read()
    expect(log.count("weir[weir]") > 100, log[-500:])
    # A connection begins with the columns of the table, which information_schema has as BLOBs.
    found = [sql for sql in on_disk(log) if "information_schema.COLUMNS" not in sql]
    equal(found, [], "statements with a temporary table on disk")


main()
