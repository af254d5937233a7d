#!/usr/bin/python3
# weir-test: timeout=300 tsan
"""Traces: a traceparent goes from whoever enqueues a job to whoever runs it, and the spans of its
attempts to a collector, which is a small one of our own here: it keeps every span and answers what
it is told to.
"""
import http.server
import json
import os
import ssl
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "fault"))
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from harness import Server, WeirError, equal, expect, job, main, mapping, test, text, until, weir  # noqa: E402
from lib_tls import Authority  # noqa: E402

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
PARENT = "00-%s-%s-01" % (TRACE, SPAN)
UNSAMPLED = PARENT[:-2] + "00"
PRODUCER, INTERNAL, CONSUMER = 4, 1, 5


class Collector:
    """Answers each request with the next of `answers`, the last one for ever: a status, or
    (status, body).  While `gate` is clear, it answers nobody."""

    def __init__(self, *answers, certificate=None):
        self.answers = list(answers or [200])
        self.requests, self.spans = [], []
        self.gate = threading.Event()
        self.gate.set()
        collector = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                collector.requests.append((self.path, dict(self.headers.items()), body))
                collector.gate.wait()
                status = collector.answers[0]
                if len(collector.answers) > 1:
                    collector.answers.pop(0)
                status, answer = status if isinstance(status, tuple) else (status, b"{}")
                if status == 200:
                    collector.spans += spans_in(json.loads(body))
                self.send_response(status)
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *args):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.handle_error = lambda *args: None
        self.server.daemon_threads = True
        if certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*certificate)
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.url = "%s://127.0.0.1:%d/v1/traces" % ("https" if certificate else "http",
                                                    self.server.server_address[1])
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()

    def of_job(self, number, count):
        """The spans of a job by name, in the order of their end, once there are so many."""
        def found():
            mine = [s for s in self.spans if s["attributes"]["messaging.message.id"] == str(number)]
            return mine if len(mine) >= count else None
        mine = until(found, 60, "%d spans of job %s" % (count, number))
        equal(len(mine), count, "spans of job %s" % number)
        return mine

    def close(self):
        self.gate.set()
        self.server.shutdown()
        self.server.server_close()


def spans_in(request):
    for resource in request["resourceSpans"]:
        common = attributes(resource["resource"])
        for scope in resource["scopeSpans"]:
            equal(scope["scope"]["name"], "weir", "the scope")
            for span in scope["spans"]:
                yield {**span, "attributes": attributes(span), "resource": common}


def attributes(of):
    return {a["key"]: next(iter(a["value"].values())) for a in of["attributes"]}


def info(client):
    rows = dict(line.split(":", 1) for line in text(client("INFO")).split("\r\n") if ":" in line)
    return int(rows["telemetry_exported_spans"]), int(rows["telemetry_dropped_spans"])


def config(url, more=""):
    return 'telemetry { otlp = "%s" %s }\n' % (url, more)


def take(client, *queues):
    """The next job: its fields by place."""
    rows = client("CLAIM", "w1", "QUEUES", *(queues or ["default"]))
    return [text(f) if isinstance(f, bytes) else f for f in rows[0]] if rows else None


def named(spans, name):
    return [s for s in spans if s["name"] == name]


# ---------------------------------------------------------------- without a collector


@test("a traceparent is kept with the job, told by JOB, and handed out by CLAIM as it came")
def handed_on(folder):
    server = Server(folder)
    with server.client() as c, server.web() as web:
        first = c("ENQUEUE", "h", "", "TRACEPARENT", PARENT)
        equal(text(mapping(job(c, first)["options"])["traceparent"]), PARENT, "JOB")
        plain = c("ENQUEUE", "h", "")
        both = c("ENQUEUEMANY", "TRACEPARENT", UNSAMPLED, "MAXRUN", "60000", "JOBS", "h", "", "h", "")
        fields = take(c)
        equal((fields[0], len(fields), fields[12], fields[13]), (first, 14, 0, PARENT), "CLAIM")
        fields = take(c)
        equal((fields[0], len(fields)), (plain, 12), "a job without a trace is told as before")
        for wanted in both:
            fields = take(c)
            equal((fields[0], fields[12], fields[13]), (wanted, 60000, UNSAMPLED), "with MAXRUN")
        web.good("POST", "/v1/jobs", {"hook": "h", "queue": "web"}, ["traceparent: " + PARENT])
        got = web.good("POST", "/v1/claims", {"worker": "w", "queues": ["web"]})["jobs"][0]
        equal((got["traceparent"], "maxrun_ms" in got), (PARENT, False), "JSON")


