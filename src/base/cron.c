/* Cron expressions.
 *
 * An expression is a few bit sets.  The time of day is independent of the date, so the next due
 * local time is the next bit in three sets of a matching day; the days of a month that match are
 * one 32-bit mask, which depends only on the length of the month and the weekday of its first.
 * The search goes from month to month, never from minute to minute: 29 February on a Monday, 40
 * years away at most, takes 480 steps of which 40 look at days.  The same masks, for all seven
 * first weekdays and each month, tell whether an expression can match at all.
 *
 * Local times become instants in one of two ways (the rules are in the header).  When some hours
 * are left out, a local time maps to one instant (tz_to_utc), and that map never goes back: so the
 * next due instant is that of the first due local time later than all that the clocks have shown.
 * When no hour is left out, instants rule: the search goes through the spans of one offset, and a
 * due local time in the gap between two of them is due at the end of the gap.
 *
 * Parsing is by a table of fields; each item of a list is read by one small reader with a sticky
 * place, and every refusal goes through one function, so that all of them say the same things. */
#include "base/cron.h"

#include "base/civil.h"
#include "base/shown.h"
#include "base/tz.h"

#define YEARS_AHEAD   100
#define HOURS_ALL     0xffffffU
#define WEEKDAYS_ALL  0x7fU
#define NTH_LAST      6             /* the bit of FRIL in nth[] */
#define EVERY_SEVENTH 0x10204081ULL /* bits 0, 7, 14, 21, 28 */
#define SUNDAY        0
#define SATURDAY      6
#define SHOWN_FIELD   40 /* bytes of a wrong one: what is allowed must fit too */

/* --- reading --------------------------------------------------------------------------------- */

enum field_id { SECOND, MINUTE, HOUR, DAY, MONTH, WEEKDAY, FIELDS };

struct field {
        const char *name;
        int min, max;      /* what may be written */
        int step_end;      /* where a/n and star/n end */
        int cycle;         /* values in a round; 0 when ranges may not go round the end */
        const char *names; /* three letters each, the first is that of `min` */
        const char *allowed;
};

#define COMMON "*, lists a,b, ranges a-b and steps */n"

static const struct field fields[FIELDS] = {
        [SECOND] = {"second", 0, 59, 59, 0, "", "0-59, " COMMON},
        [MINUTE] = {"minute", 0, 59, 59, 0, "", "0-59, " COMMON},
        [HOUR] = {"hour", 0, 23, 23, 24, "", "0-23, " COMMON},
        [DAY] = {"day of month", 1, 31, 31, 0, "", "1-31, ?, L, L-3, 15W, LW, " COMMON},
        [MONTH] = {"month", 1, 12, 12, 12, "JANFEBMARAPRMAYJUNJULAUGSEPOCTNOVDEC",
                   "1-12, JAN-DEC, " COMMON},
        [WEEKDAY] = {"day of week", 0, 7, 6, 7, "SUNMONTUEWEDTHUFRISAT",
                     "0-7 (0 and 7 are Sunday), SUN-SAT, ?, FRIL, MON#2, " COMMON},
};

static const struct {
        const char *name, *text;
} shorthands[] = {
        {"@yearly", "0 0 1 1 *"}, {"@annually", "0 0 1 1 *"}, {"@monthly", "0 0 1 * *"},
        {"@weekly", "0 0 * * 0"}, {"@daily", "0 0 * * *"},    {"@midnight", "0 0 * * *"},
        {"@hourly", "0 * * * *"},
};

/* One item of a list, from `at` to `end`. */
struct item {
        const struct field *field;
        int position; /* of the field in the text, from 1 */
        const char *begin, *at, *end;
        struct problem *p;
};

/* Field, what was found, why it will not do, what is allowed. */
static int refuse(const struct item *it, const char *why)
{
        struct slice item = slice_make(it->begin, (size_t)(it->end - it->begin));

        return problem_set(it->p, ERR_BADARG, "cron field %d (%s): \"%s\" %s; allowed: %s",
                           it->position, it->field->name, SHOWN_MAX(item, SHOWN_FIELD), why,
                           it->field->allowed);
}

static char upper(char c)
{
        return c >= 'a' && c <= 'z' ? (char)(c - 'a' + 'A') : c;
}

static bool is_digit(char c)
{
        return c >= '0' && c <= '9';
}

