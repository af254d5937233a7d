/* Zone files: reading them, and the two directions between instants and local times.
 *
 * A TZif file (RFC 8536) is two blocks and a line of text.  The first block has 32-bit times and is
 * skipped; the second has 64-bit times: an ascending list of changes, each with the number of a
 * local time type, of which only the offset matters here.  The line is a POSIX TZ string, such as
 * CET-1CEST,M3.5.0,M10.5.0/3, and says what holds after the last change.
 *
 *      header 44   "TZif" version(1) 0(15) and six counts: isut isstd leap time type char
 *      data        times[time] x 8, types[time] x 1, {offset 4, isdst 1, name 1}[type],
 *                  names[char], leaps[leap] x 12, isstd[isstd] x 1, isut[isut] x 1
 *      footer      \n TZ \n
 *
 * Everything is built on one primitive, tz_span_at(): a binary search in the list, or, behind its
 * end, the changes of the years around, computed from the rules.  About 10 ns in the list and 100
 * behind it.  A local time is found by walking over the few spans that can show it, earliest first,
 * so the first occurrence and the end of a gap come out by themselves.
 *
 * The offset bound of 26 hours is that of RFC 8536; a file that breaks it, or anything else that
 * the format promises, is refused whole.  Zones that count leap seconds (right/...) are refused:
 * their times are not Unix times. */
#include "base/tz.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/civil.h"
#include "base/shown.h"

#define HEADER_BYTES 44
#define FILE_MAX     (64 * KIB)          /* the largest one there is has 4 KiB */
#define OFFSET_MAX_S 93600               /* 26 h */
#define TIME_MAX_H   167                 /* of a rule, RFC 8536 3.3.1 */
#define INSTANT_MAX  10000000000000000LL /* s; any 64-bit time in ms is within */
#define ALLOWED      "a zone is a name like Europe/Berlin, America/New_York or UTC"

enum rule_kind {
        RULE_WEEKDAY,     /* Mm.w.d */
        RULE_DAY_NO_LEAP, /* Jn, 29 February is never counted */
        RULE_DAY,         /* n, from 0 */
};

struct rule {
        enum rule_kind kind;
        int month, week, weekday; /* 1..12, 1..5 (5 is the last), 0..6 from Sunday */
        int day;
        int64_t time_s; /* after local midnight, may be negative */
};

/* What holds after the list. */
struct tail {
        bool is_set, has_dst;
        int64_t std_s, dst_s;     /* offsets */
        struct rule begins, ends; /* of daylight saving time */
};

struct change {
        int64_t at_s;
        int64_t offset_s; /* from then on */
};

struct tz {
        struct tz *next; /* in the cache */
        char name[TZ_NAME_MAX + 1];
        int64_t first_offset_s; /* before the first change */
        struct tail tail;
        size_t n_changes;
        struct change changes[]; /* ascending */
};

static const struct tz utc = {.name = "UTC"};
static struct tz *cache;

/* --- the POSIX TZ line ----------------------------------------------------------------------- */

struct text {
        const char *at, *end;
        bool failed; /* sticky */
};

static char peek(const struct text *t)
{
        return t->at < t->end ? *t->at : '\0';
}

static bool accept(struct text *t, char c)
{
        if (peek(t) != c)
                return false;
        t->at++;
        return true;
}

static bool is_digit(char c)
{
        return c >= '0' && c <= '9';
}

static int64_t number(struct text *t, int64_t min, int64_t max)
{
        int64_t v = 0;

        if (!is_digit(peek(t)))
                t->failed = true;
        for (; is_digit(peek(t)) && !t->failed; t->at++) {
                v = v * 10 + (*t->at - '0');
                t->failed = v > max;
        }
        if (v < min)
                t->failed = true;
        return t->failed ? min : v;
}

/* [+-]h[h[h]][:mm[:ss]] in seconds. */
static int64_t clock_time(struct text *t, int64_t hours_max)
{
        bool is_negative = accept(t, '-');

        if (!is_negative)
                (void)accept(t, '+');
        int64_t s = number(t, 0, hours_max) * 3600;
        if (accept(t, ':')) {
                s += number(t, 0, 59) * 60;
                if (accept(t, ':'))
                        s += number(t, 0, 59);
        }
        return is_negative ? -s : s;
}

