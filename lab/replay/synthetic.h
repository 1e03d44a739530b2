#ifndef BT_LAB_REPLAY_SYNTHETIC_H
#define BT_LAB_REPLAY_SYNTHETIC_H
#include "lab/replay/plan.h"

/* Load without a trace, from one line such as in:512,out:128,rate:4,burst:0.5,shared:256
 *
 *   in, out  tokens of prompt and answer: N; LO-HI, any of them equally often; N~S, lognormal with median N and the
 *            deviation S of the logarithm
 *   rate     requests a second; absent: no arrivals, for --concurrency
 *   burst    shape of the gamma distribution of gaps, as vLLM's --burstiness: 1 (absent) is Poisson, less comes in
 *            bursts, more is steadier. The variation of gaps is 1 / sqrt(burst)
 *   shared   tokens of the prefix that all prompts share */
typedef struct tool_replay_lengths {
    enum { TOOL_REPLAY_FIXED, TOOL_REPLAY_UNIFORM, TOOL_REPLAY_LOGNORMAL } kind;
    double a, b; /* length; lowest and highest; median and deviation */
} tool_replay_lengths;

typedef struct tool_replay_synthetic {
    tool_replay_lengths in, out;
    double rate, burst; /* rate 0: none */
    uint32_t shared_tokens;
} tool_replay_synthetic;

enum { TOOL_REPLAY_MAX_LENGTH = 1 << 20 }; /* greater draws count as this */

/* BT_EARG names the wrong part and the valid forms. */
bt_err tool_replay_synthetic_read(tool_replay_synthetic *ret, const char *text, bt_fault *fault);
/* n requests into a plan that was begun. */
bt_err tool_replay_synthetic_draw(tool_replay_plan *p, const tool_replay_synthetic *s, size_t n, uint64_t seed,
                                  bt_fault *fault);
#endif
