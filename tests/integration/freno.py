#!/usr/bin/python3
# weir-test: timeout=300
"""freno's HTTP contract, route by route: status, body, field order and methods as freno has them;
its known faults absent; and nothing changed by a request that was refused.

The metric comes from a file by way of a target of kind "command", so any value, error or silence
can be had without a database.  One test asks a real MariaDB under freno's own "mysql"."""
import json
import os
import socket
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from lib_contracts import (  # noqa: E402
    compact, get, is_left, minutes_left, one_line_of_json, rules, serve_targets, side_by_side,
    unchanged)
from lib_databases import PASSWORD, Maria, write_config  # noqa: E402
from harness import Server, equal, expect, main, mapping, short, test, text, until  # noqa: E402

# Prints the value, fails, or hangs, as the files beside it say.
SCRIPT = """#!/bin/sh
cd "$(dirname "$0")"
[ -e hang ] && exec sleep 60
cat value
"""

TARGET = """
target "%s" {
        kind = "command" command = {"%s/probe"}
        interval = "100ms" timeout = "30s" dwell = "1s"
        metric "lag" { threshold = 1 stale = "%s" elevated = {1, 0.5} critical = {100, 50} }
}
"""


class Store:
    """A target whose value is a file."""

    def __init__(self, folder, name="main1", stale="60s", value=0.430933):
        self.name, self.folder = name, os.path.join(folder, name)
        os.makedirs(self.folder)
        with open(self.path("probe"), "w") as f:
            f.write(SCRIPT)
        os.chmod(self.path("probe"), 0o755)
        self.write(value)
        self.config = TARGET % (name, self.folder, stale)

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, value):
        with open(self.path("value.new"), "w") as f:
            f.write("%s\n" % value)
        os.rename(self.path("value.new"), self.path("value"))

    def hang(self):
        with open(self.path("hang"), "w"):
            pass


def serve(folder, *stores, extra="", **options):
    server = serve_targets(folder, stores, extra, **options)
    if stores:
        settle(server, *stores)
    return server


def settle(server, *stores):
    """Every store shows the value that its file has."""
    def is_there():
        with server.web() as w:
            got = w.good("GET", "/aggregated-metrics")
        for s in stores:
            with open(s.path("value")) as f:
                if got.get("command/" + s.name) != "%f" % float(f.read()):
                    return False
        return True
    until(is_there, 20, "the values to arrive")


def told(server):
    """What a refused request must not change."""
    with server.web() as w, server.client() as c:
        if server.token:
            c("AUTH", server.token)
        return w.good("GET", "/throttled-apps"), w.good("GET", "/skipped-hosts"), rules(c)


def check_body(status, value, threshold, message):
    return compact({"StatusCode": status, "Value": value, "Threshold": threshold,
                    "Message": message})


def general(status, message):
    return compact({"StatusCode": status, "Message": message})


# --------------------------------------------------------------------------- every route

#   path                                            status  kind of body
ROUTES = [
    ("/check/me/command/main1", 200, dict),
    ("/check/me/command/nowhere", 404, dict),
    ("/check/me/mysql/main1", 404, dict),
    ("/check-if-exists/me/command/main1", 200, dict),
    ("/check-if-exists/me/command/nowhere", 200, dict),
    ("/check-read/me/command/main1/2.5", 200, dict),
    ("/check-read-if-exists/me/command/main1/2.5", 200, dict),
    ("/check-read-if-exists/me/command/nowhere/2.5", 200, dict),
    ("/check/me/command/main1?p=low", 200, dict),
    ("/aggregated-metrics", 200, dict), ("/aggregated-metrics?brief=true", 200, dict),
    ("/metrics-health", 200, dict),
    ("/throttle-app/a", 200, dict), ("/throttle-app/a/ratio/0.5", 200, dict),
    ("/throttle-app/a/ttl/5", 200, dict), ("/throttle-app/a/ttl/5/ratio/0.5", 200, dict),
    ("/throttle-app/a?store_name=main1", 200, dict),
    ("/unthrottle-app/a", 200, dict), ("/unthrottle-app/a?store_name=main1", 200, dict),
    ("/unthrottle-app/nobody", 200, dict),
    ("/throttled-apps", 200, dict), ("/recent-apps", 200, dict), ("/recent-apps/5", 200, dict),
    ("/skip-host/db1", 200, dict), ("/skip-host/db1/ttl/5", 200, dict),
    ("/recover-host/db1", 200, dict), ("/recover-host/nobody", 200, dict),
    ("/skipped-hosts", 200, dict),
    ("/lb-check", 200, dict), ("/_ping", 200, dict), ("/status", 200, dict),
    ("/leader-check", 200, str), ("/raft/leader", 200, str), ("/raft/state", 200, str),
    ("/consensus/leader", 200, str), ("/consensus/state", 200, str),
    ("/consensus/status", 200, dict), ("/hostname", 200, str), ("/help", 200, list),
    ("/config/memcache", 200, dict),
]


