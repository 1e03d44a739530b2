/* baton perplexity: how well a model, by a given engine, predicts a text. One process; the convention of llama-perplexity. */
#include "base/clock.h"
#include "base/num.h"
#include "kv/kv_pages.h"
#include "prefill-node/engine.h"
#include "sample/perplexity.h"
#include "tools/tool.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct config {
    const char *model, *file, *isa;
    int engine, against;
    int64_t threads, ctx_size, chunks;
    bool json, quiet;
    bt_package_want want;
} config;

enum { NO_COMPARISON = 0, PAGE_TOKENS = 64 };
static const char *const against_names[] = { "none", "npu", "host", "reference", NULL };

static const bt_opt opts[] = {
    { .group = "Input", .letter = 'm', .name = "model", .value = "MODEL", BT_OPT_AT(config, model), .type = BT_OPT_STRING, .required = true,
      .example = "smollm2", .help = "GGUF file, or 'smollm2'" },
    { .group = "Input", .letter = 'f', .name = "file", .value = "FILE", BT_OPT_AT(config, file), .type = BT_OPT_STRING, .required = true,
      .example = "wiki.test.raw", .help = "the text, '-' for stdin" },
    { .group = "Input", .letter = 'c', .name = "ctx-size", .value = "N", BT_OPT_AT(config, ctx_size), .type = BT_OPT_INT, .def = "512",
      .lo = 4, .hi = 1 << 20, .help = "tokens of one window; the second half of each is scored" },
    { .group = "Input", .name = "chunks", .value = "N", BT_OPT_AT(config, chunks), .type = BT_OPT_INT, .def = "0", .lo = 0, .hi = 1 << 20,
      .help = "windows to use; 0: all" },
    PF_ENGINE_OPT(config, engine),
    { .group = "Model", .name = "against", .value = "NAME", BT_OPT_AT(config, against), .type = BT_OPT_CHOICE, .def = "none",
      .choices = against_names, .help = "also compare the distributions with this engine's" },
    { .group = "Model", .letter = 't', .name = "threads", .value = "N", BT_OPT_AT(config, threads), .type = BT_OPT_INT, .def = "0", .lo = 0,
      .hi = 256, .help = "compute threads; 0: all cores" },
    { .group = "Model", .name = "isa", .value = "NAME", BT_OPT_AT(config, isa), .type = BT_OPT_STRING, .def = "auto",
      .help = "kernels: auto, avx512vnni, avx512, avxvnni, avx2 or ref; the results are the same" },
    BT_PACKAGE_OPTS(config, want),
    BT_PACKAGE_FILE_OPT(config, want),
    { .group = "Output", .name = "json", BT_OPT_AT(config, json), .type = BT_OPT_FLAG, .help = "one JSON object on stdout: perplexity, tokens, ..." },
    { .group = "Output", .letter = 'q', .name = "quiet", BT_OPT_AT(config, quiet), .type = BT_OPT_FLAG, .help = "no progress on stderr" },
};

const bt_opt_program tool_perplexity_program = {
    .name = "baton perplexity", .summary = "measure how well a model predicts a text", .usage = "-m MODEL -f FILE [options]",
    .normal = "baton perplexity -m smollm2 -f wiki.test.raw -c 512 --chunks 20", .opts = opts, .opt_count = BT_OPT_COUNT(opts),
};

/* An engine with the pages and the logits of one window. */
typedef struct side { pf_engine *engine; bt_kv_pages *pages; bt_kv_seq seq; bt_kv_view view; float *logits; } side;

static bt_err side_open(side *s, const bt_model *m, const config *c, const char *engine, bt_fault *fault)
{
    const size_t ctx = (size_t)c->ctx_size;
    tool_compiling show = { .quiet = c->quiet };
    const pf_engine_config ec = { .engine = engine, .isa = c->isa, .want = c->want, .for_perplexity = true, .threads = (size_t)c->threads,
                                  .ctx_tokens = ctx, .progress = tool_progress_compiling, .progress_ud = &show };
    size_t bytes;
    bt_err e = pf_engine_new(&s->engine, m, &ec, fault);
    if (e == BT_OK)
        e = bt_kv_pages_new(&s->pages, m->hp.layers, m->hp.kv_heads, m->hp.head_dim, pf_engine_kv_elem_bytes(s->engine), PAGE_TOKENS, ctx, fault);
    if (e == BT_OK) e = bt_kv_pages_reserve(s->pages, &s->seq, ctx, fault);
    if (e < 0) return e;
    bt_kv_pages_view(&s->view, s->pages, &s->seq);
    if (!bt_mul_size(&bytes, ctx, (size_t)m->hp.vocab * sizeof(float)) || !(s->logits = malloc(bytes)))
        return bt_fail(fault, BT_ENOMEM, "the logits of %zu tokens", ctx);
    return BT_OK;
}

static void side_close(side *s)
{
    if (s->pages) bt_kv_pages_release(s->pages, &s->seq);
    bt_kv_pages_free(s->pages);
    pf_engine_free(s->engine);
    free(s->logits);
}

typedef struct measure { bt_perplexity_plan plan; bt_perplexity score; bt_perplexity_diff *diff; int64_t us; pf_engine_about about; bt_msg_work work; } measure;

