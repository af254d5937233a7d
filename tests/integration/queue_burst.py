#!/usr/bin/python3
# weir-test: timeout=300 long
"""A burst of jobs on a real MariaDB that is idle: the depth of the queue alone holds nothing back
that the database could take."""
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from lib_databases import probed_maria as database, write_config  # noqa: E402
from harness import Server, claim, equal, expect, main, test, until  # noqa: E402

JOBS = 1000
CONFIG = """
throttle {
        mode = "enforce"
        queue_depth = {100, 50, 500, 250}
        %s
}
target "shop" {
        kind = "mysql" host = "127.0.0.1" port = %d user = "weir" password_file = "SECRET"
        interval = "200ms" dwell = "1s"
        metric "threads_running" { elevated = {5, 3} critical = {15, 10} }
}"""


class Shop:
    def __init__(self, folder, bounds=""):
        config = CONFIG % (bounds, database().port)
        self.server = Server(folder, "-c", write_config(folder, config))
        self.client = self.server.client()
        until(lambda: self.level("shop") == "normal", what="a calm database")

    def target(self, name):
        with self.server.web() as w:
            return next(t for t in w.good("GET", "/v1/throttle")["targets"] if t["name"] == name)

    def level(self, name="queues"):
        return self.target(name)["level"]

    def depth(self):
        value = self.target("queues")["metrics"][0]["value"]
        return -1 if value is None else float(value)  # None: before the first sample

    def add(self, n, hook="klaviyo_sync"):
        for _ in range(n):
            self.client("ENQUEUE", hook, "{}")

    def is_seen(self):
        until(lambda: self.depth() >= JOBS, what="a sample of the deep queue")


def run_all(client):
    n = 0
    for grants in iter(lambda: claim(client, count=100), []):
        for grant in grants:
            client("COMPLETE", grant.id, grant.token)
        n += len(grants)
    return n


@test("a burst on an idle database is worked off at once, and the level stays normal")
def a_burst(folder):
    shop = Shop(folder)
    shop.add(JOBS)
    shop.is_seen()
    equal(shop.level(), "normal", "the level of the queues")
    note = shop.target("queues")["metrics"][0]["note"]
    expect("the other targets are calm and the oldest due job is " in note, note)
    expect(note.endswith("the depth counts from 1 min on"), note)
    equal(run_all(shop.client), JOBS, "jobs that ran")
    shop.server.stop()


@test("a queue that stays deep is elevated, and never critical while the database is calm")
def it_stays_deep(folder):
    shop = Shop(folder, 'queue_age = "1s"')
    shop.add(JOBS)
    until(lambda: shop.level() == "elevated", what="level elevated")
    note = shop.target("queues")["metrics"][0]["note"]
    equal(note, "the other targets are calm: the depth alone is elevated at most", "the note")
    with database().load(30, "SELECT SLEEP(60)"):
        until(lambda: shop.level("shop") == "critical", what="a busy database")
        until(lambda: shop.level() == "critical", what="the depth to count in full beside it")
    shop.server.stop()


@test("as QueryGuard does it, the depth alone is critical at once")
def as_queryguard(folder):
    shop = Shop(folder, 'queue_age = "0s" queue_level = "critical"')
    shop.add(JOBS)
    until(lambda: shop.level() == "critical", what="level critical")
    equal(claim(shop.client), [], "what starts")
    shop.server.stop()


if __name__ == "__main__":
    main()
