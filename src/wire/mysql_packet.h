/* Packets of the MySQL protocol, and the few fields in them that a relay reads.
 *
 * A packet is a length of three bytes, a sequence number of one, and the payload.  A payload of
 * exactly MYSQL_PAYLOAD_MAX bytes goes on in the next packet, and only its first packet has a
 * command byte or a header of a reply.  Nothing here allocates, except into the caller's buf. */
#ifndef WEIR_WIRE_MYSQL_PACKET_H
#define WEIR_WIRE_MYSQL_PACKET_H

#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/slice.h"

#define MYSQL_HEADER      4U
#define MYSQL_PAYLOAD_MAX 0xffffffU

/* Capabilities of a client or a server; those of MariaDB are in the upper half. */
#define MYSQL_CONNECT_WITH_DB    (UINT64_C(1) << 3)
#define MYSQL_COMPRESS           (UINT64_C(1) << 5)
#define MYSQL_LOCAL_FILES        (UINT64_C(1) << 7)
#define MYSQL_PROTOCOL_41        (UINT64_C(1) << 9)
#define MYSQL_SSL                (UINT64_C(1) << 11)
#define MYSQL_SECURE_CONNECTION  (UINT64_C(1) << 15)
#define MYSQL_PLUGIN_AUTH        (UINT64_C(1) << 19)
#define MYSQL_CONNECT_ATTRS      (UINT64_C(1) << 20)
#define MYSQL_PLUGIN_AUTH_LENENC (UINT64_C(1) << 21)
#define MYSQL_SESSION_TRACK      (UINT64_C(1) << 23)
#define MYSQL_DEPRECATE_EOF      (UINT64_C(1) << 24)
#define MYSQL_OPTIONAL_METADATA  (UINT64_C(1) << 25)
#define MYSQL_ZSTD_COMPRESSION   (UINT64_C(1) << 26)
#define MYSQL_QUERY_ATTRIBUTES   (UINT64_C(1) << 27)
#define MARIADB_PROGRESS         (UINT64_C(1) << 32)
#define MARIADB_STMT_BULK        (UINT64_C(1) << 34)
#define MARIADB_EXTENDED_TYPES   (UINT64_C(1) << 35)
#define MARIADB_CACHE_METADATA   (UINT64_C(1) << 36)
/* What a relay that reads along cannot follow. */
#define MYSQL_UNREADABLE (MYSQL_COMPRESS | MYSQL_ZSTD_COMPRESSION | MYSQL_OPTIONAL_METADATA)

/* Flags of a session, in OK and EOF packets. */
#define MYSQL_STATUS_IN_TRANS      0x0001U
#define MYSQL_STATUS_AUTOCOMMIT    0x0002U
#define MYSQL_STATUS_MORE_RESULTS  0x0008U
#define MYSQL_STATUS_CURSOR_EXISTS 0x0040U

enum mysql_command {
        COM_QUIT = 0x01,
        COM_INIT_DB = 0x02,
        COM_QUERY = 0x03,
        COM_FIELD_LIST = 0x04,
        COM_STATISTICS = 0x09,
        COM_PROCESS_INFO = 0x0a,
        COM_PROCESS_KILL = 0x0c,
        COM_PING = 0x0e,
        COM_CHANGE_USER = 0x11,
        COM_BINLOG_DUMP = 0x12,
        COM_TABLE_DUMP = 0x13,
        COM_REGISTER_SLAVE = 0x15,
        COM_STMT_PREPARE = 0x16,
        COM_STMT_EXECUTE = 0x17,
        COM_STMT_SEND_LONG_DATA = 0x18,
        COM_STMT_CLOSE = 0x19,
        COM_STMT_RESET = 0x1a,
        COM_SET_OPTION = 0x1b,
        COM_STMT_FETCH = 0x1c,
        COM_BINLOG_DUMP_GTID = 0x1e,
        COM_RESET_CONNECTION = 0x1f,
        COM_CLONE = 0x20,
        COM_SUBSCRIBE_GROUP = 0x22,   /* of group replication */
        COM_STMT_BULK_EXECUTE = 0xfa, /* MariaDB */
};

static inline uint32_t mysql_length(const uint8_t *header)
{
        return (uint32_t)header[0] | (uint32_t)header[1] << 8 | (uint32_t)header[2] << 16;
}

