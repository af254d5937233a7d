/* See lock.h.  A mutex without an owner's text costs two allocations, the thing and its name: the
 * single holder is part of the struct. */
#include "state/lock.h"

#include <stdlib.h>

#include "state/state.h"

enum lock_note { NOTE_TAKE = 'T', NOTE_RENEW = 'R', NOTE_DROP = 'D' };

/* ---- holders ---- */

static void holder_release(struct lock_holder *h)
{
        free((void *)(uintptr_t)h->owner.ptr); /* it was made by holder_own() */
        h->owner = SLICE_NONE;
}

/* The owner's text was borrowed from the record: a copy of its own. */
static void holder_own(struct lock_holder *h)
{
        if (!h->owner.len) {
                h->owner = SLICE_NONE;
                return;
        }
        char *copy = xmalloc(h->owner.len);
        memcpy(copy, h->owner.ptr, h->owner.len);
        h->owner.ptr = copy;
}

static void drop_all(struct lock *l)
{
        for (uint32_t i = 0; i < l->n_holders; i++)
                holder_release(&l->holders[i]);
        l->n_holders = 0;
        if (l->holders != &l->one)
                free(l->holders);
        l->holders = &l->one;
        l->cap = 1;
}

/* Takes over what h owns. */
static void add_holder(struct lock *l, const struct lock_holder *h)
{
        if (l->n_holders == l->cap) {
                uint32_t cap = 4 * l->cap;
                struct lock_holder *more = xcalloc(cap, sizeof(*more));
                memcpy(more, l->holders, l->n_holders * sizeof(*more));
                if (l->holders != &l->one)
                        free(l->holders);
                l->holders = more;
                l->cap = cap;
        }
        l->holders[l->n_holders++] = *h;
}

static struct lock_holder *find_fence(struct lock *l, uint64_t fence)
{
        for (uint32_t i = 0; i < l->n_holders; i++)
                if (l->holders[i].fence == fence)
                        return &l->holders[i];
        return NULL;
}

const struct lock_holder *lock_holder(const struct lock *l, const uint8_t *token)
{
        for (uint32_t i = 0; i < l->n_holders; i++) {
                unsigned diff = 0; /* constant time is not needed, but costs nothing either */
                for (size_t j = 0; j < LOCK_TOKEN_BYTES; j++)
                        diff |= (unsigned)(l->holders[i].token[j] ^ token[j]);
                if (diff == 0)
                        return &l->holders[i];
        }
        return NULL;
}

void lock_rearm(struct state *s, struct lock *l)
{
        int64_t at = INT64_MAX;
        for (uint32_t i = 0; i < l->n_holders; i++)
                if (l->holders[i].deadline_ns < at)
                        at = l->holders[i].deadline_ns;
        thing_alarm(s, &l->thing, at);
}

/* ---- bodies ---- */

#define HOLDER_FIELDS(F)                                                                           \
        F(TOKEN, token, ALWAYS, "token", "secret of the holder")                                   \
        F(FENCE, fence, ALWAYS, "fence", "number of the grant; grows with every grant")            \
        F(TIME, since_ns, ALWAYS, "since_ns", "when it was granted, steady clock")                 \
        F(TIME, deadline_ns, ALWAYS, "deadline_ns", "until when, steady clock")                    \
        F(U32, ttl_ms, ALWAYS, "ttl_ms", "for how long it was asked")                              \
        F(TEXT, owner, ALWAYS, "owner", "what the holder calls itself")

static const struct field holder_fields[] = {HOLDER_FIELDS(DOC_FIELD)};

static void put_holder(struct buf *b, const struct lock_holder *o)
{
        HOLDER_FIELDS(PUT_FIELD)
}

void lock_put_set(struct buf *b, uint32_t count, const struct lock_holder *holders, size_t n)
{
        buf_put_varint(b, count);
        buf_put_varint(b, n);
        for (size_t i = 0; i < n; i++)
                put_holder(b, &holders[i]);
}

void lock_put_take(struct buf *b, const struct lock_holder *h)
{
        buf_put_byte(b, NOTE_TAKE);
        put_holder(b, h);
}

void lock_put_renew(struct buf *b, const struct lock_holder *h)
{
        buf_put_byte(b, NOTE_RENEW);
        buf_put_varint(b, h->fence);
        buf_put_varint(b, (uint64_t)h->deadline_ns);
        buf_put_varint(b, h->ttl_ms);
}

void lock_put_drop(struct buf *b, uint64_t fence)
{
        buf_put_byte(b, NOTE_DROP);
        buf_put_varint(b, fence);
}

