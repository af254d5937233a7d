/* See rollup.h. */
#include "core/rollup.h"

#include <stdlib.h>

#include "base/bits.h"
#include "base/bytes.h"
#include "base/crc.h"

#define VERSION     1
#define CRC_BYTES   4
#define REASON_BITS 16
#define LEVEL_BITS  8
_Static_assert(CHECK_REASONS <= REASON_BITS && LEVELS <= LEVEL_BITS, "they are sets of bits");

void rollup_init(struct rollup *r)
{
        *r = (struct rollup){0};
        arena_init(&r->arena, 0);
}

void rollup_release(struct rollup *r)
{
        for (size_t i = 0; i < TALLY_KINDS; i++)
                free(r->tables[i].rows);
        arena_release(&r->arena);
        rollup_init(r);
}

static size_t index_of(const struct rollup_table *t, struct slice name)
{
        size_t from = 1, to = t->n;
        while (from < to) {
                size_t mid = from + (to - from) / 2;
                int order = slice_cmp(t->rows[mid].name, name);
                if (!order)
                        return mid;
                if (order < 0)
                        from = mid + 1;
                else
                        to = mid;
        }
        return 0;
}

const union tally_cell *rollup_find(const struct rollup_table *t, struct slice name)
{
        size_t i = t->n ? index_of(t, name) : 0;
        if (!t->n || (!i && !slice_eq(name, SLICE_LIT("other"))))
                return NULL;
        return &t->rows[i].cell;
}

/* ---- packing ---- */

/* The first and the last bucket in use, and the counts between them.  Neighbours have about as many
 * digits as each other: each says how many more it has, then all its digits but the first. */
static void put_octaves(struct bit_writer *w, const struct octaves *o)
{
        unsigned first = 0, last = OCTAVES - 1, before = 0;
        while (first < OCTAVES && !o->n[first])
                first++;
        while (last > first && !o->n[last])
                last--;
        bits_put(w, first < OCTAVES, 1);
        if (first == OCTAVES)
                return;
        bits_put(w, first, 5);
        bits_put(w, last, 5);
        for (unsigned i = first; i <= last; i++) {
                unsigned width = bits_width(o->n[i]);
                bits_put_signed(w, (int64_t)width - before);
                if (width > 1)
                        bits_put(w, o->n[i] - (1ULL << (width - 1)), width - 1);
                before = width;
        }
}

static void get_octaves(struct bit_reader *r, struct octaves *ret)
{
        *ret = (struct octaves){0};
        if (!bits_get(r, 1))
                return;
        uint64_t first = bits_get(r, 5), last = bits_get(r, 5);
        int64_t width = 0;
        for (uint64_t i = first; i <= last && !r->failed; i++) {
                width += bits_get_signed(r);
                if (width < 0 || width > 32) {
                        r->failed = true;
                        return;
                }
                if (width)
                        ret->n[i] =
                                (uint32_t)(1ULL << (width - 1) | bits_get(r, (unsigned)width - 1));
        }
}

static void put_jobs(struct bit_writer *w, const struct tally_jobs *c)
{
        put_octaves(w, &c->wait);
        put_octaves(w, &c->run);
        bits_put_signed(w, (int64_t)octaves_total(&c->run) - c->completed); /* mostly 0 */
        bits_put_number(w, c->failed);
        bits_put_number(w, c->deferred);
}

static void get_jobs(struct bit_reader *r, struct tally_jobs *ret)
{
        get_octaves(r, &ret->wait);
        get_octaves(r, &ret->run);
        int64_t completed = (int64_t)octaves_total(&ret->run) - bits_get_signed(r);
        uint64_t failed = bits_get_number(r), deferred = bits_get_number(r);
        r->failed |= completed < 0 || completed > UINT32_MAX || failed > UINT32_MAX ||
                     deferred > UINT32_MAX;
        ret->completed = (uint32_t)completed;
        ret->failed = (uint32_t)failed;
        ret->deferred = (uint32_t)deferred;
}

