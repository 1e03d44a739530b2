/* See decode_kit.h. */
#include "tests/helpers/brain/decode_kit.h"

const bt_incarnation decode_kit_self = {{2}}, decode_kit_gate = {{1}}, decode_kit_prefill = {{3}};
int64_t decode_kit_now;
dc_actions decode_kit_acts;

void decode_kit_step(dc_brain *b, const dc_event *ev)
{
    static uint64_t draws;
    draws++;
    decode_kit_acts = dc_brain_step(b, ev, decode_kit_now, &(bt_random){{draws, ~draws}});
}

static void address(bt_msg *m, const bt_incarnation *from)
{
    m->from = *from;
    if (m->to.bytes[0] == 0) m->to = decode_kit_self;
    if (m->ref.attempt) m->ref.owner = decode_kit_gate;
}

void decode_kit_control(dc_brain *b, bt_msg *m)
{
    address(m, &decode_kit_gate);
    decode_kit_step(b, &(dc_event){.type = DC_EV_CONTROL, .u.control = {0, m}});
}

void decode_kit_bulk(dc_brain *b, bt_msg *m)
{
    address(m, &decode_kit_prefill);
    decode_kit_step(b, &(dc_event){.type = DC_EV_BULK, .u.bulk = m});
}

const dc_action *decode_kit_did(dc_action_type type)
{
    for (size_t i = 0; i < decode_kit_acts.len; i++)
        if (decode_kit_acts.items[i].type == type) return &decode_kit_acts.items[i];
    return NULL;
}

static const dc_action *set_pages(bool is_empty, bool is_growth)
{
    for (size_t i = 0; i < decode_kit_acts.len; i++) {
        const dc_action *a = &decode_kit_acts.items[i];
        if (a->type == DC_DO_SET_PAGES && (a->u.set.pages_len == 0) == is_empty &&
            a->u.set.is_growth == is_growth)
            return a;
    }
    return NULL;
}

const dc_action *decode_kit_held(void) { return set_pages(false, false); }
const dc_action *decode_kit_grew(void) { return set_pages(false, true); }
const dc_action *decode_kit_freed(void) { return set_pages(true, false); }

const bt_msg *decode_kit_said(bt_msg_type type)
{
    for (size_t i = 0; i < decode_kit_acts.len; i++) {
        const dc_action *a = &decode_kit_acts.items[i];
        if (a->type == DC_DO_SEND_CONTROL && a->u.control.msg.type == type) return &a->u.control.msg;
        if (a->type == DC_DO_SEND_BULK && a->u.bulk.msg.type == type) return &a->u.bulk.msg;
    }
    return NULL;
}
