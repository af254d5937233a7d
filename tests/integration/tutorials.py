#!/usr/bin/python3
# weir-test: timeout=240
"""The tutorials in docs/tutorials do what they say: every command is typed as it stands, in order,
in one shell, and prints what the page shows.

    tests/integration/tutorials.py [word...]
"""
import sys

sys.dont_write_bytecode = True

from lib_pages import Reader, enter_namespaces, needs, read_page  # noqa: E402
from harness import main, test  # noqa: E402


def follow(folder, name):
    with Reader(folder) as reader:
        reader.follow(read_page("tutorials/%s.md" % name))


@test("a web application's jobs: the tutorial does what it says")
def web_jobs(folder):
    needs("curl", "jq", "redis-cli")
    follow(folder, "web-jobs")


@test("cron replaced: the tutorial does what it says")
def cron(folder):
    needs("curl")
    follow(folder, "cron")


@test("a migration that asks: the tutorial does what it says")
def migration(folder):
    needs("mariadbd", "mariadb", "curl")
    follow(folder, "migration")


@test("a shop under load: the tutorial does what it says")
def shop(folder):
    follow(folder, "shop-under-load")


if __name__ == "__main__":
    enter_namespaces()
    main()
