/* One lag out of those of several replicas.
 *
 * The worst counts, and `ignore_replicas` of the worst do not.  A replica without an answer is
 * worse than any lag: it uses up an ignored place first.  What is left of such replicas decides by
 * the rule: either the lag is unknown, with the sentence of the first of them, or they count as
 * none and a remark names them.  When no replica at all answers the lag is unknown under either
 * rule: nothing is known then, and that must not read as "no lag".  Of those that make it
 * unknown, one that says so itself (stopped, refused) comes before one that is only silent: the
 * last value holds a moment longer for silence alone.
 *
 * A replica that the operator skips is as good as not there, but for the remark: it uses up no
 * ignored place, and its first answer is not waited for.  Of those that are left at least one
 * counts, however many are to be ignored; when none is left the lag is unknown. */
#include "probe/probe_int.h"

#include <stdarg.h>

#include "base/shown.h"

static bool is_worse(const struct lag_slot *a, const struct lag_slot *b)
{
        if (a->is_skipped || b->is_skipped)
                return !a->is_skipped;
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

static void put_remark(struct reading *r, const char *fmt, ...) PRINTF(2, 3);
static void put_remark(struct reading *r, const char *fmt, ...)
{
        size_t len = strlen(r->text), room = sizeof(r->text) - len;
        va_list args;
        if (room <= sizeof(SHOWN_DOTS))
                return; /* the dots of the one before say that there is more */
        va_start(args, fmt);
        shown_vprintf(r->text + len, room, fmt, args);
        va_end(args);
}

/* The sentence of a failure names its replica. */
static void remark(struct reading *r, const struct lag_slot *s)
{
        const char *before = *r->text ? "; " : "left out: ";
        if (s->is_skipped)
                put_remark(r, "%s%s: skipped", before, s->name);
        else if (s->reading.is_error)
                put_remark(r, "%s%s", before, s->reading.text);
        else
                put_remark(r, "%s%s: lag %.1f s", before, s->name, s->reading.value);
}

/* How many of the worst do not count: one always does. */
static size_t n_ignored(const struct probe_options *o, size_t n_there)
{
        return o->ignore_replicas < n_there ? o->ignore_replicas : n_there - 1;
}

/* What came together so far. */
struct sum {
        struct reading reading;
        const struct lag_slot *failed;  /* decides that it is unknown: one that answered, if any */
        const struct lag_slot *missing; /* the first without a lag */
        bool is_any_silent;             /* of those */
        size_t n_counted;
        int64_t at_ns;
};

static void add(struct sum *sum, const struct lag_slot *s, bool is_ignored,
                const struct probe_options *o)
{
        bool is_error = s->reading.is_error;
        if (is_error && !sum->missing)
                sum->missing = s;
        sum->is_any_silent |= is_error && s->reading.is_silent;
        if (is_error && !is_ignored && !o->is_missing_replica_fine &&
            (!sum->failed || (sum->failed->reading.is_silent && !s->reading.is_silent)))
                sum->failed = s;
        if (is_ignored || (is_error && o->is_missing_replica_fine)) {
                remark(&sum->reading, s);
        } else if (!is_error) {
                sum->n_counted++;
                if (*s->reading.text)
                        put_remark(&sum->reading, "%s%s", *sum->reading.text ? "; " : "",
                                   s->reading.text);
                if (s->reading.value > sum->reading.value)
                        sum->reading.value = s->reading.value;
                if (s->at_ns < sum->at_ns)
                        sum->at_ns = s->at_ns;
        }
}

bool lag_combine(const struct lag_slot *slots, size_t n, const struct probe_options *o,
                 struct reading *ret, int64_t *ret_at_ns)
{
        struct sum sum = {.at_ns = INT64_MAX};
        size_t n_there = 0;
        for (size_t i = 0; i < n; i++) {
                if (!slots[i].is_known && !slots[i].is_skipped)
                        return false;
                n_there += !slots[i].is_skipped;
        }
        for (size_t i = 0; i < n; i++) {
                if (slots[i].is_skipped)
                        remark(&sum.reading, &slots[i]);
                else
                        add(&sum, &slots[i], rank_of(slots, n, i) < n_ignored(o, n_there), o);
        }
        if (!n_there) {
                reading_fail(&sum.reading, "all replicas are skipped");
        } else if (sum.failed) {
                sum.reading = sum.failed->reading;
        } else if (!sum.n_counted) {
                reading_fail(&sum.reading, "no replica answers: %s",
                             sum.missing ? sum.missing->reading.text : "");
                sum.reading.is_silent = sum.is_any_silent;
        }
        *ret = sum.reading;
        *ret_at_ns = sum.reading.is_error ? 0 : sum.at_ns;
        return true;
}
