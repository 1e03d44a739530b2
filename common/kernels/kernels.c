/* The dispatch table: which variants this build has, and which of them this machine can run. */
#include "kernels/kernels.h"
#include "kernels/attn_scratch.h"
#include "kernels/ref.h"

#include <string.h>

#define ROW(isa, usable)                                                                                     \
    {                                                                                                        \
#isa, usable, bt_matmul_##isa, bt_rmsnorm_##isa, bt_add_##isa, bt_silu_mul_##isa, bt_rope_##isa,     \
            bt_f32_to_f16_##isa, bt_f16_to_f32_##isa, bt_attn_##isa                                          \
    }

static int always(void) { return 1; }

#if defined(__x86_64__)
#include <cpuid.h>

#define BT_VARIANT(name) name##_avx2
#include "kernels/variant.h"
#undef BT_VARIANT
#define BT_VARIANT(name) name##_avx512
#include "kernels/variant.h"
#undef BT_VARIANT

/* __builtin_cpu_supports also asks whether the system saves the registers; clang 14 does not know "f16c"
 * there. */
static int has_avx2(void)
{
    unsigned a, b, c, d;
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
           __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
}

static int has_avx512(void)
{
    return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
}

const bt_kernels bt_kernels_table[] = {ROW(avx512, has_avx512), ROW(avx2, has_avx2), ROW(ref, always)};
const char *bt_kernels_names(void) { return "avx512, avx2, ref"; }
#else
const bt_kernels bt_kernels_table[] = {ROW(ref, always)};
const char *bt_kernels_names(void) { return "ref"; }
#endif
const size_t bt_kernels_table_len = sizeof bt_kernels_table / sizeof bt_kernels_table[0];

const bt_kernels *bt_kernels_select(const char *isa)
{
    const int any = !isa || !strcmp(isa, "auto");
    for (size_t i = 0; i < bt_kernels_table_len; i++) {
        const bt_kernels *k = &bt_kernels_table[i];
        if ((any || !strcmp(isa, k->isa)) && k->usable()) return k;
    }
    return NULL;
}

size_t bt_attn_scratch_bytes(size_t head_dim) { return attn_scratch_floats(head_dim) * sizeof(float); }
