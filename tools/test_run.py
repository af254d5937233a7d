"""Runs one program of the tests and says how it went: for tools/test.

A program runs in a session of its own, with a TMPDIR of its own, no stdin, and a limit that only
ends a hang.  Whatever it leaves behind is ended with it: processes that carry its mark in their
environment, wherever they moved, and mounts below its folder.

While programs run, a sampler looks at their processes once a second: which programs take the
processor, and what the test's own process waits for.
"""

import collections
import contextlib
import itertools
import os
import re
import select
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MARK = "WEIR_TEST"  # in the environment of a test's processes: its folder
BUSY = 4  # a machine that is busy with something else takes so many times as long
ENDING_S = 20  # within which a killed process is gone, unless the disk holds it
REPORT_LINES = 60  # of a sanitizer's report; the whole is in the folder of the test
TICKS = os.sysconf("SC_CLK_TCK")

# Sanitizers write their reports into files, so that a report of a server whose test did not look
# at its exit code still counts.  A failed allocation must be able to return NULL: weir handles it.
SANITIZERS = {
    "ASAN_OPTIONS": "detect_leaks=1:allocator_may_return_null=1:detect_stack_use_after_return=1",
    "UBSAN_OPTIONS": "print_stacktrace=1",
    "TSAN_OPTIONS": "halt_on_error=1:second_deadlock_stack=1",
    "LSAN_OPTIONS": "report_objects=1",
}


class Test:
    """A program to run.  load: what it takes of a core."""

    def __init__(self, name, argv, variant, timeout, said=(), load=1.0):
        self.name, self.argv, self.variant = name, argv, variant
        self.timeout = timeout * BUSY  # it ends what hangs; how long a test takes is not its matter
        self.said = said
        self.alone, self.long = "alone" in said, "long" in said
        self.load = load
        self.is_patient = load == 0.0  # takes what others leave of the processor
        self.stage, self.goal, self.environment = None, None, {}


class Goal(Test):
    """A call of make; what needs it waits until it is done."""

    def __init__(self, words, is_patient):
        # -k, so that one file that does not compile costs its own tests and not all of them.
        super().__init__("make " + " ".join(words if len(words) < 4 else words[:2] + ["..."]),
                         ["make", "-k", f"-j{os.cpu_count() or 2}"] + words, "release", 3000,
                         load=0.0 if is_patient else 1.0)
        self.done, self.stage = threading.Event(), "build"


class Result:
    def __init__(self, test, counts, seconds, cpu, output):
        self.test, self.seconds, self.output = test, seconds, output
        self.passed, self.failed, self.skipped = counts
        self.cpu = cpu  # seconds of processor, of all its processes that were waited for
        self.spent, self.waits = "", ""  # what the sampler saw
        self.has_report = False  # of a sanitizer: whatever the next run says, the fault is there


# --- what a test leaves behind ------------------------------------------------------------------

LIVE = {}  # folder of each program that runs: its process group, None before it has one
LIVE_LOCK = threading.RLock()  # a signal may come while it is held


def end_group(pgid):
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pgid, signal.SIGKILL)


def marked(folders):
    """The processes that carry the mark of one of these folders."""
    marks = [f"{MARK}={f}".encode() for f in folders]
    for entry in os.listdir("/proc"):
        if entry.isdigit() and int(entry) != os.getpid():
            with contextlib.suppress(OSError):
                words = Path(f"/proc/{entry}/environ").read_bytes().split(b"\0")
                if any(m in words for m in marks):
                    yield int(entry)


def end_marked(folders):
    """Ends what the tests of these folders left, and unmounts what they mounted there.  Looks again for
    what was just being started, and until all have ended: they may be writing into a folder.  A
    process that has ended and was not yet reaped has no environment."""
    limit = time.monotonic() + ENDING_S
    for look in itertools.count():
        left = list(marked(folders))
        for pid in left:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        if look and not left or time.monotonic() > limit:
            break
        time.sleep(0.005 if left else 0)
    with contextlib.suppress(OSError):
        for line in reversed(Path("/proc/self/mounts").read_text().splitlines()):
            place = line.split()[1]
            if any(place.startswith(f"{f}/") for f in folders):
                subprocess.run(["umount", "-l", place], check=False, stderr=subprocess.DEVNULL)


def new_folder():
    with LIVE_LOCK:
        folder = tempfile.mkdtemp(prefix="weir-", dir=os.environ.get("TMPDIR", "/tmp"))
        LIVE[folder] = None
    return folder


def start(argv, folder, environment, **streams):
    """Starts a program in a session of its own; the folder is from new_folder()."""
    with LIVE_LOCK:
        child = subprocess.Popen(argv, cwd=ROOT, env={**environment, MARK: folder},
                                 start_new_session=True, **streams)
        LIVE[folder] = child.pid
    return child


