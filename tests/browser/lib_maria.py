#!/usr/bin/python3
"""A real MariaDB for tests of the page that are written in JavaScript.

Prints {"port"} when it is ready.  Then each line of the standard input is {"call", "args"}, a method
of Maria (lib_databases.py), and each answer a line: what ask() returned, null for the others.  Ends,
with its data, at the end of the input."""
import json
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "integration"))

from lib_databases import Maria  # noqa: E402


def tell(value):
    print(json.dumps(value), flush=True)


def main():
    maria = Maria("maria")
    tell({"port": maria.port})
    for line in sys.stdin:
        asked = json.loads(line)
        result = getattr(maria, asked["call"])(*asked.get("args", []))
        tell(result if asked["call"] == "ask" else None)


if __name__ == "__main__":
    main()
