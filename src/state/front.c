/* See front.h. */
#include "state/front.h"

#include <stdio.h>

#define BODY_VERSION 1

#define FRONT_FIELDS(F)                                                                            \
        F(NUM, n_rows, ALWAYS, "n_rows", "number of actions")                                      \
        F(TEXT, rows, ALWAYS, "rows",                                                              \
          "for each action, by id: the varint difference of its id, u8 priority, varint series")

static const struct field front_fields[] = {FRONT_FIELDS(DOC_FIELD)};

static struct front *front_of(struct thing *t)
{
        return CONTAINER_OF(t, struct front, thing);
}

/* ---- names ---- */

void front_put_name(char *ret, struct slice site, struct slice hook)
{
        (void)snprintf(ret, FRONT_NAME_MAX, "%.*s/%.*s", (int)site.len, site.ptr, (int)hook.len,
                       hook.ptr);
}

/* The name of a site has no '/'. */
static size_t front_site_len(const struct front *f)
{
        struct slice name = thing_name(&f->thing);
        const char *end = memchr(name.ptr, '/', name.len);
        return end ? (size_t)(end - name.ptr) : name.len;
}

struct slice front_site(const struct front *f)
{
        return slice_make(thing_name(&f->thing).ptr, front_site_len(f));
}

struct slice front_hook(const struct front *f)
{
        struct slice name = thing_name(&f->thing);
        size_t at = front_site_len(f) + 1;
        return at < name.len ? slice_make(name.ptr + at, name.len - at) : SLICE_NONE;
}

const struct front *front_find(const struct state *s, struct slice site, struct slice hook)
{
        char name[FRONT_NAME_MAX];
        front_put_name(name, site, hook);
        const struct thing *t = thing_find(s, THING_FRONT, slice_str(name));
        return t ? CONTAINER_OF(t, const struct front, thing) : NULL;
}

const struct front *front_next(const struct state *s, struct slice site, const struct front *f)
{
        const struct hash *all = &s->things[THING_FRONT];
        for (const struct hash_node *n = f ? &f->thing.node : NULL; (n = hash_next(all, n));) {
                const struct front *next = CONTAINER_OF(n, const struct front, thing.node);
                if (slice_eq(front_site(next), site))
                        return next;
        }
        return NULL;
}

/* ---- rows ---- */

int front_by_series(const void *a, const void *b)
{
        const struct front_row *x = a, *y = b;
        return (x->series > y->series) - (x->series < y->series);
}

static bool front_read_row(struct reader *r, struct front_row *row)
{
        if (!reader_left(r))
                return false;
        row->id += reader_varint(r);
        row->priority = reader_u8(r);
        uint64_t series = reader_varint(r);
        r->failed = r->failed || series > UINT32_MAX;
        row->series = (uint32_t)series;
        return !r->failed;
}

size_t front_unpack(const struct front_values *v, struct front_row *ret)
{
        struct reader r = reader_make(v->rows);
        struct front_row row = {0};
        size_t n = 0;
        while (n < FRONT_ROWS_MAX && front_read_row(&r, &row))
                ret[n++] = row;
        return n;
}

void front_pack(struct front_values *v, const struct front_row *rows, size_t n, struct buf *packed)
{
        uint64_t last = 0;
        ASSERT(n <= FRONT_ROWS_MAX);
        buf_clear(packed);
        for (size_t i = 0; i < n; i++) {
                ASSERT(rows[i].id > last && rows[i].priority);
                buf_put_varint(packed, rows[i].id - last);
                buf_put_byte(packed, (char)rows[i].priority);
                buf_put_varint(packed, rows[i].series);
                last = rows[i].id;
        }
        v->n_rows = n;
        v->rows = buf_slice(packed);
}

/* Invariants (1) and (2). */
static bool front_is_right(const struct front_values *v)
{
        struct reader r = reader_make(v->rows);
        struct front_row row = {0};
        uint64_t last = 0, n = 0;
        for (; front_read_row(&r, &row); n++) {
                if (row.id <= last || !row.priority)
                        return false;
                last = row.id;
        }
        return !r.failed && n == v->n_rows && n >= 1 && n <= FRONT_ROWS_MAX;
}

/* ---- the kind ---- */

void front_put(const struct front_values *v, struct buf *body)
{
        const struct front_values *o = v;
        struct buf *b = body;
        buf_put_byte(b, BODY_VERSION);
        FRONT_FIELDS(PUT_FIELD)
}

static bool front_read(struct slice body, struct front_values *o)
{
        struct reader reader = reader_make(body), *r = &reader;
        uint8_t version = reader_u8(r);
        *o = (struct front_values){0};
        FRONT_FIELDS(GET_FIELD)
        return !r->failed && reader_left(r) == 0 && version == BODY_VERSION && front_is_right(o);
}

static void front_init(struct state *s, struct thing *t)
{
        (void)s; /* nothing else knows of it */
        buf_init(&front_of(t)->bytes, 0);
}

static bool front_set(struct state *s, struct thing *t, struct slice body)
{
        (void)s; /* it has no alarm */
        struct front *f = front_of(t);
        struct front_values v;
        struct buf bytes;
        buf_init(&bytes, 0);
        buf_put_slice(&bytes, body); /* the body may borrow from what it replaces */
        if (!front_read(buf_slice(&bytes), &v)) {
                buf_release(&bytes);
                return false;
        }
        buf_release(&f->bytes);
        f->bytes = bytes;
        f->values = v;
        return true;
}

static void front_put_thing(const struct thing *t, struct buf *body)
{
        front_put(&CONTAINER_OF(t, const struct front, thing)->values, body);
}

static void front_release(struct state *s, struct thing *t)
{
        (void)s; /* nothing else knows of it */
        buf_release(&front_of(t)->bytes);
}

static void front_check(const struct thing *t)
{
        ASSERT(front_is_right(&CONTAINER_OF(t, const struct front, thing)->values)); /* (1), (2) */
        ASSERT(!heap_has(&t->alarm));
}

const struct thing_ops front_ops = {
        .text = "The priorities that actions of a WordPress site had before they were put in "
                "front.",
        .body = "u8 version 1, then:",
        .fields = front_fields,
        .n_fields = ARRAY_LEN(front_fields),
        .size = sizeof(struct front),
        .init = front_init,
        .set = front_set,
        .put = front_put_thing,
        .release = front_release,
        .check = front_check,
};
