/* Reading and writing time for people.
 *
 * A duration without a unit is refused rather than guessed: "30" is seconds to one and
 * milliseconds to another, and the difference is a job that runs now or in half a minute.
 * A moment without a zone is local, as the clock of the person who types it. */
#include "cli/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/shown.h"

static bool is_digit(char c)
{
        return c >= '0' && c <= '9';
}

int duration_parse(const char *what, const char *text, int64_t *ret_ms, struct problem *p)
{
        bool is_bare = text[strspn(text, "0123456789")] == '\0';
        if (!is_bare && slice_to_duration_ms(slice_str(text), ret_ms))
                return OK;
        const char *shown = SHOWN_MAX(slice_str(text), 40);
        if (*text && is_bare)
                return problem_set(p, ERR_BADARG, "%s: %s of what? Write %sms, %ss or %sm", what,
                                   shown, shown, shown, shown);
        return problem_set(p, ERR_BADARG,
                           "%s: '%s' is no duration: 500ms, 30s, 5m, 2h, 1d, or a sum like 1h30m, "
                           "the larger unit first",
                           what, shown);
}

int seconds_parse(const char *what, const char *text, int64_t min_ms, int64_t *ret_ms,
                  struct problem *p)
{
        const int64_t day_ms = 86400000;
        int r = OK;
        if (*text && text[strspn(text, "0123456789")] == '\0') {
                r = number_parse(what, text, (struct range){0, day_ms / 1000}, ret_ms, p);
                *ret_ms *= 1000;
        } else {
                r = duration_parse(what, text, ret_ms, p);
        }
        if (r == OK && (*ret_ms < min_ms || *ret_ms > day_ms))
                return problem_set(p, ERR_BADARG, "%s: from %s to 1d", what, min_ms ? "1s" : "0s");
        return r;
}

int backoff_check(const char *text, struct problem *p)
{
        bool is_exp = strncmp(text, "exp:", 4) == 0;
        const char *at = strchr(text, ':');
        for (size_t i = 0; at; i++) {
                size_t n = strcspn(++at, ",");
                bool is_delay = !is_exp || i == 0 || i == 2; /* else factor and jitter */
                char word[24] = "";
                int64_t ms;
                if (is_delay && n && n < sizeof(word) && strspn(at, "0123456789") == n) {
                        memcpy(word, at, n);
                        return duration_parse("--backoff", word, &ms, p);
                }
                at = at[n] ? at + n : NULL;
        }
        return OK;
}

int size_parse(const char *what, const char *text, uint64_t max, uint64_t *ret, struct problem *p)
{
        size_t digits = strspn(text, "0123456789");
        uint64_t factor = 1, n = 0;
        if (strcmp(text + digits, "k") == 0)
                factor = KIB;
        else if (strcmp(text + digits, "m") == 0)
                factor = MIB;
        else if (strcmp(text + digits, "g") == 0)
                factor = 1024 * MIB;
        else if (text[digits])
                digits = 0;
        if (!slice_to_u64(slice_make(text, digits), &n))
                return problem_set(p, ERR_BADARG, "%s: '%s' is no size: 4096, 64k, 1m or 1g", what,
                                   SHOWN_STR(text));
        if (n > max / factor)
                return problem_set(p, ERR_BADARG, "%s: at most %llu bytes", what,
                                   (unsigned long long)max);
        *ret = n * factor;
        return OK;
}

int number_parse(const char *what, const char *text, struct range range, int64_t *ret,
                 struct problem *p)
{
        int64_t n;
        ASSERT(range.min <= range.max);
        if (!slice_to_i64(slice_str(text), &n) || n < range.min || n > range.max)
                return problem_set(p, ERR_BADARG, "%s: '%s' is no number from %lld to %lld", what,
                                   SHOWN_STR(text), (long long)range.min, (long long)range.max);
        *ret = n;
        return OK;
}

int args_number(const struct args *args, const char *option, struct range range, int64_t *ret,
                struct problem *p)
{
        const char *text = args_get(args, option);
        char what[32];
        (void)snprintf(what, sizeof(what), "--%s", option);
        return text ? number_parse(what, text, range, ret, p) : OK;
}

struct scanner {
        const char *at;
        bool failed;
};

/* Exactly n digits, between min and max. */
static int scan_digits(struct scanner *s, int n, int min, int max)
{
        int v = 0;
        for (int i = 0; i < n && !s->failed; i++) {
                if (is_digit(*s->at))
                        v = v * 10 + (*s->at++ - '0');
                else
                        s->failed = true;
        }
        if (v < min || v > max)
                s->failed = true;
        return v;
}

static bool scan_char(struct scanner *s, const char *any_of)
{
        if (s->failed || *s->at == '\0' || !strchr(any_of, *s->at))
                return false;
        s->at++;
        return true;
}

