/* Decides which prompt is computed when, and what becomes of it as the worker gets on. */
#include "prefill-node/brain/brain_inner.h"
#include "base/breakage.h"

#include <assert.h>
#include <string.h>

enum { WAIT_PART = 16 };

static bool begin_alike(const pf_brain *b, const pf_record *x, const pf_record *y, uint32_t tokens)
{
    if (tokens >= x->prompt.tokens || tokens > y->prompt.tokens)
        return false; /* x computes its last token itself */
    if (!bt_prompt_same_salt(&x->prompt, &y->prompt)) return false;
    if (b->cfg.prompts == BT_PROMPT_BY_IDS)
        return !memcmp(x->prompt.ids, y->prompt.ids, tokens * sizeof *x->prompt.ids);
    return bt_prompt_prefix(&x->prompt, tokens) == bt_prompt_prefix(&y->prompt, tokens);
}

/* Whether another prompt of the batch computes a page that r could share afterwards. */
static bool is_better_behind(const pf_brain *b, const pf_record *r, pf_record *const *run, uint32_t n)
{
    const uint32_t page = b->cfg.page_tokens;
    for (uint32_t i = 0; i < n; i++)
        if (begin_alike(b, r, run[i], (r->from_row / page + 1) * page)) return true;
    return false;
}

typedef pf_record *next_fn(pf_brain *b, const pf_record *r);

/* Gathers the batch of `first`, which is run[0], of at most so many tokens; returns its size, *ret_tokens are
 * those of all its prompts. */
static uint32_t gather(pf_brain *b, pf_record *first, next_fn *behind, uint32_t most,
                       pf_record *run[PF_SHARE_MAX], uint32_t *ret_tokens)
{
    uint32_t n = 1, used;
    run[0] = first;
    pf_pages_look_again(b, first); /* before from_row is read */
    used = pf_left_of(first);
    for (pf_record *r = first; used < most && n < PF_SHARE_MAX;) {
        if (!(r = behind(b, r))) break;
        pf_pages_look_again(b, r);
        if (pf_left_of(r) > most - used || is_better_behind(b, r, run, n)) continue;
        used += pf_left_of(r);
        run[n++] = r;
    }
    b->n.batches += n > 1;
    b->n.batched += n > 1 ? n : 0;
    *ret_tokens = used;
    return n;
}

static void start(pf_brain *b, pf_record *r, uint32_t with)
{
    const bt_xfer_send_plan plan = {.shape = &b->cfg.hello.kv,
                                    .prompt_tokens = r->prompt.tokens,
                                    .block_tokens = b->cfg.block_tokens,
                                    .skip_tokens = r->covered_tokens,
                                    .ready_tokens = r->from_row,
                                    .held = r->prompt.tokens - r->covered_tokens < b->cfg.min_overlap_tokens};
    bt_xfer_send_start(&b->sends[r->a->slot], &plan);
    b->n.prefix_hits += r->from_row > 0;
    b->n.prefix_tokens += r->from_row;
    r->a->state = PF_COMPUTING;
    r->in_worker = true;
    r->started_us = b->now_us;
    pf_action *a = pf_act(b, PF_DO_COMPUTE);
    a->u.compute.slot = r->a->slot;
    a->u.compute.with = with;
    a->u.compute.ref = r->a->ref;
    a->u.compute.ids = r->prompt.ids;
    a->u.compute.ids_len = r->prompt.tokens;
    a->u.compute.pages = bt_kv_book_table(b->book, r->a->slot, &a->u.compute.pages_len);
    a->u.compute.windows = bt_kv_book_windows(b->book, r->a->slot);
    a->u.compute.from_row = r->from_row;
    a->u.compute.covered_tokens = r->covered_tokens;
    a->u.compute.is_whole = plan.held;
    a->u.compute.may_pause = r == b->under_way;
    a->u.compute.sampling = r->sampling;
}

/* ---- turns ---------------------------------------------------------------------------------------- */

static void start_all(pf_brain *b, pf_record *const *run, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) start(b, run[i], i ? 0 : n - 1);
}