def release(folder):
    """Ends what is left of the program, but for its folder."""
    with LIVE_LOCK:
        pgid = LIVE[folder]
    if pgid:
        end_group(pgid)
        end_marked([folder])
    with LIVE_LOCK:
        del LIVE[folder]


def end_all():
    """Ends everything that runs, as the last act of a run that is interrupted: until the caller
    exits, other threads start no program."""
    LIVE_LOCK.acquire()
    for pgid in filter(None, LIVE.values()):
        end_group(pgid)
    end_marked(LIVE)
    for folder in LIVE:
        shutil.rmtree(folder, ignore_errors=True)


# --- what a test takes --------------------------------------------------------------------------

# What a process that waits sits in, by the kernel's name.
WAITS = (("nanosleep", "its own pause"), ("do_wait", "a program"), ("pidfd", "a program"),
         ("pipe", "a program"), ("poll", "an answer"), ("select", "an answer"),
         ("sk_wait", "an answer"), ("skb", "an answer"), ("inet_csk", "an answer"),
         ("unix_stream", "an answer"), ("futex", "a thread"), ("sync", "the disk"),
         ("io_schedule", "the disk"), ("bit_wait", "the disk"))


def stat_of(pid):
    """(name, state, parent, ticks of processor) of a process"""
    with open(f"/proc/{pid}/stat", errors="replace") as f:
        head, _, rest = f.read().rpartition(")")
    rest = rest.split()
    return head.partition("(")[2], rest[0], int(rest[1]), int(rest[11]) + int(rest[12])


def waits_for(pid):
    with contextlib.suppress(OSError):
        where = Path(f"/proc/{pid}/wchan").read_text()
        return next((name for part, name in WAITS if part in where), "something else")
    return "something else"


class Sampler(threading.Thread):
    """Once a second, for each running test: ticks by program, and what its first process does."""

    def __init__(self):
        super().__init__(daemon=True)
        self.ticks = collections.defaultdict(dict)  # pgid: {(pid, program): ticks}
        self.seen = collections.defaultdict(collections.Counter)  # pgid: {wait: samples}

    def run(self):
        while True:
            time.sleep(1)
            with LIVE_LOCK:
                live = list(filter(None, LIVE.values()))
            if live:
                self.look(live)

    def look(self, live):
        found, children = {}, collections.defaultdict(list)
        for entry in os.listdir("/proc"):
            if entry.isdigit():
                with contextlib.suppress(OSError, ValueError, IndexError):
                    found[int(entry)] = stat_of(entry)
                    children[found[int(entry)][2]].append(int(entry))
        for pgid in live:
            if pgid not in found:
                continue
            state = found[pgid][1]
            self.seen[pgid]["the processor" if state == "R" else waits_for(pgid)] += 1
            below = [pgid]
            for pid in below:
                below += children[pid]
                self.ticks[pgid][pid, found[pid][0]] = found[pid][3]

    def take(self, pgid):
        """What was seen of a test that ended, as two texts."""
        programs, seen = collections.Counter(), self.seen.pop(pgid, collections.Counter())
        for (_, program), ticks in self.ticks.pop(pgid, {}).items():
            programs[program] += ticks / TICKS
        total = sum(seen.values())
        return (", ".join(f"{p} {s:.0f}" for p, s in programs.most_common(4) if s >= 0.5),
                ", ".join(f"{w} {100 * n // total} %" for w, n in seen.most_common(2)))


SAMPLER = Sampler()


# --- running ------------------------------------------------------------------------------------


def environment(test, tmp):
    """What a person has set for weir, for other programs or for make is not a test's."""
    env = {key: value for key, value in os.environ.items() if not re.match(
        r"(MAKEFLAGS|MFLAGS|MAKELEVEL|NO_COLOR|WEIR_.*|XDG_.*|(https?|no|all)_proxy)$", key, re.I)}
    if not isinstance(test, Goal):
        env["HOME"] = tmp
    binary = "build/weir" if test.variant == "release" else f"build/{test.variant}/weir"
    env.update(TMPDIR=tmp, WEIR_BIN=str(ROOT / binary), WEIR=str(ROOT / binary),
               CMOCKA_MESSAGE_OUTPUT="TAP", WEIR_BUILD=str(ROOT / "build" / test.variant),
               PYTHONDONTWRITEBYTECODE="1", PYTHONUNBUFFERED="1", LC_ALL="C.UTF-8", TZ="UTC")
    for key, value in SANITIZERS.items():
        env[key] = f"{value}:log_path={tmp}/sanitizer.{key[:4].lower()}"
    env.update(test.environment)
    return env


