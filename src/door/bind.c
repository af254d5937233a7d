/* Binding JSON to the rows of the command table.
 *
 * The keys of a body are the names of the row's parameters, their types are the parameters'
 * types, and nothing else is taken: an unknown key is refused with the list of those that are
 * known, since a misspelled "prioriy" that is silently ignored is a wrong job.  A payload keeps
 * the exact bytes of its JSON value, unless NAME_is_text says that it is the text of a string;
 * other bytes come as NAME_base64 (wire/payload.h). */
#include "door/bind.h"

#include <stdio.h>
#include <string.h>

#include "api/limits.h"
#include "base/base64.h"
#include "base/shown.h"
#include "wire/http.h"
#include "wire/payload.h"

struct binding {
        struct arena *arena;
        struct command *cmd;
        struct problem *problem;
};

/* One place where a value can go: a parameter of a command, or of one job in an array. */
struct target {
        struct command *cmd;   /* or NULL: */
        struct job_spec *spec; /* then param is of ENQUEUE */
        const struct command_def *def;
        uint32_t seen;         /* bit per parameter */
        uint32_t seen_is_text; /* likewise, of NAME_is_text */
        /* A nested claim is bound when the object around it is done: claim_at is its place among
         * the parameters, or -1. */
        int claim_at;
        struct json_value claim;
};

static bool is_in_body(const struct param_def *p)
{
        return !(p->flags & (PARAM_IN_PATH | PARAM_IN_QUERY));
}

/* "queue, group, ..." of the parameters that may stand here. */
static int refuse_key(const struct command_def *def, bool is_query, struct slice key,
                      struct problem *problem)
{
        struct buf names;
        buf_init(&names, PROBLEM_DETAIL_MAX);
        for (size_t i = 0; i < def->n_params; i++) {
                const struct param_def *p = &def->params[i];
                if (is_query ? (p->flags & PARAM_IN_QUERY) != 0 : is_in_body(p))
                        buf_printf(&names, "%s%s", names.len ? ", " : "", p->name);
        }
        int r = problem_set(problem, ERR_BADARG, "'%s' is not known here; known are: %s",
                            SHOWN(key), names.len ? buf_cstr(&names) : "none");
        buf_release(&names);
        return r;
}

static int refuse_type(const struct param_def *p, const char *wanted, const struct json_value *v,
                       struct problem *problem)
{
        return problem_set(problem, ERR_BADARG, "%s must be %s, not %s", p->name, wanted,
                           json_type_name(v->type));
}

static int set_text(struct target *t, size_t param, struct slice text, struct problem *problem)
{
        return t->cmd ? command_set_text(t->cmd, param, text, problem)
                      : job_spec_set_text(t->spec, param, text, problem);
}

static int set_int(struct target *t, size_t param, int64_t v, struct problem *problem)
{
        return t->cmd ? command_set_int(t->cmd, param, v, problem)
                      : job_spec_set_int(t->spec, param, v, problem);
}

static int bind_text(const struct binding *b, struct target *t, size_t param,
                     const struct json_value *v)
{
        const struct param_def *p = &t->def->params[param];
        struct slice text;
        if (v->type != JSON_STRING)
                return refuse_type(p, "a string", v, b->problem);
        int r = json_to_text(v, b->arena, &text);
        if (r != OK)
                return problem_set(b->problem, r, "no memory for %s", p->name);
        return set_text(t, param, text, b->problem);
}

static int bind_int(const struct binding *b, struct target *t, size_t param,
                    const struct json_value *v)
{
        const struct param_def *p = &t->def->params[param];
        int64_t n;
        if (v->type != JSON_NUMBER)
                return refuse_type(
                        p, param_is_ms(p) ? "a whole number of milliseconds" : "a whole number", v,
                        b->problem);
        if (!json_to_i64(v, &n))
                return problem_set(b->problem, ERR_BADARG,
                                   "%s must be a whole number from %lld to %lld%s, not %s", p->name,
                                   (long long)p->min, (long long)p->max,
                                   param_is_ms(p) ? " ms" : "", SHOWN(v->text));
        return set_int(t, param, n, b->problem);
}

