/* One row for each option of engines and of the nodes around them. */
#include "engine/options.h"
#include "base/num.h"
#include "device/schedule.h"
#include "engine/names.h"
#include "engine/overlap.h"
#include "npu/pkg/shapes.h"

#include <string.h>

#define TEXT_OF(number) #number
#define TEXT(number)    TEXT_OF(number)

static const bt_opt engines[] = {
    {.group = "Model", .name = "engine", .value = "NAME", .type = BT_OPT_CHOICE,
     .def = BT_ENGINE_DEFAULT_PREFILL, .choices = bt_engine_prefill_names,
     .help = "what computes prompts: the integer NPU, f16 kernels, or the plain FP32 oracle"},
    {.group = "Model", .name = "decode-engine", .value = "NAME", .type = BT_OPT_CHOICE, .def = "auto",
     .choices = bt_engine_decode_auto_names,
     .help = "what generates tokens; auto: host, for --engine reference that; npu needs a package with rows "
             "of one token (see --shape-policy)"},
    {.group = "Model", .name = "schedule", .value = "NAME", .type = BT_OPT_CHOICE, .def = "serial",
     .choices = bt_engine_schedules,
     .help = "chunks of a prompt with npu: one by one, or NPU and companion on threads of their own, as a "
             "pipeline or out of order; the bits are the same"},
    {.group = "Model", .name = "arenas", .value = "N", .type = BT_OPT_INT, .def = "4", .lo = 1,
     .hi = BT_SCHEDULE_MAX_WINDOW,
     .help = "chunks of a prompt that are under way at once where their order is not serial; each holds an "
             "arena"},
};
_Static_assert(BT_OVERLAP_WINDOW == 4, "the default of --arenas");
const bt_opt_group bt_engine_opts = BT_OPT_GROUP(engines);

static const bt_opt serving[] = {
    {.group = "Machine", .name = "slots", .value = "N", .type = BT_OPT_INT, .def = "32", .lo = 1, .hi = 1024,
     .help = "sequences that a decode node takes at once"},
    {.group = "Machine", .name = "prefill-slots", .value = "N", .type = BT_OPT_INT, .def = "4", .lo = 1,
     .hi = 1024,
     .help = "prompts that a prefill node takes at once; one computes, the others wait or are sent"},
    {.group = "Machine", .name = "batch-rows", .value = "N", .type = BT_OPT_INT,
     .def = TEXT(BT_ENGINE_BATCH_ROWS), .lo = 1, .hi = 512,
     .help = "rows of one decode step at most: a token each of so many sequences, or fewer with tokens to "
             "replay or drafts"},
    {.group = "Machine", .name = "growth-tokens", .value = "N", .type = BT_OPT_INT, .def = "256", .lo = 0,
     .hi = 1 << 20,
     .help = "tokens of its answer that memory is counted for when a request is taken; it may get more, or "
             "be preempted"},
    {.group = "Machine", .name = "waiting", .value = "N", .type = BT_OPT_INT, .def = "256", .lo = 0,
     .hi = 1024,
     .help = "requests that may wait in a decode node's line for a slot or for memory; one more is refused"},
    {.group = "Machine", .name = "overtake", .value = "N,TIME", .type = BT_OPT_STRING, .def = "32,2s",
     .help = "how many later ones that fit may pass each of those that wait, and for how long after it came; "
             "then free memory is kept for it"},
    {.group = "Machine", .name = "swap-memory", .value = "SIZE", .type = BT_OPT_SIZE, .def = "1G", .lo = 0,
     .hi = INT64_MAX,
     .help = "where a decode node keeps the KV of sequences that it preempts; 0: it is computed again"},
    {.group = "Machine", .name = "speculate", .value = "N", .type = BT_OPT_INT, .def = "0", .lo = 0, .hi = 64,
     .help = "tokens guessed from the text so far and checked in one step, at most; the output is the same"},
    {.group = "Machine", .name = "chunk-tokens", .value = "N", .type = BT_OPT_INT, .def = "256", .lo = 16,
     .hi = 4096,
     .help = "prompt tokens that a decode node computes between two steps, at most: running sequences never "
             "wait longer"},
    {.group = "Machine", .name = "min-overlap", .value = "N", .type = BT_OPT_INT, .def = "64", .lo = 0,
     .hi = 256, .help = "prompts shorter than this many tokens are sent in one piece"},
    {.group = "Machine", .name = "share-tokens", .value = "N", .type = BT_OPT_INT, .def = "256", .lo = 0,
     .hi = BT_SHAPES_MAX_CHUNK,
     .help =
         "waiting prompts with so many tokens left run as one, at most a chunk; 0, or --pace: each alone"},
    {.group = "Machine", .name = "short-tokens", .value = "N", .type = BT_OPT_INT, .def = "2048", .lo = 0,
     .hi = BT_SHAPES_MAX_SEQ,
     .help = "prompts with at most so many tokens to compute run between chunks of longer ones, which keep "
             "half of the node; a prefill slot in four is kept for them; 0, or --pace: by arrival"},
    {.group = "Machine", .name = "window", .value = "SIZE", .type = BT_OPT_SIZE, .def = "64M", .lo = 1 << 20,
     .hi = INT64_C(1) << 34, .help = "KV bytes that one prefill node may have in flight to a decode node"},
};
const bt_opt_group bt_serving_opts = BT_OPT_GROUP(serving);

bt_err bt_overtake_read(uint32_t *ret_times, int64_t *ret_us, const char *text, bt_fault *fault)
{
    enum { TIMES_MOST = 1024, MS_MOST = 600000 };
    char times[8] = "";
    const char *comma = strchr(text, ',');
    const size_t len = comma ? (size_t)(comma - text) : 0;
    int64_t n = 0, ms = 0;
    bt_fault why;
    if (len < sizeof times) memcpy(times, text, len);
    if (bt_num_int(&n, times, 0, TIMES_MOST, &why) < 0 || bt_num_duration(&ms, comma + 1, &why) < 0 ||
        ms > MS_MOST)
        return bt_fail(fault, BT_EARG, "--overtake '%.40s' is no N,TIME with N of 0 to %d and at most %d s",
                       text, TIMES_MOST, MS_MOST / 1000);
    *ret_times = (uint32_t)n;
    *ret_us = ms * 1000;
    return BT_OK;
}
