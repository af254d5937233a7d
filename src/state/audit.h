/* An entry of the audit trail that history does not have yet: who changed what, from where.
 *
 * Its name is its number.  The newest one stays although history has it: so numbers only grow,
 * also when history is lost (core/audit.c).
 *
 * Invariants, checked by the kind's check():
 *   (1) an entry is linked in state->audits, behind those with smaller numbers
 *   (2) it happened at least once */
#ifndef WEIR_STATE_AUDIT_H
#define WEIR_STATE_AUDIT_H

#include "state/audit_entry.h"
#include "state/state.h"

struct audit {
        struct thing thing;
        struct list link;      /* of state->audits */
        struct audit_entry is; /* its texts are in `bytes` */
        struct buf bytes;
        /* Not durable; core/audit.c has their meaning. */
        bool is_open, is_handed, is_stored;
};

static inline struct audit *audit_of(struct thing *t)
{
        return CONTAINER_OF(t, struct audit, thing);
}
static inline struct audit *audit_of_link(struct list *l)
{
        return CONTAINER_OF(l, struct audit, link);
}

#endif
