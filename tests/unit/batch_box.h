/* Batches with two callbacks and jobs of one attempt, in a few words. */
#ifndef WEIR_TESTS_UNIT_BATCH_BOX_H
#define WEIR_TESTS_UNIT_BATCH_BOX_H

#include "check.h"

#include "core/kernel.h"
#include "state/batch.h"
#include "support/rig.h"

/* What the log holds must be what is true. */
static inline void restart_and_compare(struct rig *rig)
{
        rig_turn(rig);
        assert_true(rig_replays(rig));
        rig_turn(rig);
}

static inline const char *state_of(struct rig *rig, const char *name)
{
        return rig_do(rig, "BATCHSTATE", name);
}

/* Of the batch "b". */
static inline void batch_has(struct rig *rig, const char *part)
{
        has(state_of(rig, "b"), part);
}

static inline void make_with_callbacks(struct rig *rig, const char *name)
{
        assert_string_equal(rig_do(rig, "BATCH", name, "TITLE", "Import", "ONSUCCESS", "good",
                                   "SUCCESSARGS", "{\"ok\":1}", "ONDONE", "over", "DONEARGS", "d",
                                   "QUEUE", "calls", "PRIORITY", "7"),
                            "OK");
}

static inline void add(struct rig *rig, const char *name, const char *expected_id)
{
        assert_string_equal(
                rig_do(rig, "ENQUEUE", "h", "", "BATCH", name, "ATTEMPTS", "1", "QUEUE", "work"),
                expected_id);
}

/* The batch "b" with callbacks, and so many jobs in it, from id 1 on. */
static inline void init_with_jobs(struct rig *rig, uint64_t n)
{
        rig_init(rig);
        make_with_callbacks(rig, "b");
        for (uint64_t id = 1; id <= n; id++)
                add(rig, "b", rig_number(id));
}

#endif
