/* The `token "name" { ... }` sections of the configuration, and the file of the token of all.
 *
 * The struct owns everything in it. */
#ifndef WEIR_SERVE_CONFIG_TOKENS_H
#define WEIR_SERVE_CONFIG_TOKENS_H

#include "api/setting_table.h"
#include "base/err.h"
#include "things/token.h"

#define CONFIG_TOKENS_MAX 1000
#define TOKEN_MIN_BYTES   16
#define TOKEN_MAX_BYTES   512

/* The secrets in one file: the lines of it, the newest last. */
struct config_secrets {
        char *text[TOKEN_SECRETS];
        size_t n;
};

struct config_token {
        char name[TOKEN_NAME_BYTES + 1];
#define SETTINGS_SECTION SETTINGS_TOKEN
#define SETTING          SETTING_MEMBER
#include "api/setting_table.def"
        struct config_secrets secrets;
        struct grant *grant;
};

struct config_tokens {
        struct config_token *tokens;
        size_t n;
};

struct cfg_t;

int config_tokens_take(struct config_tokens *t, struct cfg_t *cfg,
                       struct problem *problem) MUST_CHECK;
void config_tokens_release(struct config_tokens *t);
void config_token_init(struct config_token *t);

/* One or two lines of TOKEN_MIN_BYTES to TOKEN_MAX_BYTES; `what` names the file in errors. */
int config_secrets_read(struct config_secrets *ret, const char *what, const char *path,
                        struct problem *problem) MUST_CHECK;
void config_secrets_release(struct config_secrets *s); /* and wipes them */
bool config_secrets_are_same(const struct config_secrets *a, const struct config_secrets *b);

/* Gives the core these and that of token_file, in place of what it had. */
struct core;
void config_tokens_apply(const struct config_tokens *t, const struct config_secrets *all,
                         struct core *core);

#endif
