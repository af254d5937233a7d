"""Pages of docs/ as tests use them: their text, their fenced blocks and their command lines, and a
reader who types what a page says and compares what comes back with what the page shows.

A tutorial has two kinds of blocks.  ```sh is what the reader types; ```text, right after it, is what
that prints.  A ```sh block without a ```text block succeeds and prints nothing.
"""
import os
import re
import shutil
import signal
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(HERE, "..", "fault"))

from harness import WEIR, Skip, equal, expect, until  # noqa: E402

PATIENCE_S = 20
AGAIN_S = 0.2


def read_page(name):
    with open(os.path.join(ROOT, "docs", name), encoding="utf-8") as f:
        return f.read()


def blocks(text, *languages):
    """(language, body) of every fenced block in one of these languages, in order."""
    return [(language, body) for language, body
            in re.findall(r"^```(\w+)\n(.*?)^```$", text, re.S | re.M) if language in languages]


def line_of(text, word):
    """The one indented line of the page that runs this program."""
    found = [s.strip() for s in re.findall(r"^    (.*)$", text, re.M)
             if re.search(r"(^|[ /])%s( |$)" % re.escape(word), s)]
    equal(len(found), 1, "lines of the page for " + word)
    return found[0]


def enter_namespaces():
    """Runs this script again in network and process namespaces of its own, so that the default
    addresses of weir are free.  Without namespaces its tests are skipped."""
    if os.environ.pop("IN_NAMESPACES", None):
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
        return
    spaces = ["--net", "--pid", "--fork", "--kill-child", "--mount-proc"]
    if os.geteuid() != 0:
        spaces[:0] = ["--user", "--map-root-user"]
    if subprocess.run(["unshare", *spaces, "true"], stderr=subprocess.DEVNULL,
                      check=False).returncode:
        print("ok - the pages are run # skip no namespaces here")
        sys.exit(0)
    os.environ["IN_NAMESPACES"] = "1"
    os.execvp("unshare", ["unshare", *spaces, sys.executable, *sys.argv])


# ---------------------------------------------------------------- what may differ

_LENGTH = r"\b\d+(\.\d+)? (ms|s|min|h|d)( \d+ (ms|s|min|h))?\b"
_VARIES = (
    (r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(Z| [+-]\d{4})?", "<time>"),
    (r"\bjust now\b|" + _LENGTH + " ago", "<ago>"),
    (_LENGTH, "<duration>"),
    (r"[ \t]+", " "),
)


def shape(text, more=()):
    """The lines of a text without what differs from run to run: times, durations, the width of
    columns, and more patterns of a page."""
    for pattern, name in tuple(more) + _VARIES:
        text = re.sub(pattern, name, text)
    return [line.strip() for line in text.strip("\n").split("\n")]


def is_like(shown, printed, more=()):
    """Whether the printed text is the one the page shows; `...` stands for any number of lines."""
    pattern = "".join(r"(?:.*\n)*" if line == "..." else re.escape(line) + r"\n"
                      for line in shape(shown, more))
    return re.fullmatch(pattern, "\n".join(shape(printed, more)) + "\n") is not None


# ---------------------------------------------------------------- the reader

# Commands that change nothing, so that they can be repeated.
_LOOKS = re.compile(r"weir (--url \S+ )?(check [^-]*$|(\w+ )?(list|show|status|why|events|history)\b)")

# To its programs the reader is the user `daemon`, whoever that is outside of the namespace.
ORDINARY = ("unshare", "--user", "--map-user=1", "--map-group=1")


class Reader:
    """A shell in a folder of its own, where `weir` is the program under test.  A context manager:
    whatever the page has started ends with it.

    `varies`: (pattern, name) of what this page may print differently; `is_ordinary`: the reader is not
    root; `patience`: seconds until what is shown must be there; further variables are those of the
    shell."""

    def __init__(self, folder, varies=(), is_ordinary=False, patience=PATIENCE_S, **variables):
        self.folder, self.n, self.varies, self.patience = folder, 0, varies, patience
        programs = os.path.join(folder, ".bin")
        os.makedirs(programs)
        os.symlink(os.path.abspath(WEIR), os.path.join(programs, "weir"))
        env = dict(os.environ, PATH=":".join((programs, os.path.join(ROOT, "demo"), os.environ["PATH"], "/usr/sbin")),
                   LC_ALL="C.UTF-8", TZ="UTC", **variables)
        status, writer = os.pipe()
        self.status = os.fdopen(status)
        self.shell = subprocess.Popen(
            [*(ORDINARY if is_ordinary else ()), "bash"], cwd=folder,
            env=dict(env, STATUS_FD=str(writer)), stdin=subprocess.PIPE,
            pass_fds=(writer,), start_new_session=True, text=True)
        os.close(writer)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        os.killpg(self.shell.pid, signal.SIGKILL)
        self.shell.wait()
        self.shell.stdin.close()
        self.status.close()

    def add_program(self, name, command):
        """A program that the page's reader has: this command, with the arguments behind it."""
        path = os.path.join(self.folder, ".bin", name)
        with open(path, "w", encoding="utf-8") as f:
            f.write('#!/bin/sh\nexec %s "$@"\n' % command)
        os.chmod(path, 0o755)

    def type(self, commands):
        """Runs the commands in the shell; their exit code and the file they print to."""
        self.n += 1
        script = os.path.join(self.folder, ".block.%d" % self.n)
        output = os.path.join(self.folder, ".output.%d" % self.n)
        with open(script, "w", encoding="utf-8") as f:
            f.write(commands)
        self.shell.stdin.write(". %s >%s 2>&1; echo $? >&$STATUS_FD\n" % (script, output))
        self.shell.stdin.flush()
        return int(self.status.readline()), output

    def check(self, commands, shown):
        """The commands print what is shown, at once or in the end.  What only looks is asked again
        until it does; the rest may go on in the background."""
        is_look = all(_LOOKS.match(line) for line in commands.strip().split("\n"))
        _, output = self.type(commands)

        def is_right():
            nonlocal output
            if is_look and not is_like(shown, read(output), self.varies):
                time.sleep(AGAIN_S)
                _, output = self.type(commands)
            return is_like(shown, read(output), self.varies)
        try:
            until(is_right, self.patience, "what the page shows")
        except AssertionError:
            raise AssertionError("'%s' prints:\n%s\nand the page shows:\n%s" % (
                commands.strip(), read(output), shown)) from None

    def follow(self, text):
        """Types every block of a page and compares."""
        found = blocks(text, "sh", "text")
        expect(found, "the page has no block")
        for i, (language, body) in enumerate(found):
            if language == "text":
                continue
            if i + 1 < len(found) and found[i + 1][0] == "text":
                self.check(body, found[i + 1][1])
                continue
            code, output = self.type(body)
            equal((code, read(output)), (0, ""), "exit code and output of '%s'" % body.strip())


def read(path):
    with open(path, encoding="utf-8", errors="replace") as f:
        return f.read()


def needs(*programs):
    for name in programs:
        if not shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin"):
            raise Skip(name + " is not installed")
