/* Running a command on the loop.
 *
 * The three streams are real pipes, not socket pairs: a script that opens /dev/stderr works on a
 * pipe and fails on a socket.  All ends are close-on-exec, so commands running side by side do
 * not keep each other's pipes open.  The end of the command is heard through a pidfd, which
 * becomes readable when the process has exited: no SIGCHLD, nobody else's children.
 *
 *      state of a task                      leaves by
 *        running                            on_exit
 *        exited, output not at its end      end of both pipes, or 1 s: the group is killed
 *        group killed                       end of both pipes, or 1 s: the pipes are closed
 *        closing                            last handle closed: freed
 *
 * The second of grace lets a filter in the background (`> >(tee log)`) write out what it has;
 * the second one is for processes that left the group and hold the pipe for ever.
 *
 * The group is signalled by its number after its leader was reaped.  While any member lives the
 * number is not reused; when none does there is nobody to hit. */
#include "work/task.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/shown.h"

#define ERRORS_KEPT_BYTES 4096 /* the last lines; the server takes up to 16 KiB */
#define LINGER_MS         1000

struct stream {
        uv_pipe_t pipe;
        struct task *task;
        struct buf kept;
        bool is_ended;
        bool is_errors;
};

struct task {
        pid_t pid;
        uv_poll_t process; /* its pidfd */
        int pidfd;
        uv_timer_t timer;
        uv_pipe_t input;
        bool keeps_input;
        struct stream out, err;
        unsigned n_handles; /* not yet closed; the last one frees the task */
        bool has_exited, is_group_killed, has_left_behind, is_cut, is_done;
        int exit_code, signal;
        size_t output_max;
        bool passes_errors;
        void (*said)(void *ctx, struct slice bytes);
        void (*done)(void *ctx, const struct task_result *result);
        void *ctx;
};

static void on_closed(uv_handle_t *h)
{
        struct task *t = h->data;
        if (--t->n_handles > 0)
                return;
        (void)close(t->pidfd); /* only polled */
        buf_release(&t->out.kept);
        buf_release(&t->err.kept);
        free(t);
}

static void close_handle(void *handle)
{
        uv_handle_t *h = handle;
        if (!uv_is_closing(h))
                uv_close(h, on_closed);
}

static void task_close(struct task *t)
{
        if (t->process.type == UV_POLL)
                close_handle(&t->process);
        close_handle(&t->timer);
        close_handle(&t->input);
        close_handle(&t->out.pipe);
        close_handle(&t->err.pipe);
}

/* The kept end of standard error, from the first whole line on where there is one. */
static struct slice errors_tail(const struct buf *kept)
{
        struct slice s = buf_slice(kept);
        while (s.len && (s.ptr[s.len - 1] == '\n' || s.ptr[s.len - 1] == '\r'))
                s.len--;
        if (s.len <= ERRORS_KEPT_BYTES)
                return s;
        s = slice_make(s.ptr + s.len - ERRORS_KEPT_BYTES, ERRORS_KEPT_BYTES);
        const char *line = memchr(s.ptr, '\n', s.len);
        if (line && line + 1 < s.ptr + s.len)
                s = slice_make(line + 1, (size_t)(s.ptr + s.len - line) - 1);
        return s;
}

static void task_try_finish(struct task *t)
{
        if (t->is_done || !t->has_exited || !t->out.is_ended || !t->err.is_ended)
                return;
        t->is_done = true;
        if (!t->is_group_killed)
                (void)kill(-t->pid, SIGKILL);
        struct task_result result = {
                .exit_code = t->exit_code,
                .signal = t->signal,
                .output = buf_slice(&t->out.kept),
                .is_output_cut = t->is_cut,
                .has_left_behind = t->has_left_behind,
                .errors = errors_tail(&t->err.kept),
        };
        t->done(t->ctx, &result);
        task_close(t);
}

static void on_linger(uv_timer_t *timer)
{
        struct task *t = timer->data;
        t->has_left_behind = true;
        if (!t->is_group_killed) {
                t->is_group_killed = true;
                (void)kill(-t->pid, SIGKILL);
                (void)uv_timer_start(timer, on_linger, LINGER_MS, 0);
                return;
        }
        t->out.is_ended = t->err.is_ended = true;
        task_try_finish(t);
}

