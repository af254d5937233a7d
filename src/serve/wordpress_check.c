/* The guard without the rest: to check a site's database, credentials and privileges before weir
 * relies on them.  The same statements as the guard's in observe mode; nothing is changed.
 *
 * Each line is one thing and what it is like.  `warn` is for what works and is not wise; `bad` is
 * for what the site's mode needs and does not have, and makes the exit code 1.  A site that is off
 * needs nothing, so nothing of it is bad. */
#include "serve/wordpress_check.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/plural.h"
#include "base/shown.h"
#include "cli/cli.h"
#include "cli/screen.h"
#include "gate/registry.h"
#include "guard/network.h"
#include "serve/config.h"
#include "serve/doctor.h"
#include "wire/json.h"

/* Dear repairs are looked at in turns: so often every one had its turn. */
#define LOOKS    SITE_REPAIRS
#define TEXT_MAX 640 /* bytes of a line */

struct check {
        const struct config *config;
        const struct config_site *site; /* that is looked at */
        struct registry *registry;
        struct screen screen;
        bool is_json;
        size_t n_bad, n_warn; /* of all sites */
        size_t n_bad_here;    /* of this site */
        struct buf out;
};

static const struct {
        const char *word, *name;
        enum tone tone;
} verdicts[] = {
        [VERDICT_FINE] = {"ok  ", "ok", TONE_GREEN},
        [VERDICT_WARN] = {"warn", "warn", TONE_YELLOW},
        [VERDICT_BAD] = {"bad ", "bad", TONE_RED},
};

/* ---- lines ---- */

static void put_line(struct check *c, enum verdict verdict, const char *name, struct slice text,
                     struct slice fix)
{
        struct slice rest = fix;
        buf_put_str(&c->out, "  ");
        screen_put_toned(&c->screen, &c->out, verdicts[verdict].tone,
                         slice_str(verdicts[verdict].word));
        buf_printf(&c->out, "  %-10s ", name);
        text_put_safe(&c->out, text);
        buf_put_byte(&c->out, '\n');
        while (rest.len) {
                buf_put_str(&c->out, "                     ");
                text_put_safe(&c->out, text_take_line(&rest));
                buf_put_byte(&c->out, '\n');
        }
}

static void put_object(struct check *c, enum verdict verdict, const char *name, struct slice text,
                       struct slice fix)
{
        json_put_comma(&c->out);
        buf_put_byte(&c->out, '{');
        json_put_key(&c->out, "name");
        json_put_text(&c->out, slice_str(name));
        json_put_key(&c->out, "verdict");
        json_put_text(&c->out, slice_str(verdicts[verdict].name));
        json_put_key(&c->out, "text");
        json_put_text_lossy(&c->out, text);
        json_put_key(&c->out, "fix");
        json_put_text_lossy(&c->out, fix);
        buf_put_byte(&c->out, '}');
}

/* `fix` has statements to run, one a line, or is empty. */
static void tell_fix(struct check *c, enum verdict verdict, const char *name, struct slice text,
                     struct slice fix)
{
        if (verdict == VERDICT_BAD && c->site->mode == MODE_OFF)
                verdict = VERDICT_WARN;
        c->n_bad_here += verdict == VERDICT_BAD;
        c->n_bad += verdict == VERDICT_BAD;
        c->n_warn += verdict == VERDICT_WARN;
        if (c->is_json)
                put_object(c, verdict, name, text, fix);
        else
                put_line(c, verdict, name, text, fix);
}

static void tell(struct check *c, enum verdict verdict, const char *name, const char *fmt, ...)
        PRINTF(4, 5);
static void tell(struct check *c, enum verdict verdict, const char *name, const char *fmt, ...)
{
        char text[TEXT_MAX];
        va_list args;
        va_start(args, fmt);
        (void)vsnprintf(text, sizeof(text), fmt, args); /* cut is fine */
        va_end(args);
        tell_fix(c, verdict, name, slice_str(text), SLICE_NONE);
}

/* ---- what weir may do ---- */

