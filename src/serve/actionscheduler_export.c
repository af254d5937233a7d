/* Jobs and schedules become actions.
 *
 * An action is made on its way (guard/transfer.h), with a line in its log that names the job.  Then
 * the job is canceled in weir, if it is still pending; then the action is pending.  An export that
 * was killed in between left actions on their way: the next one asks weir for their jobs first.
 * That a job was canceled by the export is known from the idempotency key of that request for a
 * day, and from the events of the job for as long as weir keeps it.
 *
 * A schedule is paused before it is removed, so that its next slot is certain. */
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "cli/fields.h"
#include "cli/request.h"
#include "serve/actionscheduler_int.h"
#include "wire/json.h"

#define DEPTH_MAX  64
#define REASON_MAX (SITE_NAME_MAX + 80)
#define PAGE       "25" /* TRANSFER_ROWS */

static const char why_options[] = "a job with options that Action Scheduler does not have";
static const char why_started[] = "a job that started or ended meanwhile";

/* ---- what an action can have ---- */

static size_t count_characters(struct slice text)
{
        size_t n = 0;
        for (size_t i = 0; i < text.len; i++)
                n += ((unsigned char)text.ptr[i] & 0xC0) != 0x80;
        return n;
}

/* A mark of an import (actionscheduler_int.h): its kind and date.  False: it is none. */
static bool read_mark(struct slice key, char *ret_kind, int64_t *ret_date_s)
{
        const char *at = key.len ? memrchr(key.ptr, ':', key.len) : NULL;
        if (!at || key.len < strlen(MARK_PREFIX) ||
            memcmp(key.ptr, MARK_PREFIX, strlen(MARK_PREFIX)) != 0)
                return false;
        size_t left = (size_t)(key.ptr + key.len - at) - 1;
        *ret_kind = left > 1 ? at[1] : '\0';
        return left > 1 && strchr(MARK_KINDS, at[1]) != NULL &&
               slice_to_i64(slice_make(at + 2, left - 1), ret_date_s);
}

/* Hook and args, of a job or a schedule.  NULL: they fit. */
static const char *take_work(const struct moving *m, const struct value *v,
                             struct transfer_new *ret)
{
        struct json_value root;
        ret->hook = field_text(v, "hook");
        ret->args = field_text(v, "args");
        ret->group = field_text(v, "group");
        ret->priority = (int)field_int(v, "priority");
        if (!ret->args.len)
                ret->args = SLICE_LIT("[]");
        if (count_characters(ret->hook) > TRANSFER_HOOK_MAX)
                return "a hook of more than 191 characters";
        if (json_parse(ret->args, DEPTH_MAX, &root, NULL) != OK ||
            (root.type != JSON_ARRAY && root.type != JSON_OBJECT))
                return transfer_why_text(WHY_ARGS);
        bool is_long = ret->args.len > TRANSFER_ARGS_MAX;
        if (is_long && (!m->store.facts.has_extended_args ||
                        count_characters(ret->args) > TRANSFER_EXTENDED_MAX))
                return "args of more than 8000 characters";
        return NULL;
}

/* Options that change when or how often a job runs, and that an action cannot have. */
static bool has_foreign_options(const struct value *v)
{
        static const char *const names[] = {"limit",     "target",     "batch",     "maxrun",
                                            "maxrun_ms", "expires_ms", "signature", "after"};
        for (size_t i = 0; i < ARRAY_LEN(names); i++) {
                const struct value *f = value_get(v, names[i]);
                if (f && f->type != VALUE_NULL)
                        return true;
        }
        return false;
}

/* "wordpress:shop:v1:abc" is the unique key of an action of this site. */
static bool take_unique(const struct moving *m, struct slice unique, struct transfer_new *ret)
{
        char prefix[MARK_MAX];
        size_t len = (size_t)snprintf(prefix, sizeof(prefix), MARK_PREFIX "%s:", m->site->name);
        if (!unique.len)
                return true;
        if (!m->store.facts.has_unique_key || unique.len <= len ||
            memcmp(unique.ptr, prefix, len) != 0)
                return false;
        ret->unique_key = slice_make(unique.ptr + len, unique.len - len);
        return true;
}

