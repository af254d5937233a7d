/* The keeper: how files become segments, and what becomes of them.
 *
 *      state     is                                  leaves by
 *      new       create.tmp, being filled            make_spare: header, then its real name
 *      spare     number above the head's, no frame   file.c, roll: its first frame is durable
 *      head      takes the next frame                file.c, roll: sealed, the next one is head
 *      sealed    frames and a seal                   retire: all its batches are trimmed
 *      retired   recycle.tmp                         make_spare; or removed at once
 *
 * Every name that ends in .seg belongs to a file whose header is on disk and carries that number
 * (invariant 2): a file gets its header under a temporary name, is synced, and is then renamed.
 * So a .seg file without a sound header is damage, never something half made.
 *
 * Only the ends of the chain change: the oldest segment goes, the newest spare comes or goes, and
 * each change of names is synced before the next.  Whatever a crash leaves is without a gap
 * (invariant 1).
 *
 * An oldest segment is used again rather than removed as long as spares are wanted: its space is
 * sure, and its blocks have been written, so a sync into them is short. */
#include "log/log_int.h"

#include <stdlib.h>
#include <time.h>

#include "base/say.h"

/* Bytes of a segment from `at` on that can surely be filled. */
static uint64_t sure_room(const struct file_log *f, uint64_t at)
{
        uint64_t size = f->options.segment_bytes;
        uint64_t lost = at + DISK_BLOCK + ROOM_LOST(size); /* the block is the footer's */
        return size > lost ? size - lost : 0;
}

/* One spare is always wanted: moving on to the next segment must not wait for the disk. */
static size_t spares_wanted(const struct file_log *f)
{
        uint64_t in_head = sure_room(f, f->head_at), in_spare = sure_room(f, SEGMENT_DATA_AT);
        ASSERT(in_spare > 0); /* SEGMENT_BYTES_MIN sees to it */
        if (f->want_room <= in_head)
                return 1;
        return (size_t)((f->want_room - in_head + in_spare - 1) / in_spare);
}

static void file_log_check(const struct file_log *f)
{
        chain_check(&f->chain, f->head);       /* (1) */
        ASSERT(f->head_at >= SEGMENT_DATA_AT); /* (2) */
        ASSERT(f->head_at <= f->options.segment_bytes - DISK_BLOCK);
        ASSERT(f->chain.segs[f->head].base_seq <= atomic_load(&f->last_seq) + 1); /* (3) */
}

void keeper_account(struct file_log *f)
{
        if (IS_CHECKED)
                file_log_check(f);
        size_t spares = file_log_spares(f);
        atomic_store_explicit(&f->room_bytes,
                              sure_room(f, f->head_at) + spares * sure_room(f, SEGMENT_DATA_AT),
                              memory_order_relaxed);
        atomic_store_explicit(&f->retained_bytes, f->head * f->options.segment_bytes + f->head_at,
                              memory_order_relaxed);
        uint64_t base = f->chain.segs[f->head].base_seq;
        atomic_store_explicit(&f->head_seq, base ? base : atomic_load(&f->last_seq) + 1,
                              memory_order_relaxed);
        if (spares >= spares_wanted(f))
                f->is_refused = false;
        atomic_store_explicit(&f->is_disk_full, f->is_refused, memory_order_relaxed);
}

/* A number that differs for each (seed, number): splitmix64. */
static uint64_t draw(uint64_t seed, uint64_t number)
{
        uint64_t z = seed + number * 0x9e3779b97f4a7c15ULL;
        z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ULL;
        z = (z ^ z >> 27) * 0x94d049bb133111ebULL;
        return z ^ z >> 31;
}

static int write_header(struct file_log *f, int fd, const struct segment_header *h,
                        struct problem *p)
{
        char *block = aligned_alloc(DISK_BLOCK, DISK_BLOCK);
        if (!block)
                return problem_set(p, ERR_NOMEM, "no memory for a segment header");
        segment_header_encode(h, block);
        int e = f->disk->ops->write(f->disk, fd, 0, block, DISK_BLOCK, p);
        free(block);
        return e ? e : f->disk->ops->sync(f->disk, fd, p);
}

