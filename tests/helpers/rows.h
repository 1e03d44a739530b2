#ifndef TESTS_HELPERS_ROWS_H
#define TESTS_HELPERS_ROWS_H
#include <stdbool.h>
#include "kernels/kernels.h"

/* Walking the kernels' dispatch table in a test. A row that this machine cannot run is not passed over in silence: it
 * is printed, "skipped: avx512: not of this machine", once in each program, and tests/run.sh counts and shows what
 * was. */
bool rows_usable(const bt_kernels *row);

/* The row that `isa` names (NULL and "auto": the best), or NULL, which is said, where this machine cannot run it. */
const bt_kernels *rows_select(const char *isa);
#endif
