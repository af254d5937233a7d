#!/usr/bin/python3
# weir-test: timeout=240
"""weir work --wordpress: Action Scheduler's runners are started while actions are due, as many as the
gate allows; with scripts as runners, with the runner of the test bed, and weir-runner.php itself."""
import datetime
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
from lib_guarded import BUSY, CALM, PAYMENT, RENEWAL, STORM, Guarded, maria  # noqa: E402
from harness import HANG_S, ROOT, WEIR, equal, expect, main, test, until  # noqa: E402

ENTRY = os.path.join(ROOT, "integrations", "wordpress", "weir-runner.php")


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
            (("--wordpress", "shop", "--exec", "true", "--runners", "65"), "1 to 64"),
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
    equal(set(env) - {"LANG", "OLDPWD", "PWD", "_"}, {"APP", "HOME", "PATH", "WEIR_RUNNERS"}, "environment")
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
    def php(*words):
        done = subprocess.run(["php", ENTRY, *words], text=True, stdin=subprocess.DEVNULL,
                              env={**os.environ, "WEIR_RUNNERS": "3"}, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, timeout=HANG_S)
        return done.returncode, done.stdout + done.stderr
    code, text = php()
    expect(code == 2 and "usage: php weir-runner.php" in text, text)
    code, text = php(folder)
    expect(code == 2 and "there is no WordPress in " + folder in text, text)
    site = lib_wordpress.Site(lib_wordpress.maria("runner"))
    code, text = php(site.root)
    expect(code == 2 and "has no Action Scheduler" in text, "%d %s" % (code, text))
    site.plugin("scheduler", """
        class ActionScheduler_QueueRunner {
            static function instance() { return new self; }
            function run($context) {
                file_put_contents('%s/ran', "$context " . (int) wp_doing_cron() . " "
                    . apply_filters('action_scheduler_queue_runner_concurrent_batches', 1) . "\\n", FILE_APPEND);
            }
        }""" % folder)
    code, text = php(site.root)
    equal((code, text), (0, ""), "weir-runner.php")
    with open(folder + "/ran") as f:
        equal(f.read(), "weir 1 3\n", "what ran")


if __name__ == "__main__":
    main()
