/* The tls settings of a target, a site or a door: how far its server must be proven, and the files
 * for that. */
#ifndef WEIR_SERVE_CONFIG_TLS_H
#define WEIR_SERVE_CONFIG_TLS_H

#include "serve/config_rows.h"
#include "sql/login.h"

/* Checks them; the rest of the target is there already. */
int config_tls_take(const struct config_at *at, cfg_t *cfg) MUST_CHECK;
/* The same for a section with one server; its host is there already. */
int config_tls_take_login(const struct config_at *at, struct sql_login *login,
                          cfg_t *cfg) MUST_CHECK;
/* Files: a certificate with its key, and certificates that are trusted, which `setting` names.
 * NULL: there is none to check. */
int config_tls_check_pair(const struct config_at *at, const char *cert, const char *key) MUST_CHECK;
int config_tls_check_ca(const struct config_at *at, const char *setting,
                        const char *path) MUST_CHECK;
int config_tls_check_name(const struct config_at *at, const char *setting,
                          const char *name) MUST_CHECK;

#endif
