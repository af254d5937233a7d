#!/usr/bin/python3
# weir-test: timeout=180 outer alone
"""The May 1 replay with a storm of ten seconds and 150 clients, and how long things take in it.

    tests/integration/storm_whole.py [word...]
"""
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(HERE, "..", "fault"))
sys.path.insert(0, os.path.join(HERE, "..", "..", "demo"))

from harness import WEIR, expect, main, test  # noqa: E402
from lib_storm import Replay  # noqa: E402
from story import (  # noqa: E402
    QUICK, Run, expected_peak, is_undelayed, payment_waits, peak_after, percentile)


def play(folder):
    with Run(WEIR, folder, QUICK) as run:
        return run.play()


# The log and the events may disagree by a few milliseconds.
REPLAY = Replay(play, QUICK, least=100, apart_ms=50)
REPLAY.add_tests()
facts = REPLAY.facts


@test("a payment starts as soon in the storm as in the calm")
def payments_are_not_delayed(_):
    before, during = payment_waits(facts())
    expect(len(before) > 20 and len(during) > 50, "too few: %d, %d" % (len(before), len(during)))
    expect(is_undelayed(before, during), "median %d, p99 %d ms, but %d and %d ms in the storm" % (
        percentile(before, 0.5), percentile(before, 0.99),
        percentile(during, 0.5), percentile(during, 0.99)))


@test("the way back has no second spike")
def no_second_spike(_):
    peak, fair = peak_after(facts()), expected_peak(QUICK, facts())
    expect(facts().parked > 2 * fair, "too few jobs were parked to tell: %d" % facts().parked)
    expect(peak <= 2 * fair, "%d starts in one second, %.0f is an even way back" % (peak, fair))


if __name__ == "__main__":
    main()
