#ifndef TEST_WIRE_SAMPLES_H
#define TEST_WIRE_SAMPLES_H
#include <stddef.h>
#include <stdint.h>
#include "wire/msg.h"

/* Every message type, in the order of its number; 0 ends the list. */
extern const bt_msg_type wire_samples_types[];
/* A legal message of that type with every field set, most at the end of their range; arrays have static
 * storage. All other bytes of *ret are zero. */
void wire_samples_make(bt_msg *ret, bt_msg_type type);
/* The HELLO of a prefill node with an engine: the samples' own HELLO is a decode node's. */
void wire_samples_prefill_hello(bt_msg *ret);
/* A frame around any body, with a right checksum. out holds 64 + n bytes. Returns 64 + n. */
size_t wire_samples_frame(uint8_t *out, unsigned version, unsigned type, const uint8_t *body, size_t n);
/* Set the checksum of a frame anew after its bytes were changed. */
void wire_samples_seal(uint8_t *frame, size_t len);
#endif
