#!/usr/bin/python3
# weir-test: timeout=240 bin=release
"""The page as a browser asks for it, without a browser: its files, the login and its cookie, tries
of other pages to ask in the user's name, and the live stream.

What runs in the page is looked at elsewhere; here every byte that is sent is chosen."""
import gzip
import json
import os
import re
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "fault"))

from harness import (  # noqa: E402
    ROOT, Closed, Http, Server, Watch, check_problem, equal, expect, main, pack, test, until)

TOKEN = "correct horse battery staple"
JOB = {"hook": "h", "args": {"n": 1}}
UI = os.path.join(ROOT, "src", "ui")
CSP = ("default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
       "connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'")
TYPES = {".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8",
         ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}


def files():
    """(address, path) of every file of the page."""
    for name in sorted(os.listdir(UI)):
        if os.path.splitext(name)[1] in TYPES:
            yield ("/" if name == "index.html" else "/ui/" + name), os.path.join(UI, name)


def served(path):
    """What tools/embed makes of it: empty lines in place of comments that begin a line."""
    text = content(path)
    if not path.endswith((".js", ".css")):
        return text
    return re.sub(rb"(?ms)^ */\*.*?\*/ *$", lambda found: b"\n" * found[0].count(b"\n"), text)


def content(path):
    with open(path, "rb") as f:
        return f.read()


class Browser:
    """One browser: a cookie, an origin, and the headers that a browser sends by itself."""

    def __init__(self, server, origin=None, host=None):
        self.server, self.host = server, host or "%s:%d" % server.http
        self.origin = origin or "http://" + self.host
        self.cookie, self.csrf = None, None

    def ask(self, method, path, body=None, headers=(), site="same-origin", csrf=True, origin=True):
        lines = list(headers)
        if site:
            lines.append("Sec-Fetch-Site: " + site)
        if origin and method not in ("GET", "HEAD"):
            lines.append("Origin: " + self.origin)
        if self.cookie:
            lines.append("Cookie: theme=dark; " + self.cookie)
        if csrf and self.csrf and method not in ("GET", "HEAD"):
            lines.append("X-Weir-Csrf: " + self.csrf)
        with Http(self.server.http) as web:
            web.host = lambda: self.host
            return web.ask(method, path, body, lines)

    def session(self):
        return self.ask("GET", "/v1/session").json

    def log_in(self, token=TOKEN, headers=()):
        answer = self.ask("POST", "/login", {"token": token}, headers)
        equal(answer.status, 200, "status of the login")
        self.cookie = answer.header("set-cookie").split(";")[0]
        self.csrf = answer.json["csrf"]
        return answer


def cookie_name(browser):
    return browser.cookie.split("=")[0]


class Stream:
    """GET /v1/live; collects in the background."""

    def __init__(self, server, headers=(), reads=True):
        self.web = Http(server.http, token=None, receive_bytes=None if reads else 2048)
        self.web.send(self.web.head("GET", "/v1/live", headers))
        self.events, self.raw, self.is_over, self.error = [], b"", False, None
        if reads:
            self.answer = self.web.read("HEAD")
            self.web.socket.settimeout(60)
            self.thread = threading.Thread(target=self._read, daemon=True)
            self.thread.start()

    def _read(self):
        text = self.web.buffer
        try:
            while True:
                while b"\n\n" in text:
                    block, text = text.split(b"\n\n", 1)
                    self.raw += block + b"\n\n"
                    fields = dict(line.split(": ", 1) for line in block.decode().split("\n"))
                    self.events.append(fields)
                chunk = self.web.socket.recv(1 << 16)
                if not chunk:
                    self.rest, self.is_over = text, True
                    return
                text += chunk
        except OSError as error:
            self.error, self.is_over = error, True

    def of(self, kind):
        return [e for e in list(self.events) if e.get("event") == kind]

    def close(self):
        self.web.close()


# ---------------------------------------------------------------- files


