/* Rows are made once, as JSON; the tables for people show the same rows in other units. */
#include "lab/commands/roofline_rows.h"
#include "device/forecast.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static json_t *real(double v) { return json_real(v); }
static json_t *whole(uint64_t v) { return json_integer((json_int_t)v); }
static double ratio(uint64_t a, uint64_t b) { return b ? (double)a / (double)b : 0; }
/* An operation a microsecond is 10^6 a second. */
static json_t *per_second(uint64_t per_us) { return real((double)per_us * 1e6); }

static void append(json_t *rows, const char *name, json_t *row)
{
    json_object_set_new(row, "name", json_string(name));
    json_array_append_new(rows, row);
}

json_t *tool_roofline_devices(void)
{
    json_t *rows = json_array();
    for (size_t i = 0; bt_profile_name(i); i++) {
        bt_profile p;
        if (bt_profile_load(&p, bt_profile_name(i), NULL) < 0 || !p.time.is_given) continue;
        const bt_roofline_peak peak = bt_roofline_peaks(&p.time);
        const uint64_t group = bt_profile_devices(&p.time), bytes = p.time.memory_bytes_per_us;
        json_t *row = json_object();
        json_object_set_new(row, "stack", json_string(p.time.stack));
        json_object_set_new(row, "f16_ops_per_second", per_second(peak.f16 * group));
        json_object_set_new(row, "int8_ops_per_second", per_second(peak.int8 * group));
        json_object_set_new(row, "reached_ops_per_second", per_second(peak.reached * group));
        json_object_set_new(row, "memory_bytes_per_second", per_second(bytes * group));
        json_object_set_new(row, "ridge_f16", real(ratio(peak.f16, bytes)));
        json_object_set_new(row, "ridge_int8", real(ratio(peak.int8, bytes)));
        json_object_set_new(row, "ridge_reached",
                            real(ratio(peak.reached, bt_time_activation_rate(&p.time))));
        json_object_set_new(row, "token_seconds", real(14e9 / ((double)(bytes * group) * 1e6)));
        json_object_set_new(row, "token_compute_seconds", real(14e9 / ((double)(peak.f16 * group) * 1e6)));
        json_object_set_new(row, "tokens_per_second", real((double)(bytes * group) * 1e6 / 14e9));
        append(rows, p.name, row);
    }
    return rows;
}

void tool_roofline_model(json_t *rows, const bt_dims *s, const char *given)
{
    const char *source = bt_dims_source(s->name);
    json_t *row = json_object();
    json_object_set_new(row, "weights", whole(bt_dims_weights(s)));
    json_object_set_new(row, "row_weights", whole(bt_dims_body(s) + bt_dims_head(s)));
    json_object_set_new(row, "layers", whole(s->layers));
    json_object_set_new(row, "hidden", whole(s->hidden));
    json_object_set_new(row, "ffn", whole(s->ffn));
    json_object_set_new(row, "heads", whole(s->heads));
    json_object_set_new(row, "kv_heads", whole(s->kv_heads));
    json_object_set_new(row, "head_dim", whole(s->head_dim));
    json_object_set_new(row, "vocab", whole(s->vocab));
    json_object_set_new(row, "source", json_string(source ? source : given));
    append(rows, s->name, row);
}

static void kv_row(json_t *rows, const bt_dims *s, const char *heads)
{
    const uint64_t one = bt_dims_kv_bytes(s, 16);
    json_t *row = json_object();
    json_object_set_new(row, "heads", json_string(heads));
    json_object_set_new(row, "token_bytes", whole(one));
    json_object_set_new(row, "bytes_4096", whole(bt_dims_kv_held(s, one, 4096, 0)));
    json_object_set_new(row, "bytes_32768", whole(bt_dims_kv_held(s, one, 32768, 0)));
    json_object_set_new(row, "bytes_128000", whole(bt_dims_kv_held(s, one, 128000, 0)));
    json_object_set_new(row, "bytes_131072", whole(bt_dims_kv_held(s, one, 131072, 0)));
    append(rows, s->name, row);
}

void tool_roofline_kv(json_t *rows, const bt_dims *s)
{
    char heads[32];
    snprintf(heads, sizeof heads, "%" PRIu32 " of %" PRIu32, s->kv_heads, s->heads);
    kv_row(rows, s, heads);
    if (s->kv_heads == s->heads || s->latent_rank) return;
    const bt_dims own = bt_roofline_unshared(s);
    kv_row(rows, &own, "if unshared");
}

