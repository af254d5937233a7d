#!/usr/bin/python3
# weir-test: timeout=300 long outer=part
"""weir's must-use plugin in Debian's WordPress: locks that are rows of wp_options, with and without
weir in front of them, the breaker, WP-CLI's commands, and what the plugin costs a request.

In the outer ring 40 processes compete for a lock; with --full as many as a large shop has (see
`make soak`)."""
import functools
import glob
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
import zipfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from lib_databases import free_port  # noqa: E402
from lib_tls import Authority, Front  # noqa: E402
from lib_wordpress import PLUGIN, Site, maria  # noqa: E402
from harness import FULL, HANG_S, Server, equal, expect, main, test, until, weir  # noqa: E402


@functools.lru_cache(None)
def database():
    return maria()


@functools.lru_cache(None)
def lonely():
    """A site whose weir does not exist."""
    return Site(database(), weir_url="http://127.0.0.1:%d" % free_port())


@functools.lru_cache(None)
def attached():
    """A site whose weir is named by each test."""
    return Site(database())


@functools.lru_cache(None)
def scheduled():
    """A site with Action Scheduler's tables."""
    site = Site(database())
    site.create_action_scheduler()
    return site


def url(server):
    return "http://%s:%d" % server.http


def said(site, code, **options):
    """What the code gives to say()."""
    code = "function say(...$x) { echo json_encode($x), \"\\n\"; }\n" + code
    lines = [json.loads(x) for x in site.php(code, **options).splitlines() if x.startswith("[")]
    return lines[0] if len(lines) == 1 else lines


def row(site, key="k"):
    got = site.sql("SELECT option_value, autoload FROM wp_options WHERE option_name = "
                   "CONCAT('weir_lock_', MD5('%s'))" % key)
    return got[0] if got else None


def set_row(site, value, key="k"):
    site.sql("REPLACE INTO wp_options (option_name, option_value, autoload) VALUES "
             "(CONCAT('weir_lock_', MD5('%s')), %s, 'no')" % (key, value))


def hold(site, key="k", seconds=600, token="a" * 32):
    set_row(site, "CONCAT('7|', UNIX_TIMESTAMP() + %d, '|%s|%s')" % (seconds, token, key), key)
    return token


class Gated:
    """The site with Action Scheduler's tables, which have an action far ahead of each of `hooks` and
    no other, and a weir whose level is that of a number in a file."""

    def __init__(self, folder, mode="enforce", hooks=(), more="", load=20):
        self.site, self.folder = scheduled(), folder
        self.site.sql(*("DELETE FROM wp_actionscheduler_" + x for x in ("actions", "logs", "claims")),
                      "DELETE FROM wp_options WHERE option_name LIKE 'weir_lock_%'",
                      "UPDATE wp_options SET option_value = '' WHERE option_name = 'timezone_string'")
        for hook in hooks:
            self.site.add_action(hook, "UTC_TIMESTAMP() + INTERVAL 9 DAY", claim_id="0")
        self.load(load)
        self.config = """
            target "shop" {
                kind = "command" command = {"cat", "%s/load"} interval = "100ms" dwell = "200ms"
                metric "threads" { elevated = {5, 3} critical = {15, 10} }
            }
            wordpress "shop" {
                port = %d user = "root" database = "%s" target = "shop" mode = "%s" interval = "1h"
                %s
            }""" % (folder, database().port, self.site.name, mode, more)
        self.server = Server(folder, config=self.config)
        self.level("critical" if load > 1 else "normal")
        with self.server.web() as w:
            until(lambda: w.good("GET", "/v1/sites/shop")["surveyed_ms"], what="a survey")

    def load(self, n):
        with open(self.folder + "/load.new", "w") as f:
            f.write("%d\n" % n)
        os.rename(self.folder + "/load.new", self.folder + "/load")

    def level(self, wanted):
        with self.server.web() as w:
            until(lambda: w.good("GET", "/v1/sites/shop")["level"] == wanted, what="level " + wanted)

    def said(self, code, **constants):
        return said(self.site, code, WEIR_URL=url(self.server), **constants)

    def action(self, number):
        """What a move may change, and the rest."""
        names = ("action_id", "hook", "status", "args", "schedule", "attempts", "claim_id")
        found = self.site.sql("SELECT UNIX_TIMESTAMP(scheduled_date_gmt), UNIX_TIMESTAMP("
                              "scheduled_date_local), %s FROM wp_actionscheduler_actions"
                              " WHERE action_id = %d" % (", ".join(names), number))[0]
        return int(found[0]), int(found[1]), found[2:]


# ---------------------------------------------------------------- locks: the row decides


@test("a lock has one holder, who gives it back with its token; the row stays, blank")
def one_holder(_):
    token, held, again, fence, wrong, right, after = said(lonely(), """
        $t = weir_acquire_lock('k'); say($t, weir_is_locked('k'), weir_acquire_lock('k'),
        weir_lock_fence('k'), weir_release_lock('k', str_repeat('0', 32)),
        weir_release_lock('k', $t), weir_is_locked('k'));""")
    expect(re.fullmatch("[0-9a-f]{32}", token), token)
    equal((held, again, wrong, right, after), (True, False, False, True, False))
    equal(row(lonely()), ["%d|0||k" % fence, "no"])


@test("what a caller may not pass is refused with a word about it")
def bad_arguments(_):
    equal(said(lonely(), """
        add_filter('doing_it_wrong_trigger_error', '__return_false');
        $n = 0; add_action('doing_it_wrong_run', function () use (&$n) { $n++; });
        say(weir_acquire_lock(''), weir_acquire_lock(str_repeat('k', 256)),
        weir_acquire_lock("\\xff"), weir_acquire_lock('k', 0), weir_acquire_lock('k', 86401),
        weir_force_release('k', ' '), weir_release_lock('k', "x' OR 1 -- "), $n);"""),
          [False] * 7 + [6])


@test("keys may hold quotes, bars, percent signs and any letter, and are told apart")
def strange_keys(_):
    keys = ["a|b", "a|c", "it's", 'a"b', "100%s %d", "schlüssel", "a\\b", "A|b"]
    equal(said(lonely(), """
        $keys = json_decode(%s); $tokens = array_map('weir_acquire_lock', $keys);
        say(count(array_filter($tokens)), array_map('weir_acquire_lock', $keys),
        array_column(array_filter(Weir_Locks::all(), function ($l) { return $l['is_held']; }), 'key'),
        array_map('weir_release_lock', $keys, $tokens));""" % repr_php(json.dumps(keys))),
          [8, [False] * 8, sorted(keys, key=lambda k: k.encode()), [True] * 8])


def repr_php(text):
    return "'%s'" % text.replace("\\", "\\\\").replace("'", "\\'")


@test("of many processes that try at the same moment one gets the lock: nothing is between look and write")
def same_moment(_):
    n = 8
    code = """echo "ready\\n"; fgets(STDIN);
        echo weir_acquire_lock('moment', 600) ? 'mine' : 'refused', "\\n";"""
    running = [lonely().start(code) for _ in range(n)]
    for p in running:
        equal(p.stdout.readline(), "ready\n")
    for p in running:
        p.stdin.write("go\n")
        p.stdin.flush()
    got = sorted(p.communicate()[0].strip() for p in running)
    equal(got, ["mine"] + ["refused"] * (n - 1))


@test("who lost the lock cannot release that of its successor, and the numbers of grants grow")
def late_owner(_):
    first = said(lonely(), "say(weir_acquire_lock('late', 600), weir_lock_fence('late'));")
    lonely().sql("UPDATE wp_options SET option_value = REGEXP_REPLACE(option_value, '[|][0-9]+[|]', '|1|')"
                 " WHERE option_name = CONCAT('weir_lock_', MD5('late'))")
    second = said(lonely(), "say(weir_acquire_lock('late', 600), weir_lock_fence('late'));")
    expect(second[0] and second[1] > first[1], (first, second))
    equal(said(lonely(), "say(weir_release_lock('late', '%s'), weir_renew_lock('late', '%s'),"
                         " weir_is_locked('late'));" % (first[0], first[0])), [False, False, True])
    equal(said(lonely(), "say(weir_renew_lock('late', '%s', 900), weir_release_lock('late', '%s'));" % (
        second[0], second[0])), [True, True])


@test("the clock of the web server means nothing: neither a day ahead nor a day behind")
def wrong_clock(_):
    for shift in ("+1d", "-1d"):
        hold(lonely(), "clock")
        ahead = ("faketime", "-f", shift)
        equal(said(lonely(), "say(weir_acquire_lock('clock'), weir_is_locked('clock'));", before=ahead),
              [False, True], shift)
        hold(lonely(), "clock", seconds=-1)
        # faketime shifts the clock of hrtime() too, but not by how much it goes on.
        equal(said(lonely(), "say((bool) weir_acquire_lock('clock', 60), weir_is_locked('clock'));",
                   before=ahead), [True, True], shift)
        left = int(row(lonely(), "clock")[0].split("|")[1]) - int(lonely().sql("SELECT UNIX_TIMESTAMP()")[0][0])
        expect(0 < left <= 60, "the lock ends in %d s, by the database's clock" % left)


@test("object caches cannot lie about a lock")
def lying_cache(_):
    code = """
        $name = 'weir_lock_' . md5('k');
        wp_cache_set('notoptions', array($name => true), 'options'); say(%s);
        wp_cache_delete('notoptions', 'options');
        wp_cache_set($name, %s, 'options'); $all = wp_load_alloptions();
        $all[$name] = %s; wp_cache_set('alloptions', $all, 'options'); say(get_option($name), %s);"""
    free, held = "'7|0||k'", "'7|99999999999|%s|k'" % ("b" * 32)
    ask = "weir_is_locked('k'), (bool) weir_acquire_lock('k')"
    hold(lonely())
    equal(said(lonely(), code % (ask, free, free, ask)), [[True, False], [free.strip("'"), True, False]])
    set_row(lonely(), "'7|0||k'")
    again = "weir_is_locked('k'), (bool) ($t = weir_acquire_lock('k')), weir_release_lock('k', $t)"
    equal(said(lonely(), code % (again, held, held, again)),
          [[False, True, True], [held.strip("'"), False, True, True]])


