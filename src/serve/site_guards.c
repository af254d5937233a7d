/* See site_guards.h.
 *
 * A guard reads its options while it runs, and they are part of a configuration.  So each slot
 * holds a reference to the configuration that its guard was started with, which may be an older
 * one. */
#include "serve/site_guards.h"

#include <stdlib.h>

#include "base/say.h"
#include "guard/guard.h"
#include "serve/site_roster.h"

struct slot {
        struct config *config; /* a reference; has: */
        const struct config_site *site;
        struct config_site *blog; /* its own; NULL: `site` is of the configuration */
        struct guard_site *guard;
};

struct site_guards {
        struct loop *loop;
        struct guard *guard;   /* the loop owns it */
        struct config *config; /* a reference: the one that holds */
        struct site_networks networks;
        struct slot *slots; /* n of them, by number of the site */
        size_t n;
        struct buf told; /* site_roster_put() of what the core was told */
        bool is_on;      /* else there are none, whatever is configured */
};

static void tell_core(struct site_guards *g, struct site_roster *list)
{
        struct site_options options[CONFIG_SITES_MAX];
        struct sites_guard guard = guard_for_core(g->guard);
        for (size_t i = 0; i < list->n; i++) {
                struct site_entry *e = &list->at[i];
                const struct config_site *site = e->site;
                options[i] = (struct site_options){.name = site->name,
                                                   .target = site->target ? site->target : "",
                                                   .prefix = site->prefix,
                                                   .network = e->network,
                                                   .notice = buf_cstr(&e->notice),
                                                   .is_leaving = e->is_leaving,
                                                   .mode = (enum gate_mode)site->mode,
                                                   .interval_ms = site->interval_ms,
                                                   .is_front = site->is_front,
                                                   .is_lost_critical = site->is_lost_critical};
                memcpy(options[i].repairs, site->repairs, sizeof(options[i].repairs));
        }
        core_set_sites(g->loop->core, options, list->n, &guard);
        buf_clear(&g->told);
        site_roster_put(list, &g->told);
}

static void stop_slots(struct slot *slots, size_t n)
{
        for (size_t i = 0; i < n; i++) {
                (void)guard_stop(slots[i].guard);              /* NULL */
                (void)config_site_of_blog_free(slots[i].blog); /* NULL */
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

/* The slot gets a site of its own: what the list has is freed with it. */
static int start_slot(struct site_guards *g, struct config *config, struct site_entry *e,
                      struct slot *slot, struct problem *problem)
{
        int r = guard_start(g->guard, &e->site->store, e->site->interval_ms, &slot->guard, problem);
        if (r != OK)
                return r;
        slot->config = config_ref(config);
        slot->site = e->site;
        slot->blog = TAKE_PTR(e->blog);
        return OK;
}

/* Guards whose site is the same go on.  After an error all is as it was. */
static int take_list(struct site_guards *g, struct config *config, struct site_roster *list,
                     struct problem *problem)
{
        size_t n = list->n;
        struct slot *slots = xcalloc(n + 1, sizeof(*slots));
        for (size_t i = 0; i < n; i++) {
                if (find_same(g, list->at[i].site))
                        continue;
                int r = start_slot(g, config, &list->at[i], &slots[i], problem);
                if (r != OK) {
                        stop_slots(slots, i);
                        return r;
                }
        }
        for (size_t i = 0; i < n; i++) {
                struct slot *same = slots[i].guard ? NULL : find_same(g, list->at[i].site);
                if (!same)
                        continue;
                slots[i] = *same;
                *same = (struct slot){0};
        }
        stop_slots(g->slots, g->n);
        g->slots = slots;
        g->n = n;
        tell_core(g, list);
        return OK;
}

/* What was found of a network holds as long as its guard does. */
static void forget_networks(struct site_guards *g, const struct config_sites *sites)
{
        for (size_t i = 0; i < g->n; i++) {
                const struct config_site *was = g->slots[i].site;
                bool is_same = false;
                for (size_t k = 0; k < sites->n && g->is_on; k++)
                        is_same |= config_site_is_same(was, &sites->sites[k]);
                if (was->is_network && !is_same)
                        site_networks_forget(&g->networks, was->name);
        }
}

static int make_list(struct site_guards *g, struct config *config, struct problem *problem)
{
        static const struct config_sites none = {0};
        struct site_roster list;
        site_roster_make(g->is_on ? &config->sites : &none, &g->networks, g->loop->core, &list);
        int r = take_list(g, config, &list, problem);
        site_roster_release(&list);
        return r;
}

int site_guards_change(struct site_guards *g, struct config *config, struct problem *problem)
{
        forget_networks(g, &config->sites);
        int r = make_list(g, config, problem);
        if (r != OK)
                return r;
        config_unref(g->config);
        g->config = config_ref(config);
        return OK;
}

/* The guard of a network has read its blogs. */
static void on_found(void *ctx, const char *site, const struct network_blogs *blogs)
{
        struct site_guards *g = ctx;
        struct problem problem;
        struct site_roster list;
        struct buf now CLEANUP(buf_release) = {0};
        site_networks_learn(&g->networks, site, blogs);
        site_roster_make(&g->config->sites, &g->networks, g->loop->core, &list);
        site_roster_put(&list, &now);
        if (!slice_eq(buf_slice(&now), buf_slice(&g->told))) {
                say_info("site", "the blogs of a network", "site", site, "sites", SAY_I64(list.n));
                if (take_list(g, g->config, &list, &problem) != OK)
                        say_error("site", "the blogs of a network are not guarded, trying again",
                                  "site", site, "why", problem.detail);
        }
        site_roster_release(&list);
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
        guard_set_found(g->guard, on_found, g);
        int r = site_guards_change(g, config, problem);
        if (r == OK)
                *ret = g;
        else
                (void)site_guards_free(g);
        return r;
}

struct site_guards *site_guards_free(struct site_guards *g)
{
        if (!g)
                return NULL;
        guard_set_found(g->guard, NULL, NULL);
        stop_slots(g->slots, g->n);
        site_networks_release(&g->networks);
        buf_release(&g->told);
        config_unref(g->config);
        free(g);
        return NULL;
}
