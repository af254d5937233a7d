/* One job's way through a worker: run the command, keep the lease, report the end.
 *
 * The lease is renewed at a third of its time, so two renewals may fail before it is lost.  When
 * the server says that the job is not ours any more (it timed out while we were cut off and
 * somebody else may have it, or it was canceled), the command is killed: TERM, and 5 s later
 * KILL.
 *
 * A report that was sent and not answered is sent again after reconnecting.  If the first had
 * arrived, the second is refused by its token, and the job itself is asked for: if its last lease
 * is ours, the report was taken. */
#include "work/slot.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/say.h"
#include "work/worker.h"

#define KILL_AFTER_MS 5000
#define RESPAWN_IN    "5000" /* ms: the machine has no room for a process now */

static const char *job_name(const struct slot *s, char *buf24)
{
        return say_i64(buf24, s->id);
}
#define JOB_NAME(s) (job_name((s), (char[24]){0}))

static void slot_end(struct slot *s)
{
        (void)uv_timer_stop(&s->extend);
        (void)uv_timer_stop(&s->limit);
        s->state = SLOT_FREE;
        s->task = NULL;
        s->is_sent = s->has_claim = s->is_repeated = false;
        s->is_lost = s->is_given_up = s->is_too_long = false;
        buf_clear(&s->text);
}

static bool copy_text(char *to, size_t size, const struct value *v)
{
        struct slice s = value_text(v);
        if (s.len >= size)
                return false;
        if (s.len)
                memcpy(to, s.ptr, s.len);
        to[s.len] = '\0';
        return true;
}

/* id, token, hook, args, attempt, queue, group, priority, attempts, fence, lease_ms, created_ms */
static bool slot_read_row(struct slot *s, const struct value *row)
{
        if (row->type != VALUE_LIST || row->n < 11)
                return false;
        s->id = value_int(&row->items[0], 0);
        s->attempt = value_int(&row->items[4], 0);
        s->priority = value_int(&row->items[7], 0);
        s->attempts = value_int(&row->items[8], 0);
        s->fence = value_int(&row->items[9], 0);
        s->lease_ms = value_int(&row->items[10], 0);
        return s->id > 0 && s->lease_ms > 0 &&
               copy_text(s->token, sizeof(s->token), &row->items[1]) &&
               copy_text(s->hook, sizeof(s->hook), &row->items[2]) &&
               copy_text(s->queue, sizeof(s->queue), &row->items[5]) &&
               copy_text(s->group, sizeof(s->group), &row->items[6]);
}

#define ENV_ADDED 9

static char *env_entry(const char *name, const char *value)
{
        size_t len = strlen(name) + strlen(value) + 2;
        char *entry = xmalloc(len);
        (void)snprintf(entry, len, "%s=%s", name, value);
        return entry;
}

static char *env_number(const char *name, int64_t value)
{
        char digits[24];
        (void)snprintf(digits, sizeof(digits), "%lld", (long long)value);
        return env_entry(name, digits);
}

/* Our environment with the job's variables in front; the first ENV_ADDED entries are owned. */
static char **env_new(const struct slot *s)
{
        size_t n = 0, at = 0;
        while (environ[n])
                n++;
        char **env = xcalloc(n + ENV_ADDED + 1, sizeof(char *));
        env[at++] = env_number("WEIR_JOB_ID", s->id);
        env[at++] = env_entry("WEIR_HOOK", s->hook);
        env[at++] = env_entry("WEIR_QUEUE", s->queue);
        env[at++] = env_entry("WEIR_GROUP", s->group);
        env[at++] = env_number("WEIR_ATTEMPT", s->attempt);
        env[at++] = env_number("WEIR_ATTEMPTS", s->attempts);
        env[at++] = env_number("WEIR_PRIORITY", s->priority);
        env[at++] = env_number("WEIR_FENCE", s->fence);
        env[at++] = env_number("WEIR_LEASE_MS", s->lease_ms);
        ASSERT(at == ENV_ADDED);
        for (size_t i = 0; i < n; i++) {
                bool is_ours = false;
                for (size_t k = 0; k < ENV_ADDED && !is_ours; k++)
                        is_ours = strncmp(environ[i], env[k],
                                          (size_t)(strchr(env[k], '=') - env[k]) + 1) == 0;
                if (!is_ours)
                        env[at++] = environ[i];
        }
        return env;
}

static void env_free(char **env)
{
        for (size_t i = 0; i < ENV_ADDED; i++)
                free(env[i]);
        free(env);
}

static void slot_finish(struct slot *s, enum report report)
{
        (void)uv_timer_stop(&s->extend);
        (void)uv_timer_stop(&s->limit);
        s->state = SLOT_REPORTING;
        s->task = NULL;
        s->report = report;
        slot_report(s);
}

