/* Shares of positions: proportional to importance, and at most all positions. */
#include "npu/quant/shares.h"
#include "npu/pkg/attention.h"

#include <math.h>
#include <stdbool.h>

static const double LEAST = 1e-3;

static double weight(double importance, double greatest)
{
    const double w = greatest > 0 ? importance / greatest : 1;
    return w > LEAST ? w : LEAST; /* a NaN gives LEAST too */
}

void bt_shares(uint32_t *ret_ppm, const double *importance, size_t n, uint32_t ratio_ppm)
{
    double greatest = 0, budget = (double)ratio_ppm * (double)n, sum = 0;
    for (size_t i = 0; i < n; i++)
        if (importance[i] > greatest && isfinite(importance[i])) greatest = importance[i];
    for (size_t i = 0; i < n; i++) sum += weight(importance[i], greatest), ret_ppm[i] = 0;
    for (bool full = true; full;) { /* cap heads that would get more than all, until none would */
        const double unit = budget / sum;
        full = false;
        for (size_t i = 0; i < n; i++) {
            const double w = weight(importance[i], greatest);
            if (ret_ppm[i] || w * unit < BT_ATTENTION_ALL_PPM) continue;
            ret_ppm[i] = BT_ATTENTION_ALL_PPM;
            budget -= BT_ATTENTION_ALL_PPM;
            sum -= w;
            full = true;
        }
    }
    for (size_t i = 0; i < n; i++) {
        if (ret_ppm[i]) continue;
        const double share = rint(weight(importance[i], greatest) * budget / sum);
        ret_ppm[i] = share < 1 ? 1 : share > BT_ATTENTION_ALL_PPM ? BT_ATTENTION_ALL_PPM : (uint32_t)share;
    }
}
