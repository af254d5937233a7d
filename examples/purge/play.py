"""The purges one after the other, what was seen of each, and how it is told."""
import dataclasses
import os
import threading
import time

from pair import DatabaseError, Pair  # puts demo/ on the path
from purge import STEP, Credits, Nobody, Polling, Purge, Refused, Weir

from flow import Weir as Daemon     # noqa: E402
from flow import WeirError          # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
FAR = 3         # times the threshold: what a purge that does not ask must reach
FEWER = 10      # times fewer asks with credits
IDENTITY = "nightly:purge:maintenance"
BAR = 40        # widest bar of the graph
WAYS = (("nobody", "does not ask"), ("polling", "asks before each step"), ("credits", "credits"))
Trouble = (AssertionError, DatabaseError, OSError, Refused, WeirError)


@dataclasses.dataclass(frozen=True)
class Plan:
    rows: int
    threshold: float = 3.0      # seconds of lag
    step: int = STEP
    shown_s: float = 1.0        # between two lines


FULL = Plan(rows=1500000, shown_s=2.0)
QUICK = Plan(rows=600000)


@dataclasses.dataclass
class Facts:
    """What was seen of one purge."""
    way: str
    rows: int = 0
    steps: int = 0
    asks: int = 0
    refusals: int = 0
    seconds: float = 0.0        # until its last step
    caught_up_s: float = 0.0    # until the replica had applied all of it
    max_lag: float = 0.0
    over_s: float = 0.0         # so long the lag was above the threshold
    archived: int = 0           # rows that the replica has kept


@dataclasses.dataclass
class Second:
    way: str
    at: float
    lag: float
    rows_s: float
    asks: int


def config(pair, threshold):
    """weir.conf with the ports of this pair."""
    with open(os.path.join(HERE, "weir.conf"), encoding="ascii") as f:
        text = f.read()
    for word, value in (("PRIMARY", pair.primary.port), ("REPLICA", pair.replica.port),
                        ("THRESHOLD", threshold)):
        text = text.replace(word, "%g" % value)
    return text


class Play:
    """The pair and weir; `with` ends them."""

    def __init__(self, program, folder, plan):
        self.plan, self.pair, self.daemon = plan, None, None
        self.pair = Pair(folder)
        try:
            self.daemon = Daemon(program, folder, config(self.pair, plan.threshold))
        except BaseException:
            self.stop()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    def stop(self):
        if self.daemon:
            self.daemon.stop()
        if self.pair:
            self.pair.stop()

    def all(self, tell):
        return {way: self.one(way, tell) for way, _ in WAYS}

    def one(self, way, tell):
        """One purge of all rows, told second by second."""
        plan, weir = self.plan, Weir(self.daemon.resp)
        self.pair.fill(plan.rows)
        self.pair.settle()
        self.know(weir)
        asker = {"nobody": lambda *_: Nobody(), "polling": Polling, "credits": Credits}[way](
            weir, IDENTITY)
        purge = Purge(self.pair.primary.connect(), plan.rows, asker, plan.step)
        first, began, problems = len(self.pair.lags), time.monotonic(), []
        thread = threading.Thread(target=self.guard, args=(purge.run, problems), daemon=True)
        thread.start()
        self.watch(way, purge, thread, tell)
        ended = time.monotonic()
        if problems:
            raise problems[0]
        self.pair.settle()
        lags = self.pair.lags[first:]
        facts = Facts(way, purge.deleted, purge.steps, asker.asks, asker.refusals, ended - began,
                      time.monotonic() - began, max(lag for _, lag in lags),
                      archived=self.pair.archived())
        facts.over_s = sum(b[0] - a[0] for a, b in zip(lags, lags[1:]) if a[1] > plan.threshold)
        purge.connection.close()
        weir.close()
        return facts

    def know(self, weir):
        """Waits until weir has measured the lag, and measures often again."""
        deadline = time.monotonic() + 30
        while True:
            answer = weir.check(IDENTITY)
            if answer["verdict"] == "granted" and answer["value"] is not None:
                return
            if time.monotonic() > deadline:
                raise WeirError("weir does not know the lag: %s" % answer)
            time.sleep(0.1)

    @staticmethod
    def guard(function, problems):
        try:
            function()
        except Exception as error:  # raised again in the main thread
            problems.append(error)

    def watch(self, way, purge, thread, tell):
        began = last = time.monotonic()
        deleted, asks = 0, 0
        while thread.is_alive():
            thread.join(self.plan.shown_s)
            now = time.monotonic()
            rate = (purge.deleted - deleted) / (now - last)
            tell(Second(way, now - began, self.pair.lag(), rate, purge.asker.asks - asks))
            last, deleted, asks = now, purge.deleted, purge.asker.asks


# ---------------------------------------------------------------- for people


def head():
    return "%-10s %6s  %9s  %6s  %6s" % ("", "second", "rows/s", "asks", "lag")


def line(s, threshold):
    bar = "#" * min(BAR, int(s.lag / threshold * 10))
    if len(bar) > 10:
        bar = bar[:10] + "|" + bar[10:]
    return "%-10s %6.0f  %9s  %6d  %6.2f  %s" % (
        s.way, s.at, format(int(s.rows_s), ","), s.asks, s.lag, bar)


def table(facts, threshold):
    rows = ["%-22s %9s %9s %8s %8s %9s %9s %10s %7s" % (
        "", "max lag", "over %gs" % threshold, "purged", "rows/s", "caught up", "rows/s",
        "asks/step", "asks")]
    for way, title in WAYS:
        f = facts[way]
        rows.append("%-22s %7.2f s %7.1f s %6.1f s %8s %7.1f s %9s %10.4f %7s" % (
            title, f.max_lag, f.over_s, f.seconds, format(int(f.rows / f.seconds), ","),
            f.caught_up_s, format(int(f.rows / f.caught_up_s), ","), f.asks / f.steps,
            format(f.asks, ",")))
    return "\n".join(rows)


def verdict(facts, threshold):
    """(is it so, sentence) for everything that must be so."""
    alone, polling, credits = facts["nobody"], facts["polling"], facts["credits"]
    yield (alone.max_lag >= FAR * threshold,
           "without asking the lag reached %.2f s, %.1f times the threshold of %g s"
           % (alone.max_lag, alone.max_lag / threshold, threshold))
    yield (credits.max_lag < threshold,
           "with credits it stayed under the threshold: %.2f s" % credits.max_lag)
    yield (credits.asks * FEWER <= polling.asks,
           "with credits %s asks, before each step %s: %.0f times fewer"
           % (format(credits.asks, ","), format(polling.asks, ","), polling.asks / credits.asks))
    yield (all(f.archived == f.rows for f in facts.values()),
           "every row of each purge is gone from the primary and kept by the replica")
