/* Any bytes as the greeting of a MySQL server, as a login, as a change of user, as a query and as
 * the rest of a long command: the first byte says as which, the next eight are capabilities.
 *
 * What is read must lie within the payload.  A greeting that is refused is unchanged; of one that
 * is edited only capabilities have changed, and those that were cleared are gone. */
#include <stdlib.h>

#include "wire/mysql_login.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool lies_within(struct slice part, struct slice whole)
{
        return !part.len || ((uintptr_t)part.ptr >= (uintptr_t)whole.ptr &&
                             (uintptr_t)part.ptr + part.len <= (uintptr_t)whole.ptr + whole.len);
}

static void greeting(uint8_t *bytes, size_t n, uint64_t clear, const uint8_t *was)
{
        struct mysql_greeting g, again;
        struct problem problem;
        int err = mysql_greeting_edit(bytes, n, clear, &g, &problem);
        if (err) {
                ASSERT((err == ERR_SYNTAX || err == ERR_UNAVAIL) && problem.err == err);
                ASSERT(!n || memcmp(bytes, was, n) == 0);
                return;
        }
        size_t changed = 0;
        for (size_t i = 0; i < n; i++) {
                ASSERT((bytes[i] & was[i]) == bytes[i]);
                changed += bytes[i] != was[i];
        }
        ASSERT(changed <= (g.is_mariadb ? 8 : 4));
        ASSERT(lies_within(g.version, slice_make(bytes, n)));
        ASSERT(mysql_greeting_edit(bytes, n, 0, &again, &problem) == OK);
        /* Bit 0 says whether the upper half is there. */
        ASSERT((uint32_t)again.caps == (uint32_t)(g.caps & ~clear));
        ASSERT(again.is_mariadb != g.is_mariadb || again.caps == (g.caps & ~clear));
}

static void check_login(const struct mysql_login *l, struct slice payload)
{
        struct slice rest = l->attributes, key, value;
        ASSERT(lies_within(l->user, payload) && lies_within(l->database, payload));
        ASSERT(lies_within(l->plugin, payload) && lies_within(l->attributes, payload));
        ASSERT(!l->is_tls_request || !l->user.len);
        while (mysql_attribute_next(&rest, &key, &value)) {
                ASSERT(lies_within(key, l->attributes) && lies_within(value, l->attributes));
                ASSERT(rest.len < l->attributes.len);
        }
}

static void login(struct slice payload, uint64_t caps)
{
        struct mysql_login l;
        struct problem problem;
        int err = mysql_login_parse(payload, caps, &l, &problem);
        ASSERT(err == OK || (err == ERR_SYNTAX && problem.err == err));
        if (err)
                return;
        ASSERT((l.caps & ~caps) == 0);
        check_login(&l, payload);
}

static void change_user(struct slice payload, uint64_t caps)
{
        struct mysql_login l;
        struct problem problem;
        int err = mysql_change_user_parse(payload, caps, &l, &problem);
        ASSERT(err == OK || (err == ERR_SYNTAX && problem.err == err));
        if (!err)
                check_login(&l, payload);
}

static void query(struct slice payload, uint64_t caps)
{
        struct mysql_attributes a;
        struct slice sql, name, value;
        size_t n = 0;
        if (!mysql_query_text(payload, caps, &sql, &a))
                return;
        ASSERT(lies_within(sql, payload) && sql.ptr + sql.len == payload.ptr + payload.len);
        for (; mysql_query_attribute_next(&a, &name, &value); n++) {
                ASSERT(lies_within(name, payload) && lies_within(value, payload));
                ASSERT(!value.len || value.ptr + value.len <= sql.ptr);
        }
        ASSERT(n <= a.n && a.at == a.n); /* what it took was looked at before */
}

/* The bytes begin with a header; `cut` is where they come in two. */
static void rest_of_command(const uint8_t *bytes, size_t n, size_t cut)
{
        struct mysql_rest whole, in_two;
        if (n < MYSQL_HEADER)
                return;
        mysql_rest_begin(&whole, bytes, 0);
        mysql_rest_begin(&in_two, bytes, 0);
        bytes += MYSQL_HEADER;
        n -= MYSQL_HEADER;
        if (cut > n)
                cut = n;
        size_t used = mysql_rest_pass(&whole, bytes, n);
        size_t first = mysql_rest_pass(&in_two, bytes, cut);
        ASSERT(used <= n && first <= cut);
        ASSERT(first + mysql_rest_pass(&in_two, bytes + first, n - first) == used);
        ASSERT(whole.left == in_two.left && whole.sequence == in_two.sequence);
        ASSERT(mysql_rest_is_done(&whole) == mysql_rest_is_done(&in_two));
        ASSERT(mysql_rest_is_done(&whole) || used == n);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        if (size < 9)
                return 0;
        uint64_t caps;
        memcpy(&caps, data + 1, sizeof(caps));
        const uint8_t *bytes = data + 9;
        size_t n = size - 9;
        uint8_t *copy = malloc(n ? n : 1);
        ASSERT(copy);
        memcpy(copy, bytes, n);
        struct slice payload = slice_make(copy, n);
        switch (data[0] % 5) {
        case 0:
                greeting(copy, n, caps, bytes);
                break;
        case 1:
                login(payload, caps);
                break;
        case 2:
                change_user(payload, caps);
                break;
        case 3:
                query(payload, caps);
                break;
        default:
                rest_of_command(copy, n, caps % 64);
        }
        free(copy);
        return 0;
}
