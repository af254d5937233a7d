/* Jobs as lines of JSON.
 *
 * The keys are those of POST /v1/jobs, and what is not known is refused by line number before
 * anything of its chunk is sent: a misspelled "prioriy" that is passed over is a wrong job, a
 * million times.  Ranges and choices are left to the server, which knows them. */
#include "cli/job_line.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/base64.h"
#include "base/bytes.h"
#include "base/shown.h"
#include "cli/interrupt.h"
#include "wire/json.h"

#define DEPTH_MAX  64 /* the server's limit */
#define READ_BYTES (256 * KIB)

enum key_kind { KEY_TEXT, KEY_INT, KEY_IDS, KEY_HOOK, KEY_ARGS, KEY_BASE64, KEY_IS_TEXT, KEY_TOLD };

/* The options of ENQUEUE by their types, and what an export tells beside them. */
static const struct {
        struct slice name, keyword;
        enum key_kind kind;
} keys[] = {
        {SLICE_LIT("hook"), SLICE_LIT(""), KEY_HOOK},
        {SLICE_LIT("args"), SLICE_LIT(""), KEY_ARGS},
        {SLICE_LIT("args_base64"), SLICE_LIT(""), KEY_BASE64},
        {SLICE_LIT("args_is_text"), SLICE_LIT(""), KEY_IS_TEXT},
#define KEY_OF_PARAM_NAME                          KEY_TEXT
#define KEY_OF_PARAM_TEXT                          KEY_TEXT
#define KEY_OF_PARAM_CHOICE                        KEY_TEXT
#define KEY_OF_PARAM_INT                           KEY_INT
#define KEY_OF_PARAM_IDS                           KEY_IDS
#define JOB_OPTION(p, name, how, field, type, ...) {SLICE_LIT(#name), SLICE_LIT(#p), KEY_OF_##type},
#include "api/job_options.def"
#define TOLD(name)                                                                                 \
        {                                                                                          \
                SLICE_LIT(name), SLICE_LIT(""), KEY_TOLD                                           \
        }
        TOLD("type"),
        TOLD("id"),
        TOLD("status"),
        TOLD("created_ms"),
        TOLD("due_ms"),
        TOLD("attempt"),
        TOLD("expires_ms"),
        TOLD("error"),
        TOLD("result"),
        TOLD("finished_ms"),
#undef TOLD
};

void job_line_init(struct job_line *l)
{
        *l = (struct job_line){0};
        buf_init(&l->options, 0);
        buf_init(&l->ties, 0);
        arena_init(&l->arena, 4 * LINE_MAX_BYTES);
}

void job_line_release(struct job_line *l)
{
        buf_release(&l->options);
        buf_release(&l->ties);
        arena_release(&l->arena);
}

/* ---- values ---- */

static int wrong_type(struct slice key, const char *wanted, const struct json_value *v,
                      struct problem *p)
{
        return problem_set(p, ERR_BADARG, "%.*s must be %s, not %s", (int)key.len, key.ptr, wanted,
                           json_type_name(v->type));
}

static int take_text(struct job_line *l, struct slice key, const struct json_value *v,
                     struct slice *ret, struct problem *p)
{
        if (v->type != JSON_STRING)
                return wrong_type(key, "a string", v, p);
        return json_to_text(v, &l->arena, ret) == OK
                       ? OK
                       : problem_set(p, ERR_NOMEM, "no memory for %.*s", (int)key.len, key.ptr);
}

