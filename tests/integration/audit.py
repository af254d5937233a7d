#!/usr/bin/python3
# weir-test: timeout=180
"""The audit trail of the real program: who changed what over each door, what wrong tokens leave,
what a restart keeps, and how people read it."""
import json
import os
import signal
import sqlite3
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "fault"))

from harness import (Http, Server, equal, expect, history, mapping, main, test,  # noqa: E402
                     text, until, weir)

TOKEN = "the-token-of-the-file-0123456789"


def entries(server, query="", token=TOKEN):
    """All that match, newest first."""
    with Http(server.http, token=token) as w:
        found, cursor = [], ""
        while True:
            page = w.good("GET", "/v1/audit?limit=1000" + query + cursor)
            equal(page["problem"], "", "problem")
            found += page["entries"]
            if not page["cursor"]:
                return found
            cursor = "&before=" + page["cursor"]


def one(server, query):
    found = entries(server, query)
    equal(len(found), 1, query)
    return found[0]


def url(server):
    return "%s:%d" % server.resp


def add_token(c, name, role):
    return text(mapping(c("TOKENADD", name, role))["secret"])


@test("each door says who, from where and by which role")
def doors(folder):
    server = Server(folder, token=TOKEN, config='log_level = info\n')
    with server.client() as c:
        c("AUTH", TOKEN)
        ops = add_token(c, "ops", "operator")
    with server.client() as c:
        c("AUTH", "ops", ops)
        c("QUEUESET", "mail", "CAP", "3")
        c("BREAKER", "smtp")
        c("TRIP", "smtp", "REASON", "it is down")
    with Http(server.http, token=ops) as w:
        w.good("POST", "/v1/queues/mail/pause")
        equal(w.ask("GET", "/throttle-app/etl/ttl/5").status, 200, "freno")
    with Http(server.http) as w:
        answer = w.ask("POST", "/login", {"token": ops})
        cookie = answer.header("set-cookie").split(";")[0]
        csrf = answer.json["csrf"]
        equal(w.ask("POST", "/v1/queues/mail/resume", {},
                    ["Cookie: " + cookie, "X-Weir-Csrf: " + csrf]).status, 200, "by the page")
    os.kill(server.process.pid, signal.SIGHUP)
    until(lambda: entries(server, "&match=SIGHUP"), 60, "the reload")

    def who(entry):
        return tuple(entry[k] for k in ("who", "role", "address", "door"))
    equal(who(one(server, "&command=QUEUESET")), ("ops", "operator", "127.0.0.1", "resp"))
    equal(who(one(server, "&command=TOKENADD")), ("default", "admin", "127.0.0.1", "resp"))
    equal(who(one(server, "&command=PAUSE")), ("ops", "operator", "127.0.0.1", "http"))
    equal(who(one(server, "&command=RESUME")), ("ops", "operator", "127.0.0.1", "page"))
    equal(who(one(server, "&command=CONTRACT")), ("ops", "operator", "127.0.0.1", "http"))
    equal(who(one(server, "&command=CONFIGRELOAD")), ("nobody", "", "", "signal"))
    equal(one(server, "&command=CONTRACT")["what"], "/throttle-app/etl/ttl/5", "what")
    equal((one(server, "&command=PAUSE")["before"], one(server, "&command=PAUSE")["after"]),
          ('{"paused":false}', '{"paused":true}'), "before and after")
    trip = one(server, "&command=trip")
    equal((trip["what"], trip["reason"]), ('TRIP smtp REASON "it is down"', "it is down"), "why")
    expect(abs(trip["at_ms"] - time.time() * 1000) < 600000, "a time")
    for entry in entries(server):
        expect(ops not in json.dumps(entry) and TOKEN not in json.dumps(entry), "a secret")

    told = weir("audit", "--json", "--all", "--who", "ops", "--since", "1h", "--url",
                url(server), "--token", ops)
    equal(told.returncode, 0, told.stderr)
    equal(json.loads(told.stdout)["entries"], entries(server, "&who=ops"), "weir audit --json")
    told = weir("audit", "--limit", "2", "--url", url(server), "--token", ops)
    equal(told.returncode, 0, told.stderr)
    expect("SIGHUP" in told.stdout and "--cursor" in told.stderr, told.stdout + told.stderr)
    for wrong in (["--since", "soon"], ["--limit", "0"], ["--cursor", "x"]):
        equal(weir("audit", *wrong, "--url", url(server), "--token", ops).returncode, 2, wrong)
    before = entries(server)
    equal(server.stop(), 0, "exit code")
    server = Server(folder, token=TOKEN)
    equal(entries(server), before, "after a restart")
    rows = history(server.data, "SELECT number, who, command, times FROM audit")
    equal([[int(row[0]), row[1], row[2], int(row[3])] for row in rows],
          [[e["number"], e["who"], e["command"], e["times"]] for e in before], "history sql")
    equal(server.stop(), 0, "exit code")


