#!/usr/bin/python3
# weir-test: timeout=600 alone
"""The purge of examples/purge/run --quick: a real MariaDB primary and its replica.

The same rows are purged three times: without asking, asking before each step, with credits.  The
story is played once; each test then looks at one part of it.

    tests/integration/purge.py [word...]
"""
import functools
import os
import shutil
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(HERE, "..", "fault"))
sys.path.insert(0, os.path.join(HERE, "..", "..", "examples", "purge"))

from harness import WEIR, Skip, equal, expect, main, test  # noqa: E402
from play import FAR, FEWER, QUICK, Play  # noqa: E402


@functools.lru_cache(maxsize=None)
def outcome():
    """The facts of the one run, or the error that it ended with."""
    if not shutil.which("mariadbd", path=os.environ.get("PATH", "") + ":/usr/sbin"):
        return Skip("mariadbd is not installed")
    folder = tempfile.mkdtemp(prefix="weir-purge.")
    try:
        with Play(WEIR, folder, QUICK) as play:
            return play.all(lambda second: None)
    except Exception as error:
        return error
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def facts(way):
    found = outcome()
    if isinstance(found, Exception):
        raise found
    return found[way]


@test("a purge that does not ask drives the replica's lag far above the threshold")
def alone(_):
    expect(facts("nobody").max_lag >= FAR * QUICK.threshold,
           "%.2f s is not far above %g s" % (facts("nobody").max_lag, QUICK.threshold))


@test("a purge with credits keeps the lag under the threshold all the time")
def bound(_):
    f = facts("credits")
    expect(f.max_lag < QUICK.threshold, "the lag reached %.2f s, the threshold is %g s; it was "
           "above for %.1f s" % (f.max_lag, QUICK.threshold, f.over_s))


@test("with credits there are ten times fewer asks than with one before each step")
def fewer(_):
    credits, polling = facts("credits"), facts("polling")
    expect(polling.asks >= polling.steps, "it did not ask before each step")
    expect(credits.asks * FEWER <= polling.asks, "%d asks, and %d before each step"
           % (credits.asks, polling.asks))


@test("every purge takes all rows from the primary, and the replica has all of them in its archive")
def all_rows(_):
    for way in ("nobody", "polling", "credits"):
        f = facts(way)
        equal((f.rows, f.archived), (QUICK.rows, QUICK.rows), "rows purged and archived, " + way)


if __name__ == "__main__":
    main()
