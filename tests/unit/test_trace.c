/* core/trace.c: who is told of an attempt, under which ids, and what a worker is handed. */
#include "core/trace.h"

#include "unit/check.h"

#include <stdio.h>

#include "support/rig.h"

#define SAMPLED "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
#define SILENT  "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"

struct told {
        struct tracer tracer;
        struct attempt last;
        int n;
        char run[2 * SPAN_BYTES + 1]; /* of the last, in hex */
};

static void on_ended(void *ctx, const struct attempt *a)
{
        struct told *t = ctx;
        t->last = *a;
        t->n++;
        hex_from_bytes(a->run, SPAN_BYTES, t->run);
}

static void listen_to(struct rig *rig, struct told *told, double sample)
{
        *told = (struct told){.tracer = {.ended = on_ended, .seed = 7, .sample = sample}};
        told->tracer.ctx = told;
        core_set_tracer(rig->core, &told->tracer);
}

/* The traceparent of a claimed job, "" without one; and its token. */
static const char *claim(struct rig *rig, char *token)
{
        static char trace[TRACEPARENT_BYTES + 1];
        const char *text = rig_do(rig, "CLAIM", "w", "QUEUES", "default");
        const char *at = strstr(text, "traceparent:'");
        const char *given = strstr(text, "token:'");
        assert_non_null(given);
        (void)snprintf(token, RIG_TOKEN, "%s", given + strlen("token:'"));
        (void)snprintf(trace, sizeof(trace), "%s", at ? at + strlen("traceparent:'") : "");
        return trace;
}

static void without_a_tracer_the_trace_is_handed_on_as_it_came(void **unused)
{
        (void)unused;
        struct rig rig;
        char token[RIG_TOKEN];
        rig_init(&rig);
        rig_do(&rig, "ENQUEUE", "h", "", "TRACEPARENT", SAMPLED);
        assert_string_equal(claim(&rig, token), SAMPLED);
        rig_do(&rig, "ENQUEUE", "h", "");
        assert_string_equal(claim(&rig, token), "");
        rig_release(&rig);
}

static void each_end_of_a_sampled_job_is_told_and_others_are_not(void **unused)
{
        (void)unused;
        struct rig rig;
        struct told told;
        char token[RIG_TOKEN];
        rig_init(&rig);
        listen_to(&rig, &told, 0);
        rig_do(&rig, "ENQUEUE", "h", "", "TRACEPARENT", SILENT);
        assert_string_equal(claim(&rig, token), SILENT);
        rig_do(&rig, "COMPLETE", "1", token);
        rig_do(&rig, "ENQUEUE", "h", "");
        assert_string_equal(claim(&rig, token), "");
        rig_do(&rig, "COMPLETE", "2", token);
        assert_int_equal(told.n, 0);
        rig_do(&rig, "ENQUEUE", "h", "", "TRACEPARENT", SAMPLED, "TIMEOUT", "1000", "BACKOFF",
               "none");
        (void)claim(&rig, token);
        rig_do(&rig, "RELEASE", "3", token);
        assert_int_equal(told.last.end, ATTEMPT_RELEASED);
        assert_false(told.last.has_enqueue);
        (void)claim(&rig, token);
        rig_pass_ms(&rig, 1000);
        assert_int_equal(told.last.end, ATTEMPT_TIMED_OUT);
        assert_true(told.last.has_enqueue);
        assert_true(slice_eq(told.last.error, SLICE_LIT("timed out")));
        (void)claim(&rig, token);
        rig_do(&rig, "FAIL", "3", token, "no");
        assert_int_equal(told.last.end, ATTEMPT_FAILED);
        assert_int_equal(told.last.number, 2);
        assert_false(told.last.has_enqueue);
        (void)claim(&rig, token);
        rig_do(&rig, "CANCEL", "3");
        assert_int_equal(told.last.end, ATTEMPT_CANCELED);
        assert_int_equal(told.n, 4);
        rig_do(&rig, "ENQUEUE", "h", "", "TRACEPARENT", SAMPLED);
        rig_do(&rig, "CANCEL", "4"); /* it never ran */
        assert_int_equal(told.n, 4);
        rig_release(&rig);
}

