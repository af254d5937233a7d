"""A weir full of jobs, and every kind of question about them with its answer: for the test of the
listings (jobs_million.py) and for their measurement (bench/listing.py)."""
import dataclasses
import os
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "fault"))

from harness import claim, equal, job, mapping  # noqa: E402

PER_GROUP = 5000    # jobs in a group, and in a request that adds them
HOOKS = 50          # of a queue, in turns
LATE = 10000        # live jobs that are newer than the few
WORKER = "carpenter"


@dataclasses.dataclass
class World:
    """Ids count from 1: `many` canceled jobs, `many` live ones, a few that are unlike them, LATE
    more live ones."""
    many: int
    half_ms: int    # when the first live one was made: all canceled ones are older
    rare: int       # the only one of its hook, queue, group, tier and text
    complete: int   # these three were claimed by WORKER
    failed: int
    running: int
    newest: int

    def group(self):
        """One of PER_GROUP canceled and as many live jobs, in their middle; and its newest job."""
        middle = self.many // PER_GROUP // 2
        return "g%d" % middle, self.many + (middle + 1) * PER_GROUP


def fill(c, n, hook, queue):
    """n jobs, a multiple of PER_GROUP."""
    for i in range(0, n, PER_GROUP):
        words = []
        for j in range(i, i + PER_GROUP):
            words += ["%s.%d" % (hook, j % HOOKS), '{"order":%d,"note":"%s"}' % (j, "x" * 60)]
        c("ENQUEUEMANY", "QUEUE", queue, "GROUP", "g%d" % (i // PER_GROUP), "JOBS", *words)


def counts(c, command, *words):
    row = mapping(c(command, *words))
    return row["matched"], row["changed"]


def add_few(c):
    """One that is rare, and one of each state that takes a worker; their ids."""
    rare = c("ENQUEUE", "rare.hook", '{"needle":"haystack42"}', "QUEUE", "few", "GROUP", "lonely",
             "TIER", "critical")
    for hook in ("sawn", "broken", "planed"):
        c("ENQUEUE", hook, "{}", "QUEUE", "bench", "ATTEMPTS", 1)
    done, bad, running = claim(c, "bench", WORKER, 3, lease=3600000)
    c("COMPLETE", done.id, done.token)
    c("FAIL", bad.id, bad.token, "it broke")
    return rare, done.id, bad.id, running.id


def build(c, many):
    """many: a multiple of PER_GROUP, at least 4 times, so that the late ones are not in
    World.group()."""
    fill(c, many, "old", "archive")
    equal(counts(c, "CANCELMANY", "QUEUE", "archive", "DRYRUN"), (many, 0))
    equal(counts(c, "CANCELMANY", "QUEUE", "archive"), (many, many))
    equal(counts(c, "DELETEMANY", "STATUS", "canceled", "DRYRUN"), (many, 0))
    fill(c, many, "live", "work")
    half_ms = job(c, many + 1).created_ms
    few = add_few(c)
    fill(c, LATE, "live", "work")
    row = mapping(c("JOBCOUNTS"))
    equal((row["pending"], row["canceled"]), (many + LATE + 1, many), "counts")
    return World(many, half_ms, *few, newest=few[-1] + LATE)


def down(first, step=1, n=50):
    return [first - step * i for i in range(n)]


def up(first, step=1, n=50):
    return [first + step * i for i in range(n)]


def cases(w):
    """(filter, ids of its first page, cursor).  The cursor is "" where that page is the only one.
    A page may end early, with fewer ids and a cursor: those that have to look at each job (TIER,
    MATCH) do so among many, the others on a busy machine."""
    now_ms = int(time.time() * 1000)
    group, newest_of_group = w.group()
    handled = sorted((w.complete, w.failed, w.running), reverse=True)
    newest = down(w.newest)
    return [
        ((), newest, None),
        (("ORDER", "oldest"), up(1), None),
        (("HOOK", "old.7"), down(w.many - 42, HOOKS), None),
        (("HOOK", "old.7", "ORDER", "oldest", "LIMIT", 2), up(8, HOOKS, 2), None),
        (("HOOK", "live.7"), down(w.newest - 42, HOOKS), None),
        (("HOOK", "rare.hook"), [w.rare], ""),
        (("HOOK", "nobody"), [], ""),
        (("QUEUE", "work"), newest, None),
        (("QUEUE", "archive"), down(w.many), None),
        (("QUEUE", "few"), [w.rare], ""),
        (("QUEUE", "nobody"), [], ""),
        (("GROUP", group), down(newest_of_group), None),
        (("GROUP", "lonely"), [w.rare], ""),
        (("GROUP", "nobody"), [], ""),
        (("STATUS", "pending"), newest, None),
        (("STATUS", "in-progress"), [w.running], ""),
        (("STATUS", "complete"), [w.complete], ""),
        (("STATUS", "failed"), [w.failed], ""),
        (("STATUS", "canceled", "LIMIT", 1), [w.many], None),
        (("WORKER", WORKER), handled, ""),
        (("WORKER", "nobody"), [], ""),
        (("SINCE", w.half_ms), newest, None),
        (("SINCE", now_ms + 100000), [], ""),
        (("UNTIL", w.half_ms), down(w.many), None),
        (("UNTIL", 1000), [], ""),
        (("TIER", "critical"), [w.rare], None),
        (("TIER", "normal"), newest, None),
        (("TIER", "high"), [], None),
        (("MATCH", "order"), newest, None),
        (("MATCH", "haystack42"), [w.rare], None),
        (("MATCH", "zzzzqq"), [], None),
        (("HOOK", "old.7", "GROUP", "lonely"), [], ""),
        (("STATUS", "canceled", "HOOK", "live.7"), [], ""),
        (("STATUS", "failed", "QUEUE", "work"), [], ""),
        (("STATUS", "canceled", "GROUP", group, "ORDER", "oldest"),
         up(newest_of_group - w.many - PER_GROUP + 1), None),
        (("HOOK", "old.7", "UNTIL", w.half_ms), down(w.many - 42, HOOKS), None),
        (("QUEUE", "archive", "MATCH", "zzzzqq"), [], None),
    ]