static void skip_abbreviation(struct text *t)
{
        const char *begin = t->at;
        bool is_quoted = accept(t, '<');

        if (is_quoted) {
                while (t->at < t->end && *t->at != '>')
                        t->at++;
                if (!accept(t, '>'))
                        t->failed = true;
                return;
        }
        while ((peek(t) >= 'A' && peek(t) <= 'Z') || (peek(t) >= 'a' && peek(t) <= 'z'))
                t->at++;
        if (t->at - begin < 3)
                t->failed = true;
}

static struct rule read_rule(struct text *t)
{
        struct rule r = {.kind = RULE_DAY, .time_s = 7200};

        if (accept(t, 'M')) {
                r.kind = RULE_WEEKDAY;
                r.month = (int)number(t, 1, 12);
                t->failed |= !accept(t, '.');
                r.week = (int)number(t, 1, 5);
                t->failed |= !accept(t, '.');
                r.weekday = (int)number(t, 0, 6);
        } else if (accept(t, 'J')) {
                r.kind = RULE_DAY_NO_LEAP;
                r.day = (int)number(t, 1, 365);
        } else {
                r.day = (int)number(t, 0, 365);
        }
        if (accept(t, '/'))
                r.time_s = clock_time(t, TIME_MAX_H);
        return r;
}

/* POSIX counts offsets westward; here they are local - utc. */
static bool read_tail(struct slice line, struct tail *ret)
{
        struct text t = {line.ptr, line.ptr + line.len, false};
        struct tail tail = {.is_set = true};

        skip_abbreviation(&t);
        tail.std_s = -clock_time(&t, 24);
        if (!t.failed && t.at < t.end) {
                tail.has_dst = true;
                skip_abbreviation(&t);
                tail.dst_s = tail.std_s + 3600;
                if (peek(&t) != ',')
                        tail.dst_s = -clock_time(&t, 24);
                t.failed |= !accept(&t, ',');
                tail.begins = read_rule(&t);
                t.failed |= !accept(&t, ',');
                tail.ends = read_rule(&t);
        }
        if (t.failed || t.at < t.end)
                return false;
        *ret = tail;
        return true;
}

/* --- spans ----------------------------------------------------------------------------------- */

/* The local second at which a rule takes effect in a year. */
static int64_t rule_at(const struct rule *r, int64_t year)
{
        int64_t day = 0;

        switch (r->kind) {
        case RULE_WEEKDAY: {
                int64_t first = days_from_civil(year, r->month, 1);
                int in = 1 + (int)floor_mod(r->weekday - weekday_from_days(first), 7);
                in += (r->week - 1) * 7;
                if (in > days_in_month(year, r->month))
                        in -= 7; /* week 5 is the last one, of four or five */
                day = first + in - 1;
                break;
        }
        case RULE_DAY_NO_LEAP:
                day = days_from_civil(year, 1, 1) + r->day - 1;
                day += year_is_leap(year) && r->day >= 60; /* 60 is 1 March */
                break;
        case RULE_DAY:
                day = days_from_civil(year, 1, 1) + r->day;
                break;
        }
        return day * CIVIL_S_PER_DAY + r->time_s;
}

/* Keeps the list in order; of two changes at one instant the one put last comes last, and wins. */
static void put_change(struct change *list, size_t n, struct change c)
{
        for (; n > 0 && list[n - 1].at_s > c.at_s; n--)
                list[n] = list[n - 1];
        list[n] = c;
}

/* A rule's time moves a change by a week at most, out of its year too, and one change past another.
 * So the last change before any moment of a year belongs to one of the two years before it at the
 * earliest, and the first after it to the next one at the latest. */
static struct tz_span tail_span(const struct tail *t, int64_t utc_s)
{
        struct tz_span span = {INT64_MIN, INT64_MAX, t->std_s};
        struct change list[8];

