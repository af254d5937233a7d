/* Sessions of the page.
 *
 * A browser that shows the access token gets a session: 128 random bits in a cookie that scripts
 * cannot read and that the browser sends to this host only, and never from a page of another site.
 * weir keeps only the hash of those bits.  So a leak of memory opens no session, and the time of a
 * lookup tells nothing.
 *
 * The cookie alone is not enough to change anything: the page repeats a second value, which it got
 * by asking for it and which no other page can read, in a header (http.c checks it).
 *
 * Sessions are found by a hash and kept in order of use; the one unused longest is at the front, so
 * both expiry and the limit look at nothing else, and no timer is needed.
 *
 * Guessing is slowed down by address: after LIMIT_LOGIN_FAILURES wrong tokens within a minute no
 * further one is even compared.  An IPv6 peer owns at least a /64, so that is its address.  Behind
 * a proxy all have one address; X-Forwarded-For is ignored, since any client can write it. */
#include "door/login.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>

#include "api/command.h"
#include "api/limits.h"
#include "base/duration.h"
#include "wire/http.h"
#include "wire/json.h"

/* Addresses remembered; past it the one whose failure is oldest is forgotten. */
#define ADDRESSES 1000

struct login_address {
        struct hash_node node;
        struct list link;
        int64_t failed_ns[LIMIT_LOGIN_FAILURES]; /* the newest ones; 0: none */
        unsigned next;                           /* where the oldest is */
        char name[INET6_ADDRSTRLEN];
};

static struct slice key_of(const struct secret *s)
{
        return slice_make(s->hash, sizeof(s->hash));
}

/* --- sessions ------------------------------------------------------------------------------- */

void login_init(struct login *l, struct slice instance)
{
        struct secret is;
        secret_init(&is, instance);
        memcpy(l->cookie, LOGIN_COOKIE "_", sizeof(LOGIN_COOKIE));
        hex_from_bytes(is.hash, LOGIN_TAIL_BYTES, l->cookie + sizeof(LOGIN_COOKIE));
        l->cookie[sizeof(l->cookie) - 1] = '\0';
        rng_init_system(&l->rng);
        hash_init(&l->by_id, rng_u64(&l->rng));
        hash_init(&l->by_address, rng_u64(&l->rng));
        list_init(&l->by_use);
        list_init(&l->by_failure);
}

static void session_end(struct login *l, struct login_session *s)
{
        hash_remove(&l->by_id, &s->node);
        list_remove(&s->link);
        (void)grant_unref(s->grant); /* NULL */
        free(s);
}

static void forget(struct login *l, struct login_address *a)
{
        hash_remove(&l->by_address, &a->node);
        list_remove(&a->link);
        free(a);
}

void login_release(struct login *l)
{
        LIST_FOREACH(&l->by_use, it)
        session_end(l, CONTAINER_OF(it, struct login_session, link));
        LIST_FOREACH(&l->by_failure, it)
        forget(l, CONTAINER_OF(it, struct login_address, link));
        hash_release(&l->by_id);
        hash_release(&l->by_address);
}

void login_check(const struct login *l)
{
        size_t n_sessions = 0, n_addresses = 0;
        int64_t used_ns = INT64_MIN;
        LIST_FOREACH(&l->by_use, it)
        {
                const struct login_session *s = CONTAINER_OF(it, struct login_session, link);
                ASSERT(s->used_ns >= used_ns); /* (1) */
                used_ns = s->used_ns;
                n_sessions++;
        }
        LIST_FOREACH(&l->by_failure, it)
        n_addresses++;
        ASSERT(n_sessions == l->by_id.len && n_sessions <= LIMIT_LOGINS);     /* (1) */
        ASSERT(n_addresses == l->by_address.len && n_addresses <= ADDRESSES); /* (2) */
}

static struct login_session *find(struct login *l, const struct secret *id, int64_t now_ns)
{
        struct hash_node *node = hash_find(&l->by_id, key_of(id));
        if (!node)
                return NULL;
        struct login_session *s = CONTAINER_OF(node, struct login_session, node);
        if (s->grant->is_ended || now_ns - s->used_ns >= LOGIN_IDLE_MS * NS_PER_MS) {
                session_end(l, s);
                return NULL;
        }
        s->used_ns = now_ns;
        list_remove(&s->link);
        list_push_back(&l->by_use, &s->link);
        return s;
}

