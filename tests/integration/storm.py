#!/usr/bin/python3
# weir-test: timeout=180
"""The May 1 replay in short: the storm lasts until it has done what is looked at, and nothing here
depends on how busy the machine is.  storm_whole.py plays it with its times.

    tests/integration/storm.py [word...]
"""
import os
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(HERE, "..", "fault"))
sys.path.insert(0, os.path.join(HERE, "..", "..", "demo"))

from harness import (  # noqa: E402
    WEIR, Server, claim, equal, expect, grants, main, mapping, pack, test, text, until)
from lib_pair import quick_databases  # noqa: E402
from lib_storm import WAITING, Replay  # noqa: E402
from shop import Storm  # noqa: E402
from story import Plan, Run, measured, now_ms, parked  # noqa: E402

# Two workers and the probe never make the level rise, however long their queries take.
SHORT = Plan(calm=1, storm=0, after=0, clients=40, rows=1, dwell=0.5, ramp_cycle=1.5, workers=2,
             rates=(8, 3, 3, 4), elevated=("0s", "0s", "30s", "60s"),
             critical=("0s", "20s", "30s", "60s"))
PAYMENTS = 5  # that begin while the level is critical, before the storm may end


class ShortRun(Run):
    """Its storm goes on until the status shows all of it, and payments have begun in it."""

    def _blow(self):
        self.phase, begin_ms = "storm", now_ms()
        self.storm = Storm(self.database, self.plan.clients, self.plan.rows)
        self._until(lambda s: s["level"] == "critical", "the level is critical")
        self.critical = time.monotonic()
        self._until(self._shows_all, "the status shows a storm, and payments start in it")
        self.storm.end()
        return begin_ms, now_ms()

    def _shows_all(self, status):
        self.status = status
        counts = parked(status)
        with self.flow.lock:
            starts = [tier for at, tier in self.flow.starts if at > self.critical]
        return (measured(status) or 0) > self.plan.clients / 2 and \
            status["targets"][0]["age_ms"] < 3000 and all(counts[tier] > 1 for tier in WAITING) and \
            starts.count("critical") >= PAYMENTS


def play(folder):
    quick_databases()
    with ShortRun(WEIR, folder, SHORT) as run:
        return run.play()


Replay(play, SHORT, least=2 * PAYMENTS, apart_ms=500).add_tests()


# ---- what the caps of a level do to a payment, without a storm

PAYMENT, SUBSCRIPTION, UPDATE = ("woocommerce_payment_webhook",
                                 "woocommerce_scheduled_subscription_payment",
                                 "woocommerce_run_update")
CAPPED = """
throttle {
        mode = "enforce"
        level "elevated" { claim_size = 5 claims = 1 }
        level "critical" { claim_size = 1 claims = 1 }
}
target "dial" {
        kind = "command"
        command = {"cat", "%s"}
        interval = "100ms"
        metric "threads_running" { elevated = {5, 3} critical = {15, 10} }
}
"""


class Dial:
    """A server whose level is turned by hand, and a client of it."""

    def __init__(self, folder, value, level):
        self.path = os.path.join(folder, "dial")
        with open(self.path, "w") as f:
            f.write("%d\n" % value)
        self.server = Server(folder, config=CAPPED % self.path)
        self.client = self.server.client()
        until(lambda: text(mapping(self.client("THROTTLE", "STATUS"))["level"]) == level,
              what="the level " + level)

    def add(self, hook):
        return self.client("ENQUEUE", hook, "{}", "QUEUE", "shop")

    def run(self, n, hook):
        for _ in range(n):
            self.add(hook)
        running = claim(self.client, "shop", count=n)
        equal(len(running), n, "jobs that run")
        return running


def passes(dial, n, hook, first):
    """With n jobs of the hook running: is a payment handed out though `first` is before it?"""
    dial.run(n, hook)
    dial.add(first)
    payment = dial.add(PAYMENT)
    return payment in [grant.id for grant in claim(dial.client, "shop", count=2)]


@test("at critical load a payment passes an update that has to wait")
def a_payment_passes_an_update(folder):
    expect(passes(Dial(folder, 99, "critical"), 1, PAYMENT, UPDATE), "it was kept behind the update")


@test("at elevated load a payment passes a subscription that the caps keep")
def a_payment_passes_a_subscription(folder):
    expect(passes(Dial(folder, 8, "elevated"), 5, SUBSCRIPTION, SUBSCRIPTION),
           "it was kept behind the subscription")


@test("a subscription that the caps kept is handed to a waiting worker when there is room")
def what_the_caps_kept_comes_back(folder):
    dial = Dial(folder, 8, "elevated")
    running = dial.run(5, SUBSCRIPTION)
    wanted = dial.add(SUBSCRIPTION)
    equal(claim(dial.client, "shop"), [], "jobs while the caps hold")
    with dial.server.client() as waiting:
        waiting.send(pack("CLAIM", "w", "WAIT", 10000, "QUEUES", "shop"))
        for grant in running:
            dial.client("COMPLETE", grant.id, grant.token)
        equal([grant.id for grant in grants(waiting.read())], [wanted], "what came back")


if __name__ == "__main__":
    main()
