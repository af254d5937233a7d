/* A reply as one line of text, for tests: 17, 'text', [..], {key: value}, OK, !NAME detail.
 *
 * A list or map that holds more or less than it was announced with fails the test: over RESP the
 * size goes first, and every later answer of the connection would be read wrongly. */
#ifndef WEIR_TESTS_TEXT_REPLY_H
#define WEIR_TESTS_TEXT_REPLY_H

#include "api/reply.h"
#include "base/buf.h"

#define TEXT_REPLY_DEPTH 72 /* more than a kept answer may have: test_answer_tape tries that */

struct text_reply {
        struct reply base;
        struct buf text;
        struct {
                size_t announced, seen;
                bool is_map; /* then keys are counted */
        } open[TEXT_REPLY_DEPTH];
        size_t depth;
};

void text_reply_init(struct text_reply *r);
void text_reply_release(struct text_reply *r);
void text_reply_clear(struct text_reply *r);
const char *text_reply_str(struct text_reply *r);

#endif
