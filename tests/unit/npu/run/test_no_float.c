/* The NPU computes in integers: no object of a file named int_*, in whatever folder of common/, holds a float
 * instruction that adds, multiplies, compares, rounds or converts. Moves and bitwise logic of float registers
 * are allowed, compilers use them for integers too. Looks at the objects of the build that this test belongs
 * to, through objdump. */
#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

/* OBJDUMP=NAME in the Makefile: of a cross build, the one that reads its objects. */
#ifndef OBJDUMP
#define OBJDUMP "objdump"
#endif

static bool starts(const char *s, const char *with) { return !strncmp(s, with, strlen(with)); }
static bool ends(const char *s, const char *with)
{
    const size_t n = strlen(s), m = strlen(with);
    return n >= m && !strcmp(s + n - m, with);
}

#if defined(__aarch64__)
/* Is this mnemonic of AArch64 float arithmetic, comparison, rounding or conversion? Names of float
 * instructions begin with f; fmov moves, fence is no float's. Integers are converted by scvtf and ucvtf; b..
 * are of bf16. */
static bool is_float(const char *mnemonic)
{
    static const char *const bf16[] = {"bfdot", "bfmmla", "bfmlal", "bfcvt"};
    for (size_t i = 0; i < sizeof bf16 / sizeof *bf16; i++)
        if (starts(mnemonic, bf16[i])) return true;
    return starts(mnemonic, "scvtf") || starts(mnemonic, "ucvtf") ||
           (*mnemonic == 'f' && !starts(mnemonic, "fmov"));
}

static const char *const floats[] = {
    "fadd",   "fsub",   "fmul",    "fmulx", "fdiv",    "fsqrt", "fmadd",  "fnmsub", "fmla",   "fmls",
    "fmlal",  "fmax",   "fminnm",  "faddp", "fmaxnmv", "fabs",  "fneg",   "fabd",   "fcmp",   "fcmpe",
    "fccmp",  "fcmeq",  "fcmge",   "facgt", "fcsel",   "fcvt",  "fcvtn2", "fcvtns", "fcvtzs", "fcvtl",
    "frintn", "frecpe", "frsqrts", "fcmla", "fcadd",   "scvtf", "ucvtf",  "bfdot",  "bfmmla", "bfcvtn"};
static const char *const others[] = {
    "fmov", "mov",      "movi",  "dup", "ins", "add", "addp",  "sdot", "smmla", "smull2", "sadalp",
    "mla",  "sqrdmulh", "srshl", "bsl", "bit", "bfi", "bfxil", "bfc",  "zip1",  "trn2",   "tbl",
    "cmgt", "csel",     "b.ne",  "bl",  "ldr", "stp", "ld1r",  "ld2",  "umaxv", "sqxtn2"};
#else
/* Is this mnemonic of x86 float arithmetic, comparison, rounding or conversion? Names of float instructions
 * end in ps, pd, ss, sd, ph or sh; those that only move or do logic are listed, all others count. Integers of
 * vector registers start with p. */
static bool is_float(const char *mnemonic)
{
    static const char *const kinds[] = {"ps", "pd", "ss", "sd", "ph", "sh"};
    static const char *const harmless[] = {"mov",     "and",       "or",      "xor",     "test",
                                           "blend",   "shuf",      "unpck",   "perm",    "insert",
                                           "extract", "broadcast", "gather",  "scatter", "compress",
                                           "expand",  "maskmov",   "clflush", "rdssp"};
    const char *s = *mnemonic == 'v' ? mnemonic + 1 : mnemonic;
    if (strstr(s, "cvt")) return true;
    if (*s == 'f') return true;                            /* x87; vfmadd.., vfpclass.., vfixupimm.. */
    if (starts(s, "pf") || starts(s, "pi2f")) return true; /* 3DNow! */
    if (*s == 'p') return false;
    for (size_t i = 0; i < sizeof harmless / sizeof *harmless; i++)
        if (starts(s, harmless[i])) return false;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (ends(s, kinds[i])) return true;
    return false;
}

