#ifndef BT_DEVICE_LINK_H
#define BT_DEVICE_LINK_H
#include <stdbool.h>
#include <stdint.h>
#include "base/err.h"
#include "device/dims.h"

/* A link between two nodes: its rate, and the latency of a message. The rate is the goodput, of which messages have
 * all, or with a share the line rate, of which they have that share beside headers and gaps. */
typedef struct bt_link {
    uint64_t bits_per_us;
    uint32_t latency_ns;
    uint32_t share_permille; /* 0: bits_per_us is the goodput */
} bt_link;

/* A rate, and behind commas a message's latency and a share: "10", "2.5gbe", "20mbit", "10,50us", "20mbit,50us,0.946".
 * The rate is in Gbit/s, 0.001 to 10,000 with at most three decimals; with "mbit" in whole Mbit/s, 1 to 10,000. The
 * latency is in microseconds, at most 1,000,000; the share, which makes the rate a line rate, from 0.5 to 1. BT_EARG
 * names these forms. */
bt_err bt_link_parse(bt_link *ret, const char *text, bt_fault *fault);
/* For people: "10 Gbit/s", "20 Mbit/s line rate (18.92 goodput), 50 us". */
enum { BT_LINK_MAX_TEXT = 80 };
void bt_link_text(char ret[BT_LINK_MAX_TEXT], const bt_link *l);
/* ns of one message; at most INT64_MAX. */
uint64_t bt_link_ns(const bt_link *l, uint64_t bytes);

/* The KV that a model's prompts send. A layer sends all rows, one with a window those from bt_kv_first_sent on
 * (kernels/kv_view.h). */
typedef struct bt_link_kv {
    uint32_t layers;
    uint32_t window, global_every; /* as bt_dims_global_every; window 0: every layer sends all rows */
    uint64_t layer_bytes;          /* of a position in one layer */
} bt_link_kv;
/* position_bytes: in all layers. Windows in a pattern that no node has count as none. */
bt_link_kv bt_link_kv_of(const bt_dims *s, uint64_t position_bytes);
/* Rows that a layer sends which sees all positions, and one with a window. */
typedef struct bt_link_rows {
    uint64_t all, window;
} bt_link_rows;
/* Rows [begin, end) of a prompt of so many tokens, begin <= end, as they are sent. */
bt_link_rows bt_link_rows_of(const bt_link_kv *kv, uint64_t begin, uint64_t end, uint64_t tokens);
/* Whether a layer sends all rows; its part of such rows; and the bytes of all layers' parts. */
bool bt_link_sends_all(const bt_link_kv *kv, uint32_t layer);
uint64_t bt_link_layer_rows(const bt_link_kv *kv, const bt_link_rows *rows, uint32_t layer);
uint64_t bt_link_bytes(const bt_link_kv *kv, const bt_link_rows *rows);

/* Rows of KV that leave layer by layer while later layers and chunks are computed, one message a layer and chunk, in
 * their order; none of a layer without rows. */
typedef struct bt_link_queue {
    uint64_t free_ns; /* when the wire has sent everything so far */
} bt_link_queue;
/* A message of so many ns on the wire that is ready at ready_ns. Returns when it begins. */
uint64_t bt_link_pass(bt_link_queue *q, uint64_t ready_ns, uint64_t ns);
/* One that is ready at ready_ns. Returns its ns on the wire. */
uint64_t bt_link_message(bt_link_queue *q, const bt_link *l, uint64_t ready_ns, uint64_t bytes);
/* A chunk computed from start_ns in took_ns, its layers equal parts of it, ready one after the other. Returns the ns of
 * all messages on the wire. */
uint64_t bt_link_chunk(bt_link_queue *q, const bt_link *l, const bt_link_kv *kv, uint64_t start_ns, uint64_t took_ns,
                       bt_link_rows rows);
/* The wait that is left after the end of the last chunk. */
uint64_t bt_link_exposed_ns(const bt_link_queue *q, uint64_t end_ns);
#endif