/* --- payloads ------------------------------------------------------------------------------- */

/* What a key says of its parameter. */
enum key_kind { KEY_VALUE, KEY_BASE64, KEY_IS_TEXT, KEY_KINDS };

static const char *const key_suffixes[KEY_KINDS] = {"", PAYLOAD_BASE64, PAYLOAD_IS_TEXT};

#define KEY_MAX 64 /* longer than every name of a payload with its suffix */

static struct slice key_of(const struct param_def *p, enum key_kind kind, char room[KEY_MAX])
{
        int n = snprintf(room, KEY_MAX, "%s%s", p->name, key_suffixes[kind]);
        ASSERT(n > 0 && n < KEY_MAX);
        return slice_make(room, (size_t)n);
}

/* A string is asked whether its text is meant: the key that says so may come before or after it. */
static int bind_payload(const struct binding *b, struct target *t, size_t param,
                        const struct json_value *v, const struct json_value *object)
{
        const struct param_def *p = &t->def->params[param];
        struct json_value is_text;
        char room[KEY_MAX];
        if (v->type == JSON_STRING &&
            json_get(object, key_of(p, KEY_IS_TEXT, room).ptr, &is_text) &&
            slice_eq(is_text.text, SLICE_LIT("true")))
                return bind_text(b, t, param, v);
        return set_text(t, param, v->text, b->problem);
}

static int bind_base64(const struct binding *b, struct target *t, size_t param,
                       const struct json_value *v)
{
        const struct param_def *p = &t->def->params[param];
        struct slice text;
        if (v->type != JSON_STRING)
                return problem_set(b->problem, ERR_BADARG,
                                   "%s" PAYLOAD_BASE64 " must be a string, not %s", p->name,
                                   json_type_name(v->type));
        int r = json_to_text(v, b->arena, &text);
        if (r == OK)
                r = base64_take(b->arena, text, &text);
        if (r == ERR_NOMEM)
                return problem_set(b->problem, r, "no memory for %s", p->name);
        if (r != OK)
                return problem_set(b->problem, r, "%s" PAYLOAD_BASE64 " is not padded base64",
                                   p->name);
        return set_text(t, param, text, b->problem);
}

/* What it says is done by bind_payload(): here is seen that it can be. */
static int check_is_text(const struct binding *b, struct target *t, size_t param,
                         const struct json_value *v, const struct json_value *object)
{
        const char *name = t->def->params[param].name;
        struct json_value payload;
        uint32_t bit = 1U << param;
        if (t->seen_is_text & bit)
                return problem_set(b->problem, ERR_BADARG, "%s" PAYLOAD_IS_TEXT " is given twice",
                                   name);
        t->seen_is_text |= bit;
        if (v->type != JSON_BOOL)
                return problem_set(b->problem, ERR_BADARG,
                                   "%s" PAYLOAD_IS_TEXT " must be true or false, not %s", name,
                                   json_type_name(v->type));
        if (!json_get(object, name, &payload))
                return problem_set(b->problem, ERR_BADARG,
                                   "%s is missing, of which %s" PAYLOAD_IS_TEXT " speaks", name,
                                   name);
        if (slice_eq(v->text, SLICE_LIT("true")) && payload.type != JSON_STRING)
                return problem_set(b->problem, ERR_BADARG,
                                   "%s must be a string where %s" PAYLOAD_IS_TEXT
                                   " is true, not %s",
                                   name, name, json_type_name(payload.type));
        return OK;
}

/* --- values --------------------------------------------------------------------------------- */

