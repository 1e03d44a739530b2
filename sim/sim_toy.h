#ifndef SIM_TOY_H
#define SIM_TOY_H
#include "wire/msg.h"

/* Toy engines whose results anybody can check: KV bytes are a function of (prompt up to the token, layer), and
 * every token after the first is a function of all KV bytes that the decode node really holds. One wrong,
 * missing or misplaced byte changes every following token. */
enum { SIM_TOY_LAYERS = 3, SIM_TOY_ROW_BYTES = 8, SIM_TOY_VOCAB = 64, SIM_TOY_STOP = 7 };

bt_kv_shape sim_toy_shape(void);                /* SIM_TOY_LAYERS, 1 head, 2 wide, f16: 8 bytes a token and layer */
/* K then V of tokens [begin, begin + count) of a layer, as a block's body; hashes[t] = sim_toy_prefix of t + 1
 * tokens. */
void sim_toy_body(uint8_t *ret, const uint64_t *hashes, uint32_t layer, uint32_t begin, uint32_t count);
/* hashes[t] for every prefix of ids. */
void sim_toy_prefixes(uint64_t *hashes, const int32_t *ids, uint32_t len);
/* A decode node's view: rows[layer][token][8], K in the first half, V in the second. */
void sim_toy_place(uint8_t *rows, uint32_t ctx_tokens, const uint8_t *body, uint32_t layer, uint32_t begin, uint32_t count);
uint64_t sim_toy_digest(const uint8_t *rows, uint32_t ctx_tokens, uint32_t tokens);

int32_t sim_toy_first(uint64_t prompt_hash, uint64_t seed);
int32_t sim_toy_next(uint64_t kv_digest, int32_t previous, uint32_t index, uint64_t seed);
#endif
