#!/usr/bin/python3
# weir-test: timeout=300 outer=part
"""Damage in the log's files: found, named by file and place, and never delivered.

A folder with jobs in every state is made once and killed.  Each case copies it, changes something
in the used part of a log file, and then:

  weir log verify   must find it (damage, or a torn tail that a start would cut)
  weir serve        must refuse with file, offset and reason, or start after cutting the tail,
                    or (bytes that mean nothing, or have a copy) start with everything as it was
  weir log salvage  must write a folder that starts
  whatever starts   must deliver payloads exactly as they were sent, or not at all
"""
import glob
import hashlib
import json
import os
import random
import re
import shutil
import sqlite3
import subprocess

from harness import (FULL, Server, WeirError, claim, equal, expect, job_list, main, mapping, status, test, text,
                     until, weir)
from lib_disk import shrink_log, used_bytes

SEED = int(os.environ.get("SEED", "20261115"))


def payload(number):
    digest = hashlib.sha256(b"%d" % number).hexdigest().encode()
    return b"%d:" % number + digest * (1 + number % 30)


def is_sent(args):
    number = args.split(b":", 1)[0]
    return number.isdigit() and payload(int(number)) == args


def make_folder(folder):
    """Jobs pending, delayed, running, failed, canceled, complete; then kill -9."""
    server = Server(folder)
    with server.client() as c:
        for i in range(300):
            c("ENQUEUE", "hook%d" % (i % 5), payload(i), "QUEUE", "q%d" % (i % 3), "ATTEMPTS",
              1 + i % 2)
        for i in range(300, 330):
            c("ENQUEUE", "later", payload(i), "IN", 3600000)
        for row in claim(c, ["q0", "q1"], count=100, lease=3600000):
            kind = row.id % 5
            if kind == 0:
                c("COMPLETE", row.id, row.token, b"result %d" % row.id)
            elif kind == 1:
                c("FAIL", row.id, row.token, "no")
            elif kind == 2:
                c("RELEASE", row.id, row.token)
            elif kind == 3:
                c("CANCEL", row.id)
    server.kill()
    shrink_log(server.data)
    return server.data


def log_files(data):
    """Files of the log with the number of bytes up to the last one that is not zero."""
    found = {}
    for path in sorted(glob.glob(os.path.join(data, "**"), recursive=True)):
        if not os.path.isfile(path) or "history" in os.path.basename(path):
            continue
        size, used = os.path.getsize(path), used_bytes(path)
        if used and size >= 4096:
            found[os.path.relpath(path, data)] = used
    return found


def copy(data, to):
    shutil.rmtree(to, ignore_errors=True)
    subprocess.run(["cp", "-a", "--sparse=always", data, to], check=True)


def verify(data):
    done = weir("log", "verify", data)
    return done.returncode, done.stdout + done.stderr


def damage(path, offset, change):
    """Changes the bytes at offset; False when that left them as they were."""
    with open(path, "r+b") as f:
        f.seek(offset)
        before = f.read(4096)
        after = change(before)
        f.seek(offset)
        f.write(after)
    return after != before


def flip(bit):
    return lambda data: bytes([data[0] ^ (1 << bit)]) + data[1:]


def zero_512(data):
    return bytes(min(512, len(data))) + data[512:]


def cut_short(path, offset):
    """Everything from here on is as if never written."""
    size = os.path.getsize(path)
    with open(path, "r+b") as f:
        f.truncate(offset)
        f.truncate(size)


def account(rows):
    """What a listing says, apart from when the lease ends, which is an estimate."""
    return sorted((row["id"], sorted((k, v) for k, v in row.items() if k != "lease_until_ms"))
                  for row in rows)


def deliver_all(server, whole=None):
    """Every payload that can be got out, by listing and by claiming; with `whole`, nothing may
    be missing or different from that account."""
    with server.client() as c:
        rows = job_list(c, "LIMIT", 1000)
        if whole is not None:
            expect(account(rows) == whole, "the server starts without a word and tells otherwise")
        for row in rows:
            expect(is_sent(row["args"]), "job %d is listed with a changed payload" % row["id"])
        while True:
            got = claim(c, ["q0", "q1", "q2", "default"], count=1000)
            if not got:
                return len(rows)
            for row in got:
                expect(is_sent(row.args), "job %d is delivered with a changed payload" % row.id)


