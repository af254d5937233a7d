/* Rules over two targets, shop and files; and who is matched by which, in a few words. */
#ifndef WEIR_TESTS_UNIT_RULE_BOX_H
#define WEIR_TESTS_UNIT_RULE_BOX_H

#include "check.h"

#include <stdio.h>

#include "base/say.h"
#include "checks/rule.h"
#include "core/kernel.h"
#include "support/rig.h"

#define HOUR_MS      3600000LL
#define DAY_MS       (24 * HOUR_MS)
#define ok(rig, ...) assert_string_equal(rig_do(rig, __VA_ARGS__), "OK")

static const struct core_metric shop_metrics[] = {
        {.name = "replication_lag", .rule = {{5, 15}, {3, 10}, NS_PER_S, false}},
        {.name = "threads_running", .rule = {{5, 15}, {3, 10}, NS_PER_S, false}},
};
static const struct core_metric disk_metrics[] = {
        {.name = "disk_used", .rule = {{5, 15}, {3, 10}, NS_PER_S, false}},
};
static const struct core_target targets[] = {
        {.name = "shop", .metrics = shop_metrics, .n_metrics = 2, .mode = -1},
        {.name = "files", .metrics = disk_metrics, .n_metrics = 1, .mode = -1},
};

static inline void configure(struct rig *rig, const struct core_checks *checks)
{
        struct core_throttle options = {.targets = targets, .n_targets = 2, .checks = *checks};
        policy_init(&options.policy);
        core_set_throttle(rig->core, &options);
}

static inline void set_up(struct rig *rig)
{
        const struct core_checks checks = {.mode = MODE_ENFORCE};
        configure(rig, &checks);
}

static inline void init(struct rig *rig)
{
        say_setup(SAY_ERROR, false); /* each change is said: no news here */
        rig_init(rig);
        set_up(rig);
}

/* Replay must arrive at what is true now. */
static inline void restart(struct rig *rig)
{
        rig_turn(rig);
        assert_true(rig_replays(rig));
        set_up(rig);
}

static inline struct rule_match match(struct rig *rig, const char *who, const char *target)
{
        struct identity id;
        struct rule_match m;
        struct problem problem;
        assert_int_equal(identity_parse(slice_str(who), &id, &problem), OK);
        rule_match(rig->core, &id, slice_str(target), &m);
        return m;
}

/* Name and kind of the rule that decides, as "etl hold"; "" when there is none. */
static inline const char *decides(struct rig *rig, const char *who, const char *target)
{
        static char text[512];
        const struct rule *r = match(rig, who, target).share;
        if (!r)
                return "";
        (void)snprintf(text, sizeof(text), "%.*s %s", (int)r->who.len, r->who.ptr,
                       rule_kind_name(r->kind));
        return text;
}

static inline size_t n_rules(struct rig *rig)
{
        return rig->core->state.things[THING_RULE].len;
}

#endif
