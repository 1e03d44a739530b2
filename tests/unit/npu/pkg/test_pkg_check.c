/* The trust boundary: a valid package with one thing changed, hashes and digest made right again, is
 * refused with words that name it. */
#include "npu/pkg/pkg_private.h"
#include "base/rng.h"
#include "model/weights.h"
#include "npu/pkg/recipe.h"
#include "tests/helpers/temp_folder.h"
#include "tests/helpers/model/pkg_view.h"
#include "tests/helpers/model/tiny_pkg.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

/* X(words of the message, what is changed) */
#define DAMAGES(X) \
    X("not a package file", v->h->magic[3] ^= 1) \
    X("package version 1, this program reads version 5", v->h->version = 1) \
    X("header_bytes", v->h->header_bytes = 512) \
    X("header: experts 0", v->h->experts_used = 1) \
    X("header: experts 0", v->h->router_bias = v->h->rope_cos, v->c[v->h->rope_cos].refs++) \
    X("header: sinks", v->h->sinks = v->h->rope_cos, v->c[v->h->rope_cos].refs++) \
    X("header: experts_used 0 of 4 experts", v->h->experts = 4) \
    X("header: experts_used 3 of 2 experts", v->h->experts = 2, v->h->experts_used = 3) \
    X("cut short", v->h->file_bytes++) \
    X("table tensors: elements of 97 bytes", v->h->tensors.elem_bytes = 97) \
    X("table rows: 4097 elements, at most 4096", v->h->rows.count = 4097) \
    X("table constants: offset", v->h->consts.offset = UINT64_MAX - 63) \
    X("table constants: offset", v->h->consts.offset += 8) \
    X("table sites: offset", v->h->sites.offset += 64) \
    X("table tensors: offset", v->h->sites.offset = v->h->tensors.offset, v->h->tensors.offset += 64) \
    X("constant 1: offset", v->c[1].offset += 64) \
    X("constant 1: offset", v->c[1].offset = 0) \
    X("constant 1: offset", v->c[1].bytes = UINT64_MAX) \
    X("constant 1: offset", v->c[1].bytes = 0) \
    X("bytes after the last table", v->h->sessions.count--) \
    X("constant 2: kind 9", v->c[2].kind = 9) \
    X("constant 2: refs", v->c[2].refs++) \
    X("weights_bytes", v->h->weights_bytes--) \
    X("header: a text without an end", memset(v->h->recipe, 'x', sizeof v->h->recipe)) \
    X("header: a text without an end", v->h->profile[60] = 'x') \
    X("with control characters", v->h->model_name[1] = '\033') \
    X("with control characters", v->h->shape_policy[0] = '\177') \
    X("header: reserved", v->h->reserved[sizeof v->h->reserved - 1] = 1) \
    X("header: layout, tile_rows 4097, not 0 to 4096", v->h->layout.tile_rows = 4097) \
    X("layout, last_axis_align_bytes 48 is no power of two", v->h->layout.last_axis_align_bytes = 48) \
    X("header: layout, output_parts 65", v->h->layout.output_parts = 65) \
    X("header: layout, state_pow2 2", v->h->layout.state_pow2 = 2) \
    X("header: layout, tile_rows 32 and tile_cols 0: both or none", v->h->layout.tile_rows = 32) \
    X("header: layout, state_multiple 24 is no power of two", v->h->layout.state_pow2 = 1, \
      v->h->layout.state_multiple = 24) \
    X("header: layout, reserved 1", v->h->layout.reserved = 1) \
    X("header: layout, on_chip_bytes", v->h->layout.on_chip_bytes = UINT64_MAX) \
    X("fallback 0", CONST_TABLE(bt_pkg_fallback, fallbacks)->why[95] = 'x') \
    X("layers 3", CONST_TABLE(bt_pkg_fallback, fallbacks)->layers = 3) \
    X("layers 2", CONST_TABLE(bt_pkg_fallback, fallbacks)->count = 1, \
      CONST_TABLE(bt_pkg_fallback, fallbacks)->layers = 2) \
    X("session 0: layers 3 to 2", CONST_TABLE(bt_pkg_session, sessions)->first_layer = 3) \
    X("session 0: layers 0 to 3", CONST_TABLE(bt_pkg_session, sessions)->last_layer = 3) \
    /* the header */ \
    X("rounding 2", v->h->rounding = 2) \
    X("npu_ops 2", v->h->npu_ops = 2) \
    X("flags 16", v->h->flags = 16) \
    X("arch 99", v->h->arch = 99) \
    X("layers 0", v->h->layers = 0) \
    X("layers 257", v->h->layers = 257) \
    X("dim 32769", v->h->dim = 32769) \
    X("ffn 0", v->h->ffn = 0) \
    X("heads 257", v->h->heads = 257) \
    X("kv_heads 3", v->h->kv_heads = 3) \
    X("heads 3 are no multiple of kv_heads 2", v->h->heads = 3, v->h->kv_heads = 2) \
    X("head_dim 0", v->h->head_dim = 0) \
    X("vocab 0", v->h->vocab = 0) \
    X("ctx_tokens 0", v->h->ctx_tokens = 0) \
    X("rope_dims 10", v->h->rope_dims = 10) \
    X("rope_dims 7 is odd", v->h->rope_dims = 7) \
    X("max_seq 0", v->h->max_seq = 0) \
    X("rms_eps", v->h->rms_eps = -1) \
    X("attn_scale", v->h->attn_scale = NAN) \
    X("embed_scale", v->h->embed_scale = 0) \
    X("window_rope_base", v->h->window_rope_base = 500) \
    X("global_every", v->h->global_every = 6) \
    X("score_cap is nan", v->h->score_cap = NAN) \
    X("score_cap is -1", v->h->score_cap = -1) \
    X("logit_cap is inf", v->h->logit_cap = INFINITY) \
    X("logits without their soft cap", v->h->logit_cap = 30) \
    X("window", v->h->window = BT_MODEL_MAX_CTX + 1) \
    X("add_scale", v->h->add_scale = -1) \
    X("rope_base", v->h->rope_base = 0) \
    X("rope_scale", v->h->rope_scale = INFINITY) \
    X("residual_scale", v->h->residual_scale = 1) \
    X("embed_type 77", v->h->embed_type = 77) \
    X("embed is not 20 rows", v->h->embed_type = 1) \
    X("rope_cos", NAMED(v->h->rope_cos, v->h->embed)) \
    X("rope_sin", CONST(float, v->h->rope_sin) = NAN) \
    X("rope_cos_q15", NAMED(v->h->rope_cos_q15, v->h->rope_sin)) \
    X("r1: base 257", v->h->r1.base = 257) \
    X("r1: base 1, log2 18", v->h->r1.log2 = 18) \
    X("r1: 2 blocks of 16, the row has 16 elements", v->h->r1.blocks = 2) \
    X("r1: h_base", NAMED(v->h->r1.h_base, 0)) \
    X("r1: sign", CONST(int8_t, v->h->r1.sign) = 0) \
    X("r1: scale", v->h->r1.scale = 0) \
    X("r2: h_base", CONST(int8_t, v->h->r2.h_base) = 3) \
    X("r2: base 0 says there is none", v->h->r2.base = 0) \
    X("r4: base 0 says there is none", v->h->r4.scale = 1) \
    X("r4: base 257", (v->h->r4.base = 257, v->h->r4.h_base = v->h->r4.sign = BT_PKG_NONE)) \
    /* sites */ \
    X("site 1: layer 0 and kind 2", v->s[1].kind = 2) \
    X("site 1: layer 1", v->s[1].layer = 1) \
    X("site 0 (qkv of layer 0): k", SITE(0, QKV)->k = 15) \
    X("k 0 says that it is not there", SITE(0, QKV)->k = 0) \
    X("site 0 (qkv of layer 0): bits", SITE(0, QKV)->bits = 12) \
    X("site 0 (qkv of layer 0): shadow", SITE(0, QKV)->shadow = 3) \
    X("scale", SITE(0, QKV)->scale = -1) \
    X("inv_scale", SITE(0, QKV)->inv_scale = 0) \
    X("clip, max or rms", SITE(0, QKV)->max = NAN) \
    X("input_error", SITE(0, QKV)->input_error = INFINITY) \
    X("outlier_columns", SITE(0, QKV)->outlier_columns = 1.5f) \
    X("hot", CONST(uint8_t, SITE(0, UP)->hot) = 2) \
    X("site 0 (qkv of layer 0): hot", NAMED(SITE(0, QKV)->hot, 0)) \
    X("pruned", SITE(0, QKV)->pruned = 1) \
    X("site 8 (head of layer -1): asymmetric", SITE(0, HEAD)->asymmetric = 2) \
    X("site 8 (head of layer -1): zero", SITE(0, HEAD)->zero = 1) \
    X("site 0 (qkv of layer 0): zero", SITE(0, QKV)->asymmetric = 1, SITE(0, QKV)->zero = 128) \
    X("site 0 (qkv of layer 0): zero", SITE(0, QKV)->asymmetric = 1, SITE(0, QKV)->zero = -129) \
    X("site 1 (o of layer 0): a16_scale", SITE(0, O)->a16_scale = 1) \
    /* tensors */ \
    X("tensor 1: layer 0 and weight 10", TENSOR(0, Q)->weight = BT_WEIGHT_K) \
    X("tensor 0: layer 5", TENSOR(0, ATTN_NORM)->layer = 5) \
    X("tensor 1 (q of layer 0): has the shape 17 x 16, not 16 x 16", TENSOR(0, Q)->n = 17) \
    X("tensor 14 (q of layer 1): has the shape 16 x 15, not 16 x 16", TENSOR(1, Q)->k = 15) \
    X("n 0 says that it is not there", TENSOR(0, Q)->n = 0) \
    X("(q of layer 0): a matrix that the model has is missing", ABSENT(TENSOR(0, Q))) \
    X("(attn_norm of layer 0): bits", TENSOR(0, ATTN_NORM)->bits = 16) \
    X("(attn_norm of layer 0): panels", CONST(float, TENSOR(0, ATTN_NORM)->panels) = NAN) \
    X("(attn_norm of layer 0): a field is set that only a matrix has", TENSOR(0, ATTN_NORM)->site = 0) \
    X("(q of layer 0): bits", TENSOR(0, Q)->bits = 7) \
    X("(q of layer 0): panels", TENSOR(0, Q)->bits = 4) \
    X("(q of layer 0): panels", TENSOR(0, Q)->panels = BT_PKG_NONE, v->c[FIRST_PANELS(v)].refs--) \
    X("(q of layer 0): site", TENSOR(0, Q)->site = 1) \
    X("a weight is out of range", CONST(int8_t, TENSOR(0, Q)->panels) = -128) \
    X("colsum is not the sum of the weights", CONST(int32_t, TENSOR(0, Q)->colsum)++) \
    X("colsum", NAMED(TENSOR(0, Q)->colsum, v->h->embed)) \
    X("wscale", CONST(float, TENSOR(0, Q)->wscale) = -1) \
    X("oscale", CONST(float, TENSOR(0, Q)->oscale) = INFINITY) \
    X("bias", CONST(float, TENSOR(0, Q)->bias) = NAN) \
    X("f16_panels", NAMED(TENSOR(0, Q)->f16_panels, 0)) \
    X("norm_q or norm_shift are given for a matrix", TENSOR(0, Q)->norm_shift = 1) \
    X("out_scale", TENSOR(0, Q)->out_scale = 1) \
    X("weight_error", TENSOR(0, Q)->weight_error = -1) \
    X("(q of layer 0): group", TENSOR(0, Q)->group = 32, v->c[0].refs++) \
    X("(attn_norm of layer 0): group", TENSOR(0, ATTN_NORM)->group = 32, v->c[0].refs++) \
    X("(q of layer 0): groups are given without group or palette_run", TENSOR(0, Q)->groups = 1) \
    X("(q of layer 0): palette_run", TENSOR(0, Q)->palette_run = 1, v->c[0].refs++) \
    /* rows and programs */ \
    X("row 0: batch 0", v->r[0].batch = 0) \
    X("row 0: batch 1, seq 9-4", v->r[0].seq_min = 9) \
    X("ctx 33", v->r[1].ctx = 33) \
    X("row 1: does not come after the row before", v->r[1].ctx = v->r[0].ctx) \
    X("row 0: program[0] 1 is not for seq 4 with 0 rows of logits", v->r[0].program[0] = 1) \
    X("row 0: program[2] 4294967295", v->r[0].program[2] = BT_PKG_NONE) \
    X("max_seq is 5, and the longest row has 4", v->h->max_seq = 5) \
    X("program 1: seq 5", v->p->seq = 5) \
    X("program 1: out 3", v->p->out = 3) \
    X("program 1: code names no constant of insts", v->p->insts--) \
    X("program 1: plan names no constant of places", v->p->places--) \
    X("program 1: arena_bytes", v->p->arena_bytes--) \
    X("arena_bytes", v->h->arena_bytes += 64) \
    X("program 1: clusters", v->p->clusters = v->p->insts + 1) \
    /* the plan */ \
    X("place 0 (x)", v->plan[0].last_inst = v->p->insts) \
    X("place 0 (?)", v->plan[0].name = 99) \
    X("place 1 (n)", v->plan[1].offset = UINT64_MAX - 63) \
    X("place 1 (n)", v->plan[1].offset++) \
    X("place 1 (n)", v->plan[1].bytes = UINT64_MAX) \
    X("overlap while both are alive", v->plan[1].offset = v->plan[0].offset) \
    X("out lies in no place of the plan that is alive", v->plan[1].first_inst++) \
    X("(add): in0: no value of its kind was written there", v->plan[0].last_inst = 5) \
    /* instructions */ \
    X("op 30", INST(QUANTISE, 0)->op = 30) \
    X("op 0", INST(QUANTISE, 0)->op = 0) \
    X("op 74", INST(LINEAR, 0)->op = 74) \
    X("(linear): unit 0", INST(LINEAR, 0)->unit = 0) \
    X("(add): unit 1", INST(ADD, 0)->unit = 1) \
    X("(add): unit 3", INST(ADD, 0)->unit = 3) \
    X("(add): runs in floats on the NPU, and float_form is 0", INST(ADD, 0)->unit = 2) \
    X("(add): in0: no value of its kind was written there", v->h->float_form = 1, INST(ADD, 0)->unit = 2) \
    X("(embed): unit 2", v->h->float_form = 2, INST(EMBED, 0)->unit = 2) \
    X("(kv_store): unit 2", v->h->float_form = 2, INST(KV_STORE, 0)->unit = 2) \
    X("(rope): unit 2 without rope_cos16", v->h->float_form = 1, INST(ROPE, 0)->unit = 2) \
    X("(round16): unit 0", INST(RMSNORM, 0)->op = BT_PKG_ROUND16) \
    X("(int_linear): needs npu_ops all", INST(LINEAR, 0)->op = BT_PKG_INT_LINEAR) \
    X("(linear): group 0", INST(LINEAR, 0)->group = 0) \
    X("(linear): group 5", INST(LINEAR, 0)->group = 5) \
    X("(add): group 2", INST(ADD, 0)->group = 2) \
    X("(linear): group 4, and the instruction 3 further is not like it", INST(LINEAR, 0)->group = 4) \
    X("(linear): group 3, and the instruction 1 further", INST(LINEAR, 1)->in0 += 64) \
    X("(linear): group 3, and outputs 0 and 1 overlap", INST(LINEAR, 1)->out = INST(LINEAR, 0)->out) \
    X("(linear): cluster 2, and 1 is to come", INST(LINEAR, 0)->cluster = 2) \
    X("(linear): cluster 1, and 3 is to come", INST(LINEAR, 0)->cluster = 1, INST(LINEAR, 1)->cluster = 2, \
      INST(LINEAR, 2)->cluster = 1) \
    X("(linear): cluster 1, and 2 is to come", INST(LINEAR, 0)->cluster = 1, INST(LINEAR, 3)->cluster = 1) \
    X("(rmsnorm): has cluster 1, and runs on the companion", INST(RMSNORM, 0)->cluster = 1) \
    X("clusters is 0, and 1 are there", INST(LINEAR, 0)->cluster = 1) \
    X("(linear): out_rows 2", INST(LINEAR, 0)->out_rows = 2) \
    X("(embed): out_rows 1", INST(EMBED, 0)->out_rows = 1) \
    X("(rope): layer 2", INST(ROPE, 0)->layer = 2) \
    X("(add): layer 0", INST(ADD, 3)->layer = 0) \
    X("(rope): stands outside a layer", INST(ROPE, 0)->layer = UINT32_MAX) \
    X("(attention): comes before the layer's keys and values", INST(KV_STORE, 0)->op = BT_PKG_ATTENTION) \
    X("(kv_store): layer 1, and 0 is to come", INST(KV_STORE, 0)->layer = 1) \
    X("(linear): tensor 4294967295 is not there", INST(LINEAR, 0)->tensor = BT_PKG_NONE) \
    X("(rmsnorm): tensor 7 is not there", INST(RMSNORM, 1)->tensor = 7) \
    X("(linear): tensor 14 is of layer 1", INST(LINEAR, 0)->tensor = 14) \
    X("(linear): tensor 0 (attn_norm, 16 x 1, 32 bits) does not fit", INST(LINEAR, 0)->tensor = 0) \
    X("(linear): tensor 6 (o,", INST(LINEAR, 0)->tensor = 6) \
    X("(qk_norm): tensor 0 (attn_norm", INST(QK_NORM, 0)->tensor = 0) \
    X("(rmsnorm): tensor 4 (q_norm", INST(RMSNORM, 0)->tensor = 4) \
    X("(add): names tensor 1, and takes none", INST(ADD, 0)->tensor = 1) \
    X("(add): names site 1, and takes none", INST(ADD, 0)->site = 1) \
    X("(quantise): site 99 is not there", INST(QUANTISE, 0)->site = 99) \
    X("(quantise): site 4 is of layer 1", INST(QUANTISE, 0)->site = 4) \
    X("(quantise): in_width is 16, and site 3 has 24", INST(QUANTISE, 0)->site = 3) \
    X("(quantise): has in1, and site 0 has 8 bits", INST(QUANTISE, 0)->in1 = 0) \
    X("(quantise): has aux, and site 3 has no shadow", INST(QUANTISE, 3)->aux = 0) \
    X("(quantise): aux 18446744073709551615", INST(QUANTISE, 0)->aux = BT_PKG_NOWHERE) \
    X("(quantise): in1 18446744073709551615", INST(QUANTISE, 1)->in1 = BT_PKG_NOWHERE) \
    X("(quantise): aux overlaps out", INST(QUANTISE, 0)->aux = INST(QUANTISE, 0)->out, \
      v->plan[2].bytes = v->plan[3].bytes, v->plan[3].first_inst = v->plan[3].last_inst) \
    X("(quantise): out_width 16 in rows of out_stride 32 bytes", INST(QUANTISE, 0)->out_stride = 32) \
    X("(rotate): arg 3", INST(ROTATE, 0)->arg = 3) \
    X("(add): arg 1", INST(ADD, 0)->arg = 1) \
    X("(embed): out_width 16 in rows of out_stride 64", v->h->layout.last_axis_align_bytes = 128) \
    X("(linear): arg 1, loop order 1", INST(LINEAR, 0)->arg = 1) \
    X("(linear): arg 0, loop order 0", v->h->layout.on_chip_bytes = 4096) \
    X("(linear): arg 256, a part of q", INST(LINEAR, 0)->arg = 256) \
    X("(linear): tensor 27 (output, 20 x 16", INST(LINEAR, 14)->arg = 256, v->h->layout.output_parts = 2) \
    X("(linear): arg 256, and a piece beside it is missing", FIRST_PART(v, 256)) \
    X("(linear): tensor 27 (output, 20 x 16", FIRST_PART(v, 768)) \
    X("(attention): arg 1, and a piece beside it is missing", INST(ATTENTION, 0)->arg = 1, \
      v->h->layout.query_slice_rows = 2) \
    X("(attention): arg 2, and a piece beside it is missing", INST(ATTENTION, 0)->arg = 2, \
      v->h->layout.attention_heads_max = 1) \
    X("(attention): arg 2, piece 2 of 1", INST(ATTENTION, 0)->arg = 2) \
    X("(rope): arg 3", INST(ROPE, 0)->arg = 3) \
    X("(rope): in_width 16, out_width 16", INST(ROPE, 0)->arg = 1) \
    X("(embed): in_width 16, out_width 17", INST(EMBED, 0)->out_width = 17) \
    X("(kv_store): in_width 9", INST(KV_STORE, 0)->in_width = 9) \
    X("(linear): in_width 16, out_width 16, or macs_per_row", INST(LINEAR, 0)->macs_per_row++) \
    X("(add): has params, and takes none", INST(ADD, 0)->params = 1) \
    X("(embed): has in0, and takes none", INST(EMBED, 0)->in0 = 0) \
    X("(rmsnorm): has in1, and takes none", INST(RMSNORM, 0)->in1 = 0) \
    X("(rmsnorm): has aux, and takes none", INST(RMSNORM, 0)->aux = 0) \
    X("(kv_store): has out, and gives none", INST(KV_STORE, 0)->out = 0) \
    X("(rmsnorm): has no out", INST(RMSNORM, 0)->out = BT_PKG_NOWHERE) \
    X("(linear): has no out", INST(LINEAR, 3)->out = BT_PKG_NOWHERE) \
    X("(add): in0 is not out", INST(ADD, 0)->in0 = INST(ADD, 0)->in1) \
    X("(rope): in_stride is not out_stride", INST(ROPE, 0)->in_stride = 32) \
    X("(rmsnorm): in0: no value of its kind was written there", INST(RMSNORM, 0)->in0 += 64) \
    X("(rmsnorm): in0: no value of its kind was written there", INST(RMSNORM, 0)->in0 = UINT64_MAX - 1) \
    X("(rmsnorm): in0 has 16 elements in rows of 64 bytes, and not 16 in 128", \
      INST(RMSNORM, 0)->in_stride = 128) \
    X("(linear): in0: no value of its kind", INST(QUANTISE, 1)->op = BT_PKG_RMSNORM, \
      INST(RMSNORM, 1)->in1 = BT_PKG_NOWHERE, INST(RMSNORM, 1)->site = BT_PKG_NONE, \
      INST(RMSNORM, 1)->out_stride = 64) \
    X("(linear): in1 or aux is not the one that was written", INST(LINEAR, 3)->in1 = BT_PKG_NOWHERE) \
    X("(linear): in1 or aux is not the one that was written", INST(LINEAR, 4)->aux += 64, \
      INST(LINEAR, 5)->aux += 64) \
    X("(linear): in0: no value of its kind was written there", READ_OLD_PLANES(v)) \
    X("(rmsnorm): out 18446744073709551552", INST(RMSNORM, 0)->out = UINT64_MAX - 63) \
    X("(rmsnorm): out 4 and its", INST(RMSNORM, 0)->out = 4) \
    X("(rmsnorm): out overlaps an input", INST(RMSNORM, 0)->out = INST(RMSNORM, 0)->in0) \
    X("(rmsnorm): out_width 16 in rows of out_stride 68", INST(RMSNORM, 0)->out_stride = 68) \
    X("(attention): in0 has 8 elements", INST(ATTENTION, 0)->in0 = INST(KV_STORE, 0)->in0) \
    X("(select_rows): out_rows 0", INST(SELECT_ROWS, 0)->out_rows = 0) \
    X("(rmsnorm): in0 has 16 elements", INST(RMSNORM, 4)->out_rows = 0) \
    X("(linear): logits", INST(LINEAR, 14)->out_stride = 84) \
    X("the head's out is not the caller's logits", INST(LINEAR, 14)->out = 0) \
    X("program 0: out 1, and it writes no logits", v->r[0].program[0] = v->r[1].program[0] = 1, \
      v->r[0].program[1] = v->r[1].program[1] = 0, v->p[-1].out = 1, v->p->out = 0)

