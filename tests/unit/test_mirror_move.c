/* A whole history from its files into a mirror, and back into files. */
#include "check.h"

#include "../support/memory_mirror.h"
#include "base/say.h"
#include "history/mirror_move.h"
#include "history_box.h"

#define DENSE    700 /* jobs that come together, and so are in blocks */
#define SCATTERS 30  /* jobs that come alone and far apart, and so are rows */
#define APART    3000

static uint64_t scattered(uint64_t i)
{
        return 1000 + i * APART;
}

static void deleted(struct archive_removal *r)
{
        *(bool *)r->ctx = true;
}

static void delete_one(struct box *box, uint64_t id)
{
        bool is_done = false;
        struct archive_ref ref = {.id = id};
        struct archive_removal r = {.refs = &ref, .n = 1, .done = deleted, .ctx = &is_done};
        box->archive->ops->remove(box->archive, &r);
        while (!is_done)
                box_turn(box);
}

static void store_dense(struct box *box)
{
        struct job *jobs[DENSE];
        for (uint64_t i = 0; i < DENSE; i++)
                jobs[i] = job_plain(i + 1);
        box_store(box, jobs, DENSE);
        for (uint64_t i = 0; i < DENSE; i++)
                job_drop(jobs[i]);
}

/* Some of everything, and one job that was deleted. */
static void fill(struct box *box)
{
        box_init(box);
        store_dense(box);
        for (uint64_t i = 0; i < SCATTERS; i++) {
                struct job *job = job_plain(scattered(i));
                box_store(box, &job, 1);
                job_drop(job);
        }
        delete_one(box, 7);
        for (uint64_t i = 1; i <= 1200; i++) {
                const struct archive_incident incident = {.number = i,
                                                          .at_ms = BOX_NOW + (int64_t)i,
                                                          .event = SLICE_LIT("event"),
                                                          .message = SLICE_LIT("message")};
                const struct audit_entry entry = {.number = i,
                                                  .at_ms = BOX_NOW,
                                                  .times = i,
                                                  .who = SLICE_LIT("ops"),
                                                  .what = SLICE_LIT("mail")};
                box->archive->ops->note(box->archive, &incident);
                box->archive->ops->audit(box->archive, &entry);
        }
        box_close(box);
        assert_sql(box, "SELECT count(*) > 0 FROM job", "1");
        assert_sql(box, "SELECT count(*) > 0 FROM block", "1");
}

static int push(struct memory_mirror *mirror, const struct box *box, uint64_t *ret_jobs,
                struct problem *p)
{
        struct mirror_move m = {.mirror = &mirror->base, .path = box->path};
        int err = mirror_push(&m, p);
        *ret_jobs = m.jobs;
        return err;
}

/* The file has what fill() made, and belongs to nobody else. */
static void assert_whole(struct box *box)
{
        assert_sql(box, "SELECT count(*) FROM incident", "1200");
        assert_sql(box, "SELECT sum(times) FROM audit", "720600");
        assert_sql(box, "SELECT count(*) FROM sqlite_schema WHERE name = 'mirror'", "0");
        box_open(box);
        assert_int_equal(box_stat(box).rows, DENSE + SCATTERS - 1);
        assert_false(box_has(box, 7));
        for (uint64_t i = 0; i < SCATTERS; i++) {
                struct job *job = job_plain(scattered(i));
                assert_found(box, &job->view);
                job_drop(job);
        }
        struct job *job = job_plain(8);
        assert_found(box, &job->view);
        job_drop(job);
        box_close(box);
}

static void pull(struct memory_mirror *mirror, struct box *ret)
{
        struct problem p;
        box_init_folder(ret);
        struct mirror_move m = {.mirror = &mirror->base, .path = ret->path};
        assert_int_equal(mirror_pull(&m, true, &p), OK);
        assert_int_equal(m.jobs, DENSE + SCATTERS - 1);
}

static void what_is_pushed_is_pulled(void **state)
{
        struct memory_mirror_store s;
        struct memory_mirror mirror;
        struct box from, to;
        struct problem p;
        uint64_t jobs;
        (void)state;
        memory_mirror_store_init(&s, 1);
        memory_mirror_init(&mirror, &s);
        memory_mirror_lead(&mirror);
        fill(&from);
        assert_int_equal(push(&mirror, &from, &jobs, &p), OK);
        assert_int_equal(jobs, DENSE + SCATTERS - 1);
        assert_whole(&from); /* it is as it was */
        pull(&mirror, &to);
        assert_whole(&to);
        box_release(&from);
        box_release(&to);
        memory_mirror_release(&mirror);
        memory_mirror_store_release(&s);
}