@test("over HTTP the header is the default, a wrong header is ignored, a wrong member refused")
def header(folder):
    server = Server(folder)
    other = PARENT.replace("0af7", "1af7")

    def trace_of(number):
        return web.good("GET", "/v1/jobs/%d" % number)["options"].get("traceparent")

    with server.client() as c, server.web() as web:
        ids = web.good("POST", "/v1/jobs", [{"hook": "a"}, {"hook": "b", "traceparent": other}],
                       ["Traceparent: " + PARENT])["ids"]
        equal([trace_of(i) for i in ids], [PARENT, other], "of an array")
        for wrong in ("", "x", PARENT.upper(), PARENT + "-00", "ff" + PARENT[2:],
                      PARENT.replace(TRACE, "0" * 32), PARENT.replace(SPAN, "0" * 16)):
            number = web.good("POST", "/v1/jobs", {"hook": "a"}, ["traceparent: " + wrong])["id"]
            equal(trace_of(number), None, "the header " + wrong)
            if not wrong:
                continue
            answer = web.ask("POST", "/v1/jobs", {"hook": "a", "traceparent": wrong})
            equal(answer.status, 400, wrong)
            expect("lower-case hex" in answer.json["detail"], answer.json["detail"])
            c.refused("ENQUEUE", "a", "", "TRACEPARENT", wrong, name="BADARG",
                      mentions=["traceparent", "00-TRACE-SPAN-FLAGS"])
        first, again = (web.good("POST", "/v1/jobs", {"hook": "a"}, [
            "Idempotency-Key: k1", "traceparent: " + trace]) for trace in (PARENT, other))
        equal(again, first, "the same request in another trace")


@test("schedules, retries, history and export keep it")
def kept(folder):
    server = Server(folder)
    with server.client() as c:
        c("SCHEDULE", "s", "tick", "", "EVERY", "3600000", "QUEUE", "ticks", "TRACEPARENT", PARENT)
        equal(text(mapping(c("SCHEDULED", "s"))["traceparent"]), PARENT, "SCHEDULED")
        c("RUNSCHEDULE", "s")
        equal(take(c, "ticks")[13], PARENT, "of a schedule")
        number = c("ENQUEUE", "h", "", "TRACEPARENT", PARENT, "ATTEMPTS", "1")
        fields = take(c)
        c("FAIL", number, fields[1], "no")
        until(lambda: text(job(c, number)["status"]) == "failed" and c("RETRY", number), 60, "RETRY")
        equal(take(c)[13], PARENT, "after a retry")
        waiting = c("ENQUEUE", "h", "", "QUEUE", "moved", "TRACEPARENT", PARENT)
    done = weir("export", "--url", "%s:%d" % server.resp)
    equal(done.returncode, 0, done.stderr)
    second = Server(folder, data=os.path.join(folder, "second"))
    done = weir("import", "--url", "%s:%d" % second.resp, "-", input=done.stdout)
    equal(done.returncode, 0, done.stderr)
    with second.client() as c:
        equal(take(c, "moved")[13], PARENT, "job %s after a move" % waiting)


# ---------------------------------------------------------------- spans