# freno names no type for these, and Go guesses one from the text.
PLAIN = ("/leader-check", "/hostname", "/raft/leader", "/raft/state", "/consensus/leader",
         "/consensus/state")


@test("every route takes GET and HEAD, answers one JSON value and a newline, and nothing else")
def every_route(folder):
    server = serve(folder, Store(folder))
    with server.web() as w:
        for path, status, kind in ROUTES:
            got = get(w, path, status)
            one_line_of_json(got, path, "text/plain; charset=utf-8" if path in PLAIN
                             else "application/json")
            expect(isinstance(got.json, kind), "%s: %s" % (path, short(got.body)))
            expect(b": " not in got.body.replace(b"error: ", b""), "spaces: %s" % short(got.body))
            head = w.ask("HEAD", path)
            is_get_only = path.startswith("/config")
            equal(head.status, 405 if is_get_only else status, "HEAD of " + path)
            for method in ("POST", "PUT", "DELETE", "PATCH"):
                other = w.ask(method, path)
                equal(other.status, 405, "%s %s" % (method, path))
                equal(other.header("allow"), "GET, OPTIONS" if is_get_only
                      else "GET, HEAD, OPTIONS", "Allow of " + path)
            options = w.ask("OPTIONS", path)
            equal(options.status, 204, "OPTIONS " + path)
    server.stop()


@test("a slash too many is answered with the way to the right address")
def slashes(folder):
    server = serve(folder, Store(folder))
    with server.web() as w:
        for path, to in (("/lb-check/", "/lb-check"),
                         ("/check/me/command/main1/?p=low", "/check/me/command/main1?p=low"),
                         ("/throttle-app/x/", "/throttle-app/x")):
            got = get(w, path, 301, "")
            equal(got.header("location"), to, "Location of " + path)
        before = told(server)
        for path in ("/check", "/check/", "/check/a", "/check/a/b", "/check/a/b/c/d", "/checks",
                     "/check/a/command//", "/throttle-app", "/throttle-app/a/ratio",
                     "/throttle-app/a/rat/1", "/skip-host/", "/config", "/raft", "/debug/vars"):
            get(w, path, 404)
        unchanged(told(server), before, "what unknown addresses left")
    server.stop()


@test("fixed answers are freno's, byte for byte")
def fixed(folder):
    server = serve(folder, Store(folder))
    with server.web() as w:
        for path in ("/lb-check", "/_ping", "/status"):
            get(w, path, 200, '{"StatusCode":200,"Message":"OK"}\n')
        get(w, "/leader-check", 200, '"HTTP 200"\n')
        get(w, "/raft/state", 200, '"Leader"\n')
        get(w, "/config/memcache", 200, '{"MemcacheServers":[],"MemcachePath":"freno"}\n')
        host = json.dumps(os.uname().nodename) + "\n"
        for path in ("/hostname", "/raft/leader", "/consensus/leader"):
            get(w, path, 200, host)
        status = w.good("GET", "/consensus/status")
        equal(list(status), ["ServiceID", "Healthy", "IsLeader", "Leader", "State", "Domain",
                             "ShareDomain", "ShareDomainServices", "ShareDomainServicesList",
                             "HealthyDomainServicesList"], "fields of /consensus/status")
        paths = w.good("GET", "/help")
        for want in ("/check/:app/:storeType/:storeName", "/throttle-app/:app/ttl/:ttlMinutes",
                     "/recent-apps/:lastMinutes", "/help"):
            expect(want in paths, paths)
        get(w, "/aggregated-metrics", 200, '{"command/main1":"0.430933"}\n')
        get(w, "/aggregated-metrics?brief=true", 200, '{"command/main1":"0.431"}\n')
        health = w.good("GET", "/metrics-health")["command/main1"]
        equal(list(health), ["LastHealthyAt", "SecondsSinceLastHealthy"], "fields")
        expect(health["LastHealthyAt"].endswith("Z"), health)
        until(lambda: w.good("GET", "/metrics-health")["command/main1"]["SecondsSinceLastHealthy"] < 3,
              what="a store that is healthy now")
    server.stop()


# --------------------------------------------------------------------------- checks


@test("a check compares the value with the threshold, strictly")
def values(folder):
    store = Store(folder)
    server = serve(folder, store)
    path = "/check/me/command/main1"
    with server.web() as w:
        for value, status in ((0, 200), (0.430933, 200), (1, 200), (1.000001, 429), (7.1, 429),
                              (123456, 429), (0.25, 200)):
            store.write(value)
            settle(server, store)
            get(w, path, status, check_body(status, value, 1,
                                            "Threshold exceeded" if status == 429 else ""))
    server.stop()


