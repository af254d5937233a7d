/* Blocks back to finished jobs.  Nothing is believed: whatever the bytes are, a block is opened or
 * is ERR_CORRUPT.
 *
 * block_open() leaves the lengths of the texts and the body as they are until the first text is
 * wanted: a filter looks at neither. */
#include "history/block.h"

#include <lz4.h>
#include <stdlib.h>

#include "base/crc.h"
#include "history/block_int.h"
#include "history/events_json.h"

#define LZ4_RATIO 255 /* LZ4 never makes more than so many bytes of one */

struct block_bytes {
        char *head; /* unpacked; the names are in it, and the lengths */
        char *packed;
        char *body; /* unpacked; NULL: not yet, and text_at is not set either */
        size_t packed_bytes, body_bytes;
        struct slice lengths; /* the columns of the head that are not yet read */
        bool is_raw_body;
        struct slice *names;
        uint64_t id[BLOCK_JOBS], run[BLOCK_JOBS], fence[BLOCK_JOBS];
        int64_t created_ms[BLOCK_JOBS], due_ms[BLOCK_JOBS];
        int64_t started_ms[BLOCK_JOBS], finished_ms[BLOCK_JOBS];
        uint32_t timeout_ms[BLOCK_JOBS];
        /* Where the texts begin in the body, TEXTS arrays of n, and where the last one ends. */
        uint32_t text_at[TEXTS * BLOCK_JOBS + 1];
        uint16_t attempt[BLOCK_JOBS], attempts_max[BLOCK_JOBS];
        uint16_t name_of[KINDS][BLOCK_JOBS];
        uint8_t state[BLOCK_JOBS], status[BLOCK_JOBS], priority[BLOCK_JOBS];
};

static void bytes_free(struct block_bytes *own)
{
        if (!own)
                return;
        free(own->head);
        free(own->body);
        free(own->packed);
        free(own->names);
        free(own);
}

struct header {
        size_t n;
        struct slice head, body; /* as they are in the block */
        size_t head_bytes, body_bytes;
        bool is_raw_head, is_raw_body;
};

static bool is_sound_half(size_t packed, size_t raw, bool is_raw)
{
        return is_raw ? packed == raw : raw / LZ4_RATIO <= packed && packed < raw;
}

static bool read_header(struct slice bytes, struct header *ret)
{
        const char *at = bytes.ptr;
        if (bytes.len < HEADER_BYTES + CRC_BYTES)
                return false;
        size_t n_summed = bytes.len - CRC_BYTES;
        uint8_t flags = (uint8_t)at[5];
        if (load_u32(at + n_summed) != crc32c(0, at, n_summed) || load_u32(at) != BLOCK_MAGIC ||
            at[4] != BLOCK_VERSION || (flags & ~FLAGS_KNOWN))
                return false;
        size_t packed_head = load_u32(at + 12), packed_body = load_u32(at + 20);
        if (HEADER_BYTES + packed_head + packed_body != n_summed)
                return false;
        *ret = (struct header){
                .n = load_u16(at + 6),
                .head = {at + HEADER_BYTES, packed_head},
                .body = {at + HEADER_BYTES + packed_head, packed_body},
                .head_bytes = load_u32(at + 8),
                .body_bytes = load_u32(at + 16),
                .is_raw_head = flags & FLAG_RAW_HEAD,
                .is_raw_body = flags & FLAG_RAW_BODY,
        };
        return ret->n >= 1 && ret->n <= BLOCK_JOBS &&
               ret->head_bytes + ret->body_bytes <= BLOCK_RAW_BYTES &&
               is_sound_half(packed_head, ret->head_bytes, ret->is_raw_head) &&
               is_sound_half(packed_body, ret->body_bytes, ret->is_raw_body);
}

/* Memory of its own with the half in it, unpacked. */
static int unpack(struct slice half, size_t raw_bytes, bool is_raw, char **ret)
{
        char *raw = malloc(raw_bytes + 1); /* one more, since it may be none */
        if (!raw)
                return ERR_NOMEM;
        *ret = raw;
        if (is_raw) {
                memcpy(raw, half.ptr, half.len);
                return OK;
        }
        int n = LZ4_decompress_safe(half.ptr, raw, (int)half.len, (int)raw_bytes);
        return n >= 0 && (size_t)n == raw_bytes ? OK : ERR_CORRUPT;
}

/* Sticky: r.failed says whether anything was wrong. */
struct decoder {
        struct reader r;
        size_t n;
        uint64_t v[NAMES_MAX];
};

static void fail(struct decoder *d)
{
        d->r.failed = true;
        d->r.at = d->r.end;
}

