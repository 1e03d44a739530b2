/* The three brains with prompts of tokens, and the same brains with hashes of blocks in their place: over
 * random prompts that share prefixes, both choose the same nodes, hold the same pages, and find the same
 * tokens covered. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "base/rng.h"
#include "decode-node/brain/brain.h"
#include "gateway/brain/brain.h"
#include "prefill-node/brain/brain.h"

enum { PAGE = 64, PROMPT_MAX = 640, STEMS = 5, BLOCKS_MAX = PROMPT_MAX / 16 };
static const bt_incarnation GATE = {{1}}, NODE = {{2}}, PEER = {{3}};

static uint64_t seed, draws;
static uint32_t draw(uint32_t n) { return (uint32_t)(bt_rng_u64(seed, draws++) % n); }

/* The prompt in hand: once as its tokens, once as hashes of blocks. */
static int32_t ids[PROMPT_MAX];
static uint64_t hashes[BLOCKS_MAX];
static bt_prompt_view views[2];
static uint32_t block_tokens;

/* Some first tokens of one of a few stems, then of another, so that two have anything from nothing to all in
 * common, and rarely at the edge of a block. */
static void draw_prompt(void)
{
    const uint32_t len = 1 + draw(PROMPT_MAX), cut = draw(3) ? draw(len + 1) : draw(len + 1) / PAGE * PAGE;
    const int32_t stems[2] = {(int32_t)draw(STEMS), (int32_t)draw(STEMS)};
    const uint32_t salt = draw(5) == 0;
    for (uint32_t i = 0; i < len; i++) ids[i] = (int32_t)i * STEMS + stems[i >= cut];
    bt_prompt_hash(hashes, ids, len, block_tokens);
    views[BT_PROMPT_BY_IDS] = (bt_prompt_view){.tokens = len, .ids = ids};
    views[BT_PROMPT_BY_HASHES] = (bt_prompt_view){.tokens = len, .hashes = {hashes, block_tokens}};
    for (int k = 0; k < 2; k++) views[k].salt.bytes[9] = (uint8_t)salt;
}

/* Each test with blocks of every size that a page is made of. */
static void with_each_block(void (*run)(void))
{
    for (block_tokens = 16; block_tokens <= PAGE; block_tokens *= 2)
        for (seed = 1; seed <= 3; seed++) {
            draws = 0;
            run();
        }
}

/* ---- the gateway ------------------------------------------------------------------------------------ */

enum { PREFILLS = 3, DECODES = 4, HELD = 12 };

static bt_incarnation node_of(uint32_t i) { return (bt_incarnation){{(uint8_t)(16 + i)}}; }

static void tell_gateways(gw_brain *b[2], const bt_msg *m, int64_t now, gw_actions ret[2])
{
    for (int k = 0; k < 2; k++)
        ret[k] = gw_brain_step(b[k], &(gw_event){.type = GW_EV_MSG, .u.msg = m}, now, &(bt_random){{1, 2}});
}

static void beat(gw_brain *b[2], int64_t now, bool greets)
{
    gw_actions acts[2];
    for (uint32_t i = 0; i < PREFILLS + DECODES; i++) {
        bt_msg m = {.type = BT_MSG_HELLO, .from = node_of(i), .to = GATE};
        m.u.hello = (bt_msg_hello){.protocol = BT_PROTOCOL_VERSION,
                                   .role = i < PREFILLS ? BT_ROLE_PREFILL : BT_ROLE_DECODE,
                                   .model_id = {5},
                                   .kv = {2, 1, 2, BT_KV_F16, 0, 0},
                                   .ctx_tokens = 2 * PROMPT_MAX,
                                   .kv_capacity_tokens = 100000};
        (void)snprintf(m.u.hello.node_id, sizeof m.u.hello.node_id, "n%u", i);
        strcpy(m.u.hello.exactness, i < PREFILLS ? "npu" : "f16");
        strcpy(m.u.hello.prefill_exactness, i < PREFILLS ? "" : "npu");
        strcpy(m.u.hello.kv_endpoint, "tcp://127.0.0.1:1");
        if (greets) tell_gateways(b, &m, now, acts);
        bt_msg h = {.type = BT_MSG_HEARTBEAT, .from = m.from, .to = GATE};
        h.u.heartbeat.load.slots_total = 8;
        tell_gateways(b, &h, now, acts);
    }
}

static const bt_msg *message(gw_actions acts, bt_msg_type type)
{
    for (size_t i = 0; i < acts.len; i++)
        if (acts.items[i].type == GW_DO_SEND && acts.items[i].u.send.msg.type == type)
            return &acts.items[i].u.send.msg;
    return NULL;
}

