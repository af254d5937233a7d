"""Clients of a cluster, each a thread with a connection to a machine at random: they enqueue, work,
lock and take, and remember what they were told (lib_cluster_record.py).

An answer that did not come, UNAVAIL and STOPPING leave open whether the command was done."""
import random
import threading
import time

from harness import Closed, WeirError, grants, text
from lib_cluster_record import LIMIT_AMOUNT, LIMIT_NAME, LIMIT_PERIOD_MS
from lib_histories import Grant, Lock

LOST = object()
PAUSE_S = 0.01      # between commands, so that the machine has time for the servers
STAY = 40           # commands over one connection, about
PATIENCE_S = (3, 20)  # for an answer; the longer one hears what a machine says that slept
LEASES_MS = (500, 2000, 10000, 30000)
LOCKS = ("m", "n")
LOCK_TTLS_MS = (200, 1000, 8000)
NOT_MINE = ("NOTOWNER", "NOTFOUND", "STATE")


class Client(threading.Thread):
    def __init__(self, cluster, record, name, seed):
        super().__init__(daemon=True, name=name)
        self.cluster, self.record = cluster, record
        self.dice = random.Random("%s %s" % (seed, name))
        self.connection, self.n, self.is_over = None, 0, False
        self.at = None  # name of the machine to which it connected last

    def run(self):
        while not self.is_over:
            try:
                self.turn()
            except Exception as error:  # pylint: disable=broad-except
                self.record.problem("wrong", "%s at %s: %r" % (self.name, self.at, error))
                self.hang_up()
            time.sleep(PAUSE_S)
        self.hang_up()

    def hang_up(self):
        if self.connection:
            self.connection.close()
        self.connection = None

    def dial(self):
        """A connection to any machine that is not known to be away, if there is one."""
        live = [n for n in self.cluster.nodes if n.server]
        if not live:
            return
        node = self.dice.choice(live)
        self.at = "the door of " + node.name
        try:
            self.connection = node.client(seconds=self.dice.choice(PATIENCE_S))
            self.at = node.name
        except (OSError, Closed):
            self.connection = None
        except WeirError as error:
            if error.name not in ("UNAVAIL", "STOPPING"):
                raise
            self.connection = None

    def once(self, *words):
        """When it was asked and answered, and the answer or LOST."""
        if self.connection and self.dice.randrange(STAY) == 0:
            self.hang_up()
        while not self.connection:
            self.dial()
            if not self.connection:
                time.sleep(0.05)
        asked = time.monotonic()
        try:
            reply = self.connection.ask(*words)
        except (Closed, OSError):
            self.hang_up()
            reply = LOST
        if isinstance(reply, WeirError) and reply.name in ("UNAVAIL", "STOPPING"):
            self.hang_up()
            reply = LOST
        if reply is LOST:
            self.record.count("in doubt")
        return asked, time.monotonic(), reply

    def key(self):
        self.n += 1
        return "%s-%d" % (self.name, self.n)

    def surely(self, key, *words):
        """Asks with a key until it is answered; from the first asking to the last answer.  LOST only
        when the run ends."""
        first = None
        while True:
            asked, answered, reply = self.once("IDEMPOTENT", key, *words)
            first = first or asked
            if reply is not LOST or self.is_over:
                return first, answered, reply
            time.sleep(0.02)


class Producer(Client):
    def turn(self):
        key = self.key()
        payload = key + " " + "x" * self.dice.choice((0, 10, 300, 3000))
        reply = LOST
        while reply is LOST:  # at the end too: each is acknowledged or was never sent
            _, _, reply = self.surely(key, "ENQUEUE", "mail", payload, "QUEUE", "q", "ATTEMPTS",
                                      1000, "BACKOFF", "none")
        if isinstance(reply, WeirError):
            raise reply
        self.record.enqueued(reply, payload)


