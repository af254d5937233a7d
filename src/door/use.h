/* What one address of another machine and one token use of the server: connections, commands a
 * second, and memory.  The limits are rows of api/limits.h; a token may have lower ones. */
#ifndef WEIR_DOOR_USE_H
#define WEIR_DOOR_USE_H

#include "api/access.h"

struct conn;
struct server;

void use_init(struct server *s);

/* Counts the connection for that grant from now on, and for the one before no longer.  NULL: for
 * none.  The session has it. */
void use_become(struct conn *c, struct grant *grant);
/* May the token have one more?  Also when few places are left, which are for operators. */
int use_admits(const struct conn *c, const struct grant *grant, struct problem *p) MUST_CHECK;

/* Memory that the connection holds has grown by so much; may wrap, as it is unsigned. */
void use_count_bytes(struct conn *c, uint64_t more);
/* Cuts the heaviest connections of those who hold too much.  Not from inside a call of the core. */
void use_cut(struct server *s);

void use_count_command(struct conn *c);
/* Too many commands: the connection runs no more for a while. */
bool use_is_over(const struct conn *c);
void use_wait(struct conn *c); /* until then */

#endif
