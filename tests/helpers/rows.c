/* Says which rows of the dispatch table a test program did not run. */
#include "tests/helpers/rows.h"

#include <stdio.h>
#include <string.h>

bool rows_usable(const bt_kernels *row)
{
    static bool is_said[16];
    const size_t i = (size_t)(row - bt_kernels_table);
    if (row->usable()) return true;
    if (i >= sizeof is_said / sizeof *is_said || !is_said[i])
        printf("skipped: %s: not of this machine\n", row->isa);
    if (i < sizeof is_said / sizeof *is_said) is_said[i] = true;
    return false;
}

const bt_kernels *rows_select(const char *isa)
{
    for (size_t i = 0; isa && i < bt_kernels_table_len; i++)
        if (!strcmp(bt_kernels_table[i].isa, isa))
            return rows_usable(&bt_kernels_table[i]) ? &bt_kernels_table[i] : NULL;
    return bt_kernels_select(isa);
}
