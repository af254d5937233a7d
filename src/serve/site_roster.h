/* The sites that are guarded: those of the configuration, and the blogs that were found of those
 * that are networks.  Loop thread only. */
#ifndef WEIR_SERVE_SITE_ROSTER_H
#define WEIR_SERVE_SITE_ROSTER_H

#include "guard/network.h"
#include "serve/config_sites.h"

/* What was read of the networks last, by the names of their sections.  Embedded; zeros are empty.
 */
struct site_networks {
        struct site_network *networks; /* n of them */
        size_t n;
};

void site_networks_release(struct site_networks *all);
void site_networks_learn(struct site_networks *all, const char *name,
                         const struct network_blogs *blogs);
void site_networks_forget(struct site_networks *all, const char *name);

struct site_entry {
        const struct config_site *site; /* of the configuration, or: */
        struct config_site *blog;       /* its own; NULL: it is none */
        const char *network;            /* the section of the blog; NULL */
        struct buf notice;              /* of a network: lines for people */
        bool is_leaving;
};

struct site_roster {
        struct site_entry at[CONFIG_SITES_MAX]; /* n of them */
        size_t n;
};

/* ret borrows from the sites and wants its release.  A closed blog is listed only while `core` has
 * something to give back to it. */
void site_roster_make(const struct config_sites *sites, const struct site_networks *networks,
                      const struct core *core, struct site_roster *ret);
void site_roster_release(struct site_roster *list);
/* One text of all that the core is told of it beside the configuration: it changes with the list.
 */
void site_roster_put(const struct site_roster *list, struct buf *ret);

#endif
