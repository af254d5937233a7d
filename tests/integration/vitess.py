#!/usr/bin/python3
# weir-test: timeout=200
"""The HTTP contract of Vitess's tablet throttler: checks in three generations of bodies, results
per metric, apps and their rules; its known faults absent; nothing changed by what was refused.

The metrics come from a JSON document over HTTP, so any value can be had without a database."""
import contextlib
import http.server
import json
import os
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from lib_contracts import (  # noqa: E402
    compact, get, is_left, moment, one_line_of_json, rules, serve_targets, side_by_side, unchanged)
from harness import equal, expect, main, short, test, until  # noqa: E402

TARGET = """
target "%s" {
        kind = "http" url = "http://127.0.0.1:%d/"
        interval = "100ms" timeout = "30s" dwell = "1s" check = {"lag"}
        metric "lag" { source = "json:lag" threshold = 5 elevated = {5, 1} critical = {100, 50} }
        metric "threads_running" {
                source = "json:threads_running" threshold = 100
                elevated = {200, 100} critical = {400, 300}
        }
        metric "loadavg" {
                source = "json:loadavg" threshold = 1 elevated = {2, 1} critical = {9, 8}
        }
}
"""


class Source:
    """A JSON document that a target reads."""

    def __init__(self, name="main", **values):
        self.name = name
        self.values = {"lag": 0.2, "threads_running": 10, "loadavg": 0.5, **values}
        source = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                body = json.dumps(source.values).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                with contextlib.suppress(ConnectionError):  # weir was stopped meanwhile
                    self.end_headers()
                    self.wfile.write(body)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.config = TARGET % (name, self.server.server_address[1])


def serve(folder, *sources, extra=""):
    server = serve_targets(folder, sources, extra)
    for s in sources:
        settle(server, s)
    return server


def settle(server, source, **names):
    """The values have arrived; `names` are those that stand otherwise in addresses."""
    def is_there():
        with server.web() as w:
            for name, value in source.values.items():
                path = "/throttler/check?m=%s&target=%s" % (names.get(name, name), source.name)
                (metric,) = w.ask("GET", path).json["Metrics"].values()
                if metric["Value"] != value:
                    return False
        return True
    until(is_there, 20, "the values")


def told(server):
    with server.web() as w, server.client() as c:
        return w.good("GET", "/throttler/throttled-apps"), rules(c)


CODES = {1: 200, 2: 429, 3: 417, 4: 404, 5: 500}
MESSAGES = {1: "", 2: "threshold exceeded", 3: "app denied", 4: "no such metric"}


def metric(code, value, threshold, scope="shard", app="test", version=21, message=None):
    head = {"StatusCode": CODES[code]} if version < 22 else {}
    return {**head, "ResponseCode": code, "Scope": scope, "Value": value, "Threshold": threshold,
            "Message": MESSAGES[code] if message is None else message, "AppName": app}


def body(code, value, threshold, name, scope="shard", app="test", version=21, metrics=None,
         message=None):
    text = MESSAGES[code] if message is None else message
    numbers = {"Value": value, "Threshold": threshold, "Message": text,
               "RecentlyChecked": app != "vitess"}
    head = {"StatusCode": CODES[code]} if version < 22 else {}
    if version == 18:
        return compact({**head, **numbers})
    return compact({**head, "ResponseCode": code, **numbers, "AppName": app, "MetricName": name,
                    "Scope": scope if name else "", "Metrics": metrics})


def ask(w, path, status, text=None):
    """GET and HEAD agree; a body only with GET."""
    got = get(w, path, status, text)
    head = w.ask("HEAD", path)
    equal((head.status, head.body), (status, b""), "HEAD of %s" % short(path))
    return got


