#!/usr/bin/python3
# weir-test: timeout=300 tsan
"""The worker's HTTP handlers against a real server and a target of our own on loopback.

The target answers what the path says and keeps every request.  It listens on 127.0.0.1, which
handlers refuse unless they are told otherwise: most handlers here say `allow = {"127.0.0.1/32"}`.
"""
import email.utils
import hashlib
import hmac
import http.server
import os
import queue
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "fault"))

from harness import ROOT, WEIR, Server, equal, expect, job, main, test, text, until, weir  # noqa: E402

LOCAL = 'allow = {"127.0.0.1/32"}'
KEY = "0123456789abcdef-key"


class Target:
    """answers: path -> function(handler, body)."""

    def __init__(self, certificate=None, **answers):
        self.requests = queue.Queue()
        target = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                target.requests.put((self.path, dict(self.headers.items()), body))
                name = self.path.strip("/").split("/")[0].split("?")[0]
                answers.get(name, lambda h, b: answer(h, 200, b"fine"))(self, body)

            def log_message(self, *args):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.handle_error = lambda *args: None  # a worker that hung up is no error here
        if certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.server.daemon_threads = True
        self.port = self.server.server_address[1]
        self.url = "http://127.0.0.1:%d" % self.port
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()

    def request(self):
        return self.requests.get(timeout=90)

    def none_came(self):
        expect(self.requests.empty(), "a request reached the target")

    def close(self):
        self.server.shutdown()
        self.server.server_close()


def answer(handler, status, body=b"", **headers):
    try:
        handler.send_response(status)
        for name, value in headers.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)
    except (BrokenPipeError, ConnectionResetError):
        pass  # the worker has read as much as it wants


class World:
    """A server, a target, and workers with the handlers of one test."""

    def __init__(self, folder, handlers, certificate=None, **answers):
        self.folder = folder
        self.server = Server(folder)
        self.client = self.server.client()
        self.target = Target(certificate, **answers)
        self.path = os.path.join(folder, "handlers.conf")
        with open(self.path, "w") as f:
            f.write(handlers.replace("URL", self.target.url).replace(
                "PORT", str(self.target.port)).replace("LOCAL", LOCAL))
        self.log_path = os.path.join(folder, "work.log")
        self.workers = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for w in self.workers:
            if w.poll() is None:
                w.kill()
                w.wait()
        self.target.close()
        self.client.close()
        self.server.kill()

    def add(self, hook, args=b"{}", *words):
        return self.client("ENQUEUE", hook, args, "QUEUE", "q", *words)

    def arguments(self, words):
        return ["work", "--url", "%s:%d" % self.server.resp, "--queue", "q", "--handlers", self.path,
                *words]

    def run(self, *words, **options):
        done = weir(*self.arguments(("--once", *words)), **options)
        equal(done.returncode, 0, "the exit code (%s)" % done.stderr)
        with open(self.log_path, "a") as f:
            f.write(done.stderr)
        return done.stderr

    def start(self, *words):
        with open(self.log_path, "ab") as log:
            self.workers.append(subprocess.Popen([WEIR, *self.arguments(words)], stderr=log))
        return self.workers[-1]

    def log(self):
        with open(self.log_path, errors="replace") as f:
            return f.read()

    def job(self, job_id):
        return job(self.client, job_id)

    def error(self, job_id):
        return text(self.job(job_id)["error"])


def signature2(key, path, headers, body):
    """As docs/work.md says."""
    names = ("Timestamp", "Job-Id", "Hook", "Queue", "Group", "Attempt", "Attempts", "Fence")
    lines = ["weir-request-2", "POST", path] + [headers.get("X-Weir-" + n, "") for n in names]
    return hmac.new(key, "\n".join(lines).encode() + b"\n" + body, hashlib.sha256).hexdigest()


def signature1(key, headers, body):
    head = "%s.%s." % (headers["X-Weir-Timestamp"], headers["X-Weir-Job-Id"])
    return hmac.new(key, head.encode() + body, hashlib.sha256).hexdigest()


def write_key(folder):
    path = os.path.join(folder, "key")
    with open(path, "w") as f:
        f.write(KEY + "\n")
    os.chmod(path, 0o600)
    return path


