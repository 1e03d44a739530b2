/* Links over real sockets: who is answered by which way, what is dropped and counted, and what a key may
 * say. */
#include "node/link.h"
#include "base/clock.h"
#include "base/file.h"
#include "crypto/keys_generate.h"
#include "node/net.h"
#include "tests/helpers/temp_folder.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { DEADLINE_US = 10000000, PEERS = 3 };

/* One end: what it heard. */
typedef struct end {
    bt_link *link;
    int msgs, blocks, bads;
    bt_msg_type type;
    bt_peer_key key;
    bool is_anothers_name;
    char sender[64]; /* its address and the name of its key */
    char why[256];
} end;

static bt_loop *loop;
static bt_net *net;
static end here, there[PEERS];
static char endpoint[BT_SOCK_ENDPOINT_BYTES];

static void on_msg(void *ud, const bt_msg *m)
{
    end *e = ud;
    e->msgs++;
    e->type = m->type;
    e->key = m->from_key;
    e->is_anothers_name = m->is_anothers_name;
    snprintf(e->sender, sizeof e->sender, "%s %s", m->from_address ? m->from_address : "nowhere",
             m->from_name ? m->from_name : "nobody");
}

static void on_block(void *ud, const bt_kv_header *h, const uint8_t *body, const bt_peer_key *from_key)
{
    end *e = ud;
    (void)h, (void)body, (void)from_key;
    e->blocks++;
}

static void on_bad(void *ud, const bt_fault *why)
{
    end *e = ud;
    e->bads++;
    snprintf(e->why, sizeof e->why, "%s", why->text);
}

static void on_ready(void *ud, unsigned events)
{
    end *e = ud;
    (void)events;
    bt_link_receive(e->link, 64);
}

static bt_link_handler handler(end *e, bool takes_blocks)
{
    return (bt_link_handler){.on_msg = on_msg, .on_block = takes_blocks ? on_block : NULL, .on_bad = on_bad,
                             .ud = e};
}

static void watch(end *e)
{
    uint64_t id;
    assert_int_equal(bt_loop_add_socket(&id, loop, bt_link_socket(e->link), BT_LOOP_IN, on_ready, e), BT_OK);
}

static void dial(end *e, bt_net *from)
{
    bt_fault fault;
    const bt_link_handler h = handler(e, false);
    bt_peer_key server;
    memset(e, 0, sizeof *e);
    if (bt_net_find_key(&server, from, BT_PEER_GATEWAY, NULL, &fault) < 0 ||
        bt_net_dial(&e->link, from, BT_SOCK_CONTROL_DEALER, endpoint, &server, &h, &fault) < 0)
        fail_msg("%s", fault.text);
    watch(e);
}

/* Rounds of the loop until *count is n. */
static void wait_for(const int *count, int n)
{
    bt_fault fault;
    for (const int64_t until = bt_clock_us() + DEADLINE_US; *count < n;) {
        if (bt_clock_us() > until) fail_msg("%d of %d came; the last complaint: %s", *count, n, here.why);
        assert_int_equal(bt_loop_step(loop, 10, &fault), BT_OK);
    }
    assert_int_equal(*count, n);
}

static bt_incarnation name(uint32_t n)
{
    bt_incarnation i = {{0xaa}};
    memcpy(i.bytes + 4, &n, sizeof n);
    return i;
}

/* A dialling socket takes nothing before it is connected. */
static void send(end *e, bt_msg *m)
{
    bt_fault fault = {""};
    bt_err err = BT_EAGAIN;
    for (const int64_t until = bt_clock_us() + DEADLINE_US; err == BT_EAGAIN && bt_clock_us() < until;) {
        err = bt_link_send(e->link, m, &fault);
        if (err == BT_EAGAIN) assert_int_equal(bt_loop_step(loop, 1, NULL), BT_OK);
    }
    if (err < 0) fail_msg("%s not sent: %s %s", bt_msg_type_name(m->type), bt_err_name(err), fault.text);
}

static void beat(end *e, uint32_t from)
{
    send(e, &(bt_msg){.type = BT_MSG_HEARTBEAT, .from = name(from), .to = name(0)});
}

static void hello_as(end *e, uint32_t from, bt_role role, const char *id)
{
    bt_msg m = {.type = BT_MSG_HELLO, .from = name(from)};
    m.u.hello = (bt_msg_hello){
        .protocol = BT_PROTOCOL_VERSION,  .role = role,     .node_id = "node",       .model_id = {1},
        .kv = {1, 1, 8, BT_KV_F16, 0, 0}, .ctx_tokens = 16, .kv_capacity_tokens = 16};
    if (role == BT_ROLE_DECODE) strcpy(m.u.hello.kv_endpoint, "tcp://127.0.0.1:1");
    snprintf(m.u.hello.node_id, sizeof m.u.hello.node_id, "%s", id);
    send(e, &m);
}

