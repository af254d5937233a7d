/* OpenAPI 3.1 from the rows of the command table, and of the pages of door/site.c.
 *
 * Each parameter becomes a path or query parameter or a property of the body, with its range; a
 * nested claim refers to the schema of CLAIM's body.  The description of a reply is the row's
 * sentence; its schema comes from api/replies.def.  `x-weir-role` is the role that a token needs.
 *
 * The answer of /v1/live has no schema of its own in OpenAPI 3.1: it is text, and `x-events` says
 * what the data of each event is. */
#include "door/openapi.h"

#include <stdio.h>

#include "api/command.h"
#include "api/limits.h"
#include "api/replies.h"
#include "door/login.h"
#include "door/shapes.h"
#include "door/site.h"
#include "state/job_view.h"
#include "wire/json.h"
#include "wire/payload.h"

#define RAW(b, text) buf_put_str((b), (text))

static bool is_in_body(const struct param_def *p)
{
        return !(p->flags & (PARAM_IN_PATH | PARAM_IN_QUERY));
}

static void put_string(struct buf *b, const char *key, const char *text)
{
        json_put_key(b, key);
        json_put_text(b, slice_str(text));
}

static void put_number(struct buf *b, const char *key, int64_t v)
{
        json_put_key(b, key);
        buf_put_i64(b, v);
}

static void put_status_schema(struct buf *b)
{
        put_string(b, "type", "string");
        json_put_key(b, "enum");
        buf_put_byte(b, '[');
        for (int i = 0; i < JOB_STATUS_COUNT; i++) {
                json_put_comma(b);
                json_put_text(b, slice_str(job_status_name((enum job_status)i)));
        }
        buf_put_byte(b, ']');
}

static void put_names_schema(struct buf *b, const struct param_def *p)
{
        put_string(b, "type", "array");
        put_number(b, "minItems", 1);
        put_number(b, "maxItems", p->max);
        json_put_key(b, "items");
        buf_put_byte(b, '{');
        put_string(b, "type", "string");
        put_number(b, "minLength", 1);
        put_number(b, "maxLength", LIMIT_NAME_BYTES);
        buf_put_byte(b, '}');
}

static void put_choice_schema(struct buf *b, const struct param_def *p)
{
        put_string(b, "type", "string");
        json_put_key(b, "enum");
        buf_put_str(b, "[\"");
        struct slice words = param_choices(p);
        for (size_t i = 0; i < words.len; i++) {
                if (words.ptr[i] == '|')
                        buf_put_str(b, "\",\"");
                else
                        buf_put_byte(b, words.ptr[i]);
        }
        buf_put_str(b, "\"]");
}

/* The members of a parameter's schema, without the braces. */
static void put_schema(struct buf *b, const struct param_def *p)
{
        switch (p->type) {
        case PARAM_NAME:
        case PARAM_TEXT:
                put_string(b, "type", "string");
                put_number(b, "minLength", p->min);
                put_number(b, "maxLength", p->max);
                break;
        case PARAM_INT:
        case PARAM_ID:
                put_string(b, "type", "integer");
                put_string(b, "format", "int64");
                put_number(b, "minimum", p->min);
                if (p->max != INT64_MAX)
                        put_number(b, "maximum", p->max);
                break;
        case PARAM_TOKEN:
                put_string(b, "type", "string");
                put_string(b, "pattern", "^[0-9a-fA-F]{32}$");
                break;
        case PARAM_STATUS:
                put_status_schema(b);
                break;
        case PARAM_NAMES:
                put_names_schema(b, p);
                break;
        case PARAM_CHOICE:
                put_choice_schema(b, p);
                break;
        case PARAM_FLAG:
                put_string(b, "type", "boolean");
                break;
        case PARAM_IDS:
                put_string(b, "type", "array");
                put_number(b, "minItems", 1);
                put_number(b, "maxItems", p->max);
                json_put_key(b, "items");
                buf_put_str(b, "{\"type\":\"integer\",\"format\":\"int64\",\"minimum\":1}");
                break;
        case PARAM_CLAIM:
                put_string(b, "$ref", "#/components/schemas/CLAIM");
                break;
        case PARAM_BYTES: /* any JSON value */
        case PARAM_JOBS:
                break;
        }
}