@test("the signature covers where the request goes and every header about the job")
def signed(folder):
    handlers = 'handler "*" { http = "URL?{hook}" LOCAL secret_file = "%s" }' % write_key(folder)
    with World(folder, handlers) as w:
        w.add("a b", b"body", "GROUP", "g/\u00fc")
        w.run()
        path, headers, body = w.target.request()
        equal(path, "/?a%20b", "the path")
        good = headers["X-Weir-Signature"].split("v2=")[1]
        equal(good, signature2(KEY.encode(), path, headers, body), "the signature")
        for name in [n for n in headers if n.startswith("X-Weir-") and n != "X-Weir-Signature"]:
            other = dict(headers, **{name: headers[name] + "1"})
            expect(signature2(KEY.encode(), path, other, body) != good, name + " is not signed")


def page_check():
    """The PHP of docs/work.md that checks a signature."""
    with open(os.path.join(ROOT, "docs", "work.md")) as f:
        page = f.read()
    start = page.index("    $h = fn($name)")
    return page[start:page.index("\n\n", start)]


@test("the PHP of docs/work.md accepts what the worker signs, and nothing else")
def signed_for_php(folder):
    script = os.path.join(folder, "check.php")
    with open(script, "w") as f:
        f.write("<?php\n$key = '%s';\n%s\nhttp_response_code($ok ? 200 : 400);\n" % (
            KEY, page_check()))
    with socket.socket() as s:  # php tells no port of its own choice
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    other = os.path.join(folder, "other")
    with open(other, "w") as f:
        f.write("not-the-key-of-the-receiver\n")
    os.chmod(other, 0o600)
    url = "http://127.0.0.1:%d/in/{hook}?g={group}" % port
    handlers = 'handler "good" { http = "%s" LOCAL secret_file = "%s" }\n' \
        'handler "bad" { http = "%s" LOCAL secret_file = "%s" }\n' \
        'handler "old" { http = "%s" LOCAL secret_file = "%s" signature_version = 1 }' \
        % (url, write_key(folder), url, other, url, os.path.join(folder, "key"))
    receiver = subprocess.Popen(["php", "-S", "127.0.0.1:%d" % port, script],
                                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        until(lambda: socket.socket().connect_ex(("127.0.0.1", port)) == 0, 20, "php listens")
        with World(folder, handlers) as w:
            ids = {hook: w.add(hook, b'{"a": "\xc3\xbc"}', "GROUP", "a b/c", "ATTEMPTS", 1)
                   for hook in ("good", "bad", "old")}
            w.run()
            equal({hook: text(w.job(i)["status"]) for hook, i in ids.items()},
                  {"good": "complete", "bad": "failed", "old": "failed"}, "what PHP says")
    finally:
        receiver.kill()
        receiver.wait()


@test("a handler signs with version 1, or with both, when it says so")
def signed_before(folder):
    key = write_key(folder)
    handlers = 'handler "one" { http = "URL/" LOCAL secret_file = "%s" signature_version = 1 }\n' \
        'handler "both" { http = "URL/" LOCAL secret_file = "%s" signature_version = {1, 2} }' \
        % (key, key)
    with World(folder, handlers) as w:
        w.add("one", b"body")
        w.add("both", b"body")
        w.run()
        _, headers, body = w.target.request()
        equal(headers["X-Weir-Signature"], "t=%s,v1=%s" % (
            headers["X-Weir-Timestamp"], signature1(KEY.encode(), headers, body)), "version 1")
        path, headers, body = w.target.request()
        equal(headers["X-Weir-Signature"], "t=%s,v1=%s,v2=%s" % (
            headers["X-Weir-Timestamp"], signature1(KEY.encode(), headers, body),
            signature2(KEY.encode(), path, headers, body)), "both")
        for wrong in ("3", "{1, 3}", "v2", "0"):
            with open(w.path, "w") as f:
                f.write('handler "x" { http = "http://a/" signature_version = %s }' % wrong)
            done = weir(*w.arguments(("--once",)))
            equal(done.returncode, 2, "exit code of %s" % wrong)
            expect("signature_version: 1 or 2, not '" in done.stderr, done.stderr)


@test("a request carries the job: body, type, headers and a signature that its receiver can check")
def request(folder):
    write_key(folder)
    with open(os.path.join(folder, "old"), "w") as f:
        f.write("another-key-0123456789\n")
    os.chmod(os.path.join(folder, "old"), 0o600)
    handlers = 'handler "mail_*" { http = "URL/in/{hook}?id={id}&g={group}" LOCAL ' \
        'secret_file = {"%s/key", "%s/old"} }' % (folder, folder)
    with World(folder, handlers) as w:
        before = int(time.time())
        one = w.add("mail_send", b'{"to": "a"}', "GROUP", "a b/c")
        two = w.add("mail_raw", b"\xff\x00raw")
        w.run()
        path, headers, body = w.target.request()
        equal(path, "/in/mail_send?id=%d&g=a%%20b%%2Fc" % one, "the path")
        equal(body, b'{"to": "a"}', "the body")
        equal(headers["Content-Type"], "application/json", "the type")
        equal(headers["X-Weir-Job-Id"], str(one), "the id")
        equal(headers["X-Weir-Hook"], "mail_send", "the hook")
        equal(headers["X-Weir-Attempt"], "1", "the attempt")
        equal(headers["X-Weir-Fence"], "1", "the fence")
        stamp = headers["X-Weir-Timestamp"]
        expect(before <= int(stamp) <= time.time() + 1, "the time is now")
        equal(headers["X-Weir-Signature"], ",".join(["t=" + stamp] + [
            "v2=" + signature2(k, path, headers, body)
            for k in (KEY.encode(), b"another-key-0123456789")]), "the signature")
        path, headers, body = w.target.request()
        equal(body, b"\xff\x00raw", "the second body")
        equal(headers["Content-Type"], "application/octet-stream", "the second type")
        for i in (one, two):
            equal(text(w.job(i)["status"]), "complete", "status")
            equal(text(w.job(i)["result"]), "fine", "result")


@test("a large body arrives whole, an empty one is an empty one")
def bodies(folder):
    with World(folder, 'handler "*" { http = "URL/in" LOCAL }') as w:
        big = b"x" * 1048576
        w.add("a", big)
        w.add("b", b"")
        w.run()
        expect(w.target.request()[2] == big, "the large body is as it was")
        equal(w.target.request()[2], b"", "the empty body")


@test("a hook with strange bytes cannot break out of its header or its place in the path")
def strange(folder):
    with World(folder, 'handler "*" { http = "URL/in/{hook}/x" LOCAL }') as w:
        w.add("a b: 1/../ü%?x=#")
        dots = w.add("..", b"1", "ATTEMPTS", 1)
        w.run()
        path, headers, _ = w.target.request()
        equal(path, "/in/a%20b%3A%201%2F..%2F%C3%BC%25%3Fx%3D%23/x", "the path")
        equal(headers["X-Weir-Hook"], "a%20b:%201/../%C3%BC%25?x=#", "the hook")
        expect("'.' or '..'" in w.error(dots), w.error(dots))
        w.target.none_came()


@test("a status other than 2xx fails the job with the status and the body")
def statuses(folder):
    with World(folder, 'handler "*" { http = "URL/{hook}" LOCAL }',
               broken=lambda h, b: answer(h, 500, b"it broke\x1b[31m\n"),
               long=lambda h, b: answer(h, 404, b"y" * 100000),
               none=lambda h, b: answer(h, 204)) as w:
        broken = w.add("broken", b"", "ATTEMPTS", 1)
        long = w.add("long", b"", "ATTEMPTS", 1)
        none = w.add("none")
        w.run()
        equal(w.error(broken), "HTTP 500: it broke?[31m", "error")
        equal(w.error(long), "HTTP 404: " + "y" * 4096, "error")
        equal(text(w.job(none)["status"]), "complete", "status")


@test("a result longer than max_output is cut, and an endless one does not hold the job")
def long_result(folder):
    def endless(handler, _body):
        handler.send_response(200)
        handler.end_headers()
        try:
            while True:
                handler.wfile.write(b"z" * 65536)
        except (BrokenPipeError, ConnectionResetError):
            pass
        handler.close_connection = True

    with World(folder, 'handler "*" { http = "URL/endless" LOCAL max_output = 1k }',
               endless=endless) as w:
        one = w.add("a")
        said = w.run()
        equal(text(w.job(one)["result"]), "z" * 1024, "result")
        expect("longer than allowed" in said, said)


@test("redirects are answers, and not followed")
def redirects(folder):
    with World(folder, 'handler "*" { http = "URL/{hook}" LOCAL }',
               **{str(n): lambda h, b, n=n: answer(h, n, b"", Location="/secret")
                  for n in (301, 302, 303, 307, 308)}) as w:
        ids = [w.add(str(n), b"", "ATTEMPTS", 1) for n in (301, 302, 303, 307, 308)]
        w.run()
        for i, n in zip(ids, (301, 302, 303, 307, 308)):
            equal(w.error(i), "HTTP %d to %s/secret: redirects are not followed"
                  % (n, w.target.url), "error")
            equal(w.target.request()[0], "/%d" % n, "path")
        w.target.none_came()


@test("Retry-After of a 429 or 503 decides when the next attempt is, in seconds or as a date")
def retry_after(folder):
    def date(handler, _body):
        answer(handler, 503, b"", Retry_After=email.utils.formatdate(time.time() + 7200,
                                                                    usegmt=True))

    with World(folder, 'handler "*" { http = "URL/{hook}" LOCAL retry_in = 10m }',
               seconds=lambda h, b: answer(h, 429, b"slow down", Retry_After="1800"),
               date=date,
               nonsense=lambda h, b: answer(h, 503, b"", Retry_After="later"),
               far=lambda h, b: answer(h, 503, b"", Retry_After="99999999999"),
               other=lambda h, b: answer(h, 500, b"", Retry_After="1800")) as w:
        wanted = {"seconds": 1800, "date": 7200, "nonsense": 600, "far": 7 * 86400, "other": 600}
        ids = {name: w.add(name) for name in wanted}
        w.run()
        for name, seconds in wanted.items():
            j = w.job(ids[name])
            equal(text(j["status"]), "pending", "status of " + name)
            wait = (int(j["due_ms"]) - int(j["created_ms"])) / 1000
            expect(seconds - 2 <= wait <= seconds + 60, "%s waits %s s" % (name, wait))


@test("a status that would be the same next time fails the job for good, others do not")
def final_statuses(folder):
    final = (400, 404, 405, 410, 413, 414, 415, 422)
    again = (301, 401, 403, 408, 409, 423, 425, 429, 500, 501, 502, 503, 504)
    with World(folder, 'handler "*" { http = "URL/{hook}" LOCAL retry_in = 1h }',
               **{str(n): lambda h, b, n=n: answer(h, n, b"no") for n in final + again}) as w:
        ids = {n: w.add(str(n)) for n in final + again}
        w.run()
        for n in final + again:
            job = w.job(ids[n])
            equal(text(job["status"]), "failed" if n in final else "pending", "status of %d" % n)
            equal(int(job["attempt"]), 1, "attempts of %d" % n)
        equal(w.error(ids[422]), "HTTP 422: no", "error")


@test("no_retry says which statuses are final, and a Retry-After says more")
def chosen_statuses(folder):
    with World(folder,
               'handler "*" { http = "URL/{hook}" LOCAL no_retry = {409, 503} retry_in = 1h }\n'
               'handler "none" { http = "URL/404" LOCAL no_retry = none retry_in = 1h }\n'
               'handler "413" { http = "URL/413" LOCAL }\n',
               **{"404": lambda h, b: answer(h, 404), "409": lambda h, b: answer(h, 409),
                  "503": lambda h, b: answer(h, 503, b"", Retry_After="1800"),
                  "413": lambda h, b: answer(h, 413, b"", Retry_After="1800")}) as w:
        wanted = {"409": "failed", "404": "pending", "none": "pending", "503": "pending",
                  "413": "pending"}
        ids = {hook: w.add(hook) for hook in wanted}
        w.run()
        for hook, status in wanted.items():
            equal(text(w.job(ids[hook])["status"]), status, "status of " + hook)


@test("addresses of this machine and of private networks are refused, however they are written")
def private(folder):
    hosts = ("127.0.0.1", "localhost", "2130706433", "0x7f.1", "127.1", "0.0.0.0", "[::1]",
             "[::ffff:127.0.0.1]", "10.0.0.1", "192.168.1.1", "172.16.0.1", "100.64.0.1",
             "169.254.169.254", "224.0.0.1", "[fe80::1]", "[fd00::1]", "[64:ff9b::7f00:1]",
             "[2002:7f00:1::]", "255.255.255.255", "168.63.129.16", "100.100.100.200",
             "[fd00:ec2::254]", "[64:ff9b::a83f:8110]")
    handlers = "".join('handler "h%d" { http = "http://%s:PORT/" timeout = 5s }\n' % (i, host)
                       for i, host in enumerate(hosts))
    with World(folder, handlers) as w:
        ids = [w.add("h%d" % i, b"", "ATTEMPTS", 1) for i in range(len(hosts))]
        w.run("--slots", "4")
        for i, host in zip(ids, hosts):
            expect("not connected to" in w.error(i), "%s: %s" % (host, w.error(i)))
        w.target.none_came()


@test("allow_private opens private networks, but not link-local ones")
def allow_private(folder):
    handlers = 'handler "a" { http = "URL/" allow_private = true }\n' \
        'handler "b" { http = "http://169.254.169.254/latest" allow_private = true }\n' \
        'handler "c" { http = "URL/" allow = {"127.0.0.1", "localhost"} }'
    # c: the first is a network of one address, the second a host, and 127.0.0.1 is not that host.
    with World(folder, handlers.splitlines()[0] + handlers.splitlines()[1]) as w:
        a, b = w.add("a"), w.add("b", b"", "ATTEMPTS", 1)
        w.run()
        equal(text(w.job(a)["status"]), "complete", "status")
        expect("169.254.169.254 is a cloud metadata address" in w.error(b), w.error(b))
        with open(w.path, "w") as f:
            f.write(handlers.splitlines()[2].replace("URL", w.target.url))
        done = weir(*w.arguments(("--once",)))
        equal(done.returncode, 2, "exit code")
        expect("the host 127.0.0.1 is not in the list `allow`" in done.stderr, done.stderr)


@test("a connection kept open by one handler is no way around the rules of another")
def kept(folder):
    handlers = 'handler "free" { http = "URL/{hook}" allow_private = true }\n' \
        'handler "strict" { http = "URL/{hook}" }'
    with World(folder, handlers) as w:
        w.add("free")
        strict = w.add("strict", b"", "ATTEMPTS", 1)
        w.run()
        expect("127.0.0.1 is a loopback address" in w.error(strict), w.error(strict))
        equal(w.target.request()[0], "/free", "path")
        w.target.none_came()


@test("a host made from the job must be in the list")
def hosts(folder):
    handlers = 'handler "*" { http = "http://{group}:PORT/in" ' \
        'allow = {"127.0.0.0/8", "localhost", "*.localhost"} }'
    with World(folder, handlers) as w:
        good = w.add("a", b"", "GROUP", "localhost")
        bad = w.add("a", b"", "GROUP", "evil.example", "ATTEMPTS", 1)
        worse = w.add("a", b"", "GROUP", "u@localhost", "ATTEMPTS", 1)
        slash = w.add("a", b"", "GROUP", "evil.example/.localhost", "ATTEMPTS", 1)
        w.run()
        equal(text(w.job(good)["status"]), "complete", "status (%s)" % w.job(good))
        expect("evil.example is not in the list" in w.error(bad), w.error(bad))
        for i in (worse, slash):
            expect("cannot be part of a host's name" in w.error(i), w.error(i))


@test("an address that nothing listens on and a target that never answers fail the job in time")
def silence(folder):
    with socket.socket() as silent:  # accepts by the kernel, answers nothing
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        with socket.socket() as closed:
            closed.bind(("127.0.0.1", 0))
            handlers = 'handler "silent" { http = "http://127.0.0.1:%d/" LOCAL timeout = 300ms }\n' \
                'handler "closed" { http = "http://127.0.0.1:%d/" LOCAL }' % (
                    silent.getsockname()[1], closed.getsockname()[1])
            with World(folder, handlers) as w:
                a = w.add("silent", b"", "ATTEMPTS", 1)
                b = w.add("closed", b"", "ATTEMPTS", 1)
                w.run()
                expect(w.error(a).startswith("no answer in time: "), w.error(a))
                expect(w.error(b).startswith("no answer: "), w.error(b))


def process_state(process):
    with open("/proc/%d/stat" % process.pid) as f:
        return f.read().rpartition(")")[2].split()[0]


@test("an answer that comes before all of the request was read counts, although the connection is reset")
def early_answer(folder):
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)  # the request does not fit
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        with World(folder, 'handler "*" { http = "http://127.0.0.1:%d/" LOCAL }'
                   % listener.getsockname()[1]) as w:
            one = w.add("a", b"x" * 1000000, "ATTEMPTS", 3)
            worker = w.start("--once")
            peer, _ = listener.accept()
            with peer:
                peer.recv(100)
                until(lambda: process_state(worker) == "S", what="waiting for room to send")
                worker.send_signal(signal.SIGSTOP)  # it will see the answer and the reset at once
                until(lambda: process_state(worker) == "T", what="standing still")
                peer.sendall(b"HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n")
            worker.send_signal(signal.SIGCONT)
            equal(worker.wait(20), 0, "exit code")
            equal(w.error(one), "HTTP 413", "error")
            equal(text(w.job(one)["status"]), "failed", "status")


