#!/usr/bin/python3
# weir-test: timeout=300
"""TLS on the doors RESP and HTTP: handshakes good and bad, bytes in every form, certificates of
clients, another certificate under load, settings, and `weir tls self-signed`.

    tests/integration/tls.py [word...] [--full]
"""
import collections
import contextlib
import functools
import hashlib
import http.client
import json
import os
import re
import select
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import threading

HERE = os.path.dirname(os.path.abspath(__file__))
sys.dont_write_bytecode = True
sys.path.insert(0, HERE)
sys.path.insert(0, os.path.join(HERE, "..", "fault"))

from lib_tls import Authority  # noqa: E402
from harness import (FULL, Closed, Resp, Server, WeirError, connect, equal, expect, main, pack,  # noqa: E402
                     test, until, weir)

MIB = 1 << 20
TOKEN = "0123456789abcdefghijklmnop"


@functools.lru_cache(None)
def authority(name="one"):
    return Authority(tempfile.mkdtemp(prefix="ca.", dir=os.environ.get("TMPDIR")), name)


@functools.lru_cache(None)
def pair(name="server", days=30):
    return authority().sign(name, "DNS:localhost,IP:127.0.0.1", days)


def config(cert=None, key=None, **settings):
    cert, key = (cert, key) if cert else pair()
    more = "".join(' %s = "%s"' % row for row in settings.items())
    return ('resp_tls = {"127.0.0.1:0"}\nhttp_tls = {"127.0.0.1:0"}\n'
            'tls { cert = "%s" key = "%s"%s }\n' % (cert, key, more))


def context(version=None, cert=None, ca=True):
    c = ssl.create_default_context(cafile=authority().cert if ca else None)
    c.options &= ~ssl.OP_IGNORE_UNEXPECTED_EOF  # an end without goodbye is an error
    if version:
        c.minimum_version = c.maximum_version = version
    if cert:
        c.load_cert_chain(*cert)
    return c


class Tls(Resp):
    """RESP over TLS."""

    def __init__(self, server, c=None, name="localhost", session=None, seconds=60,
                 receive_bytes=None):
        plain = connect(server.resp_tls, seconds, receive_bytes)
        self.buffer = b""
        try:
            self.socket = (c or context()).wrap_socket(
                plain, server_hostname=name, session=session, suppress_ragged_eofs=False)
        except BaseException:
            plain.close()
            raise


def refused(why, *args, **options):
    """The client or the server ends the handshake, or the first answer, for that reason."""
    try:
        with Tls(*args, **options) as c:
            c("PING")
    except (ssl.SSLError, OSError, Closed) as error:
        expect(why in str(error), "refused by %r, wanted %r" % (str(error), why))
        return
    raise AssertionError("not refused: %s" % why)


def info(server, section="clients"):
    with server.client() as c:
        lines = c("INFO", section).decode().split("\r\n")
    return dict(line.split(":", 1) for line in lines if ":" in line)


def s_client(server, *args, say=b"", seconds=60):
    done = subprocess.run(["openssl", "s_client", "-connect", "127.0.0.1:%d" % server.resp_tls[1],
                           "-CAfile", authority().cert, *args], input=say,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=seconds)
    return done.stdout.decode(errors="replace")


def first_flight(name="localhost"):
    """What a client sends first."""
    out = ssl.MemoryBIO()
    c = context().wrap_bio(ssl.MemoryBIO(), out, server_hostname=name)
    with contextlib.suppress(ssl.SSLWantReadError):
        c.do_handshake()
    return out.read()


# --------------------------------------------------------------------------- handshakes


