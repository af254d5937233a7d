/* Answers of CHECK in words and as JSON. */
#include "check.h"

#include "cli/verdict.h"

/* verdict, reason, metric, value, threshold, age_ms, rule, wait_ms, credits, credit_ms, would,
 * target
 */
struct answer {
        const char *verdict, *reason, *metric, *value, *threshold;
        int age_ms;
        const char *rule;
        int wait_ms, credits, credit_ms;
        const char *would;
};

static struct value text(const char *s)
{
        return s ? (struct value){.type = VALUE_TEXT, .text = slice_str(s)}
                 : (struct value){.type = VALUE_NULL};
}

static struct value number(int n)
{
        return (struct value){.type = VALUE_INT, .num = n};
}

#define RECORD(a)                                                                                  \
        {                                                                                          \
                text((a)->verdict), text((a)->reason), text((a)->metric), text((a)->value),        \
                        text((a)->threshold), number((a)->age_ms), text((a)->rule),                \
                        number((a)->wait_ms), number((a)->credits), number((a)->credit_ms),        \
                        text((a)->would), text("shop")                                             \
        }

static void assert_says(const struct answer *a, const char *target, const char *sentence)
{
        struct value items[] = RECORD(a);
        struct value v = {.type = VALUE_LIST, .items = items, .n = ARRAY_LEN(items)};
        struct verdict verdict;
        struct buf b;
        buf_init(&b, 0);
        items[11] = text(target);
        assert_true(verdict_read(&v, &verdict));
        verdict_put(&b, &verdict);
        assert_string_equal(buf_cstr(&b), sentence);
        buf_release(&b);
}

static void a_refusal_names_what_speaks_against_it(void **state)
{
        (void)state;
        assert_says(&(struct answer){"refused", "threshold", "replication_lag", "12", "5", 400, "",
                                     1000, 0, 0, ""},
                    "shop", "refused: replication_lag 12 is above 5 on shop; ask again in 1 s");
        assert_says(&(struct answer){"refused", "threshold", "", NULL, NULL, -1, "", 0, 0, 0, ""},
                    "", "refused: a metric is above its threshold");
        assert_says(&(struct answer){"refused", "unknown", "replication_lag", NULL, "5", 62000, "",
                                     500, 0, 0, ""},
                    "shop",
                    "refused: replication_lag is not known on shop, it was last read 1 min 2 s "
                    "ago; ask again in 500 ms");
        assert_says(&(struct answer){"refused", "unknown", "", NULL, NULL, -1, "", 0, 0, 0, ""}, "",
                    "refused: a metric is not known, it was never read");
        assert_says(&(struct answer){"refused", "level", "threads_running", "30", "15", 10, "",
                                     60000, 0, 0, ""},
                    "shop",
                    "refused: the load level on shop makes its tier wait (threads_running 30); ask "
                    "again in 1 min");
        assert_says(&(struct answer){"refused", "level", "", NULL, NULL, -1, "", 0, 0, 0, ""}, "",
                    "refused: the load level makes its tier wait");
}

static void a_refusal_by_a_rule_names_the_rule(void **state)
{
        (void)state;
        assert_says(&(struct answer){"refused", "hold", "", NULL, NULL, -1, "share:purge", 1000, 0,
                                     0, ""},
                    "", "refused: the rule for purge holds it; ask again in 1 s");
        assert_says(&(struct answer){"refused", "ratio", "", NULL, NULL, -1, "share:daily-etl/shop",
                                     1000, 0, 0, ""},
                    "shop",
                    "refused: the rule for daily-etl on shop refuses a share of its asks; ask "
                    "again in 1 s");
        assert_says(&(struct answer){"refused", "hold", "", NULL, NULL, -1, "", 0, 0, 0, ""}, "",
                    "refused: a rule holds it");
        assert_says(&(struct answer){"refused", "paused", "", NULL, NULL, -1, "", 0, 0, 0, ""}, "",
                    "refused: an operator paused the gate");
        assert_says(
                &(struct answer){"refused", "low_priority", "", NULL, NULL, -1, "", 0, 0, 0, ""},
                "", "refused: somebody more important was refused just now");
}

