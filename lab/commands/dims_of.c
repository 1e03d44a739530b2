/* A name, a config.json, or the header of a GGUF file. */
#include "lab/commands/dims_of.h"
#include "device/dims.h"
#include "device/profile_words.h"
#include "engine/costs.h"
#include "model/model.h"

#include <stdio.h>
#include <string.h>

enum { LINE = 100, SHAPES = 256 };

static void list_shapes(const char *const *name, size_t n)
{
    size_t column = (size_t)fprintf(stderr, "known shapes:");
    for (size_t i = 0; i < n; i++) {
        const size_t len = strlen(name[i]) + 1 + (i + 1 < n);
        if (column + len > LINE) column = (size_t)fprintf(stderr, "\n ") - 1;
        fprintf(stderr, " %s%s", name[i], i + 1 < n ? "," : "\n");
        column += len;
    }
}

/* A name without a slash was meant as a shape, or as a file that does not exist. */
static bt_err no_shape(const char *name, bt_fault *fault)
{
    const char *known[SHAPES], *near;
    char file[120];
    size_t n = 0;
    for (; n < SHAPES && bt_dims_at(n); n++) known[n] = bt_dims_at(n)->name;
    near = bt_profile_nearest(name, known, n);
    snprintf(file, sizeof file, "%.119s", fault->text);
    list_shapes(known, n);
    return bt_fail(fault, BT_EARG, "no shape '%.40s'%s%s%s and %s", name, near ? "; did you mean '" : ",",
                   near ? near : "", near ? "'?" : "", file);
}

bt_err tool_dims_of(bt_dims *ret, uint32_t *ret_ctx, const char *name, bt_fault *fault)
{
    const bt_dims *known = bt_dims_find(name);
    char path[4096];
    uint32_t ctx = 0;
    bt_model *m = NULL;
    bt_err e = BT_OK;
    if (known) {
        *ret = *known;
    } else if (bt_dims_config_is(name)) {
        e = bt_dims_config_load(ret, &ctx, name, fault);
    } else {
        e = bt_model_find(path, sizeof path, name, fault);
        if (e == BT_OK) e = bt_model_open_head(&m, path, fault);
        if (e != BT_OK) return strchr(name, '/') ? e : no_shape(name, fault);
        *ret = bt_costs_dims(m);
        ctx = m->hp.ctx;
        bt_model_close(m);
    }
    if (e == BT_OK && ret_ctx) *ret_ctx = ctx;
    return e;
}

bool tool_dims_is_gguf(const char *name) { return !bt_dims_find(name) && !bt_dims_config_is(name); }
