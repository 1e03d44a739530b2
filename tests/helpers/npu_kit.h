#ifndef TESTS_NPU_KIT_H
#define TESTS_NPU_KIT_H
#include "model/model.h"
#include "npu/pkg.h"

/* Packages for the tests of the executor, made without the compiler: weights rounded to nearest, nothing
 * folded or rotated, clips at a share of what a few random ids reach in the float engine. Failures of the
 * kit itself abort the test program. */
typedef struct npu_kit_options {
    const char *recipe;                     /* NULL: "w8a8:no-rotate"; only modes, a16=, shadow= count */
    const char *policy;                     /* npu/plan.h; NULL: the default */
    size_t ctx_tokens;
    float clip;                             /* share of the greatest magnitude; 0: 0.5 */
    bool fall_back;                         /* `up` stays in f16 on the companion */
} npu_kit_options;
bt_pkg *npu_kit_package(const bt_model *m, const npu_kit_options *options);
#endif
