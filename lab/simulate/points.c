/* See points.h. */
#include "lab/simulate/points.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void tool_simulate_points_done(tool_simulate_points *p)
{
    free(p->point);
    *p = (tool_simulate_points){0};
}

bt_err tool_simulate_points_add(tool_simulate_points *p, const tool_simulate_point *one, bt_fault *fault)
{
    if (p->len == p->cap) {
        const size_t cap = p->cap ? p->cap * 2 : 256;
        tool_simulate_point *all = realloc(p->point, cap * sizeof *all);
        if (!all) return bt_fail(fault, BT_ENOMEM, "points of a sweep");
        p->point = all;
        p->cap = cap;
    }
    p->point[p->len++] = *one;
    return BT_OK;
}

const tool_simulate_point *tool_simulate_points_find(const tool_simulate_points *p, uint32_t prefill,
                                                     uint32_t decode)
{
    for (size_t i = 0; i < p->len; i++)
        if (p->point[i].prefill == prefill && p->point[i].decode == decode) return &p->point[i];
    return NULL;
}

void tool_simulate_points_line(char ret[TOOL_SIMULATE_LINE_BYTES], const tool_simulate_point *p, uint64_t key)
{
    (void)snprintf(ret, TOOL_SIMULATE_LINE_BYTES,
                   "{\"key\": \"%016" PRIx64
                   "\", \"prefill\": %u, \"decode\": %u, \"carried\": %s, \"requests\": %" PRIu64
                   ", \"good\": %" PRIu64 ", \"failed\": %" PRIu64 ", \"events\": %" PRIu64
                   ", \"goodput_rps\": %.17g, \"ttft_p99_ms\": %.17g, \"tpot_p99_ms\": %.17g, "
                   "\"virtual_seconds\": %.17g, \"joules\": %.17g}\n",
                   key, p->prefill, p->decode, p->is_carried ? "true" : "false", p->requests, p->good,
                   p->failed, p->events, p->goodput_rps, p->ttft_p99_ms, p->tpot_p99_ms, p->virtual_s,
                   p->joules);
}

bool tool_simulate_points_parse(tool_simulate_point *ret, const char *line, uint64_t key)
{
    const char *found;
    json_int_t prefill, decode, requests, good, failed, events;
    int carried;
    char want[17];
    tool_simulate_point p = {0};
    json_t *o = json_loads(line, JSON_REJECT_DUPLICATES, NULL);
    (void)snprintf(want, sizeof want, "%016" PRIx64, key);
    const bool ok = o &&
                    json_unpack(o, "{s:s, s:I, s:I, s:b, s:I, s:I, s:I, s:I, s:F, s:F, s:F, s:F, s:F}", "key",
                                &found, "prefill", &prefill, "decode", &decode, "carried", &carried,
                                "requests", &requests, "good", &good, "failed", &failed, "events", &events,
                                "goodput_rps", &p.goodput_rps, "ttft_p99_ms", &p.ttft_p99_ms, "tpot_p99_ms",
                                &p.tpot_p99_ms, "virtual_seconds", &p.virtual_s, "joules", &p.joules) == 0 &&
                    strcmp(found, want) == 0 && prefill >= 0 && prefill <= UINT32_MAX && decode >= 0 &&
                    decode <= UINT32_MAX;
    if (ok) {
        p.prefill = (uint32_t)prefill;
        p.decode = (uint32_t)decode;
        p.is_carried = carried;
        p.requests = (uint64_t)requests;
        p.good = (uint64_t)good;
        p.failed = (uint64_t)failed;
        p.events = (uint64_t)events;
        *ret = p;
    }
    json_decref(o);
    return ok;
}

bt_err tool_simulate_points_read(tool_simulate_points *p, const char *path, uint64_t key, bt_fault *fault)
{
    char line[TOOL_SIMULATE_LINE_BYTES];
    tool_simulate_point one;
    bt_err e = BT_OK;
    FILE *f = fopen(path, "re");
    if (!f) return errno == ENOENT ? BT_OK : bt_fail(fault, BT_EIO, "'%.150s': %s", path, strerror(errno));
    while (e == BT_OK && fgets(line, sizeof line, f))
        if (tool_simulate_points_parse(&one, line, key) &&
            !tool_simulate_points_find(p, one.prefill, one.decode))
            e = tool_simulate_points_add(p, &one, fault);
    if (e == BT_OK && ferror(f)) e = bt_fail(fault, BT_EIO, "'%.150s' cannot be read", path);
    (void)fclose(f);
    return e;
}