@test("a read check has a threshold of its own, if it is above 0, and refuses what is no number")
def read_checks(folder):
    store = Store(folder, value=5)
    server = serve(folder, store)
    read = "/check-read/me/command/main1/"
    with server.web() as w:
        for text, status, threshold in (("10", 200, 10), ("5", 200, 5), ("4.999", 429, 4.999),
                                        ("1e2", 200, 100), ("0", 429, 1), ("-3", 429, 1),
                                        ("+6.5", 200, 6.5)):
            get(w, read + text, status, check_body(status, 5, threshold,
                                                   "Threshold exceeded" if status == 429 else ""))
        for text in ("x", "1x", "%20", "1,5", "0x10", "--1", "1e", "9" * 1000):
            got = get(w, read + text, 400)
            equal(list(got.json), ["StatusCode", "Value", "Threshold", "Message"], "fields")
            expect("ParseFloat" in got.json["Message"], got.json)
        get(w, "/check-read/me/command/nowhere/5", 404)
        get(w, "/check-read-if-exists/me/command/nowhere/5", 200,
            check_body(200, 0, 0, "No such metric"))
    server.stop()


@test("what is not known is 500 with the reason, and 404 when it is merely old or missing")
def unknown(folder):
    good, mute, old = Store(folder), Store(folder, "mute"), Store(folder, "old", stale="500ms")
    mute.hang()
    server = serve(folder, good, old, extra=mute.config)
    with server.web() as w:
        get(w, "/check/me/command/mute", 500, check_body(500, 0, 1, "Metric not collected yet"))
        get(w, "/check-if-exists/me/command/mute", 500)
        equal(w.good("GET", "/aggregated-metrics")["command/mute"],
              "error: Metric not collected yet", "what is told of it")
        good.write("no number")
        until(lambda: w.ask("GET", "/check/me/command/main1").status == 500, 20, "the error")
        got = w.ask("GET", "/check/me/command/main1").json
        equal((got["Value"], got["Threshold"]), (0, 1), "numbers")
        expect(got["Message"] and got["Message"] != "Metric not collected yet", got)
        expect(w.good("GET", "/aggregated-metrics")["command/main1"].startswith("error: "), got)
        old.hang()
        until(lambda: w.ask("GET", "/check/me/command/old").status == 404, 20, "it to be old")
        get(w, "/check/me/command/old", 404, check_body(404, 0, 1, "No such metric"))
        get(w, "/check-if-exists/me/command/old", 200, check_body(200, 0, 1, "No such metric"))
        for path in ("/check/me/command/nowhere", "/check/me/mysql/main1", "/check/me/x/main1",
                     "/check/me//main1"):
            get(w, path, 404, check_body(404, 0, 0, "No such metric"))
    server.kill()


@test("p=low is denied for a second after a normal app was refused, and only then")
def low_priority(folder):
    store, other = Store(folder, value=5), Store(folder, "main2")
    server = serve(folder, store, other)
    path, low = "/check/me/command/main1", "/check/me/command/main1?p=low"
    with server.web() as w:
        def denied(path_low):
            """On a busy machine the second may be over before the low check comes."""
            def ask():
                get(w, path, 429)
                return w.ask("GET", path_low).status == 417
            until(ask, 60, "417 for " + path_low)
            get(w, path, 429)
            return w.ask("GET", path_low)
        until(lambda: w.ask("GET", low).status == 429, 5, "a quiet second")
        get(w, low, 429)  # its own refusal does not count
        get(w, "/check-read/me/command/main1/2", 429)  # nor a read's
        get(w, low, 429)
        until(lambda: denied(low).body.decode() == check_body(417, 0, 0, "App denied"), 60, "the denial")
        denied("/check/me/command/main1?x=1&p=low")
        get(w, "/check/me/command/main1?p=high", 429)
        get(w, "/check/me/command/main2?p=low", 200)  # another store
    server.stop()


@test("normal and low checks on many connections never get each other's answer")
def no_shared_flags(folder):
    store = Store(folder, value=5)
    server = serve(folder, store)
    path = "/check/me/command/main1"
    for i, got in side_by_side(server, [path, path + "?p=low"] * 4, 100):
        expect(got.status in ((417, 429) if i % 2 else (429,)), "%d: %d" % (i, got.status))
    server.stop()


@test("check-if-exists leaves no trace in later checks")
def no_shared_result(folder):
    server = serve(folder, Store(folder))
    with server.web() as w:
        for _ in range(3):
            get(w, "/check-if-exists/x/badtype/y", 200, check_body(200, 0, 0, "No such metric"))
            get(w, "/check/x/badtype/y", 404, check_body(404, 0, 0, "No such metric"))
    server.stop()


@test("the operator's pause denies, observing passes over values, and unknown may mean open")
def modes(folder):
    store = Store(folder, value=5)
    server = serve(folder, store)
    with server.web() as w, server.client() as c:
        get(w, "/check/me/command/main1", 429)
        c("THROTTLE", "PAUSE")
        get(w, "/check/me/command/main1", 417, check_body(417, 0, 0, "App denied"))
        c("THROTTLE", "RESUME")
        get(w, "/check/me/command/main1", 429)
    server.stop()
    for mode in ("observe", "off"):
        server = serve(os.path.join(folder, mode), store,
                       extra='throttle { check_mode = "%s" }\n' % mode)
        with server.web() as w:
            get(w, "/check/me/command/main1", 200, check_body(200, 5, 1, ""))
            get(w, "/throttle-app/me", 200)  # a rule has a mode of its own
            get(w, "/check/me/command/main1", 417)
        server.stop()
    mute = Store(folder, "mute")
    mute.hang()
    mute.config = mute.config.replace("kind =", 'unknown = {"open", "open", "open", "open"} kind =')
    server = serve(os.path.join(folder, "open"), extra=mute.config)
    with server.web() as w:
        get(w, "/check/me/command/mute", 200, check_body(200, 0, 1, ""))
        get(w, "/check/me/command/mute?p=low", 200)
    server.kill()


