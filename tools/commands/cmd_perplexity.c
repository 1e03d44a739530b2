/* baton perplexity: how well a model, by a given engine, predicts a text. One process; the convention of
 * llama-perplexity. */
#include "base/cache_files.h"
#include "base/clock.h"
#include "base/memory.h"
#include "base/wait.h"
#include "engine/decode.h"
#include "engine/names.h"
#include "engine/options.h"
#include "engine/prefill.h"
#include "kv/kv_dtype.h"
#include "model/options.h"
#include "model/weights.h"
#include "npu/compile/obtain.h"
#include "npu/pkg/attention.h"
#include "sample/perplexity.h"
#include "tools/commands/tell_needs.h"
#include "tools/made_by.h"
#include "tools/options.h"
#include "tools/package_view.h"
#include "tools/search/auto.h"
#include "tools/sequences.h"
#include "tools/tool.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct config {
    const char *model, *file, *isa;
    int engine, against, weights, kv_dtype;
    int64_t threads, ctx_size, chunks;
    uint64_t cache_limit_bytes, memory_bytes;
    bool json, quiet;
    bt_obtain_want want;
} config;

enum { NO_COMPARISON = 0, DECODE_ROWS = 128 /* of one step */ };
#define ENGINE_NAMES (bt_engine_door_names + 1) /* behind "none" */

static const bt_opt opts[] = {
    {.of = &bt_model_opts, .group = "Input", .name = "model", BT_OPT_AT(config, model), .required = true,
     .help = "GGUF file, or the name of a model (baton list)"},
    {.of = &tool_text_opts, .name = "file", BT_OPT_AT(config, file), .required = true,
     .example = "wiki.test.raw", .help = "the text, '-' for stdin"},
    {.of = &bt_model_opts, .group = "Input", .name = "ctx-size", BT_OPT_AT(config, ctx_size), .def = "512",
     .lo = 4, .hi = 1 << 20, .help = "tokens of one window; the second half of each is scored"},
    {.group = "Input", .name = "chunks", .value = "N", BT_OPT_AT(config, chunks), .type = BT_OPT_INT,
     .def = "0", .lo = 0, .hi = 1 << 20, .help = "windows to use; 0: all"},
    {.of = &bt_engine_opts, .name = "engine", BT_OPT_AT(config, engine), .choices = ENGINE_NAMES,
     .help = "what computes: the integer NPU, f16 kernels, the plain FP32 oracle, or the decode node's "
             "kernels: those of its engine host, or of npu"},
    {.group = "Model", .name = "against", .value = "NAME", BT_OPT_AT(config, against), .type = BT_OPT_CHOICE,
     .def = "none", .choices = bt_engine_door_names,
     .help = "also compare the distributions with this engine's; whose attention is dense"},
    {.of = &bt_model_opts, .name = "weights", BT_OPT_AT(config, weights), .help = "weights of engine decode"},
    {.of = &bt_kv_dtype_opts, .name = "kv-dtype", BT_OPT_AT(config, kv_dtype)},
    {.of = &bt_machine_opts, .group = "Model", .name = "threads", BT_OPT_AT(config, threads)},
    {.of = &bt_machine_opts, .group = "Model", .name = "isa", BT_OPT_AT(config, isa)},
    {.of = &bt_machine_opts, .group = "Model", .name = "cache-limit", BT_OPT_AT(config, cache_limit_bytes)},
    {.of = &bt_machine_opts, .group = "Model", .name = "memory", BT_OPT_AT(config, memory_bytes)},
    BT_OPT_ALL(bt_obtain_opts, config, want, NULL),
    {.of = &tool_output_opts, .name = "json", BT_OPT_AT(config, json),
     .help = "one JSON object on stdout: perplexity, tokens, ..."},
    {.of = &tool_output_opts, .name = "quiet", BT_OPT_AT(config, quiet)},
};

