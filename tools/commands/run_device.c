/* A run's price: its prompt chunk by chunk as the package cuts it, its KV over the link, a step for each
 * token that the decode device made. The first token is the prefill node's. */
#include "tools/commands/run_device.h"
#include "device/energy.h"
#include "device/roofline.h"
#include "npu/compile/price_pkg.h"
#include "tools/tool.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

bt_err tool_device_pair(tool_device *ret, const tool_serve *s, const char *decode_profile, const char *link,
                        bt_fault *fault)
{
    const bt_profile *both[] = {&ret->prefill, &ret->decode};
    if (s->engine != BT_ENGINE_NPU)
        return bt_fail(fault, BT_EARG, "--decode-profile prices the programs of --engine npu");
    ret->link_text = link;
    bt_err e = bt_profile_load(&ret->prefill, s->want.profile, fault);
    if (e == BT_OK) e = bt_profile_load(&ret->decode, decode_profile, fault);
    for (int i = 0; e == BT_OK && i < 2; i++)
        if (!both[i]->time.is_given)
            e = bt_fail(fault, BT_EARG, "profile '%s' has no time; %s takes one that has, such as %s",
                        both[i]->name, i ? "--decode-profile" : "--profile",
                        i ? "adreno-750" : "hexagon-v75");
    return e < 0 ? e : bt_link_parse(&ret->link, link, fault);
}

bt_dims tool_device_dims(const bt_model *m)
{
    const bt_hparams *h = &m->hp;
    bt_dims d = {.layers = h->layers,     .hidden = h->dim,        .ffn = h->ffn,     .heads = h->heads,
                 .kv_heads = h->kv_heads, .head_dim = h->head_dim, .vocab = h->vocab, .ffn_matrices = 3};
    snprintf(d.name, sizeof d.name, "%.63s", m->name);
    return d;
}

/* A step reads weights in the form of --weights; groups of 32 have a scale, FP4 an offset too. */
static bt_price_model decode_model(const tool_serve *s, const bt_model *m)
{
    static const struct {
        uint32_t bits, permille;
    } forms[] = {[BT_FORM_F16] = {16, 2000}, [BT_FORM_INT8] = {8, 1062}, [BT_FORM_FP4] = {4, 625}};
    const bt_dims d = tool_device_dims(m);
    const bt_price_recipe r = {.weight_bits = forms[s->weights].bits, .input_bits = 16, .kv_elem_bits = 16,
                               .weight_bytes_permille = forms[s->weights].permille};
    bt_price_model model = bt_price_model_of(&d, &r);
    const uint32_t elem = bt_kv_dtype_wanted(s->kv_dtype) ? bt_kv_dtype_wanted(s->kv_dtype) : 2;
    /* int8 rows have a scale of 2 bytes a head */
    model.kv_bytes = (uint64_t)2 * d.layers * d.kv_heads * (d.head_dim * elem + (elem == 1 ? 2 : 0));
    return model;
}

typedef struct priced {
    bt_price_pkg_run run;
    bt_price_sum decode;
    uint64_t tokens, steps;
    bt_energy prefill_energy, decode_energy;
} priced;

static double ms(uint64_t ns) { return (double)ns / 1e6; }

static json_t *parts(const priced *r)
{
    json_t *list = json_array();
    for (int k = 0; k < BT_OP_KINDS; k++)
        if (r->run.prefill.part_ns[k])
            json_array_append_new(list, json_pack("{s:s, s:f}", "op", bt_op_name((bt_op_kind)k), "ms",
                                                  ms(r->run.prefill.part_ns[k])));
    return list;
}

static json_t *joules(const priced *r)
{
    if (!r->prefill_energy.kind || (r->steps && !r->decode_energy.kind)) return json_null();
    return json_real(((double)r->prefill_energy.nj + (double)r->decode_energy.nj) / 1e9);
}

static double share(uint64_t done, uint64_t ns, uint64_t per_us)
{
    return ns ? (double)done * 1000 / ((double)ns * (double)per_us) : 0;
}

