/* The features in the order in which a turn calls them.
 *
 * Time comes first: what ends, falls due or rings by itself.  Then the levels, so that claims see
 * what holds now.  Claims come after everything that can make a job ready. */
#include "features/features.h"

#include "checks/check_ctx.h"
#include "core/audit.h"
#include "core/kernel.h"
#include "jobs/bulk.h"
#include "jobs/claim.h"
#include "jobs/dependents.h"
#include "jobs/due.h"
#include "jobs/find_walk.h"
#include "jobs/keeping.h"
#include "jobs/retry.h"
#include "jobs/workers.h"
#include "numbers/last_hour.h"
#include "numbers/relearn.h"
#include "numbers/rollups.h"
#include "numbers/series.h"
#include "operator/settings.h"
#include "sites/sites.h"
#include "things/token.h"
#include "throttle/host.h"
#include "throttle/throttle_state.h"
#include "traffic/traffic.h"

static const struct feature *const features[] = {
        &series_feature,         &rollups_feature, &keeping_feature, &last_hour_feature,
        &dependents_feature,     &due_feature,     &things_feature,  &throttle_feature,
        &registry_tries_feature, &hosts_feature,   &checks_feature,  &scans_feature,
        &claims_feature,         &workers_feature, &retry_feature,   &bulk_feature,
        &settings_feature,       &sites_feature,   &traffic_feature, &tokens_feature,
        &audits_feature,         &verify_feature,  &relearn_feature,
};

static const thing_due due[THING_KINDS] = {
#define X(name, text) [THING_##name] = text##_due,
        THING_MAP(X)
#undef X
};

const struct core_parts weir_parts = {.features = features,
                                      .n_features = ARRAY_LEN(features),
                                      .thing_kinds = thing_kinds,
                                      .thing_due = due,
                                      .execs = command_execs,
                                      .audit_exec = audit_exec,
                                      .audit_refused = core_audit_refused};
