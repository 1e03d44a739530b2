/* Linears of compiled packages, as the executor runs them, against the definitions, written here once more.
 * AC-i2: inputs with zero points, in TFLite's manner: whole numbers less their zero point, the bias as whole
 * numbers, one multiplier M0 / 2^31 and a shift. TFLite rounds twice; the rounding here is the package's,
 * half up. AC-c3: outputs of 8 bits on the profile that has them; what saturates is the FP32 dot product. */
#include "base/rng.h"
#include "base/wide.h"
#include "npu/compile/compile.h"
#include "npu/run/exec_private.h"
#include "tests/helpers/model/engine_kit.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

enum { ROWS = 5, CTX = 64, CALIB = 300 };

typedef struct world {
    engine_kit kit;
    bt_pkg *pkg;
    bt_exec *exec;
    uint8_t *arena;
    uint64_t seed;
    size_t linears, moved;     /* compared; those with a zero point that is not 0 */
    size_t outputs, saturated; /* of 8 bits */
} world;

static void begin(world *w, const char *arch, const char *recipe, uint32_t npu_ops, const char *profile)
{
    char path[] = "/tmp/baton-asym-XXXXXX";
    int32_t calib[CALIB];
    bt_fault f = {""};
    bt_profile p;
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    w->kit = engine_kit_model_ffn(arch, 192); /* groups of 32 divide it */
    engine_kit_ids(calib, CALIB, w->kit.model, 12);
    assert_int_equal(bt_profile_load(&p, profile, NULL), BT_OK);
    bt_compile_options o = {.shape_policy = "chunk:16", .npu_ops = npu_ops, .ctx_tokens = CTX,
                            .calib_ids = calib,         .calib_len = CALIB, .profile = &p};
    if (bt_recipe_parse(&o.recipe, recipe, &f) < 0 || bt_compile(path, w->kit.model, &o, NULL, &f) < 0 ||
        bt_pkg_open(&w->pkg, path, &f) < 0 ||
        bt_exec_new(&w->exec, w->pkg, bt_kernels_select(NULL), NULL, &f) < 0)
        fail_msg("%s: %s", recipe, f.text);
    unlink(path);
    assert_string_equal(bt_pkg_header_of(w->pkg)->recipe, recipe);
    w->arena = engine_kit_alloc(bt_pkg_header_of(w->pkg)->arena_bytes);
}

static void end(world *w)
{
    bt_exec_free(w->exec);
    bt_pkg_close(w->pkg);
    engine_kit_done(&w->kit);
    free(w->arena);
}

static const void *constant(const world *w, uint32_t index) { return bt_pkg_const_at(w->pkg, index); }

/* The value that the linear takes the input x for, a whole number of steps. */
static int64_t input_of(const world *w, const bt_pkg_site *s, int64_t x, size_t k)
{
    const uint8_t *hot = constant(w, s->hot);
    const bool is_whole = s->shadow == BT_SHADOW_VALUE || (hot && hot[k] && !s->pruned);
    const int64_t zero = s->zero + 128, u8 = x + zero, least = s->asymmetric ? 0 : 1; /* as the device has it
                                                                                       */
    return is_whole ? x : (u8 < least ? least : u8 > 255 ? 255 : u8) - zero;
}

static int64_t weight_of(const world *w, const bt_pkg_tensor *t, size_t n, size_t k)
{
    const bt_int_group *g = t->group ? constant(w, t->groups) : NULL;
    const int q = bt_int_packed_at(constant(w, t->panels), n, k, t->k, t->bits);
    if (!g) return q;
    g += n / 16 * (t->k / t->group) + k / t->group;
    return (int64_t)q * g->step[n % 16] + g->offset[n % 16];
}

static int64_t sum_of(const world *w, const bt_pkg_tensor *t, const int64_t *x, size_t n)
{
    const bt_pkg_site *s = &bt_pkg_sites(w->pkg)[t->site];
    int64_t sum = 0;
    for (size_t k = 0; k < t->k; k++) sum += input_of(w, s, x[k], k) * weight_of(w, t, n, k);
    return sum;
}