static bool accept(struct item *it, char c)
{
        if (it->at == it->end || upper(*it->at) != c)
                return false;
        it->at++;
        return true;
}

static bool is_done(const struct item *it)
{
        return it->at == it->end;
}

/* A decimal number of any length; everything above 9999 reads as 9999, which no field allows. */
static bool read_number(struct item *it, int *ret)
{
        int v = 0;

        if (is_done(it) || !is_digit(*it->at))
                return false;
        for (; !is_done(it) && is_digit(*it->at); it->at++)
                v = v > 999 ? 9999 : v * 10 + (*it->at - '0');
        *ret = v;
        return true;
}

static bool read_name(struct item *it, int *ret)
{
        const char *names = it->field->names;

        if (it->end - it->at < 3)
                return false;
        for (const char *n = names; *n; n += 3) {
                if (upper(it->at[0]) == n[0] && upper(it->at[1]) == n[1] &&
                    upper(it->at[2]) == n[2]) {
                        it->at += 3;
                        *ret = it->field->min + (int)(n - names) / 3;
                        return true;
                }
        }
        return false;
}

static int read_value(struct item *it, int *ret)
{
        if (read_name(it, ret))
                return OK;
        if (!read_number(it, ret))
                return refuse(it, is_done(it) ? "has a value missing" : "is not understood");
        if (*ret < it->field->min || *ret > it->field->max)
                return refuse(it, "is out of range");
        return OK;
}

/* /n, when it is there; more than a full round would be the first value alone, and a mistake. */
static int read_step(struct item *it, int *ret)
{
        *ret = 1;
        if (!accept(it, '/'))
                return OK;
        if (!read_number(it, ret))
                return refuse(it, "has no number after the /");
        if (*ret < 1 || *ret > it->field->step_end - it->field->min + 1)
                return refuse(it, "has a step that is 0 or longer than the field");
        return OK;
}

static int read_end(const struct item *it)
{
        return is_done(it) ? OK : refuse(it, "is not understood");
}

/* *, a, a-b, each with /n; `first` was read already, -1 stands for the star. */
static int read_range(struct item *it, int first, uint64_t *set)
{
        const struct field *f = it->field;
        bool is_star = first < 0;
        int from = is_star ? f->min : first, until = from, step;
        int err = OK;

        if (!is_star && accept(it, '-')) {
                err = read_value(it, &until);
                if (!err && until < from && !f->cycle)
                        return refuse(it, "is a range that ends before it begins");
                if (until < from)
                        until += f->cycle;
        } else if (is_star || (!is_done(it) && *it->at == '/')) {
                from = from > f->step_end ? f->min : from; /* 7/2 is 0/2 for days of the week */
                until = f->step_end;
        }
        err = err ? err : read_step(it, &step);
        err = err ? err : read_end(it);
        if (err)
                return err;
        for (int v = from; v <= until; v += step)
                *set |= 1ULL << (f->cycle ? f->min + (v - f->min) % f->cycle : v);
        return OK;
}

/* L, L-n, LW; the L was read. */
static int read_last_day(struct item *it, struct cron *c)
{
        int before = 0;

        if (accept(it, 'W')) {
                c->has_last_weekday = true;
                return read_end(it);
        }
        if (accept(it, '-') && (!read_number(it, &before) || before < 1 || before > 30))
                return refuse(it, "must be L-1 to L-30");
        c->days_before_last |= 1U << before;
        return read_end(it);
}

static int read_day(struct item *it, struct cron *c, uint64_t *set)
{
        int value;

        if (accept(it, 'L'))
                return read_last_day(it, c);
        int err = read_value(it, &value);
        if (err)
                return err;
        if (accept(it, 'W')) {
                c->days_near_weekday |= 1U << value;
                return read_end(it);
        }
        return read_range(it, value, set);
}

static int read_weekday(struct item *it, struct cron *c, uint64_t *set)
{
        int value, nth;

        if (accept(it, 'L'))
                return refuse(it, "does not say which day of the week");
        int err = read_value(it, &value);
        if (err)
                return err;
        if (accept(it, 'L')) {
                c->nth[value % 7] |= 1U << NTH_LAST;
                return read_end(it);
        }
        if (accept(it, '#')) {
                if (!read_number(it, &nth) || nth < 1 || nth > 5)
                        return refuse(it, "must have a number from 1 to 5 after the #");
                c->nth[value % 7] |= (uint8_t)(1U << nth);
                return read_end(it);
        }
        return read_range(it, value, set);
}

