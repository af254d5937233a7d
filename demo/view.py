"""What the demo shows: a line a second, and at the end a graph and a verdict."""
from flow import TIERS
from story import (expected_peak, is_undelayed, payment_waits, peak_after, percentile,
                   starts_per_second)

COLUMNS = 72
ROWS = 3                        # of a graph
BARS = " ▁▂▃▄▅▆▇█"
LEVEL_MARKS = {"normal": "·", "unknown": "?", "elevated": "▒", "critical": "█"}
LEGEND = "· normal   ▒ elevated   █ critical   ? unknown"
NAMES = {tier: name for tier, _, name in TIERS}


def head():
    names = "".join("  %-14s" % name for _, _, name in TIERS)
    return ("%6s  %-5s  %-8s  %7s%s  ramp\n%31s%s" % (
        "second", "phase", "level", "threads", names, "", "  started/parked" * len(TIERS)))


def line(second):
    cells = "".join("  %7d %6s" % (second.started[tier], second.parked[tier] or "")
                    for tier, _, _ in TIERS)
    return "%6d  %-5s  %-8s  %7d%s  %s" % (second.at, second.phase, second.level,
                                          second.threads_running, cells, second.ramp)


# ---------------------------------------------------------------- the graph


def bars(values, peak):
    """ROWS lines of text, the highest first."""
    steps = [round(v / peak * ROWS * 8) if peak else 0 for v in values]
    # A value above nothing is seen.
    steps = [max(1, s) if v else 0 for s, v in zip(steps, values)]
    return ["".join(BARS[min(8, max(0, s - 8 * row))] for s in steps)
            for row in reversed(range(ROWS))]


def squeeze(values, width, how):
    """As many values as there are columns."""
    n = len(values)
    return [how(values[i * n // width:max(i * n // width + 1, (i + 1) * n // width)])
            for i in range(width)]


def mean(values):
    return sum(values) / len(values)


def worst(levels):
    return max(levels, key=list(LEVEL_MARKS).index)


def graph(facts):
    width = min(COLUMNS, len(facts.seconds))
    out = []

    def panel(title, values, unit):
        shown = squeeze(values, width, mean)
        peak = max(shown)
        for i, text in enumerate(bars(shown, peak)):
            out.append("%14s %s│%s" % (title if i == ROWS - 1 else "",
                                       "%6.0f" % peak if i == 0 else " " * 6, text))
        out[-1] += "  " + unit

    for tier, _, name in TIERS:
        lives = [life for life in facts.lives if life.tier == tier]
        panel(name, starts_per_second(lives, facts.calm_ms, facts.end_ms), "started a second")
    panel("parked", [sum(s.parked.values()) for s in facts.seconds], "jobs")
    panel("threads", [s.threads_running for s in facts.seconds], "running in the database")
    levels = squeeze([s.level for s in facts.seconds], width, worst)
    out.append("%14s       │%s" % ("level", "".join(LEVEL_MARKS[level] for level in levels)))
    out.append("%14s       └%s %d s" % ("", "─" * width, len(facts.seconds)))
    out.append("%22s%s" % ("", LEGEND))
    return "\n".join(out)


# ---------------------------------------------------------------- the verdict


def waits(lives):
    return "median %d ms, p99 %d ms" % (percentile(lives, 0.5), percentile(lives, 0.99))


def verdict(plan, facts):
    """(is it true, sentence) for each part of the story."""
    of = {tier: [life for life in facts.lives if life.tier == tier] for tier, _, _ in TIERS}
    begin, end = facts.critical_ms
    found = []

    def say(is_true, text, *args):
        found.append((bool(is_true), text % args))

    payments = of["critical"]
    late = sum(bool(life.deferred) for life in payments)
    before, during = payment_waits(facts)
    say(not late, "payments: %d of %d were deferred", late, len(payments))
    say(is_undelayed(before, during), "payments waited %s in the calm, %s while the level was"
        " critical", waits(before), waits(during))
    for tier, word in (("high", "late"), ("normal", "waiting"), ("deferrable", "paused")):
        lives = of[tier]
        late = [life for life in lives if life.deferred]
        started = sum(begin <= life.started < end for life in lives)
        say(late and all(life.completed for life in lives),
            "%s: %d of %d were %s, by %.0f s at most; %d started while the level was critical;"
            " all are complete", NAMES[tier], len(late), len(lives), word,
            max([life.wait_ms() for life in late] or [0]) / 1000, started)
    peak, fair = peak_after(facts), expected_peak(plan, facts)
    say(peak <= 2 * fair, "%d jobs were parked and came back, at most %d starts a second (%.0f is"
        " an even way back)", facts.parked, peak, fair)
    again = [to for at, _, to in facts.transitions if at > end and to != "normal"]
    say(not again, "the level stayed normal afterwards%s", ": " + ", ".join(again) if again else "")
    done = sum(life.completed > 0 for life in facts.lives)
    say(done == len(facts.lives) and not facts.left, "%d of %d jobs are complete", done,
        len(facts.lives))
    return found
