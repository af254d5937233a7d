/* A reply as JSON: what the core says, into a body. */
#ifndef WEIR_DOOR_JSON_REPLY_H
#define WEIR_DOOR_JSON_REPLY_H

#include "api/reply.h"
#include "base/buf.h"

struct json_reply {
        struct reply reply;
        struct buf *body; /* not owned */
        uint32_t arrays;  /* bit i: the open container at depth i is an array */
        uint8_t depth;
        const char *key; /* the newest one, and where it begins */
        size_t key_at;
        bool is_wrapped;
        bool is_again; /* given before, for the same idempotency key */
        bool is_first_int_set;
        int64_t first_int; /* the id of a created job, for Location */
        int err;           /* OK, or what the whole reply is */
};

void json_reply_init(struct json_reply *r, struct buf *body);
void json_reply_finish(struct json_reply *r); /* the body is complete */

/* {"type":...,"title":...,"status":...,"code":...,"detail":...}, RFC 9457. */
void json_put_problem(struct buf *b, int status, const struct problem *problem);

#endif
