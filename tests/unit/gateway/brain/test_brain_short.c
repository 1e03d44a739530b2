/* Slots of a prefill node that are kept for short prompts: a short prompt passes long ones that wait, keys
 * share these slots too, and no long prompt gets one. */
#include "gateway/brain/state.h"
#include "tests/helpers/brain/gateway_kit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

static const bt_incarnation PA = {{0x1a}}, DA = {{0x2a}}, DB = {{0x2b}}, SELF = {{1}};
enum { MANY = 64, SHORT = 4, LONG = 10, SLOTS = 8, KEPT = 2 };

typedef struct client {
    gateway_kit k;
    uint64_t number;
    uint64_t asked[MANY]; /* requests in the order in which they got nodes */
    uint32_t len;
} client;

static void note(client *c)
{
    for (size_t i = 0; i < c->k.acts.len; i++) {
        const gw_action *a = &c->k.acts.items[i];
        if (a->type != GW_DO_SEND || a->u.send.msg.type != BT_MSG_RESERVE || c->len == MANY) continue;
        c->asked[c->len++] = a->u.send.msg.ref.number;
    }
}

static void open_kept(client *c)
{
    gw_config g = gateway_kit_config();
    memset(c, 0, sizeof *c);
    gateway_kit_open(&c->k, &g);
    gateway_kit_join(&c->k, DA);
    gateway_kit_join(&c->k, DB);
    bt_msg m = gateway_kit_hello(PA);
    m.u.hello.short_tokens = SHORT;
    m.u.hello.short_slots = KEPT;
    gateway_kit_from(&c->k, PA, &m);
    gateway_kit_beat(&c->k, PA);
}

static uint64_t ask(client *c, uint32_t tokens, uint64_t share)
{
    gw_submit s = gateway_kit_request(++c->number, 20);
    s.ids_len = tokens;
    s.share = share;
    c->k.heard_len = 0;
    c->k.is_done = false;
    gateway_kit_step(&c->k, &(gw_event){.type = GW_EV_SUBMIT, .u.submit = &s});
    note(c);
    return c->number;
}

/* Nodes have freed it, at once. Returns the request that has nodes now and had none before; 0: none. */
static uint64_t end(client *c, uint64_t number)
{
    const uint32_t before = c->len;
    gateway_kit_step(&c->k, &(gw_event){.type = GW_EV_CANCEL, .u.request = number});
    note(c);
    for (int i = 0; i < 3; i++) {
        bt_msg m = {.type = BT_MSG_ABORT_ACK, .ref = {SELF, number, 1}, .to = SELF};
        m.from = i == 0 ? PA : i == 1 ? DA : DB;
        gateway_kit_step(&c->k, &(gw_event){.type = GW_EV_MSG, .u.msg = &m});
        note(c);
    }
    assert_true(c->len <= before + 1);
    return c->len > before ? c->asked[c->len - 1] : 0;
}

static void short_prompts_pass_long_ones_that_wait_and_no_more(void **s)
{
    (void)s;
    client c;
    open_kept(&c);
    for (int i = 0; i < SLOTS; i++) (void)ask(&c, LONG, 0);
    assert_int_equal(c.len, SLOTS - KEPT); /* numbers 7 and 8 wait */
    const uint64_t first = ask(&c, SHORT, 0);
    assert_int_equal(c.asked[c.len - 1], first);
    (void)ask(&c, 1, 0);
    assert_int_equal(c.len, SLOTS);
    const uint64_t third = ask(&c, SHORT, 0), fourth = ask(&c, SHORT, 0);
    assert_int_equal(c.len, SLOTS);          /* every slot is taken */
    assert_int_equal(end(&c, first), third); /* a long one may not have it */
    assert_int_equal(end(&c, 1), 7);         /* that it may: it came first */
    assert_int_equal(end(&c, 2), 8);
    assert_int_equal(end(&c, 3), fourth); /* nobody waits for it longer */
    assert_int_equal(gateway_kit_node(&c.k, PA)->attempts, SLOTS);
    assert_int_equal(gateway_kit_node(&c.k, PA)->long_attempts, SLOTS - KEPT - 1);
    gateway_kit_close(&c.k);
}

