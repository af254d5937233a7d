/* Values of the configuration by the rows of api/setting_table.def: where each is kept, its
 * default, how it is taken from a parsed file, and how it is read back.
 *
 * Rows that are kept as NONE, or are marked SETTING_BY_HAND, are taken by the code of their section
 * (config_throttle.c, config_targets.c, config_tls.c). */
#ifndef WEIR_SERVE_CONFIG_ROWS_H
#define WEIR_SERVE_CONFIG_ROWS_H

#include <confuse.h>

#include "api/setting_table.h"
#include "base/err.h"

struct probe_options;
struct config_target;

/* A section of a configuration that is read or written. */
struct config_at {
        enum setting_section section;
        char where[192]; /* begins its errors: "throttle: ", "target \"shop\": "; config_lines.c */
        void *own;       /* its struct, to be filled: struct config, config_throttle, ... */
        struct probe_options *probe; /* of a target and its sections; else NULL */
        struct problem *problem;
        /* To be written: what is there, and what is there by default; NULL: nothing is. */
        const void *from, *usual;
        const struct probe_options *from_probe, *usual_probe;
        const struct config_target *level; /* of a target and its sections */
        size_t metric;                     /* its index, in a metric */
};

#define CONFIG_OPTS_MAX 40 /* of one section, with its sections and the end */
/* Appends the rows of a section; returns how many there are then. */
size_t config_rows_opts(enum setting_section section, cfg_opt_t *opts, size_t n);

void config_rows_init(const struct config_at *at); /* the defaults, except of texts */
/* Those the file has; after an error the struct wants its release. */
int config_rows_take(const struct config_at *at, cfg_t *cfg) MUST_CHECK;
void config_rows_release(const struct config_at *at); /* frees its texts */
/* `a` gets what needs a restart from `b`, and `b` that of `a`. */
void config_rows_swap_fixed(enum setting_section section, void *a, void *b);
/* A list gets its default when it has nothing, and so does a text. */
void config_rows_finish(const struct config_at *at);

/* Adds a text to a list of at most SETTING_LIST_MAX. */
int config_list_add(char **texts, size_t *n, const char *text, struct problem *problem) MUST_CHECK;

/* Does the row hold for that kind of target? */
bool config_row_is_for(const struct setting_def *def, const char *kind);
int config_row_check_int(const struct config_at *at, const struct setting_def *def, int64_t value);
int config_row_check_ms(const struct config_at *at, const struct setting_def *def, int64_t min_ms,
                        const char *text, int64_t *ret_ms) MUST_CHECK;

/* What is kept, or the default of it (is_usual): as ms, not negated.  The row is kept somewhere. */
bool config_row_is_kept(enum setting_id id);
int64_t config_row_num(const struct config_at *at, enum setting_id id, bool is_usual);
double config_row_number(const struct config_at *at, enum setting_id id, bool is_usual);
const char *config_row_text(const struct config_at *at, enum setting_id id);
char *const *config_row_list(const struct config_at *at, enum setting_id id, size_t *ret_n);

/* Sets the problem, with the section in front. */
int config_wrong(const struct config_at *at, int err, const char *fmt, ...) PRINTF(3, 4);

#endif
