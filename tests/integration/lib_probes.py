"""What the probes of every kind of database promise, and the words of their configuration."""
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from lib_databases import PASSWORD, Probe, Wire, free_port, probe_once  # noqa: E402
from harness import equal, expect, test  # noqa: E402


def metric(name, source=None):
    return 'metric "%s" { %s }\n' % (name, 'source = "%s"' % source if source else "")


class Kind:
    """A kind of target.  `main` is its metric without a word of metrics; `short` begins the names
    of its servers; primary() and replica() are two of them, started when they are needed; `sleep`
    is an expression that is 0 after so many seconds."""

    def __init__(self, name, main, short, primary, replica, sleep):
        self.name, self.main, self.short, self.sleep = name, main, short, sleep
        self.primary, self.replica = primary, replica

    def target(self, body="", port=None, user="weir", interval="100ms", timeout="1s"):
        return """target "shop" {
            kind = "%s" host = "127.0.0.1" port = %d user = "%s" password_file = "SECRET"
            interval = "%s" timeout = "%s"
            %s
        }""" % (self.name, port or self.primary().port, user, interval, timeout, body)

    def replicas(self, *ports):
        row = 'replica "%s%d" { host = "127.0.0.1" port = %d }\n'
        return "".join(row % (self.short, i, port) for i, port in enumerate(ports, 2))

    def add_tests(self):
        test("a network that is cut is an error within 3 s, and healing is seen")(self.cut)
        test("a query that hangs leaves a slower one its time")(self.slower)
        test("a wrong password and an unknown user are refused with a sentence and without the "
             "password")(self.login)

    def add_replica_tests(self):
        """To come last: a primary with a replica is never quite idle."""
        test("a replica that is gone is unknown or left out by rule, always named, never all of "
             "them")(self.gone)

    def cut(self, folder):
        wire = Wire(self.primary().port)
        with Probe(folder, self.target(port=wire.port, interval="200ms", timeout="800ms")) as p:
            p.value(self.main, lambda v: v == 0)
            wire.cut()
            p.error(self.main, "no answer within")
            p.error(self.main, "cannot connect to 127.0.0.1:%d: no answer" % wire.port, 6)
            wire.mend()
            p.value(self.main, lambda v: True, 20)
        wire.close()

    def slower(self, folder):
        body = (metric(self.main) + metric("hangs", "sql:SELECT %s" % self.sleep % 600)
                + metric("slower", "sql:SELECT 7 + %s" % self.sleep % 0.3))
        with Probe(folder, self.target(body, timeout="3s")) as p:
            p.error("hangs", "no answer within 3s", 60)
            for _ in range(3):
                p.value("slower", lambda v: v == 7, 60)
                p.value(self.main, lambda v: True, 60)
            p.error("hangs", "no answer within 3s", 60)

    def login(self, folder):
        code, got = probe_once(folder, self.target(user="nobody"))
        equal(code, 7, "exit code")
        expect("refuses this user or password" in got[self.main]["error"], got)
        config = self.target().replace('password_file = "SECRET"', 'password_env = "P"')
        code, got = probe_once(folder, config, env={"P": "not-it"})
        expect("refuses this user or password" in got[self.main]["error"], got)
        expect("not-it" not in str(got), "the password was printed")
        code, got = probe_once(folder, config, env={"P": PASSWORD})
        equal(code, 0, "exit code with the password from the environment")

    def gone(self, folder):
        gone = free_port()
        both = metric("replication_lag") + self.replicas(self.replica().port, gone)
        third = self.short + "3"
        code, got = probe_once(folder, self.target(both))
        expect("%s (127.0.0.1:%d)" % (third, gone) in got["replication_lag"]["error"], got)
        for rule in ('missing_replica = "ignore"\n', "ignore_replicas = 1\n"):
            code, got = probe_once(folder, self.target(rule + both))
            equal((code, got["replication_lag"]["value"]), (0, 0), "lag with " + rule)
            expect(third in got["replication_lag"]["note"], got)
        code, got = probe_once(folder, self.target(
            'missing_replica = "ignore"\n' + metric("replication_lag") + self.replicas(gone)))
        expect("no replica answers" in got["replication_lag"]["error"], got)
        code, got = probe_once(folder, self.target(
            metric("replication_lag") + self.replicas(self.primary().port)))
        expect("is not a replica" in got["replication_lag"]["error"], got)
