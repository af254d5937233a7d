/* Replies as JSON.
 *
 * A payload is whatever a client once sent, and told so that its bytes are known (wire/payload.h).
 * Records and maps are both objects. */
#include "door/json_reply.h"

#include "api/limits.h"
#include "wire/json.h"
#include "wire/payload.h"

static struct json_reply *of(struct reply *r)
{
        return CONTAINER_OF(r, struct json_reply, reply);
}

/* The body, ready for the next value. */
static struct buf *next(struct reply *r)
{
        struct json_reply *j = of(r);
        if (j->depth && (j->arrays & (1U << (j->depth - 1))))
                json_put_comma(j->body);
        return j->body;
}

static void put_null(struct reply *r)
{
        buf_put_str(next(r), "null");
}

static void put_boolean(struct reply *r, bool v)
{
        buf_put_str(next(r), v ? "true" : "false");
}

static void put_integer(struct reply *r, int64_t v)
{
        struct json_reply *j = of(r);
        if (!j->is_first_int_set) {
                j->is_first_int_set = true;
                j->first_int = v;
        }
        buf_put_i64(next(r), v);
}

static void put_text(struct reply *r, struct slice v)
{
        json_put_text_lossy(next(r), v);
}

/* Its name is written again, since the bytes decide which names they come under. */
static void put_payload(struct reply *r, struct slice v)
{
        struct json_reply *j = of(r);
        ASSERT(j->key); /* payloads are fields of a job */
        j->body->len = j->key_at;
        payload_put_json(j->body, slice_str(j->key), v, LIMIT_JSON_DEPTH);
}

static void put_ok(struct reply *r)
{
        buf_put_str(next(r), "{\"ok\":true}");
}

static void open_container(struct reply *r, bool is_array)
{
        struct json_reply *j = of(r);
        buf_put_byte(next(r), is_array ? '[' : '{');
        ASSERT(j->depth < 32);
        uint32_t bit = 1U << j->depth++;
        j->arrays = is_array ? j->arrays | bit : j->arrays & ~bit;
}

static void put_list(struct reply *r, size_t n)
{
        (void)n; /* JSON counts for itself */
        open_container(r, true);
}

static void put_map(struct reply *r, size_t n)
{
        (void)n;
        open_container(r, false);
}

static void put_key(struct reply *r, const char *name)
{
        struct json_reply *j = of(r);
        j->key = name;
        j->key_at = j->body->len;
        json_put_key(j->body, name);
}

static void put_end(struct reply *r)
{
        struct json_reply *j = of(r);
        ASSERT(j->depth > 0);
        j->depth--;
        buf_put_byte(j->body, j->arrays & (1U << j->depth) ? ']' : '}');
}

static void put_error(struct reply *r, const struct problem *problem)
{
        struct json_reply *j = of(r);
        j->err = problem->err;
        j->is_wrapped = false;
        buf_clear(j->body);
        json_put_problem(j->body, err_http(problem->err), problem);
}

static void put_wrap(struct reply *r, const char *name)
{
        struct json_reply *j = of(r);
        j->is_wrapped = true;
        buf_put_byte(j->body, '{');
        json_put_key(j->body, name);
}

static void put_again(struct reply *r)
{
        of(r)->is_again = true;
}

static const struct reply_ops ops = {
        .null = put_null,
        .boolean = put_boolean,
        .integer = put_integer,
        .text = put_text,
        .payload = put_payload,
        .ok = put_ok,
        .list = put_list,
        .map = put_map,
        .record = put_map,
        .key = put_key,
        .end = put_end,
        .error = put_error,
        .wrap = put_wrap,
        .again = put_again,
        .has_names = true,
};

void json_reply_init(struct json_reply *r, struct buf *body)
{
        *r = (struct json_reply){.reply = {&ops}, .body = body};
}

void json_reply_finish(struct json_reply *r)
{
        ASSERT(r->depth == 0);
        if (r->is_wrapped)
                buf_put_byte(r->body, '}');
        buf_put_byte(r->body, '\n'); /* for people with curl */
}

void json_put_problem(struct buf *b, int status, const struct problem *problem)
{
        buf_put_str(b, "{\"type\":\"urn:weir:error:");
        buf_put_str(b, err_name(problem->err));
        buf_put_str(b, "\",\"title\":");
        json_put_text(b, slice_str(err_text(problem->err)));
        buf_put_str(b, ",\"status\":");
        buf_put_i64(b, status);
        buf_put_str(b, ",\"code\":\"");
        buf_put_str(b, err_name(problem->err));
        buf_put_str(b, "\",\"detail\":");
        json_put_text_lossy(b, slice_str(problem->detail));
        buf_put_byte(b, '}');
}
