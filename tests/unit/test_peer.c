/* What is known of addresses: connections, wrong tokens, and that the table stays small. */
#include "check.h"

#include <stdio.h>

#include "api/limits.h"
#include "door/peer.h"

#define MINUTE (60 * NS_PER_S)

static bool is_same(struct peers *p, const char *a, const char *b)
{
        struct peer *one = peer_join(p, a, false), *other = peer_join(p, b, false);
        bool is = one == other;
        peer_leave(p, one);
        peer_leave(p, other);
        return is;
}

static void an_address_is_one_peer_and_of_ipv6_its_network(void **state)
{
        struct peers p;

        (void)state;
        peers_init(&p, 1);
        assert_true(is_same(&p, "192.0.2.1", "192.0.2.1"));
        assert_false(is_same(&p, "192.0.2.1", "192.0.2.2"));
        assert_true(is_same(&p, "2001:db8:1:2::1", "2001:db8:1:2:ffff::9"));
        assert_false(is_same(&p, "2001:db8:1:2::1", "2001:db8:1:3::1"));
        struct peer *near = peer_join(&p, "127.0.0.1", true), *also = peer_join(&p, "", true);
        assert_ptr_equal(near, also); /* this machine, whichever way */
        peer_leave(&p, near);
        peer_leave(&p, also);
        assert_int_equal(p.by_name.len, 0);
        peers_release(&p);
}

static void after_ten_wrong_tokens_the_next_must_wait(void **state)
{
        struct peers p;
        int64_t now = MINUTE;

        (void)state;
        peers_init(&p, 1);
        for (int round = 0; round < 2; round++) {
                for (int i = 0; i < LIMIT_TOKEN_FAILURES; i++) {
                        /* Another connection each time: the peer is remembered without one. */
                        struct peer *peer = peer_join(&p, "192.0.2.1", false);
                        assert_false(peer_fail(peer, now));
                        peer_leave(&p, peer);
                }
                struct peer *other = peer_join(&p, "192.0.2.2", false);
                assert_false(peer_fail(other, now));
                peer_leave(&p, other);
                struct peer *peer = peer_join(&p, "192.0.2.1", false);
                assert_true(peer_fail(peer, now));
                assert_true(peer_fail(peer, now + PEER_FORGET_NS - 1));
                peer_leave(&p, peer);
                now += 2 * PEER_FORGET_NS; /* forgotten, and it begins again */
        }
        peers_release(&p);
}

static void the_table_of_failures_is_bounded_and_the_oldest_go(void **state)
{
        struct peers p;
        char name[INET6_ADDRSTRLEN];

        (void)state;
        peers_init(&p, 1);
        for (int i = 0; i < 3 * PEERS_KEPT; i++) {
                (void)snprintf(name, sizeof(name), "10.0.%d.%d", i / 250, i % 250);
                struct peer *peer = peer_join(&p, name, false);
                for (int k = 0; k < LIMIT_TOKEN_FAILURES; k++)
                        (void)peer_fail(peer, MINUTE + i);
                peer_leave(&p, peer);
                assert_true(p.by_name.len <= PEERS_KEPT);
        }
        struct peer *newest = peer_join(&p, name, false);
        assert_true(peer_fail(newest, MINUTE + 3L * PEERS_KEPT));
        peer_leave(&p, newest);
        struct peer *oldest = peer_join(&p, "10.0.0.0", false);
        assert_int_equal(oldest->failures, 0);
        peer_leave(&p, oldest);
        peers_release(&p);
}

static void the_log_gets_a_line_a_minute_of_each_and_few_of_all(void **state)
{
        struct peers p;
        struct peer *crowd[2 * PEER_LINES];
        char name[INET6_ADDRSTRLEN];
        unsigned lines = 0;

        (void)state;
        peers_init(&p, 1);
        struct peer *one = peer_join(&p, "192.0.2.1", false);
        assert_int_equal(peer_fail_line(&p, one, MINUTE), 1);
        for (int i = 0; i < 5; i++)
                assert_int_equal(peer_fail_line(&p, one, 2 * MINUTE - 1), 0);
        assert_int_equal(peer_fail_line(&p, one, 2 * MINUTE), 6);
        for (int i = 0; i < 2 * PEER_LINES; i++) {
                (void)snprintf(name, sizeof(name), "10.0.0.%d", i);
                crowd[i] = peer_join(&p, name, false);
                lines += peer_fail_line(&p, crowd[i], 2 * MINUTE + 1) > 0;
        }
        assert_int_equal(lines, PEER_LINES - 1);
        for (int i = 0; i < 2 * PEER_LINES; i++)
                peer_leave(&p, crowd[i]);
        peer_leave(&p, one);
        peers_release(&p);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(an_address_is_one_peer_and_of_ipv6_its_network),
                cmocka_unit_test(after_ten_wrong_tokens_the_next_must_wait),
                cmocka_unit_test(the_table_of_failures_is_bounded_and_the_oldest_go),
                cmocka_unit_test(the_log_gets_a_line_a_minute_of_each_and_few_of_all),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
