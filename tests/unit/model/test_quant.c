/* Tensor types against vectors made by the format's own Python reader: equal bits. */
#include "model/quant.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

typedef struct quant_vector {
    uint32_t type;
    const char *name;
    const uint8_t *bytes;
    size_t len, elems;
    uint32_t first[4];
    uint64_t fnv;
} quant_vector;

#include "quant_vectors.h"

static uint64_t fnv_of_f32(const float *y, size_t n)
{
    uint64_t h = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < n; i++) {
        uint32_t u;
        memcpy(&u, &y[i], sizeof u);
        for (int b = 0; b < 4; b++) h = (h ^ (u >> 8 * b & 255)) * UINT64_C(0x100000001b3);
    }
    return h;
}

static void every_type_gives_the_bits_of_the_formats_own_reader(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof quant_vectors / sizeof *quant_vectors; i++) {
        const quant_vector *v = &quant_vectors[i];
        const bt_quant_info *q = bt_quant_find(v->type);
        assert_non_null(q);
        assert_string_equal(q->name, v->name);
        assert_string_equal(bt_quant_type_name(v->type), v->name);
        assert_int_equal(v->len, v->elems / q->block_elems * q->block_bytes);
        uint8_t *x = malloc(v->len); /* exact sizes: asan sees one byte too many */
        float *y = malloc(v->elems * sizeof *y);
        assert_non_null(x);
        assert_non_null(y);
        memcpy(x, v->bytes, v->len);
        bt_quant_to_f32(y, x, q, v->elems);
        print_message("%s\n", v->name);
        for (int k = 0; k < 4; k++) {
            uint32_t u;
            memcpy(&u, &y[k], sizeof u);
            assert_int_equal(u, v->first[k]);
        }
        assert_true(fnv_of_f32(y, v->elems) == v->fnv);
        free(y);
        free(x);
    }
}

static void the_table_holds_the_fifteen_types_and_no_other(void **state)
{
    (void)state;
    size_t found = 0;
    for (uint32_t t = 0; t < 256; t++) found += bt_quant_find(t) != NULL;
    assert_int_equal(found, 15);
    assert_int_equal(sizeof quant_vectors / sizeof *quant_vectors, 15);
}

static void a_type_it_does_not_read_still_has_a_name(void **state)
{
    (void)state;
    assert_null(bt_quant_find(9));
    assert_string_equal(bt_quant_type_name(9), "Q8_1");
    assert_string_equal(bt_quant_type_name(23), "IQ4_XS");
    assert_string_equal(bt_quant_type_name(77), "type 77");
    assert_string_equal(bt_quant_type_name(UINT32_MAX), "type 4294967295");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_type_gives_the_bits_of_the_formats_own_reader),
        cmocka_unit_test(the_table_holds_the_fifteen_types_and_no_other),
        cmocka_unit_test(a_type_it_does_not_read_still_has_a_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
