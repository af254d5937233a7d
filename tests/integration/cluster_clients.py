#!/usr/bin/python3
# weir-test: timeout=300 long full
"""The clients of a cluster go on by themselves when the leader changes: `weir lock run`, `weir work`,
a program with libweir, and a command that is sent again with its idempotency key."""
import os
import signal
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "fault"))

from harness import (WEIR, Closed, WeirError, equal, expect, main, mapping, pack, test,  # noqa: E402
                     text, until)
from lib_client_library import GO, SERVER, Client  # noqa: E402
from lib_cluster import Producer, until_told  # noqa: E402
from lib_cluster_site import Site  # noqa: E402

LONG_S = 90
# It is renewed after a third, and given up after two: long enough for a change of the leader.
TTL_S = 45
# A command that says its fence and ends when it is told to.
COMMAND = "echo $WEIR_FENCE >started; while [ ! -e go ]; do sleep 0.1; done; echo well >ended"


def begin(folder, names="ab", **options):
    """A cluster, its leader, and another machine."""
    c = Site.cluster(folder, names=names, **options)
    first = c.leader()
    return c, first, next(n for n in c.nodes if n is not first)


class Run:
    """A command of weir at a machine, in a folder of its own."""

    def __init__(self, folder, node, *words):
        self.folder = os.path.join(folder, "run")
        os.makedirs(self.folder)
        with open(self.path("errors"), "w") as errors:
            self.process = subprocess.Popen([WEIR, "--url", "127.0.0.1:%d" % node.port, *words],
                                            cwd=self.folder, stderr=errors,
                                            stdin=subprocess.DEVNULL)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def path(self, name):
        return os.path.join(self.folder, name)

    def read(self, name):
        try:
            with open(self.path(name)) as f:
                return f.read()
        except FileNotFoundError:
            return ""

    def wait_for(self, name, part="\n"):
        """Until the file has this part; what is in it."""
        def look():
            expect(self.process.poll() is None or part in self.read(name),
                   "it ended with %s: %s" % (self.process.poll(), self.read("errors")))
            return part in self.read(name)
        until(look, LONG_S, "%s in %s" % (part, name))
        return self.read(name)

    def go(self):
        with open(self.path("go"), "w"):
            pass

    def ends_with(self, code):
        until(lambda: self.process.poll() is not None, LONG_S, "the end")
        equal(self.process.poll(), code, self.read("errors"))


def lock_run(folder, node, *options):
    return Run(folder, node, "lock", "run", "report", *map(str, options), "--", "sh", "-c", COMMAND)


def locked(p):
    return mapping(p.ask("LOCKED", "report"))


def holder(p):
    told = locked(p)
    equal((text(told["state"]), len(told["holders"])), ("held", 1), "lock")
    return mapping(told["holders"][0])


def is_renewed(p):
    """Whether the holder has more time than it was given; another client is refused meanwhile."""
    equal(p.ask("LOCK", "report", 1000), None, "a lock that another holds")
    told = holder(p)
    return told["age_ms"] + told["remaining_ms"] > TTL_S * 1000 + 1000


@test("lock run: the leader dies while the command runs; it ends well, and no other has its lock")
def _(folder):
    c, first, other = begin(folder)
    p = Producer(c)
    with lock_run(folder, other, "--ttl", TTL_S) as run:
        fence = int(run.wait_for("started"))
        equal(holder(p)["fence"], fence, "fence")
        c.kill(first, frees=True)
        c.leader(other_than=first)
        until_told(lambda: is_renewed(p), LONG_S, "a renewal at the next leader")
        equal(holder(p)["fence"], fence, "fence")
        equal(run.read("ended"), "", "the command goes on")
        run.go()
        run.ends_with(0)
        equal((run.read("ended"), run.read("errors")), ("well\n", ""), "the end")
    until(lambda: text(locked(p)["state"]) == "free", LONG_S, "a free lock")
    expect(p.ask("LOCK", "report", 1000)[1] > fence, "fences grow")


@test("lock run: the leader dies while it waits for the lock; it gets it when it is free")
def _(folder):
    c, first, other = begin(folder)
    p = Producer(c)
    token = text(p.ask("LOCK", "report", 3600000)[0])
    with lock_run(folder, other, "--wait", "3600", "--ttl", "120") as run:
        until(lambda: locked(p)["waiting"] == 1, LONG_S, "a client that waits")
        c.kill(first, frees=True)
        c.leader(other_than=first)
        until(lambda: locked(p)["waiting"] == 1, LONG_S, "a client that waits again")
        equal(run.read("started"), "", "nothing runs")
        equal(text(p.ask("UNLOCK", "report", token)), "OK", "answer")
        run.wait_for("started")
        run.go()
        run.ends_with(0)


