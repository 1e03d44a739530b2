#ifndef BT_ENGINE_PACKAGE_H
#define BT_ENGINE_PACKAGE_H
#include "base/hash.h"
#include "device/report.h"
#include "engine/needs.h"
#include "npu/compile/obtain.h"
#include "npu/run/exec.h"

/* The package of an engine npu, for prompts or decoding: its own, or one that is already open. */
typedef struct bt_package {
    const bt_pkg *pkg;
    bt_pkg *own;                                      /* NULL: the caller's is run */
    char name[sizeof "package=" + BT_HASH_HEX_CHARS]; /* "package=DIGEST", as in the exactness class */
} bt_package;

/* pkg: this open package, whatever want says, borrowed; NULL: as bt_obtain_open. bt_package_done also after a failure;
 * zeros are fine. BT_EARG: a package of another model, of less context than how.ctx_tokens, or of a recipe whose
 * numbers depend on how a prompt is cut, where how does not allow that; errors of bt_obtain_open. */
bt_err bt_package_open(bt_package *ret, const bt_model *m, const bt_obtain_want *want, const bt_pkg *pkg,
                       const bt_obtain_how *how, bt_fault *fault);
void bt_package_done(bt_package *p);
/* The package, and what an executor of it takes: the needs of both tables. */
bt_err bt_package_needs(bt_needs *n, const bt_model *m, const bt_needs_want *want, bt_fault *fault);
/* The work of a package's executors, as a report. rows: computed rows, padding too. */
bt_report_work bt_package_work(const bt_exec_stats *s, uint64_t rows);
#endif
