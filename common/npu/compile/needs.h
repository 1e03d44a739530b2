#ifndef BT_NPU_NEEDS_H
#define BT_NPU_NEEDS_H
#include "npu/compile/compile.h"

/* The memory that compiling takes and the size of the package, from the sizes in a model's header: no tensor is read.
 * The package's size is its sketch's (npu/compile/compile.h). The file differs only by equal constants, which it has
 * once, and by operators that the calibration moves. */
typedef struct bt_compile_needs {
    uint64_t package_bytes; /* of the package file */
    uint64_t arena_bytes;   /* of a process that runs the package */
    uint32_t max_seq;       /* the most rows of a program */
    bt_attention attention; /* how its prompts attend */
    uint64_t memory_bytes;  /* of the compiler at its peak, without pages of files, which the system can take back */
} bt_compile_needs;
/* m may be a header alone (bt_model_open_head). threads: of the compiler's pool. The calibration's length alone is
 * read; 0 ids: the longest. Errors of bt_compile. */
bt_err bt_compile_needs_of(bt_compile_needs *ret, const bt_model *m, const bt_compile_options *options, size_t threads,
                           bt_fault *fault);
/* The operators that fall back to the companion, as far as header and profile say. The fallbacks that the calibration
 * adds (values too large for float16) are missing. The caller frees *ret; NULL: there are none. m may be a header
 * alone. */
bt_err bt_compile_fallbacks_of(bt_pkg_fallback **ret, size_t *ret_count, const bt_model *m,
                               const bt_compile_options *options, bt_fault *fault);
#endif
