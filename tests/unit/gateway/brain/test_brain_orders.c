/* The orders that the brain keeps, against a look at everything: under faults, dead nodes and clients that
 * go, after every few steps. And limits beyond what any array was fixed to. */
#include "gateway/brain/request.h"
#include "tests/world/sim_node.h"
#include "tests/helpers/brain/affinity_cap.h"
#include "tests/helpers/brain/gateway_kit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>

enum { SEEDS = 60, SLICES = 400, SLICE_US = 20000 };

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

/* Somebody waits for a node: in the queue, in a node's line, or for a place on the other side. */
static bool wants_room(const gw_brain *b)
{
    bool is_wanted = b->queued > 0;
    for (uint32_t i = 0; i < b->requests_len; i++) {
        const gw_request *r = &b->requests[i];
        if (r->state == GW_NONE || r->state == GW_DEAD) continue;
        is_wanted |= r->is_placed || (r->is_in_line && !r->only_decode);
    }
    return is_wanted;
}

/* gw_brain_due_us by a look at all places of all tables. */
static int64_t plain_due_us(const gw_brain *b)
{
    const bool is_wanted = wants_room(b);
    int64_t due = is_wanted ? gw_avoid_due_us(&b->router.avoid, b->now_us) : INT64_MAX;
    for (uint32_t i = 0; i < b->debts.used; i++) {
        const gw_debt *d = &b->debts.items[i];
        if (gw_debts_find(&b->debts, &d->node, d->number, d->attempt) == d)
            due = least(due, least(d->due_us, d->until_us));
    }
    for (uint32_t i = 0; i < b->registry.cap; i++) {
        const gw_node *n = &b->registry.nodes[i];
        if (!n->in_use) continue;
        due = least(due, least(gw_registry_due_us(&b->registry, n), n->heartbeat_due_us));
        if (is_wanted && n->refuses_until_us > b->now_us) due = least(due, n->refuses_until_us);
    }
    for (uint32_t i = 0; i < b->requests_len; i++) due = least(due, gw_request_due_us(b, &b->requests[i]));
    return due;
}

static unsigned queued, active, owed, refusing, sharing, kept, lined;

/* The counts of shares in a round, and the sums over them. */
static void check_shares(const gw_brain *b, const gw_shares *s, bool is_short)
{
    uint64_t waiting_weight = 0, ready_weight = 0, ready_active = 0;
    for (uint32_t k = 0; k < s->used; k++) {
        const gw_share *h = &s->items[k];
        uint32_t waiting = 0, fresh = 0, ready = 0, holders = 0;
        for (uint32_t i = 0; i < b->requests_len; i++) {
            const gw_request *r = &b->requests[i];
            if (r->state == GW_NONE || r->state == GW_DEAD || r->share != k) continue;
            waiting += r->state == GW_QUEUED;
            holders += r->state != GW_QUEUED;
            ready += bt_order_has(&b->line, GW_LINE_SHORT, i) ||
                     (!is_short && bt_order_has(&b->line, GW_LINE_READY, i));
            assert_int_equal(bt_order_has(&b->newest, 0, i), r->state == GW_QUEUED && r->attempt == 0);
            fresh += bt_order_has(&b->newest, 0, i);
        }
        assert_int_equal(h->waiting, waiting);
        assert_int_equal(h->active, holders);
        assert_int_equal(h->is_ready, ready > 0);
        assert_int_equal(h->fresh, fresh);
        assert_int_equal(bt_order_has(&s->room, 0, k), waiting > 1 && fresh > 0);
        assert_int_equal(bt_order_has(&s->ring, GW_RING_ROUND, k), ready > 0 && h->turn > 0);
        assert_int_equal(bt_order_has(&s->ring, GW_RING_OVER, k), ready > 0 && h->turn == 0);
        assert_int_equal(bt_order_has(&s->idle, 0, k), k > 0 && waiting + holders == 0);
        waiting_weight += waiting ? h->weight : 0;
        ready_weight += ready ? h->weight : 0;
        ready_active += ready ? holders : 0;
        sharing += waiting > 0;
    }
    assert_true(s->waiting_weight == waiting_weight && s->ready_weight == ready_weight &&
                s->ready_active == ready_active);
}

/* Requests that wait in the line of n, as they say themselves. */
static uint32_t lined_of(const gw_brain *b, const gw_node *n)
{
    uint32_t n_lined = 0;
    for (uint32_t i = 0; i < b->requests_used; i++)
        n_lined +=
            b->requests[i].is_in_line && bt_incarnation_equal(&b->requests[i].decode.node, &n->incarnation);
    return n_lined;
}

