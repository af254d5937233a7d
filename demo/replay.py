"""May 1 on a WordPress database: Action Scheduler's actions, PHP runners, a storm of heavy queries.

A replay starts a private MariaDB with the tables of a WordPress site.  Each act makes the same actions
due over the same time and lets two runners work: in the calm; with a backlog of older actions and a
storm in the middle; and the same with weir's guard.  What happened is read from the database: when
each callback began and how long after its date, what was moved, which deadlocks there were.

    replay.py PORT CLIENTS      the storm: so many clients, until it is killed

Tables, actions and runners are those of the test bed, tests/integration/lib_actionscheduler.py.
"""
import bisect
import dataclasses
import os
import subprocess
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
for folder in ("integration", "fault"):
    sys.path.insert(0, os.path.join(HERE, "..", "tests", folder))

import lib_actionscheduler as bed       # noqa: E402
import story                            # noqa: E402
from flow import Api, Weir              # noqa: E402
from lib_actionscheduler import percentile  # noqa: E402,F401
from lib_databases import MariaConnection, die_with_parent  # noqa: E402

DATABASE, PASSWORD = "shop", "only-for-the-demo"
STORM, GUARD = "storm", "weir"      # database users, so that each can be told from the others
META_ROWS = 280000
PAUSE_MS = 500      # of a runner that finds nothing due; Action Scheduler's own is seconds
PATIENCE_S = 300    # beyond what an act should take
BATCH = 500         # actions that the guard moves at once, at most

# Class, hook, how many of 1,900.  The tiers are the ones weir gives these hooks by itself.
CLASSES = (
    ("payment", "woocommerce_payment_webhook", 200),
    ("renewal", "woocommerce_scheduled_subscription_payment", 200),
    ("normal", "woocommerce_run_update", 500),
    ("sync", "facebook_for_woocommerce_product_sync", 1000),
)
CLASS_OF = {hook: name for name, hook, _ in CLASSES}
# A callback reads and writes as a plugin does.
WORK = ("UPDATE wp_postmeta m JOIN (SELECT 1 + FLOOR(RAND() * %d) AS id) AS pick ON m.meta_id = pick.id"
        " SET m.post_id = m.post_id + 1" % META_ROWS)
# A report over a column without an index, in the collation of WordPress: 0.3 s when nothing else runs.
HEAVY = "SELECT COUNT(*) FROM wp_postmeta WHERE meta_value LIKE '%paid%' OR meta_value LIKE '%c0ffee%'"
# So many reports compute at once; the others wait for them inside of the database, and run for it as well.
# It is more than the processors can do, and the same number on each machine.
COMPUTING = 32
WORDPRESS = """
wordpress "shop" {
        socket = "%s"
        user = "%s"
        password_file = "%s"
        database = "%s"
        prefix = "wp_"
        target = "shop"
        mode = "enforce"
        interval = "1s"
        repair_lost = "enforce"
        repair_claims = "enforce"
        claim_timeout = "30s"
}
"""


@dataclasses.dataclass(frozen=True)
class Plan:
    """Times are seconds."""
    share: float = 1            # of the actions of CLASSES
    backlog: int = 6000         # syncs with dates of the last hour, which come when the storm begins
    before: int = 10            # from the first date of the other actions to the storm
    storm: int = 60
    after: int = 40             # from the storm to the last date
    clients: int = 120
    runners: int = 2
    lead: int = 6               # between making the actions and the first date
    gate: story.Plan = story.Plan()     # thresholds, delays and ramp of weir

    def spread(self):
        """The actions become due over this time."""
        return self.before + self.storm + self.after

    def phase(self, second):
        """Of what is due in that second."""
        return ("before" if second < self.before else
                "storm" if second < self.before + self.storm else "after")

    def ramp_s(self):
        return self.gate.dwell + self.gate.ramp_cycles * self.gate.ramp_cycle


QUICK = Plan(share=0.4, backlog=3000, before=6, storm=20, after=14, gate=dataclasses.replace(
    story.QUICK, elevated=("0s", "0s", "40s", "90s"), critical=("0s", "30s", "40s", "90s")))


@dataclasses.dataclass
class Act:
    """What happened in one act."""
    name: str
    waits: dict                 # class: seconds from the date of each action to its start, but the backlog
    payments: dict              # before, storm, after: the same of payments that were due then
    runs: list                  # (action, hook, wait, start), in the order of starts
    made: int
    lost: list                  # (action, status): never ran, and no deadlock of a runner explains it
    doubled: list
    own_deadlocks: int          # actions that a runner's own deadlock kept from running
    deadlocks: list             # the users of each
    moved: dict                 # actions that were seen with a later date than their own: that date when
                                # they were moved, and as it was last

    def p(self, name, share):
        return bed.percentile(self.waits[name], share)


