"""What is printed of the checks: rates next to nginx, latencies at half load, pipelined CHECK."""

import statistics

from check import HALF_SHAPE, HTTP, HTTP_SHAPES, RESP_SHAPES, TITLE, WRITERS
from report import Targets, number, shape_name

HTTP_GOAL = 0.8             # of nginx
RESP_GOAL = 1000000         # checks a second on one core
DISK_GOAL = 2               # times the p99 without writers


def spread(values):
    return f"{min(values):9,.0f} - {max(values):9,.0f}"


def print_http(results):
    for shape in HTTP_SHAPES:
        rows = [k for k, _, _ in HTTP if results.rates(k, "check-http", shape)]
        if not rows:
            continue
        print(f"\nHTTP checks, {shape_name(shape)}, the server on one core")
        print(f"  {'':25} {'checks/s':>9}  {'min - max':>21}  {'CPU us':>7}  of nginx")
        for key in rows:
            rates = results.rates(key, "check-http", shape)
            cpu = results.per_job(key, "check-http", shape, "server_us")
            ratio = results.ratio(key, "nginx", "check-http", shape)
            print(f"  {TITLE[key]:25} {statistics.median(rates):9,.0f}  {spread(rates)}  "
                  f"{number(cpu):>7}  {f'{ratio:.2f}x' if ratio and key != 'nginx' else ''}")


def median_of(results, key, work, field):
    values = [s[field] for s in results.of(key, work) if field in s]
    return statistics.median(values) if values else None


def print_half(results):
    rows = [(key, work) for key, work in (("nginx", "check-half"), ("weir-freno", "check-half"),
                                          ("weir-freno", "check-disk")) if results.of(key, work)]
    if not rows:
        return
    print("\nlatency at half of that rate, us, from the moment each check was due")
    for key, work in rows:
        title = TITLE[key] if work == "check-half" else f"the same, {WRITERS} writers beside it"
        rate = results.rate(key, work, HALF_SHAPE)
        values = [median_of(results, key, work, f) for f in ("p50_us", "p99_us", "p999_us",
                                                            "max_us")]
        print(f"  {title:32} {rate:9,.0f}/s  p50 {values[0]:7,.0f}  p99 {values[1]:7,.0f}  "
              f"p99.9 {values[2]:7,.0f}  max {values[3]:7,.0f}")
    written = median_of(results, "weir-freno", "check-disk", "write_p50_us")
    if written is not None:
        print(f"  a writer's job is on disk after p50 {written:,.0f} us, p99 "
              f"{median_of(results, 'weir-freno', 'check-disk', 'write_p99_us'):,.0f} us")


def print_resp(results):
    rows = [s for s in RESP_SHAPES if results.rates("weir-resp", "check-resp", s)]
    if not rows:
        return
    print("\nRESP CHECK, pipelined, weir on one core")
    for shape in rows:
        rates = results.rates("weir-resp", "check-resp", shape)
        cpu = results.per_job("weir-resp", "check-resp", shape, "server_us")
        print(f"  {shape_name(shape):25} {statistics.median(rates):9,.0f}  {spread(rates)}  "
              f"{number(cpu):>7} us of CPU")


class CheckTargets(Targets):
    def http(self):
        self.compared(f"HTTP checks, 64 connections, one core, at least {HTTP_GOAL}x nginx",
                      HTTP_GOAL, ("weir-freno", "nginx", "check-http", (64, 1)),
                      [(shape_name(s), "weir-freno", "nginx", "check-http", s)
                       for s in HTTP_SHAPES[:-1]]
                      + [("POST /v1/check", "weir-post", "nginx", "check-http", (64, 1))])

    def resp(self):
        rates = [(self.results.rate("weir-resp", "check-resp", s), s) for s in RESP_SHAPES]
        best = max((r for r in rates if r[0]), default=(None, None))
        self.line("RESP CHECK, pipelined, above 1,000,000 a second on one core", best[0], RESP_GOAL,
                  best[0] and f"{best[0]:,.0f} a second ({shape_name(best[1])})")

    def disk(self):
        r = self.results
        calm = median_of(r, "weir-freno", "check-half", "p99_us")
        busy = median_of(r, "weir-freno", "check-disk", "p99_us")
        ratio = busy / calm if calm and busy else None
        self.line(f"no check waits for the disk: p99 with {WRITERS} writers at most {DISK_GOAL}x",
                  ratio, DISK_GOAL,
                  ratio and f"{calm:,.0f} us without, {busy:,.0f} us with = {ratio:.2f}x",
                  at_least=False)


def print_checks(results):
    if not any(s["work"].startswith("check-") for s in results.samples):
        return
    print_http(results)
    print_half(results)
    print_resp(results)
    print("\ntargets of the checks")
    targets = CheckTargets(results)
    targets.http()
    targets.resp()
    targets.disk()