static inline uint64_t get_varint(struct reader *r)
{
        if (r->end - r->at < 2)
                return reader_varint(r);
        unsigned a = (unsigned char)r->at[0], b = (unsigned char)r->at[1];
        if (a < 0x80) {
                r->at++;
                return a;
        }
        if (b >= 0x80)
                return reader_varint(r);
        r->at += 2;
        return (a & 0x7f) | b << 7;
}

static uint64_t get_sparse(struct decoder *d, uint64_t *ret, size_t n)
{
        uint64_t common = get_varint(&d->r);
        uint64_t n_others = get_varint(&d->r);
        uint64_t bits = common;
        for (size_t i = 0; i < n; i++)
                ret[i] = common;
        for (uint64_t at = 0; n_others > 0 && !d->r.failed; n_others--, at++) {
                uint64_t gap = get_varint(&d->r);
                if (at >= n || gap >= n - at) {
                        fail(d);
                        break;
                }
                at += gap;
                ret[at] = get_varint(&d->r);
                bits |= ret[at];
        }
        return bits;
}

/* Sets all n, whatever the bytes are, and returns all their bits, for callers with a bound. */
static uint64_t get_column(struct decoder *d, uint64_t *ret, size_t n)
{
        uint64_t bits = 0;
        uint8_t mode = reader_u8(&d->r);
        if (mode == MODE_CONSTANT) {
                bits = get_varint(&d->r);
                for (size_t i = 0; i < n; i++)
                        ret[i] = bits;
        } else if (mode == MODE_SPARSE) {
                bits = get_sparse(d, ret, n);
        } else if (mode == MODE_BYTES && reader_left(&d->r) >= n) {
                struct slice s = reader_bytes(&d->r, n);
                for (size_t i = 0; i < n; i++)
                        bits |= ret[i] = (unsigned char)s.ptr[i];
        } else {
                if (mode != MODE_VARINTS)
                        fail(d);
                for (size_t i = 0; i < n; i++)
                        bits |= ret[i] = get_varint(&d->r);
        }
        return bits;
}

/* The next column of numbers that are at most `max`, into d->v. */
static void get_numbers(struct decoder *d, uint64_t max)
{
        if (get_column(d, d->v, d->n) <= max)
                return;
        for (size_t i = 0; i < d->n; i++)
                if (d->v[i] > max)
                        fail(d);
}

/* The whole array, not only n: loops of a known length are compiled to vector instructions. */
static void get_u8s(struct decoder *d, uint64_t max, uint8_t *restrict ret)
{
        get_numbers(d, max);
        for (size_t i = 0; i < BLOCK_JOBS; i++)
                ret[i] = (uint8_t)d->v[i];
}

static void get_u16s(struct decoder *d, uint64_t max, uint16_t *restrict ret)
{
        get_numbers(d, max);
        for (size_t i = 0; i < BLOCK_JOBS; i++)
                ret[i] = (uint16_t)d->v[i];
}

static int get_names(struct decoder *d, struct block_bytes *own, size_t *ret)
{
        uint64_t n = get_varint(&d->r);
        if (n < 1 || n > KINDS * d->n + 1)
                return ERR_CORRUPT;
        own->names = malloc(n * sizeof(*own->names));
        if (!own->names)
                return ERR_NOMEM;
        if (n > 1)
                (void)get_column(d, d->v, n - 1);
        own->names[0] = SLICE_NONE;
        for (size_t i = 1; i < n; i++)
                own->names[i] = reader_bytes(&d->r, d->v[i - 1]);
        *ret = n;
        return d->r.failed ? ERR_CORRUPT : OK;
}

static void get_states(struct decoder *d, struct block_bytes *own)
{
        get_u8s(d, STATE_KNOWN, own->state);
        for (size_t i = 0; i < d->n; i++) {
                own->status[i] = own->state[i] & STATE_STATUS;
                if (own->status[i] < JOB_COMPLETE || own->status[i] >= JOB_STATUS_COUNT)
                        fail(d);
        }
}

static void get_ids(struct decoder *d, struct block_bytes *own, uint64_t first)
{
        uint64_t last = first - 1;
        (void)get_column(d, own->id, d->n);
        for (size_t i = 0; i < d->n; i++) {
                uint64_t id = last + 1 + own->id[i];
                if (i > 0 && id <= last)
                        fail(d);
                own->id[i] = last = id;
        }
}