static void hello(end *e, uint32_t from, bt_role role) { hello_as(e, from, role, "node"); }

static int open_plain(void **state)
{
    static int count;
    bt_fault fault;
    char at[64];
    (void)state;
    const bt_link_handler h = handler(&here, false);
    memset(&here, 0, sizeof here);
    memset(there, 0, sizeof there);
    snprintf(at, sizeof at, "inproc://link-%d", ++count);
    if (bt_loop_new(&loop, &fault) < 0 || bt_net_open(&net, loop, NULL, NULL, BT_PEER_GATEWAY, &fault) < 0 ||
        bt_net_listen(&here.link, endpoint, net, BT_SOCK_CONTROL_ROUTER, at, BT_PEER_PREFILL, &h, &fault) < 0)
        return -1;
    watch(&here);
    return 0;
}

static int close_plain(void **state)
{
    (void)state;
    for (int i = 0; i < PEERS; i++) bt_link_free(there[i].link);
    bt_link_free(here.link);
    bt_net_close(net);
    bt_loop_free(loop);
    return 0;
}

static void answers_by_the_way_an_incarnation_was_heard_last(void **state)
{
    (void)state;
    dial(&there[0], net);
    dial(&there[1], net);
    bt_msg m = {.type = BT_MSG_BYE, .from = name(0), .to = name(1)};
    bt_fault fault;
    assert_int_equal(bt_link_send(here.link, &m, &fault), BT_EIO); /* not heard yet */
    beat(&there[0], 1);
    wait_for(&here.msgs, 1);
    send(&here, &m);
    wait_for(&there[0].msgs, 1);
    beat(&there[1], 1); /* the same process by a new connection: no HELLO is needed */
    wait_for(&here.msgs, 2);
    send(&here, &m);
    wait_for(&there[1].msgs, 1);
    assert_int_equal(there[0].msgs, 1);
    assert_int_equal(bt_link_counters_of(here.link)->unsent, 1);
    assert_int_equal(bt_link_counters_of(here.link)->received, 2);
    assert_int_equal(bt_link_counters_of(here.link)->sent, 2);
}

static void garbage_is_counted_and_costs_the_next_message_nothing(void **state)
{
    (void)state;
    dial(&there[0], net);
    beat(&there[0], 1);
    for (size_t n = 1; n <= BT_SOCK_FRAMES_MAX + 2; n++) {
        bt_sock_frame frames[BT_SOCK_FRAMES_MAX + 2];
        for (size_t i = 0; i < n; i++)
            assert_int_equal(bt_sock_frame_copy(&frames[i], "BTN1 is not all of it", 21), BT_OK);
        assert_int_equal(bt_sock_send_frames(bt_link_socket(there[0].link), frames, n), BT_OK);
        beat(&there[0], 1);
    }
    wait_for(&here.msgs, BT_SOCK_FRAMES_MAX + 3);
    assert_int_equal(bt_link_counters_of(here.link)->bad, BT_SOCK_FRAMES_MAX + 2);
    assert_int_equal(here.bads, BT_SOCK_FRAMES_MAX + 2);
    assert_int_equal(here.blocks, 0);
}

static void nobody_who_invents_incarnations_pushes_others_out(void **state)
{
    (void)state;
    bt_fault fault;
    dial(&there[0], net);
    dial(&there[1], net);
    beat(&there[0], 1);
    wait_for(&here.msgs, 1);
    for (uint32_t i = 2; i <= 3000; i++) {
        beat(&there[1], i);
        wait_for(&here.msgs, (int)i);
    }
    bt_msg m = {.type = BT_MSG_BYE, .from = name(0), .to = name(1)};
    send(&here, &m); /* silent for longer than any of the others, and still known */
    wait_for(&there[0].msgs, 1);
    m.to = name(3000 - BT_LINK_PEER_ROUTES);
    assert_int_equal(bt_link_send(here.link, &m, &fault), BT_EIO);
    m.to = name(3000 - BT_LINK_PEER_ROUTES + 1);
    send(&here, &m);
    m.to = name(3000);
    send(&here, &m);
    wait_for(&there[1].msgs, 2);
}

