/* The filter of a listing, as blocks are asked: first their marks, which are in memory, then the
 * columns of a block all at once, and the texts (MATCH, and a tier, which may be in the options)
 * only of the jobs that pass all else. */
#ifndef WEIR_HISTORY_BLOCK_FILTER_H
#define WEIR_HISTORY_BLOCK_FILTER_H

#include "base/needle.h"
#include "core/archive.h"
#include "history/block_mark.h"
#include "history/id_range.h"

struct block_filter {
        const struct job_filter *asked; /* borrowed */
        struct needle needle;
        uint64_t names[5]; /* that a mark must have */
        size_t n_names;
        size_t searched_bytes; /* of texts, so far */
};

void block_filter_init(struct block_filter *f, const struct job_filter *asked);

/* Can the block hold a match, as far as its mark tells? */
bool block_filter_may_hold(const struct block_filter *f, const struct block_mark *m);

/* The places of the jobs whose ids are in the range, that are not buried and that match as far as
 * columns tell; ascending.  Returns how many. */
size_t block_filter_columns(const struct block_filter *f, const struct block *b,
                            const struct block_mark *m, const struct id_range *range,
                            uint16_t ret[BLOCK_JOBS]);

/* Is there anything that texts must tell? */
bool block_filter_needs_texts(const struct block_filter *f);
/* Do the texts of a job that passed the columns match?  `tiers` remembers 1 + the tier of each hook
 * of the block, by its index among the names: b->n_names zeros at first; NULL unless a tier is
 * asked for.  ERR_NOMEM, ERR_CORRUPT. */
int block_filter_texts(struct block_filter *f, struct block *b, size_t i, uint8_t *tiers,
                       bool *ret) MUST_CHECK;

#endif
