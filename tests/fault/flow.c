/* See flow.h. */
#include "tests/fault/flow.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BURSTS_PER_S = 20 };

struct flow_item {
    flow_item *next;
    int64_t due_ms;
    size_t len, written;
    uint8_t bytes[];
};

void flow_init(flow *f, uint64_t stream, bool is_bytes, flow_stats *stats)
{
    memset(f, 0, sizeof *f);
    f->stream = stream;
    f->is_bytes = is_bytes;
    f->stats = stats;
    zmtp_init(&f->parser);
}

void flow_done(flow *f)
{
    while (f->first) {
        flow_item *i = f->first;
        f->first = i->next;
        free(i);
    }
    for (size_t i = 0; i < FLOW_LATE_MAX; i++) free(f->late[i].item);
    zmtp_done(&f->parser);
}

void flow_set_script(flow *f, const script *s) { f->script = s; }

void flow_set_rate(flow *f, uint64_t bytes_per_s, int64_t now_ms)
{
    f->rate = bytes_per_s;
    f->rate_ms = now_ms;
    f->tokens = 0;
}

bool flow_has_room(const flow *f) { return f->queued_bytes < FLOW_ROOM_BYTES && !f->is_cut; }

static flow_item *make(const uint8_t *bytes, size_t len)
{
    flow_item *i = malloc(sizeof *i + len);
    if (!i) return NULL;
    *i = (flow_item){.len = len};
    memcpy(i->bytes, bytes, len);
    return i;
}

static void append(flow *f, flow_item *i, int64_t due_ms)
{
    f->last_due_ms = i->due_ms = due_ms > f->last_due_ms ? due_ms : f->last_due_ms;
    if (f->last) f->last->next = i;
    else f->first = i;
    f->last = i;
    f->queued_bytes += i->len;
}

/* A message passes: it overtakes what is to be overtaken. */
static void count_overtaking(flow *f, int64_t now_ms)
{
    for (size_t k = 0; k < FLOW_LATE_MAX; k++) {
        flow_late *l = &f->late[k];
        if (!l->item || --l->after) continue;
        append(f, l->item, now_ms);
        l->item = NULL;
    }
}

static void release_due(flow *f, int64_t now_ms, bool all)
{
    for (size_t k = 0; k < FLOW_LATE_MAX; k++) {
        flow_late *l = &f->late[k];
        if (!l->item || (!all && l->due_ms > now_ms)) continue;
        append(f, l->item, now_ms);
        l->item = NULL;
    }
}

static bool set_aside(flow *f, flow_item *i, uint64_t after, int64_t now_ms)
{
    for (size_t k = 0; k < FLOW_LATE_MAX; k++)
        if (!f->late[k].item) {
            f->late[k] = (flow_late){i, after, now_ms + FLOW_LATE_MS};
            return true;
        }
    return false;
}

static void corrupt(const flow *f, flow_item *i, uint64_t random)
{
    const size_t n = f->is_bytes ? i->len : zmtp_payload_bytes(i->bytes, i->len);
    if (!n) return;
    const size_t k = (size_t)((random >> 8) % n);
    i->bytes[f->is_bytes ? k : zmtp_payload_at(i->bytes, i->len, k)] ^= (uint8_t)(1 + random % 255);
}

static bt_err pass(flow *f, const uint8_t *bytes, size_t len, int64_t now_ms)
{
    flow_item *i = make(bytes, len);
    if (!i) return BT_ENOMEM;
    if (f->cuts_next) {
        f->is_cut = true;
        i->len = (size_t)(script_mix(f->stream, f->index) % len);
    }
    append(f, i, now_ms);
    return BT_OK;
}

