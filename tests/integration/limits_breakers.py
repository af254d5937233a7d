#!/usr/bin/python3
# weir-test: timeout=300 outer=part
"""Rate limits and circuit breakers with a real server and many real clients at once, with kill -9
of the server and of probes in the middle.

Grants are judged twice: by what the clients saw, counting only what must have happened inside a
window whatever the delays were, and by the server's own log, which holds every take with its time.
"""
import json
import os
import signal
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "fault"))

from harness import (  # noqa: E402
    WEIR, Closed, Server, Watch, check_problem, claim, equal, expect, main, mapping, test, text,
    until, weir)


# ---------------------------------------------------------------- helpers


class Crowd:
    """Threads with a client each; an exception in any of them is raised by join()."""

    def __init__(self, n, body):
        self.errors = []
        self.start = threading.Barrier(n + 1)
        self.threads = [threading.Thread(target=self.run, args=(body, i), daemon=True)
                        for i in range(n)]
        for thread in self.threads:
            thread.start()
        self.start.wait(120)

    def run(self, body, i):
        try:
            self.start.wait(120)
            body(i)
        except Exception as error:  # told to whoever joins
            self.errors.append(error)

    def join(self, seconds=120):
        deadline = time.monotonic() + seconds
        for thread in self.threads:
            thread.join(max(0.1, deadline - time.monotonic()))
        expect(not any(t.is_alive() for t in self.threads), "a client did not end")
        if self.errors:
            raise self.errors[0]


def server_takes(server, name):
    """(steady ns, how many) of every take of a limit in the log, in its order."""
    takes, now = [], 0
    process = weir("log", "dump", server.data)
    equal(process.returncode, 0, "exit code of log dump: " + process.stderr)
    for line in process.stdout.splitlines():
        record = json.loads(line)
        if record["type"] == "clock":
            now = record["steady_ns"]
        elif record["type"] == "thing_note" and record.get("name") == name:
            takes.append(now)
    return takes


def most_in_a_window(times_ns, period_ms):
    """The largest number of takes in any [t, t + period)."""
    most = first = 0
    for last, at in enumerate(times_ns):
        while at - times_ns[first] >= period_ms * 1000000:
            first += 1
        most = max(most, last - first + 1)
    return most


def most_certain_in_a_window(grants, period_ms):
    """The largest number of grants that were asked for and answered within one period: they all
    happened in between, wherever exactly."""
    grants = sorted(grants)
    most = 0
    for begin, _ in grants:
        most = max(most, sum(1 for sent, got in grants
                             if sent >= begin and got - begin < period_ms / 1000))
    return most


