#ifndef BT_NPU_RECIPE_H
#define BT_NPU_RECIPE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/err.h"

/* How a model is quantised: one line of text, the same in every command, in the package and in reports.
 *
 *   MODE[:CHOICE,CHOICE...][/LAYERS=MODE[:CHOICE,CHOICE...]...]      w8a8 (default) | w8a16 | w4a8 | w4a16
 *
 * A part behind a '/' gives some layers a recipe of their own. LAYERS is a list of layer numbers from 0, ranges and
 * 'head' (the output matrix), joined by '+': "w8a8/0-3+29=w4a8:group=32/head=w8a16". A layer is named once. Such a
 * recipe begins with the defaults of its own mode, not with the choices in front. Choices for the whole model are made
 * in front and refused behind a '/': rotations, shadow, prune, smooth, asym, llm-int8.
 *
 *   per-tensor        one weight scale a matrix (default: one for each output channel)
 *   group=32|64|128   so many inputs of an output channel share a step and an offset, whole numbers in units of the
 *                     channel's scale (kernels/int_kernels.h)
 *   lut4, lut6        weights of w8a8 and w8a16 come from a palette of 16 or 64 numbers of 8 bits, as the ANE's
 *                     palettes do: k-means over the weights of 16 output channels, each in units of its own scale
 *                     (npu/quant/palette.h); with group= one palette for so many of their inputs. Not with per-tensor,
 *                     awq, gptq or llm-int8
 *   r1, no-r1         rotation R1 of the residual stream, folded into the weights. Default: on; off with awq, and with
 *                     4-bit weights in groups of 32, which keep the 4-bit groups of the model file
 *   r2, no-r2         rotation R2 of each head's attention output at run time, its inverse in o_proj (default: as r1)
 *   r4                rotation R4 of down's input at run time, its inverse in down_proj (default: off).
 *                     QuaRot's R3, of q and K behind the rotary embedding, is refused: it would change the rows of KV,
 *                     which every decode node and every prefix index reads in the model's own basis
 *   no-rotate         no-r1 and no-r2
 *   clip=max|pNN.NN|auto   where activations of the mode's bits are clipped: at the greatest magnitude of the
 *                          calibration, or at a percentile of the magnitudes. auto (default with 8-bit inputs): p99.99,
 *                          and with shadow=value p99.9 or p99.5 at inputs with long tails (npu/quant/sites.h). The
 *                          default with 16-bit inputs is p99.99. Inputs of a16= keep the default
 *   shadow=off|value|channel   what becomes of the part of an input beyond the clip: off drops it; value (default) adds
 *                              it back as integers; channel does so only in the outlier channels of the calibration
 *                              (llm.npu)
 *   prune=R           shadow=channel: no shadow in this share of the layers, the least important ones; 0 to 1 (default
 *                     0)
 *   smooth=A          SmoothQuant with this alpha, 0 to 1 (default: off)
 *   asym, no-asym     inputs of 8 bits have a zero point: they hold the clipped range of the calibration from its
 *                     lowest to its highest value, as u8 does. Default: as the device's profile wants (BT_ASYM_AUTO).
 *                     Inputs of 16 bits stay symmetric: a zero point saves one bit at most
 *   awq               AWQ: scales up the inputs whose rounding costs most, by the calibration's magnitudes, and clips
 *                     weights where that costs the output least (npu/quant/awq.h). awq turns rotation off unless a
 *                     rotation is asked for, because rotated inputs are all alike; gptq too is off unless asked for
 *   a16=SITE+SITE..   16-bit inputs at these sites whatever the mode: qkv, o, up (gate and up), down, head
 *   bias, no-bias     bias correction (Nagel et al. 2019, arXiv 1906.04721, section 4.2): what rounding the weights
 *                     adds to a linear's mean output on the calibration is taken off its bias (default: on)
 *   gptq, no-gptq, gptq=SITE+SITE..   rounds weights by GPTQ on the calibration: those of all sites, of none, or of
 *                     these. Default: of all with 4-bit weights, of none with awq. 8-bit weights leave it to the model,
 *                     by bt_compile_resolve: of all where the recipe has R1 and the model cannot
 *   act-order         gptq: the inputs with the greatest squares first
 *   llm-int8          scales rows and takes out outlier columns at run time, as LLM.int8 does. Numbers depend on how a
 *                     prompt is cut, so `perplexity` only
 *
 * An unknown or impossible choice is an error that lists the possible ones. */
typedef enum bt_site_kind {
    BT_SITE_QKV,
    BT_SITE_O,
    BT_SITE_UP,
    BT_SITE_DOWN,
    BT_SITE_HEAD,
    BT_SITE_KINDS
} bt_site_kind;
typedef enum bt_asym { BT_ASYM_AUTO, BT_ASYM_OFF, BT_ASYM_ON } bt_asym;
typedef enum bt_shadow_kind { BT_SHADOW_OFF, BT_SHADOW_VALUE, BT_SHADOW_CHANNEL } bt_shadow_kind;

