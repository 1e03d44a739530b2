/* Decides which block of a prompt's KV goes next. See xfer_send.h. */
#include "xfer/xfer_send.h"
#include "base/num.h"
#include "kv/kv_header.h"

#include <stdlib.h>
#include <string.h>

bt_err bt_xfer_send_init(bt_xfer_send *s, uint32_t layers_max, uint32_t extra)
{
    memset(s, 0, sizeof *s);
    s->again_cap = BT_MSG_MAX_RANGES + extra;
    s->ready = calloc(layers_max, sizeof *s->ready);
    s->sent = calloc(layers_max, sizeof *s->sent);
    s->again = calloc(s->again_cap, sizeof *s->again);
    if (s->ready && s->sent && s->again) return BT_OK;
    bt_xfer_send_done(s);
    return BT_ENOMEM;
}

void bt_xfer_send_done(bt_xfer_send *s)
{
    free(s->ready);
    free(s->sent);
    free(s->again);
    memset(s, 0, sizeof *s);
}

void bt_xfer_send_start(bt_xfer_send *s, const bt_xfer_send_plan *plan)
{
    s->layers = plan->shape->layers;
    s->prompt_tokens = plan->prompt_tokens;
    s->block_tokens = plan->block_tokens;
    for (uint32_t l = 0; l < s->layers; l++) {
        s->ready[l] = plan->ready_tokens;
        const uint32_t first = bt_xfer_first_token(plan->shape, l, plan->prompt_tokens);
        s->sent[l] = first > plan->skip_tokens ? first : plan->skip_tokens;
    }
    s->again_len = 0;
    s->unanswered = 0;
    s->held = plan->held && plan->ready_tokens < plan->prompt_tokens;
    s->told = false;
}

bool bt_xfer_send_ready(bt_xfer_send *s, uint32_t layer, uint32_t token_begin, uint32_t count)
{
    if (layer >= s->layers || token_begin != s->ready[layer] || count == 0) return false;
    if (count > s->prompt_tokens - token_begin) return false;
    uint32_t end = token_begin + count;
    if (end % BT_KV_UNIT_TOKENS != 0 && end != s->prompt_tokens) return false;
    s->ready[layer] = end;
    s->held = s->held && bt_xfer_send_whole(s) < s->prompt_tokens;
    return true;
}

bool bt_xfer_send_next(const bt_xfer_send *s, bt_kv_range *ret)
{
    if (s->held) return false;
    if (s->again_len > 0) {
        /* The last of the list, cut to a block from its end: the rest of the range stays in place. */
        bt_kv_range r = s->again[s->again_len - 1];
        if (r.token_count > s->block_tokens) {
            uint32_t rest = (r.token_count - 1) / s->block_tokens * s->block_tokens;
            r.token_begin += rest;
            r.token_count -= rest;
        }
        *ret = r;
        return true;
    }
    bool found = false;
    for (uint32_t l = 0; l < s->layers; l++) {
        if (s->sent[l] >= s->ready[l] || (found && s->sent[l] >= ret->token_begin)) continue;
        uint32_t n = s->ready[l] - s->sent[l];
        *ret = (bt_kv_range){l, s->sent[l], n < s->block_tokens ? n : s->block_tokens};
        found = true;
    }
    return found;
}

void bt_xfer_send_take(bt_xfer_send *s, const bt_kv_range *block)
{
    if (s->again_len > 0) {
        bt_kv_range *last = &s->again[s->again_len - 1];
        last->token_count -= block->token_count;
        if (last->token_count == 0) s->again_len--;
    } else {
        s->sent[block->layer] += block->token_count;
    }
    s->unanswered++;
    s->told = false;
}

void bt_xfer_send_sent(bt_xfer_send *s)
{
    if (s->unanswered > 0) s->unanswered--;
}

void bt_xfer_send_returned(bt_xfer_send *s, const bt_kv_range *block)
{
    if (s->unanswered == 0) return;
    s->unanswered--;
    s->again[s->again_len++] = *block; /* fits: _missing leaves room for every unanswered block */
}

uint32_t bt_xfer_send_missing(bt_xfer_send *s, const bt_kv_range *ranges, uint32_t len)
{
    uint32_t taken = 0;
    for (uint32_t i = len; i-- > 0 && s->again_len < BT_MSG_MAX_RANGES;) {
        bt_kv_range r = ranges[i];
        if (r.layer >= s->layers || r.token_begin >= s->prompt_tokens || r.token_count == 0) continue;
        if (r.token_count > s->prompt_tokens - r.token_begin || r.token_begin % BT_KV_UNIT_TOKENS != 0)
            continue;
        uint32_t end = r.token_begin + r.token_count;
        if (end % BT_KV_UNIT_TOKENS != 0 && end != s->prompt_tokens) continue;
        s->again[s->again_len++] = r;
        taken++;
    }
    return taken;
}

void bt_xfer_send_cut(bt_xfer_send *s) { s->unanswered = 0; }

bool bt_xfer_send_all_sent(const bt_xfer_send *s)
{
    if (s->again_len > 0 || s->unanswered > 0) return false;
    for (uint32_t l = 0; l < s->layers; l++)
        if (s->sent[l] < s->prompt_tokens) return false;
    return true;
}

uint32_t bt_xfer_send_whole(const bt_xfer_send *s)
{
    uint32_t tokens = s->prompt_tokens;
    for (uint32_t l = 0; l < s->layers; l++)
        if (s->ready[l] < tokens) tokens = s->ready[l];
    return tokens;
}
