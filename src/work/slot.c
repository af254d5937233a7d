/* One job's way through a worker: held, run by its handler, its lease kept.
 *
 * The lease is renewed at a third of its time, so two renewals may fail before it is lost.  When
 * the server says that the job is not ours any more (it timed out while we were cut off and
 * somebody else may have it, or it was canceled), the handler is stopped: a command gets TERM and
 * after its grace KILL, a request is dropped.  A command that has ended by itself is never one that
 * was stopped, whatever else came in the same moment: what it did is done, and counts. */
#include "work/slot.h"

#include <signal.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/shown.h"
#include "work/outcome.h"
#include "work/worker.h"

#define EXTEND_MS 30000 /* at the latest: a renewal is also how we hear that a job was canceled */

void slot_end(struct slot *s)
{
        (void)uv_timer_stop(&s->extend);
        (void)uv_timer_stop(&s->limit);
        s->state = SLOT_FREE;
        s->handler = NULL;
        s->task = NULL;
        s->call = NULL;
        s->is_sent = s->has_claim = s->is_repeated = false;
        s->is_lost = s->is_given_up = s->is_too_long = false;
        s->retry_in_ms = HANDLER_RETRY_DEFAULT;
        buf_clear(&s->text);
        job_release(&s->job); /* its arguments may be large */
        job_init(&s->job);
}

/* ---- the handler's end ---- */

static void slot_lose(struct slot *s)
{
        s->worker->lost++;
        slot_end(s);
        worker_step(s->worker);
}

static void slot_fail(struct slot *s, int64_t asked_ms)
{
        s->retry_in_ms = asked_ms;
        if (asked_ms == HANDLER_RETRY_DEFAULT && s->handler && s->handler->retry_in_ms)
                s->retry_in_ms = s->handler->retry_in_ms;
        slot_finish(s, REPORT_FAIL);
}

static void warn_cut(const struct slot *s)
{
        say_warn("work", "the output is longer than allowed, the rest is dropped", "job",
                 SLOT_JOB(s), "hook", s->job.hook, "max", SAY_I64(s->handler->output_max));
}

static void on_task_done(void *ctx, const struct task_result *result)
{
        struct slot *s = ctx;
        struct task_result r = *result;
        int64_t retry_ms = HANDLER_RETRY_DEFAULT;
        buf_clear(&s->text);
        if (r.has_left_behind)
                say_warn("work",
                         "the command left processes behind, those of its group were killed", "job",
                         SLOT_JOB(s), "hook", s->job.hook);
        if (s->is_lost) {
                slot_lose(s);
        } else if (s->is_given_up) {
                slot_finish(s, REPORT_RELEASE);
        } else if (r.signal == 0 && r.exit_code == 0 && !s->is_too_long) {
                while (!r.is_output_cut && r.output.len && r.output.ptr[r.output.len - 1] == '\n')
                        r.output.len--;
                buf_put_slice(&s->text, r.output);
                if (r.is_output_cut)
                        warn_cut(s);
                slot_finish(s, REPORT_COMPLETE);
        } else {
                bool has_code = r.signal == 0 && !s->is_too_long;
                if (!outcome_take_retry(&r.errors, &retry_ms) &&
                    !outcome_take_retry(&r.output, &retry_ms) && has_code &&
                    handler_is_final(s->handler, r.exit_code))
                        retry_ms = HANDLER_RETRY_NEVER;
                outcome_put_failure(&s->text, s->handler, &r, s->is_too_long ? s->job.limit_ms : 0);
                slot_fail(s, retry_ms);
        }
        worker_step(s->worker); /* a job taken ahead need not wait for the server's answer */
}

static void on_call_done(void *ctx, const struct call_result *r)
{
        struct slot *s = ctx;
        buf_clear(&s->text);
        if (r->is_done) {
                buf_put_slice(&s->text, r->body);
                if (r->is_body_cut)
                        warn_cut(s);
                slot_finish(s, REPORT_COMPLETE);
        } else {
                outcome_put_text(&s->text, r->error);
                slot_fail(s, r->retry_in_ms);
        }
        worker_step(s->worker);
}