@test("every route takes GET and HEAD and nothing else")
def routes(folder):
    server = serve(folder, Source())
    with server.web() as w:
        for path in ("/throttler/check", "/throttler/check-self", "/throttler/status",
                     "/throttler/throttle-app?app=a&duration=1h",
                     "/throttler/unthrottle-app?app=a", "/throttler/throttled-apps"):
            got = ask(w, path, 200)
            one_line_of_json(got, path)
            for method in ("POST", "PUT", "DELETE"):
                other = w.ask(method, path)
                equal((other.status, other.header("allow")), (405, "GET, HEAD, OPTIONS"), path)
        for path in ("/throttler", "/throttler/", "/throttler/x", "/throttler/check/x"):
            equal(w.ask("GET", path).status, 404, path)
        got = w.ask("GET", "/throttler/check/?app=x")
        equal((got.status, got.header("location")), (301, "/throttler/check?app=x"), "a slash")
    server.stop()


@test("each generation of bodies has its fields in their order")
def generations(folder):
    source = Source(lag=7.1)
    server = serve(folder, source)
    with server.web() as w:
        for code, value in ((2, 7.1), (1, 5), (1, 0.25)):
            source.values["lag"] = value
            settle(server, source)
            for scope, path in (("shard", "check"), ("self", "check-self")):
                for version in (18, 21, 22):
                    ask(w, "/throttler/%s?app=test&v=%d" % (path, version), CODES[code],
                        body(code, value, 5, "default", scope, version=version, metrics={
                            "default": metric(code, value, 5, scope, version=version)}))
        ask(w, "/throttler/check?app=test", 200, body(1, 0.25, 5, "default", metrics={
            "default": metric(1, 0.25, 5)}))
        ask(w, "/throttler/check?app=test&scope=self", 200, body(1, 0.25, 5, "default", "self",
            metrics={"default": metric(1, 0.25, 5, "self")}))
        for path in ("/throttler/check?app=test&scope=x", "/throttler/check?app=test&scope=SELF"):
            expect("scope" in ask(w, path, 400).json["Message"], path)
    server.stop()


@test("metrics are judged one by one, and the last that fails stands at the top")
def metrics(folder):
    source = Source(lag=9, loadavg=3)
    server = serve(folder, source)
    with server.web() as w:
        got = ask(w, "/throttler/check?app=test&m=lag&m=threads_running&m=loadavg", 429)
        equal(got.body.decode(), body(2, 3, 1, "loadavg", metrics={
            "lag": metric(2, 9, 5), "loadavg": metric(2, 3, 1),
            "threads_running": metric(1, 10, 100)}), "body")
        equal(ask(w, "/throttler/check?app=test&m=loadavg&m=lag", 429).json["MetricName"], "lag",
              "the last")
        ask(w, "/throttler/check?app=test&m=threads_running", 200, body(
            1, 10, 100, "threads_running", metrics={"threads_running": metric(1, 10, 100)}))
        # The scope of a name is left out of the answer, where that of the check stands.
        for name in ("self/loadavg", "shard/loadavg"):
            for path, scope in (("check", "shard"), ("check-self", "self")):
                ask(w, "/throttler/%s?app=test&m=%s" % (path, name), 429, body(
                    2, 3, 1, "loadavg", scope, metrics={"loadavg": metric(2, 3, 1, scope)}))
        got = ask(w, "/throttler/check?app=test&m=self/lag&m=lag&m=shard/lag", 429).json
        equal(list(got["Metrics"]), ["lag"], "one metric, by three names")
        got = ask(w, "/throttler/check?app=test&m=other/lag&m=self/nope", 404).json
        equal(list(got["Metrics"]), ["nope", "other/lag"], "names that are none")
        got = ask(w, "/throttler/check?app=test&m=default&m=threads_running&m=default", 429).json
        equal(sorted(got["Metrics"]), ["default", "threads_running"], "names, each once")
        equal(got["MetricName"], "default", "which fails")
    server.stop()


@test("a metric that is not there is 404, beside those that are")
def no_metric(folder):
    server = serve(folder, Source())
    missing = metric(4, 0, 0)
    with server.web() as w:
        ask(w, "/throttler/check?app=test&m=nope", 404, body(4, 0, 0, "nope",
                                                             metrics={"nope": missing}))
        ask(w, "/throttler/check?app=test&m=nope&m=lag", 404, body(4, 0, 0, "nope", metrics={
            "lag": metric(1, 0.2, 5), "nope": missing}))
        ask(w, "/throttler/check?app=test&v=18&m=nope", 404, body(4, 0, 0, "nope", version=18))
        ask(w, "/throttler/check?app=test&m=" + "x" * 10000, 404)
        ask(w, "/throttler/check?app=test&target=nowhere", 404, body(4, 0, 0, ""))
        many = "".join("&m=m%d" % i for i in range(33))
        ask(w, "/throttler/check?app=test" + many[:-len("&m=m32")], 404)
        expect("32" in ask(w, "/throttler/check?app=test" + many, 400).json["Message"], "too many")
    server.stop()


