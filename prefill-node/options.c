/* The rows of a prefill node. */
#include "prefill-node/options.h"
#include "engine/options.h"
#include "prefill-node/brain/brain.h"

_Static_assert(PF_BLOCK_TOKENS == 256, "the upper end of --min-overlap");

static const bt_opt rows[] = {
    {.of = &bt_serving_opts, .name = "prefill-slots", BT_OPT_AT(pf_options, slots)},
    {.of = &bt_serving_opts, .name = "min-overlap", BT_OPT_AT(pf_options, min_overlap_tokens)},
    {.of = &bt_serving_opts, .name = "share-tokens", BT_OPT_AT(pf_options, share_tokens)},
    {.of = &bt_serving_opts, .name = "short-tokens", BT_OPT_AT(pf_options, short_tokens)},
    {.of = &bt_engine_opts, .name = "schedule", BT_OPT_AT(pf_options, schedule)},
};
const bt_opt_group pf_opts = BT_OPT_GROUP(rows);