static void check(const gw_brain *b)
{
    check_shares(b, &b->shares, false);
    check_shares(b, &b->short_shares, true);
    uint32_t in_queue = 0, parked = 0, in_line = 0, holders = 0, sides = 0;
    assert_true(gw_brain_due_us(b) == plain_due_us(b));
    for (uint32_t i = 0; i < b->requests_len; i++) {
        const gw_request *r = &b->requests[i];
        if (r->state == GW_NONE || r->state == GW_DEAD) continue;
        assert_true(i < b->requests_used);
        assert_ptr_equal(gw_request_find((gw_brain *)b, r->number), r);
        in_queue += r->state == GW_QUEUED;
        parked += r->is_in_line;
        holders += r->state != GW_QUEUED;
        for (uint32_t part = 0; part < GW_LINES; part++) in_line += bt_order_has(&b->line, part, i);
        assert_int_equal(bt_order_has(&b->parked, GW_PARKED_LINE, i), r->is_in_line && !r->only_decode);
        assert_int_equal(bt_order_has(&b->parked, GW_PARKED_PLACED, i), r->is_placed);
        assert_true(!gw_request_is_parked(r) || (r->state == GW_RESERVING && !r->prefill.is_open));
        assert_int_equal(bt_order_has(&b->sides, 0, 2 * i), r->prefill.is_open);
        assert_int_equal(bt_order_has(&b->sides, 0, 2 * i + 1), r->decode.is_open);
        sides += r->prefill.is_open + r->decode.is_open;
    }
    for (int64_t at = bt_order_first(&b->sides, 0); at >= 0; at = bt_order_next(&b->sides, at)) sides--;
    assert_int_equal(sides, 0);
    assert_int_equal(in_queue, b->queued);
    assert_int_equal(parked, gw_brain_in_line(b));
    assert_int_equal(in_line, b->queued);
    assert_int_equal(holders, b->active);
    uint64_t slots[2] = {0, 0};
    for (uint32_t i = 0; i < b->registry.cap; i++) {
        const gw_node *n = &b->registry.nodes[i];
        const bool is_ready = n->in_use && n->state == GW_NODE_READY;
        const uint32_t set =
            n->in_use ? gw_registry_open_set(n->shape - 1, n->hello.role, gw_node_open(n)) : 0;
        const bool is_open =
            is_ready && n->attempts < n->load.slots_total + n->lined && n->refuses_until_us <= b->now_us;
        if (is_ready) slots[n->hello.role == BT_ROLE_DECODE] += n->load.slots_total;
        const bool takes_long = is_open && n->long_attempts + n->hello.short_slots < n->load.slots_total;
        const bool takes_short = is_open && n->hello.role == BT_ROLE_PREFILL;
        assert_int_equal(bt_order_has(&b->registry.by_load, set, i), takes_long);
        assert_int_equal(bt_order_has(&b->registry.by_turn, set, i), takes_long);
        assert_int_equal(bt_order_has(&b->registry.short_by_load, set, i), takes_short);
        assert_int_equal(bt_order_has(&b->registry.short_by_turn, set, i), takes_short);
        kept += takes_short && !takes_long;
        if (n->in_use) assert_ptr_equal(gw_registry_find(&b->registry, &n->incarnation), n);
        refusing += n->in_use && n->refuses_until_us > b->now_us;
        lined += n->in_use && n->lined > 0;
        if (n->in_use) assert_int_equal(n->lined, lined_of(b, n));
    }
    assert_true(slots[0] == b->registry.slots[0] && slots[1] == b->registry.slots[1]);
    queued += b->queued;
    active += b->active;
    owed += b->debts.len;
}

/* Now and then a node dies or comes back, a client goes, a link is cut. */
static void hurt(sim_world *w)
{
    const uint64_t draw = sim_world_draw(w);
    const bt_role role = draw & 1 ? BT_ROLE_DECODE : BT_ROLE_PREFILL;
    const uint32_t index = (draw >> 8) % 2;
    if (draw % 16 == 2) sim_world_kill(w, role, index);
    if (draw % 8 == 3) sim_world_start(w, role, index);
    if (draw % 16 == 4 && sim_world_requests(w) > 0)
        sim_world_cancel(w, 1 + (draw >> 20) % sim_world_requests(w));
    if (draw % 32 == 5) sim_world_cut(w, 0, 1 + (draw >> 30) % 4, 1000000, false);
    if (draw % 32 == 6) sim_world_drain(w, role, index);
}

static void what_is_due_and_who_may_be_chosen_is_what_a_look_at_everything_finds(void **s)
{
    (void)s;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        sim_world *w = NULL;
        sim_options o = sim_options_defaults(seed);
        o.prefills = o.decodes = 2;
        o.slots = 3;
        o.keys = 3;
        o.faults.drop_ratio = 0.02;
        o.decode_pages = 9;
        o.pages_total = 9;
        o.pf.short_tokens = seed % 2 ? 60 : 0;
        o.dc.waiting_max = 1;
        assert_int_equal(sim_world_new(&w, &o), BT_OK);
        for (int i = 0; i < SLICES && !sim_world_error(w); i++) {
            if (sim_world_draw(w) % 8 == 0)
                (void)sim_world_submit(w, 20 + (uint32_t)(sim_world_draw(w) % 300),
                                       1 + (uint32_t)(sim_world_draw(w) % 40));
            hurt(w);
            sim_world_run(w, SLICE_US);
            if (w->processes[0].is_alive) check(w->processes[0].gw);
        }
        if (sim_world_error(w)) fail_msg("seed %llu: %s", (unsigned long long)seed, sim_world_error(w));
        sim_world_free(w);
    }
    assert_true(queued > SEEDS && active > SEEDS && owed > SEEDS && refusing > SEEDS && sharing > SEEDS &&
                kept > SEEDS / 2 && lined > SEEDS); /* all of it happened */
}

