#include "proxy/statements.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/defs.h"

#define SLOTS (2 * STATEMENTS_MAX) /* a power of two; half of them stay free */

/* Open addressing by digest: nothing is ever removed. */
struct statements {
        uint16_t slots[SLOTS]; /* 1 + its place in rows; 0: free */
        size_t n;
        struct traffic_statement rows[STATEMENTS_MAX + 1];
        struct traffic_statement *other; /* the last of rows */
};

struct statements *statements_new(void)
{
        struct statements *s = xcalloc(1, sizeof(*s));
        s->other = &s->rows[STATEMENTS_MAX];
        s->other->class_number = UINT32_MAX;
        (void)snprintf(s->other->text, sizeof(s->other->text), "other statements");
        return s;
}

struct statements *statements_free(struct statements *s)
{
        free(s);
        return NULL;
}

static uint16_t *slot_of(struct statements *s, uint64_t digest)
{
        size_t i = digest & (SLOTS - 1);
        while (s->slots[i] && s->rows[s->slots[i] - 1].digest != digest)
                i = (i + 1) & (SLOTS - 1);
        return &s->slots[i];
}

static struct traffic_statement *row_of(struct statements *s, uint64_t digest)
{
        uint16_t at = *slot_of(s, digest);
        return at ? &s->rows[at - 1] : s->other;
}

const char *statements_text(struct statements *s, uint64_t digest)
{
        uint16_t at = digest ? *slot_of(s, digest) : 0;
        return at ? s->rows[at - 1].text : "";
}

static struct traffic_statement *add_row(struct statements *s, uint16_t *slot, uint64_t digest)
{
        struct traffic_statement *row = &s->rows[s->n++];
        *slot = (uint16_t)s->n;
        row->digest = digest;
        row->class_number = UINT32_MAX;
        return row;
}

void statements_learn(struct statements *s, uint64_t digest, struct slice sql)
{
        uint16_t *slot = slot_of(s, digest);
        if (*slot || s->n == STATEMENTS_MAX)
                return;
        (void)sql_digest(sql, add_row(s, slot, digest)->text);
}

void statements_count(struct statements *s, uint64_t digest, const struct statement_use *use)
{
        struct traffic_statement *row = row_of(s, digest);
        row->count++;
        row->errors += use->is_error;
        row->rows += use->rows;
        row->busy_ns += use->busy_ns;
        if (use->busy_ns > row->max_ns)
                row->max_ns = use->busy_ns;
        if (use->class_number != UINT32_MAX)
                row->class_number = use->class_number;
}

void statements_held(struct statements *s, uint64_t digest, int64_t held_ns)
{
        struct traffic_statement *row = row_of(s, digest);
        row->held++;
        row->held_ns += held_ns;
}

static void add_counts(struct traffic_statement *to, const struct traffic_statement *from)
{
        to->count += from->count;
        to->errors += from->errors;
        to->rows += from->rows;
        to->held += from->held;
        to->busy_ns += from->busy_ns;
        to->held_ns += from->held_ns;
        if (from->max_ns > to->max_ns)
                to->max_ns = from->max_ns;
        if (from->class_number != UINT32_MAX)
                to->class_number = from->class_number;
}

void statements_add_to(const struct statements *s, struct statements *sum)
{
        for (size_t i = 0; i < s->n; i++) {
                const struct traffic_statement *row = &s->rows[i];
                uint16_t *slot = slot_of(sum, row->digest);
                struct traffic_statement *to = sum->other;
                if (*slot) {
                        to = &sum->rows[*slot - 1];
                } else if (sum->n < STATEMENTS_MAX) {
                        to = add_row(sum, slot, row->digest);
                        memcpy(to->text, row->text, sizeof(to->text));
                }
                add_counts(to, row);
        }
        add_counts(sum->other, s->other);
}

static uint64_t weight(const struct traffic_statement *row, enum traffic_order order)
{
        switch (order) {
        case TRAFFIC_BY_TIME:
                return (uint64_t)row->busy_ns;
        case TRAFFIC_BY_COUNT:
                return row->count;
        case TRAFFIC_BY_ROWS:
                return row->rows;
        case TRAFFIC_BY_HELD:
                break;
        }
        return (uint64_t)row->held_ns;
}

/* Keeps the best `max` in order, by insertion: few are asked for. */
size_t statements_best(const struct statements *s, enum traffic_order order,
                       struct traffic_statement *ret, size_t max)
{
        size_t n = 0;
        for (size_t i = 0; i <= s->n; i++) {
                const struct traffic_statement *row = i < s->n ? &s->rows[i] : s->other;
                size_t at = n;
                if (!row->count && !row->held)
                        continue;
                while (at > 0 && weight(&ret[at - 1], order) < weight(row, order))
                        at--;
                if (at == max)
                        continue;
                size_t n_kept = n < max ? n : max - 1;
                memmove(&ret[at + 1], &ret[at], (n_kept - at) * sizeof(*ret));
                ret[at] = *row;
                n = n_kept + 1;
        }
        return n;
}
