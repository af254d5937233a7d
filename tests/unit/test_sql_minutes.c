/* The table `minutes`: what its rows hold, which rollups a statement reads, and what happens when
 * one of them is damaged. */
#include "check.h"

#include <stdio.h>

#include "base/bytes.h"
#include "base/crc.h"
#include "history_box.h"
#include "rollup_box.h"
#include "sql_box.h"

#define NOW         (BOX_NOW / 60000) /* 2026-09-21T14:13, Unix minutes */
#define MINUTES_MAX 200

/* A source of rollups, which notes what it is asked for: "1: 29833333..29833335". */
struct minutes_box {
        struct sql_box sql; /* first */
        struct {
                unsigned span;
                int64_t at;
                struct buf body;
        } rows[MINUTES_MAX]; /* by span and time */
        size_t n;
};

static int box_minutes(struct sql_source *source, struct sql_minutes *q, struct problem *p)
{
        struct sql_box *sql = CONTAINER_OF(source, struct sql_box, base);
        struct minutes_box *box = CONTAINER_OF(sql, struct minutes_box, sql);
        buf_printf(&sql->asked, "%u: %lld..", q->span, (long long)q->from);
        if (q->to < INT64_MAX / 60000)
                buf_put_i64(&sql->asked, q->to);
        buf_put_byte(&sql->asked, '\n');
        if (sql->stops)
                sql_reader_stop(sql->reader);
        if (sql->err)
                return problem_set(p, sql->err, "the disk is on fire");
        q->rows = arena_array(&q->arena, q->limit, sizeof(*q->rows));
        assert_non_null(q->rows);
        for (size_t i = 0; i < box->n && q->n_rows < q->limit; i++)
                if (box->rows[i].span == q->span && box->rows[i].at >= q->from &&
                    box->rows[i].at <= q->to)
                        q->rows[q->n_rows++] =
                                (struct sql_minute){box->rows[i].at, buf_slice(&box->rows[i].body)};
        return OK;
}

static void minutes_init(struct minutes_box *box)
{
        *box = (struct minutes_box){0};
        sql_box_init(&box->sql, 0);
        box->sql.base.minutes = box_minutes;
}

static void minutes_release(struct minutes_box *box)
{
        for (size_t i = 0; i < box->n; i++)
                buf_release(&box->rows[i].body);
        sql_box_release(&box->sql);
}

/* Takes what the rollup holds. */
static void add(struct minutes_box *box, struct rollup *r)
{
        assert_true(box->n < MINUTES_MAX);
        box->rows[box->n].span = r->span;
        box->rows[box->n].at = r->at;
        rollup_pack(r, &box->rows[box->n++].body);
        rollup_release(r);
}

/* A minute (or more) with one job of the hook. */
static void add_job(struct minutes_box *box, unsigned span, int64_t at, const char *hook)
{
        struct rollup r;
        minute_init(&r, at);
        r.span = span;
        minute_job(&r, hook, 5, 50);
        add(box, &r);
}

#define METRIC SLICE_LIT("db\0load1")

/* One name of each kind, and every total. */
static void fill(struct rollup *r)
{
        struct tally_jobs *hook = &minute_cell(r, TALLY_HOOK, SLICE_LIT("mail"))->jobs;
        struct tally_jobs *queue = &minute_cell(r, TALLY_QUEUE, SLICE_LIT("default"))->jobs;
        struct tally_asks *client = &minute_cell(r, TALLY_CLIENT, SLICE_LIT("cron"))->asks;
        struct tally_asks *target = &minute_cell(r, TALLY_TARGET, SLICE_LIT("db"))->asks;
        struct tally_values *values = &minute_cell(r, TALLY_METRIC, METRIC)->values;
        for (uint64_t i = 0; i < ROLLUP_TOTALS; i++)
                r->totals[i] = 100 + i;
        *hook = (struct tally_jobs){.completed = 3, .failed = 1, .deferred = 2};
        for (int i = 0; i < 5; i++)
                octaves_add(&hook->wait, 8);
        for (int i = 0; i < 4; i++)
                octaves_add(&hook->run, 100);
        *queue = (struct tally_jobs){.deferred = 9};
        *client = (struct tally_asks){
                .granted = 7, .refused = 4, .observed = 2, .waited_ms = 1500, .cause = METRIC};
        client->by_reason[CHECK_THRESHOLD] = 5;
        client->by_reason[CHECK_PAUSED] = 1;
        *target = (struct tally_asks){.granted = 6,
                                      .levels = 1u << LEVEL_NORMAL | 1u << LEVEL_CRITICAL};
        *values = (struct tally_values){.n = 4, .min = 0.1F, .max = 2.5F, .sum = 4.5};
}