/* Damages of a package with npu_ops all. */
#define DAMAGES_ALL(X) \
    X("rope_sin_q15", NAMED(v->h->rope_sin_q15, v->h->rope_sin)) \
    X("residual_scale", v->h->residual_scale = 0) \
    X("norm_q has the number -2^31", CONST(int32_t, TENSOR(0, ATTN_NORM)->norm_q) = INT32_MIN) \
    X("norm_shift has a number outside", TENSOR(0, ATTN_NORM)->norm_shift = 33) \
    X("(q of layer 0): mult", NAMED(TENSOR(0, Q)->mult, 0)) \
    X("(q of layer 0): mult has a number below 2^30", CONST(int32_t, TENSOR(0, Q)->mult) = (1 << 30) - 1) \
    X("(q of layer 0): shift has a number outside 1 to 62", CONST(uint8_t, TENSOR(0, Q)->shift) = 63) \
    X("(q of layer 0): shift has a number outside 1 to 62", CONST(uint8_t, TENSOR(0, Q)->shift) = 0) \
    X("(k of layer 0): bias_q", SITE(0, QKV)->asymmetric = 1, SITE(0, QKV)->zero = 1, \
      NAMED(TENSOR(0, K)->bias_q, BT_PKG_NONE)) \
    X("(q of layer 0): bias_q has a number of 2^61", CONST(int64_t, TENSOR(0, Q)->bias_q) = INT64_MIN) \
    X("(q of layer 0): out_scale", TENSOR(0, Q)->out_scale = 0) \
    X("(q of layer 0): out_bits", TENSOR(0, Q)->out_bits = 4) \
    X("(output of layer -1): out_scale", v->t[v->h->tensors.count - 1].out_scale = 1) \
    X("site 0 (qkv of layer 0): a16_scale", SITE(0, QKV)->a16_scale = 1) \
    X("site 1 (o of layer 0): a16_scale", SITE(0, O)->a16_scale = NAN) \
    X("site 1 (o of layer 0): a16_scale", SITE(0, O)->a16_scale = -1) \
    X("(dequantise16): its unit must be that of a tensor or of a site", \
      INST(DEQUANTISE16, 0)->tensor = BT_PKG_NONE) \
    X("(dequantise16): its unit must be that of a tensor or of a site", \
      INST(DEQUANTISE16, 0)->site = SITE_INDEX(0, O), \
      INST(DEQUANTISE16, 0)->in_width = INST(DEQUANTISE16, 0)->out_width = 16, SITE(0, O)->a16_scale = 1) \
    X("(dequantise16): site 0 has no a16_scale", INST(DEQUANTISE16, 0)->site = SITE_INDEX(0, QKV), \
      INST(DEQUANTISE16, 0)->in_width = 16) \
    X("(quantise16): in0: no value of its kind", INST(DEQUANTISE16, 0)->op = BT_PKG_QUANTISE16) \
    X("(dequantise32): names tensor", INST(DEQUANTISE16, 0)->op = BT_PKG_DEQUANTISE32) \
    X("(dequantise32): in0: no value of its kind", INST(QUANTISE32, 0)->op = BT_PKG_DEQUANTISE32) \
    X("(dequantise32): site 0 is of layer 0", INST(QUANTISE32, 0)->op = BT_PKG_DEQUANTISE32, \
      INST(DEQUANTISE32, 0)->site = 0) \
    X("(output of layer -1): shift, bias_q or out_bits", v->t[v->h->tensors.count - 1].out_bits = 16) \
    X("(int_rmsnorm): params 4294967295", INST(INT_RMSNORM, 0)->params = BT_PKG_NONE) \
    X("(int_rmsnorm): params 4", INST(INT_RMSNORM, 0)->params = 4) \
    X("params: m[0]", PARAMS(v)->m[0] = 1) \
    X("params: m[1]", PARAMS(v)->m[1] = -5) \
    X("params: s[1] 63", PARAMS(v)->s[1] = 63) \
    X("params: s[0] 33", CONST(bt_pkg_int_params, (uint32_t)INST(INT_RMSNORM, 0)->params).s[0] = 33) \
    X("params: k_shift -17", PARAMS(v)->k_shift = -17) \
    X("params: eps", PARAMS(v)->eps = -1) \
    X("params: reserved", PARAMS(v)->reserved[23] = 1) \
    X("(int_linear): tensor 97 is not there", INST(INT_LINEAR, 0)->tensor = 97) \
    X("(int_split): in0 is in units of site 2", INST(INT_SPLIT, 2)->site = INST(INT_SPLIT, 0)->site) \
    X("(int_split): in0 is in units of site", INST(INT_RMSNORM, 0)->site = SITE_INDEX(0, UP)) \
    X("(int_add): tensor 0 (attn_norm, 16 x 1, 32 bits) does not fit", INST(INT_ADD, 1)->tensor = 0) \
    X("(int_add): in1: no value of its kind", INST(INT_ADD, 0)->in1 = INST(INT_ROTATE, 0)->out) \
    X("(int_rope): in_width 16, out_width 16", INST(INT_ROPE, 0)->arg = 1) \
    X("(int_rotate): arg 1", INST(INT_ROTATE, 0)->arg = 1) \
    X("(dequantise16): tensor 0 (attn_norm", INST(DEQUANTISE16, 0)->tensor = 0) \
    X("(kv_store): in0: no value of its kind", INST(KV_STORE, 0)->in0 = INST(DEQUANTISE16, 0)->in0) \
    X("(select_rows): in0: no value of its kind", INST(SELECT_ROWS, 0)->in0 += 64)