static void same_acts(const gw_actions acts[2])
{
    assert_int_equal(acts[0].len, acts[1].len);
    for (size_t i = 0; i < acts[0].len; i++) {
        const gw_action *a = &acts[0].items[i], *c = &acts[1].items[i];
        assert_int_equal(a->type, c->type);
        assert_int_equal(a->request, c->request);
        if (a->type != GW_DO_SEND) continue;
        assert_memory_equal(&a->u.send.peer, &c->u.send.peer, sizeof a->u.send.peer);
        assert_int_equal(a->u.send.msg.type, c->u.send.msg.type);
        if (a->u.send.msg.type != BT_MSG_RESERVE) continue;
        assert_int_equal(a->u.send.msg.u.reserve.is_local, c->u.send.msg.u.reserve.is_local);
        assert_non_null(a->u.send.msg.u.reserve.ids);
        assert_null(c->u.send.msg.u.reserve.ids);
        assert_non_null(c->u.send.msg.u.reserve.hashes.of);
    }
}

static uint32_t locals, pairs;

/* From SUBMIT to token 0; the decode node is told in *ret, so that the request can be ended. */
static void begin_request(gw_brain *b[2], uint64_t number, int64_t now, bt_incarnation *ret)
{
    gw_actions acts[2];
    draw_prompt();
    for (int k = 0; k < 2; k++) {
        const gw_submit s = {.request = number,         .ids = views[k].ids, .ids_len = views[k].tokens,
                             .hashes = views[k].hashes, .max_tokens = 2,     .sampling = {.top_p = 1},
                             .salt = views[k].salt};
        acts[k] =
            gw_brain_step(b[k], &(gw_event){.type = GW_EV_SUBMIT, .u.submit = &s}, now, &(bt_random){{1, 2}});
    }
    same_acts(acts);
    const bt_msg *w = message(acts[0], BT_MSG_RESERVE);
    assert_non_null(w);
    const bool is_local = w->u.reserve.is_local;
    const bt_incarnation decode = *ret = w->to, prefill = w->u.reserve.prefill;
    *(is_local ? &locals : &pairs) += 1;
    bt_msg m = {.type = BT_MSG_RESERVED, .from = decode, .to = GATE, .ref = w->ref};
    m.u.reserved.ticket.bytes[0] = 1;
    strcpy(m.u.reserved.kv_endpoint, "tcp://127.0.0.1:1");
    tell_gateways(b, &m, now, acts);
    same_acts(acts);
    m = (bt_msg){.type = BT_MSG_FIRST_TOKEN, .from = is_local ? decode : prefill, .to = GATE, .ref = m.ref};
    m.u.first_token.token = 1;
    tell_gateways(b, &m, now, acts);
    same_acts(acts);
}

static void end_request(gw_brain *b[2], uint64_t number, bt_incarnation decode, int64_t now)
{
    gw_actions acts[2];
    for (int k = 0; k < 2; k++)
        acts[k] = gw_brain_step(b[k], &(gw_event){.type = GW_EV_CANCEL, .u.request = number}, now,
                                &(bt_random){{1, 2}});
    same_acts(acts);
    for (uint32_t i = 0; i < PREFILLS + DECODES; i++) {
        bt_msg m = {.type = BT_MSG_ABORT_ACK, .from = node_of(i), .to = GATE, .ref = {GATE, number, 1}};
        if (i < PREFILLS || bt_incarnation_equal(&m.from, &decode)) tell_gateways(b, &m, now, acts);
    }
}

static void run_gateways(void)
{
    gw_brain *b[2];
    bt_incarnation decode[HELD];
    gw_config c = gw_config_defaults();
    c.self = GATE;
    c.model_id[0] = 5;
    c.policy = GW_POLICY_PREFIX;
    c.local_below_tokens = 200;
    c.nodes_max = 16;
    for (int k = 0; k < 2; k++) assert_int_equal(gw_brain_new(&b[k], &c, NULL), BT_OK);
    int64_t now = 1000000;
    beat(b, now, true);
    locals = pairs = 0;
    for (uint64_t n = 1; n <= 400; n++, now += 10000) {
        if (n % 50 == 0) beat(b, now, false);
        if (n > HELD) end_request(b, n - HELD, decode[n % HELD], now);
        begin_request(b, n, now, &decode[n % HELD]);
    }
    assert_true(locals > 40 && pairs > 40);
    for (int k = 0; k < 2; k++) gw_brain_free(b[k]);
}

