/* See site_guards.h.
 *
 * A guard reads its options while it runs, and they are part of a configuration.  So each slot
 * holds a reference to the configuration that its guard was started with, which may be an older
 * one. */
#include "serve/site_guards.h"

#include <stdlib.h>

#include "guard/guard.h"
#include "sites/sites.h"

struct slot {
        struct config *config; /* a reference; has: */
        const struct config_site *site;
        struct guard_site *guard;
};

struct site_guards {
        struct loop *loop;
        struct guard *guard; /* the loop owns it */
        struct slot *slots;  /* n of them, by number of the site */
        size_t n;
        bool is_on; /* else there are none, whatever is configured */
};

static void tell_core(struct site_guards *g, const struct config_sites *sites)
{
        struct site_options options[CONFIG_SITES_MAX];
        struct sites_guard guard = guard_for_core(g->guard);
        for (size_t i = 0; i < sites->n; i++) {
                const struct config_site *site = &sites->sites[i];
                options[i] = (struct site_options){.name = site->name,
                                                   .target = site->target ? site->target : "",
                                                   .prefix = site->prefix,
                                                   .mode = (enum gate_mode)site->mode,
                                                   .interval_ms = site->interval_ms,
                                                   .is_front = site->is_front,
                                                   .is_lost_critical = site->is_lost_critical};
                memcpy(options[i].repairs, site->repairs, sizeof(options[i].repairs));
        }
        core_set_sites(g->loop->core, options, g->is_on ? sites->n : 0, &guard);
}

static void stop_slots(struct slot *slots, size_t n)
{
        for (size_t i = 0; i < n; i++) {
                (void)guard_stop(slots[i].guard); /* NULL */
                config_unref(slots[i].config);
        }
        free(slots);
}

/* The guard that runs already and would do for this site; NULL: none. */
static struct slot *find_same(struct site_guards *g, const struct config_site *site)
{
        for (size_t i = 0; i < g->n; i++)
                if (g->slots[i].guard && config_site_is_same(g->slots[i].site, site))
                        return &g->slots[i];
        return NULL;
}

int site_guards_change(struct site_guards *g, struct config *config, struct problem *problem)
{
        const struct config_sites *sites = &config->sites;
        size_t n = g->is_on ? sites->n : 0;
        struct slot *slots = xcalloc(n + 1, sizeof(*slots));
        for (size_t i = 0; i < n; i++) {
                const struct config_site *site = &sites->sites[i];
                if (find_same(g, site))
                        continue;
                int r = guard_start(g->guard, &site->store, site->interval_ms, &slots[i].guard,
                                    problem);
                if (r != OK) {
                        stop_slots(slots, i);
                        return r;
                }
                slots[i].config = config_ref(config);
                slots[i].site = site;
        }
        for (size_t i = 0; i < n; i++) {
                struct slot *same = slots[i].guard ? NULL : find_same(g, &sites->sites[i]);
                if (!same)
                        continue;
                slots[i] = *same;
                *same = (struct slot){0};
        }
        stop_slots(g->slots, g->n);
        g->slots = slots;
        g->n = n;
        tell_core(g, sites);
        return OK;
}

int site_guards_set(struct site_guards *g, struct config *config, bool is_on,
                    struct problem *problem)
{
        g->is_on = is_on;
        return site_guards_change(g, config, problem);
}

int site_guards_start(struct config *config, struct loop *loop, bool is_on,
                      struct site_guards **ret, struct problem *problem)
{
        struct site_guards *g = xcalloc(1, sizeof(*g));
        g->loop = loop;
        g->guard = guard_new(loop);
        g->is_on = is_on;
        int r = site_guards_change(g, config, problem);
        if (r == OK)
                *ret = g;
        else
                free(g);
        return r;
}

struct site_guards *site_guards_free(struct site_guards *g)
{
        if (!g)
                return NULL;
        stop_slots(g->slots, g->n);
        free(g);
        return NULL;
}
