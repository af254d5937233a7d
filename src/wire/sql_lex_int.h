/* The tokens of an SQL text, for sql_text.c and sql_digest.c.
 *
 * Words are most of a statement, and a loop over their bytes ends with a branch that the processor
 * guesses wrong at nearly every word.  So the bytes that can be part of one are marked in a mask,
 * 64 at a time, and the length of a word is a count of bits.  Its first eight bytes, folded to
 * lower case in one register, are what keywords are compared with.
 *
 * What the server would execute is code: the text within executable comments ("/ *!40001 x * /",
 * "/ *M!100100 x * /") comes as tokens, whatever version they ask for.  "--" begins a comment only
 * before white space or at the end.  Strings have backslashes and doubled quotes; text in double
 * quotes is a string (as without ANSI_QUOTES).  What is not ended ends with the text. */
#ifndef WEIR_WIRE_SQL_LEX_INT_H
#define WEIR_WIRE_SQL_LEX_INT_H

#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include "base/bytes.h"
#include "base/slice.h"

enum sql_token_kind {
        TOKEN_END,
        TOKEN_WORD,    /* a keyword or a name */
        TOKEN_NAME,    /* a name in backticks, with them */
        TOKEN_NUMBER,  /* without its sign */
        TOKEN_STRING,  /* with its quotes, also x'00' and the like */
        TOKEN_COMMENT, /* its text, without the marks; empty for -- and # */
        TOKEN_MARK,    /* one byte of punctuation */
};

struct sql_token {
        enum sql_token_kind kind;
        const char *ptr;
        size_t len;
        uint64_t head; /* TOKEN_WORD: its first eight bytes, folded, then zeros */
};

struct sql_lex {
        const char *from, *at, *end;
        const char *name_end;   /* where the last name ended: a dot there is no decimal point */
        unsigned code_comments; /* executable comments that are open */
        /* Of the 64 bytes from `block` on: which can be part of a word. */
        const char *block;
        uint64_t words;
};

#define SQL_BLOCK     64 /* bits of a word: bytes of a mask */
#define SQL_WORD      8
#define SQL_ONES      0x0101010101010101ULL
#define SQL_HIGH      0x8080808080808080ULL
#define SQL_ALL_OF(c) (SQL_ONES * (uint64_t)(c))

/* What a token that begins with that byte is. */
enum sql_byte {
        SQL_MARK,
        SQL_SPACE,
        SQL_LETTER, /* of a word, also above ASCII */
        SQL_DIGIT,
        SQL_QUOTE,
        SQL_TRICKY, /* a comment, a number or a mark: the next byte tells */
};
static const uint8_t sql_bytes[256] = {
        [0 ... ' '] = SQL_SPACE,   ['a' ... 'z'] = SQL_LETTER, ['A' ... 'Z'] = SQL_LETTER,
        ['_'] = SQL_LETTER,        ['$'] = SQL_LETTER,         [0x80 ... 0xff] = SQL_LETTER,
        ['0' ... '9'] = SQL_DIGIT, ['\''] = SQL_QUOTE,         ['"'] = SQL_QUOTE,
        ['`'] = SQL_QUOTE,         ['/'] = SQL_TRICKY,         ['-'] = SQL_TRICKY,
        ['#'] = SQL_TRICKY,        ['*'] = SQL_TRICKY,         ['.'] = SQL_TRICKY,
};

/* The head of a word of lower-case letters. */
#define SQL_HEAD_AT(s, i)                                                                          \
        ((i) < sizeof(s) - 1 ? (uint64_t)((s "\0\0\0\0\0\0\0")[i] | 0x20) << SQL_WORD * (i) : 0)
#define SQL_HEAD(s)                                                                                \
        (SQL_HEAD_AT(s, 0) | SQL_HEAD_AT(s, 1) | SQL_HEAD_AT(s, 2) | SQL_HEAD_AT(s, 3) |           \
         SQL_HEAD_AT(s, 4) | SQL_HEAD_AT(s, 5) | SQL_HEAD_AT(s, 6) | SQL_HEAD_AT(s, 7))

