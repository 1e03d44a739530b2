/* The scheduler of steps: every rule of its header, and over thousands of random steps with joins, leaves and
 * growth that each sequence runs all its rows once, in order, within its pages, and waits no longer than
 * the rule of fairness says. */
#include "decode-node/brain/batch.h"
#include "base/rng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { SLOTS = 24 };

static dc_batch *make_mixed(uint32_t rows_max, uint32_t mixed_rows)
{
    dc_batch *b = NULL;
    const dc_batch_config c = {.slots = SLOTS,      .rows_max = rows_max,     .replay_rows = 16,
                               .chunk_tokens = 256, .mixed_rows = mixed_rows, .ahead_tokens = 32};
    assert_int_equal(dc_batch_new(&b, &c, NULL), BT_OK);
    return b;
}

static dc_batch *make(uint32_t rows_max) { return make_mixed(rows_max, 0); }

static void join(dc_batch *b, uint32_t slot, uint32_t prompt, uint32_t known, uint32_t rows)
{
    dc_batch_join_slot(b,
                       &(dc_batch_join){.slot = slot, .prompt_tokens = prompt, .known = known, .rows = rows,
                                        .capacity_tokens = prompt + 1000, .max_tokens = 1000});
}

/* Every item of the plan as an undisturbed engine answers it. */
static void answer(dc_batch *b, const dc_batch_plan *p)
{
    for (uint32_t i = 0; i < p->items_len; i++)
        dc_batch_ran(b, p->items[i].slot, p->items[i].count, p->items[i].out > 0);
}

static dc_batch_plan next(dc_batch *b, dc_batch_kind kind)
{
    const dc_batch_plan p = dc_batch_next(b);
    assert_int_equal(p.kind, kind);
    return p;
}

static void refuses_a_batch_of_nothing(void **state)
{
    (void)state;
    dc_batch *b = NULL;
    bt_fault fault;
    assert_int_equal(
        dc_batch_new(&b, &(dc_batch_config){.slots = 1, .rows_max = 0, .chunk_tokens = 1}, &fault), BT_EARG);
    assert_int_equal(
        dc_batch_new(&b, &(dc_batch_config){.slots = 0, .rows_max = 1, .chunk_tokens = 1}, &fault), BT_EARG);
    assert_int_equal(
        dc_batch_new(&b, &(dc_batch_config){.slots = 1, .rows_max = 1, .chunk_tokens = 0}, &fault), BT_EARG);
    assert_int_equal(
        dc_batch_new(&b, &(dc_batch_config){.slots = 1, .rows_max = 8, .chunk_tokens = 1, .mixed_rows = 8},
                     &fault),
        BT_EARG);
    assert_string_equal(fault.text, "mixed steps of 8 rows have no room beside the 8 rows of a decode step");
    dc_batch_free(NULL);
}

static void a_step_takes_every_sequence_that_can_run(void **state)
{
    (void)state;
    dc_batch *b = make(8);
    assert_int_equal(dc_batch_next(b).kind, DC_BATCH_NOTHING);
    for (uint32_t i = 0; i < 5; i++) join(b, i, 10 + i, 1, 10 + i);
    const dc_batch_plan p = next(b, DC_BATCH_STEP);
    assert_int_equal(p.items_len, 5);
    assert_int_equal(p.rows, 5);
    for (uint32_t i = 0; i < 5; i++) {
        assert_int_equal(p.items[i].slot, i);
        assert_int_equal(p.items[i].pos, 10 + i);
        assert_int_equal(p.items[i].count, 1);
        assert_int_equal(p.items[i].out, 1);
        assert_int_equal(p.items[i].drafts, 0);
    }
    answer(b, &p);
    dc_batch_leave(b, 3);
    assert_int_equal(next(b, DC_BATCH_STEP).items_len, 4);
    dc_batch_free(b);
}

