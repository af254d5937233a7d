/* JSON, query and path bound to the rows of the command table: what is taken, and that each
 * refusal names what was wrong. */
#include "check.h"

#include "api/params.h"
#include "door/bind.h"

struct bound {
        struct arena arena;
        struct command cmd;
        struct problem problem;
        int r;
};

static const struct command_def *row(const char *name)
{
        const struct command_def *def = command_find(slice_str(name));
        assert_non_null(def);
        return def;
}

/* `id` is the path parameter when there is one; NULL body = none. */
static void bind(struct bound *b, const char *name, const char *id, const char *query,
                 const char *body)
{
        struct bind_path path = {SLICE_LIT("id"), slice_str(id)};
        struct bind_request request = {.path = &path,
                                       .n_path = id ? 1 : 0,
                                       .query = slice_str(query),
                                       .has_body = body != NULL,
                                       .body = slice_str(body)};
        arena_init(&b->arena, 16 * MIB);
        b->r = bind_command(row(name), &request, &b->arena, &b->cmd, &b->problem);
}

static void unbind(struct bound *b)
{
        arena_release(&b->arena);
}

static void a_job_is_read_with_its_options_and_its_exact_payload(void **state)
{
        struct bound b;

        (void)state;
        bind(&b, "ENQUEUE", NULL, NULL,
             "{ \"hook\": \"m\\u0061il\", \"args\": { \"a\" :1.0e3, \"b\":[ ] } , \"queue\":\"q\","
             "\"group\":\"g\",\"priority\":7,\"in\":5,\"timeout\":1000,\"attempts\":9}");
        assert_int_equal(b.r, OK);
        assert_int_equal(b.cmd.n_specs, 1);
        assert_false(b.cmd.is_many);
        assert_slice(b.cmd.specs[0].hook, "mail");
        assert_slice(b.cmd.specs[0].args, "{ \"a\" :1.0e3, \"b\":[ ] }");
        assert_slice(b.cmd.specs[0].queue, "q");
        assert_slice(b.cmd.specs[0].group, "g");
        assert_int_equal(b.cmd.specs[0].priority, 7);
        assert_int_equal(b.cmd.specs[0].in_ms, 5);
        assert_int_equal(b.cmd.specs[0].timeout_ms, 1000);
        assert_int_equal(b.cmd.specs[0].attempts, 9);
        unbind(&b);
}

static void an_array_is_many_jobs_each_with_its_own_options(void **state)
{
        struct bound b;

        (void)state;
        bind(&b, "ENQUEUE", NULL, NULL,
             "[{\"hook\":\"a\",\"args\":null},{\"hook\":\"b\",\"args_base64\":\"/wAB\","
             "\"priority\":3},{\"hook\":\"c\"}]");
        assert_int_equal(b.r, OK);
        assert_true(b.cmd.is_many);
        assert_int_equal(b.cmd.n_specs, 3);
        assert_slice(b.cmd.specs[0].args, "null");
        assert_int_equal(b.cmd.specs[0].priority, JOB_PRIORITY_DEFAULT);
        assert_int_equal(b.cmd.specs[1].args.len, 3);
        assert_memory_equal(b.cmd.specs[1].args.ptr, "\xff\0\1", 3);
        assert_int_equal(b.cmd.specs[1].priority, 3);
        assert_int_equal(b.cmd.specs[2].args.len, 0);
        unbind(&b);
}

static void a_payload_is_the_text_of_a_string_where_that_is_said(void **state)
{
        static const struct {
                const char *body;
                struct slice args;
        } rows[] = {
                {"{\"hook\":\"h\",\"args\":\"hello\",\"args_is_text\":true}", SLICE_LIT("hello")},
                {"{\"args_is_text\":true,\"hook\":\"h\",\"args\":\"{ \\\"a\\\":1 }\\n\"}",
                 SLICE_LIT("{ \"a\":1 }\n")},
                {"{\"hook\":\"h\",\"args\":\"\",\"\\u0061rgs_is_text\":true}", SLICE_LIT("")},
                {"{\"hook\":\"h\",\"args\":\"a\\u0000b\",\"args_is_text\":true}",
                 SLICE_LIT("a\0b")},
                {"{\"hook\":\"h\",\"args\":\"hello\",\"args_is_text\":false}",
                 SLICE_LIT("\"hello\"")},
                {"{\"hook\":\"h\",\"args\":{},\"args_is_text\":false}", SLICE_LIT("{}")},
        };
        struct bound b;

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                bind(&b, "ENQUEUE", NULL, NULL, rows[i].body);
                assert_int_equal(b.r, OK);
                assert_true(slice_eq(b.cmd.specs[0].args, rows[i].args));
                unbind(&b);
        }
        bind(&b, "ENQUEUE", NULL, NULL,
             "[{\"hook\":\"h\",\"args\":\"t\",\"args_is_text\":true},"
             "{\"hook\":\"h\",\"args\":\"t\"}]");
        assert_int_equal(b.r, OK);
        assert_slice(b.cmd.specs[0].args, "t");
        assert_slice(b.cmd.specs[1].args, "\"t\"");
        unbind(&b);
}

