/* Caps: set, listed, and asked by claims.  See state/cap.h. */
#include "things/cap.h"

#include "api/exec.h"
#include "api/params.h"
#include "api/replies.h"
#include "base/shown.h"
#include "state/cap.h"

/* Jobs let go per turn, so that one turn stays short. */
#define WAKE_STEPS 2000

static const struct cap *cap_of(const struct thing *t)
{
        return CONTAINER_OF(t, const struct cap, thing);
}

struct thing *cap_block(const struct core *core, const struct job *job)
{
        struct thing *key = job->extra ? job->extra->cap : NULL;
        if (key && cap_of(key)->n_running >= cap_max(key, job))
                return key;
        struct thing *group = cap_of_group(&core->state, job);
        if (group && cap_of(group)->max && cap_of(group)->n_running >= cap_of(group)->max)
                return group;
        return NULL;
}

/* A place was free for a second and those who were woken for it did not take it: they may be in
 * a queue that nobody claims from.  So more of the others are woken, until somebody does. */
void cap_due(struct core *core, struct thing *t)
{
        if (!t->waiting.len)
                return;
        const struct job *first = CONTAINER_OF(heap_peek(&t->waiting), struct job, node);
        if (cap_of(t)->n_running >= cap_max(t, first))
                return; /* woken by the next that ends */
        size_t n = 1 + t->waiting.len / 4;
        (void)state_unblock(&core->state, t, n < WAKE_STEPS ? n : WAKE_STEPS);
        thing_alarm(&core->state, t, core->now.steady_ns + CAP_RETRY_NS);
}

static int check_cap_name(struct slice name, struct problem *problem)
{
        const struct slice prefixes[] = {SLICE_LIT(CAP_KEY), SLICE_LIT(CAP_GROUP)};
        for (size_t i = 0; i < ARRAY_LEN(prefixes); i++)
                if (name.len > prefixes[i].len &&
                    memcmp(name.ptr, prefixes[i].ptr, prefixes[i].len) == 0)
                        return OK;
        return problem_set(problem, ERR_BADARG, "name must be key:NAME or group:NAME, not '%s'",
                           SHOWN(name));
}

int exec_cap(struct core *core, struct session *session, const struct command *cmd,
             struct reply *reply, struct problem *problem)
{
        (void)session; /* anybody may set it */
        struct slice name = cmd->arg[P_CAP_NAME].text;
        uint64_t max = (uint64_t)cmd->arg[P_CAP_MAX].num;
        const struct thing *old = thing_find(&core->state, THING_CAP, name);
        uint64_t weight = (uint64_t)cmd->arg[P_CAP_WEIGHT].num;
        if (!weight && old)
                weight = cap_of(old)->weight; /* what is not named stays as it is */
        int r = check_cap_name(name, problem);
        if (r == OK && !old && core->state.things[THING_CAP].len >= LIMIT_CAPS)
                r = problem_set(problem, ERR_LIMIT, "there are %d caps already", LIMIT_CAPS);
        if (r == OK && !(old && thing_is_durable(old))) /* else it takes the place of that one */
                r = core_admit(core, name.len + 32, 0, problem);
        if (r != OK)
                return r;
        buf_clear(&core->body);
        buf_put_varint(&core->body, max);
        buf_put_varint(&core->body, weight);
        thing_set(core, THING_CAP, name, buf_slice(&core->body));
        reply_ok(reply);
        return OK;
}

int exec_uncap(struct core *core, struct session *session, const struct command *cmd,
               struct reply *reply, struct problem *problem)
{
        (void)session; /* anybody may take it back */
        struct slice name = cmd->arg[P_UNCAP_NAME].text;
        struct thing *t = thing_find(&core->state, THING_CAP, name);
        if (!t || !thing_is_durable(t))
                return problem_set(problem, ERR_NOTFOUND, "there is no cap '%.*s'", (int)name.len,
                                   name.ptr);
        thing_gone(core, t);
        reply_ok(reply);
        return OK;
}

static void tell_cap(struct reply *reply, const struct thing *t)
{
        const struct cap *cap = cap_of(t);
        const struct cap_reply told = {
                .name = thing_name(t),
                .max = (int64_t)cap->max,
                .weight = (int64_t)(cap->weight ? cap->weight : 1),
                .running = (int64_t)cap->n_running,
                .waiting = t->waiting.len,
        };
        reply_cap(reply, &told);
}

/* Those that are set, and keys that keep somebody waiting: not every key of every job. */
static bool is_told(const struct thing *t, struct slice match)
{
        return (thing_is_durable(t) || t->waiting.len) && slice_contains(thing_name(t), match);
}

static void tell_caps(struct reply *reply, const struct reply_items *items)
{
        const struct hash *caps = &items->core->state.things[THING_CAP];
        size_t n = items->n;
        for (struct hash_node *it = NULL; n && (it = hash_next(caps, it));) {
                const struct thing *t = CONTAINER_OF(it, struct thing, node);
                if (!is_told(t, *(const struct slice *)items->of))
                        continue;
                tell_cap(reply, t);
                n--;
        }
}

int exec_caps(struct core *core, struct session *session, const struct command *cmd,
              struct reply *reply, struct problem *problem)
{
        (void)session; /* anybody may look */
        (void)problem;
        const struct hash *caps = &core->state.things[THING_CAP];
        const struct arg *match = &cmd->arg[P_CAPS_MATCH];
        struct slice text = match->is_set ? match->text : SLICE_NONE;
        size_t n = 0;
        for (struct hash_node *it = NULL; (it = hash_next(caps, it));)
                n += is_told(CONTAINER_OF(it, struct thing, node), text);
        if (n > LIMIT_CAPS)
                n = LIMIT_CAPS;
        const struct caps_reply told = {{n, tell_caps, core, &text}};
        reply_caps(reply, &told);
        return OK;
}
