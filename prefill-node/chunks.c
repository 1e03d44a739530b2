/* A short list in order of begin; its last entry takes all chunks that come when the list is full. */
#include "prefill-node/chunks.h"

static uint32_t short_us(int64_t us) { return us < 0 ? 0 : us > UINT32_MAX ? UINT32_MAX : (uint32_t)us; }

void pf_chunks_begin(pf_chunks *c, size_t token_begin, size_t token_count, int64_t now_us)
{
    bt_msg_chunks *t = &c->told;
    const uint32_t tokens = (uint32_t)token_count;
    if (t->len == BT_MSG_MAX_CHUNKS) {
        t->at[t->len - 1].tokens += tokens;
        t->at[t->len - 1].chunks++;
        return;
    }
    c->token_begin[t->len] = token_begin;
    t->at[t->len].tokens = tokens;
    t->at[t->len].chunks = 1;
    t->at[t->len].begin_us = t->at[t->len].end_us = short_us(now_us);
    t->len++;
}

void pf_chunks_end(pf_chunks *c, size_t token_begin, int64_t now_us)
{
    uint32_t i = 0;
    if (c->told.len == 0) return;
    while (i + 1 < c->told.len && c->token_begin[i] != token_begin) i++;
    c->told.at[i].end_us = short_us(now_us);
}
