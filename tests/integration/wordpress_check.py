#!/usr/bin/python3
# weir-test: timeout=180
"""`weir wordpress check` on a real MariaDB with Action Scheduler's tables: what it finds, what it
says is missing, that the statements it prints give what is missing, and that it changes nothing."""
import functools
import json
import os
import re
import sys
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import lib_actionscheduler as bed  # noqa: E402
from lib_databases import PASSWORD, write_config  # noqa: E402
from harness import equal, expect, main, test, weir  # noqa: E402

TARGET = """target "db" { kind = "mysql" host = "127.0.0.1" port = %d user = "weir"
        password_file = "SECRET" }
throttle { registry = {"shop_nightly=deferrable", "shop_pay=critical"} }
"""
SITE = """wordpress "%s" { host = "127.0.0.1" port = %d user = "%s" password_file = "SECRET"
        database = "%s" %s }
"""


@functools.lru_cache(None)
def maria():
    server = bed.server("check")
    for user in ("weir", "poor", "reader", "nobody"):
        server.ask("CREATE USER %s@'127.0.0.1' IDENTIFIED BY '%s'" % (user, PASSWORD))
    server.ask("GRANT ALL ON *.* TO weir@'127.0.0.1'")
    return server


def config(folder, *sites, secret=PASSWORD):
    """Sites are (name, user, database, settings)."""
    port = maria().port
    path = write_config(folder, TARGET % port + "".join(
        SITE % (name, port, user, database, more) for name, user, database, more in sites))
    if secret != PASSWORD:
        with open(os.path.join(folder, "password"), "w") as f:
            f.write(secret + "\n")
    return path


def run(path, *words):
    """(exit code, {site: {check: (verdict, text, fix)}})"""
    done = weir("wordpress", "check", "-c", path, "--json", *words)
    expect(PASSWORD not in done.stdout + done.stderr, "the password was printed")
    expect(done.stdout, "exit code %d: %s" % (done.returncode, done.stderr))
    answer = json.loads(done.stdout)
    equal(answer["ok"], done.returncode == 0, "ok")
    found = {}
    for site in answer["sites"]:
        checks = {}
        for c in site["checks"]:
            if c["name"] != "advice":
                expect(c["name"] not in checks, "%s is told twice" % c["name"])
            checks[c["name"]] = (c["verdict"], c["text"], c["fix"])
        found[site["name"]] = checks
        advice = [c["text"] for c in site["checks"] if c["name"] == "advice"]
        equal(advice, list(dict.fromkeys(advice)), "advice")
        equal(site["ok"], all(c["verdict"] != "bad" for c in site["checks"]), "ok of the site")
    return done.returncode, found


def one(path, *words):
    code, found = run(path, *words)
    equal(len(found), 1, "sites")
    return code, next(iter(found.values()))


@test("a site with all it needs: what is there, by tier, and what repairs would find")
def fine(folder):
    site = bed.Site(maria(), database="fine")
    now = int(time.time())
    for hook, n in (("shop_pay", 2), ("shop_nightly", 3), ("Shop_Pay", 1)):
        for i in range(n):
            site.add_simple(hook, now - 60, args=[hook, i])
    site.add_simple("shop_pay", now + 3600)
    lost = site.add_simple("shop_pay", now - 60, args=["lost"], status="failed")
    site.log(lost, "Unable to update the status of action %d to in-progress." % lost)
    hour_ago = bed.utc(now - 3600)
    site.sql("INSERT INTO %s (claim_id, date_created_gmt) VALUES (7, '%s'), (8, '%s')" % (
        site.table("claims"), hour_ago, hour_ago))  # 8 has no action
    site.add_simple("shop_pay", now - 60, args=["held"], claim_id=7, last_attempt_gmt=hour_ago)
    before = site.checksum()
    code, found = one(config(folder, ("shop", "weir", "fine", 'mode = "enforce"')))
    equal(code, 0, "exit code: %s" % found)
    expect(found["server"][1].startswith("MariaDB "), found["server"])
    equal(found["store"][:2], ("ok", "Action Scheduler's tables, schema 7.0"), "store")
    # Hooks are compared as PHP compares them: Shop_Pay is another one, which nothing is known of.
    equal(found["due"][1], "critical 2, high 0, normal 1, deferrable 3", "due by tier")
    equal(found["privileges"][0], "ok", found["privileges"])
    expect('load of target "db"' in found["mode"][1], found["mode"])
    equal(found["lost"][:2],
          ("warn", "1 failed by a deadlock before they ran; repair_lost is observe"), "lost")
    equal(found["claims"][:2],
          ("warn", "1 held by a runner that is gone; repair_claims is observe"), "claims")
    equal(found["claim_rows"][:2],
          ("warn", "1 old claims without actions; repair_claim_rows is observe"), "claim rows")
    equal(found["actions"][1], "0 running, 1 claimed, 1 failed", "actions")
    equal((found["past_due"][0], found["duplicates"][0]), ("ok", "ok"), "only reported ones")
    equal(site.checksum(), before, "checksum of the tables")


