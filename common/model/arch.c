/* The list of architectures as a table, and what hyper-parameters say beside their numbers. */
#include "model/arch.h"
#include "model/model.h"
#include "kernels/kv_view.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define FIRST(norms) ((norms) == BT_ARCH_AFTER ? "post_attention_norm" : "attn_norm")
#define ROW(NAME, text, how, ends, each, some, normed, by, around, second, split, between, scaled, seen, \
            base, scored, mixed) \
    [BT_ARCH_##NAME] = {.name = #text, \
                        .pairs = BT_ARCH_##how, \
                        .yarn = BT_ARCH_##ends, \
                        .unrotated = each, \
                        .biases = BT_ARCH_##some, \
                        .qk_norm = BT_ARCH_##normed, \
                        .norm = BT_ARCH_##by, \
                        .norms = BT_ARCH_##around, \
                        .attn_norm = FIRST(BT_ARCH_##around), \
                        .ffn_norm = #second, \
                        .matrices = BT_ARCH_##split, \
                        .ffn = BT_ARCH_##between, \
                        .multipliers = BT_ARCH_##scaled, \
                        .windows = seen, \
                        .window_base = base, \
                        .scores = BT_ARCH_##scored, \
                        .experts = BT_ARCH_##mixed},
static const bt_arch_info rows[BT_ARCHS] = {BT_ARCH_LIST(ROW)};

const bt_arch_info *bt_arch_of(bt_arch a)
{
    assert((unsigned)a < BT_ARCHS);
    return &rows[a];
}

bool bt_arch_rotates(bt_arch a, uint32_t layer)
{
    const uint32_t each = bt_arch_of(a)->unrotated;
    return !each || (layer + 1) % each != 0;
}

bool bt_arch_is_gated(bt_arch a) { return bt_arch_of(a)->ffn != BT_ARCH_GELU; }
bool bt_arch_is_product(bt_arch a)
{
    return bt_arch_of(a)->ffn == BT_ARCH_SWIGLU || bt_arch_of(a)->ffn == BT_ARCH_GEGLU;
}

uint32_t bt_arch_norm_elems(bt_arch a, uint32_t dim)
{
    return bt_arch_of(a)->norm == BT_ARCH_MEAN ? 2 * dim : dim;
}

const bt_arch_info *bt_arch_find(bt_arch *ret, const char *name, size_t len)
{
    for (int a = 0; a < BT_ARCHS; a++)
        if (strlen(rows[a].name) == len && memcmp(rows[a].name, name, len) == 0) {
            *ret = (bt_arch)a;
            return &rows[a];
        }
    return NULL;
}

void bt_arch_names(char ret[BT_ARCH_MAX_TEXT])
{
    size_t at = 0;
    for (int a = 0; a < BT_ARCHS; a++) {
        const char *before = a == 0 ? "" : a + 1 < BT_ARCHS ? ", " : " and ";
        at += (size_t)snprintf(ret + at, BT_ARCH_MAX_TEXT - at, "%s%s", before, rows[a].name);
        assert(at < BT_ARCH_MAX_TEXT);
    }
}

uint32_t bt_rules_window(const bt_rules *r, uint32_t layer)
{
    return bt_kv_sees_all(r->global_every, layer) ? 0 : r->window;
}
uint32_t bt_rules_rope_tables(const bt_rules *r) { return r->window_rope_base > 0 ? 2 : 1; }
uint32_t bt_rules_rope_table(const bt_rules *r, uint32_t layer)
{
    return r->window_rope_base > 0 && bt_rules_window(r, layer) > 0;
}

uint32_t bt_hparams_window(const bt_hparams *hp, uint32_t layer)
{
    return bt_rules_window(&hp->rules, layer);
}
uint32_t bt_hparams_rope_tables(const bt_hparams *hp) { return bt_rules_rope_tables(&hp->rules); }
uint32_t bt_hparams_rope_table(const bt_hparams *hp, uint32_t layer)
{
    return bt_rules_rope_table(&hp->rules, layer);
}

float bt_hparams_scores(const bt_hparams *hp)
{
    return hp->times.scores > 0 ? hp->times.scores : 1.0f / sqrtf((float)hp->head_dim);
}
float bt_hparams_embed(const bt_hparams *hp) { return hp->times.embed > 0 ? hp->times.embed : 1; }
float bt_hparams_add(const bt_hparams *hp) { return hp->times.add > 0 ? hp->times.add : 1; }
