#!/usr/bin/python3
# weir-test: timeout=120
"""The settings of the MySQL proxy as people meet them: what `weir serve -t`, `weir config check`,
`show` and `diff` and a reload say of mysql and class sections, right and wrong.

    tests/integration/mysql_settings.py [word...]
"""
import json
import os
import signal
import socket
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.dont_write_bytecode = True
sys.path.insert(0, HERE)
sys.path.insert(0, os.path.join(HERE, "..", "fault"))

from lib_databases import Maria, free_port  # noqa: E402
from harness import Server, equal, expect, main, mapping, test, text, until, weir  # noqa: E402

DOOR = 'mysql "shop" {\n        listen = {%s}\n%s}\n'
CLASS = 'class "%s" {\n%s}\n'


def lines(*settings):
    return "".join("        %s\n" % s for s in settings)


def write(folder, body):
    path = os.path.join(folder, "weir.conf")
    with open(path, "w") as f:
        f.write(body)
    return path


@test("a file with a wrong door or class is refused with its line, whoever reads it")
def wrong(folder):
    cases = (
        (DOOR % ("", ""), 2, "listen is missing"),
        (DOOR % ('":3307", "localhost:3307"', ""), 2, "an address may be there once"),
        (DOOR % ('":3307"', lines('target = "db"')), 3, "target 'db' is not in this file; it has no target"),
        (DOOR % ('":3307"', lines('tls = "terminate"')), 3, "tls terminate needs tls_cert and tls_key"),
        (DOOR % ('":3307"', lines('server = "db:port"')), 3, "server takes"),
        (DOOR % ('":3307"', lines('proxy_protocol_from = {"10.0.0.0/40"}')), 3, "not '10.0.0.0/40'"),
        (DOOR % ('":3307"', lines('wait = "90s"')), 3, "wait must be 0s to 1m, not '90s'"),
        (CLASS % ("etl", ""), 1, "nothing says which transactions it is for"),
        (CLASS % ("etl", lines('user = "e"', 'identity = "a b"')), 3, "identity:"),
        (CLASS % ("etl", lines('user = "e"', "error = 1146")), 3, "error must be 1213, 1205"),
        (CLASS % ("etl", lines('user = "e"', 'mysql = "shop"')), 3, "it has no mysql section"),
        (CLASS % ("etl", lines('address = "10.0.0.0/64"')), 2, "address '10.0.0.0/64' is no network"),
    )
    for body, line, told in cases:
        path = write(folder, body)
        for words in (("serve", "-t", "-c", path), ("config", "check", path)):
            found = weir(*words)
            equal(found.returncode, 2, "exit code of %s for\n%s" % (words[0], body))
            expect("%s:%d: " % (path, line) in found.stderr and told in found.stderr,
                   "%r is not in %r" % (told, found.stderr))
    path = write(folder, DOOR % ('"0.0.0.0:3307", "/run/weir/shop.sock"', lines("mode = enforce")))
    found = weir("serve", "-t", "-c", path)
    equal((found.returncode, found.stdout), (0, "settings are fine\n"), "a good file")