static bt_err take_message(flow *f, const uint8_t *bytes, size_t len, int64_t now_ms)
{
    fate d = f->script && !f->cuts_next ? script_fate(f->script, f->stream, f->index) : (fate){FATE_PASS, 0};
    const bool is_odd = d.kind == FATE_DROP || d.kind == FATE_REPEAT || d.kind == FATE_REORDER;
    if ((is_odd && f->is_bytes) || len == 0) d.kind = FATE_PASS;
    f->index++;
    f->stats->messages++;
    flow_item *i = NULL;
    if (d.kind == FATE_REORDER) {
        if (!(i = make(bytes, len))) return BT_ENOMEM;
        if (set_aside(f, i, 1 + d.random % 3, now_ms)) {
            f->stats->fates[FATE_REORDER]++;
            return BT_OK;
        }
        free(i); /* no place: it goes as the others */
        d.kind = FATE_PASS;
    }
    f->stats->fates[d.kind]++;
    bt_err e = BT_OK;
    if (d.kind == FATE_DROP) return BT_OK;
    if ((e = pass(f, bytes, len, now_ms)) < 0) return e;
    if (d.kind == FATE_CORRUPT) corrupt(f, f->last, d.random);
    if (d.kind == FATE_DELAY && f->script->delay_ms > 0)
        f->last_due_ms = f->last->due_ms =
            f->last->due_ms + 1 + (int64_t)(d.random % (uint64_t)f->script->delay_ms);
    count_overtaking(f, now_ms);
    if (d.kind == FATE_REPEAT) {
        if (!(i = make(bytes, len))) return BT_ENOMEM;
        if (d.random % 4 == 0 || !set_aside(f, i, d.random % 4, now_ms)) append(f, i, now_ms);
    }
    return BT_OK;
}

bt_err flow_take(flow *f, const uint8_t *bytes, size_t len, int64_t now_ms)
{
    f->stats->bytes += len;
    if (f->is_cut) return BT_OK;
    if (f->is_bytes) return take_message(f, bytes, len, now_ms);
    while (len && !f->is_cut) {
        zmtp_unit u;
        bt_err e = zmtp_next(&u, &f->parser, &bytes, &len);
        if (e < 0) return e;
        if (u.kind == ZMTP_MESSAGE) {
            e = take_message(f, u.bytes, u.len, now_ms);
        } else if (u.kind == ZMTP_COMMAND) {
            f->stats->commands++;
            e = pass(f, u.bytes, u.len, now_ms);
        } else if (u.kind == ZMTP_GREETING) {
            const bool cuts = f->cuts_next;
            f->cuts_next = false;
            e = pass(f, u.bytes, u.len, now_ms);
            f->cuts_next = cuts;
        }
        if (e < 0) return e;
    }
    return BT_OK;
}

static void earn(flow *f, int64_t now_ms)
{
    const double most = (double)f->rate / BURSTS_PER_S + 1;
    f->tokens += (double)(now_ms - f->rate_ms) * (double)f->rate / 1000.0;
    if (f->tokens > most) f->tokens = most;
    f->rate_ms = now_ms;
}

const uint8_t *flow_peek(flow *f, size_t *len, int64_t now_ms)
{
    release_due(f, now_ms, false);
    *len = 0;
    while (f->first && f->first->len == f->first->written) flow_wrote(f, 0); /* cut to nothing */
    const flow_item *i = f->first;
    if (!i || i->due_ms > now_ms) return NULL;
    *len = i->len - i->written;
    if (f->rate) {
        earn(f, now_ms);
        if ((double)*len > f->tokens) *len = (size_t)f->tokens;
    }
    return i->bytes + i->written;
}

void flow_wrote(flow *f, size_t n)
{
    flow_item *i = f->first;
    i->written += n;
    f->queued_bytes -= n;
    if (f->rate) f->tokens -= (double)n;
    if (i->written < i->len) return;
    f->first = i->next;
    if (!f->first) f->last = NULL;
    free(i);
}

int64_t flow_due_ms(const flow *f, int64_t now_ms)
{
    int64_t due = -1;
    for (size_t k = 0; k < FLOW_LATE_MAX; k++)
        if (f->late[k].item && (due < 0 || f->late[k].due_ms < due)) due = f->late[k].due_ms;
    if (!f->first) return due;
    int64_t head = f->first->due_ms;
    if (f->rate && head <= now_ms && f->tokens < 1) head = now_ms + 1000 / BURSTS_PER_S;
    return due < 0 || head < due ? head : due;
}

void flow_flush(flow *f, int64_t now_ms) { release_due(f, now_ms, true); }

bool flow_is_empty(const flow *f)
{
    for (size_t k = 0; k < FLOW_LATE_MAX; k++)
        if (f->late[k].item) return false;
    return !f->first;
}

void flow_cut_next(flow *f) { f->cuts_next = true; }
bool flow_is_cut(const flow *f) { return f->is_cut && !f->first; }
