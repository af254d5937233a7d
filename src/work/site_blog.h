/* Which blog of a WordPress a site is, and what that adds to the command of a runner.
 *
 * Each blog of a network has tables of its own, with the prefix of its section in weir.conf.  The
 * server tells the prefix and the address; the runner needs the address to load that blog, and
 * compares the prefix afterwards. */
#ifndef WEIR_WORK_SITE_BLOG_H
#define WEIR_WORK_SITE_BLOG_H

#include "wire/resp_reply.h"
#include "work/words.h"

#define SITE_BLOG_URL_BYTES 256

struct site_blog {
        char url[SITE_BLOG_URL_BYTES]; /* "https://shop.example/two"; "": not known */
        char prefix[SITE_BLOG_URL_BYTES];
        bool is_url_given; /* by the person who started weir work: the server's does not count */
        bool is_shared;    /* its runners take turns with those of other blogs */
};

/* How a runner is started. */
struct site_command {
        struct words words;
        const char *url_option;  /* before the address, "--url="; NULL: it takes no address */
        const char *turn_option; /* ends a runner of a shared blog after a while; NULL: it does */
};

/* From a reply to SITERUN or SITEFIRST.  What the server does not know yet changes nothing. */
void site_blog_learn(struct site_blog *b, const struct value *reply);

/* A copy of the command, with the address when it is known. */
void site_blog_put_command(const struct site_blog *b, const struct site_command *c,
                           struct words *ret);
/* WEIR_PREFIX and WEIR_BLOG_URL, when they are known. */
void site_blog_put_env(const struct site_blog *b, struct words *env);

#endif
