/* The settings of `weir serve`: defaults, then the file, then the command line.
 *
 * The struct owns all its strings. */
#ifndef WEIR_SERVE_CONFIG_H
#define WEIR_SERVE_CONFIG_H

#include "api/setting_table.h"
#include "base/err.h"
#include "base/say.h"
#include "core/core.h"
#include "door/server.h"
#include "serve/config_cluster.h"
#include "serve/config_doors.h"
#include "serve/config_secret.h"
#include "serve/config_sites.h"
#include "serve/config_targets.h"
#include "serve/config_telemetry.h"
#include "serve/config_throttle.h"
#include "serve/config_tokens.h"
#include "wire/sign.h"

#define CONFIG_OWN_TARGET "queues" /* weir's own queues, when queue_depth makes them a target */

struct config_queue {
        char *name;
#define SETTINGS_SECTION SETTINGS_QUEUE
#define SETTING          SETTING_MEMBER
#include "api/setting_table.def"
};

/* The members that rows of api/setting_table.def declare are described there. */
struct config {
#define SETTINGS_SECTION SETTINGS_TOP
#define SETTING          SETTING_MEMBER
#include "api/setting_table.def"
#define SETTINGS_SECTION SETTINGS_TLS
#define SETTING          SETTING_MEMBER
#include "api/setting_table.def"
#define SETTINGS_SECTION SETTINGS_LOCKS
#define SETTING          SETTING_MEMBER
#include "api/setting_table.def"
        struct config_secrets token; /* of token_file */
        struct config_tokens tokens;
        struct sign_keys sign_keys; /* none: jobs need no signature */
        struct config_queue *queues;
        size_t n_queues;
        struct config_targets targets;
        struct config_sites sites;
        struct config_doors doors;
        struct config_throttle throttle;
        struct config_telemetry telemetry;
        struct config_cluster cluster;
        unsigned refs; /* of config_new() */
};

void config_init(struct config *c);
void config_release(struct config *c);
/* One that is shared: by the server, and by probes that were started with its targets.  Loop thread
 * only. */
struct config *config_new(void);
struct config *config_ref(struct config *c);
struct config *config_unref(struct config *c); /* NULL is fine; returns NULL */
int config_read_file(struct config *c, const char *path, struct problem *problem) MUST_CHECK;

/* Settings that the command line has too; they replace what the file said. */
int config_set_token_file(struct config *c, const char *path, struct problem *problem) MUST_CHECK;
int config_set_signing_keys_file(struct config *c, const char *path,
                                 struct problem *problem) MUST_CHECK;
void config_set_data(struct config *c, const char *path);
/* Addresses of one kind (resp, http, resp_tls, http_tls). */
struct config_addresses {
        char **text;
        size_t *n;
};
struct config_addresses config_addresses(struct config *c, enum server_kind kind);
void config_clear_addresses(struct config *c, enum server_kind kind);
int config_add_address(struct config *c, enum server_kind kind, const char *addr,
                       struct problem *problem) MUST_CHECK;
/* After all of it: what is still missing gets its default. */
int config_finish(struct config *c, struct problem *problem) MUST_CHECK;

/* The files of its certificate; borrowed.  cert is NULL when no address has TLS. */
struct tls_files config_tls_files(const struct config *c);
/* Whether these files can be used. */
int config_check_tls(const struct config *c, struct problem *problem) MUST_CHECK;

/* Addresses that other machines can reach need TLS and tokens that cannot be guessed; those of
 * `tokens` are looked at.  Names that cannot be looked up are not judged. */
int config_check_access(struct config *c, const struct config *tokens,
                        struct problem *problem) MUST_CHECK;
bool config_has_token(const struct config *c);

/* For core_options.history_of; ctx is the config. */
enum history_policy config_history_of(void *ctx, struct slice queue);

#endif
