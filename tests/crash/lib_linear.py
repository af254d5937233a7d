"""Is a history linearizable?  The search of Wing and Gong with Lowe's memory of what was tried.

A history has the calls on one object: when each was asked and answered, and what was answered.  It
is linearizable when the calls can be put into one order such that each takes effect at one moment
between its asking and its answer, and every answer is what that order gives.  A call without an
answer may take effect at any moment after its asking, or never."""

FOREVER = float("inf")
MOST_STEPS = 200000  # of one search; after that the history is undecided


class Call:
    """answered: FOREVER, and result None, when nothing is known of it."""

    def __init__(self, kind, value, asked):
        self.kind, self.value, self.asked = kind, value, asked
        self.answered, self.result = FOREVER, None

    def ended(self, answered, result):
        self.answered, self.result = answered, result

    @property
    def is_known(self):
        return self.answered != FOREVER

    def __repr__(self):
        return "%s(%s) %.3f-%.3f: %s" % (self.kind, self.value, self.asked, self.answered,
                                         self.result)


class Undecided(Exception):
    """The search takes too long."""


def is_linearizable(calls, model):
    """model: `first`, the state before all calls, and step(state, call): the state after the call,
    or None when the call cannot have been answered so in this state; matters(call, calls): whether
    a call without an answer can have had an effect that another one saw."""
    calls = sorted((c for c in calls if c.is_known or model.matters(c, calls)),
                   key=lambda c: c.asked)
    wanted = sum(1 << i for i, c in enumerate(calls) if c.is_known)
    seen, stack, n = set(), [(0, model.first)], 0
    while stack:
        done, state = stack.pop()
        if done & wanted == wanted:
            return True
        if (done, state) in seen:
            continue
        seen.add((done, state))
        n += 1
        if n > MOST_STEPS:
            raise Undecided
        stack += next_steps(calls, done, state, model)
    return False


def next_steps(calls, done, state, model):
    """Every call that may be the next one: no other was answered before it was asked."""
    first_end = min((c.answered for i, c in enumerate(calls) if not done >> i & 1),
                    default=FOREVER)
    found = []
    for i, c in enumerate(calls):
        if c.asked > first_end:
            break
        if done >> i & 1:
            continue
        after = model.step(state, c)
        if after is not None:
            found.append((done | 1 << i, after))
    found.sort(key=lambda step: -calls[(step[0] ^ done).bit_length() - 1].answered)
    return found  # the one that was answered first is tried first


class Register:
    """write(value), each value once, and read() -> value."""
    first = 0

    @staticmethod
    def matters(call, calls):
        return call.kind == "write" and any(c.result == call.value for c in calls)

    @staticmethod
    def step(state, call):
        if call.kind == "write":
            return call.value
        return state if not call.is_known or call.result == state else None


class UniqueKey:
    """add() -> the id of the job that has the key, a new and greater one when none has it;
    cancel(id) -> whether that job had the key.  State: who has the key (0: none, None: a job whose
    id nobody was told) and the greatest id."""
    first = (0, 0)

    @staticmethod
    def matters(_call, _calls):
        return True

    @staticmethod
    def step(state, call):
        holder, newest = state
        if call.kind == "add":
            if not call.is_known:
                return (None, newest) if holder == 0 else state
            if holder == call.result:
                return state
            is_new = holder in (0, None) and call.result > newest
            return (call.result, call.result) if is_new else None
        is_holder = holder == call.value or (holder is None and call.value > newest)
        if call.is_known and call.result != is_holder:
            return None
        return (0, max(newest, call.value)) if is_holder else state
