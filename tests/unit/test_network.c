/* Addresses and networks. */
#include "check.h"

#include "base/network.h"

static const char *hex_of(const struct ip *ip)
{
        static char text[2 * IP_BYTES + 1];

        hex_from_bytes(ip->bytes, IP_BYTES, text);
        return text;
}

static void addresses_of_both_kinds_are_sixteen_bytes(void **state)
{
        static const char *const rows[][2] = {
                {"10.0.0.7", "00000000000000000000ffff0a000007"},
                {"0.0.0.0", "00000000000000000000ffff00000000"},
                {"255.255.255.255", "00000000000000000000ffffffffffff"},
                {"::", "00000000000000000000000000000000"},
                {"::1", "00000000000000000000000000000001"},
                {"1::", "00010000000000000000000000000000"},
                {"fd00::7", "fd000000000000000000000000000007"},
                {"2001:DB8::a:b", "20010db80000000000000000000a000b"},
                {"1:2:3:4:5:6:7:8", "00010002000300040005000600070008"},
                {"1:2:3:4:5:6:7::", "00010002000300040005000600070000"},
                {"::2:3:4:5:6:7:8", "00000002000300040005000600070008"},
                {"::ffff:10.0.0.7", "00000000000000000000ffff0a000007"},
                {"1:2:3:4:5:6:10.0.0.7", "0001000200030004000500060a000007"},
        };

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                struct ip ip;
                assert_true(ip_parse(slice_str(rows[i][0]), &ip));
                assert_string_equal(hex_of(&ip), rows[i][1]);
        }
}

static void what_is_no_address_is_refused(void **state)
{
        static const char *const wrong[] = {
                "",
                " ",
                "10",
                "10.0.0",
                "10.0.0.",
                "10.0.0.256",
                "10.0.0.07",
                "10.0.0.0.1",
                ".0.0.1",
                "10.0.0.-1",
                "10.0.0.7 ",
                "localhost",
                ":",
                ":::",
                "1:2",
                "1::2::3",
                "12345::",
                "g::",
                "1:2:3:4:5:6:7",
                "1:2:3:4:5:6:7:8:9",
                ":1::",
                "1:",
                "::1:",
                "1:2:3:4:5:6:7:10.0.0.7",
                "10.0.0.7::",
                "::10.0.0",
                "fe80::1%eth0",
                "10.0.0.0/8",
                "1::2:3:4:5:6:7:8",
        };
        struct ip ip;

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(wrong); i++)
                if (ip_parse(slice_str(wrong[i]), &ip))
                        fail_msg("'%s' was taken for an address", wrong[i]);
        assert_false(ip_parse(SLICE_NONE, &ip));
}

static void ipv4_is_told_from_ipv6(void **state)
{
        static const uint8_t four[] = {192, 0, 2, 9};
        struct ip made = ip_from_v4(four), ip;

        (void)state;
        assert_true(ip_is_v4(&made));
        assert_true(ip_parse(SLICE_LIT("192.0.2.9"), &ip));
        assert_memory_equal(ip.bytes, made.bytes, IP_BYTES);
        assert_true(ip_parse(SLICE_LIT("::192.0.2.9"), &ip));
        assert_false(ip_is_v4(&ip));
}

static void a_network_has_the_addresses_that_begin_as_it_does(void **state)
{
        static const struct {
                const char *network, *address;
                bool is_in;
        } rows[] = {
                {"10.0.0.0/8", "10.255.0.1", true},
                {"10.0.0.0/8", "11.0.0.1", false},
                {"10.1.2.2/31", "10.1.2.3", true},
                {"10.1.2.2/31", "10.1.2.4", false},
                {"10.1.2.3", "10.1.2.3", true},
                {"10.1.2.3", "10.1.2.2", false},
                {"10.1.2.3/32", "10.1.2.3", true},
                {"0.0.0.0/0", "203.0.113.9", true},
                {"0.0.0.0/0", "::1", false},
                {"::/0", "203.0.113.9", true},
                {"10.0.0.0/8", "::ffff:10.1.1.1", true},
                {"::ffff:10.0.0.0/104", "10.9.9.9", true},
                {"fd00::/8", "fdff::1", true},
                {"fd00::/8", "fe00::1", false},
                {"2001:db8::/33", "2001:db8:7fff::", true},
                {"2001:db8::/33", "2001:db8:8000::", false},
                {"::1", "::1", true},
                {"::1/128", "::2", false},
        };

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                struct network n;
                struct ip ip;
                assert_true(network_parse(slice_str(rows[i].network), &n));
                assert_true(ip_parse(slice_str(rows[i].address), &ip));
                if (network_has(&n, &ip) != rows[i].is_in)
                        fail_msg("%s and %s", rows[i].network, rows[i].address);
        }
}

static void what_is_no_network_is_refused(void **state)
{
        static const char *const wrong[] = {"",       "/8",           "10.0.0.0/",    "10.0.0.0/33",
                                            "::/129", "10.0.0.0/-1",  "10.0.0.0/8/8", "10.0.0.0/08",
                                            "10.0/8", "proxy.example"};
        struct network n;

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(wrong); i++)
                if (network_parse(slice_str(wrong[i]), &n))
                        fail_msg("'%s' was taken for a network", wrong[i]);
}

static void a_network_as_it_should_be_written_ends_with_zeros(void **state)
{
        static const struct {
                const char *text;
                bool is_fine;
        } rows[] = {{"10.0.0.0/8", true},   {"10.0.0.1/8", false},   {"10.1.2.3", true},
                    {"10.128.0.0/9", true}, {"10.128.0.0/8", false}, {"::/0", true},
                    {"::1/0", false},       {"fe80::/10", true},     {"fec0::/9", false}};

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                struct network n;
                assert_true(network_parse(slice_str(rows[i].text), &n));
                assert_int_equal(network_ends_with_zeros(&n), rows[i].is_fine);
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(addresses_of_both_kinds_are_sixteen_bytes),
                cmocka_unit_test(what_is_no_address_is_refused),
                cmocka_unit_test(ipv4_is_told_from_ipv6),
                cmocka_unit_test(a_network_has_the_addresses_that_begin_as_it_does),
                cmocka_unit_test(what_is_no_network_is_refused),
                cmocka_unit_test(a_network_as_it_should_be_written_ends_with_zeros),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
