/* The mirror of a history in a real database; mirror_sql.py starts one and runs this.
 *
 *      mirror_sql postgres|mysql ADMIN PASSWORD DATABASE PORT PORT
 *
 * The ports are of the servers of the first machine and of the second, which may be the same.
 * First the calls of history/mirror.h by themselves, then two histories that share it. */
#include "../unit/check.h"

#include <stdlib.h>

#include "../unit/history_box.h"
#include "base/clock.h"
#include "cluster/mirror_sql.h"

#define BIG (3 * MIB + 12345) /* more than two pieces */

static struct sql_login logins[2];
static struct ledger_options options[2];
static bool is_postgres;

static struct mirror *mirror_new(size_t machine)
{
        return is_postgres ? mirror_postgres_new(&options[machine], -1)
                           : mirror_mariadb_new(&options[machine], -1);
}

static struct problem p; /* of the last call that failed */

#define WORKS(call)                                                                                \
        do {                                                                                       \
                int result = (call);                                                               \
                if (result)                                                                        \
                        print_error("%s\n", p.detail);                                             \
                assert_int_equal(result, OK);                                                      \
        } while (false)

static void make_tables(void **state)
{
        struct sql_wait w = {
                .stop_fd = -1, .deadline_ns = clock_boot_ns() + 60 * NS_PER_S, .timeout_ms = 60000};
        struct buf said CLEANUP(buf_release) = {0};
        (void)state;
        WORKS(is_postgres ? ledger_postgres_init(options, logins->user, &w, &said, &p)
                          : ledger_mariadb_init(options, logins->user, &w, &said, &p));
}

static void put(struct mirror *m, uint64_t change, enum mirror_kind kind, uint64_t key,
                struct slice body)
{
        struct mirror_row row = {.kind = kind, .key = key, .change = change, .body = body};
        WORKS(m->ops->put(m, &row, &p));
}

static uint64_t last(struct mirror *m)
{
        uint64_t n = 99;
        WORKS(m->ops->last(m, &n, &p));
        return n;
}

/* "kind:key@change/bytes+dead ..." of a page. */
struct seen {
        struct buf text;
        bool is_big_whole;
};

static char big[BIG];

static int see(void *ctx, const struct mirror_row *row, struct problem *problem)
{
        struct seen *s = ctx;
        (void)problem;
        buf_printf(&s->text, "%d:%llu@%llu/%zu+%zu ", (int)row->kind, (unsigned long long)row->key,
                   (unsigned long long)row->change, row->body.len, row->dead.len);
        s->is_big_whole |= row->body.len == BIG && memcmp(row->body.ptr, big, BIG) == 0;
        return OK;
}

static uint64_t assert_page(struct mirror *m, uint64_t since, uint64_t bytes, const char *want)
{
        struct seen seen = {0};
        struct mirror_page page = {.since = since, .bytes = bytes, .fn = see, .ctx = &seen};
        WORKS(m->ops->since(m, &page, &p));
        assert_string_equal(buf_cstr(&seen.text), want);
        buf_release(&seen.text);
        return page.upto;
}

