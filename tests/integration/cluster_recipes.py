#!/usr/bin/python3
# weir-test: timeout=400 long outer=part
"""The tutorials that bring up three weirs on Patroni and on Galera do what they say: every command
is typed as it stands, by an ordinary user, with the real servers.

    tests/integration/cluster_recipes.py [word...]
"""
import os
import re
import sys

sys.dont_write_bytecode = True

from lib_pages import Reader, enter_namespaces, needs, read_page  # noqa: E402
from lib_cluster import write_secret  # noqa: E402
from harness import Skip, equal, main, test, weir  # noqa: E402

# Which weir leads after the first one was killed is not fixed, but one does and the other follows.
VARIES = (
    (r"weir2( +)leader( .*)\nweir3 +follower ", r"weir2\1follower\2\nweir3 leader "),
    (r"(leader|follower|gone)( +\S+ +\d+ +)\d+ +\d+", r"\1\2<epoch> <batch>"),
    (r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", "<uuid>"),
    # Which server of the database is which is not fixed either.
    (r"^127.0.0.1:543\d: made", "<server>: made"),
    (r"\b(Leader|Replica|Sync Standby)( +|\t)running.*", "<role> running"),
)


def follow(folder, name):
    with Reader(folder, VARIES, is_ordinary=True, patience=90) as reader:
        reader.follow(read_page("tutorials/%s.md" % name))


@test("three weirs on PostgreSQL with Patroni: the tutorial does what it says", outer=True)
def _(folder):
    needs("patroni", "etcd", "psql", "curl", "jq", "openssl")
    follow(folder, "cluster-patroni")


@test("three weirs on Galera: the tutorial does what it says", outer=True)
def _(folder):
    needs("mariadbd", "mariadb-install-db", "wsrep_sst_rsync", "curl", "openssl")
    if not os.path.exists("/usr/lib/galera/libgalera_smm.so"):
        raise Skip("galera-4 is not installed")
    follow(folder, "cluster-galera")


@test("the configurations for three machines are accepted")
def _(folder):
    needs("openssl")
    done = weir("tls", "self-signed", "--dir", os.path.join(folder, "tls"), "--name", "db1")
    equal(done.returncode, 0, done.stderr)
    for name in ("token", "cluster.password", "cluster.secret"):
        write_secret(os.path.join(folder, name), "0123456789abcdef" * 4)
    for page in ("cluster-patroni", "cluster-galera"):
        last = read_page("tutorials/%s.md" % page).split("\n## On three machines\n")[1]
        [text] = re.findall(r"^```\n(.*?)^```$", last, re.S | re.M)
        path = os.path.join(folder, page + ".conf")
        with open(path, "w", encoding="utf-8") as f:
            f.write('data = "%s/data"\n%s' % (folder, text.replace("/etc/weir", folder)))
        equal(weir("config", "check", path).stdout, path + " is fine\n", page)


if __name__ == "__main__":
    enter_namespaces()
    main()