/* NULL: it fits. */
static const char *take_job(const struct moving *m, const struct value *job,
                            struct transfer_new *ret)
{
        const struct value *options = value_get(job, "options");
        struct slice key = field_text(options, "key");
        int64_t due_s = field_int(job, "due_ms") / MS_PER_S, date_s = 0;
        bool is_made = field_text(options, "schedule").len > 0;
        char kind = '\0';
        if (key.len && !read_mark(key, &kind, &date_s))
                return why_options;
        if (has_foreign_options(options) || !take_unique(m, field_text(options, "unique"), ret))
                return why_options;
        if (!key.len)
                kind = field_int(job, "due_ms") <= field_int(job, "created_ms") ? 'a' : 's';
        ret->kind = kind == 'a' ? TRANSFER_ASYNC : TRANSFER_SIMPLE;
        /* One that was due when it came has the date of its action in its mark. */
        ret->date_s = date_s > 0 && date_s < due_s && !is_made ? date_s : due_s;
        return take_work(m, job, ret);
}

static const char *take_schedule(const struct moving *m, const struct value *v,
                                 struct transfer_new *ret)
{
        int64_t every_ms = field_int(v, "every_ms"), date_s;
        char kind;
        if (field_text(v, "cron").len)
                return "a schedule with a cron expression";
        if (!field_is(v, "state", "active") || !field_int(v, "next_ms"))
                return "a schedule that is not active";
        if (every_ms % MS_PER_S != 0)
                return "a schedule whose interval is not whole seconds";
        if (has_foreign_options(v) || field_int(v, "until_ms") ||
            (field_text(v, "key").len && !read_mark(field_text(v, "key"), &kind, &date_s)))
                return "a schedule with options that Action Scheduler does not have";
        ret->kind = TRANSFER_INTERVAL;
        ret->every_s = every_ms / MS_PER_S;
        ret->date_s = field_int(v, "next_ms") / MS_PER_S;
        return take_work(m, v, ret);
}

/* ---- one job ---- */

static void put_reason(const struct moving *m, uint64_t action, char ret[REASON_MAX])
{
        (void)snprintf(ret, REASON_MAX, "moved to Action Scheduler of %s as action %llu",
                       m->site->name, (unsigned long long)action);
}

/* Do the events of the job say that it was canceled for this action? */
static int was_canceled(struct moving *m, struct slice job, const char *reason, bool *ret,
                        struct problem *problem)
{
        const struct slice words[] = {SLICE_LIT("EVENTS"), job};
        const struct value *v;
        int r = client_call(&m->client, words, ARRAY_LEN(words), &v, problem);
        *ret = false;
        if (r == ERR_NOTFOUND)
                return OK;
        for (size_t i = 0; r == OK && i < list_len(v); i++)
                *ret |= field_is(&v->items[i], "message", reason);
        return r;
}

/* *ret: the job is canceled, and the action may run. */
static int cancel_job(struct moving *m, uint64_t action, struct slice job, bool *ret,
                      struct problem *problem)
{
        struct cli_request req;
        char reason[REASON_MAX], key[REASON_MAX];
        const struct value *v;
        put_reason(m, action, reason);
        (void)snprintf(key, sizeof(key), MARK_PREFIX "%s:export:%llu", m->site->name,
                       (unsigned long long)action);
        cli_request_init(&req, "IDEMPOTENT");
        cli_request_add_str(&req, key);
        cli_request_add_str(&req, "CANCEL");
        cli_request_add(&req, job);
        cli_request_add_str(&req, "PENDING");
        cli_request_add_str(&req, "REASON");
        cli_request_add_str(&req, reason);
        int r = client_call(&m->client, req.argv, req.argc, &v, problem);
        *ret = r == OK;
        if (r == ERR_STATE || r == ERR_NOTFOUND)
                return was_canceled(m, job, reason, ret, problem);
        return r;
}

/* ---- one schedule ---- */

static int call_named(struct moving *m, const char *command, struct slice name,
                      const struct value **ret, struct problem *problem)
{
        const struct slice words[] = {slice_str(command), name};
        return client_call(&m->client, words, ARRAY_LEN(words), ret, problem);
}