def check_damaged(folder, data, name, offset, what, tally, whole):
    """The three tools on a damaged copy."""
    place = "%s in %s at %d" % (what, name, offset)
    code, said = verify(data)
    is_found = code != 0
    is_cut = bool(re.search(r"torn_batches=[1-9]", said))
    try:
        server = Server(folder, data=data)
    except AssertionError as refusal:
        expect("before it was ready" in str(refusal), "%s: %s" % (place, refusal))
        with open(os.path.join(folder, "stderr"), errors="replace") as f:
            log = f.read()
        expect(name.split("/")[-1] in log and re.search(r"(byte|offset) \d+: \w", log),
               "%s: the refusal does not name file and offset: %s" % (place, log[-300:]))
        expect(is_found, "%s: the start refused, but verify found nothing: %s" % (
            place, said[-300:]))
        tally["refused"] += 1
        salvaged = data + ".salvaged"
        shutil.rmtree(salvaged, ignore_errors=True)
        done = weir("log", "salvage", data, salvaged)
        equal(done.returncode, 9, "%s: exit code of salvage (%s)" % (place, done.stderr[-200:]))
        expect(name.split("/")[-1] in done.stdout + done.stderr,
               "%s: salvage does not say what it left behind" % place)
        server = Server(folder, data=salvaged)
        tally["saved"] += deliver_all(server)
        server.kill()
        shutil.rmtree(salvaged)
        return
    if is_found or is_cut:
        expect(re.search("cut|torn|damage", server.log(), re.I),
               "%s: verify finds it, the start says nothing" % place)
        tally["cut"] += 1
        deliver_all(server)
    else:
        tally["harmless"] += 1
        deliver_all(server, whole)
    server.kill()


