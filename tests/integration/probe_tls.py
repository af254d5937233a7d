#!/usr/bin/python3
# weir-test: timeout=300 long
"""Probes over TLS, of a real MariaDB, a real PostgreSQL and an HTTPS server: what is encrypted, whose
certificate is taken, and what is said about one that is not."""
import atexit
import concurrent.futures
import contextlib
import functools
import http.server
import json
import os
import shutil
import ssl
import sys
import tempfile
import threading

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from lib_databases import PASSWORD, Maria, Postgres, Probe, Wire, probe_once, write_config  # noqa: E402
from lib_probes import metric  # noqa: E402
from lib_tls import Authority  # noqa: E402
from harness import Server, equal, expect, main, test, until, weir  # noqa: E402

NAMES = "DNS:db.example,DNS:localhost,IP:127.0.0.1"


@functools.lru_cache(None)
def box():
    """The folder of the certificates of all tests."""
    folder = tempfile.mkdtemp(prefix="tls.", dir=os.environ.get("TMPDIR"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


@functools.lru_cache(None)
def ours():
    return Authority(box(), "ours")


@functools.lru_cache(None)
def theirs():
    return Authority(box(), "theirs")


@functools.lru_cache(None)
def certificate(name):
    """By our authority for all names of the server, unless it is called otherwise."""
    signer = theirs() if name == "stranger" else ours()
    names = {"misnamed": "DNS:other.example", "project:instance": ""}.get(name, NAMES)
    return signer.sign(name, names, days=-1 if name == "expired" else 2)


# ---------------------------------------------------------------- the servers


class Shown:
    """A server whose certificate can be another for a while."""

    @contextlib.contextmanager
    def showing(self, name):
        try:
            self.show(name)
            yield
        finally:
            self.show("server")


class TlsMaria(Shown):
    kind, main = "mysql", "threads_running"
    OUTDATED = "TLS failed: "
    ENCRYPTED_ONLY = "refuses this user or password: Access denied for user 'weir'@'127.0.0.1' (using " \
        "password: YES), without TLS"
    PROVEN_ONLY = "refuses this user or password"

    def __init__(self):
        self.pem, self.key = os.path.join(box(), "maria.pem"), os.path.join(box(), "maria.key")
        self._copy("server")
        self.server = Maria("tls", "--ssl-ca=" + ours().cert, "--ssl-cert=" + self.pem,
                            "--ssl-key=" + self.key)
        self.server.ask(*["CREATE USER %s@'127.0.0.1' IDENTIFIED BY '%s' %s" % (
            user, PASSWORD, needs) for user, needs in (("weir", ""), ("proven", "REQUIRE X509"))],
            "GRANT REPLICATION CLIENT, SLAVE MONITOR ON *.* TO weir@'127.0.0.1'")
        self.keeper = self.server.connect()  # made before only encrypted ones are taken

    @staticmethod
    @functools.lru_cache(None)
    def plain():
        m = Maria("plain", "--skip-ssl")
        m.ask("CREATE USER weir@'127.0.0.1' IDENTIFIED BY '%s'" % PASSWORD)
        return m.port

    @functools.lru_cache(None)
    def outdated(self):
        """One whose TLS nobody wants any more."""
        m = Maria("outdated", "--ssl-cert=" + self.pem, "--ssl-key=" + self.key,
                  "--tls-version=TLSv1.1")
        m.ask("CREATE USER weir@'127.0.0.1' IDENTIFIED BY '%s'" % PASSWORD)
        return m.port

    def _copy(self, name):
        for path, to in zip(certificate(name), (self.pem, self.key)):
            shutil.copy(path, to)

    def show(self, name):
        self._copy(name)
        self.server.ask("FLUSH SSL")

    def encrypted_only(self, is_on):
        self.keeper("SET GLOBAL require_secure_transport=%d" % is_on)


class TlsPostgres(Shown):
    kind, main = "postgres", "active_backends"
    ENCRYPTED_ONLY = "no encryption"
    OUTDATED = "SSL error: "
    PROVEN_ONLY = "connection requires a valid client certificate"

    def __init__(self):
        self.server = Postgres("tls")
        self.server.ask("CREATE ROLE weir LOGIN PASSWORD '%s'" % PASSWORD,
                        "CREATE ROLE proven LOGIN PASSWORD '%s'" % PASSWORD,
                        "GRANT pg_monitor TO weir, proven", "ALTER SYSTEM SET ssl = on",
                        "ALTER SYSTEM SET ssl_ca_file = 'ca.crt'")
        self._put(self.server, "ca.crt", ours().cert)
        self.encrypted_only(False)
        self.show("server")

    @staticmethod
    @functools.lru_cache(None)
    def plain():
        p = Postgres("plain")
        p.ask("CREATE ROLE weir LOGIN PASSWORD '%s'" % PASSWORD, "GRANT pg_monitor TO weir")
        return p.port

    @functools.lru_cache(None)
    def outdated(self):
        p = Postgres("outdated")
        for path, to in zip(certificate("server"), ("server.crt", "server.key")):
            self._put(p, to, path)
        p.ask("CREATE ROLE weir LOGIN PASSWORD '%s'" % PASSWORD, "GRANT pg_monitor TO weir",
              "ALTER SYSTEM SET ssl_min_protocol_version = 'TLSv1'",
              "ALTER SYSTEM SET ssl_max_protocol_version = 'TLSv1.1'",
              "ALTER SYSTEM SET ssl = on")
        self._reload(p)
        return p.port

    @staticmethod
    def _put(server, name, source):
        path = os.path.join(server.data, name)
        shutil.copy(source, path)
        os.chmod(path, 0o600)
        if os.getuid() == 0:
            shutil.chown(path, "postgres", "postgres")

    @staticmethod
    def _reload(server):
        before = server.ask("SELECT pg_conf_load_time()")
        server.ask("SELECT pg_reload_conf()")
        until(lambda: server.ask("SELECT pg_conf_load_time()") != before, 10, "the reload")

    def show(self, name):
        for path, to in zip(certificate(name), ("server.crt", "server.key")):
            self._put(self.server, to, path)
        self._reload(self.server)

    def encrypted_only(self, is_on):
        kind = "hostssl" if is_on else "host"
        with open(os.path.join(self.server.data, "pg_hba.conf"), "w") as f:
            f.write("local all all trust\n"
                    "hostssl all proven 127.0.0.1/32 scram-sha-256 clientcert=verify-ca\n"
                    "%s all all 127.0.0.1/32 scram-sha-256\n" % kind)
        self._reload(self.server)


KINDS = {"mysql": TlsMaria, "postgres": TlsPostgres}


@functools.lru_cache(None)
def started(kind):
    return KINDS[kind]()


def of_both(sentence):
    """The test is made for each kind of database; it gets one that runs."""
    def mark(fn):
        for kind in KINDS:
            test("%s: %s" % (kind, sentence))(lambda folder, kind=kind: fn(folder, started(kind)))
        return fn
    return mark


def target(t, body="", port=None, host="127.0.0.1", user="weir", interval="100ms", timeout="1s"):
    return """target "shop" {
        kind = "%s" host = "%s" port = %d user = "%s" password_file = "SECRET"
        interval = "%s" timeout = "%s" dwell = "0s"
        %s
    }""" % (t.kind, host, port or t.server.port, user, interval, timeout, body)


def verify(more="", ca=None):
    return 'tls = "verify" tls_ca = "%s" %s\n' % (ca or ours().cert, more)


PATIENT = "30s"     # a busy machine is no reason for a server to be silent


def works(folder, t, body="", is_encrypted=True, **options):
    code, got = probe_once(folder, target(t, body, timeout=PATIENT, **options))
    equal(code, 0, "exit code of %s" % got)
    version = got[t.main]["tls"]
    expect(version in ("TLSv1.2", "TLSv1.3") if is_encrypted else version is None, got)


def fails(folder, t, words, body="", **options):
    code, got = probe_once(folder, target(t, body, timeout=PATIENT, **options))
    equal(code, 7, "exit code of %s" % got)
    expect(words in got[t.main]["error"], "'%s' is not in %s" % (words, got))
    equal(got[t.main]["tls"], None, "the encryption of no connection")


# ---------------------------------------------------------------- databases


@of_both("it is encrypted when the server can, must be with require, is not with off")
def _(folder, t):
    works(folder, t)
    works(folder, t, 'tls = "prefer"')
    works(folder, t, 'tls = "require"')
    works(folder, t, 'tls = "off"', is_encrypted=False)
    works(folder, t, is_encrypted=False, port=t.plain())
    works(folder, t, 'tls = "prefer"', is_encrypted=False, port=t.plain())
    for asked in ('tls = "require"', verify()):
        fails(folder, t, "cannot connect to 127.0.0.1:%d: the server has no TLS" % t.plain(), asked,
              port=t.plain())


@of_both("without TLS that works it is plain when that may be, and a failure when it may not")
def _(folder, t):
    works(folder, t, is_encrypted=False, port=t.outdated())
    for asked in ('tls = "require"', verify()):
        fails(folder, t, "cannot connect to 127.0.0.1:%d: %s" % (t.outdated(), t.OUTDATED), asked,
              port=t.outdated())


@of_both("verify takes a certificate of the authority for the name, the address or tls_name")
def _(folder, t):
    works(folder, t, verify())
    works(folder, t, verify(), host="localhost")
    works(folder, t, verify('tls_name = "db.example"'))
    works(folder, t, verify('tls_name = "DB.example"'))
    with t.showing("project:instance"):
        works(folder, t, verify('tls_name = "project:instance"'))
        fails(folder, t, "is not for the name project:other", verify('tls_name = "project:other"'))


@of_both("verify refuses a wrong authority, a wrong name and an expired certificate, and says which")
def _(folder, t):
    where = "cannot connect to 127.0.0.1:%d: its certificate " % t.server.port
    fails(folder, t, where + "is not for the name wrong.example",
          verify('tls_name = "wrong.example"'))
    fails(folder, t, where + "is not trusted: ", verify(ca=theirs().cert))
    for name, words in (("misnamed", "is not for the name 127.0.0.1"),
                        ("expired", "has expired"), ("stranger", "is not trusted: ")):
        with t.showing(name):
            fails(folder, t, where + words, verify())
            works(folder, t, 'tls = "require"')
    works(folder, t, verify())


@of_both("a server that takes nothing plain says so, and gets what it wants unasked")
def _(folder, t):
    t.encrypted_only(True)
    try:
        fails(folder, t, t.ENCRYPTED_ONLY, 'tls = "off"')
        works(folder, t)
    finally:
        t.encrypted_only(False)
    works(folder, t, 'tls = "off"', is_encrypted=False)


@of_both("a client certificate is shown to a server that wants one")
def _(folder, t):
    cert, key = certificate("client")
    mine = 'tls_cert = "%s" tls_key = "%s"\n' % (cert, key)
    fails(folder, t, t.PROVEN_ONLY, 'tls = "require"', user="proven")
    works(folder, t, 'tls = "require" ' + mine, user="proven")
    works(folder, t, mine, user="proven")
    works(folder, t, verify(mine), user="proven")


@of_both("a server that falls silent at any point of the handshake is unknown within the timeout")
def _(folder, t):
    def case(n, asked):
        wire = Wire(t.server.port, answer_bytes=n)
        own = tempfile.mkdtemp(dir=folder)
        with Probe(own, target(t, asked, port=wire.port)) as p:
            p.error(t.main, "cannot connect to 127.0.0.1:%d: no answer within 1s" % wire.port)
        wire.close()
    with concurrent.futures.ThreadPoolExecutor(10) as pool:  # each waits for a timeout
        cases = [pool.submit(case, n, asked) for n in (0, 1, 100, 300, 900) for asked in ("", verify())]
        for done in cases:
            done.result()


@of_both("a server that falls silent on an encrypted connection is unknown, and its return is seen")
def _(folder, t):
    wire = Wire(t.server.port)
    with Probe(folder, target(t, verify(), port=wire.port)) as p:
        p.value(t.main, lambda v: True)
        wire.cut()
        p.error(t.main, "no answer within 1s")
        wire.mend()
        p.value(t.main, lambda v: True, 20)
    wire.close()


@of_both("replicas are asked in the same way, each by its own name")
def _(folder, t):
    def replica(words, more="", ca=None):
        body = metric("replication_lag") + verify(ca=ca)
        body += 'replica "db2" { host = "127.0.0.1" port = %d %s }' % (t.server.port, more)
        code, got = probe_once(folder, target(t, body))
        error = got["replication_lag"]["error"]
        expect("db2 (127.0.0.1:%d)" % t.server.port in error and words in error, got)
    replica("is not a replica")
    replica("is not a replica", 'tls_name = "db.example"')
    replica("is not for the name wrong.example", 'tls_name = "wrong.example"')
    replica("is not trusted", ca=theirs().cert)


@of_both("the status of a server tells the reason, and a reload with the right authority ends it")
def _(folder, t):
    server = Server(folder, "-c", write_config(folder, target(
        t, verify(ca=theirs().cert))))

    def shows(level, why):
        with server.web() as w:
            got = w.good("GET", "/v1/throttle")["targets"][0]
        return got["level"] == level and why in got["error"]
    until(lambda: shows("unknown", "its certificate is not trusted"), 10, "the reason")
    told = weir("throttle", "status", "--url", "weir://%s:%d" % server.resp).stdout
    expect("its certificate is not trusted" in told, told)
    write_config(folder, target(t, verify()))
    with server.client() as c:
        c("CONFIGRELOAD")
    until(lambda: shows("normal", ""), 20, "a normal level")


# ---------------------------------------------------------------- https


class Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps({"depth": 7}).encode())

    def log_message(self, *_):
        pass


class QuietServer(http.server.ThreadingHTTPServer):
    def handle_error(self, *_):
        """A client that does not like the certificate goes away: that is what is tested."""


class Https:
    def __init__(self, name, wants_certificate=False):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*certificate(name))
        if wants_certificate:
            context.verify_mode = ssl.CERT_REQUIRED
            context.load_verify_locations(ours().cert)
        self.server = QuietServer(("127.0.0.1", 0), Page)
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def probe(self, folder, body="", host="localhost"):
        code, got = probe_once(folder, """target "page" { kind = "http" timeout = "%s"
            url = "https://%s:%d/" metric "json:depth" { } %s }""" % (PATIENT, host, self.port, body))
        return got["json:depth"]["value"], got["json:depth"]["error"] or ""

    def close(self):
        self.server.shutdown()
        self.server.server_close()


