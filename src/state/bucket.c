/* Rate limits.
 *
 * A window is a ring of quanta: (number of the quantum, how much was taken in it), the oldest first
 * and only those in which something was taken, so a limit of 5 a minute never has more than 5 of
 * them.  A quantum q covers [q * Q, (q + 1) * Q) of steady time.  It counts until its last instant
 * is a whole period ago, that is until (q + 1) * Q - 1 + period, when no take in it can share a
 * window of that length with a take of now.  With Q >= period / 255 at most 256 quanta count at any
 * time.  The sum is kept, so a take costs a comparison and an addition; only a refused one walks
 * the ring to find when enough has left.  Rejected: a timestamp per take (a limit of 10^6 a day is
 * 8 MB), two fixed windows weighted (wrong by design: it guesses how the takes lay in the older
 * one).
 *
 * A quantum in the ring has the low half of its number; the others follow from that of the newest,
 * since no two in the ring are further apart than 255.
 *
 * A token bucket is what is missing to a full one, counted in tokens * period_ns.  In a nanosecond
 * `amount` of these units come back: no division, no fraction, no drift, however odd the rate is.
 * Counting what is missing and not what is there lets the burst change without any thought. */
#include "state/bucket.h"

#include <stdlib.h>

#include "base/bytes.h"

/* Live quanta at any time; see above. */
#define RING_MAX    256
#define RING_FIRST  4 /* size of the first allocation */
#define QUANTUM_MIN NS_PER_MS

__extension__ typedef unsigned __int128 u128;

struct bucket_quantum {
        uint32_t number; /* low half */
        uint32_t count;
};

_Static_assert(BUCKET_AMOUNT_MAX <= UINT32_MAX, "a count and the sum of all fit");

static uint64_t period_ns(const struct bucket_rule *rule)
{
        return (uint64_t)rule->period_ms * NS_PER_MS;
}

static int64_t clamp(const struct bucket *b, int64_t now_ns)
{
        return now_ns > b->at_ns ? now_ns : b->at_ns;
}

/* --- tokens ----------------------------------------------------------------------------------- */

static u128 debt_at(const struct bucket *b, int64_t now_ns)
{
        u128 debt = (u128)b->debt_hi << 64 | b->debt_lo;
        u128 back = (u128)(uint64_t)(now_ns - b->at_ns) * b->rule.amount;
        return debt > back ? debt - back : 0;
}

static void set_debt(struct bucket *b, u128 debt)
{
        b->debt_lo = (uint64_t)debt;
        b->debt_hi = (uint64_t)(debt >> 64);
}

/* How long `debt` takes to come back. */
static int64_t pay_ns(const struct bucket *b, u128 debt)
{
        u128 ns = (debt + b->rule.amount - 1) / b->rule.amount;
        return ns < BUCKET_NEVER ? (int64_t)ns : BUCKET_NEVER - 1;
}

static int64_t tokens_wait(const struct bucket *b, uint64_t n, int64_t now_ns)
{
        u128 full = (u128)b->rule.burst * period_ns(&b->rule);
        u128 want = debt_at(b, now_ns) + (u128)n * period_ns(&b->rule);
        return want <= full ? 0 : pay_ns(b, want - full);
}

static uint64_t tokens_used(const struct bucket *b, int64_t now_ns)
{
        uint64_t unit = period_ns(&b->rule);
        return (uint64_t)((debt_at(b, now_ns) + unit - 1) / unit);
}

/* --- window ----------------------------------------------------------------------------------- */

static uint64_t quantum_ns(const struct bucket_rule *rule)
{
        uint64_t q = (period_ns(rule) + RING_MAX - 2) / (RING_MAX - 1);
        return q > QUANTUM_MIN ? q : QUANTUM_MIN;
}

static uint64_t number_at(const struct bucket *b, int64_t now_ns)
{
        return (uint64_t)now_ns / quantum_ns(&b->rule);
}

static struct bucket_quantum *quantum(const struct bucket *b, unsigned i)
{
        return &b->ring[(b->first + i) & (b->size - 1U)];
}

static uint64_t full_number(const struct bucket *b, const struct bucket_quantum *q)
{
        return b->newest - (uint32_t)((uint32_t)b->newest - q->number);
}

/* When the quantum stops counting.  Unsigned: it may lie past the largest time. */
static uint64_t leaves_ns(const struct bucket *b, const struct bucket_quantum *q)
{
        uint64_t end = (full_number(b, q) + 1) * quantum_ns(&b->rule);
        return end - 1 + period_ns(&b->rule);
}