@test("the text says the same, names the sites, and ends with what there is to do")
def as_text(folder):
    site = bed.Site(maria(), database="text", prefix="t_")
    path = config(folder, ("a", "weir", "text", 'prefix = "t_"'),
                  ("b", "weir", "text", 'prefix = "none_" mode = "off"'))
    done = weir("wordpress", "check", "-c", path)
    equal((done.returncode, done.stderr), (0, ""), "exit code: " + done.stdout)
    lines = done.stdout.splitlines()
    equal(lines[0], "a: 127.0.0.1:%d, database text, prefix t_" % maria().port, "first line")
    expect(any(re.match(r"  ok    mode +observe: weir reads", line) for line in lines), done.stdout)
    expect(any("b: 127.0.0.1" in line for line in lines), done.stdout)
    expect(any(re.match(r"  warn  database +.*none_actionscheduler_actions", line)
               for line in lines), done.stdout)  # it is off, and needs nothing
    expect(re.match(r"0 to fix, \d+ to think about$", lines[-1]), lines[-1])
    _, found = run(path, "a")
    equal(list(found), ["a"], "the site that was named")
    site.close()


@test("what is wrong on the command line or in the file is said")
def wrong_words(folder):
    path = config(folder, ("shop", "weir", "fine", ""))
    for words, code, told in (
            (("-c", path, "shpo"), 4, "has no wordpress section 'shpo'"),
            ((), 2, "Say -c FILE"),
            (("-c", path, "a", "b"), 2, "unexpected argument 'b'"),
            (("-c", path + ".gone"), 1, "weir.conf.gone")):
        done = weir("wordpress", "check", *words)
        expect(told in done.stderr, "%s: %s" % (words, done.stderr))
        equal(done.returncode, code, "exit code of %s" % (words,))
    done = weir("wordpress", "check", "-c", config(folder))
    equal(done.returncode, 4, "exit code without a site")
    expect("has no wordpress section\n" in done.stderr, done.stderr)
    done = weir("wordpress", "check", "--help")
    expect(done.returncode == 0 and "usage: weir wordpress check -c FILE" in done.stdout,
           done.stdout)


@test("a wrong password is told, without the password")
def wrong_password(folder):
    path = config(folder, ("shop", "weir", "fine", ""), secret="wrong-" + "x" * 10)
    code, found = one(path)
    equal(code, 1, "exit code")
    equal(found["database"][0], "bad", found["database"])
    expect("weir" in found["database"][1] and "wrong-" not in str(found), found["database"])
    expect("due" not in found and "privileges" not in found, str(found))


@test("a missing table is named, with the prefixes there are")
def missing_table(folder):
    bed.Site(maria(), database="multi", prefix="wp_2_").close()
    bed.Site(maria(), database="multi", prefix="shop_").close()
    code, found = one(config(folder, ("shop", "weir", "multi", "")))
    equal(code, 1, "exit code")
    verdict, text, _ = found["database"]
    equal(verdict, "bad", text)
    for word in ("wp_actionscheduler_actions", "'wp_2_'", "'shop_'", "multi"):
        expect(word in text, "%s is not in: %s" % (word, text))


@test("a wrong prefix is told as such, also to a user that may only read the tables of another one")
def wrong_prefix(folder):
    site = bed.Site(maria(), database="prefixes", prefix="wp_3_")
    with maria().connect() as root:
        root("CREATE OR REPLACE USER narrow@'127.0.0.1' IDENTIFIED BY '%s'" % PASSWORD)
        for table in site.tables():
            root("GRANT SELECT ON prefixes.%s TO narrow@'127.0.0.1'" % table)
    code, found = one(config(folder, ("shop", "narrow", "prefixes", "")))
    equal((code, found["database"][0]), (1, "bad"), str(found))
    for words in ("is the prefix wp_ wrong?", "'wp_3_'", "GRANT SELECT ON `prefixes`.`wp_actionscheduler_actions`"):
        expect(words in found["database"][1], "%s is not in: %s" % (words, found["database"][1]))
    code, found = one(config(folder, ("shop", "narrow", "prefixes", 'prefix = "wp_3_"')))
    equal((code, found["privileges"][0]), (0, "ok"), str(found))
    site.close()


