/* The ids that a walk has still to look at, both ends included.  A walk goes from the largest id
 * down, or (is_oldest) from the smallest up. */
#ifndef WEIR_HISTORY_ID_RANGE_H
#define WEIR_HISTORY_ID_RANGE_H

#include <stdbool.h>
#include <stdint.h>

/* The largest id: SQLite can number no more rows. */
#define ID_RANGE_MAX ((uint64_t)INT64_MAX)

struct id_range {
        uint64_t low, high; /* nothing is left when low > high */
};

static inline bool id_range_is_empty(const struct id_range *r)
{
        return r->low > r->high;
}

static inline bool id_range_has(const struct id_range *r, uint64_t id)
{
        return id >= r->low && id <= r->high;
}

/* The id at which the walk is; there may be no job of this id. */
static inline uint64_t id_range_next(const struct id_range *r, bool is_oldest)
{
        return is_oldest ? r->low : r->high;
}

static inline void id_range_clear(struct id_range *r)
{
        *r = (struct id_range){1, 0};
}

/* Nothing is left before this id, which is in the range or beyond its end. */
static inline void id_range_go_to(struct id_range *r, bool is_oldest, uint64_t id)
{
        if (is_oldest)
                r->low = id;
        else
                r->high = id;
}

/* The same, and this id has been looked at too. */
static inline void id_range_pass(struct id_range *r, bool is_oldest, uint64_t id)
{
        if (id == (is_oldest ? UINT64_MAX : 0))
                id_range_clear(r);
        else
                id_range_go_to(r, is_oldest, is_oldest ? id + 1 : id - 1);
}

#endif