@test("every file of the page is there, gzipped and plain, with its type, its tag and the policy")
def assets(folder):
    server = Server(folder)
    with server.web() as web:
        for address, path in files():
            plain = web.ask("GET", address)
            packed = web.ask("GET", address, headers=["Accept-Encoding: br, gzip"])
            equal(plain.status, 200, address)
            equal(plain.body, served(path), address)
            equal(plain.header("content-encoding"), None, "encoding of the plain form")
            equal(packed.header("content-encoding"), "gzip", "encoding")
            equal(gzip.decompress(packed.body), plain.body, address + " unpacked")
            expect(len(packed.body) < len(plain.body) or len(plain.body) < 400, "gzip saves")
            for answer in (plain, packed):
                equal(answer.header("content-type"), TYPES[os.path.splitext(path)[1]], "type")
                equal(answer.header("content-security-policy"), CSP, "policy")
                equal(answer.header("x-frame-options"), "DENY", "X-Frame-Options")
                equal(answer.header("x-content-type-options"), "nosniff", "nosniff")
                equal(answer.header("referrer-policy"), "no-referrer", "Referrer-Policy")
                equal(answer.header("vary"), "Accept-Encoding", "Vary")
                expect(re.match(r'^"[0-9a-f]{32}(-gzip)?"$', answer.header("etag")), "the tag")
                cache = answer.header("cache-control")
                if address == "/":
                    equal(cache, "no-cache", "Cache-Control of the page")
                else:
                    expect(re.match(r"^max-age=\d{1,2}$", cache), "Cache-Control is %r" % cache)
                head = web.ask("HEAD", address)
                equal((head.status, head.header("content-length"), head.body),
                      (200, str(len(plain.body)), b""), "HEAD")
            expect(plain.header("etag") != packed.header("etag"), "two forms have two tags")
            for answer, accept in ((plain, "identity"), (packed, "gzip")):
                again = web.ask("GET", address, headers=["Accept-Encoding: " + accept,
                                                         "If-None-Match: " + answer.header("etag")])
                equal((again.status, again.body), (304, b""), "asked again")
                equal(again.header("etag"), answer.header("etag"), "tag of 304")
                equal(again.header("content-length"), None, "length of 304")
                equal(again.header("vary"), "Accept-Encoding", "Vary of 304")
            other = web.ask("GET", address, headers=['If-None-Match: "0"'])
            equal(other.status, 200, "another tag")
    total = sum(len(gzip.compress(served(p), 9)) for _, p in files())
    expect(total < 150000, "the page weighs %d bytes" % total)


@test("a path leads to no other file")
def traversal(folder):
    server = Server(folder)
    tries = ["/ui/", "/ui", "/ui/..", "/ui/../weir.conf", "/ui/../../etc/passwd",
             "/ui/%2e%2e/%2e%2e/etc/passwd", "/ui/..%2f..%2f..%2fetc%2fpasswd", "/ui/%2fetc/passwd",
             "/ui//etc/passwd", "/ui/./app.js", "/ui/app.js%00.html", "/ui/app.js/", "/ui/app.js;x",
             "/ui/README.md", "/ui/index.html", "/index.html", "/ui/..\\..\\etc\\passwd",
             "/ui/app.js.gz", "/page.js", "/page.css", "/UI/app.js"]
    with server.web() as web:
        for path in tries:
            check_problem(web.ask("GET", path), 404, "UNKNOWN", (), path)
        for method in ("POST", "DELETE", "PUT"):
            answer = web.ask(method, "/ui/app.js")
            check_problem(answer, 405, "METHOD", (), method)
            equal(answer.header("allow"), "GET, HEAD, OPTIONS", "Allow")


@test("the page refers to its files relatively, so that it works behind a path of a proxy")
def relative(folder):
    for address, path in files():
        text = content(path).decode()
        if address == "/":
            for found in re.findall(r'(?:href|src|action)="([^"]*)"', text):
                expect(not found.startswith(("/", "http")), "%s refers to %s" % (path, found))
                if found.startswith("ui/"):
                    expect(os.path.exists(os.path.join(UI, found[3:])), found + " is not there")
        for found in re.findall(r"""(?:from|import\()\s*['"]([^'"]+)['"]""", text):
            expect(found.startswith("./"), "%s imports %s" % (path, found))


# ---------------------------------------------------------------- without a token