NAMES = [  # as it stands in the address, and whether it is a name
    ("me", True), ("a:b:c:d:e:f:g:h", True), ("caf%C3%A9", True), ("a%2Bb", True), ("a+b", True),
    ("x" * 64, True), ("%E2%98%83:snow", True), ("m%65", True),
    ("", False), ("all", False), ("a::b", False), (":a", False), ("a:", False),
    ("a:b:c:d:e:f:g:h:i", False), ("x" * 65, False), ("x" * 10000, False), ("a%20b", False),
    ("a%2Fb", False), ("a%00b", False), ("%", False), ("%zz", False), ("%C3", False),
    ("%FF%FE", False), ("a%0Ab", False), (("y" * 60 + ":") * 5 + "z", False),
]


@test("a name that is none gets 400 and a sentence, and changes nothing")
def names(folder):
    server = serve(folder, Store(folder))
    with server.web() as w:
        before = told(server)
        for name, is_good in NAMES:
            got = get(w, "/check/%s/command/main1" % name, 200 if is_good else 400)
            if not is_good:
                expect(got.json["StatusCode"] == 400 and len(got.json["Message"]) > 10, got.body)
        unchanged(told(server), before, "what checks left")
        for name, is_good in NAMES:
            if is_good or name == "all":  # which is everybody's name in a rule
                continue
            for path in ("/throttle-app/%s/ttl/5" % name, "/throttle-app/%s/ratio/1" % name):
                got = w.ask("GET", path)
                expect(got.status in (400, 500), "%s: %r" % (short(path), got))
                expect(got.json["StatusCode"] == got.status and got.json["Message"], got.body)
        unchanged(told(server), before, "what refused rules left")
        for name in ("x" * 17000,):
            with server.web() as other:
                expect(other.ask("GET", "/check/%s/command/main1" % name).status in (414, 431),
                       "an address longer than the limit")
    server.stop()


# --------------------------------------------------------------------------- apps


def apps(w):
    got = w.good("GET", "/throttled-apps")
    expect(got.pop("abusing-app")["Ratio"] == 1, "freno's built-in app is there")
    return got


@test("throttling takes a ratio and minutes; what is not given stays, or is all for an hour")
def throttle(folder):
    server = serve(folder, Store(folder), Store(folder, "main2"))
    ok = general(200, "OK")
    with server.web() as w:
        def rule(path, key, ratio, minutes):
            get(w, path, 200, ok)
            got = apps(w)[key]
            equal(list(got), ["ExpireAt", "Ratio"], "fields")
            equal(got["Ratio"], ratio, "ratio after " + path)
            expect(is_left(got["ExpireAt"], minutes), "%s: %s" % (path, got))
        rule("/throttle-app/a", "a", 1, 60)
        rule("/throttle-app/a/ttl/30/ratio/0.25", "a", 0.25, 30)
        rule("/throttle-app/a/ratio/0.75", "a", 0.75, 30)  # the end stays
        rule("/throttle-app/a/ttl/10", "a", 0.75, 10)  # the ratio stays
        rule("/throttle-app/a", "a", 1, 60)
        rule("/throttle-app/b/ratio/0.5", "b", 0.5, 60)
        rule("/throttle-app/c/ttl/5", "c", 1, 5)
        rule("/throttle-app/d/ttl/5/ratio/0?store_name=main2", "d/main2", 0, 5)
        rule("/throttle-app/d?store_name=main1", "d/main1", 1, 60)
        equal(sorted(apps(w)), ["a", "b", "c", "d/main1", "d/main2"], "keys")
        get(w, "/check/a/command/main1", 417, check_body(417, 0, 0, "App denied"))
        get(w, "/check/x:a:y/command/main1", 417)  # by any part
        get(w, "/check/d/command/main1", 417)
        get(w, "/check/d/command/main2", 200)
        get(w, "/unthrottle-app/a", 200, ok)
        get(w, "/check/a/command/main1", 200)  # at once, and for good
        expect("a" not in apps(w), "it is gone")
        get(w, "/unthrottle-app/d?store_name=main1", 200, ok)
        equal(sorted(apps(w)), ["b", "c", "d/main2"], "keys")
        get(w, "/check/abusing-app/command/main1", 417)
        for name in ("d%2Fmain2", "x" * 10000, "%20", "nobody"):  # d/main2 is no name of an app
            get(w, "/unthrottle-app/" + name, 200, ok)
        equal(sorted(apps(w)), ["b", "c", "d/main2"], "keys")
        with server.client() as c:
            found = rules(c)
            expect(all(r["author"].startswith(b"freno:127.0.0.1") for r in found), short(found))
    server.stop()


