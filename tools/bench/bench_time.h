#ifndef BT_TOOLS_BENCH_TIME_H
#define BT_TOOLS_BENCH_TIME_H
#include "tools/bench/bench_limits.h"
#include "tools/bench/bench_run.h"

/* A row of the report: so many tokens a second, beside what the machine could do at that moment. */
enum { TOOL_BENCH_MAX_REPETITIONS = 100 };

typedef struct tool_bench_row {
    /* what: given */
    bool prefill;
    size_t tokens;        /* of the prompt; of each sequence */
    size_t depth;         /* tokens that are there before */
    size_t batch;         /* sequences */
    const char *schedule; /* of prompts: one of bt_engine_schedules; NULL: none */
    size_t repetitions;   /* 1 .. TOOL_BENCH_MAX_REPETITIONS */
    /* found */
    const char *engine, *kv;
    char weights[BT_RECIPE_MAX_TEXT]; /* the recipe, or the form */
    size_t threads;
    double seconds[TOOL_BENCH_MAX_REPETITIONS]; /* of a repetition, in the order taken */
    double rate, deviation; /* tokens a second: of the median time; the standard deviation over repetitions */
    double ratio;      /* time at the limit / time taken, each beside its own limits, the median; 0: no limit known */
    const char *limit; /* "int8", "fp32", "read": the one that most of the time at the limit belongs to */
    double int8_ops, fma_flops, read_bytes; /* of the moment, medians; 0 where not held against it */
    double bytes;                           /* read by a step; 0 where prefill */
    double linear_ops, attention_ops;       /* of a repetition, each useful operation counted once */
    double expert_padding; /* share of padding in the rows of experts' programs; below 0: none were run */
} tool_bench_row;

/* "pp512", "tg128 x 16", "pp512 @ 1024", "pp512 fifo" */
void tool_bench_test_name(char ret[64], const tool_bench_row *r);

/* The roofline of a row at these limits, in seconds of a repetition: prefill, linear operations at the int8 peak (at
 * the FP32 peak with float weights) and then attention at the FP32 peak; decoding, the longer of reading and
 * multiplying the linears, at the same peaks, for each step. 0 where a limit that is needed is 0. */
double tool_bench_roofline(const tool_bench_row *r, double int8_ops, double fma_flops, double read_bytes,
                           const char **ret_limit);

/* A row with prefill set, and one without. The engine is that of the setup; m measures with as many threads. One
 * untimed repetition first (decoding: a few steps). */
bt_err tool_bench_time_prefill(tool_bench_row *r, bt_prefill *p, const tool_bench_setup *s, const tool_machine *m,
                               bt_fault *fault);
bt_err tool_bench_time_decode(tool_bench_row *r, bt_decode *d, const tool_bench_setup *s, const tool_machine *m,
                              bt_fault *fault);
#endif
