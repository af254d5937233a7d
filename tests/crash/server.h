/* The real binary as a child process: started, waited for, killed, looked at after death. */
#ifndef CRASH_SERVER_H
#define CRASH_SERVER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct server {
        pid_t pid; /* 0 = not running */
        int out_fd;
        char host[64];
        int port;
        int64_t start_us; /* how long it took until "ready" */
};

struct server_options {
        const char *binary, *data, *stderr_path;
        const char *kill_at; /* "pwrite64:when=7": strace ends the process there; NULL = not */
};

/* Starts and waits for the ready line.  1: ready; 0: it was killed before (only with kill_at or
 * when somebody else killed it); -1: it ended by itself or said nothing in time. */
int server_start(struct server *s, const struct server_options *o, int64_t patience_us);
/* Starts without waiting. */
void server_spawn(struct server *s, const struct server_options *o);
/* Waits for the end; the wait status.  A process that outlives its patience is killed: -1. */
int server_wait(struct server *s, int64_t patience_us);
bool server_is_dead(struct server *s, int *ret_status); /* asks without waiting */

#endif