/* How many of the oldest no longer count, and how much was taken in them. */
static unsigned window_gone(const struct bucket *b, int64_t now_ns, uint64_t *ret_count)
{
        unsigned i = 0;

        *ret_count = 0;
        while (i < b->len && leaves_ns(b, quantum(b, i)) <= (uint64_t)now_ns)
                *ret_count += quantum(b, i++)->count;
        return i;
}

static uint64_t window_used(const struct bucket *b, int64_t now_ns)
{
        uint64_t gone;
        (void)window_gone(b, now_ns, &gone);
        return b->used - gone;
}

static int64_t window_wait(const struct bucket *b, uint64_t n, int64_t now_ns)
{
        uint64_t used = b->used, room = b->rule.amount - n, leaves = (uint64_t)now_ns;

        /* The oldest go one by one, whether they have left already or are still to leave. */
        for (unsigned i = 0; used > room; i++) {
                ASSERT(i < b->len);
                uint64_t at = leaves_ns(b, quantum(b, i));
                used -= quantum(b, i)->count;
                leaves = at > leaves ? at : leaves;
        }
        return (int64_t)(leaves - (uint64_t)now_ns);
}

static void window_drop_gone(struct bucket *b, int64_t now_ns)
{
        uint64_t count;
        unsigned n = window_gone(b, now_ns, &count);

        b->used -= (uint32_t)count;
        b->len = (uint16_t)(b->len - n);
        b->first = b->len ? (uint16_t)((b->first + n) & (b->size - 1U)) : 0;
}

static void window_grow(struct bucket *b)
{
        unsigned size = b->size ? b->size * 2U : RING_FIRST;

        ASSERT(size <= RING_MAX);
        struct bucket_quantum *ring = xmalloc(size * sizeof(*ring));
        for (unsigned i = 0; i < b->len; i++)
                ring[i] = *quantum(b, i);
        free(b->ring);
        b->ring = ring;
        b->first = 0;
        b->size = (uint16_t)size;
}

static void window_add(struct bucket *b, uint32_t n, int64_t now_ns)
{
        uint64_t number = number_at(b, now_ns);

        window_drop_gone(b, now_ns);
        b->used += n;
        if (b->len > 0 && b->newest == number) {
                quantum(b, b->len - 1U)->count += n;
                return;
        }
        if (b->len == b->size)
                window_grow(b);
        *quantum(b, b->len++) = (struct bucket_quantum){(uint32_t)number, n};
        b->newest = number;
}

/* Quanta of the old length become quanta of the new one.  Each moves to the new quantum of its last
 * instant, or of now if that is still to come: later than its takes were, never earlier. */
static void window_recut(struct bucket *b, uint64_t old_ns, int64_t now_ns)
{
        uint64_t new_ns = quantum_ns(&b->rule), number = 0, last = 0;
        unsigned len = 0;

        for (unsigned i = 0; i < b->len; i++) {
                struct bucket_quantum q = *quantum(b, i);
                uint64_t end = (full_number(b, &q) + 1) * old_ns - 1;
                number = (end < (uint64_t)now_ns ? end : (uint64_t)now_ns) / new_ns;
                if (len > 0 && number == last)
                        quantum(b, len - 1)->count += q.count;
                else
                        *quantum(b, len++) = (struct bucket_quantum){(uint32_t)number, q.count};
                last = number;
        }
        b->len = (uint16_t)len;
        b->newest = number;
}

/* --- both ------------------------------------------------------------------------------------- */

int bucket_rule_check(const struct bucket_rule *rule, struct problem *problem)
{
        if (rule->kind != BUCKET_WINDOW && rule->kind != BUCKET_TOKENS)
                return problem_set(problem, ERR_BADARG, "the limit is of no known kind");
        if (rule->amount < 1 || rule->amount > BUCKET_AMOUNT_MAX)
                return problem_set(problem, ERR_BADARG, "the amount of a limit is 1 to %llu",
                                   (unsigned long long)BUCKET_AMOUNT_MAX);
        if (rule->period_ms < 1 || rule->period_ms > BUCKET_PERIOD_MAX_MS)
                return problem_set(problem, ERR_BADARG,
                                   "the period of a limit is 1 ms to 31 days (%lld ms)",
                                   (long long)BUCKET_PERIOD_MAX_MS);
        if (rule->kind == BUCKET_TOKENS && rule->burst > BUCKET_AMOUNT_MAX)
                return problem_set(problem, ERR_BADARG, "the burst of a limit is at most %llu",
                                   (unsigned long long)BUCKET_AMOUNT_MAX);
        return OK;
}

static struct bucket_rule complete_rule(const struct bucket_rule *rule)
{
        struct bucket_rule r = *rule;