/* The member `after`: [1, 2] as "1,2"; none: an empty text. */
static int take_ids(struct job_line *l, const struct json_value *v,
                    const struct job_line_rules *rules, struct slice *ret, struct problem *p)
{
        static const struct slice key = SLICE_LIT("after");
        struct json_iter it = {0};
        struct json_value item;
        struct buf text CLEANUP(buf_release) = {0};
        int64_t id;
        if (v->type != JSON_ARRAY)
                return wrong_type(key, "an array of ids", v, p);
        while (json_array_next(v, &it, &item)) {
                if (!json_to_i64(&item, &id) || id <= 0)
                        return wrong_type(key, "an array of ids", &item, p);
                if (rules->map_id)
                        id = (int64_t)rules->map_id(rules->ctx, (uint64_t)id);
                if (!id)
                        continue;
                buf_put_str(&text, text.len ? "," : "");
                buf_put_i64(&text, id);
        }
        *ret = text.len ? arena_copy(&l->arena, buf_slice(&text)) : SLICE_NONE;
        return ret->ptr || !text.len ? OK : problem_set(p, ERR_NOMEM, "no memory for a list");
}

static int take_base64(struct job_line *l, struct slice key, const struct json_value *v,
                       struct problem *p)
{
        struct slice text = SLICE_NONE;
        int r = take_text(l, key, v, &text, p);
        if (r != OK)
                return r;
        r = base64_take(&l->arena, text, &l->job.args);
        if (r != OK)
                return problem_set(p, r,
                                   r == ERR_NOMEM ? "no memory for args_base64"
                                                  : "args_base64 is not padded base64");
        return OK;
}

static void take_told(struct job_line *l, struct slice key, const struct json_value *v)
{
        int64_t n = 0;
        if (slice_eq(key, SLICE_LIT("id")) && json_to_i64(v, &n))
                l->id = (uint64_t)n;
        else if (slice_eq(key, SLICE_LIT("due_ms")) && json_to_i64(v, &n))
                l->due_ms = n;
        else if (slice_eq(key, SLICE_LIT("expires_ms")) && json_to_i64(v, &n))
                l->expires_ms = n;
        else if (slice_eq(key, SLICE_LIT("status")) && v->type == JSON_STRING)
                (void)!json_to_text(v, &l->arena, &l->status); /* else it is none we know */
}

static void put_words(struct buf *b, struct slice keyword, struct slice value)
{
        bulk_put_word(b, keyword);
        bulk_put_word(b, value);
}

static int take_member(struct job_line *l, size_t k, const struct json_value *v,
                       const struct job_line_rules *rules, struct problem *p)
{
        struct slice value = SLICE_NONE;
        struct buf *to = &l->options;
        int64_t number;
        int r = OK;
        switch (keys[k].kind) {
        case KEY_HOOK:
                return take_text(l, keys[k].name, v, &l->job.hook, p);
        case KEY_ARGS:
                l->job.args = v->text;
                return OK;
        case KEY_BASE64:
                return take_base64(l, keys[k].name, v, p);
        case KEY_IS_TEXT:
                l->is_text = slice_eq(v->text, SLICE_LIT("true"));
                return v->type == JSON_BOOL ? OK : wrong_type(keys[k].name, "true or false", v, p);
        case KEY_TOLD:
                take_told(l, keys[k].name, v);
                return OK;
        case KEY_TEXT:
                r = take_text(l, keys[k].name, v, &value, p);
                if (r == OK && slice_eq(keys[k].keyword, SLICE_LIT("BATCH")) &&
                    rules->keeps_batch && !rules->keeps_batch(rules->ctx, value))
                        return OK;
                if (slice_eq(keys[k].keyword, SLICE_LIT("WHEN")) ||
                    slice_eq(keys[k].keyword, SLICE_LIT("OTHERWISE")))
                        to = &l->ties;
                break;
        case KEY_INT:
                if (v->type != JSON_NUMBER || !json_to_i64(v, &number))
                        return wrong_type(keys[k].name, "a whole number", v, p);
                value = v->text;
                break;
        case KEY_IDS:
                r = take_ids(l, v, rules, &value, p);
                if (r == OK && !value.len)
                        return OK;
                l->has_after = true;
                break;
        }
        if (r == OK)
                put_words(to, keys[k].keyword, value);
        return r;
}

