"""What can happen to a cluster of weirs and to its database.

A fault is a function of the bed: it does the harm, calls bed.served() when that is what it wants to
be measured, and puts right what it broke."""
import os
import signal
import threading
import time

from harness import Closed, Watch, WeirError, expect, text, until, weir
from lib_cluster_net import Net
from lib_cluster_servers import PlacedCluster

PATIENCE_S = 180       # until it is served again; the machine may be busy with others
ANSWER_S = (3, 6, 12, 20)  # for one answer: the first is short, as a machine may be cut off
PROBE_S = 3            # for an answer; then it is asked again
BALLAST = "x" * 1000000
BALLAST_MOST = 200     # the log is trimmed when it is 40 MB longer than what is alive


class Bed:
    """The machines and what can be done to them, whatever the database.  A kind of database says
    `kind`, `hosts()`, `init()`, `databases()` and `log_ends()`, and has its `faults`: those of
    `cuts` need a network of its own, those of `jumps` a clock that can be set."""
    kind = None
    faults, cuts, jumps, quick = {}, {}, {}, ()

    def __init__(self, folder, dice, n_nodes):
        self.dice, self.harmed, self.times, self.current = dice, None, {}, None
        self.handed = self.trimmed = 0  # faults that had the effect that was wanted
        self.folder, self.net = folder, Net()
        self.cluster = PlacedCluster(folder, self.kind, self.hosts(), self.net)
        for name in "abcde"[:n_nodes]:
            self.cluster.add(name)
        self.known = self.can_do()
        self.init()
        for node in self.cluster.nodes:
            node.start()
        self.whole()

    def can_do(self):
        """The faults that can be brought about here, by name."""
        found = dict(self.faults)
        if self.net.is_real:
            found.update(self.cuts)
        if all(n.clock.env for n in self.cluster.nodes):
            found.update(self.jumps)
        return found

    def note(self, words):
        with open(os.path.join(self.folder, "faults"), "a") as f:
            f.write("%s %s\n" % (time.strftime("%H:%M:%S"), words.strip()))

    def begin(self, kind):
        self.current, self.harmed = kind, None

    def harm(self):
        """Now: the time until somebody is served again is counted from here."""
        self.harmed = time.monotonic()

    def served(self):
        """Waits until a command that was sent after the harm is acknowledged, by any machine: all
        are asked at once, as some of them may be mute."""
        done = threading.Event()
        probes = [threading.Thread(target=self.probe, args=(node, done), daemon=True)
                  for node in self.cluster.nodes]
        for p in probes:
            p.start()
        until(done.is_set, PATIENCE_S, "after %s, an acknowledged command" % self.current)
        self.times.setdefault(self.current, []).append(time.monotonic() - self.harmed)

    @staticmethod
    def probe(node, done):
        while not done.is_set():
            try:
                if node.server:
                    with node.client(seconds=PROBE_S) as c:
                        c("ENQUEUE", "probe", "", "QUEUE", "probe")
                        done.set()
            except (OSError, Closed, WeirError):
                pass
            time.sleep(0.05)

    def ask(self, *words):
        return self.retry(lambda c: c(*words))

    def retry(self, fn):
        watch, n = Watch(), 0
        while True:
            for node in self.cluster.nodes:
                try:
                    if node.server:
                        with node.client(seconds=ANSWER_S[min(n, len(ANSWER_S) - 1)]) as c:
                            return fn(c)
                except (OSError, Closed, WeirError) as error:
                    if isinstance(error, WeirError) and error.name not in ("UNAVAIL", "STOPPING"):
                        raise
            n += 1
            expect(not watch.is_over(PATIENCE_S), "not served again in %d s after %s" % (
                watch.wall, self.current))
            time.sleep(0.02)

    def whole(self):
        """Waits until all machines run and agree on who leads."""
        for node in self.cluster.nodes:
            if not node.server:
                node.start()
        leader = self.cluster.leader(PATIENCE_S)
        for node in self.cluster.nodes:
            until(lambda n=node: text((n.state() or {}).get("leader")) == self.leader_name(),
                  PATIENCE_S, "%s knows who leads" % node.name)
        return leader

    def leader_name(self):
        return self.cluster.leader(PATIENCE_S).name

    def leader(self):
        return self.cluster.leader(PATIENCE_S)

    def database_names(self):
        """Machines of the network on which the database is."""
        return [d.machine.name for d in self.databases()]

    def follower(self):
        leader = self.leader()
        return self.dice.choice([n for n in self.cluster.nodes if n is not leader])

    def kill(self, *nodes):
        servers = [n.server for n in nodes]
        for s in servers:
            s.process.send_signal(signal.SIGKILL)
        self.harm()
        for n, s in zip(nodes, servers):
            s.kill()
            n.server = None


# ---------------------------------------------------------------- of any cluster


def kill_leader(bed):
    node = bed.leader()
    bed.kill(node)
    bed.served()
    node.start()


def kill_follower(bed):
    node = bed.follower()
    bed.kill(node)
    bed.served()
    node.start()


def kill_all(bed):
    nodes = list(bed.cluster.nodes)
    bed.kill(*nodes)
    for node in bed.dice.sample(nodes, len(nodes)):
        node.start()
        time.sleep(bed.dice.choice((0, 1, 3)))  # what each makes of the time must not matter
    bed.served()


def sleep(bed, meanwhile):
    """The leader stands still until another leads.  Clients know its address no more, but those who
    are connected wait for it."""
    node = bed.leader()
    server = node.server
    server.process.send_signal(signal.SIGSTOP)
    node.server = None
    bed.harm()
    try:
        bed.served()
        meanwhile(node)
    finally:
        node.server = server
        server.process.send_signal(signal.SIGCONT)


