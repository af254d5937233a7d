"""What the fault and integration tests share: the server as a process, a RESP client and an HTTP
client written apart from the server's own code, and a runner that prints one line per check.

A test is a function marked @test("a sentence that is true when it passes").  It gets a fresh
folder.  `main()` runs the tests of a file, or those whose sentence contains a word given on the
command line; --full asks for the long form.  Those of the outer ring, @test("...", outer=True), run
with --outer, and then alone; with outer=BOTH a test runs in both, in a form of its own in each
(OUTER).  Nothing sleeps for a fixed time: `until` polls for a condition up to a deadline.
"""
import atexit
import contextlib
import csv
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import traceback

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
WEIR = os.environ.get("WEIR", os.path.join(ROOT, "build", "weir"))
FULL = "--full" in sys.argv
HANG_S = 120  # no wait that only ends a hang is shorter, on a busy machine too
OUTER = "--outer" in sys.argv
BOTH = None  # of the two rings

# ---------------------------------------------------------------- running tests

_tests = []


def test(sentence, outer=False):
    def mark(fn):
        if outer in (OUTER, BOTH):
            _tests.append((sentence, fn))
        return fn
    return mark


class Skip(Exception):
    """The machine cannot do this one; says why."""


def expect(condition, why):
    if not condition:
        raise AssertionError(why)


def equal(got, wanted, what="value"):
    if got != wanted:
        raise AssertionError("%s is %s, wanted %s" % (what, short(got), short(wanted)))


def short(value, limit=300):
    text = repr(value)
    return text if len(text) <= limit else text[:limit] + "..."


def dice_seed():
    """The seed of a test that throws dice.  It is the same in each run of the inner ring."""
    seed = int(os.environ.get("WEIR_SEED", 1))
    print("# WEIR_SEED=%d" % seed, flush=True)
    return seed


def stalled():
    """Seconds since the start of the machine in which something on it waited for a processor, the
    disk or memory; 0 where the kernel does not tell."""
    total = 0
    for resource in ("cpu", "io", "memory"):
        try:
            with open("/proc/pressure/" + resource) as f:
                total += int(f.readline().rsplit("total=", 1)[1])
        except (OSError, IndexError, ValueError):
            pass  # a kernel without it, or a container that hides it
    return total / 1e6


class Watch:
    """A stopwatch that knows a busy machine.  A lower bound holds on any machine: `wall`.  An upper
    bound is one of weir's own time: what others kept the machine busy with does not count, up to
    nine times the bound, so that a hang is still found."""

    def __init__(self):
        self.begin, self.stalled = time.monotonic(), stalled()

    @property
    def wall(self):
        return time.monotonic() - self.begin

    def is_over(self, seconds):
        wall = self.wall
        return wall >= seconds and (wall - (stalled() - self.stalled) >= seconds
                                    or wall >= 10 * seconds)

    def within(self, seconds, what="it"):
        expect(not self.is_over(seconds), "%s took %.2f s, of which the machine was busy for %.2f s; "
               "wanted less than %s s" % (what, self.wall, stalled() - self.stalled, seconds))


def until(condition, seconds=HANG_S, what="the condition"):
    """Polls until the condition is true and returns its value.  The longer it takes, the longer the
    pauses: a wait of seconds must not keep a core busy with asking."""
    watch, pause = Watch(), 0.004
    while True:
        value = condition()
        if value:
            return value
        if watch.is_over(seconds):
            raise AssertionError("%s did not come true in %s s" % (what, seconds))
        time.sleep(pause)
        pause = min(pause * 1.2, 0.05)


