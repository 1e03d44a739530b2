#ifndef BT_TEXT_DETOK_H
#define BT_TEXT_DETOK_H
#include <stdbool.h>
#include <stdint.h>
#include "base/buf.h"
#include "text/tokenizer.h"

/* Ids to text, one at a time, in whole UTF-8 characters: the bytes of an unfinished character wait (at
 * most 3) for the next token. Bytes that can be no character come out as U+FFFD, one for each maximal
 * subpart, so the output is always valid UTF-8 and does not depend on how the ids were grouped. Control,
 * unknown and unused tokens come out empty unless asked. */
typedef struct bt_detok {
    const bt_tokenizer *tok; /* must outlive this */
    char tail[4];            /* begun, not finished */
    uint8_t tail_len;
    bool drop_space, is_special_shown;
} bt_detok;

enum {
    BT_DETOK_START = 1,   /* the ids begin a text: drop the space that encoding put in front (llama kind only). Not set
                             where the ids continue a text, as a completion does */
    BT_DETOK_SPECIAL = 2, /* show control tokens by name */
};
void bt_detok_init(bt_detok *d, const bt_tokenizer *tok, unsigned flags);

/* Adds to out the text that is certain after `id`, often nothing. BT_EARG for an id out of range; errors of bt_buf_add.
 */
bt_err bt_detok_push(bt_buf *out, bt_detok *d, int32_t id, bt_fault *fault);
/* The end: an unfinished character becomes U+FFFD. d is then ready for the next text. */
bt_err bt_detok_finish(bt_buf *out, bt_detok *d, bt_fault *fault);
/* All of it at once: push each, then finish. */
bt_err bt_detok_all(bt_buf *out, const bt_tokenizer *tok, const int32_t *ids, size_t count, unsigned flags,
                    bt_fault *fault);
#endif
