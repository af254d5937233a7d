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

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(every_event_has_a_name_and_is_found_by_it),
                cmocka_unit_test(every_status_has_a_name_and_is_found_by_it),
                cmocka_unit_test(events_come_back_in_order_and_exactly),
                cmocka_unit_test(a_start_costs_the_name_and_five_bytes_a_second_after_creation),
                cmocka_unit_test(nothing_packed_is_no_event),
                cmocka_unit_test(a_cut_event_is_no_event_and_is_not_taken),
                cmocka_unit_test(an_unknown_type_ends_the_story),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
