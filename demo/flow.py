"""The shop's jobs: who enqueues them, who runs them, and what weir says about them.

Everything goes through weir's HTTP door with nothing but Python's own library.  The jobs of all
tiers share one queue and one priority, as in Action Scheduler: what lets payments through is the
gate alone.
"""
import http.client
import json
import os
import re
import select
import signal
import subprocess
import threading
import time
import urllib.parse

from shop import ORDERS, Connection, die_with_parent

QUEUE = "shop"
# Tier, hook, for people.  The hooks are of the tiers that weir gives them by itself.
TIERS = (
    ("critical", "woocommerce_payment_webhook", "payments"),
    ("high", "woocommerce_scheduled_subscription_payment", "subscriptions"),
    ("normal", "woocommerce_run_update", "updates"),
    ("deferrable", "klaviyo_sync", "syncs"),
)
TIER_OF = {hook: tier for tier, hook, _ in TIERS}
# How long a job talks to others than the database: a payment provider, a newsletter service.  Long
# enough that payments run beside each other, and meet the caps of the level.
CALL_S = {"critical": 0.15, "high": 0.05, "normal": 0.02, "deferrable": 0.05}
READY_S = 30
CLAIM_WAIT_MS = 2000    # a worker asks again after that; it decides how soon workers can end


class WeirError(Exception):
    """weir did not start, or refused."""


# ---------------------------------------------------------------- weir


class Api:
    """One connection, for one thread at a time."""

    def __init__(self, address):
        host, port = address.rsplit(":", 1)
        self.http = http.client.HTTPConnection(host, int(port), timeout=30)

    def __call__(self, method, path, **body):
        payload = json.dumps(body) if body else None
        self.http.request(method, path, payload, {"Content-Type": "application/json"})
        answer = self.http.getresponse()
        text = answer.read()
        if answer.status >= 300:
            raise WeirError("%s %s: %s" % (method, path, text.decode(errors="replace").strip()))
        return json.loads(text) if text else None

    def close(self):
        self.http.close()

    def throttle(self):
        return self("GET", "/v1/throttle")

    def history(self, count=500):
        return self("GET", "/v1/throttle/history?count=%d" % count)["events"]

    def events(self, job):
        return self("GET", "/v1/jobs/%d/events" % job)["events"]

    def jobs(self, **where):
        """All jobs of a kind, live and finished."""
        cursor, found = "", []
        while True:
            query = dict(where, limit=1000, **({"cursor": cursor} if cursor else {}))
            page = self("GET", "/v1/jobs?" + urllib.parse.urlencode(query))
            found += page["jobs"]
            cursor = page["cursor"]
            if not cursor:
                return found


class Weir:
    """`weir serve` with the settings of the demo, on ports of its own choosing."""

    def __init__(self, program, folder, config):
        path = os.path.join(folder, "weir.conf")
        with open(path, "w") as f:
            f.write(config)
        self.log_path = os.path.join(folder, "weir.log")
        self.log = open(self.log_path, "ab")
        self.process = subprocess.Popen(
            [program, "serve", "-c", path, "--data", os.path.join(folder, "weir"),
             "--http", "127.0.0.1:0", "--resp", "127.0.0.1:0"],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=self.log,
            preexec_fn=die_with_parent, start_new_session=True)
        try:
            self.http, self.resp = self._wait()
        except BaseException:
            self.stop()
            raise

    def _wait(self):
        deadline, text = time.monotonic() + READY_S, b""
        out = self.process.stdout.fileno()
        while True:
            if select.select([out], [], [], max(0, deadline - time.monotonic()))[0]:
                chunk = os.read(out, 4096)
                text += chunk
                found = re.search(rb"^ready http=(\S+) resp=(\S+).*\n", text, re.M)
                if found:
                    return found.group(1).decode(), found.group(2).decode()
                if chunk:
                    continue
            raise WeirError("weir did not start: " + self.last_words())

    def last_words(self):
        with open(self.log_path, errors="replace") as f:
            return f.read()[-600:]

    def stop(self):
        """Its exit code."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(15)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.process.stdout.close()
        self.log.close()
        return self.process.returncode


# ---------------------------------------------------------------- the jobs


class Flow:
    """Enqueues jobs of each tier at its rate, and runs them with some workers."""

    def __init__(self, weir, database, rates, workers):
        self.weir, self.database, self.rates = weir, database, rates
        self.ids = {tier: [] for tier, _, _ in TIERS}
        self.starts = []            # (monotonic, tier), in order
        self.n_done = 0
        self.error = None           # the first that a thread met
        self.is_closed = threading.Event()      # no new jobs
        self.is_over = threading.Event()        # no workers
        self.lock = threading.Lock()
        self.threads = [threading.Thread(target=self._guard, args=(self._produce, tier, hook))
                        for tier, hook, _ in TIERS]
        self.threads += [threading.Thread(target=self._guard, args=(self._work, i))
                         for i in range(workers)]
        for thread in self.threads:
            thread.daemon = True
            thread.start()

    def _guard(self, function, *args):
        try:
            function(*args)
        except Exception as error:  # told by check(), in the main thread
            if not self.is_over.is_set():
                self.error = self.error or error

    def check(self):
        if self.error:
            raise self.error

    def _produce(self, tier, hook):
        api, rate, begin, n = Api(self.weir.http), self.rates[tier], time.monotonic(), 0
        while not self.is_closed.wait(max(0, begin + n / rate - time.monotonic())):
            job = api("POST", "/v1/jobs", hook=hook, args={"order": n % ORDERS + 1}, queue=QUEUE)
            self.ids[tier].append(job["id"])
            n += 1
        api.close()

    def _work(self, number):
        api, connection = Api(self.weir.http), Connection(self.database.socket)
        while not self.is_over.is_set():
            claimed = api("POST", "/v1/claims", worker="shop-%d" % number, wait=CLAIM_WAIT_MS,
                          queues=[QUEUE])
            for job in claimed["jobs"]:
                self._run(api, connection, job)
        connection.close()
        api.close()

    def _run(self, api, connection, job):
        tier, order = TIER_OF[job["hook"]], job["args"]["order"]
        with self.lock:
            self.starts.append((time.monotonic(), tier))
        connection.query("SELECT note FROM orders WHERE id = %d" % order)
        self.is_over.wait(CALL_S[tier])
        connection.query("UPDATE orders SET touched = touched + 1 WHERE id = %d" % order)
        api("POST", "/v1/jobs/%d/complete" % job["id"], token=job["token"])
        with self.lock:
            self.n_done += 1

    def close(self):
        """No new jobs; the workers go on."""
        self.is_closed.set()
        for thread in self.threads[:len(TIERS)]:
            thread.join()

    def n_made(self):
        return sum(len(ids) for ids in self.ids.values())

    def end(self):
        self.is_closed.set()
        self.is_over.set()
        for thread in self.threads:
            thread.join(READY_S)
