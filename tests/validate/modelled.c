/* The price of a row, by what forecasts it: a kernel by common/device as the step or the program that has
 * nothing else, a prompt on an NPU by the programs that the compiler would make. */
#include "tests/validate/validate.h"
#include "device/energy.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- profiles ---- */
enum { PROFILES = 256, BUDGET_ROWS = 8192 }; /* rows of a step that servers fill with prompts */
typedef struct loaded {
    const char *device, *stack;
    uint32_t devices;
    const char *why; /* NULL: loaded */
    bt_profile profile;
} loaded;
static loaded *have[PROFILES];
static size_t haves;
static int off;              /* the term that is switched off */
static const char *own_path; /* --profile */
static bt_profile own;

void val_use_profile(const char *path)
{
    bt_fault fault;
    if (bt_profile_load(&own, path, &fault) < 0) val_die(path, fault.text);
    own_path = path;
}

const char *val_profile_text(const char *device)
{
    if (own_path && !strcmp(own.name, device)) return val_text(own_path);
    for (size_t i = 0; bt_profile_name(i); i++)
        if (!strcmp(bt_profile_name(i), device)) return bt_profile_json(i);
    return NULL;
}

static void take_off(bt_profile_time *t)
{
    switch (off) {
    case 1: t->points = 0; break;
    case 2: t->tile_rows = 0; break;
    case 3: t->kernels = 0; break;
    case 4: t->sums = 0; break;
    case 5: t->linear_launch_ns = t->quantize_launch_ns = t->decode_op_ns = t->op_launch_ns = 0; break;
    case 6: t->small_launch_ns = 0; break;
    case 7: t->dispatch_ns = 0; break;
    case 8: t->sequence_ns = 0; break;
    case 9: t->decode_bytes_per_us = t->weight_bytes_per_us = t->activation_bytes_per_us = 0; break;
    case 10:
        for (uint32_t i = 0; i < t->kernels; i++) {
            bt_profile_attention *k = &t->attention[i];
            k->gather_ns = k->join_ns = 0, k->head_bytes_per_us = 0;
        }
        break;
    case 11: t->input_ps = 0; break;
    case 12: t->unhidden_permille = 0; break;
    case 13: t->score_elements_per_us = 0; break;
    default: break;
    }
}

const char *val_switch_off(int term)
{
    static const char *const names[VAL_TERMS] = {
        "all terms", "efficiency over rows",   "tiles' edges",      "attention's own", "sums' table",
        "launches",  "small operators' least", "dispatch",          "sequences",       "rates below the peak",
        "few heads", "inputs of a matrix",     "the lesser of two", "softmax"};
    for (size_t i = 0; i < haves; i++) free(have[i]);
    haves = 0;
    val_programs_forget(true);
    off = term;
    return names[term];
}

/* NAME[xN][@STACK]; a group that the profile does not list is the device with so many of it. A data sheet
 * speaks of every stack: it is a bound of each. */
static const char *load(loaded *l)
{
    char name[512];
    bt_fault fault;
    const char *base = own_path && !strcmp(own.name, l->device) ? own_path : l->device;
    if (bt_profile_load(&l->profile, base, &fault) < 0) return "no profile of the device";
    if (!l->profile.time.is_given) return "a profile without time";
    if (strcmp(l->profile.time.stack, l->stack) && strcmp(l->profile.time.stack, "uncalibrated")) {
        snprintf(name, sizeof name, "%s@%s", base, l->stack);
        if (bt_profile_load(&l->profile, name, &fault) < 0) return "no stack of this name in the profile";
    }
    l->profile.time.devices = l->devices > 1 ? l->devices : 0;
    take_off(&l->profile.time);
    return NULL;
}

const bt_profile *val_profile(const val_row *r, const char **why)
{
    for (size_t i = 0; i < haves; i++)
        if (!strcmp(have[i]->device, r->device) && !strcmp(have[i]->stack, r->stack) &&
            have[i]->devices == r->devices) {
            *why = have[i]->why;
            return *why ? NULL : &have[i]->profile;
        }
    loaded *l = haves < PROFILES ? malloc(sizeof *l) : NULL;
    if (!l) val_die("profiles", "too many");
    *l = (loaded){.device = r->device, .stack = r->stack, .devices = r->devices};
    *why = l->why = load(l);
    have[haves++] = l;
    return *why ? NULL : &l->profile;
}

