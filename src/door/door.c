/* What all connections of the server share: buffers, counters, the bound on their memory, and what
 * a reply waits for. */
#include "door/door_int.h"

/* A spare buffer begins with this much and is kept up to this much: 32 pipelined claims of small
 * jobs fit, and all spares together stay below 8 MiB. */
#define SPARE_FIRST_BYTES (16 * KIB)
#define SPARE_LAST_BYTES  (64 * KIB)
/* When clients hold half of what they may, unsent output of each is bounded by this: slow readers
 * are slowed down before any is cut. */
#define TIGHT_OUTPUT_BYTES (64 * KIB)

size_t server_output_max(const struct server *s)
{
        return s->counter[DOOR_CLIENT_BYTES] < s->client_bytes_max / 2 ? LIMIT_OUTPUT_BYTES
                                                                       : TIGHT_OUTPUT_BYTES;
}

int64_t server_tls_ends_ms(const struct server *s)
{
        return s->tls ? tls_ctx_ends_ms(tls_store_peek(s->tls)) : 0;
}

uint64_t server_seq_of(struct server *s, const struct command_def *def)
{
        if (!(def->flags & COMMAND_FREE))
                return core_reply_seq(s->core);
        loop_note_check(s->loop);
        return 0;
}

uint64_t server_late_seq(struct server *s, struct session *session)
{
        bool is_free = session->is_free;
        session->is_free = false;
        return is_free ? 0 : core_reply_seq(s->core);
}

struct buf server_take_buf(struct server *s)
{
        struct buf b;
        if (s->n_spare)
                return s->spare[--s->n_spare];
        buf_init(&b, 0);
        if (buf_reserve(&b, SPARE_FIRST_BYTES))
                return b;
        buf_clear(&b);
        return b;
}

void server_give_buf(struct server *s, struct buf *b)
{
        if (b->cap <= SPARE_LAST_BYTES && s->n_spare < SERVER_SPARE_BUFS && b->cap) {
                buf_clear(b);
                s->spare[s->n_spare++] = *b;
                buf_init(b, 0);
        } else {
                buf_release(b);
        }
}

size_t server_counters(const struct server *s, struct counter_row *ret, size_t max)
{
        static const struct counter_row rows[DOOR_COUNTERS] = {
#define X(id, name, kind, text) {name, kind, text, 0},
                DOOR_COUNTER_MAP(X)
#undef X
        };
        size_t n = max < DOOR_COUNTERS ? max : DOOR_COUNTERS;
        for (size_t i = 0; i < n; i++) {
                ret[i] = rows[i];
                ret[i].value = s->counter[i];
        }
        return n;
}
