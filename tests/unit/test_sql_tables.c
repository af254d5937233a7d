/* The tables that SQL reads: what a row holds, page after page, and what happens when a page cannot
 * be had or has damage in it. */
#include "check.h"

#include "base/hash.h"
#include "base/say.h"
#include "history_box.h"
#include "sql_box.h"

static void every_column_of_a_job_is_told(void **state)
{
        struct sql_box box;
        struct buf options CLEANUP(buf_release) = {0}, events CLEANUP(buf_release) = {0};
        struct event started = {EVENT_STARTED, BOX_NOW + 5, SLICE_LIT("w1"), SLICE_NONE};
        (void)state;
        sql_box_init(&box, 0);
        options_pack(&(struct job_options){.run = 3}, &options);
        event_pack(&events, &started, BOX_NOW);
        box.n_jobs = 1;
        box.jobs[0] = (struct job_view){
                .id = 7,
                .status = JOB_FAILED,
                .hook = SLICE_LIT("mail"),
                .queue = SLICE_LIT("q"),
                .group = SLICE_LIT("g"),
                .priority = 100,
                .attempt = 2,
                .attempts_max = 3,
                .timeout_ms = 4,
                .created_ms = BOX_NOW,
                .due_ms = BOX_NOW + 1,
                .started_ms = BOX_NOW + 5,
                .finished_ms = BOX_NOW + 123,
                .worker = SLICE_LIT("w1"),
                .fence = 9,
                .args = SLICE_LIT("{}"),
                .progress = SLICE_LIT("half"),
                .result = SLICE_LIT("none"),
                .error = SLICE_LIT("no route"),
                .options = buf_slice(&options),
                .events = buf_slice(&events),
        };
        assert_rows(&box, "SELECT * FROM jobs",
                    "7|failed|mail|q|g|100|2|3|4|2026-09-21T14:13:20.000Z|2026-09-21T14:13:20.001Z"
                    "|2026-09-21T14:13:20.005Z|2026-09-21T14:13:20.123Z|w1|9|{}|half|none|no route"
                    "|[{\"event\":\"created\",\"at\":1790000000000},"
                    "{\"event\":\"started\",\"at\":1790000000005,\"worker\":\"w1\"}]"
                    "|3|1790000000000|1790000000001|1790000000005|1790000000123\n");
        assert_rows(&box,
                    "SELECT DISTINCT typeof(id), typeof(status), typeof(fence), typeof(args), "
                    "typeof(run), typeof(created), typeof(created_ms) FROM jobs",
                    "integer|text|integer|text|integer|text|integer\n");
        sql_box_release(&box);
}

static void what_is_empty_is_null_and_what_is_no_text_a_blob(void **state)
{
        struct sql_box box;
        (void)state;
        sql_box_init(&box, 1);
        assert_rows(&box,
                    "SELECT \"group\", worker, args, progress, result, error, started, started_ms, "
                    "run, fence FROM jobs",
                    "NULL|NULL|NULL|NULL|NULL|NULL|NULL|NULL|0|0\n");
        box.jobs[0].args = slice_make("a\0b", 3);
        box.jobs[0].result = SLICE_LIT("\xff\xfe");
        box.jobs[0].error = SLICE_LIT("\xc3\xa4");
        assert_rows(&box,
                    "SELECT typeof(args), hex(args), typeof(result), hex(result), typeof(error), "
                    "length(error) FROM jobs",
                    "blob|610062|blob|FFFE|text|1\n");
        box.jobs[0].due_ms = 253402300800000; /* the year 10000 has no such text */
        assert_rows(&box, "SELECT due, due_ms FROM jobs", "NULL|253402300800000\n");
        sql_box_release(&box);
}

static void events_are_rows_of_their_own(void **state)
{
        struct sql_box box;
        struct buf events CLEANUP(buf_release) = {0};
        struct event failed = {EVENT_FAILED, 4000, SLICE_LIT("w1"), SLICE_LIT("no route")};
        (void)state;
        sql_box_init(&box, 3);
        event_pack(&events, &failed, 1000);
        box.jobs[1].events = buf_slice(&events);
        assert_rows(&box, "SELECT * FROM events",
                    "1|0|created|1970-01-01T00:00:00.000Z|0|NULL|NULL\n"
                    "2|0|created|1970-01-01T00:00:01.000Z|1000|NULL|NULL\n"
                    "2|1|failed|1970-01-01T00:00:04.000Z|4000|w1|no route\n"
                    "3|0|created|1970-01-01T00:00:02.000Z|2000|NULL|NULL\n");
        assert_rows(&box, "SELECT job, number FROM events WHERE job = 2 OR event = 'failed'",
                    "2|0\n2|1\n"); /* no row twice */
        assert_rows(&box, "SELECT count(DISTINCT rowid + 0) FROM events", "4\n");
        sql_box_release(&box);
}

