/* What the history file knows about each run of 4,096 ids, so that filters pass over what cannot
 * match; rows that are deleted on request; listings from the oldest on; files of version 2. */
#include "check.h"

#include "history_box.h"

#include "gate/registry.h"
#include "history/archive_file.h"
#include "history/archive_finder.h"
#include "history/archive_writer.h"
#include "history/span_mark.h"

/* Jobs far apart, each in a span of its own. */
static uint64_t far(size_t i)
{
        return 1 + i * ARCHIVE_SPAN_IDS * 2;
}

static void marks_hold_what_they_were_given(void **state)
{
        uint8_t marks[SPAN_MARK_BYTES] = {0};
        char name[24];
        int wrong = 0;
        (void)state;
        for (int i = 0; i < 100; i++) {
                (void)snprintf(name, sizeof(name), "hook.%d", i);
                span_mark_add(marks, span_mark_hash(MARK_HOOK, slice_str(name)));
        }
        for (int i = 0; i < 10000; i++) {
                (void)snprintf(name, sizeof(name), "hook.%d", i);
                bool has = span_mark_has(marks, span_mark_hash(MARK_HOOK, slice_str(name)));
                assert_true(has || i >= 100);
                wrong += has && i >= 100;
        }
        assert_true(wrong < 20); /* expected: 1.5 */
        assert_false(span_mark_has(marks, span_mark_status(3)));
        /* They are in files out there. */
        assert_true(span_mark_hash(MARK_HOOK, SLICE_LIT("mail")) == 0x97df8f58b0d7c2e5ULL);
}

static struct archive_query list(struct box *box, struct archive_query q)
{
        if (!q.limit)
                q.limit = 100;
        box_ask(box, &q);
        assert_int_equal(q.err, OK);
        return q;
}

/* Ids found, in order, as text. */
static const char *ids_found(struct box *box, struct archive_query q)
{
        static char text[256];
        size_t n = 0;
        text[0] = '\0';
        q = list(box, q);
        for (size_t i = 0; i < q.n_rows; i++)
                n += (size_t)snprintf(
                        text + n, sizeof(text) - n, "%s%llu", n ? " " : "",
                        (unsigned long long)(q.is_brief ? q.refs[i].id : q.rows[i].id));
        arena_release(&q.arena);
        return text;
}

#define FIND(...) ((struct archive_query){.filter = {__VA_ARGS__}})

/* 5 spans; the job i has hook h<i>, group g<i>, worker w<i>, and was created i seconds later. */
static void fill(struct box *box, struct job **jobs)
{
        char name[8];
        for (size_t i = 0; i < 5; i++) {
                jobs[i] = job_make(far(i), 256);
                struct job_view *v = &jobs[i]->view;
                (void)snprintf(name, sizeof(name), "h%zu", i);
                job_text(jobs[i], &v->hook, name);
                name[0] = 'g';
                job_text(jobs[i], &v->group, name);
                name[0] = 'w';
                job_text(jobs[i], &v->worker, name);
                v->created_ms += (int64_t)i * 1000;
                v->status = i == 3 ? JOB_FAILED : JOB_COMPLETE;
                if (i == 3)
                        job_text(jobs[i], &v->error, "no route");
                job_tell_plainly(jobs[i]);
        }
        box_store(box, jobs, 5);
}

