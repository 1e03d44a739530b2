/* Prices of work: fields of proto/control.proto (Device) and proto/infer.proto (DeviceWork, DevicePrompt). */
#include "wire/msg_device.h"

#include <string.h>

static void put_errors(bt_msg_scratch *s, const bt_msg_device *d)
{
    s->device.n_errors = d->has_errors ? BT_MSG_MAX_DEVICE_FIGURES : 0;
    s->device.errors = s->device_error_at;
    for (size_t i = 0; i < BT_MSG_MAX_DEVICE_FIGURES; i++) {
        const bt_msg_device_error *from = &d->error[i];
        Bt__DeviceError *b = s->device_error_at[i] = &s->device_error[i];
        *b = (Bt__DeviceError)BT__DEVICE_ERROR__INIT;
        b->standing = from->standing;
        b->median_permille = from->median_permille;
        b->worst_permille = from->worst_permille;
        b->bias_permille = from->bias_permille;
        b->rows = from->rows;
    }
    s->device.n_region = (size_t)2 * BT_MSG_MAX_DEVICE_AXES;
    s->device.region = s->device_region;
    for (size_t i = 0; i < s->device.n_region; i++) s->device_region[i] = d->region[i / 2][i % 2];
    s->device.devices = d->devices;
}

void bt_msg_device_put(bt_msg_scratch *s, const bt_msg_device *d)
{
    s->device = (Bt__Device)BT__DEVICE__INIT;
    s->device.profile = bt_msg_body_put_text(d->profile);
    s->device.stack = bt_msg_body_put_text(d->stack);
    s->device.companion = bt_msg_body_put_text(d->companion);
    s->device.link = bt_msg_body_put_text(d->link);
    s->device.schedule = bt_msg_body_put_text(d->schedule);
    s->device.pace_milli = d->pace_milli;
    s->device.first_use_ns = d->first_use_ns;
    s->device.compile_ns = d->compile_ns;
    put_errors(s, d);
}

/* There are as many as figures and axes, or none. */
static void get_errors(bt_msg_checker *c, bt_msg_device *d, const Bt__Device *b)
{
    if (b->n_errors && b->n_errors != BT_MSG_MAX_DEVICE_FIGURES)
        bt_msg_body_fail(c, "device.errors are not 3");
    else
        for (size_t i = 0; i < b->n_errors; i++)
            d->error[i] = (bt_msg_device_error){
                .standing = b->errors[i]->standing, .median_permille = b->errors[i]->median_permille,
                .worst_permille = b->errors[i]->worst_permille, .rows = b->errors[i]->rows,
                .bias_permille = b->errors[i]->bias_permille};
    d->has_errors = b->n_errors > 0;
    if (b->n_region && b->n_region != (size_t)2 * BT_MSG_MAX_DEVICE_AXES)
        bt_msg_body_fail(c, "device.region has not 8 ends");
    else
        for (size_t i = 0; i < b->n_region; i++) d->region[i / 2][i % 2] = b->region[i];
    d->devices = b->devices;
}

const bt_msg_device *bt_msg_device_get(bt_msg_checker *c, const Bt__Device *b)
{
    bt_msg_device *d = c->alloc(c->alloc_ud, sizeof *d);
    if (!d) {
        bt_msg_body_fail(c, "no room for the device");
        return NULL;
    }
    memset(d, 0, sizeof *d);
    bt_msg_body_get_text(c, "device.profile", d->profile, sizeof d->profile, b->profile);
    bt_msg_body_get_text(c, "device.stack", d->stack, sizeof d->stack, b->stack);
    bt_msg_body_get_text(c, "device.companion", d->companion, sizeof d->companion, b->companion);
    bt_msg_body_get_text(c, "device.link", d->link, sizeof d->link, b->link);
    bt_msg_body_get_text(c, "device.schedule", d->schedule, sizeof d->schedule, b->schedule);
    d->pace_milli = b->pace_milli;
    d->first_use_ns = b->first_use_ns;
    d->compile_ns = b->compile_ns;
    get_errors(c, d, b);
    return d;
}

void bt_msg_device_check(bt_msg_checker *c, const bt_msg_device *d)
{
    bt_msg_body_name(c, "device.profile", d->profile, sizeof d->profile);
    bt_msg_body_text(c, "device.stack", d->stack, sizeof d->stack);
    bt_msg_body_text(c, "device.companion", d->companion, sizeof d->companion);
    bt_msg_body_text(c, "device.link", d->link, sizeof d->link);
    bt_msg_body_text(c, "device.schedule", d->schedule, sizeof d->schedule);
    for (size_t i = 0; d->has_errors && i < BT_MSG_MAX_DEVICE_FIGURES; i++) {
        const bt_msg_device_error *e = &d->error[i];
        const int64_t bias = e->bias_permille;
        bt_msg_body_range(c, "device.standing", e->standing, 0, BT_MSG_MAX_DEVICE_STANDING);
        bt_msg_body_range(c, "device.median_permille", e->median_permille, 0, BT_MSG_MAX_DEVICE_PERMILLE);
        bt_msg_body_range(c, "device.worst_permille", e->worst_permille, 0, BT_MSG_MAX_DEVICE_PERMILLE);
        bt_msg_body_range(c, "device.bias_permille", (uint64_t)(bias < 0 ? -bias : bias), 0,
                          BT_MSG_MAX_DEVICE_PERMILLE);
    }
}

