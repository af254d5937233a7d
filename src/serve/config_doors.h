/* The `mysql "name" { ... }` and `class "name" { ... }` sections of the configuration: doors of the
 * MySQL proxy, and which of their transactions belong together.
 *
 * The struct owns everything in it. */
#ifndef WEIR_SERVE_CONFIG_DOORS_H
#define WEIR_SERVE_CONFIG_DOORS_H

#include "api/setting_table.h"
#include "base/err.h"
#include "gate/gate.h"
#include "gate/sql_class.h"
#include "serve/config_targets.h"

#define CONFIG_DOORS_MAX   16
#define CONFIG_CLASSES_MAX 256

enum config_comment_tiers {
        CONFIG_COMMENT_LOWER,
        CONFIG_COMMENT_ANY
}; /* as their row lists them */

/* The members are those of the rows of api/setting_table.def.  A text that was not said is NULL,
 * but `target`, which is "" for none, and `server`. */
struct config_door {
        char name[PROBE_NAME_MAX + 1];
#define SETTINGS_SECTION SETTINGS_MYSQL
#define SETTING          SETTING_MEMBER
#include "api/setting_table.def"
};

/* The same; -1 for a tier, a mode and a wait that were not said. */
struct config_class {
        char name[PROBE_NAME_MAX + 1];
#define SETTINGS_SECTION SETTINGS_CLASS
#define SETTING          SETTING_MEMBER
#include "api/setting_table.def"
};

#define CONFIG_HOST_MAX 255

struct config_address {
        char host[CONFIG_HOST_MAX + 1]; /* without brackets, or a path */
        bool is_path;
        int port; /* to listen on, 0: any free one */
};

struct config_doors {
        struct config_door *doors; /* n of them */
        size_t n;
        struct config_class *classes; /* n_classes of them, as in the file */
        size_t n_classes;
};

struct cfg_t;

/* Takes all such sections of a parsed file, after its targets.  After an error the struct wants its
 * release. */
int config_doors_take(struct config_doors *d, const struct config_targets *targets,
                      struct cfg_t *cfg, struct problem *problem) MUST_CHECK;
void config_doors_release(struct config_doors *d);
/* One of which nothing was said yet. */
void config_door_init(struct config_door *door);
void config_class_init(struct config_class *class);
void config_door_server(const struct config_door *door, struct config_address *ret);
/* As the proxy takes it; it borrows the texts. */
struct class_row config_class_row(const struct config_class *c);

#endif
