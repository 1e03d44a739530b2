/* See options.h. */
#include "decode-node/options.h"
#include "engine/names.h"

const char *const dc_options_local_prefill[] = {"off", BT_ENGINE_CHUNKED_NAMES, NULL};
