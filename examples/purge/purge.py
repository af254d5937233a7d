"""A purge in small steps, and the three ways to ask before a step: not at all, before each one, or
with credits.

This is what a purge of your own needs: `Weir` is the whole client (RESP, what every Redis library
speaks too), `Credits` is the whole discipline.
"""
import socket
import time

STEP = 200          # rows in one transaction
WAIT_MS = 10000     # an ask is parked for so long at most before it is answered with a refusal
POLL_S = 0.05       # a poller that was refused asks again after that
ANSWER = ("verdict", "reason", "metric", "value", "threshold", "age_ms", "rule", "wait_ms",
          "credits", "credit_ms", "would")     # of CHECK, in this order


class Refused(Exception):
    """weir answered with an error."""


class Weir:
    """One connection; a call sends a command and gives its answer."""

    def __init__(self, address):
        host, port = address.rsplit(":", 1)
        self.socket = socket.create_connection((host, int(port)), timeout=60)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.lines = self.socket.makefile("rb")

    def __call__(self, *words):
        words = [str(w).encode() for w in words]
        self.socket.sendall(b"*%d\r\n" % len(words)
                            + b"".join(b"$%d\r\n%s\r\n" % (len(w), w) for w in words))
        return self._read()

    def _read(self):
        line = self.lines.readline()
        kind, rest = line[:1], line[1:-2].decode()
        if kind == b"-":
            raise Refused(rest)
        if kind == b":":
            return int(rest)
        if kind == b"$":
            return None if rest == "-1" else self.lines.read(int(rest) + 2)[:-2].decode()
        if kind == b"*":
            return [self._read() for _ in range(int(rest))]
        return rest

    def check(self, identity, *words):
        return dict(zip(ANSWER, self("CHECK", identity, *words)))

    def close(self):
        self.lines.close()
        self.socket.close()


class Nobody:
    """Asks nobody."""
    asks = refusals = 0

    def may_go(self):
        pass


class Polling:
    """Asks before every step and, when refused, again and again."""

    def __init__(self, weir, identity):
        self.weir, self.identity = weir, identity
        self.asks = self.refusals = 0

    def may_go(self):
        while True:
            self.asks += 1
            if self.weir.check(self.identity)["verdict"] == "granted":
                return
            self.refusals += 1
            time.sleep(POLL_S)


class Credits:
    """Asks, waits inside the ask until it may go, and takes as many further steps as it was given.

    `credits` steps may follow without an ask within `credit_ms`; `wait_ms` of a granted ask says
    that the next ask shall not come sooner, and the steps are spread over that time."""

    def __init__(self, weir, identity):
        self.weir, self.identity = weir, identity
        self.asks = self.refusals = 0
        self.left, self.until, self.next_ask = 0, 0.0, 0.0

    def may_go(self):
        now = time.monotonic()
        if now < self.next_ask:
            time.sleep((self.next_ask - now) / (self.left + 1))
        if self.left > 0 and time.monotonic() < self.until:
            self.left -= 1
            return
        while True:
            self.asks += 1
            answer = self.weir.check(self.identity, "WAIT", WAIT_MS)
            if answer["verdict"] == "granted":
                break
            self.refusals += 1
        now = time.monotonic()
        self.left = answer["credits"]
        self.until = now + answer["credit_ms"] / 1000
        self.next_ask = now + answer["wait_ms"] / 1000


class Purge:
    """Deletes the rows 1 to `rows`, a step at a time; `steps` and `deleted` tell how far it is."""

    def __init__(self, connection, rows, asker, step=STEP):
        self.connection, self.rows, self.asker, self.step = connection, rows, asker, step
        self.steps = self.deleted = 0

    def run(self):
        while self.deleted < self.rows:
            self.asker.may_go()
            end = min(self.deleted + self.step, self.rows)
            self.connection.query("DELETE FROM events WHERE id > %d AND id <= %d"
                                  % (self.deleted, end))
            self.steps += 1
            self.deleted = end