static void a_completion_takes_its_id_from_the_path_and_a_claim_inside(void **state)
{
        struct bound b;

        (void)state;
        bind(&b, "COMPLETE", "%31%37", NULL,
             "{\"token\":\"000102030405060708090a0b0c0d0e0f\",\"result\":[1],"
             "\"claim\":{\"worker\":\"w\",\"max\":3,\"queues\":[\"a\",\"b\"]}}");
        assert_int_equal(b.r, OK);
        assert_int_equal(b.cmd.arg[P_COMPLETE_ID].num, 17);
        assert_int_equal(b.cmd.arg[P_COMPLETE_TOKEN].token[15], 15);
        assert_slice(b.cmd.arg[P_COMPLETE_RESULT].text, "[1]");
        assert_true(b.cmd.has_claim);
        assert_slice(b.cmd.claim.worker, "w");
        assert_int_equal(b.cmd.claim.max, 3);
        assert_int_equal(b.cmd.claim.n_queues, 2);
        assert_slice(b.cmd.claim.queues[1], "b");
        unbind(&b);
}

static void a_listing_takes_its_filters_from_the_query(void **state)
{
        struct bound b;

        (void)state;
        bind(&b, "JOBS", NULL, "hook=a+b%2B&limit=5&status=in-progress", NULL);
        assert_int_equal(b.r, OK);
        assert_slice(b.cmd.arg[P_JOBS_HOOK].text, "a b+");
        assert_int_equal(b.cmd.arg[P_JOBS_LIMIT].num, 5);
        assert_true(b.cmd.arg[P_JOBS_STATUS].is_set);
        unbind(&b);
}

#define TOKEN "\"token\":\"000102030405060708090a0b0c0d0e0f\""

