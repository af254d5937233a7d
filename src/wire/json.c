/* The JSON reader; json_write.c is the writer.
 *
 * The checker is one loop over the document with a bit per open bracket (object or array), so it
 * neither recurses nor allocates.  It stops at the first byte that cannot be, and only then works
 * out line and column.
 *
 * Walking trusts the checker: a value's end is found by its quotes and brackets alone.  A nested
 * value is passed over once per level that iterates around it, which for the shallow objects of
 * the API costs less than keeping an index of them would.
 *
 * Most bytes of a job lie in strings, so those are scanned 16 at a time where the CPU has SSE2
 * (every x86-64); a load never reaches past the end of the document.
 * A job object of 310 bytes is checked and picked apart in under half a microsecond. */
#include "wire/json.h"

#include <stdio.h>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

/* --- finding bytes --- */

/* What ends a run of ordinary string characters: '"' and '\\', and when checking also control
 * characters and bytes above 127. */
static inline bool is_stop(signed char c, bool is_checking)
{
        return c == '"' || c == '\\' || (is_checking && c < ' ');
}

/* The first byte in [p, end) that stops, or end.  `is_checking` is a constant at each call. */
static inline const char *find_stop(const char *p, const char *end, bool is_checking)
{
#if defined(__SSE2__)
        const __m128i quote = _mm_set1_epi8('"'), slash = _mm_set1_epi8('\\');
        const __m128i space = _mm_set1_epi8(' ');
        for (; end - p >= 16; p += 16) {
                __m128i w = _mm_loadu_si128((const __m128i *)(const void *)p);
                __m128i hit = _mm_or_si128(_mm_cmpeq_epi8(w, quote), _mm_cmpeq_epi8(w, slash));
                if (is_checking) /* signed: bytes above 127 are below ' ' as well */
                        hit = _mm_or_si128(hit, _mm_cmplt_epi8(w, space));
                unsigned mask = (unsigned)_mm_movemask_epi8(hit);
                if (mask)
                        return p + __builtin_ctz(mask);
        }
#endif
        while (p < end && !is_stop((signed char)*p, is_checking))
                p++;
        return p;
}

static inline const char *skip_space(const char *p, const char *end)
{
        while (p < end && (*p == ' ' || *p == '\n' || *p == '\r' || *p == '\t'))
                p++;
        return p;
}

static inline unsigned hex_digit(char c)
{
        unsigned digit = (unsigned char)c - (unsigned)'0';
        unsigned letter = ((unsigned char)c | 0x20U) - (unsigned)'a';

        if (digit < 10)
                return digit;
        return letter < 6 ? letter + 10 : 16;
}

/* --- checking --- */

/* The check_ functions take the place where something must begin and return the place behind it,
 * or NULL after fail().  The place travels in a register: through memory it would cost more than
 * the checking. */
struct check {
        const char *end;
        const char *bad; /* where it failed */
        const char *expected;
};

static const char *fail(struct check *c, const char *at, const char *expected)
{
        c->bad = at;
        c->expected = expected;
        return NULL;
}

/* The four digits of a \u escape; *ret is the UTF-16 unit. */
static const char *check_hex4(struct check *c, const char *p, unsigned *ret)
{
        unsigned v = 0;

        for (int i = 0; i < 4; i++, p++) {
                unsigned digit = p < c->end ? hex_digit(*p) : 16;
                if (digit > 15)
                        return fail(c, p, "four hex digits after \\u");
                v = v << 4 | digit;
        }
        *ret = v;
        return p;
}

