/* See inspect_memory.h. For people it is the JSON's own figures. */
#include "tools/commands/inspect_memory.h"
#include "base/num.h"
#include "engine/needs.h"
#include "model/weights.h"

#include <stdio.h>

enum { FORMS = 3, GATEWAY = 0, PREFILL, DECODE };

static json_t *count(uint64_t n) { return json_integer((json_int_t)n); }

static json_t *process_json(const char *name, const char *weights, const bt_needs *n)
{
    json_t *o = json_pack("{s:s, s:s?}", "process", name, "weights", weights);
    for (int i = 0; o && i < BT_NEEDS_PARTS; i++) {
        char key[32];
        snprintf(key, sizeof key, "%s_bytes", i == BT_NEEDS_KV ? "kv" : bt_needs_names[i]);
        json_object_set_new(o, key, count(n->part[i]));
    }
    json_object_set_new(o, "bytes", count(bt_needs_sum(n)));
    return o;
}

/* Decoding with one form: its process, all three processes together, and a token. */
static bt_err add_form(json_t *memory, const tool_inspect_memory *c, bt_needs n[3],
                       const bt_needs_want *decode, bt_fault *fault)
{
    const char *form = bt_weights_forms[decode->weights];
    uint64_t step;
    bt_err e = bt_needs_of(&n[DECODE], c->model, decode, fault);
    if (e == BT_OK) e = bt_weights_bytes_of_step(&step, c->model, decode->weights, fault);
    if (e < 0) return e;
    const uint64_t full = step + n[DECODE].part[BT_NEEDS_KV];
    json_array_append_new(json_object_get(memory, "processes"), process_json("decode", form, &n[DECODE]));
    json_array_append_new(json_object_get(memory, "together"),
                          json_pack("{s:s, s:o, s:o, s:o, s:f, s:f}", "weights", form, "bytes",
                                    count(bt_needs_together(n, 3)), "token_reads_bytes", count(step),
                                    "token_at_ctx_reads_bytes", count(full), "tokens_per_s",
                                    c->bandwidth_gb_s * 1e9 / (double)step, "tokens_per_s_at_ctx",
                                    c->bandwidth_gb_s * 1e9 / (double)full));
    return BT_OK;
}

bt_err tool_inspect_memory_json(json_t **ret, const tool_inspect_memory *c, bt_fault *fault)
{
    const bt_obtain_want package = {.shape_policy = c->shape_policy};
    bt_needs_want want[] = {[GATEWAY] = {.prefill = NULL},
                            [PREFILL] = {.prefill = BT_ENGINE_DEFAULT_PREFILL},
                            [DECODE] = {.decode = BT_ENGINE_DEFAULT_DECODE, .rows = BT_ENGINE_BATCH_ROWS}};
    bt_needs n[3];
    bt_compile_needs compile;
    bt_err e = BT_OK;
    for (int i = 0; i < 3; i++) {
        want[i].want = &package;
        want[i].ctx_tokens = c->ctx_tokens;
        want[i].threads = c->threads;
        if (e == BT_OK) e = bt_needs_of(&n[i], c->model, &want[i], fault);
    }
    if (e == BT_OK)
        e = bt_obtain_needs(&compile, c->model, &package, c->ctx_tokens,
                            c->threads ? c->threads : bt_pool_cores(), fault);
    if (e < 0) return e;
    json_t *memory =
        json_pack("{s:o, s:o, s:o, s:o, s:f, s:[], s:[]}", "ctx_tokens", count(n[PREFILL].ctx_tokens),
                  "kv_token_bytes", count(n[PREFILL].token_bytes), "package_bytes",
                  count(compile.package_bytes), "compile_bytes", count(compile.memory_bytes),
                  "bandwidth_gb_s", c->bandwidth_gb_s, "processes", "together");
    json_t *processes = json_object_get(memory, "processes");
    json_array_append_new(processes, process_json("gateway", NULL, &n[GATEWAY]));
    json_array_append_new(processes, process_json("prefill", NULL, &n[PREFILL]));
    for (int f = 0; e == BT_OK && f < FORMS; f++) {
        want[DECODE].weights = (bt_form)f;
        e = add_form(memory, c, n, &want[DECODE], fault);
    }
    if (e < 0) json_decref(memory);
    else *ret = memory;
    return e;
}

/* ---- for people ---- */

static const char *size_of(char ret[32], const json_t *o, const char *key)
{
    bt_num_size_text(ret, 32, (uint64_t)json_integer_value(json_object_get(o, key)));
    return ret;
}

void tool_inspect_memory_print(const json_t *memory)
{
    static const char *const keys[] = {"package_bytes", "weights_bytes", "kv_bytes",
                                       "work_bytes",    "rest_bytes",    "bytes"};
    const json_t *o;
    size_t i;
    char a[32], b[32];
    printf("\nmemory at %lld tokens, KV in f16; what is mapped, processes share\n  %-14s %12s %12s %12s %12s "
           "%12s %12s\n",
           (long long)json_integer_value(json_object_get(memory, "ctx_tokens")), "process", "package",
           "weights", "KV", "work", "rest", "all");
    json_array_foreach(json_object_get(memory, "processes"), i, o) {
        const char *form = json_string_value(json_object_get(o, "weights"));
        snprintf(a, sizeof a, "%s%s%s", json_string_value(json_object_get(o, "process")), form ? " " : "",
                 form ? form : "");
        printf("  %-14s", a);
        for (size_t k = 0; k < sizeof keys / sizeof *keys; k++) printf(" %12s", size_of(b, o, keys[k]));
        putchar('\n');
    }
    printf("  compiling: %s of memory", size_of(a, memory, "compile_bytes"));
    printf(", %s on disk\n", size_of(a, memory, "package_bytes"));
    printf("\nall three processes, and what memory of %.0f GB/s allows\n  %-14s %12s %14s %12s %14s %12s\n",
           json_real_value(json_object_get(memory, "bandwidth_gb_s")), "decode", "memory", "a token reads",
           "tokens/s", "at that length", "tokens/s");
    json_array_foreach(json_object_get(memory, "together"), i, o) {
        printf("  %-14s %12s", json_string_value(json_object_get(o, "weights")), size_of(a, o, "bytes"));
        printf(" %14s %12.1f", size_of(a, o, "token_reads_bytes"),
               json_real_value(json_object_get(o, "tokens_per_s")));
        printf(" %14s %12.1f\n", size_of(a, o, "token_at_ctx_reads_bytes"),
               json_real_value(json_object_get(o, "tokens_per_s_at_ctx")));
    }
}
