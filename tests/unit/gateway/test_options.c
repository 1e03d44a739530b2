/* The gateway's settings: defaults, and what is refused because it would open the network without a key. */
#include "gateway/brain/brain.h"
#include "gateway/options.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

static bt_err check(const char *a, const char *b, const char *c, const char *d, bt_fault *f)
{
    const char *argv[] = {"baton-gateway", "-m", "x.gguf", a, b, c, d, NULL};
    int argc = 3;
    while (argv[argc]) argc++;
    gw_options o;
    bt_opt_args args;
    assert_int_equal(bt_opt_parse(&args, &gw_options_program, argc, (char **)argv, &o, f), BT_OK);
    const bt_err e = gw_options_check(&o, f);
    bt_opt_done(&args);
    return e;
}

static void starts_on_loopback_with_the_documented_defaults(void **state)
{
    (void)state;
    const char *argv[] = {"baton-gateway", "--model=x.gguf", NULL};
    gw_options o;
    bt_opt_args args;
    bt_fault f;
    assert_int_equal(bt_opt_parse(&args, &gw_options_program, 2, (char **)argv, &o, &f), BT_OK);
    assert_string_equal(o.host, "127.0.0.1");
    assert_int_equal(o.port, 8080);
    assert_string_equal(o.control, "tcp://127.0.0.1:5600");
    assert_int_equal(o.max_queue, 64);
    assert_int_equal(o.max_active, gw_config_defaults().active_max);
    assert_int_equal(o.max_nodes, gw_config_defaults().nodes_max);
    assert_int_equal(o.max_body_bytes, 4 << 20);
    assert_int_equal(o.timeout_ms, 600000);
    assert_int_equal(o.drain_ms, 30000);
    assert_int_equal(gw_options_check(&o, &f), BT_OK);
    bt_opt_done(&args);
}

static void refuses_to_open_the_network_without_a_key(void **state)
{
    (void)state;
    bt_fault f;
    assert_int_equal(check("--host", "0.0.0.0", NULL, NULL, &f), BT_EARG);
    assert_non_null(strstr(f.text, "--api-key-file"));
    assert_int_equal(check("--host", "0.0.0.0", "--insecure", NULL, &f), BT_OK);
    assert_int_equal(check("--host", "0.0.0.0", "--api-key-file", "k", &f), BT_OK);
    assert_int_equal(check("--host", "::1", NULL, NULL, &f), BT_OK);
    assert_int_equal(check("--host", "localhost", NULL, NULL, &f), BT_OK);
    assert_int_equal(check("--control", "tcp://*:5600", NULL, NULL, &f), BT_EARG);
    assert_non_null(strstr(f.text, "--keys"));
    assert_int_equal(check("--control", "tcp://0.0.0.0:5600", "--insecure", NULL, &f), BT_EARG);
    assert_int_equal(check("--control", "tcp://*:5600", "--keys", "dir", &f), BT_OK);
    assert_int_equal(check("--control", "ipc:///run/x", NULL, NULL, &f), BT_OK);
    assert_int_equal(check("--control", "tcp://[::1]:5600", NULL, NULL, &f), BT_OK);
    assert_int_equal(check("--control", "localhost:5600", NULL, NULL, &f), BT_EARG);
}

static void a_certificate_and_its_key_come_together(void **state)
{
    (void)state;
    bt_fault f = {""};
    assert_int_equal(check("--tls-cert", "a.pem", "--tls-key", "b.pem", &f), BT_OK);
    assert_int_equal(check("--tls-cert", "a.pem", NULL, NULL, &f), BT_EARG);
    assert_non_null(strstr(f.text, "--tls-cert needs --tls-key FILE"));
    assert_int_equal(check("--tls-key", "b.pem", NULL, NULL, &f), BT_EARG);
    assert_non_null(strstr(f.text, "--tls-key needs --tls-cert FILE"));
}

static void an_origin_for_cors_is_one(void **state)
{
    (void)state;
    bt_fault f;
    assert_int_equal(check("--cors", "https://chat.example", NULL, NULL, &f), BT_OK);
    assert_int_equal(check("--cors", "*", NULL, NULL, &f), BT_OK);
    assert_int_equal(check("--cors", "https://chat.example/", NULL, NULL, &f), BT_EARG);
    assert_non_null(strstr(f.text, "--cors 'https://chat.example/'"));
}

