/* History as the copy of a mirror: what is written where, what a failure leaves, and who may write.
 * tests/prop/prop_history_mirror.c has everything at once. */
#include "check.h"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include "../support/memory_mirror.h"
#include "history_box.h"

/* A machine of a cluster. */
struct node {
        struct box box;
        struct memory_mirror mirror;
        int n_led;
};

static void told_led(void *ctx)
{
        struct node *n = ctx;
        n->n_led++;
}

static void node_init(struct node *n, struct memory_mirror_store *s)
{
        *n = (struct node){0};
        box_init_folder(&n->box);
        memory_mirror_init(&n->mirror, s);
        n->box.mirror = &n->mirror.base;
        n->box.is_following = true;
        box_open(&n->box);
}

static void node_lead(struct node *n)
{
        int before = n->n_led;
        memory_mirror_lead(&n->mirror);
        history_lead(n->box.archive, told_led, n);
        while (n->n_led == before)
                box_turn(&n->box);
}

static void node_release(struct node *n)
{
        box_release(&n->box);
        memory_mirror_release(&n->mirror);
}

static void store_plain(struct node *n, uint64_t first, uint64_t last)
{
        for (uint64_t id = first; id <= last; id++) {
                struct job *job = job_plain(id);
                box_store(&n->box, &job, 1);
                assert_int_equal(job->reported, 1);
                job_drop(job);
        }
}

static unsigned faults_of(struct node *n)
{
        (void)pthread_mutex_lock(&n->mirror.store->lock);
        unsigned n_faults = n->mirror.n_faults;
        (void)pthread_mutex_unlock(&n->mirror.store->lock);
        return n_faults;
}

static size_t rows_of(struct memory_mirror_store *s, enum mirror_kind kind)
{
        size_t n = 0;
        (void)pthread_mutex_lock(&s->lock);
        for (size_t i = 0; i < s->n_rows; i++)
                n += s->rows[i].kind == kind;
        (void)pthread_mutex_unlock(&s->lock);
        return n;
}

static void what_one_stores_all_have(void **state)
{
        struct memory_mirror_store s;
        struct node a, b;
        (void)state;
        memory_mirror_store_init(&s, 1);
        node_init(&a, &s);
        node_init(&b, &s);
        node_lead(&a);
        assert_int_equal(a.box.archive->last_id, 0);
        store_plain(&a, 1, 5);
        assert_int_equal(rows_of(&s, MIRROR_BLOCK), 5);
        assert_int_equal(rows_of(&s, MIRROR_LEAD), 1);
        assert_int_equal(box_stat(&a.box).block_jobs, 5); /* none is a row of the file alone */
        history_sweep(b.box.archive);
        assert_int_equal(box_count(&b.box), 5);

        history_follow(a.box.archive);
        node_lead(&b);
        assert_int_equal(b.box.archive->last_id, 5);
        store_plain(&b, 4, 7); /* two of them again */
        assert_int_equal(box_count(&b.box), 7);
        history_sweep(a.box.archive);
        assert_int_equal(box_count(&a.box), 7);
        node_release(&a);
        node_release(&b);
        memory_mirror_store_release(&s);
}

static void a_follower_writes_nothing(void **state)
{
        struct memory_mirror_store s;
        struct node a;
        (void)state;
        memory_mirror_store_init(&s, 1);
        node_init(&a, &s);
        struct job *job = job_plain(1);
        struct archive_incident incident = {.number = 1, .event = SLICE_LIT("x")};
        box_hand_over(&a.box, &job, 1);
        a.box.archive->ops->note(a.box.archive, &incident);
        job_drop(job); /* it is not looked at */
        history_sweep(a.box.archive);
        assert_false(box_has(&a.box, 1));
        assert_int_equal(rows_of(&s, MIRROR_BLOCK), 0);
        assert_int_equal(rows_of(&s, MIRROR_INCIDENT), 0);
        node_release(&a);
        memory_mirror_store_release(&s);
}

static void removed(struct archive_removal *r)
{
        bool *is_done = r->ctx;
        *is_done = true;
}

