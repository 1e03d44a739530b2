/* Messages without a codec. See sim_bare.h. The arrays of a message are listed once; packing, counting and
 * opening go through that list. */
#include "tests/world/sim_bare.h"

#include <assert.h>
#include <stddef.h>
#include <string.h>

enum { ARRAYS_MAX = 4, EDGE = 8 };

/* An array: where its pointer lies, and how long it is. */
typedef struct array {
    void *at; /* of a pointer to const */
    size_t bytes;
} array;

static size_t round_up(size_t n) { return (n + EDGE - 1) / EDGE * EDGE; }

static uint32_t add(array *all, uint32_t len, void *at, size_t bytes)
{
    all[len] = (array){at, bytes};
    return len + 1;
}

static size_t hashes_bytes(const bt_prompt_hashes *h, uint32_t tokens)
{
    return bt_prompt_hashes_len(tokens, h->of ? h->block_tokens : 0) * sizeof *h->of;
}

static uint32_t arrays_of(array all[ARRAYS_MAX], bt_msg *m)
{
    if (m->type == BT_MSG_RESERVE) {
        bt_msg_reserve *w = &m->u.reserve;
        (void)add(all, 0, &w->ids, w->ids ? w->ids_len * sizeof *w->ids : 0);
        (void)add(all, 1, &w->generated, w->generated_len * sizeof *w->generated);
        (void)add(all, 2, &w->hashes.of, hashes_bytes(&w->hashes, w->ids_len));
        return add(all, 3, &w->sampling.bias, w->sampling.bias_len * sizeof *w->sampling.bias);
    }
    if (m->type == BT_MSG_PREFILL) {
        bt_msg_prefill *w = &m->u.prefill;
        (void)add(all, 0, &w->ids, w->ids ? w->ids_len * sizeof *w->ids : 0);
        (void)add(all, 1, &w->hashes.of, hashes_bytes(&w->hashes, w->ids_len));
        return add(all, 2, &w->sampling.bias, w->sampling.bias_len * sizeof *w->sampling.bias);
    }
    if (m->type == BT_MSG_TOKENS) {
        bt_msg_tokens *w = &m->u.tokens;
        (void)add(all, 0, &w->ids, w->ids_len * sizeof *w->ids);
        return add(all, 1, &w->logprobs, w->logprobs ? w->ids_len * sizeof *w->logprobs : 0);
    }
    if (m->type == BT_MSG_MISSING)
        return add(all, 0, &m->u.missing.ranges, m->u.missing.ranges_len * sizeof *m->u.missing.ranges);
    if (m->type == BT_MSG_HELLO) {
        bt_msg_hello *w = &m->u.hello;
        (void)add(all, 0, &w->engine, w->engine ? sizeof *w->engine : 0);
        return add(all, 1, &w->device, w->device ? sizeof *w->device : 0);
    }
    return 0;
}

size_t sim_bare_bytes(const bt_msg *m)
{
    array all[ARRAYS_MAX];
    bt_msg copy;
    size_t bytes = round_up(bt_msg_bytes(m->type));
    memcpy(&copy, m, bt_msg_bytes(m->type));
    for (uint32_t i = arrays_of(all, &copy); i-- > 0;) bytes += round_up(all[i].bytes);
    return bytes;
}

void sim_bare_pack(uint8_t *out, const bt_msg *m)
{
    array all[ARRAYS_MAX];
    bt_msg copy;
    const size_t head = bt_msg_bytes(m->type);
    memcpy(&copy, m, head);
    const uint32_t len = arrays_of(all, &copy);
    uint8_t *at = out + round_up(head);
    memcpy(out, m, head);
    for (uint32_t i = 0; i < len; i++) {
        const void *from;
        memcpy(&from, all[i].at, sizeof from);
        if (all[i].bytes) memcpy(at, from, all[i].bytes);
        at += round_up(all[i].bytes);
    }
}

void sim_bare_open(bt_msg *ret, const uint8_t *bytes)
{
    array all[ARRAYS_MAX];
    bt_msg_type type;
    memcpy(&type, bytes + offsetof(bt_msg, type), sizeof type);
    const size_t head = bt_msg_bytes(type);
    memcpy(ret, bytes, head);
    const uint32_t len = arrays_of(all, ret);
    const uint8_t *at = bytes + round_up(head);
    for (uint32_t i = 0; i < len; i++) {
        const void *to = all[i].bytes ? at : NULL;
        memcpy(all[i].at, &to, sizeof to);
        at += round_up(all[i].bytes);
    }
}

static_assert(sizeof(bt_kv_header) <= BT_KV_HEADER_BYTES, "it lies in the place of the coded one");

void sim_bare_put_header(uint8_t out[static BT_KV_HEADER_BYTES], const bt_kv_header *h)
{
    memcpy(out, h, sizeof *h);
}

void sim_bare_get_header(bt_kv_header *ret, const uint8_t in[static BT_KV_HEADER_BYTES])
{
    memcpy(ret, in, sizeof *ret);
}
