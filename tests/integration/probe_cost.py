#!/usr/bin/python3
# weir-test: skip
"""What probing costs at its fastest, start and printing of every sample included.  A share of a core
can only be measured on an idle machine: tools/soak runs it."""
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from lib_databases import PASSWORD, Maria, Postgres, Probe  # noqa: E402
from harness import expect, main, test  # noqa: E402

SECONDS = 5
INTERVAL_S = 0.1


def measure(folder, kind, port, metrics):
    config = """target "t" { kind = "%s" port = %d user = "weir" password_file = "SECRET"
        interval = "100ms" %s }""" % (kind, port, "".join('metric "%s" { }\n' % m for m in metrics))
    p = Probe(folder, config)
    p.value(metrics[-1], lambda v: True)
    n = 9 * SECONDS  # what is measured is the cost of a sample: how fast they come is the machine's
    for _ in range(n):
        p.wait(metrics[-1], lambda s: True)
    percent = 100 * p.kill() / (n * INTERVAL_S)
    print("# %s: %.2f %% of a core for %d metrics, %d samples of each" % (
        kind, percent, len(metrics), n))
    expect(percent < 1, "%.2f %%" % percent)


@test("probing five metrics of a MariaDB at 100 ms costs less than 1 % of a core")
def _(folder):
    db = Maria("cost")
    db.ask("CREATE USER weir@'127.0.0.1' IDENTIFIED BY '%s'" % PASSWORD)
    measure(folder, "mysql", db.port, ["threads_running", "threads_connected_percent",
                                       "row_lock_waits", "history_list_length", "redo_percent"])
    db.kill()


@test("probing four metrics of a PostgreSQL at 100 ms costs less than 1 % of a core")
def _(folder):
    db = Postgres("cost")
    db.ask("CREATE ROLE weir LOGIN PASSWORD '%s'" % PASSWORD, "GRANT pg_monitor TO weir")
    measure(folder, "postgres", db.port, ["active_backends", "connections_percent", "lock_waits",
                                          "oldest_xmin_age_s"])
    db.kill()


main()
