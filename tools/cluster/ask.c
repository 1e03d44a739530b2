/* See ask.h. */
#include "tools/cluster/ask.h"
#include "base/clock.h"
#include "base/num.h"
#include "base/wait.h"
#include "device/link.h"
#include "tools/cluster/http.h"
#include "tools/show.h"
#include "tools/tool.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static double value(const json_t *o, const char *key) { return json_number_value(json_object_get(o, key)); }
static const char *name(const json_t *o, const char *key)
{
    const char *text = json_string_value(json_object_get(o, key));
    return text ? text : "none";
}

static void print_part(const char *what, double took_ms)
{
    if (took_ms > 0) fprintf(stderr, "           %10.2f ms %s\n", took_ms, what);
}

/* How far a kind of modelled figure may be off: "+- 9 %"; "not known". */
static const char *error_of(const json_t *device, const char *kind)
{
    const char *text =
        json_string_value(json_object_get(json_object_get(json_object_get(device, "error"), kind), "text"));
    return text ? text : "not known";
}

/* The object `device` of an answer (docs/device-time.md) for people, on stderr. */
static void show_device(const json_t *o)
{
    const json_t *j = json_object_get(o, "joules"), *op;
    char what[96];
    size_t i;
    const char *schedule = json_string_value(json_object_get(o, "schedule"));
    char rate[BT_LINK_MAX_TEXT] = "no link";
    bt_link link;
    if (bt_link_parse(&link, name(o, "link"), NULL) == BT_OK) bt_link_text(rate, &link);
    fprintf(stderr, "device     %s (%s)", name(o, "profile"), name(o, "stack"));
    if (json_is_string(json_object_get(o, "decode_profile"))) /* else nothing was decoded */
        fprintf(stderr, " and %s (%s)", name(o, "decode_profile"), name(o, "decode_stack"));
    fprintf(stderr, ", computed%s%s\n", schedule ? ", schedule " : "", schedule ? schedule : "");
    fprintf(
        stderr,
        "           first token after %.1f ms, %.2f ms a token; transfer %.2f ms at %s, %.2f ms exposed\n",
        value(o, "ttft_ms"), value(o, "tpot_ms"), value(o, "transfer_ms"), rate,
        value(o, "exposed_transfer_ms"));
    fprintf(stderr, "           errors: first token %s, a token %s", error_of(o, "ttft"),
            error_of(o, "tpot"));
    fprintf(stderr, "%s%s\n", json_is_number(j) ? ", energy " : "",
            json_is_number(j) ? error_of(o, "joules") : "");
    if (json_is_true(json_object_get(o, "is_late")))
        fprintf(stderr,
                "           LATE: the host needed %.1f ms more than the pace of %.1f ms; take a larger K\n",
                value(o, "late_ms"), value(o, "paced_ms"));
    fprintf(stderr, "           %.2f %% of the peak in prefill, %.1f %% of the memory's in decode; ",
            100 * value(o, "utilisation"), 100 * value(o, "decode_utilisation"));
    if (json_is_number(j))
        fprintf(stderr, "%.3f J%s\n", json_number_value(j),
                json_is_true(json_object_get(o, "joules_of_tdp")) ? " at most, by a TDP" : "");
    else fprintf(stderr, "no source for its energy\n");
    print_part("NPU", value(o, "npu_ms"));
    json_array_foreach(json_object_get(o, "companion_ops"), i, op) {
        snprintf(what, sizeof what, "%s on the companion, %s", name(op, "op"), name(o, "companion"));
        print_part(what, value(op, "ms"));
    }
    print_part("conversions between the two", value(o, "edges_ms"));
    print_part("waiting for each other", value(o, "sync_ms"));
    print_part("session switches", value(o, "session_ms"));
    print_part("spilled bytes, of the NPU's", value(o, "spill_ms"));
    print_part("first use of the programs", value(o, "first_use_ms"));
    print_part("the NPU waits for the companion", value(o, "npu_bubble_ms"));
    print_part("the companion waits for the NPU", value(o, "companion_bubble_ms"));
    print_part("once, compiling them on the device", value(o, "compile_ms"));
}

typedef struct stream {
    tool_answer *answer;
    bool echo, shows_thoughts;
    bt_fault fault;
    bool failed;
} stream;

static void note_piece(tool_answer *a)
{
    a->pieces++;
    a->last_us = bt_clock_us();
    if (!a->first_us) a->first_us = a->last_us;
    bt_wait_end();
}