/* Is the token that word?  `s` is a literal of 1 to 17 lower-case letters. */
#define SQL_IS(token, s)                                                                           \
        ((token)->kind == TOKEN_WORD && (token)->len == sizeof(s) - 1 &&                           \
         (token)->head == SQL_HEAD(s) && (sizeof(s) <= SQL_WORD + 1 || sql_same_tail(token, s)))

static inline bool sql_same_tail(const struct sql_token *t, const char *s)
{
        return slice_eq_nocase(slice_make(t->ptr, t->len), slice_make(s, t->len));
}

static inline bool sql_is_mark(const struct sql_token *t, char c)
{
        return t->kind == TOKEN_MARK && *t->ptr == c;
}

/* Up to eight bytes at p, then zeros.  All from `from` to `end` may be read. */
static inline uint64_t sql_load(const char *from, const char *p, const char *end)
{
        uint64_t w = 0;

        if (end - p >= SQL_WORD)
                return load_u64(p);
        if (end - from >= SQL_WORD && p < end)
                return load_u64(end - SQL_WORD) >> SQL_WORD * (SQL_WORD - (end - p));
        for (ptrdiff_t i = end - p; i > 0; i--)
                w = w << SQL_WORD | (uint8_t)p[i - 1];
        return w;
}

/* Bit 7 of each byte of w (all below 0x80) that is from lo to hi. */
static inline uint64_t sql_bytes_in(uint64_t w, uint8_t lo, uint8_t hi)
{
        return (w + SQL_ALL_OF(0x80 - lo)) & ~(w + SQL_ALL_OF(0x7f - hi)) & SQL_HIGH;
}

/* The n (1 to 8) first bytes of w, which are of a word, with letters in lower case; the others are
 * zero.  One bit makes letters small and leaves digits and $ alone; it makes _ a DEL, which no word
 * has.  Bytes above ASCII stay as they are. */
static inline uint64_t sql_fold(uint64_t w, size_t n)
{
        size_t rest = SQL_WORD * (SQL_WORD - n) % SQL_BLOCK;
        uint64_t bytes = w << rest;

        return (bytes | (SQL_ALL_OF(0x20) & ~((bytes & SQL_HIGH) >> 2))) >> rest;
}

/* Bit i: byte i of the 16 at p can be in a word: letters, digits, _, $ and all above ASCII. */
#ifdef __SSE2__
static inline unsigned sql_word_mask(const char *p)
{
        __m128i v = _mm_loadu_si128((const __m128i_u *)p);
        __m128i letter = _mm_sub_epi8(_mm_or_si128(v, _mm_set1_epi8(0x20)), _mm_set1_epi8('a'));
        __m128i digit = _mm_sub_epi8(v, _mm_set1_epi8('0'));
        __m128i is_letter = _mm_cmpeq_epi8(_mm_min_epu8(letter, _mm_set1_epi8(25)), letter);
        __m128i is_digit = _mm_cmpeq_epi8(_mm_min_epu8(digit, _mm_set1_epi8(9)), digit);
        __m128i is_other = _mm_or_si128(_mm_cmpeq_epi8(v, _mm_set1_epi8('_')),
                                        _mm_cmpeq_epi8(v, _mm_set1_epi8('$')));
        __m128i is_any = _mm_or_si128(_mm_or_si128(is_letter, is_digit), _mm_or_si128(is_other, v));

        return (unsigned)_mm_movemask_epi8(is_any);
}
#else
static inline unsigned sql_word_mask_8(uint64_t w)
{
        uint64_t low = w & ~SQL_HIGH;
        uint64_t is_any = sql_bytes_in(low | SQL_ALL_OF(0x20), 'a', 'z') |
                          sql_bytes_in(low, '0', '9') | sql_bytes_in(low, '_', '_') |
                          sql_bytes_in(low, '$', '$') | (w & SQL_HIGH);

        return (unsigned)((is_any >> 7) * 0x0102040810204080ULL >> 56);
}

static inline unsigned sql_word_mask(const char *p)
{
        return sql_word_mask_8(load_u64(p)) | sql_word_mask_8(load_u64(p + SQL_WORD)) << SQL_WORD;
}
#endif

#define SQL_STEP 16 /* bytes of sql_word_mask() */

