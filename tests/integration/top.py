#!/usr/bin/python3
# weir-test: timeout=120 bin=release
"""`weir top` in a real terminal: tmux, 80 columns by 24 rows, keys sent and screens captured.

    tests/integration/top.py [word...]
"""
import json
import os
import re
import shutil
import signal
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(HERE, "..", "fault"))

from harness import WEIR, Server, Skip, equal, expect, grants, main, test, until  # noqa: E402


def url(server):
    return "redis://%s:%d" % tuple(server.resp)


class Screen:
    """`weir top` in a tmux of its own; what is after it on the screen shows what it left behind."""
    made = 0

    def __init__(self, folder, server, *args, env="", size=(80, 24)):
        if not shutil.which("tmux"):
            raise Skip("tmux is not installed")
        Screen.made += 1
        self.socket = os.path.join(folder, "tmux%d" % Screen.made)
        command = "%s WEIR_URL=%s %s top %s; echo ended with $?; stty -a | tr ' ' '\\n' | grep -x -- " \
                  "-*echo; cat" % (env or "env -u NO_COLOR", url(server), WEIR, " ".join(args))
        self.tmux("-f", "/dev/null", "new-session", "-d", "-x", str(size[0]), "-y", str(size[1]),
                  command)

    def tmux(self, *words):
        # The leak check at exit cannot stop a process whose signals come by signalfd: it spins.
        env = dict(os.environ, ASAN_OPTIONS=os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0")
        return subprocess.run(["tmux", "-S", self.socket, *words], check=True, text=True, env=env,
                              stdout=subprocess.PIPE).stdout

    def text(self, *words):
        return self.tmux("capture-pane", "-p", *words)

    def press(self, *keys):
        self.tmux("send-keys", *keys)

    def shows(self, *texts, seconds=60.0):
        """Waits until all of the texts are on the screen, and returns it."""
        last = [""]

        def there():
            last[0] = self.text()
            return all(t in last[0] for t in texts)
        try:
            until(there, seconds)
        except AssertionError:
            raise AssertionError("%r never came; the screen is:\n%s" % (texts, last[0])) from None
        return last[0]

    def pid(self):
        pane = self.tmux("display-message", "-p", "#{pane_pid}").strip()
        found = subprocess.run(["pgrep", "-P", pane, "-x", "weir"], text=True,
                               stdout=subprocess.PIPE).stdout.split()
        return int(found[0])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        subprocess.run(["tmux", "-S", self.socket, "kill-server"], stderr=subprocess.DEVNULL)


def weir(server, *words):
    return subprocess.run([WEIR, "--url", url(server), *words], check=True, text=True,
                          stdout=subprocess.PIPE).stdout


def fill(server):
    with server.client() as client:
        for name in ("mail", "media", "sync"):
            for i in range(3):
                client("ENQUEUE", "%s.run" % name, '{"n":%d}' % i, "QUEUE", name)


def claim(server, queue):
    return server.client()("CLAIM", "worker-1", "QUEUES", queue)


@test("at 80 by 24 the head, the queues and the keys fit, and no line is wider")
def it_fits(folder):
    server = Server(folder)
    fill(server)
    with Screen(folder, server) as screen:
        text = screen.shows("throttle off", "level normal", "[Queues 3]", "mail", "q quit")
        lines = text.rstrip("\n").split("\n")
        expect(len(lines) <= 24, "there are %d lines" % len(lines))
        expect(all(len(line) <= 80 for line in lines), "a line is wider than 80")
        expect("per s  in " in text and "jobs  " in text and "ready 9" in text, text)


@test("space holds the chosen queue and lets it go on, and the choice stays with its queue")
def hold_a_queue(folder):
    server = Server(folder)
    fill(server)
    with Screen(folder, server) as screen:
        screen.shows("> mail")
        screen.press("j")
        screen.shows("> media")
        screen.press("Space")
        screen.shows("> media  paused", "paused queue media")
        weir(server, "job", "add", "x", "--queue", "aaa")
        screen.shows("aaa", "> media  paused")
        screen.press("Space")
        screen.shows("> media  open")
        screen.press("Up")
        screen.shows("> mail")


@test("c asks before it cancels the chosen job, and n leaves it alone")
def cancel_a_job(folder):
    server = Server(folder)
    fill(server)
    claim(server, "media")
    with Screen(folder, server) as screen:
        screen.shows("Running jobs 1")
        screen.press("Tab")
        screen.shows("[Running jobs 1]", "media.run", "worker-1")
        screen.press("c")
        screen.shows("cancel job 4?", "y / n")
        screen.press("n")
        screen.shows("nothing was done", "> ")
        screen.press("c")
        screen.shows("cancel job 4?")
        screen.press("y")
        screen.shows("canceled job 4", "nothing runs")
    equal(json.loads(weir(server, "job", "show", "4", "--json"))["status"], "canceled", "status")


@test("p pauses the throttle after a question, and ends the pause the same way")
def pause_the_throttle(folder):
    server = Server(folder)
    with Screen(folder, server) as screen:
        screen.shows("level normal")
        screen.press("p")
        screen.shows("pause the throttle for 1 h?")
        screen.press("y")
        screen.shows("PAUSED by an operator", "left")
        screen.press("p")
        screen.shows("end the pause")
        screen.press("y")
        screen.shows("the pause is over")
        expect("PAUSED" not in screen.text(), "the pause goes on")


@test("a filter narrows the rows while it is typed, and Esc takes it away")
def filter_rows(folder):
    server = Server(folder)
    fill(server)
    with Screen(folder, server) as screen:
        screen.shows("sync")
        screen.press("/", "m", "e", "d")
        text = screen.shows("show rows that hold: med_", "> media")
        expect("sync" not in text and "> mail" not in text, text)
        screen.press("Enter")
        screen.shows("filter: med", "q quit")
        screen.press("Escape")
        screen.shows("sync", "mail")


@test("? explains the keys and any key goes back")
def help_is_there(folder):
    server = Server(folder)
    with Screen(folder, server) as screen:
        screen.shows("q quit")
        screen.press("?")
        screen.shows("Shift-Tab", "cancel the chosen job")
        screen.press("x")
        screen.shows("no queues yet")


@test("refused clients and the starved have panels of their own")
def clients(folder):
    server = Server(folder)
    weir(server, "rule", "set", "etl", "hold", "--for", "1h")
    for _ in range(3):
        subprocess.run([WEIR, "--url", url(server), "check", "etl:nightly"],
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    with Screen(folder, server) as screen:
        screen.shows("q quit")
        screen.press("3")
        screen.shows("[Clients 3]", "etl:nightly", "REFUSED")
        screen.press("4")
        screen.shows("[Starved ", "tarved")


@test("it follows the size of the window")
def resizes(folder):
    server = Server(folder)
    fill(server)
    with Screen(folder, server) as screen:
        screen.shows("q quit")
        screen.tmux("resize-window", "-x", "50", "-y", "12")

        def is_small():
            lines = screen.text().rstrip("\n").split("\n")
            return len(lines) == 12 and lines[-1].startswith("q quit")
        until(is_small, what="a frame of 12 lines")
        screen.tmux("resize-window", "-x", "120", "-y", "40")

        def is_large():
            lines = screen.text().rstrip("\n").split("\n")
            return len(lines) == 40 and lines[-1].startswith("q quit")
        until(is_large, what="a frame of 40 lines")


@test("every way out gives the terminal back: q, ctrl-C, SIGTERM, SIGINT and a crash")
def gives_back(folder):
    server = Server(folder)
    ways = {"q": lambda s: s.press("q"),
            "ctrl-C": lambda s: s.press("C-c"),
            "SIGTERM": lambda s: os.kill(s.pid(), signal.SIGTERM),
            "SIGINT": lambda s: os.kill(s.pid(), signal.SIGINT),
            "SIGABRT": lambda s: os.kill(s.pid(), signal.SIGABRT)}
    for way, leave in ways.items():
        with Screen(folder, server) as screen:
            screen.shows("q quit")
            leave(screen)
            code = "134" if way == "SIGABRT" else "0"
            text = screen.shows("ended with " + code, "\necho")
            expect("q quit" not in text, "after %s its screen is still there:\n%s" % (way, text))


@test("it says that the server is away and connects again when it is back")
def reconnects(folder):
    server = Server(folder)
    fill(server)
    address = "%s:%d" % tuple(server.resp)
    with Screen(folder, server) as screen:
        screen.shows("[Queues 3]")
        server.stop()
        screen.shows("no connection, trying again", "mail")
        server = Server(folder, resp=address)
        screen.shows("[Queues 3]", "q quit")
        screen.press("q")
        screen.shows("ended with 0")


@test("nothing from a job reaches the terminal as a command")
def escapes_are_shown(folder):
    server = Server(folder)
    client = server.client()
    client("ENQUEUE", "hook", "x", "QUEUE", "q\u202egnol")
    grant = grants(client("CLAIM", "w", "QUEUES", "q\u202egnol"))[0]
    client("PROGRESS", grant["id"], grant["token"], "evil\x1b]0;owned\x07\x1b[2J")
    with Screen(folder, server) as screen:
        screen.shows("q\\u202egnol")
        screen.press("Tab")
        screen.shows("evil\\x1b]0;owned\\x07\\x1b[2J")
        expect(screen.tmux("display-message", "-p", "#{pane_title}").strip() != "owned",
               "the title was changed")


@test("NO_COLOR leaves out every tone, and the chosen row still has its mark")
def no_color(folder):
    server = Server(folder)
    fill(server)
    with Screen(folder, server, env="NO_COLOR=1") as screen:
        screen.shows("> mail")
        expect("\x1b[" not in screen.text("-e"), "there are tones: %r" % screen.text("-e")[:200])
    with Screen(folder, server) as screen:
        screen.shows("> mail")
        expect(re.search("\x1b\\[(0;)?7m", screen.text("-e")), "the chosen row is not reversed")


@test("without a terminal it prints everything once, as text or as JSON")
def once(folder):
    server = Server(folder)
    fill(server)
    claim(server, "mail")
    text = weir(server, "top")
    expect("\x1b" not in text, "there are escapes in it")
    for part in ("level normal", "Queues", "media", "Running jobs", "worker-1", "Starved"):
        expect(part in text, "%r is not in it" % part)
    found = json.loads(weir(server, "top", "--json"))
    equal(found["throttle"]["level"], "normal", "level")
    equal(len(found["running"]["jobs"]), 1, "running jobs")
    equal({q["name"] for q in found["queues"]}, {"mail", "media", "sync"}, "queues")


main()
