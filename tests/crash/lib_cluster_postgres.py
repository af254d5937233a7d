"""A cluster over PostgreSQL with a synchronous standby, and what can happen to the two."""
import os
import signal
import time

from harness import expect, until
from lib_cluster import PASSWORD
from lib_cluster_faults import ANY, CUTS, JUMPS, JUMPS_S, PATIENCE_S, Bed, cut, kill_leader
from lib_cluster_servers import PlacedPair

MOST_HELD_S = 30  # a transaction by a leader that is away; 5 are set


class PostgresBed(Bed):
    kind = "postgres"

    def hosts(self):
        self.pair = PlacedPair(self.net)
        return [self.pair.primary.host]

    def init(self):
        primary, c = self.pair.primary, self.cluster
        primary.ask("CREATE ROLE weir LOGIN PASSWORD '%s'" % PASSWORD, "CREATE DATABASE weir")
        told = c.init("--user", "postgres", "--password-file",
                      os.path.join(c.nodes[0].folder, "password"))
        primary.ask(*[line.strip() for line in told.splitlines()
                      if line.strip().startswith("grant ")], database="weir")

    def databases(self):
        return [self.pair.primary, self.pair.standby]

    def log_ends(self):
        rows = self.pair.primary.ask("SELECT coalesce(min(seq) FILTER (WHERE kind = 0), 0), max(seq) "
                                     "FROM weir.weir_log", database="weir")
        return int(rows[0][0]), int(rows[0][1])

    def whole(self):
        until(self.pair.is_in_step, PATIENCE_S, "the standby")
        return super().whole()


def freeze_standby(bed):
    bed.pair.standby.pause()
    bed.harm()
    time.sleep(bed.dice.choice((0.5, 2, 4, 8)))
    bed.pair.standby.go_on()
    bed.served()


def waiting_commits(bed):
    return [row[0] for row in bed.pair.primary.ask(
        "SELECT pid FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND usename = 'weir'")]


def cancel_commit(bed):
    """A commit that waits for the standby is told that it need not."""
    how = bed.dice.choice(("pg_cancel_backend", "pg_cancel_backend", "pg_terminate_backend"))
    bed.pair.standby.pause()
    bed.harm()
    try:
        for _ in range(bed.dice.randrange(1, 4)):
            pids = until(lambda: waiting_commits(bed), 60, "a commit that waits")
            bed.pair.primary.ask(*["SELECT %s(%s)" % (how, pid) for pid in pids])
            time.sleep(bed.dice.random() * 0.5)
    finally:
        bed.pair.standby.go_on()
    bed.served()


def empty_names(bed):
    bed.pair.primary.set(synchronous_standby_names="")
    bed.harm()
    time.sleep(bed.dice.choice((0.2, 1, 4, 7)))
    bed.pair.primary.set(synchronous_standby_names="ANY 1 (*)")
    bed.served()


def kill_primary(bed):
    """With all its sessions, at once; now and then with commits that the standby never got."""
    primary, standby = bed.pair.primary, bed.pair.standby
    is_frozen = bed.dice.random() < 0.5
    if is_frozen:
        standby.pause()
        until(lambda: waiting_commits(bed), 60, "a commit that waits")
    primary.crash()
    bed.harm()
    try:
        primary.start()
        time.sleep(bed.dice.random() * 2 if is_frozen else 0)
    finally:
        if is_frozen:
            standby.go_on()
    bed.served()


def stop_leader_writing(bed):
    """The leader stands still in a transaction that holds the fence of history.  The server ends
    it: the next leader need not wait until the machine is back."""
    leader = bed.leader()
    server, primary = leader.server, bed.pair.primary
    with primary.connect(database="weir") as c:
        c("BEGIN")
        c("SELECT 1 FROM weir.weir_fence FOR UPDATE")
        until(lambda: primary.ask("SELECT 1 FROM pg_stat_activity WHERE usename = 'weir' AND "
                                  "wait_event_type = 'Lock' AND query LIKE '%weir_fence%'"),
              PATIENCE_S, "a write to history")
        server.process.send_signal(signal.SIGSTOP)
        leader.server = None
        bed.harm()
        c("ROLLBACK")
    ages = []

    def is_let_go():
        rows = primary.ask("SELECT extract(epoch FROM clock_timestamp() - state_change) FROM "
                           "pg_stat_activity WHERE usename = 'weir' AND "
                           "state = 'idle in transaction'")
        ages.extend(float(row[0]) for row in rows)
        return not rows or time.sleep(0.2)
    try:
        until(is_let_go, PATIENCE_S, "the end of a transaction")
        expect(max(ages, default=0) < MOST_HELD_S, "a transaction was idle for %.1f s" % max(
            ages, default=0))
        bed.served()
    finally:
        leader.server = server
        server.process.send_signal(signal.SIGCONT)


def cut_standby(bed):
    """Commits wait, or the standby has them and the primary does not hear of it."""
    cut(bed, [("primary", "standby")])
    time.sleep(bed.dice.choice((1, 3, 6)))
    bed.net.mend()
    bed.served()


def full_disk(bed):
    """Some bytes are left, or none.  The server may end; then it is started when there is room."""
    primary = bed.pair.primary
    bed.note("the disk is full at %d MB" % (primary.disk.used() >> 20))
    primary.disk.fill(bed.dice.choice((0, 0, 100000, 3000000)))
    bed.harm()
    time.sleep(bed.dice.choice((1, 3, 6)))
    primary.disk.empty()
    if primary.process.poll() is not None:
        bed.note("the primary ended")
        primary.start(PATIENCE_S)
    bed.served()


def jump_database(bed):
    """The clock of the database jumps, and perhaps the leader dies before it has renewed."""
    seconds = bed.dice.choice(JUMPS_S)
    bed.note("the clock of the database jumps by %d s" % seconds)
    bed.pair.primary.clock.jump(seconds)
    bed.harm()
    if bed.dice.random() < 0.6:
        kill_leader(bed)
    bed.served()
    bed.pair.primary.clock.jump(0)
    bed.served()


PostgresBed.faults = {**ANY, "freeze-standby": freeze_standby, "cancel-commit": cancel_commit,
                      "empty-names": empty_names, "kill-primary": kill_primary,
                      "stop-leader-writing": stop_leader_writing}
PostgresBed.cuts = {**CUTS, "cut-standby": cut_standby, "full-disk": full_disk}
PostgresBed.jumps = {**JUMPS, "jump-database": jump_database}
PostgresBed.quick = ("kill-leader", "hand-over", "cancel-commit", "cut-leader", "kill-primary",
                     "empty-names", "stop-leader", "stop-leader-writing", "kill-all")