static void every_kind_has_its_numbers(void **state)
{
        struct minutes_box box;
        struct rollup r;
        (void)state;
        minutes_init(&box);
        minute_init(&r, NOW);
        r.since = NOW - 3;
        fill(&r);
        add(&box, &r);
#define AT     "2026-09-21T14:13:00.000Z|60|"
#define SINCE  "2026-09-21T14:10:00.000Z|1789999980000\n"
#define NULLS2 "NULL|NULL|"
#define NULLS4 NULLS2 NULLS2
#define NULLS6 NULLS4 NULLS2
        assert_rows(&box.sql, "SELECT * FROM minutes WHERE kind = 'all'",
                    AT "all|" NULLS2 "100|101|102|103|430|" NULLS6 "110|111|104|105|" NULLS4
                       "NULL|" NULLS4 SINCE);
        assert_rows(&box.sql, "SELECT * FROM minutes WHERE kind = 'hook'",
                    AT "hook|mail|" NULLS2 "5|3|1|2|11|15|16|91|124|127|" NULLS2 NULLS2 NULLS4
                       "NULL|" NULLS4 SINCE);
        assert_rows(&box.sql, "SELECT * FROM minutes WHERE kind = 'queue'",
                    AT "queue|default|" NULLS2 "0|0|0|9|" NULLS6 NULLS2 NULLS2 NULLS4
                       "NULL|" NULLS4 SINCE);
        assert_rows(&box.sql, "SELECT * FROM minutes WHERE kind = 'client'",
                    AT "client|cron|" NULLS6 NULLS6 NULLS2
                       "7|4|2|1500|{\"paused\":1,\"threshold\":5}|load1 on db|NULL|" NULLS4 SINCE);
        assert_rows(&box.sql, "SELECT * FROM minutes WHERE kind = 'target'",
                    AT "target|db|" NULLS6 NULLS6 NULLS2 "6|0|0|0|" NULLS2
                       "critical|" NULLS4 SINCE);
        assert_rows(&box.sql, "SELECT * FROM minutes WHERE kind = 'metric'",
                    AT "metric|load1|db|" NULLS6 NULLS6 "NULL|" NULLS6
                       "NULL|4|0.1|1.125|2.5|" SINCE);
        assert_rows(&box.sql, "SELECT count(*) FROM minutes", "6\n");
        minutes_release(&box);
}

/* A minute has `other` of each kind, and it is a row when something was counted there. */
static void other_is_told_when_it_has_counted(void **state)
{
        struct minutes_box box;
        struct rollup r;
        (void)state;
        minutes_init(&box);
        minute_init(&r, NOW);
        add(&box, &r);
        assert_rows(&box.sql, "SELECT kind, name FROM minutes", "all|NULL\n");
        minute_init(&r, NOW + 1);
        r.tables[TALLY_HOOK].rows[0].cell.jobs.failed = 1;
        r.tables[TALLY_QUEUE].rows[0].cell.jobs.deferred = 1;
        r.tables[TALLY_CLIENT].rows[0].cell.asks.refused = 1;
        r.tables[TALLY_TARGET].rows[0].cell.asks.levels = 1;
        r.tables[TALLY_METRIC].rows[0].cell.values =
                (struct tally_values){.n = 1, .min = 1, .max = 1, .sum = 1};
        add(&box, &r);
        assert_rows(&box.sql,
                    "SELECT kind, name, target FROM minutes WHERE kind <> 'all' ORDER BY kind",
                    "client|other|NULL\nhook|other|NULL\nmetric|other|NULL\nqueue|other|NULL\n"
                    "target|other|NULL\n");
        minutes_release(&box);
}

static void asks(struct minutes_box *box, const char *where, const char *want)
{
        char sql[512];
        (void)snprintf(sql, sizeof(sql), "SELECT count(*) FROM minutes WHERE %s", where);
        assert_asks(&box->sql, sql, want);
}

static void has_count(struct minutes_box *box, const char *where, unsigned n)
{
        char sql[512], want[32];
        (void)snprintf(sql, sizeof(sql), "SELECT count(*) FROM minutes WHERE %s", where);
        (void)snprintf(want, sizeof(want), "%u\n", n);
        assert_rows(&box->sql, sql, want);
}

