#!/usr/bin/python3
# weir-test: timeout=300
"""An entry of the audit trail is kept exactly once, whenever the server is killed."""
import os
import random
import threading

from harness import (FULL, Closed, Server, WeirError, equal, expect, history, main, mapping, test,
                     text, until, verify_history)

SEED = int(os.environ.get("SEED", "7"))


class Operator(threading.Thread):
    """Sets limits of new names until the server dies."""

    def __init__(self, server, name):
        super().__init__(daemon=True)
        self.client, self.name = server.client(), name
        self.asked, self.answered = set(), set()

    def run(self):
        try:
            while True:
                what = "LIMIT %s-%d 5 1000" % (self.name, len(self.asked))
                self.asked.add(what)
                self.client(*what.split())
                self.answered.add(what)
        except (Closed, OSError, WeirError):
            pass


def listed(server):
    """What there is, by the numbers, page by page."""
    found, before = [], ()
    with server.client() as c:
        while True:
            page = mapping(c("AUDIT", "LIMIT", 1000, *before))
            found += [text(mapping(e)["what"]) for e in page["entries"]]
            if not text(page["cursor"]):
                return found
            before = ("BEFORE", text(page["cursor"]))


@test("every change is in the audit trail exactly once, whenever the server was killed")
def _(folder):
    dice = random.Random(SEED)
    asked, answered = set(), set()
    for life in range(40 if FULL else 5):
        server = Server(folder)
        people = [Operator(server, "%d-%d" % (life, i)) for i in range(2)]
        goal = dice.randrange(20, 400)
        for p in people:
            p.start()
        until(lambda: sum(len(p.answered) for p in people) > goal, 60, "some changes")
        server.kill()
        for p in people:
            p.join(10)
            asked |= p.asked
            answered |= p.answered
    server = Server(folder)
    with server.client() as c:
        limits = {text(mapping(row)["name"]) for row in c("LIMITS")}
    found = listed(server)
    equal(len(found), len(set(found)), "once each")
    expect(answered <= set(found) <= asked, "%d are missing" % len(answered - set(found)))
    equal({what.split()[1] for what in found}, limits, "entries and limits: both or neither")
    equal(server.stop(), 0, "exit code")
    server = Server(folder)
    until(lambda: len(history(server.data, "SELECT number FROM audit")) == len(found), 60,
          "all in history")
    equal(listed(server), found, "the same from history")
    verify_history(server.data)


if __name__ == "__main__":
    main()