static json_t *report(const tool_device *d, const priced *r, const bt_price *price)
{
    const bt_price_sum *p = &r->run.prefill;
    const bt_roofline_peak peak = bt_roofline_peaks(&d->prefill.time);
    const bool is_tdp = r->prefill_energy.kind && (!r->steps || r->decode_energy.kind) &&
                        (r->prefill_energy.kind == BT_ENERGY_TDP || r->decode_energy.kind == BT_ENERGY_TDP);
    json_t *o = json_pack("{s:s, s:s, s:s, s:s, s:s, s:s}", "profile", d->prefill.name, "stack",
                          d->prefill.time.stack, "companion", price->companion.name, "decode_profile",
                          d->decode.name, "decode_stack", d->decode.time.stack, "link", d->link_text);
    json_object_set_new(o, "ttft_ms", json_real(ms(p->ns)));
    json_object_set_new(o, "transfer_ms", json_real(ms(r->run.transfer_ns)));
    json_object_set_new(o, "exposed_transfer_ms", json_real(ms(r->run.exposed_ns)));
    json_object_set_new(o, "decode_ms", json_real(ms(r->decode.ns)));
    json_object_set_new(o, "tpot_ms",
                        r->steps ? json_real(ms(r->decode.ns) / (double)r->steps) : json_null());
    json_object_set_new(o, "joules", joules(r));
    json_object_set_new(o, "joules_of_tdp", json_boolean(is_tdp));
    json_object_set_new(o, "utilisation", json_real(share(p->ops, p->ns, peak.int8)));
    json_object_set_new(o, "decode_utilisation",
                        json_real(share(r->decode.bytes, r->decode.ns,
                                        d->decode.time.memory_bytes_per_us *
                                            (d->decode.time.devices ? d->decode.time.devices : 1))));
    json_object_set_new(o, "npu_ms", json_real(ms(p->part_ns[BT_PRICE_PKG_NPU])));
    json_object_set_new(o, "companion_ops", parts(r));
    json_object_set_new(o, "edges_ms", json_real(ms(p->part_ns[BT_PRICE_PKG_EDGES])));
    json_object_set_new(o, "sync_ms", json_real(ms(p->part_ns[BT_PRICE_PKG_SYNC])));
    json_object_set_new(o, "session_ms", json_real(ms(p->part_ns[BT_PRICE_PKG_SESSIONS])));
    json_object_set_new(o, "spill_ms", json_real(ms(p->spill_ns)));
    json_object_set_new(o, "first_use_ms", json_real(ms(price->first_ns)));
    json_object_set_new(o, "compile_ms", json_real(ms(price->compile_ns)));
    return o;
}

static bt_err price_run(json_t **ret, const tool_device *d, const tool_serve *s, const bt_model *m,
                        const bt_pkg *p, const json_t *answer, bt_fault *fault)
{
    static bt_price price; /* too large for a stack */
    const bt_price_model model = decode_model(s, m);
    const uint64_t all = (uint64_t)json_integer_value(json_object_get(answer, "prompt_tokens")),
                   kept = (uint64_t)json_integer_value(json_object_get(answer, "cached_tokens")),
                   made = (uint64_t)json_integer_value(json_object_get(answer, "completion_tokens"));
    const uint64_t elem_bits =
        8 * (uint64_t)(bt_kv_dtype_wanted(s->kv_dtype) ? bt_kv_dtype_wanted(s->kv_dtype) : 2);
    priced r = {.tokens = all, .steps = made ? made - 1 : 0};
    bt_err e = bt_price_pkg(&price, p, &d->prefill, (uint32_t)elem_bits, fault);
    if (e == BT_OK)
        e = bt_price_pkg_prompt(&r.run, &price, p, &d->link, model.kv_bytes, kept, all - kept, fault);
    if (e < 0) return e;
    for (uint64_t i = 1; i <= r.steps; i++) {
        const bt_price_step step = bt_price_decode_step(1, all + i);
        const bt_price_sum one = bt_price_step_of(&d->decode, &model, &step);
        r.decode.ns = bt_time_plus(r.decode.ns, one.ns);
        r.decode.ops = bt_time_plus(r.decode.ops, one.ops);
        r.decode.bytes = bt_time_plus(r.decode.bytes, one.bytes);
    }
    /* the host polls while it waits for the device */
    const bt_price_sum *prompt = &r.run.prefill;
    r.prefill_energy = bt_energy_of(&d->prefill.time, prompt->ns, prompt->ops, prompt->bytes, prompt->ns);
    r.decode_energy = bt_energy_of(&d->decode.time, r.decode.ns, r.decode.ops, r.decode.bytes, r.decode.ns);
    *ret = report(d, &r, &price);
    return BT_OK;
}

