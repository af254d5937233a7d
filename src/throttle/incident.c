/* See incident.h.
 *
 * Numbers go on from the largest in the archive.  The newest THROTTLE_EVENTS incidents of this
 * process are in the ring of the throttle, numbered without a gap; older ones are read from the
 * archive.  So an incident that is not written yet is told too, and none is told twice. */
#include "throttle/incident.h"

#include <stdlib.h>

#include "api/replies.h"
#include "base/shown.h"

struct group {
        struct hash_node node; /* by its key, while it may grow; see: */
        bool is_open;
        struct list link; /* of all, the one that grew last at the end */
        const char *event;
        int tier;
        uint64_t count;
        int64_t from_ms, to_ms;
        char text[THROTTLE_TEXT]; /* of the last of them */
        size_t hook_len;
        char key[]; /* event and tier, then the hook */
};

struct incident_groups {
        struct hash open;
        struct list all;
        size_t n;
};

static const char *const frequent[] = {"would_defer", "as_action_deferred", "adaptive_limit"};

/* The place of the event among the frequent ones; their number when it is rare. */
static size_t frequent_place(const char *event)
{
        size_t i = 0;
        while (i < ARRAY_LEN(frequent) && strcmp(event, frequent[i]) != 0)
                i++;
        return i;
}

bool incident_is_frequent(const char *event)
{
        return frequent_place(event) < ARRAY_LEN(frequent);
}

/* ---- groups ---- */

struct incident_groups *incident_groups_new(void)
{
        struct incident_groups *g = xcalloc(1, sizeof(*g));
        hash_init(&g->open, 1); /* hooks are names already checked; nothing is won by collisions */
        list_init(&g->all);
        return g;
}

static void close_group(struct incident_groups *g, struct group *group)
{
        if (group->is_open)
                hash_remove(&g->open, &group->node);
        group->is_open = false;
}

static void drop_first(struct incident_groups *g)
{
        struct list *first = list_peek_front(&g->all);
        ASSERT(first);
        struct group *group = CONTAINER_OF(first, struct group, link);
        close_group(g, group);
        list_remove(&group->link);
        g->n--;
        free(group);
}

struct incident_groups *incident_groups_free(struct incident_groups *g)
{
        if (!g)
                return NULL;
        while (!list_is_empty(&g->all))
                drop_first(g);
        hash_release(&g->open);
        free(g);
        return NULL;
}

#define KEY_PREFIX 2 /* bytes of the key before the hook */

/* The key, made in `room`. */
static struct slice key_of(const char *event, struct slice hook, int tier, char *room)
{
        room[0] = (char)frequent_place(event);
        room[1] = (char)(tier + 1);
        size_t len = hook.len < LIMIT_NAME_BYTES ? hook.len : LIMIT_NAME_BYTES;
        if (len)
                memcpy(room + KEY_PREFIX, hook.ptr, len);
        return slice_make(room, KEY_PREFIX + len);
}

static struct group *group_new(struct incident_groups *g, const char *event, int tier,
                               struct slice key, int64_t now_ms)
{
        if (g->n >= INCIDENT_GROUPS_MAX)
                drop_first(g);
        struct group *group = xcalloc(1, sizeof(*group) + key.len);
        memcpy(group->key, key.ptr, key.len);
        group->hook_len = key.len - KEY_PREFIX;
        group->event = event;
        group->tier = tier;
        group->from_ms = now_ms;
        group->is_open = true;
        hash_insert(&g->open, &group->node, slice_make(group->key, key.len));
        list_push_back(&g->all, &group->link);
        g->n++;
        return group;
}

void incident_count(struct core *core, const char *event, struct slice hook, int tier,
                    const char *text)
{
        struct incident_groups *g = core->throttle->groups;
        char room[KEY_PREFIX + LIMIT_NAME_BYTES];
        struct slice key = key_of(event, hook, tier, room);
        struct hash_node *n = hash_find(&g->open, key);
        struct group *group = n ? CONTAINER_OF(n, struct group, node) : NULL;
        int64_t now_ms = core->now.wall_ms;
        if (group && now_ms - group->to_ms > INCIDENT_GROUP_GAP_MS) {
                close_group(g, group);
                group = NULL;
        }
        if (!group)
                group = group_new(g, event, tier, key, now_ms);
        group->count++;
        group->to_ms = now_ms;
        (void)shown_put(group->text, sizeof(group->text), slice_str(text));
        list_remove(&group->link);
        list_push_back(&g->all, &group->link);
}

static void tell_groups(struct reply *reply, const struct reply_items *items)
{
        const struct incident_groups *g = items->of;
        struct list *it = g->all.prev;
        for (size_t i = 0; i < items->n; i++, it = it->prev) {
                const struct group *group = CONTAINER_OF(it, struct group, link);
                const struct incident_deferral_reply told = {
                        .event = group->event,
                        .hook = slice_make(group->key + KEY_PREFIX, group->hook_len),
                        .tier = group->tier >= 0 ? tier_name((enum tier)group->tier) : "",
                        .count = (int64_t)group->count,
                        .from_ms = group->from_ms,
                        .to_ms = group->to_ms,
                        .message = group->text,
                };
                reply_incident_deferral(reply, &told);
        }
}

/* ---- incidents ---- */

