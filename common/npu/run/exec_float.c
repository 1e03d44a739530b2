/* Rounds the rows that the NPU's operators in floats have written to 16-bit floats. These operators are the
 * companion's functions, so their sums are FP32 in the one order. The rows that they read were rounded
 * before. */
#include "npu/run/exec_private.h"

static bt_round16 form_of(const bt_exec_job *j) { return (bt_round16)j->x->header->float_form; }

/* ---- attention ----
 * Rounds the heads of the slice in all rows. Rows of other slices are written later, or rounded twice, which
 * changes nothing. */

static void round_heads(void *ud, const void *what, const float *none, size_t r0, size_t n, void *scratch)
{
    const bt_exec_job *j = ud;
    const bt_pkg_inst *i = what;
    const bt_pkg_slice s = bt_exec_job_slice(j, i);
    const size_t d = j->x->header->head_dim, ld = bt_exec_ld_out(i, sizeof(float));
    float *out = (float *)bt_exec_at(j, i->out) + r0 * ld + s.head * d;
    (void)none, (void)scratch;
    bt_round16_rows(j->x->companion.kernels, form_of(j), out, ld, out, ld, n, s.heads * d);
}

static void round_attention(bt_exec_job *j, const bt_pkg_inst *i)
{
    const bt_companion_area area = {bt_exec_at(j, i->out), i->out_stride, true};
    bt_companion_step(&j->x->companion, bt_exec_rows(j, i), i->out_width, NULL, &area, 1, round_heads, j, i);
}

/* ---- linears: rows in the arena, or the caller's logits ---- */

static void round_logits(void *ud, const void *what, const float *none, size_t r0, size_t n, void *scratch)
{
    const bt_exec_job *j = ud;
    const bt_pkg_inst *i = what;
    const size_t ld = bt_exec_ld_out(i, sizeof(float));
    float *out = bt_exec_linear_out(j, i) + r0 * ld;
    (void)none, (void)scratch;
    bt_round16_rows(j->x->companion.kernels, form_of(j), out, ld, out, ld, n, i->out_width);
}

void bt_exec_float_round(bt_exec_job *j, const bt_pkg_inst *i)
{
    const bt_companion *c = &j->x->companion;
    const bt_companion_area none = {0};
    if (!bt_pkg_writes_float16(i) || i->op == BT_PKG_ROUND16) return; /* integers, or rounded */
    if (bt_pkg_is_attention(i)) {
        round_attention(j, i);
        return;
    }
    for (size_t g = 0; g < i->group; g++) {
        float *out = bt_exec_at(j, i[g].out);
        if (out) bt_companion_round(c, form_of(j), out, out, bt_exec_rows(j, i), i[g].out_width);
        else if (bt_exec_linear_rows(j, &i[g]))
            bt_companion_step(c, bt_exec_linear_rows(j, &i[g]), i[g].out_width, NULL, &none, 0, round_logits,
                              j, &i[g]);
    }
}
