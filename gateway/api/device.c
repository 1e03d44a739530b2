/* Prices of both nodes as one object. A value without a source is null, never 0. */
#include "gateway/api/device.h"
#include "device/forecast.h"
#include "device/pace.h"
#include "text/utf8.h"

#include <jansson.h>
#include <string.h>

enum { TERMS = 1, TDP = 2 };

static json_t *ms(bool is_known, uint64_t ns) { return is_known ? json_real((double)ns / 1e6) : json_null(); }
static json_t *us(bool is_known, uint64_t us) { return is_known ? json_real((double)us / 1e3) : json_null(); }

/* A node's words may be any bytes; JSON takes only UTF-8. Empty words are unknown. */
static json_t *words(const char *text)
{
    char shown[4 * sizeof((bt_msg_device *)0)->profile];
    return text && text[0] ? json_string(bt_utf8_show(shown, sizeof shown, text, strlen(text))) : json_null();
}

static json_t *ratio(uint64_t part, uint64_t all)
{
    return all ? json_real((double)part / (double)all) : json_null();
}

/* The sum over the devices that worked; null where one of them has no source. */
static json_t *joules(const gw_device_facts *f)
{
    const bt_msg_device_work *p = &f->prefill, *d = &f->decode;
    if ((p->ns && !p->energy) || (d->ns && !d->energy)) return json_null();
    return json_real(((double)p->nj + (double)d->nj) / 1e9);
}

static bool is_of_tdp(const gw_device_facts *f)
{
    return f->prefill.energy == TDP || f->decode.energy == TDP;
}

static json_t *parts(const bt_msg_device_prompt *p)
{
    json_t *list = json_array();
    for (uint32_t i = 0; list && i < p->parts_len; i++)
        (void)json_array_append_new(list, json_pack("{s:o,s:f}", "op", words(p->parts[i].op), "ms",
                                                    (double)p->parts[i].ns / 1e6));
    return list;
}

uint64_t gw_device_companion_ns(const bt_msg_device_prompt *p)
{
    uint64_t ns = 0;
    for (uint32_t i = 0; i < p->parts_len; i++) ns += p->parts[i].ns;
    return ns;
}

static json_t *of_prompt(const gw_device_facts *f)
{
    const bt_msg_device_prompt *p = &f->prompt;
    const bt_msg_device *on = f->prefill_on;
    const bool is_known = f->first_ns && p->npu_bubble_ns + p->companion_bubble_ns > 0;
    return json_pack("{s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o}", "schedule",
                     words(on ? on->schedule : NULL), "npu_ms", ms(is_known, p->npu_ns), "companion_ops",
                     parts(p), "edges_ms", ms(is_known, p->edges_ns), "sync_ms", ms(is_known, p->sync_ns),
                     "session_ms", ms(is_known, p->session_ns), "spill_ms", ms(is_known, p->spill_ns),
                     "npu_bubble_ms", ms(is_known, p->npu_bubble_ns), "companion_bubble_ms",
                     ms(is_known, p->companion_bubble_ns), "first_use_ms",
                     ms(is_known && on, on ? on->first_use_ns : 0), "compile_ms",
                     ms(is_known && on, on ? on->compile_ns : 0));
}

static json_t *of_pace(const gw_device_facts *f)
{
    const bt_pace_count all = {.paced_us = f->prefill.paced_us + f->decode.paced_us,
                               .late_us = f->prefill.late_us + f->decode.late_us};
    const bt_msg_device *on = f->prefill_on && f->prefill_on->pace_milli ? f->prefill_on : f->decode_on;
    const bool has_pace = on && on->pace_milli;
    return json_pack("{s:o,s:o,s:o,s:o,s:o}", "pace",
                     has_pace ? json_real((double)on->pace_milli / 1e3) : json_null(), "paced_ms",
                     us(has_pace, all.paced_us), "late_ms", us(has_pace, all.late_us), "prefill_late_ms",
                     us(has_pace, f->prefill.late_us), "is_late",
                     has_pace ? json_boolean(bt_pace_is_void(&all)) : json_null());
}

static json_t *of_host(const gw_device_facts *f)
{
    return json_pack("{s:o,s:o,s:o}", "prefill_ms", us(f->has_host_prefill, f->host_prefill_us),
                     "exposed_transfer_ms", us(f->has_host_kv && !f->is_local, f->host_exposed_us),
                     "decode_ms", us(f->has_host_decode, f->host_decode_us));
}

