/* One window of logits at a time; the float engine's of the first are kept to compare with. */
#include "tools/search/held_out.h"
#include "engine/prefill.h"
#include "model/vocab.h"
#include "npu/compile/compile.h"
#include "sample/perplexity.h"
#include "text/tokenizer.h"
#include "tools/sequences.h"

#include <stdlib.h>
#include <string.h>

enum { WINDOW = TOOL_HELD_OUT_WINDOW };

struct tool_held_out {
    const bt_model *m;
    const bt_obtain_want *want;
    bt_pool *pool;
    int32_t *ids; /* of the whole text */
    int32_t bos;
    bt_perplexity_plan plan;
    float *first; /* [WINDOW, V]: logits of the first window, in floats */
    double value;
};

static bt_err find_windows(tool_held_out *h, bt_fault *fault)
{
    const size_t need = BT_COMPILE_MAX_CALIB + (size_t)TOOL_HELD_OUT_LEAST * WINDOW;
    bt_tokenizer *tok = NULL;
    size_t n;
    bt_err e = bt_vocab_load(&tok, h->m->file, fault);
    if (e == BT_OK) {
        h->bos = bt_tokenizer_adds_bos(tok) ? bt_tokenizer_bos(tok) : -1;
        e = bt_obtain_calibration(&h->ids, &n, h->m, h->want, fault);
    }
    bt_tokenizer_free(tok);
    if (e < 0) return e;
    if (n < need)
        return bt_fail(
            fault, BT_EARG,
            "a calibration text of %zu tokens: auto calibrates on %d and measures on windows behind "
            "them, %zu tokens at least",
            n, BT_COMPILE_MAX_CALIB, need);
    return bt_perplexity_plan_make(&h->plan, n - BT_COMPILE_MAX_CALIB, WINDOW, TOOL_HELD_OUT_WINDOWS, fault);
}

/* pkg NULL: in floats. score NULL: the first window alone. kl NULL: not compared, the first window's logits
 * are kept. */
static bt_err run(tool_held_out *h, const bt_pkg *pkg, bt_perplexity *score, double *kl, bt_fault *fault)
{
    const bt_prefill_config c = {.engine = pkg ? BT_ENGINE_DEFAULT_PREFILL : BT_ENGINE_DEFAULT_FLOAT,
                                 .pkg = pkg, .pool = h->pool, .ctx_tokens = WINDOW};
    const size_t vocab = h->m->hp.vocab, first = h->plan.first_scored, last = h->plan.last_scored;
    int32_t ids[WINDOW];
    bt_prefill *p = NULL;
    tool_sequences s = {0};
    bt_perplexity_diff *diff = NULL;
    bt_err e = bt_prefill_new(&p, h->m, &c, fault);
    if (e == BT_OK) e = tool_sequences_open(&s, h->m, bt_prefill_kv_elem_bytes(p), 1, WINDOW, WINDOW, fault);
    if (e == BT_OK && kl) e = bt_perplexity_diff_new(&diff, last - first + 1, fault);
    for (size_t w = 0; e == BT_OK && w < (score ? h->plan.windows : 1); w++) {
        bt_perplexity_window(ids, &h->plan, h->ids + BT_COMPILE_MAX_CALIB, w, h->bos);
        e = bt_prefill_run(p, &s.view[0], ids, WINDOW, 0, NULL, s.logits, BT_PREFILL_ALL, fault);
        if (e == BT_OK && w == 0 && !kl) memcpy(h->first, s.logits, WINDOW * vocab * sizeof *h->first);
        for (size_t i = first; e == BT_OK && i <= last; i++) {
            const float *row = s.logits + i * vocab;
            if (score) bt_perplexity_add(score, bt_perplexity_nll(row, vocab, ids[i + 1]));
            if (kl && w == 0) e = bt_perplexity_diff_add(diff, h->first + i * vocab, row, vocab, fault);
        }
    }
    if (e == BT_OK && kl) *kl = bt_perplexity_diff_end(diff).kl_mean;
    bt_perplexity_diff_free(diff);
    tool_sequences_close(&s);
    bt_prefill_free(p);
    return e;
}

bt_err tool_held_out_new(tool_held_out **ret, const bt_model *m, const bt_obtain_want *w, bt_pool *pool,
                         bt_fault *fault)
{
    bt_perplexity score = {0};
    tool_held_out *h = calloc(1, sizeof *h);
    if (!h) return bt_fail(fault, BT_ENOMEM, "a search");
    h->m = m;
    h->want = w;
    h->pool = pool;
    bt_err e = find_windows(h, fault);
    if (e == BT_OK && !(h->first = malloc((size_t)WINDOW * m->hp.vocab * sizeof *h->first)))
        e = bt_fail(fault, BT_ENOMEM, "logits of %d tokens", WINDOW);
    if (e == BT_OK) e = run(h, NULL, &score, NULL, fault);
    if (e < 0) {
        tool_held_out_free(h);
        return e;
    }
    h->value = bt_perplexity_value(&score);
    *ret = h;
    return BT_OK;
}

void tool_held_out_free(tool_held_out *h)
{
    if (!h) return;
    free(h->ids);
    free(h->first);
    free(h);
}

double tool_held_out_float(const tool_held_out *h) { return h->value; }
size_t tool_held_out_tokens(const tool_held_out *h)
{
    return h->plan.windows * (h->plan.last_scored - h->plan.first_scored + 1);
}

bt_err tool_held_out_measure(double *ret_loss, double *ret_kl, tool_held_out *h, const bt_pkg *p,
                             bt_fault *fault)
{
    bt_perplexity score = {0};
    const bt_err e = run(h, p, ret_loss ? &score : NULL, ret_kl, fault);
    if (e == BT_OK && ret_loss) *ret_loss = bt_perplexity_value(&score) / h->value - 1;
    return e;
}
