/* The settings of `weir serve`: defaults, then the file, then the command line.
 *
 * The struct owns all its strings. */
#ifndef WEIR_SERVE_CONFIG_H
#define WEIR_SERVE_CONFIG_H

#include "base/err.h"
#include "base/say.h"
#include "core/core.h"
#include "serve/config_targets.h"
#include "serve/config_throttle.h"
#include "wire/sign.h"

#define CONFIG_ADDRS_MAX  16
#define CONFIG_OWN_TARGET "queues" /* weir's own queues, when queue_depth makes them a target */

/* Without a file and without options. */
#define CONFIG_DATA "./data"
#define CONFIG_RESP "127.0.0.1:7379"
#define CONFIG_HTTP "127.0.0.1:7380"

struct config_queue {
        char *name;
        enum history_policy history;
};

struct config {
        char *data; /* folder of the log and of history */
        char *resp[CONFIG_ADDRS_MAX + 1];
        size_t n_resp;
        char *http[CONFIG_ADDRS_MAX + 1];
        size_t n_http;
        char *token;                /* the access token itself; NULL = none */
        char *token_file;           /* where it is from */
        uint64_t client_bytes;      /* client_memory; 0 = a quarter of memory */
        bool is_check_open;         /* checks need no token: who asks only reads */
        struct sign_keys sign_keys; /* none: jobs need no signature */
        char *signing_keys_file;
        enum say_level log_level;
        bool is_log_json;
        enum history_policy history;
        int64_t keep_done_ms, keep_failed_ms, keep_incidents_ms; /* 0 = for ever */
        struct config_queue *queues;
        size_t n_queues;
        bool are_locks_off; /* enabled = false */
        struct config_targets targets;
        struct config_throttle throttle;
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

/* A file with a secret in it, whole, as a C string; the caller wipes it.  `what` names it. */
int config_read_secret(const char *what, const char *path, char *ret, size_t size, size_t *ret_len,
                       struct problem *problem) MUST_CHECK;

/* Settings that the command line has too; they replace what the file said. */
int config_set_token_file(struct config *c, const char *path, struct problem *problem) MUST_CHECK;
int config_set_signing_keys_file(struct config *c, const char *path,
                                 struct problem *problem) MUST_CHECK;
void config_set_data(struct config *c, const char *path);
void config_clear_resp(struct config *c);
void config_clear_http(struct config *c);
int config_add_resp(struct config *c, const char *addr, struct problem *problem) MUST_CHECK;
int config_add_http(struct config *c, const char *addr, struct problem *problem) MUST_CHECK;
/* After all of it: what is still missing gets its default. */
int config_finish(struct config *c, struct problem *problem) MUST_CHECK;

/* Addresses that other machines can reach need a token that cannot be guessed.  Names that cannot
 * be looked up are not judged. */
int config_check_access(const struct config *c, struct problem *problem) MUST_CHECK;

/* For core_options.history_of; ctx is the config. */
enum history_policy config_history_of(void *ctx, struct slice queue);

#endif
