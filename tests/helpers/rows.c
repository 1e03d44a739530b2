/* Says which rows of the dispatch table a test program did not run. */
#include "tests/helpers/rows.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST = 16 };
static enum { MISSED, SKIPPED, RAN } state[MOST];
static pid_t walker; /* children that end are not the program */

static void tell(void)
{
    for (size_t i = 0; getpid() == walker && i < bt_kernels_table_len; i++)
        if (state[i] != SKIPPED)
            printf("%s: %s\n", state[i] == RAN ? "ran" : "missed", bt_kernels_table[i].isa);
}

/* Said once. */
static bool is_usable(const bt_kernels *row)
{
    const size_t i = (size_t)(row - bt_kernels_table);
    if (i >= MOST) abort();
    const bool is = row->usable();
    if (!is && state[i] == MISSED) printf("skipped: %s: not of this machine\n", row->isa);
    state[i] = is ? RAN : SKIPPED;
    return is;
}

bool rows_usable(const bt_kernels *row)
{
    if (!walker && !atexit(tell)) walker = getpid();
    return is_usable(row);
}

const bt_kernels *rows_select(const char *isa)
{
    for (size_t i = 0; isa && i < bt_kernels_table_len; i++)
        if (!strcmp(bt_kernels_table[i].isa, isa))
            return is_usable(&bt_kernels_table[i]) ? &bt_kernels_table[i] : NULL;
    return bt_kernels_select(isa);
}
