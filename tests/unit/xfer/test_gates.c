/* The messages of a node to its gateways, and the part of theirs that it passes on. */
#include "xfer/gates.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

enum { GATES = 2, SENT_MAX = 16, NODE = 9 };

/* A brain of nothing but gates. */
typedef struct node {
    bt_gates gates;
    bt_msg_hello hello;
    struct {
        uint32_t gate;
        bt_msg msg;
    } sent[SENT_MAX];
    size_t sent_len;
} node;

static bt_msg *send_to(void *brain, uint32_t gate)
{
    node *n = brain;
    assert_true(n->sent_len < SENT_MAX);
    memset(&n->sent[n->sent_len], 0, sizeof n->sent[0]);
    n->sent[n->sent_len].gate = gate;
    return &n->sent[n->sent_len++].msg;
}

static bt_load load_of(const void *brain)
{
    (void)brain;
    return (bt_load){.slots_total = 4, .slots_used = 3};
}

static void setup(node *n)
{
    memset(n, 0, sizeof *n);
    strcpy(n->hello.node_id, "n1");
    n->hello.role = BT_ROLE_GATEWAY; /* the node's own role is told, whatever is here */
    n->gates = (bt_gates){.self = {{NODE}},       .role = BT_ROLE_DECODE,
                          .len = GATES,           .times = {500, 2000, 500, 5000},
                          .hello = &n->hello,     .brain = n,
                          .send = send_to,        .load = load_of,
                          .role_may = BT_ROLE_MAY};
}

static bt_gates_news hear(node *n, uint32_t gate, bt_msg m, uint8_t from, uint8_t to)
{
    n->sent_len = 0;
    m.from.bytes[0] = from;
    m.to.bytes[0] = to;
    return bt_gates_msg(&n->gates, gate, &m, 0);
}

/* The gateway behind each gate is the process 1 + gate. */
static void make_known(node *n)
{
    bt_gates_tick(&n->gates, 0);
    for (uint32_t g = 0; g < GATES; g++)
        assert_int_equal(hear(n, g, (bt_msg){.type = BT_MSG_WELCOME}, (uint8_t)(1 + g), NODE),
                         BT_GATES_NOTHING);
    n->sent_len = 0;
}

static void greets_every_gateway_and_beats_once_it_is_welcome(void **state)
{
    (void)state;
    node n;
    setup(&n);
    assert_int_equal(bt_gates_due_us(&n.gates), 0);
    bt_gates_tick(&n.gates, 0);
    assert_int_equal(n.sent_len, GATES);
    for (uint32_t g = 0; g < GATES; g++) {
        const bt_msg *m = &n.sent[g].msg;
        assert_int_equal(n.sent[g].gate, g);
        assert_int_equal(m->type, BT_MSG_HELLO);
        assert_int_equal(m->from.bytes[0], NODE);
        assert_int_equal(m->to.bytes[0], 0);
        assert_string_equal(m->u.hello.node_id, "n1");
        assert_int_equal(m->u.hello.protocol, BT_PROTOCOL_VERSION);
        assert_int_equal(m->u.hello.role, BT_ROLE_DECODE);
        assert_int_equal(m->u.hello.load.slots_used, 3);
        assert_false(m->u.hello.draining);
    }
    assert_int_equal(bt_gates_due_us(&n.gates), 500);
    assert_false(bt_gates_is_welcome(&n.gates));
    assert_int_equal(hear(&n, 1, (bt_msg){.type = BT_MSG_WELCOME}, 2, NODE), BT_GATES_NOTHING);
    assert_true(bt_gates_is_welcome(&n.gates));
    assert_int_equal(n.sent_len, 1);
    assert_int_equal(n.sent[0].gate, 1);
    assert_int_equal(n.sent[0].msg.type, BT_MSG_HEARTBEAT);
    assert_int_equal(n.sent[0].msg.to.bytes[0], 2);
    assert_int_equal(n.sent[0].msg.u.heartbeat.load.slots_total, 4);
}

