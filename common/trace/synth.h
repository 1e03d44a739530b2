#ifndef BT_TRACE_SYNTH_H
#define BT_TRACE_SYNTH_H
#include "trace/draw.h"
#include "trace/reader.h"

/* Draws any number of requests that are like those of a trace.
 *
 * Each row of the trace leaves: the gap before it, both lengths, how many of its blocks an earlier row had (its match),
 * and how many rows ago that was (its lag). Rows are drawn in runs: after each row comes the next of the trace, or,
 * once in BT_SYNTH_RUN draws, any other row (the stationary bootstrap of Politis and Romano, 1994). So bursts and
 * shifts of length stay as they are.
 *
 * The prefix tree grows as it is drawn: a request with match m and lag l takes over the first m blocks of the request
 * drawn l before it (or of the nearest request before that one with m blocks), and its other blocks are new. So the
 * tree has the depths, branches and times of reuse of the trace, and grows with every draw.
 *
 * Gaps come from the trace, from a gamma distribution of a rate and a variation, or from ServeGen's rates: each window
 * gets rate * length gaps of its family, scaled so that they fill the window. */
enum { BT_SYNTH_RUN = 64, BT_SYNTH_MAX_ROWS = 8 << 20, BT_SYNTH_MAX_DRAWS = 64 << 20 };
typedef struct bt_synth bt_synth;

typedef struct bt_synth_gaps {
    double rate; /* requests/s; 0: as in the trace */
    double cv;   /* of gaps; 0: the trace's gaps, slower or faster; 1: Poisson */
    const bt_trace_rate *windows;
    size_t window_len; /* ServeGen's windows; then rate and cv are 0 */
} bt_synth_gaps;

bt_err bt_synth_new(bt_synth **ret, bt_fault *fault);
void bt_synth_free(bt_synth *s); /* NULL is fine */
/* BT_EARG: a row without an answer's length, or a row with a delay or without a time among rows with times; BT_ELIMIT:
 * more than BT_SYNTH_MAX_ROWS, or too many ids. */
bt_err bt_synth_fit(bt_synth *s, const bt_trace_row *row, bt_fault *fault);
/* After the last row: sets how to draw. BT_EARG: nothing to draw from, or no gaps (neither the trace nor the caller
 * gives any), or windows without a request. */
bt_err bt_synth_start(bt_synth *s, uint64_t seed, const bt_synth_gaps *gaps, bt_fault *fault);
/* The next request; its hashes live until the next call. *is_end: the windows are over. BT_ELIMIT, BT_ENOMEM. */
bt_err bt_synth_draw(bt_trace_row *ret, bool *is_end, bt_synth *s, bt_fault *fault);
uint64_t bt_synth_shortened(const bt_synth *s); /* requests whose match was cut because no earlier request had so many
                                                   blocks */
uint64_t bt_synth_out_of_order(const bt_synth *s); /* rows of the trace with an earlier arrival than the row before;
                                                      their gap is 0 */
#endif
