/* A template is a list of pieces: a text that is always the same, and what follows it.  What
 * follows is drawn from a generator of random numbers that begins with the job's number.
 *
 * The generator of the load shares the cores with the server, so this must be cheap: some 0.1 us
 * for a payload. */
#include "payload.h"

#include <stdbool.h>
#include <string.h>

#include "gen.h"

enum field {
        NONE,
        NUMBER, /* the job's own */
        FIRST,  /* a person's names and address */
        LAST,
        MAIL,
        CITY,
        UUID,
        DIGIT_1, /* so many digits, the first not 0 */
        DIGIT_2,
        DIGIT_3,
        DIGIT_4,
        DIGIT_5,
        PRICE,
};

struct word {
        const char *text;
        size_t len;
};

struct piece {
        struct word word; /* comes first */
        enum field field;
};

#define WORD(text)                                                                                 \
        {                                                                                          \
                text, sizeof(text) - 1                                                             \
        }
#define PIECE(text, field)                                                                         \
        {                                                                                          \
                WORD(text), field                                                                  \
        }

struct template
{
        const char *hook;
        struct piece pieces[12]; /* up to the first without a field, that one included */
};

static const struct word firsts[32] = {
        WORD("Emma"),   WORD("Liam"),     WORD("Olivia"), WORD("Noah"),      WORD("Sofia"),
        WORD("Lucas"),  WORD("Mia"),      WORD("Elias"),  WORD("Charlotte"), WORD("Hugo"),
        WORD("Amelie"), WORD("Matteo"),   WORD("Ines"),   WORD("Jan"),       WORD("Katarzyna"),
        WORD("Pavel"),  WORD("Astrid"),   WORD("Bjorn"),  WORD("Chloe"),     WORD("Diego"),
        WORD("Elena"),  WORD("Finn"),     WORD("Greta"),  WORD("Henrik"),    WORD("Isabella"),
        WORD("Jonas"),  WORD("Klara"),    WORD("Leon"),   WORD("Marie"),     WORD("Niklas"),
        WORD("Oskar"),  WORD("Victoria"),
};
static const struct word lasts[32] = {
        WORD("Lindberg"),   WORD("Meyer"),   WORD("Rossi"),    WORD("Garcia"),   WORD("Novak"),
        WORD("Dubois"),     WORD("Jansen"),  WORD("Kowalska"), WORD("Hansen"),   WORD("Virtanen"),
        WORD("Schneider"),  WORD("Ferrari"), WORD("Martinez"), WORD("Svoboda"),  WORD("Laurent"),
        WORD("DeVries"),    WORD("Nowicki"), WORD("Andersen"), WORD("Korhonen"), WORD("Bauer"),
        WORD("Romano"),     WORD("Sanchez"), WORD("Dvorak"),   WORD("Moreau"),   WORD("Bakker"),
        WORD("Wisniewski"), WORD("Olsen"),   WORD("Makinen"),  WORD("Hoffmann"), WORD("Costa"),
        WORD("Silva"),      WORD("Berg"),
};
static const struct word cities[16] = {
        WORD("Rotterdam"), WORD("Hamburg"), WORD("Lyon"),   WORD("Milano"),
        WORD("Porto"),     WORD("Gdansk"),  WORD("Malmo"),  WORD("Brno"),
        WORD("Antwerp"),   WORD("Seville"), WORD("Aarhus"), WORD("Tampere"),
        WORD("Graz"),      WORD("Basel"),   WORD("Cork"),   WORD("Leeds"),
};

