#!/usr/bin/python3
# weir-test: timeout=360
"""weir work --wordpress: Action Scheduler's runners are started while actions are due, as many as the
gate allows; with scripts as runners, with the runner of the test bed, and weir-runner.php itself, once
and as the reserved runner, in a WordPress with a stand-in for Action Scheduler."""
import contextlib
import datetime
import functools
import glob
import json
import os
import re
import signal
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import lib_actionscheduler as bed  # noqa: E402
import lib_wordpress  # noqa: E402
from lib_databases import PASSWORD, write_config  # noqa: E402
from lib_guarded import BUSY, CALM, PAYMENT, RENEWAL, STORM, Guarded, maria  # noqa: E402
from harness import HANG_S, ROOT, WEIR, Server, equal, expect, main, test, until  # noqa: E402

ENTRY = os.path.join(ROOT, "integrations", "wordpress", "weir-runner.php")
STAND_IN = os.path.join(bed.HERE, "as_plugin.php")


class Work:
    """`weir work --wordpress shop` as a process, its runners a script that ends when the file
    `end` is there, or by SIGTERM."""
    RUNNER = """#!/bin/sh
echo "$$ $(env | sort | tr '\\n' ' ')" > {0}/run.$$
trap 'echo term > {0}/term.$$; exit 0' TERM
while [ ! -e {0}/end ]; do sleep 0.1; done
exit $(cat {0}/end)
"""

    def __init__(self, folder, url, *words, exec_=None):
        self.folder = folder
        script = os.path.join(folder, "runner")
        with open(script, "w") as f:
            f.write(self.RUNNER.format(folder))
        os.chmod(script, 0o755)
        self.log_path = os.path.join(folder, "work.log")
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(
                [WEIR, "--url", url, "work", "--wordpress", "shop", "--exec", exec_ or script, *words],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def log(self):
        with open(self.log_path, errors="replace") as f:
            return f.read()

    def says(self, pattern, n=1, seconds=HANG_S):
        return until(lambda: (lambda x: x if len(x) >= n else None)(re.findall(pattern, self.log())),
                     seconds, "%r in:\n%s" % (pattern, self.log()))

    def pids(self):
        """Of all runners so far, in the order of their start."""
        files = sorted(glob.glob(self.folder + "/run.*"), key=os.path.getmtime)
        return [int(f.rsplit(".", 1)[1]) for f in files]

    def running(self):
        return [p for p in self.pids() if os.path.exists("/proc/%d" % p)]

    def end_runners(self, code=0):
        """Those that run and all later ones end with the code."""
        with open(self.folder + "/end.new", "w") as f:
            f.write("%d" % code)
        os.rename(self.folder + "/end.new", self.folder + "/end")

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        equal(self.process.wait(HANG_S), 0, "exit code of weir work")


def tried(*words):
    """(exit code, what it said)"""
    done = subprocess.run([WEIR, "--url", "127.0.0.1:1", "work", *words], text=True, timeout=HANG_S,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return done.returncode, done.stdout


@test("wrong options are told with what is allowed, before anything is asked or started")
def wrong_options(folder):
    for words, said in (
            (("--path", folder, "--exec", "true"), "--path goes with --wordpress NAME"),
            (("--wordpress", "shop"), "--path is missing"),
            (("--wordpress", "shop", "--path", folder + "/none"), "there is no folder"),
            (("--wordpress", "shop", "--path", folder), "there is no wp-load.php"),
            (("--wordpress", "", "--exec", "true"), "the name is empty"),
            (("--wordpress", "shop", "--exec", "true", "--queue", "q"), "--queue is for jobs of weir"),
            (("--wordpress", "shop", "--exec", "true", "--php", "php"), "--exec or --php, not both"),
            (("--wordpress", "shop", "--exec", "true", "--runners", "65"), "0 to 64"),
            (("--wordpress", "shop", "--exec", "true", "--reserved", "33"), "0 to 32"),
            (("--wordpress", "shop", "--exec", "true", "--reserved", "1"), "--path is missing"),
            (("--wordpress", "shop", "--exec", "true", "--runners", "0"), "--path is missing"),
            (("--wordpress", "shop", "--exec", "true", "--runners", "0", "--reserved", "0"),
             "leave nothing to start"),
            (("--wordpress", "shop", "--exec", "true", "--host", "two.example"), "say it in --exec"),
            (("--wordpress", "shop", "--path", folder, "--host", "two example"), "no address of a blog"),
            (("--host", "two.example", "--exec", "true"), "--host goes with --wordpress NAME"),
            (("--wordpress", "shop", "--exec", "true", "--when-away", "5"), "5 of what?"),
            (("--wordpress", "shop", "--exec", "a | b"), "would need a shell"),
            (("--wordpress", "shop", "--exec", "/no/such"), "there is no program '/no/such'")):
        code, text = tried(*words)
        expect(code == 2 and said in text, "weir work %s: %d %s" % (" ".join(words), code, text))


@test("a site that the server does not know ends it, with the names there are")
def unknown_site(folder):
    g = Guarded(folder)
    text = g.weir("work", "--wordpress", "shap", "--exec", "true", code=4)
    expect("unknown WordPress site shap" in text and "shop" in text, text)
    g.server.stop()


@test("a site that is switched off is told; one that is taken away and put back is waited for")
def switched_off(folder):
    g = Guarded(folder, mode="off")
    w = Work(folder, g.url)
    w.says("the mode of the site is off")
    path = os.path.join(folder, "weir.conf")
    with open(path) as f:
        text = f.read()
    for new, said in ((text[:text.index("wordpress")], "does not tell of the site, asking again"),
                      (text.replace('"off"', '"enforce"'), "tells of the site again")):
        with open(path, "w") as f:
            f.write(new)
        g.weir("config", "reload")
        w.says(said)
    g.site.add_async(PAYMENT)
    until(w.running, HANG_S, "a runner")
    equal(len(re.findall("does not tell of the site", w.log())), 1, "told once")
    w.stop()
    g.server.stop()


@test("runners start when something is due, at most as many as are due; none does before")
def due(folder):
    g = Guarded(folder)
    g.wait(lambda s: s["surveyed_ms"], "a survey")
    w = Work(folder, g.url, "--runners", "3", "--env", "APP=x")
    w.says(r"ready.*site=shop")
    surveyed = g.state()["surveyed_ms"]
    g.wait(lambda s: s["surveyed_ms"] > surveyed, "another survey")
    equal(w.pids(), [], "runners while nothing is due")
    g.site.add_async(PAYMENT)
    until(w.pids, HANG_S, "a runner")
    surveyed = g.state()["surveyed_ms"]
    g.wait(lambda s: s["surveyed_ms"] > surveyed, "another survey")
    starts = [datetime.datetime.fromisoformat(x.replace("Z", "+00:00")).timestamp()
              for x in w.says(r"time=(\S+) .*started a runner")]
    # Beside one that takes longer than 5 s another may start, see below: this machine may be slow.
    equal(len([x for x in starts if x < starts[0] + 4]), 1, "runners of one due action")
    expect(w.pids()[0] in w.running(), "the runner ended")
    with open("%s/run.%d" % (folder, w.pids()[0])) as f:
        env = dict(word.split("=", 1) for word in f.read().split()[1:])
    equal(env["WEIR_RUNNERS"], "3", "WEIR_RUNNERS")
    equal(env["WEIR_PREFIX"], "wp_", "WEIR_PREFIX")
    equal(set(env) - {"LANG", "OLDPWD", "PWD", "_"},
          {"APP", "HOME", "PATH", "WEIR_BLOG_URL", "WEIR_PREFIX", "WEIR_RUNNERS"}, "environment")
    w.stop()
    g.server.stop()


@test("a runner that is busy for long does not keep a new action waiting")
def busy(folder):
    g = Guarded(folder)
    g.site.add_async(PAYMENT)
    w = Work(folder, g.url, "--runners", "2")
    until(lambda: len(w.running()) == 2, HANG_S, "a second runner beside one that does not end")
    w.stop()
    g.server.stop()


@test("under load one runner works; when it is calm again all of them do")
def gate(folder):
    g = Guarded(folder, load=BUSY)
    for _ in range(10):
        g.site.add_async(RENEWAL)
    g.wait(lambda s: s["level"] == "elevated" and s["due"] == 10, "a busy database with due renewals")
    w = Work(folder, g.url, "--runners", "3")
    until(w.pids, HANG_S, "a runner")
    surveyed = g.state()["surveyed_ms"]
    g.wait(lambda s: s["surveyed_ms"] > surveyed + 1500, "more surveys")
    equal(len(w.pids()), 1, "runners at level elevated")
    w.says(r"started a runner.*allowed=1")
    g.set_load(CALM)
    until(lambda: len(w.running()) == 3, HANG_S, "three runners")
    equal(len(w.pids()), 3, "runners started")
    w.stop()
    g.server.stop()


@test("all runners work in a storm, when only payments may run")
def payments(folder):
    g = Guarded(folder, load=STORM)
    for _ in range(10):
        g.site.add_async(PAYMENT)
        g.site.add_async(RENEWAL)
    g.wait(lambda s: s["level"] == "critical" and s["due"] == 10, "a storm in which renewals wait")
    w = Work(folder, g.url, "--runners", "3")
    until(lambda: len(w.running()) == 3, HANG_S, "three runners for payments")
    w.stop()
    g.server.stop()


@test("a runner that was killed is replaced, and one that fails again and again waits longer and longer")
def replaced(folder):
    g = Guarded(folder)
    g.site.add_async(PAYMENT)
    w = Work(folder, g.url)
    first = until(w.pids, HANG_S, "a runner")[0]
    os.kill(first, signal.SIGKILL)
    until(lambda: set(w.running()) - {first}, HANG_S, "another runner")
    w.says(r"a runner failed.*signal=9")
    w.end_runners(3)
    w.says(r"a runner failed.*code=3", 2)
    equal([int(x) for x in re.findall(r"pause_ms=(\d+)", w.log())][:3], [1000, 2000, 4000], "pauses")
    w.stop()
    g.server.stop()


@test("SIGTERM stops the runners by SIGTERM and waits for them; SIGKILL of weir work ends them too")
def stopped(folder):
    g = Guarded(folder)
    for _ in range(2):
        g.site.add_async(PAYMENT)
    w = Work(folder, g.url, "--runners", "2")
    pids = until(lambda: w.running() if len(w.running()) == 2 else None, HANG_S, "two runners")
    w.stop()
    for pid in pids:
        expect(os.path.exists("%s/term.%d" % (folder, pid)), "runner %d heard no SIGTERM" % pid)
        expect(not os.path.exists("/proc/%d" % pid), "runner %d lives" % pid)
    w = Work(folder, g.url, "--runners", "2")
    pids = until(lambda: w.running() if len(w.running()) == 2 else None, HANG_S, "two runners")
    w.process.kill()
    w.process.wait()
    until(lambda: not w.running(), HANG_S, "the end of the runners")
    g.server.stop()


@test("while the server is away one runner is started every --when-away; then it decides again")
def away(folder):
    g = Guarded(folder)
    w = Work(folder, g.url, "--runners", "3", "--when-away", "200ms")
    w.says("ready")
    w.end_runners()
    equal(w.pids(), [], "runners while nothing is due")
    g.server.stop()
    w.says("no connection, retrying")
    until(lambda: len(w.pids()) >= 2, HANG_S, "runners without a server")
    w.says("starting a runner without it", 2)
    w.stop()


@test("the runner of the test bed runs every due action once, and nothing that is not due")
def real(folder):
    g = Guarded(folder)
    site = g.site
    options = {"host": "127.0.0.1", "port": maria().port, "database": site.database, "until": "empty",
               "concurrent": 3, "claim": site.claim}
    w = Work(folder, g.url, "--runners", "3",
             exec_="php %s '%s'" % (os.path.join(bed.HERE, "as_runner.php"), json.dumps(options)))
    w.says("ready")
    late = site.add_simple(PAYMENT, 4000000000)
    made = [site.add_async(PAYMENT) for _ in range(100)]
    until(lambda: site.counts()["complete"] == 100, HANG_S, "all are done")
    more = site.add_async(PAYMENT)
    until(lambda: site.counts()["complete"] == 101, HANG_S, "the next one is done")
    equal(site.run_twice(), [], "run twice")
    equal(site.never_run(), [(late, "pending")], "never run")
    expect(more not in made, "ids")
    g.wait(lambda s: s["due"] == 0, "nothing is due")
    w.stop()
    g.server.stop()


@test("weir-runner.php runs Action Scheduler once, and says what is missing")
def entry(folder):
    def php(*words, **env):
        done = subprocess.run(["php", ENTRY, *words], text=True, stdin=subprocess.DEVNULL,
                              env={**os.environ, "WEIR_RUNNERS": "3", **env}, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, timeout=HANG_S)
        return done.returncode, done.stdout + done.stderr
    code, text = php()
    expect(code == 2 and "usage: php weir-runner.php" in text, text)
    code, text = php(folder)
    expect(code == 2 and "there is no WordPress in " + folder in text, text)
    site = lib_wordpress.Site(shop_maria())
    code, text = php(site.root)
    expect(code == 2 and "has no Action Scheduler" in text, "%d %s" % (code, text))
    stand_in(site, folder)
    code, text = php(site.root)
    equal((code, text), (0, ""), "weir-runner.php")
    with open(folder + "/ran") as f:
        equal(f.read(), "weir 1 3\n", "what ran")
    code, text = php("--reserved", site.root)
    equal((code, text), (0, ""), "the reserved runner without input")
    for words, env, said in (
            (("http://",), {}, "'http://' is no address of a site"),
            ((), {"WEIR_PREFIX": "wp_2_"}, "the prefix 'wp_', and not 'wp_2_' as in weir.conf")):
        code, text = php(site.root, *words, **env)
        expect(code == 2 and said in text, "%d %s" % (code, text))
    site.plugin("b_gone", "wp_die('maintenance');")
    code, text = php(site.root)
    expect(code == 2 and "ended while it was loading" in text, "%d %s" % (code, text))


# ---- the reserved runner, in a WordPress

def stand_in(site, folder):
    site.plugin("scheduler", "define('STAND_IN', '%s');\nrequire '%s';" % (folder, STAND_IN))
    site.create_action_scheduler()
    site.sql(bed.RAN.replace("EXISTS ran", "EXISTS wp_ran"))


@functools.lru_cache(None)
def shop_maria():
    m = lib_wordpress.maria("runner")
    m.ask("CREATE USER weir@localhost IDENTIFIED BY '%s'" % PASSWORD, "GRANT ALL ON *.* TO weir@localhost")
    return m


class Shop:
    """A WordPress with the stand-in, and a weir that guards it by a load that the test sets."""

    def __init__(self, folder, load=CALM):
        self.folder, self.load, self.works, self.names, self.server = folder, load, [], set(), None
        self.site = lib_wordpress.Site(shop_maria(), weir_site="")
        stand_in(self.site, folder)

    def serve(self, more="", **prefixes):
        """A weir with these sites; `more`: settings of each."""
        with open(self.folder + "/load", "w") as f:
            f.write("%d\n" % self.load)
        sections = "".join("""
wordpress "%s" {
        socket = "%s" user = "weir" password_file = "SECRET" database = "%s" prefix = "%s"
        target = "shop" mode = "enforce" interval = "200ms" %s
}""" % (name, shop_maria().socket, self.site.name, prefix, more) for name, prefix in prefixes.items())
        self.server = Server(self.folder, "-c", write_config(self.folder, """
target "shop" {
        kind = "command" command = {"cat", "%s/load"} interval = "100ms" dwell = "0s"
        metric "load" { elevated = {5, 3} critical = {15, 10} }
}""" % self.folder + sections))
        self.url = "redis://%s:%d" % tuple(self.server.resp)

    def weir(self, *words):
        return subprocess.run([WEIR, "--url", self.url, *words], text=True, check=True,
                              stdout=subprocess.PIPE).stdout

    def work(self, name, *words):
        log = open("%s/%s.log" % (self.folder, name), "ab")
        process = subprocess.Popen(
            [WEIR, "--url", self.url, "work", "--wordpress", name, "--path", self.site.root, *words],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        log.close()
        self.works.append(process)
        self.names.add(name)
        return process

    def log(self, name="shop"):
        with open("%s/%s.log" % (self.folder, name), errors="replace") as f:
            return f.read()

    def says(self, pattern, n=1, name="shop"):
        try:
            until(lambda: len(re.findall(pattern, self.log(name))) >= n)
        except AssertionError:
            raise AssertionError("%r is not in:\n%s" % (pattern, self.log(name)))

    def add(self, hook, n=1):
        return [self.site.add_action(hook, claim_id="0") for _ in range(n)]

    def hold(self, is_held=True):
        if is_held:
            open(self.folder + "/hold", "w").close()
        else:
            os.unlink(self.folder + "/hold")

    def counts(self, hook, prefix="wp_"):
        return {status: int(n) for status, n in self.site.sql(
            "SELECT status, COUNT(*) FROM %sactionscheduler_actions WHERE hook = '%s' GROUP BY status"
            % (prefix, hook))}

    def wait(self, hook, prefix="wp_", **counts):
        wanted = {status.replace("_", "-"): n for status, n in counts.items()}
        try:
            until(lambda: self.counts(hook, prefix) == wanted)
        except AssertionError:
            raise AssertionError("%s: not %s but %s\n%s" % (
                hook, wanted, self.counts(hook, prefix), "".join(map(self.log, self.names))))

    def pids(self):
        return {int(x[0]) for x in self.site.sql("SELECT DISTINCT pid FROM wp_ran")}

    def check(self):
        """Nothing ran twice, and no claim is left."""
        equal(self.site.sql("SELECT action_id FROM wp_ran GROUP BY 1 HAVING COUNT(*) > 1"), [], "ran twice")
        equal(self.site.sql("SELECT * FROM wp_actionscheduler_claims"), [], "claims")

    def stop(self, process):
        process.send_signal(signal.SIGTERM)
        equal(process.wait(HANG_S), 0, "exit code of weir work")

    def end(self):
        for process in self.works:
            if process.poll() is None:
                self.stop(process)
        if self.server:
            self.server.stop()


@contextlib.contextmanager
def shop(folder, **prefixes):
    s = Shop(folder)
    s.serve(**(prefixes or {"shop": "wp_"}))
    try:
        yield s
    finally:
        s.end()


@test("a runner that is stopped ends its action and gives the rest of its batch back")
def stopped_gently(folder):
    with shop(folder, shop="wp_") as s:
        s.hold()
        s.add(RENEWAL, 3)
        work = s.work("shop", "--reserved", "0", "--php", "php")
        s.wait(RENEWAL, in_progress=1, pending=2)
        work.send_signal(signal.SIGTERM)
        until(lambda: os.path.exists(s.folder + "/leaving"), what="the runner knows that it is to end")
        s.hold(False)
        equal(work.wait(HANG_S), 0, "exit code of weir work")
        equal(s.counts(RENEWAL), {"complete": 1, "pending": 2}, "renewals")
        equal(s.site.sql("SELECT COUNT(*) FROM wp_actionscheduler_actions WHERE claim_id != 0"), [["0"]], "claimed")
        s.check()


@test("the reserved runner runs critical hooks only, without a pause, and is told when the list changes")
def reserved(folder):
    with shop(folder) as s:
        s.add(RENEWAL, 3)
        s.add(PAYMENT, 12)
        s.work("shop", "--runners", "0", "--php", "php")
        s.wait(PAYMENT, complete=12)
        s.add(PAYMENT, 7)
        s.wait(PAYMENT, complete=19)
        equal(s.counts(RENEWAL), {"pending": 3}, "renewals, which are not critical")
        equal(len(s.pids()), 1, "processes")
        s.weir("registry", "set", RENEWAL, "critical")
        s.wait(RENEWAL, complete=3)
        s.says("told the reserved runner its hooks.*hooks=2")
        equal(len(s.pids()), 1, "processes")
        s.weir("registry", "set", RENEWAL, "normal")
        s.says("told the reserved runner its hooks.*hooks=1")
        s.check()
        s.weir("setting", "set", "site.shop.mode", "off")
        s.says("the reserved runner ended")
        s.weir("setting", "set", "site.shop.mode", "observe")
        s.says("started the reserved runner", 2)


@test("a reserved runner that was killed gives its claim back at once, and nothing runs twice")
def reserved_killed(folder):
    with shop(folder) as s:
        s.hold()
        s.add(PAYMENT, 12)
        s.work("shop", "--runners", "0", "--php", "php")
        s.wait(PAYMENT, in_progress=1, pending=11)
        pid = s.pids().pop()
        equal(s.site.sql("SELECT COUNT(*) FROM wp_actionscheduler_actions WHERE claim_id <> 0"), [["5"]],
              "claimed")
        os.kill(pid, signal.SIGKILL)
        s.hold(False)
        # Whether the one that ran had an effect, only its callback could tell.
        s.wait(PAYMENT, in_progress=1, complete=11)
        s.says(r"the reserved runner failed.*signal=9.*pause_ms=1000")
        equal(s.site.sql("SELECT COUNT(*) FROM wp_actionscheduler_actions WHERE claim_id <> 0"), [["0"]],
              "claimed")
        s.check()


@test("a claim that loses a deadlock is tried again, and leaves no row behind")
def reserved_deadlock(folder):
    with shop(folder) as s:
        with open(folder + "/deadlocks", "w") as f:
            f.write("7")
        s.add(PAYMENT, 3)
        s.work("shop", "--runners", "0", "--php", "php")
        s.wait(PAYMENT, complete=3)
        with open(folder + "/deadlocks") as f:
            equal(f.read(), "0", "deadlocks that are left")
        s.check()


@test("the reserved runner goes on while the server is away, and ends when weir work is killed")
def reserved_away(folder):
    with shop(folder) as s:
        s.add(PAYMENT)
        w = s.work("shop", "--runners", "0", "--php", "php")
        s.wait(PAYMENT, complete=1)
        s.server.stop()
        s.server = None
        s.says("no connection, retrying")
        s.add(PAYMENT, 6)
        s.wait(PAYMENT, complete=7)
        pid = s.pids().pop()
        s.hold()
        s.add(PAYMENT, 2)
        s.wait(PAYMENT, complete=7, in_progress=1, pending=1)
        w.kill()
        w.wait()
        s.works.remove(w)
        s.hold(False)
        until(lambda: not os.path.exists("/proc/%d" % pid), HANG_S, "the end of the reserved runner")
        s.wait(PAYMENT, complete=8, pending=1)
        s.check()


@test("the claim of the reserved runner takes no place of another runner; a foreign one does")
def reserved_place(folder):
    with shop(folder) as s:
        s.hold()
        s.add(PAYMENT)
        s.work("shop", "--runners", "0", "--php", "php")
        s.wait(PAYMENT, in_progress=1)

        def batches():
            subprocess.run(["php", ENTRY, s.site.root], check=True, timeout=HANG_S, stdin=subprocess.DEVNULL,
                           env={**os.environ, "WEIR_RUNNERS": "1"})
            with open(folder + "/ran") as f:
                return f.read().split()[-1]
        equal(batches(), "2", "claims allowed beside that of the reserved runner")
        s.hold(False)
        s.wait(PAYMENT, complete=1)
        until(lambda: not s.site.sql("SELECT * FROM wp_actionscheduler_claims"), HANG_S, "no claim")
        s.site.add_action(RENEWAL, claim_id="99")
        s.add(RENEWAL)
        equal(batches(), "1", "claims allowed beside a foreign one")
        equal(s.counts(RENEWAL), {"pending": 2}, "renewals")


@test("each blog of a network is run as itself, by sub-directory and by sub-domain")
def network(folder):
    for is_subdomains, domain, path in ((False, "net.example", "/two/"), (True, "two.net.example", "/")):
        here = os.path.join(folder, str(is_subdomains))
        os.mkdir(here)
        s = Shop(here)
        s.site.make_network(is_subdomains)
        prefix = add_blog(s, domain, path)
        equal(prefix, "wp_2_", "prefix")
        add_to(s, prefix, PAYMENT, RENEWAL)
        s.add(PAYMENT)
        s.add(RENEWAL)
        s.serve(one="wp_", two=prefix)
        s.work("two", "--php", "php")
        s.wait(PAYMENT, "wp_2_", complete=1)
        s.wait(RENEWAL, "wp_2_", complete=1)
        with s.server.web() as w:
            told = w.good("GET", "/v1/sites/two/run")
        equal((told["prefix"], told["url"]), ("wp_2_", "http://%s/wp-admin/" % (domain + path).rstrip("/")), "told")
        equal(s.counts(PAYMENT), {"pending": 1}, "payments of the other blog")
        equal(s.counts(RENEWAL), {"pending": 1}, "renewals of the other blog")
        s.work("one", "--php", "php")
        s.wait(PAYMENT, complete=1)
        s.wait(RENEWAL, complete=1)
        for table in ("wp_ran", "wp_2_ran"):
            equal(s.site.sql("SELECT COUNT(*) FROM " + table), [["2"]], table)
        s.end()
        s.server = None
        s.site.sql("UPDATE wp_2_actionscheduler_actions SET status = 'pending'")
        s.serve(two=prefix)
        s.work("two", "--php", "php", "--host", "net.example")
        s.says("the prefix 'wp_', and not 'wp_2_' as in weir.conf", name="two")
        s.end()
        s.server = None
        s.serve(more="network = true", net="wp_")
        until(lambda s=s: ["net", "net.2"] == [site["name"] for site in json.loads(
            s.weir("wordpress", "status", "--json"))["sites"]], HANG_S, "the blog is found")
        s.add(RENEWAL)
        s.work("net.2", "--php", "php")
        s.wait(PAYMENT, "wp_2_", complete=1)
        s.wait(RENEWAL, "wp_2_", complete=1)
        equal(s.counts(RENEWAL), {"complete": 1, "pending": 1}, "renewals of the main blog, which is not run")
        s.end()


def add_blog(s, domain, path):
    """Its prefix."""
    with open(s.site.root + "/wp-config.php") as f:
        config = f.read()
    s.site.write("wp-config.php", config.replace("require_once ABSPATH", "$_SERVER['HTTP_HOST'] = $_SERVER"
                 "['HTTP_HOST'] ?? 'net.example';\nrequire_once ABSPATH"))
    prefix = s.site.add_blog(domain, path)
    s.site.write("wp-config.php", config)
    s.site.sql("CREATE TABLE %sran LIKE wp_ran" % prefix)
    s.site.create_action_scheduler(prefix)
    return prefix


def add_to(s, prefix, *hooks):
    for hook in hooks:
        s.site.sql("INSERT INTO %sactionscheduler_actions (hook, status, scheduled_date_gmt)"
                   " VALUES ('%s', 'pending', UTC_TIMESTAMP())" % (prefix, hook))


def run_whole_network(s, two):
    def told(**due):
        with s.server.web() as w:
            blogs = w.good("GET", "/v1/sites/net/run?blogs=true")["blogs"]
        return {b["name"].replace(".", "_"): (b["due"], b["critical"]) for b in blogs} == due
    s.add(RENEWAL)
    add_to(s, two, PAYMENT)
    until(lambda: told(net=(1, 0), net_2=(1, 1)), HANG_S, "both blogs are told")
    work = s.work("net", "--reserved", "0", "--php", "php")
    s.wait(RENEWAL, complete=1)
    s.wait(PAYMENT, two, complete=1)
    equal(re.findall(r'started a runner" site=(\S+)', s.log("net"))[0], "net.2", "the blog that was first")
    three = add_blog(s, "net.example", "/three/")
    add_to(s, three, RENEWAL)
    s.wait(RENEWAL, three, complete=1)
    s.stop(work)
    # One reserved runner, which goes to the blogs that need it.
    add_to(s, two, PAYMENT)
    add_to(s, three, PAYMENT, RENEWAL)
    s.work("net", "--runners", "0", "--php", "php")
    s.wait(PAYMENT, two, complete=2)
    s.wait(PAYMENT, three, complete=1)
    equal(s.counts(RENEWAL, three), {"complete": 1, "pending": 1}, "renewals, which are not critical")
    s.site.sql("UPDATE wp_blogs SET archived = 1 WHERE blog_id = 3")
    s.says("a blog is not run any more.*site=net.3", name="net")
    for prefix, n in (("wp_", 1), (two, 2), (three, 2)):
        equal(s.site.sql("SELECT COUNT(*), COUNT(DISTINCT action_id) FROM %sran" % prefix), [[str(n)] * 2],
              "what ran in the blog of " + prefix)
        equal(s.site.sql("SELECT * FROM %sactionscheduler_claims" % prefix), [], "claims")


@test("one process runs all blogs of a network: critical ones first, each as itself, also one that comes later")
def whole_network(folder):
    s = Shop(folder)
    s.site.make_network(False)
    two = add_blog(s, "net.example", "/two/")
    s.serve(more="network = true", net="wp_")
    try:
        run_whole_network(s, two)
    finally:
        s.end()


if __name__ == "__main__":
    main()
