/* Takes a lock, runs a command under it, and gives the lock back.
 *
 *      state        meaning                             leaves by
 *        ASKING     LOCK is sent or about to be         granted, refused, the wait over, a signal
 *        CHECKING   granted after a wait: renewed once  renewed -> RUNNING, else ended
 *        RUNNING    the command runs                    its end
 *        RELEASING  UNLOCK is sent or about to be       its answer, or RELEASE_MS
 *        ENDED      the loop runs out
 *
 * The one promise that matters: the command is dead before the lock is free for another.  What is
 * known for certain is that the server counts the time from some moment after the request left
 * here; so the lock is counted as ours until `sent + ttl`, on the clock that goes on while the
 * machine sleeps, whatever the answer says and however late it comes:
 *
 *      sent          + ttl/3            + 2 ttl/3          + 5 ttl/6              + ttl
 *      renewed       renewed again      TERM               KILL                   free at the
 * server
 *
 * Two thirds of the time are left for a server that restarts or a network that comes back.  A
 * renewal that is refused means that another client may hold the lock: TERM at once.
 *
 * A wait goes on when the server goes away and comes back: the lock is asked for again, for what is
 * left of the time, at the end of the line.  Only a server that was never reached ends it at once.
 * A server that answers UNAVAIL or STOPPING is away too: no weir of its cluster leads now, or it
 * stops.  DISABLED is final: an operator has switched locks off.
 *
 * A grant after a wait may have been under way for any length of time (this process may have been
 * stopped meanwhile), so it is renewed before anything is started.
 *
 * Signals go to the whole process group of the command.  On a terminal the group is put in the
 * foreground, so that it can read and Ctrl-C reaches it.  Nothing here can run while this process
 * itself is stopped; against that there is WEIR_FENCE. */
#include "cli/lock_run.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/screen.h"
#include "work/link.h"

#define TICK_MS       1000  /* timers stand still while the machine sleeps; the clock does not */
#define ANSWER_MS     30000 /* beside the wait */
#define WHO_MS        2000  /* for the name of the holder */
#define RELEASE_MS    15000 /* a restart, or a change of the cluster's leader, takes less */
#define AGAIN_MS      200   /* between two requests to a server that cannot take them now */
#define GRACE_MAX_MS  10000 /* from TERM to KILL when a renewal was refused */
#define TOKEN_DIGITS  32
#define EXIT_LOST     5 /* as for any refusal to one that is not the owner */
#define EXIT_NOEXEC   126
#define EXIT_NOTFOUND 127

static const int forwarded[] = {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2};

enum run_state { RUN_ASKING, RUN_CHECKING, RUN_RUNNING, RUN_RELEASING, RUN_ENDED };

struct run {
        const struct lock_run *options;
        uv_loop_t loop;
        struct rng rng;
        struct link *link;
        uv_timer_t tick;
        uv_signal_t signals[ARRAY_LEN(forwarded) + 1]; /* the last is SIGCHLD */
        enum run_state state;
        char token[TOKEN_DIGITS + 1], fence[24];
        int64_t sent_ns;           /* of the request that is under way */
        int64_t ours_until_ns;     /* known for certain */
        int64_t renew_ns, kill_ns; /* the next renewal; INT64_MAX: no KILL is due */
        int64_t release_until_ns;
        int64_t again_ns;      /* not asked, nor unlocked, before; 0: at once */
        int64_t wait_until_ns; /* of the whole wait, over all connections */
        struct problem away;   /* why the server is away; err OK: it is not */
        bool was_up;           /* it was reached once */
        bool is_asked, is_renewing, is_lost, has_terminal;
        bool is_unlocking; /* UNLOCK is under way */
        bool was_unlocked; /* an UNLOCK was sent whose answer did not come */
        pid_t pid;
        int exit;
        struct problem problem; /* err OK: none */
};

static void say(const struct run *r, const char *what)
{
        fprintf(stderr, "weir: lock '%s': %s\n", r->options->name, what);
}

static void step(struct run *r);
static void ask(struct run *r);

static void end_handle(void *handle)
{
        if (!uv_is_closing(handle))
                uv_close(handle, NULL);
}

static void end(struct run *r, int exit_code)
{
        if (r->state == RUN_ENDED)
                return;
        r->state = RUN_ENDED;
        r->exit = exit_code;
        link_close(r->link);
        end_handle(&r->tick);
        for (size_t i = 0; i < ARRAY_LEN(r->signals); i++)
                end_handle(&r->signals[i]);
}