def stop_leader(bed):
    sleep(bed, lambda node: time.sleep(bed.dice.random() * 2))


def stop_leader_trimmed(bed):
    """The new leader writes so much that what the sleeper would write next is trimmed."""
    last = bed.log_ends()[1]

    def write(_):
        for _ in range(BALLAST_MOST):
            job = bed.ask("ENQUEUE", "ballast", BALLAST, "QUEUE", "ballast")
            bed.ask("IDEMPOTENT", "cancel-%d" % job, "CANCEL", job)
            if bed.log_ends()[0] > last + 5:
                bed.trimmed += 1
                return
    sleep(bed, write)


def stop_followers(bed):
    """The leader comes back while all others stand still, and then one of these leads: its clock went
    on while that of the cluster stood."""
    leader = bed.leader()
    stopped = [(n, n.server) for n in bed.cluster.nodes if n is not leader]
    for node, server in stopped:
        server.process.send_signal(signal.SIGSTOP)
        node.server = None
    bed.kill(leader)
    try:
        time.sleep(bed.dice.choice((1, 3)))
        leader.start()
        bed.served()
    finally:
        for node, server in stopped:
            node.server = server
            server.process.send_signal(signal.SIGCONT)
    time.sleep(0.5)  # some leases and locks of the one that came back
    give_lead(bed)


def hand_over(bed):
    give_lead(bed, bed.served)


def give_lead(bed, and_then=lambda: None):
    """A machine that has just come may be told to be behind, and the lead may change by itself."""
    chosen = []

    def is_done():
        to = bed.follower()
        chosen[:] = [to]
        bed.harm()
        done = weir("--url", "%s:%d" % (to.host, to.port), *to.secret(), "cluster", "hand-over",
                    to.name)
        bed.note("hand-over to %s: %d %s%s" % (to.name, done.returncode, done.stdout, done.stderr))
        return done.returncode == 0 or time.sleep(0.3)
    until(is_done, PATIENCE_S, "hand-over")
    and_then()
    bed.handed += bed.leader() is chosen[0]


ANY = {"kill-leader": kill_leader, "kill-follower": kill_follower, "kill-all": kill_all,
       "stop-leader": stop_leader, "stop-leader-trimmed": stop_leader_trimmed,
       "stop-followers": stop_followers, "hand-over": hand_over}


# ---------------------------------------------------------------- of the network


def cut(bed, pairs, way=None):
    """Cuts pairs of machines: both ways, or only one of them."""
    way = way or bed.dice.choice(("both", "there", "back"))
    bed.note("cut %s: %s" % (way, ", ".join("%s-%s" % p for p in pairs)))
    for a, b in pairs:
        if way in ("both", "there"):
            bed.net.cut(a, b)
        if way in ("both", "back"):
            bed.net.cut(b, a)
    bed.harm()


def cut_leader(bed):
    """The leader does not reach the database; its clients and the other machines reach it."""
    leader = bed.leader().name
    cut(bed, [(leader, name) for name in bed.database_names()])
    bed.served()
    bed.net.mend()


def isolate_leader(bed):
    """Clients alone reach it."""
    leader = bed.leader().name
    others = [n.name for n in bed.cluster.nodes if n.name != leader]
    cut(bed, [(leader, name) for name in bed.database_names() + others], "both")
    bed.served()
    time.sleep(bed.dice.random() * 2)
    bed.net.mend()


def cut_follower(bed):
    follower = bed.follower().name
    cut(bed, [(follower, name) for name in bed.database_names()])
    bed.served()
    time.sleep(bed.dice.random() * 6)
    bed.net.mend()


def cut_weirs(bed):
    """A follower cannot pass connections on, or hears no answers."""
    cut(bed, [(bed.leader().name, bed.follower().name)])
    bed.served()
    time.sleep(bed.dice.random() * 4)
    bed.net.mend()


def cut_any(bed):
    """Any two machines."""
    names = [n.name for n in bed.cluster.nodes] + bed.database_names()
    cut(bed, [tuple(bed.dice.sample(names, 2))])
    time.sleep(bed.dice.choice((1, 3, 7)))
    bed.net.mend()
    bed.served()


def slow_net(bed):
    """One machine, or all, send at the speed of an old modem; what queues too long is lost."""
    names = [n.name for n in bed.cluster.nodes] + bed.database_names()
    names = bed.dice.choice((names, [bed.dice.choice(names)]))
    for name in names:
        bed.net.slow(name, bed.dice.choice((64, 256, 1000)))
    bed.harm()
    time.sleep(bed.dice.choice((2, 6)))
    bed.net.mend()
    bed.served()


CUTS = {"cut-leader": cut_leader, "isolate-leader": isolate_leader, "cut-follower": cut_follower,
        "cut-weirs": cut_weirs, "cut-any": cut_any, "slow-net": slow_net}


# ---------------------------------------------------------------- of clocks

JUMPS_S = (3600, -3600, 86400 * 400, -86400 * 400, 7, -7)


def jump_weir(bed):
    """The wall clock of one machine jumps, and then it leads or dies."""
    node = bed.dice.choice(bed.cluster.nodes)
    seconds = bed.dice.choice(JUMPS_S)
    bed.note("the clock of %s jumps by %d s" % (node.name, seconds))
    node.clock.jump(seconds)
    bed.harm()
    bed.served()
    if bed.dice.random() < 0.5:
        kill_leader(bed)
    node.clock.jump(0)
    bed.served()


JUMPS = {"jump-weir": jump_weir}
