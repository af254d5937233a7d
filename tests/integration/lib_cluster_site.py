"""A PostgreSQL with a synchronous standby that the tests of one file share, and clusters of weirs
over it that have never run before."""
import os

from harness import expect
from lib_cluster import PASSWORD, Cluster
from lib_clusters import PostgresPair

TABLES = ("weir_log", "weir_lease", "weir_member", "weir_history", "weir_fence")


class Site:
    """The database, which all tests share: its start is most of the time."""
    pair = None

    @classmethod
    def cluster(cls, folder, names="abc", **options):
        """Machines that have run never before."""
        if not cls.pair:
            cls.pair = PostgresPair()
            cls.pair.primary.ask("CREATE ROLE weir LOGIN PASSWORD '%s'" % PASSWORD,
                                 "ALTER ROLE postgres PASSWORD '%s'" % PASSWORD,
                                 "CREATE DATABASE weir")
        c = Cluster(folder, "postgres", [cls.pair.primary.port], sql=cls.sql, **options)
        for name in names:
            c.add(name)
        cls.init(c)
        for node in c.nodes:
            node.start()
        return c

    @classmethod
    def sql(cls, *statements):
        return cls.pair.primary.ask(*statements, database="weir")

    @classmethod
    def init(cls, c):
        told = c.init("--user", "postgres", "--password-file",
                      os.path.join(c.nodes[0].folder, "password"))
        grants = [line.strip() for line in told.splitlines() if line.strip().startswith("grant ")]
        expect(grants, told)
        cls.sql(*grants, *["DELETE FROM weir.%s" % t for t in TABLES])
        c.init("--user", "postgres", "--password-file",
               os.path.join(c.nodes[0].folder, "password"))
