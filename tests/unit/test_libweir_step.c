/* The client library over time: outages and their end, steps, credits, signals, forks. */
#include "fake_weir.h"

#include <sys/time.h>

/* ---- outages ------------------------------------------------------------------------------- */

static void a_dead_daemon_costs_one_attempt_per_pause(void **state)
{
        struct fake f;
        (void)state;

        fake_init(&f);
        struct weir *w = handle(&f, WEIR_OPEN);
        assert_int_equal(weir_set(w, WEIR_SET_BACKOFF_MAX_MS, 600000), WEIR_OK);
        assert_int_equal(weir_set(w, WEIR_SET_BACKOFF_MS, 600000), WEIR_OK);
        for (int i = 0; i < 1000; i++) {
                assert_int_equal(weir_step(w, "a", 1), WEIR_GO);
                assert_int_equal(weir_check(w, &plain, NULL), WEIR_GO);
        }
        assert_int_equal(weir_count(w, WEIR_COUNT_CONNECTS), 1);
        assert_int_equal(weir_count(w, WEIR_COUNT_FAILURES), 1);
        weir_free(w);
        fake_free(&f);
}

static void pauses_double_up_to_their_bound(void **state)
{
        struct weir_answer a;
        struct fake f;
        (void)state;

        fake_init(&f);
        struct weir *w = handle(&f, WEIR_CLOSED);
        assert_int_equal(weir_set(w, WEIR_SET_BACKOFF_MS, 1), WEIR_OK);
        assert_int_equal(weir_set(w, WEIR_SET_BACKOFF_MAX_MS, 8), WEIR_OK);
        uint32_t pause_ms = 0; /* after the attempt before */
        int64_t begin_ns = 0;
        for (uint64_t n = 1; n <= 6; n++) {
                int64_t last_ns = begin_ns;
                /* Asks in between do not count: they fail for the same cause without trying. */
                do {
                        begin_ns = now_ns();
                        assert_int_equal(weir_check(w, &plain, &a), WEIR_NO);
                } while (weir_count(w, WEIR_COUNT_CONNECTS) < n);
                assert_true(now_ns() - last_ns >= pause_ms * NS_PER_MS);
                pause_ms = pause_ms ? pause_ms * 2 : 1;
                pause_ms = pause_ms < 8 ? pause_ms : 8;
                assert_in_range(a.wait_ms, 0, pause_ms + pause_ms / 2 + 1);
        }
        weir_free(w);
        fake_free(&f);
}

static void a_held_loop_is_held_once_and_then_goes(void **state)
{
        struct weir_answer a;
        struct fake f;
        (void)state;

        fake_init(&f);
        struct weir *w = handle(&f, WEIR_WAIT_THEN_OPEN);
        assert_int_equal(weir_set(w, WEIR_SET_HOLD_MS, 50), WEIR_OK);
        int64_t begin_ns = now_ns();
        assert_int_equal(weir_step_ask(w, &plain, &a), WEIR_GO);
        assert_true(now_ns() - begin_ns >= 50 * NS_PER_MS);
        assert_int_equal(a.source, WEIR_FROM_POLICY);
        assert_int_equal(a.error, WEIR_EAWAY);
        /* The hold counts from the loss: were it per step, this would take a day. */
        assert_int_equal(weir_set(w, WEIR_SET_STEP_MS, 86400000), WEIR_OK);
        for (int i = 0; i < 100; i++)
                assert_int_equal(weir_step(w, "a", 1), WEIR_GO);
        assert_int_equal(weir_set(w, WEIR_SET_HOLD_MS, UINT32_MAX), WEIR_OK);
        assert_int_equal(weir_check(w, &plain, &a), WEIR_NO);
        weir_free(w);
        fake_free(&f);
}

static void a_closed_loop_waits_its_time_and_no_longer(void **state)
{
        struct fake f;
        (void)state;

        fake_init(&f);
        struct weir *w = handle(&f, WEIR_CLOSED);
        assert_int_equal(weir_set(w, WEIR_SET_STEP_MS, 30), WEIR_OK);
        int64_t begin_ns = now_ns();
        assert_int_equal(weir_step(w, "a", 1), WEIR_NO);
        assert_true(now_ns() - begin_ns >= 30 * NS_PER_MS);
        weir_free(w);
        fake_free(&f);
}

