#!/usr/bin/python3
# weir-test: timeout=240
"""One section for a whole network of WordPress blogs, on a real MariaDB: its blogs are found and guarded,
each in its own tables."""
import json
import os
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import lib_network  # noqa: E402
from lib_databases import PASSWORD  # noqa: E402
from lib_guard import CALM, STORM, Bed, fill, maria  # noqa: E402
from harness import HANG_S, WEIR, equal, expect, main, test, until  # noqa: E402

MOVED = 6       # of fill(site, 2): the payments stay


class Network(Bed):
    def __init__(self, folder, **options):
        super().__init__(folder, network="true", **options)
        lib_network.begin(self.site)

    def sites(self):
        """{name: its row}"""
        with self.server.web() as w:
            return {s["name"]: s for s in w.good("GET", "/v1/sites")["sites"]}

    def wait_sites(self, condition, what):
        return until(lambda: (lambda s: s if condition(s) else None)(self.sites()), HANG_S, what)

    def names(self, *names):
        return self.wait_sites(lambda s: list(s) == list(names), "the sites are " + " ".join(names))

    def wait_moved(self, **moved):
        """How many of each blog: shop=6, shop_2=6."""
        want = {name.replace("_", "."): n for name, n in moved.items()}
        return self.wait_sites(lambda s: {n: s[n]["moved"] for n in want if n in s} == want, "moved %s" % want)

    def set_mode(self, name, mode):
        with self.server.web() as w:
            w.good("POST", "/v1/settings/site.%s.mode" % name, {"value": mode})

    def advice(self):
        return "\n".join(self.state()["advice"])


def dates(site):
    return {int(row[0]): row[1:] for row in site.sql(
        "SELECT action_id, scheduled_date_gmt, scheduled_date_local FROM " + site.table("actions"))}


@test("each blog with Action Scheduler is guarded in its own tables, also one that is added later")
def guards_all(folder):
    b = Network(folder)
    two, archived = lib_network.add_blog(b.site, 2), lib_network.add_blog(b.site, 4, archived=1)
    lib_network.add_row(b.site, 3)      # it has no Action Scheduler
    for site in (b.site, two, archived):
        fill(site, 2)
    before, closed = {s: dates(s) for s in (b.site, two)}, archived.checksum()
    b.set_load(STORM)
    b.start()
    rows = b.wait_moved(shop=MOVED, shop_2=MOVED)
    equal(list(rows), ["shop", "shop.2"], "sites")
    equal(rows["shop.2"]["url"], "http://shop.example/2/wp-admin/", "address")
    equal(b.state()["advice"], [], "advice")
    later = lib_network.add_blog(b.site, 12)
    fill(later, 2)
    before[later] = dates(later)
    b.wait_moved(shop=MOVED, shop_2=MOVED, shop_12=MOVED)
    for site, was in before.items():
        equal(sum(dates(site)[a] != was[a] for a in was), MOVED, "moved of " + site.prefix)
    b.set_load(CALM)
    b.wait_moved(shop=0, shop_2=0, shop_12=0)
    for site, was in before.items():
        equal(dates(site), was, "dates of " + site.prefix)
    equal(archived.checksum(), closed, "checksum of the archived blog")
    b.server.stop()


@test("a blog that is archived gets its actions back, in the storm, and is gone")
def archived_later(folder):
    b = Network(folder)
    two, three = lib_network.add_blog(b.site, 2), lib_network.add_blog(b.site, 3)
    for site in (two, three):
        fill(site, 2)
    before = dates(two), dates(three)
    b.set_load(STORM)
    b.start()
    b.wait_moved(shop=0, shop_2=MOVED, shop_3=MOVED)
    b.site.sql("UPDATE wp_blogs SET archived = 1 WHERE blog_id = 2")
    b.names("shop", "shop.3")
    equal(dates(two), before[0], "dates of the archived one")
    b.site.sql("DELETE FROM wp_blogs WHERE blog_id = 3")
    b.names("shop")
    equal(dates(three), before[1], "dates of the one whose row is gone")
    b.site.sql("UPDATE wp_blogs SET archived = 0 WHERE blog_id = 2")
    b.wait_moved(shop_2=MOVED)
    b.server.stop()


