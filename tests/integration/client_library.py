#!/usr/bin/python3
# weir-test: timeout=300 long
"""libweir with a real server: what `make install` brings, loops that ask, and a server that goes
away in the middle of them and comes back.

client_library.c is the program that uses the library; it is built here with the sanitizers, and
does what it is told line by line.  The load of the database is a number in a file, which weir reads
through a target of kind `command`.
"""
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "fault"))

from harness import ROOT, Server, Skip, Watch, equal, expect, main, test, until  # noqa: E402
from lib_client_library import (COUNTS, CREDIT, EASK, EAWAY, EDENIED, ETIMEDOUT, ETLS, GO, NO,  # noqa: E402
                                POLICY, SERVER, Client, Said, program, run)
from lib_databases import free_port  # noqa: E402
from lib_tls import Authority, Front  # noqa: E402


class Load:
    """What weir sees of the database."""

    def __init__(self, folder, value):
        self.path = os.path.join(folder, "lag")
        self.set(value)

    def set(self, value):
        with open(self.path + ".new", "w") as f:
            f.write("%s\n" % value)
        os.rename(self.path + ".new", self.path)

    def config(self):
        return """
            target "db" {
                    kind = "command"
                    command = {"/bin/cat", "%s"}
                    interval = "100ms"
                    metric "lag" { threshold = 5 }
            }
            """ % self.path


def serve(folder, load, **options):
    """On a unix socket, so that it comes back where it was."""
    options.setdefault("resp", os.path.join(folder, "sock"))
    server = Server(folder, config=load.config(), **options)
    with server.client() as client:
        if options.get("token"):
            client("AUTH", options["token"])
        until(lambda: client("CHECK", "setup:test")[3] is not None, what="the first sample")
    return server


def url_of(folder):
    return "unix:" + os.path.join(folder, "sock")


# ---------------------------------------------------------------- what is installed


