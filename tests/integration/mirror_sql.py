#!/usr/bin/python3
# weir-test: timeout=300
"""The mirror of a history in a PostgreSQL with a synchronous standby, and in a Galera cluster:
mirror_sql.c does it all, built here with the sanitizers."""
import functools
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "fault"))

from harness import ROOT, expect, main, test  # noqa: E402
from lib_clusters import Galera, PostgresPair  # noqa: E402

PASSWORD = "s3cret"


@functools.lru_cache(None)
def program():
    out = os.path.join(os.environ.get("TMPDIR", "/tmp"), "mirror_sql.%d" % os.getpid())
    build = os.environ.get("WEIR_BUILD", os.path.join(ROOT, "build", "asan"))
    libs = subprocess.run(["pkg-config", "--libs", "libmariadb", "libpq", "sqlite3", "liblz4", "openssl"],
                          text=True, check=True, stdout=subprocess.PIPE).stdout.split()
    done = subprocess.run(
        ["cc", "-std=gnu17", "-D_GNU_SOURCE", "-O1", "-g", "-fsanitize=address,undefined",
         "-fno-sanitize-recover=all", "-pthread", "-I", os.path.join(ROOT, "src"),
         os.path.join(ROOT, "tests", "integration", "mirror_sql.c"), os.path.join(build, "libweir.a"),
         *libs, "-lcmocka", "-lm", "-o", out],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    expect(done.returncode == 0, done.stdout[-3000:])
    return out


def check(*words):
    done = subprocess.run([program(), *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, errors="replace")
    expect(done.returncode == 0, done.stdout[-3000:])


@test("PostgreSQL keeps the history of two machines")
def postgres(folder):
    pair = PostgresPair()
    pair.primary.ask("CREATE ROLE weir LOGIN SUPERUSER PASSWORD '%s'" % PASSWORD)
    check("postgres", "weir", PASSWORD, "postgres", pair.primary.port, pair.primary.port)


@test("Galera keeps the history of two machines, each with a node of its own")
def galera(folder):
    nodes = Galera().nodes
    nodes[0].ask("CREATE USER weir@'%%' IDENTIFIED BY '%s'" % PASSWORD, "GRANT ALL ON *.* TO weir@'%'",
                 "CREATE DATABASE weir")
    check("mysql", "weir", PASSWORD, "weir", nodes[0].port, nodes[1].port)


main()