static void a_message_about_an_attempt_goes_to_its_owner_or_nowhere(void **state)
{
    (void)state;
    node n;
    setup(&n);
    const bt_request_ref theirs = {{{2}}, 5, 1}, nobodys = {{{3}}, 5, 1}, of_zero = {{{0}}, 5, 1};
    bt_gates_tick(&n.gates, 0);
    assert_null(bt_gates_to_owner(&n.gates, &of_zero, BT_MSG_ABORT_ACK));
    make_known(&n);
    assert_null(bt_gates_to_owner(&n.gates, &nobodys, BT_MSG_ABORT_ACK));
    bt_gates_failed(&n.gates, &nobodys, BT_EIO, "lost");
    assert_int_equal(n.sent_len, 0);
    bt_gates_failed(&n.gates, &theirs, BT_EIO, "lost");
    bt_gates_refused(&n.gates, &theirs, BT_MSG_RESERVE, BT_EAGAIN, 100, "full");
    assert_int_equal(n.sent_len, 2);
    const bt_msg *f = &n.sent[0].msg, *r = &n.sent[1].msg;
    assert_int_equal(n.sent[0].gate, 1);
    assert_int_equal(f->type, BT_MSG_FAILED);
    assert_memory_equal(&f->ref, &theirs, sizeof theirs);
    assert_int_equal(f->to.bytes[0], 2);
    assert_int_equal(f->u.failed.code, BT_EIO);
    assert_string_equal(f->u.failed.text, "lost");
    assert_int_equal(r->type, BT_MSG_REFUSED);
    assert_int_equal(r->u.refused.of, BT_MSG_RESERVE);
    assert_int_equal(r->u.refused.code, BT_EAGAIN);
    assert_int_equal(r->u.refused.retry_after_ms, 100);
    assert_string_equal(r->u.refused.text, "full");
}

static void passes_on_only_what_an_owner_says_of_its_own_attempts(void **state)
{
    (void)state;
    node n;
    setup(&n);
    make_known(&n);
    const bt_request_ref own = {{{1}}, 5, 1}, foreign = {{{2}}, 5, 1}, without = {{{1}}, 5, 0};
    assert_int_equal(hear(&n, 0, (bt_msg){.type = BT_MSG_RENEW, .ref = own}, 1, NODE), BT_GATES_REQUEST);
    assert_int_equal(hear(&n, 0, (bt_msg){.type = BT_MSG_RENEW, .ref = foreign}, 1, NODE),
                     BT_GATES_UNEXPECTED);
    assert_int_equal(hear(&n, 0, (bt_msg){.type = BT_MSG_RENEW, .ref = without}, 1, NODE),
                     BT_GATES_UNEXPECTED);
    assert_int_equal(hear(&n, 0, (bt_msg){.type = BT_MSG_HEARTBEAT}, 1, NODE), BT_GATES_NOTHING);
    assert_int_equal(n.sent_len, 0);
    assert_int_equal(hear(&n, GATES, (bt_msg){.type = BT_MSG_RENEW, .ref = own}, 1, NODE), BT_GATES_NOTHING);
}

static void greets_again_whoever_means_another_or_is_another(void **state)
{
    (void)state;
    node n;
    setup(&n);
    make_known(&n);
    const bt_request_ref own = {{{1}}, 5, 1};
    assert_int_equal(hear(&n, 0, (bt_msg){.type = BT_MSG_RENEW, .ref = own}, 1, NODE + 1), BT_GATES_MISSENT);
    assert_int_equal(n.sent_len, 1);
    assert_int_equal(n.sent[0].msg.type, BT_MSG_HELLO);
    const bt_request_ref newer = {{{8}}, 1, 1};
    assert_int_equal(hear(&n, 1, (bt_msg){.type = BT_MSG_RESERVE, .ref = newer}, 8, NODE), BT_GATES_NOTHING);
    assert_int_equal(n.sent[0].msg.type, BT_MSG_HELLO);
}

static void says_that_a_refusal_is_to_be_logged(void **state)
{
    (void)state;
    node n;
    setup(&n);
    bt_gates_tick(&n.gates, 0);
    const bt_msg no = {.type = BT_MSG_REJECT, .u.reject.code = BT_EFORMAT};
    assert_int_equal(hear(&n, 0, no, 1, NODE), BT_GATES_REFUSED);
    assert_int_equal(n.sent_len, 0);
}

