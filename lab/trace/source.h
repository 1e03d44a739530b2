#ifndef BT_LAB_TRACE_SOURCE_H
#define BT_LAB_TRACE_SOURCE_H
#include "crypto/keys.h"
#include "model/model.h"
#include "text/tokenizer.h"
#include "trace/reader.h"

/* A trace as commands open it: with the tokenizer of a model for texts, and with the secret key for sealed captures. */
typedef struct tool_trace_options {
    int format; /* bt_trace_format */
    bool skip_bad;
    const char *model;  /* NULL: none */
    const char *unseal; /* NAME.secret; NULL: none */
} tool_trace_options;
typedef struct tool_trace_source {
    bt_trace *t;
    bt_model *model;
    bt_tokenizer *tok;
    unsigned char public_key[32], secret_key[32];
} tool_trace_source;

bt_err tool_trace_open(tool_trace_source *ret, const char *path, const tool_trace_options *o, bt_fault *fault);
void tool_trace_close(tool_trace_source *s);

/* Calls `row` with each request until it fails. Words of a bad row begin with the path. */
typedef bt_err tool_trace_row_fn(void *ud, const bt_trace_row *row, bt_fault *fault);
bt_err tool_trace_each(tool_trace_source *s, const char *path, tool_trace_row_fn *row, void *ud, bt_fault *fault);
/* Prints a line each for skipped rows, torn bytes and dropped requests, where there are any. */
void tool_trace_warn(const char *command, const tool_trace_source *s);

/* Two files of one new pair: NAME.secret (mode 0600), whose key opens sealed captures, and NAME.public, one line for a
 * gateway's --capture-seal. BT_EARG: one of the files exists already, or NAME (its last part) is no name for keys. */
bt_err tool_trace_make_key(const char *name, bt_fault *fault);
#endif
