#!/usr/bin/python3
# weir-test: timeout=120
"""Payloads are bytes, and stay the bytes they were: through HTTP and back, through the command line,
an export, a retry.  What is stored is read over RESP, which tells the bytes alone.

A client of HTTP that wants the bytes has the text of the answer: what is JSON stands in it as it was
sent, other text is marked by NAME_is_text, and the rest comes in base64."""
import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "fault"))

from harness import Server, claim, equal, expect, job, main, mapping, test, weir  # noqa: E402

JSON = (b"null", b'""', b'"hello"', b"1e2", b"-0", b"1.10", b"123456789012345678901234567890",
        b'{"a":1}', b'{ "a":1 }', b'{"a":1,"a":2}', b'{"t":"\\u00fc\\/"}', b"[ ]")
SPACED = (b' {"a":1}', b'{"a":1}\n', b"\t1 ")  # JSON, but a body would lose what is around it
TEXT = (b"hello", b"", b"{a}", b"01", b"a\0b", b'say "hi"\\\r\n', "Grüße 你好 🙂".encode(), b'"',
        b'"hello" ""')
BYTES = (b"\xff\x00\x01", b"\xc3")
ALL = JSON + SPACED + TEXT + BYTES
SOME = (b"null", b'"hello"', b'{ "a":1 }', b'{"a":1}\n', b"hello", b"", b"a\0b", b'say "hi"\\\r\n',
        b"\xff\x00\x01")  # of each kind, where each takes a process of its own


def cut(body, name, before):
    """The members that tell a payload, as they are written: from its name to the next one."""
    start = body.index(b'"%s' % name.encode())
    return body[start:body.index(b',"%s":' % before.encode(), start)]


def same(body, name, before, to=None):
    """Members of a body that give the bytes again, from those of an answer: a payload that is JSON
    is sent as the text that it is, since a body would lose spaces around it."""
    to = to or name
    told, members = json.loads(body), cut(body, name, before)
    if name + "_base64" in told:
        return {to + "_base64": told[name + "_base64"]}
    if told.get(name + "_is_text"):
        return {to: told[name], to + "_is_text": True}
    return {to: members[len(name) + 3:].decode(), to + "_is_text": True}


def end(client, job_id, result):
    grant = claim(client)[0]
    equal(grant.id, job_id, "the job that is claimed")
    client("COMPLETE", job_id, grant.token, result)


@test("what is told of a job's args is another for other bytes, and sent back gives the same")
def _(folder):
    server = Server(folder)
    seen = set()
    with server.web() as web, server.client() as c:
        for args in ALL:
            one = c("ENQUEUE", "h", args)
            body = web.ask("GET", "/v1/jobs/%d" % one).body
            seen.add(cut(body, "args", "queue"))
            equal("args_is_text" in json.loads(body), args in TEXT, "marked as text: %r" % args)
            two = web.good("POST", "/v1/jobs", {"hook": "h", **same(body, "args", "queue")})["id"]
            equal(job(c, two)["args"], args, "args that were sent back")
            many = web.good("POST", "/v1/jobs", [{"hook": "h", **same(body, "args", "queue")}])
            equal(job(c, many["ids"][0])["args"], args, "args that were sent back in an array")
        equal(len(seen), len(ALL), "ways in which args were told")
        for args in JSON:
            answer = web.ask("POST", "/v1/jobs", b'{"hook":"h","args":%s}' % args,
                             headers=["Content-Type: application/json"])
            equal(job(c, answer.json["id"])["args"], args, "JSON that was sent as JSON")
        listed = web.good("GET", "/v1/jobs?limit=1000")["jobs"]
        equal(sum("args_is_text" in row for row in listed), 3 * len(TEXT), "marked in a list")


@test("a result is told and sent back like args, and so are the args of a claim")
def _(folder):
    server = Server(folder)
    with server.web() as web, server.client() as c:
        for data in ALL[1:]:  # of null is told what is told of none
            one = c("ENQUEUE", "h", data)
            end(c, one, data)
            body = web.ask("GET", "/v1/jobs/%d" % one).body
            if data:
                equal("result_is_text" in json.loads(body), data in TEXT, "marked: %r" % data)
            two = c("ENQUEUE", "h", data)
            claimed = web.ask("POST", "/v1/claims", {"worker": "w", "queues": ["default"]}).body
            equal(cut(claimed, "args", "attempt"), cut(body, "args", "queue"), "args of a claim")
            back = same(body, "result", "error") if data else {}
            web.good("POST", "/v1/jobs/%d/complete" % two,
                     {"token": json.loads(claimed)["jobs"][0]["token"], **back})
            equal(job(c, two)["result"] or b"", data, "a result that was sent back")


