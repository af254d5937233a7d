/* Delays between attempts.
 *
 * The exponential is worked out step by step in microseconds: exact where it matters (no floating
 * point, the same on every machine), and it stops at the cap, so it takes at most the steps from
 * 1 ms to the longest delay, some 2,500 with the smallest factor above 1 (1.01) and 35 with 2. */
#include "state/backoff.h"

#include "base/bytes.h"
#include "base/duration.h"
#include "base/plural.h"
#include "base/shown.h"

#define US_PER_MS 1000

/* The product of a step must fit. */
_Static_assert(BACKOFF_DELAY_MAX_MS <= INT64_MAX / US_PER_MS / BACKOFF_FACTOR_MAX, "it fits");

struct backoff backoff_default(void)
{
        return (struct backoff){
                .kind = BACKOFF_EXPONENTIAL,
                .jitter = 15,
                .factor = 2 * BACKOFF_FACTOR_UNIT,
                .base_ms = 5 * MS_PER_S,
                .cap_ms = 5 * MS_PER_MIN,
        };
}

/* --- text ------------------------------------------------------------------------------------- */

/* Cuts the next part off at a comma; an empty rest is one empty part. */
static struct slice next_part(struct slice *rest)
{
        const char *comma = rest->len ? memchr(rest->ptr, ',', rest->len) : NULL;
        size_t n = comma ? (size_t)(comma - rest->ptr) : rest->len;
        struct slice part = slice_make(rest->ptr, n);

        *rest = comma ? slice_make(comma + 1, rest->len - n - 1) : SLICE_NONE;
        return part;
}

static int parse_delay(struct slice text, int64_t *ret, struct problem *problem)
{
        if (!slice_to_duration_ms(text, ret))
                return problem_set(problem, ERR_BADARG,
                                   "backoff: '%s' is no duration; write 500 (ms), 30s or 1h30m",
                                   SHOWN(text));
        if (*ret > BACKOFF_DELAY_MAX_MS)
                return problem_set(problem, ERR_BADARG, "backoff: a delay is at most 366 days");
        return OK;
}

/* "2", "1.5", "1.25" in hundredths. */
static bool parse_factor(struct slice text, uint16_t *ret)
{
        const char *dot = text.len ? memchr(text.ptr, '.', text.len) : NULL;
        struct slice whole = text;
        uint64_t v, hundredths = 0;

        if (dot) {
                whole.len = (size_t)(dot - text.ptr);
                struct slice rest = slice_make(dot + 1, text.len - whole.len - 1);
                if (rest.len < 1 || rest.len > 2)
                        return false;
                for (size_t i = 0; i < 2; i++) {
                        unsigned c = i < rest.len ? (unsigned char)rest.ptr[i] : (unsigned)'0';
                        unsigned digit = c - (unsigned)'0';
                        if (digit > 9)
                                return false;
                        hundredths = hundredths * 10 + digit;
                }
        }
        if (!slice_to_u64(whole, &v) || v > BACKOFF_FACTOR_MAX / BACKOFF_FACTOR_UNIT)
                return false;
        v = v * BACKOFF_FACTOR_UNIT + hundredths;
        if (v < BACKOFF_FACTOR_UNIT || v > BACKOFF_FACTOR_MAX)
                return false;
        *ret = (uint16_t)v;
        return true;
}

static bool parse_percent(struct slice text, uint8_t *ret)
{
        uint64_t v;

        if (text.len < 2 || text.ptr[text.len - 1] != '%' ||
            !slice_to_u64(slice_make(text.ptr, text.len - 1), &v) || v > 100)
                return false;
        *ret = (uint8_t)v;
        return true;
}

