"""WordPress sites with Action Scheduler's tables, in a real MariaDB, and runners that work on them.

A Site is a prefix in a database: its tables in the form of a store version, its options, its
actions.  Nothing is Action Scheduler's own code: tables, serialized schedules and statements are made
from what was found by running it.  A Runner is as_runner.php as a process.  Readers tell what
happened: counts, waits, the server's counters, deadlocks and whose they were.

Connections use UTC; times are Unix seconds."""
import contextlib
import functools
import hashlib
import json
import os
import re
import signal
import subprocess
import threading
import time

from lib_databases import Maria, die_with_parent
from harness import ROOT, expect, until

HERE = os.path.dirname(os.path.abspath(__file__))
RUNNER = os.path.join(HERE, "as_runner.php")
COLLATION = "DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_unicode_520_ci"
MAX_ARGS = 191      # bytes; longer ones go to extended_args
STATUSES = ("pending", "in-progress", "complete", "failed", "canceled")

# ---------------------------------------------------------------- the tables

NO_DATE = "0000-00-00 00:00:00"
ZERO = "datetime NULL DEFAULT '%s'" % NO_DATE
# Action Scheduler has these two since 3.7.  They came without a new schema number, so a site that was
# updated from 3.6 gets them with schema 8.
DUE_INDEX = ("KEY hook_status_scheduled_date_gmt (hook(163), status, scheduled_date_gmt)",
             "KEY status_scheduled_date_gmt (status, scheduled_date_gmt)")
DUE_INDEX_3_6 = ("KEY hook (hook(191))", "KEY status (status)")
CLAIM_INDEX = ("KEY claim_id_status_scheduled_date_gmt (claim_id, status, scheduled_date_gmt)",)
CLAIM_INDEX_4 = (
    "KEY claim_id_status_priority_scheduled_date_gmt (claim_id, status, priority, scheduled_date_gmt)",
    "KEY status_last_attempt_gmt (status, last_attempt_gmt)",
    "KEY status_claim_id (status, claim_id)")

# Store version: schema number, has `priority`, has `unique_key`, indexes beside those that all have,
# how its runner claims.  "altered": weir's ALTER TABLE was run.  An upgraded site keeps the indexes of
# the older version.
VERSIONS = {
    "3.1": (3, False, False, DUE_INDEX_3_6 + ("KEY claim_id (claim_id)",), "3.8"),
    "3.5": (6, False, False, DUE_INDEX_3_6 + CLAIM_INDEX, "3.8"),
    "3.5 altered": (6, False, False, DUE_INDEX_3_6 + DUE_INDEX + CLAIM_INDEX, "3.8"),
    "3.6": (7, True, False, DUE_INDEX_3_6 + CLAIM_INDEX, "3.8"),
    "3.8": (7, True, False, DUE_INDEX + CLAIM_INDEX, "3.8"),
    "3.9": (7, True, False, DUE_INDEX + CLAIM_INDEX, "3.9.3"),
    "4.1": (8, True, False, DUE_INDEX + CLAIM_INDEX_4, "3.9.3"),
    "4.1 upgraded": (8, True, False, DUE_INDEX + CLAIM_INDEX + CLAIM_INDEX_4, "3.9.3"),
    "4.2": (9, True, True, DUE_INDEX + CLAIM_INDEX_4, "3.9.3"),
}

ACTIONS = """CREATE TABLE `{p}actionscheduler_actions` (
    action_id bigint(20) unsigned NOT NULL AUTO_INCREMENT,
    hook varchar(191) NOT NULL,
    status varchar(20) NOT NULL,
    scheduled_date_gmt {zero},
    scheduled_date_local {zero},
    {priority}
    args varchar(191),
    schedule longtext,
    group_id bigint(20) unsigned NOT NULL DEFAULT 0,
    attempts int(11) NOT NULL DEFAULT 0,
    last_attempt_gmt {zero},
    last_attempt_local {zero},
    claim_id bigint(20) unsigned NOT NULL DEFAULT 0,
    extended_args varchar(8000) DEFAULT NULL,
    {unique}
    PRIMARY KEY (action_id),
    KEY scheduled_date_gmt (scheduled_date_gmt),
    KEY args (args(191)),
    KEY group_id (group_id),
    KEY last_attempt_gmt (last_attempt_gmt),
    {indexes}
) ENGINE=InnoDB {collation}"""