static void write_thoughts(const char *text, size_t len)
{
    if (isatty(STDERR_FILENO)) tool_show(stderr, text, len);
    else fwrite(text, 1, len, stderr);
}

static void take_thoughts(stream *s, const char *text, size_t len)
{
    if (len == 0) return;
    note_piece(s->answer);
    (void)bt_buf_add(&s->answer->thoughts, text, len);
    if (s->shows_thoughts) write_thoughts(text, len);
}

static void take_text(stream *s, const char *text, size_t len)
{
    if (len == 0) return;
    if (s->shows_thoughts && s->answer->text.len == 0 && s->answer->thoughts.len > 0)
        write_thoughts("\n\n", 2);
    note_piece(s->answer);
    /* an error stays in the buffer and is looked at in the end */
    (void)bt_buf_add(&s->answer->text, text, len);
    if (!s->echo) return;
    if (isatty(STDOUT_FILENO)) tool_show(stdout, text, len);
    else fwrite(text, 1, len, stdout);
    (void)bt_opt_flush();
}

static bool on_event(void *ud, const char *data, size_t len)
{
    stream *s = ud;
    if (strcmp(data, "[DONE]") == 0) return true;
    json_error_t where;
    json_t *root = json_loadb(data, len, JSON_ALLOW_NUL, &where); /* a model may write one */
    const json_t *error = json_object_get(root, "error");
    if (!root || error) {
        const char *message = json_string_value(json_object_get(error, "message"));
        bt_fail(&s->fault, BT_EIO, "%s",
                !root     ? "the gateway sent something that is not JSON"
                : message ? message
                          : "the gateway sent an error without a message");
        s->failed = true;
        json_decref(root);
        return false;
    }
    const json_t *choice = json_array_get(json_object_get(root, "choices"), 0);
    const json_t *text = json_object_get(choice, "text"), *delta = json_object_get(choice, "delta");
    const json_t *thoughts = json_object_get(delta, "reasoning_content");
    if (!text) text = json_object_get(delta, "content");
    if (json_is_string(thoughts)) take_thoughts(s, json_string_value(thoughts), json_string_length(thoughts));
    if (json_is_string(text)) take_text(s, json_string_value(text), json_string_length(text));
    json_t *baton = json_object_get(root, "baton");
    if (json_is_object(baton) && !s->answer->baton) s->answer->baton = json_incref(baton);
    json_decref(root);
    return true;
}

bt_err tool_ask_send(tool_answer *ret, const tool_ask *ask, bt_fault *fault)
{
    stream s = {.answer = ret, .echo = ask->echo, .shows_thoughts = ask->shows_thoughts};
    bt_buf body;
    long status = 0;
    char *json = NULL;
    bt_err e;
    bt_buf_init(&ret->text, TOOL_ASK_MAX_TEXT_BYTES);
    bt_buf_init(&ret->thoughts, TOOL_ASK_MAX_TEXT_BYTES);
    bt_buf_init(&body, 1 << 20);
    ret->baton = NULL;
    ret->pieces = 0;
    ret->first_us = ret->last_us = 0;
    ret->begin_us = bt_clock_us();
    if (json_object_set_new(ask->request, "stream", json_true()) < 0 ||
        json_object_set_new(ask->request, "baton", json_true()) < 0 ||
        !(json = json_dumps(ask->request, JSON_COMPACT))) {
        e = bt_fail(fault, BT_ENOMEM, "out of memory building the request");
        goto out;
    }
    bt_wait_tell(NULL, "waiting for the first token", 0, 0);
    e = tool_http_stream(&status, &body, ask->url, ask->path, ask->api_key, json, on_event, &s, ask->stop,
                         fault);
    bt_wait_end();
    if (s.shows_thoughts && ret->thoughts.len > 0 && ret->text.len == 0) write_thoughts("\n", 1);
    if (s.failed) {
        e = bt_fail(fault, BT_EIO, "%s", s.fault.text);
    } else if (e == BT_OK && status != 200) {
        char text[sizeof fault->text];
        tool_http_error_text(text, sizeof text, status, &body);
        e = bt_fail(fault, BT_EIO, "%s", text);
    } else if (e == BT_OK && (ret->text.err < 0 || ret->thoughts.err < 0)) {
        e = bt_fail(fault, ret->text.err < 0 ? ret->text.err : ret->thoughts.err,
                    "the answer is longer than %d bytes", TOOL_ASK_MAX_TEXT_BYTES);
    } else if (e == BT_OK && !ret->baton) {
        e = bt_fail(fault, BT_EIO, "the answer of the gateway ended too early");
    }
out:
    free(json);
    bt_buf_done(&body);
    return e;
}