def main():
    words = [a for a in sys.argv[1:] if not a.startswith("--")]
    failed = 0
    for sentence, fn in _tests:
        if words and not any(w in sentence for w in words):
            continue
        folder = tempfile.mkdtemp(prefix="weir-test.", dir=os.environ.get("TEST_TMP"))
        begin = time.monotonic()
        try:
            fn(folder)
            line = "ok - " + sentence
        except Skip as skip:
            line = "ok - %s # skip %s" % (sentence, skip)
        except Exception as error:  # every failure becomes one line, the next test still runs
            failed += 1
            why = str(error).replace("\n", " ") or type(error).__name__
            line = "not ok - %s: %s" % (sentence, why)
            if not isinstance(error, AssertionError) or os.environ.get("TRACE"):
                traceback.print_exc()
        finally:
            for server in list(Server.alive):
                server.kill()
        if os.environ.get("TIMES"):
            line += " (%.1f s)" % (time.monotonic() - begin)
        print(line, flush=True)
        if line.startswith("not ok"):
            log = os.path.join(folder, "stderr")
            if os.path.exists(log):
                with open(log, errors="replace") as f:
                    for text in f.read().splitlines()[-15:]:
                        print("#   " + text)
        shutil.rmtree(folder, ignore_errors=True)
    sys.exit(1 if failed else 0)


# ---------------------------------------------------------------- the server as a process


