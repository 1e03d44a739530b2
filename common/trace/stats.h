#ifndef BT_TRACE_STATS_H
#define BT_TRACE_STATS_H
#include "trace/hist.h"
#include "trace/map.h"
#include "trace/row.h"

/* Statistics of a trace, from one pass over its rows, in bounded memory.
 *
 * Gaps are between arrivals in ascending order; a row that comes too early by more than BT_TRACE_STATS_WINDOW places is
 * counted as out of order, and its gap is 0. The variation of gaps is their standard deviation over their mean (1:
 * Poisson). A block hits where an earlier request had it and all blocks before it in its prompt: a cache of any size
 * would save at most these blocks. */
enum { BT_TRACE_STATS_WINDOW = 4096, BT_TRACE_STATS_BINS = 240 };

/* Things over time in at most 240 bins, whose width doubles as the trace goes on. */
typedef struct bt_trace_bins {
    int64_t width_us;
    size_t len; /* bins in use */
    struct bt_trace_bin {
        uint64_t requests, input_tokens, output_tokens, blocks, hit_blocks;
    } bin[BT_TRACE_STATS_BINS];
} bt_trace_bins;

typedef struct bt_trace_stats {
    uint64_t requests, failed, arrivals, delays, turns, sessions;
    uint64_t outcome[BT_TRACE_OUTCOMES];
    bt_trace_hist input, output, gap_us; /* output: of rows that have one */
    bt_trace_hist ttft_us, total_us;     /* of captures */
    int64_t first_us, last_us;           /* arrivals */
    uint64_t out_of_order;
    uint64_t blocks, hit_blocks, hashed; /* hashed: rows with hashes */
    bool is_over_limit; /* more ids than bt_trace_map holds: the counts of hits and sessions are too low */
    uint64_t least_block, most_block; /* the range of block sizes that fit every row so far */
    uint32_t block_tokens;            /* from the format; 0: it does not say */
    bt_trace_bins bins;
    double gap_sum, gap_squares; /* private from here */
    bt_trace_map seen, talks;
    int64_t *heap;
    size_t heap_len;
    bool has_gap_from;
    int64_t gap_from_us;
} bt_trace_stats;

bt_err bt_trace_stats_begin(bt_trace_stats *s, bt_fault *fault);
void bt_trace_stats_done(bt_trace_stats *s); /* zeroed is fine */
bt_err bt_trace_stats_add(bt_trace_stats *s, const bt_trace_row *row, bt_fault *fault);
void bt_trace_stats_end(bt_trace_stats *s); /* after the last row, before the functions below */

double bt_trace_stats_span_s(const bt_trace_stats *s);
double bt_trace_stats_gap_cv(const bt_trace_stats *s);    /* -1: fewer than three arrivals, or all at once */
double bt_trace_stats_hit_ratio(const bt_trace_stats *s); /* -1: no hashes, or more ids than the limit */
/* Tokens of a block: the format's, else the one power of two (or the one number) b that fits every row: a row of n
 * tokens has ceil(n / b) hashes. 0: no number fits, or several do. */
uint32_t bt_trace_stats_block(const bt_trace_stats *s);
#endif
