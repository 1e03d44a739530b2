#ifndef GW_ASK_MESSAGES_H
#define GW_ASK_MESSAGES_H
#include "gateway/api/read.h"

/* Private to the reading of requests: the fields `messages` and `prompt`, and those that the chat template sees.
 * Their results lie in v's tree; contents in parts become one text there. */
bt_err gw_messages_chat(gw_reader *p, const char *name, json_t *v);
bt_err gw_messages_objects(const json_t **ret, gw_reader *p, const char *name, json_t *v); /* *ret stays where it is
                                                                                              empty */
bt_err gw_messages_kwargs(gw_reader *p, const char *name, json_t *v);
bt_err gw_messages_prompt(gw_reader *p, const char *name, json_t *v);
#endif
