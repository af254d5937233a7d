/* Events and statuses: names, the packed form, and bytes that are no event. */
#include "check.h"

#include "base/buf.h"
#include "state/event.h"
#include "state/job_view.h"

#define CREATED 1790000000000

static void every_event_has_a_name_and_is_found_by_it(void **state)
{
        (void)state;
        for (int i = 0; i < EVENT_COUNT; i++) {
                struct slice name = slice_str(event_name((enum event_type)i));
                assert_true(name.len > 0);
                assert_int_equal(event_from_name(name), i);
        }
        assert_slice(slice_str(event_name(EVENT_TIMED_OUT)), "timed out");
        assert_int_equal(event_from_name(SLICE_LIT("Started")), -1);
        assert_int_equal(event_from_name(SLICE_LIT("start")), -1);
        assert_int_equal(event_from_name(SLICE_NONE), -1);
}

static void every_status_has_a_name_and_is_found_by_it(void **state)
{
        (void)state;
        for (int i = 0; i < JOB_STATUS_COUNT; i++)
                assert_int_equal(
                        job_status_from_name(slice_str(job_status_name((enum job_status)i))), i);
        assert_slice(slice_str(job_status_name(JOB_RUNNING)), "in-progress");
        assert_int_equal(job_status_from_name(SLICE_LIT("running")), -1);
        assert_int_equal(job_status_from_name(SLICE_NONE), -1);
}

static void assert_event(const struct event *got, const struct event *want)
{
        assert_int_equal(got->type, want->type);
        assert_int_equal(got->wall_ms, want->wall_ms);
        assert_true(slice_eq(got->worker, want->worker));
        assert_true(slice_eq(got->message, want->message));
}

static void events_come_back_in_order_and_exactly(void **state)
{
        const struct event events[] = {
                {EVENT_STARTED, CREATED + 120, SLICE_LIT("w1"), SLICE_NONE},
                {EVENT_RELEASED, CREATED - 5, SLICE_LIT("w1"), SLICE_LIT("clock set back")},
                {EVENT_STARTED, CREATED, SLICE_LIT("w2"), SLICE_NONE},
                {EVENT_FAILED, CREATED + 1, SLICE_LIT("w2"), SLICE_LIT("\0\xff\xfe\"\n")},
                {EVENT_RETRIED, INT64_MAX, SLICE_NONE, SLICE_NONE},
                {EVENT_CANCELED, INT64_MIN, SLICE_NONE, SLICE_LIT("x")},
                {EVENT_CREATED, 0, SLICE_NONE, SLICE_NONE},
        };
        const int64_t creations[] = {CREATED, 0, -1, INT64_MAX, INT64_MIN};
        (void)state;
        for (size_t c = 0; c < ARRAY_LEN(creations); c++) {
                struct buf b;
                struct event e;
                buf_init(&b, 0);
                for (size_t i = 0; i < ARRAY_LEN(events); i++)
                        event_pack(&b, &events[i], creations[c]);
                struct slice rest = buf_slice(&b);
                assert_int_equal(event_count(rest), ARRAY_LEN(events));
                for (size_t i = 0; i < ARRAY_LEN(events); i++) {
                        assert_true(event_next(&rest, creations[c], &e));
                        assert_event(&e, &events[i]);
                }
                assert_false(event_next(&rest, creations[c], &e));
                buf_release(&b);
        }
}

static void a_start_costs_the_name_and_five_bytes_a_second_after_creation(void **state)
{
        struct event e = {EVENT_STARTED, CREATED + 1000, SLICE_LIT("worker-7"), SLICE_NONE};
        struct buf b;
        (void)state;
        buf_init(&b, 0);
        event_pack(&b, &e, CREATED);
        assert_int_equal(b.len, 8 + 5);
        buf_release(&b);
}

static void nothing_packed_is_no_event(void **state)
{
        struct slice rest = SLICE_NONE;
        struct event e;
        (void)state;
        assert_false(event_next(&rest, CREATED, &e));
        assert_int_equal(event_count(SLICE_NONE), 0);
}

