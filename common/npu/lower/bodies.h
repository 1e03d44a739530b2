#ifndef BT_NPU_BODIES_H
#define BT_NPU_BODIES_H
#include <stddef.h>
#include "base/err.h"
#include "npu/lower/lower.h"
#include "npu/pkg/pkg.h"

/* Packing programs. The layers of a program are the same instructions with other numbers. So a package of many programs
 * stores each distinct body once, and a program as a list of pieces (bt_pkg_piece). Programs of other contexts, batches
 * or endings share bodies wherever their offsets agree. Unpacking (npu/pkg/unpack.c) gives the same program again, byte
 * for byte. */
typedef struct bt_bodies bt_bodies;
bt_err bt_bodies_new(bt_bodies **ret, bt_fault *fault);
void bt_bodies_free(bt_bodies *b); /* NULL is fine */
/* Packs a program: adds its bodies where they are new, and writes its pieces to w as a constant. l->program.code
 * becomes the constant's index and l->program.plan NONE. BT_ENOMEM. */
bt_err bt_bodies_pack(bt_bodies *b, bt_lowered *l, bt_pkg_writer *w, bt_fault *fault);
/* Writes the bodies to w, after the last program, and sets their indices in the header. */
void bt_bodies_write(const bt_bodies *b, bt_pkg_writer *w, bt_pkg_header *h);
#endif
