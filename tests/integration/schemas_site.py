#!/usr/bin/python3
# weir-test: timeout=120
"""/openapi.json beside the answers of commands (schemas.py): what the door answers by itself, with
every status and header that is said of it, the live stream, and what a request must hold.
"""
import json
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "fault"))

from harness import Http, Server, equal, expect, main, test, text  # noqa: E402
from lib_schemas import Asker, pointer  # noqa: E402

TOKEN = "correct horse battery staple"
FORM = "Content-Type: application/x-www-form-urlencoded"
PROBLEM = "application/problem+json"

# ---------------------------------------------------------------- what the door answers by itself


class Site:
    """The pages of one server, asked by their names; every answer is held against the document."""

    def __init__(self, server, seen):
        self.server, self.seen = server, seen
        ask = Asker(server)
        self.reader, self.pages = ask.reader, ask.pages

    def __call__(self, name, status=200, headers=(), body=None, host=None, token=None):
        page, what = self.pages[name], "%s, wanted %d" % (name, status)
        with Http(self.server.http, token=token) as web:
            if host:
                web.host = lambda: host
            if page.kind == "text/event-stream" and status == 200:
                web.send(web.head(page.method, page.path, headers))
                answer = web.read("HEAD")
            else:
                answer = web.ask(page.method, page.path, body, headers)
        expect(answer.status == status, "%s: %r" % (what, answer))
        self.check(page, answer, what)
        self.seen.add((name, str(status)))
        return answer

    def check(self, page, answer, what):
        code = str(answer.status)
        expect(code in page.said["responses"], "%s: %r is not in the document" % (what, answer))
        place = pointer("paths", page.path, page.method.lower(), "responses", code)
        said = self.reader.at(place)
        if "$ref" in said:
            place, said = said["$ref"], self.reader.at(said["$ref"])
        kind = answer.header("content-type")
        expect(kind in said["content"], "%s comes as %s, not as %s" % (what, kind, said["content"]))
        for header in ("Set-Cookie", "Retry-After"):
            expect(answer.header(header) is None or header in said.get("headers", {}),
                   "%s: %s is not in the document" % (what, header))
        for header, rule in said.get("headers", {}).items():
            value = answer.header(header)
            expect(value is not None or not rule["required"], "%s has no %s" % (what, header))
            expect(value is None or rule["schema"]["type"] != "integer" or value.isdigit(), value)
        place = "%s/content/%s/schema" % (place, kind.replace("/", "~1"))
        body = answer.body.decode()
        self.reader.check(place, json.loads(body) if "json" in kind else body, what)


def refused_for_host(site):
    for name in site.pages:
        site(name, 421, host="weir.example")


def refused_for_token(site, cookie):
    """By a wrong token, and by a page of another origin that a good cookie came along with."""
    for name, page in site.pages.items():
        if "401" in page.said["responses"] and name != "login":
            site(name, 401, token="wrong")
        if "403" in page.said["responses"]:
            site(name, 403, [cookie, "Sec-Fetch-Site: cross-site"])


def sessions(site):
    """The cookie of one."""
    equal(site("session").json["is_logged_in"], False, "nobody is logged in")
    equal(site("session", token=TOKEN).json["is_logged_in"], True, "with the token")
    for body, headers, status in ((b"{", (), 400), (b"{}", (), 400), (b"x=1", [FORM], 400),
                                  (b"token", ["Content-Type: text/plain"], 415),
                                  (b'{"token":"' + b"x" * 4096 + b'"}', (), 413)):
        site("login", status, headers, body)
    form = site("login", body=b"token=" + TOKEN.replace(" ", "+").encode(), headers=[FORM])
    expect(form.header("set-cookie"), "a form gets a cookie")
    begun = site("login", body={"token": TOKEN, "more": "is passed over"})
    name, value = begun.header("set-cookie").split(";")[0].split("=")
    scheme = site.reader.at(pointer("components", "securitySchemes", "session"))
    equal((scheme["in"], scheme["name"]), ("cookie", name), "what the cookie is called")
    cookie = "Cookie: %s=%s" % (name, value)
    told = site("session", headers=[cookie])
    expect(told.json["is_logged_in"] and told.header("set-cookie"), "the cookie holds on")
    csrf = "X-Weir-Csrf: " + told.json["csrf"]
    for name in ("metrics", "openapi", "live"):
        site(name, headers=[cookie])
    site("logout", 403, [cookie])  # without the value
    equal(site("logout", headers=[cookie, csrf]).json["is_logged_in"], False, "it is over")
    site("logout")  # nothing to do
    begun = site("login", body={"token": TOKEN})
    return "Cookie: " + begun.header("set-cookie").split(";")[0]