/* ---- stopping ---- */

static void on_kill(uv_timer_t *timer)
{
        struct slot *s = timer->data;
        if (s->task)
                task_kill(s->task, SIGKILL);
}

static void slot_terminate(struct slot *s)
{
        uint64_t grace = (uint64_t)s->handler->grace_ms;
        task_kill(s->task, SIGTERM);
        /* Repeated: what a command forked in the moment of the kill dies with the next one. */
        (void)uv_timer_start(&s->limit, on_kill, grace, grace ? grace : 1000);
}

static void on_too_long(uv_timer_t *timer)
{
        struct slot *s = timer->data;
        if (!s->task || task_has_ended(s->task))
                return;
        s->is_too_long = true;
        slot_terminate(s);
}

void slot_give_up(struct slot *s)
{
        if (s->state != SLOT_RUNNING && s->state != SLOT_HELD)
                return;
        s->is_given_up = !s->task || !task_has_ended(s->task);
        if (s->task) {
                task_kill(s->task, SIGKILL);
                return;
        }
        if (s->call)
                call_cancel(TAKE_PTR(s->call));
        slot_finish(s, REPORT_RELEASE);
}

/* ---- the lease ---- */

static void slot_lost(struct slot *s, const char *reason)
{
        say_warn("work", "the job is not ours any more, stopping its handler", "job", SLOT_JOB(s),
                 "hook", s->job.hook, "reason", reason);
        if (s->task) {
                s->is_lost = true;
                slot_terminate(s);
                return;
        }
        if (s->call)
                call_cancel(TAKE_PTR(s->call));
        slot_lose(s);
}

static void on_extended(void *ctx, int err, const struct value *v, const struct problem *p)
{
        struct slot *s = ctx;
        bool is_about_this = s->extend_fence == s->job.fence; /* not about the slot's last job */
        s->extend_fence = 0;
        if (!v || !is_about_this || s->is_lost || s->is_given_up ||
            (s->state != SLOT_RUNNING && s->state != SLOT_HELD))
                return;
        if (err == OK) {
                s->lease_until_ns = s->extend_sent_ns + s->job.lease_ms * NS_PER_MS;
                worker_step(s->worker);
                return;
        }
        if (!is_loss(err))
                return; /* the next third may go better */
        if (s->task && task_has_ended(s->task))
                return; /* what it did is done: its report may still be in time */
        slot_lost(s, p->detail);
}

void slot_extend(struct slot *s)
{
        if ((s->state != SLOT_RUNNING && s->state != SLOT_HELD) || s->is_lost ||
            !link_is_up(s->worker->reports))
                return;
        if (s->extend_fence) /* the last one is not answered yet */
                return;
        s->extend_fence = s->job.fence;
        s->extend_sent_ns = clock_boot_ns();
        const struct slice argv[] = {SLICE_LIT("EXTEND"), LINK_INT(s->job.id),
                                     slice_str(s->job.token), LINK_INT(s->job.lease_ms)};
        link_send(s->worker->reports, argv, ARRAY_LEN(argv),
                  (struct link_answer){on_extended, s, ANSWER_MS});
}

static void on_extend_timer(uv_timer_t *timer)
{
        slot_extend(timer->data);
}

/* ---- the handler's start ---- */

static int slot_spawn(struct slot *s, struct problem *p)
{
        const struct handler *h = s->handler;
        struct job_values values;
        struct words words;
        job_values(&s->job, &values);
        int r = words_fill(&h->command, values.all, JOB_VALUES, &words, p);
        if (r != OK)
                return r;
        struct buf url CLEANUP(buf_release) = {0};
        server_url_put(&url, s->worker->options->url);
        char **env = job_env(&s->job, buf_cstr(&url), &h->env);
        struct task_spec spec = {
                .command = {.argv = words.argv,
                            .env = env,
                            .dir = h->dir,
                            .files = &s->worker->files,
                            .memory_bytes = h->memory_bytes,
                            .cpu_s = h->cpu_s,
                            .nice = h->nice,
                            .umask = h->umask,
                            .account = h->account.user ? &h->account : NULL},
                .input = buf_slice(&s->job.args),
                .output_max = h->output_max,
                .passes_errors = h->passes_errors,
                .done = on_task_done,
                .ctx = s,
        };
        r = task_start(&s->worker->loop, &spec, &s->task, p);
        job_env_free(env);
        words_release(&words);
        if (r == OK && s->job.limit_ms)
                (void)uv_timer_start(&s->limit, on_too_long, (uint64_t)s->job.limit_ms, 0);
        return r;
}

