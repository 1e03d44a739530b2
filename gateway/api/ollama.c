/* ollama's chats and texts, and its lists of models. An answer is a stream, lines of JSON, unless the request
 * says otherwise. Options stand in an object of their own. Errors are {"error": message}. A chat without
 * messages and a text without a prompt ask for nothing but that the model is loaded, which it is. */
#include "gateway/api/ollama.h"
#include "base/hash.h"
#include "gateway/api/json.h"
#include "gateway/api/messages.h"
#include "gateway/api/structure.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

static const char line[] = "\n";

/* ---- requests ------------------------------------------------------------------------------------- */

#define CHAT    GW_FIELD_OLLAMA_CHAT
#define TEXT    GW_FIELD_OLLAMA_TEXT
#define BOTH    (CHAT | TEXT)
#define OPTIONS GW_FIELD_OLLAMA_OPTIONS

/* A name without a tag means the tag latest. */
static bt_err field_model(gw_reader *p, const gw_field *f, json_t *v)
{
    static const char tag[] = ":latest";
    const size_t len = json_string_length(v), n = sizeof tag - 1;
    if (!json_is_string(v) || len <= n || strcmp(json_string_value(v) + len - n, tag) != 0)
        return gw_read_model(p, f->name, v);
    json_t *name = json_stringn(json_string_value(v), len - n);
    const bt_err e = name ? gw_read_model(p, f->name, name) : gw_read_no_memory(p);
    json_decref(name);
    return e;
}

static bt_err field_messages(gw_reader *p, const gw_field *f, json_t *v)
{
    return json_is_array(v) && json_array_size(v) == 0 ? BT_OK : gw_messages_chat(p, f->name, v);
}

static bt_err field_prompt(gw_reader *p, const gw_field *f, json_t *v)
{
    if (!json_is_string(v)) return gw_read_wrong_type(p, f->name, "a string", v);
    p->messages = v;
    return BT_OK;
}

static bt_err field_system(gw_reader *p, const gw_field *f, json_t *v)
{
    if (!json_is_string(v)) return gw_read_wrong_type(p, f->name, "a string", v);
    if (json_string_length(v) > 0) p->system = v;
    return BT_OK;
}

static bt_err field_raw(gw_reader *p, const gw_field *f, json_t *v)
{
    bool raw = false;
    const bt_err e = gw_read_bool(&raw, p, f->name, v);
    p->r.is_chat = !raw;
    return e;
}

static bt_err field_think(gw_reader *p, const gw_field *f, json_t *v)
{
    if (json_is_boolean(v)) p->thinks = v;
    else if (json_is_string(v)) p->effort = v;
    else return gw_read_wrong_type(p, f->name, "true, false or a string", v);
    return BT_OK;
}

/* "json", "" or a schema. */
static bt_err field_format(gw_reader *p, const gw_field *f, json_t *v)
{
    const char *word = json_string_value(v);
    if (!word) return gw_structure_json(p, f, v);
    if (strcmp(word, "json") == 0) return gw_structure_object(p, f, v);
    return *word ? gw_error_say(p->err, 400, "invalid_value", f->name,
                                "Invalid value for '%s': '%.32s'; it is 'json' or a schema.", f->name, word)
                 : BT_OK;
}

static bt_err field_options(gw_reader *p, const gw_field *f, json_t *v)
{
    return json_is_object(v) ? gw_fields_read(p, v, OPTIONS) : gw_read_wrong_type(p, f->name, "an object", v);
}

/* -1 and -2 (fill the context) are as if it were not given. */
static bt_err field_num_predict(gw_reader *p, const gw_field *f, json_t *v)
{
    int64_t x = -1;
    const bt_err e = gw_read_int(&x, p, f->name, v, -2, INT64_MAX);
    if (e < 0 || x < 0) return e;
    if (x == 0)
        return gw_error_say(p->err, 400, "invalid_value", f->name,
                            "Invalid value for '%s': 0 is neither -1 nor at least 1.", f->name);
    p->r.max_tokens = x < BT_MSG_MAX_PROMPT_TOKENS ? (uint32_t)x : BT_MSG_MAX_PROMPT_TOKENS;
    return BT_OK;
}

