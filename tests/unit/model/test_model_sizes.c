/* A model of sizes beside a file of each architecture. */
#include "model/arch.h"
#include "model/gguf.h"
#include "model/model.h"
#include "tests/helpers/model/tiny_model.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

/* bt_layer_tensors is pointers alone. */
static void a_model_of_sizes_has_the_tensors_of_a_file(void **state)
{
    (void)state;
    enum { TENSORS = sizeof(bt_layer_tensors) / sizeof(bt_gguf_tensor *) };
    for (int a = 0; a < BT_ARCHS; a++) {
        tiny_gguf_spec s = tiny_gguf_default();
        s.arch = bt_arch_of((bt_arch)a)->name;
        tiny_model one = tiny_model_open(&s);
        assert_non_null(one.m);
        bt_model *sizes = NULL;
        assert_int_equal(bt_model_of_sizes(&sizes, &one.m->hp, "sizes", NULL), BT_OK);
        for (uint32_t l = 0; l < one.m->hp.layers; l++) {
            const bt_gguf_tensor *file[TENSORS], *made[TENSORS];
            memcpy(file, &one.m->layer[l], sizeof file);
            memcpy(made, &sizes->layer[l], sizeof made);
            for (size_t i = 0; i < TENSORS; i++) {
                if (!file[i] != !made[i]) fail_msg("%s: tensor %zu of a layer", s.arch, i);
                if (!file[i]) continue;
                if (file[i]->dim[0] != made[i]->dim[0] || file[i]->rows != made[i]->rows)
                    fail_msg("%s: tensor %zu of a layer is %llu x %zu, not %llu x %zu", s.arch, i,
                             (unsigned long long)made[i]->dim[0], made[i]->rows,
                             (unsigned long long)file[i]->dim[0], file[i]->rows);
            }
        }
        bt_model_close(sizes);
        tiny_model_close(&one);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_model_of_sizes_has_the_tensors_of_a_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
