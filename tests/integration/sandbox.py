#!/usr/bin/python3
# weir-test: timeout=120 bin=release
"""The filter of system calls around a running server: on all threads, also on those that come later;
what it leaves to a reload; and programs of targets, which need a wider one.

Builds with sanitizers end at a call that is not on the list, so that all other tests look for what the
list lacks.  This one runs the program that is installed.

    tests/integration/sandbox.py [word...]
"""
import contextlib
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(HERE, "..", "fault"))

from harness import Server, equal, expect, main, test, until  # noqa: E402

HOST = """
target "host" {
        kind = "host"
        interval = "100ms"
        metric "load_per_core" { elevated = {900, 800} }
        metric "disk_used:/" { elevated = {101, 100} }
}
"""
COMMAND = """
target "shell" {
        kind = "command"
        command = {"sh", "-c", "echo 7 | cat"}
        interval = "100ms"
        metric "load" { elevated = {50, 40} }
}
"""


def of_threads(server, field):
    """What /proc says of each thread; one may end meanwhile."""
    folder = "/proc/%d/task" % server.process.pid
    found = []
    for thread in os.listdir(folder):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError), \
                open(os.path.join(folder, thread, "status")) as f:
            found += [line.split()[1] for line in f if line.startswith(field + ":")]
    return found


def write(folder, content):
    path = os.path.join(folder, "weir.conf")
    with open(path, "w") as f:
        f.write(content)
    return path


def value_of(server, target):
    """The first metric of a target, as text; None when there is none."""
    with server.web() as w:
        for row in w.good("GET", "/v1/throttle")["targets"]:
            if row["name"] == target:
                return row["metrics"][0]["value"]
    return None


@test("every thread is filtered and gains no privileges, also one that starts later")
def _(folder):
    path = write(folder, "")
    server = Server(folder, "-c", path)
    client = server.client()
    before = of_threads(server, "Seccomp")
    equal(set(before), {"2"}, "Seccomp of the threads")
    equal(set(of_threads(server, "NoNewPrivs")), {"1"}, "NoNewPrivs of the threads")
    expect(len(before) > 1, "there is but one thread")
    write(folder, HOST)
    client("CONFIGRELOAD")
    until(lambda: len(of_threads(server, "Seccomp")) > len(before), 60, "a thread of the probe")
    equal(set(of_threads(server, "Seccomp")), {"2"}, "Seccomp of the threads")
    until(lambda: value_of(server, "host"), 60, "the host's load")
    client("ENQUEUE", "hook", "{}")
    equal(server.stop(60), 0, "exit code")
    expect("not filtered" not in server_log(folder), server_log(folder)[-300:])


def server_log(folder):
    with open(os.path.join(folder, "stderr")) as f:
        return f.read()


@test("the first target that is a program needs a restart, and the reload says so and changes nothing")
def _(folder):
    path = write(folder, HOST)
    server = Server(folder, "-c", path)
    client = server.client()
    write(folder, HOST + COMMAND)
    client.refused("CONFIGRELOAD", name="STATE", mentions=["needs a restart", "seccomp"])
    equal(value_of(server, "shell"), None, "the new target")
    server.stop(60)
    server = Server(folder, "-c", path)
    client = server.client()
    equal(set(of_threads(server, "Seccomp")), {"2"}, "Seccomp of the threads")
    until(lambda: value_of(server, "shell") == "7", 60, "what the program prints")
    equal(server.stop(60), 0, "exit code")


@test("it can be switched off, only watched, or end weir; and nothing else")
def _(folder):
    for mode, wanted in (("off", "0"), ("log", "2"), ("kill", "2")):
        server = Server(folder, "--seccomp", mode)
        equal(set(of_threads(server, "Seccomp")), {wanted}, "Seccomp of the threads")
        equal(set(of_threads(server, "NoNewPrivs")), {"1"}, "NoNewPrivs of the threads")
        client = server.client()
        client("ENQUEUE", "hook", "{}")
        equal(server.stop(60), 0, "exit code")
    try:
        Server(folder, "--seccomp", "maybe")
        raise AssertionError("it started")
    except AssertionError as error:
        expect("takes on, kill, log or off, not 'maybe'" in str(error), str(error))


main()
