"""The story of May 1: calm, a storm in the database, and the way back.

A run starts a private MariaDB and weir, lets the shop's jobs flow, sends the storm and waits until
every job is complete.  What happened is then read from weir itself: the events of each job and the
changes of the level.
"""
import calendar
import dataclasses
import os
import re
import string
import time

from flow import TIERS, Api, Flow, Weir
from shop import USER, MariaDB, Storm

HERE = os.path.dirname(os.path.abspath(__file__))
PATIENCE_S = 60     # beyond what a step should take


@dataclasses.dataclass(frozen=True)
class Plan:
    """Times are seconds; durations in words are for weir.conf."""
    calm: float = 15
    storm: float = 120
    after: float = 5            # jobs go on flowing when all that was parked is back
    clients: int = 150
    rows: int = 30              # how much work a heavy query is
    interval: str = "200ms"     # of the probe
    dwell: float = 10
    ramp_cycles: int = 3
    ramp_cycle: float = 20
    elevated: tuple = ("0s", "0s", "5m", "15m")
    critical: tuple = ("0s", "5m", "15m", "60m")
    workers: int = 12
    rates: tuple = (10, 5, 8, 12)       # jobs a second, by tier

    def config(self, socket):
        def quoted(words):
            return ", ".join('"%s"' % word for word in words)
        with open(os.path.join(HERE, "weir.conf")) as f:
            return string.Template(f.read().replace("$names", "names")).substitute(
                socket=socket, user=USER, interval=self.interval, dwell="%dms" % (self.dwell * 1e3),
                ramp_cycles=self.ramp_cycles, ramp_cycle="%dms" % (self.ramp_cycle * 1e3),
                elevated=quoted(self.elevated), critical=quoted(self.critical))


QUICK = Plan(calm=4, storm=10, after=2, rows=4, dwell=2, ramp_cycle=3,
             elevated=("0s", "0s", "30s", "60s"), critical=("0s", "20s", "30s", "60s"))


@dataclasses.dataclass
class Second:
    """What a second looked like: a line of the live view."""
    at: float
    phase: str
    level: str
    threads_running: float
    started: dict
    parked: dict
    ramp: str       # "2/3", or empty


@dataclasses.dataclass
class Life:
    """A job, from its events; times are weir's, in ms."""
    tier: str
    created: int = 0
    started: int = 0
    completed: int = 0
    runs: int = 0
    deferred: list = dataclasses.field(default_factory=list)    # (ms, why)

    def wait_ms(self):
        return self.started - self.created


@dataclasses.dataclass
class Facts:
    seconds: list
    lives: list
    transitions: list           # (ms, from, to)
    calm_ms: int                # the jobs began to flow
    storm_ms: tuple             # begin and end of the heavy queries
    critical_ms: tuple          # begin and end of the level
    parked: int                 # most jobs that were parked at once
    status: dict                # what THROTTLE STATUS said shortly before the storm ended
    end_ms: int
    left: int                   # jobs that weir did not call complete at the end


