#ifndef PF_CHUNKS_H
#define PF_CHUNKS_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "wire/msg.h"

/* When the chunks of a prompt were computed, as FIRST_TOKEN tells it: of the first BT_MSG_MAX_CHUNKS - 1 each, of all
 * others one entry with their sum. Pure: the clock is the caller's. Zeros are a prompt of which nothing has begun. */
typedef struct pf_chunks {
    bt_msg_chunks told;
    size_t token_begin[BT_MSG_MAX_CHUNKS]; /* of told.at, to find a chunk by when it ends */
} pf_chunks;

/* now_us: since the prompt's begin, rising. Several chunks may be under way. */
void pf_chunks_begin(pf_chunks *c, size_t token_begin, size_t token_count, int64_t now_us);
void pf_chunks_end(pf_chunks *c, size_t token_begin, int64_t now_us);
#endif
