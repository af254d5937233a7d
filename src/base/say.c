/* Lines for the operator: built on the stack, written with one write(2).
 *
 *      time=2026-11-15T08:51:00.123Z level=warn area=history msg="cannot write, retrying" path=/x
 *      {"time":"2026-11-15T08:51:00.123Z","level":"warn","area":"history","msg":"cannot ..."}
 *
 * A line has at most LINE_BYTES bytes, which is below PIPE_BUF: lines of several processes on one
 * pipe do not mix.  What does not fit is cut between two characters and marked with "...", and
 * the quotes are still closed, so that a JSON line stays JSON.
 *
 * The rate limit remembers the last RATE_SLOTS kinds of line by a hash of area and sentence, in
 * sets of RATE_WAYS; a kind that is pushed out by others starts afresh, which only lets more
 * through.  The ring keeps the beginning of each of the last lines for panic().
 *
 * One mutex guards ring, rates and the order of lines.  A blocked stderr blocks the speakers:
 * losing the operator's lines silently would be worse. */
#include "base/say.h"

#include <math.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/slice.h"

#define LINE_BYTES 4000
#define TAIL_ROOM  8 /* for `..."}` and the newline; nothing else may be written there */
#define RING_LINES 64
#define RING_BYTES 512
#define RATE_SLOTS 64
#define RATE_WAYS  4
#define RATE_LINES 10 /* of one kind, per second */

struct rate {
        uint64_t kind; /* hash of area and sentence; 0 = free */
        int64_t since_ns;
        uint32_t said, left_out;
};

static struct {
        pthread_mutex_t lock;
        struct rate rates[RATE_SLOTS];
        char ring[RING_LINES][RING_BYTES];
        uint16_t ring_len[RING_LINES];
        unsigned ring_at; /* the next line to overwrite, which is the oldest */
} says = {.lock = PTHREAD_MUTEX_INITIALIZER};

static atomic_int min_level = SAY_INFO;
static atomic_bool is_json;

static const char *const level_names[] = {"debug", "info", "warn", "error"};

void say_setup(enum say_level min, bool as_json)
{
        atomic_store_explicit(&min_level, (int)min, memory_order_relaxed);
        atomic_store_explicit(&is_json, as_json, memory_order_relaxed);
}

bool say_level_from_name(const char *name, enum say_level *ret)
{
        for (size_t i = 0; i < ARRAY_LEN(level_names); i++) {
                if (strcmp(name, level_names[i]) == 0) {
                        *ret = (enum say_level)i;
                        return true;
                }
        }
        return false;
}

const char *say_i64(char *buf24, int64_t v)
{
        (void)snprintf(buf24, 24, "%lld", (long long)v); /* at most 20 characters */
        return buf24;
}

const char *say_f64(char *buf32, double v)
{
        (void)snprintf(buf32, 32, isfinite(v) ? "%.10g" : "null", v);
        return buf32;
}

const char say_number[] = "number";

struct line {
        char text[LINE_BYTES];
        size_t len;
        bool is_json;
        bool is_cut; /* nothing more goes in, except by put_end */
};

/* All of it or nothing. */
static bool put(struct line *l, const char *text, size_t n)
{
        /* put_end may have gone into the tail already: no subtraction here. */
        if (l->is_cut || l->len + n > LINE_BYTES - TAIL_ROOM) {
                l->is_cut = true;
                return false;
        }
        memcpy(l->text + l->len, text, n);
        l->len += n;
        return true;
}

static void put_end(struct line *l, const char *text)
{
        size_t n = strlen(text);

        ASSERT(n <= LINE_BYTES - l->len);
        memcpy(l->text + l->len, text, n);
        l->len += n;
}

/* The escaped form of the character at s, of which `left` bytes are there; *ret_used says how
 * many it stands for.  Bytes that are no UTF-8 become \xNN, in JSON U+FFFD. */
static size_t escape(const char *s, size_t left, bool as_json, char ret[16], size_t *ret_used)
{
        unsigned char c = (unsigned char)s[0];
        size_t n = utf8_sequence(s, left);

        *ret_used = n ? n : 1;
        /* U+0080..U+009F are control characters as well. */
        bool is_control =
                c < ' ' || c == 0x7f || (n == 2 && c == 0xc2 && (unsigned char)s[1] < 0xa0);
        if (n && !is_control && c != '"' && c != '\\') {
                memcpy(ret, s, n);
                return n;
        }
        if (c == '"' || c == '\\')
                return (size_t)snprintf(ret, 16, "\\%c", c);
        if (c == '\n')
                return (size_t)snprintf(ret, 16, "\\n");
        if (n == 2)
                c = (unsigned char)s[1];
        if (!as_json)
                return (size_t)snprintf(ret, 16, n == 2 ? "\\xc2\\x%02x" : "\\x%02x", c);
        return (size_t)snprintf(ret, 16, n ? "\\u%04x" : "\\ufffd", c);
}

static void put_escaped(struct line *l, const char *s, size_t len)
{
        char form[16];
        size_t used;

        for (size_t i = 0; i < len; i += used) {
                size_t n = escape(s + i, len - i, l->is_json, form, &used);
                if (!put(l, form, n)) {
                        put_end(l, "...");
                        return;
                }
        }
}

