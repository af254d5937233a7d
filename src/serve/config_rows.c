/* See config_rows.h. */
#include "serve/config_rows.h"

#include <stddef.h>
#include <stdlib.h>

#include "base/duration.h"
#include "base/shown.h"
#include "cli/text.h"
#include "serve/config.h"

/* ---- where each is kept ---- */

struct kept {
        uint16_t offset, size; /* size 0: by code of its own */
        uint16_t n_offset;     /* of a list: its length */
        bool is_probe;         /* in the probe_options, else in the section's struct */
};

#define STRUCT_TOP       struct config
#define STRUCT_QUEUE     struct config_queue
#define STRUCT_TLS       struct config
#define STRUCT_LOCKS     struct config
#define STRUCT_THROTTLE  struct config_throttle
#define STRUCT_LEVEL     struct level_caps
#define STRUCT_TARGET    struct config_target
#define STRUCT_REPLICA   struct sql_server
#define STRUCT_METRIC    struct level_rule
#define STRUCT_WORDPRESS struct config_site
#define STRUCT_MYSQL     struct config_door
#define STRUCT_CLASS     struct config_class
#define STRUCT_TOKEN     struct config_token
#define STRUCT_TELEMETRY struct config_telemetry
#define STRUCT_CLUSTER   struct config_cluster
#define STRUCT_LIVE      struct config
#define FIELD(s, m)      .offset = offsetof(s, m), .size = sizeof(((s *)NULL)->m)
#define FIELD_OWN(s, m)                                                                            \
        {                                                                                          \
                FIELD(s, m)                                                                        \
        }
#define FIELD_AT(s, m)                                                                             \
        {                                                                                          \
                FIELD(s, m)                                                                        \
        }
