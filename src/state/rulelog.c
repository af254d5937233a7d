/* The history of rules: a ring of the last RULELOG_KEPT changes in one thing.
 *
 * A change is a NOTE of one entry, so writing it costs its own bytes and not those of the whole
 * history; only the cleaner writes all of it, about once per trip around the log.  The first entry
 * ever must be a SET, since a NOTE needs a thing that the log holds.  When the SET was trimmed, the
 * NOTEs behind it are passed over in replay: a later SET, of the cleaner, contains them.
 *
 * Each entry owns one run of bytes that its four texts point into.  The thing weighs what its SET
 * would, also between two SETs: a hundred long entries must not hide from the cleaner's sums.
 *
 * Its alarm is the heartbeat of steady time (checks/rule.c): it rings RULELOG_BEAT_NS after the
 * last change that the log holds. */
#include "state/rulelog.h"

#include <stdlib.h>

static const char *const actions[RULELOG_ACTIONS] = {
        [RULELOG_SET] = "set",
        [RULELOG_UNSET] = "unset",
        [RULELOG_EXPIRED] = "expired",
        [RULELOG_OVER_BUDGET] = "over_budget",
};

const char *rulelog_action_name(enum rulelog_action action)
{
        ASSERT(action < RULELOG_ACTIONS);
        return actions[action];
}

static struct rulelog *rulelog_of(struct thing *t)
{
        return CONTAINER_OF(t, struct rulelog, thing);
}

#define ENTRY_FIELDS(F)                                                                            \
        F(TIME, at_ms, ALWAYS, "at_ms", "when, Unix time")                                         \
        F(U8, action, ALWAYS, "action", "0 set, 1 unset, 2 expired, 3 over budget")                \
        F(TEXT, name, ALWAYS, "name", "the rule")                                                  \
        F(TEXT, author, ALWAYS, "author", "who changed it")                                        \
        F(TEXT, address, ALWAYS, "address", "address of the author")                               \
        F(TEXT, text, ALWAYS, "text", "what the rule said, and why")

static const struct field entry_fields[] = {ENTRY_FIELDS(DOC_FIELD)};

void rulelog_put(const struct rulelog_entry *e, struct buf *body)
{
        const struct rulelog_entry *o = e;
        struct buf *b = body;
        ENTRY_FIELDS(PUT_FIELD)
}

void rulelog_put_first(const struct rulelog_entry *e, struct buf *body)
{
        buf_put_varint(body, 0);
        rulelog_put(e, body);
}

const struct rulelog_entry *rulelog_peek(const struct rulelog *l, size_t back)
{
        return back < l->n ? &l->entries[(l->first + l->n - 1 - back) % RULELOG_KEPT] : NULL;
}

/* An entry with borrowed texts; false when none can be. */
static bool read_entry(struct reader *r, struct rulelog_entry *o)
{
        *o = (struct rulelog_entry){0};
        ENTRY_FIELDS(GET_FIELD)
        return !r->failed && o->action < RULELOG_ACTIONS;
}

static struct slice keep(char **at, struct slice s)
{
        struct slice kept = slice_make(*at, s.len);
        if (s.len)
                memcpy(*at, s.ptr, s.len);
        *at += s.len;
        return kept;
}

/* Behind the newest; the oldest gives way when there are enough. */
static void append(struct rulelog *l, const struct rulelog_entry *e)
{
        struct rulelog_entry *to = &l->entries[(l->first + l->n) % RULELOG_KEPT];
        if (l->n == RULELOG_KEPT) {
                free(to->bytes);
                l->first++;
        } else {
                l->n++;
        }
        *to = *e;
        to->bytes = xmalloc(e->name.len + e->author.len + e->address.len + e->text.len + 1);
        char *at = to->bytes;
        to->name = keep(&at, e->name);
        to->author = keep(&at, e->author);
        to->address = keep(&at, e->address);
        to->text = keep(&at, e->text);
}

static void clear(struct rulelog *l)
{
        for (size_t i = 0; i < l->n; i++)
                free(l->entries[(l->first + i) % RULELOG_KEPT].bytes);
        l->n = 0;
}

static void arm(struct state *s, struct thing *t)
{
        int64_t now = s->steady_ns;
        thing_alarm(s, t, now < INT64_MAX - RULELOG_BEAT_NS ? now + RULELOG_BEAT_NS : INT64_MAX);
}

static bool set(struct state *s, struct thing *t, struct slice body)
{
        struct rulelog *l = rulelog_of(t);
        struct rulelog_entry e;
        struct reader r = reader_make(body);
        size_t n = 0;
        uint64_t first = reader_varint(&r);
        struct reader entries = r;
        for (; reader_left(&r); n++)
                if (n == RULELOG_KEPT || !read_entry(&r, &e))
                        return false;
        if (r.failed || first > INT64_MAX)
                return false;
        clear(l);
        l->first = first;
        while (reader_left(&entries) && read_entry(&entries, &e))
                append(l, &e);
        ASSERT(l->n == n);
        arm(s, t);
        return true;
}

static void put(const struct thing *t, struct buf *body)
{
        const struct rulelog *l = CONTAINER_OF(t, const struct rulelog, thing);
        buf_put_varint(body, l->first);
        for (size_t i = 0; i < l->n; i++)
                rulelog_put(&l->entries[(l->first + i) % RULELOG_KEPT], body);
}

/* About what it takes in a body. */
static uint32_t entry_weight(const struct rulelog_entry *e)
{
        return (uint32_t)(11 + e->name.len + e->author.len + e->address.len + e->text.len);
}

static bool note(struct state *s, struct thing *t, struct slice body)
{
        struct rulelog *l = rulelog_of(t);
        struct rulelog_entry e;
        struct reader r = reader_make(body);
        if (!read_entry(&r, &e) || reader_left(&r) || l->first == INT64_MAX)
                return false;
        uint32_t more = entry_weight(&e), less = 0;
        if (l->n == RULELOG_KEPT)
                less = entry_weight(rulelog_peek(l, l->n - 1));
        if (less > t->weight)
                less = t->weight;
        t->weight += more - less;
        s->live_bytes += more;
        s->live_bytes -= less;
        append(l, &e);
        arm(s, t);
        return true;
}

static void release(struct state *s, struct thing *t)
{
        (void)s; /* nothing else knows of its entries */
        clear(rulelog_of(t));
}

static void check(const struct thing *t)
{
        const struct rulelog *l = CONTAINER_OF(t, const struct rulelog, thing);
        ASSERT(l->n <= RULELOG_KEPT);
        for (size_t i = 0; i < l->n; i++) {
                const struct rulelog_entry *e = rulelog_peek(l, i);
                ASSERT(e->bytes && e->action < RULELOG_ACTIONS && e->at_ms >= 0);
        }
}

const struct thing_ops rulelog_ops = {
        .text = "The latest changes of rules.",
        .body = "number of the first entry varint, then each entry:",
        .fields = entry_fields,
        .n_fields = ARRAY_LEN(entry_fields),
        .size = sizeof(struct rulelog),
        .set = set,
        .put = put,
        .note = note,
        .release = release,
        .check = check,
};
