#!/usr/bin/python3
"""A WordPress site in a real MariaDB, for tests of the page that are written in JavaScript.

Prints {"port", "user", "database"} when it is ready.  Then each line of the standard input is
{"call", "args", "named"}, a method of the Site (lib_actionscheduler.py), and each answer a line with
what it returned.  Ends, with its database, at the end of the input."""
import json
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
for folder in ("fault", "integration"):
    sys.path.insert(0, os.path.join(HERE, "..", folder))

from lib_actionscheduler import Site, server  # noqa: E402

USER = "weir"


def answer(site, line):
    asked = json.loads(line)
    method = getattr(site, asked["call"])
    return method(*asked.get("args", []), **asked.get("named", {}))


def tell(value):
    print(json.dumps(value), flush=True)


def main():
    maria = server("wordpress", "--innodb-buffer-pool-size=64M", "--innodb-log-file-size=16M")
    site = Site(maria)
    maria.ask("CREATE USER %s@'127.0.0.1'" % USER,
              "GRANT ALL ON `%s`.* TO %s@'127.0.0.1'" % (site.database, USER))
    tell({"port": maria.port, "user": USER, "database": site.database})
    for line in sys.stdin:
        tell(answer(site, line))


if __name__ == "__main__":
    main()