@test("without a token nobody logs in, and only loopback names are served")
def no_token(folder):
    server = Server(folder)
    browser = Browser(server)
    told = browser.session()
    equal({k: told[k] for k in ("needs_login", "is_logged_in", "csrf")},
          {"needs_login": False, "is_logged_in": False, "csrf": ""}, "session")
    expect(told["version"], "the version is told")
    equal(browser.ask("POST", "/v1/jobs", JOB).status, 201, "a job from the page")
    answer = browser.ask("POST", "/login", {"token": "x"})
    equal((answer.status, answer.header("set-cookie")), (200, None), "login without a token")
    rebound = Browser(server, host="evil.example:7380")
    for path in ("/", "/ui/app.js", "/v1/session", "/v1/now", "/v1/live", "/v1/queues"):
        check_problem(rebound.ask("GET", path), 421, "HOST", (), "rebinding " + path)
    for method, path in (("POST", "/v1/jobs"), ("POST", "/login"), ("POST", "/logout")):
        check_problem(browser.ask(method, path, JOB, site="cross-site", origin=False),
                      403, "FORBIDDEN", (), "another site: " + path)
    foreign = Browser(server, origin="https://evil.example")
    check_problem(foreign.ask("POST", "/v1/jobs", JOB, site=None), 403, "FORBIDDEN", (),
                  "another origin")


# ---------------------------------------------------------------- login


@test("with a token the page itself is open, and everything else needs a session or the token")
def needs_login(folder):
    server = Server(folder, token=TOKEN)
    browser = Browser(server)
    equal(browser.ask("GET", "/").status, 200, "the page")
    equal(browser.ask("GET", "/ui/app.js").status, 200, "a file")
    equal(browser.session(), {"needs_login": True, "is_logged_in": False, "csrf": "",
                              "name": "", "roles": [], "commands": [], "version": ""}, "session")
    for path in ("/v1/now", "/v1/live", "/v1/queues", "/metrics", "/openapi.json"):
        answer = browser.ask("GET", path)
        check_problem(answer, 401, "NOAUTH", (), path)
        expect("Basic" not in answer.header("www-authenticate"), "a browser would ask itself")
    browser.log_in()
    for path in ("/v1/now", "/v1/queues", "/metrics", "/openapi.json"):
        equal(browser.ask("GET", path).status, 200, path)
    equal(browser.ask("POST", "/v1/jobs", JOB).status, 201, "a job")
    told = browser.session()
    expect(told["is_logged_in"] and told["needs_login"], "logged in")
    equal(told["csrf"], browser.csrf, "the value for changes")
    with server.web() as web:  # the token itself goes on working, and asks for nothing more
        equal(web.ask("POST", "/v1/jobs", JOB).status, 201, "with the token")
        equal(web.good("GET", "/v1/session")["is_logged_in"], True, "with the token")
        equal(web.ask("POST", "/v1/jobs", JOB,
                      ["Cookie: " + browser.cookie]).status, 201, "token and cookie")
    with Http(server.http, token="wrong") as web:
        check_problem(web.ask("GET", "/v1/queues", headers=["Cookie: " + browser.cookie]), 401,
                      "BADTOKEN", (), "a wrong token beside a good cookie")


@test("the cookie is HttpOnly, SameSite=Strict, for this host, for 12 hours, Secure behind https")
def cookie_flags(folder):
    server = Server(folder, token=TOKEN)
    browser = Browser(server)
    for headers, is_secure in (((), False), (["X-Forwarded-Proto: https"], True),
                               (["X-Forwarded-Proto: http"], False)):
        browser.cookie = browser.csrf = None
        line = browser.log_in(headers=headers).header("set-cookie")
        parts = [p.strip() for p in line.split(";")]
        expect(re.match(r"^weir_session_[0-9a-f]{8}=[0-9a-f]{32}$", parts[0]), line)
        wanted = {"HttpOnly", "SameSite=Strict", "Path=/", "Max-Age=43200"}
        equal(set(parts[1:]), wanted | ({"Secure"} if is_secure else set()), "flags")
    out = browser.ask("POST", "/logout")
    expect(out.header("set-cookie").startswith(cookie_name(browser) + "=; ") and
           "Max-Age=0" in out.header("set-cookie"), "the cookie is taken away")
    form = browser.ask("POST", "/login", b"token=" + TOKEN.replace(" ", "+").encode(),
                       ["Content-Type: application/x-www-form-urlencoded"])
    equal(form.status, 200, "a form")
    expect(form.header("set-cookie"), "a form gets a cookie, too")


