/* Sessions of the page: who gets one, how long it lasts, and how guessing is slowed down. */
#include "check.h"

#include <stdio.h>

#include "api/limits.h"
#include "door/login.h"

#define TOKEN  "a long secret"
#define MINUTE (60 * NS_PER_S)
#define HOUR   (60 * MINUTE)
#define FORM   "application/x-www-form-urlencoded"

struct room {
        struct login login;
        struct secret token;
        struct arena arena;
        struct buf lines, body;
        struct problem problem;
        struct grant *grant; /* of that token */
        int64_t now_ns;
        bool is_https, is_without_token;
        const char *address, *cookies, *type;
};

static void room_init(struct room *r)
{
        *r = (struct room){
                .now_ns = HOUR, .address = "192.0.2.1", .cookies = "", .type = "application/json"};
        login_init(&r->login, SLICE_LIT("host:/data"));
        secret_init(&r->token, SLICE_LIT(TOKEN));
        r->grant = grant_new(
                &(struct grant){.name = SLICE_LIT("web"), .roles = ROLE_BIT(ROLE_READER)});
        arena_init(&r->arena, MIB);
        buf_init(&r->lines, 0);
        buf_init(&r->body, 0);
}

static void room_release(struct room *r)
{
        login_release(&r->login);
        r->grant = grant_unref(r->grant);
        arena_release(&r->arena);
        buf_release(&r->lines);
        buf_release(&r->body);
}

static struct grant *find(void *ctx, struct slice token, const char *address)
{
        struct room *r = ctx;
        assert_string_equal(address, r->address);
        return secret_is(&r->token, token) ? r->grant : NULL;
}

static struct login_call call(struct room *r, const char *content)
{
        buf_clear(&r->lines);
        buf_clear(&r->body);
        return (struct login_call){
                .login = &r->login,
                .needs_token = !r->is_without_token,
                .find = find,
                .find_ctx = r,
                .version = "1.2.3",
                .now_ns = r->now_ns,
                .address = r->address,
                .cookies = slice_str(r->cookies),
                .is_https = r->is_https,
                .content_type = slice_str(r->type),
                .content = slice_str(content),
                .arena = &r->arena,
                .lines = &r->lines,
                .body = &r->body,
        };
}

static int enter(struct room *r, const char *content)
{
        struct login_call c = call(r, content);
        return login_enter(&c, &r->problem);
}

static const char *tell_of(struct room *r)
{
        struct login_call c = call(r, "");
        login_tell(&c);
        return buf_cstr(&r->body);
}

#define NAME "weir_session_83d6a782" /* the hash of "host:/data" begins so */

/* NAME=0123... of the Set-Cookie line just written. */
static void take_cookie(struct room *r, char ret[64])
{
        const char *at = strstr(buf_cstr(&r->lines), NAME "=");
        assert_non_null(at);
        size_t n = strcspn(at, ";");
        assert_int_equal(n, strlen(NAME "=") + LOGIN_HEX);
        memcpy(ret, at, n);
        ret[n] = '\0';
}

#define GOOD "{\"token\":\"" TOKEN "\"}"
#define BAD  "{\"token\":\"a long secreT\"}"

static const struct login_session *found(struct room *r, const char *cookies)
{
        return login_find(&r->login, slice_str(cookies), r->now_ns);
}

static void the_token_gives_a_session_and_the_cookie_says_what_it_must(void **state)
{
        struct room r;
        char cookie[64], all[160];

        (void)state;
        room_init(&r);
        assert_int_equal(enter(&r, GOOD), OK);
        take_cookie(&r, cookie);
        const char *lines = buf_cstr(&r.lines);
        assert_non_null(strstr(lines, "; Path=/;"));
        assert_non_null(strstr(lines, "; HttpOnly;"));
        assert_non_null(strstr(lines, "; SameSite=Strict;"));
        assert_non_null(strstr(lines, "; Max-Age=43200\r\n"));
        assert_null(strstr(lines, "Secure"));
        assert_non_null(strstr(buf_cstr(&r.body), "\"is_logged_in\":true"));
        const struct login_session *s = found(&r, cookie);
        assert_non_null(s);
        assert_non_null(strstr(buf_cstr(&r.body), s->csrf));
        assert_int_equal(strlen(s->csrf), LOGIN_HEX);
        (void)snprintf(all, sizeof(all), "a=b; %s; c=d", cookie);
        assert_ptr_equal(found(&r, all), s);
        r.is_https = true;
        assert_int_equal(enter(&r, GOOD), OK);
        assert_non_null(strstr(buf_cstr(&r.lines), "; Max-Age=43200; Secure\r\n"));
        room_release(&r);
}

