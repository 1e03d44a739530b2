/* Any text as an answer that may call tools: its parts are the same in whatever steps it comes, and all
 * arguments are JSON objects. Byte 0: the steps, and in the two highest bits the form. */
#include "text/calls/calls.h"
#include "base/buf.h"

#include <jansson.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static bt_buf split(const char *text, size_t len, size_t step, uint8_t how)
{
    static const bt_call_form form[] = {
        {"object", {"<t>"}, BT_CALL_OBJECT, "</t>", 0, true, false},
        {"list", {"[T]", "<t>"}, BT_CALL_LIST, "</t>", 0, false, false},
        {"bare", {"<|t|>"}, BT_CALL_OBJECT, "", ';', true, true},
        {"python", {"<|s|>", "<|t|>"}, BT_CALL_PYTHON, "<|e|>", 0, true, true},
    };
    bt_calls c;
    bt_calls_part p;
    bt_buf ret;
    json_t *names = json_pack("{s:b,s:b}", "f", 1, "g", 1);
    if (!names) abort();
    bt_buf_init(&ret, SIZE_MAX);
    bt_calls_begin(&c, &form[how >> 6], names, false);
    for (size_t n = step < len ? step : len;; n = n + step < len ? n + step : len) {
        while (bt_calls_next(&p, &c, text, n, false) || (n == len && bt_calls_next(&p, &c, text, n, true))) {
            if (!p.is_call) {
                if (p.text.len == 0 || p.text.ptr < text || p.text.ptr + p.text.len > text + n) abort();
                (void)bt_buf_add(&ret, p.text.ptr, p.text.len);
                continue;
            }
            json_t *arguments = json_loads(p.call.arguments, JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL, NULL);
            if (!json_is_object(arguments)) abort();
            json_decref(arguments);
            (void)bt_buf_fmt(&ret, "\1%u %s %s\1", p.call.index, p.call.name, p.call.arguments);
        }
        if (n == len) break;
    }
    if (c.at != len || ret.err < 0) abort();
    bt_calls_done(&c);
    return ret;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    if (len == 0) return 0;
    const char *text = (const char *)data + 1;
    bt_buf a = split(text, len - 1, (size_t)(data[0] & 63) + 1, data[0]),
           b = split(text, len - 1, len, data[0]);
    if (a.len != b.len || memcmp(bt_buf_text(&a), bt_buf_text(&b), a.len) != 0) abort();
    bt_buf_done(&a);
    bt_buf_done(&b);
    return 0;
}
