#!/usr/bin/python3
# weir-test: timeout=180 tsan
"""The configuration read again while weir works: what changes, what stays, what is refused, and
settings that are changed by hand and written down as configuration.

    tests/integration/reload.py [word...]
"""
import json
import os
import re
import signal
import sys
import threading

HERE = os.path.dirname(os.path.abspath(__file__))
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(HERE, "..", "fault"))

from harness import (  # noqa: E402
    Server, Watch, WeirError, check_error, check_problem, claim, equal, expect, main, mapping,
    pack, test, text, until, weir)

TARGET = """
target "%s" {
        kind = "command"
        command = {"cat", "%s"}
        interval = "100ms"
        dwell = "%s"
        metric "load" { elevated = {5, 3} critical = {%s} }
}
"""


def environment(folder):
    """The thread sanitizer does not see how pidfd_open() makes a descriptor and how libuv closes one:
    to it, a probe's pidfd is the connection that had the number before."""
    path = os.path.join(folder, "suppressions")
    with open(path, "w") as f:
        f.write("race:src/probe/command.c\n")
    options = os.environ.get("TSAN_OPTIONS", "")
    return {"TSAN_OPTIONS": "%s:suppressions=%s" % (options, path)}


class Bench:
    """A server with targets whose values are files, and a configuration to write anew."""

    def __init__(self, folder, *names, throttle='mode = "enforce"', values=None):
        self.folder, self.values = folder, dict(values or {})
        self.path = os.path.join(folder, "weir.conf")
        for name in names:
            self.turn(name, self.values.get(name, 1))
        self.write(*names, throttle=throttle)
        self.server = Server(folder, "-c", self.path, env=environment(folder))
        self.client = self.server.client()
        for name in names:
            self.until_value(name, self.values.get(name, 1))

    def dial(self, name):
        return os.path.join(self.folder, "dial." + name)

    def turn(self, name, value):
        with open(self.dial(name) + ".new", "w") as f:
            f.write("%s\n" % value)
        os.rename(self.dial(name) + ".new", self.dial(name))

    def write(self, *names, throttle='mode = "enforce"', dwell="0s", critical="15, 10", more=""):
        body = "throttle { %s }\n" % throttle
        body += "".join(TARGET % (n, self.dial(n), dwell, critical) for n in names)
        self.write_text(body + more)

    def write_text(self, body):
        with open(self.path, "w") as f:
            f.write(body)

    def status(self):
        with self.server.web() as w:
            return w.good("GET", "/v1/throttle")

    def target(self, name):
        return {t["name"]: t for t in self.status()["targets"]}.get(name)

    def until_value(self, name, value):
        until(lambda: self.target(name)["metrics"][0]["value"] == str(value),
              what="%s to be %s" % (name, value))

    def until_level(self, name, level):
        return until(lambda: (t := self.target(name))["level"] == level and t,
                     what="%s to be %s" % (name, level))

    def reload(self):
        return {k: [text(x) for x in v] for k, v in mapping(self.client("CONFIGRELOAD")).items()}

    def transitions(self):
        events = mapping(self.client("THROTTLEHISTORY", "COUNT", "500"))["events"]
        return [text(mapping(e)["message"]) for e in events
                if text(mapping(e)["event"]) == "load_level_transition"]

    def threads(self):
        return len(os.listdir("/proc/%d/task" % self.server.process.pid))

    def stop(self):
        self.client.close()
        equal(self.server.stop(10), 0, "exit code")


def cli(bench, *words):
    return weir("config", *words, "--url", "weir://%s:%d" % bench.server.resp)


@test("targets and thresholds change, and those that stay the same keep level and time")
def changes(folder):
    b = Bench(folder, "a", "b", values={"a": 9})
    was = b.until_level("a", "elevated")
    before = b.transitions()
    b.turn("c", 20)
    b.write("c", "a", critical="30, 20", dwell="1m")
    equal(b.reload(), {"changed": [
        'target order: {"a", "b"} -> {"c", "a"}',
        'target.a.dwell: "0s" -> "1m"',
        "target.a.metric.load.critical: {15, 10} -> {30, 20}",
        "target.b: removed", "target.c: added"], "needs_restart": []}, "answer")
    now = b.target("a")
    equal(now["level"], "elevated", "level of a")
    expect(now["since_ms"] >= was["since_ms"], "a began anew")
    equal(b.target("b"), None, "target b")
    equal([t["name"] for t in b.status()["targets"]], ["c", "a"], "order of targets")
    b.until_level("c", "elevated")  # its own threshold, not that of before
    equal([t for t in b.transitions() if t.startswith("a:")],
          [t for t in before if t.startswith("a:")], "transitions of a")
    equal(b.reload(), {"changed": [], "needs_restart": []}, "second answer")
    b.turn("a", 31)
    b.until_level("a", "critical")
    b.stop()


