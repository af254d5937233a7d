/* See thing.h.  One hash table per kind; things are few compared with jobs, so each costs two
 * allocations and nobody minds. */
#include "state/thing.h"

#include <stdlib.h>

#include "state/state.h"

/* Record header, kind and lengths, about. */
#define THING_RECORD_BYTES 32

void things_init(struct state *s, uint64_t hash_seed)
{
        for (size_t i = 0; i < THING_KINDS; i++)
                hash_init(&s->things[i], hash_seed);
        hash_init(&s->skipped_things, hash_seed);
        hash_init(&s->moved_hooks, hash_seed);
        heap_init(&s->alarms);
        heap_init(&s->wall_alarms);
}

struct thing *thing_find(const struct state *s, enum thing_kind kind, struct slice name)
{
        struct hash_node *n = hash_find(&s->things[kind], name);
        return n ? CONTAINER_OF(n, struct thing, node) : NULL;
}

struct thing *thing_get(struct state *s, enum thing_kind kind, struct slice name)
{
        struct thing *t = thing_find(s, kind, name);
        if (t)
                return t;
        const struct thing_ops *ops = s->kinds[kind];
        t = xcalloc(1, ops->size);
        t->name = xmalloc(name.len + 1);
        memcpy(t->name, name.ptr, name.len);
        t->name[name.len] = '\0';
        t->live.kind = LIVE_THING;
        t->kind = (uint8_t)kind;
        t->alarm = (struct heap_node){.id = s->next_thing_id++, .pos = HEAP_NOWHERE};
        hash_insert(&s->things[kind], &t->node, slice_make(t->name, name.len));
        if (ops->is_ordered)
                order_insert(&s->ordered[kind], &t->order, &t->node);
        heap_init(&t->waiting);
        if (ops->init)
                ops->init(s, t);
        return t;
}

static struct heap *alarms_of(struct state *s, const struct thing *t)
{
        return s->kinds[t->kind]->is_wall ? &s->wall_alarms : &s->alarms;
}

void thing_alarm(struct state *s, struct thing *t, int64_t at)
{
        struct heap *h = alarms_of(s, t);
        if (heap_has(&t->alarm))
                heap_remove(h, &t->alarm);
        if (at != INT64_MAX)
                heap_push(h, &t->alarm, heap_key_i64(at));
}

static void forget(struct state *s, struct thing *t)
{
        if (!thing_is_durable(t))
                return;
        s->live_bytes -= t->weight;
        list_remove(&t->live.link);
}

void thing_drop(struct state *s, struct thing *t)
{
        const struct thing_ops *ops = s->kinds[t->kind];
        ASSERT(!thing_is_durable(t));
        (void)state_unblock(s, t, SIZE_MAX);
        heap_release(&t->waiting);
        thing_alarm(s, t, INT64_MAX);
        if (ops->is_ordered)
                order_remove(&s->ordered[t->kind], &t->order);
        hash_remove(&s->things[t->kind], &t->node);
        if (ops->release)
                ops->release(s, t);
        free(t->name);
        free(t);
}

void things_release(struct state *s)
{
        for (size_t i = 0; i < THING_KINDS; i++) {
                HASH_DRAIN(&s->things[i], n)
                {
                        struct thing *t = CONTAINER_OF(n, struct thing, node);
                        forget(s, t);
                        thing_drop(s, t);
                }
                hash_release(&s->things[i]);
        }
        HASH_DRAIN(&s->skipped_things, n)
        {
                hash_remove(&s->skipped_things, n);
                free(n);
        }
        hash_release(&s->skipped_things);
        hash_release(&s->moved_hooks);
        heap_release(&s->alarms);
        heap_release(&s->wall_alarms);
}

/* ---- effects ---- */

static int cannot_be(const struct effect *e, uint64_t seq, const char *why, struct problem *problem)
{
        return problem_set(problem, ERR_CORRUPT, "%s of %s '%.*s' in batch %llu: %s",
                           effect_name(e->type), thing_kind_name(e->kind), (int)e->name.len,
                           e->name.ptr, (unsigned long long)seq, why);
}

/* Remembers, or forgets, that replay changed a thing before its SET was seen.  The key is the kind
 * and the name. */
