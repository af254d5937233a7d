#!/usr/bin/python3
# weir-test: timeout=300
"""One end that has a crowd of followers: what follows is worked off in steps, the server goes on
answering meanwhile, and a kill in the middle of it loses nothing and changes no outcome."""
import os
import threading

from harness import (FULL, Server, claim, equal, expect, main, mapping, pack, status, test,
                     text, until)

# Together more than a batch of the log takes (56 MiB): a hold of a long unique key and a note of a
# batch with a long name for each.
CROWD = 120000 if not FULL else 400000
LONG_BATCH = "b" * 255
STEP = 500


def long_key(number):
    return b"%0255d" % number


KEY = long_key(0)


def enqueue_crowd(server, root, options=()):
    """CROWD jobs after root.  options: words of each, in which KEY stands for a key of its own.  A
    crowd is written and read as bytes: one by one it would take longer than the test."""
    c = server.client(seconds=120)
    line = pack("ENQUEUE", "follower", "", "AFTER", root, *options)
    before, key, after = line.partition(KEY)

    def write():
        for begin in range(0, CROWD, STEP):
            c.send(b"".join(before + long_key(i) + after for i in range(begin, begin + STEP))
                   if key else line * STEP)

    writer = threading.Thread(target=write, daemon=True)
    writer.start()
    first = c.read()
    lines, tail = 1 + c.buffer.count(b"\n"), c.buffer
    while lines < CROWD:
        chunk = c.socket.recv(1 << 16)
        expect(chunk, "the server closed the connection")
        lines, tail = lines + chunk.count(b"\n"), tail[-100:] + chunk
    writer.join()
    c.close()
    expect(tail.endswith(b"\r\n") and b"-" not in tail, repr(tail[-200:]))
    last = int(tail.split(b":")[-1])
    equal(last - first + 1, CROWD, "ids of the followers")
    return first, last


HEAVY = ("UNIQUE", KEY, "SCOPE", "after", "UNIQUEFOR", 3600000, "BATCH", LONG_BATCH)


def counts(c):
    return mapping(c("BATCHSTATE", LONG_BATCH))


def wait_for_all(c, outcome):
    until(lambda: counts(c)["left"] == 0, 120, "all followers ended")
    equal(counts(c)[outcome], CROWD, outcome)
    # A stop waits only so long for the disk, and history still gives it much to do.
    until(lambda: "jobs_finished:0" in text(c("INFO")).split(), 120, "all jobs are in history")


@test("a lease that ends with a crowd of followers takes all of them with it, in steps")
def _(folder):
    server = Server(folder)
    with server.client(seconds=60) as c:
        root = c("ENQUEUE", "root", "", "ATTEMPTS", 1)
        c("BATCH", LONG_BATCH)
        first, last = enqueue_crowd(server, root, HEAVY)
        held = claim(c, lease=100)[0]
        equal(held.id, root)
        until(lambda: status(c, root) == "failed", what="the end of the lease")
        wait_for_all(c, "canceled")
        equal({status(c, first), status(c, last)}, {"canceled"}, "status of followers")
        c.refused("ENQUEUE", "follower", "", "UNIQUE", long_key(7), "CONFLICT", "reject",
                  name="CONFLICT")
    equal(server.stop(), 0, "exit code")


def kill_in_the_middle(server, folder, outcome):
    """Kills it while followers are worked off, and starts it again."""
    with server.client(seconds=60) as c:
        until(lambda: counts(c)[outcome] > 0, 60, "the first followers ended")
        done = counts(c)[outcome]
    server.kill()
    return done, Server(folder, config=server.config)


@test("a kill in the middle of a cascade changes no outcome, with history and without")
def _(folder):
    for name, config in (("kept", None), ("dropped", 'history = "none"\n')):
        place = os.path.join(folder, name)
        os.mkdir(place)
        server = Server(place, config=config)
        server.config = config
        with server.client(seconds=60) as c:
            root = c("ENQUEUE", "root", "")
            c("BATCH", LONG_BATCH)
            enqueue_crowd(server, root, HEAVY)
            equal(c("CANCEL", root), "OK")
        kills = 0
        for _ in range(3):
            done, server = kill_in_the_middle(server, place, "canceled")
            server.config = config
            kills += done < CROWD
        expect(kills > 0, "%s: no kill met the cascade under way" % name)
        with server.client(seconds=60) as c:
            wait_for_all(c, "canceled")
            equal(claim(c), [], "%s: followers that were let run" % name)
        equal(server.stop(), 0, "exit code")


@test("a crowd is let go in steps, and a small cascade beside it is done with its own end")
def _(folder):
    server = Server(folder)
    with server.client(seconds=60) as c:
        root = c("ENQUEUE", "root", "", "QUEUE", "roots")
        enqueue_crowd(server, root)
        small = c("ENQUEUE", "small", "", "QUEUE", "others")
        after = c("ENQUEUE", "small", "", "QUEUE", "others", "AFTER", small)
        held = claim(c, "roots")[0]
        c.send(pack("COMPLETE", held.id, held.token) + pack("CANCEL", small) +
               pack("QUEUE", "default"))
        equal([c.read(), c.read()], ["OK", "OK"], "answers")
        expect(mapping(c.read())["ready"] < CROWD, "the whole crowd was let go in one step")
        equal(status(c, after), "canceled", "a small cascade beside the large one")
        until(lambda: mapping(c("QUEUE", "default"))["ready"] == CROWD, 60, "all are let go")
    equal(server.stop(), 0, "exit code")


if __name__ == "__main__":
    main()
