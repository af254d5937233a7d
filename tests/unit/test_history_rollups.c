/* Rollups in the history file: written soon, added to their minute, ten minutes and hour, kept over
 * a restart for their time, and never delivered when they are damaged. */
#include "check.h"
#include "history_box.h"

#include "base/duration.h"
#include "base/say.h"
#include "core/rollup_view.h"
#include "history/rollups.h"
#include "rollup_box.h"

#define NOW (BOX_NOW / 60000) /* minute 13 of its hour */

static void roll(struct box *box, int64_t at, const char *hook, int jobs)
{
        struct rollup r;
        struct buf b CLEANUP(buf_release) = {0};
        minute_init(&r, at);
        for (int i = 0; i < jobs; i++)
                minute_job(&r, hook, 5, 50);
        rollup_pack(&r, &b);
        rollup_release(&r);
        box->archive->ops->roll(box->archive, buf_slice(&b));
}

static void answered(struct archive_rollups *q)
{
        *(bool *)q->ctx = true;
}

struct answer {
        int err;
        size_t n_damaged;
        uint64_t completed; /* of the hook, in all points */
        size_t known;       /* points */
};

/* What rows of that span say about the hook; from `mid` on those of a minute. */
static struct answer ask(struct box *box, const char *hook, unsigned span, int64_t from,
                         int64_t mid, int64_t to)
{
        bool is_done = false;
        struct rollup_view v = {.from = from,
                                .step = span,
                                .n = (size_t)(to - from) / span + 1,
                                .kind = TALLY_HOOK,
                                .name = slice_str(hook)};
        struct archive_rollups q = {.span = span,
                                    .from = from,
                                    .mid = mid,
                                    .to = to,
                                    .view = &v,
                                    .done = answered,
                                    .ctx = &is_done};
        rollup_view_init(&v);
        box->archive->ops->rollups(box->archive, &q);
        while (!is_done)
                box_turn(box);
        struct answer a = {.err = q.err, .n_damaged = q.n_damaged};
        for (size_t i = 0; i < v.n; i++) {
                a.completed += v.points[i].cell.jobs.completed;
                a.known += v.points[i].is_known;
        }
        rollup_view_release(&v);
        return a;
}

static uint64_t count(struct box *box, const char *hook, unsigned span, int64_t from, int64_t to)
{
        struct answer a = ask(box, hook, span, from, to, to);
        assert_int_equal(a.err, OK);
        assert_int_equal(a.n_damaged, 0);
        return a.completed;
}

#define DAY   1440
#define BEGIN (NOW / 60 * 60 - 40 * DAY)
#define END   (NOW / 60 * 60 + 5 * DAY)

/* Waits until all of them are written: nobody is told, so they are asked for. */
static void wait_written(struct box *box, const char *hook, uint64_t jobs)
{
        while (count(box, hook, ROLLUP_HOUR, BEGIN, END) < jobs)
                (void)sched_yield();
}

static void a_minute_is_added_to_its_ten_minutes_and_its_hour(void **state)
{
        struct box box;
        (void)state;
        box_init(&box);
        int64_t hour = NOW / 60 * 60;
        roll(&box, hour + 1, "mail", 3);
        roll(&box, hour + 9, "mail", 4);
        roll(&box, hour + 10, "mail", 5);
        roll(&box, hour + 11, "sms", 1);
        roll(&box, hour + 60, "mail", 6);
        wait_written(&box, "mail", 18);
        wait_written(&box, "sms", 1);
        assert_int_equal(count(&box, "mail", 1, hour + 9, hour + 10), 4);
        assert_int_equal(count(&box, "mail", 10, hour, hour + 10), 7);
        assert_int_equal(count(&box, "mail", 10, hour + 10, hour + 20), 5);
        assert_int_equal(count(&box, "mail", 60, hour, hour + 60), 12);
        assert_int_equal(count(&box, "sms", 60, hour, hour + 60), 1);
        assert_int_equal(count(&box, "other", 60, hour, hour + 60), 0);
        /* Hours, and single minutes from where the last one is not over. */
        struct answer a = ask(&box, "mail", 60, hour, hour + 60, hour + 61);
        assert_int_equal(a.completed, 18);
        a = ask(&box, "mail", 60, hour, hour, hour + 10);
        assert_int_equal(a.completed, 7);
        box_release(&box);
}

