#!/usr/bin/python3
"""weir history sql: values and formats, what is refused, prompts and scripts, damage, and a server
that works on the same folder.

weir-test: timeout=180
"""
import atexit
import contextlib
import csv
import datetime
import io
import json
import os
import pty
import select
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "fault"))

from harness import (WEIR, Server, Watch, equal, expect, main, pack, test, text, until,  # noqa: E402
                     weir)

ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n"


def all_archived(client):
    until(lambda: b"jobs_finished:0\r" in client("INFO"), 60, "everything in history")


def add_jobs(client, count, hook="mail", args=b'{"n":%d}'):
    """Complete jobs, so close together that history keeps them in blocks."""
    begin = client("ENQUEUE", hook, args % 0)
    client.send(b"".join(pack("ENQUEUE", hook, args % i) for i in range(1, count)))
    for _ in range(count - 1):
        client.read()
    rows = []
    while len(rows) < count:
        rows += client("CLAIM", "w1", "MAX", 100, "QUEUES", "default")
    client.send(b"".join(pack("COMPLETE", row[0], row[1], "done") for row in rows))
    for _ in rows:
        equal(client.read(), "OK", "COMPLETE")
    all_archived(client)
    return begin


_made = {}  # folders that are copied: a server takes seconds to archive its last jobs


def once(make):
    def copy(folder, *args):
        key = (make, args)
        if key not in _made:
            _made[key] = tempfile.mkdtemp(prefix="weir-test.", dir=os.environ.get("TEST_TMP"))
            atexit.register(shutil.rmtree, _made[key], ignore_errors=True)
            make(_made[key], *args)
        data = os.path.join(folder, "data")
        shutil.copytree(os.path.join(_made[key], "data"), data)
        return data
    return copy


@once
def small(folder):
    """Jobs of every status, one of them with args that are no text; the server is stopped."""
    server = Server(folder)
    with server.client() as c:
        for args in (b'{"to":"a,b","text":"say \\"hi\\"\r\n"}', b"\xff\x00", b""):
            c("ENQUEUE", "mail", args, "ATTEMPTS", 1)
        c("ENQUEUE", "pay", b"plain", "ATTEMPTS", 1, "GROUP", "acme")
        for row in c("CLAIM", "w1", "MAX", 4, "QUEUES", "default"):
            if text(row[2]) == "mail":
                c("COMPLETE", row[0], row[1], "done")
            else:
                c("FAIL", row[0], row[1], "card refused")
        c("CANCEL", c("ENQUEUE", "late", "", "IN", 3600000))
        all_archived(c)
    equal(server.stop(), 0, "exit code")


@once
def large(folder, count):
    server = Server(folder)
    with server.client() as c:
        add_jobs(c, count)
    equal(server.stop(), 0, "exit code")
    expect(blocks_of(server.data), "no blocks: %s" % os.listdir(server.data))


def blocks_of(data):
    return [os.path.join(data, n) for n in os.listdir(data) if "-blocks-" in n]


def sql(data, statement, *options, code=0):
    done = weir("history", "sql", "--data", data, *options, statement)
    equal(done.returncode, code, "exit code of %s (%s)" % (statement, done.stderr))
    return done


def rows(data, statement):
    return json.loads(sql(data, statement, "--json").stdout)


def refused(data, statement, *words, code=2):
    done = sql(data, statement, code=code)
    equal(done.stdout, "", "output of " + statement)
    for word in words:
        expect(word in done.stderr, "%s: %s does not mention %r" % (statement, done.stderr, word))


# ---------------------------------------------------------------- formats


@test("JSON has numbers, null, and hex for what is no text")
def in_json(folder):
    data = small(folder)
    got = rows(data, 'SELECT id, status, "group", args, result, error, started IS NULL AS waited, '
                     "run, 1.5 AS real, 9e999 AS inf FROM jobs")
    equal(got[0], {"id": 1, "status": "complete", "group": None,
                   "args": '{"to":"a,b","text":"say \\"hi\\"\r\n"}', "result": "done",
                   "error": None, "waited": 0, "run": 0, "real": 1.5, "inf": float("inf")},
          "the first job")
    equal([r["args"] for r in got[1:]], ["ff00", None, "plain", None], "args")
    equal([r["status"] for r in got], ["complete"] * 3 + ["failed", "canceled"], "statuses")
    equal((got[3]["group"], got[3]["error"], got[3]["result"]), ("acme", "card refused", None),
          "the one that failed")
    equal(got[4]["waited"], 1, "a job that never started")
    equal(rows(data, "SELECT * FROM jobs WHERE id = 999"), [], "no rows")
    keys = list(rows(data, "SELECT * FROM jobs LIMIT 1")[0])
    equal(keys[:5] + keys[-4:], ["id", "status", "hook", "queue", "group", "created_ms", "due_ms",
                                 "started_ms", "finished_ms"], "columns")


