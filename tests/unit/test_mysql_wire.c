/* The MySQL protocol: packets, queries with attributes, greetings and logins.  What was recorded
 * came from MariaDB 10.11 of Debian 12 and from clients that talked to it; MySQL 8 is built by
 * hand. */
#include "wire/mysql_login.h"

#include <stdio.h>

#include "mysql_bytes.h"

#define LONG_PASS UINT64_C(1)

/* ---- packets of weir's own ---- */

static void a_full_buffer_is_told_by_the_buffer(void **state)
{
        static const char *const columns[] = {"a"};
        struct slice row[] = {SLICE_LIT("x")};

        (void)state;
        for (size_t max = 1; max < 64; max++) {
                struct buf b;
                buf_init(&b, max);
                struct mysql_table t = {.out = &b};
                mysql_table_begin(&t, columns, 1);
                mysql_table_row(&t, row);
                mysql_table_end(&t);
                mysql_put_error(&b, 1, 1213, "40001", SLICE_LIT("no"));
                assert_true(b.failed);
                assert_true(b.len <= max);
                buf_release(&b);
        }
}

static void a_query_of_ours_is_read_back(void **state)
{
        struct mysql_attributes a;
        struct slice sql, name, value;
        struct buf b = {0};

        (void)state;
        for (int i = 0; i < 2; i++) {
                uint64_t caps = i ? MYSQL_QUERY_ATTRIBUTES : 0;
                buf_clear(&b);
                mysql_put_query(&b, caps, SLICE_LIT("ROLLBACK"));
                assert_int_equal(mysql_length((uint8_t *)b.ptr), b.len - MYSQL_HEADER);
                assert_int_equal(b.ptr[3], 0);
                assert_true(mysql_query_text(slice_make(b.ptr + 4, b.len - 4), caps, &sql, &a));
                assert_slice(sql, "ROLLBACK");
                assert_false(mysql_query_attribute_next(&a, &name, &value));
        }
        buf_release(&b);
}

/* ---- fields ---- */

static bool int_of(const char *hex, uint64_t *ret, size_t *ret_left)
{
        struct bytes b = bytes_of(hex);
        struct slice rest = slice_of(b);
        bool is_there = mysql_get_int(&rest, ret);
        *ret_left = rest.len;
        free(b.at);
        return is_there;
}

static void a_length_encoded_number_has_one_to_nine_bytes(void **state)
{
        static const struct {
                const char *hex;
                uint64_t value;
        } good[] = {{"00", 0},
                    {"fa", 250},
                    {"fc fb 00", 251},
                    {"fc ff ff", 0xffff},
                    {"fd 00 00 01", 0x10000},
                    {"fe 08 07 06 05 04 03 02 01", UINT64_C(0x0102030405060708)}};
        static const char *const bad[] = {"",      "fb",       "ff 00",
                                          "fc 00", "fd 00 00", "fe 00 00 00 00 00 00 00"};
        uint64_t value;
        size_t left;

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(good); i++) {
                assert_true(int_of(good[i].hex, &value, &left));
                assert_int_equal(value, good[i].value);
                assert_int_equal(left, 0);
        }
        for (size_t i = 0; i < ARRAY_LEN(bad); i++)
                assert_false(int_of(bad[i], &value, &left));
}

static void a_field_that_is_not_there_takes_nothing(void **state)
{
        struct bytes b = bytes_of("05 61 62");
        struct slice rest = slice_of(b), text;
        uint8_t u8;
        uint16_t u16;
        uint32_t u32;

        (void)state;
        assert_false(mysql_get_text(&rest, &text));
        assert_false(mysql_get_zero_text(&rest, &text));
        assert_false(mysql_get_u32(&rest, &u32));
        assert_false(mysql_get_bytes(&rest, 4, &text));
        assert_int_equal(rest.len, 3);
        assert_true(mysql_get_u16(&rest, &u16));
        assert_int_equal(u16, 0x6105);
        assert_false(mysql_get_u16(&rest, &u16));
        assert_true(mysql_get_u8(&rest, &u8));
        assert_int_equal(u8, 0x62);
        assert_false(mysql_get_u8(&rest, &u8));
        assert_true(mysql_get_bytes(&rest, 0, &text));
        assert_false(mysql_get_zero_text(&rest, &text));
        free(b.at);
}

