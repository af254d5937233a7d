#!/usr/bin/python3
# weir-test: timeout=200 tsan
"""Malformed RESP of every kind.  Each gets an error that names what was wrong; nothing is changed;
and the next request of the connection works wherever the protocol still knows where it begins."""
import os
import socket
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "fault"))

from harness import (  # noqa: E402
    Server, Watch, WeirError, check_error, claim, equal, expect, job_list, main, pack, short,
    test, until)

TOKEN = "0" * 32
BIG = "9" * 30

# Framing that cannot be resumed: one error, then the connection closes.
#   what is sent                                  what the error must mention
FATAL = [
    ("a count of words that is negative", b"*-1\r\n", "length"),
    ("a count of words that is no number", b"*x\r\n", "length"),
    ("an empty count of words", b"*\r\n", "length"),
    ("a count with a sign", b"*+1\r\n$4\r\nPING\r\n", "length"),
    ("a count with a leading zero", b"*01\r\n$4\r\nPING\r\n", "length"),
    ("a count with a space", b"* 1\r\n$4\r\nPING\r\n", "length"),
    ("a huge count of words", b"*1048577\r\n", "argument"),
    ("a count one above the limit", b"*20065\r\n", "argument"),
    ("a count beyond 64 bits", b"*99999999999999999999\r\n", "digits"),
    ("a count that ends in LF alone", b"*1\n$4\r\nPING\r\n", "length"),
    ("a count followed by CR and something", b"*1\rX$4\r\nPING\r\n", "CR LF"),
    ("a word that is an integer", b"*1\r\n:1\r\n", "bulk string"),
    ("a word that is a simple string", b"*1\r\n+PING\r\n", "bulk string"),
    ("a word that is an array", b"*1\r\n*1\r\n$4\r\nPING\r\n", "bulk string"),
    ("a word that is null", b"*1\r\n$-1\r\n", "length"),
    ("a word with a length that is no number", b"*1\r\n$abc\r\n", "length"),
    ("a word with an empty length", b"*1\r\n$\r\n", "length"),
    ("a word longer than a request may be", b"*2\r\n$4\r\nPING\r\n$33554433\r\n", "large"),
    ("a word of 4 GiB", b"*2\r\n$4\r\nPING\r\n$4294967296\r\n", "large"),
    ("a word of 2^64", b"*1\r\n$18446744073709551616\r\n", "digits"),
    ("a word shorter than its length says", b"*1\r\n$3\r\nPING\r\n", "CR LF"),
    ("a word longer than its length says", b"*2\r\n$4\r\nECHO\r\n$2\r\nabc\r\n", "CR LF"),
    ("a word without CR LF", b"*1\r\n$4\r\nPINGxx", "CR LF"),
    ("an inline line with an open double quote", b'PING "abc\r\n', "quotes"),
    ("an inline line with an open single quote", b"PING 'abc\r\n", "quotes"),
    ("an inline line with something glued to a quote", b'PING "abc"def\r\n', "quotes"),
    ("an inline line with a NUL byte", b"PING a\0b\r\n", "NUL"),
    ("an inline line without end", b"a" * 70000, "long"),
    ("binary noise", bytes(range(128, 256)) * 600, "long"),
]


def marker(server):
    """What must not change: the jobs and the queues."""
    with server.client() as c:
        return (sorted((row["id"], bytes(row["status"])) for row in job_list(c, "LIMIT", 1000)),
                [q[1] for q in c("QUEUES")])


@test("framing that cannot be resumed gets one error, and the connection closes")
def _(folder):
    server = Server(folder)
    with server.client() as c:
        c("ENQUEUE", "keep", "me")
    before = marker(server)
    for what, data, mention in FATAL:
        with server.client() as c:
            c.send(pack("PING", "first") + data)
            equal(c.read(), b"first", what)
            check_error(c.read(), "SYNTAX", mention, what)
            expect(c.is_closed(5), what + ": the connection stays open")
    equal(marker(server), before, "the state")


