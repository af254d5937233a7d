"""A WordPress site in a real MariaDB, and a weir that guards it by a load that the test sets."""
import functools
import json
import os
import subprocess
import time

import lib_actionscheduler as bed
from lib_databases import PASSWORD, write_config
from harness import HANG_S, WEIR, Server, until

PAYMENT, SYNC = "woocommerce_payment_capture", "facebook_for_woocommerce_sync"
RENEWAL = "woocommerce_scheduled_subscription_payment"
CALM, BUSY, STORM = 1, 8, 30


@functools.lru_cache(None)
def maria():
    m = bed.server("guarded")
    m.ask("CREATE USER weir@localhost IDENTIFIED BY '%s'" % PASSWORD,
          "GRANT ALL ON *.* TO weir@localhost")
    return m


class Guarded:
    def __init__(self, folder, mode="enforce", load=CALM):
        self.load_file = os.path.join(folder, "load")
        self.set_load(load)
        self.site = bed.Site(maria(), database="db%d" % time.monotonic_ns())
        path = write_config(folder, """
target "shop" {
        kind = "command" command = {"cat", "%s"} interval = "100ms" dwell = "0s"
        metric "load" { elevated = {5, 3} critical = {15, 10} }
}
wordpress "shop" {
        socket = "%s" user = "weir" password_file = "SECRET" database = "%s"
        target = "shop" mode = "%s" interval = "200ms"
}""" % (self.load_file, maria().socket, self.site.database, mode))
        self.server = Server(folder, "-c", path)
        self.url = "redis://%s:%d" % tuple(self.server.resp)

    def set_load(self, value):
        with open(self.load_file + ".new", "w", encoding="ascii") as out:
            out.write("%d\n" % value)
        os.rename(self.load_file + ".new", self.load_file)

    def weir(self, *words, code=0):
        """What a command prints on its standard output; with another code, on standard error."""
        done = subprocess.run([WEIR, *words], text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              env={**os.environ, "WEIR_URL": self.url, "NO_COLOR": "1"})
        if done.returncode != code:
            raise AssertionError("weir %s ended with %d: %s %s" % (
                " ".join(words), done.returncode, done.stdout, done.stderr))
        return done.stderr if code else done.stdout

    def json(self, *words, code=0):
        done = subprocess.run([WEIR, *words, "--json"], text=True, stdout=subprocess.PIPE,
                              env={**os.environ, "WEIR_URL": self.url})
        if done.returncode != code:
            raise AssertionError("weir %s ended with %d" % (" ".join(words), done.returncode))
        return json.loads(done.stdout)

    def state(self):
        with self.server.web() as w:
            return w.good("GET", "/v1/sites/shop")

    def wait(self, condition, what, seconds=HANG_S):
        """Until the state of the site is so; that state."""
        return until(lambda: (lambda s: s if condition(s) else None)(self.state()), seconds, what)