@test("advice is told once, however often repairs look")
def advice_once(folder):
    site = bed.Site(maria(), "4.1 upgraded", database="advised", is_migrated=False)
    code, found = one(config(folder, ("shop", "weir", "advised", "")))
    equal((code, found["advice"][0]), (0, "warn"), str(found))
    site.close()


@test("a missing privilege comes with the GRANT that gives it")
def missing_privilege(folder):
    site = bed.Site(maria(), database="rights")
    root = maria().connect()
    for table in site.tables():
        root("GRANT SELECT ON rights.%s TO reader@'127.0.0.1'" % table)
    path = config(folder, ("shop", "reader", "rights", 'mode = "observe"'))
    code, found = one(path)
    equal((code, found["privileges"][0]), (0, "ok"), "observe with SELECT: %s" % found)

    path = config(folder, ("shop", "reader", "rights", 'mode = "enforce"'))
    code, found = one(path)
    equal((code, found["privileges"][0]), (1, "bad"), "enforce with SELECT: %s" % found)
    expect("due" in found, "nothing is told of the site: %s" % found)
    expect("database" not in found, "the same is told twice: %s" % found)
    grants = found["privileges"][2].splitlines()
    expect(grants and all(re.match(r"GRANT .* TO 'reader'@'127\.0\.0\.1';$", g) for g in grants),
           grants)
    for grant in grants:
        root(grant.rstrip(";"))
    code, found = one(path)
    equal((code, found["privileges"][0]), (0, "ok"), "after the GRANTs: %s" % found)
    root.close()


@test("a privilege that only an unused repair needs is no fault; in enforce it is")
def unused_privilege(folder):
    site = bed.Site(maria(), database="unused")
    root = maria().connect()
    path = config(folder, ("shop", "poor", "unused", 'mode = "enforce"'))
    for table in site.tables():
        root("GRANT SELECT, INSERT, UPDATE ON unused.%s TO poor@'127.0.0.1'" % table)
    code, found = one(path)
    equal((code, found["privileges"][0]), (0, "warn"), "without DELETE: %s" % found)
    for repair in ("repair_claim_rows", "repair_retention"):
        path = config(folder, ("shop", "poor", "unused", 'mode = "enforce" %s = "enforce"' % repair))
        code, found = one(path)
        equal((code, found["privileges"][0]), (1, "bad"), "with %s: %s" % (repair, found))
    root.close()


@test("a user that is not let into the database gets every GRANT")
def not_let_in(folder):
    bed.Site(maria(), database="closed").close()
    path = config(folder, ("shop", "nobody", "closed", 'mode = "enforce"'))
    code, found = one(path)
    equal((code, found["privileges"][0]), (1, "bad"), str(found))
    with maria().connect() as root:
        for grant in found["privileges"][2].splitlines():
            root(grant.rstrip(";"))
    code, found = one(path)
    equal((code, found["privileges"][0]), (0, "ok"), "after the GRANTs: %s" % found)


@test("a store that is not migrated yet is told, and works")
def not_migrated(folder):
    site = bed.Site(maria(), database="hybrid", is_migrated=False)
    site.add_async("shop_pay")
    code, found = one(config(folder, ("shop", "weir", "hybrid", 'mode = "enforce"')))
    equal(code, 0, "exit code: %s" % found)
    verdict, text, _ = found["store"]
    equal(verdict, "warn", text)
    for word in ("not migrated yet", "scheduled-action", "action_scheduler/migration_hook"):
        expect(word in text, text)
    equal(found["due"][1], "critical 1, high 0, normal 0, deferrable 0", "due")


@test("every store version is recognised")
def versions(folder):
    sites, schemas = [], []
    for i, version in enumerate(bed.VERSIONS):
        site = bed.Site(maria(), version, database="versions", prefix="v%d_" % i)
        path = config(folder, ("v%d" % i, "weir", "versions", 'prefix = "v%d_"' % i))
        if not site.has_due_index():
            code, found = one(path)
            equal((code, found["database"][0]), (1, "bad"), version)
            site.sql(found["database"][1].split("run: ")[1])
        sites.append(("v%d" % i, "weir", "versions", 'prefix = "v%d_"' % i))
        schemas.append("Action Scheduler's tables, schema %d.0" % site.schema)
        site.close()
    code, found = run(config(folder, *sites))
    equal(code, 0, "exit code: %s" % found)
    equal([found[name]["store"][1] for name, _, _, _ in sites], schemas, "schemas")


main()