static void a_minute_that_comes_twice_is_added_up(void **state)
{
        struct box box;
        (void)state;
        box_init(&box);
        roll(&box, NOW, "mail", 3);
        wait_written(&box, "mail", 3);
        box_close(&box); /* a restart within the minute, or the wall was set back */
        box_open(&box);
        roll(&box, NOW, "mail", 2);
        roll(&box, NOW - 30, "mail", 1);
        wait_written(&box, "mail", 6);
        assert_int_equal(count(&box, "mail", 1, NOW, NOW + 1), 5);
        assert_sql(&box, "SELECT count(*) FROM minute", "6");
        box_release(&box);
}

static void a_close_writes_what_is_left(void **state)
{
        struct box box;
        (void)state;
        box_init(&box);
        for (int i = 0; i < 5; i++)
                roll(&box, NOW + i, "mail", 1);
        box_close(&box);
        box_open(&box);
        assert_int_equal(count(&box, "mail", 1, NOW, NOW + 5), 5);
        box_release(&box);
}

static void each_step_is_kept_for_its_time(void **state)
{
        struct box box;
        (void)state;
        box_init(&box);
        roll(&box, NOW - 31 * DAY, "old", 1);
        roll(&box, NOW - 29 * DAY, "old", 1);
        roll(&box, NOW - 9 * DAY, "old", 1);
        roll(&box, NOW - DAY, "old", 1);
        box_close(&box);
        box_open(&box);
        roll(&box, NOW, "new", 1); /* a transaction deletes after it has added */
        wait_written(&box, "new", 1);
        assert_int_equal(count(&box, "old", 60, BEGIN, END), 3);
        assert_int_equal(count(&box, "old", 10, BEGIN, END), 2);
        assert_int_equal(count(&box, "old", 1, BEGIN, END), 1);
        box_release(&box);
}

static void old_rows_go_in_small_steps(void **state)
{
        struct box box;
        char text[16];
        (void)state;
        box_init(&box);
        for (int i = 0; i < 100; i++)
                roll(&box, NOW + i, "old", 1);
        wait_written(&box, "old", 100);
        atomic_store(&box.wall_ms, BOX_NOW + 3 * DAY * MS_PER_MIN);
        for (int i = 1; i <= 2; i++) {
                roll(&box, NOW + 3 * DAY + i, "new", 1);
                wait_written(&box, "new", (uint64_t)i);
                int left = i == 1 ? 100 - ROLLUPS_DROP_ROWS + 1 : 2;
                (void)snprintf(text, sizeof(text), "%d", left);
                assert_sql(&box, "SELECT count(*) FROM minute WHERE step = 1", text);
        }
        box_release(&box);
}

static void a_damaged_row_is_left_out_and_begins_anew(void **state)
{
        struct box box;
        sqlite3 *db;
        (void)state;
        box_init(&box);
        roll(&box, NOW, "mail", 3);
        roll(&box, NOW + 1, "mail", 4);
        wait_written(&box, "mail", 7);
        box_close(&box);
        assert_int_equal(sqlite3_open(box.path, &db), SQLITE_OK);
        assert_int_equal(sqlite3_exec(db,
                                      "UPDATE minute SET body = zeroblob(length(body)) "
                                      "WHERE step = 1 AND at % 2 = 0",
                                      NULL, NULL, NULL),
                         SQLITE_OK);
        assert_int_equal(sqlite3_close(db), SQLITE_OK);
        box_open(&box);
        struct answer a = ask(&box, "mail", 1, NOW, NOW + 2, NOW + 2);
        assert_int_equal(a.err, OK);
        assert_int_equal(a.n_damaged, 1);
        assert_int_equal(a.completed, NOW % 2 ? 3 : 4);
        int64_t bad = NOW + NOW % 2;
        roll(&box, bad, "mail", 1);
        wait_written(&box, "mail", 8); /* the hour was not damaged */
        assert_int_equal(count(&box, "mail", 1, bad, bad + 1), 1);
        box_release(&box);
}

