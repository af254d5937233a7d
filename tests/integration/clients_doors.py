#!/usr/bin/python3
# weir-test: timeout=120 tsan
"""One core, two doors: what goes in by one is seen, claimed and finished by the other."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "fault"))

from harness import (  # noqa: E402
    Server, claim, equal, expect, job, main, mapping, pack, status, test, text, weir)


@test("a job enqueued over RESP is seen, claimed and finished over HTTP")
def _(folder):
    server = Server(folder)
    with server.client() as c, server.web() as web:
        job_id = c("ENQUEUE", "mail", b'{"to":"a@b"}', "QUEUE", "q", "GROUP", "g")
        seen = web.good("GET", "/v1/jobs/%d" % job_id)
        equal(seen["status"], "pending")
        equal(seen["args"], {"to": "a@b"})
        equal(seen["group"], "g")
        grant = web.good("POST", "/v1/claims", {"worker": "web", "queues": ["q"]})["jobs"][0]
        equal(grant["id"], job_id)
        equal(status(c, job_id), "in-progress")
        equal(text(job(c, job_id)["worker"]), "web")
        web.good("POST", "/v1/jobs/%d/complete" % job_id,
                 {"token": grant["token"], "result": {"ok": 1}})
        equal(status(c, job_id), "complete")
        equal(job(c, job_id)["result"], b'{"ok": 1}')


@test("a job enqueued over HTTP is seen, claimed and finished over RESP")
def _(folder):
    server = Server(folder)
    with server.client() as c, server.web() as web:
        body = b'{"hook":"mail","args":{"b":1,  "a":[1.50, "\\u00fc"]},"queue":"q"}'
        job_id = web.good("POST", "/v1/jobs", body)["id"]
        got = claim(c, "q")[0]
        equal(got.id, job_id)
        equal(got.args, b'{"b":1,  "a":[1.50, "\\u00fc"]}', "the exact bytes of the args")
        equal(c("COMPLETE", got.id, got.token, b"\xff\x00 raw bytes"), "OK")
        seen = web.good("GET", "/v1/jobs/%d" % job_id)
        equal(seen["status"], "complete")
        equal(seen.get("result_base64"), "/wAgcmF3IGJ5dGVz", "a result that is not JSON")


@test("a worker waiting at one door is woken by a job through the other")
def _(folder):
    server = Server(folder)
    with server.client() as c, server.web() as web:
        c.send(pack("CLAIM", "w", "WAIT", 20000, "QUEUES", "a"))
        first = web.good("POST", "/v1/jobs", {"hook": "h", "args": 1, "queue": "a"})["id"]
        equal(c.read()[0][0], first)
        body = b'{"worker":"w","wait":20000,"queues":["b"]}'
        web.send(web.head("POST", "/v1/claims", ["Content-Type: application/json",
                                                 "Content-Length: %d" % len(body)]) + body)
        second = c("ENQUEUE", "h", "2", "QUEUE", "b")
        equal(web.read().json["jobs"][0]["id"], second)


@test("a token from one door is good at the other, and so is its loss")
def _(folder):
    server = Server(folder)
    with server.client() as c, server.web() as web:
        job_id = c("ENQUEUE", "h", "x")
        got = claim(c)[0]
        path = "/v1/jobs/%d/" % job_id
        web.good("POST", path + "extend", {"token": text(got.token), "ms": 5000})
        web.good("POST", path + "release", {"token": text(got.token)})
        c.refused("COMPLETE", job_id, got.token, name=("NOTOWNER", "STATE"))
        again = web.good("POST", "/v1/claims", {"worker": "w", "queues": ["default"]})["jobs"][0]
        expect(again["fence"] > got.fence, "the fence did not grow")
        c.refused("COMPLETE", job_id, got.token, name="NOTOWNER")
        equal(text(c("FAIL", job_id, again["token"], "no")), "pending")


@test("a pause at one door holds at the other, and both list the same")
def _(folder):
    server = Server(folder)
    with server.client() as c, server.web() as web:
        ids = c("ENQUEUEMANY", "QUEUE", "q", "JOBS", "a", "1", "b", "2")
        web.good("POST", "/v1/queues/q/pause")
        equal(claim(c, "q", count=5), [])
        over_http = web.good("GET", "/v1/jobs?queue=q&limit=10")["jobs"]
        over_resp = [mapping(row) for row in mapping(c("JOBS", "QUEUE", "q", "LIMIT", 10))["jobs"]]
        equal([j["id"] for j in over_http], ids[::-1])
        equal([j["id"] for j in over_resp], ids[::-1])
        equal(sorted(over_http[0]), sorted(over_resp[0]), "names of the fields")
        c("RESUME", "q")
        got = web.good("POST", "/v1/claims", {"worker": "w", "max": 5, "queues": ["q"]})["jobs"]
        equal([g["id"] for g in got], ids)


@test("both doors serve on unix sockets")
def _(folder):
    resp, http = os.path.join(folder, "resp.sock"), os.path.join(folder, "http.sock")
    server = Server(folder, resp=resp, http=http)
    with server.client() as c, server.web() as web:
        job_id = c("ENQUEUE", "h", "x")
        equal(web.good("GET", "/v1/jobs/%d" % job_id)["status"], "pending")
    equal(server.stop(), 0, "exit code")
    expect(not os.path.exists(resp) and not os.path.exists(http), "the sockets were left behind")


@test("weir job show tells the whole story of a job that went through both doors")
def _(folder):
    server = Server(folder)
    with server.client() as c, server.web() as web:
        job_id = web.good("POST", "/v1/jobs", {"hook": "story", "args": "x", "attempts": 2,
                                               "backoff": "none"})["id"]
        got = claim(c, worker="worker-a")[0]
        c("FAIL", job_id, got.token, "first try")
        grant = web.good("POST", "/v1/claims",
                         {"worker": "worker-b", "queues": ["default"]})["jobs"][0]
        web.good("POST", "/v1/jobs/%d/complete" % job_id, {"token": grant["token"]})
        shown = weir("job", "show", str(job_id), "--url", "redis://%s:%d" % server.resp)
        equal(shown.returncode, 0, "exit code (%s)" % shown.stderr)
        for word in ("story", "complete", "worker-a", "worker-b", "first try", "created", "started",
                     "completed"):
            expect(word in shown.stdout, "no %r in %s" % (word, shown.stdout))


if __name__ == "__main__":
    main()