void tool_roofline_handoff(json_t *rows, const bt_dims *s)
{
    static const struct {
        const char *key;
        uint64_t bits_per_us;
    } links[] = {{"seconds_1gbe", 1000},
                 {"seconds_10gbe", 10000},
                 {"seconds_25gbe", 25000},
                 {"seconds_100gbe", 100000}};
    const bt_link_kv kv = bt_link_kv_of(s, bt_dims_kv_bytes(s, 16));
    const bt_link_rows sent = bt_link_rows_of(&kv, 0, 1024, 1024);
    const uint64_t bytes = bt_link_bytes(&kv, &sent);
    json_t *row = json_object();
    json_object_set_new(row, "bytes", whole(bytes));
    for (size_t i = 0; i < sizeof links / sizeof *links; i++) {
        const bt_link l = {.bits_per_us = links[i].bits_per_us};
        json_object_set_new(row, links[i].key, real((double)bt_link_ns(&l, bytes) / 1e9));
    }
    append(rows, s->name, row);
}

void tool_roofline_shares(json_t *rows, const bt_dims *s)
{
    static const uint32_t ctx[] = {128, 2048, 8192, 32768, 131072};
    for (size_t i = 0; i < sizeof ctx / sizeof *ctx; i++) {
        const bt_roofline_share h = bt_roofline_shares(s, ctx[i]);
        const uint64_t sum = h.qkv + h.output + h.ffn + h.attention;
        json_t *row = json_object();
        json_object_set_new(row, "ctx", whole(ctx[i]));
        json_object_set_new(row, "qkv_ratio", real(ratio(h.qkv, sum)));
        json_object_set_new(row, "output_ratio", real(ratio(h.output, sum)));
        json_object_set_new(row, "ffn_ratio", real(ratio(h.ffn, sum)));
        json_object_set_new(row, "attention_ratio", real(ratio(h.attention, sum)));
        append(rows, s->name, row);
    }
}

void tool_roofline_flash(json_t *rows, const bt_dims *s)
{
    const bt_roofline_flash f = bt_roofline_attention(s, 8192);
    json_t *row = json_object();
    json_object_set_new(row, "score_bytes", whole(f.score_bytes));
    json_object_set_new(row, "output_bytes", whole(f.output_bytes));
    json_object_set_new(row, "qkvo_bytes", whole(f.qkvo_bytes));
    json_object_set_new(row, "score_by_output", real(ratio(f.score_bytes, f.output_bytes)));
    append(rows, s->name, row);
}

void tool_roofline_ceilings(json_t *rows, const bt_dims *s)
{
    static const struct {
        const char *key;
        double bytes;
    } forms[] = {
        {"f16_tokens_per_second", 2}, {"q8_0_tokens_per_second", 1.0625}, {"q4_0_tokens_per_second", 0.5625}};
    const double weights = (double)(bt_dims_body(s) + bt_dims_head(s));
    for (size_t i = 0; bt_profile_name(i); i++) {
        bt_profile p;
        if (bt_profile_load(&p, bt_profile_name(i), NULL) < 0 || !p.time.is_given) continue;
        const double rate = (double)p.time.memory_bytes_per_us * 1e6 * bt_profile_devices(&p.time);
        json_t *row = json_object();
        json_object_set_new(row, "profile", json_string(p.name));
        for (size_t f = 0; f < sizeof forms / sizeof *forms; f++)
            json_object_set_new(row, forms[f].key, real(rate / (weights * forms[f].bytes)));
        append(rows, s->name, row);
    }
}

/* The error of a prompt's time. */
static json_t *error_of(const bt_profile *p, const bt_dims *s, uint32_t tokens)
{
    const bt_forecast_at at = {.batch = 1, .context = tokens, .model = s};
    const bt_forecast_error e = bt_forecast_error_of(p, BT_FIGURE_TTFT, &at);
    return bt_forecast_error_json(&e);
}

void tool_roofline_lengths(json_t *rows, const bt_roofline_pair *p, const bt_dims *s)
{
    static const uint32_t tokens[] = {32, 128, 512, 1024, 4096, 16384, 131072};
    for (size_t i = 0; i < sizeof tokens / sizeof *tokens; i++) {
        const bt_roofline_first f = bt_roofline_first_token(p, tokens[i]);
        json_t *row = json_object();
        json_object_set_new(row, "tokens", whole(tokens[i]));
        json_object_set_new(row, "prefill_ns", whole(f.prefill_ns));
        json_object_set_new(row, "first_use_ns", whole(f.first_use_ns));
        json_object_set_new(row, "exposed_ns", whole(f.exposed_ns));
        json_object_set_new(row, "alone_ns", whole(f.alone_ns));
        json_object_set_new(row, "error",
                            json_pack("{s:o, s:o}", "prefill", error_of(&p->prefill_profile, s, tokens[i]),
                                      "alone", error_of(&p->decode, s, tokens[i])));
        json_array_append_new(rows, row);
    }
}

