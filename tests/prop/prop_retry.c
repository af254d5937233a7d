/* Jobs that are taken back from history, with crashes at any point: of the log's batch under way,
 * of the archive's transaction, of both.  Against a model that knows of each job only what clients
 * were told:
 *
 *   (1) no job is lost, and none is twice: live or in history, and listed once
 *   (2) the number of its run never goes back, and grows by one with each RETRY that was answered;
 *       one that was not answered may have happened or not
 *   (3) what was answered stays: a job that ended is as it ended, one that was retried is not in
 *       the dead-letter list
 *   (4) replay equals live
 */
#include "../unit/check.h"

#include <stdio.h>
#include <stdlib.h>

#include "../support/rig.h"
#include "core/kernel.h"
#include "dice.h"

#define JOBS   12
#define STATES 12

struct known {
        enum job_status status;
        uint64_t run;
        char token[33]; /* while it is in progress */
};

/* What clients were told of a job.  The first of its states is durable, each of the others may be
 * lost in a crash together with all that follow it. */
struct model_job {
        struct known states[STATES];
        size_t n;
};

struct world {
        struct rig rig;
        struct rng dice;
        struct model_job jobs[JOBS + 1];
};

static const char *id_text(uint64_t id)
{
        static char text[24];
        (void)snprintf(text, sizeof(text), "%llu", (unsigned long long)id);
        return text;
}

static struct known *now(struct world *w, uint64_t id)
{
        return &w->jobs[id].states[w->jobs[id].n - 1];
}

/* Everything that was answered is durable. */
static void confirm(struct world *w)
{
        assert_true(core_is_settled(w->rig.core));
        for (uint64_t id = 1; id <= JOBS; id++) {
                w->jobs[id].states[0] = *now(w, id);
                w->jobs[id].n = 1;
        }
}

static void sync_all(struct world *w)
{
        while (!core_is_settled(w->rig.core)) {
                core_commit(w->rig.core);
                memory_log_sync(&w->rig.log);
        }
        confirm(w);
}

static struct known *become(struct world *w, uint64_t id, enum job_status status)
{
        if (w->jobs[id].n == STATES)
                sync_all(w);
        struct known next = *now(w, id);
        next.status = status;
        w->jobs[id].states[w->jobs[id].n++] = next;
        return now(w, id);
}

static uint64_t run_of(struct slice packed)
{
        struct job_options o;
        assert_true(options_unpack(packed, &o));
        return o.run;
}

/* The job as the server has it, wherever it is. */
static struct job_view see(struct world *w, uint64_t id)
{
        struct job_view v;
        const struct job *job = state_job(&w->rig.core->state, id);
        const struct job_view *old = memory_archive_find(&w->rig.archive, id);
        if (job) {
                job_view(job, &v);
                /* A live job that has ended may be in history too, as itself; else it is later. */
                if (old && job->state != JOB_FINISHED)
                        assert_true(run_of(old->options) < run_of(v.options));
                if (old && job->state == JOB_FINISHED)
                        assert_true(run_of(old->options) <= run_of(v.options));
                return v;
        }
        assert_non_null(old); /* (1) */
        return *old;
}

static bool is_as(struct world *w, uint64_t id, const struct known *k)
{
        struct job_view v = see(w, id);
        return v.status == k->status && run_of(v.options) == k->run;
}

static void check_all(struct world *w)
{
        state_check(&w->rig.core->state);
        for (uint64_t id = 1; id <= JOBS; id++)
                assert_true(is_as(w, id, now(w, id)));
}