#define PARAMS(v)                (&CONST(bt_pkg_int_params, (uint32_t)INST(INT_ADD, 0)->params))
#define SITE_INDEX(layer, k)     bt_pkg_site_index(v->h->layers, layer, BT_SITE_##k)
#define CONST_TABLE(type, table) ((type *)(void *)(v->bytes + v->h->table.offset))
#define ABSENT(t)                absent(v, t)
#define READ_OLD_PLANES(v)       read_old_planes(v)
#define FIRST_PANELS(v)          first_panels
#define FIRST_PART(v, arg)       first_part(v, arg)
static uint32_t first_panels;

/* The output matrix as the first of two parts, or what arg says. */
static void first_part(pkg_view *v, uint32_t arg)
{
    bt_pkg_inst *i = INST(LINEAR, 14);
    v->h->layout.output_parts = 2;
    i->arg = arg;
    i->out_width = 16;
    i->macs_per_row = (uint64_t)16 * i->in_width;
}

/* The linear after the second quantisation takes the first one's. */
static void read_old_planes(pkg_view *v)
{
    bt_pkg_inst *i = INST(LINEAR, 3);
    *i = *INST(LINEAR, 1);
    i->out = INST(ADD, 0)->in1;
    i->tensor = bt_pkg_tensor_index(v->h->layers, 0, BT_WEIGHT_Q);
    i->out_width = 16;
    i->out_stride = 64;
    i->macs_per_row = 256;
}