@test("over TLS, a target whose certificate is not trusted gets nothing")
def untrusted(folder):
    pem = os.path.join(folder, "pem")
    made = subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1",
                           "-subj", "/CN=localhost", "-keyout", pem + ".key", "-out", pem],
                          stdin=subprocess.DEVNULL, capture_output=True)
    equal(made.returncode, 0, "openssl's exit code")
    with open(pem, "a") as f, open(pem + ".key") as key:
        f.write(key.read())
    handlers = 'handler "*" { http = "https://localhost:PORT/in" allow = {"127.0.0.0/8", "::1"} }'
    with World(folder, handlers, certificate=pem) as w:
        one = w.add("a", b"", "ATTEMPTS", 1)
        w.run()
        expect("certificate" in w.error(one), w.error(one))
        w.target.none_came()
        # The same with the certificate among the trusted ones: the transfer works at all.
        with open(w.path, "a") as f:
            f.write('\nhandler "b" { http = "https://localhost:%d/in" ca_file = "%s" '
                    'allow = {"127.0.0.0/8", "::1"} }' % (w.target.port, pem))
        two = w.add("b")
        w.run()
        equal(text(w.job(two)["status"]), "complete", "status (%s)" % w.error(two))


@test("proxies of the environment are not used")
def proxy(folder):
    with World(folder, 'handler "*" { http = "URL/in" LOCAL }') as w:
        one = w.add("a")
        w.run(env={**os.environ, "http_proxy": "http://127.0.0.1:1", "ALL_PROXY": "http://127.0.0.1:1"})
        equal(text(w.job(one)["status"]), "complete", "status")


