/* The worker's loop: claim when there is room, end when told to.
 *
 * Two connections, because one that waits in CLAIM answers nothing else: `claims` waits for work,
 * `reports` speaks about the jobs we hold.  While all slots are busy nothing waits; the COMPLETE
 * that frees a slot asks for the next job in the same step, and a busy worker needs one round
 * trip a job.  Only when that brings nothing does a waiting CLAIM begin.  The first CLAIM waits
 * until both are up: the worker takes no job that it cannot report.
 *
 *      TERM, INT     what happens
 *        first       no more claims; jobs taken ahead are given back, running ones finish and
 *                    are reported; exit 0
 *        second      commands are killed, requests dropped, their jobs given back; exit
 *        third       not caught any more
 *
 * HUP is like the first of them and never like the second: a terminal that is closed may send it
 * more than once.  A worker that was started with it ignored (nohup) leaves it so.
 *
 * The claims connection is ended by half-closing it: a job granted in the same moment still
 * arrives, and is given back instead of lying under its lease until that runs out. */
#include "work/work.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/plural.h"
#include "base/say.h"
#include "base/shown.h"
#include "work/health.h"
#include "work/worker.h"

#define WAIT_MS    30000 /* of a CLAIM; the next one follows at once */
#define PAUSE_MS   1000  /* after a refusal that may pass */
#define GIVE_UP_MS 5000  /* for giving jobs back after the second signal */
#define TICK_MS    1000
#define HEALTH_MS  5000 /* the file is never older */
#define ONCE_DIALS 3    /* --once: so many attempts to connect, under a second */

/* Three pipes and a pidfd of a command, or a connection and what a name lookup needs. */
#define FILES_PER_SLOT 4
#define FILES_BESIDES  64 /* links, logs, the loop's own, a start in progress */

uint64_t worker_left(const struct worker *w)
{
        uint64_t used = w->n_granted + w->n_asked, max = w->options->max_jobs;
        if (!max)
                return UINT64_MAX;
        return used < max ? max - used : 0;
}

static void add_word(struct claim_words *c, struct slice word)
{
        ASSERT(c->argc < ARRAY_LEN(c->argv));
        c->argv[c->argc++] = word;
}

static void add_number(struct claim_words *c, const char *keyword, int64_t n, size_t place)
{
        (void)snprintf(c->digits[place], sizeof(c->digits[place]), "%lld", (long long)n);
        add_word(c, slice_str(keyword));
        add_word(c, slice_str(c->digits[place]));
}

void worker_claim_words(const struct worker *w, uint64_t max, int64_t wait_ms,
                        struct claim_words *ret)
{
        ret->argc = 0;
        add_word(ret, slice_str(w->options->name));
        add_number(ret, "MAX", (int64_t)max, 0);
        if (wait_ms)
                add_number(ret, "WAIT", wait_ms, 1);
        if (w->options->lease_ms)
                add_number(ret, "LEASE", w->options->lease_ms, 2);
        add_word(ret, SLICE_LIT("QUEUES"));
        for (size_t i = 0; i < w->options->n_queues; i++)
                add_word(ret, slice_str(w->options->queues[i]));
}

static size_t count_slots(const struct worker *w, enum slot_state state)
{
        size_t n = 0;
        for (size_t i = 0; i < w->n_slots; i++)
                n += w->slots[i].state == state;
        return n;
}

static void on_paused(uv_timer_t *timer)
{
        struct worker *w = timer->data;
        for (size_t i = 0; i < w->n_slots; i++)
                slot_report(&w->slots[i]);
        worker_step(w);
}

void worker_pause(struct worker *w, uint64_t ms)
{
        if (!w->is_closed)
                (void)uv_timer_start(&w->pause, on_paused, ms, 0);
}

static void close_handle(void *handle)
{
        uv_close(handle, NULL);
}

static void worker_close(struct worker *w)
{
        w->is_closed = true;
        link_close(w->claims);
        link_close(w->reports);
        close_handle(&w->on_term);
        close_handle(&w->on_int);
        close_handle(&w->on_hup);
        /* Ending already: one more signal changes nothing, least of all the exit code. */
        (void)signal(SIGTERM, SIG_IGN);
        (void)signal(SIGINT, SIG_IGN);
        (void)signal(SIGHUP, SIG_IGN);
        close_handle(&w->pause);
        close_handle(&w->give_up);
        close_handle(&w->tick);
        if (w->curl)
                curl_loop_close(w->curl);
        if (w->options->health_path && w->health_state)
                (void)unlink(w->options->health_path); /* no worker, no health */
        for (size_t i = 0; i < w->n_slots; i++)
                slot_close(&w->slots[i]);
}

