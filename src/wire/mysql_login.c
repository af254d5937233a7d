#include "wire/mysql_login.h"

#include "base/bytes.h"

#define PROTOCOL_VERSION 10
#define HEADER_ERROR     0xff
#define NONCE_FIRST      8

/* MySQL sets it always.  MariaDB and its clients leave it out to say that their extended
 * capabilities are in four of the reserved bytes. */
#define LONG_PASSWORD  (UINT64_C(1) << 0)

#define LOGIN_FIXED    32 /* before the user's name; alone it asks for TLS */
#define LOGIN_EXTENDED 28 /* where the client of MariaDB has its extended capabilities */
#define LOGIN_CAPS_LEN 4

/* ---- the greeting ---- */

static int greeting_error(struct slice rest, struct problem *problem)
{
        uint16_t number;
        if (!mysql_get_u16(&rest, &number))
                return problem_set(problem, ERR_SYNTAX, "the server's error is cut short");
        if (rest.len >= 6 && *rest.ptr == '#') { /* and an SQLSTATE, which it may have */
                rest.ptr += 6;
                rest.len -= 6;
        }
        return problem_set(problem, ERR_UNAVAIL, "the server refused the connection: %.*s (%u)",
                           (int)(rest.len < PROBLEM_DETAIL_MAX ? rest.len : PROBLEM_DETAIL_MAX),
                           rest.len ? rest.ptr : "", (unsigned)number);
}

/* Version 10: 0a, version NUL, thread (4), nonce (8), 00, capabilities (2), charset (1), status
 * (2), capabilities (2), length of the nonce (1), reserved (6), extended capabilities (4), ... */
int mysql_greeting_edit(uint8_t *payload, size_t len, uint64_t clear, struct mysql_greeting *ret,
                        struct problem *problem)
{
        struct mysql_greeting g = {0};
        struct slice rest = slice_make(payload, len), skipped;
        uint8_t version, charset;
        uint16_t low, high;
        uint32_t extended;
        if (!mysql_get_u8(&rest, &version))
                return problem_set(problem, ERR_SYNTAX, "the server's greeting is empty");
        if (version == HEADER_ERROR)
                return greeting_error(rest, problem);
        if (version != PROTOCOL_VERSION)
                return problem_set(problem, ERR_SYNTAX,
                                   "the server's greeting has version %u; it must be %d",
                                   (unsigned)version, PROTOCOL_VERSION);
        if (!mysql_get_zero_text(&rest, &g.version) || !mysql_get_u32(&rest, &g.thread_id) ||
            !mysql_get_bytes(&rest, NONCE_FIRST + 1, &skipped))
                return problem_set(problem, ERR_SYNTAX, "the server's greeting is cut short");
        uint8_t *low_at = payload + (len - rest.len);
        if (!mysql_get_u16(&rest, &low) || !mysql_get_u8(&rest, &charset) ||
            !mysql_get_u16(&rest, &g.status))
                return problem_set(problem, ERR_SYNTAX, "the server's greeting is cut short");
        uint8_t *high_at = payload + (len - rest.len);
        if (!mysql_get_u16(&rest, &high) || !mysql_get_bytes(&rest, 1 + 6, &skipped))
                return problem_set(problem, ERR_SYNTAX, "the server's greeting is cut short");
        uint8_t *extended_at = payload + (len - rest.len);
        if (!mysql_get_u32(&rest, &extended))
                return problem_set(problem, ERR_SYNTAX, "the server's greeting is cut short");

        g.caps = low | (uint64_t)high << 16;
        g.is_mariadb = !(g.caps & LONG_PASSWORD);
        store_u16(low_at, (uint16_t)(low & ~clear));
        store_u16(high_at, (uint16_t)(high & ~(clear >> 16)));
        if (g.is_mariadb) {
                g.caps |= (uint64_t)extended << 32;
                store_u32(extended_at, (uint32_t)(extended & ~(clear >> 32)));
        }
        *ret = g;
        return OK;
}

void mysql_greeting_offer_tls(uint8_t *payload, size_t len)
{
        struct slice rest = slice_make(payload, len), skipped;
        uint8_t version;
        bool is_fine = mysql_get_u8(&rest, &version) && mysql_get_zero_text(&rest, &skipped) &&
                       mysql_get_bytes(&rest, 4 + NONCE_FIRST + 1, &skipped) && rest.len >= 2;
        ASSERT(is_fine);
        payload[len - rest.len + 1] |= (uint8_t)(MYSQL_SSL >> 8);
}

