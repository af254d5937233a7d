/* A disk that forgets: the file log's disk (log/disk.h) in memory, with everything a real one may
 * do to what was not synced.
 *
 *   power loss   of each file, any subset of the 512-byte sectors written since its last sync is
 *                there; of the names, any number of the first changes since the last sync
 *   a dead call  crash_at names the call (counted over all that change something) in the middle
 *                of which the power goes; from then on every call fails
 *   a failing    fail_at names the call that returns an error, once or from then on.  A failed
 *   call         sync is of the nasty kind: some sectors arrived, the others are gone, yet they
 *                are read back as if they were there until the power goes, and the next sync
 *                says nothing about them
 *   a full disk  capacity_bytes
 *
 * The disk object is the platters and belongs to the test; the `disk` inside is what a log takes
 * and releases.  sim_disk_power_loss() or sim_disk_process_end() come between two logs. */
#ifndef WEIR_TESTS_SUPPORT_SIM_DISK_H
#define WEIR_TESTS_SUPPORT_SIM_DISK_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rand.h"
#include "log/disk.h"

#define SIM_SECTOR    512
#define SIM_FILES_MAX 64
#define SIM_NAME_MAX  64
#define SIM_FN        __attribute__((unused)) static

struct sim_write {
        uint64_t sector;
        char bytes[SIM_SECTOR];
};

struct sim_file {
        bool is_used;
        uint64_t size;
        char *seen; /* what a read returns: disk and cache */
        char *safe; /* what is there after a power loss, whatever happens */
        struct sim_write *pending;
        size_t n_pending, cap_pending;
};

struct sim_name {
        char name[SIM_NAME_MAX];
        int file; /* -1: a free row */
};

struct sim_change { /* of the folder: `name` is put, or removed when file is -1 */
        char name[SIM_NAME_MAX];
        int file;
        bool goes_with_next; /* the second half of a rename */
};

struct sim_disk {
        struct disk disk;
        struct rng rng;
        struct sim_file files[SIM_FILES_MAX];
        struct sim_name seen[SIM_FILES_MAX], safe[SIM_FILES_MAX];
        struct sim_change changes[SIM_FILES_MAX];
        size_t n_changes;
        int handles[SIM_FILES_MAX]; /* file of each handle, -1 when free */
        bool is_locked, is_dead;

        uint64_t capacity_bytes; /* 0: no limit */
        uint64_t n_calls;        /* calls that change something */
        uint64_t crash_at;       /* 0: never; else when n_calls gets there */
        uint64_t fail_at;        /* likewise */
        bool is_failing_for_ever;
        uint64_t n_reads, fail_read_at;
        uint64_t n_syncs, n_writes;
};

SIM_FN struct sim_disk *sim_of(struct disk *d)
{
        return CONTAINER_OF(d, struct sim_disk, disk);
}

SIM_FN int sim_dead(struct problem *p)
{
        return problem_set(p, ERR_IO, "the power is gone");
}

enum sim_fate { SIM_GOES, SIM_FAILS, SIM_DIES };

/* Counts a call that changes something and says what becomes of it. */
SIM_FN enum sim_fate sim_call(struct sim_disk *s)
{
        s->n_calls++;
        if (s->crash_at && s->n_calls == s->crash_at) {
                s->is_dead = true;
                return SIM_DIES;
        }
        bool is_hit = s->is_failing_for_ever ? s->n_calls >= s->fail_at : s->n_calls == s->fail_at;
        return s->fail_at && is_hit ? SIM_FAILS : SIM_GOES;
}

SIM_FN struct sim_name *sim_find(struct sim_name *names, const char *name)
{
        for (int i = 0; i < SIM_FILES_MAX; i++)
                if (names[i].file >= 0 && strcmp(names[i].name, name) == 0)
                        return &names[i];
        return NULL;
}

SIM_FN void sim_set_name(struct sim_name *names, const char *name, int file)
{
        struct sim_name *row = sim_find(names, name);
        for (int i = 0; !row && i < SIM_FILES_MAX; i++)
                if (names[i].file < 0)
                        row = &names[i];
        ASSERT(row);
        snprintf(row->name, sizeof(row->name), "%s", name);
        row->file = file;
}

