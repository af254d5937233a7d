#!/usr/bin/python3
# weir-test: timeout=120 bin=release
"""The transcripts of weir-protocol(7) are what happens.

Each line after `$ ` in a literal block is run as it stands, in order, against fresh servers; only the
ports are those of the test.  What it prints must be what the page shows.  Random tokens and times are
compared by their form: the first time a token of the page is met it stands for the one that came, also
in the commands that follow.  Blocks behind a comment `; test: token` are for a server with a token.
"""
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "fault"))

from harness import ROOT, Server, Skip, equal, expect, main, test  # noqa: E402

PAGE = os.path.join(ROOT, "docs", "man", "weir-protocol.7.scd")
TOKEN = "correct horse battery staple"
RANDOM = re.compile(r"\b[0-9a-f]{32}\b")
DIGITS = re.compile(r"(?<=weir_session_)[0-9a-f]{8}\b")
TIME = re.compile(r"\b1\d{12}\b|(?<=Date: )\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d GMT")


def blocks():
    """(whether it is for a server with a token, lines) of every literal block with a command."""
    with open(PAGE) as f:
        text = f.read()
    for mark, block in re.findall(r"((?:^; test: token\n)?)^```\n(.*?)^```$", text, re.M | re.S):
        lines = re.sub(r"\\(.)", r"\1", block).split("\n")[:-1]  # as scdoc reads them
        if lines[0].startswith("$ "):
            yield bool(mark), lines


def steps(lines):
    """(command, output) of a block; a command goes on after a | or a backslash at the end."""
    found = []
    for line in lines:
        if line.startswith("$ "):
            found.append([line[2:], []])
        elif not found[-1][1] and found[-1][0][-1] in "|\\":
            found[-1][0] += "\n" + line
        else:
            found[-1][1].append(line)
    return found


class Shell:
    """Runs commands of the page against a server."""

    def __init__(self, server):
        self.ports = {"7379": server.resp[1], "7380": server.http[1]}
        self.known = {}  # token of the page: ours

    def run(self, command):
        command = RANDOM.sub(lambda m: self.known.get(m.group(), m.group()), command)
        command = re.sub(r"\b(7379|7380)\b", lambda m: str(self.ports[m.group()]), command)
        done = subprocess.run(["bash", "-c", command], stdin=subprocess.DEVNULL, timeout=120,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        return done.stdout.decode().replace("\r", "").rstrip(" ").split("\n")

    def plain(self, lines, others=()):
        """The lines with the same word in the place of everything that differs each time."""
        text = "\n".join(lines).rstrip("\n")
        for mine, other in zip(RANDOM.findall(text), RANDOM.findall("\n".join(others))):
            self.known[mine] = other
        return TIME.sub("TIME", DIGITS.sub("DIGITS", RANDOM.sub("RANDOM", text))).split("\n")


@test("every transcript of weir-protocol(7) is what happens")
def transcripts(folder):
    for tool in ("redis-cli", "curl", "jq"):
        if subprocess.run(["which", tool], stdout=subprocess.DEVNULL, check=False).returncode:
            raise Skip("there is no " + tool)
    shells = {}
    for has_token in (False, True):
        place = os.path.join(folder, "token" if has_token else "open")
        os.mkdir(place)
        shells[has_token] = Shell(Server(place, token=TOKEN if has_token else None))
    n = 0
    for has_token, lines in blocks():
        shell = shells[has_token]
        for command, wanted in steps(lines):
            got = shell.run(command)
            equal("\n".join(shell.plain(got)), "\n".join(shell.plain(wanted, got)), command)
            n += 1
    expect(n > 15, "only %d commands in %s" % (n, PAGE))


if __name__ == "__main__":
    main()