@test("wrong tokens and refused commands are counted by client and minute")
def refused(folder):
    server = Server(folder, token=TOKEN)
    with server.client() as c:
        c("AUTH", TOKEN)
        reader = add_token(c, "looker", "reader")
    for _ in range(4):
        with server.client() as c:
            c.refused("AUTH", "wrong", name="BADTOKEN")
    with Http(server.http, token="wrong") as w:
        for _ in range(3):
            equal(w.ask("GET", "/v1/queues").status, 401, "wrong")
    with Http(server.http, token=reader) as w:
        equal(w.ask("GET", "/v1/audit").status, 403, "of a reader")
        equal(w.ask("POST", "/v1/queues/mail/pause").status, 403, "of a reader")
        equal(w.ask("GET", "/throttle-app/etl").status, 403, "of a reader")

    def times(query):
        return sum(e["times"] for e in entries(server, query))
    # Whatever minute it is: the first is there at once, and the whole count after a stop.
    expect(1 <= len(entries(server, "&command=AUTH&match=resp")) <= 4, "at once, grouped")
    equal(server.stop(), 0, "exit code")
    server = Server(folder, token=TOKEN)
    equal((times("&command=AUTH&match=resp"), times("&command=AUTH&match=http")), (4, 3), "counts")
    for entry in entries(server, "&command=AUTH"):
        equal((entry["who"], entry["address"]), ("nobody", "127.0.0.1"), "who failed")
    equal(times("&who=looker&command=AUDIT"), 1, "AUDIT")
    equal(times("&who=looker&command=PAUSE"), 1, "PAUSE")
    equal(times("&who=looker&match=throttle-app"), 1, "freno")
    expect("needs the role operator" in one(server, "&who=looker&command=PAUSE")["what"], "why")
    equal(server.stop(), 0, "exit code")


@test("entries wait in the log while history is locked, and what is past its time goes")
def locked(folder):
    server = Server(folder)
    db = sqlite3.connect(os.path.join(server.data, "history.db"), isolation_level=None)
    db.execute("BEGIN IMMEDIATE")
    with server.client() as c:
        for i in range(50):
            c("LIMIT", "l%d" % i, 5, 1000)
    server.kill()
    db.execute("ROLLBACK")
    equal(db.execute("SELECT count(*) FROM audit").fetchall(), [(0,)], "nothing was written")
    server = Server(folder)
    equal([e["what"] for e in entries(server, token=None)],
          ["LIMIT l%d 5 1000" % i for i in reversed(range(50))], "each once")
    until(lambda: db.execute("SELECT count(*) FROM audit").fetchall() == [(50,)], 60, "history")
    equal(len(entries(server, token=None)), 50, "of history now")
    equal(server.stop(), 0, "exit code")
    newest = db.execute("SELECT max(at_ms) FROM audit").fetchall()[0][0]
    until(lambda: time.time() * 1000 > newest + 2, 60, "older than what is kept")
    server = Server(folder, config='history_keep_audit = "1ms"\n')
    # The log keeps the newest for its number and hands it over again, before or after the sweep.
    until(lambda: db.execute("SELECT number FROM audit").fetchall() in ([], [(50,)]),
          what="retention")
    with server.client() as c:
        c("UNLIMIT", "l1")
    expect([e["number"] for e in entries(server, token=None)] in ([51], [51, 50]),
           "numbers go on: %r" % entries(server, token=None))
    db.close()


if __name__ == "__main__":
    main()