@test("requests of several slots run side by side, and a lease is renewed meanwhile")
def side_by_side(folder):
    both = threading.Barrier(3)

    def meet(handler, _body):
        both.wait(20)
        answer(handler, 200, b"met")

    with World(folder, 'handler "*" { http = "URL/meet" LOCAL }', meet=meet) as w:
        ids = [w.add("a"), w.add("b")]
        w.start("--slots", "2", "--lease", "1s")
        w.target.request()
        w.target.request()
        first = int(w.job(ids[0])["lease_until_ms"])
        until(lambda: int(w.job(ids[0])["lease_until_ms"]) > first + 1500, what="a renewal")
        both.wait(20)
        until(lambda: text(w.job(ids[1])["status"]) == "complete"
              and text(w.job(ids[0])["status"]) == "complete", what="both ends")


def hanging():
    go = threading.Event()

    def hang(handler, _body):
        go.wait(20)
        answer(handler, 200, b"late")

    return go, hang


@test("a canceled job drops its request, and the worker goes on")
def cancel(folder):
    go, hang = hanging()
    with World(folder, 'handler "*" { http = "URL/{hook}" LOCAL }', hang=hang) as w:
        one = w.add("hang")
        worker = w.start("--lease", "1s")
        w.target.request()
        w.client("CANCEL", one)
        until(lambda: "not ours any more" in w.log(), what="the news of it")
        two = w.add("fine")
        until(lambda: text(w.job(two)["status"]) == "complete", what="the next job")
        equal(text(w.job(one)["status"]), "canceled", "status")
        worker.terminate()
        equal(worker.wait(20), 0, "exit code")
        go.set()


@test("SIGTERM waits for a running request, a second one gives the job back")
def drain(folder):
    go, hang = hanging()
    with World(folder, 'handler "*" { http = "URL/hang" LOCAL }', hang=hang) as w:
        one = w.add("a")
        worker = w.start()
        w.target.request()
        worker.terminate()
        until(lambda: "stopping after" in w.log(), what="draining")
        go.set()
        equal(worker.wait(20), 0, "exit code")
        equal(text(w.job(one)["result"]), "late", "result")
        go.clear()
        two = w.add("b")
        worker = w.start()
        w.target.request()
        worker.terminate()
        until(lambda: w.log().count("stopping after") == 2, what="draining again")
        worker.terminate()
        equal(worker.wait(20), 0, "exit code")
        equal(text(w.job(two)["status"]), "pending", "status")
        equal(int(w.job(two)["attempt"]), 0, "attempt")
        go.set()


main()
