#ifndef BT_TRACE_REBLOCK_H
#define BT_TRACE_REBLOCK_H
#include <stddef.h>
#include <stdint.h>

/* Chained block hashes for another block size, or for a prompt that is `ratio` times as long: n ids of blocks of `to`
 * tokens from the `old` ids of blocks of `from` tokens. Block k of the new prompt ends at (k + 1) * to / ratio tokens
 * of the old one, and its id is made of k and the id of the old block there. Prompts that shared a prefix share the
 * part of it that is whole in blocks of both sizes; others share nothing. */
void bt_trace_reblock(uint64_t *ret, size_t n, uint32_t to, double ratio, const uint64_t *old, size_t old_len,
                      uint32_t from);
#endif