static void *start_later(void *arg)
{
        fake_start(arg);
        return NULL;
}

static void a_waiting_step_goes_when_weir_comes_back(void **state)
{
        struct weir_answer a;
        pthread_t starter;
        struct fake f;
        (void)state;

        fake_init(&f);
        PLAY(&f, {.say = REFUSAL}, {.say = GRANT});
        struct weir *w = handle(&f, WEIR_CLOSED);
        assert_int_equal(weir_check(w, &plain, &a), WEIR_NO);
        assert_int_equal(a.error, WEIR_EAWAY);
        assert_int_equal(pthread_create(&starter, NULL, start_later, &f), 0);
        assert_int_equal(weir_step_ask(w, &plain, &a), WEIR_GO);
        assert_int_equal(a.source, WEIR_FROM_SERVER);
        assert_int_equal(pthread_join(starter, NULL), 0);
        assert_non_null(strstr(f.heard, " WAIT "));
        weir_free(w);
        fake_free(&f);
}

static void a_restart_between_two_asks_is_not_noticed(void **state)
{
        struct weir_answer a;
        struct fake f;
        (void)state;

        FAKE(&f, {.say = GRANT});
        struct weir *w = handle(&f, WEIR_CLOSED);
        for (int i = 0; i < 5; i++) {
                assert_int_equal(weir_check(w, &plain, &a), WEIR_GO);
                assert_int_equal(a.source, WEIR_FROM_SERVER);
                fake_push(&f, NULL);
        }
        assert_int_equal(weir_count(w, WEIR_COUNT_FAILURES), 0);
        assert_int_equal(weir_count(w, WEIR_COUNT_CONNECTS), 5);
        weir_free(w);
        fake_free(&f);
}

static void a_connection_that_dies_with_the_ask_is_replaced_once(void **state)
{
        struct weir_answer a;
        struct fake f;
        (void)state;

        FAKE(&f, {.say = GRANT}, {.say = NULL, .is_last = true}, {.say = GRANT});
        struct weir *w = handle(&f, WEIR_CLOSED);
        assert_int_equal(weir_check(w, &plain, &a), WEIR_GO);
        assert_int_equal(weir_check(w, &plain, &a), WEIR_GO);
        assert_int_equal(weir_count(w, WEIR_COUNT_ASKS), 3);
        assert_int_equal(weir_count(w, WEIR_COUNT_CONNECTS), 2);
        PLAY(&f, {.say = NULL, .is_last = true});
        assert_int_equal(weir_check(w, &plain, &a), WEIR_NO);
        assert_int_equal(a.error, WEIR_EAWAY);
        assert_int_equal(weir_count(w, WEIR_COUNT_CONNECTS), 3);
        weir_free(w);
        fake_free(&f);
}

static void words_from_before_the_question_are_no_answer(void **state)
{
        struct weir_answer a;
        struct fake f;
        (void)state;

        FAKE(&f, {.say = REFUSAL});
        struct weir *w = handle(&f, WEIR_OPEN);
        assert_int_equal(weir_set(w, WEIR_SET_K_PERCENT, 0), WEIR_OK);
        assert_int_equal(weir_check(w, &plain, &a), WEIR_NO);
        fake_push(&f, GRANT);
        assert_int_equal(weir_check(w, &plain, &a), WEIR_NO);
        assert_int_equal(a.source, WEIR_FROM_SERVER);
        weir_free(w);
        fake_free(&f);
}

