/* The measurements of the search: packages that donate layers to each other, a device's limits and prices,
 * text that calibrates nothing; and where its answers are kept. */
#include "tools/search/auto.h"
#include "base/cache.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/num.h"
#include "base/pool.h"
#include "base/wait.h"
#include "engine/costs.h"
#include "engine/prefill.h"
#include "lab/plan/sketch.h"
#include "model/model.h"
#include "model/vocab.h"
#include "npu/compile/compile.h"
#include "npu/compile/obtain.h"
#include "npu/price/schedule_play.h"
#include "sample/perplexity.h"
#include "text/tokenizer.h"
#include "tools/sequences.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Perplexity on the part of the calibration's text that calibrates nothing: windows of TOOL_HELD_OUT_WINDOW
 * tokens behind the first BT_COMPILE_MAX_CALIB, as many as there are and at most TOOL_HELD_OUT_WINDOWS,
 * scored as baton perplexity scores them. */
enum { TOOL_HELD_OUT_WINDOW = 512, TOOL_HELD_OUT_WINDOWS = 8, TOOL_HELD_OUT_LEAST = 2 };

enum { WINDOW = TOOL_HELD_OUT_WINDOW };

typedef struct held_out {
    const bt_model *m;
    const bt_obtain_want *want;
    bt_pool *pool;
    int32_t *ids; /* of the whole text */
    int32_t bos;
    bt_perplexity_plan plan;
    float *first; /* [WINDOW, V]: logits of the first window, in floats */
    double value;
} held_out;

static bt_err find_windows(held_out *h, bt_fault *fault)
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
    if (e != BT_OK) return e;
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
static bt_err run(held_out *h, const bt_pkg *pkg, bt_perplexity *score, double *kl, bt_fault *fault)
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

/* NULL is fine. */
static void held_out_free(held_out *h)
{
    if (!h) return;
    free(h->ids);
    free(h->first);
    free(h);
}

/* Runs the float engine, against whose perplexity losses are taken, and keeps its logits of one window. m, w
 * and pool are borrowed. BT_EARG: a text of less than TOOL_HELD_OUT_LEAST windows behind the calibration,
 * with both numbers. */
static bt_err held_out_new(held_out **ret, const bt_model *m, const bt_obtain_want *w, bt_pool *pool,
                           bt_fault *fault)
{
    bt_perplexity score = {0};
    held_out *h = calloc(1, sizeof *h);
    if (!h) return bt_fail(fault, BT_ENOMEM, "out of memory for a search");
    h->m = m;
    h->want = w;
    h->pool = pool;
    bt_err e = find_windows(h, fault);
    if (e == BT_OK && !(h->first = malloc((size_t)WINDOW * m->hp.vocab * sizeof *h->first)))
        e = bt_fail(fault, BT_ENOMEM, "out of memory for logits of %d tokens", WINDOW);
    if (e == BT_OK) e = run(h, NULL, &score, NULL, fault);
    if (e < 0) {
        held_out_free(h);
        return e;
    }
    h->value = bt_perplexity_value(&score);
    *ret = h;
    return BT_OK;
}

static double held_out_float(const held_out *h) { return h->value; }
/* The number of tokens that are scored. */
static size_t held_out_tokens(const held_out *h)
{
    return h->plan.windows * (h->plan.last_scored - h->plan.first_scored + 1);
}

/* *ret_kl: mean divergence of the first window from floats. *ret_loss: perplexity / that of floats - 1; NULL:
 * only the first window is run. */
static bt_err held_out_measure(double *ret_loss, double *ret_kl, held_out *h, const bt_pkg *p,
                               bt_fault *fault)
{
    bt_perplexity score = {0};
    const bt_err e = run(h, p, ret_loss ? &score : NULL, ret_kl, fault);
    if (e == BT_OK && ret_loss) *ret_loss = bt_perplexity_value(&score) / h->value - 1;
    return e;
}

enum { VERSION = 4 }; /* of the ladder and the steps: another gives other answers */
static const char *const kinds[] = {"all", "one", "mixed"};

typedef struct job {
    const bt_model *m;
    const bt_obtain_want *want;
    const tool_auto_how *how;
    tool_search search;
    bt_profile profile;
    bt_dims dims;
    held_out *held_out;
    bt_pkg *donor[TOOL_SEARCH_LADDER];
    size_t donors;
    int64_t begin_us;
    bool has_time;
} job;