@test("CSV is read back by a program as it was")
def in_csv(folder):
    data = small(folder)
    done = subprocess.run([WEIR, "history", "sql", "--data", data, "--csv",
                           "SELECT id, args, error, '' AS empty FROM jobs"],
                          stdout=subprocess.PIPE, check=True)
    got = list(csv.reader(io.StringIO(done.stdout.decode(), newline="")))
    equal(got[0], ["id", "args", "error", "empty"], "titles")
    equal(got[1:3], [["1", '{"to":"a,b","text":"say \\"hi\\"\r\n"}', "", ""],
                     ["2", "ff00", "", ""]], "the first two")
    expect(done.stdout.endswith(b'\r\n5,,,""\r\n'), "NULL and an empty text: %r" % done.stdout)


@test("a table is aligned, and shows control characters instead of sending them")
def as_table(folder):
    data = small(folder)
    done = sql(data, "SELECT id * 1000 AS n, hook, char(27) || '[31m' AS esc FROM jobs LIMIT 2")
    equal(done.stdout, "   n  hook  esc\n1000  mail  \\x1b[31m\n2000  mail  \\x1b[31m\n", "table")
    equal(sql(data, "SELECT id, hook FROM jobs WHERE id = 99").stdout, "id  hook\n", "no rows")


@test("many rows come as they are read, in every format")
def many(folder):
    data = large(folder, 2000)
    equal([r["id"] for r in rows(data, "SELECT id FROM jobs")], list(range(1, 2001)), "JSON")
    equal(sql(data, "SELECT id FROM jobs ORDER BY id DESC", "--csv").stdout.splitlines(),
          ["id"] + [str(i) for i in range(2000, 0, -1)], "CSV")
    equal([line.split() for line in sql(data, "SELECT id, hook FROM jobs").stdout.splitlines()],
          [["id", "hook"]] + [[str(i), "mail"] for i in range(1, 2001)], "table")


# ---------------------------------------------------------------- what is refused


@test("what is wrong is told with its place, and ends with exit code 2")
def wrong(folder):
    data = small(folder)
    refused(data, "SELECT nope FROM jobs", "line 1, column 8: no such column: nope")
    refused(data, "SELECT id\nFROM jobs WHERE )", "line 2, column 17", "syntax error")
    refused(data, "SELECT * FROM job", "no such table: job", "jobs, events, minutes, incidents, audit")
    refused(data, "SELECT 1 +", "incomplete input")
    done = weir("history", "sql", "--data", data, "SELECT", "1")
    equal((done.returncode, "put all of the SQL in quotes" in done.stderr), (2, True), done.stderr)
    done = weir("history", "sql", "--data", data, "--csv", "--json", "SELECT 1")
    equal((done.returncode, "exclude each other" in done.stderr), (2, True), done.stderr)


def state_of(data):
    found = {}
    for base, _, names in os.walk(data):
        for name in names:
            st = os.stat(os.path.join(base, name))
            found[os.path.join(base, name)] = (st.st_size, st.st_mtime_ns)
    return found


@test("nothing is written: no statement, no file beside the store")
def read_only(folder):
    data = large(folder, 2000)
    before = state_of(data)
    equal(rows(data, "SELECT count(*) AS n FROM jobs"), [{"n": 2000}], "jobs")
    for statement, words in (("DELETE FROM jobs", "may not be modified"),
                             ("INSERT INTO jobs(id) VALUES(1)", "can only be read"),
                             ("CREATE TABLE x(a)", "can only be read"),
                             ("BEGIN", "can only be read"),
                             ("VACUUM INTO '%s/copy.db'" % data, "can only be read"),
                             ("ATTACH '%s/other.db' AS o" % data, "ATTACH is not possible"),
                             ("PRAGMA journal_mode = DELETE", "PRAGMA")):
        refused(data, statement, words)
    equal(state_of(data), before, "files")