static void a_late_answer_is_not_taken_for_the_next(void **state)
{
        struct weir_answer a;
        struct fake f;
        (void)state;

        FAKE(&f, {.say = NULL}, {.say = REFUSAL});
        struct weir *w = handle(&f, WEIR_CLOSED);
        assert_int_equal(weir_set(w, WEIR_SET_BACKOFF_MS, 1), WEIR_OK);
        assert_int_equal(weir_set(w, WEIR_SET_REPLY_MS, 20), WEIR_OK);
        assert_int_equal(weir_check(w, &plain, &a), WEIR_NO);
        assert_int_equal(a.error, WEIR_ETIMEDOUT);
        assert_int_equal(weir_set(w, WEIR_SET_REPLY_MS, 30000), WEIR_OK);
        do
                assert_int_equal(weir_check(w, &plain, &a), WEIR_NO);
        while (a.source == WEIR_FROM_POLICY);
        assert_int_equal(a.source, WEIR_FROM_SERVER);
        assert_int_equal(weir_count(w, WEIR_COUNT_CONNECTS), 2);
        weir_free(w);
        fake_free(&f);
}

static void a_refusal_to_take_the_ask_ends_an_outage_too(void **state)
{
        struct weir_answer a;
        struct fake f;
        (void)state;

        fake_init(&f);
        struct weir *w = handle(&f, WEIR_CLOSED);
        assert_int_equal(weir_set(w, WEIR_SET_BACKOFF_MS, 1), WEIR_OK);
        assert_int_equal(weir_set(w, WEIR_SET_BACKOFF_MAX_MS, 1), WEIR_OK);
        assert_int_equal(weir_check(w, &plain, &a), WEIR_NO);
        PLAY(&f, {.say = "-NOTFOUND no target x\r\n"}, {.say = GRANT});
        fake_start(&f);
        do
                assert_int_equal(weir_check(w, &plain, &a), WEIR_NO);
        while (a.error == WEIR_EAWAY);
        assert_int_equal(a.error, WEIR_EASK);
        assert_int_equal(weir_check(w, &plain, &a), WEIR_GO);
        assert_int_equal(a.source, WEIR_FROM_SERVER);
        weir_free(w);
        fake_free(&f);
}

static int open_files(void)
{
        int n = 0;

        for (int fd = 0; fd < 1024; fd++)
                n += fcntl(fd, F_GETFD) >= 0;
        return n;
}

static void failures_leave_no_file_open(void **state)
{
        struct fake f;
        (void)state;

        FAKE(&f, {.say = "nonsense\r\n"});
        int before = open_files();
        struct weir *w = handle(&f, WEIR_OPEN);
        assert_int_equal(weir_set(w, WEIR_SET_BACKOFF_MS, 1), WEIR_OK);
        assert_int_equal(weir_set(w, WEIR_SET_BACKOFF_MAX_MS, 1), WEIR_OK);
        while (weir_count(w, WEIR_COUNT_FAILURES) < 20)
                assert_int_equal(weir_check(w, &plain, NULL), WEIR_GO);
        weir_free(w);
        fake_stop(&f);
        assert_int_equal(open_files(), before - 3); /* listener and the pipe */
        fake_free(&f);
}

/* ---- steps --------------------------------------------------------------------------------- */

static void steps_use_up_their_credits_before_they_ask(void **state)
{
        struct weir_answer a;
        struct fake f;
        (void)state;

        FAKE(&f, {.say = CREDITS});
        struct weir *w = handle(&f, WEIR_CLOSED);
        for (int i = 0; i < 60; i++) {
                assert_int_equal(weir_step_ask(w, &plain, &a), WEIR_GO);
                assert_int_equal(a.source, i % 6 ? WEIR_FROM_CREDIT : WEIR_FROM_SERVER);
        }
        assert_int_equal(weir_count(w, WEIR_COUNT_STEPS), 60);
        assert_int_equal(weir_count(w, WEIR_COUNT_ASKS), 10);
        assert_int_equal(weir_count(w, WEIR_COUNT_CREDITED), 50);
        weir_free(w);
        fake_free(&f);
}

