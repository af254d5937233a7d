/* See site_places.h.
 *
 *      a runner ended             its place is filled again
 *        well, after QUICK_MS     at once: it stopped at its time limit, there may be more
 *        well, sooner             after the next survey: it found nothing more to do, and what is
 *                                 told as due may be what it has just done
 *        badly                    after a pause that doubles with each bad end in a row
 *
 * Pauses belong to the places of this blog alone, so a blog whose WordPress is broken does not keep
 * the runners of others away. */
#include "work/site_places.h"

#include <signal.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/say.h"
#include "base/shown.h"
#include "work/task.h"

#define QUICK_MS     5000
#define PAUSE_MIN_MS 1000
#define PAUSE_MAX_MS 60000
#define OUTPUT_MAX   4096
#define FIRST_MAX    65536

struct place {
        struct site_places *all;
        struct task *task; /* NULL: empty */
        int64_t started_ns;
        int64_t pause_ms;      /* after the last bad end; 0: it was none */
        int64_t not_before_ns; /* of the next start */
        int64_t old_survey_ms; /* the next start needs another one; 0: any */
};

struct site_places {
        struct site_places_spec spec;
        struct site_told told;
        bool is_stopping;
        struct place places[SITE_RUNNERS_MAX];
};

size_t site_places_running(const struct site_places *p)
{
        size_t n = 0;
        for (size_t i = 0; i < p->spec.n; i++)
                n += p->places[i].task != NULL;
        return n;
}

/* ---- the end of a runner ---- */

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
        const struct site_places *p = place->all;
        p->spec.tally->n_failed++;
        place->pause_ms = place->pause_ms ? 2 * place->pause_ms : PAUSE_MIN_MS;
        if (place->pause_ms > PAUSE_MAX_MS)
                place->pause_ms = PAUSE_MAX_MS;
        place->not_before_ns = clock_boot_ns() + place->pause_ms * NS_PER_MS;
        struct slice why = last_line(result->errors.len ? result->errors : result->output);
        say_warn("work", "a runner failed; it is started again after a pause", "site", p->spec.site,
                 result->signal ? "signal" : "code",
                 SAY_I64(result->signal ? result->signal : result->exit_code), "pause_ms",
                 SAY_I64(place->pause_ms), "said", SHOWN_MAX(why, 200));
}

static void on_runner_done(void *ctx, const struct task_result *result)
{
        struct place *place = ctx;
        struct site_places *p = place->all;
        int64_t took_ms = (clock_boot_ns() - place->started_ns) / NS_PER_MS;
        place->task = NULL;
        if (result->has_left_behind)
                say_warn("work", "a runner left processes behind, those of its group were killed");
        if (!p->is_stopping && (result->signal || result->exit_code)) {
                on_bad_end(place, result);
        } else if (!p->is_stopping) {
                place->pause_ms = place->not_before_ns = 0;
                place->old_survey_ms = took_ms < QUICK_MS ? p->told.survey_ms : 0;
                say_info("work", "a runner ended", "site", p->spec.site, "ms", SAY_I64(took_ms));
        }
        p->spec.ended(p->spec.ctx);
}

/* ---- the start ---- */

/* One that claims them first is in the way of nobody.  A list that is too long for the environment
 * is left to the reserved runner alone. */
static void put_first(struct slice hooks, struct words *env)
{
        struct buf text CLEANUP(buf_release) = {0};
        if (!hooks.len || hooks.len > FIRST_MAX)
                return;
        buf_put_slice(&text, hooks);
        env_add(env, "WEIR_FIRST", buf_cstr(&text));
}

static int start_task(struct place *place, struct slice first, struct problem *problem)
{
        const struct site_places_spec *s = &place->all->spec;
        struct words command, env;
        site_blog_put_command(s->blog, s->command, &command);
        env_make(&env, s->env);
        site_blog_put_env(s->blog, &env);
        put_first(first, &env);
        const struct task_spec spec = {
                .command = {.argv = command.argv, .env = env.argv, .dir = s->dir, .umask = -1},
                .output_max = OUTPUT_MAX,
                .passes_errors = s->passes_errors,
                .done = on_runner_done,
                .ctx = place,
        };
        int err = task_start(s->loop, &spec, &place->task, problem);
        words_release(&command);
        words_release(&env);
        return err;
}

static bool may_start(const struct place *place)
{
        int64_t survey_ms = place->all->told.survey_ms;
        return !place->task && clock_boot_ns() >= place->not_before_ns &&
               (!place->old_survey_ms || place->old_survey_ms != survey_ms);
}

static void start_runner(struct place *place, struct slice first)
{
        struct site_places *p = place->all;
        struct problem problem = {0};
        place->started_ns = clock_boot_ns();
        if (start_task(place, first, &problem) != OK) {
                place->task = NULL;
                place->not_before_ns = clock_boot_ns() + PAUSE_MAX_MS * NS_PER_MS;
                say_error("work", "cannot start a runner", "site", p->spec.site, "error",
                          problem.detail);
                return;
        }
        p->spec.tally->n_started++;
        say_info("work", "started a runner", "site", p->spec.site, "due", SAY_I64(p->told.due),
                 "running", SAY_I64(site_places_running(p)), "allowed", SAY_I64(p->told.allowed));
}

void site_places_start(struct site_places *p, struct slice first)
{
        for (size_t i = 0; i < p->spec.n; i++)
                if (may_start(&p->places[i])) {
                        start_runner(&p->places[i], first);
                        return;
                }
}

/* Runners that have perhaps not claimed anything yet: what is due may be theirs. */
static int64_t count_young(const struct site_places *p)
{
        int64_t n = 0, since_ns = clock_boot_ns() - QUICK_MS * NS_PER_MS;
        for (size_t i = 0; i < p->spec.n; i++)
                n += p->places[i].task && p->places[i].started_ns > since_ns;
        return n;
}

static int64_t min_i64(int64_t a, int64_t b)
{
        return a < b ? a : b;
}

/* No more than are due: the others would find nothing.  Those that are at work for longer do not
 * count, since a single action may keep one busy for minutes. */
int64_t site_places_wants(const struct site_places *p)
{
        int64_t more = p->told.allowed - (int64_t)site_places_running(p), n_free = 0;
        for (size_t i = 0; i < p->spec.n; i++)
                n_free += may_start(&p->places[i]);
        return min_i64(min_i64(more, p->told.due - count_young(p)), n_free);
}

bool site_places_is_critical(const struct site_places *p)
{
        return p->told.critical > count_young(p);
}

/* ---- the whole ---- */

void site_places_tell(struct site_places *p, const struct site_told *told)
{
        p->told = *told;
}

const struct site_told *site_places_told(const struct site_places *p)
{
        return &p->told;
}

static void kill_runners(struct site_places *p, int signum)
{
        for (size_t i = 0; i < p->spec.n; i++)
                if (p->places[i].task)
                        task_kill(p->places[i].task, signum);
}

void site_places_stop(struct site_places *p)
{
        p->is_stopping = true;
        kill_runners(p, SIGTERM);
}

void site_places_kill(struct site_places *p)
{
        kill_runners(p, SIGKILL);
}

void site_places_free(struct site_places *p)
{
        ASSERT(!site_places_running(p));
        free(p);
}

struct site_places *site_places_new(const struct site_places_spec *spec)
{
        struct site_places *p = xcalloc(1, sizeof(*p));
        ASSERT(spec->n <= SITE_RUNNERS_MAX);
        p->spec = *spec;
        for (size_t i = 0; i < spec->n; i++)
                p->places[i].all = p;
        return p;
}
