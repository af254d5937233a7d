/* See audit.h. */
#include "state/audit.h"

#include <stdio.h>

struct slice audit_name(uint64_t number, char ret[AUDIT_NUMBER_BYTES])
{
        int n = snprintf(ret, AUDIT_NUMBER_BYTES, "%llu", (unsigned long long)number);
        return slice_make(ret, (size_t)n);
}

/* 0: that is no number of an entry. */
static uint64_t number_of(struct slice name)
{
        char again[AUDIT_NUMBER_BYTES];
        uint64_t n = 0;
        for (size_t i = 0; i < name.len && i < AUDIT_NUMBER_BYTES; i++)
                n = n * 10 + (uint64_t)(uint8_t)(name.ptr[i] - '0');
        return n <= INT64_MAX && slice_eq(audit_name(n, again), name) ? n : 0;
}

void audit_entry_put(const struct audit_entry *o, struct buf *b)
{
        AUDIT_FIELDS(PUT_FIELD)
}

static bool get_body(struct slice bytes, struct audit_entry *o)
{
        struct reader reader = reader_make(bytes), *r = &reader;
        AUDIT_FIELDS(GET_FIELD)
        return !r->failed && !reader_left(r) && o->times && o->times <= INT64_MAX;
}

/* The cleaner may have written an older entry behind a newer one. */
static void insert(struct state *s, struct audit *a)
{
        struct list *at = s->audits.prev;
        while (at != &s->audits && audit_of_link(at)->is.number > a->is.number)
                at = at->prev;
        list_insert_before(at->next, &a->link);
        s->n_audits++;
}

static bool set(struct state *s, struct thing *t, struct slice body)
{
        struct audit *a = audit_of(t);
        struct audit_entry is = {.number = number_of(thing_name(t))};
        struct buf bytes;
        buf_init(&bytes, 0);
        buf_put_slice(&bytes, body);
        if (!is.number || bytes.failed || !get_body(buf_slice(&bytes), &is)) {
                buf_release(&bytes);
                return false;
        }
        buf_release(&a->bytes);
        a->bytes = bytes;
        a->is = is;
        if (!list_is_linked(&a->link))
                insert(s, a);
        return true;
}

static void init(struct state *s, struct thing *t)
{
        (void)s;
        buf_init(&audit_of(t)->bytes, 0);
}

static void put(const struct thing *t, struct buf *body)
{
        audit_entry_put(&CONTAINER_OF(t, const struct audit, thing)->is, body);
}

static void release(struct state *s, struct thing *t)
{
        struct audit *a = audit_of(t);
        if (list_is_linked(&a->link)) {
                list_remove(&a->link);
                s->n_audits--;
        }
        buf_release(&a->bytes);
}

static void check(const struct thing *t)
{
        const struct audit *a = CONTAINER_OF(t, const struct audit, thing);
        ASSERT(thing_is_durable(t) && list_is_linked(&a->link)); /* (1) */
        ASSERT(a->is.number && a->is.times);                     /* (2) */
}

static const struct field fields[] = {AUDIT_FIELDS(DOC_FIELD)};

const struct thing_ops audit_ops = {
        .text = "An entry of the audit trail; its name is its number.",
        .fields = fields,
        .n_fields = ARRAY_LEN(fields),
        .size = sizeof(struct audit),
        .init = init,
        .set = set,
        .put = put,
        .release = release,
        .check = check,
};
