/* Opens or borrows a package, and compares it with what its engine is asked for. */
#include "engine/package.h"
#include "engine/limits.h"
#include "engine/overlap.h"
#include "kernels/int_kernels.h"
#include "npu/run/int_linear.h"

#include <stdio.h>

static bt_err check(const bt_package *p, const bt_model *m, const bt_obtain_how *how, bt_fault *fault)
{
    const bt_pkg_header *h = bt_pkg_header_of(p->pkg);
    bt_err e = p->own ? BT_OK : bt_pkg_check_model(p->pkg, m, fault); /* bt_obtain_open has checked a package
                                                                         that it opened */
    if (e == BT_OK && !p->own) e = bt_obtain_check_recipe(p->pkg, how, fault);
    if (e == BT_OK && how->ctx_tokens > h->ctx_tokens)
        e = bt_fail(fault, BT_EARG,
                    "a context of %zu tokens, but the package has %u: ask for less (--ctx-size), or compile "
                    "the package for more",
                    how->ctx_tokens, h->ctx_tokens);
    return e;
}

bt_err bt_package_open(bt_package *ret, const bt_model *m, const bt_obtain_want *want, const bt_pkg *pkg,
                       const bt_obtain_how *how, bt_fault *fault)
{
    char digest[BT_HASH_HEX_CHARS];
    bt_err e = pkg ? BT_OK : bt_obtain_open(&ret->own, NULL, m, want, how, fault);
    if (e < 0) return e;
    ret->pkg = pkg ? pkg : ret->own;
    if ((e = check(ret, m, how, fault)) < 0) return e;
    snprintf(ret->name, sizeof ret->name, "package=%s",
             bt_hash_hex(digest, bt_pkg_header_of(ret->pkg)->digest));
    return BT_OK;
}

void bt_package_done(bt_package *p)
{
    bt_pkg_close(p->own);
    p->own = NULL;
}

bt_err bt_package_needs(bt_needs *n, const bt_model *m, const bt_needs_want *want, bt_fault *fault)
{
    const bt_hparams *h = &m->hp;
    bt_compile_needs p;
    const bt_err e = bt_obtain_needs(&p, m, want->want, n->ctx_tokens, want->threads, fault);
    if (e < 0) return e;
    const size_t k[] = {h->dim, (size_t)h->heads * h->head_dim, h->ffn};
    uint64_t prepared = 0;
    for (size_t i = 0; i < sizeof k / sizeof *k; i++)
        for (int wide = 0; wide < 2; wide++) {
            const uint64_t bytes = bt_int_linear_prepared_bytes(p.max_seq, k[i], wide);
            if (bytes > prepared) prepared = bytes;
        }
    const uint64_t executors = want->schedule != BT_SCHEDULE_SERIAL ? BT_OVERLAP_WINDOW + 1 : 1;
    const size_t linear = bt_int_linear_scratch_bytes(h->ffn);
    uint64_t sparse; /* attention has one executor of them */
    const uint64_t keys =
        bt_exec_sparse_bytes(&sparse, &p.attention, h->heads, h->kv_heads, h->head_dim, n->ctx_tokens);
    const uint64_t routed = (uint64_t)p.max_seq * h->experts_used * 2 * sizeof(uint32_t);
    n->part[BT_NEEDS_PACKAGE] = p.package_bytes;
    n->part[BT_NEEDS_WORK] +=
        executors * (p.arena_bytes + routed) + prepared + keys + (uint64_t)p.max_seq * bt_int_panels(h->ffn) +
        bt_limits_companion_bytes(h, 1, n->ctx_tokens, sparse > linear ? sparse : linear, want->threads);
    return BT_OK;
}

bt_report_work bt_package_work(const bt_exec_stats *s, uint64_t rows)
{
    return (bt_report_work){.rows = rows,
                            .batch_padding_rows = s->batch_padding_rows,
                            .npu_macs = s->npu_macs,
                            .companion_macs = s->companion_macs,
                            .npu_int16_macs = s->npu_int16_macs,
                            .npu_float_macs = s->npu_float_macs,
                            .tile_padding_macs = s->tile_padding_macs,
                            .shadow_entries = s->shadow_entries,
                            .expert_rows = s->expert_rows,
                            .expert_padding_rows = s->expert_padding_rows,
                            .masked_macs = s->masked_macs,
                            .sparse_rows = s->sparse_rows,
                            .dense_rows = s->dense_rows,
                            .session_switches = s->session_switches,
                            .session_switch_ns = s->session_switch_ns};
}