static void a_follower_refuses_to_delete(void **state)
{
        struct memory_mirror_store s;
        struct node a;
        bool is_done = false;
        struct archive_ref ref = {.id = 1};
        struct archive_removal r = {.refs = &ref, .n = 1, .done = removed, .ctx = &is_done};
        (void)state;
        memory_mirror_store_init(&s, 1);
        node_init(&a, &s);
        node_lead(&a);
        store_plain(&a, 1, 1);
        history_follow(a.box.archive);
        a.box.archive->ops->remove(a.box.archive, &r);
        while (!is_done)
                box_turn(&a.box);
        assert_int_equal(r.err, ERR_STATE);
        assert_true(box_has(&a.box, 1));
        node_release(&a);
        memory_mirror_store_release(&s);
}

/* The jobs are freed as soon as history_follow() returns, which does not wait for the mirror. */
static void jobs_are_let_go_of_while_the_mirror_is_slow(void **state)
{
        struct memory_mirror_store s;
        struct node a;
        (void)state;
        memory_mirror_store_init(&s, 1);
        node_init(&a, &s);
        node_lead(&a);
        memory_mirror_hold(&a.mirror, true);
        struct job *job = job_plain(1);
        box_hand_over(&a.box, &job, 1);
        memory_mirror_wait_held(&a.mirror);
        history_follow(a.box.archive);
        job_drop(job);
        memory_mirror_hold(&a.mirror, false);
        history_sweep(a.box.archive);
        assert_int_equal(a.box.n_reported, 0);
        assert_true(box_has(&a.box, 1)); /* it was committed, and the next leader will find it */
        node_lead(&a);
        store_plain(&a, 1, 2);
        assert_int_equal(box_count(&a.box), 2);
        node_release(&a);
        memory_mirror_store_release(&s);
}

static void who_is_deposed_stores_nothing_more(void **state)
{
        struct memory_mirror_store s;
        struct node a, b;
        (void)state;
        memory_mirror_store_init(&s, 1);
        node_init(&a, &s);
        node_init(&b, &s);
        node_lead(&a);
        node_lead(&b);
        struct job *job = job_plain(1);
        box_hand_over(&a.box, &job, 1);
        await_errors(&a.box, 2);
        assert_int_equal(a.box.n_reported, 0);
        assert_non_null(strstr(box_stat(&a.box).failing, "another machine leads"));
        history_follow(a.box.archive);
        job_drop(job);
        store_plain(&b, 1, 1);
        history_sweep(a.box.archive);
        assert_true(box_has(&a.box, 1));
        assert_string_equal(box_stat(&a.box).failing, "");
        node_release(&a);
        node_release(&b);
        memory_mirror_store_release(&s);
}

static void it_leads_when_the_mirror_is_back(void **state)
{
        struct memory_mirror_store s;
        struct node a;
        (void)state;
        memory_mirror_store_init(&s, 1);
        node_init(&a, &s);
        memory_mirror_set_away(&a.mirror, true);
        memory_mirror_lead(&a.mirror);
        history_lead(a.box.archive, told_led, &a);
        struct job *job = job_plain(1);
        box_hand_over(&a.box, &job, 1); /* waits for it */
        await_errors(&a.box, 2);
        assert_int_equal(a.n_led, 0);
        assert_true(box_stat(&a.box).failing_since_ms > 0);
        memory_mirror_set_away(&a.mirror, false);
        box_wait_reported(&a.box, 1);
        assert_int_equal(a.n_led, 1);
        assert_int_equal(box_stat(&a.box).failing_since_ms, 0);
        job_drop(job);
        node_release(&a);
        memory_mirror_store_release(&s);
}

