/* The hash table and its keyed hash. */
#include "check.h"

#include <stdio.h>

#include "../../src/base/hash.c" /* NOLINT(bugprone-suspicious-include) */

struct item {
        char name[16];
        struct hash_node node;
};

static void the_hash_is_siphash_1_3(void **state)
{
        /* Key 00..0f, message 00..n-1, as in the SipHash paper's test.  The values come from
         * another implementation, which with 2 and 4 rounds gives the paper's own vector. */
        static const struct {
                size_t n;
                uint64_t hash;
        } known[] = {
                {0, 0xabac0158050fc4dcULL}, {1, 0xc9f49bf37d57ca93ULL},  {7, 0xd3927d989bb11140ULL},
                {8, 0x369095118d299a8eULL}, {15, 0xd320d86d2a519956ULL},
        };
        char message[64];

        (void)state;
        for (size_t i = 0; i < sizeof(message); i++)
                message[i] = (char)i;
        for (size_t i = 0; i < ARRAY_LEN(known); i++)
                assert_true(siphash13(0x0706050403020100ULL, 0x0f0e0d0c0b0a0908ULL,
                                      slice_make(message, known[i].n)) == known[i].hash);
}

static void another_seed_is_another_hash(void **state)
{
        struct slice key = SLICE_LIT("default");

        (void)state;
        assert_true(hash_bytes(1, key) == hash_bytes(1, key));
        assert_true(hash_bytes(1, key) != hash_bytes(2, key));
        assert_true(hash_bytes(1, key) != hash_bytes(1, SLICE_LIT("defaulu")));
        assert_true(hash_bytes(1, SLICE_NONE) != hash_bytes(2, SLICE_NONE));
        /* Length matters, not only content. */
        assert_true(hash_bytes(1, SLICE_LIT("a")) != hash_bytes(1, SLICE_LIT("a\0")));
}

static void an_empty_table_finds_nothing_and_costs_nothing(void **state)
{
        struct hash h;

        (void)state;
        hash_init(&h, 42);
        assert_null(hash_find(&h, SLICE_LIT("x")));
        assert_null(hash_next(&h, NULL));
        assert_null(h.slots);
        hash_release(&h);
}

static void what_was_inserted_is_found_until_removed(void **state)
{
        static struct item items[2000];
        struct hash h;

        (void)state;
        hash_init(&h, 42);
        for (size_t i = 0; i < 2000; i++) {
                (void)snprintf(items[i].name, sizeof(items[i].name), "name-%zu", i);
                hash_insert(&h, &items[i].node, slice_str(items[i].name));
                assert_int_equal(h.len, i + 1);
                assert_true(h.n_slots >= h.len); /* chains stay short */
        }
        for (size_t i = 0; i < 2000; i += 2)
                hash_remove(&h, &items[i].node);
        for (size_t i = 0; i < 2000; i++)
                assert_ptr_equal(hash_find(&h, slice_str(items[i].name)),
                                 i % 2 ? &items[i].node : NULL);
        for (size_t i = 1; i < 2000; i += 2)
                hash_remove(&h, &items[i].node);
        assert_int_equal(h.len, 0);
        assert_null(hash_next(&h, NULL));
        hash_release(&h);
}

static void the_empty_name_is_a_name(void **state)
{
        struct hash h;
        struct hash_node node;

        (void)state;
        hash_init(&h, 1);
        hash_insert(&h, &node, SLICE_NONE);
        assert_ptr_equal(hash_find(&h, SLICE_LIT("")), &node);
        hash_remove(&h, &node);
        assert_null(hash_find(&h, SLICE_NONE));
        hash_release(&h);
}

static void a_walk_sees_every_node_once(void **state)
{
        static struct item items[777];
        static int seen[777];
        struct hash h;
        size_t n = 0;

        (void)state;
        hash_init(&h, 3);
        for (size_t i = 0; i < 777; i++) {
                (void)snprintf(items[i].name, sizeof(items[i].name), "%zu", i);
                hash_insert(&h, &items[i].node, slice_str(items[i].name));
        }
        for (struct hash_node *node = hash_next(&h, NULL); node; node = hash_next(&h, node)) {
                struct item *item = CONTAINER_OF(node, struct item, node);
                seen[item - items]++;
                n++;
        }
        assert_int_equal(n, 777);
        for (size_t i = 0; i < 777; i++)
                assert_int_equal(seen[i], 1);
        hash_release(&h);
}

static void insert_twice(void)
{
        struct hash h;
        struct hash_node a, b;

        hash_init(&h, 1);
        hash_insert(&h, &a, SLICE_LIT("x"));
        hash_insert(&h, &b, SLICE_LIT("x"));
}

static void remove_absent(void)
{
        struct hash h;
        struct hash_node a, b = {.key = SLICE_LIT("y")};

        hash_init(&h, 1);
        hash_insert(&h, &a, SLICE_LIT("x"));
        hash_remove(&h, &b);
}

static void our_own_mistakes_end_the_process(void **state)
{
        (void)state;
        assert_panics(insert_twice);
        assert_panics(remove_absent);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(the_hash_is_siphash_1_3),
                cmocka_unit_test(another_seed_is_another_hash),
                cmocka_unit_test(an_empty_table_finds_nothing_and_costs_nothing),
                cmocka_unit_test(what_was_inserted_is_found_until_removed),
                cmocka_unit_test(the_empty_name_is_a_name),
                cmocka_unit_test(a_walk_sees_every_node_once),
                cmocka_unit_test(our_own_mistakes_end_the_process),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
