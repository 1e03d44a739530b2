/* docs/package-format.md says every byte of a package. Here its tables are compared with the structures,
 * and its lists with the names. */
#include "npu/pkg/pkg_format.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

typedef struct field {
    const char *name;
    size_t at, bytes;
} field;
#define F(s, f) \
    { \
#f, offsetof(s, f), sizeof(((s *)0)->f) \
    }
#define E(s, f, i) \
    { \
#f #i, offsetof(s, f) + (i) * sizeof(((s *)0)->f[0]), sizeof(((s *)0)->f[0]) \
    }

#define S bt_pkg_header
static const field header[] = {F(S, magic),
                               F(S, version),
                               F(S, header_bytes),
                               F(S, file_bytes),
                               F(S, digest),
                               F(S, model_id),
                               F(S, kernels_version),
                               F(S, rounding),
                               F(S, npu_ops),
                               F(S, flags),
                               F(S, arch),
                               F(S, layers),
                               F(S, dim),
                               F(S, ffn),
                               F(S, heads),
                               F(S, kv_heads),
                               F(S, head_dim),
                               F(S, vocab),
                               F(S, ctx_tokens),
                               F(S, rope_dims),
                               F(S, rms_eps),
                               F(S, attn_scale),
                               F(S, rope_base),
                               F(S, rope_scale),
                               F(S, embed_type),
                               F(S, embed),
                               F(S, rope_cos),
                               F(S, rope_sin),
                               F(S, rope_cos_q15),
                               F(S, rope_sin_q15),
                               F(S, r1),
                               F(S, r2),
                               F(S, residual_scale),
                               F(S, max_seq),
                               F(S, arena_bytes),
                               F(S, weights_bytes),
                               F(S, calib_tokens),
                               F(S, consts),
                               F(S, tensors),
                               F(S, sites),
                               F(S, rows),
                               F(S, programs),
                               F(S, fallbacks),
                               F(S, sessions),
                               F(S, model_name),
                               F(S, recipe),
                               F(S, shape_policy),
                               F(S, profile),
                               F(S, layout),
                               F(S, body_code),
                               F(S, body_plan),
                               F(S, body_params),
                               F(S, float_form),
                               F(S, rope_cos16),
                               F(S, rope_sin16),
                               F(S, sparse_ppm),
                               F(S, sparse_dense_rows),
                               F(S, sparse_heads),
                               F(S, sparse_rotation),
                               F(S, r4),
                               F(S, sparse_rows_log2),
                               F(S, sparse_group),
                               F(S, recipe_text),
                               F(S, embed_scale),
                               F(S, add_scale),
                               F(S, window),
                               F(S, global_every),
                               F(S, window_rope_base),
                               F(S, score_cap),
                               F(S, logit_cap),
                               F(S, experts),
                               F(S, experts_used),
                               F(S, routers),
                               F(S, expert_sites),
                               F(S, router_bias),
                               F(S, sinks),
                               F(S, reserved)};
#undef S
#define S bt_pkg_table
static const field table[] = {F(S, offset), F(S, count), F(S, elem_bytes)};
#undef S
#define S bt_pkg_rotation
static const field rotation[] = {F(S, base), F(S, log2), F(S, h_base), F(S, sign), F(S, scale), F(S, blocks)};
#undef S
#define S bt_pkg_layout
static const field layout[] = {F(S, on_chip_bytes),    F(S, last_axis_align_bytes),
                               F(S, query_slice_rows), F(S, attention_heads_max),
                               F(S, output_parts),     F(S, tile_rows),
                               F(S, tile_cols),        F(S, tile_input_rows),
                               F(S, state_pow2),       F(S, state_multiple),
                               F(S, reserved)};