static bt_err open_package(bt_pkg **ret, char path[BT_OBTAIN_PATH_BYTES], const job *j, const char *recipe,
                           bt_fault *fault)
{
    bt_obtain_want w = *j->want;
    w.quant = recipe;
    const bt_obtain_how how = {
        .ctx_tokens = j->how->ctx_tokens,         .isa = j->how->isa,  .pool = j->how->pool,
        .donor = (const bt_pkg *const *)j->donor, .donors = j->donors, .progress = bt_wait_tell};
    return bt_obtain_open(ret, path, j->m, &w, &how, fault);
}

/* Deletes the file of a mixture, which is open: nobody will ask for that package again. */
static void drop_file(char *path)
{
    bt_cache_file f = {.kind = &bt_cache_files_packages, .path = path};
    const char *name = strrchr(path, '/');
    if (!name || strlen(name) < BT_CACHE_KEY_CHARS + 1) return;
    memcpy(f.key, name + 1, BT_CACHE_KEY_CHARS);
    (void)bt_cache_files_delete(&f); /* else it stays until the cache is full */
}

static bt_err cost_of(tool_search_try *t, const job *j, const bt_pkg *p, bt_fault *fault)
{
    t->bytes = bt_pkg_header_of(p)->file_bytes;
    t->cost = (double)t->bytes;
    if (!j->has_time) return BT_OK;
    bt_price_pkg *price = NULL;
    const bt_price_pkg_config config = {.pkg = p, .npu = &j->profile};
    const uint32_t ctx = bt_pkg_header_of(p)->ctx_tokens;
    bt_schedule_play *play = NULL;
    bt_work_played played;
    bt_err e = bt_price_pkg_new(&price, &config, fault);
    const bt_schedule_play_config serial = {.price = price, .policy = BT_SCHEDULE_SERIAL, .window = 1};
    if (e == BT_OK) e = bt_schedule_play_new(&play, &serial, fault);
    if (e == BT_OK &&
        !bt_schedule_play_prompt(play, &played, 0, ctx < TOOL_AUTO_TOKENS ? ctx : TOOL_AUTO_TOKENS))
        e = bt_fail(fault, BT_ENOMEM, "out of memory for the price of a prompt");
    if (e == BT_OK) t->cost = (double)played.ns;
    bt_schedule_play_free(play);
    bt_price_pkg_free(price);
    return e;
}

static bt_err measure(void *ud, tool_search_try *t, bt_fault *fault)
{
    job *j = ud;
    char path[BT_OBTAIN_PATH_BYTES];
    bt_recipe r;
    bt_pkg *p = NULL;
    if (bt_clock_us() - j->begin_us > (int64_t)TOOL_AUTO_MAX_MINUTES * 60000000)
        return bt_fail(fault, BT_ELIMIT, "auto: %d minutes passed, and %zu tries were not enough",
                       TOOL_AUTO_MAX_MINUTES, j->search.count);
    bt_err e = bt_recipe_parse(&r, t->recipe, fault);
    if (e == BT_OK) e = tool_plan_sketch_check(&j->profile, &j->dims, &r, fault);
    if (e == BT_OK) e = open_package(&p, path, j, t->recipe, fault);
    if (e == BT_OK && t->kind != TOOL_SEARCH_ALL) drop_file(path);
    if (e == BT_OK) e = cost_of(t, j, p, fault);
    if (e == BT_OK)
        e = held_out_measure(t->kind == TOOL_SEARCH_ONE ? NULL : &t->loss, &t->kl, j->held_out, p, fault);
    if (e == BT_OK && t->kind == TOOL_SEARCH_ALL) j->donor[j->donors++] = p;
    else bt_pkg_close(p);
    return e;
}

static void cost_text(char ret[32], double cost, bool is_time)
{
    if (is_time) snprintf(ret, 32, "%.3f ms", cost / 1e6);
    else bt_num_size_text(ret, 32, (uint64_t)cost);
}