static void gateways_choose_the_same_nodes(void **state)
{
    (void)state;
    with_each_block(run_gateways);
}

/* ---- a decode node ---------------------------------------------------------------------------------- */

enum { SLOTS = 4, PAGES = 24 };

static dc_actions decode_step(dc_brain *b, const dc_event *ev, int64_t now)
{
    return dc_brain_step(b, ev, now, &(bt_random){{3, 4}});
}

static dc_brain *decode_new(bt_prompt_by by)
{
    dc_brain *b;
    dc_config c = dc_config_defaults();
    c.self = NODE;
    c.slots = SLOTS;
    c.pages_total = PAGES;
    c.page_tokens = PAGE;
    c.prompts = by;
    c.growth_tokens = 16;
    c.waiting_max = 0; /* a prompt for which there is no room is refused */
    c.can_prefill = true;
    c.hello.ctx_tokens = 2 * PROMPT_MAX;
    c.hello.kv = (bt_kv_shape){1, 1, 2, BT_KV_F16, 0, 0};
    strcpy(c.hello.prefill_exactness, "npu");
    assert_int_equal(dc_brain_new(&b, &c, NULL), BT_OK);
    bt_msg m = {.type = BT_MSG_WELCOME, .from = GATE, .to = NODE};
    (void)decode_step(b, &(dc_event){.type = DC_EV_TICK}, 1000000);
    (void)decode_step(b, &(dc_event){.type = DC_EV_CONTROL, .u.control = {0, &m}}, 1000000);
    return b;
}

/* SLOTS: it was refused. The actions of both are compared; *ret_rows: of START. */
static uint32_t reserve_both(dc_brain *b[2], uint64_t number, int64_t now, uint32_t *ret_rows)
{
    uint32_t slot = SLOTS;
    dc_actions acts[2];
    draw_prompt();
    for (int k = 0; k < 2; k++) {
        bt_msg m = {.type = BT_MSG_RESERVE, .from = GATE, .to = NODE, .ref = {GATE, number, 1}};
        m.u.reserve = (bt_msg_reserve){.prompt_tokens = views[k].tokens,
                                       .max_tokens = 4,
                                       .ids = views[k].ids,
                                       .ids_len = views[k].tokens,
                                       .hashes = views[k].hashes,
                                       .salt = views[k].salt,
                                       .is_local = true,
                                       .lease_ms = 60000};
        acts[k] = decode_step(b[k], &(dc_event){.type = DC_EV_CONTROL, .u.control = {0, &m}}, now);
    }
    assert_int_equal(acts[0].len, acts[1].len);
    for (size_t i = 0; i < acts[0].len; i++) {
        const dc_action *a = &acts[0].items[i], *c = &acts[1].items[i];
        assert_int_equal(a->type, c->type);
        if (a->type == DC_DO_SEND_CONTROL) assert_int_equal(a->u.control.msg.type, c->u.control.msg.type);
        if (a->type == DC_DO_SET_PAGES) {
            assert_int_equal(a->u.set.pages_len, c->u.set.pages_len);
            assert_memory_equal(a->u.set.pages, c->u.set.pages, a->u.set.pages_len * sizeof *a->u.set.pages);
        }
        if (a->type != DC_DO_START) continue;
        assert_int_equal(a->u.start.slot, c->u.start.slot);
        assert_int_equal(a->u.start.rows, c->u.start.rows);
        assert_non_null(a->u.start.prompt);
        assert_null(c->u.start.prompt);
        slot = a->u.start.slot;
        *ret_rows = a->u.start.rows;
    }
    return slot;
}

static void finish_both(dc_brain *b[2], uint32_t slot, uint64_t number, int64_t now)
{
    const bt_msg_first_token first = {.token = 9, .prefill_us = 1};
    bt_msg ack = {.type = BT_MSG_FINISHED_ACK, .from = GATE, .to = NODE, .ref = {GATE, number, 1}},
           abort_it = {.type = BT_MSG_ABORT, .from = GATE, .to = NODE, .ref = {GATE, number, 1}};
    for (int k = 0; k < 2; k++) {
        dc_event ev = {.type = DC_EV_FIRST};
        ev.u.first.slot = slot;
        ev.u.first.msg = &first;
        (void)decode_step(b[k], &ev, now);
        ev = (dc_event){.type = DC_EV_ENDED};
        ev.u.ended.slot = slot;
        ev.u.ended.reason = BT_FINISH_STOP;
        (void)decode_step(b[k], &ev, now);
        (void)decode_step(b[k], &(dc_event){.type = DC_EV_CONTROL, .u.control = {0, &ack}}, now);
        (void)decode_step(b[k], &(dc_event){.type = DC_EV_CONTROL, .u.control = {0, &abort_it}}, now);
    }
}

