/* What a command changed: the fields that a show command tells otherwise before and after it.
 *
 * Each noun has a command that shows it, found by the heading of the command and by what its first
 * argument is called.  The answers are made into JSON and compared field by field.  Both are taken
 * within the command, so nothing but the command can make a difference.  Payloads are left out:
 * they are large, and may hold what is not for operators. */
#include "base/shown.h"
#include "core/answer_tape.h"
#include "core/audit_int.h"
#include "wire/json.h"

#define DOC_BYTES   (8 * MIB) /* of an answer; the largest lists have 10,000 rows */
#define VALUE_BYTES 240       /* of one value that is kept */
#define DEPTH_MAX   32

struct audit_noun {
        const char *group;    /* heading of the command */
        const char *param;    /* name of its first parameter */
        enum command_id show; /* N_COMMANDS: its own answer says it */
        const char *row;      /* the show command is a list, and this key has the name; NULL: not */
        bool is_without_param; /* there is only one */
};

static const struct audit_noun nouns[] = {
        {"queues", "queue", CMD_QUEUE, NULL, false},
        {"queues", "name", CMD_CAPS, "name", false},
        {"limits", "name", CMD_USAGE, NULL, false},
        {"breakers", "name", CMD_BREAKERSTATE, NULL, false},
        {"schedules", "name", CMD_SCHEDULED, NULL, false},
        {"batches", "name", CMD_BATCHSTATE, NULL, false},
        {"locks", "name", CMD_LOCKED, NULL, false},
        {"jobs", "id", CMD_JOB, NULL, false},
        {"jobs", "status", N_COMMANDS, NULL, false},
        {"rules", "name", CMD_RULES, "name", false},
        {"throttle", "host", CMD_SKIPPEDHOSTS, "host", false},
        {"throttle", "pattern", CMD_REGISTRY, "pattern", false},
        {"throttle", "action", CMD_THROTTLESTATUS, NULL, true},
        {"settings", "name", CMD_SETTINGS, "name", false},
        {"settings", "dryrun", N_COMMANDS, NULL, false},
        {"tokens", "name", CMD_TOKENS, "name", false},
};

const struct audit_noun *audit_noun_of(const struct command_def *def)
{
        for (size_t i = 0; def->n_params && i < ARRAY_LEN(nouns); i++)
                if (strcmp(nouns[i].group, def->group) == 0 &&
                    strcmp(nouns[i].param, def->params[0].name) == 0)
                        return &nouns[i];
        return NULL;
}

bool audit_is_answer(const struct audit_noun *n)
{
        return n->show == N_COMMANDS;
}

/* ---- a reply as JSON ---- */

struct doc {
        struct reply reply;
        struct buf *b;
        unsigned depth;
        bool is_list[DEPTH_MAX];
        bool is_error;
};

static struct doc *of(struct reply *r)
{
        return CONTAINER_OF(r, struct doc, reply);
}

/* Before each value: in a list it may need a comma, behind a key it does not. */
static struct buf *begin_value(struct reply *r)
{
        struct buf *b = of(r)->b;
        if (b->len && b->ptr[b->len - 1] != ':')
                json_put_comma(b);
        return b;
}

static void doc_null(struct reply *r)
{
        buf_put_str(begin_value(r), "null");
}

static void doc_bool(struct reply *r, bool v)
{
        buf_put_str(begin_value(r), v ? "true" : "false");
}

static void doc_int(struct reply *r, int64_t v)
{
        buf_put_i64(begin_value(r), v);
}

static void doc_text(struct reply *r, struct slice v)
{
        json_put_text_lossy(begin_value(r), v);
}

static void doc_payload(struct reply *r, struct slice v)
{
        (void)v; /* not for this */
        doc_null(r);
}

static void doc_ok(struct reply *r)
{
        buf_put_str(begin_value(r), "{}");
}