static void a_cookie_that_was_never_given_is_nobody(void **state)
{
        static const char *const wrong[] = {
                "",
                ";",
                "; ;;",
                NAME,
                NAME "=",
                NAME "=00000000000000000000000000000000",
                NAME "=0000000000000000000000000000000",
                NAME "=000000000000000000000000000000000",
                "weir_session=00000000000000000000000000000000",
                "other=1",
        };
        struct room r;
        char cookie[64], changed[96];

        (void)state;
        room_init(&r);
        assert_int_equal(enter(&r, GOOD), OK);
        take_cookie(&r, cookie);
        for (size_t i = 0; i < ARRAY_LEN(wrong); i++)
                assert_null(found(&r, wrong[i]));
        for (size_t i = 0; i < strlen(cookie); i++) {
                memcpy(changed, cookie, strlen(cookie) + 1);
                changed[i] = changed[i] == '0' ? '1' : '0';
                assert_null(found(&r, changed));
        }
        (void)snprintf(changed, sizeof(changed), "x%s", cookie);
        assert_null(found(&r, changed));
        (void)snprintf(changed, sizeof(changed), "%s0", cookie);
        assert_null(found(&r, changed));
        room_release(&r);
}

static void only_the_value_of_the_session_lets_a_change_through(void **state)
{
        struct room r;
        char cookie[64], changed[LOGIN_HEX + 1];

        (void)state;
        room_init(&r);
        assert_int_equal(enter(&r, GOOD), OK);
        take_cookie(&r, cookie);
        const struct login_session *s = found(&r, cookie);
        assert_non_null(s);
        assert_int_equal(login_check_csrf(s, slice_str(s->csrf), &r.problem), OK);
        assert_int_equal(login_check_csrf(s, SLICE_NONE, &r.problem), ERR_FORBIDDEN);
        memcpy(changed, s->csrf, sizeof(changed));
        changed[LOGIN_HEX - 1] ^= 1;
        assert_int_equal(login_check_csrf(s, slice_str(changed), &r.problem), ERR_FORBIDDEN);
        assert_int_equal(login_check_csrf(s, slice_make(s->csrf, 31), &r.problem), ERR_FORBIDDEN);
        /* Nor is the cookie itself that value, which a script could then read. */
        assert_null(strstr(cookie, s->csrf));
        room_release(&r);
}

static void a_session_ends_when_it_was_not_used_for_twelve_hours_and_not_before(void **state)
{
        struct room r;
        char cookie[64];

        (void)state;
        room_init(&r);
        assert_int_equal(enter(&r, GOOD), OK);
        take_cookie(&r, cookie);
        r.now_ns += 12 * HOUR - 1;
        assert_non_null(found(&r, cookie));
        r.now_ns += 12 * HOUR - 1; /* from its last use */
        const struct login_session *s = found(&r, cookie);
        assert_non_null(s);
        struct secret id = s->id;
        r.now_ns += 12 * HOUR - 1;
        assert_true(login_touch(&r.login, &id, r.now_ns));
        r.now_ns += 12 * HOUR;
        assert_false(login_touch(&r.login, &id, r.now_ns));
        assert_null(found(&r, cookie));
        assert_int_equal(r.login.by_id.len, 0);
        room_release(&r);
}

static void logging_out_ends_this_session_and_no_other(void **state)
{
        struct room r;
        char one[64], two[64];

        (void)state;
        room_init(&r);
        assert_int_equal(enter(&r, GOOD), OK);
        take_cookie(&r, one);
        assert_int_equal(enter(&r, GOOD), OK);
        take_cookie(&r, two);
        assert_string_not_equal(one, two);
        r.cookies = one;
        struct login_call c = call(&r, "");
        login_leave(&c);
        assert_non_null(strstr(buf_cstr(&r.lines), "Set-Cookie: " NAME "=; "));
        assert_non_null(strstr(buf_cstr(&r.lines), "; Max-Age=0\r\n"));
        assert_null(found(&r, one));
        assert_non_null(found(&r, two));
        c = call(&r, "");
        login_leave(&c); /* again: nothing to end */
        assert_int_equal(r.login.by_id.len, 1);
        room_release(&r);
}