/* Seconds, or a duration such as 5m or 1h30m. */
static bt_err field_keep_alive(gw_reader *p, const gw_field *f, json_t *v)
{
    static const char *const units[] = {"ns", "us", "ms", "s", "m", "h", NULL};
    const char *at = json_string_value(v);
    bool is_zero = json_is_number(v) && fpclassify(json_number_value(v)) == FP_ZERO;
    if (!at && !json_is_number(v)) return gw_read_wrong_type(p, f->name, "a number or a duration", v);
    if (at) {
        at += *at == '-' || *at == '+';
        is_zero = !at[strspn(at, "0.nusmh")];
        bool is_good = strcmp(at, "0") == 0 || *at;
        while (is_good && *at && strcmp(at, "0") != 0) {
            const size_t digits = strspn(at, "0123456789"), dot = at[digits] == '.',
                         rest = dot ? strspn(at + digits + 1, "0123456789") : 0;
            size_t i = 0;
            at += digits + dot + rest;
            while (units[i] && strncmp(at, units[i], strlen(units[i])) != 0) i++;
            is_good = digits + rest > 0 && units[i];
            if (is_good) at += strlen(units[i]);
        }
        if (!is_good)
            return gw_error_say(p->err, 400, "invalid_value", f->name,
                                "Invalid value for '%s': '%.32s'; it is a number of seconds, or a duration "
                                "such as '5m'.",
                                f->name, json_string_value(v));
    }
    p->r.is_unload = is_zero;
    return BT_OK;
}

static bt_err made_chat(gw_reader *p, json_t *root)
{
    p->r.is_load = !p->r.talk.messages;
    return gw_messages_pass(p, root);
}

/* A prompt is a message of the user, or, where it is raw, the text as it is. */
static bt_err made_text(gw_reader *p, json_t *root)
{
    p->r.is_load = json_string_length(p->messages) == 0;
    if (p->r.is_load) return BT_OK;
    if (!p->r.is_chat) {
        p->r.prompt = json_string_value(p->messages);
        p->r.prompt_len = json_string_length(p->messages);
        return BT_OK;
    }
    json_t *talk = json_array();
    bt_err e = talk ? BT_OK : gw_read_no_memory(p);
    if (e == BT_OK && p->system) e = gw_messages_add(p, talk, "system", p->system, "system", NULL);
    if (e == BT_OK) e = gw_messages_add(p, talk, "user", p->messages, "prompt", NULL);
    e = gw_messages_take(p, root, talk, e);
    return e < 0 ? e : gw_messages_pass(p, root);
}

static const char model_help[] = "A name of the model: that of /api/tags, or an alias of /v1/models";
static const char of_machine[] = "Taken and not looked at: the nodes' own business",
                  with_neutral[] = "Taken and not looked at: it means nothing beside the value that is taken";

