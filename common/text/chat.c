/* Which family a chat template belongs to, and how each family writes a conversation. */
#include "text/chat.h"

#include "base/buf.h"
#include "text/utf8.h"

#include <stdlib.h>
#include <string.h>

#define PLAIN_PROMPT "send a plain prompt instead: /v1/completions, or 'baton run -p TEXT'"

const char *bt_chat_family_name(bt_chat_family f)
{
    switch (f) {
    case BT_CHAT_CHATML: return "ChatML";
    case BT_CHAT_LLAMA2: return "Llama 2";
    case BT_CHAT_LLAMA3: return "Llama 3";
    case BT_CHAT_MISTRAL: return "Mistral";
    case BT_CHAT_ZEPHYR: return "Zephyr";
    case BT_CHAT_PHI3: return "Phi-3";
    case BT_CHAT_GEMMA: return "Gemma";
    }
    return "unknown";
}

/* ---- recognising ---- */

static const char *find(bt_text_span in, const char *what)
{
    return in.len > 0 ? memmem(in.ptr, in.len, what, strlen(what)) : NULL;
}

static bool has(bt_text_span in, const char *what) { return find(in, what) != NULL; }

static bt_text_span rest_from(bt_text_span in, const char *at)
{
    return (bt_text_span){at, (size_t)(in.ptr + in.len - at)};
}

static bool find_family(bt_chat_family *ret, bt_text_span t)
{
    if (has(t, "<|im_start|>") && !has(t, "<|im_sep|>") && !has(t, "<end_of_utterance>"))
        *ret = BT_CHAT_CHATML;
    else if (has(t, "<|im_start|>")) return false;
    else if (has(t, "<|start_header_id|>") && has(t, "<|eot_id|>")) *ret = BT_CHAT_LLAMA3;
    else if (has(t, "[INST]")) *ret = has(t, "<<SYS>>") ? BT_CHAT_LLAMA2 : BT_CHAT_MISTRAL;
    else if (has(t, "<|end|>") && has(t, "<|assistant|>")) *ret = BT_CHAT_PHI3;
    else if (has(t, "<|user|>") && has(t, "<|assistant|>") &&
             (has(t, "eos_token") || has(t, "<|endoftext|>")))
        *ret = BT_CHAT_ZEPHYR;
    else if (has(t, "<start_of_turn>") && has(t, "<end_of_turn>")) *ret = BT_CHAT_GEMMA;
    else return false;
    return true;
}

/* The words of a system message that the template gives of its own: what follows the opening mark inside one
 * string of the program, up to the closing mark. Where an expression follows instead (a quote ends the
 * string) there is none. */
static void find_default_system(bt_chat *c, bt_text_span t)
{
    static const char open[] = "<|im_start|>system", close[] = "<|im_end|>";
    for (const char *at; (at = find(t, open)) != NULL;) {
        t = rest_from(t, at + strlen(open));
        const char *end = find(t, close);
        if (!end) return;
        const char *p = t.ptr;
        if (*p == '\n') p++;
        else if (end - p > 2 && p[0] == '\\' && p[1] == 'n') p += 2;
        else continue;
        size_t n = 0;
        for (; p < end && n < sizeof c->default_system - 1; p++) {
            if (strchr("'\"{}", *p)) break; /* the 0 byte too */
            const bool is_newline = end - p > 1 && p[0] == '\\' && p[1] == 'n';
            c->default_system[n++] = is_newline ? '\n' : *p;
            p += is_newline;
        }
        c->default_system[p == end ? n : 0] = '\0';
        if (p == end && n > 0) return;
    }
}

/* The spaces around brackets and answers differ between releases; they are written out in the template. */
static void find_inst_variant(bt_chat *c, bt_text_span t)
{
    const bool is_led = has(t, "' [INST] '") || has(t, "\" [INST] \"");
    c->has_system = has(t, "system") || c->family == BT_CHAT_LLAMA2;
    c->has_system_tag = has(t, "[SYSTEM_PROMPT]");
    c->is_system_last = has(t, "loop.last and system_message");
    c->is_trimmed = has(t, ".strip()");
    c->is_answer_trimmed = c->is_trimmed || has(t, "|trim") || has(t, "| trim");
    c->has_bos_each_turn = has(t, "bos_token + '[INST]");
    c->inst_open = is_led ? " [INST] " : has(t, "[INST] ") ? "[INST] " : "[INST]";
    c->inst_close = has(t, " [/INST]") ? " [/INST]" : "[/INST]";
    c->answer_open = has(t, "' ' + message") || has(t, "\" \" + message") || has(t, "' ' + content") ||
                             has(t, "' '  + content")
                         ? " "
                         : "";
    c->answer_close = has(t, "' ' + eos_token") ? " " : "";
    c->answer_gap = has(t, "eos_token + ' '") ? " " : "";
}