static void tell_mode(struct check *c)
{
        const struct config_site *site = c->site;
        if (site->mode == MODE_OFF)
                tell(c, VERDICT_FINE, "mode",
                     "off: weir does not connect to this site; observe would see what follows");
        else if (site->mode == MODE_ENFORCE)
                tell(c, VERDICT_FINE, "mode",
                     "enforce: weir moves due actions to a later date while the load of target "
                     "\"%s\" makes their tier wait, and gives them back",
                     SHOWN_STR(site->target));
        else
                tell(c, VERDICT_FINE, "mode",
                     "%s: weir reads, and tells what it would move; it changes nothing",
                     setting_table[SET_WORDPRESS_mode].choices[site->mode]);
}

/* Whether something that is configured needs this GRANT.  Repairs that delete are the only ones
 * that need more than every cycle does. */
static bool is_used(const struct check *c, const struct store *s, const char *grant)
{
        const enum gate_mode *repairs = c->site->repairs;
        if (strncmp(grant, "GRANT DELETE ", strlen("GRANT DELETE ")) != 0)
                return false;
        if (strstr(grant, s->claims))
                return repairs[REPAIR_CLAIM_ROWS] == MODE_ENFORCE;
        return repairs[REPAIR_RETENTION] == MODE_ENFORCE;
}

static bool is_any_used(const struct check *c, const struct store *s, struct slice grants)
{
        bool is_any = false;
        while (grants.len) {
                struct slice line = text_take_line(&grants);
                struct buf text CLEANUP(buf_release) = {0};
                buf_put_slice(&text, line);
                is_any |= is_used(c, s, buf_cstr(&text));
        }
        return is_any;
}

/* is_refused: a privilege that every cycle needs is missing. */
static void tell_privileges(struct check *c, struct store *s, enum gate_mode mode, bool is_refused)
{
        struct buf grants CLEANUP(buf_release) = {0};
        struct problem problem = {0};
        int r = mysql_conn_is_open(s->conn) ? store_put_missing(s, mode, &grants, &problem) : OK;
        if (r != OK) {
                tell(c, VERDICT_BAD, "privileges", "%s", problem.detail);
                return;
        }
        if (!grants.len && is_refused) /* it was not even let in */
                store_put_grants(s, mode, &grants);
        if (!grants.len)
                tell(c, VERDICT_FINE, "privileges", "all that this mode can use are there");
        else if (is_refused || is_any_used(c, s, buf_slice(&grants)))
                tell_fix(c, VERDICT_BAD, "privileges",
                         SLICE_LIT("some are missing; as an administrator of the database run:"),
                         buf_slice(&grants));
        else
                tell_fix(c, VERDICT_WARN, "privileges",
                         SLICE_LIT("those of repairs that are not in enforce, and of locks, are "
                                   "missing; to give them, run:"),
                         buf_slice(&grants));
}

/* ---- what is there ---- */

static void tell_store(struct check *c, const struct store *s)
{
        const struct store_facts *f = &s->facts;
        const char *tls = mysql_conn_tls(s->conn);
        tell(c, VERDICT_FINE, "server", "%s%s%s", f->server, tls ? ", encrypted by " : "",
             tls ? tls : "");
        if (f->is_migrated)
                tell(c, VERDICT_FINE, "store", "Action Scheduler's tables, schema %s",
                     f->schema[0] ? f->schema : "unknown");
        else
                tell(c, VERDICT_WARN, "store",
                     "Action Scheduler's tables, schema %s, not migrated yet: actions that are "
                     "still posts of the type scheduled-action are not seen and not moved; Action "
                     "Scheduler migrates them by its own hook action_scheduler/migration_hook",
                     f->schema[0] ? f->schema : "unknown");
}

