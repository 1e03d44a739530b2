/* Sums of what engines say that they take and of what workers and nodes allocate; and which choice would be
 * small enough. */
#include "engine/needs.h"
#include "base/memory.h"
#include "base/num.h"
#include "base/pool.h"
#include "engine/decode_backend.h"
#include "engine/prefill_backend.h"
#include "kv/kv_pages.h"

#include <stdio.h>
#include <string.h>

enum {
    REST_BYTES = 16 << 20,   /* of a node: program, libraries, model's header, buffers of links */
    GATEWAY_BYTES = 4 << 20, /* of a gateway, and for each token of the tokenizer */
    VOCAB_BYTES = 320,
    LEAST_CTX = 512,
};

const char *const bt_needs_names[BT_NEEDS_PARTS] = {"package", "weights", "KV", "work", "rest"};

/* ---- a process ---- */

static bt_err add_kv(bt_needs *n, const bt_hparams *h, const bt_needs_want *w, bt_fault *fault)
{
    const bt_engine_facts *f = w->prefill ? bt_engine_prefill(w->prefill) : bt_engine_decode(w->decode);
    const uint32_t elem = bt_engine_kv(f, w->kv_elem_bytes);
    n->token_bytes = bt_kv_token_bytes(elem, h->layers, h->kv_heads, h->head_dim);
    const bt_err e =
        bt_kv_pages_longest(&n->ctx_tokens, w->ctx_tokens, h->ctx, w->kv_memory_bytes, n->token_bytes, fault);
    if (e < 0) return e;
    const uint64_t sequences = w->sequences ? w->sequences : 1;
    if (__builtin_mul_overflow((uint64_t)n->ctx_tokens, n->token_bytes, &n->part[BT_NEEDS_KV]) ||
        __builtin_mul_overflow(n->part[BT_NEEDS_KV], sequences, &n->part[BT_NEEDS_KV]))
        return bt_fail(fault, BT_ELIMIT, "KV of %zu tokens does not fit the address space", n->ctx_tokens);
    return BT_OK;
}

/* Adds what the engines say that they take. Two engines that run packages share one. */
static bt_err add_engines(bt_needs *n, const bt_model *m, const bt_needs_want *want, bt_fault *fault)
{
    const bt_prefill_backend *p = want->prefill ? bt_prefill_backend_of(want->prefill) : NULL;
    const bt_decode_backend *d = want->decode ? bt_decode_backend_of(want->decode) : NULL;
    const bool is_told = p && d && p->facts.has_package && d->facts.has_package;
    bt_needs_want w = *want;
    if (!w.threads) w.threads = bt_pool_cores();
    if (!w.rows) w.rows = 1;
    bt_err e = p && p->needs ? p->needs(n, m, &w, fault) : BT_OK;
    if (e == BT_OK && d && d->needs && !is_told) e = d->needs(n, m, &w, fault);
    return e;
}

static bt_err check_names(const bt_needs_want *w, bt_fault *fault)
{
    if (w->prefill && !bt_engine_prefill(w->prefill))
        return bt_engine_unknown(w->prefill, bt_engine_prefill_names, fault);
    if (w->decode && !bt_engine_decode(w->decode))
        return bt_engine_unknown(w->decode, bt_engine_decode_names, fault);
    return BT_OK;
}

bt_err bt_needs_of(bt_needs *ret, const bt_model *m, const bt_needs_want *w, bt_fault *fault)
{
    bt_needs n = {.part[BT_NEEDS_REST] = REST_BYTES};
    bt_err e = check_names(w, fault);
    const bool is_gateway = !w->prefill && !w->decode;
    if (is_gateway) n.part[BT_NEEDS_REST] = GATEWAY_BYTES + (uint64_t)m->hp.vocab * VOCAB_BYTES;
    else if (e == BT_OK) e = add_kv(&n, &m->hp, w, fault);
    if (e == BT_OK) e = add_engines(&n, m, w, fault);
    if (e < 0) return e;
    if (w->prefill) n.part[BT_NEEDS_WORK] += (uint64_t)m->hp.vocab * sizeof(float);
    if (w->decode) n.part[BT_NEEDS_WORK] += (uint64_t)m->hp.vocab * sizeof(float) * (w->rows ? w->rows : 1);
    n.part[BT_NEEDS_WORK] += (uint64_t)m->hp.vocab * sizeof(float) * w->logits_rows;
    for (int f = 0; f < 3; f++) n.part[BT_NEEDS_WEIGHTS] += n.form[f];
    *ret = n;
    return BT_OK;
}

