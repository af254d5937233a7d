"""A guarded WordPress site for tests: MariaDB with Action Scheduler's tables, and a weir that guards it
by a load that the test sets."""
import functools
import os
import sys
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import lib_actionscheduler as bed  # noqa: E402
from lib_databases import PASSWORD, write_config  # noqa: E402
from harness import HANG_S, Server, until  # noqa: E402

PAYMENT, RENEWAL = "woocommerce_payment_capture", "woocommerce_scheduled_subscription_payment"
NORMAL, SYNC = "shop_report", "facebook_for_woocommerce_sync"
AT_WORK = "shop_at_work"
CALM, STORM = 1, 30


@functools.lru_cache(None)
def maria():
    m = bed.server("guard", "--innodb-flush-log-at-trx-commit=1")  # it is killed
    for host in ("localhost", "'127.0.0.1'"):
        m.ask("CREATE USER weir@%s IDENTIFIED BY '%s'" % (host, PASSWORD), "GRANT ALL ON *.* TO weir@" + host)
    return m


class Bed:
    """A site with its own database.  The load is in a file; `by_sql`: in a table."""

    def __init__(self, folder, mode="enforce", site=None, throttle="", by_sql=False, **options):
        self.folder, self.mode, self.options, self.throttle = folder, mode, options, throttle
        self.by_sql, self.user, self.interval = by_sql, "weir", "200ms"
        os.makedirs(folder, exist_ok=True)
        self.load_file = os.path.join(folder, "load")
        self.set_load(CALM)
        self.site = site or bed.Site(maria(), database="db%d" % time.monotonic_ns())
        self.where = 'socket = "%s"' % maria().socket
        self.add_runners()
        self.server = None

    def set_load(self, value):
        if self.by_sql:
            maria().ask("CREATE DATABASE IF NOT EXISTS load_now",
                        "CREATE OR REPLACE VIEW load_now.now AS SELECT %d AS n" % value)
            return
        with open(self.load_file + ".new", "w", encoding="ascii") as out:
            out.write("%d\n" % value)
        os.rename(self.load_file + ".new", self.load_file)

    def target(self):
        """How it is measured, and its source."""
        if self.by_sql:
            return ('kind = "mysql" socket = "%s" user = "weir" password_file = "SECRET"' % maria().socket,
                    "sql:SELECT n FROM load_now.now")
        return 'kind = "command" command = {"cat", "%s"}' % self.load_file, "value"

    def start(self):
        more = "\n".join("%s = %s" % pair for pair in self.options.items())
        path = write_config(self.folder, """
throttle {
        mode = "off" ramp_cycles = 2 ramp_cycle = "500ms"
        %s
}
target "shop" {
        %s interval = "100ms" dwell = "0s"
        metric "load" { source = "%s" elevated = {5, 3} critical = {15, 10} }
}
wordpress "shop" {
        %s user = "%s" password_file = "SECRET" database = "%s" prefix = "%s"
        target = "shop" mode = "%s" interval = "%s"
        %s
}""" % (self.throttle, *self.target(), self.where, self.user, self.site.database, self.site.prefix, self.mode,
         self.interval, more))
        self.server = Server(self.folder, "-c", path)
        return self.server

    def state(self):
        with self.server.web() as w:
            return w.good("GET", "/v1/sites/shop")

    def wait(self, condition, what, seconds=HANG_S):
        until(lambda: condition(self.state()), seconds, what)
        return self.state()

    def ledger(self):
        """An action that weir has still to give back; `moved` does not count a move whose end nobody
        told, because weir or the connection died."""
        with self.server.web() as w:
            return w.good("GET", "/v1/sites/shop/actions?status=moved&limit=1")["actions"]

    def add_runners(self, n=20):
        """Claims with an action at work: moved actions return as fast as runners work."""
        for claim in range(9000, 9000 + n):
            self.site.add_simple(AT_WORK, int(time.time()), status="in-progress", claim_id=claim)

    def wait_all_back(self, seconds=HANG_S):
        return self.wait(lambda s: s["surveyed_ms"] and s["level"] == "normal" and not s["error"]
                         and s["moved"] == 0 and not self.ledger(), "all have come back", seconds)

    def dates(self):
        return {int(row[0]): (row[1], row[2]) for row in self.site.sql(
            "SELECT action_id, scheduled_date_gmt, scheduled_date_local FROM %s WHERE hook != '%s'" % (
                self.site.table("actions"), AT_WORK))}


def fill(site, n=40):
    """Due actions of every tier and kind; {action: hook}"""
    now, made = int(time.time()), {}
    for i in range(n):
        for hook in (PAYMENT, RENEWAL, NORMAL, SYNC):
            kind = i % 4
            if kind == 0:
                action = site.add_async(hook)
            elif kind == 1:
                action = site.add_simple(hook, now - 100 + i)
            elif kind == 2:
                action = site.add_interval(hook, now - 50, 3600)
            else:
                action = site.add_cron(hook, now - now % 300, "*/5 * * * *")
            made[action] = hook
    return made
