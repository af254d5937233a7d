/* The archive against an array: random jobs in any order, handed over once or twice, replaced by
 * later runs, robbed of their results and deleted when their time has come, over restarts; any
 * listing with any filter, page by page, is what the array says.
 *
 * weir-test: tsan */
#include "../unit/check.h"

#include "../unit/history_box.h"
#include "dice.h"

#define IDS         12000 /* three spans */
#define KEEP_DONE   40000
#define KEEP_FAILED 90000

struct world {
        struct rng dice;
        struct box box;
        struct job *jobs[IDS + 1]; /* the model: by id; NULL when not in the archive */
        size_t n_jobs;
};

static struct slice any_of(struct world *w, const char *const *texts, size_t n)
{
        return slice_str(texts[rng_below(&w->dice, n)]);
}
#define ANY(w, texts) any_of(w, texts, ARRAY_LEN(texts))

static const char *const hooks[] = {"mail.send", "image.resize", "report", "mail.sen"};
static const char *const queues[] = {"default", "slow", "night"};
static const char *const groups[] = {"", "", "tenant-1", "tenant-2"};
static const char *const texts[] = {"",         "",    "{\"ok\":true}", "timeout after 30 s",
                                    "\xff\xfe", "mail"};
static const char *const words[] = {"mail", "ok", "30", "\xfe", "zebra", "e"};

/* Any bytes, mostly few and mostly text. */
static struct slice any_bytes(struct world *w, struct job *job)
{
        char bytes[400];
        size_t n = rng_below(&w->dice, 20) ? rng_below(&w->dice, 40) : sizeof(bytes);
        rng_fill(&w->dice, bytes, n);
        if (rng_below(&w->dice, 4))
                for (size_t i = 0; i < n; i++)
                        bytes[i] = (char)('a' + (unsigned char)bytes[i] % 26);
        return job_keep(job, slice_make(bytes, n));
}

static void tell_anything(struct world *w, struct job *job)
{
        for (uint64_t n = rng_below(&w->dice, 5); n > 0; n--) {
                enum event_type type = (enum event_type)rng_below(&w->dice, EVENT_COUNT);
                int64_t at = BOX_NOW + (int64_t)rng_below(&w->dice, 5000) - 1000;
                job_tell_event(job, type, at, ANY(w, texts), ANY(w, texts));
        }
}

static struct job *any_job(struct world *w, uint64_t id)
{
        struct job *job = job_make(id, 2048);
        struct job_view *v = &job->view;
        v->status = (enum job_status)(JOB_COMPLETE + rng_below(&w->dice, 3));
        v->hook = ANY(w, hooks);
        v->queue = ANY(w, queues);
        v->group = ANY(w, groups);
        v->args = any_bytes(w, job);
        v->result = ANY(w, texts);
        v->error = ANY(w, texts);
        v->progress = ANY(w, texts);
        v->priority = (uint8_t)rng_below(&w->dice, 256);
        v->attempt = (uint16_t)rng_below(&w->dice, 1001);
        /* Not past its time already: the archive would be free to delete it at any moment. */
        v->finished_ms = atomic_load(&w->box.wall_ms) + (int64_t)rng_below(&w->dice, 60000);
        if (rng_below(&w->dice, 8) == 0)
                v->started_ms = 0;
        if (rng_below(&w->dice, 2)) {
                struct job_options options = {
                        .run = rng_below(&w->dice, 3),
                        .result_ms = rng_below(&w->dice, 2) * (1 + rng_below(&w->dice, 50000)),
                        .key = ANY(w, hooks),
                };
                job_set_packed(job, &options);
        }
        if (rng_below(&w->dice, 2))
                job_tell_plainly(job);
        else
                tell_anything(w, job);
        return job;
}

static struct job_options options_of(const struct job *job)
{
        struct job_options o;
        assert_true(options_unpack(job->view.options, &o));
        return o;
}

/* Some new jobs, and some that are there already: they change only for a later run. */
static void store_some(struct world *w)
{
        struct job *batch[600];
        struct job *doubles[600];
        size_t n = 0;
        size_t n_doubles = 0;
        uint64_t start = 1 + rng_below(&w->dice, IDS);
        uint64_t stride = 1 + rng_below(&w->dice, 40);
        for (uint64_t wanted = rng_below(&w->dice, ARRAY_LEN(batch)); n < wanted; n++) {
                uint64_t id = 1 + (start + n * stride) % IDS;
                batch[n] = any_job(w, id);
                struct job *old = w->jobs[id];
                if (old && options_of(old).run == options_of(batch[n]).run) {
                        /* What comes twice had one end only. */
                        batch[n]->view.options = old->view.options;
                        batch[n]->view.finished_ms = old->view.finished_ms;
                }
                if (old && options_of(old).run >= options_of(batch[n]).run) {
                        doubles[n_doubles++] = batch[n];
                        continue;
                }
                w->jobs[id] = batch[n];
                w->n_jobs += old == NULL;
                if (old)
                        doubles[n_doubles++] = old;
        }
        box_store(&w->box, batch, n);
        for (size_t i = 0; i < n; i++)
                assert_int_equal(batch[i]->reported, 1);
        jobs_drop(doubles, n_doubles);
}

