"""Every kind of filter of JOBS and GET /v1/jobs, among many jobs, while another client pings.

A fresh weir gets jobs that ended, which are history on disk, and live ones (listing_world.py).  When
all of them are where they belong, and the filling has left the minute over which weir remembers its
longest turn, each filter is asked VISITS times through each door, the doors in turns.  The time is
from before the request is sent until the first bytes of the answer are there: weir sends an answer
when it is whole, and what this client needs to take it apart is no matter of the server.

The first visit makes warm what is kept in memory; the others count.  A filter that has to look at
each job, or for names that rarely meet, may answer with a part of the page and a cursor, rather than
late.  Such a one is followed to its end once, and what that took is printed beside it.  Every answer
is compared with what it must be.
"""

import json
import os
import re
import select
import subprocess
import time
import urllib.parse

import history_cost
import listing_world
from listing_world import PAGE, harness
from peers import Broken

JOBS, QUICK_JOBS, FULL_JOBS = 2000000, 200000, 10000000     # in history
LIVE_MAX = 1000000
JOBS_STEP = listing_world.PER_GROUP
MIN_JOBS = 2 * listing_world.CANCELED
VISITS = 10         # the first of them does not count
MINUTE_S = 70       # what loop_turn_max_us looks back on: a minute, and the ten seconds under way
CALM_S = 3          # of pings without listings, to compare with
HISTORY_S = 900     # a slow disk may take long with ten million; silence beyond it is a failure
SECONDS = 120       # for one answer


class Resp:
    """One connection to the RESP door; ask() gives ids, cursor and milliseconds."""
    key = "weir-resp"

    def __init__(self, server):
        self.client = harness.Resp(("127.0.0.1", server.port), SECONDS)

    def ask(self, words):
        ms = timed(self.client, harness.pack("JOBS", *words))
        row = self.client.read()
        if isinstance(row, harness.WeirError):
            raise row
        row = harness.mapping(row)
        return ([harness.mapping(job)["id"] for job in row["jobs"]], harness.text(row["cursor"]),
                ms)


class Http:
    """The same by GET /v1/jobs."""
    key = "weir-http"

    def __init__(self, server):
        self.client = harness.Http(("127.0.0.1", server.http_port), seconds=SECONDS)

    def ask(self, words):
        query = urllib.parse.urlencode([(k.lower(), v) for k, v in zip(words[::2], words[1::2])])
        ms = timed(self.client, self.client.head("GET", f"/v1/jobs?{query}"))
        answer = self.client.read()
        if answer.status != 200:
            raise Broken(f"GET /v1/jobs?{query}: {answer}")
        row = answer.json
        return [job["id"] for job in row["jobs"]], row["cursor"], ms


def timed(client, request):
    """Milliseconds until the first bytes of the answer are there, to be read."""
    began = time.monotonic()
    client.send(request)
    if not select.select([client.socket], [], [], SECONDS)[0]:
        raise Broken(f"no answer for {SECONDS} s: {request[:200]}")
    return (time.monotonic() - began) * 1000


class Pings:
    """bench/ping.c while the block runs; afterwards `said` is what it measured."""

    def __init__(self, bench, server):
        self.args, self.said = [bench.ping, "--port", str(server.port)], None

    def __enter__(self):
        self.proc = subprocess.Popen(self.args, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                     stderr=subprocess.PIPE, text=True)
        return self

    def __exit__(self, *_):
        out, err = self.proc.communicate(timeout=SECONDS)
        if self.proc.returncode != 0:
            raise Broken(f"ping: {err.strip()}")
        self.said = json.loads(out)


def info(c):
    """Every number that INFO tells."""
    return {k: int(v) for k, v in re.findall(r"(?m)^(\w+):(\d+)\r?$", harness.text(c("INFO")))}


def wait_for_calm(server, note):
    """Until history is at rest and a minute has passed since, so that what is measured from here on
    was made by the listings."""
    history_cost.wait_until_quiet(server, HISTORY_S)
    note(f"listing: all is in place; {MINUTE_S} s until the filling is out of the minute that is "
         "looked back on")
    time.sleep(MINUTE_S)


