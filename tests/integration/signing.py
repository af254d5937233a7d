#!/usr/bin/python3
# weir-test: timeout=120 tsan
"""Signed jobs against a real server: what is signed runs, and nothing else does.

The signature is made by hand (lib_signing.py), from the description in docs/signing.md and not with
weir's own code, so a client in another language that follows the page is known to be understood.
"""
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "fault"))

from harness import (  # noqa: E402
    ROOT, Server, claim, equal, expect, job, main, mapping, pack, status, test, text, weir)
from lib_signing import SECRETS, canonical, sign, write_keys  # noqa: E402

def serve(folder, *ids):
    return Server(folder, config='signing_keys_file = "%s"\n' % write_keys(folder, *ids))


# The words of ENQUEUE that carry a signed field, in the order of what is signed.
JOB = dict(queue="default", group="acme", priority=9, attempts=5, timeout=60000, single="one")
WORD = dict(queue="QUEUE", group="GROUP", priority="PRIORITY", attempts="ATTEMPTS",
            timeout="TIMEOUT", single="KEY")


def enqueue(c, hook, args, signature=None, **fields):
    words = [w for name, value in fields.items() for w in (WORD[name], value)]
    return c("ENQUEUE", hook, args, *words, *(["SIGNATURE", signature] if signature else []))


def check_refused(c, number, why):
    """It has ended as failed, without a start, with the reason in its error and its story."""
    row = job(c, number)
    equal((text(row.status), row.attempt, row.fence, row.started_ms), ("failed", 0, 0, 0),
          "job %d" % number)
    expect(why in text(row.error), "job %d: error %r" % (number, row.error))
    events = [mapping(e) for e in c("EVENTS", number)]
    equal([text(e["event"]) for e in events], ["created", "failed"], "events")
    expect(why in text(events[1]["message"]), "message %r" % events[1]["message"])


@test("a job that is signed as the page says runs, whatever bytes are in it")
def _(folder):
    with serve(folder, "new").client() as c:
        secret = SECRETS["new"]
        cases = [("mail", '{"to": 1}', {}), ("mail", "", {}), ("x", b"\x00\xff\r\n7:", {}),
                 ("h\u00e4mmern", "\u00e4" * 100, {}), ("mail", "x" * 1048576, {}), ("mail", "a", JOB)]
        for number, (hook, args, fields) in enumerate(cases, 1):
            given = fields or dict(priority=100, attempts=3, timeout=300000)
            signature = sign(secret, hook, args, **given)
            if number % 2:
                signature = signature[:4] + signature[4:].upper()
            equal(enqueue(c, hook, args, signature, **given), number)
            row = claim(c)[0]
            equal((row.id, text(row.hook)), (number, hook), "what was claimed")
            equal(c("COMPLETE", row.id, row.token), "OK")
        example = (b'weir-sign-1\n4:mail\n8:{"to":1}\n7:default\n0:\n2:10\n1:5\n5:60000\n0:\n')
        equal(canonical("mail", '{"to":1}', priority=10, attempts=5, timeout=60000), example,
              "the example of the page")


@test("the example code of the page makes the same signatures")
def _(folder):
    with open(os.path.join(ROOT, "docs", "signing.md")) as f:
        page = f.read()
    begin = page.index("    import hashlib")
    code = page[begin:page.index("    r.execute_command", begin)]
    names = {}
    exec("\n".join(line[4:] for line in code.splitlines()), names)
    equal(names["sign"]("new", SECRETS["new"], "mail", b"\xff", group="g", priority=0, key="k"),
          sign(SECRETS["new"], "mail", b"\xff", group="g", priority=0, single="k"), "in Python")
    begin = page.index("    function sign(")
    php = page[begin:page.index("\n    }\n", begin) + 7]
    php += "echo sign('new', $argv[1], 'mail', '\u00e4', 'default', '', 100, 3, 300000, '');"
    done = subprocess.run(["php", "-r", php, SECRETS["old"].decode()], stdout=subprocess.PIPE,
                          check=True, text=True)
    equal(done.stdout, sign(SECRETS["old"], "mail", "\u00e4"), "in PHP")


