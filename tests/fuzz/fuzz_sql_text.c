/* Any bytes as an SQL text, and statements made from them.
 *
 * A second reader, byte by byte and without tricks, must find the same tokens.  Everything that is
 * found lies in the text, which is in a block of exactly its size.  Whatever the comments say, the
 * identity is a valid one.
 *
 * The bytes are also read as a recipe of a statement that is written twice, with other literals,
 * white space, comments and case: the kind, the digest and its text must be the same. */
#include <stdio.h>
#include <stdlib.h>

#include "gate/sql_class.h"
#include "wire/sql_lex_int.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* --- the slow reader -------------------------------------------------------------------------- */

struct slow {
        const char *at, *end;
        const char *name_end;
        unsigned code_comments;
};

static bool is_word_byte(char c)
{
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
               c == '_' || c == '$' || (uint8_t)c >= 0x80;
}

static bool has(const struct slow *s, size_t i, char c)
{
        return (size_t)(s->end - s->at) > i && s->at[i] == c;
}

static bool has_digit(const struct slow *s, size_t i)
{
        return (size_t)(s->end - s->at) > i && s->at[i] >= '0' && s->at[i] <= '9';
}

static void slow_quoted(struct slow *s)
{
        char quote = *s->at++;

        for (; s->at < s->end; s->at++) {
                if (*s->at == '\\' && quote != '`' && s->end - s->at > 1) {
                        s->at++;
                } else if (*s->at == quote) {
                        s->at++;
                        if (!has(s, 0, quote))
                                return;
                }
        }
}

static enum sql_token_kind slow_number(struct slow *s)
{
        const char *start = s->at;
        enum sql_token_kind kind = TOKEN_NUMBER;

        while (has_digit(s, 0))
                s->at++;
        if (s->at - start == 1 && *start == '0' && (has(s, 0, 'x') || has(s, 0, 'b'))) {
                while (s->at < s->end && is_word_byte(*s->at))
                        s->at++;
                return kind;
        }
        if (has(s, 0, '.'))
                for (s->at++; has_digit(s, 0);)
                        s->at++;
        bool has_sign = has(s, 1, '+') || has(s, 1, '-');
        if ((has(s, 0, 'e') || has(s, 0, 'E')) && has_digit(s, 1 + has_sign))
                for (s->at += 1 + has_sign; has_digit(s, 0);)
                        s->at++;
        for (; s->at < s->end && is_word_byte(*s->at); s->at++)
                kind = TOKEN_WORD;
        return kind;
}

/* A comment with its marks; its text in *t. */
static void slow_comment(struct slow *s, struct sql_token *t)
{
        t->ptr = s->at += 2;
        while (s->at < s->end && !(has(s, 0, '*') && has(s, 1, '/')))
                s->at++;
        t->len = (size_t)(s->at - t->ptr);
        s->at += s->at < s->end ? 2 : 0;
}

/* Past what opens an executable comment. */
static bool slow_opens(struct slow *s)
{
        size_t mark = has(s, 2, 'M') ? 3 : 2, digits = 0;

        if (!has(s, 0, '/') || !has(s, 1, '*') || !has(s, mark, '!'))
                return false;
        s->at += mark + 1;
        while (has_digit(s, digits))
                digits++;
        s->at += digits < 5 ? 0 : (digits == 5 ? 5 : 6);
        s->code_comments++;
        return true;
}

static bool slow_skips(struct slow *s)
{
        if (s->at < s->end && (uint8_t)*s->at <= ' ') {
                s->at++;
                return true;
        }
        if (has(s, 0, '*') && has(s, 1, '/') && s->code_comments) {
                s->at += 2;
                s->code_comments--;
                return true;
        }
        return slow_opens(s);
}

static enum sql_token_kind slow_word(struct slow *s)
{
        char c = *s->at;

        if (strchr("xXbBnN", c) && has(s, 1, '\'')) {
                s->at++;
                slow_quoted(s);
                return TOKEN_STRING;
        }
        while (s->at < s->end && is_word_byte(*s->at))
                s->at++;
        return TOKEN_WORD;
}

