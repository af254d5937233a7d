"""Histories of locks and leases, as clients saw them, and what must be true of them.

A fence orders the grants, so no search is needed; with the times at which a client asked and was
answered, each grant has

    a certain hold    from its answer to the moment its release was asked for, or until its time,
                      counted from the moment it was asked for (renewed), is over
    a possible hold   from the asking to the answer of its release, or until its time, counted
                      from the last answer, is over

and then: never more than COUNT certain holds at once; fences rise with real time; a token that was
accepted had not been replaced by a later grant; whoever was refused met COUNT possible holds."""
import threading

from harness import equal, expect, text


class Lock:
    def __init__(self, reply):
        self.token, self.fence, self.ttl_ms, self.until_ms, self.count = reply
        self.token = text(self.token)


class Grant:
    """One grant as its client saw it; times in seconds, None: not known."""

    def __init__(self, name, count, asked, answered, ttl, fence):
        self.name, self.count, self.fence = name, count, fence
        self.asked, self.answered = asked, answered
        self.accepted = []          # moments of asking of RENEW and UNLOCK that were answered OK
        self.certain_end = asked + ttl
        self.possible_end = answered + ttl
        self.is_open = True

    def renewed(self, asked, answered, ttl):
        self.accepted.append(asked)
        self.certain_end = asked + ttl
        self.possible_end = answered + ttl

    def released(self, asked, answered):
        self.accepted.append(asked)
        self.certain_end = min(self.certain_end, asked)
        self.possible_end = answered
        self.is_open = False


class History:
    def __init__(self):
        self.lock = threading.Lock()
        self.grants = []
        self.refusals = []  # name, count, asked, answered
        self.unknown = []   # name, asked, until when it may be held: the answer was lost
        self.errors = []

    def add(self, kind, value):
        with self.lock:
            getattr(self, kind).append(value)


def check_places(grants):
    """Never more than COUNT certain holds at once."""
    events = []
    for g in grants:
        if g.certain_end > g.answered:
            events += [(g.answered, 1, g), (g.certain_end, 0, g)]
    held = 0
    for _, is_begin, g in sorted(events, key=lambda e: e[:2]):  # an end before a begin
        held += 1 if is_begin else -1
        expect(held <= g.count, "%d hold %s, which has %d places (fence %d)" % (
            held, g.name, g.count, g.fence))


def check_fences(grants):
    """A grant that was answered before another was asked for has the smaller fence."""
    expect(len({g.fence for g in grants}) == len(grants), "a fence was given twice")
    largest = 0
    ends = sorted(grants, key=lambda g: g.answered)
    at = 0
    for g in sorted(grants, key=lambda g: g.asked):
        while at < len(ends) and ends[at].answered < g.asked:
            largest = max(largest, ends[at].fence)
            at += 1
        expect(g.fence > largest, "fence %d after %d" % (g.fence, largest))


def check_tokens(grants):
    """In a mutex a later grant ends the right of the earlier one."""
    for g in grants:
        for moment in g.accepted if g.count == 1 else []:
            for later in grants:
                expect(later.fence <= g.fence or later.answered > moment,
                       "fence %d of %s was accepted after fence %d was given" % (
                           g.fence, g.name, later.fence))


def check_refusals(history, grants, refusals, slack):
    for name, count, asked, answered in refusals:
        possible = [g for g in grants if g.asked < answered and g.possible_end + slack > asked]
        lost = [u for u in history.unknown
                if u[0] == name and u[1] < answered and u[2] + slack > asked]
        expect(len(possible) + len(lost) >= count, "%s was refused with %d of %d held" % (
            name, len(possible), count))


def check_history(history, slack=0.5):
    """slack: how late the end of a time may come, with the server away it may be long."""
    equal(history.errors, [], "errors of clients")
    for name in {g.name for g in history.grants}:
        mine = [g for g in history.grants if g.name == name]
        check_places(mine)
        check_tokens(mine)
        check_refusals(history, mine, [r for r in history.refusals if r[0] == name], slack)
    check_fences(history.grants)