static void put_described_schema(struct buf *b, const struct param_def *p)
{
        buf_put_byte(b, '{');
        put_schema(b, p);
        json_put_key(b, "description");
        if (p->fallback) {
                struct buf text;
                buf_init(&text, 0);
                buf_printf(&text, "%s; default: %s", p->text, p->fallback);
                json_put_text(b, buf_slice(&text));
                buf_release(&text);
        } else {
                json_put_text(b, slice_str(p->text));
        }
        buf_put_byte(b, '}');
}

/* The other ways to send a payload: see wire/payload.h. */
static void put_payload_properties(struct buf *b, const struct param_def *p)
{
        RAW(b, ",\"");
        RAW(b, p->name);
        RAW(b, PAYLOAD_IS_TEXT "\":{\"type\":\"boolean\"");
        put_string(b, "description",
                   "true: the value is a string, and the payload is its text, without the quotes "
                   "that make it JSON");
        RAW(b, "},\"");
        RAW(b, p->name);
        RAW(b, PAYLOAD_BASE64 "\":{\"type\":\"string\",\"contentEncoding\":\"base64\"");
        put_string(b, "description", "the same for bytes that are no JSON");
        buf_put_byte(b, '}');
}

/* At most one of the two. */
static void put_pair_rule(struct buf *b, const char *one, const char *other)
{
        json_put_comma(b);
        RAW(b, "{\"not\":{\"required\":[");
        json_put_text(b, slice_str(one));
        buf_put_byte(b, ',');
        json_put_text(b, slice_str(other));
        RAW(b, "]}}");
}

/* A payload has one of two names, and is said to be text only under its own. */
static void put_payload_rules(struct buf *b, const struct param_def *p)
{
        char base64[64], is_text[64];
        (void)snprintf(base64, sizeof(base64), "%s" PAYLOAD_BASE64, p->name);
        (void)snprintf(is_text, sizeof(is_text), "%s" PAYLOAD_IS_TEXT, p->name);
        put_pair_rule(b, p->name, base64);
        RAW(b, ",{\"dependentRequired\":{");
        json_put_key(b, is_text);
        buf_put_byte(b, '[');
        json_put_text(b, slice_str(p->name));
        RAW(b, "]}}");
}

/* What cannot be said of one property alone: the names of a payload, and that some exclude each
 * other. */
static void put_rules(struct buf *b, const struct command_def *def)
{
        RAW(b, ",\"allOf\":[");
        size_t before = b->len;
        for (size_t i = 0; i < def->n_params; i++) {
                const struct param_def *p = &def->params[i];
                if (is_in_body(p) && p->type == PARAM_BYTES)
                        put_payload_rules(b, p);
                if (!is_in_body(p) || !(p->flags & PARAM_EXCLUSIVE))
                        continue;
                for (size_t k = 0; k < i; k++)
                        if (is_in_body(&def->params[k]) && def->params[k].flags & PARAM_EXCLUSIVE)
                                put_pair_rule(b, def->params[k].name, p->name);
        }
        if (b->len == before)
                b->len -= strlen(",\"allOf\":[");
        else
                buf_put_byte(b, ']');
}

/* An object of a command's body parameters. */
static void put_body_schema(struct buf *b, const struct command_def *def)
{
        RAW(b, "{\"type\":\"object\",\"additionalProperties\":false,\"properties\":{");
        for (size_t i = 0; i < def->n_params; i++) {
                const struct param_def *p = &def->params[i];
                if (!is_in_body(p))
                        continue;
                json_put_key(b, p->name);
                put_described_schema(b, p);
                if (p->type == PARAM_BYTES)
                        put_payload_properties(b, p);
        }
        RAW(b, "},\"required\":[");
        for (size_t i = 0; i < def->n_params; i++) {
                const struct param_def *p = &def->params[i];
                if (!is_in_body(p) || !param_is_needed(p))
                        continue;
                json_put_comma(b);
                json_put_text(b, slice_str(p->name));
        }
        buf_put_byte(b, ']');
        put_rules(b, def);
        buf_put_byte(b, '}');
}

