/* Rollups: packed and read again, damaged bytes, merging, 500 names, views, and their size. */
#include "check.h"

#include <math.h>
#include <stdio.h>

#include "base/rand.h"
#include "core/rollup_view.h"
#include "rollup_box.h"

#define AT 30000000

/* Something in every table. */
static void fill(struct rollup *r)
{
        minute_job(r, "mail", 0, 1200);
        minute_job(r, "mail", 7, 3);
        minute_job(r, "mailing", 1ULL << 40, 0);
        minute_cell(r, TALLY_HOOK, SLICE_LIT("mail"))->jobs.failed = 3;
        minute_cell(r, TALLY_HOOK, SLICE_NONE)->jobs.deferred = 9;
        struct tally_jobs *q = &minute_cell(r, TALLY_QUEUE, SLICE_LIT("default"))->jobs;
        q->completed = 5; /* late: no attempt ended */
        q->wait.n[0] = UINT32_MAX;
        q->wait.n[31] = 1;
        struct tally_values *v = &minute_cell(r, TALLY_METRIC, slice_make("shop\0lag", 8))->values;
        *v = (struct tally_values){3, -1.5f, 1e9f, 1e9 + 0.25};
        struct tally_asks *c = &minute_cell(r, TALLY_CLIENT, SLICE_LIT("etl"))->asks;
        *c = (struct tally_asks){.granted = 7,
                                 .refused = 2,
                                 .observed = 1,
                                 .waited_ms = 1ULL << 33,
                                 .cause = slice_make("shop\0lag", 8)};
        c->by_reason[CHECK_THRESHOLD] = 2;
        c->by_reason[CHECK_REASONS - 1] = 1;
        minute_cell(r, TALLY_TARGET, SLICE_LIT("shop"))->asks.levels = 1 << LEVEL_UNKNOWN;
        r->totals[0] = UINT64_MAX;
        r->totals[ROLLUP_TOTALS - 1] = 12;
        r->since = r->at - 5;
}

static void assert_same_jobs(const struct tally_jobs *a, const struct tally_jobs *b)
{
        assert_memory_equal(&a->wait, &b->wait, sizeof(a->wait));
        assert_memory_equal(&a->run, &b->run, sizeof(a->run));
        assert_int_equal(a->completed, b->completed);
        assert_int_equal(a->failed, b->failed);
        assert_int_equal(a->deferred, b->deferred);
}

static void what_is_packed_is_read_again(void **unused)
{
        (void)unused;
        struct rollup r, got;
        struct buf b CLEANUP(buf_release) = {0};
        minute_init(&r, AT);
        fill(&r);
        rollup_pack(&r, &b);
        rollup_init(&got);
        assert_int_equal(rollup_unpack(buf_slice(&b), ROLLUP_ALL_KINDS, &got), OK);
        assert_int_equal(got.at, AT);
        assert_int_equal(got.since, AT - 5);
        assert_int_equal(got.span, 1);
        assert_memory_equal(got.totals, r.totals, sizeof(r.totals));
        assert_int_equal(got.tables[TALLY_HOOK].n, 3);
        for (size_t i = 0; i < 3; i++) {
                assert_true(slice_eq(got.tables[TALLY_HOOK].rows[i].name,
                                     r.tables[TALLY_HOOK].rows[i].name));
                assert_same_jobs(&got.tables[TALLY_HOOK].rows[i].cell.jobs,
                                 &r.tables[TALLY_HOOK].rows[i].cell.jobs);
        }
        assert_same_jobs(&rollup_find(&got.tables[TALLY_QUEUE], SLICE_LIT("default"))->jobs,
                         &r.tables[TALLY_QUEUE].rows[1].cell.jobs);
        const struct tally_asks *c =
                &rollup_find(&got.tables[TALLY_CLIENT], SLICE_LIT("etl"))->asks;
        assert_int_equal(c->granted, 7);
        assert_int_equal(c->refused, 2);
        assert_int_equal(c->observed, 1);
        assert_true(c->waited_ms == 1ULL << 33);
        assert_int_equal(c->by_reason[CHECK_THRESHOLD], 2);
        assert_int_equal(c->by_reason[CHECK_REASONS - 1], 1);
        assert_memory_equal(c->cause.ptr, "shop\0lag", 8);
        const struct tally_values *v = &got.tables[TALLY_METRIC].rows[1].cell.values;
        assert_true(v->n == 3 && v->min == -1.5f && v->max == 1e9f && v->sum == 1e9 + 0.25);
        assert_int_equal(got.tables[TALLY_TARGET].rows[1].cell.asks.levels, 1 << LEVEL_UNKNOWN);
        rollup_release(&got);
        assert_int_equal(rollup_unpack(buf_slice(&b), 1u << TALLY_QUEUE, &got), OK);
        assert_int_equal(got.tables[TALLY_HOOK].n, 0); /* passed over */
        assert_int_equal(got.tables[TALLY_QUEUE].n, 2);
        rollup_release(&got);
        rollup_release(&r);
}

