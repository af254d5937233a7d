/* The tls settings of a target: how far its server must be proven, and the files for that. */
#ifndef WEIR_SERVE_CONFIG_TLS_H
#define WEIR_SERVE_CONFIG_TLS_H

#include "serve/config_rows.h"

/* Checks them; the rest of the target is there already. */
int config_tls_take(const struct config_at *at, cfg_t *cfg) MUST_CHECK;

#endif
