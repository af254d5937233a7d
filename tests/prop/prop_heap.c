/* The heap against an array that is searched: after any operations both agree on the first. */
#include "../unit/check.h"

#include "base/heap.h"
#include "dice.h"

#define ITEMS 300

struct item {
        struct heap_node node;
        uint64_t key; /* what the heap was told; the model */
};

struct world {
        struct rng dice;
        struct heap heap;
        struct item items[ITEMS];
};

/* The item that must come next, or NULL. */
static struct item *model_first(struct world *w)
{
        struct item *best = NULL;

        for (size_t i = 0; i < ITEMS; i++) {
                struct item *it = &w->items[i];
                if (heap_has(&it->node) && (!best || it->key < best->key ||
                                            (it->key == best->key && it->node.id < best->node.id)))
                        best = it;
        }
        return best;
}

/* Few different keys make many ties; sometimes the extremes. */
static uint64_t any_key(struct world *w)
{
        switch (rng_below(&w->dice, 8)) {
        case 0:
                return rng_u64(&w->dice);
        case 1:
                return rng_below(&w->dice, 2) ? UINT64_MAX : 0;
        default:
                return rng_below(&w->dice, 20);
        }
}

static void step(struct world *w, uint64_t eagerness)
{
        struct item *it = &w->items[rng_below(&w->dice, ITEMS)];
        uint64_t what = rng_below(&w->dice, 10);

        if (!heap_has(&it->node)) {
                if (what < eagerness) {
                        it->key = any_key(w);
                        heap_push(&w->heap, &it->node, it->key);
                }
        } else if (what < 3) {
                it->key = any_key(w);
                heap_update(&w->heap, &it->node, it->key);
        } else if (what < 5) {
                heap_remove(&w->heap, &it->node);
                assert_false(heap_has(&it->node));
        } else if (what < 7) {
                struct item *first = model_first(w);
                assert_ptr_equal(heap_pop(&w->heap), &first->node);
                assert_false(heap_has(&first->node));
        }
}

static void the_heap_always_gives_what_a_search_would_find(void **state)
{
        static struct world w;
        uint64_t ids = 0;

        (void)state;
        dice_init(&w.dice, "heap");
        heap_init(&w.heap);
        for (size_t i = 0; i < ITEMS; i++) {
                /* Ids in no order, so that ties are not broken by accident. */
                ids += 1 + rng_below(&w.dice, 3);
                w.items[i].node = (struct heap_node){ids, HEAP_NOWHERE};
        }
        for (size_t i = ITEMS - 1; i > 0; i--) {
                size_t k = rng_below(&w.dice, i + 1);
                uint64_t id = w.items[i].node.id;
                w.items[i].node.id = w.items[k].node.id;
                w.items[k].node.id = id;
        }
        for (uint64_t n = dice_rounds(100000); n > 0; n--) {
                step(&w, n / 2000 % 10 + 1); /* fills and empties in turns */
                struct item *first = model_first(&w);
                assert_ptr_equal(heap_peek(&w.heap), first ? &first->node : NULL);
                if (first) {
                        assert_true(heap_peek_key(&w.heap) == first->key);
                        assert_true(heap_key(&w.heap, &first->node) == first->key);
                }
                if (n % 64 == 0)
                        heap_check(&w.heap);
        }
        while (w.heap.len > 0) {
                struct item *first = model_first(&w);
                assert_ptr_equal(heap_pop(&w.heap), &first->node);
        }
        assert_null(model_first(&w));
        heap_release(&w.heap);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(the_heap_always_gives_what_a_search_would_find),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
