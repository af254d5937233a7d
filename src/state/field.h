/* Field tables: one row per field of a record makes its reader, its writer and its documentation.
 *
 * A record of the log is a list of rows, an X-macro NAME_FIELDS(F):
 *
 *      F(type, member, when, "key", "sentence")
 *
 * type    how the bytes look: a row of FIELD_TYPE_MAP
 * member  where the value is kept, as written behind `->`
 * when    ALWAYS, or the name of a condition that the file with the table defines
 * key     the name of the field in `weir log dump` and in docs/log-records.md
 *
 * The macros expand to straight-line code, because writing a record is on the path of every
 * command.  PUT_FIELD needs the locals `b` (struct buf *) and `o` (the object), GET_FIELD needs `r`
 * (struct reader *) and `o`.  A reader is sticky: check `r->failed` once, after the last field. */
#ifndef WEIR_STATE_FIELD_H
#define WEIR_STATE_FIELD_H

#include <stddef.h>

#include "base/bytes.h"

#define FIELD_TYPE_MAP(X)                                                                          \
        X(U8, "u8")                                                                                \
        X(BOOL, "u8, 0 or 1")                                                                      \
        X(NUM, "varint")                                                                           \
        X(U16, "varint below 2^16")                                                                \
        X(U32, "varint below 2^32")                                                                \
        X(TIME, "varint below 2^63")                                                               \
        X(DOUBLE, "IEEE 754 double, 8 bytes")                                                      \
        X(TOKEN, "16 bytes")                                                                       \
        X(TEXT, "varint length, bytes")                                                            \
        X(PACKED, "varint length, packed bytes")                                                   \
        X(FENCE, "varint, not 0")                                                                  \
        X(MARKS, "u8, bits")                                                                       \
        X(STATE, "u8")                                                                             \
        X(KIND, "u8")                                                                              \
        X(GATE, "u8, bits")                                                                        \
        X(KEPT, "varint, at most 100")                                                             \
        X(SLOT, "varint, at most 32503680000000: the year 3000")                                   \
        X(OPTIONS, "varint length, packed options of a job")                                       \
        X(IDS, "varint count, zigzag varint differences")

enum field_type {
#define X(name, text) FIELD_TYPE_##name,
        FIELD_TYPE_MAP(X)
#undef X
                FIELD_TYPE_COUNT
};

/* One row as data, for what need not be fast. */
struct field {
        const char *key, *text;
        uint8_t type; /* enum field_type */
        uint8_t when; /* the condition's number; 0 = always */
        uint16_t at;  /* offset of the member */
};

const char *field_type_text(enum field_type type);

#define FIELD_TOKEN_BYTES 16

static inline void put_time(struct buf *b, int64_t v)
{
        ASSERT(v >= 0);
        buf_put_varint(b, (uint64_t)v);
}

/* A varint that must fit a smaller field; 0 when it does not. */
static inline uint64_t get_max(struct reader *r, uint64_t max)
{
        uint64_t v = reader_varint(r);
        if (v > max)
                r->failed = true;
        return r->failed ? 0 : v;
}

static inline uint64_t get_fence(struct reader *r)
{
        uint64_t v = reader_varint(r);
        if (v == 0)
                r->failed = true;
        return v;
}

static inline uint8_t get_u8_max(struct reader *r, uint8_t max)
{
        uint8_t v = reader_u8(r);
        if (v > max)
                r->failed = true;
        return v;
}

static inline void get_bytes(struct reader *r, void *ret, size_t n)
{
        struct slice s = reader_bytes(r, n);
        if (!r->failed)
                memcpy(ret, s.ptr, n);
}

/* `b`, `r`: buffer and reader; `o`: the object; `at`: the member. */
#define PUT_U8(b, o, at)     buf_put_byte(b, (char)(o)->at)
#define GET_U8(r, o, at)     (o)->at = reader_u8(r)
#define PUT_BOOL(b, o, at)   buf_put_byte(b, (o)->at)
#define GET_BOOL(r, o, at)   (o)->at = get_u8_max(r, 1)
#define PUT_NUM(b, o, at)    buf_put_varint(b, (o)->at)
#define GET_NUM(r, o, at)    (o)->at = reader_varint(r)
#define PUT_U16(b, o, at)    buf_put_varint(b, (o)->at)
#define GET_U16(r, o, at)    (o)->at = (uint16_t)get_max(r, UINT16_MAX)
#define PUT_U32(b, o, at)    buf_put_varint(b, (o)->at)
#define GET_U32(r, o, at)    (o)->at = (uint32_t)get_max(r, UINT32_MAX)
#define PUT_TIME(b, o, at)   put_time(b, (o)->at)
#define GET_TIME(r, o, at)   (o)->at = (int64_t)get_max(r, INT64_MAX)
#define PUT_FENCE(b, o, at)  buf_put_varint(b, (o)->at)
#define GET_FENCE(r, o, at)  (o)->at = get_fence(r)
#define PUT_DOUBLE(b, o, at) buf_put(b, &(o)->at, sizeof(double))
#define GET_DOUBLE(r, o, at) get_bytes(r, &(o)->at, sizeof(double))
#define PUT_TOKEN(b, o, at)  buf_put(b, (o)->at, FIELD_TOKEN_BYTES)
#define GET_TOKEN(r, o, at)  get_bytes(r, (o)->at, FIELD_TOKEN_BYTES)
#define PUT_TEXT(b, o, at)   buf_put_lv(b, (o)->at)
#define GET_TEXT(r, o, at)   (o)->at = reader_lv(r)

/* For the bodies of things, whose fields are always present. */
#define PUT_FIELD(type, at, when, label, says) PUT_##type(b, o, at);
#define GET_FIELD(type, at, when, label, says) GET_##type(r, o, at);
#define DOC_FIELD(type, at, when, label, says) {label, says, FIELD_TYPE_##type, 0, 0},

/* ---- packed options ----
 *
 * Structs whose fields are mostly absent: numbers of 0 and empty texts are not written.  Each field
 * present is a tag (u8), then a varint (NUM) or a varint length and bytes (TEXT).  The table is
 * MAP(TEXT, NUM) with rows
 *
 *      TEXT(tag, member, "sentence")   or   NUM(tag, member, "sentence")
 *
 * and these macros make the members, the writer (locals `o`, `b`) and the cases of a switch over
 * the tag (locals `o`, `r`). */
#define MEMBER_TEXT(tag, at, says) struct slice at;
#define MEMBER_NUM(tag, at, says)  uint64_t at;
#define PACK_TEXT(tag, at, says)                                                                   \
        if (o->at.len) {                                                                           \
                buf_put_byte(b, tag);                                                              \
                buf_put_lv(b, o->at);                                                              \
        }
#define PACK_NUM(tag, at, says)                                                                    \
        if (o->at) {                                                                               \
                buf_put_byte(b, tag);                                                              \
                buf_put_varint(b, o->at);                                                          \
        }
#define UNPACK_TEXT(tag, at, says)                                                                 \
        case tag:                                                                                  \
                o->at = reader_lv(&r);                                                             \
                break;
#define UNPACK_NUM(tag, at, says)                                                                  \
        case tag:                                                                                  \
                o->at = reader_varint(&r);                                                         \
                break;

#endif