const bt_opt_program tool_perplexity_program = {
    .name = "baton perplexity",
    .summary = "measure how well a model predicts a text",
    .usage = "-m MODEL -f FILE [options]",
    .normal = "baton perplexity -m smollm2 -f wiki.test.raw -c 512 --chunks 20",
    .opts = opts,
    .opt_count = BT_OPT_COUNT(opts),
};

typedef struct measure {
    bt_perplexity_plan plan;
    bt_perplexity score, base; /* base: of the engine that it is compared with */
    bt_perplexity_diff *diff;
    int64_t us;
    char form[BT_RECIPE_MAX_TEXT], quant[BT_RECIPE_MAX_TEXT], attention[BT_ATTENTION_MAX_TEXT]; /* attention:
                                                                                                   where it is
                                                                                                   sparse */
    bt_report_work work;
    json_t *made_by;
} measure;

/* One engine of a measurement, with the rows and logits of one window: one that computes prompts, or one that
 * generates, in steps of several rows. */
typedef struct side {
    bt_prefill *prefill;
    bt_decode *decode;
    tool_sequences window;
} side;

/* The memory of both engines; each has one window's rows and logits. */
static bt_err tell_needs(const config *c, const bt_model *m, const bt_pool *pool, bt_fault *fault)
{
    const char *const names[] = {ENGINE_NAMES[c->engine], bt_engine_door_names[c->against]};
    const size_t count = c->against == NO_COMPARISON ? 1 : 2;
    bt_needs_want want[2];
    for (size_t i = 0; i < count; i++) {
        const bt_engine_facts *decode = bt_engine_door_decode(names[i]);
        want[i] = (bt_needs_want){.prefill = decode ? NULL : names[i],
                                  .decode = decode ? decode->name : NULL,
                                  .weights = (bt_form)c->weights,
                                  .want = &c->want,
                                  .kv_elem_bytes = bt_kv_dtype_wanted(c->kv_dtype),
                                  .ctx_tokens = (size_t)c->ctx_size,
                                  .rows = DECODE_ROWS,
                                  .threads = bt_pool_threads(pool),
                                  .logits_rows = (size_t)c->ctx_size};
    }
    return tool_tell_needs("perplexity", m, want, count, c->quiet, fault);
}

/* engine: of bt_engine_door_names. is_dense: whatever --attention says. An engine without the form of KV that
 * is asked for has its own. side_close also after a failure; zeros are fine. */
static bt_err side_open(side *s, const config *c, const bt_model *m, const char *engine, bt_pool *pool,
                        bool is_dense, bt_fault *fault)
{
    const size_t ctx = (size_t)c->ctx_size;
    const bt_engine_facts *decode = bt_engine_door_decode(engine),
                          *facts = decode ? decode : bt_engine_prefill(engine);
    const uint32_t elem_bytes = bt_engine_kv(facts, bt_kv_dtype_wanted(c->kv_dtype));
    const bt_decode_config dc = {.engine = facts->name,
                                 .isa = c->isa,
                                 .want = c->want,
                                 .weights = bt_weights_forms[c->weights],
                                 .kv_elem_bytes = elem_bytes,
                                 .pool = pool,
                                 .progress = bt_wait_tell,
                                 .rows_max = DECODE_ROWS,
                                 .ctx_tokens = ctx};
    bt_prefill_config pc = {.engine = engine,
                            .isa = c->isa,
                            .want = c->want,
                            .is_dense = is_dense,
                            .for_perplexity = true,
                            .pool = pool,
                            .kv_elem_bytes = elem_bytes,
                            .ctx_tokens = ctx,
                            .progress = bt_wait_tell};
    if (is_dense && !facts->is_sparse) pc.want.attention = NULL;
    bt_wait_tell(NULL, "opening the engine", 0, 0);
    const bt_err e =
        decode ? bt_decode_new(&s->decode, m, &dc, fault) : bt_prefill_new(&s->prefill, m, &pc, fault);
    if (e < 0) return e;
    return tool_sequences_open(&s->window, m,
                               s->decode ? bt_decode_kv_elem_bytes(s->decode)
                                         : bt_prefill_kv_elem_bytes(s->prefill),
                               1, ctx, ctx, fault);
}

