/* Rules as things: what an operator decided about those who ask, and until when.
 *
 * Everything about a rule that a restart must find is in the one body of its SET; there are no
 * NOTEs, since a rule is only ever replaced or removed as a whole.  Name and body say the same
 * about the slot: a body whose kind belongs to another slot cannot be.
 *
 * A body is read completely before anything of the old rule is touched, so whatever a damaged log
 * brings either becomes the rule or leaves it as it was. */
#include "state/rule.h"

#define RULE_VERSION 1
#define RULE_FLAGS   RULE_ENDS_ITSELF
/* enum gate_mode has four values, the last of them enforce; checks/rule.c asserts that. */
#define RULE_MODE_MAX 3

static const struct {
        const char *name, *slot;
} kinds[RULE_KINDS] = {
        [RULE_HOLD] = {"hold", "share"},
        [RULE_RATIO] = {"ratio", "share"},
        [RULE_EXEMPT] = {"exempt", "share"},
        [RULE_METRICS] = {"metrics", "metrics"},
        [RULE_THRESHOLD] = {"threshold", "threshold"},
};

const char *rule_kind_name(enum rule_kind kind)
{
        ASSERT(kind < RULE_KINDS);
        return kinds[kind].name;
}

const char *rule_slot(enum rule_kind kind)
{
        ASSERT(kind < RULE_KINDS);
        return kinds[kind].slot;
}

/* What is before the first `c` of *rest; *rest goes on behind it, and is empty without one. */
static struct slice take_until(struct slice *rest, char c)
{
        const char *at = rest->len ? memchr(rest->ptr, c, rest->len) : NULL;
        struct slice head = *rest;
        *rest = SLICE_LIT("");
        if (at) {
                size_t len = (size_t)(at - head.ptr);
                *rest = slice_make(at + 1, head.len - len - 1);
                head.len = len;
        }
        return head;
}

static void init(struct state *s, struct thing *t)
{
        struct rule *r = rule_of(t);
        struct slice rest = thing_name(t);
        (void)s; /* it counts once its body came */
        buf_init(&r->texts, 0);
        r->slot = take_until(&rest, ':');
        r->who = take_until(&rest, '/');
        r->target = take_until(&rest, '/');
        r->called = thing_name(t);
        if (r->who.len) /* else no body is taken */
                r->called.len = r->slot.len + 1 + r->who.len;
        if (r->target.len)
                r->called.len += 1 + r->target.len;
}

/* Is the name one of a rule that only observes?  One without the end may be, too: see the top. */
static bool is_trial(const struct rule *r)
{
        return thing_name(&r->thing).len > r->called.len;
}

static bool is_named_well(const struct rule *r, const struct rule_values *v)
{
        struct slice name = thing_name(&r->thing);
        if (!r->who.len || !slice_eq(r->slot, slice_str(rule_slot(v->kind))))
                return false;
        struct slice rest = slice_make(name.ptr + r->called.len, name.len - r->called.len);
        if (!rest.len)
                return true;
        return v->mode != RULE_MODE_MAX &&
               slice_eq(rest, r->target.len ? SLICE_LIT(RULE_TRIAL) : SLICE_LIT("/" RULE_TRIAL));
}

#define RULE_FIELDS(F)                                                                             \
        F(U8, kind, ALWAYS, "kind", "0 hold, 1 ratio, 2 exempt, 3 metrics, 4 threshold")           \
        F(U8, mode, ALWAYS, "mode", "enum gate_mode; 3 = enforce")                                 \
        F(U8, flags, ALWAYS, "flags", "1: an exemption ends when its budget is used up")           \
        F(TIME, until_ns, ALWAYS, "until_ns", "when it ends, steady clock; 0 = never")             \
        F(TIME, set_ms, ALWAYS, "set_ms", "when it was set, Unix time")                            \
        F(U32, ratio_ppm, ALWAYS, "ratio_ppm", "share that is let through, in millionths")         \
        F(TEXT, author, ALWAYS, "author", "who set it")                                            \
        F(TEXT, reason, ALWAYS, "reason", "why")                                                   \
        F(TEXT, address, ALWAYS, "address", "address of the author")                               \
        F(TEXT, list, ALWAYS, "list", "metrics, or metrics with thresholds")

