/* The one list of engines. */
#include "engine/names.h"
#include "device/schedule.h"

#include <stddef.h>
#include <string.h>

const char *const bt_engine_names[BT_ENGINES + 1] = {BT_ENGINE_NAMES, NULL};
const char *const bt_engine_auto_names[BT_ENGINES + 2] = {"auto", BT_ENGINE_NAMES, NULL};

const char *const bt_engine_schedules[] = {BT_SCHEDULE_NAMES, NULL};

int bt_engine_find(const char *name)
{
    for (int i = 0; i < BT_ENGINES; i++)
        if (!strcmp(bt_engine_names[i], name)) return i;
    return -1;
}

int bt_engine_decode_of(int auto_index, int prompts)
{
    if (auto_index > 0) return auto_index - 1;
    return prompts == BT_ENGINE_REFERENCE ? BT_ENGINE_REFERENCE : BT_ENGINE_HOST;
}
