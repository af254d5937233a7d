#!/usr/bin/python3
# weir-test: timeout=120 bin=release
"""/metrics, and all that is built on it: the Grafana dashboard and the Prometheus alerts in
packaging/ name only metrics, labels and values that a running weir shows, and docs/metrics.md
describes each family as weir itself does.

    tests/integration/dashboards.py --write     puts the tables of docs/metrics.md in order
"""
import json
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "fault"))

from harness import (  # noqa: E402
    ROOT, Server, equal, expect, main, short, test, until, weir)

DASHBOARD = os.path.join(ROOT, "packaging", "grafana-dashboard.json")
ALERTS = os.path.join(ROOT, "packaging", "prometheus-alerts.yml")
PAGE = os.path.join(ROOT, "docs", "metrics.md")

# ---------------------------------------------------------------- the text format, read strictly

NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
LABEL = r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"'
SAMPLE = re.compile(r"(%s)(?:\{((?:%s(?:,%s)*)?)\})? (\S+)" % (NAME, LABEL, LABEL))
NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?([eE][+-]?\d+)?|Inf)|NaN")


class Family:
    def __init__(self, name, text):
        self.name, self.text, self.type, self.samples = name, text, None, []

    def labels(self):
        """In the order of the first sample; the bounds of a histogram are its own business."""
        return [k for k in self.samples[0][0] if k != "le"] if self.samples else []

    def values(self, label):
        return {labels.get(label) for labels, _ in self.samples}


def unescape(text):
    return re.sub(r"\\(.)", lambda m: "\n" if m[1] == "n" else m[1], text)


def read_metrics(text):
    """{name: Family}; AssertionError where the text is not of the format."""
    families, current = {}, None
    expect(text.endswith("\n"), "the last line has no end")
    for line in text[:-1].split("\n"):
        if line.startswith("# HELP "):
            name, _, words = line[7:].partition(" ")
            expect(name not in families, "the family %s comes twice" % name)
            expect(not re.search(r"\\(?![\\n])", words), "escapes in the help: " + line)
            current = families[name] = Family(name, words)
        elif line.startswith("# TYPE "):
            name, _, kind = line[7:].partition(" ")
            expect(current and name == current.name and not current.type and not current.samples,
                   "a type apart from its help: " + line)
            expect(kind in ("gauge", "counter", "histogram"), line)
            equal(kind == "counter", name.endswith("_total"), "counter by its name: " + line)
            current.type = kind
        else:
            read_sample(line, current)
    for family in families.values():
        if family.type == "histogram":
            check_histogram(family)
    return families


def check_histogram(family):
    """Each set of labels has buckets that add up, a sum and a count."""
    groups = {}
    for labels, value in family.samples:
        rest = tuple((k, v) for k, v in labels.items() if k not in ("le", "__name__"))
        parts = groups.setdefault(rest, {"_bucket": []})
        if labels["__name__"] == "_bucket":
            parts["_bucket"].append((float(labels["le"]), value))
        else:
            parts[labels["__name__"]] = value
    for rest, parts in groups.items():
        where = "%s%s" % (family.name, rest)
        equal(sorted(parts), ["_bucket", "_count", "_sum"], where)
        equal(parts["_bucket"], sorted(parts["_bucket"]), "bounds of " + where)
        counts = [n for _, n in parts["_bucket"]]
        equal(counts, sorted(counts), "buckets of " + where)
        equal(parts["_bucket"][-1], (float("inf"), parts["_count"]), "the last bucket of " + where)
    for labels, _ in family.samples:
        del labels["__name__"]


def read_sample(line, family):
    found = SAMPLE.fullmatch(line)
    expect(found, "no sample: " + line)
    expect(family and family.type and found[1].startswith(family.name), "outside its family: " + line)
    suffix = found[1][len(family.name):]
    is_histogram = family.type == "histogram"
    expect(suffix in (("_bucket", "_sum", "_count") if is_histogram else ("",)), "the name of " + line)
    pairs = re.findall(LABEL, found[2] or "")
    labels = {k: unescape(v) for k, v in pairs}
    equal("le" in labels, suffix == "_bucket", "a bound in " + line)
    equal(len(labels), len(pairs), "labels of " + line)
    expect(dict(labels, **({"__name__": suffix} if is_histogram else {}))
           not in [known for known, _ in family.samples], "twice: " + line)
    expect(NUMBER.fullmatch(found[found.lastindex]), "no number: " + line)
    if family.samples:
        equal([k for k in labels if k != "le"], [k for k in family.labels() if k != "__name__"],
              "labels of " + line)
    if is_histogram:
        labels["__name__"] = suffix
    value = float(found[found.lastindex])
    expect(family.type != "counter" or value >= 0, line)
    family.samples.append((labels, value))