static void side_close(side *s)
{
    tool_sequences_close(&s->window);
    bt_prefill_free(s->prefill);
    bt_decode_free(s->decode);
}

/* The logits of ids[n] from position 0. */
static bt_err side_run(side *s, const int32_t *ids, size_t n, bt_fault *fault)
{
    tool_sequences *w = &s->window;
    if (s->prefill)
        return bt_prefill_run(s->prefill, &w->view[0], ids, n, 0, NULL, w->logits, BT_PREFILL_ALL, fault);
    bt_err e = BT_OK;
    for (size_t pos = 0; e == BT_OK && pos < n; pos += DECODE_ROWS) {
        const uint32_t count = (uint32_t)(n - pos < DECODE_ROWS ? n - pos : DECODE_ROWS);
        const bt_decode_seq rows = {.kv = &w->view[0], .pos = pos, .tokens = ids + pos, .count = count,
                                    .out = count};
        e = bt_decode_step(s->decode, &rows, 1, NULL, w->logits + pos * w->vocab, fault);
    }
    return e;
}

static bt_err one_window(measure *r, side *a, side *b, const bt_model *m, const int32_t *ids, bt_fault *fault)
{
    const size_t ctx = r->plan.ctx_tokens, vocab = m->hp.vocab;
    const int64_t begin_us = bt_clock_us();
    bt_err e = side_run(a, ids, ctx, fault);
    r->us += bt_clock_us() - begin_us;
    if (e == BT_OK && b) e = side_run(b, ids, ctx, fault);
    for (size_t i = r->plan.first_scored; e == BT_OK && i <= r->plan.last_scored; i++) {
        bt_perplexity_add(&r->score, bt_perplexity_nll(a->window.logits + i * vocab, vocab, ids[i + 1]));
        if (!b) continue;
        bt_perplexity_add(&r->base, bt_perplexity_nll(b->window.logits + i * vocab, vocab, ids[i + 1]));
        e = bt_perplexity_diff_add(r->diff, b->window.logits + i * vocab, a->window.logits + i * vocab, vocab,
                                   fault);
    }
    return e;
}

