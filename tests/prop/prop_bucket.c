/* Rate limits against a checker that remembers every take.
 *
 * All windows are checked, not a sample of them: a window is fullest when it ends at a take, so the
 * one that ends at each take is counted from the takes themselves (two ends that only move forward;
 * for tokens, the least of all beginnings so far).  The other direction too: what is refused must
 * have been too much, up to the one quantum a window may err on the safe side. */
#include "../unit/check.h"

#include "base/bytes.h"
#include "dice.h"
#include "state/bucket.h"

#define TAKES     2000000ULL
#define EPISODE   50000 /* takes of one bucket, at most */
#define TIME_MAX  4000000000000000000LL
#define MEMORY    (1U << 16)    /* takes kept; more than an episode has */
#define COMMON_MS 18748800000LL /* a multiple of all periods of tokens, see any_period() */

__extension__ typedef __int128 i128;

struct take {
        int64_t at_ns;
        uint64_t n;
};

struct world {
        struct rng dice;
        struct bucket bucket;
        struct buf bytes, again;
        int64_t start_ns, now_ns;
        bool had_change; /* of the rule, in this episode */
        uint64_t total;  /* takes of all episodes */
        /* Window: the takes, and the sum of those from `tail` on, which are in the window. */
        struct take takes[MEMORY];
        size_t head, tail, late; /* late: the same for a window that is one quantum longer */
        uint64_t sum, late_sum;
        int64_t known_ns; /* takes up to here are out of the promise, the old rule forgot them */
        /* Tokens, in tokens * COMMON_MS * NS_PER_MS: taken, come back, least of the difference. */
        i128 taken, back, least;
        int64_t back_ns; /* time up to which `back` is counted */
};

static int64_t period_ns(const struct bucket_rule *r)
{
        return r->period_ms * NS_PER_MS;
}

/* As the header states it: period/255, at least 1 ms, rounded up. */
static int64_t quantum_ns(const struct bucket_rule *r)
{
        int64_t q = (period_ns(r) + 254) / 255;
        return q > NS_PER_MS ? q : NS_PER_MS;
}

static void forget(struct world *w, int64_t now_ns)
{
        w->head = w->tail = w->late = 0;
        w->sum = w->late_sum = 0;
        w->known_ns = -1;
        w->taken = w->back = w->least = 0;
        w->back_ns = now_ns;
}

/* --- the checker of windows ------------------------------------------------------------------- */

static void window_move(struct world *w)
{
        int64_t edge = w->now_ns - period_ns(&w->bucket.rule);
        int64_t late = edge - (quantum_ns(&w->bucket.rule) - 1);

        while (w->tail < w->head && w->takes[w->tail].at_ns <= edge)
                w->sum -= w->takes[w->tail++].n;
        while (w->late < w->head && w->takes[w->late].at_ns <= late)
                w->late_sum -= w->takes[w->late++].n;
}

static void window_granted(struct world *w, uint64_t n)
{
        assert_true(w->head < MEMORY);
        w->takes[w->head++] = (struct take){w->now_ns, n};
        w->sum += n;
        w->late_sum += n;
        window_move(w);
        if (w->sum > w->bucket.rule.amount)
                fail_msg("%llu in a window of %llu", (unsigned long long)w->sum,
                         (unsigned long long)w->bucket.rule.amount);
}

static void window_refused(struct world *w, uint64_t n)
{
        window_move(w);
        if (!w->had_change && w->late_sum + n <= w->bucket.rule.amount)
                fail_msg("refused %llu with %llu of %llu used", (unsigned long long)n,
                         (unsigned long long)w->late_sum,
                         (unsigned long long)w->bucket.rule.amount);
}

/* After a change the window may reach further back than before, but not behind what was kept. */
static void window_changed(struct world *w, const struct bucket_rule *old)
{
        int64_t edge = w->now_ns - period_ns(&w->bucket.rule);

        if (w->known_ns < w->now_ns - period_ns(old))
                w->known_ns = w->now_ns - period_ns(old);
        if (edge < w->known_ns)
                edge = w->known_ns;
        w->sum = 0;
        for (w->tail = w->head; w->tail > 0 && w->takes[w->tail - 1].at_ns > edge; w->tail--)
                w->sum += w->takes[w->tail - 1].n;
}

