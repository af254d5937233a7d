/* Names in order, against a sorted array: random insertions, removals and searches. */
#include "../unit/check.h"

#include <stdio.h>

#include "base/order.h"
#include "dice.h"

#define ITEMS 400

struct item {
        struct hash_node node;
        struct order_node order;
        char name[16];
        bool is_in;
};

static struct item items[ITEMS];

/* What order_after() must find, by looking at all. */
static const struct item *first_beyond(const char *name)
{
        const struct item *best = NULL;
        for (size_t i = 0; i < ITEMS; i++) {
                const struct item *it = &items[i];
                if (it->is_in && (!*name || strcmp(it->name, name) > 0) &&
                    (!best || strcmp(it->name, best->name) < 0))
                        best = it;
        }
        return best;
}

static void an_order_is_that_of_the_sorted_names(void **state)
{
        struct order o = {0};
        struct rng rng;
        size_t n = 0;
        (void)state;
        (void)dice_init(&rng, "order");
        for (size_t i = 0; i < ITEMS; i++) {
                (void)snprintf(items[i].name, sizeof(items[i].name), "n%zu", i * 7919 % 100003);
                items[i].node.key = slice_str(items[i].name);
                items[i].node.hash = rng_below(&rng, 4) ? rng_u64(&rng) : 5; /* equal ones too */
        }
        for (uint64_t round = dice_rounds(20000); round > 0; round--) {
                struct item *it = &items[rng_below(&rng, ITEMS)];
                if (it->is_in)
                        order_remove(&o, &it->order);
                else
                        order_insert(&o, &it->order, &it->node);
                n = it->is_in ? n - 1 : n + 1;
                it->is_in = !it->is_in;
                if (round % 64)
                        continue;
                order_check(&o, n);
                const char *from = round % 128 ? it->name : "";
                const struct order_node *got = order_after(&o, slice_str(from));
                const struct item *want = first_beyond(from);
                assert_ptr_equal(got, want ? &want->order : NULL);
                if (got)
                        want = first_beyond(want->name);
                assert_ptr_equal(got ? order_next(got) : NULL, got && want ? &want->order : NULL);
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(an_order_is_that_of_the_sorted_names),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
