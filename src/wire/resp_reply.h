/* The client's half of RESP: commands out, replies in.  Pure: bytes and values, no socket.
 *
 * A reply may be megabytes and arrive in pieces, so reading goes in two passes: a scan that
 * remembers where it stopped finds the end of the reply (each byte is looked at once, however it
 * was cut), then one parse builds the tree.  Texts are borrowed from the input bytes, containers
 * from the arena. */
#ifndef WEIR_WIRE_RESP_REPLY_H
#define WEIR_WIRE_RESP_REPLY_H

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"

enum value_type {
        VALUE_NULL,
        VALUE_BOOL,  /* num is 0 or 1 */
        VALUE_INT,   /* num */
        VALUE_TEXT,  /* text; also doubles and big numbers, as they were written */
        VALUE_ERROR, /* text is the whole line: "NOTFOUND no job 17" */
        VALUE_LIST,  /* items[0..n) */
        VALUE_MAP,   /* items[0..n): key, value, key, value */
};

struct value {
        enum value_type type;
        int64_t num;
        struct slice text;
        struct value *items;
        size_t n; /* of items; even in a map */
};

/* weir nests three deep; more than this is no reply of weir's. */
#define VALUE_DEPTH_MAX 16

struct value_scan {
        size_t at;                      /* bytes looked at; the reply's length when complete */
        unsigned depth;                 /* open containers */
        uint64_t left[VALUE_DEPTH_MAX]; /* values still missing in each */
};

void value_scan_init(struct value_scan *scan);
/* `in` is everything since the reply's first byte and only grows.  1: complete, scan->at bytes;
 * 0: more is needed; ERR_SYNTAX: this is not RESP. */
int value_scan(struct value_scan *scan, struct slice in) MUST_CHECK;

/* The tree of one complete reply.  ERR_SYNTAX, ERR_NOMEM past the arena's limit. */
int value_parse(struct slice in, struct arena *arena, struct value **ret) MUST_CHECK;

/* The value under a key of a map; NULL when absent or when `v` is no map (NULL is fine). */
const struct value *value_get(const struct value *v, const char *key);
struct slice value_text(const struct value *v);             /* empty when it is no text */
int64_t value_int(const struct value *v, int64_t fallback); /* also from a text of digits */

/* A server's error line as a problem: the code from its first word, the rest as the detail. */
int value_problem(const struct value *v, struct problem *ret);

/* One command as an array of bulk strings. */
void value_put_command(struct buf *b, const struct slice *argv, size_t argc);

#endif
