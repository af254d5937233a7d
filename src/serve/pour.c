/* See pour.h. */
#include "serve/pour.h"

#include <stdlib.h>

#include "log/file.h"

#define BATCH_BYTES MIB

void pour_init(struct pour *p, struct problem *problem)
{
        *p = (struct pour){.problem = problem};
}

void pour_release(struct pour *p)
{
        buf_release(&p->open);
}

static int append(struct pour *p, struct slice batch)
{
        int err = p->append(p->ctx, batch, p->problem);
        if (err)
                return err;
        p->batches++;
        p->bytes += batch.len;
        if (p->progress)
                p->progress(p->progress_ctx, p->batches, p->bytes);
        return OK;
}

static int flush(struct pour *p)
{
        int err = p->open.len ? append(p, buf_slice(&p->open)) : OK;
        buf_clear(&p->open);
        return err;
}

int pour_batch(void *pour, uint64_t seq, struct slice batch)
{
        struct pour *p = pour;
        int err = p->replayed ? replayed_batch(p->replayed, seq, batch) : OK;
        if (!err && p->open.len + batch.len > BATCH_BYTES)
                err = flush(p);
        if (err || !batch.len)
                return err;
        if (batch.len > BATCH_BYTES)
                return append(p, batch);
        buf_put_slice(&p->open, batch);
        return p->open.failed ? problem_set(p->problem, ERR_NOMEM, "no memory for a batch") : OK;
}

int pour_end(struct pour *p)
{
        int err = flush(p);
        return err || !p->replayed ? err : replayed_end(p->replayed);
}

/* ---- folders ---- */

struct folder_log {
        struct log *log;
        uint64_t next;
        struct problem why;
};

static void on_durable(void *ctx, uint64_t seq)
{
        struct folder_log *l = ctx;
        ASSERT(seq == l->next);
        l->next = seq + 1;
}

static void on_failed(void *ctx, const struct problem *problem)
{
        struct folder_log *l = ctx;
        l->why = *problem;
}

int folder_log_new(const char *path, struct folder_log **ret, struct problem *problem)
{
        struct disk *disk = NULL;
        struct log_tail tail;
        struct file_log_options options = {0};
        struct folder_log *l = xcalloc(1, sizeof(*l));
        int err = disk_open_folder(path, &disk, problem);
        if (!err)
                err = file_log_open(&disk, &options, &l->log, problem);
        if (!err) {
                l->log->durable = on_durable;
                l->log->failed = on_failed;
                l->log->ctx = l;
                err = l->log->ops->lead(l->log, &tail, problem);
        }
        if (err) {
                (void)folder_log_close(l);
                return err;
        }
        l->next = tail.last_seq + 1;
        *ret = l;
        return OK;
}

int folder_log_append(void *folder_log, struct slice batch, struct problem *problem)
{
        struct folder_log *l = folder_log;
        int err = l->log->ops->append(l->log, l->next, batch);
        if (err && l->why.err)
                *problem = l->why;
        else if (err)
                (void)problem_set(problem, err, "cannot write the log");
        return err;
}

struct folder_log *folder_log_close(struct folder_log *l)
{
        if (!l)
                return NULL;
        if (l->log)
                l->log = l->log->ops->close(l->log);
        free(l);
        return NULL;
}

int folder_log_read(const char *path, log_read_fn fn, void *ctx, struct problem *problem)
{
        struct disk *disk = NULL;
        int err = disk_open_existing(path, &disk, problem);
        if (!err)
                err = file_log_walk(disk, fn, ctx, problem);
        if (disk)
                disk = disk->ops->release(disk);
        return err;
}
