#!/usr/bin/python3
"""WordPress sites in a real MariaDB, for tests of the page that are written in JavaScript.

Prints {"port", "user"} when it is ready.  Then each line of the standard input is {"call": "new"},
which makes a site in a database of its own and is answered with {"database"}, or {"call", "args",
"named"}, a method of the newest Site (lib_actionscheduler.py), answered with what it returned.  Ends,
with its databases, at the end of the input."""
import json
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
for folder in ("fault", "integration"):
    sys.path.insert(0, os.path.join(HERE, "..", folder))

from lib_actionscheduler import Site, server  # noqa: E402

USER = "weir"


def new_site(maria, number):
    site = Site(maria, database="wordpress%d" % number)
    maria.ask("GRANT ALL ON `%s`.* TO %s@'127.0.0.1'" % (site.database, USER))
    return site


def tell(value):
    print(json.dumps(value), flush=True)


def main():
    maria = server("wordpress", "--innodb-buffer-pool-size=64M", "--innodb-log-file-size=16M")
    maria.ask("CREATE USER %s@'127.0.0.1'" % USER)
    tell({"port": maria.port, "user": USER})
    sites = []
    for line in sys.stdin:
        asked = json.loads(line)
        if asked["call"] == "new":
            sites.append(new_site(maria, len(sites)))
            tell({"database": sites[-1].database})
        else:
            method = getattr(sites[-1], asked["call"])
            tell(method(*asked.get("args", []), **asked.get("named", {})))


if __name__ == "__main__":
    main()
