#ifndef BT_LAB_TIMELINE_MODELLED_H
#define BT_LAB_TIMELINE_MODELLED_H
#include "device/forecast.h"
#include "device/link.h"
#include "device/price.h"
#include "device/schedule.h"
#include "npu/price/price_pkg.h"
#include "lab/timeline/timeline.h"

/* One request on modelled devices: the prompt's stages on an NPU and its companion by a schedule, each layer's KV over
 * a link as soon as its chunk has stored it, and the answer's steps on the decode device. Nothing is measured.
 *
 *   token 0 is there when the last chunk has ended; decoding begins when the last KV has arrived, too
 *   the link sends one message a layer and chunk, in the order in which they are ready
 *   step i reads the KV of prompt + i positions */
typedef struct tool_modelled_plan {
    bt_price_pkg *price; /* of the package, on an NPU and its companion; borrowed */
    bt_link link;
    const bt_profile *decode; /* with times */
    bt_price_model model;     /* of its steps */
    uint64_t kv_token_bytes;  /* of a position on the link; 0: f16 */
    size_t prompt_tokens, answer_tokens;
    size_t window; /* chunks at once */
} tool_modelled_plan;

typedef struct tool_modelled_result {
    bt_schedule_result schedule[BT_STAGE_POLICIES]; /* by bt_schedule_policy, and BT_STAGE_SPLIT */
    int policy;                                     /* the policy of the fields below */
    uint64_t ways[BT_SPLIT_WAYS];                   /* under BT_STAGE_SPLIT: linears by their best way */
    size_t chunks, stages;
    uint64_t ttft_ns, kv_bytes, link_busy_ns, exposed_ns, decode_ns, end_ns;
} tool_modelled_result;

enum { TOOL_MODELLED_MAX_TASKS = 1 << 20 }; /* stages of all chunks */
enum { TOOL_TRACK_NPU, TOOL_TRACK_COMPANION, TOOL_TRACK_LINK, TOOL_TRACK_DECODE, TOOL_TRACKS };
enum {
    TOOL_KIND_NPU,
    TOOL_KIND_ATTENTION,
    TOOL_KIND_COMPANION,
    TOOL_KIND_DIVIDED,
    TOOL_KIND_TRANSFER,
    TOOL_KIND_STEP,
    TOOL_KINDS
};

/* How far the first token of this model, or a later one, may be off (device/forecast.h): the NPU's calibration has its
 * companion. Programs make the first token, steps the later ones. */
bt_forecast_error tool_modelled_error(const bt_profile *device, const bt_dims *model, bt_figure kind,
                                      size_t prompt_tokens, size_t answer_tokens);

/* All policies are played; spans are those of `policy`; where that is < 0, of the shortest, among equals the first.
 * *span[*spans]: the caller frees. BT_ELIMIT: a prompt with more tasks, or an answer with more steps, than are kept;
 * BT_EARG, BT_ENOMEM. */
bt_err tool_modelled_play(tool_modelled_result *ret, tool_timeline_span **span, size_t *spans,
                          const tool_modelled_plan *p, int policy, bt_fault *fault);
#endif
