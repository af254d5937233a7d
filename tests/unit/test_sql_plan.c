/* Which conditions of a statement the store is given, and that none of them changes the answer. */
#include "check.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/rand.h"
#include "sql_box.h"

/* Of `SELECT id FROM jobs` with this behind it; `want` is without its end of line. */
static void asks(struct sql_box *box, const char *rest, const char *want)
{
        char sql[512], line[512];
        (void)snprintf(sql, sizeof(sql), "SELECT id FROM jobs %s", rest);
        (void)snprintf(line, sizeof(line), "%s%s", want, *want ? "\n" : "");
        assert_asks(box, sql, line);
}

static void ids_are_looked_up_or_bounded(void **state)
{
        struct sql_box box;
        (void)state;
        sql_box_init(&box, 9);
        asks(&box, "", "jobs, without texts");
        asks(&box, "WHERE id = 5", "jobs 5, without texts");
        asks(&box, "WHERE rowid = 5", "jobs 5, without texts");
        asks(&box, "WHERE id BETWEEN 3 AND 7", "jobs 3..7, without texts");
        asks(&box, "WHERE id > 3 AND id < 7", "jobs 4..6, without texts");
        asks(&box, "WHERE id >= 3 AND id <= 3", "jobs 3, without texts");
        asks(&box, "WHERE id > 3 AND id >= 6", "jobs 6.., without texts");
        asks(&box, "WHERE id IN (2, 4)", "jobs 2, without texts\njobs 4, without texts");
        asks(&box, "WHERE id > -5", "jobs, without texts");
        /* Rounded outwards; SQLite looks at it again. */
        asks(&box, "WHERE id > 3.5 AND id < 6.5", "jobs 3..7, without texts");
        assert_rows(&box, "SELECT id FROM jobs WHERE id > 3.5 AND id < 6.5", "4\n5\n6\n");
        sql_box_release(&box);
}

static void what_no_job_can_have_asks_for_nothing(void **state)
{
        struct sql_box box;
        (void)state;
        sql_box_init(&box, 9);
        asks(&box, "WHERE id = 0", "");
        asks(&box, "WHERE id < 1", "");
        asks(&box, "WHERE id > 7 AND id < 8", "");
        asks(&box, "WHERE id = NULL", "");
        asks(&box, "WHERE status = 'pending'", "");
        asks(&box, "WHERE status = 'none'", "");
        asks(&box, "WHERE status = 'failed' AND status = 'complete'", "");
        asks(&box, "WHERE hook = ''", "");
        asks(&box, "WHERE hook = 'a' AND hook = 'b'", "");
        asks(&box, "WHERE created_ms > 5 AND created_ms < 5", "");
        sql_box_release(&box);
}

static void names_are_compared_by_the_store(void **state)
{
        struct sql_box box;
        (void)state;
        sql_box_init(&box, 9);
        asks(&box, "WHERE status = 'failed' AND hook = 'a'", "jobs, failed, hook a, without texts");
        asks(&box, "WHERE queue = 'q' AND \"group\" = 'g' AND worker = 'w'",
             "jobs, queue q, group g, worker w, without texts");
        asks(&box, "WHERE hook IN ('a', 'b')",
             "jobs, hook a, without texts\njobs, hook b, without texts");
        asks(&box, "WHERE hook = 'a' AND id = 3", "jobs 3, hook a, without texts");
        /* What the store would compare differently. */
        asks(&box, "WHERE hook = 'A' COLLATE NOCASE", "jobs, without texts");
        asks(&box, "WHERE hook > 'a'", "jobs, without texts");
        asks(&box, "WHERE hook LIKE 'a%'", "jobs, without texts");
        asks(&box, "WHERE hook = 5", "jobs, without texts");
        asks(&box, "WHERE hook = 'a' OR queue = 'b'",
             "jobs, hook a, without texts\njobs, queue b, without texts");
        sql_box_release(&box);
}