# ---------------------------------------------------------------- where history is


@test("the folder is named as with other commands, and a missing one is told")
def places(folder):
    data = small(folder)
    config = os.path.join(folder, "weir.conf")
    with open(config, "w") as f:
        f.write('data = "%s"\n' % data)
    count = "SELECT count(*) AS n FROM jobs"
    for words in ((data, count), ("--data", data, count), ("--data=" + data, count),
                  ("-c", config, count), (os.path.join(data, "history.db"), count)):
        done = weir("history", "sql", "--json", *words)
        equal((done.returncode, done.stdout), (0, '[{"n":5}]\n'), "%s: %s" % (words, done.stderr))
    equal(weir("history", "sql", "--csv", count, cwd=folder).stdout, "n\n5\n", "./data")
    for words, code in (((os.path.join(folder, "none"), count), 4), (("none",), 4),
                        (("--data", folder, count), 4), ((config, count), 9)):
        done = weir("history", "sql", *words)
        equal((done.returncode, done.stdout), (code, ""), "%s: %s" % (words, done.stderr))
        expect("weir history sql: " in done.stderr, done.stderr)
    for words, sentence in (((os.path.join(folder, "none"), count), "there is no file or folder '"),
                            (("--data", folder, count), "there is no history.db in the folder '")):
        done = weir("history", "sql", *words)
        expect(sentence in done.stderr and "--data" in done.stderr, done.stderr)
    empty = os.path.join(folder, "empty")
    os.mkdir(empty)
    done = weir("history", "sql", "", cwd=empty)
    equal((done.returncode, "'./data'" in done.stderr), (4, True), "no statement: " + done.stderr)


@test("a history of an older version is left to the server")
def older(folder):
    data = small(folder)
    db = sqlite3.connect(os.path.join(data, "history.db"))
    db.execute("PRAGMA user_version = 4")
    db.close()
    refused(data, "SELECT 1", "older format 4", "upgrades it", code=5)


# ---------------------------------------------------------------- scripts and prompts


def feed(data, script, *options):
    return subprocess.run([WEIR, "history", "sql", "--data", data, *options], input=script,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60)


@test("statements are read from standard input, and the first wrong one ends it")
def scripts(folder):
    data = small(folder)
    done = feed(data, "-- first\nSELECT count(*)\n  FROM jobs;\n\n.tables\nSELECT 2; SELECT 3", "--csv")
    equal((done.returncode, done.stderr), (0, ""), "exit code")
    lines = done.stdout.splitlines()
    equal(lines[:2] + lines[7:], ["count(*)", "5", "2", "2", "3", "3"], "output")
    expect(lines[2].startswith("jobs") and "finished_ms" in lines[2], lines)
    done = feed(data, "SELECT 1;\n\nSELECT\n nope;\nSELECT 2;\n", "--csv")
    equal((done.returncode, done.stdout), (2, "1\n1\n"), "exit code and output")
    expect("line 4, column 2: no such column: nope" in done.stderr, done.stderr)
    done = feed(data, ".nope\n")
    equal((done.returncode, ".tables" in done.stderr), (2, True), done.stderr)
    equal(feed(data, "").returncode, 0, "exit code of nothing")
    equal(feed(data, "SELECT 1;\n.quit\nSELECT nope;\n").returncode, 0, "exit code after .quit")


class Terminal:
    def __init__(self, data):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.environ["TERM"] = "dumb"
            os.execv(WEIR, [WEIR, "history", "sql", "--data", data])
        self.seen = ""

    def expect(self, what):
        """Reads until this text has come; what came before it is forgotten afterwards."""
        watch = Watch()
        while what not in self.seen:
            expect(not watch.is_over(30), "no %r in %r" % (what, self.seen))
            if select.select([self.fd], [], [], 0.1)[0]:
                try:
                    self.seen += os.read(self.fd, 65536).decode()
                except OSError:  # it has ended
                    raise AssertionError("no %r in %r, and it ended" % (what, self.seen)) from None
        before, self.seen = self.seen.split(what, 1)
        return before

    def send(self, keys):
        os.write(self.fd, keys.encode())

    def end(self):
        with contextlib.suppress(OSError):
            while os.read(self.fd, 65536):
                pass
        os.close(self.fd)
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