static void only_the_minutes_asked_for_are_read(void **state)
{
        struct minutes_box box;
        (void)state;
        minutes_init(&box);
        asks(&box, "1", "1: 0..\n10: 0..\n60: 0..\n");
        asks(&box, "step_s = 60", "1: 0..\n");
        asks(&box, "step_s > 60", "10: 0..\n60: 0..\n");
        asks(&box, "step_s IN (60, 3600)", "1: 0..\n60: 0..\n");
        asks(&box, "step_s = 61", "");
        asks(&box, "step_s = 60 AND at >= '1970-01-01T00:05'", "1: 5..\n");
        asks(&box, "step_s = 60 AND at > '1970-01-01T00:05:00.000Z'", "1: 6..\n");
        asks(&box, "step_s = 60 AND at <= '1970-01-01T00:05:00.000Z'", "1: 0..5\n");
        asks(&box, "step_s = 60 AND at < '1970-01-01T00:05'", "1: 0..4\n");
        asks(&box, "step_s = 60 AND at = '1970-01-01T00:05:00.000Z'", "1: 5..5\n");
        asks(&box, "step_s = 60 AND at_ms BETWEEN 59999 AND 180000", "1: 1..3\n");
        asks(&box, "step_s = 60 AND at_ms < 60000", "1: 0..0\n");
        asks(&box, "at >= '2' AND at < '1'", "");
        asks(&box, "at = NULL", "");
        asks(&box, "kind = 'nope'", "");
        asks(&box, "kind = 'hook' AND kind = 'queue'", "");
        asks(&box, "step_s = 60 AND kind IN ('hook', 'queue')", "1: 0..\n1: 0..\n");
        minutes_release(&box);
}

static void conditions_change_no_answer(void **state)
{
        struct minutes_box box;
        (void)state;
        minutes_init(&box);
        for (int64_t i = 0; i < 9; i++)
                add_job(&box, ROLLUP_MINUTE, NOW - 3 + i, i % 2 ? "odd" : "even");
        add_job(&box, ROLLUP_TEN, NOW - 3, "even");
        assert_rows(&box.sql,
                    "SELECT substr(at, 12, 5), name FROM minutes WHERE kind = 'hook' AND "
                    "at >= '2026-09-21T14:17' AND step_s = 60",
                    "14:17|odd\n14:18|even\n");
        assert_rows(&box.sql,
                    "SELECT sum(completed), sum(run_p50_ms) FROM minutes WHERE name = 'even'",
                    "6|270\n");
        assert_rows(&box.sql, "SELECT kind, count(*) FROM minutes GROUP BY kind",
                    "all|10\nhook|10\n");
        /* SQLite makes two loops of it and tells rows apart by their rowid. */
        const char *either = "at = '2026-09-21T14:10:00.000Z' AND kind = 'hook' OR "
                             "at = '2026-09-21T14:10:00.000Z' AND step_s = 60";
        asks(&box, either,
             "1: 29833330..29833330\n10: 29833330..29833330\n"
             "60: 29833330..29833330\n1: 29833330..29833330\n");
        has_count(&box, either, 3);
        assert_rows(&box.sql, "SELECT count(DISTINCT rowid + 0) FROM minutes", "20\n");
        minutes_release(&box);
}

static void pages_make_one_list(void **state)
{
        struct minutes_box box;
        (void)state;
        minutes_init(&box);
        for (int64_t i = 0; i < 64; i++)
                add_job(&box, ROLLUP_MINUTE, 2 * i, "mail");
        for (int64_t i = 0; i < 40; i++)
                add_job(&box, ROLLUP_HOUR, 60 * i, "mail");
        assert_rows(&box.sql,
                    "SELECT step_s, count(*), count(DISTINCT at), max(at_ms) / 60000 "
                    "FROM minutes WHERE kind = 'hook' GROUP BY step_s",
                    "60|64|64|126\n3600|40|40|2340\n");
        asks(&box, "kind = 'hook'", "1: 0..\n1: 63..\n1: 127..\n10: 0..\n60: 0..\n60: 1861..\n");
        assert_asks(&box.sql, "SELECT at FROM minutes LIMIT 3", "1: 0..\n");
        minutes_release(&box);
}

static void damage_is_told_once_and_never_delivered(void **state)
{
        struct minutes_box box;
        (void)state;
        minutes_init(&box);
        for (int64_t i = 0; i < 3; i++)
                add_job(&box, ROLLUP_MINUTE, NOW + i, "mail");
        add_job(&box, ROLLUP_HOUR, NOW - 13, "mail");
        box.rows[0].body.ptr[9] ^= 1;
        box.rows[2].at++; /* it is of another minute than its row says */
        box.rows[3].body.len = 3;
        for (int i = 0; i < 2; i++)
                assert_rows(&box.sql, "SELECT substr(at, 12, 5) FROM minutes WHERE kind = 'hook'",
                            "14:14\n");
        assert_string_equal(buf_cstr(&box.sql.told),
                            "minute 2026-09-21T14:13:00.000Z of step_s 60\n"
                            "minute 2026-09-21T14:16:00.000Z of step_s 60\n"
                            "minute 2026-09-21T14:00:00.000Z of step_s 3600\n");
        assert_int_equal(sql_reader_damaged(box.sql.reader), 3);
        minutes_release(&box);
}

