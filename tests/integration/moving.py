#!/usr/bin/python3
# weir-test: timeout=240 bin=release
"""weir export and weir import: what is moved is whole, and what is left behind is told.

One weir with one of everything is written out and taken in by an empty one, and that one is written
out again.  What may differ between the two files is listed in SAME_BUT; everything else is compared.
"""
import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "fault"))

from harness import (  # noqa: E402
    Server, claim, equal, expect, job, main, mapping, test, text, weir)
from lib_everything import fill  # noqa: E402
from lib_signing import SECRETS, sign, write_keys  # noqa: E402

# What a line may have that is another in the new weir, by type, and why.
SAME_BUT = {
    "weir": ("at_ms",),                 # when it was written
    "job": ("id", "after",              # ids are new; what they mean is compared below
            "created_ms", "due_ms",     # it comes anew; one that is due is due then
            "expires_ms",               # the same time is left, within seconds
            "status", "attempt"),       # what ran waits again, with all its attempts
    "rule": ("left_ms",), "host": ("left_ms",),  # time went by
}


CONFIG = """
target "shop" { kind = "command" command = {"echo", "1"} metric "threads" { threshold = 5 } }
"""


def two(folder, config=CONFIG):
    """An old weir and an empty new one."""
    servers = []
    for name in ("old", "new"):
        path = os.path.join(folder, name)
        os.mkdir(path)
        servers.append(Server(path, config=config))
    return servers


def run(server, *words, code=0, input=None):
    done = weir(*words, "--url", "redis://%s:%d" % server.resp, input=input)
    expect(done.returncode == code, "weir %s: exit code %d, wanted %d\n%s%s" % (
        " ".join(words), done.returncode, code, done.stdout, done.stderr))
    return done


def export(server, path, *words):
    """The lines of an export, which is kept in a file, and what was said."""
    done = run(server, "export", *words)
    with open(path, "w") as f:
        f.write(done.stdout)
    return [json.loads(line) for line in done.stdout.splitlines()], done.stderr


def without(lines):
    """The lines without what may differ, in an order of their own."""
    rest = [{k: v for k, v in line.items() if k not in SAME_BUT.get(line["type"], ())}
            for line in lines]
    return sorted(json.dumps(line, sort_keys=True) for line in rest)


def of(lines, kind):
    return [line for line in lines if line["type"] == kind]


@test("one of everything is written out, taken in by an empty weir, and written out the same again")
def everything(folder):
    old, new = two(folder)
    with old.client() as c:
        fill(c)
    lines, _ = export(old, os.path.join(folder, "1"))
    kinds = {line["type"] for line in lines}
    equal(sorted(kinds), sorted(("weir", "setting", "tier", "host", "queue", "limit", "breaker",
                                 "cap", "rule", "batch", "schedule", "job", "end")), "types")
    told = run(new, "import", os.path.join(folder, "1"))
    equal(told.stdout, "imported 7 jobs and %d things\n" % (len(lines) - 2 - 7), "what was said")
    again, _ = export(new, os.path.join(folder, "2"))
    got, wanted = without(again), without(lines)
    for one in wanted:
        expect(one in got, "missing: %s\n%s" % (one, "\n".join(got)))
    equal(len(got), len(wanted), "lines")
    names = {line["id"]: line["hook"] for line in of(again, "job")}
    equal([sorted(names[i] for i in line["after"]) for line in of(again, "job")
           if line["hook"] == "b"], [["a", "part"]], "what b comes after")
    first, second = ({line["hook"]: line for line in of(each, "job")} for each in (lines, again))
    equal(first["c"]["due_ms"], second["c"]["due_ms"], "when c is due")
    expect(abs(first["b"]["expires_ms"] - second["b"]["expires_ms"]) < 60000, "when b expires")
    for left in ("rule", "host"):
        one, other = (next(x["left_ms"] for x in of(each, left) if x["left_ms"] > 0)
                      for each in (lines, again))
        expect(0 < one - other < 60000, "time left of a %s: %d, then %d" % (left, one, other))
    with new.client() as c:
        state = mapping(c("BATCHSTATE", "open"))
        equal((text(state["status"]), state["total"], state["left"], state["complete"]),
              ("open", 2, 1, 1), "the open batch")
        state = mapping(c("BATCHSTATE", "closed"))
        equal((text(state["status"]), state["total"], state["left"]), ("closed", 1, 1), "the other")
    for server in (old, new):
        expect(server.stop() == 0, "weir ended badly")


