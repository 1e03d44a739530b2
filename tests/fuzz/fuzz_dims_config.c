/* Any bytes as a config.json: sizes that are accepted are within their bounds, and every sum over them fits.
 */
#include "device/dims.h"
#include "device/price.h"

#include <stdlib.h>
#include <string.h>

static void check_price(const bt_dims *d)
{
    const bt_price_recipe f16 = {.weight_bits = 16, .input_bits = 16, .kv_elem_bits = 16};
    const bt_price_model m = bt_price_model_of(d, &f16);
    const uint64_t body = bt_dims_body(d), head = bt_dims_head(d), idle = bt_dims_idle(d);
    if (!body || body >> 60 || idle >> 60 || bt_dims_weights(d) < body + head + idle) abort();
    if (m.weight_bytes != 2 * (body + head) || m.idle_bytes != 2 * idle || !m.kv_bytes) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    bt_dims d;
    uint32_t ctx;
    bt_dims_ignored all[BT_DIMS_IGNORED];
    bt_fault fault = {""};
    if (bt_dims_config_parse(&d, &ctx, (const char *)data, len, &fault) < 0) {
        for (const char *c = fault.text; *c; c++)
            if (*c < 0x20 || *c > 0x7e) abort(); /* it goes to a terminal */
        return 0;
    }
    if (!d.layers || d.layers > BT_DIMS_MAX_LAYERS || !d.hidden || !d.ffn || !d.heads || !d.kv_heads ||
        !d.head_dim || !d.vocab || d.heads % d.kv_heads || (d.ffn_matrices != 2 && d.ffn_matrices != 3))
        abort();
    if (d.windowed > d.layers || !d.window != !d.windowed || (ctx && d.window >= ctx)) abort();
    if (d.experts_used > d.experts || d.expert_layers > d.layers || !d.experts != !d.experts_used) abort();
    check_price(&d);
    const size_t n = bt_dims_ignored_of(all, &d);
    if (n > BT_DIMS_IGNORED) abort();
    for (size_t i = 0; i < n; i++)
        if (!all[i].field[0] || !all[i].effect[0] || strlen(all[i].effect) + 1 == sizeof all[i].effect)
            abort();
    return 0;
}