static void times_become_ranges(void **state)
{
        struct sql_box box;
        (void)state;
        sql_box_init(&box, 9);
        asks(&box, "WHERE created_ms >= 3000 AND created_ms < 7000",
             "jobs, created 3000..6999, without texts");
        asks(&box, "WHERE created_ms > 3000 AND created_ms <= 7000",
             "jobs, created 3001..7000, without texts");
        asks(&box, "WHERE created_ms = 3000", "jobs, created 3000..3000, without texts");
        asks(&box, "WHERE finished_ms >= 3000 AND finished_ms < 9000",
             "jobs, finished 3000.., without texts");
        asks(&box, "WHERE created_ms >= '3000'", "jobs, without texts");
        asks(&box, "WHERE created_ms >= 1e300",
             "jobs, created 9223372036854775807.., without texts");
        sql_box_release(&box);
}

/* A text of any length: the range has the moments whose own text is on that side of it. */
static void iso_texts_become_exact_ranges(void **state)
{
        struct sql_box box;
        (void)state;
        sql_box_init(&box, 9);
        asks(&box, "WHERE created >= '1970-01-01T00:00:05'", "jobs, created 5000.., without texts");
        asks(&box, "WHERE created > '1970-01-01T00:00:05.000Z'",
             "jobs, created 5001.., without texts");
        asks(&box, "WHERE created >= '1970-01-01T00:00:05.000Z'",
             "jobs, created 5000.., without texts");
        asks(&box, "WHERE created < '1970-01-01T00:00:05.000Z'",
             "jobs, created ..4999, without texts");
        asks(&box, "WHERE created <= '1970-01-01T00:00:05.000Z'",
             "jobs, created ..5000, without texts");
        asks(&box, "WHERE created = '1970-01-01T00:00:05.000Z'",
             "jobs, created 5000..5000, without texts");
        asks(&box, "WHERE created = '1970-01-01T00:00:05'", ""); /* none is so short */
        asks(&box, "WHERE created BETWEEN '1970-01-02' AND '1970-01-03'",
             "jobs, created 86400000..172799999, without texts");
        asks(&box, "WHERE created >= '1970-01-02 12:00'", /* a space is before the T */
             "jobs, created 86400000.., without texts");
        asks(&box, "WHERE created >= '1970' AND created < '1971'",
             "jobs, created ..31535999999, without texts");
        asks(&box, "WHERE finished >= date(86400, 'unixepoch')",
             "jobs, finished 86400000.., without texts");
        asks(&box, "WHERE created >= 5", "jobs, without texts");
        sql_box_release(&box);
}

static void the_order_of_ids_is_the_store_s(void **state)
{
        struct sql_box box;
        (void)state;
        sql_box_init(&box, 9);
        asks(&box, "ORDER BY id", "jobs, without texts");
        asks(&box, "ORDER BY id DESC", "jobs, newest first, without texts");
        asks(&box, "WHERE id < 4 ORDER BY rowid DESC", "jobs ..3, newest first, without texts");
        asks(&box, "ORDER BY hook DESC", "jobs, without texts"); /* SQLite sorts */
        assert_asks(&box, "SELECT max(id) FROM jobs", "jobs, newest first, without texts\n");
        assert_asks(&box, "SELECT job FROM events ORDER BY job DESC, number",
                    "jobs, newest first\n");
        assert_rows(&box, "SELECT id FROM jobs WHERE id IN (7, 2, 5) ORDER BY id DESC",
                    "7\n5\n2\n");
        assert_rows(&box, "SELECT job, number FROM events WHERE job < 3 ORDER BY job, number DESC",
                    "1|0\n2|0\n");
        sql_box_release(&box);
}

