#!/usr/bin/python3
# weir-test: timeout=300 outer=part
"""base/tz and base/cron against others that know: Python's zoneinfo and calendar, two libraries.

Nothing here shares a line or a method with what it judges.  Zones are compared with zoneinfo;
schedules with a search that lists every day of a year, and with a walk over every minute around
every change of the clocks.  A schedule is made together with a Python function that says which days
and times it means, so no parser is needed on this side.  The libraries croner and cron-parser judge
the meaning of the expressions where their dialects agree with ours, away from clock changes.

    WEIR_SEED=7 tests/integration/cron_oracle.py      repeats the run of seed 7
    WEIR_ROUNDS=10 ...                                ten times as many schedules
    tests/integration/cron_oracle.py --outer          all zones, years and schedules; else a part
"""
import calendar
import glob
import os
import random
import struct
import subprocess
import sys
import tempfile
import unittest
import zoneinfo
from datetime import date, datetime, timedelta, timezone

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
SEED = int(os.environ.get("WEIR_SEED", 1))
ROUNDS = int(os.environ.get("WEIR_ROUNDS", 1))
IS_OUTER = "--outer" in sys.argv
SHARE = 1 if IS_OUTER else 5  # the part of the work that is done: one of so many
EPOCH = datetime(1970, 1, 1)
SECOND = timedelta(seconds=1)

# Changes at midnight, at 00:01, by half an hour, by two hours, by a day, with negative daylight
# saving time, of offset without it, and twice a year around Ramadan.
ZONES = ["Africa/Cairo", "Africa/Casablanca", "America/Caracas", "America/Havana",
         "America/New_York", "America/Nuuk", "America/Santiago", "America/Sao_Paulo",
         "America/St_Johns", "Antarctica/Troll", "Asia/Amman", "Asia/Gaza", "Asia/Pyongyang",
         "Asia/Tehran", "Australia/Lord_Howe", "Australia/Sydney", "Europe/Berlin",
         "Europe/Dublin", "Europe/London", "Europe/Moscow", "Pacific/Apia", "Pacific/Auckland",
         "Pacific/Chatham", "Pacific/Easter"]


class Probe:
    """The C side; all questions of a test go to one process at once."""

    folder = None

    @classmethod
    def build(cls):
        """With the objects of the build that is tested, if that has sanitizers."""
        cls.folder = tempfile.TemporaryDirectory()
        cls.path = os.path.join(cls.folder.name, "cron_probe")
        library = os.path.join(os.environ.get("WEIR_BUILD", ""), "libweir.a")
        is_built = library.endswith("asan/libweir.a") and os.path.exists(library)
        subprocess.run(
            [os.environ.get("CC", "cc"), "-std=gnu17", "-D_GNU_SOURCE", "-O1", "-g", "-pthread",
             "-fsanitize=address,undefined", "-fno-sanitize-recover=all",
             "-I" + os.path.join(ROOT, "src"), os.path.join(HERE, "cron_probe.c"), "-o", cls.path]
            + ([library] if is_built else sorted(glob.glob(os.path.join(ROOT, "src/base/*.c"))))
            + ["-lm"], check=True)

    @classmethod
    def ask(cls, lines):
        done = subprocess.run([cls.path], input="\n".join(lines) + "\n", text=True,
                              stdout=subprocess.PIPE, check=True)
        answers = done.stdout.split("\n")[:-1]
        assert len(answers) == len(lines)
        return answers


# --- what zoneinfo says --------------------------------------------------------------------------


def offset_at(zone, at):
    return int((datetime.fromtimestamp(at, zone)).utcoffset().total_seconds())


def local_datetime(local):
    return EPOCH + timedelta(seconds=local)


def gap_end(zone, low, high, before):
    """The first instant in (low, high] at which the offset is no longer `before`."""
    while high - low > 1:
        middle = (low + high) // 2
        if offset_at(zone, middle) == before:
            low = middle
        else:
            high = middle
    return high