@test("TLS 1.2 and 1.3 are spoken, older ones, bad names and unknown authorities are refused")
def _(folder):
    server = Server(folder, config=config())
    for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
        with Tls(server, context(version)) as c:
            equal(c("PING"), "PONG")
            equal(c.socket.version(), {771: "TLSv1.2", 772: "TLSv1.3"}[version])
            expect("GCM" in c.socket.cipher()[0] or "CHACHA" in c.socket.cipher()[0], "weak cipher")
    old = context(ssl.TLSVersion.TLSv1_1)
    old.set_ciphers("ALL:@SECLEVEL=0")
    refused("", server, old)
    # The client judges the name and the authority; the server refuses no name.
    refused("Hostname mismatch", server, name="other.example")
    refused("unable to get local issuer", server, context(ca=False))
    blind = context()
    blind.check_hostname = False
    for name in ("other.example", None):
        with Tls(server, blind, name=name) as c:
            equal(c("PING"), "PONG")
    # In 40 days the certificate has expired.
    out = subprocess.run(["date", "-d", "now + 40 days", "+%s"], stdout=subprocess.PIPE, check=True)
    said = s_client(server, "-attime", out.stdout.decode().strip(), "-verify_return_error")
    expect("certificate has expired" in said, said[-300:])
    said = s_client(server, "-tls1_2", say=b"R\n")
    expect("RENEGOTIATING" in said and "no renegotiation" in said, said[-300:])
    counters = info(server)
    expect(int(counters["tls_handshakes"]) >= 4, counters)
    expect(int(counters["tls_failures"]) >= 3, counters)
    expect('msg="TLS failed"' in server.log() and "unsupported protocol" in server.log(), "log")
    equal(server.stop(), 0)