@test("an error is readable even when the peer sends much more after it")
def _(folder):
    server = Server(folder)
    for _ in range(20):
        with server.client() as c:
            c.send(b"*x\r\n" + b"z" * 300000)
            check_error(c.read(), "SYNTAX", "length", "noise after an error")


# Commands that are framed well but wrong: an error, nothing changed, the connection goes on.
WRONG = [
    (("NOSUCH",), "UNKNOWN", "NOSUCH"),
    (("NOSUCH", "a", "b"), "UNKNOWN", "NOSUCH"),
    (("ENQUEU", "a", "b"), "UNKNOWN", "ENQUEUE"),
    (("",), "UNKNOWN", ""),
    (("\xff\xfe",), "UNKNOWN", ""),
    (("X" * 5000,), "UNKNOWN", "XXX"),
    # arity
    (("ENQUEUE",), "SYNTAX", "ENQUEUE"),
    (("ENQUEUE", "hook"), "SYNTAX", "args"),
    (("ENQUEUEMANY",), ("SYNTAX", "BADARG"), "jobs"),
    (("ENQUEUEMANY", "JOBS"), ("SYNTAX", "BADARG"), "hook"),
    (("ENQUEUEMANY", "JOBS", "hook"), ("SYNTAX", "BADARG"), "pairs"),
    (("ENQUEUEMANY", "JOBS", "h", "a", "h"), ("SYNTAX", "BADARG"), "pairs"),
    (("ENQUEUEMANY", "h", "a"), "SYNTAX", "'h'"),
    (("CLAIM",), "SYNTAX", "worker"),
    (("CLAIM", "w"), ("SYNTAX", "BADARG"), "queues"),
    (("CLAIM", "w", "QUEUES"), ("SYNTAX", "BADARG"), "queues"),
    (("CLAIM", "w", "MAX"), "SYNTAX", "max"),
    (("COMPLETE",), "SYNTAX", "COMPLETE"),
    (("COMPLETE", "1"), "SYNTAX", "token"),
    (("COMPLETE", "1", TOKEN, "r", "extra"), "SYNTAX", "extra"),
    (("COMPLETE", "1", TOKEN, "CLAIM", "w"), ("SYNTAX", "BADARG"), "queues"),
    (("COMPLETE", "1", TOKEN, "r", "CLAIM", "w", "MAX", "0", "QUEUES", "q"), "BADARG", "max"),
    (("FAIL", "1", TOKEN), "SYNTAX", "error"),
    (("FAIL", "1", TOKEN, "e", "RETRYIN"), "SYNTAX", "retryin"),
    (("FAIL", "1", TOKEN, "e", "NORETRY", "RETRYIN", "5"), "BADARG", "retryin and noretry"),
    (("RELEASE", "1"), "SYNTAX", "token"),
    (("RELEASE", "1", TOKEN, "IN"), "SYNTAX", "in"),
    (("RELEASE", "1", TOKEN, "5"), "SYNTAX", "'5'"),
    (("EXTEND", "1", TOKEN), "SYNTAX", "ms"),
    (("PROGRESS", "1", TOKEN), "SYNTAX", "text"),
    (("CANCEL",), "SYNTAX", "CANCEL"),
    (("CANCEL", "1", "2"), "SYNTAX", "'2'"),
    (("JOB",), "SYNTAX", "JOB"),
    (("JOB", "1", "2"), "SYNTAX", "'2'"),
    (("EVENTS",), "SYNTAX", "EVENTS"),
    (("JOBS", "50"), "SYNTAX", "50"),
    (("QUEUES", "x"), "SYNTAX", "x"),
    (("PAUSE",), "SYNTAX", "PAUSE"),
    (("PAUSE", "q", "q"), "SYNTAX", "'q'"),
    (("RESUME",), "SYNTAX", "RESUME"),
    # options: unknown, twice, without a value, exclusive
    (("ENQUEUE", "h", "a", "NOPE", "1"), "SYNTAX", "NOPE"),
    (("ENQUEUE", "h", "a", "QUEUE"), "SYNTAX", "queue"),
    (("ENQUEUE", "h", "a", "PRIORITY"), "SYNTAX", "priority"),
    (("ENQUEUE", "h", "a", "QUEUE", "q", "QUEUE", "q"), "BADARG", "queue"),
    (("ENQUEUE", "h", "a", "PRIORITY", "1", "PRIORITY", "2"), "BADARG", "priority"),
    (("ENQUEUE", "h", "a", "IN", "1", "AT", "1"), "BADARG", "at"),
    (("ENQUEUE", "h", "a", "AT", "1", "IN", "1"), "BADARG", "in"),
    (("ENQUEUEMANY", "IN", "1", "AT", "1", "JOBS", "h", "a"), "BADARG", "at"),
    (("CLAIM", "w", "MAX", "1", "MAX", "1", "QUEUES", "q"), "BADARG", "max"),
    (("JOBS", "LIMIT", "1", "LIMIT", "1"), "BADARG", "limit"),
    # numbers
    (("ENQUEUE", "h", "a", "PRIORITY", "x"), "BADARG", "priority"),
    (("ENQUEUE", "h", "a", "PRIORITY", ""), "BADARG", "priority"),
    (("ENQUEUE", "h", "a", "PRIORITY", "1.5"), "BADARG", "priority"),
    (("ENQUEUE", "h", "a", "PRIORITY", "1e2"), "BADARG", "priority"),
    (("ENQUEUE", "h", "a", "PRIORITY", " 1"), "BADARG", "priority"),
    (("ENQUEUE", "h", "a", "PRIORITY", "0x10"), "BADARG", "priority"),
    (("ENQUEUE", "h", "a", "PRIORITY", "1\0"), "BADARG", "priority"),
    (("ENQUEUE", "h", "a", "PRIORITY", BIG), "BADARG", "priority"),
    (("ENQUEUE", "h", "a", "PRIORITY", "-" + BIG), "BADARG", "priority"),
    (("ENQUEUE", "h", "a", "IN", "9223372036854775808"), "BADARG", "in"),
    (("ENQUEUE", "h", "a", "AT", "-1"), "BADARG", "at"),
    (("ENQUEUE", "h", "a", "AT", "9223372036854775807"), "BADARG", "at"),
    (("JOB", "x"), "BADARG", "id"),
    (("JOB", "-1"), "BADARG", "id"),
    (("JOB", "0"), "BADARG", "id"),
    (("JOB", "1.0"), "BADARG", "id"),
    (("JOB", "9223372036854775808"), "BADARG", "id"),
    (("JOB", "18446744073709551617"), "BADARG", "id"),
    (("JOB", "9223372036854775807"), "NOTFOUND", "9223372036854775807"),
    (("CANCEL", "424242"), "NOTFOUND", "424242"),
    (("EVENTS", "424242"), "NOTFOUND", "424242"),
    (("COMPLETE", "424242", TOKEN), "NOTFOUND", "424242"),
    (("FAIL", "424242", TOKEN, "e"), "NOTFOUND", "424242"),
    (("RELEASE", "424242", TOKEN), "NOTFOUND", "424242"),
    (("EXTEND", "424242", TOKEN, "1000"), "NOTFOUND", "424242"),
    (("PROGRESS", "424242", TOKEN, "t"), "NOTFOUND", "424242"),
    # tokens
    (("COMPLETE", "1", ""), "BADARG", "token"),
    (("COMPLETE", "1", "0" * 31), "BADARG", "token"),
    (("COMPLETE", "1", "0" * 33), "BADARG", "token"),
    (("COMPLETE", "1", "g" * 32), "BADARG", "token"),
    (("COMPLETE", "1", TOKEN), "NOTOWNER", "1"),
    (("FAIL", "1", TOKEN, "e"), "NOTOWNER", "1"),
    (("RELEASE", "1", TOKEN), "NOTOWNER", "1"),
    (("EXTEND", "1", TOKEN, "1000"), "NOTOWNER", "1"),
    (("PROGRESS", "1", TOKEN, "t"), "NOTOWNER", "1"),
    # names
    (("ENQUEUE", "", "a"), "BADARG", "hook"),
    (("ENQUEUE", "a\0b", "a"), "BADARG", "hook"),
    (("ENQUEUE", "a\nb", "a"), "BADARG", "hook"),
    (("ENQUEUE", "a\x7fb", "a"), "BADARG", "hook"),
    (("ENQUEUE", b"\xff", "a"), "BADARG", "hook"),
    (("ENQUEUE", b"\xc0\xaf", "a"), "BADARG", "hook"),
    (("ENQUEUE", b"\xed\xa0\x80", "a"), "BADARG", "hook"),
    (("ENQUEUE", b"\xf5\x80\x80\x80", "a"), "BADARG", "hook"),
    (("ENQUEUE", b"ok\xe2\x82", "a"), "BADARG", "hook"),
    (("ENQUEUE", "h", "a", "QUEUE", ""), "BADARG", "queue"),
    (("ENQUEUE", "h", "a", "QUEUE", b"\xff"), "BADARG", "queue"),
    (("ENQUEUE", "h", "a", "GROUP", "a\tb"), "BADARG", "group"),
    (("ENQUEUEMANY", "JOBS", "good", "a", b"b\xffd", "a"), "BADARG", "hook"),
    (("CLAIM", "", "QUEUES", "q"), "BADARG", "worker"),
    (("CLAIM", "w", "QUEUES", "q", ""), "BADARG", "queues"),
    (("CLAIM", "w", "QUEUES", "q", b"\xff"), "BADARG", "queues"),
    (("PAUSE", ""), "BADARG", "queue"),
    (("PAUSE", "a\rb"), "BADARG", "queue"),
    (("RESUME", "there-is-none"), "NOTFOUND", "there-is-none"),
    (("JOBS", "STATUS", "done"), "BADARG", "status"),
    (("JOBS", "STATUS", ""), "BADARG", "status"),
    (("JOBS", "STATUS", "Pending "), "BADARG", "status"),
    (("JOBS", "QUEUE", ""), "BADARG", "queue"),
    (("JOBS", "MATCH", ""), "BADARG", "match"),
    (("JOBS", "CURSOR", "x"), "BADARG", "cursor"),
    (("JOBS", "CURSOR", "-1"), "BADARG", "cursor"),
    (("JOBS", "CURSOR", "1" * 21), ("BADARG", "TOOBIG"), "cursor"),
    # connection commands
    (("HELLO", "1"), ("BADARG", "SYNTAX"), "2 and 3"),
    (("HELLO", "4"), ("BADARG", "SYNTAX"), "2 and 3"),
    (("HELLO", "3", "AUTH"), "SYNTAX", "HELLO"),
    (("HELLO", "3", "NOPE", "x"), "SYNTAX", "HELLO"),
    (("AUTH",), "SYNTAX", "AUTH"),
    (("AUTH", "a", "b", "c"), "SYNTAX", "AUTH"),
    (("SELECT", "1"), None, ""),
    (("SELECT",), None, ""),
    (("CLIENT",), None, ""),
    (("CLIENT", "NOPE"), None, ""),
    (("CLIENT", "SETNAME"), None, ""),
    (("CLIENT", "SETNAME", "a b"), "BADARG", "name"),
    (("CLIENT", "SETNAME", "n" * 256), "TOOBIG", "name"),
    (("COMMAND", "NOPE"), "SYNTAX", "COMMAND"),
    (("ECHO",), None, ""),
    (("ECHO", "a", "b"), None, ""),
    (("PING", "a", "b"), None, ""),
]


