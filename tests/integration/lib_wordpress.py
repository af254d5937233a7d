"""Debian's WordPress on a MariaDB of its own, with weir's must-use plugin.

    site = Site(folder, maria(), weir_url="http://127.0.0.1:7380", weir_site="shop")
    site.php("echo weir_acquire_lock('report');")      code after wp-load.php; what it printed
    site.start("...")                                  the same as a process that runs on
    site.serve()                                       http://127.0.0.1:PORT of `php -S`
    site.sql("SELECT ...")                             rows, as the tests' own user

A site is a copy of /usr/share/wordpress with its own wp-config.php, wp-content, database and
temporary folder, installed by wp_install.  Everything PHP complains about is in `site.complaints()`.

Compiling WordPress is most of what a PHP process costs.  So PHP keeps what it compiled below build/,
and checks the time of each file; the files of the site itself are compiled each time.

Action Scheduler is not in Debian and not in the tree: create_action_scheduler() makes its tables,
and tests fire its hooks as its runner does.

As a program it serves a site until its stdin is closed, for tests in other languages; it prints one
line of JSON when it is ready."""
import atexit
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from lib_actionscheduler import ACTIONS, CLAIM_INDEX, COLLATION, DUE_INDEX, OTHERS, ZERO  # noqa: E402
from lib_databases import Maria, die_with_parent, free_port  # noqa: E402
from harness import ROOT, Skip, expect  # noqa: E402

WORDPRESS = "/usr/share/wordpress"
PLUGIN = os.path.join(ROOT, "integrations", "wordpress", "weir.php")
ADMIN = ("keeper", "correct horse battery")
SUBSCRIBER = ("reader", "staple of the reader")

CONFIG = """<?php
define('DB_NAME', '%(database)s');
define('DB_USER', 'root');
define('DB_PASSWORD', '');
define('DB_HOST', '127.0.0.1:%(port)d');
define('DB_CHARSET', 'utf8mb4');
define('DB_COLLATE', '');
foreach (array('AUTH_KEY', 'SECURE_AUTH_KEY', 'LOGGED_IN_KEY', 'NONCE_KEY', 'AUTH_SALT',
        'SECURE_AUTH_SALT', 'LOGGED_IN_SALT', 'NONCE_SALT') as $name) {
    define($name, md5('%(folder)s' . $name));
}
$table_prefix = '%(prefix)s';
define('WP_HOME', 'http://' . (isset($_SERVER['HTTP_HOST']) ? $_SERVER['HTTP_HOST'] : 'localhost'));
define('WP_SITEURL', WP_HOME);
define('WP_DEBUG', true);
define('WP_DEBUG_DISPLAY', false);
define('WP_DEBUG_LOG', '%(folder)s/complaints');
define('WP_HTTP_BLOCK_EXTERNAL', true);
define('DISABLE_WP_CRON', true);
define('AUTOMATIC_UPDATER_DISABLED', true);
foreach (json_decode((string) getenv('WP_CONSTANTS'), true) ?: array() as $name => $value) {
    define($name, $value);
}
foreach (json_decode('%(constants)s', true) as $name => $value) {
    defined($name) || define($name, $value);
}
defined('ABSPATH') || define('ABSPATH', __DIR__ . '/');
require_once ABSPATH . 'wp-settings.php';
"""

# In wp-admin: files that find the site by their own place.
PLACED = ("network", "user", "maint")
COMPILED = os.path.join(ROOT, "build", "servers", "opcache-%d" % os.getuid())

INSTALL = """
define('WP_INSTALLING', true);
require '%s/wp-load.php';
require ABSPATH . 'wp-admin/includes/upgrade.php';
add_filter('pre_wp_mail', '__return_true');
wp_install('Shop', '%s', 'keeper@example.com', true, '', '%s');
wp_insert_user(array('user_login' => '%s', 'user_pass' => '%s', 'user_email' => 'r@example.com',
    'role' => 'subscriber'));
switch_theme('plain');
update_option('show_avatars', 0); // they come from elsewhere
"""


def maria(name="wordpress", *options):
    if not os.path.exists(WORDPRESS + "/wp-load.php"):
        raise Skip("wordpress is not installed")
    return Maria(name, "--max-connections=400", *options)