/* Listed once, and among the failed only if it is failed. */
static void check_lists(struct world *w)
{
        char size[24];
        (void)snprintf(size, sizeof(size), "%d", 1 + (int)rng_below(&w->dice, JOBS));
        for (int is_failed = 0; is_failed < 2; is_failed++) {
                unsigned seen = 0;
                char cursor[24] = "";
                do {
                        const char *text = is_failed ? rig_do(&w->rig, "JOBS", "LIMIT", size,
                                                              "CURSOR", cursor, "STATUS", "failed")
                                                     : rig_do(&w->rig, "JOBS", "LIMIT", size,
                                                              "CURSOR", cursor);
                        for (const char *at = text; (at = strstr(at, "{id:")); at += 4) {
                                unsigned bit = 1U << strtoul(at + 4, NULL, 10);
                                assert_false(seen & bit);
                                seen |= bit;
                        }
                        const char *end = strstr(text, "] cursor:'");
                        assert_non_null(end);
                        cursor[0] = '\0';
                        (void)sscanf(end, "] cursor:'%23[0-9]", cursor);
                } while (cursor[0]);
                for (uint64_t id = 1; id <= JOBS; id++)
                        assert_int_equal(seen >> id & 1,
                                         !is_failed || see(w, id).status == JOB_FAILED);
        }
}

/* ---- what clients do ---- */

static void do_claim(struct world *w)
{
        char token[33];
        uint64_t id = rig_claim(&w->rig, "w", "default", token);
        if (!id)
                return;
        assert_int_equal(now(w, id)->status, JOB_PENDING);
        memcpy(become(w, id, JOB_RUNNING)->token, token, sizeof(token));
}

static void do_end(struct world *w, uint64_t id)
{
        const struct known *k = now(w, id);
        if (k->status == JOB_PENDING && rng_below(&w->dice, 4) == 0) {
                assert_string_equal(rig_do(&w->rig, "CANCEL", id_text(id)), "OK");
                (void)become(w, id, JOB_CANCELED);
        } else if (k->status == JOB_RUNNING && rng_below(&w->dice, 2)) {
                assert_string_equal(rig_do(&w->rig, "FAIL", id_text(id), k->token, "no"),
                                    "'failed'");
                (void)become(w, id, JOB_FAILED);
        } else if (k->status == JOB_RUNNING) {
                assert_string_equal(rig_do(&w->rig, "COMPLETE", id_text(id), k->token), "OK");
                (void)become(w, id, JOB_COMPLETE);
        }
}

/* Leases run out for good: the jobs are failed, and in their grace time; or that ends. */
static void do_time(struct world *w)
{
        rig_pass_ms(&w->rig, rng_below(&w->dice, 2) ? 1000 : 300);
        for (uint64_t id = 1; id <= JOBS; id++)
                if (now(w, id)->status == JOB_RUNNING && see(w, id).status == JOB_FAILED)
                        (void)become(w, id, JOB_FAILED);
}

static void do_retry(struct world *w, uint64_t id)
{
        enum job_status status = now(w, id)->status;
        const char *text = rig_do(&w->rig, "RETRY", id_text(id));
        if (strcmp(text, "(waits)") == 0) { /* on its way to the archive */
                if (rng_below(&w->dice, 4) == 0) {
                        session_release(w->rig.core, &w->rig.me.base);
                        return;
                }
                while (!w->rig.me.is_answered) {
                        memory_archive_commit(&w->rig.archive, 1 + rng_below(&w->dice, 4));
                        core_commit(w->rig.core);
                        memory_log_sync(&w->rig.log);
                        core_archive_poll(w->rig.core);
                }
                text = text_reply_str(&w->rig.me.reply);
        }
        if (status == JOB_FAILED || status == JOB_CANCELED) {
                assert_string_equal(text, "'pending'");
                become(w, id, JOB_PENDING)->run++;
        } else if (status == JOB_PENDING) {
                assert_string_equal(text, "'pending'");
        } else {
                assert_memory_equal(text, "!STATE", 6);
        }
}

