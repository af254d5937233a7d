#!/usr/bin/python3
# weir-test: timeout=300 tsan
"""Schedules through both doors: set, shown, paused, resumed, run, removed, refused; and what their
jobs are.  Slots and clocks are walked in tests/unit/test_schedule.c and schedule_clock.py."""
import json
import os
import re
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "fault"))

from harness import (  # noqa: E402
    ROOT, Server, check_error, check_problem, claim, equal, expect, job, main, mapping, test, text,
    until, weir)

with open(os.path.join(ROOT, "src", "api", "limits.h")) as f:
    LIMIT = {name: int(value) for name, value in re.findall(r"X\((\w+),\s*(\d+),", f.read())}


def scheduled(client, name):
    return mapping(client("SCHEDULED", name))


def names(reply):
    return [text(mapping(row)["name"]) for row in mapping(reply)["schedules"]]


@test("an interval makes its jobs at its slots, and the worker gets what was said")
def _(folder):
    server = Server(folder)
    with server.client() as c:
        created, state, next_ms = c("SCHEDULE", "tick", "hook", '{"a":1}', "EVERY", 300, "QUEUE",
                                    "q", "GROUP", "g", "PRIORITY", 7, "OVERLAP", "allow")
        equal((bool(created), text(state)), (True, "active"))
        first = scheduled(c, "tick")["first_ms"]
        equal(next_ms, first, "the next slot")
        for k in range(4):
            got = claim(c, "q", wait=10000)[0]
            equal((text(got.hook), text(got.args), text(got.group), got.priority),
                  ("hook", '{"a":1}', "g", 7), "the job")
            shown = mapping(job(c, got.id)["options"])
            equal(text(shown["schedule"]), "tick", "its schedule")
            equal(shown["slot_ms"], first + 300 * k, "slot %d" % k)
            expect(got.created_ms >= shown["slot_ms"], "it was made before its slot")
            c("COMPLETE", got.id, got.token)


@test("a schedule is set, shown, listed, paused, resumed, run and removed over HTTP")
def _(folder):
    server = Server(folder)
    with server.web() as web, server.client() as c:
        answer = web.ask("POST", "/v1/schedules/night%2Fly", {
            "hook": "report", "args": {"deep": [1, 2]}, "cron": "30 4 * * *",
            "zone": "Europe/Berlin", "overlap": "queue", "missed": "one", "attempts": 2})
        equal(answer.status, 200, "status of POST")
        equal((answer.json["created"], answer.json["state"]), (True, "active"))
        shown = web.ask("GET", "/v1/schedules/night%2Fly").json
        equal((shown["name"], shown["cron"], shown["zone"], shown["args"], shown["attempts"]),
              ("night/ly", "30 4 * * *", "Europe/Berlin", {"deep": [1, 2]}, 2))
        equal(shown["next_ms"], answer.json["next_ms"])
        equal(shown["next"][0], shown["next_ms"])
        times = web.ask("GET", "/v1/schedules/night%2Fly/next?count=3").json["next"]
        equal(times[:1], [shown["next_ms"]])
        for ms in times:
            local = time.strftime("%H:%M:%S", time.gmtime(ms / 1000 + 3600))
            expect(local in ("04:30:00", "03:30:00"), "%s is not half past four" % local)
        tried = web.ask("GET", "/v1/schedules-try?cron=30+4+*+*+*&zone=Europe/Berlin&count=3")
        equal(tried.json, {"next": times}, "the same times tried")
        check_problem(web.ask("GET", "/v1/schedules-try?cron=30+4+*+*+X"), 400, "BADARG",
                      "day of week", "a wrong expression")
        equal([r["name"] for r in web.ask("GET", "/v1/schedules?match=night").json["schedules"]],
              ["night/ly"])
        equal(web.ask("GET", "/v1/schedules?match=day").json, {"schedules": [], "cursor": ""})
        job_id = web.ask("POST", "/v1/schedules/night%2Fly/run").json["id"]
        equal(text(mapping(job(c, job_id)["options"])["schedule"]), "night/ly")
        equal(web.ask("POST", "/v1/schedules/night%2Fly/pause").status, 200)
        equal(web.ask("GET", "/v1/schedules/night%2Fly").json["state"], "paused")
        equal(web.ask("POST", "/v1/schedules/night%2Fly/resume").status, 200)
        equal(web.ask("GET", "/v1/schedules/night%2Fly").json["state"], "active")
        equal(web.ask("DELETE", "/v1/schedules/night%2Fly").status, 200)
        check_problem(web.ask("GET", "/v1/schedules/night%2Fly"), 404, "NOTFOUND", "night/ly", "gone")
        check_problem(web.ask("POST", "/v1/schedules/x", {"hook": "h", "args": "", "cron": "x"}),
                      400, "BADARG", "cron", "no expression")
        check_problem(web.ask("POST", "/v1/schedules/x", {"hook": "h", "args": "", "every": 1000,
                                                          "cron": "* * * * *"}),
                      400, "BADARG", "both", "two ways to say when")