/* What the cookie of ours holds; empty when there is none.  "a=b; weir_session_89ab=0123; c=d" */
static struct slice cookie_value(const struct login *l, struct slice cookies)
{
        struct slice name = slice_str(l->cookie);
        while (cookies.len) {
                const char *end = memchr(cookies.ptr, ';', cookies.len);
                size_t n = end ? (size_t)(end - cookies.ptr) : cookies.len;
                struct slice item = slice_make(cookies.ptr, n);
                cookies = slice_make(cookies.ptr + n, cookies.len - n);
                while (cookies.len && (cookies.ptr[0] == ';' || cookies.ptr[0] == ' '))
                        cookies = slice_make(cookies.ptr + 1, cookies.len - 1);
                if (item.len == name.len + 1 + LOGIN_HEX && item.ptr[name.len] == '=' &&
                    memcmp(item.ptr, name.ptr, name.len) == 0)
                        return slice_make(item.ptr + name.len + 1, LOGIN_HEX);
        }
        return SLICE_NONE;
}

static struct login_session *find_cookie(struct login *l, struct slice cookies, int64_t now_ns)
{
        struct secret id;
        struct slice value = cookie_value(l, cookies);
        if (!value.len)
                return NULL;
        secret_init(&id, value);
        return find(l, &id, now_ns);
}

const struct login_session *login_find(struct login *l, struct slice cookies, int64_t now_ns)
{
        return find_cookie(l, cookies, now_ns);
}

bool login_touch(struct login *l, const struct secret *id, int64_t now_ns)
{
        return find(l, id, now_ns) != NULL;
}

int login_check_csrf(const struct login_session *s, struct slice value, struct problem *p)
{
        if (value.len && secret_is(&s->csrf_is, value))
                return OK;
        return problem_set(p, ERR_FORBIDDEN,
                           "with the session's cookie X-Weir-Csrf must be sent, as /v1/session "
                           "tells it");
}

static void random_hex(struct login *l, char *ret)
{
        uint8_t bytes[LOGIN_HEX / 2];
        rng_fill(&l->rng, bytes, sizeof(bytes));
        hex_from_bytes(bytes, sizeof(bytes), ret);
        ret[LOGIN_HEX] = '\0';
}

/* ret_id: what the cookie is to hold. */
static struct login_session *session_begin(struct login *l, struct grant *grant, int64_t now_ns,
                                           char *ret_id)
{
        if (l->by_id.len >= LIMIT_LOGINS)
                session_end(l, CONTAINER_OF(l->by_use.next, struct login_session, link));
        struct login_session *s = xcalloc(1, sizeof(*s));
        random_hex(l, ret_id);
        random_hex(l, s->csrf);
        secret_init(&s->id, slice_make(ret_id, LOGIN_HEX));
        secret_init(&s->csrf_is, slice_make(s->csrf, LOGIN_HEX));
        s->grant = grant_ref(grant);
        s->used_ns = now_ns;
        hash_insert(&l->by_id, &s->node, key_of(&s->id));
        list_push_back(&l->by_use, &s->link);
        return s;
}

/* --- guessing ------------------------------------------------------------------------------- */

/* Into ret; its length. */
static size_t address_name(const char *text, char ret[INET6_ADDRSTRLEN])
{
        struct in6_addr v6;
        bool is_v6 = inet_pton(AF_INET6, text, &v6) == 1;
        if (is_v6 && !IN6_IS_ADDR_V4MAPPED(&v6)) {
                hex_from_bytes(v6.s6_addr, 8, ret);
                return 16;
        }
        size_t n = strlen(text);
        ASSERT(n < INET6_ADDRSTRLEN);
        memcpy(ret, text, n);
        return n;
}