@test("an attempt makes spans below that of the client, and the worker's hang below run")
def spans(folder):
    collector = Collector()
    headers = os.path.join(folder, "headers")
    with open(headers, "w") as f:
        f.write("X-Key: secret-1\n")
    os.chmod(headers, 0o600)
    server = Server(folder, config=config(collector.url, 'service = "shop" headers_file = "%s"' % headers))
    with server.client() as c:
        number = c("ENQUEUE", "mail", "{}", "GROUP", "g", "TRACEPARENT", PARENT, "ATTEMPTS", "2",
                   "BACKOFF", "none")
        c("ENQUEUE", "mail", "{}", "QUEUE", "silent", "TRACEPARENT", UNSAMPLED)
        c("ENQUEUE", "mail", "{}", "QUEUE", "silent")
        for queue in ("silent", "silent"):
            fields = take(c, queue)
            expect(len(fields) == 12 or fields[13] == UNSAMPLED, "not sampled: %s" % fields)
            c("COMPLETE", fields[0], fields[1])
        handed = []
        for report in (("RELEASE",), ("FAIL", "it \u2603 broke"), ("COMPLETE",)):
            fields = take(c)
            handed.append(fields[13])
            c(report[0], number, fields[1], *report[1:])
        mine = collector.of_job(number, 7)
        equal(sorted(s["name"] for s in mine), ["enqueue"] + ["run"] * 3 + ["wait"] * 3, "names")
        enqueue, = named(mine, "enqueue")
        runs, waits = named(mine, "run"), named(mine, "wait")
        equal({s["traceId"] for s in mine}, {TRACE}, "trace")
        equal(len({s["spanId"] for s in mine}), 7, "different spans")
        equal(enqueue["parentSpanId"], SPAN, "the parent of enqueue is the client's span")
        equal({s["parentSpanId"] for s in runs + waits}, {enqueue["spanId"]}, "parents")
        equal([h for h in handed], ["00-%s-%s-01" % (TRACE, s["spanId"]) for s in runs],
              "what workers were handed")
        equal((enqueue["kind"], waits[0]["kind"], runs[0]["kind"]), (PRODUCER, INTERNAL, CONSUMER), "kinds")
        for wait, run in zip(waits, runs):
            equal(wait["endTimeUnixNano"], run["startTimeUnixNano"], "run follows wait")
            expect(int(wait["startTimeUnixNano"]) <= int(wait["endTimeUnixNano"]) <=
                   int(run["endTimeUnixNano"]), "order of times")
        equal([s["attributes"]["weir.outcome"] for s in runs], ["released", "failed", "complete"], "ends")
        equal(runs[1]["status"], {"code": 2, "message": "it \u2603 broke"}, "status")
        expect("status" not in runs[0] and "status" not in runs[2], "no error")
        wanted = {"messaging.system": "weir", "messaging.destination.name": "default",
                  "messaging.operation.type": "process", "weir.hook": "mail", "weir.group": "g",
                  "weir.attempt": "1", "weir.attempts": "2", "weir.worker": "w1", "error.type": "failed"}
        equal({k: runs[1]["attributes"].get(k) for k in wanted}, wanted, "attributes")
        equal(runs[2]["attributes"]["weir.attempt"], "2", "the second attempt")
        equal(enqueue["resource"]["service.name"], "shop", "service")
        path, sent, _ = collector.requests[0]
        equal((path, sent["Content-Type"], sent["X-Key"]), ("/v1/traces", "application/json", "secret-1"),
              "the request")
        until(lambda: info(c) == (7, 0), 60, "the counters")
        equal(len(collector.spans), 7, "spans of sampled jobs alone")
    with server.web() as web:
        expect("\nweir_telemetry_exported_spans_total 7\n" in web.ask("GET", "/metrics").body.decode(),
               "/metrics")
    equal(server.stop(60), 0, "exit code")


@test("sample makes traces for jobs without one, and what waits is sent when weir stops")
def sampled(folder):
    collector = Collector()
    server = Server(folder, config=config(collector.url, "sample = 1"))
    with server.client() as c:
        number = c("ENQUEUE", "h", "", "TIMEOUT", "1000", "ATTEMPTS", "1")
        fields = take(c)
        handed = fields[13].split("-")
        canceled = c("ENQUEUE", "h", "")
        take(c)
        c("CANCEL", canceled)
        until(lambda: text(job(c, number)["status"]) == "failed", 60, "the time-out")
        equal(server.stop(60), 0, "exit code")
    mine = collector.of_job(number, 3)
    run, = named(mine, "run")
    enqueue, = named(mine, "enqueue")
    equal(handed, ["00", run["traceId"], run["spanId"], "01"], "what the worker was handed")
    expect("parentSpanId" not in enqueue, "weir began the trace")
    equal(run["status"], {"code": 2, "message": "timed out"}, "status")
    equal(run["attributes"]["error.type"], "timed_out", "its end")
    run, = named(collector.of_job(canceled, 3), "run")
    equal((run["attributes"]["weir.outcome"], "status" in run), ("canceled", False), "canceled")
    expect(run["traceId"] != mine[0]["traceId"], "two traces")


@test("weir work gives the run span to commands and to HTTP handlers")
def workers(folder):
    collector = Collector()
    target = Collector()  # its spans are none, its requests are looked at
    target.answers = [(201, b"ok")]
    server = Server(folder, config=config(collector.url))
    handlers = os.path.join(folder, "handlers.conf")
    with open(handlers, "w") as f:
        f.write('handler "env" { exec = "env" }\n'
                'handler "own" { exec = "env" env = {"TRACEPARENT=mine"} }\n'
                'handler "call" { http = "%s" allow = {"127.0.0.1/32"} }\n' % target.url)
    with server.client() as c:
        ids = {hook: c("ENQUEUE", hook, "", "TRACEPARENT", PARENT) for hook in ("env", "own", "call")}
        plain = c("ENQUEUE", "env", "")
        done = weir("work", "--url", "%s:%d" % server.resp, "--queue", "default", "--handlers", handlers,
                    "--once")
        equal(done.returncode, 0, done.stderr)

        def run_of(hook):
            run, = named(collector.of_job(ids[hook], 3), "run")
            return "00-%s-%s-01" % (TRACE, run["spanId"])

        def environment(number):
            result = until(lambda: job(c, number)["result"], 60, "the result")
            return dict(line.split("=", 1) for line in text(result).splitlines() if "=" in line)

        env = environment(ids["env"])
        equal((env["TRACEPARENT"], env["WEIR_TRACEPARENT"]), (run_of("env"), run_of("env")), "env")
        env = environment(ids["own"])
        equal((env["TRACEPARENT"], env["WEIR_TRACEPARENT"]), ("mine", run_of("own")), "its own")
        expect("WEIR_TRACEPARENT" not in environment(plain), "a job without a trace")
        _, sent, _ = target.requests[0]
        equal({k.lower(): v for k, v in sent.items()}["traceparent"], run_of("call"), "the header")