/* Bit i: byte i of the 64 from p on belongs to a word.  Bytes from the end on do not. */
static inline void sql_fill(struct sql_lex *l, const char *p)
{
        l->block = p;
        l->words = 0;
        for (size_t i = 0; i < SQL_BLOCK && p < l->end; i += SQL_STEP, p += SQL_STEP) {
                char last[SQL_STEP] = {0};
                size_t left = (size_t)(l->end - p);
                if (left < SQL_STEP)
                        memcpy(last, p, left);
                l->words |= (uint64_t)sql_word_mask(left < SQL_STEP ? last : p) << i;
        }
}

/* Past the bytes of a word that are at p. */
static inline const char *sql_skip_word(struct sql_lex *l, const char *p)
{
        size_t at, n;

        do {
                at = (size_t)(p - l->block);
                if (at >= SQL_BLOCK) {
                        sql_fill(l, p);
                        at = 0;
                }
                uint64_t others = ~(l->words >> at);
                n = others ? (size_t)__builtin_ctzll(others) : SQL_BLOCK;
                p += n;
        } while (at + n == SQL_BLOCK);
        return p;
}

static inline const char *sql_skip_digits(const char *p, const char *end)
{
        while (p < end && *p >= '0' && *p <= '9')
                p++;
        return p;
}

/* Past the quote that ends what begins before p; a doubled one is part of it. */
static inline const char *sql_skip_quoted(const char *p, const char *end, char quote)
{
        while (p < end) {
                uint64_t w = sql_load(p, p, end), low = w & ~SQL_HIGH;
                uint64_t stops = (sql_bytes_in(low, (uint8_t)quote, (uint8_t)quote) |
                                  sql_bytes_in(low, '\\', '\\')) &
                                 ~w;
                if (!stops) {
                        p += end - p < SQL_WORD ? end - p : SQL_WORD;
                        continue;
                }
                p += __builtin_ctzll(stops) / SQL_WORD;
                bool is_escape = *p == '\\' && quote != '`';
                bool is_double = *p == quote && end - p > 1 && p[1] == quote;
                if (*p == quote && !is_double)
                        return p + 1;
                p += (is_escape && end - p > 1) || is_double ? 2 : 1;
        }
        return end;
}

/* What begins with a digit or with a dot and a digit: a number, or a name, which has bytes that
 * numbers have not. */
static inline enum sql_token_kind sql_skip_number(struct sql_lex *l)
{
        const char *start = l->at, *end = l->end, *at = sql_skip_digits(start, end);

        if (at - start == 1 && *start == '0' && at < end && (*at == 'x' || *at == 'b')) {
                l->at = sql_skip_word(l, at);
                return TOKEN_NUMBER;
        }
        if (at < end && *at == '.')
                at = sql_skip_digits(at + 1, end);
        if (at < end && (*at | 0x20) == 'e') {
                const char *power = at + 1;
                if (power < end && (*power == '+' || *power == '-'))
                        power++;
                const char *power_end = sql_skip_digits(power, end);
                at = power_end > power ? power_end : at;
        }
        l->at = sql_skip_word(l, at);
        return l->at == at ? TOKEN_NUMBER : TOKEN_WORD;
}

/* The comment at l->at that begins with a slash and a star.  An executable one is only opened, and
 * false returned: its text is code. */
static inline bool sql_open_comment(struct sql_lex *l, struct sql_token *t)
{
        const char *p = l->at + 2;
        const char *code = p + (p < l->end && *p == 'M');

        if (code < l->end && *code == '!') {
                const char *version = code + 1;
                ptrdiff_t n = sql_skip_digits(version, l->end) - version;
                /* Five or six digits are a version; any others belong to the code. */
                l->at = n < 5 ? version : version + (n == 5 ? 5 : 6);
                l->code_comments++;
                return false;
        }
        const char *close = p;
        do {
                close = memchr(close, '*', (size_t)(l->end - close));
        } while (close && ++close < l->end && *close != '/');
        bool is_closed = close && close < l->end;
        t->kind = TOKEN_COMMENT;
        t->ptr = p;
        t->len = (size_t)((is_closed ? close - 1 : l->end) - p);
        l->at = is_closed ? close + 1 : l->end;
        return true;
}