static void absent(pkg_view *v, bt_pkg_tensor *t)
{
    uint32_t *const index[] = {&t->panels, &t->wscale, &t->oscale, &t->bias, &t->colsum};
    for (size_t i = 0; i < sizeof index / sizeof *index; i++) pkg_view_name(v, index[i], BT_PKG_NONE);
    t->site = BT_PKG_NONE;
    t->n = t->k = t->bits = 0;
    t->weight_error = t->output_error = 0;
}

#define RECIPE(v) ((char *)pkg_view_const(v, v->h->recipe_text))
#define DAMAGES_RECIPE(X) \
    X("recipe_text names constant 4000000", v->h->recipe_text = 4000000) \
    X("recipe_text has 64 bytes, not 129 to 1024", NAMED(v->h->recipe_text, TENSOR(0, Q)->wscale)) \
    X("a recipe and recipe_text", v->h->recipe[0] = 'w') \
    X("recipe_text does not end", RECIPE(v)[200] = 'x') \
    X("recipe_text does not end", RECIPE(v)[100] = 0) \
    X("recipe_text does not end", RECIPE(v)[100] = '\033') \
    X("recipe_text has 2048 bytes, not 129 to 1024", NAMED(v->h->recipe_text, TENSOR(0, GATE)->panels))

static const char *const words[] = {DAMAGES(WORDS)}, *const words_all[] = {DAMAGES_ALL(WORDS)},
                         *const words_recipe[] = {DAMAGES_RECIPE(WORDS)};

