#ifndef BT_TEXT_THOUGHTS_H
#define BT_TEXT_THOUGHTS_H
#include <stdbool.h>
#include <stddef.h>
#include "text/tokenizer.h"

/* An answer's text in two: what a model thinks, between marks, and what it says. Thoughts stand at the beginning of an
 * answer, where only white space comes before the mark that opens them; further blocks may follow them at once. Any
 * later mark is text. White space at both ends of thoughts, and behind them, belongs to neither part. Pure views of the
 * text, which is not copied.
 *
 * gpt-oss (harmony) writes messages instead: <|start|>role<|channel|>name<|message|>text<|end|>, the first without its
 * beginning. Messages of the channel analysis are thoughts, all others are said. Text before <|message|> belongs
 * to neither part. */
enum { BT_THOUGHTS_MAX_TOKENS = 4 };
typedef struct bt_thought_marks {
    const char *open, *close;
    const char *token[BT_THOUGHTS_MAX_TOKENS]; /* to be in the text also where they are control tokens; NULL: no more */
    bool has_channels;
} bt_thought_marks;

/* The marks of a model: those of the known ones that its chat template names, else those that are both tokens of its
 * vocabulary; NULL: none. Static. */
const bt_thought_marks *bt_thoughts_find(const bt_tokenizer *tok, bt_text_span chat_template);
/* Whether a prompt's text opens thoughts at its end, so that the answer begins inside them. */
bool bt_thoughts_opened(const bt_thought_marks *marks, const char *prompt, size_t len);

enum {
    BT_THOUGHTS_MAX_HELD_BYTES = 64,    /* of white space; a longer run is text */
    BT_THOUGHTS_MAX_HEADER_BYTES = 256, /* of what stands before <|message|>, likewise */
};

typedef enum bt_thoughts_state { BT_THOUGHTS_SAYS, BT_THOUGHTS_BEGINS, BT_THOUGHTS_THINKS } bt_thoughts_state;
typedef struct bt_thoughts { /* plain data, private but for `at` */
    const bt_thought_marks *marks;
    bt_thoughts_state state;
    bool is_first; /* BEGINS: no thoughts yet; THINKS: no text of them yet */
    size_t at;     /* bytes of the text that are done with */
} bt_thoughts;
typedef struct bt_thoughts_part {
    bool is_thought;
    bt_text_span text; /* not empty */
} bt_thoughts_part;

/* marks NULL: all is said. is_open: the answer begins inside thoughts. */
void bt_thoughts_begin(bt_thoughts *ret, const bt_thought_marks *marks, bool is_open);
/* The next part of the answer's text, which has grown to len bytes of whole characters, from its beginning. Bytes that
 * may begin a mark, or be white space to leave out, wait until that is certain; is_over: no more text comes. False:
 * there is no part for now. */
bool bt_thoughts_next(bt_thoughts_part *ret, bt_thoughts *t, const char *text, size_t len, bool is_over);
#endif
