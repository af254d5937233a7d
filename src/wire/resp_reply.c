/* Reading replies: find the end, then build the tree.
 *
 * The scan keeps a stack of how many values each open container still lacks.  A header line of a
 * container pushes, a scalar counts one off the top and pops whatever became full.  A line or a
 * bulk string that is not all there leaves the scan where it was, so the next call starts at the
 * same header: only an unfinished header line (a few bytes) is ever read twice.
 *
 * The parse trusts nothing either, but since the scan has passed the same bytes it cannot run
 * out of them.  It recurses at most VALUE_DEPTH_MAX deep.
 *
 * Both RESP2 and RESP3 types are known, because a proxy in between may answer in RESP2.  Pushes
 * and attributes are refused: weir never sends them to a client that did not ask. */
#include "wire/resp_reply.h"

#include <string.h>

#include "wire/resp.h"

/* A header line is a type byte and a number, or a status or error line. */
#define LINE_MAX_BYTES 65536

struct line {
        char type;
        struct slice text; /* after the type byte, without CRLF */
        size_t len;        /* with type byte and CRLF */
};

/* 1: there is one; 0: not all there; ERR_SYNTAX. */
static int line_read(struct slice in, struct line *ret)
{
        if (in.len == 0)
                return 0;
        if (!memchr("+-:$*%~_#,(=!", in.ptr[0], 13))
                return ERR_SYNTAX;
        size_t look = in.len < LINE_MAX_BYTES ? in.len : LINE_MAX_BYTES;
        const char *cr = memchr(in.ptr, '\r', look);
        if (!cr)
                return look == LINE_MAX_BYTES ? ERR_SYNTAX : 0;
        size_t at = (size_t)(cr - in.ptr);
        if (at + 1 == in.len)
                return 0;
        if (cr[1] != '\n')
                return ERR_SYNTAX;
        *ret = (struct line){in.ptr[0], {in.ptr + 1, at - 1}, at + 2};
        return 1;
}

static bool is_container(char type)
{
        return type == '*' || type == '~' || type == '%';
}

static bool is_bulk(char type)
{
        return type == '$' || type == '=' || type == '!';
}

/* The number in a header; -1 is RESP2's null. */
static int header_count(const struct line *line, int64_t *ret)
{
        if (!slice_to_i64(line->text, ret) || *ret < -1 || *ret > INT32_MAX)
                return ERR_SYNTAX;
        return OK;
}

void value_scan_init(struct value_scan *scan)
{
        *scan = (struct value_scan){.depth = 1, .left = {1}};
}

/* One value is whole: count it, and every container that it fills. */
static void scan_count(struct value_scan *scan)
{
        while (scan->depth > 0 && --scan->left[scan->depth - 1] == 0)
                scan->depth--;
}

static int scan_open(struct value_scan *scan, const struct line *line, int64_t n)
{
        if (n <= 0) {
                scan_count(scan);
                return OK;
        }
        if (scan->depth == VALUE_DEPTH_MAX)
                return ERR_SYNTAX;
        scan->left[scan->depth++] = (uint64_t)n * (line->type == '%' ? 2 : 1);
        return OK;
}

int value_scan(struct value_scan *scan, struct slice in)
{
        while (scan->depth > 0) {
                struct line line;
                int r = line_read(slice_make(in.ptr + scan->at, in.len - scan->at), &line);
                if (r <= 0)
                        return r;
                int64_t n = 0;
                size_t len = line.len;
                if (is_container(line.type) || is_bulk(line.type)) {
                        r = header_count(&line, &n);
                        if (r != OK)
                                return r;
                }
                if (is_container(line.type)) {
                        r = scan_open(scan, &line, n);
                        if (r != OK)
                                return r;
                        scan->at += len;
                        continue;
                }
                if (is_bulk(line.type) && n >= 0) {
                        len += (size_t)n + 2;
                        if (in.len - scan->at < len)
                                return 0;
                        if (memcmp(in.ptr + scan->at + len - 2, "\r\n", 2) != 0)
                                return ERR_SYNTAX;
                }
                scan->at += len;
                scan_count(scan);
        }
        return 1;
}

struct parser {
        struct slice rest;
        struct arena *arena;
        unsigned depth;
};

static void parser_skip(struct parser *p, size_t n)
{
        p->rest = slice_make(p->rest.ptr + n, p->rest.len - n);
}

static int parse_value(struct parser *p, struct value *ret);