@test("without a signature, with a wrong one, or one by an unknown key, a job fails unstarted")
def _(folder):
    with serve(folder, "new").client() as c:
        fields = dict(priority=100, attempts=3, timeout=300000)
        good = sign(SECRETS["new"], "h", "a", **fields)
        flipped = good[:-1] + ("0" if good[-1] != "0" else "1")
        for signature, why in (
                (None, "no signature"), (flipped, "by the key new is wrong"),
                (sign(SECRETS["old"], "h", "a", **fields), "by the key new is wrong"),
                (sign(SECRETS["old"], "h", "a", key="old", **fields), "key old, which is not known"),
                ("new:" + "0" * 64, "is wrong"), ("new:" + good[4:-2], "64 hex digits"),
                ("new", "64 hex digits"), (":" + good[4:], "64 hex digits"),
                ("NEW:" + good[4:], "key NEW, which is not known"), (good + "0", "64 hex digits")):
            number = enqueue(c, "h", "a", signature, **fields)
            equal(claim(c), [], "claim with %s" % signature)
            check_refused(c, number, why)
        equal(enqueue(c, "h", "a", good, **fields), 11)
        equal([g.id for g in claim(c, count=10)], [11], "the good one")


@test("among good ones the bad are passed over, for a claim of many and for one that waits")
def _(folder):
    server = serve(folder, "new")
    with server.client() as c, server.client() as waiting:
        fields = dict(priority=100, attempts=3, timeout=300000)
        good = sign(SECRETS["new"], "h", "a", **fields)
        for n in range(20):
            enqueue(c, "h", "a", good if n % 2 else None, **fields)
        equal([g.id for g in claim(c, count=10)], list(range(2, 21, 2)), "claimed")
        equal(claim(c, count=10), [], "what is left")
        for number in range(1, 21, 2):
            check_refused(c, number, "no signature")
        waiting.send(pack("CLAIM", "w", "MAX", 10, "WAIT", 60000, "QUEUES", "default"))
        enqueue(c, "h", "a", None, **fields)
        enqueue(c, "h", "b", good, **fields)
        equal(enqueue(c, "h", "a", good, **fields), 23)
        equal([row[0] for row in waiting.read()], [23], "for the one that waited")
        equal(mapping(c("QUEUE", "default"))["failed"], 12, "failed")
        server.kill()
    # Nothing of it is forgotten: the bad stay failed, the good stay held.
    with Server(folder, config='signing_keys_file = "%s"\n' % os.path.join(
            folder, "signing.keys")).client() as c:
        check_refused(c, 22, "is wrong")
        equal(status(c, 23), "in-progress")
        equal(claim(c, count=10), [], "after a restart")


@test("every field that decides what runs is signed: changed by one, it is refused")
def _(folder):
    with serve(folder, "new").client() as c:
        signature = sign(SECRETS["new"], "mail", "args", **JOB)
        changes = dict(hook="mails", args="argt", queue="other", group="acm", priority=10,
                       attempts=6, timeout=60001, single="two")
        for name, value in changes.items():
            fields = dict(JOB, hook="mail", args="args")
            fields[name] = value
            hook, args = fields.pop("hook"), fields.pop("args")
            number = enqueue(c, hook, args, signature, **fields)
            equal(claim(c, ["default", "other"], count=10), [], "claim with another " + name)
            check_refused(c, number, "is wrong")
        # Left out: the server's default is not what was signed.
        for name in ("group", "priority", "attempts", "timeout", "single"):
            fields = {k: v for k, v in JOB.items() if k != name}
            number = enqueue(c, "mail", "args", signature, **fields)
            equal(claim(c, count=10), [], "claim without " + name)
            check_refused(c, number, "is wrong")
        # Bytes moved from one field into the next are other fields.
        for hook, args in (("mailargs", ""), ("mai", "largs"), ("maila", "rgs"),
                           ("mail", "args\n7:default")):
            number = enqueue(c, hook, args, signature, **JOB)
            equal(claim(c, count=10), [], "claim with moved bytes")
            check_refused(c, number, "is wrong")
        number = enqueue(c, "mail", "args", signature, **JOB)
        equal([g.id for g in claim(c)], [number], "unchanged")


@test("args replaced through a unique key do not run under the signature of the first")
def _(folder):
    with serve(folder, "new").client() as c:
        fields = ("PRIORITY", 100, "ATTEMPTS", 3, "TIMEOUT", 300000)
        good = sign(SECRETS["new"], "h", "good")
        equal(c("ENQUEUE", "h", "good", *fields, "UNIQUE", "k", "SIGNATURE", good), 1)
        equal(c("ENQUEUE", "h", "evil", *fields, "UNIQUE", "k", "CONFLICT", "replace"), 1)
        equal(claim(c), [], "claim")
        check_refused(c, 1, "is wrong")