# ---------------------------------------------------------------- a server that shows them all

NASTY = 'a "quoted" \\ name'
CONFIG = """
throttle { mode = "enforce" check_mode = "enforce" adaptive = "observe" }
target "shop" {
        kind = "command" command = {"echo", "2"} interval = "100ms"
        metric "threads" { elevated = {5, 3} critical = {15, 10} }
}
target "%s" {
        kind = "command" command = {"echo", "7"} interval = "100ms"
        metric "%s" { source = "value" elevated = {5, 3} critical = {15, 10} }
}
mysql "front" { listen = {"127.0.0.1:0"} server = "127.0.0.1:1" target = "shop" }
wordpress "shop" { socket = "/nonexistent/mysql.sock" user = "weir" database = "shop" target = "shop" }
""" % ((NASTY.replace("\\", "\\\\").replace('"', '\\"'),) * 2)


TLS = """
http_tls = {"127.0.0.1:0"}
tls { cert = "%s/server.crt" key = "%s/server.key" }
"""
TOKEN = "a-token-of-all-0123456789"
# What a weir that is alone shows nothing of, by node; cluster.py and cluster_verify.py read them where
# there is one.
OF_A_CLUSTER = ("weir_cluster_member_seen_seconds", "weir_cluster_member_batch",
                "weir_cluster_member_differs")
# What is not known before transactions have passed: mysql_load.py sees it.
OF_TRAFFIC = {
    "weir_proxy_slowdown_ratio": {"proxy": "front"},
    "weir_proxy_slow_ratio": {"proxy": "front"},
    "weir_proxy_class_usual": {"proxy": "front", "class": "checkout", "row": "checkout"},
}


def shown(folder):
    tls = os.path.join(folder, "tls")
    equal(weir("tls", "self-signed", "--dir", tls).returncode, 0, "certificates")
    server = Server(folder, config=CONFIG + TLS % (tls, tls), token=TOKEN)
    with server.client() as c, server.web() as web:
        c("AUTH", TOKEN)
        for queue in ("default", NASTY, "caf\u00e9"):
            c("ENQUEUE", "hook", "{}", "QUEUE", queue)
        c("ENQUEUE", NASTY, "{}", "QUEUE", NASTY, "TIER", "critical", "PRIORITY", "0")
        expect(c("CLAIM", "w", "QUEUES", NASTY), "a job that has waited")
        c("CHECK", "run-1:purge")
        c("CHECK", 'x"y\\z:purge')

        def families():
            answer = web.ask("GET", "/metrics")
            kind = answer.header("content-type")
            expect(kind.startswith("text/plain; version=0.0.4"), "content type " + kind)
            return read_metrics(answer.body.decode())
        until(lambda: len(families()["weir_gate_metric"].samples) == 2, 20, "two metrics")
        found = families()
    equal(server.stop(), 0, "exit code")
    for name in OF_A_CLUSTER:
        equal(found[name].samples, [], name)
        found[name].samples.append(({"node": "a"}, 0.0))
    for name, labels in OF_TRAFFIC.items():
        equal(found[name].samples, [], name)
        found[name].samples.append((labels, 1.0))
    return found


@test("/metrics is well-formed, whatever queues, targets, metrics and clients are called")
def well_formed(folder):
    families = shown(folder)
    expect(len(families) > 70, "only %d families" % len(families))
    for f in families.values():
        expect(f.name.startswith("weir_") and f.text.endswith("."), "%s: %r" % (f.name, f.text))
        expect(f.samples, f.name + " has no sample")
    expect(NASTY in families["weir_queue_jobs"].values("queue"), "the queue")
    expect("caf\u00e9" in families["weir_queue_jobs"].values("queue"), "another queue")
    for label, name in (("queue", "job"), ("hook", "hook")):
        expect(families["weir_%s_wait_seconds" % name].values(label) >= {NASTY, "other"}, label)
    for name in ("weir_gate_level", "weir_gate_metric", "weir_check_credits"):
        expect(NASTY in families[name].values("target"), name)
    expect(NASTY in families["weir_gate_metric"].values("metric"), "the metric")
    expect('x"y\\z:purge' in families["weir_check_asks_total"].values("identity"), "the client")


