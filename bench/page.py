"""The page: what its files weigh, and how soon a browser shows it.

The files are found as a browser finds them, from / on, and weighed as they are sent: gzipped.  The
first paint is measured by first_paint.mjs in Chromium, on this machine, against a weir with jobs.
"""

import json
import os
import re
import shutil
import subprocess

from peers import Broken, Missing

from listing_world import TESTS, harness, lib_many_jobs

VISITS = 9
NEW_BROWSERS = 3
JOBS = 20000        # canceled, and as many live ones
HERE = os.path.dirname(os.path.abspath(__file__))
CLIENT = os.path.join(TESTS, "browser", "node_modules", "playwright-core")
FILE = re.compile(rb"[\w-]+\.(?:css|js|svg)\b")


def weigh(server):
    """{address: bytes} of every file of the page, its headers aside."""
    sizes, plain = {}, {}
    with harness.Http(("127.0.0.1", server.http_port)) as web:
        wanted = ["/"]
        while wanted:
            address = wanted.pop()
            answer = web.ask("GET", address)
            if answer.status == 404:  # a comment speaks of a file that is not the page's
                sizes[address] = 0
                continue
            packed = web.ask("GET", address, headers=["Accept-Encoding: gzip"])
            if answer.status != 200 or packed.header("content-encoding") != "gzip":
                raise Broken(f"page: {address}: {answer}")
            sizes[address], plain[address] = len(packed.body), len(answer.body)
            found = {"/ui/" + name.decode() for name in FILE.findall(answer.body)}
            wanted += found - sizes.keys() - set(wanted)
    return {a: n for a, n in sizes.items() if n}, sum(plain.values())


def visits(server, n):
    for program in ("node", os.environ.get("CHROMIUM", "chromium")):
        if not shutil.which(program):
            raise Missing(f"{program} is not installed: tools/deps bench installs it")
    if not os.path.isdir(CLIENT):
        raise Missing("playwright-core is not installed: tools/deps bench installs it")
    done = subprocess.run(["node", os.path.join(HERE, "first_paint.mjs"),
                           f"http://127.0.0.1:{server.http_port}/", str(n), str(NEW_BROWSERS)],
                          capture_output=True, text=True, timeout=600, check=False)
    if done.returncode != 0:
        raise Broken(f"first_paint: {done.stderr.strip()[-1000:]}")
    return json.loads(done.stdout)


def measure(bench, contender):
    def keep(work, result):
        bench.samples.append({"contender": "weir", "work": work, "shape": [1, 1], "round": 0,
                              **result})

    with bench.server(contender) as server:
        sizes, plain = weigh(server)
        keep("page-weight", {"bytes": sum(sizes.values()), "plain_bytes": plain, "files": sizes})
        with harness.Resp(("127.0.0.1", server.port), 60) as c:
            lib_many_jobs.build(c, JOBS)
        keep("page-paint", visits(server, VISITS))
