/* baton roofline: what arithmetic alone says of devices and models, and from which prompt length on a second
 * device pays. Nothing is run and nothing is measured. */
#include "device/dims.h"
#include "device/energy.h"
#include "device/forecast.h"
#include "device/options.h"
#include "device/price.h"
#include "device/roofline.h"
#include "kv/kv_dtype.h"
#include "lab/commands/dims_of.h"
#include "lab/commands/roofline_rows.h"
#include "lab/plan/report.h"
#include "model/options.h"
#include "npu/compile/obtain.h"
#include "tools/options.h"
#include "tools/tool.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A prompt of TOOL_ROOFLINE_PROMPT tokens and the token behind it, of a shape on every profile with a time:
 * first token, joules of the prompt (null where the profile has no source, `of_tdp` where it is a bound),
 * tokens a second of both, the share of the int8 or FP16 peak and of the memory's. A device with programs has
 * them of 16 to 256 rows in w8a8, and weights of 8 bits in decode; one without runs a step, in FP16. A device
 * that cannot hold the weights is left out. */
enum { TOOL_ROOFLINE_PROMPT = 512 };

static const bt_price_recipe int8 = {.weight_bits = 8, .input_bits = 8, .kv_elem_bits = 16},
                             f16 = {.weight_bits = 16, .input_bits = 16, .kv_elem_bits = 16};

static double share(uint64_t done, uint64_t ns, uint64_t per_us)
{
    return ns && per_us ? (double)done * 1000 / ((double)ns * (double)per_us) : 0;
}

/* false: no prompt has a price on the device. */
static bool prompt_of(bt_price_sum *ret, bt_price *price, const bt_profile *p, const bt_dims *s,
                      const bt_price_model *m)
{
    static const uint32_t rows[] = {16, 32, 64, 128, 256};
    const bt_price_step whole = bt_price_prefill_step(0, TOOL_ROOFLINE_PROMPT, s->window);
    bt_price_recipe r = int8;
    if (p->companion) {
        *ret = bt_price_step_of(p, m, &whole);
        return true;
    }
    r.ctx = p->static_ctx ? 512 : 0;
    if (bt_price_of_dims(price, p, s, &r, rows, sizeof rows / sizeof *rows, NULL) < 0) return false;
    *ret = bt_price_prompt(price, TOOL_ROOFLINE_PROMPT);
    return true;
}

/* Errors of a prompt, of the token behind it, and of the prompt's energy. */
static json_t *errors_of(const bt_profile *p, const bt_dims *s)
{
    static const char *const names[BT_FIGURES] = {BT_FIGURE_NAMES};
    const bt_forecast_at at[BT_FIGURES] = {
        [BT_FIGURE_TTFT] = {TOOL_ROOFLINE_PROMPT, 1, TOOL_ROOFLINE_PROMPT, s},
        [BT_FIGURE_TPOT] = {1, 1, TOOL_ROOFLINE_PROMPT + 1, s},
        [BT_FIGURE_JOULES] = {TOOL_ROOFLINE_PROMPT, 1, TOOL_ROOFLINE_PROMPT, s}};
    json_t *o = json_object();
    for (int k = 0; k < BT_FIGURES; k++) {
        const bt_forecast_error e = bt_forecast_error_of(p, (bt_figure)k, &at[k]);
        json_object_set_new(o, names[k], bt_forecast_error_json(&e));
    }
    return o;
}

