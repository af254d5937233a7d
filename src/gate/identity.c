/* Who asks, taken apart.
 *
 * Every ask at the check door begins here, a million times a second, and nearly every name is
 * short, ASCII and right.  So the text is looked at once, eight bytes at a time in one register:
 * each step marks the bytes that are not allowed, those above ASCII and the colons, exactly (no
 * carry from one byte into the next), and only the colons are met one by one, of which there are
 * few.  Where they are is kept in eight bytes; the answer is written when all is well.  About 20 ns
 * for names of one to five parts.
 *
 * Nothing in that pass knows what was wrong.  A name that is refused is read again, byte by byte,
 * by explain(), which has the time to say it.  UTF-8 is checked only when a byte above ASCII was
 * seen: a colon is never part of a longer sequence, so what holds for the whole holds for each
 * part.
 *
 * Rejected: a table of 256 classes (twice as slow when names differ: its branch per byte guesses
 * wrong at each colon), and memchr for the colons (a call per part, and the other bytes still to be
 * looked at). */
#include "gate/identity.h"

#include "base/bytes.h"

#define WORD       8
#define ONES       0x0101010101010101ULL
#define HIGH       0x8080808080808080ULL
#define ALL_OF(c)  (ONES * (uint64_t)(c))
#define FIRST_GOOD 0x21 /* the space and what is below it is not allowed */
#define DEL        0x7f

struct scan {
        uint64_t bad, high; /* bit 7 of some byte: seen */
        size_t colons;
        uint8_t at[IDENTITY_PARTS]; /* where the colons are, then the end */
};

/* Bit 7 of each byte of w that is c, and no other bit. */
static inline uint64_t bytes_that_are(uint64_t w, char c)
{
        uint64_t x = w ^ ALL_OF(c);

        return ~(((x & ~HIGH) + ~HIGH) | x) & HIGH;
}

static inline void scan_word(struct scan *s, uint64_t w, size_t at)
{
        uint64_t low = w & ~HIGH;
        uint64_t below = ~(low + ALL_OF(0x80 - FIRST_GOOD)), del = low + ALL_OF(0x80 - DEL);

        s->high |= w & HIGH;
        s->bad |= ((below | del) & ~w & HIGH) | bytes_that_are(w, '/');
        for (uint64_t m = bytes_that_are(w, ':'); m; m &= m - 1) {
                /* Too many overwrite the first ones, and are refused by their number. */
                s->at[s->colons % IDENTITY_PARTS] =
                        (uint8_t)(at + (size_t)__builtin_ctzll(m) / WORD);
                s->colons++;
        }
}

/* The last 1 to 7 bytes, filled up with what is always allowed. */
static inline uint64_t last_word(struct slice text, size_t left)
{
        const char *end = text.ptr + text.len;
        uint64_t w = 0;

        if (text.len >= WORD)
                w = load_u64((const uint8_t *)end - WORD) >> WORD * (WORD - left);
        else
                for (size_t i = left; i > 0; i--)
                        w = w << WORD | (uint8_t)end[(ptrdiff_t)i - 1 - (ptrdiff_t)left];
        return w | ALL_OF('x') << WORD * left;
}

/* U+0080 to U+009F; the text is UTF-8. */
static bool has_high_control(struct slice text)
{
        for (size_t i = 0; i + 1 < text.len; i++)
                if ((uint8_t)text.ptr[i] == 0xc2 && (uint8_t)text.ptr[i + 1] < 0xa0)
                        return true;
        return false;
}

static inline bool is_all(const char *at, size_t len)
{
        return len == 3 && at[0] == 'a' && at[1] == 'l' && at[2] == 'l';
}