# ---------------------------------------------------------------- batches

def end_all(c, queue):
    ended = 0
    for got in iter(lambda: claim(c, queue, count=100), []):
        for each in got:
            c("COMPLETE", each.id, each.token)
            ended += 1
    return ended


@test("a batch goes on in the new weir and makes its callbacks there, once")
def batches(folder):
    old, new = two(folder)
    with old.client() as c:
        for name in ("good", "bad", "empty", "over"):
            c("BATCH", name, "ONSUCCESS", name + ".success", "ONDONE", name + ".done", "QUEUE", "calls")
        for name in ("good", "bad"):
            c("ENQUEUEMANY", "QUEUE", name, "BATCH", name, "ATTEMPTS", 1, "JOBS", *["h", ""] * 3)
            got = claim(c, name)[0]
            c("COMPLETE", got.id, got.token)
        got = claim(c, "bad")[0]
        c("FAIL", got.id, got.token, "no")
        running = claim(c, "good")[0]
        for name in ("good", "bad", "over"):
            c("CLOSEBATCH", name)
        equal(end_all(c, "calls"), 2, "callbacks of the one that is over")
    path = os.path.join(folder, "1")
    lines, said = export(old, path)
    equal(sorted(b["name"] for b in of(lines, "batch")), ["bad", "empty", "good"], "batches")
    expect("1 finished batch" in said, said)
    expect("1 job runs" in said, said)
    told = run(new, "import", path)
    equal(told.stdout, "imported 3 jobs and 6 things\n", "what was said")
    with new.client() as c:
        for name, counts in (("good", (3, 2, 1, 0)), ("bad", (3, 1, 1, 1))):
            state = mapping(c("BATCHSTATE", name))
            equal((text(state["status"]), state["total"], state["left"], state["complete"],
                   state["failed"]), ("closed",) + counts, name)
        equal(claim(c, "calls"), [], "callbacks before the end")
        equal(end_all(c, "good"), 2, "jobs of the good one, with the one that ran")
        equal(end_all(c, "bad"), 1, "jobs of the bad one")
        hooks = sorted(text(got.hook) for got in claim(c, "calls", count=100))
        equal(hooks, ["bad.done", "good.done", "good.success"], "callbacks")
        equal(text(mapping(c("BATCHSTATE", "empty"))["status"]), "open", "the one that is open")
    expect(running, "a job that ran")


@test("a batch that is being canceled is canceled in the new weir as well")
def canceling(folder):
    new = Server(folder)
    lines = [{"type": "weir", "version": 1, "at_ms": 1},
             {"type": "batch", "name": "b", "ondone": "over", "queue": "calls", "total": 3,
              "canceled": 1, "status": "canceling"},
             {"type": "job", "id": 7, "hook": "h", "batch": "b", "status": "pending"},
             {"type": "job", "id": 8, "hook": "h", "batch": "b", "status": "pending"},
             {"type": "end", "lines": 3}]
    run(new, "import", "-", "--again", input="".join(json.dumps(x) + "\n" for x in lines))
    with new.client() as c:
        equal(text(mapping(c("BATCHSTATE", "b"))["status"]), "finished", "the batch")
        equal(text(job(c, 1).status), "canceled", "its job")
        equal([text(g.hook) for g in claim(c, "calls")], ["over"], "its callback")


def small_batch(folder):
    """An old weir with a closed batch of two jobs, its export, and an empty new weir."""
    old, new = two(folder)
    with old.client() as c:
        c("BATCH", "b", "ONDONE", "over", "QUEUE", "calls")
        c("ENQUEUEMANY", "QUEUE", "q", "BATCH", "b", "JOBS", "one", "", "two", "")
        c("ENQUEUE", "later", "", "QUEUE", "q", "IN", 3600000, "EXPIRES", 7200000)
        c("CLOSEBATCH", "b")
    path = os.path.join(folder, "1")
    export(old, path)
    return old, new, path