static void fail(struct run *r, const struct problem *p)
{
        r->problem = *p;
        end(r, err_exit(p->err));
}

/* ---- the command ---- */

/* Between fork and exec: no more than async-signal-safe calls. */
_Noreturn static void become(char **argv, bool has_terminal, pid_t parent, int back)
{
        sigset_t none;
        (void)setpgid(0, 0);
        if (has_terminal)
                (void)tcsetpgrp(STDIN_FILENO, getpid());
        for (size_t i = 0; i < ARRAY_LEN(forwarded); i++) {
                struct sigaction now;
                if (sigaction(forwarded[i], NULL, &now) == 0 && now.sa_handler != SIG_IGN)
                        (void)signal(forwarded[i], SIG_DFL);
        }
        (void)signal(SIGCHLD, SIG_DFL);
        (void)signal(SIGPIPE, SIG_DFL);
        (void)sigemptyset(&none);
        (void)sigprocmask(SIG_SETMASK, &none, NULL);
        /* The lock is not renewed after this process ends. */
        if (prctl(PR_SET_PDEATHSIG, SIGTERM) == 0 && getppid() == parent)
                (void)execvp(argv[0], argv);
        int error = errno;
        (void)!write(back, &error, sizeof(error));
        _exit(EXIT_NOTFOUND);
}

/* 0, or the errno of what went wrong. */
static int spawn(struct run *r)
{
        sigset_t all, before;
        int back[2], error = 0;
        if (pipe2(back, O_CLOEXEC) != 0)
                return errno;
        r->has_terminal = isatty(STDIN_FILENO) && tcgetpgrp(STDIN_FILENO) == getpgrp();
        /* A signal must find either our handlers here or the defaults there. */
        (void)sigfillset(&all);
        (void)sigprocmask(SIG_SETMASK, &all, &before);
        pid_t parent = getpid(), pid = fork();
        if (pid == 0)
                become(r->options->argv, r->has_terminal, parent, back[1]);
        if (pid < 0)
                error = errno;
        else
                (void)setpgid(pid, pid); /* parent or child, whichever runs first */
        (void)sigprocmask(SIG_SETMASK, &before, NULL);
        (void)close(back[1]);
        while (pid > 0 && read(back[0], &error, sizeof(error)) < 0 && errno == EINTR)
                ;
        (void)close(back[0]);
        if (pid > 0 && error)
                (void)waitpid(pid, NULL, 0);
        else
                r->pid = pid;
        return error;
}

static void take_terminal(const struct run *r, pid_t group)
{
        if (!r->has_terminal)
                return;
        void (*before)(int) = signal(SIGTTOU, SIG_IGN); /* we may be in the background */
        (void)tcsetpgrp(STDIN_FILENO, group);
        (void)signal(SIGTTOU, before);
}

static void kill_group(const struct run *r, int sig)
{
        (void)kill(-r->pid, sig); /* fails when all of it has ended: fine */
        if (sig == SIGTERM)
                (void)kill(-r->pid, SIGCONT); /* one that is stopped hears nothing */
}

static void lose(struct run *r, const char *why)
{
        int64_t grace_ms = r->options->ttl_ms / 6;
        if (r->is_lost)
                return;
        say(r, why);
        r->is_lost = true;
        r->kill_ns =
                clock_boot_ns() + (grace_ms < GRACE_MAX_MS ? grace_ms : GRACE_MAX_MS) * NS_PER_MS;
        kill_group(r, SIGTERM);
}

static bool means_lost(int err)
{
        return err == ERR_NOTOWNER || err == ERR_NOTFOUND;
}

/* It may take the same request later. */
static bool is_passing(int err)
{
        return err == ERR_UNAVAIL || err == ERR_STOPPING;
}

static void ask_again_later(struct run *r)
{
        r->again_ns = clock_boot_ns() + AGAIN_MS * NS_PER_MS;
        step(r);
}

static void on_unlocked(void *ctx, int err, const struct value *v, const struct problem *p)
{
        struct run *r = ctx;
        r->is_unlocking = false;
        if (r->state != RUN_RELEASING)
                return;
        if (!v && !r->is_lost) { /* the link comes back, or the time is over */
                r->was_unlocked = true;
                return;
        }
        if (v && is_passing(err) && !r->is_lost) {
                ask_again_later(r);
                return;
        }
        if (v && err != OK && !r->is_lost && !(r->was_unlocked && means_lost(err)))
                say(r, p->detail);
        end(r, r->exit);
}