@test("without a name it is vitess, which no rule holds")
def vitess(folder):
    server = serve(folder, Source())
    with server.web() as w, server.client() as c:
        mine = body(1, 0.2, 5, "lag", app="vitess", metrics={"lag": metric(1, 0.2, 5,
                                                                           app="vitess")})
        for path in ("/throttler/check", "/throttler/check?app=", "/throttler/check?app=vitess"):
            ask(w, path, 200, mine)
        ask(w, "/throttler/throttle-app?app=vitess&duration=1h", 500)
        c("RULESET", "all", "hold", "FOR", 60000)
        ask(w, "/throttler/check?app=test&s=true", 417)
        ask(w, "/throttler/check", 200, mine)
    server.stop()


@test("recently checked is said when somebody else than vitess asked, and not silently")
def recently(folder):
    server = serve(folder, Source())
    with server.web() as w:
        for path, is_recent in (("?app=vitess", False), ("?app=a&s=true", False),
                                ("?app=a", True), ("?app=vitess", True), ("?app=a&s=true", True)):
            got = w.good("GET", "/throttler/check" + path)
            equal(got["RecentlyChecked"], is_recent, path)
        until(lambda: not w.good("GET", "/throttler/check")["RecentlyChecked"], 10, "two seconds")
    server.stop()


@test("some apps are always let through, by any part of their name, and one never is")
def built_in(folder):
    source = Source(lag=50)
    server = serve(folder, source)
    with server.web() as w:
        for app in ("binlog-watcher", "messager", "schema-tracker", "x:schema-tracker",
                    "messager:a:b"):
            ask(w, "/throttler/check?app=" + app, 200, body(1, 0, 0, "", app=app))
        for app in ("schema-trackers", "my-messager"):
            ask(w, "/throttler/check?app=" + app, 429)
        source.values["lag"] = 0
        settle(server, source)
        for app in ("always-throttled-app", "x:always-throttled-app"):
            ask(w, "/throttler/check?app=" + app, 417, body(3, 0, 0, "default", app=app, metrics={
                "default": metric(3, 0, 0, app="always-throttled-app")}))
    server.stop()


@test("each metric tells the part of the name that a rule matched, the top tells who asked")
def matched_part(folder):
    server = serve(folder, Source())
    app = "7f3e:vcopier:online-ddl"

    def told_by(w, want, status, query=""):
        got = ask(w, "/throttler/check?app=%s%s" % (app, query), status).json
        equal(got["AppName"], app, "who asked")
        equal({m["AppName"] for m in got["Metrics"].values()}, {want}, "which part matched")

    with server.web() as w, server.client() as c:
        told_by(w, app, 200)
        c("RULESET", "all", "ratio", "RATIO", "1")
        told_by(w, "all", 417)
        c("RULESET", "online-ddl", "ratio", "RATIO", "0")
        told_by(w, "online-ddl", 200, "&m=lag&m=loadavg")
        c("RULESET", "vcopier", "ratio", "RATIO", "1")
        told_by(w, "vcopier", 417, "&m=lag&m=nope")  # denied before metrics are looked at
        c("RULESET", "all", "hold")
        told_by(w, "all", 417)
        c("RULEUNSET", "all")
        c("RULESET", "vcopier", "exempt")
        got = ask(w, "/throttler/check?app=" + app, 200).json
        equal((got["AppName"], got["Metrics"]), ("vcopier", None), "an exemption")
    server.stop()


@test("exempt answers never carry another app's name")
def no_shared_result(folder):
    server = serve(folder, Source())
    names = ["app%d:messager" % i for i in range(8)]
    for i, got in side_by_side(server, ["/throttler/check?app=" + n for n in names], 50):
        equal(got.json["AppName"], names[i], "the name")
    server.stop()


