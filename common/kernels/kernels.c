/* The dispatch table: which variants this build has, and which of them this machine can run. */
#include "kernels/kernels.h"
#include "kernels/cores.h"
#include "kernels/variant.h"

#include <pthread.h>
#include <string.h>

/* ROW makes a row: its name, whether this machine can run it, and which variant it takes for each kind but
 * PLAIN. */
#define OF_WIDTH(width, bytes, integer, lanes)   width
#define OF_BYTES(width, bytes, integer, lanes)   bytes
#define OF_INTEGER(width, bytes, integer, lanes) integer
#define OF_LANES(width, bytes, integer, lanes)   lanes
#define OF_PLAIN(width, bytes, integer, lanes)   ref
#define JOINED(function, variant)                function##_##variant
#define JOIN(function, variant)                  JOINED(function, variant)
#define ENTRY(name, function, kind, variants)    .name = JOIN(function, OF_##kind variants),
#define ROW(name, can, ...) \
    { \
        .isa = #name, .usable = can, BT_KERNELS(ENTRY, (__VA_ARGS__)) \
    }

static int always(void) { return 1; }

#if defined(__x86_64__)
#include <cpuid.h>

/* __builtin_cpu_supports also checks that the system saves the registers. clang 14 has no "f16c" for it. */
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

/* Not every compiler's __builtin_cpu_supports knows "avxvnni". */
static int has_avxvnni(void)
{
    unsigned a, b, c, d;
    return has_avx2() && __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a & 1u << 4);
}

const bt_kernels bt_kernels_table[] = {
    ROW(avx512vnni, has_avx512vnni, avx512, avx512vnni, avx2, avx512),
    ROW(avx512, has_avx512, avx512, avx2, avx2, avx512),
    ROW(avxvnni, has_avxvnni, avx2, avxvnni, avx2, avx2),
    ROW(avx2, has_avx2, avx2, avx2, avx2, avx2),
    ROW(ref, always, ref, ref, ref, ref),
};
#elif defined(__aarch64__)
#include <sys/auxv.h>

/* The bits by which Linux names what the cores have. Every AArch64 core has NEON with f16 conversions and
 * fma. */
enum { HWCAP_OF_DOTPROD = 1 << 20, HWCAP2_OF_I8MM = 1 << 13 };
static int has_dotprod(void) { return (getauxval(AT_HWCAP) & HWCAP_OF_DOTPROD) != 0; }
static int has_i8mm(void) { return has_dotprod() && (getauxval(AT_HWCAP2) & HWCAP2_OF_I8MM) != 0; }

const bt_kernels bt_kernels_table[] = {
    ROW(i8mm, has_i8mm, neon, i8mm, neon, ref),
    ROW(dotprod, has_dotprod, neon, dotprod, neon, ref),
    ROW(neon, always, neon, neon, neon, ref),
    ROW(ref, always, ref, ref, ref, ref),
};
#else
const bt_kernels bt_kernels_table[] = {ROW(ref, always, ref, ref, ref, ref)};
#endif
const size_t bt_kernels_table_len = sizeof bt_kernels_table / sizeof bt_kernels_table[0];

#define NAME(name, function, kind, with) {#name, offsetof(bt_kernels, name)},
const bt_kernels_name bt_kernels_list[] = {BT_KERNELS(NAME, )};
const size_t bt_kernels_list_len = sizeof bt_kernels_list / sizeof bt_kernels_list[0];

static const bt_kernels *best(void)
{
    const bt_kernels *k = bt_kernels_table;
    while (!k->usable()) k++;
    return k;
}

/* The last row, which reads no core's choice. */
static bool is_ref(const bt_kernels *k) { return k == &bt_kernels_table[bt_kernels_table_len - 1]; }

static void use_core(const bt_cores_row *row)
{
    const bt_kernels *k = best();
    const bt_cores_trial none = {0}, trial = {k->matmul8, k->int_prepare, k->int_matmul};
    bt_cores_use(row, is_ref(k) ? &none : &trial);
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
    if (!isa) isa = "auto";
    const bool any = !strcmp(isa, "auto");
    for (size_t i = 0; i < bt_kernels_table_len; i++) {
        const bt_kernels *k = &bt_kernels_table[i];
        if ((!any && strcmp(isa, k->isa) != 0) || !k->usable()) continue;
        if (!is_ref(k)) pthread_once(&core_once, use_core_here);
        return k;
    }
    return NULL;
}

const char *bt_kernels_warning(void)
{
    if (!is_ref(best())) return NULL;
    return "no fast kernels for this machine: the plain ones (ref) compute, the same bits many times slower";
}
