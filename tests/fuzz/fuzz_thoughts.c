/* Any text as an answer: its parts are the same in whatever steps it comes, but for white space, and in order
 * they are bytes of the text. Byte 0: the steps, low bit whether the answer begins inside thoughts, bit 7
 * whether messages have channels. */
#include "text/thoughts.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

typedef struct parts {
    char *text[2]; /* said, thought */
    size_t len[2];
} parts;

static void take(parts *to, const bt_thoughts_part *p, const char *text, size_t len)
{
    if (p->text.len == 0 || p->text.ptr < text || p->text.ptr + p->text.len > text + len) abort();
    for (size_t i = 0; i < p->text.len; i++) {
        const char c = p->text.ptr[i];
        if (!strchr(" \n\t\r", c) || !c) to->text[p->is_thought][to->len[p->is_thought]++] = c;
    }
}

static parts split(const char *text, size_t len, size_t step, uint8_t how)
{
    static const bt_thought_marks marks[] = {
        {.open = "<a>", .close = "</a>"},
        {.open = "<|channel|>analysis<|message|>", .close = "<|end|>", .has_channels = true}};
    parts ret = {{malloc(len + 1), malloc(len + 1)}, {0, 0}};
    bt_thoughts t;
    bt_thoughts_part p;
    if (!ret.text[0] || !ret.text[1]) abort();
    bt_thoughts_begin(&t, &marks[how >> 7], how & 1);
    for (size_t n = 0; n < len; n += step)
        while (bt_thoughts_next(&p, &t, text, n, false)) take(&ret, &p, text, n);
    while (bt_thoughts_next(&p, &t, text, len, true)) take(&ret, &p, text, len);
    if (t.at != len) abort();
    return ret;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    if (len == 0) return 0;
    const char *text = (const char *)data + 1;
    const parts a = split(text, len - 1, (size_t)(data[0] >> 1 & 63) + 1, data[0]);
    const parts b = split(text, len - 1, len, data[0]);
    for (int i = 0; i < 2; i++) {
        if (a.len[i] != b.len[i] || memcmp(a.text[i], b.text[i], a.len[i]) != 0) abort();
        free(a.text[i]);
        free(b.text[i]);
    }
    return 0;
}