static int read_item(struct item *it, enum field_id id, struct cron *c, uint64_t *set)
{
        int value;

        if (is_done(it))
                return refuse(it, "is an empty item of a list");
        if (accept(it, '*'))
                return read_range(it, -1, set);
        if ((id == DAY || id == WEEKDAY) && accept(it, '?'))
                return is_done(it) ? read_range(it, -1, set) : refuse(it, "is not a lone ?");
        if (id == DAY)
                return read_day(it, c, set);
        if (id == WEEKDAY)
                return read_weekday(it, c, set);
        int err = read_value(it, &value);
        return err ? err : read_range(it, value, set);
}

static void store(struct cron *c, enum field_id id, uint64_t set)
{
        switch (id) {
        case SECOND:
                c->seconds = set;
                break;
        case MINUTE:
                c->minutes = set;
                break;
        case HOUR:
                c->hours = (uint32_t)set;
                break;
        case DAY:
                c->days = (uint32_t)set;
                break;
        case MONTH:
                c->months = (uint32_t)set;
                break;
        case WEEKDAY:
                c->weekdays = (uint8_t)set;
                break;
        case FIELDS:
                ASSERT(id != FIELDS);
        }
}

static int read_field(struct slice text, enum field_id id, int position, struct cron *c,
                      struct problem *p)
{
        const char *end = text.ptr + text.len;
        uint64_t set = 0;

        for (const char *at = text.ptr;;) {
                const char *comma = memchr(at, ',', (size_t)(end - at));
                struct item it = {&fields[id], position, at, at, comma ? comma : end, p};
                int err = read_item(&it, id, c, &set);
                if (err)
                        return err;
                if (!comma)
                        break;
                at = comma + 1;
        }
        if ((id == DAY || id == WEEKDAY) && (text.ptr[0] == '*' || text.ptr[0] == '?'))
                c->needs_both = true;
        store(c, id, set);
        return OK;
}

static bool is_blank(char c)
{
        return c == ' ' || c == '\t';
}

/* The number of words; the first `max` of them in ret. */
static int split(struct slice text, struct slice *ret, int max)
{
        int n = 0;

        if (text.len == 0)
                return 0; /* there may be no pointer to add to */
        const char *at = text.ptr, *end = text.ptr + text.len;
        for (;;) {
                while (at < end && is_blank(*at))
                        at++;
                if (at == end)
                        return n;
                const char *begin = at;
                while (at < end && !is_blank(*at))
                        at++;
                if (n < max)
                        ret[n] = slice_make(begin, (size_t)(at - begin));
                n++;
        }
}

/* Puts the text that a shorthand stands for in its place. */
static int expand(struct slice name, struct slice *ret, struct problem *p)
{
        for (size_t i = 0; i < ARRAY_LEN(shorthands); i++) {
                if (slice_eq_nocase(name, slice_str(shorthands[i].name))) {
                        *ret = slice_str(shorthands[i].text);
                        return OK;
                }
        }
        if (name.len >= 6 && slice_eq_nocase(slice_make(name.ptr, 6), SLICE_LIT("@every")))
                return problem_set(p, ERR_BADARG,
                                   "@every is not a cron expression; use an interval schedule");
        return problem_set(p, ERR_BADARG,
                           "cron shorthand \"%s\" is not known; allowed: @yearly @annually "
                           "@monthly @weekly @daily @midnight @hourly",
                           SHOWN_MAX(name, SHOWN_FIELD));
}

/* --- days ------------------------------------------------------------------------------------ */

/* The weekday (Monday to Friday) nearest to a day, within the month. */
static int near_weekday(int day, int length, int first_weekday)
{
        int weekday = (first_weekday + day - 1) % 7;

        if (weekday == SATURDAY)
                return day > 1 ? day - 1 : day + 2;
        if (weekday == SUNDAY)
                return day < length ? day + 1 : day - 2;
        return day;
}

static uint32_t month_days_by_date(const struct cron *c, int length, int first_weekday)
{
        uint32_t found = c->days;

        for (uint32_t set = c->days_before_last; set; set &= set - 1)
                if (__builtin_ctz(set) < length)
                        found |= 1U << (length - __builtin_ctz(set));
        for (uint32_t set = c->days_near_weekday; set; set &= set - 1)
                if (__builtin_ctz(set) <= length)
                        found |= 1U << near_weekday(__builtin_ctz(set), length, first_weekday);
        if (c->has_last_weekday)
                found |= 1U << near_weekday(length, length, first_weekday);
        return found;
}