static int parse_exponential(struct slice rest, struct backoff *b, struct problem *problem)
{
        int err = parse_delay(next_part(&rest), &b->base_ms, problem);
        if (err)
                return err;
        if (rest.ptr && !parse_factor(next_part(&rest), &b->factor))
                return problem_set(problem, ERR_BADARG,
                                   "backoff: the factor is 1 to 100 with at most two decimals");
        /* A base above the usual cap lifts it; only a cap that was written can be wrong. */
        if (b->cap_ms < b->base_ms)
                b->cap_ms = b->base_ms;
        if (rest.ptr)
                err = parse_delay(next_part(&rest), &b->cap_ms, problem);
        if (err)
                return err;
        if (b->cap_ms < b->base_ms)
                return problem_set(problem, ERR_BADARG, "backoff: the cap is below the base");
        if (rest.ptr && !parse_percent(next_part(&rest), &b->jitter))
                return problem_set(problem, ERR_BADARG, "backoff: the jitter is 0%% to 100%%");
        if (rest.ptr)
                return problem_set(problem, ERR_BADARG,
                                   "backoff: exp takes base, factor, cap and jitter, no more");
        return OK;
}

static int parse_delays(struct slice rest, unsigned max, struct backoff *b, struct problem *problem)
{
        do {
                if (b->n == max)
                        return problem_set(problem, ERR_BADARG, "backoff: at most %u %s", max,
                                           plural(max, "delay", "delays"));
                int err = parse_delay(next_part(&rest), &b->delays_ms[b->n], problem);
                if (err)
                        return err;
                b->n++;
        } while (rest.ptr);
        return OK;
}

int backoff_parse(struct slice text, struct backoff *ret, struct problem *problem)
{
        const char *colon = text.len ? memchr(text.ptr, ':', text.len) : NULL;
        struct slice kind = text, rest = SLICE_NONE;
        struct backoff b = {0};
        int err = OK;

        if (colon) {
                kind.len = (size_t)(colon - text.ptr);
                rest = slice_make(colon + 1, text.len - kind.len - 1);
        }
        if (slice_eq(kind, SLICE_LIT("none")) && !colon) {
                b.kind = BACKOFF_NONE;
        } else if (slice_eq(kind, SLICE_LIT("fixed")) && colon) {
                b.kind = BACKOFF_FIXED;
                err = parse_delays(rest, 1, &b, problem);
        } else if (slice_eq(kind, SLICE_LIT("exp"))) {
                b = backoff_default();
                if (colon)
                        err = parse_exponential(rest, &b, problem);
        } else if (slice_eq(kind, SLICE_LIT("list")) && colon) {
                b.kind = BACKOFF_LIST;
                err = parse_delays(rest, BACKOFF_LIST_MAX, &b, problem);
        } else {
                err = problem_set(problem, ERR_BADARG,
                                  "backoff is none, fixed:5s, exp:5s,2,5m,15%% or list:1s,30s,5m");
        }
        if (err)
                return err;
        *ret = b;
        return OK;
}

static void put_factor(struct buf *to, unsigned factor)
{
        unsigned rest = factor % BACKOFF_FACTOR_UNIT;

        buf_put_u64(to, factor / BACKOFF_FACTOR_UNIT);
        if (rest % 10)
                buf_printf(to, ".%02u", rest);
        else if (rest)
                buf_printf(to, ".%u", rest / 10);
}

void backoff_to_text(const struct backoff *b, struct buf *to)
{
        static const char *const names[] = {"none", "fixed:", "exp:", "list:"};
        char text[DURATION_TEXT_MAX];

        buf_put_str(to, names[b->kind]);
        if (b->kind == BACKOFF_EXPONENTIAL) {
                buf_printf(to, "%s,", duration_text(b->base_ms, text));
                put_factor(to, b->factor);
                buf_printf(to, ",%s,%u%%", duration_text(b->cap_ms, text), b->jitter);
        }
        for (unsigned i = 0; i < b->n; i++)
                buf_printf(to, "%s%s", i ? "," : "", duration_text(b->delays_ms[i], text));
}

bool backoff_eq(const struct backoff *a, const struct backoff *b)
{
        return a->kind == b->kind && a->n == b->n && a->jitter == b->jitter &&
               a->factor == b->factor && a->base_ms == b->base_ms && a->cap_ms == b->cap_ms &&
               memcmp(a->delays_ms, b->delays_ms, sizeof(a->delays_ms)) == 0;
}

