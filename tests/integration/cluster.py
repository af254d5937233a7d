#!/usr/bin/python3
# weir-test: timeout=300 long full
"""Three weirs over one PostgreSQL with a synchronous standby: who leads, what a follower does, and
that nothing acknowledged is lost when the leader dies, sleeps or hands over."""
import os
import signal
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "fault"))

from harness import (Closed, Server, WeirError, claim, equal, expect, main, mapping, pack,  # noqa: E402
                     test, text, until, weir)
from lib_cluster import Producer, until_told  # noqa: E402
from lib_cluster_site import Site  # noqa: E402


@test("one of three leads, and a job that goes in at any of them comes out at any other")
def _(folder):
    c = Site.cluster(folder)
    leader = c.leader()
    with c.nodes[0].client() as a, c.nodes[1].client() as b, c.nodes[2].client() as other:
        job = a("ENQUEUE", "mail", "{}")
        [g] = claim(b)
        equal(g["id"], job, "job")
        equal(text(other("COMPLETE", g["id"], g["token"])), "OK", "answer")
    for node in c.nodes:
        until_told(lambda n=node: text(n.state()["leader"]) == leader.name, 30, "known leader")
    equal(sorted(n.leads() for n in c.nodes), [False, False, True], "leaders")


def metrics(node):
    """{name and labels: value} of what a machine tells of the cluster."""
    with node.server.web() as web:
        lines = web.ask("GET", "/metrics").body.decode().splitlines()
    pairs = [line.rsplit(" ", 1) for line in lines if line.startswith("weir_cluster_")]
    return {name: float(value) for name, value in pairs}


@test("metrics, top and status of every machine tell who leads, who is gone and how far each is")
def _(folder):
    c = Site.cluster(folder, names="ab")
    first = c.leader()
    other = next(n for n in c.nodes if n is not first)
    p = Producer(c)
    p.add(10)
    until_told(lambda: first.knows(other), 30, "a member that is in step")
    batch = 'weir_cluster_member_batch{node="%s"}' % first.name  # told once a second

    def knows_leader():
        told = metrics(other)
        return told["weir_cluster_led"] == 1 and told.get(batch, 0) >= 1
    until_told(knows_leader, 30, "a known leader")
    for node in c.nodes:
        told = metrics(node)
        leads = int(node is first)
        equal((told["weir_cluster_leader"], told["weir_cluster_leads_total"]), (leads, leads),
              node.name)
        equal((told["weir_cluster_held"], told["weir_cluster_led"]), (0, 1), node.name)
        expect(told["weir_cluster_epoch"] >= 1, told)
        for name in ("a", "b"):
            expect(told['weir_cluster_member_seen_seconds{node="%s"}' % name] < 60, told)
            expect(told['weir_cluster_member_batch{node="%s"}' % name] >= 1, told)
    until_told(lambda: (metrics(other)["weir_cluster_batch"] ==
                        metrics(first)["weir_cluster_batch"]), 30, "the same batch")
    equal(metrics(other)["weir_cluster_lag_batches"], 0, "lag")
    for node in c.nodes:
        done = weir("--url", "127.0.0.1:%d" % node.port, "top", "--once")
        expect("cluster  %s leads, 2 machines\n" % first.name in done.stdout,
               done.stdout + done.stderr)
    c.kill(first, frees=True)
    until_told(lambda: metrics(other)["weir_cluster_leader"] == 1, 60, "another leads")
    # A minute goes by for the database.
    Site.sql("UPDATE weir.weir_member SET seen = seen - interval '1 minute' WHERE name = '%s'" %
             first.name)
    seen = 'weir_cluster_member_seen_seconds{node="%s"}' % first.name
    until_told(lambda: metrics(other)[seen] > 10, 60, "a member that is gone")
    equal(metrics(other)["weir_cluster_leads_total"], 1, "leads")
    done = weir("--url", "127.0.0.1:%d" % other.port, "top", "--once")
    expect("cluster  %s leads, 2 machines  gone: %s\n" % (other.name, first.name) in done.stdout,
           done.stdout + done.stderr)


@test("a leader that is killed is replaced, and nothing acknowledged is lost")
def _(folder):
    c = Site.cluster(folder)
    first = c.leader()
    p = Producer(c)
    p.add(50)
    [g] = claim(p.connection, lease=60000)
    c.kill(first)  # the next leader waits until the lease is over
    p.add(50)
    equal(text(p.ask("COMPLETE", g["id"], g["token"])), "OK", "a lease of the leader before")
    second = c.leader()
    expect(second is not first, "another leads")
    first.start()
    until_told(lambda: text((first.state() or {}).get("leader")) == second.name, 60, "first follows")
    p.add(20)
    p.check()
    c.kill(second, frees=True)
    p.add(20)
    p.check()