/* ---- queries ---- */

/* Four attributes: a text, a number, a text that is NULL, a date, then a text; and SELECT 1. */
#define ATTRIBUTES                                                                                 \
        "03 05 01 04 01 "                                                                          \
        "fe00 02 6964 "                                                                            \
        "0880 01 6e "                                                                              \
        "fe00 01 7a "                                                                              \
        "0c00 01 64 "                                                                              \
        "fd00 04 74696572 "                                                                        \
        "03 65746c 0100000000000000 04 ea070b10 00 "                                               \
        "53454c4543542031"

static void the_attributes_of_a_query_stand_before_its_text(void **state)
{
        struct bytes b = bytes_of(ATTRIBUTES);
        struct mysql_attributes a;
        struct slice sql, name, value;

        (void)state;
        assert_true(mysql_query_text(slice_of(b), MYSQL_QUERY_ATTRIBUTES, &sql, &a));
        assert_slice(sql, "SELECT 1");
        assert_int_equal(a.n, 5);
        assert_true(mysql_query_attribute_next(&a, &name, &value));
        assert_slice(name, "id");
        assert_slice(value, "etl");
        assert_true(mysql_query_attribute_next(&a, &name, &value));
        assert_slice(name, "tier");
        assert_slice(value, "");
        assert_false(mysql_query_attribute_next(&a, &name, &value));
        assert_false(mysql_query_attribute_next(&a, &name, &value));
        for (size_t n = 0; n < b.n - sql.len; n++) { /* cut within the attributes */
                struct bytes part = {malloc(n ? n : 1), n};
                assert_non_null(part.at);
                memcpy(part.at, b.at, n);
                assert_false(mysql_query_text(slice_of(part), MYSQL_QUERY_ATTRIBUTES, &sql, &a));
                free(part.at);
        }
        free(b.at);
}

static void a_query_without_attributes_begins_at_once(void **state)
{
        static const struct {
                const char *hex;
                uint64_t caps;
                const char *sql; /* NULL: it makes no sense */
        } rows[] = {
                {"03 53 45 54", 0, "SET"},
                {"03", 0, ""},
                {"03 00 01 53 45 54", MYSQL_QUERY_ATTRIBUTES, "SET"},
                {"16 53 45 54", MYSQL_QUERY_ATTRIBUTES, "SET"}, /* a PREPARE has none */
                {"", 0, NULL},
                {"03", MYSQL_QUERY_ATTRIBUTES, NULL},
                {"03 01 01 00 00 53 45 54", MYSQL_QUERY_ATTRIBUTES, NULL}, /* no types */
                {"03 01 01 00 01 0e 00 01 61 53 45", MYSQL_QUERY_ATTRIBUTES,
                 NULL}, /* no such type */
                {"03 fe ff ff ff ff ff ff ff ff 01 00 01", MYSQL_QUERY_ATTRIBUTES, NULL},
        };
        struct mysql_attributes a;
        struct slice sql, name, value;

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                struct bytes b = bytes_of(rows[i].hex);
                bool is_good = mysql_query_text(slice_of(b), rows[i].caps, &sql, &a);
                assert_int_equal(is_good, rows[i].sql != NULL);
                if (is_good) {
                        assert_slice(sql, rows[i].sql);
                        assert_false(mysql_query_attribute_next(&a, &name, &value));
                }
                free(b.at);
        }
}

