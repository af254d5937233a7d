"""The story of demo/door: a checkout, and reports without a warning.

    reports.py SOCKET CLIENTS ROWS      the reports: so many clients, until the standard input ends

The reports are a process of their own.  It prints a line for each report that is done.
"""
import dataclasses
import json
import os
import subprocess
import sys
import threading
import time

from flow import Api, Weir
from shop import ORDERS, REPORT_USER, Connection, DatabaseError, MariaDB, die_with_parent

CALM, DIRECT, DOOR = "calm", "direct", "door"
REPORT_S = 0.5          # of a processor, for one report
WAIT_S = 2              # of the door
LEARN_S = 630           # a class is learned after ten minutes
TICK_S = 0.05
CONFIG = """target "shop" { kind = "mysql" socket = "%(socket)s" user = "shop" }
mysql "shop" {
        listen = {"%(door)s"} server = "%(socket)s" target = "shop" mode = "enforce"
}
class "reports" { user = "report" tier = "deferrable" }
"""


@dataclasses.dataclass(frozen=True)
class Plan:
    """Times are seconds."""
    look: float = 20        # at the calm, to tell weir what is usual
    calm: float = 15
    direct: float = 20
    door: float = 60
    rate: int = 100         # checkouts a second
    tills: int = 16         # connections of the checkout
    clients: int = 48       # connections of the reports


QUICK = Plan(look=6, calm=5, direct=8, door=12)


@dataclasses.dataclass
class Act:
    """What became of the checkouts that were due in it."""
    took_ms: list = dataclasses.field(default_factory=list)
    due: int = 0
    refused: int = 0
    reports: int = 0

    def p(self, share):
        values = sorted(self.took_ms)
        return values[min(len(values) - 1, int(share * len(values)))] if values else float("inf")

    def served(self):
        """Those that were done when the act ended."""
        return len(self.took_ms) / max(1, self.due)


def head():
    return "%-7s %6s  %10s %6s %8s %8s  %9s  %9s %8s %8s  %s" % (
        "act", "second", "checkouts", "late", "p50 ms", "p99 ms", "reports", "window", "waiting",
        "running", "load")


# ---------------------------------------------------------------- the checkout


class Checkout:
    """Short transactions that are due at fixed times, whatever became of those before."""

    SQL = ("BEGIN", "SELECT note FROM orders WHERE id = %d",
           "UPDATE orders SET touched = touched + 1 WHERE id = %d", "COMMIT")

    def __init__(self, socket, plan, act):
        self.socket, self.plan, self.act = socket, plan, act
        self.begin, self.n = time.monotonic() + 0.5, 0
        self.lock, self.over = threading.Lock(), threading.Event()
        self.error = None
        self.threads = [threading.Thread(target=self._guard, daemon=True) for _ in range(plan.tills)]
        for thread in self.threads:
            thread.start()

    def _guard(self):
        try:
            self._serve(Connection(self.socket))
        except DatabaseError as error:
            self.error = self.error or error

    def _serve(self, connection):
        while True:
            with self.lock:
                number, self.n = self.n, self.n + 1
            due = self.begin + number / self.plan.rate
            if self.over.wait(max(0, due - time.monotonic())):
                break
            self._sell(connection, number)
            with self.lock:
                self.act.took_ms.append((time.monotonic() - due) * 1e3)
        connection.close()

    def _sell(self, connection, number):
        order = 1 + number * 7919 % ORDERS
        while True:
            try:
                for sql in self.SQL:
                    connection.query(sql % order if "%" in sql else sql)
                return
            except DatabaseError as error:
                if "restart transaction" not in str(error):
                    raise
                self.act.refused += 1

    def late(self):
        """How many are due and not done."""
        due = int(max(0, time.monotonic() - self.begin) * self.plan.rate)
        return max(0, due - len(self.act.took_ms))

    def end(self):
        self.act.due = len(self.act.took_ms) + self.late()
        self.over.set()


# ---------------------------------------------------------------- the reports


def report_sql(rows):
    return "SELECT COUNT(*) FROM orders a JOIN orders b ON a.note > b.note WHERE a.id <= %d" % rows


class Reports:
    """Clients that send one report after the other, and again at once when it is refused."""

    def __init__(self, socket, clients, rows):
        self.process = subprocess.Popen(
            [sys.executable, os.path.abspath(__file__), socket, str(clients), str(rows)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, preexec_fn=die_with_parent,
            start_new_session=True)
        self.n_done = 0
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self):
        for _ in self.process.stdout:
            self.n_done += 1

    def end(self):
        if self.process.poll() is None:
            self.process.kill()     # the server ends its statements when it finds the client gone
            self.process.wait()
        self.reader.join()
        self.process.stdin.close()
        self.process.stdout.close()


def send_reports(socket, sql, is_over):
    connection = Connection(socket, REPORT_USER)
    while not is_over.is_set():
        try:
            connection.query(sql)
        except DatabaseError:
            continue
        os.write(1, b".\n")
    connection.close()


# ---------------------------------------------------------------- the play


