/* Two machines, one mirror, and an array: random jobs are stored by whichever machine leads, come
 * twice, are replaced by later runs, robbed of their results, deleted and dropped when their time
 * has come, while the mirror fails, the lead moves, and machines stop or die between the mirror and
 * their files.  Then both have what the array says, each job once, and the same incidents, entries
 * of the audit trail and minutes.
 *
 * weir-test: tsan */
#include "../unit/check.h"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include "../support/memory_mirror.h"
#include "../unit/history_box.h"
#include "../unit/rollup_box.h"
#include "dice.h"
#include "history/block_mark.h"

#define IDS         2000
#define BATCH       120
#define BEYOND      (3 * WINDOW_IDS) /* a job that stays, so that theirs is not the newest window */
#define KEEP_DONE   40000
#define KEEP_FAILED 90000
#define MACHINES    2

struct machine {
        struct box box;
        struct memory_mirror mirror;
        bool has_led;
        char image[220]; /* the folder as a crash leaves it; "": none is wanted */
        bool has_image;
        uint64_t last_audited;
};

struct world {
        struct rng dice;
        struct memory_mirror_store store;
        struct machine machines[MACHINES];
        size_t leader;
        struct job *jobs[IDS + 1]; /* the model: by id; NULL when not in the archive */
        size_t n_jobs;             /* with the one beyond */
        bool has_beyond;
        uint64_t last_incident, last_audit;
        int64_t minute;
};

static struct machine *leader_of(struct world *w)
{
        return &w->machines[w->leader];
}

static struct machine *follower_of(struct world *w)
{
        return &w->machines[1 - w->leader];
}

/* ---- jobs ---- */

static struct job_options options_of(const struct job *job)
{
        struct job_options o;
        assert_true(options_unpack(job->view.options, &o));
        return o;
}

static struct job *any_job(struct world *w, uint64_t id)
{
        static const char *const hooks[] = {"mail.send", "image.resize", "report"};
        char noise[200];
        struct job *job = job_make(id, 1024);
        struct job_view *v = &job->view;
        v->status = (enum job_status)(JOB_COMPLETE + rng_below(&w->dice, 3));
        job_text(job, &v->hook, hooks[rng_below(&w->dice, ARRAY_LEN(hooks))]);
        size_t n = rng_below(&w->dice, sizeof(noise));
        rng_fill(&w->dice, noise, n);
        v->args = job_keep(job, slice_make(noise, n));
        if (rng_below(&w->dice, 2))
                job_text(job, &v->result, "{\"ok\":true}");
        /* Not past its time already: the archive would be free to delete it at any moment. */
        v->finished_ms =
                atomic_load(&w->machines[0].box.wall_ms) + (int64_t)rng_below(&w->dice, 60000);
        if (rng_below(&w->dice, 3) == 0) {
                struct job_options options = {
                        .run = rng_below(&w->dice, 3),
                        .result_ms = rng_below(&w->dice, 2) * (1 + rng_below(&w->dice, 50000)),
                };
                job_set_packed(job, &options);
        }
        job_tell_plainly(job);
        return job;
}

/* Some new jobs and later runs of others: at most BATCH, which the model has from now on.  What
 * they take the place of is dropped. */
static size_t any_batch(struct world *w, struct job **ret)
{
        size_t n = 0;
        uint64_t start = rng_below(&w->dice, IDS), stride = 1 + rng_below(&w->dice, 8);
        uint64_t wanted = 1 + rng_below(&w->dice, rng_below(&w->dice, 3) ? 5 : BATCH);
        for (uint64_t i = 0; i < wanted; i++) {
                uint64_t id = 1 + (start + i * stride) % IDS;
                struct job *job = any_job(w, id), *old = w->jobs[id];
                if (old && options_of(old).run >= options_of(job).run) {
                        job_drop(job);
                        continue;
                }
                for (size_t k = 0; k < n; k++) /* of an id that came already */
                        if (ret[k] == old)
                                ret[k--] = ret[--n];
                w->n_jobs += old == NULL;
                if (old)
                        job_drop(old);
                w->jobs[id] = job;
                ret[n++] = job;
        }
        return n;
}