static void slow_next(struct slow *s, struct sql_token *t)
{
        while (slow_skips(s))
                ;
        t->ptr = s->at;
        t->kind = TOKEN_END;
        if (s->at == s->end)
                return;
        char c = *s->at;
        bool is_line = c == '#' || (c == '-' && has(s, 1, '-') &&
                                    (s->end - s->at == 2 || (uint8_t)s->at[2] <= ' '));
        if (is_line || (c == '/' && has(s, 1, '*'))) {
                t->kind = TOKEN_COMMENT;
                if (!is_line) {
                        slow_comment(s, t);
                        return;
                }
                while (s->at < s->end && *s->at++ != '\n')
                        ;
                t->len = 0;
                return;
        }
        if ((c >= '0' && c <= '9') || (c == '.' && has_digit(s, 1) && s->at != s->name_end))
                t->kind = slow_number(s);
        else if (is_word_byte(c))
                t->kind = slow_word(s);
        else if (c == '\'' || c == '"' || c == '`')
                slow_quoted(s);
        else
                s->at++;
        if (c == '.' && t->kind == TOKEN_WORD)
                t->kind = TOKEN_NUMBER;
        if (t->kind == TOKEN_END)
                t->kind =
                        c == '`' ? TOKEN_NAME : (c == '\'' || c == '"' ? TOKEN_STRING : TOKEN_MARK);
        t->len = (size_t)(s->at - t->ptr);
        /* A dot after a number or a string in quotes is no decimal point, either. */
        if (t->kind != TOKEN_MARK && c != '.')
                s->name_end = s->at;
}

static void check_tokens(struct slice sql)
{
        struct slow s = {.at = sql.ptr, .end = sql.ptr + sql.len};
        struct sql_lex l;
        struct sql_token got, want = {0};

        sql_lex_init(&l, sql);
        do {
                enum sql_token_kind kind = sql_lex_next(&l, &got);
                slow_next(&s, &want);
                ASSERT(kind == got.kind && got.kind == want.kind && l.at == s.at);
                if (kind == TOKEN_END)
                        break;
                ASSERT(got.len == want.len);
                ASSERT(got.ptr == want.ptr || got.len == 0);
                if (kind != TOKEN_WORD)
                        continue;
                for (size_t i = 0; i < 8; i++) {
                        uint8_t c = i < got.len ? (uint8_t)got.ptr[i] : 0;
                        c |= i < got.len && c < 0x80 ? 0x20 : 0;
                        ASSERT((uint8_t)(got.head >> 8 * i) == c);
                }
        } while (true);
}

/* --- any bytes -------------------------------------------------------------------------------- */

static void check_within(struct slice part, struct slice sql)
{
        ASSERT(part.len == 0 || (part.ptr >= sql.ptr && part.len <= sql.len &&
                                 part.ptr + part.len <= sql.ptr + sql.len));
}

static void check_text(struct slice sql)
{
        char text[SQL_DIGEST_TEXT], value[32];
        struct sql_text t;

        memset(&t, 0xa5, sizeof(t));
        sql_text_scan(sql, &t);
        ASSERT(t.kind < SQL_KINDS && t.n_tags <= SQL_TAGS_MAX);
        check_within(t.database, sql);
        check_within(t.show, sql);
        for (size_t i = 0; i < t.n_tags; i++) {
                ASSERT(t.tags[i].key.len > 0);
                check_within(t.tags[i].key, sql);
                check_within(t.tags[i].value, sql);
                size_t n = sql_tag_decode(t.tags[i].value, value, sizeof(value));
                ASSERT(n < sizeof(value) && value[n] == '\0');
        }
        memset(text, 0xa5, sizeof(text));
        uint64_t digest = sql_digest(sql, text);
        ASSERT(digest != 0 && digest == sql_digest(sql, NULL));
        ASSERT(memchr(text, '\0', sizeof(text)) && slice_is_utf8(slice_str(text)));
        for (const char *at = text; *at; at++)
                ASSERT((uint8_t)*at >= ' ' && *at != 0x7f);
}

static void check_class(struct slice sql)
{
        static const struct class_row rows[] = {
                {.name = SLICE_LIT("a"), .comment = SLICE_LIT("*=a*b")},
                {.name = SLICE_LIT("b"), .user = SLICE_LIT("*e?"), .address = SLICE_LIT("::/3")},
        };
        struct slice half = slice_make(sql.ptr, sql.len / 2);
        struct class_table *t = class_table_new(rows, ARRAY_LEN(rows), SLICE_NONE);
        struct class_facts facts = {.user = half, .program = sql, .address = half};
        struct class_explanation e;
        struct identity id;

        class_explain(t, &facts, sql, &e);
        ASSERT(identity_parse(slice_str(e.identity), &id, NULL) == OK);
        facts.attribute_id = sql;
        (void)class_identity(NULL, &facts, e.identity, sizeof(e.identity));
        ASSERT(identity_parse(slice_str(e.identity), &id, NULL) == OK);
        class_table_free(t);
}

/* --- statements ------------------------------------------------------------------------------- */

