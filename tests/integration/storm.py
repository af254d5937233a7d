#!/usr/bin/python3
# weir-test: timeout=180 alone
"""The May 1 replay, as `make demo` shows it, with a storm of ten seconds and a short way back.

A real MariaDB, payments, subscriptions, updates and syncs in one queue, 150 clients with heavy
queries.  The story is played once; each test then asks weir's own answers for one part of it.

    tests/integration/storm.py [word...]
"""
import os
import re
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(HERE, "..", "fault"))
sys.path.insert(0, os.path.join(HERE, "..", "..", "demo"))

from harness import (  # noqa: E402
    WEIR, Server, claim, equal, expect, grants, main, mapping, pack, test, text, until)
from lib_story import Story  # noqa: E402
from story import (  # noqa: E402
    QUICK, Run, expected_peak, is_undelayed, parked, payment_waits, peak_after, percentile)


def play(folder):
    with Run(WEIR, folder, QUICK) as run:
        return run.play()


facts = Story("storm", play).facts


def lives(tier):
    return [life for life in facts().lives if life.tier == tier]


@test("the storm makes the level critical, and status names the metric, its value and its age")
def the_level(_):
    status = facts().status
    target = status["targets"][0]
    equal(status["level"], "critical", "level")
    equal(status["target"], "shop", "deciding target")
    equal(target["metric"], "threads_running", "metric")
    expect(float(target["value"]) >= 15, "the value that decided is %s" % target["value"])
    expect(float(target["metrics"][0]["value"]) > QUICK.clients / 2,
           "threads_running is %s in the storm" % target["metrics"][0]["value"])
    expect(0 <= target["age_ms"] < 3000, "the sample is %d ms old" % target["age_ms"])
    counts = parked(status)
    equal(counts["critical"], 0, "parked payments")
    for tier in ("high", "normal", "deferrable"):
        expect(counts[tier] > 0, "nothing of tier %s is parked" % tier)


@test("no payment is parked, and every one is complete")
def no_payment_is_parked(_):
    payments = lives("critical")
    expect(len(payments) > 100, "only %d payments" % len(payments))
    equal([life for life in payments if life.deferred], [], "deferred payments")
    equal([life for life in payments if not life.completed], [], "payments that are not complete")


@test("a payment starts as soon in the storm as in the calm")
def payments_are_not_delayed(_):
    before, during = payment_waits(facts())
    expect(len(before) > 20 and len(during) > 50, "too few: %d, %d" % (len(before), len(during)))
    expect(is_undelayed(before, during), "median %d, p99 %d ms, but %d and %d ms in the storm" % (
        percentile(before, 0.5), percentile(before, 0.99),
        percentile(during, 0.5), percentile(during, 0.99)))


@test("subscriptions, updates and syncs wait, are told why, and are complete in the end")
def others_wait(_):
    begin, end = facts().critical_ms
    for tier in ("high", "normal", "deferrable"):
        late = [life for life in lives(tier) if life.deferred and not stands_in_line(life)]
        expect(late, "nothing of tier %s was deferred" % tier)
        for life in late:
            at, why = life.deferred[0]
            expect(begin - 1000 <= at <= end + 1000, "deferred outside of the storm")
            # Elevated for a moment, when a sample met the storm while it gathered.
            expect(re.match("(elevated|critical) load on shop: threads_running", why)
                   and "tier %s waits" % tier in why, "it was told %r" % why)
        equal([life for life in lives(tier) if not life.completed], [], "not complete")


def stands_in_line(life):
    """It is newer than the storm, and waits behind older jobs of its hook that return."""
    return re.search("of its hook returns? before it", life.deferred[0][1])


@test("what is new after the storm waits behind what returns, and not for the load")
def new_jobs_stand_in_line(_):
    lines = [life for tier in ("high", "normal", "deferrable") for life in lives(tier)
             if life.deferred and stands_in_line(life)]
    expect(lines, "no new job waited behind those that return")
    for life in lines:
        expect(life.deferred[0][0] >= facts().critical_ms[1] - 1000, "in line during the storm")


@test("while the level is critical nothing but payments starts")
def nothing_else_starts(_):
    begin, end = facts().critical_ms
    # The log and the events may disagree by a few milliseconds.
    equal([life for life in facts().lives
           if life.tier != "critical" and begin + 50 <= life.started < end - 50], [], "started")


@test("what is more important comes back first")
def order_of_return(_):
    medians = [percentile([life.started for life in lives(tier) if life.deferred], 0.5)
               for tier in ("high", "normal", "deferrable")]
    equal(medians, sorted(medians), "median start of the deferred jobs of each tier")


@test("the way back has no second spike")
def no_second_spike(_):
    peak, fair = peak_after(facts()), expected_peak(QUICK, facts())
    expect(facts().parked > 2 * fair, "too few jobs were parked to tell: %d" % facts().parked)
    expect(peak <= 2 * fair, "%d starts in one second, %.0f is an even way back" % (peak, fair))
    after = [to for at, _, to in facts().transitions if at > facts().critical_ms[1]]
    equal(after, [], "changes of the level after the storm")


@test("at the end every job is complete, none is lost and none ran twice")
def all_complete(_):
    equal(facts().left, 0, "jobs that are not complete")
    equal([life for life in facts().lives if not life.completed], [], "jobs without an end")
    equal([life for life in facts().lives if life.runs != 1], [], "jobs that ran twice")


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