@test("a session is taken up again, and HTTP is agreed on or refused")
def _(folder):
    server = Server(folder, config=config())
    for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
        c = context(version)
        with Tls(server, c) as one:
            equal(one("PING"), "PONG")
            expect(not one.socket.session_reused, "the first one")
            session = one.socket.session
        with Tls(server, c, session=session) as two:
            equal(two("PING"), "PONG")
            expect(two.socket.session_reused, "%s: not taken up again" % version)
    rows = ((["h2", "http/1.1"], "http/1.1"), (["http/1.1"], "http/1.1"), (["h2"], None))
    for offer, chosen in rows:
        c = context()
        c.set_alpn_protocols(offer)
        try:
            with c.wrap_socket(connect(server.http_tls), server_hostname="localhost") as s:
                equal(s.selected_alpn_protocol(), chosen)
        except ssl.SSLError as error:
            expect(chosen is None and "no application protocol" in str(error), str(error))
    done = subprocess.run(["curl", "-sS", "--cacert", authority().cert, "--http2",
                           "https://localhost:%d/healthz" % server.http_tls[1]],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    equal((done.returncode, done.stdout), (0, "ok\n"), done.stderr)
    equal(server.stop(), 0)


@test("what is cut off, is no TLS or comes to the wrong port is ended, and others are served")
def _(folder):
    server = Server(folder, config=config())
    hello = first_flight()
    with Tls(server) as steady:
        for text in (hello[:1], hello[:40], hello[:-1], hello, b"\x16\x03\x01\x00\x05hello",
                     b"\x01\x02\x03", b"\x80\x2e\x01\x03\x01", os.urandom(300)):
            s = connect(server.resp_tls)
            s.sendall(text)
            s.close()
            equal(steady("PING"), "PONG")
        with Resp(server.resp_tls) as plain:
            error = plain.ask("PING")
            expect(isinstance(error, WeirError) and "speaks TLS" in error.detail, error)
            expect(plain.is_closed(), "still open")
        web = http.client.HTTPConnection(*server.http_tls, timeout=60)
        web.request("GET", "/healthz")
        answer = web.getresponse()
        equal(answer.status, 400)
        expect(b"this port speaks TLS" in answer.read(), "no reason")
        web.close()
        before = int(info(server)["connections_foreign"])
        s = connect(server.resp)  # TLS to the plain port
        s.sendall(hello)
        with contextlib.suppress(OSError):
            while s.recv(4096):
                pass
        equal(int(info(server)["connections_foreign"]), before + 1)
        equal(steady("PING"), "PONG")
        until(lambda: info(server)["tls_connections"] == "1", 60, "all others gone")
    expect("does not speak TLS" in server.log() or "TLS failed" in server.log(), "no line")
    equal(server.stop(), 0)


@test("a handshake may have so many bytes and no more")
def _(folder):
    server = Server(folder, config=config())
    limit = int(info(server, "limits")["TLS_HANDSHAKE_BYTES"])
    # The first message of a client, said to be of 128 KiB, in records of 16 KiB.
    message = b"\x01\x01\xff\x00" + b"\0" * (1 << 17)
    records = b"".join(b"\x16\x03\x01\x40\x00" + message[i:i + 16384] for i in range(0, 1 << 17, 16384))
    with server.client() as c:
        asked = [0]

        def count(name):
            asked[0] += len(pack("INFO", "clients"))
            return int(re.search(rb"\r\n%s:(\d+)" % name, c("INFO", "clients")).group(1))

        for n, is_allowed in ((limit - 1, True), (limit, True), (limit + 1, False)):
            failures, asked[0] = count(b"tls_failures"), 0
            before = count(b"bytes_in")
            asked[0] = 0
            with connect(server.resp_tls) as s:
                s.sendall(records[:n])
                until(lambda: count(b"bytes_in") - before - asked[0] >= n, 60, "all is read")
                equal(count(b"tls_failures") - failures, 0 if is_allowed else 1, "at %d bytes" % n)
                equal(count(b"tls_connections"), 1 if is_allowed else 0, "connections")
            until(lambda: count(b"tls_connections") == 0, 60, "it is gone")
    equal(server.stop(), 0)


@test("thousands of half-open handshakes are bounded, and others are served")
def _(folder):
    server = Server(folder, config=config())
    hello = first_flight()
    held = collections.deque()
    with Tls(server) as steady:
        for i in range(10000 if FULL else 1500):
            s = connect(server.resp_tls)
            s.sendall(hello[:100] if i % 2 else hello)  # the latter costs the server a signature
            held.append(s)
            if len(held) > 200:
                held.popleft().close()
            if i % 250 == 0:
                equal(steady("PING"), "PONG")
                with Tls(server) as c:  # a new one gets in as well
                    equal(c("PING"), "PONG")
        counters = info(server)
        expect(int(counters["connections"]) <= 103, counters["connections"])
        expect(int(counters["connections_cut_strangers"]) > 0, "none was cut")
        # The rest is cut when its time is over.
        until(lambda: info(server)["tls_connections"] == "1", 60, "they are cut")
        equal(steady("PING"), "PONG")
    for s in held:
        s.close()
    equal(server.stop(), 0)


# --------------------------------------------------------------------------- bytes


class Pump:
    """A client that sends and receives at once, in one thread: an SSLSocket cannot be used by two.
    `step`: bytes of ciphertext in each packet."""

    def __init__(self, server, receive_bytes=None, step=1 << 16):
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context().wrap_bio(self.incoming, self.outgoing, server_hostname="localhost")
        self.socket, self.step = connect(server.resp_tls, 60, receive_bytes), step
        self.unsent, self.got = b"", b""
        while not self._try(self.tls.do_handshake):
            self.push()
            self._pull()

    def _try(self, fn, *args):
        try:
            return fn(*args) or True
        except ssl.SSLWantReadError:
            return False

    def _pull(self):
        data = self.socket.recv(1 << 16)
        expect(data, "the server closed the connection")
        self.incoming.write(data)

    def say(self, text):
        self.tls.write(text)

    def push(self):
        """Sends as much as the socket takes now; whether all has left."""
        self.unsent += self.outgoing.read()
        while self.unsent and select.select([], [self.socket], [], 0)[1]:
            n = self.socket.send(self.unsent[:self.step])
            self.unsent = self.unsent[n:]
        return not self.unsent

    def take(self, want):
        """So many plain bytes; sends on meanwhile."""
        while len(self.got) < want:
            data = self._try(self.tls.read, 1 << 16)
            if data:
                self.got += data
                continue
            if not self.push():
                select.select([self.socket], [self.socket], [], 60)
                if not select.select([self.socket], [], [], 0)[0]:
                    continue
            self._pull()
        data, self.got = self.got[:want], self.got[want:]
        return data

    def close(self):
        self.socket.close()


@test("bytes one by one, large arguments, long pipelines and slow readers")
def _(folder):
    server = Server(folder, config=config())
    c = Pump(server, step=1)  # each byte of ciphertext is a packet of its own
    c.say(pack("PING") * 3)
    equal(c.take(21), b"+PONG\r\n" * 3)
    c.step = 1 << 16
    c.say(pack("PING") * 20000)
    equal(c.take(140000), b"+PONG\r\n" * 20000)
    c.close()
    with Tls(server) as whole:
        large = os.urandom(MIB)
        equal(whole("ECHO", large), large)
    # 10 MiB to a reader that waits: what it does not take is bounded and counted.
    slow = Pump(server, receive_bytes=8192)
    words = [os.urandom(MIB) for _ in range(10)]
    slow.say(b"".join(pack("ECHO", word) for word in words))
    def held_bytes():
        slow.push()
        return int(info(server)["client_memory_bytes"])

    held = until(held_bytes, 60, "output is held")
    expect(held < 16 * MIB, held)
    with Tls(server) as other:
        equal(other("PING"), "PONG")
    for word in words:
        equal(hashlib.sha256(slow.take(MIB + 12)[10:-2]).digest(), hashlib.sha256(word).digest())
    until(lambda: info(server)["client_memory_bytes"] == "0", 60, "memory is given back")
    slow.close()
    equal(server.stop(), 0)


@test("a claim waits over TLS, and either side can end in order")
def _(folder):
    server = Server(folder, config=config())
    with Tls(server) as worker, Tls(server) as producer:
        worker.send(pack("CLAIM", "w", "WAIT", 60000, "QUEUES", "mail"))
        until(lambda: info(server)["tls_connections"] == "2", 60, "both are there")
        producer("ENQUEUE", "mail_send", "{}", "QUEUE", "mail")
        job = worker.read()
        equal(job[0][2], b"mail_send")
        # One that vanishes while it waits gets no job.
        gone = Tls(server)
        gone.send(pack("CLAIM", "gone", "WAIT", 60000, "QUEUES", "lost"))
        gone.socket.shutdown(socket.SHUT_RDWR)
        gone.close()
        until(lambda: info(server)["tls_connections"] == "2", 60, "it is gone")
        producer("ENQUEUE", "again", "{}", "QUEUE", "lost")
        worker.send(pack("CLAIM", "w", "WAIT", 60000, "QUEUES", "lost"))
        equal(worker.read()[0][2], b"again")
        # The server says goodbye: an end without it would be an error of the client.
        equal(producer("QUIT"), "OK")
        equal(producer.socket.recv(1), b"")
    # A client that has said all still gets its answers.
    c = Tls(server)
    c.send(pack("PING") + pack("ECHO", "last"))
    equal(c.read(), "PONG")
    equal(c.read(), b"last")
    plain = c.socket.unwrap()  # its goodbye, and that of the server
    equal(plain.recv(1), b"")
    plain.close()
    # One that is cut off is not taken for one that has said all.
    with Tls(server) as c:
        equal(c("PING"), "PONG")
        with contextlib.suppress(OSError):
            socket.socket.shutdown(c.socket, socket.SHUT_WR)
        try:
            raise AssertionError("a goodbye: %r" % c.socket.recv(1))
        except (ssl.SSLError, ConnectionError):
            pass
    with Tls(server) as c:
        c("PING")
        equal(server.stop(), 0)
        equal(c.socket.recv(1), b"")  # goodbye, too


# --------------------------------------------------------------------------- another certificate


def serial(server):
    with Tls(server) as c:
        return c.socket.getpeercert()["serialNumber"]


def put(path, source):
    """As programs that renew certificates do: another file in its place."""
    with open(source) as f:
        text = f.read()
    with open(path + ".new", "w") as f:
        os.chmod(path + ".new", 0o600)
        f.write(text)
    os.rename(path + ".new", path)


class Load:
    """Clients that stay and clients that come and go."""

    def __init__(self, server):
        self.server, self.is_over, self.failures, self.done = server, False, [], [0, 0]
        self.threads = [threading.Thread(target=self.run, args=(kind,)) for kind in (0, 1)]
        for t in self.threads:
            t.start()

    def run(self, kind):
        c = context()
        try:
            stays = Tls(self.server, c)
            while not self.is_over:
                if kind:
                    stays.close()
                    stays = Tls(self.server, c)
                equal(stays("PING"), "PONG")
                self.done[kind] += 1
            stays.close()
        except Exception as error:  # told at the end
            self.failures.append(repr(error))

    def more(self):
        """Until both did more."""
        before = list(self.done)
        until(lambda: self.failures or all(n > b + 5 for n, b in zip(self.done, before)), 60, "load")

    def end(self):
        self.is_over = True
        for t in self.threads:
            t.join()
        equal(self.failures, [], "failures")


@test("another certificate is taken under load, by itself and on a reload, and no command fails")
def _(folder):
    path = [os.path.join(folder, "live" + end) for end in (".pem", ".key")]
    pairs = [pair(), authority().sign("second", "DNS:localhost"), authority().sign("third", "DNS:localhost")]
    for target, source in zip(path, pairs[0]):
        put(target, source)
    server = Server(folder, config=config(*path))
    load = Load(server)
    first = serial(server)
    put(path[0], pairs[1][0])  # half of the pair
    until(lambda: "cannot be used, the old certificate holds" in server.log(), 60, "the warning")
    load.more()
    equal(serial(server), first)
    put(path[1], pairs[1][1])
    until(lambda: serial(server) != first, 60, "the second certificate")
    equal(server.log().count("the old certificate holds"), 1, "warnings")
    load.more()
    second = serial(server)
    for target, source in zip(path, pairs[2]):
        put(target, source)
    server.process.send_signal(signal.SIGHUP)
    until(lambda: serial(server) not in (first, second), 60, "the third certificate")
    third = serial(server)
    with open(path[0], "w") as f:
        f.write("nonsense\n")
    server.process.send_signal(signal.SIGHUP)
    until(lambda: "not read again, the old one holds" in server.log(), 60, "a line about the reload")
    load.more()
    equal(serial(server), third)
    load.end()
    equal(server.stop(), 0)


# --------------------------------------------------------------------------- clients' certificates


@test("certificates of clients are asked for, and must be good")
def _(folder):
    good = authority().sign("ci")
    stranger, expired = authority("two").sign("ci"), authority().sign("late", days=-1)
    path = os.path.join(folder, "weir.conf")
    server = Server(folder, config=config(ca=authority().cert, verify_client="require"))
    with Tls(server, context(cert=good)) as c:
        equal(c("PING"), "PONG")
    refused("CERTIFICATE_REQUIRED", server)
    refused("UNKNOWN_CA", server, context(cert=stranger))
    refused("CERTIFICATE_EXPIRED", server, context(cert=expired))
    url = "https://localhost:%d/healthz" % server.http_tls[1]
    for more, code in (((), 56), (("--cert", good[0], "--key", good[1]), 0)):
        done = subprocess.run(["curl", "-sS", "--cacert", authority().cert, *more, url],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        equal(done.returncode, code, done.stderr)
    # A reload makes it a question; a bad certificate stays refused.
    with open(path) as f:
        text = f.read()
    with open(path, "w") as f:
        f.write(text.replace('"require"', '"ask"'))
    server.process.send_signal(signal.SIGHUP)
    until(lambda: "tls.verify_client" in server.log(), 60, "the reload")
    for c in (context(), context(cert=good)):
        with Tls(server, c) as asked:
            equal(asked("PING"), "PONG")
    refused("UNKNOWN_CA", server, context(cert=stranger))
    equal(server.stop(), 0)


@test("the page knows that it is served over TLS, and a token is needed as without")
def _(folder):
    server = Server(folder, config=config(), token=TOKEN)
    web = http.client.HTTPSConnection("localhost", server.http_tls[1], context=context(), timeout=60)

    def ask(method, path, body=None, **headers):
        web.request(method, path, body, {k.replace("_", "-"): v for k, v in headers.items()})
        answer = web.getresponse()
        return answer.status, answer.read(), answer.getheader("Set-Cookie")

    host = "localhost:%d" % server.http_tls[1]
    equal(ask("GET", "/v1/jobs")[0], 401)
    # A page of http:// is another's, whatever its name: anybody on the way can write it.
    rows = (("https://" + host, 200), ("http://" + host, 403), ("https://evil.example", 403))
    for origin, wanted in rows:
        status, text, cookie = ask("POST", "/login", b'{"token":"%s"}' % TOKEN.encode(),
                                   Content_Type="application/json", Origin=origin)
        equal(status, wanted, "%s: %s" % (origin, text))
        equal(cookie is not None and "; Secure" in cookie, wanted == 200, cookie)
    web.close()
    with Tls(server) as c:
        equal(c.ask("QUEUES").name, "NOAUTH")
        equal(c("AUTH", TOKEN), "OK")
        equal(c("PING"), "PONG")
    equal(server.stop(), 0)


# --------------------------------------------------------------------------- settings


@test("settings that cannot work are refused with what to do")
def _(folder):
    path = os.path.join(folder, "weir.conf")
    cert, key = pair()
    other = authority().sign("other")
    late = authority().sign("late", days=-1)
    open_key = os.path.join(folder, "open.key")
    put(open_key, key)
    os.chmod(open_key, 0o644)
    tls = 'resp_tls = {"127.0.0.1:0"}\ntls { cert = "%s" key = "%s" %s }\n'
    rows = (
        ('resp_tls = {"127.0.0.1:0"}\n', "resp_tls 127.0.0.1:0 needs a certificate: add tls {"),
        ('tls { cert = "%s" }\n' % cert, "cert and key go together: key is missing"),
        (tls % (cert, key, "verify_client = require"), "verify_client require needs ca"),
        (tls % (cert, key, 'ca = "%s"' % cert), "ca needs verify_client"),
        (tls % (cert, key, "verify_client = maybe"), "verify_client must be off, ask or require"),
        (tls % (folder + "/none", key, ""), folder + "/none: No such file"),
        (tls % (cert, folder + "/none", ""), folder + "/none: No such file"),
        (tls % (cert, open_key, ""), open_key + ": it can be read or written by others"),
        (tls % (cert, other[1], ""), "%s is not the key of cert %s" % (other[1], cert)),
        (tls % (cert, authority().lock(key, "secret"), ""), "has a passphrase"),
        (tls % (*late, ""), "expired on"),
        (tls.replace("127.0.0.1:0", "/tmp/x.sock") % (cert, key, ""), "needs no TLS"),
        (tls.replace("127.0.0.1:0", "0.0.0.0:0") % (cert, key, ""), "set a token"),
        ('resp = {"0.0.0.0:0"}\ntoken_file = "%s/token"\n' % folder, "or set insecure = true"),
        ('http = {"[::]:0"}\ntoken_file = "%s/token"\n' % folder, "[::]:0 can be reached"),
    )
    with open(folder + "/token", "w") as f:
        os.chmod(folder + "/token", 0o600)
        f.write(TOKEN + "\n")
    for text, why in rows:
        with open(path, "w") as f:
            f.write(text)
        found = weir("serve", "-t", "-c", path)
        expect(found.returncode != 0 and why in found.stderr, "%s: %s" % (text, found.stderr))
    fine = (tls.replace("127.0.0.1:0", "0.0.0.0:0") % (cert, key, "") + 'token_file = "%s/token"\n' % folder,
            'resp = {"0.0.0.0:0"}\ninsecure = true\ntoken_file = "%s/token"\n' % folder,
            tls % (cert, key, 'verify_client = ask ca = "%s"' % authority().cert))
    for text in fine:
        with open(path, "w") as f:
            f.write(text)
        found = weir("serve", "-t", "-c", path)
        equal(found.returncode, 0, found.stderr)


@test("a certificate that ends soon is warned of, and INFO, metrics and the doctor tell its end")
def _(folder):
    server = Server(folder, config=config(*pair("soon", 5)))
    expect("the certificate ends soon" in server.log(), server.log())
    ends = int(info(server, "server")["tls_certificate_ends"])
    now = int(info(server, "server")["server_time_ms"])
    expect(4 * 86400000 < ends - now < 5.1 * 86400000, ends - now)
    with server.web() as web:
        metrics = web.ask("GET", "/metrics").body.decode()
    expect("\nweir_tls_certificate_ends_seconds %d\n" % (ends // 1000) in metrics, "no metric")
    found = weir("doctor", "-c", os.path.join(folder, "weir.conf"), "--data", server.data)
    expect("warn  certificate" in found.stdout and "ends on" in found.stdout, found.stdout)
    equal(server.stop(), 0)


@test("the doctor asks at the TLS addresses too, and says when nothing answers there")
def _(folder):
    server = Server(folder, config=config(), token=TOKEN)
    path = os.path.join(folder, "doctor.conf")

    def finding(port, **env):
        with open(path, "w") as f:
            f.write(config().replace('resp_tls = {"127.0.0.1:0"}', 'resp_tls = {"127.0.0.1:%d"}' % port)
                    + 'resp = {"127.0.0.1:%d"}\ndata = "%s"\ntoken_file = "%s/token"\n' % (
                        server.resp[1], server.data, folder))
        bare = {k: v for k, v in os.environ.items() if not k.startswith("WEIR_")}
        found = weir("doctor", "-c", path, "--json", env={**bare, **env})
        return [c for c in json.loads(found.stdout)["checks"] if c["name"] == "server, TLS"]
    port = server.resp_tls[1]
    [found] = finding(port)
    equal((found["verdict"], found["text"].startswith("answers on 127.0.0.1:%d in" % port)), ("ok", True))
    [found] = finding(port, WEIR_TLS_CA=os.devnull)
    expect(found["verdict"] != "ok", "an authority that did not sign it")
    equal(server.stop(), 0)
    [found] = finding(port)
    equal((found["verdict"], "When it fails" in found["fix"]), ("warn", True), found)


@test("weir tls self-signed makes files that work, and replaces none unasked")
def _(folder):
    tls = os.path.join(folder, "tls")
    done = weir("tls", "self-signed", "--dir", tls, "--name", "queue.example", "--days", "3")
    equal(done.returncode, 0, done.stderr)
    names = ["ca.crt", "client.crt", "client.key", "server.crt", "server.key"]
    equal(sorted(os.listdir(tls)), names)
    for name in names:
        equal(os.stat(os.path.join(tls, name)).st_mode & 0o777, 0o600, name)
    part = done.stdout.split("For weir.conf:\n")[1].split("\n\n")[0]
    text = part.replace("7381", "0").replace("7382", "0")
    server = Server(folder, config=text)
    redis = next(line for line in done.stdout.splitlines() if "redis-cli" in line)
    said = subprocess.run(redis.replace("7381", str(server.resp_tls[1])), shell=True,
                          stdout=subprocess.PIPE, text=True)
    equal(said.stdout, "PONG\n")
    c = ssl.create_default_context(cafile=tls + "/ca.crt")
    c.load_cert_chain(tls + "/client.crt", tls + "/client.key")
    with Tls(server, c, name="queue.example") as asked:
        equal(asked("PING"), "PONG")
    before = open(tls + "/server.crt").read()
    found = weir("tls", "self-signed", "--dir", tls)
    expect(found.returncode != 0 and "--force" in found.stderr, found.stderr)
    equal(open(tls + "/server.crt").read(), before)
    equal(weir("tls", "self-signed", "--dir", tls, "--force").returncode, 0)
    expect(open(tls + "/server.crt").read() != before, "the same certificate")
    for words, why in ((("--days", "0"), "1 to 3650"), (("--name", "a,b"), "--name takes"),
                       (("more",), "unexpected argument"), (("--name", "x" * 65), "1 to 64 bytes")):
        found = weir("tls", "self-signed", "--dir", folder + "/none", *words)
        expect(found.returncode == 2 and why in found.stderr, found.stderr)
    expect(not os.path.exists(folder + "/none"), "a folder was made")
    equal(server.stop(), 0)


if __name__ == "__main__":
    main()