def instants(zone, naive):
    """The instants of a local time by PEP 495: (kind, [instants])."""
    first = naive.replace(tzinfo=zone)
    before = first.utcoffset() // SECOND
    after = first.replace(fold=1).utcoffset() // SECOND
    local = (naive - EPOCH) // SECOND
    if before == after:
        return "u", [local - before]
    if before > after:
        return "r", [local - before, local - after]
    return "s", [gap_end(zone, local - after - 1, local - before, before)]


def changes_in_file(name):
    """The 64-bit times of a zone file and its footer's presence."""
    with open("/usr/share/zoneinfo/" + name, "rb") as f:
        data = f.read()
    isut, isstd, leap, times, types, chars = struct.unpack(">6l", data[20:44])
    at = 44 + times * 5 + types * 6 + chars + leap * 8 + isstd + isut
    (times,) = struct.unpack(">l", data[at + 32:at + 36])
    return data, list(struct.unpack(">%dq" % times, data[at + 44:at + 44 + 8 * times]))


def changes_seen(zone, years):
    """The changes of offset that a look at every noon finds."""
    found = []
    noon = int(datetime(years[0], 1, 1, 12, tzinfo=timezone.utc).timestamp())
    last = offset_at(zone, noon)
    for at in range(noon + 86400, int(datetime(years[-1] + 1, 1, 1).timestamp()), 86400):
        now = offset_at(zone, at)
        if now != last:
            found.append(gap_end(zone, at - 86400, at, last))
        last = now
    return found


# --- schedules with their meaning ----------------------------------------------------------------


class Dice(random.Random):
    def chance(self, percent):
        return self.randrange(100) < percent


MONTHS = "JAN FEB MAR APR MAY JUN JUL AUG SEP OCT NOV DEC".split()
WEEKDAYS = "SUN MON TUE WED THU FRI SAT".split()


def cased(dice, word):
    return "".join(dice.choice((c.lower(), c.upper())) for c in word)


def spelled(dice, value, low, names):
    if names and value - low < len(names) and dice.chance(40):
        return cased(dice, names[value - low])
    return ("%02d" if dice.chance(10) else "%d") % value


def ring(low, high, begin, end, step):
    """begin to end, round the end when that comes first."""
    chosen, value, n = set(), begin, 0
    while True:
        if n % step == 0:
            chosen.add(value)
        if value == end:
            return chosen
        value, n = (low if value == high else value + 1), n + 1


