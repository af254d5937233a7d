#include "wire/mysql_packet.h"

#include "base/bytes.h"

/* Length-encoded: a first byte below this is the number itself, and this one is NULL in a row. */
#define LENENC_NULL      0xfbU
#define LENENC_U16       0xfcU
#define LENENC_U24       0xfdU
#define LENENC_U64       0xfeU

#define HEADER_EOF       0xfeU
#define HEADER_ERROR     0xffU

#define ERROR_PACKET_MAX 512U /* what clients before MySQL 5.7 have room for */
#define SQLSTATE_LEN     5U

#define CHARSET_UTF8MB4  45U
#define TYPE_VAR_STRING  0xfdU
#define COLUMN_BYTES     1024U /* display width of a column */
#define FIXED_COLUMN_LEN 0x0cU /* of what follows the names in a definition */

/* Flags of the session itself; the others describe one reply of the server's and would be wrong in
 * a reply of ours: NO_BACKSLASH_ESCAPES, IN_TRANS_READONLY, and ANSI_QUOTES of MariaDB. */
#define STATUS_OF_SESSION                                                                          \
        (MYSQL_STATUS_IN_TRANS | MYSQL_STATUS_AUTOCOMMIT | 0x0200U | 0x2000U | 0x8000U)

/* ---- reading ---- */

static void drop_front(struct slice *rest, size_t n)
{
        rest->ptr += n;
        rest->len -= n;
}

bool mysql_get_bytes(struct slice *rest, size_t n, struct slice *ret)
{
        if (rest->len < n)
                return false;
        *ret = slice_make(rest->ptr, n);
        if (n)
                drop_front(rest, n);
        return true;
}

bool mysql_get_u8(struct slice *rest, uint8_t *ret)
{
        if (rest->len < sizeof(*ret))
                return false;
        *ret = (uint8_t)*rest->ptr;
        drop_front(rest, sizeof(*ret));
        return true;
}

bool mysql_get_u16(struct slice *rest, uint16_t *ret)
{
        if (rest->len < sizeof(*ret))
                return false;
        *ret = load_u16(rest->ptr);
        drop_front(rest, sizeof(*ret));
        return true;
}

bool mysql_get_u32(struct slice *rest, uint32_t *ret)
{
        if (rest->len < sizeof(*ret))
                return false;
        *ret = load_u32(rest->ptr);
        drop_front(rest, sizeof(*ret));
        return true;
}

bool mysql_get_int(struct slice *rest, uint64_t *ret)
{
        if (!rest->len)
                return false;
        uint8_t first = (uint8_t)*rest->ptr;
        if (first < LENENC_NULL) {
                *ret = first;
                drop_front(rest, 1);
                return true;
        }
        static const uint8_t bytes[] = {0, 2, 3, 8, 0}; /* of LENENC_NULL and those after it */
        size_t n = bytes[first - LENENC_NULL];
        if (!n || rest->len < 1 + n)
                return false;
        *ret = 0;
        memcpy(ret, rest->ptr + 1, n); /* little-endian, as base/bytes.h asserts */
        drop_front(rest, 1 + n);
        return true;
}

bool mysql_get_text(struct slice *rest, struct slice *ret)
{
        struct slice at = *rest;
        uint64_t n;
        if (!mysql_get_int(&at, &n) || !mysql_get_bytes(&at, n, ret))
                return false;
        *rest = at;
        return true;
}

bool mysql_get_zero_text(struct slice *rest, struct slice *ret)
{
        const char *nul = rest->len ? memchr(rest->ptr, 0, rest->len) : NULL;
        if (!nul)
                return false;
        *ret = slice_make(rest->ptr, (size_t)(nul - rest->ptr));
        drop_front(rest, ret->len + 1);
        return true;
}

/* ---- query attributes ---- */