static void a_reason_of_a_newer_server_is_told_as_it_is(void **state)
{
        (void)state;
        assert_says(&(struct answer){"refused", "moon\x1b[2J", "", NULL, NULL, -1, "", 0, 0, 0, ""},
                    "", "refused: moon\\x1b[2J");
        assert_says(&(struct answer){"refused", "", "", NULL, NULL, -1, "", 0, 0, 0, ""}, "",
                    "refused: no reason was given");
}

static void a_grant_tells_its_credits_and_what_enforce_would_say(void **state)
{
        (void)state;
        assert_says(&(struct answer){"granted", "granted", "replication_lag", "1", "5", 400, "", 0,
                                     0, 0, ""},
                    "shop", "granted");
        assert_says(&(struct answer){"granted", "granted", "replication_lag", "1", "5", 400, "", 0,
                                     40, 2000, ""},
                    "shop", "granted; 40 more may go without asking within 2 s");
        assert_says(&(struct answer){"granted", "granted", "replication_lag", "4", "5", 400, "",
                                     250, 0, 0, ""},
                    "shop", "granted; ask again in 250 ms");
        assert_says(&(struct answer){"granted", "exempt", "", NULL, NULL, -1, "share:b:backup", 0,
                                     0, 0, ""},
                    "", "granted: the rule for b:backup exempts it");
        assert_says(&(struct answer){"granted", "granted", "replication_lag", "12", "5", 400, "", 0,
                                     0, 0, "threshold"},
                    "shop",
                    "granted; enforce would refuse it: replication_lag 12 is above 5 on shop");
        /* By another threshold, or another metric, than those that are told. */
        assert_says(&(struct answer){"granted", "granted", "replication_lag", "4", "5", 400,
                                     "threshold:etl/shop", 0, 0, 0, "threshold"},
                    "shop",
                    "granted; the rule for etl on shop, which is tried out, would refuse it");
        assert_says(&(struct answer){"granted", "granted", "replication_lag", "4", "5", 400,
                                     "share:etl", 0, 0, 0, "hold"},
                    "shop", "granted; enforce would refuse it: the rule for etl holds it");
}

static void json_has_the_names_of_the_fields(void **state)
{
        const struct answer a = {"refused", "threshold", "lag", "1.5", "1", 10, "", 1000, 0, 0, ""};
        struct value items[] = RECORD(&a);
        struct value v = {.type = VALUE_LIST, .items = items, .n = ARRAY_LEN(items)};
        struct buf b;
        (void)state;
        buf_init(&b, 0);
        items[3] = text(NULL);
        verdict_put_json(&b, &v);
        assert_string_equal(buf_cstr(&b),
                            "{\"verdict\":\"refused\",\"reason\":\"threshold\",\"metric\":\"lag\","
                            "\"value\":null,\"threshold\":\"1\",\"age_ms\":10,\"rule\":\"\","
                            "\"wait_ms\":1000,\"credits\":0,\"credit_ms\":0,\"would\":\"\","
                            "\"target\":\"shop\"}");
        buf_release(&b);
}

static void what_is_no_answer_is_not_taken_for_one(void **state)
{
        const struct answer a = {"perhaps", "", "", NULL, NULL, 0, "", 0, 0, 0, ""};
        struct value items[] = RECORD(&a);
        struct value v = {.type = VALUE_LIST, .items = items, .n = ARRAY_LEN(items)};
        struct verdict verdict;
        (void)state;
        assert_false(verdict_read(&v, &verdict));
        items[0] = text("granted");
        assert_true(verdict_read(&v, &verdict));
        v.n--;
        assert_false(verdict_read(&v, &verdict));
        assert_false(verdict_read(&(struct value){.type = VALUE_INT}, &verdict));
        assert_false(verdict_read(NULL, &verdict));
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(a_refusal_names_what_speaks_against_it),
                cmocka_unit_test(a_refusal_by_a_rule_names_the_rule),
                cmocka_unit_test(a_reason_of_a_newer_server_is_told_as_it_is),
                cmocka_unit_test(a_grant_tells_its_credits_and_what_enforce_would_say),
                cmocka_unit_test(json_has_the_names_of_the_fields),
                cmocka_unit_test(what_is_no_answer_is_not_taken_for_one),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