@test("on a terminal there is a prompt, which goes on after errors and Ctrl-C")
def prompt(folder):
    data = small(folder)
    t = Terminal(data)
    t.expect(".help explains this prompt")
    t.expect("history> ")
    t.send(".tables\n")
    expect("events " in t.expect("history> "), "tables")
    t.send("SELECT count(*) AS n\n")
    t.expect("...> ")
    t.send("FROM jobs;\n")
    expect("n\r\n5\r\n" in t.expect("history> "), "the answer")
    t.send("SELECT nope;\n")
    expect("no such column" in t.expect("history> "), "an error")
    t.send("SELECT half a statement\n")
    t.expect("...> ")
    t.send("\x03")
    t.expect("history> ")
    t.send("SELECT 'beg' || 'un'; " + ENDLESS + ";\n")
    t.expect("begun\r\n")  # a terminal drops lines that were not read yet
    t.send("\x03")
    expect("interrupted" in t.expect("history> "), "a statement that was stopped")
    t.send("SELECT 6 * 7 AS n;\n")
    expect("n\r\n42\r\n" in t.expect("history> "), "the next answer")
    t.send("\x04")
    equal(t.end(), 0, "exit code after Ctrl-D")
    t = Terminal(data)
    t.expect("history> ")
    t.send(".quit\n")
    equal(t.end(), 0, "exit code after .quit")