@test("a wrong command is refused by name and reason, changes nothing, and the next one works")
def _(folder):
    server = Server(folder)
    with server.client() as c:
        equal(c("ENQUEUE", "keep", "me", "QUEUE", "kept"), 1, "the first id")
        held = claim(c, "kept", lease=600000)[0]
        before = marker(server)
        for words, name, mention in WRONG:
            words = [w if isinstance(w, bytes) else w.encode("latin-1" if "\xff" in w else "utf-8")
                     for w in words]
            # Three in one go: good, wrong, good.
            c.send(pack("PING", "before") + pack(*words) + pack("PING", "after"))
            equal(c.read(), b"before", short(words))
            check_error(c.read(), name, mention, short(words))
            equal(c.read(), b"after", short(words))
        equal(marker(server), before, "the state")
        equal(c("COMPLETE", held.id, held.token), "OK")


@test("an error line holds no control characters, whatever was sent")
def _(folder):
    server = Server(folder)
    for word in (b"A\r\nB", b"A\nB", b"\x00\x01\x02", b"\x1b[31m", b"+OK\r\n", b"\xff" * 60):
        for words in ((word,), (b"ENQUEUE", b"h", b"a", word, b"1"),
                      (b"ENQUEUE", b"h", b"a", b"PRIORITY", word), (b"JOBS", b"STATUS", word),
                      (b"RESUME", b"q" + word.replace(b"\xff", b"")), (b"HELP", word),
                      (b"CLIENT", word)):
            with server.client() as c:
                c.send(pack(*words) + pack("PING", "after"))
                line = c._line()
                if line[:1] == b"-":
                    expect(not any(byte < 32 or byte == 127 for byte in line),
                           "%r for %r" % (line, words))
                    equal(c.read(), b"after", short(words))