@test("an app's own list of metrics counts when the check names none")
def own_list(folder):
    source = Source(loadavg=3)
    server = serve(folder, source)
    with server.web() as w, server.client() as c:
        ask(w, "/throttler/check?app=x:etl", 200)
        c("RULESET", "etl", "metrics", "METRICS", "threads_running,loadavg")
        got = ask(w, "/throttler/check?app=x:etl", 429).json
        equal(sorted(got["Metrics"]), ["loadavg", "threads_running"], "the list")
        equal(got["MetricName"], "loadavg", "which fails")
        ask(w, "/throttler/check?app=x:etl&m=lag", 200)
        ask(w, "/throttler/check?app=other", 200)
    server.stop()


@test("what is not known is 500 with the reason, not a value of 0")
def unknown(folder):
    source, dead = Source(), Source("dead")
    dead.server.shutdown()
    dead.server.server_close()
    server = serve(folder, source, extra=dead.config)
    with server.web() as w:
        path = "/throttler/check?app=test&target=dead"
        until(lambda: w.ask("GET", path).json["Message"] not in ("", "metric not collected yet"),
              10, "the error")
        got = ask(w, path, 500).json
        equal((got["ResponseCode"], got["Value"], got["Threshold"]), (5, 0, 5), "the numbers")
        equal(ask(w, path + "&v=18", 500).json["StatusCode"], 500, "status")
        ask(w, "/throttler/check?app=test&target=main", 200)
    server.stop()


@test("apps are throttled for a duration as Go writes it, and unthrottled")
def throttle(folder):
    server = serve(folder, Source(), Source("other"))
    with server.web() as w:
        def throttled(query, ratio, minutes, **more):
            got = w.ask("GET", "/throttler/throttle-app?" + query)
            equal(got.status, 200, short(got))
            want = {"AppName": "test", "ExpireAt": got.json["ExpireAt"], "Ratio": ratio,
                    "Exempt": False, **more}
            equal(got.body.decode(), compact(want), query)
            expect(is_left(got.json["ExpireAt"], minutes), got.json)
            expect(any(a["AppName"] == "test" and a["Ratio"] == ratio and
                       a.get("Target") == more.get("Target") and
                       is_left(a["ExpireAt"], minutes)
                       for a in w.good("GET", "/throttler/throttled-apps")), query)
        throttled("app=test&duration=1h", 1, 60)
        ask(w, "/throttler/check?app=test", 417)
        ask(w, "/throttler/check?app=uuid:test:online-ddl", 417)
        throttled("app=test&duration=1h30m&ratio=0.25", 0.25, 90)
        throttled("app=test&duration=90s&ratio=1", 1, 1.5)
        throttled("app=test&duration=0.5h&ratio=0", 0, 30)
        ask(w, "/throttler/check?app=test", 200)
        throttled("app=test&duration=1h&target=other", 1, 60, Target="other")
        ask(w, "/throttler/check?app=test&target=other", 417)
        ask(w, "/throttler/check?app=test&target=main", 200)
        ask(w, "/throttler/unthrottle-app?app=test&target=other", 200)
        ask(w, "/throttler/check?app=test&target=other", 200)
        throttled("app=test&duration=1h", 1, 60)
        got = ask(w, "/throttler/unthrottle-app?app=test", 200).json
        equal(list(got), ["AppName", "ExpireAt", "Ratio", "Exempt"], "fields")
        equal((got["AppName"], got["Ratio"], got["Exempt"]), ("test", 0, False), "fields")
        ask(w, "/throttler/check?app=test", 200)
        throttled("app=test&duration=1h", 1, 60)
        for duration in ("0", "0s", "-5m"):  # an end that is past
            ask(w, "/throttler/throttle-app?app=test&duration=" + duration, 200)
            equal([a["AppName"] for a in w.good("GET", "/throttler/throttled-apps")],
                  ["always-throttled-app"], "apps")
    server.stop()


