/* The handler writes to a pipe that interrupt_wait() looks at as well: a signal that comes between
 * looking at a flag and waiting is not missed. */
#include "cli/interrupt.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

static volatile sig_atomic_t seen; /* the number of the signal; 0: none */
static int ends[2] = {-1, -1};

static void note(int number)
{
        int before = errno;
        seen = number;
        (void)!write(ends[1], "", 1); /* a full one is read as well */
        errno = before;
}

void interrupt_catch(void)
{
        static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
        const struct sigaction once = {.sa_handler = note, .sa_flags = (int)SA_RESETHAND};
        struct sigaction now;
        if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0)
                return; /* then a signal does what it always did */
        for (size_t i = 0; i < ARRAY_LEN(numbers); i++)
                if (sigaction(numbers[i], NULL, &now) == 0 && now.sa_handler != SIG_IGN)
                        (void)sigaction(numbers[i], &once, NULL); /* these can be caught */
}

int interrupt_wait(int fd, struct problem *p)
{
        struct pollfd fds[] = {{.fd = ends[0], .events = POLLIN}, {.fd = fd, .events = POLLIN}};
        while (!seen && poll(fds, ARRAY_LEN(fds), -1) < 0)
                if (errno != EINTR)
                        break; /* the next read reports the error */
        return seen ? problem_set(p, ERR_STOPPING, "interrupted") : OK;
}

void interrupt_end(void)
{
        if (!seen)
                return;
        (void)signal(seen, SIG_DFL);
        (void)raise(seen);
}
