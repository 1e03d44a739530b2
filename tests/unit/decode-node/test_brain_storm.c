/* Storms of sequences in a pool that is far too small, with a worker, a pool and a gateway that are only counted: every sequence ends with
 * its own tokens, the oldest always gets on, the brain's count of pages is the pool's, and nothing is left. The seed is told on failure. */
#include "base/rng.h"
#include "tests/helpers/decode_kit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PAGE = 16, GROWTH = 16, REQUESTS = 60, SLOTS = 6, POOL = 20, AT_ONCE = 10, ROUNDS_MAX = 20000, OLDEST_WAITS = 300 };

static dc_brain *make(uint32_t swap_pages)
{
    dc_config c = dc_config_defaults();
    c.self = decode_kit_self;
    c.slots = SLOTS;
    c.pages_total = POOL;
    c.page_tokens = PAGE;
    c.growth_tokens = GROWTH;
    c.swap_pages = swap_pages;
    c.can_prefill = true;
    c.lease_max_ms = 600000;
    c.hello.ctx_tokens = 256;
    c.hello.kv = (bt_kv_shape){1, 1, 2, BT_KV_F16};
    dc_brain *b = NULL;
    decode_kit_now = 1000000;
    assert_int_equal(dc_brain_new(&b, &c, NULL), BT_OK);
    decode_kit_step(b, &(dc_event){.type = DC_EV_TICK});
    decode_kit_control(b, &(bt_msg){.type = BT_MSG_WELCOME});
    return b;
}

typedef struct request {
    uint32_t prompt, max, accepted, attempt, age;       /* age: order of reservation, 0: none is held */
    bool is_local, is_open, is_done;
} request;

typedef struct slot {                   /* the pool's and the worker's view of one */
    uint32_t pages[256 / PAGE], held;
    bool runs, is_stopped, is_told;     /* is_told: of its need */
    uint64_t number;
    uint32_t prompt, max, known, rows, swap_rows;
} slot;

typedef struct world {
    dc_brain *b;
    request all[REQUESTS];
    slot slots[SLOTS];
    uint32_t holders[POOL], swap_pages, swap_used, attempts_over, ages;
    dc_event todo[64];
    bt_msg say[64];                     /* what the gateway answers */
    uint32_t todo_len, say_len;
    uint64_t seed, draws;
} world;

static uint32_t draw(world *w, uint32_t n) { return (uint32_t)(bt_rng_u64(w->seed, w->draws++) % n); }
static int32_t id_of(uint64_t number, uint32_t index) { return (int32_t)(100 + bt_rng_u64(number, index) % 1000); }

static uint32_t used(const world *w)
{
    uint32_t n = 0;
    for (int i = 0; i < POOL; i++) n += w->holders[i] > 0;
    return n;
}

static void hold(world *w, slot *s, uint32_t tokens)
{
    while (s->held < (tokens + PAGE - 1) / PAGE) {
        uint32_t page = 0;
        while (page < POOL && w->holders[page]) page++;
        assert_true(page < POOL);       /* what the brain gives is there */
        w->holders[page] = 1;
        s->pages[s->held++] = page;
    }
}

static void give_back(world *w, slot *s)
{
    assert_false(s->runs);
    while (s->held) w->holders[s->pages[--s->held]]--;
}

static void on_start(world *w, const dc_action *a)
{
    slot *s = &w->slots[a->u.start.slot];
    assert_false(s->runs);
    assert_true(a->u.start.rows <= s->held * PAGE && s->held * PAGE >= a->u.start.prompt_tokens);
    s->runs = true;
    s->is_stopped = s->is_told = false;
    s->number = (uint64_t)a->u.start.prompt[0] - 1000;
    s->prompt = a->u.start.prompt_tokens;
    s->max = a->u.start.max_tokens;
    s->known = a->u.start.ids_len;
    s->rows = a->u.start.rows;
    for (uint32_t i = 0; i < s->known; i++) assert_int_equal(a->u.start.ids[i], id_of(s->number, i));
}

static void answer(world *w, const bt_msg *m, bt_msg_type type)
{
    bt_msg *a = &w->say[w->say_len++];
    *a = (bt_msg){.type = type, .ref = m->ref};
    if (type == BT_MSG_ACK) a->u.ack.of = m->type;
}