/* When all members are known: args_is_text may stand before the args or behind them. */
static int take_args_text(struct job_line *l, const struct json_value *root, struct problem *p)
{
        struct json_value args;
        if (!json_get(root, "args", &args))
                return problem_set(p, ERR_BADARG, "args is missing, of which args_is_text speaks");
        if (args.type != JSON_STRING)
                return problem_set(p, ERR_BADARG,
                                   "args must be a string where args_is_text is true, not %s",
                                   json_type_name(args.type));
        return take_text(l, SLICE_LIT("args"), &args, &l->job.args, p);
}

/* ---- lines ---- */

static size_t find_key(struct slice name, bool is_export)
{
        for (size_t k = 0; k < ARRAY_LEN(keys); k++)
                if (json_key_is(name, keys[k].name) && (is_export || keys[k].kind != KEY_TOLD))
                        return k;
        return ARRAY_LEN(keys);
}

bool job_line_has_key(struct slice name)
{
        size_t k = find_key(name, false);
        return k < ARRAY_LEN(keys) && keys[k].keyword.len;
}

static struct slice take_word(struct slice *words)
{
        size_t len = load_u32(words->ptr);
        struct slice word = slice_make(words->ptr + 4, len);
        *words = slice_make(words->ptr + 4 + len, words->len - 4 - len);
        return word;
}

/* What the command line said holds for lines that do not. */
static void put_defaults(struct job_line *l, struct slice defaults, uint64_t seen)
{
        while (defaults.len) {
                struct slice keyword = take_word(&defaults), value = take_word(&defaults);
                bool is_said = false;
                for (size_t k = 0; k < ARRAY_LEN(keys); k++)
                        is_said |= (seen >> k & 1) && slice_eq(keys[k].keyword, keyword);
                if (!is_said)
                        put_words(&l->options, keyword, value);
        }
}

static int take_members(struct job_line *l, const struct json_value *root,
                        const struct job_line_rules *rules, uint64_t *seen, struct problem *p)
{
        struct json_iter it = {0};
        struct json_value v;
        struct slice name;
        _Static_assert(ARRAY_LEN(keys) <= 64, "a bit for each key");
        while (json_object_next(root, &it, &name, &v)) {
                size_t k = find_key(name, rules->is_export);
                if (k == ARRAY_LEN(keys))
                        return problem_set(p, ERR_BADARG, "'%s' is not known in a job",
                                           SHOWN(name));
                if (*seen >> k & 1)
                        return problem_set(p, ERR_BADARG, "'%s' is there twice", SHOWN(name));
                *seen |= UINT64_C(1) << k;
                int r = take_member(l, k, &v, rules, p);
                if (r != OK)
                        return r;
        }
        return OK;
}

int job_line_parse(struct job_line *l, struct slice line, const struct job_line_rules *rules,
                   struct problem *p)
{
        struct json_value root;
        uint64_t seen = 0;
        arena_clear(&l->arena);
        buf_clear(&l->options);
        buf_clear(&l->ties);
        l->has_after = l->is_text = false;
        l->job = (struct bulk_job){.hook = rules->hook};
        l->id = 0;
        l->due_ms = l->expires_ms = 0;
        l->status = SLICE_NONE;
        int r = json_parse(line, DEPTH_MAX, &root, p);
        if (r != OK)
                return r;
        if (root.type != JSON_OBJECT)
                return problem_set(p, ERR_BADARG, "a job is an object, not %s",
                                   json_type_name(root.type));
        r = take_members(l, &root, rules, &seen, p);
        if (r == OK && l->is_text)
                r = take_args_text(l, &root, p);
        if (r != OK)
                return r;
        if (!l->job.hook.len)
                return problem_set(p, ERR_BADARG, "it has no hook");
        /* Without the jobs that it came after, how they must end means nothing. */
        if (l->has_after || !rules->map_id)
                buf_put_slice(&l->options, buf_slice(&l->ties));
        put_defaults(l, rules->defaults, seen);
        if (l->options.failed || l->ties.failed)
                return problem_set(p, ERR_NOMEM, "no memory for a job");
        l->job.options = buf_slice(&l->options);
        return OK;
}

