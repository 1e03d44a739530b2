#ifndef BT_GRAPH_PLACE_H
#define BT_GRAPH_PLACE_H
#include <stddef.h>
#include <stdint.h>
#include "base/err.h"

/* Static memory plans. An item lives from step `first` to step `last`; items alive together never overlap.
 * They are placed by falling size, then by index, each at the lowest offset that is free while it lives: the
 * same items give the same plan on every machine. */
enum { BT_PLACE_ALIGN = 64 };
typedef struct bt_place_item { size_t bytes; uint32_t first, last; size_t offset; } bt_place_item;

/* Rounds every bytes up to BT_PLACE_ALIGN and sets every offset (a multiple of it); *ret is the peak.
 * BT_ELIMIT when it does not fit size_t; BT_ENOMEM. */
bt_err bt_place_items(size_t *ret, bt_place_item *item, size_t n, bt_fault *fault);
#endif