@test("two weirs on one host are two logins, and each knows its own after a restart")
def two_weirs(folder):
    data = [os.path.join(folder, name) for name in ("one", "two")]
    one, two = (Server(folder, token=TOKEN, data=d) for d in data)
    at_one, at_two = Browser(one), Browser(two)
    at_one.log_in()
    at_two.log_in()
    expect(cookie_name(at_one) != cookie_name(at_two), "both are called " + at_one.cookie)
    both = at_one.cookie + "; " + at_two.cookie  # a browser sends them to every port of a host
    for browser in (at_one, at_two):
        mine, browser.cookie = browser.cookie, both
        equal(browser.ask("GET", "/v1/queues").status, 200, "with both cookies")
        equal(browser.ask("POST", "/v1/jobs", JOB).status, 201, "a change with both")
        browser.cookie = mine
    at_two.ask("POST", "/logout")
    equal(at_one.ask("GET", "/v1/queues").status, 200, "one after the logout of two")
    name = cookie_name(at_one)
    one.stop()
    again = Browser(Server(folder, token=TOKEN, data=data[0]))
    again.log_in()
    equal(cookie_name(again), name, "no cookie of before is left over")


@test("after a logout the cookie is worth nothing")
def logout(folder):
    server = Server(folder, token=TOKEN)
    one, two = Browser(server), Browser(server)
    one.log_in()
    two.log_in()
    expect(one.cookie != two.cookie and one.csrf != two.csrf, "each session is its own")
    check_problem(one.ask("POST", "/logout", csrf=False), 403, "FORBIDDEN", "csrf", "without value")
    equal(one.ask("GET", "/v1/queues").status, 200, "still logged in")
    equal(one.ask("POST", "/logout").json["is_logged_in"], False, "logout")
    check_problem(one.ask("GET", "/v1/queues"), 401, "NOAUTH", (), "after the logout")
    equal(one.ask("POST", "/logout").status, 200, "again: nothing to do")
    equal(two.ask("GET", "/v1/queues").status, 200, "the other session")
    server.stop()
    server = Server(folder, token=TOKEN)
    two.server = server
    check_problem(two.ask("GET", "/v1/queues"), 401, "NOAUTH", (), "after a restart")


@test("what changes anything by the cookie needs the session's value, wrong or missing is 403")
def csrf(folder):
    server = Server(folder, token=TOKEN)
    one, two = Browser(server), Browser(server)
    one.log_in()
    two.log_in()
    changes = [("POST", "/v1/jobs", JOB), ("POST", "/v1/queues/q/pause", None),
               ("DELETE", "/v1/jobs/1", None), ("POST", "/v1/throttle/pause", None),
               ("GET", "/throttle-app/x", None), ("GET", "/unthrottle-app/x", None),
               ("GET", "/skip-host/h", None), ("PUT", "/v1/jobs", None),
               ("POST", "/nowhere", None)]
    for method, path, body in changes:
        for value in (None, "", "0" * 32, one.csrf[:-1], one.csrf + "0", two.csrf,
                      one.csrf.upper() if one.csrf.upper() != one.csrf else "x"):
            headers = [] if value is None else ["X-Weir-Csrf: " + value]
            answer = one.ask(method, path, body, headers, csrf=False)
            check_problem(answer, 403, "FORBIDDEN", "csrf", "%s %s with %r" % (method, path, value))
    equal(one.ask("GET", "/v1/jobs").json["jobs"], [], "nothing was added")
    equal(one.ask("GET", "/v1/rules").json["rules"], [], "no rule was made")
    equal(one.ask("POST", "/v1/jobs", JOB).status, 201, "with the value")
    equal(one.ask("GET", "/throttle-app/x", headers=["X-Weir-Csrf: " + one.csrf]).status, 200,
          "freno's change with the value")
    equal(one.ask("GET", "/check/y/mysql/none").status, 404, "a check only asks")  # x is throttled