static void move_time(struct world *w)
{
        int64_t now = atomic_load(&w->box.wall_ms) + (int64_t)rng_below(&w->dice, 30000);
        atomic_store(&w->box.wall_ms, now);
        history_sweep(w->box.archive);
        for (size_t id = 1; id <= IDS; id++) {
                struct job *job = w->jobs[id];
                if (!job)
                        continue;
                int64_t keep_ms = job->view.status == JOB_FAILED ? KEEP_FAILED : KEEP_DONE;
                int64_t result_ms = (int64_t)options_of(job).result_ms;
                if (result_ms && job->view.finished_ms + result_ms <= now)
                        job->view.result = SLICE_NONE;
                if (job->view.finished_ms + keep_ms > now)
                        continue;
                job_drop(job);
                w->jobs[id] = NULL;
                w->n_jobs--;
        }
        assert_int_equal(box_stat(&w->box).rows, w->n_jobs);
}

static bool model_matches(const struct job_filter *f, const struct job_view *v)
{
        return (f->status < 0 || (int)v->status == f->status) &&
               (!f->hook.len || slice_eq(f->hook, v->hook)) &&
               (!f->queue.len || slice_eq(f->queue, v->queue)) &&
               (!f->group.len || slice_eq(f->group, v->group)) &&
               (!f->match.len || slice_contains(v->hook, f->match) ||
                slice_contains(v->args, f->match) || slice_contains(v->error, f->match) ||
                slice_contains(v->result, f->match));
}

static struct job_filter any_filter(struct world *w)
{
        struct job_filter f = {.status = (int)rng_below(&w->dice, 8) - 3};
        if (f.status < 0)
                f.status = -1;
        if (rng_below(&w->dice, 3) == 0)
                f.hook = ANY(w, hooks);
        if (rng_below(&w->dice, 3) == 0)
                f.queue = ANY(w, queues);
        if (rng_below(&w->dice, 3) == 0)
                f.group = ANY(w, groups);
        if (rng_below(&w->dice, 3) == 0)
                f.match = ANY(w, words);
        return f;
}

/* The listing from `before` to the end, in pages, next to a walk down the array. */
static void list_all(struct world *w)
{
        struct job_filter filter = any_filter(w);
        size_t limit = 1 + rng_below(&w->dice, 1000);
        uint64_t before = rng_below(&w->dice, 3) ? UINT64_MAX : 1 + rng_below(&w->dice, IDS);
        uint64_t at = before > IDS ? IDS : before - 1;
        bool is_more = true;
        while (is_more) {
                struct archive_query q = {.before_id = before, .limit = limit, .filter = filter};
                box_ask(&w->box, &q);
                for (size_t i = 0; i < q.n_rows; i++) {
                        while (at && !(w->jobs[at] && model_matches(&filter, &w->jobs[at]->view)))
                                at--;
                        assert_true(at > 0);
                        assert_same_view(&q.rows[i], &w->jobs[at]->view);
                        before = at--;
                }
                is_more = q.is_cut || q.n_rows == limit;
                if (q.is_cut)
                        before = q.last_id;
                arena_release(&q.arena);
        }
        for (; at; at--)
                assert_false(w->jobs[at] && model_matches(&filter, &w->jobs[at]->view));
}

static void step(struct world *w)
{
        uint64_t id = 1 + rng_below(&w->dice, IDS);
        switch (rng_below(&w->dice, 16)) {
        case 0:
                box_close(&w->box);
                box_open(&w->box);
                assert_int_equal(box_stat(&w->box).rows, w->n_jobs);
                break;
        case 1:
                move_time(w);
                break;
        case 2:
        case 3:
        case 4:
        case 5:
        case 6:
                store_some(w);
                break;
        case 7:
        case 8:
                if (w->jobs[id])
                        assert_found(&w->box, &w->jobs[id]->view);
                else
                        assert_false(box_has(&w->box, id));
                break;
        default:
                list_all(w);
        }
}

static void any_listing_is_what_the_array_says(void **state)
{
        static struct world w;
        (void)state;
        dice_init(&w.dice, "history");
        box_init_folder(&w.box);
        w.box.keep_done_ms = KEEP_DONE;
        w.box.keep_failed_ms = KEEP_FAILED;
        box_open(&w.box);
        for (uint64_t n = dice_rounds(400); n > 0; n--)
                step(&w);
        box_release(&w.box);
        for (size_t id = 1; id <= IDS; id++)
                if (w.jobs[id])
                        job_drop(w.jobs[id]);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(any_listing_is_what_the_array_says),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
