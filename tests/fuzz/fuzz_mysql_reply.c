/* Any bytes as the replies of a MySQL server, whole and cut.
 *
 * The first byte says which replies are expected, the second which capabilities were agreed on, the
 * third how the stream is cut.  It is read once with everything there, once in two pieces and once
 * in many, each from memory of exactly its size: all must tell the same events at the same bytes.
 * What is told ends with a packet; what is broken or done stays so. */
#include <stdlib.h>

#include "wire/mysql_reply.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What came of a stream: events are hashed, so that two readings can be compared. */
struct outcome {
        uint64_t hash;
        size_t events;
        size_t used;
        struct mysql_reply r;
        enum mysql_event last;
};

static void mix(struct outcome *o, uint64_t value)
{
        for (int i = 0; i < 8; i++, value >>= 8)
                o->hash = (o->hash ^ (value & 0xff)) * 1099511628211ULL;
}

static void mix_event(struct outcome *o, enum mysql_event event)
{
        const struct mysql_reply *r = &o->r;
        o->events++;
        mix(o, event);
        mix(o, o->used);
        if (event == MYSQL_BROKEN)
                return;
        mix(o, r->rows);
        mix(o, r->affected);
        mix(o, r->status);
        mix(o, r->error);
        mix(o, r->statement_id);
        mix(o, (uint64_t)r->is_error << 1 | r->has_status);
        ASSERT(r->is_error || !r->error);
        ASSERT(r->has_status || !r->status);
}

/* What is over takes nothing more and says the same. */
static void check_over(struct mysql_reply *r, const uint8_t *bytes, size_t n, enum mysql_event was)
{
        enum mysql_event event;
        for (int i = 0; i < 2; i++) {
                ASSERT(mysql_reply_feed(r, bytes, n, &event) == 0);
                ASSERT(event == was);
        }
}

/* Feeds a piece; a reply that is done is followed by another of the same kind. */
static void feed(struct outcome *o, const uint8_t *piece, size_t n)
{
        uint8_t *copy = malloc(n ? n : 1);
        ASSERT(copy);
        memcpy(copy, piece, n);
        size_t at = 0;
        do {
                size_t used = mysql_reply_feed(&o->r, copy + at, n - at, &o->last);
                ASSERT(used <= n - at);
                ASSERT(o->last != MYSQL_NEEDS_MORE || used == n - at);
                at += used;
                o->used += used;
                if (o->last == MYSQL_NEEDS_MORE)
                        break;
                mix_event(o, o->last);
                if (o->last == MYSQL_BROKEN || o->last == MYSQL_REPLY_DONE)
                        check_over(&o->r, copy + at, n - at, o->last);
                if (o->last == MYSQL_REPLY_DONE)
                        mysql_reply_begin(&o->r, o->r.expect, o->r.caps);
        } while (at < n && o->last != MYSQL_BROKEN);
        free(copy);
}

struct stream {
        enum mysql_expect expect;
        uint64_t caps;
        const uint8_t *bytes;
        size_t n;
};

/* The first `first` bytes at once, then pieces of `step`. */
static struct outcome run(const struct stream *s, size_t first, size_t step)
{
        struct outcome o = {.hash = 14695981039346656037ULL};
        mysql_reply_begin(&o.r, s->expect, s->caps);
        size_t part = first;
        for (size_t at = 0; at < s->n && o.last != MYSQL_BROKEN; at += part, part = step) {
                if (part > s->n - at)
                        part = s->n - at;
                feed(&o, s->bytes + at, part);
        }
        return o;
}

/* An event is told where a packet ends that no other continues. */
static void check_ends(const struct stream *s)
{
        struct mysql_reply r;
        enum mysql_event event;
        size_t at = 0, end = 0;
        bool is_full = false;
        mysql_reply_begin(&r, s->expect, s->caps);
        for (;;) {
                at += mysql_reply_feed(&r, s->bytes + at, s->n - at, &event);
                if (event == MYSQL_NEEDS_MORE || event == MYSQL_BROKEN)
                        return;
                while (end < at) {
                        uint32_t len = mysql_length(s->bytes + end);
                        end += MYSQL_HEADER + len;
                        is_full = len == MYSQL_PAYLOAD_MAX;
                }
                ASSERT(end == at && !is_full);
                if (event == MYSQL_REPLY_DONE)
                        mysql_reply_begin(&r, s->expect, s->caps);
        }
}

static void check_same(const struct outcome *a, const struct outcome *b)
{
        ASSERT(a->events == b->events && a->hash == b->hash);
        ASSERT(a->used == b->used && a->last == b->last);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        static const uint64_t choices[] = {MYSQL_DEPRECATE_EOF, MARIADB_CACHE_METADATA,
                                           MARIADB_PROGRESS};
        if (size < 3)
                return 0;
        struct stream s = {
                .expect = data[0] % (MYSQL_EXPECT_LOGIN + 1), .bytes = data + 3, .n = size - 3};
        for (size_t i = 0; i < ARRAY_LEN(choices); i++)
                s.caps |= data[1] >> i & 1 ? choices[i] : 0;
        struct outcome whole = run(&s, s.n, s.n);
        struct outcome in_two = run(&s, 1 + data[2], s.n);
        struct outcome in_pieces = run(&s, 1, 1 + data[2] % 32);
        check_same(&whole, &in_two);
        check_same(&whole, &in_pieces);
        check_ends(&s);
        return 0;
}
