#!/usr/bin/python3
# weir-test: timeout=300 long outer=part
"""Moving between Action Scheduler and weir on a real MariaDB: everything an action has comes along,
and whatever is killed, each action runs in Action Scheduler or is a job of weir, never both, never
neither."""
import functools
import json
import os
import re
import subprocess
import sys
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import lib_actionscheduler as bed  # noqa: E402
from lib_databases import PASSWORD, write_config  # noqa: E402
from harness import HANG_S, WEIR, Server, claim, equal, expect, main, test, text, until, weir  # noqa: E402

HOUR = 3600

# Loaded before the C library: the KILL_AT-th send ends the process instead.
KILLER = """
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>
static int left;
__attribute__((constructor)) static void begin(void) { left = atoi(getenv("KILL_AT")); }
ssize_t sendto(int fd, const void *data, size_t n, int flags, const struct sockaddr *to, socklen_t len)
{
        if (__atomic_sub_fetch(&left, 1, __ATOMIC_SEQ_CST) == 0)
                kill(getpid(), SIGKILL);
        return syscall(SYS_sendto, fd, data, n, flags, to, len);
}
ssize_t send(int fd, const void *data, size_t n, int flags)
{
        return sendto(fd, data, n, flags, NULL, 0);
}
"""


@functools.lru_cache(None)
def killer():
    path = os.path.join(maria().folder, "killer.so")
    subprocess.run(["cc", "-shared", "-fPIC", "-D_GNU_SOURCE", "-x", "c", "-", "-o", path],
                   input=KILLER, text=True, check=True)
    return path


@functools.lru_cache(None)
def maria():
    m = bed.server("moving")
    m.ask("CREATE USER weir@localhost IDENTIFIED BY '%s'" % PASSWORD,
          "GRANT ALL ON *.* TO weir@localhost")
    return m