SIM_FN void sim_change(struct sim_disk *s, const char *name, int file, bool goes_with_next)
{
        ASSERT(s->n_changes < SIM_FILES_MAX);
        struct sim_change *c = &s->changes[s->n_changes++];
        snprintf(c->name, sizeof(c->name), "%s", name);
        c->file = file;
        c->goes_with_next = goes_with_next;
        sim_set_name(s->seen, name, file);
}

SIM_FN bool sim_is_referred(const struct sim_disk *s, int file)
{
        for (int i = 0; i < SIM_FILES_MAX; i++)
                if (s->seen[i].file == file || s->safe[i].file == file || s->handles[i] == file)
                        return true;
        for (size_t i = 0; i < s->n_changes; i++)
                if (s->changes[i].file == file)
                        return true;
        return false;
}

SIM_FN void sim_drop_file(struct sim_file *f)
{
        free(f->seen);
        free(f->safe);
        free(f->pending);
        *f = (struct sim_file){0};
}

SIM_FN void sim_collect(struct sim_disk *s)
{
        for (int i = 0; i < SIM_FILES_MAX; i++)
                if (s->files[i].is_used && !sim_is_referred(s, i))
                        sim_drop_file(&s->files[i]);
}

SIM_FN int sim_new_file(struct sim_disk *s, uint64_t size)
{
        sim_collect(s);
        for (int i = 0; i < SIM_FILES_MAX; i++) {
                struct sim_file *f = &s->files[i];
                if (f->is_used)
                        continue;
                *f = (struct sim_file){.is_used = true, .size = size};
                f->seen = calloc(1, size + 1);
                f->safe = calloc(1, size + 1);
                ASSERT(f->seen && f->safe);
                return i;
        }
        panic(__FILE__, __LINE__, __func__, "too many files");
}

SIM_FN int sim_lock(struct disk *d, struct problem *p)
{
        struct sim_disk *s = sim_of(d);
        if (s->is_dead)
                return sim_dead(p);
        if (s->is_locked)
                return problem_set(p, ERR_LOCKED, "the simulated disk is in use");
        s->is_locked = true;
        return OK;
}

SIM_FN int sim_list(struct disk *d, disk_list_fn fn, void *ctx, struct problem *p)
{
        struct sim_disk *s = sim_of(d);
        if (s->is_dead)
                return sim_dead(p);
        int r = OK;
        for (int i = 0; !r && i < SIM_FILES_MAX; i++)
                if (s->seen[i].file >= 0)
                        r = fn(ctx, s->seen[i].name);
        return r;
}

SIM_FN int sim_handle(struct sim_disk *s, int file)
{
        for (int i = 0; i < SIM_FILES_MAX; i++) {
                if (s->handles[i] < 0) {
                        s->handles[i] = file;
                        return i;
                }
        }
        panic(__FILE__, __LINE__, __func__, "too many handles: a leak");
}

SIM_FN int sim_open(struct disk *d, const char *name, int *ret_fd, struct problem *p)
{
        struct sim_disk *s = sim_of(d);
        if (s->is_dead)
                return sim_dead(p);
        struct sim_name *row = sim_find(s->seen, name);
        if (!row)
                return problem_set(p, ERR_NOTFOUND, "no file %s", name);
        *ret_fd = sim_handle(s, row->file);
        return OK;
}

SIM_FN uint64_t sim_used_bytes(const struct sim_disk *s)
{
        uint64_t sum = 0;
        for (int i = 0; i < SIM_FILES_MAX; i++)
                if (s->seen[i].file >= 0)
                        sum += s->files[s->seen[i].file].size;
        return sum;
}

SIM_FN void sim_names_are_safe(struct sim_disk *s)
{
        memcpy(s->safe, s->seen, sizeof(s->safe));
        s->n_changes = 0;
}

