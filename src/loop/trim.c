#include "loop/trim.h"

bool trim_look(struct trim *t, uint64_t bytes, int64_t now_ns)
{
        if (!trim_note(t, bytes)) {
                t->fell_ns = 0;
                return false;
        }
        uint64_t fell = t->high_bytes - bytes;
        if (!t->fell_ns)
                t->fell_ns = now_ns;
        bool is_much = fell >= TRIM_BYTES && fell >= bytes / TRIM_SHARE;
        if (!is_much && now_ns - t->fell_ns < TRIM_LATE_NS)
                return false;
        t->high_bytes = bytes;
        t->fell_ns = 0;
        return true;
}