static void more_than_rows_max_take_turns_in_the_order_of_waiting(void **state)
{
    (void)state;
    dc_batch *b = make(2);
    const uint32_t want[][2] = {{4, 1}, {7, 4}, {1, 7}};
    join(b, 4, 10, 1, 10);
    join(b, 1, 10, 1, 10);
    join(b, 7, 10, 1, 10);
    for (size_t i = 0; i < 3; i++) {
        const dc_batch_plan p = next(b, DC_BATCH_STEP);
        assert_int_equal(p.items_len, 2);
        for (uint32_t k = 0; k < 2; k++) assert_int_equal(p.items[k].slot, want[i][k]);
        answer(b, &p);
    }
    dc_batch_free(b);
}

static void steps_and_pieces_of_a_prefill_take_turns(void **state)
{
    (void)state;
    dc_batch *b = make(8);
    join(b, 0, 10, 1, 10);
    join(b, 1, 700, 0, 0);
    join(b, 2, 300, 0, 0);
    const uint32_t pos[] = {0, 256, 512, 0, 256}, count[] = {256, 256, 188, 256, 44},
                   slot[] = {1, 1, 1, 2, 2}, out[] = {0, 0, 1, 0, 1};
    for (size_t i = 0; i < 5; i++) {
        dc_batch_plan p = next(b, DC_BATCH_PREFILL);
        assert_int_equal(p.items_len, 1);
        assert_int_equal(p.items->slot, slot[i]); /* first come first served */
        assert_int_equal(p.items->pos, pos[i]);
        assert_int_equal(p.items->count, count[i]);
        assert_int_equal(p.items->out, out[i]);
        answer(b, &p);
        p = next(b, DC_BATCH_STEP);
        assert_int_equal(p.items_len, 1 + (i >= 2) + (i >= 4)); /* who was prefilled runs in the next step */
        answer(b, &p);
    }
    for (int i = 0; i < 3; i++) {
        const dc_batch_plan p = next(b, DC_BATCH_STEP);
        answer(b, &p);
    }
    dc_batch_free(b);
}

static void a_prefill_alone_does_not_wait(void **state)
{
    (void)state;
    dc_batch *b = make(8);
    join(b, 1, 700, 0, 100);
    const uint32_t count[] = {256, 256, 88};
    for (size_t i = 0; i < 3; i++) {
        const dc_batch_plan p = next(b, DC_BATCH_PREFILL);
        assert_int_equal(p.items->count, count[i]);
        answer(b, &p);
    }
    const dc_batch_plan p = next(b, DC_BATCH_STEP);
    assert_int_equal(p.items->pos, 700);
    answer(b, &p);
    dc_batch_free(b);
}

static void a_piece_that_was_cut_short_comes_again(void **state)
{
    (void)state;
    dc_batch *b = make(8);
    join(b, 0, 300, 0, 0);
    (void)next(b, DC_BATCH_PREFILL);
    dc_batch_ran(b, 0, 0, 0);
    const dc_batch_plan p = next(b, DC_BATCH_PREFILL);
    assert_int_equal(p.items->pos, 0);
    assert_int_equal(p.items->count, 256);
    dc_batch_free(b);
}

static void known_tokens_are_replayed_in_idle_rows_and_the_last_one_makes_a_token(void **state)
{
    (void)state;
    dc_batch *b = make(32);
    join(b, 0, 10, 1, 10);
    join(b, 1, 50, 41, 50); /* 40 rows to replay, then the row of token 40 */
    const uint32_t pos[] = {50, 66, 82}, count[] = {16, 16, 9}, out[] = {0, 0, 1};
    for (size_t i = 0; i < 3; i++) {
        const dc_batch_plan p = next(b, DC_BATCH_STEP);
        assert_int_equal(p.items_len, 2);
        assert_int_equal(p.items[0].count, 1);
        assert_int_equal(p.items[1].slot, 1);
        assert_int_equal(p.items[1].pos, pos[i]);
        assert_int_equal(p.items[1].count, count[i]);
        assert_int_equal(p.items[1].out, out[i]);
        assert_int_equal(p.rows, 1 + count[i]);
        answer(b, &p);
    }
    const dc_batch_plan p = next(b, DC_BATCH_STEP);
    assert_int_equal(p.items[1].pos, 91);
    assert_int_equal(p.items[1].count, 1);
    answer(b, &p);
    dc_batch_free(b);
}