static void run_decodes(void)
{
    dc_brain *b[2] = {decode_new(BT_PROMPT_BY_IDS), decode_new(BT_PROMPT_BY_HASHES)};
    uint64_t on_slot[SLOTS] = {0};
    uint32_t refused = 0, hits = 0, rows = 0;
    int64_t now = 1000000;
    for (uint64_t n = 1; n <= 600; n++, now += 1000) {
        const uint32_t slot = reserve_both(b, n, now, &rows), end = draw(SLOTS);
        refused += slot == SLOTS;
        hits += slot < SLOTS && rows > 0;
        if (slot < SLOTS) on_slot[slot] = n;
        if (on_slot[end]) finish_both(b, end, on_slot[end], now);
        on_slot[end] = 0;
        const bt_load one = dc_brain_load(b[0]), two = dc_brain_load(b[1]);
        assert_memory_equal(&one, &two, sizeof one);
        assert_true(dc_brain_is_sound(b[0]) && dc_brain_is_sound(b[1]));
    }
    assert_true(refused > 20 && hits > 100);
    for (int k = 0; k < 2; k++) dc_brain_free(b[k]);
}

static void decode_nodes_hold_the_same_pages_and_find_the_same_tokens_covered(void **state)
{
    (void)state;
    with_each_block(run_decodes);
}

/* ---- a prefill node --------------------------------------------------------------------------------- */

static pf_brain *prefill_new(bt_prompt_by by)
{
    pf_brain *b;
    pf_config c = pf_config_defaults();
    c.self = NODE;
    c.slots = SLOTS;
    c.workers = SLOTS;
    c.pages_total = PAGES;
    c.prompts = by;
    c.dial_us = INT64_C(1) << 40; /* its link never opens: nothing is sent, and nothing given up */
    c.hello.ctx_tokens = 2 * PROMPT_MAX;
    c.hello.kv = (bt_kv_shape){1, 1, 2, BT_KV_F16, 0, 0};
    assert_int_equal(pf_brain_new(&b, &c, NULL), BT_OK);
    bt_msg m = {.type = BT_MSG_WELCOME, .from = GATE, .to = NODE};
    (void)pf_brain_step(b, &(pf_event){.type = PF_EV_TICK}, 1000000, NULL);
    (void)pf_brain_step(b, &(pf_event){.type = PF_EV_CONTROL, .u.control = {0, &m}}, 1000000, NULL);
    return b;
}

/* SLOTS: it was refused; *ret_from: rows that need not be computed. */
static uint32_t prefill_both(pf_brain *b[2], uint64_t number, int64_t now, uint32_t *ret_from)
{
    uint32_t slot = SLOTS;
    pf_actions acts[2];
    draw_prompt();
    for (int k = 0; k < 2; k++) {
        bt_msg m = {.type = BT_MSG_PREFILL, .from = GATE, .to = NODE, .ref = {GATE, number, 1}};
        m.u.prefill = (bt_msg_prefill){
            .ids = views[k].ids, .ids_len = views[k].tokens, .hashes = views[k].hashes, .salt = views[k].salt,
            .decode = PEER,      .lease_ms = 60000};
        strcpy(m.u.prefill.kv_endpoint, "tcp://127.0.0.1:1");
        acts[k] = pf_brain_step(b[k], &(pf_event){.type = PF_EV_CONTROL, .u.control = {0, &m}}, now, NULL);
    }
    assert_int_equal(acts[0].len, acts[1].len);
    for (size_t i = 0; i < acts[0].len; i++) {
        const pf_action *a = &acts[0].items[i], *c = &acts[1].items[i];
        assert_int_equal(a->type, c->type);
        if (a->type == PF_DO_SEND_CONTROL) assert_int_equal(a->u.control.msg.type, c->u.control.msg.type);
        if (a->type != PF_DO_COMPUTE) continue;
        slot = a->u.compute.slot;
        *ret_from = a->u.compute.from_row;
        assert_int_equal(slot, c->u.compute.slot);
        assert_int_equal(*ret_from, c->u.compute.from_row);
        assert_int_equal(a->u.compute.pages_len, c->u.compute.pages_len);
        assert_memory_equal(a->u.compute.pages, c->u.compute.pages,
                            a->u.compute.pages_len * sizeof *a->u.compute.pages);
        assert_non_null(a->u.compute.ids);
        assert_null(c->u.compute.ids);
    }
    return slot;
}

