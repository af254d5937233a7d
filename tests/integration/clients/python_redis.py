#!/usr/bin/python3
"""The whole life of jobs through python3-redis."""
import os
import sys
import threading
import time

import redis

HOST, PORT = os.environ.get("WEIR_RESP", "127.0.0.1:7379").rsplit(":", 1)
FIELDS = ("id", "token", "hook", "args", "attempt", "queue", "group", "priority", "attempts",
          "fence", "lease_ms", "created_ms")
failed = 0


def connect(is_text=True):
    tls = os.environ.get("WEIR_TLS")  # the folder of `weir tls self-signed`
    more = {}
    if tls:
        more = {"ssl": True, "ssl_ca_certs": tls + "/ca.crt", "ssl_certfile": tls + "/client.crt",
                "ssl_keyfile": tls + "/client.key", "ssl_check_hostname": True}
    return redis.Redis(HOST, int(PORT), password=os.environ.get("WEIR_TOKEN"),
                       decode_responses=is_text, client_name="python-test", **more)


r = connect()
call = r.execute_command


def pairs(reply):
    return dict(zip(reply[::2], reply[1::2]))


def grants(reply):
    return [dict(zip(FIELDS, row)) for row in reply or []]


def refuses(names, *words):
    try:
        reply = call(*words)
    except redis.ResponseError as error:
        assert str(error).split(" ")[0] in names.split("|"), str(error)
        return
    raise AssertionError("%s was answered with %r" % (words, reply))


def a_job_is_added_found_claimed_and_finished_with_a_result():
    job = call("ENQUEUE", "mail", '{"to":"ü"}', "QUEUE", "one", "GROUP", "g", "PRIORITY", 7)
    view = pairs(call("JOB", job))
    assert view["status"] == "pending" and view["args"] == '{"to":"ü"}', view
    got = grants(call("CLAIM", "w", "MAX", 1, "QUEUES", "one"))
    assert [g["id"] for g in got] == [job], got
    assert call("EXTEND", job, got[0]["token"], 60000) == "OK"
    assert call("PROGRESS", job, got[0]["token"], "half") == "OK"
    assert pairs(call("JOB", job))["progress"] == "half"
    assert call("COMPLETE", job, got[0]["token"], "the result") == "OK"
    view = pairs(call("JOB", job))
    assert view["status"] == "complete" and view["result"] == "the result", view


def any_bytes_are_a_payload():
    raw = connect(is_text=False)
    data = bytes(range(256)) * 4
    job = raw.execute_command("ENQUEUE", "raw", data, "QUEUE", "raw")
    row = raw.execute_command("CLAIM", "w", "QUEUES", "raw")[0]
    assert row[0] == job and row[3] == data
    assert raw.execute_command("COMPLETE", job, row[1], data) == b"OK"


def many_jobs_in_one_command_and_in_one_pipeline():
    ids = call("ENQUEUEMANY", "QUEUE", "many", "JOBS", "a", "1", "b", "2")
    with r.pipeline(transaction=False) as pipe:
        for i in range(50):
            pipe.execute_command("ENQUEUE", "h", i, "QUEUE", "many")
        ids += pipe.execute()
    got = grants(call("CLAIM", "w", "MAX", 1000, "QUEUES", "many"))
    assert [g["id"] for g in got] == ids
    with r.pipeline(transaction=False) as pipe:
        for g in got:
            pipe.execute_command("COMPLETE", g["id"], g["token"])
        assert set(pipe.execute()) == {"OK"}


def a_delayed_job_comes_when_it_is_due():
    begin = time.monotonic()
    job = call("ENQUEUE", "later", "", "QUEUE", "delayed", "IN", 1500)
    got = grants(call("CLAIM", "w", "QUEUES", "delayed"))  # of a slow machine it is due already
    assert not got or time.monotonic() - begin >= 1.5
    got = got or grants(call("CLAIM", "w", "WAIT", 10000, "QUEUES", "delayed"))
    assert got[0]["id"] == job and time.monotonic() - begin >= 1.5
    call("COMPLETE", job, got[0]["token"])


def a_waiting_claim_gets_the_next_job():
    answer = []
    waiter = threading.Thread(target=lambda: answer.extend(grants(
        connect().execute_command("CLAIM", "w", "WAIT", 10000, "QUEUES", "waited"))))
    waiter.start()
    job = call("ENQUEUE", "h", "x", "QUEUE", "waited")
    waiter.join(15)
    assert [g["id"] for g in answer] == [job]
    call("COMPLETE", job, answer[0]["token"])


