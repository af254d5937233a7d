/* WordPress sites out of the configuration file.
 *
 *      wordpress "shop" {
 *              user = "weir"
 *              password_file = "/etc/weir/shop.password"
 *              database = "wordpress"
 *              target = "shop"
 *              mode = "enforce"
 *      }
 *
 * How weir connects is said as of a target and taken by the same code (config_targets.c,
 * config_tls.c).  Everything is checked here, so that a guard never meets a setting that makes no
 * sense. */
#include "serve/config_sites.h"

#include <confuse.h>
#include <stdlib.h>

#include "base/shown.h"
#include "cli/text.h"
#include "gate/registry.h"
#include "guard/network.h"
#include "serve/config_rows.h"
#include "serve/config_tls.h"

_Static_assert(SITE_NAME_MAX == PROBE_NAME_MAX, "config_is_name() judges both");

void config_site_init(struct config_site *site)
{
        *site = (struct config_site){.name = ""};
        const struct config_at at = {.section = SECTION_WORDPRESS, .own = site};
        config_rows_init(&at);
        site->repairs[REPAIR_PAST_DUE] = MODE_OBSERVE;
        site->repairs[REPAIR_DUPLICATES] = MODE_OBSERVE;
}

/* ---- which database ---- */

/* It goes into statements as it stands. */
static int check_prefix(const struct config_at *at, const char *prefix)
{
        static const char allowed[] =
                "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_$";
        size_t len = strlen(prefix);
        if (len >= 1 && len <= SITE_PREFIX_MAX && strspn(prefix, allowed) == len)
                return OK;
        return config_wrong(at, ERR_BADARG,
                            "prefix must be 1 to %d letters, digits, _ and $, not '%s'",
                            SITE_PREFIX_MAX, SHOWN_STR(prefix));
}

static int take_database(const struct config_at *at, struct config_site *site, cfg_t *cfg)
{
        struct sql_login *login = &site->store.login;
        if (!login->database || !*login->database)
                return config_wrong(at, ERR_BADARG,
                                    "database is missing: the name of the site's database, "
                                    "DB_NAME in wp-config.php");
        int r = config_server_take(at, cfg, config_usual_port(PROBE_MYSQL), &login->server);
        if (r == OK)
                r = config_password_take(at, site->password_file, site->password_env,
                                         &login->password);
        if (r == OK)
                r = config_tls_take_login(at, login, cfg);
        return r;
}

/* ---- whose load it follows ---- */

static int take_target(const struct config_at *at, struct config_site *site,
                       const struct config_targets *targets)
{
        if (site->target)
                return config_check_target(at, site->target, targets);
        for (size_t i = 0; i < targets->n && !site->target; i++)
                if (targets->probes[i].kind == PROBE_MYSQL)
                        site->target = xstrdup(targets->probes[i].name);
        if (site->target || site->mode == MODE_OFF)
                return OK;
        return config_wrong(at, ERR_BADARG,
                            "target is missing, and the file has no target of kind mysql: add "
                            "one, name another with target = \"NAME\", or say mode = \"off\"");
}

/* ---- retries ---- */

/* Seconds, never 0 for what is not 0. */
static int64_t in_seconds(int64_t ms)
{
        return (ms + MS_PER_S - 1) / MS_PER_S;
}

_Static_assert(SETTING_LIST_MAX <= STORE_RETRIES_MAX, "each rule of a list has its place");

/* A hook that is only * and ? would be every hook. */
static bool has_literal(struct slice pattern)
{
        for (size_t i = 0; i < pattern.len; i++)
                if (pattern.ptr[i] != '*' && pattern.ptr[i] != '?')
                        return true;
        return false;
}

static int check_retry_hook(const struct config_at *at, const char *text, struct slice pattern)
{
        struct problem why;
        int r = registry_check_pattern(pattern, &why);
        if (r != OK)
                return config_wrong(at, r, "retry '%s': %s", SHOWN_STR(text), why.detail);
        if (has_literal(pattern))
                return OK;
        return config_wrong(at, ERR_BADARG,
                            "retry '%s': the hook is only * and ?, and that would be every hook; "
                            "name those that may run twice",
                            SHOWN_STR(text));
}

static int take_retry_wait(const struct config_at *at, const char *text, const char *wait,
                           int64_t *ret_s)
{
        struct problem why;
        int64_t ms;
        int r = duration_parse("the wait", wait, &ms, &why);
        if (r != OK)
                return config_wrong(at, r, "retry '%s': %s", SHOWN_STR(text), why.detail);
        *ret_s = in_seconds(ms);
        if (ms >= MS_PER_S && *ret_s <= STORE_RETRY_WAIT_MAX_S)
                return OK;
        return config_wrong(at, ERR_BADARG, "retry '%s': the wait must be 1s to 1d, not '%s'",
                            SHOWN_STR(text), SHOWN_STR(wait));
}