@test("counts of rows that mean matched rows make no second holder")
def found_rows(_):
    hold(lonely())
    equal(said(lonely(), "say(weir_acquire_lock('k'));", MYSQL_CLIENT_FLAGS=2), [False])
    set_row(lonely(), "'7|0||k'")
    equal(said(lonely(), """say((bool) ($t = weir_acquire_lock('k')), weir_acquire_lock('k'),
        weir_release_lock('k', str_repeat('0', 32)), weir_release_lock('k', $t),
        weir_release_lock('k', $t));""", MYSQL_CLIENT_FLAGS=2), [True, False, False, True, False])


@test("an empty or damaged row is a free lock, in a strict SQL mode too; a deleted row loses no number")
def damaged_rows(_):
    values = ["", "x", "9|", "|||k", "1|2", "9|99999999999|short|k", "-1|99999999999||k"]
    got = said(lonely(), """global $wpdb; $wpdb->query("SET sql_mode = 'STRICT_ALL_TABLES'");
        foreach (json_decode(%s) as $value) {
            $wpdb->replace($wpdb->options, array('option_name' => 'weir_lock_' . md5('k'),
                'option_value' => $value, 'autoload' => 'no'));
            say(weir_is_locked('k'), (bool) weir_acquire_lock('k', 600), weir_is_locked('k'));
        }""" % repr_php(json.dumps(values)))
    equal(list(zip(values, got)), [(value, [False, True, True]) for value in values])
    fence = said(lonely(), "say(weir_lock_fence('k'));")[0]
    lonely().sql("DELETE FROM wp_options WHERE option_name LIKE 'weir_lock_%'")
    new = said(lonely(), "weir_acquire_lock('k'); say(weir_lock_fence('k'));")[0]
    expect(new > fence, (fence, new))


@test("a database that refuses grants no lock")
def refusing_database(_):
    equal(said(lonely(), """global $wpdb; $was = $wpdb->options; $wpdb->options = 'missing';
        say(weir_acquire_lock('k'), weir_is_locked('k'));"""), [False, False])


@test("weir_with_lock releases after a result, an exception and an exit, and tells a refusal")
def with_lock(_):
    set_row(lonely(), "'7|0||k'")
    equal(said(lonely(), """
        $r = weir_with_lock('k', function ($fence) { return array(weir_is_locked('k'), $fence > 7,
            weir_lock_seconds_left('k') > 0, weir_with_lock('k', 'time', 60, 'refused')); });
        $caught = false;
        try { weir_with_lock('k', function () { throw new Exception('no'); }); }
        catch (Exception $e) { $caught = true; }
        say($r, $caught, weir_is_locked('k'), weir_lock_seconds_left('k') > 0);"""),
          [[True, True, True, "refused"], True, False, False])
    lonely().php("weir_with_lock('k', function () { exit; });")
    expect(row(lonely())[0].endswith("|0||k"), row(lonely()))


@test("a lock can be taken away, with a reason")
def force(_):
    hold(lonely())
    equal(said(lonely(), "say(weir_force_release('k', 'host is gone'), weir_is_locked('k'),"
                         " weir_force_release('k', 'again'));"), [True, False, False])
    equal(row(lonely())[0], "7|0||k")


# ---------------------------------------------------------------- locks: with weir in front


@test("a refusal by weir does not reach the database, and people see who holds the lock")
def gate(folder):
    server = Server(folder)
    equal(said(attached(), """
        $t = weir_acquire_lock('k', 600); global $wpdb; $before = $wpdb->num_queries;
        say((bool) $t, weir_acquire_lock('k'), $wpdb->num_queries - $before);""", WEIR_URL=url(server)),
          [True, False, 0])
    with server.web() as w:
        holder = w.good("GET", "/v1/locks/wp%3Ashop%3Ak")["holders"][0]
        expect(socket.gethostname() in holder["owner"], holder)
        token = row(attached())[0].split("|")[2]
        equal(said(attached(), "say(weir_release_lock('k', '%s'));" % token, WEIR_URL=url(server)), [True])
        equal(w.good("GET", "/v1/locks/wp%3Ashop%3Ak")["state"], "free")
    server.stop()


@test("when the row is held, weir's lock is given back at once")
def row_refuses(folder):
    server = Server(folder)
    hold(attached())
    equal(said(attached(), "say(weir_acquire_lock('k'));", WEIR_URL=url(server)), [False])
    with server.web() as w:
        equal(w.good("GET", "/v1/locks")["locks"], [])
    server.stop()


@test("with weir and without it there is one holder: both ways meet in the row")
def both_ways(folder):
    server = Server(folder)
    away = "http://127.0.0.1:%d" % free_port()
    set_row(attached(), "'7|0||k'")
    token = said(attached(), "say(weir_acquire_lock('k', 600));", WEIR_URL=url(server))[0]
    equal(said(attached(), "say(weir_acquire_lock('k'));", WEIR_URL=away), [False])
    server.kill()
    equal(said(attached(), "say(weir_acquire_lock('k'), weir_release_lock('k', '%s'));" % token,
               WEIR_URL=url(server)), [False, True])
    token = said(attached(), "say(weir_acquire_lock('k', 600));", WEIR_URL=away)[0]
    server = Server(folder)
    equal(said(attached(), "say(weir_acquire_lock('k'));", WEIR_URL=url(server)), [False])
    server.stop()


@test("a lock of weir's that outlived its row, because weir was down, keeps nobody out")
def overdue_gate(folder):
    server = Server(folder)
    with server.web() as w:
        w.good("POST", "/v1/locks/wp%3Ashop%3Ak", {"ex": 600, "owner": "web:1 until 2020-01-01T00:00:00Z"})
        hold(attached())
        equal(said(attached(), "say(weir_acquire_lock('k'));", WEIR_URL=url(server)), [False])
        set_row(attached(), "'7|0||k'")
        equal(said(attached(), "say((bool) weir_acquire_lock('k'));", WEIR_URL=url(server)), [True])
        equal(w.good("GET", "/v1/locks/wp%3Ashop%3Ak")["holders"][0]["fence"], 1, "weir's own grant")
    server.stop()


@test("locks switched off in weir leave the row to decide; a site without a name never asks weir")
def gate_off(folder):
    server = Server(folder)
    with server.web() as w:
        w.good("POST", "/v1/settings/locks.enabled", {"value": "false"})
        set_row(attached(), "'7|0||k'")
        equal(said(attached(), "say((bool) weir_acquire_lock('k'), weir_acquire_lock('k'));",
                   WEIR_URL=url(server)), [True, False])
        w.good("POST", "/v1/settings/locks.enabled", {"value": "true"})
        set_row(attached(), "'7|0||k'")
        equal(said(attached(), "say((bool) weir_acquire_lock('k'));", WEIR_URL=url(server), WEIR_SITE=""),
              [True])
        equal(w.good("GET", "/v1/locks")["locks"], [])
    server.stop()


@test("without the mutex weir is not asked for locks, and they exclude those who ask it")
def mutex_off(folder):
    server, site = Server(folder), attached()
    with server.web() as w:
        set_row(site, "'7|0||k'")
        [taken] = said(site, "say(weir_acquire_lock('k', 600));", WEIR_URL=url(server), WEIR_MUTEX="off")
        equal(w.good("GET", "/v1/locks")["locks"], [])
        ask = "say(weir_acquire_lock('k'), weir_renew_lock('k', '%s', 600), weir_release_lock('k', '%s'), weir_is_locked('k'));"
        equal(said(site, "say(weir_acquire_lock('k'));", WEIR_URL=url(server)), [False])
        equal(said(site, ask % (taken, taken), WEIR_URL=url(server), WEIR_MUTEX="off"), [False, True, True, False])
        [taken] = said(site, "say(weir_acquire_lock('k', 600));", WEIR_URL=url(server))
        equal(len(w.good("GET", "/v1/locks")["locks"]), 1)
        equal(said(site, "say(weir_acquire_lock('k'), weir_force_release('k', 'test'));", WEIR_URL=url(server),
                   WEIR_MUTEX="off"), [False, True])
        equal(w.good("GET", "/v1/locks")["locks"], [], "weir hears of a lock that is taken away")
    server.stop()


@test("weir and PHP share locks: each sees the other's, and a token holds on both sides")
def shared_with_weir(folder):
    g = Gated(folder, mode="observe")
    with g.server.web() as w:
        taken = w.good("POST", "/v1/sites/shop/locks/report%7C1", {"ttl": 600})
        equal(taken["acquired"], True)
        equal(g.said("say(weir_is_locked('report|1'), weir_acquire_lock('report|1'),"
                     " weir_lock_fence('report|1'));"), [True, False, taken["fence"]])
        equal(g.said("say(weir_renew_lock('report|1', '%s', 900), weir_release_lock('report|1', '%s'));" % (
            taken["token"], taken["token"])), [True, True])
        token, fence = g.said("say(weir_acquire_lock('report|1', 600), weir_lock_fence('report|1'));")
        expect(fence > taken["fence"], (fence, taken))
        equal(w.good("POST", "/v1/sites/shop/locks/report%7C1", {"ttl": 60})["acquired"], False)
        seen = w.good("GET", "/v1/sites/shop/locks")["locks"]
        equal([(x["key"], x["fence"]) for x in seen], [("report|1", fence)])
        equal(w.good("DELETE", "/v1/sites/shop/locks/report%7C1?token=" + token)["released"], True)
        equal(g.said("say(weir_is_locked('report|1'), weir_release_lock('report|1', '%s'));" % token),
              [False, False])
    g.server.stop()


NETWORK = {"MULTISITE": True, "SUBDOMAIN_INSTALL": False, "DOMAIN_CURRENT_SITE": "localhost",
           "PATH_CURRENT_SITE": "/", "SITE_ID_CURRENT_SITE": 1, "BLOG_ID_CURRENT_SITE": 1}


