/* Files of what the doors of the MySQL proxy have learned: learned.NAME in the data folder, one for
 * each door.  A thread writes them every few minutes and at the end; without them a door learns
 * anew, and holds nothing for load meanwhile. */
#ifndef WEIR_SERVE_LEARNED_H
#define WEIR_SERVE_LEARNED_H

#include "proxy/proxy.h"

struct learned;

/* Borrows the proxy.  NULL: there is no thread for it, and it was said. */
struct learned *learned_new(struct proxy *proxy, const char *folder);
/* Reads the file of that door, if there is one.  One that makes no sense is said and passed over.
 */
void learned_read(struct proxy *proxy, const char *folder, size_t door, const char *name);
struct learned *learned_free(struct learned *l); /* writes; NULL is fine; returns NULL */

#endif