/* Gives the file under a temporary name its header and its name.  Takes the handle. */
static int make_spare(struct file_log *f, const char *tmp_name, int fd, uint64_t number,
                      struct segment *ret, struct problem *p)
{
        uint64_t z = draw(f->options.seed, number);
        struct segment s = {
                .fd = fd,
                .header = {.number = number,
                           .size = f->options.segment_bytes,
                           .tag = (uint32_t)(z >> 32) | 1, /* zeros are no frame */
                           .seed = (uint32_t)z},
        };
        char name[SEGMENT_NAME_SIZE];
        segment_name(number, name);
        int e = write_header(f, fd, &s.header, p);
        if (!e)
                e = f->disk->ops->rename(f->disk, tmp_name, name, p);
        if (!e)
                e = f->disk->ops->sync_names(f->disk, p);
        if (e) {
                f->disk->ops->close(f->disk, fd);
                return e;
        }
        *ret = s;
        return OK;
}

static uint64_t next_number(const struct file_log *f)
{
        return f->chain.n ? f->chain.segs[f->chain.n - 1].header.number + 1 : 1;
}

/* Does the disk hold another segment beside what is left to others?  Where the room for the work
 * that was accepted gets short, that comes first. */
static int check_left(struct file_log *f, uint64_t leave, struct problem *p)
{
        const struct disk_ops *ops = f->disk->ops;
        if (!leave || !ops->free_bytes)
                return OK;
        uint64_t free_bytes = ops->free_bytes(f->disk);
        if (free_bytes >= leave && free_bytes - leave >= f->options.segment_bytes)
                return OK;
        return problem_set(
                p, ERR_NOSPACE, "%llu MiB are free, and %llu MiB of them are kept for history",
                (unsigned long long)(free_bytes / MIB), (unsigned long long)(leave / MIB));
}

/* mu is not held.  ERR_NOSPACE only when nothing was changed. */
static int create_spare(struct file_log *f, uint64_t number, struct segment *ret, struct problem *p)
{
        int fd;
        int e = f->disk->ops->create(f->disk, CHAIN_NAME_CREATE, f->options.segment_bytes, &fd, p);
        if (e)
                return e;
        e = make_spare(f, CHAIN_NAME_CREATE, fd, number, ret, p);
        return e == ERR_NOSPACE ? ERR_IO : e;
}

static int remove_file(struct file_log *f, const char *name, struct problem *p)
{
        int e = f->disk->ops->remove(f->disk, name, p);
        return e ? e : f->disk->ops->sync_names(f->disk, p);
}

/* The file is out of the chain for good, durably, before its header changes: otherwise a crash
 * could leave the old name over the new header. */
static int recycle(struct file_log *f, const char *name, uint64_t number, struct segment *ret,
                   struct problem *p)
{
        int e = f->disk->ops->rename(f->disk, name, CHAIN_NAME_RECYCLE, p);
        if (!e)
                e = f->disk->ops->sync_names(f->disk, p);
        int fd;
        if (!e)
                e = f->disk->ops->open(f->disk, CHAIN_NAME_RECYCLE, &fd, p);
        return e ? e : make_spare(f, CHAIN_NAME_RECYCLE, fd, number, ret, p);
}

static bool can_retire(const struct file_log *f)
{
        /* The next one has a durable batch of its own (invariant 7). */
        return f->head > 0 && f->chain.segs[1].base_seq != 0 &&
               f->chain.segs[1].base_seq <= f->trim_before;
}

static void finish_step(struct file_log *f, int e, const struct segment *made, struct problem *p)
{
        pthread_mutex_lock(&f->mu);
        if (e) {
                pthread_mutex_unlock(&f->mu);
                file_log_fail(f, p);
                pthread_mutex_lock(&f->mu);
                return;
        }
        if (made) {
                chain_push(&f->chain, made);
                f->is_refused = false;
                pthread_cond_signal(&f->for_committer);
        }
        keeper_account(f);
}

static void retire_oldest(struct file_log *f)
{
        char name[SEGMENT_NAME_SIZE];
        segment_name(f->chain.segs[0].header.number, name);
        memmove(f->chain.segs, f->chain.segs + 1, (f->chain.n - 1) * sizeof(*f->chain.segs));
        f->chain.n--;
        f->head--;
        bool is_wanted = file_log_spares(f) < spares_wanted(f) + 1;
        uint64_t number = next_number(f);
        pthread_mutex_unlock(&f->mu);

        struct segment made;
        struct problem p;
        int e = is_wanted ? recycle(f, name, number, &made, &p) : remove_file(f, name, &p);
        finish_step(f, e, is_wanted ? &made : NULL, &p);
}