/* ---- for people ---- */
#define COLUMNS(name) .column = (name), .columns = sizeof(name) / sizeof *(name)
static const tool_roofline_column device_columns[] = {
    {"name", "profile", -1, 1},
    {"f16_ops_per_second", "FP16 T/s", 1, 1e12},
    {"int8_ops_per_second", "int8 T/s", 1, 1e12},
    {"reached_ops_per_second", "reached", 1, 1e12},
    {"memory_bytes_per_second", "TB/s", 3, 1e12},
    {"ridge_f16", "ridge FP16", 0, 1},
    {"ridge_int8", "int8", 0, 1},
    {"ridge_reached", "reached", 0, 1},
    {"token_seconds", "7B FP16 ms", 2, 1e-3},
    {"token_compute_seconds", "compute ms", 4, 1e-3},
    {"tokens_per_second", "tokens/s", 1, 1},
    {"stack", "stack", -1, 1},
};
static const tool_roofline_column model_columns[] = {
    {"name", "model", -1, 1},   {"weights", "weights 1e9", 2, 1e9}, {"row_weights", "of a row", 2, 1e9},
    {"layers", "layers", 0, 1}, {"hidden", "hidden", 0, 1},         {"ffn", "FFN", 0, 1},
    {"heads", "heads", 0, 1},   {"kv_heads", "KV heads", 0, 1},     {"head_dim", "head", 0, 1},
    {"vocab", "words", 0, 1},   {"source", "source", -1, 1},
};
static const tool_roofline_column ignored_columns[] = {
    {"model", "model", -1, 1},
    {"field", "field", -1, 1},
    {"bound", "bound", -1, 1},
    {"effect", "what is priced", -1, 1},
};
static const tool_roofline_column kv_columns[] = {
    {"name", "model", -1, 1},
    {"heads", "KV heads", -1, 1},
    {"token_bytes", "KiB/token", 0, 1024},
    {"bytes_4096", "4,096", 3, 1 << 30},
    {"bytes_32768", "32,768", 2, 1 << 30},
    {"bytes_128000", "128,000", 2, 1 << 30},
    {"bytes_131072", "131,072", 2, 1 << 30},
};
static const tool_roofline_column handoff_columns[] = {
    {"name", "model", -1, 1},
    {"bytes", "MiB", 0, 1 << 20},
    {"seconds_1gbe", "1 GbE ms", 1, 1e-3},
    {"seconds_10gbe", "10 GbE ms", 1, 1e-3},
    {"seconds_25gbe", "25 GbE ms", 1, 1e-3},
    {"seconds_100gbe", "100 GbE ms", 1, 1e-3},
};
static const tool_roofline_column share_columns[] = {
    {"name", "model", -1, 1},        {"ctx", "tokens", 0, 1},
    {"qkv_ratio", "QKV %", 1, 0.01}, {"output_ratio", "O %", 1, 0.01},
    {"ffn_ratio", "FFN %", 1, 0.01}, {"attention_ratio", "attention %", 1, 0.01},
};
static const tool_roofline_column flash_columns[] = {
    {"name", "model", -1, 1},
    {"score_bytes", "scores GiB", 3, 1 << 30},
    {"output_bytes", "O GiB", 4, 1 << 30},
    {"qkvo_bytes", "QKVO GiB", 4, 1 << 30},
    {"score_by_output", "scores / O", 0, 1},
};
static const tool_roofline_column ceiling_columns[] = {
    {"name", "model", -1, 1},
    {"profile", "profile", -1, 1},
    {"f16_tokens_per_second", "FP16", 1, 1},
    {"q8_0_tokens_per_second", "q8_0", 1, 1},
    {"q4_0_tokens_per_second", "q4_0", 1, 1},
};
static const tool_roofline_column prompt_columns[] = {
    {"name", "model", -1, 1},
    {"profile", "profile", -1, 1},
    {"ttft_seconds", "TTFT ms", 2, 1e-3},
    {"error.ttft.text", "error", -1, 1},
    {"tokens_per_second", "tokens/s", 1, 1},
    {"utilisation", "of the peak %", 2, 0.01},
    {"joules", "J", 3, 1},
    {"joules_per_input_token", "mJ/token", 3, 1e-3},
    {"joules_per_output_token", "decode mJ/token", 1, 1e-3},
    {"of_tdp", "bound", -1, 1},
    {"decode_tokens_per_second", "decode tokens/s", 1, 1},
    {"error.tpot.text", "error", -1, 1},
    {"decode_utilisation", "of the memory's %", 1, 0.01},
    {"stack", "stack", -1, 1},
};
static const tool_roofline_column length_columns[] = {
    {"tokens", "tokens", 0, 1},
    {"prefill_ns", "prefill ms", 2, 1e6},
    {"error.prefill.text", "error", -1, 1},
    {"first_use_ns", "of it first use", 2, 1e6},
    {"exposed_ns", "exposed ms", 2, 1e6},
    {"alone_ns", "decode device alone ms", 2, 1e6},
    {"error.alone.text", "error", -1, 1},
};
const tool_roofline_table tool_roofline_tables[] = {
    {"devices", "peaks; operations a byte where products take over from bytes; a token of 14e9 bytes",
     COLUMNS(device_columns)},
    {"models", "sizes", COLUMNS(model_columns)},
    {"ignored", "fields that these figures ignore, which bounds time and memory", COLUMNS(ignored_columns)},
    {"kv", "KV in FP16, GiB", COLUMNS(kv_columns)},
    {"handoff", "handing over the KV of 1,024 tokens, the wire alone", COLUMNS(handoff_columns)},
    {"shares", "parts of a prompt's products", COLUMNS(share_columns)},
    {"attention", "attention of a layer over 8,192 tokens", COLUMNS(flash_columns)},
    {"ceilings", "tokens/s that decode cannot pass: memory's peak by the weights", COLUMNS(ceiling_columns)},
    {"prompts", "a prompt of 512 tokens, and a token behind it, on every device with a time",
     COLUMNS(prompt_columns)},
    {"lengths", "first token on the pair", COLUMNS(length_columns)},
    {NULL, NULL, NULL, 0},
};

