#!/usr/bin/python3
# weir-test: timeout=300
"""The disk fails under the log: the server ends at once, nobody hears "yes" for what is not safe,
and what was answered before is there after a restart."""
import os
import subprocess
import threading

from harness import (FULL, Closed, Server, Watch, WeirError, equal, expect, job_list, main, pack,
                     test, text, until)


def acked_ids(connections):
    """Reads all that the server still says; ids answered to ENQUEUE."""
    ids = []
    for c in connections:
        while True:
            try:
                reply = c.read()
            except (Closed, OSError):
                break
            if isinstance(reply, int):
                ids.append(reply)
    return ids


def attach(server, call, error, folder):
    """From now on every such call of every thread fails."""
    log = os.path.join(folder, "strace." + call)
    tracer = subprocess.Popen(
        ["strace", "-f", "-p", str(server.process.pid), "-e", "trace=" + call,
         "-e", "inject=%s:error=%s" % (call, error), "-o", log],
        stderr=subprocess.PIPE)
    # It says "attached" once per thread; all threads are there when the count stands.
    threads = len(os.listdir("/proc/%d/task" % server.process.pid))
    os.set_blocking(tracer.stderr.fileno(), False)
    said = b""

    def is_attached():
        nonlocal said
        said += tracer.stderr.read() or b""
        return b"attached" in said and (said.count(b"attached") >= threads or b"threads" in said)

    until(is_attached, 60, "strace attached")
    return tracer


def fail_from_now_on(folder, call, error):
    server = Server(folder)
    with server.client() as c:
        before = {c("ENQUEUE", "before", b"payload %d" % i) for i in range(50)}
    clients = [server.client() for _ in range(4)]
    tracer = attach(server, call, error, folder)
    watch = Watch()
    for number, client in enumerate(clients):
        client.send(b"".join(pack("ENQUEUE", "after", b"%d:%d" % (number, i))
                             for i in range(25)))
    code = server.wait()
    watch.within(3, "ending")
    tracer.wait(60)
    expect(code > 0, "exit code is %s" % code)
    equal(acked_ids(clients), [], "acknowledged after the failure")
    log = server.log()
    expect(any(word in log for word in ("EIO", "Input/output error", "ENOSPC", "No space")),
           "the reason is not in the log: " + log[-300:])
    again = Server(folder)
    with again.client() as c:
        rows = job_list(c, "LIMIT", 1000)
        ids = {row["id"] for row in rows}
        expect(before <= ids, "lost %s" % sorted(before - ids))
        for row in rows:
            args = text(row["args"])
            good = args.startswith("payload ") or ":" in args
            expect(good, "a payload nobody sent: " + args)
        c("ENQUEUE", "works", "again")
    equal(again.stop(), 0, "exit code after the restart")


@test("a failing fdatasync ends the server at once and answers nobody")
def _(folder):
    fail_from_now_on(folder, "fdatasync", "EIO")


@test("a failing write of the log ends the server at once and answers nobody")
def _(folder):
    fail_from_now_on(folder, "pwrite64", "EIO")


@test("a write refused for lack of space where space was reserved is as fatal as any")
def _(folder):
    fail_from_now_on(folder, "pwrite64", "ENOSPC")


def run_until_it_dies(folder, call, error, n):
    """From the very start of the process, the n-th call of a thread and all later ones fail.
    What was acknowledged, and the exit code: None when it did not come to that call."""
    acked = []
    try:
        server = Server(folder, trace=call, inject="%s:error=%s:when=%d+" % (call, error, n))
    except AssertionError as failure:
        expect("before it was ready" in str(failure), str(failure))
        return acked, None
    try:
        with server.client() as c:
            for i in range(400):
                reply = c.ask("ENQUEUE", "job", b"%d.%d" % (n, i))
                expect(not isinstance(reply, WeirError), "refused: %s" % reply)
                acked.append((reply, b"%d.%d" % (n, i)))
                for row in c("CLAIM", "w", "QUEUES", "default") or []:
                    c("COMPLETE", row[0], row[1], "fine")
    except (Closed, ConnectionError):
        return acked, server.wait()
    server.kill()
    return acked, None


@test("whichever sync or write fails first, everything acknowledged before it is there afterwards")
def _(folder):
    points = (*range(1, 12), 15, 20, 30, 50, 80, 130, 200) if FULL else (1, 2, 3, 5, 9, 17)
    told = {}
    for call, error in (("fdatasync", "EIO"), ("pwrite64", "EIO")) + (
            (("fsync", "EIO"), ("pwrite64", "ENOSPC"), ("fdatasync", "ENOSPC")) if FULL else ()):
        for n in points:
            acked, code = run_until_it_dies(folder, call, error, n)
            expect(code is None or code > 0, "%s %s %d: exit code %s after %d" % (
                call, error, n, code, len(acked)))
            told.update(acked)
            server = Server(folder)
            with server.client() as c:
                found = {row["id"]: row["args"] for row in job_list(c, "LIMIT", 1000)}
            missing = [i for i in told if found.get(i) != told[i]]
            expect(not missing, "%s %s at call %d: %d jobs lost or changed" % (
                call, error, n, len(missing)))
            server.kill()


if __name__ == "__main__":
    assert threading.active_count() == 1
    main()