@test("https: a certificate is verified, with tls_ca by that authority, and always for its name")
def _(folder):
    trusted = 'tls_ca = "%s"' % ours().cert
    server = Https("server")
    equal(server.probe(folder, trusted), (7, ""), "with the right authority")
    equal(server.probe(folder, trusted, host="127.0.0.1"), (7, ""), "by address")
    value, error = server.probe(folder)
    expect(value is None and "certificate" in error, error)
    value, error = server.probe(folder, 'tls_ca = "%s"' % theirs().cert)
    expect(value is None and "certificate" in error, error)
    server.close()
    for name, words in (("misnamed", "localhost"), ("expired", "certificate has expired")):
        server = Https(name)
        value, error = server.probe(folder, trusted)
        expect(value is None and words in error, error)
        server.close()


@test("https: a client certificate is shown to a server that wants one")
def _(folder):
    trusted = 'tls_ca = "%s"' % ours().cert
    server = Https("server", wants_certificate=True)
    value, error = server.probe(folder, trusted)
    expect(value is None and error, "it is answered without one")
    cert, key = certificate("client")
    equal(server.probe(folder, trusted + ' tls_cert = "%s" tls_key = "%s"' % (cert, key)), (7, ""),
          "with a certificate")
    server.close()


# ---------------------------------------------------------------- the configuration