static void open(struct reply *r, bool is_list)
{
        struct doc *d = of(r);
        buf_put_byte(begin_value(r), is_list ? '[' : '{');
        ASSERT(d->depth < DEPTH_MAX);
        d->is_list[d->depth++] = is_list;
}

static void doc_list(struct reply *r, size_t n)
{
        (void)n;
        open(r, true);
}

static void doc_map(struct reply *r, size_t n)
{
        (void)n;
        open(r, false);
}

static void doc_key(struct reply *r, const char *name)
{
        json_put_key(of(r)->b, name);
}

static void doc_end(struct reply *r)
{
        struct doc *d = of(r);
        ASSERT(d->depth);
        buf_put_byte(d->b, d->is_list[--d->depth] ? ']' : '}');
}

static void doc_error(struct reply *r, const struct problem *problem)
{
        (void)problem;
        of(r)->is_error = true;
}

static const struct reply_ops doc_ops = {
        .null = doc_null,
        .boolean = doc_bool,
        .integer = doc_int,
        .text = doc_text,
        .payload = doc_payload,
        .ok = doc_ok,
        .list = doc_list,
        .map = doc_map,
        .record = doc_map,
        .key = doc_key,
        .end = doc_end,
        .error = doc_error,
        .has_names = true,
};

/* ---- looking ---- */

void audit_show_init(struct audit_show *show, const struct audit_noun *n, const struct command *cmd)
{
        struct command *c = &show->command;
        show->noun = n;
        buf_init(&show->name, 0);
        buf_put_slice(&show->name, cmd->arg[0].text);
        struct arg first = cmd->arg[0];
        first.text = buf_slice(&show->name);
        command_init(c, &command_table[n->show]);
        int match = command_param(c->def, SLICE_LIT("match"));
        int limit = command_param(c->def, SLICE_LIT("limit"));
        if (n->row && match >= 0)
                c->arg[match] = first;
        else if (!n->row && !n->is_without_param)
                c->arg[0] = first;
        if (limit >= 0)
                c->arg[limit] = (struct arg){.is_set = true, .num = c->def->params[limit].max};
}

void audit_show_release(struct audit_show *show)
{
        buf_release(&show->name);
}

void audit_look(struct core *core, const struct audit_show *show, struct buf *ret)
{
        struct doc doc = {.reply = {&doc_ops}, .b = ret};
        struct session nobody = {0};
        struct problem ignored;
        enum command_id id = show->noun->show;
        buf_clear(ret);
        ret->max = DOC_BYTES;
        /* A job that is history is answered later: not for this. */
        if (id == CMD_JOB && !state_job(&core->state, (uint64_t)show->command.arg[0].num))
                return;
        int r = core->options.parts->execs[id](core, &nobody, &show->command, &doc.reply, &ignored);
        ASSERT(r != CORE_LATER);
        if (r != OK || doc.is_error || ret->failed)
                buf_clear(ret);
}

/* ---- comparing ---- */

static bool get_object(struct slice text, struct json_value *ret)
{
        struct problem ignored;
        return text.len && json_parse(text, DEPTH_MAX, ret, &ignored) == OK;
}

/* The rows of a list, or of the first list in a map. */
static bool get_rows(struct slice doc, struct json_value *ret)
{
        struct json_value root;
        struct json_iter it = {0};
        struct slice key;
        if (!get_object(doc, &root))
                return false;
        *ret = root;
        if (root.type == JSON_ARRAY)
                return true;
        while (json_object_next(&root, &it, &key, ret))
                if (ret->type == JSON_ARRAY)
                        return true;
        return false;
}

static bool has_row(const struct json_value *rows, struct slice text)
{
        struct json_value row;
        struct json_iter it = {0};
        while (rows && json_array_next(rows, &it, &row))
                if (slice_eq(row.text, text))
                        return true;
        return false;
}