        ASSERT(bucket_rule_check(rule, NULL) == OK);
        if (r.kind == BUCKET_WINDOW)
                r.burst = 0;
        else if (r.burst == 0)
                r.burst = r.amount;
        return r;
}

void bucket_init(struct bucket *b, const struct bucket_rule *rule)
{
        *b = (struct bucket){.rule = complete_rule(rule)};
}

void bucket_reset(struct bucket *b)
{
        free(b->ring);
        b->ring = NULL;
        b->first = b->len = b->size = 0;
        b->newest = b->used = 0;
        b->debt_lo = b->debt_hi = 0;
}

void bucket_release(struct bucket *b)
{
        bucket_reset(b);
        b->at_ns = 0;
}

uint64_t bucket_capacity(const struct bucket *b)
{
        return b->rule.kind == BUCKET_WINDOW ? b->rule.amount : b->rule.burst;
}

int64_t bucket_wait(const struct bucket *b, uint64_t n, int64_t now_ns)
{
        int64_t now = clamp(b, now_ns);

        if (n == 0)
                return 0;
        if (n > bucket_capacity(b))
                return BUCKET_NEVER;
        return b->rule.kind == BUCKET_WINDOW ? window_wait(b, n, now) : tokens_wait(b, n, now);
}

void bucket_force(struct bucket *b, uint64_t n, int64_t now_ns)
{
        int64_t now = clamp(b, now_ns);
        uint64_t used = bucket_used(b, now);
        uint64_t room = used < BUCKET_AMOUNT_MAX ? BUCKET_AMOUNT_MAX - used : 0;

        if (n > room)
                n = room;
        if (n == 0)
                return;
        if (b->rule.kind == BUCKET_WINDOW)
                window_add(b, (uint32_t)n, now);
        else
                set_debt(b, debt_at(b, now) + (u128)n * period_ns(&b->rule));
        b->at_ns = now;
}

int64_t bucket_take(struct bucket *b, uint64_t n, int64_t now_ns)
{
        int64_t wait = bucket_wait(b, n, now_ns);
        if (wait == 0)
                bucket_force(b, n, now_ns);
        return wait;
}

uint64_t bucket_used(const struct bucket *b, int64_t now_ns)
{
        int64_t now = clamp(b, now_ns);
        return b->rule.kind == BUCKET_WINDOW ? window_used(b, now) : tokens_used(b, now);
}

uint64_t bucket_left(const struct bucket *b, int64_t now_ns)
{
        uint64_t used = bucket_used(b, now_ns), capacity = bucket_capacity(b);
        return used < capacity ? capacity - used : 0;
}

int64_t bucket_idle_wait(const struct bucket *b, int64_t now_ns)
{
        int64_t now = clamp(b, now_ns);

        if (b->rule.kind == BUCKET_TOKENS)
                return pay_ns(b, debt_at(b, now));
        if (b->len == 0)
                return 0;
        uint64_t leaves = leaves_ns(b, quantum(b, b->len - 1U));
        return leaves > (uint64_t)now ? (int64_t)(leaves - (uint64_t)now) : 0;
}

bool bucket_is_idle(const struct bucket *b, int64_t now_ns)
{
        return bucket_idle_wait(b, now_ns) == 0;
}

void bucket_set_rule(struct bucket *b, const struct bucket_rule *rule, int64_t now_ns)
{
        struct bucket_rule old = b->rule;
        int64_t now = clamp(b, now_ns);
        uint64_t used = bucket_used(b, now);
        u128 debt = old.kind == BUCKET_TOKENS ? debt_at(b, now) : 0;

        b->rule = complete_rule(rule);
        b->at_ns = now;
        if (old.kind != b->rule.kind) {
                bucket_reset(b);
                bucket_force(b, used, now);
        } else if (b->rule.kind == BUCKET_WINDOW) {
                window_recut(b, quantum_ns(&old), now);
                window_drop_gone(b, now);
        } else {
                /* Whole tokens apart from the rest, or the product would not fit. */
                uint64_t from = period_ns(&old), to = period_ns(&b->rule);
                u128 rest = debt % from * to;
                set_debt(b, debt / from * to + (rest + from - 1) / from);
        }
}

/* --- bytes ------------------------------------------------------------------------------------ */

/* kind u8, amount, period_ms, burst (tokens only), at_ns, and then
 *   tokens: debt low, high
 *   window: number of quanta; if any: how many quanta the newest is behind at_ns, its count, and
 *           for each older one the step back to it (1..) and its count */