@test("config show, diff and a reload tell what changed in doors and classes, and what waits for a restart")
def told(folder):
    good = DOOR % ('"127.0.0.1:0"', lines('mode = "observe"')) + \
        CLASS % ("etl", lines('user = "etl*"', 'tier = "deferrable"', "rate = 0.5"))
    path = write(folder, good)
    server = Server(folder, "-c", path)
    url = "weir://%s:%d" % server.resp

    def cli(*words):
        return weir("config", *words, "--url", url)

    shown = cli("show").stdout
    for part in ('mysql "shop" {', 'listen = {"127.0.0.1:0"}', 'class "etl" {', 'user = "etl*"',
                 'tier = "deferrable"', "rate = 0.5"):
        expect(part in shown, "%r is not in %s" % (part, shown))
    expect("wait" not in shown and 'wait = "2s"' in cli("show", "--defaults").stdout, shown)
    write(folder, "mysql_threads = 2\n" +
          DOOR % ('"127.0.0.1:0"', lines('mode = "enforce"', 'wait = "1s"')) +
          CLASS % ("etl", lines('user = "etl*"', "rate = 2.5", 'time_budget = "200ms"')) +
          CLASS % ("web", lines('program = "php*"', 'tier = "high"')))
    changed = ["class.etl.rate: 0.5 -> 2.5",
               'class.etl.tier: "deferrable" removed',
               'class.etl.time_budget: "0s" -> "200ms"',
               "class.web: added",
               'mysql.shop.mode: "observe" -> "enforce"',
               'mysql.shop.wait: "2s" -> "1s"']
    equal(cli("diff", path).stdout.splitlines(),
          changed + ["mysql_threads: 0 -> 2  (needs a restart)"], "diff")
    with server.client() as c:
        answer = {k: [text(x) for x in v] for k, v in mapping(c("CONFIGRELOAD")).items()}
        equal(answer, {"changed": changed, "needs_restart": ["mysql_threads"]}, "reload")
        write(folder, DOOR % ('"nonsense"', ""))
        c.refused("CONFIGRELOAD", name="BADARG", mentions=[path + ":2: mysql \"shop\": listen"])
    server.process.send_signal(signal.SIGHUP)
    until(lambda: server.log().count("the old one holds") == 2, what="two refusals in the log")
    expect('wait = "1s"' in cli("show").stdout, "the old configuration does not hold")
    equal(server.stop(10), 0, "exit code")


@test("the ready line names all addresses of all doors; one that is taken is named, and weir does not start")
def addresses(folder):
    taken = socket.create_server(("127.0.0.1", 0))
    path = os.path.join(folder, "m")
    door = 'mysql "%s" { listen = {%s} server = "127.0.0.1:%d" }\n'
    conf = write(folder, door % ("a", '"127.0.0.1:0", "%s"' % path, free_port()) +
                 door % ("b", '"localhost:0"', free_port()))
    server = Server(folder, "-c", conf)  # no server is there, which is the clients' trouble
    ready = server.ready.split()
    equal([w.partition("=")[0] for w in ready], ["ready", "http", "resp", "mysql"], "words")
    equal([a if a == path else a.rpartition(":")[0] for a in ready[3][6:].split(",")],
          ["127.0.0.1", path, "127.0.0.1"], "addresses")
    equal(server.stop(10), 0, "exit code")
    expect(not os.path.exists(path), "the unix socket was left behind")
    where = "127.0.0.1:%d" % taken.getsockname()[1]
    write(folder, door % ("a", '":0", "%s"' % where, free_port()))
    found = weir("serve", "-c", conf, "--data", os.path.join(folder, "data"), "--resp", "127.0.0.1:0",
                 "--http", "127.0.0.1:0")
    expect(found.returncode != 0 and "mysql: cannot listen on " + where in found.stderr, found.stderr)
    taken.close()


@test("the doctor tells which servers of the doors answer as MySQL servers do")
def doctor(folder):
    db = Maria("db")
    silent = socket.create_server(("127.0.0.1", 0))  # it listens and never greets
    door = 'mysql "%s" { listen = {":0"} server = "%s" connect_timeout = "100ms" }\n'
    path = write(folder, 'data = "%s"\n' % os.path.join(folder, "data") +
                 door % ("tcp", "127.0.0.1:%d" % db.port) + door % ("path", db.socket) +
                 door % ("silent", "127.0.0.1:%d" % silent.getsockname()[1]) +
                 door % ("away", "127.0.0.1:%d" % free_port()) + door % ("gone", "/no/such/s"))
    found = json.loads(weir("doctor", "-c", path, "--json").stdout)
    told = [(c["verdict"], c["text"]) for c in found["checks"] if c["name"] == "mysql"]
    equal([v for v, _ in told], ["ok", "ok", "bad", "bad", "bad"], "verdicts")
    for (_, said), part in zip(told, ("answers, version", "path: the server " + db.socket, "does not greet",
                                      "is away: Connection refused", "is away: No such file")):
        expect(part in said, "%r is not in %r" % (part, said))
    silent.close()
    db.kill()


if __name__ == "__main__":
    main()
