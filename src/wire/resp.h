/* The server's half of RESP: requests in, replies out.  Pure: bytes and values, no socket.
 *
 * Parsing is a function of the bytes alone.  The caller shows everything since the request's
 * first byte; a request that is not complete asks for `need` bytes, and asking again with fewer
 * is of no use.  Arguments of an array are borrowed from the input; words of an inline line that
 * had quotes are unescaped into the arena. */
#ifndef WEIR_WIRE_RESP_H
#define WEIR_WIRE_RESP_H

#include "base/arena.h"
#include "base/buf.h"

/* An inline line: a person types it, so it is short; Redis has the same bound. */
#define RESP_INLINE_MAX (64 * KIB)

enum resp_step {
        RESP_MORE,    /* need says how many bytes there must be at least */
        RESP_REQUEST, /* argv[0..argc) in the first `used` bytes; argc may be 0: nothing to do */
        RESP_BAD,     /* not RESP, or past a limit; error says why; the connection is over */
        RESP_FOREIGN, /* HTTP or TLS: close without a word */
};

struct resp_request {
        /* Set by the caller. */
        struct slice *argv; /* room for argv_max */
        size_t argv_max;
        size_t bytes_max; /* a larger request is refused before it has arrived */
        /* Set by resp_parse. */
        size_t argc;
        size_t used;
        size_t need;
        const char *error; /* a sentence, static */
};

enum resp_step resp_parse(struct slice in, struct arena *arena, struct resp_request *r);

/* Replies.  `proto` is 2 or 3; what RESP2 has no type for is written as clients of Redis know
 * it. */
void resp_put_int(struct buf *b, int64_t v);
void resp_put_bulk(struct buf *b, struct slice s);
void resp_put_simple(struct buf *b, const char *text);
void resp_put_error(struct buf *b, const char *name, const char *detail); /* no CR or LF in them */
void resp_put_null(struct buf *b, int proto);
void resp_put_bool(struct buf *b, bool v, int proto);
void resp_put_array(struct buf *b, size_t n);
void resp_put_map(struct buf *b, size_t n, int proto);
void resp_put_verbatim(struct buf *b, struct slice s, int proto); /* text for people */

#endif
