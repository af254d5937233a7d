/* The client's half of RESP: replies in any number of pieces, good and bad. */
#include "check.h"

#include "wire/resp_reply.h"

/* Every type, nested, as one reply. */
static const char everything[] = "%4\r\n$1\r\na\r\n*6\r\n:-42\r\n+OK\r\n$-1\r\n_\r\n#t\r\n,1.5\r\n"
                                 "$1\r\nb\r\n$4\r\n\r\n\r\n\r\n$1\r\nc\r\n*0\r\n"
                                 "+d\r\n=7\r\ntxt:abc\r\n";

static struct value *parse(struct arena *a, struct slice in)
{
        struct value *v = NULL;
        return value_parse(in, a, &v) == OK ? v : NULL;
}

static void a_reply_is_found_and_built_whole(void **state)
{
        struct arena a;
        struct value_scan scan;
        struct slice in = slice_make(everything, sizeof(everything) - 1);
        (void)state;
        arena_init(&a, MIB);
        value_scan_init(&scan);
        assert_int_equal(value_scan(&scan, in), 1);
        assert_int_equal(scan.at, in.len);
        const struct value *v = parse(&a, in);
        assert_non_null(v);
        assert_int_equal(v->type, VALUE_MAP);
        assert_int_equal(v->n, 8);
        const struct value *list = value_get(v, "a");
        assert_int_equal(list->n, 6);
        assert_int_equal(value_int(&list->items[0], 0), -42);
        assert_true(slice_eq(value_text(&list->items[1]), SLICE_LIT("OK")));
        assert_int_equal(list->items[2].type, VALUE_NULL);
        assert_int_equal(list->items[3].type, VALUE_NULL);
        assert_int_equal(list->items[4].num, 1);
        assert_true(slice_eq(value_text(value_get(v, "b")), SLICE_LIT("\r\n\r\n")));
        assert_int_equal(value_get(v, "c")->n, 0);
        assert_true(slice_eq(value_text(value_get(v, "d")), SLICE_LIT("abc")));
        assert_null(value_get(v, "e"));
        arena_release(&a);
}

static void pieces_of_any_size_give_the_same_end(void **state)
{
        struct slice in = slice_make(everything, sizeof(everything) - 1);
        (void)state;
        for (size_t step = 1; step <= in.len; step++) {
                struct value_scan scan;
                value_scan_init(&scan);
                for (size_t have = step; have < in.len; have += step)
                        assert_int_equal(value_scan(&scan, slice_make(in.ptr, have)), 0);
                assert_int_equal(value_scan(&scan, in), 1);
                assert_int_equal(scan.at, in.len);
        }
}

static void what_follows_a_reply_is_left_alone(void **state)
{
        struct value_scan scan;
        (void)state;
        value_scan_init(&scan);
        assert_int_equal(value_scan(&scan, SLICE_LIT("+OK\r\n+NEXT\r\n")), 1);
        assert_int_equal(scan.at, 5);
}

static void what_is_no_resp_is_refused(void **state)
{
#define FOUR "*1\r\n*1\r\n*1\r\n*1\r\n"
        static const char nested[] = FOUR FOUR FOUR FOUR FOUR;
        static const char *const bad[] = {
                "HTTP/1.1 400 Bad Request\r\n",
                "\r\n",
                "$5\r\nabcdefg\r\n",
                "$x\r\n",
                "$-2\r\n",
                "*99999999999\r\n",
                "+OK\rX",
                ">1\r\n+push\r\n",
                nested,
        };
        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
                struct value_scan scan;
                value_scan_init(&scan);
                assert_int_equal(value_scan(&scan, slice_str(bad[i])), ERR_SYNTAX);
        }
}

static void bad_values_inside_good_frames_are_refused(void **state)
{
        static const char *const bad[] = {":x\r\n", "#y\r\n", "_x\r\n", "=2\r\nab\r\n",
                                          "=4\r\nabcd\r\n"};
        struct arena a;
        (void)state;
        arena_init(&a, MIB);
        for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
                struct value_scan scan;
                value_scan_init(&scan);
                assert_int_equal(value_scan(&scan, slice_str(bad[i])), 1);
                assert_null(parse(&a, slice_str(bad[i])));
        }
        arena_release(&a);
}

static void a_reply_larger_than_the_arena_is_refused(void **state)
{
        struct arena a;
        struct value *v = NULL;
        struct buf b;
        (void)state;
        arena_init(&a, 8 * KIB);
        buf_init(&b, 0);
        buf_put_str(&b, "*1000\r\n");
        for (int i = 0; i < 1000; i++)
                buf_put_str(&b, "_\r\n");
        assert_int_equal(value_parse(buf_slice(&b), &a, &v), ERR_NOMEM);
        buf_release(&b);
        arena_release(&a);
}

static void errors_keep_code_and_sentence(void **state)
{
        struct problem p;
        struct value v = {.type = VALUE_ERROR, .text = SLICE_LIT("NOTFOUND there is no job 17")};
        (void)state;
        assert_int_equal(value_problem(&v, &p), ERR_NOTFOUND);
        assert_string_equal(p.detail, "there is no job 17");
        v.text = SLICE_LIT("ERR unknown command 'JOB'");
        assert_int_equal(value_problem(&v, &p), ERR_INTERNAL);
        assert_string_equal(p.detail, "ERR unknown command 'JOB'");
        v.text = SLICE_LIT("NOAUTH");
        assert_int_equal(value_problem(&v, &p), ERR_NOAUTH);
        assert_string_equal(p.detail, err_text(ERR_NOAUTH));
        v.text = SLICE_NONE;
        assert_int_equal(value_problem(&v, &p), ERR_INTERNAL);
}

static void a_command_is_an_array_of_bulks(void **state)
{
        const struct slice argv[] = {SLICE_LIT("PING"), SLICE_LIT(""), SLICE_LIT("a\r\nb")};
        struct buf b;
        (void)state;
        buf_init(&b, 0);
        value_put_command(&b, argv, 3);
        assert_string_equal(buf_cstr(&b), "*3\r\n$4\r\nPING\r\n$0\r\n\r\n$4\r\na\r\nb\r\n");
        buf_release(&b);
}

static void numbers_are_read_from_ints_and_digits(void **state)
{
        struct value v = {.type = VALUE_INT, .num = 7};
        (void)state;
        assert_int_equal(value_int(&v, 1), 7);
        v = (struct value){.type = VALUE_TEXT, .text = SLICE_LIT("12")};
        assert_int_equal(value_int(&v, 1), 12);
        v.text = SLICE_LIT("x");
        assert_int_equal(value_int(&v, 1), 1);
        assert_int_equal(value_int(NULL, 5), 5);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(a_reply_is_found_and_built_whole),
                cmocka_unit_test(pieces_of_any_size_give_the_same_end),
                cmocka_unit_test(what_follows_a_reply_is_left_alone),
                cmocka_unit_test(what_is_no_resp_is_refused),
                cmocka_unit_test(bad_values_inside_good_frames_are_refused),
                cmocka_unit_test(a_reply_larger_than_the_arena_is_refused),
                cmocka_unit_test(errors_keep_code_and_sentence),
                cmocka_unit_test(a_command_is_an_array_of_bulks),
                cmocka_unit_test(numbers_are_read_from_ints_and_digits),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