/* Some that are there already: whoever led did not say so in time. */
static size_t some_again(struct world *w, struct job **ret)
{
        size_t n = 0;
        uint64_t start = rng_below(&w->dice, IDS);
        for (uint64_t i = 0; i < 40; i++) {
                struct job *job = w->jobs[1 + (start + i) % IDS];
                if (job)
                        ret[n++] = job;
        }
        return n;
}

static void store_all(struct machine *m, struct job **jobs, size_t n)
{
        for (size_t i = 0; i < n; i++)
                jobs[i]->reported = 0;
        box_store(&m->box, jobs, n);
        for (size_t i = 0; i < n; i++)
                assert_int_equal(jobs[i]->reported, 1);
}

/* ---- machines ---- */

static void told_led(void *ctx)
{
        struct machine *m = ctx;
        m->has_led = true;
}

static void told_audited(void *ctx, uint64_t number)
{
        struct machine *m = ctx;
        if (number > m->last_audited)
                m->last_audited = number;
}

static void machine_open(struct machine *m)
{
        m->box.mirror = &m->mirror.base;
        m->box.is_following = true;
        box_open(&m->box);
        m->box.archive->audited = told_audited;
        m->box.archive->audited_ctx = m;
}

static void machine_lead(struct machine *m)
{
        m->has_led = false;
        memory_mirror_lead(&m->mirror);
        history_lead(m->box.archive, told_led, m);
        while (!m->has_led)
                box_turn(&m->box);
}

/* The leader is another one: numbers go on from what it has, which is no less than was reported. */
static void adopt(struct world *w)
{
        const struct archive *a = leader_of(w)->box.archive;
        for (size_t i = 0; i < MACHINES; i++)
                assert_true(a->last_audit >= w->machines[i].last_audited);
        w->last_audit = a->last_audit;
        w->last_incident = a->last_incident;
}

