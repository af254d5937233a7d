/* Text and names in statements for MySQL: whatever bytes they have, they stay what they are. */
#include "check.h"

#include "sql/mysql.h"

struct sample {
        struct slice given, wanted;
};

static void expect_each(const struct sample *samples, size_t n,
                        void (*put)(struct buf *sql, struct slice given))
{
        struct buf sql = {0};
        for (size_t i = 0; i < n; i++) {
                buf_clear(&sql);
                put(&sql, samples[i].given);
                assert_int_equal(sql.len, samples[i].wanted.len);
                assert_memory_equal(sql.ptr, samples[i].wanted.ptr, sql.len);
        }
        buf_release(&sql);
}

static void text_is_quoted_and_cannot_end_early(void **unused)
{
        static const struct sample samples[] = {
                {SLICE_LIT(""), SLICE_LIT("''")},
                {SLICE_LIT("plain text"), SLICE_LIT("'plain text'")},
                {SLICE_LIT("it's"), SLICE_LIT("'it\\'s'")},
                {SLICE_LIT("\\"), SLICE_LIT("'\\\\'")},
                {SLICE_LIT("\\'; DROP TABLE t; --"), SLICE_LIT("'\\\\\\'; DROP TABLE t; --'")},
                {SLICE_LIT("\"`%_"), SLICE_LIT("'\"`%_'")},
                {SLICE_LIT("a\nb\r\tc\x1a"), SLICE_LIT("'a\nb\r\tc\x1a'")},
        };
        (void)unused;
        expect_each(samples, ARRAY_LEN(samples), mysql_put_text);
}

static void a_nul_in_text_is_written_as_an_escape(void **unused)
{
        static const struct sample samples[] = {
                {SLICE_LIT("\0"), SLICE_LIT("'\\0'")},
                {SLICE_LIT("O:8:\"\0*\0items\""), SLICE_LIT("'O:8:\"\\0*\\0items\"'")},
        };
        (void)unused;
        expect_each(samples, ARRAY_LEN(samples), mysql_put_text);
}

static void utf8_and_bytes_that_are_none_pass_unchanged(void **unused)
{
        static const struct sample samples[] = {
                {SLICE_LIT("Zürich €\xf0\x9f\x98\x80"), SLICE_LIT("'Zürich €\xf0\x9f\x98\x80'")},
                /* The second byte of a GBK character may be a backslash; in utf8mb4 it is one. */
                {SLICE_LIT("\xbf\\'"), SLICE_LIT("'\xbf\\\\\\''")},
                {SLICE_LIT("\xff\xfe"), SLICE_LIT("'\xff\xfe'")},
        };
        (void)unused;
        expect_each(samples, ARRAY_LEN(samples), mysql_put_text);
}

static void a_name_is_in_backquotes_and_those_in_it_are_doubled(void **unused)
{
        static const struct sample samples[] = {
                {SLICE_LIT("wp_options"), SLICE_LIT("`wp_options`")},
                {SLICE_LIT("a`b"), SLICE_LIT("`a``b`")},
                {SLICE_LIT("`"), SLICE_LIT("````")},
                {SLICE_LIT("it's \"a\" \\"), SLICE_LIT("`it's \"a\" \\`")},
                {SLICE_LIT("größe"), SLICE_LIT("`größe`")},
        };
        (void)unused;
        expect_each(samples, ARRAY_LEN(samples), mysql_put_name);
}

static void what_is_put_comes_after_what_was_there(void **unused)
{
        struct buf sql = {0};
        (void)unused;
        buf_put_str(&sql, "SELECT ");
        mysql_put_name(&sql, SLICE_LIT("a"));
        buf_put_str(&sql, " = ");
        mysql_put_text(&sql, SLICE_LIT("b"));
        assert_string_equal(buf_cstr(&sql), "SELECT `a` = 'b'");
        buf_release(&sql);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(text_is_quoted_and_cannot_end_early),
                cmocka_unit_test(a_nul_in_text_is_written_as_an_escape),
                cmocka_unit_test(utf8_and_bytes_that_are_none_pass_unchanged),
                cmocka_unit_test(a_name_is_in_backquotes_and_those_in_it_are_doubled),
                cmocka_unit_test(what_is_put_comes_after_what_was_there),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
