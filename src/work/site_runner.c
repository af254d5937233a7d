/* See site_runner.h.
 *
 * SITERUN waits at the server until a survey of the site finds due actions; so nothing is started
 * while nothing is due, and nobody waits for the next minute of a cron.  While something is due it
 * is asked once a second, since the level and with it the number of runners may change.  Runners
 * that are there when the number falls are not stopped: they end by themselves soon (Action
 * Scheduler's time limit is 30 s), and until then no other is started.
 *
 *      a runner ended             its place is filled again
 *        well, after QUICK_MS     at once: it stopped at its time limit, there may be more
 *        well, sooner             after the next survey: it found nothing more to do, and what is
 *                                 told as due may be what it has just done
 *        badly                    after a pause that doubles with each bad end in a row
 *
 * The queue of a shop must not stand still because weir does: while the server is away one runner
 * is started every away_ms, as a cron would.
 *
 * Beside them works the reserved runner (site_reserved.h).  SITEFIRST tells its hooks.  A
 * connection answers in order, so SITERUN waits only until the next question for them. */
#include "work/site_runner.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/say.h"
#include "base/shown.h"
#include "work/link.h"
#include "work/site_reserved.h"
#include "work/task.h"

#define WAIT_MS      60000 /* of a SITERUN; the next one follows at once */
#define ANSWER_MS    30000 /* beside the wait */
#define FIRST_MS     5000  /* from one SITEFIRST to the next */
#define POLL_MS      1000
#define QUICK_MS     5000
#define PAUSE_MIN_MS 1000
#define PAUSE_MAX_MS 60000
#define OUTPUT_MAX   4096
#define FIRST_MAX    65536

struct place {
        struct site_runner *runner;
        struct task *task; /* NULL: empty */
        int64_t started_ns;
        int64_t pause_ms;      /* after the last bad end; 0: it was none */
        int64_t not_before_ns; /* of the next start */
        int64_t old_survey_ms; /* the next start needs another one; 0: any */
};

struct site_runner {
        const struct site_runner_options *options;
        uv_loop_t loop;
        struct rng rng;
        struct link *link;
        uv_signal_t on_term, on_int;
        uv_timer_t poll;  /* the next question */
        uv_timer_t kill;  /* after the grace */
        uv_timer_t away;  /* the next start without a server */
        struct words env; /* of each runner; that of the blog follows */
        struct site_blog blog;
        struct site_reserved *reserved; /* NULL: there is none */
        struct place places[SITE_RUNNERS_MAX];
        int64_t due, allowed, survey_ms; /* as last told */
        int64_t asked_ns, asked_first_ns;
        bool is_asking, is_up, has_been_up, has_answer, is_stopping, is_closed;
        bool is_refused;       /* the last answer was an error; said once */
        bool is_first_refused; /* the same of SITEFIRST */
        unsigned n_dials;
        uint64_t n_started, n_failed;
        struct problem failure; /* err != OK: why it ends */
};

static void step(struct site_runner *r);

static size_t count_running(const struct site_runner *r)
{
        size_t n = 0;
        for (size_t i = 0; i < r->options->runners; i++)
                n += r->places[i].task != NULL;
        return n;
}

/* ---- ending ---- */

static void runner_close(struct site_runner *r)
{
        uv_handle_t *const handles[] = {
                (uv_handle_t *)&r->on_term, (uv_handle_t *)&r->on_int, (uv_handle_t *)&r->poll,
                (uv_handle_t *)&r->kill,    (uv_handle_t *)&r->away,
        };
        if (r->is_closed)
                return;
        r->is_closed = true;
        if (r->reserved)
                site_reserved_close(TAKE_PTR(r->reserved));
        link_close(TAKE_PTR(r->link));
        for (size_t i = 0; i < ARRAY_LEN(handles); i++)
                uv_close(handles[i], NULL);
}

static void kill_all(struct site_runner *r, int signum)
{
        for (size_t i = 0; i < r->options->runners; i++)
                if (r->places[i].task)
                        task_kill(r->places[i].task, signum);
}