# ---------------------------------------------------------------- trouble


def end_some(client, n):
    ids = client("ENQUEUEMANY", "TRACEPARENT", PARENT, "JOBS", *(["h", ""] * n))
    rows = client("CLAIM", "w1", "MAX", n, "QUEUES", "default")
    for row in rows:
        client("COMPLETE", row[0], row[1])
    return ids


@test("a collector that is away, refuses or is slow costs spans and nothing else")
def trouble(folder):
    begin = time.monotonic()
    collector = Collector(503, 200)
    server = Server(folder, config=config(collector.url, "queue_limit = 100"))
    with server.client() as c:
        number, = end_some(c, 1)
        collector.of_job(number, 3)
        equal(len(collector.requests), 2, "a 503 is tried again")
        until(lambda: info(c) == (3, 0), 60, "counted once")

        collector.answers = [400]
        end_some(c, 1)
        until(lambda: info(c) == (3, 3), 60, "a 400 is not tried again")
        equal(len(collector.requests), 3, "requests")

        collector.answers = [(200, b'{"partialSuccess":{"rejectedSpans":"2","errorMessage":"no"}}')]
        end_some(c, 1)
        until(lambda: info(c) == (4, 5), 60, "those that were rejected")

        collector.answers = [200]
        collector.gate.clear()
        end_some(c, 1)
        until(lambda: len(collector.requests) >= 5, 60, "a request that hangs")
        end_some(c, 200)
        equal(info(c), (4, 5 + 600 - 99), "what does not fit is dropped at once")
        collector.gate.set()
        until(lambda: info(c) == (4 + 3 + 99, 5 + 501), 60, "what did fit is sent")

        lines = [line for line in server.log().splitlines() if "spans were dropped" in line]
        expect(len(lines) <= 1 + (time.monotonic() - begin) // 60, "a warning a minute: %s" % lines)
        expect("HTTP 400" in lines[0], lines[0])
        with open(os.path.join(folder, "weir.conf"), "w") as f:
            f.write(config("http://127.0.0.1:1/v1/traces"))
        c("CONFIGRELOAD")
        end_some(c, 1)
        until(lambda: info(c) == (106, 509), 60, "nobody listens")
        equal(server.stop(60), 0, "exit code")
    collector.close()


@test("a slow collector does not keep weir from stopping")
def slow_stop(folder):
    collector = Collector()
    server = Server(folder, config=config(collector.url))
    collector.gate.clear()
    with server.client() as c:
        end_some(c, 1)
        until(lambda: collector.requests, 60, "a request that hangs")
    equal(server.stop(60), 0, "exit code")
    collector.close()


@test("https wants a certificate that it knows, and a reload changes everything")
def encrypted(folder):
    authority = Authority(os.path.join(folder, "tls"), "ca")
    collector = Collector(certificate=authority.sign("collector", "IP:127.0.0.1"))
    server = Server(folder, config=config(collector.url))
    path = os.path.join(folder, "weir.conf")

    def reload(text_of):
        with open(path, "w") as f:
            f.write(text_of)
        return c("CONFIGRELOAD")

    with server.client() as c:
        end_some(c, 1)
        until(lambda: info(c) == (0, 3), 60, "an unknown authority")
        expect("certificate" in server.log(), "the reason is in the log")
        reload(config(collector.url, 'ca = "%s"' % authority.cert))
        number, = end_some(c, 1)
        collector.of_job(number, 3)
        for wrong, word in (('otlp = "ftp://x/"', "http://"), ('otlp = "http://x"', "path"),
                            ('otlp = "http://a:b@c/d"', "headers_file"), ('sample = 2', "sample"),
                            ('queue_limit = 3', "queue_limit"), ('ca = "/nonexistent"', "ca"),
                            ('headers_file = "%s"' % path, "chmod 600")):
            try:
                reload("telemetry { %s }\n" % wrong)
                expect(False, "taken: " + wrong)
            except WeirError as error:
                expect(word in error.detail and "weir.conf" in error.detail, "%s: %s" % (wrong, error.detail))
        reload("")
        c("ENQUEUE", "h", "", "TRACEPARENT", PARENT)
        equal(take(c)[13], PARENT, "without the section the trace is handed on as it came")
    equal(server.stop(60), 0, "exit code")


main()