        if (!t->has_dst)
                return span;
        int64_t year = civil_from_days(floor_div(utc_s, CIVIL_S_PER_DAY)).year;
        for (size_t i = 0; i < ARRAY_LEN(list); i += 2) {
                int64_t y = year - 2 + (int64_t)i / 2;
                int64_t begins = rule_at(&t->begins, y) - t->std_s;
                int64_t ends = rule_at(&t->ends, y) - t->dst_s;
                put_change(list, i, (struct change){begins, t->dst_s});
                put_change(list, i + 1, (struct change){ends, t->std_s});
        }
        for (size_t i = 0; i < ARRAY_LEN(list); i++) {
                if (list[i].at_s > utc_s) {
                        span.until_s = list[i].at_s;
                        break;
                }
                span.from_s = list[i].at_s;
                span.offset_s = list[i].offset_s;
        }
        return span;
}

static int64_t clamp(int64_t s, int64_t bound)
{
        if (s > bound)
                return bound;
        return s < -bound ? -bound : s;
}

struct tz_span tz_span_at(const struct tz *tz, int64_t utc_s)
{
        size_t low = 0, high = tz->n_changes; /* changes before low are <= utc_s */

        /* Twice the bound of the callers: what lies behind their last moment is still told apart.
         */
        utc_s = clamp(utc_s, 2 * INSTANT_MAX);
        while (low < high) {
                size_t mid = low + (high - low) / 2;
                if (tz->changes[mid].at_s <= utc_s)
                        low = mid + 1;
                else
                        high = mid;
        }
        struct tz_span span = {INT64_MIN, INT64_MAX, tz->first_offset_s};
        if (low == tz->n_changes && tz->tail.is_set)
                span = tail_span(&tz->tail, utc_s);
        else if (low > 0)
                span.offset_s = tz->changes[low - 1].offset_s;
        if (low > 0 && span.from_s < tz->changes[low - 1].at_s)
                span.from_s = tz->changes[low - 1].at_s;
        if (low < tz->n_changes)
                span.until_s = tz->changes[low].at_s;
        return span;
}

int64_t tz_to_local(const struct tz *tz, int64_t utc_s)
{
        utc_s = clamp(utc_s, INSTANT_MAX);
        return utc_s + tz_span_at(tz, utc_s).offset_s;
}

/* Whether some span from `span` on shows the local time, which all of them reach by `last_s`. */
static bool is_shown_later(const struct tz *tz, struct tz_span span, int64_t local_s,
                           int64_t last_s)
{
        while (span.until_s <= last_s) {
                span = tz_span_at(tz, span.until_s);
                int64_t at = local_s - span.offset_s;
                if (at >= span.from_s && at < span.until_s)
                        return true;
        }
        return false;
}

/* Before the span in hand all spans end before they show the local time.  So when this one begins
 * after it, the time lies in the gap between them. */
int64_t tz_to_utc(const struct tz *tz, int64_t local_s, enum tz_kind *ret_kind)
{
        enum tz_kind unwanted;
        enum tz_kind *kind = ret_kind ? ret_kind : &unwanted;

        local_s = clamp(local_s, INSTANT_MAX);
        int64_t last = local_s + OFFSET_MAX_S;
        for (struct tz_span span = tz_span_at(tz, local_s - OFFSET_MAX_S);;
             span = tz_span_at(tz, span.until_s)) {
                int64_t at = local_s - span.offset_s;
                if (at < span.from_s) {
                        *kind = TZ_SKIPPED;
                        return span.from_s;
                }
                if (at < span.until_s) {
                        *kind = is_shown_later(tz, span, local_s, last) ? TZ_REPEATED : TZ_UNIQUE;
                        return at;
                }
        }
}

/* --- files ----------------------------------------------------------------------------------- */

