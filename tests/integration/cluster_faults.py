#!/usr/bin/python3
# weir-test: timeout=300 long outer=part
"""A handful of faults of machines, database and network under load; all of them are in
`make crash CLUSTER=1`, with which this shares the faults and the checks (tests/crash/cluster)."""
import argparse
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
for folder in ("fault", "crash"):
    sys.path.insert(0, os.path.join(HERE, "..", folder))

from lib_cluster_net import enter  # noqa: E402

enter()  # before anything is started

from harness import equal, expect, main, test  # noqa: E402
from lib_cluster_run import Run  # noqa: E402
from lib_linear import Call, Register, UniqueKey, is_linearizable  # noqa: E402

SEED = 19


def calls(*rows):
    """(kind, value, asked, answered, result); without an answer (kind, value, asked)."""
    made = []
    for kind, value, asked, *rest in rows:
        made.append(Call(kind, value, asked))
        if rest:
            made[-1].ended(*rest)
    return made


@test("a read that misses an acknowledged write, or goes back in time, is found")
def _(_folder):
    w = ("write", 7, 0, 1, "OK")
    expect(is_linearizable(calls(w, ("read", None, 2, 3, 7)), Register), "the value is there")
    expect(not is_linearizable(calls(w, ("read", None, 2, 3, 0)), Register), "the write is lost")
    expect(is_linearizable(calls(w, ("read", None, 0.5, 3, 0)), Register), "both at once")
    unknown = ("write", 7, 0)
    expect(is_linearizable(calls(unknown, ("read", None, 2, 3, 0), ("read", None, 4, 5, 7)),
                           Register), "a write whose outcome is unknown may come late")
    expect(not is_linearizable(calls(unknown, ("read", None, 2, 3, 7), ("read", None, 4, 5, 0)),
                               Register), "and stays once it was seen")


@test("two jobs that have one unique key at once are found")
def _(_folder):
    first = ("add", None, 0, 1, 5)
    expect(is_linearizable(calls(first, ("add", None, 2, 3, 5)), UniqueKey), "the same job")
    expect(not is_linearizable(calls(first, ("add", None, 2, 3, 6)), UniqueKey), "a second job")
    expect(is_linearizable(calls(first, ("cancel", 5, 2, 3, True), ("add", None, 4, 5, 6)),
                           UniqueKey), "after a cancel")
    expect(not is_linearizable(calls(first, ("cancel", 5, 2, 3, True), ("add", None, 4, 5, 5)),
                               UniqueKey), "a job that comes back")
    expect(is_linearizable(calls(first, ("cancel", 5, 2), ("add", None, 4, 5, 6)), UniqueKey),
           "a cancel whose outcome is unknown")


@test("nothing acknowledged is lost or done twice over a handful of faults", outer=True)
def _(folder):
    args = argparse.Namespace(kind="postgres", seed=SEED, nodes=3, quick=True, only=None,
                              faults=None, seconds=None)
    os.chmod(folder, 0o711)
    run = Run(args, folder)
    result = run.live()
    equal(run.record.problems, [], "problems")
    expect(len(result["faults"]) >= 7, "faults: %s" % sorted(result["faults"]))
    for what in ("enqueued", "completed", "locked", "taken", "histories"):
        expect(result["counts"][what] > 0, "%s: %s" % (what, result["counts"]))


if __name__ == "__main__":
    main()