@test("lock run: it waits while nobody leads, also after it was told so, and says why at the end")
def _(folder):
    c, first, other = begin(folder)
    standby_names = Site.pair.primary.ask("SHOW synchronous_standby_names")[0][0]
    Site.pair.primary.set(synchronous_standby_names="absent")  # no commit ends, so nobody can lead
    try:
        c.kill(first)
        with lock_run(folder, other, "--wait", "3600", "--ttl", "120") as run:
            with Run(os.path.join(folder, "b"), other, "lock", "run", "x", "--wait", "1", "--",
                     "touch", "ran") as short:
                short.ends_with(7)
                expect("UNAVAIL" not in short.read("errors") and short.read("errors"), "a reason")
                expect(not os.path.exists(short.path("ran")), "nothing was run")
            run.wait_for("errors", "the server is away; waiting for it to come back")
            Site.pair.primary.set(synchronous_standby_names=standby_names)
            run.wait_for("started")
            run.go()
            run.ends_with(0)
    finally:
        Site.pair.primary.set(synchronous_standby_names=standby_names)


@test("lock run: locks that are switched off end the wait at once")
def _(folder):
    c, _, other = begin(folder)
    p = Producer(c)
    p.ask("LOCK", "report", 3600000)
    with lock_run(folder, other, "--wait", "3600") as run:
        until(lambda: locked(p)["waiting"] == 1, LONG_S, "a client that waits")
        p.ask("SETTINGSET", "locks.enabled", "false")
        run.ends_with(7)
        expect("locks are switched off" in run.read("errors"), run.read("errors"))


@test("work: the leader dies while a job runs; its result is taken, and the next jobs run once")
def _(folder):
    c, first, other = begin(folder)
    p = Producer(c)
    p.add(1)
    script = "echo {id} >>started; while [ ! -e go ]; do sleep 0.1; done; echo done"
    with Run(folder, other, "work", "--exec", 'sh -c "%s"' % script, "--queue", "default",
             "--max", "4", "--quiet") as run:
        run.wait_for("started")
        c.kill(first, frees=True)
        p.add(3)
        c.leader(other_than=first)
        run.go()
        run.ends_with(0)
        ran = sorted(map(int, run.read("started").split()))
    equal(ran, sorted(p.acknowledged), "jobs that ran")
    for job in p.acknowledged:
        told = mapping(p.ask("JOB", job))
        equal((text(told["status"]), text(told["result"]), told["attempt"]),
              ("complete", "done", 1), "job %d" % job)


@test("libweir: a loop goes on while nobody leads, and after its own machine died and came back")
def _(folder):
    c, first, other = begin(folder, more='throttle { mode = "observe" }\n')
    at_other = Client("127.0.0.1:%d" % other.port, "closed", step_ms=600000)
    at_first = Client("127.0.0.1:%d" % first.port, "closed", step_ms=600000)
    for client in (at_other, at_first):
        equal(client.step().verdict, GO, "verdict")
    c.kill(first)
    said = at_other.step("etl:weekly")  # of which it has no credits
    equal((said.verdict, said.source), (GO, SERVER), said)
    at_first.send("step", "etl:weekly", 1, 0)
    c.leader(other_than=first)
    first.start()
    line = at_first.read().split()
    equal((int(line[0]), int(line[1])), (GO, SERVER), line)
    for client in (at_other, at_first):
        client.end()


@test("a command sent again with its key is answered as before, whether or not it was answered")
def _(folder):
    c, first, other = begin(folder)
    p = Producer(c)
    answered = p.ask("IDEMPOTENT", "answered", "ENQUEUE", "mail", "{}")
    with first.client() as lost:
        lost.send(pack("IDEMPOTENT", "lost", "ENQUEUE", "mail", "{}"))
        c.kill(first, frees=True)
        try:
            early = lost.read()
        except (Closed, OSError):
            early = None
    expect(not isinstance(early, WeirError), early)
    again = [p.ask("IDEMPOTENT", "lost", "ENQUEUE", "mail", "{}") for _ in range(2)]
    equal(again[0], again[1], "job")
    if early is not None:
        equal(again[0], early, "job")
    equal(p.ask("IDEMPOTENT", "answered", "ENQUEUE", "mail", "{}"), answered, "job")
    equal(mapping(p.ask("JOBCOUNTS"))["pending"], 2, "jobs")


main()
