#!/usr/bin/python3
# weir-test: timeout=120
"""SIGTERM: the batch is finished, answered and synced; exit code 0 within two seconds."""
import signal
import threading

from harness import (Closed, Server, Watch, WeirError, equal, expect, job_list, main, pack, test,
                     until)


class Producer(threading.Thread):
    """Pipelines enqueues until the server closes; remembers what was answered."""

    def __init__(self, server, name):
        super().__init__(daemon=True)
        self.client, self.label = server.client(), name
        self.acked, self.other = {}, []

    def run(self):
        number = 0
        try:
            while True:
                sent = [b"%s-%d" % (self.label, number + i) for i in range(16)]
                number += 16
                self.client.send(b"".join(pack("ENQUEUE", "hook", args) for args in sent))
                for args in sent:
                    reply = self.client.read()
                    if isinstance(reply, int):
                        self.acked[reply] = args
                    else:
                        self.other.append(reply)
        except (Closed, OSError):
            pass


def stop_under_load(folder, sig):
    server = Server(folder)
    producers = [Producer(server, b"p%d" % i) for i in range(4)]
    for p in producers:
        p.start()
    until(lambda: all(len(p.acked) > 100 for p in producers), 60, "some load")
    watch = Watch()
    server.process.send_signal(sig)
    code = server.wait()
    watch.within(2)
    for p in producers:
        p.join(60)
        expect(not p.is_alive(), "a connection is still open")
        for reply in p.other:
            expect(isinstance(reply, WeirError) and reply.name == "STOPPING", repr(reply))
    equal(code, 0, "exit code")
    acked = {k: v for p in producers for k, v in p.acked.items()}
    again = Server(folder)
    with again.client() as c:
        found = {row["id"]: row["args"] for row in job_list(c, "LIMIT", 1000)}
    missing = [i for i in acked if found.get(i) != acked[i]]
    expect(not missing, "%d of %d acknowledged jobs are gone" % (len(missing), len(acked)))


@test("SIGTERM under load exits 0 within 2 s and everything acknowledged is kept")
def _(folder):
    stop_under_load(folder, signal.SIGTERM)


@test("SIGINT does the same")
def _(folder):
    stop_under_load(folder, signal.SIGINT)


@test("a worker that waits is answered with nothing when the server stops")
def _(folder):
    server = Server(folder)
    with server.client() as c, server.client() as other:
        c.send(pack("CLAIM", "w", "MAX", "1", "WAIT", "60000", "QUEUES", "default"))
        # PING on another connection is answered after the claim was read in an earlier turn.
        other("PING")
        watch = Watch()
        server.process.send_signal(signal.SIGTERM)
        reply = c.read()
        equal(reply in ([], None), True, "the answer %r is empty" % (reply,))
        equal(server.wait(60), 0, "exit code")
        watch.within(2)


@test("idle connections do not hold up a stop")
def _(folder):
    server = Server(folder)
    idle = [server.client() for _ in range(50)]
    half = server.client()
    half.send(b"*3\r\n$7\r\nENQ")
    web = server.web()
    web.send(b"POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Le")
    watch = Watch()
    equal(server.stop(), 0, "exit code")
    watch.within(2)
    for c in idle:
        expect(c.is_closed(), "a connection stayed open")


if __name__ == "__main__":
    main()