static void report(void *ud, const tool_search_try *t)
{
    const job *j = ud;
    char cost[32];
    if (j->how->quiet) return;
    bt_wait_end();
    cost_text(cost, t->cost, j->has_time);
    if (t->why_not[0]) fprintf(stderr, "auto: %s: not tried, %s\n", t->recipe, t->why_not);
    else if (t->kind == TOOL_SEARCH_ONE) fprintf(stderr, "auto: %s: KL %.6f, %s\n", t->recipe, t->kl, cost);
    else
        fprintf(stderr, "auto: %s: perplexity %+.3f %%, %s%s\n", t->recipe, 100 * t->loss, cost,
                t->keeps ? ", keeps the bound" : "");
}

/* ---- answers as JSON ---- */

static json_t *real_or_null(double v, bool is_there) { return is_there ? json_real(v) : json_null(); }

static json_t *answer_of(const job *j)
{
    const tool_search *s = &j->search;
    json_t *tries = json_array();
    for (size_t i = 0; i < s->count; i++) {
        const tool_search_try *t = &s->tries[i];
        const bool tried = !t->why_not[0];
        json_array_append_new(
            tries, json_pack("{s:s,s:s,s:o,s:o,s:o,s:I,s:b,s:o}", "recipe", t->recipe, "kind", kinds[t->kind],
                             "loss", real_or_null(t->loss, tried && t->kind != TOOL_SEARCH_ONE), "kl",
                             real_or_null(t->kl, tried), "cost", real_or_null(t->cost, tried), "bytes",
                             (json_int_t)t->bytes, "keeps", (int)t->keeps, "why_not",
                             tried ? json_null() : json_string(t->why_not)));
    }
    return json_pack("{s:s,s:f,s:f,s:I,s:s,s:f,s:o}", "recipe", s->best->recipe, "bound", s->bound,
                     "float_perplexity", held_out_float(j->held_out), "held_out_tokens",
                     (json_int_t)held_out_tokens(j->held_out), "cost_unit", j->has_time ? "ns" : "bytes",
                     "seconds", (double)(bt_clock_us() - j->begin_us) / 1e6, "tries", tries);
}

static bt_err search(job *j, const char *path, bt_fault *fault)
{
    char best[BT_OBTAIN_PATH_BYTES];
    bt_pkg *p = NULL;
    json_t *answer = NULL;
    char *text = NULL;
    j->begin_us = bt_clock_us();
    j->search.tries = calloc(TOOL_SEARCH_MAX_TRIES, sizeof *j->search.tries);
    bt_err e = j->search.tries ? BT_OK : bt_fail(fault, BT_ENOMEM, "out of memory for a search");
    bt_wait_tell(NULL, "measuring in floats", 0, 0);
    if (e == BT_OK) e = held_out_new(&j->held_out, j->m, j->want, j->how->pool, fault);
    if (e == BT_OK) e = tool_search_run(&j->search, fault);
    if (e == BT_OK) e = open_package(&p, best, j, j->search.best->recipe, fault); /* it stays in the cache */
    if (e == BT_OK && (!(answer = answer_of(j)) || !(text = json_dumps(answer, 0))))
        e = bt_fail(fault, BT_ENOMEM, "out of memory for a search's answer");
    if (e == BT_OK) e = bt_file_replace(path, text, strlen(text), 0644, fault);
    bt_wait_end();
    free(text);
    json_decref(answer);
    bt_pkg_close(p);
    held_out_free(j->held_out);
    for (size_t i = 0; i < j->donors; i++) bt_pkg_close(j->donor[i]);
    free(j->search.tries);
    return e;
}

static bt_err make(void *ud, const char *path, bt_fault *fault) { return search(ud, path, fault); }

static bt_err open_answer(void **ret, void *ud, const char *path, bt_fault *fault)
{
    (void)ud;
    bt_recipe r;
    bt_buf b;
    bt_buf_init(&b, (size_t)1 << 20);
    bt_err e = bt_file_read(&b, path, fault);
    json_t *o = e == BT_OK ? json_loadb((const char *)b.data, b.len, 0, NULL) : NULL;
    const char *recipe = json_string_value(json_object_get(o, "recipe"));
    if (e == BT_OK &&
        (!recipe || !json_is_array(json_object_get(o, "tries")) || bt_recipe_parse(&r, recipe, NULL) < 0))
        e = bt_fail(fault, BT_EFORMAT, "'%s' is no answer of a search: remove that file", path);
    if (e == BT_OK) *ret = o;
    else json_decref(o);
    bt_buf_done(&b);
    return e;
}

