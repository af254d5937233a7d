/* The digest of a statement.
 *
 * Each token is mixed into one 64-bit number and, if wanted, written to the text.  A token is
 * reduced when it is there, not before: the classes of the last sixteen tokens are kept in the
 * nibbles of one word, and when they end in
 *
 *      ? , ?                   the digest goes back to where it was after the first ?
 *      ( ? ) , ( ? )           ... after the first )
 *      - 5                     ... before the sign, where a sign can stand
 *
 * so a list, a row of values and a list of rows are each one step of a few compares.  NULL, TRUE
 * and FALSE are literals as well (rows of an INSERT differ in them), but not after IS and NOT.
 * Unquoted names are in lower case like keywords: one cannot be told from the other without a list
 * of all keywords of all versions.
 *
 * The digest is written in settings (class ... { digest = "..." }), so it must never change: it has
 * no seed, and the constants below are part of the format. */
#include "base/shown.h"
#include "wire/sql_lex_int.h"
#include "wire/sql_text.h"

#define MIX_WORD   0x9e3779b97f4a7c15ULL
#define MIX_LENGTH 0xd6e8feb86659fd93ULL

enum token_class {
        CLASS_OTHER,
        CLASS_LITERAL,
        CLASS_COMMA,
        CLASS_OPEN,
        CLASS_CLOSE,
        CLASS_SIGN,
};
#define CLASS_BITS    4
#define PAST(a, b)    ((uint64_t)(a) << CLASS_BITS | (uint64_t)(b))
#define LIST          PAST(PAST(CLASS_LITERAL, CLASS_COMMA), CLASS_LITERAL)
#define LIST_MASK     0xfffU
#define TWO           PAST(CLASS_LITERAL, CLASS_LITERAL)
#define TWO_MASK      0xffU
#define ROW           PAST(PAST(CLASS_OPEN, CLASS_LITERAL), CLASS_CLOSE)
#define ROW_MASK      0xfffU
#define TWO_ROWS      (PAST(ROW, CLASS_COMMA) << 3 * CLASS_BITS | ROW)
#define TWO_ROWS_MASK 0xfffffffU

/* Everything that going back restores. */
struct point {
        uint64_t hash;
        uint64_t past;   /* classes of the last tokens, the newest in the low bits */
        size_t text_len; /* may be more than there is room for */
        char last;       /* last byte of the text; 'a' for words and literals */
};

struct digest {
        struct point now, after_literal, after_row, before_sign;
        char *text;         /* SQL_DIGEST_TEXT bytes, or NULL */
        bool has_semicolon; /* one was read that counts only if something follows */
};

static inline void mix(struct digest *d, uint64_t v)
{
        uint64_t h = (d->now.hash ^ v) * MIX_WORD;

        d->now.hash = h ^ h >> 32;
}

static inline void put_bytes(struct digest *d, const char *bytes, size_t len)
{
        size_t at = d->now.text_len;

        if (at < SQL_DIGEST_TEXT)
                memcpy(d->text + at, bytes,
                       len < SQL_DIGEST_TEXT - at ? len : SQL_DIGEST_TEXT - at);
        d->now.text_len += len;
}

static bool is_operator(char c)
{
        return c && strchr("<>=!|&:-+*/%^~", c);
}

/* `first` is the first byte of the next token, 'a' for words and literals. */
static void put_space(struct digest *d, char first)
{
        char last = d->now.last;
        bool is_tight = last == '\0' || strchr(",;).", first) || strchr(".(@", last) ||
                        (first == '(' && last == 'a') || (is_operator(first) && is_operator(last));

        if (!is_tight)
                put_bytes(d, " ", 1);
}

static inline void put_text(struct digest *d, char first, struct slice text, bool is_lower)
{
        if (!d->text)
                return;
        put_space(d, first);
        size_t at = d->now.text_len;
        put_bytes(d, text.ptr, text.len);
        for (; is_lower && at < d->now.text_len && at < SQL_DIGEST_TEXT; at++)
                if (d->text[at] >= 'A' && d->text[at] <= 'Z')
                        d->text[at] |= 0x20;
        d->now.last = first;
}

static inline void remember(struct digest *d, enum token_class class)
{
        d->now.past = PAST(d->now.past, class);
}

static inline void add_word(struct digest *d, const struct sql_token *t)
{
        const char *end = t->ptr + t->len;

        put_text(d, 'a', slice_make(t->ptr, t->len), true);
        mix(d, t->head + t->len * MIX_LENGTH);
        for (const char *p = t->ptr + SQL_WORD; p < end; p += SQL_WORD)
                mix(d, sql_fold(sql_load(t->ptr, p, end),
                                end - p < SQL_WORD ? (size_t)(end - p) : SQL_WORD));
        remember(d, CLASS_OTHER);
}

static inline void add_name(struct digest *d, const struct sql_token *t)
{
        const char *end = t->ptr + t->len;

        put_text(d, 'a', slice_make(t->ptr, t->len), false);
        mix(d, t->len * MIX_LENGTH);
        for (const char *p = t->ptr; p < end; p += SQL_WORD)
                mix(d, sql_load(t->ptr, p, end));
        remember(d, CLASS_OTHER);
}