# The other tables, each by the part of its name after the prefix.
OTHERS = {
    "actionscheduler_claims": "claim_id bigint(20) unsigned NOT NULL AUTO_INCREMENT,"
                              " date_created_gmt {zero}, PRIMARY KEY (claim_id),"
                              " KEY date_created_gmt (date_created_gmt)",
    "actionscheduler_groups": "group_id bigint(20) unsigned NOT NULL AUTO_INCREMENT,"
                              " slug varchar(255) NOT NULL, PRIMARY KEY (group_id),"
                              " KEY slug (slug(191))",
    "actionscheduler_logs": "log_id bigint(20) unsigned NOT NULL AUTO_INCREMENT,"
                            " action_id bigint(20) unsigned NOT NULL, message text NOT NULL,"
                            " log_date_gmt {zero}, log_date_local {zero}, PRIMARY KEY (log_id),"
                            " KEY action_id (action_id), KEY log_date_gmt (log_date_gmt)",
    "options": "option_id bigint(20) unsigned NOT NULL AUTO_INCREMENT,"
               " option_name varchar(191) NOT NULL DEFAULT '', option_value longtext NOT NULL,"
               " autoload varchar(20) NOT NULL DEFAULT 'yes', PRIMARY KEY (option_id),"
               " UNIQUE KEY option_name (option_name), KEY autoload (autoload)",
    "posts": "ID bigint(20) unsigned NOT NULL AUTO_INCREMENT,"
             " post_date datetime NOT NULL DEFAULT '0000-00-00 00:00:00',"
             " post_date_gmt datetime NOT NULL DEFAULT '0000-00-00 00:00:00',"
             " post_content longtext NOT NULL, post_title text NOT NULL,"
             " post_status varchar(20) NOT NULL DEFAULT 'publish',"
             " post_type varchar(20) NOT NULL DEFAULT 'post', PRIMARY KEY (ID),"
             " KEY type_status_date (post_type, post_status, post_date, ID)",
}
RAN = ("CREATE TABLE IF NOT EXISTS ran (id bigint unsigned NOT NULL AUTO_INCREMENT PRIMARY KEY,"
       " action_id bigint unsigned NOT NULL, pid int NOT NULL, at datetime(6) NOT NULL,"
       " KEY action_id (action_id)) ENGINE=InnoDB")


def server(name="wordpress", *options):
    """A MariaDB that counts per user and writes every deadlock into its log.  One million actions fit
    into its memory."""
    return Maria(name, "--userstat=1", "--innodb-print-all-deadlocks=1", "--max-connections=400",
                 "--innodb-buffer-pool-size=1G", "--innodb-log-file-size=256M", *options)


def quote(value):
    """A value as it stands in a statement.  A statement is passed as a C string, so a NUL is
    written as backslash and zero."""
    if value is None:
        return "NULL"
    if isinstance(value, int):
        return str(value)
    for raw, escaped in (("\\", "\\\\"), ("'", "\\'"), ("\0", "\\0")):
        value = value.replace(raw, escaped)
    return "'%s'" % value


def utc(at):
    return time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(at))


# ---------------------------------------------------------------- serialized schedules


def php_int(name, value):
    return 's:%d:"%s";i:%d;' % (len(name), name, value)


def php_object(name, properties, n):
    return 'O:%d:"%s":%d:{%s}' % (len(name), name, n, properties)