@test("an error names file and line, and everything stays as it was")
def bad_file(folder):
    b = Bench(folder, "a", values={"a": 9})
    b.until_level("a", "elevated")
    with b.server.web() as w:
        shown = w.good("GET", "/v1/config")
    b.write("a", critical="15, 20")
    wrong = "%s:8: target \"a\", metric \"load\": critical" % b.path
    b.client.refused("CONFIGRELOAD", name="BADARG", mentions=[wrong])
    found = cli(b, "check", b.path)
    equal(found.returncode, 2, "exit code of check")
    expect(wrong in found.stderr, found.stderr)
    found = cli(b, "reload")
    expect(found.returncode == 2 and wrong in found.stderr, found.stderr)
    b.server.process.send_signal(signal.SIGHUP)
    until(lambda: b.server.log().count("the old one holds") == 3, what="three refusals in the log")
    for broken in ('data = "', "throttle {", "/* a", 'target "a" { kind = "host" metric "psi_io" {', "throttle { mode = 'x", "nosuch = 1", "}"):
        b.write_text(broken)
        b.client.refused("CONFIGRELOAD", name="BADARG", mentions=[b.path])
    os.unlink(b.path)
    b.client.refused("CONFIGRELOAD", name="IO")
    equal(b.target("a")["level"], "elevated", "level")
    with b.server.web() as w:
        equal(w.good("GET", "/v1/config"), shown, "configuration")
    b.write("a", critical="16, 10")  # a good one after all the broken ones
    equal(b.reload()["changed"], ["target.a.metric.load.critical: {15, 10} -> {16, 10}"])
    b.turn("a", 1)
    b.until_value("a", 1)
    b.stop()


@test("targets that change places are told, and checks that name none ask the one that is first now")
def places(folder):
    b = Bench(folder, "a", "b", values={"b": 20})
    b.until_level("b", "critical")

    def asked():
        answer = b.client("CHECK", "etl")
        return text(answer[0]), text(answer[-1])

    equal(asked(), ("granted", "a"), "answer before")
    b.write("b", "a")
    told = ['target order: {"a", "b"} -> {"b", "a"}']
    equal(cli(b, "diff").stdout.splitlines(), told, "diff")
    equal(b.reload(), {"changed": told, "needs_restart": []}, "reload")
    equal(asked(), ("refused", "b"), "answer after")
    equal(b.target("b")["level"], "critical", "level of b")
    equal(b.target("a")["level"], "normal", "level of a")
    b.write("a", "b")
    b.server.process.send_signal(signal.SIGHUP)
    until(lambda: asked() == ("granted", "a"), what="a to be first again")
    expect('target order: {\\"b\\", \\"a\\"}' in b.server.log(), b.server.log())
    b.stop()


@test("SIGHUP twice reads it twice, and twice at once does no harm")
def hup(folder):
    b = Bench(folder, "a")
    for mode in ("observe", "off"):
        b.write("a", throttle='mode = "%s"' % mode)
        b.server.process.send_signal(signal.SIGHUP)
        until(lambda m=mode: b.status()["mode"] == m, what="mode " + mode)
    b.write("a", "b" if b.turn("b", 1) is None else "", throttle='mode = "enforce"')
    for _ in range(5):
        b.server.process.send_signal(signal.SIGHUP)
    until(lambda: b.status()["mode"] == "enforce", what="mode enforce")
    b.until_value("b", 1)
    b.stop()


@test("what needs a restart is named and left, and a second reading says it again")
def restart(folder):
    b = Bench(folder, "a")
    b.write("a", more='history_keep_done = "1d"\ncheck_without_token = true\n'
                      'queue "q" { history = "none" }\nlog_level = "debug"\n')
    for n in (0, 1):
        answer = b.reload()
        equal(answer["needs_restart"], ["check_without_token", "history_keep_done"], "restart")
        equal(len(answer["changed"]), 0 if n else 2, "changes")
    found = cli(b, "diff")
    expect("needs a restart: history_keep_done" in found.stderr, found.stderr)
    expect('history_keep_done: "31d" -> "1d"  (needs a restart)' in cli(b, "diff", b.path).stdout,
           "the file by its name")
    expect("needs a restart" in b.server.log(), "nothing in the log")
    with b.server.web() as w:
        expect("history_keep_done" not in w.good("GET", "/v1/config")["text"],
               "shown though it does not hold")
    # The history policy of a queue holds at once.
    b.client("ENQUEUE", "x", "{}", "QUEUE", "q")
    grant, = claim(b.client, "q")
    b.client("COMPLETE", str(grant.id), grant.token)
    until(lambda: gone(b.client, grant.id), what="the job to be gone")
    b.stop()


