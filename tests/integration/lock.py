#!/usr/bin/python3
# weir-test: timeout=300 outer=part
"""Locks of a real server, seen by clients that are written apart from it.

The histories of many clients at once are checked for linearizability (lib_histories.py).

    tests/integration/lock.py [--full] [word]
"""
import multiprocessing
import os
import random
import signal
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "fault"))

from harness import (  # noqa: E402
    FULL, Closed, Resp, Server, Watch, WeirError, check_error, check_problem, equal, expect,
    main, mapping, pack, test, text, until)
from lib_histories import Grant, History, Lock, check_history  # noqa: E402

NOBODY = "0" * 32
DAY_MS = 86400000


def lock(client, name, ttl, *words):
    reply = client("LOCK", name, "PX", ttl, *words)
    return Lock(reply) if reply is not None else None


def waiting(client, name):
    return mapping(client("LOCKED", name))["waiting"]


# ---------------------------------------------------------------- histories


class Player(threading.Thread):
    """A client that takes, keeps, renews, gives back or forgets locks."""

    def __init__(self, history, address, names, seed, n):
        super().__init__(daemon=True)
        self.history, self.address, self.names, self.n = history, address, names, n
        self.dice = random.Random(seed)
        self.client = None

    def run(self):
        try:
            while self.n > 0:
                self.n -= 1
                self.turn()
        except Exception as error:  # pylint: disable=broad-except
            self.history.add("errors", repr(error))

    def ask(self, *words):
        """The answer with the moments around it; (asked, None, Closed) when it was lost."""
        deadline = time.monotonic() + 120
        while self.client is None:
            try:
                self.client = Resp(self.address())
            except OSError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.005)
        asked = time.monotonic()
        try:
            reply = self.client.ask(*words)
        except (Closed, OSError):
            self.client = None
            return asked, time.monotonic(), Closed
        return asked, time.monotonic(), reply

    def turn(self):
        name, count = self.dice.choice(self.names)
        ttl_ms = self.dice.choice([100, 150, 300, 1000])
        wait_ms = self.dice.choice([0, 0, 50, 1000])
        asked, answered, reply = self.ask("LOCK", name, "PX", ttl_ms, "WAIT", wait_ms, "COUNT", count)
        if reply is Closed or (isinstance(reply, WeirError) and reply.name == "STOPPING"):
            self.history.add("unknown", (name, asked, answered + 10))
        elif reply is None:
            self.history.add("refusals", (name, count, answered if wait_ms else asked, answered))
        elif isinstance(reply, WeirError) and reply.name == "STATE":
            pass  # held with another count
        elif isinstance(reply, WeirError):
            raise reply
        else:
            got = Lock(reply)
            grant = Grant(name, count, asked, answered, ttl_ms / 1000, got.fence)
            self.history.add("grants", grant)
            self.keep(grant, got)

    def keep(self, grant, got):
        for _ in range(self.dice.randrange(3)):
            ttl_ms = self.dice.choice([100, 200, 500])
            if not self.settle(grant, "renewed", ttl_ms, "RENEW", got.token, "PX", ttl_ms):
                return
        if self.dice.random() < 0.1:
            time.sleep(0.12)  # some are late: their time may be over
        if self.dice.random() < 0.9:
            self.settle(grant, "released", None, "UNLOCK", got.token)

    def settle(self, grant, what, ttl_ms, command, token, *words):
        asked, answered, reply = self.ask(command, grant.name, token, *words)
        if reply is Closed:
            # It may have come true or not.
            grant.certain_end = min(grant.certain_end, asked)
            grant.possible_end = answered + 10
            return False
        if isinstance(reply, WeirError):
            expect(reply.name in ("NOTOWNER", "NOTFOUND"), str(reply))
            expect(answered >= grant.certain_end,
                   "fence %d of %s was refused before its time" % (grant.fence, grant.name))
            return False
        if what == "renewed":
            grant.renewed(asked, answered, ttl_ms / 1000)
        else:
            grant.released(asked, answered)
        return True


def play(address, names, n_clients, n_turns, meanwhile=lambda: None):
    history = History()
    seed = random.randrange(1 << 30)
    print("# seed %d" % seed)
    players = [Player(history, address, names, seed + i, n_turns) for i in range(n_clients)]
    for p in players:
        p.start()
    meanwhile()
    for p in players:
        p.join(120)
        expect(not p.is_alive(), "a client does not end")
    print("# %d grants, %d refusals, %d lost answers" % (
        len(history.grants), len(history.refusals), len(history.unknown)))
    return history


def play_in_peace(folder, n_turns):
    server = Server(folder)
    history = play(lambda: server.resp, [("m", 1), ("n", 1), ("s", 3)], 16, n_turns)
    expect(len(history.grants) > 2.5 * n_turns, "only %d grants" % len(history.grants))
    check_history(history)


