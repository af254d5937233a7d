/* The id map at its edges: heights, neighbours, nodes that go away.  prop_idmap.c does the rest. */
#include "check.h"

#include <malloc.h>

#include "base/idmap.h"

static char items[64]; /* only their addresses matter */

/* Ids at both sides of every change of height. */
static const uint64_t edges[] = {
        0,
        1,
        15,
        16,
        63,
        64,
        1023,
        1024,
        65535,
        65536,
        (1ULL << 22) - 1,
        1ULL << 22,
        (1ULL << 28) - 1,
        1ULL << 28,
        1ULL << 34,
        1ULL << 40,
        1ULL << 46,
        (1ULL << 52) - 1,
        1ULL << 52,
        (1ULL << 58) - 1,
        1ULL << 58,
        1ULL << 63,
        UINT64_MAX - 1,
        UINT64_MAX,
};
#define N_EDGES ARRAY_LEN(edges)

static void an_empty_map_has_nothing(void **state)
{
        struct idmap m;
        uint64_t id = 42;

        (void)state;
        idmap_init(&m);
        assert_null(idmap_get(&m, 0));
        assert_null(idmap_take(&m, 0));
        assert_null(idmap_next(&m, 0, &id));
        assert_null(idmap_prev(&m, UINT64_MAX, &id));
        assert_true(id == 42);
        idmap_release(&m);
}

static void one_id_is_found_from_everywhere(void **state)
{
        (void)state;
        for (size_t i = 0; i < N_EDGES; i++) {
                struct idmap m;
                idmap_init(&m);
                idmap_put(&m, edges[i], &items[i]);
                for (size_t k = 0; k < N_EDGES; k++) {
                        uint64_t id = 42;
                        assert_ptr_equal(idmap_get(&m, edges[k]), k == i ? &items[i] : NULL);
                        assert_ptr_equal(idmap_next(&m, edges[k], &id), k <= i ? &items[i] : NULL);
                        assert_true(id == (k <= i ? edges[i] : 42));
                        id = 42;
                        assert_ptr_equal(idmap_prev(&m, edges[k], &id), k >= i ? &items[i] : NULL);
                        assert_true(id == (k >= i ? edges[i] : 42));
                }
                assert_ptr_equal(idmap_take(&m, edges[i]), &items[i]);
                assert_null(m.root);
                assert_int_equal(m.height, 0);
                assert_int_equal(m.len, 0);
                idmap_release(&m);
        }
}

static void all_edges_together_are_walked_in_order_both_ways(void **state)
{
        struct idmap m;
        uint64_t id, from = 0;

        (void)state;
        idmap_init(&m);
        for (size_t i = N_EDGES; i-- > 0;)
                idmap_put(&m, edges[i], &items[i]);
        assert_int_equal(m.len, N_EDGES);
        for (size_t i = 0; i < N_EDGES; i++, from = id + 1) {
                assert_ptr_equal(idmap_next(&m, from, &id), &items[i]);
                assert_true(id == edges[i]);
        }
        from = UINT64_MAX;
        for (size_t i = N_EDGES; i-- > 0; from = id - 1) {
                assert_ptr_equal(idmap_prev(&m, from, &id), &items[i]);
                assert_true(id == edges[i]);
        }
        idmap_release(&m);
        assert_int_equal(m.len, 0);
        assert_null(m.root);
}

static void the_tree_is_never_taller_than_its_largest_id(void **state)
{
        static const unsigned heights[] = {0, 0, 0, 1, 1, 1, 1, 2, 2, 3};
        struct idmap m;

        (void)state;
        idmap_init(&m);
        for (size_t i = 0; i < ARRAY_LEN(heights); i++) {
                idmap_put(&m, edges[i], &items[i]);
                assert_int_equal(m.height, heights[i]);
        }
        for (size_t i = ARRAY_LEN(heights) - 1; i > 0; i--) {
                assert_ptr_equal(idmap_take(&m, edges[i]), &items[i]);
                assert_int_equal(m.height, heights[i - 1]);
                assert_ptr_equal(idmap_get(&m, 0), &items[0]);
        }
        idmap_release(&m);
}

static void a_missing_id_is_not_taken(void **state)
{
        struct idmap m;

        (void)state;
        idmap_init(&m);
        idmap_put(&m, 5, &items[0]);
        idmap_put(&m, 5000, &items[1]);
        assert_null(idmap_take(&m, 4));
        assert_null(idmap_take(&m, 4999));
        assert_null(idmap_take(&m, 70));
        assert_null(idmap_take(&m, UINT64_MAX));
        assert_int_equal(m.len, 2);
        idmap_release(&m);
}

static size_t heap_bytes(void)
{
        struct mallinfo2 info = mallinfo2();
        return info.uordblks + info.hblkhd;
}

static void dense_ids_cost_about_ten_bytes_each_and_give_them_back(void **state)
{
        struct idmap m;
        size_t before = heap_bytes(), n = 1000000;

        (void)state;
        idmap_init(&m);
        for (uint64_t id = 1; id <= n; id++)
                idmap_put(&m, id, &items[0]);
        size_t used = heap_bytes() - before;
        /* The sanitizers have their own allocator and tell mallinfo nothing. */
        if (used > 0)
                assert_true(used / n <= 10);
        for (uint64_t id = 1; id <= n; id++)
                assert_ptr_equal(idmap_take(&m, id), &items[0]);
        assert_null(m.root);
        assert_true(heap_bytes() <= before + 4096);
        idmap_release(&m);
}

static void put_twice(void)
{
        struct idmap m;

        idmap_init(&m);
        idmap_put(&m, 1, items);
        idmap_put(&m, 1, items);
}

static void put_null(void)
{
        struct idmap m;

        idmap_init(&m);
        idmap_put(&m, 1, NULL);
}

static void our_own_mistakes_end_the_process(void **state)
{
        (void)state;
        assert_panics(put_twice);
        assert_panics(put_null);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(an_empty_map_has_nothing),
                cmocka_unit_test(one_id_is_found_from_everywhere),
                cmocka_unit_test(all_edges_together_are_walked_in_order_both_ways),
                cmocka_unit_test(the_tree_is_never_taller_than_its_largest_id),
                cmocka_unit_test(a_missing_id_is_not_taken),
                cmocka_unit_test(dense_ids_cost_about_ten_bytes_each_and_give_them_back),
                cmocka_unit_test(our_own_mistakes_end_the_process),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