class Play:
    """`with Play(...) as play`: learn(), then act() by act; ends what it started."""

    def __init__(self, program, folder, plan, tell):
        self.program, self.folder, self.plan, self.tell = program, folder, plan, tell
        self.door = os.path.join(folder, "door.sock")
        self.database = self.weir = self.checkout = self.reports = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.reports:
            self.reports.end()
        if self.checkout:
            self.checkout.end()
        if self.weir:
            self.weir.stop()
        if self.database:
            self.database.stop()

    def _start(self):
        self.weir = Weir(self.program, self.folder,
                         CONFIG % {"socket": self.database.socket, "door": self.door})
        self.api, self.address = Api(self.weir.http), self.weir.http

    def learn(self, is_whole):
        """The calm, through a door that knows nothing yet."""
        self.database = MariaDB(self.folder)
        root = Connection(self.database.socket)
        self.rows = rows_of_report(root)
        root.close()
        self._start()
        seconds = LEARN_S if is_whole else self.plan.look
        self.tell("%d s of calm teach weir what is usual" % seconds)
        act, seen = Act(), []
        self.checkout = Checkout(self.door, self.plan, act)
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            time.sleep(TICK_S)
            seen.append(self._door()["executing"])
        self._end_clients(act)
        if is_whole:
            return
        self.weir.stop()
        pretend(os.path.join(self.folder, "weir", "learned.shop"), sorted(seen)[len(seen) * 99 // 100])
        self._start()

    def _door(self):
        return self.api("GET", "/v1/proxies")["proxies"][0]

    def act(self, name):
        plan, act = self.plan, Act()
        socket = self.database.socket if name == DIRECT else self.door
        self.checkout = Checkout(socket, plan, act)
        if name != CALM:
            self.reports = Reports(socket, plan.clients, self.rows)
        begin = time.monotonic()
        n_seen = n_reports = 0
        for second in range(1, int(getattr(plan, name)) + 1):
            time.sleep(max(0, begin + second - time.monotonic()))
            fresh = Act(act.took_ms[n_seen:])
            n_seen += len(fresh.took_ms)
            done = self.reports.n_done if self.reports else 0
            self._line(name, second, fresh, done - n_reports)
            n_reports = done
            if self.checkout.error:
                raise self.checkout.error
        act.reports = n_reports
        self._end_clients(act)
        return act

    def _line(self, name, second, fresh, reports):
        door = self._door()
        is_door = name != DIRECT
        cells = (name, second, len(fresh.took_ms), self.checkout.late(), fresh.p(0.5), fresh.p(0.99),
                 reports)
        text = "%-7s %6d  %10d %6d %8.1f %8.1f  %9d" % cells
        if is_door:
            load = "over: " + door["why"] if door["over"] else "well"
            text += "  %9s %8d %8d  %s" % ("%d of %d" % (door["excess"], door["window"]),
                                          door["waiting"], door["executing"], load)
        self.tell(text)

    def _end_clients(self, act):
        self.checkout.end()
        if self.reports:
            self.reports.end()
            self.reports = None
            self._kill_reports()
        for thread in self.checkout.threads:
            thread.join(WAIT_S + 60)
        act.took_ms = act.took_ms[:act.due]
        self.checkout = None

    def _kill_reports(self):
        """The server would notice only at their end that their clients have gone."""
        connection = Connection(self.database.socket)
        ids = connection.query("SELECT GROUP_CONCAT(id) FROM information_schema.processlist"
                               " WHERE user = '%s'" % REPORT_USER)
        for number in (ids or "").split(","):
            try:
                connection.query("KILL %s" % number if number else "DO 0")
            except DatabaseError:
                pass    # it has gone
        connection.close()


def rows_of_report(connection):
    """As many as take REPORT_S of a processor."""
    tried, took = 50, 0
    while took < REPORT_S / 10 and tried < ORDERS:
        tried *= 2
        begin = time.monotonic()
        connection.query(report_sql(tried))
        took = time.monotonic() - begin
    return max(1, int(tried * REPORT_S / max(took, 0.001)))


def pretend(path, usual):
    """As if the short calm had been ten minutes, and that many had usually executed at once."""
    usual = min(15, max(1, usual))  # up to 15, a bucket of the file has one count
    with open(path) as f:
        learned = json.load(f)
    for c in learned["classes"]:
        c.update(ends=max(c["ends"], 5000), seconds=3600, executing=1000 * usual, hours=[usual] * 3)
    learned["metric"]["seconds"] = 3600
    for value in learned["metric"]["values"]:
        value[1] *= 60
    with open(path, "w") as f:
        json.dump(learned, f)


def main():
    socket, clients, rows = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    is_over = threading.Event()
    Connection(socket, REPORT_USER).close()     # the library is not loaded by several threads at once
    threads = [threading.Thread(target=send_reports, args=(socket, report_sql(rows), is_over),
                                daemon=True) for _ in range(clients)]
    for thread in threads:
        thread.start()
    sys.stdin.read()
    is_over.set()


if __name__ == "__main__":
    main()
