/* See words.h. */
#include "gateway/api/words.h"
#include "base/num.h"
#include "gateway/api/json.h"
#include "gateway/api/read.h"
#include "text/utf8.h"

#include <stdlib.h>
#include <string.h>

/* A complaint of the tokeniser about the client's words is the client's error. */
static bt_err blame(gw_reader *p, bt_err e, const char *param, const bt_fault *fault)
{
    if (e == BT_ENOMEM) return gw_read_no_memory(p);
    if (e == BT_ELIMIT && !fault->text[0])
        return gw_error_say(p->err, 400, "invalid_value", param,
                            "The text has more than %d tokens, the limit.", BT_MSG_MAX_PROMPT_TOKENS);
    return gw_error_say(p->err, 400, "invalid_value", param, "%s", fault->text);
}

/* The fields of root by their names; `known` ends with NULL. The first one must be there. */
static bt_err check_names(gw_reader *p, json_t *root, const char *const *known)
{
    const char *key;
    json_t *v;
    json_object_foreach(root, key, v) {
        size_t i = 0;
        while (known[i] && strcmp(key, known[i]) != 0) i++;
        if (!known[i])
            return gw_error_say(p->err, 400, "unknown_parameter", key,
                                "Unrecognized request argument supplied: %s", key);
    }
    const json_t *model = json_object_get(root, "model"), *first = json_object_get(root, known[0]);
    if (model && !json_is_null(model)) {
        const bt_err e = gw_read_model(p, "model", model);
        if (e < 0) return e;
    }
    if (first) return BT_OK;
    return gw_error_say(p->err, 400, "missing_required_parameter", known[0],
                        "Missing required parameter: '%s'.", known[0]);
}

static bt_err read_flag(bool *ret, gw_reader *p, const json_t *root, const char *name)
{
    const json_t *v = json_object_get(root, name);
    return v && !json_is_null(v) ? gw_read_bool(ret, p, name, v) : BT_OK;
}

static void write_piece(bt_buf *out, const bt_tokenizer *tok, int32_t id)
{
    const bt_text_span s = bt_tokenizer_piece(tok, id);
    size_t bad;
    (void)bt_buf_fmt(out, "{\"id\":%d,\"piece\":", (int)id);
    if (bt_utf8_valid(s.ptr, s.len, &bad)) {
        if (gw_json_add(out, json_stringn(s.ptr, s.len), JSON_COMPACT | JSON_ENCODE_ANY) < 0)
            out->err = BT_ENOMEM;
    } else {
        for (size_t i = 0; i < s.len; i++)
            (void)bt_buf_fmt(out, "%s%u", i ? "," : "[", (unsigned char)s.ptr[i]);
        (void)bt_buf_byte(out, ']');
    }
    (void)bt_buf_byte(out, '}');
}

bt_err gw_words_tokenize(bt_buf *out, gw_error *err, const gw_text *t, const char *body, size_t len,
                         const gw_ask_limits *limits)
{
    static const char *const known[] = {"content",     "add_special", "parse_special",
                                        "with_pieces", "model",       NULL};
    gw_reader p = {.err = err, .limits = limits};
    bool adds_bos = false, is_special = true, with_pieces = false;
    json_t *root = NULL;
    int32_t *ids = NULL;
    size_t n = 0;
    bt_fault fault = {""};
    bt_err e = gw_read_object(&root, &p, body, len);
    if (e == BT_OK) e = check_names(&p, root, known);
    if (e == BT_OK) e = read_flag(&adds_bos, &p, root, "add_special");
    if (e == BT_OK) e = read_flag(&is_special, &p, root, "parse_special");
    if (e == BT_OK) e = read_flag(&with_pieces, &p, root, "with_pieces");
    const json_t *content = json_object_get(root, "content");
    if (e == BT_OK && !json_is_string(content)) e = gw_read_wrong_type(&p, "content", "a string", content);
    if (e == BT_OK) {
        const bt_text_piece whole = {json_string_value(content), json_string_length(content), is_special};
        adds_bos &= !(is_special && gw_text_brings_bos(t, whole.text, whole.len));
        e = bt_tokenizer_encode_at_most(&ids, &n, t->tok, &whole, 1, adds_bos ? BT_ENCODE_BOS : 0,
                                        BT_MSG_MAX_PROMPT_TOKENS, &fault);
        if (e < 0) e = blame(&p, e, "content", &fault);
    }
    json_decref(root);
    if (e < 0) return e;
    (void)bt_buf_str(out, "{\"tokens\":[");
    for (size_t i = 0; i < n; i++) {
        if (i) (void)bt_buf_byte(out, ',');
        if (with_pieces) write_piece(out, t->tok, ids[i]);
        else (void)bt_buf_fmt(out, "%d", (int)ids[i]);
    }
    (void)bt_buf_str(out, "]}");
    free(ids);
    return out->err < 0 ? gw_read_no_memory(&p) : BT_OK;
}

bt_err gw_words_detokenize(bt_buf *out, gw_error *err, const gw_text *t, const char *body, size_t len,
                           const gw_ask_limits *limits)
{
    static const char *const known[] = {"tokens", "model", NULL};
    gw_reader p = {.err = err, .limits = limits};
    json_t *root = NULL;
    int32_t *ids = NULL;
    size_t n = 0;
    bt_err e = gw_read_object(&root, &p, body, len);
    if (e == BT_OK) e = check_names(&p, root, known);
    const json_t *tokens = json_object_get(root, "tokens");
    if (e == BT_OK && !json_is_array(tokens))
        e = gw_read_wrong_type(&p, "tokens", "an array of token ids", tokens);
    if (e == BT_OK) e = gw_read_ids(&ids, &n, &p, "tokens", tokens);
    json_decref(root);
    if (e < 0) return e;
    bt_buf text;
    bt_fault fault = {""};
    e = gw_text_of_ids(&text, t, ids, n, &fault);
    if (e < 0) e = blame(&p, e, "tokens", &fault);
    else if (gw_json_add(out, json_pack("{s:s%}", "content", bt_buf_text(&text), text.len), JSON_COMPACT) < 0)
        e = gw_read_no_memory(&p);
    free(ids);
    bt_buf_done(&text);
    return e;
}
