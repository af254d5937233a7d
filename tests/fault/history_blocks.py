#!/usr/bin/python3
# weir-test: timeout=300
"""Blocks of history in their files: damage is named and never delivered, files that are missing or
of another history are noticed, and the tools that copy and check history know of them."""
import atexit
import contextlib
import functools
import hashlib
import json
import os
import random
import re
import shutil
import sqlite3
import subprocess
import tempfile
from collections import namedtuple

from harness import (Server, Skip, WeirError, claim, equal, expect, job_list, main, pack, test, text, until,
                     weir)
from lib_disk import shrink_log

SEED = int(os.environ.get("SEED", "11"))
JOBS = 6000
Block = namedtuple("Block", "number segment offset bytes")


def payload(number):
    """Texts that cannot be packed much, so that blocks are of some size."""
    return hashlib.sha256(b"%d" % number).hexdigest().encode() * 2 + b" %d" % number


def enqueue(c, ids):
    c.send(b"".join(pack("ENQUEUE", "hook%d" % (i % 7), payload(i)) for i in ids))
    equal([c.read() for _ in ids], list(ids), "ids")


def complete_all(c, n):
    """n jobs; the fence of each."""
    fences = {}
    while n:
        rows = claim(c, count=min(n, 1000), lease=600000)
        expect(rows, "%d jobs are not handed out" % n)
        c.send(b"".join(pack("COMPLETE", r.id, r.token, b"result %d" % r.id) for r in rows))
        for _ in rows:
            equal(c.read(), "OK")
        fences.update((r.id, r.fence) for r in rows)
        n -= len(rows)
    return fences


def wait_stored(c):
    until(lambda: "jobs_finished:0" in text(c("INFO")).split(), 60, "all jobs are in history")


def blocks_of(data):
    with contextlib.closing(sqlite3.connect("file:%s/history.db?mode=ro" % data, uri=True)) as db:
        return [Block(*row)
                for row in db.execute("SELECT number, segment, offset, bytes FROM block ORDER BY 1")]


def blocks_file(data, number):
    return os.path.join(data, "history.db-blocks-%06d" % number)