@test("a page of another origin can neither change nor read by the cookie")
def foreign(folder):
    server = Server(folder, token=TOKEN)
    mine = Browser(server)
    mine.log_in()
    for site in ("cross-site", "same-site"):
        for method, path in (("GET", "/v1/queues"), ("GET", "/v1/session"), ("GET", "/v1/live"),
                             ("GET", "/throttle-app/x"), ("POST", "/v1/jobs"), ("POST", "/logout")):
            answer = mine.ask(method, path, JOB if method == "POST" else None,
                              ["X-Weir-Csrf: " + mine.csrf] if method == "GET" else (), site=site)
            check_problem(answer, 403, "FORBIDDEN", "origin", "%s %s %s" % (site, method, path))
    for origin in ("https://evil.example", "null", "http://127.0.0.1:1", "http://",
                   mine.origin + ".evil.example", "http://evil.example/" + mine.host):
        other = Browser(server, origin=origin)
        other.cookie, other.csrf = mine.cookie, mine.csrf
        check_problem(other.ask("POST", "/v1/jobs", JOB, site=None), 403, "FORBIDDEN",
                      "origin", origin)
        other.cookie = None
        for path in ("/login", "/logout"):  # also when the cookie does not come along
            answer = other.ask("POST", path, {"token": TOKEN}, site=None)
            check_problem(answer, 403, "FORBIDDEN", "origin", path + " of " + origin)
            equal(answer.header("set-cookie"), None, "cookie")
    equal(mine.ask("GET", "/v1/jobs").json["jobs"], [], "nothing was added")
    equal(mine.ask("GET", "/v1/queues", site="none").status, 200, "an address that was typed")


@test("behind a proxy any Host is served, and the origin is that of the proxy")
def proxy(folder):
    server = Server(folder, token=TOKEN)
    named = Browser(server, host="ops.example")  # a proxy that passes Host on
    named.log_in()
    equal(named.ask("POST", "/v1/jobs", JOB).status, 201, "Host passed on")
    other = Browser(server, origin="https://ops.example")  # one that does not
    there = ["X-Forwarded-Host: ops.example", "X-Forwarded-Proto: https"]
    other.log_in(headers=there)
    equal(other.ask("POST", "/v1/jobs", JOB, there).status, 201, "X-Forwarded-Host")
    check_problem(other.ask("POST", "/v1/jobs", JOB), 403, "FORBIDDEN", (), "neither")


@test("after five wrong tokens from an address the sixth is refused unseen, the right one as well")
def brute_force(folder):
    server = Server(folder, token=TOKEN)
    browser = Browser(server)
    for guess in range(5):
        answer = browser.ask("POST", "/login", {"token": "guess %d" % guess})
        check_problem(answer, 401, "BADTOKEN", (), "a guess")
        equal(answer.header("set-cookie"), None, "cookie of a guess")
    for token in ("guess", TOKEN):
        answer = browser.ask("POST", "/login", {"token": token})
        check_problem(answer, 429, "LIMIT", "wrong tokens", "the sixth")
        expect(0 < int(answer.header("retry-after")) <= 60, "Retry-After")
        equal(answer.header("set-cookie"), None, "cookie")
    # Headers that anybody can write do not make another address of it.
    answer = browser.ask("POST", "/login", {"token": TOKEN}, ["X-Forwarded-For: 192.0.2.7"])
    equal(answer.status, 429, "with X-Forwarded-For")
    with server.web() as web:
        equal(web.ask("GET", "/v1/queues").status, 200, "the token itself")
        text = web.ask("GET", "/metrics").body.decode()
    equal(re.search(r"^weir_\w*auth_failures_total (\d+)$", text, re.M).group(1), "5", "counted")