/* "woocommerce_deliver_webhook_* 3 5m" */
static int take_retry(const struct config_at *at, const char *text, struct store_retry *ret)
{
        static const char spaces[] = " \t";
        const char *word[3];
        size_t len[3] = {0}, n = 0;
        const char *p = text + strspn(text, spaces);
        uint64_t times;
        for (; *p && n < 3; n++) {
                word[n] = p;
                len[n] = strcspn(p, spaces);
                p += len[n];
                p += strspn(p, spaces);
        }
        if (n < 3 || *p)
                return config_wrong(
                        at, ERR_BADARG,
                        "retry '%s' must be a hook, a number of retries and the wait "
                        "before the first, such as 'woocommerce_deliver_webhook_* 3 5m'",
                        SHOWN_STR(text));
        ret->pattern = slice_make(word[0], len[0]);
        if (!slice_to_u64(slice_make(word[1], len[1]), &times) || times < 1 ||
            times > STORE_RETRY_TIMES_MAX)
                return config_wrong(at, ERR_BADARG,
                                    "retry '%s': the number of retries must be 1 to %d, not '%s'",
                                    SHOWN_STR(text), STORE_RETRY_TIMES_MAX,
                                    SHOWN(slice_make(word[1], len[1])));
        ret->times = (uint32_t)times;
        int r = check_retry_hook(at, text, ret->pattern);
        if (r != OK)
                return r;
        struct buf wait CLEANUP(buf_release) = {0};
        buf_put(&wait, word[2], len[2]);
        return take_retry_wait(at, text, buf_cstr(&wait), &ret->wait_s);
}

static int take_retries(const struct config_at *at, struct config_site *site)
{
        int r = OK;
        for (size_t i = 0; r == OK && i < site->n_retry; i++)
                r = take_retry(at, site->retry[i], &site->store.retries[i]);
        site->store.n_retries = r == OK ? site->n_retry : 0;
        return r;
}

/* ---- a network ---- */

/* Names and prefixes of its blogs are made from these, and must have room for any number. */
static int check_network(const struct config_at *at, const struct config_site *site)
{
        int name_max = SITE_NAME_MAX - 1 - NETWORK_ID_DIGITS;
        int prefix_max = SITE_PREFIX_MAX - 1 - NETWORK_ID_DIGITS;
        if (site->is_network && strlen(site->name) > (size_t)name_max)
                return config_wrong(at, ERR_BADARG,
                                    "network: the name must be at most %d bytes, because its blogs "
                                    "are called %s.2 and so on",
                                    name_max, SHOWN_STR(site->name));
        if (site->is_network && strlen(site->prefix) > (size_t)prefix_max)
                return config_wrong(at, ERR_BADARG,
                                    "network: the prefix must be at most %d bytes, because its "
                                    "blogs have %s2_ and so on",
                                    prefix_max, SHOWN_STR(site->prefix));
        return OK;
}

struct config_site *config_site_of_blog(const struct config_site *network, uint32_t id)
{
        struct config_site *blog = xcalloc(1, sizeof(*blog));
        char prefix[SITE_PREFIX_MAX + 1];
        *blog = *network;
        blog->is_network = blog->store.is_network = false;
        (void)snprintf(blog->name, sizeof(blog->name), "%.*s.%lu",
                       SITE_NAME_MAX - 1 - NETWORK_ID_DIGITS, network->name, (unsigned long)id);
        (void)snprintf(prefix, sizeof(prefix), "%.*s%lu_", SITE_PREFIX_MAX - 1 - NETWORK_ID_DIGITS,
                       network->prefix, (unsigned long)id);
        blog->prefix = xstrdup(prefix);
        blog->store.name = blog->name;
        blog->store.prefix = blog->prefix;
        return blog;
}

struct config_site *config_site_of_blog_free(struct config_site *blog)
{
        if (blog)
                free(blog->prefix);
        free(blog);
        return NULL;
}

/* ---- a site ---- */

static int take_site(struct config_site *site, const struct config_targets *targets, cfg_t *cfg,
                     struct problem *problem)
{
        const char *name = cfg_title(cfg);
        struct config_at at = {.section = SECTION_WORDPRESS, .own = site, .problem = problem};
        (void)snprintf(at.where, sizeof(at.where), "wordpress \"%s\": ", SHOWN_STR(name));
        config_site_init(site);
        if (!config_is_name(name))
                return config_wrong(&at, ERR_BADARG,
                                    "a site needs a name of 1 to %d bytes of UTF-8 without '/' "
                                    "and control characters",
                                    SITE_NAME_MAX);
        (void)snprintf(site->name, sizeof(site->name), "%s", name);
        int r = config_rows_take(&at, cfg);
        config_rows_finish(&at);
        site->store.name = site->name;
        site->store.prefix = site->prefix;
        site->store.is_network = site->is_network;
        site->store.claim_timeout_s = in_seconds(site->claim_timeout_ms);
        site->store.retention_s = in_seconds(site->retention_ms);
        site->store.retention_failed_s = in_seconds(site->retention_failed_ms);
        if (r == OK)
                r = check_prefix(&at, site->prefix);
        if (r == OK)
                r = check_network(&at, site);
        if (r == OK)
                r = take_retries(&at, site);
        if (r == OK)
                r = take_database(&at, site, cfg);
        if (r == OK)
                r = take_target(&at, site, targets);
        return r;
}