/* Of what is in history: exactly the failed ones come back. */
static void do_retry_many(struct world *w)
{
        bool is_back[JOBS + 1] = {false};
        size_t n = 0;
        char want[64];
        sync_all(w);
        core_commit(w->rig.core); /* with nothing to write it hands over what has ended */
        memory_archive_commit(&w->rig.archive, SIZE_MAX);
        rig_turn(&w->rig);
        sync_all(w);
        for (uint64_t id = 1; id <= JOBS; id++) {
                is_back[id] =
                        now(w, id)->status == JOB_FAILED && !state_job(&w->rig.core->state, id);
                n += is_back[id];
        }
        (void)snprintf(want, sizeof(want), "{retried:%zu skipped:0 cursor:''", n);
        assert_memory_equal(rig_do(&w->rig, "RETRYMANY"), want, strlen(want));
        for (uint64_t id = 1; id <= JOBS; id++)
                if (is_back[id])
                        become(w, id, JOB_PENDING)->run++;
}

/* ---- crashes ---- */

/* The latest of its states that it can be in now; a lease that is there again may have run out. */
static void find_state(struct world *w, uint64_t id)
{
        struct model_job *m = &w->jobs[id];
        for (size_t i = m->n; i-- > 0;) {
                struct known failed = m->states[i];
                bool was_running = failed.status == JOB_RUNNING;
                m->n = i + 1;
                if (is_as(w, id, &m->states[i]))
                        return;
                failed.status = JOB_FAILED;
                if (was_running && is_as(w, id, &failed)) {
                        (void)become(w, id, JOB_FAILED);
                        return;
                }
        }
        fail_msg("job %llu is in no state that was told", (unsigned long long)id);
}

/* What was not durable may be lost; the batch in flight may have reached the disk or not, and what
 * the archive was given may be committed and not reported. */
static void crash(struct world *w)
{
        struct rig *rig = &w->rig;
        bool is_clean = core_is_settled(rig->core);
        uint64_t digest = state_digest(&rig->core->state);
        memory_archive_commit(&rig->archive, rng_below(&w->dice, 6));
        if (rig->log.in_flight && rng_below(&w->dice, 2))
                buf_release(&rig->log.batches[--rig->log.last_seq]);
        rig_restart(rig);
        if (is_clean && core_is_settled(rig->core))
                assert_int_equal(state_digest(&rig->core->state), digest); /* (4) */
        for (uint64_t id = 1; id <= JOBS; id++)
                find_state(w, id);
        check_all(w);
}

static void step(struct world *w)
{
        uint64_t id = 1 + rng_below(&w->dice, JOBS);
        switch (rng_below(&w->dice, 16)) {
        case 0:
                crash(w);
                break;
        case 1:
                do_time(w);
                break;
        case 2:
                check_lists(w);
                break;
        case 3:
                do_retry_many(w);
                break;
        case 4:
        case 5:
                memory_archive_commit(&w->rig.archive, rng_below(&w->dice, 5));
                core_archive_poll(w->rig.core);
                break;
        case 6:
                sync_all(w);
                break;
        case 7:
        case 8:
        case 9:
                do_retry(w, id);
                break;
        case 10:
        case 11:
        case 12:
                do_claim(w);
                break;
        default:
                do_end(w, id);
        }
        if (rng_below(&w->dice, 2))
                memory_log_sync(&w->rig.log);
        if (core_is_settled(w->rig.core))
                confirm(w);
        check_all(w);
}

static void jobs_come_back_exactly_once_whenever_weir_is_killed(void **state)
{
        (void)state;
        struct rng dice;
        dice_init(&dice, "retry");
        for (uint64_t round = dice_rounds(15); round > 0; round--) {
                static struct world w;
                memset(&w, 0, sizeof(w));
                rng_init_seed(&w.dice, rng_u64(&dice));
                rig_init(&w.rig);
                for (uint64_t id = 1; id <= JOBS; id++) {
                        rig_do(&w.rig, "ENQUEUE", "h", "x", "ATTEMPTS", "1", "TIMEOUT", "1000");
                        w.jobs[id].n = 1; /* pending, run 0 */
                }
                w.rig.log.is_manual = true;
                for (int i = 0; i < 400; i++)
                        step(&w);
                sync_all(&w);
                check_all(&w);
                rig_release(&w.rig);
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(jobs_come_back_exactly_once_whenever_weir_is_killed),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