/* --- delays ----------------------------------------------------------------------------------- */

static int64_t exponential_ms(const struct backoff *b, unsigned attempt, struct rng *dice)
{
        int64_t us = b->base_ms * US_PER_MS, cap_us = b->cap_ms * US_PER_MS;

        if (us > 0 && b->factor > BACKOFF_FACTOR_UNIT)
                for (; attempt > 1 && us < cap_us; attempt--)
                        us = us * b->factor / BACKOFF_FACTOR_UNIT;
        int64_t ms = us < cap_us ? us / US_PER_MS : b->cap_ms;
        if (!b->jitter || !dice)
                return ms;
        int64_t spread = ms * b->jitter / 100;
        int64_t high = ms + spread < b->cap_ms ? ms + spread : b->cap_ms;
        return ms - spread + (int64_t)rng_below(dice, (uint64_t)(high - ms + spread) + 1);
}

int64_t backoff_delay_ms(const struct backoff *b, unsigned attempt, struct rng *dice)
{
        if (attempt == 0)
                attempt = 1;
        switch (b->kind) {
        case BACKOFF_NONE:
                return 0;
        case BACKOFF_EXPONENTIAL:
                return exponential_ms(b, attempt, dice);
        case BACKOFF_FIXED:
        case BACKOFF_LIST:
                ASSERT(b->n > 0 && b->n <= BACKOFF_LIST_MAX);
                return b->delays_ms[attempt < b->n ? attempt - 1U : b->n - 1U];
        }
        return 0;
}

/* --- bytes ------------------------------------------------------------------------------------ */

/* kind u8; EXPONENTIAL: jitter u8, factor, base_ms, cap_ms; FIXED: delay; LIST: n u8, delays. */
void backoff_pack(const struct backoff *b, struct buf *to)
{
        buf_put_byte(to, (char)b->kind);
        if (b->kind == BACKOFF_EXPONENTIAL) {
                buf_put_byte(to, (char)b->jitter);
                buf_put_varint(to, b->factor);
                buf_put_varint(to, (uint64_t)b->base_ms);
                buf_put_varint(to, (uint64_t)b->cap_ms);
        }
        if (b->kind == BACKOFF_LIST)
                buf_put_byte(to, (char)b->n);
        for (unsigned i = 0; i < b->n; i++)
                buf_put_varint(to, (uint64_t)b->delays_ms[i]);
}

static int64_t read_delay(struct reader *r)
{
        uint64_t ms = reader_varint(r);
        if (ms > BACKOFF_DELAY_MAX_MS)
                r->failed = true;
        return (int64_t)ms;
}

bool backoff_unpack(struct backoff *b, struct slice *s)
{
        struct reader r = reader_make(*s);
        unsigned kind = reader_u8(&r);
        struct backoff got = {.kind = (enum backoff_kind)kind};

        if (kind > BACKOFF_LIST)
                return false;
        if (got.kind == BACKOFF_EXPONENTIAL) {
                got.jitter = reader_u8(&r);
                uint64_t factor = reader_varint(&r);
                got.base_ms = read_delay(&r);
                got.cap_ms = read_delay(&r);
                if (got.jitter > 100 || factor < BACKOFF_FACTOR_UNIT ||
                    factor > BACKOFF_FACTOR_MAX || got.base_ms > got.cap_ms)
                        return false;
                got.factor = (uint16_t)factor;
        } else if (got.kind != BACKOFF_NONE) {
                got.n = got.kind == BACKOFF_FIXED ? 1 : reader_u8(&r);
                if (got.n < 1 || got.n > BACKOFF_LIST_MAX)
                        return false;
        }
        for (unsigned i = 0; i < got.n; i++)
                got.delays_ms[i] = read_delay(&r);
        if (r.failed)
                return false;
        *b = got;
        *s = slice_make(r.at, reader_left(&r));
        return true;
}