/* The server counts MAXRUN from the grant, and ends the lease then. */
static int64_t limit_of(const struct slot *s)
{
        int64_t limit_ms = s->handler->timeout_ms;
        int64_t left_ms = s->job.maxrun_ms - (clock_boot_ns() - s->taken_ns) / NS_PER_MS;
        if (!s->job.maxrun_ms)
                return limit_ms;
        if (left_ms < 1)
                left_ms = 1;
        return limit_ms && limit_ms < left_ms ? limit_ms : left_ms;
}

static int slot_begin(struct slot *s, struct problem *p)
{
        const struct handlers *handlers = s->worker->options->handlers;
        s->handler = handlers_find(handlers, s->job.hook);
        if (!s->handler)
                return problem_set(p, ERR_NOTFOUND, "no handler for hook %s in %s",
                                   SHOWN_MAX(slice_str(s->job.hook), 255), handlers->origin);
        s->job.limit_ms = limit_of(s);
        if (s->handler->kind != HANDLER_HTTP)
                return slot_spawn(s, p);
        struct call_spec spec = {s->worker->curl, s->handler, &s->job, on_call_done, s};
        return call_start(&spec, &s->call, p);
}

bool slot_is_late(const struct slot *s)
{
        return s->state == SLOT_HELD && clock_boot_ns() >= s->lease_until_ns;
}

void slot_run(struct slot *s)
{
        struct problem p = {0};
        ASSERT(s->state == SLOT_HELD);
        s->state = SLOT_RUNNING;
        int r = slot_begin(s, &p);
        if (r == OK) {
                say_info("work", "started", "job", SLOT_JOB(s), "hook", s->job.hook, "queue",
                         s->job.queue, "attempt", SAY_I64(s->job.attempt));
                return;
        }
        say_error("work", "cannot begin", "job", SLOT_JOB(s), "hook", s->job.hook, "error",
                  p.detail);
        buf_put_str(&s->text, p.detail);
        /* No room for a process is this machine's trouble, not the job's. */
        if (r == ERR_UNAVAIL)
                slot_finish(s, REPORT_RELEASE);
        else
                slot_fail(s, HANDLER_RETRY_DEFAULT);
}

void slot_take(struct slot *s, const struct value *row)
{
        struct worker *w = s->worker;
        slot_end(s);
        if (!job_read(&s->job, row)) {
                say_error("work", "a job was granted in a form that is not understood");
                return;
        }
        s->state = SLOT_HELD;
        s->order = w->n_taken++;
        s->taken_ns = clock_boot_ns();
        s->lease_until_ns = s->taken_ns + s->job.lease_ms * NS_PER_MS;
        uint64_t every = (uint64_t)s->job.lease_ms / 3;
        if (every > EXTEND_MS)
                every = EXTEND_MS;
        (void)uv_timer_start(&s->extend, on_extend_timer, every, every);
        if (w->is_draining)
                slot_give_up(s);
}

void slot_init(struct slot *s, struct worker *w)
{
        *s = (struct slot){.worker = w, .retry_in_ms = HANDLER_RETRY_DEFAULT};
        buf_init(&s->text, 0);
        job_init(&s->job);
        (void)uv_timer_init(&w->loop, &s->extend);
        (void)uv_timer_init(&w->loop, &s->limit);
        s->extend.data = s->limit.data = s;
}

void slot_close(struct slot *s)
{
        buf_release(&s->text);
        job_release(&s->job);
        uv_close((uv_handle_t *)&s->extend, NULL);
        uv_close((uv_handle_t *)&s->limit, NULL);
}