static void a_row_in_the_wrong_place_is_damaged(void **state)
{
        struct box box;
        sqlite3 *db;
        (void)state;
        box_init(&box);
        roll(&box, NOW, "mail", 3);
        wait_written(&box, "mail", 3);
        box_close(&box);
        assert_int_equal(sqlite3_open(box.path, &db), SQLITE_OK);
        assert_int_equal(
                sqlite3_exec(db, "UPDATE minute SET at = at + 1 WHERE step = 1", NULL, NULL, NULL),
                SQLITE_OK);
        assert_int_equal(sqlite3_close(db), SQLITE_OK);
        box_open(&box);
        struct answer a = ask(&box, "mail", 1, NOW, NOW + 5, NOW + 5);
        assert_int_equal(a.n_damaged, 1);
        assert_int_equal(a.completed, 0);
        box_release(&box);
}

static void a_file_of_version_5_gets_the_table(void **state)
{
        struct box box;
        (void)state;
        box_init(&box);
        box_close(&box);
        box_downgrade(&box, 5);
        box_open(&box);
        roll(&box, NOW, "mail", 1);
        wait_written(&box, "mail", 1);
        box_release(&box);
}

/* The second question of two: the first has been answered when the file closes. */
struct chain {
        struct box *box;
        struct archive_rollups *second;
};

static void ask_second(struct archive_rollups *q)
{
        const struct chain *c = q->ctx;
        c->box->archive->ops->rollups(c->box->archive, c->second);
}

static void who_asks_on_from_an_answer_of_the_close_is_told(void **state)
{
        struct box box;
        bool is_done = false;
        struct rollup_view v = {.from = NOW, .step = 1, .n = 1, .kind = -1};
        struct archive_rollups second = {.span = 1,
                                         .from = NOW,
                                         .mid = NOW,
                                         .to = NOW + 1,
                                         .view = &v,
                                         .done = answered,
                                         .ctx = &is_done};
        struct chain chain = {&box, &second};
        struct archive_rollups first = second;
        (void)state;
        first.done = ask_second;
        first.ctx = &chain;
        box_init(&box);
        rollup_view_init(&v);
        box.archive->ops->rollups(box.archive, &first);
        box_close(&box);
        assert_true(is_done);
        assert_int_equal(second.err, ERR_STOPPING);
        rollup_view_release(&v);
        box_release(&box);
}

static void who_asks_when_it_closes_is_told(void **state)
{
        struct box box;
        bool is_done = false;
        struct rollup_view v = {.from = NOW, .step = 1, .n = 1, .kind = -1};
        struct archive_rollups q = {.span = 1,
                                    .from = NOW,
                                    .mid = NOW,
                                    .to = NOW + 1,
                                    .view = &v,
                                    .done = answered,
                                    .ctx = &is_done};
        (void)state;
        box_init(&box);
        rollup_view_init(&v);
        box.archive->ops->rollups(box.archive, &q);
        box_close(&box);
        assert_true(is_done && (q.err == OK || q.err == ERR_STOPPING));
        rollup_view_release(&v);
        box_release(&box);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(a_minute_is_added_to_its_ten_minutes_and_its_hour),
                cmocka_unit_test(a_minute_that_comes_twice_is_added_up),
                cmocka_unit_test(a_close_writes_what_is_left),
                cmocka_unit_test(each_step_is_kept_for_its_time),
                cmocka_unit_test(old_rows_go_in_small_steps),
                cmocka_unit_test(a_damaged_row_is_left_out_and_begins_anew),
                cmocka_unit_test(a_row_in_the_wrong_place_is_damaged),
                cmocka_unit_test(a_file_of_version_5_gets_the_table),
                cmocka_unit_test(who_asks_when_it_closes_is_told),
                cmocka_unit_test(who_asks_on_from_an_answer_of_the_close_is_told),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