def all_cases(door, world):
    """(filter, kind, ids): those of the world, and second pages."""
    found = [(words, kind, world.answer(words)) for words, kind in listing_world.cases(world)]
    for words in ((), ("ORDER", "oldest"), ("HOOK", "order.paid")):
        ids, cursor, _ = door.ask(words)
        found.append(((*words, "CURSOR", cursor), "single", world.answer(words, after=ids[-1])))
    return found


def follow(door, words, wanted):
    """Asks until the page is full or there is no more; the milliseconds of each answer.  Ends the
    measurement when the jobs are not those that were wanted."""
    limit = dict(zip(words[::2], words[1::2])).get("LIMIT", PAGE)
    ids, cursor, ms = door.ask(words)
    took = [ms]
    words = tuple(words[:-2] if "CURSOR" in words else words)
    while cursor and len(ids) < limit:
        more, cursor, ms = door.ask((*words, "CURSOR", cursor))
        ids += more[:limit - len(ids)]
        took.append(ms)
    if ids != wanted:
        raise Broken(f"JOBS {' '.join(map(str, words))}: {harness.short(ids)}, wanted "
                     f"{harness.short(wanted)}")
    return took


def name_of(words, world):
    """The filter as printed; times and cursors are told by what they are."""
    parts = []
    for key, value in zip(words[::2], words[1::2]):
        if key in ("SINCE", "UNTIL"):
            value = world.said[value]
        parts.append("second page" if key == "CURSOR" else f"{key} {value}")
    return ", ".join(parts) or "no filter"


def one_filter(bench, doors, c, case, world):
    """Both doors, VISITS times; the longest turn of the last minute, in microseconds."""
    words, kind, wanted = case
    before = info(c)["loop_slow_turns"]
    times = {door.key: [] for door in doors}
    for _ in range(VISITS):
        for door in doors:
            times[door.key].append(door.ask(words)[2])
    whole = follow(doors[0], words, wanted)
    for door in doors[1:]:
        follow(door, words, wanted)
    after = info(c)
    for door in doors:
        first, *warm = times[door.key]
        bench.samples.append({
            "contender": door.key, "work": "listing", "shape": [1, 1], "round": 0, "kind": kind,
            "filter": name_of(words, world), "first_ms": first, "ms": warm, "jobs": len(wanted),
            "answers": len(whole), "whole_ms": sum(whole), "longest_ms": max(whole),
            "slow_turns": after["loop_slow_turns"] - before})
    return after["loop_turn_max_us"]


def listings(bench, server, jobs, note):
    live = min(jobs, LIVE_MAX)
    with harness.Resp(("127.0.0.1", server.port), SECONDS) as c:
        began = time.monotonic()
        world = listing_world.build(bench, server, c, jobs, live)
        note(f"listing: {jobs:,} ended and {live:,} live jobs added in "
             f"{time.monotonic() - began:.0f} s")
        wait_for_calm(server, note)
        with Pings(bench, server) as calm:
            time.sleep(CALM_S)
        doors = (Resp(server), Http(server))
        cases, before = all_cases(doors[0], world), info(c)
        began, turn_us = time.monotonic(), 0
        with Pings(bench, server) as pings:
            for case in cases:
                turn_us = max(turn_us, one_filter(bench, doors, c, case, world))
        bench.samples.append({
            "contender": "weir", "work": "listing-loop", "shape": [1, 1], "round": 0, "jobs": jobs,
            "live": live, "seconds": time.monotonic() - began, "turn_max_us": turn_us,
            "calm_turn_max_us": before["loop_turn_max_us"],
            "slow_turns": info(c)["loop_slow_turns"] - before["loop_slow_turns"],
            "pings": pings.said, "calm_pings": calm.said})


def measure(bench, contender, jobs, note):
    bench.ping = os.path.join(bench.out, "ping")
    bench.compile(("ping", "sample"), bench.ping)
    with bench.server(contender) as server:
        try:
            listings(bench, server, jobs, note)
        except (AssertionError, harness.WeirError, harness.Closed) as e:
            raise Broken(f"listing: {e}") from e