@test("the mode that is set for the network is that of all blogs, unless one has its own")
def modes(folder):
    b = Network(folder)
    fill(lib_network.add_blog(b.site, 2), 2)
    fill(lib_network.add_blog(b.site, 3), 2)
    b.set_load(STORM)
    b.start()
    b.wait_moved(shop_2=MOVED, shop_3=MOVED)
    b.set_mode("shop", "observe")
    b.set_mode("shop.3", "test_observe")
    equal({n: s["mode"] for n, s in b.sites().items()},
          {"shop": "observe", "shop.2": "observe", "shop.3": "test_observe"}, "modes")
    b.server.stop()


@test("a main blog without Action Scheduler is no trouble, and a reload changes all blogs")
def empty_main(folder):
    b = Network(folder)
    b.site.sql("DROP TABLE " + ", ".join(t for t in b.site.tables() if "actionscheduler" in t))
    two = lib_network.add_blog(b.site, 2)
    fill(two, 2)
    b.set_load(STORM)
    b.start()
    rows = b.wait_moved(shop_2=MOVED)
    main_row = b.wait(lambda s: s["surveyed_ms"], "the main blog is surveyed")
    equal((main_row["error"], main_row["store"], rows["shop.2"]["error"]),
          ("", "no tables of Action Scheduler", ""), "the main blog")
    path = os.path.join(folder, "weir.conf")
    with open(path, encoding="utf-8") as f:
        text = f.read()
    for was, now, names in (('mode = "enforce"', 'mode = "observe"', ("shop", "shop.2")),
                            ("network = true", "network = false", ("shop",)),
                            ("network = false", "network = true", ("shop", "shop.2"))):
        text = text.replace(was, now)
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)
        with b.server.web() as w:
            w.good("POST", "/v1/config/reload")
        rows = b.names(*names)
        equal({r["mode"] for r in rows.values()}, {"observe"}, "modes")
    b.server.stop()


@test("a missing privilege is named with its GRANT, by the server and by the check")
def privileges(folder):
    b = Network(folder)
    two, _three = lib_network.add_blog(b.site, 2), lib_network.add_blog(b.site, 3)
    fill(two, 2)
    b.user = "poor"
    ask = maria().ask
    ask("CREATE USER poor@localhost IDENTIFIED BY '%s'" % PASSWORD)
    def give(site):
        for table in site.tables():
            ask("GRANT SELECT, INSERT, UPDATE, DELETE ON `%s`.%s TO poor@localhost" % (b.site.database, table))
    give(b.site)
    b.set_load(STORM)
    b.start()
    grant = "GRANT SELECT ON `%s`.`%%s` TO 'poor'@'localhost'" % b.site.database
    for missing, then in (("wp_blogs", ("shop",)), ("wp_2_actionscheduler_actions", None),
                          ("wp_3_actionscheduler_actions", None)):
        until(lambda missing=missing: grant % missing in b.advice(), HANG_S, b.advice)
        if missing == "wp_blogs":
            code, said = check(folder)
            expect(code == 1 and grant % missing in said, said)
            equal(tuple(b.sites()), then, "sites")
        ask(grant % missing)
        if missing.startswith("wp_2_"):
            b.wait_sites(lambda s: "is missing" in s.get("shop.2", {"error": ""})["error"], "privileges of blog 2")
            code, said = check(folder)
            expect(code == 1 and "shop.2: " in said and grant % "wp_2_options" in said.replace(", INSERT, UPDATE", ""),
                   said)
            give(two)
            b.wait_moved(shop_2=MOVED)
    until(lambda: b.advice() == "", HANG_S, b.advice)
    b.site.sql("DROP TABLE wp_blogs")
    until(lambda: "There is no table wp_blogs" in b.advice(), HANG_S, b.advice)
    equal(list(b.sites()), ["shop", "shop.2", "shop.3"], "what was found stays")
    b.server.stop()


def check(folder, *words):
    done = subprocess.run([WEIR, "wordpress", "check", "-c", os.path.join(folder, "weir.conf"), *words],
                          text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=HANG_S)
    return done.returncode, done.stdout


@test("the check looks at all blogs that are found, or at the one that is named")
def checks(folder):
    b = Network(folder)
    for blog in (2, 7):
        lib_network.add_blog(b.site, blog)
    lib_network.add_blog(b.site, 8, spam=1)
    b.start()
    b.server.stop()
    code, said = check(folder, "--json")
    equal((code, [s["name"] for s in json.loads(said)["sites"]]), (0, ["shop", "shop.2", "shop.7"]), "sites")
    code, said = check(folder, "shop.7")
    expect(code == 0 and "prefix wp_7_" in said and "shop.2" not in said, said)
    code, said = check(folder, "shop.8")
    expect(code == 4 and "shop.8" in said, said)


if __name__ == "__main__":
    main()