static void pages_make_one_list(void **state)
{
        struct sql_box box;
        (void)state;
        sql_box_init(&box, BOX_JOBS);
        for (box.page_max = 0; box.page_max < 60; box.page_max += 7) {
                assert_rows(&box, "SELECT count(*), count(DISTINCT id), min(id), max(id) FROM jobs",
                            "300|300|1|300\n");
                assert_rows(&box, "SELECT id FROM jobs ORDER BY id DESC LIMIT 3 OFFSET 200",
                            "100\n99\n98\n");
                assert_rows(&box, "SELECT count(*) FROM jobs a, jobs b WHERE b.id = a.id", "300\n");
        }
        sql_box_release(&box);
}

/* The first page of a statement that needs little is small. */
static void a_limit_ends_the_walk(void **state)
{
        struct sql_box box;
        (void)state;
        sql_box_init(&box, BOX_JOBS);
        assert_asks(&box, "SELECT id FROM jobs ORDER BY id DESC LIMIT 50",
                    "jobs, newest first, without texts\n");
        assert_asks(&box, "SELECT id FROM jobs LIMIT 65",
                    "jobs, without texts\njobs 65.., without texts\n");
        sql_box_release(&box);
}

static void incidents_are_read_page_by_page(void **state)
{
        struct sql_box box;
        (void)state;
        sql_box_init(&box, 0);
        assert_rows(&box, "SELECT * FROM incidents", "");
        box.n_incidents = 1000;
        assert_rows(&box, "SELECT count(*) FROM incidents", "1000\n");
        box.n_incidents = 2500;
        assert_rows(&box, "SELECT count(*), count(DISTINCT number), min(number) FROM incidents",
                    "2500|2500|1\n");
        assert_rows(&box, "SELECT * FROM incidents ORDER BY number DESC LIMIT 1",
                    "2500|1970-01-01T00:41:40.000Z|ramp|NULL|2500000\n");
        assert_rows(&box, "SELECT number FROM incidents ORDER BY number LIMIT 1", "1\n");
        box.err = ERR_IO;
        assert_fails(&box, "SELECT * FROM incidents", ERR_IO, "the disk is on fire");
        sql_box_release(&box);
}

static void the_audit_trail_is_read_page_by_page(void **state)
{
        struct sql_box box;
        (void)state;
        sql_box_init(&box, 0);
        assert_rows(&box, "SELECT * FROM audit", "");
        box.n_audits = 5000; /* every second one does not match */
        assert_rows(&box, "SELECT count(*), count(DISTINCT number), min(number) FROM audit",
                    "2500|2500|1\n");
        assert_rows(&box,
                    "SELECT number, who, times, before FROM audit WHERE number < 4 "
                    "ORDER BY number DESC",
                    "3|ops|1|NULL\n1|ops|1|NULL\n");
        box.err = ERR_IO;
        assert_fails(&box, "SELECT * FROM audit", ERR_IO, "the disk is on fire");
        sql_box_release(&box);
}

static void damage_is_told_once_and_never_delivered(void **state)
{
        struct sql_box box;
        (void)state;
        sql_box_init(&box, BOX_JOBS);
        for (size_t i = 99; i < 300; i += 100) {
                box.jobs[i].is_damaged = true;
                box.jobs[i].error = SLICE_LIT("history is damaged here: the checksum is wrong");
        }
        assert_rows(&box, "SELECT count(*), max(id) FROM jobs", "297|299\n");
        assert_rows(&box, "SELECT count(*) FROM jobs WHERE id = 100", "0\n");
        assert_rows(&box, "SELECT count(*) FROM events WHERE job BETWEEN 99 AND 101", "2\n");
        same(buf_cstr(&box.told), "job 100: the checksum is wrong\njob 200: the checksum is wrong\n"
                                  "job 300: the checksum is wrong\n");
        assert_int_equal(sql_reader_damaged(box.reader), 3);
        sql_box_release(&box);
}