/* A bare word needs no quotes in a key=value line. */
static bool is_bare(const char *s)
{
        if (!*s)
                return false;
        for (; *s; s++)
                if ((unsigned char)*s <= ' ' || (unsigned char)*s >= 0x7f || *s == '"' ||
                    *s == '=' || *s == '\\')
                        return false;
        return true;
}

static void put_value(struct line *l, const char *key, const char *value, bool is_number)
{
        const char *before = l->is_json ? "," : " ";
        bool is_quoted = !is_number && (l->is_json || !is_bare(value));
        size_t mark = l->len;
        bool is_first = mark == (l->is_json ? 1 : 0);

        /* A key is a word of ours; it goes in whole, with the opening of its value, or not. */
        if ((!is_first && !put(l, before, 1)) || (l->is_json && !put(l, "\"", 1)) ||
            !put(l, key, strlen(key)) || (l->is_json && !put(l, "\"", 1)) ||
            !put(l, l->is_json ? ":" : "=", 1) || (is_quoted && !put(l, "\"", 1))) {
                l->len = mark;
                return;
        }
        if (!is_number)
                put_escaped(l, value, strlen(value));
        else if (!put(l, value, strlen(value)))
                put_end(l, "0"); /* half a number would be another one */
        if (is_quoted)
                put_end(l, "\"");
}

static void put_pair(struct line *l, const char *key, const char *value)
{
        put_value(l, key, value, false);
}

static void build(struct line *l, enum say_level level, const char *area, const char *text,
                  va_list pairs)
{
        char time[CLOCK_TEXT_SIZE];

        if (l->is_json)
                put(l, "{", 1);
        put_pair(l, "time", clock_text(clock_wall_ms(), time));
        put_pair(l, "level", level_names[level]);
        put_pair(l, "area", area);
        put_pair(l, "msg", text);
        for (;;) {
                const char *key = va_arg(pairs, const char *);
                if (!key)
                        break;
                const char *value = va_arg(pairs, const char *);
                bool is_number = value == say_number;
                if (is_number)
                        value = va_arg(pairs, const char *);
                put_value(l, key, value ? value : "(null)", is_number && value);
                if (!value)
                        break; /* a NULL value may as well be the sentinel: stop here */
        }
}

static struct rate *rate_find(uint64_t kind)
{
        struct rate *set = &says.rates[kind % (RATE_SLOTS / RATE_WAYS) * RATE_WAYS];
        struct rate *oldest = set;

        for (struct rate *r = set; r < set + RATE_WAYS; r++) {
                if (r->kind == kind)
                        return r;
                if (r->since_ns < oldest->since_ns)
                        oldest = r;
        }
        *oldest = (struct rate){.kind = kind, .since_ns = INT64_MIN};
        return oldest;
}

/* Whether a line of this kind may be said now, and how many were left out since the last one. */
static bool rate_allows(const char *area, const char *text, int64_t now_ns, uint32_t *ret_left_out)
{
        uint64_t kind = hash_bytes(hash_bytes(1, slice_str(area)), slice_str(text)) | 1;
        struct rate *r = rate_find(kind);

        if (r->since_ns == INT64_MIN || now_ns - r->since_ns >= NS_PER_S) {
                r->since_ns = now_ns;
                r->said = 0;
        }
        if (r->said >= RATE_LINES) {
                r->left_out++;
                return false;
        }
        r->said++;
        *ret_left_out = r->left_out;
        r->left_out = 0;
        return true;
}

static void ring_keep(const struct line *l)
{
        unsigned at = says.ring_at++ % RING_LINES;
        size_t n = l->len < RING_BYTES ? l->len : RING_BYTES;

        memcpy(says.ring[at], l->text, n);
        says.ring[at][n - 1] = '\n';
        says.ring_len[at] = (uint16_t)n;
}

static void finish(struct line *l, uint32_t left_out)
{
        if (left_out > 0) {
                char number[24];
                put_value(l, "left_out", say_i64(number, left_out), true);
        }
        put_end(l, l->is_json ? "}\n" : "\n");
}

void say_line(enum say_level level, const char *area, const char *text, ...)
{
        struct line l;
        va_list pairs;
        uint32_t left_out = 0;

        if ((int)level < atomic_load_explicit(&min_level, memory_order_relaxed))
                return;
        pthread_mutex_lock(&says.lock);
        if (rate_allows(area, text, clock_boot_ns(), &left_out)) {
                l.len = 0;
                l.is_cut = false;
                l.is_json = atomic_load_explicit(&is_json, memory_order_relaxed);
                va_start(pairs, text);
                build(&l, level, area, text, pairs);
                va_end(pairs);
                finish(&l, left_out);
                ring_keep(&l);
                ssize_t n = write(STDERR_FILENO, l.text, l.len);
                (void)n; /* without stderr there is no place left to complain */
        }
        pthread_mutex_unlock(&says.lock);
}

void say_dump(int fd)
{
        /* The panicking thread may hold the lock itself: a torn line is better than none. */
        bool is_locked = pthread_mutex_trylock(&says.lock) == 0;

        for (unsigned i = 0; i < RING_LINES; i++) {
                unsigned at = (says.ring_at + i) % RING_LINES;
                if (says.ring_len[at] == 0)
                        continue;
                ssize_t n = write(fd, says.ring[at], says.ring_len[at]);
                (void)n; /* best effort, as in panic */
        }
        if (is_locked)
                pthread_mutex_unlock(&says.lock);
}
