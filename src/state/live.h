/* Live objects in the order of their newest full record in the log.
 *
 * Every live object (a job, a queue, a thing, the one `meta` object) has at least one full record
 * in the part of the log that is kept: the one that made it, or one that the cleaner appended
 * since. The list is sorted by that record's batch, because a full record always goes to the end of
 * both.  So the head says how far the log may be trimmed, and cleaning is: append the head's
 * full record again, move it to the end.  No pass, no snapshot, no second copy.
 *
 * On recovery an effect on an object not yet seen is skipped: its full record comes later. */
#ifndef WEIR_STATE_LIVE_H
#define WEIR_STATE_LIVE_H

#include "base/list.h"

enum live_kind { LIVE_META, LIVE_QUEUE, LIVE_JOB, LIVE_THING };

struct live {
        struct list link;
        uint64_t seq : 56; /* batch of the newest full record */
        uint64_t kind : 8; /* enum live_kind: what this is embedded in */
};

/* A full record of this object was written in batch `seq`: it is now the youngest. */
static inline void live_mark(struct list *live_list, struct live *live, uint64_t seq)
{
        if (list_is_linked(&live->link))
                list_remove(&live->link);
        live->seq = seq;
        list_push_back(live_list, &live->link);
}

#endif
