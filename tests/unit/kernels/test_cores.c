/* The table of cores: which row a processor gets, and that no row changes a bit. */
#include "kernels/cores.h"
#include "variants.h"

/* Processors by what their cpuid says. Families and models: as the Linux kernel (6.10 and later) tells AMD's
 * generations of Zen and names Intel's processors. */
static const struct {
    const char *processor;
    bt_cores_id id;
    const char *row;
} processors[] = {
    {"EPYC 7003 (Milan)", {"AuthenticAMD", 25, 1, false, false}, "zen3"},
    {"Ryzen 5000 (Vermeer)", {"AuthenticAMD", 25, 0x21, false, false}, "zen3"},
    {"Ryzen 6000 (Rembrandt)", {"AuthenticAMD", 25, 0x44, false, false}, "zen3"},
    {"EPYC 9004 (Genoa)", {"AuthenticAMD", 25, 0x11, true, false}, "zen4"},
    {"Ryzen 7000 (Raphael)", {"AuthenticAMD", 25, 0x61, true, false}, "zen4"},
    {"EPYC 9004 (Bergamo)", {"AuthenticAMD", 25, 0xa0, true, false}, "zen4"},
    {"EPYC 9005 (Turin)", {"AuthenticAMD", 26, 2, true, true}, "zen5"},
    {"Ryzen 9000 (Granite Ridge)", {"AuthenticAMD", 26, 0x44, true, true}, "zen5"},
    {"EPYC 7002 (Rome, Zen 2)", {"AuthenticAMD", 23, 0x31, false, false}, "other"},
    {"a Zen 6", {"AuthenticAMD", 26, 0x50, true, true}, "other"},
    {"Xeon (Cascade Lake)", {"GenuineIntel", 6, 0x55, true, false}, "intel-server"},
    {"Xeon (Ice Lake)", {"GenuineIntel", 6, 0x6a, true, false}, "intel-server"},
    {"Xeon (Sapphire Rapids)", {"GenuineIntel", 6, 0x8f, true, true}, "intel-server"},
    {"Xeon (Granite Rapids)", {"GenuineIntel", 6, 0xad, true, true}, "intel-server"},
    {"Core (Alder Lake)", {"GenuineIntel", 6, 0x97, false, true}, "intel-client"},
    {"Core (Raptor Lake)", {"GenuineIntel", 6, 0xb7, false, true}, "intel-client"},
    {"Core (Lunar Lake)", {"GenuineIntel", 6, 0xbd, false, true}, "intel-client"},
    {"Core (Skylake)", {"GenuineIntel", 6, 0x5e, false, false}, "other"},
    {"a later Intel with AVX-512", {"GenuineIntel", 19, 1, true, true}, "intel-server"},
    {"a later Intel without", {"GenuineIntel", 18, 1, false, true}, "intel-client"},
    {"another maker's, the numbers of a Zen 3", {"HygonGenuine", 25, 1, false, false}, "other"},
    {"no cpuid", {"", 0, 0, false, false}, "other"},
};

static void each_processor_gets_its_row(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(processors); i++) {
        const bt_cores_row *row = bt_cores_of(&processors[i].id);
        if (strcmp(row->name, processors[i].row))
            fail_msg("%s: %s, not %s", processors[i].processor, row->name, processors[i].row);
    }
}

static void rows_are_found_by_name_and_other_is_last(void **state)
{
    (void)state;
    for (size_t i = 0; i < bt_cores_table_len; i++)
        assert_ptr_equal(bt_cores_named(bt_cores_table[i].name), &bt_cores_table[i]),
            assert_non_null(strstr(BT_CORES_NAMES, bt_cores_table[i].name));
    assert_string_equal(bt_cores_table[bt_cores_table_len - 1].name, "other");
    assert_null(bt_cores_named("zen2"));
    assert_false(bt_kernels_use_core("zen2"));
}

/* The choices that kernels read are the row's, or a trial's among those that there are. */
static void choices_are_the_row_s_or_a_trial_s(void **state)
{
    (void)state;
    for (size_t i = 0; i < bt_cores_table_len; i++) {
        const bt_cores_row *row = &bt_cores_table[i];
        char why[BT_CORES_WHY_BYTES];
        assert_true(bt_kernels_use_core(row->name));
        assert_ptr_equal(bt_cores_used(), row);
        bt_cores_why(why);
        print_message("%s\n", why);
        assert_int_equal(strncmp(why, row->name, strlen(row->name)), 0);
        const uint32_t ahead = bt_cores_now.ahead, copy = bt_cores_now.copy_rows;
        if (row->choice.ahead) assert_int_equal(ahead, row->choice.ahead);
        else assert_true(ahead == 512 || ahead == 1024 || ahead == 2048);
        if (row->choice.copy_rows) assert_int_equal(copy, row->choice.copy_rows);
        else assert_true(copy == 4 || copy == 8 || copy == 16 || copy == 32);
#if defined(__x86_64__)
        const bool is_trial = bt_kernels_select(NULL) != ref_kernels() && !row->choice.ahead;
#else
        const bool is_trial = false;
#endif
        assert_int_equal(strstr(why, "trial") != NULL, is_trial);
    }
    assert_true(bt_kernels_use_core("auto"));
    const bt_cores_id here = bt_cores_id_here();
    assert_ptr_equal(bt_cores_used(), bt_cores_of(&here));
}