# Commands that show what they were sent: the word goes in place of None.
SHOWING = [
    (None,), ("ENQUEUE", "h", "a", None, "1"), ("ENQUEUE", "h", "a", "PRIORITY", None),
    ("ENQUEUE", "h", "a", "BACKOFF", None), ("JOBS", "STATUS", None), ("HELP", None),
    ("CLIENT", None), ("RESUME", None), ("QUEUE", None), ("CHECK", "a", "TARGET", None),
    ("CHECK", "a", "METRICS", None), ("RULESET", "a", "ratio", None),
    ("RULESET", "a", "metrics", None), ("RULESET", "a", "threshold", None),
    ("RULESET", "a", "hold", "TARGET", None), ("CLIENTSHOW", None), ("SETTINGSET", None, "1"),
    ("SETTINGSET", "throttle.mode", None), ("USAGE", None), ("BREAKERSTATE", None),
    ("BATCHSTATE", None), ("UNLOCK", None, "0" * 32), ("SCHEDULED", None), ("CAP", None, "1"),
    ("UNCAP", None), ("RECOVERHOST", None), ("REGISTRYUNSET", None),
    ("SCHEDULE", "s", "h", "CRON", None), ("SCHEDULE", "s", "h", "CRON", "* * * * *", "TZ", None),
]