static void credits_of_one_question_are_not_those_of_another(void **state)
{
        static const char *const metrics[] = {"lag", NULL};
        static const struct weir_ask asks[] = {
                {.identity = "a"},
                {.identity = "b"},
                {.identity = "a", .target = "t"},
                {.identity = "a", .priority = "high"},
                {.identity = "a", .metrics = metrics},
                {.identity = "at"},
        };
        struct fake f;
        (void)state;

        FAKE(&f, {.say = CREDITS});
        struct weir *w = handle(&f, WEIR_CLOSED);
        for (size_t i = 0; i < ARRAY_LEN(asks); i++)
                assert_int_equal(weir_step_ask(w, &asks[i], NULL), WEIR_GO);
        assert_int_equal(weir_count(w, WEIR_COUNT_ASKS), ARRAY_LEN(asks));
        for (size_t i = 0; i < ARRAY_LEN(asks); i++)
                assert_int_equal(weir_step_ask(w, &asks[i], NULL), WEIR_GO);
        assert_int_equal(weir_count(w, WEIR_COUNT_ASKS), ARRAY_LEN(asks));
        weir_free(w);
        fake_free(&f);
}

static void credits_end_with_their_time(void **state)
{
        struct fake f;
        (void)state;

        FAKE(&f, {.say = BRIEF}); /* 1,000 credits for 1 ms */
        struct weir *w = handle(&f, WEIR_CLOSED);
        assert_int_equal(weir_step(w, "a", 1), WEIR_GO);
        int64_t begin_ns = now_ns();
        while (now_ns() - begin_ns <= NS_PER_MS)
                ;
        assert_int_equal(weir_step(w, "a", 1), WEIR_GO);
        assert_int_equal(weir_count(w, WEIR_COUNT_CREDITED), 0);
        assert_int_equal(weir_count(w, WEIR_COUNT_ASKS), 2);
        weir_free(w);
        fake_free(&f);
}

static void a_check_neither_uses_nor_keeps_credits(void **state)
{
        struct weir_answer a;
        struct fake f;
        (void)state;

        FAKE(&f, {.say = CREDITS});
        struct weir *w = handle(&f, WEIR_CLOSED);
        for (int i = 0; i < 3; i++) {
                assert_int_equal(weir_check(w, &plain, &a), WEIR_GO);
                assert_int_equal(a.credits, 5);
                assert_int_equal(a.credit_ms, 60000);
        }
        assert_int_equal(weir_step_ask(w, &plain, &a), WEIR_GO);
        assert_int_equal(a.source, WEIR_FROM_SERVER);
        assert_int_equal(weir_count(w, WEIR_COUNT_ASKS), 4);
        weir_free(w);
        fake_free(&f);
}

static void a_refused_step_asks_again_until_it_may_go(void **state)
{
        struct weir_answer a;
        struct fake f;
        (void)state;

        FAKE(&f, {.say = REFUSAL}, {.say = REFUSAL}, {.say = REFUSAL}, {.say = GRANT});
        struct weir *w = handle(&f, WEIR_OPEN);
        assert_int_equal(weir_set(w, WEIR_SET_PROBE_MS, 1), WEIR_OK);
        assert_int_equal(weir_step_ask(w, &plain, &a), WEIR_GO);
        assert_int_equal(a.source, WEIR_FROM_SERVER);
        assert_int_equal(weir_count(w, WEIR_COUNT_ASKS), 4);
        weir_free(w);
        fake_free(&f);
}

static void a_refused_step_ends_with_its_time(void **state)
{
        struct weir_answer a;
        struct fake f;
        (void)state;

        FAKE(&f, {.say = REFUSAL});
        struct weir *w = handle(&f, WEIR_OPEN);
        const struct weir_ask brief = {.identity = "a", .wait_ms = 40};
        int64_t begin_ns = now_ns();
        assert_int_equal(weir_step_ask(w, &brief, &a), WEIR_NO);
        assert_true(now_ns() - begin_ns >= 40 * NS_PER_MS);
        weir_free(w);
        fake_free(&f);
}