/* The behaviour of a gateway with these options; NULL ends them. */
static gw_options read(const char *a, const char *b, const char *c, const char *d)
{
    const char *argv[] = {"baton-gateway", "-m", "x.gguf", a, b, c, d, NULL};
    int argc = 3;
    while (argv[argc]) argc++;
    gw_options o;
    bt_opt_args args;
    bt_fault f;
    assert_int_equal(bt_opt_parse(&args, &gw_options_program, argc, (char **)argv, &o, &f), BT_OK);
    bt_opt_done(&args);
    return o;
}

static void metrics_are_open_on_loopback_and_need_a_key_elsewhere(void **state)
{
    (void)state;
    gw_options o = read(NULL, NULL, NULL, NULL);
    assert_int_equal(gw_options_metrics(&o), GW_METRICS_OPEN);
    o = read("--api-key-file", "k", NULL, NULL);
    assert_int_equal(gw_options_metrics(&o), GW_METRICS_OPEN);
    o = read("--api-key-file", "k", "--host", "0.0.0.0");
    assert_int_equal(gw_options_metrics(&o), GW_METRICS_KEY);
    o = read("--insecure", "--host", "0.0.0.0", NULL);
    assert_int_equal(gw_options_metrics(&o), GW_METRICS_OPEN);
    o = read("--metrics=key", "--api-key-file", "k", NULL);
    assert_int_equal(gw_options_metrics(&o), GW_METRICS_KEY);
    o = read("--metrics", "off", NULL, NULL);
    assert_int_equal(gw_options_metrics(&o), GW_METRICS_OFF);
    o = read("--no-metrics", NULL, NULL, NULL);
    assert_int_equal(gw_options_metrics(&o), GW_METRICS_OFF);
}

static void nodes_are_chosen_by_all_or_where_there_are_keys_by_admins(void **state)
{
    (void)state;
    gw_options o = read(NULL, NULL, NULL, NULL);
    assert_int_equal(gw_options_node_choice(&o), GW_CHOICE_ALL);
    o = read("--api-key-file", "k", NULL, NULL);
    assert_int_equal(gw_options_node_choice(&o), GW_CHOICE_ADMIN);
    o = read("--api-key-file", "k", "--node-choice", "all");
    assert_int_equal(gw_options_node_choice(&o), GW_CHOICE_ALL);
    o = read("--node-choice", "none", NULL, NULL);
    assert_int_equal(gw_options_node_choice(&o), GW_CHOICE_NONE);
}

static void shares_are_of_keys_else_of_addresses_and_on_loopback_of_nobody(void **state)
{
    (void)state;
    gw_options o = read(NULL, NULL, NULL, NULL);
    assert_int_equal(gw_options_share_by(&o), GW_SHARE_NONE);
    o = read("--insecure", "--host", "0.0.0.0", NULL);
    assert_int_equal(gw_options_share_by(&o), GW_SHARE_ADDRESS);
    o = read("--api-key-file", "k", NULL, NULL);
    assert_int_equal(gw_options_share_by(&o), GW_SHARE_KEY);
    o = read("--api-key-file", "k", "--share-by", "none");
    assert_int_equal(gw_options_share_by(&o), GW_SHARE_NONE);
}

static void a_role_without_keys_and_metrics_both_ways_are_refused(void **state)
{
    (void)state;
    bt_fault f;
    assert_int_equal(check("--metrics", "key", NULL, NULL, &f), BT_EARG);
    assert_non_null(strstr(f.text, "--metrics key needs --api-key-file"));
    assert_int_equal(check("--node-choice", "admin", NULL, NULL, &f), BT_EARG);
    assert_non_null(strstr(f.text, "--node-choice admin needs --api-key-file"));
    assert_int_equal(check("--share-by", "key", NULL, NULL, &f), BT_EARG);
    assert_non_null(strstr(f.text, "--share-by key needs --api-key-file"));
    assert_int_equal(check("--no-metrics", "--metrics", "open", NULL, &f), BT_EARG);
    assert_non_null(strstr(f.text, "exclude each other"));
    assert_int_equal(check("--no-metrics", "--metrics", "off", NULL, &f), BT_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(starts_on_loopback_with_the_documented_defaults),
        cmocka_unit_test(a_certificate_and_its_key_come_together),
        cmocka_unit_test(an_origin_for_cors_is_one),
        cmocka_unit_test(refuses_to_open_the_network_without_a_key),
        cmocka_unit_test(metrics_are_open_on_loopback_and_need_a_key_elsewhere),
        cmocka_unit_test(nodes_are_chosen_by_all_or_where_there_are_keys_by_admins),
        cmocka_unit_test(shares_are_of_keys_else_of_addresses_and_on_loopback_of_nobody),
        cmocka_unit_test(a_role_without_keys_and_metrics_both_ways_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