static const char *const floats[] = {
    "addps",          "vaddss",     "mulsd",     "vdivpd",    "sqrtss",    "vminps",      "maxsd",
    "rcpps",          "vrsqrtss",   "haddps",    "addsubpd",  "vdpps",     "roundss",     "vrndscaleps",
    "vreducepd",      "vrangess",   "vgetexpsd", "vscalefps", "vrcp14ps",  "vfmadd231ps", "vfnmsub132sd",
    "vfmaddsub213pd", "vfpclassps", "vaddph",    "vmulsh",    "vdpbf16ps", "cmpps",       "cmpltss",
    "vcmpeq_oqpd",    "vcmpps",     "comiss",    "vucomisd",  "cvtsi2ss",  "cvtsi2sdq",   "cvttss2si",
    "vcvtps2ph",      "vcvtdq2ps",  "vcvtqq2pd", "fld",       "fadd",      "fucomip",     "fistpll",
    "pfadd",          "pi2fd"};
static const char *const others[] = {
    "movss",        "vmovups",  "movaps",     "vmovsd",   "movmskps",    "vmovddup",   "xorps",
    "vandnpd",      "orps",     "andps",      "shufps",   "vunpcklps",   "vblendvps",  "vpermilps",
    "vbroadcastss", "insertps", "vextractps", "vtestps",  "vinsertf128", "vperm2f128", "vgatherdps",
    "paddd",        "vpmaxsd",  "vpabsd",     "vpdpbusd", "pminsd",      "vpmulhrsw",  "psadbw",
    "vpsignb",      "pmaddwd",  "push",       "imul",     "add",         "cmpsb",      "cmovs",
    "sete",         "rdsspq",   "mfence",     "movsbl",   "shrd",        "bswap"};
#endif

static void the_rule_tells_mnemonics_apart(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof floats / sizeof *floats; i++)
        if (!is_float(floats[i])) fail_msg("%s is a float instruction", floats[i]);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (is_float(others[i])) fail_msg("%s is no float instruction", others[i]);
}

/* The first word of an instruction that is no prefix; NULL: none. */
static const char *mnemonic_of(char *text)
{
    static const char *const prefixes[] = {"lock",    "rep", "repz",     "repnz",   "data16", "addr32",
                                           "notrack", "bnd", "cs",       "ds",      "es",     "fs",
                                           "gs",      "ss",  "xacquire", "xrelease"};
    char *save = NULL;
    for (char *word = strtok_r(text, " \t\n", &save); word; word = strtok_r(NULL, " \t\n", &save)) {
        bool prefix = starts(word, "rex") || *word == '{';
        for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++) prefix |= !strcmp(word, prefixes[i]);
        if (!prefix) return word;
    }
    return NULL;
}

/* Float instructions in an object; the first ones are shown if `show`. instructions: all that were seen. */
static size_t floats_in(const char *path, bool show, size_t *instructions)
{
    char command[4096], line[1024], function[512] = "";
    assert_true((size_t)snprintf(command, sizeof command, OBJDUMP " -d --no-show-raw-insn '%s'", path) <
                sizeof command);
    FILE *f = popen(command, "r");
    assert_non_null(f);
    size_t found = 0;
    *instructions = 0;
    while (fgets(line, sizeof line, f)) {
        char *colon = strstr(line, ":\t");
        if (!colon) {
            if (ends(line, ">:\n"))
                snprintf(function, sizeof function, "%.500s", strchr(line, '<') ? strchr(line, '<') : line);
            continue;
        }
        const char *mnemonic = mnemonic_of(colon + 2);
        if (!mnemonic) continue;
        ++*instructions;
        if (!is_float(mnemonic)) continue;
        if (show && found < 10) printf("%s: %s in %s", path, mnemonic, *function ? function : "?\n");
        found++;
    }
    assert_int_equal(pclose(f), 0);
    return found;
}

