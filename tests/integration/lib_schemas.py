"""Answers held against /openapi.json: a strict reader of its schemas, and requests put together from
the document alone, as a generated client would: the path, what goes into the query and what into the
body.

A value fits when it has no key that is not in the schema, none missing, and no type but the one said.
What was seen of each schema is remembered, so that a test can ask what no answer has shown."""
import json
import os
import sys
import urllib.parse

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "fault"))

from harness import check_problem, expect, short  # noqa: E402

# ---------------------------------------------------------------- a strict reader of schemas

WORDS = {"type", "format", "enum", "items", "properties", "required", "additionalProperties",
         "oneOf", "$ref", "description"}
KINDS = {"string": str, "boolean": bool, "array": list, "object": dict, "null": type(None)}


class Mismatch(AssertionError):
    pass


def is_of(value, kind):
    if kind == "integer":
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, KINDS[kind])


class Reader:
    """Holds values against schemas of one document and remembers what it saw of each schema, by
    the schema's place in the document."""

    def __init__(self, document):
        self.document = document
        self.seen = {}  # place -> {"value", "null"}

    def at(self, place):
        node = self.document
        for step in place[2:].split("/"):
            step = step.replace("~1", "/").replace("~0", "~")
            node = node[int(step) if isinstance(node, list) else step]
        return node

    def note(self, place, what, seen):
        seen.setdefault(place, set()).add(what)

    def check(self, place, value, where="the answer"):
        """Mismatch unless the value is what the schema at that place says."""
        seen = {}
        self._check(place, value, where, seen)
        for key, what in seen.items():
            self.seen.setdefault(key, set()).update(what)

    def _check(self, place, value, where, seen):
        schema = self.at(place)
        unknown = set(schema) - WORDS
        if unknown:
            raise Mismatch("%s: this test does not know %s in a schema" % (place, unknown))
        self.note(place, "null" if value is None else "value", seen)
        if "$ref" in schema:
            self._check(schema["$ref"], value, where, seen)
        elif "oneOf" in schema:
            self._one_of(place, schema["oneOf"], value, where, seen)
        elif "type" in schema:
            self._typed(place, schema, value, where, seen)

    def _one_of(self, place, schemas, value, where, seen):
        found, troubles = [], []
        for i in range(len(schemas)):
            mine = {}
            try:
                self._check("%s/oneOf/%d" % (place, i), value, where, mine)
                found.append(mine)
            except Mismatch as trouble:
                troubles.append(str(trouble))
        if len(found) != 1:
            raise Mismatch("%s: %d alternatives fit: %s" % (where, len(found),
                                                            "; ".join(troubles)))
        for key, what in found[0].items():
            seen.setdefault(key, set()).update(what)

    def _typed(self, place, schema, value, where, seen):
        kinds = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
        if not any(is_of(value, kind) for kind in kinds):
            raise Mismatch("%s is %s, not %s" % (where, short(value, 80), " or ".join(kinds)))
        if "enum" in schema and value not in schema["enum"]:
            raise Mismatch("%s is %r, not one of %s" % (where, value, schema["enum"]))
        if isinstance(value, list):
            for i, item in enumerate(value):
                self._check(place + "/items", item, "%s[%d]" % (where, i), seen)
        elif isinstance(value, dict):
            self._members(place, schema, value, where, seen)

    def _members(self, place, schema, value, where, seen):
        properties = schema.get("properties", {})
        missing = [k for k in schema.get("required", []) if k not in value]
        if missing:
            raise Mismatch("%s has no %s" % (where, ", ".join(missing)))
        for key, item in value.items():
            inside = "%s.%s" % (where, key)
            if key in properties:
                self._check("%s/properties/%s" % (place, key), item, inside, seen)
            elif schema.get("additionalProperties") is False:
                raise Mismatch("%s: the schema has no such key" % inside)
            else:
                self._check(place + "/additionalProperties", item, inside, seen)

    def unseen(self, place, path=()):
        """What the schema at that place speaks of and no answer has shown."""
        schema, seen = self.at(place), self.seen.get(place, set())
        if "$ref" in schema:
            if schema["$ref"] not in path:
                yield from self.unseen(schema["$ref"], path + (schema["$ref"],))
            return
        kinds = schema.get("type", [])
        if "value" not in seen and (kinds != "null"):
            yield place + " (no value)"
        if (kinds == "null" or "null" in kinds) and "null" not in seen:
            yield place + " (never null)"
        below = ["/oneOf/%d" % i for i in range(len(schema.get("oneOf", [])))]
        below += ["/properties/" + k for k in schema.get("properties", {})]
        below += ["/items"] if "items" in schema else []
        if isinstance(schema.get("additionalProperties"), dict):
            below.append("/additionalProperties")
        for step in below:
            yield from self.unseen(place + step, path)