static void copy_name(char ret[BT_CHAT_MAX_TOKEN_BYTES], bt_text_span name)
{
    const size_t n =
        name.len < BT_CHAT_MAX_TOKEN_BYTES && !(name.len > 0 && memchr(name.ptr, 0, name.len)) ? name.len : 0;
    if (n > 0) memcpy(ret, name.ptr, n);
    ret[n] = '\0';
}

bt_err bt_chat_detect(bt_chat *ret, bt_text_span tmpl, bt_text_span bos, bt_text_span eos, bt_fault *fault)
{
    bt_chat c = {0};
    if (!tmpl.ptr) return bt_fail(fault, BT_EVERSION, "the model file has no chat template; " PLAIN_PROMPT);
    if (!find_family(&c.family, tmpl))
        return bt_fail(fault, BT_EVERSION,
                       "the model's chat template is of no known family (ChatML, Llama 2, Llama 3, "
                       "Mistral, Zephyr, Phi-3, Gemma); " PLAIN_PROMPT);
    copy_name(c.bos, bos);
    copy_name(c.eos, eos);
    c.has_system = true;
    switch (c.family) {
    case BT_CHAT_CHATML: find_default_system(&c, tmpl); break;
    case BT_CHAT_LLAMA3: c.is_trimmed = has(tmpl, "trim"); break;
    case BT_CHAT_LLAMA2:
    case BT_CHAT_MISTRAL: find_inst_variant(&c, tmpl); break;
    case BT_CHAT_ZEPHYR:
        if (has(tmpl, "<|endoftext|>")) copy_name(c.eos, (bt_text_span){"<|endoftext|>", 13});
        break;
    case BT_CHAT_PHI3: c.has_system = has(tmpl, "system") || has(tmpl, "'<|' + message['role']"); break;
    case BT_CHAT_GEMMA:
        c.has_system = false;
        c.is_trimmed = true;
        break;
    }
    *ret = c;
    return BT_OK;
}

bt_err bt_chat_init(bt_chat *ret, const bt_tokenizer *tok, bt_fault *fault)
{
    return bt_chat_detect(ret, bt_tokenizer_chat_template(tok),
                          bt_tokenizer_piece(tok, bt_tokenizer_bos(tok)),
                          bt_tokenizer_piece(tok, bt_tokenizer_eos(tok)), fault);
}

/* ---- rendering ---- */

typedef enum role { ROLE_SYSTEM, ROLE_USER, ROLE_ASSISTANT } role;
static const char *const role_names[] = {"system", "user", "assistant"};

/* The text so far, and the ends of its pieces; neighbours of one kind become one piece. */
typedef struct writer {
    bt_buf text;
    struct end {
        size_t at;
        bool is_special;
    } * end;
    size_t ends, cap;
    bt_err err;
} writer;

static void write_piece(writer *w, const char *text, size_t len, bool is_special)
{
    if (w->err < 0 || len == 0) return;
    if (w->ends == 0 || w->end[w->ends - 1].is_special != is_special) {
        if (w->ends == w->cap) {
            const size_t cap = w->cap ? 2 * w->cap : 16;
            struct end *p = realloc(w->end, cap * sizeof *p);
            if (!p) {
                w->err = BT_ENOMEM;
                return;
            }
            w->end = p;
            w->cap = cap;
        }
        w->end[w->ends++].is_special = is_special;
    }
    w->err = bt_buf_add(&w->text, text, len);
    w->end[w->ends - 1].at = w->text.len;
}

static void mark(writer *w, const char *text) { write_piece(w, text, strlen(text), true); }

static bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

enum { TRIM_NONE = 0, TRIM_FRONT = 1, TRIM_BACK = 2, TRIM_BOTH = 3 };

static void words(writer *w, bt_text_span s, int trim)
{
    while ((trim & TRIM_FRONT) && s.len > 0 && is_space(s.ptr[0])) {
        s.ptr++;
        s.len--;
    }
    while ((trim & TRIM_BACK) && s.len > 0 && is_space(s.ptr[s.len - 1])) s.len--;
    write_piece(w, s.ptr, s.len, false);
}

