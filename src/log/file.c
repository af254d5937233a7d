/* The log in files: the five steps of a batch, and what happens at the start and the end.
 *
 *      append -> committer: [roll] copy, one write, one fdatasync -> durable
 *
 * A batch is acknowledged only after the sync of the write that carried it returned (invariant 8),
 * and the next one is written only after that.  So at any moment at most one frame is not on disk,
 * and it is the last one; recovery (chain.c) rests on that.
 *
 * Going to the next segment (roll) costs one more write and sync, once in 64 MiB: the old segment
 * is sealed, durably, before anything is written into the next.  That is what tells a start where
 * the log goes on, and that a segment which should follow is missing.
 *
 * A failed write or sync is final.  What is on the disk is then unknown, and a second sync that
 * succeeds would prove nothing, so there is none: the owner is told, the process ends, and the
 * next start looks at what is there and writes it again before it believes it.
 *
 * The hand-over to the committer is a mutex and a condition.  Letting it look for the next batch
 * for 20 or 50 us before it sleeps was measured and costs more than it saves: on two cores it takes
 * the time from the thread that is about to hand the batch over (98 us a batch without, 108-114
 * with; the write and sync alone are 80).
 *
 * Costs: one copy and one sum of the batch; no allocation; the memory of one 1 MiB buffer. */
#include "log/file.h"

#include <stdlib.h>
#include <sys/random.h>

#include "base/background.h"
#include "base/clock.h"
#include "log/log_int.h"

static struct file_log *file_log_of(struct log *log)
{
        return CONTAINER_OF(log, struct file_log, log);
}

static const struct file_log *file_log_of_const(const struct log *log)
{
        return (const struct file_log *)((const char *)log - offsetof(struct file_log, log));
}

void file_log_fail(struct file_log *f, const struct problem *p)
{
        if (!atomic_exchange(&f->has_failed, true) && f->log.failed)
                f->log.failed(f->log.ctx, p);
        pthread_mutex_lock(&f->mu);
        pthread_cond_broadcast(&f->for_committer);
        pthread_cond_broadcast(&f->for_keeper);
        pthread_mutex_unlock(&f->mu);
}

/* A spare to go on in.  Without one the batch waits until the disk has space again: it was not
 * acknowledged, and everything behind it waits with it.  (The core asks stat() for room before it
 * accepts work, so that this does not happen.) */
static int await_spare(struct file_log *f, struct problem *p) /* mu held */
{
        if (!f->has_threads && file_log_spares(f) == 0) {
                f->may_ask_again = true;
                keeper_run_inline(f);
        }
        while (file_log_spares(f) == 0) {
                if (!f->has_threads || f->is_stopping || atomic_load(&f->has_failed))
                        return problem_set(p, ERR_NOSPACE, "no space for another log segment");
                pthread_cond_signal(&f->for_keeper);
                pthread_cond_wait(&f->for_committer, &f->mu);
        }
        return OK;
}

static int roll(struct file_log *f, uint64_t last_seq, struct problem *p)
{
        pthread_mutex_lock(&f->mu);
        int e = await_spare(f, p);
        pthread_mutex_unlock(&f->mu);
        if (!e)
                e = writer_put_footer(&f->writer, FOOTER_SEALED, last_seq, p);
        if (e)
                return e;
        pthread_mutex_lock(&f->mu);
        f->disk->ops->close(f->disk, f->chain.segs[f->head].fd);
        f->chain.segs[f->head].fd = -1;
        f->head++;
        const struct segment *s = &f->chain.segs[f->head];
        writer_turn_to(&f->writer, s->fd, &s->header);
        f->head_at = f->writer.at;
        keeper_account(f);
        pthread_mutex_unlock(&f->mu);
        return OK;
}

static int write_batch(struct file_log *f, uint64_t seq, struct slice batch, struct problem *p)
{
        int64_t begun_ns = f->has_threads ? clock_boot_ns() : 0;
        int e = OK;
        if (!writer_fits(&f->writer, batch.len))
                e = roll(f, seq - 1, p);
        if (!e)
                e = writer_put_batch(&f->writer, seq, batch, p);
        if (!e && !f->is_lazy)
                e = writer_sync(&f->writer, p);
        if (e)
                return e;

        if (f->has_threads)
                atomic_store_explicit(&f->sync_ns_last, (uint64_t)(clock_boot_ns() - begun_ns),
                                      memory_order_relaxed);
        atomic_fetch_add_explicit(&f->appended_bytes, frame_bytes(batch.len), memory_order_relaxed);
        atomic_fetch_add_explicit(&f->appended_batches, 1, memory_order_relaxed);
        pthread_mutex_lock(&f->mu);
        struct segment *head = &f->chain.segs[f->head];
        bool is_first = head->base_seq == 0;
        if (is_first)
                head->base_seq = seq;
        f->head_at = f->writer.at;
        keeper_account(f);
        /* A segment has just been left, or what is left of this one does not hold the room that
         * is wanted: rarely more often than once a segment. */
        bool is_short = atomic_load(&f->room_bytes) < f->want_room && !f->is_refused;
        if (f->has_threads && (is_first || is_short))
                pthread_cond_signal(&f->for_keeper);
        pthread_mutex_unlock(&f->mu);
        atomic_store_explicit(&f->last_seq, seq, memory_order_release);
        return OK;
}

