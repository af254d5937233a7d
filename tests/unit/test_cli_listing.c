/* Lists, with the server's answers lying ready in a socket. */
#include "check.h"

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "cli/listing.h"

static const struct option_def options[] = {
        {"match", "TEXT", "a text"},
        {"limit", "N", "at most N"},
        {"cursor", "CURSOR", "where to go on"},
        {"all", NULL, "all of them"},
        {NULL, NULL, NULL},
};

static void put_name(struct buf *b, const struct value *v, int64_t now_ms)
{
        assert_true(now_ms > 0);
        buf_put_slice(b, field_text(v, "name"));
}

static const struct column columns[] = {
        {"NAME", .put = put_name, .may_shrink = true},
        {"N", .key = "n", .as = AS_INT},
};

/* Rows of the server that have what is tested: pages and a text to match, and a count. */
static const struct cli_command locks = {.usage = "", .command = "LOCKS"};
static const struct cli_command events = {
        .usage = "[N]", .command = "THROTTLEHISTORY", .apart = "count before", .word = "COUNT"};

static void put_other(struct buf *notes, const struct value *page)
{
        buf_printf(notes, "and %d others\n", (int)field_int(page, "other"));
}

static const struct listing paged = {
        .key = "things",
        .empty = "no things\n",
        .columns = columns,
        .n_columns = ARRAY_LEN(columns),
};

static const struct listing whole = {
        .empty = "nothing\n",
        .columns = columns,
        .n_columns = ARRAY_LEN(columns),
};

#define THING(name, n) "%2\r\n$4\r\nname\r\n$1\r\n" name "\r\n$1\r\nn\r\n:" n "\r\n"
#define PAGE(count, things, cursor)                                                                \
        "%2\r\n$6\r\nthings\r\n*" count "\r\n" things "$6\r\ncursor\r\n" cursor "\r\n"

static const char two_pages[] =
        PAGE("2", THING("a", "1") THING("b", "20"), "$1\r\nb") PAGE("1", THING("c", "3"), "$0\r\n");

struct run {
        struct cli cli;
        struct server_url url;
        struct problem problem;
        int peer;
};

static void set_up(struct run *x, const char *answers, const char *words)
{
        static char copy[128];
        char *argv[16], *save = NULL;
        int argc = 0, fd[2];
        *x = (struct run){.cli.command = &locks};
        (void)snprintf(copy, sizeof(copy), "%s", words);
        for (char *w = strtok_r(copy, " ", &save); w; w = strtok_r(NULL, " ", &save))
                argv[argc++] = w;
        assert_int_equal(args_parse(&x->cli.args, options, argv, argc, &x->problem), OK);
        x->cli.is_json = args_has(&x->cli.args, "json");
        client_init(&x->cli.client, &x->url);
        buf_init(&x->cli.out, 0);
        buf_init(&x->cli.notes, 0);
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fd), 0);
        x->cli.client.fd = fd[0];
        x->peer = fd[1];
        assert_int_equal(write(x->peer, answers, strlen(answers)), strlen(answers));
}

static void tear_down(struct run *x)
{
        client_release(&x->cli.client);
        buf_release(&x->cli.out);
        buf_release(&x->cli.notes);
        (void)close(x->peer);
}

static void assert_asked(struct run *x, const char *commands)
{
        char got[512];
        ssize_t n = read(x->peer, got, sizeof(got) - 1);
        assert_true(n >= 0);
        got[n] = '\0';
        assert_string_equal(got, commands);
}

static void assert_printed(struct run *x, const char *out, const char *notes)
{
        assert_string_equal(buf_cstr(&x->cli.out), out);
        assert_string_equal(buf_cstr(&x->cli.notes), notes);
}

static void a_page_is_a_table_and_says_when_there_are_more(void **state)
{
        struct run x;
        (void)state;
        set_up(&x, two_pages, "--match b --limit 2");
        assert_int_equal(listing_run(&x.cli, &paged, &x.problem), OK);
        assert_printed(&x, "NAME   N\na      1\nb     20\n", "there are more: --all shows them\n");
        assert_asked(&x,
                     "*5\r\n$5\r\nLOCKS\r\n$5\r\nMATCH\r\n$1\r\nb\r\n$5\r\nLIMIT\r\n$1\r\n2\r\n");
        tear_down(&x);
}

static void all_pages_are_one_list(void **state)
{
        struct run x;
        (void)state;
        set_up(&x, two_pages, "--all");
        assert_int_equal(listing_run(&x.cli, &paged, &x.problem), OK);
        assert_printed(&x, "NAME   N\na      1\nb     20\nc      3\n", "");
        assert_asked(&x, "*1\r\n$5\r\nLOCKS\r\n"
                         "*3\r\n$5\r\nLOCKS\r\n$6\r\nCURSOR\r\n$1\r\nb\r\n");
        tear_down(&x);
        set_up(&x, two_pages, "--all --json");
        assert_int_equal(listing_run(&x.cli, &paged, &x.problem), OK);
        assert_printed(&x,
                       "{\"things\":[{\"name\":\"a\",\"n\":1},{\"name\":\"b\",\"n\":20},"
                       "{\"name\":\"c\",\"n\":3}],\"cursor\":\"\"}\n",
                       "");
        tear_down(&x);
}