static void a_prompt_prefilled_again_makes_no_token_0_and_replays(void **state)
{
    (void)state;
    dc_batch *b = make(8);
    join(b, 0, 300, 3, 200);
    dc_batch_plan p = next(b, DC_BATCH_PREFILL);
    assert_int_equal(p.items->count, 100);
    assert_int_equal(p.items->out, 0);
    answer(b, &p);
    p = next(b, DC_BATCH_STEP);
    assert_int_equal(p.items->pos, 300);
    assert_int_equal(p.items->count, 3);
    assert_int_equal(p.items->out, 1);
    dc_batch_free(b);
}

static void replay_and_drafts_take_nobodys_place(void **state)
{
    (void)state;
    dc_batch *b = make(4);
    join(b, 0, 50, 41, 50);
    join(b, 1, 10, 1, 10);
    for (uint32_t i = 2; i < 4; i++) join(b, i, 10, 1, 10);
    dc_batch_offer(b, 1, 5);
    dc_batch_plan p = next(b, DC_BATCH_STEP); /* four sequences, four rows */
    assert_int_equal(p.items_len, 4);
    for (uint32_t i = 0; i < 4; i++) assert_int_equal(p.items[i].count, 1);
    answer(b, &p);
    dc_batch_leave(b, 3);
    dc_batch_offer(b, 1, 5);
    p = next(b, DC_BATCH_STEP); /* the idle row goes to replay */
    assert_int_equal(p.items_len, 3);
    assert_int_equal(p.items[0].count, 2);
    assert_int_equal(p.items[1].count, 1);
    answer(b, &p);
    dc_batch_leave(b, 0);
    dc_batch_offer(b, 1, 5);
    p = next(b, DC_BATCH_STEP); /* to drafts */
    assert_int_equal(p.items_len, 2);
    assert_int_equal(p.items[0].slot, 1);
    assert_int_equal(p.items[0].count, 3);
    assert_int_equal(p.items[0].out, 3);
    assert_int_equal(p.items[0].drafts, 2);
    dc_batch_ran(b, 1, 2, 2); /* one of the two was right */
    dc_batch_ran(b, 2, 1, 1);
    p = next(b, DC_BATCH_STEP); /* an offer counts for one step */
    assert_int_equal(p.items[0].slot, 1);
    assert_int_equal(p.items[0].pos, 14);
    assert_int_equal(p.items[0].count, 1);
    dc_batch_free(b);
}

static void drafts_stop_at_the_last_token_and_at_the_end_of_the_pages(void **state)
{
    (void)state;
    dc_batch *b = make(16);
    dc_batch_join_slot(b, &(dc_batch_join){.slot = 0, .prompt_tokens = 10, .known = 1, .rows = 10,
                                           .capacity_tokens = 100, .max_tokens = 4});
    dc_batch_join_slot(b, &(dc_batch_join){.slot = 1, .prompt_tokens = 10, .known = 1, .rows = 10,
                                           .capacity_tokens = 12, .max_tokens = 50});
    assert_true(dc_batch_takes_drafts(b, 0));
    dc_batch_offer(b, 0, 8);
    dc_batch_offer(b, 1, 8);
    const dc_batch_plan p = next(b, DC_BATCH_STEP);
    assert_int_equal(p.items[0].drafts, 2); /* tokens 1, 2, 3 */
    assert_int_equal(p.items[1].drafts, 1); /* rows 10, 11 */
    dc_batch_ran(b, 0, 3, 3);
    dc_batch_ran(b, 1, 2, 2);
    assert_false(dc_batch_takes_drafts(b, 0)); /* it has all its tokens */
    assert_false(dc_batch_takes_drafts(b, 1));
    assert_int_equal(dc_batch_next(b).kind, DC_BATCH_NOTHING);
    dc_batch_free(b);
}

