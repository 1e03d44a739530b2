#ifndef GW_ASK_MESSAGES_H
#define GW_ASK_MESSAGES_H
#include "gateway/api/read.h"

/* Private to the reading of requests: the fields `messages` and `prompt`, and those that the chat template sees.
 * Their results lie in v's tree; contents in parts become one text there. */
bt_err gw_messages_chat(gw_reader *p, const char *name, json_t *v);
/* *ret stays as it is where v is empty. */
bt_err gw_messages_objects(const json_t **ret, gw_reader *p, const char *name, json_t *v);
bt_err gw_messages_kwargs(gw_reader *p, const char *name, json_t *v);
bt_err gw_messages_prompt(gw_reader *p, const char *name, json_t *v);

/* For dialects whose messages are of another form than the chat template's. A part of a content: its `type`, the member
 * that holds its text, and whether that is a thought. A list ends with a type of NULL; the first one is what errors
 * name. */
typedef struct gw_message_part {
    const char *type, *text;
    bool is_thought;
} gw_message_part;

/* A content, a text or an array of parts (NULL: a text alone), as one text, and its thoughts as another (ret_thoughts
 * NULL: they may have none; *ret_thoughts NULL: there are none): new references. where: names it in errors. */
bt_err gw_messages_text(json_t **ret, json_t **ret_thoughts, gw_reader *p, json_t *content, const char *where,
                        const gw_message_part *parts);
/* One more message, with the text and the thoughts of `content`. */
bt_err gw_messages_add(gw_reader *p, json_t *talk, const char *role, json_t *content, const char *where,
                       const gw_message_part *parts);
/* Makes `talk`, which is taken, the conversation, held by root, where e is BT_OK; returns e, or BT_ENOMEM. */
bt_err gw_messages_take(gw_reader *p, json_t *root, json_t *talk, bt_err e);
/* p->effort and p->thinks become variables of the chat template, unless the request has those. */
bt_err gw_messages_pass(gw_reader *p, json_t *root);
bool gw_messages_has_role(const char *role); /* of a chat */
#endif