class Replay:
    """`with Replay(folder, plan, tell) as replay: replay.act(...)`; ends what it started."""

    def __init__(self, folder, plan, tell=lambda line: None):
        self.folder, self.plan, self.tell = folder, plan, tell
        self.weir = self.storm = None
        self.runners = []
        self.maria = bed.server("shop", "--thread-cache-size=200")
        self.site = bed.Site(self.maria, "3.8", database=DATABASE)
        self._make_users()
        self._make_meta()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._end_storm()
        for runner in self.runners:
            runner.kill()
        if self.weir:
            self.weir.stop()
        self.maria.kill()

    def _make_users(self):
        self.maria.ask(
            "CREATE USER %s@localhost" % story.USER, "GRANT ALL ON *.* TO %s@localhost" % story.USER,
            "CREATE USER %s@'127.0.0.1'" % STORM, "GRANT SELECT ON *.* TO %s@'127.0.0.1'" % STORM,
            "CREATE USER %s@localhost IDENTIFIED BY '%s'" % (GUARD, PASSWORD),
            "GRANT PROCESS, CONNECTION ADMIN ON *.* TO %s@localhost" % GUARD,
            "GRANT SELECT, INSERT, UPDATE, DELETE ON `%s`.* TO %s@localhost" % (DATABASE, GUARD))

    def _make_meta(self):
        self.site.sql(
            "CREATE TABLE wp_postmeta (meta_id bigint(20) unsigned NOT NULL AUTO_INCREMENT PRIMARY KEY,"
            " post_id bigint(20) unsigned NOT NULL DEFAULT 0, meta_key varchar(255), meta_value longtext,"
            " KEY meta_key (meta_key(191))) ENGINE=InnoDB " + bed.COLLATION)
        self.site.sql("INSERT INTO wp_postmeta (post_id, meta_key, meta_value) SELECT seq DIV 8,"
                      " ELT(1 + seq MOD 8, '_price', '_sku', '_stock', '_weight', '_paid_date',"
                      " '_customer', '_total', '_note'), CONCAT(MD5(seq), ' ', MD5(-seq)) FROM"
                      " seq_1_to_%d" % META_ROWS)

    # ---- weir

    def config(self):
        secret = os.path.join(self.folder, "password")
        with open(os.open(secret, os.O_WRONLY | os.O_CREAT, 0o600), "w") as f:
            f.write(PASSWORD + "\n")
        return self.plan.gate.config(self.maria.socket) + WORDPRESS % (
            self.maria.socket, GUARD, secret, DATABASE)

    def start_weir(self, program):
        self.weir = Weir(program, self.folder, self.config())
        self.api = Api(self.weir.http)
        bed.until(lambda: self.level() == "normal", 60, "weir has measured the database")

    def level(self):
        return self.api.throttle()["level"] if self.weir else "-"

    # ---- an act

    def act(self, name, is_storm):
        plan, site = self.plan, self.site
        site.forget()
        n_deadlocks = len(bed.deadlocks(self.maria.log()))
        first = self.first = int(time.time()) + plan.lead
        backlog = plan.backlog if is_storm else 0
        for _, hook, n in CLASSES:
            site.add_many(int(n * plan.share), (hook,), first, plan.spread())
        self.made = backlog + sum(int(n * plan.share) for _, _, n in CLASSES)
        self.runners = [bed.Runner(site, socket=self.maria.socket, user=story.USER, concurrent=plan.runners,
                                   pause_ms=PAUSE_MS, work={"*": {"sql": WORK}}) for _ in range(plan.runners)]
        self.moved, self.away, self.begin, self.name = {}, {}, time.monotonic(), name
        if is_storm:
            self._blow(first)
        self._watch(lambda: self.n_open() == 0,
                    plan.spread() + PATIENCE_S + (plan.ramp_s() if self.weir else 0))
        troubles = self._end_runners()
        return self._facts(name, troubles, n_deadlocks)

    def _blow(self, first):
        begin, end = first + self.plan.before, first + self.plan.before + self.plan.storm
        self._watch(lambda: time.time() >= begin, PATIENCE_S)
        self.site.add_many(self.plan.backlog, (CLASSES[-1][1],), first - 3600, 3500)
        self.storm = subprocess.Popen(
            [sys.executable, os.path.abspath(__file__), str(self.maria.port), str(self.plan.clients)],
            stdin=subprocess.DEVNULL, preexec_fn=die_with_parent, start_new_session=True)
        self._watch(lambda: time.time() >= end, self.plan.storm + PATIENCE_S)
        self._end_storm()

    def _end_storm(self):
        if self.storm:
            self.storm.kill()
            self.storm.wait()
            self.storm = None
            self.maria.ask("KILL HARD CONNECTION USER '%s'" % STORM)

    def _end_runners(self):
        for runner in self.runners:
            runner.stop()
        troubles = [t for runner in self.runners for t in runner.troubles()]
        self.runners = []
        return troubles

    def n_open(self):
        """With the guard also those that a runner's deadlock failed: they are repaired."""
        counts = self.site.counts()
        failed = len(self.site.never_run()) if self.weir and counts["failed"] else 0
        return counts["pending"] + counts["in-progress"] + failed

    def _watch(self, is_over, patience_s):
        """A line a second until it is over."""
        deadline = time.monotonic() + patience_s
        while not is_over():
            if time.monotonic() > deadline:
                raise AssertionError("%d actions are left after %d s" % (self.n_open(), patience_s))
            self._look()
            time.sleep(1)

    def _look(self):
        started = dict(self.site.sql("SELECT a.hook, COUNT(*) FROM ran r JOIN %s a ON a.action_id ="
                                     " r.action_id GROUP BY a.hook" % self.site.table("actions")))
        threads = int(self.site.sql("SHOW GLOBAL STATUS LIKE 'Threads_running'")[0][1])
        away = {int(action): int(later) for action, later in self.site.sql(
            "SELECT a.action_id, UNIX_TIMESTAMP(a.scheduled_date_gmt) FROM %s a WHERE a.status = 'pending'"
            " AND a.scheduled_date_gmt > %s" % (self.site.table("actions"), self.site.original_sql()))}
        for action, later in away.items():  # a batch that waits longer gets another date, and stays one
            self.moved[action] = (self.moved[action][0] if action in self.away else later, later)
        self.away = away
        self.tell("%6d  %-13s  %-8s  %7d" % (time.monotonic() - self.begin, self.name, self.level(), threads)
                  + "".join("  %8s" % started.get(hook, 0) for _, hook, _ in CLASSES)
                  + "  %8s" % (len(self.moved) or ""))

    def _facts(self, name, troubles, n_deadlocks):
        site = self.site
        own = {t["action"] for t in troubles if t["trouble"] == "start"}
        never, runs = site.never_run(), site.runs()
        waits = {name: [] for name in CLASS_OF.values()}
        payments = {"before": [], "storm": [], "after": []}
        for _, hook, wait, start in runs:
            second = start - wait - self.first
            if second >= 0:
                waits[CLASS_OF[hook]].append(wait)
            if second >= 0 and CLASS_OF[hook] == "payment":
                payments[self.plan.phase(second)].append(wait)
        return Act(name, waits, payments, runs, self.made,
                   [x for x in never if x[0] not in own], site.run_twice(),
                   sum(x[0] in own for x in never), bed.deadlocks(self.maria.log())[n_deadlocks:], self.moved)


