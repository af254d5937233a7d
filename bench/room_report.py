"""What is printed of the operator's room: the listings, and the page."""

import statistics

from report import Targets

SINGLE_GOAL_MS = 20         # one filter, once what it needs is in memory
LISTING_GOAL_MS = 200       # an answer, whatever was asked for
TURN_GOAL_MS = 5
WEIGHT_GOAL = 150000        # bytes
PAINT_GOAL_MS = 200
DOORS = (("weir-resp", "RESP"), ("weir-http", "HTTP"))
VISITS = (("first", "the first address of a new browser"), ("empty", "an empty cache"),
          ("stale", "again, after the files' 10 s"), ("fresh", "again, straight after"))
JUDGED = ("empty", "stale", "fresh")


def print_listings(results):
    loops = results.of("weir", "listing-loop")
    if not loops:
        return
    loop = loops[0]
    rows = {key: results.of(key, "listing") for key, _ in DOORS}
    print(f"\nlistings, {loop['jobs']:,} jobs in history and {loop['live']:,} live ones, "
          f"ms until the answer is there; the first visit of each does not count")
    print(f"  {'':46}" + "".join(f"{name:>9} {'worst':>7}" for _, name in DOORS)
          + f"  {'jobs':>5}  turns over 5 ms")
    for pair in zip(*rows.values()):
        s = pair[0]
        line = "".join(f"{statistics.median(x['ms']):9.1f} {max(x['ms']):7.1f}" for x in pair)
        line = f"  {s['filter']:46}{line}  {s['jobs']:5,}  {s['slow_turns'] or '':>3}"
        if s["answers"] > 1:
            line += f"  (in parts: {s['answers']} answers, {s['whole_ms']:,.0f} ms together)"
        print(line.rstrip())
    print_loop(loop)


def print_loop(loop):
    print(f"  the longest turn of the loop meanwhile: {loop['turn_max_us'] / 1000:.1f} ms, "
          f"{loop['slow_turns']} over {TURN_GOAL_MS} ms; in the minute before: "
          f"{loop['calm_turn_max_us'] / 1000:.1f} ms")
    for what, p in (("meanwhile", loop["pings"]), ("before", loop["calm_pings"])):
        print(f"  another client, {what}: {p['pings']:,} pings, p50 {p['p50_us'] / 1000:.2f} ms, "
              f"p99 {p['p99_us'] / 1000:.2f} ms, at worst {p['max_us'] / 1000:.1f} ms, "
              f"{p['over_5ms']} over 5 ms")


def print_page(results):
    for s in results.of("weir", "page-weight"):
        print(f"\nthe page: {len(s['files'])} files, {s['bytes']:,} bytes gzipped, "
              f"{s['plain_bytes']:,} plain")
    for s in results.of("weir", "page-paint"):
        print(f"\nthe first paint on loopback, Chromium {s['browser']}, ms from the address on")
        print(f"  {'':38} {'median':>7}  {'min - max':>15}  {'contents':>8}  {'bytes':>8}")
        for kind, title in VISITS:
            ms = [v["paint_ms"] for v in s[kind]]
            contents, sent = (statistics.median(v[k] for v in s[kind])
                              for k in ("content_ms", "bytes"))
            print(f"  {title:38} {statistics.median(ms):7.0f}  {min(ms):6.0f} - {max(ms):6.0f}  "
                  f"{contents:8.0f}  {sent:8,.0f}  ({len(ms)} visits)")


class RoomTargets(Targets):
    def listings(self):
        rows = [s for key, _ in DOORS for s in self.results.of(key, "listing")]
        if not rows:
            return

        def median(s):
            return statistics.median(s["ms"])

        def longest(s):
            return max(*s["ms"], s["longest_ms"])

        slowest = max((s for s in rows if s["kind"] == "single"), key=median)
        self.line(f"any single filter in under {SINGLE_GOAL_MS} ms, asked again", median(slowest),
                  SINGLE_GOAL_MS,
                  f"the largest median is {median(slowest):.1f} ms ({slowest['filter']}), "
                  f"{max(slowest['ms']):.1f} ms at worst", at_least=False)
        worst = max(rows, key=longest)
        by_kind = [max((s for s in rows if s["kind"] == kind), key=longest)
                   for kind in ("pair", "look")]
        self.line(f"two names that rarely meet, a text, and any other: under {LISTING_GOAL_MS} ms "
                  "an answer", longest(worst), LISTING_GOAL_MS,
                  f"{longest(worst):.0f} ms at worst ({worst['filter']}); " +
                  ", ".join(f"{longest(s):.0f} ms ({s['filter']})" for s in by_kind),
                  at_least=False)
        for loop in self.results.of("weir", "listing-loop"):
            ms = loop["turn_max_us"] / 1000
            self.line(f"no turn of the loop over {TURN_GOAL_MS} ms by a listing", ms, TURN_GOAL_MS,
                      f"the longest took {ms:.1f} ms, {loop['slow_turns']} were over "
                      f"{TURN_GOAL_MS} ms; a ping waited {loop['pings']['max_us'] / 1000:.1f} ms "
                      "at worst", at_least=False)

    def page(self):
        for s in self.results.of("weir", "page-weight"):
            self.line(f"the page weighs less than {WEIGHT_GOAL // 1000} kB", s["bytes"],
                      WEIGHT_GOAL, f"{s['bytes'] / 1000:.1f} kB gzipped", at_least=False)
        for s in self.results.of("weir", "page-paint"):
            medians = {k: statistics.median(v["paint_ms"] for v in s[k]) for k in JUDGED}
            slowest = max(medians, key=medians.get)
            text = ", ".join(f"{dict(VISITS)[k]} {ms:.0f} ms" for k, ms in medians.items())
            self.line(f"first paint on loopback in under {PAINT_GOAL_MS} ms", medians[slowest],
                      PAINT_GOAL_MS, f"medians: {text}", at_least=False)


def print_room(results):
    if not any(s["work"].startswith(("listing", "page-")) for s in results.samples):
        return
    print_listings(results)
    print_page(results)
    print("\ntargets of the operator's room")
    targets = RoomTargets(results)
    targets.listings()
    targets.page()
