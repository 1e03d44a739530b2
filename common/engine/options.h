#ifndef BT_ENGINE_OPTIONS_H
#define BT_ENGINE_OPTIONS_H
#include "base/opt.h"

/* Rows that programs have which run engines, start nodes that do, or simulate them; used by their names. Who uses one
 * says where its value lies. */
extern const bt_opt_group bt_engine_opts; /* engine, decode-engine, schedule, arenas */
/* Limits of a node: slots, prefill-slots, batch-rows, growth-tokens, waiting, overtake, swap-memory, speculate,
 * chunk-tokens, min-overlap, share-tokens, window. */
extern const bt_opt_group bt_serving_opts;
/* The value of --overtake, "32,2s". BT_EARG with words that name the option. */
bt_err bt_overtake_read(uint32_t *ret_times, int64_t *ret_us, const char *text, bt_fault *fault);
#endif
