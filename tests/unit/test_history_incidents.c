/* The incident log in the history file: written soon, kept over a restart, bounded by age and
 * number, and added to files of older versions. */
#include "check.h"
#include "history_box.h"

#include "base/say.h"
#include "history/incidents.h"

static void note(struct box *box, uint64_t number, const char *message)
{
        const struct archive_incident row = {.number = number,
                                             .at_ms = atomic_load(&box->wall_ms),
                                             .event = SLICE_LIT("throttle_paused"),
                                             .message = slice_str(message)};
        box->archive->ops->note(box->archive, &row);
}

static void answered(struct archive_incidents *q)
{
        *(bool *)q->ctx = true;
}

/* What is written with numbers below `before`; arena_release(&ret.arena) ends it. */
static struct archive_incidents ask(struct box *box, uint64_t before, size_t limit)
{
        bool is_done = false;
        struct archive_incidents q = {
                .before = before, .limit = limit, .done = answered, .ctx = &is_done};
        arena_init(&q.arena, MIB);
        box->archive->ops->incidents(box->archive, &q);
        while (!is_done)
                box_turn(box);
        return q;
}

/* Waits until the writer has committed so many: nobody is told, so they are asked for. */
static void wait_written(struct box *box, size_t n)
{
        for (;;) {
                struct archive_incidents q = ask(box, UINT64_MAX, INCIDENTS_MAX / 100);
                size_t found = q.n_rows;
                assert_int_equal(q.err, OK);
                arena_release(&q.arena);
                if (found >= n)
                        return;
                (void)sched_yield();
        }
}

static void what_is_noted_is_written_and_found_newest_first(void **state)
{
        struct box box;
        (void)state;
        box_init(&box);
        assert_int_equal(box.archive->last_incident, 0);
        note(&box, 1, "for 1 h");
        note(&box, 2, "until resumed");
        note(&box, 3, "f\xc3\xbcr immer");
        wait_written(&box, 3);
        struct archive_incidents q = ask(&box, 3, 10);
        assert_int_equal(q.n_rows, 2);
        assert_int_equal(q.rows[0].number, 2);
        assert_slice(q.rows[0].event, "throttle_paused");
        assert_slice(q.rows[0].message, "until resumed");
        assert_int_equal(q.rows[0].at_ms, BOX_NOW);
        assert_int_equal(q.rows[1].number, 1);
        arena_release(&q.arena);
        q = ask(&box, UINT64_MAX, 1);
        assert_int_equal(q.n_rows, 1);
        assert_slice(q.rows[0].message, "f\xc3\xbcr immer");
        arena_release(&q.arena);
        box_release(&box);
}

static void a_close_writes_what_is_left_and_numbers_go_on(void **state)
{
        struct box box;
        (void)state;
        box_init(&box);
        for (uint64_t i = 1; i <= 20; i++)
                note(&box, i, "x"); /* more than one transaction may hold before the close */
        box_close(&box);
        box_open(&box);
        assert_int_equal(box.archive->last_incident, 20);
        note(&box, 20, "another of that number"); /* stays as it is */
        note(&box, 21, "y");
        wait_written(&box, 21);
        struct archive_incidents q = ask(&box, 21, 1);
        assert_slice(q.rows[0].message, "x");
        arena_release(&q.arena);
        box_release(&box);
}

static void what_is_past_its_time_goes(void **state)
{
        struct box box;
        (void)state;
        box_init_folder(&box);
        box.keep_incidents_ms = 10 * HISTORY_DAY_MS;
        box_open(&box);
        note(&box, 1, "old");
        wait_written(&box, 1);
        atomic_store(&box.wall_ms, BOX_NOW + 5 * HISTORY_DAY_MS);
        note(&box, 2, "young");
        wait_written(&box, 2);
        atomic_store(&box.wall_ms, BOX_NOW + 10 * HISTORY_DAY_MS);
        history_sweep(box.archive);
        struct archive_incidents q = ask(&box, UINT64_MAX, 10);
        assert_int_equal(q.n_rows, 1);
        assert_slice(q.rows[0].message, "young");
        arena_release(&q.arena);
        box_release(&box);
}

static void for_ever_means_so_and_the_number_is_bounded_all_the_same(void **state)
{
        struct box box;
        (void)state;
        box_init(&box);
        note(&box, 1, "first");
        note(&box, 2, "second");
        note(&box, INCIDENTS_MAX + 1, "last");
        wait_written(&box, 3);
        atomic_store(&box.wall_ms, BOX_NOW + 5000 * HISTORY_DAY_MS);
        history_sweep(box.archive);
        struct archive_incidents q = ask(&box, UINT64_MAX, 10);
        assert_int_equal(q.n_rows, 2); /* the first was INCIDENTS_MAX before the last */
        assert_slice(q.rows[1].message, "second");
        arena_release(&q.arena);
        box_release(&box);
}

static void a_file_of_version_4_gets_the_table(void **state)
{
        struct box box;
        (void)state;
        box_init(&box);
        box_close(&box);
        box_downgrade(&box, 4);
        box_open(&box);
        note(&box, 1, "x");
        wait_written(&box, 1);
        box_release(&box);
}

static void who_asks_when_it_closes_is_told(void **state)
{
        struct box box;
        bool is_done = false;
        struct archive_incidents q = {.before = 9, .limit = 1, .done = answered, .ctx = &is_done};
        (void)state;
        box_init(&box);
        arena_init(&q.arena, MIB);
        box.archive->ops->incidents(box.archive, &q);
        box_close(&box);
        assert_true(is_done && (q.err == OK || q.err == ERR_STOPPING));
        arena_release(&q.arena);
        box_release(&box);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(what_is_noted_is_written_and_found_newest_first),
                cmocka_unit_test(a_close_writes_what_is_left_and_numbers_go_on),
                cmocka_unit_test(what_is_past_its_time_goes),
                cmocka_unit_test(for_ever_means_so_and_the_number_is_bounded_all_the_same),
                cmocka_unit_test(a_file_of_version_4_gets_the_table),
                cmocka_unit_test(who_asks_when_it_closes_is_told),
        };
        say_setup(SAY_ERROR, false);
        return cmocka_run_group_tests(tests, NULL, NULL);
}
