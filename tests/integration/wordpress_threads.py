#!/usr/bin/python3
# weir-test: timeout=120 tsan
"""The threads of a guarded site and the loop, together: for ThreadSanitizer.  The load is measured over
a connection: a probe that starts programs closes descriptors whose numbers libuv had, which that
tool takes for a race."""
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from lib_guard import CALM, STORM, Bed, fill  # noqa: E402
from harness import equal, main, test  # noqa: E402


@test("surveys, moves, requests and a reload meet on the loop")
def together(folder):
    b = Bed(folder, by_sql=True)
    made = fill(b.site, 20)
    before = b.dates()
    b.start()
    with b.server.client() as c, b.server.web() as w:
        for load in (STORM, CALM):
            b.set_load(load)
            b.wait(lambda s: s["moved"] == (60 if load == STORM else 0), "load %d" % load)
            w.good("GET", "/v1/sites/shop/actions?status=pending")
            w.good("GET", "/v1/sites/shop/actions/%d" % next(iter(made)))
            c("SITELOCK", "shop", "key", "TTL", "60")
            c("SITEUNLOCK", "shop", "key", "FORCE")
            c("CONFIGRELOAD")
    b.wait(lambda s: s["moved"] == 0 and not s["error"], "calm")
    equal(b.dates(), before, "dates")
    b.server.stop()


if __name__ == "__main__":
    main()