static void rows_come_and_go(void **state)
{
        struct mirror *m = mirror_new(0);
        uint64_t keys[4];
        size_t n;
        struct seen seen = {0};
        (void)state;
        assert_int_equal(last(m), 0);
        assert_int_equal(assert_page(m, 0, 0, ""), 0);
        assert_int_equal(m->ops->begin(m, 1, &p), ERR_STATE); /* it has no epoch */
        m->ops->abandon(m);
        mirror_sql_set_epoch(m, 1);
        assert_int_equal(m->ops->begin(m, 2, &p), ERR_STATE); /* not the first number */
        m->ops->abandon(m);
        WORKS(m->ops->begin(m, 1, &p));
        put(m, 1, MIRROR_LEAD, 1, slice_str("0123456789abcdef"));
        WORKS(m->ops->commit(m, &p));
        assert_int_equal(last(m), 1);

        for (size_t i = 0; i < BIG; i++)
                big[i] = (char)(i * 7 + i / 251);
        WORKS(m->ops->begin(m, 2, &p));
        put(m, 2, MIRROR_BLOCK, 5, slice_make(big, BIG));
        put(m, 2, MIRROR_BLOCK, 7, slice_str("a'b\\c"));
        for (uint64_t i = 0; i < 300; i++) /* more than a pipeline holds */
                put(m, 2, MIRROR_INCIDENT, i, SLICE_NONE);
        WORKS(m->ops->commit(m, &p));
        WORKS(m->ops->begin(m, 3, &p));
        WORKS(m->ops->bury(m, 7, slice_str("dead"), &p));
        put(m, 3, MIRROR_MINUTE, 1, slice_str("first"));
        for (uint64_t i = 0; i < 300; i++)
                WORKS(m->ops->drop(m, MIRROR_INCIDENT, i, &p));
        WORKS(m->ops->commit(m, &p));
        WORKS(m->ops->begin(m, 4, &p)); /* one that is given up */
        put(m, 4, MIRROR_MINUTE, 1, slice_str("never"));
        m->ops->abandon(m);
        assert_int_equal(last(m), 3);
        WORKS(m->ops->begin(m, 4, &p));
        put(m, 4, MIRROR_MINUTE, 1, slice_str("second time"));
        WORKS(m->ops->commit(m, &p));
        WORKS(m->ops->begin(m, 5, &p)); /* an empty one counts */
        WORKS(m->ops->commit(m, &p));

        /* Whole transactions, at least one. */
        assert_int_equal(assert_page(m, 0, 0, "4:1@1/16+0 "), 1);
        assert_int_equal(assert_page(m, 1, 0, "0:5@2/3158073+0 "), 2);
        assert_int_equal(assert_page(m, 2, 0, "0:7@3/5+4 "), 3);
        assert_int_equal(assert_page(m, 2, MIB, "0:7@3/5+4 1:1@4/11+0 "), 5);
        assert_int_equal(assert_page(m, 5, MIB, ""), 5);
        struct mirror_page page = {.fn = see, .ctx = &seen, .bytes = 100 * MIB};
        WORKS(m->ops->since(m, &page, &p));
        assert_true(seen.is_big_whole);
        buf_release(&seen.text);

        WORKS(m->ops->keys(m, MIRROR_BLOCK, 0, keys, 4, &n, &p));
        assert_int_equal(n, 2);
        assert_int_equal(keys[0], 5);
        assert_int_equal(keys[1], 7);
        WORKS(m->ops->keys(m, MIRROR_BLOCK, 6, keys, 1, &n, &p));
        assert_int_equal(n, 1);
        assert_int_equal(keys[0], 7);
        WORKS(m->ops->keys(m, MIRROR_INCIDENT, 0, keys, 4, &n, &p));
        assert_int_equal(n, 0);
        WORKS(m->ops->begin(m, 6, &p)); /* nothing is left for the histories */
        WORKS(m->ops->drop(m, MIRROR_BLOCK, 5, &p));
        WORKS(m->ops->drop(m, MIRROR_BLOCK, 7, &p));
        WORKS(m->ops->drop(m, MIRROR_MINUTE, 1, &p));
        WORKS(m->ops->commit(m, &p));
        assert_null(m->ops->free(m));
}

/* On Galera the one that commits last is defeated: at its commit, or at any statement before. */
static void beat_at_commit(struct mirror *winner, struct mirror *loser, uint64_t change)
{
        struct mirror_row row = {
                .kind = MIRROR_AUDIT, .key = 1, .change = change, .body = SLICE_LIT("b")};
        int err = loser->ops->begin(loser, change, &p);
        WORKS(winner->ops->commit(winner, &p));
        if (!err)
                err = loser->ops->put(loser, &row, &p);
        if (err)
                loser->ops->abandon(loser);
        else
                err = loser->ops->commit(loser, &p);
        assert_int_not_equal(err, OK);
}

/* Two leaders: the fence lets the later one pass, and never both. */
static void a_deposed_leader_is_refused(void **state)
{
        struct mirror *a = mirror_new(0), *b = mirror_new(1);
        (void)state;
        mirror_sql_set_epoch(a, 2);
        mirror_sql_set_epoch(b, 3);
        WORKS(a->ops->begin(a, 7, &p));
        put(a, 7, MIRROR_AUDIT, 1, slice_str("a"));
        if (is_postgres)
                WORKS(a->ops->commit(a, &p)); /* who waits for it is below */
        else
                beat_at_commit(a, b, 7);
        assert_int_equal(b->ops->begin(b, 7, &p), ERR_STATE); /* the number is taken */
        b->ops->abandon(b);
        WORKS(b->ops->begin(b, 8, &p));
        WORKS(b->ops->drop(b, MIRROR_AUDIT, 1, &p));
        WORKS(b->ops->commit(b, &p));
        assert_int_equal(a->ops->begin(a, 9, &p), ERR_STATE);
        assert_non_null(strstr(p.detail, "another machine leads"));
        a->ops->abandon(a);
        assert_int_equal(last(a), 8);
        assert_null(a->ops->free(a));
        assert_null(b->ops->free(b));
}