def schedule_async():
    return php_object("ActionScheduler_NullSchedule", "", 0)


def schedule_simple(at):
    name = "ActionScheduler_SimpleSchedule"
    return php_object(name, php_int("\0*\0scheduled_timestamp", at)
                      + php_int("\0%s\0timestamp" % name, at), 2)


def schedule_interval(at, every, first=None):
    name = "ActionScheduler_IntervalSchedule"
    return php_object(name, php_int("\0*\0scheduled_timestamp", at)
                      + php_int("\0*\0first_timestamp", at if first is None else first)
                      + php_int("\0*\0recurrence", every)
                      + php_int("\0%s\0start_timestamp" % name, at)
                      + php_int("\0%s\0interval_in_seconds" % name, every), 5)


def schedule_cron(at, cron, first=None):
    """`cron` has five fields and `at` is one of its times.  The expression is in it twice, the
    second time as a reference."""
    name = "ActionScheduler_CronSchedule"
    parts = "".join('i:%d;s:%d:"%s";' % (i, len(part), part) for i, part in enumerate(cron.split()))
    fields = "".join("i:%d;%s" % (i, php_object("CronExpression_%sField" % field, "", 0))
                     for i, field in enumerate(("Minutes", "Hours", "DayOfMonth", "Month", "DayOfWeek")))
    factory = php_object("CronExpression_FieldFactory",
                         's:35:"\0CronExpression_FieldFactory\0fields";a:5:{%s}' % fields, 1)
    expression = php_object("CronExpression",
                            's:25:"\0CronExpression\0cronParts";a:5:{%s}' % parts
                            + 's:28:"\0CronExpression\0fieldFactory";%s' % factory, 2)
    return php_object(name, php_int("\0*\0scheduled_timestamp", at)
                      + php_int("\0*\0first_timestamp", at if first is None else first)
                      + 's:13:"\0*\0recurrence";' + expression
                      + php_int("\0%s\0start_timestamp" % name, at)
                      + 's:34:"\0%s\0cron";r:4;' % name, 5)


# ---------------------------------------------------------------- a site


