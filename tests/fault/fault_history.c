/* History on a disk and a memory that fail at the n-th call, for every n: it never ends the
 * process, never reports what is not there, and after the fault has gone everything gets stored.
 *
 * The faults are put under SQLite: its own table of file operations with some of them replaced,
 * and its allocator.  One scenario opens a file, stores jobs in two transactions, deletes some,
 * and closes; it is run with the fault one call later each time, until a run meets no fault.
 *
 * weir-test: timeout=300 */
#include "../unit/check.h"

#include "../unit/history_box.h"

#define JOBS 60

static _Atomic int64_t calls_left; /* the call that brings it to zero fails, once */
static _Atomic bool has_failed;

static bool is_time_to_fail(void)
{
        if (atomic_load(&calls_left) <= 0 || atomic_fetch_sub(&calls_left, 1) != 1)
                return false;
        atomic_store(&has_failed, true);
        return true;
}

/* ---- the disk ---- */

/* A file's table of operations, some of them replaced; they get the same file object.  There are
 * several real tables: with locks for the main file, without for the others. */
struct failing_io {
        sqlite3_io_methods io; /* first: what a file points to */
        const sqlite3_io_methods *real;
};

static sqlite3_vfs *real_vfs;
static sqlite3_vfs failing_vfs;
static struct failing_io tables[4];
static pthread_mutex_t tables_lock = PTHREAD_MUTEX_INITIALIZER;
static int write_code; /* what a failing write says */

static const sqlite3_io_methods *real_of(const sqlite3_file *f)
{
        const void *table = f->pMethods;
        return ((const struct failing_io *)table)->real;
}

static int failing_write(sqlite3_file *f, const void *bytes, int n, sqlite3_int64 at)
{
        return is_time_to_fail() ? write_code : real_of(f)->xWrite(f, bytes, n, at);
}

static int failing_sync(sqlite3_file *f, int flags)
{
        return is_time_to_fail() ? SQLITE_IOERR_FSYNC : real_of(f)->xSync(f, flags);
}

static int failing_truncate(sqlite3_file *f, sqlite3_int64 size)
{
        return is_time_to_fail() ? SQLITE_IOERR_TRUNCATE : real_of(f)->xTruncate(f, size);
}

static int failing_read(sqlite3_file *f, void *ret, int n, sqlite3_int64 at)
{
        return is_time_to_fail() ? SQLITE_IOERR_READ : real_of(f)->xRead(f, ret, n, at);
}

static int failing_lock(sqlite3_file *f, int level)
{
        return is_time_to_fail() ? SQLITE_IOERR_LOCK : real_of(f)->xLock(f, level);
}

static int failing_shm(sqlite3_file *f, int page, int size, int extend, void volatile **ret)
{
        return is_time_to_fail() ? SQLITE_IOERR_SHMSIZE
                                 : real_of(f)->xShmMap(f, page, size, extend, ret);
}

/* The table with faults that stands for a real one. */
static const sqlite3_io_methods *failing_for(const sqlite3_io_methods *real)
{
        struct failing_io *t = tables;
        (void)pthread_mutex_lock(&tables_lock);
        while (t->real && t->real != real)
                t++;
        assert_true(t < tables + ARRAY_LEN(tables));
        if (!t->real) {
                t->real = real;
                t->io = *real;
                t->io.xWrite = failing_write;
                t->io.xSync = failing_sync;
                t->io.xTruncate = failing_truncate;
                t->io.xRead = failing_read;
                t->io.xLock = failing_lock;
                t->io.xShmMap = failing_shm;
        }
        (void)pthread_mutex_unlock(&tables_lock);
        return &t->io;
}

static int failing_open(sqlite3_vfs *vfs, const char *name, sqlite3_file *f, int flags, int *ret)
{
        (void)vfs;
        if (is_time_to_fail()) {
                f->pMethods = NULL;
                return SQLITE_CANTOPEN;
        }
        int rc = real_vfs->xOpen(real_vfs, name, f, flags, ret);
        if (rc == SQLITE_OK)
                f->pMethods = failing_for(f->pMethods);
        return rc;
}

/* ---- the memory ---- */

static sqlite3_mem_methods real_memory;
static bool is_memory_failing;

static void *failing_malloc(int size)
{
        return is_memory_failing && is_time_to_fail() ? NULL : real_memory.xMalloc(size);
}

static void *failing_realloc(void *p, int size)
{
        return is_memory_failing && is_time_to_fail() ? NULL : real_memory.xRealloc(p, size);
}