static void each_filter_finds_its_jobs_over_all_spans(void **state)
{
        struct box box;
        struct job *jobs[5];
        (void)state;
        box_init(&box);
        fill(&box, jobs);
        int64_t second = jobs[2]->view.created_ms;
        assert_string_equal(ids_found(&box, FIND(.status = -1)), "32769 24577 16385 8193 1");
        assert_string_equal(ids_found(&box, FIND(.status = -1, .hook = SLICE_LIT("h3"))), "24577");
        assert_string_equal(ids_found(&box, FIND(.status = -1, .group = SLICE_LIT("g0"))), "1");
        assert_string_equal(ids_found(&box, FIND(.status = -1, .worker = SLICE_LIT("w4"))),
                            "32769");
        assert_string_equal(ids_found(&box, FIND(.status = -1, .worker = SLICE_LIT("w5"))), "");
        assert_string_equal(ids_found(&box, FIND(.status = JOB_FAILED)), "24577");
        assert_string_equal(ids_found(&box, FIND(.status = JOB_CANCELED)), "");
        assert_string_equal(ids_found(&box, FIND(.status = -1, .since_ms = second)),
                            "32769 24577 16385");
        assert_string_equal(ids_found(&box, FIND(.status = -1, .until_ms = second)), "8193 1");
        assert_string_equal(ids_found(&box, FIND(.status = -1, .since_ms = second - 1000,
                                                 .until_ms = second + 1, .hook = SLICE_LIT("h2"))),
                            "16385");
        struct archive_query up = {.is_oldest = true, .after_id = 1, .filter = {.status = -1}};
        assert_string_equal(ids_found(&box, up), "8193 16385 24577 32769");
        up.filter.since_ms = second;
        up.is_brief = true;
        assert_string_equal(ids_found(&box, up), "16385 24577 32769");
        const uint64_t ids[] = {far(4), 77, far(0)};
        struct archive_query named = {
                .ids = ids, .n_ids = 3, .is_brief = true, .filter = {.status = -1}};
        assert_string_equal(ids_found(&box, named), "32769 1");
        box_release(&box);
        jobs_drop(jobs, 5);
}

static void a_tier_is_the_rows_own_or_that_of_its_hook(void **state)
{
        struct registry_entry entries[] = {{SLICE_LIT("h1"), TIER_HIGH}};
        struct registry *r = registry_new(entries, 1);
        struct job_options own = {.tier = 1 + TIER_HIGH};
        struct box box;
        struct job *jobs[5], *sixth = job_make(far(5), 256);
        (void)state;
        box_init(&box);
        fill(&box, jobs);
        job_set_packed(sixth, &own);
        job_tell_plainly(sixth);
        box_store(&box, &sixth, 1);
        assert_string_equal(
                ids_found(&box, FIND(.status = -1, .tier = 1 + TIER_HIGH, .registry = r)),
                "40961 8193");
        registry_free(r);
        box_release(&box);
        jobs_drop(jobs, 5);
        job_drop(sixth);
}

/* A file that says nothing about its rows is looked through, and so is a span that gets more. */
static void a_file_of_version_2_is_listed_as_before(void **state)
{
        struct box box;
        struct job *jobs[5], *more = job_make(far(2) + 1, 256);
        (void)state;
        box_init(&box);
        fill(&box, jobs);
        box_close(&box);
        box_downgrade(&box, 2);
        box_open(&box);
        assert_version(&box, ARCHIVE_VERSION);
        assert_sql(&box, "SELECT count(*) FROM span WHERE marks IS NULL", "5");
        job_text(more, &more->view.hook, "h9");
        job_tell_plainly(more);
        box_store(&box, &more, 1);
        assert_sql(&box, "SELECT count(*) FROM span WHERE marks IS NULL", "5");
        assert_string_equal(ids_found(&box, FIND(.status = -1, .hook = SLICE_LIT("h2"))), "16385");
        assert_string_equal(ids_found(&box, FIND(.status = -1, .hook = SLICE_LIT("h9"))), "16386");
        assert_string_equal(
                ids_found(&box, FIND(.status = -1, .until_ms = jobs[1]->view.created_ms)),
                "16386 1");
        box_release(&box);
        jobs_drop(jobs, 5);
        job_drop(more);
}

