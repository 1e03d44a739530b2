/* A group of linears over one input: describes for npu/run/int_linear.h what the instructions name, and runs
 * both its phases on the pool. */
#include "npu/run/exec_private.h"

/* The input of a group: of EXPERTS the rows of one expert. */
static void set_input(bt_exec_group *ret, const bt_exec_job *j, const bt_pkg_inst *i, uint32_t expert)
{
    const bt_exec_shadow shadow = bt_exec_job_shadow(j, i);
    const uint32_t *begin = j->routed.begin;
    const int8_t *hi = bt_exec_at(j, i->in0), *lo = bt_exec_at(j, i->in1);
    const size_t k = i->in_width;
    ret->first = bt_pkg_is_experts(i) ? begin[expert] : 0;
    ret->in = (bt_int_linear_input){.hi = hi + ret->first * i->in_stride,
                                    .lo = lo ? lo + ret->first * i->in_stride : NULL,
                                    .ld = i->in_stride,
                                    .rows = bt_pkg_is_experts(i) ? begin[expert + 1] - begin[expert]
                                                                 : bt_exec_linear_rows(j, i),
                                    .k = k,
                                    .shadow_count = shadow.count ? shadow.count + ret->first : NULL,
                                    .shadow = shadow.entry ? shadow.entry + ret->first * k : NULL};
}

bool bt_exec_group_begin(bt_exec_group *ret, bt_exec_job *j, const bt_pkg_inst *i, uint32_t expert,
                         const bt_int_linear_epilogue *epilogue)
{
    const bt_exec *x = j->x;
    *ret = (bt_exec_group){.epilogue = epilogue, .group = i->group};
    set_input(ret, j, i, expert);
    if (bt_pkg_is_experts(i) && !ret->in.rows) return false;
    for (size_t g = 0; g < ret->group; g++) {
        const bt_pkg_tensor *t = bt_exec_tensor(x, &i[g]);
        const bt_pkg_part p = bt_exec_linear_part(j, &i[g]);
        const size_t all = bt_int_panels(t->n);
        const uint8_t *panels =
            bt_exec_const_of(x, t->panels, expert, all * bt_int_panel_bytes(t->k, t->bits));
        const int32_t *colsum =
            bt_exec_const_of(x, t->colsum, expert, (t->group ? 2 : 1) * 16 * all * sizeof *colsum);
        ret->m[g] =
            (bt_int_linear_matrix){.panels = panels + p.first / 16 * bt_int_panel_bytes(t->k, t->bits),
                                   .colsum = colsum + p.first, .n = p.n, .bits = t->bits, .group = t->group};
        if (t->group) {
            const bt_int_group *groups =
                bt_exec_const_of(x, t->groups, expert, all * (t->k / t->group) * sizeof *groups);
            ret->m[g].groups = groups + p.first / 16 * (t->k / t->group);
            ret->m[g].colsum_high = colsum + 16 * all + p.first;
        }
        if (t->palette_run) {
            const int8_t *palettes =
                bt_exec_const_of(x, t->groups, expert, all * (t->k / t->palette_run) << t->bits);
            ret->m[g].palettes = palettes + (p.first / 16 * (t->k / t->palette_run) << t->bits);
            ret->m[g].palette_run = t->palette_run;
        }
        const size_t rows = bt_pkg_is_experts(i) ? ret->in.rows : bt_exec_rows(j, i);
        bt_exec_count_linear(j, &i[g], rows, bt_pkg_is_experts(i) ? rows : bt_exec_real_rows(j, i));
    }
    return true;
}

typedef struct group_job {
    const bt_companion *companion;
    bt_int_linear linear;
} group_job;

static void prepare_part(void *ud, size_t part, size_t parts)
{
    group_job *job = ud;
    (void)part, (void)parts;
    bt_int_linear_prepare(&job->linear);
}

static void group_part(void *ud, size_t part, size_t parts)
{
    group_job *job = ud;
    (void)parts;
    bt_int_linear_part(&job->linear, bt_companion_scratch(job->companion, part));
}

void bt_exec_group_run(const bt_exec_job *j, const bt_exec_group *group)
{
    const bt_companion *c = &j->x->companion;
    group_job job = {.companion = c, .linear = {.kernels = c->kernels, .m = group->m, .group = group->group,
                                                .paired = group->paired, .in = &group->in,
                                                .epilogue = group->epilogue, .prepared = j->x->prepared}};
    bt_companion_flush(c);
    bt_int_linear_begin(&job.linear, bt_pool_threads(c->pool));
    bt_pool_run(bt_companion_pool_for(c, group->in.rows * group->in.k), prepare_part, &job);
    bt_pool_run(c->pool, group_part, &job);
}

size_t bt_exec_group_scratch_bytes(const bt_pkg *pkg)
{
    size_t max_k = 0;
    const bt_pkg_tensor *t = bt_pkg_tensors(pkg);
    for (uint32_t n = 0; n < bt_pkg_header_of(pkg)->tensors.count; n++)
        if ((t[n].bits < 8 || t[n].group) && t[n].k > max_k) max_k = t[n].k;
    return bt_int_linear_scratch_bytes(max_k);
}

size_t bt_exec_group_prepared_bytes(const bt_pkg *pkg)
{
    const bt_pkg_header *h = bt_pkg_header_of(pkg);
    const bt_pkg_tensor *t = bt_pkg_tensors(pkg);
    size_t max = 0;
    for (uint32_t n = 0; n < h->tensors.count; n++) {
        const size_t narrow = bt_int_linear_prepared_bytes(h->max_seq, t[n].k, false);
        const size_t wide = bt_int_linear_prepared_bytes(h->max_seq, t[n].k, true);
        if (max < narrow) max = narrow;
        if (max < wide) max = wide;
    }
    return max;
}
