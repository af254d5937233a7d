#!/usr/bin/python3
# weir-test: timeout=200 tsan
"""Malformed HTTP and JSON of every kind.  Each gets a problem+json answer with a stable code and a
detail that names what was wrong; nothing is changed; the next request of the connection works
unless the end of the bad one cannot be known."""
import json
import os
import sys
import urllib.parse

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "fault"))

from harness import (  # noqa: E402
    Closed, Server, Watch, check_problem, equal, expect, main, short, test)

JOB = {"hook": "h", "args": 1}
TOKEN = "0" * 32


def state_of(server):
    with server.client() as c:
        return c("JOBS", "LIMIT", 1000), c("QUEUES")


def post(web, body, path="/v1/jobs", headers=()):
    return web.ask("POST", path, body, headers)


# Bodies that are not JSON: 400 SYNTAX, with a place.
BAD_JSON = [
    b"", b" ", b"{", b"}", b"[", b"]", b"{]", b"[}", b'{"hook"', b'{"hook":', b'{"hook":"h"',
    b'{"hook":"h",}', b'{"hook":"h","args":1,}', b'{,"hook":"h"}', b'{"hook" "h"}',
    b'{hook:"h","args":1}', b"{'hook':'h','args':1}", b'{"hook":"h","args":01}',
    b'{"hook":"h","args":+1}', b'{"hook":"h","args":.5}', b'{"hook":"h","args":1.}',
    b'{"hook":"h","args":1e}', b'{"hook":"h","args":-}', b'{"hook":"h","args":0x1}',
    b'{"hook":"h","args":NaN}', b'{"hook":"h","args":Infinity}', b'{"hook":"h","args":nul}',
    b'{"hook":"h","args":True}', b'{"hook":"h","args":"a\nb"}', b'{"hook":"h","args":"a\x00b"}',
    b'{"hook":"h","args":"\\x41"}', b'{"hook":"h","args":"\\u12"}',
    b'{"hook":"h","args":"\\ud800"}',
    b'{"hook":"h","args":"\\udc00\\ud800"}', b'{"hook":"h","args":"\xff"}',
    b'{"hook":"h","args":"\xc0\xaf"}', b'{"hook":"h","args":"\xed\xa0\x80"}',
    b'{"hook":"h","args":"abc', b'{"hook":"h","args":1} x', b'{"hook":"h","args":1}{}',
    b'\xef\xbb\xbf{"hook":"h","args":1}', b'{"hook":"h","args":1}\x00',
    b'/**/{"hook":"h","args":1}',
    b'{"hook":"h","args":[1 2]}', b'{"hook":"h","args":[1,]}', b'{"hook":"h","args":[,1]}',
    b'{"hook":"h","args":tru', b"nonsense", b"\x80\x81",
]