@test("the door's own answers are what /openapi.json says, and every status it says is seen")
def pages(folder):
    seen = set()
    site = Site(Server(folder), seen)
    for name in ("healthz", "readyz", "leads", "metrics", "openapi", "live", "session", "login", "logout"):
        site(name)
    equal(set(site.pages), {n for n, _ in seen}, "pages")
    equal(site("healthz").body, b"ok\n", "health")
    equal(site("openapi").json, site.reader.document, "the document")
    refused_for_host(site)
    listeners = [Http(site.server.http) for _ in range(64)]
    for web in listeners:
        web.send(web.head("GET", "/v1/live"))
        equal(web.read("HEAD").status, 200, "a listener")
    site("live", 503)
    for web in listeners:
        web.close()
    site.server.stop()
    site = Site(Server(folder, token=TOKEN), seen)
    refused_for_token(site, sessions(site))
    for _ in range(5):
        site("login", 401, body={"token": "guess"})
    site("login", 429, body={"token": TOKEN})
    said = {(n, code) for n, p in site.pages.items() for code in p.said["responses"]}
    equal(sorted(said - {(n, "default") for n in site.pages} - seen), [], "what was not seen")
    session = pointer("components", "schemas", "session")
    equal(list(site.reader.unseen(session)), [], "what was not seen of a session")
    site.server.stop()


@test("the events of /v1/live are what x-events says")
def live(folder):
    server = Server(folder)
    ask = Asker(server)
    page = ask.pages["live"]
    place = pointer("paths", page.path, "get", "responses", "200", "content", page.kind, "x-events")
    kinds = set(ask.reader.at(place))
    with server.web() as web:
        web.send(web.head("GET", "/v1/live", ["Last-Event-ID: 1-0"]))
        equal(web.read("HEAD").header("content-type"), page.kind, "the type")
        ask("THROTTLE", {"action": "pause", "for": 60000})
        seen, rest = set(), web.buffer.decode()
        web.socket.settimeout(20)
        while seen != kinds:
            *blocks, rest = rest.split("\n\n")
            for block in blocks:
                fields = dict(line.split(": ", 1) for line in block.split("\n"))
                if set(fields) == {"retry"}:
                    continue
                equal(set(fields), {"id", "event", "data"}, "fields of an event")
                ask.reader.check("%s/%s" % (place, fields["event"]), json.loads(fields["data"]))
                seen.add(fields["event"])
            if seen != kinds:
                rest += web.socket.recv(1 << 16).decode()
    server.stop()


# ---------------------------------------------------------------- what a request must hold


def sample(reader, schema):
    """Some value that the schema takes."""
    if "$ref" in schema:
        schema = reader.at(schema["$ref"])
    if "enum" in schema:
        return schema["enum"][0]
    if "pattern" in schema:
        return "0" * 32
    if "properties" in schema:
        return {n: sample(reader, schema["properties"][n]) for n in schema["required"]}
    return {"string": "x", "integer": schema.get("minimum"), "boolean": True,
            "array": schema.get("items") and [sample(reader, schema["items"])],
            None: 1}[schema.get("type")]