@test("a ratio of one half denies one half, whatever the parts of the name")
def dice(folder):
    server = serve(folder, Store(folder))
    n = 4000
    with server.web() as w:
        get(w, "/throttle-app/half/ratio/0.5", 200)
        for name in ("half", "a:half:b"):
            w.send(w.head("GET", "/check/%s/command/main1" % name) * n)
            denied = sum(w.read().status == 417 for _ in range(n))
            # Five standard deviations: one run in two million is outside.
            expect(abs(denied - n / 2) < 5 * (n / 4) ** 0.5, "%d of %d" % (denied, n))
    server.stop()


BAD_CONTROL = [  # path, words of the message
    ("/throttle-app/a/ratio/1.5", "ratio must be in [0..1] range; got 1.5"),
    ("/throttle-app/a/ratio/-0.1", "ratio must be in [0..1] range; got -0.1"),
    ("/throttle-app/a/ratio/1e6", "ratio must be in [0..1] range; got 1e+06"),
    ("/throttle-app/a/ratio/NaN", "ratio must be in [0..1] range; got NaN"),
    ("/throttle-app/a/ratio/Inf", "ratio must be in [0..1] range; got +Inf"),
    ("/throttle-app/a/ratio/x", 'strconv.ParseFloat: parsing "x": invalid syntax'),
    ("/throttle-app/a/ratio/1e999", 'strconv.ParseFloat: parsing "1e999": value out of range'),
    ("/throttle-app/a/ttl/x", 'strconv.ParseInt: parsing "x": invalid syntax'),
    ("/throttle-app/a/ttl/1.5", 'strconv.ParseInt: parsing "1.5": invalid syntax'),
    ("/throttle-app/a/ttl/99999999999999999999",
     'strconv.ParseInt: parsing "99999999999999999999": value out of range'),
    ("/throttle-app/a/ttl/0", "ttl must be 1 to 10080 minutes (rule_max), not 0"),
    ("/throttle-app/a/ttl/9223372036854775807", "ttl must be 1 to 10080 minutes"),
    ("/throttle-app/a/ttl/20160", "ttl must be 1 to 10080 minutes (rule_max), not 20160"),
    ("/throttle-app/kept/ttl/-1/ratio/7", "ratio must be"),
    ("/throttle-app/a/ttl/5/ratio/2", "ratio must be"),
    ("/throttle-app/a/ttl/x/ratio/1", "ParseInt"),
    ("/throttle-app/a?store_name=nowhere", "nowhere"),
    ("/throttle-app/a?store_name=" + "x" * 10000, ""),
    ("/throttle-app/" + "x" * 10000, ""),
    ("/skip-host/db/ttl/x", "ParseInt"),
    ("/skip-host/db/ttl/10081", "ttl must be 1 to 10080 minutes (rule_max), not 10081"),
    ("/skip-host/a%20b", "without blanks"), ("/skip-host/a%0ab", "control characters"),
    ("/skip-host/" + "x" * 10000, ""),
    ("/recent-apps/x", "ParseInt"), ("/recent-apps/1.5", "ParseInt"),
]


@test("control calls that are wrong get 500 and freno's sentence, and change nothing")
def bad_control(folder):
    server = serve(folder, Store(folder))
    with server.web() as w:
        get(w, "/throttle-app/kept/ttl/60/ratio/0.5", 200)
        before = told(server)
        for path, words in BAD_CONTROL:
            got = get(w, path, 500)
            equal(list(got.json), ["StatusCode", "Message"], "fields")
            equal(got.json["StatusCode"], 500, "status in the body")
            expect(got.json["Message"] and words in got.json["Message"],
                   "%s: %s" % (short(path), got.json))
            equal(w.ask("HEAD", path).status, 500, "HEAD of " + short(path))
        unchanged(told(server), before, "what they left")
    server.stop()


@test("a ttl that is over ends a rule and recovers a host; a host without one is skipped for an hour")
def ttl_over(folder):
    server = serve(folder, Store(folder))
    with server.web() as w:
        for path in ("/throttle-app/a/ttl/-1", "/throttle-app/a/ttl/-9000/ratio/0.5"):
            get(w, "/throttle-app/a", 200)
            get(w, path, 200, general(200, "OK"))
            equal(apps(w), {}, "rules after " + path)
            get(w, path, 200)  # also when there is none
        get(w, "/throttle-app/a?store_name=main1", 200)
        get(w, "/throttle-app/a/ttl/-1", 200)
        equal(list(apps(w)), ["a/main1"], "a rule of a store is another one")
        get(w, "/throttle-app/a/ttl/-1?store_name=main1", 200)
        equal(apps(w), {}, "rules")
        get(w, "/skip-host/db1/ttl/0", 200, general(200, "OK"))
        expect(is_left(w.good("GET", "/skipped-hosts")["db1"], 60), "an hour")
        get(w, "/skip-host/db1/ttl/-1", 200, general(200, "OK"))
        equal(w.good("GET", "/skipped-hosts"), {}, "skipped hosts")
        get(w, "/skip-host/nobody/ttl/-1", 200)
    server.stop()


