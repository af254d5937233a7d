"""One life of a cluster: it is set up, faults come one after the other under load, and at last what
is there is compared with what the clients were told."""
import json
import os
import random
import shutil
import time
import traceback

from lib_cluster_faults import PATIENCE_S
from lib_cluster_galera import GaleraBed
from lib_cluster_load import clients
from lib_cluster_objects import users
from lib_cluster_patroni import PatroniBed
from lib_cluster_postgres import PostgresBed
from lib_cluster_record import Record, ask_many

BEDS = {"postgres": PostgresBed, "galera": GaleraBed, "patroni": PatroniBed}
SHOWN = 10        # problems that are printed
MOST_GAP_S = 1.0  # between faults
NO_ANSWERS = ("in doubt", "compared", "histories", "undecided")  # counts of something else


class Run:
    """args: kind, seed, faults, seconds, nodes, only, quick."""

    def __init__(self, args, folder):
        self.args, self.folder = args, folder
        self.dice = random.Random(args.seed)
        self.begin = time.monotonic()
        # The details have dice of their own: how often they are thrown depends on the moment.
        self.bed = BEDS[args.kind](folder, random.Random("%d details" % args.seed),
                                   args.nodes or self.dice.choice((2, 3)))
        self.record = Record(args.seed)
        self.clients = clients(self.bed.cluster, self.record, args.seed)
        self.clients += users(self.bed.cluster, self.record, args.seed)
        self.counts, self.passed, self.failed, self.told = {}, 0, 0, 0

    def order(self):
        """All kinds in turn, in another order each time."""
        kinds = sorted(self.bed.known)
        if self.args.only:
            kinds = [k for k in self.args.only.split(",") if k in self.bed.known]
        elif self.args.quick:
            yield from [k for k in self.bed.quick if k in self.bed.known]
            return
        while True:
            yield from self.dice.sample(kinds, len(kinds))

    def is_over(self, n):
        if self.args.seconds and time.monotonic() - self.begin >= self.args.seconds:
            return True
        return not self.args.quick and n >= self.args.faults

    def compare(self, is_end=False):
        self.record.check(lambda commands: self.bed.retry(lambda c: ask_many(c, commands)),
                          self.bed.ask, is_end)
        for kind, words in self.record.problems[self.told:self.told + SHOWN]:
            self.say("%s: %s" % (kind, words))
        self.told = len(self.record.problems)

    def say(self, words):
        print("# %7.1f s  %s" % (time.monotonic() - self.begin, words), flush=True)

    def fault(self, kind):
        known = len(self.record.problems)
        self.bed.begin(kind)
        self.bed.note("%s begins" % kind)
        self.counts[kind] = self.counts.get(kind, 0) + 1
        self.bed.known[kind](self.bed)
        self.bed.note("%s is over" % kind)
        self.bed.whole()
        self.bed.note("all agree on %s" % self.bed.leader_name())
        self.compare()
        if len(self.record.problems) == known:
            self.passed += 1
            return
        self.failed += 1
        self.say("the fault was %s, number %d" % (kind, sum(self.counts.values())))

    def go(self):
        for c in self.clients:
            c.start()
        for n, kind in enumerate(self.order()):
            if self.is_over(n):
                break
            time.sleep(self.dice.random() * MOST_GAP_S)
            self.fault(kind)
            if n % 10 == 9:
                self.say("%d faults, %d acknowledged, %d problems" % (
                    n + 1, self.acknowledged(), len(self.record.problems)))
        for c in self.clients:
            c.is_over = True
        for c in self.clients:
            c.join(PATIENCE_S)
            if c.is_alive():
                self.record.problem("wrong", "%s does not end" % c.name)
        known = len(self.record.problems)
        self.bed.current = "the end"
        self.compare(is_end=True)
        self.end_to_end()
        self.passed += len(self.record.problems) == known
        self.failed += len(self.record.problems) != known

    def end_to_end(self):
        """When nobody sends any more, what is there is what was acknowledged."""
        unknown = set(self.record.seen.values()) - set(self.record.jobs)
        if unknown:
            self.record.problem("doubled", "nobody was told of jobs %s" % sorted(unknown)[:5])
        missing = set(self.record.jobs) - set(self.record.seen.values())
        if missing:
            self.record.problem("lost", "not in the list: %s" % sorted(missing)[:5])

    def acknowledged(self):
        return sum(n for what, n in self.record.counts.items() if what not in NO_ANSWERS)

    def result(self):
        """What several lives can be added up from."""
        kinds = [kind for kind, _ in self.record.problems]
        return {"kind": self.args.kind, "faults": self.counts, "times": self.bed.times,
                "counts": self.record.counts, "acknowledged": self.acknowledged(),
                "problems": {k: kinds.count(k) for k in ("lost", "doubled", "wrong")},
                "handed": self.bed.handed, "trimmed": self.bed.trimmed,
                "passed": self.passed, "failed": self.failed}

    def live(self):
        """The result; what was wrong is told, and the logs are kept then."""
        try:
            self.go()
        except Exception as error:  # pylint: disable=broad-except
            self.failed += 1
            self.record.problem("wrong", repr(error))
            self.say("wrong, in %s: %r" % (self.bed.current, error))
            if not isinstance(error, AssertionError):
                traceback.print_exc()
        if self.failed:
            self.keep_logs()
        return self.result()

    def keep_logs(self):
        with open(os.path.join(self.folder, "problems"), "w") as f:
            f.writelines("%s: %s\n" % x for x in self.record.problems)
        with open(os.path.join(self.folder, "grants"), "w") as f:
            f.writelines("%s fence %d asked %.3f answered %.3f certain until %.3f\n" % (
                g.name, g.fence, g.asked, g.answered, g.certain_end)
                for g in self.record.leases + self.record.locks)
        for database in self.bed.databases():
            shutil.copy(os.path.join(database.folder, "log"),
                        os.path.join(self.folder, database.name + ".log"))


# ---------------------------------------------------------------- several lives


def add_up(results):
    """One result of several; faults are told apart by their database."""
    total = {"faults": {}, "times": {}, "counts": {}, "problems": {}}
    for r in results:
        for part in ("faults", "times"):
            for fault, value in r[part].items():
                name = "%s %s" % (r["kind"], fault)
                total[part][name] = total[part].get(name, type(value)()) + value
        for part in ("counts", "problems"):
            for name, n in r[part].items():
                total[part][name] = total[part].get(name, 0) + n
        for name in ("acknowledged", "handed", "trimmed", "passed", "failed"):
            total[name] = total.get(name, 0) + r[name]
    return total


def tell(total):
    for fault in sorted(total["faults"]):
        times = sorted(total["times"].get(fault, []))
        print("# %-30s %4d   served again after %6.2f s at most, %5.2f s in the middle" % (
            fault, total["faults"][fault], times[-1] if times else 0,
            times[len(times) // 2] if times else 0))
    print("# " + ", ".join("%s %d" % x for x in total["counts"].items()))
    problems = total["problems"]
    print("# %d faults: acknowledged %d, lost %d, doubled %d, wrong %d; handed over %d, slept past "
          "a trim %d" % (sum(total["faults"].values()), total["acknowledged"],
                         problems.get("lost", 0), problems.get("doubled", 0),
                         problems.get("wrong", 0), total["handed"], total["trimmed"]))
    print("%d passed, %d failed" % (total["passed"], total["failed"]), flush=True)


def write_result(path, result):
    with open(path + ".new", "w") as f:
        json.dump(result, f)
    os.rename(path + ".new", path)