/* The first row of that name that the other list does not have. */
static bool find_row(struct slice doc, struct slice other, const char *key, struct slice name,
                     struct json_value *ret)
{
        struct json_value rows, others, value;
        struct json_iter it = {0};
        struct buf wanted CLEANUP(buf_release) = {0};
        if (!get_rows(doc, &rows))
                return false;
        bool has_others = get_rows(other, &others);
        json_put_text_lossy(&wanted, name);
        while (json_array_next(&rows, &it, ret))
                if (json_get(ret, key, &value) && slice_eq(value.text, buf_slice(&wanted)) &&
                    !has_row(has_others ? &others : NULL, ret->text))
                        return true;
        return false;
}

/* As a field that is not there. */
static bool says_nothing(struct slice json)
{
        static const char *const nothing[] = {"null", "\"\"", "[]", "{}", "0", "false"};
        for (size_t i = 0; i < ARRAY_LEN(nothing); i++)
                if (slice_eq(json, slice_str(nothing[i])))
                        return true;
        return false;
}

/* A text is cut; of a long list no part says what changed in it. */
static void put_value(struct buf *b, struct slice json)
{
        struct buf room CLEANUP(buf_release) = {0};
        if (json.len <= VALUE_BYTES)
                buf_put_slice(b, json);
        else if (json.ptr[0] != '"')
                buf_put_str(b, "\"" SHOWN_DOTS "\"");
        else /* without the quotes; what is escaped in it stays so */
                json_put_text_lossy(
                        b, audit_cut(slice_make(json.ptr + 1, json.len - 2), VALUE_BYTES, &room));
}

/* A field, unless there is no room for it and the end. */
static bool put_field(struct buf *b, struct slice key, struct slice json)
{
        struct buf value CLEANUP(buf_release) = {0};
        put_value(&value, json);
        if (b->len + key.len + value.len + sizeof(",\"\":,\"cut\":true}") > AUDIT_CHANGE_BYTES) {
                buf_put_str(b, b->len > 1 ? ",\"cut\":true" : "\"cut\":true");
                return false;
        }
        buf_printf(b, "%s\"%.*s\":", b->len > 1 ? "," : "", (int)key.len, key.ptr);
        buf_put_slice(b, buf_slice(&value));
        return true;
}

/* What one of them says otherwise than the other; other == NULL: all it says. */
static void put_differences(const struct json_value *one, const struct json_value *other,
                            struct buf *ret)
{
        struct json_iter it = {0};
        struct slice key;
        struct json_value value, same;
        buf_clear(ret);
        if (!one || one->type != JSON_OBJECT)
                return;
        buf_put_byte(ret, '{');
        while (json_object_next(one, &it, &key, &value)) {
                struct buf name CLEANUP(buf_release) = {0};
                buf_put_slice(&name, key);
                bool is_there = other && json_get(other, buf_cstr(&name), &same);
                if (is_there ? slice_eq(same.text, value.text) : says_nothing(value.text))
                        continue;
                if (!put_field(ret, key, value.text))
                        break;
        }
        if (ret->len == 1)
                buf_clear(ret);
        else
                buf_put_byte(ret, '}');
}

void audit_diff(const struct audit_show *show, struct slice was, struct slice is,
                struct buf *ret_before, struct buf *ret_after)
{
        struct json_value a, b;
        const char *key = show->noun->row;
        struct slice name = buf_slice(&show->name);
        bool has_a = key ? find_row(was, is, key, name, &a) : get_object(was, &a);
        bool has_b = key ? find_row(is, was, key, name, &b) : get_object(is, &b);
        put_differences(has_a ? &a : NULL, has_b ? &b : NULL, ret_before);
        put_differences(has_b ? &b : NULL, has_a ? &a : NULL, ret_after);
}

void audit_put_answer(struct slice tape, struct buf *ret)
{
        struct buf text CLEANUP(buf_release) = {0};
        struct doc doc = {.reply = {&doc_ops}, .b = &text};
        struct json_value v;
        buf_clear(ret);
        if (tape_play(tape, &doc.reply) && get_object(buf_slice(&text), &v))
                put_differences(&v, NULL, ret);
}
