/* The bodies of named things have the bytes they always had: a log of any age must be readable. */
#include "check.h"

#include "state/batch.h"
#include "state/last_level.h"
#include "state/lock.h"
#include "state/rule.h"
#include "state/rulelog.h"
#include "state/schedule.h"

static void assert_hex(struct buf *b, const char *expected)
{
        char hex[512];
        assert_true(2 * b->len < sizeof(hex));
        hex_from_bytes((const uint8_t *)b->ptr, b->len, hex);
        hex[2 * b->len] = '\0';
        assert_string_equal(hex, expected);
        buf_clear(b);
}

/* The kind takes the body, and writes the same one again. */
static void assert_kept(enum thing_kind kind, const char *name, struct slice body)
{
        struct state s;
        struct buf again CLEANUP(buf_release) = {0};
        state_init(&s, 1, thing_kinds);
        struct thing *t = thing_get(&s, kind, slice_str(name));
        assert_true(thing_kinds[kind]->set(&s, t, body));
        thing_kinds[kind]->put(t, &again);
        assert_true(slice_eq(buf_slice(&again), body));
        state_release(&s);
}

static void a_lock_has_the_bytes_it_always_had(void **unused)
{
        (void)unused;
        struct buf b CLEANUP(buf_release) = {0};
        struct lock_holder holders[] = {
                {.token = "0123456789abcde",
                 .fence = 300,
                 .since_ns = 1,
                 .deadline_ns = 1LL << 40,
                 .ttl_ms = 70000,
                 .owner = slice_str("me")},
                {.fence = 1ULL << 50},
        };
        lock_put_set(&b, 3, holders, ARRAY_LEN(holders));
        assert_kept(THING_LOCK, "l", buf_slice(&b));
        assert_hex(&b, "030230313233343536373839616263646500ac0201808080808020f0a204026d"
                       "6500000000000000000000000000000000808080808080800200000000");
        lock_put_take(&b, &holders[0]);
        assert_hex(&b, "5430313233343536373839616263646500ac0201808080808020f0a204026d65");
        lock_put_renew(&b, &holders[0]);
        assert_hex(&b, "52ac02808080808020f0a204");
        lock_put_drop(&b, 300);
        assert_hex(&b, "44ac02");
}

static void a_rule_and_its_history_have_the_bytes_they_always_had(void **unused)
{
        (void)unused;
        struct buf b CLEANUP(buf_release) = {0};
        const struct rule_values v = {.kind = RULE_RATIO,
                                      .mode = 3,
                                      .flags = RULE_ENDS_ITSELF,
                                      .ratio_ppm = 250000,
                                      .until_ns = 1LL << 41,
                                      .set_ms = 1700000000123,
                                      .author = slice_str("ann"),
                                      .reason = slice_str("storm"),
                                      .address = slice_str("::1"),
                                      .list = slice_str("a,b")};
        const struct rulelog_entry e = {.at_ms = 1700000000456,
                                        .action = RULELOG_OVER_BUDGET,
                                        .name = slice_str("share:etl"),
                                        .author = slice_str("ann"),
                                        .address = slice_str("::1"),
                                        .text = slice_str("why")};
        rule_put(&v, &b);
        assert_kept(THING_RULE, "share:etl/shop", buf_slice(&b));
        assert_hex(&b, "01010301808080808040fbd095ffbc3190a10f03616e6e0573746f726d033a3a"
                       "3103612c62");
        rulelog_put_first(&e, &b);
        assert_kept(THING_RULELOG, RULELOG_NAME, buf_slice(&b));
        assert_hex(&b, "00c8d395ffbc31030973686172653a65746c03616e6e033a3a3103776879");
}

static void a_level_has_the_bytes_it_always_had(void **unused)
{
        (void)unused;
        struct buf b CLEANUP(buf_release) = {0};
        const struct last_level_values v = {.level = 2,
                                            .at_ms = 1700000000123,
                                            .value = 12.5,
                                            .threshold = -3,
                                            .metric = slice_str("lag")};
        last_level_put(&v, &b);
        assert_kept(THING_LAST_LEVEL, "shop", buf_slice(&b));
        assert_hex(&b, "0102fbd095ffbc31000000000000294000000000000008c0036c6167");
}

static void a_schedule_has_the_bytes_it_always_had(void **unused)
{
        (void)unused;
        struct buf b CLEANUP(buf_release) = {0};
        const struct schedule_def def = {.every_ms = 60000,
                                         .first_ms = 1700000000000,
                                         .until_ms = 1800000000000,
                                         .is_first_given = true,
                                         .jitter_ms = 5,
                                         .window_ms = 6,
                                         .stop_after = 7,
                                         .missed = MISSED_ALL,
                                         .overlap = OVERLAP_CANCEL,
                                         .priority = 200,
                                         .attempts = 300,
                                         .timeout_ms = 86400000,
                                         .expires_in = 9,
                                         .hook = slice_str("hook"),
                                         .args = slice_str("args"),
                                         .queue = slice_str("queue"),
                                         .group = slice_str("group"),
                                         .options = {.key = slice_str("k"), .key_max = 2}};
        const struct schedule_past past = {.status = SCHEDULE_PAUSED,
                                           .cursor_ms = 1700000060000,
                                           .last_slot_ms = 1700000060000,
                                           .last_job = 500,
                                           .since_id = 400,
                                           .failures = 3,
                                           .stop_job = 499,
                                           .n_jobs = 1000,
                                           .n_missed = 11,
                                           .n_overlapped = 12};
        schedule_put(&def, &past, &b);
        assert_kept(THING_SCHEDULE, "s", buf_slice(&b));
        assert_hex(&b, "0101e0a499ffbc31e0a499ffbc31f403900303f303e8070b0c010203c8e0d403"
                       "80d095ffbc3180a0f1c2b134050607ac0280b8992909000004686f6f6b057175"
                       "6575650567726f75700505016b06020461726773");
        schedule_put_pass(&b, 1700000060000, 2, 3);
        assert_hex(&b, "01e0a499ffbc310203");
        schedule_put_end(&b, 4, 5);
        assert_hex(&b, "020405");
}

static void a_batch_has_the_bytes_it_always_had(void **unused)
{
        (void)unused;
        struct buf b CLEANUP(buf_release) = {0};
        const struct batch_terms terms = {
                .first_id = 500,
                .created_ms = 1700000000123,
                .title = slice_str("title"),
                .queue = slice_str("queue"),
                .priority = 200,
                .callbacks = {{slice_str("ok"), slice_str("1"), slice_str("s")},
                              {slice_str("done"), slice_str("2"), SLICE_NONE}}};
        const struct batch_past past = {.complete = 300, .failed = 2, .canceled = 1};
        batch_put_new(&b, &terms, &past);
        assert_kept(THING_BATCH, "b", buf_slice(&b));
        assert_hex(&b, "00af02ac02020100000000f403fbd095ffbc31057469746c65057175657565c8"
                       "026f6b0131017304646f6e65013200");
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(a_lock_has_the_bytes_it_always_had),
                cmocka_unit_test(a_rule_and_its_history_have_the_bytes_they_always_had),
                cmocka_unit_test(a_level_has_the_bytes_it_always_had),
                cmocka_unit_test(a_schedule_has_the_bytes_it_always_had),
                cmocka_unit_test(a_batch_has_the_bytes_it_always_had),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
