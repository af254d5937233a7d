/* See site_roster.h.
 *
 * A section with `network = true` stands for every blog of a WordPress network.  The guard of the
 * section reads the table of blogs on its own thread and connection (guard/network.c), because it
 * has both and needs no more privileges than one; it hands the list to the loop, and site_guards.c
 * makes this roster anew from it, starts and stops guards, and tells the core.  So a blog is a site
 * like any other, with a name, a thread and a connection of its own, and nothing else of weir knows
 * of networks.
 *
 *      section "shop", prefix wp_      blog 1: shop, wp_        blog 7: shop.7, wp_7_
 *
 * The names are made from numbers that WordPress never gives twice, because the ledger of moved
 * actions is by name.  What was found is kept while the configuration, or the lead in a cluster,
 * lasts; after a start the first reading comes with the first cycle.  A reading that fails changes
 * nothing.  A closed blog (archived, deleted, spam, or its row is gone) stays while something of it
 * is in the ledger, to give that back.
 *
 * Sections come first, then blogs in the order of their numbers, in all CONFIG_SITES_MAX: what is
 * beyond is told.  A blog that has a section of its own, by name or by its tables, is that. */
#include "serve/site_roster.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct site_network {
        char name[SITE_NAME_MAX + 1];
        struct network_blogs blogs;
};

/* ---- what was read ---- */

static struct site_network *find_network(const struct site_networks *all, const char *name)
{
        for (size_t i = 0; i < all->n; i++)
                if (strcmp(all->networks[i].name, name) == 0)
                        return &all->networks[i];
        return NULL;
}

void site_networks_release(struct site_networks *all)
{
        free(all->networks);
        *all = (struct site_networks){0};
}

void site_networks_learn(struct site_networks *all, const char *name,
                         const struct network_blogs *blogs)
{
        struct site_network *network = find_network(all, name);
        if (!network) {
                all->networks = xrealloc(all->networks, (all->n + 1) * sizeof(*all->networks));
                network = &all->networks[all->n++];
                *network = (struct site_network){0};
                (void)snprintf(network->name, sizeof(network->name), "%s", name);
        }
        if (blogs->is_known)
                network->blogs = *blogs;
        else
                memcpy(network->blogs.notice, blogs->notice, sizeof(network->blogs.notice));
}

void site_networks_forget(struct site_networks *all, const char *name)
{
        struct site_network *network = find_network(all, name);
        if (network)
                *network = all->networks[--all->n];
}

/* ---- the list ---- */

/* False: there is no room for it. */
static bool take_blog(struct site_roster *list, const struct config_sites *sites,
                      const struct config_site *network, const struct network_blog *found,
                      const struct core *core)
{
        struct config_site *blog = config_site_of_blog(network, found->id);
        bool is_wanted = !config_sites_has(sites, blog) &&
                         (found->is_open || sites_has_ledger(core, slice_str(blog->name)));
        bool has_room = list->n < CONFIG_SITES_MAX;
        if (is_wanted && has_room)
                list->at[list->n++] = (struct site_entry){.site = blog,
                                                          .blog = blog,
                                                          .network = network->name,
                                                          .is_leaving = !found->is_open};
        else
                (void)config_site_of_blog_free(blog); /* NULL */
        return !is_wanted || has_room;
}

static void take_network(struct site_roster *list, const struct config_sites *sites,
                         struct site_entry *entry, const struct network_blogs *blogs,
                         const struct core *core)
{
        size_t n_beyond = 0;
        for (size_t i = 0; i < blogs->n; i++)
                n_beyond += !take_blog(list, sites, entry->site, &blogs->blogs[i], core);
        if (blogs->notice[0])
                buf_printf(&entry->notice, "%s\n", blogs->notice);
        if (n_beyond)
                buf_printf(&entry->notice,
                           "weir has room for %d sites. Blogs of the network that are not guarded: "
                           "%zu.\n",
                           CONFIG_SITES_MAX, n_beyond);
        if (blogs->n == NETWORK_BLOGS_MAX)
                buf_printf(&entry->notice,
                           "Only the first %d blogs with Action Scheduler were looked at.\n",
                           NETWORK_BLOGS_MAX);
}

void site_roster_make(const struct config_sites *sites, const struct site_networks *networks,
                      const struct core *core, struct site_roster *ret)
{
        *ret = (struct site_roster){0};
        for (size_t i = 0; i < sites->n; i++)
                ret->at[ret->n++] = (struct site_entry){.site = &sites->sites[i]};
        for (size_t i = 0; i < sites->n; i++) {
                const struct site_network *network = find_network(networks, sites->sites[i].name);
                if (network && sites->sites[i].is_network)
                        take_network(ret, sites, &ret->at[i], &network->blogs, core);
        }
}

void site_roster_release(struct site_roster *list)
{
        for (size_t i = 0; i < list->n; i++) {
                list->at[i].blog = config_site_of_blog_free(list->at[i].blog);
                buf_release(&list->at[i].notice);
        }
        list->n = 0;
}

void site_roster_put(const struct site_roster *list, struct buf *ret)
{
        for (size_t i = 0; i < list->n; i++) {
                const struct site_entry *e = &list->at[i];
                buf_printf(ret, "%s %d\n", e->site->name, e->is_leaving);
                buf_put_slice(ret, buf_slice(&e->notice));
        }
}