static void texts_are_asked_for_only_where_one_is_used(void **state)
{
        static const char *const texts[] = {"args", "progress", "result", "error", "events", "run"};
        struct sql_box box;
        char sql[128];
        (void)state;
        sql_box_init(&box, 9);
        for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
                (void)snprintf(sql, sizeof(sql), "SELECT %s FROM jobs", texts[i]);
                assert_asks(&box, sql, "jobs\n");
                (void)snprintf(sql, sizeof(sql), "SELECT id FROM jobs ORDER BY %s", texts[i]);
                assert_asks(&box, sql, "jobs\n");
        }
        assert_asks(&box, "SELECT count(*) FROM jobs", "jobs, without texts\n");
        assert_asks(&box,
                    "SELECT id, status, hook, queue, \"group\", priority, attempt, attempts_max, "
                    "timeout_ms, created, due, started, finished, worker, fence, created_ms, "
                    "due_ms, started_ms, finished_ms FROM jobs",
                    "jobs, without texts\n");
        assert_asks(&box, "SELECT count(*) FROM events", "jobs\n"); /* they tell how many */
        sql_box_release(&box);
}

static void a_join_looks_its_jobs_up(void **state)
{
        struct sql_box box;
        (void)state;
        sql_box_init(&box, 3);
        assert_asks(&box,
                    "SELECT e.number FROM events e, jobs j WHERE e.job = j.id AND j.hook = 'h'",
                    "jobs, hook h, without texts\njobs 1\njobs 2\njobs 3\n");
        sql_box_release(&box);
}

/* ---- random conditions, against a table of SQLite's own ---- */

static const int64_t moments[] = {
        -1, 0, 1, 999, 1000, 86400000, 1790000000123, 253402300799999, 253402300800000};
static const char *const names[] = {"", "a", "A", "b", "5"};

static struct job_view random_job(struct rng *r, uint64_t id)
{
        return (struct job_view){
                .id = id,
                .status = JOB_COMPLETE + rng_below(r, 3),
                .hook = slice_str(names[1 + rng_below(r, ARRAY_LEN(names) - 1)]),
                .group = slice_str(names[rng_below(r, ARRAY_LEN(names))]),
                .created_ms = moments[rng_below(r, ARRAY_LEN(moments))],
                .finished_ms = moments[rng_below(r, ARRAY_LEN(moments))],
        };
}

static void add_to_table(sqlite3 *db, const struct job_view *v)
{
        char sql[512], created[CLOCK_TEXT_SIZE + 2] = "NULL",
                                                 finished[CLOCK_TEXT_SIZE + 2] = "NULL";
        char room[CLOCK_TEXT_SIZE];
        if (sql_moment(v->created_ms, room))
                (void)snprintf(created, sizeof(created), "'%s'", room);
        if (sql_moment(v->finished_ms, room))
                (void)snprintf(finished, sizeof(finished), "'%s'", room);
        (void)snprintf(sql, sizeof(sql),
                       "INSERT INTO jobs VALUES(%llu, '%s', '%.*s', nullif('%.*s', ''), %lld, "
                       "%lld, %s, %s)",
                       (unsigned long long)v->id, job_status_name(v->status), (int)v->hook.len,
                       v->hook.ptr, (int)v->group.len, v->group.ptr, (long long)v->created_ms,
                       (long long)v->finished_ms, created, finished);
        assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
}

static void put_condition(struct rng *r, struct buf *b)
{
        static const char *const columns[] = {"id",         "status",      "hook",    "\"group\"",
                                              "created_ms", "finished_ms", "created", "finished"};
        static const char *const operators[] = {"=", "<", "<=", ">", ">=", "<>", "IS"};
        static const char *const values[] = {"0",
                                             "1",
                                             "7",
                                             "-3",
                                             "7.5",
                                             "'7'",
                                             "1e30",
                                             "NULL",
                                             "'failed'",
                                             "'canceled'",
                                             "'a'",
                                             "'A' COLLATE NOCASE",
                                             "''",
                                             "5",
                                             "999",
                                             "1000.5",
                                             "1790000000123",
                                             "9223372036854775807",
                                             "-9223372036854775808",
                                             "'1970-01-01T00:00:01.000Z'",
                                             "'1970'",
                                             "'1970-01-02'",
                                             "'9999-12-31T23:59:59.999Z'",
                                             "'a'",
                                             "x'61'",
                                             "'2026-09-21'"};
        buf_printf(b, "%s %s %s", columns[rng_below(r, ARRAY_LEN(columns))],
                   operators[rng_below(r, ARRAY_LEN(operators))],
                   values[rng_below(r, ARRAY_LEN(values))]);
}