/* Whether it has parameters in its body, of which these flags are set (0: any). */
static bool has_body(const struct command_def *def, unsigned flags)
{
        for (size_t i = 0; i < def->n_params; i++)
                if (is_in_body(&def->params[i]) && (def->params[i].flags & flags) == flags)
                        return true;
        return false;
}

static void put_request_body(struct buf *b, const struct command_def *def)
{
        RAW(b, ",\"requestBody\":{\"required\":");
        RAW(b, has_body(def, PARAM_REQUIRED) || has_body(def, PARAM_BARE_MS) ? "true" : "false");
        RAW(b, ",\"content\":{\"application/json\":{\"schema\":");
        bool is_enqueue = strcmp(def->name, "ENQUEUE") == 0;
        if (is_enqueue)
                RAW(b, "{\"oneOf\":[");
        RAW(b, "{\"$ref\":\"#/components/schemas/");
        RAW(b, def->name);
        RAW(b, "\"}");
        if (is_enqueue) {
                RAW(b, ",{\"type\":\"array\",\"minItems\":1");
                put_number(b, "maxItems", LIMIT_BULK_JOBS);
                RAW(b, ",\"items\":{\"$ref\":\"#/components/schemas/ENQUEUE\"}}]}");
        }
        RAW(b, "}}}");
}

/* What changes something takes an idempotency key. */
static void put_key_parameter(struct buf *b)
{
        json_put_comma(b);
        RAW(b, "{\"name\":\"Idempotency-Key\",\"in\":\"header\",\"required\":false,\"schema\":{"
               "\"type\":\"string\",\"minLength\":1");
        put_number(b, "maxLength", LIMIT_ANSWER_KEY_BYTES);
        put_string(b, "description",
                   "Carried out once: sent again with the same key within 24 h, the request "
                   "changes nothing and gets its first answer.");
        RAW(b, "}}");
}

static void put_trace_parameter(struct buf *b)
{
        json_put_comma(b);
        RAW(b, "{\"name\":\"traceparent\",\"in\":\"header\",\"required\":false,\"schema\":{"
               "\"type\":\"string\"");
        put_string(b, "description",
                   "The W3C trace context of jobs that name none; ignored when it is none.");
        RAW(b, "}}");
}

static void put_parameters(struct buf *b, const struct command_def *def)
{
        RAW(b, ",\"parameters\":[");
        for (size_t i = 0; i < def->n_params; i++) {
                const struct param_def *p = &def->params[i];
                if (is_in_body(p))
                        continue;
                json_put_comma(b);
                buf_put_byte(b, '{');
                put_string(b, "name", p->name);
                put_string(b, "in", p->flags & PARAM_IN_PATH ? "path" : "query");
                json_put_key(b, "required");
                RAW(b, p->flags & PARAM_REQUIRED ? "true" : "false");
                json_put_key(b, "schema");
                put_described_schema(b, p);
                buf_put_byte(b, '}');
        }
        if (def->flags & COMMAND_WRITE)
                put_key_parameter(b);
        if (def->id == CMD_ENQUEUE)
                put_trace_parameter(b);
        buf_put_byte(b, ']');
}

/* What an operation begins with: its method, its name, what it is for. */
static void put_head(struct buf *b, const char *verb, const char *name, const char *summary,
                     const char *tag)
{
        char method[8] = "";
        for (size_t i = 0; i < sizeof(method) - 1 && verb[i]; i++)
                method[i] = (char)(verb[i] | 0x20);
        json_put_key(b, method);
        buf_put_byte(b, '{');
        put_string(b, "operationId", name);
        put_string(b, "summary", summary);
        RAW(b, ",\"tags\":[");
        json_put_text(b, slice_str(tag));
        buf_put_byte(b, ']');
}