static void tell_due(struct check *c, const struct site_survey *v)
{
        uint64_t due[TIERS] = {0};
        bool is_more[TIERS] = {false};
        size_t n_due = 0;
        struct buf text CLEANUP(buf_release) = {0};
        for (size_t i = 0; i < v->n_hooks; i++) {
                enum tier tier = registry_tier(c->registry, v->hooks[i].hook);
                bool is_cut = v->hooks[i].due > v->due_cap;
                due[tier] += is_cut ? v->due_cap : v->hooks[i].due;
                is_more[tier] |= is_cut;
                n_due += v->hooks[i].due > 0;
        }
        tell(c, VERDICT_FINE, "hooks", "%s%zu, %zu of them with due actions",
             v->are_hooks_cut ? "more than " : "", v->n_hooks, n_due);
        for (size_t i = 0; i < TIERS; i++)
                buf_printf(&text, "%s%s %s%llu", i ? ", " : "", tier_name((enum tier)i),
                           is_more[i] ? "more than " : "", (unsigned long long)due[i]);
        tell(c, VERDICT_FINE, "due", "%s", buf_cstr(&text));
        tell(c, VERDICT_FINE, "actions", "%u running, %u claimed, %u failed", v->running,
             v->claimed, v->failed);
}

static void tell_repairs(struct check *c, const struct site_survey *v)
{
        static const char *const texts[SITE_REPAIRS] = {
#define X(id, name, text) [REPAIR_##id] = text,
                SITE_REPAIR_MAP(X)
#undef X
        };
        for (size_t i = 0; i < SITE_REPAIRS; i++) {
                if (i == REPAIR_RESTORED) /* only the server has the ledger */
                        continue;
                bool is_setting = i != REPAIR_PAST_DUE && i != REPAIR_DUPLICATES;
                enum gate_mode mode = c->site->repairs[i];
                uint32_t n = v->faults[i].found;
                struct buf how CLEANUP(buf_release) = {0};
                if (is_setting)
                        buf_printf(&how, "; repair_%s is %s", site_repair_name((enum site_repair)i),
                                   setting_table[SET_WORDPRESS_mode].choices[mode]);
                tell(c, n ? VERDICT_WARN : VERDICT_FINE, site_repair_name((enum site_repair)i),
                     "%s%u %s%s", n > SITE_COUNT_CAP ? "more than " : "",
                     n > SITE_COUNT_CAP ? SITE_COUNT_CAP : n, texts[i], buf_cstr(&how));
        }
}

static void tell_advice(struct check *c, const struct site_survey *v)
{
        struct slice rest = v->advice ? slice_str(v->advice) : SLICE_NONE;
        while (rest.len)
                tell_fix(c, VERDICT_WARN, "advice", text_take_line(&rest), SLICE_NONE);
}

/* Looks for every fault and mends nothing. */
static int look_at_repairs(struct store *s, struct site_survey *v, struct problem *problem)
{
        struct site_plan plan = {.mode = MODE_OBSERVE, .reason = "", .is_calm = true};
        int r = OK;
        for (size_t i = 0; i < SITE_REPAIRS; i++)
                plan.repairs[i] = MODE_OBSERVE;
        for (int i = 0; r == OK && i < LOOKS; i++) {
                v->advice = NULL; /* each look adds all that is known to it */
                r = store_repair(s, &plan, v, problem);
        }
        return r;
}

static void tell_survey(struct check *c, struct store *s)
{
        struct site_survey v = {0};
        struct problem problem = {0};
        int r = store_survey(s, 0, &v, &problem);
        if (r == OK)
                tell_due(c, &v);
        if (r == OK)
                r = look_at_repairs(s, &v, &problem);
        if (r == OK) {
                tell_repairs(c, &v);
                tell_advice(c, &v);
        } else {
                tell(c, VERDICT_BAD, "survey", "%s", problem.detail);
        }
        site_survey_release(&v);
}

/* ---- a site ---- */