/* --- the checker of tokens -------------------------------------------------------------------- */

static void tokens_move(struct world *w)
{
        i128 rate = (i128)w->bucket.rule.amount * (COMMON_MS / w->bucket.rule.period_ms);

        w->back += rate * (w->now_ns - w->back_ns);
        w->back_ns = w->now_ns;
        if (w->taken - w->back < w->least)
                w->least = w->taken - w->back;
}

static i128 tokens(uint64_t n)
{
        return (i128)n * COMMON_MS * NS_PER_MS;
}

static void tokens_granted(struct world *w, uint64_t n)
{
        tokens_move(w);
        w->taken += tokens(n);
        if (w->taken - w->back - w->least > tokens(w->bucket.rule.burst))
                fail_msg("more than the burst and what came back since");
}

static void tokens_refused(struct world *w, uint64_t n)
{
        tokens_move(w);
        if (!w->had_change &&
            w->taken - w->back - w->least + tokens(n) <= tokens(w->bucket.rule.burst))
                fail_msg("refused %llu though they were there", (unsigned long long)n);
}

/* --- random operations ------------------------------------------------------------------------ */

static int64_t any_period(struct world *w)
{
        static const int64_t periods[] = {1, 7, 10, 1000, 60000, 3600000, BUCKET_PERIOD_MAX_MS};
        return periods[rng_below(&w->dice, ARRAY_LEN(periods))];
}

static uint64_t any_amount(struct world *w)
{
        static const uint64_t tops[] = {3, 10, 100, 1000, 1000, 1000000, BUCKET_AMOUNT_MAX};
        return 1 + rng_below(&w->dice, tops[rng_below(&w->dice, ARRAY_LEN(tops))]);
}

static struct bucket_rule any_rule(struct world *w)
{
        struct bucket_rule r = {BUCKET_WINDOW, any_amount(w), any_period(w), 0};

        if (rng_below(&w->dice, 3) == 0) {
                r.kind = BUCKET_TOKENS;
                r.burst = rng_below(&w->dice, 2) ? any_amount(w) : 0;
        } else if (rng_below(&w->dice, 2)) {
                r.period_ms = 1 + (int64_t)rng_below(&w->dice, 200000);
        }
        return r;
}

static void change_rule(struct world *w)
{
        struct bucket_rule old = w->bucket.rule, rule = any_rule(w);

        /* Often the same kind with other numbers, which is where usage must carry over. */
        if (rng_below(&w->dice, 4))
                while (rule.kind != old.kind)
                        rule = any_rule(w);
        if (old.kind == BUCKET_TOKENS)
                tokens_move(w);
        uint64_t used = bucket_used(&w->bucket, w->now_ns);
        bucket_set_rule(&w->bucket, &rule, w->now_ns);
        bucket_check(&w->bucket);
        w->had_change = true;
        if (old.kind != w->bucket.rule.kind) {
                assert_true(bucket_used(&w->bucket, w->now_ns) == used);
                forget(w, w->now_ns);
        } else if (old.kind == BUCKET_WINDOW) {
                window_changed(w, &old);
        }
}

static void pack_and_unpack(struct world *w)
{
        struct bucket other;

        bucket_check(&w->bucket);
        buf_clear(&w->bytes);
        bucket_pack(&w->bucket, &w->bytes);
        buf_put_byte(&w->bytes, '!');
        struct slice s = buf_slice(&w->bytes);
        assert_true(bucket_unpack(&other, &s));
        assert_int_equal(s.len, 1);
        bucket_check(&other);
        buf_clear(&w->again);
        bucket_pack(&other, &w->again);
        assert_int_equal(w->again.len + 1, w->bytes.len);
        assert_memory_equal(w->again.ptr, w->bytes.ptr, w->again.len);
        bucket_release(&w->bucket);
        w->bucket = other;
}

static uint64_t any_n(struct world *w)
{
        uint64_t capacity = bucket_capacity(&w->bucket);
        uint64_t dice = rng_below(&w->dice, 64);

        if (dice == 0)
                return 1 + rng_below(&w->dice, capacity);
        /* Large steps where the amount is large, or nothing would ever be refused. */
        uint64_t n = 1 + (capacity > 2000 ? rng_below(&w->dice, capacity / 500) : dice / 60);
        return n < capacity ? n : capacity;
}

