/* The audit trail as lines of JSON to syslog(3), when `audit_syslog` is on.
 *
 * syslog(3) waits for a daemon that does not read, so a thread of its own sends the lines; the loop
 * never waits.  Lines beyond a bound are dropped, and the next one that is sent tells how many. */
#ifndef WEIR_SERVE_AUDIT_SYSLOG_H
#define WEIR_SERVE_AUDIT_SYSLOG_H

#include "core/audit.h"

struct audit_syslog;

struct audit_syslog *audit_syslog_new(void);
struct audit_syslog *audit_syslog_free(struct audit_syslog *s); /* sends what is left */

/* As core_set_audit_sink() wants it; ctx is a struct audit_syslog. */
void audit_syslog_send(void *ctx, const struct audit_entry *e);

/* {"number":1,"at":"2026-11-15T10:00:05.000Z",...} */
void audit_syslog_put(const struct audit_entry *e, struct buf *ret);

#endif
