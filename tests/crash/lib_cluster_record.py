"""What the clients of a cluster were told, and what must therefore be true.

Every rule is a promise of the protocol: an acknowledged job is there once, with its payload; what
was acknowledged complete stays so and is given to nobody again; a job has one lease and a lock one
holder at a time; fences grow; a limit gives no more in any window than it may.

Times are those of the clients, all on one machine.  A grant holds for certain from its answer until
its time, counted from when it was asked for, is over or its end was asked for (lib_histories.py)."""
import random
import threading
import time

from harness import (WeirError, expect, mapping, pack, text)
from lib_histories import check_fences, check_places, check_tokens

SAMPLE = 100      # jobs of before that are looked at again after each fault
KEPT_GRANTS = 50  # of each name: those before were compared with all that came after them
PIPELINE = 50   # answers that wait to be read are copied again and again
PAGE = 100

LIMIT_NAME, LIMIT_AMOUNT, LIMIT_PERIOD_MS = "api", 20, 1000


class Record:
    """The clients' threads add, the main thread checks.  A client lowers what it holds before it
    asks for the end of it, so a check may come at any moment."""

    def __init__(self, seed):
        self.lock = threading.Lock()
        self.dice = random.Random(seed)
        self.jobs = {}      # id: payload, acknowledged
        self.fresh = []     # ids acknowledged or complete since the last check
        self.done = {}      # id: fence under which its end was acknowledged
        self.leases, self.locks = [], []
        self.takes = []     # asked, answered
        self.fences = set()
        self.seen = {}      # payload: id, as listed
        self.floor = 0      # all jobs up to this id were listed
        self.problems = []  # (kind, words)
        self.books = []     # of small objects: lib_cluster_objects.py
        self.counts = dict.fromkeys(("enqueued", "completed", "claimed", "extended", "locked",
                                     "renewed", "unlocked", "taken", "histories",
                                     "undecided", "in doubt", "compared"), 0)

    def count(self, what, n=1):
        with self.lock:
            self.counts[what] += n

    def problem(self, kind, words):
        with self.lock:
            self.problems.append((kind, "%s %s" % (time.strftime("%H:%M:%S"), words)))

    def enqueued(self, job, payload):
        with self.lock:
            self.counts["enqueued"] += 1
            if self.jobs.setdefault(job, payload) != payload:
                self.problems.append(("doubled", "id %d is of two jobs" % job))
            self.fresh.append(job)

    def completed(self, job, fence):
        with self.lock:
            self.counts["completed"] += 1
            self.done[job] = fence
            self.fresh.append(job)

    def granted(self, held, what, grant):
        with self.lock:
            self.counts[what] += 1
            if grant.fence in self.fences:
                self.problems.append(("doubled", "fence %d was given twice" % grant.fence))
            self.fences.add(grant.fence)
            held.append(grant)

    def taken(self, asked, answered):
        with self.lock:
            self.counts["taken"] += 1
            self.takes.append((asked, answered))

    # ------------------------------------------------------------ checks

    def check(self, ask_many, ask, is_end=False):
        """ask_many(commands): their answers; ask(words): one answer, however long it takes."""
        with self.lock:
            fresh = set(self.fresh)
            self.fresh = []
            old = self.dice.sample(sorted(self.jobs), min(SAMPLE, len(self.jobs)))
            done = dict(self.done)
            leases, locks, takes = list(self.leases), list(self.locks), list(self.takes)
        self.check_jobs(sorted(self.jobs) if is_end else sorted(fresh | set(old)), done, ask_many)
        self.check_list(ask, is_end)
        self.check_held("lease", leases)
        self.check_held("lock", locks)
        for g in leases:
            if g.fence > done.get(g.name, g.fence):
                self.problem("doubled", "job %d was complete with fence %d, given with %d" % (
                    g.name, done[g.name], g.fence))
        self.check_limit(takes)
        for book in self.books:
            self.check_book(book, ask, is_end)
        with self.lock:  # those that a later grant could still meet
            self.leases = last_of_each(leases) + self.leases[len(leases):]
            self.locks = last_of_each(locks) + self.locks[len(locks):]
            self.takes = takes[-10 * LIMIT_AMOUNT:] + self.takes[len(takes):]

    def check_book(self, book, ask, is_end):
        """Objects that nobody uses any more are checked, and removed."""
        for history in book.check(self, is_end):
            try:
                ask("UNQUEUE", history.name)
            except WeirError as error:
                if error.name != "NOTFOUND":
                    raise

    def check_jobs(self, ids, done, ask_many):
        for at in range(0, len(ids), PIPELINE):
            some = ids[at:at + PIPELINE]
            for job, reply in zip(some, ask_many([("JOB", i) for i in some])):
                self.counts["compared"] += 1
                if isinstance(reply, WeirError):
                    self.problem("lost", "job %d: %s" % (job, reply))
                    continue
                reply = mapping(reply)
                if text(reply["args"]) != self.jobs.get(job, text(reply["args"])):
                    self.problem("lost", "job %d has other args: %r" % (job, reply["args"][:60]))
                if job in done and text(reply["status"]) != "complete":
                    self.problem("lost", "job %d was complete and is %s" % (
                        job, text(reply["status"])))

    def check_list(self, ask, is_end):
        """Looks at the jobs that came since the last time: each was sent by somebody, once."""
        cursor, newest, floor = None, 0, 0 if is_end else self.floor
        while True:
            page = mapping(ask("JOBS", "QUEUE", "q", "LIMIT", PAGE,
                               *(["CURSOR", cursor] if cursor else [])))
            rows = [mapping(row) for row in page["jobs"]]
            for row in rows:
                newest = max(newest, row["id"])
                self.see(row["id"], text(row["args"]))
            cursor = page.get("cursor")
            if not cursor or (rows and rows[-1]["id"] <= floor):
                break
        self.floor = max(self.floor, newest)

    def see(self, job, payload):
        if self.seen.setdefault(payload, job) != job:
            self.problem("doubled", "%.30s is job %d and job %d" % (payload, self.seen[payload], job))
        with self.lock:
            told = self.jobs.get(job, payload)
        if told != payload:
            self.problem("doubled", "job %d is %.30s, not %.30s" % (job, payload, told))

    def check_held(self, what, grants):
        try:
            check_fences(grants)
            by_name = {}
            for g in grants:
                by_name.setdefault(g.name, []).append(g)
            for some in by_name.values():
                check_places(some)
                check_tokens(some)
        except AssertionError as error:
            self.problem("doubled", "%s: %s" % (what, error))

    def check_limit(self, takes):
        """Takes that were asked for and answered within one window are all in that window."""
        takes = sorted(takes)
        for i, (first, _) in enumerate(takes):
            end = first + LIMIT_PERIOD_MS / 1000
            n = 0
            for asked, answered in takes[i:]:
                if asked > end:
                    break
                n += answered < end
            if n > LIMIT_AMOUNT:
                self.problem("doubled", "limit: %d were given in a window of %d" % (n, LIMIT_AMOUNT))
                return


def last_of_each(grants):
    """The last of each name, those with the most to come first."""
    kept, counts = [], {}
    for g in reversed(grants):
        counts[g.name] = counts.get(g.name, 0) + 1
        if counts[g.name] <= KEPT_GRANTS:
            kept.append(g)
    return kept[::-1]


def ask_many(connection, commands):
    """Sends all, then reads all; errors are answers."""
    connection.send(b"".join(pack(*c) for c in commands))
    replies = [connection.read() for _ in commands]
    for reply in replies:
        if isinstance(reply, WeirError) and reply.name in ("UNAVAIL", "STOPPING"):
            raise reply
    expect(len(replies) == len(commands), "answers")
    return replies