@test("Ctrl-C ends a command without a prompt by its signal")
def interrupted(folder):
    data = small(folder)
    with subprocess.Popen([WEIR, "history", "sql", "--data", data, "SELECT 1; " + ENDLESS],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        process.stdout.readline()
        process.stdout.readline()  # the first statement is done
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
        equal((process.returncode, errors), (-signal.SIGINT, "weir history sql: interrupted\n"),
              "exit code and message")


# ---------------------------------------------------------------- damage


def change_byte(path, old, new):
    with open(path, "r+b") as f:
        at = f.read().find(old)
        expect(at >= 0, "%r is not in %s" % (old, path))
        f.seek(at)
        f.write(new)


@test("a damaged row is named once and left out, and the exit code is 9")
def damaged_row(folder):
    data = small(folder)
    change_byte(os.path.join(data, "history.db"), b"card refused", b"card_refused")
    done = weir("history", "sql", "--data", data, "--csv",
                "SELECT id FROM jobs; SELECT count(*) FROM events WHERE job = 4")
    equal((done.returncode, done.stdout.split()), (9, ["id", "1", "2", "3", "5", "count(*)", "0"]),
          "exit code and rows (%s)" % done.stderr)
    equal(done.stderr.splitlines()[0], "damaged: job 4: the checksum of this row is wrong", "told")
    equal(len(done.stderr.splitlines()), 2, "lines of " + done.stderr)
    expect("1 damaged place was left out" in done.stderr, done.stderr)
    equal(rows(data, "SELECT id FROM jobs WHERE id = 1"), [{"id": 1}], "what is elsewhere is sound")


@test("a damaged block is named once, and the jobs of others are told")
def damaged_block(folder):
    data = large(folder, 2000)
    before = rows(data, "SELECT count(*) AS n FROM jobs")[0]["n"]
    equal(before, 2000, "jobs")
    with open(blocks_of(data)[0], "r+b") as f:
        f.seek(4096 + 100)  # within the first block
        byte = f.read(1)
        f.seek(4096 + 100)
        f.write(bytes([byte[0] ^ 1]))
    for order in ("ASC", "DESC"):
        done = sql(data, "SELECT id FROM jobs ORDER BY id " + order, "--csv", code=9)
        left = len(done.stdout.split()) - 1
        expect(2000 - 512 <= left < 2000, "%d jobs are left" % left)
        lines = done.stderr.splitlines()
        expect(len(lines) == 2 and lines[0].startswith("damaged: block "), lines)


@test("a damaged minute is named once and left out, and the others are told")
def damaged_minute(folder):
    data = small(folder)
    count = "SELECT step_s, kind, count(*) AS n, sum(completed) AS done FROM minutes GROUP BY 1, 2"
    before = rows(data, count)
    expect({"step_s": 3600, "kind": "queue", "n": 1, "done": 3} in before, before)
    db = sqlite3.connect(os.path.join(data, "history.db"))
    (at, body), = db.execute("SELECT at, body FROM minute WHERE step = 60").fetchall()
    db.execute("UPDATE minute SET body = ? WHERE step = 60",
               (body[:20] + bytes([body[20] ^ 1]) + body[21:],))
    db.commit()
    db.close()
    done = sql(data, count + "; " + count, "--json", code=9)
    equal([json.loads(part + "]") for part in done.stdout.split("]\n")[:2]],
          [[row for row in before if row["step_s"] < 3600]] * 2, "what is left")
    moment = datetime.datetime.fromtimestamp(60 * at, datetime.timezone.utc)
    equal(done.stderr.splitlines()[0],
          moment.strftime("damaged: minute %Y-%m-%dT%H:%M:00.000Z of step_s 3600"), "told")
    equal(len(done.stderr.splitlines()), 2, "lines of " + done.stderr)
    equal(rows(data, count.replace("GROUP", "WHERE step_s < 3600 GROUP")),
          [row for row in before if row["step_s"] < 3600], "without the damaged one")


@test("a file that is no history, or half of one, is refused")
def broken(folder):
    data = small(folder)
    file = os.path.join(data, "history.db")
    shutil.copy(file, file + ".sound")
    os.truncate(file, 16384)
    refused(data, "SELECT count(*) FROM jobs", "history.db", code=9)
    with open(file, "wb") as f:
        f.write(b"x" * 40000)
    refused(data, "SELECT 1", "is damaged", code=9)


# ---------------------------------------------------------------- beside a server


@test("while the server works, every statement sees each job once")
def beside(folder):
    server = Server(folder)
    with server.client() as c:
        last = 0
        for _ in range(4):
            add_jobs(c, 300)
            (got,) = rows(server.data, "SELECT count(*) AS n, count(DISTINCT id) AS d, max(id) AS m "
                                       "FROM jobs")
            expect(got["n"] == got["d"] == got["m"] == last + 300, got)
            last = got["n"]
    equal(server.stop(), 0, "exit code")


@test("jobs that are deleted while they are read are missing, not damaged")
def deleted_meanwhile(folder):
    server = Server(folder)
    with server.client() as c:
        add_jobs(c, 2000, args=b'{"n":%d,"text":"' + b"x" * 400 + b'"}')
        with subprocess.Popen([WEIR, "history", "sql", "--data", server.data, "--json",
                               "SELECT * FROM jobs"],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            begin = os.read(process.stdout.fileno(), 1000)  # it must wait for us soon
            c("DELETEMANY", "STATUS", "complete")
            rest, errors = process.communicate(timeout=60)
            equal((process.returncode, errors), (0, b""), "exit code and messages")
    got = json.loads(begin + rest)
    expect(0 < len(got) < 2000, "%d jobs were told" % len(got))
    equal([r["id"] for r in got], sorted(r["id"] for r in got), "ids in order")
    equal(rows(server.data, "SELECT count(*) AS n FROM jobs"), [{"n": 0}], "jobs afterwards")
    equal(server.stop(), 0, "exit code")


@test("a command beside the server does not keep its log of changes from being moved")
def waits(folder):
    server = Server(folder)
    with server.client() as c:
        add_jobs(c, 100)
        t = Terminal(server.data)
        t.expect("history> ")
        t.send("SELECT count(*) AS n FROM jobs;\n")
        expect("n\r\n100\r\n" in t.expect("history> "), "the answer")
        add_jobs(c, 100)
        equal(server.stop(), 0, "exit code")  # the last one out moves it
        expect(not os.path.exists(os.path.join(server.data, "history.db-wal")), "the -wal file is gone")
        t.send("SELECT count(*) AS n FROM jobs;\n")
        expect("n\r\n200\r\n" in t.expect("history> "), "the answer without a server")
        t.send("\x04")
        equal(t.end(), 0, "exit code")


main()