typedef struct bt_recipe_layer {       /* what may differ between layers */
    uint8_t weight_bits;               /* 8 or 4 */
    uint8_t input_bits[BT_SITE_KINDS]; /* 8 or 16 */
    uint8_t palette_bits;              /* bits of an index into a palette: 4 or 6; 0: no palettes */
    uint16_t group; /* inputs that share a step and an offset, or a palette; 0: all inputs of a channel */
    uint8_t gptq;   /* sites whose weights GPTQ rounds: bits 1 << bt_site_kind */
    bool gptq_auto; /* gptq is left to the model, and 0; bt_compile_resolve settles it */
    bool per_tensor, bias, act_order;
    double clip_percentile8, clip_percentile16; /* of inputs of 8 and of 16 bits; 100: the maximum; 0: auto */
} bt_recipe_layer;

#define BT_RECIPE_DEFAULT "w8a8"
enum {
    BT_RECIPE_MAX_TEXT = 1024, /* with the terminating NUL */
    BT_RECIPE_MAX_PARTS = 15,  /* different recipes behind a '/' */
    BT_RECIPE_HEAD = 256       /* stands for the head; above every layer's number (BT_MODEL_MAX_LAYERS) */
};
typedef struct bt_recipe {
    bt_recipe_layer usual;
    bool r1, r2, r4, awq, llm_int8;
    bt_shadow_kind shadow;
    bt_asym asym;         /* AUTO runs as OFF; bt_compile_resolve replaces AUTO by the profile's choice */
    double prune, smooth; /* smooth < 0: off */
    uint8_t parts, part_of[BT_RECIPE_HEAD + 1]; /* [layer]: 0: usual; else 1 + an index of part */
    bt_recipe_layer part[BT_RECIPE_MAX_PARTS];
} bt_recipe;

/* stored_bits: bits of a stored weight or index. group: inputs that share a step and an offset; 0: no groups.
 * palette_run: inputs, of k, that share a palette; 0: no palettes. */
static inline uint32_t bt_recipe_stored_bits(const bt_recipe_layer *r)
{
    return r->palette_bits ? r->palette_bits : r->weight_bits;
}
static inline uint32_t bt_recipe_group(const bt_recipe_layer *r) { return r->palette_bits ? 0 : r->group; }
static inline uint32_t bt_recipe_palette_run(const bt_recipe_layer *r, uint32_t k)
{
    return !r->palette_bits ? 0 : r->group ? r->group : k;
}

/* text NULL: the default. BT_EARG: text is no recipe. */
bt_err bt_recipe_parse(bt_recipe *ret, const char *text, bt_fault *fault);
/* The rotations that a recipe asks for, as bits of bt_rotation (model/weight.h). */
unsigned bt_recipe_rotations(const bt_recipe *r);
/* Whether a recipe scales inputs and weights against each other: smooth or awq. */
bool bt_recipe_scales(const bt_recipe *r);
/* Writes the canonical text: equal recipes give equal text, without defaults. Parsing it gives the recipe again. */
void bt_recipe_text(char ret[BT_RECIPE_MAX_TEXT], const bt_recipe *r);
/* The recipe of the linears of a site in a layer. For the head's site layer is ignored. */
const bt_recipe_layer *bt_recipe_of(const bt_recipe *r, uint32_t layer, bt_site_kind site);
/* Whether two recipes say the same of the whole model and of a layer's linears of a site. */
bool bt_recipe_is_same(const bt_recipe *a, const bt_recipe *b, uint32_t layer, bt_site_kind site);
unsigned bt_recipe_gptq_sites(const bt_recipe *r); /* in any layer: bits 1 << bt_site_kind */
bool bt_recipe_has_8_bit_site(const bt_recipe *r);
/* BT_EARG: the recipe names a layer that the model, with `layers` layers, does not have; the fault has both numbers. */
bt_err bt_recipe_check_layers(const bt_recipe *r, uint32_t layers, bt_fault *fault);
/* BT_EARG: groups do not divide the inputs of this site's linears, or with palettes those are no multiple of four; the
 * fault has both numbers. */
bt_err bt_recipe_check_group(const bt_recipe_layer *r, bt_site_kind site, uint32_t inputs, bt_fault *fault);
/* GPTQ of the layers that leave it to the model: at all sites, or at none. */
void bt_recipe_settle_gptq(bt_recipe *r, bool is_wanted);
const char *bt_site_kind_name(bt_site_kind k); /* "qkv", "o", "up", "down", "head" */
#endif