static void put_asks(struct bit_writer *w, const struct tally_asks *c,
                     const struct rollup_table *metrics)
{
        uint64_t reasons = 0;
        for (unsigned i = 0; i < CHECK_REASONS; i++)
                reasons |= (uint64_t)(c->by_reason[i] > 0) << i;
        bits_put_number(w, c->granted);
        bits_put_number(w, c->refused);
        bits_put_number(w, c->observed);
        bits_put_number(w, c->waited_ms);
        bits_put(w, c->levels > 0, 1);
        if (c->levels)
                bits_put(w, c->levels, LEVEL_BITS);
        bits_put(w, reasons > 0, 1);
        if (!reasons)
                return;
        bits_put(w, reasons, REASON_BITS);
        for (unsigned i = 0; i < CHECK_REASONS; i++)
                if (c->by_reason[i])
                        bits_put_number(w, c->by_reason[i]);
        bits_put_number(w, c->cause.len ? index_of(metrics, c->cause) : 0);
}

static uint32_t get_u32(struct bit_reader *r)
{
        uint64_t v = bits_get_number(r);
        r->failed |= v > UINT32_MAX;
        return (uint32_t)v;
}

static void get_asks(struct bit_reader *r, struct tally_asks *ret,
                     const struct rollup_table *metrics)
{
        ret->granted = get_u32(r);
        ret->refused = get_u32(r);
        ret->observed = get_u32(r);
        ret->waited_ms = bits_get_number(r);
        if (bits_get(r, 1))
                ret->levels = (uint8_t)bits_get(r, LEVEL_BITS);
        if (!bits_get(r, 1))
                return;
        uint64_t reasons = bits_get(r, REASON_BITS);
        r->failed |= reasons >> CHECK_REASONS != 0;
        for (unsigned i = 0; i < CHECK_REASONS; i++)
                if (reasons >> i & 1)
                        ret->by_reason[i] = get_u32(r);
        uint64_t cause = bits_get_number(r);
        r->failed |= cause && cause >= metrics->n;
        if (cause && !r->failed)
                ret->cause = metrics->rows[cause].name;
}

static void put_values(struct bit_writer *w, const struct tally_values *c)
{
        uint32_t low, high;
        uint64_t sum;
        bits_put_number(w, c->n);
        if (!c->n)
                return;
        memcpy(&low, &c->min, sizeof(low));
        memcpy(&high, &c->max, sizeof(high));
        memcpy(&sum, &c->sum, sizeof(sum));
        bits_put(w, low, 32);
        bits_put(w, high, 32);
        bits_put(w, sum & UINT32_MAX, 32);
        bits_put(w, sum >> 32, 32);
}

static void get_values(struct bit_reader *r, struct tally_values *ret)
{
        ret->n = get_u32(r);
        if (!ret->n)
                return;
        uint32_t low = (uint32_t)bits_get(r, 32), high = (uint32_t)bits_get(r, 32);
        uint64_t sum = bits_get(r, 32);
        sum |= bits_get(r, 32) << 32;
        memcpy(&ret->min, &low, sizeof(low));
        memcpy(&ret->max, &high, sizeof(high));
        memcpy(&ret->sum, &sum, sizeof(sum));
}

static void put_cell(struct bit_writer *w, const struct rollup *r, enum tally_kind kind,
                     const union tally_cell *c)
{
        if (kind == TALLY_HOOK || kind == TALLY_QUEUE)
                put_jobs(w, &c->jobs);
        else if (kind == TALLY_METRIC)
                put_values(w, &c->values);
        else
                put_asks(w, &c->asks, &r->tables[TALLY_METRIC]);
}

static void get_cell(struct bit_reader *in, const struct rollup *r, enum tally_kind kind,
                     union tally_cell *ret)
{
        if (kind == TALLY_HOOK || kind == TALLY_QUEUE)
                get_jobs(in, &ret->jobs);
        else if (kind == TALLY_METRIC)
                get_values(in, &ret->values);
        else
                get_asks(in, &ret->asks, &r->tables[TALLY_METRIC]);
}