@test("make install brings header, libraries, pkg-config file and man page, and they work")
def _(folder):
    root = os.path.join(folder, "root")
    env = {k: v for k, v in os.environ.items() if k not in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL")}
    run("make", "-C", ROOT, "install", "DESTDIR=" + root, "PREFIX=/usr", env=env)
    for name in ("include/weir.h", "lib/libweir.a", "lib/libweir.so", "lib/libweir.so.0",
                 "lib/pkgconfig/libweir.pc", "share/man/man3/libweir.3"):
        expect(os.path.exists(os.path.join(root, "usr", name)), name + " is not installed")
    env = {**os.environ, "PKG_CONFIG_PATH": root + "/usr/lib/pkgconfig",
           "PKG_CONFIG_SYSROOT_DIR": root, "PKG_CONFIG_ALLOW_SYSTEM_LIBS": "1",
           "PKG_CONFIG_ALLOW_SYSTEM_CFLAGS": "1"}
    flags = run("pkg-config", "--cflags", "--libs", "libweir", env=env).split()
    version = run("pkg-config", "--modversion", "libweir", env=env).strip()
    expect(version in run(os.path.join(root, "usr/bin/weir"), "version"), version)
    source = os.path.join(ROOT, "examples/check.c")
    strict = ["-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-D_DEFAULT_SOURCE"]
    shared, static = os.path.join(folder, "shared"), os.path.join(folder, "static")
    run("cc", *strict, source, "-o", shared, *flags)
    private = run("pkg-config", "--static", "--libs", "libweir", env=env).split()
    run("cc", *strict, source, "-o", static, "-I" + root + "/usr/include",
        root + "/usr/lib/libweir.a", *[f for f in private if f != "-lweir"])
    expect("libweir.so.0" in run("readelf", "-dW", shared), "the program does not name the soname")
    load = Load(folder, 0)
    serve(folder, load)
    for exe in (shared, static):
        said = run(exe, "etl:nightly", "50", env={**os.environ, "WEIR_URL": url_of(folder),
                                                  "LD_LIBRARY_PATH": root + "/usr/lib"})
        expect(re.search(r"^step 50\n50 steps, [1-9]\d* asks$", said, re.M), said[-200:])


@test("only weir_* is visible in the libraries, and nothing in them ends the process")
def _(folder):
    shared = run("nm", "-D", os.path.join(ROOT, "build/libweir.so.0"))
    static = run("nm", "-g", os.path.join(ROOT, "build/libweir.a"))
    wanted = set(re.findall(r"^WEIR_API .*?\b(weir_\w+)\(", open(
        os.path.join(ROOT, "lib/weir.h")).read(), re.M))
    expect(len(wanted) >= 9, wanted)
    for text in (shared, static):
        equal(set(re.findall(r" [TDBRV] (\w+)", text)), wanted, "what is defined")
        bad = set(re.findall(r" U (\w+)", text)) & {
            "abort", "exit", "_exit", "panic", "raise", "signal", "sigaction", "pthread_create",
            "printf", "fprintf", "puts", "perror", "syslog", "system"}
        equal(bad, set(), "what is called")
    data = run("size", "-A", os.path.join(ROOT, "build/libweir.a"))
    for section in ("data", "bss"):
        sizes = re.findall(r"^\.%s(?:\.(?!rel\.ro)[\w.]+)? +(\d+)" % section, data, re.M)
        equal(sum(map(int, sizes)), 0, "bytes of state in ." + section)


@test("the header is C11 and C++")
def _(folder):
    if not shutil.which("g++"):
        raise Skip("there is no g++")
    source = os.path.join(folder, "x.cc")
    with open(source, "w") as f:
        f.write("#include <weir.h>\nint main() { weir_ask a = weir_ask(); weir *w = nullptr;\n"
                "return weir_new(nullptr, WEIR_OPEN, &w) || weir_check(w, &a, nullptr); }\n")
    for standard in ("c++11", "c++17", "c++20"):
        run("g++", "-std=" + standard, "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsyntax-only",
            "-I", os.path.join(ROOT, "lib"), source)


# ---------------------------------------------------------------- asking


@test("a step goes while the load is low, waits while it is high, and does not poll meanwhile")
def _(folder):
    load = Load(folder, 1)
    server = serve(folder, load)
    client = Client(url_of(folder), "closed")
    said = client.step()
    equal((said.verdict, said.source, said.value), (GO, SERVER, "1.000"), "the first step")
    load.set(9.5)
    until(lambda: client.check().verdict == NO, what="a refusal")
    before = client.counts()["asks"]
    # Not the identity of the first step: on a slow machine its answer brings credits.
    client.send("step", "etl:weekly", 1, 60000)
    with server.client() as other:
        for value in range(10, 20):  # ten samples, one after the other
            load.set(value)
            until(lambda v=b"%d" % value: other("CHECK", "other:test")[3] == v, what="the sample")
    load.set(2)
    said = Said(client.read())
    equal((said.verdict, said.source, said.value), (GO, SERVER, "2.000"), "the step that waited")
    # One, or two when the machine was so slow that weir had kept the first for WAIT_MS.
    expect(client.counts()["asks"] - before <= 1 + said.seconds // 10, client.counts())
    client.end()


@test("a step that may not go ends with its time")
def _(folder):
    load = Load(folder, 50)
    serve(folder, load)
    client = Client(url_of(folder), "open")
    said = client.step(ms=400)
    equal((said.verdict, said.source, said.reason), (NO, SERVER, "threshold"), said)
    expect(said.seconds >= 0.4, said)
    client.end()


@test("a loop with credits asks at least ten times less often than it steps")
def _(folder):
    load = Load(folder, 0)
    serve(folder, load)
    client = Client(url_of(folder), "closed")
    # The pool grows with the seconds in which somebody takes from it, fast while nothing presses.
    before = client.counts("loop", "etl:nightly", 2500, 2000)
    load.set(1)
    counts = client.counts("loop", "etl:nightly", 1000, 2000)
    equal(counts["granted"] + counts["credited"], 3500, "steps that went")
    after = {k: counts[k] - before[k] for k in ("asks", "steps")}
    print("# %(steps)d steps, %(asks)d asks" % before, "and %(steps)d steps, %(asks)d asks" % after)
    for part in (before, after):
        expect(part["asks"] * 10 <= part["steps"], part)
    client.end()


@test("numbers are read right in a locale with a decimal comma")
def _(folder):
    # Only its numbers: all of de_DE takes a second to make.
    where, source = os.path.join(folder, "locales"), os.path.join(folder, "comma")
    os.mkdir(where)
    with open(source, "w") as f:
        f.write('LC_NUMERIC\ndecimal_point ","\nthousands_sep "."\ngrouping 3;3\nEND LC_NUMERIC\n')
    made = subprocess.run(["localedef", "-c", "-i", source, "-f", "ANSI_X3.4-1968", where + "/comma"],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if made.returncode > 1:
        raise Skip("no locale can be made")
    load = Load(folder, 7.25)
    serve(folder, load)
    client = Client(url_of(folder), "open", env={"LOCPATH": where, "LC_ALL": "",
                                                 "LC_NUMERIC": "comma"})
    equal(client.check().value, "7,250", "the value as this locale prints it")
    client.end()


@test("a held client that polls does not hammer, and goes on within seconds of its release")
def _(folder):
    load = Load(folder, 1)
    server = serve(folder, load)
    client = Client(url_of(folder), "open")
    with server.client() as operator:
        operator("RULESET", "nightly", "HOLD", "FOR", 60000, "AUTHOR", "t", "REASON", "t")
        equal(client.check().reason, "hold")
        for _ in range(3000):
            equal(client.check().verdict, NO)
        counts = client.counts()
        # One in n passes, and one a second.
        expect(counts["asks"] < 100, counts)
        equal(counts["asks"] + counts["throttled"], 3001, "checks")
        equal(client.check("other:daily").source, SERVER, "source of another's answer")
        operator("RULEUNSET", "nightly")
        watch = Watch()
        until(lambda: client.check().verdict == GO, what="a grant")
        watch.within(10)
        for _ in range(100):
            equal(client.check().source, SERVER, "source after the release")
    client.end()


@test("what weir does not take is told, and the handle goes on")
def _(folder):
    load = Load(folder, 1)
    serve(folder, load)
    client = Client(url_of(folder), "closed")
    for identity in ("all", "a::b", "a:b:c:d:e:f:g:h:i", "a/b"):
        said = client.check(identity)
        equal((said.verdict, said.source, said.error), (NO, POLICY, EASK), identity)
        expect(len(said.message) > 10, said)
    equal(client.check().source, SERVER, "source of a good ask")
    equal(client.counts()["connects"], 1, "connections")
    client.end()


@test("a token is shown, and a wrong one fails the chosen way")
def _(folder):
    load = Load(folder, 1)
    serve(folder, load, token="a-correct-horse-battery")
    env = {"WEIR_URL": url_of(folder)}
    for token in ("a-correct-horse-battery", "@" + os.path.join(folder, "token")):
        client = Client("", "closed", env={**env, "WEIR_TOKEN": token})
        equal(client.check().source, SERVER, token)
        client.end()
    for token in ("a-wrong-horse-battery", ""):
        client = Client("", "open", env={**env, "WEIR_TOKEN": token})
        said = client.check()
        equal((said.verdict, said.source, said.error), (GO, POLICY, EDENIED), token)
        expect("horse" not in said.message, said.message)
        client.end()


@test("eight threads with a handle each are served")
def _(folder):
    load = Load(folder, 0)
    serve(folder, load)
    client = Client(url_of(folder), "closed")
    client.send("threads", "etl:nightly", 100)
    equal(client.read().strip(), "800", "steps")
    client.end()


# ---------------------------------------------------------------- TLS


@test("over TLS it asks, steps and comes back; what TLS fails by is told")
def _(folder):
    load = Load(folder, 0)
    server = serve(folder, load, resp="127.0.0.1:0", token="a-correct-horse-battery")
    ours, theirs = Authority(folder, "ours"), Authority(folder, "theirs")
    good = ours.sign("server", "DNS:localhost")
    front = Front(server.resp[1], good)
    strict = Front(server.resp[1], good, wants=ours.cert)
    old = Front(server.resp[1], ours.sign("expired", "DNS:localhost", days=-1))

    def url(port, query):
        return "rediss://u:a-correct-horse-battery@localhost:%d?%s" % (port, query)

    client = Client(url(front.port, "ca=" + ours.cert), "closed")
    said = client.check()
    equal((said.verdict, said.source, said.value), (GO, SERVER, "0.000"), said)
    for _ in range(100):
        equal(client.check().source, SERVER, "source")
    equal(client.counts()["connects"], 1, "connections")
    front.cut()     # it looks before it asks: no failure, or one that is asked again
    until(lambda: client.check().source == SERVER, 60, "the new connection")
    expect(client.counts()["connects"] >= 2, client.counts())
    client.send("threads", "etl:nightly", 5)
    equal(client.read().strip(), "40", "steps of threads")
    client.end()
    mine = "&cert=%s&key=%s" % ours.sign("client")
    client = Client(url(strict.port, "ca=" + ours.cert + mine), "closed")
    equal(client.check().source, SERVER, "with a certificate")
    client.end()
    client = Client("rediss://:a-correct-horse-battery@localhost:%d" % front.port, "closed",
                    env={"WEIR_TLS_CA": ours.cert})
    equal(client.check().source, SERVER, "with the environment")
    client.end()
    silent = socket.create_server(("127.0.0.1", 0))
    for address, error, words in (
            (url(front.port, "ca=" + theirs.cert), ETLS, "unknown authority"),
            (url(front.port, "name=other&ca=" + ours.cert), ETLS, "is for DNS:localhost, not for 'other'"),
            (url(old.port, "ca=" + ours.cert), ETLS, "expired"),
            (url(front.port, "ca=/no/such"), ETLS, "/no/such: No such file"),
            (url(strict.port, "ca=" + ours.cert), ETLS, "wants a client certificate"),
            (url(server.resp[1], "verify=off"), EAWAY, "redis:// for a port without TLS"),
            ("redis://localhost:%d" % front.port, EAWAY, "use rediss://"),
            (url(silent.getsockname()[1], "verify=off"), ETIMEDOUT, "TLS handshake")):
        client = Client(address, "open", connect_ms=60000 if error != ETIMEDOUT else 300,
                        reply_ms=60000)
        said = client.check()
        equal((said.verdict, said.source, said.error), (GO, POLICY, error), said)
        expect(words in said.message and "horse" not in said.message, said.message)
        client.end()
    for end in (front, strict, old, silent):
        end.close()


# ---------------------------------------------------------------- weir goes away and comes back


@test("kill -9: an open loop goes on without weir, and asks again when it is back")
def _(folder):
    load = Load(folder, 1)
    server = serve(folder, load)
    client = Client(url_of(folder), "open", backoff_max_ms=300)
    equal(client.step().source, SERVER, "source at first")
    server.kill()
    client.send("loop", "other:nightly", 2000, 0)
    counts = dict(zip(COUNTS, map(int, client.read().split())))
    equal(counts["credited"] + counts["granted"], 1, "steps that weir let go")
    said = client.step("third:nightly")
    equal((said.verdict, said.source, said.error), (GO, POLICY, EAWAY), "a step without weir")
    serve(folder, load)
    until(lambda: client.step().source in (SERVER, CREDIT), what="weir's own answer")
    client.end()


@test("kill -9 while a step is parked: a closed loop waits, and goes when weir is back")
def _(folder):
    load = Load(folder, 50)
    server = serve(folder, load)
    client = Client(url_of(folder), "closed", backoff_max_ms=300)
    client.send("step", "etl:nightly", 1, 60000)
    with server.client() as other:
        until(lambda: b":nightly" in repr(other("CLIENTS")).encode(), what="the ask")
    server.kill()
    load.set(1)
    serve(folder, load)
    said = Said(client.read())
    equal((said.verdict, said.source), (GO, SERVER), "the step")
    counts = client.counts()
    expect(counts["failures"] >= 1 and counts["asks"] <= 10, counts)
    client.end()


@test("kill -9: a closed loop stops, and a held one goes after its time and no sooner")
def _(folder):
    load = Load(folder, 1)
    server = serve(folder, load)
    closed = Client(url_of(folder), "closed")
    held = Client(url_of(folder), "hold", hold_ms=700)
    equal(closed.check().verdict, GO)
    equal(held.check().verdict, GO)
    server.kill()
    said = closed.step("a:b", ms=300)
    equal((said.verdict, said.source, said.error), (NO, POLICY, EAWAY), "the closed one")
    expect(said.seconds >= 0.3, said)
    said = held.step("a:b")
    equal((said.verdict, said.source, said.error), (GO, POLICY, EAWAY), "the held one")
    expect(said.seconds >= 0.7, said)
    counts = held.counts("loop", "a:b", 5000, 0)
    # 100 ms, 200, 400, 800, ...: a handful of attempts in all that time.
    expect(counts["connects"] < 12, counts)
    for client in (closed, held):
        client.end()


@test("a restart that the loop does not see costs it nothing")
def _(folder):
    load = Load(folder, 1)
    client = None
    for _ in range(5):
        server = serve(folder, load)
        client = client or Client(url_of(folder), "closed")
        equal(client.check().source, SERVER, "source")
        server.kill()
    counts = client.counts()
    equal((counts["failures"], counts["asks"]), (0, 5), "failures and asks")
    client.end()


@test("a server that hangs is known after its time, and asked again without patience")
def _(folder):
    load = Load(folder, 1)
    server = serve(folder, load)
    client = Client(url_of(folder), "open", reply_ms=150, wait_ms=2000, backoff_ms=1,
                    backoff_max_ms=1)
    until(lambda: client.check().source == SERVER, what="an answer in time")
    server.process.send_signal(signal.SIGSTOP)
    said = client.step("a:b")
    equal((said.verdict, said.source, said.error), (GO, POLICY, ETIMEDOUT), "the first step")
    expect(said.seconds >= 2.15, said)
    failures = client.counts()["failures"]
    # One that is asked without patience; a busy machine may need some tries to show it.
    said = until(lambda: (lambda s: client.counts()["failures"] > failures and s.seconds < 2 and s)(
        client.step("a:b")), 30, "a second attempt")
    expect(said.seconds >= 0.15, said)
    server.process.send_signal(signal.SIGCONT)
    until(lambda: client.step("a:b").source in (SERVER, CREDIT), what="weir's own answer")
    client.end()


def mute(address):
    """Listens, and takes no connection any more: whoever connects hears nothing."""
    door = socket.socket()
    door.bind(address)
    door.listen(0)
    inside = []
    while len(inside) < 10:  # the queue has room for one or two
        s = socket.socket()
        s.settimeout(1)
        inside.append(s)
        try:
            s.connect(address)
        except OSError:
            return [door, *inside]
    raise AssertionError("%s takes connections" % (address,))


@test("of a name with several addresses one that is mute does not keep it from the next")
def _(folder):
    hosts = os.path.join(folder, "hosts")
    with open(hosts, "w") as f:
        f.write("127.0.0.2 weirs\n127.0.0.1 weirs\n")
    within = ["unshare", "--mount", *(() if os.geteuid() == 0 else ("--user", "--map-root-user")),
              "sh", "-c", 'mount --bind "$0" /etc/hosts && exec "$@"', hosts]
    if subprocess.run([*within, "true"], stderr=subprocess.DEVNULL, check=False).returncode:
        raise Skip("no namespaces here")
    # glibc puts the one first that is nearer to the address of the interface.
    port = free_port()  # of both addresses
    server = serve(folder, Load(folder, 1), resp="127.0.0.2:%d" % port)
    sockets = mute(("127.0.0.1", port))
    client = Client("weirs:%d" % port, "closed", within=within, connect_ms=4000, step_ms=600000)
    said = client.step()
    equal((said.verdict, said.source), (GO, SERVER), said)
    client.end()
    for s in sockets:
        s.close()
    server.stop()


main()
