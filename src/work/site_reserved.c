/* See site_reserved.h.
 *
 * A runner that claims whatever is due reads every due row for it: seconds with a million of them.
 * One that names its hooks reads only the rows of those.  And a process that stays saves the time
 * that WordPress takes to load.
 *
 * The process (weir-runner.php --reserved) reads lines of JSON, each with all hooks, and ends when
 * its input does.  It writes a line for each claim, "weir-claim: 17" or 0 for none, so that a
 * process that was killed does not keep its claim: the next one gives that back first.
 *
 *      state       entered when                         left when
 *      IDLE        there are no hooks                   there are
 *      RUNNING     there are hooks: a process is there  it ends, or there are no hooks
 *      PAUSED      it ended badly or at once            the pause is over, or there are no hooks
 *      LEAVING     its input was closed: no hooks       it ends
 *      STOPPING    the same, for good                   it ends
 *      STOPPED     no process, for good
 *
 * While it is not wanted, because its place is another blog's, it is as if there were no hooks.
 *
 * A process ends by itself every few minutes, to give memory back; that is no bad end, and the next
 * one is started at once. */
#include "work/site_reserved.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/say.h"
#include "base/shown.h"
#include "wire/json.h"
#include "work/task.h"

#define QUICK_MS       5000 /* sooner than this is a bad end, whatever its exit code */
#define PAUSE_MIN_MS   1000
#define PAUSE_MAX_MS   60000
#define OUTPUT_MAX     4096
#define CLAIM_LINE_MAX 64
#define CLAIM_LINE     "weir-claim: "

enum reserved_state {
        RESERVED_NEVER, /* what no event leads to */
        RESERVED_IDLE,
        RESERVED_RUNNING,
        RESERVED_PAUSED,
        RESERVED_LEAVING,
        RESERVED_STOPPING,
        RESERVED_STOPPED,
        RESERVED_STATES
};
enum reserved_event {
        EVENT_HOOKS,    /* a list with hooks */
        EVENT_NO_HOOKS, /* an empty one */
        EVENT_ENDED,
        EVENT_FAILED,
        EVENT_PAUSE_OVER,
        EVENT_STOP,
        RESERVED_EVENTS
};

static const enum reserved_state next_state[RESERVED_STATES][RESERVED_EVENTS] = {
        [RESERVED_IDLE] =
                {
                        [EVENT_HOOKS] = RESERVED_RUNNING,
                        [EVENT_NO_HOOKS] = RESERVED_IDLE,
                        [EVENT_STOP] = RESERVED_STOPPED,
                },
        [RESERVED_RUNNING] =
                {
                        [EVENT_HOOKS] = RESERVED_RUNNING,
                        [EVENT_NO_HOOKS] = RESERVED_LEAVING,
                        [EVENT_ENDED] = RESERVED_RUNNING,
                        [EVENT_FAILED] = RESERVED_PAUSED,
                        [EVENT_STOP] = RESERVED_STOPPING,
                },
        [RESERVED_PAUSED] =
                {
                        [EVENT_HOOKS] = RESERVED_PAUSED,
                        [EVENT_NO_HOOKS] = RESERVED_IDLE,
                        [EVENT_PAUSE_OVER] = RESERVED_RUNNING,
                        [EVENT_STOP] = RESERVED_STOPPED,
                },
        [RESERVED_LEAVING] =
                {
                        [EVENT_HOOKS] = RESERVED_LEAVING,
                        [EVENT_NO_HOOKS] = RESERVED_LEAVING,
                        [EVENT_ENDED] = RESERVED_IDLE,
                        [EVENT_STOP] = RESERVED_STOPPING,
                },
        [RESERVED_STOPPING] = {[EVENT_ENDED] = RESERVED_STOPPED},
        [RESERVED_STOPPED] = {[EVENT_STOP] = RESERVED_STOPPED},
};

struct site_reserved {
        struct site_reserved_spec spec;
        enum reserved_state state;
        struct task *task; /* NULL: no process */
        uv_timer_t pause;
        struct buf hooks; /* a JSON list, as the server told it last; "" without any */
        size_t n_hooks;
        bool is_wanted;
        int64_t started_ns;
        int64_t pause_ms;          /* after the last bad end; 0: it was none */
        uint64_t claim;            /* of the process, or of the one that ended; 0: none */
        char line[CLAIM_LINE_MAX]; /* what it has written of its next line */
        size_t line_len;
};

static void reserved_move(struct site_reserved *r, enum reserved_event event);