static void put_statement(struct rng *r, struct buf *b)
{
        static const char *const orders[] = {"id", "id DESC", "hook, id", "rowid DESC"};
        size_t n = rng_below(r, 4);
        buf_put_str(b, "SELECT id FROM jobs");
        for (size_t i = 0; i < n; i++) {
                buf_put_str(b, i ? (rng_below(r, 4) ? " AND " : " OR ") : " WHERE ");
                put_condition(r, b);
        }
        buf_printf(b, " ORDER BY %s", orders[rng_below(r, ARRAY_LEN(orders))]);
        if (rng_below(r, 2))
                buf_printf(b, " LIMIT %d", (int)rng_below(r, 20));
}

static void read_table(sqlite3 *db, const char *sql, struct buf *ret)
{
        sqlite3_stmt *stmt;
        if (sqlite3_prepare_v2(db, sql, -1, &stmt, NULL) != SQLITE_OK)
                fail_msg("%s: %s", sql, sqlite3_errmsg(db));
        while (sqlite3_step(stmt) == SQLITE_ROW)
                buf_printf(ret, "%s\n", (const char *)sqlite3_column_text(stmt, 0));
        assert_int_equal(sqlite3_finalize(stmt), SQLITE_OK);
}

static void random_conditions_find_what_a_plain_table_finds(void **state)
{
        struct sql_box box;
        struct rng r;
        sqlite3 *db;
        (void)state;
        rng_init_seed(&r, 4711);
        sql_box_init(&box, 0);
        assert_int_equal(sqlite3_open(":memory:", &db), SQLITE_OK);
        assert_int_equal(sqlite3_exec(db,
                                      "CREATE TABLE jobs(id INTEGER PRIMARY KEY, status TEXT, hook "
                                      "TEXT, \"group\" TEXT, created_ms INTEGER, finished_ms "
                                      "INTEGER, created TEXT, finished TEXT)",
                                      NULL, NULL, NULL),
                         SQLITE_OK);
        for (; box.n_jobs < 100; box.n_jobs++) {
                box.jobs[box.n_jobs] = random_job(&r, box.n_jobs + 1);
                add_to_table(db, &box.jobs[box.n_jobs]);
        }
        for (int i = 0; i < 3000; i++) {
                struct buf sql CLEANUP(buf_release) = {0}, want CLEANUP(buf_release) = {0};
                box.page_max = rng_below(&r, 2) ? 1 + rng_below(&r, 30) : 0;
                put_statement(&r, &sql);
                read_table(db, buf_cstr(&sql), &want);
                assert_rows(&box, buf_cstr(&sql), buf_cstr(&want));
        }
        assert_int_equal(sqlite3_close(db), SQLITE_OK);
        sql_box_release(&box);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(ids_are_looked_up_or_bounded),
                cmocka_unit_test(what_no_job_can_have_asks_for_nothing),
                cmocka_unit_test(names_are_compared_by_the_store),
                cmocka_unit_test(times_become_ranges),
                cmocka_unit_test(iso_texts_become_exact_ranges),
                cmocka_unit_test(the_order_of_ids_is_the_store_s),
                cmocka_unit_test(texts_are_asked_for_only_where_one_is_used),
                cmocka_unit_test(a_join_looks_its_jobs_up),
                cmocka_unit_test(random_conditions_find_what_a_plain_table_finds),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
