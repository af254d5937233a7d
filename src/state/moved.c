/* See moved.h. */
#include "state/moved.h"

#include <stdio.h>
#include <stdlib.h>

#define BODY_VERSION 1

#define MOVED_FIELDS(F)                                                                            \
        F(TEXT, site, ALWAYS, "site", "its name")                                                  \
        F(TEXT, hook, ALWAYS, "hook", "of the actions")                                            \
        F(TIME, date_s, ALWAYS, "date_s", "the date they were moved to, Unix seconds")             \
        F(TIME, before_s, ALWAYS, "before_s", "the date before, while a shift is under way; or 0") \
        F(TIME, made_s, ALWAYS, "made_s", "when the batch was made, Unix seconds")                 \
        F(NUM, n_rows, ALWAYS, "n_rows", "number of actions")                                      \
        F(NUM, n_moved, ALWAYS, "n_moved", "how many were changed at the last move")               \
        F(TIME, oldest_s, ALWAYS, "oldest_s", "the oldest original date, Unix seconds")            \
        F(TEXT, rows, ALWAYS, "rows",                                                              \
          "for each action the zigzag varint differences of its id and of its original date")

static const struct field moved_fields[] = {MOVED_FIELDS(DOC_FIELD)};

static struct moved *mutable_of(struct thing *t)
{
        return CONTAINER_OF(t, struct moved, thing);
}

void moved_put_name(char *ret, struct slice site, uint64_t number)
{
        (void)snprintf(ret, MOVED_NAME_MAX, "%.*s/%llu", (int)site.len, site.ptr,
                       (unsigned long long)number);
}

/* ---- rows ---- */

static int by_original(const void *a, const void *b)
{
        const struct site_row *x = a, *y = b;
        if (x->original_s != y->original_s)
                return x->original_s < y->original_s ? -1 : 1;
        return (x->id > y->id) - (x->id < y->id);
}

static void put_zigzag(struct buf *b, int64_t v)
{
        buf_put_varint(b, ((uint64_t)v << 1) ^ (uint64_t)(v >> 63));
}

static int64_t get_zigzag(struct reader *r)
{
        uint64_t v = reader_varint(r);
        return (int64_t)((v >> 1) ^ -(v & 1));
}

void moved_pack(struct moved_values *v, struct site_row *rows, size_t n, struct buf *packed)
{
        struct site_row last = {0};
        qsort(rows, n, sizeof(*rows), by_original);
        buf_clear(packed);
        for (size_t i = 0; i < n; i++) {
                put_zigzag(packed, (int64_t)(rows[i].id - last.id));
                put_zigzag(packed,
                           (int64_t)((uint64_t)rows[i].original_s - (uint64_t)last.original_s));
                last = rows[i];
        }
        v->n_rows = n;
        v->oldest_s = n ? rows[0].original_s : 0;
        v->rows = buf_slice(packed);
}

bool moved_next(struct reader *r, struct site_row *row)
{
        if (!reader_left(r))
                return false;
        row->id += (uint64_t)get_zigzag(r);
        row->original_s = (int64_t)((uint64_t)row->original_s + (uint64_t)get_zigzag(r));
        return !r->failed;
}

/* ---- values ---- */

void moved_put(const struct moved_values *v, struct buf *body)
{
        const struct moved_values *o = v;
        struct buf *b = body;
        buf_put_byte(b, BODY_VERSION);
        MOVED_FIELDS(PUT_FIELD)
}

/* Invariant (1). */
static bool are_rows_right(const struct moved_values *v)
{
        struct reader r = reader_make(v->rows);
        struct site_row row = {0};
        int64_t last_s = v->oldest_s;
        uint64_t n = 0;
        for (; moved_next(&r, &row); n++) {
                if (row.original_s < last_s || (n == 0 && row.original_s != v->oldest_s))
                        return false;
                last_s = row.original_s;
        }
        return !r.failed && n == v->n_rows && n >= 1 && n <= SITE_ROWS_MAX;
}