def reconnect(server_of, seconds=120):
    """A client of whatever server runs now."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            return server_of().client()
        except (OSError, AttributeError, TypeError):
            expect(time.monotonic() < deadline, "no server to connect to")
            time.sleep(0.01)


# ---------------------------------------------------------------- limits


PAUSE_MS = 20  # of a client that was refused: 64 of them still ask thousands of times a second


@test("64 clients that take as fast as they can never get more than the amount in any window")
def _(folder):
    server = Server(folder)
    amount, period = 40, 400
    grants, refusals = [], []
    with server.client() as c:
        c("LIMIT", "api", amount, period)

    def take(i):
        with server.client() as c:
            while len(grants) < 4 * amount:
                sent = time.monotonic()
                granted, left, retry_ms = c("TAKE", "api")
                got = time.monotonic()
                if granted:
                    grants.append((sent, got))
                else:
                    refusals.append(retry_ms)
                    expect(left < amount and retry_ms > 0, "refused with nothing to wait for")
                    time.sleep(min(retry_ms, PAUSE_MS) / 1000)

    Crowd(64, take).join()
    expect(refusals, "nobody was refused: the limit was not reached")
    expect(most_certain_in_a_window(grants, period) <= amount, "over the limit, seen by clients")
    takes = server_takes(server, "api")
    equal(len(takes), len(grants), "takes in the log")
    most = most_in_a_window(takes, period)
    expect(most == amount, "%d in one window, wanted exactly %d" % (most, amount))


@test("64 clients that wait in line are all served, in time and never over the limit")
def _(folder):
    server = Server(folder)
    amount, period, each = 50, 300, 5
    grants = []
    with server.client() as c:
        c("LIMIT", "api", amount, period)

    def take(i):
        with server.client(seconds=60) as c:
            for _ in range(each):
                sent = time.monotonic()
                granted, _, _ = c("TAKE", "api", "WAIT", 60000)
                equal(granted, 1, "a take with a long wait")
                grants.append((sent, time.monotonic()))

    # 320 at 50 per 300 ms: six periods and a bit; late by quanta and scheduling only.
    watch = Watch()
    Crowd(64, take).join()
    watch.within(15)
    equal(len(grants), 64 * each)
    equal(most_in_a_window(server_takes(server, "api"), period), amount, "most in a window")


def take_and_kill(folder, kills):
    amount, period = 30, 500
    box = {"server": Server(folder)}
    told = []
    stop = threading.Event()
    with box["server"].client() as c:
        c("LIMIT", "api", amount, period)

    def take(i):
        c = None
        while not stop.is_set():
            try:
                c = c or reconnect(lambda: box["server"])
                granted, _, retry_ms = c("TAKE", "api", "COST", 1)
                if granted:
                    told.append(i)
                else:
                    stop.wait(min(retry_ms, PAUSE_MS) / 1000)
            except (Closed, OSError):
                c = None
        if c:
            c.close()

    crowd = Crowd(64, take)
    for _ in range(kills):
        before = len(told)
        until(lambda: len(told) >= before + amount + 5, what="more grants")
        box["server"].kill()
        box["server"] = Server(folder)
    before = len(told)
    until(lambda: len(told) >= before + amount, what="grants after the last restart")
    stop.set()
    crowd.join()
    takes = server_takes(box["server"], "api")
    expect(len(takes) >= len(told), "%d told, %d in the log" % (len(told), len(takes)))
    expect(len(takes) - len(told) <= 64 * kills, "more takes in the log than could be in flight")
    most = most_in_a_window(takes, period)
    expect(most <= amount, "%d in one window" % most)
    with box["server"].client() as c:
        usage = mapping(c("USAGE", "api"))
        expect(usage["used"] <= amount, "usage")


@test("kill -9 of the server in the middle loses no take and lets nobody over the limit")
def _(folder):
    take_and_kill(folder, 1)


@test("kill -9 again and again loses no take and lets nobody over the limit", outer=True)
def _(folder):
    take_and_kill(folder, 4)


@test("a limit made by a take over HTTP is forgotten when it is idle")
def _(folder):
    server = Server(folder)
    with server.web() as web, server.client() as c:
        answer = web.ask("POST", "/v1/limits/ip:10.0.0.1/take", {"amount": 2, "period": 200})
        equal(answer.json, {"granted": 1, "left": 1, "retry_ms": 0})
        equal(web.ask("GET", "/v1/limits/ip:10.0.0.1").json["passing"], True)
        equal(len(c("LIMITS")), 1)
        until(lambda: not c("LIMITS"), what="forgetting")
        check_problem(web.ask("POST", "/v1/limits/ip:10.0.0.1/take", {}), 404, "NOTFOUND",
                      "AMOUNT", "a take from nothing")


@test("workers of a limited queue start so many jobs per window and get them all in the end")
def _(folder):
    server = Server(folder)
    amount, period, n = 20, 250, 130
    starts = []
    with server.client() as c:
        c("LIMIT", "queue:mail", amount, period)
        c("ENQUEUEMANY", "QUEUE", "mail", "JOBS", *["h", "x"] * n)

    def work(i):
        with server.client(seconds=60) as c:
            while len(starts) < n:
                for got in claim(c, "mail", count=3, wait=1000):
                    starts.append(got.id)
                    c("COMPLETE", got.id, got.token)

    Crowd(16, work).join()
    equal(len(set(starts)), n, "jobs started")
    takes = server_takes(server, "queue:mail")
    equal(len(takes), n, "takes in the log")
    most = most_in_a_window(takes, period)
    expect(most <= amount, "%d starts in one window" % most)


# ---------------------------------------------------------------- breakers


class Asks:
    """What 256 clients saw of one breaker: every verdict with the time it was certain."""

    def __init__(self):
        self.lock = threading.Lock()
        self.probes = []  # (verdict received, report sent)
        self.passes = []  # (ask sent, verdict received)
        self.refused = 0

    def check(self):
        """A probe held from `got` to `sent` must have been alone all that time."""
        probes = sorted(self.probes)
        for (_, sent), (got, _) in zip(probes, probes[1:]):
            expect(got >= sent, "two probes at once")
        inside = 0
        for begin, end in probes:
            inside += sum(1 for ask, answer in self.passes if ask > begin and answer < end)
        equal(inside, 0, "clients that passed while a probe was out")


PROBE_MS = 1500


class Line:
    """A connection to whatever server runs now."""

    def __init__(self, box):
        self.box, self.client = box, None

    def __call__(self, *words):
        self.client = self.client or reconnect(lambda: self.box["server"])
        try:
            return self.client(*words)
        except (Closed, OSError):
            self.close()
            raise Closed("the server is gone") from None

    def close(self):
        if self.client:
            self.client.close()
        self.client = None

    def insist(self, *words):
        while True:
            try:
                return self(*words)
            except Closed:
                pass


def use_breaker(box, asks, is_broken, stop):
    """One client of 256: asks, works, reports, until it is told to stop."""
    line = Line(box)
    while not stop.is_set():
        sent = time.monotonic()
        try:
            verdict, token, retry_ms = line("ASK", "db")
        except Closed:
            continue  # if it was the probe, nobody knows, and it dies at its deadline
        got = time.monotonic()
        if verdict == b"refused":
            asks.refused += 1
            stop.wait(min(retry_ms, PAUSE_MS) / 1000)
            continue
        outcome = "fail" if is_broken.is_set() else "ok"
        if verdict == b"pass":
            with asks.lock:
                asks.passes.append((sent, got))
            line.insist("REPORT", "db", token, outcome)
            continue
        stop.wait(0.01)  # the work of the probe
        # Alone until it reports, or until it may be given up, whatever comes first.
        held = min(time.monotonic(), sent + PROBE_MS / 1000)
        line.insist("REPORT", "db", token, outcome)
        with asks.lock:
            asks.probes.append((got, held))
    line.close()


def crowd_at_breaker(folder, kills):
    box = {"server": Server(folder)}
    asks, is_broken, stop = Asks(), threading.Event(), threading.Event()
    is_broken.set()
    with box["server"].client() as c:
        c("BREAKER", "db", "THRESHOLD", 3, "COOLDOWN", 60, "COOLDOWNMAX", 60, "PROBE", PROBE_MS)
    crowd = Crowd(256, lambda i: use_breaker(box, asks, is_broken, stop))
    for _ in range(kills):
        n = len(asks.probes)
        until(lambda: len(asks.probes) >= n + 3, 60, "three probes")
        box["server"].kill()
        box["server"] = Server(folder)
    n = len(asks.probes)
    until(lambda: len(asks.probes) >= n + 8, 60, "eight probes")
    is_broken.clear()
    n = len(asks.probes)
    until(lambda: len(asks.probes) > n, what="the probe that closes it")
    passes = len(asks.passes)
    until(lambda: len(asks.passes) >= passes + 500, 60, "clients that pass again")
    stop.set()
    crowd.join()
    asks.check()
    expect(asks.refused > 0, "nobody was refused")
    with box["server"].client() as c:
        equal(text(mapping(c("BREAKERSTATE", "db"))["state"]), "closed")
    return box["server"].log()


@test("of 256 clients that ask at once exactly one is the probe, again and again")
def _(folder):
    log = crowd_at_breaker(folder, 0)
    for why in ("too many failures in a row", "the cool-down is over", "the probe failed"):
        expect(why in log, "the log does not tell of '%s'" % why)


@test("the same while the server is killed with -9")
def _(folder):
    crowd_at_breaker(folder, 1)


@test("the same while the server is killed with -9 again and again", outer=True)
def _(folder):
    crowd_at_breaker(folder, 4)


def open_breaker(c, name="db", cooldown=200, probe=800):
    c("BREAKER", name, "THRESHOLD", 1, "COOLDOWN", cooldown, "COOLDOWNMAX", cooldown, "PROBE",
      probe)
    _, token, _ = c("ASK", name)
    equal(c("REPORT", name, token, "fail"), b"open")


def state_of(c, name="db"):
    return text(mapping(c("BREAKERSTATE", name))["state"])


@test("a probe that is killed with -9 dies at its deadline and another takes its place")
def _(folder):
    server = Server(folder)
    url = "%s:%d" % server.resp
    with server.client() as c:
        open_breaker(c, probe=3000)
        until(lambda: state_of(c) == "half-open", what="half-open")
        watch = Watch()
        probe = subprocess.Popen([WEIR, "--url", url, "breaker", "run", "db", "--", "sleep", "60"],
                                 start_new_session=True)
        until(lambda: mapping(c("BREAKERSTATE", "db"))["probing"], what="the probe")
        equal(c("ASK", "db")[0], b"refused")
        os.killpg(probe.pid, signal.SIGKILL)
        probe.wait()
        until(lambda: not mapping(c("BREAKERSTATE", "db"))["probing"],
              what="the death of the probe")
        expect(watch.wall >= 3, "the probe died before its deadline")
        verdict = until(lambda: c("ASK", "db")[0] == b"probe", what="the next probe")
        expect(verdict, "the next probe")


@test("a restart in the middle of a probe keeps it: nobody else probes, and its report counts")
def _(folder):
    server = Server(folder)
    with server.client() as c:
        open_breaker(c, probe=600000)
        until(lambda: state_of(c) == "half-open", what="half-open")
        verdict, token, _ = c("ASK", "db")
        equal(verdict, b"probe")
    server.kill()
    server = Server(folder)
    with server.client() as c:
        equal(c("ASK", "db")[0], b"refused")
        equal(c("REPORT", "db", token, "ok"), b"closed")
        equal(c("REPORT", "db", token, "fail"), b"closed")
        equal(mapping(c("BREAKERSTATE", "db"))["failures"], 0)
        expect("from=half-open to=closed why=\"the probe succeeded\"" in server.log(), "the log")
    server.kill()
    server = Server(folder)
    with server.client() as c:
        equal(state_of(c), "closed")


@test("jobs of a target that fails wait, one of them probes, and then all run")
def _(folder):
    server = Server(folder)
    n, done, probes = 60, [], []
    with server.client() as c:
        c("BREAKER", "smtp", "THRESHOLD", 3, "COOLDOWN", 100, "COOLDOWNMAX", 100)
        c("ENQUEUEMANY", "QUEUE", "mail", "TARGET", "smtp", "ATTEMPTS", 50,
          "BACKOFF", "none", "JOBS", *["h", "x"] * n)
        is_broken = threading.Event()
        is_broken.set()

        def work(i):
            with server.client(seconds=60) as w:
                while len(done) < n:
                    for got in claim(w, "mail", wait=200):
                        if is_broken.is_set():
                            state = mapping(w("BREAKERSTATE", "smtp"))
                            if state["probing"]:
                                probes.append(got.id)
                            w("FAIL", got.id, got.token, "refused")
                        else:
                            w("COMPLETE", got.id, got.token)
                            done.append(got.id)

        crowd = Crowd(16, work)
        until(lambda: len(probes) >= 4, what="four probes")
        is_broken.clear()
        crowd.join()
        equal(len(set(done)), n, "jobs done")
        equal(state_of(c, "smtp"), "closed")


# ---------------------------------------------------------------- HTTP and the command line


@test("every command has its address, and bad input over HTTP is refused with what is allowed")
def _(folder):
    server = Server(folder)
    with server.web() as web:
        equal(web.ask("POST", "/v1/limits/api", {"amount": 5, "period": 60000, "kind": "tokens",
                                                 "burst": 2}).status, 200)
        equal(web.ask("POST", "/v1/limits/api/take", {"cost": 2}).json,
              {"granted": 1, "left": 0, "retry_ms": 0})
        answer = web.ask("POST", "/v1/limits/api/take", {"wait": 0}).json
        equal((answer["granted"], answer["left"]), (0, 0))
        usage = web.ask("GET", "/v1/limits/api").json
        equal((usage["kind"], usage["amount"], usage["burst"], usage["used"]),
              ("tokens", 5, 2, 2))
        equal(web.ask("POST", "/v1/limits/api/reset", {}).status, 200)
        equal([l["name"] for l in web.ask("GET", "/v1/limits").json["limits"]], ["api"])
        equal(web.ask("DELETE", "/v1/limits/api").status, 200)

        equal(web.ask("POST", "/v1/breakers/db", {"threshold": 1, "cooldown": 50,
                                                  "cooldownmax": 50}).status, 200)
        ask = web.ask("POST", "/v1/breakers/db/ask", {}).json
        equal(ask["verdict"], "pass")
        equal(web.ask("POST", "/v1/breakers/db/report",
                      {"token": ask["token"], "outcome": "fail"}).json, {"state": "open"})
        equal(web.ask("POST", "/v1/breakers/db/trip", {"reason": "works", "hold": True}).status,
              200)
        refused = web.ask("POST", "/v1/breakers/db/ask", {}).json
        equal(refused, {"verdict": "refused", "token": None, "retry_ms": -1})
        shown = web.ask("GET", "/v1/breakers/db").json
        equal((shown["state"], shown["held"], shown["reason"]), ("open", True, "works"))
        equal(web.ask("POST", "/v1/breakers/db/close", {}).status, 200)
        equal([b["state"] for b in web.ask("GET", "/v1/breakers").json["breakers"]], ["closed"])

        for path, body, status, name, mention in (
                ("/v1/limits/x", {"amount": 0, "period": 1}, 400, "BADARG", "amount"),
                ("/v1/limits/x", {"amount": "5", "period": 0}, 400, "BADARG", "must be"),
                ("/v1/limits/x", {"amount": 1.5, "period": 1}, 400, ("BADARG", "SYNTAX"), ""),
                ("/v1/limits/x", {"amount": 5}, 400, "BADARG", "period"),
                ("/v1/limits/x", {"amount": 5, "period": 1, "kind": "no"}, 400, "BADARG", "kind"),
                ("/v1/limits/x", {"amount": 5, "period": 1, "sauce": 1}, 400, "BADARG", "sauce"),
                ("/v1/limits/" + "x" * 256, {"amount": 5, "period": 1}, 413, "TOOBIG", "name"),
                ("/v1/limits/x/take", {"cost": 1}, 404, "NOTFOUND", "x"),
                ("/v1/limits/x/reset", {}, 404, "NOTFOUND", "x"),
                ("/v1/breakers/x", {"rate": 101}, 400, "BADARG", "rate"),
                ("/v1/breakers/x", {"handlers": "perhaps"}, 400, "BADARG", "handlers"),
                ("/v1/breakers/x", {"handlers": True}, 400, "BADARG", "queue:NAME"),
                ("/v1/breakers/db/report", {"token": "00" * 16, "outcome": "ok"}, 409, "NOTOWNER",
                 "token"),
                ("/v1/breakers/db/report", {"token": ask["token"], "outcome": "so"}, 400, "BADARG",
                 "outcome"),
                ("/v1/breakers/x/trip", {}, 404, "NOTFOUND", "x")):
            answer = web.ask("POST", path, body)
            equal(answer.status, status, "%s %s: %s" % (path, body, answer))
            expect(mention in answer.json["detail"], repr(answer))
            expect(answer.json["code"] in name, repr(answer))
        equal(len(web.ask("GET", "/v1/limits").json["limits"]), 0)
        equal(len(web.ask("GET", "/v1/breakers").json["breakers"]), 1)


def run(server, *words, code=0, **options):
    process = weir("--url", "%s:%d" % server.resp, *words, **options)
    equal(process.returncode, code, "exit code of %s (%s)" % (words, process.stderr))
    return process.stdout


@test("weir limit sets, takes, waits, shows, resets and removes")
def _(folder):
    server = Server(folder)
    run(server, "limit", "set", "api", "2", "1m")
    expect("2 per 1 min" in run(server, "limit", "list"), "list")
    expect("granted, 0 left" in run(server, "limit", "take", "api", "--cost", "2"), "take")
    run(server, "limit", "take", "api", code=6)
    equal(json.loads(run(server, "limit", "take", "api", "--json", code=6))["granted"], 0)
    expect("used     2" in run(server, "limit", "show", "api"), "show")
    equal(json.loads(run(server, "limit", "show", "api", "--json"))["left"], 0)
    run(server, "limit", "reset", "api")
    run(server, "limit", "take", "api")
    run(server, "limit", "remove", "api")
    run(server, "limit", "show", "api", code=4)
    run(server, "limit", "take", "api", code=4)
    run(server, "limit", "set", "api", "2", "60", code=2)
    run(server, "limit", "set", "api", "none", "1m", code=2)
    run(server, "limit", "take", "ip", "--amount", "1", "--per", "3s")
    watch = Watch()
    run(server, "limit", "take", "ip", "--wait", "60s")
    watch.within(30)


@test("weir breaker run passes codes on, reports them, and does not run behind an open breaker")
def _(folder):
    server = Server(folder)
    run(server, "breaker", "set", "db", "--threshold", "2", "--cooldown", "10m",
        "--cooldown-max", "10m")
    equal(run(server, "breaker", "run", "db", "--", "echo", "hello", "--there"), "hello --there\n")
    run(server, "breaker", "run", "db", "--", "sh", "-c", "exit 3", code=3)
    run(server, "breaker", "run", "db", "--", "sh", "-c", "kill -9 $$", code=137)
    path = os.path.join(folder, "ran")
    run(server, "breaker", "run", "db", "--", "touch", path, code=7)
    expect(not os.path.exists(path), "it ran behind an open breaker")
    expect("open" in run(server, "breaker", "list"), "list")
    with server.client() as c:
        c("CLOSEBREAKER", "db")
        open_breaker(c, probe=600000)
        until(lambda: state_of(c) == "half-open", what="half-open")
    run(server, "breaker", "run", "db", "--", "touch", path)
    equal(json.loads(run(server, "breaker", "show", "db", "--json"))["state"], "closed")
    run(server, "breaker", "run", "db", "--", "/no/such/program", code=127)
    run(server, "breaker", "trip", "db", "--hold", "--reason", "new disk")
    expect("new disk" in run(server, "breaker", "show", "db"), "show")
    run(server, "breaker", "run", "db", "--", "true", code=7)
    run(server, "breaker", "close", "db")
    run(server, "breaker", "run", "db", "--", "true")
    run(server, "breaker", "run", "db", code=2)
    run(server, "breaker", "remove", "db")
    run(server, "breaker", "show", "db", code=4)


main()
