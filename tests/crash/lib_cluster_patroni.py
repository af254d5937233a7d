"""A cluster over three PostgreSQL servers that Patroni and etcd keep, and what can happen to these:
a primary that is killed or whose machine dies, a standby that is promoted, a primary that comes
back as a standby."""
import json
import os
import pwd
import shutil
import signal
import threading
import time
import urllib.error
import urllib.request

from harness import Skip, expect, until
from lib_cluster import PASSWORD
from lib_cluster_faults import ANY, CUTS, PATIENCE_S, Bed, cut
from lib_cluster_net import PREFIX
from lib_cluster_servers import Placed
from lib_databases import Database, Postgres, PostgresConnection, free_port

START_S = 180
HTTP_S = 5
CONFIG = """
scope: weir
name: %(name)s
restapi: {listen: '%(address)s:%(api)d', connect_address: '%(address)s:%(api)d'}
etcd3: {host: '%(etcd)s'}
bootstrap:
  dcs:
    ttl: 10
    loop_wait: 2
    retry_timeout: 3
    maximum_lag_on_failover: 0
    synchronous_mode: true
    synchronous_mode_strict: true
    postgresql:
      use_pg_rewind: true
      parameters: {wal_log_hints: 'on', max_wal_size: 256MB, wal_keep_size: 512MB,
                   shared_buffers: 16MB, max_connections: 60}
  initdb: [{encoding: UTF8}, {locale: C}, {auth-local: trust}, {auth-host: scram-sha-256},
           no-sync]
  pg_hba:
    - local all all trust
    - host all all %(network)s scram-sha-256
    - host replication all %(network)s scram-sha-256
postgresql:
  listen: '%(address)s:%(port)d'
  connect_address: '%(address)s:%(port)d'
  bin_dir: %(bin)s
  data_dir: %(folder)s/data
  pgpass: %(folder)s/pgpass
  parameters: {unix_socket_directories: %(folder)s}
  authentication:
    superuser: {username: postgres, password: %(password)s}
    replication: {username: copier, password: %(password)s}
    rewind: {username: rewinder, password: %(password)s}
"""


class Etcd(Placed, Database):
    def __init__(self, net):
        if not shutil.which("etcd"):
            raise Skip("etcd-server is not installed")
        with self.place("etcd", net):
            super().__init__("etcd")
        self.peer = free_port()
        self.start()

    def argv(self):
        here, peer = ("http://%s:%d" % (self.machine.address, p) for p in (self.port, self.peer))
        return ["etcd", "--name", "one", "--data-dir", self.folder + "/data",
                "--listen-client-urls", here, "--advertise-client-urls", here,
                "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
                "--initial-cluster", "one=" + peer, "--log-level", "error"]

    def connect(self):
        try:
            urllib.request.urlopen("http://%s/health" % self.host, timeout=HTTP_S).close()
        except OSError as error:
            raise RuntimeError(str(error)) from None
        return open(os.devnull, "rb")  # something that can be closed


class PatroniServer(Placed, Database):
    """Patroni, which starts and ends its PostgreSQL."""

    def __init__(self, name, net, etcd):
        if not shutil.which("patroni"):
            raise Skip("patroni is not installed")
        with self.place(name, net):
            super().__init__(name)
        self.api = free_port()
        shutil.chown(self.folder, "postgres", "postgres")
        if not net.is_real:
            Postgres.open_way(self)
        network = PREFIX + "0/24" if net.is_real else "127.0.0.1/32"
        with open(self.folder + "/patroni.yml", "w") as f:
            f.write(CONFIG % dict(name=name, address=self.machine.address, api=self.api,
                                  etcd=etcd.host, network=network, port=self.port,
                                  bin=Postgres.BIN, folder=self.folder, password=PASSWORD))
        self.launch()

    def identity(self):
        return {"user": "postgres", "group": "postgres", "extra_groups": []}

    def launch(self):
        for path in [self.folder + "/data/postmaster.pid",
                     self.folder + "/.s.PGSQL.%d.lock" % self.port]:
            if not self.postmaster() and os.path.exists(path):
                os.unlink(path)  # a process that was killed and not yet buried counts as alive
        super().launch()

    def argv(self):
        return ["patroni", self.folder + "/patroni.yml"]

    def ask_api(self, path, **fields):
        """(status, answer); status 0: it does not answer."""
        data = json.dumps(fields).encode() if fields else None
        request = urllib.request.Request("http://%s:%d/%s" % (
            self.machine.address, self.api, path), data)
        request.add_header("Content-Type", "application/json")
        try:
            with urllib.request.urlopen(request, timeout=60 if data else HTTP_S) as reply:
                return reply.status, reply.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()
        except (OSError, ValueError):
            return 0, ""

    def state(self):
        """What it says of itself; {}: it does not answer."""
        _, answer = self.ask_api("patroni")
        try:
            return json.loads(answer or "{}")
        except ValueError:
            return {}

    def connect(self, database="postgres"):
        return PostgresConnection(host=self.folder, port=self.port, user="postgres",
                                  dbname=database, connect_timeout=10)

    def postmaster(self):
        """The pid of a PostgreSQL that runs; 0: none."""
        try:
            with open(self.folder + "/data/postmaster.pid") as f:
                pid = int(f.readline())
            with open("/proc/%d/stat" % pid) as f:
                return pid if f.read().rsplit(")", 1)[1].split()[0] not in "ZX" else 0
        except (OSError, ValueError):
            return 0

    def signal_postgres(self, sig):
        pid = self.postmaster()
        if not pid:
            return
        with open("/proc/%d/task/%d/children" % (pid, pid)) as f:
            pids = [pid] + [int(x) for x in f.read().split()]
        for p in pids:
            try:
                os.kill(p, sig)
            except ProcessLookupError:
                pass

    def halt(self):
        """The machine is dead: Patroni and PostgreSQL at once."""
        if self.process and self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
        self.signal_postgres(signal.SIGKILL)
        if self.process:
            self.process.wait(20)