static struct login_address *find_address(struct login *l, const char *text)
{
        char name[INET6_ADDRSTRLEN];
        struct hash_node *node =
                hash_find(&l->by_address, slice_make(name, address_name(text, name)));
        return node ? CONTAINER_OF(node, struct login_address, node) : NULL;
}

/* How long no further token is taken from there; 0: one is. */
static int64_t wait_ms(struct login *l, const char *address, int64_t now_ns)
{
        const struct login_address *a = find_address(l, address);
        if (!a || !a->failed_ns[a->next])
                return 0;
        int64_t left_ns = a->failed_ns[a->next] + LOGIN_WINDOW_MS * NS_PER_MS - now_ns;
        return left_ns > 0 ? (left_ns + NS_PER_MS - 1) / NS_PER_MS : 0;
}

static void count_failure(struct login *l, const char *address, int64_t now_ns)
{
        struct login_address *a = find_address(l, address);
        if (a) {
                list_remove(&a->link);
        } else {
                if (l->by_address.len >= ADDRESSES)
                        forget(l, CONTAINER_OF(l->by_failure.next, struct login_address, link));
                a = xcalloc(1, sizeof(*a));
                size_t n = address_name(address, a->name);
                hash_insert(&l->by_address, &a->node, slice_make(a->name, n));
        }
        a->failed_ns[a->next] = now_ns;
        a->next = (a->next + 1) % LIMIT_LOGIN_FAILURES;
        list_push_back(&l->by_failure, &a->link);
}

/* --- requests ------------------------------------------------------------------------------- */

static void put_bool(struct buf *b, const char *key, bool v)
{
        json_put_key(b, key);
        buf_put_str(b, v ? "true" : "false");
}

/* The commands that need one of these roles or none.  The page offers an action when its command is
 * among them, so that the roles of the command table are told once and repeated nowhere. */
static void put_commands(struct buf *b, unsigned held)
{
        const char *before = "";
        json_put_key(b, "commands");
        buf_put_byte(b, '[');
        for (size_t i = 0; i < command_table_len; i++) {
                const struct command_def *def = &command_table[i];
                if (!def->path || !((held | ROLE_BIT(ROLE_ANYONE)) & ROLE_BIT(def->role)))
                        continue;
                buf_printf(b, "%s\"%s\"", before, def->name);
                before = ",";
        }
        buf_put_byte(b, ']');
}

/* The name of the token, and what it stands for: the page shows what that allows. */
static void put_rights(struct buf *b, const struct grant *grant, bool is_in)
{
        unsigned held = grant ? grant->held : ROLES_ALL;
        const char *before = "";
        json_put_key(b, "name");
        json_put_text(b, grant && is_in ? grant->name : SLICE_LIT(""));
        json_put_key(b, "roles");
        buf_put_byte(b, '[');
        for (unsigned role = ROLE_READER; is_in && role < N_ROLES; role++) {
                if (!(held & ROLE_BIT(role)))
                        continue;
                buf_printf(b, "%s\"%s\"", before, role_name(role));
                before = ",";
        }
        buf_put_byte(b, ']');
        put_commands(b, is_in ? held : 0);
}

static void put_session(const struct login_call *call, const struct login_session *s)
{
        struct buf *b = call->body;
        bool is_in = s || call->has_token;
        const struct grant *grant = s ? s->grant : call->grant;
        buf_put_byte(b, '{');
        put_bool(b, "needs_login", call->needs_token);
        put_bool(b, "is_logged_in", is_in);
        json_put_key(b, "csrf");
        json_put_text(b, slice_str(s ? s->csrf : ""));
        put_rights(b, grant, is_in || !call->needs_token);
        json_put_key(b, "version"); /* for those who may ask anything else, too */
        json_put_text(b, slice_str(is_in || !call->needs_token ? call->version : ""));
        buf_put_str(b, "}\n");
}

static void put_cookie(const struct login_call *call, struct slice value, int64_t age_s)
{
        buf_printf(call->lines,
                   "Set-Cookie: %s=%.*s; Path=/; HttpOnly; SameSite=Strict; Max-Age=%lld%s\r\n",
                   call->login->cookie, (int)value.len, value.ptr, (long long)age_s,
                   call->is_https ? "; Secure" : "");
}