static bool has_same_tables(const struct config_site *a, const struct config_site *b)
{
        const struct sql_login *x = &a->store.login, *y = &b->store.login;
        return x->server.port == y->server.port && strcmp(x->server.host, y->server.host) == 0 &&
               strcmp(x->database, y->database) == 0 && strcmp(a->prefix, b->prefix) == 0;
}

/* Two guards would move each other's actions. */
static int check_twice(const struct config_sites *s, const struct config_site *site,
                       struct problem *problem)
{
        for (const struct config_site *other = s->sites; other < site; other++)
                if (has_same_tables(other, site))
                        return problem_set(problem, ERR_BADARG,
                                           "wordpress \"%s\": it has the database and the prefix "
                                           "of wordpress \"%s\"; a site may be there once",
                                           SHOWN_STR(site->name), SHOWN_STR(other->name));
        return OK;
}

bool config_sites_has(const struct config_sites *s, const struct config_site *site)
{
        for (size_t i = 0; i < s->n; i++)
                if (strcmp(s->sites[i].name, site->name) == 0 ||
                    has_same_tables(&s->sites[i], site))
                        return true;
        return false;
}

int config_sites_take(struct config_sites *s, const struct config_targets *targets, cfg_t *cfg,
                      struct problem *problem)
{
        unsigned n = cfg_size(cfg, "wordpress");
        if (n > CONFIG_SITES_MAX)
                return problem_set(problem, ERR_BADARG, "more than %d wordpress sections",
                                   CONFIG_SITES_MAX);
        s->sites = xcalloc(n + 1, sizeof(*s->sites));
        for (unsigned i = 0; i < n; i++) {
                struct config_site *site = &s->sites[s->n++];
                int r = take_site(site, targets, cfg_getnsec(cfg, "wordpress", i), problem);
                if (r == OK)
                        r = check_twice(s, site, problem);
                if (r != OK)
                        return r;
        }
        return OK;
}

const struct config_site *config_sites_find(const struct config_sites *s, const char *name,
                                            struct config_site **ret_blog)
{
        const char *dot = strrchr(name, '.');
        uint64_t id = 0;
        bool is_blog = dot && dot[1] != '0' && slice_to_u64(slice_str(dot + 1), &id) && id > 1 &&
                       id <= UINT32_MAX;
        *ret_blog = NULL;
        for (size_t i = 0; i < s->n; i++)
                if (strcmp(s->sites[i].name, name) == 0)
                        return &s->sites[i];
        for (size_t i = 0; is_blog && i < s->n; i++) {
                struct slice network = slice_str(s->sites[i].name);
                if (s->sites[i].is_network &&
                    slice_eq(network, slice_make(name, (size_t)(dot - name))))
                        return *ret_blog = config_site_of_blog(&s->sites[i], (uint32_t)id);
        }
        return NULL;
}

void config_sites_release(struct config_sites *s)
{
        for (size_t i = 0; i < s->n; i++) {
                struct config_site *site = &s->sites[i];
                const struct config_at at = {.section = SECTION_WORDPRESS, .own = site};
                config_rows_release(&at);
                config_password_release(&site->store.login.password);
                config_server_release(&site->store.login.server);
        }
        free(s->sites);
        *s = (struct config_sites){0};
}

/* ---- the same? ---- */

static bool is_same_login(const struct sql_login *a, const struct sql_login *b)
{
        return config_server_is_same(&a->server, &b->server) &&
               config_text_is_same(a->user, b->user) &&
               config_text_is_same(a->password, b->password) &&
               config_text_is_same(a->database, b->database) &&
               config_tls_is_same(&a->tls, &b->tls);
}

static bool are_same_retries(const struct store_options *a, const struct store_options *b)
{
        bool are = a->n_retries == b->n_retries;
        for (size_t i = 0; are && i < a->n_retries; i++)
                are = slice_eq(a->retries[i].pattern, b->retries[i].pattern) &&
                      a->retries[i].times == b->retries[i].times &&
                      a->retries[i].wait_s == b->retries[i].wait_s;
        return are;
}

bool config_site_is_same(const struct config_site *a, const struct config_site *b)
{
        const struct store_options *x = &a->store, *y = &b->store;
        return strcmp(a->name, b->name) == 0 && strcmp(a->prefix, b->prefix) == 0 &&
               a->is_network == b->is_network && a->interval_ms == b->interval_ms &&
               x->timeout_ms == y->timeout_ms && x->claim_timeout_s == y->claim_timeout_s &&
               x->retention_s == y->retention_s && x->retention_failed_s == y->retention_failed_s &&
               are_same_retries(x, y) && is_same_login(&x->login, &y->login);
}
