/* An opened package's header and tables, the limits of tables, the digest, and the counts of references. */
#include "npu/pkg/pkg_private.h"
#include "base/hash.h"
#include "model/model.h"
#include "npu/pkg/recipe.h"

#include <string.h>

const bt_pkg_table_rule bt_pkg_table_rules[BT_PKG_TABLES] = {
    [BT_PKG_TABLE_CONSTS] = {"constants", sizeof(bt_pkg_const), BT_PKG_MAX_CONSTS},
    [BT_PKG_TABLE_TENSORS] = {"tensors", sizeof(bt_pkg_tensor),
                              BT_MODEL_MAX_LAYERS *BT_PKG_LAYER_TENSORS + 2},
    [BT_PKG_TABLE_SITES] = {"sites", sizeof(bt_pkg_site), BT_MODEL_MAX_LAYERS *BT_PKG_LAYER_SITES + 1},
    [BT_PKG_TABLE_ROWS] = {"rows", sizeof(bt_pkg_row), BT_PKG_MAX_ROWS},
    [BT_PKG_TABLE_PROGRAMS] = {"programs", sizeof(bt_pkg_program), BT_PKG_MAX_PROGRAMS},
    [BT_PKG_TABLE_FALLBACKS] = {"fallbacks", sizeof(bt_pkg_fallback), BT_PKG_MAX_FALLBACKS},
    [BT_PKG_TABLE_SESSIONS] = {"sessions", sizeof(bt_pkg_session), BT_PKG_MAX_SESSIONS},
};

const bt_pkg_header *bt_pkg_header_of(const bt_pkg *p) { return (const void *)p->bytes; }
static const void *table(const bt_pkg *p, bt_pkg_table_id id)
{
    if (p->kept) return p->kept->table[id];
    return p->bytes + (&bt_pkg_header_of(p)->consts + id)->offset;
}
const bt_pkg_const *bt_pkg_consts(const bt_pkg *p) { return table(p, BT_PKG_TABLE_CONSTS); }
const bt_pkg_tensor *bt_pkg_tensors(const bt_pkg *p) { return table(p, BT_PKG_TABLE_TENSORS); }
const bt_pkg_site *bt_pkg_sites(const bt_pkg *p) { return table(p, BT_PKG_TABLE_SITES); }
const bt_pkg_row *bt_pkg_rows(const bt_pkg *p) { return table(p, BT_PKG_TABLE_ROWS); }
const bt_pkg_program *bt_pkg_programs(const bt_pkg *p) { return table(p, BT_PKG_TABLE_PROGRAMS); }
const bt_pkg_fallback *bt_pkg_fallbacks(const bt_pkg *p) { return table(p, BT_PKG_TABLE_FALLBACKS); }
const bt_pkg_session *bt_pkg_sessions(const bt_pkg *p) { return table(p, BT_PKG_TABLE_SESSIONS); }

const char *bt_pkg_recipe(const bt_pkg *p)
{
    const bt_pkg_header *h = bt_pkg_header_of(p);
    return h->recipe_text ? bt_pkg_const_at(p, h->recipe_text) : h->recipe;
}

const void *bt_pkg_const_at(const bt_pkg *p, uint32_t index)
{
    if (index == BT_PKG_NONE) return NULL;
    return p->kept ? p->kept->constant[index] : p->bytes + bt_pkg_consts(p)[index].offset;
}

const bt_pkg_expert *bt_pkg_expert_of(const bt_pkg *p, uint32_t layer, uint32_t kind, uint32_t expert)
{
    const bt_pkg_header *h = bt_pkg_header_of(p);
    if (!h->experts || (kind != BT_SITE_UP && kind != BT_SITE_DOWN)) return NULL;
    const bt_pkg_expert *all = bt_pkg_const_at(p, h->expert_sites);
    return &all[((size_t)layer * 2 + (kind == BT_SITE_DOWN)) * h->experts + expert];
}

void bt_pkg_digest(uint8_t ret[16], const bt_pkg_header *h, const void *const table[BT_PKG_TABLES])
{
    bt_hash_stream s;
    bt_pkg_header copy = *h;
    memset(copy.digest, 0, sizeof copy.digest);
    bt_hash_begin(&s);
    bt_hash_add(&s, &copy, sizeof copy);
    for (int i = 0; i < BT_PKG_TABLES; i++) {
        const bt_pkg_table *t = bt_pkg_table_of(&copy, (bt_pkg_table_id)i);
        if (t->count) bt_hash_add(&s, table[i], (size_t)t->count * t->elem_bytes);
    }
    bt_hash_end(ret, &s);
}

static void count(uint32_t *refs, uint32_t consts, const uint32_t *named, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (named[i] < consts) refs[named[i]]++;
}
#define COUNT(...) \
    count(refs, consts, (const uint32_t[]){__VA_ARGS__}, \
          sizeof((const uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t))

void bt_pkg_count_refs(uint32_t *refs, const bt_pkg_header *h, const bt_pkg_tensor *tensors,
                       const bt_pkg_site *sites, const bt_pkg_program *programs)
{
    const uint32_t consts = h->consts.count;
    COUNT(h->embed, h->rope_cos, h->rope_sin, h->rope_cos_q15, h->rope_sin_q15, h->r1.h_base, h->r1.sign,
          h->r2.h_base, h->r2.sign);
    const uint32_t some[] = {h->body_code,   h->body_plan,   h->body_params, h->rope_cos16,
                             h->rope_sin16,  h->recipe_text, h->routers,     h->expert_sites,
                             h->router_bias, h->sinks}; /* 0: none */
    for (size_t i = 0; i < sizeof some / sizeof *some; i++)
        if (some[i]) count(refs, consts, &some[i], 1);
    if (h->r4.base) COUNT(h->r4.h_base, h->r4.sign);
    if (h->sparse_ppm) COUNT(h->sparse_heads, h->sparse_rotation.h_base, h->sparse_rotation.sign);
    for (uint32_t i = 0; i < h->tensors.count; i++) {
        const bt_pkg_tensor *t = &tensors[i];
        COUNT(t->panels, t->wscale, t->oscale, t->bias, t->colsum, t->mult, t->shift, t->bias_q, t->norm_q,
              t->f16_panels);
        if (t->group || t->palette_run) COUNT(t->groups);
    }
    for (uint32_t i = 0; i < h->sites.count; i++) COUNT(sites[i].hot);
    for (uint32_t i = 0; i < h->programs.count; i++) COUNT(programs[i].code, programs[i].plan);
}
#undef COUNT