@test("freno's abusing-app is denied until it is unthrottled, and stays so over a restart")
def abusing_app(folder):
    store = Store(folder)
    server = serve(folder, store)
    path = "/check/abusing-app/command/main1"
    with server.web() as w:
        get(w, path, 417, check_body(417, 0, 0, "App denied"))
        get(w, "/check/abusing-app/command/nowhere", 417)
        get(w, "/check/abusing-app/badtype/main1", 404)
        get(w, "/unthrottle-app/abusing-app?store_name=main1", 200)  # it has no rule of a store
        get(w, path, 417)
        get(w, "/throttle-app/abusing-app/ttl/30/ratio/0", 200)  # a rule replaces it
        got = w.good("GET", "/throttled-apps")["abusing-app"]
        expect(got["Ratio"] == 0 and is_left(got["ExpireAt"], 30), got)
        get(w, path, 200)
        get(w, "/unthrottle-app/abusing-app", 200, general(200, "OK"))
        equal(w.good("GET", "/throttled-apps"), {}, "throttled apps")
        get(w, path, 200)
        get(w, "/unthrottle-app/abusing-app", 200, general(200, "OK"))
    server.kill()
    server = Server(folder, "-c", os.path.join(folder, "weir.conf"))
    settle(server, store)
    with server.web() as w:
        equal(w.good("GET", "/throttled-apps"), {}, "throttled apps after a restart")
        get(w, path, 200)
        get(w, "/throttle-app/abusing-app", 200)
        get(w, path, 417)
    server.stop()


@test("a throttled app is denied on a store that is not there too, other apps get 404")
def denied_before_missing(folder):
    server = serve(folder, Store(folder))
    nowhere = ("/check/%s/command/nowhere", "/check-if-exists/%s/command/nowhere",
               "/check-read/%s/mysql/nowhere/5", "/check-read-if-exists/%s/mysql/nowhere/5")
    with server.web() as w, server.client() as c:
        get(w, "/throttle-app/a", 200)
        get(w, "/throttle-app/b?store_name=main1", 200)
        get(w, "/throttle-app/c/ratio/0", 200)
        for path in nowhere:
            missing = 200 if "if-exists" in path else 404
            get(w, path % "a", 417, check_body(417, 0, 0, "App denied"))
            for app in ("b", "c", "free"):
                get(w, path % app, missing, check_body(missing, 0, 0, "No such metric"))
        get(w, "/check-if-exists/a/badtype/nowhere", 200)
        names = [text(mapping(e)["name"]) for e in mapping(c("CLIENTS"))["clients"]]
        expect("a" in names and "free" not in names, names)
        c("THROTTLE", "PAUSE", "FOR", "60000")
        for path in nowhere:
            get(w, path % "free", 417, check_body(417, 0, 0, "App denied"))
    server.stop()


@test("a store that was never healthy has no entry in /metrics-health")
def never_healthy(folder):
    store, bad = Store(folder), Store(folder, "bad", value=5)
    server = serve(folder, store, bad)
    with server.web() as w:
        equal(list(w.good("GET", "/metrics-health")), ["command/main1"], "healthy stores")
        bad.write(0)
        until(lambda: len(w.good("GET", "/metrics-health")) == 2, 20, "the other one")
        bad.write(5)
        settle(server, store, bad)
        expect("command/bad" in w.good("GET", "/metrics-health"), "it was healthy once")
    server.stop()


@test("rules and skipped hosts outlive a crash, with their end")
def restart(folder):
    store = Store(folder)
    server = serve(folder, store)
    with server.web() as w:
        get(w, "/throttle-app/a/ttl/30/ratio/1", 200)
        get(w, "/throttle-app/a/ttl/5/ratio/1?store_name=main1", 200)
        get(w, "/skip-host/db1/ttl/7", 200)
        before = apps(w)
    server.kill()
    server = Server(folder, "-c", os.path.join(folder, "weir.conf"))
    settle(server, store)
    with server.web() as w:
        after = apps(w)
        equal({k: v["Ratio"] for k, v in after.items()},
              {k: v["Ratio"] for k, v in before.items()}, "rules")
        expect(29 < minutes_left(after["a"]["ExpireAt"]) < 31, after)
        equal(list(w.good("GET", "/skipped-hosts")), ["db1"], "skipped")
        get(w, "/check/a/command/main1", 417)
    server.stop()