static void room_is_asked_for_ahead_of_time_and_once(void **state)
{
    (void)state;
    dc_batch *b = make(8);
    uint32_t slot, tokens;
    dc_batch_join_slot(b, &(dc_batch_join){.slot = 2, .prompt_tokens = 30, .known = 1, .rows = 30,
                                           .capacity_tokens = 64, .max_tokens = 1000});
    assert_false(dc_batch_needs(b, &slot, &tokens)); /* 34 rows of room */
    for (uint32_t rows = 31; rows <= 64; rows++) {
        const dc_batch_plan p = next(b, DC_BATCH_STEP);
        answer(b, &p);
        assert_int_equal(dc_batch_needs(b, &slot, &tokens), rows == 33);
        if (rows == 33) assert_int_equal(slot, 2);
        if (rows == 33) assert_int_equal(tokens, 33 + 64);
    }
    assert_int_equal(dc_batch_next(b).kind, DC_BATCH_NOTHING); /* it sits out */
    dc_batch_grow(b, 2, 65);                                   /* too little: it goes on, and asks again */
    assert_true(dc_batch_needs(b, &slot, &tokens));
    assert_int_equal(tokens, 64 + 64);
    assert_false(dc_batch_needs(b, &slot, &tokens));
    const dc_batch_plan p = next(b, DC_BATCH_STEP);
    answer(b, &p);
    dc_batch_grow(b, 2, 256);
    assert_false(dc_batch_needs(b, &slot, &tokens));
    assert_int_equal(next(b, DC_BATCH_STEP).items->pos, 65);
    dc_batch_free(b);
}

static void never_asks_for_more_than_the_sequence_will_have(void **state)
{
    (void)state;
    dc_batch *b = make(8);
    uint32_t slot, tokens;
    const dc_batch_join j = {.slot = 0,  .prompt_tokens = 30,   .known = 1,
                             .rows = 30, .capacity_tokens = 32, .max_tokens = 10};
    dc_batch_join_slot(b, &j);
    assert_true(dc_batch_needs(b, &slot, &tokens));
    assert_int_equal(tokens, 39);
    dc_batch_grow(b, 0, 39);
    assert_false(dc_batch_needs(b, &slot, &tokens)); /* all it will ever need, though less than 32 ahead */
    dc_batch_leave(b, 0);
    dc_batch_join_slot(b, &j);
    dc_batch_leave(b, 0); /* a need that nobody heard goes with it */
    assert_false(dc_batch_needs(b, &slot, &tokens));
    dc_batch_join_slot(b, &(dc_batch_join){.slot = 0, .prompt_tokens = 600, .known = 0, .rows = 0,
                                           .capacity_tokens = 256, .max_tokens = 1});
    assert_true(dc_batch_needs(b, &slot, &tokens)); /* the whole prompt at once */
    assert_int_equal(tokens, 600);
    dc_batch_free(b);
}

static void who_sits_out_keeps_its_turn_and_holds_up_nobody(void **state)
{
    (void)state;
    dc_batch *b = make(1);
    uint32_t slot, tokens;
    dc_batch_join_slot(b, &(dc_batch_join){.slot = 0, .prompt_tokens = 30, .known = 1, .rows = 30,
                                           .capacity_tokens = 30, .max_tokens = 90});
    join(b, 1, 10, 1, 10);
    join(b, 2, 10, 1, 10);
    dc_batch_join_slot(b, &(dc_batch_join){.slot = 3, .prompt_tokens = 300, .known = 0, .rows = 0,
                                           .capacity_tokens = 100, .max_tokens = 90});
    assert_true(dc_batch_needs(b, &slot, &tokens));
    for (uint32_t i = 0; i < 4; i++) {
        /* no piece of slot 3 either: its pages do not hold it */
        const dc_batch_plan p = next(b, DC_BATCH_STEP);
        assert_int_equal(p.items->slot, 1 + i % 2);
        answer(b, &p);
    }
    dc_batch_grow(b, 0, 64);
    assert_int_equal(next(b, DC_BATCH_STEP).items->slot, 0);
    dc_batch_free(b);
}

static void check_item(const dc_batch_item *it, uint32_t slot, uint32_t pos, uint32_t count, uint32_t out)
{
    assert_int_equal(it->slot, slot);
    assert_int_equal(it->pos, pos);
    assert_int_equal(it->count, count);
    assert_int_equal(it->out, out);
}

