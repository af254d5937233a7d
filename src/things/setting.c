/* Settings that are changed while weir runs: set, taken back, and ended by themselves.  See
 * state/setting.h for what one is, and throttle_refresh() for what follows from a change. */
#include "state/setting.h"
#include "base/say.h"
#include "throttle/host.h"
#include "throttle/throttle_int.h"

int setting_admit(const struct core *core, struct problem *problem)
{
        if (core->state.things[THING_SETTING].len < LIMIT_SETTINGS)
                return OK;
        return problem_set(problem, ERR_LIMIT, "there are %d settings already", LIMIT_SETTINGS);
}

void setting_set(struct core *core, struct slice name, int64_t until_ns, struct slice bytes)
{
        buf_clear(&core->packed);
        buf_put_varint(&core->packed, (uint64_t)until_ns);
        buf_put_slice(&core->packed, bytes);
        thing_set(core, THING_SETTING, name, buf_slice(&core->packed));
        throttle_refresh(core);
}

bool setting_unset(struct core *core, struct slice name)
{
        struct thing *t = thing_find(&core->state, THING_SETTING, name);
        if (!t)
                return false;
        thing_gone(core, t);
        throttle_refresh(core);
        return true;
}

void setting_due(struct core *core, struct thing *t)
{
        host_setting_ended(core, thing_name(t));
        if (slice_eq(thing_name(t), SLICE_LIT(SETTING_PAUSE))) {
                throttle_tell(core, "throttle_resumed", "the pause ended by itself");
                say_info("gate", "throttle_resumed", "by", "time");
        }
        thing_gone(core, t);
}
