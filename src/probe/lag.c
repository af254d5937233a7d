/* One lag out of those of several replicas.
 *
 * The worst counts, and `ignore_replicas` of the worst do not.  A replica without an answer is
 * worse than any lag: it uses up an ignored place first.  What is left of such replicas decides by
 * the rule: either the lag is unknown, with the sentence of the first of them, or they count as
 * none and a remark names them.  When no replica at all answers the lag is unknown under either
 * rule: nobody knows anything then, and that must not read as "no lag". */
#include "probe/inside.h"

#include <stdio.h>

static bool is_worse(const struct lag_slot *a, const struct lag_slot *b)
{
        if (a->reading.is_error != b->reading.is_error)
                return a->reading.is_error;
        return a->reading.value > b->reading.value;
}

/* How many are worse than slot i; equal ones in the order they stand. */
static size_t rank_of(const struct lag_slot *slots, size_t n, size_t i)
{
        size_t rank = 0;
        for (size_t j = 0; j < n; j++)
                if (is_worse(&slots[j], &slots[i]) || (j < i && !is_worse(&slots[i], &slots[j])))
                        rank++;
        return rank;
}

/* The sentence of a failure names its replica. */
static void remark(struct reading *r, const struct lag_slot *s)
{
        size_t len = strlen(r->text), room = sizeof(r->text) - len;
        const char *before = len ? "; " : "left out: ";
        if (s->reading.is_error) /* cut is fine, here and below */
                (void)snprintf(r->text + len, room, "%s%s", before, s->reading.text);
        else
                (void)snprintf(r->text + len, room, "%s%s: lag %.1f s", before, s->name,
                               s->reading.value);
}

bool lag_combine(const struct lag_slot *slots, size_t n, const struct probe_options *o,
                 struct reading *ret, int64_t *ret_at_ns)
{
        struct reading all = {0};
        const struct lag_slot *failed = NULL;
        size_t n_counted = 0;
        int64_t at_ns = INT64_MAX;
        for (size_t i = 0; i < n; i++)
                if (!slots[i].is_known)
                        return false;
        for (size_t i = 0; i < n; i++) {
                const struct lag_slot *s = &slots[i];
                bool is_ignored = rank_of(slots, n, i) < o->ignore_replicas;
                if (s->reading.is_error && !is_ignored && !o->is_missing_replica_fine && !failed)
                        failed = s;
                if (is_ignored || (s->reading.is_error && o->is_missing_replica_fine)) {
                        remark(&all, s);
                } else if (!s->reading.is_error) {
                        n_counted++;
                        if (s->reading.value > all.value)
                                all.value = s->reading.value;
                        if (s->at_ns < at_ns)
                                at_ns = s->at_ns;
                }
        }
        if (failed)
                reading_fail(&all, "%s", failed->reading.text);
        else if (!n_counted)
                reading_fail(&all, "no replica answers: %s", slots[0].reading.text);
        *ret = all;
        *ret_at_ns = all.is_error ? 0 : at_ns;
        return true;
}
