/* `baton roofline` shows the digits of tables that were computed elsewhere. */
#include "lab/commands/roofline_rows.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

/* The cell that `table` shows for the row `name` under a key. */
static void shows(const char *table, const json_t *rows, const char *name, const char *key, const char *want)
{
    char text[TOOL_ROOFLINE_CELL_BYTES];
    size_t i;
    json_t *row;
    for (const tool_roofline_table *t = tool_roofline_tables; t->key; t++) {
        if (strcmp(t->key, table)) continue;
        json_array_foreach((json_t *)(uintptr_t)rows, i, row) {
            if (strcmp(json_string_value(json_object_get(row, "name")), name)) continue;
            for (size_t c = 0; c < t->columns; c++)
                if (!strcmp(t->column[c].key, key)) {
                    const char *is = tool_roofline_cell(text, &t->column[c], row);
                    if (strcmp(is, want)) fail_msg("%s, %s: %s, not %s", name, key, is, want);
                    return;
                }
        }
    }
    fail_msg("no %s of %s in %s", key, name, table);
}

static void devices_have_the_published_peaks_ridges_and_floors(void **state)
{
    (void)state;
    static const struct {
        const char *name, *f16, *int8, *bytes, *ridge, *ms, *rate;
    } want[] = {
        {"h100", "989.4", "1978.9", "3.350", "295", "4.18", "239.3"},
        {"a100", "311.9", "623.7", "2.039", "153", "6.87", "145.6"},
        {"rtx-4090", "165.2", "660.6", "1.008", "164", "13.89", "72.0"},
        {"tpu-v5e", "197.0", "394.0", "0.819", "241", "17.09", "58.5"},
        {"tpu-v6e", "918.0", "1836.0", "1.640", "560", "8.54", "117.1"},
    };
    json_t *rows = tool_roofline_devices();
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        shows("devices", rows, want[i].name, "f16_ops_per_second", want[i].f16);
        shows("devices", rows, want[i].name, "int8_ops_per_second", want[i].int8);
        shows("devices", rows, want[i].name, "memory_bytes_per_second", want[i].bytes);
        shows("devices", rows, want[i].name, "ridge_f16", want[i].ridge);
        shows("devices", rows, want[i].name, "token_seconds", want[i].ms);
        shows("devices", rows, want[i].name, "tokens_per_second", want[i].rate);
    }
    /* 0.0141 ms of products, not the 0.007 of the sparse peak; 0.085 on tensor cores */
    shows("devices", rows, "h100", "token_compute_seconds", "0.0141");
    shows("devices", rows, "rtx-4090", "token_compute_seconds", "0.0848");
    shows("devices", rows, "m3-max-14-gpu", "token_seconds", "46.67");
    shows("devices", rows, "m3-max-gpu", "token_seconds", "35.00");
    shows("devices", rows, "hexagon-v75-vendor", "int8_ops_per_second", "73.0");
    shows("devices", rows, "hexagon-v75-vendor", "ridge_int8", "1074");
    shows("devices", rows, "hexagon-v75", "reached_ops_per_second", "10.0");
    shows("devices", rows, "hexagon-v75", "ridge_reached", "238");
    json_decref(rows);
}