static void marks_of_a_span_grow_with_each_transaction(void **state)
{
        struct box box;
        struct job *first = job_make(10, 64), *second = job_make(11, 64);
        (void)state;
        job_text(first, &first->view.hook, "one");
        job_text(second, &second->view.hook, "two");
        second->view.created_ms += 5000;
        job_tell_plainly(first);
        job_tell_plainly(second);
        box_init(&box);
        box_store(&box, &first, 1);
        box_store(&box, &second, 1);
        assert_string_equal(ids_found(&box, FIND(.status = -1, .hook = SLICE_LIT("one"))), "10");
        assert_string_equal(ids_found(&box, FIND(.status = -1, .hook = SLICE_LIT("two"))), "11");
        assert_sql(&box, "SELECT length(marks) || ' ' || (created_last - created_first) FROM span",
                   "2048 5000");
        box_release(&box);
        job_drop(first);
        job_drop(second);
}

/* ---- rows that are deleted ---- */

static void removed(struct archive_removal *r)
{
        *(bool *)r->ctx = true;
}

static struct archive_removal remove_rows(struct box *box, const struct archive_ref *refs, size_t n)
{
        bool is_done = false;
        struct archive_removal r = {.refs = refs, .n = n, .done = removed, .ctx = &is_done};
        box->archive->ops->remove(box->archive, &r);
        while (!is_done)
                box_turn(box);
        return r;
}

static void a_row_is_deleted_only_when_it_is_of_the_run_that_was_seen(void **state)
{
        struct box box;
        struct job *jobs[5];
        (void)state;
        box_init(&box);
        fill(&box, jobs);
        const struct archive_ref refs[] = {
                {far(0), 0, 0}, {far(1), 1, 0}, {77, 0, 0}, {far(4), 0, 0}};
        struct archive_removal r = remove_rows(&box, refs, ARRAY_LEN(refs));
        assert_int_equal(r.err, OK);
        assert_int_equal(r.removed, 2);
        assert_false(box_has(&box, far(0)));
        assert_true(box_has(&box, far(1)));
        assert_false(box_has(&box, far(4)));
        assert_int_equal(box_stat(&box).rows, 3);
        assert_sql(&box, "SELECT rows FROM tally", "3");
        r = remove_rows(&box, refs, ARRAY_LEN(refs));
        assert_int_equal(r.removed, 0); /* again is nothing */
        box_close(&box);
        box_open(&box);
        assert_int_equal(box_stat(&box).rows, 3);
        assert_sql(&box, "PRAGMA integrity_check", "ok");
        box_release(&box);
        jobs_drop(jobs, 5);
}

/* What the design of the listing rests on: no statement sorts, and none walks the table when an
 * index or a span can tell. */
static void plan_of(const struct box *box, const char *sql, char *ret, size_t size)
{
        char explain[512];
        (void)snprintf(explain, sizeof(explain), "EXPLAIN QUERY PLAN %s", sql);
        sqlite3 *db;
        sqlite3_stmt *stmt;
        size_t n = 0;
        assert_int_equal(sqlite3_open(box->path, &db), SQLITE_OK);
        assert_int_equal(sqlite3_prepare_v2(db, explain, -1, &stmt, NULL), SQLITE_OK);
        while (sqlite3_step(stmt) == SQLITE_ROW)
                n += (size_t)snprintf(ret + n, size - n, "%s;", sqlite3_column_text(stmt, 3));
        (void)sqlite3_finalize(stmt);
        (void)sqlite3_close(db);
}

static void listings_neither_sort_nor_scan(void **state)
{
        static const char *const statements[] = {
                "SELECT id FROM job WHERE id BETWEEN ?1 AND ?2 ORDER BY id DESC",
                "SELECT id FROM job INDEXED BY job_not_complete WHERE status > 2 AND status = 3 "
                "AND "
                "id BETWEEN ?1 AND ?2 ORDER BY id ASC",
                "SELECT marks FROM span WHERE block BETWEEN ?1 AND ?2 ORDER BY block DESC",
        };
        struct box box;
        char plan[512];
        (void)state;
        box_init(&box);
        for (size_t i = 0; i < ARRAY_LEN(statements); i++) {
                plan_of(&box, statements[i], plan, sizeof(plan));
                if (!strstr(plan, "SEARCH") || strstr(plan, "SCAN") || strstr(plan, "TEMP B-TREE"))
                        fail_msg("%s", plan);
        }
        box_release(&box);
}