static const char *check_escape(struct check *c, const char *slash)
{
        static const char known[] = "\"\\/bfnrtu",
                          low_missing[] = "a low surrogate after this high one";
        const char *p = slash + 1;
        unsigned unit, low;

        if (p == c->end || !memchr(known, *p, sizeof(known) - 1))
                return fail(c, p, "one of \" \\ / b f n r t u after a backslash");
        if (*p != 'u')
                return p + 1;
        p = check_hex4(c, p + 1, &unit);
        if (!p || unit < 0xd800 || unit > 0xdfff)
                return p;
        if (unit >= 0xdc00)
                return fail(c, slash, "a high surrogate before this low one");
        if (c->end - p < 2 || p[0] != '\\' || p[1] != 'u')
                return fail(c, p, low_missing);
        const char *after = check_hex4(c, p + 2, &low);
        if (after && (low < 0xdc00 || low > 0xdfff))
                return fail(c, p, low_missing);
        return after;
}

/* A string with more in it than plain ASCII; the first such byte is at p, or p is the end. */
static const char *check_rich_string(struct check *c, const char *p)
{
        for (;; p = find_stop(p, c->end, true)) {
                if (p == c->end)
                        return fail(c, p, "the string's closing quote");
                if (*p == '"')
                        return p + 1;
                if (*p == '\\') {
                        p = check_escape(c, p);
                        if (!p)
                                return NULL;
                } else if ((unsigned char)*p < ' ') {
                        return fail(c, p, "an escape in place of the raw control character");
                } else {
                        size_t n = utf8_sequence(p, (size_t)(c->end - p));
                        if (n == 0)
                                return fail(c, p, "well-formed UTF-8");
                        p += n;
                }
        }
}

/* From behind the opening quote. */
static inline const char *check_string(struct check *c, const char *p)
{
        p = find_stop(p, c->end, true);
        return p < c->end && *p == '"' ? p + 1 : check_rich_string(c, p);
}

static inline bool is_digit_at(const char *p, const char *end)
{
        return p < end && *p >= '0' && *p <= '9';
}

static inline const char *skip_digits(const char *p, const char *end)
{
        while (is_digit_at(p, end))
                p++;
        return p;
}

static const char *check_number(struct check *c, const char *p)
{
        const char *end = c->end;

        if (*p == '-')
                p++;
        if (!is_digit_at(p, end))
                return fail(c, p, "a digit");
        if (*p == '0' && is_digit_at(p + 1, end))
                return fail(c, p + 1, "no digit after a leading zero");
        p = skip_digits(p, end);
        if (p < end && *p == '.') {
                if (!is_digit_at(p + 1, end))
                        return fail(c, p + 1, "a digit after the point");
                p = skip_digits(p + 1, end);
        }
        if (p < end && (*p == 'e' || *p == 'E')) {
                p++;
                if (p < end && (*p == '+' || *p == '-'))
                        p++;
                if (!is_digit_at(p, end))
                        return fail(c, p, "a digit of the exponent");
                p = skip_digits(p, end);
        }
        return p;
}

static const char *check_word(struct check *c, const char *p, const char *word)
{
        for (const char *w = word; *w; w++, p++)
                if (p == c->end || *p != *w)
                        return fail(c, p, word);
        return p;
}

static inline const char *check_scalar(struct check *c, const char *p)
{
        switch (*p) {
        case '"':
                return check_string(c, p + 1);
        case 't':
                return check_word(c, p, "true");
        case 'f':
                return check_word(c, p, "false");
        case 'n':
                return check_word(c, p, "null");
        default:
                if (*p == '-' || is_digit_at(p, c->end))
                        return check_number(c, p);
                return fail(c, p, "a value");
        }
}

/* A member's key and colon, with the space around them. */
static inline const char *check_key(struct check *c, const char *p, const char *expected)
{
        p = skip_space(p, c->end);
        if (p == c->end || *p != '"')
                return fail(c, p, expected);
        p = check_string(c, p + 1);
        if (!p)
                return NULL;
        p = skip_space(p, c->end);
        if (p == c->end || *p != ':')
                return fail(c, p, "':' after the key");
        return p + 1;
}

/* Which brackets are open: bit i is set when that of depth i + 1 is an object's. */
struct open {
        unsigned depth, max;
        uint64_t is_object[JSON_DEPTH_MAX / 64];
};

static inline bool open_is_object(const struct open *o)
{
        return o->is_object[(o->depth - 1) / 64] >> (o->depth - 1) % 64 & 1;
}

