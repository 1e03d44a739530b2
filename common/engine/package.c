/* Opens or borrows a package, and compares it with what its engine is asked for. */
#include "engine/package.h"

#include <stdio.h>

static bt_err check(const bt_package *p, const bt_model *m, const bt_obtain_how *how, bt_fault *fault)
{
    const bt_pkg_header *h = bt_pkg_header_of(p->pkg);
    bt_err e = p->own ? BT_OK : bt_pkg_check_model(p->pkg, m, fault); /* of its own, obtain has seen to it */
    if (e == BT_OK && !p->own) e = bt_obtain_check_recipe(p->pkg, how, fault);
    if (e == BT_OK && how->ctx_tokens > h->ctx_tokens)
        e = bt_fail(
            fault, BT_EARG,
            "context of %zu tokens, a package for %u: ask for less (--ctx-size), or compile it for more",
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
                            .masked_macs = s->masked_macs,
                            .sparse_rows = s->sparse_rows,
                            .dense_rows = s->dense_rows,
                            .session_switches = s->session_switches,
                            .session_switch_ns = s->session_switch_ns};
}