@test("sites of a network have locks of their own, and another prefix of tables is followed")
def network(folder):
    server = Server(folder)
    site = Site(database(), weir_url=url(server), prefix="x7_")
    site.php("""define('WP_ALLOW_MULTISITE', true); require ABSPATH . 'wp-admin/includes/upgrade.php';
        require ABSPATH . 'wp-admin/includes/network.php';
        foreach ($wpdb->tables('ms_global') as $table => $name) $wpdb->$table = $name;
        install_network(); populate_network(1, 'localhost', 'k@example.com', 'Network', '/', false);""")
    host = {"HTTP_HOST": "localhost", "REQUEST_URI": "/"}
    equal(said(site, """$id = wp_insert_site(array('domain' => 'localhost', 'path' => '/two/', 'user_id' => 1));
        $one = weir_acquire_lock('k', 600); switch_to_blog($id);
        $is = weir_is_locked('k'); $two = weir_acquire_lock('k', 600); $again = weir_acquire_lock('k');
        $fence = weir_lock_fence('k'); $left = weir_release_lock('k', $two); restore_current_blog();
        say($id, (bool) $one, $is, (bool) $two, $again, $left, weir_is_locked('k'),
        weir_lock_fence('k') < $fence);""", env=host, **NETWORK), [2, True, False, True, False] + 3 * [True])
    for table in ("x7_options", "x7_2_options"):
        equal(len(site.sql("SELECT 1 FROM %s WHERE option_name LIKE 'weir_lock_%%'" % table)), 1, table)
    with server.web() as w:
        equal([x["name"] for x in w.good("GET", "/v1/locks")["locks"]], ["wp:shop:k"])
    server.stop()


# ---------------------------------------------------------------- many processes

# Each process takes the lock, notes the grant, writes to a store that refuses smaller numbers, notes
# the end and releases.  A holder told to hang waits for a word, so that the test can kill or freeze it.
COMPETITOR = """
global $wpdb;
$note = function ($fence, $what) use ($wpdb) {
    $wpdb->query("INSERT INTO notes (fence, pid, what, at_us) VALUES ($fence, " . getmypid()
        . ", '$what', UNIX_TIMESTAMP() * 1000000 + MICROSECOND(NOW(6)))");
};
echo "ready\\n"; fgets(STDIN);
while (!$wpdb->get_var("SELECT stop FROM control")) {
    $token = weir_acquire_lock('race', TTL);
    if (!$token) { usleep(mt_rand(1000, 60000)); continue; }
    $fence = weir_lock_fence('race');
    $note($fence, 'holds');
    if ($wpdb->query("UPDATE control SET hang = 0 WHERE hang = 1")) {
        $note($fence, 'hangs');
        while (!$wpdb->get_var("SELECT go_on >= $fence FROM control")) usleep(10000);
    }
    $wpdb->query("UPDATE store SET fence = $fence, writes = writes + 1 WHERE fence < $fence");
    $note($fence, $wpdb->rows_affected ? 'wrote' : 'refused');
    weir_release_lock('race', $token);
}
"""