/* True: a batch is there.  False: it is time to end. */
static bool committer_wait(struct file_log *f)
{
        pthread_mutex_lock(&f->mu);
        while (!f->is_given && !f->is_stopping)
                pthread_cond_wait(&f->for_committer, &f->mu);
        bool is_given = f->is_given;
        pthread_mutex_unlock(&f->mu);
        return is_given;
}

static void *committer_main(void *file_log)
{
        struct file_log *f = file_log;
        bool is_background = false;
        (void)pthread_setname_np(pthread_self(), "log-write"); /* for people */
        while (committer_wait(f)) {
                if (is_background !=
                    atomic_load_explicit(&f->is_giving_way, memory_order_relaxed)) {
                        is_background = !is_background;
                        background_set(is_background);
                }
                uint64_t seq = f->batch_seq;
                struct problem p = {0};
                int e = atomic_load(&f->has_failed) ? ERR_IO : write_batch(f, seq, f->batch, &p);
                if (e) {
                        file_log_fail(f, &p);
                        break;
                }
                pthread_mutex_lock(&f->mu);
                f->is_given = false; /* first, since the answer to `durable` is the next batch */
                pthread_mutex_unlock(&f->mu);
                if (!atomic_load(&f->has_failed))
                        f->log.durable(f->log.ctx, seq);
        }
        return NULL;
}

static int file_append(struct log *log, uint64_t seq, struct slice batch)
{
        struct file_log *f = file_log_of(log);
        ASSERT(f->is_leading && batch.len <= LOG_BATCH_MAX);
        ASSERT(SEGMENT_DATA_AT + frame_bytes(batch.len) <= f->options.segment_bytes - DISK_BLOCK);
        if (atomic_load(&f->has_failed))
                return ERR_IO;
        ASSERT(seq == atomic_load(&f->last_seq) + 1);
        if (f->has_threads) {
                pthread_mutex_lock(&f->mu);
                ASSERT(!f->is_given); /* one in flight */
                f->batch_seq = seq;
                f->batch = batch;
                f->is_given = true;
                pthread_mutex_unlock(&f->mu);
                /* Without the lock: it must not wake up only to wait for it. */
                pthread_cond_signal(&f->for_committer);
                return OK;
        }
        struct problem p;
        int e = write_batch(f, seq, batch, &p);
        if (e) {
                file_log_fail(f, &p);
                return e;
        }
        if (atomic_load(&f->has_failed))
                return ERR_IO; /* the keeper, on the way: nothing succeeds any more */
        f->log.durable(f->log.ctx, seq);
        pthread_mutex_lock(&f->mu);
        keeper_run_inline(f);
        pthread_mutex_unlock(&f->mu);
        return OK;
}

/* The committer waits while no batch is given, so the writer is free for the caller.  Not when a
 * new segment is needed: that may wait for the disk to have space. */
static int file_append_now(struct log *log, uint64_t seq, struct slice batch)
{
        struct file_log *f = file_log_of(log);
        pthread_mutex_lock(&f->mu); /* also orders what the committer wrote before what we write */
        ASSERT(f->is_leading && !f->is_given);
        pthread_mutex_unlock(&f->mu);
        if (!f->has_threads || atomic_load(&f->has_failed) || !writer_fits(&f->writer, batch.len))
                return file_append(log, seq, batch);
        ASSERT(seq == atomic_load(&f->last_seq) + 1);
        struct problem p = {0};
        int e = write_batch(f, seq, batch, &p);
        if (e) {
                file_log_fail(f, &p);
                return e;
        }
        if (atomic_load(&f->has_failed))
                return ERR_IO; /* the keeper, meanwhile: nothing succeeds any more */
        f->log.durable(f->log.ctx, seq);
        return OK;
}