BAD = [  # query, words of the answer
    ("app=a", 'not ok: time: invalid duration ""'),
    ("app=a&duration=", 'not ok: time: invalid duration ""'),
    ("app=a&duration=x", 'not ok: time: invalid duration "x"'),
    ("app=a&duration=5", 'not ok: time: missing unit in duration "5"'),
    ("app=a&duration=5d", 'not ok: time: unknown unit "d" in duration "5d"'),
    ("app=a&duration=99999999h", 'not ok: time: invalid duration "99999999h"'),
    ("app=a&duration=1h&ratio=x", 'not ok: strconv.ParseFloat: parsing "x": invalid syntax'),
    ("app=a&duration=1h&ratio=1.1", "not ok: ratio must be in [0..1] range; got 1.1"),
    ("app=a&duration=1h&ratio=-1", "not ok: ratio must be"),
    ("app=a&duration=2562047h47m16.854775807s", "not ok: "),
    ("app=a&duration=100000h", "not ok: "),  # longer than the operator allows
    ("duration=1h", "not ok: "), ("app=&duration=1h", "not ok: "),
    ("app=a%20b&duration=1h", "not ok: "), ("app=a%2Fb&duration=1h", "not ok: "),
    ("app=%FF&duration=1h", "not ok: "), ("app=%00&duration=1h", "not ok: "),
    ("app=" + "x" * 10000 + "&duration=1h", "not ok: "),
    ("app=a&duration=1h&target=nowhere", "not ok: "),
]


@test("rules that are none get 500 and a text, and change nothing")
def bad_rules(folder):
    server = serve(folder, Source())
    with server.web() as w:
        ask(w, "/throttler/throttle-app?app=kept&duration=1h&ratio=0.5", 200)
        before = told(server)
        for query, words in BAD:
            got = ask(w, "/throttler/throttle-app?" + query, 500)
            expect(got.header("content-type").startswith("text/plain"), "a text")
            expect(got.body.decode().startswith(words), "%s: %s" % (short(query), got.body))
        unchanged(told(server), before, "what they left")
    server.stop()


@test("a name that is none gets 400 and a sentence")
def names(folder):
    server = serve(folder, Source())
    with server.web() as w:
        before = told(server)
        for name in ("a%20b", "a%2Fb", "a::b", "all", "x" * 65, "x" * 10000, "%FF",
                     "a:b:c:d:e:f:g:h:i", "a%0Ab"):
            for version in (18, 21, 22):
                got = ask(w, "/throttler/check?app=%s&v=%d" % (name, version), 400).json
                expect(len(got["Message"]) > 10, got)
        for name in ("caf%C3%A9", "a:b:c:d:e:f:g:h", "a%2Bb"):
            ask(w, "/throttler/check?app=" + name, 200)
        # As in Go, a pair that is not escaped rightly is no pair.
        equal(ask(w, "/throttler/check?app=%00", 200).json["AppName"], "vitess", "the name")
        unchanged(told(server), before, "what they left")
    server.stop()


STATUS = ["Keyspace", "Shard", "IsLeader", "IsOpen", "IsEnabled", "IsDormant", "RecentlyChecked",
          "Query", "CustomQuery", "Threshold", "MetricNameUsedAsDefault", "AggregatedMetrics",
          "MetricsThresholds", "MetricsHealth", "ThrottledApps", "AppCheckedMetrics", "RecentApps"]