/* An opening bracket, up to where the first value in it begins. */
static const char *check_open(struct check *c, struct open *o, const char *p)
{
        bool is_object = *p == '{';
        uint64_t bit = 1ULL << o->depth % 64;

        if (o->depth == o->max)
                return fail(c, p, "no deeper nesting than is allowed");
        if (is_object)
                o->is_object[o->depth / 64] |= bit;
        else
                o->is_object[o->depth / 64] &= ~bit;
        o->depth++;
        return is_object ? check_key(c, p + 1, "a key or '}'") : p + 1;
}

/* Behind a value: closes brackets until a comma (and the key after it) or the end of all. */
static inline const char *check_after(struct check *c, struct open *o, const char *p)
{
        while (o->depth > 0) {
                bool is_object = open_is_object(o);
                p = skip_space(p, c->end);
                char next = p < c->end ? *p : '\0';
                if (next == ',')
                        return is_object ? check_key(c, p + 1, "a key after ','") : p + 1;
                if (next != (is_object ? '}' : ']'))
                        return fail(c, p,
                                    is_object ? "',' or '}' after the value"
                                              : "',' or ']' after the value");
                p++;
                o->depth--;
        }
        return p;
}

/* One value with all that is in it. */
static const char *check_value(struct check *c, const char *p, unsigned max_depth)
{
        struct open open = {.max = max_depth};

        do {
                p = skip_space(p, c->end);
                if (p == c->end)
                        return fail(c, p, "a value");
                if (*p == '{' || *p == '[') {
                        const char *inner = skip_space(p + 1, c->end);
                        bool is_empty = inner < c->end && *inner == (*p == '{' ? '}' : ']');
                        if (!is_empty || open.depth == open.max) {
                                p = check_open(c, &open, p);
                                if (!p)
                                        return NULL;
                                continue;
                        }
                        p = inner + 1;
                } else {
                        p = check_scalar(c, p);
                        if (!p)
                                return NULL;
                }
                p = check_after(c, &open, p);
                if (!p)
                        return NULL;
        } while (open.depth > 0);
        return p;
}

static enum json_type type_of(char first)
{
        switch (first) {
        case '{':
                return JSON_OBJECT;
        case '[':
                return JSON_ARRAY;
        case '"':
                return JSON_STRING;
        case 't':
        case 'f':
                return JSON_BOOL;
        case 'n':
                return JSON_NULL;
        default:
                return JSON_NUMBER;
        }
}

static bool check_document(struct check *c, struct slice doc, unsigned max_depth,
                           struct json_value *ret)
{
        const char *begin = skip_space(doc.ptr, c->end);
        const char *end = check_value(c, begin, max_depth);

        if (!end)
                return false;
        const char *rest = skip_space(end, c->end);
        if (rest != c->end)
                return fail(c, rest, "nothing more after the value") != NULL;
        *ret = (struct json_value){type_of(*begin), slice_make(begin, (size_t)(end - begin))};
        return true;
}

static int explain(const struct check *c, struct slice doc, struct problem *p)
{
        size_t line = 1, column = 1;
        char found[24] = "the end", where[32] = "";

        for (const char *s = doc.ptr; s < c->bad; s++) {
                if (*s == '\n') {
                        line++;
                        column = 1;
                } else if (((unsigned char)*s & 0xc0) != 0x80) {
                        column++;
                }
        }
        if (c->bad < c->end) {
                unsigned char byte = (unsigned char)*c->bad;
                (void)snprintf(found, sizeof(found),
                               byte > ' ' && byte < 0x7f ? "'%c'" : "byte 0x%02x", byte);
        }
        if (line > 1) /* else it may be a line of a file, which has a number of its own */
                (void)snprintf(where, sizeof(where), "line %zu, ", line);
        return problem_set(p, ERR_SYNTAX,
                           "JSON: expected %s, found %s at offset %zu (%scolumn %zu)", c->expected,
                           found, (size_t)(c->bad - doc.ptr), where, column);
}