static size_t shared_bytes(struct slice a, struct slice b)
{
        size_t n = 0;
        while (n < a.len && n < b.len && a.ptr[n] == b.ptr[n])
                n++;
        return n;
}

static void put_table(const struct rollup *r, enum tally_kind kind, struct buf *section)
{
        const struct rollup_table *t = &r->tables[kind];
        struct bit_writer w = {.to = section};
        buf_put_varint(section, t->n - 1);
        for (size_t i = 1; i < t->n; i++) {
                struct slice name = t->rows[i].name;
                size_t shared = shared_bytes(t->rows[i - 1].name, name);
                buf_put_varint(section, shared);
                buf_put_lv(section, slice_make(name.ptr + shared, name.len - shared));
        }
        for (size_t i = 0; i < t->n; i++)
                put_cell(&w, r, kind, &t->rows[i].cell);
        bits_end(&w);
}

void rollup_pack(const struct rollup *r, struct buf *ret)
{
        struct buf section CLEANUP(buf_release) = {0};
        size_t begin = ret->len;
        uint8_t crc[CRC_BYTES] = {0};
        buf_put(ret, crc, sizeof(crc));
        buf_put_byte(ret, VERSION);
        buf_put_varint(ret, (uint64_t)r->at);
        buf_put_varint(ret, r->span);
        buf_put_varint(ret, (uint64_t)(r->at - r->since));
        buf_put_varint(&section, ROLLUP_TOTALS);
        for (size_t i = 0; i < ROLLUP_TOTALS; i++)
                buf_put_varint(&section, r->totals[i]);
        buf_put_lv(ret, buf_slice(&section));
        for (unsigned kind = 0; kind < TALLY_KINDS; kind++) {
                buf_clear(&section);
                ASSERT(r->tables[kind].n);
                put_table(r, (enum tally_kind)kind, &section);
                buf_put_lv(ret, buf_slice(&section));
        }
        if (ret->failed)
                return;
        char *body = ret->ptr + begin;
        store_u32(body, crc32c(0, body + CRC_BYTES, ret->len - begin - CRC_BYTES));
}

/* ---- unpacking ---- */

static int get_names(struct reader *in, struct rollup *r, struct rollup_table *t)
{
        for (size_t i = 1; i < t->n && !in->failed; i++) {
                struct slice before = t->rows[i - 1].name;
                uint64_t shared = reader_varint(in);
                struct slice rest = reader_lv(in);
                if (in->failed || shared > before.len)
                        return ERR_CORRUPT;
                char *text = arena_alloc(&r->arena, shared + rest.len + 1);
                if (!text)
                        return ERR_NOMEM;
                if (shared)
                        memcpy(text, before.ptr, shared);
                if (rest.len)
                        memcpy(text + shared, rest.ptr, rest.len);
                t->rows[i].name = slice_make(text, shared + rest.len);
                if (slice_cmp(before, t->rows[i].name) >= 0)
                        return ERR_CORRUPT;
        }
        return in->failed ? ERR_CORRUPT : OK;
}

static int get_table(struct slice section, struct rollup *r, enum tally_kind kind)
{
        struct reader in = reader_make(section);
        struct rollup_table *t = &r->tables[kind];
        uint64_t n = reader_varint(&in);
        if (in.failed || n > TALLY_NAMES)
                return ERR_CORRUPT;
        t->rows = xcalloc(n + 1, sizeof(*t->rows));
        t->n = n + 1;
        int err = get_names(&in, r, t);
        if (err)
                return err;
        struct bit_reader bits = bits_make(slice_make(in.at, reader_left(&in)));
        for (size_t i = 0; i < t->n; i++)
                get_cell(&bits, r, kind, &t->rows[i].cell);
        return bits.failed ? ERR_CORRUPT : OK;
}

static void get_totals(struct slice section, struct rollup *r)
{
        struct reader in = reader_make(section);
        uint64_t n = reader_varint(&in);
        for (size_t i = 0; i < ROLLUP_TOTALS && i < n; i++)
                r->totals[i] = reader_varint(&in);
}

