#ifndef TESTS_WORLD_SIM_BARE_H
#define TESTS_WORLD_SIM_BARE_H
#include "kv/kv_header.h"
#include "wire/msg.h"

/* Messages and blocks that are carried as structs with their arrays behind them, without codec, checksum and digest.
 * They never leave the process. So a prompt may travel as hashes alone. */
size_t sim_bare_bytes(const bt_msg *m);
void sim_bare_pack(uint8_t *out, const bt_msg *m); /* [sim_bare_bytes] */
/* Reads the message in bytes, which begin on a multiple of 16; its arrays stay there. */
void sim_bare_open(bt_msg *ret, const uint8_t *bytes);

/* Writes h in the place of a coded header. */
void sim_bare_put_header(uint8_t out[static BT_KV_HEADER_BYTES], const bt_kv_header *h);
void sim_bare_get_header(bt_kv_header *ret, const uint8_t in[static BT_KV_HEADER_BYTES]);
#endif
