/* The calibration's measurements are taken out of a copy of either side; the rest is compared as it lies. */
#include "tests/helpers/model/sketch_kit.h"
#include "npu/compile/compile.h"
#include "npu/pkg/attention.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

typedef struct pair {
    const bt_pkg *sketch, *package;
    uint32_t *of; /* [the sketch's constants]: the package's, which has equal ones once */
    bool is_one_to_one;
} pair;

static void same(const void *a, const void *b, size_t n, const char *what, uint32_t i)
{
    if (!n || !memcmp(a, b, n)) return; /* a table of none has no address */
    const uint8_t *x = a, *y = b;
    size_t at = 0;
    while (x[at] == y[at]) at++;
    fail_msg("%s %u: byte %zu is %u in the sketch and %u in the package", what, i, at, x[at], y[at]);
}

/* Both name one constant; then neither does. */
static void name(pair *p, uint32_t *a, uint32_t *b)
{
    const bool is_none = *a == BT_PKG_NONE;
    assert_int_equal(is_none, *b == BT_PKG_NONE);
    if (!is_none) {
        assert_true(*a < bt_pkg_header_of(p->sketch)->consts.count);
        assert_true(*b < bt_pkg_header_of(p->package)->consts.count);
        if (p->is_one_to_one) assert_int_equal(*a, *b);
        if (p->of[*a] == BT_PKG_NONE) p->of[*a] = *b;
        assert_int_equal(p->of[*a], *b);
    }
    *a = *b = 0;
}

static void compare_header(pair *p)
{
    bt_pkg_header h[2] = {*bt_pkg_header_of(p->sketch), *bt_pkg_header_of(p->package)};
    uint32_t *const named[][2] = {
        {&h[0].embed, &h[1].embed},
        {&h[0].rope_cos, &h[1].rope_cos},
        {&h[0].rope_sin, &h[1].rope_sin},
        {&h[0].rope_cos_q15, &h[1].rope_cos_q15},
        {&h[0].rope_sin_q15, &h[1].rope_sin_q15},
        {&h[0].r1.h_base, &h[1].r1.h_base},
        {&h[0].r1.sign, &h[1].r1.sign},
        {&h[0].r2.h_base, &h[1].r2.h_base},
        {&h[0].r2.sign, &h[1].r2.sign},
        {&h[0].body_code, &h[1].body_code},
        {&h[0].body_plan, &h[1].body_plan},
        {&h[0].body_params, &h[1].body_params},
    };
    for (size_t i = 0; i < sizeof named / sizeof *named; i++) name(p, named[i][0], named[i][1]);
    for (int i = 0; i < 2; i++) {
        memset(h[i].digest, 0, sizeof h[i].digest);
        memset(h[i].model_id, 0, sizeof h[i].model_id);
        h[i].calib_tokens = 0;
        h[i].residual_scale = 0;
        if (p->is_one_to_one) continue;
        h[i].file_bytes = h[i].weights_bytes = 0;
        h[i].consts.count = 0;
        for (bt_pkg_table *t = &h[i].consts; t <= &h[i].sessions; t++) t->offset = 0;
    }
    same(&h[0], &h[1], sizeof h[0], "header", 0);
}

static void compare_tensor(pair *p, uint32_t i)
{
    bt_pkg_tensor t[2] = {bt_pkg_tensors(p->sketch)[i], bt_pkg_tensors(p->package)[i]};
    uint32_t *const named[][2] = {
        {&t[0].panels, &t[1].panels}, {&t[0].wscale, &t[1].wscale},
        {&t[0].oscale, &t[1].oscale}, {&t[0].bias, &t[1].bias},
        {&t[0].colsum, &t[1].colsum}, {&t[0].mult, &t[1].mult},
        {&t[0].shift, &t[1].shift},   {&t[0].bias_q, &t[1].bias_q},
        {&t[0].norm_q, &t[1].norm_q}, {&t[0].f16_panels, &t[1].f16_panels},
    };
    for (size_t k = 0; k < sizeof named / sizeof *named; k++) name(p, named[k][0], named[k][1]);
    if (t[0].group || t[0].palette_run) name(p, &t[0].groups, &t[1].groups);
    for (int k = 0; k < 2; k++) {
        t[k].norm_shift = 0;
        t[k].out_scale = t[k].weight_error = t[k].output_error = 0;
    }
    same(&t[0], &t[1], sizeof t[0], "tensor", i);
}

static void compare_site(pair *p, uint32_t i)
{
    bt_pkg_site s[2] = {bt_pkg_sites(p->sketch)[i], bt_pkg_sites(p->package)[i]};
    name(p, &s[0].hot, &s[1].hot);
    for (int k = 0; k < 2; k++) {
        s[k].scale = s[k].inv_scale = s[k].clip = s[k].max = s[k].rms = 0;
        s[k].input_error = s[k].outlier_columns = s[k].a16_scale = 0;
        s[k].zero = 0;
    }
    same(&s[0], &s[1], sizeof s[0], "site", i);
}

