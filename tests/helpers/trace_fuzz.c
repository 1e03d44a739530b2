/* The promises of every reader of traces, whatever its bytes are. */
#include "tests/helpers/trace_fuzz.h"
#include "crypto/keys.h"

#include <stdlib.h>
#include <string.h>

static bt_err count(void *ud, uint32_t *ret, const char *text, size_t len, bt_fault *fault)
{
    (void)ud;
    (void)fault;
    if (strlen(text) > len) abort();
    *ret = (uint32_t)len;
    return BT_OK;
}

static void check(const bt_trace_row *r)
{
    uint64_t sum = 0;
    if (r->input_tokens > BT_TRACE_MAX_TOKENS || r->output_tokens > BT_TRACE_MAX_TOKENS) abort();
    if (!r->has_output && r->output_tokens) abort();
    if (r->has_delay && (r->delay_us < 0 || !r->session)) abort();
    if (r->session && (!r->session[0] || strlen(r->session) > BT_TRACE_MAX_NAME)) abort();
    if (r->hash_len > r->input_tokens) abort();
    for (size_t i = 0; i < r->hash_len; i++) sum += r->hash_ids[i];
    if (r->captured) {
        const bt_trace_captured *c = r->captured;
        if (c->outcome >= BT_TRACE_OUTCOMES) abort();
        for (size_t i = 0; i < BT_TRACE_TIMES; i++)
            if (c->time_us[i] < -1) abort();
        for (size_t i = 0; c->has_text && i < c->prompt_len; i++) sum += (uint64_t)(uint32_t)c->prompt_ids[i];
        for (size_t i = 0; c->has_text && i < c->answer_len; i++) sum += (uint64_t)(uint32_t)c->answer_ids[i];
        for (size_t i = 0; c->has_text && i < c->text_bytes; i++) sum += (uint8_t)c->text[i];
    }
    volatile uint64_t read = sum; /* all of it is there */
    (void)read;
}

void trace_fuzz(const uint8_t *data, size_t len, bt_trace_format format)
{
    static const unsigned char key[32] = {1};
    const bt_trace_options o = {.format = format, .count = count, .public_key = key, .secret_key = key};
    bt_trace *t;
    bt_fault fault;
    FILE *f = len ? fmemopen((void *)(uintptr_t)data, len, "re") : fopen("/dev/null", "re");
    if (!f) return;
    if (bt_trace_begin(&t, f, &o, &fault) == BT_OK) {
        const bool are_rates = bt_trace_look(t).format == BT_TRACE_SERVEGEN;
        bool is_end = false;
        bt_err e = BT_OK;
        for (size_t calls = 0; (e == BT_OK || e == BT_EFORMAT) && !is_end; calls++) {
            bt_trace_row row;
            bt_trace_rate rate;
            if (calls > 4 * len + 16) abort(); /* each call goes on by a byte at least */
            e = are_rates ? bt_trace_next_rate(&rate, &is_end, t, &fault)
                          : bt_trace_next(&row, &is_end, t, &fault);
            if (e == BT_EFORMAT && !strstr(fault.text, "line ")) abort();
            if (e != BT_OK || is_end) continue;
            if (!are_rates) check(&row);
            else if (!(rate.end_s > rate.start_s) || rate.rate < 0) abort();
        }
        bt_trace_close(t);
    }
    (void)fclose(f);
}