def run_cases(folder, cases):
    data = make_folder(folder)
    files = log_files(data)
    expect(files, "no log files in " + data)
    equal(verify(data)[0], 0, "exit code of verify on the sound folder")
    dice = random.Random(SEED)
    tally = {"refused": 0, "cut": 0, "harmless": 0, "saved": 0}
    damaged = os.path.join(folder, "damaged")
    copy(data, damaged)
    server = Server(folder, data=damaged)
    with server.client() as c:
        whole = account(job_list(c, "LIMIT", 1000))
    server.kill()
    for number in range(cases):
        # The largest file holds the frames; spare ones have a header only.
        name = dice.choice(sorted(files)) if number % 5 == 0 else max(files, key=files.get)
        offset = dice.randrange(files[name])
        if number % 7 == 3:  # the very end, where a torn write and damage look alike
            offset = files[name] - 1 - dice.randrange(min(200, files[name]))
        if number % 10 == 9:
            offset -= offset % 512
            change, what = zero_512, "zeroed sector"
        else:
            change, what = flip(dice.randrange(8)), "flipped bit"
        copy(data, damaged)
        open(os.path.join(folder, "stderr"), "w").close()
        if damage(os.path.join(damaged, name), offset, change):
            check_damaged(folder, damaged, name, offset, what, tally, whole)
    # Few bytes are padding: nearly every change must have been noticed.
    expect(tally["harmless"] < cases // 3, "most changes go unnoticed: %s" % tally)
    print("# %d cases, seed %d: %s" % (cases, SEED, json.dumps(tally)))


@test("flipped bits and zeroed sectors in the log are found and never delivered")
def _(folder):
    run_cases(folder, 10)  # the tenth is a sector


@test("many flipped bits and zeroed sectors in the log are found and never delivered", outer=True)
def _(folder):
    run_cases(folder, 1500 if FULL else 40)


@test("a log cut off anywhere in its last segment starts, or says where it is damaged")
def _(folder):
    data = make_folder(folder)
    name, used = sorted(log_files(data).items())[-1]
    dice = random.Random(SEED)
    damaged = os.path.join(folder, "damaged")
    last = None
    for offset in sorted({used - 1, used - 100, *(dice.randrange(used) for _ in range(
            200 if FULL else 8))}, reverse=True):
        copy(data, damaged)
        open(os.path.join(folder, "stderr"), "w").close()
        cut_short(os.path.join(damaged, name), offset)
        try:
            server = Server(folder, data=damaged)
        except AssertionError as refusal:
            expect("before it was ready" in str(refusal), str(refusal))
            continue
        n = deliver_all(server)
        expect(last is None or n <= last, "cutting more gave more jobs: %s after %s" % (n, last))
        last = n
        server.kill()


@test("salvage keeps schedules, locks, limits, rules and settings, not only jobs")
def _(folder):
    server = Server(folder)
    with server.client() as c:
        equal(c("ENQUEUE", "mail", "{}"), 1, "the job")
        c("SCHEDULE", "nightly", "report", "{}", "CRON", "0 3 * * *")
        c("LOCK", "sync", 3600000)
        c("LIMIT", "api", 10, 1000)
        c("RULESET", "etl", "hold")
        c("THROTTLE", "mode", "SET", "observe")
    data = server.data
    server.stop()
    done = weir("log", "salvage", data, data + ".salvaged")
    equal(done.returncode, 0, "exit code of salvage (%s)" % done.stderr[-200:])
    server = Server(folder, data=data + ".salvaged")
    with server.client() as c:
        equal(status(c, 1), "pending", "the job")
        expect(not isinstance(c.ask("SCHEDULED", "nightly"), WeirError), "the schedule is gone")
        expect(mapping(c("LOCKED", "sync")).get("holders"), "the lock is free")
        expect(not isinstance(c.ask("USAGE", "api"), WeirError), "the limit is gone")
        equal(text(c("CHECK", "etl")[1]), "hold", "the rule")
        equal(text(c("THROTTLE", "mode")), "observe", "the mode")
    server.kill()


def harm(data, word):
    """One bit of the first place in the log that holds the word."""
    for name in log_files(data):
        path = os.path.join(data, name)
        with open(path, "rb") as f:
            at = f.read().find(word)
        if at >= 0:
            expect(damage(path, at, flip(0)), "nothing was changed")
            return
    raise AssertionError("%r is not in the log" % word)


@test("a batch that salvage brings over counts the jobs that came with it, and ends once")
def salvaged_batches(folder):
    # What is lost, how many ends follow, and what the batch has counted when all is over.
    cases = ((b"claimer", 3, {"total": 4, "complete": 4, "failed": 0}, ["good", "over"]),
             (b"third.hook", 1, {"total": 3, "complete": 2, "failed": 1}, ["over"]))
    for word, n, counts, hooks in cases:
        home = os.path.join(folder, text(word))
        os.mkdir(home)
        server = Server(home)
        with server.client() as c:
            c("BATCH", "b", "ONSUCCESS", "good", "ONDONE", "over", "QUEUE", "calls")
            for hook in ("first.hook", "second.hook", "third.hook"):
                c("ENQUEUE", hook, "", "BATCH", "b", "QUEUE", "q")
            c("CLOSEBATCH", "b")
            got = claim(c, "q", worker="claimer", lease=3600000)[0]
            c("COMPLETE", got.id, got.token)
        server.kill()
        harm(server.data, word)
        new = os.path.join(home, "new")
        done = weir("log", "salvage", server.data, new)
        equal(done.returncode, 9, done.stderr)
        expect("left behind: job batch 'b'" in done.stderr, done.stderr)
        again = Server(home, data=new)
        with again.client() as c:
            ended = 0
            for each in claim(c, "q", count=9):
                c("COMPLETE", each.id, each.token)
                ended += 1
            equal(ended, n, "jobs that had not ended, without %s" % word)
            state = mapping(c("BATCHSTATE", "b"))
            equal({key: state[key] for key in counts}, counts, "counts without %s" % word)
            equal(text(state["status"]), "finished", "the batch without %s" % word)
            equal(sorted(text(g.hook) for g in claim(c, "calls", count=9)), hooks, "callbacks")
        expect(again.stop() == 0, "weir ended badly")


def overwrite(path, offset, size):
    with open(path, "r+b") as f:
        f.seek(offset)
        f.write(b"\xa5" * size)


@test("a backup of a damaged log or history is refused and leaves nothing; a torn tail is no damage")
def _(folder):
    data = make_folder(folder)
    name, used = sorted(log_files(data).items())[0]
    damaged, to = os.path.join(folder, "damaged"), os.path.join(folder, "to")
    for offset in (4096 + 40, used // 2, used - 3000):
        copy(data, damaged)
        expect(damage(os.path.join(damaged, name), offset, zero_512), "nothing was changed")
        done = weir("backup", to, "--data", damaged)
        equal(done.returncode, 9, "exit code with damage at %d (%s)" % (offset, done.stdout))
        expect(os.path.basename(name) in done.stderr and "weir log salvage" in done.stderr,
               done.stderr)
        equal([n for n in os.listdir(folder) if n.startswith("to")], [], "what is left")
    copy(data, damaged)
    cut_short(os.path.join(damaged, name), used - 10)
    done = weir("backup", to, "--data", damaged)
    equal(done.returncode, 0, "exit code with a torn tail (%s)" % done.stderr)
    equal(verify(to)[0], 0, "exit code of verify")
    shutil.rmtree(to)
    equal(Server(folder).stop(), 0, "exit code")  # what is in the -wal file goes into the main one
    file = os.path.join(damaged, "history.db")
    for harm_it in (lambda: overwrite(file, 0, 4096), lambda: os.truncate(file, 16384)):
        copy(data, damaged)
        harm_it()
        done = weir("backup", to, "--data", damaged)
        equal(done.returncode, 9, "exit code with a damaged history (%s)" % done.stderr)
        expect("the history file %s is damaged" % file in done.stderr, done.stderr)
        equal([n for n in os.listdir(folder) if n.startswith("to")], [], "what is left")


def change(path, sql):
    db = sqlite3.connect(path)
    db.executescript(sql)
    db.close()


@test("the doctor finds a log and a history that a start would refuse, and changes nothing")
def _(folder):
    data = make_folder(folder)
    name, used = sorted(log_files(data).items())[0]
    server = Server(folder)

    def look(data):
        done = weir("doctor", "--data", data, "--url", "redis://127.0.0.1:1", "--json")
        checks = {c["name"]: c for c in json.loads(done.stdout)["checks"]}
        # What it says of the machine, of its disk for one, is not of interest here.
        equal(done.returncode, int("bad" in [c["verdict"] for c in checks.values()]), done.stdout)
        return checks["log"], checks["history"]

    log, history = look(data)
    equal((log["verdict"], history["verdict"]), ("ok", "ok"), "with a server at work")
    expect("in use" in log["text"], log)
    equal(server.stop(), 0, "exit code")
    log, history = look(data)
    equal((log["verdict"], history["verdict"]), ("ok", "ok"), "after it was stopped")
    damaged = os.path.join(folder, "damaged")
    file = os.path.join(damaged, "history.db")
    cases = (("log", lambda: damage(os.path.join(damaged, name), used // 2, zero_512), "salvage"),
             ("history", lambda: overwrite(file, 0, 4096), "move all of history.db* away"),
             ("history", lambda: os.truncate(file, 16384), "move all of history.db* away"),
             ("history", lambda: change(file, "PRAGMA user_version = 99"), "use the weir"),
             ("history", lambda: change(file, "DROP TABLE span"), "move all of history.db* away"),
             ("history", lambda: change(file, "PRAGMA application_id = 1"), "move it away"))
    for number, (which, harm_it, advice) in enumerate(cases):
        copy(data, damaged)
        harm_it()
        before = sorted(os.listdir(damaged))
        log, history = look(damaged)
        found = {"log": log, "history": history}
        equal({k: v["verdict"] for k, v in found.items()},
              {k: "bad" if k == which else "ok" for k in found}, "verdicts of case %d" % number)
        expect(advice in found[which]["text"] + found[which]["fix"], found[which])
        equal(sorted(os.listdir(damaged)), before, "files of case %d" % number)


def failed_jobs(folder, n):
    """A folder whose history holds `n` failed jobs, all moved into the main file."""
    server = Server(folder)
    with server.client() as c:
        for i in range(n):
            c("ENQUEUE", "charge", b'{"amount":1000,"order":%d}' % i, "ATTEMPTS", 1)
        for row in claim(c, count=n):
            c("FAIL", row.id, row.token, "card declined")
        # Else they are live again after the start, and handed over to history once more.
        until(lambda: "jobs_finished:0" in text(c("INFO")).split(), what="all jobs are in history")
    equal(server.stop(), 0, "exit code")
    return server.data


def replace_bytes(path, old, new):
    """Changes the first place of the file that holds `old`."""
    with open(path, "r+b") as f:
        at = f.read().find(old)
        expect(at >= 0, "%r is not in %s" % (old, path))
        f.seek(at)
        f.write(new)


def check_history_damage(folder, data, damaged_id, n):
    """A damaged row is named by every tool, and neither delivered nor called missing."""
    done = weir("history", "verify", data)
    equal(done.returncode, 9, "exit code of history verify (%s)" % done.stderr)
    expect("job %d:" % damaged_id in done.stderr and "damaged=1" in done.stdout,
           done.stdout + done.stderr)
    doctor = weir("doctor", "--data", data, "--url", "redis://127.0.0.1:1", "--json")
    found = {c["name"]: c for c in json.loads(doctor.stdout)["checks"]}["history"]
    equal(found["verdict"], "bad", "the doctor's verdict")
    expect("job %d" % damaged_id in found["text"], found)
    server = Server(folder, data=data)
    with server.client() as c:
        for words in (("JOB", damaged_id), ("RETRY", damaged_id), ("RETRY", damaged_id, "FORCE"),
                      ("EVENTS", damaged_id)):
            refused = c.ask(*words)
            expect(isinstance(refused, WeirError) and "CORRUPT" in str(refused),
                   "%s answers %r" % (words, refused))
            expect("job %d" % damaged_id in str(refused), refused)
        row = [r for r in job_list(c, "LIMIT", 1000) if r["id"] == damaged_id][0]
        expect(not row["args"] and "damaged" in text(row["error"]), "listed as %r" % row)
        many = mapping(c("RETRYMANY", "STATUS", "failed", "LIMIT", 1000))
        equal((many["retried"], many["skipped"]), (n - 1, 1), "RETRYMANY")
        got = claim(c, count=n + 1)
        equal(sorted(g.id for g in got), [i for i in range(1, n + 1) if i != damaged_id], "claimed")
        for each in got:
            expect(each.args.startswith(b'{"amount":1000,'), each.args)
    expect("job=%d" % damaged_id in server.log(), "the server's log does not name the job")
    equal(server.stop(), 0, "exit code")


@test("a changed row of history is named by id, never delivered and never called missing")
def _(folder):
    n = 5
    data = failed_jobs(folder, n)
    file = os.path.join(data, "history.db")
    equal(weir("history", "verify", data).returncode, 0, "exit code on a sound file")
    sound = os.path.join(folder, "sound")
    copy(data, sound)
    # The rows lie from the end of the page to its begin: the first found is the last job's.
    for number, (old, new) in enumerate(((b'"amount":1000', b'"amount":9000'),
                                         (b"card declined", b"card_declined"),
                                         (b"charge", b"chargf"))):
        damaged = os.path.join(folder, "damaged%d" % number)
        copy(sound, damaged)
        replace_bytes(os.path.join(damaged, "history.db"), old, new)
        check_history_damage(folder, damaged, n, n)
    expect(os.path.exists(file), "the sound file stays")


@test("a row of history without its checksum is damage, except in a file an older weir made")
def _(folder):
    data = failed_jobs(folder, 2)
    file = os.path.join(data, "history.db")
    db = sqlite3.connect(file)
    with db:  # the file of version 3 that these rows would have been in
        db.execute("ALTER TABLE job DROP COLUMN checksum")
        db.execute("DROP VIEW incidents")
        db.execute("DROP TABLE incident")
        db.execute("DROP TABLE block")
        db.execute("DROP TABLE store")
        db.execute("DROP TABLE minute")
        db.execute("DROP TABLE audit")
        db.execute("PRAGMA user_version = 3")
    db.close()
    done = weir("history", "verify", data)
    equal((done.returncode, done.stdout), (0, "rows=2 unchecked=2 damaged=0\n"), done.stderr)
    server = Server(folder, data=data)
    with server.client() as c:
        c("RETRY", 1)
        got = claim(c)[0]
        equal(got.args, b'{"amount":1000,"order":0}', "what runs again")
        c("FAIL", got.id, got.token, "again")
    equal(server.stop(), 0, "exit code")
    done = weir("history", "verify", data)
    equal((done.returncode, done.stdout), (0, "rows=2 unchecked=1 damaged=0\n"), done.stderr)
    replace_bytes(file, b'"order":0', b'"order":9')
    equal(weir("history", "verify", data).returncode, 9, "exit code after a change")


@test("a log that is lost while history stays gives no id and no fence a second time")
def _(folder):
    server = Server(folder)
    with server.client() as c:
        for _ in range(7):
            c("ENQUEUE", "h", "", "ATTEMPTS", 9)
        for _ in range(9):  # more fences than ids
            rows = claim(c, count=10)
            for row in rows:
                c("FAIL", row.id, row.token, "no", "RETRYIN", 0)
        last = max(row.fence for row in rows)
        last = max(last, c("LOCK", "sync", 60000)[1])
    equal(server.stop(), 0, "exit code")
    expect(last > 60, "fences up to %d" % last)
    shutil.rmtree(os.path.join(server.data, "log"))
    again = Server(folder, data=server.data)
    with again.client() as c:
        expect(c("ENQUEUE", "h", "") > 7, "the id was given before")
        fence = claim(c)[0].fence
        expect(fence > last, "fence %d after %d" % (fence, last))
    expect("ids and fences" in again.log() and "next_fence=" in again.log(), again.log()[-500:])
    again.kill()


@test("salvage names the files of history that must be copied, with all companions")
def _(folder):
    data = make_folder(folder)
    for name in ("history.db", "history.db-wal"):
        expect(os.path.getsize(os.path.join(data, name)), name + " is empty")
    done = weir("log", "salvage", data, data + ".saved")
    equal(done.returncode, 0, done.stderr)
    expect("cp %s* %s.saved/\n" % (os.path.join(data, "history.db"), data) in done.stdout, done.stdout)


@test("salvage refuses a folder that is not empty, and never changes what it reads")
def _(folder):
    data = make_folder(folder)
    before = {n: hashlib.sha256(open(os.path.join(data, n), "rb").read()).digest()
              for n in log_files(data)}
    full = os.path.join(folder, "full")
    os.mkdir(full)
    with open(os.path.join(full, "something"), "w") as f:
        f.write("mine")
    done = weir("log", "salvage", data, full)
    expect(done.returncode != 0, "salvage wrote into a folder that was not empty")
    equal(os.listdir(full), ["something"], "the folder")
    verify(data)
    weir("log", "dump", data)
    weir("log", "salvage", data, os.path.join(folder, "new"))
    after = {n: hashlib.sha256(open(os.path.join(data, n), "rb").read()).digest()
             for n in log_files(data)}
    equal(after, before, "the files")


@test("weir log dump prints every record as a line of JSON")
def _(folder):
    data = make_folder(folder)
    done = weir("log", "dump", data)
    equal(done.returncode, 0, "exit code")
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    expect(len(lines) >= 330, "only %d lines" % len(lines))
    seen = text(done.stdout)
    expect(payload(7).decode() in seen, "the payload of a job is not in the dump")


if __name__ == "__main__":
    main()