/* ---- reading a payload; each takes what it read off the front, false: it is not there ---- */

bool mysql_get_u8(struct slice *rest, uint8_t *ret) MUST_CHECK;
bool mysql_get_u16(struct slice *rest, uint16_t *ret) MUST_CHECK;
bool mysql_get_u32(struct slice *rest, uint32_t *ret) MUST_CHECK;
bool mysql_get_bytes(struct slice *rest, size_t n, struct slice *ret) MUST_CHECK;
bool mysql_get_int(struct slice *rest, uint64_t *ret) MUST_CHECK;           /* length-encoded */
bool mysql_get_text(struct slice *rest, struct slice *ret) MUST_CHECK;      /* length-encoded */
bool mysql_get_zero_text(struct slice *rest, struct slice *ret) MUST_CHECK; /* ends with a NUL */

/* The SQL of a COM_QUERY or COM_STMT_PREPARE, and the number of a statement.  `payload` begins with
 * the command byte; it may be cut at its end (only its beginning was looked at).  With
 * MYSQL_QUERY_ATTRIBUTES a COM_QUERY has attributes first: *ret_attributes is what
 * mysql_query_attribute_next() walks, empty when there are none.  False: it makes no sense. */
struct mysql_attributes {
        struct slice names, values; /* the walk's own */
        const uint8_t *nulls;
        size_t n, at;
};
bool mysql_query_text(struct slice payload, uint64_t caps, struct slice *ret_sql,
                      struct mysql_attributes *ret_attributes) MUST_CHECK;
/* Only attributes whose value is a string are told; others are passed over. */
bool mysql_query_attribute_next(struct mysql_attributes *a, struct slice *ret_name,
                                struct slice *ret_value);

/* Where a COM_STMT_EXECUTE or COM_STMT_BULK_EXECUTE has the types of its parameters.  A client
 * sends them once; later ones rely on the server remembering them. */
struct mysql_types {
        size_t flag_at;   /* in the payload: the byte that says whether they follow */
        uint8_t flag;     /* the bit of it */
        bool is_there;    /* they do */
        struct slice all; /* then; else empty, and they would stand at all.ptr */
};
/* False: it has none (no parameters), or makes no sense. */
bool mysql_execute_types(struct slice payload, uint64_t caps, size_t n_parameters,
                         struct mysql_types *ret) MUST_CHECK;

/* ---- the rest of a packet that passes through unread ---- */

/* What is still to come of a command after its first bytes, over continued packets. */
struct mysql_rest {
        uint32_t left;     /* of the payload at hand */
        bool is_continued; /* another packet follows this payload */
        uint8_t n_header;  /* bytes of its header that have come */
        uint8_t header[MYSQL_HEADER];
        uint8_t sequence; /* of the last header seen */
};
/* The first packet has that header, and `seen` bytes of its payload were taken. */
void mysql_rest_begin(struct mysql_rest *r, const uint8_t header[MYSQL_HEADER], size_t seen);
bool mysql_rest_is_done(const struct mysql_rest *r);
/* How many of the n bytes belong to it. */
size_t mysql_rest_pass(struct mysql_rest *r, const uint8_t *bytes, size_t n);

/* ---- packets that weir makes ---- */

/* sqlstate: five characters; the text is cut to what a packet of 512 bytes holds, header and all.
 * In the greeting's place an error has no SQLSTATE: pass NULL. */
void mysql_put_error(struct buf *out, uint8_t sequence, unsigned number, const char *sqlstate,
                     struct slice text);
/* COM_QUERY, sequence 0, shorter than MYSQL_PAYLOAD_MAX; `caps` of the session it goes into. */
void mysql_put_query(struct buf *out, uint64_t caps, struct slice sql);

/* A result set of texts, as the answer to a COM_QUERY.  The first packet has sequence 1. */
struct mysql_table {
        struct buf *out;
        uint64_t caps;   /* of the client: how columns and rows end */
        uint16_t status; /* of its session, as the server told it last */
        uint8_t sequence;
        size_t n_columns;
};
void mysql_table_begin(struct mysql_table *t, const char *const *columns, size_t n);
void mysql_table_row(struct mysql_table *t, const struct slice *cells); /* ptr NULL: NULL */
void mysql_table_end(struct mysql_table *t);

#endif