static void copy_file(const char *from, const char *to)
{
        static char bytes[1 << 16];
        int in = open(from, O_RDONLY | O_CLOEXEC);
        int out = open(to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
        ssize_t n;
        off_t at = 0;
        ASSERT(in >= 0 && out >= 0);
        while ((n = read(in, bytes, sizeof(bytes))) > 0) {
                ASSERT(pwrite(out, bytes, (size_t)n, at) == n);
                at += n;
        }
        ASSERT(n == 0);
        (void)close(in);
        (void)close(out);
}

static void copy_folder(const char *from, const char *to)
{
        DIR *dir = opendir(from);
        ASSERT(dir);
        for (struct dirent *e = readdir(dir); e; e = readdir(dir)) {
                char a[600], b[600];
                if (e->d_name[0] == '.' || strstr(e->d_name, "-shm"))
                        continue;
                (void)snprintf(a, sizeof(a), "%s/%s", from, e->d_name);
                (void)snprintf(b, sizeof(b), "%s/%s", to, e->d_name);
                copy_file(a, b);
        }
        (void)closedir(dir);
}

/* On the writer thread: the mirror has the transaction, the files do not. */
static void take_image(void *ctx)
{
        struct machine *m = ctx;
        if (m->has_image)
                return;
        (void)snprintf(m->image, sizeof(m->image), "%s-image-XXXXXX", m->box.folder);
        ASSERT(mkdtemp(m->image));
        copy_folder(m->box.folder, m->image);
        m->has_image = true;
}

/* Nothing of the folder is left but what the image has. */
static void become_image(struct machine *m)
{
        (void)nftw(m->box.folder, box_remove, 8, FTW_DEPTH | FTW_PHYS);
        assert_int_equal(mkdir(m->box.folder, 0700), 0);
        copy_folder(m->image, m->box.folder);
        (void)nftw(m->image, box_remove, 8, FTW_DEPTH | FTW_PHYS);
        m->has_image = false;
}

/* ---- steps ---- */

static void store_some(struct world *w)
{
        struct job *batch[BATCH];
        size_t n = any_batch(w, batch);
        store_all(leader_of(w), batch, n);
}

/* The lead moves while jobs are being written; those that were not reported come again. */
static void fail_over(struct world *w)
{
        struct job *batch[BATCH + 40], *left[BATCH + 40];
        struct machine *was = leader_of(w), *next = follower_of(w);
        size_t n = any_batch(w, batch), n_left = 0;
        for (size_t i = 0; i < n; i++)
                batch[i]->reported = 0;
        box_hand_over(&was->box, batch, n);
        for (uint64_t i = rng_below(&w->dice, 3); i > 0; i--)
                (void)box_has(&was->box, 1); /* it is given a moment */
        bool is_deposed = rng_below(&w->dice, 2);
        if (is_deposed) /* while it still thinks that it leads */
                machine_lead(next);
        history_follow(was->box.archive);
        if (!is_deposed)
                machine_lead(next);
        for (size_t i = 0; i < n; i++)
                if (!batch[i]->reported)
                        left[n_left++] = batch[i];
        if (rng_below(&w->dice, 2))
                n_left += some_again(w, left + n_left);
        w->leader = 1 - w->leader;
        adopt(w);
        /* The same job once in a list: what is again may be left too. */
        size_t n_unique = 0;
        for (size_t i = 0; i < n_left; i++) {
                bool is_double = false;
                for (size_t k = 0; k < n_unique; k++)
                        is_double |= left[k] == left[i];
                if (!is_double)
                        left[n_unique++] = left[i];
        }
        store_all(next, left, n_unique);
}

/* A transaction that others may have seen is gone with the server that had it; the leader, which
 * never heard of its end, is deposed. */
static void vanish(struct world *w)
{
        struct job *batch[BATCH];
        struct machine *was = leader_of(w), *next = follower_of(w);
        size_t n = any_batch(w, batch), n_left = 0;
        if (!n)
                return; /* no commit would come */
        for (size_t i = 0; i < n; i++)
                batch[i]->reported = 0;
        memory_mirror_doom(&was->mirror);
        box_hand_over(&was->box, batch, n);
        while (!memory_mirror_is_away(&was->mirror))
                (void)box_has(&was->box, 1);
        if (rng_below(&w->dice, 2))
                history_sweep(next->box.archive);
        memory_mirror_store_revert(&w->store);
        memory_mirror_break(&next->mirror);
        history_follow(was->box.archive);
        memory_mirror_set_away(&was->mirror, false);
        for (size_t i = 0; i < n; i++)
                if (!batch[i]->reported)
                        batch[n_left++] = batch[i];
        if (rng_below(&w->dice, 2))
                w->leader = 1 - w->leader;
        machine_lead(leader_of(w));
        adopt(w);
        store_all(leader_of(w), batch, n_left);
}

/* Dies after a commit of the mirror, and comes again with the files as they were. */
static void die(struct world *w)
{
        struct job *batch[BATCH], *again[40];
        struct machine *m = leader_of(w);
        size_t n = any_batch(w, batch);
        memory_mirror_set_on_commit(&m->mirror, take_image, m);
        store_all(m, batch, n);
        memory_mirror_set_on_commit(&m->mirror, NULL, NULL);
        box_close(&m->box);
        if (m->has_image)
                become_image(m);
        machine_open(m);
        if (rng_below(&w->dice, 2))
                w->leader = 1 - w->leader;
        machine_lead(leader_of(w));
        adopt(w);
        n = some_again(w, again);
        store_all(leader_of(w), again, n);
}

static void restart(struct world *w)
{
        struct machine *m = follower_of(w);
        box_close(&m->box);
        machine_open(m);
}

static void removed(struct archive_removal *r)
{
        bool *is_done = r->ctx;
        *is_done = true;
}

static void remove_some(struct world *w)
{
        struct archive_ref refs[40];
        struct machine *m = leader_of(w);
        size_t n = 0;
        uint64_t start = rng_below(&w->dice, IDS);
        for (uint64_t i = 0; i < ARRAY_LEN(refs); i++) {
                uint64_t id = 1 + (start + i * 3) % IDS;
                struct job *job = w->jobs[id];
                if (!job)
                        continue;
                refs[n++] = (struct archive_ref){.id = id, .run = options_of(job).run};
                job_drop(job);
                w->jobs[id] = NULL;
                w->n_jobs--;
        }
        for (int err = ERR_IO; err;) { /* until it works: what is gone already stays so */
                bool is_done = false;
                struct archive_removal r = {.refs = refs, .n = n, .done = removed, .ctx = &is_done};
                m->box.archive->ops->remove(m->box.archive, &r);
                while (!is_done)
                        box_turn(&m->box);
                err = r.err;
        }
}

static void set_faults(struct world *w, unsigned lost, unsigned unknown)
{
        for (size_t i = 0; i < MACHINES; i++)
                memory_mirror_set_faults(&w->machines[i].mirror, lost, unknown);
}

static void move_time(struct world *w)
{
        int64_t now =
                atomic_load(&w->machines[0].box.wall_ms) + (int64_t)rng_below(&w->dice, 30000);
        for (size_t i = 0; i < MACHINES; i++)
                atomic_store(&w->machines[i].box.wall_ms, now);
        set_faults(w, 0, 0);
        history_sweep(leader_of(w)->box.archive); /* what failed before */
        history_sweep(leader_of(w)->box.archive);
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
}

static void note_some(struct world *w)
{
        struct archive *a = leader_of(w)->box.archive;
        struct rollup minute;
        struct buf packed CLEANUP(buf_release) = {0};
        for (uint64_t i = rng_below(&w->dice, 4); i > 0; i--) {
                struct archive_incident incident = {
                        .number = ++w->last_incident,
                        .at_ms = atomic_load(&w->machines[0].box.wall_ms),
                        .event = slice_str("load_level_transition"),
                        .message = slice_str("shop: normal -> critical"),
                };
                a->ops->note(a, &incident);
                struct audit_entry entry = {
                        .number = ++w->last_audit,
                        .at_ms = atomic_load(&w->machines[0].box.wall_ms),
                        .times = 1 + i,
                        .who = slice_str("ann"),
                        .command = slice_str("PAUSE"),
                };
                a->ops->audit(a, &entry);
        }
        minute_init(&minute, w->minute += (int64_t)rng_below(&w->dice, 3));
        minute_job(&minute, "mail", 5, 10);
        rollup_pack(&minute, &packed);
        rollup_release(&minute);
        a->ops->roll(a, buf_slice(&packed));
}

/* ---- the proof ---- */

/* The listing to its end, in pages, next to a walk over the array. */
static void assert_list(struct world *w, struct box *box)
{
        struct archive_query q = {
                .limit = 500, .is_oldest = true, .before_id = IDS + 1, .filter = {.status = -1}};
        uint64_t at = 0;
        for (bool is_more = true; is_more;) {
                box_ask(box, &q);
                for (size_t i = 0; i < q.n_rows; i++) {
                        do
                                at++;
                        while (at <= IDS && !w->jobs[at]);
                        assert_true(at <= IDS);
                        assert_same_view(&q.rows[i], &w->jobs[at]->view);
                        q.after_id = at;
                }
                is_more = q.is_cut || q.n_rows == q.limit;
                if (q.is_cut)
                        q.after_id = q.last_id;
                arena_release(&q.arena);
                q.arena = (struct arena){0};
        }
        while (++at <= IDS)
                assert_null(w->jobs[at]);
        struct archive_stat stat = box_stat(box);
        assert_int_equal(stat.rows, w->n_jobs);
        assert_int_equal(stat.block_jobs, w->n_jobs); /* none is known to the file alone */
}

static void assert_both(struct world *w)
{
        static const char *const sums[] = {
                "SELECT count(*) || ' ' || coalesce(sum(number), 0) || ' ' || "
                "coalesce(max(message), '') FROM incident",
                "SELECT count(*) || ' ' || coalesce(sum(number * times), 0) || ' ' || "
                "coalesce(sum(checksum), 0) FROM audit",
                "SELECT count(*) || ' ' || coalesce(sum(step * at), 0) || ' ' || "
                "coalesce(max(hex(body)), '') || ' ' || coalesce(min(hex(body)), '') FROM minute",
        };
        struct machine *m = leader_of(w);
        set_faults(w, 0, 0);
        /* It writes all that waits when it ends. */
        history_sweep(m->box.archive);
        box_close(&m->box);
        machine_open(m);
        machine_lead(m);
        assert_int_equal(m->box.archive->last_audit, w->last_audit);
        assert_int_equal(m->box.archive->last_incident, w->last_incident);
        adopt(w);
        assert_list(w, &m->box);
        /* A copy has a job twice while the leader packs blocks: from now on it cannot. */
        memory_mirror_set_away(&m->mirror, true);
        history_sweep(follower_of(w)->box.archive);
        assert_list(w, &follower_of(w)->box);
        for (size_t i = 0; i < ARRAY_LEN(sums); i++) {
                char got[8192], want[8192];
                ask_sql(&m->box, sums[i], want, sizeof(want));
                ask_sql(&follower_of(w)->box, sums[i], got, sizeof(got));
                assert_string_equal(got, want);
        }
        memory_mirror_set_away(&m->mirror, false);
}

static void step(struct world *w)
{
        if (rng_below(&w->dice, 2))
                set_faults(w, 0, 0);
        else
                set_faults(w, (unsigned)rng_below(&w->dice, 10), (unsigned)rng_below(&w->dice, 30));
        switch (rng_below(&w->dice, 15)) {
        case 0:
                fail_over(w);
                break;
        case 1:
                die(w);
                break;
        case 2:
                restart(w);
                break;
        case 3:
                remove_some(w);
                break;
        case 4:
                move_time(w);
                break;
        case 5:
                note_some(w);
                break;
        case 6:
                assert_both(w);
                break;
        case 7:
                vanish(w);
                break;
        default:
                store_some(w);
        }
}

static void both_machines_have_what_the_array_says(void **state)
{
        static struct world w;
        (void)state;
        uint64_t seed = dice_init(&w.dice, "history_mirror");
        memory_mirror_store_init(&w.store, seed);
        w.minute = BOX_NOW / 60000;
        for (size_t i = 0; i < MACHINES; i++) {
                struct machine *m = &w.machines[i];
                box_init_folder(&m->box);
                m->box.keep_done_ms = KEEP_DONE;
                m->box.keep_failed_ms = KEEP_FAILED;
                m->box.pack_every_ms = 1; /* at any moment */
                memory_mirror_init(&m->mirror, &w.store);
                machine_open(m);
        }
        machine_lead(&w.machines[0]);
        if (rng_below(&w.dice, 2)) {
                struct job *job = job_plain(BEYOND);
                job->view.finished_ms = INT64_MAX / 2;
                store_all(&w.machines[0], &job, 1);
                job_drop(job);
                w.n_jobs++;
        }
        for (uint64_t n = dice_rounds(60); n > 0; n--)
                step(&w);
        assert_both(&w);
        for (size_t i = 0; i < MACHINES; i++) {
                box_release(&w.machines[i].box);
                memory_mirror_release(&w.machines[i].mirror);
        }
        memory_mirror_store_release(&w.store);
        for (size_t id = 1; id <= IDS; id++)
                if (w.jobs[id])
                        job_drop(w.jobs[id]);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(both_machines_have_what_the_array_says),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
