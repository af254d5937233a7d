/* Which addresses a handler may connect to. */
#include "check.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include "work/address.h"

static const struct address_rules strict;
static const struct address_rules lenient = {.allows_private = true};

static void addresses_of_the_internet_are_fine(void **state)
{
        static const char *const good[] = {
                "1.1.1.1",         "8.8.8.8",         "9.255.255.255",   "11.0.0.0",
                "100.63.255.255",  "100.128.0.0",     "126.255.255.255", "128.0.0.0",
                "169.253.0.1",     "169.255.0.0",     "172.15.255.255",  "172.32.0.0",
                "192.167.0.1",     "192.169.0.0",     "198.17.255.255",  "198.20.0.0",
                "223.255.255.255", "2606:4700::1111", "2a00::1",         "2002:101:101::",
                "64:ff9b::101:101"};
        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(good); i++) {
                assert_null(address_text_refusal(&strict, good[i]));
                assert_null(address_text_refusal(&lenient, good[i]));
        }
}

static void private_addresses_are_refused_unless_allowed(void **state)
{
        static const char *const private[] = {"10.0.0.0",        "10.255.255.255",
                                              "127.0.0.1",       "127.255.255.255",
                                              "172.16.0.0",      "172.31.255.255",
                                              "192.168.0.1",     "100.64.0.0",
                                              "100.127.255.255", "::1",
                                              "fc00::",          "fdff::1",
                                              "::ffff:10.0.0.1", "::127.0.0.1",
                                              "64:ff9b::a00:1",  "2002:a00:1::1"};
        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(private); i++) {
                assert_non_null(address_text_refusal(&strict, private[i]));
                assert_null(address_text_refusal(&lenient, private[i]));
        }
}

static void some_addresses_are_refused_even_then(void **state)
{
        static const char *const never[] = {"0.0.0.0",
                                            "0.1.2.3",
                                            "169.254.169.254",
                                            "224.0.0.1",
                                            "239.255.255.255",
                                            "255.255.255.255",
                                            "240.0.0.1",
                                            "::",
                                            "fe80::1",
                                            "febf::1",
                                            "fe80::1%eth0",
                                            "ff02::1",
                                            "::ffff:169.254.169.254",
                                            "2001::1",
                                            "2002:a9fe:a9fe::",
                                            "64:ff9b::a9fe:a9fe",
                                            "64:ff9b:1::a9fe:a9fe",
                                            "not an address"};
        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(never); i++) {
                assert_non_null(address_text_refusal(&strict, never[i]));
                assert_non_null(address_text_refusal(&lenient, never[i]));
        }
}

static void a_cloud_metadata_address_is_refused_in_every_form(void **state)
{
        static const char *const metadata[] = {
                "169.254.169.254",
                "169.254.170.2",
                "168.63.129.16",
                "100.100.100.200",
                "192.0.0.192",
                "fd00:ec2::254",
                "fd00:ec2::23",
                "fd20:ce::254",
                "fd00:42::42",
                "::ffff:168.63.129.16",
                "::168.63.129.16",
                "64:ff9b::a83f:8110",
                "64:ff9b::6464:64c8",
                "64:ff9b:1::a83f:8110",
                "64:ff9b:1:6464:64:c800::",
                "2002:a83f:8110::1",
                "2002:6464:64c8::",
                "::ffff:0:100.100.100.200",
                "::ffff:0:169.254.1.1",
                "::ffff:100.100.100.200",
        };
        struct address_net nets[2];
        const struct address_rules wide = {.allows_private = true, .nets = nets, .n_nets = 2};
        (void)state;
        assert_true(address_net_parse("0.0.0.0/0", &nets[0]));
        assert_true(address_net_parse("::/0", &nets[1]));
        for (size_t i = 0; i < ARRAY_LEN(metadata); i++) {
                assert_non_null(address_text_refusal(&strict, metadata[i]));
                assert_non_null(address_text_refusal(&lenient, metadata[i]));
        }
        assert_string_equal(address_text_refusal(&lenient, "fd00:ec2::254"),
                            "a cloud metadata address");
        /* A network around it does not mean it; the address itself does. */
        assert_non_null(address_text_refusal(&wide, "168.63.129.16"));
        assert_non_null(address_text_refusal(&wide, "64:ff9b::a83f:8110"));
        assert_true(address_net_parse("168.63.129.16", &nets[0]));
        assert_null(address_text_refusal(&wide, "168.63.129.16"));
        assert_null(address_text_refusal(&wide, "100.100.100.201"));
}