static void damage(pkg_view *v, int which)
{
    int i = 0;
    DAMAGES(CHANGE)
}

static void damage_all(pkg_view *v, int which)
{
    int i = 0;
    DAMAGES_ALL(CHANGE)
}

static void damage_recipe(pkg_view *v, int which)
{
    int i = 0;
    DAMAGES_RECIPE(CHANGE)
}

static bt_pkg_head *sparse_head(pkg_view *v, size_t i)
{
    return (bt_pkg_head *)pkg_view_const(v, v->h->sparse_heads) + i;
}

#define DAMAGES_SPARSE(X) \
    X("header: sparse_ppm 1000001", v->h->sparse_ppm = 1000001) \
    X("sparse_ppm 0 says there is none", v->h->sparse_ppm = 0, NAMED(v->h->sparse_heads, 0), v->c[0].refs--, \
      v->c[v->h->sparse_rotation.sign].refs--) \
    X("or sparse_dense_rows 1048577", v->h->sparse_dense_rows = 1048577) \
    X("header: sparse_heads", NAMED(v->h->sparse_heads, v->h->rope_cos)) \
    X("sparse_rotation: 2 blocks", v->h->sparse_rotation.blocks = 2) \
    X("sparse_rotation: sign", CONST(int8_t, v->h->sparse_rotation.sign) = 2) \
    X("sparse_rotation: base 0", NAMED(v->h->sparse_rotation.sign, BT_PKG_NONE), \
      v->h->sparse_rotation.base = 0, v->h->sparse_rotation.log2 = 0, v->h->sparse_rotation.blocks = 0, \
      v->h->sparse_rotation.scale = 0) \
    X("sparse_heads: head 1 of layer 0", sparse_head(v, 1)->ppm = 0) \
    X("sparse_heads: head 0 of layer 1", sparse_head(v, 2)->ppm = 1000001) \
    X("sparse_heads: head 0 of layer 0", sparse_head(v, 0)->q_scale = 0) \
    X("sparse_heads: head 0 of layer 0", sparse_head(v, 0)->q_scale = 0x1p101f) \
    X("sparse_heads: head 1 of layer 0", sparse_head(v, 1)->k_scale = 0.125f) \
    X("sparse_heads: head 1 of layer 1", sparse_head(v, 3)->recall = 1.5f) \
    X("sparse_rows_log2 5", v->h->sparse_rows_log2 = 5) \
    X("sparse_group 2", v->h->sparse_group = 2) \
    X("slices of 1000 rows cut blocks of 16", v->h->sparse_rows_log2 = 4, \
      v->h->layout.query_slice_rows = 1000) \
    X("sparse_heads: head 1 of layer 0", v->h->sparse_group = 1) \
    X("sparse_heads: head 1 of layer 1", v->h->sparse_group = 1, \
      sparse_head(v, 1)->ppm = sparse_head(v, 0)->ppm, sparse_head(v, 3)->ppm = sparse_head(v, 2)->ppm, \
      sparse_head(v, 3)->q_scale = 0.5f)
