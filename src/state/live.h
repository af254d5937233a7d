/* Live objects in the order of their newest full record in the log.
 *
 * Every live object (a job, a queue, a thing, the one `meta` object) has at least one full record
 * in the part of the log that is kept: the record that created it, or a later one of the cleaner.
 * The list is sorted by the batch of that record, because a full record is appended to both.  So
 * the head of the list tells how far the log may be trimmed.  To clean, weir appends the full
 * record of the head again and moves the object to the end.  This needs no snapshot and no second
 * copy.
 *
 * Recovery skips an effect on an object that it has not seen yet: the full record comes later. */
#ifndef WEIR_STATE_LIVE_H
#define WEIR_STATE_LIVE_H

#include "base/list.h"

enum live_kind {
        LIVE_META,
        LIVE_QUEUE,
        LIVE_JOB,
        LIVE_THING,
        LIVE_MARK, /* no object: where a walk goes on (state/digest.c) */
};

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