@functools.lru_cache(None)
def made_folder(name, n):
    folder = tempfile.mkdtemp(prefix="weir-test.", dir=os.environ.get("TEST_TMP"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    server = Server(folder, data=os.path.join(folder, name))
    with server.client(seconds=60) as c:
        enqueue(c, range(1, n + 1))
        complete_all(c, n)
        equal(c("ENQUEUE", "live", payload(n + 1), "IN", 3600000), n + 1, "the id of the one that lives")
        wait_stored(c)
        try:
            until(lambda: blocks_of(server.data), what="jobs are in blocks")
        except AssertionError as none:
            raise Skip("this weir has made no block") from none
    equal(server.stop(), 0, "exit code")
    shrink_log(server.data)
    return server.data


def make_folder(folder, name="data", n=JOBS):
    """A data folder with n finished jobs, most of them in blocks, and one that lives.  It takes
    seconds, so each is made once and copied."""
    return copy(made_folder(name, n), os.path.join(folder, name))


def copy(data, to):
    shutil.rmtree(to, ignore_errors=True)
    subprocess.run(["cp", "-a", "--sparse=always", data, to], check=True)
    return to


def flip(data, block, at):
    with open(blocks_file(data, block.segment), "r+b") as f:
        f.seek(block.offset + at)
        byte = f.read(1)[0]
        f.seek(block.offset + at)
        f.write(bytes([byte ^ 16]))


def verify(data):
    """The exit code, the numbers, and what is damaged."""
    done = weir("history", "verify", data)
    counts = {k: int(v) for k, v in re.findall(r"(\w+)=(\d+)", done.stdout)}
    return done.returncode, counts, [line[9:] for line in done.stderr.splitlines() if line.startswith("damaged: ")]


def doctor(data):
    done = weir("doctor", "--data", data, "--url", "redis://127.0.0.1:1", "--json")
    return {c["name"]: c for c in json.loads(done.stdout)["checks"]}["history"]


def jobs_in(said):
    """The ids in "block 3 (jobs 1 to 512): its checksum is wrong"."""
    found = re.match(r"block (\d+) \(jobs (\d+) to (\d+)\): ", said)
    expect(found, said)
    number, first, last = (int(v) for v in found.groups())
    return number, range(first, last + 1)


@test("a flipped bit of a block is found by every tool, and none of its jobs is delivered wrongly")
def _(folder):
    dice = random.Random(SEED)
    data = make_folder(folder)
    equal(verify(data)[:2], (0, {"rows": JOBS, "unchecked": 0, "damaged": 0}), "verify of a sound folder")
    equal(doctor(data)["verdict"], "ok", "the doctor's verdict")
    for number in range(6):
        damaged = copy(data, os.path.join(folder, "damaged"))
        block = dice.choice(blocks_of(data))
        flip(damaged, block, (0, block.bytes - 1, 6, 30)[number] if number < 4 else dice.randrange(block.bytes))
        code, counts, said = verify(damaged)
        equal((code, counts["rows"], len(said)), (9, JOBS, 1), "exit code, rows and what is named")
        which, ids = jobs_in(said[0])
        equal((which, said[0].endswith("): its checksum is wrong")), (block.number, True), said[0])
        expect(0 < counts["damaged"] <= len(ids), "%s: %s" % (said[0], counts))
        found = doctor(damaged)
        expect(found["verdict"] == "bad" and "block %d " % which in found["text"], found)
        # The copy of a damaged history is as damaged, and no more.
        to = os.path.join(folder, "to%d" % number)
        done = weir("backup", to, "--data", damaged)
        equal(done.returncode, 0, "exit code of backup (%s)" % done.stderr)
        equal(verify(to)[1:], (counts, said), "verify of the backup")
        server = Server(folder, data=damaged)
        with server.client(seconds=60) as c:
            equal(c("JOB", JOBS + 1) is not None, True, "the job that lives")
            refused = 0
            for i in dice.sample(ids, min(20, len(ids))):
                got = c.ask("JOB", i)
                if isinstance(got, WeirError):
                    equal(got.name, "CORRUPT", str(got))
                    refused += 1
                else:  # another block has it
                    expect(payload(i) in (got.values() if isinstance(got, dict) else got), "job %d" % i)
            expect(refused, "every job of a damaged block is told")
            for row in job_list(c, "STATUS", "complete", "LIMIT", 1000):
                expect(row["args"] == payload(row["id"]) or "damaged" in text(row["error"]), "job %d" % row["id"])
        equal(server.stop(), 0, "exit code")


def files(data):
    """Without those that SQLite makes beside an open file."""
    return sorted(n for n in os.listdir(data) if not n.endswith(("-shm", "-wal")))


def refused_start(folder, data):
    server = Server(folder, data=data, wait=False)
    equal(server.process.wait(120), 9, "exit code of a start")
    said = server.log()
    server.forget()
    return said


@test("a file of blocks that is missing, cut or not ours is named, and nothing is changed")
def _(folder):
    data = make_folder(folder)
    other = make_folder(folder, "other")
    last = max(b.segment for b in blocks_of(data))
    path = os.path.join(folder, "damaged", os.path.basename(blocks_file(data, last)))
    cases = (("is missing", lambda: os.unlink(path)),
             ("is too short", lambda: os.truncate(path, 5000)),
             ("is damaged at its beginning", lambda: os.truncate(path, 10)),
             ("belongs to another history", lambda: shutil.copy(blocks_file(other, last), path)))
    for what, harm_it in cases:
        damaged = copy(data, os.path.join(folder, "damaged"))
        harm_it()
        before = files(damaged)
        said = refused_start(folder, damaged)
        expect("the history file %s %s" % (path, what) in said and "history.db*" in said, said[-500:])
        code, counts, named = verify(damaged)
        equal((code, counts["rows"]), (9, JOBS), "exit code of verify, and rows")
        expect(named and all(what in line and path in line for line in named), named[:2])
        equal(doctor(damaged)["verdict"], "bad", "the doctor's verdict")
        equal(files(damaged), before, "files of the case '%s'" % what)


@test("files of another history beside ours are passed over and stay as they are")
def _(folder):
    data = make_folder(folder)
    other = make_folder(folder, "other")
    first = max(b.segment for b in blocks_of(data)) + 1
    foreign = blocks_file(data, first)
    shutil.copy(blocks_file(other, 1), foreign)
    shutil.copy(blocks_file(other, 1), blocks_file(data, first + 5))
    with open(foreign, "rb") as f:
        before = hashlib.sha256(f.read()).digest()
    server = Server(folder, data=data)
    with server.client(seconds=60) as c:
        enqueue(c, range(JOBS + 2, 2 * JOBS + 2))
        complete_all(c, JOBS)
        wait_stored(c)
    equal(server.stop(), 0, "exit code")
    with open(foreign, "rb") as f:
        equal(hashlib.sha256(f.read()).digest(), before, "the file of the other history")
    expect(os.path.exists(blocks_file(data, first + 5)), "the second file of the other history")
    equal(verify(data)[:2], (0, {"rows": 2 * JOBS, "unchecked": 0, "damaged": 0}), "verify")


@test("a log that is lost while history stays gives no fence of a job in a block a second time")
def _(folder):
    server = Server(folder)
    with server.client(seconds=60) as c:
        enqueue(c, range(1, JOBS + 1))
        for _ in range(JOBS // 1000):  # so that fences are larger than ids
            rows = claim(c, count=1000, lease=600000)
            c.send(b"".join(pack("RELEASE", r.id, r.token) for r in rows))
            equal({c.read() for _ in rows}, {"OK"}, "RELEASE")
        fences = complete_all(c, JOBS)
        wait_stored(c)
    equal(server.stop(), 0, "exit code")
    if not blocks_of(server.data):
        raise Skip("this weir has made no block")
    with contextlib.closing(sqlite3.connect(os.path.join(server.data, "history.db"))) as db:
        for row in db.execute("SELECT id FROM job"):
            del fences[row[0]]
        with db:  # only blocks can tell now
            db.execute("DELETE FROM job")
            db.execute("UPDATE tally SET rows = 0")
    last = max(fences.values())
    expect(last > JOBS, "fences up to %d" % last)
    shutil.rmtree(os.path.join(server.data, "log"))
    server = Server(folder)
    with server.client() as c:
        expect(c("ENQUEUE", "h", "") > max(fences), "the id was given before")
    told = re.search(r"next_fence=(\d+)", server.log())
    expect(told and int(told.group(1)) > 1000000000 + last, server.log()[-500:])
    expect("cannot tell its last fence" not in server.log(), server.log()[-500:])
    server.kill()


@test("a backup takes back what the copied log does not know to have ended, from blocks too")
def _(folder):
    server = Server(folder)
    with server.client(seconds=60) as c:
        enqueue(c, range(1, JOBS + 1))
        first = complete_all(c, JOBS // 2)
        wait_stored(c)
    equal(server.stop(), 0, "exit code")
    mixed = copy(server.data, os.path.join(folder, "mixed"))
    server = Server(folder)
    with server.client(seconds=60) as c:
        complete_all(c, JOBS // 4)
        equal(c("ENQUEUE", "new", payload(JOBS + 1)), JOBS + 1, "an id that the older log has not given")
        enqueue(c, range(JOBS + 2, JOBS + 1001))
        complete_all(c, JOBS // 4 + 1000)
        wait_stored(c)
    equal(server.stop(), 0, "exit code")
    # The log of then and the history of now, as when jobs end while a backup is made.
    for name in os.listdir(server.data):
        if name.startswith("history.db"):
            shutil.copy(os.path.join(server.data, name), mixed)
    to = os.path.join(folder, "to")
    done = weir("backup", to, "--data", mixed, "--json")
    equal(done.returncode, 0, "exit code of backup (%s)" % done.stderr)
    told = json.loads(done.stdout)
    equal((told["jobs"], told["history"]), (JOBS // 2, JOBS // 2), "live and finished jobs of the backup")
    equal(verify(to), (0, {"rows": JOBS // 2, "unchecked": 0, "damaged": 0}, []), "verify of the backup")
    server = Server(folder, data=to)
    with server.client(seconds=60) as c:
        rows = job_list(c, "LIMIT", 1000)
        equal(sorted(r["id"] for r in rows), list(range(1, JOBS + 1)), "jobs of the backup")
        equal({r["id"] for r in rows if text(r["status"]) == "complete"}, set(first), "complete jobs")
        complete_all(c, JOBS // 2)
        wait_stored(c)
        rows = job_list(c, "STATUS", "complete", "LIMIT", 1000)
        equal(sorted(r["id"] for r in rows), list(range(1, JOBS + 1)), "complete jobs, in the end")
    equal(server.stop(), 0, "exit code")
    equal(verify(to)[:2], (0, {"rows": JOBS, "unchecked": 0, "damaged": 0}), "verify, in the end")


@test("a backup of a server at work holds each job once, in a block, in a row or alive")
def _(folder):
    server = Server(folder)
    with server.client(seconds=60) as c:
        enqueue(c, range(1, JOBS + 1))
        complete_all(c, JOBS // 2)
        copies = []
        for i in range(3):
            to = os.path.join(folder, "copy%d" % i)
            done = weir("backup", to, "--data", server.data, "--json")
            equal(done.returncode, 0, "exit code of backup (%s)" % done.stderr)
            copies.append((to, json.loads(done.stdout)))
            complete_all(c, JOBS // 8)
    equal(server.stop(), 0, "exit code")
    for to, told in copies:
        code, counts, said = verify(to)
        equal((code, said), (0, []), "verify of %s" % to)
        equal(counts["rows"], told["history"], "finished jobs in %s" % to)
        server = Server(folder, data=to)
        with server.client(seconds=60) as c:
            rows = job_list(c, "LIMIT", 1000)
            equal(sorted(r["id"] for r in rows), list(range(1, JOBS + 1)), "jobs of %s" % to)
            expect(all(r["args"] == payload(r["id"]) for r in rows), "payloads of %s" % to)
        equal(server.stop(), 0, "exit code")


if __name__ == "__main__":
    main()
