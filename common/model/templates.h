#ifndef BT_MODEL_TEMPLATES_H
#define BT_MODEL_TEMPLATES_H
#include "text/chat.h"

typedef struct bt_gguf bt_gguf; /* model/gguf.h */

/* The chat templates of a model file, and the one in force. A file has one (tokenizer.chat_template), several with
 * names (tokenizer.chat_template.NAME), or none. The one without a name is called default. Where it is in force,
 * requests with tools go by the one called tool_use, where the file has that too. */
enum { BT_TEMPLATES_MAX = 32, BT_TEMPLATES_MAX_NAME_BYTES = 64 };

#define BT_TEMPLATES_BUILT_IN "chatml, llama3, mistral, gemma"

typedef struct bt_templates {
    char name[BT_TEMPLATES_MAX][BT_TEMPLATES_MAX_NAME_BYTES + 1]; /* of the file's templates, in its order */
    size_t names;
    char *from;    /* the one in force: one of those names, of BT_TEMPLATES_BUILT_IN, or a path; NULL: none */
    char *text;    /* its source; NULL: none */
    bt_chat *chat; /* NULL: no chats, and `why` says so */
    bt_fault why;  /* printable ASCII */
} bt_templates;

/* Chooses the template. choice NULL: the file's default, or its only one; else the name of one of the file's, of one
 * that is built in, or a file with a template, looked for in this order. tok as in bt_chat_new. Copies what it needs of
 * g. A model file without a template, or with one that does not parse, is no error: chat is NULL. An error with a
 * choice: BT_EARG there is none of this name, BT_EIO, BT_EFORMAT, BT_ELIMIT. */
bt_err bt_templates_open(bt_templates *ret, const bt_gguf *g, const bt_tokenizer *tok, const char *choice,
                         bt_fault *fault);
void bt_templates_close(bt_templates *t); /* zeroes are fine */
#endif