/* Mapped files are in memory once. */
static bt_needs join(const bt_needs *n, size_t count)
{
    bt_needs all = {.token_bytes = 0};
    for (size_t i = 0; i < count; i++) {
        for (int p = BT_NEEDS_KV; p < BT_NEEDS_PARTS; p++) all.part[p] += n[i].part[p];
        if (n[i].part[BT_NEEDS_PACKAGE] > all.part[BT_NEEDS_PACKAGE])
            all.part[BT_NEEDS_PACKAGE] = n[i].part[BT_NEEDS_PACKAGE];
        for (int f = 0; f < 3; f++)
            if (n[i].form[f] > all.form[f]) all.form[f] = n[i].form[f];
    }
    for (int f = 0; f < 3; f++) all.part[BT_NEEDS_WEIGHTS] += all.form[f];
    return all;
}

uint64_t bt_needs_sum(const bt_needs *n)
{
    uint64_t sum = 0;
    for (int p = 0; p < BT_NEEDS_PARTS; p++) sum += n->part[p];
    return sum;
}

uint64_t bt_needs_all(const bt_needs *n, size_t count)
{
    const bt_needs all = join(n, count);
    return bt_needs_sum(&all);
}

void bt_needs_text(char *ret, size_t cap, const bt_needs *n)
{
    char size[32];
    bt_num_size_text(size, sizeof size, bt_needs_sum(n));
    int at = snprintf(ret, cap, "needs %s:", size);
    const char *between = " ";
    for (int i = 0; i < BT_NEEDS_PARTS; i++) {
        if (!n->part[i] || at < 0 || (size_t)at >= cap) continue;
        bt_num_size_text(size, sizeof size, n->part[i]);
        at += snprintf(ret + at, cap - (size_t)at, "%s%s %s", between, bt_needs_names[i], size);
        between = ", ";
    }
}

/* ---- what fits ---- */

typedef struct change { /* of all processes */
    bool has_form;
    bt_form form;
    bool int8_kv; /* where it is wider and can be */
    size_t ctx;   /* 0: as it is */
} change;

/* Whether the process's KV could be int8 and is not. */
static bool has_wide_kv(const bt_needs_want *w)
{
    const bool prefills = !w->prefill || bt_engine_kv(bt_engine_prefill(w->prefill), 1) == 1,
               decodes = !w->decode || bt_engine_kv(bt_engine_decode(w->decode), 1) == 1;
    return (w->prefill || w->decode) && prefills && decodes && w->kv_elem_bytes != 1;
}

static bt_err total_with(uint64_t *ret, size_t *ret_ctx, const bt_model *m, const bt_needs_want *want,
                         size_t count, const change *c, bt_fault *fault)
{
    bt_needs n[BT_NEEDS_MAX_PROCESSES];
    *ret_ctx = 0;
    for (size_t i = 0; i < count; i++) {
        bt_needs_want w = want[i];
        if (c->has_form) w.weights = c->form;
        if (c->int8_kv && has_wide_kv(&w)) w.kv_elem_bytes = 1;
        if (c->ctx) w.ctx_tokens = c->ctx;
        const bt_err e = bt_needs_of(&n[i], m, &w, fault);
        if (e < 0) return e;
        if (n[i].ctx_tokens > *ret_ctx) *ret_ctx = n[i].ctx_tokens;
    }
    *ret = bt_needs_all(n, count);
    return BT_OK;
}

typedef struct search {
    const bt_model *m;
    const bt_needs_want *want;
    size_t count;
    uint64_t free_bytes, least;
} search;

/* Tries a change; true: it fits. *ret has its bytes. */
static bool fits(uint64_t *ret, search *s, const change *c)
{
    size_t ctx;
    if (total_with(ret, &ctx, s->m, s->want, s->count, c, NULL) < 0) return false;
    if (*ret < s->least) s->least = *ret;
    return *ret <= s->free_bytes;
}