/* ---- the login ---- */

/* A text that ends with a NUL or with the packet: some clients leave out the last NUL. */
static struct slice last_text(struct slice *rest)
{
        struct slice text;
        if (!mysql_get_zero_text(rest, &text)) {
                text = *rest;
                rest->ptr += rest->len;
                rest->len = 0;
        }
        return text;
}

/* Skips the proof of the password, whose length is told in one of three ways. */
static bool skip_proof(struct slice *rest, bool is_lenenc, bool is_counted)
{
        struct slice proof;
        uint8_t n;
        if (is_lenenc)
                return mysql_get_text(rest, &proof);
        if (is_counted)
                return mysql_get_u8(rest, &n) && mysql_get_bytes(rest, n, &proof);
        return mysql_get_zero_text(rest, &proof);
}

/* What a login and COM_CHANGE_USER have at their end; clients leave out what they do not know. */
static bool get_plugin_and_attributes(struct slice *rest, struct mysql_login *l)
{
        if (l->caps & MYSQL_PLUGIN_AUTH)
                l->plugin = last_text(rest);
        return !(l->caps & MYSQL_CONNECT_ATTRS) || !rest->len ||
               mysql_get_text(rest, &l->attributes);
}

int mysql_login_parse(struct slice payload, uint64_t server_caps, struct mysql_login *ret,
                      struct problem *problem)
{
        struct mysql_login l = {0};
        struct slice rest = payload, fixed;
        if (payload.len < LOGIN_CAPS_LEN || !(load_u16(payload.ptr) & MYSQL_PROTOCOL_41))
                return problem_set(problem, ERR_SYNTAX,
                                   "the login is not that of a client of MySQL 4.1 or later");
        if (!mysql_get_bytes(&rest, LOGIN_FIXED, &fixed))
                return problem_set(problem, ERR_SYNTAX, "the client's login is cut short");
        uint64_t caps = load_u32(fixed.ptr);
        if (!(caps & LONG_PASSWORD) && !(server_caps & LONG_PASSWORD))
                caps |= (uint64_t)load_u32(fixed.ptr + LOGIN_EXTENDED) << 32;
        l.caps = caps & server_caps;
        l.is_tls_request = (caps & MYSQL_SSL) && !rest.len;
        if (!l.is_tls_request) {
                if (!mysql_get_zero_text(&rest, &l.user) ||
                    !skip_proof(&rest, l.caps & MYSQL_PLUGIN_AUTH_LENENC,
                                l.caps & MYSQL_SECURE_CONNECTION))
                        return problem_set(problem, ERR_SYNTAX, "the client's login is cut short");
                if (l.caps & MYSQL_CONNECT_WITH_DB)
                        l.database = last_text(&rest);
                if (!get_plugin_and_attributes(&rest, &l))
                        return problem_set(problem, ERR_SYNTAX,
                                           "the attributes of the client's login are cut short");
        }
        *ret = l;
        return OK;
}

/* 11, user NUL, proof (its length in one byte), database NUL, charset (2), plugin NUL, attributes
 */
int mysql_change_user_parse(struct slice payload, uint64_t caps, struct mysql_login *ret,
                            struct problem *problem)
{
        struct mysql_login l = {.caps = caps};
        struct slice rest = payload;
        uint8_t command;
        uint16_t charset;
        if (!mysql_get_u8(&rest, &command) || command != COM_CHANGE_USER ||
            !mysql_get_zero_text(&rest, &l.user) ||
            !skip_proof(&rest, false, caps & MYSQL_SECURE_CONNECTION))
                return problem_set(problem, ERR_SYNTAX, "the change of user is cut short");
        l.database = last_text(&rest);
        if (rest.len && (!mysql_get_u16(&rest, &charset) || !get_plugin_and_attributes(&rest, &l)))
                return problem_set(problem, ERR_SYNTAX, "the change of user is cut short");
        *ret = l;
        return OK;
}

bool mysql_attribute_next(struct slice *rest, struct slice *ret_key, struct slice *ret_value)
{
        struct slice key, value;
        if (!mysql_get_text(rest, &key) || !mysql_get_text(rest, &value))
                return false;
        *ret_key = key;
        *ret_value = value;
        return true;
}