char *tool_roofline_cell(char ret[TOOL_ROOFLINE_CELL_BYTES], const tool_roofline_column *c, const json_t *row)
{
    const json_t *v = row;
    for (const char *at = c->key; *at;) { /* keys of objects in objects, with dots between */
        const size_t len = strcspn(at, ".");
        v = json_object_getn(v, at, len);
        at += len + (at[len] == '.');
    }
    if (json_is_null(v)) snprintf(ret, TOOL_ROOFLINE_CELL_BYTES, "-");
    else if (c->decimals < 0)
        snprintf(ret, TOOL_ROOFLINE_CELL_BYTES, "%s", json_is_string(v) ? json_string_value(v) : "");
    else /* halves up: 15.625 is 15.63 */
        snprintf(ret, TOOL_ROOFLINE_CELL_BYTES, "%.*f", c->decimals,
                 json_number_value(v) / c->divisor * (1 + 1e-12));
    return ret;
}

static void print_table(const tool_roofline_table *t, const json_t *rows)
{
    int width[16] = {0};
    char text[TOOL_ROOFLINE_CELL_BYTES];
    size_t i;
    json_t *row;
    for (size_t c = 0; c < t->columns; c++) width[c] = (int)strlen(t->column[c].head);
    json_array_foreach((json_t *)(uintptr_t)rows, i, row)
        for (size_t c = 0; c < t->columns; c++) {
            tool_roofline_cell(text, &t->column[c], row);
            if ((int)strlen(text) > width[c]) width[c] = (int)strlen(text);
        }
    printf("%s\n", t->title);
    for (size_t c = 0; c < t->columns; c++)
        printf("%s%*s", c ? "  " : "", t->column[c].decimals < 0 ? -width[c] : width[c], t->column[c].head);
    printf("\n");
    json_array_foreach((json_t *)(uintptr_t)rows, i, row) {
        for (size_t c = 0; c < t->columns; c++) {
            tool_roofline_cell(text, &t->column[c], row);
            printf("%s%*s", c ? "  " : "", t->column[c].decimals < 0 ? -width[c] : width[c], text);
        }
        printf("\n");
    }
}

void tool_roofline_print(const json_t *object)
{
    bool is_first = true;
    for (const tool_roofline_table *t = tool_roofline_tables; t->key; t++) {
        const json_t *rows = json_object_get(object, t->key);
        if (!json_array_size(rows)) continue;
        if (!is_first) printf("\n");
        is_first = false;
        print_table(t, rows);
    }
}