static void unlock(struct run *r)
{
        const struct slice argv[] = {SLICE_LIT("UNLOCK"), slice_str(r->options->name),
                                     slice_str(r->token)};
        r->is_unlocking = true;
        link_send(r->link, argv, ARRAY_LEN(argv), (struct link_answer){on_unlocked, r, RELEASE_MS});
}

static void release(struct run *r)
{
        r->state = RUN_RELEASING;
        r->release_until_ns = clock_boot_ns() + RELEASE_MS * NS_PER_MS;
        if (link_is_up(r->link))
                unlock(r);
        else if (r->is_lost)
                end(r, r->exit); /* the server is away, and the lock runs out by itself */
}

static void on_ended(struct run *r, int status)
{
        take_terminal(r, getpgrp());
        r->exit = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
        if (r->is_lost) {
                kill_group(r, SIGKILL); /* what it left behind must not go on either */
                r->exit = EXIT_LOST;
        }
        r->pid = 0;
        release(r);
}

static void on_child(struct run *r)
{
        int status;
        if (r->state != RUN_RUNNING || waitpid(r->pid, &status, WNOHANG | WUNTRACED) != r->pid)
                return;
        if (!WIFSTOPPED(status)) {
                on_ended(r, status);
        } else if (r->has_terminal) {
                /* Ctrl-Z stopped the command: the shell must see that this process stops too. */
                take_terminal(r, getpgrp());
                (void)raise(SIGSTOP);
                take_terminal(r, r->pid);
                kill_group(r, SIGCONT);
        }
}

static void start(struct run *r)
{
        (void)setenv("WEIR_LOCK_NAME", r->options->name, 1);
        (void)setenv("WEIR_LOCK_TOKEN", r->token, 1);
        (void)setenv("WEIR_FENCE", r->fence, 1);
        int error = spawn(r);
        if (!error) {
                r->state = RUN_RUNNING;
                return;
        }
        fprintf(stderr, "weir: cannot run %s: %s\n", r->options->argv[0], strerror(error));
        r->exit = error == ENOENT ? EXIT_NOTFOUND : EXIT_NOEXEC;
        release(r);
}

/* ---- the lock ---- */

/* The server gave us the lock, or more time, after the request had left. */
static void count_from(struct run *r, int64_t sent_ns)
{
        r->ours_until_ns = sent_ns + r->options->ttl_ms * NS_PER_MS;
        r->renew_ns = sent_ns + r->options->ttl_ms * NS_PER_MS / 3;
}

/* The lock that came after a wait could not be renewed. */
static void check_failed(struct run *r, int err, const struct value *v, const struct problem *p)
{
        bool has_time = clock_boot_ns() < r->wait_until_ns;
        if (!v)
                return; /* link_down() comes next and says why */
        if (has_time && means_lost(err)) {
                r->state = RUN_ASKING; /* it ran out while the server was away */
                ask(r);
        } else if (has_time && is_passing(err)) {
                ask_again_later(r);
        } else {
                fail(r, p);
        }
}

static void on_renewed(void *ctx, int err, const struct value *v, const struct problem *p)
{
        struct run *r = ctx;
        r->is_renewing = false;
        if (r->state == RUN_CHECKING && err != OK) {
                check_failed(r, err, v, p);
                return;
        }
        if (r->state != RUN_CHECKING && r->state != RUN_RUNNING)
                return;
        if (err == OK) {
                count_from(r, r->sent_ns);
                if (r->state == RUN_CHECKING)
                        start(r);
        } else if (v && means_lost(err)) {
                lose(r, "lost, another may hold it now; stopping the command");
        } else {
                r->renew_ns = clock_boot_ns() + r->options->ttl_ms * NS_PER_MS / 12;
        }
        step(r);
}

static void renew(struct run *r)
{
        int64_t ttl_ms = r->options->ttl_ms;
        const struct slice argv[] = {SLICE_LIT("RENEW"), slice_str(r->options->name),
                                     slice_str(r->token), LINK_INT(ttl_ms)};
        r->sent_ns = clock_boot_ns();
        r->is_renewing = true;
        link_send(r->link, argv, ARRAY_LEN(argv), (struct link_answer){on_renewed, r, ttl_ms / 3});
}

