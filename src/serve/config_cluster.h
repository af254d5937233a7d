/* The section `cluster` of weir.conf.
 *
 * The struct owns everything in it. */
#ifndef WEIR_SERVE_CONFIG_CLUSTER_H
#define WEIR_SERVE_CONFIG_CLUSTER_H

#include <confuse.h>

#include "api/setting_table.h"
#include "base/err.h"
#include "cluster/ledger.h"

enum cluster_kind { CLUSTER_POSTGRES, CLUSTER_MYSQL };

struct config_cluster {
/* What rows of api/setting_table.def declare. */
#define SETTINGS_SECTION SETTINGS_CLUSTER
#define SETTING          SETTING_MEMBER
#include "api/setting_table.def"
        struct sql_tls tls;
        bool is_given; /* there is such a section */
        char *password, *secret;
        struct sql_login *logins; /* of each host; they borrow from this struct */
        struct ledger_options ledger;
};

void config_cluster_init(struct config_cluster *c);
void config_cluster_release(struct config_cluster *c); /* wipes the secrets */
/* section: NULL when the file has none. */
int config_cluster_take(struct config_cluster *c, cfg_t *section,
                        struct problem *problem) MUST_CHECK;

#endif
