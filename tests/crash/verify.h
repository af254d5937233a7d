/* The server's account against what the clients were told. */
#ifndef CRASH_VERIFY_H
#define CRASH_VERIFY_H

#include <stdbool.h>
#include <stdint.h>

/* After a restart, before new load: every job of the last cycle (and `sample` older ones).
 * `id_floor`: the highest id known before that cycle. */
bool verify_cycle(const char *host, int port, uint64_t id_floor, uint32_t sample);
/* Every job there is, by paging through the whole list once. */
bool verify_all(const char *host, int port);
/* Finishes everything that is not over and waits out leases nobody holds. */
bool verify_drain(const char *host, int port, int64_t patience_us);
/* All jobs ever enqueued are over, and the server counts the same. */
void verify_conservation(void);

#endif