static int install(void **state)
{
        (void)state;
        if (sqlite3_config(SQLITE_CONFIG_GETMALLOC, &real_memory) != SQLITE_OK)
                return -1;
        sqlite3_mem_methods failing = real_memory;
        failing.xMalloc = failing_malloc;
        failing.xRealloc = failing_realloc;
        if (sqlite3_config(SQLITE_CONFIG_MALLOC, &failing) != SQLITE_OK ||
            sqlite3_initialize() != SQLITE_OK)
                return -1;
        real_vfs = sqlite3_vfs_find(NULL);
        failing_vfs = *real_vfs;
        failing_vfs.zName = "failing";
        failing_vfs.pNext = NULL;
        failing_vfs.xOpen = failing_open;
        return sqlite3_vfs_register(&failing_vfs, 1) == SQLITE_OK ? 0 : -1;
}

/* ---- the scenario ---- */

static void arm(int64_t n)
{
        atomic_store(&has_failed, false);
        atomic_store(&calls_left, n);
}

static void ignore_answer(struct archive_query *q)
{
        bool *is_done = q->ctx;
        *is_done = true;
}

/* Stores, asks, deletes, closes.  Whatever fails may fail, but storing succeeds in the end. */
static void use(struct box *box, struct job **jobs)
{
        box_store(box, jobs, JOBS / 2);
        bool is_done = false;
        struct archive_query q = {
                .limit = 10, .filter = {.status = -1}, .done = ignore_answer, .ctx = &is_done};
        box->archive->ops->query(box->archive, &q);
        while (!is_done)
                box_turn(box);
        arena_release(&q.arena);
        box_store(box, jobs + JOBS / 2, JOBS / 2);
        atomic_store(&box->wall_ms, BOX_NOW + 1000);
        history_sweep(box->archive);
        box_close(box);
}

/* Failed jobs are kept for ever, the others go in the sweep: the sweep may have failed. */
static void verify(struct box *box, struct job **jobs)
{
        box_open(box);
        history_sweep(box->archive);
        for (size_t i = 0; i < JOBS; i++) {
                assert_int_equal(jobs[i]->reported, 1);
                if (jobs[i]->view.status == JOB_FAILED)
                        assert_found(box, &jobs[i]->view);
                else
                        assert_false(box_has(box, jobs[i]->view.id));
        }
        assert_int_equal(box_stat(box).rows, JOBS / 3);
        assert_int_equal(box_stat(box).errors, 0);
}

enum begin { BEFORE_OPEN, AFTER_OPEN };

/* The n-th call from there on fails.  True when it was met. */
static bool run_with_fault_at(int64_t n, enum begin begin)
{
        struct box box;
        struct job *jobs[JOBS];
        struct problem p;
        box_init_folder(&box);
        box.keep_done_ms = 1000;
        for (size_t i = 0; i < JOBS; i++) {
                jobs[i] = job_make(i * 300 + 1, 64); /* over five spans */
                jobs[i]->view.status = i % 3 ? JOB_COMPLETE : JOB_FAILED;
                job_tell_plainly(jobs[i]);
        }
        arm(begin == BEFORE_OPEN ? n : 0);
        int err = box_try_open(&box, &p);
        if (begin == AFTER_OPEN)
                arm(n);
        if (err) {
                assert_true(atomic_load(&has_failed));
                assert_true(strlen(p.detail) > 0);
                box_open(&box); /* the fault has gone */
        }
        use(&box, jobs);
        bool was_met = atomic_load(&has_failed);
        arm(0);
        verify(&box, jobs);
        box_release(&box);
        jobs_drop(jobs, JOBS);
        return was_met;
}

static void every_call_to_the_disk_may_fail_once(void **state)
{
        int64_t n = 0;
        (void)state;
        do {
                n++;
                write_code = n % 2 ? SQLITE_IOERR_WRITE : SQLITE_FULL;
        } while (run_with_fault_at(n, BEFORE_OPEN));
        print_message("# %lld calls\n", (long long)n - 1);
        assert_true(n > 50);
}

static void fail_memory(enum begin begin)
{
        int64_t n = 1;
        write_code = SQLITE_IOERR_WRITE;
        is_memory_failing = true;
        while (run_with_fault_at(n, begin))
                n += 1 + n / 10;
        is_memory_failing = false;
        print_message("# about %lld calls\n", (long long)n);
        assert_true(n > 100);
}

/* There are thousands: the first ones all, then one in ten. */
static void any_allocation_may_fail_while_the_file_is_opened(void **state)
{
        (void)state;
        fail_memory(BEFORE_OPEN);
}

static void any_allocation_may_fail_while_the_file_is_used(void **state)
{
        (void)state;
        fail_memory(AFTER_OPEN);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(every_call_to_the_disk_may_fail_once),
                cmocka_unit_test(any_allocation_may_fail_while_the_file_is_opened),
                cmocka_unit_test(any_allocation_may_fail_while_the_file_is_used),
        };
        return cmocka_run_group_tests(tests, install, NULL);
}