@test("what a stranger may send to /login is small and understood, or refused")
def login_input(folder):
    server = Server(folder, token=TOKEN)
    form = ["Content-Type: application/x-www-form-urlencoded"]
    rows = [(b"{", (), 400, "SYNTAX"), (b"{}", (), 400, "BADARG"), (b"[1]", (), 400, "BADARG"),
            (b'{"token":7}', (), 400, "BADARG"), (b"", (), 400, "SYNTAX"),
            (b"x=1", form, 400, "BADARG"), (b"token=%", form, 400, "SYNTAX"),
            (b"token", ["Content-Type: text/plain"], 415, "MEDIA"),
            (b'{"token":"' + b"x" * 4096 + b'"}', (), 413, "TOOBIG")]
    for body, headers, status, code in rows:
        with Http(server.http) as web:
            check_problem(web.ask("POST", "/login", body, headers), status, code, (), repr(body[:9]))
    with Http(server.http) as web:  # not taken in before it is refused
        web.send(web.head("POST", "/login", ["Content-Type: application/json",
                                             "Content-Length: 30000000"]))
        equal(web.read().status, 413, "a large body announced")
    with Http(server.http) as web:
        web.send(web.head("POST", "/login", ["Content-Type: application/json",
                                             "Transfer-Encoding: chunked"]))
        try:
            for _ in range(64):
                web.send(b"1000\r\n" + b" " * 4096 + b"\r\n")
            equal(web.read().status, 413, "a large body in chunks")
        except (Closed, OSError):
            pass  # it was cut while we went on
    with Http(server.http) as web:  # the limit of one request is not that of the next
        data = json.dumps({"token": TOKEN}).encode()
        equal(web.ask("POST", "/login", data).status, 200, "login")
        web.token = TOKEN
        equal(web.ask("POST", "/v1/jobs", {"hook": "h", "args": "x" * 100000}).status, 201, "a job")


# ---------------------------------------------------------------- the live stream


@test("the stream tells what is now every second, the same to all, with its events")
def live(folder):
    server = Server(folder)
    watch = Watch()
    one, two = Stream(server), Stream(server)
    equal(one.answer.status, 200, "status")
    equal(one.answer.header("content-type"), "text/event-stream", "type")
    equal(one.answer.header("cache-control"), "no-store", "Cache-Control")
    equal(one.answer.header("content-length"), None, "length")
    until(lambda: one.of("now") and two.of("now"), 10, "the first")
    with server.client() as c:
        c("THROTTLE", "PAUSE", "FOR", 5000)
        c("THROTTLE", "RESUME")
    until(lambda: len(one.of("event")) == 2 and len(two.of("event")) == 2, 10, "the events")
    equal(one.of("event"), two.of("event"), "the events of both")
    first = json.loads(one.of("event")[0]["data"])
    equal(first["event"], "throttle_paused", "event")
    equal(sorted(first), ["at_ms", "event", "message"], "fields")
    with server.web() as web:
        history = web.good("GET", "/v1/throttle/history")["events"]
    kept = [{k: v for k, v in e.items() if k != "number"} for e in history[::-1]]
    equal([json.loads(e["data"]) for e in one.of("event")], kept, "as in the history")
    until(lambda: len(one.of("now")) >= 4 and len(two.of("now")) >= 4, 15, "some more")
    both = {e["data"] for e in one.of("now")} & {e["data"] for e in two.of("now")}
    expect(len(both) >= 3, "only %d are the same" % len(both))
    at = [json.loads(e["data"])["at_ms"] for e in one.of("now")]
    watch.within(3 * (len(at) + 2), "the stream, once a second,")
    for before, after in list(zip(at, at[1:]))[1:]:  # the first comes at once
        expect(after - before > 600, "%d ms between two" % (after - before))
    with server.web() as web:
        equal(sorted(json.loads(one.of("now")[-1]["data"])), sorted(web.good("GET", "/v1/now")),
              "fields of now")
    for listener in (one, two):
        listener.close()


@test("who comes back with Last-Event-ID gets what it missed, and nothing twice")
def last_event_id(folder):
    server = Server(folder)
    one = Stream(server)
    until(lambda: one.of("now"), 10, "the first")
    known = one.of("now")[-1]["id"]
    one.close()
    with server.client() as c:
        c("THROTTLE", "PAUSE", "FOR", 5000)
        c("THROTTLE", "RESUME")
    back = Stream(server, ["Last-Event-ID: " + known])
    until(lambda: len(back.of("event")) == 2 and back.events[-1]["event"] == "now", 10, "both")
    equal([json.loads(e["data"])["event"] for e in back.of("event")],
          ["throttle_paused", "throttle_resumed"], "what was missed")
    known = back.of("event")[-1]["id"]
    equal(back.of("now")[-1]["id"], known, "the id stands for all before it")
    back.close()
    again = Stream(server, ["Last-Event-ID: " + known])
    until(lambda: len(again.of("now")) >= 2, 10, "now")
    equal(again.of("event"), [], "nothing twice")
    again.close()
    server.stop()
    server = Server(folder)  # numbers begin anew, and are not mistaken
    with server.client() as c:
        c("THROTTLE", "PAUSE", "FOR", 5000)
    later = Stream(server, ["Last-Event-ID: " + known])
    until(lambda: len(later.of("now")) >= 2, 10, "now")
    equal([json.loads(e["data"])["event"] for e in later.of("event")], ["throttle_paused"],
          "of the new life")
    later.close()