class Request:
    """An operation, with a value for each of its parameters."""

    def __init__(self, ask, operation):
        self.ask, self.operation = ask, operation
        said, reader = operation.said, ask.reader
        self.path = {p["name"]: sample(reader, p["schema"]) for p in said["parameters"]
                     if p["in"] == "path"}
        self.schemas = {p["name"]: p["schema"] for p in said["parameters"] if p["in"] == "query"}
        self.needed = [p["name"] for p in said["parameters"]
                       if p["in"] == "query" and p["required"]]
        self.apart = []  # pairs of which one may come
        self.bound = []  # pairs of which the first wants the second
        self.body = said.get("requestBody")
        if self.body:
            self.read_body(reader.at(pointer("components", "schemas", operation.name)))
        self.values = {n: "eA==" if n.endswith("_base64") else sample(reader, schema)
                       for n, schema in self.schemas.items()}
        self.more = self.one_of()

    def read_body(self, schema):
        self.schemas.update(schema["properties"])
        self.needed += schema["required"]
        for rule in schema.get("allOf", []):
            if "dependentRequired" in rule:
                self.bound += [(one, other) for one, others in rule["dependentRequired"].items()
                               for other in others]
            else:
                self.apart.append(rule["not"]["required"])

    def one_of(self):
        """One of two is needed, which a schema of parameters cannot say: their texts do."""
        answer = self.send(self.without(None))
        pair = re.match(r"(\w+) or (\w+) is missing", (answer.status == 400 and
                                                       answer.json["detail"]) or "")
        if not pair:
            return []
        for one, other in (pair.groups(), pair.groups()[::-1]):
            text = self.schemas[one]["description"]
            expect("with " + other.upper() in text, "%s of %s: %s" % (one, self.operation.name, text))
        return [pair.group(2)]

    def send(self, names):
        return self.ask.raw(self.operation.name, {**self.path, **{n: self.values[n]
                                                                  for n in names}})

    def without(self, missing):
        return [name for name in self.needed if name != missing]

    def whole(self):
        return self.without(None) + self.more


def is_whole(answer, what):
    """Refused, perhaps, but not for something that is missing."""
    problem = answer.json if answer.status >= 400 else {}
    expect("is missing" not in problem.get("detail", "") and problem.get("code") != "SYNTAX",
           "%s: %r" % (what, answer))


def is_refused(answer, words, what):
    expect(answer.status == 400 and answer.json["code"] == "BADARG", "%s: %r" % (what, answer))
    for word in words:
        expect(word in answer.json["detail"], "%s: %r does not say %r" % (what, answer, word))


@test("what /openapi.json and HELP call required is, and nothing else is")
def required(folder):
    server = Server(folder)
    ask = Asker(server)
    tried = 0
    for name, operation in ask.operations.items():
        request = Request(ask, operation)
        is_whole(request.send(request.whole()), name + " with what is required")
        for one in request.needed:
            is_refused(request.send(request.without(one)), (one, "missing"),
                       "%s without %s" % (name, one))
            tried += 1
        for names in request.apart:
            rest = [n for n in request.without(None) if n not in names]
            word = "twice" if names[1].endswith("_base64") else "both"
            is_refused(request.send(rest + names), (names[0], word), "%s with %s" % (name, names))
        for one, other in request.bound:
            rest = [n for n in request.without(None) if n != other]
            is_refused(request.send(rest + [one]), (one, other + " is missing"),
                       "%s with %s alone" % (name, one))
        with server.client() as client:  # and HELP says the same
            marked = re.findall(r"^    (\w+) .*\(required\)$", text(client("HELP", name)), re.M)
        equal(set(marked), set(request.path) | set(request.needed), "HELP " + name)
        if request.body and not request.body["required"]:
            is_whole(ask.web.ask(operation.method, operation.address(request.path)),
                     name + " without a body")
    expect(tried > 20, "%d requests without something" % tried)
    job = ask.operations["ENQUEUE"].path
    for body in ({"args": 1}, [{"args": 1}], [{"hook": "h"}, {"args": 1}]):
        is_refused(ask.web.ask("POST", job, body), ("hook", "missing"), body)
    is_refused(ask.web.ask("POST", job, [{"hook": "h", "args": 1, "in": 1, "at": 1}]), ("both",),
               "one of many with both")
    for body in ({"hook": "h"}, {"hook": "h", "args": None}, {"hook": "h", "args_base64": ""}):
        equal(ask.web.ask("POST", job, body).status, 201, body)
    server.stop()


if __name__ == "__main__":
    main()
