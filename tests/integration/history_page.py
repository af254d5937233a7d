#!/usr/bin/python3
# weir-test: bin=release
"""docs/history.md: its SQL runs through `weir history sql`, while weir runs, and finds what the page
says, in rows and in blocks."""
import json
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "fault"))

from harness import ROOT, WEIR, Server, equal, expect, main, pack, test, text, until, weir  # noqa: E402

PAGE = os.path.join(ROOT, "docs", "history.md")


def read_page():
    with open(PAGE) as f:
        return f.read()


def examples():
    """{comment: statement} of the indented blocks of the page."""
    found = {}
    for block in re.findall(r"(?:^    .*\n)+", read_page(), re.M):
        lines = [line[4:] for line in block.splitlines()]
        if lines[0].startswith("-- "):
            found[lines[0][3:]] = "\n".join(lines[1:])
    return found


def columns(table):
    """Names in the list of the table's columns."""
    page = read_page().split("table `%s`" % table, 1)[1]
    rows = re.search(r"\| column \|(?: kinds \|)? \|\n[|-]+\n((?:\|.*\n)+)", page)[1]
    return [name for row in rows.splitlines() for name in re.findall(r"`(\w+)`",
                                                                     row.split("|")[1])]


def archived(client):
    until(lambda: b"jobs_finished:0\r" in client("INFO"), 20, "everything in history")


def fill(server):
    """Three complete jobs, two of another hook that failed, one canceled; all are in history."""
    with server.client() as c:
        for hook, n in (("mail", 3), ("pay", 2)):
            for _ in range(n):
                c("ENQUEUE", hook, "{}", "ATTEMPTS", 1, "GROUP", "acme")
        for row in c("CLAIM", "w1", "MAX", 5, "QUEUES", "default"):
            if text(row[2]) == "mail":
                c("COMPLETE", row[0], row[1], "done")
            else:
                c("FAIL", row[0], row[1], "card refused")
        c("CANCEL", c("ENQUEUE", "late", "", "IN", 3600000))
        archived(c)


TARGET = """
target "shop" {
        kind = "command"
        command = {"echo", "2.5"}
        metric "load" { critical = {9, 8} threshold = 5 }
}
"""


def fill_minutes(folder):
    """A server with the jobs of fill(), a metric and a client that was refused; a stop and a start,
    so that the minute is written."""
    server = Server(folder, config=TARGET)
    fill(server)
    with server.client() as c:
        until(lambda: text(c("CHECK", "run-1:purge", "METRICS", "load")[0]) == "granted", 20, "a sample")
        c("RULESET", "purge", "hold", "FOR", 60000)
        for _ in range(3):
            equal(text(c("CHECK", "run-1:purge")[0]), "refused", "a check")
    equal(server.stop(), 0, "exit code")
    return Server(folder, config=TARGET)


def fill_blocks(server):
    """200 jobs that were started twice, so close together that they are kept in blocks."""
    with server.client() as c:
        c.send(b"".join(pack("ENQUEUE", "twice", "{}", "BACKOFF", "fixed:1") for _ in range(200)))
        for _ in range(200):
            c.read()
        ended = 0
        while ended < 400:
            for row in c("CLAIM", "w2", "MAX", 100, "QUEUES", "default"):
                c("FAIL" if ended < 200 else "COMPLETE", row[0], row[1], "again")
                ended += 1
        archived(c)
    expect([n for n in os.listdir(server.data) if "-blocks-" in n], "blocks")


def ask(server, sql):
    done = weir("history", "sql", "--data", server.data, "--json", sql)
    equal((done.returncode, done.stderr), (0, ""), "exit code of " + sql)
    return [tuple(row.values()) for row in json.loads(done.stdout)]


def examine_minutes(got):
    """There may be two of them: the clock goes on."""
    hooks = got["jobs of each hook in the last hour, minute by minute, and how long most of them ran"]
    equal({row[1] for row in hooks}, {"mail", "pay"}, "hooks")
    equal((sum(row[2] for row in hooks), sum(row[3] for row in hooks)), (3, 2), "completed and failed")
    expect(all(0 <= row[4] < 600000 for row in hooks), "times: %s" % hooks)
    hours = got["the busiest hours of the last week"]
    equal((sum(row[1] for row in hours), sum(row[2] for row in hours)), (5, 2), "started and failed")
    equal(sorted(got["why checks of clients were refused in the last 10 days"]),
          [(name, "hold", 3) for name in ("purge", "run-1", "run-1:purge")], "refused")
    equal({row[1:] for row in got["the largest value of each metric, day by day"]},
          {("shop", "load", 2.5)}, "metrics")