static bt_incarnation numbered(uint8_t first, uint32_t n)
{
    return (bt_incarnation){{first, (uint8_t)(n >> 8), (uint8_t)n}};
}

static gw_actions greet(gateway_kit *k, bt_incarnation who, const char *id, uint32_t slots)
{
    bt_msg m = gateway_kit_hello(who);
    m.u.hello.load.slots_total = slots;
    snprintf(m.u.hello.node_id, sizeof m.u.hello.node_id, "%s", id);
    gateway_kit_from(k, who, &m);
    const gw_actions acts = k->acts;
    return acts;
}

static void limits_are_those_of_the_configuration_and_of_the_nodes_slots(void **s)
{
    (void)s;
    enum { NODES = 300, ACTIVE = 500 };
    gateway_kit k = {0};
    gw_config c = gateway_kit_config();
    c.nodes_max = NODES;
    c.active_max = ACTIVE;
    c.queue_max = 600;
    gateway_kit_open(&k, &c);
    for (uint32_t i = 0; i < NODES; i++) {
        char id[16];
        const bt_incarnation who = numbered(i % 2 ? 0x20 : 0x10, i);
        snprintf(id, sizeof id, "n%u", i);
        assert_non_null(gateway_kit_said(greet(&k, who, id, 3), who, BT_MSG_WELCOME));
        bt_msg beat = {.type = BT_MSG_HEARTBEAT};
        beat.u.heartbeat.load.slots_total = 3;
        gateway_kit_from(&k, who, &beat);
        assert_int_equal(gw_brain_active_limit(k.b), (i + 1) / 2 * 3 < ACTIVE ? (i + 1) / 2 * 3 : ACTIVE);
    }
    const bt_incarnation late = numbered(0x10, NODES);
    const bt_msg *no = gateway_kit_said(greet(&k, late, "late", 3), late, BT_MSG_REJECT);
    assert_non_null(no);
    assert_int_equal(no->u.reject.code, BT_ELIMIT);
    assert_non_null(strstr(no->u.reject.text, "300"));
    for (uint32_t i = 1; i <= 460; i++) {
        const gw_submit r = gateway_kit_request(i, 4);
        gateway_kit_step(&k, &(gw_event){.type = GW_EV_SUBMIT, .u.submit = &r});
        assert_int_equal(gw_brain_active(k.b), i < 450 ? i : 450); /* 150 decode nodes of 3 slots */
        assert_int_equal(gw_brain_queued(k.b), i < 450 ? 0 : i - 450);
    }
    gateway_kit_close(&k);
    k = (gateway_kit){0};
    c.active_max = 2;
    gateway_kit_open(&k, &c);
    gateway_kit_join(&k, (bt_incarnation){{0x1a}});
    gateway_kit_join(&k, (bt_incarnation){{0x2a}}); /* 8 slots each */
    assert_int_equal(gw_brain_active_limit(k.b), 2);
    for (uint32_t i = 1; i <= 5; i++) {
        const gw_submit r = gateway_kit_request(i, 4);
        gateway_kit_step(&k, &(gw_event){.type = GW_EV_SUBMIT, .u.submit = &r});
    }
    assert_int_equal(gw_brain_active(k.b), 2);
    assert_int_equal(gw_brain_queued(k.b), 3);
    gateway_kit_close(&k);
}

/* The table of prefixes grows with what the nodes' KV holds, and keeps what it knows. */
static void what_nodes_have_had_is_remembered_for_as_much_as_they_hold(void **s)
{
    (void)s;
    gateway_kit k = {0};
    gw_config c = gateway_kit_config();
    c.nodes_max = 64;
    gateway_kit_open(&k, &c);
    gw_affinity *a = k.b->router.affinity;
    assert_int_equal(affinity_cap(a), GW_AFFINITY_LEAST_ENTRIES);
    for (uint32_t i = 0; i < 40; i++) {
        char id[16];
        const bt_incarnation who = numbered(0x20, i);
        bt_msg m = gateway_kit_hello(who);
        snprintf(id, sizeof id, "n%u", i);
        snprintf(m.u.hello.node_id, sizeof m.u.hello.node_id, "%s", id);
        m.u.hello.kv_capacity_tokens = 400000; /* 6,250 chunks */
        gateway_kit_from(&k, who, &m);
    }
    assert_int_equal(affinity_cap(a), 262144); /* 250,000 chunks */
    gateway_kit_close(&k);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_due_and_who_may_be_chosen_is_what_a_look_at_everything_finds),
        cmocka_unit_test(limits_are_those_of_the_configuration_and_of_the_nodes_slots),
        cmocka_unit_test(what_nodes_have_had_is_remembered_for_as_much_as_they_hold),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
