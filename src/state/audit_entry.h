/* What an entry of the audit trail says, as the log, history and whoever asks have it. */
#ifndef WEIR_STATE_AUDIT_ENTRY_H
#define WEIR_STATE_AUDIT_ENTRY_H

#include "base/buf.h"
#include "base/slice.h"

#define AUDIT_NUMBER_BYTES 21 /* digits and a NUL */

/*      F(type, member, when, key, sentence) */
#define AUDIT_FIELDS(F)                                                                            \
        F(TIME, at_ms, ALWAYS, "at_ms", "when, Unix time")                                         \
        F(NUM, times, ALWAYS, "times", "how often, not 0")                                         \
        F(TEXT, who, ALWAYS, "who", "name of the token, or nobody")                                \
        F(TEXT, role, ALWAYS, "role", "its roles, with commas between them")                       \
        F(TEXT, address, ALWAYS, "address", "address of the client; empty: a local socket")        \
        F(TEXT, door, ALWAYS, "door", "resp, http, page or signal")                                \
        F(TEXT, command, ALWAYS, "command", "name of the command")                                 \
        F(TEXT, what, ALWAYS, "what", "the command with its arguments")                            \
        F(TEXT, before, ALWAYS, "before", "JSON: what differs, as it was")                         \
        F(TEXT, after, ALWAYS, "after", "JSON: what differs, as it is since")                      \
        F(TEXT, reason, ALWAYS, "reason", "why, if the client said so")

struct audit_entry {
        uint64_t number; /* not in the body: the name says it */
        int64_t at_ms;
        uint64_t times;
        struct slice who, role, address, door, command, what, before, after, reason;
};

/* The number as text, in `ret`: the name of its thing. */
struct slice audit_name(uint64_t number, char ret[AUDIT_NUMBER_BYTES]);
/* The body of its thing. */
void audit_entry_put(const struct audit_entry *o, struct buf *b);

#endif
