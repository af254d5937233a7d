/* Settings end by themselves: see state/setting.h. */
#include "core/inside.h"

void setting_due(struct core *core, struct thing *t)
{
        thing_gone(core, t);
}