int json_parse(struct slice doc, unsigned max_depth, struct json_value *ret, struct problem *p)
{
        ASSERT(max_depth <= JSON_DEPTH_MAX);
        if (doc.len == 0)
                doc = SLICE_LIT(""); /* an empty slice may have no pointer */
        struct check c = {.end = doc.ptr + doc.len};
        return check_document(&c, doc, max_depth, ret) ? OK : explain(&c, doc, p);
}

bool json_is_valid(struct slice doc, unsigned max_depth)
{
        struct json_value root;

        ASSERT(max_depth <= JSON_DEPTH_MAX);
        if (doc.len == 0)
                return false;
        struct check c = {.end = doc.ptr + doc.len};
        return check_document(&c, doc, max_depth, &root);
}

/* --- walking what has been checked --- */

/* From behind the opening quote to the closing one. */
static inline const char *string_end(const char *p, const char *end)
{
        for (p = find_stop(p, end, false); p < end && *p == '\\'; p = find_stop(p, end, false))
                p += end - p >= 2 ? 2 : 1;
        return p;
}

#define BLOCK 64

/* Where in a block the bytes are that matter for finding a bracket's partner: bit i is byte i. */
struct places {
        uint64_t quote, slash, open, close;
};

static inline struct places places_in(const char *block)
{
        struct places found = {0};

#if defined(__SSE2__)
        /* '[' and '{', ']' and '}' differ in bit 5 alone. */
        const __m128i quote = _mm_set1_epi8('"'), slash = _mm_set1_epi8('\\');
        const __m128i open = _mm_set1_epi8('{'), close = _mm_set1_epi8('}');
        const __m128i fold = _mm_set1_epi8(0x20);
        for (unsigned i = 0; i < BLOCK; i += 16) {
                __m128i w = _mm_loadu_si128((const __m128i *)(const void *)(block + i));
                __m128i folded = _mm_or_si128(w, fold);
                found.quote |= (uint64_t)_mm_movemask_epi8(_mm_cmpeq_epi8(w, quote)) << i;
                found.slash |= (uint64_t)_mm_movemask_epi8(_mm_cmpeq_epi8(w, slash)) << i;
                found.open |= (uint64_t)_mm_movemask_epi8(_mm_cmpeq_epi8(folded, open)) << i;
                found.close |= (uint64_t)_mm_movemask_epi8(_mm_cmpeq_epi8(folded, close)) << i;
        }
#else
        for (unsigned i = 0; i < BLOCK; i++) {
                found.quote |= (uint64_t)(block[i] == '"') << i;
                found.slash |= (uint64_t)(block[i] == '\\') << i;
                found.open |= (uint64_t)((block[i] | 0x20) == '{') << i;
                found.close |= (uint64_t)((block[i] | 0x20) == '}') << i;
        }
#endif
        return found;
}

/* The bytes that a backslash takes the meaning from; *is_escaped carries from block to block. */
static inline uint64_t escaped_by(uint64_t slash, bool *is_escaped)
{
        uint64_t escaped = *is_escaped ? 1 : 0;

        slash &= ~escaped;
        *is_escaped = false;
        while (slash) {
                uint64_t first = slash & (0 - slash);
                *is_escaped = first >> 63;
                escaped |= first << 1;
                slash &= ~(first | first << 1);
        }
        return escaped;
}

/* Bit i is the xor of bits 0..i: set from an opening quote up to before its closing one. */
static inline uint64_t prefix_xor(uint64_t bits)
{
        for (unsigned n = 1; n < 64; n *= 2)
                bits ^= bits << n;
        return bits;
}

/* From an opening bracket to behind its closing one.  Brackets are counted a block at a time, so
 * that strings and numbers, the bulk of it, cost nothing of their own. */
