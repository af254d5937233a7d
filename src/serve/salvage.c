/* Salvage in two steps.
 *
 * First every sound record is copied (file_log_salvage) into a folder `raw` beside the new log.
 * Such a copy may have holes: a lost record leaves later ones that change what is not there, and
 * a start rightly refuses that.  So in the second step the copy is replayed, what cannot be true
 * any more is told and left behind, and the state that results is written as a fresh log: one
 * full record for everything that lives.
 *
 * Ids and fences go on well above what was seen, since higher ones may have been given out in
 * what is lost: a fence that repeats would let a stale holder through. */
#include "serve/salvage.h"

#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/shown.h"
#include "log/record.h"
#include "state/batch.h"
#include "state/state.h"

#define NUMBERS_LEFT_FREE 1000000
#define BATCH_BYTES       (1 * MIB)

struct refuge {
        struct state state;
        file_log_bad_fn left_behind;
        void *ctx;
        struct file_log_report *report;
        struct problem *problem;
};

static int replay_batch(void *ctx, uint64_t seq, struct slice batch)
{
        struct refuge *f = ctx;
        struct record record;
        struct effect effect;
        struct problem why = {0};
        char place[40];
        (void)snprintf(place, sizeof(place), "batch %llu", (unsigned long long)seq);
        while (record_next(&batch, &record) == OK) {
                if (effect_read(&record, &effect, &why) == OK &&
                    state_apply(&f->state, &effect, seq, &why) == OK)
                        continue;
                f->left_behind(f->ctx, place, 0, why.detail);
                f->report->bad_places++;
        }
        return OK;
}

/* Changes of jobs that the copy does not hold. */
static void tell_lost_jobs(struct refuge *f)
{
        uint64_t id = 0;
        for (; idmap_next(&f->state.skipped, id, &id); id++) {
                char why[80];
                (void)snprintf(why, sizeof(why),
                               "job %llu is lost: it is changed here but not held",
                               (unsigned long long)id);
                f->left_behind(f->ctx, "log", 0, why);
                f->report->bad_places++;
        }
}

/* The end of a job is counted by its batch: when only one of the two came over, the other is wrong,
 * and the next end would not fit. */
static void count_batches(struct refuge *f)
{
        for (struct hash_node *n = NULL; (n = hash_next(&f->state.things[THING_BATCH], n));) {
                struct thing *t = CONTAINER_OF(n, struct thing, node);
                struct batch *b = batch_of(t);
                char place[160], why[120];
                uint64_t left = batch_left(b);
                if (!thing_is_durable(t) || !batch_recount(&f->state, b))
                        continue;
                bool are_lost = left > b->n_left;
                uint64_t differ = are_lost ? left - b->n_left : b->n_left - left;
                (void)snprintf(place, sizeof(place), "job batch '%s'", SHOWN(thing_name(t)));
                (void)snprintf(why, sizeof(why),
                               are_lost ? "jobs that are lost, now counted as failed: %llu"
                                        : "jobs counted as ended that are to run again: %llu",
                               (unsigned long long)differ);
                f->left_behind(f->ctx, place, 0, why);
                f->report->bad_places++;
        }
}

/* ---- the new log ---- */

struct writing {
        struct log *log;
        struct buf batch;
        uint64_t seq;
        struct problem *problem;
        bool has_failed;
};

static void on_durable(void *ctx, uint64_t seq)
{
        (void)ctx;
        (void)seq; /* append returns only after this */
}

static void on_failed(void *ctx, const struct problem *problem)
{
        struct writing *w = ctx;
        w->has_failed = true;
        *w->problem = *problem;
}

static void flush(struct writing *w)
{
        if (w->has_failed || w->batch.len == 0)
                return;
        (void)w->log->ops->append(w->log, ++w->seq, buf_slice(&w->batch)); /* on_failed tells */
        buf_clear(&w->batch);
}

static void put(struct writing *w, const struct effect *e)
{
        effect_write(&w->batch, e);
        if (w->batch.len > BATCH_BYTES)
                flush(w);
}

static void put_things(struct writing *w, const struct state *s)
{
        struct buf body;
        struct effect e;
        buf_init(&body, 0);
        for (size_t kind = 0; kind < THING_KINDS; kind++) {
                for (struct hash_node *n = NULL; (n = hash_next(&s->things[kind], n));) {
                        const struct thing *t = CONTAINER_OF(n, const struct thing, node);
                        if (!thing_is_durable(t))
                                continue;
                        effect_of_thing(s, t, &body, &e);
                        put(w, &e);
                }
        }
        buf_release(&body);
}

