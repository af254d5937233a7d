/* A flipped bit anywhere in the files of history: no job is delivered that is not as it was stored,
 * and when one is missing, something says so: the listing itself, or `weir history verify`.
 *
 * WEIR_ROUNDS=2048 makes it 524,288 flips, as `make soak` does. */
#include "../unit/check.h"

#include "../unit/history_box.h"
#include "base/say.h"
#include "dice.h"
#include "history/archive_finder.h"

#define FLIPS   256
#define N_JOBS  700
#define N_ROWS  300 /* of them, the last ones; the others are in blocks */
#define FEW     50  /* too few for a block */
#define FILES   2
#define DELETED 77

struct world {
        struct rng dice;
        struct box box;
        struct job *jobs[N_JOBS + 1]; /* by id */
        struct {
                int fd;
                uint64_t bytes; /* that hold something */
        } files[FILES];
};

static struct job *any_job(struct world *w, uint64_t id)
{
        static const char *const hooks[] = {"mail.send", "report", "image.resize"};
        struct job *job = job_make(id, 512);
        job->view.status = id % 5 ? JOB_COMPLETE : JOB_FAILED;
        job_text(job, &job->view.hook, hooks[id % ARRAY_LEN(hooks)]);
        job_noise(job, &job->view.args, 1 + rng_below(&w->dice, 60));
        if (id % 2)
                job_text(job, &job->view.result, "{\"ok\":true}");
        job->view.finished_ms += (int64_t)rng_below(&w->dice, 1000);
        job_tell_plainly(job);
        return job;
}

static void open_file(struct world *w, int which, const char *suffix)
{
        char path[260];
        struct stat st;
        (void)snprintf(path, sizeof(path), "%s%s", w->box.path, suffix);
        int fd = open(path, O_RDWR | O_CLOEXEC);
        assert_true(fd >= 0);
        assert_int_equal(fstat(fd, &st), 0);
        w->files[which].fd = fd;
        w->files[which].bytes = (uint64_t)st.st_size;
}

static void note_removal(struct archive_removal *r)
{
        bool *is_done = r->ctx;
        *is_done = true;
}

/* Jobs in blocks of both families, one of them deleted, and jobs in rows. */
static void make_world(struct world *w)
{
        const struct archive_ref gone = {.id = DELETED};
        bool is_gone = false;
        struct archive_removal removal = {
                .refs = &gone, .n = 1, .done = note_removal, .ctx = &is_gone};
        box_init(&w->box);
        for (uint64_t id = 1; id <= N_JOBS; id++)
                w->jobs[id] = any_job(w, id);
        box_store(&w->box, w->jobs + 1, N_JOBS - N_ROWS);
        for (size_t i = 0; i < N_ROWS; i += FEW)
                box_store(&w->box, w->jobs + 1 + N_JOBS - N_ROWS + i, FEW);
        w->box.archive->ops->remove(w->box.archive, &removal);
        while (!is_gone)
                box_turn(&w->box);
        assert_int_equal(removal.removed, 1);
        job_drop(w->jobs[DELETED]);
        w->jobs[DELETED] = NULL;
        char end[32];
        ask_sql(&w->box, "SELECT max(offset + bytes) FROM block", end, sizeof(end));
        assert_sql(&w->box, "SELECT count(*) FROM block WHERE segment = 1", "2");
        box_close(&w->box); /* moves the -wal into the file */
        open_file(w, 0, "");
        open_file(w, 1, "-blocks-000001");
        w->files[1].bytes = strtoull(end, NULL, 10);
}

static bool is_same(const struct job_view *a, const struct job_view *b)
{
        return a->status == b->status && a->finished_ms == b->finished_ms &&
               a->created_ms == b->created_ms && a->due_ms == b->due_ms &&
               a->started_ms == b->started_ms && a->priority == b->priority &&
               a->attempt == b->attempt && a->attempts_max == b->attempts_max &&
               a->timeout_ms == b->timeout_ms && a->fence == b->fence &&
               slice_eq(a->hook, b->hook) && slice_eq(a->queue, b->queue) &&
               slice_eq(a->group, b->group) && slice_eq(a->worker, b->worker) &&
               slice_eq(a->args, b->args) && slice_eq(a->result, b->result) &&
               slice_eq(a->error, b->error) && slice_eq(a->progress, b->progress) &&
               slice_eq(a->options, b->options) && slice_eq(a->events, b->events);
}

