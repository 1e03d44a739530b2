#ifndef BT_NPU_COMPILE_H
#define BT_NPU_COMPILE_H
#include "base/err.h"
#include "base/pool.h"
#include "base/progress.h"
#include "device/profile.h"
#include "model/model.h"
#include "npu/pkg/attention.h"
#include "npu/pkg/pkg.h"
#include "npu/pkg/recipe.h"
#include "npu/pkg/shapes.h"

/* The compiler: GGUF model -> package file. Steps, each in its own file: choose rotations (hadamard), fold them and the
 * norms into the weights (fold), run the calibration text through the folded float model and watch every linear's input
 * (calib), choose scales (sites), round and pack the weights (rounding, gptq), choose the operators that the NPU takes
 * (offload, clusters), lower the graph to a program for each row (lower), write (pkg).
 *
 * The same model, options and calibration give the same bytes on every machine, with any number of threads and under
 * any isa. */
typedef struct bt_compile_options {
    bt_recipe recipe;
    bt_attention attention;    /* zero: dense */
    const char *shape_policy;  /* npu/pkg/shapes.h; NULL: the default. FILE policies are read here, and their rows go
                                  into the package */
    const bt_shapes *shapes;   /* instead of a policy's text, as it was parsed; NULL: none */
    const bt_profile *profile; /* device/profile.h; NULL: "host", no limits */
    uint32_t npu_ops;          /* BT_PKG_OPS_LINEAR or BT_PKG_OPS_ALL */
    size_t ctx_tokens;         /* at most the model's; 0: that, but no more than BT_COMPILE_USUAL_CTX */
    const int32_t *calib_ids;
    size_t calib_len; /* windows of BT_CALIB_WINDOW from the start, at most BT_COMPILE_MAX_CALIB; at least 16 ids, as
                         many as one value beyond each percentile takes, and with GPTQ those of a group */
    const char *calib_text;
    size_t calib_text_len; /* what calib_ids were read from. bt_compile_key alone looks at it: there it stands for the
                              ids, so that a key needs no tokenizer; NULL: the ids count */
    /* Packages made of the same model, profile, npu_ops and calibration, borrowed: where each layer's recipe is that of
       one of them, its tensors are copied and nothing is measured. Changes no byte. */
    const bt_pkg *const *donor;
    size_t donors;
    const char *isa;          /* NULL: the best; changes no byte */
    bt_progress_fn *progress; /* NULL: silent */
    void *ud;
} bt_compile_options;
enum { BT_COMPILE_MAX_CALIB = 2048, BT_COMPILE_USUAL_CTX = 32768 };

static inline size_t bt_compile_usual_ctx(const bt_model *m)
{
    return m->hp.ctx < BT_COMPILE_USUAL_CTX ? m->hp.ctx : BT_COMPILE_USUAL_CTX;
}

/* Settles what a recipe leaves to the profile: inputs get zero points where the profile wants them and the recipe says
 * nothing, else none. BT_EARG: the recipe asks for zero points and the profile has none. A second call changes nothing.
 * bt_compile settles its recipe itself; this function is for whoever shows the recipe. */
bt_err bt_compile_resolve(bt_recipe *recipe, const bt_profile *profile, bt_fault *fault);
/* BT_EARG: options that do not fit each other, the model or the profile, with what and which limit. */
bt_err bt_compile(const char *path, const bt_model *m, const bt_compile_options *options, bt_pool *pool,
                  bt_fault *fault);
/* A package without weights, from the sizes in a model's header: nothing of a tensor is read, and no calibration. Its
 * tables and its code are those of the package that bt_compile makes of the same options, byte for byte, but for
 *
 *   what the calibration measures   scales, units, errors, shares of sparse heads, which sites are pruned, and which
 *                                   operators have values too large for the NPU's floats
 *   constants that hold values      their hashes; and constants that happen to be equal, which a package has once
 *   the header                      model_id (of a header alone), calib_tokens, residual_scale, digest
 *
 * It can be read and priced (npu/price), not run. m may be a header alone (bt_model_open_head) or sizes
 * (bt_model_of_sizes). Errors of bt_compile; the calibration is not looked at. */
bt_err bt_compile_sketch(bt_pkg **ret, const bt_model *m, const bt_compile_options *options, bt_fault *fault);
/* A name for what bt_compile would make: 32 digits of a hash over the model's id, every option that changes a byte, the
 * calibration ids (or their text and the model file's vocabulary) and the compiler's version. Needs no compilation. */
bt_err bt_compile_key(char ret[33], const bt_model *m, const bt_compile_options *options, bt_fault *fault);
/* Raised when the same input would give another package, under any option: a cache must not give out a package of
 * another compiler. */
enum { BT_COMPILE_VERSION = 4 };
#endif
