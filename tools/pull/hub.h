#ifndef BT_TOOLS_HUB_H
#define BT_TOOLS_HUB_H
#include "tools/pull/pull.h"

/* Fetching GGUF files of a hub of models (model/hub.h), which speaks the paths of Hugging Face's: the repository is
 * asked for its files, their sizes and hashes, at GET /api/models/OWNER/NAME?blobs=true, and each file is fetched from
 * /OWNER/NAME/resolve/COMMIT/PATH. The address is --hub, else HF_ENDPOINT, else TOOL_PULL_HUB_URL. */

/* Fetches what "hf:OWNER/NAME[:QUANT]" means, unless it is here with the hub's hashes. Says on stderr what is fetched.
 * A token comes from --hub-token-file, else HF_TOKEN. Offline, what is here counts. Blocks. Errors of
 * tools/pull/download.h and bt_hub_choose; BT_ELIMIT: the disk is too small, asked before anything is fetched. */
bt_err tool_hub_pull(tool_pulled *ret, const char *text, const tool_pull_config *c, bt_fault *fault);
#endif