static void write_turn(writer *w, const bt_chat *c, role r, bt_text_span content)
{
    const char *name = role_names[r];
    switch (c->family) {
    case BT_CHAT_CHATML:
        mark(w, "<|im_start|>");
        mark(w, name);
        mark(w, "\n");
        words(w, content, TRIM_NONE);
        mark(w, "<|im_end|>\n");
        break;
    case BT_CHAT_LLAMA3:
        mark(w, "<|start_header_id|>");
        mark(w, name);
        mark(w, "<|end_header_id|>\n\n");
        words(w, content, c->is_trimmed ? TRIM_BOTH : TRIM_NONE);
        mark(w, "<|eot_id|>");
        break;
    case BT_CHAT_ZEPHYR:
        mark(w, "<|");
        mark(w, name);
        mark(w, "|>\n");
        words(w, content, TRIM_NONE);
        mark(w, c->eos);
        mark(w, "\n");
        break;
    case BT_CHAT_PHI3:
        mark(w, "<|");
        mark(w, name);
        mark(w, "|>\n");
        words(w, content, TRIM_NONE);
        mark(w, "<|end|>\n");
        break;
    case BT_CHAT_GEMMA:
        mark(w, "<start_of_turn>");
        mark(w, r == ROLE_ASSISTANT ? "model" : name);
        mark(w, "\n");
        words(w, content, c->is_trimmed ? TRIM_BOTH : TRIM_NONE);
        mark(w, "<end_of_turn>\n");
        break;
    case BT_CHAT_LLAMA2:
    case BT_CHAT_MISTRAL: break;
    }
}

static void write_opening(writer *w, const bt_chat *c)
{
    switch (c->family) {
    case BT_CHAT_CHATML: mark(w, "<|im_start|>assistant\n"); break;
    case BT_CHAT_LLAMA3: mark(w, "<|start_header_id|>assistant<|end_header_id|>\n\n"); break;
    case BT_CHAT_ZEPHYR:
    case BT_CHAT_PHI3: mark(w, "<|assistant|>\n"); break;
    case BT_CHAT_GEMMA: mark(w, "<start_of_turn>model\n"); break;
    case BT_CHAT_LLAMA2:
    case BT_CHAT_MISTRAL: break; /* "[/INST]" has opened it */
    }
}

static void write_answer(writer *w, const bt_chat *c, bt_text_span content)
{
    mark(w, c->answer_open);
    words(w, content, c->is_answer_trimmed ? TRIM_BOTH : TRIM_NONE);
    mark(w, c->answer_close);
    mark(w, c->eos);
    mark(w, c->answer_gap);
}

/* system.ptr NULL: none here. Trimming takes both as one text. */
static void write_instruction(writer *w, const bt_chat *c, bt_text_span system, bt_text_span content)
{
    mark(w, c->inst_open);
    if (system.ptr) {
        if (c->family == BT_CHAT_LLAMA2) mark(w, "<<SYS>>\n");
        words(w, system, c->is_trimmed && c->family != BT_CHAT_LLAMA2 ? TRIM_FRONT : TRIM_NONE);
        mark(w, c->family == BT_CHAT_LLAMA2 ? "\n<</SYS>>\n\n" : "\n\n");
    }
    words(w, content, !c->is_trimmed ? TRIM_NONE : system.ptr ? TRIM_BACK : TRIM_BOTH);
    mark(w, c->inst_close);
}

static bt_err read_role(role *ret, const bt_chat *c, const bt_chat_message *m, size_t i, bt_fault *fault)
{
    char shown[32];
    for (size_t r = 0; r < sizeof role_names / sizeof *role_names; r++) {
        if (strcmp(m->role, role_names[r]) != 0) continue;
        if (r == ROLE_SYSTEM && !c->has_system) break;
        *ret = (role)r;
        return BT_OK;
    }
    return bt_fail(
        fault, BT_EARG,
        "message %zu: role '%s' is not supported by this model's chat template (%s: %suser, assistant)", i,
        bt_utf8_show(shown, sizeof shown, m->role, strlen(m->role)), bt_chat_family_name(c->family),
        c->has_system ? "system, " : "");
}

/* The families where every role is written alike. */
static bt_err write_turns(writer *w, const bt_chat *c, const bt_chat_message *message, size_t messages,
                          bt_fault *fault)
{
    for (size_t i = 0; i < messages; i++) {
        role r = ROLE_USER;
        const bt_err e = read_role(&r, c, &message[i], i, fault);
        if (e < 0) return e;
        if (i == 0 && r != ROLE_SYSTEM && c->default_system[0])
            write_turn(w, c, ROLE_SYSTEM, (bt_text_span){c->default_system, strlen(c->default_system)});
        write_turn(w, c, r, (bt_text_span){message[i].content, message[i].content_len});
    }
    return BT_OK;
}