static void a_hung_daemon_is_asked_without_patience_the_next_time(void **state)
{
        struct weir_answer a;
        struct fake f;
        (void)state;

        FAKE(&f, {.say = NULL});
        struct weir *w = handle(&f, WEIR_OPEN);
        assert_int_equal(weir_set(w, WEIR_SET_REPLY_MS, 5), WEIR_OK);
        assert_int_equal(weir_set(w, WEIR_SET_WAIT_MS, 5), WEIR_OK);
        assert_int_equal(weir_set(w, WEIR_SET_BACKOFF_MS, 1), WEIR_OK);
        assert_int_equal(weir_set(w, WEIR_SET_BACKOFF_MAX_MS, 1), WEIR_OK);
        assert_int_equal(weir_step_ask(w, &plain, &a), WEIR_GO);
        assert_int_equal(a.error, WEIR_ETIMEDOUT);
        /* Would it wait now, this would take ten minutes. */
        assert_int_equal(weir_set(w, WEIR_SET_WAIT_MS, 600000), WEIR_OK);
        assert_int_equal(weir_set(w, WEIR_SET_STEP_MS, 600000), WEIR_OK);
        while (weir_count(w, WEIR_COUNT_CONNECTS) < 3)
                assert_int_equal(weir_step_ask(w, &plain, &a), WEIR_GO);
        weir_free(w);
        fake_free(&f);
}

static void on_alarm(int signal_number)
{
        (void)signal_number;
}

static void a_signal_ends_a_wait_only_where_that_was_asked_for(void **state)
{
        const struct sigaction act = {.sa_handler = on_alarm};
        const struct itimerval every = {{0, 5000}, {0, 5000}}, off = {{0, 0}, {0, 0}};
        struct sigaction old;
        struct weir_answer a;
        sigset_t alarms;
        struct fake f;
        (void)state;

        /* The script's thread is born with the signal blocked, so it comes to this one. */
        (void)sigemptyset(&alarms);
        (void)sigaddset(&alarms, SIGALRM);
        assert_int_equal(pthread_sigmask(SIG_BLOCK, &alarms, NULL), 0);
        FAKE(&f, {.say = NULL}, {.say = NULL}, {.say = GRANT});
        assert_int_equal(pthread_sigmask(SIG_UNBLOCK, &alarms, NULL), 0);
        assert_int_equal(sigaction(SIGALRM, &act, &old), 0);
        assert_int_equal(setitimer(ITIMER_REAL, &every, NULL), 0);
        struct weir *w = handle(&f, WEIR_OPEN);
        assert_int_equal(weir_set(w, WEIR_SET_INTERRUPTIBLE, 1), WEIR_OK);
        assert_int_equal(weir_step_ask(w, &plain, &a), WEIR_NO);
        assert_int_equal(a.error, WEIR_EINTR);
        assert_int_equal(weir_set(w, WEIR_SET_INTERRUPTIBLE, 0), WEIR_OK);
        assert_int_equal(weir_set(w, WEIR_SET_REPLY_MS, 30), WEIR_OK);
        assert_int_equal(weir_check(w, &plain, &a), WEIR_GO);
        assert_int_equal(a.error, WEIR_ETIMEDOUT);
        weir_free(w);
        fake_stop(&f);

        w = handle(&f, WEIR_CLOSED); /* nobody is there: the signal comes in a pause */
        assert_int_equal(weir_set(w, WEIR_SET_INTERRUPTIBLE, 1), WEIR_OK);
        assert_int_equal(weir_set(w, WEIR_SET_BACKOFF_MS, 600000), WEIR_OK);
        assert_int_equal(weir_set(w, WEIR_SET_BACKOFF_MAX_MS, 600000), WEIR_OK);
        assert_int_equal(weir_step_ask(w, &plain, &a), WEIR_NO);
        assert_int_equal(a.error, WEIR_EINTR);
        assert_string_equal(weir_message(w), "a signal ended the wait");
        assert_int_equal(setitimer(ITIMER_REAL, &off, NULL), 0);
        assert_int_equal(sigaction(SIGALRM, &old, NULL), 0);
        weir_free(w);
        fake_free(&f);
}

