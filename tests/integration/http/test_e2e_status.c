/* /v1/status with more nodes than one turn of the gateway's loop shows: it is written in pieces. */
#include "gateway/door/pages.h"
#include "node/net.h"
#include "rt/loop.h"
#include "tests/helpers/cluster/cluster.h"
#include "tests/helpers/cluster/raw_http.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { READY_MS = 60000, NODES = 3 * GW_PAGES_NODES_A_PIECE + 1, READERS = 12 };

static char url[CLUSTER_ADDRESS_BYTES];
static bt_loop *loop;
static bt_net *net;
static bt_link *link_to_gateway;

static void on_msg(void *ud, const bt_msg *m)
{
    (void)ud;
    (void)m;
}
static void on_bad(void *ud, const bt_fault *why)
{
    (void)ud;
    (void)why;
}

/* The gateway's model, as nodes must name it. */
static void read_model_id(uint8_t ret[16])
{
    json_t *s = cluster_status(url);
    const char *hex = json_string_value(json_object_get(json_object_get(s, "model"), "id"));
    assert_non_null(hex);
    for (int i = 0; i < 16; i++) {
        const char two[] = {hex[2 * i], hex[2 * i + 1], 0};
        ret[i] = (uint8_t)strtoul(two, NULL, 16);
    }
    json_decref(s);
}

static void greet(int i, const uint8_t model_id[16])
{
    bt_fault fault = {""};
    bt_msg m = {.type = BT_MSG_HELLO, .from = {{0xee, (uint8_t)i}}};
    m.u.hello = (bt_msg_hello){.protocol = BT_PROTOCOL_VERSION, .role = BT_ROLE_PREFILL,
                               .kv = {1, 1, 8, BT_KV_F16, 0, 0}, .ctx_tokens = 16, .kv_capacity_tokens = 16};
    memcpy(m.u.hello.model_id, model_id, 16);
    (void)snprintf(m.u.hello.node_id, sizeof m.u.hello.node_id, "node-%d", i);
    (void)snprintf(m.u.hello.exactness, sizeof m.u.hello.exactness, "npu");
    bt_err e = BT_EAGAIN;
    for (const int64_t end = spawn_now_ms() + spawn_patience(READY_MS);
         e == BT_EAGAIN && spawn_before(end);) {
        e = bt_link_send(link_to_gateway, &m, &fault);
        if (e == BT_EAGAIN) (void)bt_loop_step(loop, 1, NULL);
    }
    if (e < 0) fail_msg("HELLO not sent: %s %s", bt_err_name(e), fault.text);
}

static size_t nodes_shown(void)
{
    json_t *s = cluster_status(url);
    const size_t n = json_array_size(json_object_get(s, "nodes"));
    json_decref(s);
    return n;
}

/* A gateway to which NODES nodes have said HELLO. */
static void start(void)
{
    char control[CLUSTER_ADDRESS_BYTES];
    uint8_t model_id[16];
    const bt_link_handler handler = {.on_msg = on_msg, .on_bad = on_bad};
    bt_fault fault = {""};
    spawn *gateway =
        SPAWN("baton-gateway", "-m", spawn_tiny_model(1), "--port", "0", "--control", "tcp://127.0.0.1:*");
    assert_true(cluster_find_gateway(url, control, gateway, spawn_patience(READY_MS)));
    if (bt_loop_new(&loop, &fault) < 0 || bt_net_open(&net, loop, NULL, NULL, BT_PEER_PREFILL, &fault) < 0 ||
        bt_net_dial(&link_to_gateway, net, BT_SOCK_CONTROL_DEALER, control, NULL, &handler, &fault) < 0)
        fail_msg("%s", fault.text);
    read_model_id(model_id);
    for (int i = 0; i < NODES; i++) greet(i, model_id);
    for (const int64_t end = spawn_now_ms() + spawn_patience(READY_MS); nodes_shown() < NODES;)
        assert_true(spawn_before(end));
}

static int end(void **state)
{
    bt_link_free(link_to_gateway);
    bt_net_close(net);
    bt_loop_free(loop);
    return cluster_teardown(state);
}

static void check_all_nodes_once(client *c)
{
    bool seen[NODES] = {false};
    const json_t *nodes = json_object_get(client_json(c), "nodes");
    assert_int_equal(json_array_size(nodes), NODES);
    for (size_t i = 0; i < NODES; i++) {
        const char *id = json_string_value(json_object_get(json_array_get(nodes, i), "id"));
        const int n = atoi(id + strlen("node-"));
        assert_true(n >= 0 && n < NODES && !seen[n]);
        seen[n] = true;
    }
    assert_non_null(json_object_get(client_json(c), "queue"));
}

static void every_reader_gets_every_node_once(void **state)
{
    (void)state;
    client *c[READERS];
    start();
    for (int i = 0; i < READERS; i++) c[i] = client_get(url, "/v1/status");
    for (int i = 0; i < READERS; i++) {
        assert_true(client_wait(c[i], spawn_patience(READY_MS)));
        assert_int_equal(client_status(c[i]), 200);
        check_all_nodes_once(c[i]);
    }
}

/* Some go between two pieces of their pages. */
static void readers_may_go_before_their_page_is_whole(void **state)
{
    (void)state;
    static const char request[] = "GET /v1/status HTTP/1.1\r\nHost: x\r\n\r\n";
    start();
    for (int i = 0; i < 100; i++) {
        const int fd = raw_dial(url);
        assert_true(fd >= 0 && raw_say(fd, request, sizeof request - 1));
        (void)close(fd);
    }
    client *c = client_get(url, "/v1/status");
    assert_true(client_wait(c, spawn_patience(READY_MS)));
    check_all_nodes_once(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(every_reader_gets_every_node_once, end),
        cmocka_unit_test_teardown(readers_may_go_before_their_page_is_whole, end),
    };
    return cmocka_run_group_tests_name("status", tests, cluster_group_begin, cluster_group_end);
}
