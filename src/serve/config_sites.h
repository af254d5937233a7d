/* The `wordpress "name" { ... }` sections of the configuration: sites whose Action Scheduler is
 * guarded.
 *
 * The struct owns everything in it; it must outlive the guards that were started with it. */
#ifndef WEIR_SERVE_CONFIG_SITES_H
#define WEIR_SERVE_CONFIG_SITES_H

#include "api/setting_table.h"
#include "base/err.h"
#include "guard/store.h"
#include "serve/config_targets.h"
#include "sites/sites.h"

#define CONFIG_SITES_MAX 32
_Static_assert(CONFIG_SITES_MAX == SITES_MAX, "the core has room for all of them");

struct config_site {
        char name[SITE_NAME_MAX + 1];
        /* For the guard.  Its name and prefix are those of this struct; it owns its login. */
        struct store_options store;
        enum gate_mode repairs[SITE_REPAIRS];
/* What rows of api/setting_table.def declare: prefix, target (NULL: none, and the mode is off),
 * mode, interval_ms, where the password is from, and times that `store` has in seconds. */
#define SETTINGS_SECTION SETTINGS_WORDPRESS
#define SETTING          SETTING_MEMBER
#include "api/setting_table.def"
};

struct config_sites {
        struct config_site *sites; /* n of them */
        size_t n;
};

struct cfg_t;

/* Takes all `wordpress` sections of a parsed file, after its targets.  After an error the struct
 * wants its release. */
int config_sites_take(struct config_sites *s, const struct config_targets *targets,
                      struct cfg_t *cfg, struct problem *problem) MUST_CHECK;
void config_sites_release(struct config_sites *s); /* wipes the passwords */
/* A site of which nothing was said yet. */
void config_site_init(struct config_site *site);
/* Would a guard that was started with the one do for the other?  The target, the mode and the
 * repairs are not compared: the loop tells the guard of them with every plan. */
bool config_site_is_same(const struct config_site *a, const struct config_site *b);

/* The site of a blog of this network: its own name ("shop.7") and prefix ("wp_7_"), and all else
 * borrowed from the network's, which must outlive it. */
struct config_site *config_site_of_blog(const struct config_site *network, uint32_t id);
struct config_site *config_site_of_blog_free(struct config_site *blog); /* NULL is fine */
/* The section of this name, or the blog ("shop.7") of a network, which then is in *ret_blog and the
 * caller's; NULL: there is none.  Nobody asks whether there is such a blog. */
const struct config_site *config_sites_find(const struct config_sites *s, const char *name,
                                            struct config_site **ret_blog);
/* Is there a section with this name, or for these tables? */
bool config_sites_has(const struct config_sites *s, const struct config_site *site);

#endif