class Race:
    TTL = 1

    def __init__(self, site, urls, processes):
        self.site = site
        site.sql("DROP TABLE IF EXISTS notes, control, store",
                 "CREATE TABLE notes (id INT AUTO_INCREMENT PRIMARY KEY, fence BIGINT, pid INT,"
                 " what VARCHAR(40), at_us BIGINT, KEY (fence)) ENGINE=InnoDB",
                 "CREATE TABLE control (stop INT, hang INT, go_on BIGINT)",
                 "INSERT INTO control VALUES (0, 0, 0)",
                 "CREATE TABLE store (fence BIGINT, writes INT)", "INSERT INTO store VALUES (0, 0)")
        self.running = []
        for i in range(processes):
            self.running.append(self.compete(urls[i % len(urls)]))
        for p in self.running:
            equal(p.stdout.readline(), "ready\n")
        for p in self.running:
            self.go(p)

    def compete(self, where):
        return self.site.start("define('TTL', %d);\n%s" % (self.TTL, COMPETITOR), WEIR_URL=where)

    def go(self, p):
        p.stdin.write("go\n")
        p.stdin.flush()

    def grants(self):
        return int(self.site.sql("SELECT COUNT(DISTINCT fence) FROM notes")[0][0])

    def hanging(self):
        """Makes the next holder hang; its number and process."""
        self.site.sql("UPDATE control SET hang = 1")
        self.site.sql("SELECT 1")
        return until(lambda: [(int(f), int(p)) for f, p in self.site.sql(
            "SELECT fence, pid FROM notes a WHERE what = 'hangs' AND NOT EXISTS (SELECT 1 FROM notes b"
            " WHERE b.fence = a.fence AND b.what IN ('wrote', 'refused', 'dead'))")],
            what="a holder that hangs")[0]

    def successor(self, fence):
        """The lock is free again when its time is over."""
        until(lambda: self.site.sql("SELECT 1 FROM notes WHERE fence > %d LIMIT 1" % fence),
              what="another holder after that of %d" % fence)

    def end(self):
        self.site.sql("UPDATE control SET stop = 1")
        for p in self.running:
            p.communicate()

    def check(self):
        """The holder of each grant noted it after the one before had ended: by the note that its
        holder made before it released, or by its time.  (The number of a grant is the time at which
        its statement began, which may have waited for the row meanwhile.)"""
        noted, ended, until_us = {}, {}, {}
        for fence, what, at in self.site.sql("SELECT fence, what, at_us FROM notes ORDER BY id"):
            fence, at = int(fence), int(at)
            if what == "holds":
                expect(fence not in noted, "%d was granted twice" % fence)
                # The row's time has whole seconds and includes the last one.
                noted[fence], until_us[fence] = at, (fence // 1000000 + self.TTL + 1) * 1000000
            elif what in ("wrote", "refused"):
                ended[fence] = at
        fences = sorted(noted)
        for a, b in zip(fences, fences[1:]):
            expect(b >= until_us[a] or noted[b] >= ended.get(a, until_us[a]),
                   "%d was held before %d had ended" % (b, a))
        refused = int(self.site.sql("SELECT COUNT(*) FROM notes WHERE what = 'refused'")[0][0])
        writes = int(self.site.sql("SELECT writes FROM store")[0][0])
        equal(writes, int(self.site.sql("SELECT COUNT(*) FROM notes WHERE what = 'wrote'")[0][0]))
        return len(noted), refused


def compete(folder, processes, rounds):
    """`rounds`: killed and frozen holders, each."""
    server = Server(folder)
    race = Race(attached(), [url(server), "http://127.0.0.1:%d" % free_port()], processes)
    try:
        for done in range(rounds):
            until(lambda n=done: race.grants() >= 40 * n, what="some more grants")
            fence, pid = race.hanging()
            os.kill(pid, signal.SIGKILL)
            race.site.sql("INSERT INTO notes (fence, what, at_us) VALUES (%d, 'dead', 0)" % fence)
            race.successor(fence)
            fence, pid = race.hanging()
            os.kill(pid, signal.SIGSTOP)
            race.successor(fence)
            race.site.sql("UPDATE control SET go_on = %d" % fence)
            os.kill(pid, signal.SIGCONT)
            until(lambda f=fence: race.site.sql(
                "SELECT 1 FROM notes WHERE fence = %d AND what = 'refused'" % f), what="its late write")
        until(lambda: race.grants() >= 40 * rounds, what="some more grants")
    finally:
        race.end()
    grants, refused = race.check()
    expect(refused >= rounds, "%d late writes were refused" % refused)
    print("# %d grants to %d processes" % (grants, processes))
    server.stop()


@test("processes compete, with weir and without, while a holder is killed and one is frozen: "
      "never two holders, none stuck")
def competition(folder):
    compete(folder, *((200, 20) if FULL else (6, 1)))


@test("40 processes compete, while four holders are killed and four are frozen", outer=True)
def crowded_competition(folder):
    compete(folder, 40, 4)


# ---------------------------------------------------------------- talking to weir


class Mute:
    """Takes connections and never answers; counts them."""

    def __init__(self):
        self.kept, self.peers, self.asked = [], [], 0
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = "http://127.0.0.1:%d" % self.listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                connection, peer = self.listener.accept()
            except OSError:
                return
            self.kept.append(connection)
            self.peers.append(peer)

    def count(self):
        """Connections are taken in their order: once one of our own is there, those before it are."""
        with socket.create_connection(self.listener.getsockname()) as own:
            until(lambda: own.getsockname() in self.peers, what="a connection of our own")
            self.asked += 1
            return len(self.peers) - self.asked


def breaker_files(site):
    return glob.glob(site.tmp + "/weir-away-*")


def forget_breaker(site):
    for path in breaker_files(site):
        os.unlink(path)


def still_away(site):
    """However slow the machine is: for 25 s from now the breaker is open."""
    name, = breaker_files(site)
    with open(name, "w") as f:
        f.write("%f" % (time.time() + 25))


@test("a weir that does not answer is asked once by all requests together, and again after 30 s by one")
def breaker(_):
    site, mute = attached(), Mute()
    forget_breaker(site)
    ask = "$t = hrtime(true); say(weir_get_priority('nofraud_x'), (hrtime(true) - $t) / 1e6);"
    tier, ms = said(site, ask, WEIR_URL=mute.url, WEIR_IN_TIME=0)
    equal(tier, "normal")
    expect(ms >= 240, "it waited %.0f ms for an answer" % ms)
    for _ in range(3):
        still_away(site)
        said(site, ask + ask, WEIR_URL=mute.url, WEIR_IN_TIME=0)
    equal(mute.count(), 1, "connections")
    equal(len(breaker_files(site)), 1, "files")
    equal(os.stat(breaker_files(site)[0]).st_mode & 0o077 & ~0o044, 0, "rights of others")
    with open(breaker_files(site)[0], "w") as f:
        f.write("1.0")  # its time is over
    said(site, ask, WEIR_URL=mute.url, WEIR_IN_TIME=0)
    still_away(site)
    said(site, ask, WEIR_URL=mute.url, WEIR_IN_TIME=0)
    equal(mute.count(), 2, "connections")
    with open(breaker_files(site)[0], "w") as f:
        f.write("99999999999.0")  # written before a clock was set back
    said(site, ask, WEIR_URL=mute.url, WEIR_IN_TIME=0)
    equal(mute.count(), 3, "connections")
    equal(len(os.listdir(site.tmp)), 1, "files in the folder")


@test("the breaker closes when weir answers again")
def breaker_closes(folder):
    server, site = Server(folder), attached()
    forget_breaker(site)
    equal(said(site, "say(weir_get_priority('nofraud_x'));", WEIR_URL=url(server)), ["critical"])
    server.kill()
    ask = "say(weir_get_priority('nofraud_x'), Weir_Breaker::is_open());"
    equal(said(site, ask, WEIR_URL=url(server)), ["normal", True])
    server = Server(folder, http="%s:%d" % server.http)
    still_away(site)
    equal(said(site, ask, WEIR_URL=url(server)), ["normal", True])
    with open(breaker_files(site)[0], "w") as f:
        f.write("1.0")
    equal(said(site, ask, WEIR_URL=url(server)), ["critical", False])
    equal(breaker_files(site), [])
    server.stop()


@test("with APCu the breaker is in memory, shared by the processes of the web server, and no file is written")
def breaker_in_memory(_):
    site, mute = attached(), Mute()
    forget_breaker(site)
    site.write("ask.php", "<?php require 'wp-load.php'; echo apcu_enabled() ? 'apcu ' : '',"
               " weir_get_priority('nofraud_x');")
    where = site.serve("-d", "apc.enable_cli=1", WEIR_URL=mute.url, WEIR_IN_TIME=0)
    for _ in range(8):
        equal(urllib.request.urlopen(where + "/ask.php").read(), b"apcu normal")
    site.stop()
    equal(mute.count(), 1, "connections")
    equal(breaker_files(site), [])


@test("a file that another put in the breaker's place means nothing")
def foreign_breaker(folder):
    server, site = Server(folder), attached()
    forget_breaker(site)
    ask = "say(weir_get_priority('nofraud_x'));"
    said(site, ask, WEIR_URL="http://127.0.0.1:1")
    name = breaker_files(site)[0]
    precious = os.path.join(folder, "precious")
    with open(name) as f, open(precious, "w") as to:
        to.write(f.read())
    os.unlink(name)
    os.symlink(precious, name)
    equal(said(site, "Weir_Breaker::is_open(); say(Weir_Breaker::is_open());",
               WEIR_URL="http://127.0.0.1:1"), [False], "a link is believed")
    said(site, ask, WEIR_URL="http://127.0.0.1:1")
    expect(not os.path.islink(name), "the link was followed")
    server.stop()


@test("a unix socket, a token, a token from a file; a wrong token is told and not tried again")
def addresses(folder):
    site, path = attached(), os.path.join(folder, "http")
    token = "correct horse battery staple"
    server = Server(folder, token=token, http=path)
    ask = "say(weir_get_priority('nofraud_x'), Weir_Client::problem());"
    equal(said(site, ask, WEIR_URL="unix:" + path, WEIR_TOKEN=token), ["critical", ""])
    equal(said(site, ask, WEIR_URL="unix:" + path, WEIR_TOKEN_FILE=os.path.join(folder, "token")),
          ["critical", ""])
    forget_breaker(site)
    tier, problem = said(site, ask, WEIR_URL="unix:" + path, WEIR_TOKEN="wrong")
    equal(tier, "normal")
    expect("token" in problem, problem)
    equal(len(breaker_files(site)), 1)
    forget_breaker(site)
    for bad in ("ftp://127.0.0.1:1", "127.0.0.1:7380", "unix:", ""):
        tier, problem = said(site, ask, WEIR_URL=bad)
        expect("http://host:port, https://host:port or unix:/path" in problem, problem)
        forget_breaker(site)
    server.kill()


@test("an https address works, with a client certificate too; what TLS fails by is told")
def over_tls(folder):
    server, site = Server(folder), attached()
    ours, theirs = Authority(folder, "ours"), Authority(folder, "theirs")
    front = Front(server.http[1], ours.sign("server", "DNS:localhost"))
    strict = Front(server.http[1], ours.sign("strict", "DNS:localhost"), wants=ours.cert)
    cert, key = ours.sign("client")
    patient = "add_filter('weir_timeout_ms', function () { return 60000; });\n"
    ask = patient + """$all = Weir_Client::body('GET', '/openapi.json');
        say(weir_get_priority('nofraud_x'), Weir_Client::problem(), isset($all['paths']));"""

    def answers(port, **constants):
        return said(site, ask, WEIR_URL="https://localhost:%d" % port, **constants)
    good = ["critical", "", True]
    equal(answers(front.port, WEIR_TLS_CA=ours.cert), good)     # an answer of many records
    equal(answers(front.port, WEIR_TLS_VERIFY="off"), good)
    equal(answers(front.port, WEIR_TLS_VERIFY="off", WEIR_TLS_NAME="other"), good)
    equal(answers(strict.port, WEIR_TLS_CA=ours.cert, WEIR_TLS_CERT=cert, WEIR_TLS_KEY=key), good)
    for words, port, constants in (
            ("WEIR_TLS_CA", front.port, {}),
            ("WEIR_TLS_CA", front.port, {"WEIR_TLS_CA": theirs.cert}),
            ("WEIR_TLS_NAME", front.port, {"WEIR_TLS_CA": ours.cert, "WEIR_TLS_NAME": "other"}),
            ("cannot be used", front.port, {"WEIR_TLS_CA": "/no/such.pem"}),
            ("weir does not answer at https://", strict.port, {"WEIR_TLS_CA": ours.cert}),
            ("weir does not answer at https://", server.http[1], {"WEIR_TLS_CA": ours.cert})):
        forget_breaker(site)
        tier, problem, is_whole = answers(port, **constants)
        equal((tier, is_whole), ("normal", False), constants)
        expect(words in problem, (constants, problem))
    forget_breaker(site)
    for end in (front, strict):
        end.close()
    server.kill()


@test("all requests of a page share one connection, also over a restart of weir")
def keep_alive(folder):
    server, site = Server(folder), attached()
    forget_breaker(site)
    p = site.start("""while (fgets(STDIN)) { for ($i = 0; $i < 5; $i++)
        echo Weir_Client::request('GET', '/v1/tiers/nofraud_' . $i)['body']['tier'], ' ';
        echo "\\n"; }""", WEIR_URL=url(server))

    def ask():
        p.stdin.write("\n")
        p.stdin.flush()
        return p.stdout.readline().split()
    with server.web() as w:
        before = accepted(w)
        equal(ask(), ["critical"] * 5)
        equal(accepted(w), before + 1, "connections")
    server.stop()
    server = Server(folder, http="%s:%d" % server.http)
    equal(ask(), ["critical"] * 5)
    p.stdin.close()
    p.wait(HANG_S)
    server.stop()


def accepted(w):
    text = w.ask("GET", "/metrics").body.decode()
    return int(re.search(r"^weir_door_connections_accepted_total (\d+)", text, re.M).group(1))


@test("weir_enqueue adds a job, tells what was refused, and that weir is away")
def enqueue(folder):
    server, site = Server(folder), attached()
    forget_breaker(site)
    first, again, bad = said(site, """
        $o = array('queue' => 'mail', 'priority' => 5, 'idempotency_key' => 'order-1');
        $bad = weir_enqueue('send', array(), array('priority' => 900));
        say(weir_enqueue('send', array('id' => 7), $o), weir_enqueue('send', array('id' => 7), $o),
        $bad->get_error_message());""", WEIR_URL=url(server))
    equal(first, again, "the id for the same key")
    expect("255" in bad, bad)
    with server.web() as w:
        job = w.good("GET", "/v1/jobs/%d" % first)
        equal((job["hook"], job["args"], job["queue"], job["priority"]), ("send", {"id": 7}, "mail", 5))
    server.stop()
    equal(said(site, "$e = weir_enqueue('send'); say($e->get_error_code());", WEIR_URL=url(server)), ["weir_away"])


@test("a job is not sent twice when weir is slow, and once more when it has restarted")
def sent_once(folder):
    server, site = Server(folder), attached()
    forget_breaker(site)
    p = site.start("""$ms = 0; add_filter('weir_timeout_ms', function () use (&$ms) { return $ms; }, 99);
        while ($ms = (int) fgets(STDIN)) {
            $r = weir_enqueue('send'); echo is_int($r) ? 'added' : $r->get_error_code(), "\\n"; }""",
                   WEIR_URL=url(server))

    def add(ms=60000):
        p.stdin.write("%d\n" % ms)
        p.stdin.flush()
        return p.stdout.readline().strip()
    equal(add(), "added")
    server.process.send_signal(signal.SIGSTOP)
    equal(add(500), "weir_away")
    server.process.send_signal(signal.SIGCONT)
    forget_breaker(site)
    with server.web() as w:
        until(lambda: len(w.good("GET", "/v1/jobs")["jobs"]) >= 2, what="the job that was late")
    until(lambda: add() == "added", what="the breaker to look again")
    server.stop()
    server = Server(folder, http="%s:%d" % server.http)
    equal(add(), "added")
    p.stdin.close()
    p.wait(HANG_S)
    with server.web() as w:
        equal(len(w.good("GET", "/v1/jobs")["jobs"]), 4, "jobs")
    server.stop()


# ---------------------------------------------------------------- Action Scheduler


def fire(action, context="WP Cron"):
    """As its runner does; what happened to the action."""
    return """try { do_action('action_scheduler_before_execute', %d, '%s'); say('ran'); }
        catch (Exception $e) { say(get_class($e), $e->getMessage()); }""" % (action, context)


def now(site):
    return int(site.sql("SELECT UNIX_TIMESTAMP()")[0][0])


@test("an action that must wait is moved and stays pending; a payment, and one that a person runs, start")
def deferred(folder):
    g = Gated(folder)
    g.site.php("update_option('timezone_string', 'Asia/Tokyo');")
    g.site.sql("SET GLOBAL time_zone = '+00:00'")
    sync, pay = g.site.add_action("klaviyo_sync"), g.site.add_action("wc_payment_done")
    before, _, rest = g.action(sync)
    equal(g.said(fire(pay)), ["ran"])
    equal(g.said(fire(sync, "Admin List Table")), ["ran"])
    equal(g.action(sync), (before, before, rest), "the row")
    name, message = g.said(fire(sync))
    equal(name, "Weir_Deferred")
    expect("klaviyo_sync waits until" in message, message)
    gmt, local, after = g.action(sync)
    equal(after, rest, "the rest of the row")
    # The matrix says an hour; weir spreads what it moves over some more time.
    expect(3500 <= gmt - now(g.site) <= 7200, "it waits %d s" % (gmt - now(g.site)))
    equal(local - gmt, 9 * 3600, "the local time")
    log = g.site.sql("SELECT message FROM wp_actionscheduler_logs WHERE action_id = %d" % sync)
    expect(len(log) == 1 and "tier deferrable: the load of shop is critical: threads 20" in log[0][0], log)
    with g.server.web() as w:
        moved = w.good("GET", "/v1/sites/shop")["last"][0]
        equal((moved["id"], moved["original_ms"], moved["to_ms"]), (sync, before * 1000, gmt * 1000))
    g.load(1)
    g.level("normal")
    equal(g.said(fire(g.site.add_action("klaviyo_sync"))), ["ran"])
    equal(g.site.complaints(), [])
    g.server.stop()


@test("a move that a deadlock ends is tried again; when all tries fail the action runs, and no error is printed")
def move_retried(folder):
    g = Gated(folder)
    meddle = """
        $wpdb->show_errors(); $fail = %d; $seen = 0;
        add_filter('query', function ($sql) use (&$fail, &$seen) {
            if (strpos($sql, 'UPDATE') !== 0 || strpos($sql, 'SET scheduled_date_gmt') === false) return $sql;
            return ++$seen <= $fail ? 'UPDATE nothing SET x = 1' : $sql; });"""
    for fail, seen in ((0, 1), (3, 4), (99, 5)):
        sync = g.site.add_action("klaviyo_sync")
        before = g.action(sync)
        said_now = g.said("global $wpdb;" + meddle % fail + fire(sync) + "say($seen);")
        if fail > seen:
            equal(said_now, [["ran"], [seen]])
            equal(g.action(sync), before, "the row")
            equal(g.site.sql("SELECT message FROM wp_actionscheduler_logs WHERE action_id = %d" % sync), [])
        else:
            equal((said_now[0][0], said_now[1]), ("Weir_Deferred", [seen]))
            expect(g.action(sync)[0] > before[0] + 3000, "its date: %s" % (g.action(sync),))
    equal([x for x in g.site.complaints() if "nothing" not in x], [])
    g.server.stop()


@test("an answer is kept for a second, and actions of one hook share it")
def answers_kept(folder):
    g = Gated(folder)
    n = 20  # more than one of them falls into a second, on a slow machine too
    syncs = [g.site.add_action("klaviyo_sync") for _ in range(n)]
    with g.server.web() as w:
        before = accepted(w)
        asked = g.said("""$asked = 0; add_filter('weir_timeout_ms', function ($ms) use (&$asked) {
            $asked++; return $ms; });""" + "".join(fire(x) for x in syncs) + "say($asked);")
        equal([x[0] for x in asked[:n]], ["Weir_Deferred"] * n)
        expect(asked[n][0] < 2 * n, "weir was asked %d times for %d actions: a move each and a decision" % (
            asked[n][0], n))
        equal(accepted(w), before + 1, "connections")
    g.server.stop()


@test("in observe nothing moves and what would wait is counted, by weir's mode and by WEIR_MODE")
def observed(folder):
    g = Gated(folder)
    sync = g.site.add_action("klaviyo_sync")
    before = g.action(sync)
    code = fire(sync) + "say(Weir_Gate::would_wait());"
    equal(g.said(code, WEIR_MODE="observe"), [["ran"], [1]])
    equal(g.said(code, WEIR_MODE="off"), [["ran"], [0]])
    equal(g.said(code, WEIR_MODE="nonsense"), [["ran"], [0]])
    with g.server.web() as w:
        w.good("POST", "/v1/settings/site.shop.mode", {"value": "observe"})
        equal(g.said(code), [["ran"], [1]])
        equal(g.said(code, WEIR_MODE="enforce"), [["ran"], [1]])
        w.good("POST", "/v1/settings/site.shop.mode", {"value": "test_observe"})
        equal(g.said(code), [["ran"], [0]])
    equal(g.action(sync), before, "the row")
    equal(g.site.sql("SELECT * FROM wp_actionscheduler_logs"), [])
    g.server.stop()


@test("code may let an action run; an action that already runs, or has no date, is left alone")
def overridden(folder):
    g = Gated(folder)
    sync = g.site.add_action("klaviyo_sync", args="'[42]'")
    equal(g.said("""add_filter('weir_is_wait', function ($is, $hook, $args) {
        return $is && $hook === 'klaviyo_sync' && $args !== '[42]'; }, 10, 3);""" + fire(sync)), ["ran"])
    running = g.site.add_action("klaviyo_sync", status="'in-progress'")
    undated = g.site.add_action("klaviyo_sync", when="'0000-00-00 00:00:00'")
    for number in (running, undated, 999999):
        equal(g.said(fire(number)), ["ran"])
    equal(g.said("add_filter('weir_is_wait', '__return_true');" + fire(g.site.add_action("wc_payment_x"))),
          ["ran"], "weir has the last word about a payment")
    g.server.stop()


# As Action Scheduler claims: before 3.9.3, and since.
CLAIMS = ("UPDATE $t SET claim_id=$id, last_attempt_gmt='$now', last_attempt_local='$now' %s",
          "UPDATE $t t1 JOIN ( SELECT action_id from $t %s FOR UPDATE SKIP LOCKED ) t2"
          " ON t1.action_id = t2.action_id SET claim_id=$id, last_attempt_gmt='$now', last_attempt_local='$now'")
WHERE = "WHERE claim_id = 0 AND scheduled_date_gmt <= '$now' AND status='pending'$more $order LIMIT $n"
CLAIM = """$asked = 0; add_filter('weir_timeout_ms', function ($ms) use (&$asked) { $asked++; return $ms; });
function claim($id, $n = 25, $more = '') {
    global $wpdb; $t = $wpdb->prefix . 'actionscheduler_actions'; $now = gmdate('Y-m-d H:i:s');
    $order = apply_filters('action_scheduler_claim_actions_order_by',
        'ORDER BY priority ASC, attempts ASC, scheduled_date_gmt ASC, action_id ASC');
    $n = $wpdb->query("%s");
    $hooks = $wpdb->get_col("SELECT hook FROM $t WHERE claim_id = $id ORDER BY scheduled_date_gmt, action_id");
    return $n === count($hooks) ? implode(' ', $hooks) : "told $n of " . count($hooks);
}
"""


def claim_code(form=0):
    return CLAIM % (CLAIMS[form] % WHERE)


ODD = "pay_100%s_it's\\_%d"  # of the critical tier by its name


def add_due(site, *hooks):
    """Unclaimed ones, the first is the oldest.  With the priority that weir could give a payment."""
    for i, hook in enumerate(hooks):
        site.add_action(hook, "UTC_TIMESTAMP() - INTERVAL %d SECOND" % (900 - 10 * i), claim_id="0",
                        priority="0")


def claimed_anew(site, *hooks):
    site.sql("DELETE FROM wp_actionscheduler_actions WHERE scheduled_date_gmt < UTC_TIMESTAMP()")
    add_due(site, *hooks)


@test("a claim takes actions of the critical tier alone while some are due, then what it takes without weir")
def critical_first(folder):
    g = Gated(folder, hooks=("wc_payment_x", "klaviyo_sync"), load=1)
    for form in range(len(CLAIMS)):
        claimed_anew(g.site, "klaviyo_sync", "other", "klaviyo_sync", "wc_payment_x", "other", "wc_payment_x",
                     "wc_payment_x")
        got = g.said(claim_code(form) + "say(claim(1, 2), claim(2), claim(3, 3), claim(4), claim(5), $asked);")
        equal(got, ["wc_payment_x wc_payment_x", "wc_payment_x", "klaviyo_sync other klaviyo_sync", "other", "", 1],
              CLAIMS[form])
    equal(g.site.complaints(), [])
    g.server.stop()


@test("hooks of the critical tier may hold quotes and percent signs")
def odd_hooks(folder):
    g = Gated(folder, hooks=(ODD,), load=1)
    with g.server.web() as w:
        w.good("POST", "/v1/registry/" + urllib.request.quote(ODD, safe=""), {"tier": "critical"})
        until(lambda: w.good("GET", "/v1/sites/shop/first")["hooks"] == [ODD], what="the hook")
    for form in range(len(CLAIMS)):
        claimed_anew(g.site, "klaviyo_sync", ODD)
        equal(g.said(claim_code(form) + "say(claim(1), claim(2));"), [ODD, "klaviyo_sync"])
    g.server.stop()


@test("a claim of the rest goes by ids, found among the oldest by the index of dates if there is one")
def claim_of_the_rest(folder):
    g = Gated(folder, hooks=("wc_payment_x",), load=1)
    name = "status_scheduled_date_gmt"
    seen = """ $seen = array(); add_filter('query', function ($sql) use (&$seen) {
        if (strpos($sql, ' AS oldest') || strpos($sql, 'UPDATE') === 0) $seen[] = $sql; return $sql; }, 2000); """

    def claim(form):
        claimed_anew(g.site, "klaviyo_sync")
        got, sql = g.said(claim_code(form) + seen + "say(claim(1), $seen);")
        equal((got, len(sql)), ("klaviyo_sync", 2), sql)
        expect(" AND action_id IN (" in sql[1], sql[1])
        return "FORCE INDEX (%s)" % name in sql[0]
    for form in range(len(CLAIMS)):
        expect(claim(form), "the index is used")
        g.site.sql("ALTER TABLE wp_actionscheduler_actions RENAME INDEX %s TO other" % name)
        try:
            expect(not claim(form), "there is no such index")
        finally:
            g.site.sql("ALTER TABLE wp_actionscheduler_actions RENAME INDEX other TO " + name)
    g.server.stop()


@test("a claim is not left empty when another runner was faster, and a deadlock costs one try")
def faster_runner(folder):
    g = Gated(folder, hooks=("wc_payment_x",), load=1)
    meddle = claim_code() + """
        $do = ''; $seen = 0;
        add_filter('query', function ($sql) use (&$do, &$seen) {
            if (strpos($sql, 'UPDATE') !== 0 || strpos($sql, ' AND action_id IN (') === false) return $sql;
            $seen++;
            if ($do === 'faster') { $do = '';
                $other = new wpdb(DB_USER, DB_PASSWORD, DB_NAME, DB_HOST);
                $other->query("UPDATE wp_actionscheduler_actions SET claim_id = 99 WHERE hook = 'wc_payment_x'"); }
            if ($do === 'deadlock' && $seen === 1 || $do === 'broken') { return 'UPDATE nothing SET x = 1'; }
            return $sql; }, 2000);
        """
    for do, wanted in (("faster", ["klaviyo_sync", 2]), ("deadlock", ["wc_payment_x", 2]),
                       ("broken", ["klaviyo_sync wc_payment_x", 3])):
        claimed_anew(g.site, "klaviyo_sync", "wc_payment_x")
        equal(g.said(meddle + "$do = '%s'; say(claim(1), $seen);" % do), wanted, do)
    g.server.stop()


@test("a claim that its caller or another plugin restricts is left alone, and weir is not told that it orders")
def restricted_claims(folder):
    g = Gated(folder, hooks=("wc_payment_x",), load=1)
    add_due(g.site, "klaviyo_sync", "wc_payment_x")
    for more in (" AND hook IN ('klaviyo_sync', 'wc_payment_x')", " AND group_id IN ( 0 )",
                 " AND group_id NOT IN ( 5 )"):
        equal(g.said(claim_code() + "say(claim(1, 1, \"%s\"), $asked);" % more), ["klaviyo_sync", 0], more)
        g.site.sql("UPDATE wp_actionscheduler_actions SET claim_id = 0")
    equal(g.said(claim_code() + """add_filter('action_scheduler_claim_actions_order_by', function ($order) {
        return "AND hook NOT IN ('wc_payment_x') " . $order; }); say(claim(1), $asked);"""), ["klaviyo_sync", 0])
    g.server.stop()


@test("claims keep their order in observe, with front switched off, and while weir is away")
def order_kept(folder):
    g = Gated(folder, hooks=("wc_payment_x",), more="front = false", load=1)
    add_due(g.site, "klaviyo_sync", "wc_payment_x")
    forget_breaker(g.site)

    def first(**constants):
        got = g.said(claim_code() + "say(claim(1, 1), $asked);", **constants)
        g.site.sql("UPDATE wp_actionscheduler_actions SET claim_id = 0")
        return got
    equal(first(), ["klaviyo_sync", 1])
    g.server.stop()
    g = Gated(folder, hooks=("wc_payment_x",), load=1)
    add_due(g.site, "klaviyo_sync", "wc_payment_x")
    equal(first(), ["wc_payment_x", 1], "what it is otherwise")
    equal(first(WEIR_MODE="observe"), ["klaviyo_sync", 0])
    equal(first(WEIR_SITE=""), ["klaviyo_sync", 0])
    equal(first(WEIR_SITE="other"), ["klaviyo_sync", 1])
    with g.server.web() as w:
        w.good("POST", "/v1/settings/site.shop.mode", {"value": "observe"})
    equal(first(), ["klaviyo_sync", 1])
    g.server.stop()
    equal(first(), ["klaviyo_sync", 1])
    equal(first(), ["klaviyo_sync", 0], "the breaker")
    forget_breaker(g.site)


@test("the tier that code decides reaches the guard over a restart, is taken back, and loses to the operator")
def code_tiers(folder):
    g = Gated(folder, load=1)
    site = g.site
    site.plugin("a_tiers", "defined('CODE_TIER') && add_filter('weir_priority', function ($tier, $hook) {"
                " return $hook === 'klaviyo_sync' || $hook === 'mine' ? CODE_TIER : $tier; }, 10, 2);")
    try:
        with g.server.web() as w:
            add_due(site, "klaviyo_sync", "mine", "other")
            w.good("POST", "/v1/registry/mine", {"tier": "deferrable"})

            def tiers():
                return {x["hook"]: (x["tier"], x["registry"], x["code"])
                        for x in w.good("GET", "/v1/sites/shop")["hooks"]}
            until(lambda: sorted(tiers()) == ["klaviyo_sync", "mine", "other"], what="the hooks")
            code = claim_code() + "claim(1, 0); say($asked);"
            equal(g.said(code), [1], "requests without such code")
            equal(g.said(code, CODE_TIER="urgent"), [2], "requests for a word that is no tier")
            equal(g.said(code, CODE_TIER="critical"), [4])
            changed = {"klaviyo_sync": ("critical", "deferrable", "critical"),
                       "mine": ("deferrable", "deferrable", "critical"), "other": ("normal", "normal", "")}
            equal(tiers(), changed)
            equal(w.good("GET", "/v1/sites/shop/first")["hooks"], ["klaviyo_sync"])
            equal(g.said(code, CODE_TIER="critical", WEIR_MODE="observe"), [0])
        g.server.kill()
        server = Server(folder, http="%s:%d" % g.server.http, config=g.config)
        with server.web() as w:
            until(lambda: w.good("GET", "/v1/sites/shop")["surveyed_ms"], what="a survey")
            equal({x["hook"]: (x["tier"], x["registry"], x["code"])
                   for x in w.good("GET", "/v1/sites/shop")["hooks"]}, changed, "after a restart")
            g.said(claim_code() + "claim(1, 0); claim(2, 0);")  # it has no such code any more
            equal({x["code"] for x in w.good("GET", "/v1/sites/shop")["hooks"]}, {""})
        server.stop()
    finally:
        os.unlink(site.root + "/wp-content/mu-plugins/a_tiers.php")
    equal(site.complaints(), [])


@test("a level caps the number of batches and, if wanted, the time of a runner; never more than was there, "
      "and not the size of a batch")
def capped(folder):
    g = Gated(folder)
    ask = ("say(apply_filters('action_scheduler_queue_runner_batch_size', %d),"
           " apply_filters('action_scheduler_queue_runner_concurrent_batches', %d),"
           " apply_filters('action_scheduler_queue_runner_time_limit', 30));")
    equal(g.said(ask % (25, 5)), [25, 1, 30])
    equal(g.said(ask % (0, 0), WEIR_TIME_LIMIT=10), [0, 0, 10])
    equal(g.said(ask % (25, 5), WEIR_MODE="observe", WEIR_TIME_LIMIT=10), [25, 5, 30])
    g.load(1)
    g.level("normal")
    equal(g.said(ask % (25, 5), WEIR_TIME_LIMIT=10), [25, 5, 30])
    g.server.stop()


@test("without weir, and with a weir that does not know the site, actions run as usual")
def unknown_site(folder):
    server, site = Server(folder), attached()
    forget_breaker(site)
    site.create_action_scheduler()
    action = site.add_action("klaviyo_sync")
    before = site.sql("SELECT * FROM wp_actionscheduler_actions")
    for where in (url(server), "http://127.0.0.1:%d" % free_port()):
        equal(said(site, fire(action), WEIR_URL=where), ["ran"])
        equal(said(site, "say(apply_filters('action_scheduler_queue_runner_batch_size', 25),"
                         " apply_filters('action_scheduler_queue_runner_concurrent_batches', 2),"
                         " apply_filters('action_scheduler_queue_runner_time_limit', 30),"
                         " apply_filters('action_scheduler_timeout_period', 300));", WEIR_URL=where),
              [25, 2, 30, 300])
    equal(site.sql("SELECT * FROM wp_actionscheduler_actions"), before)
    server.stop()


@test("a cap on the time of a runner does not make Action Scheduler's cleaner hasty")
def cleaner(_):
    equal(said(lonely(), """say(apply_filters('action_scheduler_timeout_period', 100),
        apply_filters('action_scheduler_failure_period', 100),
        apply_filters('action_scheduler_failure_period', 900),
        apply_filters('action_scheduler_failure_period', -1));""", WEIR_TIME_LIMIT=10), [300, 300, 900, -1])


# ---------------------------------------------------------------- WP-CLI

# Debian has no WP-CLI: a class with its output functions stands in for it.
WP_CLI = """
namespace WP_CLI\\Utils {
    function format_items($format, $rows, $fields) {
        foreach ($rows as $row) { \\WP_CLI::line(implode("\\t", array_intersect_key($row, array_flip($fields)))); }
    }
}
namespace {
define('WP_CLI', true);
class WP_CLI_Ended extends Exception {}
class WP_CLI {
    public static $commands = array();
    static function add_command($name, $class) { self::$commands[$name] = $class; }
    static function line($text) { echo $text, "\\n"; }
    static function success($text) { echo 'Success: ', $text, "\\n"; }
    static function error($text) { echo 'Error: ', $text, "\\n"; throw new WP_CLI_Ended(); }
    static function confirm($text, $options) {
        if (empty($options['yes'])) { echo $text, "\\n"; throw new WP_CLI_Ended(); } }
    static function run($name, $method, $args = array(), $options = array()) {
        $command = new self::$commands[$name]();
        try { $command->$method($args, $options); } catch (WP_CLI_Ended $e) {} }
}
}
"""


@test("wp queryguard throttle and mutex, and the same under wp weir")
def wp_cli(folder):
    server = Server(folder)
    site = Site(database(), weir_url=url(server))
    site.plugin("a_cli", WP_CLI)

    def wp(name, method, args="array()", options="array()", **constants):
        return site.php("WP_CLI::run('%s', '%s', %s, %s);" % (name, method, args, options), **constants)
    equal(sorted(json.loads(site.php("echo json_encode(array_keys(WP_CLI::$commands));"))),
          ["queryguard mutex", "queryguard throttle", "weir mutex", "weir throttle"])
    out = wp("queryguard throttle", "status")
    expect('site: weir.conf has no section wordpress "shop", so actions run as usual\n'
           "weir's own jobs:\nlevel: normal\nmode: off\npaused: no\n" in out, out)
    out = wp("weir throttle", "status", WEIR_SITE="")
    expect("site: WEIR_SITE is not set in wp-config.php, so actions run as usual\nweir's own jobs:\n" in out, out)
    expect("'soon' is not a time" in wp("weir throttle", "pause", options="array('for' => 'soon')"), "it is told")
    expect("Success" in wp("weir throttle", "pause", options="array('for' => '30m')"), "a pause")
    with server.web() as w:
        left = w.good("GET", "/v1/throttle")["pause_left_ms"]
        expect(1700000 < left <= 1800000, left)
        expect(re.search(r"^paused: yes, for 1[78]\d\d s more$", wp("weir throttle", "status"), re.M), "it is shown")
        expect("throttle_paused" in wp("queryguard throttle", "history"), "it is in the history")
        expect("Success" in wp("queryguard throttle", "resume"), "the end")
        expect(not w.good("GET", "/v1/throttle")["paused"], "it still pauses")
    site.php("weir_acquire_lock('report', 600);")
    out = wp("queryguard mutex", "list_")
    expect(re.search(r"^report\theld\t\d+\t\d+$", out, re.M), out)
    expect("away from its holder?" in wp("weir mutex", "release", "array('report')"), "it asks")
    expect("is free now" in wp("weir mutex", "release", "array('report')", "array('yes' => true)"), "it is free")
    expect("Error: the lock 'report' is free" in
           wp("weir mutex", "release", "array('report')", "array('yes' => true)"), "it says so")
    equal(json.loads(wp("weir mutex", "list_", options="array('format' => 'json')")), [])
    server.stop()
    expect("Error: weir does not answer at http://" in wp("weir throttle", "status"), "it says so")
    equal(site.complaints(), [])


@test("wp queryguard throttle status tells of the site: level and why, mode, batches, what is deferred, due, running")
def site_status(folder):
    g = Gated(folder, hooks=("klaviyo_sync",))
    g.site.plugin("a_cli", WP_CLI)
    try:
        g.said(fire(g.site.add_action("klaviyo_sync")))
        status = "WP_CLI::run('%s throttle', 'status', array(), %s);"
        for word in ("queryguard", "weir"):
            out = g.site.php(status % (word, "array()"), WEIR_URL=url(g.server))
            for line in ("site: shop", "level: critical (the load of shop is critical: threads 20, threshold 15)",
                         "mode: enforce", "paused: no", "batch size: 25", "concurrent batches: 1",
                         "active deferrals: 1", "due: 0", "running: 0",
                         "deferrable: waits 3600 s, 0 due, 1 deferred, 0 running"):
                expect(line + "\n" in out, "%r is not in: %s" % (line, out))
        out = g.site.php(status % ("weir", "array()"), WEIR_URL=url(g.server), WEIR_MODE="observe")
        expect("mode: enforce, in this WordPress observe by WEIR_MODE\n" in out, out)
        told = json.loads(g.site.php(status % ("weir", "array('format' => 'json')"), WEIR_URL=url(g.server)))
        equal((told["mode"], told["site"]["level"], told["site"]["moved"], told["site"]["mode_here"],
               told["site"]["batches"]), ("off", "critical", 1, "enforce", 1))
        with g.server.web() as w:
            w.good("POST", "/v1/throttle", {"action": "pause", "untilresumed": True})
        expect("paused: yes, until resumed\n" in g.site.php(status % ("weir", "array()"), WEIR_URL=url(g.server)), "it pauses")
    finally:
        os.unlink(g.site.root + "/wp-content/mu-plugins/a_cli.php")
    equal(g.site.complaints(), [])
    g.server.stop()


@test("history shows 50 events unless told otherwise")
def history_count(folder):
    server = Server(folder)
    site = attached()
    forget_breaker(site)
    site.plugin("a_cli", WP_CLI)
    try:
        with server.web() as w:
            for i in range(30):
                w.good("POST", "/v1/throttle", {"action": "pause"})
                w.good("POST", "/v1/throttle", {"action": "resume"})
        for options, n in (("array()", 50), ("array('count' => '7')", 7)):
            out = site.php("WP_CLI::run('queryguard throttle', 'history', array(), %s);" % options,
                           WEIR_URL=url(server))
            equal(len(out.splitlines()), n, out)
    finally:
        os.unlink(site.root + "/wp-content/mu-plugins/a_cli.php")
    server.stop()


@test("code written for QueryGuard finds its class, and releases its lock without a token")
def query_guard_class(folder):
    server, site = Server(folder), attached()
    forget_breaker(site)
    set_row(site, "'7|0||k'")
    equal(said(site, """say((bool) QueryGuard::acquire_lock('k', 600), QueryGuard::acquire_lock('k'),
        QueryGuard::is_locked('k'), QueryGuard::release_lock('k'), QueryGuard::is_locked('k'),
        QueryGuard::release_lock('k'), QueryGuard::release_lock(array()), QueryGuard::get_priority('nofraud_x'));
        $t = QueryGuard::acquire_lock('k'); say(QueryGuard::release_lock('k', str_repeat('0', 32)),
        QueryGuard::release_lock('k', $t));""", WEIR_URL=url(server)),
          [[True, False, True, True, False, False, False, "critical"], [False, True]])
    token = hold(site)
    equal(said(site, """say(QueryGuard::release_lock('k'), QueryGuard::is_locked('k'), QueryGuard::force_release('k'),
        QueryGuard::force_release('k', 'again'), QueryGuard::is_locked('k'));""", WEIR_URL=url(server)),
          [False, True, True, False, False], token)
    site.plugin("z_guard", "class QueryGuard { static function is_locked($key) { return 'theirs'; } }")
    try:
        equal(said(site, "say(QueryGuard::is_locked('k'));", WEIR_URL=url(server)), ["theirs"])
    finally:
        os.unlink(site.root + "/wp-content/mu-plugins/z_guard.php")
    server.stop()


# ---------------------------------------------------------------- set-up without wp-config.php


@functools.lru_cache(None)
def unset():
    """A site whose wp-config.php says nothing of weir."""
    site = Site(database(), weir_site="")
    site.create_action_scheduler()
    return site


def tried(code="array()", **constants):
    """What a test of the connection says: [kind, text] of each line."""
    return [[kind, text] for kind, _, text in said(unset(), """
        $lines = Weir_Trial::run(%s); say(...$lines);""" % code, **constants)]


def typed(**values):
    return "array(%s)" % ", ".join("'%s' => %s" % (k, repr_php(v)) for k, v in values.items())


@test("what the page stores is used, is loaded by no page, and loses to wp-config.php")
def stored_settings(folder):
    server = Server(folder)
    unset().php("Weir_Settings::store(%s);" % typed(url=url(server), site="stored"))
    ask = "say(Weir_Settings::url(), Weir_Settings::site(), Weir_Settings::token(), weir_get_priority('nofraud_x'));"
    equal(said(unset(), ask), [url(server), "stored", "", "critical"])
    equal(said(unset(), ask, WEIR_SITE="fixed")[1], "fixed")
    equal(unset().sql("SELECT autoload FROM wp_options WHERE option_name = 'weir_settings'"), [["no"]])
    # A token of wp-config.php is sent to no address that was typed in wp-admin.
    equal(said(unset(), ask, WEIR_TOKEN="correct horse battery")[:3],
          ["http://127.0.0.1:7380", "stored", "correct horse battery"])
    unset().php("Weir_Settings::store(%s);" % typed(url="", site=""))
    equal(said(unset(), ask)[:3], ["http://127.0.0.1:7380", "", ""])
    server.stop()


@test("what is typed wrong is named with what is allowed, and a token stays with its address")
def typed_settings(_):
    def problem(stored="array()", **values):
        return said(unset(), "update_option('weir_settings', %s); say(Weir_Setup::problem(%s));" % (
            stored, typed(**values)))[0]
    for bad in ("ftp://h:1", "h:7380", "unix:", "http://", "http://a b", "http://user@h", "http://h:99999"):
        expect("must be http://host:port, https://host:port or unix:/path" in problem(url=bad), bad)
    for bad in ("a/b", "x" * 65, "\x01"):
        expect("at most 64 bytes" in problem(site=bad), bad)
    for bad in ("short", "with spaces " * 3, "x" * 513):
        expect("16 to 512" in problem(token=bad), bad)
    equal(problem(url="https://h:1/weir", site="s" * 64, token="x" * 512), "")
    kept = typed(url="http://a:1", token="correct-horse-battery")
    expect("type the access token again" in problem(kept, url="http://b:1"), "another address")
    expect("type the access token again" in problem(kept, url=""), "the usual address")
    equal(problem(kept, url="http://a:1"), "")
    equal(problem(kept, url="http://b:1", token="correct-horse-battery"), "")
    unset().php("delete_option('weir_settings');")


@test("a test of the connection says what works and what does not, and the breaker hears nothing of it")
def trials(folder):
    forget_breaker(unset())
    token = "correct-horse-battery-staple"
    server = Server(folder, token=token, config="""target "t" { kind = "command" command = {"echo", "1"}
        metric "threads" { elevated = {5, 3} } }
        wordpress "closed" { database = "x" user = "x" target = "t" mode = "off" }""")
    authority = Authority(folder, "ours")
    front = Front(server.http[1], authority.sign("server", "DNS:localhost"))
    where = "http://127.0.0.1:%d" % free_port()
    equal(tried(typed(url=where)), [["bad", "weir does not answer at %s: Connection refused" % where]])
    secure = "https://localhost:%d" % front.port
    [[kind, text]] = tried(typed(url=secure))
    expect(kind == "bad" and "WEIR_TLS_CA" in text, text)
    equal(tried(typed(url=secure), WEIR_TLS_CA=authority.cert)[0],
          ["ok", "weir answers at %s: encrypted, and its certificate is good" % secure])
    expect("its certificate is not looked at" in tried(typed(url=secure), WEIR_TLS_VERIFY="off")[0][1], "off")
    for secret, why in (("", "there is none"), ("wrong" * 4, "does not know this access token")):
        lines = tried(typed(url=url(server), token=secret))
        equal([kind for kind, _ in lines], ["ok", "bad"])
        expect(why in lines[1][1], lines)
    lines = tried(typed(url=url(server), token=token, site="shop"))
    equal(lines[-1], ["bad", 'weir.conf has no section wordpress "shop"; weir knows: closed'])
    lines = tried(typed(url=url(server), token=token, site="closed"))
    equal({kind for kind, _ in lines}, {"ok"})
    expect("closed: mode off, level " in lines[-1][1] and "weir " in lines[1][1], lines)
    with server.web() as w:
        narrow = w.good("POST", "/v1/tokens/php", {"role": "checker,locker"})
    lines = tried(typed(url=url(server), token=narrow["secret"], site="closed"))
    equal([(kind, text.split(":")[0].split()[-1]) for kind, text in lines if "has not the role" in text],
          [("note", role) for role in ("producer", "reader", "operator", "admin")])
    expect("closed: mode off" in lines[-1][1], lines)
    equal(breaker_files(unset()), [])
    front.close()
    server.kill()


@test("with the user, the statements and the sections that the page shows, weir finds nothing missing")
def needs(folder):
    sections, metric, grants = said(unset(), "say(Weir_Setup::sections(), Weir_Setup::metric(), Weir_Setup::grants());",
                                    WEIR_SITE='s"h\\op')
    with open(folder + "/password", "w", opener=lambda p, f: os.open(p, f, 0o600)) as f:
        f.write("A-PASSWORD\n")
    expect("password_file" in sections and "A-PASSWORD" not in sections, sections)
    unset().sql(*(x for x in grants.splitlines() if not x.startswith("--")))
    sections = sections.replace("/etc/weir/wordpress.password", folder + "/password")
    sections = sections.replace('"threads_running" {}', '"threads_running" {}\n' + metric).replace('"observe"', '"enforce"')
    with open(folder + "/weir.conf", "w") as f:
        f.write(sections)
    done = weir("wordpress", "check", "-c", folder + "/weir.conf")
    expect("0 to fix" in done.stdout and "ok    privileges all that this mode can use" in done.stdout,
           done.stdout + done.stderr)
    unset().sql("INSERT INTO wp_actionscheduler_actions (hook, status, scheduled_date_gmt, args, schedule)"
                " VALUES ('h', 'pending', UTC_TIMESTAMP() - INTERVAL 1 DAY, '[]', ''),"
                " ('h', 'pending', UTC_TIMESTAMP() + INTERVAL 1 DAY, '[]', '')")
    done = weir("probe", "-c", folder + "/weir.conf")
    expect(re.search(r"actions_due +1 ", done.stdout), done.stdout + done.stderr)


@test("sites of a network have settings of their own, which only its administrator may change")
def network_settings(_):
    site = Site(database(), weir_site="")
    site.make_network(False)
    site.add_blog("net.example", "/two/")
    equal(said(site, """Weir_Settings::store(array('site' => 'one')); $one = Weir_Settings::site();
        switch_to_blog(2); $two = Weir_Settings::site(); Weir_Settings::store(array('site' => 'two'));
        $new = Weir_Settings::site(); restore_current_blog();
        say($one, $two, $new, Weir_Settings::site(), Weir_Settings::setup_capability());""",
               env={"HTTP_HOST": "net.example", "REQUEST_URI": "/"}),
          ["one", "", "two", "one", "manage_network_options"])
    refused = said(site, """wp_set_current_user(wp_insert_user(array('user_login' => 'boss', 'user_pass' => 'x',
            'role' => 'administrator')));
        add_filter('wp_die_handler', function () { return function ($text) { throw new Exception($text); }; });
        foreach (array('setup', 'mutex') as $do) {
            $_POST = array('weir_do' => $do, 'url' => 'http://10.0.0.1:80');
            try { Weir_Admin::save(); } catch (Exception $e) { say($e->getMessage()); }
        }""", env={"HTTP_HOST": "net.example", "REQUEST_URI": "/"})
    equal(refused[0], ["You may not change weir."])
    expect(refused[1] != refused[0], "an administrator of one site changes the rest, with a nonce: %s" % refused)
    unpack_into(site)
    uninstall = """define('WP_UNINSTALL_PLUGIN', 'weir/weir.php');
        require WP_CONTENT_DIR . '/plugins/weir/uninstall.php';"""
    left = "SELECT option_value LIKE '%%%s%%' FROM %soptions WHERE option_name IN ('weir_settings', 'blogname')"
    env = {"HTTP_HOST": "net.example", "REQUEST_URI": "/"}
    site.php(uninstall, env=env)
    equal(len(site.sql(left % ("one", "wp_"))), 2, "a must-use copy keeps its settings")
    os.unlink(site.root + "/wp-content/mu-plugins/weir.php")
    site.php(uninstall, env=env)
    equal([len(site.sql(left % ("x", prefix))) for prefix in ("wp_", "wp_2_")], [1, 1], "other options")


# ---------------------------------------------------------------- the plugin as a zip

PACK = os.path.join(os.path.dirname(PLUGIN), "..", "..", "tools", "wordpress-zip")


def unpack_into(site):
    subprocess.run([PACK, site.folder + "/weir.zip"], check=True, stdout=subprocess.DEVNULL)
    with zipfile.ZipFile(site.folder + "/weir.zip") as z:
        z.extractall(site.root + "/wp-content/plugins")


@test("the zip has the same bytes each time, the plugin in a folder, and the version of weir")
def the_zip(folder):
    for name in ("a", "b"):
        subprocess.run([PACK, "%s/%s.zip" % (folder, name)], check=True, stdout=subprocess.DEVNULL,
                       env={**os.environ, "TZ": "Asia/Tokyo" if name == "a" else "UTC"})
    with open(folder + "/a.zip", "rb") as a, open(folder + "/b.zip", "rb") as b:
        expect(a.read() == b.read(), "two runs differ")
    with zipfile.ZipFile(folder + "/a.zip") as z:
        equal(z.namelist(), ["weir/" + x for x in ("readme.txt", "uninstall.php", "weir-runner.php", "weir.php")])
        code, readme = (z.read("weir/" + x).decode() for x in ("weir.php", "readme.txt"))
    version = weir("--version").stdout.split()[1]
    equal(re.findall(r"^ \* Version: (.*)", code, re.M) + re.findall("^Stable tag: (.*)", readme, re.M),
          [version, version])


@test("a normal plugin beside the must-use one does nothing, in whichever order they are compiled")
def two_copies(_):
    site = unset()
    unpack_into(site)
    both = """require_once WP_CONTENT_DIR . '/plugins/weir/weir.php';
        say(basename(dirname(WEIR_FILE)), basename(dirname(WEIR_SPARE_FILE)), (bool) ($t = weir_acquire_lock('two')),
        weir_release_lock('two', $t), has_action('action_scheduler_before_execute', array('Weir_Gate', 'before_execute')));"""
    first = os.path.basename(os.path.dirname(PLUGIN))
    equal(said(site, both), [first, "weir", True, True, 5])
    # Alone, as a normal plugin; PHP keeps what it compiled, and the other copy comes then.
    away = site.root + "/wp-content/mu-plugins/weir.php"
    os.unlink(away)
    site.php("update_option('active_plugins', array('weir/weir.php'));")
    equal(said(site, "say(basename(dirname(WEIR_FILE)), defined('WEIR_SPARE_FILE'), weir_is_locked('two'));"),
          ["weir", False, False])
    os.symlink(PLUGIN, away)
    equal(said(site, "say(basename(dirname(WEIR_FILE)), basename(dirname(WEIR_SPARE_FILE)));"), [first, "weir"])
    site.php("update_option('active_plugins', array());")


# ---------------------------------------------------------------- the file itself


@test("on the front page the plugin asks neither the database nor weir")
def front_page(_):
    site, mute = attached(), Mute()
    forget_breaker(site)
    site.plugin("z_seen", """define('SAVEQUERIES', true); add_action('shutdown', function () {
        global $wpdb; $own = array_filter($wpdb->queries, function ($q) {
            return stripos($q[0] . $q[2], 'weir') !== false; });
        echo '<!-- ' . count($wpdb->queries) . ' queries, ' . count($own) . ' of weir -->'; });""")
    page = urllib.request.urlopen(site.serve(WEIR_URL=mute.url)).read().decode()
    site.stop()
    os.unlink(site.root + "/wp-content/mu-plugins/z_seen.php")
    expect(re.search(r"<!-- [1-9]\d* queries, 0 of weir -->", page), page[-200:])
    equal(mute.count(), 0, "connections")


# What PHP 7.4 does not know, by the names of tokens and functions; PHP 8.2's own tokenizer looks.
NEWER = r"""
$found = array();
$tokens = array_values(array_filter(token_get_all(file_get_contents($argv[1])), function ($t) {
    return !is_array($t) || !in_array($t[0], array(T_WHITESPACE, T_COMMENT, T_DOC_COMMENT)); }));
$text = function ($i) use ($tokens) {
    return !isset($tokens[$i]) ? '' : (is_array($tokens[$i]) ? $tokens[$i][1] : $tokens[$i]); };
foreach ($tokens as $i => $t) {
    $name = is_array($t) ? token_name($t[0]) : '';
    $line = is_array($t) ? $t[2] : 0;
    if (in_array($name, array('T_MATCH', 'T_ENUM', 'T_READONLY', 'T_NULLSAFE_OBJECT_OPERATOR', 'T_ATTRIBUTE',
            'T_AMPERSAND_FOLLOWED_BY_VAR_OR_VARARG_8'))) $found[] = "$name, line $line";
    if ($name === 'T_STRING' && in_array($t[1], array('str_contains', 'str_starts_with', 'str_ends_with',
            'get_debug_type', 'array_is_list', 'mixed', 'never', 'fdiv', 'get_resource_id', 'enum_exists')))
        $found[] = "{$t[1]}, line $line";
    if ($name === 'T_STRING' && $text($i + 1) === ':' && in_array($text($i - 1), array('(', ',')))
        $found[] = "a named argument {$t[1]}, line $line";
    if ($name === 'T_STRING' && $text($i + 1) === '|' && isset($tokens[$i + 3]) && is_array($tokens[$i + 3])
            && $tokens[$i + 3][0] === T_VARIABLE) $found[] = "a union type {$t[1]}, line $line";
    if (in_array($name, array('T_PUBLIC', 'T_PRIVATE', 'T_PROTECTED')) && in_array($text($i - 1), array('(', ',')))
        $found[] = "a promoted property, line $line";
    if ($name === 'T_CATCH' && $text($i + 3) === ')') $found[] = "a catch without a variable, line $line";
    if ($name === 'T_THROW' && !in_array($text($i - 1), array(';', '{', '}', ')', ':')))
        $found[] = "throw as an expression, line $line";
    if ($name === 'T_CLASS' && $text($i - 1) === '::' && is_array($tokens[$i - 2])
            && $tokens[$i - 2][0] === T_VARIABLE) $found[] = "\$object::class, line $line";
    if ($name === 'T_FUNCTION') {
        for ($j = $i, $deep = 0; $j < count($tokens); $j++) {
            $deep += ($text($j) === '(') - ($text($j) === ')');
            if ($text($j) === ')' && $deep === 0) break;
        }
        if ($text($j - 1) === ',') $found[] = "a comma after the last parameter, line $line";
    }
}
echo implode("\n", $found);
"""


@test("php -l accepts the file, and it holds nothing that PHP 7.4 does not know")
def syntax(folder):
    def php(*args):
        return subprocess.run(["php"] + list(args), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    done = php("-d", "error_reporting=-1", "-l", PLUGIN)
    equal(done.returncode, 0, done.stdout)
    equal(php("-r", NEWER, "--", PLUGIN).stdout, "")
    bad = os.path.join(folder, "bad.php")
    with open(bad, "w") as f:
        f.write("<?php class A { function __construct(private int $x,) {} function f(int|null $x) {"
                " g(a: 1); $x?->y; return match (1) { 1 => str_contains('a', 'b') }; } }")
    equal(len(php("-r", NEWER, "--", bad).stdout.splitlines()), 7, "what the check itself finds")


@test("PHP has nothing to complain about at E_ALL")
def no_complaints(_):
    for site in (lonely(), attached(), unset()):
        wrong = [x for x in site.complaints() if "_doing_it_wrong" not in x and "incorrectly" not in x]
        equal(wrong, [])


if __name__ == "__main__":
    main()