static void kill_at_once(struct site_runner *r)
{
        kill_all(r, SIGKILL);
        if (r->reserved)
                site_reserved_kill(r->reserved);
}

static void on_grace_over(uv_timer_t *timer)
{
        kill_at_once(timer->data);
}

static void stop(struct site_runner *r)
{
        r->is_stopping = true;
        (void)uv_timer_stop(&r->poll);
        (void)uv_timer_stop(&r->away);
        kill_all(r, SIGTERM);
        if (r->reserved)
                site_reserved_stop(r->reserved);
        /* Repeated: what a command forked in the moment of the kill dies with the next one. */
        (void)uv_timer_start(&r->kill, on_grace_over, (uint64_t)r->options->grace_ms, 1000);
        step(r);
}

static void fail(struct site_runner *r, const struct problem *why)
{
        if (r->failure.err == OK)
                r->failure = *why;
        if (!r->is_stopping)
                stop(r);
}

static void on_signal(uv_signal_t *handle, int signum)
{
        struct site_runner *r = handle->data;
        const char *name = signum == SIGTERM ? "TERM" : "INT";
        if (r->is_stopping) {
                say_warn("work", "killing the runners", "signal", name, "running",
                         SAY_I64(count_running(r)));
                kill_at_once(r);
                return;
        }
        say_info("work", "stopping the runners", "signal", name, "running",
                 SAY_I64(count_running(r)));
        stop(r);
}

/* ---- one runner ---- */

/* The last line that a runner wrote to its standard error. */
static struct slice last_line(struct slice text)
{
        size_t at = text.len;
        while (at && text.ptr[at - 1] != '\n')
                at--;
        return slice_make(text.ptr + at, text.len - at);
}

static void on_bad_end(struct place *place, const struct task_result *result)
{
        struct site_runner *r = place->runner;
        r->n_failed++;
        place->pause_ms = place->pause_ms ? 2 * place->pause_ms : PAUSE_MIN_MS;
        if (place->pause_ms > PAUSE_MAX_MS)
                place->pause_ms = PAUSE_MAX_MS;
        place->not_before_ns = clock_boot_ns() + place->pause_ms * NS_PER_MS;
        struct slice why = last_line(result->errors.len ? result->errors : result->output);
        say_warn("work", "a runner failed; it is started again after a pause",
                 result->signal ? "signal" : "code",
                 SAY_I64(result->signal ? result->signal : result->exit_code), "pause_ms",
                 SAY_I64(place->pause_ms), "said", SHOWN_MAX(why, 200));
}

static void on_runner_done(void *ctx, const struct task_result *result)
{
        struct place *place = ctx;
        struct site_runner *r = place->runner;
        int64_t took_ms = (clock_boot_ns() - place->started_ns) / NS_PER_MS;
        place->task = NULL;
        if (result->has_left_behind)
                say_warn("work", "a runner left processes behind, those of its group were killed");
        if (r->is_stopping) {
                step(r);
                return;
        }
        if (result->signal || result->exit_code) {
                on_bad_end(place, result);
        } else {
                place->pause_ms = place->not_before_ns = 0;
                place->old_survey_ms = took_ms < QUICK_MS ? r->survey_ms : 0;
                say_info("work", "a runner ended", "ms", SAY_I64(took_ms));
        }
        step(r);
}

/* One that claims them first is in the way of nobody.  A list that is too long for the environment
 * is left to the reserved runner alone. */
static void put_first(const struct site_runner *r, struct words *env)
{
        struct slice hooks = r->reserved ? site_reserved_hooks(r->reserved) : SLICE_NONE;
        struct buf text CLEANUP(buf_release) = {0};
        if (!hooks.len || hooks.len > FIRST_MAX)
                return;
        buf_put_slice(&text, hooks);
        env_add(env, "WEIR_FIRST", buf_cstr(&text));
}