static void no_flipped_bit_and_no_cut_is_delivered(void **unused)
{
        (void)unused;
        struct rollup r, got;
        struct buf b CLEANUP(buf_release) = {0};
        minute_init(&r, AT);
        fill(&r);
        rollup_pack(&r, &b);
        for (size_t i = 0; i < b.len * 8; i++) {
                b.ptr[i / 8] ^= (char)(1 << i % 8);
                rollup_init(&got);
                assert_int_equal(rollup_unpack(buf_slice(&b), ROLLUP_ALL_KINDS, &got), ERR_CORRUPT);
                rollup_release(&got);
                b.ptr[i / 8] ^= (char)(1 << i % 8);
        }
        for (size_t len = 0; len < b.len; len++) {
                rollup_init(&got);
                assert_int_equal(rollup_unpack(slice_make(b.ptr, len), ROLLUP_ALL_KINDS, &got),
                                 ERR_CORRUPT);
                rollup_release(&got);
        }
        rollup_release(&r);
}

static void merging_adds_names_counts_and_histograms(void **unused)
{
        (void)unused;
        struct rollup ten, a, b;
        minute_init(&ten, AT);
        ten.span = ROLLUP_TEN;
        minute_init(&a, AT + 3);
        minute_init(&b, AT + 9);
        fill(&a);
        fill(&b);
        minute_job(&b, "aaa", 5, 5);
        a.totals[0] = b.totals[0] = 2;
        b.totals[ROLLUP_TOTALS - 1] = 4;
        minute_cell(&b, TALLY_METRIC, slice_make("shop\0lag", 8))->values.min = -9;
        assert_int_equal(rollup_merge(&ten, &a), OK);
        assert_int_equal(rollup_merge(&ten, &b), OK);
        rollup_release(&a);
        rollup_release(&b); /* nothing of them is borrowed */
        assert_int_equal(ten.totals[0], 4);
        assert_int_equal(ten.totals[ROLLUP_TOTALS - 1], 12);
        assert_int_equal(ten.since, AT - 2);
        assert_int_equal(ten.tables[TALLY_HOOK].n, 4);
        assert_slice(ten.tables[TALLY_HOOK].rows[1].name, "aaa");
        assert_int_equal(ten.tables[TALLY_HOOK].rows[0].cell.jobs.deferred, 18);
        assert_int_equal(
                octaves_total(&rollup_find(&ten.tables[TALLY_HOOK], SLICE_LIT("mail"))->jobs.wait),
                4);
        const struct tally_asks *c =
                &rollup_find(&ten.tables[TALLY_CLIENT], SLICE_LIT("etl"))->asks;
        assert_int_equal(c->by_reason[CHECK_THRESHOLD], 4);
        assert_memory_equal(c->cause.ptr, "shop\0lag", 8);
        const struct tally_values *v = &ten.tables[TALLY_METRIC].rows[1].cell.values;
        assert_true(v->n == 6 && v->min == -9 && v->max == 1e9f);
        rollup_release(&ten);
}

static void of_more_than_500_names_the_busiest_stay(void **unused)
{
        (void)unused;
        struct rollup ten, m;
        static char names[2][TALLY_NAMES][8];
        minute_init(&ten, AT);
        ten.span = ROLLUP_TEN;
        for (size_t k = 0; k < 2; k++) {
                minute_init(&m, AT + (int64_t)k);
                for (size_t i = 0; i < TALLY_NAMES; i++) {
                        (void)snprintf(names[k][i], 8, "%c%zu", k ? 'b' : 'a', i);
                        for (int n = 0; n < 1 + (k && i < 100); n++)
                                minute_job(&m, names[k][i], 1, 1);
                }
                assert_int_equal(rollup_merge(&ten, &m), OK);
                rollup_release(&m);
        }
        const struct rollup_table *t = &ten.tables[TALLY_HOOK];
        uint64_t sum = 0;
        assert_int_equal(t->n, TALLY_NAMES + 1);
        for (size_t i = 0; i < t->n; i++)
                sum += t->rows[i].cell.jobs.completed;
        assert_int_equal(sum, 1100);
        for (size_t i = 0; i < 100; i++)
                assert_non_null(rollup_find(t, slice_str(names[1][i])));
        assert_int_equal(t->rows[0].cell.jobs.completed, 500);
        rollup_release(&ten);
}

static void add_to(struct rollup_view *v, struct rollup *r)
{
        struct buf b CLEANUP(buf_release) = {0};
        rollup_pack(r, &b);
        assert_int_equal(rollup_view_add(v, buf_slice(&b)), OK);
        rollup_release(r);
}

