#ifndef BT_TOOLS_TALK_H
#define BT_TOOLS_TALK_H
#include <jansson.h>
#include <stdbool.h>
#include "base/err.h"

/* A conversation with a gateway: the messages so far, and one more turn. */
typedef struct tool_talk tool_talk;

typedef struct tool_talk_with {
    const char *url, *api_key; /* borrowed for the life of the talk; api_key may be NULL */
    const json_t *wishes;      /* what each request says besides its messages, such as temperature; borrowed */
    const char *system;        /* NULL: none */
    bool prints_figures;       /* after each answer, and thoughts before it, on stderr */
} tool_talk_with;

/* BT_EARG: the system message is not UTF-8; BT_ENOMEM. */
bt_err tool_talk_open(tool_talk **ret, const tool_talk_with *with, bt_fault *fault);
void tool_talk_close(tool_talk *t); /* NULL is fine */

/* One turn: sends the text and shows the answer on stdout as it comes. Both join the conversation when the answer came
 * whole. BT_ECANCEL: tool_stop was set; what had come of the answer stays in the conversation, and where nothing had
 * come the text leaves it too. Any other failure leaves the conversation as it was. BT_EARG: not UTF-8. */
bt_err tool_talk_say(tool_talk *t, const char *text, size_t len, bt_fault *fault);

/* The last question once more: its new answer takes the old one's place, and is the same where the wishes leave nothing
 * to chance (a seed, temperature 0). BT_EARG: nothing was answered yet. Other errors are those of tool_talk_say, and
 * the old answer stays. */
bt_err tool_talk_again(tool_talk *t, bt_fault *fault);

/* Forgets all but the system message. */
void tool_talk_clear(tool_talk *t);
/* NULL: none. Lives until the next change. */
const char *tool_talk_system(const tool_talk *t);
/* From the next turn on; "": none. BT_EARG: not UTF-8; BT_ENOMEM. */
bt_err tool_talk_set_system(tool_talk *t, const char *text, bt_fault *fault);
/* Writes the conversation as text, a heading for each message, to a new file of mode 600; "~/" is the home folder.
 * BT_EIO: it exists, or cannot be written. */
bt_err tool_talk_save(const tool_talk *t, const char *path, bt_fault *fault);

/* The names of the models that the gateway serves, ids and aliases of GET /v1/models, each once. used: the one that
 * answers, which was set, or else is the first. BT_EIO: nobody answers, or the answer names no model. */
enum { TOOL_TALK_MAX_MODELS = 256, TOOL_TALK_MODEL_BYTES = 256 };
typedef struct tool_talk_models {
    size_t count, used;
    char id[TOOL_TALK_MAX_MODELS][TOOL_TALK_MODEL_BYTES];
} tool_talk_models;
bt_err tool_talk_list(tool_talk_models *ret, const tool_talk *t, bt_fault *fault);
/* From the next turn on; the conversation goes on. BT_EARG: none of that name is served; the fault names those that
 * are. */
bt_err tool_talk_set_model(tool_talk *t, const char *id, bt_fault *fault);
#endif