static bt_err one_window(measure *r, side *a, side *b, const bt_model *m, const int32_t *ids, bt_fault *fault)
{
    const size_t ctx = r->plan.ctx_tokens, vocab = m->hp.vocab;
    const int64_t begin_us = bt_clock_us();
    bt_err e = pf_engine_prefill(a->engine, &a->view, ids, ctx, 0, NULL, a->logits, BT_PREFILL_ALL, fault);
    r->us += bt_clock_us() - begin_us;
    if (e == BT_OK && b) e = pf_engine_prefill(b->engine, &b->view, ids, ctx, 0, NULL, b->logits, BT_PREFILL_ALL, fault);
    for (size_t i = r->plan.first_scored; e == BT_OK && i <= r->plan.last_scored; i++) {
        bt_perplexity_add(&r->score, bt_perplexity_nll(a->logits + i * vocab, vocab, ids[i + 1]));
        if (b) e = bt_perplexity_diff_add(r->diff, b->logits + i * vocab, a->logits + i * vocab, vocab, fault);
    }
    return e;
}

static int show(const config *c, measure *r)
{
    const double value = bt_perplexity_value(&r->score), error = bt_perplexity_error(&r->score);
    const double macs = (double)r->work.npu_macs + (double)r->work.companion_macs, npu = macs > 0 ? (double)r->work.npu_macs / macs : 0;
    const double rate = r->us ? 1e6 * (double)(r->plan.windows * r->plan.ctx_tokens) / (double)r->us : 0;
    const bt_perplexity_diff_result d = r->diff ? bt_perplexity_diff_end(r->diff) : (bt_perplexity_diff_result){ 0 };
    if (c->json) {
        json_t *o = json_pack("{s:f, s:f, s:I, s:I, s:s, s:s, s:f, s:f}", "perplexity", value, "standard_error", error, "tokens",
                              (json_int_t)r->score.tokens, "windows", (json_int_t)r->plan.windows, "engine", pf_engine_names[c->engine], "quant",
                              r->about.engine.quant, "npu_mac_ratio", npu, "tokens_per_second", rate);
        if (r->diff)
            json_object_update_new(o, json_pack("{s:s, s:f, s:f, s:f}", "against", against_names[c->against], "kl_mean", d.kl_mean, "kl_p99",
                                                d.kl_p99, "top1_ratio", d.top1_ratio));
        return tool_print_json("perplexity", o);
    }
    printf("perplexity %.4f +- %.4f over %llu tokens (%zu window%s of %zu), engine %s, %s, %.1f tokens/s\n", value, error,
           (unsigned long long)r->score.tokens, r->plan.windows, r->plan.windows == 1 ? "" : "s", r->plan.ctx_tokens,
           pf_engine_names[c->engine], r->about.engine.quant, rate);
    if (macs > 0) printf("%.2f %% of its multiply-accumulates on the NPU\n", 100 * npu);
    if (r->diff)
        printf("against %s: mean KL %.6f, 99th percentile %.6f, same best token %.4f\n", against_names[c->against], d.kl_mean, d.kl_p99,
               d.top1_ratio);
    return fflush(stdout) != 0;
}

static bt_err measure_text(measure *r, const config *c, const bt_model *m, const bt_tokenizer *tok, const int32_t *text, size_t n,
                           bt_fault *fault)
{
    side a = { 0 }, b = { 0 };
    const bool compared = c->against != NO_COMPARISON;
    const int32_t bos = bt_tokenizer_adds_bos(tok) ? bt_tokenizer_bos(tok) : -1;
    int32_t *ids = NULL;
    bt_err e = bt_perplexity_plan_make(&r->plan, n, (size_t)c->ctx_size, (size_t)c->chunks, fault);
    if (e == BT_OK) e = side_open(&a, m, c, pf_engine_names[c->engine], fault);
    if (e == BT_OK && compared) e = side_open(&b, m, c, against_names[c->against], fault);
    if (e == BT_OK && compared)
        e = bt_perplexity_diff_new(&r->diff, r->plan.windows * (r->plan.last_scored - r->plan.first_scored + 1), fault);
    if (e == BT_OK && !(ids = malloc(r->plan.ctx_tokens * sizeof *ids))) e = bt_fail(fault, BT_ENOMEM, "one window");
    for (size_t w = 0; e == BT_OK && w < r->plan.windows; w++) {
        bt_perplexity_window(ids, &r->plan, text, w, bos);
        e = one_window(r, &a, compared ? &b : NULL, m, ids, fault);
        tool_progress(c->quiet, "window %zu/%zu  perplexity so far %.4f", w + 1, r->plan.windows, bt_perplexity_value(&r->score));
    }
    tool_progress_end(c->quiet);
    if (e == BT_OK) {
        r->about = pf_engine_describe(a.engine);
        r->work = pf_engine_work(a.engine);
    }
    free(ids);
    side_close(&a);
    side_close(&b);
    return e;
}

int tool_perplexity_run(int argc, char **argv)
{
    config c;
    bt_opt_args args;
    bt_fault fault = { "" };
    bt_model *m = NULL;
    bt_tokenizer *tok = NULL;
    char *text = NULL;
    int32_t *ids = NULL;
    size_t len, n;
    measure r = { 0 };
    int rc = bt_opt_start(&args, &tool_perplexity_program, argc, argv, &c);
    if (rc >= 0) return rc;
    if (tool_open_model(&m, &tok, c.model, &fault) < 0 || tool_read_file(&text, &len, c.file, &fault) < 0
        || bt_tokenizer_encode(&ids, &n, tok, text, len, BT_ENCODE_BOS, &fault) < 0
        || measure_text(&r, &c, m, tok, ids, n, &fault) < 0)
        rc = tool_fail("perplexity", &fault);
    else
        rc = show(&c, &r);
    bt_perplexity_diff_free(r.diff);
    free(ids);
    free(text);
    bt_tokenizer_free(tok);
    bt_model_close(m);
    bt_opt_done(&args);
    return rc;
}
