/* A job's fields, and the two forms in which a handler sees them.
 *
 * The environment is made from nothing: what the worker was started with (access tokens, the
 * settings of an operator's shell) is no business of a job, and a command that runs the same
 * under a service manager and in a terminal is easier to trust. */
#include "work/job.h"

#include <stdio.h>
#include <stdlib.h>

void job_init(struct job *j)
{
        *j = (struct job){0};
        buf_init(&j->args, 0); /* the server bounds it */
}

void job_release(struct job *j)
{
        buf_release(&j->args);
}

static bool copy_text(char *to, size_t size, const struct value *v)
{
        struct slice s = value_text(v);
        if (s.len >= size)
                return false;
        if (s.len)
                memcpy(to, s.ptr, s.len);
        to[s.len] = '\0';
        return true;
}

/* id, token, hook, args, attempt, queue, group, priority, attempts, fence, lease_ms, created_ms,
 * and of a job with MAXRUN maxrun_ms */
bool job_read(struct job *j, const struct value *row)
{
        if (row->type != VALUE_LIST || row->n < 11)
                return false;
        j->id = value_int(&row->items[0], 0);
        j->attempt = value_int(&row->items[4], 0);
        j->priority = value_int(&row->items[7], 0);
        j->attempts = value_int(&row->items[8], 0);
        j->fence = value_int(&row->items[9], 0);
        j->lease_ms = value_int(&row->items[10], 0);
        j->maxrun_ms = row->n > 12 ? value_int(&row->items[12], 0) : 0;
        buf_clear(&j->args);
        buf_put_slice(&j->args, value_text(&row->items[3]));
        return j->id > 0 && j->lease_ms > 0 && !j->args.failed &&
               copy_text(j->token, sizeof(j->token), &row->items[1]) &&
               copy_text(j->hook, sizeof(j->hook), &row->items[2]) &&
               copy_text(j->queue, sizeof(j->queue), &row->items[5]) &&
               copy_text(j->group, sizeof(j->group), &row->items[6]);
}

void job_values(const struct job *j, struct job_values *ret)
{
        const int64_t numbers[] = {j->id, j->attempt, j->fence};
        for (size_t i = 0; i < ARRAY_LEN(numbers); i++)
                (void)snprintf(ret->digits[i], sizeof(ret->digits[i]), "%lld",
                               (long long)numbers[i]);
        const struct word_value all[JOB_VALUES] = {
                {"id", slice_str(ret->digits[0])},      {"hook", slice_str(j->hook)},
                {"queue", slice_str(j->queue)},         {"group", slice_str(j->group)},
                {"attempt", slice_str(ret->digits[1])}, {"fence", slice_str(ret->digits[2])},
        };
        for (size_t i = 0; i < JOB_VALUES; i++)
                ret->all[i] = all[i];
}

static char *env_entry(const char *name, const char *value)
{
        size_t len = strlen(name) + strlen(value) + 2;
        char *entry = xmalloc(len);
        (void)snprintf(entry, len, "%s=%s", name, value);
        return entry;
}

static char *env_number(const char *name, int64_t value)
{
        char digits[24];
        (void)snprintf(digits, sizeof(digits), "%lld", (long long)value);
        return env_entry(name, digits);
}

char **job_env(const struct job *j, const char *url, const struct words *extra)
{
        static const char *const kept[] = {"PATH", "LANG", "HOME"};
        size_t at = 0;
        char **env = xcalloc(ARRAY_LEN(kept) + extra->n + 11, sizeof(*env));
        for (size_t i = 0; i < ARRAY_LEN(kept); i++) {
                const char *value = getenv(kept[i]);
                if (value && !env_get(extra->argv, kept[i]))
                        env[at++] = env_entry(kept[i], value);
        }
        for (size_t i = 0; i < extra->n; i++)
                env[at++] = xstrdup(extra->argv[i]);
        env[at++] = env_number("WEIR_JOB_ID", j->id);
        env[at++] = env_entry("WEIR_HOOK", j->hook);
        env[at++] = env_entry("WEIR_QUEUE", j->queue);
        env[at++] = env_entry("WEIR_GROUP", j->group);
        env[at++] = env_number("WEIR_ATTEMPT", j->attempt);
        env[at++] = env_number("WEIR_ATTEMPTS", j->attempts);
        env[at++] = env_number("WEIR_PRIORITY", j->priority);
        env[at++] = env_number("WEIR_FENCE", j->fence);
        env[at++] = env_number("WEIR_LEASE_MS", j->lease_ms);
        env[at++] = env_entry("WEIR_URL", url);
        return env;
}

void job_env_free(char **env)
{
        for (char **e = env; *e; e++)
                free(*e);
        free(env);
}