static uint32_t be32(const char *at)
{
        const unsigned char *b = (const unsigned char *)at;

        return (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
}

static int64_t be64(const char *at)
{
        return (int64_t)((uint64_t)be32(at) << 32 | be32(at + 4));
}

struct header {
        uint32_t n_isut, n_isstd, n_leap, n_time, n_type, n_char;
        size_t data_bytes; /* of the block that follows it */
};

/* Counts are checked against the bytes that are left, so that nothing later can overflow. */
static bool read_header(struct slice file, size_t at, size_t time_bytes, struct header *ret)
{
        if (file.len < at || file.len - at < HEADER_BYTES)
                return false;
        const char *h = file.ptr + at;
        if (memcmp(h, "TZif", 4) != 0 || h[4] < '2')
                return false;
        uint32_t n[6];
        for (size_t i = 0; i < 6; i++) {
                n[i] = be32(h + 20 + 4 * i);
                if (n[i] > file.len)
                        return false;
        }
        *ret = (struct header){n[0], n[1], n[2], n[3], n[4], n[5], 0};
        ret->data_bytes = n[3] * (time_bytes + 1) + n[4] * 6ULL + n[5] + n[2] * (time_bytes + 4) +
                          n[1] + n[0];
        return file.len - at - HEADER_BYTES >= ret->data_bytes;
}

static bool read_changes(struct tz *tz, const struct header *h, const char *data)
{
        const char *index = data + h->n_time * 8ULL;
        const char *types = index + h->n_time;

        for (uint32_t i = 0; i < h->n_type; i++) {
                int32_t offset = (int32_t)be32(types + 6ULL * i);
                if (offset > OFFSET_MAX_S || offset < -OFFSET_MAX_S)
                        return false;
        }
        tz->first_offset_s = (int32_t)be32(types);
        for (uint32_t i = 0; i < h->n_time; i++) {
                unsigned type = (unsigned char)index[i];
                if (type >= h->n_type)
                        return false;
                tz->changes[i] =
                        (struct change){be64(data + 8ULL * i), (int32_t)be32(types + 6ULL * type)};
                if (i > 0 && tz->changes[i].at_s <= tz->changes[i - 1].at_s)
                        return false;
        }
        tz->n_changes = h->n_time;
        return true;
}

/* The one fault that is a wrong choice of name, not a damaged file. */
static const char leap_seconds[] = "it counts leap seconds";

/* What is wrong with the file, or NULL. */
static const char *read_file(struct slice file, struct tz **ret)
{
        struct header first, h;

        if (!read_header(file, 0, 4, &first))
                return "it is not a TZif file of version 2 or later";
        size_t at = HEADER_BYTES + first.data_bytes;
        if (!read_header(file, at, 8, &h))
                return "its second block is cut";
        if (h.n_type < 1)
                return "it has no local time type";
        if (h.n_leap > 0)
                return leap_seconds;
        CLEANUP(tz_freep)
        struct tz *tz = xcalloc(1, sizeof(*tz) + h.n_time * sizeof(struct change));
        at += HEADER_BYTES;
        if (!read_changes(tz, &h, file.ptr + at))
                return "its list of changes is damaged";
        at += h.data_bytes;
        struct slice footer = slice_make(file.ptr + at, file.len - at);
        if (footer.len < 2 || footer.ptr[0] != '\n')
                return "its last line is missing";
        const char *end = memchr(footer.ptr + 1, '\n', footer.len - 1);
        if (!end)
                return "its last line is cut";
        struct slice line = slice_make(footer.ptr + 1, (size_t)(end - footer.ptr - 1));
        if (line.len > 0 && !read_tail(line, &tz->tail))
                return "its last line is not a rule";
        *ret = TAKE_PTR(tz);
        return NULL;
}

struct tz *tz_free(struct tz *tz)
{
        free(tz);
        return NULL;
}

int tz_parse(struct slice name, struct slice file, struct tz **ret, struct problem *p)
{
        struct tz *tz = NULL;

        ASSERT(name.len <= TZ_NAME_MAX);
        const char *wrong = read_file(file, &tz);
        if (wrong)
                return problem_set(p, wrong == leap_seconds ? ERR_BADARG : ERR_CORRUPT,
                                   "the file of time zone \"%.*s\" is of no use: %s; " ALLOWED,
                                   (int)name.len, name.ptr, wrong);
        if (name.len > 0)
                memcpy(tz->name, name.ptr, name.len);
        *ret = tz;
        return OK;
}

/* --- opening --------------------------------------------------------------------------------- */

/* No dots at all, so no way out of the folder; no empty parts, so one name for each file. */
static bool is_zone_name(struct slice name)
{
        if (name.len < 1 || name.len > TZ_NAME_MAX)
                return false;
        char last = '/';
        for (size_t i = 0; i < name.len; i++) {
                char c = name.ptr[i];
                bool is_letter = (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
                if (!is_letter && !is_digit(c) && c != '_' && c != '+' && c != '-' &&
                    (c != '/' || last == '/'))
                        return false;
                last = c;
        }
        return last != '/';
}

/* Reads a whole regular file; -1 with errno, and ENOENT for what is not a file. */
static ssize_t read_whole(const char *path, char *into, size_t size)
{
        struct stat st;
        size_t len = 0;
        int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

        if (fd < 0)
                return -1;
        int failed = fstat(fd, &st) != 0 ? errno : 0;
        if (!failed && !S_ISREG(st.st_mode))
                failed = ENOENT;
        while (!failed && len < size) {
                ssize_t n = read(fd, into + len, size - len);
                if (n == 0)
                        break;
                if (n > 0)
                        len += (size_t)n;
                else if (errno != EINTR)
                        failed = errno;
        }
        (void)close(fd);
        errno = failed;
        return failed ? -1 : (ssize_t)len;
}

static int refuse_unknown(struct slice name, struct problem *p)
{
        if (access(TZ_FOLDER, F_OK) != 0)
                return problem_set(p, ERR_BADARG,
                                   "time zone \"%.*s\" is not known: there are no zone files in "
                                   "%s (package tzdata), so only UTC is",
                                   (int)name.len, name.ptr, TZ_FOLDER);
        return problem_set(p, ERR_BADARG, "time zone \"%.*s\" is not known; " ALLOWED,
                           (int)name.len, name.ptr);
}

static int read_zone(struct slice name, struct tz **ret, struct problem *p)
{
        char path[sizeof(TZ_FOLDER) + 1 + TZ_NAME_MAX];
        (void)snprintf(path, sizeof(path), "%s/%.*s", TZ_FOLDER, (int)name.len, name.ptr);
        char *bytes = xmalloc(FILE_MAX);
        int err = OK;
        ssize_t n = read_whole(path, bytes, FILE_MAX);

        /* Beside the zones there are folders, tables and texts. */
        bool is_zone = n >= 4 && memcmp(bytes, "TZif", 4) == 0;
        if (n < 0 && errno != ENOENT && errno != ENOTDIR && errno != ELOOP)
                err = problem_set(p, ERR_IO, "the file of time zone \"%.*s\" cannot be read: %s",
                                  (int)name.len, name.ptr, strerror(errno));
        else if (!is_zone)
                err = refuse_unknown(name, p);
        else
                err = tz_parse(name, slice_make(bytes, (size_t)n), ret, p);
        free(bytes);
        return err;
}

int tz_open(struct slice name, const struct tz **ret, struct problem *p)
{
        if (slice_eq(name, SLICE_LIT("UTC"))) {
                *ret = &utc;
                return OK;
        }
        for (const struct tz *tz = cache; tz; tz = tz->next) {
                if (slice_eq(slice_str(tz->name), name)) {
                        *ret = tz;
                        return OK;
                }
        }
        if (!is_zone_name(name))
                return problem_set(p, ERR_BADARG, "\"%s\" is not the name of a time zone; " ALLOWED,
                                   SHOWN_MAX(name, TZ_NAME_MAX));
        struct tz *tz = NULL;
        int err = read_zone(name, &tz, p);
        if (err)
                return err;
        tz->next = cache;
        cache = tz;
        *ret = tz;
        return OK;
}

const struct tz *tz_utc(void)
{
        return &utc;
}

const char *tz_name(const struct tz *tz)
{
        return tz->name;
}
