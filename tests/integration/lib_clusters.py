"""Databases that keep more than one copy, on loopback: PostgreSQL with a synchronous standby, a
semi-synchronous pair of MariaDB, and a Galera cluster of three."""
import os
import uuid

from harness import Skip, until
from lib_databases import Maria, Postgres, free_port

GALERA = "/usr/lib/galera/libgalera_smm.so"
FOREVER_MS = 18446744073709551615


class SafePostgres(Postgres):
    """One that survives a crash, whose settings are changed as an administrator does."""

    def argv(self):
        return [x if x != "fsync=off" else "max_wal_senders=5" for x in super().argv()]

    def set(self, **settings):
        """Changes settings; None: as they were.  Waits until new sessions have them."""
        for name, value in settings.items():
            self.ask("ALTER SYSTEM RESET %s" % name if value is None
                     else "ALTER SYSTEM SET %s = '%s'" % (name, value))
        self.ask("SELECT pg_reload_conf()")
        for name, value in settings.items():
            if value is not None:
                until(lambda n=name, v=value: self.ask("SHOW %s" % n) == [[v]], 60, name)


class PostgresPair:
    Server = SafePostgres

    def __init__(self):
        self.primary = self.Server("primary")
        self.standby = self.Server("standby", copy_of=self.primary)
        self.primary.set(synchronous_standby_names="ANY 1 (*)")
        until(self.is_in_step, 60, "the standby")

    def is_in_step(self):
        return self.primary.ask("SELECT count(*) FROM pg_stat_replication WHERE "
                                "sync_state = 'quorum'") == [["1"]]


class SemiSync:
    def __init__(self):
        common = ["--innodb-flush-log-at-trx-commit=1", "--log-bin=log", "--sync-binlog=1"]
        self.master = Maria(
            "master", *common, "--server-id=1", "--rpl-semi-sync-master-enabled=ON",
            "--rpl-semi-sync-master-wait-point=AFTER_SYNC", "--rpl-semi-sync-master-wait-no-slave=ON",
            "--rpl-semi-sync-master-timeout=%d" % FOREVER_MS)
        self.replica = Maria("replica", *common, "--server-id=2", "--rpl-semi-sync-slave-enabled=ON",
                             "--sync-relay-log=1", "--read-only=ON")
        self.replica.follow(self.master)
        until(self.is_in_step, 60, "the replica")

    def is_in_step(self):
        return self.status("Rpl_semi_sync_master_clients") == "1"

    def status(self, name):
        return self.master.ask("SHOW GLOBAL STATUS LIKE '%s'" % name)[0][1]


class GaleraNode(Maria):
    """A node.  All begin with the same data, with the mark that says so, and as members of a cluster
    that has met before: when they meet again, nothing has to be copied from one to the other."""

    def __init__(self, name, cluster):
        self.cluster, self.ports = cluster, cluster.ports[name]
        super().__init__(name, "--innodb-flush-log-at-trx-commit=1", "--binlog-format=ROW",
                         "--innodb-autoinc-lock-mode=2", "--wsrep-on=ON",
                         "--wsrep-provider=" + GALERA, "--wsrep-cluster-name=weir",
                         "--wsrep-sst-method=skip", "--wsrep-node-name=" + name)

    def start(self, seconds=60):
        if self.cluster.is_up:
            return super().start(seconds)
        members = self.cluster.members
        with open(os.path.join(self.data, "grastate.dat"), "w") as f:
            f.write("# GALERA saved state\nversion: 2.1\nuuid:    %s\nseqno:   0\n"
                    "safe_to_bootstrap: 0\n" % self.cluster.uuid)
        with open(os.path.join(self.data, "gvwstate.dat"), "w") as f:
            f.write("my_uuid: %s\n#vwbeg\nview_id: 3 %s 1\nbootstrap: 0\n%s#vwend\n" % (
                members[self.name], min(members.values()),
                "".join("member: %s 0\n" % m for m in sorted(members.values()))))
        self.launch()
        return self

    def argv(self):
        others = ",".join("127.0.0.1:%d" % p[0] for p in self.cluster.ports.values())
        return super().argv() + [
            "--wsrep-cluster-address=gcomm://" + others,
            "--wsrep-node-address=127.0.0.1:%d" % self.ports[0],
            "--wsrep-provider-options=gmcast.listen_addr=tcp://127.0.0.1:%d;"
            "ist.recv_addr=127.0.0.1:%d;gcache.size=16M" % self.ports]

    def status(self, name):
        return self.ask("SHOW GLOBAL STATUS LIKE '%s'" % name)[0][1]


class Galera:
    NAMES = ("g1", "g2", "g3")
    Node = GaleraNode

    def __init__(self):
        if not os.path.exists(GALERA):
            raise Skip("galera-4 is not installed")
        self.uuid, self.is_up = str(uuid.uuid1()), False
        self.ports = {name: (free_port(), free_port()) for name in self.NAMES}
        self.members = {name: str(uuid.uuid1()) for name in self.NAMES}
        self.nodes = [self.Node(name, self) for name in self.NAMES]
        for node in self.nodes:
            node.wait_ready(120)
        self.is_up = True
        until(lambda: all(n.status("wsrep_local_state_comment") == "Synced" and
                          n.status("wsrep_cluster_size") == "3" for n in self.nodes), 120, "Galera")