@test("what cannot be is refused with a reason and nothing is changed")
def _(folder):
    server = Server(folder)
    with server.client() as c:
        c("SCHEDULE", "a", "h", "", "EVERY", 60000)
        before = scheduled(c, "a")
        for words, mention in (
                ((), "missing"),
                (("CRON", "0 0 30 2 *"), "no day of any year"),
                (("CRON", "* * * *"), "cron"),
                (("CRON", "* * * * *", "ZONE", "Atlantis/Center"), "Atlantis/Center"),
                (("CRON", "* * * * *", "ZONE", "../../etc/passwd"), "zone"),
                (("EVERY", -1), "every"),
                (("EVERY", 1000, "UNTIL", 1000), "never run"),
                (("EVERY", 1000, "FIRST", 2000, "UNTIL", 1000), "before first"),
                (("EVERY", 1000, "MISSED", "maybe"), "skip|one|all"),
                (("EVERY", 1000, "OVERLAP", "maybe"), "skip|queue|allow|cancel"),
                (("EVERY", 1000, "BACKOFF", "whenever"), "backoff")):
            c.refused("SCHEDULE", "a", "h", "", *words, name="BADARG", mentions=mention)
            equal(scheduled(c, "a"), before, "the schedule after %r" % (words,))
        for command in ("SCHEDULED", "UNSCHEDULE", "PAUSESCHEDULE", "RESUMESCHEDULE",
                        "RUNSCHEDULE", "NEXTRUNS"):
            c.refused(command, "nobody", name="NOTFOUND", mentions="nobody")


@test("the limits of schedules hold at n-1, n and n+1")
def _(folder):
    server = Server(folder)
    with server.client() as c:
        c("SCHEDULE", "a", "h", "", "EVERY", 60000)

        def judge(reply, is_allowed, what):
            if is_allowed:
                expect(not isinstance(reply, Exception), "%s: %s" % (what, reply))
            else:
                check_error(reply, "BADARG", (), what)
        for step in (-1, 0, 1):
            for limit, words in (
                    ("NEXT_RUNS", ("NEXTRUNS", "a", "COUNT")),
                    ("LIST_SCHEDULES", ("SCHEDULES", "LIMIT")),
                    ("JITTER_MS", ("SCHEDULE", "b", "h", "", "EVERY", 60000, "JITTER")),
                    ("STOPAFTER", ("SCHEDULE", "b", "h", "", "EVERY", 60000, "STOPAFTER"))):
                n = LIMIT[limit] + step
                judge(c.ask(*words, n), step <= 0, "%s of %d" % (limit, n))
            n = LIMIT["EVERY_MIN_MS"] + step
            judge(c.ask("SCHEDULE", "c", "h", "", "EVERY", n), step >= 0, "EVERY %d" % n)
        equal(len(c("NEXTRUNS", "a", "COUNT", LIMIT["NEXT_RUNS"])), LIMIT["NEXT_RUNS"])


@test("listings go page by page and everything is there after a restart")
def _(folder):
    server = Server(folder)
    wanted = sorted("s%02d" % i for i in range(25))
    with server.client() as c:
        for name in reversed(wanted):
            c("SCHEDULE", name, "h", "x", "CRON", "@hourly", "ZONE", "America/New_York")
        c("PAUSESCHEDULE", "s07")
        before = {name: scheduled(c, name) for name in wanted}
    server.kill()
    server = Server(folder)
    with server.client() as c:
        got, cursor = [], ""
        while True:
            reply = c("SCHEDULES", "LIMIT", 10, *(["CURSOR", cursor] if cursor else []))
            got += names(reply)
            cursor = text(mapping(reply)["cursor"])
            if not cursor:
                break
        equal(got, wanted, "names")
        equal({name: scheduled(c, name) for name in wanted}, before, "the schedules")