struct outcome {
        size_t n_right, n_wrong, n_named;
};

/* A damaged row may say any id, also one of another job. */
static void judge(const struct world *w, const struct archive_query *q, struct outcome *ret)
{
        uint64_t before = UINT64_MAX;
        for (size_t i = 0; i < q->n_rows; i++) {
                const struct job_view *v = &q->rows[i];
                const struct job *want = v->id <= N_JOBS ? w->jobs[v->id] : NULL;
                if (v->is_damaged) {
                        ret->n_named++;
                        continue;
                }
                bool is_right = want && v->id < before && is_same(v, &want->view);
                ++*(is_right ? &ret->n_right : &ret->n_wrong);
                before = v->id;
        }
}

/* All jobs, as one who only looks at the files sees them. */
static struct outcome list(const struct world *w)
{
        struct outcome ret = {0};
        struct archive_finder finder = {0};
        struct blocks *blocks = NULL;
        struct problem p;
        sqlite3 *db = NULL;
        struct archive_query q = {.limit = N_JOBS + 100, .filter = {.status = -1}};
        int err = archive_file_open_to_look(w->box.path, false, &db, &p);
        if (!err) {
                finder.file.db = db;
                err = blocks_open(db, w->box.path, true, &blocks, &p);
        }
        if (!err)
                err = archive_finder_use(&finder, db, w->box.path, blocks, &p);
        if (!err) {
                ret.n_named += blocks_damaged(blocks);
                finder.ms_max = 60000;
                archive_finder_run(&finder, &q);
                judge(w, &q, &ret);
                err = q.err;
                arena_release(&q.arena);
        }
        ret.n_named += err != OK;
        blocks_close(blocks);
        archive_finder_close(&finder);
        return ret;
}

static void ignore(void *ctx, const char *what)
{
        (void)ctx;
        (void)what;
}

static bool verify_names_it(const struct world *w)
{
        struct archive_report report;
        struct problem p;
        return archive_file_verify(w->box.path, false, ignore, NULL, &report, &p) != OK ||
               report.damaged;
}

static void flip(const struct world *w, int which, uint64_t bit)
{
        uint8_t byte;
        int fd = w->files[which].fd;
        assert_int_equal(pread(fd, &byte, 1, (off_t)(bit / 8)), 1);
        byte ^= (uint8_t)(1U << bit % 8);
        assert_int_equal(pwrite(fd, &byte, 1, (off_t)(bit / 8)), 1);
}

static void flip_one(struct world *w)
{
        int which = (int)rng_below(&w->dice, FILES);
        uint64_t bit = rng_below(&w->dice, w->files[which].bytes * 8);
        flip(w, which, bit);
        struct outcome got = list(w);
        bool is_whole = got.n_right == N_JOBS - 1;
        if (got.n_wrong || (!is_whole && !got.n_named && !verify_names_it(w)))
                fail_msg("bit %llu of file %d: %zu right, %zu wrong, %zu named",
                         (unsigned long long)bit, which, got.n_right, got.n_wrong, got.n_named);
        flip(w, which, bit);
}

static void no_flipped_bit_is_delivered_or_goes_unnoticed(void **state)
{
        static struct world w;
        (void)state;
        say_setup(SAY_NOTHING, false); /* the damage is meant */
        dice_init(&w.dice, "flips");
        make_world(&w);
        assert_int_equal(list(&w).n_right, N_JOBS - 1);
        for (uint64_t n = dice_rounds(FLIPS); n > 0; n--)
                flip_one(&w);
        assert_int_equal(list(&w).n_right, N_JOBS - 1);
        for (int i = 0; i < FILES; i++)
                assert_int_equal(close(w.files[i].fd), 0);
        box_release(&w.box);
        for (size_t i = 1; i <= N_JOBS; i++)
                if (w.jobs[i])
                        job_drop(w.jobs[i]);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(no_flipped_bit_is_delivered_or_goes_unnoticed),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