static bool decodes_with_weights(const search *s)
{
    for (size_t i = 0; i < s->count; i++)
        if (s->want[i].decode && bt_engine_decode(s->want[i].decode)->has_weights) return true;
    return false;
}

static bool keeps_wide_kv(const search *s)
{
    for (size_t i = 0; i < s->count; i++)
        if (has_wide_kv(&s->want[i])) return true;
    return false;
}

static void change_text(char *ret, size_t cap, const change *c, uint64_t bytes)
{
    char form[24] = "", ctx[40] = "", size[32];
    bt_num_size_text(size, sizeof size, bytes);
    if (c->has_form) snprintf(form, sizeof form, "--weights %s ", bt_weights_forms[c->form]);
    if (c->ctx) snprintf(ctx, sizeof ctx, "--ctx-size %zu ", c->ctx);
    snprintf(ret, cap, "%s%s%sneeds %s", form, c->int8_kv ? "--kv-dtype int8 " : "", ctx, size);
}

/* Changes from the least to the greatest; the first that fits, in words. */
static bool find_choice(char *ret, size_t cap, search *s, size_t ctx)
{
    static const bt_form forms[] = {BT_FORM_INT8, BT_FORM_FP4};
    const int tries = decodes_with_weights(s) ? 2 : 0;
    const int kv_forms = keeps_wide_kv(s) ? 2 : 1; /* 1: int8 too */
    const bt_form now = s->want[s->count - 1].weights;
    uint64_t bytes;
    for (size_t c = ctx; c >= LEAST_CTX || c == ctx; c /= 2) {
        for (int kv = 0; kv < kv_forms; kv++)
            for (int f = -1; f < tries; f++) {
                const change try = {.has_form = f >= 0, .form = f >= 0 ? forms[f] : now, .int8_kv = kv == 1,
                                    .ctx = c == ctx ? 0 : c};
                const bool is_none = f < 0 && !try.int8_kv && !try.ctx;
                if ((f >= 0 && forms[f] <= now) || is_none || !fits(&bytes, s, &try)) continue;
                change_text(ret, cap, &try, bytes);
                return true;
            }
        if (c < 2) break;
    }
    return false;
}

bt_err bt_needs_check(const bt_model *m, const bt_needs_want *want, size_t count, uint64_t free_bytes,
                      bt_fault *fault)
{
    uint64_t bytes;
    size_t ctx;
    char need[32], have[32], choice[128];
    if (count > BT_NEEDS_MAX_PROCESSES)
        return bt_fail(fault, BT_EARG, "%zu processes at once; at most %d can be counted", count,
                       (int)BT_NEEDS_MAX_PROCESSES);
    const bt_err e = total_with(&bytes, &ctx, m, want, count, &(change){.ctx = 0}, fault);
    if (e < 0 || !free_bytes || bytes <= free_bytes) return e;
    search s = {m, want, count, free_bytes, bytes};
    bt_num_size_text(need, sizeof need, bytes);
    bt_num_size_text(have, sizeof have, free_bytes);
    if (!find_choice(choice, sizeof choice, &s, ctx)) {
        char least[32];
        bt_num_size_text(least, sizeof least, s.least);
        snprintf(choice, sizeof choice,
                 "no other --weights, --kv-dtype or --ctx-size fits, the least needs %s", least);
    }
    return bt_fail(fault, BT_ELIMIT, "needs %s, %s free; %s", need, have, choice);
}

bt_err bt_needs_begin(char ret[BT_NEEDS_TEXT_BYTES], const bt_model *m, const bt_needs_want *want,
                      size_t count, bt_fault *fault)
{
    char text[BT_NEEDS_TEXT_BYTES], have[32] = "an unknown amount";
    bt_needs n[BT_NEEDS_MAX_PROCESSES];
    const uint64_t free_bytes = bt_memory_free();
    bt_err e = bt_needs_check(m, want, count, free_bytes, fault);
    for (size_t i = 0; e == BT_OK && i < count; i++) e = bt_needs_of(&n[i], m, &want[i], fault);
    if (e < 0) return e;
    const bt_needs all = join(n, count);
    bt_needs_text(text, sizeof text, &all);
    if (free_bytes) bt_num_size_text(have, sizeof have, free_bytes);
    snprintf(ret, BT_NEEDS_TEXT_BYTES, "%.150s; %s free", text, have);
    return BT_OK;
}
