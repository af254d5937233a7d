/* The heap: order, ties, removal and update from the item alone.  prop_heap.c does the rest. */
#include "check.h"

#include "base/heap.h"

struct item {
        struct heap_node node;
};

static void fill(struct heap *h, struct item *items, size_t n)
{
        heap_init(h);
        for (size_t i = 0; i < n; i++) {
                items[i].node = (struct heap_node){i, HEAP_NOWHERE};
                heap_push(h, &items[i].node, (i * 7919) % 101); /* many ties */
                heap_check(h);
        }
}

static void an_empty_heap_has_nothing_to_give(void **state)
{
        struct heap h;

        (void)state;
        heap_init(&h);
        assert_null(heap_peek(&h));
        assert_null(heap_pop(&h));
        heap_check(&h);
        heap_release(&h);
}

static void items_come_out_by_key_and_then_by_id(void **state)
{
        struct item items[500];
        struct heap h;
        uint64_t last_key = 0, last_id = 0;

        (void)state;
        fill(&h, items, 500);
        for (size_t i = 0; i < 500; i++) {
                uint64_t key = heap_peek_key(&h);
                struct heap_node *peeked = heap_peek(&h);
                struct heap_node *node = heap_pop(&h);
                assert_ptr_equal(node, peeked);
                assert_false(heap_has(node));
                assert_true(key == (node->id * 7919) % 101);
                assert_true(i == 0 || key > last_key || (key == last_key && node->id > last_id));
                last_key = key;
                last_id = node->id;
                heap_check(&h);
        }
        assert_int_equal(h.len, 0);
        heap_release(&h);
}

static void those_before_an_item_are_counted_up_to_a_bound(void **state)
{
        struct item items[500];
        struct heap h;

        (void)state;
        fill(&h, items, 500);
        for (size_t i = 0; i < 500; i++) {
                size_t n = 0;
                for (size_t k = 0; k < 500; k++) {
                        uint64_t mine = (i * 7919) % 101, other = (k * 7919) % 101;
                        n += other < mine || (other == mine && k < i);
                }
                assert_int_equal(heap_count_before(&h, &items[i].node, 500), n);
                assert_int_equal(heap_count_before(&h, &items[i].node, 7), n < 7 ? n : 7);
        }
        heap_release(&h);
}

static void an_item_is_removed_from_any_place(void **state)
{
        struct item items[60];
        struct heap h;

        (void)state;
        for (size_t victim = 0; victim < 60; victim++) {
                fill(&h, items, 60);
                struct heap_node *node = h.entries[victim].node;
                assert_true(heap_key(&h, node) == h.entries[victim].key);
                heap_remove(&h, node);
                assert_false(heap_has(node));
                assert_int_equal(h.len, 59);
                heap_check(&h);
                for (uint32_t i = 0; i < h.len; i++)
                        assert_ptr_not_equal(h.entries[i].node, node);
                heap_release(&h);
        }
}

static void an_item_moves_up_or_down_with_its_key(void **state)
{
        static const uint64_t keys[] = {0, 1, 50, 99, 100, UINT64_MAX};
        struct item items[60];
        struct heap h;

        (void)state;
        for (size_t victim = 0; victim < 60; victim++) {
                for (size_t k = 0; k < ARRAY_LEN(keys); k++) {
                        fill(&h, items, 60);
                        struct heap_node *node = h.entries[victim].node;
                        heap_update(&h, node, keys[k]);
                        assert_true(heap_has(node));
                        assert_true(heap_key(&h, node) == keys[k]);
                        assert_int_equal(h.len, 60);
                        heap_check(&h);
                        heap_release(&h);
                }
        }
}

static void signed_times_keep_their_order_as_keys(void **state)
{
        static const int64_t times[] = {INT64_MIN, INT64_MIN + 1, -1, 0, 1, INT64_MAX};

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(times); i++) {
                assert_true(heap_key_to_i64(heap_key_i64(times[i])) == times[i]);
                if (i > 0)
                        assert_true(heap_key_i64(times[i - 1]) < heap_key_i64(times[i]));
        }
}

static void growth_is_by_half(void **state)
{
        static struct item items[10000];
        struct heap h;
        uint32_t cap = 0, n = 0;

        (void)state;
        heap_init(&h);
        for (uint32_t i = 0; i < 10000; i++) {
                items[i].node = (struct heap_node){i, HEAP_NOWHERE};
                heap_push(&h, &items[i].node, 10000 - i);
                n += h.cap != cap;
                cap = h.cap;
                assert_true(cap <= 16 || cap <= i + i / 2 + 1);
        }
        assert_true(n < 20);
        heap_release(&h);
}

static void push_twice(void)
{
        struct heap h;
        struct heap_node node = {1, HEAP_NOWHERE};

        heap_init(&h);
        heap_push(&h, &node, 1);
        heap_push(&h, &node, 1);
}

static void remove_stranger(void)
{
        struct heap h;
        struct heap_node a = {1, HEAP_NOWHERE}, b = {2, 0};

        heap_init(&h);
        heap_push(&h, &a, 1);
        heap_remove(&h, &b);
}

static void update_absent(void)
{
        struct heap h;
        struct heap_node a = {1, HEAP_NOWHERE};

        heap_init(&h);
        heap_update(&h, &a, 1);
}

static void check_disorder(void)
{
        struct item items[60];
        struct heap h;

        fill(&h, items, 60);
        h.entries[59].key = 0;
        h.entries[0].key = 1;
        heap_check(&h);
}

static void check_position(void)
{
        struct item items[60];
        struct heap h;

        fill(&h, items, 60);
        items[7].node.pos++;
        heap_check(&h);
}

static void our_own_mistakes_end_the_process(void **state)
{
        (void)state;
        assert_panics(push_twice);
        assert_panics(remove_stranger);
        assert_panics(update_absent);
        assert_panics(check_disorder);
        assert_panics(check_position);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(an_empty_heap_has_nothing_to_give),
                cmocka_unit_test(items_come_out_by_key_and_then_by_id),
                cmocka_unit_test(those_before_an_item_are_counted_up_to_a_bound),
                cmocka_unit_test(an_item_is_removed_from_any_place),
                cmocka_unit_test(an_item_moves_up_or_down_with_its_key),
                cmocka_unit_test(signed_times_keep_their_order_as_keys),
                cmocka_unit_test(growth_is_by_half),
                cmocka_unit_test(our_own_mistakes_end_the_process),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