/* By the lengths of prompt and answer: nobody says how many rows and sequences passed together. */
static bt_forecast_error error_on(const bt_msg_device *d, bt_figure kind, const gw_device_facts *f)
{
    const bt_msg_device_error *from = &d->error[kind];
    const uint64_t all = f->prompt_tokens + (kind == BT_FIGURE_TTFT ? 0 : f->answer_tokens),
                   where[BT_AXES] = {[BT_AXIS_CONTEXT] = all, [BT_AXIS_DEVICES] = d->devices};
    bt_forecast_error e = {.standing = (bt_standing)from->standing, .median_permille = from->median_permille,
                           .worst_permille = from->worst_permille, .bias_permille = from->bias_permille,
                           .rows = from->rows};
    if (e.standing != BT_STANDING_BOUND) e.outside = bt_forecast_outside(d->region, where);
    return e;
}

/* The errors of the device that makes the figure, for energy of both; null where one does not say. */
static json_t *errors(const gw_device_facts *f, const bt_msg_device *p, const bt_msg_device *d)
{
    static const char *const names[BT_FIGURES] = {BT_FIGURE_NAMES};
    json_t *o = json_object();
    for (int k = 0; o && k < BT_FIGURES; k++) {
        const bt_msg_device *const on[] = {k == BT_FIGURE_TPOT ? NULL : p, k == BT_FIGURE_TTFT ? NULL : d};
        bt_forecast_error e = {.standing = BT_STANDING_CALIBRATED};
        bool is_known = on[0] || on[1];
        for (size_t i = 0; i < 2; i++) {
            if (!on[i]) continue;
            is_known = is_known && on[i]->has_errors;
            const bt_forecast_error one = error_on(on[i], (bt_figure)k, f);
            e = bt_forecast_error_worse(&one, &e);
        }
        if (json_object_set_new(o, names[k], is_known ? bt_forecast_error_json(&e) : json_null()) < 0) {
            json_decref(o);
            return NULL;
        }
    }
    return o;
}

json_t *gw_device_tell(const gw_device_facts *f)
{
    const bt_msg_device *p = f->prefill.ns ? f->prefill_on : NULL, *d = f->decode.ns ? f->decode_on : NULL;
    const bool has_link = p && p->link[0] && !f->is_local;
    const uint32_t steps = f->decode.steps;
    if (!f->prefill.ns && !f->decode.ns) return json_null();
    json_t *o = json_pack("{s:o,s:o,s:o,s:o,s:o,s:o}", "profile", words(p ? p->profile : NULL), "stack",
                          words(p ? p->stack : NULL), "companion", words(p ? p->companion : NULL),
                          "decode_profile", words(d ? d->profile : NULL), "decode_stack",
                          words(d ? d->stack : NULL), "link", words(has_link ? p->link : NULL));
    json_t *times = json_pack(
        "{s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o}", "ttft_ms", ms(f->first_ns > 0, f->first_ns),
        "prefill_ms", ms(f->prefill.ns > 0, f->prefill.ns), "transfer_ms", ms(has_link, f->transfer_ns),
        "exposed_transfer_ms", ms(has_link, f->exposed_ns), "decode_ms", ms(d != NULL, f->decode.ns),
        "tpot_ms", steps ? json_real((double)f->decode.ns / 1e6 / steps) : json_null(), "joules", joules(f),
        "joules_of_tdp", json_boolean(is_of_tdp(f)), "utilisation", ratio(f->prefill.ideal_ns, f->prefill.ns),
        "decode_utilisation", ratio(f->decode.ideal_ns, f->decode.ns), "error", errors(f, p, d));
    json_t *rest[] = {times, of_prompt(f), of_pace(f)};
    for (size_t i = 0; i < sizeof rest / sizeof *rest; i++) {
        if (!o || !rest[i] || json_object_update(o, rest[i]) < 0) {
            json_decref(o);
            o = NULL;
        }
        json_decref(rest[i]);
    }
    if (o && json_object_set_new(o, "host", of_host(f)) < 0) {
        json_decref(o);
        return NULL;
    }
    return o;
}