def pointer(*steps):
    return "#/" + "/".join(s.replace("~", "~0").replace("/", "~1") for s in steps)


# ---------------------------------------------------------------- asking by the document


class Operation:
    def __init__(self, path, method, said):
        self.path, self.method, self.name = path, method.upper(), said["operationId"]
        self.said = said
        # Headers are for what a body cannot say; a name that both have is sent in the body.
        self.places = {p["name"]: p["in"] for p in said["parameters"] if p["in"] != "header"}
        self.code = next(c for c in said["responses"] if c != "default")
        content = said["responses"][self.code]["content"]
        expect(len(content) == 1, "%s answers %s" % (self.name, list(content)))
        self.kind = next(iter(content))
        self.schema = pointer("paths", path, method, "responses", self.code, "content",
                              self.kind, "schema")

    def address(self, params):
        path = self.path
        for name, place in self.places.items():
            if place == "path":
                path = path.replace("{%s}" % name, urllib.parse.quote(str(params[name]), safe=""))
        query = {n: params[n] for n, p in self.places.items() if p == "query" and n in params}
        return path + ("?" + urllib.parse.urlencode(query) if query else "")

    def body(self, params):
        if isinstance(params, list):
            return params
        rest = {n: v for n, v in params.items() if n not in self.places}
        return rest if rest or self.method == "POST" else None


class Asker:
    """Commands by their names; each answer is checked.  What the door answers by itself, without a
    command, has a name in lower case and is in `pages`."""

    def __init__(self, server):
        self.server, self.web = server, server.web()
        document = self.web.good("GET", "/openapi.json")
        self.reader = Reader(document)
        everything = [Operation(path, method, o) for path, methods in document["paths"].items()
                      for method, o in methods.items()]
        self.operations = {o.name: o for o in everything if o.name.isupper()}
        self.pages = {o.name: o for o in everything if not o.name.isupper()}
        self.asked = set()

    def raw(self, command, params=None, web=None):
        o = self.operations[command]
        params = params or {}
        return (web or self.web).ask(o.method, o.address(params), o.body(params))

    def __call__(self, command, params=None, **more):
        params = params if isinstance(params, list) else {**(params or {}), **more}
        answer = self.raw(command, params)
        o = self.operations[command]
        expect(str(answer.status) == o.code, "%s %s: %r" % (command, params, answer))
        expect(answer.header("content-type") == o.kind == "application/json", answer.headers)
        self.reader.check(o.schema, answer.json, command)
        self.asked.add(command)
        return answer.json

    def send(self, command, params, web):
        """Without waiting for the answer; for what blocks."""
        o = self.operations[command]
        data = json.dumps(o.body(params)).encode()
        web.send(web.head(o.method, o.address(params), [
            "Content-Type: application/json", "Content-Length: %d" % len(data)]) + data)

    def refused(self, command, params, code):
        answer = self.raw(command, params)
        check_problem(answer, answer.status, code, (), "%s %s" % (command, params))
        self.reader.check("#/components/schemas/problem", answer.json, command)
