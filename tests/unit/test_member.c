/* Whether a machine has the leader's state, by the digests that both told. */
#include "unit/check.h"

#include "log/member.h"

static struct log_member m[3];

static int setup(void **unused)
{
        (void)unused;
        for (size_t i = 0; i < 3; i++)
                m[i] = (struct log_member){.digest_seq = 7, .digest = 70};
        m[1].is_leader = true;
        return 0;
}

static void a_member_is_compared_with_the_leader(void **unused)
{
        (void)unused;
        m[2].digest = 71;
        assert_int_equal(member_state(&m[0], m, 3), MEMBER_SAME);
        assert_int_equal(member_state(&m[1], m, 3), MEMBER_SAME);
        assert_int_equal(member_state(&m[2], m, 3), MEMBER_DIFFERS);
}

static void digests_of_other_batches_say_nothing(void **unused)
{
        (void)unused;
        m[0].digest_seq = 6;
        m[2] = (struct log_member){.digest_seq = 8, .digest = 71};
        assert_int_equal(member_state(&m[0], m, 3), MEMBER_UNKNOWN);
        assert_int_equal(member_state(&m[2], m, 3), MEMBER_UNKNOWN);
}

static void without_a_leader_or_its_digest_nothing_is_known(void **unused)
{
        (void)unused;
        m[1].digest_seq = m[0].digest_seq = 0;
        assert_int_equal(member_state(&m[0], m, 3), MEMBER_UNKNOWN);
        assert_int_equal(member_state(&m[1], m, 3), MEMBER_UNKNOWN);
        m[1] = (struct log_member){.digest_seq = 7, .digest = 70};
        assert_int_equal(member_state(&m[1], m, 3), MEMBER_UNKNOWN);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup(a_member_is_compared_with_the_leader, setup),
                cmocka_unit_test_setup(digests_of_other_batches_say_nothing, setup),
                cmocka_unit_test_setup(without_a_leader_or_its_digest_nothing_is_known, setup),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
