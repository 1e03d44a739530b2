#ifndef TESTS_HELPERS_ROWS_H
#define TESTS_HELPERS_ROWS_H
#include <stdbool.h>
#include "kernels/kernels.h"

/* Walking the kernels' dispatch table in a test. A row that this machine cannot run is not passed over in silence: it
 * is printed, "skipped: avx512: not of this machine", once in each program. At the end of a program that walked, each
 * other row is: "ran: avx2", or "missed: avx2" for one that the walk never came to. tests/run.sh fails a program that
 * missed a row, shows and counts what was skipped, and keeps it all for tests/rows.sh. */
bool rows_usable(const bt_kernels *row);

/* The row that `isa` names (NULL and "auto": the best), or NULL, which is said, where this machine cannot run it. No
 * walk: rows that nobody names are not missed. */
const bt_kernels *rows_select(const char *isa);
#endif
