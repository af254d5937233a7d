#!/usr/bin/python3
# weir-test: timeout=300 long tsan
"""A stateful property: whatever a few clients do, the server agrees with a model of thirty lines.

The model keeps jobs as plain records and claims by sorting them: priority, then attempts used,
then due, then id.  Hypothesis makes up the operations and shrinks what fails.  One server serves
all examples; every example uses queues of its own.

    tests/integration/lifecycle.py [--full]
"""
import os
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "fault"))

from hypothesis import HealthCheck, settings, strategies as st  # noqa: E402
from hypothesis.stateful import (  # noqa: E402
    RuleBasedStateMachine, initialize, invariant, precondition, rule, run_state_machine_as_test)

from harness import FULL, Server, WeirError, claim, grants, job, mapping, pack, text  # noqa: E402

QUEUES = ("a", "b", "c")
server = None
examples = 0


class Model:
    """What the jobs of one example should be."""

    def __init__(self, number):
        self.number = number
        self.jobs = {}      # id -> dict
        self.paused = set()

    def queue(self, name):
        return "%s%d" % (name, self.number)

    def next_jobs(self, queues, count):
        ready = [j for j in self.jobs.values()
                 if j["status"] == "pending" and j["queue"] in queues
                 and j["queue"] not in self.paused]
        # Due times grow with the time of becoming pending again; `due` counts those moments.
        ready.sort(key=lambda j: (j["priority"], j["attempt"], j["due"], j["id"]))
        return ready[:count]

    def held(self):
        return [j for j in self.jobs.values() if j["status"] == "in-progress"]