static void drop_newest_spare(struct file_log *f)
{
        struct segment s = f->chain.segs[--f->chain.n];
        pthread_mutex_unlock(&f->mu);
        char name[SEGMENT_NAME_SIZE];
        segment_name(s.header.number, name);
        f->disk->ops->close(f->disk, s.fd);
        struct problem p;
        int e = remove_file(f, name, &p);
        finish_step(f, e, NULL, &p);
}

static void add_spare(struct file_log *f)
{
        uint64_t number = next_number(f);
        bool was_refused = f->is_refused;
        bool is_short = atomic_load(&f->room_bytes) < f->want_room / 4 * 3;
        uint64_t leave = is_short ? 0 : f->leave_free;
        f->may_ask_again = false;
        pthread_mutex_unlock(&f->mu);
        struct segment made;
        struct problem p;
        int e = check_left(f, leave, &p);
        if (!e)
                e = create_spare(f, number, &made, &p);
        if (e != ERR_NOSPACE) {
                finish_step(f, e, &made, &p);
                return;
        }
        if (!was_refused)
                say_warn("log", "no space for another segment, asking again", "reason", p.detail);
        pthread_mutex_lock(&f->mu);
        f->is_refused = true;
        keeper_account(f);
}

bool keeper_step(struct file_log *f)
{
        if (atomic_load(&f->has_failed))
                return false;
        size_t spares = file_log_spares(f), wanted = spares_wanted(f);
        if (can_retire(f))
                retire_oldest(f);
        else if (spares < wanted && (!f->is_refused || f->may_ask_again))
                add_spare(f);
        else if (spares > wanted + 1)
                drop_newest_spare(f);
        else
                return false;
        return true;
}

void keeper_run_inline(struct file_log *f)
{
        while (keeper_step(f))
                ;
}

static int64_t monotonic_ns(void)
{
        struct timespec t;
        clock_gettime(CLOCK_MONOTONIC, &t); /* the clock of for_keeper */
        return t.tv_sec * NS_PER_S + t.tv_nsec;
}

/* Waits until something changes or it is time to ask the disk for space again. */
static void sleep_refused(struct file_log *f)
{
        if (f->ask_at_ns == 0)
                f->ask_at_ns = monotonic_ns() + RETRY_NS;
        struct timespec until = {.tv_sec = f->ask_at_ns / NS_PER_S,
                                 .tv_nsec = f->ask_at_ns % NS_PER_S};
        (void)pthread_cond_timedwait(&f->for_keeper, &f->mu, &until);
        if (monotonic_ns() >= f->ask_at_ns) {
                f->may_ask_again = true;
                f->ask_at_ns = 0;
        }
}

void *keeper_main(void *file_log)
{
        struct file_log *f = file_log;
        pthread_mutex_lock(&f->mu);
        while (!f->is_stopping && !atomic_load(&f->has_failed)) {
                if (keeper_step(f))
                        continue;
                if (f->is_refused)
                        sleep_refused(f);
                else
                        pthread_cond_wait(&f->for_keeper, &f->mu);
        }
        pthread_mutex_unlock(&f->mu);
        return NULL;
}

/* A file that was being recycled when the process ended: its space may be all there is. */
static int finish_recycling(struct file_log *f, struct problem *p)
{
        int fd;
        uint64_t size;
        int e = f->disk->ops->open(f->disk, CHAIN_NAME_RECYCLE, &fd, p);
        if (e)
                return e;
        e = f->disk->ops->size(f->disk, fd, &size, p);
        if (!e && size == f->options.segment_bytes) {
                struct segment made;
                e = make_spare(f, CHAIN_NAME_RECYCLE, fd, next_number(f), &made, p);
                if (!e)
                        chain_push(&f->chain, &made);
                return e;
        }
        f->disk->ops->close(f->disk, fd);
        return e ? e : remove_file(f, CHAIN_NAME_RECYCLE, p);
}

int keeper_tidy(struct file_log *f, struct problem *p)
{
        int e = OK;
        if (f->chain.has_create_tmp)
                e = remove_file(f, CHAIN_NAME_CREATE, p);
        if (!e && f->chain.has_recycle_tmp)
                e = finish_recycling(f, p);
        if (!e && f->chain.n == 0) {
                struct segment made;
                e = create_spare(f, 1, &made, p);
                if (!e)
                        chain_push(&f->chain, &made);
        }
        return e;
}