/* One that is gone was removed by the export that was interrupted. */
static int remove_schedule(struct moving *m, const struct transfer_new *made, struct slice name,
                           struct problem *problem)
{
        const struct value *v;
        int r = call_named(m, "PAUSESCHEDULE", name, &v, problem);
        if (r == OK)
                r = call_named(m, "SCHEDULED", name, &v, problem);
        if (r != OK)
                return r == ERR_NOTFOUND ? OK : r;
        int64_t last_s = field_int(v, "last_slot_ms") / MS_PER_S;
        int64_t every_s = field_int(v, "every_ms") / MS_PER_S;
        if (last_s >= made->date_s && every_s > 0) /* a slot came between */
                r = transfer_redate(&m->transfer, made->id, last_s + every_s, every_s, problem);
        return r == OK ? call_named(m, "UNSCHEDULE", name, &v, problem) : r;
}

/* ---- what is on its way ---- */

static bool take_word(struct slice *text, const char *word)
{
        size_t len = strlen(word);
        if (text->len < len || memcmp(text->ptr, word, len) != 0)
                return false;
        *text = slice_make(text->ptr + len, text->len - len);
        return true;
}

static int finish_one(struct moving *m, const struct transfer_new *made, struct problem *problem)
{
        struct transfer_end end = {.id = made->id, .is_back = true};
        struct slice name = made->source;
        uint64_t job = 0;
        int r = OK;
        bool is_job = take_word(&name, "job ") && slice_to_u64(name, &job);
        if (is_job)
                r = cancel_job(m, made->id, name, &end.is_back, problem);
        else if (take_word(&name, "schedule "))
                r = remove_schedule(m, made, name, problem);
        else
                end.is_back = false;
        if (r != OK)
                return r;
        if (!end.is_back)
                end.line = "weir: not moved, as its job started or ended in weir";
        r = transfer_finish(&m->transfer, &end, 1, problem);
        if (r != OK)
                return r;
        if (!end.is_back) {
                moving_leave(m, "job", job, slice_str(why_started));
                return OK;
        }
        m->jobs += is_job;
        m->schedules += !is_job;
        tally_add(&m->hooks, made->hook, "");
        return OK;
}

/* Everything that is on its way, also from an export that was interrupted. */
static int finish_made(struct moving *m, struct problem *problem)
{
        for (;;) {
                struct mysql_result rows CLEANUP(mysql_result_release) = {0};
                struct transfer_new made;
                int r = transfer_read_made(&m->transfer, &rows, problem);
                if (r != OK || !rows.n_rows)
                        return r;
                while (r == OK && transfer_next_made(&rows, &made))
                        r = finish_one(m, &made, problem);
                if (r != OK)
                        return r;
        }
}

/* ---- pages ---- */

struct page {
        struct transfer_new rows[TRANSFER_ROWS];
        char sources[TRANSFER_ROWS][300];
        uint64_t numbers[TRANSFER_ROWS]; /* of jobs */
        size_t n;
        struct buf cursor;
};

static void drop_row(struct page *p, size_t at)
{
        p->n--;
        memmove(p->rows + at, p->rows + at + 1, (p->n - at) * sizeof(p->rows[0]));
        memmove(p->numbers + at, p->numbers + at + 1, (p->n - at) * sizeof(p->numbers[0]));
}

/* Makes actions of what the page has; what the database refuses is left. */
static int move_page(struct moving *m, struct page *p, const char *what, struct problem *problem)
{
        for (size_t i = 0; m->is_dry && i < p->n; i++)
                tally_add(&m->hooks, p->rows[i].hook, "");
        while (!m->is_dry && p->n) {
                size_t bad = 0;
                int r = transfer_make(&m->transfer, p->rows, p->n, &bad, problem);
                if (r == OK)
                        return finish_made(m, problem);
                if (r != ERR_BADARG)
                        return r;
                moving_leave(m, what, p->numbers[bad], slice_str(problem->detail));
                drop_row(p, bad);
        }
        return OK;
}

static void add_row(struct page *p, const struct transfer_new *row, const char *source,
                    uint64_t number)
{
        p->rows[p->n] = *row;
        p->numbers[p->n] = number;
        (void)snprintf(p->sources[p->n], sizeof(p->sources[0]), "%s", source);
        p->rows[p->n].source = slice_str(p->sources[p->n]);
        p->n++;
}