static const char *const words_sparse[] = {DAMAGES_SPARSE(WORDS)};

static void damage_sparse(pkg_view *v, int which)
{
    int i = 0;
    DAMAGES_SPARSE(CHANGE)
}

#define DAMAGES_GROUPS(X) \
    X("(q of layer 0): group", TENSOR(0, Q)->group = 64) \
    X("(q of layer 0): group", TENSOR(0, Q)->group = 16) \
    X("(q of layer 0): groups", CONST(int16_t, TENSOR(0, Q)->groups) = 0) \
    X("(q of layer 0): groups", CONST(int16_t, TENSOR(0, Q)->groups) = 2100) \
    X("(q of layer 0): groups", (&CONST(int16_t, TENSOR(0, Q)->groups))[16] = 16000) \
    X("(q of layer 0): groups", (&CONST(int16_t, TENSOR(0, Q)->groups))[16] = -16000) \
    X("(q of layer 0): groups", NAMED(TENSOR(0, Q)->groups, v->h->embed)) \
    X("colsum is not the sum of the weights", CONST(int16_t, TENSOR(0, Q)->groups) ^= 1) \
    X("colsum is not the sum of the weights", (&CONST(int16_t, TENSOR(0, Q)->groups))[16] ^= 1) \
    X("colsum is not the sum of the weights", CONST(int32_t, TENSOR(0, Q)->colsum)++) \
    X("colsum is not the sum of the weights", \
      (&CONST(int32_t, TENSOR(0, Q)->colsum))[v->c[TENSOR(0, Q)->colsum].bytes / 4 - 1]++) \
    X("a weight is out of range", CONST(uint8_t, TENSOR(0, Q)->panels) = 128) \
    X("colsum", NAMED(TENSOR(0, Q)->colsum, v->h->embed)) \
    X("wscale", CONST(float, TENSOR(0, Q)->wscale) = -1)
