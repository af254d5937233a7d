/* The archive against an array: random jobs in any order, handed over once or twice, replaced by
 * later runs, robbed of their results and deleted when their time has come, over restarts; any
 * listing with any filter, page by page, is what the array says.
 *
 * weir-test: tsan */
#include "../unit/check.h"

#include "../unit/history_box.h"
#include "dice.h"
#include "history/block_mark.h"

#define IDS         12000            /* three spans */
#define BEYOND      (3 * WINDOW_IDS) /* a job that stays, so that theirs is not the newest window */
#define KEEP_DONE   40000
#define KEEP_FAILED 90000
#define CREATED_MS  50000 /* jobs were created within so long a time */

struct world {
        struct rng dice;
        struct box box;
        struct job *jobs[IDS + 1]; /* the model: by id; NULL when not in the archive */
        size_t n_jobs;             /* with the one beyond */
        uint64_t n_hooks;
};

static struct slice any_of(struct world *w, const char *const *texts, size_t n)
{
        return slice_str(texts[rng_below(&w->dice, n)]);
}
#define ANY(w, texts) any_of(w, texts, ARRAY_LEN(texts))

static const uint64_t numbers_of_hooks[] = {1, 4, 500, 100000};
static const char *const hooks[] = {"mail.send", "image.resize", "report", "mail.sen"};
static const char *const queues[] = {"default", "slow", "night"};
static const char *const groups[] = {"", "", "tenant-1", "tenant-2"};
static const char *const workers[] = {"w1", "w2", "w3", ""};
static const char *const texts[] = {"",         "",    "{\"ok\":true}", "timeout after 30 s",
                                    "\xff\xfe", "mail"};
static const char *const words[] = {"mail", "ok", "30", "\xfe", "zebra", "e"};

/* Up to HOOK_BYTES: one of the hooks of this world. */
#define HOOK_BYTES 32
static struct slice any_hook(struct world *w, char *ret)
{
        uint64_t which = rng_below(&w->dice, w->n_hooks);
        if (which < ARRAY_LEN(hooks))
                return slice_str(hooks[which]);
        (void)snprintf(ret, HOOK_BYTES, "mail.%llu", (unsigned long long)which);
        return slice_str(ret);
}

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
        char hook[HOOK_BYTES];
        v->hook = job_keep(job, any_hook(w, hook));
        v->queue = ANY(w, queues);
        v->group = ANY(w, groups);
        v->worker = ANY(w, workers);
        v->created_ms -= (int64_t)rng_below(&w->dice, CREATED_MS);
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

/* Some new jobs, and some that are there already: they change only for a later run.  The core hands
 * over again only what an earlier life of the archive may have got. */
