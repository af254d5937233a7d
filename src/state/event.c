/* Events, packed and unpacked.  event.h draws the bytes.
 *
 * An event is a few bytes (a start is 5 and the worker's name), because a million running jobs
 * carry one each.  Times are kept as the distance from the job's creation: small, and zigzag
 * because a wall clock may have been set back in between.  The distance is taken modulo 2^64, so
 * that any two times round-trip and none overflows. */
#include "state/event.h"

static const char *const names[] = {
#define X(name, text) text,
        EVENT_MAP(X)
#undef X
};

const char *event_name(enum event_type type)
{
        ASSERT((unsigned)type < EVENT_COUNT);
        return names[type];
}

int event_from_name(struct slice name)
{
        for (int i = 0; i < EVENT_COUNT; i++)
                if (slice_eq(name, slice_str(names[i])))
                        return i;
        return -1;
}

static inline uint64_t zigzag_of(const struct event *e, int64_t created_ms)
{
        uint64_t distance = (uint64_t)e->wall_ms - (uint64_t)created_ms;
        uint64_t sign = (distance >> 63) ? UINT64_MAX : 0;
        return (distance << 1) ^ sign;
}

void event_pack(struct buf *b, const struct event *e, int64_t created_ms)
{
        ASSERT((unsigned)e->type < EVENT_COUNT);
        buf_put_byte(b, (char)e->type);
        buf_put_varint(b, zigzag_of(e, created_ms));
        buf_put_lv(b, e->worker);
        buf_put_lv(b, e->message);
}

bool event_next(struct slice *rest, int64_t created_ms, struct event *ret)
{
        if (!rest->len)
                return false;
        struct reader r = reader_make(*rest);
        uint8_t type = reader_u8(&r);
        uint64_t zigzag = reader_varint(&r);
        uint64_t distance = (zigzag >> 1) ^ (~(zigzag & 1) + 1);
        struct slice worker = reader_lv(&r);
        struct slice message = reader_lv(&r);
        if (r.failed || type >= EVENT_COUNT)
                return false;
        *ret = (struct event){
                .type = (enum event_type)type,
                .wall_ms = (int64_t)((uint64_t)created_ms + distance),
                .worker = worker,
                .message = message,
        };
        *rest = slice_make(r.at, reader_left(&r));
        return true;
}

static inline bool skip_byte(struct slice *rest, uint64_t byte)
{
        if (!rest->len || (unsigned char)*rest->ptr != byte)
                return false;
        rest->ptr++;
        rest->len--;
        return true;
}

static inline bool skip_varint(struct slice *rest, uint64_t v)
{
        for (; v >= 0x80; v >>= 7)
                if (!skip_byte(rest, (v & 0x7f) | 0x80))
                        return false;
        return skip_byte(rest, v);
}

static inline bool skip_lv(struct slice *rest, struct slice s)
{
        if (!skip_varint(rest, s.len) || rest->len < s.len ||
            !slice_eq(slice_make(rest->ptr, s.len), s))
                return false;
        *rest = slice_make(rest->ptr + s.len, rest->len - s.len);
        return true;
}

bool event_skip(struct slice *rest, const struct event *e, int64_t created_ms)
{
        return skip_byte(rest, e->type) && skip_varint(rest, zigzag_of(e, created_ms)) &&
               skip_lv(rest, e->worker) && skip_lv(rest, e->message);
}

size_t event_count(struct slice packed)
{
        struct event e;
        size_t n = 0;
        while (event_next(&packed, 0, &e))
                n++;
        return n;
}