static const char *const words_groups[] = {DAMAGES_GROUPS(WORDS)};

static void damage_groups(pkg_view *v, int which)
{
    int i = 0;
    DAMAGES_GROUPS(CHANGE)
}

#define DAMAGES_PALETTES(X) \
    X("(q of layer 0): palette_run", TENSOR(0, Q)->palette_run = 128) \
    X("(q of layer 0): palette_run", TENSOR(0, Q)->palette_run = 16) \
    X("(q of layer 0): group", TENSOR(0, Q)->group = 32) \
    X("(q of layer 0): palette_run", TENSOR(0, Q)->bits = 8) \
    X("(attn_norm of layer 0): palette_run", TENSOR(0, ATTN_NORM)->palette_run = 32, v->c[0].refs++) \
    X("(q of layer 0): groups are given without group or palette_run", TENSOR(0, Q)->palette_run = 0, \
      v->c[TENSOR(0, Q)->groups].refs--) \
    X("(q of layer 0): palettes", NAMED(TENSOR(0, Q)->groups, v->h->embed)) \
    X("a weight is out of range", CONST(int8_t, TENSOR(0, Q)->groups) = -128) \
    X("colsum is not the sum of the weights", CONST(uint8_t, TENSOR(0, Q)->panels) ^= 1) \
    X("colsum is not the sum of the weights", CONST(int32_t, TENSOR(0, Q)->colsum)++) \
    X("wscale", CONST(float, TENSOR(0, Q)->wscale) = -1)
static const char *const words_palettes[] = {DAMAGES_PALETTES(WORDS)};

static void damage_palettes(pkg_view *v, int which)
{
    int i = 0;
    DAMAGES_PALETTES(CHANGE)
}

static void each_is_refused(const tiny_pkg *kind, const char *const *want, int count,
                            void (*change)(pkg_view *, int))
{
    size_t len;
    uint8_t *valid = tiny_pkg_bytes(&len, kind);
    const pkg_view v = pkg_view_of(valid, len);
    first_panels = pkg_view_tensor(&v, 0, BT_WEIGHT_Q)->panels;
    pkg_view_each(valid, len, want, count, change);
    free(valid);
}

static void each_kind_of_damage_is_refused_by_name(void **state)
{
    (void)state;
    each_is_refused(&(tiny_pkg){.rotate = true}, words, sizeof words / sizeof *words, damage);
}

static void each_kind_of_damage_of_integer_operators_is_refused_by_name(void **state)
{
    (void)state;
    each_is_refused(&(tiny_pkg){.rotate = true, .ops_all = true}, words_all,
                    sizeof words_all / sizeof *words_all, damage_all);
}

static void each_kind_of_damage_of_a_long_recipe_is_refused_by_name(void **state)
{
    (void)state;
    each_is_refused(&(tiny_pkg){.long_recipe = true, .dim = 64}, words_recipe,
                    sizeof words_recipe / sizeof *words_recipe, damage_recipe);
}

/* A package that is only looked at tells its recipe, so that is compared with its hash all the same. */
static void a_damaged_long_recipe_is_seen_by_a_look(void **state)
{
    (void)state;
    size_t len;
    bt_pkg *p = NULL;
    bt_fault f = {""};
    uint8_t *b = tiny_pkg_bytes(&len, &(tiny_pkg){.long_recipe = true});
    pkg_view v = pkg_view_of(b, len);
    assert_int_equal(bt_pkg_from_bytes(&p, b, len, NULL, false, NULL, NULL), BT_OK);
    assert_int_equal(strlen(bt_pkg_recipe(p)), 200);
    assert_string_equal(bt_pkg_header_of(p)->recipe, "");
    bt_pkg_close(p);
    p = NULL;
    ((char *)pkg_view_const(&v, v.h->recipe_text))[100] ^= 1;
    assert_int_equal(bt_pkg_from_bytes(&p, b, len, NULL, false, NULL, &f), BT_EFORMAT);
    assert_non_null(strstr(f.text, "damaged (hash)"));
    free(b);
}