# JSON that is not what is asked for.
#   body                                             code        mentions
BAD_VALUES = [
    ("null", "BADARG", "object"), ("1", "BADARG", "object"), ('"x"', "BADARG", "object"),
    ("true", "BADARG", "object"),
    ("[]", "BADARG", "array"), ("[1]", "BADARG", "job 0"), ("[[]]", "BADARG", "job 0"),
    ('[{"hook":"h","args":1},{"args":1}]', "BADARG", "job 1"),
    ('[{"hook":"h","args":1},{"hook":"","args":1}]', "BADARG", "job 1"),
    ('[{"hook":"h","args":1},null]', "BADARG", "job 1"),
    ('[{"hook":"h","args":1},{"hook":"h","args":1,"in":1,"at":1}]', "BADARG", "job 1"),
    ("{}", "BADARG", "hook"),
    ('{"args":1}', "BADARG", "hook"),
    ('{"hook":1,"args":1}', "BADARG", "hook"), ('{"hook":null,"args":1}', "BADARG", "hook"),
    ('{"hook":["h"],"args":1}', "BADARG", "hook"), ('{"hook":"","args":1}', "BADARG", "hook"),
    ('{"hook":"a\\u0000b","args":1}', "BADARG", "hook"),
    ('{"hook":"a\\nb","args":1}', "BADARG", "hook"),
    ('{"hook":"h","args":1,"nope":1}', "BADARG", "nope"),
    ('{"hook":"h","args":1,"Queue":"q"}', "BADARG", "Queue"),
    ('{"hook":"h","args":1,"":1}', "BADARG", "known"),
    ('{"hook":"h","hook":"h","args":1}', "BADARG", "hook"),
    ('{"hook":"h","args":1,"args":2}', "BADARG", "args"),
    ('{"hook":"h","args":1,"\\u0061rgs":2}', "BADARG", "args"),
    ('{"hook":"h","args":1,"args_base64":"eA=="}', "BADARG", "args"),
    ('{"hook":"h","args_base64":"***"}', "BADARG", "args_base64"),
    ('{"hook":"h","args_base64":1}', "BADARG", "args_base64"),
    ('{"hook":"h","args":1,"priority":"1"}', "BADARG", "priority"),
    ('{"hook":"h","args":1,"priority":1.5}', "BADARG", "priority"),
    ('{"hook":"h","args":1,"priority":-1}', "BADARG", "priority"),
    ('{"hook":"h","args":1,"priority":256}', "BADARG", "priority"),
    ('{"hook":"h","args":1,"priority":1e2000}', "BADARG", "priority"),
    ('{"hook":"h","args":1,"priority":99999999999999999999}', "BADARG", "priority"),
    ('{"hook":"h","args":1,"priority":true}', "BADARG", "priority"),
    ('{"hook":"h","args":1,"priority":null}', "BADARG", "priority"),
    ('{"hook":"h","args":1,"priority":[]}', "BADARG", "priority"),
    ('{"hook":"h","args":1,"queue":1}', "BADARG", "queue"),
    ('{"hook":"h","args":1,"queue":""}', "BADARG", "queue"),
    ('{"hook":"h","args":1,"in":1,"at":1}', "BADARG", "at"),
    ('{"hook":"h","args":1,"in":0,"at":1}', "BADARG", "at"),
    ('{"hook":"h","args":1,"in":-1}', "BADARG", "in"),
    ('{"hook":"h","args":1,"in":315360000001}', "BADARG", "in"),
    ('{"hook":"h","args":1,"attempts":0}', "BADARG", "attempts"),
    ('{"hook":"h","args":1,"attempts":1001}', "BADARG", "attempts"),
    ('{"hook":"h","args":1,"timeout":99}', "BADARG", "timeout"),
    ('{"hook":"h","args":1,"timeout":86400001}', "BADARG", "timeout"),
    ('{"hook":"%s","args":1}' % ("n" * 256), "TOOBIG", "hook"),
]