static void each_refusal_names_what_was_wrong(void **state)
{
        static const struct {
                const char *name, *id, *query, *body;
                int err;
                const char *mention;
        } rows[] = {
                {"ENQUEUE", NULL, NULL, "{\"hook\":\"h\",\"args\":1,\"prioriy\":1}", ERR_BADARG,
                 "'prioriy' is not known here; known are: hook, args, queue"},
                {"ENQUEUE", NULL, NULL, "{\"hook\":\"h\",\"args\":1,\"hook\":\"h\"}", ERR_BADARG,
                 "hook is given twice"},
                {"ENQUEUE", NULL, NULL, "{\"hook\":\"h\",\"args\":1,\"args_base64\":\"\"}",
                 ERR_BADARG, "args is given twice"},
                {"ENQUEUE", NULL, NULL, "{\"hook\":1,\"args\":1}", ERR_BADARG,
                 "hook must be a string, not a number"},
                {"ENQUEUE", NULL, NULL, "{\"hook\":\"h\",\"args\":1,\"priority\":1.5}", ERR_BADARG,
                 "from 0 to 255, not 1.5"},
                {"ENQUEUE", NULL, NULL, "{\"hook\":\"h\",\"args\":1,\"priority\":256}", ERR_BADARG,
                 "priority must be 0 to 255"},
                {"ENQUEUE", NULL, NULL, "{\"hook\":\"h\",\"args\":1,\"priority\":\"1\"}",
                 ERR_BADARG, "priority must be a whole number, not a string"},
                {"ENQUEUE", NULL, NULL, "{\"hook\":\"h\",\"args_base64\":\"a\"}", ERR_BADARG,
                 "args_base64 is not padded base64"},
                {"ENQUEUE", NULL, NULL, "{\"hook\":\"h\",\"args\":\"t\",\"args_is_text\":1}",
                 ERR_BADARG, "args_is_text must be true or false, not a number"},
                {"ENQUEUE", NULL, NULL, "{\"hook\":\"h\",\"args\":[],\"args_is_text\":true}",
                 ERR_BADARG, "args must be a string where args_is_text is true, not an array"},
                {"ENQUEUE", NULL, NULL,
                 "{\"hook\":\"h\",\"args_base64\":\"\",\"args_is_text\":true}", ERR_BADARG,
                 "args is missing, of which args_is_text speaks"},
                {"ENQUEUE", NULL, NULL,
                 "{\"hook\":\"h\",\"args\":\"\",\"args_is_text\":true,\"args_is_text\":false}",
                 ERR_BADARG, "args_is_text is given twice"},
                {"ENQUEUE", NULL, NULL, "{\"hook\":\"h\",\"args\":1,\"hook_is_text\":true}",
                 ERR_BADARG, "'hook_is_text' is not known here"},
                {"ENQUEUE", NULL, NULL, "{\"args\":1}", ERR_BADARG, "hook is missing"},
                {"ENQUEUE", NULL, NULL, NULL, ERR_BADARG, "hook is missing"},
                {"ENQUEUE", NULL, NULL, "{\"hook\":", ERR_SYNTAX, "offset"},
                {"ENQUEUE", NULL, NULL, "3", ERR_BADARG, "an object or an array of them"},
                {"ENQUEUE", NULL, NULL, "[]", ERR_BADARG, "1 to 10000 jobs, not 0"},
                {"ENQUEUE", NULL, NULL, "[{\"hook\":\"h\",\"args\":1},{\"args\":1}]", ERR_BADARG,
                 "job 1: hook is missing"},
                {"ENQUEUE", NULL, NULL, "[{\"hook\":\"h\",\"args\":1,\"args\":1}]", ERR_BADARG,
                 "job 0: args is given twice"},
                {"ENQUEUE", NULL, NULL, "[7]", ERR_BADARG, "job 0: a job must be an object"},
                {"ENQUEUE", NULL, "x=1", "{\"hook\":\"h\",\"args\":1}", ERR_BADARG,
                 "'x' is not known here; known are: none"},
                {"COMPLETE", "1", NULL, "[]", ERR_BADARG, "must be an object, not"},
                {"COMPLETE", "1", NULL, "{" TOKEN ",\"id\":2}", ERR_BADARG, "'id' is not known"},
                {"COMPLETE", "x", NULL, "{" TOKEN "}", ERR_BADARG, "id must be a whole number"},
                {"COMPLETE", "%zz", NULL, "{" TOKEN "}", ERR_BADARG, "percent"},
                {"COMPLETE", "1", NULL, "{" TOKEN ",\"claim\":{\"worker\":\"w\"}}", ERR_BADARG,
                 "queues is missing"},
                {"COMPLETE", "1", NULL, "{" TOKEN ",\"claim\":[]}", ERR_BADARG, "claim must be"},
                {"CLAIM", NULL, NULL, "{\"worker\":\"w\",\"queues\":[\"a\",1]}", ERR_BADARG,
                 "queues must be an array of strings, not a number"},
                {"JOBS", NULL, "limit=5&limit=6", NULL, ERR_BADARG, "limit is given twice"},
                {"JOBS", NULL, "a%2=1", NULL, ERR_BADARG, "percent"},
                {"JOBS", NULL, NULL, "{}", ERR_BADARG, "takes no body"},
        };

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                struct bound b;
                bind(&b, rows[i].name, rows[i].id, rows[i].query, rows[i].body);
                assert_int_equal(b.r, rows[i].err);
                assert_int_equal(b.problem.err, rows[i].err);
                has(b.problem.detail, rows[i].mention);
                unbind(&b);
        }
}

static void too_many_jobs_or_names_are_refused_at_their_number(void **state)
{
        struct bound b;
        struct buf body;

        (void)state;
        for (size_t n = 9999; n <= 10001; n++) {
                buf_init(&body, 0);
                for (size_t i = 0; i < n; i++)
                        buf_put_str(&body, i ? ",{\"hook\":\"h\",\"args\":1}"
                                             : "[{\"hook\":\"h\",\"args\":1}");
                buf_put_byte(&body, ']');
                bind(&b, "ENQUEUE", NULL, NULL, buf_cstr(&body));
                assert_int_equal(b.r, n <= 10000 ? OK : ERR_TOOBIG);
                unbind(&b);
                buf_release(&body);
        }
        for (size_t n = 63; n <= 65; n++) {
                buf_init(&body, 0);
                buf_put_str(&body, "{\"worker\":\"w\",\"queues\":[\"q\"");
                for (size_t i = 1; i < n; i++)
                        buf_put_str(&body, ",\"q\"");
                buf_put_str(&body, "]}");
                bind(&b, "CLAIM", NULL, NULL, buf_cstr(&body));
                assert_int_equal(b.r, n <= 64 ? OK : ERR_TOOBIG);
                unbind(&b);
                buf_release(&body);
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(a_job_is_read_with_its_options_and_its_exact_payload),
                cmocka_unit_test(an_array_is_many_jobs_each_with_its_own_options),
                cmocka_unit_test(a_payload_is_the_text_of_a_string_where_that_is_said),
                cmocka_unit_test(a_completion_takes_its_id_from_the_path_and_a_claim_inside),
                cmocka_unit_test(a_listing_takes_its_filters_from_the_query),
                cmocka_unit_test(each_refusal_names_what_was_wrong),
                cmocka_unit_test(too_many_jobs_or_names_are_refused_at_their_number),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
