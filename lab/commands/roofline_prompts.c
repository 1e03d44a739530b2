/* One request on every device. */
#include "lab/commands/roofline_prompts.h"
#include "device/energy.h"
#include "device/price.h"
#include "device/roofline.h"

#include <stdlib.h>

static const bt_price_recipe int8 = {.weight_bits = 8, .input_bits = 8, .kv_elem_bits = 16},
                             f16 = {.weight_bits = 16, .input_bits = 16, .kv_elem_bits = 16};

static double share(uint64_t done, uint64_t ns, uint64_t per_us)
{
    return ns && per_us ? (double)done * 1000 / ((double)ns * (double)per_us) : 0;
}

/* false: nothing on it has a price. */
static bool prompt_of(bt_price_sum *ret, bt_price *price, const bt_profile *p, const bt_dims *s,
                      const bt_price_model *m)
{
    static const uint32_t rows[] = {16, 32, 64, 128, 256};
    const bt_price_step whole = bt_price_prefill_step(0, TOOL_ROOFLINE_PROMPT);
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

static json_t *row_of(const bt_profile *p, const bt_dims *s, const bt_price_sum *prompt,
                      const bt_price_model *m)
{
    const uint64_t group = p->time.devices ? p->time.devices : 1;
    const bt_price_step step = bt_price_decode_step(1, TOOL_ROOFLINE_PROMPT + 1);
    const bt_price_sum token = bt_price_step_of(p, m, &step);
    const bt_energy e = bt_energy_of(&p->time, prompt->ns, prompt->ops, prompt->bytes, prompt->ns);
    const bt_roofline_peak peak = bt_roofline_peaks(&p->time);
    json_t *row = json_object();
    json_object_set_new(row, "name", json_string(s->name));
    json_object_set_new(row, "profile", json_string(p->name));
    json_object_set_new(row, "stack", json_string(p->time.stack));
    json_object_set_new(row, "ttft_seconds", json_real((double)prompt->ns / 1e9));
    json_object_set_new(row, "joules", e.kind ? json_real((double)e.nj / 1e9) : json_null());
    json_object_set_new(row, "of_tdp", json_string(e.kind == BT_ENERGY_TDP ? "at most" : ""));
    json_object_set_new(row, "tokens_per_second", json_real(TOOL_ROOFLINE_PROMPT * 1e9 / (double)prompt->ns));
    json_object_set_new(row, "utilisation",
                        json_real(share(prompt->ops, prompt->ns,
                                        (p->companion ? peak.f16 : peak.int8) * group)));
    json_object_set_new(row, "decode_tokens_per_second", json_real(1e9 / (double)token.ns));
    json_object_set_new(row, "decode_utilisation",
                        json_real(share(token.bytes, token.ns, p->time.memory_bytes_per_us * group)));
    return row;
}

void tool_roofline_prompts(json_t *rows, const bt_dims *s)
{
    bt_price *price = malloc(sizeof *price);
    for (size_t i = 0; price && bt_profile_name(i); i++) {
        bt_profile p;
        bt_price_sum prompt;
        if (bt_profile_load(&p, bt_profile_name(i), NULL) < 0 || !p.time.is_given) continue;
        const bt_price_model m = bt_price_model_of(s, p.companion ? &f16 : &int8);
        const uint64_t has = p.memory_bytes * (p.time.devices ? p.time.devices : 1);
        if (has && m.weight_bytes > has) continue;
        if (prompt_of(&prompt, price, &p, s, &m)) json_array_append_new(rows, row_of(&p, s, &prompt, &m));
    }
    free(price);
}
