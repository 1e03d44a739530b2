#ifndef BT_LAB_REPLAY_KEYS_H
#define BT_LAB_REPLAY_KEYS_H
#include "lab/replay/plan.h"

/* The keys of requests: a request has the key that its row names, or one that is drawn by shares. */
typedef struct tool_replay_keys {
    tool_replay_key of[TOOL_REPLAY_KEYS];
    size_t len;
} tool_replay_keys;

/* "NAME:SHARE" or "NAME:SHARE:WEIGHT" with commas between: a key, its share of the requests whose row names none, and
 * its weight, 1..1000, else 1. BT_EARG. */
bt_err tool_replay_keys_read(tool_replay_keys *ret, const char *text, bt_fault *fault);
/* The number of a key's name in the plan, from 1; a new name gets weight 1. BT_ELIMIT: too many. */
bt_err tool_replay_keys_find(uint32_t *ret, tool_replay_plan *p, const char *name, bt_fault *fault);
/* Sets the weights, and draws a key for each item without one, by the shares and the seed: the same for all turns of a
 * session. Without keys nothing is drawn. */
bt_err tool_replay_keys_assign(tool_replay_plan *p, const tool_replay_keys *k, uint64_t seed, bt_fault *fault);

/* The keys themselves, of a gateway's --api-key-file, by their place in the plan. */
typedef struct tool_replay_secrets {
    char *text;                               /* of the file */
    const char *first, *of[TOOL_REPLAY_KEYS]; /* first: of the file's first line; NULL: the file has no key of the name
                                               */
} tool_replay_secrets;
/* path NULL: none. BT_EIO; BT_EARG: the file has no key of a name in --key-shares. */
bt_err tool_replay_secrets_read(tool_replay_secrets *ret, const char *path, bt_fault *fault);
bt_err tool_replay_secrets_match(tool_replay_secrets *s, const tool_replay_plan *p, bt_fault *fault);
void tool_replay_secrets_done(tool_replay_secrets *s);
#endif
