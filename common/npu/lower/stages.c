/* Cuts a program into stages, read off its instructions. */
#include "npu/lower/stages.h"
#include "npu/pkg/pkg_ops.h"

static bool is_npu(const bt_pkg_inst *i) { return i->unit != BT_PKG_COMPANION || i->op == BT_PKG_SESSION; }

size_t bt_stages_of(bt_stage *ret, bt_schedule_stage *as_stage, size_t room, const bt_pkg *p,
                    uint32_t program)
{
    const bt_pkg_inst *code = bt_pkg_code(p, program);
    const uint32_t insts = bt_pkg_programs(p)[program].insts;
    bool in_graph = false;
    size_t n = 0;
    for (uint32_t first = 0, end; first < insts; first = end, n++) {
        bt_stage s = {.first = first, .layer = UINT32_MAX, .stores = UINT32_MAX,
                      .is_npu = is_npu(&code[first])};
        bool has_graph = false;
        for (end = first; end < insts && is_npu(&code[end]) == s.is_npu; end++) {
            if (end > first && bt_pkg_is_attention(&code[end]) && !bt_pkg_is_attention(&code[end - 1])) break;
            if (s.is_npu && code[end].op != BT_PKG_SESSION) has_graph = true;
            if (s.layer == UINT32_MAX) s.layer = code[end].layer;
            if (!s.cluster) s.cluster = code[end].cluster;
            if (bt_pkg_op_info_of(code[end].op)->shape == BT_SHAPE_STORE) s.stores = code[end].layer;
        }
        s.insts = end - first;
        s.is_dispatch = has_graph && !in_graph;
        in_graph = s.is_npu && (has_graph || in_graph);
        if (n < room && ret) ret[n] = s;
        if (n < room && as_stage)
            as_stage[n] = (bt_schedule_stage){s.is_npu ? BT_SCHEDULE_NPU : BT_SCHEDULE_COMPANION,
                                              bt_pkg_is_attention(&code[first])};
    }
    return n;
}