static void compute_both(pf_brain *b[2], uint32_t slot, uint32_t from, uint32_t tokens, int64_t now)
{
    for (int k = 0; k < 2; k++) {
        pf_event ev = {.type = PF_EV_KV_READY};
        ev.u.kv_ready.slot = slot;
        ev.u.kv_ready.token_begin = from;
        ev.u.kv_ready.token_count = tokens - from;
        (void)pf_brain_step(b[k], &ev, now, NULL);
        ev = (pf_event){.type = PF_EV_COMPUTED};
        ev.u.computed.slot = slot;
        (void)pf_brain_step(b[k], &ev, now, NULL);
        ev = (pf_event){.type = PF_EV_DIGEST};
        ev.u.digest.slot = slot;
        (void)pf_brain_step(b[k], &ev, now, NULL);
    }
}

static void run_prefills(void)
{
    pf_brain *b[2] = {prefill_new(BT_PROMPT_BY_IDS), prefill_new(BT_PROMPT_BY_HASHES)};
    uint64_t on_slot[SLOTS] = {0};
    uint32_t refused = 0, hits = 0;
    int64_t now = 1000000;
    for (uint64_t n = 1; n <= 600; n++, now += 1000) {
        uint32_t from = 0;
        const uint32_t slot = prefill_both(b, n, now, &from), end = draw(SLOTS);
        refused += slot == SLOTS;
        hits += slot < SLOTS && from > 0;
        if (slot < SLOTS) {
            on_slot[slot] = n;
            compute_both(b, slot, from, views[0].tokens, now);
        }
        if (!on_slot[end]) continue;
        bt_msg m = {.type = BT_MSG_ABORT, .from = GATE, .to = NODE, .ref = {GATE, on_slot[end], 1}};
        for (int k = 0; k < 2; k++)
            (void)pf_brain_step(b[k], &(pf_event){.type = PF_EV_CONTROL, .u.control = {0, &m}}, now, NULL);
        on_slot[end] = 0;
        const bt_load one = pf_brain_load(b[0]), two = pf_brain_load(b[1]);
        assert_memory_equal(&one, &two, sizeof one);
    }
    assert_true(refused > 20 && hits > 100);
    for (int k = 0; k < 2; k++) pf_brain_free(b[k]);
}

static void prefill_nodes_hold_the_same_pages_and_compute_from_the_same_row(void **state)
{
    (void)state;
    with_each_block(run_prefills);
}

/* ---- what is not there ------------------------------------------------------------------------------ */

static void a_node_refuses_a_prompt_without_what_it_knows_prompts_by(void **state)
{
    (void)state;
    block_tokens = PAGE;
    draw_prompt();
    for (int k = 0; k < 2; k++) {
        dc_brain *d = decode_new((bt_prompt_by)k);
        pf_brain *p = prefill_new((bt_prompt_by)k);
        const bt_prompt_view *other = &views[1 - k];
        bt_msg m = {.type = BT_MSG_RESERVE, .from = GATE, .to = NODE, .ref = {GATE, 1, 1}};
        m.u.reserve =
            (bt_msg_reserve){.prompt_tokens = other->tokens, .max_tokens = 4,         .ids = other->ids,
                             .ids_len = other->tokens,       .hashes = other->hashes, .is_local = true};
        const dc_actions da =
            decode_step(d, &(dc_event){.type = DC_EV_CONTROL, .u.control = {0, &m}}, 1000000);
        assert_int_equal(da.len, 1);
        assert_int_equal(da.items[0].u.control.msg.u.refused.code, BT_EARG);
        m.type = BT_MSG_PREFILL;
        m.u.prefill = (bt_msg_prefill){.ids = other->ids, .ids_len = other->tokens, .hashes = other->hashes,
                                       .decode = PEER};
        const pf_actions pa =
            pf_brain_step(p, &(pf_event){.type = PF_EV_CONTROL, .u.control = {0, &m}}, 1000000, NULL);
        assert_int_equal(pa.len, 1);
        assert_int_equal(pa.items[0].u.control.msg.u.refused.code, BT_EARG);
        dc_brain_free(d);
        pf_brain_free(p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gateways_choose_the_same_nodes),
        cmocka_unit_test(decode_nodes_hold_the_same_pages_and_find_the_same_tokens_covered),
        cmocka_unit_test(prefill_nodes_hold_the_same_pages_and_compute_from_the_same_row),
        cmocka_unit_test(a_node_refuses_a_prompt_without_what_it_knows_prompts_by),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
