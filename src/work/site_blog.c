/* See site_blog.h.
 *
 * The server has the address from the options table of the site, so anything may be in it: only
 * http and https are taken, and nothing that is no part of an address. */
#include "work/site_blog.h"

#include <stdio.h>
#include <string.h>

#define ADMIN_PAGES "/wp-admin/"

/* The address without that of the admin pages, which is what the reply has.  False: it is none. */
static bool take_address(struct slice text, char ret[SITE_BLOG_URL_BYTES])
{
        char url[SITE_BLOG_URL_BYTES];
        if (text.len >= sizeof(url))
                return false;
        (void)snprintf(url, sizeof(url), "%.*s", (int)text.len, text.ptr);
        size_t n = strlen(url), pages = strlen(ADMIN_PAGES);
        if (n > pages && strcmp(url + n - pages, ADMIN_PAGES) == 0)
                url[n -= pages] = '\0';
        while (n && url[n - 1] == '/')
                url[--n] = '\0';
        if (strncmp(url, "http://", 7) != 0 && strncmp(url, "https://", 8) != 0)
                return false;
        for (size_t i = 0; i < n; i++)
                if ((unsigned char)url[i] <= ' ' || url[i] == 0x7f)
                        return false;
        memcpy(ret, url, n + 1);
        return true;
}

void site_blog_learn(struct site_blog *b, const struct value *reply)
{
        char url[SITE_BLOG_URL_BYTES];
        struct slice prefix = value_text(value_get(reply, "prefix"));
        if (!b->is_url_given && take_address(value_text(value_get(reply, "url")), url))
                (void)snprintf(b->url, sizeof(b->url), "%s", url);
        if (prefix.len && prefix.len < sizeof(b->prefix))
                (void)snprintf(b->prefix, sizeof(b->prefix), "%.*s", (int)prefix.len, prefix.ptr);
}

void site_blog_put_command(const struct site_blog *b, const struct site_command *c,
                           struct words *ret)
{
        char word[SITE_BLOG_URL_BYTES + 16];
        *ret = (struct words){0};
        for (size_t i = 0; i < c->words.n; i++)
                words_add(ret, c->words.argv[i]);
        if (c->turn_option && b->is_shared)
                words_add(ret, c->turn_option);
        if (!c->url_option || !b->url[0])
                return;
        (void)snprintf(word, sizeof(word), "%s%s", c->url_option, b->url);
        words_add(ret, word);
}

void site_blog_put_env(const struct site_blog *b, struct words *env)
{
        if (b->prefix[0])
                env_add(env, "WEIR_PREFIX", b->prefix);
        if (b->url[0])
                env_add(env, "WEIR_BLOG_URL", b->url);
}