class Site:
    """One WordPress of a server: several may be in one database, each with its prefix.  Where WordPress
    is installed already, its own tables stay."""

    def __init__(self, maria, version="3.8", prefix="wp_", database="wordpress", is_migrated=True,
                 local_s=0):
        self.maria, self.version, self.prefix, self.database = maria, version, prefix, database
        self.schema, self.has_priority, self.has_unique, self.indexes, self.claim = VERSIONS[version]
        self.local_s = local_s      # the site's time zone, seconds east of UTC
        maria.ask("CREATE DATABASE IF NOT EXISTS `%s` %s" % (database, COLLATION))
        self.reconnect()
        self._make_tables()
        self._make_options(is_migrated)

    def reconnect(self):
        """After the server was started again."""
        self.sql = self.maria.connect(database=self.database)
        self.sql("SET NAMES utf8mb4 COLLATE utf8mb4_unicode_520_ci")
        self.sql("SET SESSION sql_mode='', time_zone='+00:00'")

    def table(self, name):
        return "`%sactionscheduler_%s`" % (self.prefix, name)

    def tables(self):
        """All tables of the site, sorted."""
        names = ["actionscheduler_actions"] + list(OTHERS)
        return sorted("`%s%s`" % (self.prefix, name) for name in names)

    def _make_tables(self):
        self.sql(ACTIONS.format(
            p=self.prefix, zero=ZERO, collation=COLLATION, indexes=",\n    ".join(
                self.indexes + (("UNIQUE KEY unique_key (unique_key)",) if self.has_unique else ())),
            priority="priority tinyint unsigned NOT NULL DEFAULT 10," if self.has_priority else "",
            unique="unique_key varchar(191) DEFAULT NULL," if self.has_unique else ""))
        for name, columns in OTHERS.items():
            self.sql("CREATE TABLE IF NOT EXISTS `%s%s` (%s) ENGINE=InnoDB %s" % (
                self.prefix, name, columns.format(zero=ZERO), COLLATION))
        self.sql(RAN)

    def _make_options(self, is_migrated):
        now = int(time.time())
        self.set_option("siteurl", "http://shop.example")
        self.set_option("schema-ActionScheduler_StoreSchema", "%d.0.%d" % (self.schema, now))
        self.set_option("schema-ActionScheduler_LoggerSchema", "3.0.%d" % now)
        if is_migrated:
            self.set_option("action_scheduler_migration_status", "complete")
        else:
            self.sql("INSERT INTO `%sposts` (post_date, post_date_gmt, post_content, post_title,"
                     " post_status, post_type) VALUES (%s, %s, '[]', 'old_hook', 'pending',"
                     " 'scheduled-action')" % (self.prefix, quote(utc(now)), quote(utc(now))))

    def has_due_index(self):
        """Else weir asks for an ALTER TABLE."""
        return DUE_INDEX[0] in self.indexes

    def set_option(self, name, value, autoload="yes"):
        self.sql("INSERT INTO `%soptions` (option_name, option_value, autoload) VALUES (%s, %s, %s)"
                 " ON DUPLICATE KEY UPDATE option_value = VALUES(option_value)" % (
                     self.prefix, quote(name), quote(value), quote(autoload)))

    def option(self, name):
        rows = self.sql("SELECT option_value FROM `%soptions` WHERE option_name = %s" % (
            self.prefix, quote(name)))
        return rows[0][0] if rows else None

    # ---- actions

    def group(self, slug):
        rows = self.sql("SELECT group_id FROM %s WHERE slug = %s" % (self.table("groups"), quote(slug)))
        if rows:
            return int(rows[0][0])
        self.sql("INSERT INTO %s (slug) VALUES (%s)" % (self.table("groups"), quote(slug)))
        return self._last_id()

    def _last_id(self):
        return int(self.sql("SELECT LAST_INSERT_ID()")[0][0])

    def add_async(self, hook, **more):
        """An async action has no date in its schedule, and UTC in both columns.  Action Scheduler
        before 3.5.4 made it without any date."""
        now = int(time.time())
        if self.version == "3.1":
            more = dict({"scheduled_date_gmt": NO_DATE, "scheduled_date_local": NO_DATE}, **more)
        return self._add(hook, now, now, schedule_async(), **more)

    def add_simple(self, hook, at, **more):
        return self._add(hook, at, at + self.local_s, schedule_simple(at), **more)

    def add_interval(self, hook, at, every, **more):
        return self._add(hook, at, at + self.local_s, schedule_interval(at, every), **more)

    def add_cron(self, hook, at, cron, **more):
        return self._add(hook, at, at + self.local_s, schedule_cron(at, cron), **more)

    def _add(self, hook, gmt, local, schedule, args=(), group="", priority=10, unique_key=None,
             **columns):
        """args: a list for positional ones, a dict for keyed ones.  Further columns as they are."""
        text = json.dumps(args, separators=(",", ":"))
        is_long = len(text.encode()) > MAX_ARGS
        values = {"hook": hook, "status": "pending", "scheduled_date_gmt": utc(gmt),
                  "scheduled_date_local": utc(local), "schedule": schedule,
                  "group_id": self.group(group),
                  "args": hashlib.md5(text.encode()).hexdigest() if is_long else text,
                  "extended_args": text if is_long else None}
        if self.has_priority:
            values["priority"] = priority
        if self.has_unique:
            values["unique_key"] = unique_key
        values.update(columns)
        self.sql("INSERT INTO %s (%s) VALUES (%s)" % (
            self.table("actions"), ", ".join(values), ", ".join(quote(v) for v in values.values())))
        action = self._last_id()
        self.log(action, "action created")
        return action

    def log(self, action, message):
        now = int(time.time())
        self.sql("INSERT INTO %s (action_id, message, log_date_gmt, log_date_local) VALUES (%d, %s, %s,"
                 " %s)" % (self.table("logs"), action, quote(message), quote(utc(now)),
                           quote(utc(now + self.local_s))))

    def add_many(self, n, hooks, first, spread_s, status="pending", is_logged=False):
        """n simple actions in one statement: hooks by turns, dates from `first` over `spread_s`
        seconds, in another order than the ids.  Fastest on an empty table, which the server then
        fills in the order of each index."""
        at = "(%d + FLOOR((seq * 7919 MOD %d) * %d / %d))" % (first, n, spread_s, n)
        halves = schedule_simple(0).split("i:0;")
        schedule = "CONCAT(%s)" % ", at, ".join(
            quote(("" if i == 0 else ";") + half + ("i:" if i < 2 else ""))
            for i, half in enumerate(halves))
        self.sql("SET unique_checks = 0, foreign_key_checks = 0")
        self.sql("INSERT INTO %s (hook, status, scheduled_date_gmt, scheduled_date_local, schedule,"
                 " args, group_id) SELECT hook, %s, FROM_UNIXTIME(at), FROM_UNIXTIME(at + %d), %s,"
                 " CONCAT('[', seq, ']'), %d FROM (SELECT seq, ELT(1 + seq MOD %d, %s) AS hook, %s AS at"
                 " FROM seq_1_to_%d) AS made" % (
                     self.table("actions"), quote(status), self.local_s, schedule, self.group(""),
                     len(hooks), ", ".join(quote(h) for h in hooks), at, n))
        if is_logged:
            self.sql("INSERT INTO %s (action_id, message, log_date_gmt, log_date_local) SELECT action_id,"
                     " 'action created', UTC_TIMESTAMP(), UTC_TIMESTAMP() FROM %s" % (
                         self.table("logs"), self.table("actions")))
        self.sql("SET unique_checks = 1, foreign_key_checks = 1")
        self.sql("ANALYZE TABLE %s" % self.table("actions"))

    # ---- what is there

    def checksum(self):
        """{table: checksum} of every table of the site; changes with any byte of any row."""
        return {row[0]: row[1] for row in self.sql("CHECKSUM TABLE " + ", ".join(self.tables()))}

    def counts(self):
        """{status: actions}"""
        counts = dict.fromkeys(STATUSES, 0)
        counts.update((status, int(n)) for status, n in self.sql(
            "SELECT status, COUNT(*) FROM %s GROUP BY status" % self.table("actions")))
        return counts

    def claimed(self, *statuses):
        """Actions of the statuses (all) that have a claim."""
        which = " AND status IN (%s)" % ", ".join(quote(s) for s in statuses) if statuses else ""
        return int(self.sql("SELECT COUNT(*) FROM %s WHERE claim_id != 0%s" % (
            self.table("actions"), which))[0][0])

    def claims(self):
        return int(self.sql("SELECT COUNT(*) FROM " + self.table("claims"))[0][0])

    def action(self, action):
        """{column: text}; the schedule with its NUL bytes."""
        names = [row[0] for row in self.sql("SHOW COLUMNS FROM " + self.table("actions"))]
        row = self.sql("SELECT %s FROM %s WHERE action_id = %d" % (
            ", ".join("HEX(schedule)" if n == "schedule" else "`%s`" % n for n in names),
            self.table("actions"), action))[0]
        found = dict(zip(names, row))
        found["schedule"] = bytes.fromhex(found["schedule"]).decode()
        return found

    def logs(self, action):
        return [row[0] for row in self.sql("SELECT message FROM %s WHERE action_id = %d ORDER BY log_id"
                                           % (self.table("logs"), action))]

    def original_sql(self):
        """The date for which an action `a` was made, wherever its columns were moved to."""
        mark = quote('scheduled_timestamp";i:')
        return ("IF(LOCATE(%s, a.schedule) > 0, FROM_UNIXTIME(SUBSTRING_INDEX(SUBSTRING_INDEX("
                "a.schedule, %s, -1), ';', 1)), (SELECT MIN(l.log_date_gmt) FROM %s l WHERE l.action_id"
                " = a.action_id AND l.message = 'action created'))" % (mark, mark, self.table("logs")))

    def runs(self):
        """[(action, hook, seconds from its original date to its start, Unix time of its start)] of
        every callback, in the order in which they began."""
        rows = self.sql("SELECT r.action_id, a.hook, TIMESTAMPDIFF(MICROSECOND, %s, r.at) / 1e6,"
                        " UNIX_TIMESTAMP(r.at) FROM ran r JOIN %s a ON a.action_id = r.action_id"
                        " ORDER BY r.id" % (self.original_sql(), self.table("actions")))
        return [(int(action), hook, float(wait), float(at)) for action, hook, wait, at in rows]

    def waits(self, class_of):
        """{class: seconds of each start}; class_of maps hooks, and those it does not know are left
        out."""
        found = {name: [] for name in class_of.values()}
        for _, hook, wait, _ in self.runs():
            if hook in class_of:
                found[class_of[hook]].append(wait)
        return found

    def run_twice(self):
        return [int(row[0]) for row in self.sql(
            "SELECT action_id FROM ran GROUP BY action_id HAVING COUNT(*) > 1")]

    def never_run(self):
        """Actions whose callback was never called, whatever their status says."""
        return [(int(row[0]), row[1]) for row in self.sql(
            "SELECT a.action_id, a.status FROM %s a LEFT JOIN ran r ON r.action_id = a.action_id"
            " WHERE r.id IS NULL" % self.table("actions"))]

    def forget(self):
        """No actions, no runs; the ids go on."""
        for name in ("actions", "claims", "logs"):
            self.sql("DELETE FROM " + self.table(name))
        self.sql("DELETE FROM ran")

    def close(self):
        self.sql.close()


