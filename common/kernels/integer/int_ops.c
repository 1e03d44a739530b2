/* The scalar integer functions, and what every variant of the integer operators must know. */
#include "kernels/int_ops.h"
#include "kernels/integer/int_ops_attn.h"
#include "kernels/integer/int_ops_math.h"

int32_t bt_int_exp(int32_t a) { return int_exp(a); }
int32_t bt_int_one_over_one_plus(int32_t a) { return int_one_over_one_plus(a); }

/* One bit of the root at a time. */
uint32_t bt_int_isqrt(uint64_t v)
{
    uint64_t root = 0;
    for (uint64_t bit = UINT64_C(1) << 62; bit; bit >>= 2) {
        const uint64_t try = root + bit;
        root >>= 1;
        if (v >= try) v -= try, root += bit;
    }
    return (uint32_t)root;
}

size_t bt_int_attention_scratch_bytes(size_t head_dim, size_t tokens)
{
    const int_attn_scratch s = int_attn_scratch_plan(head_dim, tokens);
    return s.bytes;
}
