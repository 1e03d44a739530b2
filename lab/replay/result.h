#ifndef BT_LAB_REPLAY_RESULT_H
#define BT_LAB_REPLAY_RESULT_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "trace/hist.h"

/* The measurements of a replay, and their figures. Pure: times are arguments.
 *
 * Every latency counts from the moment at which a request should have been sent, not from when it was sent: a server
 * that stalls, or a late generator, cannot hide what users would have waited. */
enum { TOOL_REPLAY_OK = 0, TOOL_REPLAY_MAX_KINDS = 48, TOOL_REPLAY_KIND_BYTES = 40, TOOL_REPLAY_MAX_NODES = 8192 };
enum { TOOL_REPLAY_TRACKS = 64, TOOL_REPLAY_NOBODY = UINT16_MAX };

/* One request. Times are microseconds since the beginning; -1: the request did not come so far, or the server does not
 * say. */
typedef struct tool_replay_record {
    uint32_t item;                     /* of the plan */
    uint8_t kind;                      /* OK, or which failure (result's kind table) */
    uint16_t node;                     /* the node that computed the prompt, in result's node table; NOBODY: unknown */
    bool is_short;                     /* OK, but with fewer tokens than were asked for */
    bool was_compared, is_equal;       /* with the captured answer */
    uint32_t want_prompt, want_output; /* tokens asked for */
    uint32_t prompt_tokens, cached_tokens, completion_tokens; /* as the server counted them; 0: it gave no count */
    uint32_t events;                                          /* pieces of text that came */
    int64_t due_us, sent_us, first_us, last_us, end_us;       /* first and last piece of text */
    /* Durations in the answers of Baton's gateway. server_ttft_us consists of gateway_queue_us, reserve_us (waiting for
     * room on the decode node), queue_us (at the node that computes the prompt) and prefill_us. exposed_us is the
     * hand-off from the last layer on, transfer_us the hand-off from the first block on. */
    int64_t gateway_queue_us, reserve_us, queue_us, server_ttft_us, prefill_us, exposed_us, transfer_us, decode_us;
    int64_t paced_us, pace_late_us; /* with --pace: the time that devices would take, and how much longer the request
                                       took; */
    int64_t prompt_late_us;         /* of that, in its prompt */
    int64_t stall_us, stall_at_us;  /* the longest gap between two pieces, and where it began */
    uint32_t chunk, chunks; /* place in the result's chunks, and how many; 0: the server gave none, or there was no room
                             */
} tool_replay_record;
/* The record of a request that was due and got no answer: due_us is its only time. */
tool_replay_record tool_replay_record_due(uint32_t item, uint32_t want_prompt, uint32_t want_output, int64_t due_us);

/* Part of a prompt's computation, from the answers of Baton's gateway: times from the begin of the prompt's first part
 * on; `chunks`: how many chunks this part stands for. */
typedef struct tool_replay_chunk {
    uint32_t tokens, begin_us, end_us, chunks;
} tool_replay_chunk;
enum { TOOL_REPLAY_MAX_CHUNKS = 32, TOOL_REPLAY_ALL_CHUNKS = 1 << 20 }; /* of an answer; of a run */

/* Counts over time in a bounded number of columns, whose width doubles as the run goes on. */
enum { TOOL_REPLAY_COLUMNS = 240, TOOL_REPLAY_HEAT_ROWS = 40 };
typedef struct tool_replay_heat {
    int64_t width_us;
    uint32_t columns; /* in use */
    /* row r: gaps of 2^(r / 2 + 6) us (64 us) and more, the last row all above */
    uint32_t count[TOOL_REPLAY_COLUMNS][TOOL_REPLAY_HEAT_ROWS];
} tool_replay_heat;

/* A node, and the sums of its samples. A page shows tracks over time: each node has a track of its own, or shares one
 * with others of its kind where there are more nodes than tracks. */
typedef struct tool_replay_node {
    char id[72], role[16];
    uint32_t slots;
    uint16_t track;          /* NOBODY: none is left */
    uint64_t pages, windows; /* of KV when it was looked at last; windows: of window layers */
    double slots_used, queued, pages_ratio, windows_ratio; /* sums over samples */
} tool_replay_node;
typedef struct tool_replay_track {
    char name[72];
    uint32_t nodes, slots;
} tool_replay_track;

/* A sample of the gateway's state. */
typedef struct tool_replay_sample {
    int64_t at_us;
    uint32_t in_flight; /* of this generator */
    uint32_t waiting, running;
    uint32_t slots_used[TOOL_REPLAY_TRACKS], queued[TOOL_REPLAY_TRACKS]; /* by track */
    float pages_ratio[TOOL_REPLAY_TRACKS];
} tool_replay_sample;
enum { TOOL_REPLAY_MAX_SAMPLES = 4096 };

