/* The hash table against a flag per name. */
#include "../unit/check.h"

#include "base/hash.h"
#include "dice.h"

#define NAMES 1000

struct item {
        char name[24];
        size_t name_len;
        bool is_in; /* the model */
        struct hash_node node;
};

static struct item items[NAMES];

static void make_names(struct rng *dice)
{
        for (size_t i = 0; i < NAMES; i++) {
                /* The number keeps names apart, the rest makes them any bytes of any length. */
                (void)snprintf(items[i].name, sizeof(items[i].name), "%zu", i);
                size_t n = strlen(items[i].name) + 1;
                items[i].name_len = n + rng_below(dice, sizeof(items[i].name) - n);
                rng_fill(dice, items[i].name + n, items[i].name_len - n);
        }
}

static struct slice name_of(const struct item *it)
{
        return slice_make(it->name, it->name_len);
}

static void compare_all(const struct hash *h)
{
        size_t n_in = 0, n_walked = 0;

        for (size_t i = 0; i < NAMES; i++) {
                assert_ptr_equal(hash_find(h, name_of(&items[i])),
                                 items[i].is_in ? &items[i].node : NULL);
                n_in += items[i].is_in;
        }
        for (struct hash_node *n = hash_next(h, NULL); n; n = hash_next(h, n)) {
                assert_true(CONTAINER_OF(n, struct item, node)->is_in);
                n_walked++;
        }
        assert_int_equal(n_walked, n_in);
        assert_int_equal(h->len, n_in);
}

static void the_table_holds_what_the_flags_say(void **state)
{
        struct rng dice;
        struct hash h;

        (void)state;
        dice_init(&dice, "hash");
        make_names(&dice);
        hash_init(&h, rng_u64(&dice));
        for (uint64_t n = dice_rounds(200000); n > 0; n--) {
                struct item *it = &items[rng_below(&dice, NAMES)];
                if (!it->is_in && rng_below(&dice, 4) <= n / 5000 % 4) {
                        hash_insert(&h, &it->node, name_of(it));
                        it->is_in = true;
                } else if (it->is_in && rng_below(&dice, 4) == 0) {
                        hash_remove(&h, &it->node);
                        it->is_in = false;
                }
                assert_ptr_equal(hash_find(&h, name_of(it)), it->is_in ? &it->node : NULL);
                if (n % 2000 == 0)
                        compare_all(&h);
        }
        compare_all(&h);
        hash_release(&h);
}

/* A keyed hash spreads whatever names it is given: no seed may make a long chain. */
static void no_slot_is_much_fuller_than_the_others(void **state)
{
        struct rng dice;

        (void)state;
        dice_init(&dice, "hash spread");
        for (uint64_t n = dice_rounds(50); n > 0; n--) {
                unsigned count[1024] = {0};
                uint64_t seed = rng_u64(&dice);
                for (uint64_t i = 0; i < 1024; i++) {
                        unsigned slot = (unsigned)(hash_bytes(seed, slice_make(&i, 8)) % 1024);
                        count[slot]++;
                        /* 1024 balls in 1024 bins: 16 in one would be 1 in 50 billion. */
                        assert_true(count[slot] < 16);
                }
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(the_table_holds_what_the_flags_say),
                cmocka_unit_test(no_slot_is_much_fuller_than_the_others),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
