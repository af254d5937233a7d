#!/usr/bin/python3
# weir-test: timeout=120
"""The WordPress test bed itself: Action Scheduler's tables of every version, and a runner that does
what Action Scheduler's does.  What is asserted of weir's guard is measured with these."""
import functools
import os
import subprocess
import sys
import time
import types

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
sys.path.insert(0, os.path.join(HERE, "..", "..", "demo"))

import lib_actionscheduler as bed  # noqa: E402
from harness import equal, expect, main, test, until  # noqa: E402
from replay import out_of_order  # noqa: E402

# Half an hour from now: no follower becomes due while the tests run.
MINUTE = (int(time.time()) // 60 + 30) % 60
CRON = "%d * * * *" % MINUTE
KINDS = ("async", "simple", "interval", "cron")


@functools.lru_cache(None)
def maria():
    return bed.server("bed")


def names(site, sql):
    return {row[0] for row in site.sql(sql)}


def grid(at):
    """The last time of CRON that is not after it."""
    return at - (at - 60 * MINUTE) % 3600


def fill(site, n):
    """n due actions of all kinds by turns; {action: kind}"""
    now, made = int(time.time()), {}
    for i in range(n):
        kind = KINDS[i % 4]
        more = {"args": {"order": i, "note": "x" * (200 if i % 3 == 0 else 5)}, "group": "g%d" % (i % 2)}
        if site.has_priority:
            more["priority"] = 5 + i % 10
        if kind == "async":
            action = site.add_async("shop_async", **more)
        elif kind == "simple":
            action = site.add_simple("shop_simple", now - 5, **more)
        elif kind == "interval":
            action = site.add_interval("shop_interval_%d" % i, now - 5, 3600, **more)
        else:
            action = site.add_cron("shop_cron_%d" % i, grid(now - 300), CRON, **more)
        made[action] = kind
    return made


@test("the tables of every store version can be made, with the columns and indexes that tell it")
def every_version(_):
    for i, (version, row) in enumerate(bed.VERSIONS.items()):
        schema, has_priority, has_unique, _, _ = row
        site = bed.Site(maria(), version, prefix="wp_%d_" % i, database="versions")
        columns = names(site, "SHOW COLUMNS FROM " + site.table("actions"))
        indexes = {r[2] for r in site.sql("SHOW INDEX FROM " + site.table("actions"))}
        equal("priority" in columns, has_priority, "priority in " + version)
        equal("unique_key" in columns, has_unique, "unique_key in " + version)
        equal("claim_id_status_priority_scheduled_date_gmt" in indexes, schema >= 8, "index in " + version)
        equal(site.option("schema-ActionScheduler_StoreSchema").split(".")[0], str(schema), "schema")
        equal(site.option("action_scheduler_migration_status"), "complete", "migration")
        site.close()


@test("a site that was not migrated yet has no status of it, and actions that are posts")
def hybrid(_):
    site = bed.Site(maria(), prefix="old_", database="versions", is_migrated=False)
    equal(site.option("action_scheduler_migration_status"), None, "migration")
    equal(len(site.sql("SELECT 1 FROM old_posts WHERE post_type = 'scheduled-action'")), 1, "posts")
    site.close()


@test("PHP reads the schedules that the bed writes, and writes the same bytes")
def schedules(folder):
    texts = [bed.schedule_async(), bed.schedule_simple(1700000000), bed.schedule_interval(1700000000, 300),
             bed.schedule_cron(1700000100, CRON, 1699999980)]
    path = os.path.join(folder, "texts")
    with open(path, "w") as f:
        f.write("\n".join(texts))
    # The classes are the runner's; it ends with 2 when it gets no options, after they are known.
    code = ("register_shutdown_function(function () { foreach (explode(\"\\n\", file_get_contents('%s'))"
            " as $s) echo serialize(unserialize($s)) === $s ? 'same ' : 'other '; });"
            " $argv = ['x']; require '%s';" % (path, bed.RUNNER))
    done = subprocess.run(["php", "-r", code], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    equal(done.stdout.split(), ["same"] * 4, "schedules after PHP")


def drain(version, n, runners):
    site = bed.Site(maria(), version, database="drain_" + version.replace(".", "_"), local_s=7200)
    made = fill(site, n)
    workers = [bed.Runner(site, until="empty", concurrent=runners, pause_ms=20) for _ in range(runners)]
    ends = [w.wait(60) for w in workers]
    return site, made, ends, [t for w in workers for t in w.troubles()]


def check_drained(version, n, runners):
    site, made, ends, troubles = drain(version, n, runners)
    equal([t for t in troubles if t["errno"] != 1213], [], "troubles that are no deadlock")
    equal(site.run_twice(), [], "actions that ran twice")
    # What runners do to each other is theirs: such an action failed without a run, and says so.
    lost = {t["action"] for t in troubles if t["trouble"] == "start"}
    never = {action for action, status in site.never_run() if action in made}
    equal(never, lost, "actions that never ran, and those a deadlock kept from it")
    equal(site.claimed("pending", "in-progress"), 0, "actions left claimed")
    if not troubles:
        equal(site.counts()["complete"], n, "complete")
        equal(site.claims(), 0, "rows of claims")
        equal(sum(end["processed"] for end in ends), n, "processed")
    check_followers(site, made)
    site.close()


def check_followers(site, made):
    recurring = [action for action, kind in made.items() if kind in ("interval", "cron")]
    for action in recurring:
        old = site.action(action)
        new = [int(r[0]) for r in site.sql("SELECT action_id FROM %s WHERE hook = %s AND action_id != %d"
                                           % (site.table("actions"), bed.quote(old["hook"]), action))]
        equal(len(new), 1, "followers of " + old["hook"])
        new = site.action(new[0])
        for name in ("args", "extended_args", "group_id", "priority"):
            equal(new.get(name), old.get(name), name + " of the follower")
        equal(new["status"], "pending", "status of the follower")
        expect(new["scheduled_date_gmt"] > old["last_attempt_gmt"], "the follower is not later")
        if made[action] == "cron":
            expect(new["scheduled_date_gmt"][14:] == "%02d:00" % MINUTE, "not on the grid: "
                   + new["scheduled_date_gmt"])
    equal(site.counts()["pending"], len(recurring), "pending followers")


@test("one runner runs 300 actions of all kinds once each, and nothing stays claimed")
def one_runner(_):
    check_drained("3.8", 300, 1)


@test("two runners that claim as 4.x does run each action once")
def two_runners(_):
    check_drained("4.2", 120, 2)


@test("a runner works on tables without priorities")
def without_priority(_):
    check_drained("3.5", 40, 1)


@test("the gate keeps a runner out, and the claims of a killed runner stay")
def the_gate(_):
    site = bed.Site(maria(), database="gate")
    site.add_simple("slow", int(time.time()) - 1)
    first = bed.Runner(site, work={"*": {"sql": "SELECT SLEEP(600)"}})
    bed.until(lambda: site.counts()["in-progress"] == 1, what="the start of the slow action")
    site.add_simple("other", int(time.time()) - 1)
    second = bed.Runner(site, concurrent=1)
    bed.until(lambda: len(site.sql("SELECT 1 FROM information_schema.PROCESSLIST WHERE DB = 'gate'")) >= 3,
              20, "the second runner")
    first.kill()
    equal(second.stop()["claims"], 0, "claims beyond the gate")
    equal(site.claimed("in-progress"), 1, "claims of the dead runner")
    equal(site.counts()["pending"], 1, "actions that wait")
    site.close()


@test("a callback that throws leaves a failed action with the reason in its log")
def a_failure(_):
    site = bed.Site(maria(), database="failure")
    action = site.add_simple("broken", int(time.time()) - 1)
    bed.Runner(site, until="empty", work={"broken": {"throw": "no money"}}).wait()
    equal(site.action(action)["status"], "failed", "status")
    equal(site.logs(action), ["action created", "action started via WP CLI",
                              "action failed via WP CLI: no money"], "log")
    site.close()


def refuse(name, *changes):
    """A site whose server answers with a deadlock when an action is changed so."""
    site = bed.Site(maria(), database=name)
    site.sql("CREATE TRIGGER refuse BEFORE UPDATE ON %s FOR EACH ROW IF %s THEN SIGNAL SQLSTATE '40001' SET"
             " MYSQL_ERRNO = 1213, MESSAGE_TEXT = 'Deadlock found'; END IF" % (
                 site.table("actions"), " OR ".join(changes)))
    ids = [site.add_simple("x", int(time.time()) - 1) for _ in range(3)]
    runner = bed.Runner(site, survive=False, until="empty")
    return site, ids, runner.wait(), runner


STARTS, COMPLETES, FAILS, CLAIMS = ("NEW.status = 'in-progress'", "NEW.status = 'complete'",
                                    "NEW.status = 'failed'", "OLD.claim_id = 0 AND NEW.claim_id != 0")


@test("a deadlock at the start fails an action that never ran, and its log says why")
def deadlock_at_start(_):
    site, ids, _, runner = refuse("at_start", STARTS)
    equal(runner.process.returncode, 0, "exit code")
    equal(site.never_run(), [(i, "failed") for i in ids], "actions that never ran")
    equal({site.action(i)["attempts"] for i in ids}, {"0"}, "attempts")
    equal(site.logs(ids[0])[-1], "action failed via WP CLI: Unable to update the status of action %d to"
          " in-progress." % ids[0], "log")
    equal(site.claimed(), 0, "actions left claimed")
    site.close()


@test("a deadlock at the end fails an action that ran")
def deadlock_at_complete(_):
    site, ids, _, _ = refuse("at_complete", COMPLETES)
    equal(site.never_run(), [], "actions that never ran")
    equal(site.counts()["failed"], 3, "failed")
    equal({site.action(i)["attempts"] for i in ids}, {"1"}, "attempts")
    site.close()


@test("a deadlock while an action is failed ends the runner, and its batch stays claimed")
def deadlock_at_fail(_):
    site, _, end, runner = refuse("at_fail", STARTS, FAILS)
    equal((runner.process.returncode, end["deaths"]), (9, 1), "exit code and deaths")
    equal((site.claimed("pending"), site.claims()), (3, 1), "claimed actions and claims")
    site.close()


@test("a deadlock while actions are claimed ends the runner, and leaves a claim without actions")
def deadlock_at_claim(_):
    site, _, end, runner = refuse("at_claim", CLAIMS)
    equal((runner.process.returncode, end["deaths"]), (9, 1), "exit code and deaths")
    equal((site.claimed(), site.claims(), site.counts()["pending"]), (0, 1, 3), "claimed, claims, pending")
    site.close()


@test("a checksum sees one changed second, and user counters see the rows that one user read")
def readers(_):
    site = bed.Site(maria(), database="readers")
    site.add_many(5000, ("a", "b"), 1700000000, 1000, is_logged=True)
    before = site.checksum()
    equal(site.checksum(), before, "checksum of what did not change")
    site.sql("UPDATE %s SET scheduled_date_local = scheduled_date_local + INTERVAL 1 SECOND WHERE"
             " action_id = 77" % site.table("actions"))
    equal(sum(site.checksum()[t] != before[t] for t in before), 1, "tables that changed")
    maria().ask("CREATE USER reader@'127.0.0.1'", "GRANT SELECT ON *.* TO reader@'127.0.0.1'")
    reader = maria().connect(user="reader", database="readers")
    reader("SELECT 1")
    read = bed.user_counters(maria(), "reader")["ROWS_READ"]
    with bed.counted(bed.counters, maria()) as all_used:
        reader("SELECT COUNT(*) FROM (SELECT action_id FROM wp_actionscheduler_actions LIMIT 1234) AS x")
    # The server counts for a user after it has answered.
    used = until(lambda: bed.user_counters(maria(), "reader")["ROWS_READ"] - read, what="its rows")
    expect(1234 <= used <= 2 * 1234 + 5, "it read %d rows" % used)
    expect(all_used["Rows_read"] >= 1234, "the server read %d rows" % all_used["Rows_read"])
    reader.close()
    site.close()


@test("a deadlock is found in the server's log with both users")
def whose_deadlock(_):
    site = bed.Site(maria(), database="dead")
    ids = [site.add_simple("x", 1700000000) for _ in range(2)]
    maria().ask("CREATE USER other@'127.0.0.1'", "GRANT ALL ON *.* TO other@'127.0.0.1'")
    one, two = maria().connect(database="dead"), maria().connect(user="other", database="dead")
    touch = "UPDATE wp_actionscheduler_actions SET attempts = attempts + 1 WHERE action_id = %d"
    for sql, action in ((one, ids[0]), (two, ids[1])):
        sql("START TRANSACTION")
        sql(touch % action)
    n = len(bed.deadlocks(maria().log()))
    with bed.counted(bed.counters, maria()) as used:
        waiting = bed.Background(one, touch % ids[1])
        # INNODB_TRX is a copy that is not renewed while it is read often.
        bed.until(lambda: site.sql("SHOW GLOBAL STATUS LIKE 'Innodb_row_lock_current_waits'")[0][1] == "1",
                  20, "the wait of the first")
        other = bed.Background(two, touch % ids[0])
        errors = [waiting.join(), other.join()]
    equal(sum("Deadlock" in (e or "") for e in errors), 1, "victims")
    equal(used["Innodb_deadlocks"], 1, "deadlocks that the server counted")
    found = bed.until(lambda: bed.deadlocks(maria().log())[n:], what="the deadlock in the log")
    equal([sorted(set(users)) for users in found], [["other", "root"]], "users")
    for c in (one, two):
        c.close()
    site.close()


# ---------------------------------------------------------------- what demo/wordpress concludes


def moved_act(*batches, at_later=()):
    """An act of demo/replay.py with these batches, in the order in which they came back: (the later
    date they had, dates in the order of starts).  Ten of them begin in a second; those at the places
    `at_later` were not brought back."""
    runs, moved = [], {}
    for later, dates in batches:
        for date in dates:
            action, start = len(runs) + 1, 10000 + len(runs) / 10
            runs.append((action, "facebook_for_woocommerce_product_sync", start - date, start))
            moved[action] = (later, start if action in at_later else 20000)
    return types.SimpleNamespace(runs=runs, moved=moved)


@test("demo/wordpress: syncs are out of order when they begin after one of a batch that is newer as a whole")
def _(_folder):
    first, second = list(range(0, 300)), list(range(300, 600))
    for what, act, n in (
            ("the older batch first", moved_act((1, first), (2, second)), 0),
            ("a batch in parts, by ids", moved_act((1, first[::-1]), (2, second[1::2] + second[::2])), 0),
            ("the newer batch first", moved_act((1, second), (2, first)), 300),
            ("a newer batch with an old date in it", moved_act((1, [0, *second]), (2, first[1:])), 0),
            ("one that the other runner still had", moved_act((1, first[:-1]), (2, second[:10]), (1, [299])), 0),
            ("two batches with one later date", moved_act((1, first[::-1] + second[::-1])), 0),
            ("more with one later date than a batch has", moved_act((1, range(999, -1, -1))), 500),
            ("one that ran at its later date", moved_act((1, [900]), (2, first), at_later=(1,)), 0)):
        equal(out_of_order(act, "sync"), n, what)


main()