/* The gateway: every index once, in order; a failed attempt is followed by the next one. */
static void on_message(world *w, const bt_msg *m)
{
    if (m->ref.attempt == 0) return;
    request *r = &w->all[m->ref.number];
    const bool is_mine = r->is_open && m->ref.attempt == r->attempt;
    if (m->type == BT_MSG_FIRST_TOKEN || m->type == BT_MSG_PREFILL_DONE || m->type == BT_MSG_FAILED) answer(w, m, BT_MSG_ACK);
    if (m->type == BT_MSG_FINISHED) answer(w, m, BT_MSG_FINISHED_ACK);
    if (!is_mine) return;
    if (m->type == BT_MSG_RESERVED) {
        r->age = ++w->ages;
    } else if (m->type == BT_MSG_FIRST_TOKEN) {
        assert_int_equal(m->u.first_token.token, id_of(m->ref.number, 0));
        if (r->accepted == 0) r->accepted = 1;
    } else if (m->type == BT_MSG_TOKENS) {
        assert_true(m->u.tokens.first_index <= r->accepted);
        for (uint32_t i = 0; i < m->u.tokens.ids_len; i++) assert_int_equal(m->u.tokens.ids[i], id_of(m->ref.number, m->u.tokens.first_index + i));
        r->accepted = m->u.tokens.first_index + m->u.tokens.ids_len;
        answer(w, m, BT_MSG_TOKENS_ACK);
        w->say[w->say_len - 1].u.tokens_ack.next_index = r->accepted;
    } else if (m->type == BT_MSG_FINISHED) {
        assert_int_equal(r->accepted, r->max);
        r->is_open = false;
        r->is_done = true;
        r->age = 0;
    } else if (m->type == BT_MSG_FAILED || m->type == BT_MSG_REFUSED) {
        w->attempts_over += m->type == BT_MSG_FAILED;
        if (m->type == BT_MSG_FAILED) assert_int_equal(m->u.failed.code, BT_EAGAIN);
        else assert_int_not_equal(m->u.refused.retry_after_ms, 0);
        r->is_open = false;
        r->age = 0;
    }
}

static void carry_out(world *w, const dc_action *a)
{
    slot *s = &w->slots[a->u.pages.slot % SLOTS];
    switch (a->type) {
    case DC_DO_SEND_CONTROL: on_message(w, &a->u.control.msg); break;
    case DC_DO_RESERVE_PAGES: hold(w, s, a->u.pages.tokens); break;
    case DC_DO_GROW_PAGES:
        assert_true(s->runs);
        hold(w, s, a->u.pages.tokens);
        s->is_told = false;
        break;
    case DC_DO_SHARE_PAGES: {
        const slot *from = &w->slots[a->u.pages.from];
        assert_int_equal(s->held, 0);
        assert_true(from->rows >= a->u.pages.tokens);
        for (; s->held < a->u.pages.tokens / PAGE; s->held++) w->holders[s->pages[s->held] = from->pages[s->held]]++;
        break;
    }
    case DC_DO_FREE_PAGES: give_back(w, &w->slots[a->u.slot]); break;
    case DC_DO_SWAP_OUT:
        assert_int_equal(a->u.pages.tokens, s->rows);
        s->swap_rows = s->rows;
        w->swap_used += (s->rows + PAGE - 1) / PAGE;
        assert_true(w->swap_used <= w->swap_pages);
        give_back(w, s);
        break;
    case DC_DO_SWAP_IN:
        assert_int_equal(a->u.pages.tokens, s->swap_rows);
        hold(w, s, a->u.pages.capacity);
        __attribute__((fallthrough));
    case DC_DO_DROP_SWAP:
        s = &w->slots[a->u.slot];
        w->swap_used -= (s->swap_rows + PAGE - 1) / PAGE;
        s->swap_rows = 0;
        break;
    case DC_DO_START: on_start(w, a); break;
    case DC_DO_STOP: assert_true(w->slots[a->u.slot].runs); w->slots[a->u.slot].is_stopped = true; break;
    case DC_DO_SEND_BULK:
    case DC_DO_PLACE:
    case DC_DO_DROP:
    case DC_DO_LOG:
    case DC_DO_EXIT: break;
    }
}

/* One event into the brain, and everything that follows at once. */
static void feed(world *w, const dc_event *ev)
{
    decode_kit_step(w->b, ev);
    for (size_t i = 0; i < decode_kit_acts.len; i++) carry_out(w, &decode_kit_acts.items[i]);
    assert_int_equal(dc_brain_load(w->b).pages_used, used(w));
    while (w->say_len) {
        bt_msg m = w->say[--w->say_len];
        decode_kit_control(w->b, &m);
        for (size_t i = 0; i < decode_kit_acts.len; i++) carry_out(w, &decode_kit_acts.items[i]);
        assert_int_equal(dc_brain_load(w->b).pages_used, used(w));
    }
}