/* NOLINTNEXTLINE(misc-no-recursion): at most VALUE_DEPTH_MAX deep */
static int parse_items(struct parser *p, const struct line *line, struct value *ret)
{
        int64_t n;
        if (header_count(line, &n) != OK || p->depth == VALUE_DEPTH_MAX)
                return ERR_SYNTAX;
        if (n < 0)
                return OK;
        ret->type = line->type == '%' ? VALUE_MAP : VALUE_LIST;
        ret->n = (size_t)n * (line->type == '%' ? 2 : 1);
        if (ret->n > p->rest.len / 3) /* the shortest value is "_\r\n" */
                return ERR_SYNTAX;
        if (ret->n == 0)
                return OK;
        ret->items = arena_array(p->arena, ret->n, sizeof(*ret->items));
        if (!ret->items)
                return ERR_NOMEM;
        p->depth++;
        for (size_t i = 0; i < ret->n; i++) {
                int r = parse_value(p, &ret->items[i]);
                if (r != OK)
                        return r;
        }
        p->depth--;
        return OK;
}

static int parse_bulk(struct parser *p, const struct line *line, struct value *ret)
{
        int64_t n;
        if (header_count(line, &n) != OK)
                return ERR_SYNTAX;
        if (n < 0)
                return OK;
        if (p->rest.len < (size_t)n + 2)
                return ERR_SYNTAX;
        ret->type = line->type == '!' ? VALUE_ERROR : VALUE_TEXT;
        ret->text = slice_make(p->rest.ptr, (size_t)n);
        parser_skip(p, (size_t)n + 2);
        if (line->type == '=') { /* verbatim: "txt:" in front of the text */
                if (n < 4 || ret->text.ptr[3] != ':')
                        return ERR_SYNTAX;
                ret->text = slice_make(ret->text.ptr + 4, (size_t)n - 4);
        }
        return OK;
}

/* NOLINTNEXTLINE(misc-no-recursion): at most VALUE_DEPTH_MAX deep */
static int parse_value(struct parser *p, struct value *ret)
{
        struct line line;
        if (line_read(p->rest, &line) != 1)
                return ERR_SYNTAX;
        parser_skip(p, line.len);
        *ret = (struct value){.type = VALUE_NULL};
        if (is_container(line.type))
                return parse_items(p, &line, ret);
        if (is_bulk(line.type))
                return parse_bulk(p, &line, ret);
        switch (line.type) {
        case '_':
                return line.text.len == 0 ? OK : ERR_SYNTAX;
        case ':':
                ret->type = VALUE_INT;
                return slice_to_i64(line.text, &ret->num) ? OK : ERR_SYNTAX;
        case '#':
                ret->type = VALUE_BOOL;
                ret->num = slice_eq(line.text, SLICE_LIT("t"));
                return ret->num || slice_eq(line.text, SLICE_LIT("f")) ? OK : ERR_SYNTAX;
        default:
                ret->type = line.type == '-' ? VALUE_ERROR : VALUE_TEXT;
                ret->text = line.text;
                return OK;
        }
}

int value_parse(struct slice in, struct arena *arena, struct value **ret)
{
        struct value *v = arena_alloc(arena, sizeof(*v));
        if (!v)
                return ERR_NOMEM;
        struct parser p = {in, arena, 0};
        int r = parse_value(&p, v);
        if (r != OK)
                return r;
        *ret = v;
        return OK;
}

const struct value *value_get(const struct value *v, const char *key)
{
        if (!v || v->type != VALUE_MAP)
                return NULL;
        for (size_t i = 0; i + 1 < v->n; i += 2)
                if (slice_eq(v->items[i].text, slice_str(key)))
                        return &v->items[i + 1];
        return NULL;
}

struct slice value_text(const struct value *v)
{
        return v && v->type == VALUE_TEXT ? v->text : SLICE_NONE;
}

int64_t value_int(const struct value *v, int64_t fallback)
{
        int64_t n;
        if (v && (v->type == VALUE_INT || v->type == VALUE_BOOL))
                return v->num;
        if (v && v->type == VALUE_TEXT && slice_to_i64(v->text, &n))
                return n;
        return fallback;
}

int value_problem(const struct value *v, struct problem *ret)
{
        struct slice line = v->text;
        const char *space = line.len ? memchr(line.ptr, ' ', line.len) : NULL;
        size_t word = space ? (size_t)(space - line.ptr) : line.len;
        int err = err_from_name(line.ptr ? line.ptr : "", word);
        size_t skip = space ? word + 1 : word;
        bool is_ours =
                err != ERR_INTERNAL || slice_eq(slice_make(line.ptr, word), SLICE_LIT("INTERNAL"));
        if (!is_ours) /* a word that is no code of weir's belongs to the sentence */
                skip = 0;
        if (skip == line.len)
                return problem_set(ret, err, "%s", err_text(err));
        return problem_set(ret, err, "%.*s", (int)(line.len - skip), line.ptr + skip);
}

void value_put_command(struct buf *b, const struct slice *argv, size_t argc)
{
        resp_put_array(b, argc);
        for (size_t i = 0; i < argc; i++)
                resp_put_bulk(b, argv[i]);
}