static int show(const config *c, measure *r)
{
    const double value = bt_perplexity_value(&r->score), error = bt_perplexity_error(&r->score);
    const double macs = (double)r->work.npu_macs + (double)r->work.companion_macs,
                 npu = macs > 0 ? (double)r->work.npu_macs / macs : 0,
                 in16 = macs > 0 ? (double)r->work.npu_int16_macs / macs : 0,
                 floats = macs > 0 ? (double)r->work.npu_float_macs / macs : 0,
                 masked = macs > 0 ? (double)r->work.masked_macs / (macs + (double)r->work.masked_macs) : 0;
    const double rate = r->us ? 1e6 * (double)(r->plan.windows * r->plan.ctx_tokens) / (double)r->us : 0;
    const bt_perplexity_diff_result d =
        r->diff ? bt_perplexity_diff_end(r->diff) : (bt_perplexity_diff_result){0};
    if (c->json) {
        json_t *o =
            json_pack("{s:f, s:f, s:I, s:I, s:s, s:s, s:f, s:f, s:f, s:f, s:f, s:I, s:I, s:f}", "perplexity",
                      value, "standard_error", error, "tokens", (json_int_t)r->score.tokens, "windows",
                      (json_int_t)r->plan.windows, "engine", ENGINE_NAMES[c->engine], "quant", r->form,
                      "npu_mac_ratio", npu, "npu_int8_mac_ratio", npu - in16 - floats, "npu_int16_mac_ratio",
                      in16, "npu_float_mac_ratio", floats, "masked_mac_ratio", masked, "tile_padding_macs",
                      (json_int_t)r->work.tile_padding_macs, "batch_padding_rows",
                      (json_int_t)r->work.batch_padding_rows, "tokens_per_second", rate);
        if (r->attention[0])
            json_object_update_new(o, json_pack("{s:s, s:I, s:I}", "attention", r->attention, "sparse_rows",
                                                (json_int_t)r->work.sparse_rows, "dense_rows",
                                                (json_int_t)r->work.dense_rows));
        if (r->work.expert_rows)
            json_object_update_new(o,
                                   json_pack("{s:I, s:I}", "expert_rows", (json_int_t)r->work.expert_rows,
                                             "expert_padding_rows", (json_int_t)r->work.expert_padding_rows));
        if (r->diff)
            json_object_update_new(o, json_pack("{s:s, s:f, s:f, s:f, s:f}", "against",
                                                bt_engine_door_names[c->against], "against_perplexity",
                                                bt_perplexity_value(&r->base), "kl_mean", d.kl_mean, "kl_p99",
                                                d.kl_p99, "top1_ratio", d.top1_ratio));
        (void)json_object_set(o, "made_by", r->made_by);
        return tool_print_json("perplexity", o);
    }
    printf(
        "perplexity %.4f +- %.4f over %llu tokens (%zu window%s of %zu), engine %s, %s%s%s, %.1f tokens/s\n",
        value, error, (unsigned long long)r->score.tokens, r->plan.windows, r->plan.windows == 1 ? "" : "s",
        r->plan.ctx_tokens, ENGINE_NAMES[c->engine], r->form, r->attention[0] ? ", " : "", r->attention,
        rate);
    if (macs > 0) printf("%.2f %% of its multiply-accumulates on the NPU\n", 100 * npu);
    if (in16 + floats > 0)
        printf("%.2f %% in int8, %.2f %% in int16, %.2f %% in floats\n", 100 * (npu - in16 - floats),
               100 * in16, 100 * floats);
    if (r->work.tile_padding_macs)
        printf("whole tiles add %.2f %% to them\n", 100 * (double)r->work.tile_padding_macs / macs);
    if (r->work.sparse_rows)
        printf("%llu rows attended sparsely, %llu stood too far in front\n",
               (unsigned long long)r->work.sparse_rows, (unsigned long long)r->work.dense_rows);
    if (masked > 0)
        printf("%.2f %% of what the device would multiply are masked columns; not done here\n", 100 * masked);
    if (r->work.expert_rows)
        printf("padding adds %.2f %% to the rows of experts; not done here\n",
               100 * (double)r->work.expert_padding_rows / (double)r->work.expert_rows);
    if (r->work.batch_padding_rows)
        printf("%llu rows of batches were empty\n", (unsigned long long)r->work.batch_padding_rows);
    if (r->diff)
        printf(
            "against %s: perplexity %.4f there, mean KL %.6f, 99th percentile %.6f, same best token %.4f\n",
            bt_engine_door_names[c->against], bt_perplexity_value(&r->base), d.kl_mean, d.kl_p99,
            d.top1_ratio);
    return bt_opt_flush() != 0;
}