/* Each of its jobs stands for the whole block. */
static void a_damaged_block_is_told_once(void **state)
{
        struct sql_box box;
        (void)state;
        sql_box_init(&box, 9);
        for (size_t i = 2; i < 5; i++) {
                box.jobs[i].is_damaged = true;
                box.jobs[i].error = SLICE_LIT("history is damaged here: block 7, jobs 3 to 5");
        }
        assert_rows(&box, "SELECT group_concat(id) FROM jobs", "1,2,6,7,8,9\n");
        same(buf_cstr(&box.told), "block 7, jobs 3 to 5\n");
        sql_box_release(&box);
}

static void more_damage_than_anyone_reads_is_counted(void **state)
{
        struct sql_box box;
        (void)state;
        sql_box_init(&box, BOX_JOBS);
        for (uint64_t turn = 0; turn < 5; turn++) {
                for (size_t i = 0; i < BOX_JOBS; i++)
                        box.jobs[i] = (struct job_view){.id = turn * BOX_JOBS + i + 1,
                                                        .error = SLICE_LIT("bad"),
                                                        .is_damaged = true};
                assert_rows(&box, "SELECT count(*) FROM jobs", "0\n");
        }
        assert_int_equal(sql_reader_damaged(box.reader), 1500);
        assert_int_equal(times(buf_cstr(&box.told), "\n"), 1000);
        sql_box_release(&box);
}

static void an_error_of_the_store_ends_the_statement(void **state)
{
        struct sql_box box;
        (void)state;
        sql_box_init(&box, 9);
        box.err = ERR_IO;
        assert_fails(&box, "SELECT * FROM jobs", ERR_IO, "the disk is on fire");
        box.err = ERR_CORRUPT;
        assert_fails(&box, "SELECT * FROM events", ERR_CORRUPT, "the disk is on fire");
        box.err = OK;
        assert_rows(&box, "SELECT count(*) FROM jobs", "9\n"); /* the next one is not affected */
        sql_box_release(&box);
}

static void a_statement_can_be_stopped_between_pages(void **state)
{
        struct sql_box box;
        (void)state;
        sql_box_init(&box, BOX_JOBS);
        box.page_max = 10;
        box.stops = true;
        assert_fails(&box, "SELECT count(*) FROM jobs", ERR_STOPPING, "interrupted");
        assert_int_equal(times(buf_cstr(&box.asked), "\n"), 1);
        box.stops = false;
        assert_rows(&box, "SELECT count(*) FROM jobs", "300\n");
        sql_box_release(&box);
}

/* ---- a store on disk ---- */

struct on_disk {
        struct box box;
        struct sql_box sql;
        struct sql_source *source;
};

static void tell_nobody(void *ctx, const char *what)
{
        (void)ctx;
        fail_msg("there is no damage: %s", what);
}

static void disk_init(struct on_disk *d)
{
        struct problem p;
        box_init(&d->box);
        d->sql = (struct sql_box){0};
        assert_int_equal(sql_source_open(d->box.path, NULL, &d->source, &p), OK);
        assert_int_equal(sql_reader_new(d->source, tell_nobody, NULL, &d->sql.reader, &p), OK);
}

static void disk_release(struct on_disk *d)
{
        sql_box_release(&d->sql);
        assert_null(sql_source_close(d->source));
        box_release(&d->box);
}

