/* Bytes as the records of a batch, replayed into an empty state: whatever they say, nothing but
 * an error may come of it, and what was believed reads back the same. */
#include <stdint.h>
#include <stdlib.h>

#include "state/state.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_round_trip(const struct record *record, const struct effect *e)
{
        if (e->type == EFFECT_ARCHIVED)
                return; /* written from an array, read as packed bytes */
        struct buf b;
        buf_init(&b, 0);
        effect_write(&b, e);
        struct slice rest = buf_slice(&b);
        struct record again;
        struct effect same;
        struct problem problem;
        ASSERT(record_next(&rest, &again) == OK && again.type == record->type);
        ASSERT(effect_read(&again, &same, &problem) == OK);
        buf_release(&b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        struct state s;
        struct problem problem;
        uint64_t seq = 1;
        state_init(&s, 1, thing_kinds);
        s.is_replaying = true;
        /* type u8, length u16, body: the checksums of real records would stop the fuzzer early. */
        while (size >= 3) {
                size_t n = data[1] | (size_t)data[2] << 8;
                struct record record = {.type = data[0], .version = EFFECT_VERSION};
                struct effect e;
                data += 3;
                size -= 3;
                if (n > size)
                        n = size;
                record.body = slice_make(data, n);
                data += n;
                size -= n;
                if (effect_read(&record, &e, &problem) != OK)
                        continue;
                check_round_trip(&record, &e);
                int r = state_apply(&s, &e, seq++, &problem);
                (void)r; /* refusing is fine */
        }
        state_check(&s);
        int r = state_replay_end(&s, &problem);
        (void)r; /* a hole is fine */
        state_release(&s);
        return 0;
}