/* False: nobody waits. */
static bool start_first(pf_brain *b)
{
    pf_record *first = pf_orders_waiting(b), *run[PF_SHARE_MAX];
    uint32_t tokens;
    if (!first) return false;
    const uint32_t n = gather(b, first, pf_orders_behind, b->cfg.share_tokens, run, &tokens);
    if (n == 1 && b->cfg.short_tokens && pf_left_of(first) > b->cfg.short_tokens) {
        first->computed = first->lost = 0;
        first->pause_at = UINT32_MAX;
        first->went_us = b->now_us;
        b->under_way = first;
    }
    start_all(b, run, n);
    return true;
}

/* Whether so many tokens of others may be computed when the long prompt has computed so many. */
static bool may_pass(const pf_record *r, uint32_t tokens, uint32_t computed)
{
    return (tokens <= computed - r->lost || BT_BREAK(long_waits)) && tokens < pf_left_of(r) - computed;
}

/* The long prompt has paused: a batch of short ones, or it goes on. False: the worker waits. */
static bool start_between(pf_brain *b)
{
    pf_record *r = b->under_way, *first = pf_orders_short(b), *run[PF_SHARE_MAX];
    uint32_t tokens;
    if (first) pf_pages_look_again(b, first);
    if (first && may_pass(r, pf_left_of(first), r->computed)) {
        const uint32_t room = r->computed - r->lost,
                       most = room < b->cfg.share_tokens ? room : b->cfg.share_tokens,
                       n = gather(b, first, pf_orders_short_behind, most, run, &tokens);
        r->lost += tokens;
        assert(r->lost <= r->computed || BT_BREAK(long_waits));
        b->n.passed += n;
        b->n.passed_tokens += tokens;
        start_all(b, run, n);
        return true;
    }
    if (!first && b->now_us < b->free_us) return false;
    r->in_worker = true;
    r->pause_at = UINT32_MAX;
    r->went_us = b->now_us;
    pf_act(b, PF_DO_RESUME)->u.slot = r->a->slot;
    (void)pf_touch(b, r->a);
    return true;
}

/* Tells the worker where the long prompt pauses: as soon as the first short one may pass it. */
static void ask_pause(pf_brain *b)
{
    pf_record *r = b->under_way, *first = r && r->in_worker ? pf_orders_short(b) : NULL;
    uint32_t at = UINT32_MAX;
    if (!r || !r->in_worker) return;
    if (first) {
        const uint32_t tokens = pf_left_of(first), least = r->lost + tokens,
                       computed = least > r->computed ? least : r->computed;
        if (computed < pf_left_of(r) && may_pass(r, tokens, computed)) at = r->from_row + least;
    }
    if (at == r->pause_at) return;
    r->pause_at = at;
    pf_action *a = pf_act(b, PF_DO_PAUSE);
    a->u.pause.slot = r->a->slot;
    a->u.pause.tokens = BT_BREAK(long_waits) && first ? 0 : at;
}

void pf_work_start(pf_brain *b)
{
    do {
        pf_orders_settle(b);
        if (b->under_way && b->under_way->a->state != PF_COMPUTING) b->under_way = NULL;
    } while (b->busy < b->cfg.workers && (b->under_way ? start_between(b) : start_first(b)));
    ask_pause(b);
}

int64_t pf_work_due_us(const pf_brain *b)
{
    return b->under_way && b->busy == 0 && b->now_us < b->free_us ? b->free_us : BT_STEP_NEVER;
}

/* ---- the worker's events -------------------------------------------------------------------------- */

/* Where every slot is held, a short prompt that waits at a gateway comes once this one's slot is free. */
static void leave_worker(pf_brain *b, pf_record *r)
{
    r->in_worker = false;
    if (!b->under_way || r == b->under_way || b->attempts.held < b->cfg.slots) return;
    const int64_t most = b->under_way->ran_us / WAIT_PART;
    b->free_us = b->now_us + (b->cfg.short_wait_us < most ? b->cfg.short_wait_us : most);
}

void pf_work_paused(pf_brain *b, const pf_event *ev)
{
    pf_record *r = pf_by_slot(b, ev->u.paused.slot);
    const uint32_t tokens = ev->u.paused.tokens;
    const bool is_over = r && r->a->state == BT_ATTEMPT_STOPPING;
    if (!r || !r->in_worker || !(is_over || r == b->under_way) || tokens <= r->from_row ||
        tokens >= r->prompt.tokens) {
        b->n.unexpected++;
        return;
    }
    r->in_worker = false;
    r->computed = tokens - r->from_row;
    r->ran_us = b->now_us - r->went_us;
    if (is_over) pf_attempt_settle(b, r);
}

