#ifndef BT_TOOLS_OFFER_H
#define BT_TOOLS_OFFER_H
#include "tools/pull/pull.h"

/* Fetches a model by any name: one of the table, or hf:OWNER/NAME[:QUANT]. BT_EARG: there is no such name; errors of
 * tool_pull_model and tool_pull_hub. */
bt_err tool_offer_pull(tool_pulled *ret, const bt_known_table *t, const char *name, const tool_pull_config *c,
                       bt_fault *fault);

/* For commands that start with a model's name. A known model that is not here is fetched after a yes at the terminal, a
 * hub's without a question. BT_OK as well where nobody can be asked, the answer is no, or with is_offline: whoever
 * opens the model says that it is missing. */
bt_err tool_offer_model(const char *name, const tool_pull_config *c, bt_fault *fault);
#endif