static void the_worker_is_handed_the_run_span_that_its_end_tells_of(void **unused)
{
        (void)unused;
        struct rig rig;
        struct told told;
        char token[RIG_TOKEN], before[2 * SPAN_BYTES + 1] = "";
        rig_init(&rig);
        listen_to(&rig, &told, 0);
        rig_do(&rig, "ENQUEUE", "h", "", "TRACEPARENT", SAMPLED);
        for (int i = 0; i < 2; i++) {
                char handed[TRACEPARENT_BYTES + 1], want[TRACEPARENT_BYTES + 1];
                (void)snprintf(handed, sizeof(handed), "%s", claim(&rig, token));
                rig_restart(&rig); /* no id is in memory alone */
                core_set_tracer(rig.core, &told.tracer);
                rig_turn(&rig);
                rig_do(&rig, i ? "COMPLETE" : "RELEASE", "1", token);
                (void)snprintf(want, sizeof(want), "00-0af7651916cd43dd8448eb211c80319c-%s-01",
                               told.run);
                assert_string_equal(handed, want);
                assert_string_not_equal(told.run, before); /* though both are attempt 1 */
                (void)snprintf(before, sizeof(before), "%s", told.run);
        }
        rig_release(&rig);
}

static void times_are_in_order_and_a_wait_begins_when_the_job_is_due(void **unused)
{
        (void)unused;
        struct rig rig;
        struct told told;
        char token[RIG_TOKEN];
        rig_init(&rig);
        listen_to(&rig, &told, 1);
        rig_do(&rig, "ENQUEUE", "h", "", "IN", "5000");
        int64_t created_ms = rig.now.wall_ms;
        rig_pass_ms(&rig, 7000);
        (void)claim(&rig, token);
        rig_pass_ms(&rig, 300);
        rig_do(&rig, "COMPLETE", "1", token);
        assert_int_equal(told.last.created_ms, created_ms);
        assert_int_equal(told.last.due_ms, created_ms + 5000);
        assert_int_equal(told.last.started_ms, created_ms + 7000);
        assert_int_equal(told.last.ended_ms, created_ms + 7300);
        rig_do(&rig, "ENQUEUE", "h", "");
        (void)claim(&rig, token);
        rig.now.wall_ms -= 60000; /* the wall is set back */
        rig_do(&rig, "COMPLETE", "2", token);
        assert_int_equal(told.last.ended_ms, told.last.started_ms);
        rig_release(&rig);
}

static void a_share_of_the_jobs_without_a_trace_gets_one(void **unused)
{
        (void)unused;
        struct rig rig;
        struct told told;
        char token[RIG_TOKEN];
        rig_init(&rig);
        listen_to(&rig, &told, 0.3);
        int n_handed = 0;
        for (int i = 1; i <= 1000; i++) {
                rig_do(&rig, "ENQUEUE", "h", "");
                bool is_handed = claim(&rig, token)[0] != '\0';
                int before = told.n;
                rig_do(&rig, "COMPLETE", rig_number((uint64_t)i), token);
                assert_int_equal(told.n - before, is_handed); /* both or neither */
                n_handed += is_handed;
        }
        assert_in_range(n_handed, 240, 360); /* 4 standard deviations */
        rig_release(&rig);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(without_a_tracer_the_trace_is_handed_on_as_it_came),
                cmocka_unit_test(each_end_of_a_sampled_job_is_told_and_others_are_not),
                cmocka_unit_test(the_worker_is_handed_the_run_span_that_its_end_tells_of),
                cmocka_unit_test(times_are_in_order_and_a_wait_begins_when_the_job_is_due),
                cmocka_unit_test(a_share_of_the_jobs_without_a_trace_gets_one),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