static int move_page_of_jobs(struct moving *m, struct page *p, struct problem *problem)
{
        struct cli_request req;
        const struct value *v;
        cli_request_init(&req, "JOBS");
        cli_request_add_str(&req, "STATUS");
        cli_request_add_str(&req, "pending");
        cli_request_add_str(&req, "ORDER");
        cli_request_add_str(&req, "oldest");
        if (m->queue) {
                cli_request_add_str(&req, "QUEUE");
                cli_request_add_str(&req, m->queue);
        }
        cli_request_add_page(&req, PAGE, buf_slice(&p->cursor));
        int r = client_call(&m->client, req.argv, req.argc, &v, problem);
        if (r != OK)
                return r;
        const struct value *jobs = value_get(v, "jobs");
        buf_clear(&p->cursor);
        buf_put_slice(&p->cursor, field_text(v, "cursor"));
        p->n = 0;
        for (size_t i = 0; i < list_len(jobs) && p->n < TRANSFER_ROWS; i++) {
                struct transfer_new row = {0};
                char source[32];
                uint64_t id = (uint64_t)field_int(&jobs->items[i], "id");
                if (!moving_wants(m, field_text(&jobs->items[i], "hook")))
                        continue;
                const char *why = take_job(m, &jobs->items[i], &row);
                (void)snprintf(source, sizeof(source), "job %llu", (unsigned long long)id);
                if (why)
                        moving_leave(m, "job", id, slice_str(why));
                else
                        add_row(p, &row, source, id);
        }
        m->jobs += m->is_dry ? p->n : 0;
        return move_page(m, p, "job", problem);
}

/* The whole of one schedule; its name is in `name`. */
static int move_schedule(struct moving *m, struct page *p, struct slice name,
                         struct problem *problem)
{
        struct transfer_new row = {0};
        const struct value *v;
        char example[48];
        struct buf source CLEANUP(buf_release) = {0};
        int r = call_named(m, "SCHEDULED", name, &v, problem);
        if (r != OK)
                return r == ERR_NOTFOUND ? OK : r;
        if (!moving_wants(m, field_text(v, "hook")) ||
            (m->queue && !field_is(v, "queue", m->queue)))
                return OK;
        const char *why = take_schedule(m, v, &row);
        if (why) {
                (void)snprintf(example, sizeof(example), "%.*s", (int)name.len, name.ptr);
                tally_add(&m->left, slice_str(why), example);
                return OK;
        }
        buf_put_str(&source, "schedule ");
        buf_put_slice(&source, name);
        p->n = 0;
        add_row(p, &row, buf_cstr(&source), 0);
        m->schedules += m->is_dry;
        return move_page(m, p, "schedule", problem);
}

static int move_page_of_schedules(struct moving *m, struct page *p, struct problem *problem)
{
        struct cli_request req;
        const struct value *v;
        struct slice names[TRANSFER_ROWS];
        struct arena arena;
        size_t n = 0;
        cli_request_init(&req, "SCHEDULES");
        cli_request_add_page(&req, PAGE, buf_slice(&p->cursor));
        int r = client_call(&m->client, req.argv, req.argc, &v, problem);
        if (r != OK)
                return r;
        arena_init(&arena, MIB);
        const struct value *list = value_get(v, "schedules");
        for (size_t i = 0; i < list_len(list) && n < TRANSFER_ROWS; i++)
                names[n++] = arena_copy(&arena, field_text(&list->items[i], "name"));
        buf_clear(&p->cursor);
        buf_put_slice(&p->cursor, field_text(v, "cursor"));
        for (size_t i = 0; i < n && r == OK; i++)
                r = move_schedule(m, p, names[i], problem);
        arena_release(&arena);
        return r;
}

int moving_export(struct moving *m, struct problem *problem)
{
        struct page *p = xcalloc(1, sizeof(*p));
        int r = m->is_dry ? OK : finish_made(m, problem);
        /* Schedules first: jobs that they made until then are moved as jobs. */
        while (r == OK) {
                r = move_page_of_schedules(m, p, problem);
                if (!p->cursor.len)
                        break;
        }
        buf_clear(&p->cursor);
        while (r == OK) {
                r = move_page_of_jobs(m, p, problem);
                if (!p->cursor.len)
                        break;
        }
        buf_release(&p->cursor);
        free(p);
        return r;
}
