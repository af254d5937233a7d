#!/usr/bin/python3
# weir-test: timeout=300
"""Real clients, each against a server of its own, without and with an access token.

    tests/integration/clients.py [redis_cli ioredis node_redis node_redis_resp3
                                  python_redis php_redis curl]

Each client's script prints its own lines; a client that is not installed is a failure, since a
test that did not run proves nothing.
"""
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "fault"))

from harness import Server  # noqa: E402

CLIENTS = {
    "redis_cli": ["bash", "redis_cli.sh"],
    "ioredis": ["node", "ioredis.js"],
    "node_redis": ["node", "node_redis.js", "2"],
    "node_redis_resp3": ["node", "node_redis.js", "3"],
    "python_redis": ["/usr/bin/python3", "python_redis.py"],
    "php_redis": ["php", "php_redis.php"],
    "curl": ["bash", "curl.sh"],
}


def run(name, token):
    command = list(CLIENTS[name])
    command[1] = os.path.join(HERE, "clients", command[1])
    with tempfile.TemporaryDirectory(prefix="weir-test.") as folder:
        server = Server(folder, token=token)
        env = {**os.environ, "WEIR_RESP": "%s:%d" % server.resp, "WEIR_HTTP": "%s:%d" % server.http}
        if token:
            env["WEIR_TOKEN"] = token
        try:
            done = subprocess.run(command, env=env, stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE, timeout=120, text=True)
            out, code = done.stdout, done.returncode
            trouble = done.stderr
        except (OSError, subprocess.TimeoutExpired) as error:
            out, code, trouble = "", 1, str(error)
        if token:
            out = out.replace("ok - ", "ok - with a token, ")
        sys.stdout.write(out)
        if code and "not ok" not in out:
            print("not ok - %s: ended with %s: %s" % (name, code, trouble.strip()[-300:]))
        if "ok - " not in out and not code:
            print("not ok - %s: printed nothing" % name)
            code = 1
        ended = server.stop()
        if ended:
            print("not ok - %s: weir ended with %s" % (name, ended))
        sys.stdout.flush()
        return bool(code or ended)


def main():
    names = sys.argv[1:] or list(CLIENTS)
    failed = [name for name in names for token in (None, "secret-%s-0123456789" % name)
              if run(name, token)]
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
