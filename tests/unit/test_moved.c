/* Batches of the ledger: how their rows are packed, the bytes of their record, and where they are
 * found. */
#include "check.h"

#include <stdio.h>

#include "state/moved.h"

/* ---- rows ---- */

static void assert_unpacked(const struct moved_values *v, const struct site_row *want, size_t n)
{
        struct reader r = reader_make(v->rows);
        struct site_row row = {0};
        assert_int_equal(v->n_rows, n);
        for (size_t i = 0; i < n; i++) {
                assert_true(moved_next(&r, &row));
                assert_true(row.id == want[i].id && row.original_s == want[i].original_s);
        }
        assert_false(moved_next(&r, &row));
        assert_false(r.failed);
}

static void rows_are_unpacked_oldest_first_whatever_their_order_was(void **unused)
{
        (void)unused;
        struct buf packed CLEANUP(buf_release) = {0};
        struct moved_values v = {0};
        struct site_row rows[] = {{7, 300}, {900000, 100}, {8, 300}, {1, 200}};
        const struct site_row want[] = {{900000, 100}, {1, 200}, {7, 300}, {8, 300}};
        moved_pack(&v, rows, ARRAY_LEN(rows), &packed);
        assert_int_equal(v.oldest_s, 100);
        assert_unpacked(&v, want, ARRAY_LEN(want));
}

static void one_row_and_the_most_rows_are_unpacked(void **unused)
{
        (void)unused;
        struct buf packed CLEANUP(buf_release) = {0};
        struct moved_values v = {0};
        struct site_row rows[SITE_ROWS_MAX], want[SITE_ROWS_MAX];
        for (size_t i = 0; i < SITE_ROWS_MAX; i++)
                rows[SITE_ROWS_MAX - 1 - i] = want[i] =
                        (struct site_row){5000000 + 3 * i, 1700000000 + (int64_t)i};
        moved_pack(&v, rows, SITE_ROWS_MAX, &packed);
        assert_unpacked(&v, want, SITE_ROWS_MAX);
        assert_true(packed.len < 3 * SITE_ROWS_MAX);
        moved_pack(&v, want, 1, &packed);
        assert_unpacked(&v, want, 1);
}

static void extreme_ids_and_dates_are_unpacked(void **unused)
{
        (void)unused;
        struct buf packed CLEANUP(buf_release) = {0};
        struct moved_values v = {0};
        struct site_row rows[] = {{UINT64_MAX, INT64_MAX}, {0, INT64_MIN}, {1, INT64_MAX}, {2, 0}};
        const struct site_row want[] = {
                {0, INT64_MIN}, {2, 0}, {1, INT64_MAX}, {UINT64_MAX, INT64_MAX}};
        moved_pack(&v, rows, ARRAY_LEN(rows), &packed);
        assert_unpacked(&v, want, ARRAY_LEN(want));
}

/* ---- records ---- */

struct box {
        struct state state;
        struct buf packed, body;
        struct moved_values values;
};

static void box_init(struct box *b)
{
        struct site_row rows[] = {{100, 1700000000}, {101, 1700000060}};
        *b = (struct box){.values = {.site = slice_str("shop"),
                                     .hook = slice_str("sync"),
                                     .date_s = 1700003600,
                                     .before_s = 1700000900,
                                     .made_s = 1700000100,
                                     .n_moved = 1}};
        state_init(&b->state, 1, thing_kinds);
        moved_pack(&b->values, rows, ARRAY_LEN(rows), &b->packed);
        moved_put(&b->values, &b->body);
}

static void box_release(struct box *b)
{
        state_release(&b->state);
        buf_release(&b->packed);
        buf_release(&b->body);
}

static struct moved *new_batch(struct box *b, const char *name)
{
        return CONTAINER_OF(thing_get(&b->state, THING_MOVED, slice_str(name)), struct moved,
                            thing);
}

static bool set(struct box *b, const char *name, struct slice body)
{
        return thing_kinds[THING_MOVED]->set(&b->state, &new_batch(b, name)->thing, body);
}

static void a_batch_has_the_bytes_it_always_had(void **unused)
{
        (void)unused;
        struct box b;
        char hex[256];
        struct buf again CLEANUP(buf_release) = {0};
        box_init(&b);
        hex_from_bytes((const uint8_t *)b.body.ptr, b.body.len, hex);
        hex[2 * b.body.len] = '\0';
        assert_string_equal(hex, "010473686f700473796e6390fecfaa0684e9cfaa06e4e2cfaa06020180e2cf"
                                 "aa0609c80180c49fd50c0278");
        assert_true(set(&b, "shop/42", buf_slice(&b.body)));
        const struct moved *m = new_batch(&b, "shop/42");
        assert_int_equal(m->number, 42);
        thing_kinds[THING_MOVED]->put(&m->thing, &again);
        assert_true(slice_eq(buf_slice(&again), buf_slice(&b.body)));
        thing_kinds[THING_MOVED]->check(&m->thing);
        box_release(&b);
}

static void a_body_that_was_cut_anywhere_is_refused(void **unused)
{
        (void)unused;
        struct box b;
        box_init(&b);
        for (size_t n = 0; n < b.body.len; n++)
                assert_false(set(&b, "shop/1", slice_make(b.body.ptr, n)));
        buf_put_byte(&b.body, 0);
        assert_false(set(&b, "shop/1", buf_slice(&b.body)));
        box_release(&b);
}

static void a_body_of_another_version_is_refused(void **unused)
{
        (void)unused;
        struct box b;
        box_init(&b);
        for (int version = 0; version < 256; version++) {
                b.body.ptr[0] = (char)version;
                assert_int_equal(set(&b, "shop/1", buf_slice(&b.body)), version == 1);
        }
        box_release(&b);
}

