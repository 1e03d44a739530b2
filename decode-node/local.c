/* See local.h. */
#include "decode-node/local.h"
#include "model/packed.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct dc_local {
    bt_pkg *pkg;                            /* npu */
    bt_packed *packed;                      /* host */
    bt_prefill *prefill;
    size_t ctx_tokens;
    char shape_policy[sizeof((bt_msg_engine *)0)->shape_policy];
};

const char *const dc_local_names[] = {"npu", "host", NULL};

static bt_err load_npu(dc_local *l, const bt_model *m, const dc_local_config *c, const bt_kernels *kernels, bt_fault *fault)
{
    const bt_obtain_how how = {.ctx_tokens = c->ctx_tokens, .pool = c->pool, .progress = c->progress, .ud = c->progress_ud};
    const bt_prefill_options options = {.ctx_tokens = c->ctx_tokens};
    const bt_err e = bt_obtain_open(&l->pkg, NULL, m, &c->want, &how, fault);
    return e < 0 ? e : bt_prefill_new_npu(&l->prefill, l->pkg, kernels, c->pool, &options, fault);
}

static bt_err load_host(dc_local *l, const bt_model *m, const dc_local_config *c, const bt_kernels *kernels, bt_fault *fault)
{
    const bt_packed_options packing = {.ctx_tokens = c->ctx_tokens};
    const bt_prefill_options options = {c->ctx_tokens, c->want.shape_policy};
    bt_shapes plan;
    bt_err e = bt_shapes_parse(&plan, c->want.shape_policy, c->ctx_tokens, fault);    /* before the long part */
    if (e < 0) return e;
    snprintf(l->shape_policy, sizeof l->shape_policy, "%s", c->want.shape_policy ? c->want.shape_policy : BT_SHAPES_DEFAULT);
    e = bt_packed_new(&l->packed, m, &packing, c->pool, fault);
    return e < 0 ? e : bt_prefill_new(&l->prefill, l->packed, kernels, c->pool, &options, fault);
}

bt_err dc_local_new(dc_local **ret, const bt_model *m, const dc_local_config *config, bt_fault *fault)
{
    const char *name = config->engine ? config->engine : dc_local_names[0];
    const bt_kernels *kernels = bt_kernels_select(config->isa);
    const bool is_npu = !strcmp(name, dc_local_names[0]);
    if (!is_npu && strcmp(name, dc_local_names[1]) != 0) return bt_fail(fault, BT_EARG, "prefill engine '%s': npu or host", name);
    if (!kernels) return bt_fail(fault, BT_EARG, "isa '%s' is unknown or not of this machine: %s", config->isa, bt_kernels_names());
    dc_local *l = calloc(1, sizeof *l);
    if (!l) return bt_fail(fault, BT_ENOMEM, "making a prefill engine");
    l->ctx_tokens = config->ctx_tokens;
    const bt_err e = (is_npu ? load_npu : load_host)(l, m, config, kernels, fault);
    if (e < 0) dc_local_free(l);
    else *ret = l;
    return e;
}

void dc_local_free(dc_local *l)
{
    if (!l) return;
    bt_prefill_free(l->prefill);
    bt_packed_free(l->packed);
    bt_pkg_close(l->pkg);
    free(l);
}

bt_err dc_local_run(dc_local *l, const bt_kv_view *kv, const int32_t *ids, size_t n, size_t pos0, const atomic_bool *cancel, float *logits,
                    bt_fault *fault)
{
    const bt_prefill_hooks hooks = {.cancel = cancel};
    return bt_prefill_run(l->prefill, kv, ids, n, pos0, &hooks, logits, BT_PREFILL_LAST, fault);
}

size_t dc_local_ctx_tokens(const dc_local *l) { return l->ctx_tokens; }

bt_msg_work dc_local_work(const dc_local *l) { return bt_node_setup_work(l->prefill); }

bt_node_about dc_local_describe(const dc_local *l)
{
    bt_node_about about = {0};
    snprintf(about.engine.name, sizeof about.engine.name, "%s", dc_local_names[l->packed != NULL]);
    if (l->pkg) bt_node_setup_about_package(&about, l->pkg);
    else bt_node_setup_about_floats(&about, l->shape_policy);
    return about;
}