static void a_listing_goes_on_at_a_cursor_and_gives_one(void **state)
{
        struct run x;
        (void)state;
        set_up(&x, two_pages, "--json --cursor A");
        assert_int_equal(listing_run(&x.cli, &paged, &x.problem), OK);
        assert_printed(&x,
                       "{\"things\":[{\"name\":\"a\",\"n\":1},{\"name\":\"b\",\"n\":20}],"
                       "\"cursor\":\"b\"}\n",
                       "");
        assert_asked(&x, "*3\r\n$5\r\nLOCKS\r\n$6\r\nCURSOR\r\n$1\r\nA\r\n");
        tear_down(&x);
}

static void half_a_list_is_not_printed(void **state)
{
        static const char answers[] = PAGE("1", THING("a", "1"), "$1\r\na") "-UNAVAIL not now\r\n";
        static const char *const words[] = {"--all", "--all --json"};
        struct run x;
        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(words); i++) {
                set_up(&x, answers, words[i]);
                assert_int_equal(listing_run(&x.cli, &paged, &x.problem), ERR_UNAVAIL);
                assert_printed(&x, "", "");
                assert_string_equal(x.problem.detail, "not now");
                tear_down(&x);
        }
}

static void nothing_is_a_note_for_people_and_an_empty_list_for_programs(void **state)
{
        struct run x;
        (void)state;
        set_up(&x, PAGE("0", "", "$0\r\n"), "");
        assert_int_equal(listing_run(&x.cli, &paged, &x.problem), OK);
        assert_printed(&x, "", "no things\n");
        tear_down(&x);
        set_up(&x, PAGE("0", "", "$0\r\n"), "--json");
        assert_int_equal(listing_run(&x.cli, &paged, &x.problem), OK);
        assert_printed(&x, "{\"things\":[],\"cursor\":\"\"}\n", "");
        tear_down(&x);
        set_up(&x, "*0\r\n", "");
        x.cli.command = &events;
        assert_int_equal(listing_run(&x.cli, &whole, &x.problem), OK);
        assert_printed(&x, "", "nothing\n");
        tear_down(&x);
}

static void a_list_without_pages_is_the_answer_itself(void **state)
{
        struct run x;
        (void)state;
        set_up(&x, "*1\r\n" THING("a", "1"), "7");
        x.cli.command = &events;
        assert_int_equal(listing_run(&x.cli, &whole, &x.problem), OK);
        assert_printed(&x, "NAME  N\na     1\n", "");
        assert_asked(&x, "*3\r\n$15\r\nTHROTTLEHISTORY\r\n$5\r\nCOUNT\r\n$1\r\n7\r\n");
        tear_down(&x);
        set_up(&x, "*1\r\n" THING("a", "1"), "--json");
        x.cli.command = &events;
        assert_int_equal(listing_run(&x.cli, &whole, &x.problem), OK);
        assert_printed(&x, "[{\"name\":\"a\",\"n\":1}]\n", "");
        assert_asked(&x, "*1\r\n$15\r\nTHROTTLEHISTORY\r\n");
        tear_down(&x);
}

static void a_change_is_told_with_its_name_made_safe(void **state)
{
        struct cli_request req;
        struct run x;
        (void)state;
        cli_request_init(&req, "UNSET");
        set_up(&x, "+OK\r\n", "a\x1b");
        assert_int_equal(cli_change(&x.cli, &req, "unset thing", &x.problem), OK);
        assert_printed(&x, "unset thing a\\x1b\n", "");
        tear_down(&x);
        set_up(&x, "+OK\r\n", "a --json");
        assert_int_equal(cli_change(&x.cli, &req, "unset thing", &x.problem), OK);
        assert_printed(&x, "\"OK\"\n", "");
        tear_down(&x);
        set_up(&x, "-NOTFOUND no such thing\r\n", "a");
        assert_int_equal(cli_change(&x.cli, &req, "unset thing", &x.problem), ERR_NOTFOUND);
        assert_printed(&x, "", "");
        tear_down(&x);
}

/* The last page counts: what is told of all of them may have changed since the first. */
static void what_a_page_tells_beside_its_rows_is_told(void **state)
{
        static const char pages[] = "%3\r\n$6\r\nthings\r\n*1\r\n" THING(
                "a", "1") "$6\r\ncursor\r\n$1\r\na\r\n$5\r\nother\r\n:6\r\n"
                          "%3\r\n$6\r\nthings\r\n*1\r\n" THING(
                                  "b", "2") "$6\r\ncursor\r\n$0\r\n\r\n$5\r\nother\r\n:7\r\n";
        struct listing told = paged;
        struct run x;
        (void)state;
        told.after = put_other;
        set_up(&x, pages, "--all --json");
        assert_int_equal(listing_run(&x.cli, &told, &x.problem), OK);
        assert_printed(&x,
                       "{\"things\":[{\"name\":\"a\",\"n\":1},{\"name\":\"b\",\"n\":2}],"
                       "\"cursor\":\"\",\"other\":7}\n",
                       "");
        tear_down(&x);
        set_up(&x, pages, "--all");
        assert_int_equal(listing_run(&x.cli, &told, &x.problem), OK);
        assert_printed(&x, "NAME  N\na     1\nb     2\n", "and 7 others\n");
        tear_down(&x);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(what_a_page_tells_beside_its_rows_is_told),
                cmocka_unit_test(a_page_is_a_table_and_says_when_there_are_more),
                cmocka_unit_test(all_pages_are_one_list),
                cmocka_unit_test(a_listing_goes_on_at_a_cursor_and_gives_one),
                cmocka_unit_test(half_a_list_is_not_printed),
                cmocka_unit_test(nothing_is_a_note_for_people_and_an_empty_list_for_programs),
                cmocka_unit_test(a_list_without_pages_is_the_answer_itself),
                cmocka_unit_test(a_change_is_told_with_its_name_made_safe),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
