/* See script.h. */
#include "tests/fault/script.h"
#include "base/rng.h"

#include <math.h>

enum { FATE_SALT = 1, WHERE_SALT = 2, LIFE_SALT = 3 };

uint64_t script_mix(uint64_t a, uint64_t b) { return bt_rng_u64(a, b); }

fate script_fate(const script *s, uint64_t stream, uint64_t index)
{
    const double shares[] = {[FATE_DELAY] = s->delay,
                             [FATE_DROP] = s->drop,
                             [FATE_REPEAT] = s->repeat,
                             [FATE_REORDER] = s->reorder,
                             [FATE_CORRUPT] = s->corrupt};
    const uint64_t seed = script_mix(s->seed, stream);
    double u = bt_rng_uniform(script_mix(seed, FATE_SALT), index);
    fate f = {FATE_PASS, bt_rng_u64(script_mix(seed, WHERE_SALT), index)};
    for (int k = FATE_DELAY; k < FATE_KINDS; k++) {
        if (u < shares[k]) {
            f.kind = (fate_kind)k;
            break;
        }
        u -= shares[k];
    }
    return f;
}

int64_t script_life_ms(const script *s, uint64_t connection)
{
    if (s->cut_ms <= 0) return -1;
    const double u = bt_rng_uniform(script_mix(s->seed, LIFE_SALT), connection);
    return 1 + (int64_t)(-log(1.0 - u) * (double)s->cut_ms);
}
