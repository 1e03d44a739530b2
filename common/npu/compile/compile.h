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

/* The compiler makes a package file of a GGUF model. Its steps: choose rotations (hadamard), fold them and the norms
 * into the weights (fold), run the calibration text through the folded float model and measure every linear's input
 * (calib), choose scales (sites), round and pack the weights (rounding, gptq), choose the NPU's operators (offload,
 * clusters), lower the graph to a program for each row (lower), write the file (pkg).
 *
 * The same model, options and calibration give the same bytes on every machine, with any number of threads and any
 * isa. */
typedef struct bt_compile_options {
    bt_recipe recipe;
    bt_attention attention;   /* zeros: dense */
    const char *shape_policy; /* npu/pkg/shapes.h; NULL: the default. The file of a FILE policy is read, and its rows go
                                 into the package */
    const bt_shapes *shapes;  /* a parsed policy, instead of its text; NULL: none */
    const bt_profile *profile; /* device/profile.h; NULL: "host", which has no limits */
    uint32_t npu_ops;          /* BT_PKG_OPS_LINEAR or BT_PKG_OPS_ALL */
    size_t ctx_tokens;         /* at most the model's context; 0: the model's, but at most BT_COMPILE_USUAL_CTX */
    const int32_t *calib_ids;
    size_t calib_len; /* ids that are read, from the start in windows of BT_CALIB_WINDOW, at most BT_COMPILE_MAX_CALIB.
                         At least 16; enough that one value lies beyond each percentile; with GPTQ at least a group's
                         inputs; with awq more than BT_AWQ_TOKENS */
    const char *calib_text;
    size_t calib_text_len; /* the text of calib_ids, for bt_compile_key alone: a key is made of the text and needs no
                              tokenizer; NULL: a key is made of the ids */
    /* Packages made of the same model, profile, npu_ops and calibration, borrowed. Where each layer's recipe is that of
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

/* Settles what a recipe leaves to the profile and to the model. Zero points, where the recipe says nothing, are on if
 * the profile wants them. 8-bit weights, where the recipe says nothing of GPTQ, are rounded by it if the recipe has R1
 * and the model cannot (bt_fold_can_r1). BT_EARG: the recipe asks for zero points and the profile has none. A second
 * call changes nothing. bt_compile settles its own copy; this function is for whoever shows the recipe. */
bt_err bt_compile_resolve(bt_recipe *recipe, const bt_hparams *hp, const bt_profile *profile, bt_fault *fault);
/* Compiles m to the file `path`. BT_EARG: the options do not fit each other, the model or the profile; the fault names
 * the option and the limit. */
bt_err bt_compile(const char *path, const bt_model *m, const bt_compile_options *options, bt_pool *pool,
                  bt_fault *fault);
/* Makes a sketch, a package without weights, from the sizes in a model's header. Neither tensors nor a calibration are
 * read. Its tables and its code are those of the package that bt_compile makes with the same options, byte for byte,
 * except for
 *
 *   what the calibration measures   scales, units, errors, shares of sparse heads, which sites are pruned, and which
 *                                   operators have values too large for the NPU's floats
 *   constants that hold values      their hashes; and equal constants, which a package has once
 *   the header                      model_id (hash of a header alone), calib_tokens, residual_scale, digest
 *
 * A sketch can be read and priced (npu/price), not run. m may be a header alone (bt_model_open_head) or sizes
 * (bt_model_of_sizes). Errors of bt_compile, but for the calibration's. */
bt_err bt_compile_sketch(bt_pkg **ret, const bt_model *m, const bt_compile_options *options, bt_fault *fault);
/* Writes a name for the package that bt_compile would make: 32 digits of a hash over the model's id, every option that
 * changes a byte, the calibration ids (or their text and the model file's vocabulary) and the compiler's version.
 * Compiles nothing. */
bt_err bt_compile_key(char ret[33], const bt_model *m, const bt_compile_options *options, bt_fault *fault);
/* Raised when the same input gives another package under any option, so that a cache never returns a package of another
 * compiler. */
enum { BT_COMPILE_VERSION = 4 };
#endif