class Bed:
    """A site with its own database and a weir whose configuration names it."""

    def __init__(self, folder, version="3.8", user="weir", **site):
        self.folder = folder
        os.makedirs(folder, exist_ok=True)
        self.site = bed.Site(maria(), version, database="db%d" % time.monotonic_ns(), **site)
        self.config = write_config(folder, """
wordpress "shop" {
        socket = "%s" user = "%s" password_file = "SECRET" database = "%s" prefix = "%s" mode = "off"
}""" % (maria().socket, user, self.site.database, self.site.prefix))
        self.server = Server(folder, "-c", self.config)

    def words(self, direction, *more):
        return [direction, "actionscheduler", "-c", self.config, "--wordpress", "shop", "--url",
                "redis://%s:%d" % self.server.resp, *more]

    def move(self, direction, *more, code=0):
        """What it said, as JSON."""
        done = weir(*self.words(direction, "--json", *more))
        expect(done.returncode == code, "weir %s %s: exit code %d\n%s%s" % (
            direction, more, done.returncode, done.stdout, done.stderr))
        return json.loads(done.stdout) if done.stdout else done.stderr

    def killed(self, direction, n, *more):
        """The same, killed when it sends for the n-th time.  False: it came to its end before."""
        done = subprocess.run(
            [WEIR, *self.words(direction, *more)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, timeout=HANG_S,
            env={**os.environ, "LD_PRELOAD": killer(), "KILL_AT": str(n), "ASAN_OPTIONS":
                 os.environ.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0"})
        expect(done.returncode in (-9, 0, 1), "%d: %s" % (done.returncode, done.stdout))
        return done.returncode not in (0, 1)

    def listed(self, path, what):
        found, cursor = [], ""
        with self.server.web() as w:
            while True:
                page = w.good("GET", path + "limit=500" + (cursor and "&cursor=" + cursor))
                found += page[what]
                cursor = page["cursor"]
                if not cursor:
                    return found

    def jobs(self, status="pending"):
        return self.listed("/v1/jobs?status=%s&" % status, "jobs")

    def schedules(self):
        """{name: all of it}"""
        with self.server.web() as w:
            return {row["name"]: w.good("GET", "/v1/schedules/" + row["name"])
                    for row in self.listed("/v1/schedules?", "schedules")}

    def actions(self, status="pending"):
        return [self.site.action(int(row[0])) for row in self.site.sql(
            "SELECT action_id FROM %s WHERE status = %s ORDER BY action_id" % (
                self.site.table("actions"), bed.quote(status)))]

    def slug(self, group_id):
        return self.site.sql("SELECT slug FROM %s WHERE group_id = %s" % (
            self.site.table("groups"), group_id))[0][0]


def action_of(job):
    """The action that a job was, from its mark."""
    return int(job["options"]["key"].split(":")[2])


def fill(site, now):
    """One of each kind of single action, with everything it may have."""
    long_args = {"text": "ä" * 150, "list": list(range(50))}
    return {
        "async": site.add_async("mail_send", args=["a", 1], group="mail", priority=3),
        "later": site.add_simple("sync_run", now + HOUR, args={"id": 17}, group="sync", priority=200),
        "due": site.add_simple("sync_run", now - HOUR, args=[]),
        "long": site.add_simple("sync_long", now + 2 * HOUR, args=long_args),
        "other": site.add_simple("Sync_Other", now + HOUR),
    }


def add_yearly(site, at):
    """A cron action with a sixth field."""
    schedule = bed.schedule_cron(at, "0 0 1 1 * 2030").replace("a:5:{i:0;s", "a:6:{i:0;s")
    return site._add("yearly", at, at, schedule)


@test("a single action comes with hook, args, group, priority and date, and is ended in Action Scheduler")
def singles(folder):
    b = Bed(folder)
    now = int(time.time())
    made = fill(b.site, now)
    before = {name: b.site.action(a) for name, a in made.items()}
    told = b.move("import", "--queue", "wp")
    equal((told["jobs"], told["schedules"], told["left"]), (5, 0, []), "moved")
    jobs = {action_of(j): j for j in b.jobs()}
    for name, hook, args, group, priority in (
            ("async", "mail_send", ["a", 1], "mail", 3), ("later", "sync_run", {"id": 17}, "sync", 200),
            ("due", "sync_run", [], "", 10), ("other", "Sync_Other", [], "", 10)):
        j = jobs[made[name]]
        equal((j["hook"], j["args"], j["group"], j["priority"], j["queue"], j["attempts"]),
              (hook, args, group, priority, "wp", 1), name)
    equal(jobs[made["later"]]["due_ms"], (now + HOUR) * 1000, "the date")
    equal(jobs[made["long"]]["args"]["list"][49], 49, "extended args")
    expect(jobs[made["due"]]["due_ms"] <= int(time.time() * 1000), "the due one is due")
    for name, action in made.items():
        row = b.site.action(action)
        equal((row["status"], row["claim_id"]), ("canceled", "0"), name)
        equal({k: row[k] for k in ("hook", "args", "schedule", "scheduled_date_gmt")},
              {k: before[name][k] for k in ("hook", "args", "schedule", "scheduled_date_gmt")}, name)
        equal(b.site.logs(action)[-1], "weir: moved to weir as job %d" % jobs[action]["id"], "log")
    equal(b.move("import")["jobs"], 0, "once more")
    equal(len(b.jobs()), 5, "jobs")


@test("only the hooks that are named move, in their exact case, and --limit bounds it")
def chooses(folder):
    b = Bed(folder)
    made = fill(b.site, int(time.time()))
    equal(b.move("import", "--hooks", "sync_*,nothing")["jobs"], 3, "moved")
    equal(b.site.action(made["other"])["status"], "pending", "Sync_Other")
    equal(b.site.action(made["async"])["status"], "pending", "mail_send")
    equal(b.move("import", "--limit", "1")["jobs"], 1, "one more")
    equal(b.site.counts()["pending"], 1, "pending")
    own = b.site.add_simple("action_scheduler/migration_hook", int(time.time()))
    equal(b.move("import")["jobs"], 1, "the rest")
    equal(b.site.action(own)["status"], "pending", "a hook of Action Scheduler itself")
    equal(b.move("import", "--hooks", "action_scheduler/*")["jobs"], 1, "when it is named")


@test("a dry run counts by hook and changes nothing on either side")
def dry(folder):
    b = Bed(folder)
    now = int(time.time())
    fill(b.site, now)
    b.site.add_interval("tick", now + HOUR, 300)
    add_yearly(b.site, now + HOUR)
    before = b.site.checksum()
    told = b.move("import", "--dry-run")
    equal({row["hook"]: row["count"] for row in told["hooks"]},
          {"mail_send": 1, "sync_run": 2, "sync_long": 1, "Sync_Other": 1, "tick": 1}, "by hook")
    equal((told["jobs"], told["schedules"]), (5, 1), "counts")
    equal([(row["reason"], row["count"]) for row in told["left"]],
          [("a cron expression with a year", 1)], "left")
    equal(b.site.checksum(), before, "checksum")
    equal(b.jobs(), [], "jobs")


@test("recurring actions become schedules that go on where they were, and one that is due runs once")
def recurring(folder):
    b = Bed(folder)
    now = int(time.time())
    later = b.site.add_interval("tick", now + HOUR, 300, args=[1], group="g", priority=4)
    due = b.site.add_interval("late", now - 100, 7 * HOUR)
    cron = b.site.add_cron("report", now - now % 86400 + 2 * 86400, "0 0 * * *")
    twin = b.site.add_interval("late", now + 50000, 7 * HOUR)
    told = b.move("import", code=1)
    equal((told["jobs"], told["schedules"]), (0, 3), "moved")
    equal([(r["reason"], r["count"], r["first"]) for r in told["left"]],
          [("another schedule has the same hook, args and group", 1, "action %d" % twin)], "left")
    row = b.site.action(twin)
    equal((row["status"], row["claim_id"]), ("pending", "0"), "the twin")
    found = {s["hook"]: s for s in b.schedules().values()}
    tick, late, report = found["tick"], found["late"], found["report"]
    equal((tick["every_ms"], tick["next_ms"], tick["args"], tick["group"], tick["priority"]),
          (300000, (now + HOUR) * 1000, [1], "g", 4), "tick")
    equal((late["every_ms"], late["next_ms"], late["name"]),
          (7 * HOUR * 1000, (now - 100 + 7 * HOUR) * 1000, "shop:late"), "late")
    equal((report["cron"], report["zone"], report["next_ms"]),
          ("0 0 * * *", "UTC", (now - now % 86400 + 2 * 86400) * 1000), "report")
    equal([(j["hook"], action_of(j)) for j in b.jobs()], [("late", due)], "the one that was due")
    for action in (later, due, cron):
        expect(re.match("weir: moved to weir as schedule shop:", b.site.logs(action)[-1]),
               b.site.logs(action))
    b.move("import", code=1)
    equal((len(b.schedules()), len(b.jobs())), (3, 1), "the same after another import")


@test("what cannot be moved is named and stays as it was")
def leaves(folder):
    b = Bed(folder)
    now = int(time.time())
    kept = [
        add_yearly(b.site, now + HOUR),
        b.site.add_simple("text", now, args="no list"),
        b.site._add("strange", now, now, 'O:7:"MyClass":0:{}'),
        b.site.add_simple("gone", now),
    ]
    b.site.sql("UPDATE %s SET args = '%s' WHERE action_id = %d" % (
        b.site.table("actions"), "0123456789abcdef" * 2, kept[3]))
    claimed = b.site.add_simple("claimed", now, claim_id=7)
    before = b.site.checksum()
    told = b.move("import", code=1)
    equal(sorted(row["count"] for row in told["left"]), [1, 1, 1, 1], "left")
    after = b.site.checksum()
    for table in after:
        if "claims" not in table and "options" not in table:
            equal(after[table], before[table], table)
    equal(b.jobs(), [], "jobs")
    equal(b.site.action(claimed)["claim_id"], "7", "claimed by a runner")


@test("every store version moves; a unique action of 4.2 keeps its key, and frees it at the site")
def versions(folder):
    now = int(time.time())
    for version, row in bed.VERSIONS.items():
        if bed.DUE_INDEX[0] not in row[3]:
            continue  # weir asks for an ALTER TABLE first
        b = Bed(os.path.join(folder, version.replace(" ", "_")), version)
        b.site.add_simple("sync_run", now + HOUR, group="g", unique_key="v1:abc")
        equal(b.move("import")["jobs"], 1, version)
        job, = b.jobs()
        equal(job["options"].get("unique"), "wordpress:shop:v1:abc" if b.site.has_unique else None, version)
        if b.site.has_unique:
            b.site.add_simple("sync_run", now + HOUR, group="g", unique_key="v1:abc")
        b.server.stop()


@test("an action that weir had moved to a later date comes with its original date")
def original_dates(folder):
    b = Bed(folder)
    now = int(time.time())
    simple = b.site.add_simple("sync_run", now + HOUR)
    fresh = b.site.add_async("mail_send")
    b.site.sql("UPDATE %s SET scheduled_date_gmt = %s" % (
        b.site.table("actions"), bed.quote(bed.utc(now + 9 * HOUR))))
    b.move("import")
    jobs = {action_of(j): j for j in b.jobs()}
    equal(jobs[simple]["due_ms"], (now + HOUR) * 1000, "simple")
    expect(jobs[fresh]["due_ms"] <= time.time() * 1000, "async")


def check_each(b, actions):
    """Each ran in Action Scheduler or is one job of weir."""
    ran = [int(row[0]) for row in b.site.sql("SELECT action_id FROM ran")]
    jobs = [action_of(j) for j in b.jobs()]
    both = sorted(ran + jobs)
    failed = {action for action, status in b.site.never_run() if status == "failed"}
    equal([a for a in actions if both.count(a) != 1 and a not in failed], [], "neither, or both")
    equal(sorted(set(both) - set(actions)), [], "unknown")
    return len(ran), len(jobs)


def kill_imports(folder, step):
    b = Bed(folder)
    now, actions, ticks, n = int(time.time()), [], [], 1
    while True:
        actions += [b.site.add_simple("sync_run", now - i, args=[i]) for i in range(3)]
        actions.append(b.site.add_interval("tick%d" % n, now - 10, HOUR))
        ticks.append("shop:tick%d" % n)
        # The one after a crash may have other options, and may come days later.
        if not b.killed("import", n, "--queue", "q%d" % (len(ticks) % 2)):
            break
        if len(ticks) % 3 == 0:
            b.site.sql("UPDATE %s SET last_attempt_gmt = last_attempt_gmt - INTERVAL 2 DAY"
                       " WHERE claim_id != 0" % b.site.table("actions"))
        n += step
    expect(n > 21, "it sent %d times" % n)
    b.move("import")
    equal(b.site.counts()["canceled"], len(actions), "ended in Action Scheduler")
    equal(b.site.claimed(), 0, "claimed")
    check_each(b, actions)
    equal(sorted(b.schedules()), sorted(ticks), "schedules")
    for action in actions:
        equal(len([line for line in b.site.logs(action) if "weir: moved to" in line]), 1,
              b.site.logs(action))


@test("killed at every fifth of its sends and run again: every action is one job")
def kills(folder):
    kill_imports(folder, 5)


@test("killed at each of its sends and run again: every action is one job", outer=True)
def all_kills(folder):
    kill_imports(folder, 1)


@test("what weir refuses is pending again, with the reason in its log")
def refused(folder):
    b = Bed(folder)
    now = int(time.time())
    given = [b.site.add_simple("bad\nhook", now + HOUR), b.site.add_simple("ok", now + HOUR, group="a\nb"),
             b.site.add_cron("last", now - 60, "0 0 99 * *"), b.site.add_interval("far", now, 10 ** 12)]
    fine = b.site.add_simple("fine", now + HOUR)
    before = [b.site.action(a) for a in given]
    told = b.move("import", code=1)
    equal((told["jobs"], told["schedules"], sum(r["count"] for r in told["left"])), (1, 0, 4), "moved and left")
    equal([b.site.action(a) for a in given], before, "actions")
    for action in given:
        expect(b.site.logs(action)[-1].startswith("weir: given back: "), b.site.logs(action))
    equal([action_of(j) for j in b.jobs()], [fine], "jobs")
    equal(b.schedules(), {}, "schedules")


@test("runners race the import, with kills: each action runs there or is a job here")
def races(folder):
    b = Bed(folder)
    now = int(time.time())
    b.site.add_many(900, ["sync_run", "mail_send"], now - 60, 30)
    seen = len(maria().log())
    runners = [bed.Runner(b.site, concurrent=4, work={"*": {"ms": 5}}) for _ in range(2)]
    until(lambda: b.site.sql("SELECT 1 FROM ran LIMIT 1"), 30, "a run")
    for n in (45, 60, 75):
        b.killed("import", n)
    b.move("import", "--limit", "300")
    while not b.jobs():  # the runners were first, each time
        b.site.add_many(900, ["sync_run", "mail_send"], now - 60, 30)
        b.move("import", "--limit", "300")
    until(lambda: not b.site.counts()["pending"], what="the runners are done")
    for runner in runners:
        runner.stop()
    b.move("import")
    actions = [int(row[0]) for row in b.site.sql("SELECT action_id FROM %s" % b.site.table("actions"))]
    ran, jobs = check_each(b, actions)
    expect(ran > 0 and jobs > 0, "%d ran, %d jobs" % (ran, jobs))
    equal(b.site.run_twice(), [], "ran twice")
    expect(not any("weir" in users for users in bed.deadlocks(maria().log()[seen:])), "in a deadlock")


def essence(b, row):
    """What must be the same of an action that went to weir and back."""
    return (row["hook"], row["args"], row["extended_args"], b.slug(row["group_id"]), row["priority"],
            row["schedule"], row["scheduled_date_gmt"], row["scheduled_date_local"], row["attempts"],
            row["claim_id"], row["last_attempt_gmt"])


@test("there and back again: hooks, args, groups, priorities, dates and schedules are the same")
def round_trip(folder):
    b = Bed(folder, local_s=7200)
    now = int(time.time())
    fill(b.site, now)
    b.site.add_interval("tick", now + HOUR, 300, args=[1], group="g", priority=4)
    cron = b.site.add_cron("report", now - now % 86400 + 2 * 86400, "0 0 * * *")
    before = sorted(essence(b, row) for row in b.actions() if int(row["action_id"]) != cron)
    equal(b.move("import")["schedules"], 2, "schedules")
    told = b.move("export", "--dry-run")
    equal((told["jobs"], told["schedules"], len(b.jobs())), (5, 1, 5), "the dry run")
    told = b.move("export", code=1)
    equal((told["jobs"], told["schedules"]), (5, 1), "moved")
    equal([(r["reason"], r["count"], r["first"]) for r in told["left"]],
          [("a schedule with a cron expression", 1, "shop:report")], "left")
    equal(sorted(essence(b, row) for row in b.actions()), before, "actions")
    equal((b.jobs(), list(b.schedules())), ([], ["shop:report"]), "what weir has")
    for row in b.actions():
        action = int(row["action_id"])
        equal(b.site.logs(action)[0], "action created", "log")
        expect(re.match(r"weir: moved from (job \d+|schedule shop:tick:\w+)$", b.site.logs(action)[1]),
               b.site.logs(action))
    canceled, = [j for j in b.jobs("canceled") if j["hook"] == "mail_send"]
    with b.server.web() as w:
        events = w.good("GET", "/v1/jobs/%d/events" % canceled["id"])["events"]
    expect("moved to Action Scheduler of shop as action" in events[-1]["message"], events)
    runner = bed.Runner(b.site, until="empty")
    runner.wait()
    equal(sorted(hook for _, hook, _, _ in b.site.runs()), ["mail_send", "sync_run"], "what ran there")
    equal(b.move("export", code=1)["jobs"], 0, "once more")


@test("of version 4.2 a unique key comes back, and is refused when the site has it again")
def unique_back(folder):
    b = Bed(folder, "4.2")
    now = int(time.time())
    b.site.add_simple("sync_run", now + HOUR, unique_key="v1:abc")
    b.site.add_simple("sync_run", now + HOUR, unique_key="v1:def")
    b.move("import")
    b.site.add_simple("sync_run", now + HOUR, unique_key="v1:def")
    told = b.move("export", code=1)
    equal((told["jobs"], [r["count"] for r in told["left"]]), (1, [1]), "moved and left")
    expect("v1:def" in told["left"][0]["reason"], told["left"])
    equal(sorted(row["unique_key"] for row in b.actions()), ["v1:abc", "v1:def"], "unique keys")
    equal(len(b.jobs()), 1, "jobs")


@test("jobs that an action cannot be stay in weir and are named; a running one is never taken")
def stays(folder):
    b = Bed(folder)
    with b.server.client() as c:
        c("ENQUEUE", "ok", "", "GROUP", "new group")
        first = c("ENQUEUE", "bytes", "no json")
        for words in (["long", json.dumps(["x" * 8000])], ["limited", "[]", "LIMIT", "l"],
                      ["keyed", "[]", "KEY", "k"], ["unique", "[]", "UNIQUE", "u"],
                      ["after", "[]", "AFTER", first], ["h" * 192, "[]"], ["other", "[]", "QUEUE", "other"]):
            c("ENQUEUE", *words)
        c("SCHEDULE", "often", "often", "[]", "EVERY", "3600500")
        c("SCHEDULE", "paused", "paused", "[]", "EVERY", "60000")
        c("PAUSESCHEDULE", "paused")
        c("ENQUEUE", "running", "[]", "QUEUE", "default", "PRIORITY", "0")
        equal(claim(c)[0]["hook"], b"running", "claimed")
    told = b.move("export", "--queue", "default", code=1)
    equal((told["jobs"], told["schedules"]), (1, 0), "moved")
    equal(sorted((r["reason"], r["count"]) for r in told["left"]), [
        ("a hook of more than 191 characters", 1), ("a job with options that Action Scheduler does not have", 4),
        ("a schedule that is not active", 1), ("a schedule whose interval is not whole seconds", 1),
        ("args of more than 8000 characters", 1), ("args that are no JSON array or object", 1)], "left")
    row, = b.actions()
    equal((row["hook"], row["args"], b.slug(row["group_id"]), row["priority"]),
          ("ok", "[]", "new group", "100"), "the action")
    equal(len(b.jobs("in-progress")), 1, "running")
    equal(len(b.jobs()), 8, "pending")


def kill_exports(folder, step):
    b = Bed(folder)
    n, made = 1, []
    with b.server.client() as c:
        while True:
            c("ENQUEUE", "sync_run", "[%d]" % n)
            c("ENQUEUE", "mail_send", "[%d]" % n)
            c("SCHEDULE", "s%d" % n, "tick", "[%d]" % n, "EVERY", "3600000")
            made.append(n)
            if not b.killed("export", n):
                break
            n += step
    expect(n > 21, "it sent %d times" % n)
    b.move("export")
    equal((b.jobs(), b.schedules()), ([], {}), "what weir has")
    equal(sorted((row["hook"], row["args"]) for row in b.actions()),
          sorted((hook, "[%d]" % i) for hook in ("sync_run", "mail_send", "tick") for i in made), "actions")
    equal(b.site.counts()["canceled"], 0, "actions that were not moved")
    equal(b.site.claimed(), 0, "claimed")


@test("an export killed at every fifth of its sends and run again: each job is one action")
def export_kills(folder):
    kill_exports(folder, 5)


@test("an export killed at each of its sends and run again: each job is one action", outer=True)
def all_export_kills(folder):
    kill_exports(folder, 1)


@test("an export that is finished days later knows from the job's events whether it canceled the job")
def export_later(folder):
    b = Bed(folder)
    made, at = {}, 0
    with b.server.client() as c:
        for n, reason in enumerate(("moved to Action Scheduler of shop as action %d", "a person", None)):
            job, at = c("ENQUEUE", "sync_run", "[%d]" % n), max(0, at - 6)
            while not b.site.claimed():  # at about the same send as the one before it
                at += 1
                expect(b.killed("export", at), "it was killed")
            action = int(b.site.sql("SELECT action_id FROM %s WHERE claim_id != 0" % b.site.table("actions"))[0][0])
            made[n] = action
            equal(b.site.action(action)["status"], "canceled", "on its way")
            if reason:
                c("CANCEL", job, "REASON", reason % action if "%" in reason else reason)
            b.move("export", code=int(n == 1))
    equal([b.site.action(made[n])["status"] for n in range(3)], ["pending", "canceled", "pending"], "statuses")
    expect("not moved" in b.site.logs(made[1])[-1], b.site.logs(made[1]))
    equal(b.site.claimed(), 0, "claimed")


@test("workers race the export: each job runs in weir or is an action")
def export_races(folder):
    b = Bed(folder)
    with b.server.client() as c:
        for i in range(300):
            c("ENQUEUE", "sync_run", "[%d]" % i)
    export = subprocess.Popen([WEIR, *b.words("export")], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE)
    ran = []
    until(lambda: b.site.sql("SELECT 1 FROM %s LIMIT 1" % b.site.table("actions")), 30, "an action")
    with b.server.client() as c:
        while True:
            jobs = claim(c)
            if not jobs:
                break
            ran.append(text(jobs[0]["args"]))
            c("COMPLETE", jobs[0]["id"], jobs[0]["token"], "")
    _, said = export.communicate(timeout=HANG_S)
    expect(export.returncode in (0, 1), said)
    actions = [row["args"] for row in b.actions()]
    equal(sorted(ran + actions), sorted("[%d]" % i for i in range(300)), "each once")
    equal(b.site.claimed(), 0, "claimed")


@test("mistakes are named and change nothing")
def mistakes(folder):
    b = Bed(folder)
    b.site.add_simple("sync_run", int(time.time()))
    maria().ask("CREATE USER IF NOT EXISTS reader@localhost IDENTIFIED BY '%s'" % PASSWORD,
                "GRANT SELECT ON `%s`.* TO reader@localhost" % b.site.database)
    url = ["--url", "redis://%s:%d" % b.server.resp]
    for words, code, said in (
            (["--wordpress", "shop"], 2, "which configuration"),
            (["-c", b.config], 2, "which site"),
            (["-c", b.config, "--wordpress", "no"], 4, "no wordpress section 'no'"),
            (["-c", b.config, "--wordpress", "shop", "--hooks", "a,,b"], 2, "--hooks takes"),
            (["-c", b.config, "--wordpress", "shop", "--limit", "0"], 2, "--limit takes"),
            (["-c", b.config, "--wordpress", "shop", "more"], 2, "unexpected argument 'more'"),
            (["-c", b.config, "--wordpress", "shop", "--url", "127.0.0.1:1"], 7, "nothing answers")):
        before = b.site.checksum()
        done = weir("import", "actionscheduler", *url, *words)
        equal(done.returncode, code, "%s: %s" % (words, done.stderr))
        expect(said in done.stderr, done.stderr)
        equal(b.site.checksum(), before, "checksum")
    with open(b.config) as f:
        text = f.read().replace('"weir"', '"reader"')
    with open(b.config, "w") as f:
        f.write(text)
    expect("GRANT UPDATE ON" in b.move("import", code=3), "the GRANT is named")


if __name__ == "__main__":
    main()
