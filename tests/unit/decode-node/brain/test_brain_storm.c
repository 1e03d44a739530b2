/* Storms of sequences in a pool that is far too small, their prompts with common prefixes, prefilled here
 * or sent, transfers that end early: every sequence ends with its own tokens and finds its own rows at every
 * token, no page that two have is written, the oldest always gets on, the brain's count of pages is the
 * pool's, and nothing is held at the end. The seed is told on failure. */
#include "base/hash.h"
#include "base/rng.h"
#include "tests/helpers/brain/decode_kit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    PAGE = 16,
    GROWTH = 16,
    REQUESTS = 60,
    SLOTS = 6,
    POOL = 20,
    AT_ONCE = 10,
    PREFIXES = 4,
    ROUNDS_MAX = 20000,
    OLDEST_WAITS = 300
};

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
    c.hello.kv = (bt_kv_shape){1, 1, 2, BT_KV_F16, 0, 0};
    dc_brain *b = NULL;
    decode_kit_now = 1000000;
    assert_int_equal(dc_brain_new(&b, &c, NULL), BT_OK);
    decode_kit_step(b, &(dc_event){.type = DC_EV_TICK});
    decode_kit_control(b, &(bt_msg){.type = BT_MSG_WELCOME});
    bt_msg hello = {.type = BT_MSG_HELLO};
    hello.u.hello =
        (bt_msg_hello){.protocol = BT_PROTOCOL_VERSION, .role = BT_ROLE_PREFILL, .kv = c.hello.kv};
    decode_kit_bulk(b, &hello);
    return b;
}

typedef struct request {
    uint32_t prompt, max, accepted, attempt, age; /* age: order of reservation, 0: none is held */
    bool is_local, is_open, is_done;
    bool is_sending; /* RESERVED came, COMMITTED not yet */
    bt_ticket ticket;
    uint32_t sent;
} request;

typedef struct slot { /* the pool's and the worker's view of one */
    uint32_t pages[256 / PAGE], held;
    bool runs, is_stopped, is_told; /* is_told: of its need */
    uint64_t number;
    uint32_t prompt, max, known, rows, swap_rows;
    uint64_t swap[256];
} slot;

typedef struct world {
    dc_brain *b;
    request all[REQUESTS];
    slot slots[SLOTS];
    uint32_t holders[POOL], swap_pages, swap_used, attempts_over, ages, aborted;
    uint64_t row[POOL][PAGE];
    dc_event placed; /* what follows PLACE */
    bool has_placed;
    bt_msg say[64]; /* what the gateway answers */
    uint32_t say_len;
    uint64_t seed, draws;
} world;

static uint32_t draw(world *w, uint32_t n) { return (uint32_t)(bt_rng_u64(w->seed, w->draws++) % n); }
static int32_t id_of(uint64_t number, uint32_t index)
{
    return (int32_t)(100 + bt_rng_u64(number, index) % 1000);
}

/* Prompts of one prefix differ in their last token, which says whose they are. */
static int32_t prompt_id(const world *w, uint64_t number, uint32_t i)
{
    return i + 1 == w->all[number].prompt ? 5000 + (int32_t)number : (int32_t)(number % PREFIXES * 1000 + i);
}

/* The value that a row must hold: of a prompt, a function of its tokens so far; of an answer, of whose it is.
 */
static uint64_t row_of(const world *w, uint64_t number, uint32_t i)
{
    const uint32_t prompt = w->all[number].prompt;
    return i + 1 < prompt ? bt_rng_u64(number % PREFIXES, i) : bt_rng_u64(1000 + number, i);
}

static uint64_t *row_at(world *w, const slot *s, uint32_t i)
{
    assert_true(i < s->held * PAGE);
    return &w->row[s->pages[i / PAGE]][i % PAGE];
}

static void write_row(world *w, const slot *s, uint32_t i, uint64_t value)
{
    assert_int_equal(w->holders[s->pages[i / PAGE]], 1);
    *row_at(w, s, i) = value;
}

static void check_rows(world *w, const slot *s, uint64_t number, uint32_t rows)
{
    for (uint32_t i = 0; i < rows; i++)
        if (*row_at(w, s, i) != row_of(w, number, i))
            fail_msg("seed %llu: row %u of request %llu is another's", (unsigned long long)w->seed, i,
                     (unsigned long long)number);
}

static uint32_t used(const world *w)
{
    uint32_t n = 0;
    for (int i = 0; i < POOL; i++) n += w->holders[i] > 0;
    return n;
}

static void set_pages(world *w, slot *s, const dc_action *a)
{
    const uint32_t len = a->u.set.pages_len;
    assert_int_equal(s->runs, a->u.set.is_growth);
    if (len == 0)
        while (s->held) w->holders[s->pages[--s->held]]--;
    for (uint32_t i = 0; i < len; i++) {
        assert_true(a->u.set.pages[i] < POOL);
        if (i < s->held) assert_int_equal(a->u.set.pages[i], s->pages[i]);
        for (uint32_t k = 0; k < i; k++) assert_int_not_equal(a->u.set.pages[i], a->u.set.pages[k]);
    }
    for (; s->held < len; s->held++) w->holders[s->pages[s->held] = a->u.set.pages[s->held]]++;
    if (a->u.set.is_growth) s->is_told = false;
}

