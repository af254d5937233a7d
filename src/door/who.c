/* See who.h.  The tokens themselves are in things/token.c. */
#include "door/who.h"

#include "base/base64.h"
#include "door/door_int.h"

/* A name, a colon and a token: nothing longer can be right. */
#define BASIC_BYTES 1024

void who_init(struct server *s)
{
        s->stranger = grant_new(&(struct grant){.name = SLICE_LIT("nobody")});
        s->asker = grant_new(
                &(struct grant){.name = SLICE_LIT("nobody"), .roles = ROLE_BIT(ROLE_CHECKER)});
        s->needs_token = tokens_are_needed(s->core);
        s->tokens_seen = tokens_version(s->core);
}

void who_release(struct server *s)
{
        s->stranger = grant_unref(s->stranger);
        s->asker = grant_unref(s->asker);
}

/* What it has already been answered still leaves. */
static void end(struct conn *c)
{
        use_become(c, NULL);
        session_release(c->server->core, &c->session);
        use_become(c, c->server->stranger);
        conn_finish(c, true);
}

void who_look(struct server *s)
{
        uint64_t version = tokens_version(s->core);
        if (version == s->tokens_seen)
                return;
        s->tokens_seen = version;
        s->needs_token = tokens_are_needed(s->core);
        LIST_FOREACH(&s->conns, it)
        {
                struct conn *c = CONTAINER_OF(it, struct conn, link);
                const struct grant *g = c->session.grant;
                if (c->is_closing)
                        continue;
                if (s->needs_token ? !g || g->is_ended : g != NULL)
                        end(c);
        }
}

struct grant *who_is_certified(const struct conn *c)
{
        struct slice names[TLS_NAMES_MAX];
        struct grant *grant = NULL;
        const struct told *told = conn_told(c);
        if (told) {
                struct slice name = slice_str(told->certified);
                return name.len ? tokens_find_named(c->server->core, name, c->session.address)
                                : NULL;
        }
        if (!c->tls || !tls_has_peer(c->tls))
                return NULL;
        size_t n = tls_peer_names(c->tls, names, ARRAY_LEN(names));
        for (size_t i = 0; i < n && !grant; i++)
                grant = tokens_find_certified(c->server->core, names[i], c->session.address);
        return grant;
}

static bool has_scheme(struct slice *authorization, struct slice scheme)
{
        if (authorization->len <= scheme.len ||
            !slice_eq_nocase(slice_make(authorization->ptr, scheme.len), scheme))
                return false;
        *authorization =
                slice_make(authorization->ptr + scheme.len, authorization->len - scheme.len);
        return true;
}

int who_authorizes(const struct conn *c, struct slice authorization, struct grant **ret,
                   struct problem *p)
{
        struct slice user = SLICE_NONE, token = authorization;
        char text[BASE64_DECODED_MAX(BASIC_BYTES)];
        if (has_scheme(&token, SLICE_LIT("Basic "))) {
                size_t n = 0;
                const char *colon = NULL;
                if (token.len <= BASIC_BYTES && base64_decode(token, text, &n))
                        colon = memchr(text, ':', n);
                if (!colon)
                        return problem_set(p, ERR_BADTOKEN,
                                           "Authorization: Basic has no name and token in base64");
                user = slice_make(text, (size_t)(colon - text));
                token = slice_make(colon + 1, n - user.len - 1);
        } else if (!has_scheme(&token, SLICE_LIT("Bearer "))) {
                return problem_set(p, ERR_NOAUTH, "send Authorization: Bearer and the token");
        }
        *ret = tokens_find(c->server->core, user, token, c->session.address);
        explicit_bzero(text, sizeof(text));
        if (!*ret)
                return problem_set(p, ERR_BADTOKEN, "%s", err_text(ERR_BADTOKEN));
        return use_admits(c, *ret, p);
}