# ---------------------------------------------------------------- expressions

ADDED = {"instance", "job"}  # by whoever collects
SELECTOR = re.compile(r"\b(weir_\w+|up)\b\s*(?:\{([^}]*)\})?")
MATCHER = re.compile(r'\s*(\w+)\s*(=~|!=|!~|=)\s*"([^"]*)"\s*(?:,|$)')
GROUPS = re.compile(r"\b(?:by|on|without|ignoring)\s*\(([^)]*)\)")


def check_expression(families, expr, where):
    """That all it names is there; the labels its result can have."""
    expect(expr.count("(") == expr.count(")"), "%s: brackets in %s" % (where, expr))
    labels = set(ADDED)
    names = SELECTOR.findall(expr)
    expect(names, "%s: no metric in %s" % (where, expr))
    for name, matchers in names:
        if name == "up":
            continue
        whole = re.sub("_(bucket|sum|count)$", "", name)
        is_part = whole in families and families[whole].type == "histogram" and whole != name
        family = families.get(whole if is_part else name)
        expect(family, "%s: weir has no metric %s" % (where, name))
        labels |= set(family.labels()) | ({"le"} if name.endswith("_bucket") else set())
        expect(MATCHER.sub("", matchers).strip() == "", "%s: matchers {%s}" % (where, matchers))
        for label, how, value in MATCHER.findall(matchers):
            check_matcher(family, label, how, value, where)
        total = re.search(r"\b(rate|increase)\(\s*%s\b" % name, expr)
        equal(bool(total), family.type == "counter" or is_part, "%s: rate() of the %s %s" % (
            where, family.type, name))
    groups = [set(re.findall(r"\w+", g)) for g in GROUPS.findall(expr)]
    for group in groups:
        expect(group <= labels, "%s: by %s, of %s" % (where, sorted(group - labels), expr))
    if re.search(r"\b(sum|min|max|avg|count)\b", expr):
        return set().union(*groups)
    return labels


def check_matcher(family, label, how, value, where):
    if label in ADDED:
        return
    expect(label in family.labels(), "%s: %s has no label %s" % (where, family.name, label))
    if "$" in value:
        return
    for word in value.split("|") if "~" in how else [value]:
        expect(word in family.values(label), "%s: %s is never %s=%r" % (
            where, family.name, label, word))


@test("the dashboard names only metrics, labels and values that there are")
def dashboard(folder):
    families = shown(folder)
    with open(DASHBOARD) as f:
        board = json.load(f)
    expect(board["schemaVersion"] >= 39 and board["uid"] and board["id"] is None, "its head")
    variables = {v["name"]: v for v in board["templating"]["list"]}
    equal(variables["datasource"]["type"], "datasource", "the variable datasource")
    for name, v in variables.items():
        if v["type"] == "query":
            found = re.fullmatch(r"label_values\((\w+), (\w+)\)", v["query"]["query"])
            metric, label = found.groups()
            expect(label in ADDED | set(families[metric].labels()), "$%s: %s" % (name, label))
    ids = [p["id"] for p in board["panels"]]
    equal(len(set(ids)), len(ids), "ids of panels")
    for panel in board["panels"]:
        check_panel(families, panel, variables)
    check_places(board["panels"])
    told = json.dumps([p.get("targets") for p in board["panels"]])
    for name in MUST_SHOW:
        expect(re.search(r"\b%s\b" % name, told), "no panel shows " + name)


MUST_SHOW = """weir_gate_level weir_gate_metric weir_gate_metric_threshold weir_jobs_ready
    weir_jobs_running weir_jobs_failed_total weir_gate_parked weir_gate_deferred_total
    weir_checks_granted_total weir_checks_refused_total weir_check_starved weir_locks_held
    weir_log_sync_seconds weir_loop_turn_max_seconds weir_jobs_finished weir_proxy_waiting
    weir_proxy_wait_seconds_bucket weir_job_run_seconds_bucket weir_hook_run_seconds_bucket
    weir_hook_wait_seconds_bucket weir_telemetry_dropped_spans_total""".split()


