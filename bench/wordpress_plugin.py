#!/usr/bin/python3
"""What weir's must-use plugin adds to a request of WordPress: with weir up, and with weir away after
the breaker has opened.

    bench/wordpress_plugin.py [rounds]

Pages are asked one at a time from `php -S` with opcache, in turns with the plugin and without it, so
that whatever else the machine does meets both.  A number is the median of all; what the plugin adds
is the median of the differences of neighbours.  Calls are measured inside of PHP.
"""
import http.client
import os
import statistics
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "tests", "integration"))

from lib_databases import free_port  # noqa: E402
from lib_wordpress import PLUGIN, Site, maria  # noqa: E402
from harness import Server  # noqa: E402

ROUNDS = int(sys.argv[1]) if len(sys.argv) > 1 else 300
CALLS = 300
OPCACHE = ("-d", "opcache.enable=1", "-d", "opcache.enable_cli=1")

CALL = """$ms = array(); for ($i = 0; $i < %d; $i++) { $t = hrtime(true); %s; $ms[] = (hrtime(true) - $t) / 1e6; }
sort($ms); echo $ms[intdiv(count($ms), 2)];"""


def page(connection):
    begin = time.perf_counter()
    connection.request("GET", "/")
    answer = connection.getresponse()
    body = answer.read()
    took = (time.perf_counter() - begin) * 1000
    if answer.status != 200 or b"front page" not in body:
        raise SystemExit("the front page is missing: %d" % answer.status)
    return took


def pages(site, where):
    """(ms without the plugin, ms that it adds)"""
    link = site.root + "/wp-content/mu-plugins/weir.php"
    os.unlink(link)
    address = site.serve(*OPCACHE, WEIR_URL=where).split("//")[1]
    without, added = [], []
    for i in range(-10, ROUNDS):  # the first ones fill the caches
        took = {}
        for has_plugin in (True, False) if i % 2 else (False, True):
            if has_plugin:
                os.symlink(PLUGIN, link)
            took[has_plugin] = page(http.client.HTTPConnection(address, timeout=60))
            if has_plugin:
                os.unlink(link)
        if i >= 0:
            without.append(took[False])
            added.append(took[True] - took[False])
    site.stop()
    os.symlink(PLUGIN, link)
    return statistics.median(without), statistics.median(added)


def call(site, where, code):
    return float(site.php(CALL % (CALLS, code), WEIR_URL=where))


def main():
    database = maria()
    site = Site(database)
    with tempfile.TemporaryDirectory() as folder:
        server = Server(folder, config="""
            target "shop" { kind = "command" command = {"echo", "1"} metric "threads" { elevated = {5, 3} } }
            wordpress "shop" { port = %d user = "root" database = "%s" target = "shop" mode = "enforce" }
            """ % (database.port, site.name))
        up, away = "http://%s:%d" % server.http, "http://127.0.0.1:%d" % free_port()
        print("| ms | weir up | weir away, breaker open |\n|---|---|---|")
        base, added = pages(site, up)
        site.php("weir_get_priority('x');", WEIR_URL=away)  # opens the breaker
        print("| added to the front page of %.1f | %.3f | %.3f |" % (base, added, pages(site, away)[1]))
        for name, code in (
                ("decision about an action, asked anew", "Weir_Gate::ask('hook_' . $i)"),
                ("decision about an action, kept answer", "Weir_Gate::ask('hook')"),
                ("weir_acquire_lock and weir_release_lock",
                 "$k = 'k' . $i; weir_release_lock($k, weir_acquire_lock($k))"),
                ("weir_acquire_lock, refused", "weir_acquire_lock('held', 600)")):
            site.php("Weir_Locks::force_release('held', 'bench');", WEIR_URL=up)
            print("| %s | %.3f | %.3f |" % (name, call(site, up, code), call(site, away, code)))
        server.stop()


main()