/* clamp(round((sum + bias) * M)), M = input's scale * weight's / output's. */
static int16_t requantised(const world *w, const bt_pkg_tensor *t, int64_t sum, size_t n)
{
    const float *oscale = constant(w, t->oscale), *bias = constant(w, t->bias);
    int e;
    int64_t m0 = llround(ldexp(frexp((double)oscale[n] / (double)t->out_scale, &e), 31));
    if (m0 == INT64_C(1) << 31) m0 /= 2, e++;
    if (bias) sum += llround((double)bias[n] / (double)oscale[n]);
    const unsigned shift = (unsigned)(31 - e);
    const bt_wide half = bt_wide_left(bt_wide_of(1), shift - 1);
    const int64_t y =
        bt_wide_clamp_signed(bt_wide_right_signed(bt_wide_add(bt_wide_mul_signed(sum, m0), half), shift));
    return (int16_t)(y > BT_INT_MAX16 ? BT_INT_MAX16 : y < -BT_INT_MAX16 ? -BT_INT_MAX16 : y);
}

static float scaled(const world *w, const bt_pkg_tensor *t, int64_t sum, size_t n)
{
    const float *oscale = constant(w, t->oscale), *bias = constant(w, t->bias);
    const float v = (float)sum * oscale[n];
    return bias ? v + bias[n] : v;
}

static bt_exec_job job_of(world *w, const bt_exec_io *io)
{
    return bt_exec_job_of(w->exec, &bt_pkg_rows(w->pkg)[0], BT_PKG_OUT_NONE, w->arena, io, w->exec->seq,
                          w->exec->overflow, w->exec->ids);
}

/* A whole number of steps around the range, now and then far beyond it. */
static int64_t any_steps(world *w)
{
    const double u = 2 * bt_rng_uniform(5, w->seed++) - 1;
    return (int64_t)(u * (w->seed % 11 ? 200 : 9000));
}

/* Rows of any steps where the instruction reads its input: x[ROWS, in_width]. The caller frees. */
static int64_t *fill(world *w, const bt_pkg_inst *i)
{
    const bt_pkg_site *s = &bt_pkg_sites(w->pkg)[i->site];
    int64_t *x = malloc(ROWS * i->in_width * sizeof *x);
    assert_non_null(x);
    for (size_t r = 0; r < ROWS; r++)
        for (size_t k = 0; k < i->in_width; k++) {
            uint8_t *at = w->arena + i->in0 + r * i->in_stride + 4 * k;
            int64_t *to = &x[r * i->in_width + k];
            *to = any_steps(w);
            const float v = (float)*to * 1.01f * s->scale;
            const int32_t q = (int32_t)*to;
            if (i->op == BT_PKG_INT_SPLIT) memcpy(at, &q, sizeof q);
            else memcpy(at, &v, sizeof v), *to = lrintf(v * s->inv_scale);
        }
    return x;
}

static void check_s16(world *w, const bt_pkg_inst *l, const int64_t *x)
{
    const bt_pkg_tensor *t = &bt_pkg_tensors(w->pkg)[l->tensor];
    for (size_t r = 0; r < ROWS; r++)
        for (size_t n = 0; n < t->n; n++) {
            int16_t y;
            memcpy(&y, w->arena + l->out + r * l->out_stride + 2 * n, sizeof y);
            assert_int_equal(y, requantised(w, t, sum_of(w, t, x + r * t->k, n), n));
        }
}

/* Outputs of 8 bits, which lie as s16 of a 64th: whole ones but where they saturate, and there within an ulp
 * of f16 of the linear in double precision. */
static void check_narrow(world *w, const bt_pkg_inst *l, const int64_t *x)
{
    const bt_pkg_tensor *t = &bt_pkg_tensors(w->pkg)[l->tensor];
    const float *oscale = constant(w, t->oscale), *bias = constant(w, t->bias);
    assert_int_equal(t->out_bits, 8);
    for (size_t r = 0; r < ROWS; r++)
        for (size_t n = 0; n < t->n; n++) {
            int16_t y;
            int e;
            memcpy(&y, w->arena + l->out + r * l->out_stride + 2 * n, sizeof y);
            const double want =
                (double)sum_of(w, t, x + r * t->k, n) * (double)oscale[n] + (bias ? (double)bias[n] : 0);
            const double steps = want / (64 * (double)t->out_scale);
            w->outputs++;
            if (fabs(steps) < 126.4) {
                assert_true(y % 64 == 0 && fabs(y / 64 - steps) <= 0.52); /* the bias is rounded too */
            } else if (fabs(steps) > 126.6 && fabs(steps) < 500) {
                frexp(want, &e);
                assert_true(fabs(y * (double)t->out_scale - want) <= ldexp(1, e - 11));
                w->saturated++;
            }
        }
}

static void check_f32(world *w, const bt_pkg_inst *l, const bt_pkg_inst *at, const int64_t *x)
{
    const bt_pkg_tensor *t = &bt_pkg_tensors(w->pkg)[l->tensor];
    for (size_t r = 0; r < ROWS; r++)
        for (size_t n = 0; n < t->n; n++) {
            float y;
            memcpy(&y, w->arena + at->out + r * at->out_stride + 4 * n, sizeof y);
            assert_true(y == scaled(w, t, sum_of(w, t, x + r * t->k, n), n));
        }
}