class Server:
    """`weir serve` on ports of its own choosing.

    trace and inject: strace expressions, e.g. trace="fdatasync",
    inject="fdatasync:error=EIO:when=5+".
    """
    alive = []

    def __init__(self, folder, *args, data=None, trace=None, inject=None, env=None, wait=True,
                 seconds=HANG_S, token=None, config=None, resp="127.0.0.1:0", http="127.0.0.1:0"):
        self.folder = folder
        self.data = data or os.path.join(folder, "data")
        self.token = token
        self.ready = self.resp = self.http = self.resp_tls = self.http_tls = None
        self.mysql = []
        command = [WEIR, "serve", "--data", self.data, "--resp", resp, "--http", http]
        if token:
            path = os.path.join(folder, "token")
            with open(path, "w") as f:
                f.write(token + "\n")
            os.chmod(path, 0o600)
            command += ["--token-file", path]
        if config:
            path = os.path.join(folder, "weir.conf")
            with open(path, "w") as f:
                f.write(config)
            command += ["-c", path]
        command += list(args)
        if trace:
            # -D: the tracer is a grandchild, so that our child is weir itself.
            command = ["strace", "-D", "-f", "-qq", "-o",
                       os.path.join(folder, "strace"), "-e", "trace=" + trace,
                       *(["-e", "inject=" + inject] if inject else [])] + command
        self.stderr_path = os.path.join(folder, "stderr")
        self.stderr = open(self.stderr_path, "ab")
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=self.stderr,
                                        env={**os.environ, **(env or {})})
        Server.alive.append(self)
        if wait:
            self.wait_ready(seconds)

    def wait_ready(self, seconds=HANG_S):
        """The addresses, once the ready line has come; AssertionError when it ends before."""
        deadline = time.monotonic() + seconds
        out = self.process.stdout
        os.set_blocking(out.fileno(), False)
        text = b""
        while True:
            chunk = out.read()
            if chunk:
                text += chunk
            found = re.search(rb"^ready http=(\S+) resp=(\S+)(?: http_tls=(\S+))?(?: resp_tls=(\S+))?"
                              rb"(?: mysql=(\S+))?$", text, re.M)
            if found and text.endswith(b"\n"):
                self.ready = found.group(0).decode()
                self.http = split_address(found.group(1).decode())
                self.resp = split_address(found.group(2).decode())
                self.http_tls, self.resp_tls = (split_address(a.decode()) if a else None
                                                for a in found.group(3, 4))
                doors = (found.group(5) or b"").decode()
                self.mysql = [split_address(a) for a in doors.split(",") if a]
                return self
            if chunk == b"" and self.process.poll() is not None:
                self.forget()
                raise AssertionError("weir ended with %s before it was ready: %s" % (
                    self.process.returncode, self.log()[-400:]))
            if time.monotonic() > deadline:
                self.kill()
                raise AssertionError("weir was not ready in %s s" % seconds)
            time.sleep(0.002)

    def log(self):
        with open(self.stderr_path, errors="replace") as f:
            return f.read()

    def forget(self):
        if self in Server.alive:
            Server.alive.remove(self)
        self.stderr.close()
        if self.process.stdout:
            self.process.stdout.close()

    def kill(self, sig=signal.SIGKILL):
        if self.process.poll() is None:
            self.process.send_signal(sig)
            self.process.wait(HANG_S)
        self.forget()
        return self.process.returncode

    def stop(self, seconds=HANG_S):
        """SIGTERM; the exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.wait(seconds)

    def wait(self, seconds=HANG_S):
        """The exit code once it ended by itself; AssertionError when it does not."""
        try:
            code = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError("weir did not end within %s s" % seconds) from None
        self.forget()
        return code

    def client(self, **options):
        return Resp(self.resp, **options)

    def web(self, **options):
        return Http(self.http, token=self.token, **options)


def split_address(text):
    if text.startswith("/") or text.startswith("unix:"):
        return text[5:] if text.startswith("unix:") else text
    host, port = text.rsplit(":", 1)
    return host.strip("[]"), int(port)


@atexit.register
def _end_servers():
    for server in list(Server.alive):
        with contextlib.suppress(Exception):
            server.process.kill()


def weir(*args, seconds=HANG_S, **options):
    """The command line; the finished process with its output as text."""
    return subprocess.run([WEIR, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          timeout=seconds, text=True, **options)


def history(data, sql):
    """What `weir history sql` answers, as a list of lists of texts."""
    done = weir("history", "sql", "--data", data, "--csv", sql)
    if done.returncode:
        raise AssertionError("weir history sql: " + done.stderr)
    return list(csv.reader(done.stdout.splitlines()))[1:]


def verify_history(data):
    done = weir("history", "verify", data)
    equal(done.returncode, 0, "exit code of weir history verify: %s%s" % (done.stdout, done.stderr))


# ---------------------------------------------------------------- RESP


class WeirError(Exception):
    def __init__(self, line):
        super().__init__(line)
        self.name, _, self.detail = line.partition(" ")


class Closed(Exception):
    """The server closed the connection."""


def connect(address, seconds=HANG_S, receive_bytes=None):
    """receive_bytes: how little the kernel takes in; what it offers is settled by the connect."""
    is_unix = isinstance(address, str)
    s = socket.socket(socket.AF_UNIX if is_unix else socket.AF_INET)
    s.settimeout(seconds)
    if receive_bytes:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
    s.connect(address)
    if not is_unix:
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return s


class Connection:
    """A socket, and what has come and was not yet read."""

    def __init__(self, address, seconds=HANG_S, receive_bytes=None):
        self.socket = connect(address, seconds, receive_bytes)
        self.buffer = b""

    def close(self):
        self.socket.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def send(self, data):
        self.socket.sendall(data)

    def _more(self):
        try:
            chunk = self.socket.recv(1 << 18)
        except ConnectionError as error:
            raise Closed(str(error)) from None
        if not chunk:
            raise Closed("end of stream")
        self.buffer += chunk

    def is_closed(self, seconds=HANG_S):
        """True when the server closes; whatever it still says is dropped."""
        self.socket.settimeout(seconds)
        try:
            while True:
                if not self.socket.recv(1 << 16):
                    return True
        except ConnectionError:
            return True
        except (TimeoutError, socket.timeout):
            return False


def to_bytes(word):
    if isinstance(word, bytes):
        return word
    return str(word).encode()


def pack(*words):
    out = [b"*%d\r\n" % len(words)]
    for word in words:
        word = to_bytes(word)
        out.append(b"$%d\r\n%s\r\n" % (len(word), word))
    return b"".join(out)


class Resp(Connection):
    """RESP2 and RESP3.  Strings come back as bytes, maps as dict with text keys."""

    at = 0  # how much of the buffer is read; 0 between two replies

    def _line(self):
        while True:
            end = self.buffer.find(b"\r\n", self.at)
            if end >= 0:
                line, self.at = self.buffer[self.at:end], end + 2
                return line
            self._more()

    def _exactly(self, n):
        while len(self.buffer) < self.at + n + 2:
            self._more()
        end = self.at + n
        data, rest, self.at = self.buffer[self.at:end], self.buffer[end:end + 2], end + 2
        if rest != b"\r\n":
            raise AssertionError("a string of %d bytes does not end with CRLF: %r" % (n, rest))
        return data

    def read(self):
        """One reply; an error reply is returned as a WeirError, not raised."""
        try:
            return self._value()
        finally:
            self.buffer, self.at = self.buffer[self.at:], 0

    def _value(self):
        line = self._line()
        kind, rest = line[:1], line[1:]
        if kind == b"+":
            return rest.decode()
        if kind == b"-":
            return WeirError(rest.decode("utf-8", "replace"))
        if kind == b":":
            return int(rest)
        if kind == b"_":
            return None
        if kind == b"#":
            return rest == b"t"
        if kind == b",":
            return float(rest)
        if kind in b"$=":
            n = int(rest)
            return None if n < 0 else self._exactly(n)
        if kind in b"*~>":
            n = int(rest)
            return None if n < 0 else [self._value() for _ in range(n)]
        if kind == b"%":
            return {text(self._value()): self._value() for _ in range(int(rest))}
        raise AssertionError("not RESP: %r" % line[:80])

    def ask(self, *words):
        """Sends a command and returns the reply, errors included."""
        self.send(pack(*words))
        return self.read()

    def __call__(self, *words):
        reply = self.ask(*words)
        if isinstance(reply, WeirError):
            raise reply
        return reply

    def refused(self, *words, name=None, mentions=()):
        """The command must be refused; the error, its name and words checked."""
        reply = self.ask(*words)
        return check_error(reply, name, mentions, short(words))


def check_error(reply, name, mentions, what):
    if not isinstance(reply, WeirError):
        raise AssertionError("%s was answered with %s, not refused" % (what, short(reply)))
    names = (name,) if isinstance(name, str) else name
    if names and reply.name not in names:
        raise AssertionError("%s: the error is %r, wanted %s" % (what, str(reply), names))
    if not reply.detail.strip():
        raise AssertionError("%s: the error %r says nothing more" % (what, str(reply)))
    for word in (mentions,) if isinstance(mentions, str) else mentions:
        if word.lower() not in str(reply).lower():
            raise AssertionError("%s: %r does not mention %r" % (what, str(reply), word))
    return reply


def text(value):
    return value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else value


CLAIM_FIELDS = ("id", "token", "hook", "args", "attempt", "queue", "group", "priority",
                "attempts", "fence", "lease_ms", "created_ms")


class Grant(dict):
    """A row of CLAIM by name: grant.id, grant.token ..."""
    __getattr__ = dict.__getitem__


def grants(reply):
    rows = reply or []
    for row in rows:
        equal(len(row), len(CLAIM_FIELDS), "number of fields of a claimed job")
    return [Grant(zip(CLAIM_FIELDS, row)) for row in rows]


def mapping(reply):
    """A map as RESP2 (flat list) or RESP3 sends it, keys as text."""
    if isinstance(reply, dict):
        return reply
    return {text(reply[i]): reply[i + 1] for i in range(0, len(reply), 2)}


def claim(client, queues="default", worker="w", count=1, wait=None, lease=None):
    words = ["CLAIM", worker, "MAX", count]
    if wait is not None:
        words += ["WAIT", wait]
    if lease is not None:
        words += ["LEASE", lease]
    queues = [queues] if isinstance(queues, str) else list(queues)
    return grants(client(*words, "QUEUES", *queues))


def job(client, job_id):
    return Grant(mapping(client("JOB", job_id)))


def status(client, job_id):
    return text(job(client, job_id)["status"])


def job_list(client, *filters):
    """All pages of JOBS."""
    rows, cursor = [], None
    while True:
        reply = mapping(client("JOBS", *filters, *(["CURSOR", cursor] if cursor else [])))
        rows += [Grant(mapping(row)) for row in reply["jobs"]]
        cursor = reply.get("cursor")
        if not cursor:
            return rows


# ---------------------------------------------------------------- HTTP


class Answer:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    @property
    def json(self):
        return json.loads(self.body)

    def header(self, name):
        for key, value in self.headers:
            if key.lower() == name.lower():
                return value
        return None

    def __repr__(self):
        return "%d %s" % (self.status, self.body[:200])


class Http(Connection):
    """HTTP/1.1 on a raw socket, so that a test can send exactly the bytes it means."""

    def __init__(self, address, token=None, **options):
        super().__init__(address, **options)
        self.address, self.token = address, token

    def host(self):
        return "localhost" if isinstance(self.address, str) else "%s:%d" % self.address

    def head(self, method, path, headers=()):
        lines = ["%s %s HTTP/1.1" % (method, path), "Host: " + self.host()]
        if self.token:
            lines.append("Authorization: Bearer " + self.token)
        return ("\r\n".join(lines + list(headers)) + "\r\n\r\n").encode()

    def read(self, method="GET"):
        while b"\r\n\r\n" not in self.buffer:
            self._more()
        head, self.buffer = self.buffer.split(b"\r\n\r\n", 1)
        lines = head.decode("latin-1").split("\r\n")
        status = int(lines[0].split(" ")[1])
        headers = [tuple(p.strip() for p in line.split(":", 1)) for line in lines[1:]]
        length = [int(v) for k, v in headers if k.lower() == "content-length"]
        body = b""
        if length and method != "HEAD" and status not in (204, 304) and status >= 200:
            while len(self.buffer) < length[0]:
                self._more()
            body, self.buffer = self.buffer[:length[0]], self.buffer[length[0]:]
        return Answer(status, headers, body)

    def ask(self, method, path, body=None, headers=()):
        headers = list(headers)
        data = b""
        if body is not None:
            data = body if isinstance(body, bytes) else json.dumps(body).encode()
            if not any(h.lower().startswith("content-type:") for h in headers):
                headers.append("Content-Type: application/json")
            headers.append("Content-Length: %d" % len(data))
        elif method in ("POST", "PUT", "PATCH"):
            headers.append("Content-Length: 0")
        self.send(self.head(method, path, headers) + data)
        return self.read(method)

    def good(self, method, path, body=None, headers=()):
        answer = self.ask(method, path, body, headers)
        expect(200 <= answer.status < 300, "%s %s: %r" % (method, path, answer))
        return answer.json if answer.body else None


def check_problem(answer, status, code, mentions, what):
    """An error answer: status, problem+json, stable code, a detail that names what was wrong."""
    statuses = (status,) if isinstance(status, int) else status
    expect(answer.status in statuses, "%s: %r, wanted %s" % (what, answer, statuses))
    kind = answer.header("content-type") or ""
    expect(kind.startswith("application/problem+json"), "%s: content type %r" % (what, kind))
    problem = answer.json
    codes = (code,) if isinstance(code, str) else code
    expect(not codes or problem.get("code") in codes, "%s: %r, wanted code %s" % (
        what, problem, codes))
    equal(problem.get("status"), answer.status, what + ": status in the body")
    detail = json.dumps(problem, ensure_ascii=False)
    for word in (mentions,) if isinstance(mentions, str) else mentions:
        expect(word.lower() in detail.lower(), "%s: %s does not mention %r" % (
            what, detail, word))
    return problem