static void scan_must(struct scanner *s, const char *any_of)
{
        if (!scan_char(s, any_of))
                s->failed = true;
}

/* HH:MM[:SS[.mmm]] */
static int scan_clock(struct scanner *s, struct tm *tm)
{
        int ms = 0;
        tm->tm_hour = scan_digits(s, 2, 0, 23);
        scan_must(s, ":");
        tm->tm_min = scan_digits(s, 2, 0, 59);
        if (!scan_char(s, ":"))
                return 0;
        tm->tm_sec = scan_digits(s, 2, 0, 59);
        if (!scan_char(s, "."))
                return 0;
        if (!is_digit(*s->at))
                s->failed = true;
        for (int unit = 100; is_digit(*s->at); unit /= 10)
                ms += (*s->at++ - '0') * unit;
        return ms;
}

/* Z, +HH:MM, +HHMM or nothing (local); seconds since the epoch. */
static int64_t scan_zone(struct scanner *s, struct tm *tm)
{
        if (scan_char(s, "Zz"))
                return timegm(tm);
        bool is_west = *s->at == '-';
        if (!scan_char(s, "+-")) {
                tm->tm_isdst = -1;
                return mktime(tm);
        }
        int hours = scan_digits(s, 2, 0, 14);
        (void)scan_char(s, ":");
        int64_t offset = hours * 3600LL + scan_digits(s, 2, 0, 59) * 60LL;
        return timegm(tm) + (is_west ? offset : -offset);
}

static bool moment_full(const char *text, int64_t *ret_ms)
{
        struct scanner s = {text, false};
        struct tm tm = {0};
        tm.tm_year = scan_digits(&s, 4, 1970, 9999) - 1900;
        scan_must(&s, "-");
        tm.tm_mon = scan_digits(&s, 2, 1, 12) - 1;
        scan_must(&s, "-");
        tm.tm_mday = scan_digits(&s, 2, 1, 31);
        int day = tm.tm_mday, ms = 0;
        if (scan_char(&s, "Tt ")) {
                ms = scan_clock(&s, &tm);
                (void)scan_char(&s, " ");
        }
        if (s.failed)
                return false;
        int64_t at = scan_zone(&s, &tm);
        *ret_ms = at * MS_PER_S + ms;
        return !s.failed && *s.at == '\0' && at >= 0 && tm.tm_mday == day;
}

static bool moment_today(const char *text, int64_t now_ms, int64_t *ret_ms)
{
        struct scanner s = {text, false};
        struct tm tm;
        time_t now = (time_t)(now_ms / MS_PER_S);
        if (!localtime_r(&now, &tm))
                return false;
        tm.tm_sec = 0;
        int ms = scan_clock(&s, &tm);
        if (s.failed || *s.at)
                return false;
        struct tm tomorrow = tm;
        tm.tm_isdst = tomorrow.tm_isdst = -1;
        tomorrow.tm_mday++;
        *ret_ms = mktime(&tm) * MS_PER_S + ms;
        if (*ret_ms < now_ms)
                *ret_ms = mktime(&tomorrow) * MS_PER_S + ms;
        return true;
}

int moment_parse(const char *what, const char *text, int64_t now_ms, int64_t *ret_ms,
                 struct problem *p)
{
        int64_t seconds;
        if (text[0] == '@' && slice_to_i64(slice_str(text + 1), &seconds) && seconds >= 0 &&
            seconds < INT64_MAX / MS_PER_S) {
                *ret_ms = seconds * MS_PER_S;
                return OK;
        }
        if (moment_full(text, ret_ms) || moment_today(text, now_ms, ret_ms))
                return OK;
        return problem_set(p, ERR_BADARG,
                           "%s: '%s' is no time: 2026-11-15T10:00, 2026-11-15T09:00Z, 10:00 (the "
                           "next time it is), or @1731661200",
                           what, SHOWN_STR(text));
}

void moment_put(struct buf *b, int64_t at_ms)
{
        time_t at = (time_t)(at_ms / MS_PER_S);
        struct tm tm;
        char text[48];
        if (localtime_r(&at, &tm) && strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S %z", &tm) > 0)
                buf_put_str(b, text);
        else
                buf_put_i64(b, at_ms);
}

void moment_put_relative(struct buf *b, int64_t at_ms, int64_t now_ms)
{
        if (at_ms > now_ms) {
                buf_put_str(b, "in ");
                duration_put_left(b, at_ms - now_ms);
        } else if (now_ms - at_ms < 1000) {
                buf_put_str(b, "just now");
        } else {
                duration_put(b, now_ms - at_ms);
                buf_put_str(b, " ago");
        }
}

void age_put_read(struct buf *b, int64_t age_ms)
{
        buf_put_str(b, age_ms < 0 ? "was never read" : "was last read ");
        if (age_ms < 0)
                return;
        duration_put(b, age_ms);
        buf_put_str(b, " ago");
}
