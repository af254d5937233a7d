/* The page's files.
 *
 * There are about fifteen, so a path is compared with each name; what is not in the table is not
 * there, and no file is ever opened: a path cannot lead out of the table.
 *
 * Both forms are compiled in, which costs 250 kB of the binary and saves inflating for the few who
 * take no gzip.  The entity tag is the hash of the contents, with a suffix for the gzipped form:
 * two forms with the same strong tag would be taken for the same bytes (RFC 9110 8.8.3.3).
 *
 * A reload asks again for the page itself, and for its files when they are older than ASSET_AGE_S:
 * after an upgrade a browser may for so long have the old form of one module and the new one of
 * another. */
#include "door/assets.h"

#include <stdio.h>

#define FOLDER      "/ui/"
#define INDEX       "index.html"
#define ASSET_AGE_S "10"

const char asset_page_lines[] =
        "Content-Security-Policy: default-src 'none'; script-src 'self'; style-src 'self'; "
        "img-src 'self' data:; connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; "
        "form-action 'self'\r\n"
        "X-Frame-Options: DENY\r\n"
        "X-Content-Type-Options: nosniff\r\n"
        "Referrer-Policy: no-referrer\r\n"
        "Cross-Origin-Opener-Policy: same-origin\r\n"
        "Cross-Origin-Resource-Policy: same-origin\r\n";

static bool is_index(const struct asset *a)
{
        return strcmp(a->name, INDEX) == 0;
}

const struct asset *asset_find(struct slice path)
{
        static const struct slice folder = SLICE_LIT(FOLDER);
        bool is_root = slice_eq(path, SLICE_LIT("/"));
        struct slice name = SLICE_LIT(INDEX);
        if (!is_root) {
                if (path.len <= folder.len || memcmp(path.ptr, folder.ptr, folder.len) != 0)
                        return NULL;
                name = slice_make(path.ptr + folder.len, path.len - folder.len);
        }
        for (size_t i = 0; i < asset_table_len; i++) {
                const struct asset *a = &asset_table[i];
                /* What index.html refers to is found only from "/". */
                if (slice_eq(name, slice_str(a->name)))
                        return is_index(a) == is_root ? a : NULL;
        }
        return NULL;
}

static struct slice trim(struct slice s)
{
        while (s.len && (s.ptr[0] == ' ' || s.ptr[0] == '\t'))
                s = slice_make(s.ptr + 1, s.len - 1);
        while (s.len && (s.ptr[s.len - 1] == ' ' || s.ptr[s.len - 1] == '\t'))
                s.len--;
        return s;
}

/* Takes what stands before the first `mark` off the front. */
static struct slice take(struct slice *list, char mark)
{
        const char *at = list->len ? memchr(list->ptr, mark, list->len) : NULL;
        struct slice item = slice_make(list->ptr, at ? (size_t)(at - list->ptr) : list->len);
        *list = at ? slice_make(at + 1, list->len - item.len - 1) : SLICE_NONE;
        return trim(item);
}

/* "q=0", "q=0.", "q=0.000": not acceptable (RFC 9110 12.4.2). */
static bool is_refused(struct slice weight)
{
        if (weight.len < 3 || (weight.ptr[0] | 0x20) != 'q' || weight.ptr[1] != '=')
                return false;
        for (size_t i = 2; i < weight.len; i++)
                if (weight.ptr[i] != '0' && weight.ptr[i] != '.')
                        return false;
        return true;
}

static bool takes_gzip(struct slice accept)
{
        bool is_any = false;
        while (accept.len) {
                struct slice item = take(&accept, ',');
                struct slice coding = take(&item, ';');
                if (slice_eq_nocase(coding, SLICE_LIT("gzip")) ||
                    slice_eq_nocase(coding, SLICE_LIT("x-gzip")))
                        return !is_refused(trim(item));
                if (slice_eq(coding, SLICE_LIT("*")))
                        is_any = !is_refused(trim(item));
        }
        return is_any;
}

/* A weak comparison, as RFC 9110 13.1.2 wants it: W/ in front does not matter. */
static bool is_known(struct slice tags, struct slice tag)
{
        if (slice_eq(trim(tags), SLICE_LIT("*")))
                return true;
        while (tags.len) {
                struct slice t = take(&tags, ',');
                if (t.len > 2 && t.ptr[0] == 'W' && t.ptr[1] == '/')
                        t = slice_make(t.ptr + 2, t.len - 2);
                if (slice_eq(t, tag))
                        return true;
        }
        return false;
}

int asset_put(const struct asset *a, const struct asset_request *request, struct buf *lines,
              struct buf *body)
{
        char tag[80];
        bool is_gzip = takes_gzip(request->accept_encoding);
        (void)snprintf(tag, sizeof(tag), "\"%s%s\"", a->hash, is_gzip ? "-gzip" : "");
        buf_put_str(lines, asset_page_lines);
        buf_put_str(lines, is_index(a) ? "Cache-Control: no-cache\r\n"
                                       : "Cache-Control: max-age=" ASSET_AGE_S "\r\n");
        buf_put_str(lines, "Vary: Accept-Encoding\r\nETag: ");
        buf_put_str(lines, tag);
        buf_put_str(lines, "\r\n");
        if (is_known(request->if_none_match, slice_str(tag)))
                return 304;
        if (is_gzip) {
                buf_put_str(lines, "Content-Encoding: gzip\r\n");
                buf_put(body, a->gzip, (size_t)(a->gzip_end - a->gzip));
        } else {
                buf_put(body, a->plain, (size_t)(a->plain_end - a->plain));
        }
        return 200;
}