def gone(client, job_id):
    try:
        client("JOB", str(job_id))
        return False
    except WeirError:
        return True


@test("under load a reading holds up nobody, and no probe thread is left over")
def under_load(folder):
    b = Bench(folder, "a", "b", "c")
    threads = b.threads()
    done = threading.Event()
    longest, jobs, faults = [0.0], [0], []

    def work():
        try:
            with b.server.client() as c:
                while not done.is_set():
                    watch = Watch()
                    c("ENQUEUE", "mail", "{}", "TIER", "high")  # runs at `unknown`, too
                    grant = claim(c)
                    if grant:
                        c("COMPLETE", str(grant[0].id), grant[0].token)
                        jobs[0] += 1
                    if watch.is_over(2.0):
                        longest[0] = max(longest[0], watch.wall)
        except Exception as e:  # the main thread tells
            faults.append(e)

    workers = [threading.Thread(target=work) for _ in range(3)]
    for w in workers:
        w.start()
    hanging = TARGET.replace('"cat", "%s"', '"sh", "-c", "trap \'\' TERM; sleep 5 # %s"')
    n = -1
    while n < 20 or (jobs[0] < 100 and not faults):
        n += 1
        names = [("a", "b"), ("b", "a", "c"), ("c",), ("a", "c", "b")][n % 4]
        b.write(*names, dwell="%ds" % n, more=hanging % ("slow", n, "1s", "15, 10"))
        expect(b.reload()["changed"], "nothing changed")
    b.write("a", "b", "c")
    b.reload()
    done.set()
    for w in workers:
        w.join()
    equal(faults, [], "what went wrong")
    expect(jobs[0] > 50, "only %d jobs ran" % jobs[0])
    equal(longest[0], 0.0, "somebody waited for s")
    until(lambda: b.threads() <= threads, seconds=15, what="the threads of old probes to end")
    b.until_value("a", 1)
    b.stop()


@test("asks that wait go on waiting, and those of a target that is gone are told")
def parked_asks(folder):
    b = Bench(folder, "a", "b", values={"a": 9, "b": 9})
    b.until_level("b", "elevated")
    answers = {}

    def ask(name):
        with b.server.client(seconds=30) as c:
            answers[name] = c.ask("CHECK", "etl:" + name, "TARGET", name, "WAIT", "25000")

    asks = [threading.Thread(target=ask, args=(n,)) for n in ("a", "b")]
    for a in asks:
        a.start()
    until(lambda: b.status()["checks"]["waiting"] == 2, what="two asks that wait")
    b.write("b")
    b.reload()
    asks[0].join()
    expect("target 'a'" in str(answers["a"]), str(answers["a"]))
    equal(b.status()["checks"]["waiting"], 1, "asks that wait")
    b.turn("b", 1)
    asks[1].join()
    expect("granted" in str(answers["b"]), str(answers["b"]))
    b.stop()