def completing_and_claiming_the_next_is_one_round_trip():
    a, b = call("ENQUEUEMANY", "QUEUE", "chain", "JOBS", "h", "1", "h", "2")
    one = grants(call("CLAIM", "w", "QUEUES", "chain"))[0]
    two = grants(call("COMPLETE", a, one["token"], "r", "CLAIM", "w", "MAX", 1, "QUEUES", "chain"))
    assert [g["id"] for g in two] == [b]
    assert call("COMPLETE", b, two[0]["token"], "CLAIM", "w", "QUEUES", "chain") == []


def a_failing_job_is_tried_until_its_attempts_are_used_up():
    job = call("ENQUEUE", "h", "x", "QUEUE", "fail", "ATTEMPTS", 2)
    one = grants(call("CLAIM", "w", "QUEUES", "fail"))[0]
    assert call("FAIL", job, one["token"], "boom", "RETRYIN", 1) == "pending"
    two = grants(call("CLAIM", "w", "WAIT", 5000, "QUEUES", "fail"))[0]
    assert two["attempt"] == 2 and two["fence"] > one["fence"]
    assert call("FAIL", job, two["token"], "boom") == "failed"
    assert pairs(call("JOB", job))["error"] == "boom"


def a_released_job_comes_back_and_a_canceled_one_does_not():
    job = call("ENQUEUE", "h", "x", "QUEUE", "rel", "ATTEMPTS", 1)
    one = grants(call("CLAIM", "w", "QUEUES", "rel"))[0]
    assert call("RELEASE", job, one["token"]) == "OK"
    two = grants(call("CLAIM", "w", "QUEUES", "rel"))[0]
    assert two["id"] == job and two["attempt"] == 1
    assert call("CANCEL", job) == "OK"
    # CANCELED while it is live, STATE when it is history.
    refuses("CANCELED|STATE", "COMPLETE", job, two["token"])
    story = [pairs(e)["event"] for e in call("EVENTS", job)]
    assert story == ["created", "started", "released", "started", "canceled"], story


def jobs_are_listed_by_filter_and_page_by_page():
    ids = call("ENQUEUEMANY", "QUEUE", "list", "GROUP", "lg", "JOBS",
               *[w for i in range(25) for w in ("lister", "needle%d" % i)])
    seen, cursor = [], ""
    while True:
        page = pairs(call("JOBS", "QUEUE", "list", "LIMIT", 10,
                          *(["CURSOR", cursor] if cursor else [])))
        seen += [pairs(row)["id"] for row in page["jobs"]]
        cursor = page["cursor"]
        if not cursor:
            break
    assert seen == ids[::-1], seen
    assert len(pairs(call("JOBS", "GROUP", "lg", "STATUS", "pending"))["jobs"]) == 25
    assert len(pairs(call("JOBS", "QUEUE", "list", "MATCH", "needle7"))["jobs"]) == 1


def a_paused_queue_hands_out_nothing_until_it_is_resumed():
    job = call("ENQUEUE", "h", "x", "QUEUE", "stopgo")
    assert call("PAUSE", "stopgo") == "OK"
    assert call("CLAIM", "w", "QUEUES", "stopgo") == []
    row = [pairs(q) for q in call("QUEUES") if pairs(q)["name"] == "stopgo"][0]
    assert row["paused"] == 1 and row["ready"] == 1, row
    assert call("RESUME", "stopgo") == "OK"
    assert call("CLAIM", "w", "QUEUES", "stopgo")[0][0] == job


def wrong_requests_are_refused_and_the_connection_goes_on():
    job = call("ENQUEUE", "h", "x", "QUEUE", "wrong")
    got = grants(call("CLAIM", "w", "QUEUES", "wrong"))[0]
    refuses("NOTOWNER", "COMPLETE", job, "0" * 32)
    refuses("BADARG", "COMPLETE", job, "zz")
    refuses("NOTFOUND", "JOB", 999999999)
    refuses("UNKNOWN", "NOSUCH")
    refuses("SYNTAX", "ENQUEUE", "h")
    assert call("COMPLETE", job, got["token"]) == "OK"
    assert r.ping() is True
    assert r.info()
    assert r.client_getname() == "python-test"


for step in [v for k, v in list(globals().items()) if getattr(v, "__module__", "") == "__main__"
             and callable(v) and "_" in k and k not in ("connect", "pairs", "grants", "refuses")]:
    sentence = "python3-redis: " + step.__name__.replace("_", " ")
    try:
        step()
        print("ok - " + sentence)
    except Exception as error:
        failed += 1
        print("not ok - %s: %s %s" % (sentence, type(error).__name__, str(error)[:300]))
sys.exit(1 if failed else 0)
