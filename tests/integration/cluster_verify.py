#!/usr/bin/python3
# weir-test: timeout=300 long full
"""weir cluster verify and members, over one PostgreSQL with a synchronous standby: machines that have
the same state, one whose log was changed behind its back, one that does not answer."""
import json
import os
import signal
import struct
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "fault"))

from harness import Server, claim, equal, expect, main, mapping, test, text, until, weir  # noqa: E402
from lib_checksums import crc32c  # noqa: E402
from lib_cluster import Producer, until_told  # noqa: E402
from lib_cluster_site import Site  # noqa: E402

RECORD = 12  # bytes of its header, see src/log/record.h
SAME, DIFFERS, MISSING = 0, 9, 7  # exit codes


def verify(node):
    """The exit code, {node: member}, and what was said."""
    done = weir("--url", "127.0.0.1:%d" % node.port, "cluster", "verify", "--json", "--timeout",
                "180s", seconds=240)
    expect(done.stdout, done.stderr)
    members = {m["node"]: m for m in json.loads(done.stdout)["members"]}
    return done.returncode, members, done.stderr


def members_of(node):
    """The words of each line that `weir cluster members` prints."""
    done = weir("--url", "127.0.0.1:%d" % node.port, "cluster", "members")
    return [line.split() for line in done.stdout.splitlines()]


def others(c, leader):
    return [n for n in c.nodes if n is not leader]


def settle(c, leader):
    """All have heard of each other."""
    for node in others(c, leader):
        until_told(lambda n=node: leader.knows(n), 60, "%s in step" % node.name)


def doctor(body, old, new):
    """A batch with other bytes in its records, whose checksums are right."""
    expect(len(old) == len(new) and old in body, "the text is in the batch")
    body = bytearray(body.replace(old, new))
    at = 0
    while at < len(body):
        length = struct.unpack_from("<I", body, at)[0]
        end = at + RECORD + length
        crc = crc32c(bytes(body[at:at + 8]) + bytes(body[at + RECORD:end]))
        struct.pack_into("<I", body, at + 8, crc)
        at = end
    return bytes(body)


def change_log(old, new):
    """Changes the batch that holds the text."""
    rows = Site.sql("SELECT seq, encode(body, 'hex') FROM weir.weir_log WHERE "
                    "position('\\x%s'::bytea in body) > 0 ORDER BY seq" % old.encode().hex())
    equal(len(rows), 1, "batches with %s" % old)
    seq, body = rows[0]
    changed = doctor(bytes.fromhex(body), old.encode(), new.encode())
    Site.sql("UPDATE weir.weir_log SET body = '\\x%s'::bytea WHERE seq = %s" % (changed.hex(), seq))


@test("machines with the same state are told so, whichever of them is asked, and also under load")
def _(folder):
    c = Site.cluster(folder)
    leader = c.leader()
    p = Producer(c)
    p.add(40)
    for _ in range(15):
        [g] = claim(p.connection)
        p.ask("COMPLETE", g["id"], g["token"], "done")
    [g] = claim(p.connection, lease=60000)
    p.ask("LOCK", "nightly", "60000")
    p.ask("PAUSE", "other")
    settle(c, leader)
    for node in c.nodes:
        p.add(5)
        code, members, said = verify(node)
        equal((code, said), (SAME, ""), "verdict")
        equal({n: m["state"] for n, m in members.items()}, {n: "same" for n in "abc"}, "states")
        equal(len({m["digest"] for m in members.values()}), 1, "digests")
        equal(len({m["digest_seq"] for m in members.values()}), 1, "batches")
    lines = members_of(c.nodes[1])
    equal(lines[0], ["NODE", "ROLE", "ADDRESS", "PRIORITY", "STATE", "VERIFIED", "DIGEST"], "columns")
    # Each machine hears of the others once a second.
    until_told(lambda: [line[4] for line in members_of(c.nodes[1])[1:]] == ["same"] * 3, 60, "members")


@test("a new leader and a machine that read the log again have the state of the others")
def _(folder):
    c = Site.cluster(folder)
    first = c.leader()
    p = Producer(c)
    p.add(30)
    settle(c, first)
    equal(verify(first)[0], SAME, "before")
    c.kill(first, frees=True)
    p.add(10)
    second = c.leader()
    first.start()
    settle(c, second)
    code, members, said = verify(first)
    equal((code, said), (SAME, ""), members)
    equal(members[second.name]["role"], "leader", members)


@test("a machine whose log was changed differs, and is named; it is healed by reading it again")
def _(folder):
    c = Site.cluster(folder)
    leader = c.leader()
    wrong, right = others(c, leader)
    p = Producer(c)
    p.add(3)
    p.ask("ENQUEUE", "mail", "to: anna")
    p.add(3)
    settle(c, leader)
    wrong.server.stop()
    change_log("to: anna", "to: anne")
    wrong.start()
    settle(c, leader)
    code, members, said = verify(right)
    equal(code, DIFFERS, said)
    expect("not the state that the leader has: %s\n" % wrong.name in said, said)
    equal({n: m["state"] for n, m in members.items()},
          {leader.name: "same", right.name: "same", wrong.name: "differs"}, members)
    metric = 'weir_cluster_member_differs{node="%s"} ' % wrong.name
    with leader.server.web() as web:
        until(lambda: metric + "1" in web.ask("GET", "/metrics").body.decode(), 60, metric)
    until(lambda: "differs from that of the leader" in wrong.server.log(), 60, "its own log")
    wrong.server.stop()
    change_log("to: anne", "to: anna")
    wrong.start()
    settle(c, leader)
    code, members, said = verify(leader)
    equal((code, said), (SAME, ""), members)


def age_after(leader, other, mute):
    """Once the other has told its digest, a minute goes by for the mute one: it is gone."""
    def has_told():
        members = map(mapping, leader.state()["members"])
        return any(text(m["node"]) == other.name and m["digest_seq"] > 0 for m in members)
    until_told(has_told, 90, "a digest")
    Site.sql("UPDATE weir.weir_member SET seen = seen - interval '1 minute' WHERE name = '%s'" %
             mute.name)


@test("a machine that does not answer is named, and the others are compared")
def _(folder):
    c = Site.cluster(folder)
    leader = c.leader()
    mute, other = others(c, leader)
    Producer(c).add(5)
    settle(c, leader)
    os.kill(mute.server.process.pid, signal.SIGSTOP)
    try:
        aging = threading.Thread(target=age_after, args=(leader, other, mute))
        aging.start()
        code, members, said = verify(leader)  # until it is gone
        aging.join()
    finally:
        os.kill(mute.server.process.pid, signal.SIGCONT)
    equal(code, MISSING, said)
    expect("not compared, no digest came in time: %s" % mute.name in said, said)
    equal((members[other.name]["state"], members[mute.name]["state"]), ("same", "unknown"), members)


@test("a weir that is alone has nobody to compare with")
def _(folder):
    s = Server(folder)
    url = "127.0.0.1:%d" % s.resp[1]
    done = weir("--url", url, "cluster", "verify")
    equal(done.returncode, 5, done.stderr)
    expect("this weir is alone: it has no cluster" in done.stderr, done.stderr)
    done = weir("--url", url, "cluster", "verify", "--timeout", "soon")
    equal(done.returncode, 2, done.stderr)
    s.stop()


main()
