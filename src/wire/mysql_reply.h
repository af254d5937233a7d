/* Follows the replies of a MySQL server through its stream of bytes: where each ends, and what its
 * last packet says of the session.
 *
 * It looks at the first bytes of each packet and jumps over the rest, so bytes may come cut at any
 * place.  About 10 ns a packet.  Nothing is allocated and nothing is kept of what passed. */
#ifndef WEIR_WIRE_MYSQL_REPLY_H
#define WEIR_WIRE_MYSQL_REPLY_H

#include "wire/mysql_packet.h"

enum mysql_expect {
        MYSQL_EXPECT_RESULT,  /* OK, an error, a request for a file, or result sets */
        MYSQL_EXPECT_EXECUTE, /* the same; with a cursor it ends after the columns */
        MYSQL_EXPECT_PREPARE,
        MYSQL_EXPECT_ROWS,    /* COM_STMT_FETCH: rows without columns */
        MYSQL_EXPECT_COLUMNS, /* COM_FIELD_LIST */
        MYSQL_EXPECT_PACKET,  /* one packet of any kind */
        MYSQL_EXPECT_LOGIN,   /* to a login or COM_CHANGE_USER: many packets, then OK or an error */
};

enum mysql_event {
        MYSQL_NEEDS_MORE, /* everything was taken */
        MYSQL_REPLY_DONE,
        MYSQL_WANTS_FILE, /* the client sends packets now, up to an empty one; the reply goes on */
        /* Of EXPECT_LOGIN: one packet of the server's ended, and the client's turn begins.  It is
         * not told after 01 03 of caching_sha2_password, which the server's OK follows at once. */
        MYSQL_WANTS_AUTH,
        MYSQL_BROKEN, /* the bytes make no sense; the rest can only be passed on unread */
};

struct mysql_reply {
        /* Told with MYSQL_REPLY_DONE. */
        bool is_error;
        uint16_t error;        /* its number */
        bool has_status;       /* an error has none, but a result before it may have had one */
        uint16_t status;       /* of the session; of the last result that had one */
        uint64_t rows;         /* of all its result sets */
        uint64_t affected;     /* of its OK packets */
        uint32_t statement_id; /* of a PREPARE that went well */
        uint16_t parameters;   /* of it */
        /* The machine's own. */
        uint64_t caps;
        uint8_t expect, state;
        uint8_t n_header, n_first; /* bytes of the header, and of the payload's first, seen */
        uint8_t header[MYSQL_HEADER];
        uint8_t first[24]; /* of the payload: as much as any packet needs */
        bool is_continuation;
        uint32_t left;    /* bytes of the packet that are still to be jumped over */
        uint64_t columns; /* definitions still to come */
        uint64_t later;   /* of a PREPARE: column definitions after those of parameters */
};

/* `caps`: what client and server both have (struct mysql_login). */
void mysql_reply_begin(struct mysql_reply *r, enum mysql_expect expect, uint64_t caps);
/* Takes bytes up to the end of the packet that is an event, or all of them.  Returns how many.
 * After MYSQL_REPLY_DONE it takes nothing until the next begin; after MYSQL_BROKEN, which may come
 * within a packet, it takes nothing either, and says so each time. */
size_t mysql_reply_feed(struct mysql_reply *r, const uint8_t *bytes, size_t n,
                        enum mysql_event *ret_event);

#endif
