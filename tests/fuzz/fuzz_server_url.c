/* Any text as the address of a server.
 *
 * What is accepted can be written down again and read back to the same; what is refused says why,
 * in printable words.  The token is in no sentence and in no address that is shown. */
#include <stdlib.h>
#include <string.h>

#include "wire/server_url.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_printable(const char *text)
{
        for (; *text; text++)
                ASSERT((unsigned char)*text >= ' ' && *text != 0x7f);
}

static void check_written(const struct server_url *u)
{
        struct buf b CLEANUP(buf_release) = {0};
        struct server_url again;
        server_url_put(&b, u);
        /* A path that looks like something else when it stands alone, or a strange host. */
        if (u->is_unix || !u->is_tls || server_url_parse(buf_cstr(&b), &again, NULL) != OK)
                return;
        ASSERT(again.is_tls && again.port == u->port);
        ASSERT(memcmp(&again.tls, &u->tls, sizeof(u->tls)) == 0);
        ASSERT(!again.token[0] && !again.user[0]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        struct server_url u;
        struct problem p = {0};
        struct slice words[SERVER_AUTH_WORDS];
        char *text = malloc(size + 1);

        ASSERT(text);
        if (size)
                memcpy(text, data, size);
        text[size] = '\0';
        int r = server_url_parse(text, &u, &p);
        if (r == OK) {
                ASSERT(u.text[0] && (u.is_unix ? u.path[0] : u.host[0] && u.port));
                ASSERT(!(u.is_unix && u.is_tls));
                ASSERT((server_url_auth(&u, words) > 0) == (u.user[0] || u.token[0]));
                ASSERT(!u.tls.verify[0] || u.is_tls);
                check_written(&u);
                r = server_url_add_env(&u, &p);
        }
        if (r != OK) {
                ASSERT(r == ERR_BADARG && p.err == r && p.detail[0]);
                check_printable(p.detail);
        }
        free(text);
        return 0;
}