static json_t *row_of(const bt_profile *p, const bt_dims *s, const bt_price_sum *prompt,
                      const bt_price_model *m)
{
    const uint64_t group = bt_profile_devices(&p->time);
    const bt_price_step step = bt_price_decode_step(1, TOOL_ROOFLINE_PROMPT + 1, s->window);
    const bt_price_sum token = bt_price_step_of(p, m, &step);
    const bt_energy e = bt_energy_of(&p->time, prompt->ns, prompt->ops, prompt->bytes, prompt->ns);
    const bt_energy of_token = bt_energy_of(&p->time, token.ns, token.ops, token.bytes, token.ns);
    const bt_roofline_peak peak = bt_roofline_peaks(&p->time);
    json_t *row = json_object();
    json_object_set_new(row, "name", json_string(s->name));
    json_object_set_new(row, "profile", json_string(p->name));
    json_object_set_new(row, "stack", json_string(p->time.stack));
    json_object_set_new(row, "ttft_seconds", json_real((double)prompt->ns / 1e9));
    json_object_set_new(row, "error", errors_of(p, s));
    json_object_set_new(row, "joules", e.kind ? json_real((double)e.nj / 1e9) : json_null());
    json_object_set_new(row, "of_tdp", json_string(bt_energy_bound(&p->time)));
    json_object_set_new(row, "joules_per_input_token",
                        e.kind ? json_real((double)e.nj / 1e9 / TOOL_ROOFLINE_PROMPT) : json_null());
    json_object_set_new(row, "joules_per_output_token",
                        e.kind ? json_real((double)of_token.nj / 1e9) : json_null());
    json_object_set_new(row, "tokens_per_second", json_real(TOOL_ROOFLINE_PROMPT * 1e9 / (double)prompt->ns));
    json_object_set_new(row, "utilisation",
                        json_real(share(prompt->ops, prompt->ns,
                                        (p->companion ? peak.f16 : peak.int8) * group)));
    json_object_set_new(row, "decode_tokens_per_second", json_real(1e9 / (double)token.ns));
    json_object_set_new(row, "decode_utilisation",
                        json_real(share(token.bytes, token.ns, p->time.memory_bytes_per_us * group)));
    return row;
}

static void price_prompts(json_t *rows, const bt_dims *s)
{
    bt_price *price = malloc(sizeof *price);
    for (size_t i = 0; price && bt_profile_name(i); i++) {
        bt_profile p;
        bt_price_sum prompt;
        if (bt_profile_load(&p, bt_profile_name(i), NULL) < 0 || !p.time.is_given) continue;
        const bt_price_model m = bt_price_model_of(s, p.companion ? &f16 : &int8);
        if (bt_price_check_memory(&p, &m, s->name, NULL) < 0) continue;
        if (prompt_of(&prompt, price, &p, s, &m)) json_array_append_new(rows, row_of(&p, s, &prompt, &m));
    }
    free(price);
}

typedef struct config {
    bt_opt_list models;
    const char *prefill, *decode, *link;
    int weights, prefill_weights, kv;
    bool json;
} config;

static const char *const forms[] = {"f16", "int8", "q4_0", "fp8", "nvfp4", NULL};
/* The forms of weights in programs. The two that files hold too have a scale for each 32 inputs
 * (group32_permille). */
static const char *const prefill_forms[] = {"w8a8", "q8_0", "q4_0", NULL};

static const bt_opt opts[] = {
    {.of = &bt_model_opts, .name = "model", BT_OPT_AT(config, models), .type = BT_OPT_STRINGS,
     .example = "llama-2-7b",
     .help = "the name of a known shape, a config.json (it ends in .json), a GGUF file or the name of a "
             "model, as often "
             "as you like; without any, known shapes"},
    {.of = &bt_obtain_opts, .group = "Pair", .name = "profile", BT_OPT_AT(config, prefill),
     .def = BT_OPT_NO_DEFAULT, .example = "hexagon-v75",
     .help = "device of prefill; with --decode-profile, from which prompt length it pays"},
    {.of = &bt_device_opts, .group = "Pair", .name = "decode-profile", BT_OPT_AT(config, decode),
     .help = "device that decodes, and that would compute the prompt alone"},
    {.of = &bt_device_opts, .group = "Pair", .name = "link", BT_OPT_AT(config, link), .def = "10",
     .example = "25", .help = "between them: " BT_LINK_HELP},
    {.of = &bt_device_opts, .group = "Pair", .name = "decode-weights", BT_OPT_AT(config, weights),
     .choices = forms,
     .help = "weights on the device that decodes, and in prefill on a GPU; fp8 and nvfp4 on devices that "
             "compute in them"},
    {.of = &bt_kv_dtype_opts, .group = "Pair", .name = "kv-dtype", BT_OPT_AT(config, kv),
     .choices = bt_price_kv_names,
     .help = "KV rows of the pair: f16, int8 with a scale a head, fp8 where both devices compute in it"},
    {.group = "Pair", .name = "prefill-weights", .value = "FORM", BT_OPT_AT(config, prefill_weights),
     .type = BT_OPT_CHOICE, .def = "w8a8", .choices = prefill_forms,
     .help = "weights of prefill where it has programs: a scale for an output, or for each 32 inputs"},
    {.of = &tool_output_opts, .name = "json", BT_OPT_AT(config, json),
     .help = "one JSON object on stdout: devices[], models[], ignored[], kv[], handoff[], shares[], "
             "attention[], ceilings[], prompts[], lengths[], ..."},
};