@test("an error line is text, whatever was sent, and is cut between characters")
def _(folder):
    server = Server(folder)
    with server.client() as c:
        for words in SHOWING:
            for word in (b"\xff" * 60, b"a\xc3", b"\xe2\x82", b"a\xc2\x9b2J",
                         *("a".encode() * n + "\u20ac".encode() * 100 for n in range(3))):
                sent = [word if w is None else w for w in words]
                c.send(pack(*sent))
                line = c._line()
                expect(line[:1] == b"-", "%r was taken: %r" % (sent, line))
                said = line.decode("utf-8")  # raises when it is none
                expect(all(ord(x) >= 32 and not 127 <= ord(x) < 160 for x in said), repr(said))
                expect("?" not in said.partition(" did you mean")[0] or "\u20ac".encode() not in word,
                       "%r for %s" % (said, short(sent)))


@test("a half command changes nothing when the peer goes away")
def _(folder):
    server = Server(folder)
    whole = pack("ENQUEUE", "hook", "x" * 100)
    before = marker(server)
    for cut in range(1, len(whole), 7):
        with server.client() as c:
            c.send(whole[:cut])
    equal(marker(server), before, "the state")


@test("a command may arrive byte by byte, and many in one packet")
def _(folder):
    server = Server(folder)
    with server.client() as c:
        for byte in pack("ENQUEUE", "h", "drip", "QUEUE", "q"):
            c.send(bytes([byte]))
        equal(c.read(), 1)
        n = 3000
        c.send(b"".join(pack("ENQUEUE", "h", b"%d" % i, "QUEUE", "q") for i in range(n)))
        equal([c.read() for _ in range(n)], list(range(2, n + 2)), "ids")