#   method  path                 body                       status code mentions
BAD_REQUESTS = [
    ("POST", "/v1/claims", {}, 400, "BADARG", "worker"),
    ("POST", "/v1/claims", {"worker": "w"}, 400, "BADARG", "queues"),
    ("POST", "/v1/claims", {"worker": "w", "queues": []}, 400, "BADARG", "queues"),
    ("POST", "/v1/claims", {"worker": "w", "queues": "q"}, 400, "BADARG", "queues"),
    ("POST", "/v1/claims", {"worker": "w", "queues": [1]}, 400, "BADARG", "queues"),
    ("POST", "/v1/claims", {"worker": "w", "queues": [""]}, 400, "BADARG", "queues"),
    ("POST", "/v1/claims", {"worker": "w", "queues": ["q"], "max": 0}, 400, "BADARG", "max"),
    ("POST", "/v1/claims", {"worker": "w", "queues": ["q"], "max": 1001}, 400, "BADARG", "max"),
    ("POST", "/v1/claims", {"worker": "w", "queues": ["q"], "wait": -1}, 400, "BADARG", "wait"),
    ("POST", "/v1/claims", {"worker": "w", "queues": ["q"], "wait": 600001}, 400, "BADARG", "wait"),
    ("POST", "/v1/claims", {"worker": "w", "queues": ["q"], "lease": 99}, 400, "BADARG", "lease"),
    ("POST", "/v1/claims", {"worker": "w", "queues": ["q"] * 65}, 413, "TOOBIG", "queues"),
    ("POST", "/v1/claims", {"worker": "w", "queues": ["q"], "limit": 1}, 400, "BADARG", "limit"),
    ("POST", "/v1/claims", [], 400, "BADARG", "object"),
    ("POST", "/v1/jobs/1/complete", {}, 400, "BADARG", "token"),
    ("POST", "/v1/jobs/1/complete", {"token": "zz"}, 400, "BADARG", "token"),
    ("POST", "/v1/jobs/1/complete", {"token": 5}, 400, "BADARG", "token"),
    ("POST", "/v1/jobs/1/complete", {"token": TOKEN, "id": 1}, 400, "BADARG", "id"),
    ("POST", "/v1/jobs/1/complete", {"token": TOKEN, "claim": 1}, 400, "BADARG", "claim"),
    ("POST", "/v1/jobs/1/complete", {"token": TOKEN, "claim": {"worker": "w"}}, 400, "BADARG",
     "queues"),
    ("POST", "/v1/jobs/1/complete", {"token": TOKEN}, 409, "NOTOWNER", "1"),
    ("POST", "/v1/jobs/1/fail", {"token": TOKEN}, 400, "BADARG", "error"),
    ("POST", "/v1/jobs/1/fail", {"token": TOKEN, "error": 5}, 400, "BADARG", "error"),
    ("POST", "/v1/jobs/1/fail", {"token": TOKEN, "error": "e"}, 409, "NOTOWNER", "1"),
    ("POST", "/v1/jobs/1/fail", {"token": TOKEN, "error": "e", "noretry": True, "retryin": 1}, 400,
     "BADARG", "retryin and noretry"),
    ("POST", "/v1/jobs/1/fail", {"token": TOKEN, "error": "e", "noretry": "yes"}, 400, "BADARG",
     "noretry"),
    ("POST", "/v1/jobs/1/release", {"token": TOKEN}, 409, "NOTOWNER", "1"),
    ("POST", "/v1/jobs/1/extend", {"token": TOKEN}, 400, "BADARG", "ms"),
    ("POST", "/v1/jobs/1/extend", {"token": TOKEN, "ms": 1000}, 409, "NOTOWNER", "1"),
    ("POST", "/v1/jobs/1/progress", {"token": TOKEN}, 400, "BADARG", "text"),
    ("POST", "/v1/jobs/424242/complete", {"token": TOKEN}, 404, "NOTFOUND", "424242"),
    ("POST", "/v1/queues/none/resume", None, 404, "NOTFOUND", "none"),
    ("POST", "/v1/queues/%ff/pause", None, 400, "BADARG", "queue"),
    ("POST", "/v1/queues/%00/pause", None, 400, "BADARG", ""),
    ("POST", "/v1/queues/%zz/pause", None, 400, "BADARG", "percent"),
    ("POST", "/v1/queues/q/pause", {"x": 1}, 400, "BADARG", "x"),
    ("GET", "/v1/jobs/x", None, 400, "BADARG", "id"),
    ("GET", "/v1/jobs/0", None, 400, "BADARG", "id"),
    ("GET", "/v1/jobs/-1", None, 400, "BADARG", "id"),
    ("GET", "/v1/jobs/9223372036854775808", None, 400, "BADARG", "id"),
    ("GET", "/v1/jobs/424242", None, 404, "NOTFOUND", "424242"),
    ("GET", "/v1/jobs/424242/events", None, 404, "NOTFOUND", "424242"),
    ("DELETE", "/v1/jobs/424242", None, 404, "NOTFOUND", "424242"),
    ("GET", "/v1/jobs?nope=1", None, 400, "BADARG", "nope"),
    ("GET", "/v1/jobs?limit=0", None, 400, "BADARG", "limit"),
    ("GET", "/v1/jobs?limit=1001", None, 400, "BADARG", "limit"),
    ("GET", "/v1/jobs?limit=x", None, 400, "BADARG", "limit"),
    ("GET", "/v1/jobs?limit=1&limit=2", None, 400, "BADARG", "limit"),
    ("GET", "/v1/jobs?status=done", None, 400, "BADARG", "status"),
    ("GET", "/v1/jobs?cursor=zz", None, 400, "BADARG", "cursor"),
    ("GET", "/v1/jobs?hook=%ff", None, 400, "BADARG", "hook"),
    ("GET", "/v1/jobs?hook=%4", None, 400, "BADARG", "percent"),
    # addresses and methods
    ("GET", "/nope", None, 404, "UNKNOWN", "/nope"),
    ("GET", "/v1", None, 404, "UNKNOWN", "/v1"),
    ("GET", "/v1/jobs/", None, 404, "UNKNOWN", "/v1/jobs/"),
    ("GET", "/v1/jobs/1/nope", None, 404, "UNKNOWN", "nope"),
    ("GET", "/v1/../etc/passwd", None, 404, "UNKNOWN", "passwd"),
    ("GET", "//v1/jobs", None, 404, "UNKNOWN", "jobs"),
    ("PUT", "/v1/jobs", JOB, 405, "METHOD", "takes"),
    ("PATCH", "/v1/jobs/1", JOB, 405, "METHOD", "takes"),
    ("DELETE", "/v1/jobs", None, 405, "METHOD", "takes"),
    ("GET", "/v1/claims", None, 405, "METHOD", "takes"),
    ("POST", "/v1/queues", JOB, 405, "METHOD", "takes"),
    ("POST", "/metrics", JOB, 405, "METHOD", "takes"),
    ("DELETE", "/healthz", None, 405, "METHOD", "takes"),
]


