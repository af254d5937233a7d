/* A cutoff cuts a socket that a call waits for without a deadline. */
#include "check.h"

#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "sql/wait.h"

struct scene {
        int stop_fd;
        int ours, theirs;
};

static int set_up(void **state)
{
        static struct scene s;
        int ends[2];
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
        s = (struct scene){eventfd(0, EFD_CLOEXEC), ends[0], ends[1]};
        *state = &s;
        return 0;
}

static int tear_down(void **state)
{
        const struct scene *s = *state;
        close(s->stop_fd);
        close(s->ours);
        close(s->theirs);
        return 0;
}

static struct sql_wait within(const struct scene *s, int64_t ms)
{
        return (struct sql_wait){s->stop_fd, clock_boot_ns() + ms * NS_PER_MS, ms};
}

static void a_read_that_would_not_end_ends_with_the_time(void **state)
{
        const struct scene *s = *state;
        struct sql_wait w = within(s, 20);
        char byte;
        struct cutoff *c = cutoff_begin(&w, s->ours);
        assert_non_null(c);
        assert_int_equal(read(s->ours, &byte, 1), 0);
        assert_int_equal(cutoff_end(c), ERR_TIMEOUT);
}

static void a_read_that_would_not_end_ends_when_weir_stops(void **state)
{
        const struct scene *s = *state;
        struct sql_wait w = within(s, 60000);
        uint64_t one = 1;
        char byte;
        struct cutoff *c = cutoff_begin(&w, s->ours);
        assert_non_null(c);
        assert_int_equal(write(s->stop_fd, &one, sizeof(one)), sizeof(one));
        assert_int_equal(read(s->ours, &byte, 1), 0);
        assert_int_equal(cutoff_end(c), ERR_STOPPING);
}

static void a_cutoff_that_ends_in_time_leaves_the_socket_alone(void **state)
{
        const struct scene *s = *state;
        struct sql_wait w = within(s, 60000);
        char byte = 'x';
        struct cutoff *c = cutoff_begin(&w, s->ours);
        assert_non_null(c);
        assert_int_equal(cutoff_end(c), OK);
        assert_int_equal(write(s->theirs, &byte, 1), 1);
        assert_int_equal(read(s->ours, &byte, 1), 1);
}

static void a_socket_that_cannot_be_named_twice_gets_no_cutoff(void **state)
{
        struct sql_wait w = within(*state, 60000);
        assert_null(cutoff_begin(&w, -1));
}

int main(void)
{
        const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
                TEST(a_read_that_would_not_end_ends_with_the_time),
                TEST(a_read_that_would_not_end_ends_when_weir_stops),
                TEST(a_cutoff_that_ends_in_time_leaves_the_socket_alone),
                TEST(a_socket_that_cannot_be_named_twice_gets_no_cutoff),
#undef TEST
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
