#!/usr/bin/python3
# weir-test: timeout=240 bin=release
"""The tutorials in docs/tutorials do what they say: every command is typed as it stands, in order,
in one shell, and prints what the page shows.

    tests/integration/tutorials.py [word...]
"""
import os
import sys
import time

sys.dont_write_bytecode = True

import lib_actionscheduler  # noqa: E402
import lib_wordpress  # noqa: E402
from lib_databases import Maria  # noqa: E402
from lib_pages import Reader, enter_namespaces, needs, read_page  # noqa: E402
from harness import ROOT, Skip, main, test  # noqa: E402


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


# ---------------------------------------------------------------- a shop on WordPress


class ShopServer(Maria):
    """A MariaDB at the port where everybody looks for it."""

    def start(self, seconds=60):
        self.port = 3306
        return super().start(seconds)


def fill(site):
    """Actions of the shop in the tutorial: due ones of each tier, one that a deadlock made fail before
    it ran, and three in the claim of a runner that died."""
    now = int(time.time())
    for i in range(2):
        site.add_simple("woocommerce_payment_webhook", now - 20 + i, args=[1001 + i])
    for i in range(3):
        site.add_simple("woocommerce_scheduled_subscription_payment", now - 30 + i, args=[501 + i])
    for i in range(4):
        site.add_async("woocommerce_run_update_callback", args=[71 + i])
    for i in range(20):
        site.add_simple("facebook_for_woocommerce_product_sync", now - 60 + i, args=[2001 + i],
                        group="facebook")
    lost = site.add_simple("woocommerce_deliver_webhook_async", now - 600, args=[17], status="failed")
    site.log(lost, "action failed via WP Cron: Unable to update the status of action %d to in-progress." % lost)
    for i in range(3):
        site.add_simple("klaviyo_profile_sync", now - 1500 + i, args=[31 + i], claim_id=7,
                        last_attempt_gmt=lib_actionscheduler.utc(now - 1200))


def make_shop():
    """What the tutorial assumes: WordPress in a database `wordpress`, with Action Scheduler's tables,
    and WP-Cron switched off.  (server, the folder of wp-config.php)"""
    server = ShopServer("shop", "--max-connections=200")
    wordpress = lib_wordpress.Site(server, weir_site="", name="wordpress")
    os.unlink(os.path.join(wordpress.root, "wp-content/mu-plugins/weir.php"))
    fill(lib_actionscheduler.Site(server))
    return server, wordpress.root


@test("weir for WooCommerce: the tutorial does what it says, up to the browser")
def woocommerce(folder):
    needs("mariadbd", "mariadb", "php", "openssl")
    if not os.path.exists(lib_wordpress.WORDPRESS):
        raise Skip("wordpress is not installed")
    server, root = make_shop()
    varies = ((r"threads_running \d+", "threads_running <n>"),
              (r"\b[0-9a-f]{32}\b", "<token>"), (r"\b\d{16}\b", "<fence>"))
    with Reader(folder, varies, WORDPRESS=root, WEIR=ROOT) as reader:
        reader.add_program("mariadb", "/usr/bin/mariadb --no-defaults --socket=" + server.socket)
        reader.follow(read_page("tutorials/woocommerce.md"))


if __name__ == "__main__":
    enter_namespaces()
    main()