def percentile(values, share):
    values = sorted(values)
    return values[min(len(values) - 1, int(share * len(values)))] if values else 0.0


# ---------------------------------------------------------------- the server's counters

COUNTERS = ("Handler_read_first", "Handler_read_key", "Handler_read_last", "Handler_read_next",
            "Handler_read_prev", "Handler_read_rnd", "Handler_read_rnd_next", "Handler_update",
            "Handler_write", "Handler_delete", "Rows_read", "Rows_tmp_read",
            "Innodb_row_lock_waits", "Innodb_row_lock_time", "Innodb_deadlocks")
OF_USER = ("ROWS_READ", "ROWS_SENT", "ROWS_INSERTED", "ROWS_UPDATED", "ROWS_DELETED", "SELECT_COMMANDS",
           "UPDATE_COMMANDS", "OTHER_COMMANDS", "BUSY_TIME", "CPU_TIME", "TOTAL_CONNECTIONS")


def counters(maria):
    """Of the whole server, since its start."""
    with maria.connect() as sql:
        rows = sql("SHOW GLOBAL STATUS WHERE Variable_name IN (%s)" % ", ".join(map(quote, COUNTERS)))
        return {name: int(value) for name, value in rows}


def user_counters(maria, user):
    """Of one user, over all its connections; times in seconds.  A connection that is open counts
    as well."""
    with maria.connect() as sql:
        rows = sql("SELECT %s FROM information_schema.USER_STATISTICS WHERE USER = %s" % (
            ", ".join(OF_USER), quote(user)))
        return {name: float(value) for name, value in zip(OF_USER, rows[0] if rows else ["0"] * len(OF_USER))}