static void compare_inst(pair *p, uint32_t program, uint32_t n)
{
    bt_pkg_inst i[2] = {bt_pkg_code(p->sketch, program)[n], bt_pkg_code(p->package, program)[n]};
    if (i[0].params && i[0].op != BT_PKG_SESSION) {
        uint32_t a = (uint32_t)i[0].params, b = (uint32_t)i[1].params;
        name(p, &a, &b);
        i[0].params = i[1].params = 0;
    }
    same(&i[0], &i[1], sizeof i[0], "instruction", n);
}

static void compare_program(pair *p, uint32_t n)
{
    bt_pkg_program g[2] = {bt_pkg_programs(p->sketch)[n], bt_pkg_programs(p->package)[n]};
    name(p, &g[0].code, &g[1].code);
    name(p, &g[0].plan, &g[1].plan);
    same(&g[0], &g[1], sizeof g[0], "program", n);
    for (uint32_t i = 0; i < g[0].insts; i++) compare_inst(p, n, i);
    same(bt_pkg_plan(p->sketch, n), bt_pkg_plan(p->package, n), g[0].places * sizeof(bt_pkg_place), "plan",
         n);
}

/* Length and kind of what is named; where no two are equal all of it, the bytes too where the sketch has
 * them.
 */
static void compare_consts(const pair *p)
{
    const bt_pkg_header *h = bt_pkg_header_of(p->sketch);
    for (uint32_t i = 0; i < h->consts.count; i++) {
        if (p->of[i] == BT_PKG_NONE) continue; /* what nothing names */
        bt_pkg_const c[2] = {bt_pkg_consts(p->sketch)[i], bt_pkg_consts(p->package)[p->of[i]]};
        const bool has_bytes = bt_pkg_const_at(p->sketch, i) && i != h->sparse_heads;
        for (int k = 0; k < 2; k++) {
            if (!has_bytes || !p->is_one_to_one) memset(c[k].hash, 0, sizeof c[k].hash);
            if (p->is_one_to_one) continue;
            c[k].offset = c[k].refs = 0;
            if (i == h->body_params) c[k].bytes = 0;
        }
        same(&c[0], &c[1], sizeof c[0], "constant", i);
    }
}

static void compare(const bt_pkg *sketch, const bt_pkg *package)
{
    const bt_pkg_header *h = bt_pkg_header_of(sketch);
    const uint32_t consts = h->consts.count, others = bt_pkg_header_of(package)->consts.count;
    pair p = {sketch, package, malloc((consts + 1) * sizeof *p.of), consts == others};
    assert_non_null(p.of);
    assert_true(others <= consts);
    for (uint32_t i = 0; i < consts; i++) p.of[i] = BT_PKG_NONE;
    compare_header(&p);
    for (uint32_t i = 0; i < h->tensors.count; i++) compare_tensor(&p, i);
    for (uint32_t i = 0; i < h->sites.count; i++) compare_site(&p, i);
    for (uint32_t i = 0; i < h->programs.count; i++) compare_program(&p, i);
    compare_consts(&p);
    same(bt_pkg_rows(sketch), bt_pkg_rows(package), h->rows.count * sizeof(bt_pkg_row), "rows", 0);
    same(bt_pkg_fallbacks(sketch), bt_pkg_fallbacks(package), h->fallbacks.count * sizeof(bt_pkg_fallback),
         "fallbacks", 0);
    same(bt_pkg_sessions(sketch), bt_pkg_sessions(package), h->sessions.count * sizeof(bt_pkg_session),
         "sessions", 0);
    free(p.of);
}

void sketch_kit_check(const sketch_kit *k, const char *recipe, const char *profile, uint32_t npu_ops,
                      const char *policy)
{
    char path[256];
    bt_fault f = {""};
    bt_profile on;
    bt_pkg *p = NULL, *s = NULL;
    bt_compile_options o = {.shape_policy = policy,
                            .ctx_tokens = k->model->hp.ctx < 512 ? k->model->hp.ctx : 512,
                            .calib_ids = k->ids, .calib_len = k->n, .npu_ops = npu_ops};
    assert_int_equal(bt_recipe_parse(&o.recipe, recipe, NULL), BT_OK);
    assert_int_equal(bt_attention_parse(&o.attention, k->attention, NULL), BT_OK);
    assert_int_equal(bt_profile_load(&on, profile, NULL), BT_OK);
    o.profile = &on;
    snprintf(path, sizeof path, "%s/sketched.bpk", k->dir);
    if (bt_compile(path, k->model, &o, k->pool, &f) < 0) fail_msg("%s %s: %s", recipe, profile, f.text);
    if (bt_pkg_open_on(&p, path, k->pool, &f) < 0) fail_msg("%s %s: %s", recipe, profile, f.text);
    o.calib_len = 0;
    if (bt_compile_sketch(&s, k->model, &o, &f) < 0) fail_msg("%s %s: %s", recipe, profile, f.text);
    print_message("%s %s %s %s: %u constants, %u programs\n", k->model->name, recipe, profile,
                  npu_ops ? "all" : "linear", bt_pkg_header_of(p)->consts.count,
                  bt_pkg_header_of(p)->programs.count);
    compare(s, p);
    bt_pkg_close(s);
    bt_pkg_close(p);
    unlink(path);
}