/* The names of its metrics are no names, though the checksum is right: who does not ask for metrics
 * does not see it. */
static void kinds_that_are_not_asked_for_are_not_unpacked(void **state)
{
        struct minutes_box box;
        struct rollup r;
        (void)state;
        minutes_init(&box);
        minute_init(&r, NOW);
        fill(&r);
        add(&box, &r);
        struct buf *body = &box.rows[0].body;
        char *name = memmem(body->ptr, body->len, "db\0load1", 8);
        assert_non_null(name);
        name[-2] = 5; /* bytes of the name before, which has none */
        store_u32(body->ptr, crc32c(0, body->ptr + 4, body->len - 4));
        assert_rows(&box.sql, "SELECT name FROM minutes WHERE kind = 'hook'", "mail\n");
        assert_rows(&box.sql, "SELECT name FROM minutes WHERE kind = 'queue'", "default\n");
        assert_rows(&box.sql, "SELECT enqueued FROM minutes WHERE kind = 'all'", "100\n");
        assert_string_equal(buf_cstr(&box.sql.told), "");
        assert_rows(&box.sql, "SELECT name FROM minutes", "");
        has(buf_cstr(&box.sql.told), "14:13");
        minutes_release(&box);
}

static void an_error_or_a_stop_ends_the_statement(void **state)
{
        struct minutes_box box;
        (void)state;
        minutes_init(&box);
        for (int64_t i = 0; i < 40; i++)
                add_job(&box, ROLLUP_MINUTE, NOW + i, "mail");
        box.sql.err = ERR_IO;
        assert_fails(&box.sql, "SELECT * FROM minutes", ERR_IO, "the disk is on fire");
        box.sql.err = OK;
        box.sql.stops = true;
        assert_fails(&box.sql, "SELECT count(*) FROM minutes", ERR_STOPPING, "interrupted");
        assert_int_equal(times(buf_cstr(&box.sql.asked), "\n"), 1);
        box.sql.stops = false;
        assert_rows(&box.sql, "SELECT count(*) FROM minutes WHERE kind = 'hook'", "40\n");
        minutes_release(&box);
}

/* ---- a store on disk ---- */

static void tell_nobody(void *ctx, const char *what)
{
        (void)ctx;
        fail_msg("there is no damage: %s", what);
}

static void roll(struct box *box, int64_t at)
{
        struct rollup r;
        struct buf b CLEANUP(buf_release) = {0};
        minute_init(&r, at);
        minute_job(&r, "mail", 5, 50);
        rollup_pack(&r, &b);
        rollup_release(&r);
        box->archive->ops->roll(box->archive, buf_slice(&b));
}

static void a_store_has_minutes_of_every_step(void **state)
{
        struct box box;
        struct sql_box sql = {0};
        struct sql_source *source;
        struct problem p;
        (void)state;
        box_init(&box);
        assert_int_equal(sql_source_open(box.path, NULL, &source, &p), OK);
        assert_int_equal(sql_reader_new(source, tell_nobody, NULL, &sql.reader, &p), OK);
        assert_rows(&sql, "SELECT count(*) FROM minutes", "0\n");
        for (int64_t i = 0; i < 50; i++)
                roll(&box, NOW + i);
        box_close(&box); /* writes what is left */
        sql_source_rest(source);
        assert_rows(&sql,
                    "SELECT step_s, min(at), count(*), sum(completed) FROM minutes "
                    "WHERE kind = 'hook' AND name = 'mail' GROUP BY step_s",
                    "60|2026-09-21T14:13:00.000Z|50|50\n"
                    "600|2026-09-21T14:10:00.000Z|6|50\n"
                    "3600|2026-09-21T14:00:00.000Z|2|50\n");
        assert_rows(&sql,
                    "SELECT count(*) FROM minutes WHERE step_s = 60 AND kind = 'all' AND "
                    "at BETWEEN '2026-09-21T14:20' AND '2026-09-21T14:25'",
                    "5\n");
        sql_box_release(&sql);
        assert_null(sql_source_close(source));
        box_open(&box);
        box_release(&box);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(every_kind_has_its_numbers),
                cmocka_unit_test(other_is_told_when_it_has_counted),
                cmocka_unit_test(only_the_minutes_asked_for_are_read),
                cmocka_unit_test(conditions_change_no_answer),
                cmocka_unit_test(pages_make_one_list),
                cmocka_unit_test(damage_is_told_once_and_never_delivered),
                cmocka_unit_test(kinds_that_are_not_asked_for_are_not_unpacked),
                cmocka_unit_test(an_error_or_a_stop_ends_the_statement),
                cmocka_unit_test(a_store_has_minutes_of_every_step),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
