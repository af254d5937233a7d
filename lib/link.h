/* The connection of a handle: one question at a time, every step with a deadline.
 *
 * Functions return WEIR_OK or an enum weir_error with a sentence in `trouble`, and then the
 * connection is closed: after half an answer the next bytes have no meaning. */
#ifndef WEIR_LIB_LINK_H
#define WEIR_LIB_LINK_H

#include "weir.h"

#include "wire/resp_reply.h"
#include "wire/server_url.h"
#include "wire/tls_client.h"

struct link {
        struct server_url url;
        int fd;                 /* -1: closed */
        struct tls_client *tls; /* NULL: the bytes are plain */
        bool is_fresh;          /* nothing was answered yet on this connection */
        bool is_interruptible;  /* a signal ends a wait */
        struct buf out;         /* the question, filled by the caller */
        struct buf in;
        size_t in_at; /* bytes of `in` that were read as replies */
        struct arena arena;
        struct problem trouble; /* the last failure; err is an enum weir_error */
};

void link_init(struct link *l);
void link_release(struct link *l);
void link_close(struct link *l);

/* Closes a connection on which the other side ended or spoke out of turn. */
void link_look(struct link *l);
int link_connect(struct link *l, int64_t deadline_ns) MUST_CHECK;
/* Sends l->out and reads one reply, valid until the next call.  An error reply of weir's is a
 * value like any other: the caller's business. */
int link_ask(struct link *l, int64_t deadline_ns, const struct value **ret) MUST_CHECK;

/* WEIR_OK when the time has come, or WEIR_EINTR. */
int link_sleep(const struct link *l, int64_t until_ns) MUST_CHECK;
int64_t link_now_ns(void); /* CLOCK_BOOTTIME */

#endif