static void on_exited(uv_poll_t *process, int status, int events)
{
        struct task *t = process->data;
        int how = 0;
        (void)status; /* a pidfd has no other news */
        (void)events;
        if (waitpid(t->pid, &how, WNOHANG) != t->pid)
                return;
        (void)uv_poll_stop(process);
        t->has_exited = true;
        t->exit_code = WIFEXITED(how) ? WEXITSTATUS(how) : 0;
        t->signal = WIFSIGNALED(how) ? WTERMSIG(how) : 0;
        (void)uv_timer_start(&t->timer, on_linger, LINGER_MS, 0);
        task_try_finish(t);
}

static void on_alloc(uv_handle_t *h, size_t suggested, uv_buf_t *ret)
{
        static char shared[65536]; /* one loop, and each read is used up before the next */
        (void)h;
        (void)suggested;
        *ret = uv_buf_init(shared, sizeof(shared));
}

static void keep_errors(struct task *t, const char *bytes, size_t n)
{
        if (t->passes_errors)
                (void)!write(STDERR_FILENO, bytes, n); /* a log that cannot be written is no error
                                                          of the job's */
        buf_put(&t->err.kept, bytes, n);
        if (t->err.kept.len > 4 * (size_t)ERRORS_KEPT_BYTES)
                buf_drop_front(&t->err.kept, t->err.kept.len - 2 * (size_t)ERRORS_KEPT_BYTES);
}

static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
        struct stream *s = CONTAINER_OF(stream, struct stream, pipe);
        struct task *t = s->task;
        size_t len = n > 0 ? (size_t)n : 0, room = t->output_max - t->out.kept.len;
        if (len && s->is_errors) {
                keep_errors(t, buf->base, len);
        } else if (len) {
                t->is_cut |= len > room;
                buf_put(&t->out.kept, buf->base, len < room ? len : room);
                if (t->said)
                        t->said(t->ctx, slice_make(buf->base, len));
        }
        if (n >= 0)
                return;
        s->is_ended = true;
        (void)uv_read_stop(stream);
        task_try_finish(t);
}

/* Bytes on their way to standard input. */
struct task_write {
        uv_write_t request;
        struct task *task;
        char bytes[];
};

/* Also after a command that did not read all of its input: that is its own business. */
static void on_written(uv_write_t *request, int status)
{
        struct task_write *w = CONTAINER_OF(request, struct task_write, request);
        if (status != 0 || !w->task->keeps_input)
                close_handle(&w->task->input);
        free(w);
}

void task_write(struct task *t, struct slice bytes)
{
        if (uv_is_closing((uv_handle_t *)&t->input))
                return;
        struct task_write *w = xmalloc(sizeof(*w) + bytes.len);
        w->task = t;
        memcpy(w->bytes, bytes.ptr, bytes.len);
        uv_buf_t buf = uv_buf_init(w->bytes, (unsigned)bytes.len);
        if (uv_write(&w->request, (uv_stream_t *)&t->input, &buf, 1, on_written) == 0)
                return;
        close_handle(&t->input);
        free(w);
}

void task_end_input(struct task *t)
{
        close_handle(&t->input);
}

struct pipes {
        int in[2], out[2], err[2];
};

static void pipes_close(struct pipes *p)
{
        int *const all[] = {p->in, p->out, p->err};
        for (size_t i = 0; i < ARRAY_LEN(all); i++)
                for (int end = 0; end < 2; end++)
                        if (all[i][end] >= 0)
                                (void)close(all[i][end]);
}

static int pipes_open(struct pipes *p)
{
        *p = (struct pipes){{-1, -1}, {-1, -1}, {-1, -1}};
        int r = uv_pipe(p->in, 0, UV_NONBLOCK_PIPE);
        if (r == 0)
                r = uv_pipe(p->out, UV_NONBLOCK_PIPE, 0);
        if (r == 0)
                r = uv_pipe(p->err, UV_NONBLOCK_PIPE, 0);
        return r;
}

/* Hands our end of a pipe to its handle; the descriptor then belongs to that. */
static int adopt(uv_pipe_t *handle, int *fd)
{
        int r = uv_pipe_open(handle, *fd);
        if (r == 0)
                *fd = -1;
        return r;
}