@test("a pipeline after a waiting claim is answered in order")
def _(folder):
    server = Server(folder)
    with server.client() as c, server.client() as other:
        c.send(pack("CLAIM", "w", "WAIT", 20000, "QUEUES", "q") + pack("PING", "one") +
               pack("NOSUCH") + pack("PING", "two"))
        other("PING")
        job_id = other("ENQUEUE", "h", "a", "QUEUE", "q")
        equal(c.read()[0][0], job_id)
        equal(c.read(), b"one")
        check_error(c.read(), "UNKNOWN", "NOSUCH", "the command after")
        equal(c.read(), b"two")


@test("a peer that goes away while it waits is given nothing")
def _(folder):
    server = Server(folder)
    with server.client() as c:
        for _ in range(20):
            gone = server.client()
            gone.send(pack("CLAIM", "gone", "WAIT", 60000, "QUEUES", "q"))
            c("PING")
            gone.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            gone.close()
        until(lambda: b"connections:1\r\n" in c("INFO") or b"waiting=1" not in c(
            "CLIENT", "LIST"), what="the server saw them go")
        job_id = c("ENQUEUE", "h", "a", "QUEUE", "q")
        got = claim(c, "q", worker="here")
        equal([g.id for g in got], [job_id], "claimed by who is there")


@test("an inline command is understood with quotes and escapes, and blank lines are nothing")
def _(folder):
    server = Server(folder)
    with server.client() as c:
        c.send(b'\r\n\r\n  \r\nECHO "a b\\x41\\n\\"q\\""\r\nECHO \'it\\\'s\'\r\n*0\r\nping\n')
        equal(c.read(), b'a bA\n"q"')
        equal(c.read(), b"it's")
        equal(c.read(), "PONG")


@test("HTTP and TLS on the RESP port are dropped before anything in them is taken as a command")
def _(folder):
    server = Server(folder)
    before = marker(server)
    body = b"ENQUEUE attack payload\r\n"
    for first in (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body),
                  b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"PUT /x HTTP/1.1\r\n\r\n",
                  b"OPTIONS * HTTP/1.1\r\n\r\n", b"HEAD / HTTP/1.0\r\n\r\n",
                  b"DELETE /v1/jobs/1 HTTP/1.1\r\n\r\n", b"PROPFIND / HTTP/1.1\r\n\r\n",
                  b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"post / HTTP/1.1\r\n\r\n",
                  b"Host: localhost\r\n",
                  b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"x" * 50):
        with server.client() as c:
            c.send(first + body)
            expect(c.is_closed(5), "%r: the connection stays open" % first[:20])
    equal(marker(server), before, "the state")