#undef S
#define S bt_pkg_const
static const field consts[] = {F(S, offset), F(S, bytes), F(S, hash), F(S, kind), F(S, refs)};
#undef S
#define S bt_pkg_tensor
static const field tensors[] = {F(S, layer),
                                F(S, weight),
                                F(S, n),
                                F(S, k),
                                F(S, site),
                                F(S, bits),
                                F(S, panels),
                                F(S, wscale),
                                F(S, oscale),
                                F(S, bias),
                                F(S, colsum),
                                F(S, mult),
                                F(S, shift),
                                F(S, bias_q),
                                F(S, norm_q),
                                F(S, norm_shift),
                                F(S, out_scale),
                                F(S, f16_panels),
                                F(S, weight_error),
                                F(S, output_error),
                                F(S, out_bits),
                                F(S, group),
                                F(S, groups),
                                F(S, palette_run)};
#undef S
#define S bt_pkg_site
static const field sites[] = {
    F(S, layer),     F(S, kind),   F(S, bits),      F(S, shadow), F(S, k),           F(S, scale),
    F(S, inv_scale), F(S, clip),   F(S, max),       F(S, rms),    F(S, input_error), F(S, outlier_columns),
    F(S, hot),       F(S, pruned), F(S, a16_scale), F(S, zero),   F(S, asymmetric)};
#undef S
#define S bt_pkg_row
static const field rows[] = {F(S, batch),      F(S, seq_min),    F(S, seq),        F(S, ctx),
                             E(S, program, 0), E(S, program, 1), E(S, program, 2), F(S, reserved)};
#undef S
#define S bt_pkg_program
static const field programs[] = {
    F(S, code),        F(S, insts),    F(S, plan),           F(S, places),
    F(S, seq),         F(S, out),      F(S, clusters),       F(S, ctx),
    F(S, arena_bytes), F(S, npu_macs), F(S, companion_macs), F(S, activation_bytes_moved)};
#undef S
#define S bt_pkg_place
static const field places[] = {F(S, name),     F(S, first_inst), F(S, last_inst),
                               F(S, reserved), F(S, offset),     F(S, bytes)};
#undef S
#define S bt_pkg_inst
static const field insts[] = {
    F(S, op),  F(S, unit),    F(S, group),     F(S, out_rows),   F(S, layer),       F(S, tensor), F(S, site),
    F(S, arg), F(S, cluster), F(S, in_width),  F(S, out_width),  F(S, in0),         F(S, in1),    F(S, out),
    F(S, aux), F(S, params),  F(S, in_stride), F(S, out_stride), F(S, macs_per_row)};
#undef S
#define S bt_pkg_int_params
static const field params[] = {E(S, m, 0), E(S, m, 1), E(S, m, 2),    E(S, m, 3),    E(S, s, 0),
                               E(S, s, 1), E(S, s, 2), E(S, s, 3),    F(S, k_shift), F(S, v_shift),
                               F(S, zero), F(S, eps),  F(S, reserved)};
#undef S
#define S bt_pkg_expert
static const field experts[] = {F(S, scale), F(S, inv_scale), F(S, rows), F(S, zero), F(S, is_rare)};
#undef S
#define S bt_pkg_fallback
static const field fallbacks[] = {F(S, op), F(S, why), F(S, count), F(S, layers), F(S, macs_per_row)};
#undef S
#define S bt_pkg_session
static const field sessions[] = {F(S, first_layer), F(S, last_layer), F(S, mapped_bytes)};
#undef S

#define S bt_pkg_piece
static const field pieces[] = {F(S, inst),  F(S, insts),   F(S, place),  F(S, places),
                               F(S, layer), F(S, cluster), F(S, params), F(S, reserved)};
#undef S

#define SECTION(title, type, list) \
    { \
        title, sizeof(type), list, sizeof list / sizeof *list \
    }