void bt_msg_device_put_work(bt_msg_scratch *s, const bt_msg_device_work *w)
{
    s->device_work = (Bt__DeviceWork)BT__DEVICE_WORK__INIT;
    s->device_work.ns = w->ns;
    s->device_work.ideal_ns = w->ideal_ns;
    s->device_work.nj = w->nj;
    s->device_work.energy = w->energy;
    s->device_work.steps = w->steps;
    s->device_work.paced_us = w->paced_us;
    s->device_work.late_us = w->late_us;
}

void bt_msg_device_get_work(bt_msg_device_work *ret, const Bt__DeviceWork *b)
{
    if (!b) return;
    *ret = (bt_msg_device_work){.ns = b->ns,          .ideal_ns = b->ideal_ns, .nj = b->nj,
                                .energy = b->energy,  .steps = b->steps,       .paced_us = b->paced_us,
                                .late_us = b->late_us};
}

void bt_msg_device_check_work(bt_msg_checker *c, const bt_msg_device_work *w)
{
    bt_msg_body_range(c, "device.energy", w->energy, 0, BT_MSG_MAX_DEVICE_ENERGY);
    bt_msg_body_range(c, "device.ideal_ns", w->ideal_ns, 0, INT64_MAX);
    bt_msg_body_range(c, "device.ns", w->ns, 0, INT64_MAX);
    bt_msg_body_range(c, "device.nj", w->nj, 0, INT64_MAX);
}

void bt_msg_device_put_prompt(bt_msg_scratch *s, const bt_msg_device_prompt *p)
{
    Bt__DevicePrompt *b = &s->device_prompt;
    *b = (Bt__DevicePrompt)BT__DEVICE_PROMPT__INIT;
    b->transfer_ns = p->transfer_ns;
    b->exposed_ns = p->exposed_ns;
    b->npu_ns = p->npu_ns;
    b->edges_ns = p->edges_ns;
    b->sync_ns = p->sync_ns;
    b->session_ns = p->session_ns;
    b->spill_ns = p->spill_ns;
    b->npu_bubble_ns = p->npu_bubble_ns;
    b->companion_bubble_ns = p->companion_bubble_ns;
    b->n_parts = p->parts_len;
    b->parts = s->device_part_at;
    for (uint32_t i = 0; i < p->parts_len; i++) {
        s->device_part[i] = (Bt__DevicePart)BT__DEVICE_PART__INIT;
        s->device_part[i].op = bt_msg_body_put_text(p->parts[i].op);
        s->device_part[i].ns = p->parts[i].ns;
        s->device_part_at[i] = &s->device_part[i];
    }
}

void bt_msg_device_get_prompt(bt_msg_checker *c, bt_msg_device_prompt *ret, const Bt__DevicePrompt *b)
{
    if (!b || !bt_msg_body_range(c, "count of device parts", b->n_parts, 0, BT_MSG_MAX_DEVICE_PARTS)) return;
    *ret = (bt_msg_device_prompt){.transfer_ns = b->transfer_ns,
                                  .exposed_ns = b->exposed_ns,
                                  .npu_ns = b->npu_ns,
                                  .edges_ns = b->edges_ns,
                                  .sync_ns = b->sync_ns,
                                  .session_ns = b->session_ns,
                                  .spill_ns = b->spill_ns,
                                  .parts_len = (uint32_t)b->n_parts,
                                  .npu_bubble_ns = b->npu_bubble_ns,
                                  .companion_bubble_ns = b->companion_bubble_ns};
    for (uint32_t i = 0; i < ret->parts_len; i++) {
        bt_msg_body_get_text(c, "device.op", ret->parts[i].op, sizeof ret->parts[i].op, b->parts[i]->op);
        ret->parts[i].ns = b->parts[i]->ns;
    }
}

void bt_msg_device_check_prompt(bt_msg_checker *c, const bt_msg_device_prompt *p)
{
    if (!bt_msg_body_range(c, "count of device parts", p->parts_len, 0, BT_MSG_MAX_DEVICE_PARTS)) return;
    for (uint32_t i = 0; i < p->parts_len; i++)
        bt_msg_body_name(c, "device.op", p->parts[i].op, sizeof p->parts[i].op);
}