@test("a file that is missing, open to others, locked or not what it should be is named with its line")
def _(folder):
    cert, key = certificate("client")
    loose = os.path.join(folder, "loose.key")
    shutil.copy(key, loose)
    os.chmod(loose, 0o644)
    locked = ours().lock(key, "a passphrase")
    os.chmod(locked, 0o600)
    pair = 'tls_cert = "%s"\ntls_key = "%s"'
    for body, line, words in (
            ('tls = "verify"\ntls_ca = "/no/such.pem"', 4, "tls_ca /no/such.pem: No such file"),
            ('tls = "verify"\ntls_ca = "%s"' % key, 4, "holds no certificate"),
            (pair % (key, key), 3, "tls_cert %s holds no certificate" % key),
            (pair % (cert, "/no/such.key"), 4, "tls_key /no/such.key: No such file"),
            (pair % (cert, cert), 4, "can be read or written by others: chmod 600"),
            (pair % (cert, loose), 4, "tls_key %s can be read or written by others" % loose),
            (pair % (cert, locked), 4, "has a passphrase"),
            (pair % (cert, certificate("server")[1]), 4, "is not the key of tls_cert")):
        path = write_config(folder, 'target "shop" {\nkind = "mysql"\n%s\n}\n' % body)
        done = weir("config", "check", path)
        expect(done.returncode != 0, "%s is taken" % body)
        expect("%s:%d:" % (path, line) in done.stderr and words in done.stderr, done.stderr)


main()