/* After a change of what is wanted. */
static void wake_keeper(struct file_log *f) /* mu held */
{
        f->may_ask_again = true;
        if (f->has_threads)
                pthread_cond_signal(&f->for_keeper);
        else
                keeper_run_inline(f);
}

static int file_trim(struct log *log, uint64_t before)
{
        struct file_log *f = file_log_of(log);
        ASSERT(f->is_leading && before <= atomic_load(&f->last_seq) + 1);
        pthread_mutex_lock(&f->mu);
        if (before > f->trim_before) {
                f->trim_before = before;
                /* Most trims only move within the oldest segment: nobody is woken for that. */
                if (f->head > 0 && before >= f->chain.segs[1].base_seq)
                        wake_keeper(f);
        }
        pthread_mutex_unlock(&f->mu);
        return atomic_load(&f->has_failed) ? ERR_IO : OK;
}

static void file_give_way(struct log *log, bool is_giving_way)
{
        atomic_store_explicit(&file_log_of(log)->is_giving_way, is_giving_way,
                              memory_order_relaxed);
}

static void file_want_room(struct log *log, uint64_t bytes)
{
        struct file_log *f = file_log_of(log);
        pthread_mutex_lock(&f->mu);
        bool is_change = bytes != f->want_room;
        f->want_room = bytes;
        if (f->is_leading) {
                keeper_account(f);
                if (is_change || !f->has_threads)
                        wake_keeper(f);
        }
        pthread_mutex_unlock(&f->mu);
}

static void file_leave_free(struct log *log, uint64_t bytes)
{
        struct file_log *f = file_log_of(log);
        pthread_mutex_lock(&f->mu);
        bool is_less = bytes < f->leave_free;
        f->leave_free = bytes;
        if (f->is_leading && f->is_refused && is_less)
                wake_keeper(f);
        pthread_mutex_unlock(&f->mu);
}

static void file_stat(const struct log *log, struct log_stat *ret)
{
        const struct file_log *f = file_log_of_const(log);
        *ret = (struct log_stat){
                .retained_bytes = atomic_load_explicit(&f->retained_bytes, memory_order_relaxed),
                .room_bytes = atomic_load_explicit(&f->room_bytes, memory_order_relaxed),
                .head_seq = atomic_load_explicit(&f->head_seq, memory_order_relaxed),
                .is_disk_full = atomic_load_explicit(&f->is_disk_full, memory_order_relaxed),
                .appended_bytes = atomic_load_explicit(&f->appended_bytes, memory_order_relaxed),
                .appended_batches =
                        atomic_load_explicit(&f->appended_batches, memory_order_relaxed),
                .sync_ns_last = atomic_load_explicit(&f->sync_ns_last, memory_order_relaxed),
        };
}

struct reading {
        struct segment_reader reader;
        struct segment_walk walk;
        uint64_t from, last_seq;
        log_read_fn fn;
        void *ctx;
};

/* Delivers the batches of one segment; `end_seq` is the first that is not in it. */
static int read_segment(struct reading *g, const struct segment *s, uint64_t end_seq,
                        struct problem *p)
{
        g->walk.at = SEGMENT_DATA_AT;
        if (g->walk.next_seq == 0)
                g->walk.next_seq = s->base_seq;
        while (g->walk.next_seq < end_seq) {
                struct frame_found found;
                uint64_t at = g->walk.at;
                bool is_wanted = g->walk.next_seq >= g->from;
                int e = segment_walk_next(&g->walk, is_wanted, &found, p);
                if (e)
                        return e;
                if (found.why)
                        return chain_corrupt(p, s->header.number, at, "%s", found.why);
                if (!is_wanted)
                        continue;
                e = g->fn(g->ctx, found.frame.seq, found.body);
                if (e)
                        return e;
        }
        return OK;
}

static int read_chain(struct disk *disk, const struct chain *c, struct reading *g,
                      struct problem *p)
{
        for (size_t i = 0; i < c->n && c->segs[i].base_seq != 0; i++) {
                const struct segment *s = &c->segs[i];
                bool is_last = i + 1 == c->n || s[1].base_seq == 0;
                uint64_t end_seq = is_last ? g->last_seq + 1 : s[1].base_seq;
                if (end_seq <= g->from)
                        continue;
                int fd;
                int e = chain_open_segment(disk, s->header.number, &fd, p);
                if (e)
                        return e;
                segment_reader_turn_to(&g->reader, fd, &s->header);
                e = read_segment(g, s, end_seq, p);
                disk->ops->close(disk, fd);
                if (e)
                        return e;
        }
        return OK;
}