static void who_does_not_lead_pushes_nothing(void **state)
{
        struct memory_mirror_store s;
        struct memory_mirror mirror;
        struct box from;
        struct problem p;
        uint64_t jobs;
        (void)state;
        memory_mirror_store_init(&s, 1);
        memory_mirror_init(&mirror, &s);
        fill(&from);
        assert_int_equal(push(&mirror, &from, &jobs, &p), ERR_STATE);
        assert_int_equal(s.n_rows, 0);
        box_release(&from);
        memory_mirror_release(&mirror);
        memory_mirror_store_release(&s);
}

static size_t n_of(const struct memory_mirror_store *s, bool is_lead)
{
        size_t n = 0;
        for (size_t i = 0; i < s->n_rows; i++)
                n += (s->rows[i].kind == MIRROR_LEAD) == is_lead;
        return n;
}

static void after_commits(void *ctx)
{
        int *left = ctx;
        --*left;
}

/* Whatever a push has left, clearing and pushing again is the same as the first time. */
static void a_push_that_failed_is_done_again(void **state)
{
        struct memory_mirror_store s;
        struct memory_mirror mirror;
        struct box from, to;
        struct problem p;
        uint64_t jobs;
        (void)state;
        memory_mirror_store_init(&s, 1);
        memory_mirror_init(&mirror, &s);
        memory_mirror_lead(&mirror);
        fill(&from);
        int n_commits = 0;
        memory_mirror_set_on_commit(&mirror, after_commits, &n_commits);
        memory_mirror_set_faults(&mirror, 0, 40);
        assert_int_not_equal(push(&mirror, &from, &jobs, &p), OK);
        memory_mirror_set_faults(&mirror, 0, 0);
        assert_true(n_commits < 0);
        struct mirror_move m = {.mirror = &mirror.base};
        assert_int_equal(mirror_clear(&m, &p), OK);
        assert_int_equal(n_of(&s, false), 0);
        assert_int_equal(n_of(&s, true), 2); /* it has fenced others off */
        assert_int_equal(push(&mirror, &from, &jobs, &p), OK);
        pull(&mirror, &to);
        assert_whole(&to);
        box_release(&from);
        box_release(&to);
        memory_mirror_release(&mirror);
        memory_mirror_store_release(&s);
}

/* Of all that is moved nothing may be missing; a copy is better than none. */
static void a_damaged_block_of_the_mirror_is_told(void **state)
{
        struct memory_mirror_store s;
        struct memory_mirror mirror;
        struct box from, to, copy;
        struct problem p;
        uint64_t jobs;
        (void)state;
        say_setup(SAY_NOTHING, false);
        memory_mirror_store_init(&s, 1);
        memory_mirror_init(&mirror, &s);
        memory_mirror_lead(&mirror);
        fill(&from);
        assert_int_equal(push(&mirror, &from, &jobs, &p), OK);
        size_t i = 0;
        while (s.rows[i].kind != MIRROR_BLOCK)
                i++;
        s.rows[i].body.ptr[s.rows[i].body.len / 2] ^= 1;
        box_init_folder(&to);
        box_init_folder(&copy);
        struct mirror_move m = {.mirror = &mirror.base, .path = to.path};
        assert_int_equal(mirror_pull(&m, true, &p), ERR_CORRUPT);
        has(p.detail, "1 damaged block in the cluster's history");
        m = (struct mirror_move){.mirror = &mirror.base, .path = copy.path};
        assert_int_equal(mirror_pull(&m, false, &p), OK);
        assert_true(m.jobs > 0 && m.jobs < jobs);
        box_release(&from);
        box_release(&to);
        box_release(&copy);
        memory_mirror_release(&mirror);
        memory_mirror_store_release(&s);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(what_is_pushed_is_pulled),
                cmocka_unit_test(who_does_not_lead_pushes_nothing),
                cmocka_unit_test(a_push_that_failed_is_done_again),
                cmocka_unit_test(a_damaged_block_of_the_mirror_is_told),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