static void keys_share_the_slots_of_short_prompts_too(void **s)
{
    (void)s;
    client c;
    uint64_t got[10], of_eight = 0;
    open_kept(&c);
    for (int i = 0; i < SLOTS; i++) (void)ask(&c, LONG, 9);
    for (int i = 0; i < 12; i++) (void)ask(&c, SHORT, 7);
    for (int i = 0; i < 12; i++) (void)ask(&c, SHORT, 8);
    assert_int_equal(c.len, SLOTS);
    for (int i = 0; i < 10; i++) {
        got[i] = end(&c, i < 2 ? c.asked[SLOTS - KEPT + i] : got[i - 2]);
        assert_true(got[i] > SLOTS); /* no long one */
        of_eight += got[i] > SLOTS + 12;
    }
    assert_in_range(of_eight, 4, 6);
    gateway_kit_close(&c.k);
}

/* Where the node that keeps slots has gone, and another keeps none, prompts of all lengths wait in one line.
 */
static void without_kept_slots_nobody_passes(void **s)
{
    (void)s;
    client c;
    open_kept(&c);
    for (int i = 0; i < SLOTS; i++) (void)ask(&c, LONG, 0);
    gateway_kit_die(&c.k, PA);
    c.len = 0;
    static const bt_incarnation again = {{0x3a}};
    gateway_kit_join(&c.k, again);
    gateway_kit_wait(&c.k, 1000000);
    note(&c);
    const uint64_t last = ask(&c, SHORT, 0);
    assert_true(c.len <= SLOTS);
    for (uint32_t i = 0; i < c.len; i++) assert_true(c.asked[i] != last || i + 1 == c.len);
    assert_int_equal(c.k.b->line_short, 0);
    assert_int_equal(bt_order_first(&c.k.b->line, GW_LINE_SHORT), BT_ORDER_NONE);
    gateway_kit_close(&c.k);
}

/* A long prompt of which the node has had nearly all: by what is left, where its other slots are taken; not
 * again after that has failed. */
static void a_prompt_that_a_node_has_had_is_short_there(void **s)
{
    (void)s;
    static int32_t ids[90];
    const int64_t at = 10;
    gw_registry r;
    gw_router router = {.policy = GW_POLICY_PREFIX};
    uint64_t chain[GW_AFFINITY_CHUNKS_MAX];
    static const uint8_t model[16] = {5};
    assert_int_equal(gw_registry_init(&r, 4, model, 20, 60, 10, 600), BT_OK);
    assert_int_equal(gw_affinity_new(&router.affinity, 64), BT_OK);
    gw_node *p = NULL;
    static const bt_incarnation both[] = {{{0x1a}}, {{0x2a}}};
    for (int i = 0; i < 2; i++) {
        bt_msg m = gateway_kit_hello(both[i]);
        gw_node *n = NULL;
        bt_incarnation replaced;
        if (i == 0) m.u.hello.short_tokens = 30, m.u.hello.short_slots = KEPT;
        m.u.hello.ctx_tokens = 200;
        m.u.hello.kv_capacity_tokens = 200;
        assert_int_equal(gw_registry_hello(&r, &n, &replaced, &both[i], &m.u.hello, at, NULL), BT_OK);
        gw_registry_heard(&r, n, &(bt_msg_heartbeat){.load = {.slots_total = SLOTS}}, at);
        if (i == 0) p = n;
    }
    p->attempts = p->long_attempts = SLOTS - KEPT;
    gw_registry_changed(&r, p);
    const bt_prompt_view had = {.tokens = 64, .ids = ids};
    gw_route_wish w = {.now_us = at, .prompt = {.tokens = 90, .ids = ids}, .max_tokens = 10};
    gw_route_choice c;
    assert_int_equal(gw_route_choose(&c, &router, &r, &w), GW_ROUTE_BUSY);
    gw_affinity_note(router.affinity, chain, gw_affinity_chain(chain, &had), &both[0]);
    assert_int_equal(gw_route_choose(&c, &router, &r, &w), GW_ROUTE_CHOSEN);
    assert_ptr_equal(c.prefill, p);
    assert_int_equal(c.prefill_new_tokens, 26);
    w.by_length = true;
    assert_int_equal(gw_route_choose(&c, &router, &r, &w), GW_ROUTE_BUSY);
    gw_affinity_free(router.affinity);
    gw_registry_done(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(short_prompts_pass_long_ones_that_wait_and_no_more),
        cmocka_unit_test(keys_share_the_slots_of_short_prompts_too),
        cmocka_unit_test(without_kept_slots_nobody_passes),
        cmocka_unit_test(a_prompt_that_a_node_has_had_is_short_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