/* The number comes first, NUMBER_OFFSET bytes into each. */
static const struct template templates[JSON_HOOKS] = {
        {"order.paid",
         {PIECE("{\"n\":\"", NUMBER), PIECE("\",\"order\":", DIGIT_5),
          PIECE(",\"customer\":\"", FIRST), PIECE(" ", LAST), PIECE("\",\"mail\":\"", MAIL),
          PIECE("\",\"total\":\"", PRICE), PIECE("\",\"currency\":\"EUR\",\"items\":", DIGIT_1),
          PIECE(",\"session\":\"", UUID), PIECE("\"}", NONE)}},
        {"mail.send",
         {PIECE("{\"n\":\"", NUMBER), PIECE("\",\"to\":\"", MAIL), PIECE("\",\"name\":\"", FIRST),
          PIECE(" ", LAST),
          PIECE("\",\"template\":\"order-sent\",\"locale\":\"de_DE\",\"order\":", DIGIT_5),
          PIECE(",\"message\":\"", UUID), PIECE("\",\"subject\":\"Sent to ", CITY),
          PIECE("\"}", NONE)}},
        {"image.resize",
         {PIECE("{\"n\":\"", NUMBER), PIECE("\",\"file\":\"/srv/shop/uploads/2026/0", DIGIT_1),
          PIECE("/product-", DIGIT_5), PIECE(".jpg\",\"width\":", DIGIT_4),
          PIECE(",\"height\":", DIGIT_3),
          PIECE(",\"formats\":[\"webp\",\"avif\"],\"owner\":\"", FIRST), PIECE(" ", LAST),
          PIECE("\",\"version\":\"", UUID), PIECE("\"}", NONE)}},
        {"stock.sync",
         {PIECE("{\"n\":\"", NUMBER), PIECE("\",\"sku\":\"TX-", DIGIT_4), PIECE("-", DIGIT_2),
          PIECE("\",\"warehouse\":\"", CITY), PIECE("\",\"before\":", DIGIT_4),
          PIECE(",\"after\":", DIGIT_4), PIECE(",\"price\":\"", PRICE),
          PIECE("\",\"supplier\":{\"id\":", DIGIT_4), PIECE(",\"name\":\"", LAST),
          PIECE(" & Sons\",\"contact\":\"", MAIL), PIECE("\"},\"full\":false}", NONE)}},
        {"webhook.deliver",
         {PIECE("{\"n\":\"", NUMBER),
          PIECE("\",\"url\":\"https://hooks.example.net/v1/shops/", DIGIT_5),
          PIECE("\",\"event\":\"invoice.updated\",\"version\":2,\"delivery\":\"", UUID),
          PIECE("\",\"amount\":\"", PRICE), PIECE("\",\"by\":\"", FIRST), PIECE(" ", LAST),
          PIECE("\"}", NONE)}},
        {"report.export",
         {PIECE("{\"n\":\"", NUMBER), PIECE("\",\"user\":", DIGIT_5), PIECE(",\"name\":\"", FIRST),
          PIECE(" ", LAST), PIECE("\",\"mail\":\"", MAIL), PIECE("\",\"rows\":", DIGIT_5),
          PIECE(",\"from\":\"2026-03-0", DIGIT_1),
          PIECE("\",\"columns\":[\"date\",\"order\",\"total\",\"tax\"],\"format\":\"csv\"}",
                NONE)}},
};

static const struct piece results[][12] = {
        {PIECE("{\"ok\":true,\"ms\":", DIGIT_3), PIECE(",\"reference\":\"", DIGIT_5),
         PIECE("-", DIGIT_3), PIECE("\"}", NONE)},
        {PIECE("{\"bytes\":", DIGIT_5), PIECE(",\"took_ms\":", DIGIT_4), PIECE("}", NONE)},
};

static const struct piece errors[][12] = {
        {PIECE("connection to 10.4.", DIGIT_2), PIECE(".", DIGIT_2),
         PIECE(":5432 timed out after ", DIGIT_4), PIECE(" ms", NONE)},
        {PIECE("HTTP 503 from https://api.example.net/v1/items/", DIGIT_5), PIECE("", NONE)},
        {PIECE("cannot decode answer: unexpected end of input at byte ", DIGIT_4), PIECE("", NONE)},
};

#define LEN(a) (sizeof(a) / sizeof((a)[0]))

/* What a number brings with it: first the choices, then the fields, drawn as they are written. */
struct draw {
        uint64_t state;
        uint32_t number;
        const struct word *first, *last;
};

/* splitmix64: each step is a good 64-bit number, also from neighbours. */
static uint64_t draw_next(struct draw *d)
{
        uint64_t z = d->state += UINT64_C(0x9e3779b97f4a7c15);
        z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
        z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
        return z ^ (z >> 31);
}

/* The choices of a number, and of what is drawn: its args or its outcome. */
static struct draw draw_begin(uint32_t number, bool is_outcome, uint64_t *ret_choice)
{
        struct draw d = {.state = (uint64_t)number << 1 | is_outcome, .number = number};
        *ret_choice = draw_next(&d);
        return d;
}

static char *add_word(char *to, const struct word *word)
{
        memcpy(to, word->text, word->len);
        return to + word->len;
}

static char *add_lower(char *to, const struct word *word)
{
        for (size_t i = 0; i < word->len; i++)
                *to++ = (char)(word->text[i] | 0x20);
        return to;
}