static void put_operation(struct buf *b, const struct command_def *def)
{
        put_head(b, def->method, def->name, def->summary, def->group);
        put_string(b, "x-weir-role", role_name(def->role));
        put_parameters(b, def);
        if (has_body(def, 0))
                put_request_body(b, def);
        RAW(b, ",\"responses\":{");
        json_put_key(b, strcmp(def->name, "ENQUEUE") == 0 ? "201" : "200");
        buf_put_byte(b, '{');
        put_string(b, "description", def->returns);
        RAW(b, ",\"content\":{\"application/json\":{\"schema\":");
        shape_put_schema(b, def->reply);
        RAW(b, "}}}");
        RAW(b, ",\"default\":{\"$ref\":\"#/components/responses/problem\"}}}");
}

/* All methods of the path of row `first`, which is the first with that path. */
static void put_path(struct buf *b, size_t first)
{
        const char *path = command_table[first].path;
        json_put_key(b, path);
        buf_put_byte(b, '{');
        for (size_t i = first; i < command_table_len; i++)
                if (command_table[i].path && strcmp(command_table[i].path, path) == 0)
                        put_operation(b, &command_table[i]);
        buf_put_byte(b, '}');
}

static bool is_first_of_path(size_t row)
{
        for (size_t i = 0; i < row; i++)
                if (command_table[i].path &&
                    strcmp(command_table[i].path, command_table[row].path) == 0)
                        return false;
        return true;
}

/* --- what the door answers by itself --------------------------------------------------------- */

static void put_page_request(struct buf *b, const struct site_page *page)
{
        RAW(b, ",\"parameters\":[");
        if (page->kind == SITE_LIVE) {
                RAW(b,
                    "{\"name\":\"Last-Event-ID\",\"in\":\"header\",\"required\":false,\"schema\":{"
                    "\"type\":\"string\"");
                put_string(b, "description",
                           "the id of the last event the listener has: those it missed come first");
                RAW(b, "}}");
        }
        buf_put_byte(b, ']');
        if (page->kind == SITE_LOGIN)
                RAW(b, ",\"requestBody\":{\"required\":true,\"content\":{\"application/json\":{"
                       "\"schema\":{\"$ref\":\"#/components/schemas/login\"}},"
                       "\"application/x-www-form-urlencoded\":{\"schema\":{\"$ref\":"
                       "\"#/components/schemas/login\"}}}}");
        if (page->is_open && (page->kind == SITE_TEXT || page->kind == SITE_LOGIN))
                RAW(b, ",\"security\":[{}]");
}

static void put_page_answer(struct buf *b, const struct site_page *page)
{
        RAW(b, ",\"responses\":{\"200\":{");
        put_string(b, "description", page->returns);
        if (page->kind == SITE_SESSION || page->kind == SITE_LOGIN || page->kind == SITE_LOGOUT)
                buf_printf(b,
                           ",\"headers\":{\"Set-Cookie\":{\"required\":%s,\"schema\":{"
                           "\"type\":\"string\"}}}",
                           page->kind == SITE_LOGOUT ? "true" : "false");
        json_put_key(b, "content");
        buf_put_byte(b, '{');
        json_put_key(b, page->content_type);
        RAW(b, "{\"schema\":");
        shape_put_schema(b, page->shape);
        if (page->kind == SITE_LIVE)
                RAW(b, ",\"x-events\":{\"now\":{\"$ref\":\"#/components/schemas/now\"},\"event\":{"
                       "\"$ref\":\"#/components/schemas/throttle_event\"}}");
        RAW(b, "}}}");
        for (const char *at = page->statuses; *at; at += strspn(at, " ")) {
                size_t len = strcspn(at, " ");
                bool is_wait = strncmp(at, "429", len) == 0;
                buf_printf(b, ",\"%.*s\":{\"$ref\":\"#/components/responses/%s\"}", (int)len, at,
                           is_wait ? "wait" : "problem");
                at += len;
        }
        RAW(b, ",\"default\":{\"$ref\":\"#/components/responses/problem\"}}");
}

static void put_page(struct buf *b, const struct site_page *page)
{
        json_put_key(b, page->path);
        buf_put_byte(b, '{');
        put_head(b, page->method, page->name, page->summary,
                 page->kind == SITE_TEXT ? "server" : "page");
        put_page_request(b, page);
        put_page_answer(b, page);
        RAW(b, "}}");
}