SIM_FN int sim_create(struct disk *d, const char *name, uint64_t size, int *ret_fd,
                      struct problem *p)
{
        struct sim_disk *s = sim_of(d);
        if (s->is_dead)
                return sim_dead(p);
        enum sim_fate fate = sim_call(s);
        if (fate == SIM_FAILS)
                return problem_set(p, ERR_IO, "injected: create %s", name);
        if (sim_find(s->seen, name))
                return problem_set(p, ERR_IO, "%s exists", name);
        if (fate == SIM_DIES) {
                /* Cut off anywhere: perhaps the name is there, with a file of any size. */
                uint64_t some = rng_below(&s->rng, 2) ? size : rng_below(&s->rng, size);
                sim_change(s, name, sim_new_file(s, some), false);
                return sim_dead(p);
        }
        if (s->capacity_bytes && sim_used_bytes(s) + size > s->capacity_bytes)
                return problem_set(p, ERR_NOSPACE, "the simulated disk is full");
        int file = sim_new_file(s, size);
        sim_set_name(s->seen, name, file);
        sim_names_are_safe(s);
        *ret_fd = sim_handle(s, file);
        return OK;
}

SIM_FN uint64_t sim_free_bytes(struct disk *d)
{
        struct sim_disk *s = sim_of(d);
        uint64_t used = sim_used_bytes(s);
        if (!s->capacity_bytes)
                return UINT64_MAX;
        return used < s->capacity_bytes ? s->capacity_bytes - used : 0;
}

SIM_FN struct sim_file *sim_file_of(struct sim_disk *s, int fd)
{
        ASSERT(fd >= 0 && fd < SIM_FILES_MAX && s->handles[fd] >= 0);
        return &s->files[s->handles[fd]];
}

SIM_FN int sim_size(struct disk *d, int fd, uint64_t *ret, struct problem *p)
{
        struct sim_disk *s = sim_of(d);
        if (s->is_dead)
                return sim_dead(p);
        *ret = sim_file_of(s, fd)->size;
        return OK;
}

SIM_FN int sim_read(struct disk *d, int fd, uint64_t at, void *ret, size_t n, struct problem *p)
{
        struct sim_disk *s = sim_of(d);
        if (s->is_dead)
                return sim_dead(p);
        s->n_reads++;
        if (s->n_reads == s->fail_read_at)
                return problem_set(p, ERR_IO, "injected: read");
        struct sim_file *f = sim_file_of(s, fd);
        if (at > f->size || n > f->size - at)
                return problem_set(p, ERR_IO, "read beyond the end of the file");
        memcpy(ret, f->seen + at, n);
        return OK;
}

SIM_FN int sim_write(struct disk *d, int fd, uint64_t at, const void *buf, size_t n,
                     struct problem *p)
{
        struct sim_disk *s = sim_of(d);
        if (s->is_dead)
                return sim_dead(p);
        struct sim_file *f = sim_file_of(s, fd);
        ASSERT(((uintptr_t)buf | at | n) % DISK_BLOCK == 0);
        ASSERT(at + n <= f->size); /* the log never makes a file longer */
        enum sim_fate fate = sim_call(s);
        s->n_writes++;
        if (fate == SIM_FAILS) /* of a failed write, any first part may have been taken */
                n = rng_below(&s->rng, n / SIM_SECTOR + 1) * SIM_SECTOR;
        for (size_t i = 0; i < n; i += SIM_SECTOR) {
                if (f->n_pending == f->cap_pending) {
                        f->cap_pending = f->cap_pending ? f->cap_pending * 2 : 16;
                        f->pending = xrealloc(f->pending, f->cap_pending * sizeof(*f->pending));
                }
                struct sim_write *w = &f->pending[f->n_pending++];
                w->sector = (at + i) / SIM_SECTOR;
                memcpy(w->bytes, (const char *)buf + i, SIM_SECTOR);
        }
        if (n)
                memcpy(f->seen + at, buf, n);
        if (fate == SIM_DIES)
                return sim_dead(p);
        return fate == SIM_FAILS ? problem_set(p, ERR_IO, "injected: write") : OK;
}