// clang-format off
static const gw_field fields[] = {
    GW_REQUIRED("model", BOTH, field_model, "{\"type\":\"string\"}", model_help),
    GW_OTHER("model", GW_FIELD_OLLAMA_SHOW, field_model, "{\"type\":\"string\"}", model_help),
    GW_OTHER("name", GW_FIELD_OLLAMA_SHOW, field_model, "{\"type\":\"string\"}", "The same as model"),
    GW_HARMLESS("verbose", GW_FIELD_OLLAMA_SHOW, "Taken and not looked at: what is known is told"),
    GW_OTHER("messages", CHAT, field_messages,
             "{\"type\":\"array\",\"maxItems\":4096,\"items\":{\"$ref\":\"#/components/schemas/Message\"}}",
             "The conversation so far; without it nothing is computed"),
    GW_OTHER("prompt", TEXT, field_prompt, "{\"type\":\"string\"}",
             "A message of the user; without it nothing is computed"),
    GW_OTHER("system", TEXT, field_system, "{\"type\":\"string\"}", "What stands before the prompt"),
    GW_BOOLEAN("raw", TEXT, field_raw, "The prompt is the text as it is, without a chat template"),
    GW_OTHER("format", BOTH, field_format, "{\"anyOf\":[{\"enum\":[\"\",\"json\"]},{\"type\":\"object\"}]}",
             "The answer is any JSON object, or JSON of this schema"),
    GW_OTHER("options", BOTH, field_options, "{\"$ref\":\"#/components/schemas/OllamaOptions\"}",
             "Sampling and limits"),
    GW_OTHER("think", BOTH, field_think, "{\"type\":[\"boolean\",\"string\"]}",
             "The variable enable_thinking of the chat template, or its reasoning_effort"),
    GW_OTHER("keep_alive", BOTH, field_keep_alive,
             "{\"anyOf\":[{\"type\":\"number\"},"
             "{\"type\":\"string\",\"pattern\":\"^[-+]?(0|([0-9]+(\\\\.[0-9]*)?(ns|us|ms|s|m|h))+)$\"}]}",
             "The model stays loaded; 0 without a prompt is answered with done_reason unload"),
    GW_ONLY("tools", CHAT, "[[]]"),
    GW_ONLY("images", TEXT, "[[]]"),
    GW_ONLY("suffix", TEXT, "[\"\"]"),
    GW_ONLY("template", TEXT, "[\"\"]"),
    GW_ONLY("context", TEXT, "[[]]"),

    GW_OTHER("num_predict", OPTIONS, field_num_predict,
             "{\"type\":\"integer\",\"anyOf\":[{\"minimum\":-2,\"maximum\":-1},{\"minimum\":1}]}",
             "Tokens of the answer at most; -1 and -2: as if it were not given"),
    GW_ONLY("typical_p", OPTIONS, "[1]"),
    GW_ONLY("tfs_z", OPTIONS, "[1]"),
    GW_ONLY("mirostat", OPTIONS, "[0]"),
    GW_HARMLESS("mirostat_tau", OPTIONS, with_neutral),
    GW_HARMLESS("mirostat_eta", OPTIONS, with_neutral),
    GW_HARMLESS("penalize_newline", OPTIONS, "Taken and not looked at: penalties see every token"),
    GW_HARMLESS("repeat_last_n", OPTIONS, "Taken and not looked at: penalties see the whole prompt and answer"),
    GW_HARMLESS("num_keep", OPTIONS, "Taken and not looked at: no part of a context is dropped"),
    GW_HARMLESS("num_ctx", OPTIONS, of_machine),
    GW_HARMLESS("num_batch", OPTIONS, of_machine),
    GW_HARMLESS("num_gpu", OPTIONS, of_machine),
    GW_HARMLESS("main_gpu", OPTIONS, of_machine),
    GW_HARMLESS("num_thread", OPTIONS, of_machine),
    GW_HARMLESS("low_vram", OPTIONS, of_machine),
    GW_HARMLESS("use_mmap", OPTIONS, of_machine),
    GW_HARMLESS("use_mlock", OPTIONS, of_machine),
    GW_HARMLESS("numa", OPTIONS, of_machine),
    GW_HARMLESS("vocab_only", OPTIONS, of_machine),
    GW_HARMLESS("logits_all", OPTIONS, of_machine),
};
// clang-format on
static const gw_fields own = {fields, sizeof fields / sizeof *fields};

/* ---- answers -------------------------------------------------------------------------------------- */

static const char *when(char ret[static 64], int64_t us)
{
    const time_t s = (time_t)(us / 1000000);
    struct tm t = {.tm_sec = 0};
    char day[32];
    (void)gmtime_r(&s, &t);
    (void)strftime(day, sizeof day, "%Y-%m-%dT%H:%M:%S", &t);
    (void)snprintf(ret, 64, "%s.%06dZ", day, (int)(us % 1000000));
    return ret;
}

/* Log probabilities as a chat has them, in a list alone. Takes the reference. */
static json_t *with_logprobs(json_t *object, json_t *logprobs)
{
    json_t *list = json_object_get(logprobs, "content");
    if (list) object = gw_answer_with(object, "logprobs", json_incref(list));
    else if (!logprobs) object = gw_answer_with(object, "logprobs", NULL);
    json_decref(logprobs);
    return object;
}

static json_t *envelope(const gw_answer *a, bool is_done)
{
    char text[64];
    return json_pack("{s:s,s:s,s:b}", "model", a->model, "created_at", when(text, a->now_us), "done",
                     is_done);
}

