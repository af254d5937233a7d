/* Finished jobs to the bytes of a block.
 *
 * block_maker_add() only fills arrays and looks names up; block_maker_end() goes through one array
 * after the other.  Names are found in an open-addressing table with a secret seed, since clients
 * choose them; before that, by their address, since jobs share the bytes of their names. */
#include "history/block.h"

#include <lz4.h>
#include <stdlib.h>

#include "base/crc.h"
#include "base/rand.h"
#include "history/block_int.h"
#include "history/events_json.h"

/* Jobs are added to all columns at once: at a distance of 4 KiB they would share a set of the
 * first cache. */
#define PITCH        (BLOCK_JOBS + 8)
#define NAME_SLOTS   4096 /* a power of two, at most half full */
#define SEEN_SLOTS   1024 /* a power of two */
#define ACCELERATION 2    /* 3 % larger than 1 with JSON; random texts take a quarter less time */
#define KEEP_BYTES   (4 * MIB)              /* a larger buffer is not kept for the next block */
#define HEAD_BYTES   (8 * KIB)              /* more than a head of no job has */
#define JOB_BYTES    ((size_t)COLUMNS * 10) /* no job takes more of it, without its names */
#define NAME_BYTES   10                     /* nor does a name, without its bytes */

struct block_maker {
        size_t n;
        size_t text_bytes, name_bytes;
        uint64_t first_id, first_created, first_fence;
        uint64_t last_id, last_created, last_started, last_fence;
        uint64_t seed;
        size_t n_names;
        uint16_t slots[NAME_SLOTS]; /* of `names`, by their bytes; 0 is a free slot */
        uint16_t seen[SEEN_SLOTS];  /* of `names`, by their address, the last one that was found */
        uint64_t hashes[NAMES_MAX];
        struct slice names[NAMES_MAX]; /* the first is empty */
        uint64_t name_lengths[NAMES_MAX];
        uint64_t columns[COLUMNS][PITCH];
        const char *texts[TEXTS][PITCH]; /* not set where the length is 0 */
        struct buf head, body, out;
};

struct block_maker *block_maker_new(void)
{
        struct block_maker *m = xcalloc(1, sizeof(*m));
        struct rng rng;
        rng_init_system(&rng);
        m->seed = rng_u64(&rng);
        m->n_names = 1;
        return m;
}

struct block_maker *block_maker_free(struct block_maker *m)
{
        if (m) {
                buf_release(&m->head);
                buf_release(&m->body);
                buf_release(&m->out);
                free(m);
        }
        return NULL;
}

size_t block_maker_len(const struct block_maker *m)
{
        return m->n;
}

size_t block_maker_raw_bytes(const struct block_maker *m)
{
        return m->n ? HEAD_BYTES + m->n * JOB_BYTES + m->name_bytes + m->text_bytes : 0;
}

void block_maker_clear(struct block_maker *m)
{
        m->n = 0;
        m->text_bytes = 0;
        m->name_bytes = 0;
        m->n_names = 1;
        memset(m->slots, 0, sizeof(m->slots));
        memset(m->seen, 0, sizeof(m->seen));
}