static void say_alive(pf_brain *b, pf_record *r)
{
    r->said_us = b->now_us;
    (void)bt_gates_to_owner(&b->gates, &r->a->ref, BT_MSG_PREFILL_ACCEPTED);
}

/* The worker gets on. A gateway waits for each prompt for a time, whatever stands before it here: so it hears
 * of those that wait too. */
static void get_on(pf_brain *b)
{
    if (b->now_us < b->alive_due_us) return;
    b->alive_due_us = b->now_us + b->cfg.alive_us;
    for (pf_record *r = NULL; (r = pf_next(b, r));) {
        if (r->a->state != PF_WAITING && r->a->state != PF_COMPUTING) continue;
        const int64_t due_us = r->said_us + b->cfg.alive_us;
        if (b->now_us >= due_us) say_alive(b, r);
        else if (due_us < b->alive_due_us) b->alive_due_us = due_us;
    }
}

void pf_work_alive(pf_brain *b)
{
    if (b->busy == 0) b->n.unexpected++;
    else get_on(b);
}

/* Rows exist. The gateway of a long prompt gets PREFILL_ACCEPTED now and then, so that it can distinguish
 * slow from stuck. */
void pf_work_kv_ready(pf_brain *b, const pf_event *ev)
{
    pf_record *r = pf_by_slot(b, ev->u.kv_ready.slot);
    if (!r || !r->in_worker ||
        !bt_xfer_send_ready(&b->sends[r->a->slot], ev->u.kv_ready.layer, ev->u.kv_ready.token_begin,
                            ev->u.kv_ready.token_count)) {
        b->n.unexpected++;
        return;
    }
    get_on(b);
    if (r->a->state == BT_ATTEMPT_STOPPING) return; /* the rows are good, but nobody waits for them */
    r->rows_us = b->now_us;
    if (b->now_us - r->said_us >= b->cfg.say_us) say_alive(b, r);
}

void pf_work_computed(pf_brain *b, const pf_event *ev)
{
    pf_record *r = pf_by_slot(b, ev->u.computed.slot);
    if (r && r->a->state == BT_ATTEMPT_STOPPING && r->in_worker) return; /* its end follows */
    if (!r || r->a->state != PF_COMPUTING) {
        b->n.unexpected++;
        return;
    }
    pf_pages_keep(b, r);
    r->a->state = PF_SENDING;
    r->progress_us = b->now_us;
    r->has_first = true;
    r->first.token = ev->u.computed.token;
    r->first.top_len =
        ev->u.computed.top_len <= BT_MSG_TOP_LOGITS ? ev->u.computed.top_len : BT_MSG_TOP_LOGITS;
    memcpy(r->first.top_ids, ev->u.computed.top_ids, sizeof r->first.top_ids);
    memcpy(r->first.top_logits, ev->u.computed.top_logits, sizeof r->first.top_logits);
    r->first.queue_us = (uint64_t)(r->started_us - r->accepted_us);
    r->first.prefill_us = ev->u.computed.prefill_us;
    r->first.chunks = ev->u.computed.chunks;
    r->first.cached_tokens = r->from_row;
    r->first.work = ev->u.computed.work;
    r->first.device = ev->u.computed.device;
    r->first.device_prompt = ev->u.computed.device_prompt;
    r->first.has_logprob = ev->u.computed.has_logprob;
    r->first.logprob = ev->u.computed.logprob;
    pf_attempt_say(b, r);
}

void pf_work_digest(pf_brain *b, const pf_event *ev)
{
    pf_record *r = pf_by_slot(b, ev->u.digest.slot);
    if (!r || !r->in_worker || r->a->state == PF_COMPUTING) {
        b->n.unexpected++;
        return;
    }
    leave_worker(b, r);
    r->done.kv_digest = ev->u.digest.kv_digest;
    pf_attempt_settle(b, r);
}

void pf_work_over(pf_brain *b, uint32_t slot, bt_err code, const char *text)
{
    pf_record *r = pf_by_slot(b, slot);
    if (!r || !r->in_worker) {
        b->n.unexpected++;
        return;
    }
    leave_worker(b, r);
    if (r->a->state == BT_ATTEMPT_STOPPING) pf_attempt_settle(b, r);
    else pf_attempt_fail(b, r, code, text);
}
