#!/usr/bin/python3
# weir-test: timeout=300 long
"""Two weirs over a Galera cluster of three: the leader dies, and so does its database server."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "fault"))

from harness import claim, equal, expect, main, mapping, test, text, until  # noqa: E402
from lib_cluster import PASSWORD, Cluster, Producer  # noqa: E402
from lib_clusters import Galera  # noqa: E402


def begin(folder, galera):
    galera.nodes[0].ask("CREATE USER weir@'%%' IDENTIFIED BY '%s'" % PASSWORD,
                        "CREATE USER boss@'%%' IDENTIFIED BY '%s'" % PASSWORD,
                        "GRANT ALL ON *.* TO boss@'%' WITH GRANT OPTION")
    c = Cluster(folder, "mysql", [n.port for n in galera.nodes])
    for name in "ab":
        c.add(name)
    told = c.init("--user", "boss", "--password-file", os.path.join(c.nodes[0].folder, "password"))
    grants = [line.strip() for line in told.splitlines() if line.strip().startswith("grant ")]
    expect(grants, told)
    galera.nodes[0].ask(*grants)
    for node in c.nodes:
        node.start()
    return c


@test("over Galera a leader that is killed is replaced, a server of the database too")
def _(folder):
    galera = Galera()
    c = begin(folder, galera)
    first = c.leader()
    p = Producer(c)
    p.add(20)
    for _ in range(5):
        [g] = claim(p.connection)
        p.ask("COMPLETE", g["id"], g["token"], "done")
    first.server.kill()
    first.server = None
    p.add(20)
    counts = mapping(p.ask("JOBCOUNTS"))
    equal((counts["pending"], counts["complete"]), (35, 5), "jobs")
    second = c.leader()
    first.start()
    until(lambda: text((first.state() or {}).get("leader")) == second.name, 60, "first follows")
    galera.nodes[0].halt()  # which both write to, as the first of the hosts
    p.connection = None
    p.add(20)
    p.check()


main()