@test("a retried job is checked again, and runs when its key has come back")
def _(folder):
    server = serve(folder, "old")
    with server.client() as c:
        fields = dict(priority=100, attempts=3, timeout=300000)
        enqueue(c, "h", "a", sign(SECRETS["new"], "h", "a", **fields), **fields)
        equal(claim(c), [], "claim")
        check_refused(c, 1, "key new, which is not known")
        equal(text(c("RETRY", 1)), "pending")
        equal(claim(c), [], "claim after RETRY")
        equal(status(c, 1), "failed")
    equal(server.stop(), 0, "exit code")
    with serve(folder, "old", "new").client() as c:
        equal(text(c("RETRY", 1)), "pending")
        equal([g.id for g in claim(c)], [1], "claim with the key")


@test("two keys: jobs signed by either run, and when the old one is gone its jobs do not")
def _(folder):
    fields = dict(priority=100, attempts=3, timeout=300000)

    def add(c, key):
        return enqueue(c, "h", "a", sign(SECRETS[key], "h", "a", key=key, **fields), **fields)

    server = serve(folder, "old")
    with server.client() as c:
        equal([add(c, "old") for _ in range(3)], [1, 2, 3])
        equal([g.id for g in claim(c)], [1], "with the old key")
    equal(server.stop(), 0, "exit code")
    server = serve(folder, "new", "old")
    with server.client() as c:
        equal(add(c, "new"), 4)
        equal([g.id for g in claim(c)], [2], "with both, signed by the old")
        c("CANCEL", 3)
        equal([g.id for g in claim(c)], [4], "with both, signed by the new")
        equal(add(c, "old"), 5)
    equal(server.stop(), 0, "exit code")
    with serve(folder, "new").client() as c:
        equal(claim(c, count=10), [], "with the new key alone")
        check_refused(c, 5, "key old, which is not known")
        # What a worker holds already is not taken from it.
        equal(status(c, 1), "in-progress")


@test("a server without keys runs every job, signed or not, and one with keys none of them unsigned")
def _(folder):
    server = Server(folder)
    with server.client() as c:
        fields = dict(priority=100, attempts=3, timeout=300000)
        enqueue(c, "h", "a", None)
        enqueue(c, "h", "a", "who:" + "0" * 64)
        equal([g.id for g in claim(c, count=2)], [1, 2], "without keys")
        enqueue(c, "h", "a", None, **fields)
    equal(server.stop(), 0, "exit code")
    with serve(folder, "new").client() as c:
        equal(claim(c, count=10), [], "from before the keys")
        check_refused(c, 3, "no signature")


@test("over HTTP a job is signed in the same way, one or many")
def _(folder):
    server = serve(folder, "new")
    with server.web() as web, server.client() as c:
        # Args are the bytes of the JSON value as they were sent, with the quotes of a text.
        body = {"hook": "h", "args": "text", "priority": 100, "attempts": 3, "timeout": 300000}
        good = dict(body, signature=sign(SECRETS["new"], "h", '"text"'))
        equal(web.good("POST", "/v1/jobs", [good, body, good]), {"ids": [1, 2, 3]})
        taken = web.good("POST", "/v1/claims", {"worker": "w", "queues": ["default"], "max": 10})
        equal([j["id"] for j in taken["jobs"]], [1, 3], "claimed")
        check_refused(c, 2, "no signature")
        raw = b'{"hook":"h","args":{"a": [1,  2]},"priority":100,"attempts":3,"timeout":300000,' \
              b'"signature":"%s"}' % sign(SECRETS["new"], "h", '{"a": [1,  2]}').encode()
        equal(web.good("POST", "/v1/jobs", raw), {"id": 4})
        equal([g.id for g in claim(c)], [4], "JSON args")


@test("jobs of schedules and callbacks of batches are signed too")
def _(folder):
    with serve(folder, "new").client() as c:
        # What a job does not name is signed as what it then has: 100, 3 and no timeout.
        for name, signature in (("good", sign(SECRETS["new"], "tick", "a", timeout=0)),
                                ("bad", sign(SECRETS["new"], "tick", "b", timeout=0))):
            c("SCHEDULE", name, "tick", "a", "EVERY", 3600000, "SIGNATURE", signature)
            c("RUNSCHEDULE", name)
        equal([g.id for g in claim(c, count=10)], [1], "jobs of schedules")
        check_refused(c, 2, "is wrong")
        for number, right in ((3, True), (5, False)):
            name = "batch-%d" % number
            c("BATCH", name, "ONDONE", "done", "DONEARGS", "x", "DONESIGNATURE",
              sign(SECRETS["new"], "done", "x" if right else "y", timeout=0))
            enqueue(c, "h", "a", sign(SECRETS["new"], "h", "a", timeout=0))
            c("CLOSEBATCH", name)
            equal([g.id for g in claim(c, count=10)], [number, number + 1] if right else [number],
                  "the job, and the callback of an empty batch")
        check_refused(c, 6, "is wrong")


