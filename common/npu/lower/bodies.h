#ifndef BT_NPU_BODIES_H
#define BT_NPU_BODIES_H
#include <stddef.h>
#include "base/err.h"
#include "npu/lower/lower.h"
#include "npu/pkg/pkg.h"

/* Packing programs: their layers are the same instructions with other numbers, so a package of many programs keeps each
 * distinct body once, and a program as a list of pieces (bt_pkg_piece). Programs of other contexts, batches or endings
 * share bodies wherever their offsets agree. Unpacked (npu/pkg/unpack.c) a program is what it was, byte for byte. */
typedef struct bt_bodies bt_bodies;
bt_err bt_bodies_new(bt_bodies **ret, bt_fault *fault);
void bt_bodies_free(bt_bodies *b); /* NULL is fine */
/* Packs a program: its bodies are added where they are new, its pieces are written to w as a constant, whose index goes
 * to l->program.code; l->program.plan is NONE. BT_ENOMEM. */
bt_err bt_bodies_pack(bt_bodies *b, bt_lowered *l, bt_pkg_writer *w, bt_fault *fault);
/* Writes the bodies, after the last program, and says in the header where they are. */
void bt_bodies_write(const bt_bodies *b, bt_pkg_writer *w, bt_pkg_header *h);
#endif