@test("failures in a row stop a schedule with a line that says so, and resume starts it again")
def _(folder):
    server = Server(folder)
    with server.client() as c:
        c("SCHEDULE", "bad", "h", "", "EVERY", 100, "ATTEMPTS", 1, "STOPAFTER", 2)
        for _ in range(2):
            got = claim(c, wait=10000)[0]
            equal(text(c("FAIL", got.id, got.token, "broken")), "failed")
        shown = scheduled(c, "bad")
        equal(text(shown["state"]), "stopped")
        expect("2 jobs in a row" in text(shown["reason"]), text(shown["reason"]))
        until(lambda: "a schedule is stopped" in server.log(), what="the line in the log")
        equal(claim(c, wait=400), [], "jobs of a stopped schedule")
        equal(c("RESUMESCHEDULE", "bad"), "OK")
        expect(claim(c, wait=10000), "no job after it was resumed")


@test("the command line does all of it")
def _(folder):
    server = Server(folder)
    env = {**os.environ, "WEIR_URL": "%s:%d" % server.resp}

    def run(*words, code=0):
        done = weir("schedule", *words, env=env)
        equal(done.returncode, code, "exit code of %r (%s)" % (words, done.stderr))
        return done.stdout if code == 0 else done.stderr
    expect(run("add", "a", "hook", '{"x":1}', "--every", "1h", "--overlap", "queue", "--queue",
               "q").startswith("added schedule a, next at "), "add")
    expect(run("add", "a", "hook", "{}", "--every", "1h").startswith("replaced schedule a"), "again")
    run("add", "b", "hook", "--cron", "30 4 * * *", "--zone", "Europe/Berlin", "--jitter", "30s",
        "--until", "2100-01-01T00:00Z", "--stop-after", "0", "--timeout", "1m", "--expires", "2h")
    listing = run("list")
    expect("every 1 h" in listing and "30 4 * * * Europe/Berlin" in listing, listing)
    shown = run("show", "b")
    for part in ("schedule b  active", "30 4 * * * Europe/Berlin", "jitter       30 s", "next "):
        expect(part in shown, "%r is not in %s" % (part, shown))
    saved = run("next", "b", "--count", "7").splitlines()
    equal(len(saved), 7, "lines of next")
    tried = run("next", "--cron", "30 4 * * *", "--zone", "Europe/Berlin", "--count", "7")
    equal([line.split("  ")[0] for line in tried.splitlines()],
          [line.split("  ")[0] for line in saved], "the same without a schedule")
    equal(json.loads(run("next", "--every", "1h", "--first", "2100-01-01T00:00Z", "--until",
                         "2100-01-01T01:30Z", "--json")),
          {"next": [4102444800000, 4102448400000]}, "JSON")
    at_a = run("next", "a", "--count", "1").split("  ")[0]
    expect(run("next", "a", "--every", "1h", "--count", "1").startswith(at_a), "times it has")
    expect("day of week" in run("next", "--cron", "* * * * X", code=2), "what is wrong")
    for words in ((), ("--count", "3")):
        expect("NAME, --cron or --every" in run("next", *words, code=2), "nothing to tell of")
    expect("--cron" in run("next", "a", "--zone", "UTC", code=2), "a zone of nothing")
    equal(run("run", "b"), "added job 1\n")
    equal(run("pause", "a"), "paused schedule a\n")
    expect("paused" in run("show", "a"), "it is not paused")
    equal(run("resume", "a"), "resumed schedule a\n")
    equal(run("remove", "a"), "removed schedule a\n")
    expect("no schedule 'a'" in run("show", "a", code=4), "removed")
    expect("no day of any year" in run("add", "c", "h", "--cron", "0 0 31 4 *", code=2), "cron")
    expect("--every" in run("add", "c", "h", "--every", "often", code=2), "duration")


if __name__ == "__main__":
    main()