static void a_mixed_step_takes_decode_rows_and_the_prompts_that_came_first(void **state)
{
    (void)state;
    dc_batch *b = make_mixed(8, 256);
    join(b, 3, 400, 0, 0);
    join(b, 0, 10, 1, 10);
    join(b, 1, 20, 0, 0);
    dc_batch_plan p = next(b, DC_BATCH_MIXED);
    assert_int_equal(p.items_len, 2);
    assert_int_equal(p.pieces, 1);
    assert_int_equal(p.rows, 256);
    check_item(&p.items[0], 0, 10, 1, 1);
    check_item(&p.items[1], 3, 0, 255, 0);
    answer(b, &p);
    p = next(b, DC_BATCH_MIXED);
    assert_int_equal(p.pieces, 2);
    assert_int_equal(p.rows, 1 + 145 + 20);
    check_item(&p.items[1], 3, 255, 145, 1);
    check_item(&p.items[2], 1, 0, 20, 1);
    answer(b, &p);
    assert_int_equal(next(b, DC_BATCH_STEP).items_len, 3);
    dc_batch_free(b);
}

static void prompts_alone_share_a_call_and_one_alone_may_be_longer_than_it(void **state)
{
    (void)state;
    dc_batch *b = make_mixed(8, 64);
    join(b, 0, 300, 0, 0);
    dc_batch_plan p = next(b, DC_BATCH_PREFILL);
    check_item(&p.items[0], 0, 0, 256, 0);
    assert_int_equal(p.pieces, 1);
    answer(b, &p);
    for (uint32_t i = 1; i < 20; i++) join(b, i, i == 1 ? 30 : 1, 0, 0);
    p = next(b, DC_BATCH_MIXED); /* 44 + 20 rows */
    assert_int_equal(p.items_len, 2);
    check_item(&p.items[1], 1, 0, 20, 0);
    answer(b, &p);
    p = next(b, DC_BATCH_MIXED); /* slot 0 has its first token: a step of it, and as many prompts as may be */
    assert_int_equal(p.pieces, DC_BATCH_PIECES);
    assert_int_equal(p.items_len, 1 + DC_BATCH_PIECES);
    check_item(&p.items[1], 1, 20, 10, 1);
    dc_batch_free(b);
}

/* ---- thousands of random steps ---- */

typedef struct track {
    dc_batch_join is;
    bool joined;
    uint32_t missed, bound; /* steps without it since it could run; what the rule allows */
    bool could;
    bool asked;
    uint64_t arrival; /* 1.. */
} track;

typedef struct world {
    dc_batch *b;
    track slot[SLOTS];
    uint32_t rows_max, mixed_rows;
    uint64_t seed, draws, arrivals;
    dc_batch_kind before; /* the plan before this one, */
    bool both;            /* and whether both kinds waited then */
} world;

static uint32_t draw(world *w, uint32_t n) { return (uint32_t)(bt_rng_u64(w->seed, w->draws++) % n); }

static bool steps_now(const track *t)
{
    return t->joined && t->is.rows >= t->is.prompt_tokens && t->is.known < t->is.max_tokens &&
           t->is.rows < t->is.capacity_tokens;
}

static bool prefills_now(const track *t)
{
    const uint32_t left = t->is.prompt_tokens - t->is.rows;
    return t->joined && t->is.rows < t->is.prompt_tokens &&
           t->is.rows + (left < 256 ? left : 256) <= t->is.capacity_tokens;
}

static uint32_t joined(const world *w)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < SLOTS; i++) n += w->slot[i].joined;
    return n;
}

/* Who can run from now on waits for at most those that are here now. */
static void note_who_can_run(world *w)
{
    for (uint32_t i = 0; i < SLOTS; i++) {
        track *t = &w->slot[i];
        const bool can = steps_now(t);
        if (can && !t->could) {
            t->missed = 0;
            t->bound = (joined(w) + w->rows_max - 1) / w->rows_max;
        }
        t->could = can;
    }
}

static void random_join(world *w, uint32_t slot)
{
    track *t = &w->slot[slot];
    dc_batch_join j = {.slot = slot, .prompt_tokens = 1 + draw(w, 700), .known = draw(w, 60),
                       .max_tokens = 0};
    j.max_tokens = j.known + 1 + draw(w, 80);
    j.rows = j.known ? draw(w, j.prompt_tokens + j.known) : draw(w, j.prompt_tokens);
    if (draw(w, 2) && j.known && j.rows < j.prompt_tokens) j.rows = j.prompt_tokens;
    j.capacity_tokens = j.rows + draw(w, 300);
    *t = (track){.is = j, .joined = true, .arrival = ++w->arrivals};
    dc_batch_join_slot(w->b, &j);
}

