/* The tls settings of a target: how far its server must be proven, and the files for that. */
#ifndef WEIR_SERVE_CONFIG_TLS_H
#define WEIR_SERVE_CONFIG_TLS_H

#include "probe/probe.h"

#define CONFIG_TLS_MODE PROBE_TLS_PREFER /* of a target that does not say */

struct cfg_t;

/* Takes them into o, of which kind, url and the servers are there already.  The problem begins with
 * the name of the setting that it is about. */
int config_tls_take(struct probe_options *o, struct cfg_t *cfg, struct problem *problem) MUST_CHECK;
void config_tls_release(struct probe_tls *tls);

#endif