/* --- what they share ------------------------------------------------------------------------- */

#define PROBLEM_CONTENT                                                                            \
        "\"content\":{\"application/problem+json\":{\"schema\":{\"$ref\":"                         \
        "\"#/components/schemas/problem\"}}}"

static void put_security(struct buf *b, const char *cookie)
{
        RAW(b, "\"securitySchemes\":{\"token\":{\"type\":\"http\",\"scheme\":\"bearer\"},"
               "\"session\":{\"type\":\"apiKey\",\"in\":\"cookie\"");
        put_string(b, "name", cookie ? cookie : LOGIN_COOKIE "_00000000");
        put_string(b, "description",
                   "From POST /login. Every weir has digits of its own at the end of the name.");
        RAW(b, "},\"csrf\":{\"type\":\"apiKey\",\"in\":\"header\",\"name\":\"X-Weir-Csrf\"");
        put_string(b, "description",
                   "The csrf of /v1/session, which the cookie needs beside it for all that changes "
                   "something.");
        RAW(b, "}}");
}

static void put_components(struct buf *b, const char *cookie)
{
        RAW(b, "\"components\":{");
        put_security(b, cookie);
        RAW(b, ",\"responses\":{\"problem\":{\"description\":\"What was wrong.\"," PROBLEM_CONTENT
               "},\"wait\":{\"description\":\"What was wrong, and for how many seconds.\","
               "\"headers\":{\"Retry-After\":{\"required\":true,\"schema\":{\"type\":\"integer\"}}}"
               "," PROBLEM_CONTENT "}},\"schemas\":{\"problem\":{\"type\":\"object\","
               "\"additionalProperties\":false,\"properties\":{\"type\":{\"type\":\"string\"},"
               "\"title\":{\"type\":\"string\"},"
               "\"status\":{\"type\":\"integer\"},\"code\":{\"type\":\"string\",\"enum\":[");
#define X(name, http, exit, text)                                                                  \
        json_put_comma(b);                                                                         \
        json_put_text(b, slice_str(#name));
        ERR_MAP(X)
#undef X
        RAW(b, "]},\"detail\":{\"type\":\"string\"}},"
               "\"required\":[\"type\",\"title\",\"status\",\"code\",\"detail\"]},"
               "\"login\":{\"type\":\"object\",\"properties\":{\"token\":{\"type\":\"string\","
               "\"description\":\"the access token\"}},\"required\":[\"token\"]}");
        for (size_t i = 0; i < reply_shapes_len; i++) {
                if (!reply_shapes[i].is_component)
                        continue;
                json_put_key(b, reply_shapes[i].name);
                shape_put_schema(b, reply_shapes[i].text);
        }
        for (size_t i = 0; i < command_table_len; i++) {
                if (!command_table[i].path || !has_body(&command_table[i], 0))
                        continue;
                json_put_key(b, command_table[i].name);
                put_body_schema(b, &command_table[i]);
        }
        RAW(b, "}}");
}

void openapi_put(struct buf *ret, const char *version, const char *cookie)
{
        RAW(ret, "{\"openapi\":\"3.1.0\",\"info\":{\"title\":\"weir\",\"summary\":"
                 "\"A durable job queue.\",\"version\":");
        json_put_text(ret, slice_str(version));
        put_string(ret, "description",
                   "The addresses of freno and Vitess are not in here: docs/freno.md and "
                   "docs/vitess.md have them.");
        RAW(ret, "},\"security\":[{},{\"token\":[]},{\"session\":[],\"csrf\":[]}],\"paths\":{");
        for (size_t i = 0; i < command_table_len; i++)
                if (command_table[i].path && is_first_of_path(i))
                        put_path(ret, i);
        for (size_t i = 0; i < site_pages_len; i++)
                put_page(ret, &site_pages[i]);
        RAW(ret, "},");
        put_components(ret, cookie);
        buf_put_byte(ret, '}');
}