class Life(RuleBasedStateMachine):
    @initialize()
    def begin(self):
        global examples
        examples += 1
        self.model = Model(examples)
        self.client = server.client()
        self.moment = 0
        self.fence = 0
        self.old_tokens = []

    def teardown(self):
        if hasattr(self, "client"):
            shown = {text(mapping(q)["name"]): mapping(q) for q in self.client("QUEUES")}
            self.counted([shown.get(self.model.queue(q)) for q in QUEUES])
            self.client.close()

    def tick(self):
        """Due times have a resolution of a millisecond; the model's moments are told apart by
        waiting for the server's clock to move on."""
        self.moment += 1
        before = time.time_ns() // 1000000
        while time.time_ns() // 1000000 == before:
            time.sleep(0.001)
        return self.moment

    @rule(queue=st.sampled_from(QUEUES), priority=st.integers(0, 3), attempts=st.integers(1, 3),
          args=st.binary(max_size=40), group=st.sampled_from(["", "g", "ü"]))
    def enqueue(self, queue, priority, attempts, args, group):
        due = self.tick()
        words = ["ENQUEUE", "hook", args, "QUEUE", self.model.queue(queue), "PRIORITY", priority,
                 "ATTEMPTS", attempts, "BACKOFF", "none"]
        if group:
            words += ["GROUP", group]
        job_id = self.client(*words)
        assert job_id not in self.model.jobs
        assert not self.model.jobs or job_id > max(self.model.jobs), "ids grow"
        self.model.jobs[job_id] = {
            "id": job_id, "queue": queue, "priority": priority, "attempts": attempts, "attempt": 0,
            "status": "pending", "args": args, "due": due, "token": None}

    @rule(queue=st.sampled_from(QUEUES), priority=st.integers(0, 3),
          many=st.lists(st.binary(max_size=10), min_size=1, max_size=4))
    def enqueue_many(self, queue, priority, many):
        due = self.tick()
        words = [w for args in many for w in ("hook", args)]
        ids = self.client("ENQUEUEMANY", "QUEUE", self.model.queue(queue), "PRIORITY", priority,
                          "BACKOFF", "none", "JOBS", *words)
        assert ids == list(range(ids[0], ids[0] + len(many)))
        for job_id, args in zip(ids, many):
            self.model.jobs[job_id] = {
                "id": job_id, "queue": queue, "priority": priority, "attempts": 3, "attempt": 0,
                "status": "pending", "args": args, "due": due, "token": None}

    def granted(self, got, queues, count):
        expected = self.model.next_jobs(queues, count)
        assert [g.id for g in got] == [j["id"] for j in expected], (
            "claimed %s, expected %s" % ([g.id for g in got], [j["id"] for j in expected]))
        for g, j in zip(got, expected):
            j["status"] = "in-progress"
            j["attempt"] += 1
            assert g.attempt == j["attempt"] and g.attempts == j["attempts"]
            assert g.args == j["args"] and g.priority == j["priority"]
            assert g.fence > self.fence, "fences grow"
            self.fence = g.fence
            if j["token"]:
                self.old_tokens.append((j["id"], j["token"]))
            j["token"] = g.token

    @rule(queues=st.sets(st.sampled_from(QUEUES), min_size=1), count=st.integers(1, 4))
    def claim_some(self, queues, count):
        got = claim(self.client, [self.model.queue(q) for q in sorted(queues)], count=count)
        self.granted(got, queues, count)

    @precondition(lambda self: self.model.held())
    @rule(data=st.data(), result=st.one_of(st.none(), st.binary(max_size=20)))
    def complete(self, data, result):
        j = data.draw(st.sampled_from(self.model.held()))
        words = ["COMPLETE", j["id"], j["token"]] + ([result] if result is not None else [])
        assert self.client(*words) == "OK"
        j["status"] = "complete"
        j["result"] = result or None

    @precondition(lambda self: self.model.held())
    @rule(data=st.data(), queues=st.sets(st.sampled_from(QUEUES), min_size=1))
    def complete_and_claim(self, data, queues):
        j = data.draw(st.sampled_from(self.model.held()))
        reply = self.client("COMPLETE", j["id"], j["token"], "r", "CLAIM", "w", "MAX", 2, "QUEUES",
                            *[self.model.queue(q) for q in sorted(queues)])
        j["status"] = "complete"
        j["result"] = b"r"
        self.granted(grants(reply), queues, 2)

    @precondition(lambda self: self.model.held())
    @rule(data=st.data())
    def fail(self, data):
        j = data.draw(st.sampled_from(self.model.held()))
        due = self.tick()
        is_last = j["attempt"] >= j["attempts"]
        reply = text(self.client("FAIL", j["id"], j["token"], "because"))
        assert reply == ("failed" if is_last else "pending")
        j["status"] = reply
        j["due"] = due

    @precondition(lambda self: self.model.held())
    @rule(data=st.data())
    def release(self, data):
        j = data.draw(st.sampled_from(self.model.held()))
        due = self.tick()
        assert self.client("RELEASE", j["id"], j["token"]) == "OK"
        j["status"] = "pending"
        j["attempt"] -= 1
        j["due"] = due

    @precondition(lambda self: self.model.jobs)
    @rule(data=st.data())
    def cancel(self, data):
        j = data.draw(st.sampled_from(list(self.model.jobs.values())))
        reply = self.client.ask("CANCEL", j["id"])
        if j["status"] in ("pending", "in-progress"):
            assert reply == "OK", reply
            j["status"] = "canceled"
        else:
            assert isinstance(reply, WeirError) and reply.name == "STATE", reply

    @precondition(lambda self: self.old_tokens)
    @rule(data=st.data(), command=st.sampled_from(["COMPLETE", "RELEASE", "EXTEND", "FAIL"]))
    def a_stale_token_is_refused(self, data, command):
        job_id, token = data.draw(st.sampled_from(self.old_tokens))
        extra = {"EXTEND": [1000], "FAIL": ["e"]}.get(command, [])
        reply = self.client.ask(command, job_id, token, *extra)
        assert isinstance(reply, WeirError) and reply.name in ("NOTOWNER", "STATE"), reply

    @rule(queue=st.sampled_from(QUEUES))
    def pause(self, queue):
        assert self.client("PAUSE", self.model.queue(queue)) == "OK"
        self.model.paused.add(queue)

    @precondition(lambda self: self.model.paused)
    @rule(data=st.data())
    def resume(self, data):
        queue = data.draw(st.sampled_from(sorted(self.model.paused)))
        assert self.client("RESUME", self.model.queue(queue)) == "OK"
        self.model.paused.discard(queue)

    @precondition(lambda self: self.model.jobs)
    @rule(data=st.data())
    def a_job_is_shown_as_it_is(self, data):
        j = data.draw(st.sampled_from(list(self.model.jobs.values())))
        view = job(self.client, j["id"])
        assert text(view["status"]) == j["status"], (j, view)
        assert view["attempt"] == j["attempt"] and view["args"] == j["args"]
        if j["status"] == "complete":
            assert view["result"] == j["result"], (view["result"], j["result"])

    @invariant()
    def the_counters_agree(self):
        """One by one: QUEUES, asked at the end, lists those of all examples."""
        if not hasattr(self, "model"):
            return
        self.client.send(b"".join(pack("QUEUE", self.model.queue(q)) for q in QUEUES))
        rows = [self.client.read() for _ in QUEUES]
        for row in rows:
            assert not isinstance(row, WeirError) or row.name == "NOTFOUND", row
        self.counted([None if isinstance(row, WeirError) else mapping(row) for row in rows])

    def counted(self, rows):
        for queue, row in zip(QUEUES, rows):
            mine = [j for j in self.model.jobs.values() if j["queue"] == queue]
            if row is None:
                assert not [j for j in mine if j["status"] in ("pending", "in-progress")]
                continue
            statuses = [j["status"] for j in mine]
            assert row["ready"] == statuses.count("pending"), (row, mine)
            assert row["running"] == statuses.count("in-progress"), (row, mine)
            assert row["enqueued"] == len(mine), (row, mine)
            assert row["completed"] == statuses.count("complete"), (row, mine)
            assert row["failed"] == statuses.count("failed"), (row, mine)
            assert row["canceled"] == statuses.count("canceled"), (row, mine)
            assert bool(row["paused"]) == (queue in self.model.paused)


def main():
    global server
    n = 1000 if FULL else 100
    with tempfile.TemporaryDirectory(prefix="weir-test.") as folder:
        server = Server(folder)
        sentence = "the server agrees with the model over %d made-up lives" % n
        try:
            run_state_machine_as_test(Life, settings=settings(
                max_examples=n, stateful_step_count=30, deadline=None, derandomize=True,
                database=None, suppress_health_check=list(HealthCheck), print_blob=True))
            print("ok - " + sentence)
            code = 0
        except Exception as error:
            print("not ok - %s: %s" % (sentence, str(error).replace("\n", " ")[:400]))
            code = 1
        code |= bool(server.stop())
    sys.exit(code)


if __name__ == "__main__":
    main()