static void the_peer_silent_for_longest_makes_room(void **state)
{
    (void)state;
    enum { CONNECTIONS = BT_LINK_MAX_ROUTES / BT_LINK_PEER_ROUTES + 1 };
    end *many = calloc(CONNECTIONS, sizeof *many);
    bt_fault fault;
    uint32_t n = 0;
    assert_non_null(many);
    for (int c = 0; c < CONNECTIONS; c++) {
        dial(&many[c], net);
        for (int i = 0; i < BT_LINK_PEER_ROUTES && n <= BT_LINK_MAX_ROUTES; i++) {
            if (n == BT_LINK_MAX_ROUTES) { /* the table is full: 1 speaks again, now 2 is the silent one */
                beat(&many[0], 1);
                wait_for(&here.msgs, (int)n + 1);
            }
            beat(&many[c], ++n);
            wait_for(&here.msgs, (int)n + (n > BT_LINK_MAX_ROUTES));
        }
    }
    bt_msg m = {.type = BT_MSG_BYE, .from = name(0), .to = name(2)};
    assert_int_equal(bt_link_send(here.link, &m, &fault), BT_EIO);
    m.to = name(1);
    send(&here, &m);
    m.to = name(n);
    send(&here, &m);
    wait_for(&many[0].msgs, 1);
    wait_for(&many[CONNECTIONS - 1].msgs, 1);
    for (int c = 0; c < CONNECTIONS; c++) bt_link_free(many[c].link);
    free(many);
}

/* ---- with keys ---- */

static char dir[TEMP_FOLDER_BYTES];

static void refuses_to_dial_a_key_of_another_role(bt_net *from)
{
    static const bt_peer_key stranger = {{1, 2, 3}};
    bt_link *link = NULL;
    bt_peer_key key;
    const bt_link_handler h = handler(&here, false);
    bt_fault fault = {""};
    assert_int_equal(bt_net_find_key(&key, from, BT_PEER_GATEWAY, NULL, &fault), BT_OK);
    assert_int_equal(bt_net_dial(&link, from, BT_SOCK_BULK_DEALER, "tcp://127.0.0.1:9", &key, &h, &fault),
                     BT_EAUTH);
    assert_int_equal(bt_net_find_key(&key, from, BT_PEER_DECODE, NULL, &fault), BT_OK);
    assert_int_equal(bt_net_dial(&link, from, BT_SOCK_CONTROL_DEALER, "tcp://127.0.0.1:9", &key, &h, &fault),
                     BT_EAUTH);
    assert_int_equal(
        bt_net_dial(&link, from, BT_SOCK_BULK_DEALER, "tcp://127.0.0.1:9", &stranger, &h, &fault), BT_EAUTH);
    assert_int_equal(bt_net_dial(&link, from, BT_SOCK_BULK_DEALER, "tcp://127.0.0.1:9", NULL, &h, &fault),
                     BT_EAUTH);
    assert_null(link);
}

static void a_hello_under_the_name_of_another_key_is_told(bt_net *const nets[3])
{
    static const char *const ids[] = {"node", "decode", "prefill", "gateway"};
    bt_fault fault = {""};
    for (int i = 0; i < 4; i++) {
        const int msgs = here.msgs;
        hello_as(&there[2], 2, BT_ROLE_DECODE, ids[i]);
        wait_for(&here.msgs, msgs + 1);
        assert_int_equal(here.is_anothers_name, i >= 2);
        assert_string_equal(here.sender, "127.0.0.1 decode");
        assert_int_equal(bt_net_check_id(nets[2], ids[i], &fault), i >= 2 ? BT_EAUTH : BT_OK);
    }
}

/* The connection stays, but nothing passes in either direction; the others go on, and so does this one
 * when its line is back. */
static void a_key_taken_out_of_the_list_is_cut_off(bt_net *gateway)
{
    char path[128], text[4096], less[4096];
    size_t keys = 0;
    bt_fault fault = {""};
    snprintf(path, sizeof path, "%s/allow", dir);
    FILE *f = fopen(path, "re");
    assert_non_null(f);
    text[fread(text, 1, sizeof text - 1, f)] = 0;
    fclose(f);
    char *line = strstr(text, " prefill prefill\n");
    assert_non_null(line);
    snprintf(less, sizeof less, "%.*s%s", (int)(line - 40 - text), text, line + strlen(" prefill prefill\n"));
    assert_int_equal(bt_file_replace(path, less, strlen(less), 0644, &fault), BT_OK);
    assert_int_equal(bt_net_reload(&keys, gateway, &fault), BT_OK);
    assert_int_equal(keys, 2);
    const int msgs = here.msgs, bads = here.bads;
    beat(&there[1], 1);
    wait_for(&here.bads, bads + 1);
    assert_non_null(strstr(here.why, "not in the allow list"));
    assert_int_equal(bt_link_send(here.link, &(bt_msg){.type = BT_MSG_BYE, .from = name(0), .to = name(1)},
                                  &fault),
                     BT_EAUTH);
    beat(&there[2], 2);
    wait_for(&here.msgs, msgs + 1);
    assert_int_equal(bt_file_replace(path, "broken", 6, 0644, &fault), BT_OK);
    assert_int_equal(bt_net_reload(&keys, gateway, &fault), BT_EFORMAT);
    beat(&there[2], 2); /* the list is as it was */
    wait_for(&here.msgs, msgs + 2);
    assert_int_equal(bt_file_replace(path, text, strlen(text), 0644, &fault), BT_OK);
    assert_int_equal(bt_net_reload(&keys, gateway, &fault), BT_OK);
    beat(&there[1], 1);
    wait_for(&here.msgs, msgs + 3);
}