/* Pieces of prompts behind `rows` rows of a step, in the order of their joining. */
static uint32_t check_pieces(const world *w, const dc_batch_plan *p, uint32_t rows)
{
    uint32_t pieces = 0;
    uint64_t before = 0;
    for (uint32_t i = p->items_len - p->pieces; i < p->items_len; i++) {
        const dc_batch_item *it = &p->items[i];
        const track *t = &w->slot[it->slot];
        assert_true(prefills_now(t));
        assert_true(it->count >= 1 && it->pos == t->is.rows && it->pos + it->count <= t->is.prompt_tokens);
        assert_int_equal(it->out, it->pos + it->count == t->is.prompt_tokens && !t->is.known);
        assert_true(t->arrival > before);
        before = t->arrival;
        pieces += it->count;
    }
    if (p->pieces)
        for (uint32_t i = 0; i < SLOTS; i++) /* nobody who came before the first of them was passed over */
            assert_true(!prefills_now(&w->slot[i]) ||
                        w->slot[i].arrival >= w->slot[p->items[p->items_len - p->pieces].slot].arrival);
    assert_true(pieces <= 256);
    assert_true(p->kind == DC_BATCH_PREFILL || rows + pieces <= w->mixed_rows || !p->pieces);
    return rows + pieces;
}

static void check_step(world *w, const dc_batch_plan *p)
{
    uint32_t rows = 0, can = 0;
    bool seen[SLOTS] = {false};
    for (uint32_t i = 0; i < SLOTS; i++) can += steps_now(&w->slot[i]);
    assert_int_equal(p->items_len - p->pieces, can < w->rows_max ? can : w->rows_max);
    for (uint32_t i = 0; i < p->items_len - p->pieces; i++) {
        const dc_batch_item *it = &p->items[i];
        const track *t = &w->slot[it->slot];
        assert_true(steps_now(t) && !seen[it->slot]);
        seen[it->slot] = true;
        const uint32_t to_go = t->is.prompt_tokens + t->is.known - t->is.rows;
        assert_int_equal(it->pos, t->is.rows);
        assert_true(it->count >= 1 && it->pos + it->count <= t->is.capacity_tokens);
        assert_int_equal(it->out, it->count - it->drafts == to_go ? it->drafts + 1 : 0);
        assert_true(it->count - it->drafts <= 16 && it->count - it->drafts <= to_go);
        assert_true(!it->drafts || to_go == 1);
        assert_true(t->is.known + it->out <= t->is.max_tokens);
        rows += it->count;
    }
    assert_true(rows <= w->rows_max);
    assert_int_equal(p->rows, check_pieces(w, p, rows));
    for (uint32_t i = 0; i < SLOTS; i++) {
        track *t = &w->slot[i];
        if (seen[i]) t->could = false; /* its waiting begins anew */
        else if (steps_now(t) && ++t->missed >= t->bound)
            fail_msg("slot %u missed %u steps, at most %u are allowed (seed %llu)", i, t->missed,
                     t->bound - 1, (unsigned long long)w->seed);
    }
}

