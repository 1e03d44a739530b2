/* The work that the shells of all simulated processes do alike: send packets, and end a step. See sim_node.h.
 */
#include "kv/kv_header.h"
#include "tests/world/sim_bare.h"
#include "tests/world/sim_node.h"

#include <stdlib.h>
#include <string.h>

/* The same block with other rows, a good digest, and a ticket that is a guess. */
static void forge(sim_world *w, const sim_item *block, const uint8_t *bytes, size_t len)
{
    bt_kv_header h;
    uint8_t *frame = malloc(len);
    if (!frame || bt_kv_header_decode(&h, bytes, BT_KV_HEADER_BYTES, NULL) < 0) {
        free(frame);
        return;
    }
    for (size_t i = BT_KV_HEADER_BYTES; i < len; i++) frame[i] = (uint8_t)~bytes[i];
    h.ticket[0] ^= 0xff;
    bt_kv_header_digest(h.digest, &h, frame + BT_KV_HEADER_BYTES);
    sim_item it = *block;
    if (bt_kv_header_encode(frame, &h, NULL) == BT_OK) (void)sim_net_send(w->net, w->now_us, &it, frame, len);
    w->faults++;
    free(frame);
}

void sim_send(sim_world *w, const sim_item *packet, const uint8_t *bytes, size_t len)
{
    sim_item it = *packet;
    it.life = w->processes[it.to].life;
    it.from_life = w->processes[it.from].life;
    if (it.channel == SIM_BLOCK && w->o.forge_ratio > 0 && w->calm_us == INT64_MAX &&
        sim_net_chance(w->net) < w->o.forge_ratio)
        forge(w, &it, bytes, len);
    const bool is_of_link = it.channel == SIM_BLOCK && !it.is_astray;
    if (is_of_link && w->o.forge_ratio == 0)
        it.weight = len - BT_KV_HEADER_BYTES; /* what is forged gives credit, too */
    if (is_of_link && !w->o.is_bare) sim_check_counted(w, &it);
    if (sim_net_send(w->net, w->now_us, &it, bytes, len) == BT_OK && !w->o.is_bare)
        sim_check_sent(w, &it); /* out of memory: as lost */
}

uint8_t *sim_frame(sim_world *w, size_t len)
{
    if (len > w->frame_cap) {
        uint8_t *frame = realloc(w->frame, len);
        if (!frame) return NULL;
        w->frame = frame;
        w->frame_cap = len;
    }
    return w->frame;
}

void sim_say(sim_world *w, uint32_t from, uint32_t to, sim_channel channel, const uint8_t socket[16],
             const bt_msg *m)
{
    size_t max = w->o.is_bare ? sim_bare_bytes(m) : bt_msg_encoded_max(m), len = max;
    bt_fault fault;
    if (!sim_frame(w, max)) return;
    if (w->o.is_bare) {
        sim_bare_pack(w->frame, m);
    } else if (bt_msg_encode(&len, w->frame, w->frame_cap, m, &fault) < 0) {
        sim_broken(w, "%s cannot be encoded: %s", bt_msg_type_name(m->type), fault.text);
        return;
    }
    if (channel == SIM_CONTROL && from >= w->o.gateways && !w->o.is_bare) sim_check_said(w, from, m);
    sim_item it = {.from = from, .to = to, .channel = channel};
    if (socket) memcpy(it.socket, socket, 16);
    sim_send(w, &it, w->frame, len);
}

void sim_wake_at(sim_world *w, sim_process *p, int64_t us)
{
    p->wake_us = us;
    bt_order_put(&w->wakes, 0, (uint32_t)(p - w->processes), bt_order_time(us));
}

/* A timer is looked at when it is due, or up to late_us later. */
static void set_wake(sim_world *w, sim_process *p)
{
    int64_t us = p->due_us;
    if (w->o.late_us > 0 && us < INT64_MAX / 2)
        us += (int64_t)(sim_net_draw(w->net) % (uint64_t)(w->o.late_us + 1));
    sim_wake_at(w, p, us);
}

void sim_after(sim_world *w, uint32_t who)
{
    sim_process *p = &w->processes[who];
    if (p->is_alive && !p->is_stopped) {
        if (!w->o.is_bare) sim_check_process(w, who);
        set_wake(w, p);
    }
    sim_net_stream(w->net, w->processes_len);
}
