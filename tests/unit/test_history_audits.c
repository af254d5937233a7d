/* The audit trail in the history file: reported when it is durable, each number once, kept for its
 * time, checked by checksums, and added to files of older versions. */
#include "check.h"
#include "history_box.h"

#include "base/say.h"
#include "history/audits.h"

struct reports {
        uint64_t numbers[100];
        size_t n;
};

static void on_audited(void *ctx, uint64_t number)
{
        struct reports *r = ctx;
        assert_true(r->n < ARRAY_LEN(r->numbers));
        r->numbers[r->n++] = number;
}

static void listen(struct box *box, struct reports *r)
{
        *r = (struct reports){0};
        box->archive->audited = on_audited;
        box->archive->audited_ctx = r;
}

static void add(struct box *box, uint64_t number, const char *what)
{
        const struct audit_entry e = {
                .number = number,
                .at_ms = atomic_load(&box->wall_ms),
                .times = number,
                .who = SLICE_LIT("ops"),
                .role = SLICE_LIT("operator"),
                .address = SLICE_LIT("10.1.2.3"),
                .door = SLICE_LIT("http"),
                .command = SLICE_LIT("PAUSE"),
                .what = slice_str(what),
                .after = SLICE_LIT("{\"paused\":true}"),
        };
        box->archive->ops->audit(box->archive, &e);
}

static void wait_reported(struct box *box, const struct reports *r, size_t n)
{
        while (r->n < n)
                box_turn(box);
}

static void answered(struct archive_audits *q)
{
        *(bool *)q->ctx = true;
}

/* arena_release(&q->arena) ends it. */
static void ask(struct box *box, struct archive_audits *q)
{
        bool is_done = false;
        q->done = answered;
        q->ctx = &is_done;
        q->before = q->before ? q->before : UINT64_MAX;
        q->limit = q->limit ? q->limit : 100;
        arena_init(&q->arena, MIB);
        box->archive->ops->audits(box->archive, q);
        while (!is_done)
                box_turn(box);
        assert_int_equal(q->err, OK);
}

static size_t count(struct box *box)
{
        struct archive_audits q = {0};
        ask(box, &q);
        arena_release(&q.arena);
        return q.n_rows;
}

static void what_is_reported_is_found(void **state)
{
        struct box box;
        struct reports r;
        (void)state;
        box_init(&box);
        assert_int_equal(box.archive->last_audit, 0);
        listen(&box, &r);
        add(&box, 1, "PAUSE a");
        add(&box, 2, "PAUSE b");
        add(&box, 5, "PAUSE c");
        wait_reported(&box, &r, 3);
        struct archive_audits q = {.before = 5};
        ask(&box, &q);
        assert_int_equal(q.n_rows, 2);
        const struct audit_entry *e = &q.rows[0];
        assert_int_equal(e->number, 2);
        assert_int_equal(e->times, 2);
        assert_int_equal(e->at_ms, BOX_NOW);
        assert_slice(e->who, "ops");
        assert_slice(e->role, "operator");
        assert_slice(e->address, "10.1.2.3");
        assert_slice(e->door, "http");
        assert_slice(e->command, "PAUSE");
        assert_slice(e->what, "PAUSE b");
        assert_slice(e->before, "");
        assert_slice(e->after, "{\"paused\":true}");
        assert_slice(e->reason, "");
        assert_slice(q.rows[1].what, "PAUSE a");
        arena_release(&q.arena);
        q = (struct archive_audits){.match = SLICE_LIT("E c"), .command = SLICE_LIT("pause")};
        ask(&box, &q);
        assert_int_equal(q.n_rows, 1);
        arena_release(&q.arena);
        box_release(&box);
}

static void a_number_that_is_there_stays_and_is_reported_again(void **state)
{
        struct box box;
        struct reports r;
        (void)state;
        box_init(&box);
        listen(&box, &r);
        add(&box, 7, "first");
        wait_reported(&box, &r, 1);
        box_close(&box);
        box_open(&box);
        assert_int_equal(box.archive->last_audit, 7);
        listen(&box, &r);
        add(&box, 7, "again");
        wait_reported(&box, &r, 1);
        struct archive_audits q = {0};
        ask(&box, &q);
        assert_int_equal(q.n_rows, 1);
        assert_slice(q.rows[0].what, "first");
        arena_release(&q.arena);
        box_release(&box);
}

static void a_close_writes_and_reports_what_is_left(void **state)
{
        struct box box;
        struct reports r;
        (void)state;
        box_init(&box);
        listen(&box, &r);
        for (uint64_t i = 1; i <= 20; i++)
                add(&box, i, "x"); /* more than one transaction may hold before the close */
        box_close(&box);
        assert_int_equal(r.n, 20);
        box_open(&box);
        assert_int_equal(count(&box), 20);
        box_release(&box);
}