@test("a schedule that is read and saved over HTTP makes jobs with the same bytes")
def _(folder):
    server = Server(folder)
    with server.web() as web, server.client() as c:
        for args in ALL:
            c("SCHEDULE", "s", "h", args, "EVERY", 3600000, "OVERLAP", "allow")
            body = web.ask("GET", "/v1/schedules/s").body
            web.good("POST", "/v1/schedules/s", {"hook": "h", "every": 3600000, "overlap": "allow",
                                                 **same(body, "args", "queue")})
            equal(mapping(c("SCHEDULED", "s"))["args"], args, "args of the schedule")
            equal(job(c, c("RUNSCHEDULE", "s"))["args"], args, "args of its job")


@test("the args of a batch's callbacks are told and sent back like those of a job")
def _(folder):
    server = Server(folder)
    with server.web() as web, server.client() as c:
        for i, args in enumerate(ALL):
            c("BATCH", "a%d" % i, "ONDONE", "over", "DONEARGS", args)
            told = web.good("GET", "/v1/batches/a%d" % i)["ondone"]
            equal("args_is_text" in told, args in TEXT, "marked as text: %r" % args)
            body = web.ask("GET", "/v1/batches/a%d" % i).body
            body = body[body.index(b'"ondone":{') + len(b'"ondone":'):-len(b"}\n")]
            body = body[:body.rindex(b'"job":null') + len(b'"job":null')] + b"}"
            web.good("POST", "/v1/batches/b%d" % i,
                     {"ondone": "over", **same(body, "args", "job", to="doneargs")})
            made = mapping(mapping(c("BATCHSTATE", "b%d" % i))["ondone"])
            equal(made["args"], args, "args of the callback")


@test("a job keeps its bytes when it is run, retried and taken back from history")
def _(folder):
    server = Server(folder)
    with server.web() as web, server.client() as c:
        ids = [c("ENQUEUE", "h", args, "IN", 3600000, "ATTEMPTS", 1) for args in ALL]

        def check(when):
            equal([job(c, i)["args"] for i in ids], list(ALL), "args of jobs that " + when)

        for i in ids:
            web.good("POST", "/v1/jobs/%d/run" % i)
        check("may run")
        for grant in claim(c, count=len(ALL)):
            equal(grant.args, ALL[ids.index(grant.id)], "args of a claim")
            c("FAIL", grant.id, grant.token, "no")
        check("failed")
        for i in ids:
            web.good("POST", "/v1/jobs/%d/retry" % i)
        check("are retried")


@test("weir job show and list --json tell the same as HTTP, and a line of them adds the same bytes")
def _(folder):
    server = Server(folder)
    url = "redis://%s:%d" % server.resp
    lines = []
    with server.web() as web, server.client() as c:
        for args in SOME:
            one = c("ENQUEUE", "h", args)
            body = web.ask("GET", "/v1/jobs/%d" % one).body
            shown = weir("job", "show", str(one), "--json", "--url", url).stdout.encode()
            equal(cut(shown, "args", "queue"), cut(body, "args", "queue"), "args of job show")
            lines.append(json.dumps({"hook": "h", **same(shown, "args", "queue")}))
        listed = weir("job", "list", "--json", "--limit", "1000", "--url", url).stdout
        equal(listed.count('"args_is_text":true'), len(set(SOME) & set(TEXT)), "marked in a list")
        done = weir("job", "add", "--file", "-", "--queue", "again", "--url", url,
                    input="\n".join(lines) + "\n")
        equal((done.returncode, done.stderr.count("line")), (0, 0), done.stderr)
        added = claim(c, "again", count=len(SOME))
        equal([grant.args for grant in added], list(SOME), "args of the lines")
        for args in (a for a in SOME if a not in BYTES):
            word = args.decode()
            if b"\0" not in args:
                done = weir("job", "add", "h", word, "--json", "--url", url)
                equal(job(c, int(done.stdout))["args"], args, "args of job add")
            done = weir("job", "add", "h", "-", "--json", "--url", url, input=word)
            equal(job(c, int(done.stdout))["args"], args, "args of job add from its input")
            weir("schedule", "add", "s", "h", "-", "--every", "1h", "--url", url, input=word)
            equal(mapping(c("SCHEDULED", "s"))["args"], args, "args of schedule add")