static void attributes_of_every_type_are_passed_over(void **state)
{
        /* type and value; the name is "a" */
        static const char *const values[][2] = {
                {"01 00", "ff"},
                {"02 80", "ff fe"},
                {"03 00", "01 02 03 04"},
                {"04 00", "00000000"},
                {"05 00", "0000000000000000"},
                {"06 00", ""},
                {"07 00", "00"},
                {"09 00", "01 02 03 04"},
                {"0a 00", "04 e6070101"},
                {"0b 00", "08 0000000000010203"},
                {"0d 00", "e6 07"},
                {"f4 00", "01"},
        };
        struct mysql_attributes a;
        struct slice sql, name, value;
        char hex[128];

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(values); i++) {
                (void)snprintf(hex, sizeof(hex), "03 01 01 00 01 %s 01 61 %s 53 45 54",
                               values[i][0], values[i][1]);
                struct bytes b = bytes_of(hex);
                assert_true(mysql_query_text(slice_of(b), MYSQL_QUERY_ATTRIBUTES, &sql, &a));
                assert_slice(sql, "SET");
                assert_int_equal(a.n, 1);
                assert_false(mysql_query_attribute_next(&a, &name, &value));
                free(b.at);
        }
}

/* ---- the rest of a command ---- */

static void the_rest_of_a_command_goes_over_all_its_packets(void **state)
{
        struct buf b = {0};
        struct mysql_rest r;

        (void)state;
        put_long(&b, 0x03, 0xffffff);
        put_long(&b, 'x', 0xffffff);
        size_t last = b.len;
        put_long(&b, 'x', 3);
        b.ptr[last + 3] = 11;
        size_t end = b.len;
        put_long(&b, 0x03, 9); /* the next command */
        assert_false(b.failed);
        const uint8_t *bytes = (const uint8_t *)b.ptr;
        for (size_t cut = last - 3; cut <= end + 2; cut++) {
                size_t seen = cut % 2 ? 65536 : 0xffffff;
                mysql_rest_begin(&r, bytes, seen);
                assert_false(mysql_rest_is_done(&r));
                size_t at = MYSQL_HEADER + seen;
                at += mysql_rest_pass(&r, bytes + at, cut - at);
                at += mysql_rest_pass(&r, bytes + at, b.len - at);
                assert_int_equal(at, end);
                assert_true(mysql_rest_is_done(&r));
                assert_int_equal(r.sequence, 11);
                assert_int_equal(mysql_rest_pass(&r, bytes + at, b.len - at), 0);
        }
        mysql_rest_begin(&r, bytes + end, 9);
        assert_true(mysql_rest_is_done(&r));
        mysql_rest_begin(&r, bytes + end, 2);
        assert_int_equal(mysql_rest_pass(&r, bytes + end + 6, 3), 3);
        assert_false(mysql_rest_is_done(&r));
        buf_release(&b);
}

/* ---- greetings ---- */

#define MARIADB_GREETING                                                                           \
        "0a352e352e352d31302e31312e31392d4d6172696144422d302b64656231327531000400"                 \
        "0000593a5372647e6e2e00fef7080200ff81150000000000001d000000386b34616d7e55"                 \
        "6a38776f46006d7973716c5f6e61746976655f70617373776f726400"
#define MYSQL_GREETING                                                                             \
        "0a 382e302e3336 00 2a000000 0102030405060708 00 ffff ff 0200 ffdf 15 "                    \
        "00000000000000000000 "                                                                    \
        "090a0b0c0d0e0f1011121314 00 63616368696e675f736861325f70617373776f7264 00"

