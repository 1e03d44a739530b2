/* See thoughts.h. Each call looks again at what waits: a part of a mark and a short run of white space. */
#include "text/thoughts.h"

#include <stdlib.h>
#include <string.h>

#define MARKS(open, close) \
    { \
        open, close, {open, close}, false \
    }

static const char start[] = "<|start|>", channel[] = "<|channel|>", message[] = "<|message|>";
#define ANALYSIS "analysis"

/* In the order in which they are looked for. */
static const bt_thought_marks known[] = {
    MARKS("<think>", "</think>"),
    MARKS("[THINK]", "[/THINK]"),
    MARKS("<|START_THINKING|>", "<|END_THINKING|>"),
    MARKS("<seed:think>", "</seed:think>"),
    MARKS("<|begin_of_thought|>", "<|end_of_thought|>"),
    MARKS("<thought>", "</thought>"),
    MARKS("<thinking>", "</thinking>"),
    MARKS("<reasoning>", "</reasoning>"),
    MARKS("\xe2\x97\x81think\xe2\x96\xb7", "\xe2\x97\x81/think\xe2\x96\xb7"),
    MARKS("Here is my thought process:", "Here is my response:"),
    {"<|channel|>" ANALYSIS "<|message|>", "<|end|>", {start, channel, message, "<|end|>"}, true},
};
enum { KNOWN = sizeof known / sizeof *known };

static bool names(bt_text_span text, const char *mark)
{
    return text.ptr && memmem(text.ptr, text.len, mark, strlen(mark));
}

static bool is_token(const bt_tokenizer *tok, const char *name)
{
    int32_t *ids;
    size_t n;
    if (bt_tokenizer_encode(&ids, &n, tok, name, strlen(name), BT_ENCODE_SPECIAL, NULL) < 0) return false;
    const bt_text_span piece = n == 1 ? bt_tokenizer_piece(tok, ids[0]) : (bt_text_span){NULL, 0};
    const bool is_one = piece.len == strlen(name) && memcmp(piece.ptr, name, piece.len) == 0;
    free(ids);
    return is_one;
}

const bt_thought_marks *bt_thoughts_find(const bt_tokenizer *tok, bt_text_span chat_template)
{
    for (size_t i = 0; i < KNOWN; i++)
        if (names(chat_template, known[i].open) ||
            (!known[i].has_channels && names(chat_template, known[i].close)))
            return &known[i];
    for (size_t i = 0; i < KNOWN; i++)
        if (is_token(tok, known[i].open) && is_token(tok, known[i].close)) return &known[i];
    return NULL;
}

static bool is_space(char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }

static size_t skip_space(const char *text, size_t at, size_t len)
{
    while (at < len && is_space(text[at])) at++;
    return at;
}

/* Where the white space at the end of text[at .. end) begins. */
static size_t trim(const char *text, size_t at, size_t end)
{
    while (end > at && is_space(text[end - 1])) end--;
    return end;
}

/* text[at .. len) begins with the mark, or is a beginning of it: 1, 0; anything else: -1. */
static int begins(const char *text, size_t at, size_t len, const char *mark)
{
    const size_t n = strlen(mark), there = len - at;
    if (memcmp(text + at, mark, there < n ? there : n) != 0) return -1;
    return there >= n;
}

bool bt_thoughts_opened(const bt_thought_marks *marks, const char *prompt, size_t len)
{
    const size_t n = marks ? strlen(marks->open) : 0, end = trim(prompt, 0, len);
    return n > 0 && end >= n && memcmp(prompt + end - n, marks->open, n) == 0;
}

void bt_thoughts_begin(bt_thoughts *ret, const bt_thought_marks *marks, bool is_open)
{
    *ret = (bt_thoughts){.marks = marks, .is_first = true,
                         .state = !marks    ? BT_THOUGHTS_SAYS
                                  : is_open ? BT_THOUGHTS_THINKS
                                            : BT_THOUGHTS_BEGINS};
}

static bool give(bt_thoughts_part *ret, bt_thoughts *t, const char *text, size_t end, size_t next)
{
    *ret = (bt_thoughts_part){t->state == BT_THOUGHTS_THINKS, {text + t->at, end - t->at}};
    t->at = next;
    return ret->text.len > 0;
}