/* Errors are shown to people: bytes that are no UTF-8 and control characters are not. */
static void put_error_text(struct buf *b, struct slice text)
{
        bool is_utf8 = slice_is_utf8(text);
        for (size_t i = 0; i < text.len; i++) {
                unsigned char c = (unsigned char)text.ptr[i];
                bool is_fine =
                        c == '\n' || c == '\t' || (c >= 0x20 && c < 0x7f) || (c >= 0x80 && is_utf8);
                buf_put_byte(b, is_fine ? (char)c : '?');
        }
}

static void describe_failure(struct slot *s, const struct task_result *r)
{
        if (s->is_too_long)
                buf_printf(&s->text, "killed after %lld s (--timeout)",
                           (long long)(s->worker->options->timeout_ms / MS_PER_S));
        else if (r->signal)
                buf_printf(&s->text, "killed by signal %d", r->signal);
        else
                buf_printf(&s->text, "exit %d", r->exit_code);
        if (r->errors.len) {
                buf_put_str(&s->text, ": ");
                put_error_text(&s->text, r->errors);
        }
}

static void keep_result(struct slot *s, const struct task_result *r)
{
        struct slice output = r->output;
        while (!r->is_output_cut && output.len && output.ptr[output.len - 1] == '\n')
                output.len--;
        buf_put_slice(&s->text, output);
        if (r->is_output_cut)
                say_warn("work", "the output is longer than --output, the rest is dropped", "job",
                         JOB_NAME(s), "hook", s->hook);
}

static void on_task_done(void *ctx, const struct task_result *r)
{
        struct slot *s = ctx;
        buf_clear(&s->text);
        if (s->is_lost) {
                s->worker->lost++;
                slot_end(s);
                worker_step(s->worker);
        } else if (s->is_given_up) {
                slot_finish(s, REPORT_RELEASE);
        } else if (r->signal == 0 && r->exit_code == 0 && !s->is_too_long) {
                keep_result(s, r);
                slot_finish(s, REPORT_COMPLETE);
        } else {
                describe_failure(s, r);
                slot_finish(s, REPORT_FAIL);
        }
}

static void on_kill(uv_timer_t *timer)
{
        struct slot *s = timer->data;
        if (s->task)
                task_kill(s->task, SIGKILL);
}

static void slot_terminate(struct slot *s)
{
        task_kill(s->task, SIGTERM);
        (void)uv_timer_start(&s->limit, on_kill, KILL_AFTER_MS, KILL_AFTER_MS);
}

static void on_too_long(uv_timer_t *timer)
{
        struct slot *s = timer->data;
        if (!s->task)
                return;
        s->is_too_long = true;
        slot_terminate(s);
}

static void on_extend_timer(uv_timer_t *timer)
{
        slot_extend(timer->data);
}

static void start_timers(struct slot *s)
{
        uint64_t third = (uint64_t)s->lease_ms / 3;
        (void)uv_timer_start(&s->extend, on_extend_timer, third, third);
        if (s->worker->options->timeout_ms)
                (void)uv_timer_start(&s->limit, on_too_long,
                                     (uint64_t)s->worker->options->timeout_ms, 0);
}

static int slot_spawn(struct slot *s, struct slice args, struct problem *p)
{
        const struct work_options *o = s->worker->options;
        char id[24];
        (void)snprintf(id, sizeof(id), "%lld", (long long)s->id);
        const struct word_value values[] = {{"id", slice_str(id)},
                                            {"hook", slice_str(s->hook)},
                                            {"queue", slice_str(s->queue)}};
        struct words words;
        int r = words_fill(&o->command, values, ARRAY_LEN(values), &words, p);
        if (r != OK)
                return r;
        struct task_spec spec = {
                .argv = words.argv,
                .env = env_new(s),
                .input = args,
                .output_max = o->output_max,
                .passes_errors = o->passes_errors,
                .done = on_task_done,
                .ctx = s,
        };
        r = task_start(&s->worker->loop, &spec, &s->task, p);
        env_free(spec.env);
        words_release(&words);
        return r;
}

void slot_take(struct slot *s, const struct value *row)
{
        struct problem p = {0};
        slot_end(s);
        if (!slot_read_row(s, row)) {
                say_error("work", "a job was granted in a form that is not understood");
                return;
        }
        if (s->worker->is_draining) {
                s->is_given_up = true;
                slot_finish(s, REPORT_RELEASE);
                return;
        }
        s->state = SLOT_RUNNING;
        int r = slot_spawn(s, value_text(&row->items[3]), &p);
        if (r == OK) {
                start_timers(s);
                say_info("work", "started", "job", JOB_NAME(s), "hook", s->hook, "queue", s->queue,
                         "attempt", SAY_I64(s->attempt));
                return;
        }
        say_error("work", "cannot run the command", "job", JOB_NAME(s), "hook", s->hook, "error",
                  p.detail);
        buf_put_str(&s->text, p.detail);
        /* No room for a process is this machine's trouble, not the job's. */
        slot_finish(s, r == ERR_UNAVAIL ? REPORT_RELEASE : REPORT_FAIL);
}