static const char *container_end(const char *p, const char *end)
{
        char last[BLOCK]; /* the bytes that do not fill a block, and zeros */
        size_t depth = 0;
        uint64_t in_string = 0; /* all bits */
        bool is_escaped = false;

        for (; p < end; p += BLOCK) {
                const char *block = p;
                if (end - p < BLOCK) {
                        memset(last, 0, sizeof(last));
                        block = memcpy(last, p, (size_t)(end - p));
                }
                struct places found = places_in(block);
                found.quote &= ~escaped_by(found.slash, &is_escaped);
                uint64_t string = prefix_xor(found.quote) ^ in_string;
                in_string = string >> 63 ? UINT64_MAX : 0;
                uint64_t brackets = (found.open | found.close) & ~string;
                for (; brackets; brackets &= brackets - 1) {
                        unsigned at = (unsigned)__builtin_ctzll(brackets);
                        depth += found.open >> at & 1 ? 1 : (size_t)-1;
                        if (depth == 0)
                                return p + at + 1;
                }
        }
        return end;
}

/* The value at p, inside a container that ends before `end`. */
static struct json_value value_at(const char *p, const char *end)
{
        enum json_type type = type_of(*p);
        const char *stop = p;

        if (type == JSON_STRING) {
                stop = string_end(p + 1, end);
                stop += stop < end;
        } else if (type >= JSON_ARRAY) {
                stop = container_end(p, end);
        } else {
                /* Space, ',' and the brackets are all that may follow. */
                while (stop<end && * stop> ' ' && *stop != ',' && (*stop | 0x20) != '}')
                        stop++;
        }
        return (struct json_value){type, slice_make(p, (size_t)(stop - p))};
}

/* The first byte of the next element or key; NULL at the end of the container. */
static const char *next_start(const struct json_value *container, const struct json_iter *it)
{
        const char *end = container->text.ptr + container->text.len - 1; /* its last bracket */
        const char *p = it->at ? it->at : container->text.ptr + 1;

        p = skip_space(p, end);
        if (p < end && *p == ',')
                p = skip_space(p + 1, end);
        return p < end ? p : NULL;
}

bool json_object_next(const struct json_value *object, struct json_iter *it, struct slice *ret_key,
                      struct json_value *ret)
{
        if (object->type != JSON_OBJECT)
                return false;
        const char *end = object->text.ptr + object->text.len - 1;
        const char *key = next_start(object, it);
        if (!key)
                return false;
        const char *p = string_end(++key, end);
        struct slice raw = slice_make(key, (size_t)(p - key));
        p = skip_space(p + 1, end);
        p = skip_space(p + 1, end); /* behind the colon */
        ASSERT(p < end);
        *ret_key = raw;
        *ret = value_at(p, end);
        it->at = ret->text.ptr + ret->text.len;
        return true;
}

bool json_array_next(const struct json_value *array, struct json_iter *it, struct json_value *ret)
{
        if (array->type != JSON_ARRAY)
                return false;
        const char *p = next_start(array, it);
        if (!p)
                return false;
        *ret = value_at(p, array->text.ptr + array->text.len - 1);
        it->at = ret->text.ptr + ret->text.len;
        return true;
}

size_t json_count(const struct json_value *v)
{
        struct json_iter it = {0};
        struct json_value item;
        struct slice key;
        size_t n = 0;

        while (json_array_next(v, &it, &item) || json_object_next(v, &it, &key, &item))
                n++;
        return n;
}

bool json_get(const struct json_value *object, const char *name, struct json_value *ret)
{
        struct json_iter it = {0};
        struct json_value v;
        struct slice key, wanted = slice_str(name);

        while (json_object_next(object, &it, &key, &v)) {
                if (json_key_is(key, wanted)) {
                        *ret = v;
                        return true;
                }
        }
        return false;
}

/* --- reading scalars --- */

bool json_to_i64(const struct json_value *v, int64_t *ret)
{
        if (v->type != JSON_NUMBER)
                return false;
        if (slice_eq(v->text, SLICE_LIT("-0"))) {
                *ret = 0;
                return true;
        }
        return slice_to_i64(v->text, ret);
}