@test("a body that is not JSON is refused with its place, and the connection goes on")
def _(folder):
    server = Server(folder)
    with server.web() as web:
        before = state_of(server)
        for body in BAD_JSON:
            answer = post(web, body)
            check_problem(answer, 400, ("SYNTAX", "BADARG"), "", short(body))
            equal(web.ask("GET", "/healthz").status, 200, "after %s" % short(body))
        equal(state_of(server), before, "the state")


@test("JSON of a wrong shape is refused by name, changes nothing, and the connection goes on")
def _(folder):
    server = Server(folder)
    with server.web() as web:
        before = state_of(server)
        for body, code, mention in BAD_VALUES:
            answer = post(web, body.encode())
            check_problem(answer, 413 if code == "TOOBIG" else 400, code, mention, body[:80])
            equal(web.ask("GET", "/healthz").status, 200, "after %s" % body[:80])
        equal(state_of(server), before, "the state")


@test("a wrong request is refused with status, code and reason, and the connection goes on")
def _(folder):
    server = Server(folder)
    with server.web() as web:
        equal(web.good("POST", "/v1/jobs", JOB)["id"], 1)
        before = state_of(server)
        for method, path, body, status, code, mention in BAD_REQUESTS:
            what = "%s %s %s" % (method, path, short(body, 80))
            answer = web.ask(method, path, body)
            check_problem(answer, status, code, mention, what)
            if status == 405:
                expect(answer.header("allow"), what + ": no Allow header")
            equal(web.ask("GET", "/healthz").status, 200, "after " + what)
        equal(state_of(server), before, "the state")


@test("a body of another type is refused with 415")
def _(folder):
    server = Server(folder)
    with server.web() as web:
        for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data",
                     "application/jsonx", "application/xml", "json", ""):
            answer = post(web, JOB, headers=["Content-Type: " + kind])
            check_problem(answer, 415, "MEDIA", "application/json", kind)
        body = json.dumps(JOB).encode()
        web.send(web.head("POST", "/v1/jobs", ["Content-Length: %d" % len(body)]) + body)
        check_problem(web.read(), 415, "MEDIA", "application/json", "no content type")
        for kind in ("application/json", "application/json; charset=utf-8", "Application/JSON",
                     "application/json;charset=UTF-8"):
            expect(post(web, JOB, headers=["Content-Type: " + kind]).status in (200, 201), kind)


@test("the body of a refusal is text, whatever was sent, and is cut between characters")
def _(folder):
    server = Server(folder)
    with server.web() as web:
        for euros in ("a" * n + "\u20ac" * 100 for n in range(3)):
            quoted = urllib.parse.quote(euros)
            for method, path, body in (
                    ("GET", "/nosuch/" + quoted, None), ("GET", "/v1/queues/" + quoted, None),
                    ("GET", "/v1/jobs?status=" + quoted, None), ("GET", "/v1/jobs?x" + quoted + "=1", None),
                    ("GET", "/v1/jobs?after=%zz" + quoted, None), ("POST", "/v1/jobs", {euros: 1}),
                    ("POST", "/v1/jobs", {"hook": "h", "priority": euros}),
                    ("POST", "/v1/check", {"identity": "a", "target": euros}),
                    ("GET", "/check-read/a/mysql/local/" + quoted, None),
                    ("GET", "/throttler/throttle-app?app=a&ratio=" + quoted, None),
                    ("GET", "/throttler/throttle-app?app=a&duration=1" + quoted, None)):
                answer = web.ask(method, path, body)
                expect(answer.status >= 400, "%s %s: %r" % (method, path, answer))
                said = answer.body.decode("utf-8")  # raises when it is none
                expect("\ufffd" not in said and "?" not in said, "%s: %s" % (path, said))
        for what in (b"\xff" * 60, b"a\xc3", b"\xe2\x82"):
            for data in (b"GET /nosuch/" + what + b" HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
                         b"GET /v1/jobs?" + what + b"=1 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"):
                answer, _ = raw(server, data)
                expect(answer.status >= 400, "%r: %r" % (data, answer))
                answer.body.decode("utf-8")  # raises when it is none


