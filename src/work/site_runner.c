/* See site_runner.h.
 *
 * SITERUN waits at the server until a survey of the site finds due actions; so nothing is started
 * while nothing is due, and nobody waits for the next minute of a cron.  While something is due it
 * is asked once a second, since the level and with it the number of runners may change.  Runners
 * that are there when the number falls are not stopped: they end by themselves soon (Action
 * Scheduler's time limit is 30 s), and until then no other is started.
 *
 * The queue of a shop must not stand still because weir does: while the server is away one runner
 * is started every away_ms, as a cron would.
 *
 * Beside them works the reserved runner (site_reserved.h).  SITEFIRST tells its hooks.  A
 * connection answers in order, so SITERUN waits only until the next question for them.
 *
 * The site may be the main blog of a network.  Then SITERUN tells of all its blogs, and the runners
 * are shared among them (site_members.h). */
#include "work/site_runner.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/say.h"
#include "work/link.h"
#include "work/site_members.h"
#include "work/spawn.h"

#define WAIT_MS   60000 /* of a SITERUN; the next one follows at once */
#define ANSWER_MS 30000 /* beside the wait */
#define FIRST_MS  5000  /* from one SITEFIRST to the next */
#define POLL_MS   1000

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
        struct site_members *members;
        struct site_tally tally; /* at the end */
        int64_t asked_ns, asked_first_ns;
        bool is_asking, is_up, has_been_up, has_answer, is_stopping, is_closed;
        bool is_refused; /* the last answer was an error; said once */
        bool is_alone;   /* the other blogs of its network are not run */
        unsigned n_dials;
        struct problem failure; /* err != OK: why it ends */
};

static void step(struct site_runner *r);

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
        link_close(TAKE_PTR(r->link));
        r->tally = site_members_tally(r->members);
        site_members_close(TAKE_PTR(r->members));
        for (size_t i = 0; i < ARRAY_LEN(handles); i++)
                uv_close(handles[i], NULL);
}

static void on_grace_over(uv_timer_t *timer)
{
        site_members_kill(((struct site_runner *)timer->data)->members);
}

static void stop(struct site_runner *r)
{
        r->is_stopping = true;
        (void)uv_timer_stop(&r->poll);
        (void)uv_timer_stop(&r->away);
        site_members_stop(r->members);
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
                         SAY_I64(site_members_running(r->members)));
                site_members_kill(r->members);
                return;
        }
        say_info("work", "stopping the runners", "signal", name, "running",
                 SAY_I64(site_members_running(r->members)));
        stop(r);
}

/* ---- the server ---- */

static void on_poll(uv_timer_t *timer)
{
        step(timer->data);
}

/* An older server knows no networks: it is asked of the one site. */
static bool try_alone(struct site_runner *r, int err)
{
        if (err != ERR_SYNTAX || r->is_alone)
                return false;
        r->is_alone = true;
        step(r);
        return true;
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
        if (try_alone(r, err))
                return;
        if (err != OK && !r->is_refused)
                say_warn("work", "the server does not tell of the site, asking again", "site",
                         r->options->site, "reason", p->detail);
        if (err == OK && r->is_refused)
                say_info("work", "the server tells of the site again", "site", r->options->site);
        r->is_refused = err != OK;
        r->has_answer = true;
        if (site_members_learn(r->members, err == OK ? v : NULL))
                r->asked_first_ns = INT64_MIN / 2; /* with the next question */
        site_members_work(r->members);
        /* A wait that was over at once must not become a loop. */
        int64_t took_ms = (clock_boot_ns() - r->asked_ns) / NS_PER_MS;
        int64_t rest_ms = site_members_due(r->members) || took_ms < POLL_MS ? POLL_MS : 0;
        (void)uv_timer_start(&r->poll, on_poll, (uint64_t)rest_ms, 0);
}

static void ask_first(struct site_runner *r)
{
        int64_t now_ns = clock_boot_ns();
        if (!r->options->reserved || now_ns - r->asked_first_ns < FIRST_MS * NS_PER_MS)
                return;
        r->asked_first_ns = now_ns;
        site_members_ask_first(r->members, r->link, ANSWER_MS);
}

static void ask(struct site_runner *r)
{
        /* A server that refused is asked without a wait: whether it tells again shows at once. */
        int64_t wait_ms = r->options->reserved ? FIRST_MS : WAIT_MS;
        if (site_members_due(r->members) || r->is_refused)
                wait_ms = 0;
        ask_first(r);
        const struct slice argv[] = {SLICE_LIT("SITERUN"), slice_str(r->options->site),
                                     SLICE_LIT("WAIT"), LINK_INT(wait_ms), SLICE_LIT("BLOGS")};
        r->is_asking = true;
        r->asked_ns = clock_boot_ns();
        link_send(r->link, argv, ARRAY_LEN(argv) - r->is_alone,
                  (struct link_answer){on_told, r, wait_ms + ANSWER_MS});
}

/* Something ended or changed. */
static void step(struct site_runner *r)
{
        if (r->is_closed)
                return;
        if (r->is_stopping) {
                if (site_members_are_stopped(r->members))
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
        (void)site_members_learn(r->members, NULL);
        r->asked_first_ns = INT64_MIN / 2; /* now */
        (void)uv_timer_stop(&r->away);
        link_send(r->link, argv, ARRAY_LEN(argv), (struct link_answer){on_site_told, r, ANSWER_MS});
        step(r);
}

static void on_away(uv_timer_t *timer)
{
        struct site_runner *r = timer->data;
        if (site_members_running(r->members) || !r->options->runners)
                return;
        say_info("work", "the server is away: starting a runner without it");
        site_members_start_blindly(r->members);
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
                         SAY_I64(site_members_running(r->members)));
        r->is_up = r->is_asking = false;
        (void)uv_timer_stop(&r->poll);
        if (away_ms && !uv_is_active((uv_handle_t *)&r->away))
                (void)uv_timer_start(&r->away, on_away, away_ms, away_ms);
}

/* ---- the whole ---- */

static void on_changed(void *ctx)
{
        step(ctx);
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
        const struct site_members_spec members = {
                .loop = &r->loop,
                .options = r->options,
                .env = &r->env,
                .changed = on_changed,
                .ctx = r,
        };
        r->members = site_members_new(&members);
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
        r->is_alone = options->blog_url != NULL;
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
                say_info("work", "ended", "started", SAY_I64(r->tally.n_started), "failed",
                         SAY_I64(r->tally.n_failed));
                *p = r->failure;
                result = r->failure.err;
        }
        words_release(&r->env);
        free(r);
        return result;
}