class Site:
    count = 0

    def __init__(self, database, weir_url="", weir_site="shop", prefix="wp_", name=None,
                 **constants):
        Site.count += 1
        self.database, self.prefix = database, prefix
        self.name = name or "wp%d_%d" % (os.getpid(), Site.count)
        self.folder = tempfile.mkdtemp(prefix="site.", dir=os.environ.get("TMPDIR"))
        atexit.register(shutil.rmtree, self.folder, ignore_errors=True)
        self.root, self.tmp = self.folder + "/www", self.folder + "/tmp"
        self.server = None
        os.mkdir(self.tmp)
        self._keep_compiled()
        database.ask("CREATE DATABASE " + self.name)
        if weir_url:
            constants["WEIR_URL"] = weir_url
        if weir_site:
            constants["WEIR_SITE"] = weir_site
        self._copy(constants)
        self._run(INSTALL % ((self.root,) + ADMIN + SUBSCRIBER), {})

    def _copy(self, constants):
        """A link where a file finds the rest by ABSPATH, and not by its own place."""
        os.makedirs(self.root + "/wp-admin")
        for name in os.listdir(WORDPRESS):
            path, to = WORDPRESS + "/" + name, self.root + "/" + name
            if name in ("wp-includes", "wp-settings.php"):
                os.symlink(path, to)
            elif name not in ("wp-admin", "wp-content", "wp-config.php"):
                shutil.copy(path, to)
        for name in os.listdir(WORDPRESS + "/wp-admin"):
            path, to = WORDPRESS + "/wp-admin/" + name, self.root + "/wp-admin/" + name
            if name in PLACED:
                shutil.copytree(path, to, symlinks=True)
            elif os.path.isdir(path):
                os.symlink(path, to)
            else:
                shutil.copy(path, to)
        os.makedirs(self.root + "/wp-content/mu-plugins")
        os.makedirs(self.root + "/wp-content/themes/plain")
        os.symlink(PLUGIN, self.root + "/wp-content/mu-plugins/weir.php")
        # A busy machine is no reason for weir to be away; WEIR_IN_TIME: milliseconds, 0: the plugin's.
        self.plugin("a_patience", "add_filter('weir_timeout_ms', function ($ms) {"
                    " return defined('WEIR_IN_TIME') ? (WEIR_IN_TIME ?: $ms) : 30000; });")
        self.write("wp-content/themes/plain/style.css", "/* Theme Name: plain */\n")
        self.write("wp-content/themes/plain/index.php", "<?php wp_head(); echo 'front page'; wp_footer();")
        self.write("wp-config.php", CONFIG % {
            "database": self.name, "port": self.database.port, "folder": self.folder,
            "prefix": self.prefix, "constants": json.dumps(constants)})

    def write(self, name, text):
        with open(os.path.join(self.root, name), "w") as f:
            f.write(text)

    def plugin(self, name, code):
        """Another must-use plugin, loaded by its name before or after weir.php."""
        self.write("wp-content/mu-plugins/%s.php" % name, "<?php\n" + code)

    # --- running PHP

    def _keep_compiled(self):
        """What makes PHP keep what it compiled, with its warnings.  A file that is cut short is not
        taken, so no checksums are needed."""
        os.makedirs(COMPILED, exist_ok=True)
        with open(self.folder + "/changing", "w") as f:
            f.write(self.folder + "/*\n")
        self.compiled = ["-d", "opcache.enable_cli=1", "-d", "opcache.record_warnings=1",
                         "-d", "opcache.file_cache=" + COMPILED,
                         "-d", "opcache.file_cache_consistency_checks=0",
                         "-d", "opcache.blacklist_filename=" + self.folder + "/changing"]

    def _argv(self, code, before=()):
        # A program such as faketime changes what PHP knows of a file's time.
        compiled = [] if before else self.compiled + ["-d", "opcache.file_cache_only=1"]
        return [*before, "php", "-d", "error_reporting=-1", "-d", "display_errors=stderr",
                "-d", "sys_temp_dir=" + self.tmp, *compiled, "-r", code]

    def _env(self, constants, env=None):
        return {**os.environ, **(env or {}), "WP_CONSTANTS": json.dumps(constants)}

    def _run(self, code, constants, before=(), env=None, seconds=120):
        done = subprocess.run(self._argv(code, before), stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=seconds,
                              text=True, env=self._env(constants, env))
        expect(done.returncode == 0, "php ended with %d: %s %s" % (
            done.returncode, done.stdout[-800:], done.stderr[-800:]))
        return done.stdout

    def php(self, code, before=(), env=None, **constants):
        """What the code prints.  `before`: a program that starts PHP, such as faketime."""
        return self._run("require '%s/wp-load.php';\n%s" % (self.root, code), constants, before, env)

    def start(self, code, before=(), **constants):
        """A process of its own, with pipes."""
        code = "require '%s/wp-load.php';\n%s" % (self.root, code)
        return subprocess.Popen(self._argv(code, before), stdin=subprocess.PIPE,
                                stdout=subprocess.PIPE, text=True, bufsize=1,
                                env=self._env(constants), preexec_fn=die_with_parent)

    def serve(self, *options, **constants):
        port = free_port()
        argv = ["php", "-d", "sys_temp_dir=" + self.tmp, *self.compiled, *options,
                "-S", "127.0.0.1:%d" % port, "-t", self.root]
        with open(self.folder + "/server.log", "ab") as log:
            self.server = subprocess.Popen(
                argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, preexec_fn=die_with_parent,
                env={**self._env(constants), "PHP_CLI_SERVER_WORKERS": "3"}, start_new_session=True)
        atexit.register(self.stop)
        self.url = "http://127.0.0.1:%d" % port
        deadline = time.monotonic() + 60
        while True:
            expect(self.server.poll() is None, "php -S ended")
            try:
                urllib.request.urlopen(self.url + "/readme.html", timeout=20).close()
                return self.url
            except (urllib.error.URLError, OSError) as error:
                expect(time.monotonic() < deadline, "php -S is not ready: %s" % error)
                time.sleep(0.02)

    def stop(self):
        if self.server and self.server.poll() is None:
            os.killpg(self.server.pid, signal.SIGKILL)  # its workers too
            self.server.wait(20)
        self.server = None

    def complaints(self):
        """What PHP found wrong, apart from what WordPress 6.1 itself does on PHP 8.2."""
        try:
            with open(self.folder + "/complaints", errors="replace") as f:
                return [x for x in f.read().splitlines() if "PHP " in x and "weir.php" in x]
        except FileNotFoundError:
            return []

    # --- the database

    def sql(self, *statements):
        with self.database.connect(database=self.name) as c:
            rows = []
            for statement in statements:
                rows = c(statement)
            return rows

    def make_network(self, is_subdomains):
        """Makes the site the main one of a multisite at net.example; add_blog() adds others."""
        flag = "true" if is_subdomains else "false"
        self.php("""
            define('WP_INSTALLING_NETWORK', true);
            foreach ($wpdb->tables('ms_global') as $table => $name)
                $wpdb->$table = $name;
            require_once ABSPATH . 'wp-admin/includes/upgrade.php';
            require_once ABSPATH . 'wp-admin/includes/network.php';
            install_network();
            populate_network(1, 'net.example', 'keeper@example.com', 'Net', '/', %s);
            """ % flag)
        self.sql("UPDATE %soptions SET option_value = 'http://net.example'"
                 " WHERE option_name IN ('siteurl', 'home')" % self.prefix)
        with open(self.root + "/wp-config.php") as f:
            lines = [x for x in f if "define('WP_HOME'" not in x and "define('WP_SITEURL'" not in x]
        at = next(i for i, x in enumerate(lines) if x.startswith("require_once"))
        lines.insert(at, """
            define('MULTISITE', true);
            define('SUBDOMAIN_INSTALL', %s);
            define('DOMAIN_CURRENT_SITE', 'net.example');
            define('PATH_CURRENT_SITE', '/');
            define('SITE_ID_CURRENT_SITE', 1);
            define('BLOG_ID_CURRENT_SITE', 1);
            """ % flag)
        self.write("wp-config.php", "".join(lines))

    def add_blog(self, domain, path):
        """Its prefix."""
        return self.php("echo $wpdb->get_blog_prefix(wp_insert_site(array('domain' => '%s', 'path' => '%s',"
                        " 'title' => 'Two', 'user_id' => 1)));" % (domain, path)).strip()

    def create_action_scheduler(self, prefix=None):
        """Its tables as of 3.8."""
        prefix = prefix or self.prefix
        self.sql(ACTIONS.format(p=prefix, zero=ZERO, collation=COLLATION, unique="",
                                priority="priority tinyint unsigned NOT NULL DEFAULT 10,",
                                indexes=", ".join(DUE_INDEX + CLAIM_INDEX)))
        for name, columns in OTHERS.items():
            if name.startswith("actionscheduler_"):
                self.sql("CREATE TABLE `%s%s` (%s) %s" % (
                    prefix, name, columns.format(zero=ZERO), COLLATION))

    def add_action(self, hook, when="UTC_TIMESTAMP() - INTERVAL 5 SECOND", **columns):
        """A pending, claimed action as its runner has it just before it starts; its id."""
        values = {"hook": repr(hook), "status": "'pending'", "scheduled_date_gmt": when,
                  "scheduled_date_local": when, "args": "'[]'", "schedule": "''", "claim_id": "1",
                  **columns}
        with self.database.connect(database=self.name) as c:
            c("INSERT INTO %sactionscheduler_actions (%s) VALUES (%s)" % (
                self.prefix, ", ".join(values), ", ".join(values.values())))
            return int(c("SELECT LAST_INSERT_ID()")[0][0])


def serve_until_closed():
    """For tests in other languages: what the file `weir_url` of the answer holds is WEIR_URL.  Without
    weir.php and a_weir_address.php in mu-plugins it is a WordPress that knows nothing of weir."""
    site = Site(maria(), weir_site="")
    site.create_action_scheduler()
    os.mkdir(site.root + "/wp-content/plugins")
    site.plugin("a_weir_address", "define('WEIR_SITE', 'shop'); add_filter('weir_url', function () {"
                " return trim((string) @file_get_contents('%s/weir_url')); });" % site.folder)
    print(json.dumps({"url": site.serve(), "admin": ADMIN, "subscriber": SUBSCRIBER,
                      "port": site.database.port, "database": site.name, "root": site.root,
                      "weir_url": site.folder + "/weir_url",
                      "complaints": site.folder + "/complaints"}), flush=True)
    sys.stdin.read()
    site.stop()


if __name__ == "__main__":
    serve_until_closed()
