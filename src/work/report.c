/* The way of a job's end to the server.
 *
 * A report that was sent and not answered is sent again after reconnecting.  If the first had
 * arrived, the second is refused by its token, and the job itself is asked for: if its last lease
 * is ours, the report was taken. */
#include <stdio.h>

#include "work/worker.h"

#define RESPAWN_IN "5000" /* ms: the machine has no room for a process now */

bool is_loss(int err)
{
        return err == ERR_NOTOWNER || err == ERR_STATE || err == ERR_NOTFOUND ||
               err == ERR_CANCELED;
}

static void count_report(struct slot *s)
{
        struct worker *w = s->worker;
        static const char *const said[] = {
                [REPORT_COMPLETE] = "completed",
                [REPORT_FAIL] = "failed",
                [REPORT_RELEASE] = "released",
        };
        uint64_t *const counts[] = {
                [REPORT_COMPLETE] = &w->completed,
                [REPORT_FAIL] = &w->failed,
                [REPORT_RELEASE] = &w->released,
        };
        ++*counts[s->report];
        if (s->report == REPORT_FAIL)
                say_warn("work",
                         s->retry_in_ms == HANDLER_RETRY_NEVER ? "failed, not to be tried again"
                                                               : said[s->report],
                         "job", SLOT_JOB(s), "hook", s->job.hook, "error", buf_cstr(&s->text));
        else
                say_info("work", said[s->report], "job", SLOT_JOB(s), "hook", s->job.hook);
}

/* The server took the report, and may have given the next job with its answer. */
static void report_taken(struct slot *s, const struct value *v)
{
        struct worker *w = s->worker;
        bool had_claim = s->has_claim;
        count_report(s);
        slot_end(s);
        if (had_claim) {
                w->n_asked--;
                w->is_dry = v->n == 0;
                if (v->type == VALUE_LIST && v->n > 0) {
                        w->n_granted++;
                        slot_take(s, &v->items[0]);
                }
        } else {
                w->is_dry = false;
        }
        worker_step(w);
}

static bool is_passing(int err)
{
        return err == ERR_STOPPING || err == ERR_UNAVAIL || err == ERR_NOSPACE ||
               err == ERR_NOMEM || err == ERR_LIMIT || err == ERR_INTERNAL || err == ERR_TIMEOUT;
}

static void report_lost(struct slot *s, const char *reason)
{
        s->worker->lost++;
        say_warn("work", "the result was not taken", "job", SLOT_JOB(s), "hook", s->job.hook,
                 "reason", reason);
        slot_end(s);
        worker_step(s->worker);
}

/* Was it our report that ended the job?  Its last lease says so. */
static void on_asked(void *ctx, int err, const struct value *v, const struct problem *p)
{
        struct slot *s = ctx;
        s->is_sent = false;
        if (!v) /* lost again: the report is repeated, and then this question */
                return;
        bool is_complete = slice_eq(value_text(value_get(v, "status")), SLICE_LIT("complete"));
        if (err == OK && value_int(value_get(v, "fence"), 0) == s->job.fence &&
            is_complete == (s->report == REPORT_COMPLETE))
                report_taken(s, v);
        else
                report_lost(s, err == OK ? "another has the job" : p->detail);
}

static void report_refused(struct slot *s, int err, const struct problem *p)
{
        if (is_passing(err)) {
                say_warn("work", "the server cannot take a result now, retrying", "job",
                         SLOT_JOB(s), "reason", p->detail);
                worker_pause(s->worker, 1000);
                return;
        }
        bool is_ours = !is_loss(err);
        if (is_ours && s->report == REPORT_COMPLETE) {
                buf_clear(&s->text);
                buf_printf(&s->text, "the result was refused: %s", p->detail);
                s->report = REPORT_FAIL;
                slot_report(s);
                return;
        }
        if (!is_ours && s->is_repeated && link_is_up(s->worker->reports)) {
                /* The first report may have arrived. */
                const struct slice argv[] = {SLICE_LIT("JOB"), LINK_INT(s->job.id)};
                s->is_sent = true;
                link_send(s->worker->reports, argv, ARRAY_LEN(argv),
                          (struct link_answer){on_asked, s, ANSWER_MS});
                return;
        }
        report_lost(s, p->detail);
}

static void on_reported(void *ctx, int err, const struct value *v, const struct problem *p)
{
        struct slot *s = ctx;
        s->is_sent = false;
        if (v && err == OK) {
                report_taken(s, v);
                return;
        }
        if (s->has_claim) {
                s->has_claim = false;
                s->worker->n_asked--;
        }
        if (!v) { /* the link is lost; when it is back, worker.c sends it again */
                s->is_repeated = true;
                return;
        }
        report_refused(s, err, p);
}

struct report_words {
        struct slice argv[WORK_QUEUES_MAX + 24];
        size_t argc;
};

static void add(struct report_words *r, struct slice word)
{
        ASSERT(r->argc < ARRAY_LEN(r->argv));
        r->argv[r->argc++] = word;
}

/* A slot becomes free and no CLAIM is sent: the answer to COMPLETE may bring the next job. */
static bool may_claim(const struct slot *s)
{
        const struct worker *w = s->worker;
        /* A result that reads like the keyword would be taken for it. */
        bool is_keyword = slice_eq_nocase(buf_slice(&s->text), SLICE_LIT("claim"));
        return s->report == REPORT_COMPLETE && !s->is_repeated && !is_keyword && !w->is_draining &&
               !w->is_claiming && worker_left(w) > 0;
}

void slot_report(struct slot *s)
{
        static const struct slice names[] = {
                [REPORT_COMPLETE] = SLICE_LIT("COMPLETE"),
                [REPORT_FAIL] = SLICE_LIT("FAIL"),
                [REPORT_RELEASE] = SLICE_LIT("RELEASE"),
        };
        struct worker *w = s->worker;
        if (s->state != SLOT_REPORTING || s->is_sent || !link_is_up(w->reports))
                return;
        struct report_words r = {.argc = 0};
        struct slice retry_in = LINK_INT(s->retry_in_ms);
        struct claim_words claim;
        add(&r, names[s->report]);
        add(&r, LINK_INT(s->job.id));
        add(&r, slice_str(s->job.token));
        if (s->report != REPORT_RELEASE)
                add(&r, buf_slice(&s->text));
        if (s->report == REPORT_FAIL && s->retry_in_ms == HANDLER_RETRY_NEVER)
                add(&r, SLICE_LIT("NORETRY"));
        if (s->report == REPORT_FAIL && s->retry_in_ms >= 0) {
                add(&r, SLICE_LIT("RETRYIN"));
                add(&r, retry_in);
        }
        if (s->report == REPORT_RELEASE && !s->is_given_up) {
                add(&r, SLICE_LIT("IN"));
                add(&r, SLICE_LIT(RESPAWN_IN));
        }
        if (may_claim(s)) {
                s->has_claim = true;
                w->n_asked++;
                add(&r, SLICE_LIT("CLAIM"));
                worker_claim_words(w, 1, 0, &claim);
                for (size_t i = 0; i < claim.argc; i++)
                        add(&r, claim.argv[i]);
        }
        s->is_sent = true;
        link_send(w->reports, r.argv, r.argc, (struct link_answer){on_reported, s, ANSWER_MS});
}

void slot_finish(struct slot *s, enum report report)
{
        (void)uv_timer_stop(&s->extend);
        (void)uv_timer_stop(&s->limit);
        s->state = SLOT_REPORTING;
        s->task = NULL;
        s->call = NULL;
        s->report = report;
        slot_report(s);
}
