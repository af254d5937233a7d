/* What a job is to be, from its parameters: one table says where each goes. */
#include "api/command.h"
#include "api/params.h"
#include "state/backoff.h"

enum field_kind { FIELD_TEXT, FIELD_U8, FIELD_U16, FIELD_U32, FIELD_NUM };

static const struct {
        enum field_kind kind;
        bool is_option;
        size_t at;
} fields[N_ENQUEUE_PARAMS] = {
#define PLAIN(param, kind, field)  [param] = {kind, false, offsetof(struct job_spec, field)}
#define OPTION(param, kind, field) [param] = {kind, true, offsetof(struct job_spec, field)}
        PLAIN(P_ENQUEUE_HOOK, FIELD_TEXT, hook),
        PLAIN(P_ENQUEUE_ARGS, FIELD_TEXT, args),
        PLAIN(P_ENQUEUE_QUEUE, FIELD_TEXT, queue),
        PLAIN(P_ENQUEUE_GROUP, FIELD_TEXT, group),
        PLAIN(P_ENQUEUE_PRIORITY, FIELD_U8, priority),
        PLAIN(P_ENQUEUE_IN, FIELD_NUM, in_ms),
        PLAIN(P_ENQUEUE_AT, FIELD_NUM, at_ms),
        PLAIN(P_ENQUEUE_TIMEOUT, FIELD_U32, timeout_ms),
        PLAIN(P_ENQUEUE_ATTEMPTS, FIELD_U16, attempts),
        OPTION(P_ENQUEUE_BACKOFF, FIELD_TEXT, options.backoff),
        OPTION(P_ENQUEUE_MAXRUN, FIELD_NUM, options.maxrun_ms),
        OPTION(P_ENQUEUE_UNIQUE, FIELD_TEXT, options.unique),
        OPTION(P_ENQUEUE_SCOPE, FIELD_NUM, options.unique_scope),
        OPTION(P_ENQUEUE_UNIQUEFOR, FIELD_NUM, options.unique_ms),
        OPTION(P_ENQUEUE_CONFLICT, FIELD_NUM, conflict),
        OPTION(P_ENQUEUE_KEY, FIELD_TEXT, options.key),
        OPTION(P_ENQUEUE_KEYMAX, FIELD_NUM, options.key_max),
        OPTION(P_ENQUEUE_LIMIT, FIELD_TEXT, options.limit),
        OPTION(P_ENQUEUE_TARGET, FIELD_TEXT, options.target),
        OPTION(P_ENQUEUE_BATCH, FIELD_TEXT, options.batch),
        OPTION(P_ENQUEUE_AFTER, FIELD_TEXT, after),
        OPTION(P_ENQUEUE_WHEN, FIELD_NUM, options.when),
        OPTION(P_ENQUEUE_OTHERWISE, FIELD_NUM, options.otherwise),
        OPTION(P_ENQUEUE_EXPIRES, FIELD_NUM, expires_in),
        OPTION(P_ENQUEUE_RESULTFOR, FIELD_NUM, options.result_ms),
        OPTION(P_ENQUEUE_SIGNATURE, FIELD_TEXT, options.signature),
        OPTION(P_ENQUEUE_TIER, FIELD_NUM, options.tier),
#undef PLAIN
#undef OPTION
};

void job_spec_init(struct job_spec *spec)
{
        *spec = (struct job_spec){
                .queue = SLICE_LIT(JOB_QUEUE_DEFAULT),
                .priority = JOB_PRIORITY_DEFAULT,
                .attempts = JOB_ATTEMPTS_DEFAULT,
        };
}

int job_spec_set(struct job_spec *spec, size_t param, const struct arg *arg,
                 struct problem *problem)
{
        ASSERT(param < N_ENQUEUE_PARAMS);
        char *to = (char *)spec + fields[param].at;
        switch (fields[param].kind) {
        case FIELD_TEXT:
                *(struct slice *)to = arg->text;
                break;
        case FIELD_U8:
                *(uint8_t *)to = (uint8_t)arg->num;
                break;
        case FIELD_U16:
                *(uint16_t *)to = (uint16_t)arg->num;
                break;
        case FIELD_U32:
                *(uint32_t *)to = (uint32_t)arg->num;
                break;
        case FIELD_NUM:
                *(int64_t *)to = arg->num;
                break;
        }
        spec->has_options |= fields[param].is_option;
        if (param == P_ENQUEUE_TIER)
                spec->options.tier++; /* 0 is "as its hook is registered" */
        struct backoff ignored;       /* only whether it is one */
        return param == P_ENQUEUE_BACKOFF ? backoff_parse(arg->text, &ignored, problem) : OK;
}

static int check_options(const struct job_spec *spec, struct problem *problem)
{
        const struct job_options *o = &spec->options;
        const struct {
                bool is_wrong;
                const char *text;
        } rules[] = {
                {(o->unique_scope || o->unique_ms || spec->conflict) && !o->unique.len,
                 "scope, uniquefor and conflict need unique"},
                {(o->unique_scope == UNIQUE_AFTER) != (o->unique_ms > 0),
                 "scope after and uniquefor belong together"},
                {spec->conflict == CONFLICT_REPLACE && o->signature.len,
                 "conflict replace and signature: the holder would keep its old signature"},
                {o->key_max && !o->key.len, "keymax needs key"},
                {(o->when || o->otherwise) && !spec->after.len, "when and otherwise need after"},
        };
        for (size_t i = 0; i < ARRAY_LEN(rules); i++)
                if (rules[i].is_wrong)
                        return problem_set(problem, ERR_BADARG, "%s", rules[i].text);
        return OK;
}

int job_spec_finish(const struct job_spec *spec, struct problem *problem)
{
        if (!spec->hook.len)
                return problem_set(problem, ERR_BADARG, "hook is missing");
        if (spec->in_ms && spec->at_ms)
                return problem_set(problem, ERR_BADARG, "in and at cannot both be given");
        return spec->has_options ? check_options(spec, problem) : OK;
}