static void a_network_that_was_written_down_is_allowed_and_nothing_beside_it(void **state)
{
        struct address_net nets[2];
        const struct address_rules rules = {.nets = nets, .n_nets = 2};
        (void)state;
        assert_true(address_net_parse("10.1.16.0/20", &nets[0]));
        assert_true(address_net_parse("fd12::/16", &nets[1]));
        assert_null(address_text_refusal(&rules, "10.1.16.0"));
        assert_null(address_text_refusal(&rules, "10.1.31.255"));
        assert_null(address_text_refusal(&rules, "::ffff:10.1.20.1"));
        assert_null(address_text_refusal(&rules, "64:ff9b::a01:1001"));
        assert_null(address_text_refusal(&rules, "fd12::1"));
        assert_non_null(address_text_refusal(&rules, "10.1.15.255"));
        assert_non_null(address_text_refusal(&rules, "10.1.32.0"));
        assert_non_null(address_text_refusal(&rules, "fd13::1"));
}

static void networks_are_read_strictly(void **state)
{
        static const char *const bad[] = {"",           "10.0.0.0/33", "10.0.0.0/",   "10.0.0/8",
                                          "fd00::/129", "host",        "10.0.0.0/-1", "10.0.0.0/08",
                                          "1.2.3.4.5",  "[::1]",       "::1/64/64"};
        struct address_net net;
        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(bad); i++)
                assert_false(address_net_parse(bad[i], &net));
        assert_true(address_net_parse("10.0.0.0/8", &net));
        assert_int_equal(net.bits, 96 + 8);
        assert_true(address_net_parse("127.0.0.1", &net));
        assert_int_equal(net.bits, 128);
        assert_true(address_net_parse("::/0", &net));
        assert_int_equal(net.bits, 0);
}

static void a_socket_address_is_judged_like_its_text(void **state)
{
        struct sockaddr_in in = {.sin_family = AF_INET};
        struct sockaddr_in6 in6 = {.sin6_family = AF_INET6};
        struct sockaddr un = {.sa_family = AF_UNIX};
        (void)state;
        assert_int_equal(inet_pton(AF_INET, "127.0.0.1", &in.sin_addr), 1);
        assert_string_equal(address_refusal(&strict, (struct sockaddr *)&in), "a loopback address");
        assert_int_equal(inet_pton(AF_INET, "1.1.1.1", &in.sin_addr), 1);
        assert_null(address_refusal(&strict, (struct sockaddr *)&in));
        assert_int_equal(inet_pton(AF_INET6, "::ffff:192.168.0.1", &in6.sin6_addr), 1);
        assert_string_equal(address_refusal(&strict, (struct sockaddr *)&in6), "a private address");
        assert_non_null(address_refusal(&lenient, &un));
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(addresses_of_the_internet_are_fine),
                cmocka_unit_test(private_addresses_are_refused_unless_allowed),
                cmocka_unit_test(some_addresses_are_refused_even_then),
                cmocka_unit_test(a_cloud_metadata_address_is_refused_in_every_form),
                cmocka_unit_test(a_network_that_was_written_down_is_allowed_and_nothing_beside_it),
                cmocka_unit_test(networks_are_read_strictly),
                cmocka_unit_test(a_socket_address_is_judged_like_its_text),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