static void store_some(struct world *w)
{
        struct job *batch[600];
        struct job *doubles[600];
        size_t n = 0;
        size_t n_doubles = 0;
        uint64_t start = 1 + rng_below(&w->dice, IDS);
        uint64_t stride = 1 + rng_below(&w->dice, 40);
        uint64_t wanted = rng_below(&w->dice, ARRAY_LEN(batch));
        for (uint64_t i = 0; i < wanted; i++) {
                uint64_t id = 1 + (start + i * stride) % IDS;
                struct job *job = any_job(w, id), *old = w->jobs[id];
                bool is_double = old && options_of(old).run >= options_of(job).run;
                if (is_double && id > w->box.archive->last_id) {
                        job_drop(job);
                        continue;
                }
                batch[n] = job;
                if (old && options_of(old).run == options_of(job).run) {
                        /* What comes twice had one end only. */
                        job->view.options = old->view.options;
                        job->view.finished_ms = old->view.finished_ms;
                }
                n++;
                if (is_double) {
                        doubles[n_doubles++] = job;
                        continue;
                }
                w->jobs[id] = job;
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
               (!f->worker.len || slice_eq(f->worker, v->worker)) &&
               (!f->since_ms || v->created_ms >= f->since_ms) &&
               (!f->until_ms || v->created_ms < f->until_ms) &&
               (!f->ended_since_ms || v->finished_ms >= f->ended_since_ms) &&
               (!f->match.len || slice_contains(v->hook, f->match) ||
                slice_contains(v->args, f->match) || slice_contains(v->error, f->match) ||
                slice_contains(v->result, f->match));
}

/* `hook` holds the name until the listing is over. */
static struct job_filter any_filter(struct world *w, char *hook)
{
        struct job_filter f = {.status = (int)rng_below(&w->dice, 8) - 3};
        if (f.status < 0)
                f.status = -1;
        if (rng_below(&w->dice, 3) == 0)
                f.hook = any_hook(w, hook);
        if (rng_below(&w->dice, 3) == 0)
                f.queue = ANY(w, queues);
        if (rng_below(&w->dice, 3) == 0)
                f.group = ANY(w, groups);
        if (rng_below(&w->dice, 3) == 0)
                f.match = ANY(w, words);
        if (rng_below(&w->dice, 4) == 0)
                f.worker = ANY(w, workers);
        if (rng_below(&w->dice, 5) == 0)
                f.since_ms = BOX_NOW - (int64_t)rng_below(&w->dice, CREATED_MS);
        if (rng_below(&w->dice, 5) == 0)
                f.until_ms = BOX_NOW - (int64_t)rng_below(&w->dice, CREATED_MS);
        if (rng_below(&w->dice, 5) == 0)
                f.ended_since_ms =
                        atomic_load(&w->box.wall_ms) + (int64_t)rng_below(&w->dice, 60000);
        return f;
}

/* Any listing: its filter, its order, where it begins and ends, and how many rows make a page. */
static struct archive_query any_query(struct world *w, char *hook)
{
        struct archive_query q = {
                .limit = 1 + rng_below(&w->dice, 1000),
                .is_oldest = rng_below(&w->dice, 3) == 0,
                .is_brief = rng_below(&w->dice, 4) == 0,
                .filter = any_filter(w, hook),
        };
        if (rng_below(&w->dice, 3) == 0)
                q.after_id = rng_below(&w->dice, IDS);
        q.before_id = 1 + (rng_below(&w->dice, 3) ? IDS : rng_below(&w->dice, IDS));
        return q;
}

/* The next id that the listing must have after `at`, in its order; 0: none. */
static uint64_t next_match(const struct world *w, const struct archive_query *q, uint64_t at)
{
        do
                at = q->is_oldest ? at + 1 : at - 1;
        while (at > q->after_id && at < q->before_id && at <= IDS &&
               !(w->jobs[at] && model_matches(&q->filter, &w->jobs[at]->view)));
        return at > q->after_id && at < q->before_id && at <= IDS ? at : 0;
}

static void assert_row(const struct archive_query *q, size_t i, const struct job *want)
{
        if (!q->is_brief) {
                assert_same_view(&q->rows[i], &want->view);
                return;
        }
        assert_int_equal(q->refs[i].id, want->view.id);
        assert_int_equal(q->refs[i].run, options_of(want).run);
        assert_int_equal(q->refs[i].finished_ms, want->view.finished_ms);
}

/* The listing to its end, in pages, next to a walk over the array. */
static void list_all(struct world *w)
{
        char hook[HOOK_BYTES];
        const struct archive_query asked = any_query(w, hook);
        uint64_t at = next_match(w, &asked, asked.is_oldest ? asked.after_id : asked.before_id);
        struct archive_query q = asked;
        uint64_t *cursor = q.is_oldest ? &q.after_id : &q.before_id;
        for (bool is_more = true; is_more;) {
                box_ask(&w->box, &q);
                for (size_t i = 0; i < q.n_rows; i++) {
                        assert_true(at > 0);
                        assert_row(&q, i, w->jobs[at]);
                        *cursor = at;
                        at = next_match(w, &asked, at);
                }
                is_more = q.is_cut || q.n_rows == q.limit;
                if (q.is_cut)
                        *cursor = q.last_id;
                arena_release(&q.arena);
                q.arena = (struct arena){0};
        }
        assert_int_equal(at, 0);
}

/* Some ids, of jobs that are there and of others, in any order. */
static void find_named(struct world *w)
{
        uint64_t ids[40];
        for (size_t i = 0; i < ARRAY_LEN(ids); i++)
                ids[i] = 1 + rng_below(&w->dice, IDS + IDS / 10);
        struct archive_query q = {.ids = ids,
                                  .n_ids = ARRAY_LEN(ids),
                                  .limit = ARRAY_LEN(ids),
                                  .is_brief = rng_below(&w->dice, 2),
                                  .filter = {.status = -1}};
        while (q.n_ids) {
                size_t n = 0;
                box_ask(&w->box, &q);
                assert_true(q.is_cut ? q.n_seen > 0 : q.n_seen == q.n_ids);
                for (size_t i = 0; i < q.n_seen; i++) {
                        struct job *job = q.ids[i] <= IDS ? w->jobs[q.ids[i]] : NULL;
                        if (!job)
                                continue;
                        assert_true(n < q.n_rows);
                        assert_row(&q, n++, job);
                }
                assert_int_equal(n, q.n_rows);
                q.ids += q.n_seen;
                q.n_ids -= q.n_seen;
                arena_release(&q.arena);
                q.arena = (struct arena){0};
        }
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
        case 9:
                find_named(w);
                break;
        default:
                list_all(w);
        }
}

static void store_beyond(struct world *w)
{
        struct job *job = job_plain(BEYOND);
        job->view.finished_ms = INT64_MAX / 2;
        box_store(&w->box, &job, 1);
        job_drop(job);
        w->n_jobs++;
}

static void any_listing_is_what_the_array_says(void **state)
{
        static struct world w;
        (void)state;
        dice_init(&w.dice, "history");
        w.n_hooks = numbers_of_hooks[rng_below(&w.dice, ARRAY_LEN(numbers_of_hooks))];
        box_init_folder(&w.box);
        w.box.keep_done_ms = KEEP_DONE;
        w.box.keep_failed_ms = KEEP_FAILED;
        w.box.pack_every_ms = 1; /* at any moment */
        box_open(&w.box);
        store_beyond(&w);
        for (uint64_t n = dice_rounds(60); n > 0; n--)
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
