#ifndef BT_NPU_OBTAIN_H
#define BT_NPU_OBTAIN_H
#include "base/opt.h"
#include "base/pool.h"
#include "base/progress.h"
#include "model/model.h"
#include "npu/compile/needs.h"
#include "npu/pkg/attention.h"
#include "npu/pkg/pkg.h"
#include "npu/pkg/shapes.h"
#include "npu/pkg/recipe.h"

/* From options to the package that an NPU runs: the file that was named, or the one in the cache, compiled first where
 * there is none yet. What prefill nodes, perplexity, compile, and the commands that start nodes have in common. */
typedef struct bt_obtain_want {
    const char *package;      /* a package file, run as it is; NULL: the cache */
    const char *quant;        /* npu/pkg/recipe.h; NULL: the default */
    const char *attention;    /* npu/pkg/attention.h; NULL: dense */
    const char *profile;      /* device/profile.h; NULL: no limits */
    const char *shape_policy; /* npu/pkg/shapes.h; NULL: the default */
    const char *calib;        /* a text file; NULL: the text that ships */
    int npu_ops;              /* BT_PKG_OPS_LINEAR, BT_PKG_OPS_ALL: the index in bt_obtain_ops */
    bool require_npu;         /* operators that fall back are an error */
} bt_obtain_want;

extern const char *const bt_obtain_ops[]; /* "linear", "all" */

extern const bt_opt_group bt_obtain_opts;         /* all of a bt_obtain_want */
extern const bt_opt_group bt_obtain_compile_opts; /* all but --package */

typedef struct bt_obtain_how {
    size_t ctx_tokens; /* longest sequence that is wanted; 0: the model's */
    const char *isa; /* of the compiler, which changes no byte; NULL: the best, however slow the kernels that run it */
    bt_pool *pool;
    bool only_looks; /* that it is there and fits: constants are not read, and it cannot be run (bt_pkg_look) */
    const bt_pkg *const *donor; /* npu/compile/compile.h, made by bt_obtain_open of the same want but for quant */
    size_t donors;
    bool allow_llm_int8;      /* a recipe whose numbers depend on how a prompt is cut */
    bt_progress_fn *progress; /* while compiling, or waiting for who does; NULL: silent */
    void *ud;
} bt_obtain_how;
enum { BT_OBTAIN_PATH_BYTES = 4096 };

/* The package that was named, or the cache's (base/cache.h), compiled where it is not there; compared with the model.
 * Several processes that want the same one at a time compile it once; the others say that they wait.
 * ret_path: where it lies, BT_OBTAIN_PATH_BYTES, or NULL. BT_EARG: a recipe, policy or profile that is none, that does
 * not fit the model, or differs from --package's. */
bt_err bt_obtain_open(bt_pkg **ret, char *ret_path, const bt_model *m, const bt_obtain_want *w,
                      const bt_obtain_how *how, bt_fault *fault);
/* Compiles to `path` whatever the cache holds. */
bt_err bt_obtain_compile(const char *path, const bt_model *m, const bt_obtain_want *w, const bt_obtain_how *how,
                         bt_fault *fault);
/* The sizes of what bt_obtain_open would compile and open, before it does (npu/compile/needs.h); for a package that is
 * named, the sizes in its header. m may be a header alone. */
bt_err bt_obtain_needs(bt_compile_needs *ret, const bt_model *m, const bt_obtain_want *w, size_t ctx_tokens,
                       size_t threads, bt_fault *fault);
/* The operators that fall back in what bt_obtain_open would compile, before it does (bt_compile_fallbacks_of). w names
 * no package. With require_npu bt_obtain_open refuses them then, and those that only the calibration finds behind it.
 */
bt_err bt_obtain_fallbacks(bt_pkg_fallback **ret, size_t *ret_count, const bt_model *m, const bt_obtain_want *w,
                           size_t ctx_tokens, bt_fault *fault);
/* The tokens of the text that calibrates, all of them, of which a compilation takes the first BT_COMPILE_MAX_CALIB; the
 * caller frees them. */
bt_err bt_obtain_calibration(int32_t **ret, size_t *ret_len, const bt_model *m, const bt_obtain_want *w,
                             bt_fault *fault);
/* bt_compile_key of what bt_obtain_open would compile. */
bt_err bt_obtain_key(char ret[33], const bt_model *m, const bt_obtain_want *w, const bt_obtain_how *how,
                     bt_fault *fault);
/* BT_EARG for a package whose numbers depend on how a prompt is cut, where how does not allow that. */
bt_err bt_obtain_check_recipe(const bt_pkg *p, const bt_obtain_how *how, bt_fault *fault);
#endif
