"""The jobs among which listings are measured, and the answer to any question about them.

Ids count from 1, in this order:

  history    ended by bench/gen with the JSON payload: six hooks, 500 groups, 64 workers, 2 % failed
  CANCELED   canceled, in groups of PER_GROUP
  live       pending, likewise
  four       unlike the others: one of a hook, queue, group, tier and text of its own; one complete,
             one failed and one in progress, of one worker (lib_many_jobs.add_few)
  LATE       pending

For each id the world knows status, hook, queue, group and worker, so every answer can be compared
with what it must be, also where the generator's 64 connections decided who did what.
"""

import array
import os
import sys

from peers import Broken

TESTS = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "tests")
sys.path[1:1] = [os.path.join(TESTS, "fault"), os.path.join(TESTS, "integration")]

import harness        # noqa: E402
import lib_many_jobs  # noqa: E402

PER_GROUP, HOOKS, LATE = lib_many_jobs.PER_GROUP, lib_many_jobs.HOOKS, lib_many_jobs.LATE
CANCELED = 4 * PER_GROUP
PAGE = 50           # jobs of an answer, unless LIMIT says otherwise
SHAPE = (64, 32)    # of the generator
FILL_S = 3600       # ten million jobs on a slow disk
# A row of bench/record.h in 16-bit words: number (two of them), hook, shop, worker, end.
ROW_WORDS = 6
ENDS = ("complete", "complete", "failed")   # by enum json_end
NO_JOB = 0xffff
CASED = ("STATUS", "HOOK", "QUEUE", "GROUP", "WORKER")


class Column:
    """What each job has of one kind: a 16-bit code for each id, searched as bytes."""

    def __init__(self):
        self.codes, self.values, self.bytes = {"": 0}, array.array("H", [0]), b""

    def code(self, name):
        return self.codes.setdefault(name, len(self.codes))

    def add(self, name, n=1):
        self.values += array.array("H", [self.code(name)]) * n

    def add_coded(self, values, names):
        """One column of the generator's record, whose numbers stand for these names."""
        code_of = array.array("H", (self.code(name) for name in names))
        self.values += array.array("H", map(code_of.__getitem__, values))

    def freeze(self):
        self.bytes = self.values.tobytes()

    def pattern(self, name):
        return self.codes.get(name, NO_JOB).to_bytes(2, sys.byteorder)

    def about(self, name):
        """How many have this name, and some more where two neighbours look like it."""
        return self.bytes.count(self.pattern(name))

    def find(self, name, low, high, is_oldest):
        """Ids from low on and below high that have this name, in order."""
        pattern = self.pattern(name)
        find = self.bytes.find if is_oldest else self.bytes.rfind
        begin, end = 2 * low, 2 * high
        while (at := find(pattern, begin, end)) >= 0:
            if at % 2 == 0:
                yield at // 2
            if is_oldest:
                begin = at + 1
            else:
                end = at + 1