/* ---- health ---- */

static const char *health_state(const struct worker *w)
{
        if (w->is_draining)
                return "draining";
        if (!w->is_up)
                return "disconnected";
        return count_slots(w, SLOT_FREE) < w->n_slots ? "working" : "idle";
}

static void write_health(struct worker *w, const char *state)
{
        struct problem p;
        struct health h = {
                .state = state,
                .name = w->options->name,
                .slots = w->options->slots,
                .running = count_slots(w, SLOT_RUNNING),
                .held = count_slots(w, SLOT_HELD),
                .reporting = count_slots(w, SLOT_REPORTING),
                .completed = w->completed,
                .failed = w->failed,
                .released = w->released,
                .lost = w->lost,
                .memory_bytes = health_memory_bytes(),
        };
        bool is_bad = health_write(w->options->health_path, &h, &p) != OK;
        if (is_bad && !w->is_health_bad)
                say_warn("work", "cannot write the health file", "reason", p.detail);
        w->is_health_bad = is_bad;
        w->health_state = state;
        w->health_written_ns = clock_boot_ns();
        w->health_sum = w->completed + w->failed + w->released + w->lost;
}

/* Writes when there is news, and every HEALTH_MS to show that the worker is alive. */
static void show_health(struct worker *w)
{
        const char *state = health_state(w);
        uint64_t sum = w->completed + w->failed + w->released + w->lost;
        if (!w->options->health_path || w->is_closed)
                return;
        if (w->health_state == state && sum == w->health_sum &&
            clock_boot_ns() - w->health_written_ns < HEALTH_MS * NS_PER_MS)
                return;
        write_health(w, state);
}

static void worker_drain(struct worker *w)
{
        if (w->is_draining)
                return;
        w->is_draining = true;
        link_finish(w->claims);
        for (size_t i = 0; i < w->n_slots; i++)
                if (w->slots[i].state == SLOT_HELD)
                        slot_give_up(&w->slots[i]);
        show_health(w);
}

static void worker_fail(struct worker *w, const struct problem *p)
{
        if (w->failure.err == OK)
                w->failure = *p;
        worker_drain(w);
        worker_step(w);
}

static void on_tick(uv_timer_t *timer)
{
        struct worker *w = timer->data;
        uint64_t max = w->options->max_memory, used = max ? health_memory_bytes() : 0;
        show_health(w);
        if (used <= max || w->is_draining)
                return;
        say_info("work", "stopping after the running commands", "memory", SAY_I64(used),
                 "max_memory", SAY_I64(max));
        worker_drain(w);
        worker_step(w);
}

/* An empty answer long before the wait was over: the server is stopping, or cannot wait. */
static bool is_hasty(const struct worker *w)
{
        return clock_boot_ns() - w->claim_sent_ns < WAIT_MS / 2 * NS_PER_MS;
}

static void on_claimed(void *ctx, int err, const struct value *v, const struct problem *p)
{
        struct worker *w = ctx;
        if (w->is_closed)
                return;
        w->is_claiming = false;
        w->n_asked -= w->n_claiming;
        if (!v) { /* lost; the link comes back, or is finished and we drain */
                worker_step(w);
        } else if (err == ERR_STOPPING || err == ERR_UNAVAIL || err == ERR_LIMIT ||
                   err == ERR_NOSPACE || err == ERR_NOMEM || err == ERR_INTERNAL) {
                say_warn("work", "no jobs are handed out now, retrying", "reason", p->detail);
                worker_pause(w, PAUSE_MS);
        } else if (err != OK) {
                worker_fail(w, p);
        } else if (v->n > 0) {
                w->n_granted += v->n;
                w->is_dry = false;
                size_t taken = 0;
                for (size_t i = 0; i < w->n_slots && taken < v->n; i++)
                        if (w->slots[i].state == SLOT_FREE)
                                slot_take(&w->slots[i], &v->items[taken++]);
                ASSERT(taken == v->n || v->n > w->n_claiming);
                worker_step(w);
        } else {
                w->is_dry = true;
                if (!w->options->is_once && is_hasty(w))
                        worker_pause(w, PAUSE_MS);
                else
                        worker_step(w);
        }
}