static int bind_names(const struct binding *b, struct target *t, size_t param,
                      const struct json_value *v)
{
        const struct param_def *p = &t->def->params[param];
        struct json_iter it = {0};
        struct json_value item;
        if (v->type != JSON_ARRAY)
                return refuse_type(p, "an array of strings", v, b->problem);
        size_t n = json_count(v), i = 0;
        if (n > (size_t)p->max)
                return problem_set(b->problem, ERR_TOOBIG, "%s takes 1 to %lld names, not %zu",
                                   p->name, (long long)p->max, n);
        struct slice *names = arena_array(b->arena, n + 1, sizeof(*names));
        if (!names)
                return problem_set(b->problem, ERR_NOMEM, "no memory for %s", p->name);
        while (json_array_next(v, &it, &item)) {
                if (item.type != JSON_STRING)
                        return refuse_type(p, "an array of strings", &item, b->problem);
                int r = json_to_text(&item, b->arena, &names[i++]);
                if (r != OK)
                        return problem_set(b->problem, r, "no memory for %s", p->name);
        }
        return command_set_names(t->cmd, param, names, n, b->problem);
}

/* An array of numbers becomes the text that RESP has: 1,2,3. */
static int bind_ids(const struct binding *b, struct target *t, size_t param,
                    const struct json_value *v)
{
        const struct param_def *p = &t->def->params[param];
        struct json_iter it = {0};
        struct json_value item;
        int64_t id;
        if (v->type != JSON_ARRAY)
                return refuse_type(p, "an array of job ids", v, b->problem);
        char *text = arena_alloc(b->arena, v->text.len + 1);
        size_t len = 0;
        if (!text)
                return problem_set(b->problem, ERR_NOMEM, "no memory for %s", p->name);
        while (json_array_next(v, &it, &item)) {
                if (item.type != JSON_NUMBER || !json_to_i64(&item, &id))
                        return refuse_type(p, "an array of job ids", &item, b->problem);
                if (len)
                        text[len++] = ',';
                memcpy(text + len, item.text.ptr, item.text.len);
                len += item.text.len;
        }
        return set_text(t, param, slice_make(text, len), b->problem);
}

static int bind_value(const struct binding *b, struct target *t, size_t param,
                      const struct json_value *v, const struct json_value *object)
{
        switch (t->def->params[param].type) {
        case PARAM_NAME:
        case PARAM_TEXT:
        case PARAM_TOKEN:
        case PARAM_STATUS:
        case PARAM_CHOICE:
                return bind_text(b, t, param, v);
        case PARAM_INT:
        case PARAM_ID:
                return bind_int(b, t, param, v);
        case PARAM_BYTES:
                return bind_payload(b, t, param, v, object);
        case PARAM_FLAG:
                if (v->type != JSON_BOOL)
                        return refuse_type(&t->def->params[param], "true or false", v, b->problem);
                return set_text(t, param, v->text, b->problem);
        case PARAM_IDS:
                return bind_ids(b, t, param, v);
        case PARAM_NAMES:
                return bind_names(b, t, param, v);
        case PARAM_CLAIM:
                t->claim_at = (int)param;
                t->claim = *v;
                return OK;
        case PARAM_JOBS:
                break;
        }
        return problem_set(b->problem, ERR_BADARG, "%s cannot be given here",
                           t->def->params[param].name);
}

/* The parameter a key means. */
static int find_param(const struct command_def *def, struct slice key, enum key_kind *ret_kind)
{
        char room[KEY_MAX];
        for (size_t i = 0; i < def->n_params; i++) {
                const struct param_def *p = &def->params[i];
                if (!is_in_body(p))
                        continue;
                *ret_kind = KEY_VALUE;
                if (json_key_is(key, slice_str(p->name)))
                        return (int)i;
                /* Nearly every key is another one's: that is seen before names are put together. */
                if (p->type != PARAM_BYTES || key.len <= strlen(p->name) ||
                    (key.ptr[0] != '\\' && key.ptr[0] != p->name[0]))
                        continue;
                for (enum key_kind k = KEY_BASE64; k < KEY_KINDS; k++) {
                        *ret_kind = k;
                        if (json_key_is(key, key_of(p, k, room)))
                                return (int)i;
                }
        }
        return -1;
}

