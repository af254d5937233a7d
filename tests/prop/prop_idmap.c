/* The id map against a sorted array of what it should hold. */
#include "../unit/check.h"

#include "base/idmap.h"
#include "dice.h"

#define IDS_MAX 600

struct entry {
        uint64_t id;
        void *item;
};

struct world {
        struct rng dice;
        struct idmap map;
        struct entry model[IDS_MAX]; /* by id */
        size_t len;
        uint64_t next_id; /* ids as weir makes them: growing */
};

/* Index of the first entry with an id >= the given one. */
static size_t model_at(const struct world *w, uint64_t id)
{
        size_t low = 0, high = w->len;

        while (low < high) {
                size_t mid = (low + high) / 2;
                if (w->model[mid].id < id)
                        low = mid + 1;
                else
                        high = mid;
        }
        return low;
}

static bool model_has(const struct world *w, uint64_t id)
{
        size_t at = model_at(w, id);
        return at < w->len && w->model[at].id == id;
}

/* Mostly ids near the living ones, sometimes far away, sometimes at an edge of the tree. */
static uint64_t any_id(struct world *w)
{
        uint64_t bit;

        switch (rng_below(&w->dice, 6)) {
        case 0:
                return rng_u64(&w->dice) >> rng_below(&w->dice, 64);
        case 1:
                bit = 4 + 6 * rng_below(&w->dice, 10);
                return (1ULL << bit) - 2 + rng_below(&w->dice, 4);
        case 2:
                return UINT64_MAX - rng_below(&w->dice, 40);
        case 3:
                if (w->len > 0)
                        return w->model[rng_below(&w->dice, w->len)].id;
                return 0;
        default:
                return w->next_id - rng_below(&w->dice, 200);
        }
}

static void put(struct world *w, uint64_t id)
{
        size_t at = model_at(w, id);
        void *item = &w->model[rng_below(&w->dice, IDS_MAX)];

        if (w->len == IDS_MAX || model_has(w, id))
                return;
        memmove(&w->model[at + 1], &w->model[at], (w->len - at) * sizeof(w->model[0]));
        w->model[at] = (struct entry){id, item};
        w->len++;
        idmap_put(&w->map, id, item);
}

static void take(struct world *w, uint64_t id)
{
        size_t at = model_at(w, id);
        void *item = model_has(w, id) ? w->model[at].item : NULL;

        assert_ptr_equal(idmap_take(&w->map, id), item);
        if (!item)
                return;
        w->len--;
        memmove(&w->model[at], &w->model[at + 1], (w->len - at) * sizeof(w->model[0]));
}

static void compare_around(const struct world *w, uint64_t id)
{
        size_t at = model_at(w, id);
        bool has = model_has(w, id);
        uint64_t found = 0;

        assert_ptr_equal(idmap_get(&w->map, id), has ? w->model[at].item : NULL);
        void *item = idmap_next(&w->map, id, &found);
        assert_ptr_equal(item, at < w->len ? w->model[at].item : NULL);
        if (item)
                assert_true(found == w->model[at].id);
        size_t before = has ? at + 1 : at; /* entries up to and including id */
        item = idmap_prev(&w->map, id, &found);
        assert_ptr_equal(item, before > 0 ? w->model[before - 1].item : NULL);
        if (item)
                assert_true(found == w->model[before - 1].id);
}

static void compare_all(const struct world *w)
{
        uint64_t from = 0, id;

        for (size_t i = 0; i < w->len; i++, from = id + 1) {
                assert_ptr_equal(idmap_next(&w->map, from, &id), w->model[i].item);
                assert_true(id == w->model[i].id);
        }
        from = UINT64_MAX;
        for (size_t i = w->len; i-- > 0; from = id - 1) {
                assert_ptr_equal(idmap_prev(&w->map, from, &id), w->model[i].item);
                assert_true(id == w->model[i].id);
        }
}

static void the_map_holds_what_a_sorted_array_holds(void **state)
{
        static struct world w;

        (void)state;
        dice_init(&w.dice, "idmap");
        idmap_init(&w.map);
        w.next_id = 1000;
        for (uint64_t n = dice_rounds(100000); n > 0; n--) {
                uint64_t eagerness = n / 3000 % 3 + 1; /* fills and empties in turns */
                if (rng_below(&w.dice, 4) < eagerness)
                        put(&w, rng_below(&w.dice, 2) ? w.next_id++ : any_id(&w));
                else
                        take(&w, any_id(&w));
                assert_int_equal(w.map.len, w.len);
                assert_int_equal(w.map.root == NULL, w.len == 0);
                compare_around(&w, any_id(&w));
                if (n % 1000 == 0)
                        compare_all(&w);
        }
        /* Half of the runs let release free what is left, the others take it all out. */
        while (w.len > 0 && w.next_id % 2)
                take(&w, w.model[rng_below(&w.dice, w.len)].id);
        idmap_release(&w.map);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(the_map_holds_what_a_sorted_array_holds),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