/* Llama 2 and Mistral: instructions in brackets, with the system text inside one of them, and answers. */
static bt_err write_instructions(writer *w, const bt_chat *c, const bt_chat_message *message, size_t messages,
                                 bt_fault *fault)
{
    bt_text_span system = {NULL, 0};
    size_t last_user = 0, users = 0;
    for (size_t i = 0; i < messages; i++)
        if (strcmp(message[i].role, role_names[ROLE_USER]) == 0) last_user = i;
    for (size_t i = 0; i < messages; i++) {
        role r = ROLE_USER;
        const bt_text_span content = {message[i].content, message[i].content_len};
        const bt_err e = read_role(&r, c, &message[i], i, fault);
        if (e < 0) return e;
        if (r == ROLE_SYSTEM && i > 0)
            return bt_fail(
                fault, BT_EARG,
                "message %zu: this model's chat template (%s) takes a system message only as the first", i,
                bt_chat_family_name(c->family));
        if (r == ROLE_ASSISTANT && users == 0)
            return bt_fail(fault, BT_EARG,
                           "message %zu: this model's chat template (%s) needs a user message first", i,
                           bt_chat_family_name(c->family));
        if (r == ROLE_SYSTEM && c->has_system_tag) {
            mark(w, "[SYSTEM_PROMPT]");
            words(w, content, TRIM_NONE);
            mark(w, "[/SYSTEM_PROMPT]");
        } else if (r == ROLE_SYSTEM) {
            system = content;
        } else if (r == ROLE_ASSISTANT) {
            write_answer(w, c, content);
        } else {
            const bool takes_system = c->is_system_last ? i == last_user : users == 0;
            if (c->has_bos_each_turn && users > 0) mark(w, c->bos);
            write_instruction(w, c, takes_system ? system : (bt_text_span){NULL, 0}, content);
            users++;
        }
    }
    if (users == 0)
        return bt_fail(fault, BT_EARG, "this model's chat template (%s) needs a user message",
                       bt_chat_family_name(c->family));
    return BT_OK;
}

bt_err bt_chat_render(bt_chat_prompt *ret, const bt_chat *chat, const bt_chat_message *message,
                      size_t messages, bool add_generation_prompt, size_t limit_bytes, bt_fault *fault)
{
    bt_err e;
    bt_text_piece *piece = NULL;
    writer w = {.err = BT_OK};
    bt_buf_init(&w.text, limit_bytes);
    if (messages == 0) {
        e = bt_fail(fault, BT_EARG, "a chat needs at least one message");
        goto out;
    }
    if (messages > BT_CHAT_MAX_MESSAGES) {
        e = bt_fail(fault, BT_ELIMIT, "the chat has %zu messages; at most %d are allowed", messages,
                    BT_CHAT_MAX_MESSAGES);
        goto out;
    }
    const bool is_inst = chat->family == BT_CHAT_LLAMA2 || chat->family == BT_CHAT_MISTRAL;
    e = is_inst ? write_instructions(&w, chat, message, messages, fault)
                : write_turns(&w, chat, message, messages, fault);
    if (e < 0) goto out;
    if (add_generation_prompt) write_opening(&w, chat);
    if (w.err == BT_OK && !(piece = calloc(w.ends + 1, sizeof *piece))) w.err = BT_ENOMEM;
    if ((e = w.err) == BT_ELIMIT) {
        bt_fail(fault, e, "the chat is longer than %zu bytes", limit_bytes);
        goto out;
    }
    if (e != BT_OK) {
        bt_fail(fault, e, "cannot render a chat of %zu messages: %s", messages, bt_err_name(e));
        goto out;
    }
    for (size_t i = 0, begin = 0; i < w.ends; begin = w.end[i++].at)
        piece[i] =
            (bt_text_piece){(const char *)w.text.data + begin, w.end[i].at - begin, w.end[i].is_special};
    *ret = (bt_chat_prompt){(char *)w.text.data, w.text.len, piece, w.ends};
    piece = NULL;
    bt_buf_init(&w.text, 0);
out:
    free(piece);
    free(w.end);
    bt_buf_done(&w.text);
    return e;
}

void bt_chat_prompt_done(bt_chat_prompt *p)
{
    if (!p) return;
    free(p->text);
    free(p->piece);
    *p = (bt_chat_prompt){0};
}
