/* Access tokens: those that commands have added (state/token.h) and those of the configuration, as
 * one table of grants.
 *
 * The table is built anew when either changes.  A grant that stayed the same is the same struct;
 * one that is gone or says something else now has is_ended, and the door closes the connections
 * that hold it.  A name of the configuration hides the same name of a command. */
#ifndef WEIR_THINGS_TOKEN_H
#define WEIR_THINGS_TOKEN_H

#include "api/access.h"
#include "core/kernel.h"
#include "wire/secret.h"

/* The name of the token in token_file. */
#define TOKEN_DEFAULT_NAME "default"
#define TOKEN_SECRETS      2 /* valid at once, during a rotation */

/* A token of the configuration. */
struct token_setup {
        struct grant *grant;
        struct secret secrets[TOKEN_SECRETS];
        size_t n_secrets;
};

extern const struct feature tokens_feature;

/* In place of what was configured before; takes references of the grants. */
void tokens_configure(struct core *core, const struct token_setup *setups, size_t n);

/* Must clients show a token at all?  When one is configured, or an admin's was added. */
bool tokens_are_needed(struct core *core);
/* Grows with every change of the table. */
uint64_t tokens_version(struct core *core);

void tokens_each(struct core *core, void (*fn)(void *ctx, const struct grant *g), void *ctx);

/* Who has this secret; `user` is a name given with it, or empty.  Notes the use.  NULL: nobody. */
struct grant *tokens_find(struct core *core, struct slice user, struct slice secret,
                          const char *address);
/* The same by a name in a certificate that was verified. */
struct grant *tokens_find_certified(struct core *core, struct slice name, const char *address);
/* The same by the name of the token itself: another machine of the cluster has seen its secret. */
struct grant *tokens_find_named(struct core *core, struct slice name, const char *address);

#endif
