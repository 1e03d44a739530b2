#ifndef PF_CHUNKS_H
#define PF_CHUNKS_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "wire/msg.h"

/* When the chunks of a prompt were computed, for FIRST_TOKEN: an entry for each of the first BT_MSG_MAX_CHUNKS - 1, and
 * one for all others. Pure: the clock is the caller's. A zeroed one is a prompt that has not begun. */
typedef struct pf_chunks {
    bt_msg_chunks told;
    size_t token_begin[BT_MSG_MAX_CHUNKS]; /* of told.at, to find a chunk by when it ends */
} pf_chunks;

/* now_us: time since the prompt's begin, rising. Several chunks may be under way. */
void pf_chunks_begin(pf_chunks *c, size_t token_begin, size_t token_count, int64_t now_us);
void pf_chunks_end(pf_chunks *c, size_t token_begin, int64_t now_us);
#endif
