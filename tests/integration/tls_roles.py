#!/usr/bin/python3
# weir-test: timeout=240
"""Each client library over TLS, once with a role's token and once with a certificate that stands
for one: what the role allows is done, and what it does not allow gets an error that names the role.
"""
import json
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "fault"))

from harness import ROOT, Server, equal, expect, main, test, weir  # noqa: E402

SECRET = "the-secret-of-ci-0123456789"
MODULES = os.path.join(ROOT, "tests", "integration", "node", "node_modules")

# Each tries to add a job and to list the jobs, and prints both answers.
PYTHON = """
import os, redis
e = os.environ
r = redis.Redis(e["HOST"], int(e["PORT"]), username=e.get("USER_") or None,
                password=e.get("SECRET") or None, ssl=True, ssl_ca_certs=e["TLS"] + "/ca.crt",
                ssl_certfile=e["TLS"] + "/client.crt", ssl_keyfile=e["TLS"] + "/client.key")
for words in (("ENQUEUE", "h", "{}", "QUEUE", "build-1"), ("JOBS",)):
    try:
        print(r.execute_command(*words))
    except redis.ResponseError as error:
        print(error)
"""
NODE = """
const fs = require('fs');
const e = process.env;
const files = {ca: fs.readFileSync(e.TLS + '/ca.crt'), cert: fs.readFileSync(e.TLS + '/client.crt'),
               key: fs.readFileSync(e.TLS + '/client.key')};
const words = [['ENQUEUE', 'h', '{}', 'QUEUE', 'build-1'], ['JOBS']];
async function main(call, close) {
  for (const w of words) {
    try { console.log(await call(w)); } catch (error) { console.log(error.message); }
  }
  close();
}
"""
IOREDIS = NODE + """
const Redis = require(e.MODULES + '/ioredis');
const r = new Redis({host: e.HOST, port: +e.PORT, username: e.USER_ || undefined,
                     password: e.SECRET || undefined, tls: files});
main((w) => r.call(...w), () => r.disconnect());
"""
NODE_REDIS = NODE + """
const { createClient } = require(e.MODULES + '/redis');
const r = createClient({username: e.USER_ || undefined, password: e.SECRET || undefined,
                        socket: {host: e.HOST, port: +e.PORT, tls: true, ...files}});
r.on('error', () => {});
r.connect().then(() => main((w) => r.sendCommand(w), () => r.destroy()));
"""
PHP = """
$tls = getenv('TLS');
$r = new Redis();
$r->connect('tls://' . getenv('HOST'), (int) getenv('PORT'), 30.0, null, 0, 30.0, ['stream' => [
    'cafile' => "$tls/ca.crt", 'local_cert' => "$tls/client.crt", 'local_pk' => "$tls/client.key"]]);
if (getenv('SECRET')) { $r->auth([getenv('USER_'), getenv('SECRET')]); }
foreach ([['ENQUEUE', 'h', '{}', 'QUEUE', 'build-1'], ['JOBS']] as $words) {
    try {
        echo $r->rawCommand(...$words), "\\n";
    } catch (RedisException $e) {
        echo $e->getMessage(), "\\n";
    }
}
"""
FILES = '--cacert "$TLS/ca.crt" --cert "$TLS/client.crt" --key "$TLS/client.key"'
CLI = """
for words in 'ENQUEUE h {} QUEUE build-1' JOBS; do
        redis-cli --no-auth-warning --tls %s -h "$HOST" -p "$PORT" ${SECRET:+--user "$USER_" -a "$SECRET"} $words
done
""" % FILES
CURL = """
ask() { curl -s %s ${SECRET:+-u "$USER_:$SECRET"} "$@" "https://$HOST:$WEB/v1/jobs"; echo; }
ask --json '{"hook":"h","args":{},"queue":"build-1"}'
ask
""" % FILES
CLIENTS = (("redis-cli", ["bash", "-c", CLI]), ("python3-redis", ["/usr/bin/python3", "-c", PYTHON]),
           ("ioredis", ["node", "-e", IOREDIS]), ("node-redis", ["node", "-e", NODE_REDIS]),
           ("php-redis", ["php", "-r", PHP]), ("curl", ["bash", "-c", CURL]))


def check_client(name, command, server, tls, secret):
    env = {**os.environ, "HOST": "localhost", "PORT": str(server.resp_tls[1]),
           "WEB": str(server.http_tls[1]), "TLS": tls, "MODULES": MODULES,
           "USER_": "ci" if secret else "", "SECRET": secret}
    done = subprocess.run(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          timeout=90, text=True)
    lines = [line for line in done.stdout.splitlines() if line.strip()]
    equal(len(lines), 2, "%s printed %r" % (name, done.stdout))
    added = json.loads(lines[0])["id"] if name == "curl" else int(lines[0])
    expect(added > 0, lines[0])
    wanted = "JOBS needs the role reader; the token '%s' has producer" % ("ci" if secret else "box")
    expect(wanted in lines[1], "%s: %s" % (name, lines[1]))


@test("every client adds a job with a role's token and with a certificate, and is told what it lacks")
def _(folder):
    tls = os.path.join(folder, "tls")
    done = weir("tls", "self-signed", "--dir", tls)
    equal(done.returncode, 0, done.stderr)
    path = os.path.join(folder, "ci")
    with open(path, "w") as f:
        f.write(SECRET + "\n")
    os.chmod(path, 0o600)
    server = Server(folder, config="""
resp_tls = {"127.0.0.1:0"}
http_tls = {"127.0.0.1:0"}
tls { cert = "%s/server.crt" key = "%s/server.key" ca = "%s/ca.crt" verify_client = "require" }
token "ci" { role = {"producer"} queues = {"build-*"} secret_file = "%s" }
token "box" { role = {"producer"} queues = {"build-*"} certificate = "weir-client" }
""" % (tls, tls, tls, path))
    for name, command in CLIENTS:
        for secret in (SECRET, ""):
            check_client(name, command, server, tls, secret)
    equal(server.stop(), 0)


if __name__ == "__main__":
    main()
