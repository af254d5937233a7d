#!/usr/bin/python3
# weir-test: timeout=300 outer=part
"""A small form of examples/purge: a real MariaDB primary and its replica.

The same rows are purged three times: without asking, asking before each step, with credits.  The
story is played once; each test then looks at one part of it.  How high the lag goes depends on how
busy the machine is, so that is not judged here: examples/purge/run does, and its exit code says.
With few rows, the threshold is so high that a busy machine does not reach it: no step is refused.

    tests/integration/purge.py [word...]
"""
import dataclasses
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(HERE, "..", "fault"))
sys.path.insert(0, os.path.join(HERE, "..", "..", "examples", "purge"))

from harness import BOTH, OUTER, WEIR, equal, expect, main, test  # noqa: E402
from lib_pair import quick_databases  # noqa: E402
from lib_story import Story  # noqa: E402
from play import QUICK, Play  # noqa: E402

SMALL = (dataclasses.replace(QUICK, rows=40000) if OUTER else
         dataclasses.replace(QUICK, rows=6000, threshold=300.0, shown_s=0.1))


def play_all(folder):
    quick_databases()
    with Play(WEIR, folder, SMALL) as play:
        return play.all(lambda second: None)


STORY = Story("purge", play_all)


def facts(way):
    return STORY.facts()[way]


@test("one asks before each step, one asks less often than it steps, one not at all", outer=BOTH)
def asks(_):
    nobody, polling, credits = (facts(way) for way in ("nobody", "polling", "credits"))
    equal(nobody.asks, 0, "asks of the one that does not ask")
    expect(polling.asks >= polling.steps, "it did not ask before each step")
    expect(0 < credits.asks < credits.steps, "%d asks for %d steps" % (credits.asks, credits.steps))


@test("every purge takes all rows from the primary, and the replica has all of them in its archive",
      outer=BOTH)
def all_rows(_):
    for way in ("nobody", "polling", "credits"):
        f = facts(way)
        equal((f.rows, f.archived), (SMALL.rows, SMALL.rows), "rows purged and archived, " + way)


if __name__ == "__main__":
    main()
