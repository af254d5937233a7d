/* What a job is to be, from its parameters: one table says where each goes. */
#include "api/command.h"
#include "api/params.h"
#include "base/shown.h"
#include "state/backoff.h"
#include "wire/traceparent.h"

/* Where struct job_spec keeps each parameter of ENQUEUE. */
static const size_t places[N_ENQUEUE_PARAMS] = {
        [P_ENQUEUE_HOOK] = offsetof(struct job_spec, hook),
        [P_ENQUEUE_ARGS] = offsetof(struct job_spec, args),
#define PLACE_PLAIN(field)                   offsetof(struct job_spec, options.field)
#define PLACE_OWN(field)                     offsetof(struct job_spec, options.field)
#define PLACE_SPEC(field)                    offsetof(struct job_spec, field)
#define JOB_OPTION(p, name, how, field, ...) [P_ENQUEUE_##p] = PLACE_##how(field),
#include "api/job_options.def"
};

void job_spec_init(struct job_spec *spec)
{
        *spec = (struct job_spec){
                .queue = SLICE_LIT(JOB_QUEUE_DEFAULT),
                .priority = JOB_PRIORITY_DEFAULT,
                .attempts = JOB_ATTEMPTS_DEFAULT,
        };
}

static bool param_is_text(const struct param_def *p)
{
        return p->type == PARAM_NAME || p->type == PARAM_TEXT || p->type == PARAM_BYTES ||
               p->type == PARAM_IDS;
}

int job_spec_set(struct job_spec *spec, size_t param, const struct arg *arg,
                 struct problem *problem)
{
        ASSERT(param < N_ENQUEUE_PARAMS);
        char *to = (char *)spec + places[param];
        if (param_is_text(&command_table[CMD_ENQUEUE].params[param]))
                *(struct slice *)to = arg->text;
        else
                *(int64_t *)to = arg->num;
        spec->has_options |= places[param] > offsetof(struct job_spec, has_options);
        if (param == P_ENQUEUE_TIER)
                spec->options.tier++; /* 0 is "as its hook is registered" */
        struct backoff ignored;       /* only whether it is one */
        struct traceparent unused;    /* the same */
        if (param == P_ENQUEUE_TRACEPARENT && !traceparent_parse(arg->text, &unused))
                return problem_set(problem, ERR_BADARG, "traceparent must be %s, not '%s'",
                                   TRACEPARENT_FORM, SHOWN(arg->text));
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