def raw(server, data):
    """Sends bytes on a new connection; the answer, and whether it is closed afterwards."""
    with server.web() as web:
        web.send(data)
        answer = web.read()
        return answer, web.is_closed(5)


HEAD = b"POST /v1/jobs HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
BODY = json.dumps(JOB).encode()

# Requests whose end cannot be known or trusted: one error, then the connection closes.
FATAL = [
    ("two Content-Length", HEAD + b"Content-Length: 5\r\nContent-Length: 24\r\n\r\n" + BODY),
    ("the same Content-Length twice",
     HEAD + b"Content-Length: %d\r\nContent-Length: %d\r\n\r\n" % (len(BODY), len(BODY)) + BODY),
    ("Content-Length and Transfer-Encoding",
     HEAD + b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
    ("Transfer-Encoding and Content-Length",
     HEAD + b"Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\n"),
    ("a negative Content-Length", HEAD + b"Content-Length: -1\r\n\r\n"),
    ("a Content-Length that is no number", HEAD + b"Content-Length: ten\r\n\r\n"),
    ("a Content-Length with a sign", HEAD + b"Content-Length: +5\r\n\r\n12345"),
    ("a Content-Length list", HEAD + b"Content-Length: 5, 5\r\n\r\n12345"),
    ("a Content-Length beyond 64 bits", HEAD + b"Content-Length: 99999999999999999999\r\n\r\n"),
    ("an unknown transfer coding", HEAD + b"Transfer-Encoding: gzip\r\n\r\n"),
    ("chunked and something else", HEAD + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n"),
    ("chunked that is not last", HEAD + b"Transfer-Encoding: chunked, gzip\r\n\r\n0\r\n\r\n"),
    ("chunked spelled with a control character",
     HEAD + b"Transfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n"),
    ("Transfer-Encoding in HTTP/1.0",
     b"POST /v1/jobs HTTP/1.0\r\nHost: x\r\nContent-Type: application/json\r\n"
     b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
    ("a chunk size that is no number", HEAD + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n"),
    ("a chunk size with a sign",
     HEAD + b"Transfer-Encoding: chunked\r\n\r\n+5\r\nhello\r\n0\r\n\r\n"),
    ("a chunk longer than its size",
     HEAD + b"Transfer-Encoding: chunked\r\n\r\n2\r\nabc\r\n0\r\n\r\n"),
    ("a huge chunk size", HEAD + b"Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n"),
    ("a header without a colon", b"GET /healthz HTTP/1.1\r\nHost: x\r\nnonsense\r\n\r\n"),
    ("a header with a space before the colon",
     b"GET /healthz HTTP/1.1\r\nHost: x\r\nX-A : 1\r\n\r\n"),
    ("a folded header", b"GET /healthz HTTP/1.1\r\nHost: x\r\nX-A: 1\r\n  2\r\n\r\n"),
    ("a NUL in a header", b"GET /healthz HTTP/1.1\r\nHost: x\r\nX-A: 1\x002\r\n\r\n"),
    ("a bare CR in a header", b"GET /healthz HTTP/1.1\r\nHost: x\r\nX-A: 1\r2\r\n\r\n"),
    ("lines that end in LF", b"GET /healthz HTTP/1.1\nHost: x\n\n"),
    ("no Host", b"GET /healthz HTTP/1.1\r\n\r\n"),
    ("two Hosts", b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nHost: evil\r\n\r\n"),
    ("no version", b"GET /healthz\r\n\r\n"),
    ("HTTP/2.0 in words", b"GET /healthz HTTP/2.0\r\nHost: x\r\n\r\n"),
    ("HTTP/9.9", b"GET /healthz HTTP/9.9\r\nHost: x\r\n\r\n"),
    ("a method that is none", b"G@T /healthz HTTP/1.1\r\nHost: x\r\n\r\n"),
    ("a space in the address", b"GET /a b HTTP/1.1\r\nHost: x\r\n\r\n"),
    ("RESP on the HTTP port", b"*1\r\n$4\r\nPING\r\n"),
    ("an inline command on the HTTP port", b"ENQUEUE hook args\r\n"),
    ("a TLS hello", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"x" * 40 + b"\r\n\r\n"),
    ("binary noise", bytes(range(256)) * 4),
]


@test("a request whose end cannot be trusted gets one error, and the connection closes")
def _(folder):
    server = Server(folder)
    before = state_of(server)
    for what, data in FATAL:
        with server.web() as web:
            # What follows must not be taken for a request of its own.
            web.send(data + b"\r\n\r\nPOST /v1/queues/smuggled/pause HTTP/1.1\r\n"
                     b"Host: 127.0.0.1\r\nContent-Length: 0\r\n\r\n")
            try:
                answer = web.read()
            except Closed:
                continue
            expect(400 <= answer.status < 600, "%s: %r" % (what, answer))
            expect((answer.header("content-type") or "").startswith("application/problem+json"),
                   "%s: %r" % (what, answer.headers))
            expect(web.is_closed(5), what + ": the connection stays open")
    equal(state_of(server), before, "the state")


@test("heads and bodies past their limits are refused with 431, 414 or 413")
def _(folder):
    server = Server(folder)
    before = state_of(server)
    answer, closed = raw(server, b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nX-A: " +
                         b"a" * 17000 + b"\r\n\r\n")
    equal((answer.status, closed), (431, True), "a long header")
    answer, closed = raw(server, b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n" +
                         b"".join(b"X-%d: y\r\n" % i for i in range(3000)) + b"\r\n")
    equal((answer.status, closed), (431, True), "many headers")
    answer, closed = raw(server, b"GET /" + b"a" * 17000 + b" HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
    expect(answer.status in (414, 431) and closed, "a long address: %r" % answer)
    answer, closed = raw(server, HEAD + b"Content-Length: 33554433\r\n\r\n")
    check_problem(answer, 413, "TOOBIG", "", "a body announced one byte too long")
    expect(closed, "an oversized body: still open")
    with server.web(seconds=30) as web:
        web.send(HEAD + b"Transfer-Encoding: chunked\r\n\r\n3000000\r\n")
        try:
            for _ in range(48):
                web.send(b"x" * (1 << 20))
        except OSError:
            pass  # it has heard enough
        check_problem(web.read(), 413, "TOOBIG", "", "a chunk too long")
        expect(web.is_closed(5), "an oversized chunk: still open")
    equal(state_of(server), before, "the state")


@test("chunked bodies are joined, with extensions and trailers")
def _(folder):
    server = Server(folder)
    with server.web() as web:
        data = json.dumps({"hook": "h", "args": "x" * 500}).encode()
        chunks = b"".join(b"%x;ext=1\r\n%s\r\n" % (len(data[i:i + 7]), data[i:i + 7])
                          for i in range(0, len(data), 7))
        web.send(web.head("POST", "/v1/jobs", ["Content-Type: application/json",
                                               "Transfer-Encoding: chunked"]) + chunks +
                 b"0\r\nX-Trailer: 1\r\n\r\n")
        answer = web.read()
        expect(answer.status in (200, 201), repr(answer))
        job_id = answer.json["id"]
        equal(web.good("GET", "/v1/jobs/%d" % job_id)["args"], "x" * 500)


@test("Expect: 100-continue is answered before the body, and a refusal comes instead of it")
def _(folder):
    server = Server(folder, token="a-good-long-token-0123456789")
    with server.web() as web:
        web.send(web.head("POST", "/v1/jobs", ["Content-Type: application/json",
                                               "Content-Length: %d" % len(BODY),
                                               "Expect: 100-continue"]))
        equal(web.read().status, 100)
        web.send(BODY)
        expect(web.read().status in (200, 201), "after the body")
    with server.web() as web:
        web.token = None
        web.send(web.head("POST", "/v1/jobs", ["Content-Type: application/json",
                                               "Content-Length: 30000000",
                                               "Expect: 100-continue"]))
        check_problem(web.read(), 401, ("NOAUTH", "BADTOKEN"), "", "no token")
    with server.web() as web:
        web.send(web.head("POST", "/v1/jobs", ["Content-Type: application/json",
                                               "Content-Length: 99999999",
                                               "Expect: 100-continue"]))
        check_problem(web.read(), 413, "TOOBIG", "", "too large")
    with server.web() as web:
        web.send(web.head("POST", "/v1/jobs", ["Content-Length: 2", "Expect: nonsense"]))
        expect(web.read().status in (417, 400), "an unknown expectation")


@test("HEAD is GET without a body, and OPTIONS names the methods")
def _(folder):
    server = Server(folder)
    with server.web() as web:
        for path in ("/healthz", "/v1/queues", "/metrics", "/openapi.json", "/v1/jobs"):
            get = web.ask("GET", path)
            head = web.ask("HEAD", path)
            equal(head.status, get.status, "HEAD " + path)
            equal(head.header("content-type"), get.header("content-type"), path)
            expect(head.header("content-length"), "HEAD %s has no length" % path)
        equal(web.ask("HEAD", "/v1/jobs/99").status, 404)
        options = web.ask("OPTIONS", "/v1/jobs")
        expect(options.status in (200, 204), repr(options))
        for method in ("GET", "POST", "OPTIONS"):
            expect(method in options.header("allow"), options.header("allow"))
        expect(not options.header("access-control-allow-origin"), "CORS is open to everybody")
        expect(web.ask("OPTIONS", "*").status in (200, 204), "OPTIONS *")
        equal(web.ask("GET", "/healthz").status, 200, "afterwards")


@test("pipelined requests are answered in order, good and bad, also after a waiting claim")
def _(folder):
    server = Server(folder)
    with server.web() as web, server.client() as c:
        def request(method, path, body=None):
            data = json.dumps(body).encode() if body is not None else b""
            headers = ["Content-Type: application/json",
                       "Content-Length: %d" % len(data)] if body is not None else []
            return web.head(method, path, headers) + data

        web.send(request("POST", "/v1/jobs", JOB) + request("GET", "/nope") +
                 request("POST", "/v1/jobs", {}) + request("POST", "/v1/jobs", JOB) +
                 request("GET", "/healthz"))
        equal([web.read().status // 100 for _ in range(5)], [2, 4, 4, 2, 2], "statuses")
        web.send(request("POST", "/v1/claims", {"worker": "w", "queues": ["later"], "wait": 20000})
                 + request("GET", "/v1/queues") + request("GET", "/nope"))
        c("PING")
        job_id = c("ENQUEUE", "h", "1", "QUEUE", "later")
        equal(web.read().json["jobs"][0]["id"], job_id)
        equal([web.read().status, web.read().status], [200, 404])


@test("Connection: close and HTTP/1.0 close after the answer")
def _(folder):
    server = Server(folder)
    answer, closed = raw(server, b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n"
                         b"Connection: close\r\n\r\n")
    equal((answer.status, closed), (200, True))
    answer, closed = raw(server, b"GET /healthz HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n")
    equal((answer.status, closed), (200, True))


@test("a Host that is not this machine is refused when no token protects it")
def _(folder):
    server = Server(folder)
    with server.web() as web:
        for host in ("evil.example", "evil.example:80", "localhost.evil.example", "0.0.0.0.evil",
                     "127.0.0.1.evil.example", "", "[::1].evil.test", "[::1]:80.evil.test",
                     "[::1]x", "[::1]:", "[::2]", "[::1", "127.0.0.1:80.evil.test", "127.0.0.1:",
                     "localhost:x", "localhost:80@evil.test", "localhost@evil.test",
                     "user@localhost", "localhost.", "localhost.:80", "127.0.0.1.", "127.1",
                     "localhost:123456", "localhost:99999", "2130706433", "128.0.0.1"):
            web.send(b"GET /v1/queues HTTP/1.1\r\nHost: %s\r\n\r\n" % host.encode())
            answer = web.read()
            expect(answer.status in (400, 421), "Host %r: %r" % (host, answer))
            if answer.status == 421:
                check_problem(answer, 421, "HOST", "", host)
            if web.is_closed(0.1):
                web.socket.close()
                web.__init__(server.http)
        # The address of a request line counts in place of Host.
        for target in (b"http://[::1].evil.test/v1/queues", b"http://a@evil.test/v1/queues"):
            web.send(b"GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n" % target)
            check_problem(web.read(), 421, "HOST", "", target.decode())
        for host in ("127.0.0.1", "127.0.0.1:1234", "localhost", "LOCALHOST:7380", "[::1]",
                     "[::1]:80", "127.9.8.7:65535", "localhost:0"):
            web.send(b"GET /v1/queues HTTP/1.1\r\nHost: %s\r\n\r\n" % host.encode())
            equal(web.read().status, 200, "Host " + host)


@test("a request from another site's page is refused")
def _(folder):
    server = Server(folder)
    before = state_of(server)
    with server.web() as web:
        for header in ("Origin: http://evil.example", "Origin: null",
                       "Sec-Fetch-Site: cross-site"):
            answer = post(web, JOB, headers=[header])
            check_problem(answer, 403, "FORBIDDEN", "", header)
    equal(state_of(server), before, "the state")


@test("with a token, requests without it are refused, and liveness is not")
def _(folder):
    token = "a-good-long-token-0123456789"
    server = Server(folder, token=token)
    with server.web() as web:
        equal(web.ask("GET", "/v1/queues").status, 200)
        web.token = None
        check_problem(web.ask("GET", "/v1/queues"), 401, "NOAUTH", "", "no token")
        expect(web.ask("GET", "/v1/queues").header("www-authenticate"), "no WWW-Authenticate")
        equal(web.ask("GET", "/healthz").status, 200)
        for bad in ("Bearer wrong-token-wrong-token", "Bearer", "Bearer " + token + "x",
                    "Basic eDp5", token, "bearer"):
            answer = web.ask("GET", "/v1/queues", headers=["Authorization: " + bad])
            check_problem(answer, 401, ("NOAUTH", "BADTOKEN"), "", bad)
        answer = web.ask("GET", "/v1/queues", headers=["Authorization: bearer " + token])
        equal(answer.status, 200, "the scheme in lower case")
        check_problem(web.ask("GET", "/metrics"), 401, "NOAUTH", "", "/metrics")


@test("without a token shown a connection lives 5 s, whatever it says or does not say")
def _(folder):
    server = Server(folder, token="a-good-long-token-0123456789")
    watch = Watch()
    silent, half, healthy, good = [server.web() for _ in range(4)]
    half.send(b"GET /healthz HTTP/1.1\r\nHo")
    healthy.token = None
    equal(healthy.ask("GET", "/healthz").status, 200)
    equal(good.ask("GET", "/v1/queues").status, 200)
    for what, web in (("silent", silent), ("half", half), ("healthy", healthy)):
        expect(web.is_closed(60), "a %s connection stays open" % what)
        expect(watch.wall > 4.5, "a %s connection was cut after %.1f s" % (what, watch.wall))
        watch.within(8, "cutting a %s connection" % what)
    equal(good.ask("GET", "/v1/queues").status, 200, "who has shown the token stays")


@test("a request may arrive byte by byte")
def _(folder):
    server = Server(folder)
    with server.web() as web:
        for byte in web.head("POST", "/v1/jobs", ["Content-Type: application/json",
                                                  "Content-Length: %d" % len(BODY)]) + BODY:
            web.send(bytes([byte]))
        expect(web.read().status in (200, 201), "dripped")


@test("payloads keep their exact JSON bytes, and bytes that are no JSON come as base64")
def _(folder):
    server = Server(folder)
    with server.web() as web, server.client() as c:
        for value in (b"null", b"true", b'""', b'"\\u00fc"', b"1.0", b"-0", b"1e400",
                      b"123456789012345678901234567890", b"[ 1 ,2 ]", b'{"b":1,"a":2,"b":3}',
                      b'{ }', b'"' + "ü€😀".encode() + b'"', b'"\\ud83d\\ude00"'):
            answer = post(web, b'{"hook":"h","args":' + value + b"}")
            expect(answer.status in (200, 201), "%r: %r" % (value, answer))
            job_id = answer.json["id"]
            equal(dict(zip(*[iter(c("JOB", job_id))] * 2))[b"args"], value, "bytes of the args")
            shown = web.ask("GET", "/v1/jobs/%d" % job_id).body
            expect(b'"args":' + value in shown, "%r is not in %r" % (value, shown))
        job_id = c("ENQUEUE", "h", b"\xff\x00\x01", "QUEUE", "raw")
        view = web.good("GET", "/v1/jobs/%d" % job_id)
        equal(view.get("args_base64"), "/wAB", "args_base64")
        job_id = web.good("POST", "/v1/jobs", {"hook": "h", "args_base64": "/wAB"})["id"]
        equal(dict(zip(*[iter(c("JOB", job_id))] * 2))[b"args"], b"\xff\x00\x01")


if __name__ == "__main__":
    main()