@test("an export taken in elsewhere has the same bytes")
def _(folder):
    urls, servers = [], []
    for name in ("old", "new"):
        os.mkdir(os.path.join(folder, name))
        servers.append(Server(os.path.join(folder, name)))
        urls.append("redis://%s:%d" % servers[-1].resp)
    with servers[0].client() as c:
        for i, args in enumerate(ALL):
            c("ENQUEUE", "h", args)
            c("SCHEDULE", "s%d" % i, "h", args, "EVERY", 3600000)
    done = weir("import", "-", "--url", urls[1], input=weir("export", "--url", urls[0]).stdout)
    equal(done.returncode, 0, done.stderr)
    with servers[1].client() as c:
        for i, args in enumerate(ALL):
            equal(mapping(c("SCHEDULED", "s%d" % i))["args"], args, "args of a schedule")
        equal([grant.args for grant in claim(c, count=len(ALL))], list(ALL), "args of the jobs")


@test("a text counts by its own bytes, not by those of its JSON")
def _(folder):
    server = Server(folder)
    with server.web() as web, server.client() as c:
        text = '"' * 1048576
        one = web.good("POST", "/v1/jobs", {"hook": "h", "args": text, "args_is_text": True})["id"]
        equal(job(c, one)["args"], text.encode(), "a text of 1 MiB")
        answer = web.ask("POST", "/v1/jobs", {"hook": "h", "args": text + "x",
                                              "args_is_text": True})
        equal((answer.status, answer.json["code"]), (413, "TOOBIG"), "one byte more")


@test("a job and a schedule without args have an empty payload, over every way in")
def _(folder):
    server = Server(folder)
    with server.web() as web, server.client() as c:
        ids = [web.good("POST", "/v1/jobs", {"hook": "h"})["id"], c("ENQUEUE", "h", "")]
        ids += web.good("POST", "/v1/jobs", [{"hook": "h"}, {"hook": "h", "priority": 7}])["ids"]
        equal([job(c, one)["args"] for one in ids], [b""] * 4, "payloads")
        equal(len({str(web.good("GET", "/v1/jobs/%d" % one).get("args")) for one in ids}), 1,
              "how they are shown")
        web.good("POST", "/v1/schedules/s", {"hook": "h", "every": 3600000})
        equal(mapping(c("SCHEDULED", "s"))["args"], b"", "the payload of a schedule")


@test("what NAME_is_text cannot mean is refused, and nothing is changed")
def _(folder):
    server = Server(folder)
    with server.web() as web, server.client() as c:
        c("SCHEDULE", "s", "h", "hello", "EVERY", 3600000)
        for more, mention in (
                ({"args": {}, "args_is_text": True}, "args must be a string"),
                ({"args": None, "args_is_text": True}, "args must be a string"),
                ({"args_base64": "", "args_is_text": True}, "args is missing"),
                ({"args_is_text": True}, "args is missing"),
                ({"args": "x", "args_is_text": "yes"}, "args_is_text must be true or false"),
                ({"args": "x", "args_is_text": None}, "args_is_text must be true or false")):
            for path, rest in (("/v1/jobs", {}), ("/v1/schedules/s", {"every": 1000})):
                answer = web.ask("POST", path, {"hook": "h", **rest, **more})
                equal((answer.status, answer.json["code"]), (400, "BADARG"), more)
                expect(mention in answer.json["detail"], "%s: %r" % (more, answer))
        equal(web.good("GET", "/v1/jobs")["jobs"], [], "jobs")
        kept = mapping(c("SCHEDULED", "s"))
        equal((kept["args"], kept["every_ms"]), (b"hello", 3600000), "the schedule")


if __name__ == "__main__":
    main()