@test("a rule that ended is neither told nor obeyed")
def ended(folder):
    server = serve(folder, Store(folder))
    with server.web() as w, server.client() as c:
        c("RULESET", "brief", "ratio", "RATIO", "1", "FOR", 600000)
        get(w, "/check/brief/command/main1", 417)
        c("RULESET", "brief", "ratio", "RATIO", "1", "FOR", 300)
        until(lambda: "brief" not in apps(w), 30, "its end")
        get(w, "/check/brief/command/main1", 200)
        c("RULESET", "held", "hold", "FOR", 60000)
        equal(apps(w)["held"]["Ratio"], 1, "a hold is a ratio of 1")
        get(w, "/check/held/command/main1", 417)
        c("RULESET", "free", "exempt", "FOR", 60000)
        expect("free" not in apps(w), "an exemption is no throttling")
    server.stop()


@test("recent apps are told with their address, as a proxy gives it")
def recent(folder):
    server = serve(folder, Store(folder))
    with server.web() as w:
        for name, header in (("near", None), ("far", "X-Forwarded-For: 10.1.2.3"),
                             ("farther", "x-forwarded-for: 10.9.9.9, 10.1.1.1"),
                             ("six", "X-Forwarded-For: 2001:db8::1")):
            get(w, "/check/%s/command/main1" % name, 200, headers=[header] if header else [])
        for path in ("/recent-apps", "/recent-apps/5", "/recent-apps/0", "/recent-apps/-1"):
            got = w.good("GET", path)
            equal(sorted(got), ["far/10.1.2.3", "farther/10.9.9.9", "near/127.0.0.1",
                                "six/2001:db8::1"], path)
            for entry in got.values():
                equal(list(entry), ["CheckedAtEpoch", "MinutesSinceChecked"], "fields")
                expect(abs(entry["CheckedAtEpoch"] - time.time()) < 30, entry)
                equal(entry["MinutesSinceChecked"], 0, "minutes")
    server.stop()


@test("a rule that is only tried out is nothing to freno: neither told, nor taken over, nor removed")
def tried_out(folder):
    server = serve(folder, Store(folder))
    with server.web() as w, server.client() as c:
        c("RULESET", "a", "ratio", "RATIO", "0.25", "FOR", 300000, "MODE", "observe")
        expect("a" not in apps(w), "a trial is no throttling")
        get(w, "/throttle-app/a/ttl/5", 200)
        equal(apps(w)["a"]["Ratio"], 1, "a rule of its own")
        get(w, "/unthrottle-app/a", 200)
        equal([text(r["mode"]) for r in rules(c)], ["observe"], "what is left")
    server.stop()


