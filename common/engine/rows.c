/* The engines of each door. A program has those that are listed here; nothing else names them. */
#include "engine/decode_backend.h"
#include "engine/prefill_backend.h"

#include <stddef.h>

#define PREFILL(name) &bt_prefill_##name,
#define DECODE(name)  &bt_decode_##name,
const bt_prefill_backend *const bt_prefill_rows[] = {BT_PREFILL_ROWS(PREFILL) NULL};
const bt_decode_backend *const bt_decode_rows[] = {BT_DECODE_ROWS(DECODE) NULL};