const bt_opt_program tool_roofline_program = {
    .name = "baton roofline",
    .summary = "peaks, KV sizes, hand-off times and shares of devices and models, by arithmetic alone",
    .usage = "[options]",
    .normal = "baton roofline -m llama-3.1-8b --profile hexagon-v75 --decode-profile adreno-750 --link 10",
    .opts = opts,
    .opt_count = BT_OPT_COUNT(opts),
};

/* Shapes that are shown when none is asked for. */
static const char *const usual[] = {"llama-2-7b",   "llama-2-70b", "llama-3.1-8b", "llama-3.1-70b",
                                    "qwen1.5-1.8b", "gemma-2b",    "llama-3.2-1b", "llama-3.2-3b",
                                    "qwen2.5-3b",   "qwen3-0.6b"};
enum { USUAL = sizeof usual / sizeof *usual, PAYS_STEP = 16, PAYS_MOST = 131072 };

static bt_err pair_of(bt_roofline_pair *ret, const config *c, const bt_dims *s, bt_fault *fault)
{
    static const uint32_t rows[] = {16, 32, 64, 128, 256};
    static const bt_price_recipe npu[] = {{.weight_bits = 8, .input_bits = 8, .kv_elem_bits = 16},
                                          {.weight_bits = 8, .input_bits = 8, .kv_elem_bits = 16, .group = 32,
                                           .weight_bytes_permille = 1062},
                                          {.weight_bits = 4, .input_bits = 8, .kv_elem_bits = 16, .group = 32,
                                           .weight_bytes_permille = 562}},
                                 decode[] = {{.weight_bits = 16, .input_bits = 16, .kv_elem_bits = 16},
                                             {.weight_bits = 8, .input_bits = 16, .kv_elem_bits = 16},
                                             {.weight_bits = 4, .input_bits = 16, .kv_elem_bits = 16,
                                              .weight_bytes_permille = 562}};
    const bt_price_form *form = bt_price_form_find(forms[c->weights]);
    const bt_price_kv *kv = bt_price_kv_at((size_t)c->kv);
    const bt_price_recipe steps = form && form->recipe.is_float ? form->recipe : decode[c->weights];
    bt_price_recipe recipe = npu[c->prefill_weights];
    bt_err e = bt_profile_load(&ret->prefill_profile, c->prefill, fault);
    if (e == BT_OK) e = bt_profile_load(&ret->decode, c->decode, fault);
    if (e == BT_OK) e = bt_price_begin(&ret->prefill, &ret->decode, fault);
    if (e == BT_OK) e = bt_price_begin(&ret->prefill, &ret->prefill_profile, fault);
    if (e == BT_OK) e = bt_link_parse(&ret->link, c->link, fault);
    if (e == BT_OK) e = bt_price_check_forms(&ret->decode, form, kv, fault);
    if (e == BT_OK)
        e = bt_price_check_forms(&ret->prefill_profile, ret->prefill_profile.companion ? form : NULL, kv,
                                 fault);
    if (e < 0) return e;
    recipe.kv_elem_bits = 8 * kv->elem_bytes;
    recipe.ctx = ret->prefill_profile.static_ctx ? 512 : 0;
    if (!ret->prefill_profile.companion)
        e = bt_price_of_dims(&ret->prefill, &ret->prefill_profile, s, &recipe, rows,
                             sizeof rows / sizeof *rows, fault);
    ret->prefill_model = bt_price_model_of(s, ret->prefill_profile.companion ? &steps : &recipe);
    ret->decode_model = bt_price_model_of(s, &steps);
    ret->prefill_model.kv_bytes = ret->decode_model.kv_bytes = bt_price_kv_bytes(kv, s);
    ret->kv = bt_link_kv_of(s, ret->prefill_model.kv_bytes);
    if (e == BT_OK) e = bt_price_check_memory(&ret->prefill_profile, &ret->prefill_model, s->name, fault);
    return e < 0 ? e : bt_price_check_memory(&ret->decode, &ret->decode_model, s->name, fault);
}