@test("the status tells who asked, who is throttled and who has metrics of its own")
def status_of_apps(folder):
    source = Source()
    server = serve(folder, source, Source("other"))
    with server.web() as w, server.client() as c:
        def told_now(query=""):
            got = ask(w, "/throttler/status" + query, 200).json
            equal(list(got), STATUS, "fields")
            return got
        got = told_now()
        equal((got["RecentlyChecked"], got["AppCheckedMetrics"]), (False, {}), "at first")
        equal(got["ThrottledApps"], w.good("GET", "/throttler/throttled-apps"), "throttled apps")
        started = time.time()
        ask(w, "/throttler/check?app=x:etl", 200)
        ask(w, "/throttler/throttle-app?app=off&duration=1h", 200)
        ask(w, "/throttler/check?app=off", 417)
        c("RULESET", "free", "exempt")
        c("RULESET", "etl", "metrics", "METRICS", "lag,loadavg")
        c("RULESET", "etl", "metrics", "METRICS", "threads_running", "TARGET", "other")
        c("RULESET", "purge", "metrics", "METRICS", "lag", "TARGET", "other")
        c("RULESET", "trial", "metrics", "METRICS", "lag", "MODE", "observe")
        until(lambda: w.ask("GET", "/throttler/check?app=off").status == 417 and
              told_now()["RecentlyChecked"], 20, "it to be checked recently")
        got = told_now()
        unchanged(got["ThrottledApps"], w.good("GET", "/throttler/throttled-apps"), "apps")
        equal([a["AppName"] for a in got["ThrottledApps"]],
              ["always-throttled-app", "free", "off"], "throttled apps")
        equal(got["AppCheckedMetrics"], {"etl": "lag,loadavg"}, "metrics of apps")
        equal(told_now("?target=other")["AppCheckedMetrics"],
              {"etl": "threads_running", "purge": "lag"}, "metrics of apps on the other target")
        equal({a: e["ResponseCode"] for a, e in got["RecentApps"].items()},
              {"vitess": 1, "x:etl": 1, "off": 3}, "recent apps")
        for app, entry in got["RecentApps"].items():
            equal(list(entry), ["AppName", "CheckedAt", "ResponseCode"], "fields")
            equal(entry["AppName"], app, "the name")
        expect(moment(got["RecentApps"]["off"]["CheckedAt"]) > started - 1, got["RecentApps"])
        source.values["lag"] = 50
        settle(server, source)
        ask(w, "/throttler/check?app=x:etl&m=lag", 429)
        equal(told_now()["RecentApps"]["x:etl"]["ResponseCode"], 2, "the last answer")
    server.stop()


@test("the status has no health of a metric that was never healthy")
def status_never_healthy(folder):
    source = Source(lag=50)
    server = serve(folder, source)
    with server.web() as w:
        equal(w.good("GET", "/throttler/status")["MetricsHealth"], {}, "health")
        source.values["lag"] = 0
        settle(server, source)
        equal(list(w.good("GET", "/throttler/status")["MetricsHealth"]), ["self/lag"], "health")
    server.stop()


@test("the status tells the target, its metric and its health")
def status(folder):
    server = serve(folder, Source(), Source("other"))
    with server.web() as w:
        for path, name in (("/throttler/status", "main"),
                           ("/throttler/status?target=other", "other")):
            got = ask(w, path, 200).json
            equal(list(got), STATUS, "fields")
            equal((got["Keyspace"], got["Threshold"], got["MetricNameUsedAsDefault"]),
                  (name, 5, "lag"), path)
            equal(got["AggregatedMetrics"]["self/lag"], {"Value": 0.2}, "the value")
        ask(w, "/throttler/status?target=nowhere", 404)
    server.stop()
    odd = Source()
    odd.config = odd.config.replace('{"lag"}', r'{"l\"a\\g"}').replace('"lag" {', r'"l\"a\\g" {')
    server = serve(os.path.join(folder, "odd"), extra=odd.config)
    settle(server, odd, lag=r"l%22a%5Cg")
    with server.web() as w:
        got = ask(w, "/throttler/status", 200).json
        equal(got["AggregatedMetrics"]['self/l"a\\g'], {"Value": 0.2}, "a name to be escaped")
    server.stop()
    server = serve(os.path.join(folder, "none"))
    with server.web() as w:
        got = ask(w, "/throttler/status", 200).json
        equal((list(got), got["IsEnabled"]), (STATUS, False), "without a target")
        ask(w, "/throttler/check?app=test", 200)
    server.stop()


@test("a page of another origin cannot throttle anybody")
def foreign(folder):
    server = serve(folder, Source())
    with server.web() as w:
        before = told(server)
        for path in ("/throttler/throttle-app?app=a&duration=1h",
                     "/throttler/unthrottle-app?app=a"):
            for header in ("Sec-Fetch-Site: cross-site", "Origin: http://evil.example"):
                equal(w.ask("GET", path, headers=[header]).status, 403, path)
        unchanged(told(server), before, "what it left")
    server.stop()


if __name__ == "__main__":
    main()
