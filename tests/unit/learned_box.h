/* An archive that has learned, for the tests: values of a metric of the target "shop". */
#ifndef WEIR_TESTS_UNIT_LEARNED_BOX_H
#define WEIR_TESTS_UNIT_LEARNED_BOX_H

#include "core/tally.h"
#include "rollup_box.h"
#include "support/rig.h"

#define ROLL_MIN_MS 60000LL

static inline void put_values(struct rollup *r, const char *metric, float max)
{
        static char room[TALLY_METRIC_BYTES]; /* until the minute is packed */
        struct slice name = tally_metric_name(SLICE_LIT("shop"), slice_str(metric), room);
        minute_cell(r, TALLY_METRIC, name)->values =
                (struct tally_values){.n = 1, .min = max, .max = max, .sum = (double)max};
}

/* A minute of the archive, so many minutes ago. */
static inline void roll(struct rig *rig, int64_t ago, const char *metric, float max)
{
        struct rollup r;
        struct buf body = {0};
        minute_init(&r, rig->now.wall_ms / ROLL_MIN_MS - ago);
        put_values(&r, metric, max);
        rollup_pack(&r, &body);
        rig->archive.base.ops->roll(&rig->archive.base, buf_slice(&body));
        buf_release(&body);
        rollup_release(&r);
}

/* A value in each ten minutes of so many hours that are over. */
static inline void roll_hours(struct rig *rig, int hours, const char *metric, float max)
{
        int64_t behind = rig->now.wall_ms / ROLL_MIN_MS % 10;
        for (int i = 1; i <= hours * 6; i++)
                roll(rig, behind + 10 * i, metric, max);
}

#endif