static void on_who(void *ctx, int err, const struct value *v, const struct problem *p)
{
        struct run *r = ctx;
        (void)p; /* it is free by now, or the link is gone: either way it was held */
        const struct value *holders = err == OK ? value_get(v, "holders") : NULL;
        if (holders && holders->type == VALUE_LIST && holders->n) {
                struct slice owner = value_text(value_get(&holders->items[0], "owner"));
                struct buf text CLEANUP(buf_release) = {0};
                buf_put_str(&text, owner.len ? "it is held by " : "it is held");
                text_put_safe(&text, owner);
                say(r, buf_cstr(&text));
        } else {
                say(r, "it was held");
        }
        end(r, r->options->conflict_exit);
}

static void conflict(struct run *r)
{
        const struct slice argv[] = {SLICE_LIT("LOCKED"), slice_str(r->options->name)};
        r->exit = r->options->conflict_exit;
        if (r->options->is_verbose && link_is_up(r->link))
                link_send(r->link, argv, ARRAY_LEN(argv), (struct link_answer){on_who, r, WHO_MS});
        else
                end(r, r->options->conflict_exit);
}

static void be_away(struct run *r, const struct problem *why)
{
        if (r->away.err == OK)
                say(r, "the server is away; waiting for it to come back");
        r->away = *why;
}

static void on_locked(void *ctx, int err, const struct value *v, const struct problem *p)
{
        struct run *r = ctx;
        r->is_asked = false;
        if (!v || r->state != RUN_ASKING)
                return; /* link_down() comes next and says why */
        if (is_passing(err) && clock_boot_ns() < r->wait_until_ns) {
                be_away(r, p);
                ask_again_later(r);
                return;
        }
        if (err != OK) {
                fail(r, p);
                return;
        }
        r->away.err = OK;
        if (v->type == VALUE_NULL) {
                conflict(r);
                return;
        }
        struct slice token =
                v->type == VALUE_LIST && v->n >= 2 ? value_text(&v->items[0]) : SLICE_NONE;
        if (token.len != TOKEN_DIGITS) {
                struct problem foreign;
                (void)problem_set(&foreign, ERR_SYNTAX, "what answers on %s is no weir",
                                  r->options->url->text);
                fail(r, &foreign);
                return;
        }
        memcpy(r->token, token.ptr, TOKEN_DIGITS);
        (void)snprintf(r->fence, sizeof(r->fence), "%lld", (long long)value_int(&v->items[1], 0));
        count_from(r, r->sent_ns);
        if (clock_boot_ns() < r->renew_ns) {
                start(r);
        } else {
                r->state = RUN_CHECKING;
                renew(r);
        }
        step(r);
}

static void ask(struct run *r)
{
        const struct lock_run *o = r->options;
        int64_t now_ns = clock_boot_ns();
        int64_t wait_ms = now_ns < r->wait_until_ns ? (r->wait_until_ns - now_ns) / NS_PER_MS : 0;
        const struct slice argv[] = {
                SLICE_LIT("LOCK"),  slice_str(o->name), LINK_INT(o->ttl_ms),
                SLICE_LIT("WAIT"),  LINK_INT(wait_ms),  SLICE_LIT("COUNT"),
                LINK_INT(o->count), SLICE_LIT("OWNER"), slice_str(o->owner),
        };
        r->is_asked = true;
        r->sent_ns = now_ns;
        link_send(r->link, argv, ARRAY_LEN(argv),
                  (struct link_answer){on_locked, r, wait_ms + ANSWER_MS});
}

static void link_up(void *ctx)
{
        struct run *r = ctx;
        r->was_up = true;
        r->away.err = OK;
        if (r->state == RUN_ASKING && !r->is_asked)
                ask(r);
        else if (r->state == RUN_CHECKING || r->state == RUN_RUNNING)
                renew(r);
        else if (r->state == RUN_RELEASING)
                unlock(r);
}

static void link_down(void *ctx, const struct problem *why, int64_t wait_ms)
{
        struct run *r = ctx;
        (void)wait_ms;
        r->is_renewing = r->is_asked = r->is_unlocking = false;
        if (r->state == RUN_ASKING || r->state == RUN_CHECKING) {
                if (!r->was_up || clock_boot_ns() >= r->wait_until_ns) {
                        fail(r, why);
                        return;
                }
                be_away(r, why);
        }
        /* RUNNING: there is time; RELEASING: a little. */
}

/* ---- the clock ---- */

static int64_t least(int64_t a, int64_t b)
{
        return a < b ? a : b;
}