static const struct field rule_fields[] = {RULE_FIELDS(DOC_FIELD)};

void rule_put(const struct rule_values *v, struct buf *body)
{
        const struct rule_values *o = v;
        struct buf *b = body;
        buf_put_byte(b, RULE_VERSION);
        RULE_FIELDS(PUT_FIELD)
}

void rule_values_of(const struct rule *r, struct rule_values *ret)
{
        *ret = (struct rule_values){
                .kind = r->kind,
                .mode = r->mode,
                .flags = r->flags,
                .ratio_ppm = r->ratio_ppm,
                .until_ns = r->until_ns,
                .set_ms = r->set_ms,
                .author = r->author,
                .reason = r->reason,
                .address = r->address,
                .list = r->list,
        };
}

static bool read_values(struct slice body, struct rule_values *o)
{
        struct reader reader = reader_make(body), *r = &reader;
        uint8_t version = reader_u8(r);
        RULE_FIELDS(GET_FIELD)
        return !r->failed && !reader_left(r) && version == RULE_VERSION && o->kind < RULE_KINDS &&
               o->mode <= RULE_MODE_MAX && !(o->flags & ~RULE_FLAGS) &&
               o->ratio_ppm <= RULE_RATIO_ONE;
}

/* The texts follow each other in r->texts: `from` is where the next one begins. */
static struct slice text_at(const struct rule *r, size_t *from, size_t len)
{
        struct slice s = slice_make(r->texts.ptr + *from, len);
        *from += len;
        return len ? s : SLICE_LIT("");
}

static bool set(struct state *s, struct thing *t, struct slice body)
{
        struct rule *r = rule_of(t);
        struct rule_values v;
        size_t at = 0;
        if (!read_values(body, &v) || !is_named_well(r, &v))
                return false;
        r->kind = v.kind;
        r->mode = v.mode;
        r->flags = v.flags;
        r->ratio_ppm = v.ratio_ppm;
        r->until_ns = v.until_ns;
        r->set_ms = v.set_ms;
        buf_clear(&r->texts);
        buf_put_slice(&r->texts, v.author);
        buf_put_slice(&r->texts, v.reason);
        buf_put_slice(&r->texts, v.address);
        buf_put_slice(&r->texts, v.list);
        r->author = text_at(r, &at, v.author.len);
        r->reason = text_at(r, &at, v.reason.len);
        r->address = text_at(r, &at, v.address.len);
        r->list = text_at(r, &at, v.list.len);
        memset(&r->budget, 0, sizeof(r->budget)); /* a rule set anew has a budget of its own */
        thing_alarm(s, t, r->until_ns ? r->until_ns : INT64_MAX);
        s->rules_version++;
        return true;
}

static void put(const struct thing *t, struct buf *body)
{
        struct rule_values v;
        rule_values_of(CONTAINER_OF(t, const struct rule, thing), &v);
        rule_put(&v, body);
}

static void release(struct state *s, struct thing *t)
{
        s->rules_version++;
        buf_release(&rule_of(t)->texts);
}

static void check(const struct thing *t)
{
        const struct rule *r = CONTAINER_OF(t, const struct rule, thing);
        if (!thing_is_durable(t))
                return;
        ASSERT(r->who.len && r->kind < RULE_KINDS);
        ASSERT(slice_eq(r->slot, slice_str(rule_slot(r->kind))));
        ASSERT(!is_trial(r) || r->mode != RULE_MODE_MAX);
        ASSERT(r->ratio_ppm <= RULE_RATIO_ONE && r->until_ns >= 0);
        ASSERT(r->texts.len == r->author.len + r->reason.len + r->address.len + r->list.len);
        ASSERT((r->until_ns != 0) == heap_has(&t->alarm));
}

const struct thing_ops rule_ops = {
        .text = "A rule about clients.",
        .body = "u8 version 1, then:",
        .fields = rule_fields,
        .n_fields = ARRAY_LEN(rule_fields),
        .size = sizeof(struct rule),
        .is_ordered = true,
        .init = init,
        .set = set,
        .put = put,
        .release = release,
        .check = check,
};