static void on_extended(void *ctx, int err, const struct value *v, const struct problem *p)
{
        struct slot *s = ctx;
        bool is_about_this = s->extend_fence == s->fence; /* not about the slot's last job */
        s->extend_fence = 0;
        if (err == OK || !v || !is_about_this || s->state != SLOT_RUNNING || s->is_lost)
                return;
        if (err != ERR_NOTOWNER && err != ERR_STATE && err != ERR_NOTFOUND)
                return; /* the next third may go better */
        if (s->task && task_has_ended(s->task))
                return; /* what it did is done: its report may still be in time */
        s->is_lost = true;
        say_warn("work", "the job is not ours any more, killing its command", "job", JOB_NAME(s),
                 "hook", s->hook, "reason", p->detail);
        slot_terminate(s);
}

void slot_extend(struct slot *s)
{
        if (s->state != SLOT_RUNNING || s->is_lost || !link_is_up(s->worker->reports))
                return;
        if (s->extend_fence) /* the last one is not answered yet */
                return;
        s->extend_fence = s->fence;
        char id[24], ms[24];
        (void)snprintf(id, sizeof(id), "%lld", (long long)s->id);
        (void)snprintf(ms, sizeof(ms), "%lld", (long long)s->lease_ms);
        const struct slice argv[] = {SLICE_LIT("EXTEND"), slice_str(id), slice_str(s->token),
                                     slice_str(ms)};
        link_send(s->worker->reports, argv, ARRAY_LEN(argv), ANSWER_MS, on_extended, s);
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
                say_warn("work", said[s->report], "job", JOB_NAME(s), "hook", s->hook, "error",
                         buf_cstr(&s->text));
        else
                say_info("work", said[s->report], "job", JOB_NAME(s), "hook", s->hook);
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
        say_warn("work", "the result was not taken", "job", JOB_NAME(s), "hook", s->hook, "reason",
                 reason);
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
        if (err == OK && value_int(value_get(v, "fence"), 0) == s->fence &&
            is_complete == (s->report == REPORT_COMPLETE))
                report_taken(s, v);
        else
                report_lost(s, err == OK ? "another has the job" : p->detail);
}

static void slot_ask(struct slot *s)
{
        char id[24];
        (void)snprintf(id, sizeof(id), "%lld", (long long)s->id);
        const struct slice argv[] = {SLICE_LIT("JOB"), slice_str(id)};
        s->is_sent = true;
        link_send(s->worker->reports, argv, ARRAY_LEN(argv), ANSWER_MS, on_asked, s);
}

static void report_refused(struct slot *s, int err, const struct problem *p)
{
        if (is_passing(err)) {
                say_warn("work", "the server cannot take a result now, retrying", "job",
                         JOB_NAME(s), "reason", p->detail);
                worker_pause(s->worker, 1000);
                return;
        }
        bool is_ours = err != ERR_NOTOWNER && err != ERR_STATE && err != ERR_NOTFOUND;
        if (is_ours && s->report == REPORT_COMPLETE) {
                buf_clear(&s->text);
                buf_printf(&s->text, "the result was refused: %s", p->detail);
                s->report = REPORT_FAIL;
                slot_report(s);
                return;
        }
        if (!is_ours && s->is_repeated && link_is_up(s->worker->reports)) {
                slot_ask(s); /* the first one may have arrived */
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

/* One free slot and nobody asking: the answer to COMPLETE may bring the next job. */
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
        struct claim_words claim;
        char id[24], retry[24];
        (void)snprintf(id, sizeof(id), "%lld", (long long)s->id);
        (void)snprintf(retry, sizeof(retry), "%lld", (long long)w->options->retry_in_ms);
        add(&r, names[s->report]);
        add(&r, slice_str(id));
        add(&r, slice_str(s->token));
        if (s->report != REPORT_RELEASE)
                add(&r, buf_slice(&s->text));
        if (s->report == REPORT_FAIL && w->options->retry_in_ms) {
                add(&r, SLICE_LIT("RETRYIN"));
                add(&r, slice_str(retry));
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
        link_send(w->reports, r.argv, r.argc, ANSWER_MS, on_reported, s);
}

void slot_give_up(struct slot *s)
{
        if (s->state != SLOT_RUNNING)
                return;
        s->is_given_up = true;
        task_kill(s->task, SIGKILL);
}

void slot_init(struct slot *s, struct worker *w)
{
        *s = (struct slot){.worker = w};
        buf_init(&s->text, 0);
        (void)uv_timer_init(&w->loop, &s->extend);
        (void)uv_timer_init(&w->loop, &s->limit);
        s->extend.data = s->limit.data = s;
}

void slot_close(struct slot *s)
{
        buf_release(&s->text);
        uv_close((uv_handle_t *)&s->extend, NULL);
        uv_close((uv_handle_t *)&s->limit, NULL);
}