/* A search's key: all that a package of the default recipe depends on, and the bound. */
static bt_err key_of(char ret[33], const job *j, bt_fault *fault)
{
    char of_package[33];
    uint8_t hash[BT_HASH_BYTES];
    bt_hash_stream s;
    const uint32_t version = VERSION;
    bt_obtain_want w = *j->want;
    w.quant = NULL;
    const bt_obtain_how how = {.ctx_tokens = j->how->ctx_tokens};
    const bt_err e = bt_obtain_key(of_package, j->m, &w, &how, fault);
    if (e < 0) return e;
    bt_hash_begin(&s);
    bt_hash_add(&s, &version, sizeof version);
    bt_hash_add(&s, of_package, sizeof of_package);
    bt_hash_add(&s, &j->search.bound, sizeof j->search.bound);
    bt_hash_end(hash, &s);
    bt_hash_hex(ret, hash);
    return BT_OK;
}

bt_err tool_auto_resolve(json_t **ret, char recipe[BT_RECIPE_MAX_TEXT], bt_obtain_want *w, const bt_model *m,
                         const tool_auto_how *how, bt_fault *fault)
{
    char key[33];
    bool is_asked;
    double bound = 0;
    void *found = NULL;
    if (ret) *ret = NULL;
    bt_err e = tool_search_asked(&is_asked, &bound, w->quant, fault);
    if (e < 0 || !is_asked) return e;
    if (w->package)
        return bt_fail(fault, BT_EARG, "--quant %s has no meaning with --package: nothing is compiled",
                       w->quant);
    job j = {.m = m, .want = w, .how = how, .dims = bt_costs_dims(m)};
    j.search =
        (tool_search){.bound = bound, .layers = m->hp.layers, .measure = measure, .report = report, .ud = &j};
    e = bt_profile_load(&j.profile, w->profile, fault);
    j.has_time = e == BT_OK && j.profile.time.is_given;
    if (e == BT_OK) e = key_of(key, &j, fault);
    const bt_cache_request r = {.kind = &bt_cache_files_recipes,
                                .key = key,
                                .model = m->name,
                                .recipe = w->quant,
                                .open = open_answer,
                                .make = make,
                                .ud = &j};
    if (e == BT_OK) e = bt_cache_open(&found, NULL, &r, fault);
    if (e < 0) return e;
    snprintf(recipe, BT_RECIPE_MAX_TEXT, "%s", json_string_value(json_object_get(found, "recipe")));
    w->quant = recipe;
    if (ret) *ret = found;
    else json_decref(found);
    return BT_OK;
}

void tool_auto_print(const json_t *found)
{
    const char *best = json_string_value(json_object_get(found, "recipe"));
    const bool is_time = strcmp(json_string_value(json_object_get(found, "cost_unit")), "ns") == 0;
    const json_t *tries = json_object_get(found, "tries");
    printf("perplexity of floats %.4f on %" JSON_INTEGER_FORMAT
           " held-out tokens; a loss of %.4g %% is allowed\n",
           json_number_value(json_object_get(found, "float_perplexity")),
           json_integer_value(json_object_get(found, "held_out_tokens")),
           100 * json_number_value(json_object_get(found, "bound")));
    printf("  %10s  %9s  %12s  recipe\n", "perplexity", "KL", is_time ? "modelled" : "package");
    for (size_t i = 0; i < json_array_size(tries); i++) {
        const json_t *t = json_array_get(tries, i), *loss = json_object_get(t, "loss");
        const char *recipe = json_string_value(json_object_get(t, "recipe")),
                   *why = json_string_value(json_object_get(t, "why_not"));
        char cost[32], percent[16] = "";
        cost_text(cost, json_number_value(json_object_get(t, "cost")), is_time);
        if (json_is_real(loss)) snprintf(percent, sizeof percent, "%+.3f %%", 100 * json_real_value(loss));
        if (why) printf("  not tried: %s: %s\n", recipe, why);
        else
            printf("%c %10s  %9.6f  %12s  %s\n", best && recipe && !strcmp(best, recipe) ? '*' : ' ', percent,
                   json_number_value(json_object_get(t, "kl")), cost, recipe);
    }
    printf("\n");
}
