#include "history/block_filter.h"

#include "gate/registry.h"
#include "state/option.h"

static void want(struct block_filter *f, enum span_mark_kind kind, struct slice text)
{
        if (text.len)
                f->names[f->n_names++] = span_mark_hash(kind, text);
}

void block_filter_init(struct block_filter *f, const struct job_filter *asked)
{
        *f = (struct block_filter){.asked = asked, .needle = needle_make(asked->match)};
        /* A hook that failed somewhere is rarer than the hook. */
        if (asked->status == JOB_FAILED || asked->status == JOB_CANCELED)
                want(f, MARK_BAD_HOOK, asked->hook);
        want(f, MARK_HOOK, asked->hook);
        want(f, MARK_GROUP, asked->group);
        want(f, MARK_WORKER, asked->worker);
        want(f, MARK_QUEUE, asked->queue);
}

bool block_filter_may_hold(const struct block_filter *f, const struct block_mark *m)
{
        const struct job_filter *a = f->asked;
        if ((a->status >= 0 && !m->n_status[a->status]) ||
            (a->since_ms && m->created_last < a->since_ms) ||
            (a->until_ms && m->created_first >= a->until_ms) ||
            (a->ended_since_ms && m->finished_last < a->ended_since_ms))
                return false;
        for (size_t i = 0; i < f->n_names; i++)
                if (!block_mark_has(m, f->names[i]))
                        return false;
        return true;
}

/* --- columns --- */

#define ANY_NAME (-1)

/* The index of a name that is asked for; false: no job of the block has it. */
static bool find_name(const struct block *b, struct slice name, int *ret)
{
        *ret = ANY_NAME;
        if (!name.len)
                return true;
        for (size_t i = 0; i < b->n_names; i++)
                if (slice_eq(b->names[i], name)) {
                        *ret = (int)i;
                        return true;
                }
        return false;
}

struct names {
        int hook, queue, group, worker;
};

static bool has_names(const struct names *n, const struct block *b, size_t i)
{
        return (n->hook == ANY_NAME || b->hook[i] == n->hook) &&
               (n->queue == ANY_NAME || b->queue[i] == n->queue) &&
               (n->group == ANY_NAME || b->group[i] == n->group) &&
               (n->worker == ANY_NAME || b->worker[i] == n->worker);
}

size_t block_filter_columns(const struct block_filter *f, const struct block *b,
                            const struct block_mark *m, const struct id_range *range,
                            uint16_t ret[BLOCK_JOBS])
{
        const struct job_filter *a = f->asked;
        struct names names;
        size_t n = 0;
        if (!find_name(b, a->hook, &names.hook) || !find_name(b, a->queue, &names.queue) ||
            !find_name(b, a->group, &names.group) || !find_name(b, a->worker, &names.worker))
                return 0;
        for (size_t i = 0; i < b->n; i++)
                if (id_range_has(range, b->id[i]) && !block_mark_is_dead(m, i) &&
                    (a->status < 0 || b->status[i] == a->status) && has_names(&names, b, i) &&
                    (!a->since_ms || b->created_ms[i] >= a->since_ms) &&
                    (!a->until_ms || b->created_ms[i] < a->until_ms) &&
                    (!a->ended_since_ms || b->finished_ms[i] >= a->ended_since_ms))
                        ret[n++] = (uint16_t)i;
        return n;
}

/* --- texts --- */

bool block_filter_needs_texts(const struct block_filter *f)
{
        return f->asked->tier || f->needle.text.len;
}

static unsigned tier_of_hook(const struct job_filter *a, const struct block *b, size_t i,
                             uint8_t *tiers)
{
        uint8_t *known = &tiers[b->hook[i]];
        if (!*known && a->registry)
                *known = (uint8_t)(1 + registry_tier(a->registry, b->names[b->hook[i]]));
        return *known;
}

/* Its own tier, else that of its hook. */
static bool is_of_tier(const struct job_filter *a, const struct block *b, size_t i,
                       struct slice options, uint8_t *tiers)
{
        struct job_options o = {0};
        if (!a->tier)
                return true;
        if (options.len && options_unpack(options, &o) && o.tier)
                return o.tier == a->tier;
        return tier_of_hook(a, b, i, tiers) == a->tier;
}

int block_filter_texts(struct block_filter *f, struct block *b, size_t i, uint8_t *tiers, bool *ret)
{
        const struct needle *n = &f->needle;
        struct block_texts t;
        int err = block_texts(b, i, &t);
        if (err)
                return err;
        if (n->text.len)
                f->searched_bytes += t.args.len + t.error.len + t.result.len;
        *ret = is_of_tier(f->asked, b, i, t.options, tiers) &&
               (!n->text.len || needle_is_in(n, t.args) || needle_is_in(n, b->names[b->hook[i]]) ||
                needle_is_in(n, t.error) || needle_is_in(n, t.result));
        return OK;
}