static int start_task(struct place *place, struct problem *p)
{
        struct site_runner *r = place->runner;
        const struct site_runner_options *o = r->options;
        struct words command, env;
        site_blog_put_command(&r->blog, o->command, &command);
        env_make(&env, &r->env);
        site_blog_put_env(&r->blog, &env);
        put_first(r, &env);
        const struct task_spec spec = {
                .command = {.argv = command.argv, .env = env.argv, .dir = o->dir, .umask = -1},
                .output_max = OUTPUT_MAX,
                .passes_errors = o->passes_errors,
                .done = on_runner_done,
                .ctx = place,
        };
        int err = task_start(&r->loop, &spec, &place->task, p);
        words_release(&command);
        words_release(&env);
        return err;
}

static void start_runner(struct place *place)
{
        struct site_runner *r = place->runner;
        struct problem p = {0};
        place->started_ns = clock_boot_ns();
        if (start_task(place, &p) != OK) {
                place->task = NULL;
                place->not_before_ns = clock_boot_ns() + PAUSE_MAX_MS * NS_PER_MS;
                say_error("work", "cannot start a runner", "error", p.detail);
                return;
        }
        r->n_started++;
        say_info("work", "started a runner", "site", r->options->site, "due", SAY_I64(r->due),
                 "running", SAY_I64(count_running(r)), "allowed", SAY_I64(r->allowed));
}

static bool may_start(const struct place *place)
{
        const struct site_runner *r = place->runner;
        return !place->task && clock_boot_ns() >= place->not_before_ns &&
               (!place->old_survey_ms || place->old_survey_ms != r->survey_ms);
}

/* Runners that have perhaps not claimed anything yet: what is due may be theirs. */
static int64_t count_young(const struct site_runner *r)
{
        int64_t n = 0, since_ns = clock_boot_ns() - QUICK_MS * NS_PER_MS;
        for (size_t i = 0; i < r->options->runners; i++)
                n += r->places[i].task && r->places[i].started_ns > since_ns;
        return n;
}

/* No more than are due: the others would find nothing.  Those that are at work for longer do not
 * count, since a single action may keep one busy for minutes. */
static void start_runners(struct site_runner *r)
{
        int64_t more = r->allowed - (int64_t)count_running(r), left = r->due - count_young(r);
        for (size_t i = 0; i < r->options->runners && more > 0 && left > 0; i++)
                if (may_start(&r->places[i])) {
                        start_runner(&r->places[i]);
                        more--;
                        left--;
                }
}

/* ---- the server ---- */

static void on_poll(uv_timer_t *timer)
{
        step(timer->data);
}

static void on_told(void *ctx, int err, const struct value *v, const struct problem *p)
{
        struct site_runner *r = ctx;
        r->is_asking = false;
        if (!v || r->is_stopping)
                return; /* the link says why */
        if (err != OK && !r->has_answer && (err == ERR_NOTFOUND || err == ERR_UNKNOWN)) {
                fail(r, p); /* a name that is mistyped, or an older server */
                return;
        }
        if (err != OK && !r->is_refused)
                say_warn("work", "the server does not tell of the site, asking again", "site",
                         r->options->site, "reason", p->detail);
        if (err == OK && r->is_refused)
                say_info("work", "the server tells of the site again", "site", r->options->site);
        r->is_refused = err != OK;
        r->has_answer = true;
        site_blog_learn(&r->blog, v);
        r->due = err == OK ? value_int(value_get(v, "due"), 0) : 0;
        r->allowed = err == OK ? value_int(value_get(v, "runners"), 0) : 0;
        r->survey_ms = err == OK ? value_int(value_get(v, "surveyed_ms"), 0) : 0;
        start_runners(r);
        /* A wait that was over at once must not become a loop. */
        int64_t took_ms = (clock_boot_ns() - r->asked_ns) / NS_PER_MS;
        int64_t rest_ms = r->due || took_ms < POLL_MS ? POLL_MS : 0;
        (void)uv_timer_start(&r->poll, on_poll, (uint64_t)rest_ms, 0);
}

