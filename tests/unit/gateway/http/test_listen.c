/* Whom an address stands for. */
#include "gateway/http/listen.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <cmocka.h>

static uint64_t number(const char *text)
{
    struct sockaddr_in a4 = {.sin_family = AF_INET, .sin_port = htons(7)};
    struct sockaddr_in6 a6 = {.sin6_family = AF_INET6, .sin6_port = htons(9)};
    if (inet_pton(AF_INET, text, &a4.sin_addr) == 1) return gw_listen_number((const struct sockaddr *)&a4);
    assert_int_equal(inet_pton(AF_INET6, text, &a6.sin6_addr), 1);
    return gw_listen_number((const struct sockaddr *)&a6);
}

static void every_ip4_address_and_every_ip6_network_is_somebody(void **state)
{
    (void)state;
    static const char *const all[] = {"127.0.0.1", "127.0.0.2",     "10.0.0.1", "255.255.255.255",  "0.0.0.0",
                                      "fe80::1",   "2001:db8:1::1", "fd00::1",  "2001:db8:1:2:3::1"};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        assert_true(number(all[i]) != 0);
        for (size_t j = 0; j < i; j++) assert_true(number(all[i]) != number(all[j]));
    }
}

static void addresses_of_one_network_and_both_forms_of_an_ip4_address_are_one(void **state)
{
    (void)state;
    assert_true(number("2001:db8:1:2::1") == number("2001:db8:1:2:ffff:ffff:ffff:ffff"));
    assert_true(number("2001:db8:1:2::1") != number("2001:db8:1:3::1"));
    assert_true(number("::ffff:10.0.0.1") == number("10.0.0.1"));
    assert_true(number("::1") != 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_ip4_address_and_every_ip6_network_is_somebody),
        cmocka_unit_test(addresses_of_one_network_and_both_forms_of_an_ip4_address_are_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