def own_address():
    """An address of this machine that is no loopback; None when it has none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        try:
            s.connect(("198.51.100.1", 9))  # nothing is sent
        except OSError:
            return None
        address = s.getsockname()[0]
        return None if address.startswith("127.") else address


@test("where an asker says it is counts only when it comes through a proxy of this machine")
def forged(folder):
    claims = ["X-Forwarded-For: 10.1.2.3"]
    store = Store(folder)
    server = serve(folder, store, http=os.path.join(folder, "socket"))
    with server.web() as w:
        get(w, "/check/near/command/main1", 200)
        get(w, "/check/far/command/main1", 200, headers=claims)
        equal(sorted(w.good("GET", "/recent-apps")), ["far/10.1.2.3", "near"], "by a unix socket")
    server.stop()
    own = own_address()
    if not own:
        return  # tests/unit/test_server.c has which addresses are this machine's
    token = "0123456789abcdef012345"
    server = serve(os.path.join(folder, "far"), store, token=token, http=own + ":0",
                   extra="insecure = true\n")
    with server.web() as w, server.client() as c:
        c("AUTH", token)
        get(w, "/check/far/command/main1", 200, headers=claims)
        equal(sorted(w.good("GET", "/recent-apps")), ["far/" + own], "by the network")
        get(w, "/throttle-app/far", 200, headers=claims)
        equal([(text(r["author"]), text(r["address"])) for r in rules(c)], [("freno:" + own, own)],
              "whose rule it is")
    server.stop()


@test("hosts are skipped for an hour or as long as is said, and recovered")
def hosts(folder):
    server = serve(folder, Store(folder))
    with server.web() as w:
        equal(w.good("GET", "/skipped-hosts"), {}, "at first")
        get(w, "/skip-host/db1", 200, general(200, "OK"))
        get(w, "/skip-host/db2:3307/ttl/5", 200, general(200, "OK"))
        got = w.good("GET", "/skipped-hosts")
        equal(sorted(got), ["db1", "db2:3307"], "skipped")
        expect(59 < minutes_left(got["db1"]) <= 60.1, got)
        expect(4 < minutes_left(got["db2:3307"]) <= 5.1, got)
        get(w, "/recover-host/db1", 200, general(200, "OK"))
        get(w, "/recover-host/db1", 200, general(200, "OK"))
        equal(list(w.good("GET", "/skipped-hosts")), ["db2:3307"], "left")
    server.stop()


# --------------------------------------------------------------------------- who may

CONTROL = ("/throttle-app/evil", "/throttle-app/evil/ttl/5/ratio/1", "/unthrottle-app/kept",
           "/skip-host/evil", "/recover-host/kept")
FOREIGN = (["Sec-Fetch-Site: cross-site"], ["Sec-Fetch-Site: same-site"],
           ["Origin: http://evil.example"], ["Origin: null"],
           # A link in a mail or a chat, opened in the browser.
           ["Sec-Fetch-Site: none"],
           # Browsers that do not send Sec-Fetch-Site, and an image of another page.
           ["User-Agent: Mozilla/5.0 (X11; Linux x86_64)"], ["Referer: http://evil.example/page"],
           ["Sec-Fetch-Mode: no-cors"], ["Sec-Fetch-Dest: image"],
           ["Referer: http://evil.example/", "User-Agent: curl/8.0"])


@test("a page of another origin cannot change anything, though the method is GET")
def foreign(folder):
    server = serve(folder, Store(folder))
    with server.web() as w:
        get(w, "/throttle-app/kept", 200)
        get(w, "/skip-host/kept", 200)
        before = told(server)
        for path in CONTROL:
            for headers in FOREIGN:
                for method in ("GET", "HEAD", "POST"):
                    equal(w.ask(method, path, headers=headers).status, 403,
                          "%s %s %s" % (method, path, headers))
        unchanged(told(server), before, "what it left")
        get(w, "/check/me/command/main1", 200, headers=["Sec-Fetch-Site: cross-site"])
        get(w, "/throttle-app/mine", 200, headers=["Sec-Fetch-Site: same-origin"])
        get(w, "/throttle-app/mine", 200, headers=["Origin: http://" + w.host()])
        mozilla = "User-Agent: Mozilla/5.0 (X11; Linux x86_64)"
        get(w, "/throttle-app/mine", 200, headers=[mozilla, "Sec-Fetch-Site: same-origin"])
        get(w, "/throttle-app/mine", 200,
            headers=[mozilla, "Referer: http://%s/#/checks" % w.host()])
        get(w, "/throttle-app/mine", 200, headers=["User-Agent: Go-http-client/1.1"])
        get(w, "/check/me/command/main1", 200, headers=[mozilla])
    server.stop()


OPEN = ("/check/me/command/main1", "/check-if-exists/me/command/x", "/throttler/check",
        "/check-read/me/command/main1/5", "/throttler/check-self", "/lb-check", "/_ping",
        "/status", "/leader-check")
CLOSED = ("/throttled-apps", "/recent-apps", "/aggregated-metrics", "/help", "/skipped-hosts",
          "/throttler/status", "/throttler/throttled-apps", "/config/memcache",
          "/throttler/throttle-app?app=a&duration=1h", "/throttler/unthrottle-app?app=a") + CONTROL


@test("with a token everything needs it, unless checks were opened, and then only they do not")
def tokens(folder):
    token = "0123456789abcdef0123456789abcdef"
    for is_open in (False, True):
        place = os.path.join(folder, str(is_open))
        os.makedirs(place)
        server = serve(place, Store(place), token=token,
                       extra="check_without_token = true\n" if is_open else "")
        with server.web() as w:
            before = told(server)
            w.token = None
            for path in OPEN:
                equal(w.ask("GET", path).status, 200 if is_open else 401, path)
                w.token = "f" * 32
                equal(w.ask("GET", path).status, 401, "a wrong token at " + path)
                w.token = None
            for path in CLOSED:
                equal(w.ask("GET", path).status, 401, path)
            w.token = token
            unchanged(told(server), before, "what they left")
            get(w, "/check/me/command/main1", 200)
            get(w, "/throttle-app/me", 200)
        server.stop()


@test("a real MariaDB is a store of type mysql")
def real(folder):
    maria = Maria("db1")
    maria.ask("CREATE USER weir@'127.0.0.1' IDENTIFIED BY '%s'" % PASSWORD,
              "GRANT PROCESS ON *.* TO weir@'127.0.0.1'")
    os.makedirs(folder, exist_ok=True)
    server = Server(folder, "-c", write_config(folder, """
target "main1" {
        kind = "mysql" host = "127.0.0.1" port = %d user = "weir" password_file = "SECRET"
        interval = "200ms" timeout = "1s"
        metric "threads_running" { threshold = 10 elevated = {20, 10} critical = {50, 40} }
}""" % maria.port))
    path = "/check/me/mysql/main1"
    with server.web() as w:
        until(lambda: w.ask("GET", path).status == 200, 20, "the first sample")
        got = w.good("GET", path)
        expect(0 <= got["Value"] <= 10 and got["Threshold"] == 10, got)
        with maria.load(15, "SELECT SLEEP(60)"):
            until(lambda: w.ask("HEAD", path).status == 429, 10, "the refusal")
            got = w.ask("GET", path).json
            expect(got["Value"] > 10 and got["Message"] == "Threshold exceeded", got)
        until(lambda: w.ask("HEAD", path).status == 200, 10, "the end of it")
        get(w, "/check/me/mariadb/main1", 404)
        maria.halt()
        until(lambda: w.ask("GET", path).status == 500, 20, "the error of a dead server")
        expect("Message" in w.ask("GET", path).json, "a reason")
    server.stop()
    maria.kill()


if __name__ == "__main__":
    main()