def check_panel(families, panel, variables):
    where = "panel '%s'" % panel["title"]
    if panel["type"] == "row":
        return
    equal(panel["datasource"]["uid"], "${datasource}", where + ": data source")
    refs = [t["refId"] for t in panel["targets"]]
    equal(len(set(refs)), len(refs), where + ": refIds")
    for t in panel["targets"]:
        equal(t["datasource"]["uid"], "${datasource}", where + ": data source")
        for name in re.findall(r"\$(\w+)", t["expr"]):
            expect(name in variables or name == "__rate_interval", "%s: $%s" % (where, name))
        labels = check_expression(families, t["expr"], where)
        used = set(re.findall(r"\{\{\s*(\w+)\s*\}\}", t["legendFormat"]))
        expect(used <= labels, "%s: the legend has %s, the result %s" % (where, used, labels))


def check_places(panels):
    """No panel lies on another, and none reaches out of the 24 columns."""
    taken = {}
    for p in panels:
        g = p["gridPos"]
        expect(g["x"] + g["w"] <= 24, p["title"])
        for cell in ((x, y) for x in range(g["x"], g["x"] + g["w"])
                     for y in range(g["y"], g["y"] + g["h"])):
            expect(cell not in taken, "'%s' lies on '%s'" % (p["title"], taken.get(cell)))
            taken[cell] = p["title"]


# ---------------------------------------------------------------- names

# What `promtool check metrics` complains of; the package with it is too large for a test.
ABBREVIATED = "s ms us ns sec b kb mb gb tb pb m h d".split()
PREFIXES = "pico nano micro milli centi deci deca hecto kilo kibi mega mebi giga gibi tera tebi peta " \
    "pebi".split()
UNITS = dict({unit: unit for unit in "amperes bytes celsius grams joules kelvin meters metres moles "
              "seconds volts".split()},
             **{unit: "seconds" for unit in "minutes hours days weeks".split()},
             bits="bytes", fahrenheit="celsius", inches="meters", yards="meters", miles="meters",
             calories="joules", pounds="grams", ounces="grams")


def base_unit(word):
    for prefix in [""] + PREFIXES:
        if word.startswith(prefix) and word[len(prefix):] in UNITS:
            return word, UNITS[word[len(prefix):]]
    return None


def complaints(family):
    words = family.name.split("_")
    if not family.text:
        yield "no help"
    if (family.type == "counter") != family.name.endswith("_total"):
        yield "a counter ends in _total, and nothing else does"
    if words[-1] in ("bucket", "count", "sum") or {"le", "quantile"} & set(family.labels()):
        yield "a name of histograms and summaries"
    if {"counter", "gauge", "histogram", "summary", "untyped"} & set(words):
        yield "the type is in the name"
    if not re.fullmatch(r"[a-z0-9_]+", family.name):
        yield "not in lower case with underscores"
    for word in words:
        if word in ABBREVIATED:
            yield "the abbreviated unit " + word
        found = base_unit(word)
        if found and found[0] != found[1]:
            yield "use %s instead of %s" % found[::-1]


@test("names and units are those that promtool wants")
def names(folder):
    families = shown(folder)
    wrong = ["%s: %s" % (f.name, c) for f in families.values() for c in complaints(f)]
    equal(wrong, [], "what promtool would say")
    bad = Family("weir_x_ms", "")
    bad.type = "counter"
    equal(len(list(complaints(bad))), 3, "complaints of a bad name")


@test("jobs of a queue are counted by every state they can have")
def states(folder):
    families = shown(folder)
    equal(families["weir_queue_jobs"].values("state"),
          {"ready", "scheduled", "waiting", "parked", "returning", "running"}, "states")


# ---------------------------------------------------------------- alerts


def read_alerts():
    """[{alert, expr, for, severity, summary, description}], of the YAML that is used there: one
    key a line, a text after it or, after |, in deeper lines."""
    alerts, key, deep = [], None, 0
    with open(ALERTS) as f:
        lines = f.read().split("\n")
    for line in lines[next(i for i, s in enumerate(lines) if s == "    rules:") + 1:]:
        depth = len(line) - len(line.lstrip())
        if key and depth > deep:
            alerts[-1][key] += line.strip() + " "
            continue
        key = None
        found = re.fullmatch(r"      (- |  )(  )?(\w+):(?: (.*))?", line)
        expect(found or not line.strip(), "%s: %s" % (os.path.basename(ALERTS), line))
        if not found:
            continue
        if found[1] == "- ":
            alerts.append({})
        expect(found[3] not in alerts[-1], "twice: " + line)
        value = found[4] or ""
        if value.startswith('"'):
            value = json.loads(value)
        if value == "|":
            key, deep, value = found[3], depth, ""
        alerts[-1][found[3]] = value
    return alerts