/* --- objects -------------------------------------------------------------------------------- */

static int bind_member(const struct binding *b, struct target *t, struct slice key,
                       const struct json_value *v, const struct json_value *object)
{
        enum key_kind kind;
        int param = find_param(t->def, key, &kind);
        if (param < 0)
                return refuse_key(t->def, false, key, b->problem);
        if (kind == KEY_IS_TEXT)
                return check_is_text(b, t, (size_t)param, v, object);
        uint32_t bit = 1U << param;
        if (t->seen & bit)
                return problem_set(b->problem, ERR_BADARG, "%s is given twice",
                                   t->def->params[param].name);
        t->seen |= bit;
        return kind == KEY_BASE64 ? bind_base64(b, t, (size_t)param, v)
                                  : bind_value(b, t, (size_t)param, v, object);
}

static int bind_object(const struct binding *b, struct target *t, const struct json_value *object)
{
        struct json_iter it = {0};
        struct slice key;
        struct json_value v;
        while (json_object_next(object, &it, &key, &v)) {
                int r = bind_member(b, t, key, &v, object);
                if (r != OK)
                        return r;
        }
        return OK;
}

static int bind_claim(const struct binding *b, struct target *t)
{
        const struct command_def *def = command_find(SLICE_LIT("CLAIM"));
        struct command claim;
        struct target inner = {.cmd = &claim, .def = def, .claim_at = -1};
        if (t->claim.type != JSON_OBJECT)
                return refuse_type(&t->def->params[t->claim_at], "an object", &t->claim,
                                   b->problem);
        command_init(&claim, def);
        int r = bind_object(b, &inner, &t->claim);
        if (r == OK)
                r = command_finish(&claim, b->arena, b->problem);
        if (r != OK)
                return r;
        t->cmd->arg[t->claim_at].is_set = true;
        t->cmd->claim = claim.claim;
        t->cmd->has_claim = true;
        return OK;
}

/* --- many jobs ------------------------------------------------------------------------------ */

static int bind_spec(const struct binding *b, const struct command_def *enqueue,
                     const struct json_value *v, struct job_spec *spec)
{
        struct target t = {.spec = spec, .def = enqueue, .claim_at = -1};
        if (v->type != JSON_OBJECT)
                return problem_set(b->problem, ERR_BADARG, "a job must be an object, not %s",
                                   json_type_name(v->type));
        job_spec_init(spec);
        int r = bind_object(b, &t, v);
        for (size_t i = 0; r == OK && i < enqueue->n_params; i++)
                if (param_is_needed(&enqueue->params[i]) && !(t.seen & (1U << i)))
                        r = problem_set(b->problem, ERR_BADARG, "%s is missing",
                                        enqueue->params[i].name);
        return r == OK ? job_spec_finish(spec, b->problem) : r;
}

static int bind_jobs(const struct binding *b, const struct json_value *array)
{
        const struct command_def *enqueue = command_find(SLICE_LIT("ENQUEUE"));
        const struct command_def *many = command_find(SLICE_LIT("ENQUEUEMANY"));
        struct json_iter it = {0};
        struct json_value v;
        size_t n = json_count(array), i = 0;
        if (n == 0 || n > LIMIT_BULK_JOBS)
                return problem_set(b->problem, n ? ERR_TOOBIG : ERR_BADARG,
                                   "an array holds 1 to %d jobs, not %zu", LIMIT_BULK_JOBS, n);
        command_init(b->cmd, many);
        b->cmd->specs = arena_array(b->arena, n, sizeof(struct job_spec));
        if (!b->cmd->specs)
                return problem_set(b->problem, ERR_NOMEM, "no memory for %zu jobs", n);
        b->cmd->n_specs = n;
        b->cmd->arg[command_param(many, SLICE_LIT("jobs"))].is_set = true;
        for (; json_array_next(array, &it, &v); i++) {
                int r = bind_spec(b, enqueue, &v, &b->cmd->specs[i]);
                if (r != OK) {
                        struct problem inner = *b->problem;
                        return problem_set(b->problem, r, "job %zu: %s", i, inner.detail);
                }
        }
        return OK;
}

