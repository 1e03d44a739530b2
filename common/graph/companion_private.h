#ifndef BT_GRAPH_COMPANION_PRIVATE_H
#define BT_GRAPH_COMPANION_PRIVATE_H
#include "graph/companion.h"

/* Between companion.c and companion_attn.c. NULL: no memory. */
bt_companion_spans *bt_companion_spans_new(const bt_companion_sizes *sizes);
void bt_companion_spans_free(bt_companion_spans *s);        /* NULL is fine */
/* companion_rows.c. Each thread's scratch has room for a block of a pass behind all else. NULL: no memory. */
bt_companion_pass *bt_companion_pass_new(void);
void bt_companion_pass_free(bt_companion_pass *p);          /* NULL is fine */
size_t bt_companion_pass_scratch_bytes(void);
#endif