/* Reads the blogs of a network into `found`.  Blog 1 need not have Action Scheduler's tables. */
static void tell_network(struct check *c, struct store *s, struct network_blogs *found)
{
        struct buf grant CLEANUP(buf_release) = {0};
        struct problem problem = {0};
        size_t n_open = 0;
        int r = network_read(s, found, &problem);
        for (size_t i = 0; i < found->n; i++)
                n_open += found->blogs[i].is_open;
        network_put_grant(s, &grant);
        buf_put_str(&grant, ";\n");
        if (r != OK)
                tell(c, VERDICT_BAD, "network", "%s", problem.detail);
        else if (found->is_refused)
                tell_fix(c, VERDICT_BAD, "network",
                         SLICE_LIT("weir may not read which blogs there are; run:"),
                         buf_slice(&grant));
        else if (!found->is_known)
                tell(c, VERDICT_BAD, "network", "%s", found->notice);
        else
                tell(c, found->notice[0] ? VERDICT_WARN : VERDICT_FINE, "network",
                     "blogs with Action Scheduler beside the main one: %zu, %zu of them open%s%s",
                     found->n, n_open, found->notice[0] ? ". " : "", found->notice);
}

/* `found`: of a network; else NULL. */
static void look(struct check *c, struct network_blogs *found)
{
        struct store s;
        struct problem problem = {0};
        bool is_off = c->site->mode == MODE_OFF;
        enum gate_mode mode = is_off ? MODE_OBSERVE : (enum gate_mode)c->site->mode;
        store_init(&s, &c->site->store, -1);
        tell_mode(c);
        int r = store_open(&s, mode, &problem);
        /* A user that was let into the server, if not into the database, has an account. */
        bool is_refused = r == ERR_FORBIDDEN && s.facts.account[0];
        bool is_empty = r == ERR_NOTFOUND && found && s.facts.has_no_tables;
        if (s.is_known)
                tell_store(c, &s);
        if (found && mysql_conn_is_open(s.conn))
                tell_network(c, &s, found);
        if (r == OK || is_refused)
                tell_privileges(c, &s, mode, is_refused);
        else if (is_empty)
                tell(c, VERDICT_FINE, "store", "no tables of Action Scheduler");
        else
                tell(c, VERDICT_BAD, "database", "%s", problem.detail);
        if (s.is_known && store_open(&s, MODE_OBSERVE, &problem) == OK)
                tell_survey(c, &s);
        store_release(&s);
}

static void check_site(struct check *c, const struct config_site *site, struct network_blogs *found)
{
        char where[WHERE_MAX];
        c->site = site;
        c->n_bad_here = 0;
        (void)server_where(&site->store.login.server, where);
        if (c->is_json) {
                json_put_comma(&c->out);
                buf_put_byte(&c->out, '{');
                json_put_key(&c->out, "name");
                json_put_text_lossy(&c->out, slice_str(site->name));
                json_put_key(&c->out, "checks");
                buf_put_byte(&c->out, '[');
                look(c, found);
                buf_put_byte(&c->out, ']');
                json_put_key(&c->out, "ok");
                buf_printf(&c->out, "%s}", c->n_bad_here ? "false" : "true");
                return;
        }
        text_put_safe(&c->out, slice_str(site->name));
        buf_printf(&c->out, ": %s, database %s, prefix %s\n", where,
                   SHOWN_STR(site->store.login.database), site->prefix);
        look(c, found);
}

/* ---- the command ---- */

static bool is_asked(const char *name, const struct config_site *site)
{
        return !name || strcmp(name, site->name) == 0;
}

/* Returns how many of its blogs were asked for, which are looked at. */
static size_t check_blogs(struct check *c, const struct config_site *network, const char *name,
                          const struct network_blogs *found)
{
        size_t n = 0;
        for (size_t i = 0; i < found->n; i++) {
                struct config_site *blog = config_site_of_blog(network, found->blogs[i].id);
                if (found->blogs[i].is_open && is_asked(name, blog) &&
                    !config_sites_has(&c->config->sites, blog)) {
                        check_site(c, blog, NULL);
                        n++;
                }
                (void)config_site_of_blog_free(blog); /* NULL */
        }
        return n;
}