/* Nothing but white space so far. False: wait. */
static bool decide(bt_thoughts *t, const char *text, size_t len, bool is_over)
{
    const size_t at = skip_space(text, t->at, len);
    const bool is_long = at - t->at > BT_THOUGHTS_MAX_HELD_BYTES;
    const int mark = is_long ? -1 : begins(text, at, len, t->marks->open);
    if (mark == 0 && !is_over) return false;
    if (!t->is_first || mark == 1) t->at = at;
    if (mark == 1) t->at += strlen(t->marks->open);
    t->state = mark == 1 ? BT_THOUGHTS_THINKS : BT_THOUGHTS_SAYS;
    t->is_first = mark == 1;
    return true;
}

/* The same where messages have channels: past the header of the next one. */
static bool open_message(bt_thoughts *t, const char *text, size_t len, bool is_over)
{
    const size_t at = skip_space(text, t->at, len);
    const bool is_long = at - t->at > BT_THOUGHTS_MAX_HELD_BYTES;
    const int a = is_long ? -1 : begins(text, at, len, start),
              b = is_long ? -1 : begins(text, at, len, channel);
    const size_t most = len - at < BT_THOUGHTS_MAX_HEADER_BYTES ? len - at : BT_THOUGHTS_MAX_HEADER_BYTES;
    const char *head = text + at, *end = memmem(head, most, message, sizeof message - 1);
    const bool is_header = a == 1 || b == 1;
    if (!is_over && (is_header ? !end && most < BT_THOUGHTS_MAX_HEADER_BYTES : a == 0 || b == 0))
        return false;
    t->state = BT_THOUGHTS_SAYS;
    if (!is_header || (!end && most == BT_THOUGHTS_MAX_HEADER_BYTES)) {
        if (!t->is_first) t->at = at;
        return true;
    }
    const char *name = end ? memmem(head, (size_t)(end - head), channel, sizeof channel - 1) : NULL;
    if (name) name += sizeof channel - 1;
    if (name && begins(name, 0, (size_t)(end - name), ANALYSIS) == 1) t->state = BT_THOUGHTS_THINKS;
    t->at = end ? (size_t)(end - text) + sizeof message - 1 : len;
    t->is_first = true;
    return true;
}

/* Inside thoughts, or a message: what is certain of it, and the mark that ends it. */
static bool take_body(bt_thoughts_part *ret, bt_thoughts *t, const char *text, size_t len, bool is_over)
{
    const char *mark = t->marks->close;
    const size_t n = strlen(mark);
    const bool is_thought = t->state == BT_THOUGHTS_THINKS;
    if (t->is_first && is_thought) t->at = skip_space(text, t->at, len);
    const char *found = len > t->at ? memmem(text + t->at, len - t->at, mark, n) : NULL;
    size_t end = found ? (size_t)(found - text) : len;
    if (!found && !is_over) {
        end = len - t->at < n ? t->at : len - n + 1;
        while (end < len && begins(text, end, len, mark) < 0) end++;
    }
    const size_t said = is_thought ? trim(text, t->at, end) : end;
    const bool is_held = found || is_over || end - said <= BT_THOUGHTS_MAX_HELD_BYTES;
    const size_t until = is_held ? said : end;
    const bool has_text = give(ret, t, text, until,
                               found     ? (size_t)(found - text) + n
                               : is_over ? len
                                         : until);
    if (has_text) t->is_first = false;
    if (found) {
        t->state = BT_THOUGHTS_BEGINS;
        t->is_first = false;
    }
    return has_text;
}

bool bt_thoughts_next(bt_thoughts_part *ret, bt_thoughts *t, const char *text, size_t len, bool is_over)
{
    while (t->at < len) {
        const size_t before = t->at;
        const bt_thoughts_state state = t->state;
        const bool has_channels = t->marks && t->marks->has_channels;
        if (state == BT_THOUGHTS_SAYS && !has_channels) return give(ret, t, text, len, len);
        if (state == BT_THOUGHTS_BEGINS &&
            !(has_channels ? open_message(t, text, len, is_over) : decide(t, text, len, is_over)))
            return false;
        if (state != BT_THOUGHTS_BEGINS && take_body(ret, t, text, len, is_over)) return true;
        if (t->at == before && t->state == state) return false;
    }
    return false;
}