/* Mostly about what the limit lets through, so that it is always near its edge. */
static void pass_time(struct world *w)
{
        uint64_t period = (uint64_t)period_ns(&w->bucket.rule);
        uint64_t amount = w->bucket.rule.amount;
        uint64_t gap = amount > 2000 ? period / 500 : period / amount;
        uint64_t dice = rng_below(&w->dice, 256);

        if (dice < 96)
                return;
        if (dice < 108) { /* the first or last instant of a quantum */
                int64_t q = quantum_ns(&w->bucket.rule);
                int64_t edge = (w->now_ns / q + 1) * q - (int64_t)rng_below(&w->dice, 2);
                w->now_ns = edge > w->now_ns ? edge : w->now_ns;
        } else if (dice < 254) {
                w->now_ns += (int64_t)rng_below(&w->dice, gap + gap / 2 + 2);
        } else {
                w->now_ns += (int64_t)rng_below(&w->dice, period + period / 8);
        }
}

static void was_refused(struct world *w, uint64_t n, int64_t wait)
{
        bool is_window = w->bucket.rule.kind == BUCKET_WINDOW;

        if (is_window)
                window_refused(w, n);
        else
                tokens_refused(w, n);
        assert_true(wait > 0 && wait != BUCKET_NEVER);
        if (wait > TIME_MAX) { /* 10^9 tokens at one a month */
                w->now_ns = TIME_MAX;
                return;
        }
        assert_true(bucket_wait(&w->bucket, n, w->now_ns + wait) == 0);
        assert_true(bucket_wait(&w->bucket, n, w->now_ns + wait - 1) == 1);
        if (rng_below(&w->dice, 4))
                w->now_ns += wait;
        else
                w->now_ns += (int64_t)rng_below(&w->dice, (uint64_t)wait);
}

static void try_one(struct world *w)
{
        uint64_t n = any_n(w);
        int64_t wait = bucket_take(&w->bucket, n, w->now_ns);

        if (wait != 0) {
                was_refused(w, n, wait);
                return;
        }
        w->total++;
        if (w->bucket.rule.kind == BUCKET_WINDOW)
                window_granted(w, n);
        else
                tokens_granted(w, n);
}

static void episode(struct world *w, uint64_t takes)
{
        struct bucket_rule rule = any_rule(w);
        bool is_changing = rng_below(&w->dice, 4) == 0;
        uint64_t until = w->total + 1 + rng_below(&w->dice, takes);

        bucket_init(&w->bucket, &rule);
        w->start_ns = w->now_ns = (int64_t)rng_below(&w->dice, 1000000000000000000ULL);
        w->had_change = false;
        forget(w, w->now_ns);
        while (w->total < until && w->now_ns < TIME_MAX) {
                try_one(w);
                pass_time(w);
                uint64_t dice = rng_below(&w->dice, 4096);
                if (dice == 0)
                        pack_and_unpack(w);
                else if (is_changing && dice < 16)
                        change_rule(w);
        }
        assert_true(bucket_take(&w->bucket, bucket_capacity(&w->bucket) + 1, w->now_ns) ==
                    BUCKET_NEVER);
        int64_t wait = bucket_idle_wait(&w->bucket, w->now_ns);
        if (wait < INT64_MAX - w->now_ns) {
                w->now_ns += wait;
                assert_true(bucket_is_idle(&w->bucket, w->now_ns));
                assert_true(bucket_left(&w->bucket, w->now_ns) == bucket_capacity(&w->bucket));
        }
        bucket_release(&w->bucket);
}

static void no_window_of_millions_of_takes_is_ever_over_its_limit(void **state)
{
        static struct world w;
        uint64_t takes = dice_rounds(dice_env("WEIR_TAKES", TAKES));

        (void)state;
        dice_init(&w.dice, "bucket");
        buf_init(&w.bytes, 0);
        buf_init(&w.again, 0);
        while (w.total < takes)
                episode(&w, EPISODE);
        buf_release(&w.bytes);
        buf_release(&w.again);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(no_window_of_millions_of_takes_is_ever_over_its_limit),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