@test("a batch of which a job is missing stays open, and that is told")
def broken_off(folder):
    _, new, path = small_batch(folder)
    with open(path) as f:
        lines = f.readlines()
    cut = next(i for i, line in enumerate(lines) if '"two"' in line)
    done = run(new, "import", "-", code=1, input="".join(lines[:cut]))
    expect("broke off" in done.stderr, done.stderr)
    expect("the batch b stays open: 1 of its 2 jobs came" in done.stderr, done.stderr)
    with new.client() as c:
        equal(text(mapping(c("BATCHSTATE", "b"))["status"]), "open", "the batch")
        equal(end_all(c, "q"), 1, "jobs")
        equal(claim(c, "calls"), [], "callbacks")
    told = json.loads(run(new, "import", "-", "--json", "--again", code=1,
                          input="".join(lines[:cut])).stdout)
    equal((told["bad"], told["unbatched"], told["jobs"]), (1, 1, 1), "the same again, for programs")


@test("an import that is run again under its key adds nothing twice, neither jobs nor batches")
def again(folder):
    _, new, path = small_batch(folder)
    with new.client() as c:
        for done in range(3):
            run(new, "import", path, "--once", "move")
            counts = mapping(c("JOBCOUNTS", "QUEUE", "q"))
            equal((counts["scheduled"], counts["ready"]), (1, 0 if done == 2 else 2), "jobs")
            state = mapping(c("BATCHSTATE", "b"))
            equal((text(state["status"]), state["total"]),
                  ("finished" if done == 2 else "closed", 2), "the batch")
            if done == 1:
                equal(end_all(c, "q"), 2, "jobs that ended")
        equal([text(g.hook) for g in claim(c, "calls", count=9)], ["over"], "callbacks")
        c("UNBATCH", "b")
        run(new, "import", path, "--once", "move")


@test("the same export imported twice adds nothing twice, unless --again asks for it")
def twice(folder):
    _, new, path = small_batch(folder)
    with new.client() as c:
        for _ in range(2):
            run(new, "import", path)
            counts = mapping(c("JOBCOUNTS", "QUEUE", "q"))
            equal((counts["scheduled"], counts["ready"]), (1, 2), "jobs")
        run(new, "import", path, "--again", code=1)  # the batch is there already
        counts = mapping(c("JOBCOUNTS", "QUEUE", "q"))
        equal((counts["scheduled"], counts["ready"]), (2, 4), "jobs after --again")
        with open(path) as f:
            first, *rest = f.readlines()
        head = json.loads(first)
        head["at_ms"] -= 86400000
        old = json.dumps(head) + "\n" + "".join(rest)
        refused = run(new, "import", "-", code=5, input=old)
        expect("--again" in refused.stderr, refused.stderr)
        equal(mapping(c("JOBCOUNTS", "QUEUE", "q")), counts, "jobs after the refusal")
    refused = run(new, "import", path, "--once", "k", "--again", code=2)
    expect("--once and --again" in refused.stderr, refused.stderr)


@test("jobs of a batch that could not be made come without it, and that is told")
def conflict(folder):
    _, new, path = small_batch(folder)
    with new.client() as c:
        c("BATCH", "b")
        done = run(new, "import", path, code=1)
        expect("there is a batch 'b' already" in done.stderr, done.stderr)
        expect("2 jobs come without their batch" in done.stderr, done.stderr)
        equal(mapping(c("BATCHSTATE", "b"))["total"], 0, "jobs of the batch that was there")
        equal(mapping(c("JOBCOUNTS", "QUEUE", "q"))["ready"], 2, "jobs")


@test("an export of some jobs has no batches, and says so")
def narrowed(folder):
    old, new, path = small_batch(folder)
    for words in (["--only", "jobs"], ["--queue", "q"]):
        lines, said = export(old, path, *words)
        expect(not of(lines, "batch"), lines)
        expect(all("batch" not in line for line in of(lines, "job")), lines)
        expect("2 jobs are written without their batch" in said, said)
    run(new, "import", path)
    with new.client() as c:
        equal(mapping(c("JOBCOUNTS"))["ready"], 2, "jobs")


@test("a job that runs comes before those that wait for it, and one that starts meanwhile comes once")
def running(folder):
    old, new = two(folder)
    path = os.path.join(folder, "1")
    with old.client() as c:
        c("ENQUEUE", "first", "")
        c("ENQUEUE", "second", "", "AFTER", 1)
        equal([g.id for g in claim(c)], [1], "what runs")
    lines, _ = export(old, path)
    equal([line["hook"] for line in of(lines, "job")], ["first", "second"], "order")
    with open(path) as f:
        text_of = f.read()
    twice = "".join(line * 2 if '"first"' in line else line
                    for line in text_of.splitlines(keepends=True))
    done = run(new, "import", "-", input=twice)
    equal(done.stdout, "imported 2 jobs and 1 thing\n", "what was said")
    with new.client() as c:
        equal([g.id for g in claim(c, count=9)], [1], "what may run")
        expect("comes after job 1" in text(mapping(mapping(c("WHY", 2))["blockers"][0])["message"]),
               c("WHY", 2))


