"""Small objects of a cluster that several clients use at once: a number that is set and read (the
cap of a queue) and a unique key that jobs take and leave.  The calls on each are remembered, and
checked for linearizability (lib_linear.py)."""
import threading
import time

from harness import WeirError, mapping
from lib_cluster_load import LOST, Client
from lib_linear import Call, Register, Undecided, UniqueKey, is_linearizable

MOST_CALLS = 40  # on one object: then the clients go on to the next one
PAUSE_S = 0.03
MOST_VALUES = 99999
SHOWN = 30


class History:
    def __init__(self, name):
        self.name, self.calls, self.users = name, [], 0


class Book:
    """One object after the other."""

    def __init__(self, name, model):
        self.name, self.model, self.lock = name, model, threading.Lock()
        self.current, self.past, self.n = History(name + "-0"), [], 0

    def begin(self, kind, value, only=None):
        """(history, call); the asking may be later, not before.  None: it would be on another
        object than the one that is meant."""
        with self.lock:
            if len(self.current.calls) >= MOST_CALLS:
                self.past.append(self.current)
                self.n += 1
                self.current = History("%s-%d" % (self.name, self.n))
            h, call = self.current, Call(kind, value, time.monotonic())
            if only not in (None, h.name):
                return None
            h.calls.append(call)
            h.users += 1
            return h, call

    def end(self, history):
        with self.lock:
            history.users -= 1

    def finished(self, is_end):
        """Histories to which nothing is added any more."""
        with self.lock:
            if is_end:
                self.past.append(self.current)
            done = [h for h in self.past if h.users == 0]
            self.past = [h for h in self.past if h.users > 0]
            return done

    def check(self, record, is_end):
        done = self.finished(is_end)
        for h in done:
            record.count("histories")
            try:
                if not is_linearizable(h.calls, self.model):
                    record.problem("wrong", "%s is not linearizable: %s" % (
                        h.name, h.calls[:SHOWN]))
            except Undecided:
                record.count("undecided")
        return done


class Caller(Client):
    """A client that makes one call on the object of a book in each turn."""
    book = None

    def call(self, kind, value, words, understand, only=None):
        """(history, call), as Book.begin.  words: of the name of the object."""
        begun = self.book.begin(kind, value, only)
        if not begun:
            return None
        history, call = begun
        try:
            asked, answered, reply = self.once(*words(history.name))
            call.asked = asked
            if reply is not LOST:
                call.ended(answered, understand(reply))
            return begun
        finally:
            self.book.end(history)
            time.sleep(PAUSE_S)


class Setter(Caller):
    """Sets and reads a number."""

    def turn(self):
        self.n += 1
        value = int(self.name[-1]) + 10 * (self.n % MOST_VALUES)  # no other call sets it
        if self.dice.random() < 0.5:
            self.call("write", value, lambda name: ("QUEUESET", name, "CAP", value), plain)
        else:
            self.call("read", None, lambda name: ("QUEUE", name), cap_of)


def plain(reply):
    if isinstance(reply, WeirError):
        raise reply
    return reply


def cap_of(reply):
    if isinstance(reply, WeirError) and reply.name == "NOTFOUND":
        return 0
    return mapping(plain(reply))["cap"]


class Unique(Caller):
    """Takes a key with a job, and cancels the job that has it."""
    held = None  # (name of the key, id of the job)

    def turn(self):
        if self.held and self.dice.random() < 0.5:
            name, job = self.held
            self.held = None
            self.call("cancel", job, lambda _: ("CANCEL", job), was_there, only=name)
            return
        history, call = self.call("add", None, lambda name: (
            "ENQUEUE", "unique", "", "QUEUE", "unique", "IN", 3600000, "UNIQUE", name,
            "SCOPE", "running"), plain)
        self.held = (history.name, call.result) if call.is_known else None


def was_there(reply):
    if isinstance(reply, WeirError):
        if reply.name not in ("STATE", "NOTFOUND"):
            raise reply
        return False
    return True


def users(cluster, record, seed):
    """The clients of both kinds; the record checks what they were told."""
    found = []
    for kind, name, model, n in ((Setter, "number", Register, 3), (Unique, "key", UniqueKey, 2)):
        book = Book(name, model)
        record.books.append(book)
        for i in range(n):
            found.append(kind(cluster, record, "%s%d" % (kind.__name__.lower(), i), seed))
            found[-1].book = book
    return found