static void a_view_has_points_of_what_is_known(void **unused)
{
        (void)unused;
        struct rollup r;
        const struct slice metrics[] = {{"shop\0lag", 8}, {"shop\0load", 9}};
        struct rollup_view v = {
                .from = AT, .step = 5, .n = 6, .kind = -1, .metrics = metrics, .n_metrics = 2};
        rollup_view_init(&v);
        minute_init(&r, AT + 9);
        fill(&r);
        r.totals[0] = 3;
        r.since = AT + 9;
        add_to(&v, &r);
        minute_init(&r, AT + 22); /* idle since 16 */
        r.since = AT + 16;
        r.totals[ROLLUP_COUNTS] = 8;
        add_to(&v, &r);
        minute_init(&r, AT + 40); /* later than all, but known for longer */
        r.since = AT + 29;
        r.totals[0] = 100;
        add_to(&v, &r);
        static const bool known[] = {false, true, false, true, true, true};
        for (size_t i = 0; i < 6; i++) {
                assert_int_equal(v.points[i].is_known, known[i]);
                assert_int_equal(v.points[i].totals[0], i == 1 ? 3 : 0);
                assert_int_equal(v.points[i].totals[ROLLUP_COUNTS], i == 3 || i == 4 ? 8 : 0);
                assert_int_equal(isnan(v.maxima[i]), i != 1);
                assert_true(isnan(v.maxima[6 + i]));
        }
        assert_true(v.maxima[1] == 1e9f);
        assert_int_equal(rollup_view_add(&v, SLICE_LIT("nonsense")), ERR_CORRUPT);
        rollup_view_release(&v);
}

static void a_view_of_a_name_has_its_cells(void **unused)
{
        (void)unused;
        struct rollup r;
        struct rollup_view v = {
                .from = AT, .step = 60, .n = 1, .kind = TALLY_CLIENT, .name = SLICE_LIT("etl")};
        rollup_view_init(&v);
        for (int i = 0; i < 3; i++) {
                minute_init(&r, AT + i);
                fill(&r);
                add_to(&v, &r);
        }
        assert_int_equal(v.points[0].cell.asks.granted, 21);
        assert_int_equal(v.points[0].cell.asks.cause.len, 8);
        assert_memory_equal(v.points[0].cell.asks.cause.ptr, "shop\0lag", 8);
        rollup_view_release(&v);
}

/* Jobs of 500 hooks at 40,000 a second: 80 a second each, with times spread over three octaves
 * either way, which are longer for some hooks than for others. */
static uint64_t spread_ms(struct rng *dice, double middle)
{
        double sum = 0;
        for (int i = 0; i < 12; i++)
                sum += (double)rng_below(dice, 1000) / 1000;
        return (uint64_t)(middle * exp2((sum - 6) * 1.5));
}

static void busy_minutes(struct rollup *r, struct rng *dice, unsigned minutes)
{
        static char names[500][40];
        for (size_t i = 0; i < 500; i++) {
                (void)snprintf(names[i], sizeof(names[i]), "shop_%zu_action_%zu", i % 7, i);
                struct tally_jobs *c = &minute_cell(r, TALLY_HOOK, slice_str(names[i]))->jobs;
                double middle = 5 * exp2((double)(i % 8));
                for (int k = 0; k < 480; k++) { /* a tenth, each ten times and a bit */
                        c->wait.n[octave_of(spread_ms(dice, middle * 20))] +=
                                10 * minutes + (uint32_t)rng_below(dice, 3) - 1;
                        uint32_t n = 10 * minutes + (uint32_t)rng_below(dice, 3) - 1;
                        c->run.n[octave_of(spread_ms(dice, middle))] += n;
                        c->completed += n - (k == 7);
                        c->failed += k == 7;
                }
        }
}

static void a_month_of_500_busy_hooks_is_below_130_mb(void **unused)
{
        (void)unused;
        struct rng dice;
        static const struct {
                unsigned span, rows; /* minutes 2 days, tens 10, hours 30 */
        } steps[] = {{1, 2880}, {10, 1440}, {60, 720}};
        uint64_t sum = 0;
        rng_init_seed(&dice, 5);
        for (size_t i = 0; i < ARRAY_LEN(steps); i++) {
                struct rollup r;
                struct buf b CLEANUP(buf_release) = {0};
                minute_init(&r, AT);
                r.span = steps[i].span;
                busy_minutes(&r, &dice, steps[i].span);
                rollup_pack(&r, &b);
                print_message("%u minutes: %zu bytes\n", steps[i].span, b.len);
                /* In SQLite: pages of 16 KB, of which the last is on average half empty. */
                sum += steps[i].rows * (uint64_t)(b.len + 4000);
                rollup_release(&r);
        }
        print_message("all: %llu MB\n", (unsigned long long)(sum / 1000000));
        assert_true(sum < 130000000);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(what_is_packed_is_read_again),
                cmocka_unit_test(no_flipped_bit_and_no_cut_is_delivered),
                cmocka_unit_test(merging_adds_names_counts_and_histograms),
                cmocka_unit_test(of_more_than_500_names_the_busiest_stay),
                cmocka_unit_test(a_view_has_points_of_what_is_known),
                cmocka_unit_test(a_view_of_a_name_has_its_cells),
                cmocka_unit_test(a_month_of_500_busy_hooks_is_below_130_mb),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
