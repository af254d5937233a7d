#!/usr/bin/python3
"""docs/history.md: its SQL runs against the file that weir writes, while weir runs, and finds what
the page says."""
import os
import re
import sqlite3
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "fault"))

from harness import ROOT, Server, equal, expect, main, test, text, until  # noqa: E402

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


def columns():
    """Names in the table of the view's columns."""
    rows = re.search(r"\| column \| \|\n\|---\|---\|\n((?:\|.*\n)+)", read_page())[1]
    return [name for row in rows.splitlines() for name in re.findall(r"`(\w+)`",
                                                                     row.split("|")[1])]


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
        until(lambda: b"jobs_finished:0\r" in c("INFO"), 20, "everything in history")


def open_history(server):
    return sqlite3.connect("file:%s?mode=ro" % os.path.join(server.data, "history.db"), uri=True)


@test("the examples of the page run, and find what they are for")
def runs(folder):
    server = Server(folder)
    fill(server)
    db = open_history(server)
    got = {what: db.execute(sql.replace("4711", "4")).fetchall()
           for what, sql in examples().items()}
    equal(sorted(got), ["everything that ever happened to one job", "the longest runs",
                        "what failed today, by hook"], "examples")
    equal(got["what failed today, by hook"], [("pay", 2, "card refused")], "what failed")
    equal([row[0] for row in got["everything that ever happened to one job"]],
          ["created", "started", "failed"], "events of job 4")
    expect(all(re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", row[1])
               for row in got["everything that ever happened to one job"]), "times")
    expect(got["everything that ever happened to one job"][2][2].startswith("card refused"),
           "the error of job 4")
    longest = got["the longest runs"]
    equal(sorted(row[1] for row in longest), ["mail"] * 3 + ["pay"] * 2, "runs")
    expect(all(0 <= row[2] < 600000 for row in longest), "lengths: %s" % longest)
    db.close()
    server.stop()


@test("the view has the columns of the page, and the table what is said of it")
def shape(folder):
    server = Server(folder)
    fill(server)
    db = open_history(server)
    equal(sorted(columns()), sorted(row[1] for row in db.execute("PRAGMA table_info(jobs)")),
          "columns of the view jobs")
    equal(db.execute("SELECT status, count(*) FROM jobs GROUP BY status ORDER BY 1").fetchall(),
          [("canceled", 1), ("complete", 3), ("failed", 2)], "by status")
    equal(db.execute("SELECT status, grp, count(*) FROM job GROUP BY 1, 2 ORDER BY 1").fetchall(),
          [(2, "acme", 3), (3, "acme", 2), (4, None, 1)], "numbers of the table job")
    expect(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z",
                        db.execute("SELECT created FROM jobs LIMIT 1").fetchone()[0]), "a time")
    db.close()
    server.stop()


main()