static void set_skipped(struct state *s, const struct effect *e, bool is_skipped)
{
        struct buf b;
        if (!s->is_replaying)
                return;
        buf_init(&b, 0);
        buf_put_byte(&b, (char)e->kind);
        buf_put_slice(&b, e->name);
        struct slice key = buf_slice(&b);
        struct hash_node *n = hash_find(&s->skipped_things, key);
        if (n && !is_skipped) {
                hash_remove(&s->skipped_things, n);
                free(n);
        } else if (!n && is_skipped) {
                n = xmalloc(sizeof(*n) + key.len);
                memcpy(n + 1, key.ptr, key.len);
                hash_insert(&s->skipped_things, n, slice_make((char *)(n + 1), key.len));
        }
        buf_release(&b);
}

int thing_apply_set(struct state *s, const struct effect *e, uint64_t seq, struct problem *problem)
{
        struct thing *t = thing_get(s, e->kind, e->name);
        if (thing_is_durable(t))
                s->live_bytes -= t->weight;
        t->weight = (uint32_t)(THING_RECORD_BYTES + e->name.len + e->body.len);
        s->live_bytes += t->weight;
        live_mark(&s->live, &t->live, seq);
        set_skipped(s, e, false);
        if (e->is_copy)
                return OK; /* the cleaner wrote it again: nothing changes but its place */
        if (!s->kinds[e->kind]->set(s, t, e->body))
                return cannot_be(e, seq, "its body is not well formed", problem);
        return OK;
}

int thing_apply_note(struct state *s, const struct effect *e, uint64_t seq, struct problem *problem)
{
        struct thing *t = thing_find(s, e->kind, e->name);
        if ((!t || !thing_is_durable(t)) && s->is_replaying) {
                set_skipped(s, e, true);
                return OK;
        }
        if (!t || !thing_is_durable(t))
                return cannot_be(e, seq, "there is no such thing", problem);
        const struct thing_ops *ops = s->kinds[e->kind];
        if (!ops->note || !ops->note(s, t, e->body))
                return cannot_be(e, seq, "its body is not well formed", problem);
        return OK;
}

int thing_apply_gone(struct state *s, const struct effect *e, uint64_t seq, struct problem *problem)
{
        struct thing *t = thing_find(s, e->kind, e->name);
        set_skipped(s, e, false);
        if (!t && s->is_replaying)
                return OK;
        if (!t)
                return cannot_be(e, seq, "there is no such thing", problem);
        forget(s, t);
        const struct thing_ops *ops = s->kinds[e->kind];
        if (ops->is_needed && ops->is_needed(t))
                return ops->set(s, t, SLICE_NONE) ? OK : cannot_be(e, seq, "it stays", problem);
        thing_drop(s, t);
        return OK;
}

int thing_replay_end(struct state *s, struct problem *problem)
{
        struct hash_node *n = hash_next(&s->skipped_things, NULL);
        if (!n)
                return OK;
        struct slice name = slice_make(n->key.ptr + 1, n->key.len - 1);
        return problem_set(problem, ERR_CORRUPT,
                           "the log changes %s '%.*s' (and %zu more) but does not hold it",
                           thing_kind_name((enum thing_kind)n->key.ptr[0]), (int)name.len, name.ptr,
                           s->skipped_things.len - 1);
}

void effect_of_thing(const struct state *s, const struct thing *t, struct buf *body,
                     struct effect *ret)
{
        buf_clear(body);
        s->kinds[t->kind]->put(t, body);
        *ret = (struct effect){
                .type = EFFECT_THING_SET,
                .kind = t->kind,
                .name = thing_name(t),
                .body = buf_slice(body),
                .is_copy = true,
        };
}

/* ---- looking ---- */

void things_check(const struct state *s, uint64_t *weight, size_t *n)
{
        for (size_t i = 0; i < THING_KINDS; i++) {
                order_check(&s->ordered[i], s->kinds[i]->is_ordered ? s->things[i].len : 0);
                for (struct hash_node *it = NULL; (it = hash_next(&s->things[i], it));) {
                        const struct thing *t = CONTAINER_OF(it, struct thing, node);
                        ASSERT(t->kind == i);
                        heap_check(&t->waiting);
                        if (s->kinds[i]->check)
                                s->kinds[i]->check(t);
                        if (!thing_is_durable(t))
                                continue;
                        *weight += t->weight;
                        ++*n;
                }
        }
        heap_check(&s->alarms);
        heap_check(&s->wall_alarms);
}