void login_tell(struct login_call *call)
{
        const struct login_session *s = find_cookie(call->login, call->cookies, call->now_ns);
        /* The browser counts from when it was last set, and we from when it was last used. */
        if (s)
                put_cookie(call, cookie_value(call->login, call->cookies),
                           LOGIN_IDLE_MS / MS_PER_S);
        put_session(call, s);
}

static bool is_type(struct slice type, struct slice want)
{
        const char *semicolon = type.len ? memchr(type.ptr, ';', type.len) : NULL;
        if (semicolon)
                type.len = (size_t)(semicolon - type.ptr);
        while (type.len && type.ptr[type.len - 1] == ' ')
                type.len--;
        return slice_eq_nocase(type, want);
}

static int token_of_form(struct login_call *call, struct slice *ret, struct problem *p)
{
        struct slice left = call->content, key, value;
        while (http_query_next(&left, &key, &value)) {
                if (!slice_eq(key, SLICE_LIT("token")))
                        continue;
                char *text = arena_alloc(call->arena, value.len + 1);
                size_t n = 0;
                if (!text)
                        return problem_set(p, ERR_NOMEM, "%s", err_text(ERR_NOMEM));
                if (!http_unescape(value, true, text, &n))
                        return problem_set(p, ERR_SYNTAX, "token is not well escaped");
                *ret = slice_make(text, n);
                return OK;
        }
        return problem_set(p, ERR_BADARG, "the form has no field token");
}

static int token_of_json(struct login_call *call, struct slice *ret, struct problem *p)
{
        struct json_value root, v;
        int r = json_parse(call->content, 4, &root, p);
        if (r != OK)
                return r;
        if (!json_get(&root, "token", &v) || v.type != JSON_STRING)
                return problem_set(p, ERR_BADARG, "send {\"token\": \"...\"}");
        r = json_to_text(&v, call->arena, ret);
        return r == OK ? OK : problem_set(p, r, "%s", err_text(r));
}

static int read_token(struct login_call *call, struct slice *ret, struct problem *p)
{
        if (is_type(call->content_type, SLICE_LIT("application/json")))
                return token_of_json(call, ret, p);
        if (is_type(call->content_type, SLICE_LIT("application/x-www-form-urlencoded")))
                return token_of_form(call, ret, p);
        return problem_set(p, ERR_MEDIA,
                           "send application/json or application/x-www-form-urlencoded");
}

int login_enter(struct login_call *call, struct problem *p)
{
        struct login *l = call->login;
        char id[LOGIN_HEX + 1];
        struct slice token;
        if (!call->needs_token) {
                put_session(call, NULL);
                return OK;
        }
        int64_t wait = wait_ms(l, call->address, call->now_ns);
        if (wait) {
                char text[DURATION_TEXT_MAX];
                buf_printf(call->lines, "Retry-After: %lld\r\n", (wait + MS_PER_S - 1) / MS_PER_S);
                return problem_set(p, ERR_LIMIT, "too many wrong tokens; try again in %s",
                                   duration_words_left(wait, text));
        }
        int r = read_token(call, &token, p);
        if (r != OK)
                return r;
        struct grant *grant = call->find(call->find_ctx, token, call->address);
        if (!grant) {
                count_failure(l, call->address, call->now_ns);
                return problem_set(p, ERR_BADTOKEN, "%s", err_text(ERR_BADTOKEN));
        }
        /* A session that this browser had before is replaced. */
        struct login_session *old = find_cookie(l, call->cookies, call->now_ns);
        if (old)
                session_end(l, old);
        const struct login_session *s = session_begin(l, grant, call->now_ns, id);
        put_cookie(call, slice_make(id, LOGIN_HEX), LOGIN_IDLE_MS / MS_PER_S);
        put_session(call, s);
        return OK;
}

void login_leave(struct login_call *call)
{
        struct login_session *s = find_cookie(call->login, call->cookies, call->now_ns);
        if (s)
                session_end(call->login, s);
        put_cookie(call, SLICE_LIT(""), 0);
        put_session(call, NULL);
}
