#ifndef BT_TRACE_SYNTH_H
#define BT_TRACE_SYNTH_H
#include "trace/draw.h"
#include "trace/reader.h"

/* Draws as many requests as wanted that are like those of a trace.
 *
 * What is kept of each row of the trace: the gap before it, both lengths, how many of its blocks an earlier row had
 * (its match), and how many rows ago that was (its lag). Rows are drawn in runs: from one to the next in the trace's
 * order, and with 1 in BT_SYNTH_RUN to any other (the stationary bootstrap of Politis and Romano, 1994), so that bursts
 * and shifts of length stay as they are.
 *
 * The prefix tree grows as it is drawn: a request with match m and lag l takes over the first m blocks of the request
 * drawn l before it (or of the nearest before that one that has so many), and its other blocks are new. So the tree's
 * depths, branches and times of reuse are those of the trace, and it goes on growing however many are drawn.
 *
 * Gaps come from the trace, from a gamma distribution of a rate and a variation, or from ServeGen's rates: in each
 * window rate * length gaps of its family, scaled so that they fill it. */
enum { BT_SYNTH_RUN = 64, BT_SYNTH_MAX_ROWS = 8 << 20, BT_SYNTH_MAX_DRAWS = 64 << 20 };
typedef struct bt_synth bt_synth;

typedef struct bt_synth_gaps {
    double rate; /* requests/s; 0: as in the trace */
    double cv;   /* of gaps; 0: the trace's gaps, slower or faster; 1: Poisson */
    const bt_trace_rate *windows;
    size_t window_len; /* ServeGen's instead: rate and cv are 0 */
} bt_synth_gaps;

bt_err bt_synth_new(bt_synth **ret, bt_fault *fault);
void bt_synth_free(bt_synth *s); /* NULL is fine */
/* BT_EARG: a row without an answer's length, or with a delay or no time among rows with times; BT_ELIMIT: more than
 * BT_SYNTH_MAX_ROWS, or too many ids. */
bt_err bt_synth_fit(bt_synth *s, const bt_trace_row *row, bt_fault *fault);
/* After the last row: how to draw. BT_EARG: nothing to draw from, or no gaps (the trace has no times and none are
 * given), or windows without a request. */
bt_err bt_synth_start(bt_synth *s, uint64_t seed, const bt_synth_gaps *gaps, bt_fault *fault);
/* The next request; its hashes live until the next call. *is_end: the windows are over. BT_ELIMIT, BT_ENOMEM. */
bt_err bt_synth_draw(bt_trace_row *ret, bool *is_end, bt_synth *s, bt_fault *fault);
uint64_t bt_synth_shortened(const bt_synth *s); /* requests whose match was cut, for none before had so many blocks */
uint64_t bt_synth_out_of_order(const bt_synth *s); /* rows of the trace before their predecessor; their gap is 0 */
#endif