/* How a parameter of the binary protocol is written, by its type: in so many bytes, or */
#define VALUE_UNKNOWN 0
#define VALUE_NOTHING (-1)
#define VALUE_TEXT    (-2) /* a length-encoded text */
#define VALUE_TIME    (-3) /* a length of one byte, and as many bytes */
static const int16_t value_forms[256] = {
        [0x00] = VALUE_TEXT,    /* DECIMAL */
        [0x01] = 1,             /* TINY */
        [0x02] = 2,             /* SHORT */
        [0x03] = 4,             /* LONG */
        [0x04] = 4,             /* FLOAT */
        [0x05] = 8,             /* DOUBLE */
        [0x06] = VALUE_NOTHING, /* NULL */
        [0x07] = VALUE_TIME,    /* TIMESTAMP */
        [0x08] = 8,             /* LONGLONG */
        [0x09] = 4,             /* INT24 */
        [0x0a] = VALUE_TIME,    /* DATE */
        [0x0b] = VALUE_TIME,    /* TIME */
        [0x0c] = VALUE_TIME,    /* DATETIME */
        [0x0d] = 2,             /* YEAR */
        [0x0f] = VALUE_TEXT,    /* VARCHAR */
        [0x10] = VALUE_TEXT,    /* BIT */
        [0xf4] = 1,             /* BOOL */
        [0xf5] = VALUE_TEXT,    /* JSON */
        [0xf6] = VALUE_TEXT,    /* NEWDECIMAL */
        [0xf7] = VALUE_TEXT,    /* ENUM */
        [0xf8] = VALUE_TEXT,    /* SET */
        [0xf9] = VALUE_TEXT,    /* TINY_BLOB */
        [0xfa] = VALUE_TEXT,    /* MEDIUM_BLOB */
        [0xfb] = VALUE_TEXT,    /* LONG_BLOB */
        [0xfc] = VALUE_TEXT,    /* BLOB */
        [0xfd] = VALUE_TEXT,    /* VAR_STRING */
        [0xfe] = VALUE_TEXT,    /* STRING */
        [0xff] = VALUE_TEXT,    /* GEOMETRY */
};

static bool get_value(struct slice *rest, uint8_t type, struct slice *ret)
{
        uint8_t n;
        int form = value_forms[type];
        switch (form) {
        case VALUE_UNKNOWN:
                return false;
        case VALUE_NOTHING:
                return mysql_get_bytes(rest, 0, ret);
        case VALUE_TEXT:
                return mysql_get_text(rest, ret);
        case VALUE_TIME:
                return mysql_get_u8(rest, &n) && mysql_get_bytes(rest, n, ret);
        default:
                return mysql_get_bytes(rest, (size_t)form, ret);
        }
}

/* One attribute of any type; false when its bytes make no sense. */
static bool attribute_step(struct mysql_attributes *a, struct slice *ret_name,
                           struct slice *ret_value, bool *ret_is_text)
{
        bool is_null = a->nulls[a->at / 8] >> (a->at % 8) & 1;
        uint16_t type; /* the upper byte has the flag of unsigned numbers */
        if (!mysql_get_u16(&a->names, &type) || !mysql_get_text(&a->names, ret_name))
                return false;
        if (!is_null && !get_value(&a->values, (uint8_t)type, ret_value))
                return false;
        *ret_is_text = !is_null && value_forms[(uint8_t)type] == VALUE_TEXT;
        a->at++;
        return true;
}

/* Takes the attributes off the front of a COM_QUERY:
 *      number of them (lenenc), 1 (lenenc); and unless there are none:
 *      a bit for each that is NULL, 1 (byte), type (2) and name (lenenc text) of each, the values
 */
static bool get_attributes(struct slice *rest, struct mysql_attributes *ret)
{
        struct mysql_attributes a = {0};
        struct slice nulls, name, value;
        uint64_t n, sets;
        uint8_t has_types;
        bool is_text;
        if (!mysql_get_int(rest, &n) || !mysql_get_int(rest, &sets))
                return false;
        *ret = a;
        if (!n)
                return true;
        if (n > rest->len || !mysql_get_bytes(rest, (n + 7) / 8, &nulls) ||
            !mysql_get_u8(rest, &has_types) || has_types != 1)
                return false;
        a = (struct mysql_attributes){.names = *rest, .values = *rest, .n = n};
        a.nulls = (const uint8_t *)nulls.ptr;
        for (uint64_t i = 0; i < n; i++) {
                uint16_t type;
                if (!mysql_get_u16(&a.values, &type) || !mysql_get_text(&a.values, &name))
                        return false;
        }
        *ret = a;
        while (a.at < a.n)
                if (!attribute_step(&a, &name, &value, &is_text))
                        return false;
        *rest = a.values;
        return true;
}

bool mysql_query_text(struct slice payload, uint64_t caps, struct slice *ret_sql,
                      struct mysql_attributes *ret_attributes)
{
        struct mysql_attributes attributes = {0};
        struct slice rest = payload;
        uint8_t command;
        if (!mysql_get_u8(&rest, &command))
                return false;
        if (command == COM_QUERY && (caps & MYSQL_QUERY_ATTRIBUTES) &&
            !get_attributes(&rest, &attributes))
                return false;
        *ret_sql = rest;
        *ret_attributes = attributes;
        return true;
}

bool mysql_query_attribute_next(struct mysql_attributes *a, struct slice *ret_name,
                                struct slice *ret_value)
{
        while (a->at < a->n) {
                struct slice name, value;
                bool is_text;
                if (!attribute_step(a, &name, &value, &is_text))
                        return false;
                if (is_text) {
                        *ret_name = name;
                        *ret_value = value;
                        return true;
                }
        }
        return false;
}

