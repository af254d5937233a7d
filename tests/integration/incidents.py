#!/usr/bin/python3
# weir-test: timeout=120
"""The incident log of the real program: a storm of deferrals does not push it out, a restart keeps
it, and so does a kill a moment later."""
import os
import sqlite3
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "fault"))

from harness import Server, claim, equal, expect, main, test, text, until, weir  # noqa: E402

CONFIG = """
throttle { mode = "enforce" }
target "dial" {
        kind = "command" command = {"cat", "%s"}
        interval = "100ms" dwell = "0s"
        metric "threads" { elevated = {5, 3} critical = {15, 10} }
}
"""
DEFERRALS = 600


class Bench:
    def __init__(self, folder):
        self.folder = folder
        self.turn(99)
        self.start()

    def turn(self, value):
        with open(os.path.join(self.folder, "dial.new"), "w") as f:
            f.write("%d\n" % value)
        os.rename(os.path.join(self.folder, "dial.new"), os.path.join(self.folder, "dial"))

    def start(self, more=""):
        self.server = Server(self.folder,
                             config=CONFIG % os.path.join(self.folder, "dial") + more)
        self.client = self.server.client()

    def until_level(self, level):
        def is_there():
            with self.server.web() as w:
                return w.good("GET", "/v1/throttle")["targets"][0]["level"] == level
        until(is_there, what="level " + level)

    def history(self, query=""):
        with self.server.web() as w:
            return w.good("GET", "/v1/throttle/history" + query)

    def told(self):
        return [e["event"] + ": " + e["message"] for e in self.history()["events"]]

    def restart(self, *, is_killed=False, more=""):
        if is_killed:
            self.server.kill()
        else:
            equal(self.server.stop(), 0, "exit code")
        self.start(more)

    def rows(self, where="1"):
        db = sqlite3.connect("file:%s/history.db?mode=ro" % self.server.data, uri=True)
        try:
            return db.execute("SELECT event, message FROM incidents WHERE " + where).fetchall()
        finally:
            db.close()


@test("after 600 deferrals the transition is there, and so it is after a restart")
def a_storm(folder):
    b = Bench(folder)
    b.until_level("critical")
    for _ in range(DEFERRALS):
        b.client("ENQUEUE", "klaviyo_sync", "{}")
    equal(claim(b.client, count=1000), [], "what runs at critical load")
    history = b.history()
    rise = "dial: unknown -> critical by threads 99 against 15"
    expect(rise in [e["message"] for e in history["events"]], history["events"])
    group, = history["deferrals"]
    equal((group["event"], group["hook"], group["tier"], group["count"]),
          ("as_action_deferred", "klaviyo_sync", "deferrable", DEFERRALS), "the deferrals")
    expect(group["from_ms"] <= group["to_ms"], group)
    b.restart()
    expect("load_level_transition: " + rise in b.told(), b.told())
    equal(b.history()["deferrals"], [], "groups are of this process")
    shown = text(weir("throttle", "history", "--url", "redis://%s:%d" % b.server.resp).stdout)
    expect(rise in shown, shown)
    b.server.stop()


@test("what operators did is kept, a pause that ends by itself too")
def operators(folder):
    b = Bench(folder)
    b.until_level("critical")
    c = b.client
    c("THROTTLE", "PAUSE", "FOR", 1000)
    until(lambda: "throttle_resumed: the pause ended by itself" in b.told(), what="its end")
    c("THROTTLE", "PAUSE", "UNTILRESUMED")
    c("THROTTLE", "RESUME")
    c("THROTTLE", "MODE", "SET", "observe")
    c("SETTINGSET", "throttle.max_deferral", "2h")
    c("REGISTRYSET", "erp_*", "high")
    c("REGISTRYUNSET", "erp_*")
    c("RULESET", "etl", "hold", "FOR", 60000)
    before = b.told()
    b.restart()
    after = b.told()
    equal(after[-len(before):], before, "what was told before the restart")
    for event in ("throttle_paused: for 1 s", "throttle_paused: until resumed",
                  "throttle_resumed: by the operator", "throttle_mode: observe",
                  "setting_changed: throttle.max_deferral: 0s -> 2h", "registry_set: erp_* is high",
                  "registry_unset: erp_*"):
        expect(event in after, "%s is not in %s" % (event, after))
    expect(any(e.startswith("rule_set: ") for e in after), after)
    numbers = [e["number"] for e in b.history()["events"]]
    equal(numbers, list(range(len(numbers), 0, -1)), "the numbers")
    page = b.history("?count=3")
    equal(page["older"], numbers[2], "where the next page begins")
    equal([e["number"] for e in b.history("?count=3&before=%d" % page["older"])["events"]],
          numbers[3:6], "the next page")
    b.server.stop()


@test("a kill loses nothing that was written, and it is written within moments")
def killed(folder):
    b = Bench(folder)
    b.until_level("critical")
    b.client("THROTTLE", "PAUSE", "UNTILRESUMED")
    until(lambda: ("throttle_paused", "until resumed") in b.rows(), what="the row in the file")
    b.restart(is_killed=True)
    expect("throttle_paused: until resumed" in b.told(), b.told())
    b.server.stop()


@test("what is older than history_keep_incidents goes")
def retention(folder):
    b = Bench(folder)
    b.until_level("critical")
    b.client("THROTTLE", "PAUSE", "UNTILRESUMED")
    until(lambda: ("throttle_paused", "until resumed") in b.rows(), what="the row in the file")
    b.restart(more='history_keep_incidents = "1ms"\n')
    until(lambda: not b.rows("event = 'throttle_paused'"), what="the row to go")
    b.server.stop()


if __name__ == "__main__":
    main()