static void each_kind_of_damage_of_sparse_attention_is_refused_by_name(void **state)
{
    (void)state;
    each_is_refused(&(tiny_pkg){.sparse = true}, words_sparse, sizeof words_sparse / sizeof *words_sparse,
                    damage_sparse);
}

static void each_kind_of_damage_of_groups_is_refused_by_name(void **state)
{
    (void)state;
    for (uint32_t bits = 4; bits <= 8; bits += 4)
        each_is_refused(&(tiny_pkg){.bits = bits, .group = 32, .dim = 32, .ffn = 64, .head_dim = 16},
                        words_groups, sizeof words_groups / sizeof *words_groups, damage_groups);
}

static void each_kind_of_damage_of_palettes_is_refused_by_name(void **state)
{
    (void)state;
    for (uint32_t bits = 4; bits <= 6; bits += 2)
        each_is_refused(&(tiny_pkg){.bits = bits, .palette_run = 32, .dim = 32, .ffn = 64, .head_dim = 16},
                        words_palettes, sizeof words_palettes / sizeof *words_palettes, damage_palettes);
}

static void attention_in_integers_is_refused_where_it_is_sparse(void **state)
{
    (void)state;
    size_t len;
    uint8_t *b = tiny_pkg_bytes(&len, &(tiny_pkg){.sparse = true, .ops_all = true});
    pkg_view_expect("attends to all positions, and sparse_ppm is 300000", b, len);
    free(b);
}

static void damage_without_a_new_digest_is_refused_wherever_it_is(void **state)
{
    (void)state;
    size_t len;
    bt_pkg *p = NULL;
    uint8_t *b = tiny_pkg_bytes(&len, &(tiny_pkg){.layers = 1});
    for (size_t i = 0; i < len; i++) {
        b[i] ^= 0x10;
        if (bt_pkg_from_bytes(&p, b, len, NULL, true, NULL, NULL) == BT_OK)
            fail_msg("byte %zu of %zu may be changed", i, len);
        b[i] ^= 0x10;
    }
    free(b);
}

static void a_file_cut_anywhere_is_refused(void **state)
{
    (void)state;
    size_t len;
    uint8_t *whole = tiny_pkg_bytes(&len, &(tiny_pkg){.layers = 1});
    for (size_t n = 0; n < len; n += n + 64 < len || n + 1 == len ? 64 : 1) {
        uint8_t *b = tiny_pkg_alloc(n ? n : 1);
        bt_pkg *p = NULL;
        memcpy(b, whole, n);
        if (bt_pkg_from_bytes(&p, b, n, NULL, true, NULL, NULL) != BT_EFORMAT)
            fail_msg("cut to %zu of %zu bytes", n, len);
        free(b);
    }
    free(whole);
}

/* Changed weights pass as those of a file whose state was checked before, and with no other; all else is
 * looked at each time. */
static void what_weights_are_is_looked_at_once_for_each_state_of_a_file(void **state)
{
    (void)state;
    char dir[TEMP_FOLDER_BYTES];
    const bt_file_state one = {.name = "one", .is_settled = true}, two = {.name = "two", .is_settled = true};
    size_t len;
    bt_pkg *p = NULL;
    bt_fault f = {""};
    uint8_t *b = tiny_pkg_bytes(&len, &(tiny_pkg){.layers = 1});
    assert_true(temp_folder_new(dir) && setenv("BATON_CACHE_DIR", dir, 1) == 0);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(bt_pkg_from_bytes(&p, b, len, &one, true, NULL, NULL), BT_OK);
        bt_pkg_close(p);
    }
    pkg_view v = pkg_view_of(b, len);
    uint8_t *weight = b + v.c[pkg_view_tensor(&v, 0, BT_WEIGHT_Q)->panels].offset;
    *weight ^= 1;
    assert_int_equal(bt_pkg_from_bytes(&p, b, len, &one, true, NULL, NULL), BT_OK);
    bt_pkg_close(p);
    assert_int_equal(bt_pkg_from_bytes(&p, b, len, &two, true, NULL, &f), BT_EFORMAT);
    assert_non_null(strstr(f.text, "is damaged (hash)"));
    pkg_view_tensor(&v, 0, BT_WEIGHT_Q)->k++;
    tiny_pkg_repair(b, len);
    assert_int_equal(bt_pkg_from_bytes(&p, b, len, &one, true, NULL, &f), BT_EFORMAT);
    assert_int_equal(temp_folder_remove(dir), 0);
    free(b);
}

static void bytes_at_an_odd_place_are_the_callers_mistake(void **state)
{
    (void)state;
    bt_pkg *p = NULL;
    uint8_t *b = tiny_pkg_alloc(2048);
    assert_int_equal(bt_pkg_from_bytes(&p, b + 8, 1024, NULL, true, NULL, NULL), BT_EARG);
    free(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_kind_of_damage_is_refused_by_name),
        cmocka_unit_test(each_kind_of_damage_of_integer_operators_is_refused_by_name),
        cmocka_unit_test(each_kind_of_damage_of_a_long_recipe_is_refused_by_name),
        cmocka_unit_test(a_damaged_long_recipe_is_seen_by_a_look),
        cmocka_unit_test(each_kind_of_damage_of_sparse_attention_is_refused_by_name),
        cmocka_unit_test(each_kind_of_damage_of_groups_is_refused_by_name),
        cmocka_unit_test(each_kind_of_damage_of_palettes_is_refused_by_name),
        cmocka_unit_test(attention_in_integers_is_refused_where_it_is_sparse),
        cmocka_unit_test(damage_without_a_new_digest_is_refused_wherever_it_is),
        cmocka_unit_test(a_file_cut_anywhere_is_refused),
        cmocka_unit_test(what_weights_are_is_looked_at_once_for_each_state_of_a_file),
        cmocka_unit_test(bytes_at_an_odd_place_are_the_callers_mistake),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
