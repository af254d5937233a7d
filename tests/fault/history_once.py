#!/usr/bin/python3
# weir-test: timeout=300
"""A finished job is archived exactly once, whenever the server is killed."""
import glob
import os
import random
import shutil
import threading

from harness import (FULL, Closed, Server, WeirError, claim, equal, expect, history, job, job_list,
                     main, pack, test, text, until, verify_history, weir)

SEED = int(os.environ.get("SEED", "7"))


def archived(data):
    """Ids in history, with doubles if there are any."""
    verify_history(data)
    return [int(row[0]) for row in history(data, "SELECT id FROM jobs")]


class Worker(threading.Thread):
    """Enqueues, claims and completes in pipelined steps until the server dies."""

    def __init__(self, server):
        super().__init__(daemon=True)
        self.client = server.client()
        self.enqueued, self.completed = set(), set()

    def run(self):
        try:
            while True:
                self.client.send(b"".join(pack("ENQUEUE", "h", b"x" * 50) for _ in range(20)))
                self.enqueued |= {self.client.read() for _ in range(20)}
                got = claim(self.client, count=20, lease=86400000)
                self.client.send(b"".join(pack("COMPLETE", g.id, g.token, b"r%d" % g.id)
                                          for g in got))
                for g in got:
                    if self.client.read() == "OK":
                        self.completed.add(g.id)
        except (Closed, OSError, WeirError):
            pass


@test("every finished job is in history exactly once, whenever the server was killed")
def _(folder):
    dice = random.Random(SEED)
    enqueued, completed = set(), set()
    for _ in range(60 if FULL else 6):
        server = Server(folder)
        workers = [Worker(server) for _ in range(2)]
        goal = dice.randrange(100, 1500)
        for w in workers:
            w.start()
        until(lambda: sum(len(w.completed) for w in workers) > goal, what="some work")
        server.kill()
        for w in workers:
            w.join(10)
            enqueued |= w.enqueued
            completed |= w.completed
    server = Server(folder)
    with server.client() as c:
        listed = [row["id"] for row in job_list(c, "LIMIT", 1000, "STATUS", "complete")]
    equal(len(listed), len(set(listed)), "listed once each")
    expect(completed <= set(listed), "%d completed jobs are not listed" % len(
        completed - set(listed)))
    equal(server.stop(), 0, "exit code")
    ids = archived(server.data)
    equal(len(ids), len(set(ids)), "archived once each")
    expect(completed <= set(ids), "%d completed jobs are not archived after a stop" % len(
        completed - set(ids)))
    equal(sorted(set(ids)), sorted(listed), "the archive and the list")
    again = Server(folder)
    with again.client() as c:
        for job_id in dice.sample(sorted(completed), 20):
            view = job(c, job_id)
            equal(text(view["status"]), "complete")
            equal(view["result"], b"r%d" % job_id, "result")
            story = [text(dict_of(e)["event"]) for e in c("EVENTS", job_id)]
            equal(story, ["created", "started", "completed"], "events of job %d" % job_id)


def dict_of(event):
    return event if isinstance(event, dict) else {
        text(event[i]): event[i + 1] for i in range(0, len(event), 2)}


@test("a history file that is taken away is made anew and the server goes on")
def _(folder):
    server = Server(folder)
    with server.client() as c:
        job_id = c("ENQUEUE", "hook", "args")
        keep = c("ENQUEUE", "hook", "kept")
        got = claim(c)[0]
        c("COMPLETE", got.id, got.token)
    equal(server.stop(), 0, "exit code")
    for path in glob.glob(os.path.join(server.data, "history*")):
        os.unlink(path)
    server = Server(folder)
    with server.client() as c:
        # What the log had not let go of yet is archived again; the rest is gone with the file.
        reply = c.ask("JOB", job_id)
        expect(not isinstance(reply, WeirError) or reply.name == "NOTFOUND", repr(reply))
        equal(text(job(c, keep)["status"]), "pending")
        got = claim(c)[0]
        equal(got.id, keep)
        c("COMPLETE", got.id, got.token)
        equal(text(job(c, keep)["status"]), "complete")


@test("ids that history holds are not given again when the log is gone or an older one")
def _(folder):
    server = Server(folder)
    with server.client() as c:
        equal([c("ENQUEUE", "old", "") for _ in range(3)], [1, 2, 3], "ids")
        for g in claim(c, count=3):
            c("COMPLETE", g.id, g.token, "old result")
    equal(server.stop(), 0, "exit code")
    shutil.rmtree(os.path.join(server.data, "log"))
    server = Server(folder)
    until(lambda: "history holds jobs that the log does not know" in server.log(),
          what="the first turn tells that history holds more than the log")
    with server.client() as c:
        c("PAUSE", "q")  # durable when it is answered, and so is what the start did
    server.kill()
    copy = os.path.join(folder, "copy")
    done = weir("backup", copy, "--data", server.data)
    expect("0 live and 3 finished jobs" in done.stdout, done.stdout + done.stderr)
    server = Server(folder, data=copy)
    with server.client() as c:
        equal(c("ENQUEUE", "new", ""), 4, "the next id")
        got = claim(c)[0]
        c("COMPLETE", got.id, got.token, "new result")
    equal(server.stop(), 0, "exit code")
    equal(sorted(archived(copy)), [1, 2, 3, 4], "jobs in the file")
    server = Server(folder, data=copy)
    with server.client() as c:
        equal([text(job(c, i)["result"]) for i in (1, 4)], ["old result", "new result"], "results")
        equal(len(job_list(c)), 4, "jobs that are listed")


if __name__ == "__main__":
    main()
