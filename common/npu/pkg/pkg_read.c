/* Package files, mapped read-only and checked before anyone reads them. No check covers a file that somebody
 * cuts or rewrites while it is mapped: the kernel would raise SIGBUS. Packages are replaced by rename, never
 * written to. */
#include "npu/pkg/pkg.h"
#include "base/file.h"
#include "kernels/kernels.h"
#include "model/model.h"
#include "npu/pkg/pkg_private.h"
#include "npu/pkg/recipe.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bt_err bt_pkg_from_bytes(bt_pkg **ret, const void *bytes, size_t len, const bt_file_state *state,
                         bool is_whole, bt_pool *pool, bt_fault *fault)
{
    if ((uintptr_t)bytes % BT_PKG_ALIGN)
        return bt_fail(fault, BT_EARG, "a package must lie at a multiple of %d bytes", BT_PKG_ALIGN);
    bt_pkg *p = calloc(1, sizeof *p);
    if (!p) return bt_fail(fault, BT_ENOMEM, "out of memory opening a package");
    p->bytes = bytes;
    p->len = len;
    if (state) p->state = *state;
    bt_err e = is_whole ? bt_pkg_check(p, pool, fault) : bt_pkg_check_tables(p, fault);
    if (e == BT_OK && is_whole) e = bt_fuse_list_new(&p->fuses, p, fault);
    if (e < 0) {
        bt_unpacked_free(p->unpacked);
        free(p);
        return e;
    }
    *ret = p;
    return BT_OK;
}

static bt_err open_file(bt_pkg **ret, const char *path, bool is_whole, bt_pool *pool, bt_fault *fault)
{
    bt_fault why = {""};
    const uint8_t *map;
    size_t len;
    bt_file_state state;
    bt_err e = bt_file_map(&map, &len, &state, path, fault);
    if (e < 0) return e;
    e = bt_pkg_from_bytes(ret, map, len, &state, is_whole, pool, &why);
    if (e == BT_OK) {
        (*ret)->mapped = true;
    } else {
        (void)bt_fail(fault, e, "'%.100s': %.140s", path, why.text);
        bt_file_unmap(map, len);
    }
    return e;
}

bt_err bt_pkg_open_on(bt_pkg **ret, const char *path, bt_pool *pool, bt_fault *fault)
{
    return open_file(ret, path, true, pool, fault);
}
bt_err bt_pkg_open(bt_pkg **ret, const char *path, bt_fault *fault)
{
    return open_file(ret, path, true, NULL, fault);
}
bt_err bt_pkg_look(bt_pkg **ret, const char *path, bt_fault *fault)
{
    return open_file(ret, path, false, NULL, fault);
}

void bt_pkg_close(bt_pkg *p)
{
    if (!p) return;
    if (p->mapped) bt_file_unmap(p->bytes, p->len);
    bt_fuse_list_free(p->fuses);
    bt_unpacked_free(p->unpacked);
    bt_pkg_kept_free(p->kept);
    free(p);
}

/* ---- sketches ---- */

void bt_pkg_kept_free(bt_pkg_kept *k)
{
    if (!k) return;
    for (size_t i = 0; i < k->constants; i++) free(k->constant[i]);
    for (size_t i = 0; i < BT_PKG_TABLES; i++) free(k->table[i]);
    free(k->constant);
    free(k);
}

bt_err bt_pkg_of_kept(bt_pkg **ret, bt_pkg_kept *k, bt_fault *fault)
{
    bt_pkg *p = calloc(1, sizeof *p);
    if (!p) {
        bt_pkg_kept_free(k);
        return bt_fail(fault, BT_ENOMEM, "out of memory for a sketch of a package");
    }
    p->kept = k;
    p->bytes = (const uint8_t *)&k->header;
    p->len = sizeof k->header;
    const bt_err e = bt_unpacked_new(&p->unpacked, p, fault);
    if (e < 0) bt_pkg_close(p);
    else *ret = p;
    return e;
}

/* ---- finding a row ---- */

static uint64_t gap(uint64_t lo, uint64_t hi, uint64_t v) { return v < lo ? lo - v : v > hi ? v - hi : 0; }

bt_err bt_pkg_find_row(const bt_pkg_row **ret, const bt_pkg *p, size_t batch, size_t seq, size_t end_tokens,
                       bt_fault *fault)
{
    const bt_pkg_row *row = bt_pkg_rows(p), *found = NULL, *near = row; /* a package has at least one row */
    uint64_t best[3] = {UINT64_MAX, UINT64_MAX, UINT64_MAX};
    for (uint32_t i = 0; i < bt_pkg_header_of(p)->rows.count; i++) {
        const bt_pkg_row *r = &row[i];
        /* How far the row is from what was asked for: in the batch, in the length, in the context. A row with
           a nearer batch is nearer, whatever the others are. */
        const uint64_t d[3] = {gap(r->batch, r->batch, batch), gap(r->seq_min, r->seq, seq),
                               end_tokens > r->ctx ? end_tokens - r->ctx : 0};
        if (!d[0] && !d[1] && !d[2] && (!found || r->ctx < found->ctx)) found = r;
        if (d[0] < best[0] || (d[0] == best[0] && (d[1] < best[1] || (d[1] == best[1] && d[2] < best[2])))) {
            memcpy(best, d, sizeof best);
            near = r;
        }
    }
    if (!found) {
        char range[16] = "";
        if (near->seq_min < near->seq) snprintf(range, sizeof range, "%u-", near->seq_min);
        return bt_fail(
            fault, BT_ELIMIT,
            "no specialization for batch %zu, seq %zu, ctx %zu; the nearest has batch %u, seq %s%u, ctx %u",
            batch, seq, end_tokens, near->batch, range, near->seq, near->ctx);
    }
    *ret = found;
    return BT_OK;
}