/* ---- types of parameters ---- */

#define EXECUTE_FIXED    10 /* command, statement, flags, iterations */
#define COUNT_AVAILABLE  0x08
#define BULK_SENDS_TYPES 0x80
#define BULK_FIXED       7 /* command, statement, flags */

/* Types of two bytes each, with a name each where the client has query attributes. */
static bool pass_types(struct slice *rest, bool has_names, size_t n)
{
        struct slice skipped;
        for (size_t i = 0; i < n; i++)
                if (!mysql_get_bytes(rest, 2, &skipped) ||
                    (has_names && !mysql_get_text(rest, &skipped)))
                        return false;
        return true;
}

static bool take_types(struct slice payload, struct slice rest, bool has_names, size_t n,
                       struct mysql_types *ret)
{
        ret->is_there = payload.ptr[ret->flag_at] & ret->flag;
        ret->all = slice_make(rest.ptr, 0);
        if (ret->is_there && !pass_types(&rest, has_names, n))
                return false;
        ret->all.len = (size_t)(rest.ptr - ret->all.ptr);
        return true;
}

bool mysql_execute_types(struct slice payload, uint64_t caps, size_t n_parameters,
                         struct mysql_types *ret)
{
        struct slice rest = payload, skipped;
        bool has_names = caps & MYSQL_QUERY_ATTRIBUTES;
        uint64_t n = n_parameters;
        if (payload.len && (uint8_t)payload.ptr[0] == COM_STMT_BULK_EXECUTE) {
                *ret = (struct mysql_types){.flag_at = BULK_FIXED - 2, .flag = BULK_SENDS_TYPES};
                return n && mysql_get_bytes(&rest, BULK_FIXED, &skipped) &&
                       take_types(payload, rest, false, n, ret);
        }
        if (!mysql_get_bytes(&rest, EXECUTE_FIXED, &skipped))
                return false;
        if (has_names && (n || payload.ptr[5] & COUNT_AVAILABLE) && !mysql_get_int(&rest, &n))
                return false;
        if (!n || n > UINT16_MAX || !mysql_get_bytes(&rest, (n + 7) / 8, &skipped) || !rest.len)
                return false;
        *ret = (struct mysql_types){.flag_at = payload.len - rest.len, .flag = 1};
        return mysql_get_bytes(&rest, 1, &skipped) && take_types(payload, rest, has_names, n, ret);
}

/* ---- the rest of a packet ---- */

static void rest_packet(struct mysql_rest *r, const uint8_t header[MYSQL_HEADER])
{
        r->left = mysql_length(header);
        r->is_continued = r->left == MYSQL_PAYLOAD_MAX;
        r->sequence = header[3];
        r->n_header = 0;
}

void mysql_rest_begin(struct mysql_rest *r, const uint8_t header[MYSQL_HEADER], size_t seen)
{
        *r = (struct mysql_rest){0};
        rest_packet(r, header);
        ASSERT(seen <= r->left);
        r->left -= (uint32_t)seen;
}

bool mysql_rest_is_done(const struct mysql_rest *r)
{
        return !r->left && !r->is_continued;
}

size_t mysql_rest_pass(struct mysql_rest *r, const uint8_t *bytes, size_t n)
{
        size_t at = 0;
        while (at < n && !mysql_rest_is_done(r)) {
                if (r->left) {
                        size_t part = n - at < r->left ? n - at : r->left;
                        r->left -= (uint32_t)part;
                        at += part;
                        continue;
                }
                r->header[r->n_header++] = bytes[at++];
                if (r->n_header == MYSQL_HEADER)
                        rest_packet(r, r->header);
        }
        return at;
}

/* ---- packets that weir makes ---- */

static void put_u16(struct buf *out, uint16_t v)
{
        buf_put(out, &v, sizeof(v));
}

static void put_int(struct buf *out, uint64_t v)
{
        if (v < LENENC_NULL) {
                buf_put_byte(out, (char)v);
                return;
        }
        if (v <= UINT16_MAX) {
                buf_put_byte(out, (char)LENENC_U16);
                buf_put(out, &v, 2);
                return;
        }
        bool is_u24 = v <= MYSQL_PAYLOAD_MAX;
        buf_put_byte(out, (char)(is_u24 ? LENENC_U24 : LENENC_U64));
        buf_put(out, &v, is_u24 ? 3 : 8);
}

static void put_text(struct buf *out, struct slice text)
{
        put_int(out, text.len);
        buf_put_slice(out, text);
}