/* Every step that quantises, and the group of linears behind it. Outputs that are added to the residual
 * stream are added to zeros. Outputs that become SwiGLU within the linear are left out. */
static void check_linears(world *w)
{
    const bt_exec_seq seq = {.valid = ROWS};
    const bt_exec_io io = {.seq = &seq, .seqs = 1, .rows = ROWS};
    bt_exec_job j = job_of(w, &io);
    for (const bt_pkg_inst *i = j.inst, *l = i + 1, *last = i + j.program->insts; l < last; i++, l++) {
        if ((i->op != BT_PKG_QUANTISE && i->op != BT_PKG_INT_SPLIT) ||
            bt_exec_fuse(&j, l)->then == BT_FUSE_SILU_MUL)
            continue;
        const bool as_integers = l->op == BT_PKG_INT_LINEAR, adds = bt_exec_fuse(&j, l)->then == BT_FUSE_ADD;
        const bt_pkg_inst *then = l + l->group;
        int64_t *x = fill(w, i);
        if (i->op == BT_PKG_INT_SPLIT) bt_int_exec_run(&j, i);
        else bt_exec_border_quantise(&j, i);
        bt_companion_flush(&w->exec->companion);
        for (size_t r = 0; adds && r < ROWS; r++)
            memset(w->arena + then->out + r * then->out_stride, 0, then->out_width * sizeof(float));
        if (as_integers) bt_int_exec_run(&j, l);
        else (void)bt_exec_linear(&j, l);
        for (size_t g = 0; g < l->group; g++) {
            if (!as_integers) check_f32(w, &l[g], adds ? then : &l[g], x);
            else if (bt_pkg_tensors(w->pkg)[l[g].tensor].out_bits == 8) check_narrow(w, &l[g], x);
            else check_s16(w, &l[g], x);
            w->linears++;
            w->moved += bt_pkg_sites(w->pkg)[i->site].zero != 0;
        }
        free(x);
    }
}

static void check_zero_points(uint32_t npu_ops)
{
    static const char *const archs[] = {"llama", "qwen2", "qwen3"};
    static const char *const recipes[] = {"w8a8:asym", "w8a8:clip=p99,shadow=off,asym", "w4a8:asym,no-gptq",
                                          "w8a8:group=32,shadow=off,asym",
                                          "w4a8:shadow=channel,asym,no-gptq"};
    size_t linears = 0, moved = 0;
    for (size_t r = 0; r < sizeof recipes / sizeof *recipes; r++)
        for (size_t a = 0; a < 3; a++) {
            if (a == 2 && strstr(recipes[r], "group")) continue; /* its heads are not divided */
            world w = {.seed = 100 * r + a};
            begin(&w, archs[a], recipes[r], npu_ops, NULL);
            check_linears(&w);
            linears += w.linears;
            moved += w.moved;
            end(&w);
        }
    print_message("%zu linears, %zu with a zero point that is not 0\n", linears, moved);
    assert_true(linears >= 100 && moved >= 100);
}

static void linears_in_integers_equal_one_in_tflites_manner(void **state)
{
    (void)state;
    check_zero_points(BT_PKG_OPS_ALL);
}

static void linears_scaled_by_the_companion_equal_the_same_sums(void **state)
{
    (void)state;
    check_zero_points(BT_PKG_OPS_LINEAR);
}

static void saturated_outputs_of_the_profile_with_8_bits_are_the_fp32_dot_product(void **state)
{
    (void)state;
    static const char *const recipes[] = {"w8a8", "w8a8:shadow=off"};
    for (size_t r = 0; r < 2; r++) {
        world w = {.seed = r};
        begin(&w, r ? "qwen2" : "llama", recipes[r], BT_PKG_OPS_ALL, "hexagon-v75-int8");
        check_linears(&w);
        print_message("%zu of %zu outputs saturated\n", w.saturated, w.outputs);
        assert_int_equal(w.linears, 3 * 7); /* but the output matrix, for which nobody asked */
        assert_true(w.saturated > 100 && w.outputs > 2 * w.saturated);
        end(&w);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(linears_in_integers_equal_one_in_tflites_manner),
        cmocka_unit_test(linears_scaled_by_the_companion_equal_the_same_sums),
        cmocka_unit_test(saturated_outputs_of_the_profile_with_8_bits_are_the_fp32_dot_product),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
