"""What the tests of the two foreign contracts share, freno's and that of Vitess."""
import calendar
import json
import re
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "fault"))

from harness import equal, expect, mapping, short  # noqa: E402


def moment(value):
    """Unix time of "2026-11-15T15:45:29.985Z"; None when it is none."""
    if not isinstance(value, str) or not re.match(r"^20\d\d-\d\d-\d\dT[\d:]{8}\.\d{3}Z$", value):
        return None
    return calendar.timegm(time.strptime(value[:19], "%Y-%m-%dT%H:%M:%S")) + float(value[19:23])


def is_same(a, b):
    """Moments may differ by a little: an end is reckoned from two clocks, read one after the
    other."""
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(is_same(a[k], b[k]) for k in a)
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        return len(a) == len(b) and all(is_same(x, y) for x, y in zip(a, b))
    if moment(a) and moment(b):
        return abs(moment(a) - moment(b)) < 0.05
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