/* The build's own folder: this program lies in BUILD/tests/unit. */
static void build_folder(char ret[static 2048])
{
    const ssize_t n = readlink("/proc/self/exe", ret, 2047);
    assert_true(n > 0);
    ret[n] = 0;
    char *tail = strstr(ret, "/tests/unit/");
    assert_non_null(tail);
    *tail = 0;
}

static void skip_without_objdump(void)
{
#if !defined(__x86_64__) && !defined(__aarch64__)
    puts("skipped: the rule knows the instructions of x86-64 and AArch64 only");
    skip();
#endif
    if (!system(OBJDUMP " --version > /dev/null 2>&1")) return;
    puts("skipped: no objdump here; install binutils");
    skip();
}

/* The objects that must be among those found, whatever else is: where one is renamed or gone, this list
 * says so. */
static const char *const must_see[] = {
    "npu/run/int_exec.o",        "npu/run/int_linear.o",         "integer/int_matmul_ref.o",
    "integer/int_ops_ref.o",
#if defined(__aarch64__)
    "integer/int_matmul_neon.o", "integer/int_matmul_dotprod.o", "integer/int_matmul_i8mm.o",
    "integer/int_ops_neon.o",    "integer/int_ops_attn_neon.o",  "integer/int_rows_neon.o",
#elif defined(__x86_64__)
    "integer/int_matmul_avx2.o", "integer/int_matmul_avxvnni.o", "integer/int_matmul_avx512vnni.o",
    "integer/int_ops_avx2.o",    "integer/int_ops_attn_avx2.o",  "integer/int_rows_avx2.o",
#endif
};
enum { MUST_SEE = sizeof must_see / sizeof *must_see };
static bool is_seen[MUST_SEE];
static size_t objects, all_instructions, all_floats;

/* For nftw: counts the floats of an object int_*.o, wherever below common/ it lies. */
static int visit(const char *path, const struct stat *st, int type, struct FTW *at)
{
    (void)st;
    const char *name = path + at->base;
    if (type != FTW_F || !starts(name, "int_") || !ends(name, ".o")) return 0;
    size_t instructions;
    all_floats += floats_in(path, true, &instructions);
    all_instructions += instructions;
    objects++;
    for (size_t i = 0; i < MUST_SEE; i++) is_seen[i] |= ends(path, must_see[i]) && instructions > 10;
    return 0;
}

static void npu_files_hold_no_float_arithmetic(void **state)
{
    (void)state;
    skip_without_objdump();
    char folder[2048 + 8];
    build_folder(folder);
    strcat(folder, "/common");
    assert_int_equal(nftw(folder, visit, 16, FTW_PHYS), 0);
    printf("%zu objects, %zu instructions, %zu of floats\n", objects, all_instructions, all_floats);
    for (size_t i = 0; i < MUST_SEE; i++)
        if (!is_seen[i]) fail_msg("no object %s with instructions below %s", must_see[i], folder);
    assert_int_equal(all_floats, 0);
}

static void float_files_are_caught(void **state)
{
    (void)state;
    skip_without_objdump();
#if defined(__aarch64__)
    static const char *const files[] = {"float/edge_ref", "float/edge_neon", "attention/attn_neon",
                                        "float/rows_neon", "float/matmul_neon"};
#else
    static const char *const files[] = {"float/edge_ref", "float/edge_avx2", "float/edge_avx512",
                                        "float/rows_avx512", "float/matmul_avx2"};
#endif
    char folder[2048], path[2200];
    build_folder(folder);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        size_t instructions;
        snprintf(path, sizeof path, "%s/common/kernels/%s.o", folder, files[i]);
        assert_true(floats_in(path, false, &instructions) > 10);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_rule_tells_mnemonics_apart),
        cmocka_unit_test(npu_files_hold_no_float_arithmetic),
        cmocka_unit_test(float_files_are_caught),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