int rollup_unpack(struct slice body, unsigned kinds, struct rollup *ret)
{
        if (body.len <= CRC_BYTES ||
            load_u32(body.ptr) != crc32c(0, body.ptr + CRC_BYTES, body.len - CRC_BYTES))
                return ERR_CORRUPT;
        struct reader in = reader_make(slice_make(body.ptr + CRC_BYTES, body.len - CRC_BYTES));
        if (reader_u8(&in) != VERSION)
                return ERR_CORRUPT;
        uint64_t at = reader_varint(&in), span = reader_varint(&in), before = reader_varint(&in);
        if (in.failed || at > INT32_MAX * 60LL || span > ROLLUP_HOUR || before > at)
                return ERR_CORRUPT;
        ret->at = (int64_t)at;
        ret->span = (unsigned)span;
        ret->since = (int64_t)(at - before);
        get_totals(reader_lv(&in), ret);
        if (kinds & (1u << TALLY_CLIENT | 1u << TALLY_TARGET))
                kinds |= 1u << TALLY_METRIC; /* of which they name some */
        for (unsigned kind = 0; kind < TALLY_KINDS; kind++) {
                struct slice section = reader_lv(&in);
                int err = kinds >> kind & 1 ? get_table(section, ret, (enum tally_kind)kind) : OK;
                if (err)
                        return err;
        }
        return in.failed ? ERR_CORRUPT : OK;
}

/* ---- merging ---- */

static void merge_jobs(struct tally_jobs *to, const struct tally_jobs *from)
{
        to->completed = add_bounded_u32(to->completed, from->completed);
        to->failed = add_bounded_u32(to->failed, from->failed);
        to->deferred = add_bounded_u32(to->deferred, from->deferred);
        octaves_merge(&to->wait, &from->wait);
        octaves_merge(&to->run, &from->run);
}

static void merge_asks(struct tally_asks *to, const struct tally_asks *from)
{
        to->granted = add_bounded_u32(to->granted, from->granted);
        to->refused = add_bounded_u32(to->refused, from->refused);
        to->observed = add_bounded_u32(to->observed, from->observed);
        to->waited_ms += from->waited_ms;
        to->levels |= from->levels;
        for (size_t i = 0; i < CHECK_REASONS; i++)
                to->by_reason[i] = add_bounded_u32(to->by_reason[i], from->by_reason[i]);
        if (from->cause.len)
                to->cause = from->cause;
}

static void merge_values(struct tally_values *to, const struct tally_values *from)
{
        if (!from->n)
                return;
        to->min = to->n && to->min < from->min ? to->min : from->min;
        to->max = to->n && to->max > from->max ? to->max : from->max;
        to->sum += from->sum;
        to->n = add_bounded_u32(to->n, from->n);
}

void tally_cell_merge(enum tally_kind kind, union tally_cell *to, const union tally_cell *from)
{
        if (kind == TALLY_HOOK || kind == TALLY_QUEUE)
                merge_jobs(&to->jobs, &from->jobs);
        else if (kind == TALLY_METRIC)
                merge_values(&to->values, &from->values);
        else
                merge_asks(&to->asks, &from->asks);
}

static uint64_t weight_of(enum tally_kind kind, const union tally_cell *c)
{
        if (kind == TALLY_HOOK || kind == TALLY_QUEUE)
                return octaves_total(&c->jobs.wait) + octaves_total(&c->jobs.run) +
                       c->jobs.completed + c->jobs.failed + c->jobs.deferred;
        if (kind == TALLY_METRIC)
                return c->values.n;
        return (uint64_t)c->asks.granted + c->asks.refused;
}

struct weighed {
        size_t row;
        uint64_t weight;
};

static int heaviest_first(const void *a, const void *b)
{
        const struct weighed *x = a, *y = b;
        if (x->weight != y->weight)
                return x->weight > y->weight ? -1 : 1;
        return x->row < y->row ? -1 : x->row > y->row;
}