static void swap_rows(world *w, slot *s, uint32_t tokens, bool is_out)
{
    assert_int_equal(tokens, is_out ? s->rows : s->swap_rows);
    for (uint32_t i = 0; i < tokens; i++) {
        if (is_out) s->swap[i] = *row_at(w, s, i);
        else write_row(w, s, i, s->swap[i]);
    }
    if (is_out) s->swap_rows = tokens;
    if (is_out) w->swap_used += (tokens + PAGE - 1) / PAGE;
    assert_true(w->swap_used <= w->swap_pages);
}

static void on_start(world *w, const dc_action *a)
{
    slot *s = &w->slots[a->u.start.slot];
    assert_false(s->runs);
    assert_true(a->u.start.rows <= s->held * PAGE && s->held * PAGE >= a->u.start.prompt_tokens);
    s->runs = true;
    s->is_stopped = s->is_told = false;
    s->number = (uint64_t)a->u.start.prompt[a->u.start.prompt_tokens - 1] - 5000;
    s->prompt = a->u.start.prompt_tokens;
    s->max = a->u.start.max_tokens;
    s->known = a->u.start.ids_len;
    s->rows = a->u.start.rows;
    for (uint32_t i = 0; i < s->known; i++) assert_int_equal(a->u.start.ids[i], id_of(s->number, i));
    check_rows(w, s, s->number, s->rows);
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
    if (m->type == BT_MSG_FIRST_TOKEN || m->type == BT_MSG_PREFILL_DONE || m->type == BT_MSG_FAILED)
        answer(w, m, BT_MSG_ACK);
    if (m->type == BT_MSG_FINISHED) answer(w, m, BT_MSG_FINISHED_ACK);
    if (!is_mine) return;
    if (m->type == BT_MSG_RESERVED) {
        r->age = ++w->ages;
        r->ticket = m->u.reserved.ticket;
        r->sent = m->u.reserved.covered_tokens;
        r->is_sending = !r->is_local;
    } else if (m->type == BT_MSG_FIRST_TOKEN) {
        assert_int_equal(m->u.first_token.token, id_of(m->ref.number, 0));
        if (r->accepted == 0) r->accepted = 1;
    } else if (m->type == BT_MSG_TOKENS) {
        assert_true(m->u.tokens.first_index <= r->accepted);
        for (uint32_t i = 0; i < m->u.tokens.ids_len; i++)
            assert_int_equal(m->u.tokens.ids[i], id_of(m->ref.number, m->u.tokens.first_index + i));
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

static void on_place(world *w, const dc_block *block)
{
    const slot *s = &w->slots[block->slot];
    assert_false(s->runs);
    for (uint32_t i = 0; i < block->token_count; i++)
        write_row(w, s, block->token_begin + i, row_of(w, block->ref.number, block->token_begin + i));
    w->placed = (dc_event){.type = DC_EV_PLACED, .u.block = *block};
    w->has_placed = true;
}

static void carry_out(world *w, const dc_action *a)
{
    slot *s;
    switch (a->type) {
    case DC_DO_SEND_CONTROL: on_message(w, &a->u.control.msg); break;
    case DC_DO_SET_PAGES: set_pages(w, &w->slots[a->u.set.slot], a); break;
    case DC_DO_SWAP_OUT: swap_rows(w, &w->slots[a->u.swap.slot], a->u.swap.tokens, true); break;
    case DC_DO_SWAP_IN:
        swap_rows(w, &w->slots[a->u.swap.slot], a->u.swap.tokens, false);
        __attribute__((fallthrough));
    case DC_DO_DROP_SWAP:
        s = &w->slots[a->type == DC_DO_SWAP_IN ? a->u.swap.slot : a->u.slot];
        w->swap_used -= (s->swap_rows + PAGE - 1) / PAGE;
        s->swap_rows = 0;
        break;
    case DC_DO_START: on_start(w, a); break;
    case DC_DO_STOP:
        assert_true(w->slots[a->u.slot].runs);
        w->slots[a->u.slot].is_stopped = true;
        break;
    case DC_DO_PLACE: on_place(w, &a->u.block); break;
    case DC_DO_SEND_BULK:
        if (a->u.bulk.msg.type == BT_MSG_COMMITTED) w->all[a->u.bulk.msg.ref.number].is_sending = false;
        break;
    case DC_DO_DROP:
    case DC_DO_LOG:
    case DC_DO_DRAIN:
    case DC_DO_EXIT: break;
    }
}

/* One event into the brain, and everything that follows at once. */
static void feed(world *w, const dc_event *ev)
{
    dc_event next = *ev;
    w->has_placed = true;
    while (w->has_placed) {
        w->has_placed = false;
        decode_kit_step(w->b, &next);
        for (size_t i = 0; i < decode_kit_acts.len; i++) carry_out(w, &decode_kit_acts.items[i]);
        assert_int_equal(dc_brain_load(w->b).pages_used, used(w));
        assert_true(dc_brain_is_sound(w->b));
        next = w->placed;
    }
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
        for (uint32_t end = s->rows + 32 < s->prompt ? s->rows + 32 : s->prompt; s->rows < end; s->rows++)
            write_row(w, s, s->rows, row_of(w, s->number, s->rows));
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
    } else {
        check_rows(w, s, s->number, s->rows);
        write_row(w, s, s->rows, row_of(w, s->number, s->rows));
        if (++s->rows < s->prompt + s->known) return;
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
    for (uint32_t i = 0; i < r->prompt; i++) ids[i] = prompt_id(w, number, i);
    for (uint32_t i = 0; i < r->accepted; i++) generated[i] = id_of(number, i);
    bt_msg m = {.type = BT_MSG_RESERVE, .ref = {decode_kit_gate, number, ++r->attempt}};
    m.u.reserve = (bt_msg_reserve){
        .prompt_tokens = r->prompt,   .max_tokens = r->max,    .ids = ids,
        .ids_len = r->prompt,         .is_local = r->is_local, .generated = generated,
        .generated_len = r->accepted, .lease_ms = 600000,      .prefill_class = bt_hash64("", 0)};
    if (!r->is_local) m.u.reserve.prefill = decode_kit_prefill;
    r->is_open = true;
    r->is_sending = false;
    m.from = decode_kit_gate;
    m.to = decode_kit_self;
    feed(w, &(dc_event){.type = DC_EV_CONTROL, .u.control = {0, &m}});
}

/* The prefill node's part, and now and then a gateway that tries another one. */
static void transfer_turn(world *w, uint64_t number)
{
    request *r = &w->all[number];
    if (!r->is_open || !r->is_sending) return;
    bt_msg m = {.type = BT_MSG_COMMIT, .from = decode_kit_prefill, .to = decode_kit_self,
                .ref = {decode_kit_gate, number, r->attempt}};
    dc_event ev = {.type = DC_EV_BLOCK};
    if (draw(w, 12) == 0) {
        m.type = BT_MSG_ABORT;
        m.from = decode_kit_gate;
        r->is_open = false;
        r->age = 0;
        w->aborted++;
        feed(w, &(dc_event){.type = DC_EV_CONTROL, .u.control = {0, &m}});
    } else if (r->sent < r->prompt) {
        const uint32_t most = 16 * (1 + draw(w, 3)), left = r->prompt - r->sent,
                       n = left < most ? left : most;
        ev.u.block = (dc_block){.from = decode_kit_prefill, .ref = m.ref,     .ticket = r->ticket,
                                .token_begin = r->sent,     .token_count = n, .bytes = n * 8};
        r->sent += n;
        feed(w, &ev);
    } else {
        m.u.commit =
            (bt_msg_commit){.ticket = r->ticket, .prompt_tokens = r->prompt, .first_token = id_of(number, 0)};
        if (r->accepted == 0) r->accepted = 1;
        feed(w, &(dc_event){.type = DC_EV_BULK, .u.bulk = &m});
    }
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
        r->is_local = draw(w, 2);
    }
    uint32_t done = 0, oldest = 0, accepted = 0, waited = 0;
    for (uint32_t rounds = 0; done < REQUESTS; rounds++) {
        if (rounds > ROUNDS_MAX)
            fail_msg("seed %llu: not over after %d rounds", (unsigned long long)seed, ROUNDS_MAX);
        decode_kit_now += 1000;
        for (uint32_t i = 0, open = 0; i < REQUESTS && open < AT_ONCE; i++) {
            if (w->all[i].is_done) continue;
            open++;
            if (!w->all[i].is_open) submit(w, i);
            transfer_turn(w, i);
        }
        for (uint32_t i = 0; i < SLOTS; i++) worker_turn(w, draw(w, SLOTS));
        /* The oldest gets on, however many are younger: a token in every OLDEST_WAITS rounds, a replay of
         * 130 rows included. */
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
    uint64_t preempted = 0, swapped = 0, dropped = 0, replayed = 0, hits = 0;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        const dc_counters n = storm(seed, (uint32_t)(seed % 3) * 6);
        preempted += n.preempted;
        swapped += n.swapped_in;
        dropped += n.dropped;
        replayed += n.replayed_tokens;
        hits += n.prefix_hits;
        assert_int_equal(n.unexpected, 0);
        assert_int_equal(n.given_up, 0);
    }
    printf("preempted %llu, swapped in %llu, prefilled again %llu, tokens replayed %llu, prefixes shared "
           "%llu\n",
           (unsigned long long)preempted, (unsigned long long)swapped, (unsigned long long)dropped,
           (unsigned long long)replayed, (unsigned long long)hits);
    assert_true(preempted > 500 && swapped > 100 && dropped > 100 && replayed > 1000 && hits > 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ends_every_sequence_of_a_storm_with_its_own_tokens),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