static void kv_and_hand_off_have_the_published_sizes_and_times(void **state)
{
    (void)state;
    static const struct {
        const char *name, *token, *at_4096, *at_32768, *at_128000, *at_131072, *mib, *ms1, *ms10, *ms25;
    } want[] = {
        {"llama-2-7b", "512", "2.000", "16.00", "62.50", "64.00", "512", "4295.0", "429.5", "171.8"},
        {"llama-2-70b", "320", "1.250", "10.00", "39.06", "40.00", "320", "2684.4", "268.4", "107.4"},
        {"llama-3.1-8b", "128", "0.500", "4.00", "15.63", "16.00", "128", "1073.7", "107.4", "42.9"},
        {"llama-3.1-70b", "320", "1.250", "10.00", "39.06", "40.00", "320", "2684.4", "268.4", "107.4"},
        {"qwen1.5-1.8b", "192", "0.750", "6.00", "23.44", "24.00", "192", "1610.6", "161.1", "64.4"},
        {"gemma-2b", "18", "0.070", "0.56", "2.20", "2.25", "18", "151.0", "15.1", "6.0"},
        {"llama-3.2-1b", "32", "0.125", "1.00", "3.91", "4.00", "32", "268.4", "26.8", "10.7"},
        {"llama-3.2-3b", "112", "0.438", "3.50", "13.67", "14.00", "112", "939.5", "94.0", "37.6"},
        {"qwen2.5-3b", "36", "0.141", "1.13", "4.39", "4.50", "36", "302.0", "30.2", "12.1"},
        {"qwen3-0.6b", "112", "0.438", "3.50", "13.67", "14.00", "112", "939.5", "94.0", "37.6"},
    };
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        json_t *kv = json_array(), *handoff = json_array();
        tool_roofline_kv(kv, bt_dims_find(want[i].name));
        tool_roofline_handoff(handoff, bt_dims_find(want[i].name));
        shows("kv", kv, want[i].name, "token_bytes", want[i].token);
        shows("kv", kv, want[i].name, "bytes_4096", want[i].at_4096);
        shows("kv", kv, want[i].name, "bytes_32768", want[i].at_32768);
        shows("kv", kv, want[i].name, "bytes_128000", want[i].at_128000);
        shows("kv", kv, want[i].name, "bytes_131072", want[i].at_131072);
        shows("handoff", handoff, want[i].name, "bytes", want[i].mib);
        shows("handoff", handoff, want[i].name, "seconds_1gbe", want[i].ms1);
        shows("handoff", handoff, want[i].name, "seconds_10gbe", want[i].ms10);
        shows("handoff", handoff, want[i].name, "seconds_25gbe", want[i].ms25);
        json_decref(kv);
        json_decref(handoff);
    }
}

static void sizes_say_all_weights_those_of_a_row_and_their_source(void **state)
{
    (void)state;
    json_t *rows = json_array(), *kv = json_array();
    const bt_dims own = {.name = "config.json", .layers = 1,   .hidden = 1, .ffn = 1,         .heads = 1,
                         .kv_heads = 1,         .head_dim = 1, .vocab = 1,  .ffn_matrices = 3};
    tool_roofline_model(rows, bt_dims_find("deepseek-v3"), "deepseek-v3");
    tool_roofline_model(rows, &own, "./config.json");
    shows("models", rows, "deepseek-v3", "weights", "670.92");
    shows("models", rows, "deepseek-v3", "row_weights", "36.52");
    shows("models", rows, "deepseek-v3", "source", "config.json of deepseek-ai/DeepSeek-V3");
    shows("models", rows, "config.json", "source", "./config.json");
    /* a latent has no heads to unshare */
    tool_roofline_kv(kv, bt_dims_find("deepseek-v3"));
    assert_int_equal(json_array_size(kv), 1);
    json_decref(rows);
    json_decref(kv);
}

static void nothing_decodes_faster_than_its_memory(void **state)
{
    (void)state;
    /* 70B on 800 GB/s: 5.7 in FP16; on 400 GB/s 10.0 in 4 bits, 5.3 in 8; the shape has no embedding: 70.3e9
     * weights */
    json_t *rows = json_array();
    size_t i, seen = 0;
    json_t *row;
    tool_roofline_ceilings(rows, bt_dims_find("llama-3.1-70b"));
    json_array_foreach(rows, i, row) {
        const char *p = json_string_value(json_object_get(row, "profile"));
        const double f16 = json_number_value(json_object_get(row, "f16_tokens_per_second")),
                     q8 = json_number_value(json_object_get(row, "q8_0_tokens_per_second")),
                     q4 = json_number_value(json_object_get(row, "q4_0_tokens_per_second"));
        if (!strcmp(p, "m2-ultra-gpu")) {
            assert_true(f16 > 5.65 && f16 < 5.85);
            seen++;
        }
        if (!strcmp(p, "m3-max-gpu")) {
            assert_true(q4 > 9.95 && q4 < 10.3 && q8 > 5.25 && q8 < 5.45);
            seen++;
        }
    }
    assert_int_equal(seen, 2);
    json_decref(rows);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(devices_have_the_published_peaks_ridges_and_floors),
        cmocka_unit_test(kv_and_hand_off_have_the_published_sizes_and_times),
        cmocka_unit_test(sizes_say_all_weights_those_of_a_row_and_their_source),
        cmocka_unit_test(nothing_decodes_faster_than_its_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