/* ---- what it is told, and what it tells ---- */

static void put_message(const struct site_reserved *r, uint64_t left, struct buf *ret)
{
        buf_put_str(ret, "{");
        json_put_key(ret, "hooks");
        buf_put_slice(ret, buf_slice(&r->hooks));
        if (left) {
                json_put_key(ret, "left");
                buf_put_u64(ret, left);
        }
        buf_put_str(ret, "}\n");
}

static void on_line(struct site_reserved *r)
{
        const size_t n = strlen(CLAIM_LINE);
        if (r->line_len < CLAIM_LINE_MAX && r->line_len > n &&
            memcmp(r->line, CLAIM_LINE, n) == 0) {
                r->line[r->line_len] = '\0';
                r->claim = strtoull(r->line + n, NULL, 10);
        }
        r->line_len = 0;
}

static void on_said(void *ctx, struct slice bytes)
{
        struct site_reserved *r = ctx;
        for (size_t i = 0; i < bytes.len; i++)
                if (bytes.ptr[i] == '\n')
                        on_line(r);
                else if (r->line_len < CLAIM_LINE_MAX)
                        r->line[r->line_len++] = bytes.ptr[i];
}

/* ---- its process ---- */

static void note_bad_end(struct site_reserved *r, const struct task_result *result, int64_t took_ms)
{
        bool has_worked = took_ms >= PAUSE_MAX_MS;
        struct slice why = result->errors.len ? result->errors : result->output;
        r->pause_ms = r->pause_ms && !has_worked ? 2 * r->pause_ms : PAUSE_MIN_MS;
        if (r->pause_ms > PAUSE_MAX_MS)
                r->pause_ms = PAUSE_MAX_MS;
        for (size_t i = why.len; i > 0; i--)
                if (why.ptr[i - 1] == '\n') {
                        why = slice_make(why.ptr + i, why.len - i);
                        break;
                }
        say_warn("work", "the reserved runner failed; it is started again after a pause",
                 result->signal ? "signal" : "code",
                 SAY_I64(result->signal ? result->signal : result->exit_code), "ms",
                 SAY_I64(took_ms), "pause_ms", SAY_I64(r->pause_ms), "said", SHOWN_MAX(why, 200));
}

static void on_process_done(void *ctx, const struct task_result *result)
{
        struct site_reserved *r = ctx;
        int64_t took_ms = (clock_boot_ns() - r->started_ns) / NS_PER_MS;
        bool is_bad = result->signal || result->exit_code || took_ms < QUICK_MS;
        r->task = NULL;
        if (r->state == RESERVED_RUNNING && is_bad) {
                note_bad_end(r, result, took_ms);
                reserved_move(r, EVENT_FAILED);
                return;
        }
        r->pause_ms = 0;
        say_info("work", "the reserved runner ended", "ms", SAY_I64(took_ms));
        reserved_move(r, EVENT_ENDED);
        if (r->state == RESERVED_IDLE && r->is_wanted && r->hooks.len)
                reserved_move(r, EVENT_HOOKS); /* told while it was leaving */
}

static int start_process(struct site_reserved *r, struct problem *p)
{
        const struct site_reserved_spec *s = &r->spec;
        struct words command, env;
        struct buf message CLEANUP(buf_release) = {0};
        site_blog_put_command(s->blog, s->command, &command);
        env_make(&env, s->env);
        site_blog_put_env(s->blog, &env);
        put_message(r, r->claim, &message);
        r->line_len = 0;
        r->started_ns = clock_boot_ns();
        const struct task_spec spec = {
                .command = {.argv = command.argv, .env = env.argv, .dir = s->dir, .umask = -1},
                .input = buf_slice(&message),
                .keeps_input = true,
                .said = on_said,
                .output_max = OUTPUT_MAX,
                .passes_errors = s->passes_errors,
                .done = on_process_done,
                .ctx = r,
        };
        int err = task_start(s->loop, &spec, &r->task, p);
        words_release(&command);
        words_release(&env);
        return err;
}

static bool try_start(struct site_reserved *r)
{
        struct problem p = {0};
        if (start_process(r, &p) == OK) {
                r->claim = 0; /* it is told */
                say_info("work", "started the reserved runner", "site", r->spec.site, "hooks",
                         SAY_I64(r->n_hooks));
                return true;
        }
        r->task = NULL;
        r->pause_ms = PAUSE_MAX_MS;
        say_error("work", "cannot start the reserved runner", "error", p.detail);
        return false;
}