typedef struct tool_replay_result {
    tool_replay_record *record;
    size_t len, cap;
    tool_replay_chunk *chunk;
    size_t chunks, chunks_cap;
    char kind[TOOL_REPLAY_MAX_KINDS][TOOL_REPLAY_KIND_BYTES]; /* kind[0]: "ok" */
    uint64_t kind_count[TOOL_REPLAY_MAX_KINDS];
    size_t kinds;
    tool_replay_node *node;
    size_t nodes, nodes_cap;
    tool_replay_track track[TOOL_REPLAY_TRACKS];
    size_t tracks;
    size_t looks;         /* samples taken, dropped ones included */
    bt_trace_hist itl_us; /* between two pieces of text of one answer */
    tool_replay_heat heat;
    tool_replay_sample *sample;
    size_t samples;
    int64_t sample_every_us; /* doubles when the table is full */
    int64_t end_us;          /* the last answer's end */
    int64_t cpu_us;          /* of this process while it ran */
    uint32_t most_streams;   /* at a time */
    bool hit_streams_limit;  /* requests waited because no more streams are allowed */
} tool_replay_result;

bt_err tool_replay_result_begin(tool_replay_result *r, size_t requests, bt_fault *fault);
void tool_replay_result_done(tool_replay_result *r);
/* The number of a failure by its name; the last number where the table is full. */
uint8_t tool_replay_result_kind(tool_replay_result *r, const char *name);
/* The number of a node; TOOL_REPLAY_MAX_NODES: the table is full, or memory. A new one gets a track of its own where
 * one is left. */
size_t tool_replay_result_node(tool_replay_result *r, const char *id, const char *role);
/* Adds a node, whose id is new, with the track of that name. */
size_t tool_replay_result_node_of(tool_replay_result *r, const char *id, const char *role, const char *track);
void tool_replay_result_slots(tool_replay_result *r, size_t node, uint32_t slots);
/* A node's figures, as /v1/status has them. */
typedef struct tool_replay_look {
    uint32_t slots_used, queued;
    uint64_t pages, pages_used, windows, windows_used; /* windows: pages of window layers; 0: there are none */
} tool_replay_look;
/* Adds them to a sample, once for each node. */
void tool_replay_result_look(tool_replay_result *r, tool_replay_sample *s, size_t node, const tool_replay_look *look);
void tool_replay_result_gap(tool_replay_result *r, int64_t at_us, int64_t gap_us);
void tool_replay_result_add(tool_replay_result *r, const tool_replay_record *one); /* counts its kind */
/* Keeps a record's chunks; without room or memory the record has none. */
void tool_replay_result_chunks(tool_replay_result *r, tool_replay_record *one, const tool_replay_chunk *chunk,
                               size_t chunks);
/* The place of the next sample; without room, half of the samples are dropped. */
tool_replay_sample *tool_replay_result_sample(tool_replay_result *r);

/* Limits that a request has to keep, in microseconds; -1: none. */
typedef struct tool_replay_slo {
    int64_t ttft_us, tpot_us, e2e_us;
} tool_replay_slo;
/* "ttft:500ms,tpot:50ms,e2e:10s"; us, ms or s. BT_EARG. */
bt_err tool_replay_slo_read(tool_replay_slo *ret, const char *text, bt_fault *fault);

typedef struct tool_replay_spread {
    size_t n;
    double mean, p50, p90, p99, p999, max; /* nearest ranks: the ceil(n * share)-th in ascending order */
} tool_replay_spread;
/* Sorts the values. */
tool_replay_spread tool_replay_spread_of(double *value, size_t n);

/* The figure of one request; -1: none. */
int64_t tool_replay_ttft_us(const tool_replay_record *r);
int64_t tool_replay_tpot_us(const tool_replay_record *r); /* first to last piece over the tokens behind the first */
int64_t tool_replay_e2e_us(const tool_replay_record *r);
int64_t tool_replay_late_us(const tool_replay_record *r);
bool tool_replay_meets(const tool_replay_record *r, const tool_replay_slo *slo);

/* By how much the times of a paced run can be too long at most, because work was late: the host was measured in it, and
 * not the devices. Work of a prompt delays the prompt, and others that came while requests were in flight without a
 * gap; a step delays the answers in it. */
typedef struct tool_replay_move {
    double mean_ms, worst_ms; /* of the mean; of one request, and so of any percentile */
} tool_replay_move;
typedef struct tool_replay_moved {
    tool_replay_move ttft, tpot, e2e;
} tool_replay_moved;

typedef struct tool_replay_figures {
    size_t requests, completed, failed, good, shorter, off_prompts, compared, equal;
    double seconds; /* from the first due time to the last end */
    double requests_per_s, goodput_per_s, input_per_s, output_per_s;
    uint64_t input_tokens, cached_tokens, output_tokens;
    tool_replay_spread ttft_ms, tpot_ms, itl_ms, e2e_ms, gateway_queue_ms, reserve_ms, queue_ms, exposed_ms, late_ms;
    double busy_ratio;           /* of one core: CPU time over time */
    double paced_s, pace_late_s; /* of all answers, with --pace; 0: no answer has it */
    tool_replay_moved moved;     /* likewise */
    bool is_bottleneck;          /* the generator itself was late, busy or out of streams */
    char bottleneck[160];        /* why */
} tool_replay_figures;
/* slo NULL: all completed requests are good. BT_ENOMEM. */
bt_err tool_replay_figures_of(tool_replay_figures *ret, const tool_replay_result *r, const tool_replay_slo *slo,
                              bt_fault *fault);
#endif
