/* Copies layers from packages that were made before. A layer's tensors depend on no other layer's recipe.
 * They are copied in the order in which compile_tensors.c would write them. */
#include "npu/compile/compile_private.h"

#include <string.h>

enum { CONSTS = 7 };

static const bt_pkg *donor_of(const bt_compile_job *j, uint32_t layer, bt_site_kind site)
{
    for (size_t d = 0; d < j->o->donors; d++) {
        bt_recipe r;
        if (bt_recipe_parse(&r, bt_pkg_recipe(j->o->donor[d]), NULL) == BT_OK &&
            bt_recipe_is_same(&r, &j->o->recipe, layer, site))
            return j->o->donor[d];
    }
    return NULL;
}

/* Whether layers can be copied at all. No layer of a package holds what the calibration gives to operators
 * other than linears, so a compilation that needs that copies nothing. */
static bool can_be_given(const bt_compile_job *j)
{
    return j->o->donors && !j->expert && j->npu_ops == BT_PKG_OPS_LINEAR && !j->offload->float_form &&
           !j->o->attention.ratio_ppm && !bt_recipe_scales(&j->o->recipe) && !(j->o->recipe.prune > 0);
}

bool bt_compile_donors_find(bt_compile_job *j)
{
    const uint32_t layers = j->m->hp.layers;
    if (!can_be_given(j)) return false;
    for (size_t i = 0; i < j->sites; i++) {
        const bool is_head = i + 1 == j->sites;
        const uint32_t layer = is_head ? layers : (uint32_t)(i / BT_PKG_LAYER_SITES);
        const bt_site_kind site = is_head ? BT_SITE_HEAD : (bt_site_kind)(i % BT_PKG_LAYER_SITES);
        if (!(j->donor[i] = donor_of(j, layer, site))) return false;
        j->site[i] = bt_pkg_sites(j->donor[i])[i];
        j->pruned[i] = j->site[i].pruned;
    }
    j->calib_tokens = bt_pkg_header_of(j->donor[0])->calib_tokens;
    return true;
}

static void copy(bt_compile_job *j, uint32_t *index, const bt_pkg *from)
{
    if (*index == BT_PKG_NONE) return;
    const bt_pkg_const *c = &bt_pkg_consts(from)[*index];
    *index = bt_pkg_writer_const(j->w, (bt_pkg_const_kind)c->kind, bt_pkg_const_at(from, *index),
                                 (size_t)c->bytes);
}

void bt_compile_donors_site(bt_compile_job *j, uint32_t site) { copy(j, &j->site[site].hot, j->donor[site]); }

void bt_compile_donors_matrix(bt_compile_job *j, bt_pkg_tensor *t, uint32_t site)
{
    *t = bt_pkg_tensors(j->donor[site])[t - j->tensor];
    uint32_t none = BT_PKG_NONE;
    uint32_t *const in_integers[CONSTS] = {
        &t->panels, &t->wscale, &t->colsum,    t->group || t->palette_run ? &t->groups : &none,
        &t->bias,   &t->oscale, &t->f16_panels};
    uint32_t *const in_floats[CONSTS] = {&t->bias, &t->panels, &none, &none, &none, &none, &none};
    for (size_t i = 0; i < CONSTS; i++)
        copy(j, t->bits == 16 ? in_floats[i] : in_integers[i], j->donor[site]);
}
