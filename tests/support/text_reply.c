/* See the header. */
#include "support/text_reply.h"

static struct text_reply *of(struct reply *r)
{
        return CONTAINER_OF(r, struct text_reply, base);
}

static void count(struct text_reply *t, bool is_key)
{
        if (t->depth && t->open[t->depth - 1].is_map == is_key)
                t->open[t->depth - 1].seen++;
}

static void enter(struct text_reply *t, size_t announced, bool is_map)
{
        ASSERT(t->depth < TEXT_REPLY_DEPTH);
        t->open[t->depth].announced = announced;
        t->open[t->depth].seen = 0;
        t->open[t->depth++].is_map = is_map;
}

/* A space between values, none after an opening bracket or a key. */
static struct buf *space(struct reply *r)
{
        struct buf *b = &of(r)->text;
        if (b->len && !strchr("[{:", b->ptr[b->len - 1]))
                buf_put_byte(b, ' ');
        return b;
}

static struct buf *begin(struct reply *r)
{
        count(of(r), false);
        return space(r);
}

static void put_null(struct reply *r)
{
        buf_put_str(begin(r), "null");
}

static void put_bool(struct reply *r, bool v)
{
        buf_put_str(begin(r), v ? "true" : "false");
}

static void put_int(struct reply *r, int64_t v)
{
        buf_put_i64(begin(r), v);
}

static void put_text(struct reply *r, struct slice v)
{
        struct buf *b = begin(r);
        buf_put_byte(b, '\'');
        buf_put_slice(b, v);
        buf_put_byte(b, '\'');
}

static void put_ok(struct reply *r)
{
        buf_put_str(begin(r), "OK");
}

static void put_list(struct reply *r, size_t n)
{
        buf_put_byte(begin(r), '[');
        enter(of(r), n, false);
}

static void put_map(struct reply *r, size_t n)
{
        buf_put_byte(begin(r), '{');
        enter(of(r), n, true);
}

static void put_key(struct reply *r, const char *name)
{
        count(of(r), true);
        buf_printf(space(r), "%s:", name);
}

static void put_end(struct reply *r)
{
        struct text_reply *t = of(r);
        ASSERT(t->depth > 0);
        t->depth--;
        ASSERT(t->open[t->depth].seen == t->open[t->depth].announced);
        buf_put_byte(&t->text, ']');
}

static void put_error(struct reply *r, const struct problem *p)
{
        buf_printf(begin(r), "!%s %s", err_name(p->err), p->detail);
}

static const struct reply_ops text_ops = {
        .null = put_null,
        .boolean = put_bool,
        .integer = put_int,
        .text = put_text,
        .payload = put_text,
        .ok = put_ok,
        .list = put_list,
        .map = put_map,
        .record = put_map,
        .key = put_key,
        .end = put_end,
        .error = put_error,
};

void text_reply_init(struct text_reply *r)
{
        r->base.ops = &text_ops;
        r->depth = 0;
        buf_init(&r->text, 0);
}

void text_reply_release(struct text_reply *r)
{
        buf_release(&r->text);
}

void text_reply_clear(struct text_reply *r)
{
        buf_clear(&r->text);
        r->depth = 0;
}

const char *text_reply_str(struct text_reply *r)
{
        return buf_cstr(&r->text);
}