static void watch_lock(struct run *r, int64_t now_ns)
{
        int64_t ttl_ns = r->options->ttl_ms * NS_PER_MS;
        int64_t kill_ns = least(r->kill_ns, r->ours_until_ns - ttl_ns / 6);
        if (now_ns >= r->ours_until_ns - ttl_ns / 3)
                lose(r, "it cannot be renewed; stopping the command before the lock runs out");
        if (r->is_lost && now_ns >= kill_ns)
                kill_group(r, SIGKILL);
        if (!r->is_lost && !r->is_renewing && now_ns >= r->renew_ns && link_is_up(r->link))
                renew(r);
}

static void on_tick(uv_timer_t *timer)
{
        step(timer->data);
}

/* Sends again what the server could not take the last time. */
static void send_again(struct run *r, int64_t now_ns)
{
        bool is_under_way = r->is_asked || r->is_renewing || r->is_unlocking;
        if (!r->again_ns || now_ns < r->again_ns || is_under_way || !link_is_up(r->link))
                return;
        r->again_ns = 0;
        if (r->state == RUN_ASKING)
                ask(r);
        else if (r->state == RUN_CHECKING)
                renew(r);
        else if (r->state == RUN_RELEASING)
                unlock(r);
}

/* What the time demands, and when to look again. */
static void step(struct run *r)
{
        int64_t now_ns = clock_boot_ns(), ttl_ns = r->options->ttl_ms * NS_PER_MS;
        int64_t next_ns = now_ns + TICK_MS * NS_PER_MS;
        bool is_waiting = r->state == RUN_ASKING || r->state == RUN_CHECKING;
        if (r->state == RUN_RUNNING) {
                watch_lock(r, now_ns);
                next_ns = least(next_ns, now_ns + ttl_ns / 24);
        } else if (r->state == RUN_RELEASING && now_ns >= r->release_until_ns) {
                if (!r->is_lost)
                        say(r, "not given back, the server does not answer; it will run out");
                end(r, r->exit);
        } else if (is_waiting && r->away.err != OK && !r->is_asked) {
                next_ns = least(next_ns, r->wait_until_ns);
                if (now_ns >= r->wait_until_ns)
                        fail(r, &r->away);
        }
        send_again(r, now_ns);
        if (r->again_ns > now_ns)
                next_ns = least(next_ns, r->again_ns);
        if (r->state != RUN_ENDED)
                (void)uv_timer_start(&r->tick, on_tick, (uint64_t)((next_ns - now_ns) / NS_PER_MS),
                                     0);
}

/* ---- signals and the whole ---- */

static void on_signal(uv_signal_t *handle, int sig)
{
        struct run *r = handle->data;
        if (sig == SIGCHLD)
                on_child(r);
        else if (r->state == RUN_RUNNING)
                kill_group(r, sig);
        else
                end(r, 128 + sig);
}

/* A signal that was ignored at the start (nohup) stays ignored, here and in the command. */
static void catch_signals(struct run *r)
{
        for (size_t i = 0; i < ARRAY_LEN(r->signals); i++) {
                int sig = i < ARRAY_LEN(forwarded) ? forwarded[i] : SIGCHLD;
                struct sigaction now;
                (void)uv_signal_init(&r->loop, &r->signals[i]);
                r->signals[i].data = r;
                if (sig == SIGCHLD || sigaction(sig, NULL, &now) != 0 || now.sa_handler != SIG_IGN)
                        (void)uv_signal_start(&r->signals[i], on_signal, sig);
        }
}

int lock_run(const struct lock_run *options, int *ret_exit, struct problem *p)
{
        struct run r = {
                .options = options,
                .kill_ns = INT64_MAX,
                .wait_until_ns = clock_boot_ns() + options->wait_ms * NS_PER_MS,
        };
        const struct link_owner owner = {&r, link_up, link_down};
        int uv = uv_loop_init(&r.loop);
        if (uv != 0)
                return problem_set(p, ERR_IO, "cannot make an event loop: %s", uv_strerror(uv));
        rng_init_system(&r.rng);
        (void)signal(SIGPIPE, SIG_IGN);
        (void)signal(SIGCHLD, SIG_DFL);
        (void)uv_timer_init(&r.loop, &r.tick);
        r.tick.data = &r;
        catch_signals(&r);
        r.link = link_new(&r.loop, options->url, "lock", &r.rng, &owner);
        step(&r);
        (void)uv_run(&r.loop, UV_RUN_DEFAULT);
        uv = uv_loop_close(&r.loop);
        ASSERT(uv == 0);
        *ret_exit = r.exit;
        *p = r.problem;
        return r.problem.err;
}
