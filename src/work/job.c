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
 * then where there is one maxrun_ms, and behind it traceparent */
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
        j->traceparent[0] = '\0';
        if (row->n > 13 && !copy_text(j->traceparent, sizeof(j->traceparent), &row->items[13]))
                j->traceparent[0] = '\0'; /* a later weir's: no job fails for its trace */
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

static void add_number(struct words *env, const char *name, int64_t value)
{
        char digits[24];
        (void)snprintf(digits, sizeof(digits), "%lld", (long long)value);
        env_add(env, name, digits);
}

char **job_env(const struct job *j, const char *url, const struct words *extra)
{
        struct words env;
        env_make(&env, extra);
        add_number(&env, "WEIR_JOB_ID", j->id);
        env_add(&env, "WEIR_HOOK", j->hook);
        env_add(&env, "WEIR_QUEUE", j->queue);
        env_add(&env, "WEIR_GROUP", j->group);
        add_number(&env, "WEIR_ATTEMPT", j->attempt);
        add_number(&env, "WEIR_ATTEMPTS", j->attempts);
        add_number(&env, "WEIR_PRIORITY", j->priority);
        add_number(&env, "WEIR_FENCE", j->fence);
        add_number(&env, "WEIR_LEASE_MS", j->lease_ms);
        env_add(&env, "WEIR_URL", url);
        if (j->traceparent[0])
                env_add(&env, "WEIR_TRACEPARENT", j->traceparent);
        if (j->traceparent[0] && !env_get(extra->argv, "TRACEPARENT"))
                env_add(&env, "TRACEPARENT", j->traceparent); /* what OpenTelemetry looks for */
        return env.argv;
}

void job_env_free(char **env)
{
        for (char **e = env; *e; e++)
                free(*e);
        free(env);
}
