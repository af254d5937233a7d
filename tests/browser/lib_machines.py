#!/usr/bin/python3
"""A real cluster of two weirs for tests of the page that are written in JavaScript.

Prints {"leader", "follower"}, each {"node", "url"}, when the leader knows that the other is in step.
Then each line of the standard input is answered with the name of the one that leads.  Ends, with its
data, at the end of the input."""
import json
import os
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "integration"), os.path.join(HERE, "..", "fault")]

from harness import Server, until  # noqa: E402
from lib_cluster import PASSWORD, Cluster  # noqa: E402
from lib_clusters import SafePostgres  # noqa: E402


def tell(value):
    print(json.dumps(value), flush=True)


def start(folder):
    database = SafePostgres("log")
    database.ask("CREATE ROLE weir LOGIN PASSWORD '%s'" % PASSWORD,
                 "ALTER ROLE postgres PASSWORD '%s'" % PASSWORD, "CREATE DATABASE weir")
    cluster = Cluster(folder, "postgres", [database.port], durability="single")
    for name in "ab":
        cluster.add(name)
    printed = cluster.init("--user", "postgres", "--password-file",
                           os.path.join(cluster.nodes[0].folder, "password"))
    database.ask(*[line.strip() for line in printed.splitlines()
                   if line.strip().startswith("grant ")], database="weir")
    for node in cluster.nodes:
        node.start()
    return cluster


def main():
    with tempfile.TemporaryDirectory() as folder:
        try:
            cluster = start(folder)
            leader = cluster.leader()
            follower = next(n for n in cluster.nodes if n is not leader)
            until(lambda: leader.knows(follower), 60, "a member that is in step")
            tell({key: {"node": n.name, "url": "http://%s:%d" % n.server.http}
                  for key, n in (("leader", leader), ("follower", follower))})
            for _ in sys.stdin:
                tell(cluster.leader().name)
        finally:
            for server in list(Server.alive):
                server.kill()


if __name__ == "__main__":
    main()