/* What a statement is made of.  '?' stands for a literal, of which two ways to write it follow. */
static const char *const pieces[] = {
        "select",    "from",     "t",         "where",  "id",           "in",          "(",
        ")",         ",",        "=",         ".",      "insert",       "into",        "values",
        "for",       "update",   "delete",    "begin",  "commit",       "set",         "*",
        "`A b`",     "and",      "not",       "is",     "lock",         "tables",      "with",
        "as",        "xa",       "rollback",  "to",     "work",         "flush",       "read",
        "explain",   "analyze",  "table",     "sleep",  "release_lock", "@@x",         "group",
        "by",        "create",   "procedure", ";",      "start",        "transaction", "snapshot",
        "statement", "\xc3\xa4", "(?)",       "(?, ?)", ">=",
};

static const char *const literals[] = {
        "1",      "'a'",  "0x1f", "-5",    "'it''s'",           "\"x\\\"y\"",
        "1.5e-3", ".5",   "null", "x'00'", "'a, (b'",           "true",
        "'--'",   "'/*'", "N'x'", "?",     "12345678901234567",
};

static const char *const spaces[] = {
        " ", "\n", "\t ", " /* c */ ", " -- c\n", "/**/ ", " # ' \n", " /*! */ ", " /*+ x */",
};

struct text {
        char bytes[1 << 14];
        size_t len;
};

static void put(struct text *t, const char *s, bool is_upper)
{
        for (; *s && t->len < sizeof(t->bytes); s++) {
                bool is_small = *s >= 'a' && *s <= 'z';
                t->bytes[t->len++] = (char)(is_upper && is_small ? *s - 0x20 : *s);
        }
}

static const char *piece_of(uint8_t byte)
{
        return byte % 64 < ARRAY_LEN(pieces) ? pieces[byte % 64] : NULL;
}

/* Names in backticks keep their case. */
static void write_statement(const uint8_t *data, size_t size, unsigned clothes, struct text *t)
{
        unsigned r = clothes;

        t->len = 0;
        for (size_t i = 0; i < size; i++) {
                r = r * 1103515245 + 12345;
                const char *piece = piece_of(data[i]);
                bool is_upper = clothes && (r >> 30 & 1) && piece && *piece != '`';
                size_t literal = clothes ? (r >> 16) % ARRAY_LEN(literals) : 0;
                put(t, piece ? piece : literals[literal], is_upper);
                put(t, spaces[clothes ? (r >> 8) % ARRAY_LEN(spaces) : 0], false);
        }
}

/* Literals are only where any of them can be: NULL and TRUE are words like others after IS and NOT
 * and before a parenthesis, and the sign of a number is an operator after a name. */
static bool is_plain(const uint8_t *data, size_t size)
{
        for (size_t i = 0; i < size; i++) {
                const char *last = i > 0 ? piece_of(data[i - 1]) : NULL;
                const char *next = i + 1 < size ? piece_of(data[i + 1]) : ";";
                if (piece_of(data[i]))
                        continue;
                if (!last || !strchr("(,=", last[strlen(last) - 1]) || !next || *next == '(')
                        return false;
        }
        return true;
}

static void check_clothes(const uint8_t *data, size_t size)
{
        static struct text plain, dressed;
        char text[SQL_DIGEST_TEXT], dressed_text[SQL_DIGEST_TEXT];
        struct sql_text t, u;

        if (size > 200 || !is_plain(data, size))
                return;
        write_statement(data, size, 0, &plain);
        struct slice a = slice_make(plain.bytes, plain.len);
        uint64_t digest = sql_digest(a, text);
        sql_text_scan(a, &t);
        for (unsigned clothes = 1; clothes < 5; clothes++) {
                write_statement(data, size, clothes * 7919, &dressed);
                struct slice b = slice_make(dressed.bytes, dressed.len);
                uint64_t other = sql_digest(b, dressed_text);
                sql_text_scan(b, &u);
                bool is_same = digest == other && strcmp(text, dressed_text) == 0 &&
                               t.kind == u.kind && t.is_multi == u.is_multi &&
                               t.may_change_session == u.may_change_session;
                if (!is_same)
                        (void)fprintf(stderr, "%.*s\n%s %s\n%.*s\n%s %s\n", (int)a.len, a.ptr, text,
                                      sql_kind_name(t.kind), (int)b.len, b.ptr, dressed_text,
                                      sql_kind_name(u.kind));
                ASSERT(is_same);
        }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        char *copy = malloc(size ? size : 1);

        ASSERT(copy);
        if (size)
                memcpy(copy, data, size);
        struct slice sql = slice_make(copy, size);
        check_tokens(sql);
        check_text(sql);
        check_class(sql);
        check_clothes(data, size);
        free(copy);
        return 0;
}
