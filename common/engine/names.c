/* The one list of engines. */
#include "engine/names.h"

#include <stddef.h>
#include <string.h>

const char *const bt_engine_names[BT_ENGINES + 1] = {BT_ENGINE_NAMES, NULL};

int bt_engine_find(const char *name)
{
    for (int i = 0; i < BT_ENGINES; i++)
        if (!strcmp(bt_engine_names[i], name)) return i;
    return -1;
}