void bucket_pack(const struct bucket *b, struct buf *to)
{
        buf_put_byte(to, (char)b->rule.kind);
        buf_put_varint(to, b->rule.amount);
        buf_put_varint(to, (uint64_t)b->rule.period_ms);
        if (b->rule.kind == BUCKET_TOKENS)
                buf_put_varint(to, b->rule.burst);
        buf_put_varint(to, (uint64_t)b->at_ns);
        if (b->rule.kind == BUCKET_TOKENS) {
                buf_put_varint(to, b->debt_lo);
                buf_put_varint(to, b->debt_hi);
                return;
        }
        buf_put_varint(to, b->len);
        uint64_t after = number_at(b, b->at_ns);
        for (unsigned i = b->len; i-- > 0;) {
                uint64_t number = full_number(b, quantum(b, i));
                buf_put_varint(to, after - number);
                buf_put_varint(to, quantum(b, i)->count);
                after = number;
        }
}

static bool unpack_ring(struct bucket *b, struct reader *r)
{
        uint64_t len = reader_varint(r), after = number_at(b, b->at_ns), sum = 0;

        if (r->failed || len > RING_MAX)
                return false;
        while (b->size < len)
                window_grow(b);
        b->len = (uint16_t)len;
        for (unsigned i = b->len; i-- > 0;) {
                uint64_t step = reader_varint(r), count = reader_varint(r);
                bool is_newest = i + 1U == b->len;
                if (r->failed || step > after || (!is_newest && step == 0) || count == 0 ||
                    count > BUCKET_AMOUNT_MAX)
                        return false;
                after -= step;
                sum += count;
                if (is_newest)
                        b->newest = after;
                if (b->newest - after >= RING_MAX)
                        return false;
                b->ring[i] = (struct bucket_quantum){(uint32_t)after, (uint32_t)count};
        }
        b->used = (uint32_t)sum;
        return sum <= BUCKET_AMOUNT_MAX;
}

static bool unpack(struct bucket *b, struct reader *r)
{
        struct bucket_rule rule = {.kind = (enum bucket_kind)reader_u8(r)};

        rule.amount = reader_varint(r);
        uint64_t period_ms = reader_varint(r);
        rule.burst = rule.kind == BUCKET_TOKENS ? reader_varint(r) : 0;
        uint64_t at_ns = reader_varint(r);
        rule.period_ms = period_ms <= INT64_MAX ? (int64_t)period_ms : 0;
        if (r->failed || at_ns > INT64_MAX || bucket_rule_check(&rule, NULL) != OK)
                return false;
        bucket_init(b, &rule);
        b->at_ns = (int64_t)at_ns;
        if (rule.kind == BUCKET_WINDOW)
                return unpack_ring(b, r);
        b->debt_lo = reader_varint(r);
        b->debt_hi = reader_varint(r);
        return !r->failed && debt_at(b, b->at_ns) <= (u128)BUCKET_AMOUNT_MAX * period_ns(&rule);
}

bool bucket_unpack(struct bucket *b, struct slice *s)
{
        struct reader r = reader_make(*s);

        *b = (struct bucket){0};
        if (!unpack(b, &r)) {
                free(b->ring);
                *b = (struct bucket){0};
                return false;
        }
        *s = slice_make(r.at, reader_left(&r));
        return true;
}

/* 1 The rule is a possible one.  2 A bucket of tokens has no ring, a window no debt.  3 The ring's
 * numbers grow, none is of the future, and they span at most RING_MAX.  4 Every count is above 0,
 * and `used` is their sum.  5 Nothing counted is above BUCKET_AMOUNT_MAX. */
void bucket_check(const struct bucket *b)
{
        ASSERT(bucket_rule_check(&b->rule, NULL) == OK);
        ASSERT(b->at_ns >= 0);
        if (b->rule.kind == BUCKET_TOKENS) {
                ASSERT(!b->ring && b->len == 0 && b->size == 0 && b->used == 0 &&
                       b->rule.burst > 0);
                ASSERT(debt_at(b, b->at_ns) <= (u128)BUCKET_AMOUNT_MAX * period_ns(&b->rule));
                return;
        }
        ASSERT(b->debt_lo == 0 && b->debt_hi == 0);
        ASSERT(b->len <= b->size && b->size <= RING_MAX && (b->size & (b->size - 1U)) == 0);
        ASSERT(b->len == 0 || b->newest <= number_at(b, b->at_ns));
        uint64_t sum = 0, before = 0;
        for (unsigned i = 0; i < b->len; i++) {
                uint64_t number = full_number(b, quantum(b, i));
                ASSERT(i == 0 || number > before);
                ASSERT(b->newest - number < RING_MAX);
                ASSERT(quantum(b, i)->count > 0);
                sum += quantum(b, i)->count;
                before = number;
        }
        ASSERT(b->len == 0 || before == b->newest);
        ASSERT(sum == b->used && sum <= BUCKET_AMOUNT_MAX);
}