static void an_unknown_commit_is_found_out(void **state)
{
        struct memory_mirror_store s;
        struct node a;
        (void)state;
        memory_mirror_store_init(&s, 1);
        node_init(&a, &s);
        node_lead(&a);
        memory_mirror_set_faults(&a.mirror, 0, 60); /* committed, and the answer lost */
        store_plain(&a, 1, 6);
        unsigned n_unknown = faults_of(&a);
        assert_true(n_unknown > 0);
        memory_mirror_set_faults(&a.mirror, 30, 0); /* not even that */
        store_plain(&a, 7, 12);
        memory_mirror_set_faults(&a.mirror, 0, 0);
        assert_int_equal(box_count(&a.box), 12);
        assert_int_equal(box_stat(&a.box).rows, 12);
        assert_true(faults_of(&a) > n_unknown);
        node_release(&a);
        memory_mirror_store_release(&s);
}

static void a_copy_of_another_database_is_made_anew(void **state)
{
        struct memory_mirror_store s, other;
        struct node a, b;
        (void)state;
        memory_mirror_store_init(&s, 1);
        memory_mirror_store_init(&other, 2);
        node_init(&a, &s);
        node_lead(&a);
        store_plain(&a, 1, 3);
        node_init(&b, &other);
        node_lead(&b);
        store_plain(&b, 11, 20);
        node_release(&b);
        box_close(&a.box);
        a.mirror.store = &other; /* with more transactions than the copy has, and other ones */
        box_open(&a.box);
        history_sweep(a.box.archive);
        assert_int_equal(box_count(&a.box), 10);
        assert_false(box_has(&a.box, 1));
        box_close(&a.box);
        a.mirror.store = &s; /* with fewer: as if some were lost */
        box_open(&a.box);
        node_lead(&a);
        assert_int_equal(box_count(&a.box), 3);
        assert_true(box_has(&a.box, 1));
        node_release(&a);
        memory_mirror_store_release(&s);
        memory_mirror_store_release(&other);
}

/* Two see a transaction that is lost with its server, and another leader writes in its place. */
static void what_has_vanished_is_not_kept(void **state)
{
        struct memory_mirror_store s;
        struct node a, b;
        (void)state;
        memory_mirror_store_init(&s, 1);
        node_init(&a, &s);
        node_init(&b, &s);
        node_lead(&a);
        store_plain(&a, 1, 3);
        struct job *job = job_plain(4);
        memory_mirror_doom(&a.mirror);
        box_hand_over(&a.box, &job, 1);
        while (!box_has(&b.box, 4))
                history_sweep(b.box.archive);
        memory_mirror_store_revert(&s);
        memory_mirror_break(&b.mirror);
        node_lead(&b);
        assert_false(box_has(&b.box, 4));
        store_plain(&b, 14, 14);
        history_follow(a.box.archive);
        job_drop(job);
        memory_mirror_set_away(&a.mirror, false);
        history_sweep(a.box.archive);
        assert_int_equal(box_count(&a.box), 4);
        assert_true(box_has(&a.box, 14));
        node_release(&a);
        node_release(&b);
        memory_mirror_store_release(&s);
}

static void only_a_copy_has_a_mirror(void **state)
{
        struct memory_mirror_store s;
        struct node a;
        struct problem p;
        (void)state;
        memory_mirror_store_init(&s, 1);
        node_init(&a, &s);
        node_lead(&a);
        store_plain(&a, 1, 3);
        box_close(&a.box);
        a.box.mirror = NULL; /* it goes its own way, with all that it has */
        box_open(&a.box);
        store_plain(&a, 4, 4);
        assert_int_equal(box_count(&a.box), 4);
        box_close(&a.box);
        a.box.mirror = &a.mirror.base; /* and has what no mirror has */
        assert_int_equal(box_try_open(&a.box, &p), ERR_STATE);
        assert_non_null(strstr(p.detail, "another folder"));
        a.box.mirror = NULL;
        box_open(&a.box);
        assert_int_equal(box_count(&a.box), 4);
        node_release(&a);
        memory_mirror_store_release(&s);
}

static void store_with_result(struct node *n, uint64_t id, uint64_t result_ms)
{
        struct job *job = job_make(id, 64);
        struct job_options options = {.result_ms = result_ms};
        job_text(job, &job->view.result, "42");
        job_set_packed(job, &options);
        job_tell_plainly(job);
        box_store(&n->box, &job, 1);
        job_drop(job);
}