# ---------------------------------------------------------------- signatures

@test("what is signed runs in the new weir when it has the same keys: jobs, schedules, callbacks")
def signed(folder):
    config = 'signing_keys_file = "%s"\n' % write_keys(folder, "new")
    old, new = two(folder, config)
    payloads = ['{"to":1}', ' {"to": 1} ', '{"to":\n1}', "text", b"\xff\x00", ""]
    fields = dict(queue="q", group="g", priority=9, attempts=5, timeout=60000, single="one")
    with old.client() as c:
        for args in payloads:
            c("ENQUEUE", "mail", args, "QUEUE", "q", "GROUP", "g", "PRIORITY", 9, "ATTEMPTS", 5,
              "TIMEOUT", 60000, "KEY", "one", "KEYMAX", 9, "SIGNATURE",
              sign(SECRETS["new"], "mail", args, **fields))
        c("SCHEDULE", "s", "tick", b"\x00{}", "EVERY", 3600000, "QUEUE", "ticks", "TIMEOUT", 5000,
          "SIGNATURE", sign(SECRETS["new"], "tick", b"\x00{}", queue="ticks", timeout=5000))
        c("BATCH", "b", "ONSUCCESS", "good", "SUCCESSARGS", "[1]", "ONDONE", "over", "DONEARGS",
          b"\xff", "QUEUE", "calls", "SUCCESSSIGNATURE",
          sign(SECRETS["new"], "good", "[1]", queue="calls", timeout=0), "DONESIGNATURE",
          sign(SECRETS["new"], "over", b"\xff", queue="calls", timeout=0))
    path = os.path.join(folder, "1")
    export(old, path)
    run(new, "import", path)
    with new.client() as c:
        got = claim(c, "q", count=9)
        equal(sorted(g.args for g in got), sorted(a if isinstance(a, bytes) else a.encode()
                                                  for a in payloads), "payloads")
        c("RUNSCHEDULE", "s")
        equal([g.args for g in claim(c, "ticks")], [b"\x00{}"], "the job of the schedule")
        c("CLOSEBATCH", "b")
        equal(sorted((text(g.hook), g.args) for g in claim(c, "calls", count=9)),
              [("good", b"[1]"), ("over", b"\xff")], "callbacks")


# ---------------------------------------------------------------- what stays

@test("what an export cannot take along is told, with how much of it there is")
def left_behind(folder):
    old = Server(folder)
    path = os.path.join(folder, "1")
    _, said = export(old, path)
    expect("left behind" not in said, said)
    with old.client() as c:
        c("LOCK", "one", 60000)
        c("LOCK", "two", 60000, "COUNT", 2)
        c("LOCK", "two", 60000, "COUNT", 2)
        c("BREAKER", "shop", "THRESHOLD", 1)
        c("TRIP", "shop")
        c("LIMIT", "api", 5, 60000)
        c("TAKE", "api")
        c("TAKE", "passing", "AMOUNT", 1, "PERIOD", 60000)
        c("BATCH", "over")
        c("CLOSEBATCH", "over")
        c("SCHEDULE", "s", "h", "", "EVERY", 3600000)
        c("RUNSCHEDULE", "s")
        c("ENQUEUE", "h", "", "QUEUE", "q")
        c("ENQUEUE", "h", "", "QUEUE", "q")
        got = claim(c, "q")[0]
        c("COMPLETE", got.id, got.token)
        claim(c, "q")
        c("THROTTLE", "PAUSE")
    lines, said = export(old, path)
    for part in ("1 job runs", "left behind: 3 holders of locks", "left behind: 1 breaker",
                 "left behind: 2 limits", "left behind: 1 finished batch",
                 "left behind: 1 finished job", "left behind: the pause of the throttle",
                 "1 job was made by a schedule"):
        expect(part in said, "'%s' is not in:\n%s" % (part, said))
    equal([line["name"] for line in of(lines, "limit")], ["api"], "limits that somebody set")
    _, said = export(old, path, "--only", "limits")
    expect("locks" not in said and "2 limits" in said, said)


if __name__ == "__main__":
    main()