static inline uint64_t fold(uint64_t a, uint64_t b)
{
        unsigned __int128 product = (unsigned __int128)a * b;
        return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static uint64_t hash_name(uint64_t seed, struct slice s)
{
        uint64_t h = seed ^ s.len;
        uint64_t last = 0;
        size_t left = s.len;
        const char *p = s.ptr;
        for (; left >= sizeof(last); p += sizeof(last), left -= sizeof(last))
                h = fold(h ^ load_u64(p), 0x9e3779b97f4a7c15ULL);
        if (s.len >= sizeof(last))
                last = load_u64(s.ptr + s.len - sizeof(last)); /* some of it once more */
        else
                memcpy(&last, p, left);
        return fold(h ^ last, 0xd6e8feb86659fd93ULL);
}

/* The index of the name, which is added if it is new. */
static uint16_t find_bytes(struct block_maker *m, struct slice name)
{
        uint64_t hash = hash_name(m->seed, name);
        size_t at = hash % NAME_SLOTS;
        for (; m->slots[at]; at = (at + 1) % NAME_SLOTS) {
                uint16_t i = m->slots[at];
                if (m->hashes[i] == hash && slice_eq(m->names[i], name))
                        return i;
        }
        uint16_t i = (uint16_t)m->n_names++;
        m->slots[at] = i;
        m->hashes[i] = hash;
        m->names[i] = name;
        m->name_bytes += name.len + NAME_BYTES;
        return i;
}

/* The same.  Jobs share the bytes of their names, and those stay as long as the block is made: the
 * same place and length is the same name. */
static inline uint16_t find_name(struct block_maker *m, struct slice name)
{
        if (!name.len)
                return 0;
        uintptr_t address = (uintptr_t)name.ptr;
        uint16_t *seen = &m->seen[(address >> 4 ^ address >> 14) % SEEN_SLOTS];
        const struct slice *known = &m->names[*seen];
        if (known->ptr != name.ptr || known->len != name.len)
                *seen = find_bytes(m, name);
        return *seen;
}

static void add_text(struct block_maker *m, enum text text, struct slice s)
{
        m->columns[HEAD_TEXTS + text][m->n] = s.len;
        if (!s.len)
                return;
        /* It is read by block_maker_end(): the memory may begin to bring it now. */
        __builtin_prefetch(s.ptr);
        m->texts[text][m->n] = s.ptr;
        m->text_bytes += s.len;
}

static void add_times(struct block_maker *m, const struct job_view *v, bool is_started)
{
        uint64_t created = (uint64_t)v->created_ms;
        uint64_t started = (uint64_t)v->started_ms;
        size_t i = m->n;
        if (i == 0) {
                m->first_id = v->id;
                m->first_created = created;
                m->first_fence = v->fence;
                m->last_id = v->id - 1;
                m->last_created = created;
                m->last_started = created;
                m->last_fence = v->fence;
        }
        m->columns[HEAD_ID][i] = v->id - m->last_id - 1;
        m->columns[HEAD_CREATED][i] = zigzag(created - m->last_created);
        m->columns[HEAD_DUE][i] = zigzag((uint64_t)v->due_ms - created);
        m->columns[HEAD_STARTED][i] = is_started ? zigzag(started - m->last_started) : 0;
        m->columns[HEAD_FINISHED][i] =
                zigzag((uint64_t)v->finished_ms - (is_started ? started : created));
        m->columns[HEAD_FENCE][i] = is_started ? zigzag(v->fence - m->last_fence) : v->fence;
        m->last_id = v->id;
        m->last_created = created;
        if (is_started) {
                m->last_started = started;
                m->last_fence = v->fence;
        }
}

void block_maker_add(struct block_maker *m, const struct job_view *v, uint64_t run)
{
        size_t i = m->n;
        bool is_started = v->started_ms != 0;
        bool is_plain = events_json_is_plain(v);
        ASSERT(i < BLOCK_JOBS && (i == 0 || v->id > m->last_id));
        ASSERT(v->status >= JOB_COMPLETE && v->status < JOB_STATUS_COUNT && !v->is_damaged);
        m->columns[HEAD_STATE][i] = (uint64_t)v->status | (is_plain ? STATE_PLAIN : 0) |
                                    (is_started ? STATE_STARTED : 0);
        add_times(m, v, is_started);
        m->columns[HEAD_RUN][i] = run;
        m->columns[HEAD_PRIORITY][i] = v->priority;
        m->columns[HEAD_ATTEMPT][i] = v->attempt;
        m->columns[HEAD_ATTEMPTS_MAX][i] = v->attempts_max;
        m->columns[HEAD_TIMEOUT][i] = v->timeout_ms;
        m->columns[HEAD_HOOK][i] = find_name(m, v->hook);
        m->columns[HEAD_QUEUE][i] = find_name(m, v->queue);
        m->columns[HEAD_GROUP][i] = find_name(m, v->group);
        m->columns[HEAD_WORKER][i] = find_name(m, v->worker);
        add_text(m, TEXT_ARGS, v->args);
        add_text(m, TEXT_RESULT, v->result);
        add_text(m, TEXT_ERROR, v->error);
        add_text(m, TEXT_PROGRESS, v->progress);
        add_text(m, TEXT_OPTIONS, v->options);
        add_text(m, TEXT_EVENTS, is_plain ? SLICE_NONE : v->events);
        m->n++;
}

static inline char *put_varint(char *at, uint64_t v)
{
        for (; v >= 0x80; v >>= 7)
                *at++ = (char)(v | 0x80);
        *at++ = (char)v;
        return at;
}

/* At least one number.  At most 10 bytes for each of them, and HEAD_BYTES / COLUMNS for all. */
static char *put_column(char *at, const uint64_t *v, size_t n)
{
        uint64_t common = v[0] == v[n - 1] ? v[0] : v[n / 2];
        uint64_t bits = 0;
        size_t n_others = 0;
        for (size_t i = 0; i < n; i++) {
                n_others += v[i] != common;
                bits |= v[i];
        }
        if (n_others == 0) {
                *at++ = MODE_CONSTANT;
                return put_varint(at, common);
        }
        if (n_others <= n / 4) {
                *at++ = MODE_SPARSE;
                at = put_varint(put_varint(at, common), n_others);
                for (size_t i = 0, next = 0; i < n; i++) {
                        if (v[i] == common)
                                continue;
                        at = put_varint(put_varint(at, i - next), v[i]);
                        next = i + 1;
                }
                return at;
        }
        *at++ = bits <= UINT8_MAX ? MODE_BYTES : MODE_VARINTS;
        if (bits <= UINT8_MAX) {
                for (size_t i = 0; i < n; i++)
                        *at++ = (char)v[i];
                return at;
        }
        for (size_t i = 0; i < n; i++)
                at = put_varint(at, v[i]);
        return at;
}

/* Into room that is known to be enough. */
static void put_head(struct block_maker *m)
{
        if (!buf_reserve(&m->head, HEAD_BYTES + m->n * JOB_BYTES + m->name_bytes))
                return;
        char *at = m->head.ptr;
        at = put_varint(at, m->first_id);
        at = put_varint(at, m->first_created);
        at = put_varint(at, m->first_fence);
        at = put_varint(at, m->n_names);
        for (size_t i = 1; i < m->n_names; i++)
                m->name_lengths[i] = m->names[i].len;
        if (m->n_names > 1)
                at = put_column(at, m->name_lengths + 1, m->n_names - 1);
        for (size_t i = 1; i < m->n_names; i++) {
                memcpy(at, m->names[i].ptr, m->names[i].len);
                at += m->names[i].len;
        }
        for (size_t c = 0; c < COLUMNS; c++)
                at = put_column(at, m->columns[c], m->n);
        m->head.len = (size_t)(at - m->head.ptr);
}

static void put_body(struct block_maker *m)
{
        if (!buf_reserve(&m->body, m->text_bytes))
                return;
        char *at = m->body.ptr;
        for (size_t text = 0; text < TEXTS; text++) {
                const uint64_t *lengths = m->columns[HEAD_TEXTS + text];
                for (size_t i = 0; i < m->n; i++) {
                        if (!lengths[i])
                                continue;
                        memcpy(at, m->texts[text][i], lengths[i]);
                        at += lengths[i];
                }
        }
        m->body.len = m->text_bytes;
}

/* Returns the size of what it put into the buffer, which has room for it; raw.len: as it is. */
static size_t put_packed(struct buf *out, struct slice raw)
{
        int n = 0;
        if (raw.len)
                n = LZ4_compress_fast(raw.ptr, out->ptr + out->len, (int)raw.len,
                                      LZ4_compressBound((int)raw.len), ACCELERATION);
        if (n <= 0 || (size_t)n >= raw.len) {
                buf_put_slice(out, raw);
                return raw.len;
        }
        out->len += (size_t)n;
        return (size_t)n;
}

static void reuse(struct buf *b)
{
        if (b->cap > KEEP_BYTES)
                buf_release(b);
        buf_clear(b);
}

int block_maker_end(struct block_maker *m, struct slice *ret)
{
        ASSERT(m->n > 0);
        reuse(&m->head);
        reuse(&m->body);
        reuse(&m->out);
        put_head(m);
        put_body(m);
        size_t head = m->head.len, body = m->body.len;
        ASSERT(head + body <= BLOCK_RAW_BYTES);
        if (m->head.failed || m->body.failed ||
            !buf_reserve(&m->out, HEADER_BYTES + (size_t)LZ4_compressBound((int)head) +
                                          (size_t)LZ4_compressBound((int)body) + CRC_BYTES))
                return ERR_NOMEM;
        m->out.len = HEADER_BYTES;
        size_t packed_head = put_packed(&m->out, buf_slice(&m->head));
        size_t packed_body = put_packed(&m->out, buf_slice(&m->body));
        char *at = m->out.ptr;
        store_u32(at, BLOCK_MAGIC);
        at[4] = BLOCK_VERSION;
        at[5] = (char)((packed_head == head ? FLAG_RAW_HEAD : 0) |
                       (packed_body == body ? FLAG_RAW_BODY : 0));
        store_u16(at + 6, (uint16_t)m->n);
        store_u32(at + 8, (uint32_t)head);
        store_u32(at + 12, (uint32_t)packed_head);
        store_u32(at + 16, (uint32_t)body);
        store_u32(at + 20, (uint32_t)packed_body);
        store_u32(at + m->out.len, crc32c(0, at, m->out.len));
        m->out.len += CRC_BYTES;
        *ret = buf_slice(&m->out);
        block_maker_clear(m);
        return OK;
}
