/* See find_walk.h.
 *
 * Jobs are all over the memory, and a job that is not in the cache takes 100 ns to arrive.  So the
 * next leaf of the id map (16 jobs) is fetched before the present one is looked at.  A million jobs
 * are walked in 25-40 ms, over as many turns. */
#include "jobs/find_walk.h"

#define TURN_NS    NS_PER_MS
#define TURN_UNITS 20000 /* without a watch: about as long */
#define LOOK_EVERY 256   /* units between two looks at the watch, which take 30 ns */
#define UNIT_BYTES 256   /* of text searched: as long as a look at a job */

/* ---- the budget ---- */

bool scan_spend(struct core *core, int64_t units)
{
        struct scan_budget *b = &core->scan_budget;
        int64_t (*watch)(void) = core->options.watch_ns;
        int64_t before = b->units;
        b->units -= units;
        if (!watch)
                return b->units > 0;
        if (!b->until_ns)
                b->until_ns = watch() + TURN_NS;
        else if (before / LOOK_EVERY != b->units / LOOK_EVERY && watch() >= b->until_ns)
                b->units = 0;
        if (b->units <= 0 && watch() < b->until_ns)
                b->units = TURN_UNITS; /* the watch alone decides */
        return b->units > 0;
}

void scan_begin(struct core *core, struct scan *scan, void (*step)(struct core *, struct scan *))
{
        ASSERT(!list_is_linked(&scan->link));
        scan->step = step;
        list_push_back(&core->scans, &scan->link);
}

void scan_end(struct scan *scan)
{
        if (list_is_linked(&scan->link))
                list_remove(&scan->link);
}

static void scan_turn(struct core *core)
{
        struct list *last = core->scans.prev;
        core->scan_budget = (struct scan_budget){.units = TURN_UNITS};
        while (!list_is_empty(&core->scans) && scan_spend(core, 0)) {
                struct list *it = core->scans.next;
                struct scan *scan = CONTAINER_OF(it, struct scan, link);
                bool is_last = it == last;
                list_remove(it); /* the scans take turns at being first */
                list_push_back(&core->scans, it);
                scan->step(core, scan);
                if (is_last)
                        break;
        }
}

/* ---- the walk ---- */

struct live_walk live_walk_down(uint64_t before_id)
{
        return (struct live_walk){.at = before_id ? before_id - 1 : 0, .is_over = before_id <= 1};
}

struct live_walk live_walk_up(uint64_t after_id)
{
        return (struct live_walk){
                .at = after_id + 1, .is_up = true, .is_over = after_id == UINT64_MAX};
}

/* The jobs of one leaf of the id map, in the order of the walk. */
struct leaf {
        uint64_t ids[IDMAP_SOME];
        void *jobs[IDMAP_SOME];
        size_t n;
};

/* Reads the next leaf and fetches its jobs ahead.  The fields of a job are in its first two lines
 * of memory; then come its args. */
static void get_leaf(const struct core *core, const struct live_walk *w, bool has_text,
                     struct leaf *ret)
{
        const struct idmap *jobs = &core->state.jobs;
        ret->n = w->is_over ? 0
                 : w->is_up ? idmap_next_some(jobs, w->at, ret->ids, ret->jobs)
                            : idmap_prev_some(jobs, w->at, ret->ids, ret->jobs);
        for (size_t i = 0; i < ret->n; i++) {
                const char *at = ret->jobs[i];
                __builtin_prefetch(at);
                __builtin_prefetch(at + 64);
                if (has_text)
                        __builtin_prefetch(at + 128);
        }
}

/* Everything up to this id was seen. */
static void pass(struct live_walk *w, uint64_t id)
{
        w->is_over = id == (w->is_up ? UINT64_MAX : 0);
        if (!w->is_over)
                w->at = w->is_up ? id + 1 : id - 1;
}

/* Looks at the jobs of one leaf; false when fn wants no more. */
static bool look_at_leaf(struct live_walk *w, struct live_filter *l, const struct leaf *leaf,
                         bool (*fn)(void *ctx, struct job *job), void *ctx)
{
        for (size_t i = 0; i < leaf->n; i++) {
                struct job *job = leaf->jobs[i];
                if (live_filter_has(l, job) && !fn(ctx, job)) {
                        pass(w, leaf->ids[i]);
                        return false;
                }
        }
        pass(w, leaf->ids[leaf->n - 1]);
        return true;
}

static int64_t units_of(const struct leaf *leaf, bool has_text)
{
        int64_t units = (int64_t)leaf->n;
        for (size_t i = 0; has_text && i < leaf->n; i++)
                units += ((const struct job *)leaf->jobs[i])->args_len / UNIT_BYTES;
        return units;
}

bool live_walk_step(struct core *core, struct live_walk *w, const struct job_filter *f,
                    bool (*fn)(void *ctx, struct job *job), void *ctx)
{
        struct live_filter l;
        struct leaf now, next;
        bool has_text = f->match.len > 0;
        live_filter_begin(&l, core, f);
        if (l.is_none)
                w->is_over = true;
        get_leaf(core, w, has_text, &now);
        while (now.n) {
                struct live_walk ahead = *w;
                pass(&ahead, now.ids[now.n - 1]);
                get_leaf(core, &ahead, has_text, &next);
                int64_t units = units_of(&now, has_text);
                if (!look_at_leaf(w, &l, &now, fn, ctx))
                        return true;
                if (!scan_spend(core, units) && next.n)
                        return false;
                now = next;
        }
        w->is_over = true;
        return true;
}

static void scans_init(struct core *core)
{
        list_init(&core->scans);
}

static int64_t scans_next_ns(const struct core *core)
{
        return list_is_empty(&core->scans) ? INT64_MAX : core->now.steady_ns;
}

const struct feature scans_feature = {
        .name = "scans", .init = scans_init, .turn = scan_turn, .next_ns = scans_next_ns};
