/* A name, or the header of a file. */
#include "lab/commands/dims_of.h"
#include "device/profile_words.h"
#include "engine/costs.h"
#include "model/model.h"

#include <stdio.h>
#include <string.h>

/* A name without a slash was meant as a shape, or as a file that does not exist. */
static bt_err no_shape(const char *name, bt_fault *fault)
{
    const char *known[64], *near;
    char file[120];
    size_t n = 0;
    for (; n < 64 && bt_dims_at(n); n++) known[n] = bt_dims_at(n)->name;
    near = bt_profile_nearest(name, known, n);
    snprintf(file, sizeof file, "%.119s", fault->text);
    return bt_fail(fault, BT_EARG, "no shape '%.40s'%s%s%s and %s", name, near ? "; did you mean '" : ",",
                   near ? near : "", near ? "'?" : "", file);
}

bt_err tool_dims_of(bt_dims *ret, uint32_t *ret_ctx, const char *name, bt_fault *fault)
{
    const bt_dims *known = bt_dims_find(name);
    char path[4096];
    bt_model *m = NULL;
    if (ret_ctx) *ret_ctx = 0;
    if (known) {
        *ret = *known;
        return BT_OK;
    }
    bt_err e = bt_model_find(path, sizeof path, name, fault);
    if (e == BT_OK) e = bt_model_open_head(&m, path, fault);
    if (e != BT_OK) return strchr(name, '/') ? e : no_shape(name, fault);
    *ret = bt_costs_dims(m);
    if (ret_ctx) *ret_ctx = m->hp.ctx;
    bt_model_close(m);
    return BT_OK;
}
