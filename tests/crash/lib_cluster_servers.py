"""The servers of a cluster on machines of a network (lib_cluster_net.py): weirs, PostgreSQL with a
standby, Galera.  Each machine has one server, and a disk of its own where mounting is allowed."""
import contextlib
import glob
import os

from harness import WEIR, Server, until
from lib_cluster import PASSWORD, Cluster, Node
from lib_cluster_net import PREFIX, RUN, Disk
from lib_clusters import Galera, GaleraNode, SafePostgres

TOKEN = "0123456789abcdef0123456789abcdef"
INSECURE = "insecure = true\n"  # the machines are namespaces of this test
# A clock that jumps back by months makes ends that are past their time: retention would take them.
KEEP = 'history_keep_done = "forever"\nhistory_keep_failed = "forever"\n'


class FakeClock:
    """A wall clock of a server that can jump; the steady clocks stay real.  A program with a
    sanitizer cannot have one."""

    def __init__(self, path):
        libs = glob.glob("/usr/lib/*/faketime/libfaketimeMT.so.1")
        self.path, self.env = path, {}
        if libs:
            self.jump(0)
            self.env = {"LD_PRELOAD": libs[0], "FAKETIME_TIMESTAMP_FILE": path,
                        "FAKETIME_NO_CACHE": "1", "FAKETIME_DONT_FAKE_MONOTONIC": "1",
                        "DONT_FAKE_MONOTONIC": "1", "FAKETIME_DISABLE_SHM": "1"}

    def jump(self, seconds):
        with open(self.path + ".new", "w") as f:
            f.write("%+d\n" % seconds)
        os.chmod(self.path + ".new", 0o644)
        os.rename(self.path + ".new", self.path)


@contextlib.contextmanager
def environment(**settings):
    before = {name: os.environ.get(name) for name in settings}
    os.environ.update(settings)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


# ---------------------------------------------------------------- weirs


def has_sanitizer():
    with open(WEIR, "rb") as f:
        return b"__asan_init" in f.read()


class PlacedNode(Node):
    def __init__(self, cluster, name, **options):
        super().__init__(cluster, name, **options)
        self.machine = cluster.net.machine(name)
        self.token = TOKEN if cluster.net.is_real else None
        self.clock = FakeClock(os.path.join(self.folder, "clock"))
        if has_sanitizer():
            self.clock.env = {}

    def secret(self):
        """Words of the command line."""
        return ("--token", "@%s/token" % self.folder) if self.token else ()

    def start(self):
        with self.machine.inside():
            self.server = Server(self.folder, config=self.config, token=self.token,
                                 resp="%s:%d" % (self.host, self.port), env=self.clock.env,
                                 seconds=180)
        return self


class PlacedCluster(Cluster):
    def __init__(self, folder, kind, hosts, net):
        self.net = net
        super().__init__(folder, kind, hosts, more=KEEP + (INSECURE if net.is_real else ""))

    def host_of(self, name):
        return self.net.machine(name).address

    def add(self, name, **options):
        self.nodes.append(PlacedNode(self, name, **options))
        return self.nodes[-1]


# ---------------------------------------------------------------- databases


class Placed:
    """A database server on a machine.  What asks it as its administrator is there, too."""

    def place(self, name, net):
        self.machine, self.net, self.disk = net.machine(name), net, None
        if net.is_real:
            self.disk = Disk(os.path.join(RUN, name))
            os.chmod(self.disk.folder, 0o755)
            return environment(TMPDIR=self.disk.folder)
        return contextlib.nullcontext()

    @property
    def host(self):
        return "%s:%d" % (self.machine.address, self.port)

    def launch(self):
        with self.machine.inside():
            super().launch()

    def connect(self, *args, **options):
        with self.machine.inside():
            return super().connect(*args, **options)


class PlacedPostgres(Placed, SafePostgres):
    """A standby reaches its primary over the network."""

    def __init__(self, name, net, copy_of=None):
        self.primary, self.clock = copy_of, None
        with self.place(name, net):
            super().__init__(name, copy_of)
        if not copy_of and net.is_real:
            with open(os.path.join(self.data, "pg_hba.conf"), "a") as f:
                f.write("host all all %s0/24 scram-sha-256\n"
                        "host replication all %s0/24 scram-sha-256\n" % (PREFIX, PREFIX))
            self.ask("SELECT pg_reload_conf()")

    def launch(self):
        if not self.clock:
            self.clock = FakeClock(os.path.join(self.folder, "clock"))
        with environment(**self.clock.env):
            super().launch()

    def argv(self):
        settings = {"max_wal_size": "256MB", "wal_keep_size": "512MB", "wal_sender_timeout": "10s",
                    "wal_receiver_timeout": "10s", "wal_retrieve_retry_interval": "200ms"}
        if self.net.is_real:
            settings["listen_addresses"] = "*"
        if self.primary:
            settings["primary_conninfo"] = "host=%s port=%d user=postgres password=%s" % (
                self.primary.machine.address, self.primary.port, PASSWORD)
        return super().argv() + [x for key, value in settings.items()
                                 for x in ("-c", "%s=%s" % (key, value))]


class PlacedPair:
    def __init__(self, net):
        self.primary = PlacedPostgres("primary", net)
        self.primary.ask("ALTER ROLE postgres PASSWORD '%s'" % PASSWORD)
        self.standby = PlacedPostgres("standby", net, copy_of=self.primary)
        self.primary.set(synchronous_standby_names="ANY 1 (*)")
        until(self.is_in_step, 180, "the standby")

    def is_in_step(self):
        try:
            return self.primary.ask("SELECT count(*) FROM pg_stat_replication WHERE "
                                    "sync_state = 'quorum' AND state = 'streaming'") == [["1"]]
        except RuntimeError:
            return False


class PlacedGaleraNode(Placed, GaleraNode):
    def __init__(self, name, cluster):
        with self.place(name, cluster.net):
            super().__init__(name, cluster)

    def argv(self):
        """What is on loopback is on the machines' addresses."""
        words = [w for w in super().argv() if not w.startswith("--wsrep-cluster-address")]
        words = [w.replace("--bind-address=127.0.0.1", "--bind-address=0.0.0.0")
                 .replace("127.0.0.1", self.machine.address) for w in words]
        return words + ["--wsrep-cluster-address=gcomm://" + ",".join(
            "%s:%d" % (self.net.machine(name).address, p[0])
            for name, p in self.cluster.ports.items())]


class PlacedGalera(Galera):
    Node = PlacedGaleraNode

    def __init__(self, net):
        self.net = net
        for name in self.NAMES:  # each has to know where the others will be
            net.machine(name)
        super().__init__()