/* Keeps the rows with most in them, as many as there is room for, in their order.  The others
 * become `other`. */
static void cap_table(struct rollup_table *t, enum tally_kind kind)
{
        size_t bytes = 0, kept = 0, n = 1;
        for (size_t i = 1; i < t->n; i++)
                bytes += t->rows[i].name.len;
        if (t->n <= TALLY_NAMES + 1 && bytes <= TALLY_NAME_BYTES)
                return;
        struct weighed *order = xcalloc(t->n, sizeof(*order));
        bool *is_kept = xcalloc(t->n, sizeof(*is_kept));
        for (size_t i = 1; i < t->n; i++)
                order[i] = (struct weighed){i, weight_of(kind, &t->rows[i].cell)};
        qsort(order + 1, t->n - 1, sizeof(*order), heaviest_first);
        bytes = 0;
        for (size_t i = 1; i < t->n && kept < TALLY_NAMES; i++) {
                size_t len = t->rows[order[i].row].name.len;
                if (bytes + len > TALLY_NAME_BYTES)
                        continue;
                is_kept[order[i].row] = true;
                bytes += len;
                kept++;
        }
        for (size_t i = 1; i < t->n; i++) {
                if (is_kept[i])
                        t->rows[n++] = t->rows[i];
                else
                        tally_cell_merge(kind, &t->rows[0].cell, &t->rows[i].cell);
        }
        t->n = n;
        free(order);
        free(is_kept);
}

static int merge_table(struct rollup *to, const struct rollup *from, enum tally_kind kind)
{
        struct rollup_table *a = &to->tables[kind];
        const struct rollup_table *b = &from->tables[kind];
        struct rollup_row *rows = xcalloc(a->n + b->n, sizeof(*rows));
        size_t n = 0, i = 0, k = 0;
        int err = OK;
        while (i < a->n || k < b->n) {
                int order = i == a->n ? 1 : k == b->n ? -1 : 0;
                if (!order)
                        order = slice_cmp(a->rows[i].name, b->rows[k].name);
                rows[n] = order <= 0 ? a->rows[i++] : (struct rollup_row){0};
                if (order > 0) {
                        rows[n].name = arena_copy(&to->arena, b->rows[k].name);
                        err = rows[n].name.ptr ? err : ERR_NOMEM;
                }
                if (order >= 0)
                        tally_cell_merge(kind, &rows[n].cell, &b->rows[k++].cell);
                n++;
        }
        free(a->rows);
        *a = (struct rollup_table){rows, n};
        cap_table(a, kind);
        return err;
}

/* Causes are texts of the other rollup: those of this one's metrics instead, which were merged
 * before.  One that became `other` is no cause any more. */
static void adopt_causes(struct rollup *r, enum tally_kind kind)
{
        const struct rollup_table *metrics = &r->tables[TALLY_METRIC];
        for (size_t i = 0; i < r->tables[kind].n; i++) {
                struct slice *cause = &r->tables[kind].rows[i].cell.asks.cause;
                size_t at = cause->len ? index_of(metrics, *cause) : 0;
                *cause = at ? metrics->rows[at].name : SLICE_NONE;
        }
}

int rollup_merge(struct rollup *to, const struct rollup *from)
{
        ASSERT(from->at >= to->at && from->at + from->span <= to->at + to->span);
        for (unsigned kind = 0; kind < TALLY_KINDS; kind++) {
                int err = merge_table(to, from, (enum tally_kind)kind);
                if (err)
                        return err;
        }
        adopt_causes(to, TALLY_CLIENT);
        adopt_causes(to, TALLY_TARGET);
        if (from->since < to->since)
                to->since = from->since;
        for (size_t i = 0; i < ROLLUP_TOTALS; i++) {
                uint64_t was = to->totals[i], more = from->totals[i];
                if (i < ROLLUP_COUNTS)
                        to->totals[i] = was + more;
                else
                        to->totals[i] = more > was ? more : was;
        }
        return OK;
}