/* ---- bits ---- */
enum { T = 9, N = 70, K = 1500 }; /* K: 1,024 bytes ahead and 2,048 both end inside a panel */

static void f16_of(const bt_kernels *v, float *y, size_t t, const float *x, const uint16_t *w)
{
    v->matmul(y, N, x, K, w, NULL, t, N, K, 0, bt_matmul_panels(N));
}

static void integers_of(const bt_kernels *v, int32_t *acc, size_t t, const int8_t *x, const int8_t *w,
                        const int32_t *colsum)
{
    const size_t k4 = (K + 3) / 4, panels = (N + 15) / 16;
    bt_int_inputs in = {.memory = bytes_new(bt_int_inputs_bytes(t, K, false), 64), .rows = t, .k4 = k4};
    void *scratch = bytes_new(BT_INT_MATMUL_SCRATCH_BYTES, 64);
    bool is_left[T];
    v->int_prepare(&in, 0, t, &(bt_int_rows){.hi = x, .ld = 4 * k4, .k = K}, is_left);
    v->int_matmul(acc, NULL, panels * 16, &in, 0, t, w, colsum, 0, panels, scratch);
    free(in.memory), free(scratch);
}

static void no_choice_changes_a_bit(void **state)
{
    const bt_kernels *v = variant_of(state);
    static const bt_cores_choice choices[] = {{1024, 8}, {512, 4}, {2048, 32}, {64, 2}, {4096, UINT32_MAX}};
    const size_t panels = (N + 15) / 16, k4 = (K + 3) / 4;
    float *x = floats_rnd((size_t)T * K, 20), *w = floats_rnd((size_t)N * K, 4);
    uint16_t *packed = bytes_new(bt_matmul_packed_elems(N, K) * sizeof *packed, 64);
    memset(packed, 0, bt_matmul_packed_elems(N, K) * sizeof *packed);
    bt_matmul_pack(packed, w, 0, N, K);
    int8_t *xi = bytes_new(T * 4 * k4, 64), *wi = bytes_new(panels * 64 * k4, 64);
    int32_t *colsum = bytes_new(panels * 16 * sizeof *colsum, 64);
    for (size_t i = 0; i < T * 4 * k4; i++) xi[i] = (int8_t)((int)rnd_below(255) - 127);
    memset(wi, 0, panels * 64 * k4), memset(colsum, 0, panels * 16 * sizeof *colsum);
    for (size_t n = 0; n < N; n++)
        for (size_t k = 0; k < K; k++) {
            const int8_t q = (int8_t)((int)rnd_below(255) - 127);
            wi[(n / 16 * k4 + k / 4) * 64 + n % 16 * 4 + k % 4] = q;
            colsum[n] += q;
        }
    float *want = floats_new((size_t)T * N), *got = floats_new((size_t)T * N);
    int32_t *want_i = bytes_new(T * panels * 16 * sizeof *want_i, 64),
            *got_i = bytes_new(T * panels * 16 * sizeof *got_i, 64);
    const bt_cores_choice before = bt_cores_now;
    for (size_t t = 1; t <= T; t++) {
        f16_of(ref_kernels(), want, t, x, packed);
        integers_of(ref_kernels(), want_i, t, xi, wi, colsum);
        for (size_t c = 0; c < COUNT(choices); c++) {
            bt_cores_now = choices[c];
            f16_of(v, got, t, x, packed);
            assert_memory_equal(want, got, t * N * sizeof *got);
            integers_of(v, got_i, t, xi, wi, colsum);
            for (size_t row = 0; row < t; row++)
                assert_memory_equal(want_i + row * panels * 16, got_i + row * panels * 16, N * sizeof *got_i);
        }
    }
    bt_cores_now = before;
    free(x), free(w), free(packed), free(xi), free(wi), free(colsum), free(want), free(got), free(want_i),
        free(got_i);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(no_choice_changes_a_bit)};
    const struct CMUnitTest once[] = {
        cmocka_unit_test(each_processor_gets_its_row),
        cmocka_unit_test(rows_are_found_by_name_and_other_is_last),
        cmocka_unit_test(choices_are_the_row_s_or_a_trial_s),
    };
    return RUN_VARIANTS(tests, once);
}