static void a_cut_event_is_no_event_and_is_not_taken(void **state)
{
        struct event e = {EVENT_FAILED, CREATED + 70000, SLICE_LIT("w1"), SLICE_LIT("no route")};
        struct buf b;
        (void)state;
        buf_init(&b, 0);
        event_pack(&b, &e, CREATED);
        for (size_t n = 0; n < b.len; n++) {
                /* A copy of just these bytes, so that a read past them is seen. */
                char *cut = malloc(n + 1);
                assert_non_null(cut);
                memcpy(cut, b.ptr, n);
                char *exact = realloc(cut, n ? n : 1);
                assert_non_null(exact);
                struct slice rest = slice_make(exact, n);
                assert_false(event_next(&rest, CREATED, &e));
                assert_int_equal(rest.len, n);
                assert_int_equal(event_count(rest), 0);
                free(exact);
        }
        buf_release(&b);
}

static void an_unknown_type_ends_the_story(void **state)
{
        struct event e = {EVENT_STARTED, CREATED, SLICE_NONE, SLICE_NONE};
        struct buf b;
        (void)state;
        buf_init(&b, 0);
        event_pack(&b, &e, CREATED);
        event_pack(&b, &e, CREATED);
        b.ptr[b.len / 2] = (char)EVENT_COUNT;
        assert_int_equal(event_count(buf_slice(&b)), 1);
        b.ptr[b.len / 2] = (char)(EVENT_COUNT - 1);
        assert_int_equal(event_count(buf_slice(&b)), 2);
        buf_release(&b);
}

/* What is skipped is what event_pack() writes, to the last byte. */
static void an_event_is_skipped_only_when_it_is_exactly_that(void **state)
{
        const struct event events[] = {
                {EVENT_STARTED, CREATED + 120, SLICE_LIT("w1"), SLICE_NONE},
                {EVENT_FAILED, CREATED - 70000, SLICE_LIT("w\xff"), SLICE_LIT("no route")},
                {EVENT_CANCELED, INT64_MIN, SLICE_NONE, SLICE_NONE},
        };
        char message[200] = {0};
        struct event long_one = {EVENT_RELEASED, CREATED, SLICE_NONE, slice_make(message, 200)};
        (void)state;
        for (size_t i = 0; i <= ARRAY_LEN(events); i++) {
                const struct event *e = i < ARRAY_LEN(events) ? &events[i] : &long_one;
                struct buf b;
                buf_init(&b, 0);
                event_pack(&b, e, CREATED);
                for (size_t n = 0; n <= b.len; n++) {
                        struct slice rest = slice_make(b.ptr, n);
                        assert_int_equal(event_skip(&rest, e, CREATED), n == b.len);
                }
                for (size_t at = 0; at < b.len; at++) {
                        struct slice rest = buf_slice(&b);
                        b.ptr[at]++;
                        assert_false(event_skip(&rest, e, CREATED));
                        b.ptr[at]--;
                }
                buf_put_str(&b, "more");
                struct slice rest = buf_slice(&b);
                assert_true(event_skip(&rest, e, CREATED));
                assert_slice(rest, "more");
                buf_release(&b);
        }
        /* A varint that is longer than it must be says the same, in other bytes. */
        struct slice rest = SLICE_LIT("\x06\x80\x00\x00\x00");
        struct event canceled = {EVENT_CANCELED, CREATED, SLICE_NONE, SLICE_NONE};
        assert_false(event_skip(&rest, &canceled, CREATED));
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(every_event_has_a_name_and_is_found_by_it),
                cmocka_unit_test(every_status_has_a_name_and_is_found_by_it),
                cmocka_unit_test(an_event_is_skipped_only_when_it_is_exactly_that),
                cmocka_unit_test(events_come_back_in_order_and_exactly),
                cmocka_unit_test(a_start_costs_the_name_and_five_bytes_a_second_after_creation),
                cmocka_unit_test(nothing_packed_is_no_event),
                cmocka_unit_test(a_cut_event_is_no_event_and_is_not_taken),
                cmocka_unit_test(an_unknown_type_ends_the_story),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
