/* baton tokenize: text to the token ids of a model. */
#include "base/wait.h"
#include "model/gguf.h"
#include "model/model.h"
#include "model/options.h"
#include "model/vocab.h"
#include "tools/options.h"
#include "tools/tool.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct config {
    const char *model, *prompt, *file;
    bool bos, special, json;
} config;

static const bt_opt opts[] = {
    {.of = &bt_model_opts, .group = "Input", .name = "model", BT_OPT_AT(config, model), .required = true,
     .help = "GGUF file whose tokenizer is used, or the name of a model"},
    {.of = &tool_text_opts, .name = "prompt", BT_OPT_AT(config, prompt), .example = "Hello"},
    {.of = &tool_text_opts, .name = "file", BT_OPT_AT(config, file)},
    {.group = "Input", .name = "bos", BT_OPT_AT(config, bos), .type = BT_OPT_FLAG,
     .help = "begin with BOS if the file asks for one"},
    {.group = "Input", .name = "special", BT_OPT_AT(config, special), .type = BT_OPT_FLAG,
     .help = "the text may name control tokens such as <|im_end|>"},
    {.of = &tool_output_opts, .name = "json", BT_OPT_AT(config, json),
     .help = "one JSON object on stdout: ids"},
};

const bt_opt_program tool_tokenize_program = {
    .name = "baton tokenize",
    .summary = "show how a model's tokenizer cuts a text",
    .usage = "-m MODEL (-p TEXT | -f FILE) [options]",
    .normal = "baton tokenize -m smollm2 -p 'Hello world'",
    .opts = opts,
    .opt_count = BT_OPT_COUNT(opts),
};

/* Only the vocabulary is read, so that any file that has one will do, whatever its architecture. */
static bt_err open_vocab(bt_tokenizer **ret, const char *name, bt_fault *fault)
{
    char path[4096];
    bt_gguf *g = NULL;
    bt_err e = bt_model_find(path, sizeof path, name, fault);
    if (e == BT_OK) e = bt_gguf_open(&g, path, fault);
    if (e == BT_OK) e = bt_vocab_load(ret, g, fault);
    bt_gguf_close(g);
    return e;
}

static int print_people(const bt_tokenizer *tok, const int32_t *ids, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const bt_text_span piece = bt_tokenizer_piece(tok, ids[i]);
        printf("%7d  '", (int)ids[i]);
        for (size_t j = 0; j < piece.len; j++) {
            const unsigned char c = (unsigned char)piece.ptr[j];
            if (c < 0x20 || c == 0x7f || c == '\\') printf("\\x%02x", c);
            else putchar(c);
        }
        puts("'");
    }
    return bt_opt_flush() != 0;
}

static int print_ids(const bt_tokenizer *tok, const int32_t *ids, size_t n, bool as_json)
{
    if (!as_json) return print_people(tok, ids, n);
    json_t *array = json_array();
    for (size_t i = 0; i < n; i++) json_array_append_new(array, json_integer(ids[i]));
    return tool_print_json("tokenize", json_pack("{s:o}", "ids", array));
}

int tool_tokenize_run(int argc, char **argv)
{
    config c;
    bt_opt_args args;
    bt_fault fault = {""};
    bt_tokenizer *tok = NULL;
    char *text = NULL;
    int32_t *ids = NULL;
    size_t len, n;
    int rc = bt_opt_start(&args, &tool_tokenize_program, argc, argv, &c);
    if (rc >= 0) return rc;
    if (!c.prompt == !c.file) {
        bt_fail(&fault, BT_EARG, "give either --prompt or --file");
        bt_opt_usage_error("baton tokenize", &fault);
        rc = 2;
        goto out;
    }
    if (open_vocab(&tok, c.model, &fault) < 0) {
        rc = tool_fail("tokenize", &fault);
        goto out;
    }
    if (c.file && tool_read_file(&text, &len, c.file, &fault) < 0) {
        rc = tool_fail("tokenize", &fault);
        goto out;
    }
    const unsigned flags = (c.bos ? BT_ENCODE_BOS : 0u) | (c.special ? BT_ENCODE_SPECIAL : 0u);
    bt_wait_tell(NULL, "finding the tokens of the text", 0, 0);
    const bt_err e = bt_tokenizer_encode(&ids, &n, tok, c.prompt ? c.prompt : text,
                                         c.prompt ? strlen(c.prompt) : len, flags, &fault);
    bt_wait_end();
    if (e < 0) {
        rc = tool_fail("tokenize", &fault);
        goto out;
    }
    tool_tell_tokens(tok);
    rc = print_ids(tok, ids, n, c.json);
out:
    free(ids);
    free(text);
    bt_tokenizer_free(tok);
    bt_opt_done(&args);
    return rc;
}