static void worker_claim(struct worker *w)
{
        size_t n_free = count_slots(w, SLOT_FREE);
        uint64_t left = worker_left(w);
        bool is_pausing = uv_is_active((uv_handle_t *)&w->pause);
        if (w->is_draining || w->is_claiming || is_pausing || !n_free || !left ||
            !link_is_up(w->claims) || !w->has_been_up)
                return;
        if (w->options->is_once && w->is_dry) /* until a running job has ended */
                return;
        struct claim_words words;
        struct slice argv[ARRAY_LEN(words.argv) + 1] = {SLICE_LIT("CLAIM")};
        int64_t wait_ms = w->options->is_once ? 0 : WAIT_MS;
        w->n_claiming = n_free < left ? n_free : left;
        if (w->n_claiming > WORK_SLOTS_MAX)
                w->n_claiming = WORK_SLOTS_MAX;
        worker_claim_words(w, w->n_claiming, wait_ms, &words);
        memcpy(&argv[1], words.argv, words.argc * sizeof(argv[0]));
        w->is_claiming = true;
        w->n_asked += w->n_claiming;
        w->claim_sent_ns = clock_boot_ns();
        link_send(w->claims, argv, words.argc + 1,
                  (struct link_answer){on_claimed, w, wait_ms + ANSWER_MS});
}

static bool has_ended(const struct worker *w)
{
        if (count_slots(w, SLOT_FREE) < w->n_slots || w->is_claiming)
                return false;
        return w->is_draining || (w->options->is_once && w->is_dry) ||
               (w->options->max_jobs && w->n_granted >= w->options->max_jobs);
}

/* Starts held jobs in the order of their grants, as far as there is room. */
static void run_held(struct worker *w)
{
        while (!w->is_draining && count_slots(w, SLOT_RUNNING) < w->options->slots) {
                struct slot *first = NULL;
                for (size_t i = 0; i < w->n_slots; i++) {
                        struct slot *s = &w->slots[i];
                        if (s->state == SLOT_HELD && !slot_is_late(s) &&
                            (!first || s->order < first->order))
                                first = s;
                }
                if (!first)
                        return;
                slot_run(first);
        }
}

void worker_step(struct worker *w)
{
        if (w->is_closed)
                return;
        run_held(w);
        if (has_ended(w))
                worker_close(w);
        else
                worker_claim(w);
}

static void on_give_up(uv_timer_t *timer)
{
        struct worker *w = timer->data;
        size_t n = w->n_slots - count_slots(w, SLOT_FREE);
        if (count_slots(w, SLOT_RUNNING))
                return; /* killed, but not yet dead; the timer comes again */
        if (n)          /* else only the answer to a claim is missing */
                (void)problem_set(&w->failure, ERR_UNAVAIL,
                                  "the end of %zu %s when the lease runs out", n,
                                  plural(n, "job could not be reported: it is handed out again",
                                         "jobs could not be reported: each is handed out again"));
        worker_close(w);
}

static void on_signal(uv_signal_t *handle, int signum)
{
        struct worker *w = handle->data;
        const char *const names[] = {[SIGTERM] = "TERM", [SIGINT] = "INT", [SIGHUP] = "HUP"};
        const char *name = names[signum];
        if (w->is_closed || (w->is_draining && signum == SIGHUP))
                return;
        if (!w->is_draining) {
                say_info("work", "stopping after the running commands", "signal", name, "running",
                         SAY_I64(count_slots(w, SLOT_RUNNING)));
                worker_drain(w);
                worker_step(w);
                return;
        }
        say_warn("work", "stopping now, giving jobs back", "signal", name, "running",
                 SAY_I64(count_slots(w, SLOT_RUNNING)));
        (void)uv_signal_stop(&w->on_term);
        (void)uv_signal_stop(&w->on_int);
        for (size_t i = 0; i < w->n_slots; i++)
                slot_give_up(&w->slots[i]);
        (void)uv_timer_start(&w->give_up, on_give_up, GIVE_UP_MS, GIVE_UP_MS);
}

