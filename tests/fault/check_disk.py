#!/usr/bin/python3
# weir-test: long
"""A check is answered while the disk is not: nothing of it is in the log, and nothing waits.

Each sync is held up for seconds with strace.  A job is sent on one connection; checks on others must
be answered while the job's own answer is still out.
"""
import contextlib
import os
import select
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from harness import Resp, Server, equal, expect, main, pack, test, text, until  # noqa: E402


def slow_server(folder):
    equal(Server(folder).stop(), 0, "exit code")  # making the log takes a dozen syncs, opening it one
    return Server(folder, trace="fdatasync",
                  inject="fdatasync:delay_enter=4000000:when=1+", seconds=60)


def is_answered(client):
    return bool(client.buffer) or bool(select.select([client.socket], [], [], 0)[0])


@test("checks are answered while the sync of a job is held up")
def _(folder):
    server = slow_server(folder)
    writer = Resp(server.resp, seconds=60)
    asker = Resp(server.resp, seconds=60)
    equal(text(asker("CHECK", "etl")[0]), "granted", "the first check")
    writer.send(pack("ENQUEUE", "mail", "{}"))
    web = server.web()
    for i in range(20):
        equal(text(asker("CHECK", "etl:nightly")[0]), "granted", "a check")
        status = web.ask("POST", "/v1/check", {"identity": "web:nightly"}).status
        equal(status, 200, "a check over HTTP")
    expect(not is_answered(writer), "the job was answered before its sync ended: the test is void")
    equal(writer.read(), 1, "the id of the job")
    server.kill()


@test("a check that waits is let go while a sync is held up")
def _(folder):
    server = slow_server(folder)
    writer, operator, asker = (Resp(server.resp, seconds=60) for _ in range(3))
    equal(text(asker("CHECK", "etl")[0]), "granted", "the first check")
    equal(operator("RULESET", "etl", "hold", "FOR", "1000"), "OK", "the rule")
    asker.send(pack("CHECK", "etl", "WAIT", "60000"))
    writer.send(pack("ENQUEUE", "mail", "{}"))
    equal(text(asker.read()[0]), "granted", "the check that waited")
    server.kill()


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
