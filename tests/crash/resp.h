/* The client's half of RESP2, written apart from the server's own code on purpose: a mistake in
 * src/wire must not be able to hide itself here. */
#ifndef CRASH_RESP_H
#define CRASH_RESP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct bytes {
        char *ptr;
        size_t len, cap;
};

void bytes_put(struct bytes *b, const void *ptr, size_t n);
void bytes_printf(struct bytes *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void bytes_drop(struct bytes *b, size_t n); /* from the front */
void bytes_free(struct bytes *b);

/* A command is written as its words; request_begin counts them in advance. */
void request_begin(struct bytes *b, size_t n_words);
void request_word(struct bytes *b, const void *ptr, size_t len);
void request_str(struct bytes *b, const char *s);
void request_num(struct bytes *b, uint64_t v);
/* The whole command from a format whose words are separated by single spaces. */
void request_line(struct bytes *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* A reply as a flat tree in preorder; node->next is the index after the node's last descendant. */
struct node {
        char type; /* + - : $ * and 0 for null */
        const char *ptr;
        size_t len;
        int64_t num; /* ':' the number, '*' the count of children */
        size_t next;
};

struct reply_tree {
        struct node *nodes;
        size_t n, cap;
};

/* Bytes taken, 0 when the reply is not complete yet, -1 when this is no RESP. */
long reply_parse(const char *ptr, size_t len, struct reply_tree *ret);
void reply_tree_free(struct reply_tree *t);

bool node_is(const struct node *n, const char *text);
uint64_t node_u64(const struct node *n); /* of an integer or a decimal string */
/* The value of `key` in a flat map (array of key, value, ...) at index `at`; NULL when absent. */
const struct node *tree_get(const struct reply_tree *t, size_t at, const char *key);

#endif
