/* The dispatch table: which variants this build has, and which of them this machine can run. */
#include "kernels/kernels.h"
#include "kernels/cores.h"
#include "kernels/int_ops_variants.h"
#include "kernels/int_variant.h"
#include "kernels/ref.h"

#include <pthread.h>
#include <string.h>

/* A row: its name, then the variant of the floats, of the integer product and of the integers around it. */
#define ROW(isa, usable, f, product, i) \
    { \
#isa, usable, bt_matmul_##f, bt_matmul8_##f, bt_matmul4_##f, bt_fp4_sums_##f, bt_rmsnorm_##f, \
            bt_add_##f, bt_silu_mul_##f, bt_rope_##f, bt_f32_to_f16_##f, bt_f16_to_f32_##f, bt_attn_##f, \
            bt_attn_span_##f, bt_attn_merge_##f, bt_attn_some_##f, bt_edge_quantise8_##f, \
            bt_edge_quantise16_##f, bt_edge_estimate8_##f, bt_edge_scale8_##f, bt_edge_scale16_##f, \
            bt_edge_scale64_##f, bt_edge_rotate_##f, bt_kv_store_##f, bt_int_prepare_##product, \
            bt_int_matmul_##product, bt_int_unpack4_##i, bt_int_palette_##i, bt_int_planes_##i, \
            bt_int_join_##i, bt_int_requant32_##i, bt_int_requant64_##i, bt_int_shadow_##i, \
            bt_int_rmsnorm32_##i, bt_int_headnorm16_ref, bt_int_rope16_##i, bt_int_softmax16_##i, \
            bt_int_silu_mul16_##i, bt_int_gelu16_ref, bt_int_add32_##i, bt_int_split8_##i, \
            bt_int_split16_##i, bt_int_rotate16_ref, bt_int_from_f16_##i, bt_int_from_q8_##i, \
            bt_int_attention16_##i, bt_int_topk_##f \
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

static int has_avx512vnni(void) { return has_avx512() && __builtin_cpu_supports("avx512vnni"); }

/* Not known to __builtin_cpu_supports everywhere. */
static int has_avxvnni(void)
{
    unsigned a, b, c, d;
    return has_avx2() && __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a & 1u << 4);
}

const bt_kernels bt_kernels_table[] = {
    ROW(avx512vnni, has_avx512vnni, avx512, avx512vnni, avx2),
    ROW(avx512, has_avx512, avx512, avx2, avx2),
    ROW(avxvnni, has_avxvnni, avx2, avxvnni, avx2),
    ROW(avx2, has_avx2, avx2, avx2, avx2),
    ROW(ref, always, ref, ref, ref),
};
const char *bt_kernels_names(void) { return "avx512vnni, avx512, avxvnni, avx2, ref"; }
#elif defined(__aarch64__)
#include <sys/auxv.h>

#define BT_VARIANT(name) name##_neon
#include "kernels/variant.h"

/* Choosing is not worth a form of its own here. */
#define bt_int_topk_neon bt_int_topk_ref

/* What the kernel says of the cores; NEON itself, with f16 conversions and fma, every AArch64 core has. */
enum { HWCAP_OF_DOTPROD = 1 << 20, HWCAP2_OF_I8MM = 1 << 13 };
static int has_dotprod(void) { return (getauxval(AT_HWCAP) & HWCAP_OF_DOTPROD) != 0; }
static int has_i8mm(void) { return has_dotprod() && (getauxval(AT_HWCAP2) & HWCAP2_OF_I8MM) != 0; }

const bt_kernels bt_kernels_table[] = {
    ROW(i8mm, has_i8mm, neon, i8mm, neon),
    ROW(dotprod, has_dotprod, neon, dotprod, neon),
    ROW(neon, always, neon, neon, neon),
    ROW(ref, always, ref, ref, ref),
};
const char *bt_kernels_names(void) { return "i8mm, dotprod, neon, ref"; }
#else
const bt_kernels bt_kernels_table[] = {ROW(ref, always, ref, ref, ref)};
const char *bt_kernels_names(void) { return "ref"; }
#endif
const size_t bt_kernels_table_len = sizeof bt_kernels_table / sizeof bt_kernels_table[0];

static const bt_kernels *best(void)
{
    const bt_kernels *k = bt_kernels_table;
    while (!k->usable()) k++;
    return k;
}

static void use_core(const bt_cores_row *row)
{
    const bt_kernels *k = best();
    const bool is_ref = k == &bt_kernels_table[bt_kernels_table_len - 1]; /* it chooses nothing */
    const bt_cores_trial trial = {k->matmul8, k->int_prepare, k->int_matmul};
    bt_cores_use(row, is_ref ? &(bt_cores_trial){0} : &trial);
}

static void use_core_here(void)
{
    const bt_cores_id id = bt_cores_id_here();
    use_core(bt_cores_of(&id));
}

static pthread_once_t core_once = PTHREAD_ONCE_INIT;

bool bt_kernels_use_core(const char *name)
{
    const bt_cores_row *row = bt_cores_named(name);
    pthread_once(&core_once, use_core_here);
    if (!strcmp(name, "auto")) use_core_here();
    else if (row) use_core(row);
    return row || !strcmp(name, "auto");
}

const bt_kernels *bt_kernels_select(const char *isa)
{
    pthread_once(&core_once, use_core_here);
    const int any = !isa || !strcmp(isa, "auto");
    for (size_t i = 0; i < bt_kernels_table_len; i++) {
        const bt_kernels *k = &bt_kernels_table[i];
        if ((any || !strcmp(isa, k->isa)) && k->usable()) return k;
    }
    return NULL;
}

const char *bt_kernels_warning(void)
{
    if (strcmp(bt_kernels_select(NULL)->isa, "ref") != 0) return NULL;
    return "no fast kernels for this machine: the plain ones (ref) compute, the same bits many times slower";
}