@test("the history of 16 clients on mutexes and semaphores is linearizable")
def _(folder):
    play_in_peace(folder, 40)


@test("a long history of 16 clients on mutexes and semaphores is linearizable", outer=True)
def _(folder):
    play_in_peace(folder, 600 if FULL else 120)


def play_and_kill(folder, n_kills, n_turns):
    servers = [Server(folder)]

    def kill_some_times():
        for _ in range(n_kills):
            server = servers[-1]
            with server.client() as c:
                before = mapping_of_info(c, "locks_granted")
                until(lambda c=c, b=before: mapping_of_info(c, "locks_granted") > b + 40,
                      what="some grants")
            server.kill()
            servers.append(Server(folder))
    history = play(lambda: servers[-1].resp, [("m", 1), ("s", 2)], 12, n_turns, kill_some_times)
    check_history(history, slack=10)


@test("the history of clients is linearizable over kill -9 and a restart of the server")
def _(folder):
    play_and_kill(folder, 1, 40)


@test("the history of clients is linearizable over kill -9 again and again", outer=True)
def _(folder):
    play_and_kill(folder, *((6, 400) if FULL else (3, 150)))


def mapping_of_info(client, name):
    for line in text(client("INFO")).splitlines():
        key, _, value = line.partition(":")
        if key == name:
            return int(value)
    raise AssertionError("INFO has no " + name)


# ---------------------------------------------------------------- one by one


@test("waiters get the lock in the order in which they came")
def _(folder):
    server = Server(folder)
    with server.client() as c:
        first = lock(c, "a", 60000)
        clients = [server.client() for _ in range(50)]
        for i, w in enumerate(clients):
            w.send(pack("LOCK", "a", 60000, "WAIT", 60000, "OWNER", "w%d" % i))
            until(lambda i=i: waiting(c, "a") == i + 1, what="waiter %d" % i)
        equal(c("UNLOCK", "a", first.token), "OK")
        fence = first.fence
        for i, w in enumerate(clients):
            got = Lock(w.read())
            expect(got.fence > fence, "fence %d after %d" % (got.fence, fence))
            fence = got.fence
            holder = mapping(mapping(c("LOCKED", "a"))["holders"][0])
            equal(text(holder["owner"]), "w%d" % i)
            equal(w("UNLOCK", "a", got.token), "OK")
        equal(text(mapping(c("LOCKED", "a"))["state"]), "free", "the state")


@test("peers that vanish while they wait are forgotten")
def _(folder):
    server = Server(folder)
    with server.client() as c, server.client() as last:
        first = lock(c, "a", 60000)
        gone = [server.client() for _ in range(20)]
        for i, w in enumerate(gone):
            w.send(pack("LOCK", "a", 60000, "WAIT", 60000))
            until(lambda i=i: waiting(c, "a") == i + 1, what="waiter %d" % i)
        web = server.web()
        web.send(web.head("POST", "/v1/locks/a", [
            "Content-Type: application/json", "Content-Length: 29"])
            + b'{"ttl":60000,"wait":60000   }')
        until(lambda: waiting(c, "a") == 21, what="the one over HTTP")
        last.send(pack("LOCK", "a", 60000, "WAIT", 60000))
        until(lambda: waiting(c, "a") == 22, what="the last")
        web.close()
        for w in gone:
            w.close()
        until(lambda: waiting(c, "a") == 1, what="all but the last forgotten")
        equal(c("UNLOCK", "a", first.token), "OK")
        expect(Lock(last.read()).fence == first.fence + 1, "somebody else got it meanwhile")


def frozen_holder(address, pipe):
    """Takes the lock, tells of it, and when told to go on writes and tries to keep the lock."""
    client = Resp(address)
    got = lock(client, "store", 300, "OWNER", "frozen")
    pipe.send((got.token, got.fence))
    pipe.recv()
    renew = client.ask("RENEW", "store", got.token, "PX", 300)
    unlock = client.ask("UNLOCK", "store", got.token)
    pipe.send((str(renew), str(unlock), got.fence))


class FencedStore(dict):
    """What a resource has to do: remember the largest fence it saw."""
    fence = 0

    def write(self, fence, value):
        if fence < self.fence:
            return False
        self.fence = fence
        self["value"] = value
        return True