static inline void add_mark(struct digest *d, char c, enum token_class class)
{
        put_text(d, c, slice_make(&c, 1), false);
        mix(d, (uint8_t)c);
        remember(d, class);
        if (class != CLASS_CLOSE)
                return;
        if ((d->now.past & TWO_ROWS_MASK) == TWO_ROWS)
                d->now = d->after_row;
        else if ((d->now.past & ROW_MASK) == ROW)
                d->after_row = d->now;
}

static inline void add_literal(struct digest *d)
{
        put_text(d, 'a', SLICE_LIT("?"), false);
        mix(d, '?');
        remember(d, CLASS_LITERAL);
        if ((d->now.past & LIST_MASK) == LIST || (d->now.past & TWO_MASK) == TWO)
                d->now = d->after_literal;
        else
                d->after_literal = d->now;
}

/* A number, or a parameter in its place. */
static inline void add_number(struct digest *d)
{
        if ((d->now.past & 0xf) == CLASS_SIGN)
                d->now = d->before_sign;
        add_literal(d);
}

/* Words after which a '-' belongs to the number that follows.  Others are names: `a - 1`. */
static bool is_before_sign(const struct sql_token *t)
{
        if (t->kind == TOKEN_MARK)
                return *t->ptr != ')';
        return SQL_IS(t, "and") || SQL_IS(t, "between") || SQL_IS(t, "or") || SQL_IS(t, "not") ||
               SQL_IS(t, "select") || SQL_IS(t, "where") || SQL_IS(t, "when") ||
               SQL_IS(t, "then") || SQL_IS(t, "else") || SQL_IS(t, "case") || SQL_IS(t, "like") ||
               SQL_IS(t, "interval") || SQL_IS(t, "by") || SQL_IS(t, "div") || SQL_IS(t, "mod") ||
               SQL_IS(t, "default");
}

static inline bool is_literal_word(const struct sql_token *t, const struct sql_token *before)
{
        bool is_one = (t->len == 4 && (SQL_IS(t, "null") || SQL_IS(t, "true"))) ||
                      (t->len == 5 && SQL_IS(t, "false"));

        return is_one && !SQL_IS(before, "is") && !SQL_IS(before, "not");
}

static inline void take_mark(struct digest *d, const struct sql_token *t,
                             const struct sql_token *before)
{
        switch (*t->ptr) {
        case '?':
                add_number(d);
                break;
        case ',':
                add_mark(d, ',', CLASS_COMMA);
                break;
        case '(':
                add_mark(d, '(', CLASS_OPEN);
                break;
        case ')':
                add_mark(d, ')', CLASS_CLOSE);
                break;
        case '+':
        case '-': {
                bool is_sign = is_before_sign(before);
                if (is_sign)
                        d->before_sign = d->now;
                add_mark(d, *t->ptr, is_sign ? CLASS_SIGN : CLASS_OTHER);
                break;
        }
        default:
                add_mark(d, *t->ptr, CLASS_OTHER);
        }
}

static inline void take_token(struct digest *d, const struct sql_token *t,
                              const struct sql_token *before)
{
        if (t->kind == TOKEN_WORD && !is_literal_word(t, before))
                add_word(d, t);
        else if (t->kind == TOKEN_MARK)
                take_mark(d, t, before);
        else if (t->kind == TOKEN_NUMBER)
                add_number(d);
        else if (t->kind == TOKEN_NAME)
                add_name(d, t);
        else
                add_literal(d);
}

/* Once for each way to call it: without a text, all of this is in registers. */
static inline __attribute__((always_inline)) uint64_t read_all(struct slice sql, char *text,
                                                               size_t *ret_len)
{
        struct digest d = {.now.hash = MIX_LENGTH, .text = text};
        struct sql_lex lex;
        struct sql_token t, before = {.kind = TOKEN_END};

        sql_lex_init(&lex, sql);
        while (sql_lex_next(&lex, &t) != TOKEN_END) {
                if (t.kind == TOKEN_COMMENT)
                        continue;
                if (sql_is_mark(&t, ';')) {
                        d.has_semicolon = before.kind != TOKEN_END;
                        continue;
                }
                if (d.has_semicolon)
                        add_mark(&d, ';', CLASS_OTHER);
                d.has_semicolon = false;
                take_token(&d, &t, &before);
                before = t;
        }
        *ret_len = d.now.text_len;
        mix(&d, MIX_LENGTH); /* the last token in every bit */
        mix(&d, MIX_LENGTH);
        return d.now.hash ? d.now.hash : 1;
}

static __attribute__((noinline)) uint64_t read_to_text(struct slice sql, char *ret)
{
        char text[SQL_DIGEST_TEXT];
        size_t len;
        uint64_t digest = read_all(sql, text, &len);

        (void)shown_put(ret, sizeof(text),
                        slice_make(text, len < sizeof(text) ? len : sizeof(text)));
        return digest;
}

__attribute__((flatten)) uint64_t sql_digest(struct slice sql, char *ret)
{
        size_t len;

        return ret ? read_to_text(sql, ret) : read_all(sql, NULL, &len);
}