@test("what was set by hand comes out as configuration that sets the same")
def settings_text(folder):
    b = Bench(folder, "shop", throttle='mode = "observe" ramp_cycles = 4 '
                                       'registry = {"x_*=high"} queue_depth = {90, 50, 500, 250}')
    sets = {
        "throttle.mode": "enforce", "check.mode": "observe", "throttle.enabled": "false",
        "locks.enabled": "false",
        "throttle.delay.critical.high": "7m", "throttle.cap.elevated.claim_size": "9",
        "throttle.max_deferral": "3h", "throttle.deferrals_per_hour": "17",
        "throttle.expiry_margin": "30s", "throttle.expiry.deferrable": "expire",
        "target.shop.dwell": "45s", "target.shop.load.elevated": "6.25,2",
        "target.shop.load.critical": "16,11", "target.shop.load.check": "4.5",
        "target.queues.queue_depth.elevated": "95,40",
    }
    with b.server.web() as w:
        equal(w.good("GET", "/v1/settings-text")["text"], "", "text before")
        for name, value in sets.items():
            w.good("POST", "/v1/settings/" + name, {"value": value})
        w.good("POST", "/v1/registry/erp_*", {"tier": "deferrable"})
        exported = w.good("GET", "/v1/settings-text")["text"]
        live = {s["name"]: s["value"] for s in w.good("GET", "/v1/settings")["settings"]}
        bad = w.ask("POST", "/v1/settings/target.shop.load.critical", {"value": "1,1"})
        expect(bad.status == 400 and "below elevated" in bad.json["detail"], repr(bad))
    for name, value in sets.items():
        equal(live[name], value, name)
    path = os.path.join(folder, "exported.conf")
    with open(path, "w") as f:
        f.write(exported)
    found = cli(b, "check", path)
    equal((found.returncode, found.stderr), (0, ""), "weir config check")
    b.stop()
    os.mkdir(os.path.join(folder, "second"))
    second = Server(os.path.join(folder, "second"), "-c", path, env=environment(folder))
    with second.web() as w:
        rows = w.good("GET", "/v1/settings")["settings"]
        equal({s["name"]: s["value"] for s in rows}, live, "settings of the second")
        equal([s["name"] for s in rows if s["is_changed"]], [], "changed ones of the second")
        equal(w.good("GET", "/v1/tiers/erp_export")["tier"], "deferrable", "tier")
        expect("ramp_cycles = 4" in w.good("GET", "/v1/config")["text"], "ramp_cycles is lost")
    equal(second.stop(), 0, "exit code")


@test("what was set by hand holds over a reload and a restart, on top of the file")
def settings_stay(folder):
    b = Bench(folder, "a")
    b.client("SETTINGSET", "target.a.load.elevated", "8,7")
    b.write("a", critical="20, 10")
    b.reload()

    def metric():
        return b.target("a")["metrics"][0]

    equal((metric()["elevated"], metric()["critical"]), ("8", "20"), "thresholds")
    b.client.close()
    b.server.kill()
    b.server = Server(folder, "-c", b.path, env=environment(folder))
    b.client = b.server.client()
    equal((metric()["elevated"], metric()["critical"]), ("8", "20"), "thresholds after a restart")
    b.client("SETTINGUNSET", "target.a.load.elevated")
    equal(metric()["elevated"], "5", "threshold of the file")
    b.stop()


@test("a reload names what changed of WordPress sites, and a wrong one changes nothing")
def sites(folder):
    b = Bench(folder, "a")
    site = 'wordpress "shop" { port = 1 database = "w" target = "a" mode = "off" %s }\n'
    b.write("a", more=site % "")
    equal(b.reload(), {"changed": ["wordpress.shop: added"], "needs_restart": []}, "added")
    b.write("a", more=site % 'prefix = "wp_2_" repair_lost = "enforce"')
    equal(b.reload(), {"changed": ['wordpress.shop.prefix: "wp_" -> "wp_2_"',
                                   'wordpress.shop.repair_lost: "observe" -> "enforce"'],
                       "needs_restart": []}, "changed")
    b.write("a", more=site % 'retention = "long"')
    b.client.refused("CONFIGRELOAD", name="BADARG", mentions=['wordpress "shop": retention'])
    expect('repair_lost = "enforce"' in cli(b, "show").stdout, "the old one does not hold")
    b.write("a")
    equal(b.reload(), {"changed": ["wordpress.shop: removed"], "needs_restart": []}, "removed")
    b.stop()