/* Leaves room for the header; where the packet begins is what packet_end() is given. */
static size_t packet_begin(struct buf *out)
{
        size_t begin = out->len;
        buf_put(out, "\0\0\0", MYSQL_HEADER);
        return begin;
}

static void packet_end(struct buf *out, size_t begin, uint8_t sequence)
{
        if (out->failed)
                return;
        size_t len = out->len - begin - MYSQL_HEADER;
        ASSERT(len < MYSQL_PAYLOAD_MAX);
        store_u32(out->ptr + begin, (uint32_t)len | (uint32_t)sequence << 24);
}

/* The longest beginning that is no longer than max and cuts no UTF-8 sequence. */
static struct slice text_cut(struct slice text, size_t max)
{
        if (text.len <= max)
                return text;
        size_t n = max;
        while (n && max - n < 3 && ((uint8_t)text.ptr[n] & 0xc0) == 0x80)
                n--;
        return slice_make(text.ptr, n);
}

void mysql_put_error(struct buf *out, uint8_t sequence, unsigned number, const char *sqlstate,
                     struct slice text)
{
        size_t begin = packet_begin(out);
        buf_put_byte(out, (char)HEADER_ERROR);
        put_u16(out, (uint16_t)number);
        if (sqlstate) {
                ASSERT(strlen(sqlstate) == SQLSTATE_LEN);
                buf_put_byte(out, '#');
                buf_put(out, sqlstate, SQLSTATE_LEN);
        }
        buf_put_slice(out, text_cut(text, ERROR_PACKET_MAX - (out->len - begin)));
        packet_end(out, begin, sequence);
}

void mysql_put_query(struct buf *out, uint64_t caps, struct slice sql)
{
        size_t begin = packet_begin(out);
        buf_put_byte(out, COM_QUERY);
        if (caps & MYSQL_QUERY_ATTRIBUTES)
                buf_put(out, "\0\1", 2); /* no attributes, in one set */
        buf_put_slice(out, sql);
        packet_end(out, begin, 0);
}

/* Ends the columns or the rows of a table. */
static void put_eof(struct mysql_table *t)
{
        size_t begin = packet_begin(t->out);
        buf_put_byte(t->out, (char)HEADER_EOF);
        if (t->caps & MYSQL_DEPRECATE_EOF) {
                buf_put(t->out, "\0\0", 2); /* an OK packet: affected rows, insert id */
                put_u16(t->out, t->status & STATUS_OF_SESSION);
                put_u16(t->out, 0); /* warnings */
        } else {
                put_u16(t->out, 0); /* warnings */
                put_u16(t->out, t->status & STATUS_OF_SESSION);
        }
        packet_end(t->out, begin, t->sequence++);
}

static void put_column(struct mysql_table *t, const char *name)
{
        static const struct slice nothing = {"", 0};
        struct buf *out = t->out;
        size_t begin = packet_begin(out);
        put_text(out, SLICE_LIT("def"));
        for (int i = 0; i < 3; i++) /* schema, table, the table's own name */
                put_text(out, nothing);
        put_text(out, slice_str(name));
        put_text(out, nothing); /* the column's own name */
        if (t->caps & MARIADB_EXTENDED_TYPES)
                put_text(out, nothing);
        put_int(out, FIXED_COLUMN_LEN);
        put_u16(out, CHARSET_UTF8MB4);
        uint32_t width = COLUMN_BYTES;
        buf_put(out, &width, sizeof(width));
        buf_put_byte(out, (char)TYPE_VAR_STRING);
        put_u16(out, 0);      /* flags */
        buf_put_byte(out, 0); /* decimals */
        put_u16(out, 0);      /* filler */
        packet_end(out, begin, t->sequence++);
}

void mysql_table_begin(struct mysql_table *t, const char *const *columns, size_t n)
{
        ASSERT(n > 0);
        t->n_columns = n;
        t->sequence = 1;
        size_t begin = packet_begin(t->out);
        put_int(t->out, n);
        if (t->caps & MARIADB_CACHE_METADATA)
                buf_put_byte(t->out, 1); /* the definitions follow */
        packet_end(t->out, begin, t->sequence++);
        for (size_t i = 0; i < n; i++)
                put_column(t, columns[i]);
        if (!(t->caps & MYSQL_DEPRECATE_EOF))
                put_eof(t);
}

void mysql_table_row(struct mysql_table *t, const struct slice *cells)
{
        size_t begin = packet_begin(t->out);
        for (size_t i = 0; i < t->n_columns; i++) {
                if (cells[i].ptr)
                        put_text(t->out, cells[i]);
                else
                        buf_put_byte(t->out, (char)LENENC_NULL);
        }
        packet_end(t->out, begin, t->sequence++);
}

void mysql_table_end(struct mysql_table *t)
{
        put_eof(t);
}