static void on_first_told(void *ctx, int err, const struct value *v, const struct problem *p)
{
        struct site_runner *r = ctx;
        if (!v || r->is_stopping)
                return;
        if (err != OK && !r->is_first_refused)
                say_warn("work", "the server does not tell the critical hooks, asking again",
                         "site", r->options->site, "reason", p->detail);
        r->is_first_refused = err != OK;
        if (err != OK)
                return; /* it keeps those it has */
        site_blog_learn(&r->blog, v);
        bool is_off = slice_eq(value_text(value_get(v, "mode")), SLICE_LIT("off"));
        if (is_off)
                site_reserved_set_hooks(r->reserved, NULL);
        else if (value_int(value_get(v, "surveyed_ms"), 0)) /* else it knows none yet */
                site_reserved_set_hooks(r->reserved, value_get(v, "hooks"));
}

static void ask_first(struct site_runner *r)
{
        const struct slice argv[] = {SLICE_LIT("SITEFIRST"), slice_str(r->options->site)};
        int64_t now_ns = clock_boot_ns();
        if (!r->reserved || now_ns - r->asked_first_ns < FIRST_MS * NS_PER_MS)
                return;
        r->asked_first_ns = now_ns;
        link_send(r->link, argv, ARRAY_LEN(argv),
                  (struct link_answer){on_first_told, r, ANSWER_MS});
}

static void ask(struct site_runner *r)
{
        /* A server that refused is asked without a wait: whether it tells again shows at once. */
        int64_t wait_ms = r->reserved ? FIRST_MS : WAIT_MS;
        if (r->due || r->is_refused)
                wait_ms = 0;
        ask_first(r);
        const struct slice argv[] = {SLICE_LIT("SITERUN"), slice_str(r->options->site),
                                     SLICE_LIT("WAIT"), LINK_INT(wait_ms)};
        r->is_asking = true;
        r->asked_ns = clock_boot_ns();
        link_send(r->link, argv, ARRAY_LEN(argv),
                  (struct link_answer){on_told, r, wait_ms + ANSWER_MS});
}

/* Something ended or changed. */
static void step(struct site_runner *r)
{
        if (r->is_closed)
                return;
        if (r->is_stopping) {
                if (!count_running(r) && (!r->reserved || site_reserved_is_stopped(r->reserved)))
                        runner_close(r);
                return;
        }
        if (!r->is_asking && r->is_up) {
                (void)uv_timer_stop(&r->poll);
                ask(r);
        }
}

static void on_site_told(void *ctx, int err, const struct value *v, const struct problem *p)
{
        struct site_runner *r = ctx;
        (void)p; /* SITERUN is refused in the same way */
        struct slice mode = err == OK && v ? value_text(value_get(v, "mode")) : SLICE_NONE;
        if (slice_eq(mode, SLICE_LIT("off")))
                say_warn("work",
                         "the mode of the site is off: weir does not look at its actions, so "
                         "nothing is due; set it to observe or enforce",
                         "site", r->options->site);
}

static void on_up(void *ctx)
{
        struct site_runner *r = ctx;
        const struct slice argv[] = {SLICE_LIT("SITE"), slice_str(r->options->site)};
        say_info("work", r->has_been_up ? "connected again" : "ready", "site", r->options->site,
                 "name", r->options->name, "url", r->options->url->text, "runners",
                 SAY_I64(r->options->runners));
        r->is_up = r->has_been_up = true;
        r->is_asking = false;
        r->n_dials = 0;
        r->due = 0;
        r->asked_first_ns = INT64_MIN / 2; /* now */
        (void)uv_timer_stop(&r->away);
        link_send(r->link, argv, ARRAY_LEN(argv), (struct link_answer){on_site_told, r, ANSWER_MS});
        step(r);
}

static void on_away(uv_timer_t *timer)
{
        struct site_runner *r = timer->data;
        if (count_running(r) || !r->options->runners)
                return;
        say_info("work", "the server is away: starting a runner without it");
        r->due = r->allowed = 1;
        r->places[0].old_survey_ms = 0;
        start_runners(r);
}