@test("locks are switched by the file, those who wait are told, and what was set comes first")
def locks(folder):
    b = Bench(folder)
    off, said = "locks { enabled = false }\n", "locks.enabled"
    held = text(b.client("LOCK", "a", 60000)[0])
    with b.server.client() as waiting:
        waiting.send(pack("LOCK", "a", 60000, "WAIT", 60000))
        until(lambda: mapping(b.client("LOCKED", "a"))["waiting"] == 1, what="one that waits")
        b.write(more=off)
        equal(cli(b, "diff").stdout, "locks.enabled: true -> false\n", "diff")
        equal(b.reload(), {"changed": ["locks.enabled: true -> false"], "needs_restart": []})
        check_error(waiting.read(), "DISABLED", said, "the one that waited")
    b.client.refused("LOCK", "b", 1000, name="DISABLED", mentions=[said])
    expect(b.client("RENEW", "a", held, 60000), "a renewal")
    expect(off.split()[2] in cli(b, "show").stdout, "config show")
    with b.server.web() as w:
        now = w.good("GET", "/v1/now")
        equal((now["locks_enabled"], now["throttle_enabled"]), (False, True), "now")
        check_problem(w.ask("POST", "/v1/locks/b", {"ttl": 1000}), 503, "DISABLED", said, "HTTP")
        equal(w.good("GET", "/v1/settings-text")["text"], "", "nothing was set by hand")
        w.good("POST", "/v1/settings/locks.enabled", {"value": "on"})
        equal(w.good("GET", "/v1/settings-text")["text"],
              "locks {\n        enabled = true\n}\n", "what was set")
        equal(w.good("POST", "/v1/locks/b", {"ttl": 1000})["acquired"], True, "acquired")
    b.client.close()
    b.server.kill()
    b.server = Server(folder, "-c", b.path, env=environment(folder))
    b.client = b.server.client()
    expect(b.client("LOCK", "c", 1000), "a lock after a restart: what was set is lost")
    b.client("SETTINGUNSET", "locks.enabled")
    b.client.refused("LOCK", "d", 1000, name="DISABLED", mentions=[said])
    b.write()
    b.reload()
    expect(b.client("LOCK", "d", 1000), "a lock when the file says nothing of them")
    equal(b.client("UNLOCK", "a", held), "OK", "the lock that was held all the time")
    b.stop()


@test("config show has no secret in it, and diff tells what a reload then does")
def show_and_diff(folder):
    secret = os.path.join(folder, "password")
    with open(secret, "w") as f:
        f.write("very-secret\n")
    os.chmod(secret, 0o600)
    b = Bench(folder, "a")  # the server and its clients are in another folder
    b.write("a", more='target "db" { kind = "mysql" host = "127.0.0.1" port = 1 user = "u" '
                      'password_file = "%s" interval = "1s" }' % os.path.basename(secret))
    told = [line for line in cli(b, "diff").stdout.splitlines()]
    equal(told, ["target.db: added"], "diff")
    equal(b.reload()["changed"], told, "reload")
    equal(cli(b, "diff").stdout, "", "diff afterwards")
    shown = cli(b, "show").stdout
    expect(secret in shown and "very-secret" not in shown, shown)
    expect("ramp_cycles" not in shown and "ramp_cycles = 3" in cli(b, "show", "--defaults").stdout,
           "defaults")
    again = os.path.join(folder, "shown.conf")
    with open(again, "w") as f:
        f.write(shown)
    equal(cli(b, "diff", again).stdout, "", "what is shown is another configuration")
    equal(cli(b, "diff").stderr, "nothing would change\n", "diff without a change")
    expect(re.search(r"from /.*weir\.conf", cli(b, "show").stderr), "no path")
    b.stop()


@test("what was given on the command line is no difference to the file, and is named")
def command_line(folder):
    b = Bench(folder, "a")
    said = "set on the command line, whatever the file says: data, resp, http\n"
    found = cli(b, "diff", b.path)
    equal((found.stdout, found.stderr), ("", said + "nothing would change\n"), "diff")
    b.write("a", throttle='mode = "observe"', more='resp = {"127.0.0.1:1"}\nlog_level = "debug"\n')
    found = cli(b, "diff", b.path)
    equal(found.stdout, 'log_level: "info" -> "debug"\nthrottle.mode: "enforce" -> "observe"\n')
    equal(found.stderr, said, "notes")
    told = json.loads(cli(b, "diff", b.path, "--json").stdout)
    equal([c["name"] for c in told["changes"]], ["log_level", "throttle.mode"], "changes")
    equal(told["command_line"], ["data", "resp", "http"], "of the command line")
    equal([text(x) for x in mapping(b.client("CONFIGSHOW"))["command_line"]],
          ["data", "resp", "http"], "told by the server")
    equal(b.reload(), {"changed": found.stdout.splitlines(), "needs_restart": []}, "reload")
    b.stop()


@test("without a file there is nothing to read, and it says so")
def no_file(folder):
    server = Server(folder)
    with server.client() as c:
        c.refused("CONFIGRELOAD", name="STATE", mentions=["-c"])
        equal(text(mapping(c("CONFIGSHOW"))["path"]), "", "path")
    server.process.send_signal(signal.SIGHUP)
    until(lambda: server.log().count("without a configuration file") == 2, what="the log")
    equal(server.stop(), 0, "exit code")


if __name__ == "__main__":
    main()