static void what_is_past_its_time_goes(void **state)
{
        struct box box;
        struct reports r;
        (void)state;
        box_init_folder(&box);
        box.keep_audit_ms = 10 * HISTORY_DAY_MS;
        box_open(&box);
        listen(&box, &r);
        add(&box, 1, "old");
        wait_reported(&box, &r, 1);
        atomic_store(&box.wall_ms, BOX_NOW + 5 * HISTORY_DAY_MS);
        add(&box, 2, "young");
        wait_reported(&box, &r, 2);
        history_sweep(box.archive);
        assert_int_equal(count(&box), 2);
        atomic_store(&box.wall_ms, BOX_NOW + 10 * HISTORY_DAY_MS);
        history_sweep(box.archive);
        struct archive_audits q = {0};
        ask(&box, &q);
        assert_int_equal(q.n_rows, 1);
        assert_slice(q.rows[0].what, "young");
        arena_release(&q.arena);
        box_release(&box);
}

static void for_ever_means_so(void **state)
{
        struct box box;
        struct reports r;
        (void)state;
        box_init(&box);
        listen(&box, &r);
        add(&box, 1, "first");
        wait_reported(&box, &r, 1);
        atomic_store(&box.wall_ms, BOX_NOW + 5000 * HISTORY_DAY_MS);
        history_sweep(box.archive);
        assert_int_equal(count(&box), 1);
        box_release(&box);
}

static void tell(void *ctx, const char *what)
{
        assert_string_equal(what, "audit entry 2: its checksum is wrong");
        ++*(int *)ctx;
}

static void a_changed_row_is_found_and_not_delivered(void **state)
{
        struct box box;
        struct reports r;
        struct archive_report report;
        struct problem p;
        sqlite3 *db;
        int told = 0;
        (void)state;
        box_init(&box);
        listen(&box, &r);
        for (uint64_t i = 1; i <= 3; i++)
                add(&box, i, "x");
        wait_reported(&box, &r, 3);
        box_close(&box);
        assert_int_equal(sqlite3_open(box.path, &db), SQLITE_OK);
        assert_int_equal(
                sqlite3_exec(db, "UPDATE audit SET who = 'opt' WHERE number = 2", NULL, NULL, NULL),
                SQLITE_OK);
        assert_int_equal(sqlite3_close(db), SQLITE_OK);
        assert_int_equal(archive_file_verify(box.path, false, tell, &told, &report, &p), OK);
        assert_int_equal(told, 1);
        assert_int_equal(report.damaged, 1);
        box_open(&box);
        struct archive_audits q = {0};
        ask(&box, &q);
        assert_int_equal(q.n_rows, 2);
        assert_int_equal(q.n_damaged, 1);
        assert_int_equal(q.damaged_at, 2);
        arena_release(&q.arena);
        box_release(&box);
}

static void files_of_older_versions_get_the_table(void **state)
{
        (void)state;
        for (int version = 4; version < ARCHIVE_VERSION; version++) {
                struct box box;
                struct reports r;
                box_init(&box);
                box_close(&box);
                box_downgrade(&box, version);
                box_open(&box);
                assert_version(&box, ARCHIVE_VERSION);
                listen(&box, &r);
                add(&box, 1, "x");
                wait_reported(&box, &r, 1);
                box_release(&box);
        }
}

static void who_asks_when_it_closes_is_told(void **state)
{
        struct box box;
        bool is_done = false;
        struct archive_audits q = {.before = 9, .limit = 1, .done = answered, .ctx = &is_done};
        (void)state;
        box_init(&box);
        arena_init(&q.arena, MIB);
        box.archive->ops->audits(box.archive, &q);
        box_close(&box);
        assert_true(is_done && (q.err == OK || q.err == ERR_STOPPING));
        arena_release(&q.arena);
        box_release(&box);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(what_is_reported_is_found),
                cmocka_unit_test(a_number_that_is_there_stays_and_is_reported_again),
                cmocka_unit_test(a_close_writes_and_reports_what_is_left),
                cmocka_unit_test(what_is_past_its_time_goes),
                cmocka_unit_test(for_ever_means_so),
                cmocka_unit_test(a_changed_row_is_found_and_not_delivered),
                cmocka_unit_test(files_of_older_versions_get_the_table),
                cmocka_unit_test(who_asks_when_it_closes_is_told),
        };
        say_setup(SAY_ERROR, false);
        return cmocka_run_group_tests(tests, NULL, NULL);
}