static json_t *chat_words(json_t *object, bt_text_span said, bt_text_span thoughts)
{
    json_t *message = json_pack("{s:s,s:s%}", "role", "assistant", "content", said.ptr, said.len);
    if (thoughts.len > 0)
        message = gw_answer_with(message, "thinking", json_stringn(thoughts.ptr, thoughts.len));
    return gw_answer_with(object, "message", message);
}

static json_t *text_words(json_t *object, bt_text_span said, bt_text_span thoughts)
{
    object = gw_answer_with(object, "response", json_stringn(said.ptr, said.len));
    if (thoughts.len > 0)
        object = gw_answer_with(object, "thinking", json_stringn(thoughts.ptr, thoughts.len));
    return object;
}

typedef json_t *words_fn(json_t *object, bt_text_span said, bt_text_span thoughts);
static const bt_text_span nothing = {"", 0};

static json_t *ns(uint64_t us) { return json_integer((json_int_t)(us * 1000)); }

/* load_duration: until the prompt was begun. */
static json_t *with_report(json_t *object, const gw_answer_report *r)
{
    const int64_t waited =
        r->gateway_queue_us + (r->reserve_us > 0 ? r->reserve_us : 0) + (int64_t)r->queue_us;
    json_t *more =
        json_pack("{s:s,s:o,s:o,s:I,s:o,s:I,s:o}", "done_reason", gw_answer_reason(r->ending),
                  "total_duration", ns(r->total_us), "load_duration", ns((uint64_t)(waited > 0 ? waited : 0)),
                  "prompt_eval_count", (json_int_t)r->prompt_tokens, "prompt_eval_duration",
                  ns(r->prefill_us), "eval_count", (json_int_t)r->completion_tokens, "eval_duration",
                  ns(r->decode_us));
    if (object && more && json_object_update_new(object, more) == 0) return object;
    if (!object) json_decref(more);
    json_decref(object);
    return NULL;
}

static bt_err begin(bt_buf *out, gw_answer *a)
{
    (void)out;
    (void)a;
    return BT_OK;
}

static bt_err add_part(bt_buf *out, const gw_answer *a, words_fn *words, const bt_thoughts_part *s,
                       json_t *logprobs)
{
    json_t *j =
        words(envelope(a, false), s->is_thought ? nothing : s->text, s->is_thought ? s->text : nothing);
    return gw_answer_add(out, with_logprobs(j, logprobs), "", line);
}

static bt_err add_end(bt_buf *out, const gw_answer *a, words_fn *words, const gw_answer_report *r)
{
    return gw_answer_add(out, with_report(words(envelope(a, true), nothing, nothing), r), "", line);
}

static bt_err add_whole(bt_buf *out, const gw_answer *a, words_fn *words, const gw_answer_report *r,
                        json_t *logprobs)
{
    json_t *j = with_logprobs(words(envelope(a, true), r->said, r->thoughts), logprobs);
    return gw_answer_add(out, with_report(j, r), "", "");
}

static bt_err add_loaded(bt_buf *out, const gw_answer *a, words_fn *words)
{
    json_t *j = words(envelope(a, true), nothing, nothing);
    return gw_answer_add(out, gw_answer_with(j, "done_reason", json_string(a->is_unload ? "unload" : "load")),
                         "", "");
}

static bt_err chat_part(bt_buf *out, gw_answer *a, const bt_thoughts_part *s, json_t *logprobs)
{
    return add_part(out, a, chat_words, s, logprobs);
}
static bt_err chat_end(bt_buf *out, gw_answer *a, const gw_answer_report *r)
{
    return add_end(out, a, chat_words, r);
}
static bt_err chat_whole(bt_buf *out, gw_answer *a, const gw_answer_report *r, json_t *logprobs)
{
    return add_whole(out, a, chat_words, r, logprobs);
}
static bt_err chat_alive(bt_buf *out, gw_answer *a)
{
    return chat_part(out, a, &(bt_thoughts_part){.text = nothing}, json_null());
}
static bt_err chat_loaded(bt_buf *out, gw_answer *a) { return add_loaded(out, a, chat_words); }