static void tell_hooks(struct site_reserved *r)
{
        struct buf message CLEANUP(buf_release) = {0};
        put_message(r, 0, &message);
        task_write(r->task, buf_slice(&message));
        say_info("work", "told the reserved runner its hooks", "site", r->spec.site, "hooks",
                 SAY_I64(r->n_hooks));
}

/* ---- its life ---- */

static void on_pause_over(uv_timer_t *timer)
{
        reserved_move(timer->data, EVENT_PAUSE_OVER);
}

/* False: a process could not be started. */
static bool reserved_enter(struct site_reserved *r, enum reserved_event event)
{
        enum reserved_state from = r->state;
        r->state = next_state[from][event];
        ASSERT(r->state != RESERVED_NEVER);
        if (from == RESERVED_PAUSED && r->state != RESERVED_PAUSED)
                (void)uv_timer_stop(&r->pause);
        switch (r->state) {
        case RESERVED_RUNNING:
                if (from != RESERVED_RUNNING || event != EVENT_HOOKS)
                        return try_start(r);
                tell_hooks(r);
                break;
        case RESERVED_PAUSED:
                if (from != RESERVED_PAUSED)
                        (void)uv_timer_start(&r->pause, on_pause_over, (uint64_t)r->pause_ms, 0);
                break;
        case RESERVED_LEAVING:
        case RESERVED_STOPPING:
                if (from == RESERVED_RUNNING)
                        task_end_input(r->task);
                break;
        case RESERVED_STOPPED:
        case RESERVED_IDLE:
                if (event == EVENT_ENDED)
                        r->spec.left(r->spec.ctx);
                break;
        case RESERVED_NEVER:
        case RESERVED_STATES:
                break;
        }
        return true;
}

/* The only place that changes the state. */
static void reserved_move(struct site_reserved *r, enum reserved_event event)
{
        while (!reserved_enter(r, event))
                event = EVENT_FAILED;
}

struct slice site_reserved_hooks(const struct site_reserved *r)
{
        return buf_slice(&r->hooks);
}

void site_reserved_set_hooks(struct site_reserved *r, const struct value *hooks)
{
        struct buf list CLEANUP(buf_release) = {0};
        size_t n = hooks && hooks->type == VALUE_LIST ? hooks->n : 0;
        for (size_t i = 0; i < n; i++) {
                buf_put_str(&list, i ? "," : "[");
                json_put_text_lossy(&list, value_text(&hooks->items[i]));
        }
        if (n)
                buf_put_str(&list, "]");
        if (slice_eq(buf_slice(&list), buf_slice(&r->hooks)))
                return;
        buf_clear(&r->hooks);
        buf_put_slice(&r->hooks, buf_slice(&list));
        r->n_hooks = n;
        if (r->is_wanted)
                reserved_move(r, n ? EVENT_HOOKS : EVENT_NO_HOOKS);
}

void site_reserved_want(struct site_reserved *r, bool is_wanted)
{
        if (r->is_wanted == is_wanted)
                return;
        r->is_wanted = is_wanted;
        if (r->hooks.len)
                reserved_move(r, is_wanted ? EVENT_HOOKS : EVENT_NO_HOOKS);
}

bool site_reserved_is_there(const struct site_reserved *r)
{
        return r->state != RESERVED_IDLE && r->state != RESERVED_STOPPED;
}

bool site_reserved_has_claim(const struct site_reserved *r)
{
        return r->claim != 0;
}

void site_reserved_stop(struct site_reserved *r)
{
        reserved_move(r, EVENT_STOP);
}

void site_reserved_kill(struct site_reserved *r)
{
        if (r->task)
                task_kill(r->task, SIGKILL);
}

bool site_reserved_is_stopped(const struct site_reserved *r)
{
        return r->state == RESERVED_STOPPED;
}

static void on_pause_closed(uv_handle_t *handle)
{
        struct site_reserved *r = handle->data;
        buf_release(&r->hooks);
        free(r);
}

void site_reserved_close(struct site_reserved *r)
{
        ASSERT(r->state == RESERVED_STOPPED);
        uv_close((uv_handle_t *)&r->pause, on_pause_closed);
}

struct site_reserved *site_reserved_new(const struct site_reserved_spec *spec)
{
        struct site_reserved *r = xcalloc(1, sizeof(*r));
        r->spec = *spec;
        r->state = RESERVED_IDLE;
        buf_init(&r->hooks, 0);
        (void)uv_timer_init(spec->loop, &r->pause);
        r->pause.data = r;
        return r;
}
