/* Names that a contract denies without a rule, as freno does "abusing-app": a client can try with
 * them what a refusal is like.
 *
 * The operator can remove such a name.  That it is removed is a setting "builtin:<name>" without an
 * end: durable, and there are as many of them as there are names. */
#include "checks/check.h"

#include <stdio.h>

#include "base/say.h"
#include "state/setting.h"
#include "things/setting.h"
#include "throttle/throttle_state.h"

#define SETTING_BUILTIN "builtin:"

#define NAME_ROOM       (sizeof(SETTING_BUILTIN) + LIMIT_NAME_BYTES)

static struct slice setting_name(const char *name, char room[NAME_ROOM])
{
        int n = snprintf(room, NAME_ROOM, SETTING_BUILTIN "%s", name);
        ASSERT(n > 0 && (size_t)n < NAME_ROOM);
        return slice_make(room, (size_t)n);
}

bool core_has_builtin(const struct core *core, const char *name)
{
        char room[NAME_ROOM];
        return !thing_find(&core->state, THING_SETTING, setting_name(name, room));
}

int core_remove_builtin(struct core *core, const char *name, struct problem *problem)
{
        char room[NAME_ROOM];
        struct slice setting = setting_name(name, room);
        if (!core_has_builtin(core, name))
                return OK;
        int r = setting_admit(core, problem);
        if (r == OK)
                r = core_admit(core, setting.len + 64, 0, problem);
        if (r != OK)
                return r;
        setting_set(core, setting, 0, SLICE_NONE);
        throttle_tell(core, "builtin_removed", "%s is not denied any more", name);
        say_info("gate", "builtin_removed", "name", name);
        return OK;
}