static bool read_values(struct slice body, struct moved_values *o)
{
        struct reader reader = reader_make(body), *r = &reader;
        uint8_t version = reader_u8(r);
        *o = (struct moved_values){0};
        MOVED_FIELDS(GET_FIELD)
        return !r->failed && reader_left(r) == 0 && version == BODY_VERSION && o->date_s > 0 &&
               o->date_s <= MOVED_DATE_MAX && o->before_s >= 0 && are_rows_right(o);
}

/* ---- by hook ---- */

/* "SITE\0HOOK" */
static struct slice put_key(struct buf *key, struct slice site, struct slice hook)
{
        buf_put_slice(key, site);
        buf_put_byte(key, 0);
        buf_put_slice(key, hook);
        return buf_slice(key);
}

static struct moved_hook *find_hook(const struct state *s, struct slice site, struct slice hook)
{
        struct buf key CLEANUP(buf_release) = {0};
        struct hash_node *n = hash_find(&s->moved_hooks, put_key(&key, site, hook));
        return n ? CONTAINER_OF(n, struct moved_hook, node) : NULL;
}

const struct moved_hook *moved_hook_find(const struct state *s, struct slice site,
                                         struct slice hook)
{
        return find_hook(s, site, hook);
}

static struct moved_hook *need_hook(struct state *s, struct slice site, struct slice hook)
{
        struct buf key CLEANUP(buf_release) = {0};
        struct moved_hook *h = find_hook(s, site, hook);
        if (h)
                return h;
        struct slice text = put_key(&key, site, hook);
        h = xcalloc(1, sizeof(*h) + text.len);
        memcpy(h->text, text.ptr, text.len);
        h->site = slice_make(h->text, site.len);
        h->hook = slice_make(h->text + site.len + 1, hook.len);
        list_init(&h->batches);
        hash_insert(&s->moved_hooks, &h->node, slice_make(h->text, text.len));
        return h;
}

static void join_hook(struct state *s, struct moved *m)
{
        m->of_hook = need_hook(s, m->values.site, m->values.hook);
        m->of_hook->n_rows += m->values.n_rows;
        m->of_hook->n_moved += m->values.n_moved;
        list_push_back(&m->of_hook->batches, &m->link);
}

static void leave_hook(struct state *s, struct moved *m)
{
        struct moved_hook *h = m->of_hook;
        if (!h)
                return;
        m->of_hook = NULL;
        h->n_rows -= m->values.n_rows;
        h->n_moved -= m->values.n_moved;
        list_remove(&m->link);
        if (!list_is_empty(&h->batches))
                return;
        hash_remove(&s->moved_hooks, &h->node);
        free(h);
}

/* ---- questions ---- */

static int by_hook_and_id(const void *a, const void *b)
{
        const struct moved_ask *x = a, *y = b;
        int order = slice_cmp(x->hook, y->hook);
        return order ? order : (x->id > y->id) - (x->id < y->id);
}

static int by_date(const void *a, const void *b)
{
        int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
        return (x > y) - (x < y);
}

/* Those of one hook, by id, from one of its batches. */
static void find_in_batch(const struct moved_values *v, struct moved_ask *asks, size_t n)
{
        struct reader r = reader_make(v->rows);
        struct site_row row = {0};
        while (moved_next(&r, &row)) {
                const struct moved_ask key = {.id = row.id, .hook = asks->hook};
                struct moved_ask *ask = bsearch(&key, asks, n, sizeof(*asks), by_hook_and_id);
                if (!ask ||
                    (ask->date_s != v->date_s && (!v->before_s || ask->date_s != v->before_s)))
                        continue;
                if (!ask->is_found || row.original_s < ask->original_s)
                        ask->original_s = row.original_s;
                ask->is_found = true;
        }
}

