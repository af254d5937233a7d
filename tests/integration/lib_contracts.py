"""What the tests of the two foreign contracts share, freno's and that of Vitess."""
import calendar
import json
import os
import re
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "fault"))

from harness import Server, equal, expect, mapping, short  # noqa: E402
from lib_databases import write_config  # noqa: E402


def serve_targets(folder, targets, extra="", **options):
    """A server with these targets, of which each has its text for the configuration."""
    os.makedirs(folder, exist_ok=True)
    config = write_config(folder, extra + "".join(t.config for t in targets))
    return Server(folder, "-c", config, **options)


def moment(value):
    """Unix time of "2026-11-15T15:45:29.985Z"; None when it is none."""
    if not isinstance(value, str) or not re.match(r"^20\d\d-\d\d-\d\dT[\d:]{8}\.\d{3}Z$", value):
        return None
    return calendar.timegm(time.strptime(value[:19], "%Y-%m-%dT%H:%M:%S")) + float(value[19:23])


def minutes_left(text):
    expect(moment(text), text)
    return (moment(text) - time.time()) / 60


def is_left(text, minutes):
    """A rule that was just made for so many minutes may say this of its end."""
    return minutes - 0.2 < minutes_left(text) <= minutes + 0.02


def is_same(a, b):
    """Moments may differ by a little: an end is reckoned from two clocks, read one after the
    other."""
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(is_same(a[k], b[k]) for k in a)
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        return len(a) == len(b) and all(is_same(x, y) for x, y in zip(a, b))
    if moment(a) and moment(b):
        return abs(moment(a) - moment(b)) < 1
    return a == b


def unchanged(after, before, what):
    expect(is_same(after, before), "%s: %s, and before it was %s" % (what, after, before))


def rules(client):
    """All rules, without what the passing of time changes."""
    found = [mapping(r) for r in mapping(client("RULES"))["rules"]]
    for rule in found:
        rule.pop("left_ms")
    return found


def compact(value):
    return json.dumps(value, separators=(",", ":")) + "\n"


def get(web, path, status, body=None, headers=()):
    got = web.ask("GET", path, headers=headers)
    equal(got.status, status, "status of %s (%s)" % (short(path), got.body[:300]))
    if body is not None:
        equal(got.body.decode(), body, "body of %s" % short(path))
    return got


def one_line_of_json(got, path, kind="application/json"):
    equal(got.header("content-type"), kind, path)
    expect(got.body.endswith(b"\n") and got.body.count(b"\n") == 1, short(got.body))


def side_by_side(server, paths, rounds):
    """Asks for all of them at once, each on a connection of its own, round after round; gives the
    number of each with its answer."""
    webs = [server.web() for _ in paths]
    for _ in range(rounds):
        for w, path in zip(webs, paths):
            w.send(w.head("GET", path))
        for i, w in enumerate(webs):
            yield i, w.read()
    for w in webs:
        w.close()