/* A leader that stops between two statements: its session waits for the next one, and is not idle.
 * The next leader waits for the fence for a while, and then has it. */
static void a_leader_that_falls_silent_loses_its_lock(void **state)
{
        (void)state;
        if (!is_postgres) /* there nobody waits for the fence */
                return;
        struct mirror *a = mirror_new(0), *b = mirror_new(1);
        mirror_sql_set_epoch(a, 3);
        mirror_sql_set_epoch(b, 4);
        WORKS(a->ops->begin(a, 9, &p));
        put(a, 9, MIRROR_AUDIT, 1, slice_str("a"));
        assert_int_equal(b->ops->begin(b, 9, &p), ERR_LOCKED);
        b->ops->abandon(b);
        WORKS(b->ops->begin(b, 9, &p));
        put(b, 9, MIRROR_AUDIT, 2, slice_str("b"));
        WORKS(b->ops->drop(b, MIRROR_AUDIT, 2, &p));
        WORKS(b->ops->commit(b, &p));
        assert_int_not_equal(a->ops->commit(a, &p), OK);
        assert_int_equal(assert_page(b, 8, MIB, ""), 9); /* nothing of a */
        assert_null(a->ops->free(a));
        assert_null(b->ops->free(b));
}

static void told_led(void *ctx)
{
        bool *has_led = ctx;
        *has_led = true;
}

static void lead(struct box *box, uint64_t epoch)
{
        bool has_led = false;
        mirror_sql_set_epoch(box->mirror, epoch);
        history_lead(box->archive, told_led, &has_led);
        while (!has_led)
                box_turn(box);
}

static void store_some(struct box *box, uint64_t first, uint64_t n)
{
        struct job *jobs[400];
        for (uint64_t i = 0; i < n; i++)
                jobs[i] = job_plain(first + i);
        box_store(box, jobs, n);
        jobs_drop(jobs, n);
}

static void two_histories_share_it(void **state)
{
        static struct box boxes[2];
        (void)state;
        for (size_t i = 0; i < 2; i++) {
                box_init_folder(&boxes[i]);
                boxes[i].mirror = mirror_new(i);
                boxes[i].is_following = true;
                box_open(&boxes[i]);
        }
        lead(&boxes[0], 4);
        store_some(&boxes[0], 1, 400);
        for (uint64_t id = 1001; id <= 1010; id++)
                store_some(&boxes[0], id, 1);
        history_sweep(boxes[1].archive);
        assert_int_equal(box_count(&boxes[1]), 410);
        lead(&boxes[1], 5); /* while the other thinks that it leads */
        assert_int_equal(boxes[1].archive->last_id, 1010);
        store_some(&boxes[1], 301, 200); /* half of them again */
        history_follow(boxes[0].archive);
        history_sweep(boxes[0].archive);
        for (size_t i = 0; i < 2; i++) {
                assert_int_equal(box_count(&boxes[i]), 510);
                struct mirror *m = boxes[i].mirror;
                box_release(&boxes[i]);
                assert_null(m->ops->free(m));
        }
}

int main(int argc, char **argv)
{
        static char address[] = "127.0.0.1";
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(make_tables),
                cmocka_unit_test(rows_come_and_go),
                cmocka_unit_test(a_deposed_leader_is_refused),
                cmocka_unit_test(a_leader_that_falls_silent_loses_its_lock),
                cmocka_unit_test(two_histories_share_it),
        };
        if (argc != 7)
                return 2;
        is_postgres = strcmp(argv[1], "postgres") == 0;
        for (size_t i = 0; i < 2; i++) {
                logins[i] = (struct sql_login){
                        .server = {.host = address, .port = (int)strtol(argv[5 + i], NULL, 10)},
                        .user = argv[2],
                        .password = argv[3],
                        .database = argv[4]};
                options[i] = (struct ledger_options){.logins = &logins[i],
                                                     .n_logins = 1,
                                                     .space = LEDGER_SPACE,
                                                     .durability = LEDGER_REPLICATED};
        }
        return cmocka_run_group_tests(tests, NULL, NULL);
}
