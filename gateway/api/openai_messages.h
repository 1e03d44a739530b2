#ifndef GW_OPENAI_MESSAGES_H
#define GW_OPENAI_MESSAGES_H
#include "gateway/api/openai_read.h"

/* Private to the reading of requests: the fields `messages` and `prompt`. Strings of the answer lie in v's tree. */
bt_err gw_messages_chat(gw_reader *p, const char *name, json_t *v);
bt_err gw_messages_prompt(gw_reader *p, const char *name, json_t *v);
#endif
