/* Which blog of a network gets the next runner, and which the reserved one. */
#include "check.h"

#include "work/site_turns.h"

#define BLOGS 4

/* The next blog, which has its turn. */
static size_t take_turn(struct turns *t, struct turn_blog *blogs)
{
        size_t next = turns_next(t, blogs, BLOGS);
        if (next != TURNS_NONE)
                blogs[next].last = ++t->n;
        return next;
}

static void blogs_take_turns_and_those_that_want_none_are_left_out(void **state)
{
        struct turns t = {0};
        struct turn_blog blogs[BLOGS] = {{.wants = 9}, {.wants = 0}, {.wants = 1}, {.wants = 2}};
        static const size_t order[] = {0, 2, 3, 0, 2, 3};
        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(order); i++)
                assert_int_equal(take_turn(&t, blogs), order[i]);
        blogs[1].wants = 1; /* it has never had one */
        assert_int_equal(take_turn(&t, blogs), 1);
        assert_int_equal(take_turn(&t, blogs), 0);
        for (size_t i = 0; i < BLOGS; i++)
                blogs[i].wants = -1;
        assert_true(take_turn(&t, blogs) == TURNS_NONE);
        assert_true(turns_next(&t, NULL, 0) == TURNS_NONE);
}

static void critical_blogs_go_first_and_starve_nobody(void **state)
{
        struct turns t = {0};
        struct turn_blog blogs[BLOGS] = {{.wants = 1},
                                         {.wants = 1},
                                         {.wants = 1, .is_critical = true},
                                         {.wants = 1, .is_critical = true}};
        static const size_t order[] = {2, 3, 2, 0, 3, 2, 3, 1, 2};
        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(order); i++)
                assert_int_equal(take_turn(&t, blogs), order[i]);
        /* What nobody waited for does not count. */
        t = (struct turns){.n = t.n};
        blogs[0].wants = blogs[1].wants = 0;
        for (size_t i = 0; i < 10; i++)
                assert_in_range(take_turn(&t, blogs), 2, 3);
        blogs[0].wants = 1;
        assert_in_range(take_turn(&t, blogs), 2, 3);
}

/* ---- reserved runners ---- */

static void is_move(const struct turn_reserved *blogs, size_t places, size_t come, size_t leave)
{
        struct turn_move move = turns_reserved(blogs, BLOGS, places);
        assert_true(move.come == come);
        assert_true(move.leave == leave);
}

static void a_reserved_runner_comes_where_critical_actions_are_due(void **state)
{
        struct turn_reserved blogs[BLOGS] = {{0}};
        (void)state;
        is_move(blogs, 1, TURNS_NONE, TURNS_NONE); /* no hooks at all */
        blogs[1].has_hooks = blogs[2].has_hooks = blogs[3].has_hooks = true;
        is_move(blogs, 1, 1, TURNS_NONE); /* nothing is due: it waits there */
        blogs[2].is_due = blogs[3].is_due = true;
        is_move(blogs, 1, 2, TURNS_NONE);
        blogs[2].last = 1;
        is_move(blogs, 1, 3, TURNS_NONE);
        is_move(blogs, 0, TURNS_NONE, TURNS_NONE);
}

static void a_reserved_runner_leaves_for_a_blog_that_needs_it(void **state)
{
        struct turn_reserved blogs[BLOGS] = {
                {.has_hooks = true, .is_there = true, .is_leaving = true, .stayed_ms = 60000},
                {.has_hooks = true},
        };
        (void)state;
        is_move(blogs, 1, TURNS_NONE, TURNS_NONE); /* nobody needs it */
        blogs[1].is_due = true;
        is_move(blogs, 1, TURNS_NONE, 0);
        is_move(blogs, 2, 1, TURNS_NONE); /* there is another */
        blogs[0].stayed_ms = TURNS_STAY_MS - 1;
        is_move(blogs, 1, TURNS_NONE, TURNS_NONE); /* it has just come */
        blogs[0].stayed_ms = TURNS_FULL_MS - 1;
        blogs[0].is_due = true;
        is_move(blogs, 1, TURNS_NONE, TURNS_NONE); /* it is at work */
        blogs[0].stayed_ms = TURNS_FULL_MS;
        is_move(blogs, 1, TURNS_NONE, 0);
        blogs[0].is_there = false; /* its process has not ended yet */
        is_move(blogs, 1, TURNS_NONE, TURNS_NONE);
        blogs[0].is_leaving = false;
        blogs[0].last = 1;
        is_move(blogs, 1, 1, TURNS_NONE);
}

static void of_several_reserved_runners_the_one_that_is_needed_least_leaves(void **state)
{
        struct turn_reserved blogs[BLOGS] = {
                {.has_hooks = true, .is_there = true, .is_due = true, .stayed_ms = 90000},
                {.has_hooks = true, .is_there = true, .stayed_ms = TURNS_STAY_MS},
                {.has_hooks = true, .is_there = true, .stayed_ms = TURNS_STAY_MS + 1},
                {.has_hooks = true, .is_due = true},
        };
        (void)state;
        is_move(blogs, 3, TURNS_NONE, 2);
        blogs[2].is_there = false; /* one is about to leave: that is enough */
        blogs[2].is_leaving = true;
        is_move(blogs, 3, TURNS_NONE, TURNS_NONE);
        blogs[1].is_due = blogs[2].is_due = true;
        blogs[2].is_there = true;
        is_move(blogs, 3, TURNS_NONE, 0);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(blogs_take_turns_and_those_that_want_none_are_left_out),
                cmocka_unit_test(critical_blogs_go_first_and_starve_nobody),
                cmocka_unit_test(a_reserved_runner_comes_where_critical_actions_are_due),
                cmocka_unit_test(a_reserved_runner_leaves_for_a_blog_that_needs_it),
                cmocka_unit_test(of_several_reserved_runners_the_one_that_is_needed_least_leaves),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
