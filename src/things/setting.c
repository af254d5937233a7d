/* Settings that are changed while weir runs: set, taken back, and ended by themselves.  See
 * state/setting.h for what one is.  What follows from a change is up to the features. */
#include "things/setting.h"

int setting_admit(const struct core *core, struct problem *problem)
{
        if (core->state.things[THING_SETTING].len < LIMIT_SETTINGS)
                return OK;
        return problem_set(problem, ERR_LIMIT, "there are %d settings already", LIMIT_SETTINGS);
}

static void tell_change(struct core *core)
{
        const struct core_parts *parts = core->options.parts;
        for (size_t i = 0; i < parts->n_features; i++)
                if (parts->features[i]->settings_changed)
                        parts->features[i]->settings_changed(core);
}

struct slice setting_bytes(const struct core *core, struct slice name)
{
        const struct thing *t = thing_find(&core->state, THING_SETTING, name);
        return t ? buf_slice(&CONTAINER_OF(t, const struct setting, thing)->bytes) : SLICE_NONE;
}

void setting_set(struct core *core, struct slice name, int64_t until_ns, struct slice bytes)
{
        buf_clear(&core->packed);
        buf_put_varint(&core->packed, (uint64_t)until_ns);
        buf_put_slice(&core->packed, bytes);
        thing_set(core, THING_SETTING, name, buf_slice(&core->packed));
        tell_change(core);
}

bool setting_unset(struct core *core, struct slice name)
{
        struct thing *t = thing_find(&core->state, THING_SETTING, name);
        if (!t)
                return false;
        thing_gone(core, t);
        tell_change(core);
        return true;
}

void setting_due(struct core *core, struct thing *t)
{
        const struct core_parts *parts = core->options.parts;
        for (size_t i = 0; i < parts->n_features; i++)
                if (parts->features[i]->setting_ended)
                        parts->features[i]->setting_ended(core, thing_name(t));
        thing_gone(core, t);
}