void val_use_time(const val_pair *p, const bt_profile_time *t)
{
    val_programs_forget(false);
    for (size_t i = 0; i < haves; i++) {
        loaded *l = have[i];
        if (l->why || strcmp(l->device, p->device) || strcmp(l->stack, p->stack)) continue;
        l->profile.time = *t;
        l->profile.time.devices = l->devices > 1 ? l->devices : 0;
    }
}

/* ---- sizes and forms ---- */
typedef struct form {
    const char *name;
    uint32_t weight_bits, input_bits, permille; /* permille: of a stored weight's bytes; 0: its bits */
} form;
/* Forms that bt_price_form_find does not know. */
static const form forms[] = {{"bf16", 16, 16, 0},  {"w8a8", 8, 8, 0}, {"w8a16", 8, 16, 0},
                             {"w4a16", 4, 16, 0},  {"w4", 4, 16, 0},  {"q8_0", 8, 16, 1062},
                             {"q4_0", 4, 16, 562}, {"q4", 4, 16, 562}};

bool val_recipe(bt_price_recipe *ret, const val_row *r)
{
    const size_t len = strcspn(r->form, "/");
    char name[16] = "";
    if (len < sizeof name) memcpy(name, r->form, len);
    const bt_price_form *known = bt_price_form_find(name);
    size_t i = 0;
    while (!known && i < sizeof forms / sizeof *forms && strcmp(forms[i].name, name)) i++;
    if (i == sizeof forms / sizeof *forms) return false;
    *ret = known ? known->recipe
                 : (bt_price_recipe){.weight_bits = forms[i].weight_bits, .input_bits = forms[i].input_bits,
                                     .weight_bytes_permille = forms[i].permille};
    ret->kv_elem_bits = strcmp(r->form + len, "/fp8") ? 16 : 8;
    return true;
}

/* name=layers/hidden/ffn/heads/KV heads/elements of a head/matrices of the FFN/vocabulary, or name=weights:
 * one square matrix stands for a model of which only the number of weights is known. */
bool val_dims(bt_dims *ret, const char *shape)
{
    const char *said = strchr(shape, '=');
    const bt_dims *known = said ? NULL : bt_dims_find(shape);
    unsigned n[8];
    if (known) *ret = *known;
    if (known || !said) return known;
    *ret = (bt_dims){.layers = 1, .hidden = 1, .vocab = 1, .ffn_matrices = 2};
    const int have_n =
        sscanf(said + 1, "%u/%u/%u/%u/%u/%u/%u/%u", &n[0], &n[1], &n[2], &n[3], &n[4], &n[5], &n[6], &n[7]);
    if (have_n == 8)
        *ret = (bt_dims){.layers = n[0],   .hidden = n[1],   .ffn = n[2],          .heads = n[3],
                         .kv_heads = n[4], .head_dim = n[5], .ffn_matrices = n[6], .vocab = n[7]};
    else ret->ffn = n[0] / 2;
    return have_n == 8 || have_n == 1;
}

/* ---- kernels ---- */
static double step_us(const bt_profile *p, const bt_price_model *m, bt_price_step s)
{
    return (double)bt_price_step_of(p, m, &s).ns / 1e3;
}

/* A kernel alone pays no dispatch, and the model that stands for it says how many matrices are launched. */
static bt_profile kernel_of(const bt_profile *p)
{
    bt_profile k = *p;
    k.time.dispatch_ns = k.time.sequence_ns = 0;
    k.time.layer_matrices = 0;
    return k;
}

static double linear_us(const bt_profile *p, const val_row *r, const bt_price_recipe *f)
{
    unsigned inputs = 0, outputs = 0;
    if (sscanf(r->shape, "%ux%u", &inputs, &outputs) != 2) return 0;
    if (r->kind == VAL_MATRIX) {
        const bt_time_matrix m = {.rows = r->rows, .inputs = inputs, .outputs = outputs,
                                  .weight_bits = f->weight_bits, .input_bits = f->input_bits};
        return (double)(p->time.dispatch_ns + bt_time_of_matrix(p, &m)) / 1e3; /* a graph of its own */
    }
    const bt_profile k = kernel_of(p);
    const uint64_t weights = (uint64_t)inputs * outputs;
    const bt_price_model m = {.body_weights = weights,
                              .hidden = inputs,
                              .weight_bytes = weights * f->weight_bits / 8,
                              .operators = 1,
                              .weight_bits = f->weight_bits,
                              .input_bits = f->input_bits,
                              .is_float = f->is_float};
    return step_us(&k, &m, (bt_price_step){.rows = r->rows});
}