static bt_err text_part(bt_buf *out, gw_answer *a, const bt_thoughts_part *s, json_t *logprobs)
{
    return add_part(out, a, text_words, s, logprobs);
}
static bt_err text_end(bt_buf *out, gw_answer *a, const gw_answer_report *r)
{
    return add_end(out, a, text_words, r);
}
static bt_err text_whole(bt_buf *out, gw_answer *a, const gw_answer_report *r, json_t *logprobs)
{
    return add_whole(out, a, text_words, r, logprobs);
}
static bt_err text_alive(bt_buf *out, gw_answer *a)
{
    return text_part(out, a, &(bt_thoughts_part){.text = nothing}, json_null());
}
static bt_err text_loaded(bt_buf *out, gw_answer *a) { return add_loaded(out, a, text_words); }

/* ---- errors --------------------------------------------------------------------------------------- */

static const gw_error_kind kinds[] = {{400, 599, NULL}};

static json_t *error(const gw_error *err, const char *type)
{
    (void)type;
    return json_pack("{s:s}", "error", err->message);
}

/* ---- models --------------------------------------------------------------------------------------- */

static json_t *details(const gw_model_facts *m)
{
    char size[32];
    const double n = (double)m->parameters;
    (void)snprintf(size, sizeof size, n >= 1e9 ? "%.1fB" : "%.2fM", n >= 1e9 ? n / 1e9 : n / 1e6);
    return json_pack("{s:s,s:s,s:s,s:[s],s:s,s:s}", "parent_model", "", "format", "gguf", "family",
                     m->architecture, "families", m->architecture, "parameter_size", size,
                     "quantization_level", m->quantisation);
}

static json_t *entry(const gw_model_facts *m)
{
    char hex[BT_HASH_HEX_CHARS], text[64];
    return json_pack("{s:s,s:s,s:s,s:I,s:s,s:o}", "name", m->names[0], "model", m->names[0], "modified_at",
                     when(text, m->created_s * 1000000), "size", (json_int_t)m->bytes, "digest",
                     bt_hash_hex(hex, m->id), "details", details(m));
}

static bt_err add_entry(bt_buf *out, json_t *j)
{
    return gw_answer_add(out, json_pack("{s:[o]}", "models", j), "", "");
}

bt_err gw_ollama_tags(bt_buf *out, const gw_model_facts *m) { return add_entry(out, entry(m)); }

/* It stays loaded as long as the process lives: the far future. */
bt_err gw_ollama_ps(bt_buf *out, const gw_model_facts *m, uint32_t n_ctx)
{
    char text[64];
    json_t *j = gw_answer_with(entry(m), "context_length", json_integer(n_ctx));
    return add_entry(out,
                     gw_answer_with(j, "expires_at",
                                    json_string(when(text, (m->created_s + INT64_C(3155760000)) * 1000000))));
}

bt_err gw_ollama_version(bt_buf *out)
{
    return gw_answer_add(out, json_pack("{s:s}", "version", BT_VERSION), "", "");
}

/* Values of requests that do not give them, a line each. */
static void add_parameters(bt_buf *out, const char *before, const bt_defaults *d)
{
    static const struct {
        const char *name;
        bt_default_field field;
    } lines[] = {{"temperature", BT_DEFAULT_TEMPERATURE},
                 {"top_p", BT_DEFAULT_TOP_P},
                 {"top_k", BT_DEFAULT_TOP_K},
                 {"min_p", BT_DEFAULT_MIN_P},
                 {"repeat_penalty", BT_DEFAULT_REPETITION_PENALTY}};
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        (void)bt_buf_fmt(out, "%s%s%s %g", i ? "\n" : "", before, lines[i].name, d->value[lines[i].field]);
}

/* Takes b. */
static json_t *text_of(bt_buf *b)
{
    json_t *j = b->err < 0 ? NULL : json_stringn(bt_buf_text(b), b->len);
    bt_buf_done(b);
    return j;
}

static json_t *parameters(const bt_defaults *d)
{
    bt_buf b;
    bt_buf_init(&b, 1024);
    add_parameters(&b, "", d);
    return text_of(&b);
}

