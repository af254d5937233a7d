/* Several pipelined connections that do everything a producer and a worker can do, and tell the
 * model what was sent and what was answered. */
#ifndef CRASH_LOAD_H
#define CRASH_LOAD_H

#include <stdbool.h>
#include <stdint.h>

int load_connect(const char *host, int port); /* a socket, or -1 */

bool load_open(const char *host, int port);
/* Sends and reads until the time or the server's end has come.  False: the server is gone. */
bool load_run(int64_t until_us);
/* Reads what is still on its way, without sending more, until the server closes. */
void load_finish(int64_t patience_us);
/* Whatever was not answered is in doubt from here on. */
void load_close(void);

/* A job is (again) held with a token we know: some connection shall finish it. */
void load_hold(uint64_t nonce);
void load_set_open_jobs(uint64_t n); /* how many are not over: decides whether to enqueue more */
/* The side queue, as the server reports it after a restart. */
void load_see_side(bool is_paused);

#endif