void tool_answer_done(tool_answer *a)
{
    bt_buf_done(&a->text);
    bt_buf_done(&a->thoughts);
    json_decref(a->baton);
    a->baton = NULL;
}

static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "-";
}

/* How much of the prompt was the NPU's work, and what the profile leaves to its companion. */
static void print_npu(const json_t *b)
{
    const json_t *share = json_object_get(b, "npu_mac_ratio"), *left = json_object_get(b, "fallbacks"), *f;
    size_t i;
    if (!json_is_number(share)) {
        fprintf(stderr, "npu        none: engine %s computed the prompt\n", text_of(b, "engine"));
        return;
    }
    fprintf(stderr, "npu        %6.2f %% of the prompt's multiply-adds; %s\n", 100 * json_number_value(share),
            json_array_size(left) ? "the CPU did what fell back:" : "nothing fell back to the CPU");
    const double in16 = json_number_value(json_object_get(b, "npu_int16_mac_ratio")),
                 floats = json_number_value(json_object_get(b, "npu_float_mac_ratio"));
    if (in16 > 0 || floats > 0)
        fprintf(stderr, "           %6.2f %% in int8, %.2f %% in int16, %.2f %% in floats\n",
                100 * json_number_value(json_object_get(b, "npu_int8_mac_ratio")), 100 * in16, 100 * floats);
    json_array_foreach(left, i, f) {
        fprintf(stderr, "           %s, %lld x: %s\n", text_of(f, "op"),
                (long long)json_integer_value(json_object_get(f, "count")), text_of(f, "why"));
    }
    const double masked = json_number_value(json_object_get(b, "masked_mac_ratio")),
                 padded = json_number_value(json_object_get(b, "expert_padding_ratio"));
    const long long switches = json_integer_value(json_object_get(b, "session_switches"));
    if (masked > 0)
        fprintf(stderr,
                "           %6.2f %% of what the device would multiply are masked columns; not done here\n",
                100 * masked);
    if (padded > 0)
        fprintf(stderr, "           %6.2f %% of the rows of experts' programs are padding; not done here\n",
                100 * padded);
    if (switches)
        fprintf(stderr, "           %lld session switches, %.3f ms on the device; not done here\n", switches,
                json_number_value(json_object_get(b, "session_switch_ms")));
}

void tool_answer_print_figures(const tool_answer *a)
{
    const json_t *b = a->baton;
    if (!b) {
        const double span_s = (double)(a->last_us - a->first_us) / 1e6;
        if (!a->pieces) fprintf(stderr, "interrupted before the first token\n");
        else
            fprintf(stderr, "interrupted after %llu pieces of text, %.1f a second; the first after %.1f ms\n",
                    (unsigned long long)a->pieces, span_s > 0 ? (double)(a->pieces - 1) / span_s : 0,
                    (double)(a->first_us - a->begin_us) / 1e3);
        return;
    }
    const json_t *warning;
    size_t i;
    json_array_foreach(json_object_get(b, "warnings"), i, warning)
        fprintf(stderr, "warning    %s\n", json_string_value(warning));
    const long long cached = json_integer_value(json_object_get(b, "cached_tokens"));
    char kv[32], kept[64] = "";
    if (cached > 0) snprintf(kept, sizeof kept, "; %lld more were kept from before", cached);
    bt_num_size_text(kv, sizeof kv, (uint64_t)json_integer_value(json_object_get(b, "kv_bytes")));
    fprintf(stderr, "prompt     %6lld tokens  %8.1f tokens/s   first token after %.1f ms%s\n",
            (long long)json_integer_value(json_object_get(b, "prompt_tokens")) - cached,
            json_number_value(json_object_get(b, "prefill_tokens_per_second")),
            json_number_value(json_object_get(b, "ttft_ms")), kept);
    fprintf(stderr, "generated  %6lld tokens  %8.1f tokens/s   finish: %s\n",
            (long long)json_integer_value(json_object_get(b, "completion_tokens")),
            json_number_value(json_object_get(b, "decode_tokens_per_second")), text_of(b, "finish_reason"));
    fprintf(stderr, "hand-off   %s of KV, exposed for %.2f ms after the last layer\n", kv,
            json_number_value(json_object_get(b, "kv_exposed_ms")));
    print_npu(b);
    const json_t *device = json_object_get(b, "device");
    if (json_is_object(device)) show_device(device);
}