MUST_ALERT = ("up", "weir_gate_level == 2", "weir_gate_metric_error", "weir_check_starved",
              "weir_check_exemptions_over_budget",
              "weir_log_disk_full", 'event="failed"', "weir_queue_oldest_ready_seconds",
              "weir_proxy_up == 0", "weir_cluster_led == 0", "weir_cluster_held == 1",
              "weir_cluster_member_seen_seconds", "weir_cluster_lag_batches",
              "weir_cluster_member_differs")


@test("the alerts name only metrics, labels and values that there are")
def alerts(folder):
    families = shown(folder)
    rules = read_alerts()
    names = [r["alert"] for r in rules]
    equal(len(set(names)), len(names), "names of alerts")
    for r in rules:
        where = "alert " + r["alert"]
        equal(sorted(r), ["alert", "annotations", "description", "expr", "for", "labels",
                          "severity", "summary"], where)
        expect(re.fullmatch(r"\d+[smhd]", r["for"]), where + ": for " + r["for"])
        expect(r["severity"] in ("critical", "warning", "info"), where + ": " + r["severity"])
        labels = check_expression(families, r["expr"], where)
        used = set(re.findall(r"\$labels\.(\w+)", r["summary"] + r["description"]))
        expect(used <= labels, "%s: it tells %s, the result has %s" % (where, used, labels))
    told = "\n".join(r["expr"] for r in rules)
    for words in MUST_ALERT:
        expect(words in told, "no alert for " + words)
    expect(next(r for r in rules if r["expr"] == "weir_gate_level == 2")["for"] == "5m", "5 min")


# ---------------------------------------------------------------- the page

# By the longest beginning that fits.
PARTS = {
    "weir_": "The server", "weir_jobs_": "Jobs", "weir_late_": "Jobs", "weir_slowed_": "Jobs",
    "weir_refused_": "Jobs", "weir_queue_": "Queues", "weir_queues": "Queues",
    "weir_waiting_": "Jobs", "weir_job_": "Times of jobs", "weir_hook_": "Times of jobs",
    "weir_telemetry_": "Traces", "weir_answers_": "Idempotency", "weir_locks_": "Locks",
    "weir_slots_": "Schedules", "weir_log_": "The log", "weir_live_": "The log",
    "weir_fence": "Locks", "weir_door_": "Connections", "weir_gate_": "The gate",
    "weir_cluster_": "The cluster", "weir_check": "Checks", "weir_site_": "WordPress sites", "weir_proxy_": "MySQL doors",
}


def tables(families):
    parts = {}
    for f in families.values():
        part = PARTS[max((b for b in PARTS if f.name.startswith(b)), key=len)]
        labels = ", ".join("`%s`" % label for label in f.labels())
        parts.setdefault(part, []).append("| `%s` | %s | %s | %s |" % (
            f.name, f.type, labels, f.text))
    out = []
    for part in dict.fromkeys(PARTS.values()):
        out += ["", "## " + part, "", "| metric | type | labels | |", "|---|---|---|---|"]
        out += parts.pop(part)
    return "\n".join(out) + "\n"


@test("docs/metrics.md has every family, as /metrics describes it")
def page(folder):
    wanted = tables(shown(folder))
    mark = "<!-- tables: tests/integration/dashboards.py --write -->\n"
    with open(PAGE) as f:
        head, found, rest = f.read().partition(mark)
    expect(found, "the page has no mark: " + mark)
    if "--write" in sys.argv:
        with open(PAGE, "w") as f:
            f.write(head + mark + wanted)
        return
    for line in wanted.split("\n"):
        expect(line in rest.split("\n"), "not in the page: " + line)
    for line in rest.split("\n"):
        expect(line in wanted.split("\n"), "in the page, but not in /metrics: " + short(line))
    equal(rest, wanted, "the tables")


if __name__ == "__main__":
    main()
