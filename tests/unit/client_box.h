/* Asks with made-up verdicts, for the tests of those who ask: what decides is tested elsewhere. */
#ifndef WEIR_TESTS_UNIT_CLIENT_BOX_H
#define WEIR_TESTS_UNIT_CLIENT_BOX_H

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/say.h"
#include "checks/client_int.h"
#include "support/rig.h"
#include "throttle/throttle.h"

#define NONE   255
#define MINUTE 60000LL
#define HOUR   (60 * MINUTE)

static const struct core_metric metrics[] = {
        {.name = "threads_running", .rule = {{5, 15}, {3, 10}, 5 * NS_PER_S, false}},
        {.name = "replication_lag", .rule = {{5, 15}, {3, 10}, 5 * NS_PER_S, false}},
};
static const struct core_target targets[] = {
        {.name = "shop", .metrics = metrics, .n_metrics = 2, .dwell_ns = NS_PER_S, .mode = -1},
        {.name = "stock", .metrics = metrics, .n_metrics = 1, .dwell_ns = NS_PER_S, .mode = -1},
};

/* The wall stands at a full hour, so that minutes can be told. */
static inline void init(struct rig *rig)
{
        rig_init(rig);
        rig_set_gate(rig, targets, ARRAY_LEN(targets), MODE_OFF, MODE_OFF);
        rig->now.wall_ms -= rig->now.wall_ms % (24 * HOUR);
        rig_pass_ms(rig, 7 * HOUR);
}

static inline void release(struct rig *rig)
{
        clients_check(rig->core->clients);
        rig_release(rig);
}

static inline struct client_count counting(const struct check_verdict *verdict)
{
        return (struct client_count){
                .verdict = verdict, .metric = NONE, .address = SLICE_LIT("10.0.0.1")};
}

static inline void count_as(struct rig *rig, const char *name, const struct client_count *count)
{
        struct identity who;
        struct problem problem;
        assert_int_equal(identity_parse(slice_str(name), &who, &problem), OK);
        client_count(rig->core, client_get(rig->core, &who), count);
}

static inline void granted_on(struct rig *rig, const char *name, uint8_t target)
{
        struct check_verdict v = {.is_granted = true, .reason = CHECK_GRANTED, .value = -1};
        struct client_count count = counting(&v);
        count.target = target;
        count_as(rig, name, &count);
}

static inline void granted(struct rig *rig, const char *name)
{
        granted_on(rig, name, 0);
}

static inline void refused_for(struct rig *rig, const char *name, enum check_reason reason,
                               uint8_t metric)
{
        struct check_verdict v = {.reason = reason, .value = -1};
        struct client_count count = counting(&v);
        count.metric = metric;
        count_as(rig, name, &count);
}

static inline void refused(struct rig *rig, const char *name)
{
        refused_for(rig, name, CHECK_THRESHOLD, 1);
}

static inline void observed(struct rig *rig, const char *name)
{
        struct check_verdict v = {
                .is_granted = true, .would_refuse = true, .would_reason = CHECK_HOLD, .value = -1};
        struct client_count count = counting(&v);
        count_as(rig, name, &count);
}

#endif
