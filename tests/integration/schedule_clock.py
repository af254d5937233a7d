#!/usr/bin/python3
# weir-test: timeout=300 bin=release norepeat
"""Slots of a real server while its wall clock is set, over changes of summer time, and while it is
killed: each slot makes exactly one job."""
import datetime
import glob
import os
import random
import sys
import time
import zoneinfo

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "fault"))

from harness import (  # noqa: E402
    FULL, Server, Skip, equal, expect, job_list, main, mapping, test, text, until)

UTC = datetime.timezone.utc
HOUR = 3600 * 1000


class FakeClock:
    """A wall clock that can be set while the server runs; the steady clocks stay real."""

    def __init__(self, folder, at):
        libs = glob.glob("/usr/lib/*/faketime/libfaketimeMT.so.1")
        if not libs:
            raise Skip("libfaketime is not installed (package faketime)")
        self.path = os.path.join(folder, "faketime")
        self.set(at)
        self.env = {"LD_PRELOAD": libs[0], "FAKETIME_TIMESTAMP_FILE": self.path,
                    "FAKETIME_NO_CACHE": "1", "FAKETIME_DONT_FAKE_MONOTONIC": "1",
                    "DONT_FAKE_MONOTONIC": "1"}

    def set(self, at):
        with open(self.path + ".new", "w") as f:
            f.write("%+f\n" % (at.timestamp() - time.time()))
        os.rename(self.path + ".new", self.path)


def moment(words):
    return datetime.datetime.fromisoformat(words).replace(tzinfo=UTC)


def ms(at):
    return int(at.timestamp() * 1000)


def scheduled(client, name):
    return mapping(client("SCHEDULED", name))


def slots(client, name):
    """The slots of all jobs of a schedule, live and ended, in the order they were made."""
    rows = [(row["id"], mapping(row["options"])) for row in job_list(client, "LIMIT", 1000)]
    return [o["slot_ms"] for _, o in sorted(rows, key=lambda r: r[0])
            if text(o.get("schedule")) == name]


def pass_to(client, clock, at, name):
    """Sets the clock and waits until the schedule has served all up to then."""
    clock.set(at)
    until(lambda: (scheduled(client, name)["next_ms"] or 1 << 60) > ms(at),
          what="%s at %s" % (name, at))