static void on_claims_up(void *ctx)
{
        worker_step(ctx);
}

static void on_queue_told(void *ctx, int err, const struct value *v, const struct problem *p)
{
        const char *const *name = ctx;
        (void)p;
        if (v && err == ERR_NOTFOUND)
                say_info("work", "no job has named this queue yet", "queue", *name);
}

/* A worker with a misspelt queue would wait for ever without a word. */
static void ask_for_queues(struct worker *w)
{
        for (size_t i = 0; i < w->options->n_queues; i++) {
                const char *const *name = &w->options->queues[i];
                const struct slice argv[] = {SLICE_LIT("QUEUE"), slice_str(*name)};
                link_send(w->reports, argv, ARRAY_LEN(argv),
                          (struct link_answer){on_queue_told, (void *)(uintptr_t)name, ANSWER_MS});
        }
}

static void on_reports_up(void *ctx)
{
        struct worker *w = ctx;
        bool is_first = !w->has_been_up;
        if (!w->is_up)
                say_info("work", w->has_been_up ? "connected again" : "ready", "name",
                         w->options->name, "url", w->options->url->text, "slots",
                         SAY_I64(w->options->slots));
        w->is_up = w->has_been_up = true;
        w->down_err = OK;
        if (is_first)
                ask_for_queues(w);
        show_health(w);
        for (size_t i = 0; i < w->n_slots; i++) {
                slot_extend(&w->slots[i]);
                slot_report(&w->slots[i]);
        }
        worker_step(w);
}

/* Not the network's word but the server's, and not about this moment. */
static bool is_refusal(int err)
{
        return err == ERR_NOAUTH || err == ERR_BADTOKEN || err == ERR_SYNTAX ||
               err == ERR_UNKNOWN || err == ERR_FORBIDDEN;
}

static void on_reports_down(void *ctx, const struct problem *why, int64_t wait_ms)
{
        struct worker *w = ctx;
        (void)wait_ms;
        if (w->is_closed)
                return;
        w->n_dials++;
        /* Another attempt would not help a worker that was never connected. */
        if (!w->has_been_up &&
            (is_refusal(why->err) || (w->options->is_once && w->n_dials >= ONCE_DIALS))) {
                worker_fail(w, why);
                return;
        }
        /* Once for each time, and once more for what only the operator can change: the token of a
         * server that is back. */
        bool is_news = is_refusal(why->err) && why->err != w->down_err;
        if (w->is_up || w->n_dials == 1 || is_news)
                say_warn("work", "no connection, retrying", "reason", why->detail, "running",
                         SAY_I64(count_slots(w, SLOT_RUNNING)));
        w->down_err = is_refusal(why->err) ? why->err : w->down_err;
        w->is_up = false;
        show_health(w);
}

static void on_claims_down(void *ctx, const struct problem *why, int64_t wait_ms)
{
        (void)why; /* the other link says the same */
        (void)wait_ms;
        worker_step(ctx);
}

/* The usual soft limit of 1024 is for programs that use select(2); commands get it back. */
static void raise_open_files(struct worker *w)
{
        const rlim_t want = FILES_BESIDES + FILES_PER_SLOT * w->options->slots;
        if (getrlimit(RLIMIT_NOFILE, &w->files) < 0 || w->files.rlim_cur >= want)
                return;
        struct rlimit limit = w->files;
        limit.rlim_cur = limit.rlim_max < want ? limit.rlim_max : want;
        if (setrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur < want)
                say_warn("work", "fewer files may be open than the slots may need", "files",
                         SAY_I64(limit.rlim_cur), "needed", SAY_I64(want));
}

static void watch_signals(struct worker *w)
{
        const struct {
                uv_signal_t *handle;
                int signum;
        } rows[] = {{&w->on_term, SIGTERM}, {&w->on_int, SIGINT}, {&w->on_hup, SIGHUP}};
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                struct sigaction now = {0};
                (void)uv_signal_init(&w->loop, rows[i].handle);
                rows[i].handle->data = w;
                bool is_nohup = rows[i].signum == SIGHUP && sigaction(SIGHUP, NULL, &now) == 0 &&
                                now.sa_handler == SIG_IGN;
                if (!is_nohup)
                        (void)uv_signal_start(rows[i].handle, on_signal, rows[i].signum);
        }
}