@test("the 65th listener is refused with 503 until another leaves")
def too_many(folder):
    server = Server(folder)
    all_of_them = [Stream(server) for _ in range(64)]
    for s in all_of_them:
        equal(s.answer.status, 200, "status")
    with server.web() as web:
        check_problem(web.ask("GET", "/v1/live"), 503, "UNAVAIL", "64", "the 65th")
        equal(web.ask("GET", "/v1/now").status, 200, "everything else goes on")
    all_of_them.pop().close()

    def comes_in():
        s = Stream(server)
        s.close()
        return s.answer.status == 200
    until(comes_in, 10, "a free place")
    for s in all_of_them:
        s.close()


@test("a listener that does not read is dropped, and the others do not notice")
def slow(folder):
    server = Server(folder)
    good, bad = Stream(server), Stream(server, reads=False)
    # A beat tells 100 events at most.  These are the largest there are, 500 bytes, since a quote is
    # two in JSON: some 8 beats until 256 kB wait for the one that does not read.
    word = '"' * 190
    with server.client(seconds=60) as c, server.web() as web:
        def is_cut():
            before = len(good.of("now"))
            c.send(b"".join(pack("REGISTRYSET", word + str(i % 10), "high") for i in range(100)))
            for _ in range(100):
                c.read()
            until(lambda: len(good.of("now")) > before, 10, "the next second")
            text = web.ask("GET", "/metrics").body.decode()
            return re.search(r"^weir_\w*connections_cut_total 1$", text, re.M)
        until(is_cut, 90, "the end of the slow one")
    expect(not good.is_over, "the good one was dropped: %s" % good.error)
    before = len(good.of("now"))
    until(lambda: len(good.of("now")) > before + 1, 10, "it goes on")
    good.close()
    bad.close()


@test("a stop ends the stream cleanly and at once")
def stop(folder):
    server = Server(folder)
    listeners = [Stream(server) for _ in range(5)]
    stuck = Stream(server, reads=False)
    until(lambda: all(s.of("now") for s in listeners), 10, "the first")
    watch = Watch()
    equal(server.stop(), 0, "exit code")
    watch.within(5)
    for s in listeners:
        until(lambda s=s: s.is_over, what="the end")
        equal((s.error, s.rest), (None, b""), "nothing is cut in the middle")
    stuck.close()


@test("the stream needs the token or a session, and ends with the session")
def live_login(folder):
    server = Server(folder, token=TOKEN)
    browser = Browser(server)
    browser.log_in()
    by_cookie = Stream(server, ["Cookie: " + browser.cookie, "Sec-Fetch-Site: same-origin"])
    by_token = Stream(server, ["Authorization: Bearer " + TOKEN])
    until(lambda: len(by_cookie.of("now")) > 1 and len(by_token.of("now")) > 1, 10, "both")
    browser.ask("POST", "/logout")
    until(lambda: by_cookie.is_over, 10, "the end of the session's stream")
    before = len(by_token.of("now"))
    until(lambda: len(by_token.of("now")) > before + 1, 10, "the other goes on")
    by_token.close()
    with Http(server.http) as web:
        check_problem(web.ask("GET", "/v1/live"), 401, "NOAUTH", (), "neither")


@test("HEAD of the stream is its head, and the connection goes on")
def live_head(folder):
    server = Server(folder)
    with server.web() as web:
        for _ in range(3):
            answer = web.ask("HEAD", "/v1/live")
            equal(answer.status, 200, "HEAD")
            equal(answer.header("content-type"), "text/event-stream", "type of HEAD")
        equal(web.ask("GET", "/healthz").body, b"ok\n", "what comes after")


if __name__ == "__main__":
    main()
