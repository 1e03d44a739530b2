/* The steps of a compilation in their order, and a sketch: the same steps without weights. */
#include "npu/compile/compile_private.h"

bt_err bt_compile_begin(bt_compile_job **ret, const bt_model *m, const bt_compile_options *options,
                        bt_pool *pool, bt_fault *fault)
{
    const bt_err e = bt_compile_job_new(ret, m, options, pool, fault);
    if (e < 0) return e;
    bt_compile_job *j = *ret;
    const bt_err made = bt_fold_new(&j->fold, m, bt_recipe_rotations(&j->o->recipe), j->kernels, pool, fault);
    return made == BT_OK ? bt_compile_offload(j, fault) : made;
}

bt_err bt_compile_write(bt_compile_job *j, bt_fault *fault)
{
    bt_err e = BT_OK;
    j->is_given = !j->is_sketch && bt_compile_donors_find(j);
    if (!j->is_given) e = bt_compile_sites(j, fault);
    if (e == BT_OK && !j->is_given && !j->is_sketch) e = bt_compile_offload_measured(j, fault);
    if (e == BT_OK) e = bt_compile_header(j, fault);
    if (e == BT_OK) e = bt_compile_sparse(j, fault);
    if (e == BT_OK) e = bt_compile_tensors(j, fault);
    return e == BT_OK ? bt_compile_programs(j, fault) : e;
}

bt_err bt_compile_sketch(bt_pkg **ret, const bt_model *m, const bt_compile_options *options, bt_fault *fault)
{
    bt_compile_job *j = NULL;
    bt_compile_options quiet = *options;
    quiet.progress = NULL;
    quiet.donors = 0;
    quiet.isa = "ref"; /* a sketch computes nothing, so no kernels are tried out for it */
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
