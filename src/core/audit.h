/* The audit trail: who changed what, from where, by which role, and what was before.
 *
 * An entry is in the batch of its change, as a thing (state/audit.h).  When that is durable the
 * archive gets it, and when the archive has it the log lets go of it.  A number is given once, so
 * an entry that is handed over again after a crash is known by it.
 *
 * What only is counted (wrong tokens, refused commands) is one entry a minute for each client and
 * kind; the entry is durable with the first of them, and again whenever the count has doubled. */
#ifndef WEIR_CORE_AUDIT_H
#define WEIR_CORE_AUDIT_H

#include "api/command.h"
#include "api/session.h"
#include "state/audit_entry.h"

#define AUDIT_WHAT_BYTES   1024
#define AUDIT_CHANGE_BYTES 1024 /* before and after, each */
#define AUDIT_REASON_BYTES 512
/* Kinds counted by themselves in a minute; what is beyond is one more. */
#define AUDIT_GROUPS_MAX 16

struct core;

/* Is it an operator's or an admin's command that changes something?  What it asks for may still
 * change nothing (DRYRUN). */
bool audit_wants(const struct command_def *def);

/* Who: fills in who, role, address and door; `role` is the room for its text. */
void audit_by(const struct session *s, char role[ROLE_TEXT_BYTES], struct audit_entry *ret);
/* What: the command with its arguments, without secrets and payloads. */
void audit_put_what(const struct command *cmd, struct buf *ret);

/* For changes that are no command.  number and at_ms are filled in here, texts are cut. */
void core_audit(struct core *core, const struct audit_entry *e);
/* One more of its kind in this minute: the same who, address, door and command. */
void core_audit_count(struct core *core, const struct audit_entry *e);
/* A client showed a wrong token. */
void core_audit_login(struct core *core, const struct session *s);
/* A client with a token was refused, as the problem says; `what` is a command or a path. */
void core_audit_refused(struct core *core, const struct session *s, const char *what,
                        const struct problem *problem);

/* Called for each entry when it is durable; after a crash maybe a second time. */
typedef void (*audit_sink)(void *ctx, const struct audit_entry *e);
void core_set_audit_sink(struct core *core, audit_sink sink, void *ctx);

#endif