static void on_down(void *ctx, const struct problem *why, int64_t wait_ms)
{
        struct site_runner *r = ctx;
        uint64_t away_ms = (uint64_t)r->options->away_ms;
        (void)wait_ms;
        if (r->is_closed || r->is_stopping)
                return;
        bool is_refusal = why->err == ERR_NOAUTH || why->err == ERR_BADTOKEN ||
                          why->err == ERR_SYNTAX || why->err == ERR_FORBIDDEN;
        if (!r->has_been_up && is_refusal) {
                fail(r, why); /* another attempt would not help */
                return;
        }
        if (r->n_dials++ == 0)
                say_warn("work", "no connection, retrying", "reason", why->detail, "running",
                         SAY_I64(count_running(r)));
        r->is_up = r->is_asking = false;
        (void)uv_timer_stop(&r->poll);
        if (away_ms && !uv_is_active((uv_handle_t *)&r->away))
                (void)uv_timer_start(&r->away, on_away, away_ms, away_ms);
}

/* ---- the whole ---- */

static void on_reserved_stopped(void *ctx)
{
        step(ctx);
}

static void make_reserved(struct site_runner *r)
{
        const struct site_runner_options *o = r->options;
        const struct site_reserved_spec spec = {
                .loop = &r->loop,
                .site = o->site,
                .command = o->reserved,
                .env = &r->env,
                .dir = o->dir,
                .blog = &r->blog,
                .passes_errors = o->passes_errors,
                .stopped = on_reserved_stopped,
                .ctx = r,
        };
        if (o->reserved)
                r->reserved = site_reserved_new(&spec);
}

static void runner_init(struct site_runner *r)
{
        const struct link_owner owner = {r, on_up, on_down};
        uv_timer_t *const timers[] = {&r->poll, &r->kill, &r->away};
        rng_init_system(&r->rng);
        for (size_t i = 0; i < ARRAY_LEN(timers); i++) {
                (void)uv_timer_init(&r->loop, timers[i]);
                timers[i]->data = r;
        }
        (void)uv_signal_init(&r->loop, &r->on_term);
        (void)uv_signal_init(&r->loop, &r->on_int);
        r->on_term.data = r->on_int.data = r;
        (void)uv_signal_start(&r->on_term, on_signal, SIGTERM);
        (void)uv_signal_start(&r->on_int, on_signal, SIGINT);
        for (size_t i = 0; i < r->options->runners; i++)
                r->places[i].runner = r;
        make_reserved(r);
        r->link = link_new(&r->loop, r->options->url, r->options->name, &r->rng, &owner);
}

static int check_program(const struct site_runner_options *o, char **env, struct problem *p)
{
        const struct spawn s = {
                .argv = o->command->words.argv, .env = env, .dir = o->dir, .umask = -1};
        return spawn_check(&s, p);
}

int site_runner_run(const struct site_runner_options *options, struct problem *p)
{
        struct site_runner *r = xcalloc(1, sizeof(*r));
        ASSERT((options->runners || options->reserved) && options->runners <= SITE_RUNNERS_MAX);
        r->options = options;
        r->blog.is_url_given = options->blog_url != NULL;
        (void)snprintf(r->blog.url, sizeof(r->blog.url), "%s",
                       options->blog_url ? options->blog_url : "");
        env_make(&r->env, options->env);
        env_add(&r->env, "WEIR_RUNNERS", say_i64((char[24]){0}, (int64_t)options->runners));
        int result = check_program(options, r->env.argv, p);
        /* Whatever we were started with: runners get their three streams and nothing else. */
        (void)close_range(3, ~0U, CLOSE_RANGE_CLOEXEC);
        if (result == OK && uv_loop_init(&r->loop) != 0)
                result = problem_set(p, ERR_INTERNAL, "cannot make an event loop");
        if (result == OK) {
                (void)signal(SIGPIPE, SIG_IGN);
                (void)signal(SIGCHLD, SIG_DFL);
                runner_init(r);
                (void)uv_run(&r->loop, UV_RUN_DEFAULT);
                int closed = uv_loop_close(&r->loop);
                ASSERT(closed == 0);
                say_info("work", "ended", "started", SAY_I64(r->n_started), "failed",
                         SAY_I64(r->n_failed));
                *p = r->failure;
                result = r->failure.err;
        }
        words_release(&r->env);
        free(r);
        return result;
}