bool json_to_bool(const struct json_value *v, bool *ret)
{
        if (v->type != JSON_BOOL)
                return false;
        *ret = v->text.ptr[0] == 't';
        return true;
}

static unsigned hex4(const char *p)
{
        return hex_digit(p[0]) << 12 | hex_digit(p[1]) << 8 | hex_digit(p[2]) << 4 |
               hex_digit(p[3]);
}

static size_t utf8_put(char *ret, unsigned code)
{
        if (code < 0x80) {
                ret[0] = (char)code;
                return 1;
        }
        if (code < 0x800) {
                ret[0] = (char)(0xc0 | code >> 6);
                ret[1] = (char)(0x80 | (code & 0x3f));
                return 2;
        }
        if (code < 0x10000) {
                ret[0] = (char)(0xe0 | code >> 12);
                ret[1] = (char)(0x80 | (code >> 6 & 0x3f));
                ret[2] = (char)(0x80 | (code & 0x3f));
                return 3;
        }
        ret[0] = (char)(0xf0 | code >> 18);
        ret[1] = (char)(0x80 | (code >> 12 & 0x3f));
        ret[2] = (char)(0x80 | (code >> 6 & 0x3f));
        ret[3] = (char)(0x80 | (code & 0x3f));
        return 4;
}

/* The character that the (checked) escape at p stands for, as UTF-8; *p moves behind it. */
static size_t escape_read(const char **p, char ret[4])
{
        static const char letters[] = "bfnrt", meanings[] = "\b\f\n\r\t";
        char c = (*p)[1];
        const char *known = memchr(letters, c, sizeof(letters) - 1);

        if (c != 'u') {
                ret[0] = known ? meanings[known - letters] : c;
                *p += 2;
                return 1;
        }
        unsigned code = hex4(*p + 2);
        *p += 6;
        if (code >= 0xd800 && code <= 0xdbff) {
                code = 0x10000 + ((code - 0xd800) << 10 | (hex4(*p + 2) - 0xdc00));
                *p += 6;
        }
        return utf8_put(ret, code);
}

int json_unescape(struct slice raw, struct arena *arena, struct slice *ret)
{
        const char *p = raw.ptr, *end = raw.ptr + raw.len;

        if (!memchr(p, '\\', raw.len)) {
                *ret = raw;
                return OK;
        }
        char *text = arena_alloc(arena, raw.len); /* an escape is longer than what it means */
        if (!text)
                return ERR_NOMEM;
        size_t n = 0;
        while (p < end) {
                const char *slash = memchr(p, '\\', (size_t)(end - p));
                size_t plain = (size_t)((slash ? slash : end) - p);
                memcpy(text + n, p, plain);
                n += plain;
                p += plain;
                if (slash)
                        n += escape_read(&p, text + n);
        }
        *ret = slice_make(text, n);
        return OK;
}

int json_to_text(const struct json_value *v, struct arena *arena, struct slice *ret)
{
        if (v->type != JSON_STRING)
                return ERR_BADARG;
        return json_unescape(slice_make(v->text.ptr + 1, v->text.len - 2), arena, ret);
}

bool json_key_is_slow(struct slice raw_key, struct slice name)
{
        const char *p = raw_key.ptr, *end = raw_key.ptr + raw_key.len;
        size_t at = 0;

        while (p < end) {
                char c[4] = {*p};
                size_t n = 1;
                if (*p == '\\')
                        n = escape_read(&p, c);
                else
                        p++;
                if (n > name.len - at || memcmp(name.ptr + at, c, n) != 0)
                        return false;
                at += n;
        }
        return at == name.len;
}

const char *json_type_name(enum json_type type)
{
        static const char *const names[] = {
                [JSON_NULL] = "null",       [JSON_BOOL] = "true or false",
                [JSON_NUMBER] = "a number", [JSON_STRING] = "a string",
                [JSON_ARRAY] = "an array",  [JSON_OBJECT] = "an object",
        };

        ASSERT((size_t)type < ARRAY_LEN(names));
        return names[type];
}
