/* Locks in the options table of a site, shared with PHP.
 *
 *      option_name    'weir_lock_' and the MD5 of the key
 *      option_value   FENCE|EXPIRY|TOKEN|KEY; free: FENCE|0||KEY
 *
 * EXPIRY is Unix time by the database's clock, TOKEN 32 hex digits.  A lock is held while EXPIRY is
 * not before that clock.  A value of any other form is a free lock with fence 0. */
#ifndef WEIR_GUARD_OPTION_LOCK_H
#define WEIR_GUARD_OPTION_LOCK_H

#include "guard/store.h"

#define OPTION_LOCK_KEY_MAX   255 /* bytes */
#define OPTION_LOCK_TTL_MAX_S 86400

/* Each fills in q->locks, is_granted and has_more, and returns what q->err is to be.
 *
 * A lock that is free has expires_s 0.  The token of a lock is told only to the request that has
 * it. */
int option_lock_list(struct store *s, struct site_request *q) MUST_CHECK;
/* Takes the lock of q->key for q->ttl_s seconds, or renews it when q->token holds it already. */
int option_lock_take(struct store *s, struct site_request *q) MUST_CHECK;
int option_lock_release(struct store *s, struct site_request *q) MUST_CHECK;

#endif
