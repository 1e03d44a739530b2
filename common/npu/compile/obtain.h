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

/* From options to the package that an NPU runs: the named file, or the package in the cache, compiled first where the
 * cache has none. Used by prefill nodes, perplexity, compile, and the commands that start nodes. */
typedef struct bt_obtain_want {
    const char *package;      /* a package file; NULL: the cache */
    const char *quant;        /* npu/pkg/recipe.h; NULL: the default */
    const char *attention;    /* npu/pkg/attention.h; NULL: dense */
    const char *profile;      /* device/profile.h; NULL: no limits */
    const char *shape_policy; /* npu/pkg/shapes.h; NULL: the default */
    const char *calib;        /* a text file; NULL: the text that comes with the program */
    int npu_ops;              /* BT_PKG_OPS_LINEAR or BT_PKG_OPS_ALL, an index in bt_obtain_ops */
    bool require_npu;         /* an operator that falls back is an error */
} bt_obtain_want;

extern const char *const bt_obtain_ops[]; /* "linear", "all" */

extern const bt_opt_group bt_obtain_opts;         /* the options of all fields of bt_obtain_want */
extern const bt_opt_group bt_obtain_compile_opts; /* the same without --package */

typedef struct bt_obtain_how {
    size_t ctx_tokens; /* tokens of the longest sequence; 0: the model's context */
    const char *isa;   /* kernels of the compiler, which change no byte; NULL: the fastest, whatever runs the package */
    bt_pool *pool;
    bool only_looks;            /* only checks that the package exists and fits: it cannot be run (bt_pkg_look) */
    const bt_pkg *const *donor; /* as in npu/compile/compile.h; from bt_obtain_open with the same want but for quant */
    size_t donors;
    bool allow_llm_int8;      /* allows a recipe whose numbers depend on how a prompt is cut */
    bt_progress_fn *progress; /* called while compiling, or while another process compiles; NULL: silent */
    void *ud;
} bt_obtain_how;
enum { BT_OBTAIN_PATH_BYTES = 4096 };

/* Opens the named package, or the cache's (base/cache.h), compiled where the cache has none, and compares it with the
 * model. When several processes want one package at a time, one compiles and the others wait, with progress. ret_path:
 * where the package lies, BT_OBTAIN_PATH_BYTES, or NULL. BT_EARG: a recipe, policy or profile that does not exist, does
 * not fit the model, or differs from that of --package. */
bt_err bt_obtain_open(bt_pkg **ret, char *ret_path, const bt_model *m, const bt_obtain_want *w,
                      const bt_obtain_how *how, bt_fault *fault);
/* Compiles to the file `path`, whatever the cache holds. */
bt_err bt_obtain_compile(const char *path, const bt_model *m, const bt_obtain_want *w, const bt_obtain_how *how,
                         bt_fault *fault);
/* The sizes of the package that bt_obtain_open would compile and open, before it does (npu/compile/needs.h); for a
 * named package, the sizes in its header. m may be a header alone. */
bt_err bt_obtain_needs(bt_compile_needs *ret, const bt_model *m, const bt_obtain_want *w, size_t ctx_tokens,
                       size_t threads, bt_fault *fault);
/* The operators that fall back in the package that bt_obtain_open would compile, before it does
 * (bt_compile_fallbacks_of). w names no package. With require_npu bt_obtain_open refuses them before it compiles, and
 * those that only the calibration finds afterwards. */
bt_err bt_obtain_fallbacks(bt_pkg_fallback **ret, size_t *ret_count, const bt_model *m, const bt_obtain_want *w,
                           size_t ctx_tokens, bt_fault *fault);
/* All tokens of the calibration text; a compilation takes the first BT_COMPILE_MAX_CALIB. The caller frees them. */
bt_err bt_obtain_calibration(int32_t **ret, size_t *ret_len, const bt_model *m, const bt_obtain_want *w,
                             bt_fault *fault);
/* bt_compile_key of the package that bt_obtain_open would compile. */
bt_err bt_obtain_key(char ret[33], const bt_model *m, const bt_obtain_want *w, const bt_obtain_how *how,
                     bt_fault *fault);
/* BT_EARG: the package's numbers depend on how a prompt is cut, and how does not allow that. */
bt_err bt_obtain_check_recipe(const bt_pkg *p, const bt_obtain_how *how, bt_fault *fault);
#endif