static double layers_us(const bt_profile *p, const val_row *r, const bt_price_recipe *f, const bt_dims *s)
{
    bt_profile k = kernel_of(p);
    bt_price_model m = bt_price_model_of(s, f);
    bt_dims_matrix list[BT_DIMS_MATRICES];
    const uint32_t matrices = (uint32_t)bt_dims_matrices(list, s) * s->layers, layers = m.layers;
    k.time.kernels = 0;
    m.weight_bytes -= m.head_bytes;
    m.head_weights = m.head_bytes = m.heads = m.kv_heads = 0;
    if (r->kind == VAL_PRODUCTS) {
        m.operators = p->time.layer_matrices ? p->time.layer_matrices * layers : matrices;
        m.layers = k.time.layer_matrices = 0;
        m.norm_bytes = m.gate_bytes = 0;
        return step_us(&k, &m, (bt_price_step){.rows = r->rows});
    }
    m.operators = 0;
    m.split_matrices = m.split_inputs = 0;
    m.body_weights = m.weight_bytes = 0;
    m.hidden = 0;
    return step_us(&k, &m, (bt_price_step){.rows = r->rows}) -
           2 * (double)layers * (double)bt_time_all_reduce(&k.time, 0) / 1e3;
}

static double attention_us(const bt_profile *p, const val_row *r, const bt_price_recipe *f)
{
    unsigned heads = 0, kv_heads = 0, head_dim = 0;
    if (sscanf(r->shape, "%u/%u/%u", &heads, &kv_heads, &head_dim) != 3) return 0;
    bt_profile k = kernel_of(p);
    k.time.small_launch_ns = 0;
    const bt_price_model m = {
        .operators = 1,       .layers = 1,
        .heads = heads,       .kv_heads = kv_heads,
        .head_dim = head_dim, .kv_bytes = (uint64_t)2 * kv_heads * head_dim * f->kv_elem_bits / 8,
        .weight_bits = 16,    .input_bits = 16};
    bt_price_step s = {.rows = 0};
    if (r->kind == VAL_ATTENTION_STEP) {
        s = bt_price_decode_step(r->batch, r->context, 0);
    } else {
        const bt_price_step one = bt_price_prefill_step(0, r->rows, 0);
        for (uint64_t i = 0; i < r->batch; i++) bt_price_step_add(&s, &one);
    }
    s.logits = 0;
    return step_us(&k, &m, s);
}

/* ---- steps ---- */
/* A prompt of rows behind nothing, beside a decode step of `beside` (rows 0: alone), in pieces that a step
 * holds. */
static double prompt_us(const bt_profile *p, const bt_price_model *m, uint64_t rows,
                        const bt_price_step *beside)
{
    double us = 0;
    for (uint64_t at = 0; at < rows; at += BUDGET_ROWS) {
        const uint64_t n = rows - at < BUDGET_ROWS ? rows - at : BUDGET_ROWS;
        bt_price_step s = bt_price_prefill_step(at, n, m->window);
        s.logits = at + n == rows;
        bt_price_step_add(&s, beside);
        us += step_us(p, m, s) - (beside->rows ? step_us(p, m, *beside) : 0);
    }
    return us;
}

/* While a request decodes, prompts of all others that come again pass too. Servers leave a tenth of the
 * memory. */
static double served_us(const bt_profile *p, const bt_price_model *m, val_row *r)
{
    const double has = 0.9 * (double)p->memory_bytes * r->devices,
                 kv = (double)m->kv_bytes * (double)((r->rows + r->out) * r->batch);
    if (p->memory_bytes && (double)m->weight_bytes + kv > has)
        r->unpriced = "the memory does not hold so many requests at a time";
    const bt_price_step decode = bt_price_decode_step(r->batch, r->rows + r->out / 2, m->window);
    r->prompts_us = (double)(r->batch - 1) / (double)r->out * prompt_us(p, m, r->rows, &decode);
    return step_us(p, m, decode) + r->prompts_us;
}