bt_err bt_pkg_find_decode_row(const bt_pkg_row **ret, const bt_pkg *p, size_t seqs, size_t end_tokens,
                              bt_fault *fault)
{
    const bt_pkg_row *found = NULL, *near = NULL;
    const bt_pkg_row *r = bt_pkg_rows(p);
    for (uint32_t i = 0; i < bt_pkg_header_of(p)->rows.count && !found; i++, r++) {
        if (r->seq != 1) continue;
        if (r->batch >= seqs && r->ctx >= end_tokens) found = r; /* rows ascend by batch, seq, ctx */
        /* the nearest row: the largest batch up to seqs, or the first beyond, with its longest context */
        if (!near || near->batch < seqs || near->batch == r->batch) near = r;
    }
    if (!near)
        return bt_fail(fault, BT_ELIMIT, "the package has no decode row (seq 1): a rows file makes them");
    if (!found)
        return bt_fail(fault, BT_ELIMIT,
                       "no decode row for %zu sequences, ctx %zu; the nearest has batch %u, seq 1, ctx %u",
                       seqs, end_tokens, near->batch, near->ctx);
    *ret = found;
    return BT_OK;
}

bt_int_range bt_pkg_site_range(const bt_pkg_site *s)
{
    return s->asymmetric ? bt_int_asymmetric(s->zero) : BT_INT_SYMMETRIC;
}

/* ---- the package's model ---- */

bt_err bt_pkg_check_model(const bt_pkg *p, const bt_model *m, bt_fault *fault)
{
    const bt_pkg_header *h = bt_pkg_header_of(p);
    const bt_hparams *hp = &m->hp;
    const struct {
        const char *name;
        uint32_t package, model;
    } field[] = {
        {"arch", h->arch, (uint32_t)hp->arch},
        {"layers", h->layers, hp->layers},
        {"dim", h->dim, hp->dim},
        {"ffn", h->ffn, hp->ffn},
        {"heads", h->heads, hp->heads},
        {"kv_heads", h->kv_heads, hp->kv_heads},
        {"head_dim", h->head_dim, hp->head_dim},
        {"vocab", h->vocab, hp->vocab},
        {"rope_dims", h->rope_dims, hp->rope_dims},
        {"rope_neox", !!(h->flags & BT_PKG_FLAG_NEOX), hp->rope_neox},
        {"qkv_bias", !!(h->flags & BT_PKG_FLAG_QKV_BIAS), hp->qkv_bias},
        {"qk_norm", !!(h->flags & BT_PKG_FLAG_QK_NORM), hp->qk_norm},
        {"experts", h->experts, hp->experts},
        {"experts_used", h->experts_used, hp->experts_used},
        {"tied_output", !!(h->flags & BT_PKG_FLAG_TIED), hp->tied_output},
    };
    for (size_t i = 0; i < sizeof field / sizeof *field; i++)
        if (field[i].package != field[i].model)
            return bt_fail(fault, BT_EARG,
                           "the package was not made from this model: %s is %u there and %u here",
                           field[i].name, field[i].package, field[i].model);
    if (h->attn_scale != bt_hparams_scores(hp) || h->embed_scale != bt_hparams_embed(hp) ||
        h->add_scale != bt_hparams_add(hp))
        return bt_fail(
            fault, BT_EARG,
            "the package was not made from this model: attn_scale, embed_scale or add_scale differs");
    if (h->rms_eps != hp->rms_eps || h->rope_base != hp->rope_base || h->rope_scale != hp->rope_scale)
        return bt_fail(fault, BT_EARG,
                       "the package was not made from this model: rms_eps, rope_base or rope_scale differs");
#define COMPARE(type, name) \
    if (h->name != hp->name) \
        return bt_fail(fault, BT_EARG, \
                       "the package was not made from this model: %s is %g there and %g here", #name, \
                       (double)h->name, (double)hp->name);
    BT_RULE_LIST(COMPARE)
#undef COMPARE
    if (memcmp(h->model_id, m->id, sizeof h->model_id) != 0)
        return bt_fail(fault, BT_EARG,
                       "the package was not made from this model: the weights are others (model id)");
    if (h->kernels_version != BT_KERNELS_NUMERIC_VERSION)
        return bt_fail(fault, BT_EARG,
                       "the package was made for numeric version %u of the kernels; these are version %u: "
                       "compile it again",
                       h->kernels_version, BT_KERNELS_NUMERIC_VERSION);
    return BT_OK;
}

bt_err bt_pkg_check_overlap(const bt_pkg *p, bt_fault *fault)
{
    const uint32_t sessions = bt_pkg_header_of(p)->sessions.count;
    bt_recipe recipe;
    const bt_err e = bt_recipe_parse(&recipe, bt_pkg_recipe(p), fault);
    if (e < 0) return e;
    if (recipe.llm_int8)
        return bt_fail(fault, BT_EARG,
                       "recipe llm-int8 runs in program order alone: take --schedule serial, or "
                       "another recipe");
    if (sessions > 1)
        return bt_fail(fault, BT_EARG,
                       "a package of %u sessions runs in program order alone: take --schedule serial, or a "
                       "profile with a larger window",
                       sessions);
    return BT_OK;
}
