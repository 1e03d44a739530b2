/* The dispatch table: which variants this build has, and which of them this machine can run. */
#include "kernels/kernels.h"
#include "kernels/attn_scratch.h"
#include "kernels/ref.h"

#include <string.h>

#define ROW(isa, usable)                                                                                           \
    { #isa, usable, bt_matmul_##isa, bt_rmsnorm_##isa, bt_add_##isa, bt_silu_mul_##isa, bt_rope_##isa,              \
      bt_f32_to_f16_##isa, bt_f16_to_f32_##isa, bt_attn_##isa }

static int always(void) { return 1; }

const bt_kernels  bt_kernels_table[] = { ROW(ref, always) };
const char *bt_kernels_names(void) { return "ref"; }
const size_t bt_kernels_table_len = sizeof bt_kernels_table / sizeof bt_kernels_table[0];

const bt_kernels *bt_kernels_select(const char *isa)
{
    const int any = !isa || !strcmp(isa, "auto");
    for (size_t i = 0; i < bt_kernels_table_len; i++) {
        const bt_kernels *k = &bt_kernels_table[i];
        if ((any || !strcmp(isa, k->isa)) && k->usable()) return k;
    }
    return NULL;
}

size_t bt_attn_scratch_bytes(size_t head_dim) { return attn_scratch_floats(head_dim) * sizeof(float); }