bt_err tool_device_price(json_t **ret, const tool_device *d, const tool_serve *s, const json_t *answer,
                         bt_fault *fault)
{
    bt_model *m = NULL;
    bt_pkg *p = NULL;
    bt_pool *pool = NULL;
    bt_err e = bt_pool_new(&pool, (size_t)s->threads, fault);
    if (e == BT_OK) e = tool_open_model(&m, NULL, s->model, fault);
    if (e == BT_OK) {
        const bt_obtain_how how = {.ctx_tokens = (size_t)s->ctx_size, .pool = pool};
        e = bt_obtain_open(&p, NULL, m, &s->want, &how, fault);
    }
    if (e == BT_OK) e = price_run(ret, d, s, m, p, answer, fault);
    bt_pkg_close(p);
    bt_model_close(m);
    bt_pool_free(pool);
    return e;
}

static double value(const json_t *o, const char *key) { return json_number_value(json_object_get(o, key)); }
static const char *name(const json_t *o, const char *key)
{
    return json_string_value(json_object_get(o, key));
}

static void print_part(const char *what, double took_ms)
{
    if (took_ms > 0) fprintf(stderr, "           %10.2f ms %s\n", took_ms, what);
}

void tool_device_print(const json_t *o)
{
    const json_t *j = json_object_get(o, "joules"), *op;
    char what[96];
    size_t i;
    fprintf(stderr, "device     %s (%s) and %s (%s), computed, one operator after the other\n",
            name(o, "profile"), name(o, "stack"), name(o, "decode_profile"), name(o, "decode_stack"));
    fprintf(stderr,
            "           first token after %.1f ms, %.2f ms a token; transfer %.2f ms at %s Gbit/s, %.2f ms "
            "exposed\n",
            value(o, "ttft_ms"), value(o, "tpot_ms"), value(o, "transfer_ms"), name(o, "link"),
            value(o, "exposed_transfer_ms"));
    fprintf(stderr, "           %.2f %% of the peak in prefill, %.1f %% of the memory's in decode; ",
            100 * value(o, "utilisation"), 100 * value(o, "decode_utilisation"));
    if (json_is_number(j))
        fprintf(stderr, "%.3f J%s\n", json_number_value(j),
                json_is_true(json_object_get(o, "joules_of_tdp")) ? " at most, by a TDP" : "");
    else fprintf(stderr, "no source for its energy\n");
    print_part("NPU", value(o, "npu_ms"));
    json_array_foreach(json_object_get(o, "companion_ops"), i, op) {
        snprintf(what, sizeof what, "%s on the companion, %s", name(op, "op"), name(o, "companion"));
        print_part(what, value(op, "ms"));
    }
    print_part("conversions between the two", value(o, "edges_ms"));
    print_part("waiting for each other", value(o, "sync_ms"));
    print_part("session switches", value(o, "session_ms"));
    print_part("spilled bytes, of the NPU's", value(o, "spill_ms"));
    print_part("first use of the programs", value(o, "first_use_ms"));
    print_part("once, compiling them on the device", value(o, "compile_ms"));
}