static int worker_init(struct worker *w, const struct work_options *options, struct problem *p)
{
        const struct link_owner claims = {w, on_claims_up, on_claims_down};
        const struct link_owner reports = {w, on_reports_up, on_reports_down};
        *w = (struct worker){.options = options};
        int r = uv_loop_init(&w->loop);
        if (r != 0)
                return problem_set(p, ERR_INTERNAL, "cannot make an event loop: %s",
                                   uv_strerror(r));
        for (size_t i = 0; i < options->handlers->n && r == OK && !w->curl; i++)
                if (options->handlers->all[i].kind == HANDLER_HTTP)
                        r = curl_loop_new(&w->loop, options->slots, call_ended, &w->curl, p);
        if (r != OK) {
                int closed = uv_loop_close(&w->loop);
                ASSERT(closed == 0);
                return r;
        }
        rng_init_system(&w->rng);
        (void)uv_timer_init(&w->loop, &w->pause);
        (void)uv_timer_init(&w->loop, &w->give_up);
        (void)uv_timer_init(&w->loop, &w->tick);
        w->pause.data = w->give_up.data = w->tick.data = w;
        watch_signals(w);
        raise_open_files(w);
        if (options->health_path || options->max_memory)
                (void)uv_timer_start(&w->tick, on_tick, TICK_MS, TICK_MS);
        w->n_slots = options->slots + options->prefetch;
        w->slots = xcalloc(w->n_slots, sizeof(*w->slots));
        for (size_t i = 0; i < w->n_slots; i++)
                slot_init(&w->slots[i], w);
        w->reports = link_new(&w->loop, options->url, options->name, &w->rng, &reports);
        w->claims = link_new(&w->loop, options->url, options->name, &w->rng, &claims);
        return OK;
}

/* A mistyped command should be told at the start, not by failing every job. */
static int check_program(const struct handler *h, const char *origin, struct problem *p)
{
        struct problem why = {0};
        struct job none;
        job_init(&none);
        char *program = strchr(h->command.argv[0], '{') ? NULL : h->command.argv[0];
        char **env = job_env(&none, "", &h->env);
        const struct spawn s = {
                .argv = &program,
                .env = env,
                .dir = h->dir,
                .account = h->account.user ? &h->account : NULL,
        };
        int r = spawn_check(&s, &why);
        job_env_free(env);
        job_release(&none);
        if (r == OK)
                return OK;
        bool has_words = program && strchr(program, ' ') && h->command.n == 1;
        return problem_set(p, r, "%s: %s%s", origin, why.detail,
                           has_words ? ": each word is one of its own, exec = {\"php\", \"a.php\"}"
                                     : "");
}

static int check_programs(const struct handlers *handlers, struct problem *p)
{
        int r = OK;
        for (size_t i = 0; r == OK && i < handlers->n; i++) {
                const struct handler *h = &handlers->all[i];
                /* That of the only handler of --exec is another option. */
                const char *origin = h->origin[0] == '-' ? handlers->origin : h->origin;
                if (h->kind == HANDLER_EXEC)
                        r = check_program(h, origin, p);
        }
        return r;
}

int work_run(const struct work_options *options, struct problem *p)
{
        struct worker *w = xcalloc(1, sizeof(*w));
        int r = check_programs(options->handlers, p);
        /* Whatever we were started with: commands get their three streams and nothing else. */
        (void)close_range(3, ~0U, CLOSE_RANGE_CLOEXEC);
        if (r == OK)
                r = worker_init(w, options, p);
        if (r != OK) {
                free(w);
                return r;
        }
        /* A command that does not read its input must not kill the worker, and its end is ours
         * to hear of, whatever we were started with. */
        (void)signal(SIGPIPE, SIG_IGN);
        (void)signal(SIGCHLD, SIG_DFL);
        (void)uv_run(&w->loop, UV_RUN_DEFAULT);
        r = uv_loop_close(&w->loop);
        ASSERT(r == 0);
        if (w->has_been_up)
                say_info("work", "ended", "completed", SAY_I64(w->completed), "failed",
                         SAY_I64(w->failed), "released", SAY_I64(w->released), "lost",
                         SAY_I64(w->lost));
        r = w->failure.err;
        *p = w->failure;
        free(w->slots);
        free(w);
        return r;
}