static void answers_a_wish_for_its_role_and_drains_for_it_once(void **state)
{
    (void)state;
    node n;
    setup(&n);
    make_known(&n);
    const bt_msg same = {.type = BT_MSG_ROLE, .u.role.role = BT_ROLE_DECODE};
    const bt_msg other = {.type = BT_MSG_ROLE, .u.role.role = BT_ROLE_PREFILL};
    assert_int_equal(hear(&n, 0, same, 1, NODE), BT_GATES_NOTHING);
    assert_int_equal(n.sent[0].msg.type, BT_MSG_ROLE_ANSWER);
    assert_int_equal(hear(&n, 0, other, 1, NODE), BT_GATES_DRAINS);
    assert_int_equal(n.sent_len, 1);
    assert_int_equal(n.sent[0].msg.u.role_answer.code, 0);
    bt_gates_drain(&n.gates, BT_ROLE_PREFILL);
    assert_true(n.gates.draining);
    assert_int_equal(n.sent_len, 1 + GATES);
    assert_int_equal(n.sent[1].msg.type, BT_MSG_HEARTBEAT);
    assert_true(n.sent[1].msg.u.heartbeat.draining);
    assert_int_equal(hear(&n, 1, other, 2, NODE), BT_GATES_NOTHING);
    assert_int_equal(n.gates.next_role, BT_ROLE_PREFILL);
    n.sent_len = 0;
    bt_gates_drain(&n.gates, 0); /* a signal comes too: it ends after all, and has told so already */
    assert_int_equal(n.sent_len, 0);
    assert_int_equal(n.gates.next_role, 0);
}

static void says_goodbye_to_those_that_know_it_and_is_silent_then(void **state)
{
    (void)state;
    node n;
    setup(&n);
    bt_gates_tick(&n.gates, 0);
    (void)hear(&n, 1, (bt_msg){.type = BT_MSG_WELCOME}, 2, NODE);
    n.sent_len = 0;
    bt_gates_bye(&n.gates, NULL);
    assert_int_equal(n.sent_len, 1);
    assert_int_equal(n.sent[0].gate, 1);
    assert_int_equal(n.sent[0].msg.type, BT_MSG_BYE);
    assert_string_equal(n.sent[0].msg.u.bye.text, "drained");
    assert_true(n.gates.left);
    assert_int_equal(bt_gates_due_us(&n.gates), BT_STEP_NEVER);
    n.sent_len = 0;
    n.gates.next_role = BT_ROLE_PREFILL;
    bt_gates_bye(&n.gates, NULL);
    assert_string_equal(n.sent[0].msg.u.bye.text, "it changes its role");
    bt_gates_bye(&n.gates, "too late");
    assert_string_equal(n.sent[1].msg.u.bye.text, "too late");
}

static void tells_the_one_gateway_whose_link_is_up_again_that_it_lives(void **state)
{
    (void)state;
    node n;
    setup(&n);
    bt_gates_up(&n.gates, 0, 0); /* before the first tick nothing is said */
    assert_int_equal(n.sent_len, 0);
    make_known(&n);
    bt_gates_up(&n.gates, 1, 10);
    bt_gates_up(&n.gates, GATES, 10); /* no such gate */
    assert_int_equal(n.sent_len, 1);
    assert_int_equal(n.sent[0].gate, 1);
    assert_int_equal(n.sent[0].msg.type, BT_MSG_HEARTBEAT);
    assert_int_equal(n.sent[0].msg.u.heartbeat.load.slots_used, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(greets_every_gateway_and_beats_once_it_is_welcome),
        cmocka_unit_test(a_message_about_an_attempt_goes_to_its_owner_or_nowhere),
        cmocka_unit_test(passes_on_only_what_an_owner_says_of_its_own_attempts),
        cmocka_unit_test(greets_again_whoever_means_another_or_is_another),
        cmocka_unit_test(says_that_a_refusal_is_to_be_logged),
        cmocka_unit_test(answers_a_wish_for_its_role_and_drains_for_it_once),
        cmocka_unit_test(tells_the_one_gateway_whose_link_is_up_again_that_it_lives),
        cmocka_unit_test(says_goodbye_to_those_that_know_it_and_is_silent_then),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
