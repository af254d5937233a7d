/* An access token that was added by a command: what it allows, and the hashes of its secret.
 *
 * After a rotation two secrets are valid until the older one ends.  The grants made of tokens are
 * in things/token.c; state->tokens_version tells it that something changed.
 *
 * Invariants, checked by the kind's check():
 *   (1) a token has a secret and a role
 *   (2) the older secret has an end exactly when there is one */
#ifndef WEIR_STATE_TOKEN_H
#define WEIR_STATE_TOKEN_H

#include "state/state.h"

#define TOKEN_HASH_BYTES 32

/*      F(type, member, when, key, sentence) */
#define TOKEN_FIELDS(F)                                                                            \
        F(U32, roles, ALWAYS, "roles", "bits of the roles")                                        \
        F(TEXT, queues, ALWAYS, "queues", "patterns of queues, with commas between them")          \
        F(TEXT, identities, ALWAYS, "identities", "patterns of identities")                        \
        F(TEXT, names, ALWAYS, "names", "patterns of locks, rate limits and breakers")             \
        F(TEXT, secret, ALWAYS, "secret", "SHA-256 of the secret")                                 \
        F(TEXT, old_secret, ALWAYS, "old_secret", "the same of the one before, or nothing")        \
        F(TIME, old_until_ms, ALWAYS, "old_until_ms", "Unix time at which that one ends")          \
        F(TIME, made_ms, ALWAYS, "made_ms", "Unix time at which it was added")                     \
        F(TIME, until_ms, ALWAYS, "until_ms", "Unix time of its end; 0: none")                     \
        F(TIME, used_ms, ALWAYS, "used_ms", "Unix time of its last use, about; 0: never")          \
        F(TEXT, used_from, ALWAYS, "used_from", "address of that use")                             \
        F(U32, connections, ALWAYS, "connections", "how many it may have; 0: the usual")           \
        F(U32, commands, ALWAYS, "commands", "commands a second; 0: the usual")                    \
        F(NUM, bytes, ALWAYS, "bytes", "unfinished input and unsent output; 0: the usual")         \
        F(NUM, series, ALWAYS, "series", "grows when open connections must not go on")

struct token_body {
        uint32_t roles;
        struct slice queues, identities, names, secret, old_secret, used_from;
        int64_t old_until_ms, made_ms, until_ms, used_ms;
        uint32_t connections, commands;
        uint64_t bytes, series;
};

struct token {
        struct thing thing;
        struct token_body is; /* its texts are in `bytes` */
        struct buf bytes;
};

static inline const struct token *token_of(const struct thing *t)
{
        return CONTAINER_OF(t, const struct token, thing);
}

void token_body_put(const struct token_body *o, struct buf *b);

#endif
