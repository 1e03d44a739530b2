#ifndef TESTS_WORLD_SIM_TOY_H
#define TESTS_WORLD_SIM_TOY_H
#include "wire/msg.h"

/* Toy engines whose results anybody can check: the KV bytes of a prompt's row are a function of (prompt up to the
 * token, layer), those of a generated token's row of every row before it that it sees, and every token after the first
 * of such rows as the decode node really holds. One wrong, missing or misplaced byte changes every following row and
 * token. */
enum { SIM_TOY_LAYERS = 3, SIM_TOY_ROW_BYTES = 8, SIM_TOY_VOCAB = 64, SIM_TOY_STOP = 7 };

/* SIM_TOY_LAYERS, 1 head, 2 wide, f16: 8 bytes a token and layer. window 0: every layer sees all rows. */
bt_kv_shape sim_toy_shape(uint32_t window, uint32_t global_every);
bool sim_toy_sees_all(const bt_kv_shape *shape, uint32_t layer);
/* K then V of tokens [begin, begin + count) of a layer, as a block's body; hashes[t] = sim_toy_prefix of t + 1
 * tokens. */
void sim_toy_body(uint8_t *ret, const uint64_t *hashes, uint32_t layer, uint32_t begin, uint32_t count);
/* hashes[t] for every prefix of ids, by a rule of computing: 0 .. SIM_TOY_RULES - 1. */
enum { SIM_TOY_RULES = 2 };
void sim_toy_prefixes(uint64_t *hashes, const int32_t *ids, uint32_t len, uint32_t rule);
/* The digest of rows, by token, then layer, beginning with SIM_TOY_START. A row is K, then V: 8 bytes. */
#define SIM_TOY_START 1u
uint64_t sim_toy_mix(uint64_t digest, const uint8_t row[SIM_TOY_ROW_BYTES]);
/* The digest of what a row at `pos` sees of the rows before it: `all`, the digest of the layers that see all, then the
 * rows of window layers that its window holds. */
typedef const uint8_t *sim_toy_row_fn(const void *ud, uint32_t layer, uint32_t token);
uint64_t sim_toy_seen(uint64_t all, const bt_kv_shape *shape, uint32_t pos, sim_toy_row_fn *row, const void *ud);
/* The row of generated token `id` in a layer; digest: of what it sees before it. */
void sim_toy_row(uint8_t ret[SIM_TOY_ROW_BYTES], uint64_t digest, int32_t id, uint32_t layer);

int32_t sim_toy_first(uint64_t prompt_hash, uint64_t seed);
/* token `index`; digest: of what the row behind that of the token before sees */
int32_t sim_toy_next(uint64_t digest, uint32_t index, uint64_t seed);
#endif
