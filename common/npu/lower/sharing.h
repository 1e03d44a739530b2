#ifndef BT_NPU_SHARING_H
#define BT_NPU_SHARING_H
#include <stddef.h>
#include <stdint.h>
#include "base/err.h"
#include "graph/graph.h"

/* The savings from programs that chunks share. A layer is six subgraphs, as llm.npu divides it: norm | q, k, v | rotary
 * embedding, store and attention | o and add | norm, gate, up and their product | down and add. A subgraph whose sizes
 * do not depend on the context is the same for every chunk of a prompt. The others (attention) exist once for each
 * chunk index. The naive build has every subgraph once for each chunk index. Bytes: weights (weight_bits each, and an
 * f32 scale for each output) and activations, each with the subgraph that writes it first. Pure arithmetic. */
typedef struct bt_sharing {
    uint32_t chunks, subgraphs; /* subgraphs of one chunk index, over all layers */
    uint32_t shared, unshared;  /* of those: one for all chunks; one for each chunk index */
    uint64_t naive_bytes, shared_bytes;
    double ratio; /* shared_bytes / naive_bytes */
} bt_sharing;
/* BT_EARG where prompt or chunk is 0; BT_ELIMIT beyond 64 bits. */
bt_err bt_sharing_of(bt_sharing *ret, const bt_graph *g, size_t prompt_tokens, size_t chunk_tokens,
                     unsigned weight_bits, bt_fault *fault);
#endif
