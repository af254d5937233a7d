/* See token.h. */
#include "state/token.h"

static struct token *of(struct thing *t)
{
        return CONTAINER_OF(t, struct token, thing);
}

void token_body_put(const struct token_body *o, struct buf *b)
{
        TOKEN_FIELDS(PUT_FIELD)
}

static bool get_body(struct slice bytes, struct token_body *o)
{
        struct reader reader = reader_make(bytes), *r = &reader;
        TOKEN_FIELDS(GET_FIELD)
        return !r->failed && !reader_left(r) && o->roles && o->secret.len == TOKEN_HASH_BYTES &&
               (o->old_secret.len ? o->old_secret.len == TOKEN_HASH_BYTES && o->old_until_ms
                                  : !o->old_until_ms);
}

static void init(struct state *s, struct thing *t)
{
        (void)s;
        buf_init(&of(t)->bytes, 0);
}

static int64_t next_end(const struct token_body *o)
{
        int64_t at = o->until_ms ? o->until_ms : INT64_MAX;
        return o->old_until_ms && o->old_until_ms < at ? o->old_until_ms : at;
}

static bool set(struct state *s, struct thing *t, struct slice body)
{
        struct token *token = of(t);
        struct token_body is;
        if (!get_body(body, &is))
                return false;
        struct buf bytes;
        buf_init(&bytes, 0);
        buf_put_slice(&bytes, body);
        if (bytes.failed || !get_body(buf_slice(&bytes), &is)) {
                buf_release(&bytes);
                return false;
        }
        buf_release(&token->bytes);
        token->bytes = bytes;
        token->is = is;
        thing_alarm(s, t, next_end(&is));
        s->tokens_version++;
        return true;
}

static void put(const struct thing *t, struct buf *body)
{
        token_body_put(&token_of(t)->is, body);
}

/* Its last use. */
static bool note(struct state *s, struct thing *t, struct slice body)
{
        struct token *token = of(t);
        struct reader r = reader_make(body);
        struct token_body is = token->is;
        is.used_ms = (int64_t)get_max(&r, INT64_MAX);
        is.used_from = reader_lv(&r);
        if (r.failed || reader_left(&r))
                return false;
        struct buf bytes;
        buf_init(&bytes, 0);
        token_body_put(&is, &bytes);
        uint64_t version = s->tokens_version;
        bool is_set = !bytes.failed && set(s, t, buf_slice(&bytes));
        s->tokens_version = version; /* it allows what it did before */
        buf_release(&bytes);
        return is_set;
}

static void release(struct state *s, struct thing *t)
{
        s->tokens_version++;
        buf_release(&of(t)->bytes);
}

static void check(const struct thing *t)
{
        const struct token_body *is = &token_of(t)->is;
        ASSERT(thing_is_durable(t) && is->roles && is->secret.len == TOKEN_HASH_BYTES); /* (1) */
        ASSERT((is->old_secret.len != 0) == (is->old_until_ms != 0));                   /* (2) */
}

static const struct field fields[] = {TOKEN_FIELDS(DOC_FIELD)};

const struct thing_ops token_ops = {
        .text = "An access token, without its secret.",
        .fields = fields,
        .n_fields = ARRAY_LEN(fields),
        .size = sizeof(struct token),
        .is_wall = true,
        .init = init,
        .set = set,
        .put = put,
        .note = note,
        .release = release,
        .check = check,
};
