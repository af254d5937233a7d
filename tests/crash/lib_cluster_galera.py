"""A cluster over MariaDB Galera of three, and what can happen to these."""
import os
import re
import subprocess
import time

from harness import expect, until
from lib_cluster import PASSWORD
from lib_cluster_faults import ANY, CUTS, JUMPS, PATIENCE_S, Bed, cut
from lib_cluster_servers import PlacedGalera
from lib_databases import free_port


class GaleraBed(Bed):
    kind = "mysql"

    def hosts(self):
        os.environ["PATH"] += ":" + os.path.dirname(os.path.abspath(__file__))  # wsrep_sst_missed
        self.galera = PlacedGalera(self.net)
        for node in self.galera.nodes:  # one that stood still misses something, too
            node.ask("SET GLOBAL wsrep_sst_receive_address = '%s:%d'" % (
                         node.machine.address, free_port()),
                     "SET GLOBAL wsrep_sst_method = 'missed'")
        return [n.host for n in self.galera.nodes]

    def init(self):
        first, c = self.galera.nodes[0], self.cluster
        first.ask("CREATE USER weir@'%%' IDENTIFIED BY '%s'" % PASSWORD,
                  "CREATE USER boss@'%%' IDENTIFIED BY '%s'" % PASSWORD,
                  "GRANT ALL ON *.* TO boss@'%' WITH GRANT OPTION")
        told = c.init("--user", "boss", "--password-file",
                      os.path.join(c.nodes[0].folder, "password"))
        first.ask(*[line.strip() for line in told.splitlines()
                    if line.strip().startswith("grant ")])

    def databases(self):
        return self.galera.nodes

    def log_ends(self):
        rows = self.galera.nodes[0].ask("SELECT coalesce(min(if(kind = 0, seq, NULL)), 0), max(seq) "
                                        "FROM weir.weir_log")
        return int(rows[0][0]), int(rows[0][1])

    def whole(self):
        until(self.is_synced, PATIENCE_S, "Galera")
        return super().whole()

    def is_synced(self):
        try:
            return all(n.status("wsrep_local_state_comment") == "Synced" and
                       n.status("wsrep_cluster_size") == "3" for n in self.galera.nodes)
        except (RuntimeError, IndexError):
            return False


def stop_server(bed):
    node = bed.dice.choice(bed.galera.nodes)
    node.pause()
    bed.harm()
    time.sleep(bed.dice.choice((1, 3, 8)))
    node.go_on()
    bed.served()


def kill_server(bed):
    node = bed.dice.choice(bed.galera.nodes)
    node.halt()
    bed.harm()
    bed.served()
    rejoin(node)
    until(bed.is_synced, PATIENCE_S, "Galera")
    last = bed.log_ends()[1]
    n = [x.ask("SELECT count(*) FROM weir.weir_log WHERE seq <= %d" % last)[0][0]
         for x in bed.galera.nodes]
    bed.note("%s is back; rows of the log at each: %s" % (node.name, n))


def rejoin(node):
    """Starts it from where its own disk is: it gets what it missed from another.  With the method
    "skip" it would believe that it missed nothing."""
    done = subprocess.run(node.argv() + ["--wsrep-recover"], cwd=node.folder,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, **node.identity())
    found = re.findall(rb"Recovered position:? *(\S+:-?\d+)", done.stdout)
    expect(found, "no position of %s: %s" % (node.name, done.stdout[-300:]))
    argv = node.argv
    node.argv = lambda: argv() + [
        "--wsrep-start-position=" + found[-1].decode(), "--wsrep-sst-method=missed",
        "--wsrep-sst-receive-address=%s:%d" % (node.machine.address, free_port())]
    try:
        node.start(PATIENCE_S)
    finally:
        node.argv = argv


def cut_server(bed):
    """One server hears nothing of the others, or they nothing of it: it is no longer of the
    primary component."""
    names = bed.database_names()
    one = bed.dice.choice(names)
    cut(bed, [(one, name) for name in names if name != one])
    bed.served()
    time.sleep(bed.dice.choice((0, 4)))
    bed.net.mend()


GaleraBed.faults = {**ANY, "stop-server": stop_server, "kill-server": kill_server}
GaleraBed.cuts = {**CUTS, "cut-server": cut_server}
GaleraBed.jumps = JUMPS
GaleraBed.quick = ("kill-server", "hand-over", "kill-leader")
