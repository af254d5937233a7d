#!/usr/bin/python3
# weir-test: bin=release
"""docs/security.md: each promise names a test that exists, and the promises about files and secrets
that no other test shows are shown here."""
import os
import re
import subprocess
import sys

sys.dont_write_bytecode = True

from lib_pages import ROOT, read_page  # noqa: E402
from harness import Http, Server, equal, expect, main, mapping, test, text, weir  # noqa: E402

SECRET = "weir-test-secret-of-the-file-6b1f0d"
OTHER = "weir-test-secret-of-a-section-93ac2e"


def promises():
    """(promise, file, sentence) of each row in "What is promised"."""
    part = read_page("security.md").split("\n## What is promised\n", 1)[1].split("\n## ", 1)[0]
    rows = [r for r in re.findall(r"^\| (.*) \|$", part, re.M) if not r.startswith("promise |")]
    found = [re.fullmatch(r"(.+) \| `(tests/[\w/.]+)`: (.+)", row) for row in rows]
    equal([row for row, match in zip(rows, found) if not match], [], "rows without a test")
    return [match.groups() for match in found]


def sentences(path):
    """Names of the tests of a file: of Python and bats in words, of C as its functions."""
    with open(os.path.join(ROOT, path), encoding="utf-8") as f:
        source = f.read()
    if path.endswith(".c"):
        return re.findall(r"cmocka_unit_test\(\s*(\w+)\s*\)", source)
    return re.findall(r'^@test\(?\s*"(.*?)"\)?(?: \{)?$', source, re.M)


@test("every promise names a test file and a test that exist")
def _(folder):
    rows = promises()
    expect(len(rows) >= 30, "%d promises" % len(rows))
    for promise, path, sentence in rows:
        expect(os.path.isfile(os.path.join(ROOT, path)), "%s: there is no %s" % (promise, path))
        expect(sentence in sentences(path), "%s: %s has no test '%s'" % (promise, path, sentence))


def write(folder, name, content, mode=0o600):
    path = os.path.join(folder, name)
    with open(path, "w", encoding="utf-8") as f:
        f.write(content)
    os.chmod(path, mode)
    return path


def modes(top):
    """{path: mode} of a folder and all in it."""
    found = {top: os.stat(top).st_mode & 0o777}
    for where, folders, files in os.walk(top):
        for name in folders + files:
            found[os.path.join(where, name)] = os.stat(os.path.join(where, name)).st_mode & 0o777
    return found


def finish_one(client):
    client("ENQUEUE", "mail", '{"to":7}')
    [(job, token, *_)] = client("CLAIM", "w", "QUEUES", "default")
    equal(client("COMPLETE", job, token, "sent"), "OK")


@test("the data folder and a backup are for their owner alone, whatever the umask")
def _(folder):
    before = os.umask(0)
    try:
        server = Server(folder)
        with server.client() as c:
            finish_one(c)
        backup = os.path.join(folder, "backup")
        done = weir("backup", backup, "--data", server.data)
        equal((done.returncode, done.stderr), (0, ""), "exit code of the backup")
        equal(server.stop(), 0)
    finally:
        os.umask(before)
    for top in (server.data, backup):
        found = modes(top)
        expect(any(p.endswith("history.db") for p in found), "no history in %s" % top)
        equal({p: oct(m) for p, m in found.items() if m & 0o077}, {}, "open to others")


@test("a token file or a key that others may read stops the start")
def _(folder):
    def refused(*args, names):
        done = weir("serve", "--data", os.path.join(folder, "data"), "--resp", "127.0.0.1:0",
                    "--http", "127.0.0.1:0", *args)
        expect(done.returncode not in (0, None), "it started")
        expect(names in done.stderr, "%s is not named: %s" % (names, done.stderr))
        expect(SECRET not in done.stderr + done.stdout, "the secret is shown")
    path = write(folder, "token", SECRET + "\n", 0o604)
    refused("--token-file", path, names=path)
    conf = write(folder, "weir.conf", 'token "ci" { role = {"producer"} secret_file = "%s" }\n' % path)
    refused("-c", conf, names=path)
    tls = os.path.join(folder, "tls")
    done = weir("tls", "self-signed", "--dir", tls, "--name", "localhost")
    equal(done.returncode, 0, done.stderr)
    os.chmod(os.path.join(tls, "server.key"), 0o644)
    conf = write(folder, "weir.conf", 'resp_tls = {"127.0.0.1:0"}\ntls { cert = "%s/server.crt" '
                 'key = "%s/server.key" }\n' % (tls, tls))
    refused("-c", conf, names="server.key")
    os.chmod(os.path.join(tls, "server.key"), 0o600)
    equal(Server(folder, "--log-level", "info", config=open(conf, encoding="utf-8").read()).stop(), 0,
          "exit code with files that are in order")


def told(server, secret):
    """All that the server and the command line tell to an admin."""
    url = "redis://127.0.0.1:%d" % server.resp[1]
    env = {**os.environ, "WEIR_URL": url, "WEIR_TOKEN": secret}
    with server.client() as c:
        equal(c("AUTH", secret), "OK")
        yield text(c("INFO"))
        yield repr(c("TOKENS"))
        yield repr(c("CLIENT", "LIST"))
        yield repr(c("SETTINGS"))
    with Http(server.http, token=secret) as web:
        for path in ("/metrics", "/v1/tokens", "/v1/settings", "/v1/now", "/v1/session"):
            answer = web.ask("GET", path)
            equal(answer.status, 200, path)
            yield answer.body.decode()
    for words in (("export",), ("token", "list"), ("config", "show"),
                  ("doctor", "-c", os.path.join(server.folder, "weir.conf"))):
        done = subprocess.run([os.path.join(server.folder, "weir"), *words], env=env, text=True,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=60, check=False)
        expect(done.stdout, "no output of " + words[0])
        yield done.stdout


def holds(top, secrets):
    """Files below a folder that hold one of the secrets."""
    found = []
    for where, _, files in os.walk(top):
        for name in files:
            with open(os.path.join(where, name), "rb") as f:
                content = f.read()
            found += [name for secret in secrets if secret.encode() in content]
    return found


@test("secrets of tokens are nowhere but in their own files")
def _(folder):
    from harness import WEIR
    os.symlink(os.path.abspath(WEIR), os.path.join(folder, "weir"))
    section = write(folder, "section.token", OTHER + "\n")
    server = Server(folder, "--log-level", "debug", token=SECRET, config=(
        'token "ci" { role = {"producer"} secret_file = "%s" }\n' % section))
    with server.client() as c:
        equal(c("AUTH", SECRET), "OK")
        added = text(mapping(c("TOKENADD", "boss", "admin"))["secret"])
        turned = text(mapping(c("TOKENROTATE", "boss"))["secret"])
        finish_one(c)
    with server.client() as c:
        c.refused("AUTH", "ci", added, name="BADTOKEN")
        equal(c("AUTH", "ci", OTHER), "OK")
    secrets = [SECRET, OTHER, added, turned]
    for output in told(server, SECRET):
        equal([s for s in secrets if s in output], [], "secrets in " + output[:60])
    backup = os.path.join(folder, "backup")
    equal(weir("backup", backup, "--data", server.data).returncode, 0, "exit code of the backup")
    equal(server.stop(), 0)
    dump = weir("log", "dump", server.data).stdout
    expect("boss" in dump, "the token is not in the dump")
    equal([s for s in secrets if s in dump + server.log()], [], "secrets in the dump and the log")
    equal(holds(server.data, secrets) + holds(backup, secrets), [], "files with a secret")


main()