/* "--" and "#": nothing in them is read. */
static inline bool sql_is_line_comment(const char *p, const char *end)
{
        return *p == '#' ||
               (end - p >= 2 && *p == '-' && p[1] == '-' && (end - p == 2 || (uint8_t)p[2] <= ' '));
}

static inline void sql_skip_line(struct sql_lex *l, struct sql_token *t)
{
        const char *found = memchr(l->at, '\n', (size_t)(l->end - l->at));

        t->kind = TOKEN_COMMENT;
        t->len = 0;
        l->at = found ? found + 1 : l->end;
}

/* The first bytes of a word that ends at l->at. */
static inline uint64_t sql_head(const struct sql_lex *l, const char *p)
{
        size_t n = (size_t)(l->at - p);

        return sql_fold(sql_load(l->from, p, l->end), n < SQL_WORD ? n : SQL_WORD);
}

static inline void sql_take_word(struct sql_lex *l, struct sql_token *t)
{
        const char *p = l->at;

        l->at = sql_skip_word(l, p);
        t->kind = TOKEN_WORD;
        t->head = sql_head(l, p);
        if (l->at - p == 1 && l->at < l->end && *l->at == '\'' && strchr("xbn", (int)t->head)) {
                l->at = sql_skip_quoted(l->at + 1, l->end, '\''); /* x'00', b'01', N'text' */
                t->kind = TOKEN_STRING;
        }
        l->name_end = l->at;
}

static inline void sql_take_number(struct sql_lex *l, struct sql_token *t)
{
        const char *p = l->at;

        t->kind = sql_skip_number(l);
        t->head = sql_head(l, p);
        l->name_end = l->at;
}

static inline void sql_take_quoted(struct sql_lex *l, struct sql_token *t)
{
        char quote = *l->at;

        l->at = sql_skip_quoted(l->at + 1, l->end, quote);
        t->kind = quote == '`' ? TOKEN_NAME : TOKEN_STRING;
        l->name_end = l->at;
}

/* Comments, numbers that begin with a dot, and marks.  False: it was nothing (the marks of an
 * executable comment). */
static inline bool sql_take_tricky(struct sql_lex *l, struct sql_token *t)
{
        char c = *l->at;
        char next = l->end - l->at > 1 ? l->at[1] : '\0';

        if (c == '/' && next == '*')
                return sql_open_comment(l, t);
        if (sql_is_line_comment(l->at, l->end)) {
                sql_skip_line(l, t);
                return true;
        }
        if (c == '*' && next == '/' && l->code_comments) {
                l->code_comments--;
                l->at += 2;
                return false;
        }
        t->kind = TOKEN_MARK;
        if (c == '.' && next >= '0' && next <= '9' && l->at != l->name_end) {
                (void)sql_skip_number(l);
                t->kind = TOKEN_NUMBER;
                return true;
        }
        l->at++;
        return true;
}

static inline void sql_lex_init(struct sql_lex *l, struct slice sql)
{
        *l = (struct sql_lex){
                .from = sql.ptr, .at = sql.ptr, .end = sql.len ? sql.ptr + sql.len : sql.ptr};
        sql_fill(l, l->at);
}

/* Reads the next token into *t. */
static inline enum sql_token_kind sql_lex_next(struct sql_lex *l, struct sql_token *t)
{
        while (l->at < l->end) {
                enum sql_byte byte = (enum sql_byte)sql_bytes[(uint8_t)*l->at];
                if (byte == SQL_SPACE) {
                        l->at++;
                        continue;
                }
                t->ptr = l->at;
                /* No switch: its jump is guessed wrong more often than these are. */
                if (byte == SQL_LETTER) {
                        sql_take_word(l, t);
                } else if (byte == SQL_MARK) {
                        l->at++;
                        t->kind = TOKEN_MARK;
                } else if (byte == SQL_DIGIT) {
                        sql_take_number(l, t);
                } else if (byte == SQL_QUOTE) {
                        sql_take_quoted(l, t);
                } else {
                        if (!sql_take_tricky(l, t))
                                continue;
                        if (t->kind == TOKEN_COMMENT)
                                return TOKEN_COMMENT;
                }
                t->len = (size_t)(l->at - t->ptr);
                return t->kind;
        }
        t->kind = TOKEN_END;
        t->ptr = l->at;
        return TOKEN_END;
}

#endif
