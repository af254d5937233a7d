/* Which tier a hook has at a site.
 *
 * The registry knows the pattern that decides about a hook.  If the operator set that pattern, it
 * holds at the site.  Else the code of the site may decide, which its plugin tells (SITETIER), and
 * a default pattern comes last.
 *
 * What code tells is a setting "sitetier:SITE/HOOK" whose bytes are the name of the tier.  So it is
 * durable, and a change of it wakes the guard.  A look-up costs one more hash for each hook. */
#include <stdio.h>

#include "api/exec.h"
#include "api/params.h"
#include "api/replies.h"
#include "base/shown.h"
#include "sites/sites_state.h"
#include "things/setting.h"

#define SETTING_TIER "sitetier:"
#define TIER_NAME    (sizeof(SETTING_TIER) + SITE_NAME_MAX + 1 + SITE_HOOK_MAX)
#define CODE_NONE    TIERS /* the choice behind the tiers: code does not decide any more */

static struct slice code_tier_name(const struct site *s, struct slice hook, char room[TIER_NAME])
{
        int n = snprintf(room, TIER_NAME, SETTING_TIER "%s/%.*s", s->name, (int)hook.len, hook.ptr);
        return slice_make(room, (size_t)n);
}

int site_code_tier(const struct core *core, const struct site *s, struct slice hook)
{
        char room[TIER_NAME];
        if (hook.len > SITE_HOOK_MAX)
                return -1;
        return tier_from_name(setting_bytes(core, code_tier_name(s, hook, room)));
}

/* Did the operator set this pattern, on the way or in weir.conf? */
static bool is_by_operator(const struct core *core, struct slice pattern)
{
        const struct throttle *t = core->throttle;
        char room[sizeof(SETTING_REGISTRY) + REGISTRY_PATTERN_MAX];
        int n = snprintf(room, sizeof(room), SETTING_REGISTRY "%.*s", (int)pattern.len,
                         pattern.ptr);
        for (size_t i = 0; pattern.len && i < t->n_own; i++)
                if (slice_eq(t->own[i].pattern, pattern))
                        return true;
        return pattern.len && thing_find(&core->state, THING_SETTING, slice_make(room, (size_t)n));
}

enum tier site_tier(const struct core *core, const struct site *s, struct slice hook)
{
        struct slice pattern;
        enum tier tier = registry_explain(core->throttle->registry, hook, &pattern);
        int code = site_code_tier(core, s, hook);
        return code < 0 || is_by_operator(core, pattern) ? tier : (enum tier)code;
}

size_t site_code_tiers(const struct core *core, const struct site *s)
{
        const struct hash *all = &core->state.things[THING_SETTING];
        char room[TIER_NAME];
        struct slice prefix = code_tier_name(s, SLICE_LIT(""), room);
        size_t n = 0;
        for (struct hash_node *it = NULL; (it = hash_next(all, it));)
                n += it->key.len > prefix.len && !memcmp(it->key.ptr, prefix.ptr, prefix.len);
        return n;
}

static int admit_tier(struct core *core, const struct site *s, struct problem *problem)
{
        if (site_code_tiers(core, s) >= LIMIT_SITE_TIERS)
                return problem_set(problem, ERR_LIMIT,
                                   "the code of %s decides the tiers of %d hooks already", s->name,
                                   LIMIT_SITE_TIERS);
        int r = setting_admit(core, problem);
        return r == OK ? core_admit(core, TIER_NAME + 64, 0, problem) : r;
}

int exec_sitetier(struct core *core, struct session *session, const struct command *cmd,
                  struct reply *reply, struct problem *problem)
{
        (void)session; /* who may ask for a hook may tell of it */
        const struct arg *arg = cmd->arg;
        char room[TIER_NAME];
        struct slice hook = arg[P_SITETIER_HOOK].text;
        struct site *s = site_need(core, arg[P_SITETIER_NAME].text, problem);
        if (!s)
                return problem->err;
        int was = site_code_tier(core, s, hook), now = (int)arg[P_SITETIER_TIER].num;
        struct slice name = code_tier_name(s, hook, room);
        int r = was < 0 && now != CODE_NONE ? admit_tier(core, s, problem) : OK;
        if (r != OK)
                return r;
        if (now == CODE_NONE && setting_unset(core, name))
                throttle_tell(core, "site_tier", "%s: the registry decides about %s again", s->name,
                              SHOWN(hook));
        if (now != CODE_NONE && now != was) {
                const char *tier = tier_name((enum tier)now);
                setting_set(core, name, 0, slice_str(tier));
                throttle_tell(core, "site_tier", "%s: %s is %s by the code of the site", s->name,
                              SHOWN(hook), tier);
        }
        reply_ok(reply);
        return OK;
}
