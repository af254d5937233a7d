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
CROWD = 150000 if not FULL else 400000
LONG_BATCH = "b" * 255
STEP = 500


def long_key(number):
    return "%0255d" % number


def enqueue_crowd(server, root, options):
    """CROWD jobs after root; options(i) gives the words of each."""
    c = server.client(seconds=120)
    lines = (pack("ENQUEUE", "follower", "", "AFTER", root, *options(i)) for i in range(CROWD))

    def write():
        some = []
        for line in lines:
            some.append(line)
            if len(some) == STEP:
                c.send(b"".join(some))
                some.clear()
        c.send(b"".join(some))

    writer = threading.Thread(target=write, daemon=True)
    writer.start()
    first = last = c.read()
    for _ in range(CROWD - 1):
        last = c.read()
    writer.join()
    c.close()
    equal(last - first + 1, CROWD, "ids of the followers")
    return first, last


def heavy(i):
    return ("UNIQUE", long_key(i), "SCOPE", "after", "UNIQUEFOR", 3600000, "BATCH", LONG_BATCH)


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
        first, last = enqueue_crowd(server, root, heavy)
        held = claim(c, lease=100)[0]
        equal(held.id, root)
        until(lambda: status(c, root) == "failed", 30, "the end of the lease")
        wait_for_all(c, "canceled")
        equal({status(c, first), status(c, last)}, {"canceled"}, "status of followers")
        c.refused("ENQUEUE", "follower", "", "UNIQUE", long_key(7), "CONFLICT", "reject",
                  name="CONFLICT")
    equal(server.stop(30), 0, "exit code")


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
            enqueue_crowd(server, root, heavy)
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
        equal(server.stop(30), 0, "exit code")


@test("a crowd is let go in steps, and a small cascade beside it is done with its own end")
def _(folder):
    server = Server(folder)
    with server.client(seconds=60) as c:
        root = c("ENQUEUE", "root", "", "QUEUE", "roots")
        enqueue_crowd(server, root, lambda i: ())
        small = c("ENQUEUE", "small", "", "QUEUE", "others")
        after = c("ENQUEUE", "small", "", "QUEUE", "others", "AFTER", small)
        held = claim(c, "roots")[0]
        c.send(pack("COMPLETE", held.id, held.token) + pack("CANCEL", small) +
               pack("QUEUE", "default"))
        equal([c.read(), c.read()], ["OK", "OK"], "answers")
        expect(mapping(c.read())["ready"] < CROWD, "the whole crowd was let go in one step")
        equal(status(c, after), "canceled", "a small cascade beside the large one")
        until(lambda: mapping(c("QUEUE", "default"))["ready"] == CROWD, 60, "all are let go")
    equal(server.stop(30), 0, "exit code")


if __name__ == "__main__":
    main()
