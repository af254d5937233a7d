/* The guard: one thread per WordPress site, which does all SQL of that site (guard/store.h) and
 * whatever sites/ decides.
 *
 * A thread owns its connection and nothing else.  It comes to the loop with what it found, waits
 * for the answer, and so never sees the state of the core.  guard_stop() joins it: it is never
 * further from that than one step, because everything it waits for watches its stop_fd.
 *
 * Ownership: the guard belongs to the loop from guard_new() on; its sites to the caller, who stops
 * them before the loop is freed.  Loop thread only. */
#ifndef WEIR_GUARD_GUARD_H
#define WEIR_GUARD_GUARD_H

#include "guard/network.h"
#include "guard/store.h"
#include "loop/loop.h"
#include "sites/sites.h"

struct guard;
struct guard_site;

/* Joins the loop; core_set_sites() takes what guard_for_core() gives. */
struct guard *guard_new(struct loop *loop);
struct sites_guard guard_for_core(struct guard *g);

/* Who is told what the guard of a network has read, each time; he may start and stop sites.  NULL:
 * nobody. */
typedef void (*guard_found)(void *ctx, const char *site, const struct network_blogs *blogs);
void guard_set_found(struct guard *g, guard_found found, void *ctx);

/* The options must outlive the site. */
int guard_start(struct guard *g, const struct store_options *options, int64_t interval_ms,
                struct guard_site **ret, struct problem *problem) MUST_CHECK;
/* Waits for the thread, and answers what clients still wait for.  NULL is fine; returns NULL. */
struct guard_site *guard_stop(struct guard_site *site);

#endif