static void rows_and_blocks_are_one_table(void **state)
{
        struct on_disk d;
        struct job *jobs[300];
        char text[32];
        (void)state;
        disk_init(&d);
        assert_rows(&d.sql, "SELECT count(*) FROM jobs", "0\n");
        for (uint64_t i = 0; i < 300; i++)
                jobs[i] = job_plain(i < 290 ? i + 1 : i * 100000); /* ten are far apart */
        box_store(&d.box, jobs, 300);
        ask_sql(&d.box,
                "SELECT (SELECT count(*) FROM job) BETWEEN 1 AND 20 AND "
                "(SELECT count(*) FROM block) > 0",
                text, sizeof(text));
        assert_string_equal(text, "1");
        sql_source_rest(d.source); /* a statement is over */
        assert_rows(&d.sql, "SELECT count(*), count(DISTINCT id), max(id) FROM jobs",
                    "300|300|29900000\n");
        assert_rows(&d.sql, "SELECT id FROM jobs ORDER BY id DESC LIMIT 2 OFFSET 9",
                    "29000000\n290\n");
        assert_rows(&d.sql,
                    "SELECT hook, args, e.worker, event, at_ms - created_ms FROM jobs, events e "
                    "WHERE job = id AND id = 290",
                    "mail.send|{\"to\":\"a@b\"}|NULL|created|0\n"
                    "mail.send|{\"to\":\"a@b\"}|w1|started|800\n"
                    "mail.send|{\"to\":\"a@b\"}|w1|completed|1000\n");
        jobs_drop(jobs, 300);
        disk_release(&d);
}

static void removed(struct archive_removal *r)
{
        bool *is_done = r->ctx;
        *is_done = true;
}

static void remove_all(struct box *box, struct job **jobs, size_t n)
{
        struct archive_ref *refs = xcalloc(n, sizeof(*refs));
        bool is_done = false;
        struct archive_removal r = {.refs = refs, .n = n, .done = removed, .ctx = &is_done};
        for (size_t i = 0; i < n; i++)
                refs[i].id = jobs[i]->view.id;
        box->archive->ops->remove(box->archive, &r);
        while (!is_done)
                box_turn(box);
        assert_int_equal(r.err, OK);
        assert_int_equal(r.removed, n);
        free(refs);
}

/* Of which a block cannot make less, so that it has whole pages to give back. */
static struct job *job_of_noise(uint64_t id)
{
        struct job *job = job_make(id, 256);
        char text[200];
        for (size_t i = 0; i < sizeof(text); i++)
                text[i] = (char)('!' + hash_bytes(id * sizeof(text) + i, SLICE_NONE) % 90);
        job->view.args = job_keep(job, slice_make(text, sizeof(text)));
        job_tell_plainly(job);
        return job;
}

/* Its bytes are gone at once, and the marks that a statement has read still tell of it. */
static void a_block_that_is_dropped_meanwhile_is_no_damage(void **state)
{
        enum { N = 6000 };
        struct on_disk d;
        struct job **jobs = xcalloc(N, sizeof(struct job *));
        struct sql_script script = {"SELECT args FROM jobs", 1};
        sqlite3_stmt *stmt;
        struct problem p;
        size_t n = 0;
        (void)state;
        say_setup(SAY_NOTHING, false); /* the reader tells the log what it takes for damage */
        disk_init(&d);
        for (size_t i = 0; i < N; i++)
                jobs[i] = job_of_noise(i + 1);
        box_store(&d.box, jobs, N);
        assert_int_equal(sql_reader_prepare(d.sql.reader, &script, &stmt, &p), OK);
        assert_int_equal(sqlite3_step(stmt), SQLITE_ROW);
        remove_all(&d.box, jobs, N);
        while (sqlite3_step(stmt) == SQLITE_ROW)
                n++;
        assert_int_equal(sqlite3_finalize(stmt), SQLITE_OK);
        assert_true(n < N - 1); /* tell_nobody() fails when it is called */
        jobs_drop(jobs, N);
        free(jobs);
        disk_release(&d);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(every_column_of_a_job_is_told),
                cmocka_unit_test(what_is_empty_is_null_and_what_is_no_text_a_blob),
                cmocka_unit_test(events_are_rows_of_their_own),
                cmocka_unit_test(pages_make_one_list),
                cmocka_unit_test(a_limit_ends_the_walk),
                cmocka_unit_test(incidents_are_read_page_by_page),
                cmocka_unit_test(the_audit_trail_is_read_page_by_page),
                cmocka_unit_test(damage_is_told_once_and_never_delivered),
                cmocka_unit_test(a_damaged_block_is_told_once),
                cmocka_unit_test(more_damage_than_anyone_reads_is_counted),
                cmocka_unit_test(an_error_of_the_store_ends_the_statement),
                cmocka_unit_test(a_statement_can_be_stopped_between_pages),
                cmocka_unit_test(rows_and_blocks_are_one_table),
                cmocka_unit_test(a_block_that_is_dropped_meanwhile_is_no_damage),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
