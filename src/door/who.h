/* Who is asking: tokens and certificates of connections, and what follows when one ends. */
#ifndef WEIR_DOOR_WHO_H
#define WEIR_DOOR_WHO_H

#include "api/access.h"
#include "things/token.h"

struct conn;
struct server;

void who_init(struct server *s);
void who_release(struct server *s);
/* Each turn: when the tokens have changed, connections whose token has ended are closed, and those
 * that had to show none until now must. */
void who_look(struct server *s);

/* Whom the client's certificate stands for; NULL: nobody, or it has shown none. */
struct grant *who_is_certified(const struct conn *c);

/* What the value of an Authorization header allows: Bearer with the token, or Basic with its name
 * and the token. */
int who_authorizes(const struct conn *c, struct slice authorization, struct grant **ret,
                   struct problem *p) MUST_CHECK;

#endif
