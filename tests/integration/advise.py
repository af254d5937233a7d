#!/usr/bin/python3
# weir-test: timeout=120 bin=release norepeat
"""Proposed thresholds of the real program: from its own history file, as `weir throttle advise`
shows them, and applied by the commands it prints."""
import json
import os
import shlex
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "fault"))

from harness import Server, equal, expect, main, test, until, weir  # noqa: E402
from lib_rollups import teach  # noqa: E402

CONFIG = """
throttle { mode = "observe" }
target "shop's" {
        kind = "command" command = {"cat", "%s/load"}
        interval = "100ms"
        metric "threads_running" { elevated = {5, 3} critical = {15, 10} }
}
"""


def start(folder, load):
    with open(os.path.join(folder, "load"), "w") as f:
        f.write("%d\n" % load)
    server = Server(folder, config=CONFIG % folder)
    until(lambda: metric(advice(server))["present"]["elevated"], what="the target")
    with server.web() as w:
        until(lambda: w.good("GET", "/v1/throttle")["targets"][0]["metrics"][0]["value"], what="a value")
    return server


def learned(folder, load, days):
    """A weir that has seen this load for so many days."""
    server = start(folder, load)
    equal(server.stop(), 0, "exit code")
    teach(server.data, days)
    return start(folder, load)


def advice(server, query=""):
    with server.web() as w:
        return w.good("GET", "/v1/throttle/advice" + query)


def metric(answer):
    return answer["targets"][0]["metrics"][0]


def run(server, *words):
    return weir(*words, "--url", "redis://%s:%d" % server.resp)


@test("a week of history gives thresholds, and the printed commands apply them")
def _(folder):
    server = learned(folder, 40, 7)
    got = metric(advice(server, "?target=shop%27s"))
    equal(got["usual_most"], "40", "what is usual")
    equal(got["usual"], ["40"] * 24, "by hour of the day")
    equal(got["learned_hours"], 168, "hours")
    equal(got["proposed"]["elevated"], "60,45", "elevated")
    equal(got["proposed"]["critical"], "120,80", "critical")
    equal(got["proposed"]["last_day"],
          {"elevated_minutes": 0, "critical_minutes": 0, "entered": 0}, "the proposed ones")
    did = got["present"]["last_day"]
    expect(did["critical_minutes"] > 1400 and did["entered"] == 1, "the present ones: %r" % did)
    done = run(server, "throttle", "advise")
    equal(done.returncode, 0, done.stderr)
    told = json.loads(run(server, "throttle", "advise", "shop's", "--json").stdout)
    equal(metric(told)["proposed"], got["proposed"], "for programs")
    expect("\n  in weir.conf, target \"shop's\", metric \"threads_running\":  "
           "elevated = {60, 45} critical = {120, 80}\n" in done.stdout, done.stdout)
    commands = [line.split(None, 1)[1] for line in done.stdout.splitlines()
                if line.startswith("  weir ")]
    equal(len(commands), 2, "commands in %s" % done.stdout)
    for line in commands:
        done = run(server, *shlex.split(line))
        equal(done.returncode, 0, "%s: %s" % (line, done.stderr))
    done = run(server, "throttle", "advise")
    expect("the present thresholds are those that would be proposed" in done.stdout, done.stdout)
    expect("weir setting set" not in done.stdout, done.stdout)
    server.stop()


@test("auto thresholds are learned at the start, and say so")
def _(folder):
    auto = CONFIG.replace("elevated = {5, 3} critical = {15, 10}", 'elevated = "auto" critical = "auto"')
    server = start(folder, 40)
    equal(server.stop(), 0, "exit code")
    teach(server.data, 2)
    server = Server(folder, config=auto % folder)
    until(lambda: metric(advice(server))["thresholds_from"] == "learned from 48 h", what="learning")
    got = metric(advice(server))
    equal((got["present"]["elevated"], got["present"]["critical"]), ("60,45", "120,80"), "what holds")
    with server.web() as w:
        now = w.good("GET", "/v1/throttle")["targets"][0]["metrics"][0]
    equal((now["elevated"], now["critical"]), ("60", "120"), "what status says")
    shown = run(server, "config", "show").stdout
    expect('elevated = "auto"' in shown and 'critical = "auto"' in shown, shown)
    name = "target.shop's.threads_running.elevated"
    done = run(server, "setting", "set", name, "automatic")
    equal(done.returncode, 2, "exit code of a wrong value")
    expect("two numbers, enter and exit, as in 5,3, or auto" in done.stderr, done.stderr)
    equal(run(server, "setting", "set", name, "70,50").returncode, 0, "a pair")
    equal(metric(advice(server))["present"]["elevated"], "70,50", "a pair that was set")
    equal(run(server, "setting", "set", name, "auto").returncode, 0, "auto again")
    equal(metric(advice(server))["present"]["elevated"], "60,45", "auto again")
    server.stop()


@test("without a day of history it says so, and names the targets there are")
def _(folder):
    server = learned(folder, 2, 0)
    done = run(server, "throttle", "advise")
    equal(done.returncode, 0, done.stderr)
    expect("\n  nothing is proposed: too little was learned" in done.stdout, done.stdout)
    expect("at least 24 are needed" in done.stdout, done.stdout)
    done = run(server, "throttle", "advise", "stock")
    equal(done.returncode, 4, "exit code")
    expect("there is no target 'stock'; there are shop's" in done.stderr, done.stderr)
    server.stop()


@test("without a target it says that none is watched")
def _(folder):
    server = Server(folder)
    equal(run(server, "throttle", "advise").stdout, "no target is watched\n", "for people")
    equal(advice(server), {"targets": [], "problem": ""}, "for programs")
    server.stop()


if __name__ == "__main__":
    main()
