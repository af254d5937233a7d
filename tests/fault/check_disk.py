#!/usr/bin/python3
"""A check is answered while the disk is not: nothing of it is in the log, and nothing waits.

A sync is held up with strace, longer than any test waits.  A job is sent on one connection; checks on
others must be answered while the job's own answer is still out.
"""
import contextlib
import os
import select
import signal
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from harness import HANG_S, Resp, Server, equal, expect, main, pack, test, text, until  # noqa: E402


@contextlib.contextmanager
def stuck_server(folder):
    """Its disk takes what the first command writes, and then nothing for longer than any test waits."""
    equal(Server(folder).stop(), 0, "exit code")  # making the log takes a dozen syncs, opening it one
    # strace counts the calls of each thread: one that opens the log, and the one that writes it.
    server = Server(folder, trace="fdatasync",
                    inject="fdatasync:delay_enter=%d:when=2+" % (10 * HANG_S * 1000000))
    try:
        yield server
    finally:
        with open("/proc/%d/status" % server.process.pid, encoding="ascii") as f:
            tracer = int(f.read().partition("TracerPid:")[2].split()[0])
        os.kill(tracer, signal.SIGKILL)  # else weir ends when the delay does
        server.kill()


def is_answered(client):
    return bool(client.buffer) or bool(select.select([client.socket], [], [], 0)[0])


@test("checks are answered while the sync of a job is held up")
def _(folder):
    with stuck_server(folder) as server:
        writer, asker = (Resp(server.resp) for _ in range(2))
        equal(text(asker("CHECK", "etl")[0]), "granted", "the first check")
        equal(writer("ENQUEUE", "mail", "{}"), 1, "the first job")
        writer.send(pack("ENQUEUE", "mail", "{}"))
        web = server.web()
        for _ in range(20):
            equal(text(asker("CHECK", "etl:nightly")[0]), "granted", "a check")
            status = web.ask("POST", "/v1/check", {"identity": "web:nightly"}).status
            equal(status, 200, "a check over HTTP")
        expect(not is_answered(writer), "the job was answered before its sync ended")


@test("a check that waits is let go while a sync is held up")
def _(folder):
    with stuck_server(folder) as server:
        writer, operator, asker = (Resp(server.resp) for _ in range(3))
        equal(text(asker("CHECK", "etl")[0]), "granted", "the first check")
        equal(operator("RULESET", "etl", "hold", "FOR", "1000"), "OK", "the rule")
        asker.send(pack("CHECK", "etl", "WAIT", "60000"))
        writer.send(pack("ENQUEUE", "mail", "{}"))
        equal(text(asker.read()[0]), "granted", "the check that waited")
        expect(not is_answered(writer), "the job was answered before its sync ended")


def policy_of(server, name):
    """How the kernel schedules the thread of that name (field 41 of its stat).  The kernel's list of
    threads may miss one while another ends: then it is asked again."""
    tasks = "/proc/%d/task" % server.process.pid

    def look():
        for task in os.listdir(tasks):
            with contextlib.suppress(OSError), \
                    open(os.path.join(tasks, task, "stat"), encoding="ascii") as f:
                line = f.read()
                if "(%s)" % name in line:
                    return [int(line.rsplit(")", 1)[1].split()[38])]
        return None

    return until(look, what="a thread " + name)[0]


@test("the log's thread takes the processor from nobody as long as clients check")
def _(folder):
    server = Server(folder)
    with server.client() as c:
        c("ENQUEUE", "mail", "{}")
        equal(policy_of(server, "log-write"), os.SCHED_OTHER, "before the first check")
        equal(text(c("CHECK", "etl")[0]), "granted", "a check")
        for _ in range(2):  # the batch that says so, and one that it was said before
            c("ENQUEUE", "mail", "{}")
        equal(policy_of(server, "log-write"), os.SCHED_BATCH, "with checks")
        for name in ("history-write", "history-read"):
            # It says so itself when it first runs, which on a busy machine is after the first answer.
            until(lambda: policy_of(server, name) == os.SCHED_BATCH,
                  what=name + " in the background")
    server.kill()


if __name__ == "__main__":
    main()