static const struct section {
    const char *title;
    size_t bytes;
    const field *list;
    size_t n;
} section[] = {
    SECTION("Header: 1,024 bytes", bt_pkg_header, header),
    SECTION("Table reference: 16 bytes", bt_pkg_table, table),
    SECTION("Rotation: 24 bytes", bt_pkg_rotation, rotation),
    SECTION("Layout: 48 bytes", bt_pkg_layout, layout),
    SECTION("Constants: 40 bytes", bt_pkg_const, consts),
    SECTION("Tensors: 96 bytes", bt_pkg_tensor, tensors),
    SECTION("Sites: 64 bytes", bt_pkg_site, sites),
    SECTION("Rows: 32 bytes", bt_pkg_row, rows),
    SECTION("Programs: 64 bytes", bt_pkg_program, programs),
    SECTION("Pieces: 32 bytes", bt_pkg_piece, pieces),
    SECTION("Places: 32 bytes", bt_pkg_place, places),
    SECTION("Instructions: 88 bytes", bt_pkg_inst, insts),
    SECTION("Experts: 16 bytes", bt_pkg_expert, experts),
    SECTION("Parameters: 64 bytes", bt_pkg_int_params, params),
    SECTION("Fallbacks: 136 bytes", bt_pkg_fallback, fallbacks),
    SECTION("Sessions: 16 bytes", bt_pkg_session, sessions),
};

static char *page;

static int read_page(void **state)
{
    (void)state;
    FILE *f = fopen("docs/package-format.md", "rb"); /* tests run in the repository's root */
    if (!f) return -1;
    page = calloc(1, 1 << 20);
    const size_t n = page ? fread(page, 1, (1 << 20) - 1, f) : 0;
    fclose(f);
    return n > 0 ? 0 : -1;
}

static int free_page(void **state)
{
    (void)state;
    free(page);
    return 0;
}

/* The first row of the section's table of fields. */
static const char *rows_of(const char *title)
{
    char line[128];
    snprintf(line, sizeof line, "\n## %s\n", title);
    const char *at = strstr(page, line);
    if (!at) fail_msg("docs/package-format.md has no section '%s'", title);
    static const char head[] = "| off | size | type | field | meaning |\n|---|---|---|---|---|\n";
    at = at ? strstr(at, head) : NULL;
    if (!at) fail_msg("docs/package-format.md, '%s': no table of fields", title);
    return at + sizeof head - 1;
}

static void the_page_has_every_field_where_it_is(void **state)
{
    (void)state;
    for (size_t s = 0; s < sizeof section / sizeof *section; s++) {
        const char *row = rows_of(section[s].title);
        size_t end = 0;
        for (size_t i = 0; i < section[s].n; i++) {
            const field *f = &section[s].list[i];
            unsigned at = 0, bytes = 0;
            char type[24] = "", name[40] = "";
            if (sscanf(row, "| %u | %u | %23[^|]| `%39[^`]` |", &at, &bytes, type, name) != 4)
                fail_msg("docs/package-format.md, '%s': field %zu should be %s", section[s].title, i,
                         f->name);
            if (strcmp(name, f->name) != 0 || at != f->at || bytes != f->bytes)
                fail_msg("docs/package-format.md, '%s': %s at %u, %u bytes; the structure has %s at %zu, %zu "
                         "bytes",
                         section[s].title, name, at, bytes, f->name, f->at, f->bytes);
            assert_int_equal(at, end);
            end = at + bytes;
            row = strchr(row, '\n') + 1;
        }
        assert_int_equal(end, section[s].bytes);
        assert_true(row[0] != '|');
    }
}

static void the_page_lists_every_operator_and_value_by_its_number(void **state)
{
    (void)state;
    char want[64];
    for (uint32_t op = 0; op < 256; op++) {
        const char *name = bt_pkg_op_name((bt_pkg_op)op);
        if (!strcmp(name, "?")) continue;
        snprintf(want, sizeof want, "\n| %u | `%s` |", op, name);
        if (!strstr(page, want)) fail_msg("docs/package-format.md does not list %u %s", op, name);
    }
    for (uint32_t v = 1; v < BT_PKG_VALUES; v++) {
        snprintf(want, sizeof want, " %u %s%s", v, bt_pkg_value_name(v), v + 1 < BT_PKG_VALUES ? "," : " |");
        if (!strstr(page, want))
            fail_msg("docs/package-format.md does not list value %u %s", v, bt_pkg_value_name(v));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_page_has_every_field_where_it_is),
        cmocka_unit_test(the_page_lists_every_operator_and_value_by_its_number),
    };
    return cmocka_run_group_tests(tests, read_page, free_page);
}
