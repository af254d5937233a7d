#!/usr/bin/python3
# weir-test: timeout=120 bin=release norepeat
"""Rollups of the real program: a restart keeps the chart and what a hook took, and a kill loses at
most the minute that was going on."""
import datetime
import glob
import os
import sqlite3
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "fault"))

from harness import Server, Skip, claim, equal, expect, main, test, until  # noqa: E402

BEGIN = datetime.datetime(2026, 3, 1, 10, 0, 10, tzinfo=datetime.timezone.utc)


class Bench:
    """A server whose wall clock is set by hand, always to 10 s after a minute began."""

    def __init__(self, folder):
        libs = glob.glob("/usr/lib/*/faketime/libfaketimeMT.so.1")
        if not libs:
            raise Skip("libfaketime is not installed (package faketime)")
        self.folder, self.minute = folder, 0
        self.path = os.path.join(folder, "faketime")
        self.env = {"LD_PRELOAD": libs[0], "FAKETIME_TIMESTAMP_FILE": self.path,
                    "FAKETIME_NO_CACHE": "1", "FAKETIME_DONT_FAKE_MONOTONIC": "1",
                    "DONT_FAKE_MONOTONIC": "1"}
        self.set()
        self.start()

    def set(self):
        at = BEGIN + datetime.timedelta(minutes=self.minute)
        with open(self.path + ".new", "w") as f:
            f.write("%+f\n" % (at.timestamp() - time.time()))
        os.rename(self.path + ".new", self.path)

    def start(self):
        self.server = Server(self.folder, env=self.env)
        self.client = self.server.client()

    def run(self, n):
        for _ in range(n):
            self.client("ENQUEUE", "mail", "{}")
            got = claim(self.client)[0]
            self.client("COMPLETE", got.id, got.token)

    def next_minute(self):
        self.minute += 1
        self.set()

    def series(self, query):
        with self.server.web() as w:
            return w.good("GET", "/v1/series?" + query)

    def completed(self, minutes):
        return self.series("seconds=%d&step=60" % (60 * minutes))["jobs"]["completed"]

    def until_written(self, minutes):
        def is_there():
            db = sqlite3.connect("file:%s/history.db?mode=ro" % self.server.data, uri=True)
            try:
                return db.execute("SELECT count(*) FROM minute WHERE step = 1").fetchone()[0] >= minutes
            finally:
                db.close()
        until(is_there, what="%d minutes in the file" % minutes)


@test("the chart and the times of a hook survive a stop, and a kill loses one minute at most")
def _(folder):
    b = Bench(folder)
    b.run(5)
    b.next_minute()
    b.client("PING")  # a turn finds that the minute is over
    b.until_written(1)  # the minute of the start is asked of history
    equal(b.completed(2), [None, 5], "the first minute")
    b.run(2)  # in the minute that is lost
    b.server.kill()
    b.start()
    b.run(1)
    b.next_minute()
    b.client("PING")
    b.until_written(2)
    equal(b.completed(3), [None, 5, 1], "after a kill")
    b.run(3)
    equal(b.server.stop(), 0, "exit code")
    b.start()
    b.run(4)
    b.next_minute()
    until(lambda: b.completed(1) == [7], what="both parts of the minute in the file")
    equal(b.completed(4), [None, 5, 1, 7], "after a stop within a minute")
    hook = b.series("of=hook&name=mail&seconds=180&step=60")
    equal(hook["completed"], [5, 1, 7], "of the hook")
    equal(hook["started"], [5, 1, 7], "started of the hook")
    expect(all(v is not None for v in hook["run_ms"]["p99"]), "times of the hook: %r" % hook)
    whole = b.series("of=queue&name=default&seconds=3600&step=3600&until=%d"
                     % int((BEGIN.timestamp() // 3600 + 1) * 3600 * 1000))
    equal(whole["n"], 1, "one point")
    equal(b.series("seconds=2592000")["step_ms"], 3600000, "a month is told by the hour")


@test("/metrics has the times of jobs by queue")
def _(folder):
    b = Bench(folder)
    b.run(3)
    with b.server.web() as w:
        text = w.ask("GET", "/metrics").body.decode()
    for kind in ("wait", "run"):
        expect('weir_job_%s_seconds_bucket{queue="default",le="+Inf"} 3\n' % kind in text, text[:300])
        expect('weir_job_%s_seconds_count{queue="default"} 3\n' % kind in text, kind)


if __name__ == "__main__":
    main()