class World:
    def __init__(self):
        self.columns = {key: Column() for key in CASED}
        self.cuts = {}      # Unix ms: the first id that was made then or later
        self.said = {}      # the same for people
        self.seen = {}      # (TIER or MATCH, its value): ids from the smallest on, a page at least
        self.newest = 0

    def add(self, n, **names):
        """n more jobs that are alike but for a list of hooks, which take turns."""
        hooks = names.pop("HOOK")
        codes = array.array("H", map(self.columns["HOOK"].code, hooks))
        self.columns["HOOK"].values += codes * (n // len(hooks)) + codes[:n % len(hooks)]
        for key in CASED:
            if key != "HOOK":
                self.columns[key].add(names.get(key, ""), n)
        self.newest += n

    def add_filled(self, n, status, hook, queue):
        """What lib_many_jobs.fill() makes."""
        for i in range(0, n, PER_GROUP):
            self.add(PER_GROUP, STATUS=status, HOOK=[f"{hook}.{j}" for j in range(HOOKS)],
                     QUEUE=queue, GROUP=f"g{i // PER_GROUP}")

    def add_record(self, path, jobs):
        """What the generator made; gives the payloads' numbers, by id."""
        with open(path, "rb") as f:
            hooks, data = f.readline().decode().split(), f.read()
        words, numbers = array.array("H", data), array.array("I", data)[::ROW_WORDS // 2]
        ends = words[5::ROW_WORDS]
        if len(ends) != jobs or NO_JOB in ends:
            raise Broken(f"listing: {jobs} jobs should have the ids from 1 on, not {len(ends)}")
        self.columns["STATUS"].add_coded(ends, ENDS)
        self.columns["HOOK"].add_coded(words[2::ROW_WORDS], hooks)
        self.columns["QUEUE"].add("bench", jobs)
        self.columns["GROUP"].add_coded(words[3::ROW_WORDS], [f"shop-{i:03}" for i in range(500)])
        self.columns["WORKER"].add_coded(words[4::ROW_WORDS], [f"w{i}" for i in range(SHAPE[0])])
        self.newest += jobs
        return numbers

    def candidates(self, asked, low, high, is_oldest):
        """Ids in order, among them all that match."""
        for key in ("TIER", "MATCH"):
            if key in asked:
                ids = self.seen[key, asked[key]]
                return (i for i in (ids if is_oldest else reversed(ids)) if low <= i < high)
        keys = [key for key in CASED if key in asked]
        if not keys:
            return iter(range(low, high) if is_oldest else range(high - 1, low - 1, -1))
        rarest = min(keys, key=lambda key: self.columns[key].about(asked[key]))
        return self.columns[rarest].find(asked[rarest], low, high, is_oldest)

    def answer(self, words, after=None):
        """The ids that JOBS must answer with, behind the id `after`."""
        asked = dict(zip(words[::2], words[1::2]))
        is_oldest = asked.get("ORDER") == "oldest"
        low, high = self.cuts[asked.get("SINCE", 0)], self.cuts[asked.get("UNTIL", None)]
        if after and is_oldest:
            low = max(low, after + 1)
        elif after:
            high = min(high, after)
        wanted = [(self.columns[key].values, self.columns[key].codes.get(asked[key], NO_JOB))
                  for key in CASED if key in asked]
        found = []
        for i in self.candidates(asked, low, high, is_oldest):
            if all(values[i] == code for values, code in wanted):
                found.append(i)
                if len(found) == asked.get("LIMIT", PAGE):
                    break
        return found


def first_made_at(c, ms, low, high):
    """The smallest id from low on and below high that was made at this time or later."""
    while low < high:
        middle = (low + high) // 2
        if harness.job(c, middle).created_ms < ms:
            low = middle + 1
        else:
            high = middle
    return low


def add_cuts(world, c, in_history, first_live):
    """Times to ask for.  The clock counts in ms, in which many jobs are made: what counts is the
    first of them."""
    end = world.newest + 1
    world.cuts = {0: 1, None: end, 1000: 1}
    world.said = {1000: "1970"}
    for at, name in ((in_history // 3, "1/3 of history"), (in_history // 2, "1/2 of history"),
                     (first_live, "the first live job")):
        ms = harness.job(c, at).created_ms
        world.cuts[ms] = first_made_at(c, ms, 1, at)
        world.said[ms] = name
    tomorrow = harness.job(c, world.newest).created_ms + 86400000
    world.cuts[tomorrow], world.said[tomorrow] = end, "tomorrow"


def build(bench, server, c, in_history, live):
    """Fills a fresh weir; both numbers are multiples of PER_GROUP."""
    world = World()
    jobs = in_history - CANCELED
    record = os.path.join(bench.out, "record")
    bench.generate(server, SHAPE, [f"cycle#{jobs}"], ("--json", "--record", record), FILL_S)
    numbers = world.add_record(record, jobs)
    os.remove(record)
    bench.jobs_checked += jobs

    lib_many_jobs.fill(c, CANCELED, "old", "archive")
    harness.equal(lib_many_jobs.counts(c, "CANCELMANY", "QUEUE", "archive"), (CANCELED, CANCELED))
    world.add_filled(CANCELED, "canceled", "old", "archive")
    first_live = world.newest + 1
    lib_many_jobs.fill(c, live, "live", "work")
    world.add_filled(live, "pending", "live", "work")

    few = lib_many_jobs.add_few(c)
    harness.equal(few, tuple(range(world.newest + 1, world.newest + 5)), "the four ids")
    world.add(1, STATUS="pending", HOOK=["rare.hook"], QUEUE="few", GROUP="lonely")
    for status, hook in (("complete", "sawn"), ("failed", "broken"), ("in-progress", "planed")):
        world.add(1, STATUS=status, HOOK=[hook], QUEUE="bench", WORKER=lib_many_jobs.WORKER)
    lib_many_jobs.fill(c, LATE, "live", "work")
    world.add_filled(LATE, "pending", "live", "work")

    for column in world.columns.values():
        column.freeze()
    add_cuts(world, c, jobs, first_live)
    world.deep_text = f'"n":"{jobs // 10:010}"'
    late = range(few[-1] + 1, world.newest + 1)
    world.seen = {
        ("TIER", "critical"): [few[0]], ("TIER", "high"): [], ("TIER", "normal"): late,
        ("MATCH", "haystack42"): [few[0]], ("MATCH", "zzzzqq"): [], ("MATCH", '"note"'): late,
        ("MATCH", world.deep_text): [numbers.index(jobs // 10) + 1]}
    return world


def cases(world):
    """(filter, kind): a `single` one, a `pair` of names that rarely meet, or one that has to `look`
    into each job."""
    third, half, live, tomorrow = (
        next(ms for ms, said in world.said.items() if said == name)
        for name in ("1/3 of history", "1/2 of history", "the first live job", "tomorrow"))
    single = [
        (), ("ORDER", "oldest"), ("LIMIT", 1000),
        ("HOOK", "order.paid"), ("HOOK", "order.paid", "ORDER", "oldest", "LIMIT", 2),
        ("HOOK", "live.7"), ("HOOK", "old.7"), ("HOOK", "rare.hook"), ("HOOK", "nobody"),
        ("QUEUE", "bench"), ("QUEUE", "work"), ("QUEUE", "archive"), ("QUEUE", "few"),
        ("QUEUE", "nobody"),
        ("GROUP", "shop-250"), ("GROUP", "g3"), ("GROUP", "lonely"), ("GROUP", "nobody"),
        ("STATUS", "pending"), ("STATUS", "in-progress"), ("STATUS", "complete"),
        ("STATUS", "failed"), ("STATUS", "canceled"),
        ("WORKER", "w17"), ("WORKER", lib_many_jobs.WORKER), ("WORKER", "nobody"),
        ("SINCE", live), ("SINCE", tomorrow), ("UNTIL", live), ("UNTIL", 1000),
        ("SINCE", third, "UNTIL", half),
    ]
    pair = [
        ("GROUP", "shop-250", "WORKER", "w17"), ("GROUP", "shop-250", "STATUS", "failed"),
        ("GROUP", "shop-250", "WORKER", "w17", "ORDER", "oldest"),
        ("GROUP", "shop-250", "HOOK", "mail.send", "WORKER", "w17"),
        ("GROUP", "shop-250", "QUEUE", "work"), ("HOOK", "order.paid", "GROUP", "lonely"),
        ("HOOK", "order.paid", "WORKER", lib_many_jobs.WORKER),
        ("STATUS", "canceled", "HOOK", "live.7"), ("STATUS", "failed", "QUEUE", "work"),
        ("STATUS", "canceled", "GROUP", "g3", "ORDER", "oldest"),
        ("HOOK", "mail.send", "UNTIL", half),
    ]
    look = [
        ("TIER", "critical"), ("TIER", "normal"), ("TIER", "high"),
        ("MATCH", '"note"'), ("MATCH", "haystack42"), ("MATCH", world.deep_text),
        ("MATCH", "zzzzqq"), ("QUEUE", "archive", "MATCH", "zzzzqq"),
        ("STATUS", "failed", "MATCH", "zzzzqq"),
    ]
    return ([(words, "single") for words in single] + [(words, "pair") for words in pair]
            + [(words, "look") for words in look])
