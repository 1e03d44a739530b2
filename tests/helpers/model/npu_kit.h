#ifndef TESTS_NPU_KIT_H
#define TESTS_NPU_KIT_H
#include "model/model.h"
#include "kernels/kernels.h"
#include "engine/prefill.h"
#include "npu/compile/compile.h"
#include "npu/pkg/pkg.h"

/* Packages for the tests of the executor, made without the compiler: weights rounded to nearest, nothing
 * folded or rotated, clips at a share of what a few random ids reach in the float engine. Failures of the
 * kit itself abort the test program. */
typedef struct npu_kit_options {
    const char *recipe; /* NULL: "w8a8:no-rotate"; only modes, a16=, shadow= count */
    const char *policy; /* npu/pkg/shapes.h; NULL: the default */
    size_t ctx_tokens;
    float clip;                  /* share of the greatest magnitude; 0: 0.5 */
    bool fall_back;              /* `up` stays in f16 on the companion */
    const bt_pkg_layout *layout; /* NULL: none. Else the companion's attention is cut as if it were on the
                                    NPU; on_chip_bytes is 0 */
} npu_kit_options;
bt_pkg *npu_kit_package(const bt_model *m, const npu_kit_options *options);

/* One that the compiler makes of m, calibrated with random ids. policy NULL: the default; one that begins
 * with '[': what stands in a rows file. */
bt_pkg *npu_kit_compiled(const bt_model *m, const char *recipe, uint32_t npu_ops, const char *policy,
                         size_t ctx_tokens);

/* The bytes of one that the compiler makes so, calibrated likewise, in a 64-byte aligned block of exactly their size;
 * free() it. */
uint8_t *npu_kit_bytes(size_t *ret_len, const bt_model *m, const bt_compile_options *options);

/* The same in w8a8 with attention as npu/pkg/attention.h says it. */
bt_pkg *npu_kit_sparse(const bt_model *m, const char *attention, const char *policy, size_t ctx_tokens);

/* The prefill engine over a package of m, or (pkg NULL) the float executor over m; isa NULL: the best; pool
 * NULL: one thread; for KV of elem_bytes. */
bt_prefill *npu_kit_engine(const bt_model *m, const bt_pkg *pkg, size_t ctx_tokens, const char *isa, bt_pool *pool,
                           uint32_t elem_bytes);
/* A prompt ids[n] computed at once, then cut in two at several places: the same KV, the same logits at each
 * position that ends a part. */
void npu_kit_check_cuts(bt_prefill *p, const bt_model *m, const int32_t *ids, size_t n);
#endif
