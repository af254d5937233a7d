/* A reply as one line of text, for tests: 17, 'text', [..], {key: value}, OK, !NAME detail. */
#ifndef WEIR_TESTS_TEXT_REPLY_H
#define WEIR_TESTS_TEXT_REPLY_H

#include "base/buf.h"
#include "core/reply.h"

struct text_reply {
        struct reply base;
        struct buf text;
};

void text_reply_init(struct text_reply *r);
void text_reply_release(struct text_reply *r);
void text_reply_clear(struct text_reply *r);
const char *text_reply_str(struct text_reply *r);

#endif