def bury():
    """Patroni's PostgreSQL is a child of the first process of the namespace, which is this one.  As
    long as one that ended is not waited for, Patroni takes it for alive."""
    while True:
        for pid in [int(name) for name in os.listdir("/proc") if name.isdigit()]:
            try:
                with open("/proc/%d/stat" % pid) as f:
                    name, rest = f.read().split("(", 1)[1].rsplit(")", 1)
                state, parent = rest.split()[:2]
                if name == "postgres" and state == "Z" and int(parent) == os.getpid():
                    os.waitpid(pid, os.WNOHANG)
            except (OSError, ValueError):
                pass
        time.sleep(0.2)


class PatroniBed(Bed):
    kind = "postgres"

    def hosts(self):
        pwd.getpwnam("postgres")
        expect(self.net.is_real, "Patroni is tested in namespaces of its own, as root")
        threading.Thread(target=bury, daemon=True).start()
        self.etcd = Etcd(self.net)
        self.servers = [PatroniServer("p%d" % i, self.net, self.etcd) for i in (1, 2, 3)]
        until(self.is_whole, START_S, "Patroni")
        return [s.host for s in self.servers]

    def is_whole(self):
        """One leads, the others stream from it, one of them is synchronous."""
        states = [s.state() for s in self.servers]
        if any(x.get("state") != "running" for x in states):
            return time.sleep(0.2)
        leaders = [x for x in states if x.get("role") in ("master", "primary")]
        if len(leaders) != 1 or len({x.get("timeline") for x in states}) != 1:
            return time.sleep(0.2)
        rows = leaders[0].get("replication") or []
        return (sum(r["state"] == "streaming" for r in rows) == 2 and
                any(r["sync_state"] in ("sync", "quorum") for r in rows)) or time.sleep(0.2)

    def primary(self):
        def find():
            found = [s for s in self.servers if s.state().get("role") in ("master", "primary")]
            return found[0] if len(found) == 1 else None
        return until(find, PATIENCE_S, "one primary")

    def init(self):
        primary, c = self.primary(), self.cluster
        primary.ask("CREATE ROLE weir LOGIN PASSWORD '%s'" % PASSWORD)
        primary.ask("CREATE DATABASE weir")
        told = c.init("--user", "postgres", "--password-file",
                      os.path.join(c.nodes[0].folder, "password"))
        primary.ask(*[line.strip() for line in told.splitlines()
                      if line.strip().startswith("grant ")], database="weir")

    def databases(self):
        return self.servers

    def log_ends(self):
        rows = self.primary().ask("SELECT coalesce(min(seq) FILTER (WHERE kind = 0), 0), max(seq) "
                                  "FROM weir.weir_log", database="weir")
        return int(rows[0][0]), int(rows[0][1])

    def whole(self):
        until(self.is_whole, PATIENCE_S, "Patroni")
        return super().whole()


def kill_postgres(bed):
    """Patroni lives, and starts it again or lets another one be promoted."""
    primary = bed.primary()
    primary.signal_postgres(signal.SIGKILL)
    bed.harm()
    bed.served()


def kill_machine(bed):
    """Another one is promoted; the old primary comes back as a standby."""
    primary = bed.primary()
    primary.halt()
    bed.harm()
    bed.served()
    primary.launch()


def kill_standby(bed):
    primary = bed.primary()
    standby = bed.dice.choice([s for s in bed.servers if s is not primary])
    standby.halt()
    bed.harm()
    bed.served()
    standby.launch()


def switch_over(bed):
    primary = bed.primary()

    def is_done():
        bed.harm()
        status, answer = primary.ask_api("switchover", leader=primary.name)
        bed.note("switchover from %s: %d %s" % (primary.name, status, answer))
        return status == 200 or time.sleep(1)
    until(is_done, PATIENCE_S, "switchover")
    bed.served()


def freeze_primary(bed):
    """It stands still, perhaps for so long that another one is promoted."""
    primary = bed.primary()
    primary.process.send_signal(signal.SIGSTOP)
    primary.signal_postgres(signal.SIGSTOP)
    bed.harm()
    try:
        if bed.dice.random() < 0.5:
            time.sleep(bed.dice.choice((2, 6)))
        else:
            others = [s for s in bed.servers if s is not primary]
            until(lambda: any(s.state().get("role") in ("master", "primary") for s in others),
                  PATIENCE_S, "another primary")
    finally:
        primary.signal_postgres(signal.SIGCONT)
        primary.process.send_signal(signal.SIGCONT)
    bed.served()


def cut_primary(bed):
    """The primary reaches neither etcd nor the other servers; the weirs reach all of them."""
    primary = bed.primary()
    others = [s.name for s in bed.servers if s is not primary] + ["etcd"]
    cut(bed, [(primary.name, name) for name in others])
    bed.served()
    bed.net.mend()


PatroniBed.faults = {**{name: ANY[name] for name in ("kill-leader", "kill-all", "stop-leader",
                                                     "hand-over")},
                     "kill-postgres": kill_postgres, "kill-machine": kill_machine,
                     "kill-standby": kill_standby, "switch-over": switch_over,
                     "freeze-primary": freeze_primary}
PatroniBed.cuts = {**{name: CUTS[name] for name in ("cut-leader", "cut-any")},
                   "cut-primary": cut_primary}
PatroniBed.quick = ("kill-machine", "switch-over", "kill-postgres")