@contextlib.contextmanager
def counted(read, *args):
    """`with counted(user_counters, maria, "weir") as used: ...` then used["ROWS_READ"]."""
    before, used = read(*args), {}
    yield used
    used.update((name, value - before.get(name, 0)) for name, value in read(*args).items())


def deadlocks(log):
    """[users of one deadlock] from a server's log, which has each of them (see server())."""
    found = []
    for part in log.split("Transactions deadlock detected")[1:]:
        body = part.split("WE ROLL BACK")[0]
        # MariaDB thread id 9, OS thread handle 1402, query id 88 127.0.0.1 shop Updating
        found.append(re.findall(r"thread id \d+, OS thread handle \d+, query id \d+ \S+ (\S+)", body))
    return found


# ---------------------------------------------------------------- runners


def begin_runner():
    """SIGTERM and SIGINT wait until the runner is ready for them."""
    die_with_parent()
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM, signal.SIGINT])


class Runner:
    """as_runner.php on a site, as a process; see there for the options."""

    def __init__(self, site, **options):
        options = dict({"host": "127.0.0.1", "port": site.maria.port, "database": site.database,
                        "prefix": site.prefix, "claim": site.claim, "priority": site.has_priority,
                        "unique_key": site.has_unique, "local_s": site.local_s}, **options)
        self.output = os.path.join(site.maria.folder, "runner.%d" % time.monotonic_ns())
        with open(self.output, "wb") as out:
            self.process = subprocess.Popen(["php", "-d", "display_errors=stderr", RUNNER,
                                             json.dumps(options)], stdin=subprocess.DEVNULL, stdout=out,
                                            stderr=subprocess.STDOUT, preexec_fn=begin_runner)

    def lines(self):
        """What it said so far; a line that is no JSON is a fault of the runner itself."""
        with open(self.output, errors="replace") as f:
            return [json.loads(line) for line in f]

    def troubles(self):
        return [line for line in self.lines() if "trouble" in line]

    def wait(self, seconds=60):
        """Until it ends by itself; its last line."""
        until(lambda: self.process.poll() is not None, seconds, "the end of the runner")
        return self._end()

    def stop(self, seconds=60):
        """The action that runs comes to its end, and the claim is released."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return self.wait(seconds)

    def kill(self):
        """As a crash: what it claimed stays claimed."""
        self.process.kill()
        self.process.wait()

    def _end(self):
        expect(self.process.returncode in (0, 9), "the runner ended with %d: %s" % (
            self.process.returncode, open(self.output, errors="replace").read()[-500:]))
        return self.lines()[-1]


class Background:
    """One statement in a thread; join() gives its error, or None."""

    def __init__(self, sql, statement):
        self.error = None
        self.thread = threading.Thread(target=self._run, args=(sql, statement), daemon=True)
        self.thread.start()

    def _run(self, sql, statement):
        try:
            sql(statement)
        except RuntimeError as error:
            self.error = str(error)

    def join(self, seconds=60):
        self.thread.join(seconds)
        expect(not self.thread.is_alive(), "the statement did not end")
        return self.error


# ---------------------------------------------------------------- weir's own code


@functools.lru_cache(None)
def guard_program():
    """guard_store.c with weir's objects, under the sanitizers."""
    out = os.path.join(os.environ.get("TMPDIR", "/tmp"), "guard_store.%d" % os.getpid())
    build = os.environ.get("WEIR_BUILD", os.path.join(ROOT, "build", "asan"))
    libs = subprocess.run(["pkg-config", "--libs", "libmariadb", "openssl"], text=True, check=True,
                          stdout=subprocess.PIPE).stdout.split()
    done = subprocess.run(
        ["cc", "-std=gnu17", "-D_GNU_SOURCE", "-O1", "-g", "-fsanitize=address,undefined",
         "-fno-sanitize-recover=all", "-pthread", "-I", os.path.join(ROOT, "src"),
         os.path.join(HERE, "guard_store.c"), os.path.join(build, "libweir.a"), *libs, "-lm", "-o", out],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    expect(done.returncode == 0, done.stdout[-1500:])
    return out