static bool has_result(struct node *n, uint64_t id)
{
        struct archive_query q = {.id = id};
        box_ask(&n->box, &q);
        assert_int_equal(q.n_rows, 1);
        bool has = q.rows[0].result.len > 0;
        arena_release(&q.arena);
        return has;
}

static void results_lapse_wherever_the_lead_is(void **state)
{
        struct memory_mirror_store s;
        struct node a, b;
        (void)state;
        memory_mirror_store_init(&s, 1);
        node_init(&a, &s);
        node_init(&b, &s);
        node_lead(&a);
        store_with_result(&a, 1, 1000);
        store_with_result(&a, 2, 100000);
        history_follow(a.box.archive);
        node_lead(&b);
        atomic_store(&b.box.wall_ms, BOX_NOW + 50000);
        history_sweep(b.box.archive);
        assert_false(has_result(&b, 1));
        assert_true(has_result(&b, 2));
        history_sweep(a.box.archive);
        assert_false(has_result(&a, 1));
        assert_true(has_result(&a, 2));
        assert_int_equal(box_count(&a.box), 2);
        assert_sql(&b.box, "SELECT count(*) FROM lapse", "1");
        atomic_store(&a.box.wall_ms, BOX_NOW + 50000);
        history_sweep(a.box.archive); /* it forgets what the other took */
        assert_sql(&a.box, "SELECT count(*) FROM lapse", "1");
        node_release(&a);
        node_release(&b);
        memory_mirror_store_release(&s);
}

/* The first byte of every block of the files of the folder. */
static void damage_blocks(const struct box *box)
{
        sqlite3 *db;
        sqlite3_stmt *row;
        assert_int_equal(sqlite3_open_v2(box->path, &db, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
        assert_int_equal(
                sqlite3_prepare_v2(db, "SELECT segment, offset FROM block", -1, &row, NULL),
                SQLITE_OK);
        while (sqlite3_step(row) == SQLITE_ROW) {
                char path[400];
                (void)snprintf(path, sizeof(path), "%s-blocks-%06d", box->path,
                               sqlite3_column_int(row, 0));
                int fd = open(path, O_WRONLY | O_CLOEXEC);
                assert_true(fd >= 0);
                assert_int_equal(pwrite(fd, "?", 1, sqlite3_column_int64(row, 1) + 8), 1);
                assert_int_equal(close(fd), 0);
        }
        assert_int_equal(sqlite3_finalize(row), SQLITE_OK);
        assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

static void a_damaged_block_is_fetched_again(void **state)
{
        struct memory_mirror_store s;
        struct node a;
        (void)state;
        memory_mirror_store_init(&s, 1);
        node_init(&a, &s);
        node_lead(&a);
        store_plain(&a, 1, 3);
        box_close(&a.box);
        damage_blocks(&a.box);
        box_open(&a.box);
        node_lead(&a);
        store_plain(&a, 2, 2); /* again: whether it is there must be known */
        assert_int_equal(box_count(&a.box), 3);
        assert_int_equal(rows_of(&s, MIRROR_BLOCK), 3);
        node_release(&a);
        memory_mirror_store_release(&s);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(what_one_stores_all_have),
                cmocka_unit_test(a_follower_writes_nothing),
                cmocka_unit_test(a_follower_refuses_to_delete),
                cmocka_unit_test(jobs_are_let_go_of_while_the_mirror_is_slow),
                cmocka_unit_test(who_is_deposed_stores_nothing_more),
                cmocka_unit_test(it_leads_when_the_mirror_is_back),
                cmocka_unit_test(an_unknown_commit_is_found_out),
                cmocka_unit_test(a_copy_of_another_database_is_made_anew),
                cmocka_unit_test(what_has_vanished_is_not_kept),
                cmocka_unit_test(only_a_copy_has_a_mirror),
                cmocka_unit_test(results_lapse_wherever_the_lead_is),
                cmocka_unit_test(a_damaged_block_is_fetched_again),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
