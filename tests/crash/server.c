/* strace -D makes the tracer a grandchild and leaves the traced process our child, so that kill
 * and waitpid mean the server whether it is traced or not.  No --seccomp-bpf: it would keep the
 * other system calls at full speed, but with it strace 6.1 shows the call and injects nothing. */
#include "server.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "model.h"

static void run_child(const struct server_options *o, int out_fd)
{
        int err_fd = open(o->stderr_path, O_WRONLY | O_CREAT | O_APPEND, 0644);
        dup2(out_fd, 1);
        dup2(err_fd, 2);
        /* Nothing may outlive the harness, whatever happens to it. */
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        char trace[128], inject[160];
        if (o->kill_at) {
                (void)snprintf(trace, sizeof(trace), "trace=%.*s", (int)strcspn(o->kill_at, ":"),
                               o->kill_at);
                (void)snprintf(inject, sizeof(inject), "inject=%.*s:signal=SIGKILL%s",
                               (int)strcspn(o->kill_at, ":"), o->kill_at,
                               o->kill_at + strcspn(o->kill_at, ":"));
                execlp("strace", "strace", "-D", "-f", "-qq", "-o", "/dev/null", "-e", trace, "-e",
                       inject, o->binary, "serve", "--data", o->data, "--resp", "127.0.0.1:0",
                       "--http", "127.0.0.1:0", (char *)NULL);
        } else {
                execl(o->binary, o->binary, "serve", "--data", o->data, "--resp", "127.0.0.1:0",
                      "--http", "127.0.0.1:0", (char *)NULL);
        }
        _exit(127);
}

void server_spawn(struct server *s, const struct server_options *o)
{
        int fds[2];
        if (pipe2(fds, O_CLOEXEC) < 0)
                abort();
        *s = (struct server){.out_fd = fds[0]};
        fflush(stdout);
        s->pid = fork();
        if (s->pid < 0)
                abort();
        if (s->pid == 0)
                run_child(o, fds[1]);
        close(fds[1]);
}

static bool parse_ready(struct server *s, const char *text)
{
        const char *ready = strstr(text, "ready ");
        const char *resp = ready ? strstr(ready, "resp=") : NULL;
        if (!resp || !strchr(resp, '\n'))
                return false;
        resp += strlen("resp=");
        const char *colon = strrchr(resp, ':');
        if (!colon || (size_t)(colon - resp) >= sizeof(s->host))
                return false;
        (void)snprintf(s->host, sizeof(s->host), "%.*s", (int)(colon - resp), resp);
        s->port = (int)strtol(colon + 1, NULL, 10);
        return s->port > 0;
}

int server_start(struct server *s, const struct server_options *o, int64_t patience_us)
{
        int64_t begin = steady_us();
        server_spawn(s, o);
        char text[512];
        size_t len = 0;
        for (;;) {
                int64_t left = begin + patience_us - steady_us();
                struct pollfd p = {.fd = s->out_fd, .events = POLLIN};
                if (left <= 0 || poll(&p, 1, (int)(left / 1000) + 1) < 0)
                        break;
                if (!p.revents)
                        continue;
                ssize_t n = read(s->out_fd, text + len, sizeof(text) - 1 - len);
                if (n <= 0)
                        break;
                len += (size_t)n;
                text[len] = '\0';
                if (parse_ready(s, text)) {
                        s->start_us = steady_us() - begin;
                        return 1;
                }
        }
        int status = server_wait(s, 100000);
        if (status >= 0 && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)
                return 0;
        printf("# the server did not become ready: wait status %d, said \"%s\"\n", status, text);
        return -1;
}

bool server_is_dead(struct server *s, int *ret_status)
{
        if (waitpid(s->pid, ret_status, WNOHANG) != s->pid)
                return false;
        close(s->out_fd);
        s->pid = 0;
        return true;
}

int server_wait(struct server *s, int64_t patience_us)
{
        int64_t deadline = steady_us() + patience_us;
        int status = 0;
        while (!server_is_dead(s, &status)) {
                if (steady_us() > deadline) {
                        kill(s->pid, SIGKILL);
                        while (waitpid(s->pid, &status, 0) < 0 && errno == EINTR)
                                ;
                        close(s->out_fd);
                        s->pid = 0;
                        return -1;
                }
                poll(NULL, 0, 1);
        }
        return status;
}
