/* RESP2 for a client that must not trust the server: every length is checked, anything odd is
 * "no RESP" and ends the run.
 *
 * A reply is parsed from its beginning each time more bytes have come.  Replies here are small
 * (at most a page of JOBS), so the repeated work costs less than a resumable parser would. */
#include "resp.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void bytes_grow(struct bytes *b, size_t n)
{
        if (b->cap - b->len >= n)
                return;
        size_t cap = b->cap ? b->cap : 4096;
        while (cap - b->len < n)
                cap *= 2;
        b->ptr = realloc(b->ptr, cap);
        if (!b->ptr)
                abort();
        b->cap = cap;
}

void bytes_put(struct bytes *b, const void *ptr, size_t n)
{
        if (n == 0)
                return;
        bytes_grow(b, n);
        memcpy(b->ptr + b->len, ptr, n);
        b->len += n;
}

__attribute__((format(printf, 2, 0))) static void bytes_vprintf(struct bytes *b, const char *fmt,
                                                                va_list args)
{
        va_list again;
        va_copy(again, args);
        int n = vsnprintf(NULL, 0, fmt, again);
        va_end(again);
        if (n < 0)
                abort();
        bytes_grow(b, (size_t)n + 1);
        (void)vsnprintf(b->ptr + b->len, (size_t)n + 1, fmt, args);
        b->len += (size_t)n;
}

void bytes_printf(struct bytes *b, const char *fmt, ...)
{
        va_list args;
        va_start(args, fmt);
        bytes_vprintf(b, fmt, args);
        va_end(args);
}

void bytes_drop(struct bytes *b, size_t n)
{
        memmove(b->ptr, b->ptr + n, b->len - n);
        b->len -= n;
}

void bytes_free(struct bytes *b)
{
        free(b->ptr);
        *b = (struct bytes){0};
}

void request_begin(struct bytes *b, size_t n_words)
{
        bytes_printf(b, "*%zu\r\n", n_words);
}

void request_word(struct bytes *b, const void *ptr, size_t len)
{
        bytes_printf(b, "$%zu\r\n", len);
        bytes_put(b, ptr, len);
        bytes_put(b, "\r\n", 2);
}

void request_str(struct bytes *b, const char *s)
{
        request_word(b, s, strlen(s));
}

void request_num(struct bytes *b, uint64_t v)
{
        char text[24];
        int n = snprintf(text, sizeof(text), "%llu", (unsigned long long)v);
        request_word(b, text, (size_t)n);
}

void request_line(struct bytes *b, const char *fmt, ...)
{
        struct bytes line = {0};
        va_list args;
        va_start(args, fmt);
        bytes_vprintf(&line, fmt, args);
        va_end(args);
        size_t words = 1;
        for (size_t i = 0; i < line.len; i++)
                words += line.ptr[i] == ' ';
        request_begin(b, words);
        const char *at = line.ptr, *end = line.ptr + line.len;
        while (words--) {
                const char *space = memchr(at, ' ', (size_t)(end - at));
                size_t n = (size_t)((space ? space : end) - at);
                request_word(b, at, n);
                at += n + 1;
        }
        bytes_free(&line);
}

struct cursor {
        const char *at, *end;
        struct reply_tree *tree;
};

/* A header line: its text without CRLF; 0 when incomplete. */
static int take_line(struct cursor *c, const char **ret, size_t *ret_len)
{
        const char *lf = memchr(c->at, '\n', (size_t)(c->end - c->at));
        if (!lf)
                return 0;
        if (lf == c->at || lf[-1] != '\r')
                return -1;
        *ret = c->at;
        *ret_len = (size_t)(lf - 1 - c->at);
        c->at = lf + 1;
        return 1;
}

static int to_i64(const char *ptr, size_t len, int64_t *ret)
{
        char text[24];
        if (len == 0 || len >= sizeof(text))
                return -1;
        memcpy(text, ptr, len);
        text[len] = '\0';
        char *end;
        *ret = strtoll(text, &end, 10);
        return *end ? -1 : 1;
}

static size_t tree_add(struct reply_tree *t)
{
        if (t->n == t->cap) {
                t->cap = t->cap ? t->cap * 2 : 64;
                t->nodes = realloc(t->nodes, t->cap * sizeof(*t->nodes));
                if (!t->nodes)
                        abort();
        }
        t->nodes[t->n] = (struct node){0};
        return t->n++;
}

static int take_bulk(struct cursor *c, struct node *node)
{
        if (node->num == -1) {
                node->type = 0;
                return 1;
        }
        if (node->num < 0 || node->num > (1 << 26))
                return -1;
        size_t n = (size_t)node->num;
        if ((size_t)(c->end - c->at) < n + 2)
                return 0;
        if (memcmp(c->at + n, "\r\n", 2) != 0)
                return -1;
        node->ptr = c->at;
        node->len = n;
        c->at += n + 2;
        return 1;
}

/* As deep as the reply, and that is checked: at most 8. */
static int take_value(struct cursor *c, int depth) // NOLINT(misc-no-recursion)
{
        if (c->at == c->end)
                return 0;
        size_t index = tree_add(c->tree);
        struct node *node = &c->tree->nodes[index];
        node->type = *c->at++;
        int rc = take_line(c, &node->ptr, &node->len);
        if (rc <= 0)
                return rc;
        switch (node->type) {
        case '+':
        case '-':
                break;
        case ':':
        case '$':
        case '*':
                if (to_i64(node->ptr, node->len, &node->num) < 0)
                        return -1;
                if (node->type == '$')
                        rc = take_bulk(c, node);
                break;
        default:
                return -1;
        }
        if (rc > 0 && node->type == '*') {
                int64_t n = node->num;
                if (n < -1 || depth > 8)
                        return -1;
                if (n == -1)
                        node->type = 0;
                for (int64_t i = 0; i < n && rc > 0; i++)
                        rc = take_value(c, depth + 1);
        }
        c->tree->nodes[index].next = c->tree->n;
        return rc;
}

long reply_parse(const char *ptr, size_t len, struct reply_tree *ret)
{
        ret->n = 0;
        struct cursor c = {ptr, ptr + len, ret};
        int rc = take_value(&c, 0);
        return rc > 0 ? c.at - ptr : rc;
}

void reply_tree_free(struct reply_tree *t)
{
        free(t->nodes);
        *t = (struct reply_tree){0};
}

bool node_is(const struct node *n, const char *text)
{
        return n && n->ptr && n->len == strlen(text) && memcmp(n->ptr, text, n->len) == 0;
}

uint64_t node_u64(const struct node *n)
{
        if (!n)
                return 0;
        if (n->type == ':')
                return (uint64_t)n->num;
        int64_t v = 0;
        if (!n->ptr || to_i64(n->ptr, n->len, &v) < 0)
                return 0;
        return (uint64_t)v;
}

const struct node *tree_get(const struct reply_tree *t, size_t at, const char *key)
{
        if (t->nodes[at].type != '*')
                return NULL;
        size_t end = t->nodes[at].next;
        for (size_t i = at + 1; i < end;) {
                size_t value = t->nodes[i].next;
                if (value >= end)
                        return NULL;
                if (node_is(&t->nodes[i], key))
                        return &t->nodes[value];
                i = t->nodes[value].next;
        }
        return NULL;
}