static char *add_mail(char *to, const struct draw *d)
{
        static const struct word domain = WORD("@example.com");
        to = add_lower(to, d->first);
        *to++ = '.';
        return add_word(add_lower(to, d->last), &domain);
}

static char *add_digits(char *to, uint64_t random, unsigned digits)
{
        static const uint32_t smallest[] = {1, 1, 10, 100, 1000, 10000};
        uint32_t v = smallest[digits] + (uint32_t)(random >> 32) % (smallest[digits] * 9);
        for (unsigned i = digits; i-- > 0; v /= 10)
                to[i] = (char)('0' + v % 10);
        return to + digits;
}

/* RFC 9562, version 4: 8-4-4-4-12 hex digits. */
static char *add_uuid(char *to, struct draw *d)
{
        uint64_t half[2] = {draw_next(d), draw_next(d)};
        half[0] = (half[0] & ~UINT64_C(0xf000)) | 0x4000;
        half[1] = (half[1] & ~(UINT64_C(3) << 62)) | UINT64_C(1) << 63;
        for (unsigned i = 0; i < 32; i++) {
                *to++ = "0123456789abcdef"[half[i / 16] >> (60 - i % 16 * 4) & 15];
                if (i == 7 || i == 11 || i == 15 || i == 19)
                        *to++ = '-';
        }
        return to;
}

static char *add_field(char *to, enum field field, struct draw *d)
{
        switch (field) {
        case NONE:
                return to;
        case NUMBER:
                number_write(to, d->number);
                return to + NUMBER_DIGITS;
        case FIRST:
                return add_word(to, d->first);
        case LAST:
                return add_word(to, d->last);
        case MAIL:
                return add_mail(to, d);
        case CITY:
                return add_word(to, &cities[draw_next(d) % LEN(cities)]);
        case UUID:
                return add_uuid(to, d);
        case DIGIT_1:
        case DIGIT_2:
        case DIGIT_3:
        case DIGIT_4:
        case DIGIT_5:
                return add_digits(to, draw_next(d), 1 + field - DIGIT_1);
        case PRICE:
                to = add_digits(to, draw_next(d), 3);
                *to++ = '.';
                return add_digits(to, draw_next(d), 2);
        }
        return to;
}

static size_t add_pieces(char *to, const struct piece *piece, struct draw *d)
{
        char *p = to;
        do {
                p = add_field(add_word(p, &piece->word), piece->field, d);
        } while (piece++->field != NONE);
        return (size_t)(p - to);
}

/* The lowest 16 bits of the choice say who, the next ones what, the upper half for which shop. */
static unsigned hook_of(uint64_t choice)
{
        return (choice >> 16 & 0xffff) % JSON_HOOKS;
}

const char *json_hook_name(unsigned hook)
{
        return templates[hook].hook;
}

unsigned json_hook(uint32_t number)
{
        uint64_t choice;
        draw_begin(number, false, &choice);
        return hook_of(choice);
}

unsigned json_shop(uint32_t number)
{
        uint64_t choice;
        draw_begin(number, false, &choice);
        return (unsigned)(choice >> 32) % JSON_SHOPS;
}

size_t json_args(uint32_t number, char ret[JSON_MAX])
{
        uint64_t choice;
        struct draw d = draw_begin(number, false, &choice);
        d.first = &firsts[choice % LEN(firsts)];
        d.last = &lasts[(choice >> 8) % LEN(lasts)];
        return add_pieces(ret, templates[hook_of(choice)].pieces, &d);
}

/* The lower half of the choice says how it ends, the upper one with which text. */
static enum json_end end_of(uint64_t choice)
{
        uint32_t part = (uint32_t)choice % 100;
        if (part < 2)
                return JSON_FAILED;
        return part < 51 ? JSON_RESULT : JSON_PLAIN;
}

enum json_end json_end(uint32_t number)
{
        uint64_t choice;
        draw_begin(number, true, &choice);
        return end_of(choice);
}

size_t json_outcome(uint32_t number, char ret[JSON_MAX])
{
        uint64_t choice;
        struct draw d = draw_begin(number, true, &choice);
        uint32_t kind = (uint32_t)(choice >> 32);
        if (end_of(choice) == JSON_FAILED)
                return add_pieces(ret, errors[kind % LEN(errors)], &d);
        return add_pieces(ret, results[kind % LEN(results)], &d);
}
