#!/usr/bin/python3
"""Controls of the crash test itself: a disk that forgets, and one that brings back the past, must
be caught.  A test that cannot fail proves nothing.

weir-test: timeout=300
"""
import os
import subprocess
import sys

from harness import ROOT, WEIR, expect, main, test

# Runs in place of weir: harms the log as asked, then becomes weir.
WRAPPER = r'''#!/usr/bin/python3
import glob, os, shutil, sys
data = sys.argv[sys.argv.index("--data") + 1]
past = data + ".past"
if HOW == "past" and os.path.isdir(past):
    shutil.rmtree(data)
    os.rename(past, data)
    os.execv(WEIR, [WEIR] + sys.argv[1:])
if HOW == "past" and os.path.isdir(data) and os.path.exists(data + ".once"):
    # The crash test may kill us in the middle of it: a half copy must not become the past.
    shutil.rmtree(past + ".half", ignore_errors=True)
    shutil.copytree(data, past + ".half")
    os.rename(past + ".half", past)
open(data + ".once", "w").close()
newest = None
for path in sorted(glob.glob(data + "/log/*.seg")) if HOW == "forget" else []:
    with open(path, "rb") as f:
        frames = f.read()[4096:-4096].rstrip(b"\0")
    if len(frames) > 40000:
        newest = (path, 4096 + len(frames))
if newest:
    path, end = newest
    with open(path, "r+b") as f:
        begin = (end - 16384) // 8 * 8
        f.seek(begin)
        f.write(bytes(end - begin))
        f.seek(-4096, os.SEEK_END)
        f.write(bytes(4096))
os.execv(WEIR, [WEIR] + sys.argv[1:])
'''


def run_with(folder, how):
    path = os.path.join(folder, "weir-" + how)
    with open(path, "w") as f:
        f.write(WRAPPER.replace("WEIR", repr(WEIR)).replace("HOW", repr(how)))
    os.chmod(path, 0o755)
    done = subprocess.run([os.path.join(ROOT, "tests", "crash", "run"), "--cycles", "40",
                           "--seed", "5"], env={**os.environ, "WEIR": path, "CRASH_TMP": folder},
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          errors="replace")
    return done.returncode, done.stdout


def is_caught(folder, how):
    """Which of its jobs the test finds harmed, and how, depends on when the server dies."""
    code, said = run_with(folder, how)
    expect(code != 0 and "the server's account is not what the clients were told" in said,
           "it says: " + said[-300:])


@test("the crash test catches a disk that forgets the end of the log")
def _(folder):
    is_caught(folder, "forget")


@test("the crash test catches a folder that is restored from the past")
def _(folder):
    is_caught(folder, "past")


if __name__ == "__main__":
    sys.exit(main())
