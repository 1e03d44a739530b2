/* The clusters of a package's largest program. See package_view.h. */
#include "tools/package_view.h"
#include "npu/lower/plan.h"
#include "npu/pkg/areas.h"

#include <stdlib.h>

/* The value that lies at an offset of the arena. */
typedef struct value {
    uint64_t at, bytes, moved; /* in the arena, and as the device moves it */
    uint32_t writer, reader;   /* clusters: that wrote it, that read it last; 0: the companion */
    bool is_out;               /* was counted as the writer's output */
} value;

typedef struct walk {
    value *value; /* [2 * insts]: no instruction writes more than rows and a lo plane */
    size_t values;
    tool_package_cluster *cluster; /* by number, from 1 on */
} walk;

/* Clusters lie together: one that reads a value again has read it last. */
static void reads(walk *w, uint64_t at, uint32_t cluster)
{
    size_t i = 0;
    while (i < w->values && w->value[i].at != at) i++;
    if (at == BT_PKG_NOWHERE || i == w->values) return;
    value *v = &w->value[i];
    if (v->writer == cluster) return;
    if (cluster && v->reader != cluster) w->cluster[cluster].in_bytes += v->moved;
    if (v->writer && !v->is_out) w->cluster[v->writer].out_bytes += v->moved;
    v->is_out = true;
    v->reader = cluster;
}

/* In place too: another value lies there from now on, and the one before is gone. */
static void writes(walk *w, uint64_t at, uint64_t bytes, uint64_t moved, uint32_t cluster)
{
    size_t kept = 0;
    if (at == BT_PKG_NOWHERE) return;
    for (size_t i = 0; i < w->values; i++) {
        const value v = w->value[i];
        if (v.at >= at + bytes || at >= v.at + v.bytes) w->value[kept++] = v;
    }
    w->value[kept] = (value){.at = at, .bytes = bytes, .moved = moved, .writer = cluster};
    w->values = kept + 1;
}

static void enter(tool_package_cluster *c, const bt_pkg_inst *i, uint64_t rows)
{
    if (!c->instructions++) {
        c->id = i->cluster;
        c->first = bt_pkg_op_name((bt_pkg_op)i->op);
        c->first_layer = i->layer;
    }
    c->last = bt_pkg_op_name((bt_pkg_op)i->op);
    c->last_layer = i->layer;
    c->macs += rows * i->macs_per_row;
}

size_t tool_package_clusters(tool_package_cluster **ret, const bt_pkg *p)
{
    const uint32_t largest = tool_package_largest(p);
    const bt_pkg_program *g = &bt_pkg_programs(p)[largest];
    const bt_pkg_inst *inst = bt_pkg_code(p, largest);
    walk w = {.value = calloc(2 * (size_t)g->insts + 1, sizeof *w.value),
              .cluster = calloc((size_t)g->clusters + 1, sizeof *w.cluster)};
    size_t clusters = 0;
    for (uint32_t n = 0; w.value && w.cluster && n < g->insts; n++) {
        const bt_pkg_inst *i = &inst[n];
        const uint64_t rows = bt_pkg_rows_of(i, g), bytes = rows * i->out_stride,
                       moved = bt_plan_device_bytes(&bt_pkg_header_of(p)->layout, g, i);
        const bool makes = bt_areas_makes_planes(i);
        reads(&w, i->in0, i->cluster);
        if (!makes) reads(&w, i->in1, i->cluster);
        writes(&w, i->out, bytes, moved, i->cluster);
        if (makes) writes(&w, i->in1, bytes, moved, i->cluster);
        if (!i->cluster) continue;
        enter(&w.cluster[i->cluster], i, rows);
        if (i->out == BT_PKG_NOWHERE) w.cluster[i->cluster].out_bytes += moved; /* the caller's logits */
    }
    free(w.value);
    *ret = NULL;
    if (!w.cluster) return 0;
    for (uint32_t c = 1; c <= g->clusters; c++)
        if (w.cluster[c].instructions) w.cluster[clusters++] = w.cluster[c];
    *ret = w.cluster;
    return clusters;
}