class Worker(Client):
    def turn(self):
        lease = self.dice.choice(LEASES_MS)
        words = ("CLAIM", self.name, "MAX", self.dice.randrange(1, 6), "LEASE", lease)
        if self.dice.random() < 0.5:
            asked, answered, reply = self.surely(self.key(), *words, "QUEUES", "q")
        else:
            asked, answered, reply = self.once(*words, "WAIT", 200, "QUEUES", "q")
        if reply is LOST:
            return
        if isinstance(reply, WeirError):
            raise reply
        held = []
        for row in grants(reply):
            g = Grant(row.id, 1, asked, answered, lease / 1000, row.fence)
            self.record.granted(self.record.leases, "claimed", g)
            held.append((g, text(row.token)))
        for g, token in held:
            self.work(g, token)

    def work(self, g, token):
        if self.dice.random() < 0.2:
            ms = self.dice.choice(LEASES_MS)
            end = g.certain_end
            g.certain_end = min(end, time.monotonic() + ms / 1000)
            asked, answered, reply = self.once("EXTEND", g.name, token, ms)
            if reply is LOST or not self.is_mine(g, end, answered, reply):
                return
            g.renewed(asked, answered, ms / 1000)
            self.record.count("extended")
        if self.dice.random() < 0.05:
            return  # forgotten: its lease ends by itself
        end = g.certain_end
        g.certain_end = min(end, time.monotonic())
        asked, answered, reply = self.surely(self.key(), "COMPLETE", g.name, token, "done")
        if reply is LOST or not self.is_mine(g, end, answered, reply):
            return
        g.released(asked, answered)
        self.record.completed(g.name, g.fence)

    def is_mine(self, g, end, answered, reply):
        if not isinstance(reply, WeirError):
            return True
        if reply.name not in NOT_MINE:
            raise reply
        if answered < end:
            self.record.problem("lost", "the lease of %s, fence %d, was refused %.2f s before its "
                                "end: %s" % (g.name, g.fence, end - answered, reply))
        return False


class Locker(Worker):
    def turn(self):
        name, ttl = self.dice.choice(LOCKS), self.dice.choice(LOCK_TTLS_MS)
        wait = self.dice.choice((0, 300, 2000))
        asked, answered, reply = self.once("LOCK", name, "PX", ttl, "WAIT", wait)
        if reply is LOST or reply is None:
            return
        if isinstance(reply, WeirError):
            raise reply
        got = Lock(reply)
        g = Grant(name, 1, asked, answered, ttl / 1000, got.fence)
        self.record.granted(self.record.locks, "locked", g)
        if self.dice.random() < 0.3 and not self.renew(g, got):
            return
        if self.dice.random() < 0.9:
            self.unlock(g, got)

    def renew(self, g, got):
        ttl = self.dice.choice(LOCK_TTLS_MS)
        end = g.certain_end
        g.certain_end = min(end, time.monotonic() + ttl / 1000)
        asked, answered, reply = self.once("RENEW", g.name, got.token, "PX", ttl)
        if reply is LOST or not self.is_mine(g, end, answered, reply):
            return False
        g.renewed(asked, answered, ttl / 1000)
        self.record.count("renewed")
        return True

    def unlock(self, g, got):
        end = g.certain_end
        g.certain_end = min(end, time.monotonic())
        asked, answered, reply = self.once("UNLOCK", g.name, got.token)
        if reply is not LOST and self.is_mine(g, end, answered, reply):
            g.released(asked, answered)
            self.record.count("unlocked")


class Taker(Client):
    def turn(self):
        words = ("TAKE", LIMIT_NAME, "AMOUNT", LIMIT_AMOUNT, "PERIOD", LIMIT_PERIOD_MS)
        if self.dice.random() < 0.5:
            asked, answered, reply = self.surely(self.key(), *words)
        else:
            asked, answered, reply = self.once(*words)
        if isinstance(reply, WeirError):
            raise reply
        if reply is not LOST and reply[0]:
            self.record.taken(asked, answered)


def clients(cluster, record, seed):
    kinds = (Producer, Producer, Worker, Worker, Locker, Locker, Locker, Taker, Taker)
    return [kind(cluster, record, "%s%d" % (kind.__name__.lower(), i), seed)
            for i, kind in enumerate(kinds)]
