/* Puts SESSION instructions where one session ends and the next begins. */
#include "npu/lower/switches.h"

#include <stdlib.h>

static bt_pkg_inst switch_to(uint32_t session, uint64_t cost_ns)
{
    return (bt_pkg_inst){.op = BT_PKG_SESSION,  .group = 1,
                         .layer = UINT32_MAX,   .tensor = BT_PKG_NONE,
                         .site = BT_PKG_NONE,   .arg = session,
                         .in0 = BT_PKG_NOWHERE, .in1 = BT_PKG_NOWHERE,
                         .out = BT_PKG_NOWHERE, .aux = BT_PKG_NOWHERE,
                         .params = cost_ns};
}

bt_err bt_switches_insert(bt_lowered *l, const bt_pkg_session *session, size_t sessions, uint32_t layers,
                          uint64_t cost_ns, bt_fault *fault)
{
    if (sessions < 2) return BT_OK;
    bt_pkg_inst *inst = malloc((l->insts + sessions) * sizeof *inst);
    uint32_t *moved = malloc(l->insts * sizeof *moved); /* where each instruction goes */
    bt_err e = inst && moved ? BT_OK : bt_fail(fault, BT_ENOMEM, "out of memory lowering a graph");
    size_t n = 0, next = 0;
    uint32_t cut = 0; /* clusters that a SESSION has cut in two */
    bool layered = false;
    for (size_t i = 0; e == BT_OK && i < l->insts; i++) {
        const uint32_t layer = l->inst[i].layer;
        layered = layered || layer != UINT32_MAX;
        const uint32_t part = layer != UINT32_MAX ? layer : layered ? layers : 0;
        const uint32_t cluster = l->inst[i].cluster;
        const bool is_inside = i && cluster && l->inst[i - 1].cluster == cluster;
        if (is_inside && next < sessions && session[next].first_layer <= part) cut++;
        while (next < sessions && session[next].first_layer <= part)
            inst[n++] = switch_to((uint32_t)next, cost_ns), next++;
        moved[i] = (uint32_t)n;
        inst[n] = l->inst[i];
        if (cluster) inst[n].cluster = cluster + cut;
        n++;
    }
    for (size_t i = 0; e == BT_OK && i < l->places; i++) {
        l->place[i].first_inst = moved[l->place[i].first_inst];
        l->place[i].last_inst = moved[l->place[i].last_inst];
    }
    if (e == BT_OK) {
        free(l->inst);
        l->inst = inst;
        l->insts = n;
        l->program.insts = (uint32_t)n;
        l->program.clusters += cut;
        inst = NULL;
    }
    free(inst);
    free(moved);
    return e;
}
