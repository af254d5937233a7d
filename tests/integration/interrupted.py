#!/usr/bin/python3
# weir-test: bin=release norepeat
"""A run of the tests that is interrupted leaves no process and no folder behind, also when each of its
threads would begin the next test at once."""
import os
import signal
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "fault"))

from harness import ROOT, equal, expect, main, test, until  # noqa: E402

THREADS = 8
RUNS = """
import itertools, os, signal, sys, threading, time
sys.path.insert(0, sys.argv[1])
import test_run

def interrupted(*_):
    test_run.end_all()
    os._exit(130)

def work():
    for i in itertools.count():
        test_run.run(test_run.Test(str(i), ["sleep", "1000"], "release", 1000))

signal.signal(signal.SIGINT, interrupted)
for _ in range(int(sys.argv[2])):
    threading.Thread(target=work, daemon=True).start()
while True:
    time.sleep(0.1)  # a signal may come just before it
"""


def sleepers(folder):
    """The processes that carry the mark of a test in this folder."""
    mark, found = b"\0WEIR_TEST=%s/" % folder.encode(), []
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open("/proc/%s/environ" % entry, "rb") as f:
                found += [entry] * (mark in b"\0" + f.read())
        except OSError:
            pass  # it ended meanwhile, or is another user's
    return found


@test("an interrupted run leaves no process and no folder")
def _(folder):
    for _ in range(5):
        run = subprocess.Popen([sys.executable, "-c", RUNS, os.path.join(ROOT, "tools"), str(THREADS)],
                               env={**os.environ, "TMPDIR": folder})
        until(lambda: len(sleepers(folder)) == THREADS, what="all threads at work")
        expect(len(os.listdir(folder)) == THREADS, os.listdir(folder))
        run.send_signal(signal.SIGINT)
        until(lambda: run.poll() is not None, what="the end of the run")
        equal(run.returncode, 130, "exit code")
        equal(sleepers(folder), [], "processes that are left")
        equal(os.listdir(folder), [], "folders that are left")


main()