void incident_keep(struct core *core, struct throttle_event *e)
{
        struct archive *archive = core->options.archive;
        struct throttle *t = core->throttle;
        if (core_is_following(core))
                return; /* the leader sees the same and keeps it */
        if (!t->last_incident && archive)
                t->last_incident = archive->last_incident;
        e->incident = ++t->last_incident;
        if (!archive || !archive->ops->note)
                return;
        const struct archive_incident row = {.number = e->incident,
                                             .at_ms = e->wall_ms,
                                             .event = slice_str(e->name),
                                             .message = slice_str(e->text)};
        archive->ops->note(archive, &row);
}

struct telling {
        struct session_wait base;
        uint64_t from, to; /* numbers of the ring that are told: from <= number < to */
        size_t max;
        struct archive_incidents query;
};

/* The n-th newest of the ring; NULL when there is none. */
static const struct throttle_event *newest(const struct throttle_ring *r, size_t n)
{
        if (n >= THROTTLE_EVENTS || n >= r->n)
                return NULL;
        return &r->events[(r->n - 1 - n) % THROTTLE_EVENTS];
}

/* What the ring holds of the page: [*from, to), at most max. */
static size_t count_ring(const struct throttle_ring *r, uint64_t to, size_t max, uint64_t *from)
{
        size_t n = 0;
        const struct throttle_event *e;
        *from = to;
        for (size_t i = 0; n < max && (e = newest(r, i)); i++) {
                if (!e->incident || e->incident >= to) /* 0: seen while it followed */
                        continue;
                *from = e->incident;
                n++;
        }
        return n;
}

struct page_ctx {
        uint64_t from, to;                     /* numbers of the ring */
        const struct archive_incidents *older; /* NULL: the archive was not asked */
};

static void tell_events(struct reply *reply, const struct reply_items *items)
{
        const struct throttle_ring *ring = &items->core->throttle->rings[0];
        const struct page_ctx *ctx = items->of;
        const struct throttle_event *e;
        for (size_t i = 0; (e = newest(ring, i)); i++) {
                const struct incident_event_reply told = {
                        .number = (int64_t)e->incident,
                        .at_ms = e->wall_ms,
                        .event = slice_str(e->name),
                        .message = slice_str(e->text),
                };
                if (e->incident >= ctx->from && e->incident < ctx->to)
                        reply_incident_event(reply, &told);
        }
        for (size_t i = 0; ctx->older && i < ctx->older->n_rows; i++) {
                const struct archive_incident *row = &ctx->older->rows[i];
                const struct incident_event_reply told = {
                        .number = (int64_t)row->number,
                        .at_ms = row->at_ms,
                        .event = row->event,
                        .message = row->message,
                };
                reply_incident_event(reply, &told);
        }
}

/* q: what the archive gave, NULL when it was not asked. */
static void tell_page(const struct core *core, struct reply *reply, const struct telling *w,
                      const struct archive_incidents *q, const char *problem)
{
        const struct incident_groups *groups = core->throttle->groups;
        struct page_ctx ctx = {.to = w->to, .older = q};
        size_t n = count_ring(&core->throttle->rings[0], w->to, w->max, &ctx.from);
        uint64_t last = w->from;
        if (q && q->n_rows)
                last = q->rows[q->n_rows - 1].number;
        n += q ? q->n_rows : 0;
        const struct throttle_history_reply told = {
                .events = {n, tell_events, core, &ctx},
                .deferrals = {groups->n < w->max ? groups->n : w->max, tell_groups, core, groups},
                .older = n == w->max && last > 1 ? (int64_t)last : 0,
                .problem = problem,
        };
        reply_throttle_history(reply, &told);
}

static void on_answer(struct archive_incidents *q)
{
        struct telling *w = q->ctx;
        struct session *session = w->base.session;
        if (session) {
                wait_end(w->base.core, &w->base);
                tell_page(w->base.core, session->ops->reply_begin(session), w, q,
                          q->err ? "history cannot be read: what is older is missing" : "");
                session->ops->reply_end(session);
        }
        arena_release(&q->arena);
        free(w);
}

static void cancel(struct core *core, struct session_wait *wait)
{
        wait_end(core, wait); /* the archive has it, and on_answer() frees it */
}

static const struct wait_ops telling_ops = {.cancel = cancel};

int incident_tell(struct core *core, struct session *session, struct reply *reply, size_t max,
                  uint64_t before)
{
        struct throttle *t = core->throttle;
        struct archive *archive = core->options.archive;
        bool has_archive = archive && archive->ops->incidents;
        if (!t->last_incident && has_archive)
                t->last_incident = archive->last_incident;
        struct telling page = {.to = t->last_incident + 1, .max = max};
        if (before && before < page.to)
                page.to = before;
        size_t n = count_ring(&t->rings[0], page.to, max, &page.from);
        if (n == max || page.from <= 1 || !has_archive) {
                bool is_cut = n < max && page.from > 1;
                tell_page(core, reply, &page, NULL,
                          is_cut ? "there is no history: what is older is not known" : "");
                return OK;
        }
        struct telling *w = xcalloc(1, sizeof(*w));
        *w = page;
        w->query = (struct archive_incidents){
                .before = page.from, .limit = max - n, .done = on_answer, .ctx = w};
        arena_init(&w->query.arena, MIB);
        wait_begin(core, &w->base, &telling_ops, session);
        archive->ops->incidents(archive, &w->query);
        return CORE_LATER;
}