/* The network itself is not asked for, but perhaps one of its blogs. */
static void find_blogs(const struct config_site *network, struct network_blogs *ret)
{
        struct store s;
        struct problem problem;
        store_init(&s, &network->store, -1);
        int r = store_open(&s, MODE_TEST_OBSERVE, &problem);
        if (r == OK || mysql_conn_is_open(s.conn))
                r = network_read(&s, ret, &problem);
        if (r != OK)
                ret->n = 0; /* then there is none of that name */
        store_release(&s);
}

static size_t check_network(struct check *c, const struct config_site *network, const char *name)
{
        struct network_blogs *found = xcalloc(1, sizeof(*found));
        size_t n = 0;
        if (is_asked(name, network)) {
                check_site(c, network, found);
                n = 1;
        } else {
                find_blogs(network, found);
        }
        n += check_blogs(c, network, name, found);
        free(found);
        return n;
}

static int check_sites(struct check *c, const char *path, const char *name, struct problem *problem)
{
        const struct config_sites *sites = &c->config->sites;
        size_t n = 0;
        if (!sites->n)
                return problem_set(problem, ERR_NOTFOUND, "%s has no wordpress section", path);
        buf_put_str(&c->out, c->is_json ? "{\"sites\":[" : "");
        for (size_t i = 0; i < sites->n; i++) {
                if (sites->sites[i].is_network) {
                        n += check_network(c, &sites->sites[i], name);
                } else if (is_asked(name, &sites->sites[i])) {
                        check_site(c, &sites->sites[i], NULL);
                        n++;
                }
        }
        if (!n)
                return problem_set(problem, ERR_NOTFOUND, "%s has no wordpress section '%s'", path,
                                   SHOWN_STR(name));
        if (c->is_json)
                buf_printf(&c->out, "],\"ok\":%s}\n", c->n_bad ? "false" : "true");
        else if (c->n_bad || c->n_warn)
                buf_printf(&c->out, "%zu to fix, %zu to think about\n", c->n_bad, c->n_warn);
        else
                buf_put_str(&c->out, "all is well\n");
        return OK;
}

static struct registry *make_registry(const struct config_throttle *t)
{
        size_t n = registry_defaults_len;
        struct registry_entry *entries = xcalloc(n + t->n_registry + 1, sizeof(*entries));
        memcpy(entries, registry_defaults, n * sizeof(*entries));
        for (size_t i = 0; i < t->n_registry; i++)
                entries[n++] = t->registry[i];
        struct registry *registry = registry_new(entries, n);
        free(entries);
        return registry;
}

static int run(struct check *c, const struct args *args, struct problem *problem)
{
        const char *path = args_get(args, "config");
        struct config config;
        if (!path)
                return problem_set(problem, ERR_SYNTAX, "which configuration?  Say -c FILE");
        config_init(&config);
        int r = config_read_file(&config, path, problem);
        if (r == OK) {
                c->config = &config;
                c->registry = make_registry(&config.throttle);
                r = check_sites(c, path, args->n_positional ? args->positional[0] : NULL, problem);
                c->registry = registry_free(c->registry);
                c->config = NULL;
        }
        config_release(&config);
        if (r == OK &&
            (fwrite(c->out.ptr, 1, c->out.len, stdout) != c->out.len || fflush(stdout) != 0))
                r = problem_set(problem, ERR_IO, "cannot write the output: %s", strerror(errno));
        return r;
}

int wordpress_check_main(int argc, char **argv)
{
        struct args args = {0};
        struct problem problem = {0};
        struct check c = {0};
        int r = args_parse(&args, cli_wordpress_check_options, argv + 1, argc - 1, &problem);
        if (r == OK && args_has(&args, "help"))
                return cli_help("wordpress", "check");
        if (r == OK && args.n_positional > 1)
                r = problem_set(&problem, ERR_SYNTAX, "unexpected argument '%s'",
                                SHOWN_STR(args.positional[1]));
        if (r == OK) {
                screen_init(&c.screen);
                c.is_json = args_has(&args, "json");
                r = run(&c, &args, &problem);
        }
        buf_release(&c.out);
        if (r == OK)
                return c.n_bad ? 1 : 0;
        fprintf(stderr, "weir wordpress check: %s\n", problem.detail);
        return err_exit(r);
}