static bt_err add_pair(json_t *object, const config *c, const bt_dims *s, bt_fault *fault)
{
    static bt_roofline_pair pair; /* too large for a stack */
    json_t *rows = json_object_get(object, "lengths");
    const bt_err e = pair_of(&pair, c, s, fault);
    if (e < 0) return e;
    tool_roofline_lengths(rows, &pair, s);
    json_object_set_new(object, "pays_from_tokens",
                        json_integer((json_int_t)bt_roofline_pays_from(&pair, PAYS_STEP, PAYS_MOST)));
    return BT_OK;
}

static bt_err tables(json_t *object, const config *c, bt_fault *fault)
{
    static const char *const keys[] = {"models",    "ignored",  "kv",      "handoff", "shares",
                                       "attention", "ceilings", "prompts", "lengths"};
    const size_t n = c->models.count ? c->models.count : USUAL;
    bt_err e = BT_OK;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        json_object_set_new(object, keys[i], json_array());
    if (!c->models.count) json_object_set_new(object, "devices", tool_roofline_devices());
    for (size_t i = 0; e == BT_OK && i < n; i++) {
        bt_dims s;
        const char *given = c->models.count ? c->models.items[i] : usual[i];
        if ((e = tool_dims_of(&s, NULL, given, fault)) < 0) break;
        if (c->models.count) tool_roofline_model(json_object_get(object, "models"), &s, given);
        (void)tool_plan_ignored(json_object_get(object, "ignored"), &s);
        tool_roofline_kv(json_object_get(object, "kv"), &s);
        tool_roofline_handoff(json_object_get(object, "handoff"), &s);
        tool_roofline_shares(json_object_get(object, "shares"), &s);
        tool_roofline_flash(json_object_get(object, "attention"), &s);
        if (c->models.count) tool_roofline_ceilings(json_object_get(object, "ceilings"), &s);
        if (c->models.count) price_prompts(json_object_get(object, "prompts"), &s);
        if (c->decode) e = add_pair(object, c, &s, fault);
    }
    return e;
}

static void print_pays(const json_t *object, const config *c)
{
    char rate[BT_LINK_MAX_TEXT];
    bt_link link;
    const json_t *from = json_object_get(object, "pays_from_tokens");
    if (!from || bt_link_parse(&link, c->link, NULL) < 0) return;
    bt_link_text(rate, &link);
    if (json_integer_value(from))
        printf("\nprefill on %s, %s from %s, pays from %" JSON_INTEGER_FORMAT " tokens on\n", c->prefill,
               rate, c->decode, json_integer_value(from));
    else
        printf("\nprefill on %s, %s from %s, pays at no length up to %d tokens\n", c->prefill, rate,
               c->decode, PAYS_MOST);
}

static int roofline(const config *c)
{
    bt_fault fault = {""};
    if (!c->prefill != !c->decode || (c->decode && c->models.count != 1)) {
        (void)bt_fail(&fault, BT_EARG, "a pair needs --profile, --decode-profile and one -m MODEL");
        (void)tool_fail("roofline", &fault);
        return 2;
    }
    json_t *object = json_object();
    const bt_err e = tables(object, c, &fault);
    int rc = 1;
    if (e < 0) {
        rc = tool_fail("roofline", &fault);
        json_decref(object);
    } else if (c->json) {
        rc = tool_print_json("roofline", object);
    } else {
        tool_roofline_print(object);
        print_pays(object, c);
        rc = bt_opt_flush() != 0;
        json_decref(object);
    }
    return rc;
}

int tool_roofline_run(int argc, char **argv)
{
    config c;
    bt_opt_args args;
    int rc = bt_opt_start(&args, &tool_roofline_program, argc, argv, &c);
    if (rc >= 0) return rc;
    rc = roofline(&c);
    bt_opt_done(&args);
    return rc;
}
