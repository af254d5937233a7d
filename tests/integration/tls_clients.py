#!/usr/bin/python3
# weir-test: timeout=300
"""The command line, `weir work` and `weir lock run` over TLS: what works, whose certificate is taken, and
the sentence for everything that is not.  client_library.py has libweir.

TLS is a relay in front of weir's plain port here, so that every certificate can be shown.
"""
import atexit
import functools
import json
import os
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "fault"))

from harness import WEIR, Server, equal, expect, main, status, test, until, weir  # noqa: E402
from lib_tls import Authority, Front  # noqa: E402

TOKEN = "the/secret@of weir"
URL_TOKEN = ":the%2Fsecret%40of%20weir"
NAMES = "DNS:weir.example,DNS:localhost,IP:127.0.0.1"
PATIENCE = 60


@functools.lru_cache(None)
def box():
    """The folder of the certificates of all tests."""
    folder = tempfile.mkdtemp(prefix="tls.", dir=os.environ.get("TMPDIR"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


@functools.lru_cache(None)
def authority(name):
    return Authority(box(), name)


@functools.lru_cache(None)
def certificate(name):
    """By our authority for all names of the server, unless it is called otherwise."""
    signer = authority("theirs" if name == "stranger" else "ours")
    names = {"misnamed": "DNS:other.example", "client": ""}.get(name, NAMES)
    return signer.sign(name, names, days=-1 if name == "expired" else 2)


def ca():
    return authority("ours").cert


def begin(folder, **options):
    """A server and the port of TLS in front of it."""
    server = Server(folder, token=TOKEN)
    return server, Front(server.resp[1], certificate("server"), **options)


def address(port, query=None, host="localhost", who=URL_TOKEN):
    return "rediss://%s@%s:%d%s" % (who, host, port, "?ca=" + ca() if query is None else query)


def good(*args, **options):
    done = weir(*args, **options)
    equal(done.returncode, 0, "exit code of %s: %s" % (args, done.stderr))
    return done.stdout


def refused(url, *words, code=7, command=("ping",), env=None):
    """The command fails with a last sentence that has these words in it."""
    n = command.index("--") if "--" in command else len(command)
    done = weir(*command[:n], "--url", url, *command[n:], env={**os.environ, **(env or {})})
    equal(done.returncode, code, "exit code of %s: %s%s" % (url, done.stdout, done.stderr))
    last = done.stderr.splitlines()[-1]
    for word in words:
        expect(word in last, "'%s' is not in %s" % (word, done.stderr))
    expect(last.startswith("weir: ") and not last.endswith("..."), done.stderr)
    expect("secret" not in done.stderr, "the token is shown: " + done.stderr)


# ---------------------------------------------------------------- what works


@test("commands work over TLS: jobs, large payloads, many requests, watch and top")
def _(folder):
    server, front = begin(folder)
    url = address(front.port)
    expect("weir answers on localhost:%d" % front.port in good("ping", "--url", url), "ping")
    equal(good("job", "add", "mail", '{"n": 1}', "--url", url), "added job 1\n", "the answer")
    shown = json.loads(good("job", "show", "1", "--json", "--url", url))
    equal((shown["hook"], shown["args"]), ("mail", {"n": 1}), "the job")
    large = os.path.join(folder, "large")
    with open(large, "w") as f:
        f.write(json.dumps({"x": "y" * 900_000}))
    equal(good("job", "add", "mail", "@" + large, "--url", url), "added job 2\n", "the answer")
    expect(len(good("job", "show", "2", "--json", "--url", url)) > 900_000, "the payload comes back")
    lines = os.path.join(folder, "lines")
    with open(lines, "w") as f:
        for i in range(2000):
            f.write(json.dumps({"hook": "h", "args": {"i": i, "fill": "z" * 300}}) + "\n")
    good("job", "add", "--file", lines, "--url", url)
    got = json.loads(good("top", "--once", "--json", "--url", url))
    expect("queues" in got or "throttle" in got, list(got))
    watched = subprocess.Popen([WEIR, "queue", "list", "--watch=0.1", "--url", url], text=True,
                               stdout=subprocess.PIPE)
    for _ in range(2):  # a second frame: the connection is used again
        while "2002" not in watched.stdout.readline():
            expect(watched.poll() is None, "watch ended")
    watched.send_signal(signal.SIGINT)
    watched.communicate(timeout=PATIENCE)
    server.kill()
    front.close()


@test("options come from the url or the environment, and the url wins")
def _(folder):
    server, front = begin(folder)
    env = {**os.environ, "WEIR_URL": "weirs://localhost:%d" % front.port, "WEIR_TOKEN": TOKEN,
           "WEIR_TLS_CA": ca()}
    good("ping", env=env)
    equal(front.names[-1], "localhost", "the name in the hello")
    good("ping", env={**env, "WEIR_TLS_NAME": "weir.example"})
    equal(front.names[-1], "weir.example", "the name in the hello")
    good("ping", "--url", "rediss://127.0.0.1:%d" % front.port, env=env)
    equal(front.names[-1], None, "an address is no name for a hello")
    other = authority("theirs").cert
    good("ping", "--url", address(front.port), env={**env, "WEIR_TLS_CA": other})
    good("ping", "--url", address(front.port, "?verify=off"), env={**env, "WEIR_TLS_CA": other})
    good("ping", env={**env, "WEIR_TLS_CA": "", "WEIR_TLS_VERIFY": "off"})
    refused(address(front.port, "?verify=on"), "unknown authority",
            env={"WEIR_TLS_VERIFY": "off", "WEIR_TLS_CA": ""})
    good("ping", "--url", address(front.port, "?ca=" + certificate("server")[0]))  # pinned
    # A server with one token takes any user with it.
    good("ping", "--url", address(front.port, who="ci" + URL_TOKEN))
    good("ping", "--url", address(front.port, who="ci:"), env={**os.environ, "WEIR_TOKEN": TOKEN})
    refused(address(front.port, who="ci:"), "the user 'ci' without a token", code=2)
    refused(address(front.port, who=":wrong"), code=3)
    for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
        one = Front(server.resp[1], certificate("server"), newest=version)
        good("ping", "--url", address(one.port))
        one.close()
    front.close()


# ---------------------------------------------------------------- what does not


@test("a certificate that is not good is refused with what is wrong and what to set")
def _(folder):
    server = Server(folder, token=TOKEN)
    fronts = {name: Front(server.resp[1], certificate(name))
              for name in ("server", "stranger", "misnamed", "expired")}
    refused(address(fronts["server"].port, ""), "signed by an unknown authority", "ca=FILE",
            "WEIR_TLS_CA", "what the system trusts")
    refused(address(fronts["stranger"].port), "signed by an unknown authority", ca())
    refused(address(fronts["misnamed"].port), "is for DNS:other.example, not for 'localhost'",
            "name=NAME", "WEIR_TLS_NAME")
    refused(address(fronts["server"].port, host="127.0.0.1", query="?name=127.0.0.2&ca=" + ca()),
            "not for '127.0.0.2'")
    refused(address(fronts["expired"].port), "expired (20", "needs a new one")
    good("ping", "--url", address(fronts["misnamed"].port, "?name=other.example&ca=" + ca()))
    for front in fronts.values():
        good("ping", "--url", address(front.port, "?verify=off"))
        front.close()


@test("a client certificate is shown to a server that wants one")
def _(folder):
    server = Server(folder, token=TOKEN)
    cert, key = certificate("client")
    mine = "&cert=%s&key=%s" % (cert, key)
    both = os.path.join(folder, "both.pem")
    with open(both, "w") as f:
        f.write(open(cert).read() + open(key).read())
    stranger = "&cert=%s&key=%s" % certificate("stranger")
    for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
        front = Front(server.resp[1], certificate("server"), wants=ca(), newest=version)
        good("ping", "--url", address(front.port, "?ca=" + ca() + mine))
        good("ping", "--url", address(front.port, "?ca=" + ca() + "&cert=" + both))
        good("ping", "--url", address(front.port),
             env={**os.environ, "WEIR_TLS_CERT": cert, "WEIR_TLS_KEY": key})
        refused(address(front.port), "wants a client certificate", "cert=FILE", "WEIR_TLS_CERT")
        refused(address(front.port, "?ca=" + ca() + stranger), "refuses the client certificate",
                "unknown ca")
        front.close()


@test("files that cannot be used, and options that are wrong, are told before anything is done")
def _(folder):
    cert, key = certificate("client")
    locked = authority("ours").lock(key, "a passphrase")
    nobody = socket.create_server(("127.0.0.1", 0))
    port = nobody.getsockname()[1]
    for query, words in (
            ("?ca=/no/such.pem", "cannot use the TLS ca /no/such.pem: No such file"),
            ("?ca=" + key, "holds no certificate"),
            ("?cert=" + key, "holds no certificate"),
            ("?cert=" + cert, "holds no private key"),
            ("?cert=%s&key=/no/such.key" % cert, "TLS key /no/such.key: No such file"),
            ("?cert=%s&key=%s" % (cert, locked), "has a passphrase"),
            ("?cert=%s&key=%s" % (cert, certificate("server")[1]), "is not the key of"),
            ("?key=" + key, "WEIR_TLS_CERT"),
            ("?verify=no", "must be on or off"),
            ("?cafile=x", "the options are ca, cert, key, name and verify")):
        url = address(port, query)
        refused(url, words, code=2)
        refused(url, words, code=2, command=("work", "--queue", "q", "--exec", "cat"))
    nobody.close()


@test("TLS to a plain port, plain to a TLS port, and HTTP: each is told which address is meant")
def _(folder):
    server, front = begin(folder)
    refused(address(server.resp[1]), "redis:// for a port without TLS")
    refused(address(server.http[1]), "redis:// for a port without TLS")
    refused("redis://localhost:%d" % front.port, "use rediss://localhost:%d" % front.port)
    refused("https://localhost:%d" % front.port, "rediss://host:7381", code=2)
    once = ("work", "--once", "--queue", "q", "--exec", "cat")
    refused(address(server.resp[1]), "redis:// for a port without TLS", command=once)
    refused("redis://localhost:%d" % front.port, "use rediss://localhost:%d" % front.port,
            command=once)
    front.close()


@test("a server that stops in the handshake is not waited for without end")
def _(folder):
    # Four silent ones at once: the command line takes five seconds for each.
    silent = socket.create_server(("127.0.0.1", 0))
    server, front = begin(folder)
    talking = Halting(front.port, 700)
    failures = []

    def one(port, *command):
        try:
            refused(address(port), "does not go on with the TLS handshake", command=command)
        except AssertionError as error:
            failures.append(str(error))
    threads = [threading.Thread(target=one, args=(port, *command))
               for port in (silent.getsockname()[1], talking.port)
               for command in (("ping",), ("lock", "run", "a", "--", "true"))]
    for t in threads:
        t.start()
    for t in threads:
        t.join(PATIENCE * 3)
    equal(failures, [], "what went wrong")
    talking.close()
    silent.close()
    front.close()


class Halting:
    """Forwards a port, but only so many bytes of each answer."""

    def __init__(self, to_port, answer_bytes):
        self.to_port, self.answer_bytes = to_port, answer_bytes
        self.sockets = [socket.create_server(("127.0.0.1", 0))]
        self.port = self.sockets[0].getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                near = self.sockets[0].accept()[0]
                far = socket.create_connection(("127.0.0.1", self.to_port))
            except OSError:
                return
            self.sockets += [near, far]
            far.sendall(near.recv(65536))
            left = self.answer_bytes
            while left > 0:
                data = far.recv(left)
                left -= len(data)
                near.sendall(data)

    def close(self):
        for s in self.sockets:
            s.close()


# ---------------------------------------------------------------- the worker, and locks


class Background:
    """weir in the background, its standard error in a file."""

    def __init__(self, folder, *args, **options):
        self.path = os.path.join(folder, args[0] + ".err")
        self.file = open(self.path, "ab")
        self.process = subprocess.Popen([WEIR, *args], stderr=self.file, stdin=subprocess.DEVNULL,
                                        **options)

    def log(self):
        with open(self.path) as f:
            return f.read()

    def says(self, words):
        until(lambda: words in self.log(), PATIENCE, "'%s' in the log" % words)

    def end(self, code=0, sig=signal.SIGTERM):
        if sig:
            self.process.send_signal(sig)
        equal(self.process.wait(PATIENCE), code, "exit code: " + self.log()[-500:])
        self.file.close()


@test("a worker runs jobs over TLS, comes back after the connection is lost, and ends in good order")
def _(folder):
    server, front = begin(folder)
    url = address(front.port)
    with server.client() as c:
        c("AUTH", TOKEN)

        def completes(*words):
            job_id = c("ENQUEUE", *words)
            until(lambda: status(c, job_id) == "complete", PATIENCE, "job %s" % job_id)
            return job_id
        # What the job is told leads to the server, files and all, but not in by itself.
        os.symlink(ca(), os.path.join(folder, "ca.pem"))
        worker = Background(folder, "work", "--queue", "q", "--url", address(
            front.port, "?ca=ca.pem"), "--exec", "env -C / %s ping" % WEIR, cwd=folder)
        job_id = c("ENQUEUE", "ping", "{}", "QUEUE", "q", "ATTEMPTS", "1")
        until(lambda: status(c, job_id) == "failed", PATIENCE, "the job without a token")
        told = weir("job", "show", str(job_id), "--url", url).stdout
        expect("localhost:%d wants a token" % front.port in told, told)
        worker.end()
        worker = Background(folder, "work", "--queue", "q", "--url", url, "--exec", "wc -c",
                            "--slots", "3")
        completes("h", json.dumps({"x": "y" * 500_000}), "QUEUE", "q")
        for _ in range(3):
            front.cut()
            completes("h", "{}", "QUEUE", "q")
        expect("closed the connection" in worker.log() or "no connection" in worker.log(),
               worker.log())
        expect("secret" not in worker.log(), "the token is in the log")
        ids = [c("ENQUEUE", "h", "{}", "QUEUE", "q") for _ in range(50)]
        until(lambda: all(status(c, i) == "complete" for i in ids), PATIENCE, "fifty jobs")
        worker.end()
    front.close()


@test("a worker says once why the certificate is refused, and takes up work when that is mended")
def _(folder):
    server, front = begin(folder)
    path = os.path.join(folder, "ca.pem")
    shutil.copy(authority("theirs").cert, path)
    worker = Background(folder, "work", "--queue", "q", "--exec", "cat", "--url",
                        address(front.port, "?ca=" + path))
    worker.says("signed by an unknown authority")
    shutil.copy(ca(), path + ".new")
    os.rename(path + ".new", path)
    with server.client() as c:
        c("AUTH", TOKEN)
        job_id = c("ENQUEUE", "h", "{}", "QUEUE", "q")
        until(lambda: status(c, job_id) == "complete", PATIENCE, "the job")
    equal(worker.log().count("unknown authority"), 1, "how often it is said")
    worker.end()
    front.close()


@test("a lock is held over TLS, also across a lost connection, and not without a good certificate")
def _(folder):
    server, front = begin(folder)
    url = address(front.port)
    done = weir("lock", "run", "a", "--url", url, "--", "sh", "-c", "echo $WEIR_LOCK_NAME; exit 42")
    equal((done.returncode, done.stdout), (42, "a\n"), "the command's " + done.stderr)
    go = os.path.join(folder, "go")
    os.mkfifo(go)
    holder = Background(folder, "lock", "run", "b", "--ttl", "60", "--url", url, "--", "sh", "-c",
                        "echo held >&2; read -r code < %s; exit $code" % go)
    holder.says("held")
    equal(weir("lock", "run", "b", "--url", url, "--", "true").returncode, 1, "another's code")
    front.cut()
    equal(weir("lock", "run", "b", "--url", url, "--", "true").returncode, 1, "another's code")
    with open(go, "w") as f:
        f.write("9\n")
    holder.end(code=9, sig=None)
    good("lock", "run", "b", "--url", url, "--", "true")
    mark = os.path.join(folder, "mark")
    done = weir("lock", "run", "c", "--url", address(front.port, "?ca=" + authority("theirs").cert),
                "--", "touch", mark)
    equal(done.returncode, 7, "exit code: " + done.stderr)
    expect("unknown authority" in done.stderr and not os.path.exists(mark), done.stderr)
    front.close()


main()
