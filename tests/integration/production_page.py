#!/usr/bin/python3
# weir-test: timeout=240 bin=release
"""docs/production.md: its recipes do what they say, and each alert has its paragraph."""
import os
import re
import sys

sys.dont_write_bytecode = True

from lib_pages import ROOT, Reader, blocks, enter_namespaces, needs, read_page  # noqa: E402
from harness import equal, expect, main, test  # noqa: E402


@test("the recipes of the page do what they say, in one shell")
def _(folder):
    needs("curl", "jq", "openssl")
    varies = ((r"\b(batches|records|bytes|first_seq|last_seq)=\d+", r"\1=<n>"),
              (r"(at byte|offset|batch) \d+", r"\1 <n>"), (r"\d+ records kept", "<n> records kept"))
    varies += ((re.escape(os.path.realpath(folder)) + r"\b", "/srv/weir"),)
    with Reader(folder, varies) as reader:
        reader.follow(read_page("production.md"))


@test("each alert of packaging/prometheus-alerts.yml has its paragraph, and no other")
def _(folder):
    with open(os.path.join(ROOT, "packaging", "prometheus-alerts.yml"), encoding="utf-8") as f:
        alerts = re.findall(r"^ *- alert: (\w+)$", f.read(), re.M)
    expect(len(alerts) > 20, "alerts: %s" % alerts)
    part = read_page("production.md").split("\n## Monitoring\n", 1)[1].split("\n## ", 1)[0]
    equal(re.findall(r"^\* \*\*(\w+)\*\*: \S", part, re.M), alerts, "paragraphs")


@test("what needs root is marked as such, and links within the page lead somewhere")
def _(folder):
    page = read_page("production.md")
    for _, body in blocks(page, "console"):
        equal([line for line in body.splitlines() if not line.startswith("# ")], [], "lines for root")
    expect(not [body for _, body in blocks(page, "sh") if re.search(r"systemctl|apt |sudo", body)],
           "a rehearsal that needs root")
    heads = {re.sub(r"[^\w-]", "", h.lower().replace(" ", "-")) for h in re.findall(r"^#+ (.*)$", page, re.M)}
    equal([to for to in re.findall(r"\]\(#([^)]*)\)", page) if to not in heads], [], "links to nowhere")


if __name__ == "__main__":
    enter_namespaces()
    main()