static uint32_t month_days_by_weekday(const struct cron *c, uint32_t all, int first_weekday)
{
        uint32_t found = 0;

        for (int w = 0; w < 7; w++) {
                int first = 1 + (w - first_weekday + 7) % 7;
                uint32_t column = (uint32_t)(EVERY_SEVENTH << first) & all;
                if (c->weekdays >> w & 1)
                        found |= column;
                for (int n = 1; n <= 5; n++)
                        if (c->nth[w] >> n & 1)
                                found |= (uint32_t)(1ULL << (first + 7 * (n - 1))) & all;
                if (c->nth[w] >> NTH_LAST & 1)
                        found |= 1U << (31 - __builtin_clz(column));
        }
        return found;
}

/* The days that match, bit n for the n-th, in a month of that length and first weekday. */
static uint32_t month_days(const struct cron *c, int length, int first_weekday)
{
        uint32_t all = (uint32_t)((2ULL << length) - 2);
        uint32_t by_date = month_days_by_date(c, length, first_weekday) & all;

        if (c->needs_both && c->weekdays == WEEKDAYS_ALL)
                return by_date; /* the usual case, a plain star */
        uint32_t by_weekday = month_days_by_weekday(c, all, first_weekday);
        return c->needs_both ? by_date & by_weekday : by_date | by_weekday;
}

/* Every month begins on every weekday within 40 years, a leap February too: so what is possible
 * here is found by a search of 100 years. */
static bool is_possible(const struct cron *c)
{
        for (int m = 1; m <= 12; m++)
                for (int w = 0; w < 7; w++)
                        if (c->months >> m & 1 && (month_days(c, days_in_month(2000, m), w) ||
                                                   month_days(c, days_in_month(2001, m), w)))
                                return true;
        return false;
}

/* --- the public half of reading -------------------------------------------------------------- */

static int check_possible(const struct cron *c, const struct slice *words, struct problem *p)
{
        if (is_possible(c))
                return OK;
        return problem_set(p, ERR_BADARG,
                           "cron field \"day of month\": \"%s\" with month \"%s\" and day of "
                           "week \"%s\" is no day of any year; allowed: days that exist, such as "
                           "29 2 * or L 2 *",
                           SHOWN_MAX(words[0], SHOWN_FIELD), SHOWN_MAX(words[1], SHOWN_FIELD),
                           SHOWN_MAX(words[2], SHOWN_FIELD));
}

int cron_parse(struct slice text, struct cron *ret, struct problem *p)
{
        struct slice words[FIELDS];
        struct cron c = {.seconds = 1};

        if (text.len > CRON_TEXT_MAX)
                return problem_set(p, ERR_BADARG,
                                   "the cron expression has %zu bytes; allowed: at most %d",
                                   text.len, CRON_TEXT_MAX);
        int n = split(text, words, FIELDS);
        if (n >= 1 && words[0].ptr[0] == '@') {
                int err = expand(words[0], &text, p);
                if (err)
                        return err;
                if (n > 1)
                        return problem_set(p, ERR_BADARG,
                                           "a cron shorthand stands alone; found: %d more words",
                                           n - 1);
                n = split(text, words, FIELDS);
        }
        if (n != FIELDS && n != FIELDS - 1)
                return problem_set(p, ERR_BADARG,
                                   "the cron expression has %d fields; allowed: 5 (minute hour "
                                   "day-of-month month day-of-week), 6 with the second first, or "
                                   "@daily and the like",
                                   n);
        for (int i = 0; i < n; i++) {
                int err = read_field(words[i], (enum field_id)(i + FIELDS - n), i + 1, &c, p);
                if (err)
                        return err;
        }
        int err = check_possible(&c, words + n - 3, p);
        if (!err)
                *ret = c;
        return err;
}

/* --- the next one ---------------------------------------------------------------------------- */

/* The lowest bit of a set that is >= from, or -1. */
static int next_bit(uint64_t set, int from)
{
        uint64_t left = from > 63 ? 0 : set >> from << from;

        return left ? __builtin_ctzll(left) : -1;
}