static int file_read(struct log *log, uint64_t from, log_read_fn fn, void *ctx, struct problem *p)
{
        struct file_log *f = file_log_of(log);
        ASSERT(f->is_leading);
        struct reading g = {.from = from, .fn = fn, .ctx = ctx};
        g.last_seq = atomic_load_explicit(&f->last_seq, memory_order_acquire);
        g.walk.reader = &g.reader;
        segment_reader_init(&g.reader, f->disk);
        struct chain copy = {0}; /* the keeper may change the real one meanwhile */
        pthread_mutex_lock(&f->mu);
        for (size_t i = 0; i < f->chain.n; i++)
                chain_push(&copy, &f->chain.segs[i]);
        if (g.from < f->trim_before)
                g.from = f->trim_before;
        pthread_mutex_unlock(&f->mu);
        int e = read_chain(f->disk, &copy, &g, p);
        chain_release(&copy);
        segment_reader_release(&g.reader);
        return e;
}

/* Steps 5 to 8 of recovery (README): from here on the folder is changed. */
static int take_over(struct file_log *f, const struct chain_tail *t, struct problem *p)
{
        /* The names that were listed may be known to a cache only, left by a process that ended
         * between a rename and its sync.  Nothing may build on them before they are on disk. */
        int e = f->disk->ops->sync_names(f->disk, p);
        if (!e)
                e = keeper_tidy(f, p);
        for (size_t i = t->head; !e && i < f->chain.n; i++) {
                struct segment *s = &f->chain.segs[i];
                if (s->fd < 0)
                        e = chain_open_segment(f->disk, s->header.number, &s->fd, p);
        }
        if (e)
                return e;
        struct writer *w = &f->writer;
        bool is_last_in_head = t->last_seg == t->head;
        if (t->last_from != t->last_to && !is_last_in_head) {
                const struct segment *s = &f->chain.segs[t->last_seg];
                int fd;
                e = chain_open_segment(f->disk, s->header.number, &fd, p);
                if (e)
                        return e;
                writer_turn_to(w, fd, &s->header);
                e = writer_repeat(w, t->last_from, t->last_to, p);
                if (!e)
                        e = writer_repeat(w, segment_data_end(&s->header), s->header.size, p);
                f->disk->ops->close(f->disk, fd);
                if (e)
                        return e;
        }
        const struct segment *head = &f->chain.segs[t->head];
        writer_turn_to(w, head->fd, &head->header);
        uint64_t at = t->at ? t->at : SEGMENT_DATA_AT;
        bool has_frame = is_last_in_head && t->last_from != t->last_to;
        e = writer_resume(w, has_frame ? t->last_from : at, at, p);
        w->prev = t->last_crc;
        return e;
}

static int start_threads(struct file_log *f, struct problem *p)
{
        f->has_threads = true; /* before they look */
        if (pthread_create(&f->committer, NULL, committer_main, f) != 0) {
                f->has_threads = false;
                return problem_set(p, ERR_NOMEM, "cannot start the log's thread");
        }
        if (pthread_create(&f->keeper, NULL, keeper_main, f) != 0) {
                pthread_mutex_lock(&f->mu);
                f->is_stopping = true;
                pthread_cond_broadcast(&f->for_committer);
                pthread_mutex_unlock(&f->mu);
                pthread_join(f->committer, NULL);
                f->has_threads = false;
                return problem_set(p, ERR_NOMEM, "cannot start the log's second thread");
        }
        return OK;
}

static int file_lead(struct log *log, struct log_tail *ret, struct problem *p)
{
        struct file_log *f = file_log_of(log);
        ASSERT(!f->is_leading && log->durable && log->failed);
        struct chain_tail t;
        int e = f->disk->ops->lock(f->disk, p);
        if (!e)
                e = chain_load(f->disk, &f->chain, p);
        if (!e)
                e = chain_find_tail(f->disk, &f->chain, &t, p);
        if (e)
                return e;
        if (f->chain.n > 0)
                f->options.segment_bytes = f->chain.segs[0].header.size;
        uint64_t first = f->chain.n ? f->chain.segs[0].base_seq : 0;
        e = take_over(f, &t, p);
        if (e)
                return e;
        f->head = t.head;
        /* The header of a batch that was cut is not the first of anything. */
        if (writer_is_empty(&f->writer))
                f->chain.segs[f->head].base_seq = 0;
        f->head_at = f->writer.at;
        atomic_store(&f->last_seq, t.last_seq);
        keeper_account(f);
        if (f->options.is_threaded)
                e = start_threads(f, p);
        if (e)
                return e;
        f->is_leading = true;
        if (!f->has_threads) {
                pthread_mutex_lock(&f->mu);
                keeper_run_inline(f);
                pthread_mutex_unlock(&f->mu);
                if (atomic_load(&f->has_failed))
                        return problem_set(p, ERR_IO, "the log failed while it was prepared");
        }
        *ret = (struct log_tail){
                .first_seq = t.last_seq && first && first <= t.last_seq ? first : t.last_seq + 1,
                .last_seq = t.last_seq,
                .cut_batches = t.cut_batches,
                .cut_bytes = t.cut_bytes,
        };
        return OK;
}