static void find_of_hook(const struct moved_hook *h, struct moved_ask *asks, size_t n)
{
        int64_t *dates = xcalloc(n, sizeof(*dates));
        for (size_t i = 0; i < n; i++)
                dates[i] = asks[i].date_s;
        qsort(dates, n, sizeof(*dates), by_date);
        LIST_FOREACH(&h->batches, it)
        {
                const struct moved_values *v = &moved_of_link(it)->values;
                if (bsearch(&v->date_s, dates, n, sizeof(*dates), by_date) ||
                    (v->before_s && bsearch(&v->before_s, dates, n, sizeof(*dates), by_date)))
                        find_in_batch(v, asks, n);
        }
        free(dates);
}

void moved_find(const struct state *s, struct slice site, struct moved_ask *asks, size_t n)
{
        qsort(asks, n, sizeof(*asks), by_hook_and_id);
        for (size_t i = 0, end; i < n; i = end) {
                for (end = i + 1; end < n && slice_eq(asks[end].hook, asks[i].hook);)
                        end++;
                const struct moved_hook *h = moved_hook_find(s, site, asks[i].hook);
                if (h)
                        find_of_hook(h, asks + i, end - i);
        }
}

const struct moved_ask *moved_answer(const struct moved_ask *asks, size_t n, struct slice hook,
                                     uint64_t id)
{
        const struct moved_ask key = {.id = id, .hook = hook};
        const struct moved_ask *ask =
                n ? bsearch(&key, asks, n, sizeof(*asks), by_hook_and_id) : NULL;
        return ask && ask->is_found ? ask : NULL;
}

/* ---- the kind ---- */

/* "shop/42": 42 */
static uint64_t number_of(struct slice name)
{
        uint64_t number = 0, place = 1;
        for (size_t i = name.len; i > 0 && name.ptr[i - 1] >= '0' && name.ptr[i - 1] <= '9'; i--) {
                number += place * (uint64_t)(name.ptr[i - 1] - '0');
                place *= 10;
        }
        return number;
}

static void init(struct state *s, struct thing *t)
{
        (void)s; /* its hook is not known yet */
        struct moved *m = mutable_of(t);
        m->number = number_of(thing_name(t));
        buf_init(&m->bytes, 0);
}

static bool set(struct state *s, struct thing *t, struct slice body)
{
        struct moved *m = mutable_of(t);
        struct buf bytes;
        struct moved_values v;
        buf_init(&bytes, 0);
        buf_put_slice(&bytes, body); /* the body may borrow from what it replaces */
        if (!read_values(buf_slice(&bytes), &v)) {
                buf_release(&bytes);
                return false;
        }
        leave_hook(s, m);
        buf_release(&m->bytes);
        m->bytes = bytes;
        m->values = v;
        join_hook(s, m);
        thing_alarm(s, t, (v.date_s + MOVED_FORGET_S) * MS_PER_S);
        return true;
}

static void put(const struct thing *t, struct buf *body)
{
        moved_put(&CONTAINER_OF(t, const struct moved, thing)->values, body);
}

static void release(struct state *s, struct thing *t)
{
        leave_hook(s, mutable_of(t));
        buf_release(&mutable_of(t)->bytes);
}

static void check(const struct thing *t)
{
        const struct moved *m = CONTAINER_OF(t, const struct moved, thing);
        const struct moved_values *v = &m->values;
        ASSERT(are_rows_right(v));                   /* (1) */
        ASSERT(v->date_s > 0 && v->before_s >= 0);   /* (2) */
        ASSERT(slice_eq(v->hook, m->of_hook->hook)); /* (3) */
        ASSERT(slice_eq(v->site, m->of_hook->site)); /* (3) */
        ASSERT(v->n_rows <= m->of_hook->n_rows);     /* (3) */
}

const struct thing_ops moved_ops = {
        .text = "Actions of a WordPress site that were moved together.",
        .body = "u8 version 1, then:",
        .fields = moved_fields,
        .n_fields = ARRAY_LEN(moved_fields),
        .size = sizeof(struct moved),
        .is_wall = true,
        .init = init,
        .set = set,
        .put = put,
        .release = release,
        .check = check,
};