static void worker_turn(world *w, uint32_t number)
{
    slot *s = &w->slots[number];
    if (!s->runs) return;
    dc_event ev = {.type = DC_EV_STOPPED, .u.stopped = {number, s->rows}};
    if (s->is_stopped && draw(w, 2)) {
        s->runs = false;
        feed(w, &ev);
        return;
    }
    const bt_msg_first_token f = {.token = id_of(s->number, 0)};
    if (s->rows < s->prompt) {
        s->rows = s->rows + 32 < s->prompt ? s->rows + 32 : s->prompt;
        if (s->rows < s->prompt) return;
        if (s->known == 0) s->known = 1;
        ev = (dc_event){.type = DC_EV_FIRST};
        ev.u.first.slot = number;
        ev.u.first.msg = &f;
        feed(w, &ev);
    } else if (s->rows >= s->held * PAGE) {
        if (s->is_told || s->is_stopped) return;
        s->is_told = true;
        feed(w, &(dc_event){.type = DC_EV_NEED, .u.need = {number, s->rows + 1}});
        return;
    } else if (++s->rows == s->prompt + s->known) {
        ev = (dc_event){.type = DC_EV_TOKEN};
        ev.u.token.slot = number;
        ev.u.token.index = s->known++;
        ev.u.token.id = id_of(s->number, ev.u.token.index);
        feed(w, &ev);
    }
    if (s->runs && s->known == s->max && s->rows >= s->prompt) {
        s->runs = false;
        ev = (dc_event){.type = DC_EV_ENDED};
        ev.u.ended.slot = number;
        ev.u.ended.reason = BT_FINISH_LENGTH;
        feed(w, &ev);
    }
}

static void submit(world *w, uint64_t number)
{
    static int32_t ids[256], generated[256];
    request *r = &w->all[number];
    for (int32_t i = 0; i < 256; i++) ids[i] = i == 0 ? 1000 + (int32_t)number : i;
    for (uint32_t i = 0; i < r->accepted; i++) generated[i] = id_of(number, i);
    bt_msg m = {.type = BT_MSG_RESERVE, .ref = {decode_kit_gate, number, ++r->attempt}};
    m.u.reserve = (bt_msg_reserve){.prompt_tokens = r->prompt, .max_tokens = r->max, .ids = ids, .ids_len = r->prompt, .is_local = true,
                                   .generated = generated, .generated_len = r->accepted, .lease_ms = 600000};
    r->is_open = true;
    m.from = decode_kit_gate;
    m.to = decode_kit_self;
    feed(w, &(dc_event){.type = DC_EV_CONTROL, .u.control = {0, &m}});
}

static dc_counters storm(uint64_t seed, uint32_t swap_pages)
{
    world *w = calloc(1, sizeof *w);
    assert_non_null(w);
    w->seed = seed;
    w->swap_pages = swap_pages;
    w->b = make(swap_pages);
    for (int i = 0; i < REQUESTS; i++) {
        request *r = &w->all[i];
        r->prompt = 1 + draw(w, 120);
        r->max = 2 + draw(w, 130);
    }
    uint32_t done = 0, oldest = 0, accepted = 0, waited = 0;
    for (uint32_t rounds = 0; done < REQUESTS; rounds++) {
        if (rounds > ROUNDS_MAX) fail_msg("seed %llu: not over after %d rounds", (unsigned long long)seed, ROUNDS_MAX);
        decode_kit_now += 1000;
        for (uint32_t i = 0, open = 0; i < REQUESTS && open < AT_ONCE; i++) {
            if (w->all[i].is_done) continue;
            open++;
            if (!w->all[i].is_open) submit(w, i);
        }
        for (uint32_t i = 0; i < SLOTS; i++) worker_turn(w, draw(w, SLOTS));
        /* The oldest gets on, however many are younger: a token in every OLDEST_WAITS rounds, a replay of 130 rows included. */
        const request *r = NULL;
        done = 0;
        for (int i = 0; i < REQUESTS; i++) {
            done += w->all[i].is_done;
            if (w->all[i].age && (!r || w->all[i].age < r->age)) r = &w->all[i];
        }
        waited = r && r->age == oldest && r->accepted == accepted ? waited + 1 : 0;
        oldest = r ? r->age : 0;
        accepted = r ? r->accepted : 0;
        if (waited > OLDEST_WAITS) fail_msg("seed %llu: the oldest makes no token", (unsigned long long)seed);
    }
    assert_int_equal(used(w), 0);
    assert_int_equal(w->swap_used, 0);
    assert_int_equal(dc_brain_load(w->b).leases, 0);
    const dc_counters n = *dc_brain_counters(w->b);
    dc_brain_free(w->b);
    free(w);
    return n;
}

static void ends_every_sequence_of_a_storm_with_its_own_tokens(void **s)
{
    (void)s;
    uint64_t preempted = 0, swapped = 0, dropped = 0, replayed = 0;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        const dc_counters n = storm(seed, (uint32_t)(seed % 3) * 6);
        preempted += n.preempted;
        swapped += n.swapped_in;
        dropped += n.dropped;
        replayed += n.replayed_tokens;
        assert_int_equal(n.unexpected, 0);
        assert_int_equal(n.given_up, 0);
    }
    printf("preempted %llu, swapped in %llu, prefilled again %llu, tokens replayed %llu\n", (unsigned long long)preempted,
           (unsigned long long)swapped, (unsigned long long)dropped, (unsigned long long)replayed);
    assert_true(preempted > 500 && swapped > 100 && dropped > 100 && replayed > 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ends_every_sequence_of_a_storm_with_its_own_tokens),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