def count(output, status):
    """(passed, failed, skipped) from what a program printed and how it ended."""
    passed = failed = skipped = planned = 0
    plans = re.findall(r"^1\.\.(\d+)", output, re.M)
    for line in re.finditer(r"^(not )?ok\b(.*)$", output, re.M):
        if re.search(r"# *skip", line.group(2), re.I):
            skipped += 1
        elif line.group(1):
            failed += 1
        else:
            passed += 1
    planned = sum(map(int, plans))
    if plans and planned > passed + failed + skipped:
        failed += planned - passed - failed - skipped
    if not (passed or failed or skipped):
        for kind, n in re.findall(r"^\[  (PASSED|FAILED)  \] (\d+) test\(s\)", output, re.M):
            passed, failed = (passed + int(n), failed) if kind == "PASSED" else (passed,
                                                                                 failed + int(n))
        for n in re.findall(r"^Ran (\d+) tests? in", output, re.M):
            passed += int(n)
        for words in re.findall(r"^(?:OK|FAILED) \((.*)\)$", output, re.M):
            numbers = dict((k, int(v)) for k, v in re.findall(r"(\w+)=(\d+)", words))
            bad = numbers.get("failures", 0) + numbers.get("errors", 0)
            failed, skipped = failed + bad, skipped + numbers.get("skipped", 0)
            passed -= bad + numbers.get("skipped", 0)
    if not (passed or failed or skipped):
        passed = 1 if status == 0 else 0
    if status != 0 and failed == 0:
        failed = 1
    return passed, failed, skipped


def ended_within(child, seconds):
    """Waits without reaping it: os.wait4() then tells what it used.  By the second, since a signal to
    us may come just before the wait, and is seen after it."""
    limit, ended = time.monotonic() + seconds, os.pidfd_open(child.pid)
    try:
        while not select.select([ended], [], [], 1)[0]:
            if time.monotonic() > limit:
                return False
        return True
    finally:
        os.close(ended)


def set_patience(pgid, nice):
    """Of a whole process group.  Only root may make it less; for others it stays as it was."""
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PGRP, pgid, nice)
        # Linux may share by session first: then the priority is among its own only.
        Path(f"/proc/{pgid}/autogroup").write_text(str(nice))


class Patience:
    """How patient the patient work is just now: not at all while no test runs, lest it starves
    beside what others do on this machine."""

    def __init__(self, nice):
        self.lock, self.nice, self.pgid = threading.Lock(), nice, None

    def begin(self, pgid):
        with self.lock:
            self.pgid = pgid
            set_patience(pgid, self.nice)

    def end(self):
        with self.lock:
            self.pgid = None

    def set(self, nice):
        with self.lock:
            if nice != self.nice and self.pgid:
                set_patience(self.pgid, nice)
            self.nice = nice


PATIENT = 10  # nice: a tenth of what a test gets that wants the same core
PATIENCE = Patience(PATIENT)


def wait_for(test, child):
    """Its status, what it used, and a line if it was ended because it hung."""
    note = ""
    if test.is_patient:
        PATIENCE.begin(child.pid)
    if not ended_within(child, test.timeout):
        note = f"\n[ended: longer than {test.timeout} s]"
    if test.is_patient:
        PATIENCE.end()
    end_group(child.pid)  # what it left behind in its group, too
    _, status, used = os.wait4(child.pid, 0)
    child.returncode = status = os.waitstatus_to_exitcode(status)
    if status < 0 and not note:
        note = f"\n[ended by {signal.Signals(-status).name}]"
    return status, used.ru_utime + used.ru_stime, note


def beginning(report):
    """A test that gave up half-way leaks all it had: what failed must not drown in that."""
    lines = report.splitlines()
    if len(lines) > REPORT_LINES:
        lines[REPORT_LINES:] = [f"[{len(lines) - REPORT_LINES} more lines]"]
    return "\n".join(lines)


def run(test):
    began = time.monotonic()
    tmp = new_folder()
    with tempfile.TemporaryFile() as out:
        try:
            child = start(test.argv, tmp, environment(test, tmp), stdout=out,
                          stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
        except OSError as e:
            release(tmp)
            shutil.rmtree(tmp, ignore_errors=True)
            return Result(test, (0, 1, 0), 0.0, 0.0, f"cannot be run: {e}")
        status, cpu, note = wait_for(test, child)
        release(tmp)
        out.seek(0)
        output = out.read().decode(errors="replace") + note
    reports = sorted(Path(tmp).glob("sanitizer.*"))
    for report in reports:
        output += f"\n[{report.name}]\n" + beginning(report.read_text(errors="replace"))
    passed, failed, skipped = count(output, status)
    if isinstance(test, Goal):  # no test, but one more failure when it fails
        passed, failed, output = 0, int(status != 0), re.sub(r"^  (cc|ld)  .*\n", "", output,
                                                            flags=re.M)
    if reports and not failed:
        failed = 1
    if failed and any(Path(tmp).iterdir()):
        output += f"\n[its folder is kept: {tmp}]"
    else:
        shutil.rmtree(tmp, ignore_errors=True)
    result = Result(test, (passed, failed, skipped), time.monotonic() - began, cpu, output)
    result.spent, result.waits = SAMPLER.take(child.pid)
    result.has_report = bool(reports)
    return result