class Run:
    """`with Run(...) as run: facts = run.play(tell)`; ends what it started, whatever happens."""

    def __init__(self, program, folder, plan):
        self.program, self.folder, self.plan = program, folder, plan
        self.database = self.weir = self.flow = self.storm = None
        self.seconds, self.phase = [], "calm"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.storm:
            self.storm.end()
        if self.flow:
            self.flow.end()
        if self.weir:
            self.weir.stop()
        if self.database:
            self.database.stop()

    def play(self, tell=lambda second: None):
        plan = self.plan
        self.database = MariaDB(self.folder)
        self.weir = Weir(self.program, self.folder, plan.config(self.database.socket))
        self.api, self.tell = Api(self.weir.http), tell
        self._until(lambda s: s["level"] == "normal" and measured(s) is not None,
                    "weir has measured the database")
        rates = dict(zip((tier for tier, _, _ in TIERS), plan.rates))
        calm_ms = now_ms()
        self.begin = self.next = time.monotonic()
        self.n_seen = 0
        self.flow = Flow(self.weir, self.database, rates, plan.workers)
        self._watch(plan.calm)
        storm_ms = self._blow()
        self._back()
        end_ms = now_ms()
        return self._facts(calm_ms, storm_ms, end_ms)

    def _blow(self):
        self.phase, begin, begin_ms = "storm", time.monotonic(), now_ms()
        self.storm = Storm(self.database, self.plan.clients, self.plan.rows)
        self._until(lambda s: s["level"] == "critical", "the level is critical")
        self._watch(self.plan.storm - (time.monotonic() - begin))
        self.status = self._look()
        self.storm.end()
        return begin_ms, now_ms()

    def _back(self):
        plan = self.plan
        self.phase = "after"
        self._until(lambda s: s["level"] == "normal", "the level is normal again", plan.dwell)
        self._until(lambda s: not s["ramp"]["running"] and not any(parked(s).values()),
                    "all parked jobs are back", plan.ramp_cycles * plan.ramp_cycle)
        self._watch(plan.after)
        self.flow.close()
        self._until(lambda s: self.flow.n_done >= self.flow.n_made(), "every job is done")

    # ---- looking

    def _look(self):
        """The state of the gate; once a second it is also a line of the view."""
        self.flow and self.flow.check()
        status = self.api.throttle()
        if self.flow and time.monotonic() >= self.next:
            self.next += 1
            self._line(status)
        return status

    def _line(self, status):
        with self.flow.lock:
            fresh = self.flow.starts[self.n_seen:]
        self.n_seen += len(fresh)
        ramp = status["ramp"]
        second = Second(
            time.monotonic() - self.begin, self.phase, status["level"], measured(status) or 0,
            {tier: sum(1 for _, t in fresh if t == tier) for tier, _, _ in TIERS}, parked(status),
            "%d/%d" % (ramp["cycle"], ramp["cycles"]) if ramp["running"] else "")
        self.seconds.append(second)
        self.tell(second)

    def _watch(self, seconds):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self._look()
            time.sleep(0.05)

    def _until(self, condition, what, seconds=0):
        deadline = time.monotonic() + seconds + PATIENCE_S
        while not condition(self._look()):
            if time.monotonic() > deadline:
                raise AssertionError("it did not come true that %s" % what)
            time.sleep(0.05)

    # ---- what weir says about it

    def _facts(self, calm_ms, storm_ms, end_ms):
        lives = [life_of(tier, self.api.events(job))
                 for tier, ids in self.flow.ids.items() for job in ids]
        transitions = self._transitions()
        worst = [at for at, _, to in transitions if to == "critical"]
        calm = [at for at, _, to in transitions if to == "normal" and at > storm_ms[0]]
        return Facts(seconds=self.seconds, lives=lives, transitions=transitions, calm_ms=calm_ms,
                     storm_ms=storm_ms, critical_ms=(worst[0], calm[0]), status=self.status,
                     parked=max(sum(s.parked.values()) for s in self.seconds), end_ms=end_ms,
                     left=sum(job["status"] != "complete" for job in self.api.jobs()))

    def _transitions(self):
        """From the log: THROTTLE HISTORY keeps 500 events, and deferrals are events too."""
        found = []
        with open(self.weir.log_path, errors="replace") as f:
            for line in f:
                if "load_level_transition" in line:
                    words = dict(re.findall(r"(\w+)=(\S+)", line))
                    found.append((wall_ms(words["time"]), words["from"], words["to"]))
        return found


def now_ms():
    return int(time.time() * 1000)


def wall_ms(text):
    """2026-11-15T13:37:29.354Z"""
    whole, _, part = text.rstrip("Z").partition(".")
    return calendar.timegm(time.strptime(whole, "%Y-%m-%dT%H:%M:%S")) * 1000 + int(part or 0)


def parked(status):
    return {t["tier"]: t["parked"] for t in status["tiers"]}


def measured(status):
    value = status["targets"][0]["metrics"][0]["value"]
    return None if value is None else float(value)


def life_of(tier, events):
    life = Life(tier)
    for e in events:
        if e["event"] == "deferred":
            life.deferred.append((e["at_ms"], e["message"]))
        elif e["event"] in ("created", "started", "completed"):
            setattr(life, e["event"], e["at_ms"])
            life.runs += e["event"] == "started"
    return life


# ---------------------------------------------------------------- figures

# What a payment may wait longer than in the calm, in ms: this machine also carries the storm.
SLACK_MEDIAN_MS, SLACK_P99_MS = 100, 1000


def payment_waits(facts):
    """From created to started, in ms: those of the calm, and of the time the level was critical."""
    waits = ([], [])
    for life in facts.lives:
        if life.tier != "critical":
            continue
        if life.created < facts.storm_ms[0]:
            waits[0].append(life.wait_ms())
        elif facts.critical_ms[0] <= life.created < facts.critical_ms[1]:
            waits[1].append(life.wait_ms())
    return waits


def is_undelayed(before, during):
    return (percentile(during, 0.5) <= percentile(before, 0.5) + SLACK_MEDIAN_MS
            and percentile(during, 0.99) <= percentile(before, 0.99) + SLACK_P99_MS)


def percentile(values, share):
    values = sorted(values)
    return values[min(len(values) - 1, int(share * len(values)))] if values else 0


def starts_per_second(lives, begin_ms, end_ms):
    """How many jobs began in each second of a time."""
    counts = [0] * max(1, (end_ms - begin_ms + 999) // 1000)
    for life in lives:
        if begin_ms <= life.started < end_ms:
            counts[(life.started - begin_ms) // 1000] += 1
    return counts


def expected_peak(plan, facts):
    """Jobs a second that the ramp should have: the usual ones, and the parked ones spread over its
    cycles."""
    return sum(plan.rates) + facts.parked / (plan.ramp_cycles * plan.ramp_cycle)


def peak_after(facts):
    """Most starts in a second since the level is normal again."""
    return max(starts_per_second(facts.lives, facts.critical_ms[1], facts.end_ms))
