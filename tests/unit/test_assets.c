/* The files of the page: found by their paths and by nothing else, in the form that was asked for.
 */
#include "check.h"

#include <stdio.h>

#include "door/assets.h"

/* The CRC of gzip, bit by bit: by other code than what made the file. */
static uint32_t crc32_of(const char *bytes, size_t n)
{
        uint32_t crc = 0xffffffff;
        for (size_t i = 0; i < n; i++) {
                crc ^= (uint8_t)bytes[i];
                for (int k = 0; k < 8; k++)
                        crc = crc >> 1 ^ (crc & 1 ? 0xedb88320 : 0);
        }
        return ~crc;
}

static uint32_t little_endian(const char *at)
{
        const uint8_t *b = (const uint8_t *)at;
        return (uint32_t)b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
}

static void the_gzipped_form_holds_the_same_file(void **state)
{
        (void)state;
        assert_true(asset_table_len > 3);
        for (size_t i = 0; i < asset_table_len; i++) {
                const struct asset *a = &asset_table[i];
                size_t plain = (size_t)(a->plain_end - a->plain);
                assert_true(plain > 0 && a->gzip_end - a->gzip > 18);
                assert_memory_equal(a->gzip, "\x1f\x8b\x08\x00\0\0\0\0", 8); /* no name, no time */
                assert_int_equal(little_endian(a->gzip_end - 8), crc32_of(a->plain, plain));
                assert_int_equal(little_endian(a->gzip_end - 4), plain);
        }
}

static void a_file_is_found_by_its_path_and_by_no_other(void **state)
{
        static const char *const nowhere[] = {
                "",
                "*",
                "//",
                "/ui",
                "/ui/",
                "/ui//app.js",
                "/ui/app.js/",
                "/ui/APP.JS",
                "/ui/app",
                "/ui/app.jsx",
                "/ui/index.html",
                "/index.html",
                "/app.js",
                "/ui/../ui/app.js",
                "/ui/%61pp.js",
                "/ui/..%2f..%2fetc/passwd",
                "/ui/../../../../etc/passwd",
                "/ui/README.md",
                "/ui/app.js.gz",
                "ui/app.js",
        };

        (void)state;
        assert_string_equal(asset_find(SLICE_LIT("/"))->name, "index.html");
        assert_string_equal(asset_find(SLICE_LIT("/ui/app.js"))->name, "app.js");
        for (size_t i = 0; i < ARRAY_LEN(nowhere); i++)
                assert_null(asset_find(slice_str(nowhere[i])));
        assert_null(asset_find(SLICE_LIT("/ui/app.js\0")));
}

static const char *type_of(const char *path)
{
        return asset_find(slice_str(path))->type;
}

static void a_file_has_the_type_of_its_kind(void **state)
{
        (void)state;
        assert_string_equal(type_of("/"), "text/html; charset=utf-8");
        assert_string_equal(type_of("/ui/app.js"), "text/javascript; charset=utf-8");
        assert_string_equal(type_of("/ui/style.css"), "text/css; charset=utf-8");
        assert_string_equal(type_of("/ui/icon.svg"), "image/svg+xml");
}

struct answer {
        int status;
        struct buf lines, body;
};

static struct answer ask(const char *path, const char *accept, const char *tags)
{
        struct asset_request request = {slice_str(accept), slice_str(tags)};
        struct answer a;
        buf_init(&a.lines, 0);
        buf_init(&a.body, 0);
        a.status = asset_put(asset_find(slice_str(path)), &request, &a.lines, &a.body);
        return a;
}

static void done(struct answer *a)
{
        buf_release(&a->lines);
        buf_release(&a->body);
}

static bool says(struct answer *a, const char *line)
{
        return strstr(buf_cstr(&a->lines), line) != NULL;
}