static void a_greeting_of_mariadb_loses_the_capabilities_that_are_cleared(void **state)
{
        struct bytes b = bytes_of(MARIADB_GREETING), was = bytes_of(MARIADB_GREETING);
        struct mysql_greeting g;
        uint64_t clear = MYSQL_UNREADABLE | MYSQL_SSL | MARIADB_PROGRESS;

        (void)state;
        assert_int_equal(mysql_greeting_edit(b.at, b.n, clear, &g, NULL), OK);
        assert_slice(g.version, "5.5.5-10.11.19-MariaDB-0+deb12u1");
        assert_int_equal(g.thread_id, 4);
        assert_int_equal(g.status, 2);
        assert_true(g.is_mariadb);
        assert_true(g.caps == (UINT64_C(0x1d) << 32 | 0x81fff7fe));
        struct mysql_greeting again;
        assert_int_equal(mysql_greeting_edit(b.at, b.n, 0, &again, NULL), OK);
        assert_true(again.caps == (g.caps & ~clear));
        size_t low = 1 + g.version.len + 1 + 4 + 9, high = low + 5, extended = high + 9;
        for (size_t i = 0; i < b.n; i++) /* nothing else has changed */
                if (i != low && i != low + 1 && i != high && i != high + 1 && i != extended)
                        assert_int_equal(b.at[i], was.at[i]);
        free(b.at);
        free(was.at);
}

static void a_greeting_of_mysql_has_no_capabilities_of_mariadb(void **state)
{
        struct bytes b = bytes_of(MYSQL_GREETING), was = bytes_of(MYSQL_GREETING);
        struct mysql_greeting g;

        (void)state;
        /* Were the reserved bytes not zero, they would still be none of its capabilities. */
        size_t reserved = 1 + 7 + 4 + 9 + 2 + 1 + 2 + 2 + 1 + 6;
        b.at[reserved] = was.at[reserved] = 0xff;
        assert_int_equal(mysql_greeting_edit(b.at, b.n, UINT64_MAX & ~LONG_PASS, &g, NULL), OK);
        assert_slice(g.version, "8.0.36");
        assert_int_equal(g.thread_id, 42);
        assert_false(g.is_mariadb);
        assert_true(g.caps == 0xdfffffff);
        assert_int_equal(b.at[reserved], 0xff);
        assert_int_equal(mysql_greeting_edit(was.at, was.n, 0, &g, NULL), OK);
        struct mysql_greeting cleared;
        assert_int_equal(mysql_greeting_edit(b.at, b.n, 0, &cleared, NULL), OK);
        assert_true(cleared.caps == LONG_PASS);
        free(b.at);
        free(was.at);
}

static void a_greeting_that_is_cut_stays_as_it_was(void **state)
{
        static const char *const greetings[] = {MARIADB_GREETING, MYSQL_GREETING};

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(greetings); i++) {
                struct bytes b = bytes_of(greetings[i]);
                size_t enough = 1 + strlen((char *)b.at + 1) + 1 + 4 + 9 + 2 + 1 + 2 + 2 + 1 + 10;
                for (size_t n = 0; n < enough; n++) {
                        struct mysql_greeting g;
                        struct problem problem;
                        struct bytes part = {malloc(n ? n : 1), n};
                        assert_non_null(part.at);
                        memcpy(part.at, b.at, n);
                        assert_int_equal(mysql_greeting_edit(part.at, n, UINT64_MAX, &g, &problem),
                                         ERR_SYNTAX);
                        assert_memory_equal(part.at, b.at, n);
                        has(problem.detail, "greeting");
                        free(part.at);
                }
                free(b.at);
        }
}

static void an_error_instead_of_a_greeting_is_told(void **state)
{
        struct bytes bare = bytes_of("ff 10 04 54 6f 6f 20 6d 61 6e 79");
        struct bytes with_state = bytes_of("ff 10 04 23 30 38 30 30 34 54 6f 6f 20 6d 61 6e 79");
        struct bytes cut = bytes_of("ff 10"), number = bytes_of("ff 10 04"),
                     old = bytes_of("09 35");
        struct mysql_greeting g;
        struct problem problem;

        (void)state;
        assert_int_equal(mysql_greeting_edit(bare.at, bare.n, 0, &g, &problem), ERR_UNAVAIL);
        same(problem.detail, "the server refused the connection: Too many (1040)");
        assert_int_equal(mysql_greeting_edit(with_state.at, with_state.n, 0, &g, &problem),
                         ERR_UNAVAIL);
        same(problem.detail, "the server refused the connection: Too many (1040)");
        assert_int_equal(mysql_greeting_edit(number.at, number.n, 0, &g, &problem), ERR_UNAVAIL);
        assert_int_equal(mysql_greeting_edit(cut.at, cut.n, 0, &g, &problem), ERR_SYNTAX);
        assert_int_equal(mysql_greeting_edit(old.at, old.n, 0, &g, &problem), ERR_SYNTAX);
        has(problem.detail, "version 9");
        free(bare.at);
        free(with_state.at);
        free(cut.at);
        free(number.at);
        free(old.at);
}