/* Deletes the row of job 2 as soon as a third statement begins: the query's begin, the read of job
 * 1, and another one. */
struct deleting {
        const char *path;
        int n_begun;
};

static int delete_on_the_way(unsigned event, void *ctx, void *stmt, void *text)
{
        struct deleting *d = ctx;
        sqlite3 *db;
        (void)stmt;
        (void)text;
        if (event != SQLITE_TRACE_STMT || ++d->n_begun != 3)
                return 0;
        assert_int_equal(sqlite3_open(d->path, &db), SQLITE_OK);
        assert_int_equal(sqlite3_exec(db, "DELETE FROM job WHERE id = 2", NULL, NULL, NULL),
                         SQLITE_OK);
        assert_int_equal(sqlite3_close(db), SQLITE_OK);
        return 0;
}

static void a_query_sees_the_file_as_it_was_at_its_start(void **state)
{
        static const uint64_t ids[] = {1, 7, 2};
        struct box box;
        struct problem p;
        struct archive_finder finder;
        struct job *jobs[2] = {job_plain(1), job_plain(2)};
        (void)state;
        box_init(&box);
        box_store(&box, jobs, 2);
        assert_int_equal(archive_finder_open(&finder, box.path, NULL, &p), OK);
        struct deleting d = {.path = box.path};
        assert_int_equal(sqlite3_trace_v2(finder.file.db, SQLITE_TRACE_STMT, delete_on_the_way, &d),
                         SQLITE_OK);
        struct archive_query q = {.ids = ids, .n_ids = 3, .limit = 9, .filter = {.status = -1}};
        archive_finder_run(&finder, &q);
        assert_int_equal(q.err, OK);
        assert_int_equal(q.n_rows, 2);
        assert_same_view(&q.rows[0], &jobs[0]->view);
        assert_same_view(&q.rows[1], &jobs[1]->view);
        assert_true(d.n_begun > 2);
        arena_release(&q.arena);
        archive_finder_close(&finder);
        box_release(&box);
        jobs_drop(jobs, 2);
}

static void ids_whose_rows_are_too_much_are_cut_and_say_where(void **state)
{
        static const uint64_t ids[] = {9, 3, 1, 2};
        struct box box;
        struct job *jobs[3] = {job_plain(1), job_plain(2), job_plain(3)};
        size_t at = 0;
        (void)state;
        box_init(&box);
        box_store(&box, jobs, 3);
        for (uint64_t want = 3; at < ARRAY_LEN(ids); want = want % 3 + 1) {
                struct archive_query q = {.ids = ids + at,
                                          .n_ids = ARRAY_LEN(ids) - at,
                                          .limit = 9,
                                          .bytes_max = 1500, /* one row */
                                          .filter = {.status = -1}};
                box_ask(&box, &q);
                assert_int_equal(q.n_rows, 1);
                assert_int_equal(q.rows[0].id, want);
                at += q.n_seen;
                assert_int_equal(q.is_cut, at < ARRAY_LEN(ids));
                arena_release(&q.arena);
        }
        assert_int_equal(at, ARRAY_LEN(ids));
        box_release(&box);
        jobs_drop(jobs, 3);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(marks_hold_what_they_were_given),
                cmocka_unit_test(each_filter_finds_its_jobs_over_all_spans),
                cmocka_unit_test(a_tier_is_the_rows_own_or_that_of_its_hook),
                cmocka_unit_test(a_file_of_version_2_is_listed_as_before),
                cmocka_unit_test(marks_of_a_span_grow_with_each_transaction),
                cmocka_unit_test(a_row_is_deleted_only_when_it_is_of_the_run_that_was_seen),
                cmocka_unit_test(listings_neither_sort_nor_scan),
                cmocka_unit_test(a_query_sees_the_file_as_it_was_at_its_start),
                cmocka_unit_test(ids_whose_rows_are_too_much_are_cut_and_say_where),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