@test("without a token only a greeting is heard, and a wrong token is told so")
def _(folder):
    token = "a-good-long-token-0123456789"
    server = Server(folder, token=token)
    with server.client() as c:
        for words in (("ENQUEUE", "h", "a"), ("QUEUES",), ("INFO",), ("CLIENT", "LIST"),
                      ("NOSUCH",), ("HELP",), ("COMMAND",), ("CLAIM", "w", "QUEUES", "q")):
            c.refused(*words, name="NOAUTH")
        c.refused("AUTH", token[:-1], name="BADTOKEN")
        c.refused("AUTH", token + "x", name="BADTOKEN")
        c.refused("AUTH", "", name="BADTOKEN")
        c.refused("HELLO", "3", "AUTH", "default", "wrong", name="BADTOKEN")
        c.refused("HELLO", "3", name="NOAUTH")
        equal(c("AUTH", token), "OK")
        c("ENQUEUE", "h", "a")
        equal(c("RESET"), "RESET")
        c.refused("ENQUEUE", "h", "a", name="NOAUTH")
    with server.client() as c:
        reply = c("HELLO", "3", "AUTH", "default", token, "SETNAME", "me")
        equal(reply["proto"], 3, "protocol")
        equal(c("CLIENT", "GETNAME"), b"me")


@test("before authentication at most 4 KiB and 5 s are given")
def _(folder):
    server = Server(folder, token="a-good-long-token-0123456789")
    with server.client() as c:
        c.send(b"*2\r\n$4\r\nAUTH\r\n$5000\r\n")
        check_error(c.read(), None, "", "a large word before AUTH")
        expect(c.is_closed(3), "a large word before AUTH: still open")
    with server.client() as c:
        closed = False
        try:
            for _ in range(400):
                c.send(pack("AUTH", "wrong" * 4))
            closed = c.is_closed(3)
        except OSError:
            closed = True
        expect(closed, "much input before AUTH: still open")
    slow, silent = server.client(seconds=15), server.client(seconds=15)
    watch = Watch()
    drip = iter(pack("AUTH", "x" * 4000))

    def is_cut():
        try:
            slow.send(bytes([next(drip)]))
            slow.socket.setblocking(False)
            return slow.socket.recv(100) == b""
        except BlockingIOError:
            return False
        except OSError:
            return True
        finally:
            slow.socket.setblocking(True)

    until(is_cut, what="a slow drip is cut")
    expect(watch.wall > 4.5, "cut after %.1f s" % watch.wall)
    watch.within(7, "cutting a slow drip")
    expect(silent.is_closed(60), "a silent connection stays open")
    with server.client() as c:
        equal(c("PING"), "PONG")


@test("a client in RESP3 gets maps, booleans and nulls of their own type")
def _(folder):
    server = Server(folder)
    with server.client() as c:
        hello = c("HELLO", "3")
        equal((hello["server"], hello["proto"]), (b"weir", 3))
        job_id = c("ENQUEUE", "h", "a")
        view = c("JOB", job_id)
        expect(isinstance(view, dict), "JOB is %r" % (view,))
        equal(view["result"], None, "result")
        page = c("JOBS")
        expect(isinstance(page, dict) and isinstance(page["jobs"][0], dict), "JOBS")
        expect(c("QUEUES")[0]["paused"] is False, "paused")
        expect(isinstance(c("CLAIM", "w", "QUEUES", "default")[0], list), "a grant is an array")
        check_error(c.ask("JOB", 99), "NOTFOUND", "99", "JOB 99")
        equal(c("HELLO", "2")[0], b"server")
        expect(isinstance(c("JOB", job_id), list), "JOB in RESP2")


@test("a reader that does not read holds up only itself")
def _(folder):
    server = Server(folder)
    with server.client() as c, server.client() as lazy:
        c("ENQUEUE", "h", b"x" * 100000)
        lazy.socket.setblocking(False)
        sent = 0
        request = pack("JOB", 1)
        # Far more answers than the socket and the server's bound hold.
        try:
            for _ in range(600):
                lazy.socket.send(request)
                sent += 1
        except BlockingIOError:
            pass
        for _ in range(50):
            watch = Watch()
            c("PING")
            watch.within(1, "PING")
        lazy.socket.setblocking(True)
        lazy.socket.settimeout(20)
        for _ in range(sent):
            expect(not isinstance(lazy.read(), WeirError), "an answer is an error")




if __name__ == "__main__":
    main()