/* Watches a process that was just started.  Without room for that it must not run at all. */
static int task_watch(struct task *t, uv_loop_t *loop, struct problem *p)
{
        t->pidfd = (int)syscall(SYS_pidfd_open, t->pid, 0); /* close-on-exec by itself */
        int r = t->pidfd < 0 ? -errno : uv_poll_init(loop, &t->process, t->pidfd);
        if (r == 0) {
                t->n_handles++;
                r = uv_poll_start(&t->process, UV_READABLE, on_exited);
        }
        if (r == 0)
                return OK;
        (void)kill(-t->pid, SIGKILL);
        (void)waitpid(t->pid, NULL, 0);
        return problem_set(p, ERR_UNAVAIL, "cannot watch a process: %s", uv_strerror(r));
}

static int task_spawn(struct task *t, uv_loop_t *loop, const struct task_spec *spec,
                      struct problem *p)
{
        struct pipes pipes;
        int r = pipes_open(&pipes);
        if (r == 0)
                r = adopt(&t->input, &pipes.in[1]);
        if (r == 0)
                r = adopt(&t->out.pipe, &pipes.out[0]);
        if (r == 0)
                r = adopt(&t->err.pipe, &pipes.err[0]);
        if (r != 0)
                r = problem_set(p, ERR_UNAVAIL, "cannot run %s: pipe: %s",
                                SHOWN_MAX(slice_str(spec->command.argv[0]), 100), uv_strerror(r));
        struct spawn command = spec->command;
        command.stdio[0] = pipes.in[0];
        command.stdio[1] = pipes.out[1];
        command.stdio[2] = pipes.err[1];
        if (r == OK)
                r = spawn_start(&command, &t->pid, p);
        pipes_close(&pipes);
        return r == OK ? task_watch(t, loop, p) : r;
}

static struct task *task_new(uv_loop_t *loop, const struct task_spec *spec)
{
        struct task *t = xcalloc(1, sizeof(*t));
        t->output_max = spec->output_max;
        t->passes_errors = spec->passes_errors;
        t->keeps_input = spec->keeps_input;
        t->said = spec->said;
        t->done = spec->done;
        t->ctx = spec->ctx;
        t->pidfd = -1;
        t->out.task = t->err.task = t;
        t->err.is_errors = true;
        buf_init(&t->out.kept, 0);
        buf_init(&t->err.kept, 0);
        /* These cannot fail on unix; uv_close() needs each to be initialised. */
        (void)uv_timer_init(loop, &t->timer);
        (void)uv_pipe_init(loop, &t->input, 0);
        (void)uv_pipe_init(loop, &t->out.pipe, 0);
        (void)uv_pipe_init(loop, &t->err.pipe, 0);
        t->process.data = t->timer.data = t->input.data = t;
        t->out.pipe.data = t->err.pipe.data = t;
        t->n_handles = 4; /* and the process, when there is one */
        return t;
}

static void task_feed(struct task *t, struct slice input)
{
        (void)uv_read_start((uv_stream_t *)&t->out.pipe, on_alloc, on_read);
        (void)uv_read_start((uv_stream_t *)&t->err.pipe, on_alloc, on_read);
        if (input.len)
                task_write(t, input);
        else if (!t->keeps_input)
                close_handle(&t->input);
}

int task_start(uv_loop_t *loop, const struct task_spec *spec, struct task **ret, struct problem *p)
{
        struct task *t = task_new(loop, spec);
        int r = task_spawn(t, loop, spec, p);
        if (r != OK) {
                task_close(t);
                return r;
        }
        task_feed(t, spec->input);
        *ret = t;
        return OK;
}

bool task_has_ended(const struct task *t)
{
        siginfo_t info = {0};
        if (t->has_exited)
                return true;
        /* Only looked at: on_exited waits for it. */
        return waitid(P_PID, (id_t)t->pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
               info.si_pid != 0;
}

void task_kill(struct task *t, int signum)
{
        if (!t->has_exited)
                (void)kill(-t->pid, signum);
        else if (!t->is_group_killed)
                on_linger(&t->timer);
}
