/* Settings that are changed while weir runs (state/setting.h). */
#ifndef WEIR_THINGS_SETTING_H
#define WEIR_THINGS_SETTING_H

#include "core/kernel.h"
#include "state/setting.h"

int setting_admit(const struct core *core, struct problem *problem) MUST_CHECK; /* one more? */
/* Ends by itself at until_ns (steady); 0: never. */
void setting_set(struct core *core, struct slice name, int64_t until_ns, struct slice bytes);
bool setting_unset(struct core *core, struct slice name); /* false: it was not set */
/* What was set under that name, borrowed; none: ptr is NULL. */
struct slice setting_bytes(const struct core *core, struct slice name);

#endif
