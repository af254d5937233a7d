/* Addresses: which row or page they mean, with which methods; and labels for Prometheus. */
#include "check.h"

#include "door/metrics.h"
#include "door/site.h"

static void every_address_of_the_table_is_found_with_its_parameters(void **state)
{
        struct site_match m;

        (void)state;
        assert_int_equal(site_find(SLICE_LIT("POST"), SLICE_LIT("/v1/jobs"), &m), OK);
        assert_string_equal(m.def->name, "ENQUEUE");
        assert_int_equal(m.n_path, 0);
        assert_int_equal(site_find(SLICE_LIT("GET"), SLICE_LIT("/v1/jobs"), &m), OK);
        assert_string_equal(m.def->name, "JOBS");
        assert_int_equal(site_find(SLICE_LIT("HEAD"), SLICE_LIT("/v1/jobs/17"), &m), OK);
        assert_string_equal(m.def->name, "JOB");
        assert_int_equal(m.n_path, 1);
        assert_slice(m.path[0].name, "id");
        assert_slice(m.path[0].value, "17");
        assert_int_equal(site_find(SLICE_LIT("POST"), SLICE_LIT("/v1/queues/a%2Fb/pause"), &m), OK);
        assert_string_equal(m.def->name, "PAUSE");
        assert_slice(m.path[0].value, "a%2Fb");
        for (size_t i = 0; i < command_table_len; i++) {
                const struct command_def *def = &command_table[i];
                if (!def->path)
                        continue;
                assert_int_equal(site_find(slice_str(def->method), slice_str(def->path), &m), OK);
                assert_ptr_equal(m.def, def);
        }
}

static void what_is_not_there_is_told_apart_from_what_takes_other_methods(void **state)
{
        static const struct {
                const char *method, *path;
                int r;
                const char *allow;
        } rows[] = {
                {"GET", "/", OK, "GET, HEAD, OPTIONS"},
                {"HEAD", "/metrics", OK, "GET, HEAD, OPTIONS"},
                {"GET", "/ui/app.js", OK, "GET, HEAD, OPTIONS"},
                {"POST", "/ui/app.js", ERR_METHOD, "GET, HEAD, OPTIONS"},
                {"GET", "/ui/", ERR_UNKNOWN, ""},
                {"GET", "/ui/no.js", ERR_UNKNOWN, ""},
                {"POST", "/", ERR_METHOD, "GET, HEAD, OPTIONS"},
                {"HEAD", "/v1/live", OK, "GET, HEAD, OPTIONS"},
                {"GET", "/v1/session", OK, "GET, HEAD, OPTIONS"},
                {"POST", "/login", OK, "POST, OPTIONS"},
                {"GET", "/login", ERR_METHOD, "POST, OPTIONS"},
                {"HEAD", "/logout", ERR_METHOD, "POST, OPTIONS"},
                {"POST", "/metrics", ERR_METHOD, "GET, HEAD, OPTIONS"},
                {"PUT", "/v1/jobs", ERR_METHOD, "POST, GET, HEAD, OPTIONS"},
                {"OPTIONS", "/v1/jobs/1", ERR_METHOD, "GET, HEAD, DELETE, OPTIONS"},
                {"get", "/", ERR_METHOD, "GET, HEAD, OPTIONS"},
                {"GET", "", ERR_UNKNOWN, ""},
                {"GET", "*", ERR_UNKNOWN, ""},
                {"GET", "/v1", ERR_UNKNOWN, ""},
                {"GET", "/v1/", ERR_UNKNOWN, ""},
                {"GET", "/v1/jobs/", ERR_UNKNOWN, ""},
                {"GET", "/v1/jobs//events", ERR_UNKNOWN, ""},
                {"GET", "/v1/jobs/1/events/", ERR_UNKNOWN, ""},
                {"GET", "/v1/jobs/1/2/events", ERR_UNKNOWN, ""},
                {"GET", "//v1/jobs", ERR_UNKNOWN, ""},
                {"GET", "/V1/jobs", ERR_UNKNOWN, ""},
        };

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                struct site_match m;
                assert_int_equal(site_find(slice_str(rows[i].method), slice_str(rows[i].path), &m),
                                 rows[i].r);
                assert_string_equal(m.allow, rows[i].allow);
        }
}

static void labels_are_escaped(void **state)
{
        struct buf b;

        (void)state;
        buf_init(&b, 0);
        metrics_put_label(&b, SLICE_LIT("a\"b\\c\nd{}"));
        assert_slice(buf_slice(&b), "a\\\"b\\\\c\\nd{}");
        buf_release(&b);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(every_address_of_the_table_is_found_with_its_parameters),
                cmocka_unit_test(what_is_not_there_is_told_apart_from_what_takes_other_methods),
                cmocka_unit_test(labels_are_escaped),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