static void the_cookie_of_another_weir_of_the_host_stands_beside_ours(void **state)
{
        struct room r, other;
        char mine[64], both[160];

        (void)state;
        room_init(&r);
        room_init(&other);
        login_release(&other.login);
        login_init(&other.login, SLICE_LIT("host:/other"));
        assert_string_not_equal(r.login.cookie, other.login.cookie);
        assert_int_equal(enter(&r, GOOD), OK);
        take_cookie(&r, mine);
        assert_int_equal(enter(&other, GOOD), OK);
        const char *at = strstr(buf_cstr(&other.lines), other.login.cookie);
        assert_non_null(at);
        (void)snprintf(both, sizeof(both), "%.*s; %s", (int)strcspn(at, ";"), at, mine);
        assert_ptr_equal(found(&r, both), found(&r, mine));
        assert_non_null(found(&other, both));
        assert_null(found(&other, mine));
        r.cookies = other.cookies = both;
        struct login_call c = call(&other, "");
        login_leave(&c); /* out there, and in here */
        assert_null(found(&other, both));
        assert_non_null(found(&r, both));
        room_release(&r);
        room_release(&other);
}

static void logging_in_again_replaces_the_session_of_that_browser(void **state)
{
        struct room r;
        char one[64], two[64];

        (void)state;
        room_init(&r);
        assert_int_equal(enter(&r, GOOD), OK);
        take_cookie(&r, one);
        r.cookies = one;
        assert_int_equal(enter(&r, GOOD), OK);
        take_cookie(&r, two);
        assert_null(found(&r, one));
        assert_non_null(found(&r, two));
        room_release(&r);
}

static void the_session_unused_longest_makes_room_for_one_too_many(void **state)
{
        struct room r;
        char first[64], second[64], cookie[64];

        (void)state;
        room_init(&r);
        for (int i = 0; i < LIMIT_LOGINS; i++) {
                assert_int_equal(enter(&r, GOOD), OK);
                take_cookie(&r, i == 0 ? first : i == 1 ? second : cookie);
        }
        assert_non_null(found(&r, first)); /* so that it is the second that was not used */
        assert_int_equal(enter(&r, GOOD), OK);
        assert_int_equal(r.login.by_id.len, LIMIT_LOGINS);
        assert_non_null(found(&r, first));
        assert_null(found(&r, second));
        assert_non_null(found(&r, cookie));
        room_release(&r);
}

static void what_a_browser_is_told_of_its_session(void **state)
{
        struct room r;
        char cookie[64];

        (void)state;
        room_init(&r);
        assert_string_equal(tell_of(&r), "{\"needs_login\":true,\"is_logged_in\":false,"
                                         "\"csrf\":\"\",\"name\":\"\",\"roles\":[],"
                                         "\"commands\":[],\"version\":\"\"}\n");
        assert_int_equal(r.lines.len, 0);
        assert_int_equal(enter(&r, GOOD), OK);
        take_cookie(&r, cookie);
        r.cookies = cookie;
        const char *told = tell_of(&r);
        assert_non_null(strstr(told, "\"is_logged_in\":true"));
        assert_non_null(strstr(told, "\"version\":\"1.2.3\""));
        assert_non_null(strstr(told, "\"name\":\"web\",\"roles\":[\"reader\"]"));
        assert_non_null(strstr(told, found(&r, cookie)->csrf));
        assert_non_null(strstr(buf_cstr(&r.lines), cookie)); /* it counts from now again */
        r.grant->is_ended = true;
        assert_non_null(strstr(tell_of(&r), "\"is_logged_in\":false"));
        r.is_without_token = true;
        r.cookies = "";
        told = tell_of(&r);
        assert_non_null(strstr(told, "{\"needs_login\":false,\"is_logged_in\":false,\"csrf\":\"\","
                                     "\"name\":\"\",\"roles\":[\"reader\","));
        assert_non_null(strstr(told, "\"admin\"],\"commands\":["));
        assert_non_null(strstr(told, "\"TOKENADD\""));
        assert_non_null(strstr(told, "],\"version\":\"1.2.3\"}\n"));
        assert_int_equal(enter(&r, BAD), OK); /* nobody asks */
        assert_int_equal(r.lines.len, 0);
        room_release(&r);
}

static void the_token_may_come_as_json_or_as_a_form(void **state)
{
        static const struct {
                const char *type, *content;
                int r;
        } rows[] = {
                {"application/json", GOOD, OK},
                {"Application/JSON ; charset=utf-8", GOOD, OK},
                {"application/json", "{\"token\":\"a long \\u0073ecret\"}", OK},
                {FORM, "token=a+long+secret", OK},
                {FORM, "x=1&token=a%20long%20s%65cret&y", OK},
                {FORM, "token=wrong", ERR_BADTOKEN},
                {FORM, "token=", ERR_BADTOKEN},
                {FORM, "token=%zz", ERR_SYNTAX},
                {FORM, "token=%00", ERR_SYNTAX},
                {FORM, "tokens=1", ERR_BADARG},
                {FORM, "", ERR_BADARG},
                {"application/json", "", ERR_SYNTAX},
                {"application/json", "{", ERR_SYNTAX},
                {"application/json", "{}", ERR_BADARG},
                {"application/json", "[]", ERR_BADARG},
                {"application/json", "{\"token\":1}", ERR_BADARG},
                {"application/json", "{\"token\":null}", ERR_BADARG},
                {"application/json", "[[[[[[1]]]]]]", ERR_SYNTAX},
                {"text/plain", GOOD, ERR_MEDIA},
                {"", GOOD, ERR_MEDIA},
        };
        struct room r;

        (void)state;
        room_init(&r);
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                r.type = rows[i].type;
                if (enter(&r, rows[i].content) != rows[i].r)
                        fail_msg("%s: '%s'", rows[i].type, rows[i].content);
        }
        room_release(&r);
}

