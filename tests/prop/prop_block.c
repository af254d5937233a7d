/* Blocks against the jobs they were made of: random jobs with random fields, names that are shared
 * or not, texts of any bytes, plain events and others; all fields of all jobs come back, and the
 * mark knows of all names. */
#include "../unit/check.h"

#include "../unit/block_box.h"
#include "dice.h"
#include "history/block_mark.h"

/* How one field differs from job to job. */
enum spread { SAME, FEW, SMALL, ANY, SPREADS };

struct world {
        struct rng dice;
        enum spread spreads[16];
        size_t n_names; /* to choose from */
};

/* The next field of the job; a field has one spread in all jobs of a block. */
static uint64_t any_number(struct world *w, size_t field, uint64_t usual)
{
        switch (w->spreads[field]) {
        case FEW:
                return rng_below(&w->dice, 10) ? usual : rng_u64(&w->dice);
        case SMALL:
                return usual + rng_below(&w->dice, 256);
        case ANY:
                return rng_u64(&w->dice) >> rng_below(&w->dice, 64);
        case SAME:
        case SPREADS:
                break;
        }
        return usual;
}

static struct slice any_text(struct world *w, struct job *job, size_t most)
{
        char bytes[3000];
        if (rng_below(&w->dice, 2))
                return SLICE_NONE;
        size_t n = rng_below(&w->dice, rng_below(&w->dice, 20) ? most / 10 : most);
        rng_fill(&w->dice, bytes, n);
        if (rng_below(&w->dice, 4))
                for (size_t i = 0; i < n; i++)
                        bytes[i] = (char)('a' + (unsigned char)bytes[i] % 26);
        return job_keep(job, slice_make(bytes, n));
}

static struct slice any_name(struct world *w, struct job *job)
{
        char name[300];
        uint64_t which = rng_below(&w->dice, w->n_names);
        if (which == 0)
                return SLICE_NONE;
        size_t n = 1 + which * 7 % 254;
        memset(name, (int)(which % 256), sizeof(name));
        (void)snprintf(name, sizeof(name), "%llu", (unsigned long long)which);
        return job_keep(job, slice_make(name, n));
}

static void tell_anything(struct world *w, struct job *job)
{
        for (uint64_t n = rng_below(&w->dice, 5); n > 0; n--) {
                enum event_type type = (enum event_type)rng_below(&w->dice, EVENT_COUNT);
                job_tell_event(job, type, (int64_t)rng_u64(&w->dice), SLICE_LIT("w\xff"),
                               SLICE_LIT("message"));
        }
}

static struct job *any_job(struct world *w, uint64_t id)
{
        struct job *job = job_make(id, 20000);
        struct job_view *v = &job->view;
        v->status = (enum job_status)(JOB_COMPLETE + any_number(w, 0, 0) % 3);
        v->priority = (uint8_t)any_number(w, 1, 100);
        v->attempt = (uint16_t)any_number(w, 2, 1);
        v->attempts_max = (uint16_t)any_number(w, 3, 3);
        v->timeout_ms = (uint32_t)any_number(w, 4, 0);
        v->created_ms = (int64_t)any_number(w, 5, BOX_NOW);
        v->due_ms = (int64_t)any_number(w, 6, (uint64_t)v->created_ms);
        v->started_ms = (int64_t)any_number(w, 7, BOX_NOW + 100);
        if (rng_below(&w->dice, 10) == 0)
                v->started_ms = 0;
        v->finished_ms = (int64_t)any_number(w, 8, BOX_NOW + 200);
        v->fence = any_number(w, 9, id);
        v->hook = any_name(w, job);
        v->queue = any_name(w, job);
        v->group = any_name(w, job);
        v->worker = any_name(w, job);
        v->args = any_text(w, job, 3000);
        v->result = any_text(w, job, 1000);
        v->error = any_text(w, job, 500);
        v->progress = any_text(w, job, 100);
        v->options = any_text(w, job, 100);
        if (rng_below(&w->dice, 4))
                job_tell_plainly(job);
        else
                tell_anything(w, job);
        return job;
}

static void check_mark(struct slice bytes, struct job *const *jobs, size_t n)
{
        struct block b;
        struct block_mark m;
        assert_int_equal(block_open(&b, bytes), OK);
        block_mark_make(&m, &b, FAMILY_DONE);
        for (size_t i = 0; i < n; i++) {
                const struct job_view *v = &jobs[i]->view;
                assert_true(block_mark_has(&m, span_mark_hash(MARK_HOOK, v->hook)));
                assert_true(block_mark_has(&m, span_mark_hash(MARK_QUEUE, v->queue)));
                assert_true(block_mark_has(&m, span_mark_hash(MARK_GROUP, v->group)));
                assert_true(block_mark_has(&m, span_mark_hash(MARK_WORKER, v->worker)));
                assert_in_range(v->id, m.first_id, m.last_id);
                assert_true(v->created_ms >= m.created_first && v->created_ms <= m.created_last);
                assert_true(v->finished_ms >= m.finished_first &&
                            v->finished_ms <= m.finished_last);
        }
        block_mark_release(&m);
        block_release(&b);
}

static void random_jobs_come_back(void **state)
{
        struct world w;
        (void)state;
        dice_init(&w.dice, "prop_block");
        for (uint64_t round = dice_rounds(120); round > 0; round--) {
                struct job *jobs[BLOCK_JOBS];
                uint64_t runs[BLOCK_JOBS];
                size_t n = 1 + rng_below(&w.dice, rng_below(&w.dice, 4) ? 20 : BLOCK_JOBS);
                uint64_t id = rng_u64(&w.dice) >> (1 + rng_below(&w.dice, 60));
                for (size_t i = 0; i < ARRAY_LEN(w.spreads); i++)
                        w.spreads[i] = (enum spread)rng_below(&w.dice, SPREADS);
                w.n_names = 1 + rng_below(&w.dice, rng_below(&w.dice, 2) ? 5 : 3000);
                uint64_t stride = 1 + (rng_below(&w.dice, 2) ? rng_below(&w.dice, 1000) : 0);
                for (size_t i = 0; i < n; i++) {
                        id += 1 + rng_below(&w.dice, stride);
                        jobs[i] = any_job(&w, id);
                        runs[i] = any_number(&w, 10, 0);
                }
                struct slice bytes = block_of(jobs, runs, n);
                assert_holds(bytes, jobs, runs, n);
                check_mark(bytes, jobs, n);
                block_drop(bytes);
                jobs_drop(jobs, n);
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(random_jobs_come_back),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