@test("a holder frozen past its time is replaced, refused by the lock and by the fence")
def _(folder):
    server = Server(folder)
    store = FencedStore()
    here, there = multiprocessing.Pipe()
    process = multiprocessing.get_context("fork").Process(
        target=frozen_holder, args=(server.resp, there), daemon=True)
    process.start()
    _, old_fence = here.recv()
    expect(store.write(old_fence, "old"), "the first write was refused")
    os.kill(process.pid, signal.SIGSTOP)
    try:
        with server.client() as c:
            got = lock(c, "store", 60000, "WAIT", 10000)
            expect(got.fence > old_fence, "fence %d after %d" % (got.fence, old_fence))
            expect(store.write(got.fence, "new"), "the new holder was refused")
            os.kill(process.pid, signal.SIGCONT)
            here.send("go on")
            renew, unlock, fence = here.recv()
            expect(renew.startswith("NOTOWNER"), renew)
            expect(unlock.startswith("NOTOWNER"), unlock)
            expect(not store.write(fence, "late"), "the late write was taken")
            equal(store["value"], "new")
            equal(c("UNLOCK", "store", got.token), "OK")
    finally:
        process.kill()
        process.join(10)


@test("a lock survives kill -9 of the server and is not free before its time")
def _(folder):
    server = Server(folder)
    with server.client() as c:
        watch = Watch()
        held = lock(c, "a", 1500, "OWNER", "o")
        kept = lock(c, "b", 60000)
    server.kill()
    away = time.monotonic()
    server = Server(folder)
    away = time.monotonic() - away
    with server.client() as c:
        expect(lock(c, "a", 1000) is None, "free after the restart")
        holder = mapping(mapping(c("LOCKED", "a"))["holders"][0])
        equal((text(holder["owner"]), holder["fence"]), ("o", held.fence))
        got = lock(c, "a", 1000, "WAIT", 10000)
        expect(watch.wall >= 1.5, "free after %.3f s, which is early" % watch.wall)
        watch.within(1.5 + away + 2, "the lock of 1.5 s")
        expect(got.fence > kept.fence > held.fence, "fences go back")
        equal(c("UNLOCK", "b", kept.token), "OK")
        c.refused("UNLOCK", "a", held.token, name="NOTOWNER")


@test("every parameter that is wrong gets a clear error and changes nothing")
def _(folder):
    server = Server(folder)
    with server.client() as c, server.web() as web:
        held = lock(c, "held", 60000)
        before = mapping(c("LOCKS"))["locks"]
        bad = [
            ({"ttl": -1}, "ttl"), ({"ttl": 99}, "ttl"), ({"ttl": DAY_MS + 1}, "ttl"),
            ({"ttl": "x"}, "ttl"), ({"ttl": 1.5}, "ttl"), ({}, "ttl"),
            ({"ttl": 1000, "wait": -1}, "wait"), ({"ttl": 1000, "wait": DAY_MS + 1}, "wait"),
            ({"ttl": 1000, "count": 0}, "count"), ({"ttl": 1000, "count": 1001}, "count"),
            ({"ttl": 1000, "owner": ""}, "owner"), ({"ttl": 1000, "owner": "a\nb"}, "owner"),
            ({"ttl": 1000, "token": "123"}, "token"),
            ({"ttl": 1000, "reenter": "renew"}, "reenter"),
            ({"ttl": 1000, "token": NOBODY, "reenter": "x"}, "reenter"),
            ({"ttl": 1000, "no": 1}, "no"),
        ]
        for body, mention in bad:
            check_problem(web.ask("POST", "/v1/locks/new", body), 400, ("BADARG", "SYNTAX"),
                          mention, repr(body))
        check_problem(web.ask("POST", "/v1/locks/held", {"ttl": 1000, "count": 2}), 409, "STATE",
                      "count", "another count")
        for what, body, status, name in (
                ("held/unlock", {"token": NOBODY}, 409, "NOTOWNER"),
                ("new/unlock", {"token": NOBODY}, 404, "NOTFOUND"),
                ("held/unlock", {}, 400, "BADARG"),
                ("held/renew", {"token": NOBODY, "ttl": 1000}, 409, "NOTOWNER"),
                ("held/renew", {"token": held.token, "ttl": -5}, 400, "BADARG"),
                ("new/renew", {"token": NOBODY, "ttl": 1000}, 404, "NOTFOUND")):
            check_problem(web.ask("POST", "/v1/locks/" + what, body), status, name, "", what)
        equal(web.good("GET", "/v1/locks/new"), {"name": "new", "state": "free", "count": 0,
                                                 "waiting": 0, "holders": []}, "a free lock")
        check_problem(web.ask("DELETE", "/v1/locks/new"), 404, "NOTFOUND", "new", "DELETE")
        check_problem(web.ask("GET", "/v1/locks?limit=0"), 400, "BADARG", "limit", "limit")
        after = mapping(c("LOCKS"))["locks"]
        equal([text(mapping(r)["name"]) for r in after], [text(mapping(r)["name"]) for r in before])
        equal(c("UNLOCK", "held", held.token), "OK")