static void gzip_is_sent_to_those_who_take_it_and_to_nobody_else(void **state)
{
        static const struct {
                const char *accept;
                bool is_gzip;
        } rows[] = {
                {"", false},
                {"gzip", true},
                {"GZip", true},
                {"x-gzip", true},
                {"gzip, deflate, br, zstd", true},
                {"deflate,\tgzip;q=0.5", true},
                {"br;q=1.0, gzip ; q=0.8, *;q=0.1", true},
                {"gzip;q=0", false},
                {"gzip;q=0.000", false},
                {"gzip; Q=0.001", true},
                {"*", true},
                {"*;q=0", false},
                {"gzip;q=0, *", false},
                {"*, gzip;q=0", false},
                {"identity", false},
                {"gzipped", false},
                {"deflate;gzip", false},
                {",,;,", false},
        };

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                struct answer a = ask("/ui/app.js", rows[i].accept, "");
                assert_int_equal(a.status, 200);
                if (says(&a, "Content-Encoding: gzip\r\n") != rows[i].is_gzip)
                        fail_msg("'%s'", rows[i].accept);
                assert_true(says(&a, "Vary: Accept-Encoding\r\n"));
                assert_true((memcmp(a.body.ptr, "\x1f\x8b", 2) == 0) == rows[i].is_gzip);
                done(&a);
        }
}

static void a_form_that_is_known_is_not_sent_again(void **state)
{
        const struct asset *app = asset_find(SLICE_LIT("/ui/app.js"));
        char plain[80], gzip[80], list[240], weak[96];
        (void)snprintf(plain, sizeof(plain), "\"%s\"", app->hash);
        (void)snprintf(gzip, sizeof(gzip), "\"%s-gzip\"", app->hash);
        (void)snprintf(list, sizeof(list), "\"other\" , %s,\"more\"", plain);
        (void)snprintf(weak, sizeof(weak), "W/%s", plain);
        const struct {
                const char *accept, *tags;
                int status;
        } rows[] = {
                {"", plain, 304},       {"", list, 304},      {"", weak, 304}, {"", "*", 304},
                {"gzip", gzip, 304},    {"gzip", plain, 200}, {"", gzip, 200}, {"", "", 200},
                {"", "\"other\"", 200}, {"", app->hash, 200}, {"", "W/", 200}, {"", ", ,", 200},
        };

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                struct answer a = ask("/ui/app.js", rows[i].accept, rows[i].tags);
                if (a.status != rows[i].status)
                        fail_msg("'%s' and '%s': %d", rows[i].accept, rows[i].tags, a.status);
                assert_true((a.body.len == 0) == (a.status == 304));
                assert_true(says(&a, "\r\nETag: \""));
                assert_true(says(&a, "Cache-Control: max-age="));
                done(&a);
        }
}

static void every_file_carries_the_policy_and_the_page_is_always_asked_for(void **state)
{
        static const char *const lines[] = {
                "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
                "connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'"
                "\r\n",
                "X-Frame-Options: DENY\r\n",
                "X-Content-Type-Options: nosniff\r\n",
                "Referrer-Policy: no-referrer\r\n",
        };

        (void)state;
        for (size_t i = 0; i < asset_table_len; i++) {
                char path[96] = "/";
                if (strcmp(asset_table[i].name, "index.html") != 0)
                        (void)snprintf(path, sizeof(path), "/ui/%s", asset_table[i].name);
                struct answer a = ask(path, "", "");
                for (size_t k = 0; k < ARRAY_LEN(lines); k++)
                        assert_true(says(&a, lines[k]));
                assert_true(says(&a, "Cache-Control: no-cache\r\n") == (strlen(path) == 1));
                done(&a);
        }
}

/* What the policy would not let run, and what would break behind a proxy with a path of its own. */
static void the_page_has_nothing_inline_and_no_absolute_address(void **state)
{
        const struct asset *a = asset_find(SLICE_LIT("/"));
        struct buf b;

        (void)state;
        buf_init(&b, 0);
        buf_put(&b, a->plain, (size_t)(a->plain_end - a->plain));
        const char *text = buf_cstr(&b);
        assert_null(strstr(text, "<style"));
        assert_null(strstr(text, " style="));
        assert_null(strstr(text, "<script>"));
        assert_null(strstr(text, " onclick="));
        assert_null(strstr(text, "=\"/"));
        assert_null(strstr(text, "://"));
        buf_release(&b);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(the_gzipped_form_holds_the_same_file),
                cmocka_unit_test(a_file_is_found_by_its_path_and_by_no_other),
                cmocka_unit_test(a_file_has_the_type_of_its_kind),
                cmocka_unit_test(gzip_is_sent_to_those_who_take_it_and_to_nobody_else),
                cmocka_unit_test(a_form_that_is_known_is_not_sent_again),
                cmocka_unit_test(every_file_carries_the_policy_and_the_page_is_always_asked_for),
                cmocka_unit_test(the_page_has_nothing_inline_and_no_absolute_address),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
