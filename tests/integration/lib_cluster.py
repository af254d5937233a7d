"""Machines of a cluster of weirs over one database, on loopback."""
import os
import time

from harness import (FULL, Closed, Resp, Server, Watch, WeirError, equal, expect, mapping, text, until,
                     weir)
from lib_databases import free_port

PASSWORD = "s3cret"
CONFIG = """
cluster {
        kind = "%(kind)s"
        hosts = {%(hosts)s}
        password_file = "%(folder)s/password"
        durability = "%(durability)s"
        node = "%(node)s"
        address = "%(host)s:%(port)d"
        secret_file = "%(folder)s/secret"
        priority = %(priority)d
        tls = "off"
}
"""


def write_secret(path, secret):
    with open(path, "w") as f:
        f.write(secret + "\n")
    os.chmod(path, 0o600)


class Node:
    """A weir whose address stays the same over restarts."""

    def __init__(self, cluster, name, priority=50):
        self.cluster, self.name, self.host, self.token = cluster, name, cluster.host_of(name), None
        self.folder = os.path.join(cluster.folder, name)
        self.port = free_port()
        os.makedirs(self.folder)
        write_secret(os.path.join(self.folder, "password"), PASSWORD)
        write_secret(os.path.join(self.folder, "secret"), "one secret of all machines")
        self.config = CONFIG % dict(
            kind=cluster.kind, hosts=", ".join('"%s"' % h for h in cluster.hosts),
            folder=self.folder, durability=cluster.durability, node=name, host=self.host,
            port=self.port, priority=priority) + cluster.more
        self.server = None

    def start(self):
        self.server = Server(self.folder, config=self.config, resp="127.0.0.1:%d" % self.port)
        return self

    def client(self, **options):
        c = Resp((self.host, self.port), **options)
        try:
            if self.token:
                c("AUTH", self.token)
        except BaseException:
            c.close()
            raise
        return c

    def state(self):
        """What CLUSTER tells; None: it does not answer."""
        try:
            with self.client() as c:
                return mapping(c("CLUSTER"))
        except (OSError, Closed, WeirError):
            return None

    def leads(self):
        state = self.state()
        return bool(state) and text(state["role"]) == "leader"

    def knows(self, other):
        """Whether it has heard that the other has all that it has itself."""
        state = self.state()
        members = {m["node"]: m for m in map(mapping, state["members"])}
        them = members.get(other.name.encode())
        return bool(them) and them["seq"] == state["seq"]


def until_told(condition, seconds, what):
    """until() for what is asked of a machine with a connection each time: not 200 times a second."""
    def ask():
        value = condition()
        if not value:
            time.sleep(0.03)
        return value
    return until(ask, seconds, what)


class Cluster:
    """kind and ports: of the database, whose tables are there.  A port stands for one on loopback;
    elsewhere it is "host:port".  sql: runs statements as its administrator."""

    def __init__(self, folder, kind, ports, durability="replicated", more="", sql=None):
        self.folder, self.kind, self.durability = folder, kind, durability
        self.hosts = [p if isinstance(p, str) else "127.0.0.1:%d" % p for p in ports]
        self.more, self.sql = more, sql
        self.nodes = []

    def host_of(self, _):
        return "127.0.0.1"

    def add(self, name, **options):
        node = Node(self, name, **options)
        self.nodes.append(node)
        return node

    def leader(self, seconds=90, other_than=None):
        """The one that leads, once there is one."""
        found = []

        def look():
            found[:] = [n for n in self.nodes if n.server and n is not other_than and n.leads()]
            return len(found) == 1
        until_told(look, seconds, "one leader")
        return found[0]

    def kill(self, node, frees=False):
        """frees: its lease is given back, as if it had handed it over.  Then the next machine leads at
        once; else, and in the long form, when the lease, of which there is no shorter one, is over."""
        node.server.kill()
        node.server = None
        if frees and not FULL:
            self.sql("UPDATE weir.weir_lease SET node = ''")

    def init(self, *options):
        node = self.nodes[0]
        path = os.path.join(node.folder, "weir.conf")
        with open(path, "w") as f:
            f.write(node.config)
        done = weir("cluster", "init", "-c", path, *options)
        expect(done.returncode == 0, done.stderr)
        return done.stdout


class Producer:
    """Adds jobs through any machine, again and again with the same key until one is acknowledged."""

    def __init__(self, cluster):
        self.cluster, self.acknowledged, self.n = cluster, {}, 0
        self.connection, self.at = None, 0

    def ask(self, *words, seconds=60):
        """The answer, whichever machine gives it and however often it takes."""
        watch = Watch()
        while True:
            try:
                if not self.connection:
                    live = [n for n in self.cluster.nodes if n.server]
                    self.at += 1
                    self.connection = live[self.at % len(live)].client()
                return self.connection(*words)
            except (OSError, Closed, WeirError) as e:
                if isinstance(e, WeirError) and e.name not in ("UNAVAIL", "STOPPING"):
                    raise
                self.connection = None
                expect(not watch.is_over(seconds), "not served again: %s" % e)
                time.sleep(0.02)

    def add(self, n=1):
        for _ in range(n):
            self.n += 1
            key = "k%d" % self.n
            self.acknowledged[self.ask("IDEMPOTENT", key, "ENQUEUE", "mail", key)] = key

    def check(self):
        """Every job that was acknowledged is there, once, with its payload."""
        equal(len(self.acknowledged), self.n, "jobs with an id of their own")
        for job, payload in self.acknowledged.items():
            equal(text(mapping(self.ask("JOB", job))["args"]), payload, "job %d" % job)
