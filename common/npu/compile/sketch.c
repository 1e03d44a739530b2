/* The compiler's own steps, with a writer that keeps what has no values. */
#include "npu/compile/sketch.h"
#include "npu/compile/compile_private.h"

bt_err bt_compile_sketch(bt_pkg **ret, const bt_model *m, const bt_compile_options *options, bt_fault *fault)
{
    bt_compile_job *j = NULL;
    bt_compile_options quiet = *options;
    quiet.progress = NULL;
    quiet.donors = 0;
    bt_err e = bt_compile_begin(&j, m, &quiet, NULL, fault);
    if (e == BT_OK) {
        j->is_sketch = true;
        e = bt_pkg_writer_sketch(&j->w, fault);
    }
    if (e == BT_OK) e = bt_compile_write(j, fault);
    if (e == BT_OK) e = bt_pkg_writer_finish_sketch(ret, j->w, &j->header, fault);
    bt_compile_job_free(j);
    return e;
}