static void put_state(struct writing *w, const struct state *s)
{
        struct effect e = {.type = EFFECT_CLOCK, .steady_ns = s->steady_ns, .wall_ms = s->wall_ms};
        put(w, &e);
        e = (struct effect){.type = EFFECT_META_FULL,
                            .next_id = s->next_id + NUMBERS_LEFT_FREE,
                            .fence = s->fence + NUMBERS_LEFT_FREE,
                            .next_queue_id = s->next_queue_id + NUMBERS_LEFT_FREE};
        put(w, &e);
        for (struct hash_node *n = NULL; (n = hash_next(&s->queues, n));) {
                effect_of_queue(CONTAINER_OF(n, struct queue, node), &e);
                put(w, &e);
        }
        uint64_t id = 0;
        for (const struct job *job; (job = idmap_next(&s->jobs, id, &id)); id++) {
                effect_of_job(job, &e);
                put(w, &e);
        }
        put_things(w, s);
        flush(w);
}

static int write_log(const char *path, const struct state *s, struct problem *problem)
{
        struct disk *disk;
        struct log_tail tail;
        struct writing w = {.problem = problem};
        struct file_log_options options = {.is_threaded = false};
        int r = disk_open_folder(path, &disk, problem);
        if (r == OK)
                r = file_log_open(&disk, &options, &w.log, problem);
        if (r != OK)
                return r;
        w.log->durable = on_durable;
        w.log->failed = on_failed;
        w.log->ctx = &w;
        buf_init(&w.batch, 0);
        r = w.log->ops->lead(w.log, &tail, problem);
        if (r == OK)
                put_state(&w, s);
        w.log = w.log->ops->close(w.log);
        buf_release(&w.batch);
        return w.has_failed ? problem->err : r;
}

/* ---- both steps ---- */

static int remove_name(void *ctx, const char *name)
{
        struct disk *disk = ctx;
        struct problem ignored;
        (void)disk->ops->remove(disk, name, &ignored); /* what is left over is only in the way */
        return OK;
}

static void remove_raw(struct disk *raw, const char *path)
{
        struct problem ignored;
        char lock[4096];
        (void)raw->ops->list(raw, remove_name, raw, &ignored);
        if (snprintf(lock, sizeof(lock), "%s/lock", path) < (int)sizeof(lock))
                (void)unlink(lock); /* may not be there */
        (void)rmdir(path);          /* likewise only in the way */
}

static int refill(struct disk *raw, const char *log_path, struct refuge *f)
{
        f->state.is_replaying = true;
        int r = file_log_walk(raw, replay_batch, f, f->problem);
        if (r != OK)
                return r;
        tell_lost_jobs(f);
        count_batches(f);
        f->state.is_replaying = false;
        return write_log(log_path, &f->state, f->problem);
}

int salvage(struct disk *from, const char *new_folder, file_log_bad_fn left_behind, void *ctx,
            struct file_log_report *ret, struct problem *problem)
{
        char raw_path[4096], log_path[4096];
        struct disk *raw;
        struct refuge f = {
                .left_behind = left_behind, .ctx = ctx, .report = ret, .problem = problem};
        if (snprintf(raw_path, sizeof(raw_path), "%s/raw", new_folder) >= (int)sizeof(raw_path) ||
            snprintf(log_path, sizeof(log_path), "%s/log", new_folder) >= (int)sizeof(log_path))
                return problem_set(problem, ERR_BADARG, "the path is too long");
        if (mkdir(new_folder, 0700) != 0)
                return problem_set(problem, ERR_IO, "%s must be a new folder: %s", new_folder,
                                   strerror(errno));
        int r = disk_open_folder(raw_path, &raw, problem);
        if (r != OK)
                return r;
        r = file_log_salvage(from, raw, left_behind, ctx, ret, problem);
        state_init(&f.state, (uint64_t)clock_boot_ns(), thing_kinds);
        if (r == OK)
                r = refill(raw, log_path, &f);
        state_release(&f.state);
        remove_raw(raw, raw_path);
        raw = raw->ops->release(raw);
        return r;
}