static bt_err measure_text(measure *r, config *c, const bt_model *m, const bt_tokenizer *tok, bt_pool *pool,
                           const int32_t *text, size_t n, bt_fault *fault)
{
    side a = {0}, b = {0};
    const bool compared = c->against != NO_COMPARISON;
    const int32_t bos = bt_tokenizer_adds_bos(tok) ? bt_tokenizer_bos(tok) : -1;
    int32_t *ids = NULL;
    bt_attention attention;
    const tool_auto_how how = {.isa = c->isa, .ctx_tokens = (size_t)c->ctx_size, .pool = pool,
                               .quiet = c->quiet};
    bt_err e = bt_attention_parse(&attention, c->want.attention, fault);
    if (e == BT_OK && attention.ratio_ppm && bt_engine_door_decode(ENGINE_NAMES[c->engine]))
        e = bt_fail(
            fault, BT_EARG,
            "--attention %s does not fit engine '%s': decoding attends densely; leave --attention out",
            c->want.attention, ENGINE_NAMES[c->engine]);
    if (e == BT_OK) e = tool_auto_resolve(NULL, r->quant, &c->want, m, &how, fault);
    if (e == BT_OK) e = bt_perplexity_plan_make(&r->plan, n, (size_t)c->ctx_size, (size_t)c->chunks, fault);
    if (e == BT_OK) e = tell_needs(c, m, pool, fault);
    if (e == BT_OK) e = side_open(&a, c, m, ENGINE_NAMES[c->engine], pool, false, fault);
    if (e == BT_OK && compared) e = side_open(&b, c, m, bt_engine_door_names[c->against], pool, true, fault);
    if (e == BT_OK && compared)
        e = bt_perplexity_diff_new(&r->diff,
                                   r->plan.windows * (r->plan.last_scored - r->plan.first_scored + 1), fault);
    if (e == BT_OK && !(ids = malloc(r->plan.ctx_tokens * sizeof *ids)))
        e = bt_fail(fault, BT_ENOMEM, "out of memory for one window");
    for (size_t w = 0; e == BT_OK && w < r->plan.windows; w++) {
        bt_wait_tell(NULL, "measuring", w, r->plan.windows);
        if (w) bt_wait_note("perplexity so far %.4f", bt_perplexity_value(&r->score));
        bt_perplexity_window(ids, &r->plan, text, w, bos);
        e = one_window(r, &a, compared ? &b : NULL, m, ids, fault);
    }
    bt_wait_end();
    if (e == BT_OK) {
        snprintf(r->form, sizeof r->form, "%s",
                 a.decode ? bt_decode_quant(a.decode) : bt_prefill_about(a.prefill).quant);
        const bt_pkg *pkg = a.prefill ? bt_prefill_pkg(a.prefill) : NULL;
        if (pkg && bt_pkg_header_of(pkg)->sparse_ppm) (void)tool_package_attention(r->attention, pkg);
        r->work = a.decode ? bt_decode_work(a.decode) : bt_prefill_work(a.prefill);
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
    bt_fault fault = {""};
    bt_model *m = NULL;
    bt_tokenizer *tok = NULL;
    char *text = NULL;
    int32_t *ids = NULL;
    size_t len, n;
    measure r = {0};
    bt_pool *pool = NULL;
    int rc = bt_opt_start(&args, &tool_perplexity_program, argc, argv, &c);
    if (rc >= 0) return rc;
    tool_quiet(c.quiet);
    bt_memory_set_free(c.memory_bytes);
    tool_cache_setup(c.cache_limit_bytes, c.quiet);
    if (tool_made_by(&r.made_by, &args, c.isa, &fault) < 0 ||
        (tool_made_by_profile(r.made_by, c.want.profile), false) ||
        bt_pool_new(&pool, (size_t)c.threads, &fault) < 0 || tool_open_model(&m, &tok, c.model, &fault) < 0 ||
        tool_read_file(&text, &len, c.file, &fault) < 0 ||
        (bt_wait_tell(NULL, "finding the tokens of the text", 0, 0), false) ||
        bt_tokenizer_encode(&ids, &n, tok, text, len, BT_ENCODE_BOS, &fault) < 0 ||
        (tool_tell_tokens(tok), false) || measure_text(&r, &c, m, tok, pool, ids, n, &fault) < 0)
        rc = tool_fail("perplexity", &fault);
    else rc = show(&c, &r);
    json_decref(r.made_by);
    bt_perplexity_diff_free(r.diff);
    free(ids);
    free(text);
    bt_tokenizer_free(tok);
    bt_model_close(m);
    bt_pool_free(pool);
    bt_opt_done(&args);
    return rc;
}