def part(dice, low, high, names, is_round, kinds=(0, 1, 2, 3, 4)):
    """One item of a list: (text, values)."""
    a, b = dice.randint(low, high), dice.randint(low, high)
    if not is_round and a > b:
        a, b = b, a
    step = dice.randint(1, (high - low) // 2 + 1)
    a_text, b_text = spelled(dice, a, low, names), spelled(dice, b, low, names)
    what = dice.choice(kinds)
    if what == 1:
        return f"{a_text}-{b_text}", ring(low, high, a, b, 1)
    if what == 2:
        return f"{a_text}-{b_text}/{step}", ring(low, high, a, b, step)
    if what == 3:
        return f"{a_text}/{step}", set(range(a, high + 1, step))
    if what == 4:
        return f"*/{step}", set(range(low, high + 1, step))
    return a_text, {a}


# What every dialect has: one value, a range, either with a step; and what ours has besides.
COMMON = {"is_round": False, "kinds": (0, 1, 2, 4), "most": 1}
OURS = {"is_round": True, "kinds": (0, 0, 1, 2, 3, 4), "most": 3}


def field(dice, low, high, names=(), star=50, is_round=False, kinds=(0, 0, 1, 2, 3, 4), most=3):
    """A field without special letters: (text, values)."""
    if dice.chance(star):
        return "*", set(range(low, high + 1))
    parts = [part(dice, low, high, names, is_round, kinds) for _ in range(dice.randint(1, most))]
    return ",".join(t for t, _ in parts), set().union(*(v for _, v in parts))


def month_length(day):
    return calendar.monthrange(day.year, day.month)[1]


def nearest_weekday(year, month, number):
    """By trying: the weekday of the month with the smallest distance to the day."""
    length = calendar.monthrange(year, month)[1]
    if number > length:
        return None
    working = [d for d in range(1, length + 1) if date(year, month, d).weekday() < 5]
    return min(working, key=lambda d: (abs(d - number), d))


def column(day):
    """All days of the month with the weekday of this day, in order."""
    weeks = calendar.monthcalendar(day.year, day.month)
    return [week[day.weekday()] for week in weeks if week[day.weekday()]]


def sunday_first(day):
    return day.isoweekday() % 7


def day_of_month_field(dice, is_ours):
    if dice.chance(50):
        return dice.choice("*?"), lambda day: True
    if not is_ours:
        text, values = field(dice, 1, 31, star=0, **COMMON)
        return text, lambda day: day.day in values
    tests, texts = [], []
    for _ in range(dice.randint(1, 3)):
        what = dice.randrange(10)
        n = dice.randint(1, 31)
        if what == 0:
            texts.append(cased(dice, "L"))
            tests.append(lambda day: day.day == month_length(day))
        elif what == 1:
            n = dice.randint(1, 30)
            texts.append(f"L-{n}")
            tests.append(lambda day, n=n: day.day == month_length(day) - n)
        elif what == 2:
            texts.append(cased(dice, f"{n}W"))
            tests.append(lambda day, n=n: day.day == nearest_weekday(day.year, day.month, n))
        elif what == 3:
            texts.append(cased(dice, "LW"))
            tests.append(lambda day: day.day == max(
                d for w in calendar.monthcalendar(day.year, day.month) for d in w[:5]))
        else:
            text, values = part(dice, 1, 31, (), False)
            texts.append(text)
            tests.append(lambda day, values=values: day.day in values)
    return ",".join(texts), lambda day: any(t(day) for t in tests)


def day_of_week_field(dice, is_ours):
    if dice.chance(50):
        return dice.choice("*?"), lambda day: True
    if not is_ours:
        text, values = field(dice, 0, 6, WEEKDAYS, star=0, **COMMON)
        return text, lambda day: sunday_first(day) in values
    tests, texts = [], []
    for _ in range(dice.randint(1, 3)):
        what = dice.randrange(9)
        n, w = dice.randint(1, 5), dice.randint(0, 6)
        name = spelled(dice, 7 if w == 0 and dice.chance(30) else w, 0, WEEKDAYS)
        if what == 0:
            texts.append(f"{name}{cased(dice, 'L')}")
            tests.append(lambda day, w=w: sunday_first(day) == w and day.day == column(day)[-1])
        elif what == 1:
            texts.append(f"{name}#{n}")
            tests.append(lambda day, w=w, n=n: sunday_first(day) == w
                         and column(day)[n - 1:n] == [day.day])
        elif what == 2:
            begin = 7 if name in ("7", "07") else w
            texts.append(f"{name}-7")
            tests.append(lambda day, begin=begin: day.isoweekday() >= begin)
        else:
            text, values = part(dice, 0, 6, WEEKDAYS, True)
            texts.append(text)
            tests.append(lambda day, values=values: sunday_first(day) in values)
    return ",".join(texts), lambda day: any(t(day) for t in tests)


class Schedule:
    def __init__(self, dice, is_ours=True):
        style = OURS if is_ours else COMMON
        flat = {**style, "is_round": False}
        has_seconds = dice.chance(25)
        second, self.seconds = field(dice, 0, 59, star=0, **flat) if has_seconds else ("0", {0})
        if len(self.seconds) > 2:
            second, self.seconds = "17,43", {17, 43}
        minute, self.minutes = field(dice, 0, 59, star=0, **flat)
        if len(self.minutes) * len(self.seconds) > 2:  # a year of these would be long
            minute, self.minutes = part(dice, 0, 59, (), False, kinds=(0,))
        hour, self.hours = field(dice, 0, 23, star=12, **style)
        dom, dom_test = day_of_month_field(dice, is_ours)
        month, months = field(dice, 1, 12, MONTHS, star=60, **style)
        dow, dow_test = day_of_week_field(dice, is_ours)
        if dom[0] in "*?" or dow[0] in "*?":
            self.has_day = lambda day: day.month in months and dom_test(day) and dow_test(day)
        else:
            self.has_day = lambda day: day.month in months and (dom_test(day) or dow_test(day))
        self.text = dice.choice((" ", "  ", "\t") if is_ours else (" ",)).join(
            ([second] if has_seconds else []) + [minute, hour, dom, month, dow])
        self.dom, self.dow = dom, dow

    def times_of_day(self):
        return [timedelta(hours=h, minutes=m, seconds=s) for h in sorted(self.hours)
                for m in sorted(self.minutes) for s in sorted(self.seconds)]

    def due(self, zone, begin, end):
        """All due instants in [begin, end): every day is looked at."""
        found = set()
        day = datetime.utcfromtimestamp(begin).date() - timedelta(days=2)
        last = datetime.utcfromtimestamp(end).date() + timedelta(days=2)
        times = self.times_of_day()
        most = 2 if len(self.hours) == 24 else 1
        while day <= last:
            if self.has_day(day):
                midnight = datetime(day.year, day.month, day.day)
                for t in times:
                    found.update(instants(zone, midnight + t)[1][:most])
            day += timedelta(days=1)
        return sorted(x for x in found if begin <= x < end)


# --- the tests -----------------------------------------------------------------------------------


def numbers(answer):
    return [int(x) for x in answer.split()]


class Zones(unittest.TestCase):
    def sampled(self):
        """(name, zone, instants) for each zone with data of its own."""
        dice, seen = Dice(SEED), set()
        for name in sorted(zoneinfo.available_timezones() - {"localtime"}):
            data, changes = changes_in_file(name)
            if data in seen and name not in ZONES:
                continue
            seen.add(data)
            zone = zoneinfo.ZoneInfo(name)
            # Before the year 1 there is no datetime; some files begin with the Big Bang.
            points = {c + d for c in changes if c > -50000000000 for d in (-1, 0, 1)}
            points.update(dice.randrange(-6000000000, 10000000000) for _ in range(200))
            points.update(dice.randrange(2100000000, 7000000000) for _ in range(100))
            yield name, zone, sorted(points)

    def test_every_zone_has_the_offsets_of_zoneinfo_at_and_between_all_changes(self):
        questions, wanted = [], []
        for name, zone, points in self.sampled():
            questions += ["zone " + name, "offset " + " ".join(map(str, points))]
            wanted += [name, [offset_at(zone, x) for x in points]]
        for question, answer, want in zip(questions, Probe.ask(questions), wanted):
            if isinstance(want, str):
                name = want
                self.assertEqual(answer, want)
            else:
                self.assertEqual(numbers(answer), want, name)
        self.assertGreater(len(questions), 600)

    def test_local_times_are_unique_skipped_or_repeated_as_in_zoneinfo(self):
        dice, questions, wanted = Dice(SEED + 2), [], []
        for name, zone, points in self.sampled():
            if name not in ZONES and dice.randrange(SHARE):
                continue
            locals_ = set()
            for x in points:
                if -3000000000 < x < 8000000000:
                    locals_.update((x + offset_at(zone, x), x + offset_at(zone, x - 1),
                                    x + offset_at(zone, x) - 1800))
            locals_ = sorted(locals_)
            questions += ["zone " + name, "utc " + " ".join(map(str, locals_))]
            wanted += [None, [(x, *instants(zone, local_datetime(x))) for x in locals_]]
        kinds = {"u": 0, "s": 0, "r": 0}
        for question, answer, want in zip(questions, Probe.ask(questions), wanted):
            if want is None:
                name = answer
                continue
            got = answer.split()
            self.assertEqual(len(got), len(want))
            for (local, kind, ats), g in zip(want, got):
                kinds[kind] += 1
                if g != f"{ats[0]}/{kind}":
                    self.fail(f"{name} local {local_datetime(local)}: {g}, not {ats[0]}/{kind}")
        self.assertGreater(min(kinds.values()), 10000 // SHARE)


class Schedules(unittest.TestCase):
    def test_schedule_years_are_what_a_list_of_all_days_says(self):
        dice = Dice(SEED)
        questions, asked = [], []
        count = 0
        while count < 520 * ROUNDS // SHARE:
            s = Schedule(dice)
            name = dice.choice(ZONES)
            zone = zoneinfo.ZoneInfo(name)
            begin = int(datetime(dice.randint(1972, 2060), 1, 1, tzinfo=timezone.utc).timestamp())
            begin += dice.randrange(86400)
            count += 1
            questions += ["zone " + name, f"due {begin} {begin + 366 * 86400} {s.text}"]
            asked.append((name, begin, s, s.due(zone, begin, begin + 366 * 86400)))
        answers = Probe.ask(questions)[1::2]
        total = 0
        for (name, begin, s, want), answer in zip(asked, answers):
            if answer.startswith("! "):
                self.assert_impossible(s, answer)
                continue
            self.compare(numbers(answer), want, f"{s.text!r} in {name} from {begin}")
            total += len(want)
        print(f"# {total} times of {count} schedule-years", flush=True)
        self.assertGreater(total, 50000 // SHARE)

    def assert_impossible(self, s, answer):
        """No day of a whole cycle of the calendar may match what was refused as impossible."""
        self.assertIn("no day of any year", answer, s.text)
        day, end = date(2000, 1, 1), date(2040, 1, 1)
        while day < end:
            self.assertFalse(s.has_day(day), f"{s.text!r} {day}")
            day += timedelta(days=1)

    def compare(self, got, want, what):
        if got == want:
            return
        wrong = sorted(set(got) ^ set(want))[:5]
        self.fail(what + ": " + ", ".join(
            f"{datetime.utcfromtimestamp(x)}Z {'missing' if x in want else 'too much'}"
            for x in wrong))

    def test_at_every_clock_change_a_walk_over_all_minutes_finds_the_same_times(self):
        daily = ["30 2 * * *", "0 2 * * *", "59 1 * * *", "0 0 * * *", "30 0 * * *", "5 23 * * *",
                 "0 3 * * *", "* 0-22 * * *", "*/10 1-3 * * *", "0 */2 * * *", "15,45 22-2 * * *",
                 "* * * * *", "*/10 * * * *", "0 * * * *", "30 * * * *", "15 0-23 * * *"]
        hits = [self.minutes_of(text) for text in daily]
        dice, questions, wanted, changes = Dice(SEED + 3), [], [], 0
        for name in ZONES:
            zone = zoneinfo.ZoneInfo(name)
            questions.append("zone " + name)
            wanted.append(None)
            for at in changes_seen(zone, range(1973, 2050)):
                if dice.randrange(SHARE):
                    continue
                changes += 1
                walk = self.walk(zone, at)
                for text, (hit, is_hourly) in zip(daily, hits):
                    questions.append(f"due {walk[0][0]} {walk[0][-1] + 60} {text}")
                    wanted.append((name, at, walk, hit, is_hourly))
        for question, answer, want in zip(questions, Probe.ask(questions), wanted):
            if want is not None:
                name, at, walk, hit, is_hourly = want
                self.compare(numbers(answer), self.expected(walk, hit, is_hourly),
                             f"{question} in {name}, change at {at}")
        print(f"# {changes} clock changes of {len(ZONES)} zones", flush=True)
        self.assertGreater(changes, 1500 // SHARE)

    def minutes_of(self, text):
        """Which minutes of a day an expression of plain times means, by a simple reading of it."""
        def values(field, size):
            chosen = set()
            for item in field.split(","):
                span, _, step = item.partition("/")
                low, _, high = span.partition("-")
                low, high = (0, size - 1) if low == "*" else (int(low), int(high or low))
                chosen.update((low + k) % size for k in range(0, (high - low) % size + 1,
                                                              int(step or 1)))
            return chosen
        minute, hour = text.split()[:2]
        hit = bytearray(1440)
        for h in values(hour, 24):
            for m in values(minute, 60):
                hit[h * 60 + m] = 1
        return hit, len(values(hour, 24)) == 24

    def walk(self, zone, change):
        """Every minute around a change: instants, local minutes, whether shown for the first time,
        and the skipped local minutes by the index of the instant after them."""
        ats = range(change - 4 * 3600, change + 4 * 3600 + 1, 60)
        shown = [(at + offset_at(zone, at)) // 60 for at in ats]
        fresh, skipped, latest = [], {}, shown[0] - 1
        for i, local in enumerate(shown):
            fresh.append(local > latest)
            if local > latest + 1:
                skipped[i] = range(latest + 1, local)
            latest = max(latest, local)
        return ats, shown, fresh, skipped

    def expected(self, walk, hit, is_hourly):
        ats, shown, fresh, skipped = walk
        found = {at for at, local, first in zip(ats, shown, fresh)
                 if hit[local % 1440] and (first or is_hourly)}
        found.update(ats[i] for i, gap in skipped.items() if any(hit[x % 1440] for x in gap))
        return sorted(found)


def is_passed_over(seconds):
    """By croner 11.0.0: 1 March of a leap year, when both fields of days say something."""
    at = EPOCH + timedelta(seconds=seconds)
    return (at.month, at.day) == (3, 1) and calendar.isleap(at.year)


class Libraries(unittest.TestCase):
    def test_croner_and_cron_parser_mean_the_same_by_an_expression(self):
        dice = Dice(SEED + 1)
        begin, count = 1704067200, 12
        texts = ["0 0 L * *", "0 9 * * FRIL", "30 8 * * 1#2", "0 0 13 * FRI", "0 12 29 2 *",
                 "*/5 9-17 * * MON-FRI", "0 0 1,15 * *", "10 0 0 1 1 *", "0 0 * * 7",
                 "0 4 8-14 * *",
                 "15 10 ? * 6L", "0 0 1 JAN,jul *", "3/7 */6 * * *", "0 0 31 * *"]
        while len(texts) < 200 * ROUNDS:
            s = Schedule(dice, is_ours=False)
            # A star with a step in one day field beside the other is read in many ways, and
            # croner takes SUN-SUN for all days.
            if not (any(x[0] in "*?" and len(x) > 1 for x in (s.dom, s.dow))
                    or "-SUN" in s.dow.upper()):
                texts.append(s.text)
        ours = Probe.ask(["due %d %d %s" % (begin + 1, begin + 3600 * 24 * 366 * 9, t)
                          for t in texts])
        done = subprocess.run(["node", os.path.join(HERE, "clients", "cron_libraries.js")],
                              input="".join("%d000 %d UTC %s\n" % (begin, count, t) for t in texts),
                              text=True, stdout=subprocess.PIPE, check=True)
        compared = {"croner": 0, "cron-parser": 0}
        for text, our, line in zip(texts, ours, done.stdout.splitlines()):
            for library, their in zip(compared, line.split(";")):
                if their.startswith("!") or our.startswith("!"):
                    continue
                got, want = numbers(our), numbers(their)
                if library == "croner":
                    got = [t for t in got if t in want or not is_passed_over(t)]
                got = got[:count]
                self.assertEqual(got, want[:len(got)], f"{library}: {text}")
                compared[library] += 1
        print(f"# compared: {compared}", flush=True)
        self.assertGreater(min(compared.values()), 0.95 * len(texts))


if __name__ == "__main__":
    print(f"# cron_oracle: WEIR_SEED={SEED}", flush=True)
    Probe.build()
    unittest.main(argv=[sys.argv[0]], verbosity=0)