def hourly(zone, minute, begin, end):
    """When the clocks of the zone show that minute of any hour in (begin, end], minute by minute;
    one that they skip counts at the first moment after the gap."""
    step = datetime.timedelta(minutes=1)
    at, found = begin, []
    while at < end:
        before = at.astimezone(zoneinfo.ZoneInfo(zone)).replace(tzinfo=None)
        at += step
        now = at.astimezone(zoneinfo.ZoneInfo(zone)).replace(tzinfo=None)
        shown = [before + k * step for k in range(1, max(1, (now - before) // step))] + [now]
        if any(t.minute == minute for t in shown):
            found.append(at)
    return found


# A change of summer time, where, and the slots of '30 2 * * *' and of '30 1 * * *' on those days.
CHANGES = (
    ("Europe/Berlin", "2026-03-28T12:00", "2026-03-30T12:00",
     # 02:30 is skipped: once, at the first moment after the gap
     ["2026-03-29T01:00", "2026-03-30T00:30"], ["2026-03-29T00:30", "2026-03-29T23:30"]),
    ("Europe/Berlin", "2026-10-24T12:00", "2026-10-26T12:00",
     # 02:30 comes twice: once, the first time
     ["2026-10-25T00:30", "2026-10-26T01:30"], ["2026-10-24T23:30", "2026-10-26T00:30"]),
    ("America/New_York", "2026-03-07T18:00", "2026-03-09T18:00",
     ["2026-03-08T07:00", "2026-03-09T06:30"], ["2026-03-08T06:30", "2026-03-09T05:30"]),
    ("America/New_York", "2026-10-31T18:00", "2026-11-02T18:00",
     ["2026-11-01T07:30", "2026-11-02T07:30"], ["2026-11-01T05:30", "2026-11-02T06:30"]),
)


@test("over a change of summer time every schedule makes exactly the jobs it should")
def _(folder):
    for i, (zone, begin, end, at_two, at_one) in enumerate(CHANGES):
        data = os.path.join(folder, str(i))
        os.mkdir(data)
        begin, end = moment(begin), moment(end)
        clock = FakeClock(folder, begin)
        server = Server(folder, data=data, env=clock.env)
        with server.client() as c:
            common = ("ZONE", zone, "MISSED", "all", "WINDOW", 10 * 24 * HOUR, "OVERLAP", "allow")
            c("SCHEDULE", "two", "h", "", "CRON", "30 2 * * *", *common)
            c("SCHEDULE", "one", "h", "", "CRON", "30 1 * * *", *common)
            c("SCHEDULE", "hourly", "h", "", "CRON", "15 * * * *", *common)
            c("SCHEDULE", "interval", "h", "", "EVERY", HOUR, "FIRST", ms(begin) + HOUR, *common[2:])
            at = begin
            while at < end:
                at = min(end, at + datetime.timedelta(hours=random.choice((1, 3, 7))))
                for name in ("two", "one", "hourly", "interval"):
                    pass_to(c, clock, at, name)
            for back in (1, 5, 30):  # the clock goes back and comes again: nothing new
                clock.set(end - datetime.timedelta(hours=back))
                clock.set(end)
            where = "%s after %s" % (zone, begin)
            equal(slots(c, "two"), [ms(moment(t)) for t in at_two], "30 2 in " + where)
            equal(slots(c, "one"), [ms(moment(t)) for t in at_one], "30 1 in " + where)
            equal(slots(c, "hourly"), [ms(t) for t in hourly(zone, 15, begin, end)],
                  "hourly in " + where)
            n = int((end - begin).total_seconds() // 3600)
            equal(slots(c, "interval"), [ms(begin) + k * HOUR for k in range(1, n + 1)],
                  "interval in " + where)
        server.kill()


@test("a jump over an hour obeys the policy, and one back fires nothing again")
def _(folder):
    begin = moment("2026-06-01T10:00:00")
    clock = FakeClock(folder, begin + datetime.timedelta(seconds=5))
    server = Server(folder, env=clock.env)
    late = begin + datetime.timedelta(hours=1, seconds=30)
    every = 10 * 60 * 1000
    first = ms(begin) + every
    with server.client() as c:
        for missed in ("skip", "one", "all"):
            c("SCHEDULE", missed, "h", "", "EVERY", every, "FIRST", first, "MISSED", missed,
              "OVERLAP", "allow")
        c("SCHEDULE", "strict", "h", "", "EVERY", every, "FIRST", first, "WINDOW", 20000)
        for name in ("skip", "one", "all", "strict"):
            pass_to(c, clock, late, name)
        newest = ms(begin) + 6 * every
        wanted = {"skip": [newest], "one": [newest], "all": [first + k * every for k in range(6)],
                  "strict": []}
        equal({name: slots(c, name) for name in wanted}, wanted, "after the jump")
        equal([scheduled(c, name)["missed_slots"] for name in wanted], [5, 5, 0, 6], "missed")
        clock.set(begin)
        until(lambda: mapping(c("JOB", c("ENQUEUE", "h", "")))["created_ms"] < ms(late),
              what="the clock is back")
        server.kill()
    server = Server(folder, env=clock.env)
    with server.client() as c:
        clock.set(late)
        until(lambda: mapping(c("JOB", c("ENQUEUE", "h", "")))["created_ms"] >= ms(late),
              what="the clock is where it was")
        equal({name: slots(c, name) for name in wanted}, wanted, "after a jump back and forth")
        after = begin + datetime.timedelta(hours=1, minutes=10, seconds=1)
        for name in wanted:
            pass_to(c, clock, after, name)
            equal(slots(c, name)[-1:], [newest + every], "the next slot of " + name)


@test("killed around its slots again and again, each slot makes exactly one job")
def _(folder):
    every = 100
    rounds = 150 if FULL else 25
    server = Server(folder)
    with server.client() as c:
        c("SCHEDULE", "tick", "h", "", "EVERY", every, "MISSED", "all", "OVERLAP", "allow")
        c("SCHEDULE", "queued", "h", "", "EVERY", 3 * every, "MISSED", "all", "OVERLAP", "queue")
        first = {name: scheduled(c, name)["first_ms"] for name in ("tick", "queued")}
    for _ in range(rounds):
        with server.client() as c:
            # At a slot, give or take some milliseconds: the moment that matters.
            slot = scheduled(c, "tick")["next_ms"] + every * random.randrange(2)
        at = slot / 1000 + random.uniform(-0.004, 0.012)
        until(lambda: time.time() >= at, what="the moment")
        server.kill()
        server = Server(folder)
    with server.client() as c:
        c("PAUSESCHEDULE", "tick")
        c("PAUSESCHEDULE", "queued")
        for name, step in (("tick", every), ("queued", 3 * every)):
            got = slots(c, name)
            expect(len(got) > rounds // 3, "only %d jobs" % len(got))
            equal(got, [first[name] + k * step for k in range(len(got))], "slots of " + name)
            equal(scheduled(c, name)["jobs"], len(got), "jobs it knows of")
            equal(scheduled(c, name)["missed_slots"], 0, "missed slots")


if __name__ == "__main__":
    main()