/* Of the pending writes each one reaches the platter or not. */
SIM_FN void sim_settle(struct sim_disk *s, struct sim_file *f, uint64_t percent)
{
        for (size_t i = 0; i < f->n_pending; i++)
                if (rng_below(&s->rng, 100) < percent)
                        memcpy(f->safe + f->pending[i].sector * SIM_SECTOR, f->pending[i].bytes,
                               SIM_SECTOR);
        f->n_pending = 0;
}

SIM_FN uint64_t sim_some_percent(struct sim_disk *s)
{
        static const uint64_t CHOICES[] = {0, 10, 50, 50, 90, 100};
        return CHOICES[rng_below(&s->rng, ARRAY_LEN(CHOICES))];
}

SIM_FN int sim_sync(struct disk *d, int fd, struct problem *p)
{
        struct sim_disk *s = sim_of(d);
        if (s->is_dead)
                return sim_dead(p);
        struct sim_file *f = sim_file_of(s, fd);
        s->n_syncs++;
        switch (sim_call(s)) {
        case SIM_DIES:
                return sim_dead(p);
        case SIM_FAILS:
                sim_settle(s, f, sim_some_percent(s));
                return problem_set(p, ERR_IO, "injected: sync");
        case SIM_GOES:
                break;
        }
        sim_settle(s, f, 100);
        return OK;
}

SIM_FN int sim_rename(struct disk *d, const char *from, const char *to, struct problem *p)
{
        struct sim_disk *s = sim_of(d);
        if (s->is_dead)
                return sim_dead(p);
        struct sim_name *row = sim_find(s->seen, from);
        ASSERT(row && !sim_find(s->seen, to));
        enum sim_fate fate = sim_call(s);
        if (fate == SIM_FAILS)
                return problem_set(p, ERR_IO, "injected: rename %s", from);
        int file = row->file;
        sim_change(s, to, file, true);
        sim_change(s, from, -1, false);
        return fate == SIM_DIES ? sim_dead(p) : OK;
}

SIM_FN int sim_remove(struct disk *d, const char *name, struct problem *p)
{
        struct sim_disk *s = sim_of(d);
        if (s->is_dead)
                return sim_dead(p);
        ASSERT(sim_find(s->seen, name));
        enum sim_fate fate = sim_call(s);
        if (fate == SIM_FAILS)
                return problem_set(p, ERR_IO, "injected: remove %s", name);
        sim_change(s, name, -1, false);
        return fate == SIM_DIES ? sim_dead(p) : OK;
}

SIM_FN int sim_sync_names(struct disk *d, struct problem *p)
{
        struct sim_disk *s = sim_of(d);
        if (s->is_dead)
                return sim_dead(p);
        switch (sim_call(s)) {
        case SIM_DIES:
                return sim_dead(p);
        case SIM_FAILS:
                return problem_set(p, ERR_IO, "injected: sync of the names");
        case SIM_GOES:
                break;
        }
        sim_names_are_safe(s);
        sim_collect(s);
        return OK;
}

SIM_FN void sim_close(struct disk *d, int fd)
{
        struct sim_disk *s = sim_of(d);
        ASSERT(fd >= 0 && fd < SIM_FILES_MAX && s->handles[fd] >= 0);
        s->handles[fd] = -1;
}

SIM_FN struct disk *sim_release(struct disk *d)
{
        sim_of(d)->is_locked = false;
        return NULL;
}

SIM_FN void sim_disk_init(struct sim_disk *s, uint64_t seed)
{
        static const struct disk_ops OPS = {
                .lock = sim_lock,
                .list = sim_list,
                .open = sim_open,
                .create = sim_create,
                .size = sim_size,
                .read = sim_read,
                .write = sim_write,
                .sync = sim_sync,
                .rename = sim_rename,
                .remove = sim_remove,
                .sync_names = sim_sync_names,
                .free_bytes = sim_free_bytes,
                .close = sim_close,
                .release = sim_release,
        };
        memset(s, 0, sizeof(*s));
        s->disk.ops = &OPS;
        rng_init_seed(&s->rng, seed);
        for (int i = 0; i < SIM_FILES_MAX; i++)
                s->seen[i].file = s->safe[i].file = s->handles[i] = -1;
}