/* Writes the values of the box, and tries them. */
static bool is_taken(struct box *b)
{
        buf_clear(&b->body);
        moved_put(&b->values, &b->body);
        return set(b, "shop/1", buf_slice(&b->body));
}

static void values_that_cannot_be_are_refused(void **unused)
{
        (void)unused;
        struct box b;
        box_init(&b);
        struct moved_values good = b.values;
        assert_true(is_taken(&b));
        b.values.n_rows = 1;
        assert_false(is_taken(&b));
        b.values.n_rows = 3;
        assert_false(is_taken(&b));
        b.values = good;
        b.values.date_s = 0;
        assert_false(is_taken(&b));
        b.values.date_s = INT64_MAX;
        assert_false(is_taken(&b));
        b.values = good;
        b.values.oldest_s--;
        assert_false(is_taken(&b));
        b.values = good;
        b.values.n_rows = 0;
        b.values.rows = SLICE_NONE;
        assert_false(is_taken(&b));
        b.values = good;
        assert_true(is_taken(&b));
        box_release(&b);
}

static void rows_out_of_order_and_too_many_rows_are_refused(void **unused)
{
        (void)unused;
        struct box b;
        struct buf rows CLEANUP(buf_release) = {0};
        box_init(&b);
        /* zigzag: id +1, date +10; id +1, date -1 */
        buf_put_slice(&rows, SLICE_LIT("\x02\x14\x02\x01"));
        b.values.rows = buf_slice(&rows);
        b.values.oldest_s = 10;
        assert_false(is_taken(&b));
        buf_clear(&rows);
        for (size_t i = 0; i <= SITE_ROWS_MAX; i++)
                buf_put_slice(&rows, SLICE_LIT("\x02\x02"));
        b.values.rows = buf_slice(&rows);
        b.values.oldest_s = 1;
        b.values.n_rows = SITE_ROWS_MAX + 1;
        assert_false(is_taken(&b));
        b.values.rows.len -= 2;
        b.values.n_rows--;
        assert_true(is_taken(&b));
        box_release(&b);
}

/* ---- by hook ---- */

static void a_hook_counts_its_batches_as_they_come_change_and_go(void **unused)
{
        (void)unused;
        struct box b;
        box_init(&b);
        struct slice site = b.values.site, hook = b.values.hook;
        assert_null(moved_hook_find(&b.state, site, hook));
        assert_true(set(&b, "shop/1", buf_slice(&b.body)));
        assert_true(set(&b, "shop/2", buf_slice(&b.body)));
        const struct moved_hook *h = moved_hook_find(&b.state, site, hook);
        assert_int_equal(h->n_rows, 4);
        assert_int_equal(h->n_moved, 2);
        assert_null(moved_hook_find(&b.state, site, slice_str("SYNC")));
        assert_null(moved_hook_find(&b.state, slice_str("sho"), slice_str("psync")));
        b.values.n_moved = 2;
        b.values.hook = slice_str("other");
        assert_true(is_taken(&b)); /* shop/1 */
        assert_int_equal(h->n_rows, 2);
        assert_int_equal(moved_hook_find(&b.state, site, b.values.hook)->n_moved, 2);
        thing_drop(&b.state, &new_batch(&b, "shop/2")->thing);
        assert_null(moved_hook_find(&b.state, site, hook));
        box_release(&b);
}

static void an_action_is_found_only_at_the_dates_of_its_batch(void **unused)
{
        (void)unused;
        struct box b;
        box_init(&b);
        struct slice hook = b.values.hook, other = slice_str("aaa");
        struct moved_ask asks[] = {
                {.id = 101, .hook = hook, .date_s = 1700003600},
                {.id = 100, .hook = hook, .date_s = 1700000900}, /* not shifted yet */
                {.id = 99, .hook = hook, .date_s = 1700003600},
                {.id = 101, .hook = other, .date_s = 1700003600},
                {.id = 100, .hook = other, .date_s = 0},
        };
        assert_true(set(&b, "shop/1", buf_slice(&b.body)));
        moved_find(&b.state, b.values.site, asks, ARRAY_LEN(asks));
        assert_int_equal(moved_answer(asks, ARRAY_LEN(asks), hook, 101)->original_s, 1700000060);
        assert_int_equal(moved_answer(asks, ARRAY_LEN(asks), hook, 100)->original_s, 1700000000);
        assert_null(moved_answer(asks, ARRAY_LEN(asks), hook, 99));
        assert_null(moved_answer(asks, ARRAY_LEN(asks), hook, 5));
        assert_null(moved_answer(asks, ARRAY_LEN(asks), other, 101));
        struct moved_ask edited = {.id = 101, .hook = hook, .date_s = 1700003601};
        moved_find(&b.state, b.values.site, &edited, 1);
        assert_false(edited.is_found);
        moved_find(&b.state, slice_str("blog"), asks, 1);
        moved_find(&b.state, b.values.site, asks, 0);
        assert_null(moved_answer(asks, 0, hook, 101));
        box_release(&b);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(rows_are_unpacked_oldest_first_whatever_their_order_was),
                cmocka_unit_test(one_row_and_the_most_rows_are_unpacked),
                cmocka_unit_test(extreme_ids_and_dates_are_unpacked),
                cmocka_unit_test(a_batch_has_the_bytes_it_always_had),
                cmocka_unit_test(a_body_that_was_cut_anywhere_is_refused),
                cmocka_unit_test(a_body_of_another_version_is_refused),
                cmocka_unit_test(values_that_cannot_be_are_refused),
                cmocka_unit_test(rows_out_of_order_and_too_many_rows_are_refused),
                cmocka_unit_test(a_hook_counts_its_batches_as_they_come_change_and_go),
                cmocka_unit_test(an_action_is_found_only_at_the_dates_of_its_batch),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