static void a_key_speaks_only_in_its_role_and_under_its_own_incarnation(void **state)
{
    (void)state;
    static const char *const names[] = {"gateway", "prefill", "decode", NULL};
    static const bt_peer_role roles[] = {BT_PEER_GATEWAY, BT_PEER_PREFILL, BT_PEER_DECODE};
    bt_net *nets[3] = {0};
    bt_fault fault;
    const bt_link_handler h = handler(&here, false);
    memset(&here, 0, sizeof here);
    assert_true(temp_folder_new(dir));
    assert_int_equal(bt_keys_generate(dir, names, &fault), BT_OK);
    assert_int_equal(bt_loop_new(&loop, &fault), BT_OK);
    for (int i = 0; i < 3; i++)
        if (bt_net_open(&nets[i], loop, dir, names[i], roles[i], &fault) < 0) fail_msg("%s", fault.text);
    if (bt_net_listen(&here.link, endpoint, nets[0], BT_SOCK_CONTROL_ROUTER, "tcp://127.0.0.1:*",
                      BT_PEER_PREFILL | BT_PEER_DECODE, &h, &fault) < 0)
        fail_msg("%s", fault.text);
    watch(&here);
    for (int i = 0; i < 3; i++) dial(&there[i], nets[i]);
    const bt_link_counters *n = bt_link_counters_of(here.link);
    bt_peer_key key;
    hello(&there[1], 1, BT_ROLE_PREFILL);
    wait_for(&here.msgs, 1);
    assert_int_equal(bt_net_find_key(&key, nets[0], BT_PEER_PREFILL, "prefill", &fault), BT_OK);
    assert_memory_equal(&here.key, &key, sizeof key);
    hello(&there[1], 1, BT_ROLE_DECODE); /* with the key of a prefill node */
    wait_for(&here.bads, 1);
    beat(&there[2], 1); /* the prefill node's incarnation, with the key of a decode node */
    wait_for(&here.bads, 2);
    beat(&there[0], 3); /* a gateway has nothing to say here */
    wait_for(&here.bads, 3);
    hello(&there[2], 2, BT_ROLE_DECODE);
    wait_for(&here.msgs, 2);
    assert_int_equal(n->forbidden, 3);
    assert_int_equal(n->bad, 0);
    send(&here, &(bt_msg){.type = BT_MSG_BYE, .from = name(0), .to = name(1)});
    wait_for(&there[1].msgs, 1); /* and not to the one who claimed to be it */
    assert_int_equal(there[2].msgs, 0);
    assert_int_equal(bt_net_find_key(&key, nets[0], BT_PEER_GATEWAY, NULL, &fault), BT_OK);
    assert_memory_equal(&there[1].key, &key, sizeof key);
    refuses_to_dial_a_key_of_another_role(nets[1]);
    a_hello_under_the_name_of_another_key_is_told(nets);
    a_key_taken_out_of_the_list_is_cut_off(nets[0]);
    for (int i = 0; i < 3; i++) bt_link_free(there[i].link);
    bt_link_free(here.link);
    for (int i = 3; i-- > 0;) bt_net_close(nets[i]);
    bt_loop_free(loop);
}

static int remove_keys(void **state)
{
    (void)state;
    return temp_folder_remove(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(answers_by_the_way_an_incarnation_was_heard_last, open_plain,
                                        close_plain),
        cmocka_unit_test_setup_teardown(garbage_is_counted_and_costs_the_next_message_nothing, open_plain,
                                        close_plain),
        cmocka_unit_test_setup_teardown(nobody_who_invents_incarnations_pushes_others_out, open_plain,
                                        close_plain),
        cmocka_unit_test_setup_teardown(the_peer_silent_for_longest_makes_room, open_plain, close_plain),
        cmocka_unit_test_teardown(a_key_speaks_only_in_its_role_and_under_its_own_incarnation, remove_keys),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