static void get_times(struct decoder *d, struct block_bytes *own, uint64_t first_created)
{
        uint64_t last = first_created;
        (void)get_column(d, d->v, d->n);
        for (size_t i = 0; i < d->n; i++)
                own->created_ms[i] = (int64_t)(last += unzigzag(d->v[i]));
        (void)get_column(d, d->v, d->n);
        for (size_t i = 0; i < d->n; i++)
                own->due_ms[i] = (int64_t)((uint64_t)own->created_ms[i] + unzigzag(d->v[i]));
        last = first_created;
        (void)get_column(d, d->v, d->n);
        for (size_t i = 0; i < d->n; i++) {
                bool is_started = own->state[i] & STATE_STARTED;
                last += is_started ? unzigzag(d->v[i]) : 0;
                own->started_ms[i] = is_started ? (int64_t)last : 0;
        }
        (void)get_column(d, d->v, d->n);
        for (size_t i = 0; i < d->n; i++) {
                int64_t from =
                        own->state[i] & STATE_STARTED ? own->started_ms[i] : own->created_ms[i];
                own->finished_ms[i] = (int64_t)((uint64_t)from + unzigzag(d->v[i]));
        }
}

static void get_fences(struct decoder *d, struct block_bytes *own, uint64_t first)
{
        uint64_t last = first;
        (void)get_column(d, own->fence, d->n);
        for (size_t i = 0; i < d->n; i++)
                if (own->state[i] & STATE_STARTED)
                        own->fence[i] = last += unzigzag(own->fence[i]);
}

static int get_head(struct decoder *d, struct block_bytes *own, size_t *ret_n_names)
{
        uint64_t first_id = get_varint(&d->r);
        uint64_t first_created = get_varint(&d->r);
        uint64_t first_fence = get_varint(&d->r);
        int err = get_names(d, own, ret_n_names);
        if (err)
                return err;
        get_states(d, own);
        get_ids(d, own, first_id);
        (void)get_column(d, own->run, d->n);
        get_times(d, own, first_created);
        get_fences(d, own, first_fence);
        get_u8s(d, UINT8_MAX, own->priority);
        get_u16s(d, UINT16_MAX, own->attempt);
        get_u16s(d, UINT16_MAX, own->attempts_max);
        get_numbers(d, UINT32_MAX);
        for (size_t i = 0; i < BLOCK_JOBS; i++)
                own->timeout_ms[i] = (uint32_t)d->v[i];
        for (size_t kind = 0; kind < KINDS; kind++)
                get_u16s(d, *ret_n_names - 1, own->name_of[kind]);
        own->lengths = slice_make(d->r.at, reader_left(&d->r));
        return d->r.failed ? ERR_CORRUPT : OK;
}

/* Everything of its own but the texts. */
static int read_head(struct block_bytes *own, const struct header *h, size_t *ret_n_names)
{
        own->head = own->body = own->packed = NULL;
        own->names = NULL;
        own->packed_bytes = h->body.len;
        own->body_bytes = h->body_bytes;
        own->is_raw_body = h->is_raw_body;
        int err = unpack(h->body, h->body.len, true, &own->packed);
        if (!err)
                err = unpack(h->head, h->head_bytes, h->is_raw_head, &own->head);
        if (err)
                return err;
        struct decoder d = {.r = reader_make(slice_make(own->head, h->head_bytes)), .n = h->n};
        return get_head(&d, own, ret_n_names);
}

int block_open(struct block *b, struct slice bytes)
{
        struct header h;
        size_t n_names;
        *b = (struct block){0};
        if (!read_header(bytes, &h))
                return ERR_CORRUPT;
        struct block_bytes *own = malloc(sizeof(*own));
        if (!own)
                return ERR_NOMEM;
        int err = read_head(own, &h, &n_names);
        if (err) {
                bytes_free(own);
                return err;
        }
        *b = (struct block){
                .n = h.n,
                .id = own->id,
                .run = own->run,
                .fence = own->fence,
                .created_ms = own->created_ms,
                .due_ms = own->due_ms,
                .started_ms = own->started_ms,
                .finished_ms = own->finished_ms,
                .status = own->status,
                .priority = own->priority,
                .attempt = own->attempt,
                .attempts_max = own->attempts_max,
                .timeout_ms = own->timeout_ms,
                .hook = own->name_of[KIND_HOOK],
                .queue = own->name_of[KIND_QUEUE],
                .group = own->name_of[KIND_GROUP],
                .worker = own->name_of[KIND_WORKER],
                .names = own->names,
                .n_names = n_names,
                .bytes = own,
        };
        return OK;
}

void block_release(struct block *b)
{
        bytes_free(b->bytes);
        *b = (struct block){0};
}

int block_find(const struct block *b, uint64_t id)
{
        size_t low = 0, high = b->n;
        while (low < high) {
                size_t middle = (low + high) / 2;
                if (b->id[middle] < id)
                        low = middle + 1;
                else
                        high = middle;
        }
        return low < b->n && b->id[low] == id ? (int)low : -1;
}