SIM_FN void sim_disk_release(struct sim_disk *s)
{
        for (int i = 0; i < SIM_FILES_MAX; i++)
                if (s->files[i].is_used)
                        sim_drop_file(&s->files[i]);
}

/* The process ends, the machine goes on: what was written is still seen, synced or not. */
SIM_FN void sim_disk_process_end(struct sim_disk *s)
{
        for (int i = 0; i < SIM_FILES_MAX; i++)
                s->handles[i] = -1;
        s->is_locked = false;
        s->is_dead = false;
        s->crash_at = s->fail_at = s->fail_read_at = 0;
        s->is_failing_for_ever = false;
}

/* The power goes and comes back. */
SIM_FN void sim_disk_power_loss(struct sim_disk *s)
{
        sim_disk_process_end(s);
        uint64_t percent = sim_some_percent(s);
        for (int i = 0; i < SIM_FILES_MAX; i++)
                if (s->files[i].is_used)
                        sim_settle(s, &s->files[i], percent);
        size_t n = rng_below(&s->rng, s->n_changes + 1);
        if (n > 0 && s->changes[n - 1].goes_with_next)
                n--; /* a rename is there or not */
        for (size_t i = 0; i < n; i++)
                sim_set_name(s->safe, s->changes[i].name, s->changes[i].file);
        s->n_changes = 0;
        memcpy(s->seen, s->safe, sizeof(s->seen));
        for (int i = 0; i < SIM_FILES_MAX; i++)
                if (s->files[i].is_used && s->files[i].size)
                        memcpy(s->files[i].seen, s->files[i].safe, s->files[i].size);
        sim_collect(s);
}

/* A second, equal disk; both are then independent.  No log may be open on `from`. */
SIM_FN void sim_disk_copy(struct sim_disk *to, const struct sim_disk *from)
{
        *to = *from;
        for (int i = 0; i < SIM_FILES_MAX; i++) {
                struct sim_file *f = &to->files[i];
                if (!f->is_used)
                        continue;
                ASSERT(f->n_pending == 0);
                f->pending = NULL;
                f->cap_pending = 0;
                f->seen = xmalloc(f->size + 1);
                f->safe = xmalloc(f->size + 1);
                memcpy(f->seen, from->files[i].seen, f->size);
                memcpy(f->safe, from->files[i].safe, f->size);
        }
}

SIM_FN struct sim_file *sim_disk_file(struct sim_disk *s, const char *name)
{
        struct sim_name *row = sim_find(s->seen, name);
        return row ? &s->files[row->file] : NULL;
}

/* Damage: changes what is there, for good. */
SIM_FN void sim_disk_poke(struct sim_disk *s, const char *name, uint64_t at, const void *bytes,
                          size_t n)
{
        struct sim_file *f = sim_disk_file(s, name);
        ASSERT(f && at <= f->size && n <= f->size - at);
        memcpy(f->seen + at, bytes, n);
        memcpy(f->safe + at, bytes, n);
}

SIM_FN void sim_disk_flip(struct sim_disk *s, const char *name, uint64_t bit)
{
        struct sim_file *f = sim_disk_file(s, name);
        ASSERT(f && bit / 8 < f->size);
        char c = (char)(f->seen[bit / 8] ^ (char)(1U << bit % 8));
        sim_disk_poke(s, name, bit / 8, &c, 1);
}

SIM_FN void sim_disk_put_file(struct sim_disk *s, const char *name, const void *bytes, size_t n)
{
        int file = sim_new_file(s, n);
        sim_set_name(s->seen, name, file);
        sim_set_name(s->safe, name, file);
        if (n) {
                memcpy(s->files[file].seen, bytes, n);
                memcpy(s->files[file].safe, bytes, n);
        }
}

SIM_FN void sim_disk_truncate(struct sim_disk *s, const char *name, uint64_t size)
{
        struct sim_file *f = sim_disk_file(s, name);
        ASSERT(f && size <= f->size);
        f->size = size;
}

SIM_FN size_t sim_disk_count(const struct sim_disk *s)
{
        size_t n = 0;
        for (int i = 0; i < SIM_FILES_MAX; i++)
                n += s->seen[i].file >= 0;
        return n;
}

#endif
