#!/usr/bin/python3
# weir-test: timeout=300 long
"""Real clients, each against a server of its own: without a token, and with a token over TLS with a
certificate of the client.

    tests/integration/clients.py [redis_cli ioredis node_redis node_redis_resp3
                                  python_redis php_redis curl]

Each client's script prints its own lines; a client that is not installed is a failure, since a
test that did not run proves nothing.
"""
import concurrent.futures
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "fault"))

from harness import Server, weir  # noqa: E402

CLIENTS = {
    "redis_cli": ["bash", "redis_cli.sh"],
    "ioredis": ["node", "ioredis.js"],
    "node_redis": ["node", "node_redis.js", "2"],
    "node_redis_resp3": ["node", "node_redis.js", "3"],
    "python_redis": ["/usr/bin/python3", "python_redis.py"],
    "php_redis": ["php", "php_redis.php"],
    "curl": ["bash", "curl.sh"],
}


def tls_config(folder):
    done = weir("tls", "self-signed", "--dir", folder + "/tls")
    if done.returncode:
        raise AssertionError(done.stderr)
    return """resp_tls = {"127.0.0.1:0"}
http_tls = {"127.0.0.1:0"}
tls { cert = "%s/tls/server.crt" key = "%s/tls/server.key" ca = "%s/tls/ca.crt" verify_client = "require" }
""" % (folder, folder, folder)


def run(name, token):
    """The lines it prints."""
    command = list(CLIENTS[name])
    command[1] = os.path.join(HERE, "clients", command[1])
    with tempfile.TemporaryDirectory(prefix="weir-test.") as folder:
        server = Server(folder, token=token, config=token and tls_config(folder))
        resp, http = (server.resp_tls, server.http_tls) if token else (server.resp, server.http)
        env = {**os.environ, "WEIR_RESP": "%s:%d" % resp, "WEIR_HTTP": "%s:%d" % http}
        if token:
            env["WEIR_TOKEN"], env["WEIR_TLS"] = token, folder + "/tls"
        try:
            done = subprocess.run(command, env=env, stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE, timeout=280, text=True)
            out, code = done.stdout, done.returncode
            trouble = done.stderr
        except (OSError, subprocess.TimeoutExpired) as error:
            out, code, trouble = "", 1, str(error)
        if token:
            out = out.replace("ok - ", "ok - with a token over TLS, ")
        if code and "not ok" not in out:
            out += "not ok - %s: ended with %s: %s\n" % (name, code, trouble.strip()[-300:])
        if "ok - " not in out and not code:
            out += "not ok - %s: printed nothing\n" % name
        ended = server.stop()
        if ended:
            out += "not ok - %s: weir ended with %s\n" % (name, ended)
        return out


def main():
    runs = [(name, token) for name in sys.argv[1:] or CLIENTS
            for token in (None, "secret-%s-0123456789" % name)]
    failed = 0
    # Several at a time, since most of it is waiting for jobs to become due.
    with concurrent.futures.ThreadPoolExecutor(5) as pool:
        for out in pool.map(lambda r: run(*r), runs):
            print(out, end="", flush=True)
            failed += "not ok" in out
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
