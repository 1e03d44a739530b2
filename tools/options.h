#ifndef BT_TOOLS_OPTIONS_H
#define BT_TOOLS_OPTIONS_H
#include "base/opt.h"

/* Rows that several commands have, used by their names; who uses one says where its value lies. */
extern const bt_opt_group tool_server_opts; /* url, api-key-file, ca-file, served-model, timeout */
extern const bt_opt_group tool_text_opts;   /* prompt, file, system */
extern const bt_opt_group tool_output_opts; /* output, timeline, rows, json, quiet */
extern const bt_opt_group tool_seed_opts;   /* seed */
#endif