#define FIELD_LIST(s, m)                                                                           \
        {                                                                                          \
                FIELD(s, m), .n_offset = offsetof(s, n_##m)                                        \
        }
#define FIELD_POLICY(s, m)                                                                         \
        {                                                                                          \
                FIELD(s, policy.m)                                                                 \
        }
#define FIELD_PROBE(s, m)                                                                          \
        {                                                                                          \
                FIELD(struct probe_options, m), .is_probe = true                                   \
        }
#define FIELD_NONE(s, m)                                                                           \
        {                                                                                          \
                0                                                                                  \
        }

static const struct kept kept[SETTING_IDS] = {
#define SETTINGS_SECTION 0
#define SETTING(section, name, type, kept, member, ...)                                            \
        [SET_##section##_##name] = FIELD_##kept(STRUCT_##section, member),
#include "api/setting_table.def"
};

static void *place(const struct config_at *at, enum setting_id id)
{
        void *base = kept[id].is_probe ? (void *)at->probe : at->own;
        ASSERT(base && kept[id].size);
        return (char *)base + kept[id].offset;
}

static const void *place_read(const struct config_at *at, enum setting_id id, bool is_usual)
{
        const void *base = is_usual ? at->usual : at->from;
        if (kept[id].is_probe)
                base = is_usual ? at->usual_probe : at->from_probe;
        ASSERT(base && kept[id].size);
        return (const char *)base + kept[id].offset;
}

bool config_row_is_kept(enum setting_id id)
{
        return kept[id].size != 0;
}

static void store(const struct config_at *at, enum setting_id id, int64_t value)
{
        const struct setting_def *def = &setting_table[id];
        void *to = place(at, id);
        if (def->flags & SETTING_NEGATED)
                value = !value;
        if (def->flags & SETTING_NS)
                value *= NS_PER_MS;
        bool as_bool = value != 0;
        int32_t as_int = (int32_t)value;
        if (kept[id].size == sizeof(as_bool))
                memcpy(to, &as_bool, sizeof(as_bool));
        else if (kept[id].size == sizeof(as_int))
                memcpy(to, &as_int, sizeof(as_int));
        else
                memcpy(to, &value, sizeof(value));
}

int64_t config_row_num(const struct config_at *at, enum setting_id id, bool is_usual)
{
        const struct setting_def *def = &setting_table[id];
        const void *from = place_read(at, id, is_usual);
        bool as_bool = false;
        int32_t as_int = 0;
        int64_t value = 0;
        if (kept[id].size == sizeof(as_bool)) {
                memcpy(&as_bool, from, sizeof(as_bool));
                value = as_bool;
        } else if (kept[id].size == sizeof(as_int)) {
                memcpy(&as_int, from, sizeof(as_int));
                value = as_int; /* no range goes beyond it, and a choice may be -1 */
        } else {
                memcpy(&value, from, sizeof(value));
        }
        if (def->flags & SETTING_NS)
                value /= NS_PER_MS;
        return def->flags & SETTING_NEGATED ? !value : value;
}

double config_row_number(const struct config_at *at, enum setting_id id, bool is_usual)
{
        return *(const double *)place_read(at, id, is_usual);
}

const char *config_row_text(const struct config_at *at, enum setting_id id)
{
        ASSERT(setting_table[id].type == SETTING_TEXT);
        return *(char *const *)place_read(at, id, false);
}

char *const *config_row_list(const struct config_at *at, enum setting_id id, size_t *ret_n)
{
        ASSERT(kept[id].n_offset);
        *ret_n = *(const size_t *)(const void *)((const char *)at->from + kept[id].n_offset);
        return place_read(at, id, false);
}

/* ---- defaults ---- */

void config_rows_init(const struct config_at *at)
{
        for (enum setting_id id = 0; id < SETTING_IDS; id++) {
                const struct setting_def *def = &setting_table[id];
                if (def->section != at->section || !kept[id].size)
                        continue;
                if (def->type == SETTING_SHARE || def->type == SETTING_NUMBER)
                        *(double *)place(at, id) = def->usual_number;
                else if (def->type != SETTING_TEXT && def->type != SETTING_TEXTS)
                        store(at, id, def->usual);
        }
}

static void put_text(char **to, const char *text)
{
        free(*to);
        *to = text ? xstrdup(text) : NULL;
}

void config_rows_finish(const struct config_at *at)
{
        for (enum setting_id id = 0; id < SETTING_IDS; id++) {
                const struct setting_def *def = &setting_table[id];
                if (def->section != at->section || !def->usual_text)
                        continue;
                char **texts = place(at, id);
                if (!*texts)
                        put_text(texts, def->usual_text);
                if (kept[id].n_offset) {
                        size_t *n = (void *)((char *)at->own + kept[id].n_offset);
                        *n = *n ? *n : 1;
                }
        }
}

void config_rows_release(const struct config_at *at)
{
        for (enum setting_id id = 0; id < SETTING_IDS; id++) {
                const struct setting_def *def = &setting_table[id];
                if (def->section != at->section || !kept[id].size)
                        continue;
                char **texts = place(at, id);
                size_t n = def->type == SETTING_TEXT    ? 1
                           : def->type == SETTING_TEXTS ? SETTING_LIST_MAX
                                                        : 0;
                for (size_t i = 0; i < n; i++)
                        put_text(&texts[i], NULL);
        }
}

static void swap(void *a, void *b, size_t n)
{
        char room[sizeof(char *) * (SETTING_LIST_MAX + 1)];
        ASSERT(n <= sizeof(room));
        memcpy(room, a, n);
        memcpy(a, b, n);
        memcpy(b, room, n);
}

void config_rows_swap_fixed(enum setting_section section, void *a, void *b)
{
        for (enum setting_id id = 0; id < SETTING_IDS; id++) {
                const struct setting_def *def = &setting_table[id];
                const struct kept *f = &kept[id];
                if (def->section != section || !(def->flags & SETTING_RESTART))
                        continue;
                ASSERT(f->size && !f->is_probe);
                swap((char *)a + f->offset, (char *)b + f->offset, f->size);
                if (f->n_offset)
                        swap((char *)a + f->n_offset, (char *)b + f->n_offset, sizeof(size_t));
        }
}

/* ---- errors ---- */

int config_wrong(const struct config_at *at, int err, const char *fmt, ...)
{
        char text[PROBLEM_DETAIL_MAX];
        va_list args;
        va_start(args, fmt);
        shown_vprintf(text, sizeof(text), fmt, args);
        va_end(args);
        return problem_set(at->problem, err, "%s%s", at->where, text);
}

static int wrong_choice(const struct config_at *at, const struct setting_def *def, const char *text)
{
        bool is_quoted = def->flags & SETTING_QUOTED;
        const char *quote = is_quoted ? "\"" : "'";
        struct buf choices;
        buf_init(&choices, 0);
        setting_put_choices(def, is_quoted ? "\"" : "", &choices);
        int r = config_wrong(at, ERR_BADARG, "%s must be %s, not %s%s%s", def->name,
                             buf_cstr(&choices), quote, SHOWN_STR(text), quote);
        buf_release(&choices);
        return r;
}

int config_row_check_int(const struct config_at *at, const struct setting_def *def, int64_t value)
{
        bool is_zero_fine = def->flags & SETTING_ZERO_IS_USUAL;
        if ((value >= def->min && value <= def->max) || (is_zero_fine && value == 0))
                return OK;
        return config_wrong(at, ERR_BADARG, "%s must be %lld%s%s%s to %lld, not %lld", def->name,
                            (long long)def->min, def->zero ? " (" : "", def->zero ? def->zero : "",
                            def->zero ? ")" : "", (long long)def->max, (long long)value);
}

int config_row_check_ms(const struct config_at *at, const struct setting_def *def, int64_t min_ms,
                        const char *text, int64_t *ret_ms)
{
        char least[DURATION_TEXT_MAX], most[DURATION_TEXT_MAX];
        struct problem why;
        int64_t ms = 0;
        bool is_forever = (def->flags & SETTING_FOREVER) && strcmp(text, "forever") == 0;
        int r = is_forever ? OK : duration_parse(def->name, text, &ms, &why);
        if (r != OK)
                return config_wrong(at, r, "%s", why.detail);
        if (def->max && (ms < min_ms || ms > def->max))
                return config_wrong(at, ERR_BADARG, "%s must be %s to %s, not '%s'", def->name,
                                    duration_text(min_ms, least), duration_text(def->max, most),
                                    text);
        *ret_ms = ms;
        return OK;
}

/* ---- from a file ---- */

size_t config_rows_opts(enum setting_section section, cfg_opt_t *opts, size_t n)
{
        for (enum setting_id id = 0; id < SETTING_IDS; id++) {
                const struct setting_def *def = &setting_table[id];
                if (def->section != section)
                        continue;
                ASSERT(n + 1 < CONFIG_OPTS_MAX);
                switch (def->type) {
                case SETTING_BOOL:
                        opts[n] = (cfg_opt_t)CFG_BOOL(def->name, cfg_false, CFGF_NODEFAULT);
                        break;
                case SETTING_INT:
                        opts[n] = (cfg_opt_t)CFG_INT(def->name, 0, CFGF_NODEFAULT);
                        break;
                case SETTING_NUMBER:
                case SETTING_SHARE:
                        opts[n] = (cfg_opt_t)CFG_FLOAT(def->name, 0, CFGF_NODEFAULT);
                        break;
                case SETTING_SIZE:
                case SETTING_DURATION:
                case SETTING_CHOICE:
                case SETTING_TEXT:
                        opts[n] = (cfg_opt_t)CFG_STR(def->name, NULL, CFGF_NODEFAULT);
                        break;
                case SETTING_TEXTS:
                case SETTING_DURATIONS:
                        opts[n] = (cfg_opt_t)CFG_STR_LIST(def->name, NULL, CFGF_NODEFAULT);
                        break;
                case SETTING_INTS:
                        opts[n] = (cfg_opt_t)CFG_INT_LIST(def->name, NULL, CFGF_NODEFAULT);
                        break;
                case SETTING_PAIR:
                        opts[n] = (cfg_opt_t)CFG_STR_LIST(def->name, NULL, CFGF_NODEFAULT);
                        break;
                case SETTING_NUMBERS:
                        opts[n] = (cfg_opt_t)CFG_FLOAT_LIST(def->name, NULL, CFGF_NODEFAULT);
                        break;
                }
                n++;
        }
        return n;
}

bool config_row_is_for(const struct setting_def *def, const char *kind)
{
        return !def->kinds || strstr(def->kinds, kind); /* no kind is within the name of another */
}

int config_list_add(char **texts, size_t *n, const char *text, struct problem *problem)
{
        if (*n == SETTING_LIST_MAX)
                return problem_set(problem, ERR_BADARG, "more than %d", SETTING_LIST_MAX);
        texts[(*n)++] = xstrdup(text);
        return OK;
}

static int take_list(const struct config_at *at, enum setting_id id, cfg_t *cfg)
{
        const char *name = setting_table[id].name;
        char **texts = place(at, id);
        size_t *n = (void *)((char *)at->own + kept[id].n_offset);
        int r = OK;
        struct problem why;
        for (unsigned i = 0; r == OK && i < cfg_size(cfg, name); i++)
                r = config_list_add(texts, n, cfg_getnstr(cfg, name, i), &why);
        return r == OK ? OK : config_wrong(at, r, "%s: %s", name, why.detail);
}

static int take_size(const struct config_at *at, const struct setting_def *def, const char *text,
                     int64_t *ret)
{
        struct problem why;
        uint64_t bytes = 0;
        int r = size_parse(def->name, text, (uint64_t)def->max, &bytes, &why);
        if (r != OK)
                return config_wrong(at, r, "%s", why.detail);
        *ret = (int64_t)bytes;
        return *ret >= def->min ? OK
                                : config_wrong(at, ERR_BADARG, "%s must be %lldm or more, not '%s'",
                                               def->name, (long long)(def->min / (int64_t)MIB),
                                               SHOWN_STR(text));
}

static int take_share(const struct config_at *at, enum setting_id id, double value)
{
        if (!(value > 0 && value <= 1)) /* NAN too */
                return config_wrong(at, ERR_BADARG,
                                    "%s is a share of time, above 0 and at most 1, not %g",
                                    setting_table[id].name, value);
        *(double *)place(at, id) = value;
        return OK;
}

static int take_number(const struct config_at *at, enum setting_id id, double value)
{
        const struct setting_def *def = &setting_table[id];
        if (!(value >= (double)def->min && value <= (double)def->max)) /* NAN too */
                return config_wrong(at, ERR_BADARG, "%s must be %lld%s%s%s to %lld, not %g",
                                    def->name, (long long)def->min, def->zero ? " (" : "",
                                    def->zero ? def->zero : "", def->zero ? ")" : "",
                                    (long long)def->max, value);
        *(double *)place(at, id) = value;
        return OK;
}

static int take_row(const struct config_at *at, enum setting_id id, cfg_t *cfg)
{
        const struct setting_def *def = &setting_table[id];
        int64_t value = 0;
        int r = OK;
        switch (def->type) {
        case SETTING_BOOL:
                value = cfg_getbool(cfg, def->name) == cfg_true;
                break;
        case SETTING_INT:
                value = cfg_getint(cfg, def->name);
                r = config_row_check_int(at, def, value);
                break;
        case SETTING_SHARE:
                return take_share(at, id, cfg_getfloat(cfg, def->name));
        case SETTING_NUMBER:
                return take_number(at, id, cfg_getfloat(cfg, def->name));
        case SETTING_SIZE:
                r = take_size(at, def, cfg_getstr(cfg, def->name), &value);
                break;
        case SETTING_DURATION:
                r = config_row_check_ms(at, def, def->min, cfg_getstr(cfg, def->name), &value);
                break;
        case SETTING_CHOICE:
                value = setting_choice(def, slice_str(cfg_getstr(cfg, def->name)));
                r = value < 0 ? wrong_choice(at, def, cfg_getstr(cfg, def->name)) : OK;
                break;
        case SETTING_TEXT:
                put_text(place(at, id), cfg_getstr(cfg, def->name));
                return OK;
        case SETTING_TEXTS:
                return take_list(at, id, cfg);
        case SETTING_INTS:
        case SETTING_NUMBERS:
        case SETTING_PAIR:
        case SETTING_DURATIONS:
                ASSERT(!"the code of its section takes it");
        }
        if (r != OK)
                return r;
        store(at, id, value == 0 && def->flags & SETTING_ZERO_IS_USUAL ? def->usual : value);
        return OK;
}

int config_rows_take(const struct config_at *at, cfg_t *cfg)
{
        for (enum setting_id id = 0; id < SETTING_IDS; id++) {
                const struct setting_def *def = &setting_table[id];
                bool is_ours = def->section == at->section && kept[id].size &&
                               !(def->flags & SETTING_BY_HAND);
                if (!is_ours || !cfg_size(cfg, def->name) ||
                    (at->probe && !config_row_is_for(def, probe_kind_name(at->probe->kind))))
                        continue;
                int r = take_row(at, id, cfg);
                if (r != OK)
                        return r;
        }
        return OK;
}