/* Everything borrowed from the body; false when it cannot be one. */
static bool read_holder(struct reader *r, struct lock_holder *o)
{
        HOLDER_FIELDS(GET_FIELD)
        return !r->failed && o->owner.len <= LOCK_OWNER_BYTES;
}

static bool take(struct state *s, struct lock *l, struct reader *r)
{
        struct lock_holder h;
        uint64_t last = l->n_holders ? l->holders[l->n_holders - 1].fence : 0;
        if (l->n_holders >= l->count || !read_holder(r, &h) || h.fence <= last)
                return false;
        holder_own(&h);
        add_holder(l, &h);
        if (h.fence > s->fence)
                s->fence = h.fence;
        return true;
}

/* ---- the kind ---- */

static void init(struct state *s, struct thing *t)
{
        (void)s;
        struct lock *l = lock_of(t);
        l->holders = &l->one;
        l->cap = 1;
        list_init(&l->waiters);
}

static bool set(struct state *s, struct thing *t, struct slice body)
{
        struct lock *l = lock_of(t);
        struct reader r = reader_make(body);
        drop_all(l);
        l->count = 0;
        if (body.len) {
                l->count = (uint32_t)get_max(&r, LOCK_COUNT_MAX);
                uint64_t n = get_max(&r, LOCK_COUNT_MAX);
                for (uint64_t i = 0; i < n; i++)
                        if (!take(s, l, &r))
                                return false;
        }
        lock_rearm(s, l);
        return !r.failed && reader_left(&r) == 0 && (!body.len || l->count > 0);
}

static void put(const struct thing *t, struct buf *body)
{
        const struct lock *l = CONTAINER_OF(t, const struct lock, thing);
        lock_put_set(body, l->count, l->holders, l->n_holders);
}

static bool renew(struct lock *l, struct reader *r)
{
        struct lock_holder *h = find_fence(l, reader_varint(r));
        int64_t deadline_ns = (int64_t)get_max(r, INT64_MAX);
        uint32_t ttl_ms = (uint32_t)get_max(r, UINT32_MAX);
        if (r->failed || !h)
                return false;
        h->deadline_ns = deadline_ns;
        h->ttl_ms = ttl_ms;
        return true;
}

static bool drop(struct lock *l, struct reader *r)
{
        struct lock_holder *h = find_fence(l, reader_varint(r));
        if (r->failed || !h)
                return false;
        holder_release(h);
        size_t behind = (size_t)(l->holders + l->n_holders - (h + 1));
        memmove(h, h + 1, behind * sizeof(*h));
        l->n_holders--;
        return true;
}

static bool note(struct state *s, struct thing *t, struct slice body)
{
        struct lock *l = lock_of(t);
        struct reader r = reader_make(body);
        bool is_fine = false;
        switch (reader_u8(&r)) {
        case NOTE_TAKE:
                is_fine = take(s, l, &r);
                break;
        case NOTE_RENEW:
                is_fine = renew(l, &r);
                break;
        case NOTE_DROP:
                is_fine = drop(l, &r);
                break;
        default:
                break;
        }
        lock_rearm(s, l);
        return is_fine && reader_left(&r) == 0;
}

static void release(struct state *s, struct thing *t)
{
        (void)s;
        struct lock *l = lock_of(t);
        ASSERT(list_is_empty(&l->waiters));
        drop_all(l);
}

static bool is_needed(const struct thing *t)
{
        return !list_is_empty(&CONTAINER_OF(t, const struct lock, thing)->waiters);
}

static void check(const struct thing *t)
{
        const struct lock *l = CONTAINER_OF(t, const struct lock, thing);
        uint32_t n = 0;
        ASSERT(l->n_holders <= l->count && l->n_holders <= l->cap);
        for (uint32_t i = 1; i < l->n_holders; i++)
                ASSERT(l->holders[i - 1].fence < l->holders[i].fence);
        for (const struct list *it = l->waiters.next; it != &l->waiters; it = it->next)
                n++;
        ASSERT(n == l->n_waiting);
        ASSERT(n == 0 || lock_is_full(l));
        ASSERT(heap_has(&t->alarm) == (l->n_holders > 0));
}

const struct thing_ops lock_ops = {
        .text = "A lock or semaphore and its holders.",
        .body = "`count` varint, number of holders varint, then each holder:",
        .fields = holder_fields,
        .n_fields = ARRAY_LEN(holder_fields),
        .size = sizeof(struct lock),
        .is_ordered = true,
        .init = init,
        .set = set,
        .put = put,
        .note = note,
        .release = release,
        .is_needed = is_needed,
        .check = check,
};