/* ---- logins ---- */

#define MARIADB_CAPS (UINT64_C(0x1d) << 32 | 0x81fffffe) /* with TLS */
#define MYSQL_CAPS   UINT64_C(0xdfffffff)

/* The login of each client to MariaDB as user shop with a password. */
static const struct {
        const char *hex;
        uint64_t caps; /* some of them, and what else is agreed on must be right, too */
        uint64_t not_caps;
        const char *client, *program;
} logins[] = {
        {"8ca2bf000000100021000000000000000000000000000000000000001d00000073686f700014d7eca27b7cda"
         "0b30702eefcc2bb242ee8347e83e7770006d7973716c5f6e61746976655f70617373776f7264007d035f6f73"
         "054c696e75780c5f636c69656e745f6e616d650a6c69626d617269616462045f706964033334300f5f636c69"
         "656e745f76657273696f6e06332e332e3230095f706c6174666f726d067838365f36340c70726f6772616d5f"
         "6e616d65056d7973716c0c5f7365727665725f686f7374093132372e302e302e31",
         CACHING | MARIADB_EXTENDED_TYPES | MYSQL_SESSION_TRACK | MYSQL_PLUGIN_AUTH_LENENC,
         MYSQL_DEPRECATE_EOF, "libmariadb", "mysql"},
        {"8da21a00000000c008000000000000000000000000000000000000000000000073686f700014d7eca27b7cda"
         "0b30702eefcc2bb242ee8347e83e7770006d7973716c5f6e61746976655f70617373776f7264002c0c5f636c"
         "69656e745f6e616d65076d7973716c6e640c5f7365727665725f686f7374093132372e302e302e31",
         MYSQL_CONNECT_WITH_DB | MYSQL_CONNECT_ATTRS, CACHING | MYSQL_PLUGIN_AUTH_LENENC, "mysqlnd",
         NULL},
        {"0da23a00ffffff002d000000000000000000000000000000000000000000000073686f700014d7eca27b7cda"
         "0b30702eefcc2bb242ee8347e83e7770006d7973716c5f6e61746976655f70617373776f726400450c5f636c"
         "69656e745f6e616d650770796d7973716c045f706964033334320f5f636c69656e745f76657273696f6e0531"
         "2e302e320c70726f6772616d5f6e616d650365746c",
         MYSQL_PLUGIN_AUTH_LENENC, CACHING, "pymysql", "etl"},
};

static void find_attribute(struct slice attributes, const char *key, const char *want)
{
        struct slice k, v, rest = attributes;
        while (mysql_attribute_next(&rest, &k, &v)) {
                if (slice_eq(k, slice_str(key))) {
                        assert_non_null(want);
                        assert_slice(v, want);
                        return;
                }
        }
        assert_int_equal(rest.len, 0);
        assert_null(want);
}

static void recorded_logins_tell_user_database_and_attributes(void **state)
{
        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(logins); i++) {
                struct bytes b = bytes_of(logins[i].hex);
                struct mysql_login l;
                assert_int_equal(mysql_login_parse(slice_of(b), MARIADB_CAPS, &l, NULL), OK);
                assert_slice(l.user, "shop");
                assert_slice(l.database, "wp");
                assert_slice(l.plugin, "mysql_native_password");
                assert_false(l.is_tls_request);
                assert_true((l.caps & logins[i].caps) == logins[i].caps);
                assert_true((l.caps & (logins[i].not_caps | LONG_PASS)) == 0);
                find_attribute(l.attributes, "_client_name", logins[i].client);
                find_attribute(l.attributes, "program_name", logins[i].program);
                free(b.at);
        }
}