/* --- the whole ------------------------------------------------------------------------------ */

static int bind_body(const struct binding *b, const struct command_def *def, struct slice body)
{
        struct json_value root;
        struct target t = {.cmd = b->cmd, .def = def, .claim_at = -1};
        int r = json_parse(body, LIMIT_JSON_DEPTH, &root, b->problem);
        if (r != OK)
                return r;
        bool is_enqueue = strcmp(def->name, "ENQUEUE") == 0;
        if (root.type == JSON_ARRAY && is_enqueue)
                return bind_jobs(b, &root);
        if (root.type != JSON_OBJECT)
                return problem_set(b->problem, ERR_BADARG, "the body must be an object%s, not %s",
                                   is_enqueue ? " or an array of them" : "",
                                   json_type_name(root.type));
        r = bind_object(b, &t, &root);
        return r == OK && t.claim_at >= 0 ? bind_claim(b, &t) : r;
}

static int unescape(const struct binding *b, struct slice s, bool is_query, struct slice *ret)
{
        char *text = arena_alloc(b->arena, s.len + 1);
        size_t len;
        if (!text)
                return problem_set(b->problem, ERR_NOMEM, "no memory for this address");
        if (!http_unescape(s, is_query, text, &len))
                return problem_set(b->problem, ERR_BADARG, "'%s' is not percent-encoded rightly",
                                   SHOWN(s));
        *ret = slice_make(text, len);
        return OK;
}

static int bind_path(const struct binding *b, const struct command_def *def,
                     const struct bind_request *request)
{
        for (size_t i = 0; i < request->n_path; i++) {
                struct slice text = SLICE_NONE;
                int param = command_param(def, request->path[i].name);
                ASSERT(param >= 0); /* the path template and the parameters are one row */
                int r = unescape(b, request->path[i].value, false, &text);
                if (r == OK)
                        r = command_set_text(b->cmd, (size_t)param, text, b->problem);
                if (r != OK)
                        return r;
        }
        return OK;
}

static int bind_query(const struct binding *b, const struct command_def *def, struct slice query)
{
        struct slice raw_key, raw_value, key = SLICE_NONE, value = SLICE_NONE;
        while (http_query_next(&query, &raw_key, &raw_value)) {
                int r = unescape(b, raw_key, true, &key);
                if (r == OK)
                        r = unescape(b, raw_value, true, &value);
                if (r != OK)
                        return r;
                int param = command_param(def, key);
                if (param < 0 || !(def->params[param].flags & PARAM_IN_QUERY))
                        return refuse_key(def, true, key, b->problem);
                r = command_set_text(b->cmd, (size_t)param, value, b->problem);
                if (r != OK)
                        return r;
        }
        return OK;
}

int bind_command(const struct command_def *def, const struct bind_request *request,
                 struct arena *arena, struct command *ret, struct problem *problem)
{
        struct binding b = {arena, ret, problem};
        command_init(ret, def);
        if (request->has_body && strcmp(def->method, "POST") != 0)
                return problem_set(problem, ERR_BADARG, "%s here takes no body", def->method);
        int r = request->has_body ? bind_body(&b, def, request->body) : OK;
        if (r == OK)
                r = bind_path(&b, def, request);
        if (r == OK)
                r = bind_query(&b, def, request->query);
        return r == OK ? command_finish(ret, arena, problem) : r;
}