/* What ollama would make the model of. A template that holds three quotes has no place in it. */
static json_t *modelfile(const gw_model_facts *m, const gw_text *t, const bt_defaults *d)
{
    static const char quotes[] = "\"\"\"";
    const char *template = t->templates.text;
    bt_buf b;
    bt_buf_init(&b, SIZE_MAX);
    (void)bt_buf_fmt(&b, "FROM %s\n", m->names[0]);
    if (template && !strstr(template, quotes)) {
        (void)bt_buf_str(&b, "TEMPLATE \"\"\"");
        (void)bt_buf_str(&b, template);
        (void)bt_buf_str(&b, "\"\"\"\n");
    }
    add_parameters(&b, "PARAMETER ", d);
    (void)bt_buf_byte(&b, '\n');
    return text_of(&b);
}

static json_t *model_info(const gw_model_facts *m)
{
    json_t *j = json_pack("{s:s,s:I,s:s}", "general.architecture", m->architecture, "general.parameter_count",
                          (json_int_t)m->parameters, "general.basename", m->names[0]);
    const struct {
        const char *name;
        uint32_t value;
    } more[] = {{"context_length", m->ctx_tokens},
                {"embedding_length", m->dim},
                {"block_count", m->layers},
                {"vocab_size", m->vocab}};
    for (size_t i = 0; i < sizeof more / sizeof *more; i++) {
        char key[96];
        (void)snprintf(key, sizeof key, "%.63s.%s", m->architecture, more[i].name);
        j = gw_answer_with(j, key, json_integer(more[i].value));
    }
    return j;
}

bt_err gw_ollama_show(bt_buf *out, gw_error *err, const gw_text *t, const char *body, size_t len,
                      const gw_ask_limits *limits)
{
    const gw_model_facts *m = limits->model;
    gw_reader p = {.err = err, .limits = limits, .own = &own};
    json_t *root = NULL;
    bt_err e = gw_read_object(&root, &p, body, len);
    if (e < 0) return e;
    e = gw_fields_read(&p, root, GW_FIELD_OLLAMA_SHOW);
    if (e == BT_OK && !json_object_get(root, "model") && !json_object_get(root, "name"))
        e = gw_error_say(err, 400, "missing_required_parameter", "model",
                         "Missing required parameter: 'model'.");
    json_decref(root);
    if (e < 0) return e;
    char text[64];
    json_t *capabilities = json_pack("[s]", "completion");
    if (t->marks && json_array_append_new(capabilities, json_string("thinking")) < 0) {
        json_decref(capabilities);
        capabilities = NULL;
    }
    json_t *j = json_pack("{s:o,s:s,s:o,s:o,s:o,s:o,s:s}", "modelfile", modelfile(m, t, limits->defaults),
                          "template", t->templates.text ? t->templates.text : "", "parameters",
                          parameters(limits->defaults), "details", details(m), "model_info", model_info(m),
                          "capabilities", capabilities, "modified_at", when(text, m->created_s * 1000000));
    return gw_answer_add(out, j, "", "") < 0 ? gw_read_no_memory(&p) : BT_OK;
}

/* ---- the dialects --------------------------------------------------------------------------------- */

const gw_dialect gw_dialect_ollama_chat = {
    .name = "ollama chat",
    .request = "OllamaChatRequest",
    .prompt = "messages",
    .where = CHAT,
    .own = &own,
    .is_chat = true,
    .is_stream = true,
    .made = made_chat,
    .id = "",
    .logprobs = GW_LOGPROBS_CHAT,
    .stream_type = gw_dialect_lines,
    .begin = begin,
    .part = chat_part,
    .end = chat_end,
    .alive = chat_alive,
    .whole = chat_whole,
    .loaded = chat_loaded,
    .error_schema = "OllamaError",
    .kinds = kinds,
    .error = error,
    .error_event = "",
    .error_end = line,
};

const gw_dialect gw_dialect_ollama_text = {
    .name = "ollama text",
    .request = "OllamaTextRequest",
    .prompt = "prompt",
    .where = TEXT,
    .own = &own,
    .is_chat = true,
    .is_stream = true,
    .made = made_text,
    .id = "",
    .logprobs = GW_LOGPROBS_CHAT,
    .stream_type = gw_dialect_lines,
    .begin = begin,
    .part = text_part,
    .end = text_end,
    .alive = text_alive,
    .whole = text_whole,
    .loaded = text_loaded,
    .error_schema = "OllamaError",
    .kinds = kinds,
    .error = error,
    .error_event = "",
    .error_end = line,
};