@test("what is history is found by the next leader, once")
def _(folder):
    c = Site.cluster(folder)
    first = c.leader()
    p = Producer(c)
    p.add(30)
    for _ in range(20):
        [g] = claim(p.connection)
        p.ask("COMPLETE", g["id"], g["token"], "done")
    c.kill(first, frees=True)
    p.add(1)
    counts = mapping(p.ask("JOBCOUNTS"))
    equal((counts["pending"], counts["complete"]), (11, 20), "jobs")
    p.check()


@test("the lead is handed over, and the machine that led goes on as a follower")
def _(folder):
    c = Site.cluster(folder, names="ab")
    first = c.leader()
    other = next(n for n in c.nodes if n is not first)
    p = Producer(c)
    p.add(10)
    until_told(lambda: first.knows(other), 30, "a member that is in step")
    done = weir("--url", "127.0.0.1:%d" % other.port, "cluster", "hand-over", other.name)
    equal((done.stdout.strip(), done.stderr), ("handed over", ""), "answer")
    equal(c.leader().name, other.name, "leader")
    p.add(10)
    p.check()
    refused = weir("--url", "127.0.0.1:%d" % other.port, "cluster", "hand-over", "nobody")
    equal(refused.returncode, 4, refused.stderr)


@test("a leader that slept past its lease answers nothing of its own, and follows")
def _(folder):
    c = Site.cluster(folder, names="ab")
    first = c.leader()
    p = Producer(c)
    p.add(10)
    with first.client() as held:
        equal(text(held("PING")), "PONG", "ping")
        first.server.process.send_signal(signal.SIGSTOP)
        stopped, first.server = first.server, None
        p.connection = None
        p.add(10)
        second = c.leader()
        first.server = stopped
        held.send(pack("ENQUEUE", "lost", "{}"))
        stopped.process.send_signal(signal.SIGCONT)
        try:
            answer = held.read()
            expect(isinstance(answer, WeirError), "it was told %r" % answer)
        except (OSError, Closed):
            pass
    until_told(lambda: text((first.state() or {}).get("leader")) == second.name, 60, "first follows")
    p.connection = None
    p.add(5)
    p.check()
    equal(mapping(p.ask("JOBCOUNTS"))["pending"], 25, "jobs")


@test("checks are answered by a machine that follows, also while nobody leads")
def _(folder):
    c = Site.cluster(folder, names="ab", more='throttle { mode = "observe" }\n')
    first = c.leader()
    other = next(n for n in c.nodes if n is not first)
    with first.client() as a:
        a("RULESET", "etl", "hold", "FOR", "3600000")
    with other.client() as b:
        until(lambda: text(b("CHECK", "etl")[0]) == "refused", 30, "the rule")
        first.server.process.send_signal(signal.SIGSTOP)
        equal(text(b("CHECK", "etl")[0]), "refused", "verdict")
        equal(text(b("CHECK", "shop")[0]), "granted", "verdict")
        first.server.process.send_signal(signal.SIGCONT)


@test("a weir that was alone does not leave its jobs behind for a cluster")
def _(folder):
    c = Site.cluster(folder, names="a")
    node = c.nodes[0]
    c.leader()
    node.server.stop()
    data = os.path.join(node.folder, "alone")
    alone = Server(node.folder, data=data)
    with alone.client() as client:
        client("ENQUEUE", "mail", "{}")
    alone.stop()
    try:
        Server(node.folder, config=node.config, data=data)
        raise AssertionError("it started")
    except AssertionError as e:
        expect("the log of a weir without a cluster" in str(e), str(e))


def knows_token(node, name, secret):
    try:
        with node.client() as c:
            return text(c("AUTH", name, secret)) == "OK"
    except (Closed, WeirError):
        return False


@test("who logs in at a machine that follows has that role at the leader, and a wrong token is refused")
def _(folder):
    c = Site.cluster(folder, names="ab")
    first = c.leader()
    other = next(n for n in c.nodes if n is not first)
    with first.client() as a:
        admin = text(mapping(a("TOKENADD", "boss", "admin"))["secret"])
    with first.client() as a:  # from here on everybody has to show one
        a("AUTH", "boss", admin)
        secret = text(mapping(a("TOKENADD", "ci", "producer"))["secret"])
    until_told(lambda: knows_token(other, "ci", secret), 30, "the token")
    with other.client() as b:
        equal(text(b("AUTH", "ci", secret)), "OK", "login")
        expect(b("ENQUEUE", "mail", "{}") > 0, "a job of a producer")
        b.refused("PAUSE", "default", name="FORBIDDEN")
    with other.client() as b:
        b.refused("AUTH", "ci", "wrong" * 8, name="BADTOKEN")
        b.refused("ENQUEUE", "mail", "{}", name="NOAUTH")
    with other.client() as b:
        equal(text(b("AUTH", "boss", admin)), "OK", "login")
        equal(text(b("PAUSE", "default")), "OK", "pause")
    equal(other.server.process.poll(), None, "exit code of the follower")


main()