@test("the examples of the page run, and find what they are for")
def runs(folder):
    server = fill_minutes(folder)
    got = {what: ask(server, sql.replace("4711", "4")) for what, sql in examples().items()}
    equal(sorted(got), ["everything that ever happened to one job",
                        "how many jobs ended in each minute of the last hour, and how long they had waited",
                        "jobs of each hook in the last hour, minute by minute, and how long most of them ran",
                        "jobs that needed more than one attempt today",
                        "the busiest hours of the last week",
                        "the largest value of each metric, day by day",
                        "the longest runs",
                        "what failed today, by hook",
                        "when the level of any target rose to critical this month",
                        "who paused a queue this week",
                        "why checks of clients were refused in the last 10 days"], "examples")
    equal(got["what failed today, by hook"], [("pay", 2, "card refused")], "what failed")
    story = got["everything that ever happened to one job"]
    equal([row[0] for row in story], ["created", "started", "failed"], "events of job 4")
    expect(all(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", row[1]) for row in story), "times")
    expect(story[2][2].startswith("card refused"), "the error of job 4")
    longest = got["the longest runs"]
    equal(sorted(row[1] for row in longest), ["mail"] * 3 + ["pay"] * 2, "runs")
    expect(all(0 <= row[2] < 600000 for row in longest), "lengths: %s" % longest)
    minutes = got["how many jobs ended in each minute of the last hour, and how long they had waited"]
    equal(sum(row[1] for row in minutes), 6, "ends")
    equal(got["jobs that needed more than one attempt today"], [], "attempts")
    examine_minutes(got)
    server.stop()


@test("they find the same in blocks")
def runs_in_blocks(folder):
    server = Server(folder)
    fill_blocks(server)
    sql = examples()
    twice = ask(server, sql["jobs that needed more than one attempt today"])
    equal((len(twice), {row[1:] for row in twice}), (200, {("twice", 2)}), "started twice")
    equal([row[0] for row in ask(server, sql["everything that ever happened to one job"]
                                 .replace("4711", "7"))],
          ["created", "started", "failed", "retried", "started", "completed"], "events of job 7")
    equal(len(ask(server, sql["the longest runs"])), 20, "runs")
    server.stop()


@test("the tables have the columns of the page")
def shape(folder):
    server = Server(folder)
    fill(server)
    for table in ("jobs", "events", "minutes", "incidents", "audit"):
        equal(sorted(columns(table)),
              sorted(row[1] for row in ask(server, "PRAGMA table_info(%s)" % table)),
              "columns of " + table)
    equal(ask(server, "SELECT status, count(*) FROM jobs GROUP BY status ORDER BY 1"),
          [("canceled", 1), ("complete", 3), ("failed", 2)], "by status")
    expect(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z",
                        ask(server, "SELECT created FROM jobs LIMIT 1")[0][0]), "a time")
    server.stop()


@test("the commands of the page run as they are written")
def commands(folder):
    server = Server(folder)
    fill(server)
    with open(os.path.join(folder, "report.sql"), "w") as f:
        f.write("SELECT count(*) FROM jobs;\n")
    os.symlink(WEIR, os.path.join(folder, "weir"))
    words = re.findall(r"^\| `(weir history sql [^`]*)` \|", read_page(), re.M)
    words += re.findall(r"^    (weir history sql .*)$", read_page(), re.M)
    equal(len(words), 6, "commands")
    for line in words:
        line = line.replace("SELECT ...", "SELECT count(*) FROM jobs")
        done = subprocess.run(["sh", "-c", line], cwd=folder, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              env={**os.environ, "PATH": folder + ":" + os.environ["PATH"]},
                              timeout=60)
        equal((done.returncode, done.stderr), (0, ""), "exit code of " + line)
    server.stop()


main()
