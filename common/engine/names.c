/* The one list of engines. */
#include "engine/names.h"

#include <stddef.h>

const char *const bt_engine_names[] = { BT_ENGINE_NAMES, NULL };
