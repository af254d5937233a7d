/* wire/traceparent.c: what is a traceparent and what is not. */
#include "wire/traceparent.h"

#include "unit/check.h"

#define GOOD "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

static void a_traceparent_is_read_and_written_the_same(void **state)
{
        static const char *const good[] = {
                GOOD,
                "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00",
                "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-ff",
                "00-00000000000000000000000000000001-0000000000000001-03",
                "00-ffffffffffffffffffffffffffffffff-ffffffffffffffff-01",
        };
        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(good); i++) {
                struct traceparent t;
                char text[TRACEPARENT_BYTES];
                assert_true(traceparent_parse(slice_str(good[i]), &t));
                traceparent_text(&t, text);
                assert_memory_equal(text, good[i], sizeof(text));
        }
}

static void its_parts_are_where_they_belong(void **state)
{
        struct traceparent t;
        (void)state;
        assert_true(traceparent_parse(SLICE_LIT(GOOD), &t));
        assert_int_equal(t.trace[0], 0x0a);
        assert_int_equal(t.trace[15], 0x9c);
        assert_int_equal(t.span[0], 0xb7);
        assert_int_equal(t.span[7], 0x31);
        assert_int_equal(t.flags, TRACE_SAMPLED);
}

static void what_is_none_is_refused_and_changes_nothing(void **state)
{
        static const char *const bad[] = {
                "",
                "00",
                /* versions */
                "01-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
                "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
                /* all zeros */
                "00-00000000000000000000000000000000-b7ad6b7169203331-01",
                "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
                /* upper case, no hex */
                "00-0AF7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
                "00-0af7651916cd43dd8448eb211c80319c-B7ad6b7169203331-01",
                "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0A",
                "00-0af7651916cd43dd8448eb211c80319g-b7ad6b7169203331-01",
                "00-0af7651916cd43dd8448eb211c80319c-b7ad6b716920333 -01",
                "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0x",
                /* signs and length */
                "00_0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
                "00-0af7651916cd43dd8448eb211c80319c_b7ad6b7169203331-01",
                "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331_01",
                "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-1",
                "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-011",
                "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more",
                " 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        };
        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
                struct traceparent t = {.flags = 77};
                if (traceparent_parse(slice_str(bad[i]), &t))
                        fail_msg("taken: %s", bad[i]);
                assert_int_equal(t.flags, 77);
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(a_traceparent_is_read_and_written_the_same),
                cmocka_unit_test(its_parts_are_where_they_belong),
                cmocka_unit_test(what_is_none_is_refused_and_changes_nothing),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