/* The first due second of a day that is >= from_s, or -1. */
static int next_time_of_day(const struct cron *c, int from_s)
{
        int h = from_s / 3600, m = from_s / 60 % 60, s = from_s % 60;

        for (;;) {
                int hour = next_bit(c->hours, h);
                if (hour < 0)
                        return -1;
                if (hour > h)
                        m = s = 0;
                int minute = next_bit(c->minutes, m);
                if (minute < 0) {
                        h = hour + 1;
                        m = s = 0;
                        continue;
                }
                if (minute > m)
                        s = 0;
                int second = next_bit(c->seconds, s);
                if (second >= 0)
                        return hour * 3600 + minute * 60 + second;
                h = hour;
                m = minute + 1;
                s = 0;
        }
}

/* The first matching day >= day, INT64_MAX when there is none within YEARS_AHEAD. */
static int64_t next_day(const struct cron *c, int64_t day)
{
        struct civil d = civil_from_days(day);
        int64_t first = day - (d.day - 1), last_year = d.year + YEARS_AHEAD;

        while (d.year <= last_year) {
                int length = days_in_month(d.year, d.month);
                if (c->months >> d.month & 1) {
                        uint32_t found = month_days(c, length, weekday_from_days(first));
                        int in = next_bit(found, d.day);
                        if (in >= 0)
                                return first + in - 1;
                }
                first += length;
                d.day = 1;
                d.month = d.month % 12 + 1;
                d.year += d.month == 1;
        }
        return INT64_MAX;
}

/* The first due local time >= local_s, INT64_MAX when there is none. */
static int64_t next_local(const struct cron *c, int64_t local_s)
{
        int64_t today = floor_div(local_s, CIVIL_S_PER_DAY);
        int64_t day = next_day(c, today);

        if (day == today) {
                int at = next_time_of_day(c, (int)(local_s - today * CIVIL_S_PER_DAY));
                if (at >= 0)
                        return today * CIVIL_S_PER_DAY + at;
                day = next_day(c, today + 1);
        }
        if (day == INT64_MAX)
                return INT64_MAX;
        return day * CIVIL_S_PER_DAY + next_time_of_day(c, 0);
}

/* The latest local time that the clocks had shown by an instant: while a repeated hour lasts, that
 * was before they were set back.  Two days are more than any such step. */
static int64_t latest_shown(const struct tz *tz, int64_t utc_s)
{
        struct tz_span span = tz_span_at(tz, utc_s);
        int64_t latest = utc_s + span.offset_s;

        while (span.from_s > utc_s - 2LL * CIVIL_S_PER_DAY) {
                int64_t end = span.from_s - 1;
                span = tz_span_at(tz, end);
                if (end + span.offset_s > latest)
                        latest = end + span.offset_s;
        }
        return latest;
}

/* Some hours are left out: each local time once. */
static int64_t next_by_local_time(const struct cron *c, const struct tz *tz, int64_t after_s)
{
        int64_t local = next_local(c, latest_shown(tz, after_s) + 1);

        return local == INT64_MAX ? INT64_MAX : tz_to_utc(tz, local, NULL);
}

/* Every hour: each instant whose local time is due, and the ends of gaps. */
static int64_t next_by_instant(const struct cron *c, const struct tz *tz, int64_t after_s)
{
        struct tz_span span = tz_span_at(tz, after_s);
        int64_t local = next_local(c, after_s + span.offset_s + 1);

        while (local != INT64_MAX && local - span.offset_s >= span.until_s) {
                struct tz_span next = tz_span_at(tz, span.until_s);
                int64_t begins = next.from_s + next.offset_s;
                if (next.offset_s > span.offset_s && local < begins)
                        return next.from_s;
                if (next.offset_s < span.offset_s)
                        local = next_local(c, begins);
                span = next;
        }
        return local == INT64_MAX ? INT64_MAX : local - span.offset_s;
}

int64_t cron_next(const struct cron *c, const struct tz *tz, int64_t after_ms)
{
        int64_t after_s = floor_div(after_ms, MS_PER_S);
        int64_t next_s = c->hours == HOURS_ALL ? next_by_instant(c, tz, after_s)
                                               : next_by_local_time(c, tz, after_s);

        return next_s > INT64_MAX / MS_PER_S ? INT64_MAX : next_s * MS_PER_S;
}