/* Are all parts of a length that is allowed, and none of them "all"? */
static inline bool has_good_parts(const struct scan *s, const char *text)
{
        bool is_good = true;
        size_t from = 0;

        for (size_t i = 0; i <= s->colons; i++) {
                size_t len = s->at[i] - from; /* 0 - 1 is too long as well */
                is_good &= len - 1 < IDENTITY_PART_BYTES;
                if (is_good && is_all(text + from, len))
                        return false;
                from = s->at[i] + 1U;
        }
        return is_good;
}

/* --- what was wrong ----------------------------------------------------------------------------
 */

static int explain_part(struct slice part, size_t number, struct problem *problem)
{
        if (part.len == 0)
                return problem_set(problem, ERR_BADARG,
                                   "part %zu of the identity is empty; it is 1 to %d parts with "
                                   "colons between them",
                                   number, IDENTITY_PARTS);
        if (part.len > IDENTITY_PART_BYTES)
                return problem_set(problem, ERR_BADARG,
                                   "part %zu of the identity has %zu bytes; at most %d are allowed",
                                   number, part.len, IDENTITY_PART_BYTES);
        if (is_all(part.ptr, part.len))
                return problem_set(problem, ERR_BADARG,
                                   "part %zu of the identity is \"all\", the name of everybody",
                                   number);
        for (size_t i = 0; i < part.len; i++) {
                unsigned char c = (unsigned char)part.ptr[i];
                if (c < FIRST_GOOD || c == DEL || c == '/')
                        return problem_set(
                                problem, ERR_BADARG,
                                "part %zu of the identity has byte 0x%02x in it; spaces, "
                                "control characters and '/' are not allowed",
                                number, c);
        }
        return OK;
}

/* ERR_BADARG, always: called when something is wrong. */
__attribute__((cold, noinline)) static int explain(struct slice text, struct problem *problem)
{
        size_t number = 1, from = 0;

        if (text.len == 0)
                return problem_set(problem, ERR_BADARG, "the identity is empty");
        if (text.len > IDENTITY_BYTES)
                return problem_set(problem, ERR_BADARG,
                                   "the identity has %zu bytes; at most %d are allowed", text.len,
                                   IDENTITY_BYTES);
        for (size_t i = 0; i <= text.len; i++) {
                if (i < text.len && text.ptr[i] != ':')
                        continue;
                if (number > IDENTITY_PARTS)
                        return problem_set(problem, ERR_BADARG,
                                           "the identity has more than %d parts", IDENTITY_PARTS);
                int err = explain_part(slice_make(text.ptr + from, i - from), number, problem);
                if (err != OK)
                        return err;
                number++;
                from = i + 1;
        }
        return problem_set(problem, ERR_BADARG,
                           "the identity must be UTF-8 without control characters");
}

/* --- the calls ---------------------------------------------------------------------------------
 */

int identity_parse(struct slice text, struct identity *ret, struct problem *problem)
{
        struct scan s = {0};
        size_t at = 0;

        if (text.len == 0 || text.len > IDENTITY_BYTES)
                return explain(text, problem);
        for (; text.len - at >= WORD; at += WORD)
                scan_word(&s, load_u64((const uint8_t *)text.ptr + at), at);
        if (at < text.len)
                scan_word(&s, last_word(text, text.len - at), at);
        if (s.bad || s.colons >= IDENTITY_PARTS)
                return explain(text, problem);
        s.at[s.colons] = (uint8_t)text.len;
        if (!has_good_parts(&s, text.ptr))
                return explain(text, problem);
        if (s.high && (!slice_is_utf8(text) || has_high_control(text)))
                return explain(text, problem);

        ret->whole = text;
        ret->n = s.colons + 1;
        size_t from = 0;
        for (size_t i = 0; i < ret->n; i++) {
                ret->part[i] = slice_make(text.ptr + from, s.at[i] - from);
                from = s.at[i] + 1U;
        }
        return OK;
}

int identity_check_name(struct slice name, struct problem *problem)
{
        struct identity unused;

        if (is_all(name.ptr, name.len))
                return OK;
        return identity_parse(name, &unused, problem);
}