def head():
    return "%6s  %-13s  %-8s  %7s%s  %8s" % (
        "second", "act", "level", "threads", "".join("  %8s" % name for name, _, _ in CLASSES), "moved")


def out_of_order(act, name, slack_s=3):
    """Moved actions of a class that began after one of a batch that is newer as a whole.

    The guard promises that the batch with the oldest date comes back first, and no more: a batch is what
    was moved at once, its actions are due together, and a large one comes back in parts.  Batches that
    were moved in one second have the same later date and cannot be told apart; they were taken in the
    order of dates, so that one reaches back BATCH actions at most.  What was begun within slack_s is not
    compared, since runners hold that in their hands, and what ran at its later date did not come back."""
    runs = [(start, round(start - wait)) + act.moved[action] for action, hook, wait, start in act.runs
            if CLASS_OF[hook] == name and action in act.moved]
    dates = {}
    for _, date, moved_to, _ in runs:
        dates.setdefault(moved_to, []).append(date)
    for group in dates.values():
        group.sort()
    n, newest, came = 0, float("-inf"), 0   # newest: first date of the newest batch of runs[:came]
    for start, date, _, _ in runs:
        while runs[came][0] < start - slack_s:
            began, its, moved_to, later = runs[came]
            if began < later:
                group = dates[moved_to]
                newest = max(newest, group[max(0, bisect.bisect_left(group, its) + 1 - BATCH)])
            came += 1
        n += date < newest
    return n


# ---------------------------------------------------------------- the storm


def rage(port, number):
    sql = MariaConnection(port, STORM, "", database=DATABASE)
    turn = "('report %d'" % (number % COMPUTING)
    while True:
        sql("SELECT GET_LOCK%s, 3600)" % turn)
        sql(HEAVY)
        sql("SELECT RELEASE_LOCK%s)" % turn)


def main():
    port, clients = int(sys.argv[1]), int(sys.argv[2])
    threads = [threading.Thread(target=rage, args=(port, i), daemon=True) for i in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    main()