@test("a lock lives through both doors, and its names may be any text")
def _(folder):
    server = Server(folder)
    with server.client() as c, server.web() as web:
        got = web.ask("POST", "/v1/locks/caf%C3%A9%20%2F1", {"ttl": 60000, "owner": "web"}).json
        equal(sorted(got), ["acquired", "count", "fence", "token", "ttl_ms", "until_ms"])
        equal((got["acquired"], got["ttl_ms"], got["count"]), (True, 60000, 1))
        expect(lock(c, "café /1", 1000) is None, "RESP sees another lock")
        again = web.ask("POST", "/v1/locks/caf%C3%A9%20%2F1", {"ttl": 1000})
        equal((again.status, again.json["acquired"]), (200, False))
        equal(again.json["holders"][0]["owner"], "web")
        path = "/v1/locks/caf%C3%A9%20%2F1"
        renewed = web.ask("POST", path + "/renew", {"token": got["token"], "ttl": 90000})
        equal((renewed.json["fence"], renewed.json["ttl_ms"]), (got["fence"], 90000))
        reentered = web.ask("POST", path, {"ttl": 60000, "token": got["token"],
                                           "reenter": "renew"}).json
        equal((reentered["token"], reentered["fence"]), (got["token"], got["fence"]))
        listed = web.ask("GET", "/v1/locks?match=caf").json
        equal([row["name"] for row in listed["locks"]], ["café /1"])
        expect(got["token"] not in repr(listed) + repr(again.json), "a token is shown")
        equal(web.ask("POST", path + "/unlock", {"token": got["token"]}).json, {"ok": True})
        lock(c, "x", 60000, "OWNER", "resp")
        equal(web.ask("DELETE", "/v1/locks/x?reason=gone%20for%20good").json, {"released": 1})
        expect("gone for good" in server.log() and "owner=resp" in server.log(), "not in the log")


@test("the limits of locks hold at n - 1, n and n + 1")
def _(folder):
    server = Server(folder)

    def judge(reply, is_allowed, name, mention):
        if is_allowed:
            expect(not isinstance(reply, WeirError), str(reply))
        else:
            check_error(reply, name, mention, mention)
    with server.client(seconds=60) as c:
        for n, fine in ((999, False), (1000, True), (1001, True), (DAY_MS - 1, True),
                        (DAY_MS, True), (DAY_MS + 1, False)):
            judge(c.ask("LOCK", "ttl%d" % n, n), fine, "BADARG", "ttl")
        for n, fine in ((99, False), (100, True), (101, True), (DAY_MS, True), (DAY_MS + 1, False)):
            judge(c.ask("LOCK", "px%d" % n, "PX", n), fine, "BADARG", "px")
        for n, fine in ((0, False), (1, True), (86400, True), (86401, False)):
            judge(c.ask("LOCK", "ex%d" % n, "EX", n), fine, "BADARG", "ex")
        for n, fine in ((DAY_MS - 1, True), (DAY_MS, True), (DAY_MS + 1, False)):
            judge(c.ask("LOCK", "wait%d" % n, 1000, "WAIT", n), fine, "BADARG", "wait")
        for n, fine in ((999, True), (1000, True), (1001, False)):
            judge(c.ask("LOCK", "count%d" % n, 1000, "COUNT", n), fine, "BADARG", "count")
            judge(c.ask("LOCKS", "LIMIT", n), fine, "BADARG", "limit")
        for i in range(1000):
            lock(c, "full", 60000, "COUNT", 1000)
        expect(lock(c, "full", 60000, "COUNT", 1000) is None, "1001 places")
        equal(c("FORCEUNLOCK", "full"), 1000)
        have = 0
        while have < 100000:
            have = mapping_of_info(c, "locks_held")
            n = min(5000, 100000 - have)
            c.send(b"".join(pack("LOCK", "n%d.%d" % (have, i), DAY_MS) for i in range(n)))
            for i in range(n):
                expect(isinstance(c.read(), list), "refused at %d" % (have + i))
        check_error(c.ask("LOCK", "one more", 1000), "LIMIT", "100000", "one more")
        page, seen, cursor = None, 0, ""
        while page is None or cursor:
            page = mapping(c("LOCKS", "LIMIT", 1000, "MATCH", ".10", "CURSOR", cursor))
            seen, cursor = seen + len(page["locks"]), text(page["cursor"])
        expect(seen > 1000, "%d locks with .10 are listed" % seen)
    server.kill()
    with Server(folder).client() as c:
        expect(mapping_of_info(c, "locks_held") >= 99990, "locks are lost")


if __name__ == "__main__":
    main()