static void stop_threads(struct file_log *f)
{
        pthread_mutex_lock(&f->mu);
        f->is_stopping = true;
        pthread_cond_broadcast(&f->for_committer);
        pthread_cond_broadcast(&f->for_keeper);
        pthread_mutex_unlock(&f->mu);
        pthread_join(f->committer, NULL);
        pthread_join(f->keeper, NULL);
        f->has_threads = false;
}

static struct log *file_close(struct log *log)
{
        struct file_log *f = file_log_of(log);
        if (f->has_threads)
                stop_threads(f);
        if (f->is_leading && !atomic_load(&f->has_failed) && !writer_is_empty(&f->writer)) {
                /* So that a later start need not ask whether the last batch was torn.  It was
                 * durable before; should this fail, that start just knows less. */
                struct problem ignored;
                int r = writer_put_footer(&f->writer, FOOTER_CLOSED, atomic_load(&f->last_seq),
                                          &ignored);
                (void)r;
        }
        for (size_t i = 0; i < f->chain.n; i++)
                if (f->chain.segs[i].fd >= 0)
                        f->disk->ops->close(f->disk, f->chain.segs[i].fd);
        chain_release(&f->chain);
        writer_release(&f->writer);
        if (!f->is_disk_borrowed)
                f->disk->ops->release(f->disk);
        pthread_cond_destroy(&f->for_committer);
        pthread_cond_destroy(&f->for_keeper);
        pthread_mutex_destroy(&f->mu);
        free(f);
        return NULL;
}

static const struct log_ops FILE_LOG_OPS = {
        .lead = file_lead,
        .append = file_append,
        .append_now = file_append_now,
        .read = file_read,
        .trim = file_trim,
        .want_room = file_want_room,
        .leave_free = file_leave_free,
        .give_way = file_give_way,
        .stat = file_stat,
        .close = file_close,
};

static int settle_options(struct file_log_options *o, struct problem *p)
{
        if (o->segment_bytes == 0)
                o->segment_bytes = FILE_LOG_SEGMENT_BYTES;
        if (o->segment_bytes < SEGMENT_BYTES_MIN || o->segment_bytes > SEGMENT_BYTES_MAX ||
            o->segment_bytes % DISK_BLOCK != 0)
                return problem_set(p, ERR_BADARG, "a segment has a whole number of %d-byte blocks",
                                   DISK_BLOCK);
        if (o->seed == 0 && getrandom(&o->seed, sizeof(o->seed), 0) != sizeof(o->seed))
                return problem_set(p, ERR_IO, "no random numbers from the system");
        return OK;
}

int file_log_open(struct disk **disk, const struct file_log_options *options, struct log **ret,
                  struct problem *p)
{
        struct file_log *f = xcalloc(1, sizeof(*f));
        f->log.ops = &FILE_LOG_OPS;
        f->disk = TAKE_PTR(*disk);
        f->options = *options;
        pthread_mutex_init(&f->mu, NULL);
        pthread_cond_init(&f->for_committer, NULL);
        pthread_condattr_t monotonic;
        pthread_condattr_init(&monotonic);
        pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
        pthread_cond_init(&f->for_keeper, &monotonic);
        pthread_condattr_destroy(&monotonic);
        int e = settle_options(&f->options, p);
        if (!e)
                e = writer_init(&f->writer, f->disk, f->options.segment_bytes, p);
        if (e) {
                file_close(&f->log);
                return e;
        }
        *ret = &f->log;
        return OK;
}

int file_log_walk(struct disk *disk, log_read_fn fn, void *ctx, struct problem *p)
{
        struct chain chain = {0};
        struct chain_tail tail = {0};
        struct reading g = {.fn = fn, .ctx = ctx};
        g.walk.reader = &g.reader;
        segment_reader_init(&g.reader, disk);
        int e = chain_load(disk, &chain, p);
        if (!e)
                e = chain_find_tail(disk, &chain, &tail, p);
        g.last_seq = tail.last_seq;
        if (!e)
                e = read_chain(disk, &chain, &g, p);
        segment_reader_release(&g.reader);
        chain_release(&chain);
        return e;
}