/* What may be in a login, one bit of a set each. */
static const uint64_t choices[] = {MYSQL_CONNECT_WITH_DB,    MYSQL_SECURE_CONNECTION,
                                   MYSQL_PLUGIN_AUTH,        MYSQL_CONNECT_ATTRS,
                                   MYSQL_PLUGIN_AUTH_LENENC, MARIADB_CACHE_METADATA};

static uint64_t chosen(unsigned set)
{
        uint64_t caps = MYSQL_PROTOCOL_41;
        for (size_t i = 0; i < ARRAY_LEN(choices); i++)
                caps |= set >> i & 1 ? choices[i] : 0;
        return caps;
}

/* A proof that holds a NUL when its length is told. */
static void put_proof(struct buf *b, bool is_counted)
{
        if (is_counted)
                buf_put(b, "\5pr\0of", 6);
        else
                buf_put(b, "proof", 6);
}

static void put_login(struct buf *b, uint64_t caps)
{
        uint32_t low = (uint32_t)caps, extended = (uint32_t)(caps >> 32);
        buf_put(b, &low, 4);
        buf_put(b, "\0\0\0\1\x2d", 5);
        buf_put(b, "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 19);
        buf_put(b, &extended, 4);
        buf_put(b, "shop", 5);
        put_proof(b, caps & (MYSQL_SECURE_CONNECTION | MYSQL_PLUGIN_AUTH_LENENC));
        if (caps & MYSQL_CONNECT_WITH_DB)
                buf_put(b, "wp", 3);
        if (caps & MYSQL_PLUGIN_AUTH)
                buf_put(b, "plug", 5);
        if (caps & MYSQL_CONNECT_ATTRS)
                buf_put(b, "\x9\2os\0\1a\2bc", 10);
        assert_false(b->failed);
}

static void check_attributes(struct slice rest)
{
        struct slice k, v;
        assert_true(mysql_attribute_next(&rest, &k, &v));
        assert_slice(k, "os");
        assert_slice(v, "");
        assert_true(mysql_attribute_next(&rest, &k, &v));
        assert_slice(k, "a");
        assert_slice(v, "bc");
        assert_false(mysql_attribute_next(&rest, &k, &v));
}

static void a_login_is_read_with_any_capabilities(void **state)
{
        (void)state;
        for (unsigned set = 0; set < 1U << ARRAY_LEN(choices); set++) {
                uint64_t caps = chosen(set);
                struct buf b = {0};
                struct mysql_login l;
                put_login(&b, caps);
                assert_int_equal(mysql_login_parse(buf_slice(&b), MARIADB_CAPS, &l, NULL), OK);
                assert_true(l.caps == caps);
                assert_slice(l.user, "shop");
                assert_slice(l.database, caps & MYSQL_CONNECT_WITH_DB ? "wp" : "");
                assert_slice(l.plugin, caps & MYSQL_PLUGIN_AUTH ? "plug" : "");
                if (caps & MYSQL_CONNECT_ATTRS)
                        check_attributes(l.attributes);
                else
                        assert_int_equal(l.attributes.len, 0);
                buf_release(&b);
        }
}

/* A login that ends after its proof is good, because old clients leave out the rest.  One that ends
 * before, or within its attributes, is none. */
static void a_login_that_is_cut_is_refused(void **state)
{
        (void)state;
        for (unsigned set = 0; set < 1U << ARRAY_LEN(choices); set++) {
                struct buf b = {0};
                uint64_t caps = chosen(set);
                put_login(&b, caps);
                for (size_t n = 0; n < b.len; n++) {
                        struct mysql_login l;
                        struct problem problem;
                        char *part = malloc(n ? n : 1);
                        assert_non_null(part);
                        memcpy(part, b.ptr, n);
                        int err =
                                mysql_login_parse(slice_make(part, n), MARIADB_CAPS, &l, &problem);
                        assert_true(err == OK || err == ERR_SYNTAX);
                        if (n < 32 + 5 + 6 || ((caps & MYSQL_CONNECT_ATTRS) && n > b.len - 10))
                                assert_int_equal(err, ERR_SYNTAX);
                        else
                                assert_int_equal(err, OK);
                        free(part);
                }
                buf_release(&b);
        }
}

static void what_the_server_does_not_offer_is_not_agreed_on(void **state)
{
        struct buf b = {0};
        struct mysql_login l;
        uint64_t caps = MYSQL_PROTOCOL_41 | MYSQL_SECURE_CONNECTION | MYSQL_DEPRECATE_EOF | CACHING;

        (void)state;
        put_login(&b, caps);
        assert_int_equal(mysql_login_parse(buf_slice(&b), MARIADB_CAPS, &l, NULL), OK);
        assert_true(l.caps == caps);
        uint64_t fewer = MARIADB_CAPS & ~(MARIADB_PROGRESS | MYSQL_DEPRECATE_EOF);
        assert_int_equal(mysql_login_parse(buf_slice(&b), fewer, &l, NULL), OK);
        assert_true(l.caps == (caps & fewer));
        /* To MySQL those bytes are reserved, and so they are of a client that says it is of MySQL.
         */
        assert_int_equal(mysql_login_parse(buf_slice(&b), MYSQL_CAPS, &l, NULL), OK);
        assert_true(l.caps == (caps & MYSQL_CAPS));
        buf_clear(&b);
        put_login(&b, caps | LONG_PASS);
        assert_int_equal(mysql_login_parse(buf_slice(&b), MARIADB_CAPS, &l, NULL), OK);
        assert_true(l.caps == (caps & UINT32_MAX));
        buf_release(&b);
}

static void a_login_that_asks_for_tls_has_only_capabilities(void **state)
{
        struct buf b = {0};
        struct mysql_login l;

        (void)state;
        put_login(&b, MYSQL_PROTOCOL_41 | MYSQL_SSL | MYSQL_SECURE_CONNECTION | CACHING);
        assert_int_equal(mysql_login_parse(slice_make(b.ptr, 32), MARIADB_CAPS, &l, NULL), OK);
        assert_true(l.is_tls_request);
        assert_true((l.caps & (MYSQL_SSL | CACHING)) == (MYSQL_SSL | CACHING));
        assert_int_equal(l.user.len, 0);
        /* It asks even where nobody offered. */
        assert_int_equal(
                mysql_login_parse(slice_make(b.ptr, 32), MARIADB_CAPS & ~MYSQL_SSL, &l, NULL), OK);
        assert_true(l.is_tls_request);
        assert_false(l.caps & MYSQL_SSL);
        /* The login within TLS has the same flag. */
        assert_int_equal(mysql_login_parse(buf_slice(&b), MARIADB_CAPS, &l, NULL), OK);
        assert_false(l.is_tls_request);
        assert_slice(l.user, "shop");
        buf_release(&b);
}

static void a_login_before_4_1_is_refused(void **state)
{
        struct bytes b = bytes_of("85 24 00 00 00 73 68 6f 70 00 61 62 63 64 65 66 67 68 00");
        struct mysql_login l;
        struct problem problem;

        (void)state;
        assert_int_equal(mysql_login_parse(slice_of(b), MARIADB_CAPS, &l, &problem), ERR_SYNTAX);
        has(problem.detail, "4.1");
        free(b.at);
}

static void a_change_of_user_is_read_with_any_capabilities(void **state)
{
        (void)state;
        for (unsigned set = 0; set < 1U << ARRAY_LEN(choices); set++) {
                uint64_t caps = chosen(set);
                struct buf b = {0};
                struct mysql_login l;
                struct problem problem;
                buf_put(&b, "\x11shop", 6);
                put_proof(&b, caps & MYSQL_SECURE_CONNECTION);
                size_t proof_end = b.len;
                buf_put(&b, "wp", 3);
                size_t database_end = b.len;
                buf_put(&b, "\x2d\0", 2);
                if (caps & MYSQL_PLUGIN_AUTH)
                        buf_put(&b, "plug", 5);
                if (caps & MYSQL_CONNECT_ATTRS)
                        buf_put(&b, "\x9\2os\0\1a\2bc", 10);
                assert_int_equal(mysql_change_user_parse(buf_slice(&b), caps, &l, NULL), OK);
                assert_true(l.caps == caps);
                assert_slice(l.user, "shop");
                assert_slice(l.database, "wp");
                assert_slice(l.plugin, caps & MYSQL_PLUGIN_AUTH ? "plug" : "");
                if (caps & MYSQL_CONNECT_ATTRS)
                        check_attributes(l.attributes);
                /* A client may end it after the database. */
                for (size_t n = 0; n <= database_end; n++) {
                        int err = mysql_change_user_parse(slice_make(b.ptr, n), caps, &l, &problem);
                        assert_int_equal(err, n < proof_end ? ERR_SYNTAX : OK);
                }
                assert_slice(l.database, "wp");
                assert_int_equal(mysql_change_user_parse(slice_make(b.ptr, database_end + 1), caps,
                                                         &l, NULL),
                                 ERR_SYNTAX);
                b.ptr[0] = COM_PING;
                assert_int_equal(mysql_change_user_parse(buf_slice(&b), caps, &l, NULL),
                                 ERR_SYNTAX);
                buf_release(&b);
        }
}

static void attributes_end_where_they_make_no_sense(void **state)
{
        struct bytes b = bytes_of("01 61 01 62 01 63 05 64");
        struct slice rest = slice_of(b), k, v;

        (void)state;
        assert_true(mysql_attribute_next(&rest, &k, &v));
        assert_slice(k, "a");
        assert_slice(v, "b");
        assert_false(mysql_attribute_next(&rest, &k, &v));
        assert_slice(k, "a");
        free(b.at);
}

int main(void)
{
        static const struct CMUnitTest tests[] = {
                cmocka_unit_test(a_full_buffer_is_told_by_the_buffer),
                cmocka_unit_test(a_query_of_ours_is_read_back),
                cmocka_unit_test(a_length_encoded_number_has_one_to_nine_bytes),
                cmocka_unit_test(a_field_that_is_not_there_takes_nothing),
                cmocka_unit_test(the_attributes_of_a_query_stand_before_its_text),
                cmocka_unit_test(a_query_without_attributes_begins_at_once),
                cmocka_unit_test(attributes_of_every_type_are_passed_over),
                cmocka_unit_test(the_rest_of_a_command_goes_over_all_its_packets),
                cmocka_unit_test(a_greeting_of_mariadb_loses_the_capabilities_that_are_cleared),
                cmocka_unit_test(a_greeting_of_mysql_has_no_capabilities_of_mariadb),
                cmocka_unit_test(a_greeting_that_is_cut_stays_as_it_was),
                cmocka_unit_test(an_error_instead_of_a_greeting_is_told),
                cmocka_unit_test(recorded_logins_tell_user_database_and_attributes),
                cmocka_unit_test(a_login_is_read_with_any_capabilities),
                cmocka_unit_test(a_login_that_is_cut_is_refused),
                cmocka_unit_test(what_the_server_does_not_offer_is_not_agreed_on),
                cmocka_unit_test(a_login_that_asks_for_tls_has_only_capabilities),
                cmocka_unit_test(a_login_before_4_1_is_refused),
                cmocka_unit_test(a_change_of_user_is_read_with_any_capabilities),
                cmocka_unit_test(attributes_end_where_they_make_no_sense),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