static void after_five_wrong_tokens_a_minute_none_is_compared(void **state)
{
        struct room r;

        (void)state;
        room_init(&r);
        for (int i = 0; i < LIMIT_LOGIN_FAILURES; i++) {
                assert_int_equal(enter(&r, BAD), ERR_BADTOKEN);
                r.now_ns += NS_PER_S;
        }
        assert_int_equal(enter(&r, BAD), ERR_LIMIT);
        assert_int_equal(enter(&r, GOOD), ERR_LIMIT);
        assert_string_equal(buf_cstr(&r.lines), "Retry-After: 55\r\n");
        assert_int_equal(r.login.by_id.len, 0);
        r.address = "192.0.2.2"; /* others are let in */
        assert_int_equal(enter(&r, GOOD), OK);
        r.address = "192.0.2.1";
        r.now_ns += 55 * NS_PER_S - 1;
        assert_int_equal(enter(&r, GOOD), ERR_LIMIT);
        r.now_ns += 1; /* the first failure is a minute old */
        assert_int_equal(enter(&r, BAD), ERR_BADTOKEN);
        assert_int_equal(enter(&r, BAD), ERR_LIMIT);
        r.now_ns += MINUTE;
        assert_int_equal(enter(&r, GOOD), OK);
        room_release(&r);
}

static void an_ipv6_network_counts_as_one_address(void **state)
{
        struct room r;
        char address[64];

        (void)state;
        room_init(&r);
        r.address = address;
        for (int i = 0; i < LIMIT_LOGIN_FAILURES; i++) {
                (void)snprintf(address, sizeof(address), "2001:db8:0:1::%d", i);
                assert_int_equal(enter(&r, BAD), ERR_BADTOKEN);
        }
        assert_int_equal(enter(&r, GOOD), ERR_LIMIT);
        (void)snprintf(address, sizeof(address), "2001:db8:0:2::1");
        assert_int_equal(enter(&r, GOOD), OK);
        (void)snprintf(address, sizeof(address), "::ffff:192.0.2.1");
        for (int i = 0; i < LIMIT_LOGIN_FAILURES; i++)
                assert_int_equal(enter(&r, BAD), ERR_BADTOKEN);
        (void)snprintf(address, sizeof(address), "::ffff:192.0.2.2");
        assert_int_equal(enter(&r, GOOD), OK);
        address[0] = '\0'; /* a unix socket */
        assert_int_equal(enter(&r, GOOD), OK);
        room_release(&r);
}

static void many_addresses_do_not_take_memory_without_end(void **state)
{
        struct room r;
        char address[64];

        (void)state;
        room_init(&r);
        r.address = address;
        for (int i = 0; i < 3000; i++) {
                (void)snprintf(address, sizeof(address), "10.0.%d.%d", i / 250, i % 250);
                assert_int_equal(enter(&r, BAD), ERR_BADTOKEN);
        }
        assert_int_equal(r.login.by_address.len, 1000);
        room_release(&r);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(the_token_gives_a_session_and_the_cookie_says_what_it_must),
                cmocka_unit_test(a_cookie_that_was_never_given_is_nobody),
                cmocka_unit_test(only_the_value_of_the_session_lets_a_change_through),
                cmocka_unit_test(
                        a_session_ends_when_it_was_not_used_for_twelve_hours_and_not_before),
                cmocka_unit_test(logging_out_ends_this_session_and_no_other),
                cmocka_unit_test(the_cookie_of_another_weir_of_the_host_stands_beside_ours),
                cmocka_unit_test(logging_in_again_replaces_the_session_of_that_browser),
                cmocka_unit_test(the_session_unused_longest_makes_room_for_one_too_many),
                cmocka_unit_test(what_a_browser_is_told_of_its_session),
                cmocka_unit_test(the_token_may_come_as_json_or_as_a_form),
                cmocka_unit_test(after_five_wrong_tokens_a_minute_none_is_compared),
                cmocka_unit_test(an_ipv6_network_counts_as_one_address),
                cmocka_unit_test(many_addresses_do_not_take_memory_without_end),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
