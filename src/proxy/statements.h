/* Statements by digest: count, time, rows and holds of each, in a bounded table.
 *
 * A thread has one of its own; when it is full, what is new counts as "other" (digest 0). */
#ifndef WEIR_PROXY_STATEMENTS_H
#define WEIR_PROXY_STATEMENTS_H

#include "base/slice.h"
#include "traffic/traffic.h"

#define STATEMENTS_MAX 512

struct statements;

struct statements *statements_new(void);
struct statements *statements_free(struct statements *s);
/* Learns what the digest stands for; nothing when it is known, or the table is full. */
void statements_learn(struct statements *s, uint64_t digest, struct slice sql);
/* Counts one. */
struct statement_use {
        uint32_t class_number; /* UINT32_MAX: none */
        bool is_error;
        uint64_t rows;
        int64_t busy_ns;
};
void statements_count(struct statements *s, uint64_t digest, const struct statement_use *use);
/* What the digest stands for; "": not known.  Valid until the table goes. */
const char *statements_text(struct statements *s, uint64_t digest);
void statements_held(struct statements *s, uint64_t digest, int64_t held_ns);

/* Adds what this one has to `sum`; after all of them the best are told. */
void statements_add_to(const struct statements *s, struct statements *sum);
size_t statements_best(const struct statements *s, enum traffic_order order,
                       struct traffic_statement *ret, size_t max);

#endif
