"""The May 1 replay, as `make demo` shows it: what must be true of it, however long it is.

A real MariaDB, payments, subscriptions, updates and syncs in one queue, clients with heavy queries.
The story is played once; each test then asks weir's own answers for one part of it.
"""
import os
import re
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
sys.path.insert(0, os.path.join(HERE, "..", "fault"))
sys.path.insert(0, os.path.join(HERE, "..", "..", "demo"))

from lib_story import Story  # noqa: E402
from story import parked, percentile  # noqa: E402
from harness import equal, expect, test  # noqa: E402

WAITING = ("high", "normal", "deferrable")


class Replay:
    """play(folder) gives the facts of the plan.  least: payments that there are at least.  apart_ms:
    what the times of the log and of the events differ by at most."""

    def __init__(self, play, plan, least, apart_ms):
        self.facts, self.plan = Story("storm", play).facts, plan
        self.least, self.apart_ms = least, apart_ms

    def lives(self, tier):
        return [life for life in self.facts().lives if life.tier == tier]

    def worse_ms(self):
        """When the level left normal: elevated at first, where samples met a storm that gathered."""
        return next(at for at, was, _ in self.facts().transitions
                    if was == "normal" and at >= self.facts().storm_ms[0])

    def add_tests(self):
        for name in ("the_level", "no_payment_is_parked", "others_wait", "new_jobs_stand_in_line",
                     "nothing_else_starts", "order_of_return", "the_level_stays", "all_complete"):
            fn = getattr(self, name)
            test(fn.__doc__)(fn)

    def the_level(self, _):
        """the storm makes the level critical, and status names the metric, its value and its age"""
        status = self.facts().status
        target = status["targets"][0]
        equal(status["level"], "critical", "level")
        equal(status["target"], "shop", "deciding target")
        equal(target["metric"], "threads_running", "metric")
        expect(float(target["value"]) >= 15, "the value that decided is %s" % target["value"])
        expect(float(target["metrics"][0]["value"]) > self.plan.clients / 2,
               "threads_running is %s in the storm" % target["metrics"][0]["value"])
        expect(0 <= target["age_ms"] < 3000, "the sample is %d ms old" % target["age_ms"])
        counts = parked(status)
        equal(counts["critical"], 0, "parked payments")
        for tier in WAITING:
            expect(counts[tier] > 0, "nothing of tier %s is parked" % tier)

    def no_payment_is_parked(self, _):
        """no payment is parked, and every one is complete"""
        payments = self.lives("critical")
        expect(len(payments) > self.least, "only %d payments" % len(payments))
        equal([life for life in payments if life.deferred], [], "deferred payments")
        equal([life for life in payments if not life.completed], [], "payments that are not complete")

    def others_wait(self, _):
        """subscriptions, updates and syncs wait, are told why, and are complete in the end"""
        begin, end = self.worse_ms(), self.facts().critical_ms[1]
        for tier in WAITING:
            late = [life for life in self.lives(tier) if life.deferred and not stands_in_line(life)]
            expect(late, "nothing of tier %s was deferred" % tier)
            for life in late:
                at, why = life.deferred[0]
                expect(begin - 1000 <= at <= end + 1000, "deferred outside of the storm")
                # Elevated for a moment, when a sample met the storm while it gathered.
                expect(re.match("(elevated|critical) load on shop: threads_running", why)
                       and "tier %s waits" % tier in why, "it was told %r" % why)
            equal([life for life in self.lives(tier) if not life.completed], [], "not complete")

    def new_jobs_stand_in_line(self, _):
        """what is new after the storm waits behind what returns, and not for the load"""
        lines = [life for tier in WAITING for life in self.lives(tier)
                 if life.deferred and stands_in_line(life)]
        expect(lines, "no new job waited behind those that return")
        for life in lines:
            expect(life.deferred[0][0] >= self.facts().critical_ms[1] - 1000, "in line during the storm")

    def nothing_else_starts(self, _):
        """while the level is critical nothing but payments starts"""
        begin, end = self.facts().critical_ms
        equal([life for life in self.facts().lives if life.tier != "critical"
               and begin + self.apart_ms <= life.started < end - self.apart_ms], [], "started")

    def order_of_return(self, _):
        """what is more important comes back first"""
        medians = [percentile([life.started for life in self.lives(tier) if life.deferred], 0.5)
                   for tier in WAITING]
        equal(medians, sorted(medians), "median start of the deferred jobs of each tier")

    def the_level_stays(self, _):
        """the way back does not raise the level again"""
        after = [to for at, _, to in self.facts().transitions if at > self.facts().critical_ms[1]]
        equal(after, [], "changes of the level after the storm")

    def all_complete(self, _):
        """at the end every job is complete, none is lost and none ran twice"""
        equal(self.facts().left, 0, "jobs that are not complete")
        equal([life for life in self.facts().lives if not life.completed], [], "jobs without an end")
        equal([life for life in self.facts().lives if life.runs != 1], [], "jobs that ran twice")


def stands_in_line(life):
    """It is newer than the storm, and waits behind older jobs of its hook that return."""
    return re.search("of its hook returns? before it", life.deferred[0][1])
