#!/usr/bin/python3
# weir-test: timeout=180 bin=release
"""weir wordpress, weir mutex --wordpress and weir top of a site in a real MariaDB."""
import os
import re
import sys
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from lib_guarded import PAYMENT, STORM, SYNC, Guarded  # noqa: E402
from harness import equal, expect, main, test  # noqa: E402


def has(text, *parts):
    for part in parts:
        expect(re.search(part, text), "%r is not in:\n%s" % (part, text))


@test("status, actions and why tell of moved actions, and where they were before")
def moved(folder):
    g = Guarded(folder)
    now = int(time.time())
    sync = [g.site.add_simple(SYNC, now - 60, group="sync") for _ in range(3)]
    payment = g.site.add_async(PAYMENT)
    g.set_load(STORM)
    g.wait(lambda s: s["moved"] == 3 and s["due"] == 1, "the syncs are moved")
    has(g.weir("wordpress", "status"), r"SITE +MODE +LEVEL +DUE +MOVED +RUNNING +FAILED +OLDEST",
        r"shop +enforce +critical +1 +3 +0 +0 ")
    text = g.weir("wordpress", "status", "shop")
    has(text, r"^site shop: mode enforce, level critical\n", r"because +the load of shop is critical: load 30",
        r"server +MariaDB", r"store +schema 7", r"moved +3\n", r"so far +3 moved, 0 moved again, 0 given back, 1 put in front",
        r"deferrable +waits .* 0 +3 +0", SYNC + r" +deferrable +waits .* 0 +3 +0",
        r"critical +runs +1 +0 +0", r"REPAIR +MODE +FOUND +MENDED", r"lost +observe +0 +0",
        r"last moves\n *ID +HOOK", r"%d +%s +deferrable +critical" % (sync[0], SYNC))
    equal([h["hook"] for h in g.json("wordpress", "status", "shop")["hooks"]], [SYNC, PAYMENT], "hooks")
    rows = g.json("wordpress", "actions", "shop", "--status", "moved")["actions"]
    equal(sorted(r["id"] for r in rows), sync, "moved actions")
    equal({r["original_ms"] for r in rows}, {(now - 60) * 1000}, "original dates")
    has(g.weir("wordpress", "actions", "shop", "--hook", SYNC, "--limit", "2"),
        r"ID +HOOK +STATUS +TIER +SCHEDULED +ORIGINALLY", r"%d +%s +pending, moved +deferrable +in " % (sync[2], SYNC))
    pages = g.json("wordpress", "actions", "shop", "--limit", "1", "--all")["actions"]
    equal(len(pages), 4, "actions of all pages")
    has(g.weir("wordpress", "actions", "shop", "--status", "due"), r"%d +%s +pending " % (payment, PAYMENT))
    why = g.weir("wordpress", "why", "shop", str(sync[0]))
    has(why, r"^action %d %s: pending: weir moved it: the load of shop is critical" % (sync[0], SYNC),
        r"tier +deferrable", r"originally +\d{4}-.* ago\)", r"group +sync",
        r"WordPress +http://shop.example/wp-admin/.*" + SYNC,
        r"action created\n", r"weir: deferred")
    has(g.weir("wordpress", "why", "shop", str(payment)), r"it is due and waits for a runner")
    has(g.weir("wordpress", "why", "shop", "99999", code=4), "has no action 99999")
    g.server.stop()


@test("in observe mode it is told what would be moved; top has a line for the site")
def observed(folder):
    g = Guarded(folder, mode="observe", load=STORM)
    for _ in range(2):
        g.site.add_async(SYNC)
    g.wait(lambda s: s["would_move"] == 2, "the syncs would be moved")
    has(g.weir("wordpress", "status"), r"shop +observe +critical +2 +0 \(2 would\)")
    has(g.weir("wordpress", "status", "shop"), r"would move +2 with mode enforce")
    has(g.weir("top", "--once"), r"  shop +observe +critical +2 +0 \(2 would\)")
    equal([s["name"] for s in g.json("top")["sites"]], ["shop"], "sites of top")
    g.server.stop()


@test("what is wrong with the database of a site is told")
def away(folder):
    g = Guarded(folder)
    g.wait(lambda s: s["server"], "a survey")
    g.site.sql("RENAME TABLE wp_actionscheduler_actions TO away")
    error = g.wait(lambda s: s["error"], "an error")["error"]
    has(g.weir("wordpress", "status", "shop"), r"error +" + re.escape(error[:20]))
    has(g.weir("wordpress", "status"), r"shop .*" + re.escape(error[:4]))
    g.weir("wordpress", "actions", "shop", code=4)
    g.site.sql("RENAME TABLE away TO wp_actionscheduler_actions")
    g.wait(lambda s: not s["error"], "no error any more")
    g.server.stop()


@test("a lock of the site is taken, renewed, listed and given back")
def locks(folder):
    g = Guarded(folder)
    g.wait(lambda s: s["server"], "a survey")
    text = g.weir("mutex", "--wordpress", "shop", "acquire", "nightly", "--ttl", "10m")
    has(text, r"^acquired lock nightly\n +token +[0-9a-f]{32}\n +fence +\d+\n +expires +")
    token = re.search(r"[0-9a-f]{32}", text).group(0)
    has(row(g), token + r"\|nightly$")
    has(g.weir("mutex", "acquire", "nightly", "--wordpress=shop", code=1), "another holds lock nightly, until ")
    equal(g.json("mutex", "acquire", "nightly", "--wordpress", "shop", code=1)["acquired"], False, "acquired")
    has(g.weir("mutex", "acquire", "nightly", "--wordpress", "shop", "--lock-token", token), token)
    has(g.weir("mutex", "--wordpress", "shop", "list"), r"LOCK +FENCE +EXPIRES", r"nightly +\d+ +in ")
    equal([x["key"] for x in g.json("mutex", "list", "--wordpress", "shop")["locks"]], ["nightly"], "locks")
    has(g.weir("mutex", "--wordpress", "shop", "release", "nightly", "--lock-token", "0" * 32, code=5),
        "not held with this token")
    equal(g.weir("mutex", "--wordpress", "shop", "release", "nightly", "--lock-token", token),
          "released lock nightly\n", "release")
    has(g.weir("mutex", "--wordpress", "shop", "release", "nightly", "--force", code=4), "nobody holds lock")
    g.weir("mutex", "--wordpress", "shop", "acquire", "nightly")
    equal(g.json("mutex", "--wordpress", "shop", "release", "nightly", "--force"), {"released": True}, "forced")
    equal(g.json("mutex", "list", "--wordpress", "shop"), {"locks": []}, "locks")
    g.server.stop()


def row(g):
    return g.site.sql("SELECT option_value FROM wp_options WHERE option_name = CONCAT('weir_lock_',"
                      " MD5('nightly'))")[0][0]


if __name__ == "__main__":
    main()