static void run_one(world *w)
{
    bool any_step = false, any_prefill = false;
    note_who_can_run(w);
    for (uint32_t i = 0; i < SLOTS; i++) {
        any_step |= steps_now(&w->slot[i]);
        any_prefill |= prefills_now(&w->slot[i]);
        if (dc_batch_takes_drafts(w->b, i)) dc_batch_offer(w->b, i, draw(w, 6));
    }
    const dc_batch_plan p = dc_batch_next(w->b);
    assert_int_equal(p.kind == DC_BATCH_NOTHING, !any_step && !any_prefill);
    if (w->mixed_rows && any_step && any_prefill) assert_int_equal(p.kind, DC_BATCH_MIXED);
    else if (w->both && any_step && any_prefill) assert_int_not_equal(p.kind, w->before); /* turns */
    w->both = any_step && any_prefill;
    w->before = p.kind;
    if (p.kind == DC_BATCH_STEP || p.kind == DC_BATCH_MIXED) check_step(w, &p);
    if (p.kind == DC_BATCH_PREFILL) assert_int_equal(check_pieces(w, &p, 0), p.rows);
    for (uint32_t i = 0; i < p.items_len; i++) {
        const dc_batch_item it = p.items[i];
        track *t = &w->slot[it.slot];
        uint32_t kept = it.count, tokens = it.out > 0;
        if (it.drafts) {
            const uint32_t right = draw(w, it.drafts + 1);
            kept = tokens = right + 1;
        } else if (draw(w, 40) == 0) {
            kept = tokens = 0; /* cut short */
        }
        if (draw(w, 60) == 0) {
            dc_batch_leave(w->b, it.slot);
            t->joined = false;
            continue;
        }
        dc_batch_ran(w->b, it.slot, kept, tokens);
        t->is.rows += kept;
        t->is.known += tokens;
        if (t->is.known < t->is.max_tokens) continue;
        dc_batch_leave(w->b, it.slot);
        t->joined = false;
    }
}

static void nobody_starves_in_thousands_of_steps_with_joins_and_leaves(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        world w = {.seed = seed, .rows_max = (uint32_t[]){1, 2, 3, 8, 16, 40}[seed % 6]};
        if (seed % 4 > 1) w.mixed_rows = w.rows_max + (uint32_t[]){1, 7, 40, 400}[seed / 4 % 4];
        w.b = make_mixed(w.rows_max, w.mixed_rows);
        for (uint32_t i = 0; i < 3000; i++) {
            uint32_t slot, tokens;
            const uint32_t who = draw(&w, SLOTS);
            if (!w.slot[who].joined && draw(&w, 2)) random_join(&w, who);
            else if (w.slot[who].joined && draw(&w, 200) == 0) {
                dc_batch_leave(w.b, who);
                w.slot[who].joined = false;
            }
            while (dc_batch_needs(w.b, &slot, &tokens)) {
                track *t = &w.slot[slot];
                assert_true(t->joined && !t->asked);
                assert_true(tokens > t->is.capacity_tokens &&
                            tokens <= t->is.prompt_tokens + t->is.max_tokens - 1);
                t->asked = true;
            }
            for (uint32_t s = 0; s < SLOTS; s++) {
                track *t = &w.slot[s];
                if (!t->joined || !t->asked || draw(&w, 8)) continue;
                t->asked = false;
                t->is.capacity_tokens += 64 * draw(&w, 10);
                dc_batch_grow(w.b, s, t->is.capacity_tokens);
            }
            run_one(&w);
        }
        dc_batch_free(w.b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refuses_a_batch_of_nothing),
        cmocka_unit_test(a_step_takes_every_sequence_that_can_run),
        cmocka_unit_test(more_than_rows_max_take_turns_in_the_order_of_waiting),
        cmocka_unit_test(steps_and_pieces_of_a_prefill_take_turns),
        cmocka_unit_test(a_prefill_alone_does_not_wait),
        cmocka_unit_test(a_piece_that_was_cut_short_comes_again),
        cmocka_unit_test(known_tokens_are_replayed_in_idle_rows_and_the_last_one_makes_a_token),
        cmocka_unit_test(a_prompt_prefilled_again_makes_no_token_0_and_replays),
        cmocka_unit_test(replay_and_drafts_take_nobodys_place),
        cmocka_unit_test(drafts_stop_at_the_last_token_and_at_the_end_of_the_pages),
        cmocka_unit_test(room_is_asked_for_ahead_of_time_and_once),
        cmocka_unit_test(never_asks_for_more_than_the_sequence_will_have),
        cmocka_unit_test(who_sits_out_keeps_its_turn_and_holds_up_nobody),
        cmocka_unit_test(a_mixed_step_takes_decode_rows_and_the_prompts_that_came_first),
        cmocka_unit_test(prompts_alone_share_a_call_and_one_alone_may_be_longer_than_it),
        cmocka_unit_test(nobody_starves_in_thousands_of_steps_with_joins_and_leaves),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