/* Lengths to places.  The texts must fill the body. */
static int place_texts(struct block_bytes *own, size_t n)
{
        struct decoder d = {.r = reader_make(own->lengths), .n = n};
        uint64_t at = 0;
        uint32_t *ret = own->text_at;
        for (size_t text = 0; text < TEXTS; text++) {
                get_numbers(&d, own->body_bytes);
                for (size_t i = 0; i < n; i++) {
                        *ret++ = (uint32_t)at;
                        at += d.v[i];
                        if (text == TEXT_EVENTS && d.v[i] && own->state[i] & STATE_PLAIN)
                                fail(&d);
                }
        }
        *ret = (uint32_t)at;
        return d.r.failed || reader_left(&d.r) || at != own->body_bytes ? ERR_CORRUPT : OK;
}

static int unpack_body(struct block_bytes *own, size_t n)
{
        char *body = NULL;
        int err = place_texts(own, n);
        if (err)
                return err;
        if (own->is_raw_body) {
                own->body = TAKE_PTR(own->packed);
                return OK;
        }
        err = unpack(slice_make(own->packed, own->packed_bytes), own->body_bytes, false, &body);
        if (err) {
                free(body);
                return err;
        }
        own->body = body;
        free(TAKE_PTR(own->packed));
        return OK;
}

static struct slice text_of(const struct block *b, size_t i, enum text text)
{
        const uint32_t *at = b->bytes->text_at + (size_t)text * b->n + i;
        return slice_make(b->bytes->body + at[0], at[1] - at[0]);
}

int block_texts(struct block *b, size_t i, struct block_texts *ret)
{
        struct block_bytes *own = b->bytes;
        ASSERT(i < b->n);
        if (!own->body) {
                int err = unpack_body(own, b->n);
                if (err)
                        return err;
        }
        *ret = (struct block_texts){
                .args = text_of(b, i, TEXT_ARGS),
                .result = text_of(b, i, TEXT_RESULT),
                .error = text_of(b, i, TEXT_ERROR),
                .progress = text_of(b, i, TEXT_PROGRESS),
                .options = text_of(b, i, TEXT_OPTIONS),
                .events = text_of(b, i, TEXT_EVENTS),
                .is_plain = own->state[i] & STATE_PLAIN,
        };
        return OK;
}

/* Copies all of them, one behind the other. */
static int copy_all(struct arena *arena, struct slice *const *texts, size_t n)
{
        size_t total = 0;
        for (size_t i = 0; i < n; i++)
                total += texts[i]->len;
        char *at = arena_alloc(arena, total + 1);
        if (!at)
                return ERR_NOMEM;
        for (size_t i = 0; i < n; i++) {
                if (texts[i]->len)
                        memcpy(at, texts[i]->ptr, texts[i]->len);
                texts[i]->ptr = texts[i]->len ? at : NULL;
                at += texts[i]->len;
        }
        return OK;
}

/* The names are borrowed from the block. */
static struct job_view columns_of(const struct block *b, size_t i)
{
        return (struct job_view){
                .id = b->id[i],
                .hook = b->names[b->hook[i]],
                .queue = b->names[b->queue[i]],
                .group = b->names[b->group[i]],
                .status = (enum job_status)b->status[i],
                .priority = b->priority[i],
                .attempt = b->attempt[i],
                .attempts_max = b->attempts_max[i],
                .timeout_ms = b->timeout_ms[i],
                .created_ms = b->created_ms[i],
                .due_ms = b->due_ms[i],
                .started_ms = b->started_ms[i],
                .finished_ms = b->finished_ms[i],
                .worker = b->names[b->worker[i]],
                .fence = b->fence[i],
        };
}

int block_columns(const struct block *b, size_t i, struct arena *arena, struct job_view *ret)
{
        *ret = columns_of(b, i);
        struct slice *const names[] = {&ret->hook, &ret->queue, &ret->group, &ret->worker};
        return copy_all(arena, names, ARRAY_LEN(names));
}

int block_view(struct block *b, size_t i, struct arena *arena, struct buf *scratch,
               struct job_view *ret)
{
        struct block_texts t;
        int err = block_texts(b, i, &t);
        if (err)
                return err;
        struct job_view v = columns_of(b, i);
        v.args = t.args;
        v.progress = t.progress;
        v.result = t.result;
        v.error = t.error;
        v.events = t.events;
        v.options = t.options;
        struct slice *const all[] = {&v.hook,   &v.queue, &v.group,    &v.worker,  &v.args,
                                     &v.result, &v.error, &v.progress, &v.options, &v.events};
        err = copy_all(arena, all, ARRAY_LEN(all));
        if (!err && t.is_plain)
                err = events_json_read(SLICE_NONE, arena, scratch, &v);
        if (err)
                return err;
        *ret = v;
        return OK;
}