/* The parent's connection must be untouched by the child's asking, and its credits its own. */
static void a_child_asks_on_a_connection_of_its_own(void **state)
{
        struct weir_answer a;
        struct fake f;
        int status = 0;
        (void)state;

        FAKE(&f, {.say = CREDITS});
        struct weir *w = handle(&f, WEIR_CLOSED);
        assert_int_equal(weir_step(w, "a", 1), WEIR_GO);
        pid_t pid = fork();
        assert_true(pid >= 0);
        if (pid == 0) {
                /* The script serves one at a time: the child's ask is not answered, but it is a
                 * connection and an ask more, instead of a credit. */
                (void)weir_set(w, WEIR_SET_REPLY_MS, 20);
                (void)weir_set(w, WEIR_SET_STEP_MS, 1);
                (void)weir_step(w, "a", 1);
                _exit(weir_count(w, WEIR_COUNT_CONNECTS) == 2 &&
                                      weir_count(w, WEIR_COUNT_CREDITED) == 0
                              ? 0
                              : 1);
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
        assert_int_equal(weir_step(w, "a", 1), WEIR_GO);
        assert_int_equal(weir_count(w, WEIR_COUNT_CREDITED), 1);
        assert_int_equal(weir_check(w, &plain, &a), WEIR_GO);
        assert_int_equal(weir_count(w, WEIR_COUNT_CONNECTS), 1);
        weir_free(w);
        fake_free(&f);
}

static void a_client_that_is_refused_does_not_hammer_and_recovers(void **state)
{
        struct weir_answer a;
        struct fake f;
        (void)state;

        FAKE(&f, {.say = REFUSAL});
        struct weir *w = handle(&f, WEIR_OPEN);
        assert_int_equal(weir_set(w, WEIR_SET_PROBE_MS, 600000), WEIR_OK);
        for (int i = 0; i < 10000; i++)
                assert_int_equal(weir_check(w, &plain, &a), WEIR_NO);
        /* One in n is asked: about 10 in 10,000; 60 has a probability below 10^-20. */
        assert_in_range(weir_count(w, WEIR_COUNT_ASKS), 1, 60);
        assert_int_equal(weir_count(w, WEIR_COUNT_ASKS) + weir_count(w, WEIR_COUNT_THROTTLED),
                         10000);
        /* Another question of the same handle is not kept back with it. */
        static const struct weir_ask other = {.identity = "other"};
        assert_int_equal(weir_check(w, &other, &a), WEIR_NO);
        assert_int_equal(a.source, WEIR_FROM_SERVER);

        PLAY(&f, {.say = GRANT});
        assert_int_equal(weir_set(w, WEIR_SET_PROBE_MS, 1), WEIR_OK);
        assert_int_equal(weir_step_ask(w, &plain, &a), WEIR_GO);
        for (int i = 0; i < 100; i++) {
                assert_int_equal(weir_check(w, &plain, &a), WEIR_GO);
                assert_int_equal(a.source, WEIR_FROM_SERVER);
        }
        weir_free(w);
        fake_free(&f);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(a_dead_daemon_costs_one_attempt_per_pause),
                cmocka_unit_test(pauses_double_up_to_their_bound),
                cmocka_unit_test(a_held_loop_is_held_once_and_then_goes),
                cmocka_unit_test(a_closed_loop_waits_its_time_and_no_longer),
                cmocka_unit_test(a_waiting_step_goes_when_weir_comes_back),
                cmocka_unit_test(a_restart_between_two_asks_is_not_noticed),
                cmocka_unit_test(a_connection_that_dies_with_the_ask_is_replaced_once),
                cmocka_unit_test(words_from_before_the_question_are_no_answer),
                cmocka_unit_test(a_late_answer_is_not_taken_for_the_next),
                cmocka_unit_test(a_refusal_to_take_the_ask_ends_an_outage_too),
                cmocka_unit_test(failures_leave_no_file_open),
                cmocka_unit_test(steps_use_up_their_credits_before_they_ask),
                cmocka_unit_test(credits_of_one_question_are_not_those_of_another),
                cmocka_unit_test(credits_end_with_their_time),
                cmocka_unit_test(a_check_neither_uses_nor_keeps_credits),
                cmocka_unit_test(a_refused_step_asks_again_until_it_may_go),
                cmocka_unit_test(a_refused_step_ends_with_its_time),
                cmocka_unit_test(a_hung_daemon_is_asked_without_patience_the_next_time),
                cmocka_unit_test(a_signal_ends_a_wait_only_where_that_was_asked_for),
                cmocka_unit_test(a_child_asks_on_a_connection_of_its_own),
                cmocka_unit_test(a_client_that_is_refused_does_not_hammer_and_recovers),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