void job_line_put(struct job_line *l, const char *keyword, int64_t value)
{
        char digits[24];
        int len = snprintf(digits, sizeof(digits), "%lld", (long long)value);
        put_words(&l->options, slice_str(keyword), slice_make(digits, (size_t)len));
        l->job.options = buf_slice(&l->options);
}

/* ---- the file ---- */

int line_reader_open(struct line_reader *r, const char *path, uint64_t *ret_size, struct problem *p)
{
        struct stat st;
        bool is_stdin = strcmp(path, "-") == 0;
        *r = (struct line_reader){.fd = is_stdin ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC)};
        if (r->fd < 0 || fstat(r->fd, &st) != 0)
                return problem_set(p, ERR_IO, "cannot read %s: %s", SHOWN_LONG(path),
                                   strerror(errno));
        if (S_ISDIR(st.st_mode)) {
                line_reader_close(r);
                return problem_set(p, ERR_IO, "%s is a folder", SHOWN_LONG(path));
        }
        buf_init(&r->bytes, 0);
        *ret_size = S_ISREG(st.st_mode) && st.st_size > 0 ? (uint64_t)st.st_size : 0;
        return OK;
}

void line_reader_close(struct line_reader *r)
{
        if (r->fd > STDIN_FILENO)
                (void)close(r->fd);
        r->fd = -1;
        buf_release(&r->bytes);
}

static int read_more(struct line_reader *r, struct problem *p)
{
        static const char mark[] = "\xef\xbb\xbf"; /* some editors begin a file with it */
        size_t mark_len = sizeof(mark) - 1;
        buf_drop_front(&r->bytes, r->at);
        r->at = 0;
        if (r->bytes.len > LINE_MAX_BYTES)
                return problem_set(p, ERR_TOOBIG, "line %llu is longer than %llu bytes",
                                   (unsigned long long)r->line + 1,
                                   (unsigned long long)LINE_MAX_BYTES);
        if (!buf_reserve(&r->bytes, READ_BYTES))
                return problem_set(p, ERR_NOMEM, "no memory for a line");
        int e = interrupt_wait(r->fd, p);
        if (e != OK)
                return e;
        ssize_t n;
        do
                n = read(r->fd, r->bytes.ptr + r->bytes.len, READ_BYTES);
        while (n < 0 && errno == EINTR);
        if (n < 0)
                return problem_set(p, ERR_IO, "cannot read on: %s", strerror(errno));
        r->bytes.len += (size_t)n;
        r->is_end = n == 0;
        if (!r->offset && !r->at && r->bytes.len >= mark_len &&
            memcmp(r->bytes.ptr, mark, mark_len) == 0)
                r->at = r->offset = mark_len;
        return OK;
}

int line_reader_next(struct line_reader *r, struct slice *ret, struct problem *p)
{
        size_t scanned = r->at;
        for (;;) {
                const char *from = r->bytes.ptr + r->at;
                size_t left = r->bytes.len - r->at;
                const char *end = left > scanned - r->at ? memchr(r->bytes.ptr + scanned, '\n',
                                                                  r->bytes.len - scanned)
                                                         : NULL;
                if (!end && !r->is_end) {
                        size_t seen = left;
                        int e = read_more(r, p);
                        if (e != OK)
                                return e;
                        scanned = r->at + seen;
                        continue;
                }
                if (!left)
                        return ERR_NOTFOUND;
                size_t len = end ? (size_t)(end - from) : left;
                r->at += len + (end ? 1 : 0);
                r->offset += len + (end ? 1 : 0);
                r->line++;
                scanned = r->at;
                *ret = slice_make(from, len);
                if (ret->len && ret->ptr[ret->len - 1] == '\r')
                        ret->len--;
                if (ret->len)
                        return OK;
        }
}