@test("the command line signs what the server checks")
def _(folder):
    server = serve(folder, "new", "old")
    url = "redis://%s:%d" % server.resp
    keys = os.path.join(folder, "signing.keys")
    with server.client() as c:
        for n, words in enumerate((("--sign-key", "old"), ("--queue", "q", "--group", "g", "--key",
                                   "one", "--priority", "7", "--attempts", "9", "--timeout", "2m"),
                                   ("--in", "1ms", "--expires", "1h", "--unique", "*"), ()), 1):
            done = weir("job", "add", "h", '{"n": %d}' % n, "--sign", keys, "--url", url, *words)
            equal((done.returncode, done.stderr), (0, ""), "weir job add")
            equal([g.id for g in claim(c, ["default", "q"], wait=10000)], [n], "claimed")
        equal(text(mapping(job(c, 1).options)["signature"]),
              sign(SECRETS["old"], "h", '{"n": 1}', key="old"), "the signature")


@test("a key file that is wrong stops the start with its line and never shows a secret")
def _(folder):
    good = SECRETS["new"].hex()
    for content, line in (
            ("new %s\nbad zz%s\n" % (good, good), 2), ("# keys\n\nnew %s\n" % good[:30], 3),
            ("new %s extra\n" % good, 1), ("new\n", 1), ("n/w %s\n" % good, 1),
            ("new %s\nnew %s\n" % (good, SECRETS["old"].hex()), 2),
            ("new hex:%s\n" % good[:-1], 1), ("new base64:%s*\n" % good, 1),
            ("".join("k%d %s\n" % (n, good) for n in range(17)), 17),
            ("x" * 33 + " " + good + "\n", 1)):
        keys = write_keys(folder, content=content)
        conf = os.path.join(folder, "weir.conf")
        with open(conf, "w") as f:
            f.write('signing_keys_file = "%s"\n' % keys)
        for words in ((), ("--check",)):
            done = weir("serve", "--data", os.path.join(folder, "data"), "-c", conf, *words,
                        "--resp", "127.0.0.1:0", "--http", "127.0.0.1:0")
            said = done.stdout + done.stderr
            equal(done.returncode, 2, "exit code for %r" % content[:40])
            expect(keys in said and "line %d:" % line in said, "file and line: %s" % said)
            expect(good[:8] not in said and SECRETS["old"].hex()[:8] not in said,
                   "it shows a secret: %s" % said)
        expect(not os.path.exists(os.path.join(folder, "data", "log")), "a log was made")


@test("a key file that others may read, that is missing or empty, stops the start")
def _(folder):
    conf = os.path.join(folder, "weir.conf")
    path = os.path.join(folder, "signing.keys")
    with open(conf, "w") as f:
        f.write('signing_keys_file = "%s"\n' % path)

    def said():
        done = weir("serve", "-t", "-c", conf)
        return done.returncode, done.stdout + done.stderr

    code, out = said()
    expect(code != 0 and path in out and "No such file" in out, out)
    for mode in (0o644, 0o604, 0o620, 0o602):
        write_keys(folder, "new", mode=mode)
        code, out = said()
        equal(code, 3, "exit code with mode %o" % mode)
        expect(path in out and "chmod 600" in out, out)
    for mode in (0o600, 0o400, 0o640):
        write_keys(folder, "new", mode=mode)
        equal(said()[0], 0, "exit code with mode %o" % mode)
    write_keys(folder, content="# nothing\n\n")
    code, out = said()
    equal(code, 2, "exit code of an empty file")
    expect(path in out and "no key" in out, out)


@test("a signing key is never in the log, in an answer or in what the server says")
def _(folder):
    server = serve(folder, "new", "old")
    with server.client() as c, server.web() as web:
        enqueue(c, "h", "a", sign(SECRETS["new"], "h", "a"), priority=100, attempts=3,
                timeout=300000)
        enqueue(c, "h", "a", "new:" + "0" * 64)
        equal(len(claim(c, count=10)), 1, "claimed")
        said = repr(c("INFO")) + web.ask("GET", "/metrics").body.decode() + repr(c("JOB", 1))
    equal(server.stop(), 0, "exit code")
    said += server.log()
    data = b""
    for place, _, names in os.walk(server.data):
        for name in names:
            with open(os.path.join(place, name), "rb") as f:
                data += f.read()
    for secret in SECRETS.values():
        expect(secret.hex() not in said, "the secret was said")
        expect(secret not in data and secret.hex().encode() not in data, "it is on disk")
    expect("signature" in server.log(), "the log says nothing of the refused job")


main()