/* Prompts, as many in a step as it holds, then all sequences decode together. */
static double run_us(const bt_profile *p, const bt_price_model *m, const val_row *r)
{
    const bt_price_step one = bt_price_prefill_step(0, r->rows, m->window);
    uint64_t at_a_time = BUDGET_ROWS / r->rows ? BUDGET_ROWS / r->rows : 1;
    double us = 0;
    for (uint64_t left = r->batch; left;) {
        bt_price_step s = {.rows = 0};
        if (at_a_time > left) at_a_time = left;
        for (uint64_t i = 0; i < at_a_time; i++) bt_price_step_add(&s, &one);
        us += step_us(p, m, s);
        left -= at_a_time;
    }
    for (uint64_t i = 1; i < r->out; i++)
        us += step_us(p, m, bt_price_decode_step(r->batch, r->rows + i, m->window));
    return us;
}

static double joules(val_row *r, const bt_profile *p, const bt_price_model *m)
{
    const bt_price_step s = r->kind == VAL_JOULES_STEP ? bt_price_decode_step(r->batch, r->context, m->window)
                                                       : bt_price_prefill_step(0, r->rows, m->window);
    const bt_price_sum sum = bt_price_step_of(p, m, &s);
    const bt_energy e = bt_energy_of(&p->time, sum.ns, sum.ops, sum.bytes, sum.ns);
    if (e.kind != BT_ENERGY_TERMS) r->unpriced = "the profile has no energy, or a thermal limit alone";
    return (double)e.nj / 1e6;
}

static double whole_us(val_row *r, const bt_profile *p, const bt_price_recipe *f, const bt_dims *s)
{
    const bt_price_step nothing = {.rows = 0};
    const bt_price_model m = bt_price_model_of(s, f);
    switch (r->kind) {
    case VAL_STEP: return step_us(p, &m, bt_price_decode_step(r->batch, r->context, m.window));
    case VAL_SERVED_TPOT: return served_us(p, &m, r);
    case VAL_RUN: return run_us(p, &m, r);
    case VAL_JOULES_PROMPT:
    case VAL_JOULES_STEP: return joules(r, p, &m);
    case VAL_PROMPT: return *r->programs ? val_programs_us(r, p, s, f) : prompt_us(p, &m, r->rows, &nothing);
    case VAL_LINEAR:
    case VAL_MATRIX:
    case VAL_PRODUCTS:
    case VAL_SMALL:
    case VAL_ATTENTION:
    case VAL_ATTENTION_STEP:
    case VAL_ALL_REDUCE:
    case VAL_KINDS: break;
    }
    return 0;
}

void val_price(val_row *r)
{
    bt_price_recipe f;
    bt_dims s;
    const bt_profile *p = val_profile(r, &r->unpriced);
    if (p) r->unpriced = NULL;
    const bool is_kernel = r->kind == VAL_LINEAR || r->kind == VAL_MATRIX || r->kind == VAL_ATTENTION ||
                           r->kind == VAL_ATTENTION_STEP || r->kind == VAL_ALL_REDUCE;
    if (!p) return;
    if (!val_recipe(&f, r)) val_die(r->form, "a form that is none");
    else if (!is_kernel && !val_dims(&s, r->shape)) r->unpriced = "sizes of the model are not known";
    if (r->unpriced) return;
    if (r->kind == VAL_LINEAR || r->kind == VAL_MATRIX) r->modelled = linear_us(p, r, &f);
    else if (r->kind == VAL_ALL_REDUCE)
        r->modelled = (double)bt_time_all_reduce(&p->time, strtoull(r->shape, NULL, 10)) / 1e3;
    else if (is_kernel) r->modelled = attention_us(p, r, &f);
    else if (r->kind == VAL_PRODUCTS || r->kind == VAL_SMALL) r->modelled = layers_us(p, r, &f, &s);
    else r->modelled = whole_us(r, p, &f, &s);
    if (!r->unpriced && !(r->modelled > 0)) r->unpriced = "the profile has no such term";
}
